# %% opening [markdown] above="Which layer knows which"
# # 14 · Where a meaning appears
#
# “The thief sailed to the bank with the gold.”
# You know which bank is meant, although *thief* and *gold* suggest the other one.
# The first attention layer of a trained model cannot weigh one clue by another: there,
# no third word can change the score of “bank” for “sailed”.
# It can only bring the words to “bank”.
# But the model has six layers, and the later ones read what the earlier ones have written.
#
# So we might expect the later layers to decide for the river.
# The opposite happens.
# Which layer knows which bank is meant, and does anything use it?
#
# **You need:** [lesson 10](10_one_real_attention_layer.ipynb) (the trained layer, its sink,
# and controls) and [lesson 12](12_two_layers_that_look_back.ipynb) (the residual stream).
#
# **You will be able to:** read a meaning from the vectors of a model, layer by layer;
# compare attention with a control that has the same freedom;
# and swap one vector to see whether other words take up what it holds.
#
# **Time:** 50 minutes in class, or 85 on your own with the exercises.
# “Further” takes another 10.

# %% setup
import pandas as pd
import torch
from attnlab import data_path
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import LayersExplorer
from attnlab.models.meanings import vectors_of
from attnlab.models.pretrained import load_encoder
from torch.nn.functional import cosine_similarity

lesson_setup()

# %% six-layers [markdown]
# ## Six layers
#
# The model is all-MiniLM-L6-v2, whose first attention layer you know.
# Each of its six layers has two parts: attention with twelve heads,
# and then an [MLP](glossary.ipynb#MLP), which processes every token separately.
# Each part adds its result to the token’s vector, and a norm follows.
# We look at the vectors before the first layer and after each of the layers 0 to 5.
#
# We use the 35 sentences with “bank” from lesson 5.
# In 19 of them, which we call *clear*, every clue points to the meaning of the sentence.
# The other 16 are *mixed*: they also have words that suggest the other meaning.

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
# Reading a property from the vectors inside a model is called [**probing**](glossary.ipynb#probe).
# We take the mean of the vectors from the river sentences,
# and the mean of those from the money sentences.
# The **lean** of a vector is its cosine with the river mean minus its cosine with the money mean.
# Above 0, it is nearer to the river mean.
# We say that “bank” is on its *own side* if it leans to the meaning that it has in its sentence.
#
# We try it on the thief.
# The means are made from the other 34 sentences.


# %% lean
def lean(vector, known, is_river):
    """How much nearer to the river mean: (..., E) -> (...)."""
    river, money = known[is_river].mean(dim=0), known[~is_river].mean(dim=0)
    to_river = cosine_similarity(vector, river, dim=-1)
    return to_river - cosine_similarity(vector, money, dim=-1)


def fair_lean(i, vector, known, is_river):
    """The lean of a vector from sentence i, by the means of the other sentences."""
    rest = torch.arange(len(known)) != i
    return lean(vector, known[rest], is_river[rest])


thief = sentences.index("the thief sailed to the bank with the gold")
fair_lean(thief, vectors[thief], vectors, is_river)

# %% read-lean [markdown]
# The first number belongs to the vector before the first layer,
# and the last one to the vector after layer 5.
# All are small, because the two means point in nearly the same direction, so we look at the sign.
# After layer 0, “bank” leans to the river, its own side.
# From there on the numbers fall, and after layer 5 it leans to money.
#
# Is the thief an exception?
# Before we try all 35 sentences, we ask: must each be left out of its own means?
# We can test this before the first layer.
# There, nothing from the rest of the sentence has reached “bank” yet,
# so there is no meaning to read.


# %% fair-leans
def fair_leans(vectors, is_river):
    """The lean of each sentence, by the means of the others: (N, ..., E) -> (N, ...)."""
    numbered = enumerate(vectors)
    return torch.stack([fair_lean(i, x, vectors, is_river) for i, x in numbered])


def on_own_side(leans, is_river):
    return (leans > 0) == is_river[:, None]  # (N, 7)


left_out = fair_leans(vectors, is_river)  # (35, 7)
included = lean(vectors, vectors, is_river)  # each is part of its own mean
for leans in (left_out, included):
    print(on_own_side(leans, is_river)[:, 0].sum().item(), "of 35")

# %% leave-out [markdown] above="A vector pulls its"
# With each sentence left out, 16 are on their own side, about as many as by guessing.
# With each one included, there are 24, although there is nothing to read.
# A vector pulls its own mean towards itself,
# and these vectors are so similar that the small pull often decides.
# So from here on, every sentence is left out.
#
# ## Through the layers
#
# In layer 0, “bank” attends to the other words for the first time.

# %% ask-layers
predict("14/after-one-layer")

# %% see-layers
# %%answer 14/after-one-layer
trained = on_own_side(left_out, is_river)  # (35, 7)
counts = {
    "19 clear": trained[~is_mixed].sum(dim=0).tolist(),
    "16 mixed": trained[is_mixed].sum(dim=0).tolist(),
    "all 35": trained.sum(dim=0).tolist(),
}
places = ["before", *(f"layer {number}" for number in range(6))]
pd.DataFrame.from_dict(counts, orient="index", columns=places)

# %% draw-leans jupyter={"source_hidden": true}
# %%answer 14/after-one-layer
import matplotlib.pyplot as plt

to_own_side = left_out * torch.where(is_river, 1, -1)[:, None]  # (35, 7)
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.6), sharey=True, layout="constrained")
panels = {"19 clear sentences": ~is_mixed, "16 mixed sentences": is_mixed}
for ax, (name, kind) in zip(axes, panels.items(), strict=True):
    ax.plot(to_own_side[kind].T, color="#0b61a4", lw=1, alpha=0.55)
    ax.axhline(0, color="#333", lw=1)
    ax.axhspan(-0.1, 0, color="#c8500a", alpha=0.1, lw=0)
    ax.set(xlabel="after layer", ylim=(-0.08, 0.13))
    ax.set_title(name, fontweight="normal")
    ax.set_xticks(range(7), ["before", *range(6)])
axes[0].set_ylabel("lean to the own side")
axes[0].text(6, -0.07, "other side", color="#8a3606", ha="right")
axes[1].plot(to_own_side[thief], "o-", color="#c8500a", ms=4)
axes[1].text(6.1, to_own_side[thief, -1], "thief", color="#8a3606", va="center")
axes[1].text(5.6, -0.062, "swam, worked", color="#0b61a4", va="center", ha="right")
title = "Clear sentences find their side early, and two mixed ones lose it again"
fig.suptitle(title, x=0.01, ha="left", fontsize=11.5, fontweight="bold")
show_figure(fig, "14.1")

# %% read-layers [markdown] above="After layer 0, \u201cbank\u201d" answers="14/after-one-layer"
# One layer is enough for most sentences.
# After layer 0, “bank” is on its own side in 29 of the 35.
# The attention of this layer cannot weigh one clue by another,
# and its MLP sees only what attention has mixed into “bank”.
# But in most sentences, the mixture tells which bank is meant.
#
# The later layers mend five sentences, four of them in layer 1, and lose two, the thief in layer 5.
# In “she swam well and worked at the bank”, “bank” is on the other side after every layer.

# %% your-experiment-from-layer-to-layer [markdown]
# ### Your experiment: from layer to layer
#
# “The thief robbed the bank by the river” is about money.
# The bars show what “bank” attends to in one layer, on average over the twelve heads.
# The curves show the lean of “bank” and those of the two means.
# In which layer does “robbed” get the most weight?
# And does “bank” lean to money after this layer?
# Then type a sentence of your own.

# %% explorer
LayersExplorer(layer=3, ask=False)  # three layers have run, 0 to 2

# %% use-it [markdown]
# <details><summary>The answer</summary>
#
# In layer 0, “robbed” gets 0.24, nearly twice as much as “river”.
# Yet after this layer “bank” leans to the river.
# Later it stays near the middle between the two means, and ends only just on the money side.
# </details>
#
# ## Does choosing matter?
#
# Six layers have mixed the words into “bank”.
# Would mixing be enough, without choosing among them?
# We need a [control](glossary.ipynb#control) like the plain average of lesson 5,
# but one that takes away only the choice.
# In every head, each token keeps its weights on itself, on `[CLS]` and on `[SEP]`
# (the sinks of lesson 10).
# Only the rest is shared equally among the other words.
#
# We pass the function below as `edit`.
# In every layer, the model calls it with the number of the layer and its attention weights,
# and continues with the weights that it returns.
# A control must have the same freedom as the method it is compared with,
# so the changed model gets means of its own.


# %% equal
def equal_shares(layer, weights):  # weights: (N, H, L, L)
    kept = torch.eye(weights.shape[-1], dtype=torch.bool)
    kept[:, [0, -1]] = True  # [CLS] and [SEP]
    rest = (weights * ~kept).sum(dim=-1, keepdim=True)
    return torch.where(kept, weights, rest / (~kept).sum(dim=-1, keepdim=True))


def own_side_with(edit):
    edited = vectors_of(encoder, "bank", sentences, edit=edit)
    return on_own_side(fair_leans(edited, is_river), is_river)  # (35, 7)


equal = own_side_with(equal_shares)
compared = {
    "trained weights": trained.sum(dim=0).tolist(),
    "equal shares": equal.sum(dim=0).tolist(),
}
pd.DataFrame.from_dict(compared, orient="index", columns=places)

# %% read-equal [markdown] above="Mixing goes a long"
# So choosing helps.
# Mixing goes a long way, but the trained weights are ahead after every layer.
# (A model that was trained with equal shares might do better.)
# Both were tested on the *same* sentences, so we should compare them sentence by sentence.

# %% draw-squares jupyter={"source_hidden": true}
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

outcome = (2 * trained.long() + equal.long())[:, 1:]  # (35, 6)
looks = {
    "both": "#e6e8ea",
    "only the trained weights": "#0b61a4",
    "only equal shares": "#e8893c",
    "neither": "#6d757c",
}
shades = ListedColormap([*looks.values()][::-1])
fig, axes = plt.subplots(1, 2, figsize=(7.4, 2.5), width_ratios=[19, 16])
fig.set_layout_engine("constrained")
for ax, (name, kind) in zip(axes, panels.items(), strict=True):
    squares = outcome[kind]
    order = (squares == 3).sum(dim=1).argsort(descending=True, stable=True)
    ax.pcolormesh(squares[order].T, cmap=shades, vmin=0, vmax=3, edgecolors="w", lw=1.5)
    ax.set(xticks=[], ylim=(6, 0), aspect="equal")
    ax.set_title(name, fontweight="normal")
    ax.set_yticks([0.5 + n for n in range(6)], places[1:])
    ax.spines[:].set_visible(False)
axes[1].set_yticks([])
handles = [Patch(color=shade, label=name) for name, shade in looks.items()]
fig.legend(handles=handles, loc="outside lower center", ncols=4)
only_trained, only_equal = (outcome == 2).sum(), (outcome == 1).sum()
title = (
    f"The trained weights win {only_trained} squares, and equal shares win {only_equal}"
)
fig.suptitle(title, x=0.01, ha="left", fontsize=11.5, fontweight="bold")
show_figure(fig, "14.2")

# %% overlap [markdown] above="In 29 squares, only"
# The difference is one-sided.
# In 29 squares, only the trained weights have “bank” on its own side, and in 3,
# only equal shares do.
# Chance rarely produces such a difference, as a test in “Further” shows.
#
# In which layers does the choosing matter?
# The blue squares cannot tell us: if a word is missed in layer 0,
# this may still show after layer 5.
# So we let the words share equally in some layers only.

# %% ask-early
predict("14/early-or-late")


# %% see-early
# %%answer 14/early-or-late
def equal_early(layer, weights):
    return equal_shares(layer, weights) if layer < 3 else weights


def equal_late(layer, weights):
    return equal_shares(layer, weights) if layer >= 3 else weights


compared["equal in layers 0 to 2"] = own_side_with(equal_early).sum(dim=0).tolist()
compared["equal in layers 3 to 5"] = own_side_with(equal_late).sum(dim=0).tolist()
pd.DataFrame.from_dict(compared, orient="index", columns=places)

# %% read-early [markdown] above="Equal shares in layers" answers="14/early-or-late"
# It seems to matter early.
# Equal shares in layers 0 to 2 cost as many sentences as equal shares everywhere.
# After layer 5, 29 are left.
# With equal shares in layers 3 to 5, there are 33.
# But 35 sentences cannot settle it: after layers 3 to 5,
# chance gives such a difference in about 25% of the tries.
# And in layers 1 to 4, “bank” has little weight to share: most of it is on itself and the markers.

# %% does-anything-use-it [markdown] below="Such a swap is"
# ## Does anything use it?
#
# That a meaning can be read from a vector does not show that the model uses it.
# To test this, we replace the vector of “bank” by one from another sentence,
# and watch the *other words*.
# Such a swap is called [**activation patching**](glossary.ipynb#activation-patching).

# %% draw-the-swap
from attnlab.display import diagram

show_figure(diagram("swap"), "14.3")

# %% one-swap [markdown]
# The sentence whose vector is taken is the *donor*.
# We swap before layer 2, because “bank” is on its own side there in 33 of the 35 sentences,
# and four layers are left.
#
# To see what the other words take up from “bank”,
# we average their vectors after the last layer and compute the lean of this average.
# The markers and “bank” are left out, and so is the first word, which will serve as a control.
# For the two means, we do the same in the 34 other sentences.

# %% other-words
readings = [encoder.read(sentence) for sentence in sentences]  # tokens and vectors


def other_words(x, tokens):
    """Average the words that we watch: (..., L, E) -> (..., E)."""
    watched = [i for i in range(2, len(tokens) - 1) if tokens[i] != "bank"]
    return x[..., watched, :].mean(dim=-2)


others = torch.stack([other_words(one.vectors[-1], one.tokens) for one in readings])
unchanged = fair_leans(others, is_river)  # (35,)
side = torch.where(is_river, 1, -1)
mean_lean = (unchanged * side).mean()  # of all 35 sentences, to their own side
unchanged[thief], mean_lean

# %% by-hand-text [markdown]
# The other words of the thief lean to money.
# Now we do one swap by hand: the thief gets the “bank” of “his loan from the bank was large”.

# %% by-hand
loan = sentences.index("his loan from the bank was large")
x = readings[thief].vectors[2][None].clone()  # what layer 2 receives: (1, L, E)
x[0, 6] = readings[loan].vectors[2, 5]  # “bank” is token 6 here, and token 5 there
for layer in encoder.layers[2:]:
    x, _ = layer(x)
fair_lean(thief, other_words(x, readings[thief].tokens), others, is_river)

# %% read-by-hand [markdown]
# With the “bank” of the loan, the other words lean to money even more.
# But one swap proves little: any foreign vector disturbs a sentence.
# So each of the 34 other sentences becomes the donor in turn.
# Donors of the *other* meaning are the test, and donors of the *same* meaning are the control.
#
# The function `all_swaps` does this for all sentences.
# It returns how far the lean to the own side changes, in percent of the mean lean.


# %% all-swaps
def all_swaps(number, at):
    """Sentence i, donor j: how the lean to the own side changes, in percent (35, 35)."""
    donors = torch.stack([one.vectors[number, at[j]] for j, one in enumerate(readings)])
    changes = torch.zeros(35, 35)
    for i in range(35):
        x = readings[i].vectors[number].repeat(35, 1, 1)  # a copy for each donor
        x[:, at[i]] = donors
        for layer in encoder.layers[number:]:
            x, _ = layer(x)
        swapped = other_words(x, readings[i].tokens)  # (35, E)
        after = fair_lean(i, swapped, others, is_river)
        changes[i] = (after - unchanged[i]) * side[i]
    return 100 * changes.fill_diagonal_(torch.nan) / mean_lean  # none is its own donor


# %% ask-swap
predict("14/a-donor-of-the-same-meaning")


# %% see-swap
# %%answer 14/a-donor-of-the-same-meaning
def by_meaning(changes):
    """The mean over the donors of the other and of the same meaning: (35,) each."""
    is_same = is_river[:, None] == is_river
    return [
        changes.where(kind, torch.nan).nanmean(dim=1) for kind in (~is_same, is_same)
    ]


of_bank = [one.tokens.index("bank") for one in readings]
other, same = by_meaning(all_swaps(2, of_bank))
print(f"donors of the other meaning change the lean by {other.mean():.1f}%")
print(f"donors of the same meaning change the lean by {same.mean():.1f}%")

# %% read-swap [markdown] above="On average, a \u201cbank\u201d" answers="14/a-donor-of-the-same-meaning"
# The meaning decides.
# On average, a “bank” of the other meaning takes away about 9% of the lean of the other words.
# One of the same meaning moves it about as often up as down.
#
# Is this special to “bank”?
# We swap the *first word* in the same way, such as “the” or “she”, which has only one meaning.

# %% ask-first
predict("14/the-first-word")

# %% see-first
# %%answer 14/the-first-word
swaps = {
    "“bank”, before layer 2": (other, same),
    "first word, before layer 2": by_meaning(all_swaps(2, [1] * 35)),  # [CLS] is 0
    "“bank”, before layer 0": by_meaning(all_swaps(0, of_bank)),
    "first word, before layer 0": by_meaning(all_swaps(0, [1] * 35)),
}
rows = []
for by_other, by_same in swaps.values():
    first, second = (round(x.mean().item(), 1) for x in (by_other, by_same))
    further = (by_other < by_same).sum().item()
    rows.append([first, second, round(second - first, 1), further])
columns = ["other meaning (%)", "same meaning (%)", "difference", "same > other"]
pd.DataFrame(rows, [*swaps], columns)

# %% draw-swaps jupyter={"source_hidden": true}
# %%answer 14/the-first-word
import seaborn as sns

pulls = {
    name: (by_same - by_other)
    .round(decimals=1)
    .tolist()  # so that no dot sits on an edge
    for name, (by_other, by_same) in swaps.items()
}
_, ax = plt.subplots(figsize=(7.4, 3.4), layout="constrained")
palette = ["#0b61a4", *["#6d757c"] * 3]
sns.swarmplot(pulls, orient="h", palette=palette, size=5, ax=ax)
ax.axvline(0, color="#333", lw=1)
ax.set_xlabel("difference between the donors (% of the mean lean)")
title = "A foreign “bank” pulls the other words, a foreign first word hardly does"
ax.figure.suptitle(title, x=0.01, ha="left", fontsize=11.5, fontweight="bold")
show_figure(ax, "14.4")

# %% read-controls [markdown] above="With the first word" answers="14/the-first-word"
# It matters, but less.
# With the first word, the difference between the donors is less than a quarter as large as with
# “bank”.
# But it has the same sign in just as many sentences, 34 of 35.
# Had we only counted, we would have taken the two effects for equal.
#
# Before layer 0, nothing of the sentence has arrived yet.
# There, the two kinds of “bank” hardly differ on average,
# but the first words differ nearly as much as before layer 2.
# So a few percent may come from the method: the donor’s sentence is part of our means.
# Without it, “bank” still gives about 9, but the first word -3.4.
#
# So the other words do take up what “bank” holds.
# Do they need it?
# We leave “bank” out: the model gets only the other tokens, each at its old position.
# As a control, we leave out the first word.


# %% left-out
def changes_without(positions):
    """How the lean changes without one token of each sentence, in percent (35,)."""
    changes = []
    for i, one in enumerate(readings):
        kept = [n for n in range(len(one.tokens)) if n != positions[i]]
        x, _ = encoder([one.tokens[n] for n in kept], positions=kept)
        after = one.vectors[-1].clone()
        after[kept] = x[-1, 0]
        new = fair_lean(i, other_words(after, one.tokens), others, is_river)
        changes.append(100 * (new - unchanged[i]) * side[i] / mean_lean)
    return torch.stack(changes)


for name, positions in {"“bank”": of_bank, "the first word": [1] * 35}.items():
    change = changes_without(positions)
    print(f"without {name}: {change.mean():.1f}%, up in {(change > 0).sum()} of 35")

# %% what-this-shows [markdown] above="Without \u201cbank\u201d, their lean" answers="14/the-first-word"
# They do not need it.
# Without “bank”, their lean does not fall.
# On average it rises by 6%, but in only 20 of the 35 sentences, so this may be chance.

# %% what-this-shows-and-what-it-does-not [markdown] above="Put a \u201cbank\u201d of"
# ## What this shows, and what it does not
#
# Which layer knows which bank is meant?
# No single one does.
# In most of our sentences, the meaning can be read after layer 0, which brings the words to “bank”,
# and in all of the clear ones after layer 1.
# Mixing goes most of the way, and choosing among the words helps,
# perhaps mainly in the first layers.
# The thief is an exception: its “bank” leans to the river after layer 0,
# and to money after layer 5.
# With equal shares in layers 3 to 5, it stays with the river.
#
# Does anything use it?
# Put a “bank” of the other meaning into the sentence,
# and the other words lean less to their own side.
# So they take up what “bank” holds.
# But they do not need it, for their own clues are still there.
# And whether the output of the model depends on it, we have not tested.
#
# Both experiments have a limit: what we call the meaning of “bank” may be the topic of its
# sentence.
# And one person wrote these sentences.

# %% further-luck [markdown]
# ## Further
#
# ### Could it be chance?
#
# For each sentence, count the layers after which only the trained weights have it on its own side,
# and subtract those after which only equal shares have.
# We call the result the *margin* of the sentence.
# For “the thief robbed the bank by the river”, it is the sum of this row, 3:

# %% one-margin
robbed = sentences.index("the thief robbed the bank by the river")
(trained[robbed].long() - equal[robbed].long())[1:]  # after layers 0 to 5

# %% to-coins [markdown]
# Suppose that both were equally good.
# Then exchanging their results for a sentence would make no difference.
# So we toss a coin for each sentence, and if it shows heads, we exchange its two rows of results,
# all layers together, because they are not independent.
# We do this 100,000 times and count how often the margin of all sentences together,
# in either direction, is at least as large as ours.
# This is called a *permutation test*.


# %% coins
def margin_and_chance(ours, theirs):
    """The margin, and how often coins give at least as large a one."""
    margins = (ours.float() - theirs.float()).sum(dim=1)  # one for each sentence
    generator = torch.Generator().manual_seed(0)
    heads = torch.randint(2, (100_000, len(margins)), generator=generator)
    tossed = (1 - 2.0 * heads) @ margins  # an exchange changes the sign
    as_large = tossed.abs() >= margins.sum()
    return margins.sum().item(), round(as_large.float().mean().item(), 3)


margin_and_chance(trained, equal)

# %% to-order [markdown]
# By convention, a result that chance gives in fewer than 5% of the tries is taken seriously.
# So the trained weights do better than equal shares.
#
# ### Do the positions matter?
#
# We give all words the same position (the two markers keep theirs),
# so that no vector shows where its word stands.
# Each version gets means of its own.


# %% see-order
def at_one_position(sentence, edit):
    tokens = encoder.tokens(sentence)
    positions = [0, *[5] * (len(tokens) - 2), len(tokens) - 1]
    x, _ = encoder(tokens, positions=positions, edit=edit)  # (7, 1, L, E)
    return x[:, 0, tokens.index("bank")]


unplaced = {}
for name, edit in {"trained weights": None, "equal shares": equal_shares}.items():
    x = torch.stack([at_one_position(sentence, edit) for sentence in sentences])
    unplaced[name] = on_own_side(fair_leans(x, is_river), is_river)
print(margin_and_chance(*unplaced.values()))
pd.DataFrame({name: x.sum(dim=0).tolist() for name, x in unplaced.items()}, places).T

# %% further-words [markdown]
# Without positions, 31 sentences are on their own side after layer 0 instead of 29,
# and with equal shares 28 instead of 22.
# Much of what looked like choosing in layer 0 was therefore due to the positions.
# The trained weights are still ahead after every layer,
# but with 35 sentences this margin could well be chance.
#
# ### Eight other words
#
# The file `two_meanings.csv` has 144 sentences with eight other words,
# such as *a seal was lying on the ice*.


# %% other-eight
def own_side_of_144(edit):
    results = []
    for word, rows in pd.read_csv(data_path("two_meanings.csv")).groupby("word"):
        of_word = vectors_of(encoder, word, rows.sentence.tolist(), edit=edit)
        is_first = torch.tensor(rows.meaning.to_numpy() == rows.meaning.iloc[0])
        results.append(on_own_side(fair_leans(of_word, is_first), is_first))
    return torch.cat(results)  # (144, 7)


edits = {"trained weights": None, "equal shares": equal_shares}
edits |= {"equal in layers 0 to 2": equal_early, "equal in layers 3 to 5": equal_late}
of_144 = {name: own_side_of_144(edit) for name, edit in edits.items()}
print(margin_and_chance(of_144["trained weights"], of_144["equal shares"]))
pd.DataFrame({name: x.sum(dim=0).tolist() for name, x in of_144.items()}, places).T

# %% read-eight [markdown]
# Even before the first layer, 88 of the 144 are on their own side,
# where guessing would give about 72.
# In these sentences, the position of a word already says a little about its meaning,
# so the other numbers have to be compared with 88.
#
# Otherwise the eight words repeat what “bank” has shown: equal shares cost many sentences.
# In layers 0 to 2 only, they cost 7 after layer 5, and in layers 3 to 5 only, 4.
# So after the last layer, early and late hardly differ.
# And without positions, the trained weights still stay ahead:
# chance gives their margin in about 3% of the tries.

# %% remember [markdown]
# ## What to remember
#
# - To read a meaning from a vector, compare it with the means of sentences whose meaning is known,
#   and leave the sentence itself out.
# - A control needs the same freedom as the method it is compared with, such as means of its own.
#   If two methods are tested on the same sentences, compare them sentence by sentence.
# - That something can be read from a vector does not show that the model uses it.
#   To find out, put in the vector of another sentence and watch the rest.
# - Any foreign vector disturbs a sentence.
#   So swap in vectors of the same meaning as well, and swap another word.
# - A count of sentences shows that an effect is consistent, and not that it is large.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Repair ★ (6 minutes)
#
# `careless` should return the vectors x (L, E) of a sentence,
# in which the vector at `position` has been exchanged for the one that the donor (M,
# E) has at `donor_position`.
# It has two mistakes.
# With the thief and its donor, neither raises an error, but the next swap goes wrong as well.
# Write `careful`.
#
# <details><summary>Hint</summary>
#
# Which of the two positions belongs to which sentence?
# And what is in <code>readings</code> after <code>careless(readings[thief].vectors[2], ...)</code>?
# </details>

# %%
from attnlab.exercises import check_careful_swap, check_fooling_sentence
from attnlab.exercises import check_hidden_token


# %% tags=["exercise"]
def careless(x, position, donor, donor_position):
    x[position] = donor[position]
    return x


def careful(x, position, donor, donor_position):
    """(L, E) and (M, E) -> (L, E)."""


# %%
check_careful_swap(careful)


# %% tags=["solution"]
def careful_solution(x, position, donor, donor_position):
    x = x.clone()
    x[position] = donor[donor_position]
    return x


check_careful_swap(careful_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (12 minutes)
#
# We have left “bank” out of its sentence.
# We can also leave it in and hide it.
# Write a function that hides one token: no *other* token may attend to it any more,
# and their other weights keep their proportions.
# The hidden token keeps its whole row.
#
# When your function passes the check, hide “bank” in all six layers of the sentence of the thief.
# Compare the vectors of the other tokens with those that they have if “bank” is left out.
# What do you find, and why?
#
# <details><summary>Hint</summary>
#
# Make a boolean (L, L) tensor that is True where a weight must go.
# Set these weights to 0, and divide each row by its sum.
# <code>encoder.read(sentence, edit=edit).vectors</code> has the shape (7, L, E).
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
# They agree: if one score is left out, a softmax keeps the proportions of the other weights.
def hide_bank(layer, weights):
    return hide_token_solution(weights, of_bank[thief])


pieces = readings[thief].tokens
left = [n for n in range(len(pieces)) if n != of_bank[thief]]
hidden = encoder.read(sentences[thief], edit=hide_bank).vectors
without_bank = encoder([pieces[n] for n in left], positions=left)[0]
torch.allclose(hidden[:, left], without_bank[:, 0], atol=1e-5)

# %% exercise-3 [markdown]
# ### 3 · Find ★★ (10 minutes)
#
# Write a sentence with “bank” that every reader understands and the means do not.
# After the last layer, its vector must lean to the other side,
# measured against all 35 sentences of the lesson.
# Return the sentence and its meaning, “river” or “money”.
# How many sentences did you have to try?
#
# <details><summary>Hint</summary>
#
# Put “bank” among words that go with its other meaning.
# <code>lean(vectors_of(encoder, "bank", [sentence])[0], vectors, is_river)</code> gives the leans.
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

# %% exercise-4 [markdown]
# ### 4 · Explain ★★ (6 minutes)
#
# An article reports: “After layer 3,
# we can read from the vector of a verb whether its sentence is in the past tense,
# in 95% of 2,000 sentences.
# So the model knows the tense from layer 3 on and uses it.”
# Which two questions would you ask?
#
# <details><summary>An answer</summary>
#
# First: how well does a control with the same freedom do?
# The control could be the vectors before the first layer, where “went” already differs from “goes”,
# or a model whose heads all average.
# If the control reaches nearly 95% as well, layer 3 has added little.
# Second: what happens if the property is removed from the vector, or replaced by the opposite one,
# present instead of past?
# If the output of the model then changes as it should, the model uses the property.
# If it does not change, the model may still get the tense from elsewhere.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# To change what a part of your own model passes on, use a hook:
# `module.register_forward_hook(function)` calls the function with the module,
# its input and its output.
# If the function returns something, the model continues with that as the output.
# This is how a vector is put in.
#
# You can change attention weights only if they pass through a module that has a hook,
# as in TransformerLens, or if the model calls a function of yours, as our encoder calls `edit`.
# In Hugging Face Transformers, `model(..., output_hidden_states=True)` returns the vectors before
# the first layer and after every layer, like our seven.

# %% sources [markdown]
# ## Sources
#
# - Wang et al., [MiniLM](https://arxiv.org/abs/2002.10957), 2020, and Reimers and Gurevych,
#   [Sentence-BERT](https://arxiv.org/abs/1908.10084), 2019: how a model like ours was made.
# - Wiedemann et al., [Does BERT Make Any Sense?](https://arxiv.org/abs/1909.10430), 2019:
#   word meanings from the vectors of BERT, by the nearest neighbours among labelled sentences.
# - Ethayarajh,
#   [How Contextual are Contextualized Word Representations?](https://arxiv.org/abs/1909.00512),
#   2019: vectors that all point in similar directions, layer by layer.
# - Hewitt and Liang,
#   [Designing and Interpreting Probes with Control Tasks](https://arxiv.org/abs/1909.03368), 2019:
#   what a probe can learn by itself.
# - Belinkov,
#   [Probing Classifiers: Promises, Shortcomings, and Advances](https://arxiv.org/abs/2102.12452),
#   2022: what can be read, and what is used.
# - Vig et al.,
#   [Investigating Gender Bias in Language Models Using Causal Mediation Analysis](https://arxiv.org/abs/2004.12265),
#   2020, and Geiger et al.,
#   [Causal Abstractions of Neural Networks](https://arxiv.org/abs/2106.02997), 2021:
#   vectors from one run put into another.
# - The sentences, the controls and the counts are our own.

# %% next [markdown]
# ## Next
#
# This is the last lesson.
# You have built attention by hand, masked it, split it into heads and counted its cost.
# You have also asked, again and again, what its weights show.
# These texts take you further:
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017.
#   You can now read it from the first page to the last.
# - Elhage et al.,
#   [A Mathematical Framework for Transformer Circuits](https://transformer-circuits.pub/2021/framework/index.html),
#   2021, on the residual stream and on what heads do together.
# - Meng et al.,
#   [Locating and Editing Factual Associations in GPT](https://arxiv.org/abs/2202.05262), 2022,
#   which, like this lesson, changes vectors inside a model, but watches its output.
#
# To look up a word or an earlier claim, go to [0 · Start here](00_start_here.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.**
# The model and the lean: 10.
# The layers and the explorer: 14.
# Choosing and mixing: 10.
# The swap, its controls and the answer: 16.
# The exercises take another 35 minutes; set them, and “Further”, as homework.
#
# **Where a class stalls.**
# *“29 and 32 hardly differ”:* the two were tested on the same sentences,
# so compare them sentence by sentence.
# *“Equal shares are nearly as good, so attention is useless”:*
# equal shares are also a form of attention, with other weights,
# and the parameters around it were trained with the real one.
# *“A tenth is next to nothing”:* ask what else the other words have to go by.
# *“34 of 35 is proof”:* the first word has 34, too.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# Why is a sentence left out of its own mean?
# **It pulls the mean towards itself.**
# *To save time:* it takes more time.
# *Because it may be mixed:* clear sentences are left out of their own mean as well.
#
# **2.**
# Why does the control get means of its own?
# **Its vectors lie elsewhere, so the means of another model measure something else.**
# *To make it look good:* it gets the same as the trained model, and no more.
#
# **3.**
# Two methods have 33 and 28 of the same 35 sentences on their own side.
# What do you want to see?
# **In how many sentences only one of them has.**
# *The two numbers with their standard errors:*
# they do not use the fact that the sentences are the same.
#
# **4.**
# A meaning can be read after layer 1.
# Does layer 2 use it?
# **The counts do not tell; one has to change the vector.**
# *Yes, why else would it be there:*
# what helps us to tell two sentences apart may be of no use to the model.
#
# **5.**
# A foreign first word has a regular effect as well.
# What shows that “bank” is special?
# **The size: its effect is more than four times as large.**
# *The number of sentences:* it is the same.
# *That it has donors with the same meaning:* the first word has them, too.
# </details>
