# %% opening [markdown]
# # 11 · Order: who tells attention where words stand?
#
# *The dog bit the man.* *The man bit the dog.* The two sentences consist of the same words, and yet you know at once
# which of them a newspaper would print. Does attention see the order of the words at all? And if it does not, how can
# we tell it what the order is?
#
# In this lesson you will shuffle a sentence and find out what attention makes of it, with and without a causal mask.
# Then you will meet three ways to tell a model the order: add a vector to each token, turn the queries and keys, or
# lower the scores of distant keys. At the end, small models that were trained on lists of 16 tokens read lists of up to
# 64, and you will see which of them still know the order, and how far back.
#
# **You need** lesson 3 (the causal mask), lesson 6 (queries and keys) and lesson 7 (heads). You should know the sine and cosine of an angle.
#
# **You will be able to**
# - say what attention knows about the order with and without a causal mask,
# - write rotary positions in a few lines and prove what makes them useful,
# - load a layer with rotary positions that was trained elsewhere and check that it works,
# - test whether a positional scheme still works on texts longer than those the model was trained on.
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
# We begin with the sentence from lesson 0, *The cat sat on the mat*, and its table of features. Each word attends to
# all six words, and nothing says where any of them is. The explorer computes the outputs twice, for the sentence as
# written and for a shuffled one. Shuffle the words first. Then switch the positions on: each place now has a random
# vector of its own, which is added to the word in that place.

# %% explore-order
OrderExplorer()

# %% bag-of-words [markdown]
# ### A bag of words
#
# Without positions, each output moves along with its word and stays the same to the last digit shown. An output is a
# sum over all keys. The number that the softmax divides by is such a sum, too, and a sum does not depend on the order
# of its terms. So attention treats a sentence as a bag of words, and *man bites dog* is the same bag as *dog bites
# man*.
#
# ## What a causal mask gives away
#
# Under a causal mask, each word sees only itself and the words before it. So the mask may reveal something about the
# order. Let us swap the first two words and compare the outputs.

# %% ask-mask
predict("11/mask-and-last-word")


# %% see-mask
# %%answer 11/mask-and-last-word
def attend(x):
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


words, _, x = load_table("the_cat_sat_on_the_mat.csv")
swapped = [1, 0, 2, 3, 4, 5]  # cat The sat on the mat
change = attend(x[swapped]) - attend(x)[swapped]  # new output minus old, word by word
change.norm(dim=-1).round(decimals=2)  # cat, The, sat, on, the, mat

# %% which-not-where [markdown]
# ### One layer, and two
#
# Only the outputs of the two swapped words change, because each of them now sees a different set of words. All the
# later words still see both of these words, only in a different order. So in one layer, the mask tells a word *which*
# words come before it, but not in what order they come.
#
# A second layer knows more. Its inputs are the outputs of the first layer, and two of them have changed. Its outputs
# change by this much:

# %% two-layers
twice = attend(attend(x[swapped])) - attend(attend(x))[swapped]
twice.norm(dim=-1).round(decimals=2)

# %% add-vectors [markdown]
# Now the outputs of all six words have changed. So several layers could work out the order. It is more direct to *give*
# them the positions.
#
# ## Add a vector for each position
#
# To each token, the original Transformer adds a vector that depends only on the token's position. *Learned* positions
# are a table with one row for each position, trained like all other parameters. *Sinusoidal* positions are computed. At
# position $m$, features $2i$ and $2i + 1$ form pair $i$ and hold the sine and the cosine of the angle $m\,\omega_i$. So
# each pair is like the hand of a clock, and $\omega_i = 10000^{-2i/E}$ is its speed: pair 0 turns by one radian per
# position, and each later pair turns more slowly.

# %% tables jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from attnlab.data import data_path, load_tensors

results = pd.read_csv(data_path("train_short_test_long.csv"))
stored = load_tensors("train_short_test_long.safetensors")
learned = stored["learned.positions"].float()

fig, axes = plt.subplots(1, 2, figsize=(7.5, 3.8), layout="constrained", sharey=True)
for ax, table, title in zip(
    axes,
    (sinusoidal_positions(64, 64), learned),
    ("sinusoidal: computed", "learned on 16 tokens"),
    strict=True,
):
    image = ax.imshow(table, cmap="RdBu", vmin=-2, vmax=2)
    ax.set(title=title, xlabel="feature", ylabel="position" if ax is axes[0] else "")
axes[1].axhline(15.5, color="black", linestyle="--")
axes[1].text(65, 40, "never trained", rotation=270, va="center")
fig.colorbar(image, ax=axes, ticks=[-2, 0, 2])
show_figure(fig, "11.1")

# %% cross-terms [markdown]
# In the table on the right, no gradient ever reached the rows below the dashed line, though the eye cannot tell them
# from the others.
#
# Adding a vector has another drawback. If positions $p_m$ and $p_n$ are added to the tokens $x$ and $y$, the score of
# one for the other is a sum of four terms,
#
# $$(x + p_m)\cdot(y + p_n) = x \cdot y + x \cdot p_n + p_m \cdot y + p_m \cdot p_n.$$
#
# (We left out $W_Q$, $W_K$ and the division.) The two terms in the middle mix what a token means with the place of the
# other one. In language, however, the distance between two words often matters more than their places. Can positions
# enter the scores so that only the distance counts?
#
# ## Turning instead of adding
#
# Two features define a point $(a, b)$ in the plane. Turning it by the angle $t$ around the origin gives $(a\cos t -
# b\sin t,\ a\sin t + b\cos t)$. **Rotary positions** turn every query and every key by an angle that grows with its
# position: by $m$ steps at position $m$. We start with two features, and let one step be half a radian.


# %% turn
def turn(point, angle):
    a, b = point
    t = torch.tensor(angle)
    return torch.stack([a * t.cos() - b * t.sin(), a * t.sin() + b * t.cos()])


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
from matplotlib.patches import Arc

fig, axes = plt.subplots(1, 2, figsize=(7.5, 3.6), layout="constrained")
for ax, (m, n) in zip(axes, ((3, 1), (10, 8)), strict=True):
    for point, place, colour, name in ((q, m, ORANGE, "query"), (k, n, BLUE, "key")):
        end = turn(point, 0.5 * place).tolist()
        ax.plot(*point, "o", color=colour, markerfacecolor="white")
        arrow = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", xy=end, xytext=(0, 0), arrowprops=arrow)
        ax.text(
            *(1.22 * torch.tensor(end)), name, color=colour, ha="center", va="center"
        )
    ends = [turn(point, 0.5 * place) for point, place in ((k, n), (q, m))]
    from_key, to_query = (torch.atan2(end[1], end[0]).rad2deg().item() for end in ends)
    ax.add_patch(Arc((0, 0), 1.2, 1.2, theta1=from_key, theta2=to_query, color="#555"))
    middle = torch.tensor(from_key + (to_query - from_key) % 360 / 2).deg2rad()
    angle = f"{(to_query - from_key) % 360:.0f}°"
    ax.text(middle.cos(), middle.sin(), angle, ha="center", va="center", color="#555")
    ax.set(xlim=(-3.1, 3.1), ylim=(-3.1, 3.1), aspect="equal")
    ax.set(title=f"query at {m}, key at {n}", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.axhline(0, color="lightgray", zorder=0)
    ax.axvline(0, color="lightgray", zorder=0)
show_figure(fig, "11.2")

# %% proof [markdown]
# ### The proof in three lines
#
# In both pictures the two arrows form the same angle, and turning a vector does not change its length. Let $\alpha$ be
# the angle from the key to the query before any turn, and $\theta$ the angle of one step. Then
#
# 1. a dot product is $|q|\,|k|$ times the cosine of the angle from the key to the query,
# 2. turning the query by $m\theta$ and the key by $n\theta$ leaves $|q|$ and $|k|$ as they are and changes the angle to
#    $\alpha + m\theta - n\theta$,
# 3. so the dot product is $|q|\,|k| \cos(\alpha + (m - n)\,\theta)$, which contains the positions only as the
#    *distance* $m - n$, query minus key.
#
# The values are not turned. Positions decide where a token looks, but not what it gets there.
#
# ### Many pairs of features
#
# A head has more than two features. They are put into pairs, and each pair turns at a speed of its own: pair $i$ turns
# by $\omega_i = \text{base}^{-2i/d}$ radians per step, where $d$ is head_dim. The dot product of a whole query and a
# whole key is the sum of the dot products of their pairs. By the proof, each of these depends only on the distance, so
# their sum does too. In the explorer, a query and a key each have four pairs. Drag the two positions. Then try another
# base.

# %% explore-rotary
RotaryExplorer()

# %% by-hand-text [markdown]
# The fast pairs tell near keys apart, and the slow ones change the score over long distances. The next function rotates
# all the queries, or all the keys, of a head at once. The first half of the features holds the first coordinates of the
# pairs, and the second half holds their second coordinates.


# %% by-hand
def rotate_by_hand(x, base=10_000.0):
    L, d = x.shape[-2:]  # d is head_dim
    speed = base ** (-torch.arange(0, d, 2) / d)  # (d / 2,): one for each pair
    angle = torch.arange(L)[:, None] * speed  # (L, d / 2)
    a, b = x.chunk(2, dim=-1)  # the two coordinates of each pair
    turned_a = a * angle.cos() - b * angle.sin()
    turned_b = a * angle.sin() + b * angle.cos()
    return torch.cat([turned_a, turned_b], dim=-1)


torch.manual_seed(0)
one_query, one_key = torch.randn(2, 16)
queries, keys = one_query.expand(6, 16), one_key.expand(6, 16)  # at six positions
rotate_by_hand(queries) @ rotate_by_hand(keys).T

# %% use-it [markdown]
# The table shows the raw scores of one query and one key, each at six positions. Along every diagonal the distance is
# the same, and so is the score.
#
# ## A layer from another program
#
# A model was trained with rotary positions, and its report says that it answers all questions correctly. It reads a
# list of 16 tokens. A token is either an entry, such as `cat 4`, which notes a number for an animal, or a question,
# such as `cat?`, which asks for the number noted *last* for this animal. The list ends with a question, and only this
# one is graded. There are four animals and the numbers 0 to 7, so guessing is correct in one of eight cases.

# %% task jupyter={"source_hidden": true}
from attnlab import MultiHeadAttention

ANIMALS = ["cat", "cow", "dog", "owl"]


def make_lists(count, length):
    """Return tokens (count, length, 16), answers and which lists to count."""
    animal, number = (torch.randint(n, (count, length)) for n in (4, 8))
    asks = torch.rand(count, length) < 0.5
    asks[:, -1] = True
    names, listed = F.one_hot(animal, 4), ~asks[..., None]
    parts = (names * listed, F.one_hot(number, 8) * listed, names * ~listed)
    meant = (animal == animal[:, -1:]) & ~asks  # entries for the animal in question
    last = (meant * torch.arange(1, length + 1)).argmax(dim=-1)
    answers = number[torch.arange(count), last]
    return torch.cat(parts, dim=-1).float(), answers, meant.sum(dim=-1) >= 2


def in_words(tokens):
    what, number, asked = (one.argmax(-1) for one in tokens.split([4, 8, 4], -1))
    entries = zip(tokens[:, :4].any(dim=-1), what, number, asked, strict=True)
    return [f"{ANIMALS[w]} {n}" if e else f"{ANIMALS[a]}?" for e, w, n, a in entries]


torch.manual_seed(5)
[tokens], [answer], _ = make_lists(1, 16)
print("   ".join(in_words(tokens)), "  →  ", answer.item())

# %% task-text [markdown]
# The model consists of a linear layer that reads the tokens, one `MultiHeadAttention` with 4 heads, and a linear layer
# that names the number. The folded cell loads the parameters, and the one below it puts our rotation between the
# projections and the scores. `share_correct` runs the model with a rotation and returns the share of correct answers to
# some 2,000 questions. We count only the questions about animals with at least two entries, because a single entry has
# no order.

# %% load jupyter={"source_hidden": true}
embed, layer, read = (
    torch.nn.Linear(16, 64),
    MultiHeadAttention(64, 4),
    torch.nn.Linear(64, 8),
)
for part, name in ((embed, "embed"), (layer, ""), (read, "read")):
    part.load_state_dict(
        {
            key: stored[f"rotary.{name}.{key}".replace("..", ".")]
            for key in part.state_dict()
        }
    )


@torch.no_grad()
def share_correct(rotation, length=16):
    torch.manual_seed(0)
    tokens, answers, several = make_lists(3500, length)
    output = rotary_attention(layer, embed(tokens), rotation)[:, -1]
    correct = (read(output).argmax(dim=-1) == answers)[several][:2000]
    return correct.float().mean().round(decimals=2)


# %% rotary-layer
def rotary_attention(layer, x, rotation):
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    query, key, value = (split_heads(project(x), 4) for project in projections)
    query, key = rotation(query), rotation(key)  # (N, H, L, head_dim)
    heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    return layer.out_proj(merge_heads(heads))


share_correct(rotate_by_hand)

# %% which-test-text [markdown]
# That is far below the reported accuracy, yet no error was raised, and the parameters are correct. Which of the
# following tests would show what is wrong?

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
    distance = torch.allclose(table[1:, 1:], table[:-1, :-1], atol=1e-4)
    shape = turned.shape == some.shape
    print(
        f"{rotation.__name__:15} shape {shape}  length {lengths}  distance {distance}"
    )
print("same numbers:", torch.allclose(rotate_by_hand(some), rotate(some)))
print("correct with rotate:", share_correct(rotate).item())

# %% layouts [markdown]
# ### What is different
#
# All three tests pass for our function and for attnlab's `rotate`. But the two functions disagree, and with `rotate`
# the report is true. Both turn their pairs by the same angles, but they *pair different features*. Ours joins feature
# $i$ of the first half with feature $i$ of the second half. `rotate` joins neighbours, features $2i$ and $2i + 1$. This
# model was trained with neighbouring pairs. Both layouts are common and correct, but a model's queries and keys only
# make sense in the layout with which it was trained.
#
# In exercise 4 you will reorder the parameters of the layer so that our function suits it.
#
# ## A penalty for distance
#
# The third way, **ALiBi** (attention with linear biases), leaves queries and keys alone and lowers each score in
# proportion to the distance: we add $-s\,(m - n)$ to the score of a query at $m$ for a key at $n$. Every head has a
# fixed slope $s$ of its own; with 8 heads the slopes are $1/2, 1/4, \dots, 1/256$. If all scores are equal without the
# bias, the last of ten words has these weights in the heads with slopes $1/2$, $1/16$ and $1/256$:

# %% slopes
bias = alibi_bias(8, 10)  # (H, L, L)
bias[[0, 3, 7], -1].softmax(dim=-1)

# %% slopes-text [markdown]
# The first head sees little more than the last few words, and the last of the three spreads its weight almost evenly.
#
# ## Train short, test long
#
# Which of these methods still works when a text is longer than all those in training? We train the model described
# above, with one layer of attention, in five versions: without positions, with learned, sinusoidal or rotary positions,
# and with ALiBi (slopes $1/4$, $1/16$, $1/64$ and $1/256$). We train each version four times, from different
# initialisations, for 1,000 steps on lists of 16 tokens, where every question counts. Then it answers the last question
# of new lists of up to 64 tokens.

# %% ask-long
predict("11/which-at-64")

# %% see-long jupyter={"source_hidden": true}
# %%answer 11/which-at-64
one_layer = results.query("layers == 1 and heads == 4 and scheme != 'slow rotary'")
far = pd.read_csv(data_path("how_far_back.csv"))
far_in_one = far.query("layers == 1 and heads == 4")
latest = one_layer.query("task == 'latest'")


def plot_lengths(results, title):
    _, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    look = {"style": "scheme", "markers": True, "dashes": True, "errorbar": ("pi", 100)}
    sns.lineplot(results, x="tokens", y="accuracy", hue="scheme", ax=ax, **look)
    ax.axhline(1 / 8, color="gray", linewidth=1)
    ax.text(64, 1 / 8 - 0.06, "guessing", ha="right", color="dimgray")
    ax.axvline(16, color="gray", linewidth=1, linestyle=":")
    ax.set(title=title, xlabel="tokens in the list (trained on 16)", ylabel="correct")
    ax.set(ylim=(0, 1.04), xticks=results["tokens"].unique())
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return ax


show_figure(plot_lengths(latest, "Which entry is the latest?"), "11.3")

# %% how-far-back
# %%answer 11/which-at-64
shown = far_in_one.query("scheme in ['rotary', 'ALiBi']")  # reads the last 64 or 16
shown.pivot_table("accuracy", ["scheme", "reads"], "distance", sort=False).round(2)

# %% after-long [markdown]
# ### Reading the figure and the table
#
# At 16 tokens, the layer without positions is correct in about half of the cases: it finds the entries for the animal,
# but it cannot tell which of them is the latest. Beyond 16 tokens, the model with learned positions fails at once,
# because the rows for later positions were never trained. The sinusoidal ones fail almost as fast, although they can be
# computed for any position.
#
# The rotary layer stays above 90% on lists of up to 32 tokens, and ALiBi on all of them.
#
# But most questions ask for a near entry. The table sorts those on lists of 64 by how far back the wanted entry is. In
# 87% of them it is at most 15 tokens back, as in training, and there ALiBi is correct in 98% of the cases. When the
# entry is 24 to 31 tokens back, ALiBi is correct in only 15%. In the rows with 16, a baseline, the same layers read
# only the last 16 tokens of each list. Then the rotary layer finds nearly every entry that is there to be found; on the
# whole lists it found 61% of these. So far keys, at distances never seen in training, took weight from the near ones.
# ALiBi's bias keeps them out, and this is mainly why it does well.
#
# ## Another task
#
# In our second task, every token is an entry, and at each token the model learns to name the number that appeared
# *three tokens back*. We grade the answer at the last token.

# %% ask-back
predict("11/three-back")

# %% see-back
# %%answer 11/three-back
back = one_layer.query("task == 'three back'")
show_figure(plot_lengths(back, "Which number was three tokens back?"), "11.4")

# %% after-back [markdown]
# ### Reading the second figure
#
# ALiBi's preference for near keys does not suit this task. A rotary layer can solve it, and we can say how. Let $W_Q$
# and $W_K$ be zero, so that each projection (an `nn.Linear`) returns only its bias, whatever the token means. Then all
# keys are the same vector. Let the query be this vector, turned *back* by three steps. After the rotation, a key at $n$
# is turned by $n$ steps and a query at $m$ by $m - 3$. Where $n = m - 3$, the two point the same way, so the score is
# largest there.
#
# The trained rotary layers do solve the task, perfectly in all four runs on lists of up to 40 tokens. Beyond that they
# disagree: at 48 tokens, one is still correct in 96% of the cases and another in only 13%. The reason may be that the
# training never had to keep scores low at distances above 15.
#
# So the best of these schemes depends on the task.
#
# ### What about the mask alone?
#
# Finally, here are three models with *two* layers, again trained on lists of 16 tokens. They also have residual
# connections (lesson 10) and LayerNorm (lesson 12), which rescales the vector of each token. Neither looks at other
# tokens, so neither can tell the order.

# %% mask-alone
two = results.query("layers == 2")
two.pivot_table("accuracy", ["task", "scheme"], "tokens", sort=False).round(2)

# %% the-answer [markdown]
# On lists of 64, the two-layer model without positions finds the latest entry in 78% of the cases, and the rotary one
# in only 58%. ALiBi is better than either. But if the entry is at least 32 tokens back, ALiBi finds it in only 35% of
# the cases, and the model without positions in 95%. In the other task, the two-layer models without positions name the
# number in only a third of the cases, even on lists of 16, where the rotary models name every number.
#
# So who tells attention where words stand? Attention by itself cannot know. A causal mask tells it a little, and
# several layers under such a mask can work out more. In most models we tell it ourselves, with vectors that are added,
# with a rotation of queries and keys, or with a penalty for distance. None of them promises anything about longer texts
# than those in training.
#
# Press et al. report such experiments with language models, where ALiBi does best, and Kazemnejad et al. with reasoning
# and arithmetic, where the models without positions do best. What carries over is the method: train short, test long,
# with several tasks and runs, and look at long distances separately.

# %% further-counting [markdown]
# ## Further: how a mask can count
#
# The mask can even tell a word its own position. Suppose that all scores are equal, that the first token (often a
# special one, so a layer can recognise it) has the value 1, and that every other token has the value 0. Then a word
# that sees $n$ tokens gets the average $1/n$:

# %% counting
same, first = torch.zeros(6, 2), torch.eye(6)[:, :1]  # equal scores; 1, 0, 0, ...
F.scaled_dot_product_attention(same, same, first, is_causal=True)[:, 0]

# %% further-heads [markdown]
# ## Further: a larger base
#
# Many models for long texts use a larger base. “Slow rotary” positions have a base of 1,000,000 instead of 10,000, so
# all pairs but the first turn more slowly. With 4 heads of 16 features, their accuracy declines earlier than that of
# the usual ones, though in the second task it ends higher. With 8 heads of 8 features, they are at least as good in
# both tasks and at every length. (In the first task, they owe this to near entries, as ALiBi does: when the entry is 24
# or more tokens back, they do little better than guessing.)

# %% eight-heads
bases = results.query("layers == 1 and scheme in ['rotary', 'slow rotary']")
rows = ["task", "heads", "scheme"]
bases.pivot_table("accuracy", rows, "tokens", sort=False).round(2)

# %% further-layouts [markdown]
# ## Further: from one layout to the other
#
# The first assert says that attnlab's `halves` layout is our function. The second says that the result is the same
# whether we reorder first and then rotate in halves, or rotate in neighbouring pairs first and then reorder.

# %% both-layouts
assert torch.allclose(rotate(some, layout="halves"), rotate_by_hand(some), atol=1e-5)
order = [*range(0, 16, 2), *range(1, 16, 2)]  # first coordinates, then second ones
reordered = rotate(some[:, order], layout="halves")
assert torch.allclose(reordered, rotate(some)[:, order], atol=1e-5)

# %% remember [markdown]
# ## What to remember
#
# - Without positions and without a mask, attention treats a text as a bag of words: shuffle the words, and the outputs
#   move with them.
# - Under a causal mask, one layer knows which words come before a word, but not in what order. Several layers can work
#   out more.
# - Learned and sinusoidal positions are added to the tokens. Rotary positions turn queries and keys, pair by pair, so
#   that a score depends only on the distance, query minus key. ALiBi lowers each score in proportion to the distance.
# - The two layouts of the rotation, neighbouring pairs and halves, give results of the same shape and pass the same
#   tests. Parameters only work properly in the layout with which they were trained.
# - A model that works at the length it was trained on need not work on longer texts. Test it there and on your own
#   task, and look separately at the questions whose answer lies far back: a high average may only mean that they are
#   rare.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the empty function below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (4 minutes)
#
# A head has 8 features, in pairs of neighbours, and the base is 10,000. By how many radians is pair 1 turned at position
# 40? (Pairs are counted from 0.)
#
# <details><summary>Hint</summary>
#
# The speed of pair $i$ is $\text{base}^{-2i/d}$ radians per step, where $d$ is the number of features of the head. What is $10000^{-1/4}$?
# </details>

# %%
from attnlab.exercises import check_angle_of_pair, check_mended_rotary
from attnlab.exercises import check_rotate_at, check_to_halves


# %% tags=["exercise"]
def angle_of_pair_1():
    """Return the angle in radians."""


# %%
check_angle_of_pair(angle_of_pair_1)


# %% tags=["solution"] jupyter={"source_hidden": true}
def angle_of_pair_1_solution():
    return 40 * 10_000 ** (-2 / 8)  # 0.1 radians for each step


check_angle_of_pair(angle_of_pair_1_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (10 minutes)
#
# A model that writes word by word has to turn a single new query, at position 57, say. `rotate_by_hand` always begins
# at position 0. Write a version that takes the positions as an argument and pairs *neighbours*, features $2i$ and $2i + 1$.
#
# <details><summary>Hint</summary>
#
# <code>x[..., 0::2]</code> holds the first coordinates of the pairs and <code>x[..., 1::2]</code> the second coordinates. To
# put the results back in their places, <code>torch.stack</code> them along a new last axis and flatten the last two
# axes.
# </details>


# %% tags=["exercise"]
def rotate_at(x, positions, base=10_000.0):
    """(..., L, d) and (L,) -> (..., L, d), features 2i and 2i + 1 turned as a pair."""


# %%
check_rotate_at(rotate_at)


# %% tags=["solution"] jupyter={"source_hidden": true}
def rotate_at_solution(x, positions, base=10_000.0):
    d = x.shape[-1]
    angle = positions[:, None] * base ** (-torch.arange(0, d, 2) / d)  # (L, d / 2)
    a, b = x[..., 0::2], x[..., 1::2]
    turned_a = a * angle.cos() - b * angle.sin()
    turned_b = a * angle.sin() + b * angle.cos()
    return torch.stack([turned_a, turned_b], dim=-1).flatten(-2)


check_rotate_at(rotate_at_solution)

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `broken` takes a query, a key and a value for several heads, (N, H, L, head_dim) each, and should return causal attention
# with rotary positions. It has three bugs. Write `mended`, a version without them.
#
# <details><summary>Hint</summary>
#
# Which of the three should be turned? Which axis holds the tokens? What must query and key have in common?
# </details>


# %% tags=["exercise"]
def broken(query, key, value):
    query = rotate(query.transpose(1, 2)).transpose(1, 2)
    key = rotate(key, layout="halves")
    value = rotate(value)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def mended(query, key, value):
    """(N, H, L, head_dim), three times -> (N, H, L, head_dim), pairs of neighbours."""


# %%
check_mended_rotary(mended)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_solution(query, key, value):
    query, key = rotate(query), rotate(key)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


check_mended_rotary(mended_solution)

# %% exercise-4 [markdown]
# ### 4 · Implement ★★★ (12 minutes)
#
# A layer was trained with pairs of neighbours, and your program rotates in halves. Reorder the rows of a projection,
# `weight` of shape (E, E) as in `nn.Linear`, so that the layer works with your program. Do so head by head: within each
# head, the first coordinates of its pairs come first, in their original order, and then the second coordinates. (The
# same function works for the queries and for the keys. If the projections have biases, as ours have, these must be
# reordered in the same way.)
#
# <details><summary>Hint</summary>
#
# Cut the rows into heads with <code>weight.unflatten(0, (num_heads, -1))</code>. Then rows 0, 2, 4, ... of each head
# come first, and rows 1, 3, 5, ... follow.
# </details>


# %% tags=["exercise"]
def to_halves(weight, num_heads):
    """(E, E) -> (E, E), its rows in another order."""


# %%
check_to_halves(to_halves)


# %% tags=["solution"] jupyter={"source_hidden": true}
def to_halves_solution(weight, num_heads):
    heads = weight.unflatten(0, (num_heads, -1))  # (H, head_dim, E)
    return torch.cat([heads[:, 0::2], heads[:, 1::2]], dim=1).flatten(0, 1)


check_to_halves(to_halves_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: "Our model has rotary positions, so its scores depend only on the distance. Therefore it works for
# texts of any length." Answer in two sentences.
#
# <details><summary>An answer</summary>
#
# The scores depend only on the distance, but a longer text has distances that never occurred in training, and nothing
# ensures that the model does the right thing there. Test it on long texts and on your own
# task, as in Figures 11.3 and 11.4.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# Torch has a module for learned positions, `nn.Embedding(max_len, E)`, and none for the others. For rotary positions,
# turn the queries and keys and pass them on to `F.scaled_dot_product_attention`. For ALiBi, pass the bias as
# `attn_mask`, with a causal mask added to it as zeros and minus infinities, because torch's documentation forbids
# `is_causal=True` together with a mask.
#
# The code for Llama in Hugging Face's *transformers* rotates in halves. The script that converts Meta's parameters
# therefore reorders the rows of $W_Q$ and $W_K$, as in exercise 4. `rotate(x, layout="halves")` performs the same
# rotation as the Llama code.

# %% torch-bias
from attnlab import causal_mask, to_additive_mask

some_q, some_k, some_v = torch.randn(3, 1, 8, 10, 4)  # (N, H, L, head_dim) each
mask = to_additive_mask(causal_mask(10)) + alibi_bias(8, 10)
F.scaled_dot_product_attention(some_q, some_k, some_v, attn_mask=mask).shape

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.5: sinusoidal and
#   learned positions.
# - Su et al., [RoFormer: Enhanced Transformer with Rotary Position Embedding](https://arxiv.org/abs/2104.09864), 2021.
# - Press, Smith and Lewis, [Train Short, Test Long](https://arxiv.org/abs/2108.12409), 2022: ALiBi, and the title of
#   our experiment. Their models are language models of a realistic size.
# - Haviv et al., [Transformer Language Models without Positional Encodings Still Learn Positional
#   Information](https://arxiv.org/abs/2203.16634), 2022, and Kazemnejad et al., [The Impact of Positional Encoding on
#   Length Generalization in Transformers](https://arxiv.org/abs/2305.19466), 2023: what a causal mask alone can do, in models with several layers.
# - Hugging Face, [transformers](https://github.com/huggingface/transformers), `modeling_llama.py` (`rotate_half`) and
#   `convert_llama_weights_to_hf.py` (`permute`): the two layouts.
# - The small models were trained by `data/make_train_short_test_long.py`: 64 features, 4 or 8 heads, 1,000 steps of
#   Adam.

# %% next [markdown]
# ## Next
#
# [12 · Two layers that look back](12_two_layers_that_look_back.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.** Shuffle, with the explorer: 8. The mask: 7. Adding vectors: 5. Turning, the proof and the explorer: 12.
# The layer from another program: 8. Penalties: 3. Train short, test long, and the answer: 7.
#
# **Where a class stalls.** *"But it does know the order, it reads from left to right":* ask which of the three lines of
# code in lesson 0 would change if the rows were shuffled. *Radians:* one radian is a little less than 60 degrees; have
# two students play the query and the key and turn step by step, and let the class measure the angle between them. *"Our
# function is wrong":* it is not, and that is the point; ask for a test that both functions would pass even though they
# give different numbers. *"Which should I use?":* most of today's large language models turn the queries and keys, and
# many of them change the base when they are trained on longer texts. ALiBi's accuracy on our long lists shows a window,
# not a long memory.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** The words of a sentence are shuffled; no positions, no mask. What happens to the output of "cat"? **Its numbers
# stay the same; it moves along with the word.** *It changes, because other words are near it:* nothing in a score knows
# what is near. *It is lost:* every row is still there, in another place.
#
# **2.** One layer, a causal mask, no positions; words 0 and 1 are swapped. Whose outputs change? **Those of the two
# words.** *All of them:* the later ones see the same set of words. *None:* the word that is now second sees one more
# word.
#
# **3.** What do rotary positions leave unchanged? **The length of each query and key.** *The score of every pair:* it
# depends on the distance. *The direction of each query and key:* the rotation changes the direction; only the length
# stays the same.
#
# **4.** Two rotations pass the test "the score depends on the distance only". Are they the same? **Not
# necessarily.** *Yes:* layouts, speeds and even directions may differ, and the test still passes. *No, one must have a bug:* there may be no bug in either.
#
# **5.** A model with learned positions was trained on texts of 512 tokens and is given one of 600. What happens?
# **There is no trained row for positions 512 and up.** *It slows down:* the cost grows, but that is not the problem.
# *It continues from there:* a table has no formula to go on with.
# </details>
