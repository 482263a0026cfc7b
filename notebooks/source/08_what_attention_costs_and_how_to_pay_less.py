# %% opening [markdown] above="Where does all this"
# # 8 · What attention costs, and how to pay less
#
# A model reads a long text of 16,384 tokens.
# In each layer, every head compares every token with every other.
# If a layer has eight heads and stores all its attention weights,
# these weights take far more memory than everything that goes in and out: with 64 features a head,
# the queries, keys and values take only 96 MiB, and the output takes 32 MiB.
#
# Where does all this memory go, and is it necessary?
# You will count what attention costs, find where the memory goes,
# and build attention that gives the same result without ever holding all the weights.
# By the end of the lesson, your own computer will have carried out this attention for 16,384
# tokens.
#
# **You need:** [lesson 1](01_attention_is_a_soft_look_up.ipynb), the causal mask of lesson 3,
# and the heads of lesson 7.
#
# **You will be able to:** predict how many bytes and FLOPs an attention layer takes,
# compute exact attention piece by piece, explain why a fused kernel is fast,
# and count the work that a mask saves.
#
# **Time:** 50 minutes in class, or 90 on your own with the exercises.
# “Further” takes another 20.

# %% setup
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import PeakMemory, Table, load_table, tiled_attention
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import CostExplorer, PiecesExplorer

lesson_setup()

# %% count-weights [markdown]
# ## Count the weights
#
# A head that compares $n$ queries with $n$ keys has $n^2$ weights,
# and a float32 number takes 4 bytes.
# With $H$ heads there are $H$ times as many weights.
# You can find out how large a tensor would be even if you do not have the memory for it:
# on the device `meta`, a tensor has a shape but no numbers.

# %% weight-bytes
MiB, GiB = 2**20, 2**30


def weight_bytes(n, heads):
    return torch.empty(heads, n, n, device="meta").nbytes


weight_bytes(512, 8) / MiB

# %% ask-weights
predict("08/memory-of-the-weights")

# %% see-weights
# %%answer 08/memory-of-the-weights
lengths = [512, 2048, 16_384]
sizes = [[weight_bytes(n, heads) // MiB for n in lengths] for heads in (1, 8, 32)]
pd.DataFrame(sizes, ["1 head (MiB)", "8 heads (MiB)", "32 heads (MiB)"], lengths)

# %% not-only-weights [markdown] above="With 32 times as" answers="08/memory-of-the-weights"
# With 32 times as many tokens, the weights take 1,024 times as much memory: 8,192 MiB,
# which is 8 GiB.
# There are 32 times as many queries, and each of them has 32 times as many keys.
# (In bfloat16, in which most large models are run, a number takes 2 bytes,
# and all these sizes are halved.)

# %% does-everything-grow-with-the-square [markdown]
# ## Does everything grow with the square?
#
# A layer does more than compare tokens.
# It also projects every token with four matrices, for query, key, value and output (lesson 7).
# To compare the two parts, we count [**FLOPs**](glossary.ipynb#FLOPs),
# additions and multiplications.
# A matrix product of shape (a, b) times (b, c) takes $2abc$ of them,
# because each of the $a \cdot c$ results needs $b$ multiplications and about as many additions.

# %% ask-flops
predict("08/projections-or-scores")

# %% see-flops
# %%answer 08/projections-or-scores
n, d = torch.tensor([128, 512, 1024, 4096, 16_384]), 512  # tokens, features
projections = 4 * (2 * n * d * d)  # four matrices, (n, d) @ (d, d) each
attention = 2 * (2 * n * n * d)  # scores, and averages of the values
pd.Series(attention / projections, n.tolist(), name="attention / projections")

# %% formula [markdown] above="For a sentence of" below="So \u201cattention costs $n^2$\u201d" answers="08/projections-or-scores"
# For a sentence of 128 tokens, the projections take eight times as many FLOPs.
# So “attention costs $n^2$” is only half the story.
# With $d$ features, the matrix products of a layer take
#
# $$\underbrace{8\, n\, d^2}_{\text{projections}} + \underbrace{4\, n^2 d}_{\text{scores and averages}} \text{ FLOPs,}$$
#
# and the second part overtakes the first at $n = 2d$.

# %% where-the-memory-goes [markdown]
# ## Where the memory goes
#
# How much memory does attention hold at its peak?
# To find out, you can use a counter from attnlab, `PeakMemory`.
# Every tensor that an operation returns inside the `with` block is counted until it is freed,
# and `peak` is the largest number of bytes alive at any one time.
# (Memory that an operation uses only internally is not counted.)


# %% plain
def plain(query, key, value):
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., L, S)
    weights = scores.softmax(dim=-1)
    return weights @ value  # (..., L, Ev)


def peak(function, *inputs, **options):  # MiB
    with PeakMemory() as counted:
        function(*inputs, **options)
    return counted.peak / MiB


# %% peak-of-plain
def random_inputs(n):  # query, key and value, (N, H, L, E) each
    return [torch.randn(1, 1, n, 64) for _ in range(3)]


inputs = random_inputs(2048)
peak(plain, *inputs)

# %% rows [markdown] above="A table of 2,048"
# A table of 2,048 by 2,048 numbers takes 16 MiB, and the output half a MiB.
# So this is where the memory goes: into two whole tables, scores and weights.
#
# ## A row does not need the other rows
#
# The softmax works along a row.
# To compute one output, we need its own query, all keys and all values, but no other query.
# So we can take a block of 64 queries, compute their 64 rows, average the values,
# forget the rows and go on with the next block.


# %% by-rows
def by_rows(query, key, value, size=64):
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    for i in range(0, query.shape[-2], size):
        rows = query[..., i : i + size, :]
        output[..., i : i + size, :] = plain(rows, key, value)
    return output


assert torch.allclose(by_rows(*inputs), plain(*inputs), atol=1e-6)
peak(by_rows, *inputs)

# %% slow-and-fast [markdown] above="Computing by rows gives" below="A fused kernel keeps"
# Computing by rows gives the same result in less than a twentieth of the memory.
# You might expect to pay for this with time, because `by_rows` runs a loop in Python.
# But on our processor it even takes less time than `plain`,
# mainly because it asks for less new memory (“Further” shows this).
#
# ## Slow and fast memory
#
# Moving numbers takes time, too.
# A processor has a small, fast memory close to it, and a large,
# slow one from which numbers have to travel.
# If attention is computed one step at a time,
# it writes two tables to the slow memory and reads them again.
#
# A fused kernel keeps the tables out of the slow memory.
# A [**fused kernel**](glossary.ipynb#fused-kernel) is a single compiled program that carries out
# all the steps for one block of queries at a time.
# PyTorch has such kernels in `F.scaled_dot_product_attention`.

# %% traffic jupyter={"source_hidden": true}
from attnlab.display import diagram

show_figure(diagram("memory_traffic"), "8.1")

# %% gpu [markdown]
# A GPU multiplies so fast that much of its time goes into this traffic.
# This is why *FlashAttention*, the best-known fused kernel, was written.
# On an A100, its authors measured one attention layer of GPT-2 medium, forward and backward,
# for 64 texts of 1,024 tokens.
# The standard implementation moved 40.3 GB and took 41.7 ms.
# FlashAttention moved 4.4 GB and took 7.3 ms.
#
# This GPU moves about 1.5 TB per second and, in half precision,
# computes at most 312 TFLOPs per second.
# Forward and backward together take six matrix products if the weights are stored,
# and seven if they are computed again.
# What is the least time that the multiplying and the moving could take?

# %% a100
texts, heads, n, d = 64, 16, 1024, 64
product = 2 * n * n * d * heads * texts  # FLOPs of one matrix product
measured = (("standard", 6, 40.3), ("fused", 7, 4.4))  # matrix products, GB
for name, products, gigabytes in measured:
    multiplying = products * product / 312e12 * 1000
    moving = gigabytes * 1e9 / 1.5e12 * 1000
    print(f"{name:8}  multiplying {multiplying:3.1f} ms, moving {moving:4.1f} ms")

# %% one-row [markdown] above="For the standard implementation"
# For the standard implementation, moving takes ten times as long as multiplying.
# At the full speed of the memory, moving alone would take two thirds of the 41.7 ms.
# The fused kernel multiplies a little more and saves most of the moving.
#
# But fast memory is small.
# That GPU has many processors with 192 KiB each,
# and in half precision a single row of 16,384 scores takes 32 KiB.
# Six such rows would fill it, with no room left for keys and values.
# To take many queries at once, we have to cut the rows themselves into pieces.
#
# But how can you take the softmax of half a row?
#
# ## One row in pieces
#
# Take *the cat sat on the mat* from lesson 1.
# The query of “mat” has six scores, one for each word,
# and we cut this row into three pieces of two.
#
# Subtracting the same number from every score changes no weight (lesson 1).
# So the softmax first subtracts the maximum of the row, which we call the **top**,
# and no exponential can overflow.
# Finally, it divides the exponentials by their sum, the **total**.
#
# Both numbers depend on the whole row, so it seems that we have to go through the pieces twice.
# One pass would be better: then each score could be forgotten at once.
# So we keep the top and the total of what we have seen *so far*.
#
# After the first piece, with the scores 0 and 0.268, the top is 0.268,
# and the total is $e^{0 - 0.268} + e^{0.268 - 0.268} = 1.765$.
# Here are the pieces, and the top and the total of the whole row.

# %% two-passes
x = load_table("the_cat_sat_on_the_mat.csv").values  # (6, 5)
row = x[5] @ x.T / 5**0.5  # the scores of "mat"
row.split(2), row.max(), (row - row.max()).exp().sum()

# %% ask-factor
predict("08/the-top-rises")

# %% see-factor
# %%answer 08/the-top-rises
top, total = torch.tensor(-torch.inf), torch.tensor(0.0)
for piece in row.split(2):
    new_top = torch.maximum(top, piece.max())
    factor = (top - new_top).exp()
    total = total * factor + (piece - new_top).exp().sum()
    top = new_top
    print(f"top {top:.3f}   factor {factor:.3f}   total {total:.3f}")

# %% online-softmax [markdown] above=["At the end, top", "All old terms therefore"] answers="08/the-top-rises"
# At the end, top and total are those of the whole row.
# The total of the first piece has shrunk by the factor 0.731.
# (The first factor is 0, because the top begins at $-\infty$, and nothing has been added up yet.)
# One law of exponents makes this work.
# For a score $s$, an old top $m$ and a new top $m'$,
#
# $$e^{s - m'} = e^{s - m} \cdot e^{m - m'}.$$
#
# All old terms therefore shrink by the same factor, and it is enough to know their sum.
# This is the [**online softmax**](glossary.ipynb#online-softmax).
#
# The output is a running sum too: it adds up the values, each multiplied by its exponential.
# It shrinks by the same factor, and we divide it by the total once, at the end.
#
# The next cell does the same for many rows at once.
# Its top begins at the lowest finite number; “Further” shows why not at $-\infty$.


# %% add-piece
def empty_state(query, value):
    lowest = torch.finfo(query.dtype).min
    top = query.new_full((*query.shape[:-1], 1), lowest)  # (..., L, 1)
    output = query.new_zeros(*query.shape[:-1], value.shape[-1])  # (..., L, Ev)
    return top, torch.zeros_like(top), output


def add_piece(state, scores, values):  # (..., L, piece), (..., piece, Ev)
    top, total, output = state
    new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
    factor = (top - new_top).exp()  # rescales what has been added up so far
    exponentials = (scores - new_top).exp()
    total = total * factor + exponentials.sum(dim=-1, keepdim=True)
    return new_top, total, output * factor + exponentials @ values


# %% mat-in-pieces
state = empty_state(x[5:], x)
for keys, values in zip(x.split(2), x.split(2), strict=True):
    state = add_piece(state, x[5:] @ keys.T / 5**0.5, values)
    _, total, output = state
    print(f"total {total.item():.3f}   output {output}")
print(output / total, F.scaled_dot_product_attention(x[5:], x, x))

# %% cut-a-row [markdown] above="The pieces give the" answers="08/the-top-rises"
# The pieces give the same output as PyTorch.

# %% your-experiment-cut-a-row [markdown] below="At which cuts would"
# ### Your experiment: cut a row
#
# The explorer cuts a row of eight scores, each with a value, in two.
# Each piece is computed by itself, with a top of its own,
# and gets a factor of its own when the two are joined.
# You can leave this factor out, as a program with a bug would.
# In the picture below it is left out, and the first score gets a weight of 0.26 instead of 0.04.
#
# Move the cut, and watch what each piece keeps.
# At which cuts would a test not notice a mistake in the factor?

# %% explore-pieces
PiecesExplorer(cut=1, factor="forgotten")

# %% tiles [markdown] below="At any moment, the"
# <details><summary>The answer</summary>
#
# If the cut comes after two to five scores, both pieces have the top 3, so both factors are 1,
# and a mistake changes nothing.
# At the other cuts the output is wrong, but no error is raised.
# In a loop like `add_piece`, a mistake would show at the first cut alone, where the top rises.
# </details>
#
# In `add_piece` the new piece already uses the new top, so only the old sums get a factor,
# and it is 1 unless the top *rises*.
# So test such a loop on rows whose top rises from piece to piece.
#
# ## Tiles
#
# We can cut the queries as well, because `add_piece` works on many rows at once.
# So we take 128 queries and go through the keys in pieces of 128.
# The scores of 128 queries and 128 keys are one [**tile**](glossary.ipynb#tile) of the table.
# At any moment, the loop holds only a few tensors as large as a tile, however large the table is.
#
# Under a causal mask, nearly half of the table is blocked.
# With `is_causal=True`, the inner loop stops at the diagonal,
# and only the tiles on the diagonal need the mask.
# On a first reading, suppose that `is_causal` is False.


# %% tiled
def tiled(query, key, value, size=128, is_causal=False):
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    for i in range(0, query.shape[-2], size):
        rows = query[..., i : i + size, :] / query.shape[-1] ** 0.5
        state = empty_state(rows, value)
        end = i + size if is_causal else key.shape[-2]  # causal: stop at the diagonal
        for j in range(0, end, size):
            keys, values = key[..., j : j + size, :], value[..., j : j + size, :]
            scores = rows @ keys.mT  # (..., size, size)
            if is_causal and i == j:
                later = torch.ones_like(scores).triu(1).bool()
                scores = scores.masked_fill(later, -torch.inf)
            state = add_piece(state, scores, values)
        output[..., i : i + size, :] = state[2] / state[1]
    return output


# %% peaks
causal = F.scaled_dot_product_attention(*inputs, is_causal=True)
assert torch.allclose(tiled(*inputs), plain(*inputs), atol=1e-6)
assert torch.allclose(tiled(*inputs, is_causal=True), causal, atol=1e-6)
lengths = [512, 1024, 2048, 4096]
texts = [random_inputs(n) for n in lengths]
peaks = [
    [peak(function, *text) for text in texts] for function in (plain, by_rows, tiled)
]
peaks.append([peak(tiled, *text, size=512) for text in texts])
names = ["plain (MiB)", "by_rows (MiB)", "tiled (MiB)", "tiled, size=512 (MiB)"]
Table(names, [f"{n} tokens" for n in lengths], torch.tensor(peaks))

# %% time [markdown] above="From 1,024 tokens on"
# With and without a causal mask, the tiles give the same numbers as PyTorch and `plain`.
# From 1,024 tokens on, `tiled` with tiles of 128 needs the least memory of these four.
# Its memory grows only because the output does, by 0.25 MiB for every 1,024 tokens.
# (Tiles of 512 need more than `plain` at 512 tokens, where a single tile is the whole table.)
#
# Do we pay for this with time?

# %% tile-sizes jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
from attnlab import data_path
from attnlab.palette import BLUE, EDGE

recorded = pd.read_csv(data_path("cost_of_attention.csv")).set_index("function")
of_tiles = recorded[recorded.tile.notna()]
_, ax = plt.subplots(figsize=(6.5, 3.0), layout="constrained")
ax.loglog(of_tiles.tile, of_tiles.ns_per_weight, "o-", color=BLUE)
ax.set_xticks(of_tiles.tile, [f"{tile:.0f}" for tile in of_tiles.tile])
ax.minorticks_off()
others = {
    "plain": "plain",
    "by_rows": "by_rows",
    "scaled_dot_product_attention": "fused",
}
for name, label in others.items():
    took = recorded.ns_per_weight[name]
    ax.axhline(took, color=EDGE, linestyle="--", linewidth=1)
    ax.annotate(label, (1.01, took), xycoords=("axes fraction", "data"), va="center")
ax.set(xlabel="queries (and keys) in a tile", ylabel="ns per weight")
ax.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
ax.set_title("Among the tile sizes, 256 and 512 take the least time")
show_figure(ax, "8.2")

# %% masks [markdown] above="With tiles of 128"
# With tiles of 128, `tiled` is slightly faster than `plain`.
# With tiles of 512 it is about as fast as `by_rows`,
# and the fused kernel needs about two thirds of that.
# Small tiles are slow because Python calls more than a dozen torch functions for each tile,
# however small it is.
# A fused kernel carries out all the steps for a tile in one compiled program,
# so its tiles can be small.
# With tiles of 1,024, the time rises again.
#
# ### Which tiles a mask leaves to compute
#
# Figure 8.3 shows which tiles have to be computed at 1,024 tokens.
# Under a causal mask there are 28 tiles below the diagonal and 8 on it: 36 of 64.
# With more tiles in a row, the share approaches one half.

# %% mask-figure jupyter={"source_hidden": true}
from attnlab import causal_mask, sequence_mask, sliding_window_mask
from matplotlib.colors import ListedColormap


def tiles(allowed, size=128):  # 0: skipped, 1: computed with a mask, 2: computed whole
    cut = allowed.unflatten(0, (-1, size)).unflatten(2, (-1, size))
    return cut.any(dim=3).any(dim=1).int() + cut.all(dim=3).all(dim=1).int()


def masks(n):
    window = causal_mask(n) & sliding_window_mask(n, window=256)
    padding = sequence_mask([n * 600 // 1024], max_len=n).expand(n, n)
    return {"causal": causal_mask(n), "causal window": window, "padding": padding}


fig, axes = plt.subplots(1, 3, figsize=(7.5, 2.8), layout="constrained")
look = {"cmap": ListedColormap(["#ffffff", "#fbdcb8", "#9cc4e4"]), "vmin": 0, "vmax": 2}
for ax, (name, mask) in zip(axes, masks(1024).items(), strict=True):
    grid = tiles(mask)
    ax.pcolormesh(grid, edgecolor="#8a8f98", linewidth=0.5, **look)
    for i, j in grid.nonzero().tolist():
        text = {1: "part", 2: "all"}[int(grid[i, j])]
        ax.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=7)
    ax.set(xticks=[], yticks=[], aspect="equal", xlabel="keys")
    ax.set_title(f"{name}: {grid.count_nonzero()} of 64", fontsize=10)
    ax.invert_yaxis()
axes[0].set_ylabel("queries")
show_figure(fig, "8.3")

# %% long-text [markdown] above="With a causal window"
# With a padding mask, whole columns of tiles are skipped.
# With a causal window, only a band of tiles remains.
# Its number of tiles grows only in proportion to the length.
# But a window changes what the model can see, so it is a different computation.
#
# ## The long text
#
# Now we are ready for 16,384 tokens: one layer, eight heads with 64 features each,
# and a causal mask.
# Random numbers stand in for queries, keys and values; they cost as much as real ones.
# We use `tiled_attention` from attnlab, which goes through the tiles faster than our loop,
# and first compare it with PyTorch on the 2,048 tokens from above.
# (The cell may run for half a minute.)

# %% read-long-text
same = torch.allclose(tiled_attention(*inputs, is_causal=True), causal, atol=1e-6)
long = [torch.randn(1, 8, 16_384, 64) for _ in range(3)]  # (N, H, L, E) each
held = peak(tiled_attention, *long, is_causal=True)
print(f"the same as PyTorch: {same}")
print(f"{held:.0f} MiB, and {long[0].nbytes / MiB:.0f} MiB of them are the output")

# %% the-answer [markdown] above="The tiled version holds"
# ## So where does the memory go, and is it necessary?
#
# It goes into tables that the code stores.
# They have to be computed, but the formula does not require them to be stored.
# For our 16,384 tokens, `plain` would hold two tables of 8 GiB, scores and weights.
# The tiled version holds neither of the two tables.
# At its peak it holds 39 MiB in addition to its inputs, of which the output takes up 32,
# and its result is the same up to rounding.
#
# What remains is the work.
# With 512 features and 16,384 tokens, attention takes 16 times the FLOPs of the projections,
# or about 8 times if the masked half is skipped.
# Nothing in this lesson changes that, except for a mask that lets you skip tiles.
# (A model that writes takes one query at a time and needs no such table: see lesson 13.)

# %% further [markdown]
# ## Further
#
# ### Count for yourself: bytes, FLOPs and pages
#
# The explorer counts bytes and FLOPs for $d = 512$.
# Set it to 64 tokens and keep pressing “Double n”.
# The weights of $H$ heads take more memory than queries,
# keys and values together if $H n^2 > 3 n d$.
# At what length does this happen with eight heads, and with one?

# %% explore-cost
CostExplorer(n=16_384, ask=False)

# %% further-pages [markdown]
# <details><summary>The answer</summary>
#
# This happens beyond $n = 3d/H$, which is 192 tokens with eight heads and 1,536 with one.
# </details>
#
# Why is `by_rows` faster than `plain`?
# The main reason is new memory.
# The system hands it out in pages, often of 4 KiB,
# and prepares a page when a program touches it for the first time.
# It counts these *page faults*, and on Linux and macOS you can read the counter.
# `reusing` does the same as `plain`, but writes into two tables that it has used before.


# %% page-faults
def new_pages(function, *inputs):
    import resource  # not on Windows

    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    function(*inputs)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


scores, weights = torch.ones(2, 1, 1, 4096, 4096)


def reusing(query, key, value):
    torch.matmul(query / query.shape[-1] ** 0.5, key.mT, out=scores)
    return torch.softmax(scores, dim=-1, out=weights) @ value


longer = random_inputs(4096)
for function in (by_rows, reusing, plain):
    print(f"{function.__name__:8} {round(new_pages(function, *longer), -4):6,}")

# %% further-blocked [markdown]
# The counts are rounded to ten thousands.
# `plain` makes two new tables of 64 MiB, or 16,384 pages of 4 KiB each.
# Each block of `by_rows` is as large as one that has just been freed,
# so it gets the same pages again.
# `reusing` moves the same numbers as `plain`,
# but on our machine it took hardly more time than `by_rows`.
# Other systems keep freed memory in other ways and give other counts.
#
# ### A piece in which everything is blocked
#
# Suppose that a mask blocks the first two words for “mat”.
# Then both scores of the first piece are $-\infty$.
# What if we let the top begin at $-\infty$?

# %% ask-blocked
predict("08/a-blocked-piece")


# %% see-blocked
# %%answer 08/a-blocked-piece
def attend_in_pieces(row, first_top):
    state = torch.tensor([[first_top]]), torch.zeros(1, 1), torch.zeros(1, 5)
    for piece, values in zip(row[None].split(2, dim=-1), x.split(2), strict=True):
        state = add_piece(state, piece, values)
    return state[2] / state[1]


blocked = row.masked_fill(torch.arange(6) < 2, -torch.inf)
print(attend_in_pieces(blocked, -torch.inf))
print(attend_in_pieces(blocked, torch.finfo(torch.float32).min))

# %% further-empty [markdown] answers="08/a-blocked-piece"
# If the top begins at $-\infty$, the factor is $e^{-\infty - (-\infty)}$, which is NaN.
# With the lowest finite number, everything works as long as there is at least one key that the
# query may attend to.
# If *all* keys are blocked, the total stays 0, and 0 divided by 0 is NaN again.
# Code that should return 0 for such a row, as in lesson 3,
# has to replace the total by 1 before it divides.
# (With bfloat16 inputs, keep top, total and output in float32;
# otherwise digits are lost with every piece.)

# %% the-backward-pass [markdown]
# ### The backward pass
#
# Training needs gradients.
# Autograd can differentiate our loops, and the gradients are correct.
# But how much memory does this take?

# %% ask-backward
predict("08/forward-and-backward")


# %% see-backward
# %%answer 08/forward-and-backward
def forward_and_backward(function, *inputs):
    function(*inputs).sum().backward()


short = random_inputs(1024)
leaves = [t.clone().requires_grad_() for t in short]
functions = (plain, by_rows, tiled, tiled_attention)
both = [[peak(f, *short), peak(forward_and_backward, f, *leaves)] for f in functions]
names = [function.__name__ for function in functions]
Table(names, ["forward (MiB)", "forward and backward (MiB)"], torch.tensor(both))

# %% further-recompute [markdown] answers="08/forward-and-backward"
# With `tiled`, training takes about as much as with `plain`,
# because autograd keeps the scores and exponentials of every tile,
# and all tiles together are two whole tables again.
# With `by_rows` it takes half as much: autograd keeps the weights of all blocks,
# which are one table, and the backward pass needs no other table.
#
# `tiled_attention` keeps no table and computes the weights a second time,
# and fused kernels make the same trade.
# Besides the output, the forward pass keeps one number for each row:
# the top plus the logarithm of the total, which is the `logsumexp` of the row.
# With it, a tile of weights can be computed again from its scores alone.
# (The first FlashAttention kept top and total as two numbers.)
#
# If the weights are stored, the forward pass takes two matrix products and the backward pass four.
# If they are computed again, the backward pass takes five.
# So seven products replace six, and in return the memory no longer grows with $n^2$.

# %% remember [markdown]
# ## What to remember
#
# - A layer has $H n^2$ attention weights.
#   It takes $8 n d^2 + 4 n^2 d$ FLOPs, so the projections dominate while $n < 2d$.
# - The weights must be computed, but they need not be stored.
#   A row does not need the other rows.
#   The pieces of a row can be joined if the total and the output are scaled down whenever the top
#   rises.
# - Tiles give the same numbers as the whole table, up to rounding.
#   The memory grows with $n$, and the work still grows with $n^2$.
# - Moving numbers takes time.
#   A fused kernel never stores the table.
#   On a GPU it is fast because it moves far fewer bytes.
# - Tiles that a mask blocks completely can be skipped.
#   Under a causal mask, these are nearly half of all tiles.
#   Under a causal window, only a band of tiles remains.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (4 minutes)
#
# A layer with 16 heads reads a batch of 3 texts with 4,096 tokens each, in bfloat16,
# where a number takes 16 bits.
# If its attention weights are stored, how many MiB do they take?
#
# <details><summary>Hint</summary>
#
# How many tables of $n$ times $n$ weights are there?
# How many bytes are 16 bits?
# </details>

# %%
from attnlab.exercises import check_joined_pieces, check_mended_pieces
from attnlab.exercises import check_needed_tile, check_weight_memory


# %% tags=["exercise"]
def mib_of_weights():
    """Return a number."""


# %%
check_weight_memory(mib_of_weights)


# %% tags=["solution"]
def mib_of_weights_solution():
    return 3 * 16 * 4096**2 * 2 / MiB


check_weight_memory(mib_of_weights_solution)

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# `needed_causal` says whether a tile is needed under a causal mask.
# Write `needed` for a causal window,
# under which a query sees itself and the `window - 1` keys before it.
# The tile holds the queries $i$ to $i + size - 1$ and the keys $j$ to $j + size - 1$,
# and both $i$ and $j$ are multiples of `size`.
#
# <details><summary>Hint</summary>
#
# Two things must hold.
# At least one key in the tile must be no later than one of its queries.
# And the pair that lies closest together, the first query and the last key,
# must not be too far apart.
# </details>


# %% tags=["exercise"]
def needed_causal(i, j, size):
    return j <= i


def needed(i, j, size, window):
    """Return True if some query in the tile may attend to some key in it."""


# %%
check_needed_tile(needed)


# %% tags=["solution"]
def needed_solution(i, j, size, window):
    last_key = j + size - 1
    return j <= i and i - last_key < window


check_needed_tile(needed_solution)

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `broken` goes through the keys once, in pieces, and forgets the scores of each piece.
# That part is correct, but the function has three bugs.
# Write a corrected version, `mended`.
# The check also looks at how your function works: at no time may it hold all scores of a row,
# and it may compute each score only once.
#
# <details><summary>Hint</summary>
#
# Suppose that all scores are far below 0.
# Is any of them larger than the first top?
# What must shrink when the top rises?
# How many times should the output be divided?
# </details>


# %% tags=["exercise"]
def broken(query, key, value, size):
    top = query.new_zeros(len(query), 1)
    total, output = torch.zeros_like(top), query.new_zeros(len(query), value.shape[-1])
    for keys, values in zip(key.split(size), value.split(size), strict=True):
        scores = query @ keys.T / query.shape[-1] ** 0.5  # (L, piece)
        new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        exponentials = (scores - new_top).exp()
        total = total * (top - new_top).exp() + exponentials.sum(dim=-1, keepdim=True)
        output = (output + exponentials @ values) / total
        top = new_top
    return output


def mended(query, key, value, size):
    """Attention in pieces of the keys: (L, E), (S, E), (S, Ev) -> (L, Ev)."""


# %%
check_mended_pieces(mended)


# %% tags=["solution"]
def mended_solution(query, key, value, size):
    top = query.new_full((len(query), 1), torch.finfo(query.dtype).min)
    total, output = torch.zeros_like(top), query.new_zeros(len(query), value.shape[-1])
    for keys, values in zip(key.split(size), value.split(size), strict=True):
        scores = query @ keys.T / query.shape[-1] ** 0.5
        new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        shrink = (top - new_top).exp()
        exponentials = (scores - new_top).exp()
        total = total * shrink + exponentials.sum(dim=-1, keepdim=True)
        output = output * shrink + exponentials @ values
        top = new_top
    return output / total


check_mended_pieces(mended_solution)

# %% exercise-4 [markdown]
# ### 4 · Implement ★★★ (12 minutes)
#
# Two machines have each looked at some of the keys, and each is left with a state: top,
# total and output.
# Write `joined`, which turns the two states into the state for all the keys.
# Either of them may have the larger top, and this can differ from row to row.
# A machine may also have seen no key at all, in which case its state is that of `empty_state`.
#
# <details><summary>Hint</summary>
#
# In each row, the new top is the larger of the two tops.
# Then both states shrink, each by a factor of its own.
# </details>


# %% tags=["exercise"]
def joined(one, other):
    """Join two states (top, total, output), of shapes (L, 1), (L, 1) and (L, Ev)."""


# %%
check_joined_pieces(joined)


# %% tags=["solution"]
def joined_solution(one, other):
    top = torch.maximum(one[0], other[0])
    first, second = (one[0] - top).exp(), (other[0] - top).exp()
    total = one[1] * first + other[1] * second
    return top, total, one[2] * first + other[2] * second


check_joined_pieces(joined_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: “FlashAttention makes attention linear,
# and it is fast because it only approximates.”
# Answer in three sentences.
#
# <details><summary>An answer</summary>
#
# It computes exact attention: its sums are taken in another order,
# so the numbers differ only by rounding.
# Its memory is linear in the length, but its FLOPs are still quadratic,
# and in training there are even more of them because it computes weights again.
# On a GPU, it is fast because it moves far fewer bytes between slow and fast memory.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `F.scaled_dot_product_attention` chooses a kernel according to the device, the dtype,
# the shapes and the mask.
# The fused ones work on blocks of the table and return no weights.
# `with torch.nn.attention.sdpa_kernel(...)` restricts the choice.
# With `is_causal=True`, the fused kernels can skip blocks.
# If you pass the same mask as a tensor, they usually compute every block.
# `torch.nn.attention.flex_attention`, when compiled,
# skips the blocks that a mask of your own leaves empty.

# %% sources [markdown]
# ## Sources
#
# - Milakov and Gimelshein,
#   [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867), 2018.
# - Rabe and Staats,
#   [Self-attention Does Not Need O(n²) Memory](https://arxiv.org/abs/2112.05682), 2021.
# - Dao et al.,
#   [FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness](https://arxiv.org/abs/2205.14135), 2022.
#   The bytes and times on a GPU are those of its figure 2,
#   and the size of the fast memory and the bandwidth are those of its section 2.1.
#   NVIDIA’s data sheet of the A100 gives the 312 TFLOPs in a second.
#   (The figure also gives 66.6 and 75.2 GFLOPs, far fewer than our cell counts for 64 texts.
#   With them, multiplying would take even less time.)
# - Dao, [FlashAttention-2](https://arxiv.org/abs/2307.08691), 2023: as in `add_piece`,
#   it divides the output once, at the end.

# %% next [markdown]
# ## Next
#
# [9 · The attention clinic](09_clinic.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.**
# Count: 11.
# Where the memory goes, and rows: 6.
# Slow and fast memory: 6.
# One row in pieces, with the explorer: 16.
# Tiles and masks: 7.
# The long text: 3.
# Set “Further” as homework.
#
# **Where a class stalls.**
# *The factor:* let two students add up exponentials on paper, one with top 1 and one with top 2,
# and ask how to join their sums.
# *“Then it is linear”:* ask what is stored and what is computed,
# and have the class double the length in the formula.
# *“But more calls must take longer”:* this is true of small tiles,
# but `by_rows` makes more calls than `plain` and is faster.
# *“What about a million tokens?”:* have them put that number into the formula.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# One text has three times as many tokens as another.
# How many times as much memory do its stored weights take?
# **9 times as much.**
# *3 times as much* counts the rows only.
# *27 times as much* would be true if there were also three times as many heads.
#
# **2.**
# A layer with 768 features reads 200 tokens.
# Where do most of its FLOPs go?
# **In the projections.**
# *In scores and averages* forgets that the square is multiplied by a smaller number.
# *Half and half* is true at 1,536 tokens.
#
# **3.**
# The top rises from 2 to 5.
# What happens to the total and the output?
# **Both are multiplied by** $e^{-3}$.
# *Multiplied by* $e^{3}$ has the sign the wrong way round.
# *Only the total* forgets that the output is a running sum too.
#
# **4.**
# Without a mask, what does a fused kernel save in a forward pass?
# **Memory, and time, because it moves fewer bytes and asks for less new memory.**
# *FLOPs:* all tiles are computed.
# *Nothing but memory:* making and moving the tables costs time, too.
#
# **5.**
# A text of 1,024 tokens is read with a causal window of 256 keys instead of a causal mask.
# Is the output the same?
# **Not from token 257 on.**
# *Yes, up to rounding* is true of tiles.
# *Yes, but faster:* it is faster because the model sees less.
# </details>
