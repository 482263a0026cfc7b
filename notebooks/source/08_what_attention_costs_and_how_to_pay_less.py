# %% opening [markdown]
# # 8 · What attention costs, and how to pay less
#
# A model reads a long text of 16,384 tokens. In each layer, every head compares every token with every other. If a
# layer has eight heads and stores all its attention weights, these weights take far more memory than everything that
# goes in and out: the queries, keys and values take only 96 MiB, and the output takes 32 MiB.
#
# Where does all this memory go, and is it really needed? The formula of attention does not say that all weights have to
# exist at the same time. In this lesson you will count what attention costs, find where the memory goes, and build
# attention that gives the same result without ever holding all the weights. By the end of the lesson, your own computer
# will have carried out this attention for 16,384 tokens.
#
# **You need** lesson 1, the causal mask of lesson 3, and the heads and FLOPs of lesson 7.
#
# **You will be able to**
# - predict how many bytes and FLOPs an attention layer takes,
# - compute exact attention piece by piece,
# - explain why a fused kernel is fast,
# - count the work that a mask saves.
#
# **Time:** 45 minutes in class, 90 on your own. You may skip the sections headed "Further".

# %% setup
import matplotlib.pyplot as plt
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import PeakMemory, data_path, load_table, tiled_attention
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import CostExplorer, PiecesExplorer

lesson_setup()

# %% count-weights [markdown]
# ## Count the weights
#
# A head that compares $n$ queries with $n$ keys has $n^2$ weights, and a float32 number takes 4 bytes. With $H$ heads
# there are $H$ times as many weights. You can find out how large a tensor would be even if you do not have the memory
# for it: on the device `meta`, a tensor has a shape but no numbers.

# %% weight-bytes
MiB, GiB = 2**20, 2**30


def weight_bytes(n, heads):
    return torch.empty(heads, n, n, device="meta").nbytes


weight_bytes(512, 8) / MiB

# %% ask-weights
predict("08/memory-of-the-weights")

# %% see-weights
# %%answer 08/memory-of-the-weights
texts = (512, 2048, 16_000)  # tokens
gib = {
    f"{h} head{'s' * (h > 1)} (GiB)": [weight_bytes(n, h) / GiB for n in texts]
    for h in (1, 8, 32)
}
pd.DataFrame(gib, texts).rename_axis("tokens").round(3)

# %% not-only-weights [markdown]
# ## Does everything grow with the square?
#
# A layer does more than compare tokens. It also projects every token with four matrices, for query, key, value and
# output (lesson 7). To compare the two parts, we count FLOPs. A matrix product of shape (a, b) times (b, c) takes
# $2abc$ of them, because each of the $a \cdot c$ results needs $b$ multiplications and about as many additions.

# %% ask-flops
predict("08/projections-or-scores")

# %% see-flops
# %%answer 08/projections-or-scores
n, d = torch.tensor([128, 512, 1024, 4096, 16_384]), 512  # tokens, features
projections = 4 * (2 * n * d * d)  # four matrices, (n, d) @ (d, d) each
attention = 2 * (2 * n * n * d)  # scores, and averages of the values
pd.Series(attention / projections, n.tolist(), name="attention / projections")

# %% formula [markdown]
# ### Both parts in one formula
#
# "Attention costs $n^2$" is only half of the story. With $d$ features, a layer takes
#
# $$\underbrace{8\, n\, d^2}_{\text{projections}} + \underbrace{4\, n^2 d}_{\text{scores and averages}} \text{ FLOPs,}$$
#
# and the second part overtakes the first at $n = 2d$. Most Transformer blocks also have an MLP, usually with matrices
# of shapes $(d, 4d)$ and $(4d, d)$, which take $16\, n\, d^2$ FLOPs. With the projections, that makes $24\, n\, d^2$,
# and the quadratic part catches up with this sum at $n = 6d$.
#
# ### Your experiment: double the length
#
# The explorer counts bytes and FLOPs for $d = 512$. Set it to 64 tokens and keep pressing "Double n". At what length do
# the weights of eight heads begin to take more memory than the queries, keys and values together? And at what length do
# those of a single head?

# %% explore-cost
CostExplorer(n=16_384, ask=False)

# %% plain-heading [markdown]
# <details><summary>The answers</summary>
#
# With eight heads, the weights take less memory than the queries, keys and values at 128 tokens, and more at 256. With
# one head, they take less at 1,024 tokens and more at 2,048.
# </details>
#
# ## Where the memory goes
#
# How much memory does attention hold at its worst moment? To find out, you can use a counter from attnlab,
# `PeakMemory`. Every tensor that an operation returns inside the `with` block is counted until it is freed, and `peak`
# is the largest number of bytes alive at any one time. (Memory that an operation uses only internally is not counted.)


# %% plain
def plain(query, key, value):
    scores = query @ key.mT / query.shape[-1] ** 0.5  # (..., L, S)
    weights = scores.softmax(dim=-1)
    return weights @ value  # (..., L, Ev)


# %% ask-peak
predict("08/peak-of-plain")

# %% see-peak
# %%answer 08/peak-of-plain
inputs = torch.randn(3, 1, 1, 2048, 64)  # query, key and value, (N, H, L, E) each
with PeakMemory() as counted:
    plain(*inputs)
counted.peak / MiB

# %% rows [markdown]
# ## A row does not need the other rows
#
# So this is where the memory goes: into whole tables. Each step reads one table and writes the next, and during the
# step both are alive. But the softmax works along a row. To compute one output, we need its own query, all keys and all
# values, but no other query. So we can take 64 queries, compute their 64 rows, average the values, forget the rows and
# go on with the next 64 queries.


# %% by-rows
def by_rows(query, key, value, size=64):
    blocks = query.split(size, dim=-2)  # 64 queries each
    return torch.cat([plain(rows, key, value) for rows in blocks], dim=-2)


assert torch.allclose(by_rows(*inputs), plain(*inputs), atol=1e-6)

# %% peak-of-rows
with PeakMemory() as counted_rows:
    by_rows(*inputs)
counted_rows.peak / MiB

# %% what-about-time [markdown]
# The result is the same, in less than a twentieth of the memory. Is there a price in time? Both functions carry out the
# same multiplications, but `by_rows` runs a loop in Python.

# %% ask-time
predict("08/plain-or-rows")

# %% see-time jupyter={"source_hidden": true}
# %%answer 08/plain-or-rows
measured = pd.read_csv(data_path("cost_of_attention.csv"))
part = dict(iter(measured.groupby("what")))
division = part["division"].pivot_table("value", "size", "case")
steps = part["step"].pivot_table("value", "case", "step", sort=False)
wholes = part["time"].query("size == 4096").set_index("case").value
_, axes = plt.subplots(
    1, 2, figsize=(7.5, 3.0), layout="constrained", width_ratios=(3, 4)
)
division.index = division.index * 4 / MiB
division = division.rename(columns="{} memory".format)
division.plot(ax=axes[0], logx=True, style=["s--", "o-"], color=["#b04600", "#0b61a4"])
axes[0].set(ylim=(0, 3.2), xlabel="MiB", ylabel="ns per number", title="one division")
axes[0].set_xticks([1, 8, 64], ["1", "8", "64"])
axes[0].legend(loc="upper left")
colours = ["#0b61a4", "#d98200", "#7b3f98", "#79bdf5"]
steps.plot.barh(stacked=True, ax=axes[1], color=colours, edgecolor="white", width=0.7)
axes[1].barh([3, 4], wholes[["by_rows", "fused"]], 0.7, color="#6b7683")
names = ["plain: new tables", "tables reused", "64 rows, reused", "by_rows", "fused"]
axes[1].set_yticks(range(5), names)
axes[1].set(xlabel="ns per weight", ylabel="", title="attention at 4,096 tokens")
axes[1].set_ylim(4.6, -0.6)
axes[1].legend(fontsize=9.5, loc="lower right")
show_figure(axes[0], "8.1")

# %% slow-and-fast [markdown]
# ## Slow and fast memory
#
# A processor has a small, fast memory close to it. In a CPU, this is a *cache* of a few MiB. The main memory is large
# and slow. The left panel of Figure 8.1 shows how long a division takes per number as the tensor grows. The lower line
# rises where the tensor no longer fits into the cache: from main memory, a number takes two to three times as long. A
# result that needs *new* memory (the upper line) costs far more: the system first has to provide it, page by page, and
# clear it.
#
# The right panel shows the steps of attention. The two matrix products, scores and average, account for nearly all the
# FLOPs, and with reused tables they also take most of the time. But `plain` makes new tables of 64 MiB and takes more
# than twice as long. Blocks of 64 rows fit into the cache. If they are reused, the same four steps take even less time
# (third bar). `by_rows` asks for new blocks each time, but small blocks cost less than large tables, and it takes about
# half the time of `plain`.
#
# The last bar is `F.scaled_dot_product_attention`. It takes hardly more than the two products. Compared with `plain`,
# it saves 6.2 of 9.4 ns: about 5 because it asks for no new tables (the first two bars), and the rest because its
# blocks fit into the cache and its steps are faster. PyTorch runs this function here as a [**fused
# kernel**](glossary.ipynb#fused-kernel): one compiled program for all four steps, which works on one block at a time.

# %% traffic jupyter={"source_hidden": true}
from attnlab.diagrams import draw_memory_traffic

show_figure(draw_memory_traffic(), "8.2")

# %% one-row [markdown]
# On a GPU, PyTorch keeps freed memory and reuses it, so the cost of new memory is gone. But a GPU computes so fast that
# memory traffic matters far more there. This is why *FlashAttention*, the best-known fused kernel, was written. On an
# A100, its authors measured one attention layer of the size used in GPT-2 medium, forward and backward, for 64 texts of
# 1,024 tokens. The usual code moved 40.3 GB between slow and fast memory and took 41.7 ms. Theirs moved 4.4 GB and took
# 7.3 ms, although it needs about 13% *more* FLOPs, because its backward pass computes the weights a second time instead
# of storing them.
#
# The fast memory of that GPU holds 192 KB for each of its processors, and a single row of 16,384 scores takes 64 KiB.
# So at most three rows fit there, and keys and values would have to be read again for every three queries. To take many
# queries at once, we have to cut the rows themselves into pieces. But how can you take the softmax of half a row?
#
# ## One row in pieces
#
# The query "mat" looks at six words. We cut its row of scores into three pieces of two. Subtracting the same number
# from every score changes no weight (lesson 1), so the softmax first subtracts the largest score of the row, its
# **top**. Then no exponential can overflow. Finally, it divides the exponentials by their **total**. Both numbers
# depend on the whole row, so it seems that we have to go through the pieces twice.
#
# One pass would be better: then each score could be forgotten at once. So we keep the top and the total of what we have
# seen *so far*. After the first piece, with the scores 0 and 0.268, the top is 0.268, and the total is $e^{0 - 0.268} +
# e^{0.268 - 0.268} = 1.765$. The next cell prints the pieces, followed by the top and the total of the whole row.

# %% two-passes
x = load_table("the_cat_sat_on_the_mat.csv").values  # (6, 5)
row = x[5] @ x.T / 5**0.5  # the scores of "mat"
top = row.max()
row.split(2), top, (row - top).exp().sum()

# %% ask-factor
predict("08/the-top-rises")

# %% see-factor jupyter={"source_hidden": true}
# %%answer 08/the-top-rises
so_far, added_up = torch.tensor(-torch.inf), torch.tensor(0.0)
for piece in row.split(2):
    new_top = torch.maximum(so_far, piece.max())
    factor = (so_far - new_top).exp()
    added_up = added_up * factor + (piece - new_top).exp().sum()
    so_far = new_top
    print(f"top {so_far:.3f}   factor {factor:.3f}   total {added_up:.3f}")

# %% online-softmax [markdown]
# ### The online softmax
#
# One law of exponents makes this work. For a score $s$, an old top $m$ and a new top $m'$,
#
# $$e^{s - m'} = e^{s - m} \cdot e^{m - m'},$$
#
# so all old terms shrink by the same factor. This is the [**online softmax**](glossary.ipynb#online-softmax). Without
# the factor you get a wrong total, and no error is raised. A test can miss that bug too: if the largest score lies in
# the first piece, the top never rises after it, and all later factors are 1.
#
# The output is a running sum too: it adds up the values, each multiplied by its exponential. It shrinks by the same
# factor, and we divide it by the total once, at the end. (The top begins at the lowest finite number and not at
# $-\infty$; "Further" shows why. For bfloat16, keep top, total and output in float32, or digits get lost with every
# piece.)


# %% add-piece
def nothing_yet(query, value):
    lowest = torch.finfo(query.dtype).min
    top = query.new_full((*query.shape[:-1], 1), lowest)  # (..., L, 1)
    output = query.new_zeros(*query.shape[:-1], value.shape[-1])  # (..., L, Ev)
    return top, torch.zeros_like(top), output


def add_piece(state, scores, values):  # (..., L, piece), (..., piece, Ev)
    top, total, output = state
    new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
    shrink = (top - new_top).exp()  # rescales what has been added up so far
    exponentials = (scores - new_top).exp()
    total = total * shrink + exponentials.sum(dim=-1, keepdim=True)
    output = output * shrink + exponentials @ values
    return new_top, total, output


# %% mat-in-pieces
state = nothing_yet(x[5:], x)
for keys, values in zip(x.split(2), x.split(2), strict=True):
    state = add_piece(state, x[5:] @ keys.T / 5**0.5, values)
_, total, output = state
print(output / total, F.scaled_dot_product_attention(x[5:], x, x))

# %% cut-a-row [markdown]
# ### Your experiment: cut a row
#
# The explorer cuts a row of eight scores wherever you like and joins the two pieces: with the correct factor, without
# any, or with the wrong sign. At which cuts would a test not notice the mistake?

# %% explore-pieces
PiecesExplorer(cut=1, factor="forgotten")

# %% tiles [markdown]
# ## Tiles
#
# `add_piece` works on many rows at once. So we take 128 queries and go through the keys in pieces of 128. The scores of
# 128 queries and 128 keys are one [**tile**](glossary.ipynb#tile) of the table. At any moment, the loop then holds only
# a few tensors as large as a tile, however large the table is.


# %% tiled
def tiled(query, key, value, size=128):
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    for i in range(0, query.shape[-2], size):
        rows = query[..., i : i + size, :]
        state = nothing_yet(rows, value)
        for j in range(0, key.shape[-2], size):
            keys, values = key[..., j : j + size, :], value[..., j : j + size, :]
            scores = rows @ keys.mT / rows.shape[-1] ** 0.5  # (..., size, size)
            state = add_piece(state, scores, values)
        _, total, summed = state
        output[..., i : i + size, :] = summed / total
    return output


assert torch.allclose(tiled(*inputs), plain(*inputs), atol=1e-6)

# %% memory-and-time jupyter={"source_hidden": true}
from attnlab.plotting import plot_sweep


def peak(function, n):  # MiB: one head with 64 features, the output included
    query, key, value = torch.randn(3, 1, 1, n, 64)
    with PeakMemory() as memory:
        function(query, key, value)
    return memory.peak / MiB


drawn = ["plain", "by_rows", "tiled", "fused"]
peaks = part["peak"].pivot_table("value", "size", "case")  # bytes
times = part["time"].pivot_table("value", "size", "case")  # ns per weight
own = (plain, by_rows, tiled)
in_mib = {f.__name__: [peak(f, n) for n in peaks.index[:4]] for f in own}
in_mib["fused"] = [peaks.fused[n] / MiB for n in peaks.index[:4]]
in_ns = {f: times[f].tolist() for f in drawn}
_, axes = plt.subplots(1, 2, figsize=(7.5, 3.2), layout="constrained")
plot_sweep([*peaks.index[:4]], in_mib, ax=axes[0], xscale="log", yscale="log")
plot_sweep([*times.index], in_ns, ax=axes[1], xscale="log", ylabel="ns per weight")
axes[0].set(title="Memory: plain grows with n²", xlabel="tokens", ylabel="MiB")
axes[0].set_yticks([1, 10, 100], ["1", "10", "100"])
axes[1].set(title="Time: fused is fastest", xlabel="tokens", ylim=(0, None))
axes[1].get_legend().remove()
for ax, places in zip(axes, (peaks.index[:4], times.index), strict=True):
    ax.set_xticks(places, [f"{n}" for n in places])
    ax.minorticks_off()
show_figure(axes[0], "8.3")

# %% masks [markdown]
# On the left, `tiled` needs the least of our three functions from 1,024 tokens on. Its line rises only because the
# output does, from 0.125 MiB at 512 tokens to 1 MiB at 4,096. What remains is 0.28 MiB at every length. On the right,
# from 2,048 tokens on, all four lines are roughly level, so the time of all four grows with $n^2$. Our loop over tiles
# is slower than `by_rows`: for each tile, Python calls more than a dozen torch functions, and half of these go through
# the whole tile. A fused kernel carries out all the steps for one tile in one compiled program.
#
# ## What a mask saves
#
# Tiles have one more use. Under a causal mask, nearly half of the table is $-\infty$. `plain` would compute this half
# and throw it away. A loop over tiles can leave this half out: it skips every tile above the diagonal, and it needs the
# mask only for tiles on the diagonal.


# %% tiled-causal
def tiled_causal(query, key, value, size=128):  # L = S
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    for i in range(0, query.shape[-2], size):
        rows = query[..., i : i + size, :]
        state = nothing_yet(rows, value)
        for j in range(0, i + 1, size):  # no tile with later keys
            keys, values = key[..., j : j + size, :], value[..., j : j + size, :]
            scores = rows @ keys.mT / rows.shape[-1] ** 0.5
            if i == j:
                future = torch.ones_like(scores).triu(1).bool()
                scores = scores.masked_fill(future, -torch.inf)
            state = add_piece(state, scores, values)
        _, total, summed = state
        output[..., i : i + size, :] = summed / total
    return output


# %% ask-tiles
predict("08/tiles-under-a-causal-mask")

# %% mask-figure jupyter={"source_hidden": true}
# %%answer 08/tiles-under-a-causal-mask
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
show_figure(fig, "8.4")

# %% long-text [markdown]
# With a padding mask, whole columns of tiles are skipped. With a causal window, only a band remains, and the number of
# its tiles grows only in proportion to the length. But a window changes what the model can see, so it is a different
# computation.
#
# ## The long text
#
# Now we are ready for 16,384 tokens: one layer, eight heads with 64 features each, and a causal mask. Random numbers
# stand in for queries, keys and values; they cost as much as real ones. We use `tiled_attention` from attnlab. It goes
# through the tiles faster than our loop, and has a backward pass of its own. On one core, it takes a few seconds.

# %% read-long-text
heads = torch.randn(1, 8, 16_384, 64)  # (N, H, L, E), for query, key and value
with PeakMemory() as held:
    tiled_attention(heads, heads, heads, is_causal=True)
round(held.peak / MiB), heads.nbytes / MiB

# %% the-answer [markdown]
# At its worst moment the function holds 39 MiB, of which the output, as large as `heads`, takes up 32. The weights
# alone would take 8 GiB, which is all the memory of a small laptop.
#
# So where does the memory go? It goes into tables that the code stores, and nothing in the formula says that it must.
# `plain` would hold two tables of 8 GiB here, scores and weights. The tiled version holds neither, and up to rounding,
# its result is that of attention with whole tables and the same mask.
#
# What remains is the work. With 512 features and 16,384 tokens, attention takes 16 times the FLOPs of the projections,
# or about 8 times if the masked half is skipped. Nothing in this lesson changes that, except for a mask that lets you
# skip tiles.

# %% further-blocked [markdown]
# ## Further: a piece in which everything is blocked
#
# Suppose that a mask blocks the first two words for "mat". Then both scores of the first piece are $-\infty$. What if
# we let the top begin at $-\infty$?

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

# %% further-empty [markdown]
# ### Where the top should begin
#
# With the lowest finite number, everything works as long as at least one key is open to the query. If *all* keys are
# blocked, the total stays 0, and 0 divided by 0 is NaN again. Code that should return 0 for such a row, as in lesson 3,
# has to divide by something else there. Dividing by 1 will do.
#
# ## Further: the backward pass
#
# Training needs gradients. Autograd can differentiate our loops, and the gradients are correct. But how much memory
# does this take? (`peak`, from the folded cell of Figure 8.3, counts the forward pass.)

# %% ask-backward
predict("08/forward-and-backward")


# %% see-backward
# %%answer 08/forward-and-backward
def peak_of_training(function, n):  # MiB, forward and backward
    leaves = [torch.randn(1, 1, n, 64, requires_grad=True) for _ in range(3)]
    with PeakMemory() as memory:
        function(*leaves).sum().backward()
    return memory.peak / MiB


trained = (plain, by_rows, tiled, tiled_attention)
both = {f.__name__: (peak(f, 1024), peak_of_training(f, 1024)) for f in trained}
pd.DataFrame(both, ["forward", "forward and backward"]).T.round(2)

# %% further-recompute [markdown]
# ### Recomputing the weights
#
# Computing the weights a second time trades work for memory, and fused kernels make the same trade. Besides the output,
# the forward pass keeps one number for each row: $\ell$, the top plus the logarithm of the total. With it, a tile of
# weights can be computed again from its scores alone, as $e^{s - \ell}$. The next cell uses this to find the gradient
# of the queries without autograd, in two tiles.
#
# Let $g_i$ be the gradient of the loss with respect to the output $o_i$ of query $i$. By the chain rule, through the
# average and then the softmax (lesson 2), the gradient with respect to a score is
#
# $$w_{ij} \, (g_i \cdot v_j - g_i \cdot o_i).$$
#
# The code calls $g$ `pull`, $\ell$ `level`, and the second dot product `shift`. That product replaces a sum over the
# whole row, so no line after `level` looks at a whole row.

# %% backward-by-tiles
torch.manual_seed(0)
q, k, v = (torch.randn(n, 16, requires_grad=True) for n in (64, 128, 128))
out, pull = plain(q, k, v), torch.randn(64, 16)
out.backward(pull)
level = (
    (q @ k.T / 4).logsumexp(dim=-1, keepdim=True).detach()
)  # kept by the forward pass
d_q = torch.zeros(64, 16)
with torch.no_grad():
    shift = (pull * out).sum(dim=-1, keepdim=True)
    for keys, values in zip(k.split(64), v.split(64), strict=True):
        tile = (q @ keys.T / 4 - level).exp()  # weights, computed again
        d_scores = tile * (pull @ values.T - shift)
        d_q += d_scores @ keys / 4
assert torch.allclose(d_q, q.grad, atol=1e-5)

# %% further-cost [markdown]
# If the weights are stored, the forward pass takes two matrix products and the backward pass four. If they are computed
# again, the backward pass takes five. So seven products replace six, and in return the memory no longer grows with
# $n^2$.
#
# ## Further: one word at a time
#
# A model that writes a text adds one query at a time. It keeps all keys and values in a store that is called the [KV
# cache](glossary.ipynb#cache) and grows with the text (it is not the cache of the processor). With [grouped
# heads](glossary.ipynb#grouped-heads), several heads of queries share one head of keys and values, which makes the KV
# cache smaller. Some models are trained with grouped heads from the start; in others, heads are merged later and the
# model is then trained a little longer.

# %% remember [markdown]
# ## What to remember
#
# - A layer has $H n^2$ attention weights. It takes $8 n d^2 + 4 n^2 d$ FLOPs, so the projections lead until $n = 2d$.
# - The weights must be computed, but they need not be stored. A row does not need the other rows. The pieces of a row
#   can be joined if the total and the output are scaled down whenever the top rises.
# - Tiles give the same numbers as the whole table, up to rounding. The memory grows with $n$, and the work still grows
#   with $n^2$.
# - Moving numbers costs time, and on a CPU, new memory can cost even more. A fused kernel never stores the table. On a
#   GPU it is fast because it moves far fewer bytes; on our CPU, mostly because it asks for no new tables.
# - Tiles that a mask blocks completely can be skipped. Under a causal mask, these are nearly half of all tiles; under a
#   window, all but a band.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (4 minutes)
#
# A layer with 16 heads reads a batch of 3 texts with 4,096 tokens each, in bfloat16, where a number takes 16 bits. If
# its attention weights are stored, how many MiB do they take?
#
# <details><summary>Hint</summary>
#
# How many tables of $n$ times $n$ weights are there? How many bytes are 16 bits?
# </details>

# %%
from attnlab.exercises import check_joined_pieces, check_mended_pieces
from attnlab.exercises import check_needed_tile, check_weight_memory


# %% tags=["exercise"]
def mib_of_weights():
    """Return a number."""


# %%
check_weight_memory(mib_of_weights)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mib_of_weights_solution():
    return 3 * 16 * 4096**2 * 2 / MiB


check_weight_memory(mib_of_weights_solution)

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# `needed_causal` says whether a tile is needed under a causal mask. Write `needed` for a causal window, under which a
# query sees itself and the `window - 1` keys before it. The tile holds the queries $i$ to $i + size - 1$ and the keys
# $j$ to $j + size - 1$, and both $i$ and $j$ are multiples of `size`.
#
# <details><summary>Hint</summary>
#
# Two things must hold. At least one key in the tile must be no later than one of its queries. And the pair that lies
# closest together, the first query and the last key, must not be too far apart.
# </details>


# %% tags=["exercise"]
def needed_causal(i, j, size):
    return j <= i


def needed(i, j, size, window):
    """Return True if some query in the tile may look at some key in it."""


# %%
check_needed_tile(needed)


# %% tags=["solution"] jupyter={"source_hidden": true}
def needed_solution(i, j, size, window):
    last_key = j + size - 1
    return j <= i and i - last_key < window


check_needed_tile(needed_solution)

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `broken` goes through the keys once, in pieces, and forgets the scores of each piece. That part is correct, but the
# function has three bugs. Write a corrected version, `mended`. The check also looks at how your function works: at no
# time may it hold all scores of a row, and it may compute each score only once.
#
# <details><summary>Hint</summary>
#
# Suppose that all scores are far below 0. Is any of them larger than the first top? What must shrink when the top
# rises? How many times should the output be divided?
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


# %% tags=["solution"] jupyter={"source_hidden": true}
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
# Two machines have each looked at some of the keys, and each is left with a state: top, total and output. Write
# `joined`, which turns the two states into the state for all the keys. Either of them may have the larger top, and this
# can differ from row to row. A machine may also have seen no key at all, in which case its state is that of
# `nothing_yet`.
#
# <details><summary>Hint</summary>
#
# In each row, the new top is the larger of the two tops. Then both states shrink, each by a factor of its own.
# </details>


# %% tags=["exercise"]
def joined(one, other):
    """Join two states (top, total, output), of shapes (L, 1), (L, 1) and (L, Ev)."""


# %%
check_joined_pieces(joined)


# %% tags=["solution"] jupyter={"source_hidden": true}
def joined_solution(one, other):
    top = torch.maximum(one[0], other[0])
    first, second = (one[0] - top).exp(), (other[0] - top).exp()
    total = one[1] * first + other[1] * second
    return top, total, one[2] * first + other[2] * second


check_joined_pieces(joined_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: "FlashAttention makes attention linear, and it is fast because it only approximates." Answer in three
# sentences.
#
# <details><summary>An answer</summary>
#
# It computes exact attention: its sums are taken in another order, so the numbers differ only by rounding. Its memory
# is linear in the length, but its FLOPs are still quadratic, and in training there are even more of them because it
# computes weights again. On a GPU, it is fast because it moves far fewer bytes between slow and fast memory.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `F.scaled_dot_product_attention` chooses a kernel according to the device, the dtype, the shapes and the mask. The
# fused ones work on blocks of the table and return no weights. `with torch.nn.attention.sdpa_kernel(...)` restricts the
# choice. With `is_causal=True`, the fused kernels can skip blocks. If you pass the same mask as a tensor, they usually
# compute every block. `torch.nn.attention.flex_attention`, when compiled, skips the blocks that a mask of your own
# leaves empty.
#
# `nn.MultiheadAttention` stores the weights by default. On a CPU, in eval mode, without gradients and with
# `batch_first=True`, self-attention with biases and an even number of heads takes a path that stores the weights even
# with `need_weights=False`. (`PeakMemory` does not see them there; `torch.profiler` does.)

# %% sources [markdown]
# ## Sources
#
# - Milakov and Gimelshein, [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867), 2018.
# - Rabe and Staats, [Self-attention Does Not Need O(n²) Memory](https://arxiv.org/abs/2112.05682), 2021.
# - Dao et al., [FlashAttention: Fast and Memory-Efficient Exact Attention with
#   IO-Awareness](https://arxiv.org/abs/2205.14135), 2022. The bytes, FLOPs and times on a GPU are those of its figure
#   2, and the sizes of the memories are those of its section 2.1.
# - Dao, [FlashAttention-2](https://arxiv.org/abs/2307.08691), 2023: as in `add_piece`, it divides the output once, at
#   the end.
# - Shazeer, [Fast Transformer Decoding](https://arxiv.org/abs/1911.02150), 2019, and Ainslie et al.,
#   [GQA](https://arxiv.org/abs/2305.13245), 2023: one head of keys and values for several heads of queries.

# %% next [markdown]
# ## Next
#
# [9 · The attention clinic](09_clinic.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.** Count, with the explorer: 12. Where the memory goes, and rows: 8. Slow and fast memory: 6. One row in
# pieces: 9. Tiles: 4. Masks and the long text: 6. Set "Further" as homework.
#
# **Where a class stalls.** *The factor:* let two students add up exponentials on paper, one with top 1 and one with top
# 2, and ask how to join their sums. *"Then it is linear":* ask what is stored and what is computed, and point to the
# level lines of figure 8.3. *"But more calls must take longer":* have the class measure `plain` and `by_rows` at 4,096
# tokens in this notebook. (With short texts, or where the system keeps freed memory for the program, both can take
# about the same time, because `plain` may reuse its tables, too. That also shows that more calls need not take longer.)
# *"What about a million tokens?":* have them put that number into the formula.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** One text has three times as many tokens as another. How many times as much memory do its stored weights take?
# **9 times as much.** *3 times as much* counts the rows only. *27 times as much* would be true if there were also three
# times as many heads.
#
# **2.** A layer with 768 features reads 200 tokens. Where are most of its FLOPs? **In the projections.** *In scores and
# averages* forgets that the square is multiplied by a smaller number. *Half and half* is true at 1,536 tokens.
#
# **3.** The top rises from 2 to 5. What happens to the total and the output? **Both are multiplied by** $e^{-3}$.
# *Multiplied by* $e^{3}$ has the sign the wrong way round. *Only the total* forgets that the output is a running sum
# too.
#
# **4.** Without a mask, what does a fused kernel save in a forward pass? **Memory, and time, because it moves fewer
# bytes and asks for less new memory.** *FLOPs:* all tiles are computed. *Nothing but memory:* making and moving the
# tables costs time, too.
#
# **5.** A text of 1,024 tokens is read with a causal window of 256 keys instead of a causal mask. Is the output the
# same? **Not from token 257 on.** *Yes, up to rounding* is true of tiles. *Yes, but faster:* it is faster because the
# model sees less.
# </details>
