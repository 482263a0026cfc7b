# %% opening [markdown] above="**What does a trained"
# # 10 · One real attention layer: what it looks at
#
# You may have seen a picture with an arc from *bank* to *river*.
# The caption says that the model knows which bank is meant.
# The layer of this lesson can draw it, too.
# But each of its twelve heads has a row of weights for every token of every sentence,
# and among so many pictures you will find one for almost any story.
#
# So let us not pick a picture.
# **What does a trained layer really look at**?
# We measure all twelve heads on 46 sentences,
# and for every result we ask what we would see if the head did nothing special.
#
# **You need:** [lesson 5](05_what_does_bank_mean_here.ipynb) (controls, uniform shares,
# and letting other words ask) and the layer of
# [lesson 7](07_multi_head_reshaping_without_scrambling.ipynb).
#
# **You will be able to:** say when a weight is large,
# test whether a head looks at a position or at certain words, explain what an attention sink does,
# and remove a head or its choice and measure how far the output moves.
#
# **Time:** 50 minutes in class, or 90 on your own with the exercises.
# “Further” takes another 5.

# %% setup
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
import torch
from attnlab import Table, data_path, split_heads
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import RealHeadsExplorer
from attnlab.models.pretrained import load_layer

lesson_setup()

# %% trained-layer [markdown]
# ## A trained layer
#
# all-MiniLM-L6-v2 is a small model with six layers.
# You know its first attention layer from lessons 2, 4 and 5.
# It is built like the layer of lesson 7 and has 384 features and twelve heads,
# which we number from 0.
# In addition, a bias follows each of its four matrices.
#
# A sentence is first cut into [**word pieces**](glossary.ipynb#word-piece),
# and `##` marks a piece that continues a word.
# The markers `[CLS]` and `[SEP]` are put before and after the sentence.
# Each token enters as the sum of a vector for its piece and a vector for its position, normalised.
# So no token knows anything about the others yet,
# and a score depends on two tokens and their positions only, as in lesson 5.

# %% read-sentence
layer = load_layer()
print(layer.tokens("The unhappiest crane"))
sat = layer.read("she sat on the bank of the river")
sat.embedded.shape, sat.weights.shape, sat.output.shape  # (L, E), (H, L, S), (L, E)

# %% experiment-heads [markdown] below="Head 4 shows the"
# ### Your experiment: twelve maps
#
# In each small map, the rows are the tokens that ask and the columns those that are asked.
# Head 4 shows the arc from *bank* to *river*.
# Look through the other maps, and then type in sentences of your own.
# Which head draws the same picture every time?

# %% explore-heads
RealHeadsExplorer(ask=False)

# %% many-sentences [markdown] below="Each sentence contains one"
# <details><summary>The answer</summary>
#
# Head 2 does: every token after the first gives nearly all of its weight to the token before it.
# </details>
#
# ## When is a weight large?
#
# One sentence proves little, so we turn to 46.
# Each sentence contains one of 21 ambiguous words.
# The words that show its meaning were marked by one person as **clues**.

# %% examples
examples = pd.read_csv(data_path("ambiguous_words.csv"))
examples.iloc[[0, 1, 6, 8, 9, 10]]

# %% weight-text [markdown] below="So how much weight"
# Many of the maps have a dark first column.
# So how much weight do the words give to `[CLS]`, which is not a word at all?


# %% weight-of-cls
def weight_of_cls(readings):
    weights = [reading.weights[:, 1:-1, 0] for reading in readings]  # (H, words) each
    return torch.cat(weights, dim=1).mean(dim=1)  # (H,)


readings = [layer.read(sentence) for sentence in examples.sentence]
heads = [str(head) for head in range(12)]
Table(["weight of [CLS]"], heads, weight_of_cls(readings)[None])

# %% so-much [markdown] below="How many tokens do"
# In head 6 it is 0.41.
# Is that a lot?
# Our sentences are short.
# To see what happens in longer texts, we join three sentences at a time, and then nine,
# without full stops, and read each group as one text.
# How many tokens do such texts have on average, markers included?


# %% join
def in_groups(size):
    """Join the sentences in groups, and read each group as one text."""
    starts = range(0, len(examples) - size + 1, size)
    return [layer.read(" ".join(examples.sentence[i : i + size])) for i in starts]


groups = [in_groups(size) for size in (1, 3, 9)]
lengths = [sum(len(text.tokens) for text in group) / len(group) for group in groups]
by_length = [f"{length:.1f} tokens" for length in lengths]
by_length

# %% ask-length
predict("10/cls-in-longer-texts")


# %% see-length
# %%answer 10/cls-in-longer-texts
def draw(values, rows, title, number, **look):
    """Draw a table with one column for each head, in which dark is large."""
    _, ax = plt.subplots(figsize=(9, 1.1 + 0.4 * len(rows)), layout="constrained")
    usual = {"annot": True, "fmt": ".2f", "cmap": "Blues", "vmin": 0, "cbar": False}
    sns.heatmap(values, yticklabels=rows, linewidths=1, ax=ax, **(usual | look))
    ax.set(xlabel="head", title=title)
    ax.tick_params(axis="y", labelrotation=0)
    return show_figure(ax, number)


values = torch.stack([weight_of_cls(group) for group in groups])  # (3, H)
draw(values, by_length, "The weight of [CLS] falls as the text grows", "10.1")

# %% in-uniform-shares [markdown] above="In texts of nine" answers="10/cls-in-longer-texts"
# In texts of nine sentences, the weight of `[CLS]` in head 6 falls to 0.06, about a seventh.
# Its score does not depend on the number of tokens,
# but seven times as many tokens now share the row.
# **So a weight says little unless you know the number of tokens.**
#
# To compare texts, we count in [**uniform shares**](glossary.ipynb#uniform-share):
# the weight times the number of tokens.
# A key has a share of 1 if all keys get the same weight.


# %% shares-of-cls
def shares_of_cls(readings):
    shares = [text.weights[:, 1:-1, 0] * len(text.tokens) for text in readings]
    return torch.cat(shares, dim=1).mean(dim=1)  # (H,)


values = torch.stack([shares_of_cls(group) for group in groups])
title = "In most heads, the uniform shares of [CLS] change much less"
draw(values, by_length, title, "10.2", fmt=".1f", vmax=4)

# %% short-only [markdown] above="In head 6, `[CLS]`" answers="10/cls-in-longer-texts"
# In head 6, `[CLS]` gets 3.6 to 3.9 shares at every length.
# In head 5 its shares grow fourfold: this head gives low scores to distant words,
# but not to `[CLS]`, so a longer text takes little from it.
# **From here on we measure the short sentences, and the results hold for them only.**

# %% where-do-words-look [markdown]
# ## Where do words look?
#
# For each word, we ask which token gets its largest weight: `[CLS]`, `[SEP]`, the word itself,
# the token before or after it, or some other word.
# If a word chose at random, each of the five named tokens would be chosen about one time in nine.
# We leave out the first word of each sentence, because the token before it is `[CLS]`.


# %% portrait
def where_to(reading):
    """Return which kind of token gets the largest weight of each word: (6, H, words)."""
    last = len(reading.tokens) - 1  # the position of [SEP]
    i = torch.arange(2, last)  # all words but the first
    j = reading.weights[:, i].argmax(dim=-1)  # (H, words)
    kinds = [j == 0, j == last, j == i, j == i - 1, (j == i + 1) & (j < last)]
    some_other = ~torch.stack(kinds).any(dim=0)
    return torch.stack([*kinds, some_other])


portrait = torch.cat([where_to(reading) for reading in readings], dim=-1)
portrait = portrait.float().mean(dim=-1)  # (6, H)
names = ["[CLS]", "[SEP]", "itself", "token before", "token after", "some other word"]
draw(portrait, names, "In eight heads, most words look most at [CLS]", "10.3")

# %% by-position [markdown] above="In eight heads, most"
# In eight heads, most words give their largest weight to `[CLS]`.
# In head 2 every word looks most at the token before it.
# In head 3, about half of the words look most at some other word.
#
# ## Does a head look at a position?
#
# Head 2 seems to look at the previous *position*.
# Or does it look at certain *words*?
# To tell the two apart, we shuffle the words of each sentence and read it again.
# If a head looks at words, every word still gives the same weight to the same words.
# If it looks at positions, the weight now goes to other words.
#
# We measure the **attention that moves**: half the sum of the absolute changes in a row,
# because what one token loses, another gains.
# It is 1 if the new row has nothing in common with the old one.


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
moved = [moved_by_shuffling(reading, generator) for reading in readings]
moved = torch.cat(moved, dim=1).mean(dim=1)  # (H,)
title = "Attention follows positions in heads 2 and 5, and a little in head 4"
draw(moved[None], ["attention that moves"], title, "10.4", vmax=1)

# %% by-asker [markdown] above="In head 2 most"
# In head 2 most of the attention moves, in head 5 a third, and in head 4 a seventh.
# In the other nine heads it is at most 0.07.
# **So heads 2 and 5, and to some extent 4, look at positions among the words.**
# About `[CLS]`, which stayed in its place, this says nothing.
#
# ## Does it matter which word asks?
#
# In lesson 5, in one head, “bank” gave its clues more weight than almost any other word would have
# given them.
# Does this hold for other ambiguous words, and in which heads?
# In each sentence, we measure how many uniform shares the ambiguous word gives to a clue,
# on average over the clues.
#
# A large share can have two reasons: it may matter that this particular word asks,
# or the head may give such clues large shares whichever word asks.
# To tell them apart, we let the other 20 ambiguous words ask in its place.
# This control is strict: they, too, are nouns with several meanings, each with clues of its own.


# %% clue-shares
def clue_shares(word, sentence, clues, askers):
    """Return what the clues get if each asker stands in the place of the word: (H, A)."""
    tokens = layer.tokens(sentence)
    rows = layer.attend_as(askers, tokens, tokens.index(word))  # (H, A, S)
    is_clue = torch.tensor([token in clues.split() for token in tokens])  # (S,)
    return rows[..., is_clue].mean(dim=-1) * len(tokens)


ambiguous = list(examples.word.unique())
from_word, from_others = [], []
for word, sentence, clues in examples.values:
    others = [other for other in ambiguous if other != word]
    from_word.append(clue_shares(word, sentence, clues, [word]))
    from_others.append(clue_shares(word, sentence, clues, others))
from_word, from_others = torch.stack(from_word), torch.stack(from_others)
own, of_others = from_word.mean(dim=(0, 2)), from_others.mean(dim=(0, 2))  # (H,)
from_word.shape, from_others.shape  # (46, H, 1), (46, H, 20)

# %% draw-askers jupyter={"source_hidden": true}
_, ax = plt.subplots(figsize=(9, 4), layout="constrained")
ax.vlines(range(12), of_others, own, color="#e6b392", lw=4)
ax.plot(of_others, "o", color="#7fb2d9", ms=11, label="the other ambiguous words")
ax.plot(own, "D", color="#c8500a", ms=8, label="the ambiguous word itself")
for head in range(12):
    up = own[head] >= of_others[head]
    for shares, colour, above in ((own, "#a03f08", up), (of_others, "#2c6ea3", not up)):
        y = shares[head] * (1.12 if above else 0.89)
        look = {"va": "bottom" if above else "top", "ha": "center", "fontsize": 9}
        look["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        ax.text(head, y, f"{shares[head]:.2f}", color=colour, **look)
ax.axhline(1, color="#999", ls="--", lw=1, zorder=0)
ax.set(xlabel="head", ylabel="uniform shares of the clues", yscale="log")
ax.set(ylim=(0.2, 4), xticks=range(12), yticks=[0.25, 0.5, 1, 2, 4])
ax.set(yticklabels=["0.25", "0.5", "1", "2", "4"])
ax.minorticks_off()
ax.set_title(
    "In heads 1, 4, 8 and 10, the clues get about twice as much from their own word"
)
ax.legend(loc="upper right", ncols=2)
show_figure(ax, "10.5")

# %% two-reasons [markdown] above="In heads 1, 4" below="How many askers are"
# In heads 1, 4, 8 and 10, ambiguous words give their clues about twice as much as the others do.
# This is an average over the sentences, and in head 8,
# even twice as much is only half a uniform share.
# Head 7 does the opposite: there the clues get less from their own word.
#
# The clues get most in head 3, about two uniform shares,
# but they get as much from the other ambiguous words.
# **A large share alone does not show that a head has found a clue.**
#
# ### Was the arc a lucky pick?
#
# Twelve heads and 46 sentences give 552 chances to find an arc such as the one from *bank* to
# *river*.
# A second control shows how rare such arcs are: in each case,
# the 5,000 common words of lesson 5 ask in the place of the ambiguous word.
# We call them **askers**.
# How many askers are ahead of the ambiguous word, that is, give the clues more than it does?
# Counting them takes half a minute.

# %% luck
common = layer.common_words(5000)
from_common = []
for word, sentence, clues in examples.values:
    from_common.append(clue_shares(word, sentence, clues, common))
from_common = torch.stack(from_common)  # (46, H, 5000)


def askers_ahead(shares):
    """Count the askers that give the clues more: shares (46, H, 1) -> (46, H)."""
    return (from_common > shares).sum(dim=-1)


ahead = askers_ahead(from_word)
few = ahead < 10
print("bank, river, head 4:", ahead[0, 4].item(), "askers ahead")
print("fewer than ten ahead:", few.sum().item(), "of", few.numel())
print("in each head:", few.sum(dim=0).tolist())

# %% lucky-cases [markdown] above="In 15 of the"
# In 15 of the 552 cases, fewer than ten of the 5,000 askers are ahead.
# The arc from *bank* to *river* is one of them.
# How many of these cases could be luck?
# The first control can tell.

# %% ask-another-word
predict("10/another-word")

# %% see-another-word
# %%answer 10/another-word
of_each = []
for k in range(20):  # another word for each sentence, twenty times
    ahead_of_other = askers_ahead(from_others[:, :, [k]])
    of_each.append((ahead_of_other < 10).sum().item())
print("fewer than ten ahead of another word:", of_each)
print("on average:", sum(of_each) / 20)

# %% what-arrives [markdown] above="So luck may explain" answers="10/another-word"
# With another ambiguous word in the place of ours, fewer than two such cases are left on average.
# So luck may explain one or two of the 15 cases, but not all.
# Thirteen of the 15 lie in heads 1, 4, 8 and 10.

# %% what-reaches-the-output [markdown] below="The output is a"
# ## What reaches the output?
#
# So far we have looked at weights alone.
# What a weight adds to the output depends on the token that gets it.
# Head $h$ turns token $j$ into a value of 32 features,
# and 32 columns of the last matrix turn this value back into 384 features.
# We call the result $u_{h,j}$.
# It is what the head would add if it gave token $j$ all of its weight.
# The output is a weighted sum of all vectors $u_{h,j}$, plus a bias.
#
# $$\text{output}_i = \text{bias of the last matrix} + \sum_h \sum_j \text{weight}_{h,i,j} \; u_{h,j}$$

# %% contributions
blocks = layer.attention.out_proj.weight.chunk(12, dim=1)  # (E, 32) for each head


def projected_values(x):
    """Return u for vectors (S, E): (H, S, E)."""
    values = split_heads(layer.attention.v_proj(x), 12)  # (H, S, 32)
    return torch.stack([v @ block.T for v, block in zip(values, blocks, strict=True)])


u = projected_values(sat.embedded)
output = (sat.weights @ u).sum(dim=0) + layer.attention.out_proj.bias
assert torch.allclose(output, sat.output, atol=1e-5)

# %% how-long [markdown] below="How many times as"
# `[CLS]` always stands at position 0, so in each head it always has the same $u$.
# How many times as long as this is the $u$ of a word, on average?

# %% sink-lengths
words = torch.cat([reading.embedded[1:-1] for reading in readings])  # (words, E)
of_words = projected_values(words).norm(dim=-1).mean(dim=-1)  # (H,)
times_as_long = of_words / u[:, 0].norm(dim=-1)
title = "In five heads, a word has a much longer u than [CLS]"
rows = ["u of a word / u of [CLS]"]
draw(times_as_long[None], rows, title, "10.6", fmt=".1f", vmin=1)

# %% sink [markdown] above="In heads 6 to"
# In heads 6 to 9 and 11, a word’s $u$ is 8 to 12 times as long.
#
# A token that gets a lot of weight but adds little is called an
# [**attention sink**](glossary.ipynb#attention-sink).
# A weight of 0.44 on `[CLS]` in head 9 adds about as much as a weight of 0.44 / 8.8, or 0.05,
# on a word.
# What is such a token good for?
# Let us take it away: no token may look at `[CLS]` any more.

# %% ask-sink
predict("10/without-the-sink")


# %% see-sink
# %%answer 10/without-the-sink
def grown(reading):
    """Return by what factor each head adds more without [CLS]: measured, expected."""
    u, weights = projected_values(reading.embedded), reading.weights
    others = weights[..., 1:]  # (H, L, S - 1)
    left = others.sum(dim=-1)  # (H, L): 1 minus the weight of [CLS]
    without = (others @ u[:, 1:]).norm(dim=-1) / left
    measured = without / (weights @ u).norm(dim=-1)
    return torch.stack([measured, 1 / left])[..., 1:-1]  # (2, H, words)


factors = torch.cat([grown(reading) for reading in readings], dim=-1)
factors = factors.median(dim=-1).values  # over the words
names = ["length without [CLS] / with it", "1 / (1 - weight of [CLS])"]
title = "In the five heads with a sink, 1 / (1 - w) predicts the growth"
draw(factors, names, title, "10.7", vmin=1, vmax=2)

# %% the-arithmetic [markdown] above="In the five heads" answers="10/without-the-sink"
# It grows: in head 9, what the head adds becomes 1.73 times as long.
# The reason is arithmetic.
# If a token with weight $w$ adds nothing, the others share $1 - w$.
# Take it away, and they share 1, so what they add is multiplied by exactly $1 / (1 - w)$.
# In the five heads with a short $u$ of `[CLS]`, the two rows nearly agree.
#
# **So a sink lets a head contribute less:** the weights of a row must sum to 1,
# but much of this 1 can go to a token that adds little.

# %% take-a-head-away [markdown]
# ## Take a head away
#
# To [**ablate**](glossary.ipynb#ablation) a head means to compute the output without what the head
# adds.
# How far does that move the output of a word, compared with the length of this output?
# As a control, the head stays and so does the weight of `[CLS]`,
# but the other tokens share the rest equally.
# So the head no longer chooses among them.


# %% ablate
def changes(reading):
    u, weights = projected_values(reading.embedded), reading.weights
    added = weights @ u  # (H, L, E)
    to_cls = weights[..., :1]  # (H, L, 1)
    equal = (1 - to_cls) * u[:, 1:].mean(dim=1, keepdim=True)
    without_choice = to_cls * u[:, :1] + equal
    moves = torch.stack([added.norm(dim=-1), (added - without_choice).norm(dim=-1)])
    return (moves / reading.output.norm(dim=-1))[..., 1:-1]  # (2, H, words)


ablated = torch.cat([changes(reading) for reading in readings], dim=-1).mean(dim=-1)
names = ["head removed", "other weights equal"]
title = "Equal weights move the output less than removing the head does"
draw(ablated, names, title, "10.8", vmax=0.5)  # (2, H)

# %% before-table [markdown] above="Removing head 4 moves"
# Removing head 4 moves the output most, by 0.46 of its length,
# but equal weights move it by only 0.17.
# Much of what head 4 adds, then, does not depend on where it looks.
# Part of it is the same for every sentence, because the bias of the values is always added in full.
# **A map shows what a head chooses, but a head can add a lot without choosing.**
#
# ## So what does a trained layer really look at?
#
# Here are our measures, row by row.
# White is 0, except in the two rows of ratios: there it is 1,
# which means that the two lengths or shares are equal.

# %% the-table
names = ["attention that moves in a shuffle", "words that look most at [CLS]"]
names += ["length of u: a word / [CLS]", "clues: ambiguous word / others"]
names += ["output moves: head removed", "output moves: other weights equal"]
rows = [moved, portrait[0], times_as_long, own / of_others, *ablated]
table = torch.stack(rows)
special = table.clone()
special[2:4] -= 1  # the ratios
special /= special.amax(dim=1, keepdim=True)
look = {"annot": table, "cmap": "RdBu", "vmin": -1, "vmax": 1}
draw(special, names, "Different measures single out different heads", "10.9", **look)

# %% the-answer [markdown] above="Head 4 finds a"
# - **In eight of the twelve heads, most words give their largest weight to `[CLS]`**,
#   which is not a word.
#   In heads 6, 7, 8, 9 and 11 its $u$ is so short that a large weight adds no more than a small one
#   on a word.
# - **Heads 2 and 5**, and to some extent 4, **look at positions** among the words.
# - **In heads 1, 4, 8 and 10 it matters who asks:**
#   ambiguous words give their own clues about twice as much as other ambiguous words do,
#   on average.
#   Head 7 does the opposite, and head 3 gives the clues much in both cases.
# - **What a head adds depends only in part on where it looks.**
#   In every head, equal weights move the output less than removing the head does.
#   Head 2 is the one whose choice matters most.
#
# So the arc from *bank* to *river* in head 4 shows something real,
# but not that the model knows which bank is meant.
# In a first layer, a score depends only on two tokens and their positions.
# If a third word is replaced, the sum that the softmax divides by may change,
# but the ratio of two other weights in the row stays the same.
# Head 4 prefers *river* to *she* by the same factor, whatever the rest of the sentence says.
# Head 4 finds a clue, but it does not decide on a meaning.
#
# All this is one layer of one model.
# A [**residual connection**](glossary.ipynb#residual-connection) adds the output of the layer to
# its input, and five more layers follow.
# In lesson 14, we follow *bank* through them.

# %% further-same-weights [markdown]
# ## Further
#
# ### The same weights, a different output
#
# In 31 of the 46 sentences, the word before the ambiguous word is *the* or *a*.
# We replace each by the other.
# We measure two things for each head: how much of the attention of the ambiguous word moves,
# and how far the vector that the head adds to this word moves,
# compared with the length of the output.
# The table shows the means over the 31 sentences.

# %% the-or-a
exchange = {"the": "a", "a": "the"}
moves = []
for reading, word in zip(readings, examples.word, strict=True):
    i = reading.tokens.index(word)
    tokens = [*reading.tokens]
    tokens[i - 1] = exchange.get(tokens[i - 1], tokens[i - 1])
    if tokens != reading.tokens:
        weights, u = weights_for(tokens), projected_values(layer.embed(tokens)[0])
        attention = (weights - reading.weights)[:, i].abs().sum(dim=-1) / 2  # (H,)
        added = weights @ u - reading.weights @ projected_values(reading.embedded)
        change = added[:, i].norm(dim=-1) / reading.output[i].norm()
        moves.append(torch.stack([attention, change]))
names = ["attention that moves", "what is added moves"]
title = "In head 2, other words arrive with the same weights"
draw(torch.stack(moves).mean(dim=0), names, title, "10.10", vmax=0.5)

# %% the-or-a-reading [markdown]
# At most 0.04 of the attention of a head moves,
# and yet what head 2 adds moves by 0.40 of the length of the output.
# Head 2 looks at the same position as before, but another word is there now.
# A weight says where a head takes something from, not what it takes.

# %% remember [markdown]
# ## What to remember
#
# - Count in uniform shares.
#   In most heads, a weight falls as the text grows, because more tokens share the row.
# - Before you describe a head, measure it on many sentences, show all heads,
#   and compare the result with what you would see if nothing special were going on:
#   with shuffled words, with other words that ask, or with equal weights.
# - In our short sentences, most words give their largest weight to `[CLS]` in eight of the twelve
#   heads of this layer.
# - An attention sink gets a lot of weight and adds little.
#   If it adds nothing, taking it away multiplies what the head adds by $1 / (1 - w)$.
#   So the larger $w$ is, the less the head adds.
# - In a first layer, a score depends on two tokens and their positions.
#   A third word can change a weight, but not this score.
# - A weight says where a head takes something from, not what it takes.
#   To know what matters, remove or replace something and measure the output.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (4 minutes)
#
# In a head of a first layer, “it” gives 0.12 of its weight to “animal” and 0.08 to “street”.
# Then the last word of the sentence is replaced by another word, and “animal” gets 0.09.
# How much does “street” get now?
#
# <details><summary>Hint</summary>
#
# Which scores have changed?
# A weight is $e$ to the power of its score, divided by the sum of these powers over the row.
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
# Measure the sink in a padded batch: for each head,
# how many uniform shares does the first token get from the words, on average?
# The sentence has $n$ tokens, the first and the last of which are markers.
# Padding follows them, up to $S$ tokens, and no token attends to it.
# Only the rows of words count.
#
# <details><summary>Hint</summary>
#
# The weights are (H, queries, keys).
# Which rows remain, and which column?
# And among how many tokens can a row divide its weight?
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
# `careless` should return the output
# (L, 384) for a sentence as if the 32 features of one head were 0,
# which is what “head removed” means in Figure 10.8.
# But `careless` removes the wrong numbers, and it also leaves something behind.
# Write `careful`, which does neither.
# Call `load_layer()` again before you try either of them,
# because `careless` changes the layer that it gets.
# (The parameters of `load_layer()` do not require gradients, so you can change them in place.)
#
# <details><summary>Hint</summary>
#
# An <code>nn.Linear</code> stores one row for each output feature.
# Which part of the matrix do the 32 features of a head meet?
# And what does <code>layer</code> look like after the call?
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
# Find an ambiguous word that is not among the 21 of the lesson, and two sentences,
# one for each of two of its meanings.
# Choose a clue and a head for each sentence.
# In that head, your word must give the clue at least one uniform share,
# and fewer than 100 of the 5,000 askers may give it more in the same place.
#
# You have twelve heads to choose from, and as many sentences as you like,
# so keep count of what you try.
# (`clue_shares(word, sentence, clue, askers)` gives the shares from any list of askers,
# such as `common`.)
# Suppose that your word were an asker like any other.
# How often would at least one of twelve heads pass the test by chance,
# if the heads were independent?
#
# <details><summary>Hint</summary>
#
# Short sentences help, and heads 1, 4 and 10 are good candidates.
# For the chance: in how many of 50 heads is a word picked at random among the first 100 of 5,000
# askers?
# And how often does it fail in all twelve?
# </details>
#
# <details><summary>The chance, and words that work</summary>
#
# In one head, the word passes with a probability of $1/50$,
# so at least one of twelve heads passes with a probability of $1 - 0.98^{12}$, about one in five.
# Words such as “glass”, “tank” and “coach” work.
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
# In a language model, the first token gets 0.8 of the weight in many heads.
# An engineer blocks it in every row, and the text that the model writes becomes useless.
# She concludes: “The first token holds information that the model needs.”
# What else could have happened, and how would you find out which it was?
# Answer in three or four sentences, and then compare your answer with ours.
#
# <details><summary>An answer</summary>
#
# The first token may be a sink that adds nothing.
# Then blocking it makes what such a head adds $1 / (1 - 0.8) = 5$ times as long,
# and the later layers have never seen anything like it.
# To find out, let the first token keep its weight, but set what it adds, its $u$,
# to 0 in these heads.
# If the text stays good, the model needed the token only as a place for weight; if not,
# it needed something that the token holds.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `layer.attention.to_torch()` returns an `nn.MultiheadAttention` with the same parameters.
# Pass `average_attn_weights=False` if you want the heads one by one.
# By default you get the mean over the heads, which hides what each of them does.
# In Hugging Face Transformers, load a model with `attn_implementation="eager"` and call it with
# `output_attentions=True`.
# You get one tensor (N, H, L, L) for each layer.

# %% torch-weights
theirs = layer.attention.to_torch().eval()
x = sat.embedded[None]  # (N, L, E)
mean = theirs(x, x, x)[1]  # (N, L, S)
by_head = theirs(x, x, x, average_attn_weights=False)[1]  # (N, H, L, S)
assert torch.allclose(by_head[0], sat.weights, atol=1e-5)
print(f"bank to river: mean {mean[0, 5, 8]:.2f}, head 4 {by_head[0, 4, 5, 8]:.2f}")

# %% sources [markdown]
# ## Sources
#
# - Wang et al., [MiniLM](https://arxiv.org/abs/2002.10957), 2020, and Reimers and Gurevych,
#   [Sentence-BERT](https://arxiv.org/abs/1908.10084), 2019:
#   how a small model is made from a larger one, and how it learns to compare sentences.
#   Our model, [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2),
#   started from [every second layer](https://huggingface.co/nreimers/MiniLM-L6-H384-uncased) of a
#   model with twelve.
# - Clark et al., [What Does BERT Look At?](https://arxiv.org/abs/1906.04341), 2019:
#   heads that look at the previous token, or at `[SEP]` if, as the authors suppose,
#   they have nothing else to do.
# - Xiao et al.,
#   [Efficient Streaming Language Models with Attention Sinks](https://arxiv.org/abs/2309.17453),
#   2023: models that fail when the sink is removed,
#   and in which the place of the first tokens matters more than what they are.
# - Kobayashi et al., [Attention is Not Only a Weight](https://arxiv.org/abs/2004.10102), 2020:
#   measuring the length of what reaches the output.
# - Michel et al., [Are Sixteen Heads Really Better than One?](https://arxiv.org/abs/1905.10650),
#   2019: heads removed, and the effect measured on the task of the model.
# - Jain and Wallace, [Attention is not Explanation](https://arxiv.org/abs/1902.10186), 2019,
#   and the reply by Wiegreffe and Pinter,
#   [Attention is not not Explanation](https://arxiv.org/abs/1908.04626), 2019.
#   The reply objects to weights that are replaced for each example,
#   independently of the rest of the model; it proposes uniform weights as a baseline,
#   but with a model that is trained with them.
#   Ours is not.
# - Olsson et al., [In-context Learning and Induction Heads](https://arxiv.org/abs/2209.11895),
#   2022: heads that look at the previous token, in models that predict the next word.

# %% next [markdown]
# ## Next
#
# [11 · Order: who tells attention where words stand?](11_order.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.**
# The layer and the explorer: 10.
# When a weight is large, and where words look: 12.
# Positions: 3.
# The word that asks: 10.
# What reaches the output, and the sink: 8.
# Heads removed or made uniform, and the table: 7.
# The exercises take another 40 minutes; set them, and “Further”, as homework.
#
# **Where a class stalls.**
# *A beautiful arc:* ask how many pictures the author looked at before choosing this one,
# and what another word would do in the same place.
# *“`[CLS]` is important, since everything looks at it”:*
# ask what the weight is in a text of 62 tokens, and what `[CLS]` adds.
# *“`[CLS]` is unimportant, since its $u$ is short”:* let the class guess what happens without it.
# *“Then what should I look at instead?”*
# Remove a head or a token, and measure how well the whole model does its task.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# A token gets a weight of 0.1.
# Is that a lot?
# **It depends on the number of tokens.**
# *No, 0.1 is a small weight:* in a text of 60 tokens it is six uniform shares.
# *Yes:* in a sentence of five tokens it is half of one.
#
# **2.**
# Head 2 looks at the previous token.
# What does it respond to?
# **To positions.**
# *To words:* after a shuffle it looks at other words, in the same places.
# *To the markers:* they stay in place when the words are shuffled,
# and yet most of its attention moves.
#
# **3.**
# A head gives many uniform shares to the clues.
# What do you need to know before you say that it finds meanings?
# **What it gives them if other words ask.**
# *More decimals:* the question is not how exact the number is.
# *The mean over all heads:* it hides the head.
#
# **4.**
# A token gets most of the weight of a row, and its $u$ is short.
# What happens to the head’s contribution if you take the token away?
# **It gets longer.**
# *Nothing:* its weight goes to other tokens, and these contribute more.
# *It gets shorter:* what is lost is a short vector.
#
# **5.**
# “sat” is replaced by “swam” in *she sat on the bank of the river*.
# What happens in a first layer to the ratio of the weights that “bank” gives to “river” and to
# “she”?
# **It stays the same.**
# *It grows:* that would fit the meaning, but neither score depends on “sat”.
# *It depends on the head:* all heads compute a score from two tokens.
# </details>
