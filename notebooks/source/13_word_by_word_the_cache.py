# %% opening [markdown]
# # 13 · Word by word: the cache
#
# A chatbot writes its answer one word at a time, and you can watch the words appear. Each of them depends on the whole
# conversation: on your question, and on every word of the answer so far. Near the end of a long answer, that can be
# thousands of words. Yet the last word appears about as quickly as the first ones did. Why does one more word not cost
# a pass over the whole text?
#
# In this lesson you will let the model of lesson 12 write a text, and you will count how much work it repeats. You will
# store what can be used again and check, letter by letter, that the numbers stay the same. Then you will meet bugs that
# raise no error. You will also find out how much memory the store takes in well-known models, and what happens when a
# model forgets the beginning of its text.
#
# **You need** lesson 12, whose model we use, the masks and the leak test of lesson 3, and the heads of lesson 7.
#
# **You will be able to**
# - write text with a model, with and without a cache, and count the work,
# - say what a cache keeps, and why this is enough,
# - test a cache so that its typical bugs show up,
# - compute how many bytes the cache of a model takes, and name two ways to make it smaller.
#
# **Time:** 50 minutes in class, 85 alone. You may skip the sections marked "Further".

# %% setup
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import KeyValueCache, causal_mask, sequence_mask
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import CacheExplorer
from attnlab.looking_back import load_looking_back, make_texts, to_text, to_tokens

lesson_setup()

# %% writing [markdown]
# ## A model that writes
#
# The texts of lesson 12 are loops of letters that are played again and again. For each token, the model returns 27
# logits: one for each letter and one for the bar. It has two layers with one head each. To let it write, we give it the
# beginning of a text, the **prompt**. We run it, append the letter with the largest logit in the last row, and run it
# again on the longer text.

# %% write
model = load_looking_back()


def write(text, count):
    tokens = to_tokens(text)[None]  # (1, L)
    for _ in range(count):
        logits = model(tokens).logits  # (1, L, 27), from a whole pass
        best = logits[:, -1:].argmax(dim=-1)  # (1, 1): we use only the last row
        tokens = torch.cat([tokens, best], dim=1)
    return to_text(tokens[0])


write("KQZBMTARK", 23)

# %% rows [markdown]
# The model continues the loop without a mistake up to 32 tokens, which is all that this model can read. But look at the
# work. One run of the model over a text is called a *pass*, and every layer computes a query, a key and a value for
# each token in it. Everything that a pass computes for one token is called a *row*. The first pass has 9 rows, the next
# has 10, and the last has 31. That makes 460 rows for 23 letters, although we read only one row of each pass.
#
# Do we need the other rows again? We compare two passes. The first reads 20 letters, and the second the same 20 letters
# and one more. The logits of a row depend on everything that both layers have computed for it, so we compare them row
# by row.

# %% two-passes
tokens = to_tokens("KQZBMTARKQZBMTARKQZBM")[None]  # (1, 21)
shorter, longer = model(tokens[:, :20]).logits, model(tokens).logits

# %% ask-changes
predict("13/what-changes")

# %% see-changes
# %%answer 13/what-changes
change = (longer[:, :20] - shorter).norm(dim=-1)  # (1, 20): a number for each old row
(change > 1e-4).sum()

# %% frozen [markdown]
# ## Keep the keys and values
#
# No old row changes. The causal mask keeps every token from seeing later ones, in the first layer and therefore in all
# the others. Once a row has been computed, nothing that is written afterwards can alter it.
#
# So the new token needs only a row of its own. What does this row need from the old ones? In each layer, the query of
# the new token is compared with the keys of all tokens, and the output is an average of their values. Nothing else from
# the old rows is needed, because their queries have already done their work. So we keep the keys and values of each
# layer and append those of the new token. Such a store is a [**key-value cache**](glossary.ipynb#cache). (It has
# nothing to do with the cache of a processor in lesson 8.) For one head, the whole idea takes four lines. The cell
# below them tests it against a whole pass.


# %% by-hand
def attend_with_past(layer, x, keys, values):  # x: (1, 1, E), the new token
    keys = torch.cat([keys, layer.k_proj(x)], dim=1)  # (1, S, E)
    values = torch.cat([values, layer.v_proj(x)], dim=1)
    output = F.scaled_dot_product_attention(layer.q_proj(x), keys, values)
    return layer.out_proj(output), keys, values


# %% by-hand-test
layer, x = model.layers[0], torch.randn(1, 12, 64)
old = x[:, :-1]
last, *_ = attend_with_past(layer, x[:, -1:], layer.k_proj(old), layer.v_proj(old))
assert torch.allclose(last, layer(x, is_causal=True).output[:, -1:], atol=1e-5)

# %% cache-class [markdown]
# In attnlab, `KeyValueCache` does the appending, and a layer takes it as `layer(x, cache=cache)`. With a cache, a layer
# of attnlab is always causal: each new token sees itself and all tokens before it, so we pass no mask. Our model takes
# a list with one cache for each layer. In the next cell, the first call reads the whole prompt, and each later call
# reads a single letter. The line with `whole` and the one below it are a test, which a real program leaves out: at
# every step, the new row must give the same logits as a whole pass, up to rounding.


# %% write-with-cache
def write_with_cache(text, count):
    caches = [KeyValueCache() for _ in model.layers]
    new = to_tokens(text)[None]  # at first the whole prompt
    for _ in range(count):
        logits = model(new, caches).logits[:, -1:]
        whole = model(to_tokens(text)[None]).logits[:, -1:]  # only for the test
        assert torch.allclose(logits, whole, atol=1e-3)
        new = logits.argmax(dim=-1)  # (1, 1): then one token at a time
        text += to_text(new[0])
    return text, caches[0]


# %% write-it-with-cache
write_with_cache("KQZBMTARK", 23)

# %% phases [markdown]
# The text is the same. Reading the prompt is called [**prefill**](glossary.ipynb#prefill), and writing token by token
# is called **decoding**. The prefill computes 9 rows and gives us the first new letter. To get each of the other 22,
# the model reads the letter that it wrote last, and this takes one more row. That makes 31 rows in place of 460. (The
# last letter is never read, so the cache holds 31 tokens, and the text has 32.)
#
# One more token always takes one row, however long the text is. The number of scores in this row still grows, because
# the new query is compared with every key in the cache. But it grows in proportion to the length of the text, while the
# table of a whole pass grows with the square of the length.
#
# ### Step through a generation
#
# In the explorer, the model writes one letter at each step. The upper table, which is the same for both layers, shows
# which queries, keys and values are computed at a step and which are read from the cache. Compare the number of rows
# with and without a cache.

# %% explorer
CacheExplorer(cache=True, step=3)

# %% time-text [markdown]
# ## Does it save time?
#
# Our model reads only 32 tokens, so for longer texts we timed another one: four attention layers with 256 features and
# four heads, without MLPs. Its parameters are random, since they make no difference to the time. The figure shows what
# *one more token* costs in texts of different lengths. Each length includes the new token.

# %% time-figure jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
import seaborn as sns
from attnlab import data_path

times = pd.read_csv(data_path("cache_times.csv"))
drawn = times.melt("tokens", ["pass_us", "step_us"], "way", "time")
names = {"pass_us": "a pass over all tokens", "step_us": "one step with a cache"}
drawn = drawn.replace({"way": names}).assign(time=drawn["time"] / 1000)
_, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
look = {"style": "way", "markers": True, "dashes": False, "errorbar": ("pi", 100)}
sns.lineplot(drawn, x="tokens", y="time", hue="way", **look, ax=ax)
ax.set(xscale="log", yscale="log", xlabel="tokens in the text", ylabel="milliseconds")
stops = times["tokens"].unique()
ax.set_xticks(stops, [f"{n:,}" for n in stops])
ax.set_yticks([1, 10, 100], ["1", "10", "100"])
ax.minorticks_off()
ax.set_title("With a cache, one more token stays cheap")
ax.legend(title="")
show_figure(ax, "13.1")

# %% time-read [markdown]
# At 32 tokens, a step takes less than half the time of a pass. At 2,048, the pass takes about 50 times as long as the
# step.
#
# Up to 128 tokens, the step takes nearly the same time at every length, because the work that grows with the text is
# still a small part of it. At 2,048 tokens, the step takes about seven times as long as at 32. A large part of this
# rise comes from our simple cache, which copies itself at every step. Attention takes longer, too, because it reads
# every stored key and value. Two further costs are the same at every length: functions have to be called, and in a
# large model all parameters have to be fetched from memory. A prefill pays them once for all its rows, but decoding
# pays them for every single row. On a GPU, decoding mostly waits for memory. So programs with many users decode texts
# side by side, to share each fetch (Shazeer, 2019; Pope et al., 2022).
#
# ## Two tests
#
# A cache takes only a few lines of code, but each of them can be wrong without raising an error. There are two tests:
#
# - **Comparison.** The rows computed with a cache must equal those of a whole pass.
# - **Leak test** (lesson 3). We take only its first half: if we change the last token, the rows before it must not
#   move.
#
# The comparison needs code that is known to be correct, and the leak test does not. Is this half of the leak test
# enough?
#
# ## Bugs 1 and 2: the wrong corner, and no mask
#
# **Bug 1.** A single new query is the last one, so it may see everything and needs no mask. It is tempting to write
# `is_causal=True`, as in training. But PyTorch aligns this mask at the *upper left* corner: the first query may see
# only the first key, whichever tokens they belong to (lesson 3). With a cache, the last query belongs to the last key,
# so the mask must be aligned at the *lower right*. **Bug 2.** When a user asks a second question, several new tokens
# come at once. Then a mask is needed, but a program for single tokens never had to supply one.
#
# Suppose that the cache holds 8 tokens and 3 new ones arrive. We take random queries, keys and values of one head. First
# we give `is_causal=True` to the last query alone, and compare its output with the value of the very first token.

# %% some-tokens
torch.manual_seed(0)
q, k, v = torch.randn(3, 1, 1, 11, 16)  # (N, H, S, E) each
whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
new = q[:, :, 8:]  # the last three queries; k and v hold all eleven

# %% one-query
alone = F.scaled_dot_product_attention(q[:, :, -1:], k, v, is_causal=True)
torch.allclose(alone, v[:, :, :1])  # does the last token see only the first one?


# %% leak-test
def leaks(new, k, v, mask):
    k2, v2 = k.clone(), v.clone()
    k2[..., -1, :], v2[..., -1, :] = 5.0, 5.0  # a different last token
    before = F.scaled_dot_product_attention(new, k, v, attn_mask=mask)
    after = F.scaled_dot_product_attention(new, k2, v2, attn_mask=mask)
    return not torch.allclose(before[..., :-1, :], after[..., :-1, :])


# %% masks
upper_left = causal_mask(3, 11)  # as is_causal=True does it
no_mask = torch.ones(3, 11).bool()
lower_right = causal_mask(3, 11, align="lower_right")
print(upper_left.int(), lower_right.int(), sep="\n")

# %% ask-leak
predict("13/which-mask-leaks")

# %% see-leak
# %%answer 13/which-mask-leaks
masks = {"upper left": upper_left, "no mask": no_mask, "lower right": lower_right}
for name, mask in masks.items():
    output = F.scaled_dot_product_attention(new, k, v, attn_mask=mask)
    same = torch.allclose(output, whole[:, :, 8:], atol=1e-5)
    print(f"{name:12} leaks: {leaks(new, k, v, mask)!s:6} equals a pass: {same}")

# %% leak-read [markdown]
# ### What each test finds
#
# Our half of the leak test finds rows that see the changed token too early. It cannot find a mask that hides too much,
# because what a token does not see cannot leak to it. For that you need the other half of the leak test: change each
# earlier token, and every row that should see it must move. The comparison finds both bugs at once, and also the next
# one, which neither half finds. So **compare all new rows with those of a whole pass**, in calls where these bugs can
# show. The cache must not be empty: in a prefill there are as many queries as keys, so both corners give the same mask.
# And try several new tokens as well as one, because a single new token needs no mask.
#
# ## Bug 3: positions counted from 0 again
#
# Each token enters our model with a letter and a place (lesson 12). So far, the model has counted the places for us,
# from the length of its cache. Suppose that a program counts them itself and begins at 0 in each call. Then every new
# letter gets place 0, because each is read in a call of its own. We write out the forward pass of lesson 12, so that
# the places can be set from outside.


# %% read
def read(tokens, caches, places, attn_mask=None):
    x = model.symbol(tokens) + model.position(places)
    for norm, layer, cache in zip(model.norms, model.layers, caches, strict=True):
        x = x + layer(norm(x), cache=cache, attn_mask=attn_mask).output
    return model.guess(model.last_norm(x))


# %% continue-text
def continue_text(prompt, counting=True, count=14):
    caches = [KeyValueCache() for _ in model.layers]
    text = ""
    logits = read(to_tokens(prompt)[None], caches, torch.arange(len(prompt)))
    for _ in range(count):
        new = logits[:, -1:].argmax(dim=-1)
        text += to_text(new[0])
        place = caches[0].length if counting else 0
        logits = read(new, caches, torch.tensor([place]))
    return text


# %% see-places
for prompt in ("KQZBMTARK", "KQZ"):
    with_places, without = continue_text(prompt), continue_text(prompt, counting=False)
    print(f"{prompt:9} + {with_places}   {without}")

# %% places-read [markdown]
# After each prompt you see the new letters, first with correct places and then with place 0 for each of them. With the
# first prompt, wrong places do no visible harm. This model writes its notes in the first half of a text (lesson 12),
# and this prompt contains the whole loop, so all notes have been written by the time the bug sets in. After `KQZ` the
# model can only guess, and it happens to guess K. Q and Z follow, because their notes are in the prompt. But the new Z
# asks what came after the earlier Z. That is the new K, and it needs the note *"the letter before me is Z"*. The first
# layer finds the preceding token by its place. The K claims to be at place 0, so its note comes from other tokens, and
# the text breaks down.
#
# A text that looks fine does not prove a cache correct: with most prompts of three letters, too, the bug does not
# change the text. The comparison finds the bug: even with the first prompt, the logits of the first new row differ from
# those of a whole pass.
#
# **Bug 4**, a batch of prompts of different lengths without a mask for the padding, is shown in the first section marked
# "Further".
#
# ## How large is a cache?
#
# For every token, each layer keeps one key and one value for each head. So a cache takes
#
# $$2 \cdot \text{layers} \cdot \text{heads} \cdot \text{head\_dim} \cdot \text{bytes per number}$$
#
# for each token of each text. Llama 2 7B is a language model with 32 layers and 32 heads of 128 features. It reads up
# to 4,096 tokens. Such models usually store each number in 2 bytes.

# %% ask-bytes
predict("13/bytes-of-a-cache")

# %% see-bytes jupyter={"source_hidden": true}
# %%answer 13/bytes-of-a-cache
models = pd.DataFrame(
    {  # layers, query heads, key-value heads, head_dim, tokens that are kept
        "GPT-2": (12, 12, 12, 64, 1024),
        "Llama 2 7B": (32, 32, 32, 128, 4096),
        "Llama 3 8B": (32, 32, 8, 128, 8192),
        "Mistral 7B": (32, 32, 8, 128, 4096),
    },
    index=["layers", "heads", "kv heads", "head_dim", "tokens"],
).T
per_token = 2 * models["layers"] * models["kv heads"] * models["head_dim"] * 2
models["KiB per token"] = per_token // 2**10
models["MiB in all"] = per_token * models["tokens"] // 2**20
models

# %% bytes-read [markdown]
# ### What the cache costs
#
# The table assumes 2 bytes per number for all four models, and the column *tokens* gives the largest number of tokens
# that the cache keeps. In the last two models, several query heads share one head for keys and values (a *kv head*),
# and only the kv heads count. A full cache of Llama 2 7B takes 2 GiB for one text. The parameters of this model take
# about 12.6 GiB, so seven long texts side by side need more memory than the model itself. At every step, all of this
# has to be read.
#
# ## Grouped heads
#
# In the last two models, four query heads share each key and each value, so the cache is a quarter as large as it would
# be with 32 kv heads. These are [grouped heads](glossary.ipynb#grouped-heads). In attnlab they are an option of the
# layer: `MultiHeadAttention(512, 32, num_kv_heads=8)`. Sharing costs some quality. Ainslie et al. (2023) converted
# trained models to grouped heads, trained them for another 5% of the original steps, and reported nearly the quality of
# separate heads. The second section marked "Further" shows how the grouping can go wrong.
#
# ## A window
#
# Mistral 7B, as first published, limits its cache in another way, too. In each layer, a token sees only the last 4,096
# tokens, so older keys and values can be dropped. In attnlab this is `KeyValueCache(window=4096)`, where the window
# includes the token itself. Is it safe to drop the oldest tokens?
#
# Let us try it with the model of lesson 12. It was trained without a window. Of its 32 tokens, each may now see 20 at
# most: either the last 20, or the first 16 and the last 4. At places 20 to 31, wherever the next letter can be known
# from the text, we measure the share of correct guesses.


# %% window
def share_correct(texts, allowed, first=20):
    tokens, known = texts
    no_caches = [None] * len(model.layers)  # in one pass, to hide a token is to drop it
    mask = allowed & causal_mask(32)
    logits = read(tokens[:, :-1], no_caches, torch.arange(32), mask)
    correct = logits.argmax(dim=-1) == tokens[:, 1:]
    return correct[:, first:][known[:, first:]].float().mean().round(decimals=2)


# %% window-texts
torch.manual_seed(2)
texts = make_texts(1000)
i, j = torch.arange(32)[:, None], torch.arange(32)

# %% ask-window
predict("13/what-to-drop")

# %% see-window
# %%answer 13/what-to-drop
print("all tokens          ", share_correct(texts, j <= i))
print("the last 20         ", share_correct(texts, i - j < 20))
print("first 16 and last 4 ", share_correct(texts, (j < 16) | (i - j < 4)))

# %% window-read [markdown]
# ### What the old tokens are for
#
# This model needs the first half of its text, because its notes are there. What can be dropped depends on what the
# model has learned. A model that is trained with a window can learn to do without the rest.
#
# ### The first token
#
# Large language models have one more reason to keep the beginning. Many heads give much of their weight to the very
# first tokens, whatever these are, as in the [attention sink](glossary.ipynb#attention-sink) that you met in lesson 10.
# The usual explanation is that the weights of a row must add up to 1, even if a head has nothing to look for. If a
# window drops the sink, this weight falls on other tokens. Their values then make up much of the output, although in
# training they hardly entered it. Xiao et al. (2023) tried language models of four families. All four predicted worse
# as soon as the first tokens had left the window, and two of them became unusable. With the first four tokens kept,
# they again predicted nearly as well as before, though what was dropped stayed forgotten.
#
# We cannot run a large language model here, but we can hide tokens from the trained encoder, whose first layer you took
# apart in lesson 10. It has six layers and a marker, `[CLS]`, at the beginning of each sentence. For each of the 35
# sentences with "bank", we hide one token at a time from all the others, in all layers, and ask how far the vectors of
# the words move.

# %% sink-figure jupyter={"source_hidden": true}
hidden = pd.read_csv(data_path("hidden_keys.csv"))
hidden["kind"] = "another word"
hidden.loc[hidden["place"] == 1, "kind"] = "the first word"
hidden.loc[hidden["token"] == "[CLS]", "kind"] = "[CLS], the first token"
hidden.loc[hidden["token"] == "[SEP]", "kind"] = "[SEP], the last token"
kinds = [
    "[CLS], the first token",
    "the first word",
    "another word",
    "[SEP], the last token",
]
_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
look = {"order": kinds, "hue_order": kinds, "size": 2.6}
sns.swarmplot(hidden, x="change", y="kind", hue="kind", **look, ax=ax)
ax.set(xlim=(0, 1), ylabel="", xlabel="how far the words move")
ax.set_title("In every sentence, hiding [CLS] has the largest effect")
show_figure(ax, "13.2")

# %% sink-read [markdown]
# In all 35 sentences, hiding `[CLS]` moves the words further than hiding any other token, although `[CLS]` is not a
# word. This encoder writes no text, so the figure does not show what happens in a language model. It shows how much a
# trained model can depend on a first token that carries no meaning of its own.
#
# ## Why one more word is cheap
#
# Under a causal mask, old rows never change, so their keys and values can be stored. One more word then costs one row:
# its own query against all stored keys. The price is memory, which grows with every token. The risk is a mistake that
# does not show in the text. A comparison of all new rows with whole passes finds the three bugs above, if the cache is
# not empty and new tokens arrive both one at a time and several at once.

# %% further-batch [markdown]
# ## Further: a batch of prompts
#
# To decode several texts side by side, we put their prompts into one tensor, so the shorter ones have to be padded to
# the same length. We put the padding on the *left*, so that all prompts end in the same column, where the new tokens
# are appended. Many programs pad with token 0, which is the letter A here. Two things have to be done for the shorter
# prompts. Their padding must be masked, in every call and not only during prefill, and their places must be counted
# from their own first letter.


# %% batch
def continue_batch(prompts, masked, counted, count=14):
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    width = max(map(len, prompts))
    new = torch.stack([to_tokens(prompt.rjust(width, "A")) for prompt in prompts])
    # True for tokens that are real or will be written; mirrored, as we pad on the left
    padded_right = sequence_mask(lengths + count, width + count)
    real = padded_right.flip(-1)[:, None, None]
    # how much padding stands before the first letter of each prompt, (N, 1)
    shift = (width - lengths)[:, None] if counted else 0
    caches, texts = [KeyValueCache() for _ in model.layers], [""] * len(prompts)
    for _ in range(count):
        at = caches[0].length + torch.arange(new.shape[1])
        mask = real[..., : at[-1] + 1] if masked else None  # (N, 1, 1, S)
        places = (at - shift).clamp(min=0)  # those of the padding do not matter
        logits = read(new, caches, places, mask)
        new = logits[:, -1:].argmax(dim=-1)
        texts = [text + to_text(one) for text, one in zip(texts, new, strict=True)]
    return texts


# %% batch-text [markdown]
# We let the model continue `MILKSHAM` together with a prompt that is ten letters longer: first with neither the mask
# nor the corrected places, then with one of them, and finally with both.

# %% see-batch
pair = ["MILKSHAM", "ABCDEFGHIJKLMNABCD"]
print("alone          ", [continue_text(prompt) for prompt in pair])
for name, how in {
    "neither": (False, False),
    "mask": (True, False),
    "places": (False, True),
    "mask and places": (True, True),
}.items():
    print(f"{name:15}", continue_batch(pair, *how))

# %% further-grouped [markdown]
# Only with both does the short prompt get the text that it gets alone. The longer prompt has no padding, so its text is
# correct in all four cases. A test in which all prompts have the same length finds nothing.
#
# ## Further: grouped heads in the wrong order
#
# To compute grouped heads, each kv head is repeated for its group. Here we have four query heads and two kv heads. The
# first two query heads belong to kv head 0, and the last two to kv head 1.

# %% grouped
torch.manual_seed(0)
query = torch.randn(1, 4, 7, 16)  # (N, query heads, L, E)
key, value = torch.randn(2, 1, 2, 7, 16)  # (N, kv heads, L, E) each
ways = {
    "repeat_interleave": lambda t: t.repeat_interleave(2, dim=1),
    "repeat": lambda t: t.repeat(1, 2, 1, 1),
}


# %% grouped-attention
def grouped_attention(way):
    every_key, every_value = way(key), way(value)  # four heads each
    return F.scaled_dot_product_attention(query, every_key, every_value, is_causal=True)


# %% ask-repeat
predict("13/repeat-or-interleave")

# %% see-repeat
# %%answer 13/repeat-or-interleave
torchs = F.scaled_dot_product_attention(
    query, key, value, is_causal=True, enable_gqa=True
)
for name, way in ways.items():
    output = grouped_attention(way)
    same = torch.allclose(output, torchs, atol=1e-5)
    print(f"{name:18} {tuple(output.shape)}  equals torch's: {same}")
heads = torch.arange(2)
print(heads.repeat_interleave(2).tolist(), heads.repeat(2).tolist())

# %% repeat-read [markdown]
# The last line shows which kv head each query head gets: 0, 0, 1, 1 in one case and 0, 1, 0, 1 in the other. Shapes,
# the causal mask and the sums of the weights are correct in both. A model that is trained with either order works with
# it. But if it is loaded into a program with the other order, two of these four heads get the wrong keys and values. It
# is the same trap as the two layouts of rotary positions in lesson 11.

# %% remember [markdown]
# ## What to remember
#
# - A causal mask freezes the past: a new token changes no earlier row in any layer. So keys and values can be kept, and
#   one more token costs one row instead of a pass.
# - Prefill reads the whole prompt in one pass. Decoding reads one token at a time and fetches all parameters for it.
# - With $L$ new queries and $S$ keys, the causal mask belongs at the lower right corner. `is_causal=True` puts it at the
#   upper left.
# - To test a cache, compare all new rows with those of a whole pass over each text on its own. Start from a cache that
#   is not empty, once with one new token and once with several. A leak test that changes only the last token finds too
#   little.
# - A cache takes 2 · layers · kv heads · head_dim numbers for each token. Grouped heads and windows make it smaller;
#   which tokens can be dropped depends on the training.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (3 minutes)
#
# Llama 2 70B has 80 layers and 64 heads of 128 features. Eight query heads share one kv head, and a number takes two
# bytes. How many KiB does its cache take for one token?
#
# <details><summary>Hint</summary>
#
# How many kv heads does a layer have? For each of them, two vectors are kept.
# </details>

# %%
from attnlab.exercises import check_bytes_of_a_token, check_mended_decoding
from attnlab.exercises import check_window_with_sinks, check_windowed_keys


# %% tags=["exercise"]
def bytes_of_a_token():
    """Return the number of KiB."""


# %%
check_bytes_of_a_token(bytes_of_a_token)


# %% tags=["solution"] jupyter={"source_hidden": true}
def bytes_of_a_token_solution():
    return 2 * 80 * 8 * 128 * 2 / 1024


check_bytes_of_a_token(bytes_of_a_token_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (6 minutes)
#
# Write a function that updates the keys of a cache with a window. (It returns only what is kept for later calls. When
# several new tokens arrive at once, they attend first, and only then are the oldest keys dropped.) `kept` has the shape
# (N, H, tokens, E) and may be empty, `new` holds one or more new tokens, and `window` (at least 1) is the largest
# number of tokens that may stay.
#
# <details><summary>Hint</summary>
#
# The tokens run along the last dimension but one. A negative start in a slice counts from the end.
# </details>


# %% tags=["exercise"]
def windowed_keys(kept, new, window):
    """The keys that are kept now: (N, H, at most window, E)."""


# %%
check_windowed_keys(windowed_keys)


# %% tags=["solution"] jupyter={"source_hidden": true}
def windowed_keys_solution(kept, new, window):
    return torch.cat([kept, new], dim=-2)[..., -window:, :]


check_windowed_keys(windowed_keys_solution)

# %% exercise-3 [markdown]
# ### 3 · Modify ★★ (8 minutes)
#
# Change a causal window so that the first tokens stay visible. In the mask (L, L), each token sees itself and the
# `window - 1` tokens before it, and also the first `sinks` tokens, but no token after itself.
#
# <details><summary>Hint</summary>
#
# Write three boolean conditions on $i$ and $j$. Two of them are joined by *or*, and the third applies to both.
# </details>


# %% tags=["exercise"]
def window_with_sinks(length, window, sinks):
    """bool (L, L), True where token i may see token j."""


# %%
check_window_with_sinks(window_with_sinks)


# %% tags=["solution"] jupyter={"source_hidden": true}
def window_with_sinks_solution(length, window, sinks):
    i, j = torch.arange(length)[:, None], torch.arange(length)
    return (j <= i) & ((i - j < window) | (j < sinks))


check_window_with_sinks(window_with_sinks_solution)

# %% exercise-4 [markdown]
# ### 4 · Repair ★★★ (10 minutes)
#
# `broken` computes attention for new queries (N, H, L, E), given the keys and values (N, kv heads, S, E) of a cache
# that already contains the new tokens. Neighbouring query heads share a kv head: with four query heads and two kv
# heads, the first two belong to kv head 0 and the last two to kv head 1. The function has two bugs. Write `mended`, for
# any number of new queries.
#
# <details><summary>Hint</summary>
#
# Try it with one kv head, and compare with a whole pass. Then try several: which kv head does query head 1 get from
# <code>repeat</code>? The second section marked "Further" has a function to compare with.
# </details>


# %% tags=["exercise"]
def broken(query, key, value):
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat(1, group, 1, 1), value.repeat(1, group, 1, 1)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def mended(query, key, value):
    """The output of the new queries: (N, H, L, E)."""


# %%
check_mended_decoding(mended)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_solution(query, key, value):
    group = query.shape[1] // key.shape[1]
    key, value = (t.repeat_interleave(group, dim=1) for t in (key, value))
    mask = causal_mask(query.shape[2], key.shape[2], align="lower_right")
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


check_mended_decoding(mended_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★★ (6 minutes)
#
# A friend has added a cache to her program. Its texts look fine, and it passes her two tests: prompts of equal length
# give the same first letter as before, and a leak test on a prompt finds nothing. Which bugs could she still have? Name
# two, and for each a test that would find it.
#
# <details><summary>An answer</summary>
#
# The first letter after a prompt comes from the prefill, where the cache is empty, so nothing that happens later has
# been tested. The places could begin at 0 again: comparing the logits at every step with those of a whole pass would
# find this. When a second question brings several tokens at once, their mask could be missing: she should compare all
# new rows of such a call, since single tokens need no mask. Prompts of equal length need no padding, so a missing
# padding mask would not show either: she should compare a padded batch with each prompt run by itself.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# PyTorch has no cache of its own: `F.scaled_dot_product_attention(q, k, v)` takes the keys and values that you have
# appended. For one new query without padding it needs no mask. For several, pass
# `torch.nn.attention.bias.causal_lower_right(L, S)` as `attn_mask`; pass `is_causal=True` instead only if the cache was
# empty. With `enable_gqa=True`, `k` and `v` may have fewer heads, in the order of `repeat_interleave`. Hugging Face
# models take and return `past_key_values`; there, pad on the left and pass the `attention_mask` of the whole text; in a
# loop of your own, pass `position_ids` as well.

# %% sources [markdown]
# ## Sources
#
# - Pope et al., [Efficiently Scaling Transformer Inference](https://arxiv.org/abs/2211.05102), 2022: prefill, decoding,
#   and what limits the speed of each.
# - Shazeer, [Fast Transformer Decoding: One Write-Head is All You Need](https://arxiv.org/abs/1911.02150), 2019: why
#   decoding waits for memory, and a single kv head for all query heads.
# - Ainslie et al., [GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
#   Checkpoints](https://arxiv.org/abs/2305.13245), 2023: grouped heads.
# - Jiang et al., [Mistral 7B](https://arxiv.org/abs/2310.06825), 2023: a window with a cache that rolls.
# - Xiao et al., [Efficient Streaming Language Models with Attention Sinks](https://arxiv.org/abs/2309.17453), 2023: what
#   happens when the first tokens leave the window.
# - The sizes in the table are those of the models' public configurations: Radford et al., 2019 (GPT-2, the smallest),
#   [Touvron et al.](https://arxiv.org/abs/2307.09288), 2023 (Llama 2), [Grattafiori et
#   al.](https://arxiv.org/abs/2407.21783), 2024 (Llama 3, as first released), and Jiang et al., 2023.
# - The times and the effects of hiding tokens are our own measurements.

# %% next [markdown]
# ## Next
#
# [14 · Where a meaning appears](14_where_a_meaning_appears.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.** Writing and counting: 8. Keys and values, by hand and with the class: 9. Explorer and times: 10. The
# masks: 8. The places: 4. Bytes and groups: 6. The window and the answer: 5. Set "Further" as homework.
#
# **Where a class stalls.** *"Why not keep the queries too?"* Ask who would read them: a query is used once, by its own
# token. *"But the meaning of a word depends on what follows":* in a causal model it does not; the later word reads the
# earlier one, and never the other way round. *"A leak test proves a mask correct":* let the class find a mask that hides
# everything and ask what the test says of it. Let a student play each token of `KQZBMTARK` and hold up a key and a value;
# a new student asks once and then joins the row.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** A model with a cache writes one more word. How many rows are computed? **A single one.** *All of them, because
# the text has changed:* under a causal mask nothing flows back.
#
# **2.** Two new tokens come after ten old ones. Which keys does the first of the two see? **Eleven: the old ones and
# itself.** *One:* this is what `is_causal=True` gives. *Twelve:* this is what you get without a mask.
#
# **3.** You change the last token, and no earlier row moves. Is the cache correct? **We do not know.** *Yes:* a mask
# that hides too much does not leak.
#
# **4.** A model with 32 heads is rebuilt with 8 kv heads. What becomes smaller? **The cache and the matrices for keys
# and values: each shrinks to a quarter of its size.** *The number of scores:* there are still 32 tables.
#
# **5.** A window of 4,096 tokens is added to a model that was trained without one. What can go wrong? **It may need the
# tokens that are dropped, the first one above all.** *Nothing, because old words hardly matter:* how far away a token
# is does not say how much the model uses it.
# </details>
