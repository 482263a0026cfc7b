# %% [markdown]
# # 4 · How to read a heatmap honestly
#
# A heatmap of attention weights is a table of numbers in colours. What it seems to say depends on who asks whom, how cells
# are counted, where the colours start, and whether chance would draw the same picture.
#
# **You need** lesson 1 (scores, weights, output) and the causal mask of lesson 3 for one cell.
#
# **You will be able to** tell self-attention from cross-attention, read a cell by name, test a pattern against chance, find mixed-up
# batches, get the weights out of PyTorch's fast kernel.
#
# **Time:** 45 minutes in class, 80 alone. <!-- constants: 45, 80 -->

# %%
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from attnlab import attention_scores, attention_weights, load_table
from attnlab import scaled_dot_product_attention, trace_attention
from attnlab.display import show_figure
from attnlab.exercises import check_lonely_weights, check_recovered_weights
from attnlab.exercises import check_sequence_first, check_sharp_factor, predict
from attnlab.live import live
from attnlab.plotting import plot_attention
from torch import nn

plt.style.use("attnlab.attnlab")
torch.manual_seed(0)
torch.set_num_threads(1)
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## Who asks, who is looked at
#
# In **self-attention** queries, keys and values come from the same text. In **cross-attention** the queries come from one text,
# keys and values from another: in a translation model the words of the translation ask the words of the original.
#
# We ask a sentence three questions. Its six words have five features with names, typed in by hand; a question is a wish for one feature.

# %%
tokens, features, x = load_table("the_cat_sat_on_the_mat.csv")
wishes = {"who?": "animal", "doing what?": "action", "where?": "place"}
questions = list(wishes)
columns = [features.index(wish) for wish in wishes.values()]
question_x = 4 * torch.eye(5)[columns]
question_x.shape, x.shape  # (L, E), (S, E)

# %% tags=["predict"] jupyter={"source_hidden": true}
predict(
    "Three questions ask six words. What shape has the table of weights, and what "
    "sums to 1?",
    options=["(3, 6), each column", "(3, 6), each row", "(6, 3), each row", "(6, 6)"],
    reveal="(3, 6), each row. A row is one query, and a query shares its attention "
    "among the keys. In cross-attention the table has no reason to be square.",
)

# %% tags=["reveal"]
asked = attention_weights(attention_scores(question_x, x))  # (L, S)
assert asked.shape == (3, 6) and torch.allclose(asked.sum(dim=-1), torch.ones(3))
assert [tokens[j] for j in asked.argmax(dim=-1)] == ["cat", "sat", "mat"]
asked, asked.sum(dim=0)

# %% [markdown]
# Columns sum to anything: “cat” receives 0.856 in all, each article 0.135. There is no diagonal either: question 1 and word 1 have nothing
# to do with each other.
#
# ### Your experiment: turn it round
#
# Pick a question. Then let the words ask the questions: the scores stay, the softmax runs the other way.


# %%
def draw_cross(fig, question, asking):
    scores = attention_scores(question_x, x)
    scores = scores if asking == "questions" else scores.T
    weights, place = scores.softmax(dim=-1), questions.index(question)
    row, column = (questions, tokens) if asking == "questions" else (tokens, questions)
    ax = plot_attention(weights, ax=fig.subplots(), queries=row, keys=column)
    ax.set(title="rows ask, columns are looked at", aspect="auto")
    plt.setp(ax.get_xticklabels(), rotation=0, ha="center")
    if asking == "questions":
        ax.add_patch(plt.Rectangle((0, place), 6, 1, fill=False, ec="#c8500a", lw=4))
        best = tokens[weights[place].argmax()]
        return f"“{question}” gives most to “{best}”; its row sums to <b>1.00</b>."
    ax.add_patch(plt.Rectangle((place, 0), 1, 6, fill=False, ec="#c8500a", lw=4))
    total = weights[:, place].sum()
    says = f"Each word asks. The column “{question}” sums to <b>{total:.2f}</b>"
    return f"{says}, not to 1."


live(
    draw_cross,
    question=questions,
    asking=["questions", "words"],
    figsize=(6.5, 4),
    alt="Heatmap of weights; one question is framed, as a row or as a column.",
)

# %% [markdown] tags=["id:S3.5"]
# ## A table of random numbers
#
# Now four queries and four keys of pure noise. Nothing is trained, no word stands behind a row. We read it as if it meant
# something, and watch how far we get.

# %% tags=["id:S3.5"]
torch.manual_seed(42)
query, key, value = torch.randn(1, 4, 8), torch.randn(1, 4, 8), torch.randn(1, 4, 8)
output, weights, _ = trace_attention(query, key, value)
first = torch.tensor([0.2667, 0.2371, -0.0554, 0.1298])
assert torch.allclose(output[0, 0, :4], first, atol=1e-4)
output.shape, weights.shape

# %% [markdown] tags=["id:S3.4"]
# The leading 1 is a batch of one. A drawing function that takes the first example of a batch without a word hides the others. Ours
# refuses:

# %% tags=["raises-exception", "id:S3.4"]
plot_attention(weights)

# %% tags=["id:S3.4", "id:S3.6"]
queries, keys = [f"query {i}" for i in range(4)], [f"key {j}" for j in range(4)]
names = {"queries": queries, "keys": keys}
ax = plot_attention(weights[0], **names, colorbar=True, title="Four queries, noise")
show_figure(
    ax,
    number="4.1",
    caption="Cross-attention between random vectors. One row per query, one column per "
    "key, counted from 0; every row sums to 1.",
    alt="Weights, four by four. Largest are query 1 with key 1, 0.66, and query 2 with "
    "key 3, 0.51.",
)

# %% tags=["predict", "id:S3.7"] jupyter={"source_hidden": true}
predict(
    "A reader writes: “the square (2, 2) is the darkest, above 60 %”. Which number "
    "of Figure 4.1 stands at (2, 2)?",
    options=["0.66", "either", "0.18"],
    reveal="Either. Counted from 1 the square is 0.656, counted from 0, as the ticks "
    "and PyTorch do, it is 0.182. Write names: “query 1, key 1”.",
    # constants: 60, 1, 2, 0
)

# %% tags=["reveal", "id:S3.7"]
expected = torch.tensor(
    [
        [0.1942, 0.4102, 0.3242, 0.0714],
        [0.0408, 0.6555, 0.0864, 0.2173],
        [0.1041, 0.2057, 0.1824, 0.5078],
        [0.1926, 0.1803, 0.1955, 0.4316],
    ]
)
assert torch.allclose(weights[0], expected, atol=1e-4)
weights[0, 2, 2], weights[0, 1, 1]  # counted from 0, counted from 1

# %% [markdown] tags=["id:S3.7"]
# A way to read: pick a **row** and say "query 2 gives 0.508 to key 3". Then compare with the row's **uniform share**: with 4 keys,
# 0.25 means "no preference".
#
# ## A colour is not a number
#
# The numbers in the cells saved us. Larger tables have no room for them.

# %% tags=["predict"] jupyter={"source_hidden": true}
predict(
    "A table with four keys is drawn without numbers; the colours are fitted to "
    "it: white for its smallest weight, dark for its largest. How large is the "
    "weight in the darkest cell?",
    options=["above 0.6", "0.25 or more, that is all we know", "nearly 1"],
    reveal="0.25 or more, that is all we know. The rows sum to 1, so the largest of "
    "four weights is at least 0.25. The next cell makes a table that is dark at "
    "0.2504: nearly uniform, and as colourful as any.",
    # constants: 0.6
)

# %% tags=["reveal"]
faint = attention_weights(attention_scores(query / 1000, key))
assert 0.25 < faint.max() < 0.251 and faint.min() > 0.249
print(f"smallest {faint.min():.4f}, largest {faint.max():.4f}")

# %%
dark = weights[weights > 0.30]
assert len(dark) == 5 and 0.324 < dark.min() < 0.325 and 0.655 < dark.max() < 0.656
fig, axes = plt.subplots(1, 3, figsize=(8, 2.9), layout="constrained")
scales = {
    "fitted": (weights.min().item(), weights.max().item()),
    "0 to 1": (0, 1),
    "0.15 to 0.30": (0.15, 0.30),
}
for ax, (name, (low, high)) in zip(axes, scales.items(), strict=True):
    plot_attention(weights[0], ax=ax, annotate=False, vmin=low, vmax=high)
    ax.set_title(name)
    fig.colorbar(ax.collections[0], ax=ax, orientation="horizontal", shrink=0.8)
show_figure(
    fig,
    number="4.2",
    caption="One table, three colour scales: fitted to it, from 0 to 1, and cut off at "
    "0.30. Only the scale below each picture tells them apart.",
    alt="The same four by four weights three times. Fitted: one dark cell. Zero to "
    "one: paler. Cut off: five cells equally dark.",
)

# %% [markdown]
# On the right five cells look equal, and their weights run from 0.324 to 0.656. In the middle white means zero and colours can be compared
# between pictures.
#
# ### Your experiment: change the scale
#
# Guess a weight, then switch the numbers on. Which of the two tables is nearly uniform?


# %%
def draw_scale(fig, table, scale, numbers):
    shown = {"A": weights[0], "B": faint[0]}[table]
    low, high = (shown.min(), shown.max()) if scale == "fitted" else scales[scale]
    look = {"annotate": numbers, "vmin": float(low), "vmax": float(high)}
    plot_attention(shown, ax=fig.subplots(), **names, colorbar=numbers, **look)
    says = f"White is {low:.4f}, the darkest blue {high:.4f}."
    return says if numbers else "No numbers, no scale: what is the largest weight?"


live(
    draw_scale,
    table=["B", "A"],
    scale=list(scales),
    numbers=False,
    figsize=(5.2, 3.4),
    alt="One of two tables of weights under a chosen colour scale.",
)

# %% [markdown]
# **House rule:** 0 to 1, or one stated scale for all pictures that are compared, and a colour bar. Its price: with 100 keys
# a uniform row is 0.01, nearly white. Then draw weight times number of keys, where 1 is uniform, and say so. <!-- constants: 100, 0.01, 1 -->

# %% [markdown] tags=["id:S3.7"]
# ## Would chance draw it too?
#
# In Figure 4.1 query 2 and query 3 both look most at key 3. "So the last word holds an important clue." A fine story, about
# random numbers. We draw 2000 such tables, one per seed.


# %%
def draw_tokens(seed):
    torch.manual_seed(seed)
    return torch.randn(2, 4, 8)  # queries, keys


random_queries, random_keys = torch.stack([draw_tokens(i) for i in range(2000)], dim=1)
many = attention_weights(attention_scores(random_queries, random_keys))
winner = many.argmax(dim=-1)  # (2000, L): the key with the largest weight
assert torch.allclose(many[42], weights[0])  # Figure 4.1 has seed 42
many.shape, winner[42]

# %% tags=["predict"] jupyter={"source_hidden": true}
predict(
    "In how many of 2000 random tables do queries 2 and 3 both prefer key 3? And "
    "in how many do two or more queries agree on **some** key?",
    options=["0.1 % and 2 %", "7 % and 92 %", "7 % and 25 %", "25 % and 92 %"],
    reveal="In 137, that is 7 %, and in 92 %. The first sounds rare. But we chose the "
    "key and the rows after looking. Whatever had come, we would have found a clue.",
    # constants: 0.1, 7, 25, 2, 3
)

# %% tags=["reveal"]
both = (winner[:, 2] == 3) & (winner[:, 3] == 3)
votes = F.one_hot(winner, 4).sum(dim=1)  # (2000, S): queries that prefer a key
agree = votes.amax(dim=-1) >= 2
print(f"key 3, twice: {both.sum()} of 2000   some key: {agree.float().mean():.0%}")
assert both.sum() == 137 and 0.92 < agree.float().mean() < 0.93

# %%
diagonal = (winner == torch.arange(4)).sum(dim=-1)  # rows whose own column wins
largest = many.amax(dim=(-2, -1))
print(f"on the diagonal: {diagonal.float().mean():.2f} of 4 rows; chance: 1")
print(f"all four: {(diagonal == 4).float().mean():.1%}")
print(f"median of the largest weight: {largest.median():.3f}; ours: {largest[42]:.3f}")

# %%
fig, axes = plt.subplots(1, 3, figsize=(8, 2.9), layout="constrained")
counts = {"queries that prefer key 3": votes[:, 3], "rows on the diagonal": diagonal}
for ax, (name, count) in zip(axes, counts.items(), strict=False):
    bars = ax.bar(range(5), torch.bincount(count, minlength=5), color="#9dc3e6")
    bars[count[42]].set(facecolor="#c8500a", hatch="//")
    ax.set(xlabel=name, xticks=range(5), ylim=(0, 1000))
axes[0].set(ylabel="tables out of 2000")
axes[2].hist(largest, bins=15, color="#9dc3e6", edgecolor="white")
axes[2].axvline(largest[42], color="#c8500a", linestyle="--")
axes[2].set(xlabel="largest weight", xlim=(0.25, 1))
fig.suptitle("Our table (orange) is a table like any other", fontsize=11.5)
show_figure(
    fig,
    number="4.3",
    caption="Three properties over 2000 random tables; hatched bar and dashed line: "
    "the table of Figure 4.1. None of them is unusual.",
    alt="Three histograms. Ours has two queries on key 3, two rows on the diagonal, "
    "and a largest weight of 0.66 in the middle of the third.",
)

# %% [markdown] tags=["id:S3.7"]
# Two rows off the diagonal do not show that "the model looks around", two rows on it do not show that it minds itself. Noise
# puts 0.98 of 4 rows there, and our darkest cell is no darker than that of a middling table.
#
# ### Your experiment: draw again
#
# Move the seed and write one sentence about "the important word". How long does it last?


# %%
def draw_again(fig, seed):
    again = many[seed]
    plot_attention(again, ax=fig.subplots(), **names)
    liked = F.one_hot(again.argmax(dim=-1), 4).sum(dim=0)
    won = ", ".join(f"key {j}: {n} of 4" for j, n in enumerate(liked.tolist()) if n)
    return f"Seed {seed}. Rows won by {won}. Largest weight: <b>{again.max():.2f}</b>."


live(
    draw_again,
    seed=list(range(36, 49)),
    start={"seed": 42},
    figsize=(5, 3.4),
    alt="Weights of four random queries and keys.",
)

# %% [markdown] tags=["id:S3.8"]
# What would be evidence? A pattern named **before** looking, on many inputs, compared with a baseline: random weights, or shuffled
# words. And one that changes the output when it is taken away (lesson 10).
#
# ## One odd token
#
# Self-attention, three tokens: 0 and 2 are the same vector, 1 stands at a right angle to them. Query, key and value are the vectors themselves.

# %% tags=["id:S3.8"]
a, b = [1.0, 0, 1, 0], [0.0, 1, 0, 1]
three = torch.tensor([a, b, a])
raw = three @ three.T
raw, raw.shape

# %% tags=["predict", "id:S3.8"] jupyter={"source_hidden": true}
predict(
    "Token 1 has the raw score 2 with itself and 0 with the two others. There are "
    "4 features. How much weight does it give itself?",
    options=["nearly 1", "about 0.8", "about 0.6", "a third"],
    reveal="0.576. The score is 2 divided by the root of 4, that is 1, and "
    "$e / (e + 2) = 0.576$. The two strangers get 0.212 each, 42 % together: a "
    "score of 0 is not an attention of 0.",
    # constants: 0.8
)

# %% tags=["reveal", "id:S3.8"]
output, weights_3, _ = trace_attention(three, three, three)
assert math.isclose(weights_3[1, 1], math.e / (math.e + 2), rel_tol=1e-5)
ends = torch.tensor([0.4223, 0.1554, 0.4223])
assert torch.allclose(weights_3[[0, 2]], ends, atol=1e-4)
assert torch.allclose(output[0], torch.tensor([0.8446, 0.1554] * 2), atol=1e-4)
weights_3, 1 - weights_3[1, 1]

# %% tags=["id:S3.9"]
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.1), layout="constrained")
labels = ["0 (a)", "1 (b)", "2 (a)"]
low, high = weights_3.min().item(), weights_3.max().item()
for ax, limits in zip(axes, [(low, high), (0, 1)], strict=True):
    look = {"queries": labels, "keys": labels, "vmin": limits[0], "vmax": limits[1]}
    plot_attention(weights_3, ax=ax, colorbar=True, **look)
axes[0].set_title("fitted: b seems alone")
axes[1].set_title("0 to 1: b shares")
show_figure(
    fig,
    number="4.4",
    caption="Two equal tokens and a different one. On the left white means 0.155: the "
    "fitted scale makes the strangers look ignored.",
    alt="The same three by three weights twice. Corners 0.42, centre 0.58, the others "
    "0.16 and 0.21: nearly white on the left, pale blue on the right.",
)

# %% [markdown] tags=["id:S3.9"]
# Equal keys get equal weight from every query: 0.422 for token 0 and for its copy, against a uniform share of one third. Does distance matter? We put ten
# strangers between the copies.

# %% tags=["id:S3.9"]
far = torch.tensor([a, *[b] * 10, a])  # (12, 4)
row = trace_attention(far, far, far).weights[0]
assert math.isclose(row[0], row[11], rel_tol=1e-6)
print(f"itself {row[0]:.4f}, copy 11 tokens away {row[11]:.4f}")
print(f"the ten strangers: {row[1:11].sum():.3f}")

# %% [markdown]
# Distance plays no role here: both copies get 0.1761. A crowd does: ten strangers take 0.648 together, though none of them resembles token 0.
#
# ## Shuffle the words
#
# If distance plays no role, does order?

# %% tags=["predict"] jupyter={"source_hidden": true}
predict(
    "Self-attention without a mask on “The cat sat on the mat”, then on “the mat sat "
    "on The cat”: the same vectors in another order. For which words is the output "
    "another vector?",
    options=["for none", "for cat and mat", "for all"],
    reveal="For none. Every word asks the same words and averages the same values, so "
    "each output moves along with its word. That is **permutation equivariance**.",
)

# %% tags=["reveal"]
order = [4, 5, 2, 3, 0, 1]
before = scaled_dot_product_attention(x, x, x)
after = scaled_dot_product_attention(x[order], x[order], x[order])
assert torch.allclose(after, before[order], atol=1e-6)
[tokens[i] for i in order], (after - before[order]).abs().max() < 1e-6

# %% [markdown]
# For this layer a sentence is a bag of words: who sat on whom is lost. The usual cure is **positions**: to the vector of each word we add one that
# belongs to its place. A **causal mask** helps too: a word sees only itself and those before it, in one layer still as a bag.

# %%
torch.manual_seed(0)
position = 0.5 * torch.randn(6, 5)  # one vector per place, random as before training
placed = [
    scaled_dot_product_attention(z, z, z) for z in (x + position, x[order] + position)
]
causal = [scaled_dot_product_attention(z, z, z, is_causal=True) for z in (x, x[order])]
for name, (old, new) in {"positions": placed, "causal mask": causal}.items():
    change = (new - old[order]).norm(dim=-1)
    assert change.min() > 0.1
    print(f"{name:12}", change)  # (L,): how far the output of each word moved

# %% [markdown]
# With either, outputs no longer follow their words.
#
# ### Your experiment: no positions
#
# Shuffle, and watch one word. Then switch the positions on.


# %%
def draw_order(fig, sentence, word, positions):
    rows = {"before": [*range(6)], "after": [tokens.index(w) for w in sentence.split()]}
    outputs = {}
    for name, row in rows.items():
        z = x[row] + positions * position
        place = row.index(tokens.index(word))
        outputs[name] = scaled_dot_product_attention(z, z, z)[place]
    before, after = outputs.values()
    ax, at = fig.subplots(), torch.arange(5)
    ax.bar(at - 0.2, before, width=0.38, color="#0b61a4", label="before")
    ax.bar(at + 0.2, after, width=0.38, color="#e8a06a", hatch="//", label="after")
    ax.set(ylim=(-0.8, 1.6), ylabel=f"output of “{word}”", title=f"after: “{sentence}”")
    ax.set_xticks(range(5), features)
    ax.axhline(0, color="#8a8f98", linewidth=1)
    ax.legend(ncols=2, loc="upper right")
    moves = f"the output of “{word}” moves by <b>{(after - before).norm():.3f}</b>"
    return f"Positions {'on' if positions else 'off'}: {moves}."


# %%
live(
    draw_order,
    sentence=[
        "the mat sat on The cat",
        "mat the on sat cat The",
        "cat The sat on the mat",
    ],
    word=["cat", "sat", "mat"],
    positions=False,
    alt="Bars: the output of one word, feature by feature, before and after a shuffle.",
)

# %% [markdown] tags=["id:M12"]
# ## Which axis was the batch?
#
# Two sentences, five words each: shape $(N, L, E) = (2, 5, 8)$. They go through `nn.MultiheadAttention` as it comes, with its default settings.

# %% tags=["predict", "id:M12"] jupyter={"source_hidden": true}
predict(
    "We change sentence 0 only. How many of the five output words of sentence 1 move?",
    options=["none", "one", "all five"],
    reveal="All five. By default the layer reads (L, N, E). It sees five sentences of "
    "two words and lets word t of one sentence look at word t of the other. The "
    "output keeps its shape, so nothing complains.",
)

# %% tags=["reveal", "id:M12"]
torch.manual_seed(0)
N, L, E = 2, 5, 8
batch = torch.randn(N, L, E)
changed = batch.clone()
changed[0] += torch.randn(L, E)
layer = nn.MultiheadAttention(E, num_heads=2).eval()  # batch_first=False
output, crossed = layer(batch, batch, batch)
moved = (layer(changed, changed, changed)[0] - output).abs().amax(dim=-1) > 1e-6
assert moved.all() and output.shape == batch.shape
output.shape, crossed.shape, moved

# %% [markdown] tags=["id:M12"]
# The weights betray it: $(5, 2, 2)$ instead of $(2, 5, 5)$. Where $N = L$ even they do not. The test with the changed sentence works
# for all sizes. The repair is one argument; the parameters stay as they are.

# %% tags=["id:M12"]
mended = nn.MultiheadAttention(E, num_heads=2, batch_first=True).eval()
mended.load_state_dict(layer.state_dict())
output, straight = mended(batch, batch, batch)
moved = (mended(changed, changed, changed)[0] - output).abs().amax(dim=-1) > 1e-6
assert moved[0].all() and not moved[1].any()
straight.shape, moved

# %% [markdown] tags=["id:M13"]
# ## Are these the weights that were used?
#
# **Dropout** strikes out weights at random during training: each with the given probability. Those that stay grow to make up for it. At 0.5 they double.

# %% tags=["predict", "id:M13"] jupyter={"source_hidden": true}
predict(
    "The same layer with dropout 0.5, in training mode, hands back its weights. "
    "What does a row sum to?",
    options=["1", "it varies", "0.5"],
    reveal="It varies, anywhere from 0 to 2. The average over many passes is 1. "
    "The layer returns the weights **after** dropout. A picture of them shows holes "
    "that are gone in the next pass.",
)

# %% tags=["reveal", "id:M13"]
dropping = nn.MultiheadAttention(E, num_heads=2, dropout=0.5, batch_first=True)
dropping.load_state_dict(layer.state_dict())
torch.manual_seed(0)
each = {"need_weights": True, "average_attn_weights": False}
passes = [dropping(batch, batch, batch, **each)[1] for _ in range(500)]
sums = torch.cat(passes).sum(dim=-1)
assert 0 <= sums.min() < 0.1 and 1.9 < sums.max() < 2.001
print(f"row sums from {sums.min():.2f} to {sums.max():.2f}, mean {sums.mean():.2f}")
sums[0].detach()  # the first pass, sentence 0: (H, L)

# %% tags=["id:M13"]
calm = dropping.eval()(batch, batch, batch, **each)[1]  # (N, H, L, S)
traced = trace_attention(three, three, three, dropout_p=0.5).weights
assert torch.equal(traced, weights_3)  # attnlab: the weights before dropout
calm.shape, calm.sum(dim=-1)[0].detach()

# %% [markdown] tags=["id:M13"]
# Draw in `eval()` mode: the rows sum to 1 again.
#
# ### Weights from a kernel that returns none
#
# PyTorch's fast `F.scaled_dot_product_attention` returns the output only. Often it never stores the table of weights (lesson 8). We
# choose the values, though.

# %% tags=["predict", "id:M13"] jupyter={"source_hidden": true}
predict(
    "Output = weights times values. Which values make the output **be** the weights?",
    options=["all ones", "the identity matrix", "the keys"],
    reveal="The identity, with one row and one column per key: any matrix times it is "
    "itself. Ones would give the row sums, 1 everywhere.",
)

# %% tags=["reveal", "id:M13"]
recovered = F.scaled_dot_product_attention(query, key, torch.eye(4)[None])
assert torch.allclose(recovered, weights, atol=1e-6)
ones = F.scaled_dot_product_attention(query, key, torch.ones(1, 4, 1))
assert torch.allclose(ones, torch.ones(1, 4, 1))
recovered

# %% [markdown] tags=["id:M13"]
# The table of Figure 4.1, out of the fast kernel. It works with batches, heads and masks too, and costs a value matrix as wide as there are keys:
# a probe for looking, not for training.

# %% tags=["id:M13"]
torch.manual_seed(0)
q, k = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8)  # N, H, L or S, E
identity = torch.eye(7).expand(2, 3, 7, 7)
recovered = F.scaled_dot_product_attention(q, k, identity, is_causal=True)
assert torch.allclose(
    recovered, trace_attention(q, k, k, is_causal=True).weights, atol=1e-6
)
recovered.shape

# %% [markdown] tags=["id:S3.25"]
# ## Further: patterns and what else makes them
#
# | pattern | the tempting story | what else makes it |
# |---|---|---|
# | diagonal | each word minds itself | query = key, without projections |
# | bank looks at river and money | meaning | chance, among many pairs |
# | equal words share weight | the model spots repetition | equal keys always do |
# | one dark column | an important word | a long key; nothing worth reading |

# %% tags=["predict", "id:S3.25"] jupyter={"source_hidden": true}
predict(
    "Ten random tokens with 64 features. In how many rows is the diagonal the "
    "largest: with query = key = x, and with random matrices $W_Q$ and $W_K$ in "
    "between?",
    options=["10 % and 10 %", "all and 10 %", "all and all"],
    reveal="All, and 10 %. A vector's product with itself is its squared length, "
    "about 64; with others it spreads around 0 by about 8. Random matrices remove "
    "this tie, and what is left is chance, one in ten.",
)

# %% tags=["reveal", "id:S3.25"]
torch.manual_seed(0)
many_x = torch.randn(500, 10, 64)
W_Q, W_K = torch.randn(2, 500, 64, 64) / 8
plain = many_x @ many_x.mT  # (500, 10, 10)
projected = (many_x @ W_Q) @ (many_x @ W_K).mT
own = [
    (s.argmax(dim=-1) == torch.arange(10)).float().mean() for s in (plain, projected)
]
assert own[0] == 1 and abs(own[1] - 0.1) < 0.02
print(f"x with itself: {own[0]:.0%}   random W_Q, W_K: {own[1]:.0%}")
off = plain[:, ~torch.eye(10, dtype=torch.bool)]
squares = plain.diagonal(dim1=1, dim2=2)
print(f"with itself {squares.mean():.0f}, with others 0 ± {off.std():.0f}")

# %% [markdown] tags=["id:S3.25"]
# So a diagonal is no law of attention. Trained matrices may make one, or the opposite. Now the tempting link, with random vectors
# and random matrices:

# %% tags=["id:S3.25"]
words = "the bank near the river gave me money".split()
torch.manual_seed(0)
text = torch.randn(2000, 8, 64)
text[:, 3] = text[:, 0]  # both articles are the same vector
W_Q, W_K = torch.randn(2, 2000, 64, 16) / 8
scores = attention_scores(text @ W_Q, text @ W_K)
bank = scores[:, words.index("bank")].argmax(dim=-1)
hit = (bank == words.index("river")) | (bank == words.index("money"))
assert abs(hit.float().mean() - 2 / 7) < 0.03
print(f"bank looks most at river or money: {hit.float().mean():.0%} of 2000 draws")

# %% [markdown]
# Two of the seven different words are a hit: chance is 2 in 7, and about that is what untrained layers give. Lesson 5 asks when such a
# link is real. <!-- constants: 2, 7 -->
#
# The dark column deserves its own cell: a weight says how much of a value is taken, not how much there is to take.

# %%
row = torch.tensor([0.90, 0.05, 0.05])
length = torch.tensor([0.01, 2.0, 2.0])  # of the three value vectors
row, (row * length / (row * length).sum()).round(decimals=2)

# %% [markdown]
# Key 0 takes 0.90 of the weight and brings 0.04 of what is added up. Trained models do park attention like this, on a first token or a
# separator. Weight times length of the value is a fairer picture, and not yet the whole truth.

# %% [markdown]
# A last trap: `nn.MultiheadAttention` hands back the **mean over its heads** unless told otherwise. That is a table that no head has used. Here
# key 1 leads, and it is neither head's choice:

# %%
two_heads = torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]])
assert two_heads.mean(dim=0).argmax() not in two_heads.argmax(dim=-1)
two_heads.mean(dim=0)

# %% [markdown]
# ## What to remember
#
# - Rows ask, columns are looked at. Rows sum to 1, columns to anything; name cells by query and key, counted from 0.
# - Same numbers, other scale, other story. Use 0 to 1 or show the scale; compare with the uniform share.
# - Redraw before you explain: in nine of ten random tables some key won twice.
# - Without positions or a causal mask, outputs follow their words. Order is invisible.
# - Change one example: does another move? Draw in `eval()`. `value = identity` shows the weights of any kernel.

# %% [markdown]
# ## Exercises
#
# Write your answer into the cell below a task, run it and the check after it. Click the dots to open a solution.
#
# ### 1 · Predict ★ (4 minutes) <!-- constants: 1, 4 -->
#
# Four tokens: a, b, a, a, with the vectors of "One odd token". Which four weights does token b give? `math.exp` is allowed, softmax is not.
#
# <details><summary>Hint</summary>Which score has b with itself after the division, and which with each a? What is e to each of them?</details>


# %% tags=["exercise"]
def lonely_weights():
    """Return four weights as a list, for the keys a, b, a, a."""


# %%
check_lonely_weights(lonely_weights)


# %% tags=["solution"] jupyter={"source_hidden": true}
def lonely_weights_solution():
    total = math.e + 3  # e to the 1 for itself, e to the 0 for each a
    return [1 / total, math.e / total, 1 / total, 1 / total]


check_lonely_weights(lonely_weights_solution)

# %% [markdown]
# ### 2 · Modify ★★ (8 minutes) <!-- constants: 2, 8, 0.99, 0.05, 0.576 -->
#
# In `three`, token b keeps 0.576. Multiply **all features** by one number. From which number on does b give itself 0.99 or more? Within
# 0.05 is enough.
#
# <details><summary>Hint</summary>Both query and key grow. If the features grow by c, by how much does their product? Or try some numbers.</details>


# %% tags=["exercise"]
def sharp_factor():
    """Return the number."""


# %%
check_sharp_factor(sharp_factor)


# %% tags=["solution"] jupyter={"source_hidden": true}
def sharp_factor_solution():
    # score c * c: e^(c*c) / (e^(c*c) + 2) = 0.99, so e^(c*c) = 198
    return math.sqrt(math.log(198))


check_sharp_factor(sharp_factor_solution)

# %% [markdown]
# ### 3 · Implement ★★ (8 minutes) <!-- constants: 3, 8 -->
#
# `attention(query, key, value)` is some function that returns the output only; it may mask or scale as it likes. Write a function that returns its
# weights, for any batch and any number of keys.
#
# <details><summary>Hint</summary>The identity needs as many rows as there are keys: <code>key.shape[-2]</code>. Its leading dimensions are those
# of the key.</details>


# %% tags=["exercise"]
def recovered_weights(attention, query, key):
    """query (..., L, E), key (..., S, E) -> weights (..., L, S)."""


# %%
check_recovered_weights(recovered_weights)


# %% tags=["solution"] jupyter={"source_hidden": true}
def recovered_weights_solution(attention, query, key):
    S = key.shape[-2]
    identity = torch.eye(S, dtype=key.dtype, device=key.device)
    return attention(query, key, identity.expand(*key.shape[:-2], S, S))


check_recovered_weights(recovered_weights_solution)

# %% [markdown]
# ### 4 · Repair ★★★ (10 minutes) <!-- constants: 4, 10 -->
#
# You are given a trained `nn.MultiheadAttention` with `batch_first=False` and may not rebuild it. `broken` mixes the sentences of `x` (N, L, E).
# Write `mended_call` without the bug.
#
# <details><summary>Hint</summary>The layer wants (L, N, E). <code>transpose</code> exchanges two axes, <code>reshape</code> does not. The output
# comes back in the layer's order; do the weights?</details>


# %% tags=["exercise"]
def broken(layer, x):
    return layer(x, x, x)


def mended_call(layer, x):
    """x (N, L, E) -> output (N, L, E), weights (N, L, L), mean over heads."""


# %%
check_sequence_first(mended_call)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_call_solution(layer, x):
    turned = x.transpose(0, 1)  # (L, N, E)
    output, weights = layer(turned, turned, turned)
    return output.transpose(0, 1), weights  # the weights are (N, L, L) already


check_sequence_first(mended_call_solution)

# %% [markdown]
# ### 5 · Explain ★ (5 minutes) <!-- constants: 5, 3, 60 -->
#
# A blog shows one sentence and writes: "In head 3 the full stop gets 60 % of the attention, so punctuation matters to the model." Name three
# questions you would ask. Then compare.
#
# <details><summary>An answer</summary>Does an untrained layer, or another sentence, draw it too? Is the value of the full stop large or next to nothing: does the
# output change without it? Was the head chosen after looking at all of them? And: which colour scale, which row, in `eval()` mode?</details>

# %% [markdown]
# ## In torch
#
# `nn.MultiheadAttention(..., batch_first=True)` returns `(output, weights)`; the weights are the mean over heads unless
# `average_attn_weights=False`, and after dropout. `nn.TransformerEncoderLayer` has `batch_first=False` as its default too.
# `F.scaled_dot_product_attention` returns no weights and **always** applies the `dropout_p` it is given: pass 0.0 outside of training.
# `seaborn.heatmap` fits its colours unless `vmin` and `vmax` are given. To keep a picture: `ax.figure.savefig("weights.png")`.

# %% [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, sections 3.2.3 and 3.5: three uses of attention; positions.
# - Jain and Wallace, [Attention is not Explanation](https://arxiv.org/abs/1902.10186), 2019; Wiegreffe and Pinter, [Attention is not not Explanation](https://arxiv.org/abs/1908.04626), 2019.
# - Kobayashi et al., [Attention is Not Only a Weight](https://arxiv.org/abs/2004.10102), 2020: weight times value.
# - Clark et al., [What Does BERT Look At?](https://arxiv.org/abs/1906.04341), 2019, section 3.2: attention parked on separators.
# - [PyTorch issue 42929](https://github.com/pytorch/pytorch/issues/42929): weights that do not sum to 1.
#
# <!-- constants: 2017, 2019, 2020, 3.2.3, 3.5, 3.2, 1, 42929 -->
#
# ## Next
#
# [5 · What does "bank" mean here?](05_bank.ipynb)

# %% [markdown]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# Cross-attention 6 minutes, counting and colours 9, chance 10, the odd token 6, shuffling 6, batch axis and dropout 8. Patterns and the identity
# can be read at home. <!-- constants: 45, 6, 9, 10, 8, 2000, 42 -->
#
# Stalls: "dark is important". Hide the numbers, let the class bet on a weight, then show them. In the chance section have every row of
# the room take its own seed and defend its "important word" for a minute. Equivariance: six students hold a vector each and change seats.
# </details>

# %% [markdown]
# <details><summary>For teachers: questions 1 to 3, and why a wrong choice tempts</summary>
#
# **1.** Four questions ask nine words. What sums to 1? **Each of four rows.** *Each column*: reads the table from the key's side. *The whole table*: takes it for
# one distribution.
#
# **2.** The darkest cell, colours fitted, eight keys. Its weight is at least? **1/8.** *0.6*: takes dark for large. *0*: forgets that rows sum to 1.
#
# **3.** We shuffle the words, no positions, no mask. The output of "cat"? **Stays.** *Changes*: thinks of its place, not its content. *Becomes that of the word now in its place*:
# confuses place and word.
# <!-- constants: 1 2 3 8 0.6 0 -->
# </details>

# %% [markdown]
# <details><summary>For teachers: questions 4 and 5</summary>
#
# **4.** Weights come back as (5, 2, 2) for a batch of two five-word sentences. Then? **The batch axis was taken for the words.** *Two heads*: heads stand in second
# place, and by default they are averaged. *All fine*: looks at the output's shape only.
#
# **5.** `F.scaled_dot_product_attention` with `value` = ones returns? **Ones.** *The weights*: that is the identity. *Row maxima*: an average is no maximum.
# <!-- constants: 4 5 2 -->
# </details>
