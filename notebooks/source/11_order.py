# %% opening [markdown] above="Does attention see the"
# # 11 · Order: who tells attention where words stand?
#
# *The dog bit the man.*
# *The man bit the dog.*
# The two sentences consist of the same words, and yet they describe different events.
# Does attention see the order of the words at all?
# And if it does not, how can we tell it what the order is?
#
# **You need:** [lesson 4](04_reading_heatmaps_honestly.ipynb) for baselines,
# and [lesson 7](07_multi_head_reshaping_without_scrambling.ipynb) for heads.
# You should know what the sine and cosine of an angle are.
#
# **You will be able to:** say what attention knows about the order with and without a causal mask,
# write rotary positions in a few lines and prove what makes them useful,
# check a layer that was trained elsewhere,
# and test whether a model still works on texts longer than those in training.
#
# **Time:** 50 minutes in class, or 85 on your own with the exercises.
# “Further” takes another 15.

# %% setup
import math

import pandas as pd
import torch
import torch.nn.functional as F

from attnlab import Table, load_table, merge_heads, rotate, split_heads
from attnlab.display.table import data_path
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import OrderExplorer, RotaryExplorer
from attnlab.models.list_reader import load_list_reader, make_lists, to_words

lesson_setup()

# %% shuffle [markdown]
# ## Shuffle the words
#
# Each word of *The cat sat on the mat* attends to all six words,
# and nothing says where any of them is.
# We compute the outputs for the sentence as written,
# and once more for the same words in another order.


# %% shuffle-them
def attend(x, is_causal=False):
    return F.scaled_dot_product_attention(x, x, x, is_causal=is_causal)


words, _, x = load_table("the_cat_sat_on_the_mat.csv")
order = [4, 5, 2, 3, 0, 1]  # the mat sat on The cat
torch.allclose(attend(x[order]), attend(x)[order])

# %% bag-of-words [markdown] above="Each output has moved"
# Each output has moved along with its word and is still the same vector.
# An output is a sum over all keys.
# The number that the softmax divides by is such a sum, too,
# and a sum does not depend on the order of its terms.
# So attention treats a sentence as a **bag of words**,
# and our two sentences about the dog are the same bag.
#
# ## What a causal mask gives away
#
# Under a causal mask, each word sees only itself and the words before it.
# So the mask may reveal something about the order.
# Let us swap the first two words and compare the outputs,
# once for one layer and once for two layers, of which the second reads the outputs of the first.

# %% ask-mask
predict("11/mask-and-last-word")

# %% see-mask
# %%answer 11/mask-and-last-word
swapped = [1, 0, 2, 3, 4, 5]  # cat The sat on the mat
one_layer = attend(x, is_causal=True), attend(x[swapped], is_causal=True)
two_layers = [attend(output, is_causal=True) for output in one_layer]
change = [(b - a[swapped]).norm(dim=-1) for a, b in (one_layer, two_layers)]
Table(["one layer", "two layers"], [words[i] for i in swapped], torch.stack(change))

# %% which-not-where [markdown] above="In one layer, only" answers="11/mask-and-last-word"
# In one layer, only the outputs of the two swapped words change.
# Each of them now sees a different set of words.
# All later words still see both of them, and a sum does not know in what order.
# So the mask tells a word *which* words come before it, but not in what order they come.
#
# In a second layer all six outputs change, because two of its inputs have changed.
# So the order leaves a trace that later layers could use.
# It is more direct to *tell* them.

# %% three-places-for-positions [markdown] below="In the usual methods"
# ## Three places for positions
#
# In the usual methods, positions enter at one of three places.
# A vector is added to each token, the queries and keys are turned,
# or a number is added to each score.

# %% places jupyter={"source_hidden": true}
from attnlab.display import diagram

show_figure(diagram("positions"), "11.1")

# %% add-vectors [markdown]
# ### Add a vector to each token
#
# *Learned* positions are a table with one trained row for each position.
# *Sinusoidal* positions, those of the original Transformer, are computed.
# At position $m$, features $2i$ and $2i + 1$ hold the sine and the cosine of the angle
# $m\,\omega_i$.
# These two features form a pair, and each pair is like the hand of a clock.
# Its speed is $\omega_i = 10000^{-2i/E}$: pair 0 turns by one radian per position,
# and each later pair turns more slowly.
#
# If positions $p_m$ and $p_n$ are added to two tokens,
# one of the terms of their raw score is the product $p_m \cdot p_n$ of their positions.
# Figure 11.2 shows this product for all pairs of positions, without the projections.

# %% stripes jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
from attnlab import sinusoidal_positions

p = sinusoidal_positions(64, 64)
fig, axes = plt.subplots(1, 2, figsize=(7.5, 3.6), layout="constrained")
panels = [("positions p", p, "feature", "position"), ("p @ p.T", p @ p.T, "n", "m")]
for ax, (title, cells, xlabel, ylabel) in zip(axes, panels, strict=True):
    limit = cells.abs().max()
    image = ax.imshow(cells, cmap="PuOr_r", vmin=-limit, vmax=limit)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    fig.colorbar(image, ax=ax, shrink=0.8)
show_figure(fig, "11.2")

# %% cross-terms [markdown] above="So the product of"
# The products on the right are constant along each diagonal.
# So the product of two positions depends only on the offset $m - n$.
# The **offset** says how far apart the two tokens are,
# and in language this often matters more than where in the text they stand.
# But the table is also symmetric: the product does not tell *before* from *after*.
#
# ### Turn the queries and keys
#
# In a model, $W_Q$ and $W_K$ act on the position vectors first,
# and then their product need not depend on the offset alone.
# So let us bring the positions in *after* these matrices, and turn the queries and keys themselves.
# If two hands of one clock have turned for $m$ and $n$ steps,
# the angle between them depends only on $m - n$.
#
# Two features define a point $(a, b)$ in the plane.
# **Rotary positions** (RoPE) turn it around the origin by an angle that grows with the position.


# %% turn
def turn(point, angle):
    a, b = point
    c, s = math.cos(angle), math.sin(angle)
    return torch.stack([a * c - b * s, a * s + b * c])


q, k = torch.tensor([2.0, 1.0]), torch.tensor([1.5, -1.0])
for m, n in ((3, 1), (10, 8), (6, 2), (1, 3)):
    print(f"query at {m:2}, key at {n}: {turn(q, 0.5 * m) @ turn(k, 0.5 * n):6.3f}")

# %% proof [markdown] above="Only the offset between"
# The first two scores are the same, because the offset is 2 in both cases.
# Only the offset between query and key matters, not where the two stand.
# The proof is short.
# Let $\alpha$ be the angle from the key to the query before any turn,
# and $\theta$ the angle of one step.
# Then
#
# 1. a dot product is $|q|\,|k|$ times the cosine of the angle from the key to the query,
# 2. turning the query by $m\theta$ and the key by $n\theta$ leaves both lengths as they are and
#    changes the angle to $\alpha + m\theta - n\theta$,
# 3. so the dot product is $|q|\,|k| \cos(\alpha + (m - n)\,\theta)$,
#    which contains the positions only as the offset $m - n$.
#
# In the last line of the output the key comes *after* the query, and the offset is −2.
# Its score differs from those at offset 2, because $\alpha$ is not 0.
# So rotary positions can tell *before* from *after*.
#
# The values are not turned.
# Positions decide where a token looks, but not what it gets there.
#
# A head has more than two features.
# They are grouped into pairs, and pair $i$ turns by $\omega_i = \text{base}^{-2i/d}$ radians per
# step, where $d$ is head_dim.
# (The configuration of a model often calls the base `rope_theta`.)
# The score is the sum over all pairs, so it depends only on the offset, too.
#
# ### Your experiment: four pairs
#
# In the explorer, a query and a key each have four pairs.
# Drag the two positions, and watch the score.
# Then try another base.
# Which pair makes the fast waves on the right, and does the base change them?

# %% explore-rotary
RotaryExplorer()

# %% by-hand-text [markdown]
# <details><summary>The answer</summary>
#
# Pair 0, which turns fastest.
# Its waves repeat after $2\pi$, or about six, tokens.
# The base does not change them, because $\text{base}^0 = 1$.
# </details>
#
# The next function rotates all the queries, or all the keys, of a head.
# The first half of the features holds the first coordinates of the pairs,
# and the second half their second coordinates; any fixed choice of pairs would do.
# We try it on one query and one key, each at six positions.


# %% by-hand
def rotate_by_hand(x, base=10_000.0):
    L, d = x.shape[-2:]  # d is head_dim
    speed = base ** (-torch.arange(0, d, 2) / d)  # (d / 2,): one for each pair
    angle = torch.arange(L)[:, None] * speed  # (L, d / 2)
    a, b = x.chunk(2, dim=-1)  # the two coordinates of each pair
    turned_a = a * angle.cos() - b * angle.sin()
    turned_b = a * angle.sin() + b * angle.cos()
    return torch.cat([turned_a, turned_b], dim=-1)


one_query, one_key = torch.randn(2, 16, generator=torch.Generator().manual_seed(0))
queries, keys = one_query.expand(6, 16), one_key.expand(6, 16)  # at six positions
rotate_by_hand(queries) @ rotate_by_hand(keys).T

# %% use-it [markdown] above="Along every diagonal the" below="It is a penalty"
# Along every diagonal the offset is the same, and so is the score.
#
# ### Add a number to each score
#
# The third way, **ALiBi** (attention with linear biases),
# adds $-s\,(m - n)$ to the score of a query at $m$ for a key at $n$.
# It is a penalty for distance.
# Here it is for one head with the slope $s = 1/4$.
# The zeros above the diagonal belong to keys after the query, which a causal mask removes.

# %% penalty
m = torch.arange(6)
(m - m[:, None]).tril() / 4

# %% another-program [markdown] below="A small model was"
# Every head has its own slope, so some heads prefer the last few words and others hardly care about
# distance.
#
# ## A layer from another program
#
# A small model was trained with rotary positions on lists of 16 tokens.
# The report that came with it says that it answers all questions correctly.
# A token is either an entry, such as `cat 4`, or a question, such as `cat?`,
# which asks for the number that was recorded *last* for this animal.
# Every list ends with a question.
# There are four animals and the numbers 0 to 7, so guessing is correct in one of eight cases.

# %% task
lists = make_lists(1, 16, generator=torch.Generator().manual_seed(6))
print(*to_words(lists.tokens[0]), sep="   ")
print("answer:", lists.answers[0, -1].item())

# %% task-text [markdown]
# The model has three parts.
# The linear layer `reader.embed` turns tokens into vectors, `reader.attention` has four heads,
# and the linear layer `reader.read` gives one logit for each number.
# **Our rotation stands between the projections and the scores.**
# We count only the questions about animals with at least two entries,
# because a single entry has no order.


# %% rotary-layer
def rotary_attention(layer, x, rotation):
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    query, key, value = (split_heads(project(x), 4) for project in projections)
    query, key = rotation(query), rotation(key)  # (N, H, L, head_dim)
    heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    return layer.out_proj(merge_heads(heads))


def share_correct(rotation, length=16):
    generator = torch.Generator().manual_seed(1)
    lists = make_lists(64_000 // length, length, generator=generator)  # 64,000 tokens
    x = rotary_attention(reader.attention, reader.embed(lists.tokens), rotation)
    # the last token of every list is a question
    correct = reader.read(x[:, -1]).argmax(dim=-1) == lists.answers[:, -1]
    return correct[lists.entries[:, -1] >= 2].float().mean().item()


reader = load_list_reader()
print(f"{share_correct(rotate_by_hand):.2f}")

# %% which-test-text [markdown] above="The accuracy of 0.79"
# The accuracy of 0.79 is far below the report, yet no error was raised,
# and the parameters are correct.
# Which test would show what is wrong?

# %% ask-test
predict("11/which-test")

# %% see-test
# %%answer 11/which-test
some = torch.randn(7, 16, generator=torch.Generator().manual_seed(1))  # (L, head_dim)
for rotation in (rotate_by_hand, rotate):
    turned, table = rotation(some), rotation(queries) @ rotation(keys).T
    print(rotation.__name__)
    print("  shape: ", turned.shape == some.shape)
    print("  length:", torch.allclose(turned.norm(dim=-1), some.norm(dim=-1)))
    print("  offset:", torch.allclose(table[1:, 1:], table[:-1, :-1], atol=1e-4))
print("same numbers:", torch.allclose(rotate_by_hand(some), rotate(some)))

# %% layouts [markdown] above="All three tests pass" answers="11/which-test"
# All three tests pass for our function and for attnlab’s `rotate`, and yet the two disagree.
# Both turn their pairs by the same angles, but they *pair different features*.
# Ours joins feature $i$ of the first half with feature $i$ of the second half.
# `rotate` joins neighbours, features $2i$ and $2i + 1$,
# and so did the program that trained this layer.
# Both layouts are common and correct.
#
# Does the accuracy show what is wrong?
# We try three more rotations.

# %% wrong-rotations
rotations = {
    "rotate": rotate,
    "halves": rotate_by_hand,
    "no rotation": lambda x: x,
    "base 1e6": lambda x: rotate(x, base=1e6),
}
shares = torch.tensor([share_correct(rotation) for rotation in rotations.values()])
Table(["correct"], list(rotations), shares[None])

# %% wrong-read [markdown] above="with the wrong layout" answers="11/which-test"
# With `rotate`, the layer is as accurate as reported.
# Without any rotation it still gets 0.48, far more than guessing:
# it always names a number that was recorded for the animal, but not always the last.
# With the wrong layout it gets 0.79,
# so even wrongly paired rotations tell the layer something about the order.
# **That makes the bug dangerous:** with the wrong layout, the model gets worse,
# but it does not break.
#
# And a wrong *base* hardly shows in the accuracy at all.
# So compare your numbers with numbers from the original program, at positions other than 0.
# At position 0 every angle is 0, and all rotations agree.

# %% train-short-test-long [markdown]
# ## Train short, test long
#
# Which of these methods still works when a text is longer than all those in training?
# This property is called length generalisation.
# We trained the model above in five versions: with learned, sinusoidal or rotary positions,
# with ALiBi, and without positions (*none*; papers call it NoPE,
# but study models with more than one layer).
# Each version was trained four times on lists of 16 tokens.
# (The learned table has 64 rows, but rows 16 to 63 were never trained.)

# %% lengths jupyter={"source_hidden": true}
import seaborn as sns

results = pd.read_csv(data_path("train_short_test_long.csv"))
_, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
look = {"style": "scheme", "markers": True, "dashes": True, "errorbar": ("pi", 100)}
sns.lineplot(results, x="tokens", y="accuracy", hue="scheme", ax=ax, **look)
ax.axhline(1 / 8, color="gray", linewidth=1)
ax.text(64, 1 / 8 - 0.06, "guessing", ha="right", color="dimgray")
ax.axvline(16, color="gray", linewidth=1, linestyle=":")
ax.set(title="Only ALiBi stays above 90%: is it the solution?", ylabel="correct")
ax.set(xlabel="tokens in the list (trained on 16)", ylim=(0, 1.04))
ax.set(xticks=results["tokens"].unique())
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
show_figure(ax, "11.3")

# %% far-text [markdown] above="With learned and sinusoidal"
# With learned and sinusoidal positions the accuracy falls at once,
# and with rotary positions more slowly.
# Is ALiBi the solution?
# We sort the questions on lists of 64 tokens by how many tokens back the wanted entry is.

# %% how-far-back
runs = pd.read_csv(data_path("how_far_back.csv"))
far = runs.pivot_table("accuracy", "scheme", "distance", sort=False).round(2)
questions = runs[runs.seed == 0].groupby("distance", sort=False).questions.first()
far.loc["share of questions"] = (questions / questions["all"]).round(2)
far.loc[["none", "learned", "sinusoidal", "rotary", "ALiBi", "share of questions"]]

# %% after-far [markdown] above="The rotary layers fail"
# ALiBi does well because 87% of the questions ask for an entry at most 15 tokens back.
# When the entry is 24 or more tokens back, it does worse than a layer that has no positions at all,
# about as badly as guessing.
# **A high average hides that the far questions are lost.**
#
# The rotary layers fail in another way: they miss even near entries,
# which they found on short lists.
# The distant keys are one suspect.
# Relative to the query, most of their pairs are turned by angles that never occurred in training.
# Such keys may take weight from the near ones.

# %% ask-save
predict("11/change-one-number")

# %% see-save
# %%answer 11/change-one-number
lengths = (16, 64, 128, 256)
bases = {f"base 1e{power}": 10.0**power for power in (3, 4, 5, 6, 7, 8)}
shares = torch.zeros(len(bases), len(lengths))
for i, base in enumerate(bases.values()):
    for j, length in enumerate(lengths):
        shares[i, j] = share_correct(lambda x, base=base: rotate(x, base=base), length)
Table(list(bases), [f"{length} tokens" for length in lengths], shares)


# %% far-again
# %%answer 11/change-one-number
def weight_far_back(rotation):
    """Return what the last query of 64 gives to keys more than 15 tokens back."""
    lists = make_lists(1000, 64, generator=torch.Generator().manual_seed(1))
    x, layer = reader.embed(lists.tokens), reader.attention
    query = rotation(split_heads(layer.q_proj(x), 4))[:, :, -1:]  # (N, H, 1, head_dim)
    key = rotation(split_heads(layer.k_proj(x), 4))  # (N, H, L, head_dim)
    weights = (query @ key.mT / 16**0.5).softmax(dim=-1)  # (N, H, 1, L)
    return weights[..., :-16].sum(dim=-1).mean(dim=(0, 2))  # (H,)


far_back = [
    weight_far_back(lambda x, base=base: rotate(x, base=base)) for base in (1e4, 1e6)
]
far_back.append(torch.full((4,), 48 / 64))  # 48 of the 64 keys are that far back
names = ["base 1e4", "base 1e6", "equal weights"]
Table(names, [f"head {i}" for i in range(4)], torch.stack(far_back))

# %% saved [markdown] above="in this layer, bases" answers="11/change-one-number"
# A larger base helps.
# With a base of 1,000,000, and without any training,
# the stored layer answers nearly all questions on lists of 64 and even of 128 correctly.
#
# The second table supports the suspicion.
# With the base used in training,
# the last query gives 0.60 to 0.81 of its weight to keys that are more than 15 tokens back,
# about as much as equal weights would.
# With the larger base, it gives them 0.17 to 0.36.
# So the layer can still use the order of near entries,
# once the distant keys no longer take the weight.
# The likely cause of its failure is the angles that it had never seen,
# and a larger base brings many of them back into the range seen in training.
#
# **There is a price:** in this layer, bases from $10^5$ on work on ever longer lists,
# but worse and worse on short ones.
# A base of $10^8$ still gets 0.91 on lists of 256, but only 0.85 at 16 tokens.
#
# Raising the base is common in practice.
# Code Llama, for example, raised the base of a trained model from 10,000 to 1,000,000 and then
# trained it further on longer texts.

# %% so-who-tells-attention-where-words-stand [markdown]
# ## So who tells attention where words stand?
#
# Let us return to the dog and the man.
# We give each of the four words a random vector and compare the output of *dog* in the two
# sentences.


# %% dog-and-man
def attend_turned(x, rotation):
    return F.scaled_dot_product_attention(rotation(x), rotation(x), x)


the, dog, bit, man = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
bites = torch.stack([the, dog, bit, the, man])  # The dog bit the man
bitten = torch.stack([the, man, bit, the, dog])  # The man bit the dog
for name, rotation in {"no positions": lambda x: x, "rotary": rotate}.items():
    before, after = (
        attend_turned(bites, rotation)[1],
        attend_turned(bitten, rotation)[4],
    )
    print(f"{name:12} “dog” differs by {(before - after).norm() / before.norm():.0%}")

# %% the-answer [markdown] above="Attention by itself cannot"
# Attention by itself cannot know where words stand.
# *dog* gets the same vector whether it bites or is bitten.
# In one layer, a causal mask tells a word which words come before it, and so how many,
# but not in what order.
# In most models *we* tell attention, at one of three places: with a vector for each token,
# with a rotation of queries and keys, or with a number for each score.
# Then the two sentences are no longer the same.
#
# None of the three promises anything about texts longer than those in training,
# and one small task does not decide between them.
# What carries over is the method: train short, test long, with several runs,
# and look at long distances separately.

# %% further-counting [markdown]
# ## Further
#
# ### How a mask can count
#
# So the mask can tell a word its own position.
# Suppose that all scores are equal, that the first token (often a special one,
# so a layer can recognise it) has the value 1, and that every other token has the value 0.
# Then a word that sees $n$ tokens gets the average $1/n$:

# %% counting
same, first = torch.zeros(6, 2), torch.eye(6)[:, :1]  # equal scores; 1, 0, 0, ...
F.scaled_dot_product_attention(same, same, first, is_causal=True)[:, 0]

# %% further-squeeze [markdown]
# ### Squeeze the positions instead
#
# Another remedy keeps the base and squeezes the positions until they fit into the range of the
# training: in a list of 64, they become 0, 1/4, 1/2 and so on.
# The table shows means of four runs, once for our task (*latest*) and once for a second one,
# in which each token has to name the number *three back*.

# %% squeeze
rescaled = pd.read_csv(data_path("rescaled_rotary.csv"))
rescaled.pivot_table("accuracy", ["task", "rotation"], "tokens", sort=False).round(2)

# %% squeeze-read [markdown]
# In our task, squeezing does about as well as a larger base up to 64 tokens,
# worse at 128 and better at 256.
# In the second task it fails completely,
# because three tokens back is now only three quarters of a step.
# A larger base keeps the first pair as it was, one radian for each token,
# so near neighbours stay apart.
# In practice, a model is trained a little longer after its positions have been squeezed.

# %% further-shuffle [markdown]
# ### Shuffle the words yourself
#
# The explorer shows the outputs before and after a shuffle:
# each word keeps its output and takes it along.
# Try other orders.
# Then switch the positions on: now a random vector that belongs to the place is added to the word
# that stands there.

# %% explore-order
OrderExplorer(order=order)

# %% remember [markdown]
# ## What to remember
#
# - Without positions and without a mask, attention treats a text as a bag of words:
#   shuffle the words, and the outputs move with them.
# - Under a causal mask, one layer tells a word which words come before it, but not in what order.
#   Several layers can work out more.
# - Learned and sinusoidal positions are added to the tokens.
#   Rotary positions turn queries and keys, pair by pair,
#   so that a score depends on the positions only through the offset, query minus key.
#   ALiBi lowers each score in proportion to the distance.
# - Two functions that rotate may pass the same tests and still pair different features,
#   or use different bases.
#   Compare their numbers with those of the original.
# - A model that works at the length it was trained on need not work on longer texts.
#   Test it at that length, and look separately at the questions whose answer lies far back:
#   a high average may only mean that they are rare.
# - Our rotary layers failed on long lists, and the new angles are the likely reason:
#   a larger base brought many of them back, without training, at a price on short lists.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the empty function below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (4 minutes)
#
# A head has 8 features, in pairs of neighbours, and the base is 10,000.
# By how many radians is pair 1 turned at position 40?
# (Pairs are counted from 0.)
#
# <details><summary>Hint</summary>
#
# The speed of pair $i$ is $\text{base}^{-2i/d}$ radians per step,
# where $d$ is the number of features of the head.
# What is $10000^{-1/4}$?
# </details>

# %%
from attnlab.exercises import check_angle_of_pair, check_mended_rotary
from attnlab.exercises import check_rotate_at, check_to_halves


# %% tags=["exercise"]
def angle_of_pair_1():
    """Return the angle in radians."""


# %%
check_angle_of_pair(angle_of_pair_1)


# %% tags=["solution"]
def angle_of_pair_1_solution():
    return 40 * 10_000 ** (-2 / 8)  # 0.1 radians for each step


check_angle_of_pair(angle_of_pair_1_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (10 minutes)
#
# A model that writes word by word has to turn a single new query, for example at position 57.
# `rotate_by_hand` always begins at position 0.
# Write a version that takes the positions as an argument and pairs *neighbours*,
# features $2i$ and $2i + 1$.
#
# <details><summary>Hint</summary>
#
# <code>x[..., 0::2]</code> holds the first coordinates of the pairs and <code>x[..., 1::2]</code>
# the second coordinates.
# To put the results back in their places,
# <code>torch.stack</code> them along a new last axis and flatten the last two axes.
# </details>


# %% tags=["exercise"]
def rotate_at(x, positions, base=10_000.0):
    """(..., L, d) and (L,) -> (..., L, d), features 2i and 2i + 1 turned as a pair."""


# %%
check_rotate_at(rotate_at)


# %% tags=["solution"]
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
# `broken` takes a query, a key and a value for several heads, (N, H, L, head_dim) each,
# and should return causal attention with rotary positions.
# It has three bugs.
# Write `mended`, a version without them.
#
# <details><summary>Hint</summary>
#
# Which of the three should be turned?
# Which axis holds the tokens?
# What must query and key have in common?
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


# %% tags=["solution"]
def mended_solution(query, key, value):
    query, key = rotate(query), rotate(key)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


check_mended_rotary(mended_solution)

# %% exercise-4 [markdown]
# ### 4 · Implement ★★★ (12 minutes)
#
# A layer was trained with pairs of neighbours, and your program rotates in halves.
# Reorder the rows of a projection, `weight` of shape (E, E) as in `nn.Linear`,
# so that the layer works with your program.
# Do so head by head: within each head, the first coordinates of its pairs come first,
# in their original order, and then the second coordinates.
# (The same function works for the queries and for the keys.
# If the projections have biases, as ours have, these must be reordered in the same way.)
#
# <details><summary>Hint</summary>
#
# Cut the rows into heads with <code>weight.unflatten(0, (num_heads, -1))</code>.
# Then rows 0, 2, 4, ... of each head come first, and rows 1, 3, 5, ... follow.
# </details>


# %% tags=["exercise"]
def to_halves(weight, num_heads):
    """(E, E) -> (E, E), its rows in another order."""


# %%
check_to_halves(to_halves)


# %% tags=["solution"]
def to_halves_solution(weight, num_heads):
    heads = weight.unflatten(0, (num_heads, -1))  # (H, head_dim, E)
    return torch.cat([heads[:, 0::2], heads[:, 1::2]], dim=1).flatten(0, 1)


check_to_halves(to_halves_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: “Our model has rotary positions,
# so its scores depend on the positions only through the offset.
# Therefore it works for texts of any length.”
# Answer in two sentences.
#
# <details><summary>An answer</summary>
#
# That is true of the scores, but a longer text has offsets that never occurred in training,
# so pairs turn by new angles, and nothing ensures that the model does the right thing there.
# Test it on long texts and on your own task, as in Figure 11.3, and look at far entries separately.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# Torch has a module for learned positions, `nn.Embedding(max_len, E)`, and none for the others.
# For rotary positions, turn the queries and keys and pass them on to
# `F.scaled_dot_product_attention`.
# For ALiBi, pass the bias as `attn_mask`,
# with a causal mask added to it as zeros and minus infinities.
# Torch’s documentation forbids `is_causal=True` together with a mask,
# but not every call raises an error.
#
# The code for Llama in Hugging Face's *transformers* rotates in halves.
# The script that converts Meta's parameters therefore reorders the rows of $W_Q$ and $W_K$,
# as in exercise 4.
# `rotate(x, layout="halves")` performs the same rotation as the Llama code.

# %% torch-bias
from attnlab import alibi_bias, causal_mask, to_additive_mask

some_q, some_k, some_v = torch.randn(3, 1, 8, 10, 4)  # (N, H, L, head_dim) each
mask = to_additive_mask(causal_mask(10)) + alibi_bias(8, 10)
F.scaled_dot_product_attention(some_q, some_k, some_v, attn_mask=mask).shape

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.5: sinusoidal and learned positions.
# - Su et al.,
#   [RoFormer: Enhanced Transformer with Rotary Position Embedding](https://arxiv.org/abs/2104.09864), 2021.
# - Press, Smith and Lewis, [Train Short, Test Long](https://arxiv.org/abs/2108.12409), 2022: ALiBi,
#   and the title of our experiment.
#   Their models are language models of a realistic size.
# - Haviv et al.,
#   [Transformer Language Models without Positional Encodings Still Learn Positional Information](https://arxiv.org/abs/2203.16634),
#   2022, and Kazemnejad et al.,
#   [The Impact of Positional Encoding on Length Generalization in Transformers](https://arxiv.org/abs/2305.19466),
#   2023: what a causal mask alone can do, in models with several layers.
# - Hugging Face, [transformers](https://github.com/huggingface/transformers), `modeling_llama.py`
#   (`rotate_half`) and `convert_llama_weights_to_hf.py` (`permute`): the two layouts.
# - Rozière et al., [Code Llama](https://arxiv.org/abs/2308.12950), 2023: the larger base.
#   Chen et al.,
#   [Extending Context Window of Large Language Models via Positional Interpolation](https://arxiv.org/abs/2306.15595),
#   2023: squeezed positions.
# - The small models were trained by `data/make_train_short_test_long.py`: 64 features, 4 heads,
#   1,000 steps of Adam.

# %% next [markdown]
# ## Next
#
# [12 · Two layers that look back](12_two_layers_that_look_back.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.**
# Shuffle: 4.
# The mask: 5.
# The three places, and adding vectors: 5.
# Turning, the proof and the explorer: 14.
# ALiBi: 2.
# The layer from another program: 8.
# Train short, test long: 4.
# The larger base: 5.
# The answer: 3.
#
# **Where a class stalls.**
# *“But it does know the order, it reads from left to right”:*
# ask which of the three lines of code in lesson 0 would change if the rows were shuffled.
# *Radians:* one radian is a little less than 60 degrees;
# have two students play the query and the key and turn step by step,
# and let the class measure the angle between them.
# *“Our function is wrong”:* it is not, and that is the point;
# ask for a test that both functions would pass even though they give different numbers.
# *“Which should I use?”:* most of today’s large language models turn the queries and keys,
# and many of them raise the base before they are trained on longer texts.
# ALiBi’s accuracy on our long lists shows a window, not a long memory.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# The words of a sentence are shuffled; no positions, no mask.
# What happens to the output of “cat”?
# **Its numbers stay the same; it moves along with the word.**
# *It changes, because other words are near it:* nothing in a score knows what is near.
# *It is lost:* every row is still there, in another place.
#
# **2.**
# One layer, a causal mask, no positions; words 0 and 1 are swapped.
# Whose outputs change?
# **Those of the two words.**
# *All of them:* the later ones see the same set of words.
# *None:* the word that is now second sees one more word.
#
# **3.**
# What do rotary positions leave unchanged?
# **The length of each query and key.**
# *The score of every pair:* it depends on the offset.
# *The direction of each query and key:* the rotation changes the direction;
# only the length stays the same.
#
# **4.**
# Two rotations pass the test “the score depends on the positions only through the offset”.
# Are they the same?
# **Not necessarily.**
# *Yes:* layouts, speeds and even directions may differ, and the test still passes.
# *No, one must have a bug:* there may be no bug in either.
#
# **5.**
# A model with learned positions was trained on texts of 512 tokens and is given one of 600.
# What happens?
# **There is no trained row for positions 512 and up.**
# *It slows down:* the cost grows, but that is not the problem.
# *It continues from there:* a table has no formula to go on with.
# </details>
