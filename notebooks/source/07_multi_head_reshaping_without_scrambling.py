# %% opening [markdown] above="So what can two"
# # 7 · Multi-head attention: reshaping without scrambling
#
# Here is a list of animals, each with a number: *cat 3, dog 7, owl 0, fox 5, bat 1*.
# A question names two of them, say *owl and dog*, and asks for their numbers in that order.
# The answer is *0 and 7*.
# The question *dog and owl* has the answer *7 and 0*.
#
# For you this is hardly more difficult than a question about one animal.
# For attention it is much harder.
# One attention computation, with queries, keys and values of its own, is called a **head**,
# and it returns a single weighted average of everything it looks at.
# If two numbers enter this average with equal weights, it does not show which of them came first.
# So what can two heads do that one cannot?
#
# You will find out by experiment, and then write the layer yourself in about 25 lines.
# After that you will break it, because cutting the features into heads often goes wrong without
# raising an error.
#
# **You need:** [lesson 6](06_where_q_k_and_v_come_from.ipynb),
# in which trained matrices compute the queries, keys and values,
# and for one test the causal mask from lesson 3.
# You should know what a loss, an optimizer and an MLP are.
#
# **You will be able to:** explain what several heads are good for,
# write multi-head attention and show that it gives the same output as PyTorch’s layer,
# follow a number through the split and the merge, and catch scrambled heads with two short tests.
#
# **Time:** 50 minutes in class, or 90 on your own with the exercises.
# “Further” takes another 15.

# %% setup
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import MultiHeadAttention, Table, influence_map
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import HeadsExplorer
from attnlab.plotting import plot_attention

lesson_setup()

# %% two-animals-in-one-question [markdown]
# ## Two animals in one question
#
# We turn this into a task for a layer.
# There are eight animals and the numbers 0 to 7.
# Each list has five tokens, and a sixth token is the question.
# A token has 32 features, each of them 0 or 1.
# In a list entry, the first 8 name the animal and the next 8 its number.
# In a question, the last 16 name the two animals, 8 features for each.
# Three lists are printed below the code.


# %% the-task
def two_animals(n, generator, E=32):
    """Return n lists with their questions (n, 6, E), and the answers (n, 2)."""
    # argsort of random numbers gives a random order: of the animals, of the positions
    animal = torch.rand(n, 8, generator=generator).argsort(dim=-1)[:, :5]
    number = torch.randint(8, (n, 5), generator=generator)
    asked = torch.rand(n, 5, generator=generator).argsort(dim=-1)[:, :2]
    tokens = torch.zeros(n, 6, E)
    tokens[:, :5, :8] = F.one_hot(animal, 8)
    tokens[:, :5, 8:16] = F.one_hot(number, 8)
    tokens[:, 5, 16:32] = F.one_hot(animal.gather(1, asked), 8).flatten(1)
    return tokens, number.gather(1, asked)  # the numbers at these positions


def at_the_question(output):
    return output[:, -1, :16].unflatten(-1, (2, 8))  # (n, 2, 8)


# %% in-words jupyter={"source_hidden": true}
ANIMALS = ["ant", "bat", "cat", "cow", "dog", "elk", "fox", "owl"]


def in_words(tokens):  # "cat 3" for an entry, "owl, dog?" for a question
    what, how_many, first, second = (
        tokens.unflatten(-1, (4, 8)).argmax(dim=-1).T.tolist()
    )
    entries = [f"{ANIMALS[what[i]]} {how_many[i]}" for i in range(5)]
    return [*entries, f"{ANIMALS[first[5]]}, {ANIMALS[second[5]]}?"]


three_lists, three_answers = two_animals(3, torch.Generator().manual_seed(3))
for a_list, answer in zip(three_lists, three_answers.tolist(), strict=True):
    print("   ".join(in_words(a_list)), "  →  ", *answer)

# %% how-to-train [markdown]
# For now we use the `MultiHeadAttention` of attnlab; you will write your own below.
#
# The layer returns 32 new features for each token.
# `at_the_question` takes the first 16 of the question:
# 8 for the eight possible values of the first number, and 8 for those of the second.
# In each group, the position of the largest feature is the guess.


# %% training
def train(layer, task=two_animals, read=at_the_question, steps=200):
    generator = torch.Generator().manual_seed(0)  # the same lists for every layer
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    for _ in range(steps):
        tokens, answers = task(32, generator)
        guesses = read(layer(tokens)[0])
        loss = F.cross_entropy(guesses.flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return layer


# %% counting
@torch.no_grad()
def share_correct(layer, task=two_animals, read=at_the_question):
    """Return the share of correct guesses for each answer, and for all at once."""
    tokens, answers = task(2000, torch.Generator().manual_seed(1))  # new lists
    correct = read(layer(tokens)[0]).argmax(dim=-1) == answers
    all_correct = correct.all(dim=-1, keepdim=True)
    return torch.cat([correct, all_correct], dim=-1).float().mean(dim=0)


# %% ask-one-head
predict("07/one-head-and-two-animals")

# %% see-one-head
# %%answer 07/one-head-and-two-animals
numbers = ["first correct", "second correct", "both correct"]
torch.manual_seed(0)
one_head = train(MultiHeadAttention(32, num_heads=1, bias=False), steps=800)
# (another processor changes the second decimal)
Table(["1 head"], numbers, share_correct(one_head)[None].round(decimals=1))

# %% more-heads [markdown] above="The single head gets" answers="07/one-head-and-two-animals"
# The single head gets both numbers right in only about a fifth of the questions.
# It finds the first number nine times out of ten, and the second far less often.
# (In one question out of eight, the two numbers are equal, and finding one of them is enough.)
#
# Is the head too small?
# We train a single head again with 128 features.
# The tokens get 96 more features, which are 0.
# We also train two layers of 32 features, with two and with four heads, for only 200 steps.


# %% see-more-heads
def wide_animals(n, generator):
    return two_animals(n, generator, E=128)


torch.manual_seed(0)
wide = train(MultiHeadAttention(128, num_heads=1, bias=False), wide_animals, steps=800)
two_heads = train(MultiHeadAttention(32, num_heads=2, bias=False))
four_heads = train(MultiHeadAttention(32, num_heads=4, bias=False))
shares = {
    "1 head": share_correct(one_head),
    "1 head of 128 features": share_correct(wide, wide_animals),
    "2 heads": share_correct(two_heads),
    "4 heads": share_correct(four_heads),
}
Table([*shares], numbers, torch.stack([*shares.values()]).round(decimals=1))

# %% more-heads-read [markdown] above="A head with more" answers="07/one-head-and-two-animals"
# A head with more features does no better, but a second head solves the task.
# Other random starts agree.
#
# Where do the heads look?
# We average their weights over 2,000 questions.


# %% where-they-look
@torch.no_grad()
def mean_weights(layer):  # on the first animal, on the second, and on the rest: (H, 3)
    tokens, _ = two_animals(2000, torch.Generator().manual_seed(1))
    weights = layer(tokens).weights[:, :, -1, :5]  # (n, H, 5): from the question
    shares = []
    for asked in tokens[:, 5:, 16:32].chunk(2, dim=-1):  # (n, 1, 8) each
        here = (tokens[:, :5, :8] * asked).sum(dim=-1)  # (n, 5): 1 at this animal
        shares.append((weights * here[:, None]).sum(dim=-1).mean(dim=0))
    return torch.stack([*shares, 1 - sum(shares)], dim=-1)


looks = torch.cat([mean_weights(one_head), mean_weights(two_heads)])
heads = ["the single head", "head 0 of two", "head 1 of two"]
columns = ["first animal", "second animal", "all others"]
ax = plot_attention(looks, queries=heads, keys=columns)
ax.set(xlabel="", ylabel="", aspect="auto")
show_figure(ax, "7.1")

# %% what-for [markdown] above="With two heads, one" answers="07/one-head-and-two-animals"
# The single head looks at both animals and returns a mixture of their two numbers.
# It looks more at the first, so the first number usually wins in both readings.
#
# With two heads, one gives most of its weight to the first animal and the other to the second.
# The numbers that they find end up in different features.
# This is what several heads are for:
# **one layer computes several weighted averages and keeps them apart.**
# (A single head with an MLP behind it can learn the task too, in one more step.)

# %% the-layer [markdown] below="Here is the whole"
# ## The layer
#
# Here is the whole layer, drawn with three heads.
# Three matrices **project** every token into its query, key and value.
# The layer then [**splits**](glossary.ipynb#split) them:
# head 0 gets the first third of the features of each query, key and value,
# head 1 gets the second third, and so on.
#
# Each head **attends** on its own: scores, softmax, weighted average.
# Finally the layer [**merges**](glossary.ipynb#merge) the results of all heads,
# which means that it puts them side by side again, and a last matrix **projects** them once more.

# %% drawing jupyter={"source_hidden": true}
from attnlab.display import diagram

show_figure(diagram("multi_head_attention"), "7.2")

# %% head-dim [markdown] below="Splitting cuts the features"
# The number of features in a head is called [**head_dim**](glossary.ipynb#head_dim).
# Here, as in the original paper, it is $E / H$,
# so the number of heads $H$ has to divide the number of features $E$.
# Two heads of 16 features then need as many parameters as one head of 32.
#
# That is a convention, and some models choose another size (“Sources” names one).
# Splitting cuts the features and moves the heads to the front,
# and merging takes the same steps back.


# %% split-and-merge
def split(x, H):
    N, L, E = x.shape
    cut = x.view(N, L, H, E // H)  # (N, L, H, head_dim): cut the features
    return cut.transpose(1, 2)  # (N, H, L, head_dim): move the heads to the front


def merge(heads):
    N, H, L, head_dim = heads.shape
    rows = heads.transpose(1, 2)  # (N, L, H, head_dim): move the heads back
    return rows.reshape(N, L, H * head_dim)  # view cannot read memory in this order


# %% multi-head
class MultiHead(torch.nn.Module):
    """Tokens (N, L, E) -> output (N, L, E) and weights (N, H, L, L)."""

    def __init__(self, E, H):
        super().__init__()
        self.H = H
        self.q_proj = torch.nn.Linear(E, E, bias=False)
        self.k_proj = torch.nn.Linear(E, E, bias=False)
        self.v_proj = torch.nn.Linear(E, E, bias=False)
        self.out_proj = torch.nn.Linear(E, E, bias=False)

    def forward(self, x):
        query = split(self.q_proj(x), self.H)  # (N, H, L, head_dim)
        key = split(self.k_proj(x), self.H)
        value = split(self.v_proj(x), self.H)
        scores = query @ key.mT / query.shape[-1] ** 0.5  # (N, H, L, L)
        weights = scores.softmax(dim=-1)
        return self.out_proj(merge(weights @ value)), weights


# %% equal-to-torch [markdown]
# The matrix product `@` works on the last two axes and leaves the axes in front of them as they
# are, so one line computes the scores of all heads of all sentences.
# Three details deserve a second look.
#
# - A head does not read a slice of the *token*.
#   The layer projects first and splits afterwards,
#   so each feature of a head is made from all features of the token.
#   You may also think of one small matrix for each head.
#   Side by side, these small matrices are the one large matrix of the layer.
# - The scores are divided by the square root of head_dim, not of $E$,
#   because a dot product inside a head has only head_dim terms.
# - Without the last projection, each feature of the output would come from a single head.
#   `out_proj` lets every feature depend on all the heads.
#
# PyTorch’s own layer does the same.
# It keeps the three input matrices in one tensor, `in_proj_weight`,
# with all rows for the queries first, then those for the keys and then those for the values.

# %% torch-layer
torch.manual_seed(0)
ours = MultiHead(32, 4)
theirs = torch.nn.MultiheadAttention(32, 4, bias=False, batch_first=True)
stacked = torch.cat([ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight])
parameters = {"in_proj_weight": stacked, "out_proj.weight": ours.out_proj.weight}
theirs.load_state_dict(parameters)
sentences = torch.randn(2, 5, 32)  # (N, L, E)
output, weights = ours(sentences)
expected, _ = theirs(sentences, sentences, sentences)
print("same output:", torch.allclose(output, expected, atol=1e-6))
print("weights:", tuple(weights.shape))

# %% follow-the-numbers [markdown] above="With the same matrices" below="To see where `split`"
# With the same matrices, our layer and PyTorch’s give the same output.
#
# ## Follow the numbers
#
# To see where `split` puts the numbers, we let each number spell out its own address.
# For example, 210 belongs to token 2, head 1, feature 0 of that head.
# (So 1 is 001: token 0, head 0, feature 1.)
# There are four tokens with six features each, to be split into three heads.

# %% addresses
token, head = torch.arange(4)[:, None, None], torch.arange(3)[:, None]
feature = torch.arange(2)
addresses = (100 * token + 10 * head + feature).flatten(1)  # (L, E) = (4, 6)
by_head = addresses.view(4, 3, 2).transpose(0, 1)  # (H, L, head_dim)
shortcut = addresses.view(3, 4, 2)  # the same shape in one step
print(addresses)

# %% figure-rows jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap

TOKENS = ListedColormap(["#cfe3f5", "#fbdcb8", "#d3ebc9", "#e7d3ee"])


def draw_addresses(ax, table, title):
    ax.pcolormesh(
        table // 100, cmap=TOKENS, vmin=0, vmax=3, edgecolor="white", linewidth=2
    )
    for i, row in enumerate(table.tolist()):
        for j, address in enumerate(row):
            ax.text(j + 0.5, i + 0.5, f"{address:03d}", ha="center", va="center")
    ax.set(xticks=[], yticks=[], aspect="equal", title=title)
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)


fig = plt.figure(figsize=(7.5, 2.5), layout="constrained")
ways = {"view, then transpose": by_head, "the shortcut": shortcut}
for part, (way, tables) in zip(
    fig.subfigures(1, 2, wspace=0.08), ways.items(), strict=True
):
    part.suptitle(way, fontweight="bold")
    for h, ax in enumerate(part.subplots(1, 3)):
        draw_addresses(ax, tables[h], f"head {h}")
show_figure(fig, "7.3")

# %% the-shortcut [markdown] above="The shortcut gives the"
# On the left, `view` cuts the six features of each token into three pairs,
# and `transpose` moves the heads to the front.
# Each head is then a table of its own with one row for each token, and the tens digit,
# which names the head, is the same throughout the table.
#
# On the right, `view` is asked for the final shape directly.
# We call this the **shortcut**.
# The shortcut gives the correct shape and raises no error, but most of its rows are wrong.
# `view` does not know what a token is.
# It hands out the numbers in the order in which they lie in memory, eight to each head,
# so head 0 gets the six of token 0 and two of token 1.
# Only `transpose` changes the order in which the numbers are read.
#
# ## Broken layers with the correct shape
#
# There is a shortcut for merging too: reshape the heads into (N, L, E) without transposing back.
#
# A third mistake is to forget the transpose in both functions,
# so that `split` only cuts the features and `merge` only joins them.
# The head axis then stays after the token axis, and the “scores” have the shape (N, L, H, H).
# Every token compares its own heads with each other, and no token ever looks at another one.


# %% pairs
def reshaped_split(x, H):
    return x.reshape(x.shape[0], H, x.shape[1], -1)  # (N, H, L, head_dim) in one step


def reshaped_merge(heads):
    return heads.reshape(heads.shape[0], heads.shape[2], -1)  # (N, L, E) in one step


def cut_only(x, H):
    return x.unflatten(-1, (H, -1))  # (N, L, H, head_dim)


def join_only(heads):
    return heads.flatten(-2)  # (N, L, E)


pairs = {
    "correct": (split, merge),
    "reshaped split": (reshaped_split, merge),
    "reshaped merge": (split, reshaped_merge),
    "both reshaped": (reshaped_split, reshaped_merge),
    "heads never moved": (cut_only, join_only),
}

# %% round-trip-text [markdown]
# Each entry is a pair of functions, one that splits and one that merges.
# A common test of such a pair is the round trip: split `x`, merge the result,
# and compare it with `x`.

# %% round-trip
x = torch.arange(2.0 * 5 * 12).view(2, 5, 12)  # (N, L, E), all numbers different
for name, (cut, join) in pairs.items():
    print(f"{name:18}", torch.equal(join(cut(x, 3)), x))

# %% experiment-follow [markdown] above="A round trip shows" below="Why are two of"
# Two broken pairs pass.
# A round trip shows only that the two functions undo each other.
#
# ### Your experiment: find the two correct scores
#
# The explorer goes through the layer step by step.
# It begins with the scores that follow the shortcut: three heads with 4 × 4 scores each.
# “0·1” means that the query comes from token 0 and the key from token 1.
# A score has the colour of its key’s token.
# The score in row $i$ and column $j$ of head $h$ is correct if it compares token $i$ with token $j$
# and uses the features of head $h$.
# A cross marks a wrong score.
#
# Why are two of the 48 scores correct?
# Four scores in head 1 compare the right tokens: why are they wrong?
# Go back to “view” to find out.
# Then go on to “merge”: what has happened to the wrong rows?

# %% explore-heads
HeadsExplorer(way="shortcut", step="scores", ask=False)

# %% would-training [markdown]
# <details><summary>The answers</summary>
#
# The first row of head 0 and the last row of head 2 are in place,
# so each of them compared with itself is correct.
# The four scores in head 1 use features of other heads.
# Merging by the shortcut puts all numbers back in their places,
# because neither step has changed their order.
# But in a layer, attention comes between the two steps.
# Each row is then back in its place and holds an average over the wrong rows.
# </details>
#
# ## Training the five layers
#
# Would training reveal a broken layer?
# The new task is to copy digits.
# There are eight tokens, each with a digit from 0 to 7 and a feature that marks its position.
# The first 8 features of output $i$ should name digit $i$.
# We train all five layers for 300 steps.
# Then we train them on the two animals, once with two heads and once with eight.
# The next two cells set this up: a layer with any pair of functions, and the new task.
# You need not read them closely.


# %% breakable
class AnyPair(MultiHead):
    """MultiHead with a split and a merge of your choice."""

    def __init__(self, E, H, split, merge):
        super().__init__(E, H)
        self.split, self.merge = split, merge

    def forward(self, x):
        projected = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        query, key, value = (self.split(part, self.H) for part in projected)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.out_proj(self.merge(mixed)), None


# %% copying
def copy_digits(n, generator):
    """Return n lists of eight digits as tokens (n, 8, 32), and the digits (n, 8)."""
    digits = torch.randint(8, (n, 8), generator=generator)
    position, rest = torch.eye(8).expand(n, 8, 8), torch.zeros(n, 8, 16)
    return torch.cat([F.one_hot(digits, 8), position, rest], dim=-1), digits


def at_each_token(output):
    return output[:, :, :8]  # (n, 8, 8)


# %% ask-copy
predict("07/learn-to-copy")


# %% see-copy
# %%answer 07/learn-to-copy
def learns(pair, task, read, H=2):
    layer = train(AnyPair(32, H, *pair), task, read, steps=300)
    return share_correct(layer, task, read)[-1]  # all answers at once


torch.manual_seed(0)
rows = []
for pair in pairs.values():
    copied = learns(pair, copy_digits, at_each_token)
    found = learns(pair, two_animals, at_the_question)
    found_by_eight = learns(pair, two_animals, at_the_question, H=8)
    rows.append(torch.stack([copied, found, found_by_eight]))
trained = torch.stack(rows)
columns = ["copies 8 digits", "two animals", "two animals, 8 heads"]
Table([*pairs], columns, trained.round(decimals=1))

# %% two-tests [markdown] above="All five layers learn" answers="07/learn-to-copy"
# All five layers learn to copy.
# With “both reshaped” and “heads never moved”, each output still depends on its own token,
# and copying needs no other.
# With the other two, the rows are shuffled, but always in the same way,
# and each token carries its position.
# So attention learns to fetch each digit from where it has landed,
# or to put it where the merge will pick it up.
#
# With two heads, only the correct layer learns the two animals.
# With eight, the layer with the reshaped merge learns them as well.
# With eight heads, the row that it puts in the place of the question holds what two of them have
# found for the question.
# With two heads, that row holds what only one has found.
# So a task may catch a broken layer at one size and not at another.

# %% two-tests-without-training [markdown]
# ### Two tests without training
#
# **The causal map.**
# Which tokens does output $i$ depend on?
# Under a causal mask, it has to depend on every token up to $i$ and on none after it.
# The [**influence map**](glossary.ipynb#influence-map) marks the cell $(i, j)$ if output $i$
# changes at all when token $j$ changes a little, which it finds out from gradients.
# So it has to be a full lower triangle.
# We use eight tokens with 32 features, cut into four heads, and no matrices.


# %% causal-map
def causal_map(split, merge):
    def attend(tokens):  # (L, E); query = key = value
        heads = split(tokens[None], 4)
        mixed = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        return merge(mixed)[0]

    # not too large: a saturated softmax has gradients of 0 even in a correct layer
    noise = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    return influence_map(attend, noise) > 0  # (L, L); masked tokens give exactly 0


maps = {name: causal_map(*pair) for name, pair in pairs.items()}

# %% maps jupyter={"source_hidden": true}
from attnlab.plotting import plot_mask

_, axes = plt.subplots(1, 5, figsize=(7.5, 2.2), layout="constrained", sharey=True)
for ax, (name, seen) in zip(axes, maps.items(), strict=True):
    plot_mask(seen, ax=ax, legend=False).set(xlabel="token", ylabel="")
    ax.set_title(name.replace(" never", "\nnever").replace("ed ", "ed\n"), fontsize=10)
axes[0].set_ylabel("output")
show_figure(axes[0], "7.4")

# %% slice-text [markdown] above="No broken layer has"
# No broken layer has the full triangle.
# Two of them see the future, and the other two miss most of the past.
#
# **The slice test.**
# We split 12 features into three heads of four.
# Then head 1 has to hold features 4 to 7 of every token of every sentence.
# If the slices are correct, a round trip tests the merge as well.
# (Exercise 4 closes two holes that this test leaves.)
# Here are all our tests together.


# %% table-of-tests
def slice_test(split, merge):
    heads = split(x, 3)
    return torch.equal(heads[:, 1], x[..., 4:8]) and torch.equal(merge(heads), x)


triangle = torch.ones(8, 8).tril().bool()
tests = {
    "output shape": [join(cut(x, 3)).shape == x.shape for cut, join in pairs.values()],
    "round trip": [torch.equal(join(cut(x, 3)), x) for cut, join in pairs.values()],
    "learns to copy (90%)": (trained[:, 0] > 0.9).tolist(),
    "learns the animals, 2 heads (90%)": (trained[:, 1] > 0.9).tolist(),
    "causal map": [torch.equal(one_map, triangle) for one_map in maps.values()],
    "slice test": [slice_test(*pair) for pair in pairs.values()],
}
pd.DataFrame(tests, [*pairs]).T.replace({True: "passes", False: "fails"})

# %% the-answer [markdown] above="The causal map and"
# A good test is passed by the correct layer and failed by the other four.
# The causal map and the slice test tell all four broken layers from the correct one without any
# training.
# The map shows which tokens a head mixes, and the slice test also which features it holds.
#
# ## So what can two heads do that one cannot?
#
# They can keep two weighted averages apart.
# Asked for *owl and dog*, a single head returns one mixture of 0 and 7,
# and the mixture does not say which number belongs to which animal.
# With two heads, one looks at the owl and the other at the dog.
# The 0 and the 7 arrive in different features, so *0 and 7* is a different output from *7 and 0*.
#
# With head_dim $= E / H$, the second head costs no parameters.
# The price is that each head has fewer features,
# and that the layer computes a second table of weights.
#
# The line with the `transpose` is the one to test.
# Check where the numbers go.

# %% further [markdown]
# ## Further
#
# ### Why one head must fail
#
# Was the single head only badly trained?
# Suppose that it gives the weight $a$ to the first animal, a smaller weight $b$ to the second,
# and nothing to the others, whatever the numbers are.
# (If it prefers the second animal, the same argument holds for the first number.)
#
# Look at how the second number is read.
# Each number $m$ adds its weight times some amount $w_m(g)$ to the score of the guess $g$.
# If the numbers are 1 and 2, the guess 2 must beat the guess 1.
# If they are 2 and 1, the guess 1 must beat the guess 2:
#
# $$a\, w_1(2) + b\, w_2(2) > a\, w_1(1) + b\, w_2(1)$$
#
# $$a\, w_2(1) + b\, w_1(1) > a\, w_2(2) + b\, w_1(2)$$
#
# We add the two lines and divide by $a - b$.
# What remains is $w_1(2) + w_2(1) > w_1(1) + w_2(2)$.
#
# But if both numbers are 1, the guess 1 must win, so $w_1(1) > w_1(2)$.
# In the same way, $w_2(2) > w_2(1)$.
# These three statements contradict each other.
# So a head that is right when the numbers are equal gets at most one of the two orders right.
# Equal numbers come up in one question of eight,
# so it gets both numbers in at most 1/8 + 1/2 · 7/8 of the questions, or 56%,
# however many features it has.
# Training found less than half of that.
#
# ### What the contiguity error means
#
# A tensor is a row of numbers in memory and a rule for reading it.
# Its [**strides**](glossary.ipynb#stride) say how far to step in memory to reach the next entry
# along each axis.
# Neither `view` nor `transpose` moves a number.
# `transpose` swaps two sizes and their strides.

# %% strides
cut = addresses.view(4, 3, 2)  # (tokens, heads, features)
cut.stride(), by_head.stride()

# %% further-contiguity-2 [markdown]
# What happens if we merge `by_head` with `view`, without transposing back?

# %% view-error tags=["raises-exception"]
by_head.view(4, 6)

# %% further-contiguity-3 [markdown]
# A tensor is called [**contiguous**](glossary.ipynb#contiguous) if reading it in order means
# walking through memory step by step.
# `by_head` is not.
# The first row of the merged table would have to be 0, 1, 100, 101, 200, 201,
# and in memory these lie 1, 5, 1, 5 and 1 steps apart.
# But an axis has a single stride, and so `view` refuses.
#
# The error message recommends `reshape`, which copies the numbers if it must.
# If the axes are not in the order that you intend,
# `reshape` joins the wrong numbers without an error.
# So if `view` complains, check the order of your axes first.
#
# The absence of an error proves nothing either.
# `weights @ value` is a new tensor that lies in memory head by head,
# so `view` without the transpose silently merges it in the wrong order.
#
# ### Two traps in PyTorch’s attention
#
# `nn.MultiheadAttention` computes what our class computes, but the interfaces hold some surprises.
# The first is that the layer treats the *first* axis as the tokens and the second as the sentences,
# unless you pass `batch_first=True`.
# Below are three sentences of five tokens each.
# We change sentence 0 and see which outputs change,
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
# With the default, the other two sentences change as well,
# because the layer mixes the sentences and keeps the words apart.
# The output has the correct shape.
# The weights would reveal the mistake by their shape, (5, 3, 3) instead of (3, 5, 5),
# unless there are as many sentences as tokens.
#
# The second trap is [**dropout**](glossary.ipynb#dropout).
# During training it sets some weights to zero and scales the others up,
# and the layer returns the weights as they are *after* this step.
# So call `.eval()` before you look at weights.
# Here are the row sums of head 0 for one sentence, in training mode and in `eval` mode.

# %% dropout-sums
torch.manual_seed(0)
dropping = torch.nn.MultiheadAttention(32, 4, bias=False, dropout=0.5, batch_first=True)
dropping.load_state_dict(theirs.state_dict())
for mode in (True, False):
    dropping.train(mode)
    _, rows_of_heads = dropping(batch, batch, batch, average_attn_weights=False)
    sums = rows_of_heads.sum(dim=-1)[0, 0].detach().round(decimals=2)
    print("training" if mode else "eval    ", sums)

# %% remember [markdown]
# ## What to remember
#
# - A head is one attention computation with its own queries, keys and values: for each query,
#   one softmax and one weighted average.
#   Several heads keep several averages apart.
# - Project, split, attend, merge, project.
#   To split, use `view` to get (N, L, H, head_dim) and then `transpose`.
#   To merge, use `transpose` and then `reshape`.
# - A head reads the whole token, because the layer projects before it splits.
#   One large matrix is several small ones side by side.
# - If head_dim is $E / H$, more heads need no more parameters, but each head has fewer features.
#   Each head divides its raw scores by $\sqrt{\text{head\_dim}}$, not by $\sqrt{E}$.
# - A correct shape, a successful round trip and a falling loss do not prove that the heads are
#   correct.
#   Compare each head with its slice, and draw the causal map.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the empty function below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (4 minutes)
#
# `x` has 6 tokens with 8 features each, and you want 4 heads.
# Someone writes `x.view(4, 6, 2)`.
# From which tokens do the numbers in head 2 come?
#
# <details><summary>Hint</summary>
#
# Number all entries of `x` in the order in which they lie in memory.
# How many of them does a head get, and where does head 2 begin?
# </details>

# %%
from attnlab.exercises import check_by_letters, check_mended_heads
from attnlab.exercises import check_pair_test, check_tokens_in_head


# %% tags=["exercise"]
def tokens_in_head_2():
    """Return a list of token numbers, counted from 0."""


# %%
check_tokens_in_head(tokens_in_head_2)


# %% tags=["solution"]
def tokens_in_head_2_solution():
    return [3, 4]  # numbers 24 to 35; token 3 has 24 to 31


check_tokens_in_head(tokens_in_head_2_solution)

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# In `torch.einsum` you name every axis with a letter,
# and it sums over the letters that do not appear after the arrow.
# You need no transpose, because you name the axes instead of moving them.
# These are the raw scores of all heads:

# %% by-letters
letters_q = torch.randn(2, 5, 3, 4)  # (N, L, H, head_dim)
letters_k = torch.randn(2, 7, 3, 4)  # (N, S, H, head_dim)
torch.einsum("nlhd,nshd->nhls", letters_q, letters_k).shape

# %% exercise-2-task [markdown]
# Complete the computation: scale, softmax, weighted average.
# The output keeps the layout of the query, with the head axis after the token axis.
#
# <details><summary>Hint</summary>
#
# The weights are <code>nhls</code> and the values <code>nshd</code>.
# Which letters does the output have, and in which order?
# The number under the square root is the size of the query's last axis, <code>d</code>.
# </details>


# %% tags=["exercise"]
def attend_by_letters(query, key, value):
    """(N, L, H, d), (N, S, H, d), (N, S, H, d) -> output (N, L, H, d)."""


# %%
check_by_letters(attend_by_letters)


# %% tags=["solution"]
def attend_by_letters_solution(query, key, value):
    scores = torch.einsum("nlhd,nshd->nhls", query, key) / query.shape[-1] ** 0.5
    return torch.einsum("nhls,nshd->nlhd", scores.softmax(dim=-1), value)


check_by_letters(attend_by_letters_solution)

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `broken` returns a tensor of the correct shape but has three bugs.
# Write `mended`, a version without them.
#
# <details><summary>Hint</summary>
#
# After every line, write down what each axis means.
# How many terms does one dot product have?
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


# %% tags=["solution"]
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
# The slice test of this lesson has two holes.
# It looks at only one head, and it tries `merge` only on what `split` has just returned.
# These heads still lie in memory in the order of the tokens.
# In our layer, `merge` gets `weights @ value`, a new tensor that lies in memory head by head.
# With the addresses from “Follow the numbers”, the two orders are:
#
# ```text
# as split returns them:      000 001 010 011 020 021 100 101 110 111 120 121 200 ...
# after heads.contiguous():   000 001 100 101 200 201 300 301 010 011 110 111 210 ...
# ```
#
# `heads.contiguous()` copies the first order into the second, and no entry of the tensor changes.
# PyTorch’s own functions give the same result for both.
# But a `merge` that reads the memory directly, as a hand-written kernel may do,
# can be correct for one of them and wrong for the other.
#
# Write a test without these holes,
# for any pair of functions `split(x, num_heads)` and `merge(heads)`.
# It should return True if two things hold:
# head $h$ holds its slice of every token of every sentence, for every $h$,
# and `merge` joins the heads correctly,
# both as `split` returns them and after `heads.contiguous()`.
# Otherwise it should return False.
# (Your test need not handle a `merge` that raises an error.)
# The check tries your test on correct and wrong pairs.
#
# <details><summary>Hint</summary>
#
# Use numbers that are all different, such as those from <code>torch.arange</code>,
# and give all axes different sizes.
# What must <code>split(x, H)[:, h]</code> be equal to?
# </details>


# %% tags=["exercise"]
def is_correct(split, merge):
    """Return True or False."""


# %%
check_pair_test(is_correct)


# %% tags=["solution"]
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
# A friend changes `merge` and says: “It must be correct.
# The shape matches, and the model still learns.”
# Answer in two sentences.
#
# <details><summary>An answer</summary>
#
# A merge that scrambles the heads has the same shape, and in a task like copying,
# with lists that all have the same length,
# the parameters around it can learn to live with the shuffle.
# Ask for a test that shows where each number comes from: compare every head with its slice,
# merge the slices again, and draw the causal map.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `nn.MultiheadAttention(embed_dim, num_heads, bias=False, batch_first=True)` is the layer built in
# this lesson.
# By default it has biases and expects (L, N, E).
# It returns the output and the weights.
# The weights are averaged over the heads unless you pass `average_attn_weights=False`,
# and with `need_weights=False` you get None in their place.
# True in its Boolean masks means *blocked*.
# `attnlab.MultiHeadAttention.from_torch` copies such a layer into one of ours, which always expects
# (N, L, E).
#
# `F.scaled_dot_product_attention` attends over the last two axes and accepts any number of axes in
# front of them.
# With heads, the shape is (N, H, L, head_dim).
# It divides by the square root of the last size, it returns only the output,
# and True in its Boolean mask means *may attend*.

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.2.2: multi-head attention, and what is lost in a single average.
# - Baan,
#   [transformer-from-scratch, pull request 6](https://github.com/jsbaan/transformer-from-scratch/pull/6):
#   a merge without a transpose, in a model that had nevertheless learned to copy.
#   As the pull request says, this is probably because copying demands too little.
# - Gemma Team,
#   [Gemma: Open Models Based on Gemini Research and Technology](https://arxiv.org/abs/2403.08295),
#   2024, table 1: a head_dim that is not $E / H$.
# - Michel et al., [Are Sixteen Heads Really Better than One?](https://arxiv.org/abs/1905.10650),
#   2019: in trained models many heads can be removed.
# - The step from one small matrix for each head to a single large one follows chapter 3 of
#   Sebastian Raschka’s
#   [Build a Large Language Model (From Scratch)](https://www.manning.com/books/build-a-large-language-model-from-scratch).
# - Weights after dropout: [PyTorch, issue 42929](https://github.com/pytorch/pytorch/issues/42929).

# %% next [markdown]
# ## Next
#
# Lesson 8,
# [What attention costs, and how to pay less](08_what_attention_costs_and_how_to_pay_less.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.**
# Two animals: 13.
# The layer: 9.
# Follow the numbers: 4.
# Broken layers, with the explorer: 11.
# Training and tests: 10.
# The answer: 3.
# Leave “Further” for home.
#
# **Where a class stalls.**
# *“But the shape is correct”:* give every student a card with a number such as 210,
# and let the class sort itself, first by token and then by head.
# *Confusing `reshape` with `transpose`:*
# ask what each of them does to the shape and to the order in memory.
# *“Why not one large head?”:* go back to the row with 128 features,
# and to the mixture of two numbers.
# *“How many heads should I use?”:* say that many models choose a head_dim of 64 or 128.
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
# *Both are correct:* a pair of shortcuts passes too.
# *Each head holds all tokens:* the round trip never looks into a head.
#
# **3.**
# The loss falls.
# What does that show?
# **Neither that the heads are correct nor that the layer attends.**
# *The heads are correct:* in a task like copying,
# attention can make up for a fixed shuffle if the tokens carry their place.
# *The layer attends:* copying needs no other token.
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
