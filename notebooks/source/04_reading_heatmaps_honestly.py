# %% opening [markdown] above="What does a dark" below="Which of the two" end="What does a dark"
# # 4 · Reading heatmaps honestly
#
# Below are two heatmaps for one sentence.
# One comes from a model that was trained on English text.
# The other is noise: its queries and keys were drawn at random,
# and the words were added as labels afterwards.
# Which of the two maps comes from the trained model?
# Write down your guess and what led you to it.
#
# People find a dark cell in such a map and write that the model “connects” two words.
# What does a dark cell prove?
#
# **You need:** [lesson 1](01_attention_is_a_soft_look_up.ipynb) for scores, weights and values,
# and from [lesson 3](03_masks_who_may_look_at_whom.ipynb) what a mask does.
#
# **You will be able to:** read a cell, a row and a column of a heatmap,
# say what a colour tells you without a scale, test a pattern against chance,
# and find out whether a dark cell matters by taking it away.
#
# **Time:** 46 minutes in class, or 80 on your own with the exercises.
# “Further” takes another 5.

# %% setup
import matplotlib.pyplot as plt
import pandas as pd
import torch
from IPython.display import display

from attnlab import Table, attention_scores, attention_weights, causal_mask, data_path
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.plotting import plot_attention, plot_heads
from attnlab.models.pretrained import load_layer
from attnlab.models.translator import kinds_of_words, load_translator, make_sentences

lesson_setup()

# %% two-maps
layer = load_layer()  # the first layer of the trained model
tokens, embedded, _, trained = layer.read("the cat sat on the mat")  # twelve maps
torch.manual_seed(0)
query, key = torch.randn(2, 8, 8)
# the scores of lesson 1, and then a softmax in each row
noise = attention_weights(attention_scores(query, key))
order = torch.randperm(2)  # shuffled, so that the code does not give the answer away
shown = torch.stack([trained[3], noise])[order]
titles = ["map A", "map B"]
fig = plot_heads(shown, queries=tokens, keys=tokens, titles=titles)
show_figure(fig, "4.1")

# %% who-asks [markdown] below="We trained a toy"
# The trained model puts the markers `[CLS]` and `[SEP]` around each sentence.
# Its first layer computes twelve maps, one in each of its *heads* (lesson 7).
# Figure 4.1 shows the map of head 3, which we chose because it is hard to tell from noise.
#
# ## A map with known answers
#
# We trained a toy translator, from English into French, on sentences of a small grammar.
# Before it writes a French word,
# it makes a query from the French words so far and looks at the English sentence.
# Attention is its only view of that sentence.
# (This is [cross-attention](glossary.ipynb#cross-attention).)

# %% translate
translation = load_translator(0).translate("the black cat sees a small house")
french, english = translation.french, translation.english
ax = plot_attention(translation.weights, queries=french, keys=english)
show_figure(ax, "4.2")

# %% read-map [markdown] above="To read a cell" below="A larger map has"
# Each row belongs to a query: the step in which the translator wrote that French word.
# A row sums to 1, because a query shares its attention among the keys.
# Each column belongs to a key, an English word, and need not sum to 1.
#
# To read a cell, name its query and its key: “when it wrote *chat*,
# the translator gave 0.98 of its attention to *cat*”.
#
# ## What does a colour say?
#
# A larger map has no room for numbers.
# The usual plotting functions, seaborn’s `heatmap` and matplotlib’s `imshow`,
# *fit* the colours to each table:
# one end of the scale stands for its smallest number and the other for its largest.
# By default the *smallest* is dark in both.

# %% ask-darkest
predict("04/darkest-cell")

# %% see-darkest
# %%answer 04/darkest-cell
torch.manual_seed(42)
query, key = torch.randn(2, 4, 8)  # (L, E) and (S, E)
weights = attention_weights(attention_scores(query, key))
faint = attention_weights(attention_scores(query / 1000, key))
fitted = [(cells, cells.min().item(), cells.max().item()) for cells in (weights, faint)]
_, axes = plt.subplots(1, 3, figsize=(7.6, 2.2), layout="constrained")
for ax, (cells, low, high) in zip(axes, [*fitted, (faint, 0, 1)], strict=True):
    plot_attention(cells, ax=ax, annotate=False, vmin=low, vmax=high)
    bar = ax.figure.colorbar(ax.collections[0], ax=ax)
    bar.set_ticks([low, high], labels=[f"{round(end, 4):g}" for end in (low, high)])
show_figure(axes[0], "4.3")

# %% house-rule [markdown] above="The first two pictures" answers="04/darkest-cell"
# With four keys, the darkest cell holds 0.25 or more, and the colour alone says no more.
# The first two pictures look alike,
# yet in the second one every weight is between 0.2497 and 0.2504.

# %% our-rule [markdown]
# ### Our rule
#
# In this series, dark is large, and the scale for weights runs from 0 to 1 unless a colour bar says
# otherwise.

# %% could-it-be-chance [markdown] below="The table on the"
# ## Could it be chance?
#
# The table on the left of Figure 4.3 comes from random queries and keys.
# Here is a story about it: “Queries 2 and 3 both attend most to key 3.
# The last word of a sentence often holds the clue, and the model has learned that.”
# Nothing here has learned anything.
# Is the pattern rare among 2,000 such tables?

# %% ask-chance
predict("04/chance-of-agreement")

# %% see-chance
# %%answer 04/chance-of-agreement
torch.manual_seed(0)
queries, keys = torch.randn(2, 2000, 4, 8)
many = attention_weights(attention_scores(queries, keys))  # (2000, 4, 4)
favourite = many.argmax(dim=-1)  # (2000, 4): the key that each query prefers
this_story = (favourite[:, 2] == 3) & (favourite[:, 3] == 3)
votes = torch.nn.functional.one_hot(favourite).sum(dim=1)  # (2000, 4): for each key
some_story = votes.amax(dim=-1) >= 2
print(f"this story:            {this_story.float().mean():.0%} of the tables")
print(f"some story of its kind: {some_story.float().mean():.0%} of the tables")

# %% choose-after [markdown] above="Our story holds in" below="Move the slider to" answers="04/chance-of-agreement"
# Our story holds in only 7% of the tables, but some story of its kind holds in 92% of them.
# The trap is that we chose the story *after* we had seen the table.
#
# Move the slider to another table, and write one sentence about “the important key” in it.
# Is your sentence still true in the next table?

# %% draw-again
from attnlab.explorers import live


def draw(fig, table):
    plot_attention(many[table], ax=fig.subplots())
    return f"Table {table}: queries 0 to 3 prefer the keys {favourite[table].tolist()}."


live(draw, table=list(range(6)), figsize=(3.6, 3.2), alt="Weights of random queries.")

# %% what-would-be-evidence [markdown] below=["We trained eight translators", "For the translator we can"]
# ## What would be evidence?
#
# A pattern is evidence if you name it *before* you look, find it in *many inputs*,
# and find it more often than in a [**baseline**](glossary.ipynb#baseline).
# For the translator we can say in advance where each step should look:
# at the English word that the French word translates, its *partner*.
#
# We trained eight translators, which differ only in their random start.
# We take 200 sentences on which none was trained, and two baselines:
# translator 0 before its training, and the English word in the *same position*.

# %% unseen
# these seeds made the batches of 64 sentences for the training
trained_on = {s.english for seed in range(1500) for s in make_sentences(64, seed=seed)}
unseen = [s for s in make_sentences(1000, seed=1500) if s.english not in trained_on]
sentences = unseen[:200]
translators = [load_translator(seed) for seed in range(8)]
errors = 0
for translator in translators:
    for english, french, _ in sentences:
        # with the correct French words so far, so that an error cannot spread
        result = translator.translate(english, french=french).french
        errors += result != [*french.split(), "."]
print("wrong translations:", errors)
sentences[0]  # with its translation and the partners of the French words


# %% on-partner
def partner_is_darkest(translator):
    hits = []
    for english, french, partner in sentences:
        weights = translator.translate(english, french=french).weights
        hits.append(weights[:-1].argmax(dim=-1) == partner)  # without the full stop
    return torch.cat(hits)


hits = {f"translator {i}": partner_is_darkest(t) for i, t in enumerate(translators)}
hits["untrained"] = partner_is_darkest(load_translator(0, trained=False))
partners = [partner for _, _, partner in sentences]
hits["same position"] = torch.cat([p == torch.arange(len(p)) for p in partners])
kinds = kinds_of_words(sentences)  # “la, une”, “le, un” or “others”
pd.DataFrame(hits).groupby(kinds).mean().T.round(2)

# %% look-at-articles [markdown] above="For nouns, verbs and"
# For nouns, verbs and adjectives (“others”), the darkest cell is always in the partner’s column,
# in all eight translators.
# The same position is right in only 51% of these rows, and the untrained translator in 19%.
# So this is evidence.
# For articles a high number would not be: their partner always stands in the same position.
#
# But we saw something in the articles, after looking.
# A French article agrees with its noun: *le chat* but *la vache*.
# Five translators attend most to the partner of *la* and *une*,
# but rarely to that of *le* and *un*.
# The other three do the opposite, and none of the eight makes an error.

# %% hide [markdown] below="In all 200 sentences"
# ## Take the cell away
#
# In Figure 4.2, *le* looks more at *cat* than at *the*.
# Does a translator *use* such a cell?
# To *hide* a cell means to mask it: the softmax then shares out its weight among the other words.
# In all 200 sentences, we hide the noun in the row of its article.
# As a control, we hide the other noun.

# %% hide-one
from attnlab.models.translator import NOUNS

articles = ["la", "le", "un", "une"]


def without_noun(translator, other=False):
    written = []
    for english, french, _ in sentences:  # with two articles and two nouns each
        rows = [i for i, word in enumerate(french.split()) if word in articles]
        columns = [i for i, word in enumerate(english.split()) if word in NOUNS]
        cells = list(zip(rows, columns[::-1] if other else columns, strict=True))
        words = translator.translate(english, french=french, hidden=cells).french
        written += [words[row] for row in rows]
    return written


correct = [word for s in sentences for word in s.french.split() if word in articles]
assert all(without_noun(t, other=True) == correct for t in translators)
written = {f"translator {i}": without_noun(t) for i, t in enumerate(translators)}
pd.DataFrame({"correct": correct, **written}).drop_duplicates().set_index("correct").T

# %% hide-many [markdown] above="Without its noun, every"
# Without its noun, every article becomes feminine in five translators and masculine in three.
# With the other noun hidden, which had at most 0.09 of the weight, no article changes.
# So without its noun an article has one gender, and a noun of the other overrides it.
#
# And a pale cell does not prove that the word in its column plays no part.
# When the five write *la* or *une* in these sentences, its noun gets at most 0.21 of the weight.
# Yet with a masculine noun in its place, they write *le* or *un*.

# %% values [markdown] below="We picked head 6"
# ## What a weight multiplies
#
# The trained layer writes no words: we have only its output.
# The output of a head is a sum with one term for each key, its weight times its value.
# Is the term of a dark cell a long one?
# We picked head 6, in which most queries prefer `[CLS]`.


# %% head-six
def head_six(text):
    tokens, embedded, _, weights = layer.read(text)
    values = layer.attention.v_proj(embedded)  # (S, 384), 32 columns for each head
    values = values[:, 6 * 32 : 7 * 32]  # (S, 32), those of head 6
    return tokens, weights[6], values


tokens, weights_six, values = head_six("the cat sat on the mat")
ax = plot_attention(weights_six, queries=tokens, keys=tokens)
lengths = Table(["length of the value"], tokens, values.norm(dim=-1)[None])
display(show_figure(ax, "4.4"), lengths)

# %% one-row-proves-little [markdown] below=["One sentence proves little", "In 35 sentences with", "*Zeroing* a key sets"]
# Here it is not: in every row, *sat* or *mat* has the longest term.
# One sentence proves little.
# In 35 sentences with the word *bank*, 241 rows of words give `[CLS]` the largest weight of head 6.
# In how many of them does the output move furthest if we take `[CLS]` away,
# rather than another key?
#
# *Zeroing* a key sets its value to 0, so the output moves by the length of its term.
# *Hiding* masks it: with weight $w$ and value $v$,
# the output $o$ moves by $\frac{o-wv}{1-w}-o=\frac{w}{1-w}(o-v)$.
#
# Add one vector to all values and subtract it again from the output, and nothing changes,
# since the weights of a row sum to 1.
# So the 0 of the values is arbitrary, and we try three.


# %% see-carried
def zeroing(weights, values):  # (L, S): how far each output moves if a value is 0
    return weights * values.norm(dim=-1)


def hiding(weights, values):  # (L, S): how far each output moves if a key is hidden
    return weights / (1 - weights) * torch.cdist(weights @ values, values)


texts = pd.read_csv(data_path("bank_sentences.csv")).sentence
stored = [head_six(text)[1:] for text in texts]


def rows_of_marker(way, shift=0):  # [CLS] is darkest, and moves the output most
    rows = 0
    for weights, values in stored:
        darkest = weights.argmax(dim=-1) == 0  # (L,)
        moves_most = way(weights, values + shift).argmax(dim=-1) == 0
        rows += (darkest & moves_most)[1:-1].sum().item()  # without the markers’ rows
    return rows


# %% count-rows
mean = torch.cat([v[1:-1] for _, v in stored]).mean(dim=0)  # the mean value of a word
vector = torch.randn(32, generator=torch.Generator().manual_seed(0))
shifts = {"values": 0, "values plus a vector": vector, "values minus their mean": -mean}
zeroed = [rows_of_marker(zeroing, shift) for shift in shifts.values()]
hidden = [rows_of_marker(hiding, shift) for shift in shifts.values()]
pd.DataFrame({"zeroed": zeroed, "hidden": hidden}, list(shifts))  # of 241 rows

# %% weight-and-movement jupyter={"source_hidden": true}
from attnlab.palette import BLUE, ORANGE

_, axes = plt.subplots(1, 2, figsize=(7.2, 3.1), layout="constrained")
panels = {"value set to 0": zeroing, "key hidden": hiding}
for ax, (title, way) in zip(axes, panels.items(), strict=True):
    for chosen, colour, name in ((False, BLUE, "other keys"), (True, ORANGE, "[CLS]")):
        points = []
        for w, v in stored:
            rows = 1 + (w[1:-1].argmax(dim=-1) == 0).nonzero().flatten()
            keys = [0] if chosen else range(1, w.shape[1])
            points += [torch.stack([w[rows, k], way(w, v)[rows, k]]) for k in keys]
        across, up = torch.cat(points, dim=1)
        ax.scatter(across, up, s=7, color=colour, alpha=0.5, linewidth=0, label=name)
    ax.set(title=title, xlabel="weight", xlim=(0, 0.8), ylim=(0, 1.6))
axes[0].set_ylabel("the output moves by")
axes[0].legend(loc="upper right", markerscale=2.5)
show_figure(axes[0], "4.5")

# %% carried-read [markdown] above="How much a dark"
# Zeroing finds 6 rows, 231 or 74, depending on where the 0 lies.
# Hiding does not depend on it, and finds 141: in the other 100,
# hiding a paler cell moves the output further.
# How much a dark cell matters depends on what takes its place.

# %% the-answer [markdown] below="And the two maps" end="One thing: in this"
# ## So what does a dark cell prove?
#
# One thing: in this row, the query gave this key a larger share than it gave the keys of the paler
# cells.
# Everything else needs a test: random tables, a baseline, another trained model,
# or taking the cell away.
#
# And the two maps from the beginning?

# %% reveal
which = ["trained", "noise"]
print("map A:", which[order[0]], " map B:", which[order[1]])  # order: the shuffle above
torch.manual_seed(0)
# queries and keys from the same word vectors, but with random matrices
to_query, to_key = torch.randn(2, 384, 32) / 384**0.5
untrained = attention_weights(attention_scores(embedded @ to_query, embedded @ to_key))
maps = {"trained, head 3": trained[3], "noise": noise, "untrained": untrained}
labels = [f"{name}: “the” at {row}" for name in maps for row in (1, 5)]
Table(labels, tokens, torch.cat([one_map[[1, 5]] for one_map in maps.values()]))

# %% reveal-read [markdown] above="One reason for a"
# One reason for a guess can be checked.
# In the trained map, the two rows of *the* are nearly the same: they differ by at most 0.05,
# and in the noise by up to 0.45.
# But we found this reason only after looking,
# and the two rows of the untrained map differ by at most 0.02.
#
# So neither this reason nor a dark cell proves that attention was trained,
# or that it “connects” two words.

# %% further [markdown]
# ## Further
#
# ### The first words of a causal map
#
# A mask makes patterns too.
# Here are 2,000 random tables of eight tokens under a causal mask,
# which lets no token attend to a later one.

# %% causal-noise
torch.manual_seed(0)
queries, keys = torch.randn(2, 2000, 8, 8)
scores = attention_scores(queries, keys).masked_fill(~causal_mask(8), -torch.inf)
causal = attention_weights(scores)  # (2000, 8, 8)
lines = ["largest weight in the row", "sum of the column"]
means = torch.stack([causal.amax(dim=-1).mean(dim=0), causal.sum(dim=-2).mean(dim=0)])
Table(lines, [f"token {i}" for i in range(8)], means)

# %% evidence [markdown]
# The first row always holds a 1.00, because token 0 has only itself to attend to,
# and the next rows are dark because they have few keys.
# Token 0 gets the most attention, about 2.72 on average.
# This needs no simulation.
# No key is special in these tables, so on average each of the $n$ keys of a row gets $1/n$.
# Token 0 may be looked at from rows of 1, 2, ..., 8 keys: $1 + 1/2 + \dots + 1/8 = 2.718$.
# Token 7 is in the last row only, with $1/8$.
# So before you say that a model concentrates on the first word,
# compare its columns with these sums.

# %% remember [markdown] end=["A colour stands for", "Before you explain a", "Change the word, take"]
# ## What to remember
#
# - A row belongs to a query, and a column to a key.
#   Rows sum to 1; columns need not.
#   Name a cell by its query and its key.
# - A colour stands for a number only if you know the scale.
#   With $n$ keys, the darkest cell of a row holds $1/n$ or more.
# - Before you explain a pattern, draw random tables and look for it there.
#   In most of our random four-by-four tables, two or more queries preferred the same key.
# - A pattern is evidence if it was named before anyone looked, holds for many inputs,
#   and beats a baseline.
#   Even then, it is the pattern of one model: another one may do the same work in the opposite way.
# - Taking a dark cell away may move the output less than taking away a paler one,
#   and another word in the column of a pale cell may change the result.
#   Change the word, take the cell away in more than one way, and say what takes its place.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (5 minutes)
#
# “A word that resembles no other word attends almost entirely to itself.”
# Test the claim on the tokens **a, b, a, a**.
# Here a is the vector (1, 0, 1, 0) and b is (0, 1, 0, 1),
# and the tokens themselves serve as queries and keys.
# Which four weights does b give?
# You may use `math.exp`, but not a softmax.
#
# <details><summary>Hint</summary>
#
# What is the score of b with itself, after the division by the square root of 4,
# and what is its score with each a?
# What is $e$ raised to each of them?
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


# %% tags=["solution"]
def lonely_weights_solution():
    total = math.e + 3  # e to the 1 for itself, e to the 0 for each a
    return [1 / total, math.e / total, 1 / total, 1 / total]  # b keeps less than half


check_lonely_weights(lonely_weights_solution)

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# With only two a’s (that is, with the tokens a, b, a), token b keeps a weight of 0.576.
# Multiply *all features of all tokens* by one positive number.
# What is the smallest number for which b gives itself a weight of at least 0.99?
# Round up to two decimal places.
#
# <details><summary>Hint</summary>
#
# The query and the key both grow.
# If the features grow by a factor of $c$, by what factor does their dot product grow?
# You can also try some numbers.
# </details>


# %% tags=["exercise"]
def sharp_factor():
    """Return the positive number."""


# %%
check_sharp_factor(sharp_factor)


# %% tags=["solution"]
def sharp_factor_solution():
    # score c * c: e^(c*c) / (e^(c*c) + 2) = 0.99, so e^(c*c) = 198
    return math.ceil(100 * math.sqrt(math.log(198))) / 100


check_sharp_factor(sharp_factor_solution)

# %% exercise-3 [markdown]
# ### 3 · Implement ★ (5 minutes)
#
# Write `contributions`, which does the same as `zeroing`, for any layer:
# how far the output of each query moves if the value of a key is set to 0.
# It should work for one map, for a batch of maps, and for a batch with heads,
# in which each sentence has several maps.
#
# <details><summary>Hint</summary>
#
# `value.norm(dim=-1)` has one length per key, shape (..., S).
# Each length belongs to a *column* of the weights, so it has to be the same for all rows:
# `[..., None, :]` adds the axis of the rows.
# </details>


# %% tags=["exercise"]
def contributions(weights, value):
    """weights (..., L, S), value (..., S, Ev) -> how far outputs move, (..., L, S)."""


# %%
check_contributions(contributions)


# %% tags=["solution"]
def contributions_solution(weights, value):
    return weights * value.norm(dim=-1)[..., None, :]


check_contributions(contributions_solution)

# %% exercise-4 [markdown]
# ### 4 · Derive ★★★ (12 minutes)
#
# A paper prints a heatmap of weights, without numbers and without a colour bar.
# There is no mask, and the colours were fitted.
# You can measure how dark each cell is: `shades` holds 0 for the palest cell, 1 for the darkest,
# and for each other cell a number in between, which grows linearly with its weight.
# You cannot know the weight of the darkest cell, but you can say how small and how large it may be.
# Write a function that returns these two bounds.
# The palest cell may stand for any weight from 0 upwards.
#
# <details><summary>Hint</summary>
#
# Call the weight of the palest cell $w$ and that of the darkest cell $d$.
# A cell of shade $s$ then holds $w + s (d - w)$, and each row sums to 1.
# (So the shades of all rows have the same sum, too.)
# What is $d$ if $w = 0$?
# And how close can $d$ come to $w$?
# </details>


# %% tags=["exercise"]
def darkest_range(shades):
    """shades (L, S) -> lower and upper bound for the weight of the darkest cell."""


# %%
check_darkest_range(darkest_range)


# %% tags=["solution"]
def darkest_range_solution(shades):
    # S w + (d - w) sum(s) = 1: w = 0 gives d = 1 / sum(s), w = d gives d = 1 / S
    # every row of shades has the same sum, so the first one is enough
    return 1 / shades.shape[-1], 1 / shades[0].sum()


check_darkest_range(darkest_range_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (5 minutes)
#
# A blog post shows the map of one sentence and says:
# “In head 3 the full stop gets 60% of the attention, so punctuation matters to the model.”
# Name three questions that you would ask.
# Then compare your questions with ours.
#
# <details><summary>An answer</summary>
#
# In which rows, and on which scale?
# Was the head chosen before or after all the heads had been examined?
# Does the same pattern appear in other sentences, and does it appear in an untrained model?
# If the full stop is hidden, does the output move further than if another word is hidden?
# </details>

# %% in-torch [markdown] below="`nn.MultiheadAttention` computes several"
# ## In torch
#
# `nn.MultiheadAttention` computes several heads and returns the output and the weights.
# It averages the weights over the heads unless you pass `average_attn_weights=False`,
# and returns `None` in their place if you pass `need_weights=False`.
# `F.scaled_dot_product_attention` returns only the output.
#
# To draw weights with other libraries, fix the scale and choose colours in which dark is large:
# `plt.imshow(one_map, cmap="Blues", vmin=0, vmax=1)` or
# `sns.heatmap(one_map, cmap="Blues", vmin=0, vmax=1)`.
# Here `one_map` is, for example, `mean_of_heads[0].detach()` from the next cell.

# %% torch-weights
x = torch.randn(1, 4, 8)  # (N, L, E)
layer_of_torch = torch.nn.MultiheadAttention(8, num_heads=2, batch_first=True).eval()
output, mean_of_heads = layer_of_torch(x, x, x)
output, each_head = layer_of_torch(x, x, x, average_attn_weights=False)
mean_of_heads.shape, each_head.shape  # (N, L, S) and (N, H, L, S)

# %% traced [markdown] below="attnlab has attention as"
# attnlab has attention as one function, and a second one that also returns weights and scores.

# %% trace
from attnlab import scaled_dot_product_attention, trace_attention

trace = trace_attention(x, x, x)  # output, weights, scores
assert torch.equal(trace.output, scaled_dot_product_attention(x, x, x))
trace.weights.shape, trace.scores.shape

# %% sources [markdown]
# ## Sources
#
# - Bahdanau et al.,
#   [Neural Machine Translation by Jointly Learning to Align and Translate](https://arxiv.org/abs/1409.0473),
#   2015: the translation map.
#   Its figure 3 shows adjectives and nouns that change places,
#   and an article that looks at its noun.
#   Our toy translator follows that model, in a much simpler form.
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.2.3: self-attention and cross-attention
#   (there “encoder-decoder attention”) in a Transformer.
# - Clark et al., [What Does BERT Look At?](https://arxiv.org/abs/1906.04341), 2019, section 3.2:
#   attention that is left on separators.
# - Kobayashi et al., [Attention is Not Only a Weight](https://arxiv.org/abs/2004.10102), 2020:
#   weight times length.
#   They take the length after the output matrix of the head, and we take it before.
# - Jain and Wallace, [Attention is not Explanation](https://arxiv.org/abs/1902.10186), 2019,
#   on recurrent models, and the reply by Wiegreffe and Pinter,
#   [Attention is not not Explanation](https://arxiv.org/abs/1908.04626), 2019.
# - The trained layer is the first attention layer of
#   [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2) (Apache-2.0).

# %% next [markdown]
# ## Next
#
# Lesson 5, [What does “bank” mean here?](05_what_does_bank_mean_here.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 46 minutes, and where a class stalls</summary>
#
# **46 minutes.**
# The two maps, with a show of hands (write the result on the board): 4.
# The translator and the colours: 8.
# Chance and the slider: 12.
# Evidence and taking the cell away: 10.
# The values of head 6: 9.
# The answer: 3.
# Set “Further” as homework.
#
# **Where a class stalls.**
# *“Dark is important”:* hide the numbers of a map, let the class bet on one weight,
# and then show the numbers.
# *Chance:* let each row of students take one position of the slider and defend its “important key”
# for a minute.
# *The pale cell:* ask what a translator that writes *la* if it sees no noun has to look for.
# *Three zeros:* add 10 to every value on the board, and ask what becomes of the mean.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# Four questions attend to nine words.
# What sums to 1?
# **Each of the four rows.**
# *Each column* reads the table from the side of the keys.
# *The whole table:* this treats the table as a single distribution.
#
# **2.**
# The colours are fitted, and there are eight keys and no mask.
# What is the smallest weight that the darkest cell can have?
# **1/8.**
# *0.6:* this assumes that a dark cell always means a large weight.
# *0:* this forgets that the rows sum to 1.
#
# **3.**
# In 3 of 4 heads of a model, “it” looks most at “animal”.
# What is missing?
# **A baseline, other sentences, and the number of heads that were examined before these four were
# chosen.**
# *Nothing, since 3 of 4 is most of them:* this forgets that the pattern was found by looking.
#
# **4.**
# A cell has a weight of 0.9.
# You hide it, and the output stays the same.
# Is that possible?
# **Yes.**
# *No, 0.9 is most of it:* this forgets that the hidden value may be like the mean of the others,
# and that the rest of the model may not need it.
# (A short value alone does not explain it: once the cell is hidden,
# its weight goes to the other keys.)
#
# **5.**
# A cell has a weight of 0.00.
# You replace the word.
# Can the output change?
# **Yes.**
# *No:* this forgets that the new word has a different key, and therefore a different weight.
# </details>
