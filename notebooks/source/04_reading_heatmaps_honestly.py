# %% opening [markdown]
# # 4 · Reading heatmaps honestly
#
# Below are two heatmaps for the same sentence. One comes from a model that was trained on a great deal of English. The
# other is noise: its queries and keys were drawn by a random number generator, and the words were written beside them
# afterwards. Which is which? Note down your guess, and what made you choose. You will find the answer at the end of
# this lesson.
#
# People read such maps in papers and in blogs every day. They find a dark cell and write that the model "connects" two
# words, or "understands" a phrase. Perhaps it does. But **what does a dark cell prove?**
#
# **You need** lesson 1: scores, weights and output. One section masks cells, as in lesson 3.
#
# **You will be able to**
# - read a cell, a row and a column of any heatmap, also of one that is not square,
# - say what you can learn from a colour if you do not know its scale,
# - test a pattern against chance,
# - find out whether a dark cell matters, by taking it away.
#
# **Time:** 50 minutes in class, 80 alone.

# %% setup
import torch
from attnlab import Table, attention_scores, attention_weights, load_table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.plotting import plot_attention, plot_heads
from attnlab.pretrained import load_layer

lesson_setup()

# %% two-maps jupyter={"source_hidden": true}
layer = load_layer()
reading = layer.read("the cat sat on the mat")
torch.manual_seed(0)
noise = attention_weights(attention_scores(*torch.randn(2, 8, 8)))
order = torch.randperm(2)  # so that this cell does not tell
shown = torch.stack([reading.weights[3], noise])[order]
texts = {
    "queries": reading.tokens,
    "keys": reading.tokens,
    "titles": ["map A", "map B"],
}
show_figure(plot_heads(shown, **texts), "4.1")

# %% who-asks [markdown]
# ## Who asks, and who is looked at
#
# Attention became known through translation. While a model writes a French sentence, each French word looks at the
# English words. When the queries come from one text and the keys and values from another, we speak of
# [**cross-attention**](glossary.ipynb#cross-attention). When all three come from the same text, as in the model
# behind Figure 4.1, it is *self-attention*.
#
# For this lesson we trained a toy translator on sentences that a small grammar makes up. It writes one French word
# after another. It remembers the French words that it has written, but attention is its only view of the English ones.

# %% translate
from attnlab.translator import load_translator, make_sentences

translator = load_translator()
found = translator.translate("the black cat sees a small house")
found.french

# %% ask-shape
predict("04/shape-and-sums")

# %% see-shape
# %%answer 04/shape-and-sums
of_rows, of_columns = found.weights.sum(dim=1), found.weights.sum(dim=0)
print(of_rows, of_columns, sep="\n")
ax = plot_attention(found.weights, queries=found.french, keys=found.english)
show_figure(ax, "4.2")

# %% read-map [markdown]
# To read a map, pick a row and say whom it belongs to: "when it wrote *chat*, the translator gave 0.98 of its attention
# to *cat*". Always use the words. The pair (1, 2) means *chat* and *cat* only if you count from 0, as Python does, and
# name the query first. A reader who counts from 1 will look at another cell.
#
# The dark cells do not lie on a diagonal, because French puts *black* after the noun. A column belongs to a key. Its sum
# says how much attention that English word has received from all French words together.
#
# ### A weight belongs to its row
#
# Here the sentence of lesson 0 is asked three questions: "who?", "doing what?" and "where?". Its words have typed
# features such as `animal`, and each question has a 4 in the feature that it looks for, and 0 in all others. "who?"
# gives 0.66 of its attention to "cat". Now we let the *words* ask.

# %% ask-turned
predict("04/weight-of-a-row")

# %% see-turned
# %%answer 04/weight-of-a-row
x = load_table("the_cat_sat_on_the_mat.csv").values  # (6, 5)
questions = 4 * torch.eye(5)[[0, 2, 3]]  # (3, 5): animal, action, place
scores = attention_scores(questions, x)  # (3, 6): one row for each question
attention_weights(scores)[0, 1], attention_weights(scores.T)[1, 0]  # “who?” and “cat”

# %% turned-read [markdown]
# ### Turn it round yourself
#
# The explorer shows both directions, with the weights on a scale from 0 to 1 and the outputs on one from 0 to 3.5. Let the words ask. Two of them give the same weight to all three questions. Which are they, and why?

# %% explore-cross
from attnlab.explorers import CrossExplorer

CrossExplorer(ask=False)

# %% colour [markdown]
# <details><summary>Answer</summary>
#
# They are "The" and "the". They share no feature with any question, so all their scores are 0, and equal scores give
# equal weights.
# </details>
#
# ## A colour is not a number
#
# Our maps have numbers in their cells. Larger maps have no room for them, and then you have only the colours. Seaborn's
# `heatmap` and matplotlib's `imshow` *fit* the colours to each table: the palest colour is its smallest number, and the
# darkest is its largest (or the other way round, depending on the colours).

# %% ask-darkest
predict("04/darkest-cell")

# %% see-darkest
# %%answer 04/darkest-cell
torch.manual_seed(42)
query, key = torch.randn(2, 4, 8)  # (L, E) and (S, E)
weights = attention_weights(attention_scores(query, key))
faint = attention_weights(attention_scores(query / 1000, key))
print(f"smallest {faint.min():.4f}, largest {faint.max():.4f}")

# %% scales-figure jupyter={"source_hidden": true}
# %%answer 04/darkest-cell
import matplotlib.pyplot as plt

_, axes = plt.subplots(1, 3, figsize=(7.5, 2.5), layout="constrained")
for ax, (title, one, low, high) in zip(
    axes,
    [
        ("weights, fitted", weights, weights.min().item(), weights.max().item()),
        ("faint, fitted", faint, faint.min().item(), faint.max().item()),
        ("faint, 0 to 1", faint, 0, 1),
    ],
    strict=True,
):
    plot_attention(one, ax=ax, annotate=False, vmin=low, vmax=high, title=title)
    ax.set(xlabel="key", ylabel="query")
    bar = ax.figure.colorbar(ax.collections[0], ax=ax, shrink=0.8)
    bar.set_ticks([low, high], labels=[f"{round(end, 4):g}" for end in (low, high)])
show_figure(axes[0], "4.3")

# %% house-rule [markdown]
# In this series, therefore, the scale of weights runs **from 0 to 1** unless a colour bar says otherwise, and pictures
# that are to be compared have the same scale.
#
# Compare each weight with the [**uniform share**](glossary.ipynb#uniform-attention) of its row. If a query may look at 4
# keys, a weight of 0.25 means "no preference". With 100 keys the uniform share is 0.01, which is nearly white on a scale
# from 0 to 1. In that case, draw each weight times the number of keys, so that 1 means uniform, and say so.
#
# ## Would chance draw it too?
#
# Here is the table on the left of Figure 4.3 with its numbers, on a scale from 0 to 1. It comes from four random queries
# and four random keys.

# %% noise-map
show_figure(plot_attention(weights, colorbar=True), "4.4")

# %% a-story [markdown]
# You can always find a story in such a table. "Queries 2 and 3 both look most at key 3. The last word of a sentence often holds
# the clue, and the model has learned that." Nothing has learned anything here. But is the pattern rare? Let us draw
# 2,000 such tables and count.

# %% ask-chance
predict("04/chance-of-agreement")

# %% see-chance
# %%answer 04/chance-of-agreement
torch.manual_seed(0)
many_queries, many_keys = torch.randn(2, 2000, 4, 8)
many = attention_weights(attention_scores(many_queries, many_keys))  # (2000, 4, 4)
winner = many.argmax(dim=-1)  # (2000, 4): the key that each query prefers
this_story = (winner[:, 2] == 3) & (winner[:, 3] == 3)
votes = torch.nn.functional.one_hot(winner).sum(dim=1)  # (2000, 4): votes for each key
some_story = votes.amax(dim=-1) >= 2
this_story.float().mean(), some_story.float().mean()

# %% chance-figure jupyter={"source_hidden": true}
# %%answer 04/chance-of-agreement
import seaborn as sns

diagonal = (winner == torch.arange(4)).sum(dim=-1)  # rows whose own column wins
_, axes = plt.subplots(1, 3, figsize=(7.5, 2.6), layout="constrained")
ours = weights.argmax(dim=-1)
counts = {
    "most votes for one key": (votes.amax(dim=-1), ours.bincount().max()),
    "rows on the diagonal": (diagonal, (ours == torch.arange(4)).sum()),
}
for ax, (name, (count, here)) in zip(axes, counts.items(), strict=False):
    bars = ax.bar(range(5), count.bincount(minlength=5) / 2000, color="#9dc3e6")
    bars[here].set(facecolor="#c8500a", hatch="//")
    ax.set(xlabel=name, xticks=range(5), ylim=(0, 0.8), ylabel="share of the tables")
axes[0].set(xlim=(0.4, 4.6))
largest = many.amax(dim=(-2, -1)).numpy()
sns.histplot(x=largest, bins=15, stat="proportion", color="#9dc3e6", ax=axes[2])
axes[2].axvline(weights.max(), color="#c8500a", linestyle="--")
axes[2].set(xlabel="largest weight", xlim=(0.25, 1), ylabel="share of the tables")
axes[0].figure.suptitle("Our table (orange) is a table like any other")
show_figure(axes[0], "4.5")

# %% choose-after [markdown]
# The trap is that we chose the story *after* seeing the table. There are many stories of this kind: about any key, and
# about any two of the rows. So the question is not how rare this one is, but how rare it is to find one at all.
#
# ### Draw again
#
# Move the slider to one of the other tables and write one sentence about "the important word". Then move on. How
# long does the sentence last? (All of these pictures have the same scale, from 0 to 1.)

# %% draw-again
from attnlab.live import live


def draw(fig, table):
    plot_attention(many[table], ax=fig.subplots(), colorbar=True)
    won = votes[table].argmax().item()
    return f"Table {table}: key {won} is preferred by {votes[table, won]} of 4 queries."


live(draw, table=list(range(12)), figsize=(5, 3.2), alt="Weights of random queries.")

# %% evidence [markdown]
# ## What would be evidence?
#
# A pattern is evidence if you name it **before** you look, find it on **many inputs**, and find it more often than a
# **baseline** does. The toy translator allows such a test, because we can say in advance where each word should look:
# at the English word that it translates, which we call its *partner*. (The grammar knows it. The translator was never
# told.) So we take 200 sentences and ask how often the darkest cell of a row lies on the partner.

# %% on-partner
import pandas as pd
from attnlab.translator import changed_without, darkest_on_partner

sentences = make_sentences(200, seed=1)
hits = {
    name: darkest_on_partner(load_translator(name), sentences)
    for name in ("first", "second", "untrained")
}
diagonals = [torch.arange(len(s.partner)) == s.partner for s in sentences]
hits["same place"] = torch.cat(diagonals)
words = [word for s in sentences for word in s.french.split()]
kind = ["articles" if word in ("le", "la", "un", "une") else "others" for word in words]
pd.DataFrame(hits).groupby(kind).mean().round(2)

# %% look-at-articles [markdown]
# Our translator is the *first*. The *second* was trained in the same way, but started from other random numbers. Both
# write all 200 sentences without an error. In the rows of nouns, verbs and adjectives ("others"), their darkest cell is
# on the partner every time. The first baseline is the first translator before its training. The second is a plain
# diagonal, on which every word looks at the English word in its own place. It is on the partner in 57% of these rows.
# Without that baseline, a far weaker result would have looked like a finding.
#
# For the articles, the pattern that we named does not hold: only in about half of their rows is the darkest cell on the
# partner, although every article is correct. *le* has to know whether English says *the* or *a*, but also whether the
# French noun is masculine. Look at its row in Figure 4.2.
#
# ## Take it away
#
# A pattern that passes this test is real. It still does not follow that the translator *uses* the cell. To find out, we
# change something and watch the output. Let us begin with a pale cell. Here *la* gives almost no weight to *cow*:

# %% pale
french = "la grande vache blanche veut une fleur"
second = load_translator("second")
seen = second.translate("the big white cow wants a flower", french=french)
Table(["la"], seen.english, seen.weights[:1])

# %% ask-pale
predict("04/pale-cell")

# %% see-pale
# %%answer 04/pale-cell
swapped = second.translate("the big white cat wants a flower", french=french)
Table(swapped.french[:1], swapped.english, swapped.weights[:1])

# %% hide [markdown]
# Now the dark cells. We mask one cell in each row of the map. The French word of that row may then not look at that
# English word, and the softmax shares the weight among the others. First we hide the darkest cell of every row, and
# then, as a baseline, the second darkest instead. In which share of the rows does the translator write another word?

# %% hidden-cells
changed = {
    "darkest hidden": changed_without(translator, sentences, rank=0),
    "second darkest hidden": changed_without(translator, sentences, rank=1),
}
written = [w for s in sentences for w in [*s.french.split(), "."]]
row = ["full stops" if w == "." else "words" for w in written]
pd.DataFrame(changed).groupby(row).mean().round(2)

# %% full-stops [markdown]
# The words nearly always need their darkest cell, and seldom the second darkest. (To be fair, a translator with a hidden
# cell is in a situation that never occurred in its training.) The full stops are different. No English word stands for
# them, but the softmax has to put a weight of 1 somewhere. So their rows have dark cells like any others, and yet this
# translator writes most of its full stops without the darkest. (The second translator fails somewhat more often.)
#
# ## A dark cell may carry little
#
# There is one more reason why a dark cell may not matter. A weight says how large a share of a value is taken, but not
# how much there is to take. Back to the trained model behind Figure 4.1, all-MiniLM-L6-v2. Here is another head of its
# first layer, head 6.

# %% head-six jupyter={"source_hidden": true}
show_figure(
    plot_attention(reading.weights[6], queries=reading.tokens, keys=reading.tokens),
    "4.6",
)

# %% contribution [markdown]
# Every token gives its largest weight to `[CLS]`, a marker that the model puts before each sentence. An output is a sum
# with one term for each key: its weight times its value. If the value of one key were 0, the output would move by the
# length of that term, and this is the weight times the length of the value.

# %% ask-carried
predict("04/set-a-value-to-zero")

# %% see-carried
# %%answer 04/set-a-value-to-zero
all_values = layer.attention.v_proj(reading.embedded)  # (8, 384), for twelve heads
values = all_values[:, 6 * 32 : 7 * 32]  # (8, 32): those of head 6
lengths, given = values.norm(dim=-1), reading.weights[6, 3]  # row 3 is that of “sat”
lines = ["weight", "length of the value", "moves the output by"]
Table(lines, reading.tokens, torch.stack([given, lengths, given * lengths]))

# %% the-answer [markdown]
# ## So what does a dark cell prove?
#
# It proves one thing: in this row, the query gave this key a larger share than it gave to the paler ones. The scale says
# how much larger. Everything else needs a test.
#
# | the claim | what you have to do |
# |---|---|
# | "This weight is large." | Read the scale, and compare with the uniform share. |
# | "The model has learned this pattern." | Name the pattern first, take many inputs, and compare with a baseline. |
# | "The model needs this cell." | Take the cell away, and see whether the output changes. |
# | "The model does not use that word." | Change the word. A pale cell is not enough. |
# | "Much of the output comes from this word." | Multiply the weight by the length of the value. |
#
# And the two maps from the beginning?

# %% reveal
between_the_two = (shown[:, 1] - shown[:, 5]).abs().amax(dim=-1)  # rows of “the”
dict(zip("AB", [["trained", "noise"][i] for i in order], strict=True)), between_the_two

# %% reveal-read [markdown]
# If you guessed correctly, what was your reason? There is one that can be named. The sentence has the word *the* twice,
# in rows 1 and 5, and the cell has computed how far these two rows differ at most, in map A and in map B. In the trained
# map they are nearly the same. But the two tokens have similar vectors to begin with, and an untrained layer tends to
# give such tokens similar rows as well. So one map of one sentence proves neither that a model was trained nor what it
# has learned.

# %% further [markdown]
# ## Further
#
# Here are two more patterns that are often misread. If you are tired, go on to **What to remember**.
#
# ### A dark diagonal
#
# In self-attention a dark diagonal means that every token looks most at itself. Is that a finding? It depends on how
# queries and keys are made. Here are 500 sentences of ten random tokens, first with query = key = token, and then with
# one random matrix for the queries and another one for the keys, as in a layer before training (lesson 6). How often is
# the weight on the diagonal the largest of its row?

# %% diagonal
torch.manual_seed(0)
many_x = torch.randn(500, 10, 64)  # (N, L, E)
W_Q, W_K = torch.randn(2, 500, 64, 64) / 8  # two matrices for each sentence
same_vectors = attention_scores(many_x, many_x).argmax(dim=-1)
two_matrices = attention_scores(many_x @ W_Q, many_x @ W_K).argmax(dim=-1)
[(one == torch.arange(10)).float().mean() for one in (same_vectors, two_matrices)]

# %% diagonal-read [markdown]
# Without the matrices, the dot product of a random token with itself is its squared length, about 64, and with another
# token it is about 0, give or take 8. So the diagonal is dark before anything has been learned. With two random matrices
# it is at 10%, which is chance. So before you read something into a diagonal, ask what an untrained layer of the same
# kind does. (Nothing forces a diagonal either: a longer neighbour in a similar direction has a larger dot product.)
#
# ### Equal words
#
# "Equal words attend strongly to each other, and a word that resembles no other attends to itself." Let us test that.
# Tokens 0 and 2 are the same vector, token 1 is at a right angle to them, and query, key and value are the tokens.

# %% three-tokens
a, b = [1.0, 0, 1, 0], [0.0, 1, 0, 1]
three = torch.tensor([a, b, a])
of_three = attention_weights(attention_scores(three, three))
of_three

# %% three-figure jupyter={"source_hidden": true}
_, axes = plt.subplots(1, 2, figsize=(7, 2.9), layout="constrained")
labels = ["0 (a)", "1 (b)", "2 (a)"]
ends = {"fitted": (of_three.min().item(), of_three.max().item()), "from 0 to 1": (0, 1)}
for ax, (title, (low, high)) in zip(axes, ends.items(), strict=True):
    look = {"annotate": False, "vmin": low, "vmax": high, "title": title}
    plot_attention(of_three, ax=ax, queries=labels, keys=labels, **look)
    bar = ax.figure.colorbar(ax.collections[0], ax=ax, shrink=0.9)
    bar.set_ticks([low, high], labels=[f"{round(end, 4):g}" for end in (low, high)])
show_figure(axes[0], "4.7")

# %% three-read [markdown]
# With fitted colours, the two a's seem to ignore b altogether. In fact each gives it 0.155, because a score of 0 still
# counts. Token b is the only one of its kind, and it gives 42% of its attention away. And each a gives its copy exactly
# as much as itself, wherever the copy is: put ten b's between the two, and nothing changes between the copies. (A mask
# or added positions would change that.) But numbers do matter:

# %% crowd
crowd = torch.tensor([a, *[b] * 10, a])  # (12, 4)
of_a = attention_weights(attention_scores(crowd, crowd))[0]
of_a[[0, 11]], of_a[1:11].sum()

# %% remember [markdown]
# ## What to remember
#
# - A row asks, and a column is looked at. Rows sum to 1, columns need not. In cross-attention the map need not be square.
#   Name a cell by its query and its key.
# - A colour is a number only if you know the scale. Use the scale from 0 to 1, or state another, and compare with the
#   uniform share.
# - Redraw before you explain. In more than nine out of ten random tables of four by four, two or more queries preferred
#   the same key.
# - A pattern is evidence if it was named before looking, holds for many inputs, and beats a baseline.
# - A dark cell need not matter, and a pale one may: take it away, change the word, look at the length of the value.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (5 minutes)
#
# "A word that resembles no other word attends almost entirely to itself." Test the claim on the tokens **a, b, a, a**.
# Here a is the vector (1, 0, 1, 0) and b is (0, 1, 0, 1), and query and key are the tokens themselves. Which four weights
# does b give? You may use `math.exp`, but not a softmax.
#
# <details><summary>Hint</summary>
#
# What is the score of b with itself, after the division by the root of 4, and what is its score with each a? What is $e$
# to each of them?
# </details>

# %%
import math

from attnlab.exercises import check_contributions, check_darkest_range
from attnlab.exercises import check_lonely_weights, check_sharp_factor


# %% tags=["exercise"]
def lonely_weights():
    """Return four weights as a list, for the keys a, b, a, a."""


# %%
check_lonely_weights(lonely_weights)


# %% tags=["solution"] jupyter={"source_hidden": true}
def lonely_weights_solution():
    total = math.e + 3  # e to the 1 for itself, e to the 0 for each a
    return [1 / total, math.e / total, 1 / total, 1 / total]


check_lonely_weights(lonely_weights_solution)

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# With only two a's, that is with the tokens a, b, a, token b keeps a weight of 0.576. Multiply **all features of all
# tokens** by one positive number. What is the smallest number for which b gives itself at least 0.99? Round it up to two
# decimals.
#
# <details><summary>Hint</summary>
#
# The query and the key both grow. If the features grow by a factor of $c$, by which factor does their dot product grow?
# You can also try some numbers.
# </details>


# %% tags=["exercise"]
def sharp_factor():
    """Return the positive number."""


# %%
check_sharp_factor(sharp_factor)


# %% tags=["solution"] jupyter={"source_hidden": true}
def sharp_factor_solution():
    # score c * c: e^(c*c) / (e^(c*c) + 2) = 0.99, so e^(c*c) = 198
    return math.ceil(100 * math.sqrt(math.log(198))) / 100


check_sharp_factor(sharp_factor_solution)

# %% exercise-3 [markdown]
# ### 3 · Implement ★★ (8 minutes)
#
# Write the measure of this lesson for any layer: how far the output of each query moves if the value of a key is set to
# 0. It should work for one map, for a batch, and for a batch with heads.
#
# <details><summary>Hint</summary>
#
# `value.norm(dim=-1)` has one length per key, shape (..., S). Each length belongs to a *column* of the weights, so it has
# to be the same for all rows: `[..., None, :]` adds the axis of the rows.
# </details>


# %% tags=["exercise"]
def contributions(weights, value):
    """weights (..., L, S), value (..., S, Ev) -> how far outputs move, (..., L, S)."""


# %%
check_contributions(contributions)


# %% tags=["solution"] jupyter={"source_hidden": true}
def contributions_solution(weights, value):
    return weights * value.norm(dim=-1)[..., None, :]


check_contributions(contributions_solution)

# %% exercise-4 [markdown]
# ### 4 · Derive ★★★ (12 minutes)
#
# A paper prints a heatmap of weights, without numbers and without a colour bar. There is no mask, and the colours were
# fitted. You can measure how dark each cell is: `shades` holds 0 for the palest cell, 1 for the darkest, and the others
# lie between them in proportion to their weights. You cannot know the weight of the darkest cell, but you can say how
# small and how large it may be. Write a function that returns these two numbers. White may be any weight from 0 on.
#
# <details><summary>Hint</summary>
#
# Call the weight of a white cell $w$ and that of the darkest cell $d$. A cell of shade $s$ then holds $w + s (d - w)$, and
# each row sums to 1. What is $d$ if $w = 0$? And how close can $d$ come to $w$?
# </details>


# %% tags=["exercise"]
def darkest_range(shades):
    """shades (L, S) -> least and greatest weight of the darkest cell."""


# %%
check_darkest_range(darkest_range)


# %% tags=["solution"] jupyter={"source_hidden": true}
def darkest_range_solution(shades):
    # S w + (d - w) sum(s) = 1: w = 0 gives d = 1 / sum(s), w = d gives d = 1 / S
    return 1 / shades.shape[-1], 1 / shades[0].sum()


check_darkest_range(darkest_range_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (5 minutes)
#
# A blog shows one sentence and writes: "In head 3 the full stop gets 60% of the attention, so punctuation matters to the
# model." Name three questions that you would ask. Then compare.
#
# <details><summary>An answer</summary>
#
# In which rows, and on which scale? How was the head chosen: before or after looking at all of them? Does another sentence
# show the same, and does an untrained model? Is the value of the full stop long, or close to 0? Does the output change if
# the full stop is hidden? And in which layer is this? After the first one, the full stop's place holds a mixture of
# several words.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `nn.MultiheadAttention` returns output and weights. The weights are averaged over the heads unless you pass
# `average_attn_weights=False`, and they are `None` if you pass `need_weights=False`.
# `F.scaled_dot_product_attention` returns only the output.
#
# To draw weights with other libraries, fix the scale: `plt.imshow(weights, vmin=0, vmax=1)` or `sns.heatmap(weights,
# vmin=0, vmax=1)`. Both fit the colours to the table if you leave the limits out.

# %% torch-weights
three_times = query[None], query[None], query[None]  # (N, L, E)
layer_of_torch = torch.nn.MultiheadAttention(8, num_heads=2, batch_first=True).eval()
output, mean_of_heads = layer_of_torch(*three_times)
output, each_head = layer_of_torch(*three_times, average_attn_weights=False)
mean_of_heads.shape, each_head.shape  # (N, L, S) and (N, H, L, S)

# %% sources [markdown]
# ## Sources
#
# - Bahdanau et al., [Neural Machine Translation by Jointly Learning to Align and
#   Translate](https://arxiv.org/abs/1409.0473), 2015: the translation map. Its figure 3 shows adjectives that cross their
#   nouns, and an article that looks at its noun. Our toy translator follows that model, in a much simpler form.
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.3: self-attention and
#   cross-attention in a Transformer.
# - Clark et al., [What Does BERT Look At?](https://arxiv.org/abs/1906.04341), 2019, section 3.2: attention that is left on
#   separators.
# - Kobayashi et al., [Attention is Not Only a Weight](https://arxiv.org/abs/2004.10102), 2020: weight times length.
# - Jain and Wallace, [Attention is not Explanation](https://arxiv.org/abs/1902.10186), 2019, on recurrent classifiers, and
#   the answer of Wiegreffe and Pinter, [Attention is not not Explanation](https://arxiv.org/abs/1908.04626), 2019.
# - The trained layer is the first attention layer of
#   [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2) (Apache-2.0).

# %% next [markdown]
# ## Next
#
# Lesson 5, [What does "bank" mean here?](05_what_does_bank_mean_here.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.** The two maps, with a show of hands that you write on the board: 4. The translation and the explorer: 12.
# Colours: 6. Chance: 10. Evidence and taking the cell away: 11. The short value and the answer: 7.
#
# **Where a class stalls.** *"Dark is important":* hide the numbers of a map, let the class bet on one weight, then show
# them. *Chance:* let each row of the room take one table of the slider and defend its "important word" for a minute.
# *The pale cell:* ask what would have to be true of the key of *cat* for the translator to notice it.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the wrong answers are tempting</summary>
#
# **1.** Four questions ask nine words. What sums to 1? **Each of the four rows.** *Each column* reads the table from the
# side of the keys. *The whole table* takes it for a single distribution.
#
# **2.** The colours are fitted, there are eight keys and no mask. What is the least weight that the darkest cell can have?
# **1/8.** *0.6* takes dark for large. *0* forgets that the rows sum to 1.
#
# **3.** In 3 of 4 heads of a model, "it" looks most at "animal". What is missing? **A baseline, other sentences, and the
# number of heads that were looked at before.** *Nothing, 3 of 4 is most* forgets that the pattern was found by looking.
#
# **4.** A cell has the weight 0.9. You hide it, and the output stays the same. Is that possible? **Yes.** *No, 0.9 is
# most of it* forgets that the value may be short, that other values may be alike, and that the rest of the model may not
# need it.
#
# **5.** A cell has the weight 0.00. You replace the word. May the output change? **Yes.** *No* forgets that the new
# word has another key, and with it another weight.
# </details>
