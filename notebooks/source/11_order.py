# %% opening [markdown]
# # 11 · Order: who tells attention where words stand?
#
# *The dog bit the man.* *The man bit the dog.* The two sentences consist of the same words, and yet you know at once
# which of them a newspaper would print. The order of the words says who bit whom. Lesson 0 hinted that attention cannot
# see this order by itself. So who tells it where each word stands?
#
# In this lesson you will shuffle a sentence and see what attention makes of it, and find out how much a causal mask
# gives away. Then you will meet three ways to tell a model the order: add a vector to each token, turn the queries and
# keys, or lower the scores of distant keys. At the end, small models that were trained on 16 tokens read texts of up to
# 64, and you will see which of them still know the order.
#
# **You need** lesson 3 (the causal mask), lesson 6 (queries and keys) and lesson 7 (heads, and layouts of the same
# shape). You should know the sine and cosine of an angle.
#
# **You will be able to**
# - say what attention knows about the order without and with a causal mask,
# - write rotary positions in a few lines and prove that the scores depend on the distance only,
# - notice that two programs use different layouts of the same rotation,
# - test whether a way to give positions works for texts longer than those in training.
#
# **Time:** 50 minutes in class, 85 on your own.

# %% setup
import torch
import torch.nn.functional as F
from attnlab import alibi_bias, load_table, merge_heads, rotate, sinusoidal_positions
from attnlab import split_heads
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import OrderExplorer, RotaryExplorer

lesson_setup()

# %% shuffle [markdown]
# ## Shuffle the words
#
# We begin with the sentence of lesson 0, *The cat sat on the mat*, and its table of features. Each word attends to all
# six words, and nothing says where any of them stands. The explorer computes the outputs twice, for the sentence as
# written and for a shuffled one. Shuffle the words first, then switch the positions on. They are random vectors here,
# one for each place, and they are added to the words.

# %% explore-order
OrderExplorer()

# %% bag-of-words [markdown]
# Without positions, each output moves along with its word and stays the same to the last digit shown. The reason is
# short. An output is a sum over all keys: the weight of each key times its value, where the weight comes from a score
# divided by another sum. A sum does not depend on the order of its terms. So attention treats a sentence as a bag of
# words, and *man bites dog* is the same bag as *dog bites man*.
#
# ## What a causal mask gives away
#
# In a language model each word looks only at itself and at the words before it. This mask depends on the order, so it
# may tell the words something about it. Let us swap the first two words and look at the outputs under a causal mask.

# %% ask-mask
predict("11/mask-and-last-word")

# %% see-mask
# %%answer 11/mask-and-last-word
words, _, x = load_table("the_cat_sat_on_the_mat.csv")
swapped = [1, 0, 2, 3, 4, 5]  # cat The sat on the mat


def attend(x):
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


moved = (attend(x[swapped]) - attend(x)[swapped]).norm(dim=-1)
moved.round(decimals=2)  # cat, The, sat, on, the, mat

# %% which-not-where [markdown]
# Only the outputs of the two swapped words change, because each of them now sees other words than before. All the later
# words see the same two words as before, in whatever order. So in one layer, the mask tells a word *which* words come
# before it, but not in what order they come.
#
# A second layer knows more. Its inputs are the outputs of the first layer, and some of them have changed:

# %% two-layers
twice = attend(attend(x[swapped])) - attend(attend(x))[swapped]
twice.norm(dim=-1).round(decimals=2)

# %% count-words [markdown]
# Now the outputs of all six words have moved. The mask can even tell a word its own position. Suppose that all scores
# are equal and that the first token has the value 1 and every other token the value 0. Then a word that sees $n$ tokens
# gets the average $1/n$:

# %% counting
same, first = torch.zeros(6, 2), torch.eye(6)[:, :1]  # equal scores; 1, 0, 0, ...
F.scaled_dot_product_attention(same, same, first, is_causal=True)[:, 0]

# %% add-vectors [markdown]
# So several layers under a causal mask could work out the order for themselves. We will see at the end how far they
# get. It is more direct to *tell* them.
#
# ## Add a vector for each position
#
# The original Transformer adds a vector to each token that depends on the position alone, as in the explorer. There are
# two common choices. *Learned* positions are parameters: a table with one row for each position, trained like all other
# parameters. *Sinusoidal* positions are computed: features $2i$ and $2i + 1$ of position $m$ are the sine and cosine of
# $m\,\omega_i$, where $\omega_i = 10000^{-2i/E}$. The first two features oscillate quickly and the last two very
# slowly, like the hands of a clock.

# %% tables jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
from attnlab.data import load_tensors

stored = load_tensors("train_short_test_long.safetensors")
learned = stored["learned.positions"].float()

fig, axes = plt.subplots(1, 2, figsize=(7.5, 3.8), layout="constrained", sharey=True)
for ax, table, title in zip(
    axes,
    (sinusoidal_positions(64, 64), learned),
    ("sinusoidal: computed", "learned on 16 tokens"),
    strict=True,
):
    image = ax.imshow(table, cmap="RdBu", vmin=-3, vmax=3)
    ax.set(title=title, xlabel="feature", ylabel="position" if ax is axes[0] else "")
axes[1].axhline(15.5, color="black", linestyle="--")
axes[1].text(63, 18.5, "never trained", ha="right", backgroundcolor="white")
fig.colorbar(image, ax=axes, ticks=[-3, 0, 3])
show_figure(fig, "11.1")

# %% cross-terms [markdown]
# The table on the right comes from a small model that was trained on texts of 16 tokens. No gradient ever reached the
# rows below the dashed line, so they are still the random numbers with which the model began.
#
# Adding has a second drawback. What matters in language is usually the distance of two words: an adjective comes
# directly before its noun, in the second sentence of a text as in the tenth. But if positions $p_m$ and $p_n$ are added to the
# tokens $x$ and $y$, the score of one for the other is a sum of four terms,
#
# $$(x + p_m)\cdot(y + p_n) = x \cdot y + x \cdot p_n + p_m \cdot y + p_m \cdot p_n.$$
#
# (We leave out the matrices and the division.) With sinusoidal positions, the last term depends on the distance alone.
# But the two terms in the middle mix what a token means with the place where the other one happens to be. Could the
# scores depend on the meaning and the distance, and on nothing else?
#
# ## Turn instead of add
#
# Two features are a point in the plane, and we can turn it around the origin. **Rotary positions** turn every query and every key by an angle that
# grows with its position: at position $m$ by $m$ steps. We start with a query and a key of two features and turn them by
# 0.5 radians for each step.


# %% turn
def turn(point, angle):
    a, b, angle = *point, torch.tensor(angle)
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos])


q, k = torch.tensor([2.0, 1.0]), torch.tensor([1.5, -1.0])
turn(q, 0.5 * 3) @ turn(k, 0.5 * 1)  # query at position 3, key at position 1

# %% ask-same-score
predict("11/same-score")

# %% see-same-score
# %%answer 11/same-score
for m, n in ((3, 1), (1, 3), (6, 2), (10, 8)):
    print(f"query at {m:2}, key at {n}:", turn(q, 0.5 * m) @ turn(k, 0.5 * n))

# %% planes jupyter={"source_hidden": true}
# %%answer 11/same-score
from attnlab.palette import BLUE, ORANGE

fig, axes = plt.subplots(1, 2, figsize=(7.5, 3.6), layout="constrained")
for ax, (m, n) in zip(axes, ((3, 1), (10, 8)), strict=True):
    for point, place, colour, name in ((q, m, ORANGE, "query"), (k, n, BLUE, "key")):
        end = turn(point, 0.5 * place).tolist()
        ax.plot(*point, "o", color=colour, markerfacecolor="white")
        arrow = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", xy=end, xytext=(0, 0), arrowprops=arrow)
        ax.text(*(1.22 * torch.tensor(end)), name, color=colour, ha="center", va="center")
    ax.set(xlim=(-3.1, 3.1), ylim=(-3.1, 3.1), aspect="equal")
    ax.set(title=f"query at {m}, key at {n}", xticks=[], yticks=[])
show_figure(fig, "11.2")

# %% proof [markdown]
# In both pictures the two arrows form the same angle, and a turn changes no length. That is already the proof. Let
# $\alpha$ be the angle from the key to the query before any turn, and $\theta$ the angle of one step. Then
#
# 1. a dot product is $|q|\,|k|$ times the cosine of the angle from the key to the query,
# 2. turning the query by $m\theta$ and the key by $n\theta$ leaves $|q|$ and $|k|$ as they are and changes the angle to
#    $\alpha + m\theta - n\theta$,
# 3. so the dot product is $|q|\,|k| \cos(\alpha + (m - n)\,\theta)$, which contains the positions only as $m - n$.
#
# The values are not turned. Positions decide where a token looks, but not what it gets there.
#
# ### Many pairs of features
#
# A head has more than two features. They are put into pairs, and each pair turns at a speed of its own: pair $i$ by
# $\omega_i = \text{base}^{-2i/E}$ radians for each step, the same numbers as in the sinusoidal positions. In the
# explorer, a query and a key have four pairs. Drag the two positions. Then try another base.

# %% explore-rotary
RotaryExplorer()

# %% by-hand-text [markdown]
# The fast pairs tell near keys apart, and the slow ones change the score over long distances. Here is the rotation of all
# queries or keys of a head, written with the whole table at once. The first half of the features are the first
# coordinates of the pairs, and the second half are their second coordinates.


# %% by-hand
def rotate_by_hand(x, base=10_000.0):
    L, E = x.shape[-2:]
    speed = base ** (-torch.arange(0, E, 2) / E)  # (E / 2,): one for each pair
    angle = torch.arange(L)[:, None] * speed  # (L, E / 2)
    a, b = x.chunk(2, dim=-1)  # the two coordinates of each pair
    turned_a = a * angle.cos() - b * angle.sin()
    turned_b = a * angle.sin() + b * angle.cos()
    return torch.cat([turned_a, turned_b], dim=-1)


torch.manual_seed(0)
one_query, one_key = torch.randn(2, 16)
queries, keys = one_query.expand(6, 16), one_key.expand(6, 16)  # at six positions
rotate_by_hand(queries) @ rotate_by_hand(keys).T

# %% use-it [markdown]
# The same query and the same key, at six positions each: along every diagonal the distance is the same, and so is the
# raw score. Our function does what it should.
#
# ## A layer that somebody else has trained
#
# Now we use it. A model was trained with rotary positions and stored, and its report says that it answers all questions
# correctly. It reads lists such as this one:

# %% task jupyter={"source_hidden": true}
from attnlab import MultiHeadAttention

ANIMALS = ["cat", "cow", "dog", "owl"]


def make_lists(count, length):
    """Return tokens (count, length, 16), answers at the end, and which lists to count."""
    animal, number = torch.randint(4, (count, length)), torch.randint(8, (count, length))
    asks = torch.rand(count, length) < 0.5
    asks[:, -1] = True
    names, listed = F.one_hot(animal, 4), ~asks[..., None]
    parts = (names * listed, F.one_hot(number, 8) * listed, names * ~listed)
    meant = (animal == animal[:, -1:]) & ~asks  # entries of the animal that is asked for
    last = (meant * torch.arange(1, length + 1)).argmax(dim=-1, keepdim=True)
    several = meant.sum(dim=-1) >= 2
    return torch.cat(parts, dim=-1).float(), number.gather(1, last)[:, 0], several


def in_words(tokens):
    what, which, asked = (part.argmax(dim=-1) for part in tokens.split([4, 8, 4], dim=-1))
    return [
        f"{ANIMALS[what[i]]} {which[i]}" if token[:4].any() else f"{ANIMALS[asked[i]]}?"
        for i, token in enumerate(tokens)
    ]


torch.manual_seed(5)
[tokens], [answer], _ = make_lists(1, 16)
print("   ".join(in_words(tokens)), "  →  ", answer.item())

# %% task-text [markdown]
# A token is an entry or a question. There may be several entries for an animal, and the *latest* one counts, so the
# answer depends on the order. The model consists of a linear layer that reads the tokens, one `MultiHeadAttention` with
# 4 heads, and a linear layer that names the number. We put our rotation between the projections and the scores. The
# folded cell loads the parameters and counts the correct answers to 2,000 questions about animals with at least two
# entries.


# %% rotary-layer
def rotary_attention(layer, x, rotation):
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    query, key, value = (split_heads(project(x), 4) for project in projections)
    query, key = rotation(query), rotation(key)  # (N, H, L, head_dim)
    heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    return layer.out_proj(merge_heads(heads))


# %% load jupyter={"source_hidden": true}
embed, layer, read = torch.nn.Linear(16, 64), MultiHeadAttention(64, 4), torch.nn.Linear(64, 8)
for part, name in ((embed, "embed"), (layer, ""), (read, "read")):
    part.load_state_dict(
        {key: stored[f"rotary.{name}.{key}".replace("..", ".")] for key in part.state_dict()}
    )


@torch.no_grad()
def share_correct(rotation, length=16):
    torch.manual_seed(0)
    tokens, answers, several = make_lists(3500, length)
    output = rotary_attention(layer, embed(tokens), rotation)[:, -1]
    return (read(output).argmax(dim=-1) == answers)[several][:2000].float().mean()


# %% bitten
share_correct(rotate_by_hand)

# %% which-test-text [markdown]
# That is far from the report, and yet no error was raised. Something is wrong, and it is not in the parameters. Which
# of these tests would find it in our function?

# %% ask-test
predict("11/which-test")

# %% see-test
# %%answer 11/which-test
torch.manual_seed(1)
some = torch.randn(7, 16)  # (L, head_dim)
for rotation in (rotate_by_hand, rotate):
    turned = rotation(some)
    lengths = torch.allclose(turned.norm(dim=-1), some.norm(dim=-1))
    table = rotation(queries) @ rotation(keys).T
    print(turned.shape == some.shape, lengths, torch.allclose(table[1:, 1:], table[:-1, :-1], atol=1e-4))
print(torch.allclose(rotate_by_hand(some), rotate(some)), share_correct(rotate))

# %% layouts [markdown]
# All three tests pass for our function and for attnlab's `rotate`. But the two functions disagree, and with `rotate`
# the model is as good as its report says. They turn by the same angles and *pair different features*. Ours joins
# feature $i$ of the first half with feature $i$ of the second half. `rotate` joins neighbours, features $2i$ and
# $2i + 1$, as the original paper does, and this model was trained with it. Both layouts are in common use, and both are
# correct. But a model's queries and keys only make sense in the layout with which it was trained.

# %% both-layouts
assert torch.allclose(rotate(some, layout="halves"), rotate_by_hand(some), atol=1e-5)
firsts_then_seconds = [*range(0, 16, 2), *range(1, 16, 2)]
reordered = rotate(some[:, firsts_then_seconds], layout="halves")
assert torch.allclose(reordered, rotate(some)[:, firsts_then_seconds], atol=1e-5)

# %% reordered-text [markdown]
# The last two lines show the way out. If we reorder the features so that the first coordinates come first, a rotation
# in halves does what a rotation in pairs did before. Queries and keys are reordered alike, so no score changes. Exercise 4
# does this once and for all to the matrices of a layer.
#
# ## A slope on the distance
#
# The third way is the simplest. **ALiBi** (attention with linear biases) leaves queries and keys alone and lowers each
# score in proportion to the distance: it adds $-s\,(m - n)$ to the score of a query at $m$ for a key at $n$. Every head has a fixed
# slope $s$ of its own. With 8 heads the slopes are $1/2, 1/4, \dots, 1/256$. Here are the weights of the last of ten words in three heads if
# all scores are equal without the bias.

# %% slopes
bias = alibi_bias(8, 10)  # (H, L, L)
bias[[0, 3, 7], -1].softmax(dim=-1)

# %% slopes-text [markdown]
# The first head sees little more than the last few words. The last head has nearly uniform weights and can look far back. The order is
# built in and needs no training, but it comes with an opinion: other things being equal, the nearer key gets more weight.
#
# ## Train short, test long
#
# Which of these ways still works if a text is longer than all those in training? We train the model from above, with
# the same embedding and the same kind of layer, once without positions and in five ways with them: learned, sinusoidal, rotary with the usual
# base of 10,000, rotary with a base of 1,000,000, and ALiBi. All of them are trained on lists of 16 tokens with 1,000 steps of Adam, four
# times each with different random numbers. Then they answer questions about lists of up to 64 tokens. (A script did this beforehand. It is
# named under Sources.)

# %% ask-long
predict("11/which-at-64")

# %% see-long
# %%answer 11/which-at-64
import pandas as pd
import seaborn as sns
from attnlab import data_path

results = pd.read_csv(data_path("train_short_test_long.csv"))
one_layer = results.query("layers == 1")
latest = one_layer.query("task == 'latest'")
latest.pivot_table("accuracy", "scheme", "tokens", sort=False).round(2)
