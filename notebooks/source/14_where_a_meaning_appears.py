# %% opening [markdown]
# # 14 · Where a meaning appears
#
# “The thief sailed to the bank with the gold.” You know which bank is meant, although *thief* and *gold* suggest the
# other one. The first attention layer of a trained model cannot know it: in a first layer, no third word can change the
# score of “bank” for “sailed”. But the model has six layers.
#
# So let us follow “bank” through all six. **Which layer knows which bank is meant, and does anything use it?**
#
# **You need:** [lesson 10](10_one_real_attention_layer.ipynb) (the trained layer, its sink, and controls) and
# [lesson 12](12_two_layers_that_look_back.ipynb) (the residual stream).
#
# **You will be able to:** read a meaning from vectors, layer by layer, give a control the same freedom as the method it
# is compared with, say how much 35 sentences can show, and test whether other words take up what can be read.
#
# **Time:** 50 minutes in class, or 90 on your own with the exercises. “Further” takes another 8.

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
# token separately. Each part adds its result to the token’s vector, and a norm follows. (In lesson 12, the norm came
# before each part.) We look at the vectors before the first layer and after each of the layers 0 to 5.
#
# We use the 35 sentences with “bank” from lesson 5. In 19 of them, which we call *clear*, every clue points to the
# right meaning. The other 16 are *mixed*: they also have words that suggest the wrong one.

# %% all-banks
encoder = load_encoder()
bank = pd.read_csv(data_path("bank_sentences.csv"))
sentences = bank.sentence.tolist()
is_river = torch.tensor(bank.meaning == "river")
is_mixed = torch.tensor(bank.kind == "mixed")
vectors = vectors_of(encoder, "bank", sentences)
vectors.shape  # (N, 7, E)

# %% nearer [markdown]
# ## Nearer to which mean?
#
# We take the mean of the vectors from the river sentences, and the mean of
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
# The first number belongs to the vector before the first layer, and the last one to the vector after layer 5. All are
# small, because the two means point in nearly the same direction. So we look at the sign. After layer 0, “bank” leans
# to the river, which is right. After layer 5, it leans to money, which is wrong.
#
# Now we do the same for all 35 sentences. Before the first layer, nothing from the rest of the sentence has reached
# “bank” yet. Its 35 vectors differ only because “bank” has different positions. We count twice: in one version, every
# sentence is part of its own mean, and in the other, it is left out.

# %% ask-included
predict("14/the-sentence-itself")


# %% see-included
# %%answer 14/the-sentence-itself
def leans(vectors, is_river):
    """The lean of each sentence, by the means of all the others."""
    results = []
    for i, vector in enumerate(vectors):
        rest = torch.arange(len(vectors)) != i
        results.append(lean(vector, vectors[rest], is_river[rest]))
    return torch.stack(results)


def is_right(lean_to_river):
    return (lean_to_river > 0) == is_river[:, None]  # (35, 7)


included, left_out = lean(vectors, vectors, is_river), leans(vectors, is_river)
is_right(included)[:, 0].sum().item(), is_right(left_out)[:, 0].sum().item()

# %% leave-out [markdown]
# With its own sentence in the mean, “bank” is on the correct side in 24 of 35 sentences, although there is nothing to
# read. If the sentence is left out, 16 are right, which is about what guessing would give. The vectors are so similar
# here that the small pull of a vector on its own mean often decides. So from here on, each sentence is left out.
#
# ## Through the layers
#
# In layer 0, “bank” attends to the other words for the first time.

# %% ask-layers
predict("14/after-one-layer")

# %% see-layers
# %%answer 14/after-one-layer
places = ["before", *(f"layer {number}" for number in range(6))]
kinds = {"19 clear": ~is_mixed, "16 mixed": is_mixed, "all 35": is_mixed | ~is_mixed}
trained_right = is_right(left_out)
rows = [trained_right[kind].sum(dim=0) for kind in kinds.values()]
pd.DataFrame(torch.stack(rows), [*kinds], places)

# %% draw-leans jupyter={"source_hidden": true}
# %%answer 14/after-one-layer
import matplotlib.pyplot as plt

to_own_side = left_out * torch.where(is_river, 1, -1)[:, None]  # (35, 7)
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.2), sharey=True, layout="constrained")
for ax, (title, kind) in zip(axes, list(kinds.items())[:2], strict=True):
    ax.plot(to_own_side[kind].T, color="#0b61a4", lw=1, alpha=0.55)
    ax.axhline(0, color="#333", lw=1)
    ax.axhspan(-0.1, 0, color="#c8500a", alpha=0.1, lw=0)
    ax.set(title=f"{title} sentences", xlabel="after layer", ylim=(-0.08, 0.13))
    ax.set_xticks(range(7), ["before", *range(6)])
axes[0].set_ylabel("lean to the right side")
axes[0].text(6, -0.07, "wrong side", color="#8a3606", ha="right")
axes[1].plot(to_own_side[thief], "o-", color="#c8500a", ms=4)
axes[1].text(6.1, to_own_side[thief, -1], "thief", color="#8a3606", va="center")
show_figure(fig, "14.1")

# %% read-layers [markdown]
# After layer 0, 29 of the 35 are right. The clear ones are nearly all told apart by then, and after layer 1 all of them
# are. Of the mixed ones, at most 15 are right, after layer 3.
#
# Figure 14.1 shows the leans themselves. Most of them grow up to layer 2 and then stay on their side. The thief’s bank
# never gets far: after layers 3 and 4, its lean is about as small as before the first layer, where nothing can be known.
#
# ### Your experiment: from layer to layer
#
# “The thief robbed the bank by the river” is about money. The bars show what “bank” attends to in the chosen layer, on
# average over the twelve heads; you can also choose one head. The curves show its lean and those of the two means.
# In which layer does “robbed” get the most weight? Which side does the vector lean to after that layer, and at the end?
# Then type a sentence of your own.

# %% explorer
LayersExplorer(layer=1, ask=False)

# %% use-it [markdown]
# <details><summary>The answer</summary>
#
# In layer 0, “robbed” gets 0.24, nearly twice as much as “river”. Yet after this layer “bank” leans to the river. From
# then on, it stays near the middle between the two means: the model does not settle on either side.
# </details>
#
# ## How much can 35 sentences show?
#
# If we had written 35 other sentences, we would have got different counts. Suppose that
# the model is right in some fixed share of all such sentences, the *true rate*, which we do not know. An
# [**interval**](glossary.ipynb#interval) contains all the true rates that could well have given our count. We use the
# Wilson interval at the usual level of 95%: if you computed such intervals again and again, about 95% of them would
# contain the true rate. (This assumes independent sentences, and ours have one writer.)

# %% intervals
for correct, total in ((19, 19), (29, 35), (16, 35)):
    low, high = wilson_interval(correct, total)
    print(f"{correct} of {total}: {low:.2f} to {high:.2f}")

# %% read-intervals [markdown]
# Even 19 of 19 does not mean “always”. But 29 of 35 is clearly more than guessing.
#
# ## Is this due to attention?
#
# Six layers have mixed the words of the sentence into “bank”. Would mixing be enough, without any selecting? To find
# out, we take the [control](glossary.ipynb#control) of lesson 5, the plain average. In all 72 heads, every token now
# gives the same weight to all tokens. Everything else stays: values, output projections, MLPs and norms.
#
# We pass a function as `edit`. In every layer, the model calls it with the number of the layer and its attention
# weights, and continues with the weights that it returns. A control must have the same freedom as the method it is
# compared with, so the averaging model gets means of its own.

# %% ask-average
predict("14/every-head-averages")


# %% see-average
# %%answer 14/every-head-averages
def plain_average(layer, weights):  # weights: (N, H, L, L)
    return torch.full_like(weights, 1 / weights.shape[-1])


average = vectors_of(encoder, "bank", sentences, edit=plain_average)
average_right = is_right(leans(average, is_river))
rows = [trained_right.sum(dim=0), average_right.sum(dim=0)]
pd.DataFrame(torch.stack(rows), ["trained weights", "plain average"], places)

# %% draw-squares jupyter={"source_hidden": true}
# %%answer 14/every-head-averages
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

outcome = (2 * trained_right.long() + average_right.long())[:, 1:]  # (35, 6)
looks = {
    "both": "#e6e8ea",
    "only the trained weights": "#0b61a4",
    "only the average": "#e8893c",
    "neither": "#6d757c",
}
shades = ListedColormap([*looks.values()][::-1])
fig, axes = plt.subplots(1, 2, figsize=(7.4, 2.1), width_ratios=[19, 16])
fig.set_layout_engine("constrained")
for ax, (title, kind) in zip(axes, list(kinds.items())[:2], strict=True):
    squares = outcome[kind]
    order = squares.sum(dim=1).argsort(descending=True, stable=True)
    ax.pcolormesh(squares[order].T, cmap=shades, vmin=0, vmax=3, edgecolors="w", lw=1.5)
    ax.set(title=f"{title} sentences", xticks=[], ylim=(6, 0), aspect="equal")
    ax.set_yticks([0.5 + n for n in range(6)], places[1:])
    ax.spines[:].set_visible(False)
axes[1].set_yticks([])
handles = [Patch(color=shade, label=name) for name, shade in looks.items()]
fig.legend(handles=handles, loc="outside lower center", ncols=4)
show_figure(fig, "14.2")

# %% overlap [markdown]
# After layer 5, the average gets 28 of 35 right, and the trained weights get 32. Is that a difference? Both were tested
# on the *same* sentences, so only those in which one is right and the other wrong count. In Figure 14.2, they are blue
# and orange. There are far more blue squares than orange ones, and the difference is the *lead* of the trained weights.
#
# Could such a lead be luck? If both were equally good, a coin might as well decide which of them gets the results of
# the other. So we toss one coin for each sentence, for all its six squares at once, because they are not independent.
# We do this 100,000 times, and count how often the lead gets as large as ours, to either side.


# %% coins
def lead_and_luck(ours, theirs):
    """The lead over all layers, and how often coins give at least as large a one."""
    leads = (ours.float() - theirs.float()).sum(dim=1)  # of each sentence
    generator = torch.Generator().manual_seed(0)
    coins = torch.randint(2, (100_000, len(leads)), generator=generator) * 2.0 - 1
    as_large = (coins @ leads).abs() >= leads.sum()
    return (
        f"lead {leads.sum():.0f}, by luck in {as_large.float().mean():.2%} of the tries"
    )


lead_and_luck(trained_right, average_right)

# %% read-coins [markdown]
# By convention, a result that luck gives in fewer than 5% of the tries is taken seriously.
# So the trained weights do better than the plain average.
#
# ### A milder control
#
# Is it because they choose among the words? The plain average also takes away two other things: the weight of a token
# on itself, and the sinks of lesson 10. A milder control keeps both. Each token keeps its weights on itself, on `[CLS]`
# and on `[SEP]`, and only the rest is shared equally.


# %% milder
def shared_rest(layer, weights):
    kept = torch.eye(weights.shape[-1], dtype=torch.bool)
    kept[:, [0, -1]] = True  # [CLS] and [SEP]
    rest = (weights * ~kept).sum(dim=-1, keepdim=True)
    return torch.where(kept, weights, rest / (~kept).sum(dim=-1, keepdim=True))


milder_right = is_right(
    leans(vectors_of(encoder, "bank", sentences, edit=shared_rest), is_river)
)
print("all layers:   ", lead_and_luck(trained_right, milder_right))
print("layers 3 to 5:", lead_and_luck(trained_right[:, 4:], milder_right[:, 4:]))
rows = [right.sum(dim=0) for right in (trained_right, milder_right, average_right)]
pd.DataFrame(
    torch.stack(rows), ["trained weights", "milder control", "plain average"], places
)

# %% read-milder [markdown]
# The trained weights lead the milder control, too, and luck rarely gives a lead of this size. Nearly three quarters of this lead
# come from layers 0 to 2. So there, it helps to choose among the words, at least where positions disturb an average
# (“Further” takes them away).
#
# After layers 3 to 5, the milder control is close behind. What is left of the lead could well be luck. So at the end,
# 35 sentences are too few to tell whether choosing helps. (And the MLPs and norms were trained together with the
# trained weights. A model that was trained to average might do better than either control.)
#
# ## Does anything use it?
#
# That a meaning can be read from a vector does not show that the model uses it. We needed labels to find the two means,
# and the model has none. To test it, we change the vector of “bank” and watch the rest. This is called
# [**activation patching**](glossary.ipynb#activation-patching).
#
# Before layer 2, we take out the vector of “bank” and put in the one that “bank” has in another sentence, the *donor*.
# The remaining layers then run as usual. At the end we look at the **other words**: the mean of their vectors, without
# the markers, “bank”, and the first word, which we shall need. We compute their lean in the same way. The two means
# now come from the other words of all the other sentences.

# %% other-words
tokens = [encoder.tokens(sentence) for sentence in sentences]
unchanged = [encoder(pieces)[0][:, 0] for pieces in tokens]  # (7, L, E) each
of_bank = [pieces.index("bank") for pieces in tokens]
of_first_word = [1] * 35  # [CLS] is at position 0


def other_words(x, i):
    """Average the other words of sentence i: (n, L, E) -> (n, E)."""
    places = range(2, len(tokens[i]) - 1)
    return x[:, [place for place in places if place != of_bank[i]]].mean(dim=1)


others = torch.cat([other_words(x[-1:], i) for i, x in enumerate(unchanged)])  # (35, E)
side = torch.where(is_river, 1, -1)
own_lean = (leans(others, is_river) * side).mean()  # to their own side, on average

# %% the-swap [markdown]
# Each of the 34 other sentences is the donor in turn. Any foreign vector disturbs a sentence, because it comes from
# other words and another position. So donors of the *right* meaning are the control for those of the wrong one.


# %% swap
def swap(i, number, position):
    """Sentence i with the vector of each donor, before a layer: (35, E)."""
    x = unchanged[i][number].repeat(35, 1, 1)  # (35, L, E)
    x[:, position[i]] = torch.stack(
        [unchanged[j][number, position[j]] for j in range(35)]
    )
    for layer in encoder.layers[number:]:
        x, _ = layer(x)
    return other_words(x, i)


# %% ask-swap
predict("14/a-foreign-bank")


# %% see-swap
# %%answer 14/a-foreign-bank
def effect(number, position):
    """Change of lean (%) of each sentence, by wrong and by right donors."""
    wrong, right = [], []
    for i in range(35):
        same, rest = is_river == is_river[i], torch.arange(35) != i
        lean_now = lean(swap(i, number, position), others[rest], is_river[rest])
        change = (lean_now - lean_now[i]) * side[i]  # its own vector changes nothing
        wrong.append(change[~same].mean())
        right.append(change[same & rest].mean())
    return 100 * torch.stack(wrong) / own_lean, 100 * torch.stack(right) / own_lean


wrong, right = effect(2, of_bank)
print(f"wrong donors {wrong.mean():.1f}%, right donors {right.mean():.1f}%")
print(f"wrong below right in {(wrong < right).sum()} of 35 sentences")

# %% read-swap [markdown]
# A “bank” of the wrong meaning takes away about 9% of the mean lean of the other words, and one of the right meaning
# leaves the lean nearly as it is. The difference is about 10 points, and it has the same sign in 34 of the 35 sentences.
#
# Is this special to “bank”? Other words have also taken up something from the river or the money, so that their vectors differ, too.
# We test two controls in the same way. One puts in the *first word* of the donor, such as “the” or “she”, for the first
# word of the sentence. The other puts in “bank” before layer 0, where its vector shows nothing but its position. The
# last column of the table counts sentences.

# %% controls
swaps = {
    "“bank”, before layer 2": (wrong, right),
    "first word, before layer 2": effect(2, of_first_word),
    "“bank”, before layer 0": effect(0, of_bank),
}
rows = []
for by_wrong, by_right in swaps.values():
    means = [f"{x.mean():.1f}" for x in (by_wrong, by_right, by_right - by_wrong)]
    rows.append([*means, (by_wrong < by_right).sum().item()])
columns = ["wrong donors (%)", "right donors (%)", "difference", "wrong < right"]
pd.DataFrame(rows, [*swaps], columns)

# %% draw-swap jupyter={"source_hidden": true}
import seaborn as sns

differences = {name: (right - wrong).tolist() for name, (wrong, right) in swaps.items()}
_, ax = plt.subplots(figsize=(7.4, 2.6), layout="constrained")
palette = ["#0b61a4", "#6d757c", "#6d757c"]
sns.swarmplot(differences, orient="h", palette=palette, size=5, ax=ax)
ax.axvline(0, color="#333", lw=1)
ax.set(xlabel="right − wrong donors (points of lean)")
show_figure(ax, "14.3")

# %% read-controls [markdown]
# The effect of the first word is less than a quarter as large. But if we had only counted sentences, it would look just
# like that of “bank”: 34 of 35. And before layer 0, where there is nothing to take up, the two kinds of donors do not
# differ.
#
# So the other words do take up what layers 0 and 1 have written into “bank”. It is not much; these words
# also attend to one another, and their own clues are still there. Whether they *need* it is another question, which
# exercise 2 asks.
#
# ## What this shows, and what it does not
#
# Which layer knows which bank is meant? In most of our sentences, it can be read after layer 0, and in all of the clear
# ones after layer 1. There, choosing among the words helps: an average of them does worse. The thief is an exception:
# its “bank” leans to the river at first, and to money in the end.
#
# Does anything use it? Yes: put another “bank” into the sentence, and the other words follow it, by about a tenth of
# their lean.
#
# To read a property from the vectors inside a model is called [**probing**](glossary.ipynb#probe). It has a limit that
# patching shares: what we call the meaning of “bank” may be the topic of its sentence, which the first word carries a
# little as well. And one person wrote these sentences.

# %% further-order [markdown]
# ## Further
#
# ### Do the positions matter?
#
# We give all words the same position (the two markers keep theirs), so that no vector shows where its word stands. We do
# this with the trained weights and with the plain average, and each gets means of its own.


# %% see-order
def at_one_position(sentence, edit=None):
    pieces = encoder.tokens(sentence)
    positions = [0, *[5] * (len(pieces) - 2), len(pieces) - 1]
    read, _ = encoder(pieces, positions=positions, edit=edit)  # (7, 1, L, E)
    return read[:, 0, pieces.index("bank")]


rows = []
for edit in (None, plain_average):
    unplaced = torch.stack([at_one_position(sentence, edit) for sentence in sentences])
    rows.append(
        is_right(leans(unplaced, is_river)).sum(dim=0)[1:]
    )  # before, all are equal
pd.DataFrame(torch.stack(rows), ["trained weights", "plain average"], places[1:])

# %% further-words [markdown]
# Without positions, more sentences are right after layer 0: 31 instead of 29 with the trained weights, and 27 instead
# of 20 with the average. So much of the lead after layer 0 is due to the positions, which disturb the average more. In
# most of our sentences, the words alone are enough to tell which bank is meant.
#
# ### Eight other words
#
# The file `two_meanings.csv` has 144 sentences with eight other words, such as *a seal was lying on the ice*. We
# compare the trained weights and both controls again.


# %% other-eight
def right_of_144(edit):
    right = []
    for word, rows in pd.read_csv(data_path("two_meanings.csv")).groupby("word"):
        of_word = vectors_of(encoder, word, rows.sentence.tolist(), edit=edit)
        is_first = torch.tensor(rows.meaning.to_numpy() == rows.meaning.iloc[0])
        right.append((leans(of_word, is_first) > 0) == is_first[:, None])
    return torch.cat(right)  # (144, 7)


edits = {
    "trained weights": None,
    "milder control": shared_rest,
    "plain average": plain_average,
}
rights = [right_of_144(edit) for edit in edits.values()]
print("layers 3 to 5:", lead_and_luck(rights[0][:, 4:], rights[1][:, 4:]))
pd.DataFrame(torch.stack([right.sum(dim=0) for right in rights]), [*edits], places)

# %% read-eight [markdown]
# Even before the first layer, 88 of the 144 are right, where guessing would give about 72. In these sentences, the
# position of a word already says a little about its meaning, so the other numbers have to be compared with 88.
#
# Here, the trained weights are ahead of both controls after every layer, and also after layers 3 to 5 by more than
# luck would give. So with more sentences, we can tell: choosing among the words helps in the later layers as well.

# %% remember [markdown]
# ## What to remember
#
# - To read a meaning from a vector, compare it with the means of sentences whose meaning is known, and leave the
#   sentence itself out.
# - A control needs the same freedom as the method it is compared with, such as means of its own. A milder control takes
#   away less, so it says more about what is left.
# - Give an interval with every count. If two methods are tested on the same sentences, count those where only one of
#   them is right.
# - That something can be read from a vector does not show that the model uses it. To find out, put in the vector of
#   another sentence and watch the rest.
# - A count of sentences says that an effect is regular, and not that it is large. Compare its size with that of a swap
#   that should do nothing.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Compute ★ (4 minutes)
#
# A model gets all of your sentences right. What is the smallest number of sentences for which the whole Wilson interval
# lies above 0.9?
#
# <details><summary>Hint</summary>
#
# Try some numbers with <code>wilson_interval(n, n)</code>.
# </details>

# %%
from attnlab.exercises import check_fooling_sentence, check_hidden_token
from attnlab.exercises import check_needed_sentences, check_removed_head


# %% tags=["exercise"]
def needed_sentences():
    """Return the number of sentences."""


# %%
check_needed_sentences(needed_sentences)


# %% tags=["solution"]
def needed_sentences_solution():
    n = 1
    while wilson_interval(n, n)[0] <= 0.9:
        n += 1
    return n


check_needed_sentences(needed_sentences_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (12 minutes)
#
# The swap shows that the other words take something up from “bank”. Do they also need it? Write a function that hides
# one token: no *other* token may attend to it any more, and their other weights keep their proportions. The hidden
# token keeps its whole row.
#
# When your function passes the check, hide “bank” in all six layers of each sentence. How does this change the mean
# lean of the other words? As a control, hide the first word.
#
# <details><summary>Hint</summary>
#
# Make a boolean (L, L) tensor that is True where a weight must go. Set these weights to 0, and divide each row by its
# sum. <code>encoder(tokens[i], edit=edit)[0][:, 0]</code> gives the vectors of sentence i, of shape (7, L, E).
# </details>


# %% tags=["exercise"]
def hide_token(weights, position):
    """(N, H, L, L) -> (N, H, L, L)."""


# %%
check_hidden_token(hide_token)


# %% tags=["solution"]
def hide_token_solution(weights, position):
    gone = torch.zeros(weights.shape[-2:], dtype=torch.bool)
    gone[:, position] = True
    gone[position, position] = False
    weights = weights.masked_fill(gone, 0)
    return weights / weights.sum(dim=-1, keepdim=True)


check_hidden_token(hide_token_solution)


# %% tags=["solution"]
# The lean hardly changes: the other words take up what “bank” says, but they do not need it.
def hiding(position):
    return lambda layer, weights: hide_token_solution(weights, position)


def mean_lean_without(positions):
    results = []
    for i, (pieces, position) in enumerate(zip(tokens, positions, strict=True)):
        x = encoder(pieces, edit=hiding(position))[0][:, 0]  # (7, L, E)
        rest = torch.arange(35) != i
        results.append(
            lean(other_words(x[-1:], i)[0], others[rest], is_river[rest]) * side[i]
        )
    return torch.stack(results).mean().item()


mean_leans = [
    own_lean.item(),
    mean_lean_without(of_bank),
    mean_lean_without(of_first_word),
]
pd.DataFrame(
    [mean_leans], ["mean lean"], ["nothing hidden", "“bank”", "first word"]
).round(3)

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


# %% tags=["solution"]
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
# Put “bank” among words that go with its other meaning. <code>lean(vectors_of(encoder, "bank", [sentence])[0], vectors,
# is_river)</code> gives the leans.
# </details>


# %% tags=["exercise"]
def fooling_sentence():
    """Return (sentence, meaning)."""


# %%
check_fooling_sentence(fooling_sentence)


# %% tags=["solution"]
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
# as the output. This is how a vector is put in.
#
# You can change attention weights only if they pass through a module that has a hook, as in TransformerLens, or if the
# model calls a function of yours, as our encoder calls `edit`. In Hugging Face Transformers, `model(...,
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
# **50 minutes.** The model and the lean: 9. The layers and the explorer: 13. The intervals, the plain average and the
# milder control: 15. The swap, its controls and the answer: 13. The exercises take another 40 minutes; set them, and
# “Further”, as homework.
#
# **Where a class stalls.** *“All 19 are right, so it always works”:* let everyone toss a coin five times. In a class of
# 32, about two students will get the same side five times. *“28 and 32 hardly differ”:* the two were tested on the same
# sentences, so compare them sentence by sentence. *“The average is nearly as good, so attention is useless”:* the
# average is also a form of attention, with other weights, and the parameters around it were trained with the real one.
# *“A tenth is next to nothing”:* ask what else the other words have to go by. *“34 of 35 is proof”:* the first word has
# 34, too.
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
# **5.** A foreign first word has a regular effect as well. What shows that “bank” is special? **The size: its effect is
# more than four times as large.** *The number of sentences:* it is the same. *That it has donors with the same meaning:*
# the first word has them, too.
# </details>
