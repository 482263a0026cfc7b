# %% opening [markdown] above="Why divide the dot products" end="Why divide the dot products"
# # 2 · Why divide by the square root of d_k
#
# Many implementations of attention contain a line like this one:
#
# ```python
# scores = query @ key.T / d_k**0.5
# ```
#
# Here `d_k` is the number of features of a query,
# which lesson 1 called E. Why divide the dot products by anything?
# And why by the square root of `d_k`, rather than by `d_k` itself?
# To find out, we let small models learn, each with another divisor.
#
# **You need:** lesson 1 (a soft lookup that learns), and the ideas of a loss,
# a gradient and a learning rate.
#
# **You will be able to**
# - explain where $\sqrt{d_k}$ comes from, and check it by measuring,
# - say what becomes of the gradients of the queries without the division,
# - say what sets the root apart from other divisors, and what it does not do in a trained layer.
#
# **Time:** 46 minutes in class, or 76 on your own with the exercises.
# “Further” takes another 10.

# %% setup
import matplotlib.pyplot as plt
import pandas as pd
import torch
from attnlab import Table, data_path
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import ScalingExplorer
from attnlab.palette import BLUE, GREEN, INK, ORANGE
from attnlab.plotting import plot_attention, plot_heads

lesson_setup()

# %% phone-book [markdown] below="The first name of"
# ## A phone book that learns
#
# Each of our phone books has eight entries, a name and a number each.
# There are 32 names, and a vector of 64 random features stands for each of them.
# As lesson 0 said, a model makes queries and keys from such vectors with two matrices.
# Here only these two learn.
# The first name of a book asks for its number: its query must find the key of the same name.
#
# At first both matrices are random, so a query is a stranger to every key.
# They learn in ten steps of gradient descent, each on 32 new books.
# Then we count the right answers.

# %% ask-larger
predict("02/larger-heads")

# %% numbers [markdown]
# A number from 0 to 15 is stored as 16 features, a single 1 among zeros.

# %% look-up
generator = torch.Generator().manual_seed(0)
names = torch.randn(32, 64, dtype=torch.float64, generator=generator)


def phone_books(n, generator):
    who = torch.rand(n, 32, generator=generator).argsort(dim=-1)[:, :8]  # no name twice
    number = torch.randint(16, (n, 8), generator=generator)
    return who, torch.eye(16).double()[number]  # (n, 8) and (n, 8, 16)


def look_up(w, divisor, who, number):
    query, key = names @ w  # two matrices (64, d_k) make (32, d_k) each
    scores = query @ key.mT / divisor  # (32, 32): every name with every name
    of_books = scores[who[:, :1], who]  # (n, 8): the first name with all eight
    weights = of_books.softmax(dim=-1)
    return (weights[:, :, None] * number).sum(dim=1)  # (n, 16)


# %% training [markdown]
# The loss is the squared error, as in lesson 1.
# Dividing by 8 gives the features of queries and keys a variance of about 1.


# %% train
def train(d_k, divisor, generator, rate=0.5, books=32, steps=10):
    w = torch.randn(2, 64, d_k, dtype=torch.float64, generator=generator) / 8
    for _ in range(steps):
        who, number = phone_books(books, generator)
        error = look_up(w.requires_grad_(), divisor, who, number) - number[:, 0]
        loss = error.square().sum(dim=-1).mean()
        (gradient,) = torch.autograd.grad(loss, w)
        w = w.detach() - rate * gradient
    return w


# %% counting [markdown] below="`accuracy` trains five models"
# `accuracy` trains five models and returns the share of right answers in 500 new books each.


# %% accuracy
def accuracy(d_k, divisor, **training):
    right = []
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        w = train(d_k, divisor, generator, **training)
        who, number = phone_books(500, generator)
        answer = look_up(w, divisor, who, number).argmax(dim=-1)
        right.append(answer == number[:, 0].argmax(dim=-1))
    return torch.cat(right).double().mean().item()


# %% see-larger
# %%answer 02/larger-heads
three = [16, 64, 256]
table = [
    [accuracy(d_k, divisor=1, steps=0) for d_k in three],
    [accuracy(d_k, divisor=1) for d_k in three],
    [accuracy(d_k, divisor=d_k**0.5) for d_k in three],
]
kinds = ["untrained", "not divided", "divided by √d_k"]
Table(kinds, [f"d_k = {d_k}" for d_k in three], torch.tensor(table))

# %% larger [markdown] above="At $d_k = 16$, .80" answers="02/larger-heads"
# At $d_k = 16$, .80 of the answers are right, and at $d_k = 256$ only .57.
# Dividing by the root cures it.
#
# The paper that introduced the formula divides for this reason.
# Its authors suspect that “for large values of $d_k$” the dot products push the softmax to where
# its gradients are extremely small.
# We will see how far that is right.

# %% other-divisors [markdown] below="Which divisor is best"
# ## Nine divisors
#
# Which divisor is best?
# We try nine of them at five sizes.

# %% vote
# %%answer 02/larger-heads
sizes = [4, 16, 64, 256, 1024]
divisors = [1, 2, 4, 8, 16, 32, 64, 128, 256]
votes = torch.tensor([[accuracy(d_k, c) for c in divisors] for d_k in sizes])
rows = [f"{d_k:,}" for d_k in sizes]
ax = plot_attention(votes, queries=rows, keys=[str(c) for c in divisors])
for row in range(5):  # the root of the size is in the column row + 1
    ax.add_patch(plt.Rectangle((row + 1, row), 1, 1, fill=False, ec=INK, lw=3))
ax.set(xlabel="divided by", ylabel="features, d_k")
ax.figure.set_figheight(2.7)
show_figure(ax, "2.1")

# %% diagonal [markdown] above="At this rate, from 16" answers="02/larger-heads"
# At this rate, from 16 features on, the best of the nine is $\sqrt{d_k}$ or a neighbour of it.
#
# Why so?
# We look first at the start of training, and then at a step of it.

# %% strangers [markdown] below=["The raw score of", "We let 1,000 queries", "The sum is a"]
# ## A sum of strangers
#
# The raw score of a query $q$ and a key $k$ is a sum of $d_k$ products.
#
# $$q \cdot k = q_1 k_1 + q_2 k_2 + \dots + q_{d_k} k_{d_k}$$
#
# If the two are strangers, each product is as likely to be negative as positive.
# The sum is a *random walk*: each feature takes it a random step forwards or backwards.
# We let 1,000 queries meet eight keys each.

# %% walks
generator = torch.Generator().manual_seed(1)
query = torch.randn(1000, 1, 1024, generator=generator)
key = torch.randn(1000, 8, 1024, generator=generator)
walks = (query * key).cumsum(dim=-1)  # (1000, 8, 1024): raw scores after each feature
counts = torch.tensor([16, 64, 256, 1024])
labels = [f"d_k = {d_k}" for d_k in counts]
raw = walks[:, :, counts - 1]  # (1000, 8, 4)
measured = {}
for name, scores in {"not divided": raw, "divided by √d_k": raw / counts**0.5}.items():
    measured[f"{name}: spread"] = scores.std(dim=(0, 1))
    won = scores.softmax(dim=1).amax(dim=1) > 0.99  # (1000, 4)
    measured[f"{name}: one weight above 0.99"] = won.double().mean(dim=0)
Table(list(measured), labels, torch.stack(list(measured.values())))

# %% walks-figure jupyter={"source_hidden": true}
from attnlab.plotting import WEIGHT_COLOURS
from matplotlib.collections import LineCollection

features = torch.arange(1, 1025)
titles = {"not divided": torch.ones(1024), "divided by √d_k": features**0.5}
_, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
for ax, (title, divided_by) in zip(axes, titles.items(), strict=True):
    lines = walks[0] / divided_by  # the first query
    band = features**0.5 / divided_by
    ax.plot(features, torch.stack([band, -band], dim=-1), "--", color=INK)
    for line, weight in zip(lines, lines.softmax(dim=0), strict=True):
        points = torch.stack([features, line], dim=-1)[:, None]
        pieces = torch.cat([points[:-1], points[1:]], dim=1).numpy()
        look = {
            "colors": WEIGHT_COLOURS(0.22 + 0.78 * weight),
            "linewidths": 1 + 4 * weight,
            "capstyle": "round",
        }
        ax.add_collection(LineCollection(pieces, **look))
    top = 1.1 * max(lines.abs().max().item(), 2)
    ax.set(xlim=(0, 1024), ylim=(-top, top), xlabel="features added up, d_k")
    ax.set_xticks([16, 256, 512, 1024], ["16", "256", "512", "1,024"])
    ax.set_title(title)
axes[0].set_ylabel("score")
show_figure(axes[0], "2.2")

# %% lucky [markdown] above="The softmax turns a lead"
# Figure 2.2 shows the first query.
# On the left its eight walks drift apart, along with the dashed lines at $\pm\sqrt{d_k}$.
# The softmax turns a lead into a ratio: a key that is ahead by 8 gets $e^8$, or about 3,000,
# times the weight.
# The luckiest key takes nearly all of it, for most of the way, although nothing has been learned.
# On the right are the same walks, divided by $\sqrt{d_k}$.

# %% variances-add [markdown] above="For independent features of" below="Square the sum of"
# The *spread* in the table is the [standard deviation](glossary.ipynb#standard-deviation),
# a typical distance from the mean, which is about 0.
# Why is it $\sqrt{d_k}$?
# Square the sum of two products, $a$ and $b$.
#
# $$(a + b)^2 = a^2 + 2ab + b^2$$
#
# If they are [independent](glossary.ipynb#independent) and have mean 0, the mean of $ab$ is 0,
# so the mean squares add up.
# For independent features of mean 0 and [variance](glossary.ipynb#variance) 1,
# each product has mean square 1, so a sum of $d_k$ products has mean square $d_k$.
# Its root is the spread, and dividing by $\sqrt{d_k}$ brings the spread back to 1.
#
# Without the division, one key has more than 0.99 of the weight in about two rows of three at 256
# features.
# The softmax takes luck for certainty: it is [saturated](glossary.ipynb#saturated).

# %% voices [markdown] below=["The gradient of a query", "We listen to the first"]
# ## Who asks for a change?
#
# The gradient of a query says how it should change, and its length says how loudly it asks.
# We listen to the first names of new books before any training.


# %% gradients
def gradients(d_k, divisor):
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(2, 64, d_k, dtype=torch.float64, generator=generator) / 8
    who, number = phone_books(1000, generator)
    query = (names @ w[0])[who[:, :1]].requires_grad_()  # (1000, 1, d_k)
    key = (names @ w[1])[who]  # (1000, 8, d_k)
    output = (query @ key.mT / divisor).softmax(dim=-1) @ number
    (output - number[:, :1]).square().sum().backward()
    return query.grad.norm(dim=-1).flatten()  # (1000,)


# %% crowd-figure jupyter={"source_hidden": true}
titles = ["not divided", "divided by √d_k", "divided by d_k"]
fig, axes = plt.subplots(3, 3, figsize=(7.5, 3.9), layout="constrained")
for i, d_k in enumerate([4, 64, 1024]):
    for j, power in enumerate([0, 0.5, 1]):
        ax, color = axes[i, j], (ORANGE, BLUE, GREEN)[j]
        loud = gradients(d_k, d_k**power)[:160]
        across, down = torch.arange(160) % 20, torch.arange(160) // 20
        ax.scatter(across, down, 80 * loud, color=color, alpha=0.75, linewidth=0)
        ax.set(xlim=(-0.9, 19.9), ylim=(-0.9, 7.9), xticks=[], yticks=[])
        ax.spines[:].set(visible=True, color=color, linewidth=2.5 if j == 1 else 0.8)
        if i == 0:
            ax.set_title(titles[j], color=color)
    axes[i, 0].set_ylabel(f"d_k = {d_k:,}")
show_figure(fig, "2.3")

# %% some-shout [markdown] above="**Some queries shout"
# The suspicion is half right: in a large head that is not divided, many gradients are almost 0.
# But some are longer than any is with the root.
# **Some queries shout, and the more features there are, the more are silent.**
# Divided by $d_k$, all of them whisper, and ever more softly.

# %% sound-check [markdown]
# ## Another learning rate
#
# Up to here the learning rate was ½.

# %% ask-rates
predict("02/another-learning-rate")

# %% try-it [markdown] below="At which rates does"
# The answer is in the explorer below.
# Its dots are queries before training,
# and its curves are models that `data/make_scaling_race.py` trained in advance.
# At which rates does each divisor reach .9 at $d_k = 16$?
# Which of these rates still work at 1,024?
#
# A divisor of your own is drawn as a fourth line: `ScalingExplorer(function=my_divisor)`,
# where `my_divisor(d_k)` returns a number.

# %% explore-scaling
# %%answer 02/another-learning-rate
ScalingExplorer(ask=False)

# %% rescued [markdown] above="At a rate of" answers="02/another-learning-rate"
# A whisper can be turned up.
# At a rate of 128, dividing by $d_k$ does as well at $d_k = 256$ as the root does at 2.
# Without a division, no rate on the slider brings more than .57 there.
#
# So the root is not the only number that works.
# But with $d_k$, the best rate on the slider grows from 8 at 16 features to 512 at 1,024.
# With the root, a rate of 2 brings at least .98 at each size from 16 on.

# %% twice [markdown] below="How far does one"
# ## One step of training
#
# How far does one step move the scores?


# %% one-step
def step_of_scores(d_k, divisor):
    moved = []
    for seed in range(5):
        scores = []
        for steps in (0, 1):
            generator = torch.Generator().manual_seed(seed)
            query, key = names @ train(d_k, divisor, generator, steps=steps)
            scores.append(query @ key.mT / divisor)
        moved.append((scores[1] - scores[0]).std().item())
    return sum(moved) / 5


step_lengths = {
    name: [step_of_scores(d_k, d_k**power) for d_k in counts.tolist()]
    for name, power in {"not divided": 0, "by √d_k": 0.5, "by d_k": 1}.items()
}
pd.DataFrame(step_lengths, labels).T.map("{:.2g}".format)

# %% both-ends [markdown] above="With the root, the"
# With the root, the scores move about equally far at all four sizes.
# With $d_k$, they move about a quarter as far each time.
#
# The divisor $c$ acts twice: the gradient of a query is a sum of keys, each divided by $c$,
# and the new score is divided by $c$ as well.
# The dot product of such a key with itself is about $d_k$.
# So a step moves the scores in proportion to $d_k / c^2$, as long as no softmax is saturated.
# That is the same at all four sizes for $c = \sqrt{d_k}$, and falls as $1/d_k$ for $c = d_k$.
# This fits Figure 2.1: right of the frames, the rows from 64 on nearly repeat each other,
# each moved on by a column.

# %% concert [markdown] below="How large are the"
# ## After training
#
# How large are the scores after training?
# We take the first attention layer of all-MiniLM-L6-v2, a trained model of English sentences.
# It has twelve [heads](glossary.ipynb#head), small attention computations side by side,
# each with queries and keys of its own.
# Here $d_k$ belongs to a single head: it is 32, in a layer that is 384 wide.
# The logarithm of a weight is its score, up to a number that its whole row shares.

# %% see-trained
from attnlab.models.pretrained import load_layer

layer = load_layer()
sentences = pd.read_csv(data_path("bank_sentences.csv")).sentence
readings = [layer.read(sentence) for sentence in sentences]  # weights (H, L, S) each
variance = torch.cat([one.weights.log().var(dim=-1) for one in readings], dim=-1)
of_heads = variance.mean(dim=-1).sqrt()  # (H,): the spread within a row
print(of_heads)
words = readings[0].tokens
pair = [1, 2]
titles = [f"head {head}: spread {of_heads[head]:.1f}" for head in pair]
names_of = {"queries": words, "keys": words, "titles": titles}
figure = plot_heads(readings[0].weights[pair], **names_of, annotate=False)
show_figure(figure, "2.4")

# %% after-trained [markdown] above="Eleven heads have a"
# Eleven heads have a spread between 0.8 and 1.8 in these 35 sentences.
# Head 2 has one of 10: it gives nearly all its weight to the token before.
# So the division does not limit the scores.
# Together with the draw of the matrices, it sets where they start.

# %% the-answer [markdown] end="With many features, the"
# ## Why divide, and why by this number?
#
# Why divide the dot products by anything?
# Before training, a query and a key are strangers,
# and their raw score is a random walk of $d_k$ steps.
# With many features, the softmax of our phone books takes luck for certainty,
# and the model learns worse.
#
# And why by the square root, rather than by $d_k$?
# Because $d_k$ random steps lead about $\sqrt{d_k}$ away from the start.
# Dividing by $d_k$ can work too, with a higher learning rate.
# But of the three, only the root gave our models the same start from 16 to 1,024 features and,
# in plain gradient descent at one rate, the same step.

# %% further [markdown]
# ## Further
#
# ### Twins, and Adam
#
# The root suits strangers.
# Suppose that a query equals its key, and that its score is divided by the root.

# %% see-twins
query = torch.randn(1000, 256, generator=torch.Generator().manual_seed(0))
for d_k in (64, 256):
    same = query[:, :d_k]  # the query is also the key
    print(f"d_k = {d_k}: {(same * same).sum(dim=-1).mean() / d_k**0.5:.1f}")

# %% twins [markdown]
# For twins a raw score is about $d_k$, and divided by the root it still grows, from 8 to 16.
# Dividing by $d_k$ would keep it the same.

# %% adam [markdown]
# Many models are trained with Adam.
# Its first step moves every parameter by about the learning rate, however long the gradient is.
# So the change of a query hardly depends on the divisor, and only the new score is divided by $c$.
# The scores move in proportion to $d_k / c$: about equally far at every size if $c = d_k$,
# and about twice as far for four times the features if $c = \sqrt{d_k}$.
# Here are the best of ten rates for ten steps of Adam.

# %% see-adam
race = pd.read_csv(data_path("scaling_race.csv"))
adam = race[race.optimizer == "Adam"].set_index(["divisor", "d_k", "learning_rate"])
by_rate = adam.accuracy.unstack("learning_rate")
best_rate = (1 / by_rate.idxmax(axis=1)).map("1/{:.0f}".format)
columns = {
    "best rate": best_rate,
    "its accuracy": by_rate.max(axis=1),
    "at 1/64": by_rate[1 / 64],
}
pd.DataFrame(columns).round(2).drop(4, level="d_k")

# %% adam-reads [markdown]
# With Adam either of the two has one advantage: the root keeps the start, and $d_k$ keeps the step.
# In this race it is a tie, for at a rate of 1/64 both do well at all four sizes.

# %% t5 [markdown]
# ### A model that does not divide
#
# The T5 models do not divide at all.
# Their code draws the matrix of the queries with smaller numbers instead,
# so that the scores begin as small as they would after the division.
# That mends the start.
# But nothing is divided in what follows,
# so a step of plain gradient descent moves the scores further.
# Exercise 2 tries a similar start.

# %% remember [markdown] end=["Not divided, the softmax", "Of the three, only", "The division sets the"]
# ## What to remember
#
# - A raw score is a sum of $d_k$ products.
#   If the features are independent, with mean 0 and variance 1, its spread is $\sqrt{d_k}$.
# - Here $d_k$ belongs to a single head, not to the whole layer.
# - Not divided, the softmax of a head with many features is often saturated before training.
#   Some queries then have a long gradient, and the more features there are,
#   the more have almost none.
# - In ten steps of 32 books, no learning rate made up for a missing division from 64 features on.
# - Of the three, only the root gave the same start and the same step from 16 to 1,024 features,
#   in plain gradient descent.
#   Dividing by $d_k$ worked too, at a rate that grows with $d_k$.
# - The division sets the start; training may make the scores as large as it likes.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Find the bug ★★ (8 minutes)
#
# “Our heads of 16 features learn.
# Our heads of 256 learn only at a far higher rate.”
# Find the mistake, and write a version without it.
#
# <details><summary>Hint</summary>
#
# By what number is a score divided here, in all?
# </details>


# %% tags=["exercise"]
def slow_heads(query, key, value):
    query = query / query.shape[-1] ** 0.5
    key = key / key.shape[-1] ** 0.5
    return (query @ key.mT).softmax(dim=-1) @ value


def mended_heads(query, key, value):
    """(..., L, E), (..., S, E), (..., S, Ev) -> output (..., L, Ev)."""


# %%
from attnlab.exercises import check_divided_once, check_normed_scores
from attnlab.exercises import check_small_start, check_three_logs

check_divided_once(mended_heads)


# %% tags=["solution"]
def mended_heads_solution(query, key, value):
    query = query / query.shape[-1] ** 0.5  # once is enough
    return (query @ key.mT).softmax(dim=-1) @ value


check_divided_once(mended_heads_solution)

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (10 minutes): a start without a division
#
# In this lesson, `train` began with `torch.randn(2, 64, d_k) / 8` and divided the scores.
# Write a function that draws the two matrices so that nothing needs to be divided at the start:
# the raw scores of the 32 names get a spread between 0.7 and 1.4, at every $d_k$.
#
# <details><summary>Hint</summary>
#
# A score is a product of a query and a key.
# If both become smaller by some factor, what happens to the score?
# </details>


# %% tags=["exercise"]
def small_start(d_k):
    """Return w, a tensor of shape (2, 64, d_k)."""


# %%
check_small_start(small_start)


# %% tags=["solution"]
def small_start_solution(d_k):
    return torch.randn(2, 64, d_k) / 8 / d_k**0.25  # query and key share the root


check_small_start(small_start_solution)

# %% small-start-goes-on [markdown]
# <details><summary>What happens if such a model is trained without a division?</summary>
#
# With the matrices of the solution,
# more than nine answers in ten are right at $d_k = 64$ and 256 after ten steps at a rate of ½.
# At a rate of 2, which is the best of the slider with the division, it is fewer than seven in ten.
# The start is mended, but the step is not: where nothing is divided, it is longer,
# and asks for a lower rate.
# At 1/8, more than nine in ten are right again.
# </details>

# %% exercise-3 [markdown]
# ### 3 · Explain ★★ (8 minutes): three logs
#
# Somebody trained phone books with $d_k = 32$, but forgot to note the divisors.
# One log is without a division, one with $\sqrt{d_k}$, and one with $d_k$.
# The *loudest tenth* is the part of the total length of all gradients, before training,
# that comes from the loudest tenth of the queries.
#
# | log | loudest tenth | right answers at rate 1/8 | at rate 16 |
# |---|---|---|---|
# | A | 0.18 | .57 | .31 |
# | B | 0.14 | .25 | 1.00 |
# | C | 0.33 | .64 | .18 |
#
# Which log belongs to “not divided”, which to $\sqrt{d_k}$, and which to $d_k$?
# And which rate does the divisor of log B need at $d_k = 512$,
# so that a step moves the scores as far as here at rate 16?
# Return the three letters in this order, and the rate.
#
# <details><summary>Hint</summary>
#
# If all voices were equally loud, the loudest tenth would make up 0.10.
# For the rate, look at $d_k / c^2$.
# </details>


# %% tags=["exercise"]
def three_logs():
    """Return letters and a rate, such as ("ABC", 64)."""


# %%
check_three_logs(three_logs)


# %% tags=["solution"]
def three_logs_solution():
    return "CAB", 256  # c = d_k makes a step 1 / d_k as long: a sixteenth of it


check_three_logs(three_logs_solution)

# %% exercise-4 [markdown]
# ### 4 · Implement ★★★ (10 minutes): a limiter
#
# The division does not limit the scores, but some models do.
# They first rescale each query and each key so that its
# [**root mean square**](glossary.ipynb#root-mean-square) is 1.
# (This is the square root of the mean of its squared features.
# We leave out the learned factors that such models multiply by afterwards.)
# Then they divide the dot products by $\sqrt{d_k}$.
# No score can exceed $\sqrt{d_k}$ then.
# Write a function that does both.
# Making queries and keys ten times as large must not change the scores.
#
# <details><summary>Hint</summary>
#
# Which axis holds the features of one query?
# You need one number per row, and `keepdim=True` keeps the shape.
# Do not set the *length* of the query to 1:
# its length is the root of the *sum* of its squared features, and you need the root of their mean.
# </details>


# %% tags=["exercise"]
def normed_scores(query, key):
    """Scores that ignore lengths. query (..., L, E), key (..., S, E) -> (..., L, S)."""


# %%
check_normed_scores(normed_scores)


# %% tags=["solution"]
def normed_scores_solution(query, key):
    def rescaled(x):
        return x / x.square().mean(dim=-1, keepdim=True).sqrt()

    return rescaled(query) @ rescaled(key).mT / query.shape[-1] ** 0.5


check_normed_scores(normed_scores_solution)

# %% in-torch [markdown] below="Note that `scale` is"
# ## In torch
#
# `F.scaled_dot_product_attention` multiplies the dot products by `scale`.
# Its default is $1/\sqrt{E}$, where $E$ is the size of the last dimension of the query.
# Note that `scale` is a *factor*: to divide by a number $c$, pass `scale=1 / c`.
# Torch's layer with several heads, `nn.MultiheadAttention`,
# divides by the root of the number of features of one head,
# not by the root of the width of the whole layer.

# %% torch-scale
import torch.nn.functional as F

x = torch.randn(1, 6, 64, generator=torch.Generator().manual_seed(0))  # (N, L, E)
default = F.scaled_dot_product_attention(x, x, x)
assert torch.allclose(default, F.scaled_dot_product_attention(x, x, x, scale=1 / 8))

# %% start [markdown] below="After the division by"
# After the division by the root, the spread at the start depends on how a layer draws its matrices.
# For tokens of variance 1, `nn.Linear` starts queries and keys at variance 1/3,
# so the scores have a spread of only 1/3.

# %% torch-start
torch.manual_seed(0)
x = torch.randn(600, 512)
w_query, w_key = torch.nn.Linear(512, 64), torch.nn.Linear(512, 64)
scores = w_query(x) @ w_key(x).T / 64**0.5
print(f"spread {scores.std():.2f}")

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.2.1 and footnote 4.
#   The footnote states the variance, and the suspicion begins with “We suspect”.
#   That large dimensions fall behind without the division was observed by Britz et al.,
#   [Massive Exploration of Neural Machine Translation Architectures](https://arxiv.org/abs/1703.03906), 2017.
# - Yang et al., [Tensor Programs V](https://arxiv.org/abs/2203.03466), 2022.
#   In this paper the dot products are divided by $d_k$,
#   because queries and keys align during training.
# - T5 without the division: `_init_weights` in
#   [modeling_t5.py](https://github.com/huggingface/transformers/blob/main/src/transformers/models/t5/modeling_t5.py).
# - Henry et al.,
#   [Query-Key Normalization for Transformers](https://arxiv.org/abs/2010.04245), 2020.
#   Its method resembles that of exercise 4,
#   but it rescales each vector to length 1 and multiplies the scores by a learned factor.
# - The trained layer is the first attention layer of
#   [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2) (Apache-2.0).

# %% next [markdown]
# ## Next
#
# Lesson 3, [Masks: who may look at whom](03_masks_who_may_look_at_whom.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 46 minutes, and where a class stalls</summary>
#
# **46 minutes.**
# The phone book and the first race: 13.
# Nine divisors: 4.
# Random walks: 8.
# Who asks for a change: 5.
# Another learning rate, with the explorer: 10.
# The step, the trained layer and the answer: 6.
#
# **Where a class stalls.**
# *The phone book:* draw one book with three entries on the board,
# and mark the name that asks and the number that it must find.
# *Variance or spread?*
# The spread is the square root of the variance.
# *“A long gradient is good.”*
# Ask who is not heard when some shout.
# Without the division, two batches of 32 books usually agree less on the direction of the step.
# *Why four times the rate?*
# Write $c$ twice and $d_k$ once on the board.
# *Figure 2.2:* the colour is the weight at that many features, so a walk can turn pale again.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# $d_k = 64$, and the features have mean 0 and variance 1 and are independent.
# What is the spread of a raw score?
# **8.**
# *64* is the variance.
# *1* is what we get after the division.
#
# **2.**
# The features of queries and keys have variance 4 instead of 1.
# What is the variance of the scores after dividing by the root?
# **16.**
# *1* forgets the assumption: the division makes up for the number of features, not for their size.
# *4* counts only one of the two vectors.
#
# **3.**
# A layer has width 512 and 8 heads.
# What goes under the root?
# **64.**
# *512* is the width of the layer.
# *8* is the number of heads.
#
# **4.**
# The scores of a row are not all equal, and each is divided by 2.
# What happens to the key with the largest weight?
# **It stays the same key and gets less weight.**
# *Another key wins:* dividing keeps the order.
# *Its weight comes closer to 1:* that happens when the scores are multiplied.
#
# **5.**
# The scores are not divided, $d_k$ is 1,024, and there are 8 keys.
# What happens to the gradients?
# **Most queries have almost none, and some have a long one.**
# *All vanish:* this forgets the queries for which two keys are nearly level.
# *All become longer:* this forgets the many for which one key has all the weight.
# </details>
