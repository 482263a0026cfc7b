# %% opening [markdown] above="Does attention find out" end="Does attention find out"
# # 5 · What does “bank” mean here?
#
# “I left my money on the bank of the lake.”
# “I keep my money in the bank by the lake.”
# You know at once that these are two different banks, because you read the other words as well.
# Attention reads them too, so people often say that it can tell the two meanings apart.
# Does attention find out what “bank” means here?
#
# **You need:** [lesson 1](01_attention_is_a_soft_look_up.ipynb) (query, key, score, weight,
# value) and [lesson 4](04_reading_heatmaps_honestly.ipynb) (a trained layer with twelve heads;
# baselines).
#
# **You will be able to:** say what a score in a first layer depends on,
# test whether it matters which word asks, compare attention with a plain average,
# and say what this layer does not do for a word with two meanings.
#
# **Time:** 46 minutes in class, or 75 on your own with the exercises.
# “Further” takes another 5.

# %% setup
import matplotlib.pyplot as plt
import pandas as pd
import torch

from attnlab import Table, attention_scores, data_path, load_table, split_heads
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import WhoAsksExplorer
from attnlab.models.pretrained import load_encoder, load_layer
from attnlab.plotting import plot_attention

lesson_setup()

# %% same-row [markdown] below="Here is the row"
# ## The same row twice
#
# Here is the row of “bank” in head 4 of the trained layer, for both sentences.
# For every head we measure how much attention *moves*: half the sum of the absolute changes.

# %% read-both
layer = load_layer()
left = layer.read("i left my money on the bank of the lake")
keep = layer.read("i keep my money in the bank by the lake")
bank = left.tokens.index("bank")  # the same position in both
changes = (keep.weights[:, bank] - left.weights[:, bank]).abs()  # (H, S)
print(f"moves in head 4: {changes[4].sum() / 2:.2f}")
print(f"moves in any head: at most {changes.sum(dim=-1).max() / 2:.2f}")
rows = torch.stack([left.weights[4, bank], keep.weights[4, bank]])
keys = "[CLS] i left/keep my money on/in the bank of/by the lake [SEP]".split()
_, ax = plt.subplots(figsize=(7.6, 2.2), layout="constrained")
plot_attention(rows, ax=ax, queries=["river bank", "money bank"], keys=keys)
show_figure(ax, "5.1")

# %% same-arc [markdown] above="In no head does"
# Whoever sees only the first row could say: “bank” gives “lake” 0.68,
# so the head knows which bank is meant.
# But where a money bank is meant, “lake” gets 0.69.
# In no head does more than 0.06 of the attention move.
#
# We chose this pair because it is so clear.
# What does a row of this layer depend on?

# %% thief [markdown] below=["\u201cThe thief saw the", "Does \u201cbank\u201d notice in"]
# ## A thief by the river
#
# “The thief saw the bank by the river” can be about a river bank.
# With “robbed” in the place of “saw”, a money bank is meant,
# and “river” only tells us where it stands.
# Does “bank” notice in head 10, where its row changes most?

# %% see-robbed
for verb in ("saw", "robbed"):
    tokens, _, _, weights = layer.read(f"the thief {verb} the bank by the river")
    row = weights[10, tokens.index("bank")]
    for word in ("river", verb):
        print(f"“bank” gives “{word}” {row[tokens.index(word)]:.2f}")

# %% ask-robbed-told [markdown] above="\u201cRiver\u201d loses more than"
# “River” loses more than half of its weight.
# What happened to the score behind it?

# %% ask-robbed
predict("05/what-robbed-changes")


# %% see-score
# %%answer 05/what-robbed-changes
def scores_of(attention, x):
    """Return the scores of all heads, (H, L, S), for the vectors x (L, 384)."""
    query, key = attention.q_proj(x), attention.k_proj(x)  # of all heads, (L, 384)
    # split_heads cuts them into twelve heads; lesson 7 builds it
    return attention_scores(split_heads(query, 12), split_heads(key, 12))


for verb in ("saw", "robbed"):
    tokens, x, _, _ = layer.read(f"the thief {verb} the bank by the river")
    scores = scores_of(layer.attention, x)
    score = scores[10, tokens.index("bank"), tokens.index("river")]
    print(f"{verb}: the score of “bank” for “river” is {score:.3f}")

# %% same-score [markdown] above="Only one score of" answers="05/what-robbed-changes"
# The score is the same.
# It is made of two vectors, those of “bank” and of “river” at their positions,
# and in a first layer no other word has touched them.
# So no verb in the place of “saw” can change it, as long as the two words keep their positions.
# Only one score of the row has changed: that of “robbed” is high, so it takes 0.59 of the weight.

# %% shopping-list [markdown] answers="05/what-robbed-changes"
# The query of “bank” is like a shopping list that is written at home: it says of every word,
# at every position, how much it is wanted.
# The sentence is the shop, and the softmax spends a budget of 1.
# “Robbed” takes part of the budget, but the list stays as it was.
#
# In each head, “bank” brings the same list to every sentence in which it has the same position.

# %% two-kinds [markdown] below="The method `attend_as` puts"
# ## Whose list is it?
#
# What do these lists ask for?
# We wrote 64 sentences with “bank” and fixed them before the layer read the first.
# In 32 *mixed* ones, such as “the millionaire fell off the bank into the rapids”,
# a *water word* points to a river bank and a *money word* to a money bank.
# In half of them the water word is the *clue*, which shows the meaning,
# in the other half the money word.
#
# The method `attend_as` puts other words in the place of “bank” and lets them ask.
# In how many of the 32 sentences do they give the water word more weight, in head 8?

# %% water-wins
sentences = pd.read_csv(data_path("bank_two_kinds.csv"))
mixed = sentences[sentences.kind == "mixed"]


def water_wins(askers):
    """Return where the water word gets more: (32 sentences, H heads, A askers) of bool."""
    wins = []
    for row in mixed.itertuples():
        tokens = layer.tokens(row.sentence)
        weights = layer.attend_as(askers, tokens, tokens.index("bank"))  # (H, A, S)
        water_at, money_at = tokens.index(row.water), tokens.index(row.money)
        wins.append(weights[..., water_at] > weights[..., money_at])
    return torch.stack(wins)


askers = ["river", "money", "chair"]
of_three = water_wins(askers)[:, 8].sum(dim=0)  # in head 8
dict(zip(askers, of_three.tolist(), strict=True))

# %% ask-bank-told [markdown] above="So it matters which" below="Now \u201cbank\u201d itself asks"
# So it matters which word asks.
# Now “bank” itself asks, in head 8.

# %% ask-bank
predict("05/in-river-sentences")

# %% see-bank
# %%answer 05/in-river-sentences
is_river = torch.tensor((mixed.meaning == "river").values)
by_bank = water_wins(["bank"])[:, :, 0]  # (32, H)
for head in (8, 10):
    won = by_bank[is_river, head].sum(), by_bank[~is_river, head].sum()
    print(f"head {head}: the water word wins in {won[0]} of 16 river sentences")
    print(f"        and in {won[1]} of 16 money sentences")

# %% bank-in-two-heads [markdown] above="Head 8 chose well in" answers="05/in-river-sentences"
# Head 8 chose well in the money sentences because it prefers the money word nearly everywhere.
# Head 10 mostly prefers the water word, whichever bank is meant.
#
# Is this a habit of the two heads, or does it depend on “bank”?

# %% rulers-told [markdown] below=["We let twelve water", "In what share of"]
# ### Twelve water words, twelve money words
#
# We let twelve water words and twelve money words ask, none of which occurs in the sentences.
# In what share of the 32 sentences does the water word win?

# %% rulers
water = "ocean sea tide lagoon marsh reef shoreline delta wave waves surf pier".split()
money = "finance market business trade cost income budget".split()
money += "currency dollars economy cash purchase".split()
share = water_wins(["bank", *water, *money]).float().mean(dim=0)  # (H, 25)
by_water, by_money = share[:, 1:13].mean(dim=1), share[:, 13:].mean(dim=1)
lines = ["12 water words ask", "12 money words ask", "difference"]
heads = [f"head {head}" for head in range(12)]
Table(lines, heads, torch.stack([by_water, by_money, by_water - by_money]))

# %% draw-rulers jupyter={"source_hidden": true}
# %%answer 05/in-river-sentences
from collections import Counter

from attnlab.palette import BLUE, INK, LINE, ORANGE

_, ax = plt.subplots(figsize=(8.4, 4.6), layout="constrained")
ax.axvspan(-1, 16, color=ORANGE, alpha=0.06, lw=0)
ax.axvspan(16, 33, color=BLUE, alpha=0.06, lw=0)
common = 32 * water_wins(layer.common_words(1000)).float().mean(dim=0)  # (H, 1000)
places = []
for y, head in zip((3, 2, 1, 0), (8, 1, 4, 10), strict=True):
    at_bank, *counts = (32 * share[head]).round().int().tolist()
    seen = Counter()
    for count, colour in zip(counts, [BLUE] * 12 + [ORANGE] * 12, strict=True):
        seen[count] += 1
        height = y + 0.1 + 0.14 * seen[count]
        ax.scatter(count, height, s=62, color=colour, edgecolor="white", zorder=3)
    places.append((at_bank, y))
    low, high = common[head].quantile(torch.tensor([0.05, 0.95])).tolist()
    ax.plot([low, high], [y, y], color=LINE, lw=7, solid_capstyle="butt", zorder=0)
ax.scatter(
    *zip(*places, strict=True),
    s=170,
    color=INK,
    marker="D",
    edgecolor="white",
    zorder=4,
)
ax.text(13.5, 2.98, "nine of ten common words", ha="center", va="center", fontsize=9)
ax.text(1, 2.66, "“bank”", ha="center", weight="bold")
ax.text(25, -0.38, "“bank”", ha="center", weight="bold")
ax.text(7, 3.86, "12 money words ask", color=ORANGE, ha="center", weight="bold")
ax.text(25, 3.86, "12 water words ask", color=BLUE, ha="center", weight="bold")
ax.set(xlim=(-1, 33), ylim=(-0.6, 4.1), xlabel="sentences in which the water word wins")
ax.set_xticks([0, 8, 16, 24, 32])
ax.set_yticks([3, 2, 1, 0], ["head 8", "head 1", "head 4", "head 10"])
ax.tick_params(length=0)
ax.spines[["left", "bottom"]].set_visible(False)
ax.set_title("Who asks like whom?")
show_figure(ax, "5.2")

# %% four-heads [markdown] above="In heads 1, 4" answers="05/in-river-sentences"
# In heads 1, 4, 8 and 10 the means of our two groups differ by at least 0.36,
# in the others by less than 0.2.
#
# In head 8, “bank” asks as money words do: of 5,000 common words, one in a hundred goes as far.
# In head 10 it asks rather as water words do.

# %% experiment [markdown] below="Does any head know"
# ### Your experiment: let any word ask
#
# Does any head know the meaning?
# Then type words of your own.

# %% explore-askers
WhoAsksExplorer(head=2)

# %% answer-askers [markdown]
# <details><summary>What you may have found</summary>
#
# There is no such head.
# The difference is largest in heads 4 and 5: 13 river sentences and 8 money sentences in the one,
# 11 and 6 in the other.
# But 5,000 words have a difference of 4.7 on average in head 4, and in head 5,
# one word in nine has one at least as large as “bank”.
# </details>

# %% does-it-help [markdown] below="Does the new vector"
# ## Does it help?
#
# Does the new vector of “bank” show which bank is meant?
# Such a result needs a [**control**](glossary.ipynb#control):
# the same experiment without the ingredient that is said to be responsible.
# Here that is the weights, so the control is a *plain average*: all words get the same weight.
#
# On an axis from our money words to our water words, we compare four vectors: the plain average,
# the same without the water word and the money word, the output of attention at “bank”,
# and the output if the clue got all the weight.


# %% leans
def hands_over(x):
    """Return what each token would give as the output if it got all the weight, (L, 384)."""
    return layer.attention.out_proj(layer.attention.v_proj(x))


def mean_of(words):  # at position 3
    return hands_over(layer.embed(words, positions=[3] * 12)[0]).mean(dim=0)


def lean(row):
    """Return plain average, average without both words, attention, clue alone: (4, 384)."""
    tokens, x, output, _ = layer.read(row.sentence)
    handed = hands_over(x)
    others = [token not in (row.water, row.money) for token in tokens]
    average, without_both = handed.mean(dim=0), handed[others].mean(dim=0)
    at_bank, at_clue = tokens.index("bank"), tokens.index(row.clue)
    return torch.stack([average, without_both, output[at_bank], handed[at_clue]])


axis = mean_of(water) - mean_of(money)  # (384,)
leans = torch.stack([lean(row) for row in sentences.itertuples()]) @ axis  # (64, 4)

# %% pairs-told [markdown] below="A river sentence and"
# A river sentence and a money sentence are *in order* if the river sentence lies further towards
# water.
# The mixed sentences make $16 \times 16 = 256$ such pairs, and so do the other 32,
# the *clear* ones, which have words of one kind only.
# Guessing would put 128 in order.


# %% pairs
def in_order(values, kind):
    """Count the pairs in order, of 256; values (64, N) gives (N,)."""
    chosen = torch.tensor((sentences.kind == kind).values)
    river = torch.tensor((sentences.meaning == "river").values)
    of_river, of_money = values[chosen & river], values[chosen & ~river]
    return (of_river[:, None] > of_money).sum(dim=(0, 1))


for kind in ("clear", "mixed"):
    average, *_, clue_alone = in_order(leans, kind).tolist()
    print(f"{kind}: plain average {average}, clue alone {clue_alone}")

# %% ask-mixed-told [markdown] above="In clear sentences, the"
# In clear sentences, the plain average is enough.
# In mixed ones it gets 194 pairs, although the clue alone would get 250.
# Where do the 194 come from?

# %% ask-mixed
predict("05/without-both")

# %% see-mixed jupyter={"source_hidden": true}
# %%answer 05/without-both
fig, axes = plt.subplots(1, 2, figsize=(8.4, 4.8), layout="constrained", sharey=True)
standard = (leans - leans.mean(dim=0)) / leans.std(dim=0)
names = ["plain average", "without both", "attention", "clue alone"]
titles = {"clear": "words of one kind", "mixed": "words of both kinds"}
for ax, (kind, title) in zip(axes, titles.items(), strict=True):
    chosen = torch.tensor((sentences.kind == kind).values)
    for row, meaning in zip(
        standard[chosen], sentences.meaning[chosen.numpy()], strict=True
    ):
        colour = BLUE if meaning == "river" else ORANGE
        ax.plot(row, [3, 2, 1, 0], color=colour, alpha=0.25, lw=1)
        ax.plot(row, [3, 2, 1, 0], "o", color=colour, alpha=0.7, mec="white")
    for y, count in zip((3, 2, 1, 0), in_order(leans, kind).tolist(), strict=True):
        ax.text(3.9, y, count, ha="right", va="center", weight="bold", fontsize=13)
    ax.text(3.9, 3.35, "pairs in order", ha="right", fontsize=9)
    ax.text(-1.1, 3.35, "money bank", color=ORANGE, weight="bold", ha="center")
    ax.text(1.1, 3.35, "river bank", color=BLUE, weight="bold", ha="center")
    ax.set(
        title=title,
        xlim=(-2.6, 4),
        ylim=(-0.3, 3.6),
        xlabel="← money     water →",
        xticks=[],
    )
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_yticks([3, 2, 1, 0], names)
    ax.tick_params(length=0)
show_figure(fig, "5.3")

# %% read-mixed [markdown] above="Where two words disagree" answers="05/without-both"
# Without both words the plain average gets 188, so other words, such as “hired”,
# give the bank away as well.
#
# Attention gets 161: no better, though 32 sentences are too few to call it worse.
# Where two words disagree, the colours come apart only on the lowest level,
# where *we* said which word is the clue.

# %% the-answer [markdown] end="Not in this layer"
# ## Does attention find out what “bank” means here?
#
# Not in this layer.
# It does select, and what it selects depends on the word that asks.
# But no other word changes the list of “bank”: in head 8 it gives money words the larger scores,
# in head 10 more often water words.
# In the two sentences about my money and the lake, its score for “lake” is the same.
# And where words disagree, on our axis the output does no better than a plain average.
#
# From the second layer on, both words behind a score have taken in others, so it can change.
# Whether that helps to find the meaning, [lesson 14](14_where_a_meaning_appears.ipynb) asks.

# %% further [markdown]
# ## Further
#
# ### Two banks in one table
#
# Some tutorials type in a small table instead,
# with one bank that lends money and another by the river, and use its rows as queries,
# keys and values.

# %% typed-banks
two_banks = load_table("two_banks.csv")
two_banks

# %% cosine-told [markdown]
# We compare the two banks by the [**cosine**](glossary.ipynb#cosine) of the angle between their
# vectors.
# It is 1 if they point in the same direction, and 0 if they are at right angles.

# %% typed-cosine
x = two_banks.values  # (4, 4)
output = (x @ x.T / 4**0.5).softmax(dim=-1) @ x
average = x.mean(dim=0).expand(4, 4)
for name, vectors in (("before", x), ("attention", output), ("plain average", average)):
    cosine = torch.cosine_similarity(vectors[2], vectors[3], dim=0)
    print(f"{name}: {cosine:.2f}")

# %% typed-read [markdown]
# Before attention, the two banks are nearly at right angles:
# whoever typed the table had already separated them.
# Afterwards they are *more* alike: both outputs are averages of the same four vectors,
# and with scores as small as these, no vector gets much more than half of the weight.
# A plain average makes them equal.
# So this table can show that attention mixes vectors, but not that it finds a meaning.
# For that, “bank” has to go in as one vector, as it does in a model.

# %% later-told [markdown]
# ### Later layers
#
# How far does the score of “bank” for “river” move in later layers when “robbed” replaces “saw”?

# %% later-layers
encoder = load_encoder()
texts = [f"the thief {verb} the bank by the river" for verb in ("saw", "robbed")]
at_bank, at_river = 5, 8  # in both
readings = [encoder.read(text).vectors for text in texts]
for number, part in enumerate(encoder.layers):
    saw, robbed = (
        scores_of(part.attention, x[number])[:, at_bank, at_river] for x in readings
    )
    print(f"layer {number}: at most {(robbed - saw).abs().max():.2f}")

# %% later-read [markdown]
# From the second layer on, “bank” and “river” have both taken in other words: the list has changed,
# and the goods as well.

# %% remember [markdown] end=["In a first layer", "Compare every result of", "A layer that selects"]
# ## What to remember
#
# - In a first layer a score is made of two words at their positions.
#   A word that replaces a third one can take a share of the row, but it cannot change this score.
# - So at one position, “bank” asks for the same in every sentence, whichever bank is meant.
# - To find out whether it matters which word asks, let other words ask.
#   In heads 1, 4, 8 and 10, our water words and our money words asked for different things.
# - Compare every result of attention with a plain average of the same values.
#   Where the words disagreed, the output of this layer did no better on our axis.
# - A layer that selects need not select what matters in this sentence.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Implement ★★ (8 minutes)
#
# Write the control for any experiment on attention:
# every query gets the plain average of the values that it may attend to.
# In the mask `attn_mask`, True means that the query may attend to the key.
# A query that may not attend to any key gets zeros.
# The result must have the dtype of `value`, which can be float32 or float64.
#
# <details><summary>Hint</summary>
#
# Turned into numbers, the mask is a table of weights that have not been divided yet.
# What must each row be divided by, and what if that is 0?
# </details>

# %%
from attnlab.exercises import check_clue_wins, check_plain_average, check_tested


# %% tags=["exercise"]
def plain_average(value, attn_mask):
    """value (..., S, Ev), attn_mask (..., L, S) of bool -> (..., L, Ev)."""


# %%
check_plain_average(plain_average)


# %% tags=["solution"]
def plain_average_solution(value, attn_mask):
    counts = attn_mask.to(value.dtype)
    return counts / counts.sum(dim=-1, keepdim=True).clamp(min=1) @ value


check_plain_average(plain_average_solution)

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# `water_wins` notes where the *water* word gets more weight than the money word.
# A head that found out what “bank” means would give more to the *clue*,
# which is the money word where a money bank is meant.
# Write `clue_wins`, which counts for each head in how many sentences the clue gets more than the
# other of the two words.
# `wins` has a row for each sentence and a column for each head,
# and is True where the water word wins.
# `is_river` has an entry for each sentence, and is True where a river bank is meant.
#
# <details><summary>Hint</summary>
#
# In a river sentence the clue wins if `wins` is True.
# And in a money sentence?
# </details>
#
# <details><summary>Is the largest number a find?</summary>
#
# For “bank” and our sentences it is 21 of 32, in heads 4 and 5.
# If twelve coins are tossed 32 times each,
# the best of them shows tails at least 21 times in about half of all tries.
# </details>


# %% tags=["exercise"]
def clue_wins(wins, is_river):
    """wins (N, H) of bool, is_river (N,) of bool -> counts (H,)."""


# %%
check_clue_wins(clue_wins)


# %% tags=["solution"]
def clue_wins_solution(wins, is_river):
    return (wins == is_river[:, None]).sum(dim=0)


print(clue_wins_solution(by_bank, is_river).tolist())
check_clue_wins(clue_wins_solution)

# %% exercise-3 [markdown]
# ### 3 · Find the bug ★★ (8 minutes)
#
# A report says: “We tried 60,000 candidates: 5,000 words that ask, in twelve heads.
# One of the best, ‘piano’ in head 11, gives the clue more in 30 of the 32 sentences.
# It understands banks.”
# Here is how the number was found.
# Each table has a row for each candidate and a column for each sentence,
# with a 1 where the clue wins; `first` and `second` hold different sentences.
# Find out what is wrong with `broken_report`.
# Then write `tested`, which chooses a candidate and returns an honest share for it.
# If several candidates are equally good, take the first.
#
# <details><summary>Hint</summary>
#
# Two means are needed: one to choose a candidate, and one to report.
# Over which sentences does each of them go?
# </details>


# %% tags=["exercise"]
def broken_report(first, second):
    shares = torch.cat([first, second], dim=1).mean(dim=1)
    return shares.max().item()


def tested(first, second):
    """Two tables (candidates, sentences) of 0 and 1 -> the share for the chosen candidate."""


# %%
check_tested(tested)


# %% tags=["solution"]
def tested_solution(first, second):
    best = first.mean(dim=1).argmax()
    return second[best].mean().item()


of_1000 = water_wins(layer.common_words(1000))  # (32, H, 1000)
clue_won = (of_1000 == is_river[:, None, None]).flatten(1).T.float()  # (12000, 32)
splits = torch.Generator().manual_seed(0)
for report in (broken_report, tested_solution):
    halves = [clue_won[:, torch.randperm(32, generator=splits)] for _ in range(20)]
    shares = [report(half[:, :16], half[:, 16:]) for half in halves]
    print(f"{report.__name__}: {sum(shares) / 20:.2f} on average over 20 splits")
check_tested(tested_solution)

# %% exercise-3-read [markdown]
# <details><summary>The honest share is still more than a half. Is it a find?</summary>
#
# In 28 of our 32 sentences the clue comes later than the other word, and some heads look at places.
# With both words exchanged, “piano” in head 11 gets 13.
# So an honest report would also balance the places.
# </details>

# %% exercise-4 [markdown]
# ### 4 · Explain ★ (5 minutes)
#
# A blog shows head 8 of our layer: in “I put my money in the bank”,
# “bank” gives “money” more weight than it gives any other word but itself.
# “So this head knows that a money bank is meant”, it says.
# You may have one more sentence read by the layer.
# Which one, and what would you look at?
#
# <details><summary>An answer</summary>
#
# Keep “money” and change the meaning: “I left my money on the bank of the lake.”
# In head 8, “bank” gives “money” 0.12 and “lake” 0.01, although a river bank is meant.
# So the head gives weight to “money” whichever bank it is.
#
# - A sentence without a money word tests little.
# - Another sentence about a money bank cannot decide: there, both sides expect “money”.
# - Another head says nothing about head 8.
# - The output is a different question: the claim is about a weight.
# </details>

# %% in-torch [markdown] below="The control takes one"
# ## In torch
#
# The control takes one line: with a query of zeros, all scores are 0,
# so all keys that are allowed get the same weight.
# This works in `F.scaled_dot_product_attention` too, with a Boolean mask or without any mask.

# %% torch-control
import torch.nn.functional as F

z = left.embedded[None]  # (N, L, E)
allowed = torch.arange(z.shape[1]) < 5  # every query may attend to the first five keys
zeros = torch.zeros_like(z)
control = F.scaled_dot_product_attention(zeros, z, z)
masked = F.scaled_dot_product_attention(zeros, z, z, attn_mask=allowed[None])
assert torch.allclose(control[0, 0], z[0].mean(dim=0), atol=1e-5)
assert torch.allclose(masked[0, 0], z[0, :5].mean(dim=0), atol=1e-5)

# %% sources [markdown]
# ## Sources
#
# - Hewitt and Liang,
#   [Designing and Interpreting Probes with Control Tasks](https://arxiv.org/abs/1909.03368), 2019:
#   why a result about a model needs a control.
# - Clark et al., [What Does BERT Look At?](https://arxiv.org/abs/1906.04341), 2019:
#   what single heads of a whole model attend to, and how much weight goes to `[SEP]`.
# - Reif et al., [Visualizing and Measuring the Geometry of BERT](https://arxiv.org/abs/1906.02715),
#   2019: the senses of a word come apart in whole models.
# - The trained layer is the first attention layer of
#   [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2) (Apache-2.0).
#   Wang et al., [MiniLM](https://arxiv.org/abs/2002.10957), 2020,
#   describe how the larger model behind it was trained.

# %% next [markdown]
# ## Next
#
# Lesson 6, [Where Q, K and V come from](06_where_q_k_and_v_come_from.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 46 minutes, and where a class stalls</summary>
#
# **46 minutes.**
# The same row twice: 4.
# A thief by the river: 8.
# Whose list: 10.
# Any word asks: 8.
# Does it help: 13.
# The answer: 3.
#
# **Play it.**
# Three learners hold a shopping list each, and words lie on a table.
# Each learner points at the word that is highest on the list.
# Then put “robbed” in the place of “saw”.
#
# **Where a class stalls.**
# *The three axes of `attend_as`:* begin with one sentence, one head and one asker.
# *“But head 4 has 13 and 8”:* let the explorer show head 4 with “chair”, “piano” and “the”.
# *“Attention is worse than an average”:* ask how many sentences there are.
# *“But ChatGPT knows”:* a whole model may; here we ask one layer, and the first.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# In the first layer, “saw” is replaced with “robbed”.
# What happens to the score of “bank” for “river”?
# **It stays the same.**
# *It falls:* this confuses the score with the weight.
# *That depends on the head:* in every head, a score depends on two words and their positions only.
#
# **2.**
# In the second layer?
# **It may change.**
# *It stays the same:* there the vectors of the two words already contain others.
#
# **3.**
# You want to know whether the *weights* cause an effect.
# What is the control?
# **Equal weights, with the same values.**
# *No attention at all:* this takes the mixing away too.
# *Random weights:* they answer a different question: would chance do as well?
#
# **4.**
# In a sentence about a money bank, “bank” gives “money” more weight than any other word but itself.
# Does the head know which bank is meant?
# **That cannot be told from one sentence.**
# *Yes:* in head 8 it does the same where a river bank is meant.
# *No:* this sentence alone does not show that either.
#
# **5.**
# Someone inspects 144 heads and finds one in which “bank” attends most to “river”.
# What next?
# **Test it on other sentences, with other words in the place of “bank”.**
# *It understands:* this forgets the other 143.
# *It is chance:* that has to be measured as well.
# </details>
