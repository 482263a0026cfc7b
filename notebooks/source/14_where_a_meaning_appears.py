# %% opening [markdown]
# # 14 · Where a meaning appears
#
# “The thief sailed to the bank with the gold.” You know which bank is meant, although *thief* and *gold* suggest the
# other one. The first attention layer of a trained model cannot know it: in a first layer, no third word can change the
# score of “bank” for “sailed”. But the model has six layers.
#
# So let us follow “bank” through all six. **Which layer knows which bank is meant, and does anything use it?** To
# answer the first half, we read the vectors of “bank”. For the second half, we have to change them and watch what
# happens.
#
# **You need:** [lesson 10](10_one_real_attention_layer.ipynb) (the trained layer, its sink, and controls) and
# [lesson 12](12_two_layers_that_look_back.ipynb) (the residual stream).
#
# **You will be able to:** read a meaning from vectors, layer by layer, give a control the same freedom as the method it
# is compared with, say how much 35 sentences can show, and test whether a model uses what can be read from it.
#
# **Time:** 50 minutes in class, or 90 on your own with the exercises. “Further” takes another 10.

# %% setup
import pandas as pd
import torch
from attnlab import data_path
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import LayersExplorer
from attnlab.meanings import vectors_of, wilson_interval
from attnlab.pretrained import load_encoder
from torch.nn.functional import cosine_similarity

lesson_setup()

# %% six-layers [markdown]
# ## Six layers
#
# The model is all-MiniLM-L6-v2, whose first attention layer you know. `load_encoder` loads it as a whole. Each of its
# six layers has two parts: attention with twelve heads, and then an [MLP](glossary.ipynb#MLP), which processes every
# token separately. Each part adds its result to the [residual stream](glossary.ipynb#residual-stream), and a norm
# follows. So every token has one vector, which each layer changes. We look at it before the first layer and after each
# of the layers 0 to 5.
#
# We use the 35 sentences with “bank” from lesson 5. In 19 of them, which we call *clear*, every clue points to the
# right meaning. The other 16 are *mixed*: they also have words that suggest the wrong one.

# %% all-banks
encoder, bank = load_encoder(), pd.read_csv(data_path("bank_sentences.csv"))
sentences, is_river = bank.sentence.tolist(), torch.tensor(bank.meaning == "river")
is_mixed = torch.tensor(bank.kind == "mixed")
vectors = vectors_of(encoder, "bank", sentences)
vectors.shape  # (N, 7, E)

# %% nearer [markdown]
# ## Nearer to which mean?
#
# How can we ask a vector which bank it means? We take the mean of the vectors from the river sentences, and the mean of
# those from the money sentences. The **lean** of a vector is its cosine with the river mean, minus its cosine with the
# money mean. If it is above 0, the vector is nearer to the river mean, and otherwise to the money mean.
#
# We try it on the thief. The means are made from the other 34 sentences.


# %% lean
def lean(vector, others, is_river):
    """How much nearer to the river mean: (..., E) -> (...)."""
    river, money = others[is_river].mean(dim=0), others[~is_river].mean(dim=0)
    to_river = cosine_similarity(vector, river, dim=-1)
    return to_river - cosine_similarity(vector, money, dim=-1)


thief = sentences.index("the thief sailed to the bank with the gold")
rest = torch.arange(35) != thief  # all the other sentences
lean(vectors[thief], vectors[rest], is_river[rest])

# %% read-lean [markdown]
# The first number belongs to the vector before the first layer, and the last one to the vector after layer 5. They are
# small because all these vectors point in similar directions: even the vectors of a river bank and a money bank have a
# cosine of about 0.9 on average. So we look at the sign. (If what all vectors have in common is subtracted first, the
# counts of this lesson hardly change.) After layer 0, “bank” leans to the river, which is right. After layer 5, it
# leans to money, which is wrong.
#
# Now we do the same for all 35 sentences. Before the first layer, nothing from the rest of the sentence has reached
# “bank” yet. Its 35 vectors differ only because “bank” has different positions. In one version, every sentence is part
# of its own mean, and in the other, it is left out.

# %% ask-included
predict("14/the-sentence-itself")


# %% see-included
# %%answer 14/the-sentence-itself
def leans(vectors, is_river):
    """The lean of each sentence, by the means of all the others: (N, 7)."""
    found = []
    for i, vector in enumerate(vectors):
        rest = torch.arange(len(vectors)) != i
        found.append(lean(vector, vectors[rest], is_river[rest]))
    return torch.stack(found)


def is_right(found):
    return (found > 0) == is_river[:, None]  # (35, 7)


included, left_out = lean(vectors, vectors, is_river), leans(vectors, is_river)
[is_right(found)[:, 0].sum().item() for found in (included, left_out)]

# %% leave-out [markdown]
# With its own sentence in the mean, “bank” is on the correct side in 24 of 35 sentences, although there is nothing to
# read. If the sentence is left out, 16 are right, which is about what guessing would give. The vectors are so similar
# here that the small pull of a vector on its own mean often decides. So from here on, each sentence is left out.
#
# Now we follow “bank” through the layers, and count the clear and the mixed sentences separately.

# %% ask-layers
predict("14/after-which-layer")

# %% see-layers
# %%answer 14/after-which-layer
after = ["before", *(f"layer {number}" for number in range(6))]
everyone = torch.ones_like(is_mixed)
kinds = {"19 clear": ~is_mixed, "16 mixed": is_mixed, "all 35": everyone}


def count(right):
    rows = [right[kind].sum(dim=0) for kind in kinds.values()]
    return pd.DataFrame(torch.stack(rows), [*kinds], after)


trained_right = is_right(left_out)
count(trained_right)

# %% few [markdown]
# All 19 clear sentences are right after layer 1, and they stay right. Of the mixed ones, 15 are right at best.
#
# ## How much can 35 sentences show?
#
# If we had written 35 other sentences, we would have got different counts. How different could they be? Suppose that
# the model is right in some fixed share of all such sentences, the *true rate*, which we do not know. An
# [**interval**](glossary.ipynb#interval) contains all the true rates that could well have given our count. We use the
# Wilson interval at the usual level of 95%: if you computed such intervals again and again, about 95% of them would
# contain the true rate. (This assumes independent sentences, and ours have one writer.)

# %% intervals
for correct, total in ((19, 19), (33, 35), (16, 35)):
    low, high = wilson_interval(correct, total)
    print(f"{correct} of {total}: {low:.2f} to {high:.2f}")

# %% read-intervals [markdown]
# Even 19 of 19 does not mean “always”: a model that is wrong on one in six such sentences could manage it.
#
# ## Is this due to attention?
#
# Six layers have mixed the words of the sentence into “bank”. Would mixing alone be enough? For this we need the
# [control](glossary.ipynb#control) of lesson 5, the plain average. In all 72 heads, every token now gives the same
# weight to all tokens. Everything else stays: values, output projections, MLPs and norms.
#
# We pass a function as `edit`. In every layer, the model calls it with the number of the layer and its attention
# weights, and continues with the weights that it returns. A control must have the same freedom as the method it is
# compared with, so the averaging model gets means of its own.


# %% plain-average
def plain_average(layer, weights):  # weights: (N, H, L, L)
    return torch.full_like(weights, 1 / weights.shape[-1])


average = vectors_of(encoder, "bank", sentences, edit=plain_average)

# %% ask-average
predict("14/every-head-averages")

# %% see-average
# %%answer 14/every-head-averages
average_right = is_right(leans(average, is_river))
count(average_right)

# %% draw-squares jupyter={"source_hidden": true}
# %%answer 14/every-head-averages
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

outcome = (2 * trained_right.long() + average_right.long())[:, 1:]  # (35, 6)
looks = {
    "both": "#c6dcef",
    "only the trained weights": "#0b61a4",
    "only the average": "#c8500a",
    "neither": "#c9ced2",
}
shades = ListedColormap([*looks.values()][::-1])
fig, axes = plt.subplots(1, 2, figsize=(7.4, 2), width_ratios=[19, 16])
fig.set_layout_engine("constrained")
for ax, (title, kind) in zip(axes, list(kinds.items())[:2], strict=True):
    squares = outcome[kind]
    order = squares.sum(dim=1).argsort(descending=True, stable=True)
    ax.pcolormesh(squares[order].T, cmap=shades, vmin=0, vmax=3, edgecolors="w", lw=1.5)
    ax.set(title=f"{title} sentences", xticks=[], ylim=(6, 0), aspect="equal")
    ax.set_yticks([0.5 + n for n in range(6)], after[1:])
    ax.spines[:].set_visible(False)
axes[1].set_yticks([])
handles = [Patch(color=shade, label=name) for name, shade in looks.items()]
fig.legend(handles=handles, loc="outside lower center", ncols=4)
show_figure(fig, "14.1")

# %% overlap [markdown]
# The average gets 28 of 35 right after layer 5, and the trained weights get 32. Both were tested on the *same*
# sentences, so only those in which one is right and the other wrong show a difference. In Figure 14.1, these are the
# dark blue and the orange squares. Here are their numbers.

# %% paired
only_trained = trained_right & ~average_right
only_average = average_right & ~trained_right
rows = []
for kind in kinds.values():
    ours, theirs = only_trained[kind].sum(dim=0), only_average[kind].sum(dim=0)
    rows.append([f"{ours[i]} : {theirs[i]}" for i in range(1, 7)])
pd.DataFrame(rows, [*kinds], after[1:])

# %% read-paired [markdown]
# After layer 0, ten sentences are right with the trained weights only, and one with the average only. If both were
# equally good, each of these eleven would be like the toss of a coin, and eleven tosses can fall in $2^{11}$ = 2,048
# ways. In one of these ways the trained weights win all eleven tosses, and in eleven they lose exactly one. The average
# can win in the same twelve ways. So a result at least as one-sided as ours comes up in 24 of 2,048 cases, which is
# about once in 85 tries. By convention, and it is no more than that, a result rarer than once in 20 is taken seriously.
#
# One such result among six layers could be luck. But 7 : 0 after layer 2 comes up once in 64, and 6 : 0 after layer 3
# once in 32, and the trained weights are ahead after every layer. (The six results are not independent, because the
# sentences are the same. But if we toss one coin for each sentence and let it decide all six layers, the leads add up
# to as much as ours less than once in 1,000 tries.) So the trained weights are better here.
#
# After layer 0, nearly all of their lead is in the clear sentences, where an average should be enough. (The positions
# of the words disturb it there; “Further” shows this.) After the later layers, they lead in both kinds.
#
# Do they select better words? The plain average also takes away the sink of lesson 10. So we hide `[CLS]` alone, and
# all other weights keep their proportions.


# %% hide-cls
def without_cls(layer, weights):
    weights = weights.index_fill(-1, torch.tensor(0), 0)
    return weights / weights.sum(dim=-1, keepdim=True)


hidden = vectors_of(encoder, "bank", sentences, edit=without_cls)
count(is_right(leans(hidden, is_river)))

# %% read-hidden [markdown]
# In total, at most three sentences are lost after any layer, and after layer 5 none. So most of the lead over the
# average is not due to the sink. It need not be due to selecting alone: the MLPs and norms were trained with these
# attention weights, and a model that was trained to average might do better.
#
# ### Your experiment: from layer to layer
#
# The bars on the left show what “bank” attends to in the chosen layer. The solid curve on the right shows its lean, and
# the two other curves show the leans of the two means. The slider counts the layers that “bank” has passed. In which
# layer does “bank” attend most to “robbed”, on average over the heads? This is a money bank. Which side does its vector
# lean to in the end: the right one?

# %% explorer
LayersExplorer(layer=1, ask=False)

# %% use-it [markdown]
# <details><summary>The answer</summary>
#
# The weight on “robbed” is largest in layer 0. Yet after this layer “bank” leans to the river. From layer 3 on it leans
# to money, which is right, but only a little.
# </details>
#
# ## Does anything use it?
#
# That a meaning can be read from a vector does not show that the model uses it. We needed labels to find the two means,
# and the model has none. To test it, we change the vector of “bank” and watch the rest.
#
# Before one of the layers, we take out the vector of “bank” and put in the vector that “bank” has in another sentence,
# the *donor*. The remaining layers then run as usual. At the end we look at the **other words** of the sentence: the
# mean of their vectors, without “bank” and the markers. It has a lean, too, by the means of the other words of all the
# other sentences.

# %% other-words
tokens = [encoder.tokens(sentence) for sentence in sentences]
at = [pieces.index("bank") for pieces in tokens]


def other_words(x, i):
    """Average all words of sentence i except "bank": (n, L, E) -> (n, E)."""
    words = range(1, len(tokens[i]) - 1)
    return x[:, [j for j in words if j != at[i]]].mean(dim=1)


unchanged = [encoder(pieces)[0][:, 0] for pieces in tokens]  # (7, L, E) each
others = torch.cat([other_words(x[-1:], i) for i, x in enumerate(unchanged)])  # (35, E)

# %% the-swap [markdown]
# A donor disturbs a sentence even if its “bank” has the same meaning, because its “bank” comes from other words and
# another position. So donors with the same meaning are the control. All 34 other sentences take their turn.


# %% swap
def swap(i, number):
    """Sentence i, with the "bank" of every sentence before a layer: (35, E)."""
    x = unchanged[i][number].repeat(35, 1, 1)  # (35, L, E)
    x[:, at[i]] = vectors[:, number]  # row j gets the "bank" of sentence j
    for layer in encoder.layers[number:]:
        x, _ = layer(x)
    return other_words(x, i)


def change_of_lean(i, number):
    """How far the other words move towards their own side: (35,)."""
    rest = torch.arange(35) != i
    new = lean(swap(i, number), others[rest], is_river[rest])
    return (new - new[i]) * (1 if is_river[i] else -1)  # new[i]: nothing is changed


# %% ask-swap
predict("14/a-foreign-bank")

# %% see-swap
# %%answer 14/a-foreign-bank
side = 2.0 * is_river - 1  # 1 for the river, -1 for money
scale = (leans(others, is_river) * side).mean()  # mean lean to the own side
changes = []
for number in range(1, 6):
    changes.append(torch.stack([change_of_lean(i, number) for i in range(35)]))
changes = torch.stack(changes) / scale  # (5, 35, 35): layer, sentence, donor

same, itself = is_river[:, None] == is_river, torch.eye(35, dtype=torch.bool)
wrong = changes.masked_fill(same, torch.nan).nanmean(dim=-1)  # (5, 35)
right = changes.masked_fill(~same | itself, torch.nan).nanmean(dim=-1)
in_percent = (100 * torch.stack([wrong, right]).mean(dim=-1)).round().int()
further = (wrong < right).sum(dim=-1)
columns = {"wrong": in_percent[0], "right": in_percent[1], "sentences": further}
pd.DataFrame(columns, [f"before layer {number}" for number in range(1, 6)])

# %% draw-swap jupyter={"source_hidden": true}
# %%answer 14/a-foreign-bank
order = (right - wrong)[1].argsort()
_, ax = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
from_right, from_wrong = 100 * right[1, order], 100 * wrong[1, order]
ax.vlines(range(35), from_wrong, from_right, color="#9aa3ab", lw=1)
for name, moves, color, marker in (
    ("a “bank” of the right meaning", from_right, "#0b61a4", "o"),
    ("a “bank” of the wrong meaning", from_wrong, "#c8500a", "D"),
):
    ax.plot(range(35), moves, marker, color=color, label=name, ms=5)
ax.axhline(0, color="#555", ls="--", lw=1)
ax.set(xticks=[], xlabel="the 35 sentences", ylabel="change of lean (%)")
ax.set_title("The other words follow the “bank” that is put in")
ax.legend(loc="lower left")
show_figure(ax, "14.2")

# %% read-swap [markdown]
# Before layer 2, a “bank” of the wrong meaning pulls the other words further from their side than one of the right
# meaning does in *all 35* sentences. Before the other layers it does so in 32 to 35. (The first two columns say how far
# the lean of the other words changes, in percent of their mean lean.) So later layers do use the difference: through
# their attention, it reaches the other words.
#
# They do not use it much. A wrong “bank” takes away about an eighth of the lean of the other words, which also have
# each other. And before layer 5 it takes away less, because only one layer is left to pass it on.
#
# ## What this shows, and what it does not
#
# Which layer knows which bank is meant? In most of our sentences, it can be read after layer 0, and in all of the clear
# ones after layer 1. Attention selects better than a plain average, but the average gets four fifths of the sentences
# right. And what can be read may be lost again: up to layer 4 the thief’s “bank” leans to the river, and in the end to
# money.
#
# Does anything use it? Yes: put another “bank” into the sentence, and the other words follow it a little.
#
# Reading a property from the vectors inside a model is called [**probing**](glossary.ipynb#probe), and putting in a
# vector from another run is called *activation patching*. Both have their limits here. What can be read after the last
# layer need not be the meaning of the word. It may be the topic of the sentence, because this model was trained to make
# one vector for a whole sentence. We do not know whether what the model was made for, comparing sentences, depends on
# it. And one person wrote these sentences.

# %% further-order [markdown]
# ## Further
#
# ### Do the positions matter?
#
# We give all words the same position (the two markers keep theirs), so that nothing shows where each word is. We do
# this with the trained weights and with the plain average, and each gets means of its own.


# %% see-order
def at_one_position(sentence, edit=None):
    pieces = encoder.tokens(sentence)
    positions = [0, *[5] * (len(pieces) - 2), len(pieces) - 1]
    found, _ = encoder(pieces, positions=positions, edit=edit)  # (7, 1, L, E)
    return found[:, 0, pieces.index("bank")]


rows = []
for edit in (None, plain_average):
    found = torch.stack([at_one_position(sentence, edit) for sentence in sentences])
    rows.append(is_right(leans(found, is_river)).sum(dim=0))
pd.DataFrame(torch.stack(rows), ["trained weights", "plain average"], after)

# %% further-layers [markdown]
# Without positions, more sentences are right after layer 0: 31 instead of 29 with the trained weights, and 27 instead
# of 20 with the average. So much of the lead after layer 0 is due to the positions, which disturb the average more. In
# most of our sentences, the words alone are enough to tell which bank is meant.
#
# ### Which layers does it need?
#
# We remove all twelve heads of one layer, and then those of all layers. If the weights are 0, a head adds nothing.


# %% without-layers
def right_without(*numbers):
    def without(layer, weights):
        return 0 * weights if layer in numbers else weights

    found = vectors_of(encoder, "bank", sentences, edit=without)
    return is_right(leans(found, is_river))[:, -1].sum().item()


removed = [right_without(number) for number in range(6)] + [right_without(*range(6))]
columns = [*(f"layer {number}" for number in range(6)), "all layers"]
pd.DataFrame([removed], ["right at the end"], columns)

# %% further-words [markdown]
# No single layer of heads is needed. Without those of layer 5, even 34 are right instead of 32: by then, the meaning
# has already arrived. Without any head, no other word can reach “bank”, and only its position is left.
#
# ### Eight other words
#
# The file `two_meanings.csv` has 144 sentences with eight other words, such as *a seal was lying on the ice*. We
# compare the trained weights and the plain average again, and then both once more without `[CLS]` and `[SEP]`, so that
# neither side has a sink.


# %% other-eight
def only_words(layer, weights):
    weights = weights.index_fill(-1, torch.tensor([0, weights.shape[-1] - 1]), 0)
    return weights / weights.sum(dim=-1, keepdim=True)


def average_of_words(layer, weights):
    return only_words(layer, torch.ones_like(weights))


def right_of_144(edit=None):
    right = []
    for word, rows in pd.read_csv(data_path("two_meanings.csv")).groupby("word"):
        found = vectors_of(encoder, word, rows.sentence.tolist(), edit=edit)
        is_first = torch.tensor([one == rows.meaning.iloc[0] for one in rows.meaning])
        right.append((leans(found, is_first) > 0) == is_first[:, None])
    return torch.cat(right)  # (144, 7)


# %% eight-table
edits = {
    "trained weights": None,
    "plain average": plain_average,
    "trained, words only": only_words,
    "average of the words": average_of_words,
}
rows = [right_of_144(edit).sum(dim=0) for edit in edits.values()]
pd.DataFrame(torch.stack(rows), [*edits], after)

# %% read-eight [markdown]
# The trained weights are ahead after every layer, with a sink and without one. So for these words, selecting helps in
# every layer. From layer 3 on, the trained weights do better with their markers than without them, so the sink helps as
# well.

# %% remember [markdown]
# ## What to remember
#
# - To read a meaning from a vector, compare it with the means of sentences whose meaning is known, and leave the
#   sentence itself out.
# - A control needs the same freedom as the method it is compared with, such as means of its own.
# - Give an interval with every count. If two methods are tested on the same sentences, count those where only one of
#   them is right.
# - A plain average through six layers goes a long way, and trained attention goes further.
# - That something can be read from a vector does not show that the model uses it. To find out, put in the vector of
#   another sentence and watch the rest. Donors that should change nothing are the control.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (4 minutes)
#
# A model gets all of your sentences right. What is the smallest number of sentences for which the whole Wilson interval
# lies above 0.9?
#
# <details><summary>Hint</summary>
#
# Try some numbers with <code>wilson_interval(n, n)</code>.
# </details>

# %%
from attnlab.exercises import check_fooling_sentence, check_needed_sentences
from attnlab.exercises import check_removed_head, check_shared_rest


# %% tags=["exercise"]
def needed_sentences():
    """Return the number of sentences."""


# %%
check_needed_sentences(needed_sentences)


# %% tags=["solution"] jupyter={"source_hidden": true}
def needed_sentences_solution():
    n = 1
    while wilson_interval(n, n)[0] <= 0.9:
        n += 1
    return n


check_needed_sentences(needed_sentences_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (10 minutes)
#
# The plain average takes three things from a head at once: its choice among the other words, its weight on the token
# itself, and its sinks, the markers. Write a milder control as an `edit`. Every token keeps its weight on itself and
# its weights on the first and the last token. What is left of the row is shared equally among all the others.
#
# When the check is content, count how many of the 35 sentences are right. In which kind of sentence does choosing among
# the other words still help?
#
# <details><summary>Hint</summary>
#
# Make a boolean (L, L) tensor that is True where a weight is kept. The rest of a row is the sum of the other weights,
# and <code>torch.where</code> puts both together.
# </details>


# %% tags=["exercise"]
def shared_rest(layer, weights):
    """(N, H, L, L) -> (N, H, L, L)."""


# %%
check_shared_rest(shared_rest)


# %% tags=["solution"] jupyter={"source_hidden": true}
def shared_rest_solution(layer, weights):
    kept = torch.eye(weights.shape[-1], dtype=torch.bool)
    kept[:, [0, -1]] = True
    rest = (weights * ~kept).sum(dim=-1, keepdim=True)
    return torch.where(kept, weights, rest / (~kept).sum(dim=-1, keepdim=True))


check_shared_rest(shared_rest_solution)

# %% tags=["solution"] jupyter={"source_hidden": true}
# From layer 3 on, choosing among the other words helps in the mixed sentences only.
milder = vectors_of(encoder, "bank", sentences, edit=shared_rest_solution)
count(is_right(leans(milder, is_river)))

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (6 minutes)
#
# `careless` should be an `edit` that removes head 3 of the *second* layer and leaves everything else alone. It has two
# mistakes, and neither raises an error. Write `careful`.
#
# <details><summary>Hint</summary>
#
# Which number does the second layer have? And what do the axes of the weights, (N, H, L, L), stand for?
# </details>


# %% tags=["exercise"]
def careless(layer, weights):
    if layer == 2:
        weights[:, :, 3] = 0
    return weights


def careful(layer, weights):
    """(N, H, L, L) -> (N, H, L, L)."""


# %%
check_removed_head(careful)


# %% tags=["solution"] jupyter={"source_hidden": true}
def careful_solution(layer, weights):
    if layer == 1:
        weights[:, 3] = 0
    return weights


check_removed_head(careful_solution)

# %% exercise-4 [markdown]
# ### 4 · Find ★★ (10 minutes)
#
# Write a sentence with “bank” that every reader understands and the means do not. After the last layer, its vector must
# lean to the wrong side, measured against all 35 sentences of the lesson. Return the sentence and its meaning, “river”
# or “money”. How many sentences did you have to try?
#
# <details><summary>Hint</summary>
#
# Put “bank” among words that go with its other meaning. <code>lean(vectors_of(encoder, “bank”, [sentence])[0], vectors,
# is_river)</code> gives the leans.
# </details>


# %% tags=["exercise"]
def fooling_sentence():
    """Return (sentence, meaning)."""


# %%
check_fooling_sentence(fooling_sentence)


# %% tags=["solution"] jupyter={"source_hidden": true}
def fooling_sentence_solution():
    return "the cashier sat on the bank and fed the ducks", "river"


check_fooling_sentence(fooling_sentence_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★★ (6 minutes)
#
# An article reports: “After layer 3, we can read from the vector of a verb whether its sentence is in the past tense,
# in 95% of 2,000 sentences. So the model knows the tense from layer 3 on and uses it.” Which two questions would you
# ask?
#
# <details><summary>An answer</summary>
#
# First: how well does a control with the same freedom do? The control could be the vectors before the first layer,
# where “went” already differs from “goes”, or a model whose heads all average. If the control reaches nearly 95% as
# well, layer 3 has added little. Second: what happens if the property is removed from the vector, or replaced by the
# opposite one, present instead of past? If the output of the model then changes as it should, the model uses the
# property. If it does not change, the model may still get the tense from elsewhere.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# To change what a part of your own model passes on, use a hook: `module.register_forward_hook(function)` calls the
# function with the module, its input and its output. If the function returns something, the model continues with that
# as the output. This is how a vector is put in. To change attention weights, they must pass through something that you
# can hook, as in TransformerLens, or in our encoder, which calls `edit`. In Hugging Face Transformers, `model(...,
# output_hidden_states=True)` returns the vectors before the first layer and after every layer, like our seven.

# %% sources [markdown]
# ## Sources
#
# - Wang et al., [MiniLM](https://arxiv.org/abs/2002.10957), 2020, and Reimers and Gurevych,
#   [Sentence-BERT](https://arxiv.org/abs/1908.10084), 2019: how a model like ours was made.
# - Wiedemann et al., [Does BERT Make Any Sense?](https://arxiv.org/abs/1909.10430), 2019: word meanings from the
#   vectors of BERT, by the nearest neighbours among labelled sentences.
# - Ethayarajh, [How Contextual are Contextualized Word Representations?](https://arxiv.org/abs/1909.00512), 2019:
#   vectors that all point in similar directions, layer by layer.
# - Hewitt and Liang, [Designing and Interpreting Probes with Control Tasks](https://arxiv.org/abs/1909.03368), 2019:
#   what a probe can learn by itself.
# - Belinkov, [Probing Classifiers: Promises, Shortcomings, and Advances](https://arxiv.org/abs/2102.12452), 2022: what
#   can be read, and what is used.
# - Vig et al., [Investigating Gender Bias in Language Models Using Causal Mediation
#   Analysis](https://arxiv.org/abs/2004.12265), 2020, and Geiger et al., [Causal Abstractions of Neural
#   Networks](https://arxiv.org/abs/2106.02997), 2021: vectors from one run put into another.
# - Michel et al., [Are Sixteen Heads Really Better than One?](https://arxiv.org/abs/1905.10650), 2019: most heads of a
#   trained model can be removed one at a time.
# - Wilson, Probable Inference, the Law of Succession, and Statistical Inference, 1927: the interval.
# - The sentences, the controls and the counts are our own.

# %% next [markdown]
# ## Next
#
# This is the last lesson. You have built attention by hand, masked it, split it into heads and counted its cost. You
# have also asked, again and again, what its weights show. These texts take you further:
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017. You can now read it from the
#   first page to the last.
# - Elhage et al., [A Mathematical Framework for Transformer
#   Circuits](https://transformer-circuits.pub/2021/framework/index.html), 2021, on the residual stream and on what
#   heads do together.
# - Meng et al., [Locating and Editing Factual Associations in GPT](https://arxiv.org/abs/2202.05262), 2022, which
#   changes vectors inside a model and watches the output, as we did.
#
# To look up a word or an earlier claim, go to [0 · Start here](00_start_here.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.** The model and the lean: 10. The layers and the intervals: 9. The plain average, the pairs and the
# sink: 12. The explorer: 7. The swap, and the answer: 12. The exercises take another 40 minutes; set them, and
# “Further”, as homework.
#
# **Where a class stalls.** *“All 19 are right, so it always works”:* let everyone toss a coin five times. In a class of
# 32, about two students will get the same side five times. *“28 and 32 hardly differ”:* the two were tested on the same
# sentences, so compare them sentence by sentence. *“The average is nearly as good, so attention is useless”:* the
# average is also a form of attention, with other weights, and the parameters around it were trained with the real one.
# *“An eighth is next to nothing”:* ask what else the other words have to go by.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** Why is a sentence left out of its own mean? **It pulls the mean towards itself.** *To save time:* it takes more
# time. *Because it may be mixed:* clear sentences are left out of their own mean as well.
#
# **2.** Why does the control get means of its own? **Its vectors lie elsewhere, so the means of another model measure
# something else.** *To make it look good:* it gets the same as the trained model, and no more.
#
# **3.** Two methods get 33 and 28 of the same 35 sentences right. What do you want to see? **In how many sentences only
# one of them is right.** *Whether the intervals overlap:* they do not use the fact that the sentences are the same.
#
# **4.** A meaning can be read after layer 1. Does layer 2 use it? **The counts do not tell; one has to change the
# vector.** *Yes, why else would it be there:* what helps us to tell two sentences apart may be of no use to the model.
#
# **5.** Why are there donors with the same meaning? **A foreign vector disturbs the sentence in any case, and they show
# how much.** *To have more sentences:* they answer another question. *To see whether the meaning matters more than the
# position:* each donor changes the position as well.
# </details>
