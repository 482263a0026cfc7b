# %% opening [markdown]
# # 10 · One real attention layer: what it looks at
#
# You may have seen a picture with an arc from *bank* to *river*. The caption says that the model knows which bank is
# meant. The layer of this lesson can draw it, too. But each of its twelve heads
# has a row of weights for every token of every sentence, and among so many pictures you will find one for almost any
# story.
#
# So let us ask without choosing. <!--above-->**What does a trained layer really look at**? We measure all twelve heads
# on 46 sentences, and for every result we ask what we would see if the head did nothing special.
#
# **You need:** [lesson 5](05_what_does_bank_mean_here.ipynb) (controls, uniform shares, and letting other words ask)
# and the layer of [lesson 7](07_multi_head_reshaping_without_scrambling.ipynb).
#
# **You will be able to:** say when a weight is large, test whether a head looks at a position or at certain words,
# explain what an attention sink does, and remove a head or its choice and measure how far the output moves.
#
# **Time:** 50 minutes in class, or 90 on your own with the exercises. “Further” takes another 5.

# %% setup
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
import torch
from attnlab import Table, data_path, split_heads
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import RealHeadsExplorer
from attnlab.pretrained import load_layer

lesson_setup()

# %% trained-layer [markdown]
# ## A trained layer
#
# all-MiniLM-L6-v2 is a small model with six layers. You know its first attention layer from lessons 2, 4 and 5. It is
# built like the layer of lesson 7 and has 384 features and twelve heads, which we number from 0. In addition, a bias
# follows each of its four matrices.
#
# A sentence is first cut into [**word pieces**](glossary.ipynb#word-piece), and `##` marks a piece that continues a
# word. The markers `[CLS]` and `[SEP]` are put before and after the sentence. Each token enters as the sum of a vector
# for its piece and a vector for its position, normalised. So no token knows anything about the others yet.

# %% read-sentence
layer = load_layer()
print(layer.tokens("The unhappiest crane"))
reading = layer.read("she sat on the bank of the river")
# (L, E), (H, L, S), (L, E)
reading.embedded.shape, reading.weights.shape, reading.output.shape

# %% experiment-heads [markdown]
# ### Your experiment: twelve maps
#
# In each small map, the rows are the tokens that ask and the columns those that are asked. <!--below-->Head 4 shows the
# arc from *bank* to *river*. Look through the other maps, and then type in sentences of your own. Which head draws the same
# picture every time?

# %% explore-heads
RealHeadsExplorer(ask=False)

# %% many-sentences [markdown]
# <details><summary>The answer</summary>
#
# Head 2 does: every token after the first gives nearly all of its weight to the token before it.
# </details>
#
# ## When is a weight large?
#
# One sentence proves little, so we turn to 46 sentences with 304 words. <!--below-->Each sentence contains one
# of 21 ambiguous words. The words that show its meaning were marked by one person as **clues**, which we will need later.

# %% examples
examples = pd.read_csv(data_path("ambiguous_words.csv"))
examples.iloc[[0, 1, 6, 8, 9, 10]]

# %% weight-text [markdown]
# Many of the maps have a dark first column. <!--below-->So how much weight do the words give to `[CLS]`, which is not a
# word at all?


# %% weight-of-cls
def weight_of_cls(readings):
    weights = [text.weights[:, 1:-1, 0] for text in readings]  # (H, words) each
    return torch.cat(weights, dim=1).mean(dim=1)  # (H,)


readings = [layer.read(sentence) for sentence in examples.sentence]
heads = [str(head) for head in range(12)]
Table(["weight of [CLS]"], heads, weight_of_cls(readings)[None])

# %% so-much [markdown]
# In head 6 it is 0.41. Is that a lot? Our sentences have only 8.6 tokens on average, markers included. To see what
# happens in longer texts, we join three sentences at a time, and then nine, without full stops, and read each group as one
# text.

# %% ask-length
predict("10/cls-in-longer-texts")


# %% see-length
# %%answer 10/cls-in-longer-texts
def in_groups(size):
    """Join the sentences in groups, and read each group as one text."""
    starts = range(0, len(examples) - size + 1, size)
    return [layer.read(" ".join(examples.sentence[i : i + size])) for i in starts]


texts = {"1 sentence": in_groups(1), "3 sentences": in_groups(3)}
texts["9 sentences"] = in_groups(9)
Table(
    list(texts), heads, torch.stack([weight_of_cls(group) for group in texts.values()])
)

# %% in-uniform-shares [markdown]
# &ZeroWidthSpace;<!--above-->In texts of nine sentences, the weight of `[CLS]` in head 6 falls to 0.06. In head 6 the scores of `[CLS]` do not grow with the text, and seven times as many tokens share the row.
# **So a weight says little unless you know the number of tokens.**
#
# To compare texts, we count in [**uniform shares**](glossary.ipynb#uniform-share): the weight times the number of
# tokens. A key has a share of 1 if all keys get the same weight.


# %% shares-of-cls
def draw_shares(values, names, title, number):
    _, ax = plt.subplots(figsize=(7.4, 1 + 0.4 * len(names)), layout="constrained")
    look = {"annot": True, "fmt": ".1f", "cmap": "Blues", "cbar": False}
    sns.heatmap(values, vmin=0, vmax=4, yticklabels=names, ax=ax, **look)
    ax.set(xlabel="head", title=title)
    return show_figure(ax, number)


def shares_of_cls(readings):
    shares = [text.weights[:, 1:-1, 0] * len(text.tokens) for text in readings]
    return torch.cat(shares, dim=1).mean(dim=1)  # (H,)


values = torch.stack([shares_of_cls(group) for group in texts.values()])
title = "In most heads, the shares of [CLS] change less than its weight"
draw_shares(values, list(texts), title, "10.1")

# %% short-only [markdown]
# &ZeroWidthSpace;<!--above-->In head 6, `[CLS]` gets 3.6 to 3.9 shares at every length. But in head 5 it gets four times as many in long
# texts.
# **From here on we measure the short sentences, and the results hold for those.**
#
# ## A portrait of the twelve heads
#
# Where else do words look? We try five positions.


# %% portrait
def shares_of_five(reading):
    weights, L = reading.weights, len(reading.tokens)
    words = torch.arange(2, L - 1)  # all words but the first
    to_cls, to_sep = weights[:, words, 0], weights[:, words, L - 1]  # (H, words) each
    to_itself = weights[:, words, words]
    to_before, to_after = weights[:, words, words - 1], weights[:, words, words + 1]
    return L * torch.stack([to_cls, to_sep, to_itself, to_before, to_after])


shares = torch.cat([shares_of_five(text) for text in readings], dim=-1)  # (5, H, 258)
portrait = shares.mean(dim=-1)  # (5, H)
names = ["[CLS]", "[SEP]", "itself", "token before", "token after"]
title = "Of five positions, [CLS] gets the most in ten heads"
draw_shares(portrait, names, title, "10.2")

# %% by-position [markdown]
# **On average, `[CLS]` gets the most of the five positions in ten heads.**
# &ZeroWidthSpace;<!--above-->In head 2, the token before gets nearly all of the weight, and in head 3 no position stands out. But a mean
# can hide what the single words do. So how often is `[CLS]` the token with the largest weight?

# %% largest
largest = torch.cat([text.weights[:, 1:-1].argmax(dim=-1) for text in readings], dim=1)
most_to_cls = (largest == 0).float().mean(dim=1)  # (H,)
Table(["words that look most at [CLS]"], heads, most_to_cls[None])

# %% the-shuffle [markdown]
# &ZeroWidthSpace;<!--above-->In eight heads, most words give their largest weight to `[CLS]`.
#
# ## Does a head look at a position?
#
# Head 2 seems to look at the previous *position*. Or does it look at certain *words*? To tell the two apart, we shuffle
# the words of each sentence and read it again. If a head looks at words, every word still gives the same weight to the
# same words. If it looks at positions, the weight now goes to other words.
#
# We measure the **attention that moves**: half the sum of the absolute changes in a row, because what one token loses,
# another gains. It is 1 if the new row has nothing in common with the old one.


# %% shuffle
def weights_for(tokens):
    x = layer.embed(tokens)  # (1, L, E)
    return layer.attention(x).weights[0]  # (H, L, L)


def moved_by_shuffling(reading, generator):
    L = len(reading.tokens)
    words = 1 + torch.randperm(L - 2, generator=generator)
    order = [0, *words.tolist(), L - 1]  # the markers stay where they are
    old = reading.weights[:, order][:, :, order]  # the old weights in the new order
    new = weights_for([reading.tokens[i] for i in order])
    return (new - old).abs().sum(dim=-1)[:, 1:-1] / 2  # (H, words)


generator = torch.Generator().manual_seed(0)
moved = [moved_by_shuffling(text, generator) for text in readings]
moved = torch.cat(moved, dim=1).mean(dim=1)  # (H,)
Table(["attention that moves"], heads, moved[None])

# %% by-asker [markdown]
# &ZeroWidthSpace;<!--above-->In head 2 most of the attention moves, in head 5 a third, and in head 4 a seventh. **So heads 2 and 5, and
# to some extent 4, look at positions among the words.** About `[CLS]`, which stayed in its place, this says nothing.
#
# ## Does it matter which word asks?
#
# In lesson 5, in one head, “bank” selected words that go with banks. Does this hold for other ambiguous words, and in
# which heads? We measure the uniform shares that the clues get from the ambiguous word.
#
# A large share can have two reasons: that this word asks, or that the head gives such clues large shares whoever asks.
# So we also put other words in its place, and call them **askers**: the 5,000 words of lesson 5, and the other 20
# ambiguous words. This takes half a minute.
#
# &ZeroWidthSpace;<!--below-->First, the ambiguous words themselves ask.


# %% clue-shares
def clue_shares(word, sentence, clues, askers):
    """Return what the clues get if each asker stands in the place of the word: (H, A)."""
    tokens = layer.tokens(sentence)
    rows = layer.attend_as(askers, tokens, tokens.index(word))  # (H, A, S)
    is_clue = torch.tensor([token in clues.split() for token in tokens])  # (S,)
    return rows[..., is_clue].mean(dim=-1) * len(tokens)


# %% askers
common, ambiguous = layer.common_words(5000), list(examples.word.unique())
from_word, from_common, from_others = [], [], []
for word, sentence, clues in examples.values:
    others = [other for other in ambiguous if other != word]
    from_word.append(clue_shares(word, sentence, clues, [word]))
    from_common.append(clue_shares(word, sentence, clues, common))
    from_others.append(clue_shares(word, sentence, clues, others))
from_word = torch.stack(from_word)  # (46, H, 1)
from_common = torch.stack(from_common)  # (46, H, 5000)
from_others = torch.stack(from_others)  # (46, H, 20)
own = from_word.mean(dim=(0, 2))  # (H,)
Table(["the ambiguous words ask"], heads, own[None])

# %% head-3 [markdown]
# &ZeroWidthSpace;<!--above-->The clues get most in head 3, twice their uniform share. This is the head in which no position stands out.
# Does it find the clues for this word, or does it give them much in any case?

# %% ask-askers
predict("10/when-others-ask")

# %% see-askers
# %%answer 10/when-others-ask
median = from_common.mean(dim=0).median(dim=1).values  # (H,)
others = from_others.mean(dim=(0, 2))
names = ["the ambiguous words ask", "the median asker", "the other ambiguous words"]
Table(names, heads, torch.stack([own, median, others]))

# %% draw-askers jupyter={"source_hidden": true}
# %%answer 10/when-others-ask
_, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
look = {"ls": "none", "ms": 9}
ax.vlines(range(12), others, own, color="#e6b392", lw=3)
ax.plot(own, "D", color="#c8500a", label="the ambiguous word itself", **look)
ax.plot(others, "o", color="#7fb2d9", label="the other ambiguous words", **look)
ax.plot(median, "_", color="#555", mew=2, label="the median asker", **look)
ax.axhline(1, color="#999", ls="--", lw=1)
ax.text(11.6, 1.03, "uniform", ha="right", va="bottom", color="#666", fontsize=9)
ax.set(xlabel="head", ylabel="uniform shares of the clues", ylim=(0, 2.9))
ax.set(xticks=range(12), title="In heads 1, 4, 8 and 10 it matters most who asks")
ax.legend(loc="upper right", ncols=3, fontsize=8, columnspacing=1)
show_figure(ax, "10.3")

# %% two-reasons [markdown]
# In head 3 the clues get 1.68 shares from the median asker, so this head gives them much whoever asks. **A large share
# alone does not show that a head has found a clue.**
#
# The other 20 ambiguous words are a stricter control. In head 3 they give the clues as much as the ambiguous word itself
# does. <!--above-->In heads 1, 4, 8 and 10 an ambiguous word gives its clues about twice as much as others do.
#
# Was the arc from “bank” to “river” a lucky pick? Twelve heads and 46 sentences give 552 chances to find such an arc. We
# count how many of the 5,000 askers give the clues more than the ambiguous word does, and say that they are *ahead*. We
# count the same for the other ambiguous words.


# %% luck
def askers_ahead(shares):
    """Count the common words that give the clues more: shares (46, H, A) -> (46, H, A)."""
    counts = [(from_common > one[..., None]).sum(dim=-1) for one in shares.unbind(-1)]
    return torch.stack(counts, dim=-1)


ahead, ahead_of_others = askers_ahead(from_word), askers_ahead(from_others)
by_chance = (ahead_of_others < 10).float().mean(dim=-1).sum()
few = (ahead < 10).sum().item()
print("bank, river, head 4:", ahead[0, 4].item(), "askers ahead")
print(f"fewer than 10 ahead: {few} of 552; other ambiguous words: {by_chance:.1f}")
in_first_tenth = (ahead < 500).float().mean(dim=(0, 2))  # (H,)
others_in_it = (ahead_of_others < 500).float().mean(dim=(0, 2))
names = ["the ambiguous word in the first tenth", "other ambiguous words in it"]
Table(names, heads, torch.stack([in_first_tenth, others_in_it]))

# %% what-arrives [markdown]
# In 15 of the 552 cases, fewer than ten askers are ahead, and the arc from “bank” to “river” is one of them. Other
# ambiguous words would make us expect one or two such cases. So luck may explain one or two of the 15, but not all.
#
# The table gives shares of the 46 sentences. In heads 1, 4, 8 and 10, the ambiguous word is more often among the first
# tenth of the askers than the others are, but in only about half of the sentences, or less.
# &ZeroWidthSpace;<!--above-->**The ambiguous word is ahead of the others on average, not in every sentence**.
#
# ## What reaches the output?
#
# What a weight adds to the output depends on the token that gets it. Head $h$ turns token $j$ into a value of 32
# features, and 32 columns of the last matrix turn this value back into 384 features. We call the result $u_{h,j}$. It
# is what the head would add if it gave token $j$ all of its weight. <!--below-->The output is a weighted sum of all
# vectors $u_{h,j}$, plus a bias.
#
# $$\text{output}_i = \text{bias of the last matrix} + \sum_h \sum_j \text{weight}_{h,i,j} \; u_{h,j}$$

# %% contributions
blocks = layer.attention.out_proj.weight.chunk(12, dim=1)  # (E, 32) for each head


def projected_values(x):
    """Return u for vectors (S, E): (H, S, E)."""
    values = split_heads(layer.attention.v_proj(x), 12)  # (H, S, 32)
    return torch.stack([v @ block.T for v, block in zip(values, blocks, strict=True)])


u = projected_values(reading.embedded)
output = (reading.weights @ u).sum(dim=0) + layer.attention.out_proj.bias
assert torch.allclose(output, reading.output, atol=1e-5)

# %% how-long [markdown]
# &ZeroWidthSpace;<!--below-->How long is $u$ for `[CLS]`, compared with its mean length for the 304 words? We also put `[CLS]` into
# position 1, and the first word of each sentence into position 0, where it did not stand in training.

# %% sink-lengths
words = torch.cat([text.embedded[1:-1] for text in readings])  # (304, E)
of_words = projected_values(words).norm(dim=-1).mean(dim=-1)  # (H,)
first_words = [text.tokens[1] for text in readings]
vectors = {
    "[CLS] in 0": layer.embed(["[CLS]"], positions=[0]),
    "[CLS] in 1": layer.embed(["[CLS]"], positions=[1]),
    "first words in 0": layer.embed(first_words, positions=[0] * 46),
}
lengths = [projected_values(x[0]).norm(dim=-1).mean(dim=-1) for x in vectors.values()]
lengths = torch.stack(lengths) / of_words  # (3, H)
Table(list(vectors), heads, lengths)

# %% sink [markdown]
# &ZeroWidthSpace;<!--above-->In heads 6, 7, 8, 9 and 11, $u$ of `[CLS]` is about a tenth as long as a word’s. Neither
# `[CLS]` in position 1 nor the words in position 0 have such a short $u$.
#
# A token that gets a lot of weight but adds little is called an [**attention sink**](glossary.ipynb#attention-sink). A
# weight of 0.44 on `[CLS]` in head 9 adds about as much as a weight of 0.44 · 0.11, or 0.05, on a word. What is such a
# token good for? Let us take it away: no token may look at `[CLS]` any more.

# %% ask-sink
predict("10/without-the-sink")


# %% see-sink
# %%answer 10/without-the-sink
def length_ratio(reading):
    """Compare the lengths of what each head adds without [CLS] and with it."""
    u, weights = projected_values(reading.embedded), reading.weights
    others = weights.index_fill(-1, torch.tensor(0), 0)  # no weight for [CLS]
    others = others / others.sum(dim=-1, keepdim=True)
    ratio = (others @ u).norm(dim=-1) / (weights @ u).norm(dim=-1)
    return ratio[:, 1:-1]  # (H, words)


measured = torch.cat([length_ratio(text) for text in readings], dim=1)
measured = measured.median(dim=1).values  # over the words
if_it_added_nothing = 1 / (1 - weight_of_cls(readings))
names = ["length without [CLS] / length with it", "1 / (1 - weight of [CLS])"]
Table(names, heads, torch.stack([measured, if_it_added_nothing]))

# %% the-arithmetic [markdown]
# It grows: in head 9, what the head adds becomes 1.73 times as long. The reason is arithmetic. If a token with weight
# $w$ adds nothing, the others share $1 - w$. Take it away, and they share 1, so what they add is multiplied by exactly
# $1 / (1 - w)$. <!--above-->In the five heads with a short $u$ of `[CLS]`, the two rows nearly agree.
#
# **So a sink turns a head down:** the weights of a row must sum to 1, but much of this 1 can go to a token that adds
# little.
#
# ## Take a head away
#
# To [**ablate**](glossary.ipynb#ablation) a head means to compute the output without what the head adds. How far does
# that move the output of a word, compared with the length of this output? As a control, the head stays and so does the
# weight of `[CLS]`, but the other tokens share the rest equally. So the head no longer chooses among them.


# %% ablate
def changes(reading):
    u, weights = projected_values(reading.embedded), reading.weights
    added = weights @ u  # (H, L, E)
    to_cls = weights[..., :1]  # (H, L, 1)
    equal = (1 - to_cls) * u[:, 1:].mean(dim=1, keepdim=True)
    without_choice = to_cls * u[:, :1] + equal
    moves = torch.stack([added.norm(dim=-1), (added - without_choice).norm(dim=-1)])
    return (moves / reading.output.norm(dim=-1))[..., 1:-1]  # (2, H, words)


removed, equal = torch.cat([changes(text) for text in readings], dim=-1).mean(dim=-1)
names = ["head removed", "other weights equal"]
Table(names, heads, torch.stack([removed, equal]))

# %% before-table [markdown]
# &ZeroWidthSpace;<!--above-->Removing head 4 moves the output most, by 0.46 of its length, but equal weights move it by only 0.17. So
# much of what head 4 adds does not depend on where it looks. Part of it is the same for every sentence, because the bias of the values is always added in full.
# **A map shows what a head chooses, but a head can add a lot without choosing.**
#
# ## So what does a trained layer really look at?
#
# Here are our measures, row by row. Within each row, dark is large.

# %% the-table
names = ["attention that moves in a shuffle", "words that look most at [CLS]"]
names += ["length of u of [CLS] / of a word", "clues: ambiguous word / others"]
names += ["output moves: head removed", "output moves: other weights equal"]
rows = [moved, most_to_cls, lengths[0], own / others, removed, equal]
table = torch.stack(rows)
_, ax = plt.subplots(figsize=(8.4, 3.2), layout="constrained")
look = {"annot": table, "fmt": ".2f", "cmap": "Blues", "linewidths": 1, "cbar": False}
sns.heatmap(table / table.amax(dim=1, keepdim=True), yticklabels=names, ax=ax, **look)
ax.set(xlabel="head", title="Different heads stand out in different rows")
show_figure(ax, "10.4")

# %% the-answer [markdown]
# - **In eight of the twelve heads, most words give their largest weight to `[CLS]`**, which is not a word. In heads 6, 7,
#   8, 9 and 11 its $u$ is so short that a large weight adds no more than a small one on a word.
# - **Heads 2 and 5**, and to some extent 4, **look at positions** among the words.
# - **In heads 1, 4, 8 and 10 it matters who asks:** ambiguous words give their own clues about twice as much as other
#   ambiguous words do, on average. In head 8 this is still less than a uniform share.
# - **Head 3 gives the clues much**, whoever asks.
#
# So the arc from *bank* to *river* in head 4 shows something real, but not that the model knows which bank is meant. In
# a first layer, a score depends only on two tokens and their positions. If a third word is replaced, the sum that the
# softmax divides by may change, but the ratio of two other weights in the row stays the same. Head 4 prefers *river* to
# *she* by the same factor, whatever the rest of the sentence says. <!--above-->Head 4 finds a clue, but it does not
# decide on a meaning.
#
# All this is one layer of one model. A [**residual connection**](glossary.ipynb#residual-connection) adds its output to
# its input, and five more layers follow. In lesson 14, we follow *bank* through them.

# %% further-same-weights [markdown]
# ## Further
#
# ### The same weights, a different output
#
# In 31 of the 46 sentences, the word before the ambiguous word is *the* or *a*. We replace each by the other. We measure
# two things for each head: how much of the attention of the ambiguous word moves, and how far the vector that the head
# adds to this word moves, compared with the length of the output. The table shows the means over the 31 sentences.

# %% the-or-a
exchange = {"the": "a", "a": "the"}
moves = []
for text, word in zip(readings, examples.word, strict=True):
    i = text.tokens.index(word)
    tokens = [*text.tokens]
    tokens[i - 1] = exchange.get(tokens[i - 1], tokens[i - 1])
    if tokens != text.tokens:
        weights, u = weights_for(tokens), projected_values(layer.embed(tokens)[0])
        attention = (weights - text.weights)[:, i].abs().sum(dim=-1) / 2  # (H,)
        added = weights @ u - text.weights @ projected_values(text.embedded)
        change = added[:, i].norm(dim=-1) / text.output[i].norm()
        moves.append(torch.stack([attention, change]))
names = ["attention that moves", "what is added moves"]
Table(names, heads, torch.stack(moves).mean(dim=0))

# %% the-or-a-reading [markdown]
# At most 0.04 of the attention of a head moves, and yet what head 2 adds moves by 0.40 of the length of the output. Head 2
# looks at the same position as before, but another word is there now. A weight says where a head takes something from,
# not what it takes.

# %% remember [markdown]
# ## What to remember
#
# - Count in uniform shares. In most heads, a weight falls as the text grows, because more tokens share the row.
# - Before you describe a head, measure it on many sentences, show all heads, and compare the result with what you would
#   see if nothing special were going on: with shuffled words, other words that ask, or uniform weights.
# - In our short sentences, most words give their largest weight to `[CLS]` in eight of the twelve heads of this layer.
# - An attention sink gets a lot of weight and adds little. If it adds nothing, taking it away multiplies what the head
#   adds by $1 / (1 - w)$. So a head can turn itself down, as long as $w$ is large.
# - In a first layer, the ratio of two weights in the same row does not depend on any third word, as long as all words
#   keep their positions.
# - A weight says where a head takes something from, not what it takes. To know what matters, remove or replace
#   something and measure the output.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (4 minutes)
#
# In a head of a first layer, “it” gives 0.12 of its weight to “animal” and 0.08 to “street”. Then the last word of the
# sentence is replaced by another word, and “animal” gets 0.09. How much does “street” get now?
#
# <details><summary>Hint</summary>
#
# Which scores have changed? A weight is $e$ to the power of its score, divided by the sum of these powers over the row.
# </details>

# %%
from attnlab.exercises import check_mended_ablation, check_own_word
from attnlab.exercises import check_sink_share, check_third_word


# %% tags=["exercise"]
def weight_of_street():
    """Return the weight."""


# %%
check_third_word(weight_of_street)


# %% tags=["solution"]
def weight_of_street_solution():
    return 0.09 * 0.08 / 0.12  # the ratio of the two does not change


check_third_word(weight_of_street_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (8 minutes)
#
# Measure the sink in a padded batch: for each head, how many uniform shares does the first token get from the words, on
# average? The sentence has $n$ tokens, the first and the last of which are markers. Padding follows them, up to $S$
# tokens, and no token attends to it. Only the rows of words count.
#
# <details><summary>Hint</summary>
#
# The weights are (H, queries, keys). Which rows remain, and which column? And among how many tokens can a row divide its
# weight?
# </details>


# %% tags=["exercise"]
def sink_share(weights, n):
    """Weights (12, S, S) of n tokens and S - n of padding -> 12 numbers, in uniform shares."""


# %%
check_sink_share(sink_share)


# %% tags=["solution"]
def sink_share_solution(weights, n):
    return weights[:, 1 : n - 1, 0].mean(dim=-1) * n


check_sink_share(sink_share_solution)

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `careless` should return the output (L, 384) for a sentence as if the 32 features of one head were 0, which is what
# “head removed” means in the last figure. But `careless` removes the wrong numbers, and it also leaves something behind.
# Write `careful`, which does neither, and try it on a freshly loaded layer. (The parameters of `load_layer()` do not
# require gradients, so you can change them in place.)
#
# <details><summary>Hint</summary>
#
# An <code>nn.Linear</code> stores one row for each output feature. Which part of the matrix do the 32 features of a
# head meet? And what does <code>layer</code> look like after the call?
# </details>


# %% tags=["exercise"]
def careless(layer, text, head):
    layer.attention.out_proj.weight[32 * head : 32 * (head + 1)] = 0
    return layer.read(text).output


def careful(layer, text, head):
    """Return the output without the head; the layer stays as it is."""


# %%
check_mended_ablation(careful)


# %% tags=["solution"]
def careful_solution(layer, text, head):
    changed = load_layer()
    changed.load_state_dict(layer.state_dict())
    changed.attention.out_proj.weight[:, 32 * head : 32 * (head + 1)] = 0
    return changed.read(text).output


check_mended_ablation(careful_solution)

# %% exercise-4 [markdown]
# ### 4 · Find ★★★ (15 minutes)
#
# Find an ambiguous word that is not among the 21 of the lesson, and two sentences, one for each of two of its meanings.
# Choose a clue and a head for each sentence. In that head, your word must give the clue at least one uniform share, and
# fewer than 100 of the 5,000 askers may give it more in the same place.
#
# You have twelve heads to choose from, and as many sentences as you like, so keep count of what you try.
# (`clue_shares(word, sentence, clue, askers)` gives the shares from any list of askers, such as `common`.) Suppose that
# your word were an asker like any other. How often would at least one of twelve heads pass the test by chance, if the heads were
# independent?
#
# <details><summary>Hint</summary>
#
# Short sentences help, and heads 1, 4 and 10 are good candidates. For the chance: in how many of 50 heads is a word
# picked at random among the first 100 of 5,000 askers? And how often does it fail in all twelve?
# </details>
#
# <details><summary>The chance, and words that work</summary>
#
# In one head, the word passes with a probability of $1/50$, so at least one of twelve heads passes with a probability of
# $1 - 0.98^{12}$, about one in five. Words such as “glass”, “tank” and
# “coach” work.
# </details>


# %% tags=["exercise"]
def my_word():
    """Return (word, (sentence, clue, head), (sentence, clue, head))."""


# %%
check_own_word(my_word)


# %% tags=["solution"]
def my_word_solution():
    first = "he hit the golf ball with a club", "golf", 10
    second = "they danced in the club", "danced", 10
    return "club", first, second


check_own_word(my_word_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★★ (6 minutes)
#
# In a language model, the first token gets 0.8 of the weight in many heads. An engineer blocks it in every row, and the
# text that the model writes becomes useless. She concludes: “The first token holds information that the model needs.”
# What else could have happened, and how would you find out which it was? Answer in three or four sentences, and then
# compare your answer with ours.
#
# <details><summary>An answer</summary>
#
# The first token may be a sink that adds nothing. Then blocking it makes what such a head adds $1 / (1 - 0.8) = 5$
# times as long, and the later layers have never seen anything like it. To find out, let the first token keep its
# weight, but set what it adds, its $u$, to 0 in these heads. If the text stays good, the model needed the token only as
# a place for weight; if not, it needed something that the token holds.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `layer.attention.to_torch()` returns an `nn.MultiheadAttention` with the same parameters. Pass
# `average_attn_weights=False` if you want the heads one by one. By default you get the mean over the heads, which hides
# what each of them does. In Hugging Face Transformers, load a model with `attn_implementation="eager"` and call it with
# `output_attentions=True`. You get one tensor (N, H, L, L) for each layer.

# %% torch-weights
theirs = layer.attention.to_torch().eval()
x = reading.embedded[None]  # (N, L, E)
mean = theirs(x, x, x)[1]  # (N, L, S)
by_head = theirs(x, x, x, average_attn_weights=False)[1]  # (N, H, L, S)
assert torch.allclose(by_head[0], reading.weights, atol=1e-5)
print(f"bank to river: mean {mean[0, 5, 8]:.2f}, head 4 {by_head[0, 4, 5, 8]:.2f}")

# %% sources [markdown]
# ## Sources
#
# - Wang et al., [MiniLM](https://arxiv.org/abs/2002.10957), 2020, and Reimers and Gurevych,
#   [Sentence-BERT](https://arxiv.org/abs/1908.10084), 2019: how a small model is made from a larger one, and how it
#   learns to compare sentences. Our model,
#   [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2), started from [every second
#   layer](https://huggingface.co/nreimers/MiniLM-L6-H384-uncased) of a model with twelve.
# - Clark et al., [What Does BERT Look At?](https://arxiv.org/abs/1906.04341), 2019: heads that look at the previous
#   token, or at `[SEP]` if, as the authors suppose, they have nothing else to do.
# - Xiao et al., [Efficient Streaming Language Models with Attention Sinks](https://arxiv.org/abs/2309.17453), 2023:
#   models that fail when the sink is removed, and in which the place of the first tokens matters more than what they
#   are.
# - Kobayashi et al., [Attention is Not Only a Weight](https://arxiv.org/abs/2004.10102), 2020: measuring the length of
#   what reaches the output.
# - Michel et al., [Are Sixteen Heads Really Better than One?](https://arxiv.org/abs/1905.10650), 2019: heads removed,
#   and the effect measured on the task of the model.
# - Jain and Wallace, [Attention is not Explanation](https://arxiv.org/abs/1902.10186), 2019, and the reply by Wiegreffe
#   and Pinter, [Attention is not not Explanation](https://arxiv.org/abs/1908.04626), 2019. The reply objects to weights
#   that are replaced for each example, independently of the rest of the model; it proposes uniform weights as a
#   baseline, but with a model that is trained with them. Ours is not.
# - Olsson et al., [In-context Learning and Induction Heads](https://arxiv.org/abs/2209.11895), 2022: heads that look at
#   the previous token, in models that predict the next word.

# %% next [markdown]
# ## Next
#
# [11 · Order: who tells attention where words stand?](11_order.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.** The layer and the explorer: 10. When a weight is large, and the portrait: 11. Positions: 3. The
# word that asks: 11. What reaches the output, and the sink: 8. Heads removed or made uniform, and the table: 7. The exercises take another 40 minutes; set them, and “Further”, as homework.
#
# **Where a class stalls.** *A beautiful arc:* ask how many pictures the author looked at before choosing this one, and
# what another word would do in the same place. *“`[CLS]` is important, since everything looks at it”:* ask what the
# weight is in a text of 62 tokens, and what `[CLS]` adds. *“`[CLS]` is unimportant, since its $u$ is
# short”:* let the class guess what happens without it. *“Then what should I look at instead?”* Remove a head or a
# token, and measure how well the whole model does its task.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** A token gets a weight of 0.1. Is that a lot? **It depends on the number of tokens.** *No, 0.1 is a small
# weight:* in a text of 60 tokens it is six uniform shares. *Yes:* in a sentence of five tokens it is half of one.
#
# **2.** Head 2 looks at the previous token. What does it respond to? **To positions.** *To words:* after a shuffle it
# looks at other words, in the same places. *To the markers:* they stay in place when the words are
# shuffled, and yet most of its attention moves.
#
# **3.** A head gives many uniform shares to the clues. What do you need to know before you say that it finds meanings?
# **What it gives them if other words ask.** *More decimals:* the question is not how exact the number is. *The mean
# over all heads:* it hides the head.
#
# **4.** A token gets most of the weight of a row, and its $u$ is short. What happens to the head’s contribution if you
# take the token away? **It gets longer.** *Nothing:* its weight goes to other tokens, and these contribute more. *It
# gets shorter:* what is lost is a short vector.
#
# **5.** “sat” is replaced by “swam” in *she sat on the bank of the river*. What happens in a first layer to the ratio of
# the weights that “bank” gives to “river” and to “she”? **It stays the same.** *It grows:* that would fit the meaning,
# but neither score depends on “sat”. *It depends on the head:* all heads compute a score from two tokens.
# </details>
