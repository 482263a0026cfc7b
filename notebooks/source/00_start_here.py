# %% opening [markdown]
# # 0 · Start here: how a word picks up its context
#
# *Deep in the cave hung a bat.* That is one sentence, and here is another: *She hit the ball with a bat.* Each time you know which bat is meant, because
# you have read the words before it. A language model starts with less: it looks every word up in a table, and the table holds one vector for *bat*, whatever the
# sentence says. So how can the same word mean one thing here and another thing there?
#
# The answer is a step called **attention**. It lets every word look at the words around it, and gives each word a new vector that depends on
# them. On this page you will watch this happen to one word of a six-word sentence. Each word is described by five numbers, and the code is three
# lines long.
#
# **You need:** Python, matrix products, and a little PyTorch.
#
# **You will be able to:** compute attention, read a heatmap of its weights, say what it does to the vector of a word, and choose the lesson
# that you want to read next. The [table of all lessons](#The-lessons) is at the end of the page.
#
# **Time:** 40 minutes in class, or 45 minutes on your own, including the exercise. Run the cells from top to bottom, one at a time, with
# **Shift + Enter**. If the first one fails, read [If a package is missing](#If-a-package-is-missing). Technical terms are linked to the
# [glossary](glossary.ipynb), which explains them.

# %%
import torch

from attnlab import Table, attention_weights, causal_mask, effective_keys, load_table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import check_is_distribution, predict
from attnlab.plotting import plot_attention

lesson_setup()

# %% [markdown]
# ## Six words, five numbers each
#
# A model does not read words. It reads [tokens](glossary.ipynb#token), which are words or pieces of words, and it keeps a
# vector of numbers for each of them. Here is a small table of such vectors for the sentence *The cat sat on the mat*. We
# chose the columns and typed the numbers in by hand, so every column, or [feature](glossary.ipynb#feature), has a name. A
# trained model finds its own numbers, and its columns have no names.

# %% the-table
tokens, features, x = load_table("the_cat_sat_on_the_mat.csv")
Table(tokens, features, x)

# %% [markdown]
# Look at the row of `cat`. Its `animal` is large, and its `place` is 0, because nothing in the word itself says where the cat is. For
# that, you need the other words of the sentence.
#
# ## Which words matter to `cat`?
#
# Before `cat` can take anything from the other words, attention has to settle how much `cat` should take from each.
# Attention does so by comparing vectors: it multiplies two rows feature by feature and adds up the products. The result
# is their [dot product](glossary.ipynb#dot-product), which Python writes as `@`. Here it is for `on` and `mat`. The only
# column in which both are above 0 is `place`.

# %% one-dot-product
on, mat = x[3], x[5]
(on * mat).sum(), on @ mat

# %% [markdown]
# If the rows of two words have large numbers in the same columns, their dot product is large, and we say that the words match well. The dot
# product divided by the square root of the number of features is called the [score](glossary.ipynb#score) of the pair. (Lesson 2 explains the
# division.)
#
# Before you see the scores, predict one thing about them. Run the next cell and choose an answer. The output of the cell
# after it stays folded until you have answered.

# %%
predict("00/best-match-for-cat")

# %% scores
# %%answer 00/best-match-for-cat
L, E = x.shape  # 6 tokens, 5 features
scores = x @ x.T / E**0.5  # (L, L)
Table(tokens, tokens, scores)

# %% after-the-scores [markdown]
# Each row of the table of scores belongs to a word whose new vector we want; that word is called the [query](glossary.ipynb#query). Each column belongs
# to a word that the query is compared with, called the [key](glossary.ipynb#key). Your prediction was about the row of `cat`.
#
# ## From scores to weights
#
# Scores can be any numbers, so they are not yet shares of anything. The [softmax](glossary.ipynb#softmax) turns a row
# of scores into [weights](glossary.ipynb#weight): it raises $e$ to the power of each score and divides each result by
# the sum of all the results. The weights are positive and add up to 1, and a larger score gets a larger share.

# %% weights
weights = scores.softmax(dim=-1)  # (L, L): every row sums to 1
words = {"queries": tokens, "keys": tokens}
show_figure(plot_attention(weights, **words), "0.1")

# %% reading-the-heatmap [markdown]
# A dark cell means a large weight. Follow the row of `cat` with your finger. The word keeps 0.36 of its attention for
# itself, because $e^{1.38}$ is about 4.0 and the six powers of $e$ in this row add up to 11.1. It gives 0.25 to `sat` and 0.12 to
# `mat`. Even `The`, with a score of 0, gets 0.09, because $e^0$ is 1.
#
# ## The new vector
#
# These weights are now used to mix the rows of the table. The new vector of `cat`, its [output](glossary.ipynb#output), is a weighted
# average: 0.36 times its own row, plus 0.25 times the row of `sat`, plus 0.12 times the row of `mat`, and so on through all six words. One
# matrix product, `weights @ x`, computes it for every word at once.

# %%
predict("00/place-of-cat")

# %% new-vector
# %%answer 00/place-of-cat
output = weights @ x  # (L, E)
cat = tokens.index("cat")
Table(["before", "after"], features, torch.stack([x[cat], output[cat]]))

# %% bars jupyter={"source_hidden": true}
# %%answer 00/place-of-cat
import pandas as pd

change = pd.DataFrame({"before": x[cat], "after": output[cat]}, index=features)
ax = change.plot.bar(rot=0, color=["gray", "C0"], title="The vector of “cat”")
show_figure(ax, "0.2")

# %% [markdown]
# This is no longer a vector for *cat* in general. It is the vector of *cat* in this sentence.
#
# ## Which word gave what?
#
# A weighted average is a sum, so we can see where each of its numbers comes from. The next table has one row for each of the six words: the row of
# that word in the first table, multiplied by the weight that `cat` gives to that word. The six rows add up to the new vector of `cat`, up to the
# rounding of the numbers shown.

# %% parts
weighted_rows = [weights[cat, j] * x[j] for j in range(L)]
Table(tokens, features, torch.stack(weighted_rows))

# %% what-happened [markdown]
# The `place` column adds up to 0.37: 0.15 comes from `mat`, 0.12 from `sat` and 0.10 from `on`. A plain average of the six
# rows would bring in some `place` too, and even more of it, 0.47, because `cat` would keep less of the weight for itself. But
# a large amount is not the aim. What the weights decide is how much comes from each word: in the plain average `on`
# would give twice as much `place` as `sat`, while here `sat`, which matches `cat` better, gives more than `on`.
#
# The mixing has a price. The value of `animal` has halved, from 1.60 to 0.80, because five other words were mixed in and only one of them, `sat`, has
# any `animal` of its own. (We gave it some because sitting is something that animals do.) We will come back to this loss at the end of the page.
#
# ## Three lines
#
# Those were all the steps of attention, and they fit into a three-line function. The full name of what it computes is
# *scaled dot-product attention*, and PyTorch has a function of its own for it.


# %% three-lines
def attend(x):
    scores = x @ x.T / x.shape[-1] ** 0.5  # how well does each pair match?
    weights = scores.softmax(dim=-1)  # turn each row into shares
    return weights @ x  # average the rows with these weights


fast = torch.nn.functional.scaled_dot_product_attention
assert torch.allclose(attend(x), fast(x, x, x), atol=1e-6)

# %% [markdown]
# Why does PyTorch take `x` three times? Because the vector of a word plays three parts. As a [query](glossary.ipynb#query) it asks which words match
# it, as a [key](glossary.ipynb#key) it is compared with a query, and as a [value](glossary.ipynb#value) it is what gets averaged. On this page one
# vector plays all three parts. A trained model makes three different vectors from the vector of each word, one with each of three trained matrices. Lesson 6 shows how.

# %% steps jupyter={"source_hidden": true}
from attnlab.diagrams import draw_attention_steps, draw_transformer_block

show_figure(draw_attention_steps(), "0.3")

# %% [markdown]
# ## The same word in another text
#
# Now we can return to the question at the top of the page. We take the word `cat` again, with the same row of the table, and put it into a
# shorter text, *The cat*.

# %% two-sentences
short = attend(x[:2])  # the first two rows: "The cat"
both = torch.stack([short[cat], output[cat]])
Table(["cat in “The cat”", "cat in the whole sentence"], features, both)

# %% after-two-sentences [markdown]
# The same word, with the same row of the table, has ended up with two different vectors. In *The cat* no word has a place, so there is none to pick up,
# and `place` stays at 0.
#
# The two texts differ in their words. What if only the order of the words is different?

# %%
predict("00/swapped-words")

# %% swapped
# %%answer 00/swapped-words
swapped = x[[0, 5, 2, 3, 4, 1]]  # The mat sat on the cat
cats = torch.stack([output[cat], attend(swapped)[5]])  # "cat" is the last word now
Table(["cat before the swap", "cat after the swap"], features, cats)

# %% after-swapped [markdown]
# In both sentences every word could look at every other word. That need not be so, as the second of the two controls below will show.
#
# ## Try it yourself
#
# The picture below is Figure 0.1 with two controls. Until now the dot products were divided by $\sqrt{5}$, that is, multiplied by 0.4472. The control
# `scale` replaces this factor: at 0 all scores are equal, and a large scale exaggerates their differences. The control `causal` hides from each word
# all words that come after it. Such a rule is called a [mask](glossary.ipynb#mask), and models that write one word after another use this one;
# lesson 3 explains why. In the code, `attention_weights` does what the softmax line of `attend` does, but also takes a mask.
#
# A line next to the picture says how many words `sat` spreads its attention over: 6 if all six words have the same weight, 1 if a single word has
# all the weight, and something in between otherwise. (Lesson 2 explains this number.)

# %%
predict("00/all-weight-in-one-cell")


# %% slider
def draw(fig, scale, causal):
    # may_look[i, j] is True where word i may look at word j
    may_look = causal_mask(L) if causal else torch.ones(L, L, dtype=torch.bool)
    shares = attention_weights(x @ x.T * scale, attn_mask=may_look)
    plot_attention(shares, ax=fig.subplots(), attn_mask=may_look, **words)
    used = effective_keys(shares)[tokens.index("sat")]
    return f"“sat” spreads its attention over about <b>{used:.1f}</b> words."


from attnlab.live import live

controls = {"scale": [0, 0.4472, 1, 2, 4, 8], "causal": False}
live(draw, start={"scale": 0.4472}, alt="Six-by-six heatmap of weights.", **controls)

# %% where-it-sits [markdown]
# ## Where attention sits in a model
#
# A Transformer, the kind of model behind today's chatbots, is a stack of blocks like the one below. Attention is the only step of a block in which
# words see each other.

# %% block jupyter={"source_hidden": true}
show_figure(draw_transformer_block(), "0.4")

# %% two-boxes [markdown]
# Two of the boxes settle what this page has left open. **+ position** is there because one step of attention cannot see
# the order of the words that it averages. Even with a causal mask, one step shows a word only *which* words came before
# it, not in what order. (Many chatbots, for example those built on Llama, have no such box and build the positions into
# the scores instead.) The **+** after attention adds the old vector to the new one, which makes up for the loss of
# `animal`. Here is the vector of `cat` after this plus. We leave out the norm, the positions and the trained matrices
# of a real model.

# %% plus
Table(["cat + new vector"], features, torch.stack([x[cat] + output[cat]]))

# %% the-answer [markdown]
# Its `animal` is large again, and it has kept its new `place`.
#
# So how can *bat* mean one thing here and another there? The table gives it the same vector in both sentences. But when a
# model reads one sentence at a time, attention mixes a bit of *cave* and *hung* into the vector of *bat* in the first, and a
# bit of *hit* and *ball* in the second. Two different vectors therefore move on to the next step. (If both sentences were in one
# text, with no mask and no positions, both occurrences of *bat* would get the same new vector, because they have the same
# row and see the same words.)
#
# How much of each word is mixed in depends on the scores. On this page a score says how well the features of two words
# match; a trained model learns what to compare, and lesson 6 shows how. Whether the mix brings out the correct meaning is a
# different question, which lesson 5 takes up.

# %% how-it-works [markdown]
# ## Further: how to use the series
#
# Every lesson works in the same way.
#
# - **Your guess first.** A box headed *Predict* asks what will happen. It shows the answer, with an explanation, once you have committed to yours. If a
#   cell below would show the answer at once, its output stays folded until then.
# - **Common mistakes.** Where a mistake is common, the lesson runs the faulty code beside the correct code, so that you can see what it does to the numbers.
# - **Exercises.** Most have an empty function for you to fill in, a check that says what went wrong, a hint, and a solution, which you open by clicking its
#   three dots.
# - **Numbers you can trust.** Each result in the text is shown by a cell or checked by a test that is not on the page. `make test` runs all these
#   cells and tests.
#
# There are three ways to use the series. Type the `make` commands into a terminal, in the project folder.
#
# - **Alone.** Take one lesson an evening. You work on a copy in `my_notebooks/`; `make fresh NB=01` sets your copy of lesson 1 aside and makes a new one.
# - **In class.** Project a lesson, stop at each prediction and ask for a show of hands; `predict("00/place-of-cat", ask=False)` shows the explanation at
#   once. The figures are in `figures/`, and `make student` writes copies to `student/` without the solutions or the teachers' notes.
# - **Sliders only.** Run all cells and go from picture to picture. Next to each picture that has controls, a sentence says what you are looking at.

# %% [markdown]
# ### If a package is missing
#
# If the first cell of a lesson fails with `ModuleNotFoundError`, run the cell below, which lists the packages that are missing. Close the notebook and
# open it with `make lab`, which uses its own Python environment with all the packages. If something is missing there, delete the
# folder `.venv` in the project folder. Then `make lab` installs everything again.

# %% missing
from importlib.util import find_spec

needed = "attnlab torch numpy matplotlib pandas seaborn PIL ipywidgets anywidget"
needed += " safetensors tokenizers"
missing = [name for name in needed.split() if find_spec(name) is None]
print("missing:", ", ".join(missing) or "nothing")

# %% remember [markdown]
# ## What to remember
#
# - Attention gives every token a new vector: a weighted average of the vectors of all tokens it may look at.
# - The weights come from comparing vectors: dot products, divided by $\sqrt{E}$, then the softmax along each row.
# - In a heatmap of weights, each row belongs to one query and sums to 1.
# - Attention can give the same word different vectors in different sentences. Without a causal mask and without any
#   information about positions, the order of the words makes no difference.

# %% [markdown]
# ## Exercises
#
# ### Is it a row of weights? ★ (4 minutes)
#
# Write `is_distribution(row)`. It should return True if the entries of `row` could be attention weights, that is, if none is negative and they
# sum to 1, up to rounding. Fill in the function, run its cell, then run the check.


# %% tags=["exercise"]
def is_distribution(row):
    """Return whether a tensor of shape (S,) could be a row of attention weights."""


# %%
check_is_distribution(is_distribution)

# %% hint [markdown]
# <details><summary>Hint</summary>
#
# There are two conditions, joined by `and`. Computers round, so a row of weights can sum to 0.9999999. Ask how far the sum is from 1, in either
# direction, and allow a small difference.
# </details>


# %% tags=["solution"] jupyter={"source_hidden": true}
def is_distribution_solution(row):
    return bool((row >= 0).all() and abs(row.sum() - 1) < 1e-5)


check_is_distribution(is_distribution_solution)

# %% in-torch [markdown]
# ## In torch
#
# The attention on this page can be written in one line, `F.scaled_dot_product_attention(x, x, x)`, where `F` is `torch.nn.functional`. It returns the
# output but not the weights. `is_causal=True` switches the causal mask on. Then `cat` sees no word after it, so it gets the same vector as in *The cat*.
#
# PyTorch itself is not consistent about what True means in a mask. In the mask that `F.scaled_dot_product_attention` takes, as in all masks of
# `attnlab`, True means *may look*. In `nn.MultiheadAttention`, PyTorch's ready-made attention layer, True means *blocked*. Lesson 3 shows both.

# %% torch-line
masked = fast(x, x, x, attn_mask=causal_mask(L))  # True = may look
assert torch.allclose(masked, fast(x, x, x, is_causal=True))
masked[cat]

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017: attention as on this page, and the Transformer. There each norm
#   comes after the plus.
# - Xiong et al., [On Layer Normalization in the Transformer Architecture](https://arxiv.org/abs/2002.04745), 2020: the norm before the step, as in Figure 0.4.
# - Su et al., [RoFormer: Enhanced Transformer with Rotary Position Embedding](https://arxiv.org/abs/2104.09864), 2021: positions built into the scores.
# - Touvron et al., [LLaMA: Open and Efficient Foundation Language Models](https://arxiv.org/abs/2302.13971), 2023: a model that builds the positions
#   into the scores, and whose norm rescales each vector without shifting its mean to 0.
# - Haviv et al., [Transformer Language Models without Positional Encodings Still Learn Positional Information](https://arxiv.org/abs/2203.16634),
#   2022: with a causal mask, a language model can learn the positions of the words even if they are not given to it. The authors suspect that the
#   mask makes this possible, because a word can then tell how many words come before it. In one step of attention it sees *which* words these are,
#   but not in what order they come.
# - The numbers in the table for *The cat sat on the mat* were made up for this series.

# %% the-lessons [markdown]
# ## Next
#
# [1 · Attention is a soft look-up](01_attention_is_a_soft_look_up.ipynb) takes the three lines apart. Why does attention compare vectors, and why
# does it share its weight out instead of picking the best match?
#
# ### The lessons
#
# | | lesson | the question it answers | minutes in class / alone |
# |---|---|---|---|
# | 0 | Start here | How can the same word mean different things in different sentences? | 40 / 45 |
# | 1 | [Attention is a soft look-up](01_attention_is_a_soft_look_up.ipynb) | What if a dictionary could answer “almost”? | 45 / 75 |
# | 2 | [Why divide by the square root of d_k](02_why_divide_by_the_square_root_of_d_k.ipynb) | Why does everybody divide by that number? | 45 / 75 |
# | 3 | [Masks](03_masks_who_may_look_at_whom.ipynb) | How can a model learn to predict the next word at every position at once, without seeing the answers? | 45 / 90 |
# | 4 | [Reading heatmaps honestly](04_reading_heatmaps_honestly.ipynb) | What does a dark cell prove? | 50 / 80 |
# | 5 | [What does “bank” mean here?](05_what_does_bank_mean_here.ipynb) | Does attention find the meaning? | 50 / 80 |
# | 6 | [Where Q, K and V come from](06_where_q_k_and_v_come_from.ipynb) | Why use three matrices instead of comparing the tokens themselves? | 45 / 75 |
# | 7 | [Multi-head attention](07_multi_head_reshaping_without_scrambling.ipynb) | What can two heads do that one cannot? | 45 / 90 |
# | 8 | [What attention costs](08_what_attention_costs_and_how_to_pay_less.ipynb) | Where does the memory go, and can we use less? | 45 / 90 |
# | 9 | [The attention clinic](09_clinic.ipynb) | How do you find a bug with no correct version to compare against? | 45 / 90 |
# | 10 | [One real attention layer](10_one_real_attention_layer.ipynb) | What does a trained layer really look at? | 45 / 80 |
# | 11 | [Order](11_order.ipynb) | Who tells attention where words stand? | 50 / 85 |
# | 12 | [Two layers that look back](12_two_layers_that_look_back.ipynb) | What can two layers do that one cannot? | 45 / 80 |
# | 13 | [Word by word: the cache](13_word_by_word_the_cache.ipynb) | Why does one more word not cost a whole pass? | 50 / 85 |
# | 14 | [Where a meaning appears](14_where_a_meaning_appears.ipynb) | After which layer can one see what “bank” means, and is that due to attention? | 50 / 85 |

# %% plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 40 minutes, and where a class gets stuck</summary>
#
# **40 minutes.** The table and the scores, with a show of hands: 8 minutes. The heatmap, read aloud row by row: 5. The new vector: 7. The three lines
# and the drawing: 4. Two texts and the swap: 6. The two controls: 5. The block, the answer and the table of lessons: 5.
#
# If you have only 30 minutes, stop before the two controls. The rest can be read at home.
#
# **Where a class gets stuck.** Rows and columns: say “`cat` looks at `sat`” with your finger on the cell. “What do the features mean?” What their names
# say: we typed the numbers in to fit the names, and no model learned them. “Is the cat less of a cat now?” Yes, in the average; the plus of Figure 0.4
# adds the old vector back.
# </details>

# %% questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** All six scores of a row are equal. What are the weights? **A sixth each.** *All 0* takes equal scores to mean that no word is looked at. *A
# single 1* mistakes the softmax for a maximum.
#
# **2.** With a causal mask, which words does the first word see? **Only itself.** *All later words* reads the mask the wrong way round. *No word* forgets that a
# word may look at itself.
#
# **3.** `scale` is 0 and `causal` is off. What happens? **All weights are equal.** *All are 0* forgets that $e^0 = 1$. *An error* takes `scale` for
# a divisor, but it is a factor.
#
# **4.** Without a mask and without positions, does attention notice the order of the words? **No.** *Yes, through the rows* and *yes, through the columns* forget that each
# output moves along with its word.
#
# **5.** What is the output for a token? **A weighted average of the values of all tokens that it may look at.** *The best value* would be a hard look-up
# (lesson 1). *Its own vector, made sharper* forgets the other words.
# </details>

# %% misconceptions [markdown] tags=["teacher"]
# <details><summary>For teachers: which lesson deals with which misconception?</summary>
#
# | learners think | id | lesson |
# |---|---|---|
# | True means the same in every mask | M1 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | a row in which everything is masked is harmless | M2 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | `view` does what `transpose` does when heads are split | M3 | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | the divisor is the square root of the model's width | M4 | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | any divisor that grows with d_k will do | M5 | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | the softmax may run along any axis | M6 | [1](01_attention_is_a_soft_look_up.ipynb) |
# | -1e9 always works as a mask | M7 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | a padding mask must hide the rows of the padding tokens | M8 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | padding with zeros needs no mask | M9 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | a mask that does not crash has the correct shape | M10 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | `is_causal` also works with a cache | M11 | [3](03_masks_who_may_look_at_whom.ipynb), [13](13_word_by_word_the_cache.ipynb) |
# | whether the batch comes first is a matter of taste | M12 | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | rows still sum to 1 after dropout | M13 | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | a head sees a slice of the input | M14 | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | errors about non-contiguous tensors can be ignored | M15 | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# </details>
