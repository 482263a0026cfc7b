# %% [markdown]
# # 6 · Where Q, K and V come from: trainable projections
#
# Three matrices read every token three times: as a question, as a label, as content.
# They begin as random numbers. Training finds what to look for, and the attention map forms before our eyes.
#
# **You need** lesson 1; for one section, lesson 2.
#
# **You will be able to**
# - write self-attention as a class, in two ways, and prove them equal,
# - count its parameters,
# - tell a trained projection from one that only has the right shape,
# - read in trained matrices what they look for.
#
# **Time:** 45 minutes in class, 75 alone. <!-- constants: 45, 75 -->

# %%
import warnings

import matplotlib.pyplot as plt
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import SelfAttention, data_path, load_table
from attnlab.display import show_figure
from attnlab.exercises import check_layer_test, check_linear_from, check_parameter_count
from attnlab.exercises import check_other_pair, predict
from attnlab.live import live
from attnlab.plotting import plot_attention, plot_heads, plot_scores, plot_sweep
from torch import nn

plt.style.use("attnlab.attnlab")
torch.manual_seed(0)
torch.set_num_threads(1)
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## One row, three roles
#
# In lesson 1 "He is awesome" used one row as query, key and value. Then the raw score of $i$ for $j$ equals that of $j$ for $i$, and
# a token cannot ask for one thing and be found by another.
#
# A **projection** gives each role its own row. For the query of a token with row $x$:
#
# $$q = x\, W_Q$$
#
# $W_Q$ has one row per input feature and one column per number of the query.

# %% tags=["id:S4.4", "id:S4.6"]
words, _, x = load_table("the_next_day_is_bright.csv")
torch.manual_seed(123)
W_query, W_key, W_value = torch.rand(8, 4), torch.rand(8, 4), torch.rand(8, 4)
query_1 = x[1] @ W_query  # "next": (8,) @ (8, 4) -> (4,)
expected = torch.tensor([0.8463, 2.3367, 1.1531, 1.9900])
assert torch.allclose(query_1, expected, atol=1e-4)
x.shape, query_1

# %% [markdown]
# Each number of the query is a weighted sum of the eight features. A column of $W_Q$ holds the weights: how much of each feature goes in.
# With queries apart from keys, scores need not be symmetric.

# %% tags=["id:S4.6", "id:S4.7"]
by_hand = sum(x[1, feature] * W_query[feature, 0] for feature in range(8))
assert torch.allclose(by_hand, query_1[0])
queries, keys, values = x @ W_query, x @ W_key, x @ W_value  # all tokens at once
raw = queries @ keys.T
assert torch.allclose(queries[1], query_1) and not torch.allclose(raw, raw.T)
print(f"next asks day: {raw[1, 2]:.3f}   day asks next: {raw[2, 1]:.3f}")
by_hand, queries.shape, keys.shape, values.shape

# %% [markdown] tags=["id:S4.5", "id:S4.18"]
# ## A class that owns its matrices
#
# Training needs to know which tensors it may change. An `nn.Module` keeps a list. A tensor gets on the list by being wrapped
# in `nn.Parameter`, which also sets `requires_grad`: record a gradient for me.
#
# `__init__` makes the matrices once. `forward` says what happens to an input; calling the layer runs it.


# %% tags=["id:S4.17"]
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


# %% tags=["id:S4.19"]
torch.manual_seed(123)
by_parameter = ByParameter(8, 4)
output = by_parameter(x)
steps = (raw / 4**0.5).softmax(dim=-1) @ values  # the steps, without a class
assert torch.equal(by_parameter.W_query, W_query)  # same seed, same order of draws
assert torch.allclose(output, steps)
assert torch.allclose(output[0, :2], torch.tensor([1.3246, 1.5236]), atol=1e-4)
output.shape, output.requires_grad, steps.requires_grad

# %% tags=["predict"] jupyter={"source_hidden": true}
predict(
    "Our sentence has 5 words, 8 features each, and $d_{out}$ is 4. How many trainable "
    "numbers does the layer have? And for a sentence of 500 words?",
    options=["32 and 32", "96 and 96", "96 and 9600", "160 and 16000"],
    reveal="96 and 96: three matrices of 8 times 4. The words share them; every token "
    "of every sentence goes through the same three. So one layer takes sentences of "
    "any length.",
    # constants: 500, 160, 9600, 16000, 32
)

# %% tags=["reveal"]
count = sum(parameter.numel() for parameter in by_parameter.parameters())
assert count == 3 * 8 * 4
assert by_parameter(torch.rand(500, 8)).shape == (500, 4)
count, [name for name, _ in by_parameter.named_parameters()]

# %% [markdown]
# ## `.T` on a batch
#
# So far the layer has seen one sentence. Models train on a batch: $N$ sentences at once. The matrix products `x @ W` do not mind.
# One line of `forward` does.

# %% tags=["predict", "id:D45"] jupyter={"source_hidden": true}
predict(
    "Hand the layer two sentences, shape (2, 5, 8). What does `query @ key.T` do?",
    options=["two tables of scores", "one wrong table", "an error"],
    reveal="An error, here. `.T` turns **all** axes around: keys of shape (2, 5, 4) "
    "become (4, 5, 2), the batch ends up last, and 2 does not fit 4.",
)

# %% tags=["reveal", "raises-exception"]
warnings.filterwarnings("ignore", message="The use of `x.T`")  # torch warns, once
two = torch.stack([x, x])
print("keys turned around:", (two @ W_key).T.shape)
by_parameter(two)

# %% [markdown]
# An error is the kind case. Take 4 sentences of 4 words with $d_{out} = 4$: every axis has the same length, and all shapes fit.

# %%
torch.manual_seed(0)
four = torch.rand(4, 4, 8)
together = by_parameter(four)
alone = torch.stack([by_parameter(sentence) for sentence in four])
assert together.shape == alone.shape and not torch.allclose(together, alone, atol=0.1)
print("shape:", tuple(together.shape))
print("largest error:", f"{(together - alone).abs().max():.3f}")

# %% [markdown]
# The shape is right and the numbers are wrong. `.T` has swapped sentences with features: each score now mixes one feature of four different words. The repair names the two axes to swap:
# `key.transpose(-2, -1)`. And a habit: test with sizes that all differ.


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
# The usual way to write a projection is `nn.Linear(d_in, d_out)`. It differs in three habits: it stores the matrix transposed, one **row** per output;
# it draws smaller numbers of both signs; and unless told otherwise it adds a trainable number to each output, the **bias**.


# %% tags=["id:S4.20", "id:S0.4"]
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


# %% tags=["id:S4.21", "id:S0.5"]
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

# %% tags=["predict", "id:D44"] jupyter={"source_hidden": true}
predict(
    "Give both classes the seed 123. Do the outputs agree? And if we copy the "
    "numbers of the first into the second?",
    options=["yes, yes", "no, yes", "no, no"],
    reveal="No, yes. With one seed they still differ by up to 2.106, because "
    "`nn.Linear` makes other numbers out of the same draws. With copied numbers "
    "they agree up to rounding. The classes differ by their first numbers only.",
)

# %% tags=["reveal", "id:S4.21"]
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

# %% [markdown]
# Forget the `.T` here and `copy_` raises an error, since (8, 4) is not (4, 8). With $d_{in} = d_{out}$ nothing raises, and the layer is a different one.
#
# `attnlab.SelfAttention` is this class with masks and checks. With a bias a layer has 108 parameters: 4 more for each projection.

# %%
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

# %% tags=["predict", "id:D43"] jupyter={"source_hidden": true}
predict(
    "Draw 1000 pairs of `torch.rand` matrices. In how many do all five words have the "
    "same favourite?",
    options=["about 2", "about 300", "more than 900"],
    reveal="More than 900: 975. With `nn.Linear`'s numbers it is 293. Five words "
    "choosing independently would agree about twice in 1000 draws; the words "
    "resemble each other too much for that.",
    # constants: 1000, 2, 300, 900
)


# %% tags=["reveal", "id:D43"]
def draw_positive():
    return torch.rand(8, 4)


def draw_linear():
    return (2 * torch.rand(8, 4) - 1) / 8**0.5  # as nn.Linear starts


def agreements(draw, x, draws=1000):
    torch.manual_seed(0)
    scores = torch.stack([(x @ draw()) @ (x @ draw()).T for _ in range(draws)])
    favourite = scores.argmax(dim=-1)  # (draws, L)
    return int((favourite == favourite[:, :1]).all(dim=-1).sum())


positive, linear = agreements(draw_positive, x), agreements(draw_linear, x)
assert positive > 900 and 200 < linear < 400
positive, linear, round(1000 * 5 * (1 / 5) ** 5, 1)

# %% [markdown]
# Why? With positive inputs and positive matrices all queries point nearly the same way and differ in length. A score is then about (length of the query) times
# (something of the key), and every row ranks the keys alike. Such a table is called **rank 1**: one column times one row.
#
# Subtract the mean word from the inputs, and the agreement is gone. What all tokens share cannot tell them apart.

# %%
size = torch.linalg.svdvals(raw)  # how much each rank-1 part contributes
share = size[0] ** 2 / size.square().sum()
assert F.cosine_similarity(queries[:, None], queries, dim=-1).min() > 0.85
centred = x - x.mean(dim=0)
counts = agreements(draw_positive, centred), agreements(draw_linear, centred)
assert share > 0.9999 and max(counts) < 10
print(f"explained by one column times one row: {share:.5f}")
counts

# %%
fig, axes = plt.subplots(1, 3, figsize=(7.5, 3), layout="constrained")
cases = [(draw_positive, x), (draw_linear, x), (draw_positive, centred)]
titles = ["rand", "nn.Linear's numbers", "rand, centred x"]
for ax, title, (draw, inputs) in zip(axes, titles, cases, strict=True):
    torch.manual_seed(123)
    scores = (inputs @ draw()) @ (inputs @ draw()).T / 4**0.5
    lead = scores - scores.mean(dim=1, keepdim=True)  # softmax sees this only
    labels = {"queries": words, "keys": words, "annotate": False}
    plot_scores(lead, ax=ax, title=title, **labels)
    for row, column in enumerate(lead.argmax(dim=1)):
        ax.text(column + 0.5, row + 0.5, "★", ha="center", va="center")
show_figure(
    fig,
    number="6.1",
    caption="Scores minus the mean of their row; each picture has its own colours. "
    "Orange: above the mean; ★: the favourite. Left: five rows alike. Middle: "
    "this draw agrees on the favourite too. Right: rows disagree.",
    alt="Three tables, five by five. Left, equal vertical stripes, and day leads in "
    "all rows. Right, with centred words, signs differ from row to row.",
)

# %% [markdown]
# ## The right shape proves little
#
# A common check of a projection: 10 tokens in, 10 queries, keys and values out, shapes as expected.

# %% tags=["id:S0.4", "id:S0.5", "id:S0.6", "id:S0.7"]
torch.manual_seed(42)
w_query, w_key, w_value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
tokens = torch.randn(10, 8) * 10.0  # too large on purpose: lesson 2
q, k, v = w_query(tokens), w_key(tokens), w_value(tokens)
assert torch.allclose(w_query.weight[0, :2], torch.tensor([0.2703, 0.2935]), atol=1e-4)
assert abs(q.var() - 21.7614) < 1e-3 and abs(k.var() - 31.7007) < 1e-3
q.shape, k.shape, v.shape

# %% tags=["predict", "id:D2"] jupyter={"source_hidden": true}
predict(
    "Set all three matrices of a `ByLinear` layer to zero. Which test does it fail?",
    options=["the shape", "rows of weights sum to 1", "both", "neither"],
    reveal="Neither. All scores are 0, so every weight is 0.2: the rows sum to 1. The "
    "output is 0 for every token, in the right shape. A test that fails it: two "
    "different tokens must get different outputs.",
)

# %% tags=["reveal", "id:D2"]
zero = ByLinear(8, 4)
for parameter in zero.parameters():
    nn.init.zeros_(parameter)
weights = (zero.q_proj(x) @ zero.k_proj(x).T / 2).softmax(dim=-1)
assert zero(x).shape == (5, 4) and torch.allclose(weights, torch.tensor(0.2))
assert torch.allclose(weights.sum(dim=-1), torch.ones(5))
print("zero layer tells tokens apart:", not torch.allclose(zero(x)[0], zero(x)[1]))
first, second = by_linear(x)[:2]
print("nn.Linear tells them apart:", not torch.allclose(first, second))

# %% [markdown]
# ## A task to learn: recall
#
# Four pairs, then four questions: `cat 3 · owl 0 · fox 4 · hen 1 · owl ? · hen ? · cat ? · fox ?`. The answer to a question is the number of its name.
#
# A token is a row of zeros and ones: eight features for the name, five for the number. In a question the five are 0. There are no word positions; the layer needs none here.


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


tokens = ["cat 3", "owl 0", "fox 4", "hen 1", "owl ?", "hen ?", "cat ?", "fox ?"]
farm = torch.stack([encode(token) for token in tokens])  # (L, d_in)
answers = torch.tensor([0, 1, 3, 4])
farm.shape, farm[0]

# %% [markdown]
# The whole model is three matrices. Queries and keys have 16 numbers. The value has 5, and the output is read off directly: its largest entry is the answer.
# We make batches of new examples, so learning by heart is no use.


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


# %%
def accuracy(matrices, x, answer):
    guess = recall(matrices, x)[0][:, 4:].argmax(dim=-1)
    return (guess == answer).float().mean().item()


torch.manual_seed(0)
matrices = [(2 * torch.rand(13, n) - 1) / 13**0.5 for n in (16, 16, 5)]
matrices = [matrix.requires_grad_() for matrix in matrices]
optimizer = torch.optim.Adam(matrices, lr=0.01)
test = make_examples(1000)
before = accuracy(matrices, *test)
sum(matrix.numel() for matrix in matrices), f"{before:.2f}"

# %%
for _ in range(200):
    batch, answer = make_examples(32)
    output, _ = recall(matrices, batch)
    loss = F.cross_entropy(output[:, 4:].flatten(0, 1), answer.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
after = accuracy(matrices, *test)
assert before < 0.3 and after > 0.99
f"before: {before:.2f}, after 200 steps: {after:.2f} (guessing: 0.20)"

# %% [markdown]
# 481 numbers learn the task within seconds. The loss never mentions attention: nobody told the layer where to look.
#
# ### Watch the map form
#
# For a picture that is the same on every machine we stored the matrices of one such training every ten steps.


# %%
stored = pd.read_csv(data_path("recall_snapshots.csv"))


def snapshot(step):
    """W_query, W_key (13, 16) and W_value (13, 5) after so many steps."""
    now = stored[stored.step == step]
    parts = [now[now.matrix == name] for name in ("query", "key", "value")]
    numbers = [part.iloc[:, 3:].dropna(axis=1).to_numpy() for part in parts]
    return [torch.tensor(part, dtype=torch.float32) for part in numbers]


W_query, W_key, W_value = snapshot(200)
assert accuracy(snapshot(200), *test) > 0.99
assert torch.equal(recall(snapshot(200), farm)[0][4:].argmax(dim=-1), answers)
W_query.shape, W_key.shape, W_value.shape

# %%
pair_of = torch.tensor([1, 3, 0, 2])  # where the answer to each question stands
features = [*names, *map(str, range(5))]  # 13 labels


def frame_answers(ax):
    for row, column in enumerate(pair_of.tolist()):
        ax.add_patch(
            plt.Rectangle((column, row), 1, 1, fill=False, ec="#c8500a", lw=2.5)
        )


shown = [0, 50, 80, 200]
maps = torch.stack([recall(snapshot(step), farm)[1][4:] for step in shown])
right = maps[:, torch.arange(4), pair_of]  # (snapshots, questions)
titles = [f"step {step}" for step in shown]
fig = plot_heads(maps, titles=titles, queries=tokens[4:], keys=tokens, ncols=2)
fig.set_size_inches(7.5, 4.2)
for ax in fig.axes[:4]:
    ax.tick_params(axis="x", rotation=60)
    frame_answers(ax)
show_figure(
    fig,
    number="6.2",
    caption="The four questions over training. Orange frames: the pair that holds the "
    "answer. Nearly uniform, then name with name, then the pair alone.",
    alt="Four tables, four questions by eight tokens. Weights are even at step 0; at "
    "step 80 both tokens of the same name are dark; at 200 only the pair.",
)

# %%
accuracies = [accuracy(snapshot(step), *test) for step in shown]
assert right[0].mean() < 0.15 and right[-1].mean() > 0.9
itself = maps[:, torch.arange(4), torch.arange(4, 8)].mean(dim=-1)
columns = {"right pair": right.mean(dim=-1), "itself": itself, "accuracy": accuracies}
pd.DataFrame(columns, index=pd.Index(shown, name="step")).astype(float).round(2)

# %% [markdown]
# At step 50 more than half of the answers are right and the map is still pale: a small lead is enough for the largest output. At step
# 80 a question still looks at itself a good deal: it has the right name, and no number to hand over.
#
# ### Your experiment
#
# Move through the training. The right picture shows what a question about a name (row) adds to the score of a key for each of its features (column).


# %%
def draw_training(fig, step):
    W_query, W_key, W_value = snapshot(step)
    weights = recall([W_query, W_key, W_value], farm)[1][4:]
    left, right = fig.subplots(1, 2, width_ratios=[8, 13])
    plot_attention(weights, ax=left, queries=tokens[4:], keys=tokens, annotate=False)
    frame_answers(left)
    table = W_query[:8] @ W_key.T / 4  # (8 names, 13 features)
    plot_scores(table, ax=right, queries=names, keys=features, annotate=False, limit=6)
    left.set_title("weights")
    right.set(title="score per feature", ylabel="asked", xlabel="feature of the key")
    for ax in (left, right):
        ax.tick_params(axis="x", rotation=90)
    share = weights[torch.arange(4), pair_of].mean()
    known = accuracy([W_query, W_key, W_value], *test)
    return f"Step {step}: right pair <b>{share:.2f}</b>, accuracy <b>{known:.2f}</b>."


live(
    draw_training,
    step=list(range(0, 201, 10)),
    start={"step": 0},
    figsize=(7.5, 3.4),
    alt="Left: weights of four questions over eight tokens. Right: scores that a name "
    "asked for gives to each feature of a key.",
)

# %% [markdown]
# ## What each matrix has learned
#
# The score of feature $b$ for a question about $a$ is an entry of one product:
#
# $$M = \frac{W_Q W_K^\top}{\sqrt{d_k}}$$
#
# Here a token is a sum of features, so its score is a sum of entries of $M$. "cat ?" scores "cat 3" with $M_{cat,\,cat} + M_{cat,\,3}$.

# %% tags=["predict"] jupyter={"source_hidden": true}
predict(
    "A key must be found by its name. What does the trained $W_K$ do with the "
    'number in "cat 3"?',
    options=[
        "it ignores it",
        "it adds the same for any number",
        "it reads which number it is",
    ],
    reveal="It adds about the same for any number, 4.2 on average. A question has the "
    "right name too, and no number: the bonus lets the pair win over the question "
    "itself. Which number it is moves the score little.",
)

# %% tags=["reveal"]
M = W_query @ W_key.T / 4  # (13, 13)
score = M[:8, :8]  # name asked, name of the key
bonus = M[:8, 8:]  # name asked, number of the key
same, other = score.diagonal(), score[~torch.eye(8, dtype=torch.bool)]
assert same.min() > other.max() + 3 and bonus.min() > 3
assert bonus.std(dim=1).max() < 0.4  # hardly depends on the number
name_part, number_part = W_value[:8].abs().max(), W_value[8:].diagonal()
assert name_part < 0.4 and number_part.min() > 1.5
print(f"same name {same.mean():.1f}, other name {other.mean():.1f}")
print(f"any number {bonus.mean():.1f}, its spread {bonus.std(dim=1).mean():.2f}")
print(f"value: names up to {name_part:.1f}, numbers from {number_part.min():.1f}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(7.5, 3.6), width_ratios=[13, 5])
plot_scores(M[:8], ax=axes[0], queries=names, keys=features, annotate=False)
axes[0].set(title="M: what a question looks for", ylabel="asked")
axes[0].set(xlabel="feature of the key")
plot_scores(W_value, ax=axes[1], queries=features, keys=list("01234"), annotate=False)
axes[1].set(title="W_value: what it gets", ylabel="feature", xlabel="answer")
axes[0].tick_params(axis="x", rotation=90)
show_figure(
    fig,
    number="6.3",
    caption="Trained matrices; orange positive, purple negative, each scale its own. "
    "Left: own name, and a bonus for any number. Right: only the number arrives.",
    alt="Left, eight by thirteen: a dark diagonal of names and five evenly coloured "
    "number columns. Right: pale rows for names, a diagonal for the numbers.",
)

# %% [markdown]
# Three roles, three readings of one row. The query reads the name. The key offers the name and "I have a number". The value hands over the number and drops the name.
#
# The picture is this clear because the features are named and each is 0 or 1. In a large model, neither holds.
# %% [markdown]
# ## Without the scale factor
#
# Lesson 2 warned of scores that are not divided by $\sqrt{d_k}$. We trained this task with and without the division, from several starts.
# **linear**: the small numbers of `nn.Linear`. **wide**: larger ones, close to what lesson 2 assumes (variance 1). **positive**: `torch.rand`.
# Five seeds, three learning rates, two sizes of $d_k$; 400 steps. <!-- constants: 1 -->

# %% tags=["predict"] jupyter={"source_hidden": true}
predict(
    "From the linear start, with $d_k = 256$: what does leaving out the division do?",
    options=["it fails", "it learns more slowly", "it learns faster"],
    reveal="It learns faster here: after 50 steps at the lowest learning rate 0.58 of "
    "the answers are right, with the division 0.35 (medians of five seeds). All runs "
    "from this start end at 1.00. From the wide start the picture turns around.",
)

# %% tags=["reveal"]
race = pd.read_csv(data_path("recall_race.csv"))
race["divided by"] = race.scaled.map({1: "sqrt(d_k)", 0: "nothing"})
early = race[(race.step == 50) & (race.learning_rate == 0.003)]
table = early.pivot_table("accuracy", ["start", "d_k"], "divided by", aggfunc="median")
assert (
    table.loc[("linear", 256), "nothing"]
    > table.loc[("linear", 256), "sqrt(d_k)"] + 0.1
)
last = race[race.step == 400]
assert race.seed.nunique() == 5 and race.learning_rate.nunique() == 3
assert last[last.start == "linear"].accuracy.min() > 0.99
table.round(2)

# %%
ends = last.groupby(["start", "d_k", "divided by"]).accuracy.agg(
    ["min", "median", "max"]
)
wide = ends.loc["wide", 256]["median"]
assert wide["sqrt(d_k)"] > 0.99 and wide["nothing"] < 0.8
ends.round(2)


# %%
def draw_race(fig, begin, d_k, learning_rate):
    ax = fig.subplots()
    chosen = (race.start == begin) & (race.d_k == d_k)
    runs = race[chosen & (race.learning_rate == learning_rate)]
    lines = runs.pivot_table("accuracy", "step", ["divided by", "seed"])
    names = ["nothing", "sqrt(d_k)"]
    curves = {
        f"divided by {name}": lines[name].median(axis=1).tolist() for name in names
    }
    plot_sweep(list(lines.index), curves, ax=ax, xlabel="step", ylabel="accuracy")
    for name, colour in zip(names, ("#c8500a", "#0b61a4"), strict=True):
        low, high = lines[name].min(axis=1), lines[name].max(axis=1)
        ax.fill_between(lines.index, low, high, color=colour, alpha=0.2)
    ax.set(ylim=(0, 1.05), title=f"{begin} start, d_k = {d_k}")
    low, high = (lines[name].loc[400].median() for name in names)
    return f"After 400 steps: {low:.2f} divided by nothing, {high:.2f} by sqrt(d_k)."


# %%
fig = plt.figure(figsize=(7.5, 3), layout="constrained")
for part, begin in zip(fig.subfigures(1, 2), ("linear", "wide"), strict=True):
    draw_race(part, begin, 256, 0.003)
show_figure(
    fig,
    number="6.4",
    caption="Lowest learning rate. Line: median of five seeds; band: all five. "
    "Left the undivided scores learn faster, right they fall behind.",
    alt="Two panels of accuracy over 400 steps. Linear start: both curves reach 1, "
    "undivided first. Wide start: divided gets near 1, undivided to about 0.5.",
)

# %% [markdown]
# Why does the start decide? Look at the scores before the first step.

# %%
torch.manual_seed(0)
starts = {
    "linear": lambda: (2 * torch.rand(13, 256) - 1) / 13**0.5,
    "wide": lambda: torch.randn(13, 256) / 2**0.5,
}
rows = {}
for name, draw in starts.items():
    q, k = test[0] @ draw(), test[0] @ draw()
    raw = q @ k.transpose(-2, -1)
    tops = [(raw / divisor).softmax(dim=-1).amax(dim=-1).mean() for divisor in (1, 16)]
    rows[name] = [q.var(), raw.var(dim=-1).mean(), *tops]
columns = ["var q", "var raw", "top weight raw", "top weight divided"]
start_table = pd.DataFrame(rows, index=columns).astype(float).T
assert start_table.iloc[0, 1] < 1 < 100 < start_table.iloc[1, 1]
start_table.round(2)

# %% [markdown]
# `nn.Linear` starts so small that even raw scores leave the softmax soft, and the division makes it softer still. From the wide start a raw row is
# nearly decided before anything is learned, and by chance.
#
# Undivided scores also move 16 times as far for the same change of the matrices: a likely reason for their early lead.

# %% [markdown]
# So "without the division it cannot learn" is too strong, and "the division always helps" is wrong. It keeps scores moderate where entries have variance
# near 1. This is one toy task.

# %% [markdown]
# ## Further: small experiments
#
# ### All settings of the race
#
# At the start you see the wide start, $d_k = 256$ and the middle learning rate: undivided scores fall behind. Try the other settings. Where does the division make no
# visible difference?

# %%
live(
    draw_race,
    begin=["linear", "positive", "wide"],
    d_k=[16, 256],
    learning_rate=[0.003, 0.01, 0.03],
    start={"begin": "wide", "d_k": 256, "learning_rate": 0.01},
    figsize=(6, 3.2),
    alt="Accuracy over steps, with and without the division; bands over five seeds.",
)

# %% [markdown]
# ### The positive start
#
# All its runs end at 1.00, with and without the division. Starting all-positive does not keep this layer from learning.

# %%
assert last[last.start == "positive"].accuracy.min() > 0.99
print(f"{len(last[last.start == 'positive'])} runs, the worst: ", end="")
print(f"{last[last.start == 'positive'].accuracy.min():.2f}")

# %% [markdown]
# ### Only the product counts
#
# The scores depend on $W_Q W_K^\top$, not on each matrix. Turn both by the same rotation $R$: every number changes, no score does. So single columns of a trained $W_Q$ need not mean anything.

# %%
torch.manual_seed(0)
R, _ = torch.linalg.qr(torch.randn(16, 16))  # R @ R.T is the identity
turned = [W_query @ R, W_key @ R, W_value]
assert torch.allclose(
    recall(turned, farm)[1], recall(snapshot(200), farm)[1], atol=1e-4
)
print(f"entries moved by up to {(W_query @ R - W_query).abs().max():.2f}")

# %% [markdown]
# ### One matrix for both
#
# Does this task need two matrices for the scores? We train again with $W_K = W_Q$.

# %%
torch.manual_seed(0)
tied = [((2 * torch.rand(13, n) - 1) / 13**0.5).requires_grad_() for n in (16, 5)]
optimizer = torch.optim.Adam(tied, lr=0.01)
for _ in range(200):
    batch, answer = make_examples(32)
    output, _ = recall([tied[0], tied[0], tied[1]], batch)
    loss = F.cross_entropy(output[:, 4:].flatten(0, 1), answer.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
known = accuracy([tied[0], tied[0], tied[1]], *test)
assert known > 0.99
print(f"tied: {known:.2f}")

# %% [markdown]
# It does not. Exercise 5 asks what such a layer gives up.

# %% [markdown]
# ### A bias that does nothing
#
# For a key the bias is wasted: it adds the same number to all scores of a query, and softmax sees only differences (lesson 1).

# %%
before = with_bias(x)
with torch.no_grad():
    with_bias.k_proj.bias += 5
assert torch.allclose(with_bias(x), before, atol=1e-4)
print(f"moved by {(with_bias(x) - before).abs().max():.4f}")

# %% [markdown]
# ### Zeros cannot learn to attend
#
# The gradient of $W_Q$ contains the keys, that of $W_K$ the queries. In the layer of zeros both are 0, and so they stay.
# Random starting numbers are not decoration.

# %%
loss = (zero(x) - torch.randn(5, 4)).square().sum()
loss.backward()
slopes = {name: p.grad.abs().max().item() for name, p in zero.named_parameters()}
assert slopes["q_proj.weight"] == slopes["k_proj.weight"] == 0 < slopes["v_proj.weight"]
slopes

# %% [markdown]
# ## What to remember
#
# - $W_Q$, $W_K$, $W_V$ read one row as question, label and content. All tokens share them; parameters do not grow with the sentence.
# - `nn.Parameter` and `nn.Linear` layers are equal once they hold the same numbers. Linear stores the transpose.
# - `key.transpose(-2, -1)`, never `key.T`.
# - What all tokens share makes all rows alike.
# - Scores depend on $W_Q W_K^\top$ only.
# - A right shape, and row sums of 1, also come from zeros.

# %% [markdown]
# ## Exercises
#
# ### 1 · Predict ★ (3 minutes) <!-- constants: 1, 3 -->
#
# A self-attention takes tokens of 12 features. Queries and keys have 7 numbers, values 5. All three projections have a bias. How many parameters, for a sentence of 9 words?
# <!-- constants: 12, 7, 5, 9 -->
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

# %% [markdown]
# ### 2 · Repair ★★ (6 minutes) <!-- constants: 2, 6 -->
#
# `broken_linear` is to make a linear layer that gives `x @ matrix`, so that it can be trained on without changing the matrix. It has three bugs.
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

# %% [markdown]
# ### 3 · Modify ★★ (6 minutes) <!-- constants: 3, 6 -->
#
# Return two other matrices, both changed, with which every score stays the same.
#
# <details><summary>Hint</summary>A rotation is one answer. There are shorter ones: what can one matrix gain if the other loses it?</details>


# %% tags=["exercise"]
def other_pair(W_query, W_key):
    """Both (d_in, d_k) -> two others of the same shape."""


# %%
check_other_pair(other_pair)


# %% tags=["solution"] jupyter={"source_hidden": true}
def other_pair_solution(W_query, W_key):
    return 2 * W_query, W_key / 2  # the product is the same


check_other_pair(other_pair_solution)

# %% [markdown]
# ### 4 · Implement ★★★ (12 minutes) <!-- constants: 4, 12, 8 -->
#
# Write the test that shapes cannot replace. It gets a layer, which maps (N, L, 8) to (N, L, 4), and says True if the layer attends and tells tokens
# apart. Four broken layers must get False.
#
# <details><summary>Hint</summary>Two questions: do two different tokens of one sentence get different outputs? And does the output of
# token 0 move if you change token 1 only?</details>


# %% tags=["exercise"]
def attends(layer):
    """Return True or False."""


# %%
check_layer_test(attends)


# %% tags=["solution"] jupyter={"source_hidden": true}
def attends_solution(layer):
    x = torch.randn(1, 5, 8)
    changed = x.clone()
    changed[0, 1] = torch.randn(8)
    with torch.no_grad():
        before, after = layer(x)[0], layer(changed)[0]
    differ = not torch.allclose(before[0], before[1], atol=1e-5)
    listens = not torch.allclose(before[0], after[0], atol=1e-5)
    return differ and listens


check_layer_test(attends_solution)

# %% [markdown]
# ### 5 · Explain ★★ (5 minutes) <!-- constants: 5 -->
#
# A friend trains our task with $W_Q = W_K$ and gets everything right ("Further" shows it). "So a layer never needs both." What do all score tables of
# such a layer have in common? Name something that it cannot express. Then compare.
#
# <details><summary>An answer</summary>The raw score of i for j equals that of j for i. Here that does no harm: nobody asks what a pair looks at. But "a verb looks for its subject, and the
# subject looks for its article" needs a high score one way and a low one back. And one task on which two matrices suffice says nothing about the others.</details>

# %% [markdown]
# ## In torch
#
# `nn.Linear(d_in, d_out, bias=False)` three times, as here; or one `nn.Linear(d_in, 3 * d_out)` whose output is cut in three, which is faster and the same arithmetic.
# `nn.MultiheadAttention` stacks the three weights, query first, in `in_proj_weight` of shape $(3E, E)$, and adds a fourth projection after the heads (lesson 7).
# <!-- constants: 3 -->

# %%
torch.manual_seed(0)
module = nn.MultiheadAttention(12, 3, batch_first=True)
one = nn.Linear(8, 3 * 4, bias=False)
with torch.no_grad():
    one.weight.copy_(torch.cat([getattr(by_linear, name).weight for name, _ in pairs]))
q, k, v = one(x).chunk(3, dim=-1)
assert torch.allclose(F.scaled_dot_product_attention(q, k, v), by_linear(x), atol=1e-6)
module.in_proj_weight.shape

# %% [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.2: projections of queries, keys and values.
# - Raschka, [Build a Large Language Model (From Scratch)](https://github.com/rasbt/LLMs-from-scratch), 2024, chapter 3: the two classes.
# - Elhage et al., [A Mathematical Framework for Transformer Circuits](https://transformer-circuits.pub/2021/framework/index.html), 2021: the products $W_Q W_K^\top$ and $W_V W_O$ as what a head does.
# - Arora et al., [Zoology](https://arxiv.org/abs/2312.04927), 2023: recall as a test for layers.
#
# <!-- constants: 2017, 2021, 2023, 2024, 3.2.2 -->
#
# ## Next
#
# [7 · Multi-head attention: reshaping without scrambling](07_heads.ipynb)

# %% [markdown]
# <details><summary>For teachers: time and stumbling blocks</summary>
#
# **45 minutes.** Roles and class: 8. `.T` and `nn.Linear`: 10. All-positive: 7. Zeros: 4. The task, its slider and its matrices: 12. Scale factor: 4, figure 6.4 only. Exercises at home.
#
# **Where a class stalls**
# - The two transposes, of `nn.Linear` and of the keys, taken for one. Use sizes that differ: (8, 4), (5, 4).
# - "The key ignores the number." Let them add up the score of "cat ?" with itself by hand.
# - "A faster run is a better model." Ask what else changed with the division: the size of each step of the scores.
#
# <!-- constants: 45, 8, 10, 7, 4, 12, 5 -->
# </details>

# %% [markdown]
# <details><summary>For teachers: five questions, with a reason for every wrong choice</summary>
#
# 1. A longer sentence needs **a** more parameters **b** a larger $W_Q$ **c** neither. Right: c. a: mixes up scores and parameters. b: its rows are features, not words.
# 2. `nn.Linear(8, 4).weight` has the shape **a** (8, 4) **b** (4, 8) **c** (4,). Right: b. a: the order of the arguments. c: that is the bias.
# 3. All rows of a map are alike. Likely: **a** one word matters **b** the queries point one way **c** softmax failed. Right: b. a: nothing was trained. c: rows sum to 1.
# 4. $W_Q = W_K = 0$ gives **a** NaN **b** uniform weights **c** the identity. Right: b. a: softmax of equal scores is fine. c: needs large own scores.
# 5. Two trainings end with different $W_Q$. So **a** one failed **b** they attend differently **c** neither follows. Right: c. a, b: a rotation of both matrices changes no score.
#
# <!-- constants: 0, 1, 2, 3, 4, 5, 8 -->
# </details>
