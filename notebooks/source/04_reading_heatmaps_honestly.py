# %% 4-self-attention-cross-attention-and-how-to-read-a-h [markdown]
# # 4 · Self-attention, cross-attention, and how to read a heatmap honestly
#
# A heatmap of attention weights is a table of numbers in colours. What it seems to say depends on who asks whom, how cells
# are counted, where the colours start, and whether chance would draw the same picture.
#
# **You need** lesson 1 (scores, weights, output) and the causal mask of lesson 3 for one cell.
#
# **You will be able to** tell self-attention from cross-attention, read a cell by name, test a pattern against chance, find mixed-up
# batches, get weights out of a function that returns none.
#
# **Time:** 45 minutes in class, 80 alone.

# %%
import io
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from attnlab import attention_scores, attention_weights, load_table
from attnlab import scaled_dot_product_attention, trace_attention
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import check_lonely_weights, check_recovered_weights
from attnlab.exercises import check_sequence_first, check_sharp_factor, predict
from attnlab.explorers import CrossExplorer, OrderExplorer
from attnlab.live import live
from attnlab.plotting import plot_attention
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

lesson_setup()

# %% [markdown]
# ## Who asks, who is looked at
#
# In self-attention (lesson 1) queries, keys and values come from one text. In [**cross-attention**](glossary.ipynb#cross-attention) keys and
# values come from one text, queries from another: in a translation model the words of the translation ask those of the original.
#
# We ask a sentence three questions. Its six words have five features with names, typed in by hand. A question wishes for one
# feature; the 4 makes the wish strong.

# %%
tokens, features, x = load_table("the_cat_sat_on_the_mat.csv")
wishes = {"who?": "animal", "doing what?": "action", "where?": "place"}
questions = list(wishes)
columns = [features.index(wish) for wish in wishes.values()]
question_x = 4 * torch.eye(5)[columns]
print(features, question_x.shape, x.shape)  # (L, E), (S, E)
x  # a row per word: The, cat, sat, on, the, mat

# %%
predict("04/shape-table-weights-sums-1")

# %% shape-table-weights-sums-1-answer
# %%answer 04/shape-table-weights-sums-1
asked = attention_weights(attention_scores(question_x, x))  # (L, S)
assert asked.shape == (3, 6) and torch.allclose(asked.sum(dim=-1), torch.ones(3))
assert [tokens[j] for j in asked.argmax(dim=-1)] == ["cat", "sat", "mat"]
assert math.isclose(asked.sum(), 3, rel_tol=1e-5)
answered = scaled_dot_product_attention(question_x, x, x)
print(answered.shape)  # (3, 5): one output per question, as wide as the values
asked, asked.sum(dim=0)

# %% [markdown]
# Each column sums to something between 0 and 3, all together to 3: “cat” receives 0.856. “who?” gives 0.189 to “sat”, which has 0.9 of
# “animal”. No diagonal is built in: “who?” and “The” are both first, no more. Translation often learns one.
#
# Now we turn it round: the words ask. Queries and keys are the vectors themselves, so the score of a pair stays (with the matrices of lesson 6
# it need not); the softmax runs the other way.

# %%
predict("04/much-cat-give")

# %%
# %%answer 04/much-cat-give
turned = attention_weights(attention_scores(x, question_x))  # (S, L): words ask
assert torch.equal(turned, CrossExplorer(asking="words").result.weights)
even = (turned - 1 / 3).abs().amax(dim=-1) < 1e-6  # for the explorer
assert torch.equal(even, (x[:, columns] == 0).all(dim=-1)) and even[[0, 4]].all()
assert even.sum() == 2 and ((asked - 1 / 6).abs().amax(dim=-1) > 0.2).all()
asked[0, 1], turned[1, 0]  # “who?” and “cat”

# %% [markdown]
# ### Your experiment: turn it round
#
# Let the questions ask, then the words. Which queries look at all keys alike, and why?
#
# <details><summary>Answer</summary>“The” and “the”: they share no feature with any question, so all their scores are 0. No question does: each
# finds its feature in some word.</details>

# %%
CrossExplorer(ask=False)

# %% a-table-of-random-numbers [markdown]
# ## A table of random numbers
#
# Now four queries and four keys of pure noise. Nothing is trained, no word stands behind a row. Queries and keys are drawn separately, so
# this is cross-attention. We read the table as if it meant something.

# %% a-table-of-random-numbers-2
torch.manual_seed(42)
query, key, value = torch.randn(1, 4, 8), torch.randn(1, 4, 8), torch.randn(1, 4, 8)
output, weights, _ = trace_attention(query, key, value)
first = torch.tensor([0.2667, 0.2371, -0.0554, 0.1298])
assert torch.allclose(output[0, 0, :4], first, atol=1e-4)
output.shape, weights.shape

# %% a-table-of-random-numbers-3 tags=["raises-exception"]
plot_attention(weights)

# %% a-table-of-random-numbers-4 [markdown]
# The weights come as a batch of one example. A drawing function that takes the first example silently hides the others; ours
# refuses. So we pick the example, and save the picture.

# %% a-table-of-random-numbers-5
queries, keys = [f"query {i}" for i in range(4)], [f"key {j}" for j in range(4)]
names = {"queries": queries, "keys": keys}
ax = plot_attention(weights[0], **names, colorbar=True, title="Four queries, noise")
ax.figure.savefig(saved := io.BytesIO(), dpi=100)  # or savefig("weights.png")
assert saved.tell() > 5000  # bytes: it is not empty
show_figure(ax, "4.1")

# %% square-reader-mean-stands-2
predict("04/square-reader-mean-stands-2")

# %% square-reader-mean-stands-2-answer
# %%answer 04/square-reader-mean-stands-2
expected = torch.tensor(
    [
        [0.1942, 0.4102, 0.3242, 0.0714],
        [0.0408, 0.6555, 0.0864, 0.2173],
        [0.1041, 0.2057, 0.1824, 0.5078],
        [0.1926, 0.1803, 0.1955, 0.4316],
    ]
)
assert torch.allclose(weights[0], expected, atol=1e-4)
print("(2, 3) from 1 and from 0:", weights[0, 1, 2], weights[0, 2, 3])
print("(2, 2) from 1 and from 0:", weights[0, 1, 1], weights[0, 2, 2])

# %% a-colour-is-not-a-number [markdown]
# A way to read: pick a **row** and say "query 2 gives 0.508 to key 3". Then compare with the row's
# [**uniform share**](glossary.ipynb#uniform-attention): with 4 keys, 0.25 means "no preference".
#
# ## A colour is not a number
#
# The numbers in the cells saved us. Larger tables have no room for them.

# %% large-weight-darkest-cell
predict("04/large-weight-darkest-cell")

# %% large-weight-darkest-cell-answer
# %%answer 04/large-weight-darkest-cell
faint = attention_weights(attention_scores(query / 1000, key))
assert 0.25 < faint.max() < 0.251 and faint.min() > 0.249
print(f"smallest {faint.min():.4f}, largest {faint.max():.4f}")


# %% a-colour-is-not-a-number-2
def add_scale(ax, beyond="neither"):
    low, high = ax.collections[0].get_clim()
    bar = ax.figure.colorbar(ax.collections[0], ax=ax, extend=beyond, shrink=0.9)
    bar.set_ticks([low, high], labels=[f"{round(end, 4):g}" for end in (low, high)])


dark = weights[weights > 0.30]
assert len(dark) == 5 and 0.324 < dark.min() < 0.325 and 0.655 < dark.max() < 0.656
scales = {"fitted": None, "0 to 1": (0, 1), "0.15 to 0.30": (0.15, 0.30)}
fig, axes = plt.subplots(1, 3, figsize=(8, 2.5), layout="constrained")
for ax, (name, ends) in zip(axes, scales.items(), strict=True):
    low, high = ends or (weights.min().item(), weights.max().item())
    plot_attention(weights[0], ax=ax, annotate=False, vmin=low, vmax=high)
    ax.set(title=name, xlabel="key", ylabel="query")
    add_scale(ax, "both" if low == 0.15 else "neither")
show_figure(fig, "4.2")

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
    low, high = scales[scale] or (shown.min().item(), shown.max().item())
    look = {"annotate": numbers, "vmin": low, "vmax": high}
    ax = plot_attention(shown, ax=fig.subplots(), **names, **look)
    cut = scale == "0.15 to 0.30"
    if numbers:
        add_scale(ax, "both" if cut else "neither")
    elif scale == "fitted":
        return "White is the smallest weight, dark the largest. How large is it?"
    less, more = (" or less", " or more") if cut else ("", "")
    return f"White is {round(low, 4):g}{less}, dark {round(high, 4):g}{more}."


live(
    draw_scale,
    table=["B", "A"],
    scale=list(scales),
    numbers=False,
    figsize=(5.2, 3.2),
    alt="One of two tables of weights under a chosen colour scale.",
)

# %% would-chance-draw-it-too [markdown]
# **House rule:** 0 to 1, or one stated scale for all pictures, and a colour bar. Its price: with 100 keys
# a uniform row is 0.01, nearly white. Then draw weight times the number of keys a row may see: 1 is uniform.
#
# ## Would chance draw it too?
#
# In Figure 4.1 queries 2 and 3 both look most at key 3. "So the last word holds a clue." A fine story, about
# random numbers. We draw 2000 such tables.


# %%
def draw_tokens(seed):
    torch.manual_seed(seed)
    return torch.randn(2, 4, 8)  # queries, keys


random_queries, random_keys = torch.stack([draw_tokens(i) for i in range(2000)], dim=1)
many = attention_weights(attention_scores(random_queries, random_keys))
winner = many.argmax(dim=-1)  # (2000, L): the key with the largest weight
assert torch.allclose(many[42], weights[0])  # Figure 4.1 has seed 42
many.shape, winner[42]

# %% many-two-more-queries-agree
predict("04/many-two-more-queries-agree")

# %% many-two-more-queries-agree-answer
# %%answer 04/many-two-more-queries-agree
both = (winner[:, 2] == 3) & (winner[:, 3] == 3)
votes = F.one_hot(winner, 4).sum(dim=1)  # (2000, S): queries that prefer a key
agree = votes.amax(dim=-1) >= 2
print(f"key 3, twice: {both.sum()} of 2000   some key: {agree.float().mean():.0%}")
print(f"by dice: {1 / 4 * 1 / 4:.0%}   all four differ: {math.perm(4, 4) / 4**4:.0%}")
assert both.sum() == 137 and 0.90 < agree.float().mean() < 0.935
assert (math.perm(4, 4), 4**4) == (24, 256)

diagonal = (winner == torch.arange(4)).sum(dim=-1)  # rows whose own column wins
largest = many.amax(dim=(-2, -1))
assert abs(diagonal.float().mean() - 1) < 0.1  # of 4 rows; chance: 1
assert abs(largest.median() - largest[42]) < 0.02
print(f"on the diagonal: {diagonal.float().mean():.2f} of 4 rows; ours: {diagonal[42]}")
print(f"median of the largest weight: {largest.median():.3f}; ours: {largest[42]:.3f}")

# %%
fig, axes = plt.subplots(1, 3, figsize=(8, 2.9), layout="constrained")
most = votes.amax(dim=-1)
counts = {"most votes for any key": most, "rows on the diagonal": diagonal}
for ax, (name, count) in zip(axes, counts.items(), strict=False):
    bars = ax.bar(range(5), torch.bincount(count, minlength=5), color="#9dc3e6")
    bars[count[42]].set(facecolor="#c8500a", hatch="//")
    ax.set(xlabel=name, xticks=range(5), ylim=(0, 1500))
axes[0].set(ylabel="tables out of 2000", xlim=(0.4, 4.6))
axes[2].hist(largest, bins=15, color="#9dc3e6", edgecolor="white")
axes[2].axvline(largest[42], color="#c8500a", linestyle="--")
axes[2].set(xlabel="largest weight", xlim=(0.25, 1), ylabel="tables per bar")
fig.suptitle("Our table (orange) is a table like any other", fontsize=11.5)
show_figure(fig, "4.3")

# %% your-experiment-draw-again [markdown]
# Somebody who takes the table for self-attention might read: two rows on the diagonal, so "the model minds itself". But noise
# puts one of four there on average. Our darkest cell is about as dark as that of a middling table.
#
# ### Your experiment: draw again
#
# Move the seed and write one sentence about "the important word". How long does it last?


# %%
def draw_again(fig, seed):
    again = many[seed]
    plot_attention(again, ax=fig.subplots(), **names, colorbar=True)
    liked = F.one_hot(again.argmax(dim=-1), 4).sum(dim=0)
    won = ", ".join(f"key {j}: {n} of 4" for j, n in enumerate(liked.tolist()) if n)
    return f"Seed {seed}. Rows won by {won}. Largest weight: <b>{again.max():.2f}</b>."


live(
    draw_again,
    seed=list(range(36, 49)),
    start={"seed": 42},
    figsize=(5.2, 3.2),
    alt="Weights of four random queries and keys.",
)

# %% [markdown]
# What would be evidence? A pattern named **before** looking, on many inputs, compared with a **baseline**: an untrained layer, or other
# words in the same places. And one that changes the output when it is taken away (lesson 10).
#
# Our questions had answers before we looked: cat, sat, mat. How often do these come with random words?

# %%
torch.manual_seed(0)
random_words = torch.randn(2000, 6, 5)  # 2000 sentences, six words
found = attention_scores(question_x, random_words).argmax(dim=-1)  # (2000, L)
answers = torch.tensor([tokens.index(word) for word in ("cat", "sat", "mat")])
hits = (found == answers).sum(dim=-1)
assert (hits == 3).sum() < 30
print(f"right answers: {hits.float().mean():.2f} of 3")
print(f"all three: {(hits == 3).sum()} of 2000; chance: one in {6**3}")

# %% [markdown]
# Chance finds all three once in 216 times, our sentence does. No wonder: we typed the features in. This shows how to compare with a
# baseline, not that anything was learned; and it is one sentence.
#
# ### A dark cell may carry little
#
# A weight says how much of a value is taken, not how much there is to take. Three weights, and how long their values are, typed in:

# %%
row = torch.tensor([0.90, 0.05, 0.05])
length = torch.tensor([0.01, 2.0, 2.0])  # of the three value vectors
row, (row * length / (row * length).sum()).round(decimals=2)

# %% one-odd-token [markdown]
# Key 0 takes 0.90 of the weight and brings 0.04 of the summed lengths. BERT, a trained model, parks attention like this on
# the separators between sentences. Weight times length is fairer, but two long values in opposite directions cancel.
#
# ## One odd token
#
# Self-attention, three tokens: 0 and 2 are the same vector, 1 stands at a right angle to them. Query, key and value are the vectors themselves.

# %% one-odd-token-2
a, b = [1.0, 0, 1, 0], [0.0, 1, 0, 1]
three = torch.tensor([a, b, a])
raw = three @ three.T
raw, three.shape  # (L, E)

# %% much-weight-give-itself
predict("04/much-weight-give-itself")

# %% much-weight-give-itself-answer
# %%answer 04/much-weight-give-itself
output, weights_3, _ = trace_attention(three, three, three)
assert math.isclose(weights_3[1, 1], math.e / (math.e + 2), rel_tol=1e-5)
ends = torch.tensor([0.4223, 0.1554, 0.4223])
assert torch.allclose(weights_3[[0, 2]], ends, atol=1e-4)
assert torch.allclose(output[0], torch.tensor([0.8446, 0.1554] * 2), atol=1e-4)
weights_3, 1 - weights_3[1, 1]

# %% one-odd-token-3
fig, axes = plt.subplots(1, 2, figsize=(7, 2.9), layout="constrained")
labels = ["0 (a)", "1 (b)", "2 (a)"]
titles = ["fitted: the a's seem to ignore b", "0 to 1: they give it 0.16"]
limits = [(weights_3.min().item(), weights_3.max().item()), (0, 1)]
for ax, title, (low, high) in zip(axes, titles, limits, strict=True):
    look = {"queries": labels, "keys": labels, "annotate": False}
    plot_attention(weights_3, ax=ax, title=title, vmin=low, vmax=high, **look)
    add_scale(ax)
show_figure(fig, "4.4")

# %% one-odd-token-4 [markdown]
# Other weights give the same output: tokens 0 and 2 have equal values, so weight can move between them. In trained models too, very
# different weights can lead to nearly the same answer (Jain and Wallace, Sources).

# %% one-odd-token-5
others = torch.tensor([[2, 1, 0], [0, 1, 2]]) * weights_3[0]
assert torch.allclose(others @ three, output[[0, 0]])
others, others @ three, output[0]

# %% one-odd-token-6
far = torch.tensor([a, *[b] * 10, a])  # (12, 4): ten strangers between the copies
row = trace_attention(far, far, far).weights[0]
assert math.isclose(row[0], row[11], rel_tol=1e-6)
print(f"itself {row[0]:.4f}, copy 11 tokens away {row[11]:.4f}")
print(f"the ten strangers: {row[1:11].sum():.3f}")

# %% shuffle-the-words [markdown]
# Distance plays no role: both copies get 0.1761. Without a mask equal keys get equal weight from every query. A crowd does play one: ten
# strangers take 0.648 together, though none of them resembles token 0.
#
# ## Shuffle the words
#
# If distance plays no role, does order?

# %%
predict("04/words-output-another-vector")

# %% words-output-another-vector-answer
# %%answer 04/words-output-another-vector
before = scaled_dot_product_attention(x, x, x)
for order in ([1, 2, 0, 4, 5, 3], [4, 5, 2, 3, 0, 1]):
    after = scaled_dot_product_attention(x[order], x[order], x[order])
    assert torch.allclose(after, before[order], atol=1e-6)
    print(*[tokens[i] for i in order], "· equal:", torch.allclose(after, before[order]))

# %% shuffle-the-words-2 [markdown]
# This is [**permutation equivariance**](glossary.ipynb#permutation-equivariance): for this layer a sentence is a bag of words, and who sat on whom is lost.
#
# One cure, the one in the paper of 2017 (Sources), is [**positions**](glossary.ipynb#position): to the vector of each word we add one that belongs to
# its place. A causal mask helps too: which words come before a word depends on its place. In one layer these are still unordered.

# %%
predict("04/many-six-outputs-other-vectors")

# %%
# %%answer 04/many-six-outputs-other-vectors
torch.manual_seed(0)
position = 0.5 * torch.randn(6, 5)  # one vector per place, random as before training


def attend(z, is_causal=False):
    return scaled_dot_product_attention(z, z, z, is_causal=is_causal)


for swap in ([4, 5, 2, 3, 0, 1], [1, 0, 2, 3, 4, 5]):
    placed = (attend(x[swap] + position) - attend(x + position)[swap]).norm(dim=-1)
    causal = (attend(x[swap], True) - attend(x, True)[swap]).norm(dim=-1)
    print(*[tokens[i] for i in swap])
    print("  positions  ", placed)  # (L,): how far the output of each word moved
    print("  causal mask", causal)
    assert placed.min() > 1e-5 and causal[:2].min() > 1e-4
twice = attend(attend(x[swap], True), True) - attend(attend(x, True), True)[swap]
print("  causal mask, two layers", twice.norm(dim=-1)[2:])  # words 2 to 5
assert causal[2:].max() < 1e-6 < 0.17 < twice.norm(dim=-1)[2:].min()
for i in range(5):  # in the explorer: two neighbours exchange places
    order = [*range(i), i + 1, i, *range(i + 2, 6)]
    far = OrderExplorer(order=order, positions=True).result.moved
    assert far[i : i + 2].min() > far[[*range(i), *range(i + 2, 6)]].max() > 0.01

# %% [markdown]
# With a causal mask an output moves where a word now sees **other** words; swapping
# two that it sees anyway changes nothing. In a second layer it does, by 0.17 or more: its rows and columns are mixtures, no longer
# single words.
#
# ### Your experiment: shuffle
#
# Shuffle, and watch one word. Then switch the positions on, take the order as written and let two neighbours change places. Whose
# outputs move most?
#
# <details><summary>Answer</summary>With these positions those of the two, whichever they are. The others move less: the two are only a part of what they
# average.</details>

# %%
OrderExplorer(ask=False)

# %% which-axis-was-the-batch [markdown]
# ## Which axis was the batch?
#
# Three sentences, five words, eight features: shape $(N, L, E) = (3, 5, 8)$. They go through `nn.MultiheadAttention`. By default
# this layer takes the first axis for words, the second for sentences; its weights are the mean over heads. `.eval()` switches off what
# belongs to training.

# %% many-five-output-words-sentence
predict("04/many-five-output-words-sentence")

# %% many-five-output-words-sentence-answer
# %%answer 04/many-five-output-words-sentence
torch.manual_seed(0)
N, L, E = 3, 5, 8
batch = torch.randn(N, L, E)
changed = batch.clone()
changed[0] += torch.randn(L, E)
layer = nn.MultiheadAttention(E, num_heads=2).eval()  # batch_first=False
output, crossed = layer(batch, batch, batch)
moved = (layer(changed, changed, changed)[0] - output).abs().amax(dim=-1) > 1e-6
assert moved.all() and output.shape == batch.shape
output.shape, crossed.shape, moved

# %% which-axis-was-the-batch-2 [markdown]
# The weights betray it: $(5, 3, 3)$ instead of $(3, 5, 5)$. Where $N = L$ even they do not. The test with the changed sentence works
# for two sentences or more; with one, change a word: the others must move.
#
# The repair is one argument.

# %% which-axis-was-the-batch-3
mended = nn.MultiheadAttention(E, num_heads=2, batch_first=True).eval()
mended.load_state_dict(layer.state_dict())  # the same numbers inside
output, straight = mended(batch, batch, batch)
moved = (mended(changed, changed, changed)[0] - output).abs().amax(dim=-1) > 1e-6
assert moved[0].all() and not moved[1:].any()
straight.shape, moved

# %% are-these-the-weights-that-were-used [markdown]
# ## Are these the weights that were used?
#
# [**Dropout**](glossary.ipynb#dropout) strikes out weights at random during training: each with the given probability. Those that stay
# grow to make up for it. At 0.5 they double.

# %% same-layer-dropout-0-5
predict("04/same-layer-dropout-0-5")

# %% same-layer-dropout-0-5-answer
# %%answer 04/same-layer-dropout-0-5
dropping = nn.MultiheadAttention(E, num_heads=2, dropout=0.5, batch_first=True)
dropping.load_state_dict(layer.state_dict())
torch.manual_seed(0)
each = {"average_attn_weights": False}  # the weights of each head
passes = [dropping(batch, batch, batch, **each)[1] for _ in range(500)]
sums = torch.cat(passes).sum(dim=-1)
assert 0 <= sums.min() < 0.1 and 1.9 < sums.max() < 2.001
assert abs(sums.mean() - 1) < 0.02
print(f"row sums from {sums.min():.2f} to {sums.max():.2f}, mean {sums.mean():.2f}")
sums[0].detach()  # the first pass, sentence 0: (H, L)

# %% are-these-the-weights-that-were-used-2 [markdown]
# Draw in `eval()` mode: the rows sum to 1 again.
#
# A last trap is the mean over the heads, the default: a table that no head has used. Of the two heads typed in below one prefers
# key 0 and one key 2; their mean prefers key 1.

# %% are-these-the-weights-that-were-used-3
calm = dropping.eval()(batch, batch, batch, **each)[1].detach()  # (N, H, L, S)
assert torch.allclose(calm.sum(dim=-1), torch.ones(N, 2, L))
default = dropping(batch, batch, batch)[1]  # (N, L, S)
assert torch.allclose(default, calm.mean(dim=1))
print(calm.shape, default.shape)
two_heads = torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]])
assert two_heads.argmax(dim=-1).tolist() == [0, 2]
assert two_heads.mean(dim=0).argmax() == 1
two_heads, two_heads.mean(dim=0)  # a row per head, and their mean

# %% weights-from-a-function-that-returns-none [markdown]
# ### Weights from a function that returns none
#
# `F.scaled_dot_product_attention` returns the output only. It picks a [**kernel**](glossary.ipynb#kernel), a compiled routine, by
# device and shapes; the fast ones never store the whole table of weights (lesson 8). We choose the values, though.

# %% values-make-output-weights
predict("04/values-make-output-weights")

# %% values-make-output-weights-answer
# %%answer 04/values-make-output-weights
recovered = F.scaled_dot_product_attention(query, key, torch.eye(4)[None])
assert torch.allclose(recovered, weights, atol=1e-6)  # those of Figure 4.1
ones = F.scaled_dot_product_attention(query, key, torch.ones(1, 4, 1))
assert torch.allclose(ones, torch.ones(1, 4, 1))
recovered

# %% further-three-patterns-and-what-else-makes-them [markdown]
# ## Further: three patterns, and what else makes them
#
# | pattern | the tempting story | what else makes it |
# |---|---|---|
# | diagonal | each word minds itself | query = key and no much longer neighbour: see below |
# | “bank” looks at “river” and “money” | meaning | some key has to win; lesson 5 tests it |
# | equal words share weight | the model spots repetition | equal keys, without mask or positions |
#
# Real layers multiply x by one matrix for the queries, $W_Q$, and by another for the keys, $W_K$ (lesson 6).

# %% query-key-x-random-matrices
predict("04/query-key-x-random-matrices")

# %% query-key-x-random-matrices-answer
# %%answer 04/query-key-x-random-matrices
torch.manual_seed(0)
many_x = torch.randn(500, 10, 64)
W_Q, W_K = torch.randn(2, 500, 64, 64) / 8
plain = many_x @ many_x.mT  # (500, 10, 10)
projected = (many_x @ W_Q) @ (many_x @ W_K).mT
own = [
    (s.argmax(dim=-1) == torch.arange(10)).float().mean() for s in (plain, projected)
]
assert own[0] > 0.999 and abs(own[1] - 0.1) < 0.02
print(f"x with itself: {own[0]:.0%}   random W_Q, W_K: {own[1]:.0%}")
off = plain[:, ~torch.eye(10, dtype=torch.bool)]
squares = plain.diagonal(dim1=1, dim2=2)
print(f"with itself {squares.mean():.0f}, with others 0 ± {off.std():.0f}")
short, longer = torch.tensor([1.0, 0]), torch.tensor([2.0, 1])
assert short @ longer > short @ short  # a longer neighbour wins

# %% further-the-weights-of-the-fast-kernel [markdown]
# So a diagonal is no law: a longer neighbour in a like direction wins, and trained matrices may make one, or the opposite.
#
# ## Further: the weights of the fast kernel
#
# What we recovered may be the weights of another kernel than yours. Torch's fast kernel for the CPU wants four axes and a value as wide as
# the query: we pad the identity. Room for at most E keys; with more, probe E columns at a time.

# %% further-the-weights-of-the-fast-kernel-2
S, E = key.shape[-2:]
assert S <= E  # more keys than features: torch.eye(S, E) would drop some silently
padded = torch.eye(S, E)[None, None]  # (1, 1, S, E): the identity, then zeros
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    forced = F.scaled_dot_product_attention(query[None], key[None], padded)
assert torch.allclose(forced[0, ..., :S], weights, atol=1e-6)
assert torch.allclose(forced.sum(dim=-1), torch.ones(S))  # no key is missing
forced.shape, forced[0, 0, 2]

# %% [markdown]
# ## What to remember
#
# - Rows ask, columns are looked at. Rows sum to 1, columns need not; name cells by query and key, counted from 0.
# - Same numbers, other scale, other story. Use 0 to 1 or show the scale; compare with the uniform share.
# - Redraw before you explain: in nine of ten random tables of four by four some key won twice.
# - Without positions or a causal mask, outputs follow their words. Order is invisible.
# - Change one example: does another move? Draw in `eval()`, head by head. `value = identity` shows weights that are not returned.

# %% 1-predict-4-minutes [markdown]
# ## Exercises
#
# Write your answer into the cell below a task, run it and the check after it. Click the dots to open a solution.
#
# ### 1 · Predict ★ (4 minutes)
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

# %% 2-modify-8-minutes [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# In `three`, token b keeps 0.576. Multiply **all features** by one positive number. Which is the smallest with which b gives itself at
# least 0.99? Round it up to two decimals.
#
# <details><summary>Hint</summary>Both query and key grow. If the features grow by c, by how much does their product? Or try some numbers.</details>


# %% tags=["exercise"]
def sharp_factor():
    """Return the positive number."""


# %%
check_sharp_factor(sharp_factor)


# %% tags=["solution"] jupyter={"source_hidden": true}
def sharp_factor_solution():
    # score c * c: e^(c*c) / (e^(c*c) + 2) = 0.99, so e^(c*c) = 198
    return math.ceil(100 * math.sqrt(math.log(198))) / 100


check_sharp_factor(sharp_factor_solution)

# %% 3-implement-8-minutes [markdown]
# ### 3 · Implement ★★ (8 minutes)
#
# `attention(query, key, value)` is some function that returns the output only; it may mask or scale as it likes, even hide all keys from a query.
# Write a function that returns its weights as it used them, for any batch, dtype and number of keys.
#
# <details><summary>Hint</summary>The identity needs as many rows as there are keys: <code>key.shape[-2]</code>, and the key's dtype. For a batch,
# broadcasting often does it; expanding it to the leading dimensions of the key is the safe form.</details>


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

# %% 4-repair-10-minutes [markdown]
# ### 4 · Repair ★★★ (10 minutes)
#
# You are given a trained `nn.MultiheadAttention` with `batch_first=False` and may neither rebuild nor change it. `broken` mixes the sentences of `x`
# (N, L, E). Write `mended_call` without the bug.
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

# %% 5-explain-5-minutes [markdown]
# ### 5 · Explain ★ (5 minutes)
#
# A blog shows one sentence and writes: "In head 3 the full stop gets 60 % of the attention, so punctuation matters to the model." Name three
# questions you would ask. Then compare.
#
# <details><summary>An answer</summary>Which layer? From layer 2 on the full stop's place holds a mixture of words. Does an untrained layer, or another sentence, draw it too? Is the value of the full stop large or next to nothing: does the
# output change without it? Was the head chosen after looking at all of them? And: which colour scale, which row, in `eval()` mode?</details>

# %% [markdown]
# ## In torch
#
# In `nn.MultiheadAttention` `batch_first=True` belongs to the constructor, `average_attn_weights=False` to the **call**; with
# `need_weights=False` it returns None for the weights. `nn.TransformerEncoderLayer` has `batch_first=False` as its default too.
#
# `F.scaled_dot_product_attention` **always** applies the `dropout_p` it is given: pass 0.0 outside of training.
# `seaborn.heatmap` fits its colours unless `vmin` and `vmax` are given.

# %% next [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, sections 3.2.3 and 3.5: three uses of attention; positions.
# - Jain and Wallace, [Attention is not Explanation](https://arxiv.org/abs/1902.10186), 2019; Wiegreffe and Pinter, [Attention is not not Explanation](https://arxiv.org/abs/1908.04626), 2019.
# - Kobayashi et al., [Attention is Not Only a Weight](https://arxiv.org/abs/2004.10102), 2020: weight times value; the values of separators are short.
# - Clark et al., [What Does BERT Look At?](https://arxiv.org/abs/1906.04341), 2019, section 3.2: attention parked on separators.
# - [PyTorch issue 42929](https://github.com/pytorch/pytorch/issues/42929): weights that do not sum to 1.
#
#
#
# ## Next
#
# [5 · What does "bank" mean here?](05_what_does_bank_mean_here.ipynb)

# %% next-2 [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# Cross-attention 6 minutes, counting and colours 9, chance 10, the odd token 6, shuffling 6, batch axis and dropout 8. The short value, the
# identity and the patterns can be read at home.
#
# Stalls: "dark is important". Hide the numbers, let the class bet on a weight, then show them. In the chance section have every row of
# the room take its own seed and defend its "important word" for a minute. Equivariance: six students hold a vector each and change seats.
# </details>

# %% next-3 [markdown] tags=["teacher"]
# <details><summary>For teachers: questions 1 to 3, and why a wrong choice tempts</summary>
#
# **1.** Four questions ask nine words. What sums to 1? **Each of four rows.** *Each column*: reads the table from the key's side. *The whole table*: takes it for
# one distribution.
#
# **2.** The darkest cell, colours fitted, eight keys, no mask. Its weight is at least? **1/8.** *0.6*: takes dark for large. *0*: forgets that rows sum to 1.
#
# **3.** We shuffle the words, no positions, no mask. The output of "cat"? **Stays.** *Changes*: thinks of its place, not its content. *Becomes that of the word now in its place*:
# confuses place and word.
#
# </details>

# %% next-4 [markdown] tags=["teacher"]
# <details><summary>For teachers: questions 4 and 5</summary>
#
# **4.** Weights come back as (5, 3, 3) for a batch of three five-word sentences. Then? **The batch axis was taken for the words.** *Three heads*: per-head
# weights have four axes, and by default they are averaged. *All fine*: looks at the output's shape only.
#
# **5.** `F.scaled_dot_product_attention` with `value` = ones, no mask, no dropout, returns? **Ones.** *The weights*: that is the identity. *Row maxima*: an average is no
# maximum.
#
# </details>
