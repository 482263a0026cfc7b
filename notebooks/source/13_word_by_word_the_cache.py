# %% opening [markdown]
# # 13 · Word by word: the cache
#
# A chatbot writes its answer one word at a time, and you can watch the words appear. Each of them depends on the whole conversation: on your question, and
# on every word of the answer so far. Near the end of a long answer, that can be thousands of words. Yet the last word appears about as quickly as the
# first ones did. Why does one more word not cost a pass over the whole text?
#
# **You need:** [lesson 12](12_two_layers_that_look_back.ipynb), whose model we use, and from
# [lesson 8](08_what_attention_costs_and_how_to_pay_less.ipynb) what slow memory is.
#
# **You will be able to:** write text with a model, with and without a cache, and count the work, say what a cache keeps and why this is enough, test a cache so
# that its typical bugs show, compute how many bytes it takes, and name two ways to make it smaller.
#
# **Time:** 50 minutes in class, or 85 on your own with the exercises. “Further” takes another 10.

# %% setup
from functools import partial

import pandas as pd
import torch
import torch.nn.functional as F

from attnlab import KeyValueCache, causal_mask, sliding_window_mask
from attnlab.data import data_path
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import CacheExplorer
from attnlab.looking_back import load_looking_back, make_texts, to_text, to_tokens
from attnlab.pretrained import load_encoder

lesson_setup()

# %% writing [markdown]
# ## A model that writes
#
# The texts of lesson 12 are loops of letters that are played again and again. For each token, the model returns 27 logits: one for each letter and one
# for the bar. To let it write, we give it the beginning of a text, the **prompt**. We run it, append the letter with the
# largest logit in the last row, and run it again on the longer text.

# %% write
model = load_looking_back()
exact = load_looking_back().double()  # the same in float64, for later


def write(text, count):
    tokens = to_tokens(text)[None]  # (1, L)
    for _ in range(count):
        logits = model(tokens).logits  # (1, L, 27), from a whole pass
        best = logits[:, -1:].argmax(dim=-1)  # (1, 1): we use only the last row
        tokens = torch.cat([tokens, best], dim=1)
    return to_text(tokens[0])


write("KQZBMTARK", 23)

# %% rows [markdown]
# The model continues the loop without a mistake up to 32 tokens, the most that it can read. But look at the work. One run of the model over a
# text is called a *pass*, and what a pass computes for one token is called a *row*. The first pass has 9 rows, the next has 10, and the last has 31. That
# makes 460 rows for 23 letters, although we read only one row of each pass.
#
# Do the other rows change at all? We compare two passes. The first reads 20 letters, and the second the same 20 letters
# and one more. We write out the forward pass of lesson 12, so that we can choose which of its two layers have a causal
# mask. We do this in float64.


# %% changed-rows
def changed_rows(masked):  # for each layer, whether it has a causal mask
    def logits(tokens):
        x = exact.symbol(tokens) + exact.position.weight[: tokens.shape[1]]
        parts = zip(exact.norms, exact.layers, masked, strict=True)
        for norm, layer, is_causal in parts:
            x = x + layer(norm(x), is_causal=is_causal).output
        return exact.guess(exact.last_norm(x))

    tokens = to_tokens("KQZBMTARKQZBMTARKQZBM")[None]  # (1, 21)
    change = logits(tokens)[:, :20] - logits(tokens[:, :20])
    return (change.norm(dim=-1) > 1e-10).sum().item()


changed_rows([True, True])

# %% ask-changes [markdown]
# With a mask in both layers, as in training, none of the 20 old rows changes. Would the mask of the first layer be enough?

# %% ask-one-mask
predict("13/one-mask")

# %% see-changes
# %%answer 13/one-mask
changed_rows([True, False]), changed_rows([False, True]), changed_rows([False, False])

# %% frozen [markdown]
# Without the mask of the second layer, all 20 old rows change, so every layer needs its own. In every layer, the causal
# mask keeps a token from seeing later ones, and what it does see was computed, in the layer before, under the same
# mask. Therefore nothing that is written afterwards can alter a row.
#
# ## Keep the keys and values
#
# So the new token needs only a row of its own. What does this row need from the old ones? In each layer, the query of the new token is compared with the keys
# of all tokens, and the output is an average of their values. The old queries have already done their work.

# %% new-row jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
from attnlab.palette import BLUE, ORANGE

letters = "KQZBMTARKQ"
_, ax = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
for i in range(len(letters)):
    for j in range(i + 1):
        last = i == len(letters) - 1
        ax.add_patch(
            plt.Rectangle((j, i), 0.9, 0.9, color=ORANGE if last else "#dddddd")
        )
ax.set(xlim=(-0.2, 10), ylim=(10, -1.2), aspect="equal")
ax.set(xlabel="keys and values", ylabel="queries")
ax.set_xticks([j + 0.45 for j in range(10)], letters)
ax.set_yticks([i + 0.45 for i in range(10)], letters)
ax.plot([0, 8.9], [-0.3, -0.3], color=BLUE, linewidth=3)
ax.text(4.45, -0.5, "read from the cache", ha="center", va="bottom", color=BLUE)
ax.text(9.45, -0.5, "new", ha="center", va="bottom", color=ORANGE)
ax.spines[:].set_visible(False)
ax.tick_params(length=0)
ax.set_title("One new row against all old keys", pad=12)
show_figure(ax, "13.1")

# %% keep [markdown]
# So we keep the keys and values of each layer and append those of the new token. Such a store is a [**key-value cache**](glossary.ipynb#cache). For one head, it takes four lines:


# %% by-hand
def attend_with_past(layer, x, keys, values):  # x: (1, 1, E), the new token
    keys = torch.cat([keys, layer.k_proj(x)], dim=1)  # (1, S, E)
    values = torch.cat([values, layer.v_proj(x)], dim=1)
    output = F.scaled_dot_product_attention(layer.q_proj(x), keys, values)
    return layer.out_proj(output), keys, values


layer = model.layers[0]
x = torch.randn(1, 12, 64, generator=torch.Generator().manual_seed(0))
old = x[:, :-1]
keys, values = layer.k_proj(old), layer.v_proj(old)
last, keys, values = attend_with_past(layer, x[:, -1:], keys, values)
assert torch.allclose(last, layer(x, is_causal=True).output[:, -1:], atol=1e-5)

# %% cache-class [markdown]
# In attnlab, `KeyValueCache` does the appending, and our model takes a list with one cache for each layer. With a cache, a layer of attnlab is always
# causal, so we pass no mask. The first call reads the whole prompt, and each later call reads a single letter.


# %% write-with-cache
def write_with_cache(text, count):
    caches = [KeyValueCache() for _ in model.layers]
    new, rows = to_tokens(text)[None], []  # at first the whole prompt
    for _ in range(count):
        logits = model(new, caches).logits[:, -1:]  # (1, 1, 27)
        rows.append(logits)
        new = logits.argmax(dim=-1)  # (1, 1): then one token at a time
        text += to_text(new[0])
    return text, torch.cat(rows, dim=1)


text, logits = write_with_cache("KQZBMTARK", 23)
whole = model(to_tokens(text)[None, :-1]).logits[:, -23:]  # one pass, for comparison
print(text, torch.allclose(logits, whole, atol=1e-4))

# %% phases [markdown]
# The text is the same, and the logits are those of a whole pass, up to rounding.
#
# Reading the prompt is called [**prefill**](glossary.ipynb#prefill), and writing token by token is called **decoding**. The prefill
# computes 9 rows and gives us the first new letter. Each of the other 22 takes one more row. That makes 31 rows in place of 460.
#
# In the explorer, the model writes one letter at each step. The table shows which queries, keys and values are computed at a
# step and which are read from the cache.

# %% explorer
CacheExplorer(cache=True, step=3)

# %% time-text [markdown]
# ## Does it save time?
#
# Our model reads only 32 tokens, so for longer texts we timed another one: four attention layers with 256 features and random parameters.

# %% time-figure jupyter={"source_hidden": true}
import seaborn as sns

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
ax.set_title("At 2,048 tokens, a step takes a fiftieth of the time of a pass")
ax.legend(title="")
show_figure(ax, "13.2")

# %% time-read [markdown]
# At 2,048 tokens, a pass takes about 50 times as long as a step. The step grows, too. Its one row of scores gets longer
# with the text, and our simple cache copies itself at every step. But a whole pass has a table of scores, and in long
# texts this grows with the square of their length.
#
# In a large model, each step also has to fetch all parameters from memory (lesson 8), for a single row. If many texts
# are decoded side by side, one fetch serves them all.
#
# ## Three bugs that raise no error
#
# There are two tests for a cache. The **comparison** asks whether the rows computed with a cache equal those of a whole
# pass. It needs a pass that is known to be correct. The **leak test** of lesson 3 needs only the function itself: we
# change each token in turn. A row must move if its own token or an earlier one changes, and stay if a later one does.
#
# **Bug 1: the wrong corner.** It is tempting to write `is_causal=True`, as in training. But PyTorch aligns this mask at
# the *upper left* corner, where the first query sees only the first key, no matter where in the text they stand. With a
# cache, the mask must be aligned at the *lower right*.
#
# **Bug 2: no mask.** A single new query may see everything and needs no mask. But several new tokens may come at once,
# as with a second question of a user. Then a mask is needed.
#
# Let the cache hold 8 tokens, and let 3 new ones arrive.


# %% leak-test
def moved_rows(**mask):  # (3, 11): which new row moves if a token changes?
    before = F.scaled_dot_product_attention(new, k, v, **mask)
    moved = torch.zeros(3, 11, dtype=torch.bool)
    for j in range(11):
        k2, v2 = k.clone(), v.clone()
        k2[..., j, :] += 5
        v2[..., j, :] += 5
        after = F.scaled_dot_product_attention(new, k2, v2, **mask)
        moved[:, j] = (after - before)[0, 0].norm(dim=-1) > 1e-4
    return moved


generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, 1, 1, 11, 16, generator=generator)  # (N, H, S, E) each
new = q[:, :, 8:]  # the last three queries; k and v hold all eleven
moved_rows(is_causal=True).int()

# %% leak-text [markdown]
# This is Bug 1 as the leak test sees it: a change of token 3 or of any later one moves no row at all. Here are all three masks, with both tests.

# %% both-tests
masks = {
    "upper left": causal_mask(3, 11),
    "no mask": torch.ones(3, 11, dtype=torch.bool),
    "lower right": causal_mask(3, 11, align="lower_right"),
}
whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, :, 8:]
for name, mask in masks.items():
    output = F.scaled_dot_product_attention(new, k, v, attn_mask=mask)
    same = torch.allclose(output, whole, atol=1e-5)
    right_rows = torch.equal(moved_rows(attn_mask=mask), masks["lower right"])
    print(f"{name:12} passes the leak test: {right_rows!s:6} the comparison: {same}")

# %% bug-three [markdown]
# Both tests find both bugs, if the calls are right. For Bug 1 the cache must not be empty, or both corners give the same
# mask. For Bug 2 several tokens must come at once.
#
# **Bug 3: wrong positions.** Each token enters our model with a letter and a position, and the model counts the positions by the length of its cache. What if a program
# counts them itself, and counts wrongly? In the next cell, `counter` gives the position of the next token.


# %% continue-text
def read(tokens, caches, positions, attn_mask=None):
    x = model.symbol(tokens) + model.position(positions)
    for norm, layer, cache in zip(model.norms, model.layers, caches, strict=True):
        x = x + layer(norm(x), cache=cache, attn_mask=attn_mask).output
    return model.guess(model.last_norm(x))


def continue_texts(tokens, counter, count=14):  # (N, L) -> (N, count)
    caches, written = [KeyValueCache() for _ in model.layers], []
    logits = read(tokens, caches, torch.arange(tokens.shape[1]))
    for _ in range(count):
        new = logits[:, -1:].argmax(dim=-1)
        written.append(new)
        logits = read(new, caches, torch.tensor([counter(caches[0].length)]))
    return torch.cat(written, dim=1)


# %% wrong-counters [markdown]
# With each of three wrong counters we continue `KQZBMTARK` and 200 other prompts. Each of those is a loop of 11 letters,
# followed by its first letter. We also compare the logits of the first step that uses the counter with those of a whole
# pass.

# %% first-step
counters = {
    "correct": lambda length: length,
    "always 0": lambda length: 0,
    "one too low": lambda length: length - 1,
    "one too high": lambda length: length + 1,
}


def logits_differ(prompts, counter):
    caches = [KeyValueCache() for _ in model.layers]
    logits = read(prompts, caches, torch.arange(prompts.shape[1]))
    new = logits[:, -1:].argmax(dim=-1)
    step = read(new, caches, torch.tensor([counter(caches[0].length)]))
    whole = model(torch.cat([prompts, new], dim=1)).logits[:, -1:]
    return (step - whole).abs().amax(dim=(1, 2))  # of each prompt


# %% see-places
torch.manual_seed(0)
loops = make_texts(200, shortest=11, longest=11, jump=0).tokens[:, :12]
correct = continue_texts(loops, counters["correct"])
rows = {}
for name, counter in counters.items():
    ours = to_text(continue_texts(to_tokens("KQZBMTARK")[None], counter)[0])
    changed = (continue_texts(loops, counter) != correct).any(dim=-1).float().mean()
    least = logits_differ(loops, counter).min()
    rows[name] = [ours, f"{changed:.0%}", f"{least:.2f}"]
columns = ["our text goes on", "texts that change", "logits differ by at least"]
pd.DataFrame(rows.values(), [*rows], columns)

# %% places-read [markdown]
# Only the counter that is one too low spoils our text: the second K is lost. It spoils about half of the other texts,
# too. The other two hardly ever show in these texts. (Why just this one does, we have not found out.)
#
# Yet with every wrong counter, and in every prompt, the logits differ clearly from those of a whole pass, already at
# the first step. So a text that looks fine does not prove a cache correct. No leak test finds this bug either, because
# every row moves with every earlier token and with no later one.
#
# **Compare all new rows with those of a whole pass**, and do so in float32: with 16-bit numbers, rounding alone can
# make a correct cache differ by more than our tolerance.
#
# ## How large is a cache?
#
# For every token, each layer keeps one key and one value for each head. So a cache takes
#
# $$2 \cdot \text{layers} \cdot \text{heads} \cdot \text{head\_dim} \cdot \text{bytes per number}$$
#
# for each token of each text. In some models, several query heads share one head for keys and values (a *kv head*), and only the kv heads count.

# %% see-bytes
models = pd.DataFrame(
    {
        "GPT-2": (12, 12, 12, 64, 1024),
        "Llama 2 7B": (32, 32, 32, 128, 4096),
        "Llama 3 8B": (32, 32, 8, 128, 8192),
        "Mistral 7B": (32, 32, 8, 128, 4096),
    },
    index=["layers", "heads", "kv heads", "head_dim", "tokens"],
).T
per_token = 2 * models["layers"] * models["kv heads"] * models["head_dim"] * 2
models["KiB per token"] = per_token // 2**10
models["MiB in total"] = per_token * models["tokens"] // 2**20
models

# %% bytes-read [markdown]
# The table assumes 2 bytes per number, and *tokens* is the largest number that the cache keeps. A full cache of Llama 2 7B takes 2 GiB for one text. The parameters
# take about 12.6 GiB, so seven long texts side by side need more memory than the model itself. At every step, the model reads all of its parameters and the whole cache.
#
# Two ways to make a cache smaller are in the table. With [**grouped heads**](glossary.ipynb#grouped-heads), four query
# heads share a kv head in the last two models, so the cache is a quarter as large. Ainslie et al. (2023) report nearly
# the quality of separate heads.
#
# And Mistral 7B, as first published, has a **window**: in each layer, a token sees only the last 4,096 tokens, so older
# keys and values can be dropped. What is dropped is not entirely lost. A token 4,000 back was itself computed from
# tokens 4,000 further back, and so on through the layers.
#
# Which tokens can our model do without? It was trained without a window. Each of its 32 tokens may now
# see 20 at most, either the last 20, or the first 19 and itself.


# %% window
def share_correct(mask):
    tokens, known = texts
    no_caches = [None] * len(
        model.layers
    )  # in one pass, hiding a token is the same as dropping it
    logits = read(tokens[:, :-1], no_caches, torch.arange(32), mask & causal_mask(32))
    correct = logits.argmax(dim=-1) == tokens[:, 1:]
    return correct[:, 20:][known[:, 20:]].float().mean().item()


torch.manual_seed(1)
texts = make_texts(1000)
print(f"all tokens: {share_correct(causal_mask(32)):.2f}")

# %% ask-window
predict("13/what-to-drop")

# %% see-window
# %%answer 13/what-to-drop
i, j = torch.arange(32)[:, None], torch.arange(32)
print(
    f"the last 20:             {share_correct(sliding_window_mask(32, window=20)):.2f}"
)
print(f"the first 19 and itself: {share_correct((j < 19) | (i == j)):.2f}")

# %% window-read [markdown]
# For this model, the oldest tokens are the ones to keep: with them and nothing else, it is as good as with all tokens. Its notes are in the first half of the text. What can be
# dropped depends on what a model has learned, and one that is trained with a window can learn to do without the rest.
#
# ## Why one more word is cheap
#
# When a chatbot writes the last word of a long answer, it does not read the conversation again. Under a causal mask, in
# every layer, old rows never change, so their keys and values are in the cache. One more word costs one row: its own
# query against all stored keys. The price is memory, which grows with every token. The risk is a mistake in the cache
# that does not show in the text. A comparison with whole passes finds it.

# %% further-batch [markdown]
# ## Further
#
# ### A batch of prompts
#
# To decode several texts side by side, we put their prompts into one tensor, so the shorter ones have to be padded to the same length. We pad on the *left*,
# so that all prompts end in the same column, where the new tokens are appended. (Token 0 is the letter A here.) The padding must be masked in every call,
# and the positions of a prompt must be counted from its own first letter.


# %% batch
def continue_batch(prompts, count=14):
    width = max(map(len, prompts))
    padding = torch.tensor([[width - len(prompt)] for prompt in prompts])  # (N, 1)
    new = torch.stack([to_tokens(prompt.rjust(width, "A")) for prompt in prompts])
    caches, texts = [KeyValueCache() for _ in model.layers], [""] * len(prompts)
    for _ in range(count):
        at = caches[0].length + torch.arange(new.shape[1])
        real = torch.arange(at[-1] + 1) >= padding  # (N, S), True for real tokens
        positions = (at - padding).clamp(min=0)  # those of the padding do not matter
        logits = read(new, caches, positions, real[:, None, None])
        new = logits[:, -1:].argmax(dim=-1)
        texts = [text + to_text(one) for text, one in zip(texts, new, strict=True)]
    return texts


# %% see-batch
pair = ["MILKSHAM", "ABCDEFGHIJKLMNABCD"]
alone = [continue_batch([prompt])[0] for prompt in pair]
print(alone, continue_batch(pair) == alone)

# %% further-grouped [markdown]
# Without the mask or without the shifted positions, `MILKSHAM` would get another text. A test in which all prompts have the same length would not notice.
#
# ### Grouped heads in the wrong order
#
# To compute grouped heads, each kv head is repeated for its group. With four query heads and two kv heads, the first two query heads belong to kv head 0 and the last two to kv head 1.

# %% grouped
heads = torch.arange(2)
print(heads.repeat_interleave(2).tolist(), heads.repeat(2).tolist())

# %% repeat-read [markdown]
# `repeat_interleave` gives this order, and `repeat` gives another. With `repeat`, all shapes, the causal mask and the sums of the weights are correct, and yet two of the four heads get the wrong keys and values. It
# is the same trap as the two layouts of rotary positions in lesson 11: only a comparison finds it.

# %% further-sink [markdown]
# ### The first token
#
# Many heads of large language models give much of their weight to the very first token, the [attention
# sink](glossary.ipynb#attention-sink) of lesson 10. Xiao et al. (2023) found that such models become much worse as soon
# as the first tokens leave a window, but stay nearly as good if the first four are kept. Do they need what these tokens
# know, or the weight that these tokens take?
#
# The encoder of lesson 10 shows a related effect. We hide its first token, `[CLS]`, from all others, in all layers, and
# measure how far the vectors of the words move, compared with their length. There are two controls. In the first,
# `[CLS]` looks only at itself, so it cannot know the sentence. In the second, its weight is lost: nobody sees `[CLS]`,
# and the other weights stay as they are.


# %% see-sink
encoder = load_encoder()
sentences = pd.read_csv(data_path("bank_sentences.csv")).sentence  # 35


def edited(way, layer, weights):  # (1, H, L, L), in every layer
    new = weights.clone()
    if way == "looks only at itself":
        new[:, :, 0, 1:] = 0
    else:
        new[:, :, 1:, 0] = 0
    return new if way == "loses its weight" else new / new.sum(dim=-1, keepdim=True)


for way in ("is hidden", "looks only at itself", "loses its weight"):
    moves = []
    for sentence in sentences:
        before = encoder.read(sentence).vectors[-1, 1:-1]  # without [CLS] and [SEP]
        after = encoder.read(sentence, edit=partial(edited, way)).vectors[-1, 1:-1]
        moves.append(((after - before).norm(dim=-1) / before.norm(dim=-1)).mean())
    print(f"[CLS] {way}: the vectors move by {torch.stack(moves).mean():.2f}")

# %% sink-read [markdown]
# Only in the first line do the vectors move far. So these words need neither what `[CLS]` knows nor, for the most part,
# what it adds. What moves them is that other tokens get its weight. A window could do the same to a language model:
# when the first token leaves, the softmax gives its weight to the tokens that stay. Xiao et al. explain the loss in
# this way. Our encoder, which has no causal mask, cannot prove it.

# %% remember [markdown]
# ## What to remember
#
# - A causal mask in every layer freezes the past: a new token changes no earlier row. So keys and values can be kept, and
#   one more token costs one row instead of a pass.
# - Prefill reads the whole prompt in one pass. Decoding reads one token at a time and fetches all parameters for it.
# - With $L$ new queries and $S$ keys, the causal mask belongs at the lower right corner. `is_causal=True` puts it at the
#   upper left.
# - To test a cache, compare all new rows with those of a whole pass over each text on its own. Start from a cache that
#   is not empty, once with one new token and once with several. No leak test finds wrong positions.
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
# <code>repeat</code>? Compare with <code>F.scaled_dot_product_attention(..., enable_gqa=True)</code>.
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
# been tested. The positions could be counted wrongly: comparing the logits at every step with those of a whole pass would
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
# empty. With `enable_gqa=True`, `k` and `v` may have fewer heads, in the order of `repeat_interleave`. Hugging Face models take and return `past_key_values`. Pad
# on the left, and pass an `attention_mask` that covers the whole text. If you write the loop yourself, pass `position_ids`, too. In the package
# *flash-attn*, `causal=True` aligns the mask at the lower right, so the same word means something else there. Programs that reserve memory for the whole
# text do not copy the cache, as ours does.

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
# **50 minutes.** Writing, counting and the masks of both layers: 9. Keys and values, explorer and times: 13. The three bugs: 12. Bytes, groups and
# the window: 8. The answer: 2. Set “Further” as homework.
#
# **Where a class stalls.** *“Why not keep the queries too?”* Ask who would read them: a query is used once, by its own
# token. *“But the meaning of a word depends on what follows”:* in a causal model it does not; the later word reads the
# earlier one, and never the other way round. *“A leak test proves a cache correct”:* ask what it would say of a program that counts all positions wrongly. Let a student play each token of `KQZBMTARK` and hold up a key and a value;
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
# **3.** A cache passes the whole leak test. Is it correct? **We do not know.** *Yes:* wrong positions, for example, move no
# row that should stay.
#
# **4.** A model with 32 heads is rebuilt with 8 kv heads. What becomes smaller? **The cache and the matrices for keys
# and values: each shrinks to a quarter of its size.** *The number of scores:* there are still 32 tables.
#
# **5.** A window of 4,096 tokens is added to a model that was trained without one. What can go wrong? **It may need the
# tokens that are dropped, the first one above all.** *Nothing, because old words hardly matter:* how far away a token
# is does not say how much the model uses it.
# </details>
