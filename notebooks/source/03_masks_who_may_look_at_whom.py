# %% opening [markdown] above="How can a model"
# # 3 · Masks: who may look at whom
#
# A language model learns by guessing the next word.
# From *The cat sat on the mat* it gets five exercises: guess *cat* after *The*,
# *sat* after *The cat*, and so on up to *mat*.
# Instead of running the model five times,
# we run it once on the whole sentence and let every position make its guess.
# But attention lets every word look at every other word,
# so each position could simply look up the word that it is supposed to guess.
# How can a model be trained on every next word at once without being shown the answers?
#
# The answer is a **mask**, which hides from each word what it must not see.
# You will build one by hand, see what it does to the scores, and learn a test that finds leaks.
# You will need it: a wrong mask often raises no error,
# and a model that can see the answers reaches a *lower* training loss.
#
# **You need:** [lesson 1](01_attention_is_a_soft_look_up.ipynb), and the idea of a training loss.
#
# **You will be able to:** build masks for the future and for padding, and combine them;
# test a mask for leaks; say what happens to a word that may attend to nothing;
# and read the masks of other libraries, some of which mean the opposite.
#
# **Time:** 50 minutes in class, or 90 on your own with the exercises.
# “Further” takes another 15.

# %% setup
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from attnlab import causal_mask, load_table, sequence_mask
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import MaskExplorer
from attnlab.plotting import plot_attention, plot_mask, plot_scores

lesson_setup()

# %% building [markdown] below="Word $i$ may attend"
# ## Who guesses which word?
#
# Number the words from 0.
# Each word has to guess the next one.
# Word $i$ may attend to word $j$ if $j$ is not later than $i$.
# That condition is already the code:

# %% may-attend
tokens, _, x = load_table("the_cat_sat_on_the_mat.csv")  # x: (6, 5)
targets = tokens[1:]  # what words 0 to 4 have to guess
i, j = torch.arange(6)[:, None], torch.arange(6)  # a column and a row
may_attend = j <= i  # all pairs: (L, S)
may_attend.int()

# %% mask-and-targets jupyter={"source_hidden": true}
title = "Each row must guess the next word"
ax = plot_mask(may_attend, queries=tokens, keys=tokens, title=title, legend=False)
for row, target in enumerate(targets):
    ax.text(6.2, row + 0.5, f"→ {target}", va="center", weight="bold")
    ax.text(row + 1.5, row + 0.5, "?", ha="center", va="center", weight="bold")
ax.text(6.2, 5.5, "nothing to guess", va="center")
show_figure(ax, "3.1")

# %% read-mask [markdown] above="The row of *cat*" below="Each forbidden score is"
# Read the picture row by row.
# The row of *cat* has to guess *sat*, whose cell is marked with a question mark.
# So it may attend to *The* and to *cat* itself, but not to *sat* or to anything later.
# The diagonal is open because no word has to guess itself:
# *cat* is what the row of *The* has to guess.
#
# A mask in which no word sees a later one is called a
# [**causal mask**](glossary.ipynb#causal-mask).
# Throughout this series, `True` means “may attend”.
#
# ## What a mask does to the scores
#
# The mask acts on the *scores*, before the softmax.
# Each forbidden score is replaced by $-\infty$, so a forbidden word gets a weight of exactly 0,
# since $e^{-\infty}$ is 0.
# `scores.masked_fill(mask, number)` writes the number wherever the mask is True.
# Our mask is True where a word *may* attend, so we pass its opposite, `~may_attend`.

# %% two-rows
scores = x @ x.T / math.sqrt(x.shape[-1])  # (L, S)
masked = scores.masked_fill(~may_attend, -torch.inf)
weights = masked.softmax(dim=-1)  # (L, S)
print("“cat”, without the mask:", scores.softmax(dim=-1)[1])
print("“cat”, with the mask:   ", weights[1])

# %% three-steps jupyter={"source_hidden": true}
_, axes = plt.subplots(1, 3, figsize=(7.5, 2.9), layout="constrained")
plot_scores(scores, ax=axes[0], queries=tokens, keys=tokens, title="scores")
plot_scores(masked, ax=axes[1], keys=tokens, title="after masking")
plot_attention(weights, ax=axes[2], keys=tokens, attn_mask=may_attend, title="weights")
for ax in axes[1:]:
    ax.set(ylabel="", yticks=[])
show_figure(axes[0], "3.2")

# %% leak-test [markdown] above="With the mask, *The*"
# Without the mask, *cat* gave more than half of its weight to the four later words.
# With the mask, *The* and *cat* share all of the weight of *cat*.
# Their scores have not changed, so both weights have grown by the same factor,
# and the row adds up to 1 again.
#
# ## The leak test
#
# How can you be sure that a mask works?
# Many functions do not return the weights, but there is a test that needs only the output:
# **change one word and see which outputs move.**
# Here is attention with a mask, and below it the test.


# %% masked-attention
def masked_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, -torch.inf)  # the only new line
    return scores.softmax(dim=-1) @ value


def causal(x):
    return masked_attention(x, x, x, may_attend)


# %% moved
def moved(attend, x, place, tolerance=1e-5):
    """Change the tokens at `place`; return 1 for each output that moves, else 0."""
    changed = x.clone()
    changed[place] += torch.linspace(0.5, 1, x.shape[-1])  # each feature differently
    difference = (attend(changed) - attend(x)).abs()
    return (difference > tolerance).any(dim=-1).int()


print("“mat” changes:", moved(causal, x, place=5))
print("“The” changes:", moved(causal, x, place=0))

# %% two-halves [markdown] above="When *mat* changes, only" below="Now we wrongly pass"
# This is the [**leak test**](glossary.ipynb#leak-test), and it has two halves.
# First, change a word on which some outputs must not depend.
# When *mat* changes, only the output of *mat* itself moves.
# If an earlier output moved too, the mask would leak.
#
# But a test that notices nothing at all would also find no leak.
# The second half therefore changes a word on which the outputs must depend.
# When *The* changes, all six move.
# If one of them stayed the same, either the mask would block too much,
# or the test could not notice the change.
#
# ### A mask that leaks
#
# PyTorch's own function, `F.scaled_dot_product_attention`, also reads `True` as “may attend”.
# Now we wrongly pass `~may_attend`, the inverted mask, to PyTorch's function.


# %% inverted
def inverted(x):
    return F.scaled_dot_product_attention(x, x, x, attn_mask=~may_attend)


moved(inverted, x, place=5)

# %% nobody-warns [markdown] above="Five outputs move that"
# The test finds the leak.
# Five outputs move that must not move: each word now sees only the words after it.
# (The last word sees no word at all, so no change can move its output.)
# All shapes are correct, and no error is raised.
# Experts make this mistake too: a notebook for a popular book contained an inverted mask until
# someone reported it (see “Sources”).
#
# ### A test of the test
#
# Our tokens have five features each.
# Let us draw tokens of 256 features with `torch.randn` and test attention with **no mask at all**.

# %% ask-blind
predict("03/leak-at-256-features")


# %% see-blind
# %%answer 03/leak-at-256-features
def without_mask(x):
    return F.scaled_dot_product_attention(x, x, x)


def count_moved(draws, place, tolerance):
    reports = [moved(without_mask, draw, place, tolerance) for draw in draws]
    return torch.stack(reports).sum(dim=0).tolist()  # for each of the six outputs


generator = torch.Generator().manual_seed(0)
draws = torch.randn(50, 6, 256, generator=generator)  # 50 times six tokens
print("last token changes:            ", count_moved(draws, 5, 1e-5))
print("first token changes:           ", count_moved(draws, 0, 1e-5))
print("last token, tolerance 1e-12:   ", count_moved(draws, 5, 1e-12))
print("last token, 1e-12 and float64: ", count_moved(draws.double(), 5, 1e-12))

# %% blind-read [markdown] above="In nearly all draws" answers="03/leak-at-256-features"
# The test is blind here.
# In nearly all draws the test says that only the last output has moved, yet there is no mask.
# A token of 256 such numbers has a score of about $256/\sqrt{256} = 16$ with itself and scores near
# 0 with the others.
# Since $e^{16}$ is about nine million, each token gives itself nearly all of its weight.
# What it takes from the others is too little for the test to notice,
# because the test ignores changes of up to 0.00001.
# Only the second half of the test raises the alarm: when the first token changes,
# the later outputs hardly ever move, and they should.
#
# The cure is a smaller tolerance: with $10^{-12}$, no leak is missed.
# Float64 makes this tolerance safe,
# because in float32 rounding alone can move an output by more than that.
#
# This happens because here each token is its own query and key.
# With the matrices of a layer (lesson 6), the usual test sees such a leak.
# But a head that attends very sharply can still hide one.
# So always run both halves.

# %% a-short-sentence-in-a-batch-with-a-longe [markdown] below="So we append three"
# ## A short sentence in a batch with a longer one
#
# *The cat sat* is to stand in one tensor with *The cat sat on the mat*.
# So we append three rows of zeros to *The cat sat*.
# Such filler is called [**padding**](glossary.ipynb#padding), and its tokens are written `<pad>`.

# %% padded-batch
short = x[:3]  # The cat sat
batch = torch.stack([x, torch.cat([short, torch.zeros(3, 5)])])  # (N, L, E)
batch[1]  # The cat sat <pad> <pad> <pad>

# %% ask-zeros
predict("03/padding-of-zeros")

# %% see-zeros
# %%answer 03/padding-of-zeros
alone = F.scaled_dot_product_attention(short, short, short)
together = F.scaled_dot_product_attention(batch, batch, batch)
print("“sat” on its own:  ", alone[2])
print("“sat” in the batch:", together[1, 2])
print("its weights there: ", (batch[1] @ batch[1].T / math.sqrt(5)).softmax(dim=-1)[2])

# %% keys-of-padding [markdown] above="The score of each" answers="03/padding-of-zeros"
# All the numbers have shrunk by the same factor.
# The score of each `<pad>` is 0, which is a score like any other.
# So the three of them take 28% of the weight, and they contribute nothing but zeros.
# (In a model the values of `<pad>` need not be zeros, so they would also be mixed into the output.)
# The words must not see them at all.

# %% the-padding-mask [markdown]
# ### The padding mask
#
# A padding mask says which *keys* are real:
# those whose position is smaller than the length of their sentence.
# It has the shape (N, S), with one row per sentence, and is the same for every query.
#
# So `real[:, None, :]` adds a dimension of size 1, which PyTorch repeats for all queries.
# This is called *broadcasting*, and it matches shapes from the right.
# With heads (lesson 7) the scores have the shape (N, H, L, S), so the mask then needs the shape (N,
# 1, 1, S).

# %% padding-mask
lengths = torch.tensor([6, 3])
real = torch.arange(6) < lengths[:, None]  # (N, S), the same as sequence_mask(lengths)
output = masked_attention(batch, batch, batch, real[:, None, :])  # mask: (N, 1, S)
print("“sat” on its own:  ", alone[2])
print("“sat” in the batch:", output[1, 2])


def padded(x):
    return masked_attention(x, x, x, real[1])  # the mask of the second sentence: (S,)


print("<pad> changes:", moved(padded, batch[1], place=[3, 4, 5]))

# %% padding-is-a-query [markdown] above="With the mask, *sat*" below="Together with the causal"
# The mask works.
# With the mask, *sat* has the same output in the batch as on its own.
# When all three `<pad>` tokens change, the outputs of the words stay the same.
# The outputs of `<pad>` move, as they should,
# because the mask hides the keys of `<pad>` and not its queries.
#
# Leave these outputs out when you average over tokens or compute a loss,
# but do not mask their rows.
# In this layer, masking them would change nothing for the words,
# and it would make rows that may attend to nothing.
#
# ## Masks combine with *and*
#
# If several rules must hold at once, a cell is open only if every rule leaves it open.
# So we combine masks with `&`, as in `may_attend & window`.
# A [**sliding window**](glossary.ipynb#sliding-window) keeps only the keys near the query;
# ours keeps those fewer than three positions away on either side.
# Together with the causal mask, our window becomes a causal window,
# which holds a word and the two before it.

# %% combined
window = (i - j).abs() < 3
from_left = torch.arange(6) >= 2  # the first two tokens are <pad>
panels = {
    "causal": may_attend,
    "window": window,
    "causal & window": may_attend & window,
    "causal & left pad": may_attend & from_left,
}
_, axes = plt.subplots(1, 4, figsize=(7.5, 2.5), layout="constrained", sharey=True)
for ax, (title, mask) in zip(axes, panels.items(), strict=True):
    plot_mask(mask, ax=ax, title=title, legend=False).set(xlabel="key", ylabel="")
axes[0].set_ylabel("query")
show_figure(axes[0], "3.3")

# %% empty-rows [markdown] below="We try an empty"
# ## A row that may attend to nothing
#
# In the last mask, the first two rows have no open cell.
# When a model continues several texts at once, padding is often put on the left,
# so that all the texts end at the same position, where the next word is appended to each.
#
# What happens in an empty row?
# We try an empty row with “`<pad>` The cat sat”.

# %% left-padding
left = torch.cat([torch.zeros(1, 5), short])  # <pad> The cat sat
left_mask = may_attend[:4, :4] & (torch.arange(4) >= 1)
first_layer = masked_attention(left, left, left, left_mask)
left_mask.int(), first_layer

# %% nan [markdown] above="In an empty row"
# The first row is NaN, “not a number”.
# The softmax divides each exponential by the sum of the exponentials in its row.
# In an empty row all exponentials are 0, and 0 divided by 0 has no value.
# (PyTorch first subtracts the largest score.
# Here that is $-\infty - (-\infty)$, which has no value either.)
#
# Nobody uses the output of `<pad>`, so is its row harmless?
# Models have many layers.
# Let us give this output to a second layer, under the same mask.

# %% ask-nan
predict("03/nan-in-the-second-layer")

# %% second-layer
# %%answer 03/nan-in-the-second-layer
masked_attention(first_layer, first_layer, first_layer, left_mask)

# %% nan-spreads [markdown] above="One empty row has" answers="03/nan-in-the-second-layer"
# Everything is NaN.
# In the rows of the words, the second layer gives `<pad>` a weight of exactly 0.
# But the weighted sum still multiplies this weight by the value of `<pad>`, and 0 times NaN is NaN.
# One empty row has spoiled the whole sentence.
# Minus infinity is safe only if no row is empty.

# %% your-experiment-what-should-a-blocked-sc [markdown]
# ### Your experiment: what should a blocked score become?
#
# The mask editor draws the weights of a sentence that begins with two `<pad>` tokens,
# which it writes `pad`, under a causal mask.
# “Blocked score” offers five rules.
# Three of them replace the blocked scores by $-\infty$, by -1e9 or by 0.
# The fourth leaves the scores alone and sets the weights to 0 after the softmax.
# The fifth is the rule of attnlab, the package that comes with these lessons.
# Try all five rules: which rows add up to 1, and where does a blocked key get some weight?

# %% explore-masks
MaskExplorer("pad pad The cat sat".split(), padding=[0, 1], fill="-1e9", ask=False)

# %% rules [markdown] above="Fill with $-\\infty$, and"
# <details><summary>The answer</summary>
#
# | blocked scores | rows of the words | rows without a key |
# |---|---|---|
# | become $-\infty$ | correct | NaN, which spreads |
# | become -1e9 | correct | an average over *all* keys, even future ones |
# | become 0 | wrong: blocked keys get weight | an average over all keys |
# | stay, and weights become 0 after the softmax | wrong: they add up to less than 1 | 0 |
# | attnlab's rule: $-\infty$, but an empty row gets 0 | correct | 0 |
#
# </details>
#
# Two rules are wrong even for the words: a score of 0 blocks nothing,
# and weights that are set to 0 after the softmax leave a row that no longer adds up to 1.
# The latter even leaks: the blocked scores are still in the sum by which the softmax divides,
# so the output of every word moves with them.
#
# With -1e9, an old habit, an empty row becomes an average over *all* keys.
# The Transformers library by Hugging Face does nearly the same with the lowest number of the data
# type, `torch.finfo(dtype).min`.
# This avoids NaN, but an empty row then looks like any other, and nothing warns you.
#
# Only one of the five rules is correct everywhere.
# Fill with $-\infty$, and give an empty row a weight of 0 for every key.
#
# ## Three families of masks
#
# Most masks belong to one of three families,
# and a mask of the wrong family can still have the correct shape.
# Here they all say the same thing about “The cat sat `<pad>`”:
#
# | family | where you meet it | the mask |
# |---|---|---|
# | **True or 1 = may attend** | with True: attnlab, `F.scaled_dot_product_attention`; with 1: the `attention_mask` of Hugging Face tokenizers | `True True True False`<br>`1 1 1 0` |
# | **True = blocked** | `nn.MultiheadAttention`, `masked_fill` | `False False False True` |
# | **added to the scores** | a float `attn_mask` in PyTorch | `0 0 0 -inf` |
#
# Let us mix two of them up, in two ways.
# Many GPT programs store the causal mask as ones and zeros, made by `torch.ones(6, 6).tril()`.
# We give these floats to PyTorch's function,
# and the inverted mask from above to `nn.MultiheadAttention`, PyTorch's complete attention layer,
# which has parameters of its own (lesson 7).

# %% wrong-family
ones_and_zeros = torch.ones(6, 6).tril()  # floats
layer = torch.nn.MultiheadAttention(5, num_heads=1)  # 5 features


def with_floats(x):
    return F.scaled_dot_product_attention(x, x, x, attn_mask=ones_and_zeros)


def inverted_in_layer(x):
    return layer(x, x, x, attn_mask=~may_attend)[0]  # output, weights


print("ones and zeros:", moved(with_floats, x, place=5))
print("inverted mask: ", moved(inverted_in_layer, x, place=5))

# %% wrong-family-read [markdown] above="Ones and zeros block"
# The ones and zeros leak.
# Ones and zeros block nothing: PyTorch adds floats to the scores, and 1 or 0 more forbids no word.
# But the mask that leaked before is correct in the layer, where True means blocked.
# So when you meet a mask, ask three questions.
# What does True or 1 mean?
# Is the mask added to the scores?
# Which dimensions does it have?
# Then convert it, and run the leak test.
#
# ## So how can a model be trained on every next word at once without being shown the answers?
#
# You run the model once on the whole sentence,
# and in each layer you set the scores of all later words to $-\infty$ before the softmax.
# Each position then computes what it would compute if the sentence ended there,
# provided that all other steps of the model treat each position on its own.
# Take *sat*, which has to guess *on*:

# %% as-if-it-ended
print("“sat”, if the sentence ends there:", alone[2])
print("“sat”, in the whole sentence:     ", causal(x)[2])

# %% the-ending [markdown] above="The word *on* is"
# Both lines are the same.
# The word *on* is in the input, but the output of *sat* does not depend on *on*.
# So the model has to guess *on* without having seen it.
# The same is true of the other four guesses, and all five come from a single pass.

# %% further [markdown]
# ## Further
#
# These three topics are optional.
# You can go straight on to **What to remember**.
#
# ### What peeking does to a model
#
# We trained small models to guess the next word in a made-up language of eight words.
# After each word, one of three words follows, with the probabilities 0.6, 0.3 and 0.1.
# The loss is the average of $-\ln p$,
# where $p$ is the probability that the model gives to the correct word.
# The best possible model that does not peek has an average loss of 0.90,
# and a model that guesses at random has a loss of $\ln 8$, which is 2.08.
#
# We trained four models with a causal mask and four without one
# (`data/make_peek_at_the_future.py`).
# We measured the loss in two ways: given the whole sentence, as in training,
# and given only the words so far, as in use.
# Compare the two curves.
# Then put the mask back.

# %% explore-peek
from attnlab.explorers import PeekExplorer

PeekExplorer(causal=False, step=50, ask=False)

# %% peek-reading [markdown]
# Given the whole sentence, the models without a mask end far below the best possible loss without
# peeking, because they have learned to copy the next word.
# (Their loss does not reach 0, because there is nothing to copy for the last guess.)
# Given only the words so far, their average loss falls at first.
# Then it rises to about 2.9, as copying takes over, and from there it falls slowly.
# In the end, their average is still worse than guessing at random.
# The models with the mask end close to the best possible loss, whichever way it is measured.
#
# ### Fewer queries than keys
#
# When a model writes a text word by word,
# it keeps the keys and values of all words so far in a [**cache**](glossary.ipynb#cache).
# Suppose that the two newest words, *the* and *mat*, arrive together.
# Then two queries meet six keys: $L = 2$ and $S = 6$.
# With `is_causal=True`, PyTorch makes the causal mask `j <= i` itself,
# where `i` counts the queries that it is given and `j` counts the keys, both from 0.

# %% ask-cache
predict("03/is-causal-with-a-cache")

# %% see-cache
# %%answer 03/is-causal-with-a-cache
newest = F.scaled_dot_product_attention(x[4:], x, x, is_causal=True)
whole = F.scaled_dot_product_attention(x, x, x, is_causal=True)
with_cache = masked_attention(x[4:], x, x, causal_mask(2, 6, align="lower_right"))
print("“mat”, is_causal=True:       ", newest[1])
print("“mat”, lower right corner:   ", with_cache[1])
print("“mat”, in the whole sentence:", whole[5])

# %% corners jupyter={"source_hidden": true}
# %%answer 03/is-causal-with-a-cache
_, axes = plt.subplots(1, 2, figsize=(7.5, 1.8), layout="constrained")
titles = {"upper_left": "“mat” sees two keys", "lower_right": "“mat” sees all six keys"}
for ax, (align, title) in zip(axes, titles.items(), strict=True):
    mask = causal_mask(2, 6, align=align)
    plot_mask(mask, ax=ax, queries=tokens[4:], keys=tokens, title=title, legend=False)
show_figure(axes[0], "3.4")

# %% corners-reading [markdown] answers="03/is-causal-with-a-cache"
# With `is_causal=True`, *mat* has seen only *The* and *cat*, and no error was raised.
# PyTorch counts from the upper left corner of the mask, where query 0 is lined up with key 0.
# With a cache, the last query is lined up with the last key,
# so the mask has to be aligned with the lower right corner.
# You can always build such a mask yourself and pass it.
# A single new query needs no causal mask, since no key comes after it.

# %% a-large-negative-number-in-16-bits [markdown]
# ### A large negative number in 16 bits
#
# Large models usually compute in 16 bits, which saves memory.
# In float16 the largest finite number is 65504, so filling with -1e9 raises an error.

# %% half tags=["raises-exception"]
half = torch.zeros(4, 4, dtype=torch.float16)  # scores
half.masked_fill(~left_mask, -1e9)  # this line is meant to fail

# %% half-reading [markdown]
# Other ways to block a score raise no error.
# We try three of them on the first row of “`<pad>` The cat sat”, which has no key.
# The first *adds* -1e9 to the blocked scores.
# The second fills them with the lowest number of the type.
# The third adds this number twice,
# as happens when a causal mask and a padding mask are both added to the scores.

# %% half-silent
added = half + (~left_mask).half() * -1e9
lowest = half.masked_fill(~left_mask, torch.finfo(torch.float16).min)
print("-1e9, added:    ", added.softmax(dim=-1)[0])
print("lowest number:  ", lowest.softmax(dim=-1)[0])
print("lowest + lowest:", (lowest + lowest)[0])

# %% half-why [markdown]
# Float16 cannot hold -1e9, so the number became $-\infty$, and the row is NaN again.
# The lowest number of the type avoids NaN in every precision,
# and the empty row becomes an average over all keys.
# But where two such masks both block a key, their sum lies below the lowest number,
# and it becomes $-\infty$ after all.
# The other 16-bit type, bfloat16, can hold -1e9, and the row becomes an average too.

# %% remember [markdown]
# ## What to remember
#
# - A mask says which keys a query may attend to.
#   It acts on the scores, before the softmax: forbidden scores become $-\infty$.
#   A score of 0 blocks nothing.
# - A causal mask hides later words.
#   Row $i$ has to guess word $i + 1$, so it may attend to word $i$ itself.
#   With this mask, a model can train on all next words in one pass.
# - A padding mask hides keys, not queries, so it has the shape (N, 1,
#   S) and is the same for every query.
#   With heads it has the shape (N, 1, 1, S).
#   Leave the rows of `<pad>` out of averages and losses.
# - The leak test changes a token and checks which outputs move.
#   Check both those that must move and those that must not.
#   Test in float64 with a small tolerance, since sharp weights can hide a leak.
# - The output of a row without any key can be NaN, 0, or an average over keys that it must not see.
#   Find out which of these your code gives, and see that it is 0.
# - In attnlab and in `F.scaled_dot_product_attention`, True means “may attend”,
#   and a mask of floats is added to the scores.
#   In other places True can mean “blocked”.
#   If you mix them up, you often get no error.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Implement ★★ (8 minutes)
#
# Write the whole leak test for causal attention, with both halves.
# `causal_test(attend, x)` returns one of three strings:
# - `"leaks"` if changing a token moves an output at an earlier position,
# - otherwise `"too tight"` if some output $i$ stays the same when one of the tokens 0 to $i$
#   changes,
# - otherwise `"correct"`.
#
# Use `moved`, whose tolerance is right for the tokens in `x`.
# (If you test a model of your own, switch off [dropout](glossary.ipynb#dropout) first:
# it sets randomly chosen numbers to 0, so outputs move even if no token changes.
# `moved` changes each feature by a different amount,
# because a layer norm would undo a change that is the same for all features.)
#
# <details><summary>Hint</summary>
#
# It is not enough to change the last token.
# Change the tokens one at a time.
# Which outputs must stay the same, and which must move?
# </details>

# %%
from attnlab.exercises import check_causal_test, check_decoder_mask
from attnlab.exercises import check_padded_batch, check_safe_softmax


# %% tags=["exercise"]
def causal_test(attend, x):
    """attend: (L, E) -> (L, E), x (L, E) -> "leaks", "too tight" or "correct"."""


# %%
check_causal_test(causal_test)


# %% causal-test-solution tags=["solution"]
def causal_test_solution(attend, x):
    reports = torch.stack([moved(attend, x, place) for place in range(len(x))], dim=1)
    # row = output, column = changed token; above the diagonal the token comes later
    if reports.triu(1).any():
        return "leaks"
    expected = torch.ones_like(reports).tril()
    return "correct" if torch.equal(reports, expected) else "too tight"


check_causal_test(causal_test_solution)

# %% exercise-1-limits [markdown]
# Some mistakes stay invisible to this test.
# Suppose that a word may attend to two or more different words before it but not to *itself*.
# When this word changes, its output still moves: the query has changed,
# and so have the weights that it gives to the earlier words.

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# `padding_mask` makes the mask for a model that reads whole sentences.
# It has one more dimension of size 1, for the heads.
# Write `decoder_mask` for a model that guesses the next word,
# where sentences are padded on the right.
# It should block padding and the future and have the shape (N, 1, L, L),
# where L is `int(lengths.max())`.
# Block padding in the columns only, as above.
# (With padding on the right, the causal mask alone already protects the words.
# With padding on the left it does not, and you combine the two masks in the same way.)
#
# <details><summary>Hint</summary>
#
# Over which dimensions of size 1 does `&` broadcast?
# </details>


# %% tags=["exercise"]
def padding_mask(lengths):
    return sequence_mask(lengths)[:, None, None, :]  # (N, 1, 1, S)


def decoder_mask(lengths):
    """lengths: (N,) -> bool (N, 1, L, L), True = may attend."""


# %%
check_decoder_mask(decoder_mask)


# %% decoder-mask-solution tags=["solution"]
def decoder_mask_solution(lengths):
    padding = padding_mask(lengths)
    return padding & causal_mask(padding.shape[-1])


check_decoder_mask(decoder_mask_solution)

# %% exercise-3 [markdown]
# ### 3 · Implement ★★★ (12 minutes)
#
# Write a softmax over the allowed keys with these properties:
#
# - In a row without any allowed key, all weights are 0.
# - If the allowed scores are finite, every other row sums to 1, up to rounding,
#   and the gradient is correct and finite.
# - A NaN in an **allowed** score stays visible, because it is a sign of a bug that has to be found.
# - The content of a **blocked** score does not matter.
#
# The mask editor can draw what your function computes:
# `MaskExplorer(padding=[0, 1], function=safe_softmax)`.
#
# <details><summary>Hint</summary>
#
# Which rows are empty?
# You can tell from `allowed`, before the softmax.
# Erase the weights of those rows afterwards.
# If you also give these rows finite scores before the softmax, they cause no NaN at all,
# not even while the gradient is computed.
# Fill with $-\infty$ instead of adding it: a NaN plus $-\infty$ is still NaN,
# so a NaN in a blocked score would reach the weights.
# </details>


# %% tags=["exercise"]
def safe_softmax(scores, allowed):
    """scores (..., L, S), allowed bool, broadcast if need be -> weights (..., L, S)."""


# %%
check_safe_softmax(safe_softmax)


# %% safe-softmax-solution tags=["solution"]
def safe_softmax_solution(scores, allowed):
    empty = ~allowed.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0)
    return scores.softmax(dim=-1).masked_fill(empty, 0.0)


check_safe_softmax(safe_softmax_solution)

# %% exercise-4 [markdown]
# ### 4 · Repair ★★ (8 minutes)
#
# `broken` takes a Hugging Face `attention_mask`, with 1 for a word and 0 for padding,
# which may stand on the left or on the right.
# The function has two bugs.
# With 2 sentences and 2 heads it nevertheless runs without an error.
# Write `mended`.
#
# <details><summary>Hint</summary>
#
# What does 1 mean in the mask, and what does True mean to the function?
# Then try 2 sentences with 3 heads: the scores have the shape (N, H, L, S), with H for the heads,
# and broadcasting matches shapes from the right.
# </details>


# %% tags=["exercise"]
def broken(query, key, value, attention_mask):
    mask = attention_mask[:, None] == 0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def mended(query, key, value, attention_mask):
    """(N, H, L, E), (N, H, S, E), (N, H, S, Ev), (N, S) -> (N, H, L, Ev)."""


# %%
check_padded_batch(mended)


# %% mended-solution tags=["solution"]
def mended_solution(query, key, value, attention_mask):
    mask = attention_mask[:, None, None] == 1  # (N, 1, 1, S), True = a word
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


check_padded_batch(mended_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: “It makes no difference whether you fill with -1e9 or with minus infinity before a
# softmax, since both give a weight of 0.”
# When is that true in float32, PyTorch's default data type, and when is it not?
#
# <details><summary>An answer</summary>
#
# It is true as long as the row has an allowed key with a score of ordinary size.
# A score of -1e9 lies so far below it that the weight of the blocked key rounds to 0.
# In a row without an allowed key, filling with -1e9 averages over all keys,
# and filling with minus infinity gives NaN.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# In `F.scaled_dot_product_attention(..., attn_mask=mask)`,
# True in a Boolean mask means “may attend”, and a float mask is added.
# `is_causal=True` makes a causal mask that counts from the upper left corner.
# Do not pass `attn_mask` together with `is_causal=True`: sometimes PyTorch raises an error,
# and sometimes it combines the two.
# For a cache there is `torch.nn.attention.bias.causal_lower_right(L, S)`.
#
# `nn.MultiheadAttention` takes two masks: `attn_mask`, with a cell for each query and key,
# and `key_padding_mask`, with a row of keys for each sentence.
# In both, True means *blocked*.
#
# | | `F.scaled_dot_product_attention` | `nn.MultiheadAttention` |
# |---|---|---|
# | True means | may attend | blocked |
# | `is_causal=True` | makes the causal mask | makes no mask; it states that your `attn_mask` is exactly the causal mask, so pass both |
# | a row without a key gives | 0, at least on the CPU | NaN or finite numbers, depending on settings such as `need_weights` |
#
# With padding on the left, no mask corrects the positions.
# If the model adds a vector for each position (lesson 11),
# count the positions from the first word and not from the first `<pad>`,
# for example with `(real.cumsum(dim=-1) - 1).clamp(min=0)`.
# The leak test does not notice if you forget this.
#
# In training, the guesses for a sentence are compared with its words shifted by one,
# `F.cross_entropy(guesses[:-1], words[1:])`.
# The function leaves padding out of the loss if you pass the number that stands for `<pad>` in the
# targets as `ignore_index`.

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.2.3: the mask of the decoder.
# - Beltagy et al., [Longformer](https://arxiv.org/abs/2004.05150), 2020, section 3.1:
#   sliding windows.
# - The inverted mask:
#   [LLMs-from-scratch, issue 1061](https://github.com/rasbt/LLMs-from-scratch/issues/1061).
#   It was in a bonus notebook and has been fixed.
# - Rows without a key: [PyTorch, issue 103749](https://github.com/pytorch/pytorch/issues/103749).
# - The lowest number of the type: `eager_mask` in
#   [masking_utils.py](https://github.com/huggingface/transformers/blob/main/src/transformers/masking_utils.py)
#   of the Transformers library, which adds it to the scores.
#
# The sentence and its features are our own.
# The idea of building the causal mask by hand before using a function for it comes from chapter 3
# of Sebastian Raschka's
# [Build a Large Language Model (From Scratch)](https://www.manning.com/books/build-a-large-language-model-from-scratch).

# %% next [markdown]
# ## Next
#
# [4 · Reading heatmaps honestly](04_reading_heatmaps_honestly.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.**
# The targets, the causal mask and the scores: 11.
# The leak test and its blind spot: 14.
# Padding: 9.
# Empty rows, with the mask editor: 12.
# Three families and the answer: 4.
# Set the exercises and “Further” as homework.
#
# **Where a class stalls.**
# *“If *cat* has to be guessed, why may *cat* see itself?”*
# Because another row guesses it.
# Put a finger on a row of Figure 3.1, and have the class say what it sees and what it guesses.
# *“True hides”:* that is what True does in seaborn and in `masked_fill`.
# Keep one sentence on the board: True = may attend.
# *Rows and columns:* have the class say “query $i$ attends to key $j$” while you point at the cell.
# *The blind test:* ask for the score of a token with itself before you run the cell;
# 256 squares of about 1 add up to about 256.
# *The NaN of the second layer:* write 0 · NaN = NaN on the board.
# *“There is no future when a model writes”:* that is true, but the mask is needed in training,
# where all positions guess at once, and when a whole prompt is read in one pass.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# Under a causal mask, which row has to guess word 4, and what may it see?
# **Row 3, which sees words 0 to 3.**
# *Row 4* would see its own answer.
# *Row 3, which sees words 0 to 2* closes the diagonal, which hides a word that is given.
#
# **2.**
# Padding is all zeros, and there is no mask.
# How much weight does it take?
# **Some.**
# *None* reads a score of 0 as a weight of 0.
# *All* would need all other scores to lie far below 0.
#
# **3.**
# What shape does a padding mask for scores of shape (N, H, L, S) have?
# **(N, 1, 1, S).**
# *(N, 1, S)* lines the sentences up with the heads.
# *(N, 1, S, 1)* blocks rows.
#
# **4.**
# What is the softmax of a row that holds only $-\infty$?
# **NaN.**
# *Zeros* is what attnlab returns, but not what the softmax itself returns.
# *Uniform* is what -1e9 gives.
#
# **5.**
# There is no causal mask.
# A `<pad>` changes, and the output of a word moves.
# Why?
# **Padding is not masked.**
# *That is normal* is true only of the output of the `<pad>` itself.
# *The future leaks:* here the future is meant to be open.
# </details>
