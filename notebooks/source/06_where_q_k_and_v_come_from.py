# %% opening [markdown]
# # 6 · Where Q, K and V come from
#
# In lesson 1, one row of numbers did three jobs for each word. It was the query that the word asked with, the key that
# it was found by, and the value that it handed over. A real layer makes three different rows from each token, and it
# uses three matrices to do so. Why three matrices? Why not use the tokens themselves?
#
# You will meet a small task that attention cannot solve as long as the tokens themselves are the queries and the keys.
# You will then fill in three matrices by hand, let training find its own, and look at what it has found. Our queries
# and keys have only two features, so you can draw them as points in the plane and watch them move.
#
# **You need** lesson 1: queries, keys, values, scores and weights. You should also know how a layer is trained in
# PyTorch (the loss, its gradients, the steps of an optimizer) and what the inverse of a matrix is.
#
# **You will be able to**
# - say what each of the three matrices is for,
# - write self-attention as a class that can be trained, and count its parameters,
# - read from the trained matrices what a token looks for,
# - describe changes to the matrices that leave every score as it was.
#
# **Time:** 45 minutes in class, 75 on your own.

# %% setup
import torch
import torch.nn.functional as F
from attnlab import Table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.plotting import plot_attention, plot_heads
from torch import nn

lesson_setup()

# %% a-week [markdown]
# ## One question for each day
#
# A small hotel has written down how many guests arrive on each day of the week. Every number is between 0 and 4. Each
# day is a token with twelve features: one of the first seven is 1 and shows which day it is, and one of the last five
# is 1 and shows how many guests arrive. All other features are 0. The folded cell makes random weeks of this kind;
# below it is one of them.

# %% make-weeks jupyter={"source_hidden": true}
days = "Mon Tue Wed Thu Fri Sat Sun".split()


def make_weeks(count):
    """Return random weeks (count, 7, 12) and, for each day, tomorrow's number."""
    number = torch.randint(5, (count, 7))
    day = torch.eye(7).expand(count, 7, 7)
    tokens = torch.cat([day, F.one_hot(number, 5)], dim=-1)
    return tokens, number.roll(-1, dims=1)  # Sun gets the number of Mon


def accuracy(layer):
    """Return, for each day, the share of correct answers in 2,000 random weeks. (7,)"""
    torch.manual_seed(1)
    tokens, answers = make_weeks(2000)
    return (layer(tokens)[0].argmax(dim=-1) == answers).float().mean(dim=0)


# %% one-week
torch.manual_seed(34)
[week], [answer] = make_weeks(1)  # unpacks a batch of one week: (7, 12) and (7,)
labels = [f"{day} {row[7:].argmax()}" for day, row in zip(days, week, strict=True)]
Table(labels, [*days, *"01234"], week)

# %% the-question [markdown]
# Every day is asked the same question: *how many guests arrive tomorrow?* The correct answer for `Mon` is the number
# for `Tue`, and so on. Assume that the same seven numbers repeat week after week, so `Sun` has to find the number for
# `Mon`. One layer of attention should answer for all seven days at once. (The layer does not know which token comes
# next in the list; it sees only the features.)
#
# Let us first use the tokens themselves as queries and keys, as in lesson 1.

# %% tokens-as-they-are
as_they_are = (week @ week.T / 12**0.5).softmax(dim=-1)  # (L, L)
show_figure(plot_attention(as_they_are, queries=labels, keys=labels), "6.1")

# %% why-it-fails [markdown]
# Each day gives its largest weight to itself, because no other token has as much in common with it. The only thing it
# notices about the other days is whether they have the same number. `Mon` cannot tell that `Tue` is the next day and
# `Wed` is not, and no choice of values can fix that in this layer: a value decides what a token hands over, but not
# which token receives it.
#
# There is a second problem. A dot product does not change when its two vectors are swapped, so `Tue` has the same score
# for `Mon` as `Mon` has for `Tue`. But `Mon` should look at `Tue`, and `Tue` should look at `Wed` instead.
#
# So we give `Mon` three different rows: a query that says “I am looking for Tuesday”, a key that says “I am Monday”,
# and a value that says how many guests arrive.
#
# ## Three rows from one
#
# The usual way to make a new row from a token is a [**projection**](glossary.ipynb#projection): we multiply the token
# $x$ by a matrix. Attention in which queries, keys and values are all made from the same tokens is called
# *self-attention*. It has one matrix for each role:
#
# $$q = x\, W_Q \qquad k = x\, W_K \qquad v = x\, W_V$$

# %% drawing jupyter={"source_hidden": true}
from attnlab.diagrams import draw_projections

show_figure(draw_projections(), "6.2")

# %% widths [markdown]
# All tokens share the same three matrices, so if $x$ holds a whole week, one token in each row, $x\, W_Q$ holds all
# seven queries. Each matrix has one row for every feature of a token. The number of features is $d_{in}$; in our case
# it is 12. Queries and keys must have the same number of features, $d_k$, because we take dot products of them. Values
# are never compared with anything, so their number of features, $d_v$, may be different. (In lesson 1 the token was its
# own query, so $d_k$ was also the width of a token.)
#
# With our tokens you can read the result of a projection straight from the matrix. A token has a 1 in two places, so
# $x\,W_Q$ is the sum of two rows of $W_Q$: the row of its day and the row of its number. That is why we can fill in the
# matrices by hand. We choose $d_k = 2$ and place the seven days on a circle, like the hours on a clock. The radius is
# 4, because longer vectors give larger scores, which make the weights sharper. (With radius 1, the next day would get a
# weight of only 0.26.)

# %% by-hand
angle = 2 * torch.pi * torch.arange(7) / 7
place = 4 * torch.stack([angle.cos(), angle.sin()], dim=-1)  # (7, 2)
W_query, W_key, W_value = torch.zeros(12, 2), torch.zeros(12, 2), torch.zeros(12, 5)
W_key[:7] = place  # a day is found at its own place ...
W_query[:7] = place.roll(-1, dims=0)  # ... its query is at the next day's place ...
W_value[7:] = torch.eye(5)  # ... and it hands over its number

# %% three-rows
query, key, value = week @ W_query, week @ W_key, week @ W_value
print("query of Mon", query[0])
print("key of Tue  ", key[1])
print("value of Tue", value[1])

# %% ask-back [markdown]
# The query of `Mon` is equal to the key of `Tue`. Both vectors have length 4, so their raw score is 16, and the score
# of `Mon` for `Tue` is $16/\sqrt{2} \approx 11.3$.

# %% ask-tuesday
predict("06/tuesday-asks-monday")

# %% see-tuesday
# %%answer 06/tuesday-asks-monday
scores = query @ key.T / 2**0.5  # (L, L)
weights = scores.softmax(dim=-1)
print("Mon for Tue:", scores[0, 1], " Tue for Mon:", scores[1, 0])
show_figure(plot_attention(weights, queries=labels, keys=labels), "6.3")

# %% average-them [markdown]
# The last step is the usual one: we average the values, using the weights. Each row of the output has one entry for
# each number from 0 to 4, and the largest entry is the answer for that day.

# %% output
output = weights @ value  # (L, d_v)
output, output.argmax(dim=-1), answer

# %% learned [markdown]
# All seven answers are correct.
#
# ## Let training find the matrices
#
# We were able to write down the matrices because we had named the features and knew what to look for. In a trained
# model the features have no names. Its matrices begin as random numbers, and training changes them step by step. (Here
# the initial numbers are drawn between $-1/\sqrt{12}$ and $1/\sqrt{12}$, as they are in PyTorch's `nn.Linear`.)
#
# To train the matrices, PyTorch must know which tensors it may change. An `nn.Module` keeps a list of its
# [**parameters**](glossary.ipynb#parameter). To put a tensor on the list, wrap it in `nn.Parameter` and assign it to an
# attribute. Wrapping also sets `requires_grad=True`, so gradients are computed for it. In the class below, `__init__`
# runs once and makes the matrices. Calling the layer runs `forward`, which contains the same computation as before. It
# works for a single week and for a batch of weeks alike.


# %% the-class
def random_matrix(d_in, d_out):
    return nn.Parameter((2 * torch.rand(d_in, d_out) - 1) / d_in**0.5)


class WithMatrices(nn.Module):
    """Self-attention. (..., L, d_in) -> output (..., L, d_v), weights (..., L, L)."""

    def __init__(self, d_in, d_k, d_v):
        super().__init__()
        self.W_query = random_matrix(d_in, d_k)
        self.W_key = random_matrix(d_in, d_k)
        self.W_value = random_matrix(d_in, d_v)

    def forward(self, x):
        query, key, value = x @ self.W_query, x @ self.W_key, x @ self.W_value
        scores = query @ key.mT / key.shape[-1] ** 0.5  # .T would reverse all axes
        weights = scores.softmax(dim=-1)
        return weights @ value, weights


def new_layer(seed=0):
    torch.manual_seed(seed)
    return WithMatrices(12, 2, 5)


# %% ask-parameters
predict("06/parameters-for-700-tokens")

# %% see-parameters
# %%answer 06/parameters-for-700-tokens
for length in (7, 700):
    untrained = WithMatrices(12, 2, 5)
    count = sum(parameter.numel() for parameter in untrained.parameters())
    print(count, untrained(torch.rand(length, 12))[0].shape)

# %% the-loop [markdown]
# Now we train the layer on random weeks, 32 at a time. For each day, the loss (`cross_entropy`) is small if the entry
# for the correct answer is much larger than the other four entries of the output. In every step, `backward` computes
# the gradients of this loss, and the optimizer then changes each parameter a little so that the loss falls. The loss
# does not mention attention at all: nothing tells the layer which day to look at, or in which order the days follow
# each other. The list `copies` will hold the layer before training and after every 20 steps. The function `accuracy`,
# defined in the folded cell at the top, tests a layer on 2,000 random weeks and returns the share of correct answers
# for each day.

# %% train
from copy import deepcopy


def train(layer, steps=300):
    torch.manual_seed(0)  # the same weeks for every layer
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    copies = [deepcopy(layer)]
    for step in range(1, steps + 1):
        tokens, answers = make_weeks(32)  # (32, 7, 12) and (32, 7)
        output, _ = layer(tokens)  # (32, 7, 5)
        loss = F.cross_entropy(output.flatten(0, 1), answers.flatten())  # 224 rows
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            copies.append(deepcopy(layer))
    return copies


# %% train-two
two = new_layer()
copies = train(two)
accuracy(copies[0]).mean(), accuracy(two).mean()

# %% which-matrices [markdown]
# Before training, the layer does no better than guessing, which is correct in a fifth of the cases. After 300 steps,
# every answer is correct.
#
# ## Do queries and keys need different matrices?
#
# We train four more layers on the same weeks. All of them learn a $W_V$, so the names count only the matrices for
# queries and keys. The layer that we have already trained, `two`, is therefore called *two matrices*.
#
# - *Equal weights*: $W_Q$ stays 0, so all scores are 0 and the layer takes a plain average.
# - *No matrices*: $W_Q$ and $W_K$ are set to the identity matrix and not trained, so every token is its own query and
#   key, as in Figure 6.1.
# - *One for both*: query and key share one matrix, $W_Q = W_K$, which is trained.
# - *Queries only*: $W_Q$ has 12 rows and 12 columns and is trained, and the tokens themselves are the keys.

# %% ask-one-matrix
predict("06/one-matrix-for-both")

# %% see-one-matrix
# %%answer 06/one-matrix-for-both
equal, as_is, one, one_sided = (new_layer() for _ in range(4))
equal.W_query = nn.Parameter(torch.zeros(12, 2), requires_grad=False)
as_is.W_query = as_is.W_key = nn.Parameter(torch.eye(12), requires_grad=False)
one.W_key = one.W_query  # the same parameter under two names
one_sided.W_query, one_sided.W_key = random_matrix(12, 12), as_is.W_key
for layer in (equal, as_is, one, one_sided):
    train(layer)
shares = torch.stack([accuracy(layer) for layer in (equal, as_is, one, one_sided, two)])
names = ["equal weights", "no matrices", "one for both", "queries only", "two matrices"]
Table(names, days, shares)

# %% trained-maps
# %%answer 06/one-matrix-for-both
of_week = torch.stack([layer(week)[1] for layer in (one, two)]).detach()
figure = plot_heads(of_week, queries=labels, keys=labels, titles=names[2::2])
figure.set_figheight(3.4)
show_figure(figure, "6.4")

# %% the-controls [markdown]
# The first two rows of the table show how well two layers do without knowing where to look. A plain average of all
# values finds the number that occurs most often in the week, and this number is the correct answer in about 41% of the
# cases. The layer with no matrices does worse, because each day gives extra weight to its own number, which says
# nothing about that of the next day.
#
# ## What the matrices have learned
#
# With $d_k = 2$, we can draw what has been learned. A query is the sum of two rows of $W_Q$, for the day and for the
# number. After training, the last five rows of $W_Q$ hardly differ from one another, nor do those of $W_K$. So we draw
# one arrow for each day, the average of its five queries, and one dot, the average of its five keys. (The tensor
# `each_day` holds the seven days, with 1/5 for each number.)
#
# ### Watch it learn
#
# The picture shows the layer after 100 steps. Move the slider back to step 0, and then all the way to step 300. Which
# day is the last to find the next day, and how does the picture show it? (Points very close to the origin have no
# name.) And what still changes once every answer is correct?

# %% plane jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
from attnlab.palette import BLUE, ORANGE

PATCH = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # behind a word


def draw_plane(ax, layer):  # queries as arrows, keys as dots
    queries, keys = each_day @ layer.W_query, each_day @ layer.W_key
    for day, start, end in zip(days, keys.tolist(), queries.tolist(), strict=True):
        ax.plot(*start, "o", color=BLUE, markersize=9, zorder=5)
        place_word(ax, start, day, 1, 0.9, color=BLUE, weight="bold")
        arrow = {"arrowstyle": "-|>", "color": ORANGE, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", xy=end, xytext=(0, 0), arrowprops=arrow, zorder=6)
        place_word(ax, end, day, 0.62, 0, color=ORANGE, bbox=PATCH)
    ax.set(xlim=(-5.9, 5.9), ylim=(-5.9, 5.9), aspect="equal")
    ax.set(xlabel="first feature", ylabel="second feature")


def place_word(ax, point, word, factor, further, **look):
    length = (point[0] ** 2 + point[1] ** 2) ** 0.5
    if length > 0.6:  # near the origin the words would hide each other
        scale = max(factor + further / length, 1.2 / length)
        x, y = scale * point[0], scale * point[1]
        ax.text(x, y, word, ha="center", va="center", fontsize=9, zorder=7, **look)


def plot_planes(*layers):
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.9), layout="constrained")
    for ax, layer, number in zip(axes, layers, ("first", "second"), strict=True):
        draw_plane(ax, layer)
        ax.set_title(f"{number} run")
    return figure


# %% explore-training
from attnlab.live import live

each_day = torch.cat([torch.eye(7), torch.full((7, 5), 1 / 5)], dim=-1)  # (7, 12)


def draw_training(fig, step):
    layer = copies[step // 20]
    left, right = fig.subplots(1, 2)
    draw_plane(left, layer)
    shown = layer(week)[1]
    plot_attention(shown, ax=right, queries=labels, keys=labels, annotate=False)
    return f"Correct answers after {step} steps: <b>{accuracy(layer).mean():.0%}</b>"


alt = "Left: queries as arrows, keys as dots. Right: the attention weights of one week."
steps = list(range(0, 301, 20))
live(draw_training, start={"step": 100}, step=steps, figsize=(7.5, 3.8), alt=alt)

# %% explore-training-answer [markdown]
# <details><summary>What you see</summary>
#
# At first all points lie near the origin, so all scores are near 0. The dots then spread out into a circle, and the
# arrows turn towards them. `Fri` comes last: up to step 60 its arrow stays short while the others grow (at step 40 it
# is the only one without a name), so its scores stay small and its row of the map stays pale. Even after every answer
# is correct, the points keep moving outwards. Longer vectors have larger dot products, so the weights become a little
# sharper. After 300 steps every arrow points at the dot of the next day, or close to it.
# </details>

# %% ask-again
predict("06/another-initialisation")

# %% see-again
# %%answer 06/another-initialisation
another = new_layer(seed=1)
train(another)
print(f"share of correct answers of the other layer: {accuracy(another).mean():.2f}")
show_figure(plot_planes(two, another), "6.5")

# %% only-the-product [markdown]
# ## What the numbers of a matrix mean
#
# The second run found different matrices, and its scores are different too. But even for one and the same table of
# scores, the individual numbers in $W_Q$ are not determined. To see this, let us write out a raw score:
#
# $$q_i \cdot k_j = (x_i W_Q)(x_j W_K)^\top = x_i \left(W_Q W_K^\top\right) x_j^\top$$
#
# The two matrices meet only in the product $M = W_Q W_K^\top$, so all pairs of matrices with the same product give the
# same scores. You can multiply $W_Q$ by *any* invertible matrix $A$, provided that you also multiply $W_K$ by the
# transpose of $A^{-1}$. Transposing a product swaps its factors, so $A$ and $A^{-1}$ meet and cancel:
#
# $$(W_Q A)\left(W_K (A^{-1})^\top\right)^\top = W_Q\, A\, A^{-1}\, W_K^\top = W_Q W_K^\top$$

# %% another-pair
A = torch.tensor([[2.0, 1.0], [0.0, 1.0]])  # any invertible matrix
trained_Q, trained_K = two.W_query.detach(), two.W_key.detach()
new_Q, new_K = trained_Q @ A, trained_K @ A.inverse().T
M = trained_Q @ trained_K.T
assert torch.allclose(new_Q @ new_K.T, M, atol=1e-4)
print("row of Mon in W_Q:", trained_Q[0], "now", new_Q[0])
raw_scores = each_day @ M @ each_day.T  # (7, 7), averaged over the numbers
print("largest raw score:", [days[i] for i in raw_scores.argmax(dim=-1)])
Table(["Mon"], days, raw_scores[:1])

# %% read-the-product [markdown]
# Every query and every key is different now, yet no score has changed. So an individual number of $W_Q$, or one of its
# columns, need not mean anything by itself. The scores tell us more: `Mon` has its largest raw score for `Tue`, and in
# every row the largest belongs to the next day. If $A$ is [**orthogonal**](glossary.ipynb#orthogonal), which means that
# it only turns or reflects the plane, the transpose of its inverse is $A$ itself: turn all arrows and all dots
# together, and no score changes.
#
# The product also shows how many numbers we save. $M$ has $12 \cdot 12 = 144$ numbers, and we have written it as the
# product of two thin matrices of 24 numbers each. The layer *queries only* has to use a matrix as large as $M$. (The
# price is that not every table can be written as a product of two thin matrices.)
#
# ## The same layer with `nn.Linear`
#
# The usual way to write a projection in PyTorch is `nn.Linear`. It stores its matrix transposed, with one *row* for
# each output feature, and calls it `weight`. Unless told otherwise, it also adds a trainable vector, the
# [**bias**](glossary.ipynb#bias), to each result.


# %% with-linear
class WithLinear(nn.Module):
    """The same layer with nn.Linear."""

    def __init__(self, d_in, d_k, d_v, bias=False):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_k, bias=bias)
        self.k_proj = nn.Linear(d_in, d_k, bias=bias)
        self.v_proj = nn.Linear(d_in, d_v, bias=bias)

    def forward(self, x):
        query, key, value = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        weights = (query @ key.mT / key.shape[-1] ** 0.5).softmax(dim=-1)
        return weights @ value, weights


# %% copy-the-matrices
linear = WithLinear(12, 2, 5)
with torch.no_grad():  # copying is not a step of training
    for theirs, ours in zip(linear.parameters(), two.parameters(), strict=True):
        theirs.copy_(ours.T)  # both list query, key and value in this order
assert torch.allclose(linear(week)[0], two(week)[0], atol=1e-5)
two.W_query.shape, linear.q_proj.weight.shape

# %% the-answer [markdown]
# With the same numbers the two classes give the same output. Each matrix has to be transposed when it is copied. If you
# forget the `.T`, `copy_` raises an error here, but with a square matrix you would silently get a different layer.
# `attnlab.SelfAttention` is such a class for $d_k = d_v$, with masks and checks added.
#
# ## So why three matrices?
#
# A token plays three parts, which may have nothing in common. Our `Mon` asks for Tuesday, is found as Monday, and hands
# over a number. If our tokens themselves are queries and keys, each of them looks most at itself. If one matrix makes
# both, the score of `Mon` for `Tue` is also that of `Tue` for `Mon`, and then not every day of the week can prefer the
# next day to the one before. So, for our question, a query has to be made in a different way from a key. One trained
# matrix is enough for that if the tokens themselves serve as keys. But two thin matrices do the same with 48 numbers
# instead of 144, and they let us choose $d_k$.
#
# The third matrix chooses what is handed over: it leaves out the day, and it lets the output have a width of its own.
# (Our task could do without it, because the last five features of a token are its number.) We did not have to tell the
# layer which day to look at. The loss depended on the right choice, so training found it.
#
# In this lesson one set of matrices asks one question. “How many guests arrive tomorrow, and how many arrived
# yesterday?” would be two questions. For that, a layer has several heads, which are the subject of lesson 7.

# %% further [markdown]
# ## Further
#
# This section contains four side topics. You can skip it and go on to **What to remember**.
#
# ### `.T` for a batch
#
# For one sequence, `key.T` is correct. For a batch it is not, because `.T` reverses the order of *all* axes. Here the
# product raises an error. (PyTorch also issues a warning, but the lesson switches it off.)

# %% t-on-a-batch tags=["raises-exception"]
import warnings

batch = torch.stack([week, week, week])  # (N, L, d_in) = (3, 7, 12)
three_queries, three_keys = batch @ W_query, batch @ W_key  # (3, 7, 2)
with warnings.catch_warnings(action="ignore"):
    print("reversed:", three_keys.T.shape)
    three_queries @ three_keys.T

# %% t-silent [markdown]
# We were lucky to get an error. Take four sequences of four tokens and let $d_k = 4$: now all axes have the same
# length.

# %% t-silent-code
torch.manual_seed(0)
four_queries, four_keys = torch.randn(2, 4, 4, 4)  # (N, L, d_k) each
with warnings.catch_warnings(action="ignore"):
    wrong, correct = four_queries @ four_keys.T, four_queries @ four_keys.mT
wrong.shape == correct.shape, (wrong - correct).abs().max()

# %% t-advice [markdown]
# The shape is as it should be, but the scores are wrong: they mix different sequences. For a batch, write `key.mT` or
# `key.transpose(-2, -1)`, which swap the last two axes. And test your code with sizes that are all different.
#
# ### Matrices of zeros
#
# A common test feeds a few tokens to a layer and looks at the shapes. What does it find if all matrices are zero?

# %% zeros
empty = new_layer()
for parameter in empty.parameters():
    nn.init.zeros_(parameter)
with torch.no_grad():
    nothing, same = empty(week)
nothing.shape, same.sum(dim=-1), nothing[:2]

# %% zeros-read [markdown]
# All shapes are correct and all rows of weights sum to 1, but every token gets the same output. So a test must look
# beyond the shape. In exercise 4 you will write one.
#
# Zeros are also a bad place to start. A raw score is the dot product of a query and a key, so its gradient with respect
# to the query is the key, and the other way round. If $W_Q$ and $W_K$ are both zero, all queries and all keys are zero.
# Then the gradients of both matrices are zero as well, at every step, and only $W_V$ is trained.

# %% zeros-learn
stuck = new_layer()
nn.init.zeros_(stuck.W_query)
nn.init.zeros_(stuck.W_key)
train(stuck)
for name, parameter in stuck.named_parameters():
    print(f"{name:8}largest absolute value {parameter.abs().max():.2f}")

# %% bias-text [markdown]
# ### A bias that does nothing
#
# If the keys have a bias $b$, each score of query $q_i$ gains the same number, $q_i \cdot b$ divided by $\sqrt{d_k}$.
# The softmax ignores a number that is added to a whole row, so the bias of the keys changes no output, apart from
# rounding. (It can matter if something happens between the projection and the dot product. Many language models, for
# example, rotate each query and each key by angles that depend on its position in the text.)

# %% bias-of-keys
torch.manual_seed(0)
with_bias = WithLinear(12, 2, 5, bias=True)
unmoved = with_bias(week)[0]
with torch.no_grad():
    with_bias.k_proj.bias += 5
assert torch.allclose(with_bias(week)[0], unmoved, atol=1e-5)

# %% untrained-text [markdown]
# ### Do not interpret an untrained map
#
# Here are five words with eight features each, all of them positive. We draw $W_Q$ and $W_K$, of 8 rows and 4 columns
# each, a thousand times and count how often all five words give their largest weight to the same word. If each word
# chose one of the five at random, this would happen in fewer than 2 of 1,000 draws. We try three settings:
#
# - the entries of the matrices lie between 0 and 1 (`torch.rand`);
# - the entries are smaller and may have either sign, as in `nn.Linear`;
# - the entries lie between 0 and 1 again, but we subtract the mean of the five words from each word before we make its
#   query (the keys stay as they are).

# %% untrained
from attnlab import load_table

five_words = load_table("the_next_day_is_bright.csv")
five_words

# %% untrained-draws
words = five_words.values  # (L, d_in) = (5, 8)


def agreeing(asking, low, high):
    """Return the number of draws, of 1,000, in which all rows prefer the same key."""
    torch.manual_seed(0)
    draws_Q, draws_K = torch.empty(2, 1000, 8, 4).uniform_(low, high)
    raw_scores = (asking @ draws_Q) @ (words @ draws_K).mT  # (1000, L, L)
    preferred = raw_scores.argmax(dim=-1)  # (1000, L)
    return (preferred == preferred[:, :1]).all(dim=-1).sum().item()


limit, centred = 8**-0.5, words - words.mean(dim=0)
agreeing(words, 0, 1), agreeing(words, -limit, limit), agreeing(centred, 0, 1)

# %% untrained-read [markdown]
# In the first setting all five words agree in 973 of the 1,000 draws, in the second in 315, and in the third in none.
# To see why, write each query as the mean query $\bar q$ plus a deviation $r_i$. The raw score is then $\bar q \cdot
# k_j + r_i \cdot k_j$, and the first part is the same in every row. These five words have much in common, so $\bar q$
# is large compared with the deviations. If all entries of the matrices are positive, the first part nearly always
# decides which column wins. If the entries may have either sign, it does so in about a third of the draws. (Tokens that
# have less in common, such as our days, agree less often.)
#
# In the third setting, no column can win in all rows. Suppose that key $j$ did. The mean query is 0 here, so for every
# other key $l$ the product $r_i \cdot (k_j - k_l)$ would be positive in each of the five rows. But the $r_i$ are
# deviations from a mean, so they add up to 0, and so do the five products. They cannot all be positive. All this
# happens before any training. If every row of a map points to the same word, the part that the rows share may be the
# only reason.

# %% remember [markdown]
# ## What to remember
#
# - $W_Q$, $W_K$ and $W_V$ make three rows from each token: what it asks for, how it is found, and what it hands over.
#   All tokens share them, so their size does not depend on the length of the sequence.
# - With the same matrix for query and key, the scores are symmetric. The weights need not be, since each row has its
#   own softmax; but seven days in a circle cannot all prefer the next day to the day before.
# - Scores depend only on the product $W_Q W_K^\top$. Many pairs of matrices give the same scores, so the individual
#   numbers of a trained $W_Q$ need not mean anything.
# - `nn.Linear` stores the matrix transposed. With the same numbers it computes the same output.
# - For a batch, transpose the keys with `key.mT`, not with `key.T`.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Count ★ (3 minutes)
#
# A self-attention layer takes tokens with 12 features. Its queries and keys have 7 features, its values have 5, and all
# three projections have a bias. How many parameters does it have for a sentence of 9 words?
#
# <details><summary>Hint</summary>
#
# A projection has a matrix, whose size is inputs times outputs, and it has one bias for each output. Does the number of
# words matter?
# </details>

# %%
from attnlab.exercises import check_layer_test, check_linear_from
from attnlab.exercises import check_other_pair, check_parameter_count


# %% tags=["exercise"]
def parameter_count():
    """Return the number of parameters."""


# %%
check_parameter_count(parameter_count)


# %% tags=["solution"] jupyter={"source_hidden": true}
def parameter_count_solution():
    return 12 * (7 + 7 + 5) + (7 + 7 + 5)  # matrices, then biases; the words share them


check_parameter_count(parameter_count_solution)

# %% exercise-2 [markdown]
# ### 2 · Repair ★★ (6 minutes)
#
# `broken_linear` is supposed to make a linear layer that returns `x @ matrix`. It has three bugs. Write the repaired
# version as `linear_from`. If the layer is trained later, `matrix` must not change.
#
# <details><summary>Hint</summary>
#
# Print the shapes of the weight and of the matrix. What does the layer add to the product? If you make a parameter from
# a tensor, are the numbers copied?
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


# %% tags=["solution"] jupyter={"source_hidden": true}
def linear_from_solution(matrix):
    layer = nn.Linear(*matrix.shape, bias=False)
    layer.weight = nn.Parameter(matrix.T.clone())  # transposed, and a copy
    return layer


check_linear_from(linear_from_solution)

# %% exercise-3 [markdown]
# ### 3 · Modify ★★ (6 minutes)
#
# Given $W_Q$ and $W_K$, return two matrices of the same shapes that both differ from the given ones and yet give the
# same scores.
#
# <details><summary>Hint</summary>
#
# One answer is to multiply one of them by an invertible matrix and the other by the transpose of the inverse. There are
# shorter answers: how can a change in one matrix be undone by the other?
# </details>


# %% tags=["exercise"]
def other_pair(W_query, W_key):
    """Both (d_in, d_k) -> two other matrices of the same shape."""


# %%
check_other_pair(other_pair)


# %% tags=["solution"] jupyter={"source_hidden": true}
def other_pair_solution(W_query, W_key):
    return 2 * W_query, W_key / 2  # the product is the same


check_other_pair(other_pair_solution)

# %% exercise-4 [markdown]
# ### 4 · Implement ★★★ (12 minutes)
#
# Write a test that looks beyond the shape. Your function receives a layer that maps tokens (N, L, 8) to an output (N,
# L, 4). The layer returns only the output, not the weights. Your function should return True if two different tokens of
# a sentence get different outputs **and** the output of a token changes when another token does. Use tokens from
# `torch.randn`. For each of the five broken layers in the check it must return False.
#
# <details><summary>Hint</summary>
#
# You need two comparisons: outputs 0 and 1 of a sentence, and output 1 before and after you change token 0 only. (A
# token may look at earlier ones even in a layer with a causal mask.) If you test a single sentence, a working layer may
# fail by chance, because a weight can be nearly 0. So use several at once. Change a copy of the tokens, `x.clone()`.
# </details>


# %% tags=["exercise"]
def layer_test(layer):
    """Return True or False."""


# %%
check_layer_test(layer_test)


# %% layer-test-solution tags=["solution"] jupyter={"source_hidden": true}
def layer_test_solution(layer):
    x = torch.randn(20, 5, 8)  # 20 sentences: in a single one a weight may be nearly 0
    changed = x.clone()
    changed[:, 0] = torch.randn(20, 8)
    with torch.no_grad():
        before, after = layer(x), layer(changed)
    differ = not torch.allclose(before[:, 0], before[:, 1], atol=1e-5)
    listens = not torch.allclose(before[:, 1], after[:, 1], atol=1e-5)
    return differ and listens


check_layer_test(layer_test_solution)

# %% layer-test-limits [markdown]
# <details><summary>What such a test does not prove</summary>
#
# It does not prove that the layer attends. A layer that adds the mean of all values to each token's own value passes
# although it computes no weights. So do a layer that applies the softmax along the wrong axis, one that returns NaN
# everywhere, and one that only drops some features at random. Lesson 9 has stricter tests.
# </details>

# %% exercise-5 [markdown]
# ### 5 · Explain ★★ (8 minutes)
#
# The layer *queries only* gets every answer right without a $W_K$. “So $W_K$ is superfluous,” says a friend. Can a
# layer with two matrices do anything that this one cannot? And what would each of the two layers cost if the tokens had
# 512 features and $d_k$ were 64?
#
# <details><summary>An answer</summary>
#
# No: for any $W_Q$ and $W_K$ this layer can use the product $W_Q W_K^\top$ as its only matrix, and it gets the same raw
# scores. (Its keys have 12 features instead of 2, so the scores are divided by $\sqrt{12}$ instead of $\sqrt{2}$. If the
# matrix is multiplied by $\sqrt{6}$, that makes up for it.) But with 512 features the matrix has 262,144 numbers,
# whereas two thin ones have 65,536. Besides, each raw score is then a sum of 512 products instead of 64.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# Write `nn.Linear(d_in, d_out, bias=False)` three times. You can also write one `nn.Linear(d_in, 2 * d_k + d_v,
# bias=False)` and split its output into three parts: with the same numbers, the results agree up to rounding.
# `nn.MultiheadAttention` stacks its three matrices, the one for the query first, in `in_proj_weight` of shape $(3E,
# E)$, where $E$ is the width of a token. (It keeps three separate matrices if the tokens from which keys or values are
# made have a different width, which you pass as `kdim` or `vdim`.) It has biases unless told otherwise, and a fourth
# projection after the heads (lesson 7).

# %% torch-layer
module = nn.MultiheadAttention(12, num_heads=3, batch_first=True)
module.in_proj_weight.shape, module.in_proj_bias.shape

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.2.
# - Raschka, [Build a Large Language Model (From Scratch)](https://github.com/rasbt/LLMs-from-scratch), 2024, chapter 3:
#   the two classes, with `nn.Parameter` and with `nn.Linear`. The table of five words with eight features is an
#   extended version of one of his.
# - Elhage et al., [A Mathematical Framework for Transformer
#   Circuits](https://transformer-circuits.pub/2021/framework/index.html), 2021: our $W_Q W_K^\top$ is their $W_Q^\top
#   W_K$, because their vectors are columns.

# %% next [markdown]
# ## Next
#
# Lesson 7, [Multi-head attention](07_multi_head_reshaping_without_scrambling.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.** The week and the map of the tokens as they are: 7. The drawing and the three matrices by hand: 12. The
# class and its training: 9. The five layers: 6. The slider and the two planes: 8. `nn.Linear` and the answer: 3. You
# can leave out the section on the product $W_Q W_K^\top$.
#
# **Where a class stalls.**
#
# - *“The query is the day, isn't it?”* Have seven people stand in a circle. Each holds a card with a name (the key) and
#   another with a number (the value), and points at the next person (the query).
# - *Why one matrix is not enough.* Write the seven scores of neighbouring days round a circle on the board. If every
#   day preferred the next day to the previous one, each score would have to be larger than the one before it, all the
#   way round.
# - *Two transposes.* Transposing the keys is part of the computation: it swaps their last two axes, so that every query
#   meets every key. The transpose in `nn.Linear` is only a way of storing a matrix.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** A layer gets a longer sentence. What does it need? **Nothing new.** *More parameters* mistakes scores for
# parameters. *A larger $W_Q$* overlooks that its rows belong to features, not to tokens.
#
# **2.** What is the shape of `nn.Linear(8, 4).weight`? **(4, 8).** *(8, 4)* follows the order of the arguments. *(4,)*
# is the bias.
#
# **3.** Values have 5 features. How many do the queries have? **That is not determined.** *5* overlooks that values are
# never compared with queries. *As many as the token has* mistakes a projection for the token.
#
# **4.** $W_Q = W_K = 0$. What are the weights? **All equal.** *NaN* is what `softmax` returns for a row if all its
# scores are minus infinity. *The identity* would require a large score of each token with itself.
#
# **5.** Two training runs end with different $W_Q$. Do the layers attend differently? **We cannot tell.** *Yes* and
# *one of them has failed* overlook that many pairs of matrices have the same product.
# </details>
