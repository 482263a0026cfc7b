# %% opening [markdown] above="So how can the"
# # 0 · Start here: how a word picks up its context
#
# *Deep in the cave hung a bat.*
# Here is another sentence: *She hit the ball with a bat.*
# Each time you know which bat is meant, because you have read the words before it.
# A language model starts with less: it looks every word up in a table,
# and the table holds one vector for *bat*, whatever the sentence says.
# So how can the same word mean one thing here and another thing there?
#
# The answer is a step called **attention**.
# It compares each word with the words around it,
# and gives each word a new vector that depends on them.
# You will follow one word of a six-word sentence through this step,
# which takes three lines of code.
# Then you will put *bat* into the two sentences above and compare the two vectors that come out.
#
# **You need:** Python, matrix products, and a little PyTorch.
#
# **You will be able to:** compute attention, read a heatmap of its weights,
# and say what it does to the vector of a word.
# The [table of all lessons](#The-lessons) is at the end of the page.
#
# **Time:** 50 minutes in class, or 70 on your own with the exercises.
# “Further” takes another five.
# Links lead to the [glossary](glossary.ipynb), which explains the terms.

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

# %% [markdown]
# ## Six words, five numbers each
#
# A model does not read words.
# It reads [tokens](glossary.ipynb#token), which are words or pieces of words,
# and it keeps a vector of numbers for each of them.
# Here is a small table of such vectors for the sentence *The cat sat on the mat*.
# We chose the columns and typed the numbers in by hand, so every column,
# or [feature](glossary.ipynb#feature), has a name.
# A trained model finds its own numbers, and its columns have no names.

# %% the-table
tokens, features, x = load_table("the_cat_sat_on_the_mat.csv")
Table(tokens, features, x)

# %% [markdown] above="The `animal` of `cat`" below="The only column in"
# The `animal` of `cat` is large, and its `place` is 0.
# Nothing in the word itself says where the cat is.
# For that, you need the other words of the sentence.
#
# ## Which words matter to `cat`?
#
# Attention has to settle how much `cat` should take from each of the other words.
# It does so by comparing vectors:
# it multiplies two rows feature by feature and adds up the products.
# The result is their [dot product](glossary.ipynb#dot-product), which Python writes as `@`.
# Here it is for `on` and `mat`.
# The only column in which both `on` and `mat` are above 0 is `place`.

# %% one-dot-product
on, mat = x[3], x[5]
(on * mat).sum(), on @ mat

# %% [markdown]
# If two words have large numbers in the same columns, their dot product is large,
# and we say that the words match well.
# The matrix product `x @ x.T` compares all pairs of words at once:
# the number in its row $i$ and column $j$ is the dot product of row $i$ of `x` with row $j$ of `x`.
# A dot product divided by the square root of the number of features, here $\sqrt{5}$,
# is called the [score](glossary.ipynb#score) of the pair.
# (Lesson 2 explains the division.)
#
# Before you see the scores, predict one thing about them.
# The output that answers the question stays folded until you have chosen an answer.

# %%
predict("00/best-match-for-cat")

# %% scores
# %%answer 00/best-match-for-cat
scores = x @ x.T / 5**0.5  # (6, 5) @ (5, 6) gives (6, 6)
Table(tokens, tokens, scores)

# %% after-the-scores [markdown] above="Apart from itself, `cat`" answers="00/best-match-for-cat"
# Apart from itself, `cat` matches `sat` best: both have a lot of `animal` and of `action`.
#
# Each row of the table of scores belongs to a word whose new vector we want;
# that word is called the [query](glossary.ipynb#query).
# Each column belongs to a word that the query is compared with,
# called the [key](glossary.ipynb#key).

# %% from-scores-to-weights [markdown]
# ## From scores to weights
#
# Scores can be any numbers, so they are not yet shares of anything.
# The [softmax](glossary.ipynb#softmax) turns a row of scores into [weights](glossary.ipynb#weight)
# in two steps.
# It raises $e$ to the power of each score,
# and then it divides each result by the sum of all the results.
# Here are both steps for the row of `cat`.

# %% softmax-by-hand
cat = tokens.index("cat")
powers = scores[cat].exp()  # e to the power of each score
shares = powers / powers.sum()
both_steps = torch.stack([scores[cat], powers, shares])
Table(["score", "e^score", "weight"], tokens, both_steps)

# %% [markdown] above="The weights are positive"
# The weights are positive and add up to 1, and a larger score gets a larger share.
# PyTorch does the same for all rows in one call.
# With `dim=-1` it works along the last dimension, that is, within each row.

# %% weights
weights = scores.softmax(dim=-1)  # (6, 6), and every row sums to 1
names = {"queries": tokens, "keys": tokens}
show_figure(plot_attention(weights, **names, colorbar=True), "0.1")

# %% reading-the-heatmap [markdown] above="A dark cell means"
# A dark cell means a large weight.
# In the row of `cat`, the word keeps 0.36 of its attention for itself,
# and it gives 0.25 to `sat` and 0.12 to `mat`.
# Even `The`, with a score of 0, gets 0.09, because $e^0$ is 1.
#
# Here no word gives more to another word than it keeps for itself.
# In a trained model, a word may attend mostly to others.
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
three = torch.stack([x[cat], output[cat], x.mean(dim=0)])
Table(["before", "after", "plain average"], features, three)

# %% after-new-vector [markdown] above="The `place` of `cat`" answers="00/place-of-cat"
# The `place` of `cat` has risen from 0 to 0.37.
# This is no longer a vector for *cat* in general.
# It is the vector of *cat* in this sentence.
#
# The last row of the table is the plain average, in which all six words have the same weight.
# It has even more `place`, 0.47, but a higher number is not better in itself:
# a plain average gives every word the same mixture,
# whereas the weights suit the mixture to the word.

# %% which-word-gave-what [markdown]
# ## Which word gave what?
#
# A weighted average is a sum, so we can see where each of its numbers comes from.
# The next table holds the parts of this sum: the row of each word in the first table,
# multiplied by the weight that `cat` gives to that word.
# Except for rounding, the six rows add up to the new vector of `cat`.

# %% parts
Table(tokens, features, weights[cat][:, None] * x)

# %% what-happened [markdown] above="The `place` of 0.37"
# The `place` of 0.37 comes from three words: 0.15 from `mat`, 0.12 from `sat` and 0.10 from `on`.
# In the plain average, `on` would give twice as much as `sat`.
# Here `sat` gives more than `on`, because it matches `cat` better.
#
# The mixing has a price.
# The number under `animal` has halved, from 1.60 to 0.80, because five other words were mixed in,
# and only one of them, `sat`, has any `animal`.
# A model makes it large again by adding the old vector to the new one;
# [the section “Further”](#Further:-where-attention-sits-in-a-model) shows where.
#
# ## Three lines
#
# Those were all the steps of attention, and they fit into a three-line function.
# The full name of what it computes is *scaled dot-product attention*,
# and PyTorch has a function for it.


# %% three-lines
def attend(x):
    scores = x @ x.T / x.shape[-1] ** 0.5  # how well does each pair match?
    weights = scores.softmax(dim=-1)  # turn each row into shares
    return weights @ x  # average the rows with these weights


assert torch.allclose(attend(x), F.scaled_dot_product_attention(x, x, x), atol=1e-6)

# %% three-parts [markdown] below="On this page one"
# Why does PyTorch take `x` three times?
# Because the vector of a word plays three parts.
# As a [query](glossary.ipynb#query) it asks which words match it,
# as a [key](glossary.ipynb#key) it is compared with a query,
# and as a [value](glossary.ipynb#value) it is what gets averaged.
# On this page one vector plays all three parts: query, key and value.
# A trained model makes three different vectors from the vector of each word,
# one with each of three trained matrices.
# Lesson 6 shows how.

# %% steps jupyter={"source_hidden": true}
from attnlab.display import diagram

show_figure(diagram("attention_steps"), "0.2")

# %% order [markdown]
# ## Does the order of the words matter?
#
# You would not confuse *The cat sat on the mat* with *The mat sat on the cat*,
# although both have the same six words.
# Does attention notice the difference?

# %%
predict("00/swapped-words")

# %% swapped
# %%answer 00/swapped-words
swapped = x[[0, 5, 2, 3, 4, 1]]  # The mat sat on the cat
both = torch.stack([output[cat], attend(swapped)[5]])  # "cat" is the last word now
Table(["cat before the swap", "cat after the swap"], features, both)

# %% after-swapped [markdown] above="The new vector of" answers="00/swapped-words"
# The new vector of `cat` has not changed.
# Its weights come from dot products with the same six rows as before,
# and the parts of a sum may come in any order.
# Figure 0.1 already showed this: the rows of `The` and `the` are equal,
# although one of these words begins the sentence and the other comes fifth.
#
# If you apply any *permutation* to the rows of `x`, that is, put them in another order,
# the new vectors come out in that order too, and are otherwise the same.
# A model has to be given the positions in some other way; lesson 11 shows how.

# %% try-it-yourself [markdown] below="At scale 0 all"
# ## Try it yourself
#
# You have now seen the whole mechanism.
# Two of its parts can be changed: which words a word may attend to,
# and how far apart the scores are.
# The picture below shows the weights of Figure 0.1 with a control for each.
# The control `causal`, which is on at first, hides from each word all words that come after it.
# Such a rule is called a [mask](glossary.ipynb#mask),
# and models that write one word after another use this one; lesson 3 explains why.
# The control `scale` is the number by which the dot products are multiplied.
# Until now that was $1/\sqrt{5}$, which is 0.4472.
# At scale 0 all scores are equal, and a large scale exaggerates their differences.
#
# A line next to the picture says how many words `cat` spreads its attention over:
# 6 if all six have the same weight, 1 if a single word has all of it.
# (The glossary has the formula, under [effective keys](glossary.ipynb#effective-keys).)
#
# With `causal` on, all the weight of the first row is in one cell.
# Why?
# And if you switch `causal` off,
# can you find a `scale` that puts all the weight of the first row into one cell?

# %% slider jupyter={"source_hidden": true}
from attnlab import attention_weights, causal_mask, effective_keys
from attnlab.explorers import live


def draw(fig, scale, causal):
    # may_attend[i, j] is True where word i may attend to word j
    may_attend = causal_mask(6) if causal else torch.ones(6, 6, dtype=torch.bool)
    drawn = attention_weights(x @ x.T * scale, attn_mask=may_attend)
    plot_attention(drawn, ax=fig.subplots(), attn_mask=may_attend, **names)
    used = effective_keys(drawn)[cat]
    return f"“cat” spreads its attention over about <b>{used:.1f}</b> words."


controls = {"scale": [0, 0.4472, 1, 2, 4, 8], "causal": True}
live(draw, start={"scale": 0.4472}, alt="Six-by-six heatmap of weights.", **controls)

# %% slider-answer [markdown]
# <details><summary>An answer</summary>
#
# Under a causal mask the first word may attend only to itself, because no word comes before it.
# Without the mask no scale can do it.
# A large scale favours the best match, but the first row has two best matches:
# `The` and `the` have the same vector, so they always share the weight equally.
# Even at scale 8 each of them has only 0.45.
# </details>

# %% two-bats [markdown] below="The word alone does"
# ## Two bats
#
# The next table holds the words of both sentences about a bat.
# Again we typed the numbers in by hand.
# The column `sport` has taken the place of `object`.
# The word alone does not say which bat is meant, so `bat` has 1 under both `animal` and `sport`.
# We gave `cave` some `animal` because animals live in caves, and `hung` some because bats hang.

# %% bat-table
vocabulary, columns, vectors = load_table("cave_and_ball.csv")
Table(vocabulary, columns, vectors)

# %% [markdown] below="Both sentences have seven"
# The function `rows` looks up the row of each word of a sentence.
# Both sentences have seven words, and both end in `bat`.


# %% rows
def rows(sentence):
    return vectors[[vocabulary.index(word) for word in sentence.split()]]


in_the_cave = rows("deep in the cave hung a bat")
with_the_ball = rows("she hit the ball with a bat")
in_the_cave[-1], with_the_ball[-1]  # the same row of the table, twice

# %%
predict("00/two-bats")

# %% two-vectors
# %%answer 00/two-bats
bats = {
    "“bat” in the table": in_the_cave[-1],
    "“bat” in the cave": attend(in_the_cave)[-1],
    "“bat” with the ball": attend(with_the_ball)[-1],
    "plain average, cave": in_the_cave.mean(dim=0),
    "plain average, ball": with_the_ball.mean(dim=0),
}
Table(list(bats), columns, torch.stack(list(bats.values())))

# %% two-heatmaps jupyter={"source_hidden": true}
# %%answer 00/two-bats
import matplotlib.pyplot as plt
import pandas as pd

texts = {
    "In the cave: more animal than sport": "deep in the cave hung a bat",
    "With the ball: more sport than animal": "she hit the ball with a bat",
}
_, axes = plt.subplots(
    2, 2, figsize=(7.5, 4.2), layout="constrained", height_ratios=(1, 2.4), sharey="row"
)
for (top, bottom), (title, text) in zip(axes.T, texts.items(), strict=True):
    seen = rows(text)
    given = (seen[-1:] @ seen.T / 5**0.5).softmax(dim=-1)
    plot_attention(given, ax=top, queries=["bat"], keys=text.split(), title=title)
    before_and_after = {"in the table": seen[-1], "new vector": given[0] @ seen}
    frame = pd.DataFrame(before_and_after, index=columns)
    frame.plot.bar(ax=bottom, rot=30, color=["gray", "C0"], legend=bottom is axes[1, 0])
show_figure(axes[0, 0], "0.3")

# %% after-two-bats [markdown] above="In the cave both" answers="00/two-bats"
# In the cave both numbers of `bat` fall, and `sport` falls further; with the ball,
# `animal` falls further.
# In the cave 0.48 of `animal` and 0.27 of `sport` are left; with the ball, 0.25 and 0.69.
# Figure 0.3 shows why.
# In the first sentence `bat` gives 0.16 of its attention to `cave` and 0.14 to `hung`,
# and both add to its `animal`.
# In the second it gives 0.21 to `ball` and 0.14 to `hit`, which add to its `sport`.
# The other words have nothing in common with `bat`, so they get less.
#
# Would a plain average do as well?
# The two plain averages differ too, because the sentences have different words.
# But a plain average is one vector for the whole sentence, so *bat*,
# *hung* and *the* would all be given the same new vector.
# With attention each word makes an average of its own,
# in which the words that match it count for more.
#
# How much attention improves on a plain average depends on the sentence.
# In the cave, the lead of `animal` over `sport` is about 0.2 either way,
# because `cave` and `hung` get about a seventh of the weight each, as in a plain average.
# With the ball, the lead of `sport` grows by about 0.1.

# %% the-answer [markdown] answers="00/two-bats"
# So how can *bat* mean one thing here and another thing there?
# The table gives it the same vector in both sentences.
# Then attention mixes some of *cave* and *hung* into this vector in the first sentence,
# and some of *ball* and *hit* in the second.
# In the cave, the new vector describes an animal more than it describes a piece of sports
# equipment; with the ball it is the other way round.
#
# Here we chose the numbers.
# A trained model learns what to compare and what to hand over (lesson 6).
# Whether its attention finds the correct meaning is a different question, which lesson 5 takes up.

# %% where-it-sits [markdown]
# ## Further: where attention sits in a model
#
# A [Transformer](glossary.ipynb#Transformer), the kind of model behind today's chatbots,
# is a stack of blocks like the one below.
# Attention is the only step of a block in which words see each other.

# %% block jupyter={"source_hidden": true}
from attnlab.display import diagram

show_figure(diagram("transformer_block"), "0.4")

# %% two-boxes [markdown]
# Two of the boxes deal with questions that this page has left open.
# **+ position** is there because one step of attention cannot see the order of the words that it
# averages.
# Even with a causal mask, one step shows a word only *which* words came before it,
# not in what order.
# (Many chatbots, for example those built on Llama,
# have no such box and build the positions into the scores instead.)
#
# The **+** after attention adds the old vector to the new one.
# Here is the vector of `cat` after this plus.
# (We leave out the norm, the positions and the trained matrices of a real model.)

# %% plus
Table(["cat + new vector"], features, torch.stack([x[cat] + output[cat]]))

# %% [markdown]
# Its `animal` is even larger than at first, and it has kept its new `place`.

# %% remember [markdown]
# ## What to remember
#
# - Attention gives every token a new vector:
#   a weighted average of the vectors of all tokens that it may attend to.
# - The weights come from comparing vectors: dot products,
#   divided by the square root of the number of features, then the softmax along each row.
# - In a heatmap of weights, each row belongs to one query and sums to 1.
# - Attention can give the same word different vectors in different sentences.
#   Without a mask and without any information about positions,
#   the order of the words makes no difference.

# %% [markdown]
# ## Exercises
#
# ### 1 · Implement ★★ (10 minutes)
#
# Which word adds most to the `animal` of `bat` in the cave?
# To find out, hide a word from `bat` and see what changes.
# Write `new_vector(query, x, hidden)`,
# which returns the new vector of one word if it may not attend to the word at index `hidden`.
# The other words get all of its attention.
# `query` is the row of the word whose new vector is wanted,
# and `x` holds the rows of all words of the sentence.


# %% tags=["exercise"]
def new_vector(query, x, hidden):
    """Return the new vector of one word, shape (E,), without the word at index hidden.

    query: its row, shape (E,); x: the rows of all words of the sentence, shape (L, E).
    """


# %%
check_new_vector(new_vector)

# %% hint [markdown]
# <details><summary>Hint</summary>
#
# Go back to the table with the rows `score`, `e^score` and `weight`.
# In which of these rows can you put a 0 for the hidden word,
# so that it gets no weight and the weights still add up to 1?
# A 0 in either of the other two rows does not do both.
# </details>


# %% tags=["solution"]
def new_vector_solution(query, x, hidden):
    powers = (x @ query / query.shape[-1] ** 0.5).exp()  # one for each word
    powers[hidden] = 0  # no share for the hidden word
    return powers / powers.sum() @ x


check_new_vector(new_vector_solution)

# %% one-hidden [markdown]
# When the check accepts your function, hide the words of the first sentence one at a time:
# call it with `in_the_cave[-1]`, `in_the_cave` and each index from 0 to 5.
# Guess first: which word, when it is hidden, leaves `bat` with the least `animal`?

# %% each-hidden tags=["solution"]
without = [
    new_vector_solution(in_the_cave[-1], in_the_cave, hidden) for hidden in range(6)
]
labels = [f"“bat” without {word}" for word in "deep in the cave hung a".split()]
Table(labels, columns, torch.stack(without))

# %% which-word [markdown]
# <details><summary>An answer</summary>
#
# It is `cave`.
# Its `animal` is larger than that of `hung`, and for that reason it also gets more weight.
# But even without `cave`, `animal` stays ahead of `sport`: `hung` is enough.
# Without a word that has no `animal`, such as `deep`, the new vector has more `animal` than before,
# because the weight of that word goes to the others.
# </details>

# %% [markdown]
# ### 2 · Find ★★ (8 minutes)
#
# Make up a third sentence with the words of the second table.
# It must contain `bat` and `ball` once each,
# and yet the new vector of `bat` must have more `animal` than `sport`.
# Any other word may appear more than once.
# Write down a guess first, and then compute the new vectors with `attend(rows("..."))`.


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

# %% in-torch [markdown] below="Under a causal mask"
# ## In torch
#
# The attention on this page can be written in one line, `F.scaled_dot_product_attention(x, x, x)`,
# where `F` is `torch.nn.functional`.
# It returns the output but not the weights.
# With `is_causal=True` it uses the causal mask.
# Under a causal mask, `cat` may attend only to `The` and to itself, so no `place` reaches `cat`.

# %% torch-line
masked = F.scaled_dot_product_attention(x, x, x, is_causal=True)
Table(["cat under a causal mask"], features, masked[cat][None])

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017:
#   attention as on this page, and the Transformer.
#   There each norm comes after the plus.
# - Xiong et al.,
#   [On Layer Normalization in the Transformer Architecture](https://arxiv.org/abs/2002.04745),
#   2020: the norm before the step, as in Figure 0.4.
# - Su et al.,
#   [RoFormer: Enhanced Transformer with Rotary Position Embedding](https://arxiv.org/abs/2104.09864),
#   2021: positions built into the scores.
# - Touvron et al.,
#   [LLaMA: Open and Efficient Foundation Language Models](https://arxiv.org/abs/2302.13971), 2023:
#   a model that builds the positions into the scores,
#   and whose norm rescales each vector without shifting its mean to 0.
# - Haviv et al.,
#   [Transformer Language Models without Positional Encodings Still Learn Positional Information](https://arxiv.org/abs/2203.16634),
#   2022: with a causal mask, a language model can learn the positions of the words even if they are
#   not given to it.
# - The numbers in both tables of words were made up for this series.

# %% the-lessons [markdown]
# ## Next
#
# [1 · Attention is a soft lookup](01_attention_is_a_soft_look_up.ipynb) takes the three lines
# apart.
# Why does attention compare vectors,
# and why does it share its weight out instead of picking the best match?
#
# ### The lessons
#
# | | lesson | the question it answers | minutes in class / alone |
# |---|---|---|---|
# | 0 | Start here | How can the same word mean one thing here and another thing there? | 50 / 70 |
# | 1 | [Attention is a soft lookup](01_attention_is_a_soft_look_up.ipynb) | What if a dictionary could answer “almost”? | 50 / 90 |
# | 2 | [Why divide by the square root of d_k](02_why_divide_by_the_square_root_of_d_k.ipynb) | Why divide, and why by that number? | 49 / 80 |
# | 3 | [Masks](03_masks_who_may_look_at_whom.ipynb) | How can a model be trained on every next word at once without being shown the answers? | 49 / 80 |
# | 4 | [Reading heatmaps honestly](04_reading_heatmaps_honestly.ipynb) | What does a dark cell prove? | 50 / 90 |
# | 5 | [What does “bank” mean here?](05_what_does_bank_mean_here.ipynb) | Does attention find the meaning? | 50 / 85 |
# | 6 | [Where Q, K and V come from](06_where_q_k_and_v_come_from.ipynb) | Why use three matrices instead of comparing the tokens themselves? | 50 / 90 |
# | 7 | [Multi-head attention](07_multi_head_reshaping_without_scrambling.ipynb) | What can a line do that computes nothing? | 44 / 80 |
# | 8 | [What attention costs](08_what_attention_costs_and_how_to_pay_less.ipynb) | Where does the memory go, and can we use less? | 50 / 90 |
# | 9 | [The attention clinic](09_clinic.ipynb) | How do you find a bug with no correct version to compare against? | 50 / 95 |
# | 10 | [One real attention layer](10_one_real_attention_layer.ipynb) | What does a trained layer really look at? | 50 / 90 |
# | 11 | [Order](11_order.ipynb) | Who tells attention where words stand? | 50 / 85 |
# | 12 | [Two layers that look back](12_two_layers_that_look_back.ipynb) | What can two layers do that one cannot? | 50 / 85 |
# | 13 | [Word by word: the cache](13_word_by_word_the_cache.ipynb) | Why does one more word not cost a whole pass? | 50 / 85 |
# | 14 | [Where a meaning appears](14_where_a_meaning_appears.ipynb) | Which layer knows which bank is meant, and does anything use it? | 50 / 85 |

# %% how-it-works [markdown]
# ### How to use the series
#
# Every lesson works in the same way.
#
# - **Your guess first.**
#   A box headed *Predict* asks what will happen.
#   It shows the answer, with an explanation, once you have committed to yours.
#   If a cell below would show the answer at once, its output stays folded until then.
# - **Common mistakes.**
#   Where a mistake is common, the lesson runs the faulty code beside the correct code,
#   so that you can see what it does to the numbers.
# - **Exercises.**
#   Most have an empty function for you to fill in, a check that says what went wrong, and a hint.
# - **Numbers you can trust.**
#   Every result in the text is either shown by a cell or checked by a test that is not on the page.

# %% ways-to-use [markdown]
# There are three ways to use the series.
# Type the `make` commands into a terminal, in the project folder.
#
# - **Alone.**
#   Do one lesson in an evening.
#   You work on a copy in `my_notebooks/`.
#   If you want to start again, `make fresh NB=01` puts your copy of lesson 1 aside and makes a new
#   one.
# - **In class.**
#   Show a lesson on the projector, stop at each prediction and ask for a show of hands.
#   `predict("00/place-of-cat", ask=False)` shows the explanation at once.
#   The figures are in `figures/`, and `make student` writes copies to `student/` without the
#   solutions or the teachers' notes.
# - **Pictures only.**
#   Run all cells and go from one picture with controls to the next.
#   A sentence beside each of them says what it shows.

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
# <details><summary>For teachers: a plan for 50 minutes, and where a class gets stuck</summary>
#
# **50 minutes.**
# The table and the scores, with a show of hands: 10 minutes.
# The weights, with the heatmap read aloud row by row: 7.
# The new vector and where it comes from: 8.
# The three lines and the drawing: 4.
# The swap: 5.
# The two controls: 6.
# The two bats and the answer: 10.
#
# If you have only 40 minutes, leave the controls and their two questions for home.
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
# *An error* would come from dividing by `scale`, but it is a factor.
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
