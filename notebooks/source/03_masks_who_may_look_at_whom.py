# %% 3-masks-who-may-look-at-whom [markdown]
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
# **Time:** 45 minutes in class, 90 alone; the part "Further" may be skipped.

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
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import check_causal_test, check_decoder_mask
from attnlab.exercises import check_padded_batch, check_safe_softmax, predict
from attnlab.explorers import AfterSoftmaxExplorer, MaskExplorer, PeekExplorer
from attnlab.live import live
from attnlab.plotting import plot_attention, plot_heads, plot_mask, plot_sweep
from torch import nn

lesson_setup()

# %% [markdown]
# ## A short sentence in a long batch
#
# A tensor is rectangular. To put "The cat sat" into one batch with "The cat sat on the mat", we append three rows of
# zeros. Such filler is called [**padding**](00_start_here.ipynb#Words-and-letters), and its tokens are written `<pad>`. As
# in lesson 1, queries, keys and values are the same rows.

# %% a-short-sentence-in-a-long-batch
tokens, _, x = load_table("the_cat_sat_on_the_mat.csv")
short = x[:3]  # The cat sat
padded = F.pad(short, (0, 0, 0, 3))  # three rows of zeros below
batch = torch.stack([x, padded])  # (N, L, E)
print(padded)
batch.shape

# %% output-sat-padded-batch-same
predict("03/output-sat-padded-batch-same")

# %% output-sat-padded-batch-same-answer
# %%answer 03/output-sat-padded-batch-same
alone = scaled_dot_product_attention(short, short, short)
together, weights, _ = trace_attention(batch, batch, batch)
gap, lost = (alone[2] - together[1, 2]).abs().max(), weights[1, 2, 3:].sum()
assert abs(gap - 0.292) < 1e-3 and abs(lost - 0.282) < 1e-3
print(gap, lost)
weights[1, 2]  # sentence 1, "sat": the last three are <pad>

# %% [markdown]
# A mask keeps `<pad>` out. **True means "may attend"**, in all of attnlab. Where it is False, the score becomes $-\infty$
# before the softmax. $e^{-\infty}$ is 0: the key gets no weight, and the others share all of it.


# %% a-short-sentence-in-a-long-batch-2
def masked_attention(query, key, value, allowed):
    """allowed: bool, broadcastable to (..., L, S) -> output, weights."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~allowed, -torch.inf)  # the only new line
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


# %% a-short-sentence-in-a-long-batch-3
real = sequence_mask([6, 3])  # from the lengths: (N, S)
allowed = real[:, None, :]  # (N, 1, S): the same keys for every query
output, weights = masked_attention(batch, batch, batch, allowed)
assert torch.allclose(output[1, :3], alone)  # as if alone
ours = scaled_dot_product_attention(batch, batch, batch, attn_mask=allowed)
torchs = F.scaled_dot_product_attention(batch, batch, batch, attn_mask=allowed)
assert torch.allclose(output, ours) and torch.allclose(output, torchs, atol=1e-6)
print(output[1, 2], alone[2], sep="\n")  # "sat", in the batch and alone
real.int()

# %% [markdown]
# With the mask the sentence gets the same output in the batch and alone. How much does it matter? Here are five
# tokens, two of them padding. Their scores are random: deeper in a model a `<pad>` is no longer zero, and may score anything.

# %% a-short-sentence-in-a-long-batch-4
torch.manual_seed(42)
random_scores = torch.randn(5, 5)  # (L, S)
real_five = torch.tensor([[True, True, True, False, False]])  # (1, S)
plain = random_scores.softmax(dim=-1)
masked = attention_weights(random_scores, attn_mask=real_five)
on_padding = torch.tensor([0.1320, 0.4020, 0.3505, 0.6158, 0.4539])
assert torch.allclose(plain[:, 3:].sum(dim=-1), on_padding, atol=1e-4)
assert torch.allclose(masked[1, :3], torch.tensor([0.2007, 0.6607, 0.1386]), atol=1e-4)

# %% a-short-sentence-in-a-long-batch-5
five = ["The", "cat", "sat", "<pad>", "<pad>"]
everything = torch.ones(5, 5, dtype=torch.bool)
assert (masked[:, 3:] == 0).all()
fig = plot_heads(
    torch.stack([plain, masked]),
    attn_mask=torch.stack([everything, real_five.expand(5, 5)]),
    queries=five,
    keys=five,
    titles=["without a mask", "with the mask"],
)
for ax in fig.axes[:2]:
    ax.tick_params(axis="x", labelsize=8.5)
show_figure(fig, "3.1")

# %% [markdown]
# The scores are random: the mask removes padding, it does not find meaning. The rows of `<pad>` still look at words; we come
# back to them.
#
# ## Before the softmax, not after
#
# Why not compute weights as usual and erase those of `<pad>` at the end?

# %% softmax-first-set-weights-pad
predict("03/softmax-first-set-weights-pad")

# %% softmax-first-set-weights-pad-answer
# %%answer 03/softmax-first-set-weights-pad
erased = plain * real_five
expected = torch.tensor([0.868, 0.598, 0.649, 0.384, 0.546])
assert torch.allclose(erased.sum(dim=-1), expected, atol=1e-3)
assert torch.allclose(erased / erased.sum(dim=-1, keepdim=True), masked)
towering = random_scores.masked_fill(~real_five, 200.0).softmax(dim=-1)
assert (towering[:, :3] == 0).all()  # <pad> far above: nothing is left to divide
erased.sum(dim=-1)

# %% [markdown]
# ### Your experiment
#
# The same scores and four rules. Answer first, then try them all. Then add 6 to the scores of `<pad>`, or take 4 away: under which
# rules does no weight change?

# %% your-experiment
AfterSoftmaxExplorer()

# %% your-experiment-2
given = {
    rule: [AfterSoftmaxExplorer(rule=rule, lift=lift).result for lift in (0, 6, -4)]
    for rule in ("no mask", "before: -inf", "before: 0", "after: 0")
}
expected = torch.tensor([0.127, 0.580, 0.475, 0.536, 0.509])
assert torch.allclose(given["before: 0"][0].on_padding, expected, atol=1e-3)
assert torch.allclose(given["before: -inf"][0].weights, masked)
assert torch.allclose(given["no mask"][0].weights, plain)
same = {
    rule: all(torch.equal(results[0].weights, one.weights) for one in results)
    for rule, results in given.items()
}
assert list(same.values()) == [False, True, True, False]
same  # whatever <pad> scored?

# %% [markdown]
# A fill before the softmax forgets what `<pad>` scored. But 0 can be worse than no mask: "cat" gives 0.580 to padding instead of 0.402. Zero is a
# score like any other (lesson 1). A blocked score must lie far below all others, and only $-\infty$ lies below everything.
#
# ## Padding masks columns, not rows
#
# Our test: put something else into a token and see which outputs move.


# %%
def moved(attend, x, place):
    """Put 99 into the tokens at `place`: 1 = an output moves, 0 stays, NaN: below"""
    changed = x.clone()
    changed[place] = 99.0
    gap = (attend(changed) - attend(x)).abs().amax(dim=-1)
    return torch.where(gap.isnan(), gap, (gap > 1e-5).float())


no_pad = sequence_mask([3], max_len=6)  # (1, S): three words, three <pad>


def attend_words(x):
    return scaled_dot_product_attention(x, x, x, attn_mask=no_pad)


# %% six-outputs-move
predict("03/six-outputs-move")

# %% six-outputs-move-answer
# %%answer 03/six-outputs-move
print(moved(attend_words, padded, slice(3, 6)))
filled = padded.clone()
filled[3:] = 99.0
before, after = attend_words(padded), attend_words(filled)
shift = (before.mean(dim=0) - after.mean(dim=0)).abs().max()
assert moved(attend_words, padded, slice(3, 6)).tolist() == [0, 0, 0, 1, 1, 1]
assert abs(shift - 0.367) < 1e-3 and after.max() <= short.max()  # an average of words
shift

# %% [markdown]
# Back to the five tokens with random scores. Should the mask block the **rows** of `<pad>` too? Its numbers 1 1 1 0 0 can stand
# along the keys, shape `(1, 1, 5)`, along the queries, `(1, 5, 1)`, or in both. An axis of size 1 repeats.

# %% give-mask-shape-1-5
predict("03/give-mask-shape-1-5")

# %% give-mask-shape-1-5-answer
# %%answer 03/give-mask-shape-1-5
flags = torch.tensor([True, True, True, False, False])
grids = {"(1, 1, 5)": flags.view(1, 1, 5), "(1, 5, 1)": flags.view(1, 5, 1)}
grids["(1, 5, 5)"] = grids["(1, 1, 5)"] & grids["(1, 5, 1)"]
by_shape = {
    name: attention_weights(random_scores[None], attn_mask=grid)[0]
    for name, grid in grids.items()
}
assert torch.allclose(by_shape["(1, 5, 1)"][:3], plain[:3])  # words: as before
assert torch.equal(by_shape["(1, 5, 5)"][:3], masked[:3])
assert (by_shape["(1, 5, 5)"][3:] == 0).all()  # the rows of <pad>
by_shape["(1, 5, 1)"]  # attnlab writes 0 where no key is left

# %% padding-masks-columns-not-rows
assert abs(by_shape["(1, 5, 1)"][1, 3:].sum() - 0.402) < 1e-3


def draw_shape(fig, shape):
    allowed, weights = grids[shape].expand(1, 5, 5)[0], by_shape[shape]
    names = {"queries": five, "keys": five}
    left, right = fig.subplots(1, 2)
    plot_mask(allowed, ax=left, title="mask", legend=False, **names)
    plot_attention(weights, ax=right, attn_mask=allowed, title="weights", **names)
    for ax in (left, right):
        ax.tick_params(axis="x", labelsize=8.5)
    empty = "none" if allowed[3].any() else "3 and 4, the padding"
    return (
        f'"cat" gives {weights[1, 3:].sum():.3f} to padding. '
        f"Rows that may look at nothing: {empty}."
    )


live(
    draw_shape,
    shape=list(grids),
    start={"shape": "(1, 5, 1)"},
    alt="Left: which cells a mask leaves open. Right: the weights under it.",
)

# %% [markdown]
# Without heads `(1, 1, 5)` is the shape for padding: its 5 runs along the **keys**. Blocking rows as well changes no word, and
# makes rows that look at nothing. attnlab writes 0 into them; a bare softmax does not, as we will see.
#
# ### With heads
#
# With heads scores have the shape $(N, H, L, S)$: each of $N$ sentences is looked at in $H$ ways (lesson 7). A mask is matched **from
# the right**; missing axes and axes of size 1 repeat.


# %% with-heads
def fits(mask_shape, scores_shape):
    try:
        return torch.broadcast_shapes(mask_shape, scores_shape) == scores_shape
    except RuntimeError:
        return False


for shape in [(5, 7), (2, 1, 1, 7), (2, 1, 5, 7), (2, 1, 7), (2, 5, 7)]:
    print(f"{shape!s:13} {fits(shape, (2, 3, 5, 7))}")  # N, H, L, S = 2, 3, 5, 7
assert fits((2, 1, 1, 7), (2, 3, 5, 7)) and not fits((2, 1, 7), (2, 3, 5, 7))

# %% mask-per-sentence-needs-four
predict("03/mask-per-sentence-needs-four")

# %% mask-per-sentence-needs-four-answer
# %%answer 03/mask-per-sentence-needs-four
torch.manual_seed(0)
scores = torch.randn(2, 2, 6, 6)  # N, H, L, S
real = sequence_mask([6, 3])  # (N, S)
wrong = attention_weights(scores, attn_mask=real[:, None])  # (2, 1, S): no error
right = attention_weights(scores, attn_mask=real[:, None, None])  # (N, 1, 1, S)
on_padding = wrong[1, :, :, 3:].sum(dim=-1).mean(dim=-1)  # sentence 1: head 0, head 1
assert abs(on_padding[0] - 0.558) < 1e-3 and on_padding[1] == 0
assert (right[1, :, :, 3:] == 0).all() and (wrong[0, 1, :, 3:] == 0).all()
on_padding

# %%
fig = plot_heads(
    wrong.flatten(0, 1),
    attn_mask=real[:, None].expand(2, 2, 6, 6).flatten(0, 1),
    titles=[f"sentence {n}, head {h}" for n in range(2) for h in range(2)],
    annotate=False,
    ncols=2,
)
single = torch.randn(2, 1, 6, 5)  # (N, H, L, E)
assert masked_attention(single, single, single, real[:, None])[0].shape[1] == 2
show_figure(fig, "3.2")

# %% [markdown]
# With a single head our `masked_attention` raises nothing either: the mask turns one head into two.
#
# ## The future
#
# A model that learns to predict the next word must not see it. Under a
# [**causal mask**](00_start_here.ipynb#Words-and-letters), or look-ahead mask, query $i$ looks at keys 0 to $i$.

# %% the-future
causal = causal_mask(6)  # (L, S)
assert torch.equal(causal, torch.tril(torch.ones(6, 6)) == 1)
causal.int()

# %%
predict("03/under-causal-mask-six-outputs")


# %% under-causal-mask-six-outputs-answer
# %%answer 03/under-causal-mask-six-outputs
def attend_causally(x):
    return scaled_dot_product_attention(x, x, x, attn_mask=causal)


assert moved(attend_causally, x, -1).tolist() == [0] * 5 + [1]
moved(attend_causally, x, -1)

# %% [markdown]
# This is the [**leak test**](00_start_here.ipynb#Words-and-letters). Change a token that must not be seen: the forbidden rows must
# stay. Change one that may be seen: its rows should move. Use `eval` mode (dropout is noise) and small inputs: with large scores
# a weight may round to 0. A move proves a leak; staying does not prove the mask right.
#
# Now hand over the mask the wrong way round, `~causal`. The shapes are right and no error is raised.


# %% the-future-2
def attend_flipped(x):  # the same mask, turned over
    return F.scaled_dot_product_attention(x, x, x, attn_mask=~causal)


assert moved(attend_flipped, x, -1).tolist() == [1] * 5 + [0]
moved(attend_flipped, x, -1)

# %% [markdown]
# Everybody looks at the future and nobody at the past; the last word may look at nothing, and torch writes 0 into its row. A
# well-known course had this in one of its layers (Sources). The training loss does not warn: seeing the answer makes it
# *better*. "Further" shows the same for a missing mask.
#
# ### Masks combine with *and*
#
# A [**sliding window**](00_start_here.ipynb#Words-and-letters) keeps near keys only. A cell is open if every mask leaves it open.

# %%
window = sliding_window_mask(6, window=3)  # distance below 3: up to five keys in a row
some = sequence_mask([4], max_len=6)  # two <pad> at the end
panels = {
    "causal": causal,
    "window of 3": window,
    "causal & window": causal & window,
    "and padding": combine_masks(causal, window, some),
}
assert window.sum(dim=-1).max() == 5
assert torch.equal(~(causal & window), ~causal | ~window)
fig, axes = plt.subplots(1, 4, figsize=(7.5, 2.3), layout="constrained")
for ax, (title, mask) in zip(axes, panels.items(), strict=True):
    plot_mask(mask, ax=ax, title=title, legend=False)
    ax.set(xlabel="", ylabel="")
fig.supxlabel("key position")
fig.supylabel("query position")
show_figure(fig, "3.3")

# %% [markdown]
# ## A row that may look at nothing
#
# To generate text, sentences are often padded on the left: then all of them end in the same column, where the next word goes. Add the
# causal mask, and the first row has no open cell. (Left padding also shifts the words: a model that numbers positions must begin at
# the first word. Not shown here.)

# %%
names = ["<pad>", "The", "cat", "sat"]
left = F.pad(short, (0, 0, 1, 0))  # one row of zeros above
allowed = causal_mask(4) & torch.tensor([False, True, True, True])
pd.DataFrame(allowed.int().numpy(), index=names, columns=names)

# %% four-scores-row-0-become
predict("03/four-scores-row-0-become")

# %% four-scores-row-0-become-answer
# %%answer 03/four-scores-row-0-become
layer_1, weights = masked_attention(left, left, left, allowed)
assert weights[0].isnan().all() and weights[1:].isfinite().all()
weights

# %% many-four-rows-nan
predict("03/many-four-rows-nan")

# %% many-four-rows-nan-answer
# %%answer 03/many-four-rows-nan
layer_2, weights = masked_attention(layer_1, layer_1, layer_1, allowed)
assert (weights[1:, 0] == 0).all() and weights[1:].isfinite().all()
assert layer_2.isnan().all()
layer_2.isnan().any(dim=-1).sum()

# %% four-ways-to-block [markdown]
# ### Four ways to block
#
# Many write -1e9 instead of $-\infty$: $e$ to that rounds to 0 as well. We compare four ways on this mask: $-\infty$, -1e9, torch's
# function and attnlab's. What becomes of row 0, of the next layer, and of the gradient of a loss that leaves row 0 out?


# %% four-ways-to-block-2
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
large = random_scores.masked_fill(~real_five, -1e9).softmax(dim=-1)
assert torch.allclose(large, masked)  # every row has a key: -1e9 does the same

# %% row-0-may-look-nothing
predict("03/row-0-may-look-nothing")


# %% row-0-may-look-nothing-answer
# %%answer 03/row-0-may-look-nothing
def follow(attend):
    x = left.clone().requires_grad_()
    first = attend(x)
    first[1:].sum().backward()  # row 0 is no part of the loss
    sees = moved(attend, left, -1)[0].item()  # change "sat": does row 0 move?
    return {
        "row 0, feature 0": round(first[0, 0].item(), 3),
        "NaN rows in layer 2": attend(first).isnan().any(dim=-1).sum().item(),
        "NaN gradients": f"{x.grad.isnan().float().mean():.0%}",
        "row 0 sees the future": {1.0: "yes", 0.0: "no"}.get(sees, "NaN"),
    }


fates = pd.DataFrame({name: follow(attend) for name, attend in ways.items()}).T
assert fates["NaN gradients"].tolist() == ["100%", "0%", "0%", "0%"]
assert fates["NaN rows in layer 2"].tolist() == [4, 0, 0, 0]
assert fates["row 0 sees the future"].tolist() == ["NaN", "yes", "no", "no"]
assert fates["row 0, feature 0"].tolist()[1:] == [0.625, 0, 0]
assert left[:, 0].tolist()[:2] == [0, 0] and abs(left[:, 0].mean() - 0.625) < 1e-6
for lowest, row_0 in ((-torch.inf, 0 * left[0]), (-3.4e38, left.mean(dim=0))):
    mask = torch.zeros(4, 4).masked_fill(~allowed, lowest)  # a float mask
    output = F.scaled_dot_product_attention(left, left, left, attn_mask=mask)
    assert torch.allclose(output[0], row_0)
fates

# %% four-ways-to-block-3 [markdown]
# With $-\infty$ every gradient is NaN, though row 0 is not in the loss and has the gradient 0: the gradient of value $j$ sums, over
# rows, weight (row, $j$) times the row's gradient. Row 0 adds NaN · 0 = NaN to every $j$. -1e9 shows row 0 the future, without a sign.
#
# attnlab returns 0; so does this torch, on the CPU, for a mask of bool or $-\infty$; for the most negative float (about -3.4e38),
# the mean.

# %% rows-no-key-left
predict("03/rows-no-key-left")


# %% rows-no-key-left-answer
# %%answer 03/rows-no-key-left
def without_a_key(**state):
    return MaskExplorer(**state).result.empty_rows


assert without_a_key(padding=[0, 1]) == (0, 1) and without_a_key(padding=[4, 5]) == ()
without_a_key(mask="window", window=2, padding=[4, 5])  # rows, counted from 0

# %% your-experiment-the-mask-editor [markdown]
# ### Your experiment: the mask editor
#
# Random scores. Click a word to make it padding, a cell to open or close it. Leave the row of "on", and no other, without a key. How few clicks does
# it take under the window of 2, under a causal mask, under none? What do the three fills of a blocked score make of the row?
#
# <details><summary>Answer</summary>As many as the row has open cells, for a click closes one of them at most: two under the window ("sat" and "on"),
# four under a causal mask, six under none. $-\infty$ makes the row NaN; -1e9 gives every key 1/6, also those of the future; attnlab's rule writes 0.</details>

# %% your-experiment-the-mask-editor-2
MaskExplorer(mask="window", window=2, ask=False)

# %% your-experiment-the-mask-editor-3
row_3 = [(3, key) for key in range(6)]  # the cells of "on"
assert without_a_key(mask="window", window=2, padding=[2, 3]) == (3,)
assert without_a_key(toggled=row_3[:4]) == (3,)
assert without_a_key(mask="none", toggled=row_3) == (3,)
fills = {
    fill: MaskExplorer(toggled=row_3[:4], fill=fill).result.weights[3]
    for fill in ("-inf", "-1e9", "attnlab")
}
assert fills["-inf"].isnan().all() and (fills["attnlab"] == 0).all()
assert torch.allclose(fills["-1e9"], torch.full((6,), 1 / 6))
pd.DataFrame(fills, index=tokens).T.round(3)  # the row of "on"

# %% [markdown]
# ## Seven conventions
#
# The fact "key 3 is padding" is written in seven ways, and some are opposites. `F.sdpa` is short for
# `F.scaled_dot_product_attention`, `nn.MHA` for `nn.MultiheadAttention`; HF is Hugging Face, a library of ready models. "tril == 0" is
# code that stores ones and zeros and blocks where it finds 0, as many GPTs do with `torch.tril`. Each comes with its converter to ours.

# %% seven-conventions
real = torch.tensor([[True, True, True, False]])  # The cat sat <pad>
square = real.expand(4, 4)  # (L, S)
conventions = {  # name: what is stored, converter to ours
    "F.sdpa bool": (square, lambda m: m),
    "F.sdpa float": (to_additive_mask(square), lambda m: m == 0),  # if 0 or -inf only
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
ratios = {"height_ratios": [4, 1]}
fig, axes = plt.subplots(2, 4, figsize=(7.5, 3.9), layout="constrained", **ratios)
look = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.5}, "ha": "center"}
for ax, (name, (stored, _)) in zip(axes.flat, conventions.items(), strict=False):
    cells = stored.view(-1, stored.shape[-1]).numpy()
    plot_mask(square[: cells.shape[0], : cells.shape[1]], ax=ax, legend=False)
    title = name.replace(" ", "\n", 1)
    ax.set_title(f"{title}\n{tuple(stored.shape)}", fontsize=10)
    ax.set(xlabel="", ylabel="", xticks=[], yticks=[], xlim=(0, 4))
    for (row, column), value in np.ndenumerate(cells):
        sign = SIGNS.get(str(value), str(value))
        ax.text(column + 0.5, row + 0.5, sign, va="center", **look)
axes[1, 3].remove()
show_figure(fig, "3.4")

# %% which-code-reads-which-mask [markdown]
# ### Which code reads which mask?
#
# Six kinds of code read a mask (`F.sdpa` reads two of the seven). We hand each of them all seven, in the shape that it wants, so
# only the meaning can be wrong: 42 pairs, 7 of them meant for each other ("own" in the table; "fits" is luck).

# %% which-code-reads-which-mask-2
y = F.pad(short, (0, 0, 0, 1))[None]  # (N, L, E) = (1, 4, 5)
layer = MultiHeadAttention(5, 1, bias=False)
for weight in layer.parameters():
    nn.init.eye_(weight)  # identity: the layer adds nothing of its own
module = layer.to_torch().eval()  # an nn.MultiheadAttention
nothing = torch.ones(1, 4, dtype=torch.bool)  # here True = blocked: only padding
assert module(y, y, y, key_padding_mask=nothing)[0].isnan().all()
smallest = torch.finfo(torch.float32).min


def sdpa(mask):
    return F.scaled_dot_product_attention(y, y, y, attn_mask=mask.expand(4, 4))


readers = {
    "F.sdpa": sdpa,
    "nn.MHA attn": lambda m: module(y, y, y, attn_mask=m.expand(4, 4))[0],
    "nn.MHA key": lambda m: module(y, y, y, key_padding_mask=m[:1])[0],
    "HF": lambda m: sdpa((1.0 - m.float()) * smallest),  # 1 becomes 0: added
    "lengths": lambda m: sdpa(torch.arange(4) < m),
    "tril == 0": lambda m: masked_attention(y, y, y, ~(m == 0))[0],
}

# %% f-sdpa-these-floats
predict("03/f-sdpa-these-floats")


# %% f-sdpa-these-floats-answer
# %%answer 03/f-sdpa-these-floats
def outcome(name, reader):
    try:
        output = readers[reader](conventions[name][0])
    except (RuntimeError, TypeError, ValueError, AssertionError):
        return "error"
    if not torch.allclose(output, sdpa(square), atol=1e-5):
        return "✗ wrong"
    return "✓ own" if name.startswith(reader) else "✓ fits"


pairs = pd.DataFrame(
    [[outcome(name, reader) for reader in readers] for name in conventions],
    index=pd.Index(conventions, name="stored \\ read by"),
    columns=list(readers),
)
counts = pairs.stack().value_counts().to_dict()
assert counts == {"✗ wrong": 21, "✓ fits": 8, "✓ own": 7, "error": 6}
assert pairs.size - counts["✓ own"] == 35
loud = pairs.index[(pairs == "error").any(axis=1)]
assert list(loud) == ["HF attention_mask", "lengths"]  # both hold integers
added = (y @ y.mT / math.sqrt(5) + conventions["tril == 0"][0]).softmax(dim=-1)
assert torch.allclose(sdpa(square.float()), added @ y) and (added[..., 3] > 0.02).all()
pairs

# %% [markdown]
# Torch's own two bool masks are opposites: True is *may attend* in the function and *blocked* in the module. When you meet a
# mask, ask three things: what does True or 1 mean, is it added, which axes has it? Then run the leak test: change a `<pad>`, and no
# word may move; and compare with the sentence alone, as above.

# %% [markdown]
# ## Further: fewer queries than keys
#
# A text grows word by word, and the keys and values of earlier words are kept: a [**cache**](00_start_here.ipynb#Words-and-letters).
# So one new query meets all keys, $L = 1$ and $S = 6$. With `is_causal=True` torch makes the causal mask itself.

# %% keys-may-look
predict("03/keys-may-look")

# %% keys-may-look-answer
# %%answer 03/keys-may-look
cache, newest = x, x[5:]  # (S, E) and (1, E)
output = F.scaled_dot_product_attention(newest, cache, cache, is_causal=True)
assert torch.equal(output, cache[:1])
output, cache[0]

# %%
fig, axes = plt.subplots(1, 2, figsize=(7.5, 2.1), layout="constrained")
for ax, align in zip(axes, ["upper_left", "lower_right"], strict=True):
    mask = causal_mask(2, 6, align=align)
    plot_mask(mask, ax=ax, queries=tokens[4:], keys=tokens, title=align, legend=False)
show_figure(fig, "3.5")

# %% [markdown]
# With a cache ask for the lower right corner: then two new words get what they would get in the whole text. A single newest query needs
# no causal mask, if the cache holds only real, earlier words.

# %% further-fewer-queries-than-keys
whole = F.scaled_dot_product_attention(cache, cache, cache, is_causal=True)
mask = causal_mask(2, 6, align="lower_right")
last_two = scaled_dot_product_attention(x[4:], cache, cache, attn_mask=mask)
unmasked = F.scaled_dot_product_attention(newest, cache, cache)
assert torch.allclose(last_two, whole[-2:]) and torch.allclose(unmasked, whole[-1:])
print(last_two)
whole[-2:]

# %% further-1e9-in-half-precision [markdown]
# ## Further: -1e9 in half precision
#
# Large models often compute in float16, 16 bits a number. Its largest number is 65504.

# %% further-1e9-in-half-precision-2 tags=["raises-exception"]
half = torch.zeros(4, 4, dtype=torch.float16)
half.masked_fill(~allowed, -1e9)

# %% further-1e9-in-half-precision-3 [markdown]
# That is the friendly case. *Adding* -1e9 raises nothing and gives $-\infty$, which brings back the NaN that -1e9 was
# to avoid.

# %% further-1e9-in-half-precision-4
assert torch.finfo(torch.float16).max == 65504
added = half + (~allowed).half() * -1e9
assert added.dtype == torch.float16 and added[0].isneginf().all()
assert added.softmax(dim=-1)[0].isnan().all()
added

# %% further-1e9-in-half-precision-5 [markdown]
# bfloat16 could hold -1e9, coarsely. Better: a boolean mask, $-\infty$, and rows without a key treated on purpose
# (exercise 3).

# %% further-an-empty-row-in-nn-multiheadattention [markdown]
# ## Further: an empty row in nn.MultiheadAttention
#
# The layer goes different ways through torch, by mode, gradient and `need_weights`. A sentence of padding only becomes NaN on some of
# them; on the others its output is the bias of the last projection, here set to 1.

# %% further-an-empty-row-in-nn-multiheadattention-2
torch.manual_seed(0)
layer = nn.MultiheadAttention(4, 2, batch_first=True)
nn.init.ones_(layer.out_proj.bias)
z, nothing = torch.randn(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)  # all padding


def fate(mode, grad, need_weights):
    layer.train(mode == "train")
    with torch.set_grad_enabled(grad):
        out, _ = layer(z, z, z, key_padding_mask=nothing, need_weights=need_weights)
    return "bias" if torch.equal(out, torch.ones_like(out)) else str(out.max().item())


ways = [(mode, grad) for mode in ("train", "eval") for grad in (True, False)]
fates = {
    f"{mode}, gradient {'on' if grad else 'off'}": [
        fate(mode, grad, need_weights) for need_weights in (True, False)
    ]
    for mode, grad in ways
}
assert all(asked == "nan" for asked, _ in fates.values())
assert [other for _, other in fates.values()] == ["bias", "bias", "bias", "nan"]
pd.DataFrame(fates, index=["need_weights=True", "need_weights=False"])

# %% [markdown]
# Another version of torch, another number of heads or `batch_first=False` may fill this table differently: do not rely on it.

# %% [markdown]
# ## Further: does peeking pay?
#
# Two small models learn to guess the next word of a made-up language of eight words, drawn by chance: nobody can reach
# an average loss below 0.90. One has no causal mask. We measure the loss given the whole sentence, as in training, and given the
# words so far, as in use. They were trained beforehand (`data/make_peek_at_the_future.py`).

# %%
predict("03/model-lower-loss")

# %%
# %%answer 03/model-lower-loss
race = pd.read_csv(data_path("peek_at_the_future.csv"))
race = race.rename(columns={"training": "whole sentence", "use": "words so far"})
ends = race[race.step == 300].set_index(["causal", "seed"]).drop(columns="step")
best = torch.special.entr(torch.tensor([0.6, 0.3, 0.1])).sum().item()  # the chances
guessing, peeking, honest = math.log(8), ends.loc[0], ends.loc[1]
assert abs(best - 0.898) < 1e-3 and abs(guessing - 2.08) < 0.005
assert ((peeking["whole sentence"] - 0.10).abs() < 0.01).all()
assert ((honest - 0.91).abs() < 0.01).all(axis=None)
used = peeking["words so far"]
assert abs(used.min() - 1.97) < 0.005 and abs(used.max() - 2.97) < 0.005
assert (used > guessing).sum() == 3
lowest = race[race.causal == 1]["whole sentence"].min()
assert best - 0.01 < lowest < best  # a sample, a little below the average
print(f"random guesses: {guessing:.2f}   best possible on average: {best:.2f}")
ends.round(2)

# %% figure-3-6
mean = race.groupby(["causal", "step"])[["whole sentence", "words so far"]].mean()
none, both = mean.loc[0], mean.loc[1]
curves = {
    "no mask, words so far": none["words so far"].tolist(),
    "causal, both alike": both["words so far"].tolist(),
    "no mask, whole sentence": none["whole sentence"].tolist(),
}
assert (both["whole sentence"] - both["words so far"]).abs().max() < 1e-3
ax = plot_sweep(none.index.tolist(), curves, xlabel="training step", ylabel="loss")
ax.axhline(best, color="#555555", linewidth=1, linestyle=":")
ax.text(300, best - 0.05, "best possible", ha="right", va="top", fontsize=10)
ax.set(ylim=(0, 3), title="Peeking pays only given the whole sentence")
show_figure(ax, "3.6")

# %% your-experiment-every-run [markdown]
# ### Your experiment: every run
#
# The curves are means. Take the mask away and go back to step 50: which word lies open in training that must not? Given the words so far, is every
# run worse than guessing?
#
# <details><summary>Answer</summary>The next word, the one to be guessed. Yes: the four runs have 2.27 to 3.15, guessing 2.08.</details>

# %%
PeekExplorer(ask=False)

# %%
at_50 = PeekExplorer(causal=False, step=50).result.words_so_far  # one per run
assert abs(at_50.min() - 2.27) < 0.005 and abs(at_50.max() - 3.15) < 0.005
assert at_50.min() > guessing
at_50

# %% [markdown]
# ## What to remember
#
# - In attnlab and in torch's function True means "may attend". Elsewhere it may mean the opposite, and no error tells.
# - Block before the softmax, with $-\infty$. A score of 0 blocks nothing.
# - Padding masks keys, the columns: `(N, 1, 1, S)` with heads. Whoever averages over tokens must mask again.
# - The leak test: change a token, see which outputs move. Some must, some must not.
# - A row without a key is NaN, an average over everything, or 0: decide it on purpose.

# %% 1-implement-8-minutes [markdown]
# ## Exercises
#
# Write your answer into the cell below a task, run it and the check after it. Click the dots to open a solution.
#
# ### 1 · Implement ★★ (8 minutes)
#
# Write the leak test for causal attention. `causal_test(attend, x)` gives "leaks" if a later token moves an output. Else it gives
# "too tight" if some output $i$ stays though one of the tokens 0 to $i$ changes. Else it gives "right". Use `moved`; the numbers in
# `x` are small.
#
# <details><summary>Hint</summary>The last token alone is not enough. Change token after token: which outputs must stay, which must move?</details>


# %% tags=["exercise"]
def causal_test(attend, x):
    """attend: (L, E) -> (L, E), x (L, E) -> "leaks", "too tight" or "right"."""


# %%
check_causal_test(causal_test)


# %% tags=["solution"] jupyter={"source_hidden": true}
def causal_test_solution(attend, x):  # use small x, and eval mode
    found = torch.stack([moved(attend, x, place) for place in range(len(x))], dim=1)
    if found.isnan().any():
        return "NaN"  # it proves nothing, so we do not call it a leak
    if (found.triu(1) == 1).any():  # (output, token): the token comes later
        return "leaks"
    return "right" if torch.equal(found, torch.ones_like(found).tril()) else "too tight"


check_causal_test(causal_test_solution)

# %% 2-modify-8-minutes [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# `padding_mask` is for a model that reads whole sentences. Write `decoder_mask` for one that predicts the next word, with padding on the
# right: no padding, no future, shape (N, 1, L, L), where L is `int(lengths.max())`. Block padding in columns only, as above. (The rows of words
# are right without it: padding comes later. Here `<pad>` must not look at `<pad>` either.)
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


words = decoder_mask_solution(torch.tensor([5, 3]))[1, 0, :3]  # rows of sentence 1
assert torch.equal(words, causal_mask(5)[:3])  # as without padding
check_decoder_mask(decoder_mask_solution)

# %% 3-implement-12-minutes [markdown]
# ### 3 · Implement ★★★ (12 minutes)
#
# Write a softmax over the allowed keys whose weights are 0 in a row without any; all other rows sum to 1, up to rounding. Its gradient must be
# right, and finite. A NaN in an **allowed** score must stay visible: it is somebody's bug. Whatever a **blocked** score holds must not matter.
#
# <details><summary>Hint</summary>Which rows are empty? You know it from <code>allowed</code>, before the softmax. Give those rows scores
# that do no harm, since a NaN inside the softmax comes back in the gradient, and erase their weights afterwards.</details>


# %% tags=["exercise"]
def safe_softmax(scores, allowed):
    """scores (..., L, S), allowed bool, broadcastable -> weights (..., L, S)."""


# %%
check_safe_softmax(safe_softmax)


# %% tags=["solution"] jupyter={"source_hidden": true}
def safe_softmax_solution(scores, allowed):
    empty = ~allowed.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0)
    return scores.softmax(dim=-1).masked_fill(empty, 0.0)


check_safe_softmax(safe_softmax_solution)

# %% 4-repair-8-minutes [markdown]
# ### 4 · Repair ★★ (8 minutes)
#
# `broken` takes a Hugging Face `attention_mask`, 1 for a word and 0 for padding on either side, and has two bugs. Write `mended`.
#
#
# <details><summary>Hint</summary>What does 1 mean in the mask, and what does True mean to the function? Then try 2 sentences with 3
# heads.</details>


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

# %% 5-explain-4-minutes [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: "Filling with -1e9 or with minus infinity is the same: both give weight 0." Where is that true in float32, and where not?
#
#
# <details><summary>An answer</summary>True while a row keeps an allowed key of ordinary size: e to such a number rounds to 0. In a row
# without one the first averages over all keys, and the second gives NaN.</details>

# %% [markdown]
# ## In torch
#
# `F.scaled_dot_product_attention(..., attn_mask=mask)`: bool, True = may attend; a float mask is added. `is_causal=True` counts from
# the upper left; do not pass both: depending on the shape torch raises or combines them. `torch.nn.attention.bias.causal_lower_right(L, S)`
# is for a cache. In `nn.MultiheadAttention` True means *blocked*, in both masks; `is_causal` is a hint that needs `attn_mask` beside it
# and may replace it; a sentence of padding only gives NaN, if weights are asked for. Hugging Face's `attention_mask` has 1 for a word.

# %% next [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.3: the mask of the decoder.
# - Beltagy et al., [Longformer](https://arxiv.org/abs/2004.05150), 2020, section 3.1: sliding windows.
# - The inverted mask: [LLMs-from-scratch, issue 1061](https://github.com/rasbt/LLMs-from-scratch/issues/1061).
# - Rows without a key: [PyTorch, issue 103749](https://github.com/pytorch/pytorch/issues/103749).
#
#
#
# ## Next
#
# [4 · Self-attention, cross-attention, honest heatmaps](04_reading_heatmaps_honestly.ipynb)

# %% next-2 [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# Padding and its experiment 10 minutes, columns 6, the leak test 8, the empty row and the mask editor 13, conventions 8. Leave heads and
# "Further" for home.
#
# Stalls: "True hides" (seaborn and `masked_fill` say so; keep one sentence on the board: True may attend). Rows against columns: let
# them say "query i looks at key j" with a finger on the cell. The NaN of layer 2: write 0 · NaN on the board.
# </details>

# %% next-3 [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why a wrong choice tempts</summary>
#
# **1.** Padding of zeros, no mask: how much weight does it take? **Some.** *None*: reads a score of 0 as a weight of 0. *All*: only where
# all other scores lie far below 0.
#
# **2.** Padding mask for (N, H, L, S)? **(N, 1, 1, S).** *(N, 1, S)*: meets the heads. *(N, 1, S, 1)*: blocks rows.
#
# **3.** Change token 2 of 0 to 4 under a causal mask: which outputs move? **2, 3, 4.** *Only 2*: forgets that later ones look back.
# *0, 1, 2*: the mask turned over.
#
# **4.** Softmax of a row of $-\infty$ only? **NaN.** *Zeros*: attnlab writes them, softmax does not. *Uniform*: that is -1e9.
#
# **5.** No causal mask. A `<pad>` changes, a word's output moves. Why? **Padding is open.** *That is normal*: only in the row of `<pad>`.
# *The future leaks*: here it is meant to be open.
#
# </details>
