# %% opening [markdown]
# # 14 · Where a meaning appears
#
# "The thief sailed to the bank with the gold." You know which bank is meant, although "thief" and "gold" suggest the
# other one. In lesson 5 we looked for this in the first attention layer of a trained model, and found nothing there
# that a plain average could not do. But the model has six layers.
#
# So let us follow "bank" through all six. **After which layer does its vector show which bank is meant, and does the
# vector owe this to attention?** The first half of the question has a quick answer. The second half takes up most of
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
# **Time:** 45 minutes in class, 80 alone.

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
# as a whole. Each of its six layers has two parts: attention with twelve heads, and then an
# [MLP](glossary.ipynb#MLP), which works on every token alone. Each part adds its result to the [residual
# stream](glossary.ipynb#residual-stream), and a norm follows. So every token has one vector that is changed six times.
# We get all seven: the vector before the first layer, and those after layers 1 to 6.
#
# We use the 35 sentences with "bank" from lesson 5. In 19 of them, which we call *clear*, all words go with one of the
# two banks. The other 16 are *mixed*: they also have words that suggest the wrong bank. `vectors_of` reads every sentence and keeps the seven vectors of "bank".

# %% all-banks
encoder, bank = load_encoder(), pd.read_csv(data_path("bank_sentences.csv"))
sentences, is_river = bank.sentence.tolist(), torch.tensor(bank.meaning == "river")
vectors = vectors_of(encoder, "bank", sentences)
vectors.shape  # (N, 7, E)

# %% helpers jupyter={"source_hidden": true}
places = ["before", *(f"after {layer}" for layer in range(1, 7))]
is_mixed = torch.tensor(bank.kind == "mixed")


def count(right):
    """Count the sentences on the correct side, by kind and place."""
    kinds = {"19 clear": ~is_mixed, "16 mixed": is_mixed, "all 35": is_mixed | True}
    rows = [right[kind].sum(dim=0) for kind in kinds.values()]
    return pd.DataFrame(torch.stack(rows), kinds, places)


def at_one_position(sentence, position=5):
    """Return the vectors of "bank" if all words have the same position: (7, E)."""
    tokens = encoder.tokens(sentence)
    positions = [0, *[position] * (len(tokens) - 2), len(tokens) - 1]
    found, _ = encoder(tokens, positions=positions)  # (7, 1, L, E)
    return found[:, 0, tokens.index("bank")]


def shuffled(sentence):
    """Return the words of a sentence in random order."""
    words = sentence.split()
    return " ".join(words[i] for i in torch.randperm(len(words)))


def read(rows, edit=None):
    """Return the vectors of one word in some rows (N, 7, E), and its meanings (N,)."""
    found = vectors_of(encoder, rows.word.iloc[0], rows.sentence.tolist(), edit=edit)
    return found, torch.tensor(rows.is_first.tolist())


# %% nearer [markdown]
# ## Nearer to which mean?
#
# How can we ask a vector which bank it means? We take the mean of the vectors from the river sentences, and the mean of
# those from the money sentences. Then we look which of the two is nearer. The **lean** of a vector is its cosine with
# the river mean, minus its cosine with the money mean. Above 0, it is nearer to river, and below 0 nearer to money.
#
# We try it on "the thief sailed to the bank with the gold". The means are made from the other 34 sentences.


# %% lean
def lean(vector, others, is_river):
    """How much nearer to the river mean: (7, E) -> (7,)."""
    river, money = others[is_river].mean(dim=0), others[~is_river].mean(dim=0)
    cosine = torch.nn.functional.cosine_similarity
    return cosine(vector, river, dim=-1) - cosine(vector, money, dim=-1)


i = sentences.index("the thief sailed to the bank with the gold")
rest = torch.arange(35) != i  # all the other sentences
lean(vectors[i], vectors[rest], is_river[rest])

# %% read-lean [markdown]
# The first number belongs to the vector before the first layer, and the last one to the vector after layer 6. The leans
# are small because all these vectors point in similar directions: even a river bank and a money bank have a cosine of
# about 0.9 on average. So we look at the sign. In this sentence, "bank" leans to the river at first, most of all after
# layer 1. After layer 6 it leans to money, which is wrong.
#
# Does it matter that the sentence itself was left out of the means? We can test this on the vectors before the first
# layer. There, nothing of the sentence has reached "bank" yet. All 35 vectors are the same, apart from the position of
# "bank" in its sentence.

# %% ask-included
predict("14/the-sentence-itself")


# %% see-included
# %%answer 14/the-sentence-itself
def is_right(leans):
    return (leans > 0) == is_river[:, None]  # (N, 7)


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
# This table is the quick half of the answer. But if we had written 35 other sentences, we would have counted other
# numbers. How different could they be? An [**interval**](glossary.ipynb#interval) answers this. It holds all the true
# rates at which a count like ours would not be surprising. We use the interval of Wilson, with the usual 95%: if you
# gave such intervals again and again, about 95% of them would hold the true rate. (This assumes independent sentences,
# and ours have one writer.)

# %% intervals
for correct, total in ((19, 19), (33, 35), (16, 35)):
    low, high = wilson_interval(correct, total)
    print(f"{correct} of {total}: {low:.2f} to {high:.2f}")

# %% read-intervals [markdown]
# Even 19 of 19 does not mean "always": a model that is wrong in one of six such sentences could manage it. And 16 of
# 35 is what guessing would give. (Another way to see what chance can do: we shuffle the 35 meanings at random, so that
# the means hold nothing. In 39 of 40 shuffles, at most 24 sentences come out right.)
#
# ## Does it owe this to attention?
#
# Six layers have mixed the words of the sentence into "bank", and mixing alone can go a long way. So we need the
# [control](glossary.ipynb#control) of lesson 5, the plain average. In all 72 heads, every token now gives the same
# weight to all tokens. Everything else stays: values, output projections, MLPs and norms.
#
# `edit` is called in every layer with the number of the layer, from 0, and its weights. The model continues with the
# weights that it returns.
#
# A control must have the same freedom as what it is compared with. The vectors of the average lie elsewhere, so we do
# not measure them against the means of the trained model. They get means of their own.


# %% plain-average
def plain_average(layer, weights):  # weights: (1, H, L, L)
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
ax.set(ylabel="share of the 35 sentences", title="A plain average comes close")
ax.legend(loc="lower right")
show_figure(ax, "14.1")

# %% overlap [markdown]
# At each place, the two intervals overlap. But both were tested on the *same* sentences. A sentence in which both are
# right, or both are wrong, says nothing about the difference. So we count the others.

# %% paired
only_trained = (trained_right & ~average_right).sum(dim=0)
only_average = (average_right & ~trained_right).sum(dim=0)
differing = torch.stack([only_trained, only_average])
pd.DataFrame(differing, ["only trained", "only average"], places)

# %% read-paired [markdown]
# After layer 1, ten sentences are right with the trained weights only, and one with the average only. If both were
# equally good, each of these eleven would be like the toss of a coin. A result at least as one-sided as ten to one
# would then come up about once in 85 times. (With six layers to look at, that is not quite as rare.) After layer 6 it
# is five to one, which would come up about once in five times, so we cannot build on that.
#
# In lesson 5, a plain average did as well as attention in this first layer. But there, we compared what the heads add
# with lists of water and money words. Here the MLP takes part too, and the means come from sentences.
#
# We must be careful for another reason. The MLPs and norms were trained with these attention weights, and never with an
# average. A model that was trained to average might do better, so our control can make attention look more important
# than it is.
#
# ## Does the order of the words matter?
#
# We can remove the order of the words in two ways. We can give all words the same position, so that nothing says where
# they stand. (The two markers keep their positions.) Or we can shuffle the words. Again, each change gets means of its
# own.

# %% ask-order
predict("14/without-order")

# %% see-order
# %%answer 14/without-order
changed = {"as written": vectors}
changed["same position"] = torch.stack([at_one_position(one) for one in sentences])
for seed in range(4):
    torch.manual_seed(seed)
    texts = [shuffled(one) for one in sentences]
    changed[f"shuffled, seed {seed}"] = vectors_of(encoder, "bank", texts)
by_change = [is_right(leans(one, is_river)).sum(dim=0) for one in changed.values()]
pd.DataFrame(torch.stack(by_change), changed, places).drop(columns="before")

# %% explore [markdown]
# ### Your experiment: from layer to layer
#
# The explorer begins with a sentence from lesson 5. The curve on the right shows how far "bank" leans to
# either side, and the bars on the left what it attends to in the chosen layer. Move the layer from 0 to 6. In which
# layer does "bank" attend most to "robbed"? Which side does it lean to in the end?

# %% explorer
LayersExplorer(ask=False)

# %% heads [markdown]
# <details><summary>The answer</summary>
#
# On average over the heads, "robbed" gets most weight in layer 1. Yet after this layer "bank" leans to the river. From
# layer 4 on it leans to money, but only a little.
# </details>
#
# ## Which heads does it need?
#
# In lesson 5, head 4 of the first layer stood out: from "bank", the clue gets more weight than from any of 5,000 other
# words, on average. Does the model need it? We take it out, as in lesson 12. If `edit` sets the weights of a head to 0,
# the head adds nothing. All later layers work with what is left.


# %% without
def without(number, head):
    def edit(layer, weights):  # weights: (1, H, L, L)
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
# ### All 72 heads
#
# A count of 35 is a coarse measure, so the figure shows the mean lean, and this time its size counts. (A lean to the
# correct side is positive here.) Each head was removed in turn, for "bank" and for eight words that we will meet below.
#
# No single head is needed. Whichever of the 72 we remove, 31 to 33 of the 35 sentences are right. But for "bank", head
# 4 of the first layer matters most: without it, the mean lean falls by a quarter. This is the head that we found in
# lesson 5, for this word and mostly on these sentences. For the eight other words, we would not have found it. Without
# it, their mean lean even rises a little, and other heads matter more.
#
# And if only one head is left? Without any head, 23 of 35 sentences are right, which is no more than chance can do.
# With one head alone it is 21 to 29, and the 29 belong to head 4 of the first layer. (The best of 72 counts is partly
# luck, though.) If the other 71 heads average instead, 27 to 29 are right, and 28 if all of them average. So no head
# carries the meaning alone. As in lesson 12, if a removal changes hardly anything, another part may do the same work.
#
# ## More words, and sentences set aside
#
# Everything so far was about one word, and we have looked at its sentences many times. So we wrote sentences for eight
# other words, among them "match", "seal" and "spring". Each word has 18, nine for either meaning. Twelve of them are
# open to us. The other six were drawn by lot and set aside before the model had read any of them. First the open ones:

# %% open-words
words = pd.read_csv(data_path("two_meanings.csv"))
words["is_first"] = words.meaning == words.groupby("word").meaning.transform("first")
seen, aside = words[words.part == "open"], words[words.part == "aside"]


def count_open(edit=None):
    each = [read(rows, edit) for _, rows in seen.groupby("word")]
    return sum(((leans(*one) > 0) == one[1][:, None]).sum(dim=0) for one in each)


of_96 = torch.stack([count_open(), count_open(plain_average)])
pd.DataFrame(of_96, ["trained", "average"], places)

# %% read-open [markdown]
# These sentences are harder, and again the average is not far behind. For the sentences set aside, we have to decide
# *now* what we will count, or we could pick the best layer afterwards. We take the layer that was best on the open
# sentences, and give the control the same right. The trained model is tested after layer 6, and the average after layer
# 4. The means come from the open sentences alone. And we look only once.


# %% look-once
def on_aside(place, edit=None):
    right = []
    for word, rows in aside.groupby("word"):
        new, is_first = read(rows, edit)
        found = lean(new, *read(seen[seen.word == word], edit))  # (6, 7)
        right += ((found[:, place] > 0) == is_first).tolist()
    return torch.tensor(right)  # (48,)


trained_aside, average_aside = on_aside(6), on_aside(4, plain_average)
for correct in (int(trained_aside.sum()), int(average_aside.sum())):
    print(correct, "of 48, {:.2f} to {:.2f}".format(*wilson_interval(correct, 48)))
print("only trained:", (trained_aside & ~average_aside).sum().item())
print("only average:", (average_aside & ~trained_aside).sum().item())

# %% read-once [markdown]
# On sentences that had not been looked at, the trained model is as good as on the open ones: 42 of 48 are right, after
# 83 of 96. The average loses, from 78 of 96 to 34 of 48. In ten sentences only the trained model is right, and in two
# only the average. If both were equally good, a result at least as one-sided would come up about once in 26 times. This
# is more convincing than the open sentences were, where it was 13 to 8. But it is one look at 48 sentences.
#
# ### Your experiment: two sentences
#
# Type in two sentences with "bank". The first row shows the cosine of their vectors. The other rows show the mean over
# all pairs of our 35 sentences with the same meaning, and with different ones. Can you find two sentences with the same
# meaning whose cosine is below the last row?

# %% pairs jupyter={"source_hidden": true}
cosine = torch.nn.functional.cosine_similarity
of_pairs = cosine(vectors[:, None], vectors[None], dim=-1)  # (N, N, 7)
same = is_river[:, None] == is_river
no_pair = torch.eye(35, dtype=torch.bool)  # a sentence with itself
same_meaning = of_pairs[same & ~no_pair].mean(dim=0)
different_meaning = of_pairs[~same].mean(dim=0)

# %% two-sentences
my_sentences = ["the bank closed at five", "a heron stood on the bank"]
mine = cosine(*vectors_of(encoder, "bank", my_sentences), dim=-1)
rows = {"mine": mine, "same meaning": same_meaning, "different": different_meaning}
pd.DataFrame(rows, places).T.round(2)

# %% what-it-shows [markdown]
# ## What this shows, and what it does not
#
# After which layer does the vector show which bank is meant? In our sentences mostly after the first, and in all of the
# clear ones from the second on. Does the vector owe this to attention? It owes most of it to mixing, which a plain
# average can do as well. The trained weights add to that: we saw it clearly after the first layer, and once more on the
# sentences set aside.
#
# Reading a property from the vectors inside a model is called [**probing**](glossary.ipynb#probe), and there are things
# that it cannot show:
#
# - *It can be read* does not mean that *it is used*. We needed labels to find the two means. The model has no such
#   labels, and nothing here shows that a later layer makes use of the difference. To test that, one has to change the
#   vector and watch what the model does.
# - What can be read need not be the meaning. In our sentences, "in spring" is always the season, and a mean may have
#   noticed the small word instead.
# - One person wrote these sentences, for nine words. Sentences from books are less tidy.

# %% remember [markdown]
# ## What to remember
#
# - To read a meaning from a vector, compare it with the means of sentences whose meaning is known, and leave the
#   sentence itself out.
# - A control needs the same freedom: its own means, and its own best layer.
# - Give an interval with every count. If two methods are tested on the same sentences, count those where only one of
#   them is right.
# - A head that matters for one word need not matter for another, and a model may need none of its heads alone.
# - Set sentences aside, decide what to count, and look once.
# - That something can be read from a vector does not show that the model uses it.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (4 minutes)
#
# A model gets all of your sentences right. How many sentences do you need at least, so that the interval of Wilson lies
# above 0.9?
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
# Write `leans`: the lean of every sentence, by the means of all the *other* sentences. Vectors (N, 7, E) and a boolean
# tensor (N,) come in, and (N, 7) goes out.
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
# Which number does the second layer have? And what do the axes of the weights, (1, H, L, L), stand for?
# </details>


# %% tags=["exercise"]
def careless(layer, weights):
    if layer == 2:
        weights[:, :, 3] = 0
    return weights


def careful(layer, weights):
    """(1, H, L, L) -> (1, H, L, L)."""


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
# Put "bank" among words that go with the other one. <code>lean(vectors_of(encoder, "bank", [sentence])[0], vectors,
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
# An article reports: "After layer 3, we can read from the vector of a verb whether its sentence is in the past, in 95%
# of 2,000 sentences. So the model knows the tense from layer 3 on and uses it." Which two questions do you ask?
#
# <details><summary>An answer</summary>
#
# First: what does a control reach, with the same freedom? For example the vectors before the first layer, where "went"
# already differs from "goes", or a model whose heads all average. If they reach nearly 95% as well, layer 3 has added
# little. Second: what happens if the property is removed from the vector, or replaced by the other one? Only if the
# output of the model then changes as it should, is it used.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# To change the weights inside a model of your own, use a hook: `module.register_forward_hook(function)` calls the
# function with the module, its input and its output, and continues with what the function returns. In Hugging Face
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
# have also asked, again and again, what its weights show. From here, these texts lead on:
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017. You can read it from the first
#   page to the last now.
# - Elhage et al., [A Mathematical Framework for Transformer
#   Circuits](https://transformer-circuits.pub/2021/framework/index.html), 2021, on the residual stream and on what
#   heads do together.
# - Meng et al., [Locating and Editing Factual Associations in GPT](https://arxiv.org/abs/2202.05262), 2022, which
#   changes vectors inside a model and watches the output: a step from reading to using.
#
# To look up a word or an earlier claim, go to [0 · Start here](00_start_here.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.** The model and the lean: 8. The layers and the intervals: 8. The plain average and the pairs: 9. Order
# and the explorer: 8. Heads: 6. The sentences set aside, and the answer: 6.
#
# **Where a class stalls.** *"All 19 are right, so it always works":* let everyone toss a coin five times. In a class of
# 32, about two students will get the same side five times. *"The intervals overlap, so there is no difference":* the two were
# tested on the same sentences, so compare them sentence by sentence. *"The average is nearly as good, so attention is
# useless":* the average is also a form of attention, with other weights, and the parameters around it were trained with
# the real one. *"We removed head 4 and nothing happened":* ask what else could have done its work.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the wrong answers are tempting</summary>
#
# **1.** Why is a sentence left out of its own mean? **It pulls the mean towards itself.** *To save time:* it takes
# more time. *Because it may be mixed:* clear sentences are left out of their own mean as well.
#
# **2.** Why does the control get means of its own? **Its vectors lie elsewhere, and measured by foreign means it would
# look worse than it is.** *To make it look good:* it gets the same as the trained model, and no more.
#
# **3.** Two methods get 33 and 28 of the same 35 sentences right. What do you want to see? **In how many sentences only
# one of them is right.** *Whether the intervals overlap:* they do not use the fact that the sentences are the same.
#
# **4.** Each of 72 heads can be removed without loss. Can all of them be removed? **No.** *Yes, one after the other:*
# each removal was tested with the other 71 in place.
#
# **5.** A meaning can be read after layer 2. Does layer 3 use it? **We cannot tell.** *Yes, why else would it be there:*
# what helps to tell two sentences apart for us may be of no use to the model.
# </details>
