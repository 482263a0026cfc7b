# %% opening [markdown] above="**What can a line" end="**What can a line"
# # 7 · Multi-head attention: reshaping without scrambling
# In *The Annotated Transformer*,
# one line cuts the features of each token into groups with `view` and then exchanges two axes with
# `transpose`.
# A reader reported this as an error and proposed a single `view`, which gives the same shape.
#
# Neither version computes anything.
# And yet a layer with the line answers every question of this lesson,
# and a layer that splits and merges with `view` alone fewer than one in five,
# with no error message.
# **What can a line do that computes nothing?**
#
# **You need:** [lesson 6](06_where_q_k_and_v_come_from.ipynb).
#
# **You will be able to:** say what several heads are for;
# write multi-head attention that agrees with PyTorch’s layer;
# follow every number through a split and a merge; and find a scrambled split with labels.
#
# **Time:** 45 minutes in class, or 79 on your own with the exercises.
# “Further” takes another 5.

# %% setup
from copy import deepcopy
from itertools import permutations

import torch
import torch.nn.functional as F
from attnlab import Table, load_table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import DealExplorer
from attnlab.models.two_animals import ask, to_words, two_animals
from torch import nn

lesson_setup()
torch.set_default_dtype(torch.float64)  # other processors then give the same results

# %% a-list [markdown] below="Each list holds five"
# ## Two numbers, in order
#
# Each list holds five animals with a number from 0 to 7, and a question that names two of them.
# The answer is the numbers of these two, in the order of the question.

# %% three-lists
tokens, answers = two_animals(3, torch.Generator().manual_seed(3))
for one_list, answer in zip(tokens, answers.tolist(), strict=True):
    print("   ".join(to_words(one_list)), "  →  ", *answer)

# %% as-tokens [markdown] below="Our layer is the"
# The five entries and the question are six tokens.
# Each has 32 features, which are 0 or 1: sixteen for the animal and the number of an entry,
# and sixteen for the two animals of a question.
#
# Our layer is the self-attention of lesson 6 with three additions.
# A function `split` prepares queries, keys and values,
# and a function `merge` joins what attention returns.
# One more matrix, `out_proj`, turns the merged result into the output.


# %% the-layer
class Attention(nn.Module):
    """Tokens (N, L, E) -> output (N, L, E) and weights; split and merge are yours."""

    def __init__(self, split, merge, E=32):
        super().__init__()
        self.split, self.merge = split, merge
        self.q_proj = nn.Linear(E, E, bias=False)
        self.k_proj = nn.Linear(E, E, bias=False)
        self.v_proj = nn.Linear(E, E, bias=False)
        self.out_proj = nn.Linear(E, E, bias=False)

    def forward(self, x):
        projected = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        query, key, value = map(self.split, projected)
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
        return self.out_proj(self.merge(weights @ value)), weights


# %% how-to-train [markdown] below=["The answer is read", "The answer is read"]
# ## One head, one average
#
# We train the layer for 800 steps, on 32 random lists each, with cross-entropy for both numbers,
# and test it on 20,000 new lists.
# The answer is read from the output of the question.
#
# $$\text{features } 0, \dots, 7 \to \text{first number} \qquad
# \text{features } 8, \dots, 15 \to \text{second}$$


# %% training jupyter={"source_hidden": true}
def at_the_question(output):
    return output[:, -1, :16].unflatten(-1, (2, 8))  # (N, 2, 8)


def train(layer):
    generator = torch.Generator().manual_seed(0)  # the same lists for every layer
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    for _ in range(800):
        tokens, answers = two_animals(32, generator)
        guesses = at_the_question(layer(tokens)[0])
        optimizer.zero_grad()
        F.cross_entropy(guesses.flatten(0, 1), answers.flatten()).backward()
        optimizer.step()
    return layer


@torch.no_grad()
def share_correct(layer):  # of the first number, the second and both
    generator = torch.Generator().manual_seed(1)
    new_lists = [two_animals(2000, generator) for _ in range(10)]
    tokens, answers = map(torch.cat, zip(*new_lists, strict=True))
    right = (at_the_question(layer(tokens)[0]).argmax(dim=-1) == answers).double()
    return torch.cat([right.mean(dim=0), right.prod(dim=-1).mean(dim=0, keepdim=True)])


# %% at-first [markdown] below="At first, `split` and"
# At first, `split` and `merge` return what they are given.


# %% no-split
def unchanged(x):
    return x


def start(split, merge):
    torch.manual_seed(1)  # the same first matrices for every layer
    return Attention(split, merge)


animals = {"cat": 3, "dog": 7, "owl": 0, "fox": 5, "bat": 1}  # a list of our own
parts = ["first correct", "second correct", "both correct"]
no_split = train(start(unchanged, unchanged))
Table(["no split"], parts, share_correct(no_split)[None])

# %% one-row [markdown] above="This layer finds both" below=["Here is the question", "Without a split, each"]
# This layer finds both numbers in about one list of five.
#
# Without a split, each query has one row of weights, and so it gets one weighted average.
# The part of a layer that computes one row of weights for each query is called a
# [**head**](glossary.ipynb#head), and here it is the whole layer.
# Here is the question’s row of weights for two questions about a list of our own.

# %% twins jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
from attnlab.palette import BLUE

fig, axes = plt.subplots(1, 2, figsize=(7.5, 2.6), layout="constrained", sharex=True)
for ax, pair in zip(axes, [("owl", "dog"), ("dog", "owl")], strict=True):
    question = ask(animals, *pair)
    row = no_split(question)[1][0, -1].detach()
    words = to_words(question[0])
    ax.barh(range(6), row, color=BLUE)
    for place, weight in enumerate(row.tolist()):
        ax.text(weight + 0.01, place, f"{weight:.2f}", va="center")
    ax.set_yticks(range(6), [*words[:5], "question"])
    ax.set(title=words[-1], xlim=(0, 0.65), xlabel="weight")
    ax.invert_yaxis()
show_figure(fig, "7.1")

# %% nearly-twins [markdown] above="The two averages are"
# The two averages are similar.
# Each holds about half of one number and four tenths of the other.

# %% ask-mixture
predict("07/what-is-in-the-mixture")

# %% see-mixture
# %%answer 07/what-is-in-the-mixture
torch.manual_seed(1)
last_steps = [
    nn.Linear(32, 32),  # a matrix with a bias
    nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 32)),  # an MLP
]
for name, last_step in zip(["matrix", "MLP"], last_steps, strict=True):
    frozen = deepcopy(no_split).requires_grad_(False)
    frozen.out_proj = last_step  # the only part that is trained
    print(f"{name:8}{share_correct(train(frozen))[-1]:.2f}")

# %% mixture-read [markdown] above="A new matrix finds" answers="07/what-is-in-the-mixture"
# A new matrix finds both numbers hardly more often than before,
# but an MLP finds them in nine lists of ten.
#
# At this start, the first number mostly has the largest share of the average,
# and the second number the second largest.
# Behind a matrix, the score of a guess can only rise, or only fall,
# as the share of its number grows.
# In most lists, the new matrix names the largest share twice,
# which is right only if both numbers are equal.
# An MLP can favour the second largest.

# %% two-versions [markdown] below="Both splits give the"
# ## Two heads, two averages
#
# Two averages could keep the two numbers apart.
# In two more layers, versions A and B, `split` and `merge` turn (N, 6, 32) into (N, 2,
# 6, 16) and back.
# A has the line of the opening, and B the reader’s `view`, with a merge that undoes it.
# Both splits give the same shape and share the memory of `x`: not a single number is moved.


# %% a-and-b
def split_a(x):
    return x.view(len(x), -1, 2, 16).transpose(1, 2)


def merge_a(heads):
    return heads.transpose(1, 2).flatten(2)


def split_b(x):
    return x.view(len(x), 2, -1, 16)


def merge_b(heads):
    return heads.reshape(len(heads), -1, 32)


for split in (split_a, split_b):
    print(tuple(split(tokens).shape), split(tokens).data_ptr() == tokens.data_ptr())

# %% same-start [markdown] below="All three layers have"
# All three layers have 4,096 parameters, begin with the same random numbers and see the same lists.

# %% three-layers
with_a, with_b = train(start(split_a, merge_a)), train(start(split_b, merge_b))
layers = {"no split": no_split, "version A": with_a, "version B": with_b}
Table(list(layers), parts, torch.stack([*map(share_correct, layers.values())]))

# %% three-numbers [markdown] above="Only version A succeeds" below="Three questions about our"
# Only version A succeeds.
# Three questions about our own list give a clue.

# %% own-list
print("            no split   A       B")
for first, second in [("owl", "dog"), ("dog", "owl"), ("fox", "bat")]:
    print(f"{first}, {second}?", end="")
    for layer in (no_split, with_a, with_b):
        output, _ = layer(ask(animals, first, second))
        print("    ", *at_the_question(output)[0].argmax(dim=-1).tolist(), end="")
    print()

# %% two-heads [markdown] above="Version B is wrong" below="Which tokens does each"
# Version B is wrong about *owl* and *dog* but right about *fox* and *bat*.
#
# Which tokens does each of the 32 features of an average come from?

# %% listening jupyter={"source_hidden": true}
from attnlab.palette import LINE
from attnlab.plotting import WEIGHT_COLOURS

OWL_DOG = ask(animals, "owl", "dog")


def sources_of(layer):
    """Return the weight of each token in each feature of the question's average: (6, 32)."""
    rows = layer(OWL_DOG)[1].detach().view(-1, 6, 6)[:, -1]  # one for each head
    return rows.repeat_interleave(32 // len(rows), dim=0).T


fig, axes = plt.subplots(1, 2, figsize=(7.5, 2.9), layout="constrained", sharey=True)
drawn = {"no split: one head": no_split, "version A: two heads": with_a}
for ax, (title, layer) in zip(axes, drawn.items(), strict=True):
    sources = sources_of(layer)
    ax.pcolormesh(sources.numpy(), cmap=WEIGHT_COLOURS, vmin=0, vmax=1)
    ax.axvline(16, color="white", linewidth=0 if layer is no_split else 4)
    for token, row in enumerate(sources.tolist()):
        for middle, weight in [(8, row[0]), (24, row[-1])]:
            if weight > 0.2:
                look = {"ha": "center", "va": "center"}
                look["color"] = "white" if weight > 0.6 else "black"
                ax.text(middle, token + 0.5, f"{weight:.2f}", **look)
    ax.set_yticks([i + 0.5 for i in range(6)], to_words(OWL_DOG[0]))
    ax.set_xticks([8, 24], ["0–15", "16–31"])
    ax.set(title=title, xlabel="features")
    ax.tick_params(length=0)
axes[0].invert_yaxis()
show_figure(fig, "7.2")

# %% what-for [markdown] above="**Several heads keep several" below="This is the whole"
# In version A, the first 16 features of queries and keys give weights of their own,
# which average the first 16 features of the values; so do the last 16.
# These are two heads.
# One of them looks at the animal that is named first, and the other at the second.
# The two numbers arrive in different features, where `out_proj` can read both of them.
# **Several heads keep several averages apart.**
#
# This is the whole layer, with two heads.

# %% drawing jupyter={"source_hidden": true}
from attnlab.display import diagram

show_figure(diagram("multi_head_attention"), "7.3")

# %% head-dim [markdown] above="The layer projects first" below="Version B has two"
# The layer projects first and [**splits**](glossary.ipynb#split) afterwards,
# so each feature of a head is made from all features of the token.
# Then each head attends on its own,
# and the layer [**merges**](glossary.ipynb#merge) their averages.
#
# The number of features in a head, [**head_dim**](glossary.ipynb#head_dim), is usually $E / H$,
# the width divided by the number of heads.
# Scores are divided by $\sqrt{\text{head\_dim}}$,
# because a dot product inside a head has head_dim terms.
#
# ## The same shape, another content
#
# Version B has two heads too, and fails.

# %% ask-head-0
predict("07/head-0-of-version-b")

# %% see-head-0
# %%answer 07/head-0-of-version-b
halves = 10 * torch.arange(6)[:, None] + torch.arange(2)  # 10 * token + half
print("version A\n", halves.view(6, 2).transpose(0, 1))
print("version B\n", halves.view(2, 6))

# %% deal-or-cut [markdown] above="**A deals the deck" answers="07/head-0-of-version-b"
# Here each number stands for 16 features: 31, for example, is the second half of token 3.
#
# Think of a deck of cards: cat-0, cat-1, dog-0, dog-1, and so on.
# **A deals the deck, and B cuts it.**
# If you deal the cards to two players in turn, each of them gets one card of every token.
# If you cut the deck in the middle, player 0 gets all of *cat*, *dog* and *owl*.
# Either way each player holds six cards, so the shape is the same.
#
# To merge, version A collects the cards in the order of dealing,
# and version B piles one hand on the other.

# %% experiment [markdown] below="Why could version B"
# ### Your experiment: split and merge
#
# The explorer begins with version A, *deal* and *collect*.
# Each card has a query of its own, and gets an average of the cards of its hand.
#
# 1. Take version B, *cut* and *pile*.
#    Why could version B answer the question about *fox* and *bat*?
#    Could it with four heads?
# 2. Combine *cut* with *collect*, and *deal* with *pile*.
#    What is wrong in each case?

# %% explore-deal
DealExplorer(ask=False)

# %% experiment-read [markdown]
# <details><summary>The answers</summary>
#
# 1. The cards of the question lie in head 1, together with those of *fox* and *bat*.
#    So the question gets two averages too, but only of these two and itself,
#    and with four heads of *bat* and itself.
# 2. Ten averages of twelve go to a wrong token; after *cut*, each is of three tokens only.
# </details>
#
# <details><summary>Where the 0.18 comes from</summary>
#
# In version B, the question hears both animals of one pair of the ten, one animal of six,
# and none of three.
# A number that it has not heard can only be guessed, and one guess in eight is right.
# So no training can do better than 1/10 + 6/10 · 1/8 + 3/10 · 1/64, which is 0.18, apart from luck.
# </details>

# %% the-test [markdown] below="Let every number carry"
# ## A test with labels
#
# *Cut* and *pile* give the correct shape, and `merge(split(x))` gives `x` back (a *round trip*).
# So what would show that they are wrong?
# Let every number carry its own label, and compare the result with what it has to be.
# Head $h$ has to hold the $h$-th part of the features of every token.
# We build that piece by piece, with `chunk` and `unbind`.


# %% label-test
def labels_are_right(split, merge, H=2, head_dim=16):
    labels = torch.arange(2 * 6 * H * head_dim)  # of two lists with six tokens
    x, heads = labels.view(2, 6, H * head_dim), labels.view(2, H, 6, head_dim)
    parts = torch.stack(x.chunk(H, dim=-1), dim=1)  # (N, H, L, head_dim)
    side_by_side = torch.cat(heads.unbind(dim=1), dim=-1)  # (N, L, E)
    return torch.equal(split(x), parts) and torch.equal(merge(heads), side_by_side)


names = ["deal, collect", "cut, collect", "deal, pile", "cut, pile"]
ways = [(split_a, merge_a), (split_b, merge_a), (split_a, merge_b), (split_b, merge_b)]
for name, (split, merge) in zip(names, ways, strict=True):
    returns_x = torch.equal(merge(split(tokens)), tokens)
    right = labels_are_right(split, merge)
    print(f"{name:13}  returns x: {returns_x!s:5}  labels: {right}")

# %% the-answer [markdown] end="It decides which features"
# ## So what can a line do that computes nothing?
#
# It decides which features meet in a head.
#
# Without a split, all features share one row of weights.
# Asked for *owl* and *dog*, the layer gets one average of 0 and 7, and names one of them twice.
# If the features are dealt, each head has a part of every token: one head brings the 0,
# and the other the 7.
# If they are cut and piled, the question hears *fox*, *bat* and itself.
#
# So the line is right and the reader’s `view` is wrong: no error shows it, but the labels do.

# %% further [markdown]
# ## Further
#
# ### Twelve starts
#
# The table shows the smallest and the largest share of lists with both numbers right,
# over twelve starts of the random numbers.
# `matrix` and `mlp` are the new last steps behind the layer without a split.

# %% twelve-starts
starts = load_table("two_animals.csv")
extremes = torch.stack([starts.values.amin(dim=0), starts.values.amax(dim=0)])
Table(["smallest", "largest"], starts.features, extremes)

# %% every-pair [markdown]
# ### Which of 36 pairs pass?
#
# A split is usually one `reshape` and one permutation of axes:
# reshape to one of the six orders of $L$, $H$ and $d$,
# then bring the axes into the order $H, L, d$.
# “LHd” deals, and “HLd” cuts.
# The six merges do the same backwards, which makes 36 pairs.


# %% six-by-six
def split_by(order):
    sizes = [{"L": 6, "H": 2, "d": 16}[axis] for axis in order]
    return lambda x: torch.einsum(f"N{order}->NHLd", x.reshape(len(x), *sizes))


def merge_by(order):
    return lambda heads: torch.einsum(f"NHLd->N{order}", heads).reshape(-1, 6, 32)


orders = ["".join(order) for order in permutations("LHd")]
pairs = [(split_by(split), merge_by(merge)) for split in orders for merge in orders]

# %% count-pairs
shape = [merge(split(tokens)).shape == tokens.shape for split, merge in pairs]
round_trip = [torch.equal(merge(split(tokens)), tokens) for split, merge in pairs]
labels = [labels_are_right(split, merge) for split, merge in pairs]
print("shape", sum(shape), "  round trip", sum(round_trip), "  labels", sum(labels))

# %% census jupyter={"source_hidden": true}
import pandas as pd
from attnlab import data_path

stored = pd.read_csv(data_path("scrambled_pairs.csv"))
least = stored.groupby(["split", "merge"], sort=False)[["copies", "two_animals"]].min()
tests = {
    "shape": shape,
    "copies": least["copies"] > 0.95,
    "two animals": least["two_animals"] > 0.95,
    "round trip": round_trip,
    "labels": labels,
}
_, axes = plt.subplots(1, 5, figsize=(8.6, 2.5), layout="constrained", sharey=True)
for ax, (name, passed) in zip(axes, tests.items(), strict=True):
    grid = torch.tensor(list(passed)).view(6, 6)
    for row, column in torch.cartesian_prod(torch.arange(6), torch.arange(6)).tolist():
        colour = BLUE if grid[row, column] else "white"
        square = plt.Rectangle((column + 0.1, row + 0.1), 0.8, 0.8)
        square.set(facecolor=colour, edgecolor=BLUE if grid[row, column] else LINE)
        ax.add_patch(square)
    ax.set(
        xlim=(0, 6),
        ylim=(6, 0),
        aspect="equal",
        title=name,
        xlabel=f"{grid.sum()} of 36",
    )
    ax.title.set_fontsize(10)
    ax.set_xticks([i + 0.5 for i in range(6)], orders, rotation=90, fontsize=8)
    ax.set_yticks([i + 0.5 for i in range(6)], orders, fontsize=8)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
axes[0].set_ylabel("split")
show_figure(axes[0], "7.4")

# %% census-read [markdown]
# All 36 pairs give the correct shape and learned to copy eight digits.
# In 800 steps, eight learned to name both animals, and six pass the round trip.
# Only *deal* and *collect* passes the label test.
# “LdH” twice is correct too, with another order of the features.

# %% remember [markdown] end=["Several heads keep several", "Split with `view` to", "A correct shape and"]
# ## What to remember
#
# - A head computes one row of weights, and so one weighted average, for each query.
#   Several heads keep several averages apart.
# - Project, split, attend, merge, project.
#   Split with `view` to (N, L, H, head_dim), then `transpose`; merge with `transpose`,
#   then `flatten`.
# - With head_dim $= E / H$, more heads need no more parameters.
#   Scores are divided by $\sqrt{\text{head\_dim}}$.
# - A correct shape and a round trip do not prove that split and merge are correct.
#   Give every number a label, and compare.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.
# The last task has no check.

# %% exercise-1 [markdown]
# ### 1 · Implement ★★★ (12 minutes)
#
# Write the layer for any width $E$ and any number of heads $H$ that divides it.
# Call the four matrices `q_proj`, `k_proj`, `v_proj` and `out_proj`, as above, without biases.
# The check copies the same parameters into your layer and into PyTorch’s, and compares the output
# (N, L, E) and the weights (N, H, L, L).
#
# <details><summary>Hint</summary>
#
# Which numbers in `split_a` belong to two heads of 16 features?
# `merge_a` fits any size.
# </details>

# %%
from attnlab.exercises import check_mended_heads, check_multi_head, check_three_in_one


# %% tags=["exercise"]
class MultiHead(nn.Module):
    """Tokens (N, L, E) -> output (N, L, E) and weights (N, H, L, L)."""

    def __init__(self, E, H):
        super().__init__()

    def forward(self, x):
        """Return output and weights."""


# %%
check_multi_head(MultiHead)


# %% tags=["solution"]
class MultiHead_solution(nn.Module):
    def __init__(self, E, H):
        super().__init__()
        self.H = H
        self.q_proj = nn.Linear(E, E, bias=False)
        self.k_proj = nn.Linear(E, E, bias=False)
        self.v_proj = nn.Linear(E, E, bias=False)
        self.out_proj = nn.Linear(E, E, bias=False)

    def split(self, x):
        N, L, E = x.shape
        return x.view(N, L, self.H, E // self.H).transpose(1, 2)

    def forward(self, x):
        query = self.split(self.q_proj(x))
        key = self.split(self.k_proj(x))
        value = self.split(self.v_proj(x))
        scores = query @ key.mT / query.shape[-1] ** 0.5
        weights = scores.softmax(dim=-1)
        merged = (weights @ value).transpose(1, 2).flatten(2)
        return self.out_proj(merged), weights


check_multi_head(MultiHead_solution)

# %% exercise-2 [markdown]
# ### 2 · Find the bug ★★ (8 minutes)
#
# `broken` returns the correct shape.
# But if token 0 changes, only output 0 changes.
# Write `mended`, a version without the bug.
#
# <details><summary>Hint</summary>
#
# `F.scaled_dot_product_attention` attends over the last two axes.
# What do they mean here?
# </details>


# %% tags=["exercise"]
def broken(x, H):
    heads = x.unflatten(-1, (H, -1))
    return F.scaled_dot_product_attention(heads, heads, heads).flatten(2)


def mended(x, H):
    """Attention in H heads with query = key = value = x: (N, L, E) -> (N, L, E)."""


# %%
check_mended_heads(mended)


# %% tags=["solution"]
def mended_solution(x, H):
    heads = x.unflatten(-1, (H, -1)).transpose(1, 2)
    averages = F.scaled_dot_product_attention(heads, heads, heads)
    return averages.transpose(1, 2).flatten(2)


check_mended_heads(mended_solution)

# %% exercise-3 [markdown]
# ### 3 · Modify ★★ (8 minutes)
#
# Many programs use one large matrix instead of `q_proj`, `k_proj` and `v_proj`.
# It gives each token $3E$ features: first all of its query, then all of its key,
# and then all of its value.
# Turn them into query, key and value, each of the shape (N, H, L, head_dim).
#
# <details><summary>Hint</summary>
#
# You can take the three apart first, with `chunk`, or treat “which of the three” as one more axis.
# In which order do the axes lie in memory?
# </details>


# %% tags=["exercise"]
def three_in_one(projected, H):
    """(N, L, 3 * E) -> query, key and value, (N, H, L, head_dim) each."""


# %%
check_three_in_one(three_in_one)


# %% tags=["solution"]
def three_in_one_solution(projected, H):
    parts = projected.chunk(3, dim=-1)
    return [part.unflatten(-1, (H, -1)).transpose(1, 2) for part in parts]


check_three_in_one(three_in_one_solution)

# %% exercise-4 [markdown]
# ### 4 · Explain ★ (5 minutes)
#
# A friend says: “My split and my merge use `view` alone.
# `merge(split(x))` gives `x`, the loss falls, and it answered *fox, bat?*.”
# Answer in three sentences.
# Then take lists of seven animals: eight tokens with the question, and two heads.
# What share of them can this layer answer at most?
#
# <details><summary>An answer</summary>
#
# Your split cuts between tokens, and your merge undoes that,
# so the round trip says nothing about what stands in a head.
# The loss falls because the question does share a head with some tokens: *fox* and *bat*.
# With eight tokens, the question shares its head with the last three animals.
# Of the 21 pairs of seven animals, three lie among these, and twelve more have one animal there.
# So it can answer at most 3/21 + 12/21 · 1/8 + 6/21 · 1/64, or 22%.
# </details>

# %% in-torch [markdown] below="`nn.MultiheadAttention` is this"
# ## In torch
#
# `nn.MultiheadAttention` is this layer.
# It keeps the matrices of query, key and value in one, `in_proj_weight`.

# %% equal-to-torch
theirs = nn.MultiheadAttention(32, num_heads=2, bias=False, batch_first=True)
in_proj = [with_a.q_proj.weight, with_a.k_proj.weight, with_a.v_proj.weight]
parameters = {
    "in_proj_weight": torch.cat(in_proj),
    "out_proj.weight": with_a.out_proj.weight,
}
theirs.load_state_dict(parameters)
output, _ = theirs(tokens, tokens, tokens)
print("same output:", torch.allclose(output, with_a(tokens)[0]))

# %% in-torch-2 [markdown]
# Unless you pass `batch_first=True`,
# it takes the first axis for the tokens and mixes the sentences of a batch, with the correct shape.
# The weights that it returns are averaged over the heads unless you pass
# `average_attn_weights=False`.
# With [**dropout**](glossary.ipynb#dropout), their rows need not sum to 1 in training mode.
# True in its Boolean masks means *blocked*.
#
# `attnlab.MultiHeadAttention` is the same layer, always with (N, L, E); later lessons use it,
# and `split_heads` and `merge_heads`.
# With heads in front, (N, H, L, head_dim),
# `F.scaled_dot_product_attention` computes all of them at once.

# %% contiguity [markdown] below="A tensor is a"
# ### What the contiguity error means
#
# A tensor is a row of numbers in memory and a rule for reading it.
# Its [**strides**](glossary.ipynb#stride) say how many steps in memory lead to the next entry along
# each axis.
# `transpose` moves no number either: it exchanges two sizes and their strides.

# %% strides
cards = torch.arange(12).view(6, 2)
print(cards.stride(), cards.T.stride())

# %% further-contiguity [markdown] below="A tensor is [**contiguous**]"
# A tensor is [**contiguous**](glossary.ipynb#contiguous) if reading it in order means walking
# through memory step by step, and `cards.T` is not.
# In the new order the numbers are not equally far apart in memory, so `view` refuses.

# %% view-error tags=["raises-exception"]
cards.T.view(12)

# %% further-contiguity-2 [markdown]
# The message recommends `reshape`, which copies the numbers if it must.
# That joins them in the order of the axes as they are now.
# If this is not the order that you mean, the error is gone, but the numbers are scrambled.

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.2.2: multi-head attention, and what is lost in a single average.
# - harvardnlp, annotated-transformer,
#   [issue 17](https://github.com/harvardnlp/annotated-transformer/issues/17) and
#   [issue 118](https://github.com/harvardnlp/annotated-transformer/issues/118): the line,
#   reported as an error, and the question whether `view` alone will do.
#   The same question about another program:
#   [hyunwoongko, transformer, issue 15](https://github.com/hyunwoongko/transformer/issues/15).
# - [Chinese-Text-Classification-Pytorch, issue 10](https://github.com/649453932/Chinese-Text-Classification-Pytorch/issues/10):
#   a reader asks whether a `view` in a published classifier mixes up the order.
# - Baan,
#   [transformer-from-scratch, pull request 6](https://github.com/jsbaan/transformer-from-scratch/pull/6):
#   a merge without a transpose, in a model that had nevertheless learned to copy.
# - Gemma Team,
#   [Gemma: Open Models Based on Gemini Research and Technology](https://arxiv.org/abs/2403.08295),
#   2024, table 1: a head_dim that is not $E / H$.

# %% next [markdown]
# ## Next
#
# Lesson 8,
# [What attention costs, and how to pay less](08_what_attention_costs_and_how_to_pay_less.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.**
# Two numbers, and one head: 14.
# Two heads: 12.
# Deal or cut, with the explorer: 13.
# The test, and the answer: 6.
# Leave “Further” for home.
#
# **Where a class stalls.**
# *“Who reads the average?”:* everything is frozen but the last step.
# *The second largest share:* a student plays the matrix, and may only say “more of this,
# more for that guess”.
# *Deal or cut:* take twelve real cards and two players, and then merge them again.
# *“Why not always chunk and stack?”:* one may; it copies the numbers, and `view` does not.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# `x` is (2, 5, 12).
# Which line splits it into 3 heads?
# **`x.view(2, 5, 3, 4).transpose(1, 2)`.**
# *`x.view(2, 3, 5, 4)`* cuts each sentence into three blocks of neighbouring numbers,
# so that head 0 gets all of token 0 and two thirds of token 1.
# *`x.view(2, 5, 4, 3).permute(0, 3, 1, 2)`* has the correct shape too,
# but gives head 0 the features 0, 3, 6 and 9.
# That is harmless if you train from scratch, but wrong for parameters trained in the other order.
#
# **2.**
# `merge(split(x))` equals `x`.
# What does that show?
# **That the two undo each other.**
# *Both are correct:* cut and pile passes too.
# *Each head holds all tokens:* the round trip never looks into a head.
#
# **3.**
# The loss falls.
# What does that show?
# **Neither that the heads are correct nor that the layer attends.**
# *The heads are correct:* version B learns to answer *fox, bat?*.
# *The layer attends:* some tasks need no other token.
#
# **4.**
# A layer is given 8 heads instead of 1, and its width stays the same.
# What grows by a factor of 8?
# **The number of attention weights.**
# *The parameters:* each head has an eighth of the rows of each input matrix.
# *The length of a row of scores:* a row has one entry for each key.
#
# **5.**
# The scores have the shape (N, L, H, H).
# What happened?
# **The transpose in `split` is missing.**
# *Everything is fine:* look at which axes are multiplied.
# *The mask has the wrong shape:* no mask has been used yet.
# </details>
