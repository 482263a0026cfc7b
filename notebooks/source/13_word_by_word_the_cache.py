# %% opening [markdown] above="Why does one more"
# # 13 · Word by word: the cache
#
# A chatbot writes its answer one word at a time, and you can watch the words appear.
# Each of them depends on the whole conversation: on your question,
# and on every word of the answer so far.
# Near the end of a long answer, that can be thousands of words.
# Yet the last word appears about as quickly as the first ones did.
# Why does one more word not cost another reading of the whole text?
#
# **You need:** [lesson 12](12_two_layers_that_look_back.ipynb), whose model we use,
# and from [lesson 8](08_what_attention_costs_and_how_to_pay_less.ipynb) what slow memory is.
#
# **You will be able to:** write text with a model, with and without a cache, and count the work;
# say what a cache keeps and why this is enough; test a cache so that its typical bugs show;
# compute its size; and name two ways to make it smaller.
#
# **Time:** 50 minutes in class, or 85 on your own with the exercises.
# “Further” takes another 10.

# %% setup
from functools import partial

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
import torch
import torch.nn.functional as F

from attnlab import Table, causal_mask, sliding_window_mask
from attnlab.display.table import data_path
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import CacheExplorer
from attnlab.models.looking_back import followers, load_looking_back, make_texts
from attnlab.models.looking_back import to_text, to_tokens
from attnlab.models.pretrained import load_encoder

lesson_setup()

# %% writing [markdown]
# ## A model that writes
#
# In the texts of lesson 12, a loop of letters is repeated over and over,
# and a bar marks where it jumps.
# For each token, the model of that lesson returns 27 logits:
# one for each letter and one for the bar.
# We write its forward pass once more, so that we can choose the mask of each layer.
# It computes in float64, so that rounding cannot look like a change.

# %% whole-pass
model = load_looking_back().double()
causal = causal_mask(32)  # (32, 32): the model reads 32 tokens at most


def whole_pass(tokens, masks=(causal, causal)):  # (N, L) -> (N, L, 27)
    L = tokens.shape[1]
    x = model.symbol(tokens) + model.position.weight[:L]  # (N, L, E)
    for norm, layer, mask in zip(model.norms, model.layers, masks, strict=True):
        x = x + layer(norm(x), attn_mask=mask[:L, :L]).output
    return model.guess(model.last_norm(x))


# %% prompt [markdown]
# To let the model write, we give it the beginning of a text, the **prompt**.
# We run the model, append the letter with the largest logit in the last row,
# and run it again on the longer text.
# One run of the model over a text is called a *pass*,
# and what a pass computes for one token is called a *row*.
# We count the rows.


# %% write
def write(text, count):
    tokens, rows = to_tokens(text)[None], 0  # (1, L)
    for _ in range(count):
        logits = whole_pass(tokens)  # (1, L, 27)
        rows += tokens.shape[1]
        best = logits[:, -1:].argmax(dim=-1)  # (1, 1): we use only the last row
        tokens = torch.cat([tokens, best], dim=1)
    return to_text(tokens[0]), rows


write("KQZBMTARK", 23)

# %% rows [markdown] above="That makes 460 rows"
# The model continues the loop without a mistake.
# But look at the work: the first pass has 9 rows, the next has 10, and the last has 31.
# That makes 460 rows for 23 letters, although we read only one row of each pass.
#
# Do the other rows change at all?
# We compare two passes.
# The first reads 20 letters, and the second reads the same 20 letters and one more.


# %% changed-rows
def changed_rows(masks):
    tokens = to_tokens("KQZBMTARKQZBMTARKQZBM")[None]  # (1, 21)
    change = whole_pass(tokens, masks)[:, :20] - whole_pass(tokens[:, :20], masks)
    return (change.norm(dim=-1) > 1e-10).sum().item()


changed_rows([causal, causal])

# %% ask-changes [markdown] above="With a causal mask"
# With a causal mask in both layers, none of the 20 old rows changes.
# Would the mask of the first layer be enough?

# %% ask-one-mask
predict("13/one-mask")

# %% see-changes
# %%answer 13/one-mask
see_all = torch.ones(32, 32, dtype=torch.bool)
changed_rows([causal, see_all]), changed_rows([see_all, causal])

# %% frozen [markdown] above="If either mask is" answers="13/one-mask"
# If either mask is missing, all 20 old rows change, so every layer needs its own.
# In each layer, a causal mask keeps a token from seeing later ones.
# What the token does see was computed, in the layer before, under the same mask.
# Everything else in the model handles each token by itself.
# Therefore nothing that is written later can change a row.

# %% keep-the-keys-and-values [markdown]
# ## Keep the keys and values
#
# So the new token needs only a row of its own.
# What does this row need from the old tokens?

# %% new-row jupyter={"source_hidden": true}
from attnlab.palette import BLUE, ORANGE

letters = "KQZBMTARKQ"
_, ax = plt.subplots(figsize=(4.8, 4.5), layout="constrained")
for i in range(len(letters)):
    for j in range(i + 1):
        last = i == len(letters) - 1
        ax.add_patch(
            plt.Rectangle((j, i), 0.9, 0.9, color=ORANGE if last else "#dddddd")
        )
ax.set(xlim=(-0.2, 10), ylim=(10, -2.1), aspect="equal", anchor="W")
ax.set(xlabel="keys and values", ylabel="queries")
ax.set_xticks([j + 0.45 for j in range(10)], letters)
ax.set_yticks([i + 0.45 for i in range(10)], letters)
for j in range(len(letters)):
    color = ORANGE if j == len(letters) - 1 else BLUE
    ax.add_patch(plt.Rectangle((j, -1.3), 0.9, 0.9, color=color))
above = {"ha": "center", "va": "bottom"}
ax.text(4.45, -1.45, "keys and values from the cache", color=BLUE, **above)
ax.text(9.45, -1.45, "new", color=ORANGE, **above)
ax.spines[:].set_visible(False)
ax.tick_params(length=0)
ax.set_title("One new row against all old keys and its own", pad=12)
show_figure(ax, "13.1")

# %% keep [markdown] above="No old query is"
# In each layer, the query of the new token is compared with the keys of all tokens,
# and the output is an average of their values.
# No old query is needed again.
# So each layer keeps its keys and values, and appends those of the new tokens.
# Such a store is a [**key-value cache**](glossary.ipynb#cache).


# %% cache-class
class Cache:  # of one layer
    def __init__(self):
        self.length = 0

    def append(self, k, v):  # (N, L, E) each, of the new tokens
        if self.length > 0:
            k = torch.cat([self.k, k], dim=1)  # (N, S, E): the old ones and the new
            v = torch.cat([self.v, v], dim=1)
        self.k, self.v, self.length = k, v, k.shape[1]
        return k, v


# %% attend-text [markdown]
# A layer now gets the vectors of the new tokens alone.
# It appends their keys and values, and their queries attend to what the cache then holds,
# as far as the mask allows.
# (Each layer of our model has one head, so nothing needs to be split.)


# %% attend
def attend(layer, x, cache, mask):  # x: (N, L, E), the new tokens
    q = layer.q_proj(x)  # (N, L, E)
    k, v = cache.append(layer.k_proj(x), layer.v_proj(x))  # (N, S, E)
    return layer.out_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


def new_rows(tokens, caches, positions, mask):  # (N, L) -> (N, L, 27)
    x = model.symbol(tokens) + model.position(positions)  # (N, L, E)
    for norm, layer, cache in zip(model.norms, model.layers, caches, strict=True):
        x = x + attend(layer, norm(x), cache, mask)
    return model.guess(model.last_norm(x))


# %% read-text [markdown]
# Two things depend on how many tokens the cache holds.
# The positions of the new tokens start where the old ones end.
# And the mask has a row for each new token and a column for each old or new one:
# a new token sees all old tokens, the new ones before it, and itself.


# %% read
def read(tokens, caches):  # the new tokens: (N, L)
    L, old = tokens.shape[1], caches[0].length
    positions = old + torch.arange(L)
    mask = causal_mask(L, old + L, align="lower_right")  # (L, S): the last row sees all
    return new_rows(tokens, caches, positions, mask)


# %% write-text [markdown]
# The first call reads the prompt, and each later call reads the letter that was written last.


# %% write-with-cache
def write_with_cache(tokens, count, read=read):  # (N, L) -> (N, count)
    caches, written = [Cache() for _ in model.layers], []
    for _ in range(count):
        logits = read(tokens, caches)
        tokens = logits[:, -1:].argmax(dim=-1)  # (N, 1): the next letter
        written.append(tokens)
    return torch.cat(written, dim=1)


prompt = to_tokens("KQZBMTARK")[None]
to_text(write_with_cache(prompt, 23)[0])

# %% phases [markdown] above="That makes 31 rows" below="In the explorer, the"
# The text is the same.
# Reading the prompt is called [**prefill**](glossary.ipynb#prefill),
# and writing token by token is called **decoding**.
# The prefill computes 9 rows and gives us the first new letter.
# Each of the other 22 letters takes one more row.
# That makes 31 rows in place of 460.
#
# In the explorer, the model writes one letter in each pass.
# A number says in which pass a query, key or value was computed; hatched ones are not kept.
# Which keys does pass 7 read, and from which passes do they come?

# %% explorer
CacheExplorer(cache=True, step=3)

# %% time-text [markdown]
# ## Does it save time?
#
# Our model reads only 32 tokens, so for longer texts we timed another one:
# four attention layers with 256 features and random parameters.

# %% time-figure jupyter={"source_hidden": true}
times = pd.read_csv(data_path("cache_times.csv"))
drawn = times.melt("tokens", ["pass_us", "step_us"], "way", "time")
names = {"pass_us": "a pass over all tokens", "step_us": "one step with a cache"}
drawn = drawn.replace({"way": names}).assign(time=drawn["time"] / 1000)
_, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
look = {"style": "way", "markers": True, "dashes": False, "errorbar": ("pi", 100)}
look |= {"hue": "way", "palette": [ORANGE, BLUE]}  # as in the explorer
sns.lineplot(drawn, x="tokens", y="time", **look, ax=ax)
ax.set(xscale="log", yscale="log", xlabel="tokens in the text", ylabel="milliseconds")
stops = times["tokens"].unique()
ax.set_xticks(stops, [f"{n:,}" for n in stops])
ax.set_yticks([1, 10, 100], ["1", "10", "100"])
ax.minorticks_off()
ax.set_title("At 2,048 tokens, a pass takes 50 times as long as a step")
ax.legend(title="")
show_figure(ax, "13.2")

# %% time-read [markdown] above="At 2,048 tokens, it"
# At 32 tokens, a pass takes about twice as long as a step.
# At 2,048 tokens, it takes about 50 times as long.
#
# But a step gets slower, too: at 2,048 tokens, it takes seven times as long as at 32.
# A chatbot hardly slows down like this.
# We shall see why when we know how large a cache is.
#
# ## Four bugs that raise no error
#
# Here are four mistakes that are easily made with a cache.
# None of them affects the prompt: they show only once the cache holds something.
#
# - **Wrong corner:** `is_causal=True` is passed, as in training.
#   But PyTorch aligns this mask at the *upper left* corner,
#   where the first new query sees only the first key of the text.
#   With a cache, it belongs at the *lower right*.
# - **No mask:** the mask is left out as soon as the cache holds something.
# - **From 0:** the positions of the new tokens start at 0, as in a whole pass.
# - **One too low:** they start at the position of the last old token.


# %% with-bug
def read_with(bug, tokens, caches):
    L, old = tokens.shape[1], caches[0].length
    first, mask = old, causal_mask(L, old + L, align="lower_right")
    if bug == "wrong corner":
        mask = causal_mask(L, old + L)
    elif bug == "no mask" and old > 0:
        mask = None
    elif bug == "from 0":
        first = 0
    elif bug == "one too low" and old > 0:
        first = old - 1
    return new_rows(tokens, caches, first + torch.arange(L), mask)


bugs = ["none", "wrong corner", "no mask", "from 0", "one too low"]

# %% texts-text [markdown]
# With each of them we continue `KQZBMTARK` and 200 other prompts, letter by letter.
# Each of the prompts is a loop of 11 letters, followed by its first letter.
# Do the texts show that something is wrong?

# %% ask-texts
predict("13/letter-by-letter")

# %% see-texts
# %%answer 13/letter-by-letter
torch.manual_seed(0)
prompts = make_texts(200, shortest=11, longest=11, jump=0).tokens[:, :12]
correct = write_with_cache(prompts, 14)
for bug in bugs:
    ours = write_with_cache(prompt, 14, partial(read_with, bug))
    others = write_with_cache(prompts, 14, partial(read_with, bug))
    changed = (others != correct).any(dim=1).double().mean()
    print(f"{bug:13} {to_text(ours[0])}  other texts that change: {changed:.0%}")

# %% texts-read [markdown] above="A text that looks" answers="13/letter-by-letter"
# Without a mask, no text changes: a single new letter may see everything,
# so there is nothing to block.
# The wrong corner spoils every text.
# If the positions are one too low, about half of the texts change; if they start at 0, hardly any.
# Why does the larger error do less harm?
#
# Layer 0 writes notes on the letters up to position 15, each about the letter before,
# and layer 1 searches for them (lesson 12).
# A prompt with a whole loop has all the notes that are needed.
# New letters at position 0 do not distract layer 1: it still looks almost only at the prompt.
# But one position too low, the first new letter, Q, gets the false note “R is before me”.
# When R comes round again, two letters claim to follow it, K and Q, and the model writes Q.
#
# A text that looks right does not prove a cache correct.

# %% how-to-test-a-cache [markdown]
# ## How to test a cache
#
# So we do not look at the text, but compare the rows themselves with those of a whole pass.
# Our 200 texts of 12 letters arrive in three ways: all at once; 11 and then the last one;
# 9 and then the last three, as when a user asks a second question.
# For each text, we take the largest difference between two logits.
# The table shows the smallest of these 200 numbers, so every text differs by at least that much.


# %% differences
def differences(bug, lengths):  # such as (11, 1)
    caches = [Cache() for _ in model.layers]
    parts = prompts.split(lengths, dim=1)
    rows = torch.cat([read_with(bug, part, caches) for part in parts], dim=1)
    return (rows - whole_pass(prompts)).abs().amax(dim=(1, 2))  # (200,)


ways = {"all at once": (12,), "11 and then 1": (11, 1), "9 and then 3": (9, 3)}
least = [[differences(bug, lengths).min() for lengths in ways.values()] for bug in bugs]
Table(bugs, list(ways), torch.tensor(least))

# %% test-read [markdown] above="The prompt alone shows" below="For every token, each"
# The prompt alone shows none of the four bugs, one new letter shows three,
# and three at once show all.
# So here is the rule: **compare all new rows with those of a whole pass.
# Begin with a cache that is not empty, once with several new tokens and once with one.**
# Test both, because many programs handle a single new token separately.
#
# Test in float32 or float64.
# In bfloat16, the next number after 10 is about 10.06, so rounding can hide a small bug.
#
# ## How large is a cache?
#
# For every token, each layer keeps one key and one value for each head.
# In some models, several query heads share one head for keys and values, called a *kv head*.
# Only the kv heads count here.
# So a cache takes
#
# $$2 \cdot \text{layers} \cdot \text{kv heads} \cdot \text{head\_dim} \cdot \text{bytes per number}$$
#
# for each token of each text.
# The table assumes two bytes per number,
# and *tokens* is the largest number of tokens that the cache keeps.
# The first row is the model of Figure 13.2.

# %% see-bytes
models = pd.DataFrame(
    {
        "Figure 13.2": (4, 4, 4, 64, 2048),
        "GPT-2": (12, 12, 12, 64, 1024),
        "Llama 2 7B": (32, 32, 32, 128, 4096),
        "Mistral 7B": (32, 32, 8, 128, 4096),
        "Llama 3.1 8B": (32, 32, 8, 128, 131072),
    },
    index=["layers", "heads", "kv heads", "head_dim", "tokens"],
).T
per_token = 2 * models["layers"] * models["kv heads"] * models["head_dim"]
models["KiB per token"] = 2 * per_token // 2**10
models["MiB of a full cache"] = 2 * per_token * models["tokens"] // 2**20
models["MiB of parameters"] = [2, 237, 12852, 13812, 15316]
models

# %% bytes-read [markdown] above="In Llama 2 7B"
# Now we can say why the last word is about as quick as the first.
# At each step, a program fetches all parameters and the whole cache from memory,
# and for a single text this takes most of the time (lesson 8; Pope et al., 2022).
# The parameters are the same for every word.
# In Llama 2 7B, even a full cache is less than a sixth of them,
# so the last words take little longer.
#
# In Llama 3.1 8B, which reads 131,072 tokens, a full cache is larger than the parameters,
# so the last step fetches about twice as much as the first.
# In the model of Figure 13.2, it is four times as large, and each step copies it as well,
# so the steps get slower.
#
# If many texts are decoded side by side, one fetch of the parameters serves them all,
# but each text has a cache of its own.
# For Llama 2 7B, seven full caches are larger than the model.
#
# ## Two ways to a smaller cache
#
# **Grouped heads.**
# In the last two models, four query heads share a kv head,
# so each token takes a quarter of the memory.
# Ainslie et al. (2023) report nearly the quality of separate heads.
# To compute attention with [grouped heads](glossary.ipynb#grouped-heads),
# we repeat each kv head for its group.
# For two kv heads and four query heads, PyTorch offers two orders:

# %% grouped
kv_heads = torch.arange(2)
print("repeat_interleave:", kv_heads.repeat_interleave(2).tolist())
print("repeat:           ", kv_heads.repeat(2).tolist())

# %% window-text [markdown] above="Neighbouring query heads share"
# Neighbouring query heads share a kv head, so `repeat_interleave` is right.
# With `repeat`, no error is raised, and all shapes and masks are correct.
# But query heads 1 and 2 get the wrong keys and values.
#
# **A window.**
# In Mistral 7B, as first published, each layer lets a token see only the last 4,096 tokens,
# so older keys and values can be dropped.
# What is dropped is not entirely lost:
# the oldest tokens in the window have themselves looked further back.
#
# Our own model was trained without a window.
# Which tokens can it do without?
# We let each token see no more than 20: either the last 20, or the first 19 and itself.
# Hiding a token from all later ones, in both layers,
# has the same effect as dropping it from the cache, so one whole pass is enough.
# We count the guesses whose answer stands among the last 20 tokens.


# %% window
def share_by_position(texts, mask):  # of correct guesses, at positions 20 to 31
    tokens, answers = texts.tokens[:, :-1], texts.tokens[:, 1:]  # (N, 32) each
    near = followers(tokens) & sliding_window_mask(32, window=20)  # (N, 32, 32)
    counted = texts.known & near.any(dim=-1)  # the answer is among the last 20 tokens
    guesses = whole_pass(tokens, [mask & causal] * 2).argmax(dim=-1)
    correct = (guesses == answers) & counted
    return (correct.sum(dim=0) / counted.sum(dim=0))[20:]


torch.manual_seed(1)
texts = make_texts(1000)
all_tokens = share_by_position(texts, causal)
print(f"with all tokens, the smallest share of a position is {all_tokens.min():.2f}")

# %% ask-window
predict("13/what-to-drop")

# %% see-window
# %%answer 13/what-to-drop
i, j = torch.arange(32)[:, None], torch.arange(32)
shares = {
    "all tokens": all_tokens,
    "first 19 and itself": share_by_position(texts, (j < 19) | (i == j)),
    "last 20": share_by_position(texts, sliding_window_mask(32, window=20)),
}
_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
sns.lineplot(pd.DataFrame(shares, index=range(20, 32)), markers=True, ax=ax)
ax.set(ylim=(0, 1.05), xlabel="position", ylabel="share of correct guesses")
ax.set_title("The guesses fail as the notes leave the window")
show_figure(ax, "13.3")

# %% window-read [markdown] above="With the last 20" answers="13/what-to-drop"
# With the first 19 tokens and the token itself, the guesses are as good as with all.
# With the last 20 tokens, they get worse as the notes leave the window.
# Nearly every answer with a note is found, but fewer than one in five without.
# What can be dropped depends on what a model has learned,
# and one that is trained with a window can learn to do without the rest.
#
# Xiao et al. (2023) found that large language models become much worse as soon as their first
# tokens leave a window, but stay nearly as good if the first four are kept.

# %% why-one-more-word-is-cheap [markdown]
# ## Why one more word is cheap
#
# When a chatbot writes the last word of a long answer, it does not read the conversation again.
# With a causal mask in every layer, old rows never change,
# so their keys and values can be kept in a cache.
# One more word costs one row: its own query against all stored keys.
# The last word appears about as quickly as the first,
# because each step fetches the same parameters, as long as the cache is small beside them.
# After a hundred thousand tokens, it no longer is, and the words do come more slowly.

# %% further-batch [markdown]
# ## Further
#
# ### A batch of prompts
#
# To decode several texts side by side, we put their prompts into one tensor,
# so the shorter ones have to be padded to the same length.
# We pad on the *left*, so that all prompts end in the same column,
# where the new tokens are appended.
# Our model has no token for padding,
# so we pad with the letter A. The padding must be masked in every call,
# and the positions of a prompt must be counted from its own first letter.


# %% batch
def continue_batch(prompts, count=14):
    width = max(map(len, prompts))
    padding = torch.tensor([[width - len(text)] for text in prompts])  # (N, 1)
    tokens = torch.stack([to_tokens(text.rjust(width, "A")) for text in prompts])

    def read_padded(tokens, caches):
        L, old = tokens.shape[1], caches[0].length
        real = torch.arange(old + L) >= padding  # (N, S), True for real tokens
        mask = causal_mask(L, old + L, align="lower_right") & real[:, None]  # (N, L, S)
        positions = old + torch.arange(L) - padding  # (N, L)
        return new_rows(tokens, caches, positions.clamp(min=0), mask)

    return [to_text(row) for row in write_with_cache(tokens, count, read_padded)]


# %% see-batch
pair = ["MILKSHAM", "ABCDEFGHIJKLMNABCD"]
alone = [continue_batch([text])[0] for text in pair]
print(alone, continue_batch(pair) == alone)

# %% batch-read [markdown]
# In the batch, both texts go on as they do alone.
# Without the mask or without the shifted positions, `MILKSHAM` would get another text.
# A test in which all prompts have the same length would not notice.
#
# A query of the padding may attend to nothing at all.
# Our version of PyTorch returns zeros for it, but a softmax of your own would return NaN
# (lesson 3), and NaN in a key or value reaches real tokens in the next layer.

# %% further-sink [markdown]
# ### The first token
#
# Why do language models suffer when their very first token leaves a window?
# Many of their heads give it much of their weight:
# it is the [attention sink](glossary.ipynb#attention-sink) of lesson 10.
# Do they need what this token knows, or the weight that it takes?
#
# The encoder of lesson 10 shows a related effect.
# We hide its first token, `[CLS]`, from all others, in all layers,
# and measure how far the vectors of the words move, compared with their length.
# There are two controls.
# In the first, `[CLS]` looks only at itself, so it cannot know the sentence.
# In the second, its weight is lost: no other token sees `[CLS]`,
# and the other weights stay as they are.

# %% see-sink
encoder = load_encoder()


def edited(way, layer, weights):  # (1, H, L, L), in every layer
    new = weights.clone()
    if way == "looks only at itself":
        new[:, :, 0, 1:] = 0
    else:
        new[:, :, 1:, 0] = 0
    return new if way == "loses its weight" else new / new.sum(dim=-1, keepdim=True)


for way in ("is hidden", "looks only at itself", "loses its weight"):
    moves = []
    for sentence in pd.read_csv(data_path("bank_sentences.csv")).sentence:  # 35
        before = encoder.read(sentence).vectors[-1, 1:-1]  # without [CLS] and [SEP]
        after = encoder.read(sentence, edit=partial(edited, way)).vectors[-1, 1:-1]
        moves.append(((after - before).norm(dim=-1) / before.norm(dim=-1)).mean())
    print(f"[CLS] {way}: the vectors move by {torch.stack(moves).mean():.2f}")

# %% sink-read [markdown]
# Only in the first line do the vectors move far.
# So these words need neither what `[CLS]` knows nor, for the most part, what it adds.
# What moves them is where its weight goes instead.
# A window could do the same to a language model: when the first token leaves,
# the softmax gives its weight to the tokens that stay.
# Xiao et al. explain the loss in this way.
# Our encoder, which has no causal mask, cannot prove it.

# %% remember [markdown]
# ## What to remember
#
# - A causal mask in every layer freezes the past: a new token changes no earlier row.
#   So keys and values can be kept, and one more token costs one row instead of a pass.
# - Prefill reads the whole prompt in one pass.
#   Decoding reads one token at a time and fetches all parameters for it.
# - With $L$ new queries and $S$ keys, the causal mask belongs at the lower right corner,
#   and the positions start where those in the cache end.
#   `is_causal=True` puts the mask at the upper left.
# - To test a cache, compare all new rows with those of a whole pass.
#   Start from a cache that is not empty, once with one new token and once with several.
# - A cache takes 2 · layers · kv heads · head_dim numbers for each token.
#   Grouped heads and windows make it smaller.
#   Which tokens can be dropped depends on the training.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (3 minutes)
#
# Llama 2 70B has 80 layers and 64 heads of 128 features.
# Eight query heads share one kv head, and a number takes two bytes.
# How many KiB does its cache take for one token?
#
# <details><summary>Hint</summary>
#
# How many kv heads does a layer have?
# For each of them, two vectors are kept.
# </details>

# %%
from attnlab.exercises import check_bytes_of_a_token, check_cache_test
from attnlab.exercises import check_mended_decoding, check_window_with_sinks


# %% tags=["exercise"]
def kib_of_a_token():
    """Return the number of KiB."""


# %%
check_bytes_of_a_token(kib_of_a_token)


# %% tags=["solution"]
def kib_of_a_token_solution():
    return 2 * 80 * 8 * 128 * 2 / 1024


check_bytes_of_a_token(kib_of_a_token_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (8 minutes)
#
# Write a test of a cache.
# `start()` returns a function with an empty cache of its own.
# Each call of this function reads the next tokens (N, L) of a text and returns their logits (N, L,
# 27).
# `whole(tokens)` returns the logits of a whole pass in float32.
# The test gets `tokens` (2, 24).
# It should return True if the cache is correct, and False if it has one of our four bugs.
#
# <details><summary>Hint</summary>
#
# Call <code>read = start()</code>, and let it read pieces of different lengths.
# Join all rows before you compare them, and allow for the rounding of float32.
# </details>


# %% tags=["exercise"]
def cache_is_correct(start, whole, tokens):
    """Return True or False."""


# %%
check_cache_test(cache_is_correct)


# %% tags=["solution"]
def cache_is_correct_solution(start, whole, tokens):
    read = start()
    rows = [read(piece) for piece in tokens.split((9, 1, 14), dim=1)]
    return torch.allclose(torch.cat(rows, dim=1), whole(tokens), atol=1e-4)


check_cache_test(cache_is_correct_solution)

# %% exercise-3 [markdown]
# ### 3 · Modify ★★ (8 minutes)
#
# Change a causal window so that the first tokens stay visible, as Xiao et al. advise.
# In the mask (L, L), each token sees itself and the `window - 1` tokens before it,
# and also the first `sinks` tokens, but no token after itself.
#
# <details><summary>Hint</summary>
#
# Write three boolean conditions on $i$ and $j$.
# Two of them are joined by *or*, and the third applies to both.
# </details>


# %% tags=["exercise"]
def window_with_sinks(length, window, sinks):
    """bool (L, L), True where token i may see token j."""


# %%
check_window_with_sinks(window_with_sinks)


# %% tags=["solution"]
def window_with_sinks_solution(length, window, sinks):
    i, j = torch.arange(length)[:, None], torch.arange(length)
    return (j <= i) & ((i - j < window) | (j < sinks))


check_window_with_sinks(window_with_sinks_solution)

# %% exercise-4 [markdown]
# ### 4 · Repair ★★★ (10 minutes)
#
# `broken` computes attention for new queries (N, H, L, E), given the keys and values (N, kv heads,
# S, E) of a cache that already contains the new tokens.
# Neighbouring query heads share a kv head: with four query heads and two kv heads,
# the first two belong to kv head 0 and the last two to kv head 1.
# The function has two bugs.
# Write `mended`, for any number of new queries.
#
# <details><summary>Hint</summary>
#
# Try it with one kv head, and compare with a whole pass.
# Then try several: which kv head does query head 1 get from <code>repeat</code>?
# To compare, <code>F.scaled_dot_product_attention(..., enable_gqa=True)</code> accepts fewer kv
# heads without repeating them.
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


# %% tags=["solution"]
def mended_solution(query, key, value):
    group = query.shape[1] // key.shape[1]
    key, value = (t.repeat_interleave(group, dim=1) for t in (key, value))
    mask = causal_mask(query.shape[2], key.shape[2], align="lower_right")
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


check_mended_decoding(mended_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★★ (6 minutes)
#
# A user goes back and replaces one word in the middle of a long conversation,
# and the chatbot goes on from there.
# Which keys and values in the cache are still right?
# Answer for layer 0 and for the layers above it.
# And why is such a cache of little use to an encoder without a causal mask?
#
# <details><summary>An answer</summary>
#
# The words before the replaced one have never seen it,
# so their keys and values are right in every layer.
# In layer 0, a key is made from a word and its position alone,
# so there only the replaced word needs new ones.
# But the later words attend to it, so what they take from layer 0 changes.
# From layer 1 on, the keys and values of the replaced word and of all later words must be computed
# again.
# In an encoder, a new word changes what all other words take from layer 0.
# So from layer 1 on, nothing can be kept.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# PyTorch has no cache of its own:
# `F.scaled_dot_product_attention(q, k, v)` takes the keys and values that you have appended.
# For one new query without padding it needs no mask.
# For several, pass `torch.nn.attention.bias.causal_lower_right(L, S)` as `attn_mask`;
# pass `is_causal=True` instead only if the cache was empty.
# With `enable_gqa=True`, `k` and `v` may have fewer heads, in the order of `repeat_interleave`.
#
# Hugging Face models take and return `past_key_values`.
# Pad on the left, and pass an `attention_mask` that covers the whole text.
# If you write the loop yourself, pass `position_ids`, too.
# In the package *flash-attn*, `causal=True` aligns the mask at the lower right (since version 2.1),
# unlike `is_causal=True` here.
# Our cache is copied at each step; programs that reserve memory for the whole text need not do so.
# `attnlab.KeyValueCache` is the cache of this lesson with checks and a window.

# %% sources [markdown]
# ## Sources
#
# - Pope et al., [Efficiently Scaling Transformer Inference](https://arxiv.org/abs/2211.05102),
#   2022: prefill, decoding, and what limits the speed of each.
# - Shazeer,
#   [Fast Transformer Decoding: One Write-Head is All You Need](https://arxiv.org/abs/1911.02150),
#   2019: why decoding waits for memory, and a single kv head for all query heads.
# - Ainslie et al.,
#   [GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints](https://arxiv.org/abs/2305.13245),
#   2023: grouped heads.
# - Jiang et al., [Mistral 7B](https://arxiv.org/abs/2310.06825), 2023:
#   a window with a cache that rolls.
# - Xiao et al.,
#   [Efficient Streaming Language Models with Attention Sinks](https://arxiv.org/abs/2309.17453),
#   2023: what happens when the first tokens leave the window.
# - The sizes in the table are those of the models' public configurations: Radford et al., 2019
#   (GPT-2, the smallest), [Touvron et al.](https://arxiv.org/abs/2307.09288), 2023 (Llama 2),
#   [Grattafiori et al.](https://arxiv.org/abs/2407.21783), 2024 (Llama 3.1),
#   and Jiang et al., 2023.
# - The times and the effects of hiding tokens are our own measurements.

# %% next [markdown]
# ## Next
#
# [14 · Where a meaning appears](14_where_a_meaning_appears.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.**
# Writing, counting and the masks of both layers: 11.
# Keys and values, the code, explorer and times: 16.
# The four bugs and the test: 11.
# The size of a cache: 4.
# Groups, the window and the answer: 8.
# Set “Further” as homework.
#
# **Where a class stalls.**
# *“Why not keep the queries too?”*
# Ask who would read them: a query is used once, by its own token.
# *“But the meaning of a word depends on what follows”:* in a causal model it does not;
# the later word reads the earlier one, and never the other way round.
# *“The text is right, so the cache is”:* ask what a program without a mask would write,
# letter by letter.
# Let a student play each token of `KQZBMTARK` and hold up a key and a value;
# a new student asks once and then joins the row.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# A model with a cache writes one more word.
# How many rows are computed?
# **A single one.**
# *All of them, because the text has changed:* under a causal mask nothing flows back.
#
# **2.**
# Two new tokens come after ten old ones.
# Which keys does the first of the two see?
# **Eleven: the old ones and itself.**
# *One:* this is what `is_causal=True` gives.
# *Twelve:* this is what you get without a mask.
#
# **3.**
# With a cache, a program writes the same 200 texts as without one.
# Is the cache correct?
# **We do not know.**
# *Yes:* the texts come letter by letter, so that a missing mask changes nothing,
# and wrong positions may not change a guess.
#
# **4.**
# A model with 32 heads is rebuilt with 8 kv heads.
# What becomes smaller?
# **The cache and the matrices for keys and values: each shrinks to a quarter of its size.**
# *The number of scores:* there are still 32 tables.
#
# **5.**
# A window of 4,096 tokens is added to a model that was trained without one.
# What can go wrong?
# **It may need the tokens that are dropped, the first one above all.**
# *Nothing, because old words hardly matter:*
# how far away a token is does not say how much the model uses it.
# </details>
