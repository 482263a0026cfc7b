# %% opening [markdown] above="How much memory do" end="How much memory do"
# # 8 · What attention costs, and how to pay less
#
# A model reads a long text of 16,384 tokens.
# In each layer, every head compares every token with every other.
# If a layer has eight heads with 64 features each and stores all its attention weights,
# these take far more memory than the 96 MiB of queries, keys and values and the 32 MiB of output.
#
# How much memory do the attention weights of a long text take, and is it necessary?
# You will build attention that gives the same result without ever holding all the weights.
#
# **You need:** [lesson 1](01_attention_is_a_soft_look_up.ipynb), the causal mask of lesson 3,
# and the heads of lesson 7.
#
# **You will be able to:** predict how many bytes the attention weights take,
# compute exact attention piece by piece, explain why a fused kernel is fast, and, in exercise 2,
# find the tiles that a mask leaves to compute.
#
# **Time:** 44 minutes in class, or 80 on your own with the exercises.
# “Further” takes another 15.

# %% setup
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import PeakMemory, Table, data_path, load_table, tiled_attention
from attnlab.display import diagram, lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import CostExplorer, PiecesExplorer

lesson_setup()

# %% count-weights [markdown] below="A head that compares"
# ## Count the weights
#
# A head that compares $n$ queries with $n$ keys has $n^2$ weights,
# and a float32 number takes 4 bytes.
# With $H$ heads there are $H$ times as many weights.
# You can find out how large a tensor would be even if you do not have the memory for it:
# on the device `meta`, a tensor has a shape but no numbers.

# %% ask-weights
predict("08/memory-of-the-weights")

# %% see-weights
# %%answer 08/memory-of-the-weights
lengths = [512, 2048, 16_384]


def weight_bytes(n, heads):
    return torch.empty(heads, n, n, device="meta").nbytes


sizes = [[weight_bytes(n, heads) // 2**20 for n in lengths] for heads in (1, 8, 32)]
pd.DataFrame(sizes, ["1 head (MiB)", "8 heads (MiB)", "32 heads (MiB)"], lengths)

# %% not-only-weights [markdown] above="With 32 times as" answers="08/memory-of-the-weights"
# With 32 times as many tokens, the weights take 1,024 times as much memory: 8,192 MiB,
# which is 8 GiB.
# There are 32 times as many queries, and each of them has 32 times as many keys.
# (In half precision, a number takes 2 bytes, and these sizes are halved.)

# %% where-the-memory-goes [markdown] below="How much memory does"
# ## Where the memory goes
#
# How much memory does attention hold at its peak?
# To find out, you can use a counter from attnlab, `PeakMemory`.
# Every tensor that an operation returns inside the `with` block is counted until it is freed,
# and `peak` is the largest number of bytes alive at any one time.


# %% plain
def plain(query, key, value):
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., L, S)
    weights = scores.softmax(dim=-1)
    return weights @ value  # (..., L, Ev)


def peak(function, *inputs):  # MiB
    with PeakMemory() as counted:
        function(*inputs)
    return counted.peak / 2**20


inputs = [torch.randn(1, 1, 2048, 64) for _ in range(3)]  # (N, H, L, E) each
peak(plain, *inputs)

# %% rows [markdown] above="A table of 2,048" below="To compute one output"
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

# %% slow-and-fast [markdown] above="Computing by rows gives" below="A single compiled program"
# Computing by rows gives the same result, here in less than a twentieth of the memory.
#
# ## Slow and fast memory
#
# Moving numbers takes time, too.
# A processor has a small, fast memory close to it, and a large,
# slow one from which numbers have to travel.
# If attention is computed one step at a time,
# it writes two tables to the slow memory and reads them again.
#
# A single compiled program for all the steps, a [**fused kernel**](glossary.ipynb#fused-kernel),
# keeps the tables out of the slow memory.
# PyTorch has such kernels in `F.scaled_dot_product_attention`.

# %% traffic jupyter={"source_hidden": true}
show_figure(diagram("memory_traffic"), "8.1")

# %% gpu [markdown] above="Fast memory, however, is" below="How can you take"
# *FlashAttention* is such a kernel.
# On an A100, a GPU that moves about 1.5 TB per second,
# its authors measured one attention layer with 16 heads of 64 features, forward and backward,
# for 64 texts of 1,024 tokens in half precision.
# The standard implementation took 41.7 ms and moved 40.3 GB, which takes 27 ms at this speed.
# FlashAttention took 7.3 ms and moved 4.4 GB.
# In this layer a table takes 2.1 GB,
# so the four arrows of Figure 8.1 that carry a table stand for 8.6 GB in the forward pass alone.
#
# Fast memory, however, is small.
# Each processor of that GPU has 192 KiB of it, and a row of 16,384 scores in float32 takes 64 KiB.
# Three such rows would fill it.
# In Figure 8.1, every block of queries reads all keys and values again:
# with three queries in a block, 5,462 times, and with 128 only 128 times.
# To read them less often, a block must hold more queries, and then whole rows do not fit.
# We have to cut the rows themselves into pieces.
#
# How can you take the softmax of half a row?
#
# ## One row in pieces
#
# Take *the cat sat on the mat* from lesson 1.
# The query of “mat” has six scores, one for each word,
# and we cut this row into three pieces of two.
#
# Subtracting the same number from every score changes no weight (lesson 1).
# So the softmax first subtracts the maximum of the row, which we call the *top*,
# and no exponential can overflow.
# Finally, it divides the exponentials by their sum, the *total*.
#
# Both numbers depend on the whole row.
# To go through the pieces only once and forget each score at once,
# we keep the top and the total of what we have seen *so far*.
#
# After the first piece, with the scores 0 and 0.268, the top is 0.268,
# and the total is $e^{0 - 0.268} + e^{0.268 - 0.268} = 1.765$.

# %% ask-factor
predict("08/the-top-rises")

# %% see-factor
# %%answer 08/the-top-rises
x = load_table("the_cat_sat_on_the_mat.csv").values  # (6, 5)
row = x[5] @ x.T / 5**0.5  # the scores of "mat"
first, second = row[:2], row[2:4]
old_total = (first - first.max()).exp().sum()
same_terms = (first - second.max()).exp().sum()
old_total, same_terms, same_terms / old_total

# %% online-softmax [markdown] above=["With the new top", "All old terms shrink"] answers="08/the-top-rises"
# With the new top, the two old terms add up to 1.290, which is 0.731 times as much as before.
# One law of exponents makes this work.
# For a score $s$, an old top $m$ and a new top $m'$,
#
# $$e^{s - m'} = e^{s - m} \cdot e^{m - m'}.$$
#
# All old terms shrink by the same factor, so it is enough to know their sum.
# This is the [**online softmax**](glossary.ipynb#online-softmax).
#
# The output is a running sum too: it adds up the values, each multiplied by its exponential.
# It shrinks by the same factor, and we divide it by the total once, at the end.

# %% your-experiment-cut-a-row [markdown] below="At how many of"
# ### Your experiment: cut a row
#
# The explorer cuts a row of eight scores, each with a value, in two.
# Each piece is computed by itself, with a top of its own,
# and gets a factor of its own when the two are joined.
# In the picture below this factor is left out, as in a program with a bug,
# and the first score gets a weight of 0.26 instead of 0.04.
#
# Move the cut, and watch what each piece keeps.
# At how many of the seven cuts is the output wrong, and why?

# %% explore-pieces
PiecesExplorer(cut=1, factor="forgotten")

# %% tiles [markdown] below="A piece can be"
# <details><summary>The answer</summary>
#
# At three: after one score, after six and after seven.
# At the others, both pieces have the top 3, so both factors are 1,
# and leaving them out changes nothing.
# </details>
#
# ## Tiles
#
# A piece can be added to many rows at once.
# The top begins at the lowest finite number,
# so that a first piece that a mask blocks does not give NaN.


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


# %% tiles-told [markdown] below="Besides its inputs and"
# We can cut the queries as well, because a row does not need the other rows.
# We take 256 queries and go through the keys in pieces of 256.
# The scores of 256 queries and 256 keys are one [**tile**](glossary.ipynb#tile) of the table.
# Besides its inputs and the output,
# the loop needs less memory than four tiles for each head of 64 features,
# however large the table is.


# %% tiled
def tiled(query, key, value, size=256):
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    for i in range(0, query.shape[-2], size):
        rows = query[..., i : i + size, :] / query.shape[-1] ** 0.5
        state = empty_state(rows, value)
        for j in range(0, key.shape[-2], size):
            keys, values = key[..., j : j + size, :], value[..., j : j + size, :]
            state = add_piece(state, rows @ keys.mT, values)  # scores (..., size, size)
        _, total, summed = state
        output[..., i : i + size, :] = summed / total
    return output


x = load_table("the_cat_sat_on_the_mat.csv").values  # (6, 5)
print(tiled(x, x, x, size=2)[5])  # "mat" in three pieces
print(F.scaled_dot_product_attention(x, x, x)[5])

# %% long-text [markdown] above="The pieces give the" below="We are ready for"
# The pieces give the same output as PyTorch.
#
# ## The long text
#
# We are ready for 16,384 tokens of random numbers: one layer, eight heads with 64 features each.
# The memory is counted on the device `meta`, which has room even for `plain`.
# (The cell may run for half a minute.
# To time it on your computer, write `%%time` above its first line.)

# %% long
long = [torch.randn(1, 8, 16_384, 64) for _ in range(3)]  # (N, H, L, E) each
output = tiled(*long)
same = torch.allclose(output, F.scaled_dot_product_attention(*long), atol=1e-6)
print(f"tiled gives the same as PyTorch: {same}")

memory = {}
for n in (1024, 4096, 16_384):
    empty = [torch.empty(1, 8, n, 64, device="meta") for _ in range(3)]
    memory[f"{n} (MiB)"] = [peak(f, *empty) for f in (plain, by_rows, tiled)]
pd.DataFrame(memory, ["plain", "by_rows", "tiled"]).round(2)

# %% ask-seconds [markdown] above="Four times as many" below="Do we pay for"
# Four times as many tokens need about 16 times as much memory with `plain`,
# and at most four times as much with the other two.
#
# Do we pay for this with time?
# These are seconds of processor time on one core of our machine.
# (NaN: the tables of `plain` were too large.)

# %% seconds
measured = pd.read_csv(data_path("cost_of_attention.csv"))
measured.pivot(index="function", columns="tokens", values="seconds").round(2)

# %% the-answer [markdown] above="With 4,096 tokens, `plain`" end="The weights of our"
# With 4,096 tokens, `plain` took the longest, partly to get memory for its tables,
# and the fused kernel took the least time.
# But 16,384 tokens took both loops and the fused kernel about 16 times as long as 4,096, or longer.
#
# ## So is this memory necessary?
#
# The weights of our 16,384 tokens take 8 GiB, and this memory is not necessary.
# `plain` would hold 16 GiB, because the scores are a second table of this size.
# `tiled` held 40 MiB in addition to its inputs, of which the output takes up 32,
# and its result is the same up to rounding.
# What remains is the work: without a mask, every score is computed,
# and their number grows with the square of the length.
# Exercise 2 shows how much of this a mask can save.

# %% further [markdown]
# ## Further
#
# ### Projections and comparisons
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
from torch.utils.flop_counter import FlopCounterMode


def flops(function, *inputs):
    with FlopCounterMode(display=False) as counted:
        function(*inputs)
    return counted.get_total_flops()


d, quotients = 512, {}
for n in (128, 512, 1024, 4096, 16_384):
    tokens, matrix = torch.empty(n, d, device="meta"), torch.empty(d, d, device="meta")
    projections = 4 * flops(torch.matmul, tokens, matrix)
    quotients[n] = flops(plain, tokens, tokens, tokens) / projections
pd.Series(quotients, name="attention / projections")

# %% formula [markdown] answers="08/projections-or-scores"
# For a sentence of 128 tokens, the projections take eight times as many FLOPs.
# With $d$ features, the matrix products of a layer take
#
# $$\underbrace{8\, n\, d^2}_{\text{projections}} + \underbrace{4\, n^2 d}_{\text{scores and averages}} \text{ FLOPs,}$$
#
# and the second part overtakes the first at $n = 2d$.
# (In many transformers, a network of another $16\, n\, d^2$ FLOPs follows,
# and then scores and averages overtake the rest only at $n = 6d$.)

# %% your-experiment-double-the-length [markdown]
# #### Your experiment: double the length
#
# The explorer counts bytes and FLOPs for $d = 512$.
# Go back to 64 tokens, and keep pressing “Double n”.
# The weights of $H$ heads take more memory than queries,
# keys and values together if $H n^2 > 3 n d$.
# At what length does this happen with eight heads, and with one?

# %% explore-cost
CostExplorer(n=16_384, ask=False)

# %% explore-cost-answer [markdown]
# <details><summary>The answer</summary>
#
# This happens beyond $n = 3d/H$, which is 192 tokens with eight heads and 1,536 with one.
# </details>

# %% the-backward-pass [markdown]
# ### The backward pass
#
# Training needs gradients.
# Autograd, which computes gradients in PyTorch, can differentiate our loops,
# and the gradients are correct.
# But how much memory does this take?

# %% ask-backward
predict("08/forward-and-backward")


# %% see-backward
# %%answer 08/forward-and-backward
def forward_and_backward(function, *inputs):
    function(*inputs).sum().backward()


short = [torch.randn(1, 1, 1024, 64) for _ in range(3)]
leaves = [t.clone().requires_grad_() for t in short]
functions = (plain, tiled, tiled_attention)
both = [[peak(f, *short), peak(forward_and_backward, f, *leaves)] for f in functions]
names = [function.__name__ for function in functions]
Table(names, ["forward (MiB)", "forward and backward (MiB)"], torch.tensor(both))

# %% further-recompute [markdown] answers="08/forward-and-backward"
# Here `tiled` takes four fifths of what `plain` takes:
# autograd keeps the scores and exponentials of every tile, which are two whole tables again,
# and the output so far of every piece.
#
# `tiled_attention` from attnlab works like `tiled`, but it has a backward pass of its own.
# It keeps no table and computes the weights a second time, and FlashAttention makes the same trade.
#
# If the weights are stored, the forward pass takes two matrix products and the backward pass four.
# If they are computed again, the backward pass takes five.
# So seven products replace six, and in return the memory no longer grows with $n^2$.

# %% remember [markdown] end=["Without a mask, every", "In a forward pass,", "FlashAttention, a fused kernel,"]
# ## What to remember
#
# - A layer has $H n^2$ attention weights for each text.
# - Without a mask, every score is computed, but none has to be kept.
#   A row does not need the other rows.
#   The pieces of a row can be joined if the total and the output are scaled down whenever the top
#   rises.
# - In float32, tiles give the same numbers as the whole table, up to rounding.
#   In a forward pass, the memory grows with $n$, and the work still grows with $n^2$.
# - Moving numbers takes time.
#   FlashAttention, a fused kernel, never stores the table,
#   and it is fast on a GPU because it moves far fewer bytes.
# - Tiles that a mask blocks completely can be skipped (exercise 2).
#   Under a causal mask, these are up to nearly half of all tiles.
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
    return 3 * 16 * 4096**2 * 2 / 2**20


check_weight_memory(mib_of_weights_solution)

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# A tile in which a mask blocks every cell can be skipped.
# Figure 8.2 shows the tiles that are left at 1,024 tokens.
# Under a causal window, a query sees only itself and the `window - 1` keys before it.
# (This [**sliding window**](glossary.ipynb#sliding-window) changes what the model can see,
# so it is a different computation.)
#
# `needed_causal` says whether a tile is needed under a causal mask.
# Write `needed` for a causal window.
# The tile holds the queries $i$ to $i + size - 1$ and the keys $j$ to $j + size - 1$,
# and both $i$ and $j$ are multiples of `size`.
#
# <details><summary>Hint</summary>
#
# Two things must hold.
# At least one key in the tile must be no later than one of its queries.
# And some key must not be too far back.
# Which query and which key of the tile lie closest together?
# </details>

# %% mask-figure jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
from attnlab import causal_mask, sliding_window_mask
from matplotlib.colors import ListedColormap


def tiles(allowed, size=128):  # 0: skipped, 1: computed with a mask, 2: computed whole
    cut = allowed.unflatten(0, (-1, size)).unflatten(2, (-1, size))
    return cut.any(dim=3).any(dim=1).int() + cut.all(dim=3).all(dim=1).int()


def masks(n):
    window = causal_mask(n) & sliding_window_mask(n, window=256)
    return {"causal": causal_mask(n), "causal window": window}


fig, axes = plt.subplots(1, 2, figsize=(5.6, 2.9), layout="constrained")
look = {"cmap": ListedColormap(["#ffffff", "#fbdcb8", "#9cc4e4"]), "vmin": 0, "vmax": 2}
for ax, (name, mask) in zip(axes, masks(1024).items(), strict=True):
    grid = tiles(mask)
    ax.pcolormesh(grid, edgecolor="#8a8f98", linewidth=0.5, clip_on=False, **look)
    for i, j in grid.nonzero().tolist():
        text = {1: "part", 2: "all"}[int(grid[i, j])]
        ax.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=7)
    ax.set(xticks=[], yticks=[], aspect="equal", xlabel="keys")
    ax.set_title(f"{name}: {grid.count_nonzero()} of 64", fontsize=10)
    ax.invert_yaxis()
axes[0].set_ylabel("queries")
show_figure(fig, "8.2")


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
# `flex_attention` from `torch.nn.attention.flex_attention`, when compiled,
# skips the blocks that your block mask leaves empty.

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
#   The layer is that of GPT-2 medium.
# - Dao, [FlashAttention-2](https://arxiv.org/abs/2307.08691), 2023: as in `tiled`,
#   it divides the output once, at the end, and as in Figure 8.1,
#   its outer loop goes through the queries.

# %% next [markdown]
# ## Next
#
# [9 · The attention clinic](09_clinic.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 44 minutes, and where a class stalls</summary>
#
# **44 minutes.**
# Count: 10.
# Where the memory goes, and rows: 4.
# Slow and fast memory: 5.
# One row in pieces, with the explorer: 18.
# Tiles: 2.
# The long text: 5.
# Set exercise 2, which is about masks, and “Further” as homework.
#
# **Where a class stalls.**
# *The factor:* let two students add up exponentials on paper, one with top 1 and one with top 2,
# and ask how to join their sums.
# *“Then it is linear”:* ask what is stored and what is computed,
# and have the class double the length in $n^2$.
# *“But more calls must take longer”:* in our table,
# `by_rows` makes more calls than `plain` and takes less time at 4,096 tokens,
# as it needs less new memory.
# *“What about a million tokens?”:* have them compute the bytes of one table.
# *“Why not one row at a time?”:* ask how often the keys and values would be read.
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
# FlashAttention-2 takes queries in blocks of 64 and not of 128.
# What does it move more often?
# **Keys and values, twice as often.**
# *The output* is written once.
# *The table of weights* is not moved at all.
#
# **3.**
# The top rises from 2 to 5.
# What happens to the total and the output?
# **Both are multiplied by** $e^{-3}$.
# *Multiplied by* $e^{3}$ has the sign the wrong way round.
# *Only the total* forgets that the output is a running sum too.
#
# **4.**
# Without a mask, what does a fused kernel on a GPU save in a forward pass?
# **Memory, and time, because it moves fewer bytes.**
# *FLOPs:* all tiles are computed.
# *Nothing but memory:* making and moving the tables costs time, too.
#
# **5.**
# A text of 1,024 tokens is read with a causal window of 256 keys instead of a causal mask.
# Is the output the same?
# **Not from token 257 on.**
# *Yes, up to rounding* is true of tiles.
# *Yes, but faster:* tiles are saved because the model sees less.
# </details>
