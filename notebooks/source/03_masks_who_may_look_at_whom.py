# %% opening [markdown]
# # 3 · Masks: who may look at whom
#
# A language model learns by guessing the next word. From "The cat sat on the mat" we get five exercises at once: guess
# *cat* after *The*, *sat* after *The cat*, and so on. It would be slow to run the model five times, so we run it once
# on the whole sentence and let every position make its guess. But attention lets every word look at every other word,
# so each position can look up the answer that it is supposed to guess.
#
# A **mask** hides from each word what it must not see. In this lesson you will build one by hand, see what it does to
# the scores, and learn a test that catches a leaky mask. You will need that test: a wrong mask often raises no error,
# and a model that can see the answer reaches a *lower* training loss.
#
# **You need** lesson 1 (scores, weights and output) and the idea of a training loss.
#
# **You will be able to**
# - build a mask for the future and one for padding, and combine them,
# - test a mask for leaks,
# - say what happens to a word that may look at nothing,
# - read the masks of other libraries, some of which mean the opposite.
#
# **Time:** 45 minutes in class, 90 alone with the exercises.

# %% setup
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from attnlab import causal_mask, load_table, sequence_mask, sliding_window_mask
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import MaskExplorer
from attnlab.plotting import plot_attention, plot_mask, plot_scores

lesson_setup()

# %% building [markdown]
# ## Building the causal mask
#
# Number the words from 0. Word $i$ may look at word $j$ if $j$ is not later than $i$. That sentence is already the
# code:

# %% may-look
tokens, _, x = load_table("the_cat_sat_on_the_mat.csv")  # x: (6, 5)
i, j = torch.arange(6)[:, None], torch.arange(6)  # a column and a row
may_look = j <= i  # all pairs: (L, S)
print(may_look.int())
show_figure(plot_mask(may_look, queries=tokens, keys=tokens), "3.1")

# %% read-mask [markdown]
# Read the mask row by row. The first row belongs to *The*, which may look only at itself, and the last one to *mat*,
# which may look at the whole sentence. A mask like this one, in which no word sees a later one, is called a [**causal
# mask**](glossary.ipynb#causal-mask). Throughout this series `True` means "may look". Some libraries use the opposite
# convention.
#
# ## What a mask does to the scores
#
# It would not be enough to erase the forbidden weights after the softmax, as an experiment below will show. Instead we
# change the *scores* before it: a forbidden score becomes $-\infty$, and $e^{-\infty}$ is exactly 0.
# `scores.masked_fill(mask, number)` writes the number wherever the mask is True. Our mask is True where a word *may*
# look, so we pass `~may_look`, which swaps True and False.

# %% ask-share
predict("03/where-the-weight-goes")

# %% see-share
# %%answer 03/where-the-weight-goes
scores = x @ x.T / 5**0.5  # (L, S)
masked = scores.masked_fill(~may_look, -torch.inf)
weights = masked.softmax(dim=-1)  # (L, S)
print("without the mask", scores.softmax(dim=-1)[1])  # the row of "cat"
print("with the mask   ", weights[1])

# %% three-steps jupyter={"source_hidden": true}
# %%answer 03/where-the-weight-goes
_, axes = plt.subplots(1, 3, figsize=(7.5, 2.9), layout="constrained")
plot_scores(scores, ax=axes[0], queries=tokens, keys=tokens, title="scores")
plot_scores(masked, ax=axes[1], keys=tokens, title="after masking")
plot_attention(weights, ax=axes[2], keys=tokens, attn_mask=may_look, title="weights")
for ax in axes[1:]:
    ax.set(ylabel="", yticks=[])
show_figure(axes[0], "3.2")

# %% leak-test [markdown]
# ## The leak test
#
# How can you be sure that a mask works? Many functions do not return the weights, but there is a test that needs only
# the output: **change one word and see which outputs move.** Here is attention with a mask, and the test.


# %% masked-attention
def masked_attention(query, key, value, mask):
    scores = query @ key.mT / query.shape[-1] ** 0.5  # .mT swaps the last two axes
    scores = scores.masked_fill(~mask, -torch.inf)  # the only new line
    return scores.softmax(dim=-1) @ value


def causal(x):
    return masked_attention(x, x, x, may_look)


def moved(attend, x, place):
    """Change the tokens at `place`; return 1 for each output that moves, else 0."""
    changed = x.clone()
    changed[place] += torch.rand_like(x[place])  # a different number for each feature
    same = torch.isclose(attend(changed), attend(x), atol=1e-5, equal_nan=True)
    return (~same).any(dim=-1).int()


# %% ask-moved
predict("03/which-outputs-move")

# %% see-moved
# %%answer 03/which-outputs-move
moved(causal, x, place=5)  # change "mat"

# %% inverted-mask [markdown]
# This is the [**leak test**](glossary.ipynb#leak-test), and it has two halves. First change a word on which some
# outputs must not depend: if one of those outputs moves, the mask leaks. If none of them moves, that alone does not
# prove the mask correct, because a weight may have been too small for its effect to show. So then change a word on
# which some outputs should depend. If they do not move, either the mask blocks too much or the test cannot see the
# change.
#
# ### A mask that leaks
#
# Torch's own function, `F.scaled_dot_product_attention`, also reads `True` as "may look". Now we wrongly pass it
# `~may_look`, the inverted mask, and change *mat* again.


# %% inverted
# %%answer 03/which-outputs-move
def inverted(x):
    return F.scaled_dot_product_attention(x, x, x, attn_mask=~may_look)


moved(inverted, x, place=5)

# %% nobody-warns [markdown]
# Now each word sees only the words after it. (The last word sees no word at all, so no change can move its output.) All
# shapes are as before, and no error is raised. The training loss does not warn you either, since seeing the answer
# *lowers* it. Experts make this mistake too: a bonus notebook for a popular book contained an inverted mask until
# someone reported it (see Sources).
#
# ## A short sentence in a batch with a longer one
#
# Masks have a second use. A batch is a tensor, and a tensor is rectangular. To put "The cat sat" in the same batch as
# "The cat sat on the mat", we append three rows of zeros. Such filler is called [**padding**](glossary.ipynb#padding),
# and its tokens are written `<pad>`.

# %% padded-batch
short = x[:3]  # The cat sat
batch = torch.stack([x, torch.cat([short, torch.zeros(3, 5)])])  # (N, L, E) = (2, 6, 5)
batch[1]  # The cat sat <pad> <pad> <pad>

# %% ask-zeros
predict("03/padding-of-zeros")

# %% see-zeros
# %%answer 03/padding-of-zeros
alone = F.scaled_dot_product_attention(short, short, short)
together = F.scaled_dot_product_attention(batch, batch, batch)
alone[2], together[1, 2]  # the output of "sat", alone and in the batch

# %% keys-of-padding [markdown]
# ### The padding mask
#
# A padding mask says which *keys* are real, and it is the same for every query. `sequence_mask` makes it from the
# lengths of the sentences. It has the shape (N, S), with one row per sentence. Then `real[:, None, :]` adds an axis of
# size 1 in the middle, which torch repeats for all queries.

# %% padding-mask
real = sequence_mask([6, 3])  # (N, S)
output = masked_attention(batch, batch, batch, real[:, None, :])  # mask: (N, 1, S)
assert torch.allclose(output[1, :3], alone)
real.int()

# %% padding-is-a-query [markdown]
# With this mask, the words have the same outputs in the batch as when their sentence is processed on its own. The mask
# hides keys, not queries, so each `<pad>` still gets an output. Leave these outputs *out* when you average over tokens
# or compute a loss.
#
# ### Your experiment: before the softmax or after it?
#
# Is it really not enough to erase the weights afterwards? Here is a mask editor with random scores for "The cat sat" and
# two `<pad>` tokens. Four rules change the scores of `<pad>` before the softmax, and "0 after softmax" changes its
# weights after it. Under which rules does `<pad>` get no weight? Under which of these does every row add up to 1?

# %% explore-rules
padded_words = "The cat sat pad pad".split()
MaskExplorer(padded_words, mask="none", padding=[3, 4], fill="0", ask=False)

# %% combine [markdown]
# <details><summary>The answers</summary>
#
# Under all of them but 0 before the softmax: 0 is a score like any other. It is even worse than using no mask if the
# scores of `<pad>` are below 0. Erasing the weights afterwards leaves rows that no longer add up to 1, because `<pad>`
# had already taken its share. It also leaks: the scores of `<pad>` are still in the sum by which the softmax divides,
# so every output moves with them. Three rules do both, $-\infty$, the large negative number -1e9, which some programs
# use instead, and attnlab's own rule. They differ in a row that may look at nothing, as you will see.
# </details>
#
# ## Masks combine with *and*
#
# If several rules must hold at once, a cell is open only if every rule leaves it open. So masks are combined with `&`,
# as in `may_look & window`. Here are a causal mask, a [**sliding window**](glossary.ipynb#sliding-window), the two
# together, and a causal mask with two `<pad>` tokens at the *start* of the sentence. (A sliding window keeps only keys
# near the query, which can save work in long texts.)

# %% combined jupyter={"source_hidden": true}
window = sliding_window_mask(6, window=3)
from_left = torch.arange(6) >= 2  # the first two tokens are <pad>
panels = {
    "causal": may_look,
    "window": window,
    "causal & window": may_look & window,
    "causal & padding": may_look & from_left,
}
_, axes = plt.subplots(1, 4, figsize=(7.5, 2.3), layout="constrained", sharey=True)
for ax, (title, mask) in zip(axes, panels.items(), strict=True):
    plot_mask(mask, ax=ax, title=title, legend=False).set(xlabel="", ylabel="")
show_figure(axes[0], "3.3")

# %% empty-rows [markdown]
# ## A row that may look at nothing
#
# In the last mask of Figure 3.3, the first two rows have no open cell. This is not a mistake: when a model continues
# several texts at once, padding is often put on the left. Then all the texts end at the same position, and the next
# word can be appended to each of them there. We do the same with "`<pad>` The cat sat".

# %% ask-empty
predict("03/softmax-of-an-empty-row")

# %% see-empty
# %%answer 03/softmax-of-an-empty-row
left = torch.cat([torch.zeros(1, 5), short])  # <pad> The cat sat
left_mask = may_look[:4, :4] & (torch.arange(4) >= 1)
first = masked_attention(left, left, left, left_mask)
left_mask.int(), first

# %% nan [markdown]
# The output of `<pad>` is not used anyway, so is its row harmless? Let us apply a second layer to the whole output,
# under the same mask.

# %% second-layer
# %%answer 03/softmax-of-an-empty-row
masked_attention(first, first, first, left_mask)

# %% nan-spreads [markdown]
# <details><summary>What the second layer did, and why</summary>
#
# In the rows of the words, the second layer gives the key of `<pad>` a weight of exactly 0. But the weighted sum still
# multiplies this weight by the value of `<pad>`, and 0 times NaN is NaN.
# </details>
#
# ### Your experiment: what should an empty row be?
#
# You have to decide what an empty row should be. In the mask editor you can compare the three rules for a blocked
# score: $-\infty$, -1e9 and attnlab's own. Click a word to turn it into padding, or a cell to open or close it. Close the
# whole row of *on*. What do its weights become under each of the three rules?

# %% explore-masks
MaskExplorer(mask="window", window=2, ask=False)

# %% families [markdown]
# <details><summary>The answers</summary>
#
# With $-\infty$ they become NaN. Under attnlab's rule they become 0, and the current version of torch's own function
# returns 0 for such a row too, at least on the CPU. With -1e9 all scores in the row are equal, so the row becomes an
# average over everything, including the future, and nothing warns you.
# </details>
#
# ## A mask of ones and zeros
#
# Many GPT implementations store the causal mask as ones and zeros, made by `torch.ones(6, 6).tril()`. What
# happens if we give it to torch's function?

# %% ask-floats
predict("03/ones-and-zeros-for-torch")


# %% see-floats
# %%answer 03/ones-and-zeros-for-torch
def with_floats(x):
    ones_and_zeros = torch.ones(6, 6).tril()  # floats
    return F.scaled_dot_product_attention(x, x, x, attn_mask=ones_and_zeros)


moved(with_floats, x, place=5)

# %% three-families [markdown]
# ## Three families of masks
#
# Most masks that you will meet belong to one of three families, and a mask of the wrong family can still have the
# correct shape. Here they all say the same thing about "The cat sat `<pad>`":
#
# | family | where you meet it | the mask |
# |---|---|---|
# | **True or 1 = may look** | with True: attnlab, `F.scaled_dot_product_attention`; with 1: the `attention_mask` of a Hugging Face tokenizer, which cuts texts into tokens | `True True True False`<br>`1 1 1 0` |
# | **True = blocked** | `nn.MultiheadAttention`, `masked_fill` | `False False False True` |
# | **added to the scores** | a float `attn_mask` in torch | `0 0 0 -inf` |
#
# So when you meet a mask, ask three questions. What does True or 1 mean? Is the mask added to the scores? Which axes
# does it have? Then convert it, and run the leak test. Here is the inverted mask again, now in
# `nn.MultiheadAttention`, torch's complete attention layer, which has parameters of its own (lessons 6 and 7).

# %% torch-layer
layer = torch.nn.MultiheadAttention(5, num_heads=1)  # 5 features


def blocked_where_true(x):
    return layer(x, x, x, attn_mask=~may_look)[0]  # output, weights


moved(blocked_where_true, x, place=5)

# %% the-answer [markdown]
# The mask that leaked in torch's function is correct in `nn.MultiheadAttention`, where True means blocked.
#
# ## So how do you train on every next word at once?
#
# You run the model once on the whole sentence, and you set the scores of all later words to $-\infty$ before the
# softmax. Each position then computes what it would compute if the sentence ended there. The output of *sat* shows it.

# %% as-if-it-ended
alone[2], causal(x)[2]  # from "The cat sat" on its own, and from the whole sentence

# %% the-ending [markdown]
# So all guesses are honest, and they come from a single pass. The same trick keeps padding from affecting the words of
# a batch. Mistakes with masks are often silent: a mask that is inverted, that is added to the scores as ones and zeros,
# or that is applied after the softmax still has the correct shape and raises no error. The leak test finds all three if
# the scores are small.

# %% further [markdown]
# ## Further
#
# The five topics in this part are optional. You can go straight on to **What to remember**.
#
# ### What peeking does to a model
#
# We trained small models to guess the next word in a made-up language of eight words. After each word, one of three
# words follows, with the probabilities 0.6, 0.3 and 0.1. The loss is the average of $-\ln p$, where $p$ is the
# probability that the model gives to the correct word. So no model can reach an average loss below 0.90 without
# peeking, and a model that guesses at random has a loss of $\ln 8$, which is 2.08. Some models had a causal mask and
# some had none (`data/make_peek_at_the_future.py`). We measured the loss in two ways: with the whole sentence as input,
# as in training, and with only the words so far, as when the model is used. Take the mask away and move the slider
# through the training steps to see what the model gains and what it loses.

# %% explore-peek
from attnlab.explorers import PeekExplorer

PeekExplorer(step=0, ask=False)

# %% peek-curves
import pandas as pd
from attnlab import data_path
from attnlab.plotting import plot_sweep

losses = pd.read_csv(data_path("peek_at_the_future.csv"))
mean = losses.groupby(["causal", "step"])[["training", "use"]].mean()
curves = {
    "no mask, only the words so far": mean.loc[0].use.tolist(),
    "causal mask, both ways": mean.loc[1].use.tolist(),
    "no mask, whole sentence": mean.loc[0].training.tolist(),
}
ax = plot_sweep(mean.loc[0].index.tolist(), curves, xlabel="training step")
ax.set(
    ylabel="loss",
    ylim=(0, 3.4),
    title="Peeking helps only if the answer is in the input",
)
show_figure(ax, "3.4")

# %% peek-reading [markdown]
# With the whole sentence in sight, the models without a mask end at a loss of 0.10, far below 0.90, because they have
# learned to copy the next word. (Their loss does not reach 0, because a model makes ten guesses in each sentence, and
# for the last one there is nothing to copy.) With only the words so far, their loss first falls to 1.3 and then rises
# again, as copying takes over. At the end it lies between 1.97 and 2.97, and three of the four models do worse than
# guessing at random, which gives 2.08. The models with the mask end at 0.91 whichever way the loss is measured.
#
# ### The rows of padding
#
# A padding mask hides the keys of `<pad>`. What about the outputs of `<pad>` itself? We run the leak test on the second
# sentence of the batch and change its three `<pad>` tokens.


# %% moved-by-padding
def padded(x):
    return masked_attention(x, x, x, sequence_mask([3], max_len=6))  # mask: (1, S)


moved(padded, batch[1], place=[3, 4, 5])

# %% padding-rows [markdown]
# The outputs of the words do not move, so the mask does not leak. The outputs of `<pad>` move, and that is as it should
# be: each `<pad>` supplies a query as well, and that query has changed. You may be tempted to mask these rows too. In
# this layer, that would not change the output of any word. It would only create rows with no key at all. So leave the
# rows of `<pad>` open.
#
# ### With heads
#
# In lesson 7 the scores will get one more axis, for the heads, and their shape will be $(N, H, L, S)$. A mask is
# matched to it **from the right**, and missing axes and axes of size 1 are repeated. So a padding mask needs the shape
# $(N, 1, 1, S)$. For 2 sentences and 3 heads, a mask of shape $(N, 1, S)$ raises an error. Now take 2 sentences and 2
# heads.

# %% ask-heads
predict("03/one-axis-too-few")

# %% see-heads
# %%answer 03/one-axis-too-few
from attnlab import attention_weights

torch.manual_seed(0)
of_heads = torch.randn(2, 2, 6, 6)  # scores: N, H, L, S
with_three_axes = attention_weights(of_heads, attn_mask=sequence_mask([6, 3])[:, None])
on_last_three = with_three_axes[..., 3:].sum(dim=-1).mean(dim=-1)  # (N, H)
print(on_last_three)  # one row per sentence, one column per head

# %% heads-reading [markdown]
# Row $n$, column $h$ of this table says how much weight head $h$ of sentence $n$ puts on the last three tokens, on
# average over the six queries. Only sentence 1 ends with padding, so its row should be 0, and the row of sentence 0
# should not. Compare this with what you see.
#
# ### Fewer queries than keys
#
# When a model writes a text word by word, it keeps the keys and values of all words so far, the newest one
# included, in a [**cache**](glossary.ipynb#cache). Then a single new query meets all the keys: for "cat sat on the
# mat", $L = 1$ and $S = 5$. With `is_causal=True`, torch builds the causal mask itself.

# %% ask-cache
predict("03/is-causal-with-a-cache")

# %% see-cache
# %%answer 03/is-causal-with-a-cache
text = x[1:]  # cat sat on the mat
newest = F.scaled_dot_product_attention(text[4:], text, text, is_causal=True)
print(newest, text, sep="\n")

# %% corners
# %%answer 03/is-causal-with-a-cache
_, axes = plt.subplots(1, 2, figsize=(7.5, 2.1), layout="constrained")
for ax, align in zip(axes, ["upper_left", "lower_right"], strict=True):
    mask = causal_mask(2, 6, align=align)
    plot_mask(mask, ax=ax, queries=tokens[4:], keys=tokens, title=align, legend=False)
show_figure(axes[0], "3.5")

# %% corners-reading [markdown]
# A mask that is not square can be causal in two ways, depending on the corner from which the words are counted. Here
# the last query has to be lined up with the last key. You can always build such a mask yourself and pass it, and then
# the new words get the same outputs as in the full text.

# %% lower-right
whole = F.scaled_dot_product_attention(x, x, x, is_causal=True)
with_cache = masked_attention(x[4:], x, x, causal_mask(2, 6, align="lower_right"))
assert torch.allclose(with_cache, whole[4:])

# %% large-negative [markdown]
# ### A large negative number instead of minus infinity
#
# Many programs set blocked scores to -1e9 instead. Let us see what this does to the empty row of "`<pad>` The cat sat".

# %% fill-row-zero
finite = (left @ left.T / 5**0.5).masked_fill(~left_mask, -1e9).softmax(dim=-1)
torch_output = F.scaled_dot_product_attention(left, left, left, attn_mask=left_mask)
print("weights, filled with -1e9:", finite[0])
print("output of torch's function:", torch_output[0])

# %% half-precision [markdown]
# All four weights are 1/4, including those on future words. Torch's own function returns 0 for this row.
#
# Large models usually compute in 16 bits, which saves memory. In float16 the largest finite number is 65504, so
# `masked_fill` with -1e9 raises an error.

# %% half tags=["raises-exception"]
half = torch.zeros(4, 4, dtype=torch.float16)
half.masked_fill(~left_mask, -1e9)

# %% half-reading [markdown]
# But other ways of writing the same thing raise no error. Here the number is *added*.

# %% half-added
added = half + (~left_mask).half() * -1e9
added.softmax(dim=-1)[0]

# %% half-silent [markdown]
# Since float16 cannot hold -1e9, the number was converted to $-\infty$, and this brings back the NaN that -1e9 was
# meant to avoid. The other 16-bit type, bfloat16, is common in large models and can hold -1e9, so with it you are back
# to the silent average above.

# %% remember [markdown]
# ## What to remember
#
# - A mask says which keys a query may look at. It acts on the scores, before the softmax: forbidden scores become
#   $-\infty$. A score of 0 blocks nothing.
# - A causal mask hides later words. It is what makes it possible to train on every next word in one pass.
# - A padding mask hides keys, not queries, so it has the shape (N, 1, S) and is the same for every query. With heads it
#   has the shape (N, 1, 1, S). Leave the rows of `<pad>` out of averages and losses.
# - The leak test: change a token and see which outputs move. Some must, and some must not.
# - A row without any key can come out as NaN, as 0, or as an average over keys that it must not see. Decide which of
#   these you want.
# - In attnlab and in `F.scaled_dot_product_attention`, True means "may look", and a mask of floats is added to the
#   scores. In other places True can mean "blocked". If you mix them up, you often get no error.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Implement ★★ (8 minutes)
#
# Write the leak test for causal attention. `causal_test(attend, x)` returns one of three strings:
# - "leaks" if changing a token moves an output at an earlier position,
# - otherwise "too tight" if some output $i$ stays the same when one of the tokens 0 to $i$ changes,
# - otherwise "correct".
#
# Use `moved`. The numbers in `x` are small, because large ones lead to large scores, which can give nearly all the
# weight to one key. (If you test a model of your own, switch off [dropout](glossary.ipynb#dropout) first: it sets randomly
# chosen numbers to 0, so outputs move even if no token changes.)
#
# <details><summary>Hint</summary>
#
# It is not enough to change the last token. Change the tokens one at a time. Which outputs must stay the same, and
# which must move?
# </details>

# %%
from attnlab.exercises import check_causal_test, check_decoder_mask
from attnlab.exercises import check_padded_batch, check_safe_softmax


# %% tags=["exercise"]
def causal_test(attend, x):
    """attend: (L, E) -> (L, E), x (L, E) -> "leaks", "too tight" or "correct"."""


# %%
check_causal_test(causal_test)


# %% causal-test-solution tags=["solution"] jupyter={"source_hidden": true}
def causal_test_solution(attend, x):
    found = torch.stack([moved(attend, x, place) for place in range(len(x))], dim=1)
    if found.triu(1).any():  # (output, changed token), and the token comes later
        return "leaks"
    expected = torch.ones_like(found).tril()
    return "correct" if torch.equal(found, expected) else "too tight"


check_causal_test(causal_test_solution)

# %% exercise-1-limits [markdown]
# Some mistakes stay invisible to this test. Suppose that a word may look at two or more different words before it but
# not at *itself*. When this word changes, its output still moves: the query has changed, and so have the weights that
# it gives to the earlier words.

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# `padding_mask` makes the mask for a model that reads whole sentences. This mask has one more axis of size 1, for
# attention heads (lesson 7). Write `decoder_mask` for a model that guesses the next word, where sentences are padded on
# the right. It should block padding and the future and have the shape (N, 1, L, L), where L is `int(lengths.max())`.
# Block padding in the columns only, as above. (With padding on the right, the causal mask alone already protects the
# words. With padding on the left it does not, and you combine the two masks in the same way.)
#
# <details><summary>Hint</summary>
#
# Which axes of size 1 does `&` repeat for you?
# </details>


# %% tags=["exercise"]
def padding_mask(lengths):
    return sequence_mask(lengths)[:, None, None, :]  # (N, 1, 1, S)


def decoder_mask(lengths):
    """lengths: (N,) -> bool (N, 1, L, L), True = may look."""


# %%
check_decoder_mask(decoder_mask)


# %% decoder-mask-solution tags=["solution"] jupyter={"source_hidden": true}
def decoder_mask_solution(lengths):
    padding = padding_mask(lengths)
    return padding & causal_mask(padding.shape[-1])


check_decoder_mask(decoder_mask_solution)

# %% exercise-3 [markdown]
# ### 3 · Implement ★★★ (12 minutes)
#
# Write a softmax over the allowed keys. In a row without any allowed key, all weights are 0. If the allowed scores are
# finite, every other row sums to 1, up to rounding, and the gradient is correct and finite. A NaN in an **allowed**
# score must stay visible, because it is a sign of a bug that has to be found. The content of a **blocked** score must
# not matter.
#
# <details><summary>Hint</summary>
#
# Which rows are empty? You can tell from `allowed`, before the softmax. Erase the weights of those rows afterwards. If
# you also give these rows finite scores before the softmax, they cause no NaN at all, not even while the gradient is
# computed. Fill with $-\infty$ instead of adding it: a NaN plus $-\infty$ is still NaN, so a NaN in a blocked score
# would reach the weights.
# </details>


# %% tags=["exercise"]
def safe_softmax(scores, allowed):
    """scores (..., L, S), allowed bool, repeated if need be -> weights (..., L, S)."""


# %%
check_safe_softmax(safe_softmax)


# %% safe-softmax-solution tags=["solution"] jupyter={"source_hidden": true}
def safe_softmax_solution(scores, allowed):
    empty = ~allowed.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0)
    return scores.softmax(dim=-1).masked_fill(empty, 0.0)


check_safe_softmax(safe_softmax_solution)

# %% exercise-4 [markdown]
# ### 4 · Repair ★★ (8 minutes)
#
# `broken` takes a Hugging Face `attention_mask`, with 1 for a word and 0 for padding on either side. The function has
# two bugs. Write `mended`.
#
# <details><summary>Hint</summary>
#
# What does 1 mean in the mask, and what does True mean to the function? Then try 2 sentences with 3 heads: the scores
# have the shape (N, H, L, S), with H for the heads, and the axes of a mask are matched from the right.
# </details>


# %% tags=["exercise"]
def broken(query, key, value, attention_mask):
    mask = attention_mask[:, None] == 0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def mended(query, key, value, attention_mask):
    """(N, H, L, E), (N, H, S, E), (N, H, S, Ev), (N, S) -> (N, H, L, Ev)."""


# %%
check_padded_batch(mended)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_solution(query, key, value, attention_mask):
    mask = attention_mask[:, None, None] == 1  # (N, 1, 1, S), True = a word
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


check_padded_batch(mended_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: "It makes no difference whether you fill with -1e9 or with minus infinity before a softmax, since both
# give a weight of 0." When is that true in float32, torch's default data type, and when is it not?
#
# <details><summary>An answer</summary>
#
# It is true as long as the row has an allowed key with a score of ordinary size. A score of -1e9 lies so far below it
# that the weight of the blocked key rounds to 0. In a row without an allowed key, filling with -1e9 averages over all
# keys, and filling with minus infinity gives NaN.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# In `F.scaled_dot_product_attention(..., attn_mask=mask)`, True in a Boolean mask means "may look", and a float mask is
# added. `is_causal=True` makes a causal mask that counts from the upper left corner. Do not pass `attn_mask` together
# with `is_causal=True`: sometimes torch raises an error, and sometimes it combines the two. For a cache there is
# `torch.nn.attention.bias.causal_lower_right(L, S)`.
#
# `nn.MultiheadAttention` takes two masks: `attn_mask`, with a cell for each query and key, and `key_padding_mask`, with
# a row of keys for each sentence. In both, True means *blocked*. Here `is_causal=True` makes no mask. It only states
# that your `attn_mask` is the causal mask, and torch may then use its own instead. So set `is_causal=True` only if
# `attn_mask` is exactly the causal mask, and then pass both of them. For a sentence that is all padding, the output can
# be NaN or finite. This depends on settings that have nothing to do with the mask, such as `need_weights`, which asks
# for the weights as well. Do not rely on either.
#
# `F.cross_entropy` leaves padding out of the loss if you pass the number that stands for `<pad>` in the targets as
# `ignore_index`.

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.3: the mask of
#   the decoder.
# - Beltagy et al., [Longformer](https://arxiv.org/abs/2004.05150), 2020, section 3.1: sliding windows.
# - The inverted mask: [LLMs-from-scratch, issue 1061](https://github.com/rasbt/LLMs-from-scratch/issues/1061). It was
#   in a bonus notebook and has been fixed.
# - Rows without a key: [PyTorch, issue 103749](https://github.com/pytorch/pytorch/issues/103749).
#
# The sentence and its features are our own. The idea of building the causal mask by hand before using a function for it
# comes from chapter 3 of Sebastian Raschka's [Build a Large Language Model (From
# Scratch)](https://www.manning.com/books/build-a-large-language-model-from-scratch).

# %% next [markdown]
# ## Next
#
# [4 · Reading heatmaps honestly](04_reading_heatmaps_honestly.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.** The causal mask and the fill: 11. The leak test: 8. Padding, with the first explorer: 10. Empty
# rows, with the mask editor: 10. Three families: 6. Leave "Further" for home.
#
# **Where a class stalls.** *"True hides":* that is what True does in seaborn and in `masked_fill`. Keep one sentence on
# the board: True = may look. *Rows and columns:* have the class say "query $i$ looks at key $j$" while you point at the
# cell. *The NaN of the second layer:* write 0 · NaN = NaN on the board. *"There is no future when a model writes":*
# that is true, but the mask is needed in training, where all positions guess at once, and when a whole prompt is read
# in one pass.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** Padding is all zeros, and there is no mask. How much weight does it take? **Some.** *None* reads a score of 0
# as a weight of 0. *All* would need all other scores to lie far below 0.
#
# **2.** What shape does a padding mask for scores of shape (N, H, L, S) have? **(N, 1, 1, S).** *(N, 1, S)* lines the
# sentences up with the heads. *(N, 1, S, 1)* blocks rows.
#
# **3.** Token 2 of the tokens 0 to 4 changes under a causal mask. Which outputs move? **2, 3 and 4.** *Only 2* forgets
# that later tokens look back. *0, 1 and 2* would be true of the inverted mask.
#
# **4.** What is the softmax of a row that holds only $-\infty$? **NaN.** *Zeros* is what attnlab returns, but not what
# the softmax itself returns. *Uniform* is what -1e9 gives.
#
# **5.** There is no causal mask. A `<pad>` changes, and the output of a word moves. Why? **Padding is not masked.**
# *That is normal* is true only of the output of the `<pad>` itself. *The future leaks:* here the future is meant to be
# open.
# </details>
