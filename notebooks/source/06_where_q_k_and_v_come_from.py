# %% opening [markdown] above="Why three matrices, and" end="Why three matrices, and"
# # 6 · Where Q, K and V come from
#
# In lesson 1, one row of numbers served each word as its query, its key and its value.
# A real layer makes three different rows from each token, with three matrices.
# Why three matrices, and not simply the tokens themselves?
#
# For a small task, you will fill in three matrices by hand, let training find its own,
# and then take some of them away.
#
# **You need:** [lesson 1](01_attention_is_a_soft_look_up.ipynb), the training of a layer in PyTorch
# (loss, gradients, optimizer), and the inverse of a matrix.
#
# **You will be able to:** say what each of the three matrices is for,
# read from the trained matrices what a token looks for,
# and describe changes to the matrices that leave every score as it was.
#
# **Time:** 44 minutes in class, or 73 on your own with the exercises.
# “Further” takes another 2.

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

# %% a-week [markdown] below="A small hotel has"
# ## One question for each day
#
# A small hotel has written down how many guests arrive on each day of the week.
# Every number is between 0 and 4.
# In `week`, each day is a token with twelve features:
# one of the first seven is 1 and shows which day it is,
# and one of the last five is 1 and shows how many guests arrive.
# The others are 0, and the table leaves them empty.

# %% one-week jupyter={"source_hidden": true}
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
features = [*days, "0", "1", "2", "3", "4"]
pd.DataFrame(week.int().numpy(), labels, features).replace(0, "")

# %% the-question [markdown] above="The week repeats, so" below="Let us first use"
# Every day is asked the same question: *how many guests arrive tomorrow?*
# The correct answer for `Mon` is the number for `Tue`, and so on.
# The week repeats, so `Sun` has to find the number for `Mon`.
#
# Let us first use the tokens themselves as queries and keys, as in lesson 1.

# %% tokens-as-they-are
as_they_are = (week @ week.T / 12**0.5).softmax(dim=-1)  # (L, L)
show_figure(plot_attention(as_they_are, queries=labels, keys=labels), "6.1")

# %% why-it-fails [markdown] above="Each day gives its" below=["Three matrices make three", "We choose $d_k", "We choose $d_k"]
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
#
# If $x$ holds a whole week, with one token in each row, then $x\, W_Q$ holds all seven queries.
# Queries and keys need the same number of features, $d_k$, because we take dot products of them.
# Values are never compared, so they may have another number, $d_v$.
#
# Since all three come from the same tokens, this is *self-attention*.
#
# With our tokens we can fill in the matrices by hand.
# A token has a 1 in two places, so its query is the sum of two rows of $W_Q$:
# the row of its day and the row of its number.
# We choose $d_k = 2$ and place the seven days on a circle.
# The radius is 4, because larger scores make the weights sharper.

# %% by-hand
angle = 2 * torch.pi * torch.arange(7) / 7
place = 4 * torch.stack([angle.cos(), angle.sin()], dim=-1)  # (7, 2)
W_query, W_key, W_value = torch.zeros(12, 2), torch.zeros(12, 2), torch.zeros(12, 5)
W_key[:7] = place  # a day is found at its own place ...
W_query[:7] = place.roll(-1, dims=0)  # ... it asks at the place of the next day ...
W_value[7:] = torch.eye(5)  # ... and it hands over its number

query, key, value = week @ W_query, week @ W_key, week @ W_value
scores = query @ key.T / 2**0.5  # (L, L)
weights = scores.softmax(dim=-1)
output = weights @ value  # (L, d_v): one entry for each number
print("Mon for Tue:", scores[0, 1], " Tue for Mon:", scores[1, 0])
print("answers:", output.argmax(dim=-1).tolist(), " correct:", answer.tolist())

# %% circle jupyter={"source_hidden": true}
from math import hypot

import matplotlib.pyplot as plt
from attnlab.palette import BLUE, ORANGE

PATCH = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}


def draw_plane(ax, queries, keys, reach=5.9):  # queries as arrows, keys as dots
    aimed = queries.roll(1, dims=0)  # the arrow that points to each dot
    behind = F.cosine_similarity(keys, aimed) > 0.9  # its tip may lie behind the dot
    outside = keys.norm(dim=-1).maximum(behind * aimed.norm(dim=-1)) + 0.14 * reach
    for day, dot, tip, far in zip(
        days, keys.tolist(), queries.tolist(), outside.tolist(), strict=True
    ):
        ax.plot(*dot, "o", color=BLUE, markersize=9, zorder=5)
        arrow = {"arrowstyle": "-|>", "color": ORANGE, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", xy=tip, xytext=(0, 0), arrowprops=arrow, zorder=6)
        write_day(ax, day, dot, far, BLUE, weight="bold", zorder=4)
        write_day(ax, day, tip, hypot(*tip) / 2, ORANGE)
    ax.plot([], [], "o", color=BLUE, label="key")
    ax.plot([], [], color=ORANGE, label="query")
    ax.legend(frameon=False, loc="lower right", handlelength=1, borderpad=0)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set(xlabel="first feature", ylabel="second feature")


def write_day(ax, day, point, distance, color, **look):
    scale = distance / hypot(*point)
    at = scale * point[0], scale * point[1]
    look = {"ha": "center", "va": "center", "fontsize": 9, "zorder": 7, **look}
    ax.text(*at, day, color=color, bbox=PATCH, **look)


figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 4.0), layout="constrained")
draw_plane(left, query, key)
plot_attention(weights, ax=right, queries=labels, keys=labels)
show_figure(figure, "6.2")

# %% learned [markdown] above="The arrow of `Mon`"
# Each arrow carries the name of the day that asks.
# The arrow of `Mon` ends on the dot of `Tue`, so `Mon` has a high score for `Tue`.
# `Tue` has a score of $-2.5$ for `Mon`: its arrow ends on the dot of `Wed`,
# at an angle of more than 90 degrees from the dot of `Mon`.
# The scores no longer have to be symmetric, and every day looks at the next one.

# %% which-matrices-does-the-task-need [markdown]
# ## Which matrices does the task need?
#
# In a trained model, the matrices start as random numbers, and training changes them step by step.
# A layer with three matrices learns our task.
# Does it need all three?
# We take away $W_K$, then $W_V$, then both.
# Without $W_K$, the tokens themselves are the keys, so $d_k$ is 12.

# %% ask-without
predict("06/which-can-go")

# %% parameters [markdown] below="The matrices are the"
# The matrices are the [**parameters**](glossary.ipynb#parameter) of an `nn.Module`:
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


# %% the-loop [markdown] above="All tokens share the" below=["We train the layer", "We train the layer"]
# All tokens share the same three matrices, which have one row for each feature of a token.
#
# We train the layer on random weeks, 32 at a time, with cross-entropy as the loss.


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

# %% all-three [markdown] above="After 300 steps, every" below="Now we train the"
# A random guess is right in a fifth of the cases.
# After 300 steps, every answer is correct.
#
# Now we train the layers of your prediction: without $W_K$, without $W_V$, and without both.

# %% see-without
# %%answer 06/which-can-go
same = torch.eye(12)  # x @ same is x ...
numbers = same[:, 7:]  # ... and x @ numbers its last five features


def fixed(matrix):  # training does not change it
    return nn.Parameter(matrix, requires_grad=False)


torch.manual_seed(0)
no_key, no_value = SelfAttention(12, 12, 5), SelfAttention(12, 2, 5)
neither = SelfAttention(12, 12, 5)
no_key.W_key = neither.W_key = fixed(same)
no_value.W_value = neither.W_value = fixed(numbers)
shares = [accuracy(train(layer)) for layer in (no_key, no_value, neither)]
Table(["without W_K", "without W_V", "without both"], days, torch.stack(shares))

# %% read-without [markdown] above="So for this task" answers="06/which-can-go"
# All of them answer for all seven days.
# A query that is made by a matrix can say which features of a token it looks for,
# and the numbers can be handed over as they are.
# So for this task, one matrix would be enough.

# %% one-matrix [markdown] below="Now one trained matrix"
# ## One matrix for both
#
# Now one trained matrix makes both the query and the key, so $W_Q = W_K$.
# We train four such layers, from different random starts.
# For comparison, one layer takes the tokens themselves as queries and keys,
# and in another all scores are 0, so its output is a plain average.

# %% ask-one-matrix
predict("06/one-matrix-for-both")

# %% see-one-matrix
# %%answer 06/one-matrix-for-both
layers = {}
for seed in range(4):
    torch.manual_seed(seed)
    layer = SelfAttention(12, 2, 5)
    layer.W_key = layer.W_query  # one parameter under two names
    layers[f"one for both, start {seed}"] = layer

for name, matrix in (("tokens as they are", same), ("equal weights", 0 * same)):
    layer = SelfAttention(12, 12, 5)
    layer.W_query, layer.W_key = fixed(matrix), fixed(same)
    layers[name] = layer
shares = [accuracy(train(layer)) for layer in layers.values()]
Table(list(layers), days, torch.stack(shares))

# %% the-chain [markdown] above="With one matrix for" answers="06/one-matrix-for-both"
# With one matrix for both, at most six days find the answer.
# In each of the four runs, one day does no better than guessing.
# A plain average beats guessing: it names a number that is most frequent in the week.
#
# The reason is symmetry.
# With one matrix, the score of `Mon` for `Tue` is also the score of `Tue` for `Mon`,
# so each pair of neighbouring days has a single score.
# `Tue` has to look at `Wed` and not at `Mon`, so Tue-Wed needs a larger score than Mon-Tue.
# In the same way, Wed-Thu needs a larger score than Tue-Wed, and so on, all the way round the week.
# In the end Mon-Tue would have to be larger than itself, which is impossible.
# **In every week, at least one day gives the day before at least as much weight as the next.**
# If all days but the next share another number,
# this day gives that number more weight than the correct one.

# %% what-the-numbers-of-a-matrix-mean [markdown] below=["Even if the table", "We can multiply $W_Q$"]
# ## What the numbers of a matrix mean
#
# Even if the table of scores is fixed, the numbers in $W_Q$ are not.
# Let us write out a raw score:
#
# $$q_i \cdot k_j = (x_i W_Q)(x_j W_K)^\top = x_i \left(W_Q W_K^\top\right) x_j^\top$$
#
# The two matrices meet only in the product $M = W_Q W_K^\top$,
# so all pairs with the same product give the same raw scores, up to rounding.
# We can multiply $W_Q$ by *any* invertible matrix $A$ if we also multiply $W_K$ by the transpose of
# $A^{-1}$.
#
# $$(W_Q A)\left(W_K (A^{-1})^\top\right)^\top = W_Q\, A\, A^{-1}\, W_K^\top = W_Q W_K^\top$$

# %% watch-it [markdown] below="Watch the picture on"
# ### Turn it and shear it
#
# With $d_k = 2$ we can draw what `two` has learned, as we drew the circle.
# (The points are averages over the five numbers.)
# The sliders turn and shear $W_Q$ by a matrix $A$, and change $W_K$ accordingly.
# Watch the picture on the left, and then the scores on the right.

# %% explore-product jupyter={"source_hidden": true}
from math import cos, radians, sin

from attnlab.explorers import live

# a projection is linear, so a token with 1/5 for each number gives the average over the numbers
each_day = torch.cat([torch.eye(7), torch.full((7, 5), 1 / 5)], dim=-1)  # (7, 12)
trained_Q, trained_K = two.W_query.detach(), two.W_key.detach()


def draw_product(fig, turn, shear):
    c, s = cos(radians(turn)), sin(radians(turn))
    A = torch.tensor([[c, s], [-s, c]]) @ torch.tensor([[1.0, shear], [0.0, 1.0]])
    new_Q, new_K = trained_Q @ A, trained_K @ A.inverse().T
    queries, keys = each_day @ new_Q, each_day @ new_K
    left, right = fig.subplots(1, 2)
    draw_plane(left, queries, keys, reach=9.5)
    left.set_title("queries and keys", fontsize=10)
    plot_scores(queries @ keys.T, ax=right, queries=days, keys=days)
    right.set_title("raw scores", fontsize=10)
    row = ", ".join(f"{number:.1f}" for number in new_Q[0])
    return f"The row of Mon in the new matrix for queries: <b>{row}</b>"


alt = "Left: queries as arrows, keys as dots. Right: the raw scores of seven days."
moves = {"turn": list(range(0, 181, 30)), "shear": [-1.0, -0.5, 0.0, 0.5, 1.0]}
live(
    draw_product, start={"turn": 0, "shear": 0.0}, figsize=(7.8, 3.8), alt=alt, **moves
)

# %% same-product [markdown] above="Queries and keys move"
# Queries and keys move, yet no score changes.
# So a single number of $W_Q$ need not mean anything by itself.
# What a token looks for can be read from the product $x_i M x_j^\top$, on the right: in every row,
# the next day has the largest score.

# %% the-answer [markdown] end="So our task needs"
# ## So why three matrices?
#
# If the tokens themselves are queries and keys, each day prefers itself,
# and even a plain average finds more answers.
# If the same row is query and key, the scores are symmetric,
# and the seven days cannot all prefer the next day to the one before.
# So our task needs queries that are made differently from the keys.
#
# For that, one matrix in the score is enough: $M$ itself, with the tokens as keys.
# But two thin matrices, $W_Q$ and $W_K$, do the same with 48 numbers instead of 144.
# The third matrix chooses what is handed over.
# Our task could do without it, because we knew which features hold the number.

# %% further [markdown]
# ## Further
#
# ### One number for each query and key
#
# How small may $d_k$ be?
# With $d_k = 1$, each query and each key is a single number.

# %% one-number
torch.manual_seed(0)
line = train(SelfAttention(12, 1, 5))
Table(["d_k = 1"], days, accuracy(line)[None])

# %% one-number-read [markdown]
# Only two days are always right.
# A raw score is now a product of two numbers.
# A positive query has its largest score for the largest key, and a negative query for the smallest.
# No other key can win, so the other five days spread their weight.

# %% remember [markdown] end=["$W_Q$, $W_K$ and", "With the same matrix", "Raw scores depend only"]
# ## What to remember
#
# - $W_Q$, $W_K$ and $W_V$ make three rows from each token: what it asks for, how it is found,
#   and what it hands over.
#   All tokens share them, so their size does not depend on the length of the sequence.
# - With the same matrix for query and key, the scores are symmetric.
#   Then seven days in a circle cannot all prefer the next day to the day before.
#   One matrix in the score is enough to avoid this; our two thin ones need fewer numbers.
# - Raw scores depend only on the product $W_Q W_K^\top$.
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
from attnlab.exercises import check_linear_from, check_parameter_count
from attnlab.exercises import check_same_scores


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
# Somebody gives you the matrices $W_Q$ and $W_K$ of one trained layer, and those of another.
# Both layers take tokens with the same number of features, but their $d_k$ may differ.
# Write a function that returns True if the two layers have the same attention scores for *all*
# tokens, and False otherwise.
# Each layer divides its scores by the root of its own $d_k$.
# Scores that differ by rounding only count as equal.
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
    return torch.allclose(table, other_table, atol=1e-5)


check_same_scores(same_scores_solution)

# %% exercise-4 [markdown]
# ### 4 · Explore ★★ (8 minutes)
#
# Now the hotel asks: *how many guests arrived yesterday?*
# Change the layer that we made by hand so that it answers this question,
# without changing any of the numbers in its matrices.
# Then try the same with the layer `two`,
# and with a layer `another` that you train in the same way after `torch.manual_seed(1)`.
# For how many days is each of the two right in every week of `test_weeks`?
# Why does training guarantee neither number?
#
# <details><summary>An answer</summary>
#
# Swap $W_Q$ and $W_K$.
# The table of scores is then transposed: what `Mon` had for `Tue`, `Tue` now has for `Mon`.
# In the layer made by hand, the next day has the largest score in each row,
# and the day before has the largest score in each column, so all seven days are right.
# Of the trained layers, all seven days of `another` are right, and six of `two`.
# The loss compared the scores of each *row*.
# It never compared the scores of a column, which belong to seven different queries,
# so nothing forces the day before to win there.
# </details>

# %% exchange tags=["solution"]
torch.manual_seed(1)
another = train(SelfAttention(12, 2, 5))
by_hand = week @ W_key @ (week @ W_query).T
print([days[i] for i in by_hand.argmax(dim=-1)])
yesterday = test_answers.roll(2, dims=1)
for layer in (two, another):
    swapped = SelfAttention(12, 2, 5)
    swapped.W_query, swapped.W_key = layer.W_key, layer.W_query
    swapped.W_value = layer.W_value
    right = swapped(test_weeks)[0].argmax(dim=-1) == yesterday
    print("days always right:", right.all(dim=0).sum().item())

# %% in-torch [markdown] below="A projection is usually"
# ## In torch
#
# A projection is usually written with `nn.Linear`.
# It stores its matrix transposed, with one *row* for each output feature, and calls it `weight`.
# Unless told otherwise, it also adds a bias.

# %% linear
q_proj = nn.Linear(12, 2, bias=False)
with torch.no_grad():  # copying is not a step of training
    q_proj.weight.copy_(two.W_query.T)
print("our matrix:", tuple(two.W_query.shape), " weight:", tuple(q_proj.weight.shape))
print("same queries:", torch.allclose(q_proj(week), week @ two.W_query, atol=1e-5))

# %% three-in-one [markdown] below="`attnlab.SelfAttention` is self-attention with"
# If you forget the `.T`, `copy_` raises an error here.
# With a square matrix you would silently get a different layer.
#
# `attnlab.SelfAttention` is self-attention with three such layers.
# In [cross-attention](glossary.ipynb#cross-attention), the queries come from one text,
# and the keys and values from another.
# `nn.MultiheadAttention` does both, and so it is called with three arguments.

# %% one-head
from attnlab import SelfAttention as OneHead

one_head = OneHead(embed_dim=12, out_dim=2)(week[None])
one_head.output.shape, one_head.weights.shape  # (N, L, E) and (N, H, L, S)

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.2.2.
# - Raschka,
#   [Build a Large Language Model (From Scratch)](https://github.com/rasbt/LLMs-from-scratch), 2024,
#   chapter 3: the two classes, with `nn.Parameter` and with `nn.Linear`.
# - Elhage et al.,
#   [A Mathematical Framework for Transformer Circuits](https://transformer-circuits.pub/2021/framework/index.html),
#   2021: our $W_Q W_K^\top$ is their $W_Q^\top W_K$, because their vectors are columns.

# %% next [markdown]
# ## Next
#
# With one head, a layer has a single row of weights for each query.
# For two questions, such as tomorrow's guests and yesterday's, it usually has several heads:
# lesson 7, [Multi-head attention](07_multi_head_reshaping_without_scrambling.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 44 minutes, and where a class stalls</summary>
#
# **44 minutes.**
# The week and the map of the tokens as they are: 7.
# The three matrices by hand, and the circle: 8.
# The class and its training: 5.
# Which matrices are needed: 7.
# One matrix for both, and the chain: 7.
# The product and the sliders: 8.
# The answer: 2.
#
# **Where a class stalls.**
#
# - *“The query is the day, isn't it?”*
#   Have seven people stand in a circle.
#   Each holds a card with a name (the key) and another with a number (the value),
#   and points at the next person (the query).
# - *Why one matrix for both is not enough.*
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
