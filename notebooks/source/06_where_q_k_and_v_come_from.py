# %% 6-where-q-k-and-v-come-from-trainable-projections [markdown]
# # 6 · Where Q, K and V come from: trainable projections
#
# Each token is read three times, by three matrices: as a question, as a label, as content.
# They begin as random numbers; in training the attention map forms before our eyes.
#
# **You need** lesson 1; for one section, lesson 2.
#
# **You will be able to**
# - write self-attention as a class in two ways that agree,
# - count its parameters,
# - write a test that a layer with right shapes can fail,
# - read in trained matrices what they look for.
#
# **Time:** 45 minutes; the exercises take 32 more.

# %%
import warnings
from itertools import product

import matplotlib.pyplot as plt
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import SelfAttention, data_path, load_table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import check_layer_test, check_linear_from, check_parameter_count
from attnlab.exercises import check_other_pair, predict
from attnlab.live import live
from attnlab.plotting import plot_attention, plot_heads, plot_scores, plot_sweep
from torch import nn

lesson_setup()

# %% [markdown]
# ## One row, three roles
#
# In lesson 1 "He is awesome" used one row as query, key and value. So the raw score of $i$ for $j$ equals that of $j$ for $i$:
# a token cannot ask for one thing and be found by another.
#
# A [**projection**](glossary.ipynb#projection) gives each role its own row. For the query of a token with row $x$:
#
# $$q = x\, W_Q$$
#
# $W_Q$ has one row per input feature and one column per number of the query.

# %% one-row-three-roles
words, _, x = load_table("the_next_day_is_bright.csv")
torch.manual_seed(123)
W_query, W_key, W_value = torch.rand(8, 4), torch.rand(8, 4), torch.rand(8, 4)
query_1 = x[1] @ W_query  # "next": (8,) @ (8, 4) -> (4,)
expected = torch.tensor([0.8463, 2.3367, 1.1531, 1.9900])
assert torch.allclose(query_1, expected, atol=1e-4)
x.shape, query_1

# %% one-row-three-roles-2 [markdown]
# Each number of the query is a sum over the eight features; a column of $W_Q$ says how much of each goes in.
# The query has its own width, here 4. It is the $d_k$ under the root; $E$, the token's width, stays 8.
#
# With queries apart from keys, scores need not be symmetric.

# %% one-row-three-roles-3
by_hand = sum(x[1, feature] * W_query[feature, 0] for feature in range(8))
assert torch.allclose(by_hand, query_1[0])
queries, keys, values = x @ W_query, x @ W_key, x @ W_value  # all tokens at once
raw = queries @ keys.T
assert torch.allclose(queries[1], query_1) and not torch.allclose(raw, raw.T)
print(f"next asks day: {raw[1, 2]:.3f}   day asks next: {raw[2, 1]:.3f}")
by_hand, queries.shape, keys.shape, values.shape

# %% a-class-that-owns-its-matrices [markdown]
# ## A class that owns its matrices
#
# Training needs to know which tensors it may change. An `nn.Module` keeps a list. A tensor gets on it, as a [**parameter**](glossary.ipynb#parameter), by being wrapped
# in `nn.Parameter` and assigned to an attribute of the module. The wrap also sets `requires_grad`: record a gradient for me.
#
# `__init__` makes the matrices once; calling the layer runs `forward`.


# %% a-class-that-owns-its-matrices-2
class ByParameter(nn.Module):
    """Self-attention with bare matrices. x: (L, d_in) -> (L, d_out)."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x):
        query, key, value = x @ self.W_query, x @ self.W_key, x @ self.W_value
        scores = query @ key.T / key.shape[-1] ** 0.5
        return scores.softmax(dim=-1) @ value


# %% a-class-that-owns-its-matrices-3
torch.manual_seed(123)
by_parameter = ByParameter(8, 4)
output = by_parameter(x)
steps = (raw / 4**0.5).softmax(dim=-1) @ values  # the steps, without a class
assert torch.equal(by_parameter.W_query, W_query)  # same seed, same order of draws
assert torch.allclose(output, steps)
assert torch.allclose(output[0, :2], torch.tensor([1.3246, 1.5236]), atol=1e-4)
output.shape, output.requires_grad, steps.requires_grad

# %% sentence-500-words
predict("06/sentence-500-words")

# %%
# %%answer 06/sentence-500-words
count = sum(parameter.numel() for parameter in by_parameter.parameters())
assert count == 3 * 8 * 4
assert by_parameter(torch.rand(500, 8)).shape == (500, 4)
count, [name for name, _ in by_parameter.named_parameters()]

# %% [markdown]
# ## `.T` on a batch
#
# So far the layer has seen one sentence. Models train on a batch: $N$ sentences at once. The matrix products `x @ W` do not mind.
# One line of `forward` does.

# %% query-key-t
predict("06/query-key-t")

# %% tags=["raises-exception"]
two = torch.stack([x, x])
with warnings.catch_warnings(record=True) as caught:  # torch warns, once
    print("keys turned around:", (two @ W_key).T.shape)
for warning in caught:
    print(str(warning.message).split(". ")[0])
by_parameter(two)

# %% [markdown]
# An error is the kind case. Take 4 sentences of 4 words with $d_{out} = 4$: every axis has the same length, and all shapes fit.

# %%
torch.manual_seed(0)
four = torch.rand(4, 4, 8)
together = by_parameter(four)
alone = torch.stack([by_parameter(sentence) for sentence in four])
assert together.shape == alone.shape and not torch.allclose(together, alone, atol=0.1)
query, key = four @ W_query, four @ W_key
mixed = torch.einsum("nif,mfn->nim", query, key)  # what query @ key.T computes
assert torch.allclose(query @ key.T, mixed)
print("shape:", tuple(together.shape))
print("largest error:", f"{(together - alone).abs().max():.3f}")

# %% [markdown]
# The shape is right, the numbers are wrong: `.T` has swapped sentences with features. $m$ is another sentence:
#
# wrong: `score[n, i, m] = sum over f of query[n, i, f] * key[m, f, n]`
#
# right: `score[n, i, j] = sum over f of query[n, i, f] * key[n, j, f]`
#
# The repair names the two axes to swap: `key.transpose(-2, -1)`, short `key.mT`. And a habit: test with sizes that all differ.


# %%
class Batched(ByParameter):
    """The same for x of shape (..., L, d_in)."""

    def forward(self, x):
        query, key, value = x @ self.W_query, x @ self.W_key, x @ self.W_value
        scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
        return scores.softmax(dim=-1) @ value


mended = Batched(8, 4)
mended.load_state_dict(by_parameter.state_dict())
assert torch.allclose(mended(four), alone, atol=1e-6)
mended(two).shape

# %% [markdown]
# ## The same with `nn.Linear`
#
# The usual way to write a projection is `nn.Linear(d_in, d_out)`. It stores the matrix transposed, one **row** per output;
# it draws smaller numbers of both signs; and unless told otherwise it adds a trainable number to each output, the [**bias**](glossary.ipynb#bias).


# %% the-same-with-nn-linear
class ByLinear(nn.Module):
    """Self-attention with linear layers. x: (..., L, d_in) -> (..., L, d_out)."""

    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.k_proj = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.v_proj = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        query, key, value = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
        return scores.softmax(dim=-1) @ value


# %% the-same-with-nn-linear-2
torch.manual_seed(789)
by_linear = ByLinear(8, 4)
output = by_linear(x)
assert torch.allclose(output[0, :2], torch.tensor([0.0174, 0.0553]), atol=1e-4)
assert torch.allclose(by_linear.q_proj(x), x @ by_linear.q_proj.weight.T)
print("weight:", tuple(by_linear.q_proj.weight.shape))
output[0], steps[0]

# %% [markdown]
# Another class, another output: 0.017 where the first class gave 1.325. Is the class to blame? Class and seed have both changed, so this comparison
# proves nothing. We change one thing at a time.

# %% copy-numbers-first-into-second
predict("06/copy-numbers-first-into-second")

# %% copy-numbers-first-into-second-answer
# %%answer 06/copy-numbers-first-into-second
torch.manual_seed(123)
by_linear = ByLinear(8, 4)
same_seed = (by_linear(x) - steps).abs().max()
pairs = [("q_proj", W_query), ("k_proj", W_key), ("v_proj", W_value)]
with torch.no_grad():  # copying is not a step to learn from
    for name, matrix in pairs:
        getattr(by_linear, name).weight.copy_(matrix.T)  # mind the .T
copied = (by_linear(x) - steps).abs().max()
assert same_seed > 2 and copied < 1e-6
print(f"same seed: up to {same_seed:.3f} apart")
print("same numbers, same output:", bool(copied < 1e-6))
another_name = nn.Parameter(W_query.T)  # no copy: the memory of W_query
assert another_name.data_ptr() == W_query.data_ptr()

# %% [markdown]
# Forget the `.T` and `copy_` raises an error, since (8, 4) is not (4, 8). With $d_{in} = d_{out}$ nothing raises, and the layer is a different one.
# `nn.Parameter(W_query.T)` copies nothing: training one would change the other.
#
# `attnlab.SelfAttention` is this class with masks and checks: (N, L, E) in, output and weights out. With a bias `ByLinear` has 108 parameters: 4 more for each projection.

# %% the-same-with-nn-linear-3
ours = SelfAttention(8, 4)
ours.load_state_dict(by_linear.state_dict())  # it uses the same names
assert torch.allclose(ours(x[None]).output[0], by_linear(x), atol=1e-6)
with_bias = ByLinear(8, 4, qkv_bias=True)
count = sum(parameter.numel() for parameter in with_bias.parameters())
assert count == 3 * (8 * 4 + 4)
count

# %% [markdown]
# ## All-positive matrices
#
# `torch.rand` draws numbers between 0 and 1, never below. In lesson 1 all five words of "The next day is bright" looked most at "day". Was that bad luck?

# %% many-five-words-same-favourite
predict("06/many-five-words-same-favourite")


# %% many-five-words-same-favourite-answer
# %%answer 06/many-five-words-same-favourite
def draw_positive():
    return torch.rand(8, 4)


def draw_linear():
    return (2 * torch.rand(8, 4) - 1) / 8**0.5  # as nn.Linear starts


def favourites(draw, asking, asked, draws=1000):
    torch.manual_seed(0)
    pairs = [(asking @ draw(), asked @ draw()) for _ in range(draws)]
    scores = torch.stack([query @ key.T for query, key in pairs])
    return scores.argmax(dim=-1)  # (draws, L)


def all_agree(favourite):
    return int((favourite == favourite[:, :1]).all(dim=-1).sum())


positive = all_agree(favourites(draw_positive, x, x))
linear = all_agree(favourites(draw_linear, x, x))
assert positive > 900 and 200 < linear < 400
positive, linear, round(1000 * 5 * (1 / 5) ** 5, 1)

# %% [markdown]
# Every input feature is positive too: all queries point nearly the same way and differ in length. A score is about (length of
# the query) times (something of the key), so rows rank the keys alike.
#
# Subtract the mean word from those who ask or are asked, and count the largest group of words with one favourite.

# %%
centred = x - x.mean(dim=0)
inputs = {"as they are": (x, x), "queries": (centred, x), "keys": (x, centred)}
rows = {}
for name, (asking, asked) in inputs.items():
    chosen = [favourites(draw, asking, asked) for draw in (draw_positive, draw_linear)]
    largest = [F.one_hot(one, 5).sum(dim=1).amax(dim=1) for one in chosen]  # (draws,)
    rows[name] = [size.float().mean().item() for size in largest]
groups = pd.DataFrame(rows, index=["rand", "nn.Linear's numbers"]).T
choices = list(product(range(5), repeat=5))  # independent and even
chance = sum(max(map(one.count, one)) for one in choices) / len(choices)
assert F.cosine_similarity(queries[:, None], queries, dim=-1).min() > 0.85
assert groups.loc["queries"].max() < 2.6 < 3.5 < groups.loc["keys"].min()
print(f"average size of the largest group, of 5 (by chance: {chance:.1f})")
groups.rename_axis("centred").round(1)

# %%
fig, axes = plt.subplots(1, 3, figsize=(7.5, 3.2), layout="constrained")
cases = [(draw_positive, x), (draw_linear, x), (draw_positive, centred)]
titles = ["rand", "nn.Linear's numbers", "rand, centred queries"]
for ax, title, (draw, asking) in zip(axes, titles, cases, strict=True):
    torch.manual_seed(123)
    scores = (asking @ draw()) @ (x @ draw()).T / 4**0.5
    lead = scores - scores.mean(dim=1, keepdim=True)  # softmax sees this only
    labels = {"queries": words, "keys": words, "annotate": False}
    plot_scores(lead, ax=ax, **labels)
    ax.set_title(f"{title}\n±{lead.abs().max():.2f}", fontsize=10)
    for row, column in enumerate(lead.argmax(dim=1)):
        ax.text(column + 0.5, row + 0.5, "★", ha="center", va="center")
show_figure(fig, "6.1")

# %% [markdown]
# What all queries share adds the same scores to every row; where it outweighs what differs, as with `rand`, it decides all favourites. Centred queries share
# nothing: the groups shrink from 5.0 to 2.4, near the 2.3 of chance. What all keys share adds one number to all scores of a row: no favourite changes.
#
# So lesson 1's "day" came from positive numbers meeting positive features. Do not interpret an untrained map.

# %% [markdown]
# ## The right shape proves little
#
# A common check: 10 tokens in; 10 queries, keys and values out; shapes as expected.

# %% set-three-matrices-bylinear-layer
predict("06/set-three-matrices-bylinear-layer")

# %% set-three-matrices-bylinear-layer-answer
# %%answer 06/set-three-matrices-bylinear-layer
torch.manual_seed(42)
noise = torch.randn(10, 8) * 10.0  # (L, d_in)
zero, fresh = ByLinear(8, 4), ByLinear(8, 4)
for parameter in zero.parameters():
    nn.init.zeros_(parameter)
q, k, v = zero.q_proj(noise), zero.k_proj(noise), zero.v_proj(noise)
assert q.shape == k.shape == v.shape == zero(noise).shape == (10, 4)
weights = (q @ k.T / 2).softmax(dim=-1)
assert torch.allclose(weights, torch.tensor(0.1))
assert torch.allclose(weights.sum(dim=-1), torch.ones(10))
for name, layer in (("zero", zero), ("fresh", fresh)):
    output = layer(noise)
    print(f"{name} layer tells tokens apart:", not torch.allclose(output[0], output[1]))

# %% [markdown]
# ## A task to learn: recall
#
# Four pairs, then four questions: `cat 3 · owl 0 · fox 4 · hen 1 · owl ? · hen ? · cat ? · fox ?`. The answer is the number of the name.
#
# A token is a row of zeros and ones: eight features for the name, five for the number. In a question the five are 0. The layer needs no word positions here.

# %%
names = ["ant", "bee", "cat", "cow", "dog", "fox", "hen", "owl"]


def encode(text):
    """'cat 3' -> 13 features."""
    name, number = text.split()
    row = torch.zeros(13)
    row[names.index(name)] = 1
    if number != "?":
        row[8 + int(number)] = 1
    return row


def decode(row):
    number = int(row[8:].argmax()) if row[8:].any() else "?"
    return f"{names[row[:8].argmax()]} {number}"


tokens = ["cat 3", "owl 0", "fox 4", "hen 1", "owl ?", "hen ?", "cat ?", "fox ?"]
farm = torch.stack([encode(token) for token in tokens])  # (L, d_in)
answers = torch.tensor([0, 1, 3, 4])
assert [decode(row) for row in farm] == tokens
farm.shape, farm[0]

# %% [markdown]
# The model is three matrices. Queries and keys have 16 numbers. The value has 5, and the largest entry of
# the output is the answer. Every batch is new. You may skip how examples are made.


# %%
def make_examples(count):
    """Tokens (count, 8, 13) and answers (count, 4)."""
    name = torch.rand(count, 8).argsort(dim=1)[:, :4]  # no name twice
    number = torch.randint(5, (count, 4))
    order = torch.rand(count, 4).argsort(dim=1)
    pairs = torch.cat([F.one_hot(name, 8), F.one_hot(number, 5)], dim=-1)
    asked = F.pad(F.one_hot(name.gather(1, order), 8), (0, 5))
    return torch.cat([pairs, asked], dim=1).float(), number.gather(1, order)


def recall(matrices, x, divisor=4.0):  # the root of 16
    query, key, value = (x @ matrix for matrix in matrices)
    weights = (query @ key.transpose(-2, -1) / divisor).softmax(dim=-1)
    return weights @ value, weights


def accuracy(matrices, x, answer):
    guess = recall(matrices, x)[0][:, 4:].argmax(dim=-1)
    return (guess == answer).float().mean().item()


torch.manual_seed(0)
example, answer = make_examples(1)
print(" · ".join(decode(row) for row in example[0]), "->", answer[0].tolist())


# %%
def train(matrices, optimizer, steps, divisor=4.0):
    for _ in range(steps):
        batch, answer = make_examples(32)
        output, _ = recall(matrices, batch, divisor)
        loss = F.cross_entropy(output[:, 4:].flatten(0, 1), answer.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
matrices = [(2 * torch.rand(13, n) - 1) / 13**0.5 for n in (16, 16, 5)]
matrices = [matrix.requires_grad_() for matrix in matrices]
optimizer = torch.optim.Adam(matrices, lr=0.01)
test = make_examples(1000)
before, untrained = accuracy(matrices, *test), matrices[0].detach().clone()
train(matrices, optimizer, 200)
after = accuracy(matrices, *test)
assert before < 0.3 and after > 0.99
assert torch.equal(matrices[0][8:], untrained[8:])  # no question has a number
count = sum(matrix.numel() for matrix in matrices)
print(f"{count} numbers, {count - matrices[0][8:].numel()} of them learn")
f"before: {before:.2f}, after 200 steps: {after:.2f} (guessing: 0.20)"

# %% [markdown]
# Of 481 numbers 401 learn; the five rows of $W_Q$ for numbers never move, since only questions count and a question has no number. The
# loss never mentions attention: nobody told the layer where to look.
#
# ### Watch the map form
#
# We stored the matrices of one such training every ten steps.

# %%
stored = pd.read_csv(data_path("recall_snapshots.csv"))


def snapshot(step):
    """W_query, W_key (13, 16) and W_value (13, 5) after so many steps."""
    now = stored[stored.step == step]
    parts = [now[now.matrix == name] for name in ("query", "key", "value")]
    numbers = [part.iloc[:, 3:].dropna(axis=1).to_numpy() for part in parts]
    return [torch.tensor(part, dtype=torch.float32) for part in numbers]


learned = learned_query, learned_key, learned_value = snapshot(200)
assert accuracy(learned, *test) > 0.99
assert torch.equal(recall(learned, farm)[0][4:].argmax(dim=-1), answers)
[tuple(matrix.shape) for matrix in learned]

# %%
pair_of = torch.tensor([1, 3, 0, 2])  # where the answer to each question stands


def frame_answers(ax):
    frame = {"fill": False, "ec": "#c8500a", "lw": 2.5, "clip_on": False}
    for row, column in enumerate(pair_of.tolist()):
        ax.add_patch(plt.Rectangle((column, row), 1, 1, **frame))


shown = [0, 50, 80, 200]
maps = torch.stack([recall(snapshot(step), farm)[1][4:] for step in shown])
titles = [f"step {step}" for step in shown]
fig = plot_heads(maps, titles=titles, queries=tokens[4:], keys=tokens, ncols=2)
fig.set_size_inches(7.5, 4.2)
for ax in fig.axes[:4]:
    ax.tick_params(axis="x", rotation=60)
    frame_answers(ax)
show_figure(fig, "6.2")

# %%
right = maps[:, torch.arange(4), pair_of]  # (snapshots, questions)
itself = maps[:, torch.arange(4), torch.arange(4, 8)].mean(dim=-1)
columns = {"right pair": right.mean(dim=-1), "itself": itself}
columns["accuracy"] = [accuracy(snapshot(step), *test) for step in shown]
even = [[0 * q, k, v] for q, k, v in map(snapshot, shown)]  # all weights 1/8
columns["accuracy, even weights"] = [accuracy(one, *test) for one in even]
draws = list(product(range(5), repeat=4))  # the numbers of four pairs
commonest = sum(max(map(draw.count, draw)) for draw in draws) / (4 * len(draws))
training = pd.DataFrame(columns, index=pd.Index(shown, name="step")).astype(float)
same_name = torch.stack([pair_of, torch.arange(4, 8)], dim=1).sort(dim=1).values
leaders = maps[1].topk(2, dim=1).indices.sort(dim=1).values  # at step 50
assert torch.equal(leaders, same_name) and right[-1].mean() > 0.9
mixed = accuracy([learned_query, learned_key, snapshot(50)[2]], *test)
assert abs(commonest - 305 / 625) < 1e-9 and mixed > 0.995
print(f"naming the commonest number: {commonest:.2f}")
print(f"map of step 200, values of step 50: {mixed:.2f}")
training.round(2)

# %% [markdown]
# Guessing gives 0.20. Even weights (last column) average all values: each number gets as many votes as it has pairs, and the commonest wins: 0.49.
#
# At step 50 even weights would already give 0.45; the pale map lifts that to 0.63. With the final map the same values would give 1.00. At step 80 a question
# still looks at itself: it has the right name but no number.

# %% [markdown]
# ## What each matrix has learned
#
# $$q_i \cdot k_j = (x_i W_Q)(x_j W_K)^\top = x_i\, W_Q W_K^\top\, x_j^\top$$
#
# So one matrix makes the scores: $M = W_Q W_K^\top / \sqrt{d_k}$. A 1 in feature $a$ of $x_i$ picks row $a$ of $M$, a 1 in feature $b$ of $x_j$ column $b$.
# "cat ?" scores "cat 3" with two entries: $M_{cat,\,cat} + M_{cat,\,3}$.

# %%
predict("06/number-key-score-after-training")

# %%
# %%answer 06/number-key-score-after-training
M = learned_query @ learned_key.T / 4  # (13, 13)
features = [*names, *map(str, range(5))]  # 13 labels
cat, three = features.index("cat"), features.index("3")
scores = farm @ M @ farm.T  # (L, S)
assert torch.allclose(scores.softmax(dim=-1), recall(learned, farm)[1], atol=1e-4)
assert torch.allclose(scores[6, 0], M[cat, cat] + M[cat, three], atol=1e-4)
print(f"cat ? scores cat 3: {M[cat, cat]:.1f} + {M[cat, three]:.1f}")
for column in (0, 6, 1, 4):  # its pair, itself, another pair, another question
    print(f"cat ? scores {tokens[column]}: {scores[6, column]:.1f}")
lead = scores[6, 0] - scores[6, 6]
print(f"itself against its pair: exp(-{lead:.1f}) = {torch.exp(-lead):.3f}")


# %%
# %%answer 06/number-key-score-after-training
def name_lead(table):  # score of the name asked minus that of the other names
    return table[:, :8].diagonal() - (table[:, :8].sum(1) - table[:, :8].diagonal()) / 7


bonus = M[:8, 8:]  # name asked, number of the key
assert name_lead(M[:8]).min() > 6 and bonus.min() > 3
assert bonus.std(dim=1).max() < 0.4  # hardly depends on the number
no_bonus = learned_key.clone()
no_bonus[8:] = 0
without = accuracy([learned_query, no_bonus, learned_value], *test)
assert without > 0.99
votes = learned_value - learned_value.mean(dim=1, keepdim=True)  # answers stay
assert accuracy([learned_query, learned_key, votes], *test) == accuracy(learned, *test)
assert torch.equal(votes[8:].argmax(dim=1), torch.arange(5)) and votes[:8].max() < 0.3
print(f"same name minus other names {name_lead(M[:8]).mean():.1f}")
print(f"any number {bonus.mean():.1f}, its spread {bonus.std(dim=1).mean():.2f}")
print(f"accuracy without the bonus: {without:.2f}")

# %% figure-6-3
fig, axes = plt.subplots(1, 2, figsize=(7.5, 3.6), width_ratios=[13, 6])
plot_scores(M[:8], ax=axes[0], queries=names, keys=features, annotate=False)
axes[0].set(title="M: what a question looks for", ylabel="asked")
axes[0].set(xlabel="feature of the key")
axes[0].tick_params(axis="x", rotation=90)
numbers = list("01234")
plot_scores(votes, ax=axes[1], queries=features, keys=numbers, annotate=False)
axes[1].set(title="W_value, centred", ylabel="feature", xlabel="answer")
for ax, shrink in zip(axes, (0.62, 0.95), strict=True):
    fig.colorbar(ax.collections[0], ax=ax, shrink=shrink)
show_figure(fig, "6.3")

# %% [markdown]
# One row, three readings. The query reads the name. The key offers the name and "I have a number". The value hands over the number and drops the name.
#
# It is this clear because each feature has a name and is 0 or 1, unlike in a large model.
#
# **Your experiment.** Move through the training: which comes first, the diagonal of names or the bonus for numbers?
#
# <details><summary>What you see</summary>The diagonal: at step 80 the own name is 2.8 above the others, the bonus 0.4.</details>

# %%
at_80 = snapshot(80)[0][:8] @ snapshot(80)[1].T / 4  # in the folded answer
assert (name_lead(at_80).mean() - 2.8).abs() < 0.05 > (at_80[:, 8:].mean() - 0.4).abs()


def draw_training(fig, step):
    parts = snapshot(step)
    weights = recall(parts, farm)[1][4:]
    left, right = fig.subplots(1, 2, width_ratios=[8, 14])
    plot_attention(weights, ax=left, queries=tokens[4:], keys=tokens, annotate=False)
    frame_answers(left)
    table = parts[0][:8] @ parts[1].T / 4  # (8 names, 13 features)
    plot_scores(table, ax=right, queries=names, keys=features, annotate=False, limit=7)
    fig.colorbar(right.collections[0], ax=right, shrink=0.65)
    left.set_title("weights")
    right.set(title="M", ylabel="asked", xlabel="feature of the key")
    left.tick_params(axis="x", rotation=90)
    right.tick_params(axis="x", rotation=90)
    name, number = name_lead(table).mean(), table[:, 8:].mean()
    sizes = f"Same name minus others {name:z.1f}, any number {number:z.1f}"
    return f"{sizes}, accuracy <b>{accuracy(parts, *test):.2f}</b>."


live(
    draw_training,
    step=list(range(0, 201, 10)),
    figsize=(7.5, 3.4),
    alt="Left: weights of four questions over eight tokens. Right: scores that a name "
    "asked for gives to each feature of a key.",
)

# %% [markdown]
# ### Only the product counts
#
# Let $R$ be [**orthogonal**](glossary.ipynb#orthogonal), a square matrix with $R R^\top = I$ (it turns or mirrors all rows alike). Then
#
# $$(W_Q R)(W_K R)^\top = W_Q R R^\top W_K^\top = W_Q W_K^\top$$
#
# A random $R$ changes every number of both matrices, and no score. Single columns of a trained $W_Q$ need not mean anything. Biases, or
# rotary positions (which turn queries and keys by place), break this.

# %%
torch.manual_seed(0)
R, _ = torch.linalg.qr(torch.randn(16, 16))
assert torch.allclose(R @ R.T, torch.eye(16), atol=1e-5)
turned = (learned_query @ R) @ (learned_key @ R).T / 4
assert torch.allclose(turned, M, atol=1e-4)
moved = (learned_query @ R - learned_query).abs()
assert moved.min() > 0 and (learned_key @ R != learned_key).all()
print(f"entries of W_query moved by up to {moved.max():.2f}")
print("scores stay:", torch.allclose(farm @ turned @ farm.T, scores, atol=1e-4))

# %% without-the-scale-factor [markdown]
# ## Without the scale factor
#
# Lesson 2 warned of scores that are not divided by $\sqrt{d_k}$. We train with and without the division: $d_k = 256$, five seeds, learning rates 0.003, 0.01 and 0.03, two
# starts of $W_Q$ and $W_K$. **Linear**: the small numbers of `nn.Linear`. **Wide**: over four times as large; the query of a pair has variance 1. $W_V$ always starts small.
#
# First the largest weight of a row before training, on average: the **top weight**.


# %% without-the-scale-factor-2
def small():
    return (2 * torch.rand(13, 256) - 1) / 13**0.5


def wide():
    return torch.randn(13, 256) / 2**0.5


torch.manual_seed(0)
rows, some = {}, test[0][:100]
for name, draw in (("linear", small), ("wide", wide)):
    pairs_of = [(some @ draw(), some @ draw()) for _ in range(20)]
    raw_scores = torch.stack([query @ key.mT for query, key in pairs_of])
    tops = [(raw_scores / by).softmax(dim=-1).amax(dim=-1).mean() for by in (1, 16)]
    rows[name] = [raw_scores.var(dim=-1).mean(), *tops]
columns = ["variance of raw scores", "top weight, raw", "top weight, divided"]
assert abs((some @ wide())[:, :4].var() - 1) < 0.1 and wide().std() > 4 * small().std()
assert rows["linear"][1] < 0.4 and rows["wide"][1] > 0.8
pd.DataFrame(rows, index=columns).astype(float).T.round(2)

# %% [markdown]
# From the linear start even raw scores leave the softmax soft. From the wide start the top weight is about 0.9 before training, so by chance.

# %%
race = pd.read_csv(data_path("recall_race.csv"))
race["divided by"] = race.scaled.map({1: "sqrt(d_k)", 0: "nothing"})


def draw_race(fig, begin, d_k, learning_rate):
    ax = fig.subplots()
    chosen = (race.start == begin) & (race.d_k == d_k)
    shown = race[chosen & (race.learning_rate == learning_rate)]
    lines = shown.pivot_table("accuracy", "step", ["divided by", "seed"])
    ways, curves = ["nothing", "sqrt(d_k)"], {}
    for way, colour in zip(ways, ("#c8500a", "#0b61a4"), strict=True):
        curves[f"divided by {way}"] = lines[way].median(axis=1).tolist()
        low, high = lines[way].min(axis=1), lines[way].max(axis=1)
        ax.fill_between(lines.index, low, high, color=colour, alpha=0.2)
    plot_sweep(list(lines.index), curves, ax=ax, xlabel="step", ylabel="accuracy")
    ax.axhline(commonest, color="#555555", lw=1, ls=":")
    ax.text(395, commonest, "even weights", ha="right", va="bottom", fontsize=9)
    ax.set(ylim=(0, 1.05), title=f"{begin} start, d_k = {d_k}")
    raw, divided = (lines[way].loc[200].median() for way in ways)
    return f"After 200 steps: {raw:.2f} divided by nothing, {divided:.2f} by sqrt(d_k)."


# %%
predict("06/start-layer-learn-more-slowly")

# %% start-layer-learn-more-slowly-answer
# %%answer 06/start-layer-learn-more-slowly
# the asserts back the text below; you may skip them
at_256 = race[race.d_k == 256].set_index("start")
index = ["learning_rate", "seed", "step"]  # column 0: undivided, column 1: divided
from_linear = at_256.loc["linear"].pivot_table("accuracy", index, "scaled")
from_wide = at_256.loc["wide"].pivot_table("accuracy", index, "scaled")
early, after = from_linear.xs(50, level="step"), from_wide.query("step > 0")
assert (early[0] >= early[1]).all() and not (after[1] < after[0]).any()
assert from_linear.xs(400, level="step").min().min() > 0.995
end = after.xs(400, level="step").sort_values(0)  # 15 trainings
assert end[1].min() > 0.995 and round(end[0].iloc[0], 2) == 0.80
assert end[0].iloc[11] < 0.98 and end[0].iloc[12:].min() > 0.995 and len(end) == 15
for name, runs, step in (("linear", from_linear, 50), ("wide", from_wide, 200)):
    middle = runs.xs((0.003, step), level=("learning_rate", "step")).median()
    print(f"{name}, step {step}: {middle[0]:.2f} undivided, {middle[1]:.2f} divided")
fig = plt.figure(figsize=(7.5, 3), layout="constrained")
for part, begin in zip(fig.subfigures(1, 2), ("linear", "wide"), strict=True):
    draw_race(part, begin, 256, 0.003)
show_figure(fig, "6.4")

# %% [markdown]
# From the linear start all trainings end at 1.00. From the wide start ($d_k = 256$) divided scores are never behind and all 15 end at 1.00; undivided 3, the others between 0.80 and 0.98.
#
# Dividing is arithmetic: $q \cdot k / 16 = (q / 4) \cdot (k / 4)$. Adam's steps do not grow with the gradient, so this is the same training with both matrices starting 4 times smaller and steps 4 times smaller ("Further").
#
# "Without the division it cannot learn" is too strong; "it always helps" is wrong here.

# %% [markdown]
# ## Further: small experiments
#
# ### All settings of the race
#
# "Positive" is `torch.rand` for $W_Q$ and $W_K$: all its runs end at 1.00. With the rate 0.03 both curves of the linear start
# are at 1.00 by the first stored point: the grid of 50 steps is too coarse there.

# %%
assert race[(race.step == 400) & (race.start == "positive")].accuracy.min() > 0.99
fast = race[(race.learning_rate == 0.03) & (race.start == "linear") & (race.step == 50)]
assert fast.accuracy.min() > 0.995
live(
    draw_race,
    begin=["linear", "positive", "wide"],
    d_k=[256, 16],
    learning_rate=[0.003, 0.01, 0.03],
    start={"begin": "wide", "d_k": 256, "learning_rate": 0.01},
    figsize=(6, 3.2),
    alt="Accuracy over steps, with and without the division; bands over five seeds.",
)

# %% to-divide-is-to-start-smaller-and-step-smaller [markdown]
# ### To divide is to start smaller and step smaller
#
# Ten steps from the wide start: divided by 16, and undivided with both matrices and their learning rate 4 times smaller (and Adam's `eps` 4 times larger, as the gradients are).


# %%
def ten_steps(shrink, divisor):
    torch.manual_seed(0)
    start = [wide() / shrink, wide() / shrink, small()[:, :5]]
    start = [matrix.requires_grad_() for matrix in start]
    both = {"params": start[:2], "lr": 0.01 / shrink, "eps": 1e-8 * shrink}
    optimizer = torch.optim.Adam([both, {"params": start[2:]}], lr=0.01)
    train(start, optimizer, 10, divisor)
    return torch.cat([start[0] * shrink, start[1] * shrink, start[2]], dim=1)


gap = (ten_steps(1, divisor=16) - ten_steps(4, divisor=1)).abs().max()
assert gap < 1e-3
print(f"after ten steps the matrices differ by up to {gap:.4f}")

# %% [markdown]
# ### One matrix for both
#
# This task does not need two matrices for the scores: we train with $W_K = W_Q$. Exercise 5 asks what such a layer gives up.

# %%
torch.manual_seed(0)
tied = [((2 * torch.rand(13, n) - 1) / 13**0.5).requires_grad_() for n in (16, 5)]
shared = [tied[0], tied[0], tied[1]]
train(shared, torch.optim.Adam(tied, lr=0.01), 200)
assert accuracy(shared, *test) > 0.99
print(f"tied: {accuracy(shared, *test):.2f}")

# %% [markdown]
# ### A bias that does nothing
#
# For a key the bias $b$ is wasted: it adds $q_i \cdot b$ to all scores of query $i$, which softmax ignores.
# This holds while nothing but scaled dot product and softmax follows: rotary positions, normalised keys or an added key of zeros break it.

# %%
unmoved = with_bias(x)
with torch.no_grad():
    with_bias.k_proj.bias += 5
assert torch.allclose(with_bias(x), unmoved, atol=1e-4)
print(f"output moved by {(with_bias(x) - unmoved).abs().max():.4f}")

# %% [markdown]
# ### Zeros cannot learn to attend
#
# The gradient of $W_Q$ contains the keys, that of $W_K$ the queries. If both matrices start at zero, both gradients are 0, at every step: only $W_V$ learns.

# %%
torch.manual_seed(0)
layer, goal = ByLinear(8, 4), torch.randn(5, 4)
for projection in (layer.q_proj, layer.k_proj):
    nn.init.zeros_(projection.weight)
began = layer.v_proj.weight.detach().clone()
optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
for _ in range(20):
    loss = (layer(x) - goal).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
assert not layer.q_proj.weight.any() and not layer.k_proj.weight.any()
print("after 20 steps:")
for name, parameter in layer.named_parameters():
    print(f"{name}: largest number {parameter.abs().max():.3f}")
print(f"v_proj moved by up to {(layer.v_proj.weight - began).abs().max():.3f}")

# %% [markdown]
# ## What to remember
#
# - $W_Q$, $W_K$, $W_V$ read one row as question, label and content. All tokens share them.
# - Same numbers, same output, from matrices or `nn.Linear`, which stores the transpose.
# - `key.transpose(-2, -1)`, never `key.T`.
# - What all queries share can decide all favourites; what all keys share changes no weight.
# - Without biases or rotary positions, scores depend on $W_Q W_K^\top$ only.
# - A right shape, and row sums of 1, also come from zeros.

# %% 1-predict-3-minutes [markdown]
# ## Exercises
#
# ### 1 · Predict ★ (3 minutes)
#
# A self-attention takes tokens of 12 features. Queries and keys have 7 numbers, values 5. All three projections have a bias. How many parameters, for a sentence of 9 words?
#
#
# <details><summary>Hint</summary>One projection is a matrix, inputs times outputs, and one bias per output. Does the number of words matter?</details>


# %% tags=["exercise"]
def parameter_count():
    """Return the number."""


# %%
check_parameter_count(parameter_count)


# %% tags=["solution"] jupyter={"source_hidden": true}
def parameter_count_solution():
    return 12 * (7 + 7 + 5) + (7 + 7 + 5)  # matrices, then biases; the words share them


check_parameter_count(parameter_count_solution)

# %% 2-repair-6-minutes [markdown]
# ### 2 · Repair ★★ (6 minutes)
#
# `broken_linear` is to make a linear layer that gives `x @ matrix`. It has three bugs. Write the repaired version as `linear_from`. Training the layer later must leave `matrix` unchanged.
#
# <details><summary>Hint</summary>Print the shapes of the weight and of the matrix. What does the layer add? Does a parameter made of a tensor copy its numbers?</details>


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

# %% 3-modify-6-minutes [markdown]
# ### 3 · Modify ★★ (6 minutes)
#
# Return two other matrices, both changed, with which every score stays the same.
#
# <details><summary>Hint</summary>An orthogonal $R$ for both is one answer. There are shorter ones: what can one matrix gain if the other loses it?</details>


# %% tags=["exercise"]
def other_pair(W_query, W_key):
    """Both (d_in, d_k) -> two others of the same shape."""


# %%
check_other_pair(other_pair)


# %% tags=["solution"] jupyter={"source_hidden": true}
def other_pair_solution(W_query, W_key):
    return 2 * W_query, W_key / 2  # the product is the same


check_other_pair(other_pair_solution)

# %% 4-implement-12-minutes [markdown]
# ### 4 · Implement ★★★ (12 minutes)
#
# Write the test that shapes cannot replace. It gets a layer, (N, L, 8) to (N, L, 4), and says True if two different tokens of a sentence get different outputs **and**
# the output of a token moves when another token changes. Use tokens of `torch.randn` size. Five broken layers must get False.
#
# <details><summary>Hint</summary>Two comparisons: outputs 0 and 1 of one sentence; output 0 before and after you change token 1 only.</details>


# %% tags=["exercise"]
def layer_test(layer):
    """Return True or False."""


# %%
check_layer_test(layer_test)


# %% tags=["solution"] jupyter={"source_hidden": true}
def layer_test_solution(layer):
    x = torch.randn(1, 5, 8)
    changed = x.clone()
    changed[0, 1] = torch.randn(8)
    with torch.no_grad():
        before, after = layer(x)[0], layer(changed)[0]
    differ = not torch.allclose(before[0], before[1], atol=1e-5)
    listens = not torch.allclose(before[0], after[0], atol=1e-5)
    return differ and listens


def own_and_mean(x):  # no weights at all, and it passes
    return x[..., :4] + x[..., :4].mean(dim=-2, keepdim=True)


def wrong_axis(x):  # softmax over the queries passes too
    return (x @ x.mT).softmax(dim=-2) @ x[..., :4]


assert layer_test_solution(own_and_mean) and layer_test_solution(wrong_axis)
check_layer_test(layer_test_solution)

# %% [markdown]
# <details><summary>What such a test does not prove</summary>
#
# That the layer attends. A token's own value plus the mean of all values passes, with no weights at all; so does a softmax over the wrong axis. Lesson 9 has finer tests.</details>

# %% 5-explain-5-minutes [markdown]
# ### 5 · Explain ★★ (5 minutes)
#
# A friend trains our task with $W_Q = W_K$ and gets everything right. "So a layer never needs both." What do all score tables of
# such a layer have in common? Name something that it cannot express.
#
# <details><summary>An answer</summary>The raw score of i for j equals that of j for i. Here nobody asks what a pair looks at. But such a layer cannot send three tokens round a
# circle (a prefers b to c, b prefers c to a, c prefers a to b): $s_{ab} > s_{ac} = s_{ca} > s_{cb} = s_{bc} > s_{ba} = s_{ab}$. Nor can two tokens each prefer the other to
# themselves: $s_{ij} \le |q_i||q_j| \le \max(s_{ii}, s_{jj})$. One task says nothing about the others.</details>

# %% tags=["solution"] jupyter={"source_hidden": true}
torch.manual_seed(0)
same = torch.randn(2000, 3, 8) @ torch.randn(8, 4)  # queries and keys of 2000 sentences
s = same @ same.mT
own = s.diagonal(dim1=1, dim2=2)
assert (s <= torch.maximum(own[:, :, None], own[:, None]) + 1e-4).all()
circle = (
    (s[:, 0, 1] > s[:, 0, 2]) & (s[:, 1, 2] > s[:, 1, 0]) & (s[:, 2, 0] > s[:, 2, 1])
)
assert not circle.any()  # in 2000 sentences none

# %% in-torch [markdown]
# ## In torch
#
# `nn.Linear(d_in, d_out, bias=False)` three times; or one `nn.Linear(d_in, 3 * d_out)` cut in three: the same numbers, up to rounding.
# `nn.MultiheadAttention` stacks the three weights, query first, in `in_proj_weight` of shape $(3E, E)$; with another `kdim` or `vdim` that is `None`, and there are three. It has biases unless told
# otherwise, and a fourth projection after the heads (lesson 7).

# %%
torch.manual_seed(0)
module = nn.MultiheadAttention(12, 3, batch_first=True)
one = nn.Linear(8, 3 * 4, bias=False)
with torch.no_grad():
    one.weight.copy_(torch.cat([getattr(by_linear, name).weight for name, _ in pairs]))
q, k, v = one(x).chunk(3, dim=-1)
assert torch.allclose(F.scaled_dot_product_attention(q, k, v), by_linear(x), atol=1e-6)
other_keys = nn.MultiheadAttention(12, 3, kdim=8, vdim=8, batch_first=True)
assert other_keys.in_proj_weight is None and module.in_proj_bias is not None
module.in_proj_weight.shape, other_keys.k_proj_weight.shape

# %% next [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.2.
# - Raschka, [Build a Large Language Model (From Scratch)](https://github.com/rasbt/LLMs-from-scratch), 2024, chapter 3.
# - Elhage et al., [A Mathematical Framework for Transformer Circuits](https://transformer-circuits.pub/2021/framework/index.html), 2021: our $W_Q W_K^\top$ is their $W_Q^\top W_K$.
# - Arora et al., [Zoology](https://arxiv.org/abs/2312.04927), 2023: recall as a test.
#
#
#
# ## Next
#
# [7 · Multi-head attention: reshaping without scrambling](07_multi_head_reshaping_without_scrambling.ipynb)

# %% next-2 [markdown] tags=["teacher"]
# <details><summary>For teachers: time and stumbling blocks</summary>
#
# **45 minutes.** Roles and class: 8. `.T` and `nn.Linear`: 10. All-positive: 7. Zeros: 4. The task, its matrices and the slider: 12. Scale factor: 4, its prediction and figure 6.4. Exercises at home.
#
# **Where a class stalls**
# - The two transposes, of `nn.Linear` and of the keys, taken for one. Use (8, 4) and (5, 4).
# - "The key ignores the number." Let them add up the scores of "cat ?" with "cat 3" and with itself.
# - "Accuracy 0.63, so it attends." Ask what even weights get.
# - "A faster run is a better model." Ask what else changed with the division: the sizes of start and step.
#
#
# </details>

# %% next-3 [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, with a reason for every wrong choice</summary>
#
# 1. A longer sentence needs **a** more parameters **b** a larger $W_Q$ **c** neither. Right: c. a: those are scores. b: its rows are features.
# 2. `nn.Linear(8, 4).weight` has the shape **a** (8, 4) **b** (4, 8) **c** (4,). Right: b. a: the order of the arguments. c: that is the bias.
# 3. Before training, all rows of a map have one favourite. Likely: **a** that word matters **b** the queries point one way **c** softmax failed. Right: b. a: nothing was trained. c: rows sum to 1.
# 4. $W_Q = W_K = 0$ gives **a** NaN **b** uniform weights **c** the identity. Right: b. a: equal scores are fine. c: needs large own scores.
# 5. Two trainings end with different $W_Q$. So **a** one failed **b** they attend differently **c** neither follows. Right: c. a, b: without biases or rotary positions, an orthogonal $R$ changes no score.
#
#
# </details>
