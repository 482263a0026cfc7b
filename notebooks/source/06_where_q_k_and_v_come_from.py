# %% opening [markdown] above="Why three matrices, and"
# # 6 · Where Q, K and V come from
#
# In lesson 1, one row of numbers played three roles for each word.
# The same row served as the query with which the word asked, as the key by which it was found,
# and as the value that it handed over.
# A real layer makes three different rows from each token, and it uses three matrices to do so.
# Why three matrices, and not simply the tokens themselves?
#
# For a small task, you will fill in three matrices by hand, let training find its own,
# and look at what it has found.
#
# **You need:** [lesson 1](01_attention_is_a_soft_look_up.ipynb), the training of a layer in PyTorch
# (loss, gradients, optimizer), and the inverse of a matrix.
#
# **You will be able to:** say what each of the three matrices is for,
# write self-attention as a class that can be trained,
# read from the trained matrices what a token looks for,
# and describe changes to the matrices that leave every score as it was.
#
# **Time:** 50 minutes in class, or 90 on your own with the exercises.
# “Further” takes another 10.

# %% setup
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import Table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.plotting import plot_attention, plot_scores
from torch import nn

lesson_setup()

# %% a-week [markdown]
# ## One question for each day
#
# A small hotel has written down how many guests arrive on each day of the week.
# Every number is between 0 and 4.
# Each day is a token with twelve features: one of the first seven is 1 and shows which day it is,
# and one of the last five is 1 and shows how many guests arrive.
# The others are 0, and the table leaves them empty.

# %% one-week
days = "Mon Tue Wed Thu Fri Sat Sun".split()


def make_weeks(count, generator):
    """Return random weeks (count, 7, 12) and, for each day, tomorrow's number."""
    number = torch.randint(5, (count, 7), generator=generator)
    day = torch.eye(7).expand(count, 7, 7)
    tokens = torch.cat([day, F.one_hot(number, 5)], dim=-1)
    return tokens, number.roll(-1, dims=1)  # Sun gets the number of Mon


weeks, answers = make_weeks(1, torch.Generator().manual_seed(34))
week, answer = weeks[0], answers[0]  # (7, 12) and (7,)
labels = [f"{day} {row[7:].argmax()}" for day, row in zip(days, week, strict=True)]
pd.DataFrame(week.int().numpy(), labels, [*days, *"01234"]).replace(0, "")

# %% the-question [markdown] above="The week repeats, so"
# Every day is asked the same question: *how many guests arrive tomorrow?*
# The correct answer for `Mon` is the number for `Tue`, and so on.
# The week repeats, so `Sun` has to find the number for `Mon`.
#
# Let us first use the tokens themselves as queries and keys, as in lesson 1.

# %% tokens-as-they-are
as_they_are = (week @ week.T / 12**0.5).softmax(dim=-1)  # (L, L)
show_figure(plot_attention(as_they_are, queries=labels, keys=labels), "6.1")

# %% why-it-fails [markdown] above="Each day gives its" below="Three matrices make three"
# Each day gives its largest weight to itself, because no other token has as much in common with it.
# Otherwise, a score depends only on whether the two days have the same number.
# `Mon` cannot tell that `Tue` is the next day and `Wed` is not.
#
# There is a second problem.
# A dot product does not change when its two vectors are swapped,
# so `Tue` has the same score for `Mon` as `Mon` has for `Tue`.
# But `Mon` should look at `Tue`, and `Tue` should look at `Wed` instead.
#
# So we give `Mon` three different rows: a query that says “I am looking for Tuesday”,
# a key that says “I am Monday”, and a value that says how many guests arrive.
#
# ## Three rows from one
#
# The usual way to make a new row from a token is a [**projection**](glossary.ipynb#projection):
# we multiply the token $x$ by a matrix.
# Three matrices make three rows from one token.
#
# $$q = x\, W_Q \qquad k = x\, W_K \qquad v = x\, W_V$$

# %% drawing jupyter={"source_hidden": true}
from attnlab.display import diagram

show_figure(diagram("projections"), "6.2")

# %% widths [markdown] above="Queries and keys need" below="We choose $d_k ="
# If $x$ holds a whole week, with one token in each row, then $x\, W_Q$ holds all seven queries.
# Queries and keys need the same number of features, $d_k$, because we take dot products of them.
# Values are never compared with anything, so their number of features, $d_v$, may be different.
#
# Since all three come from the same tokens, this is *self-attention*.
#
# With our tokens we can fill in the matrices by hand.
# A token has a 1 in two places, so its query is the sum of two rows of $W_Q$:
# the row of its day and the row of its number.
# We choose $d_k = 2$ and place the seven days on a circle, like the hours on a clock.
# The radius is 4, because longer vectors give larger scores,
# and larger scores make the weights sharper.

# %% by-hand
angle = 2 * torch.pi * torch.arange(7) / 7
place = 4 * torch.stack([angle.cos(), angle.sin()], dim=-1)  # (7, 2)
W_query, W_key, W_value = torch.zeros(12, 2), torch.zeros(12, 2), torch.zeros(12, 5)
W_key[:7] = place  # a day is found at its own place ...
W_query[:7] = place.roll(-1, dims=0)  # ... it asks at the place of the next day ...
W_value[7:] = torch.eye(5)  # ... and it hands over its number

query, key, value = week @ W_query, week @ W_key, week @ W_value
print("Mon for Tue:", query[0] @ key[1] / 2**0.5)

# %% circle jupyter={"source_hidden": true}
from math import hypot

import matplotlib.pyplot as plt
from attnlab.palette import BLUE, ORANGE

PATCH = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}


def draw_plane(ax, queries, keys):  # queries as arrows, keys as dots
    for day, dot, tip in zip(days, keys.tolist(), queries.tolist(), strict=True):
        ax.plot(*dot, "o", color=BLUE, markersize=9, zorder=5)
        arrow = {"arrowstyle": "-|>", "color": ORANGE, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", xy=tip, xytext=(0, 0), arrowprops=arrow, zorder=6)
        write_day(
            ax, day, dot, max(hypot(*dot) + 0.9, 1.2), BLUE, weight="bold", zorder=4
        )
        beside = hypot(*tip) / 2 if hypot(*tip) > 2.4 else hypot(*tip) + 0.6
        write_day(ax, day, tip, beside, ORANGE)
    ax.plot([], [], "o", color=BLUE, label="key")
    ax.plot([], [], color=ORANGE, label="query")
    ax.legend(frameon=False, loc="lower right", handlelength=1, borderpad=0)
    ax.set(xlim=(-5.9, 5.9), ylim=(-5.9, 5.9), aspect="equal")
    ax.set(xlabel="first feature", ylabel="second feature")


def write_day(ax, day, point, distance, color, **look):
    if hypot(*point) > 0.35:  # near the origin the names would hide each other
        scale = distance / hypot(*point)
        at = scale * point[0], scale * point[1]
        look = {"ha": "center", "va": "center", "fontsize": 9, "zorder": 7, **look}
        ax.text(*at, day, color=color, bbox=PATCH, **look)


_, ax = plt.subplots(figsize=(4.4, 4.2), layout="constrained")
draw_plane(ax, query, key)
show_figure(ax, "6.3")

# %% ask-back [markdown] above="The arrow of `Mon`"
# Each arrow carries the name of the day that asks.
# The arrow of `Mon` ends on the dot of `Tue`, so `Mon` has a high score for `Tue`.

# %% ask-tuesday
predict("06/tuesday-asks-monday")

# %% see-tuesday
# %%answer 06/tuesday-asks-monday
scores = query @ key.T / 2**0.5  # (L, L)
weights = scores.softmax(dim=-1)
output = weights @ value  # (L, d_v): one entry for each number
print("Mon for Tue:", scores[0, 1], " Tue for Mon:", scores[1, 0])
print("answers:", output.argmax(dim=-1).tolist(), " correct:", answer.tolist())
show_figure(plot_attention(weights, queries=labels, keys=labels), "6.4")

# %% learned [markdown] above="The scores no longer" answers="06/tuesday-asks-monday"
# `Tue` has a score of $-2.5$ for `Mon`: its arrow ends on the dot of `Wed`,
# at an angle of more than 90 degrees from the dot of `Mon`.
# The scores no longer have to be symmetric, and every day looks at the next one.
# Each row of the output has one entry for each number, and the largest is the answer for that day.
# All seven answers are correct.

# %% let-training-find-the-matrices [markdown]
# ## Let training find the matrices
#
# We could fill in the matrices because we had named the features.
# In a trained model, the matrices start as random numbers, and training changes them step by step.
# They are the [**parameters**](glossary.ipynb#parameter) of an `nn.Module`:
# tensors that are wrapped in `nn.Parameter` and assigned to an attribute.


# %% the-class
class SelfAttention(nn.Module):
    """Tokens (..., L, d_in) -> output (..., L, d_v) and weights (..., L, L)."""

    def __init__(self, d_in, d_k, d_v):
        super().__init__()
        # divided by the root of d_in, so that the first scores are small
        self.W_query = nn.Parameter(torch.randn(d_in, d_k) / d_in**0.5)
        self.W_key = nn.Parameter(torch.randn(d_in, d_k) / d_in**0.5)
        self.W_value = nn.Parameter(torch.randn(d_in, d_v) / d_in**0.5)

    def forward(self, x):
        query, key, value = x @ self.W_query, x @ self.W_key, x @ self.W_value
        scores = query @ key.mT / key.shape[-1] ** 0.5  # .T would reverse all axes
        weights = scores.softmax(dim=-1)
        return weights @ value, weights


# %% ask-parameters
predict("06/seven-hundred-tokens")

# %% see-parameters
# %%answer 06/seven-hundred-tokens
untrained = SelfAttention(12, 2, 5)
parameters = sum(parameter.numel() for parameter in untrained.parameters())
for length in (7, 700):
    _, table = untrained(torch.rand(length, 12))
    print(length, "tokens:", parameters, "parameters,", table.numel(), "weights")

# %% the-loop [markdown] above="For 700 tokens there" answers="06/seven-hundred-tokens"
# For 700 tokens there are still 108 parameters, but 10,000 times as many weights.
# All tokens share the same three matrices, which have one row for each feature of a token.
# The weights are not parameters: each pair of tokens has one,
# and it is computed afresh for every week.
#
# Now we train the layer on random weeks, 32 at a time.
# For each day, the loss (`cross_entropy`) is small if the entry for the correct answer is much
# larger than the other four.


# %% train
def train(layer, steps=300):
    generator = torch.Generator().manual_seed(0)  # the same weeks for every layer
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(steps):
        tokens, wanted = make_weeks(32, generator)  # (32, 7, 12) and (32, 7)
        guesses, _ = layer(tokens)  # (32, 7, 5)
        loss = F.cross_entropy(guesses.flatten(0, 1), wanted.flatten())  # 224 rows
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return layer


# %% train-two
test_weeks, test_answers = make_weeks(2000, torch.Generator().manual_seed(1))


@torch.no_grad()
def accuracy(layer):
    """Return the share of correct answers for each day of the week: (7,)."""
    guesses, _ = layer(test_weeks)
    return (guesses.argmax(dim=-1) == test_answers).float().mean(dim=0)


torch.manual_seed(0)
two = SelfAttention(12, 2, 5)
print("before training:", accuracy(two).mean())
print("after 300 steps:", accuracy(train(two)).mean())

# %% which-matrices [markdown] above="After 300 steps, every" answers="06/seven-hundred-tokens"
# A guess is correct in a fifth of the cases, and the untrained layer does slightly worse than that.
# After 300 steps, every answer is correct.

# %% do-queries-and-keys-need-different-matri [markdown]
# ## Do queries and keys need different matrices?
#
# Now one trained matrix makes both the query and the key, so $W_Q = W_K$.
# We train four such layers, each from a different random start, and compare them with `two`,
# the layer that has two matrices.
# As a control, we train a layer whose $W_Q$ stays 0.
# All its scores are 0, so its output is a plain average.

# %% ask-one-matrix
predict("06/one-matrix-for-both")

# %% see-one-matrix
# %%answer 06/one-matrix-for-both
layers = {"two matrices": two}
for seed in range(4):
    torch.manual_seed(seed)
    layer = SelfAttention(12, 2, 5)
    layer.W_key = layer.W_query  # one parameter under two names
    layers[f"one for both, start {seed}"] = train(layer)

equal = SelfAttention(12, 2, 5)  # the control: all weights are equal
equal.W_query = nn.Parameter(torch.zeros(12, 2), requires_grad=False)
layers["equal weights"] = train(equal)
Table([*layers], days, torch.stack([accuracy(layer) for layer in layers.values()]))

# %% the-chain [markdown] above="With one matrix for" answers="06/one-matrix-for-both"
# With one matrix for both, at most six days find the answer.
# In each of the four runs, at least one day does no better than guessing,
# while a plain average is right in about 41% of the cases.
# (It finds the number that occurs most often in the week.)

# %% a-chain-of-scores [markdown]
# ### A chain of scores
#
# Longer training cannot help, because the reason is symmetry.
# To be right in every week, a day must give the next day its largest score.
# All numbers pass through the same rows of $W_V$,
# so a day with more weight than the next day would win in some weeks in which its number is
# different.
# But with one matrix, the score of `Mon` for `Tue` is also the score of `Tue` for `Mon`,
# so each pair of neighbouring days has a single score.
#
# `Tue` has to look at `Wed` and not at `Mon`, so Tue-Wed needs a larger score than Mon-Tue.
# In the same way, Wed-Thu needs a larger score than Tue-Wed, and so on, all the way round the week.
# In the end Mon-Tue would have to be larger than itself, which is impossible.
# **In every week, at least one day gives the day before at least as much weight as the next.**
#
# Here is how far the first of these layers got.
# To average over the numbers of guests, we replace each of the five number features by 1/5.
# (A projection is linear, so this gives the average query and the average key of each day.)

# %% neighbours
# %%answer 06/one-matrix-for-both
each_day = torch.cat([torch.eye(7), torch.full((7, 5), 1 / 5)], dim=-1)  # (7, 12)
with torch.no_grad():
    rows = each_day @ layers["one for both, start 0"].W_query  # queries, and also keys
    symmetric = rows @ rows.T  # raw scores
pairs = [f"{days[i - 1]}-{days[i]}" for i in range(7)]  # days[-1] is Sun
Table(["raw score"], pairs, torch.stack([symmetric[i - 1, i] for i in range(7)])[None])

# %% chain-breaks [markdown] above="The scores grow from" answers="06/one-matrix-for-both"
# The scores grow from Sun-Mon to Fri-Sat, and then the chain breaks.
# `Sat` has a far larger score for `Fri` than for `Sun`.

# %% what-the-matrices-have-learned [markdown]
# ## What the matrices have learned
#
# With $d_k = 2$ we can draw what `two` has learned, as we drew the circle.
# To watch it learn, we train it again from the same start and stop after 0, 20, 40, ... steps.
# We also train a layer from a different random start.

# %% stages
stages = {}
for steps in range(0, 301, 20):
    torch.manual_seed(0)
    stages[steps] = train(SelfAttention(12, 2, 5), steps)

torch.manual_seed(1)
another = train(SelfAttention(12, 2, 5))

# %% watch-it [markdown] below="Which day is the"
# ### Watch it learn
#
# The picture shows the layer after 60 steps.
# Move the slider back to step 0, and then all the way to step 300.
# Which day is the last to learn to attend to the next day?
# How do the arrows show it?
# What still changes once every answer is correct?

# %% explore-training jupyter={"source_hidden": true}
from attnlab.explorers import live


def rows_of(layer):
    with torch.no_grad():
        return each_day @ layer.W_query, each_day @ layer.W_key


def draw_training(fig, step):
    layer = stages[step]
    left, right = fig.subplots(1, 2)
    draw_plane(left, *rows_of(layer))
    left.set_title("averaged over the numbers", fontsize=10)
    of_week = layer(week)[1].detach()
    plot_attention(of_week, ax=right, queries=labels, keys=labels, annotate=False)
    right.set_title("weights in the first week", fontsize=10)
    return f"Correct answers after {step} steps: <b>{accuracy(layer).mean():.0%}</b>"


alt = "Left: queries as arrows, keys as dots. Right: the attention weights of one week."
live(draw_training, start={"step": 60}, step=list(stages), figsize=(7.5, 3.8), alt=alt)

# %% explore-training-answer [markdown]
# <details><summary>What you see</summary>
#
# At first all points lie near the origin, so all scores are near 0.
# Then the dots spread out into a ring, and the arrows turn towards them.
# `Sun` comes last: at step 60 its arrow is still very short,
# so its scores are small and its row of the heatmap is pale.
# Even after every answer is correct, the points keep moving outwards.
# Longer vectors have larger dot products, so the weights become a little sharper.
# </details>

# %% ask-again
predict("06/another-initialisation")

# %% two-planes jupyter={"source_hidden": true}
# %%answer 06/another-initialisation
figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.9), layout="constrained")
for side, trained, run in zip(axes, (two, another), ("first", "second"), strict=True):
    draw_plane(side, *rows_of(trained))
    side.set_title(f"{run} run: {accuracy(trained).mean():.0%} correct")
show_figure(figure, "6.5")

# %% only-the-product [markdown] above="In both runs, each" answers="06/another-initialisation"
# In both runs, each arrow points more closely to the dot of the next day than to any other.
# But neither the places of the days nor their order round the ring agree,
# and in neither run do the days follow the order of the week.
# The task fixes which arrow points to which dot, but not where that dot lies.

# %% what-the-numbers-of-a-matrix-mean [markdown] below=["Even if the table", "We can multiply $W_Q$"]
# ## What the numbers of a matrix mean
#
# Even if the table of scores is fixed, the numbers in $W_Q$ are not.
# Let us write out a raw score:
#
# $$q_i \cdot k_j = (x_i W_Q)(x_j W_K)^\top = x_i \left(W_Q W_K^\top\right) x_j^\top$$
#
# The two matrices meet only in the product $M = W_Q W_K^\top$,
# so all pairs with the same product give the same scores.
# We can multiply $W_Q$ by *any* invertible matrix $A$ if we also multiply $W_K$ by the transpose of
# $A^{-1}$.
#
# $$(W_Q A)\left(W_K (A^{-1})^\top\right)^\top = W_Q\, A\, A^{-1}\, W_K^\top = W_Q W_K^\top$$

# %% another-pair
trained_Q, trained_K = two.W_query.detach(), two.W_key.detach()
M = trained_Q @ trained_K.T  # (12, 12)
A = torch.tensor([[2.0, 1.0], [0.0, 1.0]])  # any invertible matrix
new_Q, new_K = trained_Q @ A, trained_K @ A.inverse().T
print("row of Mon in W_Q:", trained_Q[0], "now", new_Q[0])
assert torch.allclose(new_Q @ new_K.T, M, atol=1e-4)

raw_scores = each_day @ M @ each_day.T  # (7, 7)
best = raw_scores.argmax(dim=-1)  # the largest score of each row
print("largest score for", [days[i] for i in best])

# %% same-product [markdown] above="Every query and every"
# Every query and every key is different now, yet no score has changed.
# So a single number of $W_Q$ need not mean anything by itself.
#
# What a token looks for can be read from the product.
# Here are the raw scores $x_i M x_j^\top$, again averaged over the numbers.

# %% product-map jupyter={"source_hidden": true}
ax = plot_scores(raw_scores, queries=days, keys=days)
# a frame round the largest score of each row
ax.plot(best + 0.5, torch.arange(7) + 0.5, "ks", markersize=27, fillstyle="none")
show_figure(ax, "6.6")

# %% read-the-product [markdown] above="In every row, the"
# In every row, the next day has the largest score.
# A layer could learn $M$ itself as one matrix, but that would be 144 numbers,
# and $W_Q$ and $W_K$ together have only 48.

# %% the-answer [markdown]
# ## So why three matrices?
#
# Why not use the tokens themselves?
# Because a token plays three roles, which may have nothing in common.
# Our `Mon` asks for Tuesday, is found as Monday, and hands over a number.
#
# If the tokens themselves are queries and keys, the scores are symmetric:
# any two days have the same score for each other.
# If one matrix makes both, the scores are still symmetric,
# and then the seven days cannot all prefer the next day to the one before.
# So this task needs queries that are made differently from the keys.
# The third matrix chooses what is handed over.
# It leaves out the day.
#
# Nobody told the layer which day to look at.
# The loss depended on the right choice, and the three matrices can express it,
# so training was able to find it.
# With three matrices, a layer asks one question.
# For two questions, such as tomorrow's guests and yesterday's, a layer has several heads
# (lesson 7).

# %% further [markdown]
# ## Further
#
# ### A bias that does nothing
#
# If the keys have a bias $b$, each score of query $q_i$ gains the same number,
# $q_i \cdot b$ divided by $\sqrt{d_k}$.
# The softmax ignores a number that is added to a whole row,
# so the bias of the keys changes no weight, apart from rounding.

# %% bias-of-keys
b = torch.tensor([5.0, -3.0])
with_bias = (query @ (key + b).T / 2**0.5).softmax(dim=-1)
print("same weights:", torch.allclose(with_bias, weights, atol=1e-5))

# %% untrained-text [markdown]
# ### One number for each query and key
#
# How small may $d_k$ be?
# With $d_k = 1$, each query and each key is a single number.

# %% one-number
torch.manual_seed(0)
line = train(SelfAttention(12, 1, 5))
Table(["d_k = 1"], days, accuracy(line)[None])

# %% one-number-read [markdown]
# Only two days are answered correctly.
# A raw score is now a product of two numbers.
# A positive query has its largest score for the largest key, and a negative query for the smallest.
# No other key can win.
# For the other days, most of the weight lies on the keys on the side of their answer,
# which is a little better than an average of all seven.
#
# ### Do not interpret an untrained map
#
# Here are five words with eight features each, all of them positive.
# We draw $W_Q$ and $W_K$, of 8 rows and 4 columns each,
# a thousand times and count how often all five words give their largest weight to the same word.
# If each word chose one of the five at random, this would happen in fewer than 2 of 1,000 draws.
# First the entries of the matrices lie between 0 and 1 (`torch.rand`).
# Then they are smaller and may have either sign, as in `nn.Linear`.

# %% untrained
from attnlab import load_table

five_words = load_table("the_next_day_is_bright.csv")
words = five_words.values  # (L, d_in) = (5, 8)
five_words


# %% untrained-draws
def agreeing(low, high):
    """Return the number of draws, of 1,000, in which all rows prefer the same key."""
    generator = torch.Generator().manual_seed(0)
    draws = torch.empty(2, 1000, 8, 4).uniform_(low, high, generator=generator)
    of_draws = (words @ draws[0]) @ (words @ draws[1]).mT  # (1000, L, L)
    preferred = of_draws.argmax(dim=-1)  # (1000, L)
    return (preferred == preferred[:, :1]).all(dim=-1).sum().item()


limit = 8**-0.5
agreeing(0, 1), agreeing(-limit, limit)

# %% untrained-read [markdown]
# With positive entries, all five words agree in 973 of the 1,000 draws, and with both signs in 315.
# To see why, write each query as the mean query $\bar q$ plus a deviation $r_i$.
# The raw score is then $\bar q \cdot k_j + r_i \cdot k_j$,
# and the first part is the same in every row.
# These five words have much in common, so $\bar q$ is large compared with the deviations.
# If all entries of the matrices are positive,
# the first part nearly always decides which column wins.
# If the entries may have either sign, it does so in about a third of the draws.
# (Tokens that have less in common, such as our days, agree less often.)
#
# All this happens before any training.
# If every row of a map points to the same word,
# the part that the rows share may be the only reason.

# %% remember [markdown]
# ## What to remember
#
# - $W_Q$, $W_K$ and $W_V$ make three rows from each token: what it asks for, how it is found,
#   and what it hands over.
#   All tokens share them, so their size does not depend on the length of the sequence.
# - With the same matrix for query and key, the scores are symmetric.
#   Then seven days in a circle cannot all prefer the next day to the day before.
# - Scores depend only on the product $W_Q W_K^\top$.
#   Many pairs of matrices give the same scores:
#   an [**orthogonal**](glossary.ipynb#orthogonal) matrix, for example,
#   may turn all queries and keys together.
#   So the individual numbers of a trained $W_Q$ need not mean anything.
# - For a batch, transpose the keys with `key.mT`, because `key.T` reverses all axes.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.
# The last task has no check; write your answer in a new cell.

# %% exercise-1 [markdown]
# ### 1 · Count ★ (3 minutes)
#
# A self-attention layer takes tokens with 12 features.
# Its queries and keys have 7 features, and its values have 5.
# Each projection also adds a [**bias**](glossary.ipynb#bias) to its result,
# one trainable number for each output feature.
# How many parameters does the layer have for a sentence of 9 words?
#
# <details><summary>Hint</summary>
#
# A projection has a matrix, whose size is inputs times outputs,
# and it has one bias for each output.
# Does the number of words matter?
# </details>

# %%
from attnlab.exercises import check_fitting_keys, check_linear_from
from attnlab.exercises import check_parameter_count, check_same_scores


# %% tags=["exercise"]
def parameter_count():
    """Return the number of parameters."""


# %%
check_parameter_count(parameter_count)


# %% tags=["solution"]
def parameter_count_solution():
    return 12 * (7 + 7 + 5) + (7 + 7 + 5)  # matrices, then biases; the words share them


check_parameter_count(parameter_count_solution)

# %% exercise-2 [markdown]
# ### 2 · Repair ★★ (6 minutes)
#
# The usual layer for a projection is `nn.Linear`, which calls its matrix `weight`.
# `broken_linear` is supposed to make such a layer that returns `x @ matrix`.
# It has three bugs.
# Write the repaired version as `linear_from`.
# If the layer is trained later, `matrix` must not change.
#
# <details><summary>Hint</summary>
#
# Print the shapes of the weight and of the matrix.
# What does the layer add to the product?
# If you make a parameter from a tensor, are the numbers copied?
# </details>


# %% tags=["exercise"]
def broken_linear(matrix):
    layer = nn.Linear(*matrix.shape)
    layer.weight = nn.Parameter(matrix)
    return layer


def linear_from(matrix):
    """A matrix (d_in, d_out) -> nn.Linear."""


# %%
check_linear_from(linear_from)


# %% tags=["solution"]
def linear_from_solution(matrix):
    layer = nn.Linear(*matrix.shape, bias=False)
    layer.weight = nn.Parameter(matrix.T.clone())  # transposed, and a copy
    return layer


check_linear_from(linear_from_solution)

# %% exercise-3 [markdown]
# ### 3 · Implement ★★ (8 minutes)
#
# Somebody has multiplied $W_Q$ by an invertible matrix $A$ and has not kept $A$.
# You have $W_Q$, $W_K$ and the new matrix $W_Q A$.
# Return the new $W_K$ that makes all scores what they were before.
# All matrices have more rows than columns.
#
# <details><summary>Hint</summary>
#
# How can you find $A$ if you know $W_Q$ and $W_Q A$?
# `torch.linalg.lstsq(B, C).solution` is the matrix $X$ for which $B X = C$.
# What has to happen to $W_K$ if $W_Q$ is multiplied by $A$?
# </details>


# %% tags=["exercise"]
def fitting_keys(W_query, W_key, new_W_query):
    """Three matrices (d_in, d_k) -> the new W_key, of the same shape."""


# %%
check_fitting_keys(fitting_keys)


# %% tags=["solution"]
def fitting_keys_solution(W_query, W_key, new_W_query):
    A = torch.linalg.lstsq(W_query, new_W_query).solution
    return W_key @ A.inverse().T  # meets A in the product, and cancels it


check_fitting_keys(fitting_keys_solution)

# %% exercise-4 [markdown]
# ### 4 · Implement ★★ (8 minutes)
#
# Somebody gives you the matrices $W_Q$ and $W_K$ of one trained layer, and those of another.
# Both layers take tokens with the same number of features, but their $d_k$ may differ.
# Write a function that returns True if the two layers have the same attention scores for *all*
# tokens, and False otherwise.
# Each layer divides its scores by the root of its own $d_k$.
# Ignore differences below 0.001.
#
# <details><summary>Hint</summary>
#
# You could try the layers on many random tokens.
# But which table of numbers, which you can compute without any tokens,
# decides all scores of a layer?
# </details>


# %% tags=["exercise"]
def same_scores(W_query, W_key, other_query, other_key):
    """Two matrices (d_in, d_k), then two (d_in, other d_k) -> True or False."""


# %%
check_same_scores(same_scores)


# %% same-scores-solution tags=["solution"]
def same_scores_solution(W_query, W_key, other_query, other_key):
    table = W_query @ W_key.T / W_query.shape[1] ** 0.5  # (d_in, d_in)
    other_table = other_query @ other_key.T / other_query.shape[1] ** 0.5
    return torch.allclose(table, other_table, atol=1e-3)


check_same_scores(same_scores_solution)

# %% exercise-5 [markdown]
# ### 5 · Explore ★★ (8 minutes)
#
# Now the hotel asks: *how many guests arrived yesterday?*
# Change the layer that we made by hand so that it answers this question,
# without changing any of the numbers in its matrices.
# Then try the same with the layer `two`.
# How many of its days are right?
# Explain the number.
#
# <details><summary>An answer</summary>
#
# Swap $W_Q$ and $W_K$.
# The table of scores is then transposed: what `Mon` had for `Tue`, `Tue` now has for `Mon`.
# In the layer made by hand, the next day has the largest score in each row,
# and the day before has the largest score in each column, so all seven days are right.
# The trained layer gets six days right.
# In the column of `Tue` in Figure 6.6, `Thu` is slightly ahead of `Mon`.
# The loss compared the scores of each *row*.
# It never compared the scores of a column, which belong to seven different queries,
# so nothing made the day before the winner there.
# </details>

# %% exchange tags=["solution"]
scores_by_hand = (week @ W_key) @ (week @ W_query).T
scores_trained = (week @ trained_K) @ (week @ trained_Q).T
for scores_before in (scores_by_hand, scores_trained):
    print([days[i] for i in scores_before.argmax(dim=-1)])

# %% in-torch [markdown]
# ## In torch
#
# A projection is usually written with `nn.Linear`.
# It stores its matrix transposed, with one *row* for each output feature, and calls it `weight`.
# Unless told otherwise, it also adds a bias.

# %% linear
q_proj = nn.Linear(12, 2, bias=False)
with torch.no_grad():  # copying is not a step of training
    q_proj.weight.copy_(trained_Q.T)
print("our matrix:", tuple(trained_Q.shape), " weight:", tuple(q_proj.weight.shape))
print("same queries:", torch.allclose(q_proj(week), week @ trained_Q, atol=1e-5))

# %% three-in-one [markdown]
# If you forget the `.T`, `copy_` raises an error here.
# With a square matrix you would silently get a different layer.
#
# Self-attention has three such layers.
# In [cross-attention](glossary.ipynb#cross-attention), the queries come from one text,
# and the keys and values from another.
# `nn.MultiheadAttention` does both, and so it is called with three arguments.
# It stacks the three matrices, the one for the query first, in `in_proj_weight` of shape $(3E, E)$,
# where $E$ is the width of a token (if keys and values have the same width).
# It has biases unless told otherwise, and a fourth projection after the heads (lesson 7).

# %% torch-layer
module = nn.MultiheadAttention(12, num_heads=3, batch_first=True)
module.in_proj_weight.shape, module.in_proj_bias.shape

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.2.2.
# - Raschka,
#   [Build a Large Language Model (From Scratch)](https://github.com/rasbt/LLMs-from-scratch), 2024,
#   chapter 3: the two classes, with `nn.Parameter` and with `nn.Linear`.
#   The table of five words with eight features is an extended version of one of his.
# - Kitaev et al., [Reformer](https://arxiv.org/abs/2001.04451), 2020:
#   a language model in which one matrix makes queries and keys (the keys are scaled to length 1),
#   and which does no worse for it.
#   Our argument is about one layer and days in a circle.
# - Elhage et al.,
#   [A Mathematical Framework for Transformer Circuits](https://transformer-circuits.pub/2021/framework/index.html),
#   2021: our $W_Q W_K^\top$ is their $W_Q^\top W_K$, because their vectors are columns.

# %% next [markdown]
# ## Next
#
# Lesson 7, [Multi-head attention](07_multi_head_reshaping_without_scrambling.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.**
# The week and the map of the tokens as they are: 6.
# The three matrices by hand, and the circle: 11.
# The class and its training: 9.
# One matrix for both, and the chain: 9.
# The slider and the two planes: 9.
# The product: 4.
# The answer: 2.
#
# **Where a class stalls.**
#
# - *“The query is the day, isn't it?”*
#   Have seven people stand in a circle.
#   Each holds a card with a name (the key) and another with a number (the value),
#   and points at the next person (the query).
# - *Why one matrix is not enough.*
#   Let the seven people hold the seven scores between them, one for each pair of neighbours,
#   and ask each person whether the score on the far side is larger.
#   Somebody has to say no.
# - *Two transposes.*
#   Transposing the keys is part of the computation: it swaps their last two axes,
#   so that every query meets every key.
#   The transpose in `nn.Linear` is only a way of storing a matrix.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# A layer gets a longer sentence.
# What does it need?
# **Nothing new.**
# *More parameters* mistakes scores for parameters.
# *A larger $W_Q$* overlooks that its rows belong to features, not to tokens.
#
# **2.**
# What is the shape of `nn.Linear(8, 4).weight`?
# **(4, 8).**
# *(8, 4)* follows the order of the arguments.
# *(4,)* is the bias.
#
# **3.**
# Values have 5 features.
# How many do the queries have?
# **That is not determined.**
# *5* overlooks that values are never compared with queries.
# *As many as the token has* mistakes a projection for the token.
#
# **4.**
# $W_Q = W_K = 0$.
# What are the weights?
# **All equal.**
# *NaN* is what `softmax` returns for a row if all its scores are minus infinity.
# *The identity* would require a large score of each token with itself.
#
# **5.**
# Two training runs end with different $W_Q$.
# Do the layers attend differently?
# **We cannot tell.**
# *Yes* and *one of them has failed* overlook that many pairs of matrices have the same product.
# </details>
