# %% opening [markdown] above="So how can the" end="So how can the"
# # 0 · Start here: how a word picks up its context
#
# *Deep in the cave hung a bat.*
# Here is another sentence: *She hit the ball with a bat.*
# Each time you know which bat is meant, from the words before it.
# A language model starts with less: it looks every word up in a table,
# and the table holds one vector for *bat*, whatever the sentence says.
# So how can the same word mean one thing here and another thing there?
#
# The answer is a step called [**attention**](glossary.ipynb#attention).
# It compares each word with the words around it,
# and gives each word a new vector that depends on them.
# You will follow one word of a six-word sentence through this step,
# which takes three lines of code.
# Then you will put *bat* into the two sentences above.
#
# **You need:** Python, matrix products, and a little PyTorch.
#
# **You will be able to:** compute attention, read a heatmap of its weights,
# and say what attention does to the vector of a word.
#
# **Time:** 44 minutes in class, or 68 on your own with the exercises.
# Links lead to the [glossary](glossary.ipynb).

# %% how-to-run [markdown]
# Run the cells one after another, with **Shift + Enter**.
# If the first one fails, read [If a package is missing](#If-a-package-is-missing).

# %%
import torch
import torch.nn.functional as F

from attnlab import Table, load_table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import check_new_vector, check_third_sentence, predict
from attnlab.plotting import plot_attention

lesson_setup()

# %% [markdown] below="A model reads"
# ## Six words, five numbers each
#
# A model reads [tokens](glossary.ipynb#token), which are words or pieces of words,
# and keeps a vector of numbers for each of them.
# Here is a small table of such vectors for the sentence *The cat sat on the mat*.
# We chose the columns and typed the numbers in by hand, so every column,
# or [feature](glossary.ipynb#feature), has a name.
# A trained model finds its own numbers, and its columns have no names.

# %% the-table
tokens, features, x = load_table("the_cat_sat_on_the_mat.csv")
Table(tokens, features, x)

# %% [markdown] above="The `animal` of `cat`" below="The matrix product `x"
# The `animal` of `cat` is large, and its `place` is 0.
# Nothing in the word itself says where the cat is.
# For that, you need the other words of the sentence.
#
# ## Which words matter to `cat`?
#
# Attention has to settle how much `cat` should take from each word, itself included.
# It does so by comparing vectors:
# it multiplies two rows feature by feature and adds up the products.
# The result is their [dot product](glossary.ipynb#dot-product), which Python writes as `@`.
# The only column in which both `on` and `mat` are above 0 is `place`,
# so their dot product is 1.0 × 1.3, or 1.30.
#
# In this table, two words with large numbers in the same columns have a large dot product,
# and we say that they match well.
# The matrix product `x @ x.T` compares all pairs of words at once.
# A dot product divided by the square root of the number of products in it, here $\sqrt{5}$,
# is called the [score](glossary.ipynb#score) of the pair.
# (Lesson 2 explains the division.)

# %% scores
scores = x @ x.T / 5**0.5  # (6, 5) @ (5, 6) gives (6, 6)
Table(tokens, tokens, scores)

# %% after-the-scores [markdown] above="Apart from itself, `cat`"
# Apart from itself, `cat` matches `sat` best: both have some `animal` and some `action`.
#
# Each row of the table of scores belongs to a word whose new vector we want;
# that word is called the [query](glossary.ipynb#query).
# Each column belongs to a word that the query is compared with,
# called the [key](glossary.ipynb#key).

# %% from-scores-to-weights [markdown] below="Scores are not yet"
# ## From scores to weights
#
# Scores are not yet shares: where numbers differ in sign, a score can be negative.
# So the [softmax](glossary.ipynb#softmax) turns a row of scores into
# [weights](glossary.ipynb#weight) in two steps.
# It raises $e$ to the power of each score, which gives a positive number,
# and then it divides each result by the sum of all the results.
# Here are both for the row of `cat`.

# %% softmax-by-hand
cat = tokens.index("cat")
powers = scores[cat].exp()  # e to the power of each score
shares = powers / powers.sum()
both_steps = torch.stack([scores[cat], powers, shares])
Table(["score", "e^score", "weight"], tokens, both_steps)

# %% [markdown] above="The weights are positive"
# The weights are positive and add up to 1, and a larger score gets a larger share.
# PyTorch does this for all rows at once.
# With `dim=-1` it works along the last dimension, that is, within each row.

# %% weights
weights = scores.softmax(dim=-1)  # (6, 6), and every row sums to 1
names = {"queries": tokens, "keys": tokens}
show_figure(plot_attention(weights, **names, colorbar=True), "0.1")

# %% reading-the-heatmap [markdown] above=["A dark cell means", "In the row of"]
# A dark cell means a large weight.
# In the row of `cat`, the word keeps 0.36 of its attention for itself,
# and it gives 0.25 to `sat` and 0.12 to `mat`.
# Even `The`, with a score of 0, gets 1 / 11.1 = 0.09, because $e^0$ is 1.
#
# ## The new vector
#
# The new vector of `cat`, its [output](glossary.ipynb#output), is a weighted average:
# 0.36 times its own row, plus 0.25 times the row of `sat`, plus 0.12 times the row of `mat`,
# and so on through all six words.
# One matrix product, `weights @ x`, computes it for every word at once.

# %%
predict("00/place-of-cat")

# %% new-vector
# %%answer 00/place-of-cat
output = weights @ x  # (6, 6) @ (6, 5) gives (6, 5)
average = x.mean(dim=0, keepdim=True)
Table([*tokens, "plain average"], features, torch.cat([output, average]))

# %% after-new-vector [markdown] above=["A plain average would", "The `place` of `cat`"] answers="00/place-of-cat"
# The `place` of `cat` was 0 and is now 0.37.
# This is no longer a vector for *cat* in general.
# It is the vector of *cat* in this sentence.
#
# But 0.37 is the least of the six new places, and a plain average would give `cat` 0.47.
# So what do the weights add?
# A plain average would give all six words the same row, the last one of the table.
# With attention, `cat` has 0.80 of `animal` and `mat` 0.76 of `object`,
# where the plain average leaves 0.42 and 0.32.
# Each keeps more of its own row, and takes more from a word that matches it better:
# `cat` takes 0.25 of its new vector from `sat`, and 0.09 from `The`.

# %% [markdown]
# ## Three lines
#
# All these steps fit into three lines.
# PyTorch has them as one function, *scaled dot-product attention*.


# %% three-lines
def attend(x):
    scores = x @ x.T / x.shape[-1] ** 0.5  # how well does each pair match?
    weights = scores.softmax(dim=-1)  # turn each row into shares
    return weights @ x, weights  # average the rows with these weights


output, weights = attend(x)
assert torch.allclose(output, F.scaled_dot_product_attention(x, x, x), atol=1e-6)

# %% three-parts [markdown] above="On this page one"
# Why does PyTorch take `x` three times?
# Because the vector of a word plays three parts.
# As a [query](glossary.ipynb#query) it asks which words match it,
# as a [key](glossary.ipynb#key) it is compared with a query,
# and as a [value](glossary.ipynb#value) it is what gets averaged.
# On this page one vector plays all three parts.
# A trained model makes three different vectors from the vector of each word,
# one with each of three trained matrices.

# %% try-it-yourself [markdown] below="Which vector does"
# ## Try it yourself
#
# The picture below shows the new vector of `cat` and the weights.
# The control `scale` multiplies the dot products; until now it was $1/\sqrt{5}$, or 0.4472.
# The control `causal` hides from each word all words that come after it.
# Such a rule is called a [mask](glossary.ipynb#mask) (lesson 3).
#
# Leave `causal` off at first.
# Which vector does `cat` get at scale 0, and which one does it come close to at scale 8?
# What is its `place` once `causal` is on, and why?

# %% slider jupyter={"source_hidden": true}
from attnlab import attention_weights, causal_mask, effective_keys
from attnlab.explorers import live
from attnlab.palette import BLUE, MUTED, ORANGE


def draw(fig, scale, causal):
    # may_attend[i, j] is True where word i may attend to word j
    may_attend = causal_mask(6) if causal else torch.ones(6, 6, dtype=torch.bool)
    drawn = attention_weights(x @ x.T * scale, attn_mask=may_attend)
    left, right = fig.subplots(1, 2, width_ratios=(1, 1.15))
    plot_attention(drawn, ax=right, attn_mask=may_attend, **names)
    left.barh(features, drawn[cat] @ x, height=0.55, color=BLUE)
    left.plot(x[cat], features, "o", color=ORANGE, label="row of “cat”")
    left.plot(
        x.mean(dim=0), features, "D", color=MUTED, mec="white", label="plain average"
    )
    left.set(xlim=(-0.05, 1.7), title="new vector of “cat”")
    left.invert_yaxis()
    left.legend(loc="lower right")
    used = effective_keys(drawn)[cat]
    return f"“cat” spreads its attention over about <b>{used:.1f}</b> words."


controls = {"scale": [0, 0.4472, 1, 2, 4, 8], "causal": [False, True]}
alt = "Bars for the new vector of “cat”, and a heatmap of the weights."
live(draw, start={"scale": 2}, alt=alt, figsize=(7.5, 3.4), **controls)

# %% slider-answer [markdown]
# <details><summary>An answer</summary>
#
# At scale 0 all scores are equal, so `cat` gets the plain average of all six rows.
# Scale 8 exaggerates the differences between the scores,
# and the new vector comes close to the old row of `cat`, which matches itself best.
# With `causal` on, `place` is 0 at every scale: `cat` may attend only to `The` and to itself,
# and neither has any `place`.
#
# The line next to the picture says how many words `cat`
# [spreads its attention over](glossary.ipynb#effective-keys): 6 if all six have the same weight,
# 1 if a single word has all of it.
# </details>

# %% two-bats [markdown] below=["The word alone does not", "We gave `cave` some", "The word alone does not"]
# ## Two bats
#
# The next table holds the words of both sentences about a bat.
# The word alone does not say which bat is meant, so `bat` has 1 under both `animal` and `sport`.
# We gave `cave` some `animal` because animals live in caves, and `hung` some because bats hang.

# %% bat-table
vocabulary, columns, vectors = load_table("cave_and_ball.csv")


def rows(sentence):
    return vectors[[vocabulary.index(word) for word in sentence.split()]]


in_the_cave = rows("deep in the cave hung a bat")
with_the_ball = rows("she hit the ball with a bat")
Table(vocabulary, columns, vectors)

# %% two-vectors
cave_output, cave_weights = attend(in_the_cave)
ball_output, ball_weights = attend(with_the_ball)
bats = {
    "“bat” in the table": in_the_cave[-1],
    "“bat” in the cave": cave_output[-1],
    "“bat” with the ball": ball_output[-1],
    "plain average, cave": in_the_cave.mean(dim=0),
    "plain average, ball": with_the_ball.mean(dim=0),
}
Table(list(bats), columns, torch.stack(list(bats.values())))

# %% two-givers jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
import pandas as pd

from attnlab.palette import GREEN


def draw_givers(ax, sentence, weights, givers):
    parts = weights[-1][:, None] * rows(sentence)  # what each word gives to “bat”
    frame = pd.DataFrame(parts[:, :2].T, index=columns[:2], columns=sentence.split())
    look = {"color": [ORANGE, GREEN, GREEN], "edgecolor": "white", "legend": False}
    frame[givers].plot.bar(ax=ax, stacked=True, rot=0, **look)
    for word, bars in zip(givers, ax.containers, strict=True):
        labels = [f"{word} {part:.2f}" if part else "" for part in bars.datavalues]
        ax.bar_label(bars, labels, label_type="center", color="white")
    ax.axhline(1, color="gray", linestyle="--")  # “bat” in the table


_, (left, right) = plt.subplots(
    1, 2, figsize=(7.5, 3.2), layout="constrained", sharey=True
)
draw_givers(left, "deep in the cave hung a bat", cave_weights, ["bat", "cave", "hung"])
draw_givers(right, "she hit the ball with a bat", ball_weights, ["bat", "ball", "hit"])
left.set(title="in the cave", ylim=(0, 1.1), ylabel="in the new vector of “bat”")
right.set(title="with the ball")
show_figure(left, "0.2")

# %% after-two-bats [markdown] above="In the cave (Figure 0.2)" below="Can attention tell apart"
# In the cave (Figure 0.2), `bat` gives itself a weight of 0.27,
# so it keeps 0.27 of `animal` and of `sport`.
# `cave` and `hung` add 0.21 to `animal`, and no word adds to `sport`.
# With the ball, `bat` keeps 0.25 of each, and `ball` and `hit` add 0.45 to `sport`.
#
# The plain average gets both bats right, too.
# But it is one vector for the whole sentence: *bat*, *hung* and *the* would all get the same.
#
# Can attention tell apart two bats in one sentence?

# %%
predict("00/two-bats-in-one-sentence")

# %% both-bats
# %%answer 00/two-bats-in-one-sentence
sentence = "a bat hung in the cave she hit the ball with a bat"
outputs, _ = attend(rows(sentence))
Table(["the first “bat”", "the last “bat”"], columns, outputs[[1, -1]])

# %% after-both-bats [markdown] above="The two new vectors" answers="00/two-bats-in-one-sentence"
# The two new vectors are the same.
# Both bats have the same row in the table,
# so their dot products with all thirteen rows are the same, and so are their weights.
#
# If you put the rows of `x` in another order
# (a [*permutation*](glossary.ipynb#permutation-equivariance)),
# the new vectors come out in that order, too, and are otherwise the same.
# Without a causal mask, a model must be given the positions in some other way (lesson 11).

# %% the-answer [markdown]
# ## So how can *bat* mean one thing here and another thing there?
#
# The table gives it the same vector in both sentences.
# Then attention mixes in the other words: *cave* and *hung* add `animal` in the first sentence,
# *ball* and *hit* add `sport` in the second.
# In the cave, `animal` is then larger than `sport`; with the ball it is the other way round.
#
# Here we chose the numbers; a trained model learns them.
# Whether its attention finds the correct meaning is a different question, which lesson 5 takes up.

# %% where-it-sits [markdown]
# ## Further: where attention sits in a model
#
# A [Transformer](glossary.ipynb#Transformer), the kind of model behind today's chatbots,
# is a stack of blocks like the one in Figure 0.4.
# Attention is the only step of a block in which words see each other.
# Figure 0.3 draws the three lines of this page, which are inside that step.

# %% steps jupyter={"source_hidden": true}
from attnlab.display import diagram

show_figure(diagram("attention_steps"), "0.3")

# %% block jupyter={"source_hidden": true}
show_figure(diagram("transformer_block"), "0.4")

# %% two-boxes [markdown]
# Two of the boxes add something to each vector.
# **+ position** adds where its word stands in the sentence (lesson 11).
# The **+** after attention adds the old vector to the new one,
# which brings back what `cat` has lost of its `animal`.
# Here is the vector of `cat` after this plus.
# (We leave out the norm, the positions and the trained matrices of a real model.)

# %% plus
Table(["cat + new vector"], features, torch.stack([x[cat] + output[cat]]))

# %% [markdown]
# Its `animal` is even larger than at first, and it has kept its new `place`.

# %% remember [markdown] end=["Attention can give the", "Attention gives every token", "The weights are the", "Without a mask and"]
# ## What to remember
#
# - Attention gives every token a new vector:
#   a weighted average of the values of all tokens that it may attend to.
# - The weights are the softmax of each row of scores:
#   dot products divided by the square root of the number of features of a query.
# - In a heatmap of weights, each row belongs to one query and sums to 1.
# - Attention can give the same word different vectors in different sentences.
#   Without a mask and without any information about positions,
#   the order of the words makes no difference, and equal words get equal vectors.

# %% [markdown]
# ## Exercises
#
# ### 1 · Implement ★★ (10 minutes)
#
# Which other word does `bat` in the cave need most for its `animal`?
# Hide one at a time from `bat`, and see what changes.
# Write `new_vector(query, x, hidden)`,
# which returns the new vector of one word if it may not attend to the word at index `hidden`.
# The other words get all of its attention.
# `x` holds the rows of a sentence, with any number of features.
# `query` is the row of the word that asks; it may come from elsewhere.


# %% tags=["exercise"]
def new_vector(query, x, hidden):
    """Return the new vector of one word, shape (E,), without the word at index hidden.

    query: its row, shape (E,); x: the rows of the sentence, (L, E), which is (7, 5) for the cave.
    """


# %%
check_new_vector(new_vector)

# %% hint [markdown]
# <details><summary>Hint</summary>
#
# Go back to the table with the rows `score`, `e^score` and `weight`.
# In which of these rows can you put a 0 for the hidden word,
# so that it gets no weight and the weights still add up to 1?
# In each of the other two rows, a 0 breaks one of these two conditions.
# </details>


# %% tags=["solution"]
def new_vector_solution(query, x, hidden):
    scores = x @ query / query.shape[-1] ** 0.5
    powers = scores.exp()  # float32 overflows from 89 on
    powers[hidden] = 0  # no share for the hidden word
    weights = powers / powers.sum()
    return weights @ x


check_new_vector(new_vector_solution)

# %% one-hidden [markdown]
# When the check accepts your function, hide the words of the first sentence one at a time:
# call it with `in_the_cave[-1]`, `in_the_cave` and each index from 0 to 5.
# (Index 6 is `bat` itself.)
# Guess first: does `sport` come out ahead without `cave`?

# %% each-hidden tags=["solution"]
without = [
    new_vector_solution(in_the_cave[-1], in_the_cave, hidden) for hidden in range(6)
]
hidden_words = [f"“bat” without {word}" for word in "deep in the cave hung a".split()]
Table(hidden_words, columns, torch.stack(without))

# %% which-word [markdown]
# <details><summary>An answer</summary>
#
# `bat` needs `cave` most: without it, `animal` is smallest.
# `cave` has more `animal` than `hung`, and for that reason it also gets more weight.
# But even without `cave`, `animal` stays ahead of `sport`: `hung` is enough.
# </details>

# %% [markdown]
# ### 2 · Find ★★ (8 minutes)
#
# Make up a third sentence with the words of the second table.
# It must contain `bat` and `ball` once each,
# and yet the new vector of `bat` must have more `animal` than `sport`.
# Any other word may appear more than once.
# Write down a guess first, and then compute the new vectors and the weights with
# `attend(rows("..."))`.


# %% tags=["exercise"]
def third_sentence():
    """Return the sentence as a string."""


# %%
check_third_sentence(third_sentence)

# %% hint-third [markdown]
# <details><summary>Hint</summary>
#
# Two caves have as much `animal` as one ball has `sport`, but that is not enough.
# Does `bat` give each `cave` as much weight as it gives `ball`?
# </details>


# %% tags=["solution"]
def third_sentence_solution():
    return "the ball hung in the cave a bat hung in the cave"


check_third_sentence(third_sentence_solution)

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017:
#   attention as on this page, and the Transformer.
#   There each norm comes after the plus.
# - Xiong et al.,
#   [On Layer Normalization in the Transformer Architecture](https://arxiv.org/abs/2002.04745),
#   2020: the norm before the step, as in Figure 0.4.
# - The numbers in both tables of words were made up for this series.

# %% the-lessons [markdown]
# ## Next
#
# [1 · Attention is a soft lookup](01_attention_is_a_soft_look_up.ipynb) takes the three lines
# apart.
# Why does attention compare vectors,
# and why does it share its weight out instead of picking the best match?

# %% how-it-works [markdown]
# ### How to use the series
#
# - **Your guess first.**
#   A box headed *Predict* asks what will happen.
#   It shows the answer, with an explanation, once you have committed to yours.
#   If a cell below would show the answer at once, its output stays folded until then.
# - **Common mistakes.**
#   Some lessons run faulty code beside the correct code,
#   so that you can see what it does to the numbers.
# - **Exercises.**
#   Most have an empty function for you to fill in, a check that says what went wrong, and a hint.
# - **Numbers you can trust.**
#   A result in the text is shown by a cell, checked by a test that is not on the page, or cited.

# %% if-missing [markdown]
# ### If a package is missing
#
# If the first cell of a lesson fails with `ModuleNotFoundError`, run the cell below,
# which lists the packages that are missing.
# Close the notebook and open it with `make lab`,
# which uses its own Python environment with all the packages.
# If something is missing there, delete the folder `.venv` in the project folder.
# Then `make lab` installs everything again.

# %% missing
from importlib.util import find_spec

needed = "attnlab torch numpy matplotlib pandas seaborn PIL ipywidgets anywidget"
needed += " safetensors tokenizers"
missing = [name for name in needed.split() if find_spec(name) is None]
print("missing:", ", ".join(missing) or "nothing")

# %% plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 44 minutes, and where a class gets stuck</summary>
#
# **44 minutes.**
# The opening, the table and the scores: 9 minutes.
# The weights, with the heatmap read aloud row by row: 7.
# The new vectors, with a show of hands: 8.
# The three lines: 4.
# The two controls: 7.
# The two bats, the second show of hands, the answer and “What to remember”: 9.
#
# If you have only 40 minutes, leave the controls and their questions for home.
# The section “Further” and the exercises can be done at home too.
#
# **Where a class gets stuck.**
# Rows and columns: say “`cat` looks at `sat`” with your finger on the cell.
# “What do the features mean?”
# What their names say: we typed the numbers in to fit the names, and no model learned them.
# “Is the cat less of a cat now?”
# Yes, in the average; the plus of Figure 0.4 adds the old vector back.
# “Did attention understand the sentence?”
# No: it compared numbers that we typed in.
# Try *she hung a bat in the cave*.
# `bat` comes out as an animal, although she may have hung up her sports gear.
# </details>

# %% questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# All six scores of a row are equal.
# What are the weights?
# **A sixth each.**
# *All 0* comes from the idea that words with equal scores are not attended to.
# *A single 1* confuses the softmax with a maximum.
#
# **2.**
# With a causal mask, which words may the first word attend to?
# **Only itself.**
# *All later words* reads the mask the wrong way round.
# *No word* forgets that a word may attend to itself.
#
# **3.**
# `scale` is 0 and `causal` is off.
# What happens?
# **All weights are equal.**
# *All are 0* forgets that $e^0 = 1$.
# *All NaN* would come from dividing by `scale`, but it is a factor.
#
# **4.**
# Without a mask and without positions, does attention notice the order of the words?
# **No.**
# *Yes, through the rows* and *yes,
# through the columns* forget that each output moves along with its word.
#
# **5.**
# What is the output for a token?
# **A weighted average of the values of all tokens that it may attend to.**
# *The best value* would be a hard lookup (lesson 1).
# *Its own vector, made sharper* forgets the other words.
# </details>

# %% misconceptions [markdown] tags=["teacher"]
# <details><summary>For teachers: which lesson deals with which misconception?</summary>
#
# | learners think | lesson |
# |---|---|
# | True means the same in every mask | [3](03_masks_who_may_look_at_whom.ipynb) |
# | a row in which everything is masked is harmless | [3](03_masks_who_may_look_at_whom.ipynb) |
# | `view` does what `transpose` does when heads are split | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | the divisor is the square root of the model's width | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | any divisor that grows with d_k will do | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | the softmax may run along any axis | [1](01_attention_is_a_soft_look_up.ipynb) |
# | -1e9 always works as a mask | [3](03_masks_who_may_look_at_whom.ipynb) |
# | a padding mask must hide the rows of the padding tokens | [3](03_masks_who_may_look_at_whom.ipynb) |
# | padding with zeros needs no mask | [3](03_masks_who_may_look_at_whom.ipynb) |
# | a mask that does not crash has the correct shape | [3](03_masks_who_may_look_at_whom.ipynb) |
# | `is_causal` also works with a cache | [13](13_word_by_word_the_cache.ipynb) |
# | whether the batch comes first is a matter of taste | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | rows still sum to 1 after dropout | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | a head sees a slice of the input | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | errors about non-contiguous tensors can be ignored | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# </details>
