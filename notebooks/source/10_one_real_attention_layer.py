# %% opening [markdown]
# # 10 · One real attention layer: what it looks at
#
# You may have seen a picture with an arc from *bank* to *river*. The caption says that the model connects the two
# words, or even that it knows which bank is meant. You can draw such a picture with the layer of this lesson, too. But
# each of its twelve heads has a row of weights for every token of every sentence. With so many pictures to choose from,
# you will find one for almost any story.
#
# So let us ask without choosing: **what does a trained layer really look at?** We measure all twelve heads on 46
# sentences, and for every result we ask what we would see if the head did nothing special. At the end, one table
# describes all twelve heads.
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
# Head 4 shows the arc from *bank* to *river*. Now look through the other maps, and then type in sentences of your own.
# Which head draws the same picture every time?

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
# One sentence proves little, so we turn to 46 short sentences with 304 words. Each sentence contains one of 21
# ambiguous words. The words that show its meaning were marked by one person as **clues**, which we will need later.

# %% examples
examples = pd.read_csv(data_path("ambiguous_words.csv"))
examples.iloc[[0, 1, 6, 8, 9, 10]]

# %% largest-text [markdown]
# Which token gets the largest weight in the row of each word? We begin with `[CLS]`, which is token 0.


# %% largest-weights
def share_won_by_cls(readings):
    """Return the share of rows, over all heads, in which [CLS] has the largest weight."""
    largest = [
        reading.weights[:, 1:-1].argmax(dim=-1) for reading in readings
    ]  # (H, words)
    return (torch.cat(largest, dim=1) == 0).float().mean()


readings = [layer.read(sentence) for sentence in examples.sentence]
share_won_by_cls(readings)

# %% so-much [markdown]
# In 62% of the rows the largest weight goes to `[CLS]`, which is not a word at all. In head 6 it gets 0.41 on average.
#
# Is 0.41 a lot? Our sentences have only 8.6 tokens on average, markers included. To see what happens in longer texts,
# we join three sentences at a time, and then nine, and read each group as one text.

# %% ask-length
predict("10/cls-in-longer-texts")


# %% see-length
# %%answer 10/cls-in-longer-texts
def in_groups(size):
    """Join the sentences in groups, and read each group as one text."""
    starts = range(0, len(examples) - size + 1, size)
    return [layer.read(" ".join(examples.sentence[i : i + size])) for i in starts]


rows = []
for size in (1, 3, 9):
    texts = in_groups(size)
    tokens = sum(len(text.tokens) for text in texts) / len(texts)
    weights = torch.cat([text.weights[6, 1:-1, 0] for text in texts])
    shares = torch.cat([text.weights[6, 1:-1, 0] * len(text.tokens) for text in texts])
    rows.append([tokens, weights.mean(), shares.mean(), share_won_by_cls(texts)])
columns = [
    "tokens",
    "weight in head 6",
    "uniform shares in head 6",
    "rows won, all heads",
]
Table(["1 sentence", "3 sentences", "9 sentences"], columns, torch.tensor(rows))

# %% in-uniform-shares [markdown]
# The weight of `[CLS]` in head 6 falls to 0.06. A row has one unit of weight to give away, and in the long texts seven
# times as many tokens share it. So a weight says little unless you know how many tokens there are.
#
# To compare texts, we count in [**uniform shares**](glossary.ipynb#uniform-share): the weight times the number of
# tokens. A key has a share of 1 if all keys get the same weight. In head 6, `[CLS]` gets 3.6 to 3.9 shares at every
# length.
#
# Over all heads, `[CLS]` wins fewer rows in longer texts. With 62 tokens it still wins 30%, while a token picked by
# chance would win less than 2%. From here on we measure short sentences, and our results hold for those.
#
# ## A portrait of the twelve heads
#
# Where do words look, on average? We try five positions. The first word of each sentence is left out, because its
# “token before” would be `[CLS]`.


# %% portrait
def shares_of_five(reading):
    L = len(reading.tokens)
    words = torch.arange(2, L - 1)  # all words but the first
    keys = [0, L - 1, words, words - 1, words + 1]
    weights = [reading.weights[:, words, key] for key in keys]  # (H, words) each
    return torch.stack(weights) * L  # (5, H, words)


def draw_shares(values, names, title, number):
    _, ax = plt.subplots(figsize=(7.4, 3), layout="constrained")
    look = {"annot": True, "fmt": ".1f", "cmap": "Blues", "linewidths": 1}
    sns.heatmap(values, vmin=0, vmax=4, yticklabels=names, ax=ax, **look)
    ax.set(xlabel="head", title=title)
    return show_figure(ax, number)


portrait = torch.cat([shares_of_five(reading) for reading in readings], dim=-1).mean(
    dim=-1
)
names = ["[CLS]", "[SEP]", "itself", "token before", "token after"]
draw_shares(portrait, names, "Ten of the twelve heads look most at [CLS]", "10.1")

# %% by-position [markdown]
# Of the five positions, that of `[CLS]` gets the most in ten heads. The exceptions are heads 2 and 3. In head 2 the
# token before gets a weight of nearly 1, so its uniform shares are nearly the number of tokens. Head 3 hardly looks at
# `[CLS]`, and none of the five gets much more than one share.
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
def weights_for(tokens, positions=None):
    x = layer.embed(tokens, positions=positions)  # (1, L, E)
    return layer.attention(x).weights[0]  # (H, L, L)


def moved_by_shuffling(reading, generator):
    L = len(reading.tokens)
    words = 1 + torch.randperm(L - 2, generator=generator)
    order = [0, *words.tolist(), L - 1]  # the markers stay where they are
    old = reading.weights[:, order][:, :, order]  # the old weights in the new order
    new = weights_for([reading.tokens[i] for i in order])
    return (new - old).abs().sum(dim=-1)[:, 1:-1] / 2  # (H, words)


# %% see-shuffle
generator = torch.Generator().manual_seed(0)
moved = torch.cat(
    [moved_by_shuffling(reading, generator) for reading in readings], dim=1
)
moved = moved.mean(dim=1)  # (H,)
heads = [str(head) for head in range(12)]
Table(["attention that moves"], heads, moved[None])

# %% the-swap [markdown]
# In head 2 nearly all of the attention moves, in head 5 a third, and in head 4 a seventh. In the other nine heads less
# than a tenth moves: their words look at nearly the same tokens as before, wherever these stand. So **heads 2 and 5,
# and to some extent 4, look at positions among the words.**
#
# But `[CLS]` stayed in place. Do ten heads look at it because of this *token*, or because it stands in the first
# *position*? We let `[CLS]` and the first word exchange their position vectors, and we look at the rows of the other
# words.


# %% swap
def shares_of_two(weights):
    """Return the shares of the first two tokens, in the rows of the other words."""
    return weights[:, 2:-1, :2].mT * weights.shape[-1]  # (H, 2, words)


def exchanged(reading):
    positions = [1, 0, *range(2, len(reading.tokens))]
    return weights_for(reading.tokens, positions)


before = [shares_of_two(reading.weights) for reading in readings]
after = [shares_of_two(exchanged(reading)) for reading in readings]
cls_in_0, word_in_1 = torch.cat(before, dim=-1).mean(dim=-1).T  # (H,) each
cls_in_1, word_in_0 = torch.cat(after, dim=-1).mean(dim=-1).T
values = torch.stack([cls_in_0, word_in_1, word_in_0, cls_in_1])
names = ["[CLS] in 0", "first word in 1", "first word in 0", "[CLS] in 1"]
draw_shares(
    values, names, "In heads 4, 8, 10 and 11, position 0 draws the weight", "10.2"
)

# %% by-asker [markdown]
# Compare the last two rows, which show the exchanged positions. In heads 4, 8, 10 and 11 the first word, now in
# position 0, gets more than `[CLS]`. **There the position counts most.** In heads 0, 1, 5, 6, 7 and 9 `[CLS]` still gets
# more. **There the token counts most**, although in heads 6 and 7 it loses about a quarter of its shares.
#
# Heads 2 and 3 are different. Head 2 looks at the previous position, so whatever stands in position 1 gets its weight
# from the word in position 2. Head 3 avoids position 0: `[CLS]` and the first word each get little there, and much more
# in position 1.
#
# ## Does it matter which word asks?
#
# In lesson 5, in one head, “bank” selected words that go with banks. Does this hold for other ambiguous words, and in
# which heads? We measure the uniform shares that a clue gets on average. First the ambiguous word asks, and then the
# 5,000 words of lesson 5 ask in its place.

# %% askers
askers = layer.common_words(5000)


def clue_shares(word, sentence, clues):
    """Return what the clues get if the word asks, then if each asker does: (H, 1 + A)."""
    tokens = layer.tokens(sentence)
    rows = layer.attend_as([word, *askers], tokens, tokens.index(word))  # (H, 1 + A, S)
    is_clue = torch.tensor([token in clues.split() for token in tokens])
    return rows[..., is_clue].mean(dim=-1) * len(tokens)


by_sentence = torch.stack([clue_shares(*example) for example in examples.values])
mean_shares = by_sentence.mean(dim=0)  # (46, H, 1 + A) -> (H, 1 + A)
from_word, from_askers = mean_shares[:, 0], mean_shares[:, 1:]
Table(["shares of the clues"], heads, from_word[None])

# %% ask-askers
predict("10/when-others-ask")

# %% see-askers
# %%answer 10/when-others-ask
names = ["the ambiguous words ask", "the median asker"]
Table(names, heads, torch.stack([from_word, from_askers.median(dim=1).values]))

# %% draw-askers jupyter={"source_hidden": true}
# %%answer 10/when-others-ask
_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
sns.boxplot(from_askers.T.numpy(), whis=(0, 100), color="#c6dcef", linewidth=1, ax=ax)
look = {"color": "#c8500a", "ms": 8, "zorder": 5}
ax.plot(range(12), from_word, "D", label="the ambiguous words ask", **look)
ax.axhline(1, color="#555", ls="--", lw=1, label="uniform attention")
ax.set(xlabel="head", ylabel="uniform shares of the clues", ylim=(0, 4.1))
ax.set_title(
    "In heads 1, 4, 8 and 10, the ambiguous words are far ahead of other askers"
)
ax.legend(loc="upper right", ncols=2)
show_figure(ax, "10.3")

# %% clues-are-content [markdown]
# In head 3 the clues get 1.68 shares from the median asker, nearly as many as from the ambiguous words. Words such as
# “the” and “in” are never clues here. Of the words with a meaning of their own most are, and head 3 favours them,
# whoever asks. **A large share alone does not show that a head has found a clue.**
#
# In heads 1, 4, 8 and 10 the ambiguous words lie far above the box. In head 8 the clues get only half a share, but from
# other askers they get even less. The **percentile** says how many percent of the askers give the clues less than the
# ambiguous words do.

# %% percentile
percentile = 100 * (from_askers < from_word[:, None]).float().mean(dim=1)  # (H,)
Table(["percentile"], heads, percentile[None])

# %% luck-text [markdown]
# And the arc from “bank” to “river”, was it a lucky pick? Twelve heads and 46 sentences are 552 chances to find such an
# arc. We count how many askers are ahead of the ambiguous word, and compare this with words that are picked at random.

# %% luck
ahead = (by_sentence[..., 1:] > by_sentence[..., :1]).sum(dim=-1)  # (46, H)
print("bank, river, head 4:", ahead[0, 4].item(), "of 5,000 askers ahead")
few = (ahead < 10).sum().item()
print(f"fewer than 10 ahead: {few} of 552, and by chance {552 * 10 / 5000:.1f}")
first_tenth = (ahead < 500).sum(dim=0)[[1, 4, 8, 10]].tolist()
print(
    f"heads 1, 4, 8, 10, fewer than 500 ahead: {first_tenth} of 46, by chance {46 / 10}"
)

# %% what-arrives [markdown]
# Fewer than ten askers are ahead 15 times, and by chance it would be about once, so the arc is hardly a lucky pick. In
# heads 1, 4, 8 and 10 the ambiguous word is among the first tenth of the askers in 18 to 24 of the sentences. That is
# far more than chance, and yet only about half of them. **In these four heads it matters who asks, on average and not in
# every sentence.**
#
# ## What reaches the output?
#
# What a weight adds to the output depends on the token that gets it. Head $h$ turns token $j$ into a value of 32
# features, and 32 columns of the last matrix turn this value back into 384 features. We call the result $u_{h,j}$. It
# is what the head would add if it gave token $j$ all of its weight:
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
# How long is $u$ for `[CLS]`? A value is a vector times a matrix, plus a bias, so $u$ has two parts as well. We compare
# the length of $u$ with its mean length for the 304 words, and we compute the cosine of the angle between the two
# parts. We do this for `[CLS]` in its own position, and in position 1.

# %% sink-lengths
words = torch.cat([reading.embedded[1:-1] for reading in readings])  # (304, E)
of_words = projected_values(words).norm(dim=-1).mean(dim=-1)  # (H,)
from_bias = projected_values(torch.zeros(1, 384))[:, 0]  # (H, E)
rows = []
for position in (0, 1):
    cls = layer.embed(["[CLS]"], positions=[position])[0]  # (1, E)
    of_cls = projected_values(cls)[:, 0]  # (H, E)
    rows.append(of_cls.norm(dim=-1) / of_words)
    rows.append(torch.cosine_similarity(of_cls - from_bias, from_bias, dim=-1))
names = ["length in position 0", "cosine", "length in position 1", "cosine, position 1"]
Table(names, heads, torch.stack(rows))

# %% two-parts jupyter={"source_hidden": true}
fig, axes = plt.subplots(2, 12, figsize=(7.6, 2.4), layout="constrained")
for position, row in enumerate(axes):
    vector = layer.embed(["[CLS]"], positions=[position])[0]
    part = (projected_values(vector)[:, 0] - from_bias) / of_words[:, None]
    for head, ax in enumerate(row):
        a, b = part[head], from_bias[head] / of_words[head]
        along = a.norm().item()
        cosine = torch.cosine_similarity(a, b, dim=0).item()
        tip = along + b.norm().item() * cosine, b.norm().item() * (1 - cosine**2) ** 0.5
        ax.add_patch(plt.Circle((0, 0), 1, fill=False, color="#999999", lw=0.8))
        ax.plot([0, along], [0, 0], color="#7fb2d9", lw=2)
        ax.plot([along, tip[0]], [0, tip[1]], color="#e08a3c", lw=2)
        ax.plot([0, tip[0]], [0, tip[1]], color="#111111", lw=1.4)
        ax.plot(*tip, "o", color="#111111", ms=3)
        ax.set(xlim=(-0.3, 1.6), ylim=(-0.4, 1.1), aspect="equal", xticks=[], yticks=[])
        ax.set_title(f"{head}" if position == 0 else "", fontsize=9)
        ax.spines[:].set_visible(False)
    row[0].set_ylabel(f"position {position}", fontsize=9)
fig.suptitle(
    "In heads 6, 7, 8, 9 and 11, the bias nearly cancels the rest", fontsize=11
)
show_figure(fig, "10.4")

# %% sink [markdown]
# In heads 6, 7, 8, 9 and 11 the two parts point in nearly opposite directions and almost cancel. What is left of $u$ is
# about a tenth as long as for a word. In position 1 they do not cancel, and $u$ is as long as for any word. **In these
# heads, training has made one vector almost zero: that of `[CLS]` in position 0.**
#
# A token that gets a lot of weight but adds little is called an [**attention sink**](glossary.ipynb#attention-sink).
# What is it good for? Let us take it away: no token may look at `[CLS]` any more, and the rest of each row is scaled
# up to sum to 1 again. What happens to what a head adds?

# %% ask-sink
predict("10/without-the-sink")


# %% see-sink
# %%answer 10/without-the-sink
def length_ratio(reading):
    """Compare the lengths of what each head adds without [CLS] and with it."""
    u, weights = projected_values(reading.embedded), reading.weights
    others = weights.index_fill(-1, torch.tensor(0), 0)
    others = others / others.sum(dim=-1, keepdim=True)
    ratio = (others @ u).norm(dim=-1) / (weights @ u).norm(dim=-1)
    return ratio[:, 1:-1]  # (H, words)


measured = torch.cat([length_ratio(reading) for reading in readings], dim=1)
measured = measured.median(dim=1).values  # over the words
Table(["length without [CLS] / length with it"], heads, measured[None])

# %% the-arithmetic [markdown]
# It grows: in head 9, what the head adds becomes 1.73 times as long. The reason is arithmetic. If a token with weight
# $w$ adds nothing, the others share $1 - w$. Take the token away, and the others share 1, so what they add is multiplied
# by exactly $1 / (1 - w)$. We compare this factor with what we have measured, and we repeat the measurement in groups of
# nine sentences.

# %% compare-factor
if_zero = torch.cat(
    [1 / (1 - reading.weights[:, 1:-1, 0]) for reading in readings], dim=1
)
long = torch.cat([length_ratio(text) for text in in_groups(9)], dim=1)
names = ["measured", "1 / (1 - w)", "measured, 9 sentences"]
rows = [measured, if_zero.median(dim=1).values, long.median(dim=1).values]
Table(names, heads, torch.stack(rows))

# %% ablation [markdown]
# In the five heads in which $u$ is almost zero, the factor is right within a tenth. In the groups of nine sentences the
# heads grow by 9% at most, because there `[CLS]` has little weight to give back. **So in short sentences, a sink turns a
# head down:** the weights of a row must sum to 1, but much of this 1 can go to a token that adds nothing.
#
# ## Take a head away
#
# To [**ablate**](glossary.ipynb#ablation) a head means to compute the output without what the head adds. How far does
# that move the output of a word, compared with its length? As a control, the head stays, but all of its weights become
# uniform. Then its values still arrive, but it no longer chooses among them.


# %% ablate
def changes(reading):
    u = projected_values(reading.embedded)
    added = reading.weights @ u  # (H, L, E)
    uniform = u.mean(dim=1, keepdim=True)  # (H, 1, E): every weight is 1 / L
    moves = torch.stack([added.norm(dim=-1), (added - uniform).norm(dim=-1)])
    return (moves / reading.output.norm(dim=-1))[..., 1:-1]  # (2, H, words)


removed, uniform = torch.cat([changes(reading) for reading in readings], dim=-1).mean(
    dim=-1
)
bars = pd.DataFrame({"head removed": removed, "its weights uniform": uniform})
_, ax = plt.subplots(figsize=(7, 3), layout="constrained")
bars.plot.bar(ax=ax, rot=0, color=["#0b61a4", "#f2b48a"], width=0.8)
ax.set(xlabel="head", ylabel="change in the output", ylim=(0, 0.6))
ax.set_title("In heads 0, 3 and 4, uniform weights move the output only half as far")
show_figure(ax, "10.5")

# %% before-table [markdown]
# Removing head 4 moves the output most, by 0.46 of its length. Uniform weights move it by only 0.19, so much of what
# head 4 adds does not depend on where it looks. In head 9, uniform weights move the output nearly as far as removing the
# head. **A map of weights shows what a head chooses, but a head can add a lot without choosing.**
#
# ## So what does a trained layer really look at?
#
# Here are seven of our measures, with a column for each head. Within each row, dark is large.

# %% the-table
measures = {
    "attention that moves": moved,
    "shares of [CLS] in 0": cls_in_0,
    "shares of [CLS] in 1": cls_in_1,
    "length of u of [CLS]": projected_values(reading.embedded)[:, 0].norm(dim=-1)
    / of_words,
    "percentile of the clues": percentile,
    "head removed": removed,
    "weights uniform": uniform,
}
table = torch.stack(list(measures.values()))
_, ax = plt.subplots(figsize=(7.6, 3.4), layout="constrained")
look = {"annot": table, "fmt": ".3g", "cmap": "Blues", "linewidths": 1, "cbar": False}
sns.heatmap(
    table / table.amax(dim=1, keepdim=True), yticklabels=list(measures), ax=ax, **look
)
ax.set(xlabel="head", title="Twelve heads, seven measures")
show_figure(ax, "10.6")

# %% the-answer [markdown]
# - **Ten of the twelve heads look most at `[CLS]`**, which is not a word: heads 4, 8, 10 and 11 mostly because of its
#   position, heads 0, 1, 5, 6, 7 and 9 mostly because of the token. In heads 6, 7, 8, 9 and 11 it adds next to nothing,
#   so a large weight there means that the head says little.
# - **Heads 2 and 5**, and to some extent 4, **look at positions** among the words.
# - **Heads 1, 4, 8 and 10 look at clues if the right word asks:** ambiguous words give their clues more, on average,
#   than nearly all other words would.
# - **Head 3 favours words with a meaning of their own**, whoever asks.
#
# So the arc from *bank* to *river* in head 4 shows something real, but not that the model knows which bank is meant. In
# a first layer, a score depends only on two tokens and their positions. Replace a third word, and the sum that the
# softmax divides by may change, but the ratio of two weights in the row stays the same. In any sentence with
# *bank* and *river* in these two positions, their score is the same.
#
# The arc does not say what reaches the output either. A [**residual
# connection**](glossary.ipynb#residual-connection) then adds the output to the input of the layer, and five more layers
# follow. In lesson 14, we follow *bank* through them.

# %% further-same-weights [markdown]
# ## Further
#
# ### The same weights, a different output
#
# In 31 of the 46 sentences, the word before the ambiguous word is *the* or *a*. We replace each by the other. For each
# head, we measure how much of the attention of the ambiguous word moves, and how far what the head adds to this word
# moves, compared with the length of the output. The table shows the means over the 31 sentences.

# %% the-or-a
other_article = {"the": "a", "a": "the"}
rows = []
for old, word in zip(readings, examples.word, strict=True):
    i = old.tokens.index(word)
    if old.tokens[i - 1] in other_article:
        tokens = [
            *old.tokens[: i - 1],
            other_article[old.tokens[i - 1]],
            *old.tokens[i:],
        ]
        x, weights = layer.embed(tokens)[0], weights_for(tokens)
        added = weights @ projected_values(x)  # (H, L, E)
        added_before = old.weights @ projected_values(old.embedded)
        attention = (weights - old.weights)[:, i].abs().sum(dim=-1) / 2  # (H,)
        change = (added - added_before)[:, i].norm(dim=-1) / old.output[i].norm()
        rows.append(torch.stack([attention, change]))
Table(
    ["attention that moves", "what is added moves"],
    heads,
    torch.stack(rows).mean(dim=0),
)

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
# - In our short sentences, ten heads of this layer look most at `[CLS]`, some mostly because of where it stands, some
#   mostly because of what it is.
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


# %% tags=["solution"] jupyter={"source_hidden": true}
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


# %% tags=["solution"] jupyter={"source_hidden": true}
def sink_share_solution(weights, n):
    return weights[:, 1 : n - 1, 0].mean(dim=-1) * n


check_sink_share(sink_share_solution)

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `careless` should return the output (L, 384) for a sentence as if the 32 features of one head were 0, which is what
# “head removed” means in Figure 10.5. But `careless` removes the wrong numbers, and it also leaves something behind.
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


# %% tags=["solution"] jupyter={"source_hidden": true}
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
# (`clue_shares(word, sentence, clue)` gives the shares from your word and from all askers.) Suppose that your word were
# an asker like any other. How often would at least one of twelve heads pass the test by chance, if the heads were
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
# $1 - 0.98^{12}$, about one in five. It can be done with “glass”, “tank” and “coach”, for example.
# </details>


# %% tags=["exercise"]
def my_word():
    """Return (word, (sentence, clue, head), (sentence, clue, head))."""


# %%
check_own_word(my_word)


# %% tags=["solution"] jupyter={"source_hidden": true}
def my_word_solution():
    first = "he hit the golf ball with a club", "golf", 10
    second = "they danced in the club", "danced", 10
    return "club", first, second


check_own_word(my_word_solution).ok  # so that our sentences are not printed

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
# **50 minutes.** The layer and the explorer: 10. When a weight is large, and the portrait: 10. Positions and the
# exchange: 6. The word that asks: 9. What reaches the output, and the sink: 9. Heads removed or made uniform, and the
# table: 6. The exercises take another 40 minutes; set them, and “Further”, as homework.
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
