# %% [markdown]
# # 3 · Masks: who may look at whom
#
# A mask names the keys that a query may look at; every other key gets the weight 0. Mistakes with masks rarely raise
# an error, so we learn a test that finds them: change a token and see which outputs move.
#
# **You need** lesson 1: scores, weights, output, and why a score of 0 still counts.
#
# **You will be able to**
# - mask padding and the future, and combine masks,
# - test a mask for leaks,
# - say what a row without any key becomes, forward and backward,
# - convert between seven conventions that contradict each other.
#
# **Time:** 60 minutes in class, 90 alone; the part "Further" may be skipped. <!-- constants: 60 90 -->

# %%
import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import MultiHeadAttention, attention_weights, causal_mask, combine_masks
from attnlab import data_path, from_hf_attention_mask, from_key_padding_mask, load_table
from attnlab import scaled_dot_product_attention, sequence_mask, sliding_window_mask
from attnlab import to_additive_mask, trace_attention
from attnlab.display import show_figure
from attnlab.exercises import check_counted_mask, check_decoder_mask
from attnlab.exercises import check_padded_batch, check_safe_softmax, predict
from attnlab.live import live
from attnlab.plotting import plot_attention, plot_heads, plot_mask, plot_sweep
from torch import nn

plt.style.use("attnlab.attnlab")
torch.manual_seed(0)
torch.set_num_threads(1)
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## A short sentence in a long batch
#
# A tensor is rectangular. To put "The cat sat" into one batch with "The cat sat on the mat", we append three rows of
# zeros. Such filler is called **padding**, and its tokens are written `<pad>`. As in lesson 1, queries, keys and values are the same rows.

# %% tags=["id:S3.20"]
tokens, _, x = load_table("the_cat_sat_on_the_mat.csv")
short = x[:3]  # The cat sat
padded = F.pad(short, (0, 0, 0, 3))  # three rows of zeros below
batch = torch.stack([x, padded])  # (N, L, E)
print(padded)
batch.shape

# %% tags=["predict", "id:M9"] jupyter={"source_hidden": true}
predict(
    'Padding is all zeros. Is the output of "sat" in the padded batch the same as '
    "alone?",
    options=["yes: zeros add nothing", "nearly", "no"],
    reveal="No: it moves by up to 0.292. A key of zeros has the score 0, and $e^0$ is "
    '1: the three `<pad>` take 0.282 of the weight of "sat" and hand over '
    "zeros.",
)

# %% tags=["reveal", "id:M9", "id:S3.20"]
alone = scaled_dot_product_attention(short, short, short)
together, weights, _ = trace_attention(batch, batch, batch)
assert (alone - together[1, :3]).abs().max() > 0.1
print((alone[2] - together[1, 2]).abs().max(), weights[1, 2, 3:].sum())
weights[1, 2]  # sentence 1, "sat": the last three are <pad>

# %% [markdown]
# A mask keeps `<pad>` out. **True means "may attend"**, in all of attnlab. Where it is False, the score becomes $-\infty$
# before the softmax. $e^{-\infty}$ is 0: the key gets no weight, and the others share all of it.


# %% tags=["id:S3.20"]
def masked_attention(query, key, value, allowed):
    """allowed: bool, broadcastable to (..., L, S) -> output, weights."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~allowed, -torch.inf)  # the only new line
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


# %% tags=["id:M9"]
real = sequence_mask([6, 3])  # from the lengths: (N, S)
allowed = real[:, None, :]  # (N, 1, S): the same keys for every query
output, weights = masked_attention(batch, batch, batch, allowed)
assert torch.allclose(output[1, :3], alone)  # as if alone
ours = scaled_dot_product_attention(batch, batch, batch, attn_mask=allowed)
fused = F.scaled_dot_product_attention(batch, batch, batch, attn_mask=allowed)
assert torch.allclose(output, ours) and torch.allclose(output, fused, atol=1e-6)
real.int()

# %% [markdown]
# With the mask the sentence gets the same output in the batch and alone. How much does it matter? Here are five
# tokens with random scores, two of them padding.

# %% tags=["id:S3.18", "id:S3.20"]
torch.manual_seed(42)
random_scores = torch.randn(5, 5)
five = ["The", "cat", "sat", "<pad>", "<pad>"]
real_five = torch.tensor([[True, True, True, False, False]])  # (1, S)
plain = random_scores.softmax(dim=-1)
masked = attention_weights(random_scores, attn_mask=real_five)
large = random_scores.masked_fill(~real_five, -1e9).softmax(dim=-1)  # many write this
expected = torch.tensor([0.1320, 0.4020, 0.3505, 0.6158, 0.4539])
assert torch.allclose(plain[:, 3:].sum(dim=-1), expected, atol=1e-4)
assert torch.allclose(masked[1, :3], torch.tensor([0.2007, 0.6607, 0.1386]), atol=1e-4)
assert (masked[:, 3:] == 0).all() and torch.allclose(large, masked)

# %% tags=["id:S3.19"]
everything = torch.ones(5, 5, dtype=torch.bool)
fig = plot_heads(
    torch.stack([plain, masked]),
    attn_mask=torch.stack([everything, real_five.expand(5, 5)]),
    queries=five,
    keys=five,
    titles=["without a mask", "with the mask"],
)
for ax in fig.axes[:2]:
    ax.tick_params(axis="x", labelsize=8.5)
show_figure(
    fig,
    number="3.1",
    caption="Random scores. Without a mask “cat” gives 0.402 of its weight to padding "
    "(0.19 and 0.21). With it the columns of padding are exactly 0, drawn hatched.",
    alt="Two tables of weights, five by five. On the right the last two columns are "
    "blocked and the other columns have grown.",
)

# %% [markdown]
# The scores are random: the mask removes padding, it does not find meaning. The rows of `<pad>` still look at words; we come
# back to them. Many write -1e9 instead of $-\infty$: in float32 $e$ to that rounds to 0. It is no law, as we will see.
# <!-- constants: -1e9 -->
#
# ## Before the softmax, not after
#
# Why not compute weights as usual and erase those of `<pad>` at the end?

# %% tags=["predict", "id:S3.21"] jupyter={"source_hidden": true}
predict(
    "Softmax first, then set the weights of `<pad>` to 0. What do the rows sum to?",
    options=["1", "less than 1", "more than 1"],
    reveal="Less: 0.868, 0.598, 0.649, 0.384 and 0.546. The blocked keys had taken "
    "their share before they were erased. Dividing each row by its sum would "
    "mend it.",
)

# %% tags=["reveal", "id:S3.21"]
erased = plain * real_five
expected = torch.tensor([0.868, 0.598, 0.649, 0.384, 0.546])
assert torch.allclose(erased.sum(dim=-1), expected, atol=1e-3)
assert torch.allclose(erased / erased.sum(dim=-1, keepdim=True), masked)
erased.sum(dim=-1)

# %% [markdown]
# ### Your experiment
#
# Without a mask "cat" leaves 0.402 on padding. Try what one may do to a blocked score or weight. Which rule is worst for "cat"?

# %% tags=["id:S3.21"]
RULES = {
    "no mask": lambda s: s.softmax(dim=-1),
    "before: -inf": lambda s: s.masked_fill(~real_five, -torch.inf).softmax(dim=-1),
    "before: 0": lambda s: s.masked_fill(~real_five, 0.0).softmax(dim=-1),
    "after: 0": lambda s: s.softmax(dim=-1) * real_five,
}


def draw_rule(fig, rule):
    weights = RULES[rule](random_scores)
    left, right = fig.subplots(1, 2, width_ratios=[3, 2])
    plot_attention(weights, ax=left, queries=five, keys=five, title="weights")
    left.tick_params(axis="x", labelsize=8.5)
    words, pads = (part.sum(dim=-1).numpy() for part in weights.split([3, 2], dim=-1))
    right.barh(range(5), words, color="#2f7ebc", label="on words")
    pad_look = {"color": "#c8500a", "hatch": "//", "label": "on <pad>"}
    right.barh(range(5), pads, left=words, **pad_look)
    right.set(xlim=(0, 1.05), ylim=(4.5, -0.5), yticks=[], title="row sums")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    total = weights[1].sum()
    return f'"cat": {words[1]:.3f} on words, {pads[1]:.3f} on padding: {total:.3f}.'


# %%
live(
    draw_rule,
    rule=list(RULES),
    start={"rule": "no mask"},
    alt="Weights of five tokens under one rule, and the sum of each row as a bar.",
)

# %% tags=["id:S3.21"]
filled = RULES["before: 0"](random_scores)[:, 3:].sum(dim=-1)
assert filled[1] > plain[1, 3:].sum() and (filled > 0.12).all()
filled

# %% [markdown]
# Filling with 0 can be worse than no mask: "cat" gives 0.580 to padding instead of 0.402. Zero is a score like any other
# (lesson 1). A blocked score must lie far below all others, and only $-\infty$ lies below everything.
#
# ## Padding masks columns, not rows
#
# Our test: put something else into a token and see which outputs move.


# %%
def moved(attend, x, place):
    """Which outputs change when the tokens at `place` become 99?"""
    changed = x.clone()
    changed[place] = 99.0
    return (attend(changed) - attend(x)).abs().amax(dim=-1) > 1e-5


no_pad = sequence_mask([3], max_len=6)  # (1, S): three words, three <pad>


def attend_words(x):
    return scaled_dot_product_attention(x, x, x, attn_mask=no_pad)


# %% tags=["predict", "id:M8"] jupyter={"source_hidden": true}
predict(
    "No query may look at the three `<pad>`. Fill them with 99 instead of 0. Which of "
    "the six outputs move?",
    options=["none", "those of <pad>", "all six"],
    reveal="Those of the three `<pad>`: they are queries too, and their queries are "
    "new. Words are safe. But the mean over all six outputs moves, by 0.367: "
    "whoever averages, or adds up a loss, must leave those rows out.",
    # constants: 99
)

# %% tags=["reveal", "id:M8"]
print(moved(attend_words, padded, slice(3, 6)))
filled = padded.clone()
filled[3:] = 99.0
before, after = attend_words(padded), attend_words(filled)
assert torch.allclose(before[:3].mean(dim=0), after[:3].mean(dim=0))  # words only
(before.mean(dim=0) - after.mean(dim=0)).abs().max()

# %% [markdown]
# Should the mask block the **rows** of `<pad>` too? Its five numbers 1 1 1 0 0 can stand along the keys, shape `(1, 1, 5)`,
# along the queries, `(1, 5, 1)`, or in both.

# %% tags=["predict", "id:M8"] jupyter={"source_hidden": true}
predict(
    'Take the random scores again and give the mask the shape `(1, 5, 1)`. "cat" left '
    "0.402 of its weight on padding. How much is it now?",
    options=["0", "0.402", "1"],
    reveal="Still 0.402. This mask blocks whole rows: `<pad>` may look at nothing, "
    "and the words look at padding as before.",
)

# %% tags=["reveal", "id:M8", "id:M10", "id:S3.18"]
shapes = {"(1, 1, 5)": (1, 1, 5), "(1, 5, 1)": (1, 5, 1)}
flags = torch.tensor([True, True, True, False, False])
grids = {name: flags.view(shape) for name, shape in shapes.items()}
grids["(1, 5, 5)"] = grids["(1, 1, 5)"] & grids["(1, 5, 1)"]


def draw_shape(fig, shape):
    allowed = grids[shape].expand(1, 5, 5)[0]
    weights = attention_weights(random_scores, attn_mask=allowed)
    left, right = fig.subplots(1, 2)
    plot_mask(allowed, ax=left, queries=five, keys=five, title="mask", legend=False)
    plot_attention(weights, ax=right, queries=five, keys=five, title="weights")
    for ax in (left, right):
        ax.tick_params(axis="x", labelsize=8.5)
    empty = [str(row) for row in range(5) if not allowed[row].any()]
    return (
        f'"cat" gives {weights[1, 3:].sum():.3f} to padding. '
        f"Rows that may look at nothing: {', '.join(empty) or 'none'}."
    )


live(
    draw_shape,
    shape=list(grids),
    start={"shape": "(1, 5, 1)"},
    alt="Left: which cells a mask leaves open. Right: the weights under it.",
)

# %% tags=["id:M8", "id:M10"]
rows_only = attention_weights(random_scores, attn_mask=grids["(1, 5, 1)"][0])
assert torch.allclose(rows_only[1], plain[1])
both = attention_weights(random_scores, attn_mask=grids["(1, 5, 5)"][0])
assert torch.equal(both[:3], masked[:3]) and (both[3:] == 0).all()
rows_only[1, 3:].sum()

# %% [markdown]
# An axis of size 1 repeats: `(1, 1, 5)` repeats over the batch and the queries, and its 5 runs along the **keys**. That is the
# shape for padding. Blocking rows as well changes no word, and makes rows that look at nothing: trouble, as we will see.
#
# ## The future
#
# A model that learns to predict the next word must not see it. Under a **causal mask**, or look-ahead mask, query $i$
# looks at keys 0 to $i$.

# %% tags=["id:S4.23", "id:S3.21"]
causal = causal_mask(6)  # (L, S)
assert torch.equal(causal, torch.tril(torch.ones(6, 6)) == 1)
causal.int()

# %% tags=["predict"] jupyter={"source_hidden": true}
predict(
    'Change the last word, "mat". Under the causal mask, which of the six outputs '
    "move?",
    options=["only the last", "all six", "all but the last"],
    reveal="Only the last: no other query may look at it. If an earlier output moves, "
    "the future leaks. This is the **leak test**.",
)


# %% tags=["reveal", "id:S4.23"]
def attend_causally(x):
    return scaled_dot_product_attention(x, x, x, attn_mask=causal)


def attend_flipped(x):  # the same mask, turned over
    return F.scaled_dot_product_attention(x, x, x, attn_mask=~causal)


assert moved(attend_causally, x, -1).tolist() == [False] * 5 + [True]
moved(attend_causally, x, -1)

# %% [markdown]
# Now hand over the mask the wrong way round, `~causal`. The shapes are right and no error is raised.

# %% tags=["id:M1"]
assert moved(attend_flipped, x, -1).tolist() == [True] * 5 + [False]
moved(attend_flipped, x, -1)

# %% [markdown]
# Everybody looks at the future, nobody at the past, and the last word at nothing. A well-known course had exactly this in
# one of its layers (Sources). The training loss does not warn: seeing the answer makes it *better*, as "Further" shows.
#
# ### Masks combine with *and*
#
# A **sliding window** keeps near keys only: it saves work on long texts. A cell is open if every mask leaves it open. (Where True
# means "blocked", the same is written with *or*.)

# %%
window = sliding_window_mask(6, window=3)  # distance below 3, to both sides
some = sequence_mask([4], max_len=6)  # two <pad> at the end
panels = {
    "causal": causal,
    "window of 3": window,
    "causal & window": causal & window,
    "and padding": combine_masks(causal, window, some),
}
assert torch.equal(panels["and padding"], causal & window & some)
assert torch.equal(~(causal & window), ~causal | ~window)
fig, axes = plt.subplots(1, 4, figsize=(7.5, 2.3), layout="constrained")
for ax, (title, mask) in zip(axes, panels.items(), strict=True):
    plot_mask(mask, ax=ax, title=title, legend=False)
    ax.set(xlabel="", ylabel="")
fig.supxlabel("key position")
fig.supylabel("query position")
show_figure(
    fig,
    number="3.2",
    caption="Blue: may attend. Grey and hatched: blocked. The last mask lets no query "
    "look at keys 4 and 5, which are padding.",
    alt="Four masks, six by six: a lower triangle, a band, the lower half of the "
    "band, and the same without its last two columns.",
)

# %% [markdown]
# ## A row that may look at nothing
#
# To generate text, sentences are often padded on the left. Add the causal mask, and the first row has no open cell. (Left padding also
# shifts the words: a model that numbers positions must begin at the first word. Not shown here.)

# %%
names = ["<pad>", "The", "cat", "sat"]
left = F.pad(short, (0, 0, 1, 0))  # one row of zeros above
allowed = causal_mask(4) & torch.tensor([False, True, True, True])
pd.DataFrame(allowed.int().numpy(), index=names, columns=names)

# %% tags=["predict", "id:M2"] jupyter={"source_hidden": true}
predict(
    "All four scores of row 0 become $-\\infty$. What does softmax make of them?",
    options=["all 0", "all 0.25", "NaN"],
    reveal="NaN, not a number: softmax divides by the sum of the exponentials, and 0 "
    "divided by 0 has no value. No error is raised.",
    # constants: 0.25
)

# %% tags=["reveal", "id:M2"]
layer_1, weights = masked_attention(left, left, left, allowed)
assert weights[0].isnan().all() and weights[1:].isfinite().all()
weights

# %% [markdown]
# Nobody reads the output of padding. Is the NaN harmless, then?

# %% tags=["predict", "id:M2"] jupyter={"source_hidden": true}
predict(
    "A second layer works on this output, under the same mask. `<pad>` gets the weight "
    "exactly 0 in rows 1 to 3. How many of the four rows are NaN now?",
    options=["0", "1", "4"],
    reveal="All 4. The weighted sum still multiplies, and 0 times NaN is NaN. A mask "
    "cannot hide a NaN.",
)

# %% tags=["reveal", "id:M2"]
layer_2, weights = masked_attention(layer_1, layer_1, layer_1, allowed)
assert (weights[1:, 0] == 0).all() and weights[1:].isfinite().all()
assert layer_2.isnan().all()
layer_2.isnan().any(dim=-1).sum()

# %% [markdown]
# ### Four ways to block
#
# We follow four of them: the output of row 0, the next layer, and the gradient of a loss that leaves row 0 out.


# %% tags=["id:M2"]
def filled_with(fill):
    def attend(x):
        scores = x @ x.T / math.sqrt(5)
        return scores.masked_fill(~allowed, fill).softmax(dim=-1) @ x

    return attend


def handed_to(function):
    return lambda x: function(x, x, x, attn_mask=allowed)


ways = {
    "-inf": filled_with(-torch.inf),
    "-1e9": filled_with(-1e9),
    "torch": handed_to(F.scaled_dot_product_attention),
    "attnlab": handed_to(scaled_dot_product_attention),
}


def follow(attend):
    x = left.clone().requires_grad_()
    first = attend(x)
    first[1:].sum().backward()  # row 0 is no part of the loss
    return {
        "row 0, feature 0": round(first[0, 0].item(), 3),
        "NaN rows in layer 2": attend(first).isnan().any(dim=-1).sum().item(),
        "NaN gradients": f"{x.grad.isnan().float().mean():.0%}",
        "row 0 sees the future": moved(attend, left, -1)[0].item(),
    }


# %% tags=["id:M2"]
fates = pd.DataFrame({name: follow(attend) for name, attend in ways.items()}).T
assert fates.loc["-inf", "NaN gradients"] == "100%"
assert fates["NaN rows in layer 2"].tolist() == [4, 0, 0, 0]
assert fates["row 0 sees the future"].tolist() == [False, True, False, False]
fates

# %% [markdown]
# $-\infty$ ruins the whole gradient, though the loss never looks at row 0. With -1e9 no NaN appears, and something worse: all four
# scores are the same number, so row 0 averages every token, padding and future included. The functions of torch and of attnlab
# return 0. <!-- constants: -1e9 -->

# %% [markdown]
# ### Your experiment: the mask editor
#
# It starts with left padding, causal, $-\infty$: rows 0 and 1 are NaN. Which other combinations leave a row without a key,
# and what do the three ways of filling make of it?

# %%
filler = ["<pad>", "<pad>"]
TEXTS = {
    "none": (tokens, x),
    "right": ([*tokens[:4], *filler], F.pad(x[:4], (0, 0, 0, 2))),
    "left": ([*filler, *tokens[:4]], F.pad(x[:4], (0, 0, 2, 0))),
}
KINDS = {
    "none": torch.ones(6, 6, dtype=torch.bool),
    "causal": causal,
    "window": sliding_window_mask(6, window=2),
    "causal window": causal & sliding_window_mask(6, window=2),
}


def weigh(scores, allowed, fill):
    if fill == "attnlab":
        return attention_weights(scores, attn_mask=allowed)
    return scores.masked_fill(~allowed, float(fill)).softmax(dim=-1)


# %%
def draw_editor(fig, mask, padding, fill):
    names, rows = TEXTS[padding]
    allowed = KINDS[mask] & torch.tensor([name != "<pad>" for name in names])
    weights = weigh(rows @ rows.T / math.sqrt(5), allowed, fill)
    left, right = fig.subplots(1, 2)
    plot_mask(allowed, ax=left, queries=names, keys=names, title="mask", legend=False)
    plot_attention(weights, ax=right, queries=names, keys=names, title="weights")
    empty = (~allowed.any(dim=-1)).nonzero().flatten().tolist()
    if not empty:
        return "Every row may look at something; the three ways agree."
    first = weights[empty[0]]
    what = "NaN" if first.isnan().any() else f"{first[0]:.3f} for every key"
    return f"Rows without a key: {', '.join(map(str, empty))}. Their weights: {what}."


live(
    draw_editor,
    mask=list(KINDS),
    padding=list(TEXTS),
    fill=["-inf", "-1e9", "attnlab"],
    start={"mask": "causal", "padding": "left", "fill": "-inf"},
    figsize=(7.5, 3.6),
    alt="Left: a mask over six tokens. Right: the weights under it; NaN is crossed.",
)


# %% [markdown]
# ## Fewer queries than keys
#
# A text grows word by word, and the keys and values of earlier words are kept: a **cache**. So one new query meets all keys,
# $L = 1$ and $S = 6$. With `is_causal=True` torch makes the causal mask itself.

# %% tags=["predict", "id:M11"] jupyter={"source_hidden": true}
predict(
    'All six words are in the cache. The newest, "mat", asks, with `is_causal=True`. '
    "At which keys may it look?",
    options=["all six", "only the first", "only itself"],
    reveal="Only the first: torch counts from the upper left corner, so query 0 "
    "belongs to key 0. The output is the value of key 0, and no error is "
    "raised.",
)

# %% tags=["reveal", "id:M11"]
cache, newest = x, x[5:]  # (S, E) and (1, E)
output = F.scaled_dot_product_attention(newest, cache, cache, is_causal=True)
assert torch.equal(output, cache[:1])
output, cache[0]

# %%
fig, axes = plt.subplots(1, 2, figsize=(7.5, 2.1), layout="constrained")
for ax, align in zip(axes, ["upper_left", "lower_right"], strict=True):
    mask = causal_mask(2, 6, align=align)
    plot_mask(mask, ax=ax, queries=tokens[4:], keys=tokens, title=align, legend=False)
show_figure(
    fig,
    number="3.3",
    caption="Two new queries, six keys. Left: what is_causal=True does. Right: what a "
    "cache needs, the last query beside the last key.",
    alt="Two masks of two rows and six columns. Left the rows have one and two open "
    "cells, right five and six.",
)

# %% [markdown]
# With a cache ask for the lower right corner. A single newest query may look at everything and needs no mask. Training or not makes no
# difference: a layer that drops the mask in `eval()` computes something else in every row but the last.

# %% tags=["id:M11"]
whole = F.scaled_dot_product_attention(cache, cache, cache, is_causal=True)
mask = causal_mask(2, 6, align="lower_right")
last_two = scaled_dot_product_attention(x[4:], cache, cache, attn_mask=mask)
assert torch.allclose(last_two, whole[-2:])
unmasked = F.scaled_dot_product_attention(cache, cache, cache)
assert torch.allclose(unmasked[-1], whole[-1])
assert ((unmasked - whole)[:-1].abs().amax(dim=-1) > 0.1).all()
(unmasked - whole).abs().amax(dim=-1)

# %% [markdown]
# ## Seven conventions
#
# The fact "key 3 is padding" is written in seven ways, and some are opposites. `F.sdpa` is short for
# `F.scaled_dot_product_attention`, `nn.MHA` for `nn.MultiheadAttention`, HF for Hugging Face. "tril == 0" is code that stores
# ones and zeros and blocks where it finds 0, as many GPTs do with `torch.tril`. Each comes with its converter to ours.

# %% tags=["id:M1"]
real = torch.tensor([[True, True, True, False]])  # The cat sat <pad>
square = real.expand(4, 4)  # (L, S)
conventions = {  # name: what is stored, converter to ours
    "F.sdpa bool": (square, lambda m: m),
    "F.sdpa float": (to_additive_mask(square), lambda m: m == 0),
    "nn.MHA attn_mask": (~square, lambda m: ~m),
    "tril == 0": (square.float(), lambda m: m != 0),
    "nn.MHA key_padding_mask": (~real, from_key_padding_mask),  # (N, S)
    "HF attention_mask": (real.long(), from_hf_attention_mask),  # (N, S)
    "lengths": (torch.tensor([3]), lambda m: sequence_mask(m, 4)[:, None, None]),
}
for stored, to_ours in conventions.values():
    assert torch.equal(to_ours(stored).expand(1, 1, 4, 4)[0, 0], square)

# %%
SIGNS = {"True": "T", "False": "F", "-inf": "−∞", "0.0": "0.", "1.0": "1."}


def draw_stored(ax, name, stored):
    cells = stored.view(-1, stored.shape[-1])
    meaning = square[: cells.shape[0], : cells.shape[1]]
    title = f"{name.replace(' ', chr(10), 1)}\n{tuple(stored.shape)}"
    plot_mask(meaning, ax=ax, legend=False)
    ax.set_title(title, fontsize=10)
    ax.set(xlabel="", ylabel="", xticks=[], yticks=[], xlim=(0, 4))
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    for (row, column), _ in np.ndenumerate(cells.numpy()):
        value = str(cells[row, column].item())
        place = {"x": column + 0.5, "y": row + 0.5, "ha": "center", "va": "center"}
        ax.text(s=SIGNS.get(value, value), bbox=box, **place)


# %%
ratios = {"height_ratios": [4, 1]}
fig, axes = plt.subplots(2, 4, figsize=(7.5, 3.9), layout="constrained", **ratios)
for ax, (name, (stored, _)) in zip(axes.flat, conventions.items(), strict=False):
    draw_stored(ax, name, stored)
axes[1, 3].remove()
show_figure(
    fig,
    number="3.4",
    caption="What is stored, and its shape. Blue: may be looked at; grey and hatched: "
    "padding. T and F are True and False, a point marks a float.",
    alt="Seven small tables that say the same, keys 0 to 2 are real and key 3 is "
    "padding, with True, False, 0, 1, minus infinity or the number 3.",
)

# %% [markdown]
# ### Handed to the wrong reader
#
# A reader is the code that takes a mask. We hand each convention to each of six readers (`F.sdpa` reads two), in the shape the
# reader wants: only the meaning may be wrong. How loud is the mistake?

# %% tags=["id:M1"]
y = F.pad(short, (0, 0, 0, 1))[None]  # (N, L, E) = (1, 4, 5)
layer = MultiHeadAttention(5, 1, bias=False)
for weight in layer.parameters():
    nn.init.eye_(weight)  # identity: the layer adds nothing of its own
module = layer.to_torch().eval()  # an nn.MultiheadAttention


def sdpa(mask):
    return F.scaled_dot_product_attention(y, y, y, attn_mask=mask.expand(4, 4))


readers = {
    "F.sdpa": sdpa,
    "MHA attn": lambda m: module(y, y, y, attn_mask=m.expand(4, 4))[0],
    "MHA padding": lambda m: module(y, y, y, key_padding_mask=m[:1])[0],
    "HF": lambda m: sdpa((1 - m) * -1e9),  # 1 becomes 0, 0 becomes -1e9: added
    "lengths": lambda m: sdpa(torch.arange(4) < m),
    "tril == 0": lambda m: masked_attention(y, y, y, ~(m == 0))[0],
}

# %% tags=["predict", "id:M1"] jupyter={"source_hidden": true}
predict(
    "A reader gets a mask of another convention that means something else to it. What "
    "happens more often?",
    options=["an error", "a wrong result without an error"],
    reveal="A wrong result: here 19 times without an error and 9 times with one; 14 "
    "pairs are right. The quietest is a float mask of ones and zeros. It is "
    "*added* to the scores, so nothing is blocked, and the output is off by "
    "0.09 only.",
)


# %% tags=["reveal", "id:M1"]
def outcome(read, mask):
    try:
        gap = (read(mask) - sdpa(square)).abs().max()
    except (RuntimeError, TypeError, ValueError, AssertionError):
        return "error"
    return "right" if gap < 1e-5 else f"off by {gap:.2f}"


pairs = pd.DataFrame(
    [
        [outcome(read, stored) for read in readers.values()]
        for stored, _ in conventions.values()
    ],
    index=list(conventions),
    columns=list(readers),
)
found = pairs.stack().str.split(" by").str[0].value_counts()
assert found["off"] > found["error"]
print(found.to_dict())
pairs

# %% [markdown]
# Rows are what you hold, columns who reads it. Torch's own two bool masks are opposites: True is *may attend* in the function
# and *blocked* in the module. When you meet a mask, ask three things: what does True or 1 mean, is it added, which axes has it?
# Then run the leak test.

# %% [markdown]
# ## Further: shapes that fit, and should not
#
# With heads (lesson 7) scores have the shape $(N, H, L, S)$: each of $N$ sentences is looked at in $H$ ways. A mask of fewer axes is
# matched **from the right**; missing axes and axes of size 1 repeat.


# %% tags=["id:M10"]
def fits(mask_shape, scores_shape):
    try:
        return torch.broadcast_shapes(mask_shape, scores_shape) == scores_shape
    except RuntimeError:
        return False


for shape in [(5, 7), (2, 1, 1, 7), (2, 1, 5, 7), (2, 1, 7), (2, 5, 7)]:
    print(f"{shape!s:13} {fits(shape, (2, 3, 5, 7))}")  # N, H, L, S = 2, 3, 5, 7
assert fits((2, 1, 1, 7), (2, 3, 5, 7)) and not fits((2, 1, 7), (2, 3, 5, 7))

# %% [markdown]
# One mask per sentence needs four axes, `(N, 1, 1, S)`. The three axes of our first example meet the heads, and raise an
# error. Good.

# %% tags=["predict", "id:M10"] jupyter={"source_hidden": true}
predict(
    "Now take 2 sentences and 2 heads, and a padding mask of shape `(2, 1, S)`: one "
    "line per sentence. What happens?",
    options=[
        "an error again",
        "each sentence gets its own mask",
        "each head gets the mask of a sentence",
    ],
    reveal="Each head gets the mask of a sentence, without an error: the 2 meets the "
    "heads. Sentence 0 has no padding, and loses its last three words in head "
    "1. Sentence 1 looks at padding in head 0.",
)

# %% tags=["reveal", "id:M10"]
torch.manual_seed(0)
scores = torch.randn(2, 2, 6, 6)  # N, H, L, S
real = sequence_mask([6, 3])  # (N, S)
wrong = attention_weights(scores, attn_mask=real[:, None])  # (2, 1, S): no error
right = attention_weights(scores, attn_mask=real[:, None, None])  # (N, 1, 1, S)
on_padding = wrong[1, :, :, 3:].sum(dim=-1).mean(dim=-1)  # sentence 1: head 0, head 1
assert on_padding[0] > 0.3 and on_padding[1] == 0 and (right[1, :, :, 3:] == 0).all()
assert (wrong[0, 1, :, 3:] == 0).all()  # sentence 0, head 1: words lost
on_padding

# %%
fig = plot_heads(
    wrong.flatten(0, 1),
    attn_mask=real[:, None].expand(2, 2, 6, 6).flatten(0, 1),
    titles=[f"sentence {n}, head {h}" for n in range(2) for h in range(2)],
    annotate=False,
    ncols=2,
)
show_figure(
    fig,
    number="3.5",
    caption="The accident N = H = 2. Sentence 0 has six words, sentence 1 three. Grey "
    "and hatched: blocked. The mask goes with the head instead of the "
    "sentence.",
    alt="Four tables of weights. In head 1 of both sentences the last three columns "
    "are blocked; in head 0 of both nothing is.",
)

# %% [markdown]
# ## Further: -1e9 in half precision
#
# Large models often compute in float16, 16 bits a number. Its largest number is 65504. <!-- constants: 16 -->

# %% tags=["raises-exception", "id:M7"]
half = torch.zeros(4, 4, dtype=torch.float16)
half.masked_fill(~allowed, -1e9)

# %% [markdown]
# That is the friendly case. *Adding* -1e9 raises nothing and gives $-\infty$, which brings back the NaN that -1e9 was
# to avoid. <!-- constants: -1e9 -->

# %% tags=["id:M7"]
assert torch.finfo(torch.float16).max == 65504
added = half + (~allowed).half() * -1e9
assert added.dtype == torch.float16 and added[0].isneginf().all()
assert added.softmax(dim=-1)[0].isnan().all()
added

# %% [markdown]
# bfloat16 could hold -1e9, coarsely. Better: a boolean mask, $-\infty$, and rows without a key treated on purpose
# (exercise 3). <!-- constants: -1e9 -->


# %% [markdown]
# ## Further: peeking pays, in training
#
# Two small models learn to guess the next word of a made-up language; one has no causal mask. In use, both get only the words so
# far. They were trained beforehand (`data/make_peek_at_the_future.py`).

# %% tags=["predict"] jupyter={"source_hidden": true}
predict(
    "Which model has the lower loss?",
    options=[
        "the causal one in both",
        "the unmasked one in both",
        "the unmasked one in training, the causal one in use",
    ],
    reveal="The unmasked one wins in training, with about 0.10 against 0.91, by "
    "copying the next word. In use it has nothing to copy: 2.49 on average, "
    "worse than guessing at random, 2.08. The best possible loss on new "
    "sentences is 0.90: below it, something leaks.",
)

# %% tags=["reveal"]
race = pd.read_csv(data_path("peek_at_the_future.csv"))
ends = race[race.step == 300].groupby("causal")[["training", "use"]]
best, guessing = 0.898, math.log(8)  # a language of 8 words with known chances
peeker, honest = ends.mean().loc[0], ends.mean().loc[1]
assert ends.max().training[0] < best < ends.min().training[1]
assert ends.min().use[0] > 2 * ends.max().use[1] and peeker.use > guessing
print(f"random guesses: {guessing:.2f}   best possible: {best:.2f}")
ends.mean().round(2)

# %%
mean = race.groupby(["causal", "step"])[["training", "use"]].mean()
curves = {
    "no mask, in use": mean.loc[0].use.tolist(),
    "causal, in both": mean.loc[1].use.tolist(),
    "no mask, training": mean.loc[0].training.tolist(),
}
assert (mean.loc[1].training - mean.loc[1].use).abs().max() < 1e-3
ax = plot_sweep(
    mean.loc[0].index.tolist(), curves, xlabel="training step", ylabel="loss"
)
ax.axhline(best, color="#555555", linewidth=1, linestyle=":")
ax.text(300, best - 0.05, "best possible", ha="right", va="top", fontsize=10)
ax.set(ylim=(0, 3), title="Peeking pays in training only")
show_figure(
    ax,
    number="3.6",
    caption="Loss on new sentences, mean of four seeds. In use the model gets the "
    "words so far and nothing else.",
    alt="Without a mask the training loss falls to 0.1, below the best possible 0.9, "
    "while the loss in use rises to 2.5. With the mask both are one curve that "
    "ends at 0.9.",
)


# %% [markdown]
# ## Further: an empty row in nn.MultiheadAttention
#
# The module takes different paths through torch, by `need_weights`, mode and gradient. What does a sentence of padding only
# become on each?

# %% tags=["id:M2"]
torch.manual_seed(0)
attention = nn.MultiheadAttention(4, 2, batch_first=True)
z, nothing = torch.randn(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)  # all padding


def fate(mode, need_weights, grad):
    attention.train(mode == "train")
    with torch.set_grad_enabled(grad):
        output, _ = attention(
            z, z, z, key_padding_mask=nothing, need_weights=need_weights
        )
    return "NaN" if output.isnan().any() else f"{output.abs().max():.0f}"


columns = {
    f"{mode}, gradient {'on' if grad else 'off'}": [
        fate(mode, need_weights, grad) for need_weights in (True, False)
    ]
    for mode in ("train", "eval")
    for grad in (True, False)
}
pd.DataFrame(columns, index=["need_weights=True", "need_weights=False"])

# %% [markdown]
# Asking for the weights, or for no gradient, can change the output. Other versions of torch may fill this table differently: do not
# rely on it. Leave no row empty, or treat it yourself.

# %% [markdown]
# ## What to remember
#
# - In attnlab and in torch's function True means "may attend". Elsewhere it may mean the opposite, and no error tells.
# - Block before the softmax, with $-\infty$. A score of 0 blocks nothing.
# - Padding masks keys, the columns. Whoever averages over tokens must mask again.
# - The leak test: change a token, see which outputs move.
# - A row without a key is NaN, an average over everything, or 0: decide it on purpose.
# - With a cache, `is_causal=True` starts at the wrong corner.

# %% [markdown]
# ## Exercises
#
# Write your answer into the cell below a task, run it and the check after it. Click the dots to open a solution.
#
# ### 1 · Predict ★ (3 minutes) <!-- constants: 1, 3 -->
#
# Six tokens: two `<pad>` on the left, then four words. A padding mask and a causal mask are combined. How many of the 36
# cells are open, and how many rows have none? <!-- constants: 36 -->
#
# <details><summary>Hint</summary>Draw the triangle, then strike out two columns.</details>


# %% tags=["exercise"]
def counted_mask():
    """Return two numbers: open cells, rows without any."""


# %%
check_counted_mask(counted_mask)


# %% tags=["solution"] jupyter={"source_hidden": true}
def counted_mask_solution():
    return 1 + 2 + 3 + 4, 2  # the four words; the rows of the two <pad> are empty


check_counted_mask(counted_mask_solution)

# %% [markdown]
# ### 2 · Modify ★★ (8 minutes) <!-- constants: 2, 8 -->
#
# `padding_mask` serves an encoder. Write `decoder_mask` for right-padded sentences of a decoder: no padding, no future, shape
# (N, 1, L, L), where L is the largest length.
#
# <details><summary>Hint</summary>Which axes of size 1 does <code>&amp;</code> repeat for you?</details>


# %% tags=["exercise"]
def padding_mask(lengths):
    return sequence_mask(lengths)[:, None, None, :]  # (N, 1, 1, S)


def decoder_mask(lengths):
    """lengths: (N,) -> bool (N, 1, L, L), True = may attend."""


# %%
check_decoder_mask(decoder_mask)


# %% tags=["solution"] jupyter={"source_hidden": true}
def decoder_mask_solution(lengths):
    padding = padding_mask(lengths)
    return padding & causal_mask(padding.shape[-1])


check_decoder_mask(decoder_mask_solution)

# %% [markdown]
# ### 3 · Implement ★★★ (12 minutes) <!-- constants: 3, 12 -->
#
# Write a softmax over the allowed keys whose weights are 0 in a row without any. Its gradient must be finite, and a NaN in
# an **allowed** score must stay visible: it is somebody's bug.
#
# <details><summary>Hint</summary>Which rows are empty? You know it from <code>allowed</code>, before the softmax. Give those rows scores
# that do no harm, and erase their weights afterwards.</details>


# %% tags=["exercise"]
def safe_softmax(scores, allowed):
    """scores (..., L, S), allowed bool, broadcastable -> weights (..., L, S)."""


# %%
check_safe_softmax(safe_softmax)


# %% tags=["solution"] jupyter={"source_hidden": true}
def safe_softmax_solution(scores, allowed):
    empty = ~allowed.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~allowed & ~empty, -torch.inf)  # no row of -inf only
    return scores.softmax(dim=-1).masked_fill(empty, 0.0)


check_safe_softmax(safe_softmax_solution)

# %% [markdown]
# ### 4 · Repair ★★ (8 minutes) <!-- constants: 4, 8 -->
#
# `broken` takes a Hugging Face `attention_mask` and has two bugs (the first part of "Further" helps). Write `mended`.
#
# <details><summary>Hint</summary>What does 1 mean to the tokenizer, and what does True mean to the function? Then try 2 sentences with 3 heads.</details>


# %% tags=["exercise"]
def broken(query, key, value, attention_mask):
    mask = attention_mask[:, None] == 0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def mended(query, key, value, attention_mask):
    """(N, H, L, E), (N, H, S, E), (N, H, S, Ev), (N, S) -> (N, H, L, Ev)."""


# %%
check_padded_batch(mended)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_solution(query, key, value, attention_mask):
    mask = attention_mask[:, None, None] == 1  # (N, 1, 1, S), True = a word
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


check_padded_batch(mended_solution)

# %% [markdown]
# ### 5 · Explain ★ (4 minutes) <!-- constants: 5, 4 -->
#
# A friend says: "Filling with -1e9 or with minus infinity is the same: both give weight 0." Where is that true, and where not?
# <!-- constants: -1e9 -->
#
# <details><summary>An answer</summary>In float32 it is true while a row keeps an allowed key: e to such a number rounds to 0. In a row
# without one the first averages over all keys and the second gives NaN. And float16 cannot hold -1e9.</details>

# %% [markdown]
# ## In torch
#
# `F.scaled_dot_product_attention(..., attn_mask=mask)`: bool, True = may attend; a float mask is added. `is_causal=True` counts from
# the upper left; `torch.nn.attention.bias.causal_lower_right(L, S)` is for a cache. In `nn.MultiheadAttention` True means *blocked*, in
# `attn_mask` and in `key_padding_mask`, and `is_causal` is a hint that needs `attn_mask` beside it. Hugging Face tokenizers return
# 1 for a word.

# %% [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.3: the mask of the decoder.
# - Beltagy et al., [Longformer](https://arxiv.org/abs/2004.05150), 2020, section 3.1: sliding windows.
# - The inverted mask: [LLMs-from-scratch, issue 1061](https://github.com/rasbt/LLMs-from-scratch/issues/1061).
# - Rows without a key: [PyTorch, issue 103749](https://github.com/pytorch/pytorch/issues/103749).
#
# <!-- constants: 2017, 2020, 3.2.3, 3.1, 1061, 103749 -->
#
# ## Next
#
# [4 · Self-attention, cross-attention, honest heatmaps](04_reading_heatmaps.ipynb)

# %% [markdown]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# Padding and its experiment 10 minutes, columns 7, the leak test 8, the empty row and the mask editor 12, conventions 8. Leave `is_causal` and
# "Further" for home. <!-- constants: 45, 10, 7, 8, 12, 2, 0 -->
#
# Stalls: "True hides" (seaborn and `masked_fill` say so; keep one sentence on the board: True may attend). Rows against columns: let
# them say "query i looks at key j" with a finger on the cell. The NaN of layer 2: write 0 · NaN on the board.
# </details>

# %% [markdown]
# <details><summary>For teachers: five questions, and why a wrong choice tempts</summary>
#
# **1.** Padding of zeros, no mask: how much weight does it take? **Some.** *None*: reads a score of 0 as a weight of 0. *All*: only where
# all other scores lie far below 0.
#
# **2.** Padding mask for (N, H, L, S)? **(N, 1, 1, S).** *(N, 1, S)*: meets the heads. *(N, 1, S, 1)*: blocks rows.
#
# **3.** Change token 2 of 5 under a causal mask: which outputs move? **2, 3, 4.** *Only 2*: forgets that later ones look back.
# *0, 1, 2*: the mask turned over.
#
# **4.** A row of $-\infty$ only gives? **NaN.** *Zeros*: softmax divides. *Uniform*: that is -1e9.
#
# **5.** One query, a cache of 9 keys, `is_causal=True`: it sees? **Key 0.** *All*: would be lower right. *Key 8*: itself alone is no causal mask.
# <!-- constants: 1 2 3 4 5 0 8 9 -1e9 -->
# </details>
