# %% opening [markdown] above="What does a dark" below="Which of the two"
# # 4 · Reading heatmaps honestly
#
# Below are two heatmaps for one sentence.
# One comes from a model that was trained on a great deal of English text.
# The other is noise: its queries and keys were drawn at random,
# and the words were added as labels afterwards.
# Which of the two maps comes from the trained model?
# Write down your guess and what led you to it.
# The answer comes at the end of this lesson.
#
# People read such maps in papers and blogs every day.
# They find a dark cell and write that the model “connects” two words, or “understands” a phrase.
# Perhaps it does.
# What does a dark cell prove?
#
# **You need:** [lesson 1](01_attention_is_a_soft_look_up.ipynb) for scores, weights and values,
# and from [lesson 3](03_masks_who_may_look_at_whom.ipynb) what a mask does.
#
# **You will be able to:** read a cell, a row and a column of any heatmap,
# say what a colour can and cannot tell you when no scale is given, test a pattern against chance,
# and find out whether a dark cell matters by taking it away.
#
# **Time:** 50 minutes in class, or 90 on your own with the exercises.
# “Further” takes another 20.

# %% setup
import pandas as pd
import torch
from IPython.display import display

from attnlab import Table, attention_scores, attention_weights, causal_mask, load_table
from attnlab.display.table import data_path
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.plotting import plot_attention, plot_heads
from attnlab.models.pretrained import load_encoder, load_layer
from attnlab.models.translator import (
    NOUNS,
    kinds_of_words,
    load_translator,
    make_sentences,
)

lesson_setup()

# %% two-maps
layer = load_layer()  # the first layer of the trained model
tokens, _, _, trained = layer.read("the cat sat on the mat")  # twelve maps
torch.manual_seed(0)
query, key = torch.randn(2, 8, 8)
# the scores of lesson 1, and then a softmax in each row
noise = attention_weights(attention_scores(query, key))
order = torch.randperm(2)  # shuffled, so that the code does not give the answer away
shown = torch.stack([trained[3], noise])[order]
titles = ["map A", "map B"]
fig = plot_heads(shown, queries=tokens, keys=tokens, titles=titles)
show_figure(fig, "4.1")

# %% who-asks [markdown]
# The trained model puts the markers `[CLS]` and `[SEP]` around each sentence and treats them like
# words.
# Its first layer computes twelve maps, one in each of its *heads* (lesson 7).
# Figure 4.1 shows the map of head 3, which we chose because it is hard to tell from noise.
#
# ## A map with known answers
#
# To learn to read a map, we need one for which we know the correct answers.
# So we trained a toy translator, from English into French, on sentences of a small grammar.
# Before it writes a French word,
# it makes a query from the French words so far and looks at the English sentence.
# Attention is its only view of that sentence.
#
# When the queries come from one text and the keys and values from another,
# we speak of [cross-attention](glossary.ipynb#cross-attention).
# When all three come from the same text, as in the trained model of Figure 4.1,
# we speak of self-attention.

# %% translate
translation = load_translator("first").translate("the black cat sees a small house")
french, english = translation.french, translation.english
ax = plot_attention(translation.weights, queries=french, keys=english)
show_figure(ax, "4.2")

# %% read-map [markdown] above="The darkest cells of"
# Each row belongs to a query: the step in which the translator wrote that French word.
# A row sums to 1, because a query shares its attention among the keys.
# Each column belongs to a key, an English word.
# A column need not sum to 1; its sum says how much attention that word received from all rows
# together.
#
# To read a cell, name its query and its key: “when it wrote *chat*,
# the translator gave 0.98 of its attention to *cat*”.
# The darkest cells of *chat* and *noir* are not on the diagonal,
# because French puts *noir* after its noun.
# The full stop translates no English word, and its row has no clear favourite.
#
# ## What does a colour say?
#
# Our map has numbers in its cells.
# A larger map has no room for them, and only the colours are left.
# The usual plotting functions, seaborn’s `heatmap` and matplotlib’s `imshow`,
# *fit* the colours to each table:
# one end of the scale stands for its smallest number and the other for its largest.

# %% ask-darkest
predict("04/darkest-cell")

# %% see-darkest
# %%answer 04/darkest-cell
torch.manual_seed(42)
query, key = torch.randn(2, 4, 8)  # (L, E) and (S, E)
weights = attention_weights(attention_scores(query, key))
faint = attention_weights(attention_scores(query / 1000, key))
print(f"weights: {weights.min():.4f} to {weights.max():.4f}")
print(f"faint:   {faint.min():.4f} to {faint.max():.4f}")

# %% scales-figure jupyter={"source_hidden": true}
# %%answer 04/darkest-cell
import matplotlib.pyplot as plt

_, axes = plt.subplots(1, 3, figsize=(7.5, 2.5), layout="constrained")
panels = [
    ("uneven, fitted", weights, weights.min().item(), weights.max().item()),
    ("nearly even, fitted", faint, faint.min().item(), faint.max().item()),
    ("nearly even, 0 to 1", faint, 0, 1),
]
for ax, (title, cells, low, high) in zip(axes, panels, strict=True):
    plot_attention(cells, ax=ax, annotate=False, vmin=low, vmax=high, title=title)
    ax.set(xlabel="key", ylabel="query")
    bar = ax.figure.colorbar(ax.collections[0], ax=ax, shrink=0.58)
    bar.set_ticks([low, high], labels=[f"{round(end, 4):g}" for end in (low, high)])
show_figure(axes[0], "4.3")

# %% house-rule [markdown] above="The first two pictures" answers="04/darkest-cell"
# With four keys, the darkest cell holds 0.25 or more, and the colour alone says nothing else.
# The first two pictures look alike,
# yet in the middle one every weight is between 0.2497 and 0.2504.
#
# In this series, therefore, the scale for weights runs from 0 to 1 unless a colour bar says
# otherwise, and pictures that are meant to be compared share one scale.
#
# Compare each weight with the [uniform share](glossary.ipynb#uniform-share) of its row:
# one divided by the number of keys that the query may attend to.
# With 4 keys, a weight of 0.25 means “no preference”.
# With 100 keys, a weight of 0.25 is a strong one.

# %% could-it-be-chance [markdown]
# ## Could it be chance?
#
# The table on the left of Figure 4.3 comes from four random queries and four random keys.
# Here is a story about it: “Queries 2 and 3 both attend most to key 3.
# The last word of a sentence often holds the clue, and the model has learned that.”
# Nothing here has learned anything.
# Is the pattern rare?
# Let us draw 2,000 such tables.

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

# %% chance-figure jupyter={"source_hidden": true}
# %%answer 04/chance-of-agreement
import seaborn as sns

ours = weights.argmax(dim=-1)
most_votes, on_diagonal = votes.amax(dim=-1), (favourite == torch.arange(4)).sum(dim=-1)
panels = [
    (
        "largest number of queries\nthat prefer the same key",
        most_votes,
        ours.bincount().max(),
    ),
    (
        "rows with their largest\nweight on the diagonal",
        on_diagonal,
        (ours == torch.arange(4)).sum(),
    ),
]
_, axes = plt.subplots(1, 3, figsize=(7.5, 2.6), layout="constrained")
for ax, (label, count, here) in zip(axes[:2], panels, strict=True):
    bars = ax.bar(range(5), count.bincount(minlength=5) / 2000, color="#9dc3e6")
    bars[here].set(facecolor="#c8500a", hatch="//")
    ax.set(xlabel=label, xticks=range(5), ylim=(0, 0.8), ylabel="share of the tables")
axes[0].set(xlim=(0.4, 4.6))
largest = many.amax(dim=(-2, -1)).numpy()
sns.histplot(
    x=largest,
    bins=6,
    binrange=(0.25, 1),
    stat="proportion",
    color="#9dc3e6",
    ax=axes[2],
)
axes[2].axvline(weights.max(), color="#c8500a", linestyle="--")
axes[2].set(xlabel="largest weight", xlim=(0.25, 1), ylim=(0, 0.8))
axes[2].set(xticks=[0.25, 0.5, 0.75, 1], ylabel="share of the tables")
axes[0].figure.suptitle("Nothing about our table (orange) is unusual", weight="bold")
show_figure(axes[0], "4.4")

# %% choose-after [markdown] above="Figure 4.4 counts three" below="Move the slider to" answers="04/chance-of-agreement"
# Our story holds in only 7% of the tables, but some story of its kind holds in 92% of them.
# The trap is that we chose the story *after* we had seen the table.
# Figure 4.4 counts three kinds of pattern, and our table is unusual in none of them.
#
# Try it.
# Move the slider to another table, and write one sentence about “the important word” in it.
# How long does your sentence survive in the next table?

# %% draw-again
from attnlab.explorers import live


def draw(fig, table):
    plot_attention(many[table], ax=fig.subplots())
    return f"Table {table}: queries 0 to 3 prefer the keys {favourite[table].tolist()}."


live(draw, table=list(range(6)), figsize=(3.6, 3.2), alt="Weights of random queries.")

# %% causal-chance [markdown] answers="04/chance-of-agreement"
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

# %% evidence [markdown] above="Token 0 gets the" answers="04/chance-of-agreement"
# The first row always holds a 1.00, because token 0 has only itself to attend to,
# and the next rows are dark because they have few keys.
# Token 0 gets the most attention, 2.72 on average.
# All eight queries may attend to it, but only one may attend to token 7.
# So before you say that a model concentrates on the first word,
# compare it with random tables under the same mask.

# %% what-would-be-evidence [markdown] below="We take 200 sentences"
# ## What would be evidence?
#
# A pattern is evidence if you name it **before** you look, find it in **many inputs**,
# and find it more often than in a **baseline**.
# For the translator we can say in advance where each step should look:
# at the English word that the French word translates, its *partner*.
# In what share of the rows is the darkest cell in the partner’s column?
#
# We have three translators.
# They were trained in the same way,
# but from other random numbers and on other sentences of the grammar.
# We take 200 sentences on which none of our three translators was trained.
# Each comes with its translation and, for every French word, the position of its partner.

# %% unseen
# these seeds made the batches of 64 sentences for the training of the three
seeds = [*range(3000), *range(4500, 6000)]
trained_on = {s.english for seed in seeds for s in make_sentences(64, seed=seed)}
unseen = [s for s in make_sentences(1000, seed=6000) if s.english not in trained_on]
sentences = unseen[:200]
sentences[0]

# %% ask-partner [markdown]
# We count articles separately.
# Every French noun is masculine or feminine, and the article agrees with it:
# *the* is *le* with *chat* (cat) but *la* with *vache* (cow), and *a* is *un* or *une*.
#
# Beside the three translators stand three baselines:
# *untrained* is the first translator before its training,
# *same position* always picks the English word in the position of the French one,
# and *uniform share* picks a word at random.


# %% on-partner
def partner_is_darkest(translator):
    hits = []
    for english, french, partner in sentences:
        # with the correct French words so far, so that an error cannot spread
        weights = translator.translate(english, french=french).weights
        hits.append(weights[:-1].argmax(dim=-1) == partner)  # without the full stop
    return torch.cat(hits)


names, kinds = ["first", "second", "third"], kinds_of_words(sentences)
translators = {name: load_translator(name) for name in [*names, "untrained"]}
hits = pd.DataFrame({n: partner_is_darkest(t) for n, t in translators.items()})
partners = [partner for _, _, partner in sentences]
hits["same position"] = torch.cat([p == torch.arange(len(p)) for p in partners])
hits["uniform share"] = torch.cat([torch.full([len(p)], 1 / len(p)) for p in partners])
hits.groupby(kinds).mean().round(2)

# %% look-at-articles [markdown] above="For nouns, verbs and"
# Most of the table is clear.
# For nouns, verbs and adjectives (“others”), the darkest cell is always in the partner’s column,
# in all three translators.
# The same position is right in only 49% of these rows, and the untrained translator in 17%.
# So this is evidence.
#
# The articles are different.
# The first two translators attend most to the partner of *la* and *une*,
# but rarely to that of *le* and *un*.
# The third does the opposite.
# Yet none of the three makes an error in the 200 sentences.
# Anyone who had trained only one of them might have taken its map for a rule of grammar.
#
# ## Take the cell away
#
# A pattern that passes this test is no accident.
# But it does not follow that the translator *uses* these cells.
# To find out, we have to change something and see what it writes then.
#
# We begin by changing a word.
# Here are the first rows of six maps:
# each of the translators reads two sentences that differ only in the noun.

# %% pale
rows, labels = [], []
for name in names:
    for noun in ("cow", "dog"):
        translation = translators[name].translate(
            f"the big white {noun} wants a flower"
        )
        rows.append(translation.weights[0])
        labels.append(f"{name}, {noun}: {translation.french[0]}")
Table(labels, "the big white cow/dog wants a flower".split(), torch.stack(rows))

# %% hide [markdown] above="A pale cell does"
# In the second translator, *cow* gets almost no weight,
# so one might think that the noun plays no part in the choice of *la*.
# But *dog*, in the same position, gets 0.68 of the weight, and the translator writes *le*.
# A pale cell does not prove that the word in its column plays no part.
# In the third translator *cow* draws the weight, and *dog* draws little.
#
# Now we take the cell itself away.
# To *hide* a cell means to mask it: the softmax then shares out its weight among the other words.
# In all 200 sentences, we hide the cell of the noun in the row of its article.

# %% hide-one
articles = ["la", "le", "un", "une"]


def articles_without_noun(translator):
    written = []
    for english, french, _ in sentences:
        # each sentence has two articles and two nouns, in this order in both languages
        rows = [i for i, word in enumerate(french.split()) if word in articles]
        columns = [i for i, word in enumerate(english.split()) if word in NOUNS]
        cells = list(zip(rows, columns, strict=True))
        words = translator.translate(english, french=french, hidden=cells).french
        written += [words[row] for row in rows]
    return written


correct = [word for s in sentences for word in s.french.split() if word in articles]
without_noun = {name: articles_without_noun(translators[name]) for name in names}
table = pd.DataFrame({"correct": correct, **without_noun})
table.groupby(list(table)).size().reset_index(name="rows")

# %% hide-many [markdown] above="Each translator writes the"
# Without its noun, every article becomes feminine in the first two translators,
# and every article becomes masculine in the third.
# (If we keep the weights and set the value of the noun to 0, the articles are the same.)
#
# The three have one thing in common.
# Each translator writes the article of one gender unless it finds a noun of the other.
# *Which* gender that is was decided by the random numbers of the training.
# A map shows how this one model does its work,
# and another that works just as well may do it in the opposite way.
#
# One caution: the training never hid a cell, so the translators are on unknown ground here.

# %% values [markdown] below="In head 6 of"
# ## What a weight multiplies
#
# A weight is only the share that is taken of a value.
# The output of a head is a sum with one term for each key, its weight times its value,
# and the length of a term is the weight times the length of the value.
# (We measure it before the output matrix of lesson 7.)
#
# Here is an example.
# In head 6 of the trained layer, every token of our sentence gives its largest weight to `[CLS]`.
# (The matrix `v_proj` makes the values of all twelve heads at once, in 32 columns for each head.)


# %% head-six
def head_six(text):
    tokens, embedded, _, weights = layer.read(text)
    values = layer.attention.v_proj(embedded)[:, 6 * 32 : 7 * 32]  # (S, 32)
    return tokens, weights[6], values


tokens, weights_six, values = head_six("the cat sat on the mat")
title = "Every query prefers [CLS]"
ax = plot_attention(weights_six, queries=tokens, keys=tokens, title=title)
lengths = Table(["length of the value"], tokens, values.norm(dim=-1)[None])
display(show_figure(ax, "4.5"), lengths)

# %% one-row-proves-little [markdown]
# One sentence proves little.
# The 35 sentences of lesson 5 have 241 rows of words in which `[CLS]` gets the largest weight of
# head 6.
#
# As before, we take a cell away, and this time we do it in two ways.
# If we set the value of `[CLS]` to 0, its term disappears,
# so the output moves by the length of this term.
# If we hide `[CLS]`, its term disappears as well, but the other keys also share its weight.

# %% ask-carried
predict("04/longest-term")


# %% see-carried
# %%answer 04/longest-term
def zeroing(weights, values):  # how far each output moves without the term of a key
    return weights * values.norm(dim=-1)


def hiding(weights, values):  # how far each output moves if a key is hidden
    moved = []
    for key in range(len(values)):
        rest = weights.clone()
        rest[:, key] = 0
        rest = rest / rest.sum(dim=-1, keepdim=True)  # the others share its weight
        moved.append((rest @ values - weights @ values).norm(dim=-1))
    return torch.stack(moved, dim=-1)


ways = torch.stack([way(weights_six, values)[2] for way in (zeroing, hiding)])
Table(["“cat” moves, value set to 0", "“cat” moves, key hidden"], tokens, ways)

# %% count-rows
# %%answer 04/longest-term
counts = torch.zeros(3, dtype=torch.long)
for sentence in pd.read_csv(data_path("bank_sentences.csv")).sentence:
    _, its_weights, its_values = head_six(sentence)
    rows = its_weights.argmax(dim=-1) == 0  # those that give [CLS] the largest weight
    rows[[0, -1]] = False  # words only
    by_zeroing = zeroing(its_weights, its_values).argmax(dim=-1) == 0
    by_hiding = hiding(its_weights, its_values).argmax(dim=-1) == 0
    counts += torch.stack([rows, rows & by_zeroing, rows & by_hiding]).sum(dim=-1)
pd.Series(counts, ["all rows", "longest term: [CLS]", "moves most if hidden: [CLS]"])

# %% carried-read [markdown] above="The term of `[CLS]`" answers="04/longest-term"
# The largest weight does not make the longest term.
# The term of `[CLS]` is the longest in only 6 of the 241 rows.
# Its value is so short that even a large share of it adds little.
#
# But in 141 of the 241 rows, hiding `[CLS]` moves the output further than hiding any other key
# does.
# The reason is that its weight $w$ then goes to the others:
# the output moves by $w/(1-w)$ times its distance from the value of `[CLS]`.
# If $w$ is one half, that is the whole distance.
#
# So does `[CLS]` matter?
# That depends on how you take it away.
# Its value adds little to the output; its weight keeps the other weights small.
# Such a key is called an attention sink, and lesson 10 returns to it.
#
# All this is the first layer.
# In a later layer, each position also holds something of the other words,
# so a dark cell need not be about the word on its label.
# “Further” measures this.

# %% the-answer [markdown]
# ## So what does a dark cell prove?
#
# One thing: in this row, the query gave this key a larger share than it gave to the keys of the
# paler cells.
# The scale says how much larger.
# Everything else needs a test.
#
# | the claim | what you have to do |
# |---|---|
# | “This weight is large.” | Read the scale, and compare with the uniform share. |
# | “The first words matter most”, in a causal map | Compare with random tables under the same mask. |
# | “The model has learned this pattern.” | Name the pattern first, take many inputs, and compare with a baseline. |
# | “This is how such a model does it.” | Train another from other random numbers, and look again. |
# | “The model needs this cell.” | Take the cell away in more than one way, and see whether the output changes. |
# | “The model does not use that word.” | Change the word, and try several others. |
# | “This value contributes a great deal.” | Multiply the weight by the length of the value. (Another term may still point the opposite way and cancel it.) |
# | “This word attends to that word”, in a late layer | Ask what the two positions hold by then. |
#
# And what about the two maps from the beginning?

# %% reveal
which = ["trained", "noise"]
print("map A:", which[order[0]], " map B:", which[order[1]])  # order: the shuffle above
maps = {"trained, head 3": trained[3], "noise": noise, "trained, head 2": trained[2]}
labels = [f"{name}: “the” at {row}" for name in maps for row in (1, 5)]
Table(labels, tokens, torch.cat([one_map[[1, 5]] for one_map in maps.values()]))

# %% reveal-read [markdown] above="One map of one"
# One reason for a guess can be checked.
# The sentence contains the word *the* twice, and in the trained map, that of head 3,
# these two rows are nearly the same: no two of their weights differ by more than 0.05.
# In the noise, the two queries were drawn separately, and the rows have nothing in common.
#
# But we found this reason only after looking, and in head 2 of the same layer it fails:
# there the two rows have nothing in common either.
# Moreover, the two tokens have similar vectors to begin with,
# and an untrained layer also tends to give such tokens similar rows.
#
# So the map does not prove that a model was trained,
# nor does a dark cell in it prove that the model “connects” two words.
# One map of one sentence shows where each row put its weight, and proves nothing more.

# %% further [markdown]
# ## Further
#
# ### Turning the questions round
#
# Let us return to the sentence from lesson 0, “The cat sat on the mat”, and ask it three questions:
# “who?”, “doing what?” and “where?”.
# We typed in the features of its words by hand; one of them is `animal`.
# Each question has a 4 in the feature that it looks for, and a 0 in all the others.
# “who?” gives 0.66 of its attention to “cat”.
# Now we let the *words* ask.

# %% ask-turned
predict("04/weight-of-a-row")

# %% see-turned
# %%answer 04/weight-of-a-row
x = load_table("the_cat_sat_on_the_mat.csv").values  # (6, 5)
questions = 4 * torch.eye(5)[[0, 2, 3]]  # (3, 5): animal, action, place
scores = attention_scores(questions, x)  # (3, 6): one row for each question
attention_weights(scores)[0, 1], attention_weights(scores.T)[1, 0]  # “who?” and “cat”

# %% turned-read [markdown] answers="04/weight-of-a-row"
# The score of a pair is the same in both directions, but its weight is not: 0.66 and 0.817.
# A weight is a share of its row, and the row of “cat” has fewer and weaker rivals.
#
# The explorer shows both directions.
# Switch to the direction in which the words ask.
# Which two words give the same weight to all three questions, and why?

# %% explore-cross
from attnlab.explorers import CrossExplorer

CrossExplorer(ask=False)

# %% explored [markdown] answers="04/weight-of-a-row"
# <details><summary>Answer</summary>
#
# They are “The” and “the”.
# They share no feature with any question, so all their scores are 0,
# and equal scores give equal weights.
# </details>

# %% a-dark-diagonal [markdown]
# ### A dark diagonal
#
# In self-attention a dark diagonal means that every token attends most to itself.
# Is that a finding?
# It depends on how the queries and keys are computed.
# Here are 100 sentences of ten random tokens, first with query = key = token,
# and then with one random matrix for the queries and another for the keys,
# as in a layer before training (lesson 6).
# How often is the weight on the diagonal the largest in its row?

# %% diagonal
torch.manual_seed(0)
many_x = torch.randn(100, 10, 64)  # (N, L, E)
W_Q, W_K = torch.randn(2, 100, 64, 64) / 8  # two matrices for each sentence
same_vectors = attention_scores(many_x, many_x).argmax(dim=-1)
two_matrices = attention_scores(many_x @ W_Q, many_x @ W_K).argmax(dim=-1)
for favourite_keys in (same_vectors, two_matrices):
    print((favourite_keys == torch.arange(10)).float().mean())

# %% diagonal-read [markdown]
# Without the matrices, the dot product of a random token with itself is its squared length,
# about 64.
# With another token it is a sum of 64 random products, which is about 0, give or take 8.
# So with 64 features, the diagonal is dark before anything has been learned.
# With two random matrices, it holds the largest weight in 10% of the rows, as it would by chance.
# Before you read something into a diagonal, ask what untrained layers of the same kind do.

# %% whose-column [markdown]
# ### Whose column is it?
#
# All maps of the trained model in this lesson come from its first layer.
# Its five other layers read what the layers before them wrote.
# How much of a word’s vector is then still about that word?
# We replace *bank* with *shop* in the 35 sentences.
# How far do the vectors move, in proportion to their length,
# before the first layer and after each layer?

# %% late-layers
bank_sentences = pd.read_csv(data_path("bank_sentences.csv")).sentence
encoder, other_words, bank_itself = load_encoder(), [], []
for sentence in bank_sentences:
    words, before, _ = encoder.read(sentence)  # vectors: (7, L, 384)
    after = encoder.read(sentence.replace("bank", "shop")).vectors
    moved = (after - before).norm(dim=-1) / before.norm(dim=-1)
    is_bank = torch.tensor([word == "bank" for word in words])
    bank_itself.append(moved[:, is_bank])
    is_bank[[0, -1]] = True  # the markers do not count as other words either
    other_words.append(moved[:, ~is_bank])
means = [torch.cat(rows, dim=1).mean(dim=1) for rows in (other_words, bank_itself)]
stages = ["start", *(f"layer {i}" for i in range(6))]
Table(["the other words", "“bank” itself"], stages, torch.stack(means))

# %% same-word-ask [markdown]
# Replacing one word moves the vectors of the others only a little:
# by 0.07 of their length after layer 0, and by 0.33 after layer 5.
# *Bank* itself moves by more than its own length everywhere.
#
# That was one word out of many.
# How much do all the other words change a vector together?
# For each pair of the 35 sentences, we look for positions that hold the same word in both,
# and compare its two vectors.

# %% same-word
from itertools import combinations

readings = [encoder.read(sentence) for sentence in bank_sentences]
same_word = []
for here, there in combinations(readings, 2):
    for i in range(1, min(len(here.tokens), len(there.tokens)) - 1):
        if here.tokens[i] == there.tokens[i]:
            before, after = here.vectors[:, i], there.vectors[:, i]  # (7, 384)
            same_word.append((after - before).norm(dim=-1) / before.norm(dim=-1))
Table(["the same word elsewhere"], stages, torch.stack(same_word).mean(dim=0)[None])

# %% late-read [markdown]
# All the other words together do more.
# With the same word at the same position of another sentence,
# the vector differs by 0.22 of its length after layer 0 and by 0.85 after layer 5.
# So the label of a column tells most of what is there in the first layer,
# and much less in the last.

# %% remember [markdown]
# ## What to remember
#
# - A row belongs to a query, and a column to a key.
#   Rows sum to 1; columns need not.
#   Name a cell by its query and its key.
# - A colour stands for a number only if you know the scale.
#   Compare the number with the uniform share of its row.
# - Before you explain a pattern, draw random tables and look for it there.
#   In more than nine out of ten random four-by-four tables,
#   two or more queries prefer the same key.
#   A causal mask makes dark first rows and columns by itself.
# - A pattern is evidence if it was named before anyone looked, holds for many inputs,
#   and beats a baseline.
#   Even then, it is the pattern of one model: another one may do the same work in the opposite way.
# - A dark cell may add little to the output,
#   and the word in the column of a pale cell may still decide the result.
#   Change the word, look at the length of the value, and take the cell away in more than one way.

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
# Multiply **all features of all tokens** by one positive number.
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
# ### 3 · Implement ★★ (8 minutes)
#
# Implement the measure that we used in this lesson, so that it works for any layer:
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
# Is the value of the full stop long, or close to 0?
# Does the output change if the full stop is hidden?
# And in which layer is this?
# After the first one, the position of the full stop also holds something of the other words.
# </details>

# %% in-torch [markdown] below="`nn.MultiheadAttention` averages the weights"
# ## In torch
#
# `nn.MultiheadAttention` computes several heads and returns the output and the weights.
# `nn.MultiheadAttention` averages the weights over the heads unless you pass
# `average_attn_weights=False`.
# They are `None` if you pass `need_weights=False`.
# `F.scaled_dot_product_attention` returns only the output.
#
# To draw weights with other libraries, fix the scale and choose colours in which dark is large:
# `plt.imshow(one_map, cmap="Blues", vmin=0, vmax=1)` or
# `sns.heatmap(one_map, cmap="Blues", vmin=0, vmax=1)`.
# Here `one_map` is, for example, `mean_of_heads[0].detach()` from the next cell.
# Both fit the colours to the table if you leave the limits out.

# %% torch-weights
three_times = query[None], query[None], query[None]  # (N, L, E)
layer_of_torch = torch.nn.MultiheadAttention(8, num_heads=2, batch_first=True).eval()
output, mean_of_heads = layer_of_torch(*three_times)
output, each_head = layer_of_torch(*three_times, average_attn_weights=False)
mean_of_heads.shape, each_head.shape  # (N, L, S) and (N, H, L, S)

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
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.**
# The two maps, with a show of hands (write the result on the board): 4 minutes.
# The translator and the colours: 10.
# Chance and the slider: 14.
# Evidence and taking the cell away: 11.
# The values of head 6: 7.
# The answer: 4.
# Set “Further” as homework.
#
# **Where a class stalls.**
# *“Dark is important”:* hide the numbers of a map, let the class bet on one weight,
# and then show the numbers.
# *Chance:* let each row of students take one position of the slider and defend its “important word”
# for a minute.
# *The pale cell:* ask what would have to be true of the key of *dog* for the translator to notice
# it.
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
