# %% opening [markdown] above="Why does one more" end="Why does one more"
# # 13 · Word by word: the cache
#
# A chatbot writes its answer one word at a time.
# Each word depends on your question and on the whole answer so far,
# which may be thousands of words long.
# Yet the last word appears about as quickly as the first ones did.
# Why does one more word not cost another reading of the whole text?
#
# **You need:** [lesson 12](12_two_layers_that_look_back.ipynb), whose model we use,
# and the masks of [lesson 3](03_masks_who_may_look_at_whom.ipynb).
#
# **You will be able to:** write text with and without a cache, and count the work;
# say what a cache keeps and why this is enough; test a cache; and compute its size.
#
# **Time:** 46 minutes in class, or 80 on your own with the exercises.
# “Further” takes another 10.

# %% setup
from functools import partial

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
import torch
import torch.nn.functional as F

from attnlab import causal_mask, sliding_window_mask
from attnlab.display.table import data_path
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import CacheExplorer
from attnlab.models.looking_back import followers, load_looking_back, make_texts
from attnlab.models.looking_back import to_text, to_tokens

lesson_setup()

# %% writing [markdown] below=["In the texts of", "In the texts of"]
# ## A model that writes
#
# In the texts of lesson 12, a loop of letters is repeated, and a bar marks where it jumps.
# For each token, the model of that lesson returns 27 logits: for 26 letters and the bar.
# We write its forward pass with a mask for each layer.

# %% whole-pass
model = load_looking_back().double()  # so rounding cannot look like a change
causal = causal_mask(32)  # (32, 32): the model reads 32 tokens at most


def whole_pass(tokens, masks=(causal, causal)):  # (N, L) -> (N, L, 27)
    L = tokens.shape[1]
    x = model.symbol(tokens) + model.position.weight[:L]  # (N, L, E)
    for norm, layer, mask in zip(model.norms, model.layers, masks, strict=True):
        x = x + layer(norm(x), attn_mask=mask[:L, :L]).output
    return model.guess(model.last_norm(x))


# %% prompt [markdown]
# To let the model write, we give it the beginning of a text,
# the [**prompt**](glossary.ipynb#prompt).
# We append the letter with the largest logit in the last row,
# and run the model again on the longer text.
# So each letter takes a *whole pass*, over the whole text.
# What it computes for one token is called a *row*, and we count the rows.


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

# %% rows [markdown] above="That makes 460 rows" below="Would the mask of"
# The model continues the loop.
# But the first pass computes 9 rows, the next 10, and the last 31.
# That makes 460 rows for 23 letters, although we read only one row of each pass.
#
# Do the other rows change at all?
# We compare a pass over 20 letters with one over the same letters and one more.
# Our model has a causal mask in both layers.
# Would the mask of the first layer be enough?

# %% ask-one-mask
predict("13/one-mask")


# %% see-changes
# %%answer 13/one-mask
def changed_rows(masks):
    tokens = to_tokens("KQZBMTARKQZBMTARKQZBM")[None]  # (1, 21)
    change = whole_pass(tokens, masks)[:, :20] - whole_pass(tokens[:, :20], masks)
    return (change.norm(dim=-1) > 1e-10).sum().item()


see_all = torch.ones(32, 32, dtype=torch.bool)
print("causal in both layers:       ", changed_rows([causal, causal]))
print("causal in the first alone:   ", changed_rows([causal, see_all]))
print("causal in the second alone:  ", changed_rows([see_all, causal]))

# %% frozen [markdown] above="With a causal mask" answers="13/one-mask"
# With a causal mask in both layers, none of the 20 old rows changes.
# If either mask is missing, all 20 do.
# In each layer, a causal mask keeps a token from seeing later ones.
# What the token does see was computed, in the layer before, under the same mask.
# Everything else in the model handles each token by itself.
# Therefore nothing that is written later can change a row.

# %% keep-the-keys-and-values [markdown] below="No old query is"
# ## Keep the keys and values
#
# So the new token needs only a row of its own.
# In each layer, its query is compared with the keys of all tokens,
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


# %% attend-text [markdown] below="A layer now gets"
# A layer now gets the vectors of the new tokens alone.
# It appends their keys and values, and their queries attend to what the cache then holds.


# %% attend
def attend(layer, x, cache, mask):  # x: (N, L, E), the new tokens
    q = layer.q_proj(x)  # (N, L, E): one head, so nothing needs to be split
    k, v = cache.append(layer.k_proj(x), layer.v_proj(x))  # (N, S, E)
    return layer.out_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


def new_rows(tokens, caches, positions, mask):  # (N, L) -> (N, L, 27)
    x = model.symbol(tokens) + model.position(positions)  # (N, L, E)
    for norm, layer, cache in zip(model.norms, model.layers, caches, strict=True):
        x = x + attend(layer, norm(x), cache, mask)
    return model.guess(model.last_norm(x))


# %% read-text [markdown]
# The positions of the new tokens start where the old ones end.
# Under the mask, a new token sees all old tokens, the new ones before it, and itself.


# %% read
def read(tokens, caches):  # the new tokens: (N, L)
    L, old = tokens.shape[1], caches[0].length
    positions = old + torch.arange(L)
    mask = causal_mask(L, old + L, align="lower_right")  # (L, S): the last row sees all
    return new_rows(tokens, caches, positions, mask)


# %% write-text [markdown] below="The first step reads"
# Writing one letter is a *step*.
# The first step reads the prompt, and each later one the letter written last.


# %% write-with-cache
def write_with_cache(tokens, count, read_new=read):  # (N, L) -> (N, count)
    caches, written = [Cache() for _ in model.layers], []
    for _ in range(count):
        logits = read_new(tokens, caches)
        tokens = logits[:, -1:].argmax(dim=-1)  # (N, 1): the next letter
        written.append(tokens)
    return torch.cat(written, dim=1)


prompt = to_tokens("KQZBMTARK")[None]
text = "KQZBMTARK" + to_text(write_with_cache(prompt, 23)[0])
text, text == write("KQZBMTARK", 23)[0]

# %% phases [markdown] above="That makes 31 rows" below="Which keys will step"
# The text is the same.
# Reading the prompt is called [**prefill**](glossary.ipynb#prefill),
# and writing token by token [**decoding**](glossary.ipynb#decoding).
# The prefill computes 9 rows and gives us the first new letter.
# Each of the other 22 letters takes one more row.
# That makes 31 rows in place of 460.
#
# In the explorer, a number says in which step a query, key or value was computed;
# hatched ones are not kept.
# Which keys will step 7 read, and in which steps were they computed?

# %% explorer
CacheExplorer(cache=True, step=3, ask=False)

# %% explorer-read [markdown]
# <details><summary>An answer</summary>
#
# Step 7 reads 15 keys: nine from step 1, and one from each of the steps 2 to 7.
# </details>

# %% bugs [markdown] below="Four mistakes are easily"
# ## Four bugs that raise no error
#
# Four mistakes are easily made with a cache.
#
# - **Wrong corner:** `is_causal=True` is passed.
#   But PyTorch aligns this mask at the *upper left* corner,
#   where the first new query sees only the first key of the text.
#   With a cache, it belongs at the *lower right*.
# - **No mask:** the mask is left out as soon as the cache holds something.
# - **From 0:** the positions of the new tokens start at 0.
# - **One too low:** where a single token is read, it gets the position of the last old one.


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
    elif bug == "one too low" and old > 0 and L == 1:
        first = old - 1
    return new_rows(tokens, caches, first + torch.arange(L), mask)


bugs = ["none", "wrong corner", "no mask", "from 0", "one too low"]

# %% texts-text [markdown] below="Do the texts show"
# With each of them we continue `KQZBMTARK` and 200 other prompts, letter by letter:
# loops of 11 letters, each followed by its first letter.
# Recall lesson 12: up to position 15, layer 0 writes a note on each letter about the one before,
# and layer 1 searches these notes.
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
    print(f"{bug:13} {to_text(ours[0])}  others that change: {changed:.0%}")

# %% texts-read [markdown] above="A text that looks" answers="13/letter-by-letter"
# One too low changes about half of these texts, and from 0 hardly any:
# a larger error can do less harm.
# Without a mask, no text changes: a single new letter may see everything,
# so there is nothing to block.
#
# A text that looks right does not prove a cache correct.

# %% how-to-test-a-cache [markdown] below="For each text, we"
# ## How to test a cache
#
# So we compare the rows themselves with those of a whole pass.
# Our 200 prompts arrive in three ways: all at once; 11 letters and then one; 9 and then three.
# For each text, we take the largest difference between two logits.
# The table shows the smallest and the largest of these 200 numbers.


# %% differences
def differences(bug, lengths):  # such as (11, 1)
    caches = [Cache() for _ in model.layers]
    parts = prompts.split(lengths, dim=1)
    rows = torch.cat([read_with(bug, part, caches) for part in parts], dim=1)
    return (rows - whole_pass(prompts)).abs().amax(dim=(1, 2))  # (200,)


ways = {"all at once": (12,), "11 and then 1": (11, 1), "9 and then 3": (9, 3)}


def smallest_to_largest(bug, lengths):
    found = differences(bug, lengths)
    return f"{found.min():.2f} to {found.max():.2f}"


columns = {
    way: [smallest_to_largest(bug, lengths) for bug in bugs]
    for way, lengths in ways.items()
}
pd.DataFrame(columns, index=bugs)

# %% test-read [markdown] above="The prompt alone shows"
# The prompt alone shows none of the four bugs.
# One new letter does not show the missing mask, and three at once do not show one too low.
# Together they show all four, in every text.
# So the rule is: **compare all new rows with those of a whole pass, up to rounding.
# Begin with a cache that is not empty, then read several tokens, one, and one more**
# (because the position may stand still).

# %% time-text [markdown]
# ## What does a step cost?
#
# Our model reads only 32 tokens,
# so for longer texts we timed two stacks of layers with random parameters:
# a *small* one of four attention layers with 256 features,
# and a *large* one of eight with 1,024 features, each followed by an MLP.

# %% time-figure jupyter={"source_hidden": true}
from attnlab.palette import BLUE, ORANGE

times = pd.read_csv(data_path("cache_times.csv"))
lines = ["a whole pass, small stack", "one step, small stack", "one step, large stack"]
small, large = times[times["model"] == "small"], times[times["model"] == "large"]
measured = [small["pass_us"], small["step_us"], large["step_us"]]
drawn = pd.concat(measured, keys=lines, names=["line", "row"]) / 1000
drawn = drawn.rename("time").reset_index().join(times["tokens"], on="row")
_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
look = {"style": "line", "markers": True, "dashes": False, "errorbar": ("pi", 100)}
look |= {"hue": "line", "palette": [ORANGE, BLUE, "black"]}  # as in the explorer
sns.lineplot(drawn, x="tokens", y="time", **look, ax=ax)
ax.set(xscale="log", yscale="log", xlabel="tokens in the text", ylabel="milliseconds")
stops = times["tokens"].unique()
ax.set_xticks(stops, [f"{n:,}" for n in stops])
ax.set_yticks([1, 10, 100], ["1", "10", "100"])
ax.minorticks_off()
ax.legend(title="")
show_figure(ax, "13.1")

# %% time-read [markdown] above="The step of the large" below=["The parameters stay the", "The parameters stay the"]
# In the small stack, at 2,048 tokens, a whole pass took about 100 times as long as a step.
# The step got slower, too: it took about five times as long as at 32 tokens.
# The step of the large stack took only 1.4 times as long as at 32.
#
# Each step reads the parameters and the cache.
# In a large model, for a single text, fetching them from memory takes most of the time
# (Pope et al., 2022).
# The parameters stay the same, and the cache grows.
# Each layer keeps a key and a value for each head of keys and values (*kv head*);
# several query heads may share one ([grouped heads](glossary.ipynb#grouped-heads)).
# So for each token of each text, a cache takes
#
# $$2 \cdot \text{layers} \cdot \text{kv heads} \cdot \text{head\_dim} \cdot \text{bytes per number.}$$

# %% see-bytes
models = pd.DataFrame(
    {
        "layers": [4, 8, 32, 32],
        "kv heads": [4, 16, 32, 8],
        "head_dim": [64, 64, 128, 128],
        "bytes per number": [4, 4, 2, 2],
        "tokens": [2048, 2048, 4096, 131072],
        "MiB of parameters": [4, 384, 12852, 15316],  # the last two as published
    },
    index=["small stack", "large stack", "Llama 2 7B", "Llama 3.1 8B"],
)
numbers = 2 * models["layers"] * models["kv heads"] * models["head_dim"]  # key, value
per_token = numbers * models["bytes per number"]
models["MiB of cache"] = per_token * models["tokens"] // 2**20
models

# %% bytes-read [markdown] above="In the large stack"
# In the large stack, the full cache is a third as large as the parameters,
# so the last step reads a third more.
# In the small stack, it is four times as large.

# %% why-one-more-word-is-cheap [markdown] end="One more word costs"
# ## Why one more word is cheap
#
# When a chatbot writes the last word of a long answer, it does not read the conversation again.
# With a causal mask in every layer, old rows never change,
# so their keys and values can be kept in a cache.
# One more word costs one row: its own query against all stored keys.
# The last word appears about as quickly as the second,
# as long as the caches of all texts written at once are small beside the parameters that a step
# reads.
# In Llama 3.1 8B, even that of one full text is not.

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

# %% window-text [markdown]
# ### Which tokens can go?
#
# Our own model was trained without a window.
# Which tokens can it do without?
# We let each token see no more than 20: either the last 20, or the first 19 and itself.
# What is hidden from all later tokens could as well be dropped from the cache, so a mask will do.
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

# %% draw-window jupyter={"source_hidden": true}
# %%answer 13/what-to-drop
from attnlab.palette import GREEN, INK, PURPLE

_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
look = {"markers": True, "palette": [INK, GREEN, PURPLE]}
sns.lineplot(pd.DataFrame(shares, index=range(20, 32)), **look, ax=ax)
ax.set(ylim=(0, 1.05), xlabel="position", ylabel="share of correct guesses")
show_figure(ax, "13.2")

# %% window-read [markdown] answers="13/what-to-drop"
# With the first 19 tokens and the token itself, the guesses are as good as with all.
# With the last 20 tokens, they get worse as the notes leave the window.
#
# Xiao et al. (2023) found that large language models become much worse as soon as their first
# tokens leave a window, but stay nearly as good if the first four are kept.
# In those models the reason is another: not what the first tokens hold,
# but how much weight they take.
# Many heads give them much of it,
# as in the [attention sink](glossary.ipynb#attention-sink) of lesson 10, and when they leave,
# the softmax gives this weight to other tokens.

# %% remember [markdown] end=["A causal mask in", "A cache takes 2", "To test a cache"]
# ## What to remember
#
# - A causal mask in every layer freezes the past: a new token changes no earlier row.
#   So keys and values can be kept, and one more token costs one row instead of a whole pass.
# - Prefill reads the whole prompt in one pass.
#   Decoding reads one token at a time, and the parameters each time.
# - With $L$ new queries and $S$ keys, the causal mask belongs at the lower right corner,
#   and the positions start where those in the cache end.
#   `is_causal=True` puts the mask at the upper left.
# - To test a cache, compare all new rows with those of a whole pass, up to rounding.
#   Start from a cache that is not empty, then read several tokens, one, and one more.
# - A cache takes 2 · layers · kv heads · head_dim numbers for each token of each text.
#   While the caches of a batch are small beside the parameters,
#   the last step reads little more than the first.

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
# Each call of this function reads the next tokens (N, L) of a text and returns their logits,
# `(N, L, 27)`.
# `whole(tokens)` returns the logits of a whole pass in float64.
# The test gets `tokens` (2, 24).
# It should return True if the cache is correct.
# It should return False if the cache has one of our four bugs,
# even if a mask is wrong in one layer only,
# or if every call after the first starts at the same position.
#
# <details><summary>Hint</summary>
#
# Call <code>read = start()</code>, and let it read pieces of different lengths.
# Join all rows before you compare them, and allow for rounding.
# </details>


# %% tags=["exercise"]
def cache_is_correct(start, whole, tokens):
    """Return True or False."""


# %%
check_cache_test(cache_is_correct)


# %% tags=["solution"]
def cache_is_correct_solution(start, whole, tokens):
    read = start()
    rows = [read(piece) for piece in tokens.split((9, 13, 1, 1), dim=1)]
    return torch.allclose(torch.cat(rows, dim=1), whole(tokens), atol=1e-4)


check_cache_test(cache_is_correct_solution)

# %% exercise-3 [markdown]
# ### 3 · Modify ★★ (8 minutes)
#
# Change a causal window so that the first tokens stay visible.
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
# A user replaces one token in the middle of a long conversation; all later ones stay.
# Which keys and values in the cache are still right?
# Answer for layer 0 and for the layers above it.
# And why is such a cache of little use to an encoder without a causal mask?
#
# <details><summary>An answer</summary>
#
# The tokens before the replaced one have never seen it,
# so their keys and values are right in every layer.
# In layer 0, a key is made from a token and its position alone,
# so there only the replaced token needs new ones.
# But the later tokens attend to it, so what they take from layer 0 changes.
# From layer 1 on, the keys and values of the replaced token and of all later ones must be computed
# again.
# In an encoder, a new token changes what all other tokens take from layer 0.
# So from layer 1 on, nothing can be kept.
# </details>

# %% in-torch [markdown] below="`attnlab.KeyValueCache` is the"
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
# `attnlab.KeyValueCache` is the cache of this lesson with checks and a window.

# %% own-cache
from attnlab import KeyValueCache, MultiHeadAttention

own, cache = MultiHeadAttention(embed_dim=8, num_heads=2).eval(), KeyValueCache()
x = torch.randn(1, 7, 8)  # (N, L, E)
parts = x.split((2, 3, 1, 1), dim=1)  # by our rule
rows = [own(part, cache=cache).output for part in parts]
torch.allclose(torch.cat(rows, dim=1), own(x, is_causal=True).output, atol=1e-5)

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
# - Xiao et al.,
#   [Efficient Streaming Language Models with Attention Sinks](https://arxiv.org/abs/2309.17453),
#   2023: what happens when the first tokens leave the window.
# - The sizes in the table are those of the models' public configurations:
#   [Touvron et al.](https://arxiv.org/abs/2307.09288), 2023 (Llama 2),
#   and [Grattafiori et al.](https://arxiv.org/abs/2407.21783), 2024 (Llama 3.1).
# - The times and the effects of a window are our own measurements.

# %% next [markdown]
# ## Next
#
# Lesson 14, [Where a meaning appears](14_where_a_meaning_appears.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 46 minutes, and where a class stalls</summary>
#
# **46 minutes.**
# Writing, counting and the masks of both layers: 11.
# Keys and values, the code and the explorer: 17.
# The four bugs and the test: 10.
# What a step costs, and the answer: 8.
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
# The cache of a full text is a sixth as large as the parameters.
# How much more does the last step read than the first?
# **About a sixth.**
# *Thousands of times as much, because it reads thousands of tokens:*
# both steps read the parameters, and these are much larger than the cache.
# </details>
