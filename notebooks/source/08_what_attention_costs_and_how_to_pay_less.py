# %% 8-what-attention-costs-and-how-to-pay-less [markdown]
# # 8 · What attention costs, and how to pay less
#
# A text of $n$ tokens has $n^2$ attention weights in every head. They must be computed, but they need not be kept: the output can be added
# up from small tiles, exactly. So memory need not grow with $n^2$. The work does.
#
# **You need** lesson 1; the causal mask of lesson 3, the heads and FLOPs of lesson 7.
#
# **You will be able to**
# - predict the bytes and FLOPs of an attention layer,
# - build exact attention out of tiles,
# - count what a mask saves,
# - say what a fused kernel saves, and what it does not.
#
# **Time:** 45 minutes in class, 90 alone; the part "Further" may be skipped.

# %%
import math
import resource
import sys
import time
import weakref

import matplotlib.pyplot as plt
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import MultiHeadAttention, causal_mask, combine_masks, load_table
from attnlab import merge_heads, scaled_dot_product_attention, sequence_mask
from attnlab import sliding_window_mask, split_heads, tiled_attention, trace_attention
from attnlab.display import is_static, lesson_setup, show_figure
from attnlab.exercises import check_joined_pieces, check_mended_pieces
from attnlab.exercises import check_needed_tile, check_weight_memory, predict
from attnlab.explorers import CostExplorer
from attnlab.live import live
from attnlab.plotting import plot_sweep
from matplotlib.colors import ListedColormap
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

# %%
lesson_setup()

# %% twice-the-tokens-four-times-the-weights [markdown]
# ## Twice the tokens, four times the weights
#
# A head compares $n$ queries with $n$ keys: $n^2$ weights, 4 bytes each in float32. $H$ heads hold $H$ times as many.
#
# To ask for a size needs no memory: a tensor on the device `meta` has a shape and no numbers. Below it, the explorer counts for you:
# answer first, then press "Double n".

# %% twice-the-tokens-four-times-the-weights-2
MiB, GiB = 2**20, 2**30


def weight_bytes(n, heads, dtype=torch.float32):
    return torch.empty(heads, n, n, dtype=dtype, device="meta").nbytes


query, key, value = torch.randn(3, 1, 8, 512, 64)  # (N, H, L, head_dim) each
weights = trace_attention(query, key, value).weights
assert weights.nbytes == weight_bytes(512, 8) == 8 * MiB  # as counted, so stored
weights.shape, weights.nbytes / MiB

# %% twice-the-tokens-four-times-the-weights-3
CostExplorer()

# %% much-memory-weights
predict("08/much-memory-weights")

# %% much-memory-weights-answer
# %%answer 08/much-memory-weights
table = {
    n: {f"GiB, heads: {h}": weight_bytes(n, h) / GiB for h in (1, 8, 32)}
    for n in (512, 2048, 16_000)
}
growth = weight_bytes(16_000, 8) / weight_bytes(512, 8)
assert abs(growth - 977) < 0.5 and 16_000 // 512 == 31
assert 7.6 < table[16_000]["GiB, heads: 8"] < 7.65
pd.DataFrame(table).T.rename_axis("tokens").round(3)

# %% not-everything-grows-with-the-square [markdown]
# Quadratic in the tokens, linear in the heads. And this is one layer: in training every layer keeps its table until the gradient comes back.
#
# ## Not everything grows with the square
#
# A layer also projects: every token goes through four matrices (lesson 7). torch counts the FLOPs of both parts while the layer runs, here
# on `meta`, where nothing is computed.

# %%
d_model = 512


def flops(n, heads=8):
    layer = MultiHeadAttention(d_model, heads).to("meta")
    with FlopCounterMode(display=False) as counter:
        layer(torch.empty(1, n, d_model, device="meta"))
    counts = counter.get_flop_counts()["Global"]
    return counts[torch.ops.aten.addmm], counts[torch.ops.aten.bmm]


projections, attention = flops(512)
assert flops(512, heads=1) == flops(512, heads=8)  # heads do not change the FLOPs
f"projections {projections:,}, attention {attention:,}"

# %% projections-scores-averages
predict("08/projections-scores-averages")

# %% projections-scores-averages-answer
# %%answer 08/projections-scores-averages
table = {}
for n in (128, 512, 1024, 4096, 16_384):
    projections, attention = flops(n)
    assert projections == 8 * n * d_model**2 and attention == 4 * n**2 * d_model
    table[n] = {"attention / projections": attention / projections}
    table[n]["attention's share"] = f"{attention / (projections + attention):.0%}"
assert table[128]["attention / projections"] == 1 / 8
assert table[1024]["attention / projections"] == 1
pd.DataFrame(table).T.rename_axis("tokens")

# %% not-everything-grows-with-the-square-2 [markdown]
# "Attention costs $n^2$" leaves out what the square is multiplied with. With $d$ features:
#
# $$\underbrace{8\, n\, d^2}_{\text{projections}} + \underbrace{4\, n^2 d}_{\text{scores and averages}}$$
#
# The rest of a block shifts the balance further: with the usual MLP, $16\, n\, d^2$ more, the square takes over only at $n = 6 d$. And
# *memory* grows with $n^2$ only if somebody stores the weights.

# %% not-everything-grows-with-the-square-3
mlp = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).to("meta")
n = 6 * d_model
with FlopCounterMode(display=False) as counter:
    mlp(torch.empty(n, d_model, device="meta"))
projections, attention = flops(n)
assert counter.get_total_flops() == 16 * n * d_model**2
assert attention == projections + counter.get_total_flops()
f"as much as all the rest of the block at n = {n}"

# %% [markdown]
# FLOPs are not seconds: reading, writing and the softmax count for nothing there. 16 times the tokens have 256 times the FLOPs. Is it
# more than 16 times the time? Here is attention in two lines. (Run it to see by how much on your machine; the stored page does not tell.)


# %% not-everything-grows-with-the-square-4
def plain(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (..., L, S)
    return scores.softmax(dim=-1) @ value


def seconds(function, *inputs):
    """The least of five times, of this process alone."""
    took = []
    for _ in range(5):
        start = time.process_time()
        function(*inputs)
        took.append(time.process_time() - start)
    return min(took)


short, long = torch.randn(128, 64), torch.randn(16 * 128, 64)
assert flops(16 * 128)[1] == 256 * flops(128)[1]
growth = seconds(plain, long, long, long) / seconds(plain, short, short, short)
if not is_static():
    print(f"{growth:.0f} times the time")
f"more than 16 times the time: {growth > 16}"

# %% [markdown]
# ## A row needs no other row
#
# Where can memory be saved? Softmax runs along a row: an output needs its own query, all keys, all values, and no other query. So we
# take 64 queries, compute their 64 rows, average, forget the rows, and take the next 64.


# %%
def by_rows(query, key, value, size=64):
    outputs = [plain(rows, key, value) for rows in query.split(size, dim=-2)]
    return torch.cat(outputs, dim=-2)


query, key, value = torch.randn(3, 2, 3, 300, 16)  # (N, H, L, E) each
expected = scaled_dot_product_attention(query, key, value)
assert torch.allclose(plain(query, key, value), expected, atol=1e-6)
assert torch.allclose(by_rows(query, key, value), expected, atol=1e-6)

# %% [markdown]
# Does it need less? We count, with a tool that need not be read line by line: torch hands every operation to the class below, which adds
# the bytes of each new tensor and takes them off when the tensor dies. `peak` is the most that lived at once. Room that an operation takes
# only for itself is not seen.


# %%
def memories(*tensors):
    found = [t for t in tree_leaves(tensors) if isinstance(t, torch.Tensor)]
    return [t.untyped_storage() for t in found]


class PeakMemory(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.known, self.now, self.peak = weakref.WeakSet(), 0, 0

    def forget(self, size):
        self.now -= size

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.known.update(memories(args, kwargs))  # given, not made
        made = operation(*args, **(kwargs or {}))
        for memory in memories(made):
            if memory not in self.known:
                self.known.add(memory)
                self.now += memory.nbytes()
                weakref.finalize(memory, self.forget, memory.nbytes())  # when freed
        self.peak = max(self.peak, self.now)
        return made


# %%
with PeakMemory() as counted:
    one = torch.ones(256, 1024)  # 1 MiB
    two = one + 1
    del one
    three = two + 1
assert counted.peak == 2 * MiB  # three tensors, never more than two at once


def peak(function, n, gradient=False):
    """MiB alive at once, the output included: one head, 64 features."""
    inputs = [torch.randn(1, 1, n, 64, requires_grad=gradient) for _ in range(3)]
    with PeakMemory() as counted:
        output = function(*inputs)
        if gradient:
            output.sum().backward()
    return counted.peak / MiB


# %% much-plain-hold-worst-moment
predict("08/much-plain-hold-worst-moment")

# %% much-plain-hold-worst-moment-answer
# %%answer 08/much-plain-hold-worst-moment
lengths, output_size = (512, 1024, 2048), torch.empty(2048, 64).nbytes / MiB
peaks = {f.__name__: [peak(f, n) for n in lengths] for f in (plain, by_rows)}
assert weight_bytes(2048, 1) == 16 * MiB and output_size == 0.5
assert peaks["plain"][-1] == 2 * 16 + output_size
assert peaks["by_rows"][-1] == 2 * peaks["by_rows"][-2] == 1.5
pd.DataFrame(peaks, index=lengths).rename_axis("tokens").add_suffix(", MiB").round(2)

# %% [markdown]
# One loop, and the $n^2$ is gone from memory. Why go on? A row is still as long as the text, and the fastest memory is small: the
# cache of a CPU, the on-chip memory of a GPU. To stay inside it, rows must be cut as well. (What that gains in time is not measured here.)

# %% [markdown]
# ## One row in pieces
#
# The word "mat" asks six words. Two by two, they make three pieces. Softmax takes the row's largest score, its **top**, away from each
# score, so that no exponential overflows (lesson 1), and divides by the **total** of the exponentials. Both are known at the end of the row
# only. So: one pass for the top, a second one for the total.

# %%
tokens, _, x = load_table("the_cat_sat_on_the_mat.csv")
row = (x @ x.T / math.sqrt(5))[5]  # scores of "mat": (6,)
weights, pieces = row.softmax(dim=-1), row.split(2)
top = max(piece.max() for piece in pieces)
total = sum((piece - top).exp().sum() for piece in pieces)
assert torch.allclose((row - top).exp() / total, weights)
assert torch.tensor(100.0).exp().isinf()  # without the top: soon too large for float32
print(pieces)
top, total

# %% [markdown]
# One pass would be better: what has gone by would not be needed again. We keep a running top and a running total.

# %%
predict("08/must-done-1-765")


# %%
# %%answer 08/must-done-1-765
def one_pass(pieces, correct=True):
    top, total = torch.tensor(-torch.inf), torch.tensor(0.0)  # so the first factor is 0
    for piece in pieces:
        new_top = torch.maximum(top, piece.max())
        shrink = (top - new_top).exp() if correct else torch.tensor(1.0)
        total = total * shrink + (piece - new_top).exp().sum()
        top = new_top
        print(f"top {top:.3f}   factor {shrink:.3f}   total {total:.3f}")
    return top, total


right = one_pass(pieces)
print("without the factor:")
wrong = one_pass(pieces, correct=False)
assert torch.allclose(torch.stack(right), torch.stack([top, total]))
assert abs(wrong[1] - 4.684) < 5e-4 and abs(right[1] - 2.105) < 5e-4

# %% [markdown]
# The whole trick is one law of exponents, for a score $s$, an old top $m$ and a new one $m'$:
#
# $$e^{s - m'} = e^{s - m} \cdot e^{m - m'}$$
#
# This is the [**online softmax**](glossary.ipynb#online-softmax). Without the factor the total ends at 4.684 instead of 2.105, and
# nothing raises.

# %%
fig, axes = plt.subplots(1, 3, figsize=(7.5, 2.4), layout="constrained", sharey=True)
for seen, ax in zip((2, 4, 6), axes, strict=True):
    heights = (row[:seen] - row[:seen].max()).exp()
    ax.bar(range(seen), heights, color="#0b61a4")
    for place in range(seen, 6):
        ax.text(place, 0.03, "?", ha="center", color="#555555")
    ax.set_xticks(range(6), tokens, fontsize=9)
    ax.set_title(f"{seen} seen: total {heights.sum():.3f}")
    assert heights.max() == 1
axes[0].set_ylabel("$e^{score - top}$")
show_figure(fig, "8.1")

# %% values-as-well [markdown]
# ## Values as well
#
# The output is a total too: of values, each times its exponential. It shrinks by the same factor, and is divided by the total at the very
# end. These are the lines inside FlashAttention-2 and its kin (the first FlashAttention divided after every piece); they take one row
# or a block of rows.


# %%
def add_piece(state, scores, values):
    """One more piece of the keys: scores (..., L, piece), values (..., piece, Ev)."""
    top, total, output = state
    new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
    shrink = (top - new_top).exp()  # what was added up before was too large
    exponentials = (scores - new_top).exp()
    total = total * shrink + exponentials.sum(dim=-1, keepdim=True)
    output = output * shrink + exponentials @ values
    return new_top, total, output


# %%
state = torch.tensor([[-torch.inf]]), torch.zeros(1, 1), torch.zeros(1, 5)
states = []
for piece, values in zip(row[None].split(2, dim=-1), x.split(2), strict=True):
    state = add_piece(state, piece, values)
    states.append(state)
_, total, output = state
assert torch.allclose(output / total, weights @ x)
assert torch.allclose(output / total, F.scaled_dot_product_attention(x, x, x)[5])
output / total

# %%
predict("08/stop-after-two-three-pieces")

# %%
# %%answer 08/stop-after-two-three-pieces
_, total, output = states[1]  # after two pieces
first_four = row[:4].softmax(dim=-1) @ x[:4]
assert torch.allclose(output / total, first_four)
assert not torch.allclose(first_four, weights @ x, atol=0.1)
output / total

# %% [markdown]
# ### Your experiment
#
# Without the factor the result is still an average of the values, and the weights in it sum to 1. With `factor` off, which orders of
# the scores and which pieces give the right weights all the same? Would a test with such a row find the mistake?

# %%
orders = {"as in the text": row, "smallest first": row.sort().values}
orders["largest first"] = orders["smallest first"].flip(0)


def weights_by_pieces(row, size, factor):
    """What share each score gets in the output, with or without the factor."""
    top, shares = torch.tensor(-torch.inf), torch.empty(0)
    for piece in row.split(size):
        new_top = torch.maximum(top, piece.max())
        shrink = (top - new_top).exp() if factor else 1.0
        shares = torch.cat([shares * shrink, (piece - new_top).exp()])
        top = new_top
    return shares / shares.sum()


def draw(fig, order, piece, factor):
    row, ax = orders[order], fig.subplots()
    got, right = weights_by_pieces(row, piece, factor), row.softmax(dim=-1)
    ax.bar(torch.arange(6) - 0.2, right, 0.38, color="#0b61a4", label="right")
    ax.bar(torch.arange(6) + 0.2, got, 0.38, fill=False, hatch="//", label="got")
    ax.set_xticks(range(6), [f"{score:.2f}" for score in row.tolist()])
    ax.set(xlabel="score", ylabel="weight", ylim=(0, 0.6))
    ax.legend()
    for start in range(piece, 6, piece):
        ax.axvline(start - 0.5, color="#555555", linestyle=":")
    off = (got - right).abs().max()
    told = "right" if off < 1e-6 else f"wrong by up to {off:.3f}"
    return f"The weights sum to {got.sum():.3f} and are <b>{told}</b>."


# %%
live(
    draw,
    order=list(orders),
    piece=[1, 2, 3, 6],
    factor=False,
    start={"piece": 2},
    figsize=(6.5, 2.9),
    alt="Right weights of six scores beside those that the running total gives.",
)

# %% [markdown]
# Right all the same, if the first piece holds the largest score: then the top never rises, and a test finds nothing. It must let the
# top rise.
#
# ## A piece with nothing to see
#
# Our top begins at $-\infty$. That works until a mask blocks a whole first piece: its scores are $-\infty$ too.

# %%
predict("08/factor-e-power-old-top")


# %%
# %%answer 08/factor-e-power-old-top
def attend_row(row, start):
    state = torch.tensor([[start]]), torch.zeros(1, 1), torch.zeros(1, 5)
    for piece, values in zip(row[None].split(2, dim=-1), x.split(2), strict=True):
        state = add_piece(state, piece, values)
    return state


blocked = row.clone()
blocked[:2] = -torch.inf  # The and cat may not be looked at
broken = attend_row(blocked, -torch.inf)
top, total, output = attend_row(blocked, torch.finfo(torch.float32).min)
assert all(part.isnan().all() for part in broken[1:])
assert torch.allclose(output / total, blocked.softmax(dim=-1) @ x)
broken[2], output / total

# %% [markdown]
# If *every* key is blocked, the total stays 0, and 0 / 0 is NaN again. As in lesson 3 such a row shall give 0: we divide by 1 there.


# %%
def nothing_yet(query, value):
    """Top, total and output of L queries before the first key."""
    top = query.new_full((*query.shape[:-1], 1), torch.finfo(query.dtype).min)
    output = query.new_zeros(*query.shape[:-1], value.shape[-1])
    return top, torch.zeros_like(top), output


def finish(state):
    _, total, output = state
    return output / total.masked_fill(total == 0, 1)


nowhere = torch.full((1, 6), -torch.inf)
empty = finish(add_piece(nothing_yet(x[5:], x), nowhere, x))
assert torch.equal(empty, torch.zeros(1, 5))
low = finish(add_piece(nothing_yet(x[5:], x), row[None] - 200, x))  # scores far below 0
assert torch.allclose(low, weights @ x, atol=1e-4)
empty

# %% [markdown]
# ## Tiles
#
# Many rows at once, a piece of the keys at a time: the scores that exist at any moment are one [**tile**](glossary.ipynb#tile) of the big table.


# %%
def tiled(query, key, value, size=128):
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    for i in range(0, query.shape[-2], size):
        rows = query[..., i : i + size, :] / math.sqrt(query.shape[-1])
        state = nothing_yet(rows, value)
        for j in range(0, key.shape[-2], size):
            keys, values = key[..., j : j + size, :], value[..., j : j + size, :]
            state = add_piece(state, rows @ keys.mT, values)  # scores (..., size, size)
        output[..., i : i + size, :] = finish(state)
    return output


torch.manual_seed(0)
query = torch.randn(2, 3, 300, 16)  # (N, H, L, E)
key, value = torch.randn(2, 3, 500, 16), torch.randn(2, 3, 500, 24)  # S = 500, Ev = 24
ours = tiled(query, key, value)
assert torch.allclose(ours, plain(query, key, value), atol=1e-6)
assert torch.allclose(
    ours, F.scaled_dot_product_attention(query, key, value), atol=1e-6
)
assert torch.allclose(ours, tiled_attention(query, key, value), atol=1e-6)
ours.shape

# %% [markdown]
# The package's `tiled_attention` is this loop with masks, a backward pass, larger tiles in one buffer, and float32 inside for half
# precision. Its file `attnlab/tiled.py` uses the same words: top, total, shrink. A *fused kernel* is such a loop as one program:
# scores, softmax and average of a tile follow each other in fast memory, and the table is never written to the main one.

# %%
lengths = (256, 512, 1024, 2048)
peaks = {f.__name__: [peak(f, n) for n in lengths] for f in (plain, by_rows, tiled)}
peaks["output alone"] = [n * 64 * 4 / MiB for n in lengths]
beyond = [a - b for a, b in zip(peaks["tiled"], peaks["output alone"], strict=True)]
assert max(beyond) == min(beyond) < 0.5
assert peaks["tiled"][-1] < 1 < peaks["by_rows"][-1]
look = {"xlabel": "tokens", "ylabel": "MiB alive at once", "xscale": "log"}
ax = plot_sweep(lengths, peaks, yscale="log", **look)
ax.set_xticks(lengths, [str(n) for n in lengths])
ax.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
ax.set_title("Only the whole table grows with the square")
show_figure(ax, "8.2")

# %% [markdown]
# ## What a mask saves
#
# Under a causal mask nearly half of the table is $-\infty$. Code that makes the whole table computes that half and throws it away. A loop
# over tiles leaves it out: tiles above the diagonal are skipped, those on it are masked.


# %%
def tiled_causal(query, key, value, size=128):
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    for i in range(0, query.shape[-2], size):
        rows = query[..., i : i + size, :] / math.sqrt(query.shape[-1])
        state = nothing_yet(rows, value)
        for j in range(0, min(i + size, key.shape[-2]), size):  # later: skipped
            keys, values = key[..., j : j + size, :], value[..., j : j + size, :]
            scores = rows @ keys.mT
            if i == j:
                future = ~causal_mask(*scores.shape[-2:])
                scores = scores.masked_fill(future, -torch.inf)
            state = add_piece(state, scores, values)
        output[..., i : i + size, :] = finish(state)
    return output


ours = tiled_causal(query, key, value)
torchs = F.scaled_dot_product_attention(query, key, value, is_causal=True)
packaged = tiled_attention(query, key, value, is_causal=True)
assert torch.allclose(ours, torchs, atol=1e-6)
assert torch.allclose(ours, packaged, atol=1e-6)

# %% many-causal-loop-compute
predict("08/many-causal-loop-compute")

# %%
# %%answer 08/many-causal-loop-compute
x_long = torch.randn(2048, 64)
with FlopCounterMode(display=False) as all_tiles:
    tiled(x_long, x_long, x_long)
with FlopCounterMode(display=False) as causal_tiles:
    tiled_causal(x_long, x_long, x_long)
one_tile = 4 * 128 * 128 * 64  # FLOPs: scores, and their part of the output
counts = [c.get_total_flops() // one_tile for c in (causal_tiles, all_tiles)]
assert counts == [136, 256] and round(136 / 256, 2) == 0.53
counts


# %%
def tiles(allowed, size=128):
    """0 skipped, 1 masked in part, 2 computed whole: one number per tile."""
    cut = allowed.unflatten(0, (-1, size)).unflatten(2, (-1, size))
    return cut.any(dim=3).any(dim=1).int() + cut.all(dim=3).all(dim=1).int()


def masks(n):
    window = combine_masks(causal_mask(n), sliding_window_mask(n, window=256))
    padding = sequence_mask([n * 600 // 1024], max_len=n).expand(n, n)
    return {"causal": causal_mask(n), "causal, window 256": window, "padding": padding}


# %%
fig, axes = plt.subplots(1, 3, figsize=(7.5, 2.8), layout="constrained")
look = ListedColormap(["#ffffff", "#fbdcb8", "#9cc4e4"])
for ax, (name, allowed) in zip(axes, masks(1024).items(), strict=True):
    grid = tiles(allowed)
    ax.pcolormesh(grid, cmap=look, vmin=0, vmax=2, edgecolor="#8a8f98", linewidth=0.5)
    for i, j in grid.nonzero().tolist():
        text = {1: "part", 2: "all"}[int(grid[i, j])]
        ax.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=7)
    ax.set(xticks=[], yticks=[], aspect="equal", xlabel="keys")
    ax.set_title(f"{name}: {grid.count_nonzero()} of 64", fontsize=10)
    ax.invert_yaxis()
axes[0].set_ylabel("queries")
show_figure(fig, "8.3")

# %%
table = {}
for n in (1024, 2048, 4096):
    grids = {name: tiles(allowed) for name, allowed in masks(n).items()}
    table[n] = {name: int(grid.count_nonzero()) for name, grid in grids.items()}
    table[n]["no mask"] = grids["causal"].numel()
assert [row["causal, window 256"] for row in table.values()] == [21, 45, 93]
assert [row["causal"] for row in table.values()] == [36, 136, 528]
z, band = torch.randn(1024, 16), masks(1024)["causal, window 256"]
by_mask = scaled_dot_product_attention(z, z, z, attn_mask=band)
skipping = tiled_attention(z, z, z, is_causal=True, window=256)
assert torch.allclose(skipping, by_mask, atol=1e-5)
pd.DataFrame(table).T.rename_axis("tokens")

# %% [markdown]
# Under a causal mask about half of the work is left; it still grows with $n^2$. A padding mask leaves out whole columns. A window leaves a
# band, about proportional to $n$, and changes what the model can see: another computation, not a faster way to the same one.
#
# ## Backward
#
# Training needs gradients. Autograd can differentiate our loop, and they come out right.

# %%
inputs = [t.clone().requires_grad_() for t in (query, key, value)]
gradients = {}
for function in (plain, tiled, tiled_attention, F.scaled_dot_product_attention):
    loss = function(*inputs).square().sum()
    gradients[function.__name__] = torch.autograd.grad(loss, inputs)
for found in gradients.values():
    for one, other in zip(found, gradients["plain"], strict=True):
        assert torch.allclose(one, other, atol=1e-5)
[*gradients]

# %%
predict("08/forward-1-024-tokens-plain")

# %%
# %%answer 08/forward-1-024-tokens-plain
functions = (plain, by_rows, tiled, tiled_attention)
table = {
    f.__name__: {"forward": peak(f, 1024), "and backward": peak(f, 1024, gradient=True)}
    for f in functions
}
assert table["plain"]["forward"] == 8.25
assert abs(table["plain"]["and backward"] - 12.5) < 0.05
assert abs(table["tiled"]["forward"] - 0.53) < 0.005
assert abs(table["tiled"]["and backward"] - 11.9) < 0.05
assert abs(table["tiled_attention"]["and backward"] - 2.2) < 0.05
kept, inputs = [], [torch.randn(1024, 64, requires_grad=True) for _ in range(3)]
with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda unused: None):
    tiled(*inputs)
sizes = {t.data_ptr(): t.nbytes for t in kept if t.shape[-2:] == (128, 128)}
assert sum(sizes.values()) == 2 * weight_bytes(1024, 1) == 8 * MiB
pd.DataFrame(table).T.add_suffix(", MiB").round(2)

# %% [markdown]
# To compute again is more work for less memory; fused kernels do so as well, and "Further" shows how. (`by_rows` keeps all weights too, once.)
#
# ## 16,384 tokens, here
#
# A notebook that we audited says: for long texts, standard multi-head attention is nearly impossible on a home computer. We try: eight
# heads of 64 features, causal, on one thread of the processor.

# %% exact-computation-hold-besides-inputs
predict("08/exact-computation-hold-besides-inputs")


# %% exact-computation-hold-besides-inputs-answer
# %%answer 08/exact-computation-hold-besides-inputs
def ever_held():
    """The most bytes that this process ever held, as the operating system counts."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


n, start = 16_384, time.process_time()
query, key, value = torch.randn(3, 1, 8, n, 64)
with PeakMemory() as counted:
    output = tiled_attention(query, key, value, is_causal=True, tile=(256, 512))
if not is_static():
    print(f"{time.process_time() - start:.0f} seconds")
last = causal_mask(100, n, align="lower_right")  # the last 100 queries
rows = F.scaled_dot_product_attention(query[:, :, -100:], key, value, attn_mask=last)
assert torch.allclose(output[:, :, -100:], rows, atol=1e-5)
assert weight_bytes(n, 8) == 8 * GiB and 3 * query.nbytes == 96 * MiB
assert torch.empty(8, 256, 512).nbytes == 4 * MiB
assert output.nbytes == 32 * MiB and abs(counted.peak / MiB - 39) < 0.5
f"{counted.peak / MiB:.0f} MiB at most, {output.nbytes / MiB:.0f} of them the output"

# %% 16-384-tokens-here [markdown]
# So memory does not forbid it; only `plain` would, with two tables of 8 GiB. What stays is work: at 16,384 tokens attention has 16 times
# the FLOPs of the projections, about 8 times with the causal half skipped, in every layer, and the way back takes more than twice as much again.
# Slow on a home computer, and not impossible.
#
# The counter sees tensors only. What did the whole process hold at most, everything included?

# %% 16-384-tokens-here-2
held = ever_held()
assert held > 0.1 * GiB  # a wrong unit would show
f"less than the weights alone would take: {held < weight_bytes(n, 8)}"

# %% [markdown]
# ## Further: one word at a time
#
# A model that writes a text asks with one new query at a time. The keys and values of all earlier tokens have not changed: they wait in
# the cache (lesson 3). So a new token costs one row instead of the whole table.

# %%
torch.manual_seed(0)
layer, text = MultiHeadAttention(64, 4), torch.randn(1, 48, 64)


def project(x):
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    return [split_heads(projection(x), 4) for projection in projections]


def step(token, keys, values):
    """Output of one new token, given the cache of the earlier ones."""
    query, key, value = project(token)
    keys, values = torch.cat([keys, key], dim=2), torch.cat([values, value], dim=2)
    return layer.out_proj(merge_heads(plain(query, keys, values))), keys, values


with FlopCounterMode(display=False) as everything:
    whole = layer(text, is_causal=True).output
_, keys, values = project(text[:, :-1])  # the cache: 47 tokens
with FlopCounterMode(display=False) as one_row:
    output, keys, values = step(text[:, -1:], keys, values)
assert torch.allclose(output, whole[:, -1:], atol=1e-6)
assert everything.get_total_flops() == 48 * one_row.get_total_flops()
keys.shape

# %% [markdown]
# For 48 tokens, a 48th of the FLOPs of a layer that skips nothing. If several new tokens come at once, the last query must stand opposite the last key:
# `align="lower_right"`. The default lets them see the first keys only (lesson 3).

# %%
new = project(text[:, -2:])[0]  # two queries, 48 keys


def seen_by(align):
    output = tiled_attention(new, keys, values, is_causal=True, align=align)
    return layer.out_proj(merge_heads(output))


assert torch.allclose(seen_by("lower_right"), whole[:, -2:], atol=1e-6)
assert not torch.allclose(seen_by("upper_left"), whole[:, -2:], atol=0.01)
new.shape, keys.shape

# %% [markdown]
# Now the cache takes the memory: keys and values of every token, in every layer. Here is a model with 32 layers, 32 heads of 128 features, and
# float16 numbers. With [**grouped heads**](glossary.ipynb#grouped-heads) several heads of queries share one head of keys and values.


# %%
def cache_bytes(n, kv_heads, layers=32, head_dim=128):
    shape = (layers, 2, kv_heads, n, head_dim)  # 2: keys and values
    return torch.empty(shape, dtype=torch.float16, device="meta").nbytes


table = {
    n: {f"GiB, key heads: {h}": cache_bytes(n, h) / GiB for h in (32, 8, 1)}
    for n in (1024, 16_384, 131_072)
}
assert cache_bytes(16_384, 32) == 8 * GiB and cache_bytes(16_384, 8) == 2 * GiB
pd.DataFrame(table).T.rename_axis("tokens").round(3)

# %%
query = torch.randn(1, 8, 5, 16)  # 8 heads of queries
key, value = torch.randn(2, 1, 2, 7, 16)  # 2 heads of keys and values
shared = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
wide = [t.repeat_interleave(4, dim=1) for t in (key, value)]  # 0 0 0 0 1 1 1 1
assert torch.allclose(shared, scaled_dot_product_attention(query, *wide), atol=1e-6)
wrong = [t.repeat(1, 4, 1, 1) for t in (key, value)]  # 0 1 0 1 0 1 0 1: no error
assert not torch.allclose(shared, scaled_dot_product_attention(query, *wrong), atol=0.1)
groups = query.unflatten(1, (2, 4))  # or: 2 groups of 4, and broadcasting
ours = tiled_attention(groups, key[:, :, None], value[:, :, None])
assert torch.allclose(ours.flatten(1, 2), shared, atol=1e-6)
shared.shape

# %% [markdown]
# `repeat` instead of `repeat_interleave` gives the right shape and the wrong partners. A model with fewer key heads must be trained as such.
#
# ## Further: base 2
#
# `tiled_attention` never calls `exp`. It uses $e^x = 2^{x \log_2 e}$: the factor $\log_2 e$ goes into the queries together with
# $1 / \sqrt{E}$, once; the rest is powers of 2. GPUs have an instruction for those, not for $e^x$. On some CPUs `exp2` is faster than
# `exp`, most of all for $-\infty$. Run the cell to see yours.

# %%
some = torch.randn(1000, 1000)
half_blocked = some.masked_fill(some < 0, -torch.inf)
for scores in (some, half_blocked):
    assert torch.allclose((scores * math.log2(math.e)).exp2(), scores.exp(), rtol=1e-5)
    ratio = seconds(torch.exp, scores) / seconds(torch.exp2, scores)
    if not is_static():
        print(f"exp takes {ratio:.1f} times as long as exp2")

# %% [markdown]
# ## Further: the way back, a tile at a time
#
# Forward keeps top and total of each row; one number, $\ell$ = top + log(total), is enough. With it a tile of weights comes back from its scores
# alone. And the row sum in the Jacobian of the softmax (lesson 2) is the sum of `pull` times output. So no line below
# `level` needs a whole row of the table.

# %%
torch.manual_seed(0)
query, key, value = (torch.randn(300, 16, requires_grad=True) for _ in range(3))
pull, scale = torch.randn(300, 16), 1 / math.sqrt(16)  # pull: gradient of the output
with FlopCounterMode(display=False) as stored:
    output = plain(query, key, value)
    output.backward(pull)
with torch.no_grad(), FlopCounterMode(display=False) as recomputed:
    scores = query @ key.mT * scale
    level = scores.logsumexp(dim=-1, keepdim=True)  # l: kept from the way there
    weights = (scores - level).exp()
    d_value = weights.mT @ pull
    d_scores = weights * (pull @ value.mT - (pull * output).sum(dim=-1, keepdim=True))
    d_query = d_scores @ key * scale
    d_key = d_scores.mT @ query * scale
for found, tensor in ((d_query, query), (d_key, key), (d_value, value)):
    assert torch.allclose(found, tensor.grad, atol=1e-5)
product = 2 * 300 * 300 * 16  # FLOPs of one matrix product
products = [counter.get_total_flops() // product for counter in (stored, recomputed)]
assert products == [6, 5]
products

# %% further-the-way-back-a-tile-at-a-time [markdown]
# With stored weights, forward and backward are 2 + 4 matrix products; the way back that computes them again needs 5 instead of 4. So
# training by tiles has 7 products instead of 6, for memory that no longer grows with $n^2$.

# %% [markdown]
# ## What to remember
#
# - Weights: $H n^2$ numbers. FLOPs: $8 n d^2 + 4 n^2 d$, so projections dominate until $n = 2 d$.
# - Rows are independent. Pieces of a row join if total and output shrink whenever the top rises.
# - Tiles give the same numbers as the table, to rounding, forward and backward. Memory grows with $n$; the work still grows with $n^2$.
# - A skipped tile costs nothing. A causal mask skips nearly half of them, a window all but a band.
# - Tests must let the top rise, and block a whole first piece.
# - A cache saves work and costs memory; grouped heads shrink it and change the model.

# %% 1-predict-4-minutes [markdown]
# ## Exercises
#
# Write your answer in the cell below a task, run it, and then run the check after it. Click the dots to open a solution.
#
# ### 1 · Predict ★ (4 minutes)
#
# A layer with 16 heads gets a batch of 3 texts, 4,096 tokens each, in bfloat16: 16 bits per number. How many MiB are its attention
# weights, if they are stored?
#
# <details><summary>Hint</summary>How many tables of n times n are there, and how many bytes are 16 bits?</details>


# %% tags=["exercise"]
def mib_of_weights():
    """Return a number."""


# %%
check_weight_memory(mib_of_weights)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mib_of_weights_solution():
    return 3 * weight_bytes(4096, 16, torch.bfloat16) / MiB


check_weight_memory(mib_of_weights_solution)

# %% 2-modify-8-minutes [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# `needed` says which tiles a causal mask leaves. Change it for a causal window: a query sees itself and the `window - 1` keys before it.
# The tile holds queries $i$ to $i + size - 1$ and keys $j$ to $j + size - 1$; both begin at multiples of `size`.
#
# <details><summary>Hint</summary>Two things must hold. Some key is not later than some query; and the pair that lies closest, first query
# and last key, is not too far apart.</details>


# %%
def needed_causal(i, j, size):
    return j <= i


# %% tags=["exercise"]
def needed(i, j, size, window):
    """Return True if some query of the tile may look at some key of it."""


# %%
check_needed_tile(needed)


# %% tags=["solution"] jupyter={"source_hidden": true}
def needed_solution(i, j, size, window):
    last_key = j + size - 1
    return j <= i and i - last_key < window


check_needed_tile(needed_solution)

# %% 3-repair-8-minutes [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `broken` goes through the keys in pieces and has three bugs. Write `mended` without them.
#
# <details><summary>Hint</summary>Which score is larger than the first top, if all are negative? What must shrink when the top
# rises? How often is the output divided?</details>


# %% tags=["exercise"]
def broken(query, key, value, size):
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (L, S)
    top = torch.zeros(len(query), 1)
    total, output = torch.zeros_like(top), torch.zeros(len(query), value.shape[-1])
    for piece, values in zip(
        scores.split(size, dim=-1), value.split(size), strict=True
    ):
        new_top = torch.maximum(top, piece.amax(dim=-1, keepdim=True))
        exponentials = (piece - new_top).exp()
        total = total * (top - new_top).exp() + exponentials.sum(dim=-1, keepdim=True)
        output = (output + exponentials @ values) / total
        top = new_top
    return output


def mended(query, key, value, size):
    """Attention in pieces of the keys: (L, E), (S, E), (S, Ev) -> (L, Ev)."""


# %%
check_mended_pieces(mended)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_solution(query, key, value, size):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    top = torch.full((len(query), 1), torch.finfo(scores.dtype).min)
    total, output = torch.zeros_like(top), torch.zeros(len(query), value.shape[-1])
    for piece, values in zip(
        scores.split(size, dim=-1), value.split(size), strict=True
    ):
        new_top = torch.maximum(top, piece.amax(dim=-1, keepdim=True))
        shrink = (top - new_top).exp()
        exponentials = (piece - new_top).exp()
        total = total * shrink + exponentials.sum(dim=-1, keepdim=True)
        output = output * shrink + exponentials @ values
        top = new_top
    return output / total


check_mended_pieces(mended_solution)

# %% 4-implement-12-minutes [markdown]
# ### 4 · Implement ★★★ (12 minutes)
#
# Two machines have each looked at a part of the keys. Write `joined`, which makes of their two states the state of all keys. Neither part need be
# the one with the larger top, and a part may have seen nothing (`nothing_yet`).
#
# <details><summary>Hint</summary>The new top is the larger of the two, row by row. Then both states shrink, each by a factor of its
# own.</details>


# %% tags=["exercise"]
def joined(one, other):
    """Two states (top, total, output), (L, 1), (L, 1), (L, Ev), to one."""


# %%
check_joined_pieces(joined)


# %% tags=["solution"] jupyter={"source_hidden": true}
def joined_solution(one, other):
    top = torch.maximum(one[0], other[0])
    first, second = (one[0] - top).exp(), (other[0] - top).exp()
    total = one[1] * first + other[1] * second
    return top, total, one[2] * first + other[2] * second


check_joined_pieces(joined_solution)

# %% 5-explain-4-minutes [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: "FlashAttention makes attention linear, but it only approximates." Answer in two sentences. Then compare.
#
# <details><summary>An answer</summary>It is exact: sums are taken in another order, so the numbers differ by rounding only. Memory is linear
# in the length; the FLOPs are still quadratic, and on the way back even more, because weights are computed again.</details>

# %% [markdown]
# ## In torch
#
# `F.scaled_dot_product_attention` chooses a kernel by device, dtype and shapes; the fused ones work by tiles and return no weights. `with
# torch.nn.attention.sdpa_kernel(...)` asks for one of them. `is_causal=True` lets them skip tiles; under a mask tensor they
# usually compute all.
# `torch.nn.attention.bias.causal_lower_right` is for a cache, `enable_gqa=True` for grouped heads; `flex_attention`, compiled, skips tiles under
# masks of your own. `nn.MultiheadAttention` stores the weights by default, and on a CPU, with `batch_first=True`, in eval mode without gradients even
# with `need_weights=False`.

# %% next [markdown]
# ## Sources
#
# - Milakov and Gimelshein, [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867), 2018.
# - Rabe and Staats, [Self-attention Does Not Need O(n²) Memory](https://arxiv.org/abs/2112.05682), 2021.
# - Dao et al., [FlashAttention](https://arxiv.org/abs/2205.14135), 2022: tiles, forward and backward, for the on-chip memory of a GPU.
# - Shazeer, [Fast Transformer Decoding](https://arxiv.org/abs/1911.02150), 2019: one head of keys and values for all.
# - Ainslie et al., [GQA](https://arxiv.org/abs/2305.13245), 2023: grouped heads.
#
#
#
# ## Next
#
# [9 · The attention clinic](09_clinic.ipynb)

# %% next-2 [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# Bytes and FLOPs with the explorer: 10. Rows and the counter: 6. One row in pieces and the experiment: 14. Tiles and figure 8.2: 5. Masks: 5.
# 16,384 tokens: 5. At home: backward, "Further", exercises.
#
# **Where a class stalls**
# - The factor. Let two students add up exponentials on paper, one with top 1, one with top 2; ask how to join their sums.
# - "Then it is linear." Ask what is stored and what is computed; point at figure 8.3.
# - The counter class. It is a tool: show what it says, not how it is written.
#
#
# </details>

# %% next-3 [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why a wrong choice tempts</summary>
#
# **1.** Three times the tokens: the stored weights take? **9 times as much.** *3 times*: counts rows only. *27 times*: as if the
# heads had become 3 times as many, too.
#
# **2.** 200 tokens, 768 features: where are most FLOPs? **In the projections.** *In attention*: forgets that the square is multiplied with a
# smaller number. *Half and half*: that is at 1,536 tokens.
#
# **3.** The top rises from 2 to 5. Total and output are? **Multiplied by** $e^{-3}$. *Multiplied by* $e^{3}$: the wrong way round. *Only the total*:
# the output is a total too.
#
# **4.** What do tiles save in a forward pass without a mask? **Memory.** *FLOPs*: all tiles are computed. *Both*: only a mask lets tiles be
# skipped.
#
# **5.** A window of 256 instead of a causal mask: the same output? **No.** *Yes, faster*: the model sees less. *Yes, to rounding*: that holds for tiles.
#
# </details>
