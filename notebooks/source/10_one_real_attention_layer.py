# %% opening [markdown]
# # 10 · One real attention layer: what it looks at
#
# You may have seen a picture with an arc from *bank* to *river*. The caption says that the model connects the two
# words, or even that it knows which bank is meant. You can draw such a picture with the layer of this lesson, too. But
# each of its twelve heads has a row of weights for every token of every sentence. With so many pictures to choose from,
# you will find one for almost any story.
#
# So let us ask without choosing: **what does a trained layer really look at?** We measure all twelve heads on 46
# sentences, and for every result we ask what we would see if the head did nothing special. The answer will be one
# table.
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
# all-MiniLM-L6-v2 is a small model with six layers. Its first attention layer, which you know from lessons 2, 4 and 5,
# is built like the layer of lesson 7, with 384 features and twelve heads, numbered from 0, but it adds a bias after
# each of its four matrices.
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
# One sentence proves little, so we turn to 46 sentences with 304 words. Each sentence contains one of 21 ambiguous
# words. The words that show its meaning were marked by one person as **clues**, which we will need later. First we ask
# which token gets the largest weight in the row of each word.

# %% examples
examples = pd.read_csv(data_path("ambiguous_words.csv"))
examples.iloc[[0, 1, 6, 8, 9, 10]]

# %% largest-weights
heads = [str(head) for head in range(12)]


def over_words(measure, readings):
    """Apply a measure to each reading and join what it gives for the words."""
    return torch.cat([measure(reading) for reading in readings], dim=-1)


def favourite(reading):
    return reading.weights[:, 1:-1].argmax(dim=-1)  # (H, words)


readings = [layer.read(sentence) for sentence in examples.sentence]
favourites = over_words(favourite, readings)  # (H, 304)
(favourites == 0).float().mean()  # token 0 is [CLS]

# %% so-much [markdown]
# Across all heads, 62% of the rows give their largest weight to `[CLS]`, which is not a word at all. In head 6 it gets
# 0.41 on average.
#
# But our sentences have only 8.6 tokens on average, markers included. What happens in longer texts? We join three
# sentences at a time, and then nine, and read each group as one text.

# %% ask-length
predict("10/cls-in-longer-texts")


# %% see-length
# %%answer 10/cls-in-longer-texts
def joined(k):
    """Read the sentences in groups of k, each group as one text."""
    starts = range(0, len(examples) - k + 1, k)
    return [layer.read(" ".join(examples.sentence[i : i + k])) for i in starts]


columns = ["tokens", "head 6: weight", "uniform shares", "all heads: favourite"]
rows = []
for texts in (joined(1), joined(3), joined(9)):
    tokens = sum(len(text.tokens) for text in texts) / len(texts)
    weight = over_words(lambda text: text.weights[6, 1:-1, 0], texts).mean()
    share = over_words(lambda t: t.weights[6, 1:-1, 0] * len(t.tokens), texts).mean()
    is_favourite = (over_words(favourite, texts) == 0).float().mean()
    rows.append([tokens, weight, share, is_favourite])
Table(["1 sentence", "3 sentences", "9 sentences"], columns, torch.tensor(rows))

# %% in-uniform-shares [markdown]
# The weight of `[CLS]` in head 6 falls to 0.06, because a row has one unit of weight to give away, however many tokens
# share it. So to compare texts, we count in [**uniform shares**](glossary.ipynb#uniform-share): the weight times the
# number of tokens. A key has a share of 1 if all keys get the same weight. In head 6, `[CLS]` gets 3 to 4 of them at
# every length.
#
# But short sentences are a special case: in texts of 62 tokens, `[CLS]` is the favourite in only 30% of the rows. What
# we say about it from here on holds for short sentences.
#
# ## A portrait of the twelve heads
#
# Where do the words of the 46 sentences look, on average? We try five positions.


# %% portrait
def shares_of_five(reading):
    word = torch.arange(1, len(reading.tokens) - 1)
    keys = [0 * word, 0 * word - 1, word, word - 1, word + 1]
    weights = torch.stack([reading.weights[:, word, key] for key in keys])
    return weights * len(reading.tokens)  # (5, H, words)


portrait = over_words(shares_of_five, readings).mean(dim=-1)  # (5, H)
names = ["[CLS]", "[SEP]", "itself", "token before", "token after"]
_, ax = plt.subplots(figsize=(7.4, 3), layout="constrained")
cells = {"annot": True, "fmt": ".1f", "cmap": "Blues", "linewidths": 1}
sns.heatmap(portrait, vmax=4, vmin=0, yticklabels=names, ax=ax, **cells)
ax.set(xlabel="head", title="Ten of the twelve heads look most at [CLS]")
show_figure(ax, "10.1")

# %% by-position [markdown]
# In ten heads, words look most at `[CLS]`. The clearest exception is head 2, where the token before gets 8.8 shares: a
# weight of nearly 1 is nearly as many uniform shares as there are tokens.
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
def weights_of(tokens, positions=None):
    x = layer.embed(tokens, positions=positions)  # (1, L, E)
    return layer.attention(x).weights[0]  # (H, L, L)


def moved_by_shuffling(reading):
    L = len(reading.tokens)
    order = torch.tensor([0, *(1 + torch.randperm(L - 2, generator=dice)), L - 1])
    old = reading.weights[:, order][:, :, order]  # the old weights in the new order
    new = weights_of([reading.tokens[j] for j in order])
    return ((new - old).abs().sum(dim=-1) / 2)[:, 1:-1]  # (H, words)


# %% ask-shuffle
predict("10/shuffled-words")

# %% see-shuffle
# %%answer 10/shuffled-words
dice = torch.Generator().manual_seed(0)
moved = over_words(moved_by_shuffling, readings).mean(dim=-1)  # (H,)
Table(["attention that moves"], heads, moved[None])

# %% the-swap [markdown]
# More than a tenth of the attention moves in three heads: 2, 5 and 4.
#
# The markers stayed in place. So do the heads that look at `[CLS]` look at this *token*, or at the first
# *position*? We let `[CLS]` and the first word exchange their position vectors, and we look at the rows of the other
# words.


# %% swap
def shares_of_two(reading, weights):
    return weights[:, 2:-1, :2].mT * len(reading.tokens)  # (H, 2, words)


def swapped(reading):
    positions = [1, 0, *range(2, len(reading.tokens))]
    return shares_of_two(reading, weights_of(reading.tokens, positions))


home = over_words(lambda reading: shares_of_two(reading, reading.weights), readings)
away = over_words(swapped, readings)
two_by_two = torch.cat([home.mean(dim=-1), away.mean(dim=-1)], dim=1).T  # (4, H)
names = ["[CLS] in 0", "first word in 1", "[CLS] in 1", "first word in 0"]
Table(names, heads, two_by_two)

# %% by-asker [markdown]
# Compare the last two rows. In heads 4, 8, 10 and 11 the position counts most: the first word, now in position 0, gets
# more than `[CLS]`. In heads 0, 1 and 9 the token counts most: `[CLS]` gets no less than it got at home. In heads 5, 6
# and 7 both matter.
#
# ## Does it matter which word asks?
#
# In lesson 5, in one head, “bank” selected words that go with banks. Does this hold for other ambiguous words, and in
# which heads? We measure the uniform shares that a clue gets on average. First the ambiguous word asks, and then the
# 5,000 words of lesson 5 ask in its place.

# %% askers
askers = layer.common_words(5000)


def clue_shares(word, sentence, clues):
    """Return what the clues get if the word asks, then if the askers do: (H, 1 + A)."""
    tokens = layer.tokens(sentence)
    rows = layer.attend_as([word, *askers], tokens, tokens.index(word))  # (H, 1 + A, S)
    is_clue = torch.tensor([token in clues.split() for token in tokens])
    return rows[..., is_clue].mean(dim=-1) * len(tokens)


rows = [clue_shares(*example) for example in examples.itertuples(index=False)]
by_sentence = torch.stack(rows)  # (46, H, 1 + A)
by_word, by_askers = by_sentence.mean(dim=0).split([1, len(askers)], dim=1)
Table(["shares of the clues"], heads, by_word.T)

# %% ask-askers
predict("10/when-others-ask")

# %% see-askers
# %%answer 10/when-others-ask
percentile = 100 * (by_askers < by_word).float().mean(dim=1)  # (H,)
names = ["the ambiguous words ask", "the middle asker", "percentile"]
middle = by_askers.median(dim=1).values
Table(names, heads, torch.stack([by_word[:, 0], middle, percentile]))

# %% draw-askers jupyter={"source_hidden": true}
# %%answer 10/when-others-ask
_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
sns.boxplot(by_askers.T.numpy(), whis=(0, 100), color="#c6dcef", linewidth=1, ax=ax)
look = {"color": "#c8500a", "ms": 8, "zorder": 5}
ax.plot(range(12), by_word, "D", label="the ambiguous words ask", **look)
ax.axhline(1, color="#555", ls="--", lw=1, label="uniform attention")
ax.set(xlabel="head", ylabel="uniform shares of the clues", ylim=(0, 4.1))
ax.set_title("In heads 1, 4, 8 and 10 it matters who asks")
ax.legend(loc="upper right", ncols=2)
show_figure(ax, "10.2")

# %% clues-are-content [markdown]
# In head 3 the middle asker gives the clues 1.68 shares, nearly as many as the ambiguous words do. Most words with a
# meaning of their own, unlike “the” and “in”, are clues here, and head 3 favours them whoever asks.
#
# The **percentile** says how many of the askers give the clues less than the ambiguous words do, in percent. It is
# highest in heads 1, 4, 8 and 10. In head 8 the clues get only half a share, but from other askers they get even less.
#
# And the arc from “bank” to “river”? Twelve heads and 46 sentences are 552 chances to find such an arc. By chance,
# fewer than ten askers would be ahead of the word about once (552 · 10 / 5,000).

# %% luck
ahead = (by_sentence[..., 1:] > by_sentence[..., :1]).sum(dim=-1)  # (46, H)
print("bank, river, head 4:", ahead[0, 4].item(), "askers ahead")
print("fewer than 10 askers ahead:", (ahead < 10).sum().item(), "of", ahead.numel())
in_first_tenth = (ahead < 500).sum(dim=0)[[1, 4, 8, 10]]
print("fewer than 500, in heads 1, 4, 8, 10:", in_first_tenth.tolist())

# %% what-arrives [markdown]
# It happens 15 times, so the arc is hardly a lucky pick. But the last line warns us: even in these four heads, the
# ambiguous word is among the first tenth of the askers in only half of the 46 sentences, or fewer.
#
# ## What reaches the output?
#
# What a weight adds to the output depends on the token that gets it. Head $h$ turns token $j$ into a value of 32
# features, and its 32 columns of the last matrix turn that back into 384 features. We call the result $u_{h,j}$. It is
# what the head would add if it gave token $j$ all of its weight:
#
# $$\text{output}_i = \text{bias of the last matrix} + \sum_h \sum_j \text{weight}_{h,i,j} \; u_{h,j}$$

# %% contributions
last = layer.attention.out_proj.weight  # its columns are the rows of last.T
columns_of = last.T.unflatten(0, (12, 32))  # (H, 32, E)


def projected_values(embedded):
    """Return u for vectors (S, E): (H, S, E)."""
    value = layer.attention.v_proj(embedded)  # (S, E)
    return split_heads(value, 12) @ columns_of  # (H, S, 32) @ (H, 32, E)


u = projected_values(reading.embedded)
output = (reading.weights @ u).sum(dim=0) + layer.attention.out_proj.bias
assert torch.allclose(output, reading.output, atol=1e-5)

# %% how-long [markdown]
# Now compare the length of $u$ for `[CLS]` with its mean length for the 304 words. A value is the product of a vector
# and a matrix, plus a bias. We try it without and with this bias, and we also put `[CLS]` into position 1.

# %% sink-lengths
words = torch.cat([reading.embedded[1:-1] for reading in readings])  # (304, E)
in_0, in_1 = (layer.embed(["[CLS]"], positions=[place])[0] for place in (0, 1))
bias = projected_values(torch.zeros(1, 384))  # (H, 1, E): what the bias alone adds


def length(vectors):
    return vectors.norm(dim=-1).mean(dim=-1)  # (H,)


of_word = length(projected_values(words))
without = length(projected_values(in_0) - bias) / length(projected_values(words) - bias)
with_bias = length(projected_values(in_0)) / of_word
elsewhere = length(projected_values(in_1)) / of_word
names = ["without the bias", "with the bias", "with it, in position 1"]
Table(names, heads, torch.stack([without, with_bias, elsewhere]))

# %% sink [markdown]
# Without the bias, $u$ is about a quarter as long for `[CLS]` as for a word in most heads. With the bias, only about a
# tenth is left in heads 6, 7, 8, 9 and 11. There the product of `[CLS]` and the matrix points nearly opposite to the
# bias, and the two cancel. In position 1 they do not. So training has made a near *zero*, for one token in one
# position.
#
# A token that gets a lot of weight but adds little is called an [**attention sink**](glossary.ipynb#attention-sink).
# Now no token may look at `[CLS]` any more, and the rest of each row is scaled up to sum to 1 again. What happens to
# what a head adds?

# %% ask-sink
predict("10/without-the-sink")


# %% see-sink
# %%answer 10/without-the-sink
def growth(reading):
    u, weights = projected_values(reading.embedded), reading.weights
    others = weights.index_fill(-1, torch.tensor(0), 0)  # without [CLS]
    others = others / others.sum(dim=-1, keepdim=True)
    return ((others @ u).norm(dim=-1) / (weights @ u).norm(dim=-1))[:, 1:-1]


def if_zero(reading):
    return 1 / (1 - reading.weights[:, 1:-1, 0])  # w is the weight of [CLS]


short, long = readings, joined(9)
medians = [over_words(f, texts) for texts in (short, long) for f in (growth, if_zero)]
names = ["short: grows by", "short: 1 / (1 - w)", "long: grows by", "long: 1 / (1 - w)"]
Table(names, heads, torch.stack([each.median(dim=-1).values for each in medians]))

# %% ablation [markdown]
# In head 9, what the head adds becomes 1.73 times as long (the median over the words). The reason is arithmetic. If a
# token with weight $w$ adds nothing, the others share $1 - w$, and taking it away multiplies what they add by exactly
# $1 / (1 - w)$. In the five heads with a near zero, this factor is right within a tenth. So a sink turns a head down:
# the weights of a row must sum to 1, but much of this 1 can go to a token that adds nothing.
#
# ## Take a head away
#
# To [**ablate**](glossary.ipynb#ablation) a head means to compute the output without what the head adds. How far does
# that move the output of a word, compared with its length? As a control, the head stays, but all of its weights become
# uniform.


# %% ablate
def changes(reading):
    u = projected_values(reading.embedded)
    added = reading.weights @ u  # (H, L, E)
    uniform = u.mean(dim=1, keepdim=True)  # (H, 1, E): all weights are 1 / S
    far = torch.stack([added.norm(dim=-1), (added - uniform).norm(dim=-1)])
    return (far / reading.output.norm(dim=-1))[..., 1:-1]  # (2, H, words)


removed, uniform = over_words(changes, readings).mean(dim=-1)  # (H,) each
bars = pd.DataFrame({"head removed": removed, "its weights uniform": uniform})
_, ax = plt.subplots(figsize=(7, 3), layout="constrained")
bars.plot.bar(ax=ax, rot=0, color=["#0b61a4", "#f2b48a"], width=0.8)
ax.set(xlabel="head", ylabel="change in the output", ylim=(0, 0.6))
ax.set_title("What a head adds, and what its choice adds")
show_figure(ax, "10.3")

# %% before-table [markdown]
# ## So what does a trained layer really look at?
#
# Here is what we have measured, with a row for each head.

# %% the-table
columns = {
    "moves when shuffled": moved,
    "[CLS] in position 0": two_by_two[0],
    "[CLS] in position 1": two_by_two[2],
    "clues": by_word[:, 0],
    "percentile": percentile,
    "head removed": removed,
    "weights uniform": uniform,
}
rows = [f"head {head}" for head in range(12)]
Table(rows, list(columns), torch.stack(list(columns.values()), dim=1))

# %% the-answer [markdown]
# Ten of its twelve heads look most at `[CLS]`, which is not a word. In some of them its position draws the weight, in
# some the token. In five of them it adds next to nothing, so a large weight there means that the head says little.
# Heads 2 and 5, and to some extent 4, look at positions among the words. In heads 1, 4, 8 and 10 it matters who asks:
# ambiguous words give their clues more, on average, than nearly all other words would.
#
# So the arc from *bank* to *river* in head 4 shows something real, but not that the model knows which bank is meant. In
# a first layer no third word can change this score (lesson 5), and the arc does not say what reaches the output. A
# [**residual connection**](glossary.ipynb#residual-connection) then adds the output to the input of the layer, and five
# more layers follow. In lesson 14, we follow *bank* through them.

# %% further-same-weights [markdown]
# ## Further
#
# ### The same weights, a different output
#
# In 31 of the 46 sentences, the word before the ambiguous word is *the* or *a*. We replace each by the other. For each
# sentence, we take the head in which the attention of the ambiguous word moves most, and we measure how far the output
# of this word moves, compared with its length. The table shows the smallest, the mean and the largest of the 31 values.

# %% the-or-a
other_article = {"the": "a", "a": "the"}
rows = []
for old, word in zip(readings, examples.word, strict=True):
    place = old.tokens.index(word)
    article = old.tokens[place - 1]
    if article in other_article:
        tokens = [*old.tokens[: place - 1], other_article[article], *old.tokens[place:]]
        new_output, new_weights = layer(tokens)
        attention = (new_weights[0] - old.weights)[:, place].abs().sum(dim=-1) / 2
        change = (new_output[0] - old.output)[place].norm()
        change = change / old.output[place].norm()
        rows.append([attention.max().item(), change.item()])
names = ["attention that moves", "output moves"]
pd.DataFrame(rows, columns=names).agg(["min", "mean", "max"]).round(2)

# %% the-or-a-reading [markdown]
# Little attention moves, and yet the output moves by a third of its length or more. Head 2 looks at the same position
# as before, but another word is there now. A weight says where a head takes something from, not what it takes.

# %% remember [markdown]
# ## What to remember
#
# - Count in uniform shares. In most heads, a weight falls as the text grows, because more tokens share the row.
# - Before you describe a head, measure it on many sentences, show all heads, and compare the result with what you would
#   see if nothing special were going on: with shuffled words, other words that ask, or uniform weights.
# - In our short sentences, ten heads of this layer look most at `[CLS]`, in some because of where it stands, in some
#   because of what it is. In heads 1, 4, 8 and 10, ambiguous words give their clues more, on average, than nearly all
#   other words would.
# - An attention sink gets a lot of weight and adds little. If it adds nothing, taking it away multiplies what the head
#   adds by $1 / (1 - w)$. So a head can turn itself down.
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
# Measure the sink in any sentence: for each head, how many uniform shares does the first token get from the words, on
# average? The first and the last token are markers and not words, so leave out their rows.
#
# <details><summary>Hint</summary>
#
# The weights are (H, queries, keys). Which rows remain, and which column? And what is one uniform share if there are
# $L$ tokens, markers included?
# </details>


# %% tags=["exercise"]
def sink_share(weights):
    """Weights (12, L, L) -> 12 numbers, in uniform shares."""


# %%
check_sink_share(sink_share)


# %% tags=["solution"] jupyter={"source_hidden": true}
def sink_share_solution(weights):
    L = weights.shape[-1]
    return weights[:, 1:-1, 0].mean(dim=-1) * L


check_sink_share(sink_share_solution)

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `careless` should return the output (L, 384) for a sentence as if the 32 features of one head were 0, which is what
# “head removed” means in Figure 10.3. But `careless` removes the wrong numbers, and it also leaves something behind.
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
# Short sentences help, and heads 1, 4 and 10 are good candidates. It can be done with “glass”, “tank” and “coach”, for
# example. By chance, a word is among the first 100 of 5,000 in one head out of 50, so at least one of twelve heads
# passes with a probability of $1 - 0.98^{12}$, about one in five. When we measured this, also requiring at least one
# uniform share, it happened in about one sentence in six.
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
# `average_attn_weights=False` if you want the heads one by one. The mean over the heads, which you get otherwise, shows
# none of them: for “bank” and “river”, it is far from what head 4 does. In Hugging Face Transformers, load a model with
# `attn_implementation="eager"` and call it with `output_attentions=True`. You get one tensor (N, H, L, L) for each
# layer. In the `attention_mask` of Transformers, 1 marks a real token.

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
# - The sentences with “it” in the explorer are those of Uszkoreit, 2017, [Transformer: A Novel Neural Network
#   Architecture](https://research.google/blog/transformer-a-novel-neural-network-architecture-for-language-understanding/).
#   Pairs of this kind are called Winograd schemas.

# %% next [markdown]
# ## Next
#
# [11 · Order: who tells attention where words stand?](11_order.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.** The layer and the explorer: 9. When a weight is large, and the portrait: 9. Positions and the swap: 8.
# The word that asks, and “it”: 10. What reaches the output, and the sink: 8. Heads removed or made uniform, and the
# table: 6. The exercises take another 40 minutes; set them, and “Further”, as homework.
#
# **Where a class stalls.** *A beautiful arc:* ask how many pictures the author looked at before choosing this one, and
# what another word would do in the same place. *“`[CLS]` is important, since everything looks at it”:* ask what the
# weight would be in a text of a hundred tokens, and what `[CLS]` adds. *“`[CLS]` is unimportant, since its $u$ is
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
# looks at other words, in the same places. *To the markers:* it does the same in the middle of a text of a hundred
# tokens.
#
# **3.** A head gives many uniform shares to the clues. What do you need to know before you say that it finds meanings?
# **What it gives them if other words ask.** *More decimals:* the question is not how exact the number is. *The mean
# over all heads:* it hides the head.
#
# **4.** A token gets most of the weight of a row, and its $u$ is short. What happens to the head’s contribution if you
# take the token away? **It gets longer.** *Nothing:* its weight goes to other tokens, and these contribute more. *It
# gets shorter:* what is lost is a short vector.
#
# **5.** The word “tired” is replaced by “wide”. What happens to the ratio of two other weights in a row of a first
# layer? **It stays the same.** *It is reversed:* that would fit the meaning, but no score between other tokens depends
# on “tired”. *It depends on the head:* all heads compute their scores from two tokens at a time.
# </details>
