# %% 1-attention-is-a-soft-look-up [markdown]
# # 1 · Attention is a soft look-up
#
# A Python dict finds one key and returns its value, or raises an error.
# Attention compares a question with all keys and returns a weighted average of all values.
#
# **You need:** matrix products, a little probability, a first PyTorch model.
#
# **You will be able to:** compute attention by hand, tell scores from weights, spot a softmax over the wrong
# axis, explain why a score of zero still counts.
#
# **Time:** 45 minutes in class, 75 minutes alone.

# %% 1-attention-is-a-soft-look-up-2
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from IPython.display import Markdown, display

from attnlab import load_table, scaled_dot_product_attention, trace_attention
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import check_attention_from_exp, check_mended
from attnlab.exercises import check_query_for_awesome, check_zero_query, predict
from attnlab.explorers import RowExplorer, SoftLookupExplorer
from attnlab.plotting import plot_attention, plot_heads, plot_scores, plot_sweep

lesson_setup()

# %% [markdown]
# ## From a dict to an average
#
# A dict pairs keys with values. A look-up accepts only an exact match; anything else is an error, as the last line shows.

# %% tags=["raises-exception"]
legs = {"cat": 4, "bird": 2, "snake": 0}
print(legs["cat"])
legs["kitten"]

# %% [markdown]
# `"kitten"` is no key, yet one key comes close. To use closeness we need vectors. Each **key** becomes an arrow of length
# one: cat to the right, bird up, snake to the left. The question is an arrow too, the
# **query**. Each **value** is a number of legs.
#
# The **score** of a key is its dot product with the query: multiply number by number, add up. For arrows of
# length one it is the cosine of the angle between them.


# %%
def direction(angle):
    """Arrows of length 1. angle: (...,) in degrees -> (..., 2)."""
    radians = torch.deg2rad(torch.as_tensor(angle, dtype=torch.float32))
    return torch.stack([radians.cos(), radians.sin()], dim=-1)


animal_key = direction([0, 90, 180])  # cat, bird, snake
animal_value = torch.tensor([[4.0], [2.0], [0.0]])
animal_key.shape, animal_value.shape

# %% [markdown]
# Let "kitten" point a third of the way from cat to bird. Among keys of equal length, the largest score belongs to the nearest
# key. A [**hard look-up**](00_start_here.ipynb#Words-and-letters) returns the value of that key and forgets the others.

# %%
kitten = direction(30)
score = animal_key @ kitten
score, animal_value[score.argmax()]

# %% [markdown]
# A [**soft look-up**](00_start_here.ipynb#Words-and-letters) takes a share of every value. The shares are called **weights**: none is negative, together they
# make 1. **Softmax** turns scores into weights: raise $e$ to each score, then divide by the sum. The output is weight times
# value, added up.

# %% soft-look-up-return
predict("01/soft-look-up-return")

# %%
# %%answer 01/soft-look-up-return
positive = (animal_key @ direction(45)).exp()
weights = positive / positive.sum()
assert weights[0].isclose(weights[1]) and weights[2] > 0.1
weights, weights @ animal_value

# %%
assert torch.allclose(weights, (animal_key @ direction(45)).softmax(dim=-1))
score.softmax(dim=-1), score.softmax(dim=-1) @ animal_value

# %% [markdown]
# PyTorch's `softmax` does both steps. The kitten gets 2.880 legs: bird and snake have their say.
#
# ### Two knobs: direction and temperature
#
# Divide the scores by a number before softmax: the [**temperature**](00_start_here.ipynb#Words-and-letters). A small one sharpens: the winner takes
# nearly all. A large one makes the weights alike.


# %%
def soft_look_up(query, temperature=1.0):
    """query: (..., 2) -> legs: (...,)."""
    scores = query @ animal_key.T / temperature
    return (scores.softmax(dim=-1) @ animal_value).squeeze(-1)


angles = torch.arange(2, 180, 4)
sweep = direction(angles)
nearest = (sweep @ animal_key.T).argmax(dim=-1)
curves = {
    "hard": animal_value[nearest].squeeze(-1),
    "soft, temperature 0.1": soft_look_up(sweep, 0.1),
    "soft, temperature 1": soft_look_up(sweep),
}
hard, low, high = curves.values()
far = ((angles - 45).abs() > 5) & ((angles - 135).abs() > 5)  # from the jumps
assert ((low - hard).abs() <= (high - hard).abs() + 1e-5)[far].all()
sweep.shape, nearest.shape

# %%
xlabel = "angle of the query (cat 0°, bird 90°, snake 180°)"
ax = plot_sweep(angles, curves, xlabel=xlabel, ylabel="output (legs)")
ax.set_title("A hard look-up jumps, a soft one glides")
ax.set(xticks=[0, 45, 90, 135, 180], yticks=[0, 1, 2, 3, 4])
plt.setp(ax.lines, markevery=4)
ax.lines[0].set_drawstyle("steps-mid")
show_figure(ax, "1.1")

# %% [markdown]
# Why give up a clear answer? A model learns by small changes. The soft output has a slope, which says where to turn the
# query. The hard answer is flat and then jumps: its slope is 0 wherever it has one. (Hard look-ups can be trained, with other means.)

# %%
query = direction(30).requires_grad_()
(slope,) = torch.autograd.grad(soft_look_up(query), query)  # d legs / d query
near = direction([29, 30, 31]) @ animal_key.T
assert (near.argmax(dim=-1) == 0).all()  # hard: 4 legs all around
assert slope @ direction(120) < 0 < slope @ direction(30)  # turn back, grow longer
slope

# %% [markdown]
# The gradient points right and down: turn towards cat for more legs. It also makes the arrow longer, and a longer query
# sharpens, like a smaller temperature.

# %%
predict("01/can-output-get-above-4")

# %%
# %%answer 01/can-output-get-above-4
torch.manual_seed(0)
anywhere = 5 * torch.randn(10_000, 2)
outputs = torch.stack([soft_look_up(anywhere, t) for t in (0.05, 1, 5)])
assert -1e-5 < outputs.min() and outputs.max() < 4 + 1e-5  # up to rounding
outputs.min().round(decimals=3) + 0.0, outputs.max().round(decimals=3)

# %% your-experiment [markdown]
# ### Your experiment
#
# Drag the query q, turn it, make it longer, change the temperature. On which line of queries does the output stay at 2 legs, whatever
# the temperature?
#
# <details><summary>Answer</summary>Straight up and down. There cat and snake get the same weight, and the mean of their legs is that of a
# bird.</details>

# %%
SoftLookupExplorer(query=[0.7071, 0.7071], ask=False)

# %%
upright = torch.stack([torch.zeros(7), torch.linspace(-1.5, 1.5, 7)], dim=-1)
assert all(torch.allclose(soft_look_up(upright, t), animal_value[1]) for t in (0.05, 5))

# %% [markdown]
# ## Three words, four numbers each
#
# In a sentence every word looks up all words, itself included: [**self-attention**](00_start_here.ipynb#Words-and-letters). Its query is the question it asks,
# its key the label it is found by, its value the content it hands over.
#
# Here all three are one and the same row of numbers, typed by hand and without meaning. A real model makes
# three different rows from each word with three trained matrices: lesson 6.

# %% three-words-four-numbers-each
tokens, _, x = load_table("he_is_awesome.csv")
query = key = value = x
for index, token in enumerate(tokens):
    print(index, f"{token:8}", x[index])
L, E = query.shape
assert L == len(tokens)
display(Markdown(rf"**{L} tokens, {E} features each**: $x$ is ${L} \times {E}$"))

# %% [markdown]
# A piece of text is a **token**, counted from 0: "awesome" is token 2. The numbers of a row are its **features**. In PyTorch's
# letters: $L$ queries, $S$ keys, $E$ features. Here $S = L$. They differ when one text asks another; the kitten was one
# query for three keys. The [**raw score**](00_start_here.ipynb#Words-and-letters) is the dot product, as before.

# %%
predict("01/whom-raw-score-he-highest")

# %% whom-raw-score-he-highest-answer
# %%answer 01/whom-raw-score-he-highest
row = key @ query[0]  # "He" with "He", "is", "awesome"
by_hand = 0.1 * 0.5 + 0.2 * 0.6 + 0.3 * 0.7 + 0.4 * 0.8
length, cosine = x.norm(dim=-1), F.cosine_similarity(x[:1], x)
assert math.isclose(by_hand, row[1], rel_tol=1e-5)
assert torch.allclose(row, cosine * length[0] * length)
row, cosine, length

# %% [markdown]
# ### All nine at once
#
# One matrix product gives every dot product: row $i$ belongs to query $i$, column $j$ to key $j$. Are these
# weights? Then every row sums to 1.

# %% all-nine-at-once
raw = query @ key.transpose(-2, -1)  # (L, E) @ (E, S) -> (L, S)
expected = torch.tensor([[0.3, 0.7, 0.2], [0.7, 1.74, 0.68], [0.2, 0.68, 0.86]])
assert torch.allclose(raw, expected) and torch.allclose(raw[0], row)  # row 0: "He"
raw, raw.sum(dim=-1)

# %% [markdown]
# The rows sum to 1.200, 3.120 and 1.740, not to 1. Raw scores are not weights.
#
# ### Scale, then softmax
#
# Attention's temperature is $\sqrt{E}$, the root of the number of features. From here on **scores** are the divided
# numbers. A sum over more features tends to spread wider, which
# softmax turns into one winner: lesson 2 measures it.
#
# Why softmax, and not each row divided by its sum? Answer the explorer's question, then press Next. The mask waits for lesson 3.

# %%
RowExplorer()

# %% scale-then-softmax [markdown]
# Here the share of the score itself, 0.494, could pass for a weight. With a negative score it cannot: the shares of 1, -2 and 0.5 are -2, 4 and
# -1. They sum to 1, and two are negative. $e$ to a score is always positive, so every weight is.

# %%
signed = torch.tensor([1.0, -2.0, 0.5])
assert math.isclose(raw[2, 2] / raw[2].sum(), 0.494, abs_tol=1e-3)
signed / signed.sum(), signed.softmax(dim=-1)

# %% [markdown]
# All three rows at once:

# %% scale-then-softmax-2
scores = raw / math.sqrt(E)
weights = scores.softmax(dim=-1)  # along each row: over the keys
expected = torch.tensor([[0.3152, 0.3850, 0.2998], [0.2723, 0.4581, 0.2696]])
assert torch.allclose(weights[:2], expected, atol=1e-4)
assert torch.allclose(RowExplorer(query="awesome").result.weights, weights[2])
print("divided by", math.sqrt(E))
weights, weights.sum(dim=-1)

# %% scale-then-softmax-3
without, with_it = raw.softmax(dim=-1).amax(dim=-1), weights.amax(dim=-1)
assert (without > with_it).all()
without, with_it

# %% [markdown]
# Each row sums to 1 now. Without the division the largest weights would be 0.439, 0.588 and 0.425; with it they are
# 0.385, 0.458 and 0.380. The division evens the weights out. With four features neither is extreme; lesson 2 shows when it matters.

# %% scale-then-softmax-4
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
plot_scores(scores, ax=axes[0], queries=tokens, keys=tokens, colorbar=True)
axes[0].set_title("scores")
plot_attention(weights, ax=axes[1], queries=tokens, keys=tokens, colorbar=True)
axes[1].set_title("weights")
show_figure(fig, "1.2")

# %% [markdown]
# ### One output row by hand
#
# The output of a token, also called its context vector, is the weighted sum of all value rows. Here is "awesome", token 2,
# written out, beside the row of the matrix product: the last step of the explorer.

# %% one-output-row-by-hand
output = weights @ value  # (L, S) @ (S, Ev) -> (L, Ev)
by_hand = weights[2, 0] * value[0] + weights[2, 1] * value[1] + weights[2, 2] * value[2]
expected = torch.tensor([0.5427, 0.2629, 0.3629, 0.4629])
assert torch.allclose(by_hand, expected, atol=1e-4)
print("match" if torch.allclose(by_hand, output[2]) else "mismatch")  # up to rounding
by_hand, output[2]

# %% [markdown]
# ### The whole of attention
#
# $$\text{output} = \text{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# $Q$, $K$, $V$ hold queries, keys and values as rows. $d_k$ is the original paper's name for $E$. The values may have
# another width, $E_v$; there is one for each key. Five lines, the same as `attnlab` (which adds masks, lesson 3) and as PyTorch's fast
# version, which returns the output only:


# %% the-whole-of-attention
def attention(query, key, value):
    """(L, E), (S, E), (S, Ev) -> output (L, Ev), weights (L, S)."""
    raw = query @ key.transpose(-2, -1)  # 1. compare every query with every key
    scores = raw / math.sqrt(query.shape[-1])  # 2. scale by the root of E
    weights = scores.softmax(dim=-1)  # 3. softmax over the keys
    output = weights @ value  # 4. average the values
    return output, weights  # 5. hand back both


# %%
output, weights = attention(query, key, value)
assert torch.allclose(output, scaled_dot_product_attention(query, key, value))
assert torch.allclose(output, F.scaled_dot_product_attention(query, key, value))
assert torch.allclose(weights, trace_attention(query, key, value).weights)
unscaled = F.scaled_dot_product_attention(query, key, value, scale=1.0)
assert torch.allclose(unscaled, (query @ key.T).softmax(dim=-1) @ value)
output

# %% the-whole-of-attention-2 tags=["raises-exception"]
wide = torch.zeros(3, 9)  # S = 3 values, Ev = 9
print(attention(query, key, wide)[0].shape)
scaled_dot_product_attention(query, key, wide[:2])  # three keys, two values

# %% [markdown]
# ## What softmax does with a score
#
# Any scores become weights. What becomes of a score of zero?

# %%
predict("01/much-weight-ten-zeros-together")

# %%
# %%answer 01/much-weight-ten-zeros-together
weights = torch.tensor([1.0] + [0.0] * 10).softmax(dim=-1)
assert torch.allclose(weights[0], torch.tensor(math.e / (math.e + 10)))
assert torch.tensor([1.0, -torch.inf]).softmax(dim=-1)[1] == 0
weights[0], weights[1], weights[1:].sum()

# %% figure-1-3
zeros = torch.arange(0, 51)
shares = {f"score {s}": math.exp(s) / (math.exp(s) + zeros) for s in [5, 3, 1]}
xlabel = "number of other tokens, all with score 0"
ax = plot_sweep(zeros, shares, xlabel=xlabel, ylabel="weight of the one token")
ax.set(ylim=(0, 1.05), title="Zeros add up")
plt.setp(ax.lines, markevery=5)
show_figure(ax, "1.3")

# %% [markdown]
# ### Size or difference?
#
# Multiply five scores by 8, and the largest weight grows from 0.287 to 0.800. Is it the size of the scores that softmax reacts to?

# %% size-or-difference
t = torch.tensor([0.1, -0.2, 0.3, -0.2, 0.5])
plain, sharp = t.softmax(dim=-1), (8 * t).softmax(dim=-1)
expected = torch.tensor([0.0326, 0.0030, 0.1615, 0.0030, 0.8000])
assert torch.allclose(sharp, expected, atol=1e-4)
plain.amax(), sharp.amax()

# %% becomes-largest-weight
predict("01/becomes-largest-weight")

# %% becomes-largest-weight-answer
# %%answer 01/becomes-largest-weight
assert torch.tensor(1000.0).exp().isinf()  # too large for a float
shifted = (t + 1000).softmax(dim=-1)
assert torch.allclose(shifted, plain, atol=1e-4)  # all five weights
coarse = (t.bfloat16() + 1000).softmax(dim=-1)
assert (coarse == coarse[0]).all()
shifted.amax()

# %% [markdown]
# Nor has zero a meaning of its own: next to scores of 5 it takes almost nothing, next to scores of -5 almost everything.

# %%
assert torch.tensor([5.0, 0.0]).softmax(dim=-1)[1] < 0.01
assert torch.tensor([-5.0, 0.0]).softmax(dim=-1)[1] > 0.99

# %% [markdown]
# ## The wrong axis
#
# Softmax must run over the **keys**, the last dimension. Suppose you had written `softmax(dim=1)` above: for one sentence that
# is the same.

# %% put-he-awesome-twice-into
predict("01/put-he-awesome-twice-into")

# %% put-he-awesome-twice-into-answer
# %%answer 01/put-he-awesome-twice-into
batch = torch.stack([x, x])  # (N, L, E)
scores = trace_attention(batch, batch, batch).scores  # (N, L, S)
wrong = scores.softmax(dim=1)
expected = torch.tensor([0.8606, 1.1902, 0.9493])
assert torch.allclose(wrong[0].sum(dim=-1), expected, atol=1e-4)
wrong.shape, wrong[0].sum(dim=-1), wrong[0].sum(dim=0)

# %% the-wrong-axis
right = scores.softmax(dim=-1)
assert torch.allclose(right.sum(dim=-1), torch.ones(2, 3))
assert torch.allclose(wrong, right.transpose(-2, -1)) and not torch.equal(wrong, right)
titles = ["dim=-1: rows sum to 1", "dim=1: columns do"]
pair = torch.stack([right[0], wrong[0]])
fig = plot_heads(pair, queries=tokens, keys=tokens, titles=titles)
show_figure(fig, "1.4")

# %% [markdown]
# The eye does not notice. Here query = key, so the scores are symmetric and the wrong table is the right one,
# mirrored. Write `dim=-1`, and check the row sums.
#
# ## Further: five words, eight features
#
# A larger hand-made example, in which queries, keys and values differ. Three matrices turn each row of 8 features into one
# of 4. They are random numbers from a fixed seed; lesson 6 trains such matrices.

# %% further-five-words-eight-features
words, _, inputs = load_table("the_next_day_is_bright.csv")
torch.manual_seed(123)
W_query, W_key, W_value = torch.rand(8, 4), torch.rand(8, 4), torch.rand(8, 4)
for word, row in zip(words, inputs, strict=True):
    print(f"{word:8}", *(f"{number:.2f}" for number in row))
inputs.shape, W_query.shape

# %% [markdown]
# Follow token 1, "next". It needs one query, its own, but the keys and values of **all** tokens: it is compared with
# each of them.
#
# The paper calls the input width $d_\text{model}$, here 8; queries and keys share $d_k$, here 4. The layer's output
# need not be as wide as its input. In GPT-like models it usually is.

# %% further-five-words-eight-features-2
query_1 = inputs[1] @ W_query  # (8,) @ (8, 4) -> (4,)
queries, keys, values = inputs @ W_query, inputs @ W_key, inputs @ W_value
expected = torch.tensor([0.8463, 2.3367, 1.1531, 1.9900])
assert torch.allclose(query_1, expected, atol=1e-4)
query_1, keys.shape, values.shape

# %% further-five-words-eight-features-3
one = torch.dot(query_1, keys[1])  # one raw score,
row = keys @ query_1  # one row,
raw = queries @ keys.transpose(-2, -1)  # all (L, S)
assert torch.allclose(raw[1], row) and torch.allclose(row[1], one)
assert torch.allclose(row[:3], torch.tensor([9.7351, 12.0370, 12.2923]), atol=1e-4)
one, row

# %% after-division-much-weight-day
predict("01/after-division-much-weight-day")

# %% after-division-much-weight-day-answer
# %%answer 01/after-division-much-weight-day
assert math.exp(10) > 20_000
assert math.isclose(row.softmax(dim=-1).max(), 0.466, abs_tol=1e-3)
span = row.max() - row.min()
assert math.isclose(span, 3.6, abs_tol=0.05) and math.isclose(
    span / 2, 1.8, abs_tol=0.05
)
weights_1 = (row / 4**0.5).softmax(dim=-1)
for word, weight in zip(words, weights_1, strict=True):
    print(f"{word:8}{weight:.3f}")

# %% [markdown]
# Now all five rows.

# %% further-five-words-eight-features-4
weights = (raw / math.sqrt(keys.shape[-1])).softmax(dim=-1)  # (L, S)
expected = torch.tensor([0.0980, 0.3099, 0.3521, 0.0589, 0.1811])
assert torch.allclose(weights[1], expected, atol=1e-4)
assert torch.allclose(weights.sum(dim=-1), torch.ones(5))
assert F.cosine_similarity(queries[:, None], queries, dim=-1).min() > 0.85
assert (inputs > 0).all() and (weights.argmax(dim=-1) == words.index("day")).all()
ax = plot_attention(weights, queries=words, keys=words, title="Five rows, nearly alike")
show_figure(ax, "1.5")

# %% [markdown]
# Is "day" the most important word? Nothing was trained, so there is no meaning here; and even in a trained model a large weight
# is not yet importance (lesson 4). All numbers here are positive, so the five queries point nearly the same way. Lesson 6 takes this apart.
#
# Last step: one output row, then all of them.

# %% further-five-words-eight-features-5
output = weights @ values  # (L, S) @ (S, Ev) -> (L, Ev)
assert torch.allclose(weights_1 @ values, output[1])  # token 1, then all
expected = torch.tensor([1.3301, 1.5304, 1.8753, 2.3433])
assert torch.allclose(output[1], expected, atol=1e-4)
fused = F.scaled_dot_product_attention(queries, keys, values)
assert torch.allclose(output, fused)
output

# %% [markdown]
# ## What to remember
#
# - Attention is a look-up whose answer is a weighted average; it stays between the values.
# - Raw score = dot product: angle **and** length. Score = raw score / $\sqrt{E}$. Weights = softmax over the keys.
# - A score of 0 still takes weight: $e^0 = 1$.
# - Softmax sees differences. Adding a constant changes nothing but the rounding, multiplying does.
# - The right shape proves little. Check that every row of weights sums to 1.

# %% 1-predict-3-minutes [markdown]
# ## Exercises
#
# Write your answer into the cell below a task, run it and the check after it. Click the dots to open a solution.
#
# ### 1 · Predict ★ (3 minutes)
#
# A query of four zeros looks at "He is awesome". Which three weights does it give? Do not call softmax.
#
# <details><summary>Hint</summary>What is the dot product of zeros with anything?</details>


# %% tags=["exercise"]
def zero_query_weights():
    """Return three weights as a list."""


# %%
check_zero_query(zero_query_weights)


# %% tags=["solution"] jupyter={"source_hidden": true}
def zero_query_weights_solution():
    return [1 / 3, 1 / 3, 1 / 3]  # all scores are 0, so no key is preferred


check_zero_query(zero_query_weights_solution)

# %% 2-modify-8-minutes [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# With its own query, "He" looks most at "is". Write a query of four numbers that gives "awesome" more than 0.9 of the
# weight. The keys stay as they are.
#
# <details><summary>Hint</summary>The score of "awesome" must lie far above that of "is". In which features is the one larger than the
# other? Then think of the query's length.</details>


# %% tags=["exercise"]
def query_for_awesome():
    """Return a tensor of shape (4,)."""


# %%
check_query_for_awesome(query_for_awesome)


# %% tags=["solution"] jupyter={"source_hidden": true}
def query_for_awesome_solution():
    return 20 * (x[2] - x[1])  # a direction, then enough length


check_query_for_awesome(query_for_awesome_solution)

# %% 3-repair-8-minutes [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `broken` returns the right shape and has two bugs. Write `mended` without them; it must work for a batch as well.
#
# <details><summary>Hint</summary>Which count belongs under the root, keys or features? Along which axis do the weights of
# one query lie? Print the row sums.</details>


# %% tags=["exercise"]
def broken(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(len(key))
    return scores.softmax(dim=0) @ value


def mended(query, key, value):
    """(..., L, E), (..., S, E), (..., S, Ev) -> output (..., L, Ev)."""


# %%
check_mended(mended)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_solution(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # features
    return scores.softmax(dim=-1) @ value  # over the keys, in a batch too


check_mended(mended_solution)

# %% 4-implement-12-minutes [markdown]
# ### 4 · Implement ★★★ (12 minutes)
#
# Write attention with `exp` and a sum, without calling softmax. It must work for a batch, and raw scores above 1000
# must not give NaN.
#
# <details><summary>Hint</summary>What can you subtract from a row of scores without changing its weights?
# <code>amax(dim=-1, keepdim=True)</code> gives one number per row.</details>


# %% tags=["exercise"]
def attention_from_exp(query, key, value):
    """(..., L, E), (..., S, E), (..., S, Ev) -> output (..., L, Ev)."""


# %%
check_attention_from_exp(attention_from_exp)


# %% tags=["solution"] jupyter={"source_hidden": true}
def attention_from_exp_solution(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    positive = (scores - scores.amax(dim=-1, keepdim=True)).exp()  # the largest gives 1
    return positive / positive.sum(dim=-1, keepdim=True) @ value


check_attention_from_exp(attention_from_exp_solution)

# %% 5-explain-4-minutes [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: "Filler words get the score zero, so they do no harm." Answer in two sentences. Then compare.
#
# <details><summary>An answer</summary>Zero is not "no attention": what counts is the distance to the other scores. If those are not
# far above, many fillers take most of the weight. To exclude them for certain, set their scores to minus infinity before softmax.</details>

# %% [markdown]
# ## In torch
#
# `F.scaled_dot_product_attention(query, key, value)` does all of this for shapes $(\ldots, L, E)$ and returns no weights.
# `scale=1.0` switches the division off. `nn.MultiheadAttention` runs several attentions side by side, with
# trained matrices around them (lessons 6 and 7). Beware: True means *may attend* in the function's masks and *blocked* in the
# module's (lesson 3).

# %% next [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.1: the formula.
# - Graves et al., [Neural Turing Machines](https://arxiv.org/abs/1410.5401), 2014, section 3.3.1: look-up by content, with a sharpness.
# - Bahdanau et al., [Neural Machine Translation by Jointly Learning to Align and Translate](https://arxiv.org/abs/1409.0473), 2014: soft alignment.
#
#
#
# ## Next
#
# [2 · Why divide by the square root of d_k](02_why_divide_by_the_square_root_of_d_k.ipynb)

# %% next-2 [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.** Dict to average: 9. Two knobs, the experiment: 8. Three words: 14. What softmax does: 8. The wrong axis: 6. At home: "Further",
# exercises.
#
# **Stalls.** Three roles for one row: give three students a card each, my question, my label, my content. "A zero does no harm": write
# $e^0 = 1$ on the board. Dot product taken for angle: draw two arrows of one direction, unequal length.
#
#
# </details>

# %% next-3 [markdown] tags=["teacher"]
# <details><summary>For teachers: questions 1 to 3</summary>
#
# **1.** Four scores of 0 give? **A quarter each.** *Zeros*: takes scores for weights. *NaN*: divides by the sum of the scores.
#
# **2.** All five scores are doubled. The largest weight, not tied? **Grows.** *Stays*: that is adding a constant. *Doubles*: softmax is not
# proportional.
#
# **3.** Legs 4, 2, 0. Can the output be 5? **Never.** *With a long query*: that sharpens, up to 4. *With a small temperature*: the same.
#
#
# </details>

# %% next-4 [markdown] tags=["teacher"]
# <details><summary>For teachers: questions 4 and 5</summary>
#
# **4.** Scores of shape (N, L, S). Softmax over which dimension? **-1.** *1*: shares each key out among the queries. *0*: shares it among
# sentences.
#
# **5.** "He" scores higher with "is" than with itself. Why? **"is" is longer.** *Smaller angle*: that is "He" itself. *A related meaning*: the
# numbers were typed in.
#
#
# </details>
