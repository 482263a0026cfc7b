# %% opening [markdown] above="Does attention see the" end="Does attention see the"
# # 11 · Order: who tells attention where words stand?
#
# *The dog bit the man.*
# *The man bit the dog.*
# The two sentences consist of the same words, and yet they describe different events.
# Does attention see the order of the words at all?
# And if it does not, how can we tell it what the order is?
#
# **You need:** [lesson 7](07_multi_head_reshaping_without_scrambling.ipynb) for heads.
# You should know what the sine and cosine of an angle are.
#
# **You will be able to:** say what attention knows about the order with and without a causal mask,
# explain rotary positions and prove what makes them useful,
# and test whether a model still works on texts longer than those in training.
#
# **Time:** 46 minutes in class, or 84 on your own with the exercises.
# “Further” takes another 10.

# %% setup
import math
from functools import partial

import pandas as pd
import torch
import torch.nn.functional as F

from attnlab import Table, data_path, merge_heads, rotate, split_heads
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import RotaryExplorer
from attnlab.models.list_reader import load_list_reader, make_lists, to_words

lesson_setup()

# %% shuffle [markdown] below="Each word of *The"
# ## Shuffle the words
#
# Each word of *The dog bit the man* attends to all five words.
# We give each word a random vector, *The* and *the* the same,
# and compare the outputs of *dog* in the two sentences.
# Then we write the first sentence twice.


# %% shuffle-them
def attend(x, is_causal=False):
    return F.scaled_dot_product_attention(x, x, x, is_causal=is_causal)


the, dog, bit, man = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
bites = torch.stack([the, dog, bit, the, man])  # The dog bit the man
bitten = torch.stack([the, man, bit, the, dog])  # The man bit the dog
print("dog:  ", torch.allclose(attend(bites)[1], attend(bitten)[4], atol=1e-5))
twice = attend(torch.cat([bites, bites]))
print("twice:", torch.allclose(twice[:5], attend(bites), atol=1e-5))

# %% bag-of-words [markdown] above="*dog* gets the same" below="Under a causal mask"
# *dog* gets the same vector whether it bites or is bitten.
# An output is a sum over all keys.
# So is the number that the softmax divides by, and a sum does not depend on the order of its terms.
# Attention does not even count: if the sentence stands there twice, each weight is halved,
# each value is added twice, and the output is the same.
# So attention treats a sentence as a [**bag of words**](glossary.ipynb#bag-of-words),
# of which it sees only the proportions.
#
# ## With a causal mask
#
# Under a causal mask, each word sees only itself and the words before it.

# %% ask-mask
predict("11/mask-and-last-word")

# %% see-mask
# %%answer 11/mask-and-last-word
swapped = [1, 0, 2, 3, 4]
before, after = attend(bites, is_causal=True), attend(bites[swapped], is_causal=True)
change = (after - before[swapped]).norm(dim=-1)
Table(["change"], ["dog", "The", "bit", "the", "man"], change.unsqueeze(0))

# %% which-not-where [markdown] above="Only the outputs of" answers="11/mask-and-last-word"
# Only the outputs of the two swapped words change.
# Each of them now sees a different set of words, and all later words still see both.
# So in one layer the mask tells a word *which* words come before it,
# but not in what order they come.

# %% three-places-for-positions [markdown] below="In the usual methods"
# ## Three places for positions
#
# In the usual methods, positions enter at one of three places.

# %% places jupyter={"source_hidden": true}
from attnlab.display import diagram

show_figure(diagram("positions"), "11.1")

# %% add-vectors [markdown] below="*Sinusoidal* positions, those"
# ### Add a vector to each token
#
# *Learned* positions are a table with one trained row for each position.
# *Sinusoidal* positions, those of the original Transformer, are computed.
# At position $m$, features $2i$ and $2i + 1$ hold the sine and the cosine of the angle
# $m\,\omega_i$.
# These two features form a pair, and each pair is like the hand of a clock.
# Its speed is $\omega_i = 10000^{-2i/E}$: pair 0 turns by one radian per position,
# and each later pair turns more slowly.

# %% clocks jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
from attnlab import sinusoidal_positions

_, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
places = [0, 1, 2, 5, 20]
for row, place in enumerate(places):
    for pair, (sine, cosine) in enumerate(
        sinusoidal_positions(21, 16)[place].view(8, 2)
    ):
        ax.add_patch(plt.Circle((pair, -row), 0.4, fill=False, color="#aaa"))
        tip = pair + 0.38 * cosine, 0.38 * sine - row
        ax.plot([pair, tip[0]], [-row, tip[1]], color="#1f5fa8", lw=2.5)
ax.set(xticks=range(8), xticklabels=[f"pair {pair}" for pair in range(8)])
ax.set(yticks=range(0, -5, -1), yticklabels=[f"position {place}" for place in places])
ax.set(title="Eight clocks, from fast to slow", aspect="equal")
ax.tick_params(length=0)
ax.spines[:].set_visible(False)
show_figure(ax, "11.2")

# %% cross-terms [markdown] below="Two features define a"
# ### Turn the queries and keys
#
# Positions that are added pass through $W_Q$ and $W_K$ together with the words,
# so a score may depend on more than the [**offset**](glossary.ipynb#offset) $m - n$,
# which says how far apart the two tokens are.
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
for m, n in ((3, 1), (10, 8), (6, 2)):
    print(f"query at {m:2}, key at {n}: {turn(q, 0.5 * m) @ turn(k, 0.5 * n):6.3f}")

# %% proof [markdown] above="The first two scores" below="Which pair makes the"
# The first two scores are the same, because the offset is 2 in both cases.
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
# The values are not turned.
# Rotary positions change where a token looks, but not what it gets there.
#
# The features of a head are grouped into pairs,
# and pair $i$ turns by $\omega_i = \text{base}^{-2i/d}$ radians per step,
# where $d$ is head_dim and the base is 10,000 unless we say otherwise.
# The score is the sum over all pairs, so it depends only on the offset, too.
#
# ### Your experiment: four pairs
#
# Drag the two positions, and watch the score.
# Then try another base.
# Which pair makes the fast waves on the right?

# %% explore-rotary
RotaryExplorer()

# %% by-hand-text [markdown] below="We trained a small"
# <details><summary>The answer</summary>
#
# Pair 0, which turns fastest.
# Its waves repeat after $2\pi$, or about six, tokens.
# </details>
#
# attnlab’s `rotate` turns all the queries, or all the keys, of a head in this way.
# You write it in exercise 2.
# If our five words are turned as queries and keys, *dog* gets another vector when it is bitten.
#
# ### Add a number to each score
#
# The third way, **ALiBi** (attention with linear biases),
# adds $-s\,(m - n)$ to the score of a query at $m$ for a key at $n$.
# Every head has its own slope $s$, which is fixed, not trained.
#
# ## Train short, test long
#
# Which of these methods still works when a text is longer than all those in training?
# We trained a small model, one layer of causal attention between two linear layers,
# on lists of 16 tokens.
# A token is either an entry, such as `cat 4`, or a question, such as `cat?`,
# which asks for the number that was recorded *last* for this animal.

# %% task
lists = make_lists(1, 16, generator=torch.Generator().manual_seed(6))
print(*to_words(lists.tokens[0]), sep="   ")
print("answer:", lists.answers[0, -1].item())
lists.tokens[0, 0].int()  # (16,): 4 animals, 8 numbers, 4 animals asked for

# %% train-short-test-long [markdown] below="The model exists in"
# There are four animals and the numbers 0 to 7, so guessing is correct in one of eight cases.
# We count only the questions about animals with at least two entries,
# because a single entry has no order.
#
# The model exists in five versions: with learned, sinusoidal or rotary positions (base 10,000),
# with ALiBi, and without positions (*none*, often called NoPE).
# Each version was trained four times.

# %% lengths jupyter={"source_hidden": true}
import seaborn as sns

results = pd.read_csv(data_path("train_short_test_long.csv"))
_, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
look = {"style": "scheme", "markers": True, "dashes": True, "errorbar": ("pi", 100)}
sns.lineplot(results, x="tokens", y="accuracy", hue="scheme", ax=ax, **look)
ax.axhline(1 / 8, color="gray", linewidth=1)
ax.text(64, 1 / 8 - 0.06, "guessing", ha="right", color="dimgray")
ax.axvline(16, color="gray", linewidth=1, linestyle=":")
ax.set(xlabel="tokens in the list (trained on 16)", ylabel="correct", ylim=(0, 1.04))
ax.set(xticks=results["tokens"].unique())
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
show_figure(ax, "11.3")

# %% far-text [markdown] above="Only ALiBi stays above" below="We sort the questions"
# Only ALiBi stays above 90%.
# Is it the solution?
# We sort the questions on lists of 64 tokens by how many tokens back the wanted entry is.

# %% how-far-back
runs = pd.read_csv(data_path("how_far_back.csv"))
far = runs.pivot_table("accuracy", "scheme", "distance", sort=False)  # means of 4 runs
questions = runs.query("scheme == 'none' and seed == 0").set_index("distance").questions
far.loc["share of questions"] = questions / questions["all"]
versions = ["none", "learned", "sinusoidal", "rotary", "ALiBi", "share of questions"]
far.loc[versions].round(2)

# %% after-far [markdown] above="**A high average hides" below="The rotary layers fail"
# ALiBi does well because 87% of the questions ask for an entry at most 15 tokens back.
# When the entry is 24 to 47 tokens back, it does worse than a layer without positions.
# **A high average hides that the far questions are lost.**
#
# The rotary layers fail in another way: they miss even near entries,
# which they found on short lists.
# Let us look at one of them.

# %% rotary-layer
reader = load_list_reader()


def is_right(lists, rotation):
    layer, x = reader.attention, reader.embed(lists.tokens)
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    query, key, value = (
        split_heads(project(x), layer.num_heads) for project in projections
    )
    query, key = rotation(query), rotation(key)  # (N, H, L, head_dim)
    last = query[:, :, -1:]  # only the question at the end; it may attend to all tokens
    heads = F.scaled_dot_product_attention(last, key, value)  # (N, H, 1, head_dim)
    logits = reader.read(layer.out_proj(merge_heads(heads)))  # (N, 1, 8)
    right = logits[:, 0].argmax(dim=-1) == lists.answers[:, -1]  # (N,)
    return right[lists.entries[:, -1] >= 2]  # the animal has at least two entries


# %% suspect [markdown] below=["The distant keys are", "The distant keys are"]
# The distant keys are one suspect: relative to the query,
# they are turned further than any key was in training.

# %% ask-save
predict("11/change-one-number")


# %% see-save
# %%answer 11/change-one-number
def share_correct(rotation, length):
    """Return the share of correct answers on 2,000 lists; it may be off by 0.03."""
    generator = torch.Generator().manual_seed(1)
    batches = [make_lists(250, length, generator=generator) for _ in range(8)]
    return torch.cat([is_right(lists, rotation) for lists in batches]).float().mean()


bases, lengths = (100, 10_000, 1_000_000, 100_000_000), (16, 64, 128, 256)
rotations = {f"base {base:,}": partial(rotate, base=base) for base in bases}
rotations["at most 15 back"] = lambda x: rotate(
    x, torch.arange(1 - x.shape[-2], 1).clamp(min=-15)
)  # at positions -15, ..., -15, -14, ..., -1, 0
shares = [
    [share_correct(rotation, n) for n in lengths] for rotation in rotations.values()
]
Table(list(rotations), [f"{length} tokens" for length in lengths], torch.tensor(shares))

# %% farther
# %%answer 11/change-one-number
far.tail(5).round(2)

# %% saved [markdown] above="**The larger base also" answers="11/change-one-number"
# With a base of 1,000,000, and without any training,
# the layer answers 98 of 100 questions on lists of 64 correctly.
#
# In the last row of the first table, the base is 10,000 again,
# but keys more than 15 tokens back are turned as if they were 15 back.
# On lists of 64 the layer then gets 0.89 instead of 0.46, although it sees just as many keys.
# So in this layer, the angles of the far keys do most of the harm, and not their number.
#
# The second table, with means of four runs, looks at long distances separately.
# **The larger base also finds farther entries:** 0.95 at 32 to 47 tokens back, instead of 0.12.
# So does ALiBi with half the slopes: 0.91 at 24 to 31 tokens back, instead of 0.15.
#
# **There is a price:** with half the slopes, ALiBi finds fewer of the near entries,
# and with a base of $10^8$ our layer gets only 0.87 at 16 tokens.

# %% the-answer [markdown] end="By itself and without"
# ## So who tells attention where words stand?
#
# By itself and without a mask, attention cannot know where words stand.
# *dog* gets the same vector whether it bites or is bitten.
# In one layer, a causal mask tells a word which words come before it, and in what proportions,
# but not in what order.
# In most models *we* tell attention, at one of three places: with a vector for each token,
# with a rotation of queries and keys, or with a number for each score.
#
# None of the three promises anything about texts longer than those in training,
# and one small task does not decide between them.
# What carries over is the method: train short, test long, with several runs,
# and look at long distances separately.

# %% further-layouts [markdown]
# ## Further
#
# ### A layer from another program
#
# Which features form a pair?
# `rotate` joins neighbours, features $2i$ and $2i + 1$.
# `rotate(x, layout="halves")` joins feature $i$ of the first half with feature $i$ of the second.
# Both layouts are common and correct: they keep the length of every vector,
# and with both a score depends only on the offset.
# So no test of the function alone shows which one a layer was trained with.
# Does the accuracy of our layer show it?

# %% wrong-rotations
layouts = {
    "neighbours": rotate,
    "halves": partial(rotate, layout="halves"),
    "no rotation": lambda x: x,
}
correct = [
    [share_correct(layout, length) for length in lengths] for layout in layouts.values()
]
Table(list(layouts), [f"{length} tokens" for length in lengths], torch.tensor(correct))

# %% wrong-read [markdown]
# The layer was trained with neighbours.
# With the wrong layout it gets 0.79 at 16 tokens, and no error is raised.
# This small layer gets worse, but it does not break:
# even wrongly paired rotations tell it something about the order.
#
# On lists of 64 and more tokens, the *wrong* layout is even the better one in this layer.
# **So compare your numbers with numbers from the original program**, at positions other than 0.
# At position 0 every angle is 0, and all rotations agree.
#
# ### How a mask can count
#
# A causal mask can tell a word its own position.
# Suppose that all scores are equal, that the first token (often a special one,
# so a layer can recognise it) has the value 1, and that every other token has the value 0.
# Then a word that sees $n$ tokens gets the average $1/n$:

# %% counting
same = torch.zeros(6, 2)  # equal scores
first = torch.tensor([1.0, 0, 0, 0, 0, 0]).unsqueeze(-1)
F.scaled_dot_product_attention(same, same, first, is_causal=True)[:, 0]

# %% remember [markdown] end=["Under a causal mask", "Rotary positions turn queries", "A model that works"]
# ## What to remember
#
# - Without positions and without a mask, attention treats a text as a bag of words:
#   shuffle the words, and the outputs move with them; write the text twice, and nothing changes.
# - Under a causal mask, one layer tells a word which words come before it, and in what proportions,
#   but not in what order.
# - Learned and sinusoidal positions are added to the tokens.
#   Rotary positions turn queries and keys, pair by pair,
#   so that a score depends on the positions only through the offset, query minus key.
#   ALiBi lowers each score in proportion to the distance.
# - A model that works at the length it was trained on need not work on longer texts.
#   Test it at that length, and look separately at the questions whose answer lies far back:
#   a high average may only mean that they are rare.
# - Our rotary layers failed on lists of 64.
#   With the base 1,000,000, and without training, they answered most questions there.
#   ALiBi with half the slopes found farther entries, and fewer near ones.

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
# What is $10000^{-1/4}$, and how many steps are there?
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
# Write a rotation that takes the positions as an argument and pairs *neighbours*,
# features $2i$ and $2i + 1$.
#
# <details><summary>Hint</summary>
#
# `x[..., 0::2]` holds the first coordinates of the pairs and `x[..., 1::2]` the second coordinates.
# To put the results back in their places,
# `torch.stack` them along a new last axis and flatten the last two axes.
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
# ### 4 · Implement ★★ (12 minutes)
#
# A layer was trained with pairs of neighbours, features $2i$ and $2i + 1$.
# Your program rotates in halves:
# it pairs feature $i$ of the first half of a head with feature $i$ of the second.
# Reorder the rows of a projection, `weight` of shape (E, E) as in `nn.Linear`,
# so that the layer works with your program.
# Do so head by head: within each head, the first coordinates of its pairs come first,
# in their original order, and then the second coordinates.
# (The same function works for the queries and for the keys.)
#
# <details><summary>Hint</summary>
#
# Cut the rows into heads with `weight.unflatten(0, (num_heads, -1))`.
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
# and nothing ensures that the model does the right thing there.
# Test it on long texts and on your own task, as in Figure 11.3, and look at far entries separately.
# </details>

# %% in-torch [markdown] below="For ALiBi, pass the"
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
# - Rozière et al., [Code Llama](https://arxiv.org/abs/2308.12950), 2023:
#   a trained model whose base was raised from 10,000 to 1,000,000,
#   and which was then trained further on longer texts.
# - The small models were trained by `data/make_train_short_test_long.py`: 64 features, 4 heads,
#   1,000 steps of Adam.

# %% next [markdown]
# ## Next
#
# [12 · Two layers that look back](12_two_layers_that_look_back.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 46 minutes, and where a class stalls</summary>
#
# **46 minutes.**
# Shuffle: 3.
# The mask: 7.
# The three places, and adding vectors: 3.
# Turning, the proof and the explorer: 16.
# Train short, test long: 5.
# The larger base: 11.
# The answer: 1.
#
# **Where a class stalls.**
# *“But it does know the order, it reads from left to right”:*
# ask which of the three lines of code in lesson 0 would change if the rows were shuffled.
# *Radians:* one radian is a little less than 60 degrees;
# have two students play the query and the key and turn step by step,
# and let the class measure the angle between them.
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
# A rotary model answers 98 of 100 questions on lists four times as long as those in training.
# Does it find far entries?
# **That is not known.**
# *Yes, 98% is nearly all:* far questions are rare,
# and with the base 100,000 our layer answers only one in five of those 32 to 47 tokens back.
# *No, it was trained on short lists:* with a base of 1,000,000 it finds most of them.
#
# **5.**
# A model with learned positions was trained on texts of 512 tokens and is given one of 600.
# What happens?
# **There is no trained row for positions 512 and up.**
# *It slows down:* the cost grows, but that is not the problem.
# *It continues from there:* a table has no formula to go on with.
# </details>
