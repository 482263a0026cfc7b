# %% opening [markdown]
# # 7 · Multi-head attention: reshaping without scrambling
#
# Here is a list of animals, each with a number: *cat 3, dog 7, owl 0, fox 5, bat 1*. A question names two of them, say
# *owl and dog*, and asks for their numbers in that order. The answer is *0 and 7*. The question *dog and owl* has the
# answer *7 and 0*.
#
# For you this is hardly more difficult than a question about one animal. For attention it is much harder. One attention
# computation, with queries, keys and values of its own, is called a **head**, and it returns a single weighted average
# of everything it looks at. If two numbers enter this average with equal weights, it does not show which of them came
# first. So what can two heads do that one cannot?
#
# In this lesson you will find out by experiment, and then write the layer yourself in about twenty lines. After that
# you will break it. One step, cutting the features into heads, often goes wrong without raising an error.
#
# **You need** lesson 6: queries, keys and values that are computed with trained matrices. For one test you need the
# causal mask from lesson 3. You should know what a loss, a gradient, an optimizer and ReLU are.
#
# **You will be able to**
# - explain what several heads are good for and what they cost,
# - write multi-head attention and show that it gives the same output as torch's layer,
# - follow a number through the split and the merge,
# - catch scrambled heads with two short tests.
#
# **Time:** 45 minutes in class, 90 alone. You may skip the sections marked "Further".

# %% setup
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import MultiHeadAttention, influence_map
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import HeadsExplorer

lesson_setup()

# %% two-animals-in-one-question [markdown]
# ## Two animals in one question
#
# We turn this into a task for a layer. There are eight animals and the numbers 0 to 7. Each list has five tokens, and a
# sixth token is the question. A token has 32 features, each of them 0 or 1. In a list entry, the first 8 name the
# animal and the next 8 its number. In a question, the last 16 name the two animals, 8 features for each.
#
# The layer will be `MultiHeadAttention` from attnlab, until you have written your own. It returns 32 new features for
# each token, and we look only at the output of the question. There, features 0 to 7 stand for the eight possible values
# of the first number, and features 8 to 15 for those of the second. In each group, the position of the largest feature
# is the guess. `train` trains a layer with 200 steps of Adam unless we ask for more, and `report` tests it on 2,000 new
# questions. Here are three lists with their questions and answers.

# %% the-task jupyter={"source_hidden": true}
ANIMALS = ["ant", "bat", "cat", "cow", "dog", "elk", "fox", "owl"]


def two_animals(n):  # tokens (n, 6, 32), answers (n, 2)
    animal = torch.rand(n, 8).argsort(dim=-1)[:, :5]
    number = torch.randint(8, (n, 5))
    asked = torch.rand(n, 5).argsort(dim=-1)[:, :2]  # two places in the list
    tokens = torch.zeros(n, 6, 32)
    tokens[:, :5, :8], tokens[:, :5, 8:16] = F.one_hot(animal, 8), F.one_hot(number, 8)
    tokens[:, 5, 16:] = F.one_hot(animal.gather(1, asked), 8).flatten(1)
    return tokens, number.gather(1, asked)


def copy_digits(n):  # for later: tokens (n, 8, 32), answers (n, 8)
    digits, place = torch.randint(8, (n, 8)), torch.eye(8).expand(n, 8, 8)
    rest = torch.zeros(n, 8, 16)
    return torch.cat([F.one_hot(digits, 8), place, rest], dim=-1), digits


def guess(layer, task, x):  # eight logits for each answer
    output = layer(x)[0]
    numbers = output[:, -1, :16].unflatten(-1, (2, 8))  # read at the question
    return output[:, :, :8] if task is copy_digits else numbers


def in_words(tokens):  # "cat 3" for an entry, "owl, dog?" for a question
    what, n, first, second = tokens.unflatten(-1, (4, 8)).argmax(dim=-1).T.tolist()
    entries = [f"{ANIMALS[what[i]]} {n[i]}" for i in range(5)]
    return [*entries, f"{ANIMALS[first[5]]}, {ANIMALS[second[5]]}?"]


torch.manual_seed(3)
lists, answers = two_animals(3)
for each, answer in zip(lists, answers.tolist(), strict=True):
    print("   ".join(in_words(each)), "  →  ", *answer)


# %% training jupyter={"source_hidden": true}
def train(layer, task, steps=200, seed=0):
    torch.manual_seed(seed)
    for part in layer.children():
        part.reset_parameters()
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    for _ in range(steps):
        tokens, answer = task(32)
        logits = guess(layer, task, tokens)
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), answer.flatten()).backward()
        optimizer.step()
    return layer


def share_correct(layer, task):  # for each answer, and for all of them together
    tokens, answer = task(2000)
    correct = (guess(layer, task, tokens).argmax(dim=-1) == answer).float()
    return [*correct.mean(dim=0).tolist(), correct.prod(dim=-1).mean().item()]


def learn(layer, task):
    return share_correct(train(layer, task), task)[-1]


def report(layers):
    rows = {H: share_correct(layer, two_animals) for H, layer in layers.items()}
    table = pd.DataFrame(rows, ["first correct", "second correct", "both correct"]).T
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in layers.values()]
    return table.round(1).rename_axis("heads").assign(parameters=sizes)


# %% ask-one-head
predict("07/one-head-and-two-animals")

# %% see-one-head
# %%answer 07/one-head-and-two-animals
single = MultiHeadAttention(32, num_heads=1, bias=False)
one_head = train(single, two_animals, steps=800)
report({1: one_head})

# %% more-heads [markdown]
# Is the layer too small? Let us train the same layer with two heads and with four, for 200 steps each instead of 800.
# The table counts the parameters as well. The figure below it shows where one question looks, with one row for the
# single head and one for each of the two heads.

# %% see-more-heads
# %%answer 07/one-head-and-two-animals
layers = {1: one_head}
for H in (2, 4):
    layers[H] = train(MultiHeadAttention(32, num_heads=H, bias=False), two_animals)
report(layers)

# %% where-they-look jupyter={"source_hidden": true}
# %%answer 07/one-head-and-two-animals
import matplotlib.pyplot as plt
from attnlab.plotting import plot_attention

looks = torch.cat([layers[H](lists[:1]).weights[0, :, -1] for H in (1, 2)])
who = ["the single head", "head 0 of two", "head 1 of two"]
_, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
plot_attention(looks.detach(), ax=ax, queries=who, keys=in_words(lists[0]))
ax.set(
    title="One head looks at both animals; two heads take one each",
    xlabel="",
    ylabel="",
)
show_figure(ax, "7.1")

# %% the-layer [markdown]
# The single head looks at both animals and returns a mixture of their two numbers. With two heads, each head looks at
# one animal, and the numbers that the heads find end up in different features. This is what several heads are for:
# **one layer computes several weighted averages and keeps them apart.** It takes no extra parameters, because the heads
# share the 32 features: with two heads, each works on 16 of them.
#
# (We read the answer directly from the output of the layer. If two linear layers with a ReLU between them follow it and
# are trained as well, a single head is enough. When we tried this, the head gave one animal about two thirds of its
# weight and the other about a quarter, and the linear layers could tell the two numbers apart by their shares in the
# mixture. A second head is the simplest way, not the only one.)
#
# ## The layer
#
# Here is the whole layer, drawn with three heads. Three matrices **project** every token into its query, key and value.
# The layer then [**splits**](glossary.ipynb#split) them: head 0 gets the first third of the features of each query, key
# and value, head 1 gets the second third, and so on. Each head **attends** on its own: scores, softmax, weighted
# average. Finally the layer [**merges**](glossary.ipynb#merge) the results of all heads, which means that it puts them
# side by side again, and a last matrix **projects** them once more.
#
# The number of features in a head is called [**head_dim**](glossary.ipynb#head_dim). It is $E / H$, so the number of
# heads $H$ has to divide the number of features $E$.

# %% drawing jupyter={"source_hidden": true}
from attnlab.diagrams import draw_multi_head_attention

show_figure(draw_multi_head_attention(), "7.2")


# %% split-and-merge
def split(x, H):
    N, L, E = x.shape
    cut = x.view(N, L, H, E // H)  # (N, L, H, head_dim): cut the features
    return cut.transpose(1, 2)  # (N, H, L, head_dim): move the heads to the front


def merge(heads):
    N, H, L, head_dim = heads.shape
    return heads.transpose(1, 2).reshape(N, L, H * head_dim)


# %% multi-head
class MultiHead(torch.nn.Module):
    def __init__(self, E, H, split=split, merge=merge):
        super().__init__()
        self.H, self.split, self.merge = H, split, merge
        self.q_proj = torch.nn.Linear(E, E, bias=False)
        self.k_proj = torch.nn.Linear(E, E, bias=False)
        self.v_proj = torch.nn.Linear(E, E, bias=False)
        self.out_proj = torch.nn.Linear(E, E, bias=False)

    def forward(self, x):  # (N, L, E)
        query = self.split(self.q_proj(x), self.H)  # (N, H, L, head_dim)
        key = self.split(self.k_proj(x), self.H)
        value = self.split(self.v_proj(x), self.H)
        scores = query @ key.mT / query.shape[-1] ** 0.5  # (N, H, L, L)
        weights = scores.softmax(dim=-1)
        return self.out_proj(self.merge(weights @ value)), weights


# %% equal-to-torch [markdown]
# That is the whole layer. (`split` and `merge` are arguments because we are going to replace them later. `merge` uses
# `reshape` because `view` would raise an error here, as the first section marked "Further" explains.) The matrix
# product `@` works on the last two axes and leaves the axes in front of them as they are, so one line computes the
# scores of all heads of all sentences.
#
# Two details deserve a second look. First, the scores are divided by the square root of head_dim, not of $E$, because a
# dot product inside a head has only head_dim terms. Second, without the last projection, each feature of the output
# would come from a single head. `out_proj` lets every feature depend on all the heads.
#
# Torch's own layer does the same. It keeps the three input matrices in one tensor, `in_proj_weight`, with all rows for
# the queries first, then those for the keys and then those for the values.

# %% torch-layer
torch.manual_seed(0)
ours = MultiHead(32, 4)
theirs = torch.nn.MultiheadAttention(32, 4, bias=False, batch_first=True)
stacked = torch.cat([ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight])
theirs.load_state_dict(
    {"in_proj_weight": stacked, "out_proj.weight": ours.out_proj.weight}
)
sentence = torch.randn(2, 5, 32)  # (N, L, E)
output, weights = ours(sentence)
assert torch.allclose(output, theirs(sentence, sentence, sentence)[0], atol=1e-6)
output.shape, weights.shape

# %% whole-token [markdown]
# ### What does a head read?
#
# Does head 0 see only the first 8 of the 32 features of a token? It does not. The layer projects first and splits
# afterwards, so what is cut is the *projection*, and each of its features is made from all 32 features of the token.
# You could also give every head a small matrix of its own that maps 32 features to 8, and project once for each head.
# The result is the same: one large matrix is several small ones, stacked.

# %% small-matrices
small = ours.q_proj.weight.chunk(4)  # four matrices, (8, 32) each
one_by_one = torch.stack([sentence @ matrix.T for matrix in small], dim=1)
assert torch.allclose(one_by_one, split(ours.q_proj(sentence), 4), atol=1e-6)
small[0].shape, one_by_one.shape  # (N, H, L, head_dim)

# %% follow-the-numbers [markdown]
# ## Follow the numbers
#
# To see where `split` puts the numbers, we let each number spell out its own address: 210 belongs to token 2, head 1,
# feature 0 of that head. (So 1 is 001: token 0, head 0, feature 1.) There are four tokens with six features each, to be
# split into three heads.

# %% names
token, head = torch.arange(4)[:, None, None], torch.arange(3)[:, None]
names = (100 * token + 10 * head + torch.arange(2)).flatten(1)  # (L, E) = (4, 6)
by_head = names.view(4, 3, 2).transpose(0, 1)  # (H, L, head_dim)
print(names, by_head, sep="\n")

# %% the-short-cut [markdown]
# `view` cuts the six features of each token into three pairs, and `transpose` moves the heads to the front. Now each
# head is a table of its own with one row for each token: the tens digit, which names the head, is the same throughout
# the table.
#
# The final shape is (3, 4, 2). Why not ask `view` for this shape directly? We call `names.view(3, 4, 2)` the **short
# cut**.

# %% ask-rows
predict("07/rows-of-the-short-cut")

# %% see-rows
# %%answer 07/rows-of-the-short-cut
short = names.view(3, 4, 2)
same = (short == by_head).all(dim=-1)  # (H, L): one entry for each row
short, same.sum()

# %% figure-rows jupyter={"source_hidden": true}
# %%answer 07/rows-of-the-short-cut
from matplotlib.colors import ListedColormap

TOKENS = ListedColormap(["#cfe3f5", "#fbdcb8", "#d3ebc9", "#e7d3ee"])


def draw_names(ax, table, title):
    ax.pcolormesh(
        table // 100, cmap=TOKENS, vmin=0, vmax=3, edgecolor="white", linewidth=2
    )
    for i, row in enumerate(table.tolist()):
        for j, name in enumerate(row):
            ax.text(j + 0.5, i + 0.5, f"{name:03d}", ha="center", va="center")
    ax.set(xticks=[], yticks=[], aspect="equal", title=title)
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)


fig = plt.figure(figsize=(7.5, 2.5), layout="constrained")
ways = {"view, then transpose": by_head, "the short cut": short}
for part, (way, tables) in zip(
    fig.subfigures(1, 2, wspace=0.08), ways.items(), strict=True
):
    part.suptitle(way, fontweight="bold")
    for h, ax in enumerate(part.subplots(1, 3)):
        draw_names(ax, tables[h], f"head {h}")
show_figure(fig, "7.3")

# %% broken-layers [markdown]
# ## Broken layers with the correct shape
#
# There is a short cut for merging too: join the heads without transposing back. A third mistake is to forget the
# transpose in both functions, so that `split` only cuts the features and `merge` only joins them. The head axis then
# stays in its place after the token axis, and the "scores" have the shape (N, L, H, H). Every token compares its own
# heads with each other, and no token ever looks at another one. Since neither function moves an axis, the output still
# has the correct shape.
#
# This gives four broken pairs of `split` and `merge`: two with one short cut, one with both, and one in which the heads
# stay where they are. We compare them with the correct pair.


# %% pairs
def short_split(x, H):
    return x.reshape(x.shape[0], H, x.shape[1], -1)  # (N, H, L, head_dim) in one step


def short_merge(heads):
    return heads.reshape(heads.shape[0], heads.shape[2], -1)  # (N, L, E) in one step


pairs = {
    "correct": (split, merge),
    "short split": (short_split, merge),
    "short merge": (split, short_merge),
    "both short": (short_split, short_merge),
    "heads stay": (lambda x, H: x.unflatten(-1, (H, -1)), lambda y: y.flatten(-2)),
}

# %% ask-round-trip
predict("07/round-trip")

# %% see-round-trip
# %%answer 07/round-trip
x = torch.arange(2.0 * 5 * 12).view(2, 5, 12)  # (N, L, E), all numbers different
round_trip = {name: torch.equal(m(s(x, 3)), x) for name, (s, m) in pairs.items()}
round_trip

# %% experiment-follow [markdown]
# ### Your experiment: follow the numbers
#
# The explorer goes through the layer step by step. The three heads have 4 × 4 scores each, 48 in all. Go as far as the
# scores, first with `view` and `transpose`, then with the short cut. The score in row $i$, column $j$ should compare
# token $i$ with token $j$, using the features of that head. For how many of the 48 is this true?

# %% explore-heads
HeadsExplorer(step="transpose", ask=False)

# %% would-training [markdown]
# <details><summary>The answers</summary>
#
# With the short cut, only 2 of the 48 scores are correct. They compare the first row of head 0 with itself and the last
# row of head 2 with itself. (In head 1, four more compare the correct tokens, but they use features of other heads.)
# </details>
#
# ## Training the five layers
#
# Our class takes `split` and `merge` as arguments, so we can train all five layers, for 200 steps each. The new task is
# to copy digits. There are eight tokens, each with a digit from 0 to 7 and a feature that marks its place. The first 8
# features of output $i$ should name digit $i$. Then we train the five layers once more, on the two-animal task.

# %% ask-copy
predict("07/learn-to-copy")

# %% see-copy
# %%answer 07/learn-to-copy
copied = {n: learn(MultiHead(32, 2, *pair), copy_digits) for n, pair in pairs.items()}
answered = {n: learn(MultiHead(32, 2, *pair), two_animals) for n, pair in pairs.items()}
learned = pd.DataFrame({"copies 8 digits": copied, "both numbers correct": answered})
learned.round(1)

# %% two-tests [markdown]
# A training run can fail for many reasons, so let us look for tests that need no training.
#
# **The causal map.** Under a causal mask, output $i$ has to depend on every token up to $i$ and on none after it, so
# the [**influence map**](glossary.ipynb#influence-map) is a full lower triangle. Its entry $(i, j)$ is the size of the
# gradient of output $i$ with respect to token $j$. We use eight tokens with 32 features, cut into four heads, without
# any trained matrices.
#
# **The slice test.** The tensor `x` from the round trip has 12 features, four for each of three heads. So head 1 has to
# hold features 4 to 7 of every token of every sentence, and a single line of code can check this. The round trip then
# tests the merge.


# %% tests
def causal_map(split, merge):
    def attend(tokens):  # (L, E); query = key = value
        heads = split(tokens[None], 4)
        mixed = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        return merge(mixed)[0]

    # not too large: a saturated softmax has gradients of 0 even in a correct layer
    noise = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    return influence_map(attend, noise) > 0  # (L, L)


def slice_test(split, merge):
    holds_slice = torch.equal(split(x, 3)[:, 1], x[:, :, 4:8])
    return holds_slice and torch.equal(merge(split(x, 3)), x)


# %% maps jupyter={"source_hidden": true}
# %%answer 07/learn-to-copy
from attnlab.plotting import plot_mask

maps = {name: causal_map(*pair) for name, pair in pairs.items()}
_, axes = plt.subplots(1, 5, figsize=(7.5, 2.1), layout="constrained", sharey=True)
for ax, (name, one) in zip(axes, maps.items(), strict=True):
    plot_mask(one, ax=ax, title=name, legend=False).set(xlabel="token", ylabel="")
axes[0].set_ylabel("output")
show_figure(axes[0], "7.4")

# %% table-of-tests jupyter={"source_hidden": true}
# %%answer 07/learn-to-copy
triangle = torch.ones(8, 8).tril().bool()
found = {
    "output shape": {n: m(s(x, 3)).shape == x.shape for n, (s, m) in pairs.items()},
    "round trip": round_trip,
    "learns to copy": {n: share > 0.9 for n, share in copied.items()},
    "learns the two animals": {n: share > 0.9 for n, share in answered.items()},
    "causal map": {n: torch.equal(one, triangle) for n, one in maps.items()},
    "slice test": {n: slice_test(*pair) for n, pair in pairs.items()},
}
pd.DataFrame(found).replace({True: "passes", False: "caught"}).T

# %% how-many-heads [markdown]
# Look for the tests in the table that catch all four broken layers. Here the two-animal task is one of them, but that
# depends on the sizes. The other two need no training. The slice test looks at a whole batch, so it would also notice a
# `split` that swaps the sentences. (It has holes of its own, which you can close in exercise 4.)
#
# ## More heads, same price?
#
# We went from one head to two and then to four, and the number of parameters stayed the same. Does anything grow? Here
# is a layer of 12 features that reads six words, with 1 head and with more.

# %% count-many-heads
words, costs = torch.randn(1, 6, 12), {}
for count in (1, 2, 3, 4, 6, 12):
    layer = MultiHeadAttention(12, count, bias=False)
    parameters = sum(p.numel() for p in layer.parameters())
    costs[count] = parameters, layer(words).weights.numel()
pd.DataFrame(costs, index=["parameters", "attention weights"])

# %% the-answer [markdown]
# What grows is the number of attention weights, and with it the memory that they take if they are stored, because every
# head has a table of its own. The parameters stay the same, and so do the [**FLOPs**](glossary.ipynb#FLOPs) of the
# matrix products, that is, the number of their additions and multiplications. (Equal FLOPs do not mean equal time:
# there are more scores to scale and to pass through the softmax, and many small products run less efficiently than one
# large one.)
#
# With 12 heads, each head has a single feature, so a score is one number times another. All rows then rank the words in
# the same order or, if the query has the opposite sign, in exactly the reverse order.
#
# ## So what can two heads do that one cannot?
#
# They can keep two weighted averages apart. The parameters stay the same, and the table of attention weights is
# computed once for each head. The price is that each head can express less, because it has fewer features. The layer
# takes about twenty lines, and the line with the `transpose` is the one to test. Check where the numbers go, because a
# correct shape, a successful round trip and a falling loss do not prove that the heads are correct.

# %% further-contiguity [markdown]
# ## Further: what the contiguity error means
#
# A tensor is a row of numbers in memory and a rule for reading it. Its [**strides**](glossary.ipynb#stride) say how far
# to step in memory to reach the next entry along each axis. Neither `view` nor `transpose` moves a number. `transpose`
# swaps two sizes and their strides.

# %% strides
cut = names.view(4, 3, 2)  # (tokens, heads, features)
names.stride(), cut.stride(), by_head.stride()

# %% further-contiguity-2 [markdown]
# What happens if we merge `by_head` with `view`, without transposing back?

# %% view-error tags=["raises-exception"]
by_head.view(4, 6)

# %% further-contiguity-3 [markdown]
# A tensor is called [**contiguous**](glossary.ipynb#contiguous) if reading it in order means walking through memory
# step by step. `by_head` is not. The first row of the merged table would have to be 0, 1, 100, 101, 200, 201, and in
# memory these lie 1, 5, 1, 5 and 1 steps apart. But an axis has a single stride, and so `view` refuses.
#
# The error message recommends `reshape`, which copies the numbers if it must. This is good advice once the axes are in
# the order that you intend. If they are not, `reshape` joins the wrong numbers without an error.

# %% reshape-joins
print(by_head.reshape(4, 6), by_head.transpose(0, 1).reshape(4, 6), sep="\n")

# %% further-contiguity-4 [markdown]
# The first row of the upper table mixes numbers from three different tokens. So if `view` complains, check the order of
# your axes, and then use `reshape`. And if it does not complain, that proves nothing. The product `weights @ value` is
# a new tensor that is stored with the heads in front. With this tensor, `view` without the transpose works and gives
# the wrong result, and `view` after the transpose, which is what we want, raises an error.
#
# ## Further: four traps in torch's attention
#
# `nn.MultiheadAttention` computes what our class computes, but torch's interfaces hold some surprises. The first is
# that the layer treats the *first* axis as the tokens and the second as the sentences, unless you pass
# `batch_first=True`. Below are three sentences of five tokens each. We change sentence 0 and see which outputs change,
# first with the default and then with `batch_first=True`.

# %% batch-axis
torch.manual_seed(0)
batch = torch.randn(3, 5, 32)  # (N, L, E)
changed = batch.clone()
changed[0] += torch.randn(5, 32)
default = torch.nn.MultiheadAttention(32, 4, bias=False)
default.load_state_dict(theirs.state_dict())  # the same parameters
for layer in (default, theirs):
    after, before = (layer(data, data, data)[0] for data in (changed, batch))
    print(((after - before).abs().amax(dim=-1) > 1e-6).int())  # (N, L)

# %% batch-axis-reading [markdown]
# With the default, the other two sentences change as well, because the layer mixes the sentences and keeps the words
# apart. The output has the correct shape. The weights would reveal the mistake by their shape, (5, 3, 3) instead of (3,
# 5, 5), unless there are as many sentences as tokens.
#
# The second trap is [**dropout**](glossary.ipynb#dropout). During training it sets some weights to zero and scales the
# others up, and the layer returns the weights as they are *after* this step. So call `.eval()` before you look at
# weights. Here are the row sums of one sentence, in training mode and in `eval` mode.

# %% dropout-sums
torch.manual_seed(0)
dropping = torch.nn.MultiheadAttention(32, 4, bias=False, dropout=0.5, batch_first=True)
dropping.load_state_dict(theirs.state_dict())
for mode in (True, False):
    rows_of_heads = dropping.train(mode)(batch, batch, batch)[1]  # (N, L, S)
    print("training" if mode else "eval    ", rows_of_heads.sum(dim=-1)[0].detach())

# %% mean-of-heads [markdown]
# The third trap is that these weights have no head axis: the layer returns the mean over its heads, unless you call it
# with `average_attn_weights=False`. No head actually uses this mean. Below, one head prefers key 0 and the other
# prefers key 2, but their mean prefers key 1.

# %% mean-of-two
two_rows = torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]])
two_rows.mean(dim=0)

# %% hidden-weights [markdown]
# The fourth trap is that `F.scaled_dot_product_attention` returns no weights at all, since its fast implementations
# ([kernels](glossary.ipynb#kernel)) never store the whole table. But you can choose the values. If they are the rows of
# the identity matrix, the output *is* the table of weights. (So it is as large as the table, and no memory is saved.
# Torch may also choose a different kernel for these values than for your own, and then the last digits can differ.)

# %% identity-values
q, k = split(ours.q_proj(sentence), 4), split(ours.k_proj(sentence), 4)
recovered = F.scaled_dot_product_attention(q, k, torch.eye(5).expand(2, 4, 5, 5))
assert torch.allclose(recovered, weights, atol=1e-6)

# %% further-interleaved [markdown]
# ## Further: stacked or interleaved?
#
# Torch stacks the rows of `in_proj_weight` by role: all queries, all keys, all values. Some other programs store them
# *interleaved*, head by head: query, key and value of head 0, then those of head 1, and so on. The shape is the same,
# so if you copy such a matrix into torch's layer as it is, no error is raised.

# %% interleaved
by_role = stacked.unflatten(0, (3, 4, 8))  # (role, H, head_dim, E)
interleaved = by_role.transpose(0, 1).flatten(0, 2)
mixed_up = torch.nn.MultiheadAttention(32, 4, bias=False, batch_first=True)
mixed_up.load_state_dict({**theirs.state_dict(), "in_proj_weight": interleaved})
off_by = (mixed_up(sentence, sentence, sentence)[0] - output).abs().max()
interleaved.shape == stacked.shape, off_by, output.abs().max()

# %% further-narrow [markdown]
# Here the largest error is even larger than the largest entry of the correct output. To convert such a matrix, split
# its first axis into its parts, transpose, and join them, as in `split` and `merge`.
#
# ## Further: what a narrow head can express
#
# The *rank* of a matrix is the largest number of rows that you can choose so that none of them is a weighted sum of the
# others. The table of raw scores is the product of the queries, (L, head_dim), and the transposed keys, (head_dim, S),
# so each of its rows is a weighted sum of the head_dim rows of the transposed keys. Its rank is therefore at most
# head_dim. For six words with 12 features, cut into 1, 3 and 12 heads, the table of head 0 has rank 6, 4 and 1
# respectively. (A 6 by 6 matrix cannot have more than 6.) The softmax removes the bound: even with one feature, the
# weights can have rank 6, as the last number shows.

# %% ranks
torch.manual_seed(0)
wide_q, wide_k = torch.randn(2, 1, 6, 12)  # (N, L, E) each, as if projected
tables_of = [split(wide_q, H)[0, 0] @ split(wide_k, H)[0, 0].T for H in (1, 3, 12)]
narrow = tables_of[2].double().softmax(dim=-1)  # the weights with one feature
[torch.linalg.matrix_rank(table).item() for table in (*tables_of, narrow)]

# %% remember [markdown]
# ## What to remember
#
# - A head is one attention computation with its own queries, keys and values: for each query, one softmax and one
#   weighted average. Several heads keep several averages apart.
# - Project, split, attend, merge, project. To split, use `view` to get (N, L, H, head_dim) and then `transpose`. To
#   merge, use `transpose` and then `reshape`.
# - A head reads the whole token, because the layer projects before it splits. One large matrix is several small ones,
#   stacked.
# - More heads need no more parameters and no more FLOPs in the matrix products. Together the heads have more attention
#   weights, but each head has fewer features. Each head divides its raw scores by $\sqrt{\text{head\_dim}}$, not by
#   $\sqrt{E}$.
# - A correct shape, a successful round trip and a falling loss do not prove that the heads are correct. Compare each
#   head with its slice, and draw the causal map.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the empty function below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (4 minutes)
#
# `x` has 6 tokens with 8 features each, and you want 4 heads. Someone writes `x.view(4, 6, 2)`. From which tokens
# do the numbers in head 2 come?
#
# <details><summary>Hint</summary>
#
# Number all entries of `x` in the order in which they lie in memory. How many of them does a head get, and where does
# head 2 begin?
# </details>

# %%
from attnlab.exercises import check_by_letters, check_mended_heads
from attnlab.exercises import check_pair_test, check_tokens_in_head


# %% tags=["exercise"]
def tokens_in_head_2():
    """Return a list of token numbers, counted from 0."""


# %%
check_tokens_in_head(tokens_in_head_2)


# %% tags=["solution"] jupyter={"source_hidden": true}
def tokens_in_head_2_solution():
    return [3, 4]  # numbers 24 to 35; token 3 has 24 to 31


check_tokens_in_head(tokens_in_head_2_solution)

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# In `torch.einsum` you name every axis with a letter, and it sums over the letters that do not appear after the arrow.
# You need no transpose, because you name the axes instead of moving them. These are the raw scores of all heads:

# %% by-letters
letters_q = torch.randn(2, 5, 3, 4)  # (N, L, H, head_dim)
letters_k = torch.randn(2, 7, 3, 4)  # (N, S, H, head_dim)
torch.einsum("nlhd,nshd->nhls", letters_q, letters_k).shape

# %% exercise-2-task [markdown]
# Complete the computation: scale, softmax, weighted average. The output keeps the layout of the query, with the head
# axis after the token axis.
#
# <details><summary>Hint</summary>
#
# The weights are <code>nhls</code> and the values <code>nshd</code>. Which letters does the output have, and in which
# order? The number under the square root is the size of the query's last axis, <code>d</code>.
# </details>


# %% tags=["exercise"]
def attend_by_letters(query, key, value):
    """(N, L, H, d), (N, S, H, d), (N, S, H, d) -> output (N, L, H, d)."""


# %%
check_by_letters(attend_by_letters)


# %% tags=["solution"] jupyter={"source_hidden": true}
def attend_by_letters_solution(query, key, value):
    scores = torch.einsum("nlhd,nshd->nhls", query, key) / query.shape[-1] ** 0.5
    return torch.einsum("nhls,nshd->nlhd", scores.softmax(dim=-1), value)


check_by_letters(attend_by_letters_solution)

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `broken` returns a tensor of the correct shape but has three bugs. Write `mended`, a version without them.
#
# <details><summary>Hint</summary>
#
# After every line, write down what each axis means. How many terms does one dot product have?
# </details>


# %% tags=["exercise"]
def broken(x, num_heads):
    N, L, E = x.shape
    heads = x.reshape(N, num_heads, L, E // num_heads)
    scores = heads @ heads.mT / E**0.5
    mixed = scores.softmax(dim=-1) @ heads
    return mixed.reshape(N, L, E)


def mended(x, num_heads):
    """Attention in heads with query = key = value = x: (N, L, E) -> (N, L, E)."""


# %%
check_mended_heads(mended)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_solution(x, num_heads):
    N, L, E = x.shape
    heads = x.reshape(N, L, num_heads, E // num_heads).transpose(1, 2)
    scores = heads @ heads.mT / heads.shape[-1] ** 0.5
    mixed = scores.softmax(dim=-1) @ heads
    return mixed.transpose(1, 2).reshape(N, L, E)


check_mended_heads(mended_solution)

# %% exercise-4 [markdown]
# ### 4 · Implement ★★★ (12 minutes)
#
# The slice test in this lesson has two holes. First, it looks at only one head. Second, the same heads can lie in
# memory in two orders, and it tries `merge` on only one of them. What `split` returns lies in the order of the tokens.
# In our layer, `weights @ value` lies in the order of the heads. `heads.contiguous()` turns the first into the second
# without changing a number. (The first section marked "Further" explains such orders.) A correct `merge` gives the same
# result for both, but one that reads the memory directly does not.
#
# Write a test without these holes, for any pair of functions `split(x, num_heads)` and `merge(heads)`. It should return
# True if two things hold: head $h$ holds its slice of every token of every sentence, for every $h$, and `merge` joins
# the heads correctly, both as `split` returns them and after `heads.contiguous()`. Otherwise it should return False.
# (Your test need not handle a `merge` that raises an error.) The check tries your test on correct and wrong pairs.
#
# <details><summary>Hint</summary>
#
# Use numbers that are all different, such as those from <code>torch.arange</code>, and give all axes different sizes.
# What must <code>split(x, H)[:, h]</code> be equal to?
# </details>


# %% tags=["exercise"]
def is_correct(split, merge):
    """Return True or False."""


# %%
check_pair_test(is_correct)


# %% tags=["solution"] jupyter={"source_hidden": true}
def is_correct_solution(split, merge):
    x = torch.arange(2.0 * 5 * 12).view(2, 5, 12)  # N = 2, L = 5, E = 12
    heads = split(x, 3)
    if heads.shape != (2, 3, 5, 4):
        return False
    slices = [torch.equal(heads[:, h], x[..., 4 * h : 4 * h + 4]) for h in range(3)]
    back = torch.equal(merge(heads), x) and torch.equal(merge(heads.contiguous()), x)
    return all(slices) and back


check_pair_test(is_correct_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend changes `merge` and says: "It must be correct. The shape matches, and the model still learns." Answer in two
# sentences.
#
# <details><summary>An answer</summary>
#
# A merge that scrambles the heads has the same shape, and in a task like copying, with sentences that all have the same
# length, the parameters around it can learn to live with the shuffle. Ask for a test that shows where each number comes
# from: compare every head with its slice, merge the slices again, and draw the causal map.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `nn.MultiheadAttention(embed_dim, num_heads, bias=False, batch_first=True)` is the layer built in this lesson. By
# default it has biases and expects (L, N, E). It returns the output and the weights. The weights are averaged over the
# heads unless you pass `average_attn_weights=False`, and with `need_weights=False` you get None in their place. True in
# its Boolean masks means *blocked*. `attnlab.MultiHeadAttention.from_torch` copies such a layer into one of ours, which
# always expects (N, L, E).
#
# `F.scaled_dot_product_attention` attends over the last two axes and accepts any number of axes in front of them. With
# heads, the shape is (N, H, L, head_dim). It divides by the square root of the last size, it returns only the output,
# and True in its Boolean mask means *may look*.

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.2: multi-head
#   attention, and what is lost in a single average.
# - Baan, [transformer-from-scratch, pull request 6](https://github.com/jsbaan/transformer-from-scratch/pull/6): a merge
#   without a transpose, in a model that had nevertheless learned to copy. As the pull request says, this is probably
#   because copying demands too little.
# - Lippe, [UvA tutorial 6](https://github.com/phlippe/uvadlc_notebooks), and
#   [GPT-NeoX](https://github.com/EleutherAI/gpt-neox): interleaved queries, keys and values.
# - Michel et al., [Are Sixteen Heads Really Better than One?](https://arxiv.org/abs/1905.10650), 2019: in trained
#   models many heads can be removed.
# - The step from one small matrix for each head to a single large one follows chapter 3 of Sebastian Raschka's [Build a
#   Large Language Model (From Scratch)](https://www.manning.com/books/build-a-large-language-model-from-scratch).
# - Weights after dropout: [PyTorch, issue 42929](https://github.com/pytorch/pytorch/issues/42929).

# %% next [markdown]
# ## Next
#
# [8 · What attention costs, and how to pay less](08_what_attention_costs_and_how_to_pay_less.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.** Two animals: 11. The layer: 9. Follow the numbers: 4. Broken layers, with the explorer: 7. Training
# and tests: 9. More heads and the answer: 5. Leave "Further" for home.
#
# **Where a class stalls.** *"But the shape is correct":* give every student a card with a number such as 210, and let
# the class sort itself, first by token and then by head. *Confusing `reshape` with `transpose`:* ask what each of them
# does to the shape and to the order in memory. *"Why not one large head?":* go back to the mixture of two numbers.
# *"How many heads should I use?":* say that many models choose a head_dim of 64 or 128.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** `x` is (2, 5, 12). Which line splits it into 3 heads? **`x.view(2, 5, 3, 4).transpose(1, 2)`.** *`x.view(2, 3,
# 5, 4)`* cuts each sentence into three blocks of neighbouring numbers, so that head 0 gets all of token 0 and two
# thirds of token 1. *`x.view(2, 5, 4, 3).permute(0, 3, 1, 2)`* has the correct shape too, but gives head 0 the features
# 0, 3, 6 and 9. That is harmless if you train from scratch, but wrong for parameters trained in the other order.
#
# **2.** `merge(split(x))` equals `x`. What does that show? **That the two undo each other.** *Both are correct:* a pair
# of short cuts passes too. *Each head holds all tokens:* the round trip never looks into a head.
#
# **3.** The loss falls. What does that show? **Neither that the heads are correct nor that the layer attends.** *The
# heads are correct:* in a task like copying, attention can make up for a fixed shuffle if the tokens carry their place.
# *The layer attends:* copying needs no other token.
#
# **4.** A layer is given 8 heads instead of 1, and its width stays the same. What grows by a factor of 8? **The number
# of attention weights.** *The parameters:* each head has an eighth of the rows of each input matrix. *The length of a
# row of scores:* a row has one entry for each key.
#
# **5.** The scores have the shape (N, L, H, H). What happened? **The transpose in `split` is missing.** *Everything is
# fine:* look at which axes are multiplied. *The mask has the wrong shape:* no mask has been used yet.
# </details>
