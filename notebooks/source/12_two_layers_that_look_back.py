# %% opening [markdown] above="What can two layers" end="What can two layers"
# # 12 · Two layers that look back
#
# A novel introduces a certain Mr Tolliver.
# A hundred pages later we read “and then Mr”,
# and a language model guesses that *Tolliver* comes next.
# It never met this name in training, so it has to look it up in the text:
# where did I see “Mr” before, and what came after it?
#
# What can two layers of attention do that one cannot?
#
# **You need:** the causal mask from [lesson 3](03_masks_who_may_look_at_whom.ipynb),
# multi-head attention from [lesson 7](07_multi_head_reshaping_without_scrambling.ipynb),
# and positions from [lesson 11](11_order.ipynb).
# You should know what a loss and an optimizer are.
#
# **You will be able to:** write a model of several layers around a residual stream,
# and explain what a second layer adds to the first; find a head by a score,
# and forge what it has written.
#
# **Time:** 46 minutes in class, or 80 on your own with the exercises.
# “Further” takes another 10.

# %% setup
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import MultiHeadAttention, Table, data_path
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import LookingBackExplorer
from attnlab.models.looking_back import load_looking_back, make_texts
from attnlab.models.looking_back import share_correct, to_text, to_tokens

lesson_setup()

# %% the-task [markdown] below="A record with a"
# ## A record with a scratch
#
# We train on texts in which many tokens can be guessed in this way.
# A record with a scratch plays a loop of 8 to 15 different letters over and over.
# From the second round on, the needle jumps at random, about once in four letters.
# We write each jump as a bar, `|`, after which the loop goes on from a random letter.
#
# Each text has a loop of its own, so there is nothing to learn by heart.
# A text has 33 tokens.
# The model reads the first 32 and guesses, at each of them, which token comes next.
# We count a guess only if the text already contains the answer:
# the letter that comes next has followed an earlier copy of the current letter.
# (Nobody can foresee a bar, so the guess directly before one is left out.)
# A `^` under a letter means that the guess made there is counted.

# %% three-texts
torch.manual_seed(5)
examples = make_texts(3)  # tokens (3, 33) and known (3, 32)
for tokens, known in zip(examples.tokens, examples.known, strict=True):
    print(to_text(tokens))
    print("".join("^" if mark else " " for mark in known), end="\n\n")

# %% the-model [markdown] below=["What is new is", "A layer does not"]
# ## The model
#
# The model gives every token a vector of 64 features,
# the sum of one for the symbol and one for its position.
# Attention layers follow, and at the end a linear layer turns each vector into 27 logits,
# one for each letter and one for the bar.
#
# What is new is how the layers are connected.
# A layer does not replace the vectors: its output is *added* to them.
# So each token has one vector that runs from the embedding to the guess and collects what the
# layers find, the [**residual stream**](glossary.ipynb#residual-stream).

# %% drawing jupyter={"source_hidden": true}
from attnlab.display import diagram

show_figure(diagram("residual_stream"), "12.1")

# %% the-class [markdown]
# The second layer, layer 1, therefore sees both the token itself and what layer 0 has added to it.
# `LayerNorm` centres each vector and scales it to about the same length before a layer reads it.


# %% looking-back
class LookingBack(nn.Module):
    def __init__(self, num_layers=2, embed_dim=64, num_heads=1):
        super().__init__()
        layers = [
            MultiHeadAttention(embed_dim, num_heads, bias=False)
            for _ in range(num_layers)
        ]
        self.symbol = nn.Embedding(27, embed_dim)  # A to Z, and the bar
        self.position = nn.Embedding(32, embed_dim)
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.LayerNorm(embed_dim) for _ in layers)
        self.last_norm = nn.LayerNorm(embed_dim)
        self.guess = nn.Linear(embed_dim, 27)

    def forward(self, tokens):  # (N, L)
        x = self.symbol(tokens) + self.position.weight[: tokens.shape[1]]  # (N, L, E)
        weights = []
        for norm, layer in zip(self.norms, self.layers, strict=True):
            output, layer_weights = layer(norm(x), is_causal=True)
            x = x + output  # the residual stream: add, do not replace
            weights.append(layer_weights)
        return self.guess(self.last_norm(x)), torch.stack(weights)


# %% training [markdown] below="We train it as"
# We train it as a language model is trained, except that only the counted guesses enter the loss.


# %% train
def train(num_layers, embed_dim, num_heads, **kind_of_text):
    model = LookingBack(num_layers, embed_dim, num_heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(200):
        tokens, known = make_texts(64, **kind_of_text)  # (64, 33), (64, 32)
        logits, _ = model(tokens[:, :-1])
        loss = F.cross_entropy(logits[known], tokens[:, 1:][known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.requires_grad_(False)


# %% one-or-two [markdown] below="To make the comparison"
# We train one layer and then two.
# To make the comparison fair, the single layer gets 88 features,
# so that it has about as many parameters as two layers with 64.
# It also gets four heads.
# `share_correct` returns the share of the counted guesses that are correct.

# %% see-one-layer
torch.manual_seed(0)
one_layer = train(num_layers=1, embed_dim=88, num_heads=4)
torch.manual_seed(0)
two_layers = train(num_layers=2, embed_dim=64, num_heads=1)
torch.manual_seed(1)
new_texts = make_texts(1000)
for name, trained in (("one layer: ", one_layer), ("two layers:", two_layers)):
    size = sum(parameter.numel() for parameter in trained.parameters())
    share = share_correct(trained, new_texts)
    print(f"{name}  {size:,} parameters, {share:.2f} correct")

# %% baseline [markdown] below="Does the single layer"
# Does the single layer need more heads, or more time?

# %% longer jupyter={"source_hidden": true}
runs = pd.read_csv(data_path("looking_back.csv"))
single = runs["num_layers"] == 1
jumping = runs[(runs["task"] == "jumps") & (~single | (runs["step"] > 0))].copy()
named = {1: "one layer, 1 head", 4: "one layer, 4 heads", 22: "one layer, 22 heads"}
stopped = "two layers, 1 head each\n(stopped at step 300)"
jumping["model"] = jumping["num_heads"].map(named).where(single, stopped)
jumping["run"] = (
    jumping["model"] + jumping["rate"].astype(str) + jumping["seed"].astype(str)
)
_, ax = plt.subplots(figsize=(7, 3), layout="constrained")
sns.lineplot(
    jumping,
    x="step",
    y="correct",
    hue="model",
    style="model",
    hue_order=[stopped, *reversed(named.values())],
    style_order=[stopped, *reversed(named.values())],
    units="run",
    estimator=None,
    linewidth=1.2,
    ax=ax,
)
ax.set(
    xlabel="training step",
    ylabel="share of correct guesses",
    ylim=(0, 1.03),
)
tokens, known = new_texts
played = F.one_hot(tokens[:, :-1], 27).cumsum(dim=1)[:, :, :26] > 0
random_pick = 1 / (played.sum(dim=-1) - 1)  # without the current letter
ax.axhline(random_pick[known].mean(), color="0.55", linewidth=1, label="random pick")
ax.legend(title="", loc="center right", bbox_to_anchor=(1, 0.62))
show_figure(ax, "12.2")

# %% why-two [markdown] above="Neither 22 heads nor" below="What is missing is"
# Neither 22 heads nor 1,000 steps bring a single layer near the model with two.
# With 22 heads it gets 0.28, mostly by a shortcut:
# about half of its guesses are the letter not played for the longest time,
# which is right until the first jump, and in about a third of the cases after it.
#
# ## Why one look is not enough
#
# Take the text `KQZBMTAR|QZ`.
# The last token is Z, and the answer is B, because B followed Z last time.
# Which token should Z look at?
#
# - It can find the earlier Z: its query asks for the letter Z. The value of that token says “I am
#   Z, at position 2”.
#   The layer would now have to look at position 3, but it has already looked:
#   its queries were made before it knew about position 2.
# - The token that it needs is B. But the key of B is made from B and its position alone.
#   That key does not say that Z comes before B, so the query of Z cannot recognise it.
#
# What is missing is a note on B: *“the letter before me is Z”*.
# Layer 0 can write this note: the query of the token at position 3 can ask for position 2,
# and the letter found there is added to its vector.
# Layer 1 can then search for the note that layer 0 has written.

# %% two-looks jupyter={"source_hidden": true}
from attnlab.display import diagram

show_figure(diagram("two_looks"), "12.3")

# %% find-heads [markdown] below=["The *previous-token score* is", "Does the trained model", "The *previous-token score* is"]
# The second look needs the result of the first.
# Two heads of one layer cannot take turns, because they work at the same time.
#
# ## Find the heads with a score
#
# Does the trained model really work like this?
# If so, we should find two kinds of heads.
# For each kind we define a *score* (not the kind that goes into a softmax):
# the average weight that a head puts where a head of this kind should look.
#
# - The *previous-token score* is the weight on the token directly before.
# - The *follower score* (also called *prefix-matching score*) is the weight on letters that came
#   directly after an earlier copy of the current letter, averaged over the counted guesses.
#   `followers` marks these letters.


# %% scores
def followers(tokens):  # (N, L) -> (N, L, L), boolean
    before = F.pad(tokens[:, :-1], (1, 0), value=-1)  # what stands before each token
    same = before[:, None] == tokens[:, :, None]
    letter = tokens != 26  # not a bar
    return (same & letter[:, :, None] & letter[:, None]).tril()


def previous_score(weights):  # (N, H, L, L) -> (H,)
    before = weights.diagonal(-1, dim1=2, dim2=3)  # (N, H, L - 1)
    return before.mean(dim=(0, 2))  # over the texts and the positions


def follower_score(weights, texts):  # (N, H, L, L) -> (H,)
    marked = followers(texts.tokens[:, :-1])[:, None]  # (N, 1, L, L), as in every head
    on_followers = (weights * marked).sum(dim=-1)  # (N, H, L)
    counted = on_followers * texts.known[:, None]  # 0 where the answer cannot be known
    return counted.sum(dim=(0, 2)) / texts.known.sum()


# %% stored-model [markdown]
# From here on we use a stored model, trained in the same way for 300 steps.

# %% score-table
model = load_looking_back()
torch.manual_seed(2)
texts = make_texts(1000)


def scores_of(weights):  # (layers, N, 1, L, L) -> (layers, 2)
    previous = torch.cat([previous_score(layer) for layer in weights])
    follower = torch.cat([follower_score(layer, texts) for layer in weights])
    return torch.stack([previous, follower], dim=-1)


_, weights = model(texts.tokens[:, :-1])  # (2, 1000, 1, 32, 32)
average = torch.ones(32, 32).tril() / torch.arange(1, 33)[:, None]  # equal weights
scores = torch.cat([scores_of(weights), scores_of(average.expand(1, 1000, 1, 32, 32))])
Table(["layer 0", "layer 1", "plain average"], ["previous", "follower"], scores)

# %% half [markdown] above="At counted guesses, layer"
# At counted guesses, layer 1 looks almost only at letters that followed the current one before.
# But the previous-token score of layer 0 is only about one half.
# Why?

# %% ask-half
predict("12/half-a-score")

# %% see-half jupyter={"source_hidden": true}
# %%answer 12/half-a-score
before = weights[0].diagonal(-1, dim1=-2, dim2=-1)  # layer 0: (N, H, L - 1)
spread = pd.read_csv(data_path("notes_spread.csv")).query("seed == 0 and step <= 150")
spread = spread.pivot(index="step", columns="position", values="note")
_, (top, below) = plt.subplots(2, figsize=(7, 4.4), layout="constrained")
top.bar(range(1, 32), before.mean(dim=(0, 1)))
top.set(xlim=(0.5, 31.5), ylabel="weight on\nthe token before")
below.pcolormesh(spread.columns, spread.index, spread, vmin=0, vmax=1, cmap="Blues")
below.set(xlabel="position", ylabel="training step")
show_figure(top, "12.4")

# %% average-hides [markdown] above="Layer 0 looks at" answers="12/half-a-score"
# Layer 0 looks at the token before up to position 15; later, only position 18 does so in part.
# The average over all positions hid this.

# %% forge [markdown] below="In `KQZBMTAR|QZ`, B at"
# ## Forge a note
#
# A head that looks at what came after an earlier copy, and makes the model repeat it,
# is called an [**induction head**](glossary.ipynb#induction-head).
# So far we know only where ours looks.
# Does it go by the notes?
#
# In `KQZBMTAR|QZ`, B at position 3 carries the note “Z is before me”,
# and T at position 5 carries the note “M is before me”.
# We exchange what layer 0 has added to these two tokens, and leave everything else as it is.
# Which letter does the model guess after the last Z?

# %% ask-forged
predict("12/forged-note")


# %% see-forged
# %%answer 12/forged-note
def guess_with_exchanged(tokens, one, other):  # (N, L) -> (N, L)
    L = tokens.shape[1]
    x = model.symbol(tokens) + model.position.weight[:L]  # (N, L, E)
    notes, _ = model.layers[0](model.norms[0](x), is_causal=True)
    order = torch.arange(L)
    order[one], order[other] = other, one
    x = x + notes[:, order]
    found, _ = model.layers[1](model.norms[1](x), is_causal=True)
    return model.guess(model.last_norm(x + found)).argmax(dim=-1)


forged = guess_with_exchanged(to_tokens("KQZBMTAR|QZ")[None], 3, 5)
print("after the last Z:", to_text(forged[0, -1:]))

# %% many-notes [markdown] above="The model guesses T" below="We do the same" answers="12/forged-note"
# The model guesses T, which now carries the note about Z. We do the same in 1,000 texts,
# and look at the guesses whose answer stands only at position 3.

# %% see-many-notes
# %%answer 12/forged-note
tokens = texts.tokens[:, :-1]
marked = followers(tokens)
asks = texts.known & marked[:, :, 3] & (marked.sum(dim=-1) == 1)  # (N, L)
forged = guess_with_exchanged(tokens, 3, 5)
for name, position in (("carries the note", 5), ("followed", 3)):
    share = (forged == tokens[:, position, None])[asks].float().mean()
    print(f"guesses of the letter that {name}: {share:.2f}")

# %% notes-decide [markdown] above="The guesses go by" below="In the explorer, exchange" answers="12/forged-note"
# The guesses go by the notes.
# Neither a token nor a parameter has changed, so layer 1 searches for what layer 0 wrote,
# and the model repeats the letter that carries it.
#
# In the explorer, exchange the note of B with that of another letter, and choose who guesses.
# Where the answer can be known, only those guesses change that need one of the two notes.

# %% explorer
LookingBackExplorer()

# %% what-a-second-layer-adds [markdown] end="A second layer can"
# ## What a second layer adds
#
# In one layer, a head that finds the first “Mr” gets what that token holds,
# and not the name after it.
# A second layer can search for what the first one wrote.
# *Tolliver* then carries the note “the word before me is Mr”,
# and the second “Mr” searches for this note and repeats the word that carries it.
#
# Olsson et al. (2022) found induction heads in language models with two or more attention layers,
# and none in models with a single one.
# Our model shows that gradient descent can find this mechanism, and how to test for it.
# It does not show that a large model repeats “Tolliver” for this reason.

# %% take-one-out [markdown]
# ## Further
#
# ### Take one out
#
# To find out what the model needs a head for, we remove it and see what changes:
# this is called an [ablation](glossary.ipynb#ablation).
# We set its output projection to zero, so that it still looks but adds nothing to the stream.
# Does the follower score of layer 1 fall without layer 0?
# And does the score of layer 0 fall without layer 1?


# %% see-without
def without_layer(layer):
    changed = load_looking_back()
    changed.layers[layer].out_proj.weight.zero_()
    return changed


rows = []
for tested in (model, without_layer(0), without_layer(1)):
    _, weights = tested(texts.tokens[:, :-1])
    scores = scores_of(weights)
    rows.append([scores[0, 0], scores[1, 1], share_correct(tested, texts)])
names = ["whole model", "without layer 0", "without layer 1"]
columns = ["previous, layer 0", "follower, layer 1", "correct"]
Table(names, columns, torch.tensor(rows))

# %% counting [markdown]
# Without layer 0, the follower score of layer 1 falls to 0.09 (a plain average has 0.06),
# and the model does no better than a random pick.
# Yet not one parameter of layer 1 has changed: it searches for notes that nobody has written.
# Without layer 1, the score of layer 0 stays as it was,
# because layer 0 has finished before layer 1 begins.
#
# ### The record without a scratch
#
# Now every loop has 12 letters and the record has no scratch, so each text repeats every 12 tokens.
# We train a single layer with one head on such texts.

# %% ask-counting
predict("12/no-scratch")

# %% see-counting
# %%answer 12/no-scratch
regular = dict(jump=0.0, shortest=12, longest=12)
torch.manual_seed(0)
regular_model = train(num_layers=1, embed_dim=64, num_heads=1, **regular)
torch.manual_seed(3)
twelves = make_texts(1000, **regular)
_, weights = regular_model(twelves.tokens[:, :-1])
score = follower_score(weights[0], twelves)
print(f"correct {share_correct(regular_model, twelves):.2f}, score {score[0]:.2f}")

# %% other-loops [markdown] answers="12/no-scratch"
# The single layer gets nearly all guesses right, and its follower score is nearly 1.
# Does it look up what followed?
# We test it, and the stored model with two layers, on loops of other lengths, again without jumps.

# %% see-other-loops
# %%answer 12/no-scratch
shares = []
for length in (5, 6, 11, 12, 15):
    torch.manual_seed(4)
    loops = make_texts(1000, jump=0.0, shortest=length, longest=length)
    shares.append([share_correct(regular_model, loops), share_correct(model, loops)])
lengths = [f"loops of {length}" for length in (5, 6, 11, 12, 15)]
names = ["one layer, trained on 12", "two layers, trained with jumps"]
Table(lengths, names, torch.tensor(shares))

# %% counting-read [markdown] answers="12/no-scratch"
# In loops of 5, 11 and 15, the single layer fails, so it does not look up letters.
# It counts: in loops of 12, the follower always stands 11 or 23 positions back.
# In loops of 6, the letter 11 positions back is a follower again,
# and there it gets about four in five.
# In such texts, the score cannot tell counting from looking up.
# *If a task can be solved in another way, a good result is no proof of the way you had in mind.*
# That is why our loops differ in length, and why the needle jumps.

# %% remember [markdown] end=["Layers read from the", "Looking up what followed", "A share of correct"]
# ## What to remember
#
# - Layers read from the residual stream and add to it.
#   What one layer adds, every later layer can use in its queries, keys and values.
# - Looking up what followed takes two steps.
#   Layer 0 writes a note on a letter about the one before it;
#   layer 1 searches for the note about the current letter and repeats the letter that carries it.
#   The head of the second step is called an induction head.
# - A score says where a head looks.
#   To find out what it goes by, change that and nothing else, and see whether the guess follows.
# - A mean over all positions can hide that a head does its work at some of them only.
# - A share of correct guesses alone need not tell how they were found.
#   Look at cases in which a shortcut and a lookup give different guesses.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (3 minutes)
#
# The text is `PLAYGROUND|LAYG`.
# At which position should layer 1 look from the last token?
# Count from 0.
#
# <details><summary>Hint</summary>
#
# Where does the same letter first appear?
# The letter to guess comes right after it.
# </details>

# %%
from attnlab.exercises import check_best_key, check_mended_stream
from attnlab.exercises import check_position_to_look_at, check_same_letter_score


# %% tags=["exercise"]
def position_to_look_at():
    """Return the position."""


# %%
check_position_to_look_at(position_to_look_at)


# %% tags=["solution"]
def position_to_look_at_solution():
    return 5  # R: it followed the earlier G at position 4


check_position_to_look_at(position_to_look_at_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (10 minutes)
#
# Two layers could also solve the task in another way: layer 0 finds the earlier copy of the letter,
# and layer 1 looks one position further.
# Write a score that would find such a layer 0: for each head,
# the weight that a letter gives to earlier copies of itself,
# averaged over the letters that have such a copy.
# Leave out the bars, whose token is 26.
# Try it without a Python loop.
# Then score both layers of `model` on `texts.tokens[:, :-1]`.
#
# <details><summary>Hint</summary>
#
# First make a boolean tensor (N, L, L) that marks the earlier copies of each letter,
# and give it an axis for the heads.
# Then add up the weights that it marks.
# By how many letters do you divide?
# </details>


# %% tags=["exercise"]
def same_letter_score(weights, tokens):
    """(N, H, L, L), (N, L) -> (H,)."""


# %%
check_same_letter_score(same_letter_score)


# %% score-solution tags=["solution"]
def same_letter_score_solution(weights, tokens):
    copies = (tokens[:, :, None] == tokens[:, None]).tril(-1)  # (N, L, L)
    copies &= (tokens != 26)[:, :, None]
    on_copies = (weights * copies[:, None]).sum(dim=(0, 2, 3))  # (H,)
    return on_copies / copies.any(dim=-1).sum()


for number, layer in enumerate(model(texts.tokens[:, :-1])[1]):
    score = same_letter_score_solution(layer, texts.tokens[:, :-1])
    print(f"layer {number}: {score[0]:.2f}")
check_same_letter_score(same_letter_score_solution)

# %% score-reading [markdown]
# <details><summary>An answer</summary>
#
# Layer 0 gives 0.03 of its weight to earlier copies, and layer 1 gives them 0.00.
# A plain average would give them 0.07.
# So our model does not go this way.
# </details>

# %% exercise-3 [markdown]
# ### 3 · Read from the parameters ★★ (6 minutes)
#
# How does layer 0 find the token before?
# Write `best_key`: for each query, return the position of the key that fits it best,
# among the keys that a causal mask allows.
# Then give it the queries and keys that layer 0 makes from the position vectors alone,
# `model.norms[0](model.position.weight)`, without any letter.
#
# <details><summary>Hint</summary>
#
# A dot product can be negative, so a key that is masked must not get a 0.
# What did lesson 3 put there?
# </details>


# %% tags=["exercise"]
def best_key(query, key):
    """(L, E), (L, E) -> (L,): positions of keys, not later than the query."""


# %%
check_best_key(best_key)


# %% key-solution tags=["solution"]
def best_key_solution(query, key):
    later = torch.ones(len(query), len(key), dtype=torch.bool).triu(1)
    return (query @ key.T).masked_fill(later, float("-inf")).argmax(dim=-1)


first = model.layers[0]
positions = model.norms[0](model.position.weight)  # (32, E)
print(best_key_solution(first.q_proj(positions), first.k_proj(positions)))
check_best_key(best_key_solution)

# %% key-reading [markdown]
# <details><summary>An answer</summary>
#
# At positions 1 to 15, the key that fits best is that of the position before.
# So layer 0 finds the token before by its position and needs no letter for it.
# From position 16 on, other keys fit better, except at position 18.
# </details>

# %% exercise-4 [markdown]
# ### 4 · Repair ★★ (8 minutes)
#
# `broken` should run all layers on a residual stream except one,
# the layer with the number `removed`: an ablation.
# It is broken in two places.
# Write `mended`.
# Each layer is a function that takes and returns a tensor of the shape (N, L, E).
#
# <details><summary>Hint</summary>
#
# Follow the drawing of the stream.
# What arrives at the end if a layer adds nothing?
# Which layers still run?
# </details>


# %% tags=["exercise"]
def norm(x):
    return F.layer_norm(x, x.shape[-1:])


def broken(x, layers, removed):
    for number, layer in enumerate(layers):
        if number == removed:
            break
        x = layer(norm(x))
    return x


def mended(x, layers, removed):
    """The stream (N, L, E) after all layers but one."""


# %%
check_mended_stream(mended)


# %% tags=["solution"]
def mended_solution(x, layers, removed):
    for number, layer in enumerate(layers):
        if number != removed:
            x = x + layer(norm(x))
    return x


check_mended_stream(mended_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★★ (6 minutes)
#
# In a large model, a friend finds a head whose follower score is 0.9 on one news article.
# “An induction head,” she says.
# Name two tests that she should run, and say what each of them would rule out.
#
# <details><summary>An answer</summary>
#
# She should measure the score in texts of random symbols with repetitions at random distances.
# If it stays high, the head is neither counting positions nor relying on word sequences learned in
# training.
# Then she should remove the head, measure how much worse the guesses at repeated words become,
# and compare this with the effect of removing other heads.
# If the guesses hardly change, the head may look at the followers without being needed,
# or another head may be doing the same job.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `nn.TransformerEncoderLayer(d_model, nhead, norm_first=True, batch_first=True)` is attention and
# an MLP, each with a norm before it and each added to the residual stream.
# It is causal only with a mask.

# %% sources [markdown]
# ## Sources
#
# - Elhage et al.,
#   [A Mathematical Framework for Transformer Circuits](https://transformer-circuits.pub/2021/framework/index.html),
#   2021: the residual stream, models with one and two attention layers and no MLP, induction heads,
#   and how to read heads from their weights (K-composition; the QK circuit,
#   which says what fits what; the OV circuit, which says what is copied).
# - Sanford, Hsu and Telgarsky,
#   [One-layer transformers fail to solve the induction heads task](https://arxiv.org/abs/2408.14332),
#   2024: how a single layer has to grow with the length of the text.
# - Olsson et al., [In-context Learning and Induction Heads](https://arxiv.org/abs/2209.11895),
#   2022: when these heads appear in training, what happens without them,
#   and how strong the evidence is for small and for large models.
#   The scores in this lesson follow theirs, which they measure on repeated random tokens.
# - The scratched record and its numbers are our own.

# %% next [markdown]
# ## Next
#
# Lesson 13, [Word by word: the cache](13_word_by_word_the_cache.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 46 minutes, and where a class stalls</summary>
#
# **46 minutes.**
# The record and the model: 10.
# One layer and two: 4.
# Why one look is not enough: 5.
# The scores, and where layer 0 looks: 11.
# Forged notes and the explorer: 14.
# The answer: 2.
# Set “Further” as homework.
#
# **Where a class stalls.**
# *“The head could look at Z and then move one position further”:*
# let eleven students stand in a row, each with a letter.
# A student who looks for a letter sees only what the others hold up.
# Then let everyone also hold up a card with the letter of the neighbour to the left,
# and repeat the search.
# Let two of them exchange their cards: who is found now?
# *“Layer 1 looks at layer 0”:* it looks at tokens, as every layer does;
# what has changed is what they hold up.
# *“An ablation shows what the head does”:* it shows what is lost without the head,
# which can be less if another head helps, or more if a later layer is confused.
# Without layer 1, for example, half of the guesses go to the letter just before,
# or to letters never played, and the model does worse than a random pick.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# In `ABCDEFGH|BC`, where should layer 1 look from the last token?
# **At the D.** *At the earlier C:* its value says only C. *At the B directly before it:*
# that is what layer 0 does.
#
# **2.**
# Why does a single layer with a few heads not solve the task?
# **All its heads work at the same time, from the same vectors.**
# *It has too few parameters:* the wide layer had about as many as the two together.
# *It was trained too briefly:* a thousand steps did not close the gap.
#
# **3.**
# You remove layer 1.
# What happens to the attention weights of layer 0?
# **Nothing.**
# *They get worse:* nothing flows back from a later layer when the model is used.
# A later layer influences an earlier one only during training.
#
# **4.**
# A head has a follower score of 1 on texts with period 12.
# What does it do?
# **We cannot tell.**
# *It looks up what followed:* a head that looks 11 positions back has the same score.
#
# **5.**
# You remove a head and the model works as before.
# Was the head useless?
# **Perhaps, but another head may be doing its job.**
# *Yes:* remove the other one alone, and then both.
# </details>
