# %% opening [markdown]
# # 1 · Attention is a soft look-up
#
# A Python dictionary is strict. If you ask for a key that it holds, you get its value; if you ask for anything else, you get an error, however
# close you come. What if a dictionary could answer “almost”?
#
# Attention is such a dictionary. It compares your question with all of its keys, and instead of picking one value it returns a weighted average
# of all the values. You will first build one in two dimensions, where you can drag the question around with the mouse. Then you will see that lesson 0
# ran the same few lines of code on *The cat sat on the mat*.
#
# **You need:** [lesson 0](00_start_here.ipynb), matrix products, and a little PyTorch, including gradients with `backward`.
#
# **You will be able to:** compute attention by hand, explain why a soft answer helps a model to learn, say what a score of zero is worth,
# and choose the correct axis for the softmax.
#
# **Time:** 45 minutes in class, or 75 on your own, including the exercises. The terms are explained in the [glossary](glossary.ipynb).

# %% setup
import math

import torch

from attnlab import Table, load_table, scaled_dot_product_attention
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.plotting import plot_heads, plot_sweep

lesson_setup()

# %% strict tags=["raises-exception"]
number_of_legs = {"cat": 4, "bird": 2, "spider": 8}
number_of_legs["kitten"]  # this line is meant to fail

# %% [markdown]
# ## From “equal” to “close”
#
# *Kitten* is not a key, so the dictionary gives up, although *cat* would have been a good guess. To make use of “close”, we need things that can be
# close to each other: vectors. Let every [key](glossary.ipynb#key) be an arrow of length 1, with *cat* pointing right, *bird* up, and *spider* left. We chose
# these directions by hand; a model learns its own. The question, called the [query](glossary.ipynb#query), is an arrow too, and *kitten* points
# mostly towards *cat* and a little towards *bird*.

# %% hard
keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])  # cat, bird, spider
legs = torch.tensor([4.0, 2.0, 8.0])  # one value for each key
kitten = torch.tensor([0.866, 0.5])  # 30 degrees from cat, 60 from bird
match = keys @ kitten
match, legs[match.argmax()]

# %% after-hard [markdown]
# The product `keys @ kitten` holds one [dot product](glossary.ipynb#dot-product) for each key: the two vectors are multiplied entry by entry, and the products
# are added up. For two arrows of length 1, the dot product is the cosine of the angle between them: 1 for the same direction, 0 for a right angle and $-1$
# for opposite directions. The dot product of a query and a key is called their [raw score](glossary.ipynb#raw-score).
#
# The last line of the cell picks the value of the key with the largest raw score and ignores the others. This is a [hard
# look-up](glossary.ipynb#hard-look-up). A [soft look-up](glossary.ipynb#soft-look-up) returns a weighted average of
# the values instead. The softmax computes the [weights](glossary.ipynb#weight): it raises $e$ to the power of each raw
# score and divides each result by the sum of all the results.

# %%
predict("01/between-two-keys")

# %% between
# %%answer 01/between-two-keys
between = torch.tensor([0.7071, 0.7071])  # as near to cat as to bird
powers = torch.exp(keys @ between)
shares = powers / powers.sum()
shares, shares @ legs

# %% after-between [markdown]
# The lines that compute `powers` and `shares` are the two steps of the softmax. PyTorch performs both in a single call, `softmax`. Here is the whole
# soft look-up, with a knob added. The function multiplies in the other order, `query @ keys.T`, which gives the same three numbers and also works for many
# queries at once, one in each row.


# %% soft
def soft_look_up(query, temperature=1.0):
    scores = query @ keys.T / temperature
    return scores.softmax(dim=-1) @ legs


soft_look_up(kitten)

# %% after-soft [markdown]
# The kitten gets 3.64 legs. The knob is the [temperature](glossary.ipynb#temperature): the raw scores are divided by it before the softmax, and the
# results are called the scores. A low temperature makes the differences between the scores larger, so the best-matching key gets a larger share of
# the weight; a high one makes them smaller, so the weights become more even.
#
# ### Drag the question
#
# Each blue arrow is a key, and the number of legs is its value. The orange arrow is the query. Drag its tip to turn it or to make it longer, and change the
# temperature. Try to find out two things. For which query do all three animals get exactly the same weight? And how do you bring the output as
# close to 8 legs as possible?

# %% drag
from attnlab.explorers import SoftLookupExplorer

SoftLookupExplorer(ask=False)

# %% found [markdown]
# <details><summary>An answer</summary>
#
# All three get the same weight only if the tip of the query is at the origin: a query of length 0 has a raw score of 0
# with every key, so no key is preferred. To come close to 8 legs, choose a low temperature, and drag the query into the
# corner at the lower left. It is long there, and *spider* is the only key with a positive raw score. (If the query
# points straight at *spider*, the raw score of *bird* is 0 instead of negative, but at the lowest temperature you
# cannot see the difference.) You cannot get beyond 8, or below 2, because an average lies between the smallest and the
# largest of the values that it averages.
# </details>

# %% why-soft [markdown]
# ## Why give up a clear answer?
#
# The correct answer for a kitten is four legs, not 3.64. So what is a soft answer good for? Let us turn the query from *cat* through *bird* to
# *spider* and watch what comes out.

# %% turning
angle = torch.arange(0.25, 180, 0.5)  # in degrees, for 360 queries
turning = torch.stack([angle.deg2rad().cos(), angle.deg2rad().sin()], dim=-1)
hard = legs[(turning @ keys.T).argmax(dim=-1)]
soft, sharp = soft_look_up(turning), soft_look_up(turning, temperature=0.1)
curves = {"hard": hard, "soft, temperature 1": soft, "soft, temperature 0.1": sharp}
ax = plot_sweep(angle, curves, title="A hard look-up jumps, a soft one glides")
ax.set(
    xticks=[0, 45, 90, 135, 180], xlabel="angle of the query (degrees)", ylabel="legs"
)
show_figure(ax, "1.1")

# %% after-turning [markdown]
# The hard look-up is flat, and then it jumps. That is bad news for training. A model learns by following a slope. It changes each of its numbers,
# here those of the query, by a little, in the direction that brings the answer closer to the correct one. On a flat stretch there is no such
# direction, and at a jump there is no slope at all. (A model can learn which key to choose in a hard look-up, but only with special methods.)
#
# Suppose that a query is meant to find *cat* but starts at 50 degrees. The hard look-up answers 2, which is wrong, and
# it is flat there, so training cannot tell which way to turn the query. The soft look-up at temperature 1 answers 3.52.
# That is not correct either, but this curve has a slope nearly everywhere, and a small step along it brings the answer
# closer to 4. This is one reason why attention is soft. (Closer to 4 is not always closer to *cat*: from 70 degrees,
# the slope leads past *bird* towards *spider*, because an average of 2 and 8 can also be 4.)
#
# Now let us measure the slope at 30 degrees, where the kitten is. In Figure 1.1 the query only turns. It can also
# become longer or shorter, so its tip can move in any direction in the plane. There is one direction in which the answer
# rises fastest. The slope in that direction, in legs per unit that the tip of the query moves, is the length of the
# [gradient](glossary.ipynb#gradient), which PyTorch computes with `backward` and leaves in `query.grad`. At temperature
# 1 the slope is 0.645.

# %% ask-slope
predict("01/slope-at-a-low-temperature")

# %% slope
# %%answer 01/slope-at-a-low-temperature
for temperature in (1.0, 0.2, 0.05, 0.02):
    query = kitten.clone().requires_grad_()  # a copy that will have a gradient
    soft_look_up(query, temperature).backward()  # fills query.grad
    print(f"temperature {temperature:<4}  slope {query.grad.norm():.3f}")

# %% after-slope [markdown]
# The slope depends, among other things, on how far apart the raw scores are, compared with the temperature. Keep that in
# mind, because most of lesson 2 is about it.
#
# ## A sentence looks itself up
#
# In lesson 0, each word put its question to every word of its own sentence. This is [self-attention](glossary.ipynb#self-attention), and it is the look-up that
# you have built. Each word plays three parts. As a query, it asks a question; as a key, it is the label by which it is found; and as a
# [value](glossary.ipynb#value), it is the content that is handed over. In a dictionary you would never confuse the last two: *cat* is a key and 4 is
# a value. Here all three are the same row of numbers; in lesson 6 each token gets three different rows. This is the table of lesson 0 again,
# and below it are the raw scores:

# %% raw
from IPython.display import display

tokens, features, x = load_table("the_cat_sat_on_the_mat.csv")
Q = K = V = x  # queries, keys and values, one in each row
raw = Q @ K.T  # (L, S)
display(Table(tokens, features, x), Table(tokens, tokens, raw))

# %% after-raw [markdown]
# One matrix product has computed all 36 raw scores: row $i$ belongs to query $i$, and column $j$ to key $j$. These are
# not weights, since the rows do not sum to 1. (The letters in the comments are those of Figure 0.3: L is the number of
# queries and S the number of keys.)
#
# Scaled dot-product attention uses $\sqrt{E}$ as its temperature, where $E$ is the number of features. A raw score divided by $\sqrt{E}$ is the
# [score](glossary.ipynb#score) of lesson 0, and the softmax of a row of scores gives the weights.

# %% scores
scores = raw / math.sqrt(x.shape[-1])  # divided by the square root of 5
weights = scores.softmax(dim=-1)  # (L, S): shares within each row
assert torch.allclose(weights.sum(dim=-1), torch.ones(6))
Table(tokens, tokens, weights)

# %% before-longer [markdown]
# Every row sums to 1 now. Look at the row of `on`: the word gives the largest weight, 0.23, to itself, and the next largest, 0.19, to `mat`. Now let us
# make the key of `mat` twice as long, without turning it. The query and the value of `mat` stay as they are.

# %%
predict("01/a-longer-key")

# %% longer
# %%answer 01/a-longer-key
longer = K.clone()
longer[5] *= 2  # mat: the same direction, twice the length
new_row = (Q[3] @ longer.T / math.sqrt(5)).softmax(dim=-1)  # Q[3] belongs to “on”
Table(["on"], tokens, new_row[None])

# %% after-longer [markdown]
# Now let us return to the keys as they were. The weights are known, and only the average remains to be computed. Here is the new vector of `cat`,
# token 1, as a sum of six weighted rows, next to row 1 of the matrix product. (In the comment below, Ev is the number of features of a value.)

# %% by-hand
output = weights @ V  # (L, S) @ (S, Ev) -> (L, Ev)
by_hand = sum(weights[1, j] * V[j] for j in range(6))
by_hand, output[1]

# %% formula [markdown]
# These are the same five numbers as in lesson 0, including the 0.373 for `place`. Written as one formula, attention is
#
# $$\text{output} = \text{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# $Q$, $K$ and $V$ hold the queries, keys and values as rows, and $d_k$ is the name for $E$ in the paper that introduced this formula (Vaswani et al.,
# under “Sources”). Written as a Python function, attention takes five lines. For one sentence, `.T` would do as the transpose; `transpose(-2, -1)`
# swaps the last two dimensions and so works for a batch as well. The last line of the cell compares the function with attnlab's own, which can also
# handle masks. PyTorch's own function is shown under “In torch” below.


# %% attention
def attention(query, key, value):
    raw = query @ key.transpose(-2, -1)  # 1. compare every query with every key
    scores = raw / math.sqrt(query.shape[-1])  # 2. divide by the root of E
    weights = scores.softmax(dim=-1)  # 3. turn each row into shares
    output = weights @ value  # 4. average the values
    return output, weights  # 5. return both


assert torch.allclose(attention(x, x, x)[0], scaled_dot_product_attention(x, x, x))

# %% [markdown]
# ## What is a score of zero worth?
#
# `cat` and `The` have no feature in common, so their score is exactly 0. Suppose that a text has many such words. How much do they matter?

# %%
predict("01/ten-zeros")

# %% ten-zeros
# %%answer 01/ten-zeros
one_and_ten = torch.tensor([1.0] + [0.0] * 10).softmax(dim=-1)
one_and_ten[0], one_and_ten[1:].sum()


# %% zeros-add-up
# %%answer 01/ten-zeros
def single(score, zeros):
    return torch.tensor([score] + [0.0] * zeros).softmax(dim=-1)[0]


n = range(51)  # how many tokens with score 0
kept = {f"score {s:g}": [single(s, zeros) for zeros in n] for s in (5.0, 3.0, 1.0)}
ax = plot_sweep(n, kept)
ax.set(xlabel="tokens with score 0", ylabel="weight of the single token")
show_figure(ax, "1.2")

# %% after-zeros [markdown]
# ### The softmax sees differences
#
# By itself, a score of zero does not tell you the weight. In a row of only two scores, 0 and 5, the zero gets 0.007 of the weight; in
# a row of 0 and $-5$ it gets 0.993. On paper, only a score of minus infinity gives a weight of exactly 0, and lesson 3
# uses it to hide words.
#
# What the softmax sees is the *difference* between two scores. So what happens to a row if you add 1000 to all of its
# scores, or multiply all of them by 8?

# %% differences
row = scores[1]  # of "cat"
changes = ["as it is", "plus 1000", "times 8"]
Table(changes, tokens, torch.stack([row, row + 1000, row * 8]).softmax(dim=-1))

# %% after-differences [markdown]
# Adding 1000 changes nothing, apart from rounding: near 1000, a float32 has only about four decimals. The differences
# stay the same, and on paper the factor $e^{1000}$ appears in both the numerator and the denominator of every weight
# and cancels. (In floating-point arithmetic, $e^{1000}$ overflows to infinity. How a softmax avoids this is the subject of exercise 4.) Multiplying
# by 8 makes all differences eight times as large, and `cat` takes almost all of the weight. (A weight shown as 0.00 is
# small, not zero.) You have met this knob before: multiplying by 8 lowers the temperature to an eighth of what it was.
#
# Why not divide each score by the sum of its row? Such shares could be negative, and they are undefined where
# the sum is 0. The softmax is never negative, keeps the order of the scores, changes smoothly, and sees nothing but
# their differences.
#
# ## Which axis?
#
# The softmax runs over the keys, which lie along the last dimension (`dim=-1`). The scores of one sentence have the shape (L, S), so their last dimension is
# also dimension 1, and `softmax(dim=1)` gives the same weights. Now let us put two copies of the sentence into a batch.

# %%
predict("01/softmax-over-dim-1")

# %% over-dim-1
# %%answer 01/softmax-over-dim-1
batch = torch.stack([scores, scores])  # (N, L, S): N = 2 sentences
over_1 = batch.softmax(dim=1)
over_1.shape, over_1[0].sum(dim=-1), over_1[0].sum(dim=-2)

# %% both-axes jupyter={"source_hidden": true}
# %%answer 01/softmax-over-dim-1
both = torch.stack([batch.softmax(dim=-1)[0], over_1[0]])
titles = ["dim=-1", "dim=1"]
show_figure(plot_heads(both, queries=tokens, keys=tokens, titles=titles), "1.3")

# %% the-answer [markdown]
# ## A dictionary that answers “almost”
#
# Now you have built one: asked for *kitten*, it answers “3.64 legs” instead of raising a `KeyError`. It does not test
# whether a key is equal to the question; it measures how well each key matches it. It does not pick one value; it
# returns an average of all the values, in which each counts in proportion to its weight. It has an answer to every
# question, and the answer nearly always has a slope, so that keys and questions can be learned. (The slope all but
# vanishes where one raw score leads the others by many times the temperature.) One thing is still open: why do we
# divide by $\sqrt{E}$, of all numbers? That is the subject of lesson 2.

# %% [markdown]
# ## Further: three words on paper
#
# This example is small enough for paper and pencil: three tokens with four made-up features each. The explorer goes through the seven steps that
# compute one row, and the last step has a line for each feature. Work out a step, then press “Next” and compare. The step called “mask” changes
# nothing unless you choose a mask; masks are the subject of lesson 3.

# %% three-words
words, made_up, small = load_table("he_is_awesome.csv")
Table(words, made_up, small)

# %% row
from attnlab.explorers import RowExplorer

RowExplorer()

# %% after-row [markdown]
# Choose “He” as the query. Its best match is “is”, with a raw score of 0.700; with itself it scores only 0.300. The reason is that “is” points in nearly
# the same direction and is the longest of the three vectors.
#
# In both example sentences, the queries, keys and values all have the same number of features. In general, only the
# queries and the keys need the same number of features; the values may have a different number. When we looked up legs,
# each value was a single number, while each key had two. But there must be one value for each key, or some weights
# would have nothing to multiply.
#
# One choice of values is worth knowing: give each key a value with a 1 in a place of its own and zeros elsewhere. Each
# feature of the output is then the weight of one key, so the output is the table of weights itself.

# %% wide
one_hot = torch.eye(3)  # three numbers in each value, and four in each key
attention(small, small, one_hot)[0]

# %% remember [markdown]
# ## What to remember
#
# - Attention is a look-up that answers with a weighted average of all values. In each feature, the answer lies within
#   the range of the values.
# - A soft answer has a slope, so training can improve it. Where one raw score leads the others by many times the
#   temperature, the slope all but vanishes.
# - The raw score is a dot product: it depends on the angle *and* on both lengths. The score is the raw score divided by $\sqrt{E}$.
# - The softmax turns each row of scores into weights. It sees only the differences between scores, and a score of 0 still gets some weight.
# - The softmax runs over the keys, `dim=-1`. Check that every row sums to 1, and compare your output with PyTorch's: correct row sums alone
#   do not prove that the output is correct.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below each task, run it, and then run the check that follows. The first two exercises use the three words from “Further”, so
# run that section first. In the docstrings the dots stand for any number of batch dimensions.

# %%
from attnlab.exercises import check_attention_from_exp, check_mended
from attnlab.exercises import check_query_for_awesome, check_zero_query

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (3 minutes)
#
# A query of four zeros looks at “He is awesome”. Which three weights does it give? Find them without calling softmax.
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

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# With its own query, “He” gives its largest weight to “is”. Write a query of four numbers that gives “awesome” more than 0.9 of the weight. The keys
# stay as they are.
#
# <details><summary>Hint</summary>The score of “awesome” must be far above those of “He” and “is”. In which feature
# is “awesome” larger than the other two words? Then think of what the length of the query does.</details>


# %% tags=["exercise"]
def query_for_awesome():
    """Return a tensor of shape (4,)."""


# %%
check_query_for_awesome(query_for_awesome)


# %% tags=["solution"] jupyter={"source_hidden": true}
def query_for_awesome_solution():
    return 20 * (small[2] - small[1])  # a direction, then enough length


check_query_for_awesome(query_for_awesome_solution)

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `broken` returns a tensor of the correct shape, but it has two bugs. Write `mended`, a version without them. It must work for a batch as well.
#
# <details><summary>Hint</summary>Which number belongs under the square root, the number of keys or the number of features? Along which axis do the weights of one query lie? Print
# the sums of the rows.</details>


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

# %% exercise-4 [markdown]
# ### 4 · Implement ★★★ (12 minutes)
#
# Write attention with `exp` and a sum, without calling softmax. It must work for a batch, and raw scores above 1000 or below $-1000$ must not give
# NaN. (In floating-point arithmetic, $e^{1000}$ overflows to infinity, and infinity divided by infinity is NaN.)
#
# <details><summary>Hint</summary>What may you add to a row of scores, or subtract from it, without changing its weights?
# <code>scores.amax(dim=-1, keepdim=True)</code> gives one number for each row, in a shape that lets you subtract it from the scores.</details>


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

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: “Filler words get a score of zero, so they do no harm.” Write down your answer in two sentences.
#
# <details><summary>An answer</summary>A score of zero does not mean “no attention”: what counts is how far it lies below the other scores, and if those are not far
# above zero, many filler words together take most of the weight. To exclude them completely, set their scores to minus infinity before the softmax.</details>

# %% in-torch [markdown]
# ## In torch
#
# `F.scaled_dot_product_attention(query, key, value)` does all of this, where `F` is `torch.nn.functional`. The query
# has the shape `(..., L, E)`, the key `(..., S, E)` and the value `(..., S, Ev)`, and the dots stand for any number of
# batch dimensions. The function returns the output but not the weights. Its option `scale=1.0` switches the division
# off. `nn.MultiheadAttention` runs several attention computations side by side, with learned matrices before and after
# them (lessons 6 and 7).

# %% torch-line
by_torch = torch.nn.functional.scaled_dot_product_attention(Q, K, V)
assert torch.allclose(by_torch, output)
by_torch[1]

# %% sources [markdown]
# ## Sources
#
# - Bahdanau, Cho and Bengio, [Neural Machine Translation by Jointly Learning to Align and Translate](https://arxiv.org/abs/1409.0473), September 2014: a soft
#   look-up in a sentence, trained through its slope.
# - Graves, Wayne and Danihelka, [Neural Turing Machines](https://arxiv.org/abs/1410.5401), October 2014, section 3.3.1:
#   content-based look-up with a “key strength”, by which the scores are multiplied. It corresponds to the reciprocal of
#   the temperature.
# - Luong, Pham and Manning, [Effective Approaches to Attention-based Neural Machine Translation](https://arxiv.org/abs/1508.04025), 2015: dot products as scores.
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.1: the formula.
# - Zhang et al., [Dive into Deep Learning](https://d2l.ai/chapter_attention-mechanisms-and-transformers/queries-keys-values.html), section 11.1: attention as a look-up in
#   a database of keys and values.
# - Karpathy, [Let's build GPT](https://www.youtube.com/watch?v=kCc8FmEb1nY), 2023: the comparison between the softmax of a row and the softmax of
#   the same row times 8.
# - Raschka, [Build a Large Language Model (From Scratch)](https://github.com/rasbt/LLMs-from-scratch), 2024, chapter 3, “Your journey starts with one step”: one score, one
#   row, then the whole table. The tests of this lesson also replay an extended version of one of his examples; `data/README.md` says what is his and what
#   was added.
#
# ## Next
#
# [2 · Why divide by the square root of d_k](02_why_divide_by_the_square_root_of_d_k.ipynb)

# %% plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class gets stuck</summary>
#
# **45 minutes.** From the dictionary to the average: 9. Dragging, on the projector: 5. Why soft, with the slopes: 8. The sentence, by hand: 10. Zeros and
# differences: 7. The wrong axis: 6. The exercises and “Further” are homework.
#
# **Questions that come up.** *Isn't 3.64 legs worse than 4?* Yes, but training can improve it. (Suppose that
# training changes only this query, at temperature 1 and with 4 legs as its only target. Then the output reaches 4 because *spider* gets more weight, not
# because *cat* is chosen: many different averages are equal to 4. If each value had several numbers, fewer averages
# would match all of them.) *Does the order of the keys matter?* No, as long as the values are shuffled along with them, as in a
# dictionary. *Why a dot product?* It is cheap: one matrix product compares all pairs. *Where do the arrows come from?*
# Here they were typed in; a model computes them with matrices that are learned (lesson 6).
#
# **Where a class gets stuck.** If it is not clear why one row plays three parts, give one student three cards: “my question”, “my label” and “my
# content”. If someone says that a score of zero does no harm, write $e^0 = 1$ on the board. If a dot product is mistaken for a measure of the angle,
# draw two arrows that point in the same direction, one longer than the other.
# </details>

# %% questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** Four scores are 0. What are the weights? **A quarter each.** *All 0* mistakes scores for weights. *NaN* is what you get if you divide each
# score by the sum of the scores.
#
# **2.** In a row of several scores, one is larger than the rest. Now every score in the row is doubled. What happens to
# the weight of the key with the largest score? **It grows.** *It stays the same* is the effect of adding a constant. It
# would also be the answer if each score were divided by the sum of its row. *It doubles* can happen by chance, but what
# is doubled is the exponent, and a weight of more than a half cannot double.
#
# **3.** The values are 4, 2 and 8 legs. Can the output be 9? **No, never.** *With a long query* and *at a low temperature* ignore the fact that
# sharper weights still give an average, which cannot exceed 8.
#
# **4.** The scores have the shape (N, L, S). Over which dimension does the softmax run? **-1.** *1* shares out the
# weight of each key among the queries. *0* shares out the weight of each pair of query and key among the sentences.
#
# **5.** In “He is awesome”, “He” has a higher raw score with “is” than with itself. Why? **“is” is longer.** *The
# angle is smaller* ignores the fact that the angle between “He” and itself is 0, the smallest possible. *The meanings are
# related* ignores the fact that the numbers were typed in.
# </details>
