# %% opening [markdown]
# # 10 · One real attention layer: what it looks at
#
# You may have seen a picture with an arc from *bank* to *river*. The caption says that the model connects the two
# words, or even that it knows which bank is meant. You can draw such a picture with the layer of this lesson, too. But
# each of its twelve heads has a row of weights for every token of every sentence. With so many pictures to choose from,
# you will find one for almost any story.
#
# So let us ask without choosing: **what does a trained layer really look at?** We measure all twelve heads on 46
# sentences, and for every result we ask what we would see if the head did nothing special. Then we take heads apart,
# because where a head looks is one question, and what reaches the output is another.
#
# **You need** lesson 5 (controls, uniform shares, and letting other words ask) and the layer of lesson 7.
#
# **You will be able to**
# - say when a weight is large,
# - test whether a head looks at a place, at a kind of word, or at words that go with the word that asks,
# - explain what an attention sink does,
# - remove a head or its weights, and measure how far the output moves.
#
# **Time:** 45 minutes in class, 80 on your own. You may skip the sections headed "Further".

# %% setup
import pandas as pd
import torch
from attnlab import data_path, split_heads
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import RealHeadsExplorer
from attnlab.plotting import plot_attention
from attnlab.pretrained import load_layer

lesson_setup()

# %% trained-layer [markdown]
# ## A trained layer
#
# all-MiniLM-L6-v2 is a small model with six layers. It was made from a larger model and then trained to give similar
# vectors to sentences with similar meanings. You know its first attention layer from lessons 2, 4 and 5. It is built
# like the layer of lesson 7, with 384 features and twelve heads, numbered from 0, but it adds a bias after each of its
# four matrices.
#
# A sentence is first cut into [**word pieces**](glossary.ipynb#word-piece), and `##` marks a piece that continues a
# word. The markers `[CLS]` and `[SEP]` are put before and after the sentence. Each token then enters as the sum of a
# vector for its piece and a vector for its position (and one that is the same for all tokens), and the sum is
# normalised. So no token knows anything about the others yet.

# %% read-sentence
layer = load_layer()
print(layer.tokens("The unhappiest crane"))
sat = layer.read("she sat on the bank of the river")
sat.embedded.shape, sat.weights.shape, sat.output.shape  # (L, E), (H, L, S), (L, E)

# %% experiment-heads [markdown]
# ### Your experiment: twelve maps
#
# Look through the twelve maps of this sentence, then type in sentences of your own. Which head draws the same picture,
# whatever you type?

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
# Now we turn to many sentences. Each of our 46 sentences contains one of 21 ambiguous words. The words that show the
# meaning of the ambiguous word were marked by one person as **clues**. We will need these later; first we ask which
# token gets the largest weight in each row. We leave out the rows of the two markers (`1:-1`), and the helper
# `over_words` joins what we measure for all words.

# %% examples
examples = pd.read_csv(data_path("ambiguous_words.csv"))
examples.iloc[[0, 1, 6, 8, 9, 10]]


# %% helpers jupyter={"source_hidden": true}
def over_words(measure, readings):
    """Join what a measure gives for the words of each reading: (..., words)."""
    return torch.cat([measure(one) for one in readings], dim=-1)


def joined(k):
    """Read the sentences in groups of k, each group as one text."""
    starts = range(0, len(examples) - k + 1, k)
    return [layer.read(" ".join(examples.sentence[i : i + k])) for i in starts]


def shuffled(reading):
    """Shuffle the words; return the old weights in the new order, and the new ones."""
    L = len(reading.tokens)
    order = torch.tensor([0, *(1 + torch.randperm(L - 2)), L - 1])  # markers stay
    new = layer([reading.tokens[j] for j in order]).weights[0]  # (H, L, S)
    return reading.weights[:, order][:, :, order], new


def less_of_words(reading):
    """Take from words, in random order, as much weight as [CLS] has, or all."""
    order = 1 + torch.randperm(len(reading.tokens) - 2)
    words = reading.weights[..., order]
    earlier = words.cumsum(dim=-1) - words
    taken = (reading.weights[..., :1] - earlier).clamp(min=0).minimum(words)
    return reading.weights.index_add(-1, order, -taken)


def agreement(x, y):
    """Return the fraction of pairs in which the larger x goes with the larger y."""
    x, y = x.flatten(), y.flatten()
    return (y[:, None] > y)[x[:, None] > x].float().mean()


# %% largest-weights
readings = [layer.read(sentence) for sentence in examples.sentence]
top = over_words(lambda one: one.weights[:, 1:-1].argmax(dim=-1), readings)
(top == 0).float().mean()  # [CLS] is token 0

# %% so-much [markdown]
# Together, the sentences contain 304 words. Across all twelve heads, 62% of the rows give their largest weight to
# `[CLS]`, which is not a word at all. In head 6, for example, it gets 0.41 on average.
#
# Our sentences are short: with the markers, they have 8.6 tokens on average. What happens in longer texts? We join
# three sentences at a time, and then nine, and read each group as one text.

# %% ask-length
predict("10/cls-in-longer-texts")

# %% see-length
# %%answer 10/cls-in-longer-texts
for texts in (joined(1), joined(3), joined(9)):
    length = sum(len(one.tokens) for one in texts) / len(texts)
    weight = over_words(lambda one: one.weights[:, 1:-1, 0], texts)[6].mean()
    print(f"{length:4.1f} tokens: [CLS] gets {weight:.2f} in head 6")

# %% draw-length jupyter={"source_hidden": true}
# %%answer 10/cls-in-longer-texts
import matplotlib.pyplot as plt

text_lengths, cls_weights, cls_shares = [], [], []
for texts in (joined(1), joined(3), joined(9)):
    text_lengths.append(sum(len(one.tokens) for one in texts) / len(texts))
    of_cls = [one.weights[:, 1:-1, 0] for one in texts]
    scaled = [w * len(one.tokens) for w, one in zip(of_cls, texts, strict=True)]
    cls_weights.append(torch.cat(of_cls, dim=1).mean(dim=1))
    cls_shares.append(torch.cat(scaled, dim=1).mean(dim=1))
fig, axes = plt.subplots(1, 2, figsize=(7.4, 3.3), layout="constrained")
for ax, lines in zip(axes, (cls_weights, cls_shares), strict=True):
    lines = torch.stack(lines)  # (3, H)
    ax.plot(
        text_lengths, lines[:, [*range(5), *range(7, 12)]], ".-", color="#9aa3ab", lw=1
    )
    ax.plot(text_lengths, lines[:, 5], "s-", color="#c8500a", lw=2.5, label="head 5")
    ax.plot(text_lengths, lines[:, 6], "o-", color="#0b61a4", lw=2.5, label="head 6")
    ax.set(xlabel="tokens", xlim=(0, 68), ylim=(0, None))
axes[0].set(ylabel="weight of [CLS]", title="The weight falls…")
axes[1].set(ylabel="uniform shares of [CLS]", title="…most shares change less")
axes[0].legend()
show_figure(fig, "10.1")

# %% in-uniform-shares [markdown]
# ## A portrait of the twelve heads
#
# A row has one unit of weight to give away, however many tokens it has. So to compare sentences of different lengths,
# we count in [**uniform shares**](glossary.ipynb#uniform-share): the weight times the number of tokens. A key gets a
# share of 1 if all keys get the same weight. Figure 10.1 shows the difference. In eleven of the twelve heads, the
# uniform shares of `[CLS]` change by less than a factor of two while the texts become seven times as long. (The
# exception is head 5, where they rise to 11.)
#
# The next figure shows where the words of the 46 sentences, read one at a time, look on average.


# %% portrait jupyter={"source_hidden": true}
def places(reading):
    word = torch.arange(1, len(reading.tokens) - 1)
    keys = [0 * word, 0 * word - 1, word, word - 1, word + 1]
    found = torch.stack([reading.weights[:, word, key] for key in keys])
    return found * len(reading.tokens)  # (5, H, words)


portrait = over_words(places, readings).mean(dim=-1)  # (5, H)
names = ["[CLS]", "[SEP]", "itself", "token before", "token after"]
_, ax = plt.subplots(figsize=(7.4, 3.2), layout="constrained")
heads = [str(head) for head in range(12)]
plot_attention(portrait, ax=ax, queries=names, keys=heads, vmax=9)
ax.set_aspect("auto")
ax.set(xlabel="head", ylabel="", title="Where words look, in uniform shares")
show_figure(ax, "10.2")

# %% by-place [markdown]
# ## Does a head look at a place?
#
# Head 2 gives nearly all of its weight to the previous *place*, whatever word is there. (Its 8.8 uniform shares are
# therefore roughly the number of tokens. Longer sentences count more in this average, because they have more words.) A
# head can also look at certain *words*, wherever they are. To tell the two apart, we shuffle the words of each sentence
# and read it again. If a head looks at words, every word still gives the same weight to the same words, wherever they
# are now. If it looks at places, the weight now goes to other words.
#
# We measure the **attention that moves**: half the sum of the absolute changes in a row (half, because what one token
# loses, another gains). It is 0 if no weight changes and 1 if the new row has nothing in common with the old one. (The
# helper `shuffled` returns the old weights, put into the new order, and the new ones.)

# %% ask-shuffle
predict("10/shuffled-words")


# %% see-shuffle
# %%answer 10/shuffled-words
def moved(old, new):
    return (new - old).abs().sum(dim=-1) / 2  # one number for each row


torch.manual_seed(0)
over_words(lambda one: moved(*shuffled(one))[:, 1:-1], readings).mean(dim=-1)  # (H,)

# %% by-asker [markdown]
# The markers stayed in place, so this test cannot say whether a head looks at `[CLS]` or at the first place. We
# therefore swap the position vectors of `[CLS]` and the first word, and we leave out the row of this word. Ten heads
# looked most at `[CLS]`. In all ten, the first word gets more in place 0 than in its own place, so they respond to the
# position. In four of them (4, 8, 10 and 11) it now even gets more than `[CLS]`.
#
# ## Does it matter which word asks?
#
# In lesson 5, in one head, "bank" selected words that go with banks. Does this hold for other ambiguous words, and in
# which heads? For each sentence, we measure the uniform shares that the ambiguous word gives to a clue, on average.
# Then we let the 5,000 words of lesson 5 ask in its place, with their own queries.
#
# This control is necessary. In most of these sentences, *every* word with a meaning of its own (unlike "the" and "in")
# is marked as a clue. So a head that favours such words will give a lot of weight to the clues, even if it does not
# care which word asks.

# %% askers
askers = layer.common_words(5000)


def clue_shares(word, sentence, clues):
    """Return what the clues get if the word asks, then if the askers do. (H, 1 + A)."""
    tokens = layer.tokens(sentence)
    rows = layer.attend_as([word, *askers], tokens, tokens.index(word))  # (H, 1 + A, S)
    is_clue = torch.tensor([token in clues.split() for token in tokens])
    return rows[..., is_clue].mean(dim=-1) * len(tokens)


each = [clue_shares(*example) for example in examples.itertuples(index=False)]
shares = torch.stack(each).mean(dim=0)  # the mean over the 46 sentences
shares[:, 0]  # (H,): the ambiguous words ask

# %% ask-percentile
predict("10/head-3-or-head-8")

# %% see-percentile
# %%answer 10/head-3-or-head-8
own, others = shares[:, :1], shares[:, 1:]  # (H, 1), (H, A)
percentile = 100 * (others < own).float().mean(dim=1)
percentile.round()

# %% draw-askers jupyter={"source_hidden": true}
# %%answer 10/head-3-or-head-8
import seaborn as sns

_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
sns.boxplot(others.T.numpy(), whis=(0, 100), color="#c6dcef", linewidth=1, ax=ax)
look = {"color": "#c8500a", "ms": 8, "zorder": 5}
ax.plot(range(12), own, "D", label="the ambiguous words ask", **look)
ax.axhline(1, color="#555", ls="--", lw=1, label="uniform attention")
ax.set(xlabel="head", ylabel="uniform shares of the clues")
ax.set_title("What the clues get")
ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)
show_figure(ax, "10.3")

# %% third-word [markdown]
# Two numbers describe a head here: the share that the clues get, and the percentage of askers that give them less (the
# percentile). Heads 1, 4 and 10 rank high on both, but only on average: in each of these heads, the ambiguous word
# beats 90% of the askers in only 18 of the 46 sentences. (By chance alone, it would do so in about five.) And the arc
# from "bank" to "river"? In head 4, fewer than ten of the 5,000 askers would give "river" more than "bank" gives it.
# Twelve heads and 46 sentences are 552 chances, so we would expect about one such case (552 · 10/5,000). There are 15,
# so the arc is probably not a lucky pick.
#
# ## Can "it" find the animal?
#
# Can a head also find what a word refers to? Take a famous pair of sentences: "The animal didn't cross the street
# because it was too *tired*", and the same sentence with *wide* as its last word. In the first sentence, "it" means the
# animal, and in the second it means the street.

# %% ask-it
predict("10/tired-or-wide")

# %% see-it
# %%answer 10/tired-or-wide
for last in ("tired", "wide"):
    one = layer.read(f"the animal didn't cross the street because it was too {last}")
    animal, street = one.weights[6, 10, [2, 8]]  # "it" is token 10
    print(f"{last}: {animal:.3f} and {street:.3f}, ratio {animal / street:.3f}")

# %% what-arrives [markdown]
# ## What reaches the output?
#
# What a weight adds to the output depends on the token that gets it. Head $h$ turns token $j$ into a value of 32
# features, and its 32 columns of the last matrix turn that back into 384 features. We call the result $u_{h,j}$. It is
# what the output would get if head $h$ gave token $j$ all of its weight. The output is a constant plus the weighted sum
# of these vectors over all heads and tokens:
#
# $$\text{output}_i = \text{constant} + \sum_h \sum_j \text{weight}_{h,i,j} \; u_{h,j}$$
#
# The constant comes from the bias of the values and that of the last matrix. It reaches every output in full, wherever
# a head looks, because the weights of a row sum to 1. So we leave it aside.


# %% contributions
def projected_values(reading):
    """Return u, without the biases: (H, S, E)."""
    value = reading.embedded @ layer.attention.v_proj.weight.T  # (S, E)
    last = layer.attention.out_proj.weight  # its columns are the rows of last.T
    columns = last.T.unflatten(0, (12, 32))  # (H, 32, E)
    return split_heads(value, 12) @ columns  # (H, S, 32) @ (H, 32, E)


u = projected_values(sat)
constant = layer.attention.out_proj(layer.attention.v_proj.bias)
sums = (sat.weights @ u).sum(dim=0) + constant  # (L, E)
assert torch.allclose(sums, sat.output, atol=1e-5)
lengths = u.norm(dim=-1)  # (H, S)
pd.DataFrame(lengths[[4, 6, 9]], ["head 4", "head 6", "head 9"], sat.tokens).round(1)

# %% sink [markdown]
# In these three heads, as in most, the $u$ of `[CLS]` is much shorter than that of any word. A token that gets a lot of
# weight but contributes little is called an [**attention sink**](glossary.ipynb#attention-sink), and you met one in
# lesson 4. A sink is often described as a place for attention that a head does not need elsewhere. So can we do without
# it?
#
# We take `[CLS]` away: no token may look at it any more. Then we compare the *contribution* of each head to each word,
# $\sum_j \text{weight}_{h,i,j} \, u_{h,j}$, before and after. As a control, we leave `[CLS]` alone and take as much
# weight from words as `[CLS]` has. (The helper `less_of_words` takes them in random order.) In both cases, the rest of
# the row is scaled up to sum to 1 again.

# %% ask-sink
predict("10/without-the-sink")


# %% see-sink
# %%answer 10/without-the-sink
def change_of_length(reading, take):
    fewer = take(reading)
    fewer = fewer / fewer.sum(dim=-1, keepdim=True)  # rows sum to 1 again
    before, after = (w @ projected_values(reading) for w in (reading.weights, fewer))
    return (after.norm(dim=-1) / before.norm(dim=-1))[:, 1:-1]  # (H, words)


def without_cls(reading):
    return reading.weights.index_fill(-1, torch.tensor(0), 0)


torch.manual_seed(1)
no_cls = over_words(lambda one: change_of_length(one, without_cls), readings)
less = over_words(lambda one: change_of_length(one, less_of_words), readings)
table = {
    "without [CLS]": no_cls.mean(dim=-1),
    "same weight taken from words": less.mean(dim=-1),
}
pd.DataFrame(table).round(2)

# %% ablation [markdown]
# ## Take a head away
#
# To [**ablate**](glossary.ipynb#ablation) a head means to compute the output without the head's contribution. Figure
# 10.4 shows how far that moves the output of a word, divided by the length (norm) of that output. But a head might
# contribute much the same even if it did not look anywhere in particular. So the figure also shows the control of
# lesson 5: the head stays, but all of its weights become uniform. Then its *choice* is lost, and its sink as well.


# %% ablate
def changes(reading):
    u = projected_values(reading)
    added = reading.weights @ u  # (H, L, E)
    plain = u.mean(dim=1, keepdim=True)  # (H, 1, E): all weights uniform
    far = torch.stack([added.norm(dim=-1), (added - plain).norm(dim=-1)])
    return (far / reading.output.norm(dim=-1))[..., 1:-1]  # (2, H, words)


change = over_words(changes, readings)  # (2, H, 304)

# %% draw-ablation jupyter={"source_hidden": true}
_, ax = plt.subplots(figsize=(7, 3), layout="constrained")
x = torch.arange(12)
ax.bar(x - 0.2, change[0].mean(dim=-1), 0.38, color="#0b61a4", label="head removed")
ax.bar(
    x + 0.2,
    change[1].mean(dim=-1),
    0.38,
    color="#f2b48a",
    hatch="//",
    label="its weights uniform",
)
ax.set(xticks=range(12), xlabel="head", ylabel="change in the output", ylim=(0, 0.5))
ax.set_title("What a head adds, and what its choice adds")
ax.legend(loc="upper right", ncols=2)
show_figure(ax, "10.4")

# %% moving [markdown]
# In heads 2, 5 and 9, making the weights uniform moves the output 0.90, 0.87 and 0.82 times as far as removing the
# head. In heads 5 and 9 this is partly due to the lost sink: if `[CLS]` keeps its weight and the other tokens share the
# rest, the ratios fall to 0.68 and 0.58. In head 2 the ratio falls only to 0.82, so an average cannot replace what this
# head contributes.
#
# ## Does the output follow the attention?
#
# Making the weights uniform moves more attention in some rows than in others. If the weights matter, the output should
# move further there. Twelve heads and 304 words make 3,648 rows.

# %% ask-moved
predict("10/more-attention-more-output")


# %% see-moved
# %%answer 10/more-attention-more-output
def to_uniform(reading):
    uniform = torch.full_like(reading.weights, 1 / len(reading.tokens))
    return moved(reading.weights, uniform)[:, 1:-1]  # (H, words)


attention = over_words(to_uniform, readings)  # (H, 304)
within = [agreement(attention[head], change[1, head]) for head in range(12)]
agreement(attention, change[1]), torch.stack(within)

# %% draw-moved jupyter={"source_hidden": true}
# %%answer 10/more-attention-more-output
cloud = pd.DataFrame(
    {
        "head": torch.arange(12).repeat_interleave(304),
        "attention that moves": attention.flatten(),
        "output moves": change[1].flatten(),
    }
)
grid = sns.relplot(
    cloud,
    x="attention that moves",
    y="output moves",
    col="head",
    col_wrap=4,
    s=9,
    height=1.6,
    aspect=1.15,
    color="#0b61a4",
    linewidth=0,
)
grid.set(xlim=(0, 1), ylim=(0, 0.65), xticks=[0, 0.5], xlabel="", ylabel="")
grid.set_titles("head {col_name}")
grid.figure.supxlabel("attention that moves", fontsize=11)
grid.figure.supylabel("output moves", fontsize=11)
show_figure(grid.figure, "10.5")

# %% the-answer [markdown]
# ## So what does a trained layer look at?
#
# On average over our sentences, ten of the layer's twelve heads look at `[CLS]` more than at any other place that we
# tried, and this keeps their contributions short. Among the words of these short sentences, heads 2 and 5, and to some
# extent head 4, choose by position. In heads 1, 4, 8 and 10, the ambiguous words give their clues more, on average,
# than nearly all other words would. Head 4 does both, since a score depends on the words and on their positions. So the
# arc from "bank" to "river" in head 4 shows something real. But in no head can a third word change the score of
# "river", so the arc does not show that the model knows which bank is meant.
#
# Do the weights explain the output? The output is computed from them, so it usually moves further where more attention
# moves. But how far depends on the vectors $u$: in head 2 nearly the same amount of attention moves in every row, and
# the output moves by 0.17 to 0.55. To know whether something matters, remove or replace it and measure the output. For
# the whole model, measure how well it does what it was trained to do.
#
# And this is only one of six layers. A [**residual connection**](glossary.ipynb#residual-connection) adds the layer's
# output to its input, and for our words the sum still points nearly in the direction of the input, with a cosine of
# 0.94 on average. No picture in this lesson shows what the next five layers make of it.

# %% further-copy [markdown]
# ## Further: is it the original?
#
# Our layer is a copy, made from a file of numbers. A copy can run, draw plausible maps and still be wrong, for example
# because a matrix is transposed. So we stored the weights and outputs of the original model for 13 sentences, and we
# compare ours with them. The numbers in our file are kept in float16, so a difference of 0.002 is allowed. Then we
# transpose the last matrix of a second copy. It is square, so no error is raised.

# %% compare-copy
import json

from attnlab.data import load_tensors
from safetensors import safe_open

stored = load_tensors("minilm_reference.safetensors")
with safe_open(data_path("minilm_reference.safetensors"), "pt") as file:
    original_texts = list(json.loads(file.metadata()["sentences"]))


def off_by(some_layer):
    """Return the largest differences from the original, of weights and of outputs."""
    copies = [some_layer.read(text) for text in original_texts]
    pairs = [
        (
            (one.weights - stored[f"weights.{n}"][0]).abs().max(),
            (one.output - stored[f"output.{n}"]).abs().max(),
        )
        for n, one in enumerate(copies)
    ]
    return torch.tensor(pairs).amax(dim=0)


slip = load_layer()
slip.attention.out_proj.weight.copy_(layer.attention.out_proj.weight.T)
print("our copy differs by less than 0.002:", bool((off_by(layer) < 0.002).all()))
print("the second copy's attention weights do, too:", bool(off_by(slip)[0] < 0.002))
print(f"but its output differs by up to {off_by(slip)[1]:.1f}")

# %% further-same-weights [markdown]
# With the transposed matrix, every weight is still correct, and so is every picture drawn from the weights. Only the
# output shows the mistake.
#
# ## Further: the same weights, a different output
#
# In 31 of the 46 sentences, the word before the ambiguous word is "the" or "a". We replace each by the other. For each
# sentence, we take the head in which the attention of the ambiguous word moves most, and we measure how far the output
# of this word moves, relative to its length. The table shows the smallest and the largest of the 31 values.

# %% the-or-a
swap = {"the": "a", "a": "the"}
found = []
for one, word in zip(readings, examples.word, strict=True):
    place = one.tokens.index(word)
    before = one.tokens[place - 1]
    if before in swap:
        swapped = [*one.tokens[: place - 1], swap[before], *one.tokens[place:]]
        new = layer(swapped)
        by = (new.output[0, place] - one.output[place]).norm()
        in_heads = moved(one.weights, new.weights[0])[:, place]  # (H,)
        found.append([in_heads.max(), by / one.output[place].norm()])
columns = ["attention that moves", "output moves"]
pd.DataFrame(found, columns=columns).astype(float).agg(["min", "max"]).round(2)

# %% the-or-a-reading [markdown]
# Little attention moves, 0.06 on average, and yet the output moves by a third of its length or more. Head 2 looks at
# the same place as before, but another word is there now. The weights say where a head takes something from, and not
# what it takes.

# %% remember [markdown]
# ## What to remember
#
# - Count in uniform shares. In most heads, a weight falls as the sentence grows, because more tokens share the row. (A
#   head such as head 2, which looks at a place, keeps its weight, and its shares grow.)
# - Before you describe a head, measure it on many sentences, show all heads, and compare the result with what you would
#   see if nothing special were going on: with shuffled words, other words that ask, or uniform weights.
# - In our short sentences, some heads of this layer (2 and 5, and to some extent 4) look at particular places other
#   than those of the markers. In heads 1, 4, 8 and 10, ambiguous words give their clues more, on average, than nearly
#   all other words would. In ten heads, words look most at `[CLS]`, and all ten respond to its position.
# - An attention sink gets a lot of weight but contributes little. Yet in short sentences it keeps the head's
#   contributions short: without it, they become longer.
# - In a first layer, the ratio of two weights in the same row does not depend on any third word, as long as all words
#   keep their places.
# - The output follows the weights only in part, since the vectors $u$ matter too. To know what matters, remove or
#   replace something and measure the output.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (4 minutes)
#
# In a head of a first layer, "it" gives 0.12 of its weight to "animal" and 0.08 to "street". Then the last word of the
# sentence is replaced by another word, and "animal" gets 0.09. How much does "street" get now?
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
# `careless` should return the output (L, 384) for a sentence as if the 32 features of one head were 0. Setting them to
# 0 also removes the bias of this head's values, which we kept for Figure 10.4. But `careless` removes the wrong
# numbers, and it also leaves something behind. Write `careful`, which does neither, and try it on a freshly loaded
# layer. (The parameters of `load_layer()` do not require gradients, so you can change them in place.)
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
# Short sentences help, and heads 1, 4 and 10 are good candidates. It can be done with "glass", "tank" and "coach", for
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
# ### 5 · Explain ★ (4 minutes)
#
# An article shows head 4 on "she sat on the bank of the river", with a thick arc from "bank" to "river". It says: "The
# model knows which bank is meant." Answer in three sentences, and then compare your answer with ours.
#
# <details><summary>An answer</summary>
#
# This is one head of twelve, in which "bank" does give more weight to words such as "river" than most other words would
# give in its place. But its score for "river" would be the same in a sentence about a robbery, as long as both words
# keep their places. And an arc shows where a head looks, not what arrives in the output, and not what the other five
# layers do with it.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `layer.attention.to_torch()` returns an `nn.MultiheadAttention` with the same parameters. Pass
# `average_attn_weights=False` if you want the heads one by one. The mean over the heads, which you get otherwise, shows
# none of them: for "bank" and "river", it is far from what head 4 does. In Hugging Face Transformers, load a model with
# `attn_implementation="eager"` and call it with `output_attentions=True`. You get one tensor (N, H, L, L) for each
# layer. In the `attention_mask` of Transformers, 1 marks a real token.

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
# - The sentences with "it" are those of Uszkoreit, 2017, [Transformer: A Novel Neural Network
#   Architecture](https://research.google/blog/transformer-a-novel-neural-network-architecture-for-language-understanding/).
#   Pairs of this kind are called Winograd schemas.

# %% next [markdown]
# ## Next
#
# [11 · Order: who tells attention where words stand?](11_order.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.** The layer and the explorer: 8. When a weight is large, and the portrait: 8. Places: 5. The word that
# asks, and "it": 10. What reaches the output, and the sink: 7. Heads removed or made uniform, and the answer: 7. Set
# "Further" as homework.
#
# **Where a class stalls.** *A beautiful arc:* ask how many pictures the author looked at before choosing this one, and
# what another word would do in the same place. *"`[CLS]` is important, since everything looks at it":* ask what the
# weight would be in a text of a hundred tokens, and then let the class guess what happens without `[CLS]`. *"`[CLS]` is
# unimportant, since its $u$ is short":* the same experiment corrects this as well. *"Then what should I look at
# instead?"* Remove a head or a token, and measure how well the whole model does its task.
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
# **4.** A token gets most of the weight of a row, and its $u$ is short. What happens to the head's contribution if you
# take the token away? **It usually gets longer.** *Nothing:* its weight goes to other tokens, and these contribute
# more. *It gets shorter:* what is lost is a short vector.
#
# **5.** The word "tired" is replaced by "wide". What happens to the ratio of two other weights in a row of a first
# layer? **It stays the same.** *It is reversed:* that would fit the meaning, but no score between other tokens depends
# on "tired". *It depends on the head:* all heads compute their scores from two tokens at a time.
# </details>
