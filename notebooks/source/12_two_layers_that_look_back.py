# %% opening [markdown]
# # 12 · Two layers that look back
#
# A novel introduces a certain Mr Tolliver. A hundred pages later we read "and then Mr", and a language model guesses
# that *Tolliver* comes next. It never met this name in training, so nothing that it learned in training can tell it
# what follows "Mr" in this book. It has to look it up in the text: where did I see "Mr" before, and what came after it?
#
# This sounds like a task made for attention, which can find anything in the text. Is one layer enough? What does a
# second layer add?
#
# In this lesson you will train a model with one layer and a model with two, each in a few seconds. You will find out
# which head does what, and take the heads out one by one.
#
# **You need** the causal mask from lesson 3, multi-head attention from lesson 7, and positions from lesson 11. You
# should know what a loss and an optimizer are.
#
# **You will be able to**
# - draw a residual stream and write a model of several layers around it,
# - explain what a second layer adds to the first,
# - use a score to find a head, and check what it does by taking it out,
# - say which tests distinguish a head that looks up what followed from one that takes a shortcut.
#
# **Time:** 45 minutes in class, 80 alone. You may skip the two sections marked "Further".

# %% setup
import torch
import torch.nn.functional as F
from attnlab import MultiHeadAttention, Table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import LookingBackExplorer
from attnlab.looking_back import make_texts, share_correct, to_text
from torch import nn

lesson_setup()

# %% the-task [markdown]
# ## A record with a scratch
#
# In a novel, a new name rarely comes back, so we use texts that are full of repetitions. Imagine a record with a
# scratch. It plays a loop of 8 to 15 different letters, once from beginning to end and then again and again. From the
# second round on, the needle jumps after every fourth letter or so, at random. We write each jump as a bar, `|`, after
# which the loop goes on from a random place.
#
# Each text has a loop of its own, and the loops differ in length, so there is nothing to learn by heart. A text has 33
# tokens. The model reads the first 32 and guesses, at each of them, which token comes next. We count a guess if the
# text itself contains the answer: the current letter has been played before, and the letter that is about to come has
# followed it before. We leave out the guess that is made directly before a bar, because a jump cannot be foreseen.
# Below, a `^` under a letter means that the guess made there is counted.

# %% three-texts
torch.manual_seed(5)
examples = make_texts(3)
for tokens, known in zip(*examples, strict=True):
    print(to_text(tokens))
    print("".join("^" if mark else " " for mark in known), end="\n\n")

# %% the-model [markdown]
# ## The model
#
# The model gives every token a vector of 64 features: the sum of one vector for the symbol and one for its place.
# Attention layers follow, and at the end a linear layer turns each vector into 27 logits, one for each letter and one
# for the bar. A larger logit means that the model considers this symbol more likely.
#
# What is new is how the layers are connected. A layer does not replace the vectors. It reads them, and its output is
# **added** to them, as in the residual connection of lesson 10. So each token has one vector that runs from the
# embedding to the guess and collects what the layers find. It is called the [**residual
# stream**](glossary.ipynb#residual-stream).

# %% drawing jupyter={"source_hidden": true}
from attnlab.diagrams import draw_residual_stream

show_figure(draw_residual_stream(), "12.1")

# %% the-class [markdown]
# A second layer therefore sees both the token itself and what the first layer has added to it. `LayerNorm` brings the
# vectors to a common size before a layer reads them. Apart from that, the model is all attention: it lacks the MLPs
# that come between the attention layers of a Transformer.


# %% looking-back
class LookingBack(nn.Module):
    def __init__(self, num_layers=2, embed_dim=64, num_heads=1):
        super().__init__()
        layers = [
            MultiHeadAttention(embed_dim, num_heads, bias=False)
            for _ in range(num_layers)
        ]
        self.symbol = nn.Embedding(27, embed_dim)  # A to Z, and the bar
        self.place = nn.Embedding(32, embed_dim)
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.LayerNorm(embed_dim) for _ in layers)
        self.last_norm = nn.LayerNorm(embed_dim)
        self.guess = nn.Linear(embed_dim, 27)

    def forward(self, tokens):  # (N, L)
        x = self.symbol(tokens) + self.place.weight[: tokens.shape[1]]  # (N, L, E)
        weights = []
        for norm, layer in zip(self.norms, self.layers, strict=True):
            output, looks = layer(norm(x), is_causal=True)
            x = x + output  # the residual stream: add, do not replace
            weights.append(looks)
        return self.guess(self.last_norm(x)), torch.stack(weights)


# %% training [markdown]
# We train it as a language model is trained, except that only the counted guesses enter the loss, which is the
# cross-entropy. (So the model never learns to announce a bar.) The result is tested on 1,000 new texts. `share_correct`
# returns the share of guesses that are correct, again counting only those whose answer can be known.
#
# We will train one layer and then two. To make the comparison fair, the single layer gets 88 features and four heads,
# so that it has as many parameters as two layers with 64 features and one head each.


# %% train
def train(*sizes, steps=200, seed=0, **kind):
    torch.manual_seed(seed)
    model = LookingBack(*sizes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(steps):
        tokens, known = make_texts(64, **kind)  # (64, 33), (64, 32)
        logits, _ = model(tokens[:, :-1])
        loss = F.cross_entropy(logits[known], tokens[:, 1:][known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.requires_grad_(False)


# %% test
def test(model):
    torch.manual_seed(1)
    return f"about {20 * share_correct(model, make_texts(1000)):.0f} of 20 are correct"


# %% ask-one-layer
predict("12/one-wide-layer")

# %% see-one-layer
# %%answer 12/one-wide-layer
wide = train(1, 88, 4)  # layers, features, heads
two = train(2, 64, 1)
print("one layer: ", test(wide))
print("two layers:", test(two))

# %% longer jupyter={"source_hidden": true}
# %%answer 12/one-wide-layer
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from attnlab import data_path

runs = pd.read_csv(data_path("looking_back.csv"))
named = {1: "one wide layer (24 runs)", 2: "two layers (6 runs)"}
jumping = runs[runs["task"] == "jumps"].replace({"num_layers": named})
_, ax = plt.subplots(figsize=(7, 3), layout="constrained")
sns.lineplot(
    jumping.iloc[::-1],
    x="step",
    y="correct",
    hue="num_layers",
    style="num_layers",
    errorbar=("pi", 100),
    ax=ax,
)
ax.set(
    xlabel="training step",
    ylabel="share of correct guesses",
    ylim=(0, 1.03),
    title="One wide layer and two layers",
)
ax.legend(title="", loc="center right")
show_figure(ax, "12.2")

# %% why-two [markdown]
# The figure also shows longer runs of the single layer, with 1, 4 or 22 heads and at two learning rates. More heads
# help: with 22, up to 6 of 20 guesses are correct. But no single layer here comes near the two layers.
#
# ## Why one look is not enough
#
# Take the text `KQZBMTAR|QZ`. The last token is Z, and the answer is B, because B followed Z last time. Which token
# should Z look at?
#
# - It can find the earlier Z: its query asks for the letter Z. The value of that token says "I am Z, at place 2".
#   Neither Z nor 2 is the answer. The layer would now have to look at place 3, but it has already looked: its queries
#   were made before it knew about place 2.
# - The token that it needs is B. But the key of B is made from B and its place alone. That key does not say that Z
#   comes before B, so the query of Z cannot recognise it.
#
# What is missing is a note on B: *"the letter before me is Z"*. A first layer can write this note. Queries and keys are
# made from vectors that contain a place, so the query of a token at place 3 can ask for place 2. The token can then add
# the letter that it finds there to its own vector. But how can a later layer tell this note from a Z? The letter passes
# through the value and output projections first, so "Z is before me" can be a different vector from "I am Z". A second
# layer can then look for the note.
#
# These are two steps, and the second needs the result of the first, so a head cannot take both in one look. Other heads
# of its layer cannot pass it the result, because they all work at the same time. (A single layer can solve the task in
# other ways, but the longer the text, the larger it has to be; see Sources.) Whether the trained model really works
# like this is a question that we can test.
#
# ## Find the heads with a score
#
# If the idea is correct, we should find two kinds of heads. For each kind we define a number: the average weight that a
# head puts where a head of this kind should look. Such a number is also called a *score*, but it is not the kind that
# goes into a softmax.
#
# - The *previous-token score* is the weight on the token directly before.
# - The *follower score* is the weight on letters that came directly after an earlier copy of the current letter. It is
#   averaged over the tokens whose next letter can be known. `followers`, from attnlab, returns a boolean tensor (N, L,
#   L): row $i$, column $j$ is True if token $j$ came directly after an earlier copy of token $i$. You will write it in
#   exercise 2.

# %% scores
from attnlab.looking_back import followers


def previous_score(weights):  # (N, H, L, L) -> (H,)
    before = weights.diagonal(-1, dim1=2, dim2=3)  # (N, H, L - 1)
    return before.mean(dim=(0, 2))  # over the texts and the places


def follower_score(weights, texts):  # (N, H, L, L) -> (H,)
    tokens, known = texts
    marked = followers(tokens[:, :-1])[:, None]  # (N, 1, L, L), the same in all heads
    found = (weights * marked).sum(dim=-1)  # (N, H, L)
    counted = found * known[:, None]  # 0 where the next letter cannot be known
    return counted.sum(dim=(0, 2)) / known.sum()


# %% stored-model [markdown]
# From here on we use a model that was trained in the same way and stored with the lesson. Another processor may round
# differently during training; with the stored model, you will see the same numbers as in the text.

# %% load
from attnlab.looking_back import load_looking_back

model = load_looking_back()
torch.manual_seed(2)
texts = make_texts(1000)


# %% score-table
def scores_of(model):
    weights = model(texts.tokens[:, :-1])[1]  # (layers, N, 1, L, L)
    previous = torch.cat([previous_score(one) for one in weights])
    follower = torch.cat([follower_score(one, texts) for one in weights])
    return previous, follower  # one number for each layer


scores = torch.stack(scores_of(model), dim=-1)  # (layers, 2)
Table(["first layer", "second layer"], ["previous", "follower"], scores)

# %% half [markdown]
# For the second layer the result is clear: where the next letter can be known, it gives nearly all of its weight to
# letters that came after an earlier copy of the current letter. A head that looks at what came after an earlier copy,
# and makes the model repeat it, is called an [**induction head**](glossary.ipynb#induction-head). So far we know only
# where ours looks. The first layer has by far the larger previous-token score of the two, but it is only about one
# half.

# %% ask-half
predict("12/half-a-score")

# %% see-half
# %%answer 12/half-a-score
first_layer = model(texts.tokens[:, :-1])[1][0]  # (N, H, L, L)
by_place = first_layer.diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, 1))  # (L - 1,)
by_place.round(decimals=1)  # places 1 to 31

# %% one-map jupyter={"source_hidden": true}
# %%answer 12/half-a-score
from attnlab.looking_back import to_tokens
from attnlab.plotting import plot_heads

text = "KQZBMTAR|QZB|TARKQ|MTA"
looks = model(to_tokens(text)[None])[1][:, 0, 0]  # (layers, L, L)
figure = plot_heads(
    looks,
    queries=list(text),
    keys=list(text),
    titles=["first layer", "second layer"],
    annotate=False,
)
show_figure(figure, "12.3")

# %% average-hides [markdown]
# So the score did not lie, but an average over all places hid what mattered. In the figure, the first layer follows the
# line below the diagonal for the first fifteen places, and after that hardly ever. (Where it looks can differ from
# place to place, because every place has a vector of its own; place 18, with 0.5, is an exception in this model.) In
# the second layer, look at the rows below the first bar: where a letter has an earlier copy, the dark cell lies in the
# column after such a copy. In the rows above, no letter has one yet. Guesses made there were not counted in training,
# so the weights in these rows mean little.
#
# ### Follow the two steps
#
# Choose a letter in the upper row. The lines to the middle row show where the second layer looks from there. One place
# gets the largest weight. The lines to the lower row show where the first layer looked from that place. Then move the
# training slider back to step 0 and forward again. Which of the two steps is learned first, or do both come together?
# (The curve of layer 1 ends at only one half because it is a mean over all places.)

# %% explorer
LookingBackExplorer()

# %% remove [markdown]
# ## Take one out
#
# In the explorer, the scores of the two layers rise together, after about 30 steps. Probably, the more notes there are,
# the more useful a search for them becomes, and vice versa. But a score says where a head looks, and not what the model
# needs it for. To find that out, we remove a head and see what changes: this is called an
# [ablation](glossary.ipynb#ablation). We set its output projection to zero, so that it still looks but adds nothing to
# the stream. (Its own score therefore stays as it was.)


# %% without
def without(layer):
    changed = load_looking_back()
    changed.layers[layer].out_proj.weight.zero_()
    return changed


# %% ask-without
predict("12/take-one-out")

# %% see-without
# %%answer 12/take-one-out
rows = {
    "whole model": model,
    "without layer 1": without(0),
    "without layer 2": without(1),
}
for name, one in rows.items():
    previous, follower = scores_of(one)
    print(
        f"{name:15}  previous {previous[0]:.2f}  follower {follower[1]:.2f}", end="  "
    )
    print(f"correct {share_correct(one, texts):.2f}")

# %% swap-text [markdown]
# The first layer does not depend on the second, because it has finished before the second begins. The reverse is not
# true: without the notes of the first layer, the second head finds nothing, although not one of its own parameters has
# changed. Both are needed for a correct guess.
#
# We can also keep both layers and change only their order. The layer that searches for notes then works before they are
# written, and only about one guess in ten is correct:

# %% see-swap
swapped = load_looking_back()
swapped.layers, swapped.norms = swapped.layers[::-1], swapped.norms[::-1]
[round(share_correct(one, texts), 2) for one in (model, swapped)]

# %% counting [markdown]
# ## The record without a scratch
#
# Suppose that the record has no scratch and that every loop has 12 letters. The needle never jumps, so each text is a
# pattern that repeats every 12 tokens. We train a single layer with one head on such texts.

# %% counting-layer
regular = dict(jump=0.0, shortest=12, longest=12)
regular_model = train(1, 64, 1, **regular)

# %% ask-counting
predict("12/no-scratch")

# %% see-counting
# %%answer 12/no-scratch
torch.manual_seed(3)
twelves = make_texts(1000, **regular)
score = follower_score(regular_model(twelves.tokens[:, :-1])[1][0], twelves)
print(f"correct {share_correct(regular_model, twelves):.1f}, score {score[0]:.1f}")

# %% other-loops [markdown]
# Does this layer look up what followed last time? Let us test this layer and the stored model with two layers on loops
# of other lengths, again without jumps.


# %% on-loops
def on_loops(model, length):
    torch.manual_seed(4)
    loops = make_texts(1000, jump=0.0, shortest=length, longest=length)
    return share_correct(model, loops)


# %% see-other-loops
# %%answer 12/no-scratch
loop_lengths = (5, 11, 12, 15)
both = (regular_model, model)
table = [[on_loops(one, length) for one in both] for length in loop_lengths]
row_names = [f"loops of {length}" for length in loop_lengths]
names = ["one layer, trained on 12", "two layers, trained with jumps"]
Table(row_names, names, torch.tensor(table).round(decimals=2))

# %% counting-read [markdown]
# The single layer has learned to look 11 or 23 places back, whichever letter is there. In the texts on which it was
# trained, that letter is always the follower, so the score cannot tell counting places from looking up a letter. In
# loops of 11 letters, the token 11 places back is the current letter itself, and nearly every guess is wrong. The model
# with two layers was trained on loops of 8 to 15 letters. It also guesses correctly in loops of 5 letters, because its
# second layer goes by the letters and not by the distance. (Since the notes end at place 15, it makes mistakes in loops
# of 20 letters with jumps.)
#
# Our loops differ in length so that counting places is not enough. But why does the record have a scratch? In
# `ABCDEFGHAB`, the next letter is C, whose last appearance is furthest back. Without jumps this is so from the second
# round on, in loops of any length. A program that follows this rule need not look up what followed B, so even a perfect
# score would not prove a look-up. The wide layer with four heads does better without jumps: in stored runs of 1,000
# steps, more than half of its guesses are correct, but with jumps less than a quarter. (We have not examined how it
# does this.) With jumps, the rule itself is right in fewer than half of the cases, as the first section marked
# "Further" shows. *If a task can be solved in another way, a good result says nothing about the way you had in mind.*
#
# ## What this shows, and what it does not
#
# What does a second layer add? The first layer can write notes on the tokens, and the second can search by these notes.
# *Tolliver* carries the note "the word before me is Mr", and the second "Mr" can search for it.
#
# Olsson et al. (2022) found such pairs of heads in language models with two or more attention layers, and none in
# models with a single one. During training they appear in a short phase in which the models suddenly become better at
# using earlier text. In small models without MLPs, ablations showed that the second head of a pair, the induction head,
# accounts for most of this gain. For large models the authors call their evidence correlational. Our model has two
# heads, one task, and texts without any meaning. It shows that the mechanism is possible, that gradient descent can
# find it, and how to test for it. It does not show that a large model repeats "Tolliver" for this reason.

# %% further-oldest [markdown]
# ## Further: the letter whose last appearance is furthest back
#
# Here is the rule that solves loops without jumps. For each token, we note when each letter was last played, and guess
# the letter for which that was longest ago.


# %% oldest
def oldest(text):
    """Return the letter whose last appearance in the text is furthest back."""
    return min(set(text) - {"|"}, key=text.rindex)


def share_of_rule(texts):
    correct = []
    for tokens, known in zip(*texts, strict=True):
        text = to_text(tokens)
        for i in known.nonzero().flatten().tolist():
            correct.append(oldest(text[: i + 1]) == text[i + 1])
    return sum(correct) / len(correct)


torch.manual_seed(6)
smooth, scratched = make_texts(200, jump=0.0), make_texts(200)
[round(share_of_rule(one), 2) for one in (smooth, scratched)]

# %% further-two-heads [markdown]
# With jumps the rule is right in fewer than half of the cases. (After a jump the oldest letter can be any letter of the
# loop but the current one. Where no jump has happened yet, the rule still works.)
#
# ## Further: two heads share the work
#
# In a layer with several heads, an ablation of one of them can be misleading. Here each layer has two heads of 32
# features. In the second layer we remove head 0, then both heads, and then head 1 alone.

# %% two-heads
shared = train(2, 64, 2)
last = shared.layers[1].out_proj.weight
intact = last.clone()
for removed in ([], [0], [0, 1], [1]):
    last.copy_(intact)
    for head in removed:
        last[:, 32 * head : 32 * (head + 1)] = 0  # the features of this head
    print(f"removed {removed}: {test(shared)}")

# %% two-heads-read [markdown]
# Either head alone is nearly enough, but when both are removed, hardly any guesses are correct. So either can replace
# the other. If an ablation changes hardly anything, the head may be useless, or another head may do the same job. To
# tell these two cases apart, remove the other head alone, and then both.

# %% remember [markdown]
# ## What to remember
#
# - Layers read from the residual stream and add to it. What one layer adds, every later layer can use in its queries,
#   keys and values.
# - Looking up what followed takes two steps. The first layer copies the previous letter to each token, and the second
#   searches for a token whose note is the current letter. The head of the second step is called an induction head.
# - To find a head of a certain kind, measure how much weight each head puts where a head of that kind should look. A
#   mean over all places can hide what the head does.
# - An ablation tests what a head is needed for. If nothing changes, another head may be doing the same job.
# - A task has to rule out other solutions, and a score has to be tested on texts in which different solutions give
#   different scores.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Predict ★ (3 minutes)
#
# The text is `MILKSHA|LKS`. At which place should the second layer look from the last token? Count from 0.
#
# <details><summary>Hint</summary>
#
# Where does the same letter first appear? The letter to guess comes right after it.
# </details>

# %%
from attnlab.exercises import check_followers, check_mended_stream
from attnlab.exercises import check_place_to_look, check_score_by_place


# %% tags=["exercise"]
def place_to_look():
    """Return the place."""


# %%
check_place_to_look(place_to_look)


# %% tags=["solution"] jupyter={"source_hidden": true}
def place_to_look_solution():
    return 5  # H: it followed the earlier S at place 4


check_place_to_look(place_to_look_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (10 minutes)
#
# Write `followers` for texts without bars. Row $i$, column $j$ is True if token $j$ comes directly after a copy of
# token $i$ but not later than token $i$ itself. Do not use a Python loop.
#
# <details><summary>Hint</summary>
#
# First make a tensor that holds, at each place, the token before it; at place 0, put a number that is not a token. Then
# compare rows with columns, and keep the lower triangle.
# </details>


# %% tags=["exercise"]
def followers_of(tokens):
    """(N, L) -> bool (N, L, L)."""


# %%
check_followers(followers_of)


# %% tags=["solution"] jupyter={"source_hidden": true}
def followers_of_solution(tokens):
    before = torch.full_like(tokens, -1)
    before[:, 1:] = tokens[:, :-1]
    return (tokens[:, :, None] == before[:, None]).tril()


check_followers(followers_of_solution)

# %% exercise-3 [markdown]
# ### 3 · Modify ★★ (6 minutes)
#
# Change the previous-token score so that it no longer averages over places: for each head and each place from 1 on,
# return the mean over the texts.
#
# <details><summary>Hint</summary>
#
# The diagonal has the shape (N, H, L - 1). Which of these axes is averaged?
# </details>


# %% tags=["exercise"]
def score_by_place(weights):
    """(N, H, L, L) -> (H, L - 1)."""


# %%
check_score_by_place(score_by_place)


# %% tags=["solution"] jupyter={"source_hidden": true}
def score_by_place_solution(weights):
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=0)


check_score_by_place(score_by_place_solution)

# %% exercise-4 [markdown]
# ### 4 · Repair ★★ (8 minutes)
#
# `broken` runs two layers, but its residual stream is broken in two places. Write `mended`. The layers are functions
# that take and return tensors of the shape (N, L, E).
#
# <details><summary>Hint</summary>
#
# Follow the drawing of the stream. What does the second layer read? What arrives at the end?
# </details>


# %% tags=["exercise"]
def norm(x):
    return F.layer_norm(x, x.shape[-1:])


def broken(x, first, second):
    found = first(norm(x))
    return found + second(norm(x))


def mended(x, first, second):
    """The stream after both layers: (N, L, E)."""


# %%
check_mended_stream(mended)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_solution(x, first, second):
    x = x + first(norm(x))
    return x + second(norm(x))


check_mended_stream(mended_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★★ (6 minutes)
#
# In a large model, a friend finds a head whose follower score is 0.9 on one news article. "An induction head," she
# says. Name two tests that she should run, and say what each of them would rule out.
#
# <details><summary>An answer</summary>
#
# She should measure the score in texts of random symbols with repetitions at random distances. If it stays high, the
# head is neither counting places nor relying on word sequences learned in training. Then she should remove the head,
# measure how much worse the guesses at repeated words become, and compare this with the effect of removing other heads.
# If the guesses hardly change, the head may look at the followers without being needed, or another head may be doing
# the same job.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `nn.TransformerEncoderLayer(d_model, nhead, norm_first=True, batch_first=True)` is attention and an MLP, each with a
# norm before it and each added to the residual stream. For a model that guesses the next token, pass `is_causal=True`,
# and `nn.Transformer.generate_square_subsequent_mask(L)` as `src_mask`. `nn.TransformerEncoder` stacks such layers;
# there the mask is called `mask`, and `norm=nn.LayerNorm(d_model)` adds the norm at the end. Our model has no MLP and
# no dropout.

# %% sources [markdown]
# ## Sources
#
# - Elhage et al., [A Mathematical Framework for Transformer
#   Circuits](https://transformer-circuits.pub/2021/framework/index.html), 2021: the residual stream, models with one
#   and two attention layers and no MLP, and induction heads.
# - Sanford, Hsu and Telgarsky, [One-layer transformers fail to solve the induction heads
#   task](https://arxiv.org/abs/2408.14332), 2024: how a single layer has to grow with the length of the text.
# - Olsson et al., [In-context Learning and Induction Heads](https://arxiv.org/abs/2209.11895), 2022: when these heads
#   appear in training, what happens without them, and how strong the evidence is for small and for large models. The
#   scores in this lesson follow theirs.
# - The scratched record and its numbers are our own.

# %% next [markdown]
# ## Next
#
# [13 · Word by word: the cache](13_word_by_word_the_cache.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.** The record and the model: 9. One layer and two: 7. Why one look is not enough: 6. The scores and the
# explorer: 11. Ablations: 6. The record without a scratch and the answer: 6. Set the "Further" sections as homework.
#
# **Where a class stalls.** *"The head could look at Z and then move one place further":* let eleven students stand in a
# row, each with a letter. A student who looks for a letter sees only what the others hold up. Then let everyone also
# hold up the letter of the neighbour to the left, and repeat the search. *"The second layer looks at the first layer":*
# it looks at tokens, as every layer does; what has changed is what they hold up. *"An ablation shows what the head
# does":* it shows what is lost without the head, which can be less if another head helps, or more if a later layer is
# confused.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** In `ABCDE|BC`, where should the second layer look from the last token? **At the D.** *At the earlier C:* its
# value says only C. *At the B directly before it:* that is what the first layer does.
#
# **2.** Why does a single layer with a few heads not solve the task? **All its heads work at the same time, from the
# same vectors.** *It has too few parameters:* the wide layer had as many as the two together (though a much larger one
# could solve it). *It was trained too briefly:* a thousand steps did not close the gap.
#
# **3.** You remove the second layer. What happens to the first head's weights? **Nothing.** *They get worse:* nothing
# flows back from a later layer when the model is used. A later layer influences an earlier one only during training.
#
# **4.** A head has a follower score of 1 on texts with period 12. What does it do? **We cannot tell.** *It looks up
# what followed:* a head that looks 11 places back has the same score.
#
# **5.** You remove a head and the model works as before. Was the head useless? **Perhaps, but another head may be doing
# its job.** *Yes:* remove the other one alone, and then both.
# </details>
