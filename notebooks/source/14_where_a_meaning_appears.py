# %% opening [markdown]
# # 14 · Where a meaning appears
#
# "The thief sailed to the bank with the gold." You know which bank is meant, although "thief" and "gold" suggest the
# other one. In lesson 5 we looked for the difference in the first attention layer of a trained model, and found nothing
# that a plain average could not do as well. But the model has six layers.
#
# So let us follow "bank" through all six. **After which layer does its vector show which bank is meant, and does the
# vector owe this to attention?** The first half of the question has a quick answer, and the second takes up most of
# this lesson.
#
# **You need** lesson 5 (controls, mixing and selecting), lesson 10 (the trained layer, and heads removed) and lesson 12
# (the residual stream).
#
# **You will be able to**
# - read a meaning from vectors, layer by layer, without testing a sentence on itself,
# - give a control the same freedom as what it is compared with,
# - say how much 35 sentences can show,
# - remove heads from a whole model and read the result with care,
# - explain why "it can be read" does not mean "it is used".
#
# **Time:** 50 minutes in class, 85 alone.

# %% setup
import pandas as pd
import torch
from attnlab import data_path
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import LayersExplorer
from attnlab.meanings import leans, vectors_of, wilson_interval
from attnlab.pretrained import load_encoder

lesson_setup()

# %% six-layers [markdown]
# ## Six layers
#
# The model is all-MiniLM-L6-v2, whose first attention layer you know from lessons 2, 5 and 10. `load_encoder` loads it
# as a whole. Each of its six layers has two parts: attention with twelve heads, and then an [MLP](glossary.ipynb#MLP),
# which processes every token separately. Each part adds its result to the [residual
# stream](glossary.ipynb#residual-stream), and a norm follows. So every token has one vector, which each layer changes.
# We get it at seven places: before the first layer, and after layers 1 to 6. (The text numbers layers from 1, but heads
# from 0, as in lesson 10.)
#
# We use the 35 sentences with "bank" from lesson 5. In 19 of them, which we call *clear*, every clue points to the same
# bank. The other 16 are *mixed*: they also have words that suggest the wrong bank. `vectors_of` reads every sentence
# and keeps the seven vectors of "bank". A folded cell defines helpers, which you need not read.

# %% all-banks
encoder, bank = load_encoder(), pd.read_csv(data_path("bank_sentences.csv"))
sentences, is_river = bank.sentence.tolist(), torch.tensor(bank.meaning == "river")
vectors = vectors_of(encoder, "bank", sentences)
vectors.shape  # (N, 7, E)

# %% helpers jupyter={"source_hidden": true}
places = ["before", *(f"after {layer}" for layer in range(1, 7))]
is_mixed = torch.tensor(bank.kind == "mixed")


def count(right):  # sentences on the correct side, by kind and place
    kinds = {"19 clear": ~is_mixed, "16 mixed": is_mixed, "all 35": is_mixed | True}
    rows = [right[kind].sum(dim=0) for kind in kinds.values()]
    return pd.DataFrame(torch.stack(rows), kinds, places)


def differing(trained, average):  # sentences that only one of the two gets right
    only = trained & ~average, average & ~trained
    return torch.stack([one.sum(dim=0) for one in only])


def read(rows, edit=None):  # the vectors of one word (N, 7, E), and its meanings (N,)
    found = vectors_of(encoder, rows.word.iloc[0], rows.sentence.tolist(), edit=edit)
    return found, torch.tensor(rows.is_first.tolist())


def at_one_position(sentence, edit=None, position=5):  # all words at one position
    tokens = encoder.tokens(sentence)
    positions = [0, *[position] * (len(tokens) - 2), len(tokens) - 1]
    found, _ = encoder(tokens, positions=positions, edit=edit)  # (7, 1, L, E)
    return found[:, 0, tokens.index("bank")]  # (7, E)


def shuffled(sentence):  # its words in random order
    words = sentence.split()
    return " ".join(words[i] for i in torch.randperm(len(words)))


cosine = torch.nn.functional.cosine_similarity
of_pairs = cosine(vectors[:, None], vectors[None], dim=-1)  # (N, N, 7)
same = is_river[:, None] == is_river
same_meaning = of_pairs[same & ~torch.eye(35, dtype=torch.bool)].mean(dim=0)
different_meaning = of_pairs[~same].mean(dim=0)

# %% nearer [markdown]
# ## Nearer to which mean?
#
# How can we ask a vector which bank it means? We take the mean of the vectors from the river sentences, and the mean of
# those from the money sentences. Then we see which of the two is nearer. The **lean** of a vector is its cosine with
# the river mean, minus its cosine with the money mean. If the lean is above 0, the vector is nearer to the river mean,
# and otherwise to the money mean.
#
# We try it on "the thief sailed to the bank with the gold". The means are made from the other 34 sentences.


# %% lean
def lean(vector, others, is_river):
    """How much nearer to the river mean: (..., 7, E) -> (..., 7)."""
    river, money = others[is_river].mean(dim=0), others[~is_river].mean(dim=0)
    cosine = torch.nn.functional.cosine_similarity
    return cosine(vector, river, dim=-1) - cosine(vector, money, dim=-1)


def is_right(found):
    return (found > 0) == is_river[:, None]  # (N, 7)


i = sentences.index("the thief sailed to the bank with the gold")
rest = torch.arange(35) != i  # all the other sentences
lean(vectors[i], vectors[rest], is_river[rest])

# %% read-lean [markdown]
# The first number belongs to the vector before the first layer, and the last one to the vector after layer 6. The leans
# are small because all these vectors point in similar directions: even a river bank and a money bank have a cosine of
# about 0.9 on average. So we look at the sign. The first number says nothing about the other words, as we will see.
# After layer 1, "bank" leans to the river. After layer 6 it leans to money, which is wrong.
#
# Does it matter that the sentence itself was left out of the means? We can test this on the vectors before the first
# layer. There, nothing from the rest of the sentence has reached "bank" yet. The 35 vectors differ only because "bank"
# has different positions in the sentences.

# %% ask-included
predict("14/the-sentence-itself")

# %% see-included
# %%answer 14/the-sentence-itself
included = torch.stack([lean(one, vectors, is_river) for one in vectors])
left_out = leans(vectors, is_river)  # each sentence left out of its own mean
[is_right(found)[:, 0].sum().item() for found in (included, left_out)]

# %% leave-out [markdown]
# From here on, each sentence is left out of its own mean. `leans`, from attnlab, does this for all 35, and you will
# write it in exercise 2. Now we follow "bank" through the layers, and count the clear and the mixed sentences
# separately.

# %% ask-layers
predict("14/after-which-layer")

# %% see-layers
# %%answer 14/after-which-layer
count(is_right(left_out))

# %% few [markdown]
# ## How much can 35 sentences show?
#
# This table is the quick half of the answer. But if we had written 35 other sentences, we would have got different
# counts. How different could they be? Suppose that the model is right in some fixed share of all such sentences, the
# *true rate*, which we do not know. A true rate of one half would hardly ever give 33 of 35, but a rate of 0.9 could
# well do so. An [**interval**](glossary.ipynb#interval) contains all the true rates that could well have given our
# count. We use the Wilson interval at the usual level of 95%: if you computed such intervals again and again, about 95%
# of them would contain the true rate. (This assumes independent sentences, and ours have one writer.)

# %% intervals
for correct, total in ((19, 19), (33, 35), (16, 35)):
    low, high = wilson_interval(correct, total)
    print(f"{correct} of {total}: {low:.2f} to {high:.2f}")

# %% read-intervals [markdown]
# Even 19 of 19 does not mean "always": a model that is wrong on one in six such sentences could manage it. And 16 of 35
# is what guessing would give.
#
# ## Is this due to attention?
#
# Six layers have mixed the words of the sentence into "bank". Would mixing alone be enough? For this we need the
# [control](glossary.ipynb#control) of lesson 5, the plain average. In all 72 heads, every token now gives the same
# weight to all tokens. Everything else stays: values, output projections, MLPs and norms.
#
# We pass a function as `edit`. In every layer, the model calls this function with the number of the layer, counted from
# 0, and its attention weights. It then continues with the weights that the function returns.
#
# A control must have the same freedom as what it is compared with, so we make new means from the vectors of the
# averaging model.


# %% plain-average
def plain_average(layer, weights):  # weights: (N, H, L, L)
    return torch.full_like(weights, 1 / weights.shape[-1])


average = vectors_of(encoder, "bank", sentences, edit=plain_average)

# %% ask-average
predict("14/every-head-averages")

# %% see-average
# %%answer 14/every-head-averages
trained_right = is_right(left_out)
average_right = is_right(leans(average, is_river))
count(average_right)

# %% draw-average jupyter={"source_hidden": true}
# %%answer 14/every-head-averages
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for shift, name, right, color, marker in (
    (-0.06, "trained weights", trained_right, "#0b61a4", "o"),
    (0.06, "plain average", average_right, "#b04600", "D"),
):
    shares = right.float().mean(dim=0)
    ends = torch.tensor([wilson_interval(int(one), 35) for one in right.sum(dim=0)])
    ax.errorbar(
        torch.arange(7) + shift,
        shares,
        yerr=(ends - shares[:, None]).abs().T,
        color=color,
        marker=marker,
        capsize=4,
        lw=1.5,
        label=name,
    )
ax.axhline(0.5, color="#555", ls="--", lw=1)
ax.set(xticks=range(7), xticklabels=places, ylim=(0, 1.03))
ax.set(ylabel="share of the 35 sentences", title="Trained weights and a plain average")
ax.legend(loc="lower right")
show_figure(ax, "14.1")

# %% overlap [markdown]
# At each place, the two intervals overlap. But the trained weights and the average were tested on the *same* sentences.
# Only sentences in which one is right and the other wrong show a difference. We count these with a helper called
# `differing`.

# %% paired
counts = differing(trained_right, average_right)
pd.DataFrame(counts, ["only trained", "only average"], places)

# %% read-paired [markdown]
# After layer 1, ten sentences are right with the trained weights only, and one with the average only. If both were
# equally good, each of these eleven would be like the toss of a coin, and eleven tosses can fall in $2^{11}$ = 2,048
# ways. The trained weights win all tosses in 1 way, and all but one in 11 ways, because any of the eleven may be the
# lost one. In 12 more ways, it is the average that wins all or all but one. So a result at least as one-sided as ours
# comes up in 24 of 2,048 cases, about once in 85. By an arbitrary rule, a result rarer than once in 20 is taken
# seriously.
#
# But among six layers, a single rare result does not prove much, and five against one, as after layer 6, comes up about
# once in five. Still, the trained weights are ahead after every layer.
#
# The MLPs and norms were trained with these attention weights. A model that was trained to average might do better, so
# our control can make attention look more important than it is.
#
# ## Does the order of the words matter?
#
# We can remove the order of the words in two ways. We can give all words the same position, so that nothing shows where
# each word is. (The two markers keep their positions.) We do this for the plain average as well. Or we can shuffle the
# words. Again, each change gets means of its own.

# %% ask-order
predict("14/without-order")

# %% see-order
# %%answer 14/without-order
changed = {"as written": vectors}
for name, edit in (("same position", None), ("same position, average", plain_average)):
    changed[name] = torch.stack([at_one_position(one, edit) for one in sentences])
for seed in range(4):
    torch.manual_seed(seed)
    texts = [shuffled(one) for one in sentences]
    changed[f"shuffled, seed {seed}"] = vectors_of(encoder, "bank", texts)
by_change = [is_right(leans(one, is_river)).sum(dim=0) for one in changed.values()]
pd.DataFrame(torch.stack(by_change), changed, places).drop(columns="before")

# %% explore [markdown]
# If all words have the same position, more sentences are right after layer 1: 31 instead of 29, and for the average 27
# instead of 20. So in layer 1, positions disturb the average more than they disturb the trained weights, and much of
# the lead that we counted there is due to the positions. After layer 1, the trained weights and the average now differ
# in only four sentences, all won by the trained weights, but four tosses of a coin fall the same way one time in eight.
# So for the first layer alone, we cannot say that attention does better than an average.
#
# ### Your experiment: from layer to layer
#
# The explorer begins with a sentence from lesson 5. The bars on the left show what "bank" attends to in the chosen
# layer. The solid curve on the right shows its lean: above 0 it lies nearer to river. The two other curves show the
# leans of the two means themselves. Move the layer from 0 (before the first layer) to 6. In which layer does "bank"
# attend most to "robbed", on average over the heads? This bank is a money bank. Which side does the vector lean to in
# the end?

# %% explorer
LayersExplorer(layer=3, ask=False)

# %% heads [markdown]
# <details><summary>The answer</summary>
#
# Averaged over the heads, the weight on "robbed" is largest in layer 1. Yet after this layer "bank" leans to the river.
# From layer 4 on it leans to money, but only a little.
# </details>
#
# ## Which heads does the model need?
#
# In lesson 5, head 4 of the first layer stood out. We put each of 4,999 other words in the place of "bank", and in this
# head none of them gave the clue as much weight as "bank" did, on average. Does the model need this head? We take it
# out, as in lesson 12. If `edit` sets the weights of a head to 0, the head adds nothing. All later layers work with
# what is left.


# %% without
def without(number, head):
    def edit(layer, weights):  # weights: (N, H, L, L)
        if layer == number:  # layers are counted from 0 here
            weights[:, head] = 0
        return weights

    return edit


# %% ask-head-4
predict("14/without-head-4")

# %% see-head-4
# %%answer 14/without-head-4
without_4 = vectors_of(encoder, "bank", sentences, edit=without(0, 4))
count(is_right(leans(without_4, is_river)))

# %% about-heads [markdown]
# ### All 72 heads
#
# A count out of 35 is a coarse measure, so we now use the size of the lean as well. Here a lean to the correct side
# counts as positive and one to the wrong side as negative, and we take the mean after layer 6. We remove each head in
# turn, make new means, and divide the mean lean by that of the whole model. Figure 14.2 shows the result, on the left
# for "bank", and on the right for the eight other words of the next section.

# %% draw-heads jupyter={"source_hidden": true}
# %%answer 14/without-head-4
heads = pd.read_csv(data_path("meaning_heads.csv"))
heads["of"] = heads.word.where(heads.word == "bank", "eight other words")
means = heads.groupby(["of", "change", "layer", "head"], dropna=False)["lean"].mean()
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.3), layout="constrained")
for ax, name in zip(axes, ("bank", "eight other words"), strict=True):
    ratio = means[name, "removed"] / means[name, "nothing"].item()
    layers = 1 + ratio.index.get_level_values("layer")
    ax.plot(layers, ratio, "o", color="#8a949c", ms=4)
    ax.plot(1, ratio[0, 4], "D", color="#b04600", ms=9)
    ax.text(1.1, ratio[0, 4] + 0.02, "head 4", color="#b04600")
    ax.axhline(1, color="#0b61a4", ls="--", lw=1.5)
    ax.set(xlabel="layer of the removed head", title=name, ylim=(0.7, 1.15))
axes[0].set_ylabel("mean lean without the head\n(1: whole model)")
show_figure(fig, "14.2")

# %% read-heads [markdown]
# For "bank", no single head is needed. Whichever of the 72 we remove, 31 to 33 of the 35 sentences are right. But head
# 4 of the first layer matters most: without it, the mean lean falls by a quarter. That is hardly a surprise: in lesson
# 5 we found it for this very word, and mostly on these sentences. For the eight other words, other heads matter more,
# and without this one the mean lean even rises a little.
#
# And if only one head is left? This is how many of the 35 sentences are right after layer 6:
#
# | | correct |
# |---|---|
# | all 72 heads | 32 |
# | plain average in all heads | 28 |
# | any one head as trained, plain average in the other 71 | 27 to 29 |
# | any one head alone, the other 71 removed | 21 to 29 |
# | no head at all | 23 |
#
# Without any head, no other word can reach "bank", so its vector depends only on its position. In our sentences, an
# early "bank" more often means money, and after layer 6 this alone makes 23 right, not many more than guessing would.
# Head 4 of the first layer, with nothing else, reaches 29. And yet the model does not need it: without this head, it
# gets 31. The meaning can reach "bank" by more than one route.
#
# ## More words, and sentences set aside
#
# All our counts so far have been about one word, and we have looked at its sentences many times. So here are eight
# other words: bat, cell, court, match, mouse, plant, seal and spring. Each has 18 sentences, nine for each of two
# meanings, such as *a seal was lying on the ice* for the animal. Twelve of them are *open* to us. The other six were
# drawn by lot and set aside before the model had read any of them. `is_first` replaces `is_river`: it says whether a
# sentence has the meaning that comes first in the file, and `read` returns the vectors of a word and these labels.
# First the open sentences:

# %% open-words
words = pd.read_csv(data_path("two_meanings.csv"))
words["is_first"] = words.meaning == words.groupby("word").meaning.transform("first")
seen, aside = words[words.part == "open"], words[words.part == "aside"]


def right_on_open(edit=None):
    right = []
    for _, rows in seen.groupby("word"):
        found, is_first = read(rows, edit)
        right.append((leans(found, is_first) > 0) == is_first[:, None])
    return torch.cat(right)  # (96, 7)


trained_open, average_open = right_on_open(), right_on_open(plain_average)
of_96 = torch.stack([trained_open.sum(dim=0), average_open.sum(dim=0)])
pd.DataFrame(of_96, ["trained", "average"], places)

# %% read-open [markdown]
# The share of correct sentences is smaller than it was for "bank", but here the means come from only eleven sentences
# instead of 34. Again the average is not far behind. For the sentences set aside, we have to decide *now* what we will
# count. Otherwise we could pick the best layer afterwards. We take the layer that was best on the open sentences, and
# the control may choose in the same way: layer 6 for the trained model, and layer 4 for the average. The means come
# from the open sentences alone. And we look only once.


# %% look-once
def on_aside(place, edit=None):
    right = []
    for word, rows in aside.groupby("word"):
        new, is_first = read(rows, edit)
        old, old_is_first = read(seen[seen.word == word], edit)  # for the means
        found = lean(new, old, old_is_first)  # (6, 7)
        right += ((found[:, place] > 0) == is_first).tolist()
    return torch.tensor(right)  # (48,)


trained_aside, average_aside = on_aside(6), on_aside(4, plain_average)
for correct in (int(trained_aside.sum()), int(average_aside.sum())):
    print(correct, "of 48, {:.2f} to {:.2f}".format(*wilson_interval(correct, 48)))
print(differing(trained_aside, average_aside))

# %% read-once [markdown]
# On sentences that had not been looked at, the trained model is as good as on the open ones, with 42 of 48. The average
# gets only 34. In ten sentences only the trained model is right, and in two only the average. By chance, a split at
# least as one-sided comes up about once in 26 times, but this is one look at 48 sentences.
#
# Is this lead due to selecting words? The plain average also takes the sink away (lesson 10). So afterwards we tried a
# second control, which keeps the sink: every token keeps its weights on itself and on the two markers, and shares the
# rest equally among the other words. For "bank" and for the open sentences, we count after the best layer of each row;
# for those set aside, after the layer that was best on the open ones:
#
# | | "bank", of 35 | open, of 96 | set aside, of 48 |
# |---|---|---|---|
# | trained weights | 34 | 83 | 42 |
# | second control | 32 | 78 | 40 |
# | plain average | 29 | 78 | 34 |
#
# On the sentences set aside, the second control comes close to the trained weights, but on the open ones it does no
# better than the plain average. So our sentences do not settle how much of the lead comes from the sink and how much
# from selecting words, and a second look counts for less.
#
# ### Your experiment: two sentences
#
# Type in two sentences with "bank". The first row shows the cosine of their vectors. The other rows show the average
# cosine for pairs of our 35 sentences, with the same meaning and with different ones. In the two sentences in the cell,
# "bank" has different meanings, and yet after layer 6 their cosine is above the average for the *same* meaning. Can you
# find two sentences in which "bank" has the same meaning, but whose cosine after layer 6 is lower than in the last row?

# %% two-sentences
my_sentences = ["the bank closed at five", "a heron stood on the bank"]
mine = cosine(*vectors_of(encoder, "bank", my_sentences), dim=-1)
rows = {"mine": mine, "same meaning": same_meaning, "different": different_meaning}
pd.DataFrame(rows, places).T.round(2)

# %% what-it-shows [markdown]
# ## What this shows, and what it does not
#
# After which layer does the vector show which bank is meant? In most of our sentences it does so after the first layer,
# and in all of the clear ones from the second on. Does the vector owe this to attention? In one sense it does: without
# any head, no other word reaches "bank". But much of this needs no *selecting*: after its best layer, a plain average
# gets 29 of 35, and the trained weights get 34. In all three sets of sentences, the trained weights are ahead of both
# controls, by two to eight sentences. How much of this lead they owe to selecting we cannot say, because the MLPs were
# never trained with an average.
#
# Reading a property from the vectors inside a model is called [**probing**](glossary.ipynb#probe). Our results have
# three limits:
#
# - *It can be read* does not mean that *it is used*. We needed labels to find the two means. The model has no such
#   labels, and nothing here shows that a later layer makes use of the difference. To test that, one has to change the
#   vector and watch the model.
# - What can be read need not be the meaning. Without heads, it is only the position of "bank", and such a cue could
#   pass for a meaning.
# - One person wrote these sentences, for nine words. Sentences from books are less tidy.

# %% remember [markdown]
# ## What to remember
#
# - To read a meaning from a vector, compare it with the means of sentences whose meaning is known, and leave the
#   sentence itself out.
# - A control needs the same freedom: its own means, and its own best layer.
# - Give an interval with every count. If two methods are tested on the same sentences, count those where only one of
#   them is right.
# - A head that matters for one word need not matter for another, and a model may not depend on any single head.
# - Set sentences aside, decide what to count, and look once.
# - That something can be read from a vector does not show that the model uses it.

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
from attnlab.exercises import check_fooling_sentence, check_left_out
from attnlab.exercises import check_needed_sentences, check_removed_head


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
# Write `leans`: the lean of every sentence, measured against the means of all the *other* sentences. Vectors (N, 7, E)
# and a boolean tensor (N,) come in, and (N, 7) goes out.
#
# <details><summary>Hint</summary>
#
# A loop over the sentences is fine. <code>torch.arange(N) != i</code> is True for all the others. You can call
# <code>lean</code>.
# </details>


# %% tags=["exercise"]
def my_leans(vectors, is_first):
    """(N, 7, E), (N,) -> (N, 7)."""


# %%
check_left_out(my_leans)


# %% tags=["solution"] jupyter={"source_hidden": true}
def my_leans_solution(vectors, is_first):
    number = torch.arange(len(vectors))
    each = [
        lean(vectors[i], vectors[number != i], is_first[number != i]) for i in number
    ]
    return torch.stack(each)


check_left_out(my_leans_solution)

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
# Write a sentence with "bank" that every reader understands and the means do not. After layer 6, its vector must lean
# to the wrong side, measured against all 35 sentences of the lesson. Return the sentence and its meaning, "river" or
# "money". How many sentences did you have to try?
#
# <details><summary>Hint</summary>
#
# Put "bank" among words that go with its other meaning. <code>lean(vectors_of(encoder, "bank", [sentence])[0], vectors,
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


check_fooling_sentence(
    fooling_sentence_solution
).ok  # so that our sentence is not printed

# %% exercise-5 [markdown]
# ### 5 · Explain ★★ (6 minutes)
#
# An article reports: "After layer 3, we can read from the vector of a verb whether its sentence is in the past tense,
# in 95% of 2,000 sentences. So the model knows the tense from layer 3 on and uses it." Which two questions would you
# ask?
#
# <details><summary>An answer</summary>
#
# First: how well does a control with the same freedom do? The control could be the vectors before the first layer,
# where "went" already differs from "goes", or a model whose heads all average. If the control reaches nearly 95% as
# well, layer 3 has added little. Second: what happens if the property is removed from the vector, or replaced by the
# opposite one, present instead of past? If the output of the model then changes as it should, the model uses the
# property. If it does not change, the model may still get the tense from elsewhere.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# To change what a part of your own model passes on, use a hook: `module.register_forward_hook(function)` calls the
# function with the module, its input and its output. If the function returns something, the model continues with that
# as the output. A hook cannot change attention weights that have already been used: for that, you need an
# implementation of your own, such as our encoder, which calls `edit` before it uses the weights. In Hugging Face
# Transformers, `model(..., output_hidden_states=True)` returns the vectors before the first layer and after every
# layer, like our seven.

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
#   changes vectors inside a model and watches the output: a step from reading to using.
#
# To look up a word or an earlier claim, go to [0 · Start here](00_start_here.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.** The model and the lean: 9. The layers and the intervals: 9. The plain average and the pairs: 10. Order
# and the explorer: 8. Heads: 7. The sentences set aside, and the answer: 7.
#
# **Where a class stalls.** *"All 19 are right, so it always works":* let everyone toss a coin five times. In a class of
# 32, about two students will get the same side five times. *"The intervals overlap, so there is no difference":* the
# two models were tested on the same sentences, so compare them sentence by sentence. *"The average is nearly as good,
# so attention is useless":* the average is also a form of attention, with other weights, and the parameters around it
# were trained with the real one. *"We removed head 4 and nothing happened":* ask what else could have done its work.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** Why is a sentence left out of its own mean? **It pulls the mean towards itself.** *To save time:* it takes
# more time. *Because it may be mixed:* clear sentences are left out of their own mean as well.
#
# **2.** Why does the control get means of its own? **Its vectors lie elsewhere, so the means of another model measure
# something else.** *To make it look good:* it gets the same as the trained model, and no more.
#
# **3.** Two methods get 33 and 28 of the same 35 sentences right. What do you want to see? **In how many sentences only
# one of them is right.** *Whether the intervals overlap:* they do not use the fact that the sentences are the same.
#
# **4.** Each of 72 heads can be removed without loss. Can all of them be removed? **No.** *Yes, one after the other:*
# each removal was tested with the other 71 in place.
#
# **5.** A meaning can be read after layer 2. Does layer 3 use it? **We cannot tell.** *Yes, why else would it be
# there:* what helps us to tell two sentences apart may be of no use to the model.
# </details>
