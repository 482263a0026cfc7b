# %% opening [markdown] above="Which layer knows which" end="Which layer knows which"
# # 14 · Where a meaning appears
#
# “The thief sailed to the bank with the gold.”
# You know which bank is meant, although *thief* and *gold* suggest the other one.
# The first attention layer of a trained model cannot weigh one clue by another: there,
# the score of “bank” for “sailed” depends on these two words and their positions alone.
# It can only bring the words to “bank”.
# But the model has six layers, and the later ones read what the earlier ones have written.
#
# So we might expect the later layers to decide for the river.
# They do not: at the end, “bank” is about equally near to both meanings.
# What turns it back?
# Which layer knows which bank is meant, and does anything use it?
#
# **You need:** [lesson 5](05_what_does_bank_mean_here.ipynb) (its sentences),
# [lesson 10](10_one_real_attention_layer.ipynb) (the trained layer, its sink,
# and controls) and [lesson 12](12_two_layers_that_look_back.ipynb) (the residual stream,
# which later layers read).
#
# **You will be able to:** read a meaning from the vectors of a model, layer by layer;
# compare what you read with a control that has the same freedom;
# and swap one vector to see whether other words take up what it holds.
#
# **Time:** 46 minutes in class, or 80 on your own with the exercises.

# %% setup
import matplotlib.pyplot as plt
import pandas as pd
import torch
from attnlab import data_path
from attnlab.display import diagram, lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import LayersExplorer
from attnlab.models.meanings import vectors_of
from attnlab.models.pretrained import load_encoder
from attnlab.plotting import plot_attention
from torch.nn.functional import cosine_similarity

lesson_setup()

# %% six-layers [markdown] below="We look at the"
# ## Six layers
#
# The model is all-MiniLM-L6-v2, whose first attention layer you know.
# Each of its six layers has two parts: attention with twelve heads,
# and then an [MLP](glossary.ipynb#MLP), which processes every token separately.
# We look at the vectors before the first layer and after each of the layers 0 to 5.
#
# We use 99 sentences with “bank”, among them the 64 from lesson 5 and the thief.
# In 51 of them, which we call *clear*, every clue points to the meaning of the sentence.
# The other 48 are *mixed*: they also have words that suggest the other meaning.

# %% all-banks
encoder = load_encoder()
tables = ["bank_sentences.csv", "bank_two_kinds.csv"]
bank = pd.concat([pd.read_csv(data_path(table)) for table in tables], ignore_index=True)
sentences = bank.sentence.tolist()
is_river = torch.tensor(bank.meaning == "river")
is_mixed = torch.tensor(bank.kind == "mixed")
vectors = vectors_of(encoder, "bank", sentences)
vectors.shape  # (N, 7, E)

# %% nearer [markdown] below="The [**lean**](glossary.ipynb#lean) of a"
# ## Nearer to which mean?
#
# Reading a property from the vectors inside a model is called
# [**probing**](glossary.ipynb#probing).
# For this we wrote 20 more sentences and fixed them before the model had read any.
# They are ten pairs, one sentence about a river and one about money,
# in which “bank” stands at the same position.
#
# We take the mean of the vectors from their river sentences,
# and the mean of those from their money sentences.
# The [**lean**](glossary.ipynb#lean) of a vector is its cosine with the river mean minus its cosine
# with the money mean.
# Above 0, it is nearer to the river mean.
# We say that “bank” is on its *own side* if it leans to the meaning that it has in its sentence.

# %% ask-layers
predict("14/after-one-layer")

# %% lean
known = pd.read_csv(data_path("bank_means.csv"))
known_is_river = torch.tensor(known.meaning == "river")
known_vectors = vectors_of(encoder, "bank", known.sentence.tolist())  # (20, 7, E)


def lean(vector, known_vectors):
    """How much nearer to the river mean: (..., E) -> (...)."""
    river = known_vectors[known_is_river].mean(dim=0)
    money = known_vectors[~known_is_river].mean(dim=0)
    to_river = cosine_similarity(vector, river, dim=-1)
    return to_river - cosine_similarity(vector, money, dim=-1)


layers = [f"layer {number}" for number in range(6)]
thief = sentences.index("the thief sailed to the bank with the gold")
lean(vectors[thief], known_vectors)  # before the first layer, and after each of the six

# %% read-lean [markdown] below="We ask all 99"
# Before the first layer, the two means are equal, as their positions are, and the lean is 0.
# Up to layer 2, the thief’s lean to the river grows.
# Then it falls, most in layers 3 and 5, and at the end “bank” is about equally near to both means.
#
# ## Is the thief an exception?
#
# We ask all 99 sentences.


# %% see-layers
# %%answer 14/after-one-layer
def on_own_side(leans):
    return ((leans > 0) == is_river[:, None])[:, 1:]  # after each layer: (99, 6)


own = on_own_side(lean(vectors, known_vectors))
kinds = {"51 clear sentences": ~is_mixed, "48 mixed sentences": is_mixed}
pd.DataFrame(
    {name: own[kind].sum(dim=0).tolist() for name, kind in kinds.items()}, layers
).T

# %% draw-leans jupyter={"source_hidden": true}
# %%answer 14/after-one-layer
to_own_side = (
    lean(vectors, known_vectors) * torch.where(is_river, 1, -1)[:, None]
)  # (99, 7)
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.6), sharey=True, layout="constrained")
for ax, (name, kind) in zip(axes, kinds.items(), strict=True):
    ax.plot(to_own_side[kind].T, color="#0b61a4", lw=1, alpha=0.45)
    ax.axhline(0, color="#333", lw=1)
    ax.axhspan(-0.1, 0, color="#333", alpha=0.1, lw=0)
    ax.set(xlabel="after layer", ylim=(-0.08, 0.11))
    ax.set_title(name, fontweight="normal")
    ax.set_xticks(range(7), ["before", *range(6)])
axes[0].set_ylabel("lean towards its own side")
axes[0].text(6, -0.07, "other side", color="#333", ha="right")
axes[1].plot(to_own_side[thief], "o-", color="#06365c", lw=2, ms=4)
axes[1].text(6.1, to_own_side[thief, -1], "thief", color="#06365c", va="bottom")
show_figure(fig, "14.1")

# %% read-layers [markdown] above="In the clear sentences, one" answers="14/after-one-layer"
# In the clear sentences, one layer is enough: “bank” is on its own side in 50 of 51.
# In the mixed ones, guessing would give 24 of 48, and layer 0 gives 31.
# The later layers do not settle the rest: at best there are 38, and at the end 33.
# So 15 end on the other side, like the thief,
# but only 3 of them were on their own side after every layer before.

# %% your-experiment-from-layer-to-layer [markdown] below=["The bars show what", "Which words does \u201cbank\u201d"]
# ## What turns the thief back?
#
# ### Your experiment: from layer to layer
#
# The bars show what “bank” attends to in one layer, on average over the heads.
# The curves show the lean of “bank” and those of the two means.
# Which words does “bank” turn to in layer 5?
# Type *nurse* for *thief*, or *sword* or *bread* for *gold*.

# %% explorer
LayersExplorer(ask=False)

# %% see-thief
readings = [encoder.read(sentence) for sentence in sentences]
of_bank = [one.tokens.index("bank") for one in readings]
tokens, weights = readings[thief].tokens, readings[thief].weights  # (6, H, L, L)
looks = weights[[0, 5], :, of_bank[thief]].mean(dim=1)  # mean of the heads: (2, L)
_, ax = plt.subplots(figsize=(7.6, 2.2), layout="constrained")
plot_attention(looks, ax=ax, vmax=0.2, queries=["layer 0", "layer 5"], keys=tokens)
show_figure(ax, "14.2")

# %% read-thief [markdown] above="In layer 0, \u201cbank\u201d" below="In layer 5, we hide"
# In layer 0, “bank” gives “sailed” the most of all words, 0.17.
# In layers 1 to 4, most of its weight lies on `[CLS]`, the sink.
# In layer 5 it turns to the words again, but now “thief” gets 0.13, “gold” 0.11,
# and “sailed” only 0.05.
# With *nurse* for “thief”, or *sword* for “gold”, “bank” stays with the river,
# but not with *bread*.
#
# ## Is it “thief” and “gold”?
#
# In layer 5, we hide one word at a time: its weight becomes 0,
# and each row is divided by its new sum.
# The two means stay as they are.
#
# In every layer, the model calls `edit` with the layer’s number and weights,
# and continues with what it returns.


# %% hide
def without(*words):  # the lean of the thief’s “bank”, if layer 5 does not see them
    gone = torch.tensor([token in words for token in tokens])

    def edit(layer, weights):  # (N, H, L, L)
        if layer < 5:
            return weights
        weights = weights.masked_fill(gone, 0)
        return weights / weights.sum(dim=-1, keepdim=True)

    x = vectors_of(encoder, "bank", [sentences[thief]], edit=edit)
    return lean(x, known_vectors)[0, -1].item()


hidden_words = ["", *dict.fromkeys(tokens[1:-1]), "thief gold"]
hidden_leans = {words or "none": without(*words.split()) for words in hidden_words}
pd.DataFrame(hidden_leans, ["lean after layer 5"]).round(3)

# %% read-hide [markdown] above="Without \u201cthief\u201d, the lean"
# Without “thief”, the lean is 0.007, without “gold” 0.004, and without both 0.013.
# Without “sailed” it is −0.006, and no other word matters.
# So these two words turn “bank” back in layer 5.
# The layer need not choose “thief” for its meaning: *nurse* in its place gets 0.14.

# %% is-it-the-meaning [markdown] below="As a [control](glossary.ipynb#control), we"
# ## Is it the meaning of “bank”?
#
# As a [control](glossary.ipynb#control), we put another noun in its place, in all 119 sentences.
# Its means are computed anew, so it has the same freedom.

# %% ask-nouns
predict("14/another-noun")

# %% nouns
# %%answer 14/another-noun
nouns = ["bank", "place", "table", "car", "thing", "letter", "number"]


def with_noun(noun, texts):
    return [
        " ".join(noun if word == "bank" else word for word in text.split())
        for text in texts
    ]


def own_side(noun):
    leans = lean(
        vectors_of(encoder, noun, with_noun(noun, sentences)),
        vectors_of(encoder, noun, with_noun(noun, known.sentence)),
    )
    return on_own_side(leans)[:, -1]  # after layer 5: (99,)


# %% see-nouns
# %%answer 14/another-noun
def mean_of_inputs(texts):
    return torch.stack([encoder.read(text).vectors[0].mean(dim=0) for text in texts])


sides = {noun: own_side(noun) for noun in nouns}
leans = lean(mean_of_inputs(sentences), mean_of_inputs(known.sentence))
sides["mean of the input vectors"] = (leans > 0) == is_river
pd.DataFrame(
    {
        kind: {name: own[rows].sum().item() for name, own in sides.items()}
        for kind, rows in kinds.items()
    }
)

# %% read-nouns [markdown] above="So the topic of" answers="14/another-noun"
# The other nouns are on the side of the sentence in 42 to 51 clear and in 25 to 37 mixed ones,
# and even the mean of the input vectors in 50 and 30.
# So the topic of a sentence reaches the place of “bank”,
# and these counts do not show that the model knows which bank is meant.

# %% does-anything-use-it [markdown] below="That a meaning can"
# ## Does anything use it?
#
# That a meaning can be read from a vector does not show that the model uses it.
# To test this, we replace the vector of “bank” by one from another sentence,
# and watch the *other words*.
# Such a swap is called [**activation patching**](glossary.ipynb#activation-patching).

# %% draw-the-swap
show_figure(diagram("swap"), "14.3")

# %% one-swap [markdown] below="After the last layer"
# After the last layer, we average the vectors of the other words, without the markers,
# and compute the lean of the average.


# %% by-hand
def others(x, tokens, noun):
    """The mean of the other words: (..., L, E) -> (..., E)."""
    words = [i for i in range(1, len(tokens) - 1) if tokens[i] != noun]
    return x[..., words, :].mean(dim=-2)


def run_from_2(x):
    for layer in encoder.layers[2:]:
        x, _ = layer(x)
    return x


def known_others(noun):
    runs = [encoder.read(text) for text in with_noun(noun, known.sentence)]
    return torch.stack([others(one.vectors[-1], one.tokens, noun) for one in runs])


loan = sentences.index("his loan from the bank was large")
x = readings[thief].vectors[2].repeat(2, 1, 1)  # before layer 2, twice: (2, L, E)
x[1, of_bank[thief]] = readings[loan].vectors[2, of_bank[loan]]
lean(others(run_from_2(x), tokens, "bank"), known_others("bank"))  # before, and after

# %% read-by-hand [markdown] above="This swap halves the" below=["Donors of the *other*", "We measure how the"]
# This swap halves the lean of the other words, from 0.021 to 0.010.
# (The mean over all 99, to the own side, is 0.115.)
# But perhaps any foreign vector would do so.
# So each of the 99 sentences gets 9 donors.
# Donors of the *other* meaning are the test, and donors of the *same* meaning are the control.
# As another control, we swap the other nouns.
# We measure how the lean to the own side changes, in percent of its mean before the swap.

# %% all-swaps
steps = torch.arange(10, 100, 10)  # the sentences 10, 20, …, 90 further on
donors = (torch.arange(99)[:, None] + steps) % 99  # (99, 9)
side = torch.where(is_river, 1, -1)


def all_swaps(noun):
    """Sentence i, donor j: the change in percent of the mean lean (99, 9)."""
    means = known_others(noun)
    runs = [encoder.read(text) for text in with_noun(noun, sentences)]
    at = [one.tokens.index(noun) for one in runs]
    leans = []
    for i, one in enumerate(runs):
        x = one.vectors[2].repeat(10, 1, 1)  # copy 0 stays as it is
        x[1:, at[i]] = torch.stack([runs[j].vectors[2, at[j]] for j in donors[i]])
        leans.append(side[i] * lean(others(run_from_2(x), one.tokens, noun), means))
    leans = torch.stack(leans)  # (99, 10)
    return 100 * (leans[:, 1:] - leans[:, :1]) / leans[:, 0].mean()


# %% see-swaps
is_same = is_river[donors] == is_river[:, None]
results = {}
for noun in nouns:
    changes = all_swaps(noun)
    results[noun] = [changes[kind].mean().item() for kind in (~is_same, is_same)]
measured = ["other meaning (%)", "same meaning (%)"]
pd.DataFrame.from_dict(results, orient="index", columns=measured).round(1)

# %% read-swaps [markdown] above="On average, a \u201cbank\u201d"
# On average, a “bank” of the other meaning takes away 9.4% of this lean.
# One of the same meaning takes away nothing.
# Of the six other nouns, only *letter* takes away as much, and *number* nearly.

# %% what-this-shows-and-what-it-does-not [markdown] end=["After layer 5, three", "With a \u201cbank\u201d of"]
# ## What this shows, and what it does not
#
# What turns the thief back?
# Layer 3 takes away about half of its lean.
# In layer 4 nearly all leans shrink, so its fall says little.
# In layer 5, “thief” and “gold” turn it back.
#
# Which layer knows which bank is meant?
# Our means cannot tell.
# “Bank” is on its own side in nearly all clear sentences from layer 0 on,
# and in at most 38 of 48 mixed ones.
# After layer 5, three of the six other nouns do better in the mixed sentences,
# so what we read may be the topic.
#
# Does anything use it?
# With a “bank” of the other meaning, the other words lean less to their own side.
# So the model takes up what “bank” holds.
# But a *letter* takes away as much, so the swap does not prove that this is a meaning.
#
# There are limits: another way to read the vectors may find more in them,
# and one person wrote both sets of sentences.
# (Without the 27 that share a noun, verb or adjective, little changes.)

# %% remember [markdown] end=["That something can be", "Look separately at"]
# ## What to remember
#
# - To read a meaning from a vector,
#   compare it with the means of *other* sentences whose meaning is known,
#   in which the position of the word does not tell the two groups apart.
# - What can be read at a word may be the topic of its sentence.
#   As a control, read another noun in its place, with means of its own.
# - Look separately at the sentences in which the clues disagree.
# - That something can be read from a vector does not show that the model uses it.
#   To find out, put in vectors of the other meaning and of the same, and watch the rest.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Repair ★ (6 minutes)
#
# `careless` gets the vectors x (L, E) of a sentence and the vectors (M, E) of a donor.
# It should return x with one vector exchanged: at `position`,
# the one that the donor has at `donor_position`.
# It has two mistakes.
# With the thief and its donor, neither raises an error, and one of them also spoils the next swap.
# Write `careful`.
#
# <details><summary>Hint</summary>
#
# Which of the two positions belongs to which sentence?
# And what is in <code>x</code> after <code>careless(x, ...)</code>?
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
# We can leave “bank” out of its sentence, or leave it in and hide it.
# Write a function that returns new weights, in which one token is hidden:
# no *other* token may attend to it any more, and their other weights keep their proportions.
# The hidden token keeps its whole row, and the weights given stay as they are.
#
# When your function passes the check, hide “bank” in all six layers of the sentence of the thief.
# Compare the vectors of the other tokens with those that they have if “bank” is left out and they
# keep their positions.
# `vectors, _ = encoder(other_tokens, positions=other_positions)` gives these.
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
# As if “bank” were left out and the others kept their positions:
# if one score is left out, a softmax keeps the proportions of the other weights.
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
# Write a sentence with “bank” that readers get right and our two means get wrong.
# After the last layer, its vector must lean by 0.005 or more to the other side.
# Return the sentence and its meaning, “river” or “money”.
# How many sentences did you have to try?
#
# <details><summary>Hint</summary>
#
# Put “bank” among words that go with its other meaning.
# <code>lean(vectors_of(encoder, "bank", [sentence])[0], known_vectors)</code> gives the leans.
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
# Second: what happens if the vector is exchanged for one of a verb in the other tense,
# and what if for one in the same tense?
# If the output of the model changes as it should with the first, and not with the second,
# the model takes up something that goes with the tense.
# If it does not change, the model may still get the tense from elsewhere.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# To change what a part of your own model passes on,
# give a function to `module.register_forward_hook`.
# After each run of the module, it is called with the module, its input and its output,
# and if it returns something, the model continues with that.
# This is how a vector is put in.
#
# With Hugging Face Transformers,
# `model(..., output_hidden_states=True)` of a BERT returns the vectors before the first layer and
# after every layer, like our seven.

# %% sources [markdown]
# ## Sources
#
# - Wang et al., [MiniLM](https://arxiv.org/abs/2002.10957), 2020, and Reimers and Gurevych,
#   [Sentence-BERT](https://arxiv.org/abs/1908.10084), 2019: how a model like ours was made.
# - Wiedemann et al., [Does BERT Make Any Sense?](https://arxiv.org/abs/1909.10430), 2019:
#   word meanings from the vectors of BERT, by the nearest neighbours among labelled sentences.
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
#   which, like this lesson, changes vectors inside a model and watches its output.
#
# To look up a word, open the [glossary](glossary.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 46 minutes, and where a class stalls</summary>
#
# **46 minutes.**
# The model, the lean and all sentences: 16.
# The thief, the explorer and the hidden words: 14.
# Other nouns: 7.
# The swap and the answer: 9.
# The exercises take another 34 minutes; set them as homework.
# If time is short, leave out the swap by hand.
#
# **Where a class stalls.**
# *“Other nouns are as good, so the model knows nothing”:* that is not shown either.
# The counts cannot tell meaning from topic.
# *“9.4% is next to nothing”:* ask what else the other words have to go by.
# *“But ChatGPT gets the thief right”:* this is a small model, and we asked one vector of it,
# not the model.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# Why do the means come from other sentences than those that are tested?
# **A vector pulls a mean that it is part of towards itself.**
# *To have more sentences:* there would be more if all were used for both.
#
# **2.**
# Why does another noun get means of its own?
# **Its vectors lie elsewhere, so the means of “bank” measure something else.**
# *To make it look good:* it gets the same as “bank”, and no more.
#
# **3.**
# With *table* in the place of “bank”, 50 of the 51 clear sentences are on their own side.
# What follows?
# **The count of “bank” may show the topic of its sentence and no meaning of the word.**
# *That a table means money or a river:* the lean tells only which mean is nearer.
#
# **4.**
# A meaning can be read after layer 1.
# Does layer 2 use it?
# **The counts do not tell; one has to change the vector.**
# *Yes, why else would it be there:*
# what helps us to tell two sentences apart may be of no use to the model.
#
# **5.**
# In the pairs of our 20 sentences, “bank” stands at the same position.
# What could go wrong otherwise?
# **The two means could differ by positions, and then a position would look like a meaning.**
# *Nothing, because a position is no meaning:* the vectors hold both,
# and the means average all that they hold.
# </details>
