# %% opening [markdown] above="What if a dictionary" below="A Python dictionary is" end="What if a dictionary"
# # 1 · Attention is a soft lookup
#
# A Python dictionary is strict.
# If you ask for a key that it holds, you get its value; if you ask for anything else,
# you get an error, however close you come.
# What if a dictionary could answer “almost”?
#
# Attention is such a dictionary.
# It compares your question with all of its keys and returns a weighted average of all the values.
# You will build one in two dimensions, and a query will learn what a kitten is.
# By the end it will compute the attention of lesson 0.
#
# **You need:** [lesson 0](00_start_here.ipynb), matrix products, and a little PyTorch,
# including gradients with `backward`.
#
# **You will be able to:** say what a soft lookup returns and what its weights depend on,
# explain how a query can learn from a soft answer, and read the formula of attention.
#
# **Time:** 44 minutes in class, or 82 on your own with the exercises.
# “Further” takes another 15.
# The terms are explained in the [glossary](glossary.ipynb).

# %% setup
import math

import torch
import torch.nn.functional as F

from attnlab import Table, load_table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.plotting import plot_sweep

lesson_setup()

# %% strict tags=["raises-exception"]
number_of_legs = {"cat": 4, "bird": 2, "spider": 8}
number_of_legs["kitten"]  # this line is meant to fail

# %% [markdown] above="*Kitten* is not" below="Let every [key](glossary.ipynb#key)"
# ## From “equal” to “close”
#
# *Kitten* is not a key, so the dictionary gives up, although *cat* would have been a good guess.
# To make use of “close”, we need things that can be close to each other: vectors.
# Let every [key](glossary.ipynb#key) be an arrow of length 1, with *cat* pointing right, *bird* up,
# and *spider* left.
# The question, called the [query](glossary.ipynb#query), is an arrow too,
# and *kitten* points mostly towards *cat* and a little towards *bird*.

# %% hard
animals = ["cat", "bird", "spider"]
keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])  # one arrow for each animal
legs = torch.tensor([4.0, 2.0, 8.0])  # one value for each key
kitten = torch.tensor([0.866, 0.5])  # 30 degrees from cat, 60 from bird
match = keys @ kitten
match, legs[match.argmax()]

# %% after-hard [markdown] above="The last line picks" below="Here is the soft"
# The product `keys @ kitten` holds one [dot product](glossary.ipynb#dot-product) for each key.
# For two arrows of length 1, the dot product is the cosine of the angle between them:
# 1 for the same direction, 0 for a right angle and $-1$ for opposite directions.
# The dot product of a query and a key is called their [raw score](glossary.ipynb#raw-score).
#
# The last line picks the value of the key with the largest raw score and ignores the others.
# This is a [hard lookup](glossary.ipynb#hard-lookup).
# A [soft lookup](glossary.ipynb#soft-lookup) returns a weighted average of the values instead.
# The softmax turns scores, here the raw scores, into [weights](glossary.ipynb#weight),
# as in lesson 0.
#
# Here is the soft lookup, with a knob added.


# %% soft
def soft_lookup(query, keys, values, temperature=1.0):
    # query @ keys.T also works for many queries at once, one in each row
    scores = query @ keys.T / temperature
    weights = scores.softmax(dim=-1)
    return weights @ values


soft_lookup(kitten, keys, legs)

# %% after-soft [markdown] above="The kitten gets 3.64" below="What does the weight"
# The kitten gets 3.64 legs.
# The knob is the [temperature](glossary.ipynb#temperature):
# the raw scores are divided by it before the softmax, and the results are called the scores.
# A low temperature makes the differences between the scores larger,
# so the best-matching key gets a larger share; a high one makes them smaller.
#
# What does the weight of a key depend on?

# %% ask-most
predict("01/most-weight-for-cat")

# %% circle jupyter={"source_hidden": true}
# %%answer 01/most-weight-for-cat
import matplotlib.pyplot as plt

from attnlab.palette import BLUE, INK, ORANGE

circle = torch.arange(360).deg2rad()
around = torch.stack([circle.cos(), circle.sin()], dim=-1)
of_cat = (around @ keys.T).softmax(dim=-1)[:, 0]  # the weight of “cat”, for 360 queries
best = int(of_cat.argmax())


def draw_keys(ax):
    for animal, (right, up) in zip(animals, keys.tolist(), strict=True):
        arrow = {"arrowstyle": "-|>", "color": BLUE, "linewidth": 1.6}
        ax.annotate("", xy=(right, up), xytext=(0, 0), arrowprops=arrow)
        ax.text(1.45 * right, 1.3 * up, animal, color=BLUE, ha="center", va="center")


_, ax = plt.subplots(figsize=(5.2, 3.6), layout="constrained")
right, up = around.T
drawn = ax.scatter(right, up, c=of_cat, s=60, cmap="Blues", vmin=0, vmax=0.75)
draw_keys(ax)
ax.plot([0, right[best]], [0, up[best]], color=ORANGE, linewidth=2.5)
for place, color, lift in ((0, INK, 0.14), (best, ORANGE, 0)):
    ax.text(
        1.12 * right[place],
        1.12 * up[place] + lift,
        f"{of_cat[place]:.3f}",
        color=color,
        va="center",
    )
ax.set(xlim=(-1.8, 1.9), ylim=(-1.3, 1.5), aspect="equal", xticks=[], yticks=[])
ax.axis("off")
ax.figure.colorbar(drawn, label="weight of “cat”")
show_figure(ax, "1.1")

# %% after-circle [markdown] above="The weight of a key" answers="01/most-weight-for-cat"
# It is not the arrow of *cat*, which gives *cat* a weight of 0.665.
# It is the arrow at $-24$ degrees, on the side away from *bird*, with 0.700.
# As the query turns that way, the raw score of *cat* falls slowly at first,
# but that of *bird* falls fast.
# The weight of a key depends on its lead over each of the other keys.

# %% drag-the-question [markdown] below="How do you bring"
# ### Drag the question
#
# Drag the tip of the orange arrow, the query, and change the temperature.
# How do you bring the output as close to 8 legs as possible?
# Can you get beyond 8, or below 2?

# %% drag
from attnlab.explorers import SoftLookupExplorer

SoftLookupExplorer()

# %% found [markdown]
# <details><summary>An answer</summary>
#
# Choose a low temperature, and drag the query into the corner at the lower left.
# There the raw score of *spider* is 3 above those of the other two.
# You cannot get beyond 8, or below 2,
# because an average lies between the smallest and the largest of the values that it averages.
# </details>

# %% why-soft [markdown] below="Let us turn the"
# ## Why give up a clear answer?
#
# The correct answer for a kitten is four legs, not 3.64.
# So what is a soft answer good for?
# Let us turn the query from *cat* to *spider*.

# %% turning
angle = torch.arange(181.0)  # of the query
turning = torch.stack([angle.deg2rad().cos(), angle.deg2rad().sin()], dim=-1)
hard = legs[(turning @ keys.T).argmax(dim=-1)]
hard[[45, 135]] = math.nan  # at these degrees, two keys are equally close
curves = {"hard": hard, "soft": soft_lookup(turning, keys, legs)}
ax = plot_sweep(angle, curves, at=120)
ax.set(xticks=[0, 45, 90, 120, 135, 180], xlabel="angle (degrees)", ylabel="legs")
show_figure(ax, "1.2")

# %% after-turning [markdown] above="The hard lookup is" below="Suppose a model has"
# The hard lookup is flat, and then it jumps.
# A model learns by following a slope:
# it changes each of its numbers in the direction that brings the answer closer to the correct one.
# On a flat stretch the slope is 0, and at a jump there is none.
#
# Suppose a model has to learn the arrow of *kitten*.
# It starts at 120 degrees, say, nearer to *bird* than to *spider*
# (the vertical line in Figure 1.2), and is told only the correct answer: four legs.
# Which shows it how to change the arrow, the hard lookup or the soft one?

# %% hard-slope tags=["raises-exception"]
start = turning[120]
query = start.clone().requires_grad_()
legs[(keys @ query).argmax()].backward()  # this line is meant to fail

# %% after-hard-slope [markdown] above="The hard lookup answers" below=["The loss is the square", "Now let the query"]
# The hard lookup answers 2, which is wrong, and a small turn changes nothing.
# The function `argmax` returns a position, through which PyTorch computes no slope.
# The soft lookup is wrong too, but in Figure 1.2 it has a slope at 120 degrees:
# a small turn towards *bird* brings it closer to four.
# Its slopes for the two numbers of the query together are its [gradient](glossary.ipynb#gradient).
#
# ## A query that learns
#
# Now let the query follow the slope.
# The loss is the square of the error,
# and each step moves the query in the direction in which the loss falls fastest.


# %% learn
def learn(query, keys, values, correct):
    query = query.detach().clone().requires_grad_()
    optimizer = torch.optim.SGD([query], lr=0.1)
    path = [query.detach().clone()]
    for _ in range(1000):
        loss = (soft_lookup(query, keys, values) - correct).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        path.append(query.detach().clone())
    return torch.stack(path)


# %%
predict("01/who-has-most-weight")

# %% learned
# %%answer 01/who-has-most-weight
path = learn(start, keys, legs, correct=4.0)
print(f"The answer after learning: {soft_lookup(path[-1], keys, legs):.2f} legs")
before_and_after = (path[[0, -1]] @ keys.T).softmax(dim=-1)
Table(["before learning", "after learning"], animals, before_and_after)

# %% after-learned [markdown] above="The query has learned" below=["Twelve queries, arrows of", "Twelve queries, arrows of"] answers="01/who-has-most-weight"
# The query has learned to answer four legs, and *bird* still has the largest weight.
#
# How can the answer be correct with so much *bird*?
# Two birds and a spider have twelve legs between them, four each on average.
# After learning, *bird* has twice the weight of *spider*, and *cat* has the rest.
# The model was told how many legs to find but not on which animal,
# and many mixtures of the three animals have four.
#
# So let each value hold the legs and the wings.
# Two birds and a spider also have wings, and a kitten has none.
# Twelve queries, arrows of length 1, learn twice: once from the legs alone,
# and once from both numbers.

# %% twelve
# %%answer 01/who-has-most-weight
turns = torch.arange(0, 360, 30).deg2rad()
twelve = torch.stack([turns.cos(), turns.sin()], dim=-1)  # (12, 2)
legs_and_wings = torch.tensor([[4.0, 0.0], [2.0, 2.0], [8.0, 0.0]])
from_legs = learn(twelve, keys, legs, correct=4.0)  # (1001, 12, 2): the paths
from_both = learn(twelve, keys, legs_and_wings, correct=torch.tensor([4.0, 0.0]))
cat_from_legs = (from_legs[-1] @ keys.T).softmax(dim=-1)[:, 0]
cat_from_both = (from_both[-1] @ keys.T).softmax(dim=-1)[:, 0]
directions = [f"{degrees}°" for degrees in range(0, 360, 30)]
columns = ["cat, from legs", "cat, from both"]
Table(directions, columns, torch.stack([cat_from_legs, cat_from_both], dim=-1))

# %% twelve-paths jupyter={"source_hidden": true}
# %%answer 01/who-has-most-weight
from attnlab.palette import MUTED

_, axes = plt.subplots(1, 2, figsize=(7.5, 3.9), layout="constrained", sharey=True)
for ax, paths in zip(axes, (from_legs, from_both), strict=True):
    ax.plot(paths[..., 0], paths[..., 1], color=ORANGE, linewidth=1.2)
    first, last = paths[0], paths[-1]
    ax.scatter(first[:, 0], first[:, 1], s=26, c="white", edgecolor=ORANGE, zorder=3)
    ax.scatter(last[:, 0], last[:, 1], s=40, c=ORANGE, edgecolor="white", zorder=4)
    draw_keys(ax)
    ax.set(xlim=(-1.9, 2.8), ylim=(-2.2, 1.9), aspect="equal", xlabel="right")
    ax.set(xticks=range(-1, 3), yticks=range(-2, 2))
axes[0].axline((0, math.log(2)), slope=-1, color=MUTED, linestyle="--", linewidth=1)
axes[0].set(title="from the legs alone", ylabel="up")
axes[1].set(title="from legs and wings")
show_figure(axes[0].figure, "1.3")

# %% after-twelve [markdown] above="From legs and wings" answers="01/who-has-most-weight"
# From the legs alone, all twelve arrive at four legs,
# but *cat* ends with anything from 0.15 to 0.78 of the weight.
# From legs and wings, all twelve are in nearly the same place after 1000 steps,
# where *cat* has 0.97.
#
# Four legs and no wings is the value of *cat*.
# Of all mixtures, only pure *cat* has it.

# %% a-sentence-looks-up-its-own-words [markdown] below=["Here is attention as", "In code, the transpose"]
# ## A sentence looks up its own words
#
# In lesson 0, each word put its question to every word of its own sentence.
# This is [self-attention](glossary.ipynb#self-attention), and it is the lookup that you have built:
# each word asks as a query, is found by its key, and hands over its [value](glossary.ipynb#value).
#
# We write L for the number of queries and S for the number of keys.
# Scaled dot-product attention uses $\sqrt{E}$ as its temperature,
# where $E$ is the number of features, here 5.
# Its [scores](glossary.ipynb#score) are those of lesson 0.
#
# Here is attention as one formula.
#
# $$\text{output} = \text{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# $Q$, $K$ and $V$ hold the queries, keys and values as rows, and $d_k$ is another name for $E$.
# In code, the transpose is written `.mT`, which works for a batch as well.
# The next cell compares attention with `soft_lookup`, and its table is that of lesson 0.


# %% attention
def attention(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (L, S): compare and divide
    weights = scores.softmax(dim=-1)  # (L, S): turn each row into shares
    return weights @ value, weights  # average the values


tokens, features, x = load_table("the_cat_sat_on_the_mat.csv")
Q = K = V = x  # queries, keys and values, one in each row
output, weights = attention(Q, K, V)
assert torch.allclose(output, soft_lookup(Q, K, V, temperature=math.sqrt(5)), atol=1e-6)
assert torch.allclose(output, F.scaled_dot_product_attention(Q, K, V), atol=1e-6)
Table(tokens, features, output)

# %% the-answer [markdown] end="Asked for *kitten*, it"
# ## A dictionary that answers “almost”
#
# What if a dictionary could answer “almost”?
# Asked for *kitten*, it answers “3.64 legs” instead of raising a `KeyError`.
# It measures how well each key matches, and returns a weighted average of all the values.
# And a query could follow the slope of that answer: told about legs and wings,
# the query at 120 degrees learned to give *cat* 0.97 of its weight.

# %% further [markdown]
# ## Further
#
# ### What is a score of zero worth?
#
# `cat` and `The` have no feature in common, so their score is exactly 0.
# Suppose that a text has many such words.
# How much do they matter?

# %%
predict("01/ten-zeros")

# %% ten-zeros
# %%answer 01/ten-zeros
one_and_ten = torch.tensor([1.0] + [0.0] * 10).softmax(dim=-1)
one_and_ten[0], one_and_ten[1:].sum()

# %% after-zeros [markdown] answers="01/ten-zeros"
# The ten zeros together get 0.786 of the weight.
# Each of them adds $e^0 = 1$ to the total, and the score of 1 adds $e$, about 2.7,
# so the ten have 10 of the 12.7 parts.
# To hide a word, lesson 3 gives it a score of minus infinity.
#
# What counts is the *difference* between two scores.
# Next to a 5, one zero is far behind; next to a $-5$, it is far ahead.

# %% change-a-row [markdown] answers="01/ten-zeros"
# What happens to the weights of a row if you add 10 to all of its scores,
# or multiply all of them by 8?

# %% differences
# %%answer 01/ten-zeros
row = Q[1] @ K.T / math.sqrt(5)  # the scores of "cat"
changes = ["as it is", "plus 10", "times 8"]
Table(changes, tokens, torch.stack([row, row + 10, row * 8]).softmax(dim=-1))

# %% after-differences [markdown] answers="01/ten-zeros"
# Adding 10 changes no difference between the scores, and so none of these weights:
# the factor $e^{10}$ appears in the numerator and the denominator of each, and cancels.
# Multiplying by 8 makes all differences eight times as large,
# and `cat` takes almost all of the weight.
# This is the temperature again, lowered to an eighth of what it was.

# %% three-words-on-paper [markdown]
# ### Three words on paper
#
# This example is small enough for paper and pencil: three tokens with four made-up features each.
# The explorer goes through the seven steps that compute one row.
# Five steps are done.
# Work out the next one, then press “Next” and compare.
# The step called “mask” changes nothing unless you choose a mask;
# masks are the subject of lesson 3.

# %% row
from attnlab.explorers import RowExplorer

RowExplorer(step=5)

# %% after-row [markdown]
# Now choose the query “He”.
# Its best match is “is”, with a raw score of 0.700; with itself it scores only 0.300.
# The reason is that “is” points in nearly the same direction and is the longest of the three
# vectors.

# %% remember [markdown] end=["Attention is a lookup", "Our soft answers had", "The weight of a key"]
# ## What to remember
#
# - Attention is a lookup that answers with a weighted average of all values.
#   In each feature, the answer lies within the range of the values.
# - Our soft answers had a slope, and twelve queries followed it.
#   A hard answer has no slope for the query to follow.
# - Here the loss saw the answer and not the weights,
#   and different weights can give the same answer.
# - The weight of a key depends on its lead over each of the other keys.
# - The raw score is a dot product: it depends on the angle *and* on both lengths
#   (“Further” has an example).
#   The score is the raw score divided by $\sqrt{E}$.
# - The softmax runs over the keys, `dim=-1`.
#   Compare your output with PyTorch's.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below a task, run it,
# and then run the check that follows.
# The last two tasks have no check.
# The first exercise uses three words with four made-up features each.
# In the docstrings the dots stand for any number of batch dimensions,
# and Ev is the number of features of a value, which may differ from E.

# %% three-words
from attnlab.exercises import check_attention_from_exp, check_mended
from attnlab.exercises import check_query_for_awesome

words, made_up, small = load_table("he_is_awesome.csv")
Table(words, made_up, small)

# %% exercise-1 [markdown]
# ### 1 · Modify ★★ (8 minutes)
#
# With its own query, “He” gives its largest weight to “is”.
# Write a query of four numbers that gives “awesome” more than 0.9 of the weight.
# The keys stay as they are, and the scores are divided by $\sqrt{4}$.
# You may find the numbers by thinking, or let gradient descent find them.
#
# <details><summary>Hint</summary>The score of “awesome” must be far above those of “He” and “is”.
# In which feature is “awesome” larger than the other two words?
# Then think of what the length of the query does.</details>


# %% tags=["exercise"]
def query_for_awesome():
    """Return a tensor of shape (4,)."""


# %%
check_query_for_awesome(query_for_awesome)


# %% tags=["solution"]
def query_for_awesome_solution():
    return 20 * (small[2] - small[1])  # a direction, then enough length


check_query_for_awesome(query_for_awesome_solution)

# %% exercise-2 [markdown]
# ### 2 · Repair ★★ (8 minutes)
#
# `broken` returns a tensor of the correct shape, but it has two bugs.
# Find both, and write `mended`, a version without them.
# It must work for a batch, and for large scores as well.
#
# <details><summary>Hint</summary>Print the sums of the rows.
# Along which axis do the weights of one query lie?
# And what does `len(key)` count, for one sentence and for a batch?</details>


# %% tags=["exercise"]
def broken(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(len(key))
    return scores.softmax(dim=0) @ value


def mended(query, key, value):
    """(..., L, E), (..., S, E), (..., S, Ev) -> output (..., L, Ev)."""


# %%
check_mended(mended)


# %% tags=["solution"]
def mended_solution(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # features
    return scores.softmax(dim=-1) @ value  # over the keys, in a batch too


check_mended(mended_solution)

# %% exercise-3 [markdown]
# ### 3 · Implement ★★★ (12 minutes)
#
# Write attention with `exp` and a sum, without calling softmax.
# It must work for a batch, and raw scores above 1000 or below $-1000$ must not give NaN.
# (In floating-point arithmetic, $e^{1000}$ overflows to infinity,
# and infinity divided by infinity is NaN.)
#
# <details><summary>Hint</summary>If you subtract the same number from all scores of a row,
# every power of $e$ is divided by the same number, and the weights stay as they are.
# Which number keeps all the powers small enough?
# <code>scores.amax(dim=-1, keepdim=True)</code> gives one number for each row,
# in a shape that lets you subtract it from the scores.</details>


# %% tags=["exercise"]
def attention_from_exp(query, key, value):
    """(..., L, E), (..., S, E), (..., S, Ev) -> output (..., L, Ev)."""


# %%
check_attention_from_exp(attention_from_exp)


# %% tags=["solution"]
def attention_from_exp_solution(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    positive = (scores - scores.amax(dim=-1, keepdim=True)).exp()  # the largest gives 1
    weights = positive / positive.sum(dim=-1, keepdim=True)
    return weights @ value


check_attention_from_exp(attention_from_exp_solution)

# %% exercise-4 [markdown]
# ### 4 · Explain ★ (4 minutes)
#
# A friend says: “Filler words get a score of zero, so they do no harm.”
# Write down your answer in two sentences.
#
# <details><summary>An answer</summary>A score of zero does not mean “no attention”:
# what counts is how far it lies below the other scores, and if those are not far above zero,
# many filler words together take most of the weight.
# To exclude them completely, set their scores to minus infinity before the softmax.</details>

# %% exercise-5 [markdown]
# ### 5 · Explore ★★ (6 minutes)
#
# Let the twelve queries of Figure 1.3 learn what an ant is: six legs and no wings.
# The keys and the values stay as they are, and no key has six legs.
# Which weights do you expect at the end, and will the twelve queries agree?
# Write down your guess, and then let them learn.
#
# <details><summary>An answer</summary>All twelve agree to within 0.003.
# They end near half <em>cat</em> and half <em>spider</em>, with almost nothing of <em>bird</em>:
# that is the only average with six legs and no wings.
# Use <code>learn(twelve, keys, legs_and_wings, correct=torch.tensor([6.0, 0.0]))</code>,
# and take the softmax of the last queries times <code>keys.T</code>.</details>

# %% in-torch [markdown]
# ## In torch
#
# `F.scaled_dot_product_attention(query, key, value)` does all of this,
# where `F` is `torch.nn.functional`.
# The query has the shape `(..., L, E)`, the key `(..., S, E)` and the value `(..., S, Ev)`.
# The function returns the output but not the weights.
# Its option `scale=1.0` switches the division off.
# `nn.MultiheadAttention` runs several attention computations side by side,
# with learned matrices before and after them (lessons 6 and 7).

# %% sources [markdown]
# ## Sources
#
# - Bahdanau, Cho and Bengio,
#   [Neural Machine Translation by Jointly Learning to Align and Translate](https://arxiv.org/abs/1409.0473),
#   September 2014: a soft lookup in a sentence, trained by gradient descent.
# - Graves, Wayne and Danihelka, [Neural Turing Machines](https://arxiv.org/abs/1410.5401),
#   October 2014, section 3.3.1: content-based lookup with a “key strength”,
#   by which the scores are multiplied.
#   It corresponds to the reciprocal of the temperature.
# - Luong, Pham and Manning,
#   [Effective Approaches to Attention-based Neural Machine Translation](https://arxiv.org/abs/1508.04025),
#   2015: dot products as scores.
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.2.1: the formula.
# - Zhang et al.,
#   [Dive into Deep Learning](https://d2l.ai/chapter_attention-mechanisms-and-transformers/queries-keys-values.html),
#   section 11.1: attention as a lookup in a database of keys and values; section 11.2:
#   the kernel regression of Nadaraya and Watson (both 1964) as attention.
# - Karpathy, [Let's build GPT](https://www.youtube.com/watch?v=kCc8FmEb1nY), 2023:
#   the comparison between the softmax of a row and the softmax of the same row times 8.
# - Raschka,
#   [Build a Large Language Model (From Scratch)](https://github.com/rasbt/LLMs-from-scratch), 2024,
#   chapter 3, “Your journey starts with one step”: one score, one row, then the whole table.
#
# ## Next
#
# [2 · Why divide by the square root of d_k](02_why_divide_by_the_square_root_of_d_k.ipynb)

# %% plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 44 minutes, and where a class gets stuck</summary>
#
# **44 minutes.**
# From the dictionary to the average: 8.
# The arrow that gives *cat* the most weight: 6.
# Dragging, on the projector: 8.
# Why soft, and the query that learns: 18.
# The sentence, the formula and the answer: 4.
# The exercises and “Further” are homework.
#
# **Questions that come up.**
# *Isn't 3.64 legs worse than 4?*
# Yes, but training can improve it.
# *Why doesn't the query go to cat?*
# Nobody asked it to: the loss sees legs and not animals.
# At temperature 1, all queries that answer four legs lie on a straight line,
# the dashed one in Figure 1.3, because there $e^{\text{up}}$ is twice $e^{-\text{right}}$.
# *Does the order of the keys matter?*
# No, as long as the values are shuffled along with them, as in a dictionary.
# *Why a dot product?*
# It is cheap: one matrix product compares all pairs.
# *Where do the arrows come from?*
# Those of the keys were typed in; a model computes queries and keys with matrices that are learned
# (lesson 6).
# *Why not divide each score by the sum of its row?*
# Such shares could be negative, and they are undefined where the sum is 0.
#
# **Where a class gets stuck.**
# If it is not clear why one row plays three parts, give one student three cards: “my question”,
# “my label” and “my content”.
# If someone says that a score of zero does no harm, write $e^0 = 1$ on the board.
# If a dot product is mistaken for a measure of the angle,
# draw two arrows that point in the same direction, one longer than the other.
# </details>

# %% questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# Four scores are 0.
# What are the weights?
# **A quarter each.**
# *All 0* mistakes scores for weights.
# *NaN* is what you get if you divide each score by the sum of the scores.
#
# **2.**
# In a row of several scores, one is larger than the rest.
# Now every score in the row is doubled.
# What happens to the weight of the key with the largest score?
# **It grows.**
# *It stays the same* is the effect of adding a constant.
# It would also be the answer if each score were divided by the sum of its row.
# *It doubles* can happen by chance, but what is doubled is the exponent,
# and a weight of more than a half cannot double.
#
# **3.**
# The values are 4, 2 and 8 legs.
# Can the output be 9?
# **No, never.**
# *With a long query* and *at a low temperature* ignore the fact that sharper weights still give an
# average, which cannot exceed 8.
#
# **4.**
# The scores have the shape (N, L, S).
# Over which dimension does the softmax run?
# **-1.**
# *1* shares out the weight of each key among the queries.
# *0* shares out the weight of each pair of query and key among the sentences.
#
# **5.**
# In “He is awesome”, “He” has a higher raw score with “is” than with itself.
# Why?
# **“is” is longer.**
# *The angle is smaller* ignores the fact that the angle between “He” and itself is 0,
# the smallest possible.
# *The meanings are related* ignores the fact that the numbers were typed in.
# </details>
