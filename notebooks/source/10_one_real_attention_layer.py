# %% opening [markdown] above="**What does a trained" end="**What does a trained"
# # 10 · One real attention layer: what it looks at
#
# You may have seen a picture with an arc from *bank* to *river*.
# The caption says that the model knows which bank is meant.
# The layer of this lesson gives the same picture.
# But each of its twelve heads has a row of weights for every token of every sentence,
# and one row picked from so many proves little.
#
# **What does a trained layer really look at**?
# We measure all twelve heads on 46 sentences,
# and for every result we ask what we would see if the head did nothing special.
#
# **You need:** [lesson 5](05_what_does_bank_mean_here.ipynb) (controls,
# and letting other words ask) and the layer of
# [lesson 7](07_multi_head_reshaping_without_scrambling.ipynb).
#
# **You will be able to:** say where the heads of a trained layer look,
# test whether it matters which word asks, explain what an attention sink does,
# and say what an arc can and cannot show.
#
# **Time:** 45 minutes in class, or 85 on your own with the exercises.
# “Further” takes another 10.

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

# %% trained-layer [markdown] below="Here is the arc"
# ## A trained layer
#
# all-MiniLM-L6-v2 is a small model with six layers.
# Its first attention layer is built like the layer of lesson 7, with a bias after each matrix.
# It has 384 features and twelve heads, numbered from 0.
#
# A sentence is first cut into [**word pieces**](glossary.ipynb#word-piece),
# and `##` marks a piece that continues a word.
# The markers `[CLS]` and `[SEP]` are put before and after the sentence.
# Each token enters as the sum of a vector for its piece, one for its position and a constant one,
# normalised.
# So, as in lesson 5, no token knows anything about the others yet.
#
# Here is the arc from *bank* to *river*: the row of *bank* in head 4.
# The wider a line, the larger the weight.

# %% read-sentence
layer = load_layer()
print(layer.tokens("The unhappiest crane"))
sat = layer.read("she sat on the bank of the river")
print(sat.embedded.shape, sat.weights.shape)  # (L, E), (H, L, S)
bank = sat.tokens.index("bank")
_, ax = plt.subplots(figsize=(4, 3.6), layout="constrained")
for place, token in enumerate(sat.tokens):
    ax.text(-0.05, place, token, ha="right", va="center")
    ax.text(1.05, place, token, ha="left", va="center")
    ax.plot([0, 1], [bank, place], color="#1f5fa8", lw=10 * sat.weights[4, bank, place])
ax.set(xlim=(-0.5, 1.5), ylim=(9.5, -0.5))
ax.axis("off")
show_figure(ax, "10.1")

# %% what-it-looks-at [markdown] below="In *she sat on"
# ## Does the arc know which bank is meant?
#
# In *she sat on the bank of the river*, “bank” gives “river” a weight of 0.71 in head 4.
# A swimmer is even more likely to be at a river than somebody who sits.

# %% ask-swam
predict("10/she-swam")

# %% see-swam
# %%answer 10/she-swam
for verb in ("sat", "swam"):
    row = layer.read(f"she {verb} on the bank of the river").weights[4, -5]  # of "bank"
    print(f"{verb:4} river {row[-2]:.3f}  she {row[1]:.5f}")

# %% what-the-verb-does [markdown] above="Whichever token stands there" answers="10/she-swam"
# With *swam*, the weight of *river* falls from 0.71 to 0.65, and that of *she* by the same factor.
# A score depends on two tokens and their positions, so only that of the verb has changed:
# *swam* has a larger one than *sat*.
# Whichever token stands there, “river” gets 230 times as much as “she”.
# **So the arc does not show that the model knows which bank is meant.**

# %% experiment-heads [markdown] below="Which head draws the"
# ## Where do words look?
#
# ### Your experiment: twelve maps
#
# In each small map, the tokens of the rows ask, and those of the columns are asked.
# The arc of Figure 10.1 is one dark cell in the map of head 4.
# Look through the other maps, then type in your own sentences.
# Which head draws the same picture every time?

# %% explore-heads
RealHeadsExplorer(ask=False)

# %% many-sentences [markdown] below="Each sentence was written"
# <details><summary>The answer</summary>
#
# In short sentences, head 2 does:
# every token after the first gives nearly all its weight to the token before it.
# So do heads 7 and 11, nearly: almost every word gives its largest weight to `[CLS]`.
# </details>
#
# One sentence proves little, so we turn to 46.
# Each sentence was written for one of 21 ambiguous words, and six were written for “bank”.
# The words that show its meaning were marked by one person as *clues*.

# %% examples
examples = pd.read_csv(data_path("ambiguous_words.csv"))
ambiguous = list(examples.word.unique())
readings = [layer.read(sentence) for sentence in examples.sentence]
examples.iloc[[0, 1, 6, 8, 9, 10]]

# %% where-do-words-look [markdown] below="We leave out the"
# For each word, we ask which token gets its largest weight: `[CLS]`, `[SEP]`, the word itself,
# the token before or after it, or some other word.
# If a word chose at random, it would choose `[CLS]` about one time in nine.
# We leave out the first word of each sentence, because the token before it is `[CLS]`.


# %% portrait
def where_to(reading):
    """Return which kind of token gets the largest weight of each word: (6, H, words)."""
    last = len(reading.tokens) - 1  # the position of [SEP]
    i = torch.arange(2, last)  # all words but the first
    j = reading.weights[:, i].argmax(dim=-1)  # (H, words)
    kinds = [j == 0, j == last, j == i, j == i - 1, (j == i + 1) & (j < last)]
    return torch.stack([*kinds, ~torch.stack(kinds).any(dim=0)])


portrait = torch.cat([where_to(reading) for reading in readings], dim=-1)
portrait = portrait.float().mean(dim=-1)  # (6, H)
names = ["[CLS]", "[SEP]", "itself", "token before", "token after", "some other word"]
plt.figure(figsize=(9, 3.2), layout="constrained")
ax = sns.heatmap(portrait, yticklabels=names, annot=True, fmt=".2f", cmap="Blues")
ax.set(xlabel="head")
show_figure(ax, "10.2")

# %% by-asker [markdown] above="In eight heads, most" below=["In lesson 5, our", "In lesson 5, our"]
# In eight heads, most words give their largest weight to `[CLS]`.
# In head 2 every word looks most at the token before it, so we call this head the *neighbour*.
#
# ## Does it matter which word asks?
#
# In lesson 5, our water and money words differed clearly in four heads.
# Does this hold for other ambiguous words than “bank”, and in which heads?
# In each sentence, we measure how many [**uniform shares**](glossary.ipynb#uniform-share) the
# ambiguous word gives to a clue: the weight times the number of tokens, on average over the clues.
#
# A large share can have two reasons: this particular word asks,
# or the head gives such clues large shares whichever word asks.
# To tell them apart, we let the other 20 ambiguous words ask in its place.


# %% clue-shares
def clue_shares(word, sentence, clues, askers):
    """Return what the clues get if each asker stands in the place of the word: (H, A)."""
    tokens = layer.tokens(sentence)
    rows = layer.attend_as(askers, tokens, tokens.index(word))  # (H, A, S)
    is_clue = torch.tensor([token in clues.split() for token in tokens])  # (S,)
    return rows[..., is_clue].mean(dim=-1) * len(tokens)


from_word, from_others = [], []
for word, sentence, clues in examples.values:
    place = ambiguous.index(word)
    others = ambiguous[place + 1 :] + ambiguous[:place]  # in a circle
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
for column in range(12):
    up = own[column] >= of_others[column]
    for shares, colour, above in ((own, "#a03f08", up), (of_others, "#2c6ea3", not up)):
        y = shares[column] * (1.12 if above else 0.89)
        look = {"va": "bottom" if above else "top", "ha": "center", "fontsize": 9}
        look["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        ax.text(column, y, f"{shares[column]:.2f}", color=colour, **look)
ax.axhline(1, color="#999", ls="--", lw=1, zorder=0)
ax.set(xlabel="head", ylabel="uniform shares of the clues", yscale="log")
ax.set(ylim=(0.2, 4), xticks=range(12), yticks=[0.25, 0.5, 1, 2, 4])
ax.set(yticklabels=["0.25", "0.5", "1", "2", "4"])
ax.minorticks_off()
ax.legend(loc="upper right", ncols=2)
show_figure(ax, "10.3")

# %% two-reasons [markdown] above="In heads 1, 4" below="How many askers are"
# In heads 1, 4, 8 and 10, ambiguous words give their clues on average 1.7 to 2.2 times as much as
# the others do.
# Without “bank”, it is 1.6 to 2.3 times.
# In 31 to 37 of all 46 sentences, they give more than most of the others; chance gives about 22.
# These are the four heads of lesson 5, and we call them the *clue finders*.
# The clues get most in head 3, about two uniform shares,
# but they get as much from the other ambiguous words.
# **A large share alone does not show that a head has found a clue.**
#
# ### Was the arc a lucky pick?
#
# Twelve heads and 46 sentences give 552 chances to find such an arc.
# Now *askers* take the place of the ambiguous word:
# roughly the 5,000 most common words with at least three letters, but none of the 21.
# How many askers are ahead of the ambiguous word, that is, give the clues more than it does?
# We list all cases in which fewer than ten are ahead and the clues get at least one uniform share.
#
# As a control, we repeat the count twenty times, each time with a wrong ambiguous word.

# %% luck
common = [word for word in layer.common_words(5000) if word not in ambiguous]
shares = [clue_shares(*example, common) for example in examples.values]
from_common = torch.stack(shares)  # (46, H, askers)


def few_ahead(shares):
    """Mark where the clues get at least one share, and fewer than ten are ahead: (46, H)."""
    ahead = (from_common > shares).sum(dim=-1)
    return (ahead < 10) & (shares[:, :, 0] >= 1)


for i, head in few_ahead(from_word).nonzero().tolist():
    is_ahead = from_common[i, head] > from_word[i, head]  # (askers,)
    ahead = [common[asker] for asker in is_ahead.nonzero()]
    print(f"{examples.word[i]} to {examples.clues[i]} in head {head}:", *ahead)
print("others:", [few_ahead(from_others[:, :, [k]]).sum().item() for k in range(20)])

# %% what-arrives [markdown] above="With another ambiguous word"
# These are 14 of the 552 cases, 12 of them in the clue finders.
# With another ambiguous word there are 0 to 5, on average 1.7, so luck may explain a few of the 14,
# but not all.
#
# The arc from *bank* to *river* in head 4 is among them.
# Ahead of *bank* are *south, deep, headed, bodies, salt* and *boats*.
# *Headed* has little to do with river banks, and yet its arc is wider.
# So the arc shows something real: **head 4 finds a clue, but it does not decide on a meaning.**

# %% what-reaches-the-output [markdown] below="`[CLS]` always stands at"
# ## What reaches the output?
#
# What a weight adds to the output depends on the token that gets it.
# Head $h$ turns token $j$ into a value of 32 features,
# and 32 columns of the last matrix turn this value back into 384 features.
# We call the result $u_{h,j}$.
# It is what the head would add if it gave token $j$ all of its weight.
# The output is a weighted sum of all vectors $u_{h,j}$, plus a bias.
#
# `[CLS]` always stands at position 0, so in each head it has the same $u$.
# How much weight does it get from a word (the median)?
# And how much longer is the $u$ of a word, on average?

# %% contributions
blocks = layer.attention.out_proj.weight.chunk(12, dim=1)  # (E, 32) for each head


def projected_values(x):
    """Return u for vectors (S, E): (H, S, E)."""
    values = split_heads(layer.attention.v_proj(x), 12)  # (H, S, 32)
    return torch.stack([v @ block.T for v, block in zip(values, blocks, strict=True)])


u = projected_values(sat.embedded)
output = (sat.weights @ u).sum(dim=0) + layer.attention.out_proj.bias
assert torch.allclose(output, sat.output, atol=1e-5)

words = torch.cat([reading.embedded[1:-1] for reading in readings])  # (words, E)
longer = projected_values(words).norm(dim=-1).mean(dim=-1) / u[:, 0].norm(dim=-1)
to_cls = torch.cat([reading.weights[:, 1:-1, 0] for reading in readings], dim=1)
w = to_cls.median(dim=1).values  # (H,)
heads = [f"head {head}" for head in range(12)]
Table(["weight of [CLS]", "u: word / [CLS]"], heads, torch.stack([w, longer]))

# %% sink [markdown] above="In heads 6 to" below=["Let us take it", "Let us take it"]
# In heads 6 to 9 and 11, a word’s $u$ is on average 8 to 12 times as long as that of `[CLS]`.
# A token that gets much weight and adds little is called an
# [**attention sink**](glossary.ipynb#attention-sink), so we call these five the *sink heads*.
# What is it good for?
# Let us take it away: no token may look at `[CLS]`.

# %% ask-sink
predict("10/without-the-sink")


# %% see-sink
# %%answer 10/without-the-sink
def ratio_of_lengths(reading):
    """Compare what heads add to words without and with [CLS]: (H, words)."""
    u = projected_values(reading.embedded)
    may_attend = torch.arange(len(reading.tokens))[None] > 0  # not to [CLS]: (1, S)
    weights = layer.attention(reading.embedded[None], attn_mask=may_attend).weights[0]
    without, before = (weights @ u)[:, 1:-1], (reading.weights @ u)[:, 1:-1]
    return without.norm(dim=-1) / before.norm(dim=-1)


ratios = torch.cat([ratio_of_lengths(reading) for reading in readings], dim=1)
ratio = ratios.median(dim=1).values  # (H,)

# %% draw-growth jupyter={"source_hidden": true}
# %%answer 10/without-the-sink
_, ax = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
is_sink = longer > 5  # 8 or more in the sink heads, less than 5 in the others
ax.scatter(w, ratio, c=is_sink, cmap="coolwarm", s=70)
for head in range(12):
    ax.text(w[head] + 0.008, ratio[head] - 0.03, head)
curve = torch.linspace(0, 0.46, 50)
ax.plot(curve, 1 / (1 - curve), color="gray")
ax.set(xlabel="w of [CLS]", ylabel="length without / with [CLS]")
show_figure(ax, "10.4")

# %% the-arithmetic [markdown] above="It grows: in head" answers="10/without-the-sink"
# It grows: in head 9, what the head adds becomes 1.73 times as long (the median).
# If a token with weight $w$ adds nothing, the others share $1 - w$.
# Without it they share 1, so what they add is multiplied by exactly $1 / (1 - w)$.
# The curve of Figure 10.4 shows this factor, and the five sink heads lie near it.
#
# **So a sink lets a head contribute less:** the weights of a row must sum to 1,
# but much of this 1 can go to a token that adds little.
# Still, the sink heads add about nine tenths as much as heads 0, 1 and 10.

# %% the-answer [markdown] end="In eight heads, most words look"
# ## What the layer looks at
#
# In eight heads, most words look most at `[CLS]`, which in the five *sink heads* adds little.
# The *neighbour* looks at the token before.
# In the four *clue finders* the clues get more on average from their own word than from others,
# and in head 3 they get much from all.
# Head 8 is both a sink head and a clue finder; heads 0 and 5 have no name.
#
# All this is one layer of one model, in 46 sentences of 7 to 12 tokens.
# A [**residual connection**](glossary.ipynb#residual-connection) adds the output of the layer to
# its input, and five more layers follow.
# In lesson 14, we follow *bank* through them.

# %% further-shuffle [markdown]
# ## Further
#
# ### Does a head look at a position?
#
# Does the neighbour look at the previous *position*, or at certain *words*?
# To tell the two apart, we shuffle the words of each sentence and read it again.
# If a head looks at words, every word still gives the same weight to the same words.
# If it looks at positions, the weight now goes to other words.
#
# The markers stay where they are, so we leave them out:
# we divide each row by what its words get together.
# Then we measure the *attention that moves*: half the sum of the absolute changes in a row.
# It is 1 if the new row has nothing in common with the old one.


# %% shuffle
def among_words(weights):
    weights = weights[:, 1:-1, 1:-1]  # without the markers
    return weights / weights.sum(dim=-1, keepdim=True)


def moved_by_shuffling(reading, generator):
    words = reading.tokens[1:-1]
    order = torch.randperm(len(words), generator=generator).tolist()
    old = among_words(reading.weights)[:, order][:, :, order]  # in the new order
    shuffled = layer.embed(["[CLS]", *[words[i] for i in order], "[SEP]"])
    new = among_words(layer.attention(shuffled).weights[0])
    return (new - old).abs().sum(dim=-1) / 2  # (H, words)


generator = torch.Generator().manual_seed(0)
moved = [moved_by_shuffling(reading, generator) for reading in readings]
Table(["moves"], heads, torch.cat(moved, dim=1).mean(dim=1)[None])

# %% shuffle-read [markdown]
# In head 2 most of the attention moves, in head 5 about half, and in head 4 about a sixth.
# In the other nine heads it is less than 0.13.
# **So in our short sentences, heads 2 and 5 look at positions among the words.**
# In sentences of about 40 tokens, about half moves in head 4, too.
#
# ### Take a head away
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
Table(["head removed", "other weights equal"], heads, ablated)

# %% ablate-read [markdown]
# Removing head 4 moves the output most, by 0.46 of its length,
# but equal weights move it by only 0.17.
# Much of what head 4 adds, then, does not depend on where it looks.
# **A map shows what a head chooses, but a head can add a lot without choosing.**

# %% remember [markdown] end=["An attention sink gets", "A weight says where", "To know what matters"]
# ## What to remember
#
# - Before you describe a head, measure it on many sentences, show all heads,
#   and compare the result with what you would see if nothing special were going on:
#   for example with other words that ask.
# - An attention sink gets a lot of weight and adds little.
#   If it adds nothing, taking it away multiplies what the head adds by $1 / (1 - w)$.
# - In a first layer, a score depends on two tokens and their positions.
#   Replacing a third token can change the weight between two tokens, but not their score.
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
# (L, 384) for a sentence as if the 32 features of one head were 0.
# So nothing is left of what the head adds.
# But `careless` removes the wrong numbers, and the layer stays changed after the call.
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
# In that head, your word must give the clue at least one uniform share and twice the median of the
# askers, and fewer than 100 of the askers may give it more in the same place.
#
# You have twelve heads to choose from, and as many sentences as you like,
# so keep count of what you try.
# `clue_shares(word, sentence, clue, common) > clue_shares(word, sentence, clue, [word])` shows for
# all twelve heads which askers are ahead.
# Suppose that your word were an asker like any other.
# How often would at least one of twelve heads pass the test by chance,
# if the heads were independent?
#
# <details><summary>Hint</summary>
#
# Heads 1, 4, 8 and 10 are good candidates.
# For the chance: in how many of 50 heads is a word picked at random among the first 100 of about
# 5,000 askers?
# And how often does it fail in all twelve?
# </details>
#
# <details><summary>The chance, and words that work</summary>
#
# In one head, the word passes with a probability of at most about $1/50$,
# so at least one of twelve heads passes with a probability of at most about $1 - 0.98^{12}$,
# or one in five.
# “Glass”, “tank” and “coach” work, but not with every clue: in *he drank a glass of water*,
# “drank” passes in three heads and “water” in none.
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
# and the later layers may never have seen anything like it.
# To find out, let the first token keep its weight, but set what it adds, its $u$,
# to 0 in these heads.
# If the text stays good, the model needed the token only as a place for weight; if not,
# it needed something that the token holds.
# </details>

# %% in-torch [markdown] below=["Pass `average_attn_weights=False` if", "By default you get"]
# ## In torch
#
# `layer.attention.to_torch()` returns an `nn.MultiheadAttention` with the same parameters.
# Pass `average_attn_weights=False` if you want the heads one by one.
# By default you get the mean over the heads, which hides what each of them does.

# %% torch-weights
theirs = layer.attention.to_torch().eval()
x = sat.embedded[None]  # (N, L, E)
mean = theirs(x, x, x)[1]  # (N, L, S)
by_head = theirs(x, x, x, average_attn_weights=False)[1]  # (N, H, L, S)
assert torch.allclose(by_head[0], sat.weights, atol=1e-5)
print(f"bank to river: mean {mean[0, 5, 8]:.2f}, head 4 {by_head[0, 4, 5, 8]:.2f}")

# %% own-model-told [markdown]
# ### Your own model
#
# The models of Hugging Face Transformers return their weights if they are loaded with
# `attn_implementation="eager"` and called with `output_attentions=True`: one tensor (N, H, L,
# L) for each layer.
# `HeadView` shows them, also those of two sentences, of a decoder, or of patches of an image.

# %% own-model
from importlib.util import find_spec

from attnlab.explorers import HeadView


def view_model(name, text):  # a name, or a folder with a model and its tokenizer
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModel.from_pretrained(name, attn_implementation="eager").eval()
    inputs = tokenizer(text, return_tensors="pt")
    attentions = model(**inputs, output_attentions=True).attentions
    return HeadView(attentions, tokenizer.convert_ids_to_tokens(inputs.input_ids[0]))


if find_spec("transformers"):
    print('Try view_model("bert-base-uncased", "The cat sat on the mat.").')
else:
    print("This needs the package: %pip install transformers")

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
# - Olsson et al., [In-context Learning and Induction Heads](https://arxiv.org/abs/2209.11895),
#   2022: heads that look at the previous token, in models that predict the next word.

# %% next [markdown]
# ## Next
#
# [11 · Order: who tells attention where words stand?](11_order.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.**
# The layer, the arc and the swimmer: 14.
# The explorer, and where words look: 13.
# The word that asks, and luck: 8.
# What reaches the output, and the sink: 10.
# The exercises take another 40 minutes; set them, and “Further”, as homework.
#
# **Where a class stalls.**
# *A beautiful arc:* ask how many pictures the author looked at before choosing this one,
# and what another word would do in the same place.
# Then let the class read the names of the askers ahead, and judge them.
# *“`[CLS]` is important, since everything looks at it”:* ask what `[CLS]` adds.
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
# (“Further” shows it.)
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
# A token gets most of the weight of a row, and its $u$ is 0.
# What happens to the head’s contribution if you take the token away?
# **It gets longer.**
# *Nothing:* its weight goes to other tokens, and these contribute more.
# *It gets shorter:* the vector that is lost is 0.
#
# **5.**
# One more word is put in before “bank” in *she sat on the bank of the river*.
# Does the ratio of the weights that “bank” gives to “river” and to “she” stay the same in a first
# layer?
# **Not in general.**
# *Yes, because a score depends on two tokens alone:* it depends on their positions as well,
# and two of the three tokens have moved.
# *It grows, because the sentence is longer:* more tokens share the row,
# but that changes all weights by the same factor.
# </details>
