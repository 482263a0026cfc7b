# %% opening [markdown] above="How can a model guess"
# # 3 · Masks: who may look at whom
#
# A small attention model looks at tosses of a coin and guesses the next ones.
# The coin is fair, so nobody can expect to be right more than half of the time.
# How can a model guess fair tosses and be right 92% of the time?
# The trail leads to the [**mask**](glossary.ipynb#mask), a table that says who may look at whom.
#
# **You need:** [lesson 1](01_attention_is_a_soft_look_up.ipynb), a training loss and a gradient.
#
# **You will be able to:** hide the future and the padding from attention;
# see which output depends on which token; say what a row without an open cell does;
# and tell apart the two meanings of `True`.
#
# **Time:** 46 minutes in class, or 75 on your own with the exercises.
# “Further” takes another ten.

# %% setup
import matplotlib.pyplot as plt
import pandas as pd
import torch
import torch.nn.functional as F
from torch.autograd.functional import jacobian

from attnlab import Table, load_table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import MaskExplorer
from attnlab.plotting import plot_attention, plot_mask

lesson_setup()

# %% the-suspect [markdown] below=["The model reads six", "The model reads six"]
# ## The suspect
#
# The model reads six tosses and makes six guesses in one pass.
# Its first guess is about toss 2, and its last about toss 7.
# Inside is one layer of attention, with matrices (lesson 6) and a vector for each place
# (lesson 11).

# %% ask-where
predict("03/where-are-the-mistakes")


# %% guesser
def fair(rows):  # seven tosses in each row; 1 is heads
    return torch.randint(2, (rows, 7, 1)).float()


class Guesser(torch.nn.Module):
    def __init__(self, causal, width=32):
        super().__init__()
        self.causal = causal
        self.side = torch.nn.Linear(1, width)
        self.place = torch.nn.Parameter(torch.randn(6, width))
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, 1)

    def forward(self, tosses):  # (..., L, 1); a result above 0 means "heads comes next"
        x = self.side(tosses) + self.place[: tosses.shape[-2]]
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.out(x + found)


# %% train
def train(toss, causal=False):
    model = Guesser(causal)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        tosses = toss(128)
        loss = F.binary_cross_entropy_with_logits(model(tosses[:, :-1]), tosses[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.requires_grad_(False)


torch.manual_seed(0)
suspect, new = train(fair), fair(8_000)  # 8,000 new rows of tosses
right = (suspect(new[:, :-1]) > 0) == (new[:, 1:] > 0)  # (rows, 6, 1)
print(f"right: {right.float().mean():.0%}")

# %% by-place
# %%answer 03/where-are-the-mistakes
right.float().mean(dim=(0, 2)).round(decimals=2)  # the guesses of toss 2 to toss 7

# %% it-reads [markdown] above="The first five guesses" answers="03/where-are-the-mistakes"
# The first five guesses are always right, and the last one is right half of the time.
# The model must be reading: tosses 2 to 6 are in its input, and toss 7 is not.

# %% the-influence-map [markdown] below="An [**influence map**](glossary.ipynb#influence-map) tells"
# ## Which output looks where?
#
# An [**influence map**](glossary.ipynb#influence-map) tells how far each output moves when a token
# is changed a little (the length of the derivative).
# It is 0 if the output does not depend on the token.


# %% influence
# %%answer 03/where-are-the-mistakes
def influence_map(attend, x):  # (L, E) -> (L, L): length of d output i / d token j
    return jacobian(attend, x).norm(dim=(1, 3))  # of (L, Ev, L, E)


guesses = [f"guess of {i}" for i in range(2, 8)]
seen = [f"toss {j}" for j in range(1, 7)]
maps = torch.stack([influence_map(suspect, row) for row in new[:100, :-1]])
mean = maps.mean(dim=0)  # over 100 rows of tosses
ax = plot_attention(mean, vmax=12, annotate=False, queries=guesses, keys=seen)
ax.set(xlabel="", ylabel="")
show_figure(ax, "3.1")

# %% it-copies [markdown] above="The guess of toss" answers="03/where-are-the-mistakes"
# The guess of toss 2 depends on toss 2, and so on: the model copies the answers.

# %% the-question [markdown] below="A blocked score becomes" end="**How can a model"
# ## A screen between the desks
#
# *The cat sat on the mat* holds five such guesses: *cat* after *The*, *sat* after *The cat* ...
# Training makes all five in one pass.
# **How can a model be trained on every next word at once without being shown the answers?**
#
# Six pupils sit in a row, with a toss on each desk,
# and each has to write down the toss on the *next* desk.
# A row of weights says how a pupil divides an hour of looking.
# Behind a screen on the right, the hour goes to the left and to one’s own desk.
#
# That is a [**causal mask**](glossary.ipynb#causal-mask), in which `True` means “may attend”.
# A blocked score becomes $-\infty$ before the softmax, so its weight is exactly 0.

# %% two-rows
tokens, features, x = load_table("the_cat_sat_on_the_mat.csv")  # x: (6, 5)
may_attend = torch.ones(6, 6).tril().bool()  # (L, S): True on and below the diagonal
scores = x @ x.mT / 5**0.5
masked = scores.masked_fill(~may_attend, -torch.inf)  # writes where its mask is True
rows = [scores[1], scores.softmax(dim=-1)[1], masked[1], masked.softmax(dim=-1)[1]]
names = ["“cat”: scores", "weights", "masked scores", "their weights"]
Table(names, tokens, torch.stack(rows))

# %% same-factor [markdown] above="With the mask, *The*" below="Now train with screens"
# With the mask, *The* and *cat* share the whole hour.
# (*cat* may look at itself: the row of *The* has to guess *cat*.)
#
# ## Is a lower loss better?
#
# Now train with screens, and also with a sticky coin,
# which repeats its last side eight times out of ten.


# %% sticky
def sticky(rows):
    tosses = fair(rows)
    for t in range(1, 7):
        same = torch.rand(rows, 1) < 0.8
        tosses[:, t] = torch.where(same, tosses[:, t - 1], 1 - tosses[:, t - 1])
    return tosses


def in_use(model, tosses):  # six passes, one for each guess
    return torch.stack([model(tosses[:, :t])[:, -1] for t in range(1, 7)], dim=1)


def report(guesses, answers):
    share = ((guesses > 0) == (answers > 0)).float().mean()
    loss = F.binary_cross_entropy_with_logits(guesses, answers)
    return f"{loss:.2f} ({share:.0%})"


# %% four-trainings
models, table = {}, {}
for toss, causal in ((fair, False), (fair, True), (sticky, False), (sticky, True)):
    torch.manual_seed(0)
    model, tosses = train(toss, causal), toss(4_000)
    inputs, answers = tosses[:, :-1], tosses[:, 1:]
    name = f"{toss.__name__} coin, {'causal' if causal else 'no'} mask"
    models[name] = model
    table[name] = {
        "row in sight": report(model(inputs), answers),
        "earlier tosses alone": report(in_use(model, inputs), answers),
    }
pd.DataFrame(table).T  # loss (right)

# %% worse-is-better [markdown] above="**The model with the" below="What do the two"
# The masked model nears the lowest expected loss: $\ln 2 = 0.69$ for the fair coin,
# and 0.50 for the sticky one, whose rule it has found.
#
# Without a mask the loss is far lower while the row is in sight,
# and far higher from the earlier tosses alone, which lack the answer.
# **The model with the lower loss is the worse one in use.**
#
# What do the two models of the sticky coin look at?

# %% stripe jupyter={"source_hidden": true}
from matplotlib.patches import Rectangle

from attnlab.palette import PURPLE

torch.manual_seed(0)
rows_of_sticky = sticky(100)[:, :-1]
_, axes = plt.subplots(1, 2, figsize=(7.5, 3.9), layout="constrained", sharey=True)
for ax, title in zip(axes, ("no mask", "causal mask"), strict=True):
    model = models[f"sticky coin, {title}"]
    drawn = torch.stack([influence_map(model, row) for row in rows_of_sticky]).mean(
        dim=0
    )
    look = {
        "attn_mask": drawn != 0,
        "annotate": False,
        "queries": guesses,
        "keys": seen,
    }
    plot_attention(drawn / drawn.max(), ax=ax, title=title, **look)
    ax.set(xlabel="", ylabel="")
    for i in range(5):
        frame = {"fill": False, "edgecolor": PURPLE, "linewidth": 3, "zorder": 9}
        ax.add_patch(Rectangle((i + 1, i), 1, 1, **frame))
        if drawn[i, i + 1] == 0:
            ink = {"ha": "center", "va": "center", "color": PURPLE, "weight": "bold"}
            ax.text(i + 1.5, i + 0.5, "0", **ink)
show_figure(axes[0], "3.2")

# %% the-map-is-the-mask [markdown] above="To the right of" below="Let a model continue"
# The stripe has moved one cell to the left, from the answer to the toss before it.
# To the right of the diagonal the map is exactly 0: this is the mask itself.
#
# ## Short and long in one tensor
#
# Let a model continue *The cat sat* and *The cat sat on the mat* in one tensor.
# Both end at its right edge, where the next word comes.
# So the short one gets three `<pad>` in front, rows of zeros:
# [**padding**](glossary.ipynb#padding).

# %% ask-zeros
predict("03/padding-of-zeros")


# %% see-zeros
# %%answer 03/padding-of-zeros
def attend_masked(x, mask):
    scores = x @ x.mT / x.shape[-1] ** 0.5
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1) @ x


short = x[:3]  # The cat sat
batch = torch.stack([x, torch.cat([torch.zeros(3, 5), short])])  # (N, L, E)
alone = attend_masked(short, may_attend[:3, :3])[2]
behind_pad = attend_masked(batch, may_attend)[1, 5]
Table(["“sat” alone", "“sat” behind <pad>"], features, torch.stack([alone, behind_pad]))

# %% zeros-take-weight [markdown] above="A score of 0" answers="03/padding-of-zeros"
# All five numbers have shrunk by the same factor, 0.72 before rounding.
# A score of 0 takes weight, since $e^0$ is 1:
# the three `<pad>` take 28% of the weight of *sat* and give nothing for it.

# %% hide-padding [markdown] below="Masks combine with *and*"
# ## Two masks at once
#
# Masks combine with *and*, written `&`: a cell is open only if both leave it open.

# %% both-masks
real = torch.arange(6) >= torch.tensor([[0], [3]])  # (N, S): False for <pad>
both = may_attend & real[:, None, :]  # (N, L, S); the axis of size 1 is repeated
first = attend_masked(batch, both)
first[1]

# %% nan [markdown] above="The rows of `<pad>`" below="A second layer reads"
# *sat* has the same output as alone.
# The rows of `<pad>` have no open cell: the softmax divides 0 by 0, which is NaN.
#
# A second layer reads what the first one returns.

# %% ask-nan
predict("03/second-layer")

# %% second-layer
# %%answer 03/second-layer
attend_masked(first, both)[1]

# %% nan-spreads [markdown] above="A weight of 0" answers="03/second-layer"
# All six rows are NaN.
# A weight of 0 does not take a value out of the sum: 0 times NaN is NaN.

# %% six-rules [markdown] below="Which rule never shows"
# ## Your experiment: six ways to block a cell
#
# Choose what a blocked cell gets, slide the padding, and click cells of the mask.
# An orange frame marks a blocked cell whose token still has influence, or one that you opened.
#
# 1. When does score $-\infty$ give NaN, and why?
# 2. Find a rule with blocked weights of 0 and orange cells.
# 3. Which rule never shows NaN or orange, as long as you click nothing?

# %% explore-masks
MaskExplorer(padding=0, ask=False)

# %% rules [markdown]
# <details><summary>The answers</summary>
#
# 1. As soon as a row has no open cell: under both masks, the rows of `<pad>`.
#    Without padding every word may at least look at itself.
# 2. “weight 0”.
#    The score of a blocked cell is still in the sum by which the softmax divides,
#    so the open weights move with it.
# 3. “score −∞, then weight 0”.
#
# | a blocked cell gets | rows with an open cell | rows without |
# |---|---|---|
# | score $-\infty$ | right | NaN, which spreads |
# | score -1e9 | right, if no score is as low | an average over *all* tokens |
# | score 0 | wrong: it keeps weight | an average over *all* tokens |
# | weight 0 | wrong: short of 1, and leaks | 0 |
# | weight 0, divided again | right, if no blocked score towers above the open ones | NaN, which spreads |
# | score $-\infty$, then weight 0 | right | 0 |
#
# </details>

# %% two-meanings [markdown] below="`F.scaled_dot_product_attention` reads `True`"
# ## Two meanings of True
#
# `F.scaled_dot_product_attention` reads `True` as “may attend”,
# the layer `nn.MultiheadAttention` as “blocked”.
# A mask of floats is *added* to the scores.

# %% three-calls
sdpa = F.scaled_dot_product_attention
layer = torch.nn.MultiheadAttention(5, num_heads=1)
calls = {
    "function, ~may_attend": lambda x: sdpa(x, x, x, attn_mask=~may_attend),
    "layer, ~may_attend": lambda x: layer(x, x, x, attn_mask=~may_attend)[0],
    "function, 1.0 and 0.0": lambda x: sdpa(x, x, x, attn_mask=may_attend.float()),
}
_, axes = plt.subplots(1, 3, figsize=(7.5, 3), layout="constrained", sharey=True)
for ax, (title, call) in zip(axes, calls.items(), strict=True):
    plot_mask(influence_map(call, x) != 0, ax=ax, title=title, legend=False)
    ax.set(xlabel="token", ylabel="")
axes[0].set_ylabel("output")
show_figure(axes[0], "3.3")

# %% draw-the-map [markdown] above="Only the middle map" end="You run it once"
# Only the middle map is right.
# On the left each word sees what comes after it.
# On the right adding 1 or 0 blocks nothing.
# So when a mask comes from somewhere else, draw its map:
# it is the [**leak test**](glossary.ipynb#leak-test) of this series.
#
# ## So how can a model be trained on every next word at once without being shown the answers?
#
# You run it once on the whole sentence,
# and in every layer the scores of later words become $-\infty$ before the softmax.
# Then each guess comes from the earlier words alone: in the table,
# both columns of our masked models are the same.
# *on* is in the input, but the guess of the row of *sat* does not depend on it.

# %% further [markdown]
# ## Further
#
# Both topics are optional.
# You can go straight on to **What to remember**.
#
# ### When a test is blind
#
# There is a simpler test than the influence map: replace a token, and see which outputs change.
# We draw six tokens from `torch.randn`, which are query, key and value,
# and use attention with *no mask at all*.
# Each test looks for an output that sees a later token, in 50 draws for each width.


# %% blind
def replace_last(attend, x, tolerance):
    changed = x.clone()
    changed[-1] += torch.linspace(0.5, 1, x.shape[-1])
    same = (attend(changed) - attend(x)).abs() <= tolerance
    return not same[:-1].all()  # NaN is not the same


def derivative(attend, x):
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(attend(x)[0].sum(), x)  # of output 0
    return bool((gradient[1:] != 0).any())


def no_mask(x):
    return F.scaled_dot_product_attention(x, x, x)


# %% blind-table
counts = {}
for width in (64, 256, 768, 1024, 4096):
    generator = torch.Generator().manual_seed(2)
    draws = torch.randn(50, 6, width, generator=generator, dtype=torch.float64)
    counts[width] = {
        "replace, float32, 1e-5": sum(
            replace_last(no_mask, z.float(), 1e-5) for z in draws
        ),
        "replace, float64, 1e-12": sum(replace_last(no_mask, z, 1e-12) for z in draws),
        "derivative, float64": sum(derivative(no_mask, z) for z in draws),
    }
pd.DataFrame(counts).T.rename_axis("features")  # leaks found, of 50

# %% blind-read [markdown]
# A token of 1,024 such features has a score of about $1024/\sqrt{1024} = 32$ with itself and scores
# near 0 with the others, so the others get weights of about $e^{-32}$.
# What comes from them is smaller than a usual tolerance.
# The derivative needs none: behind a causal mask of $-\infty$, it is exactly 0.
# But it is 0 as well where the weight of an open cell rounds to 0, or behind `detach`.
# So test with small tokens, and also replace a token: with tokens 0.3 times as large,
# the first test finds all 50 leaks at 64 to 1,024 features.
#
# ### A large negative number in 16 bits
#
# Large models usually compute in 16 bits.
# In float16 the largest finite number is 65504, so filling with -1e9 raises an error.

# %% half tags=["raises-exception"]
half = torch.zeros(6, 6, dtype=torch.float16)  # scores
half.masked_fill(~both[1], -1e9)  # this line is meant to fail

# %% half-reading [markdown]
# Two other ways raise no error: *adding* -1e9, and filling with the lowest number of the type.
# We try them on the row of a `<pad>`, which has no open cell.

# %% half-silent
lowest = torch.finfo(torch.float16).min
added = half + (~both[1]).half() * -1e9
filled = half.masked_fill(~both[1], lowest)
print("-1e9, added:  ", added.softmax(dim=-1)[0])
print("lowest number:", filled.softmax(dim=-1)[0])

# %% half-why [markdown]
# Float16 cannot hold -1e9, so the number became $-\infty$, and the row is NaN.
# With the lowest number of the type, the row becomes an average over all tokens.
# The other 16-bit type, bfloat16, can hold -1e9, and the row becomes an average too.

# %% remember [markdown] end=["A training loss that", "Fill with $-", "`True` means \u201cmay attend\u201d"]
# ## What to remember
#
# - A mask acts on the scores, before the softmax: what is blocked becomes $-\infty$.
#   A score of 0 blocks nothing, and a weight just set to 0 still leaks.
# - A causal mask hides what comes later.
#   With it one pass gives the guesses that many passes would give.
#   A training loss that is too good to be true is an alarm.
# - A padding mask hides keys; it has the shape (N, 1, S), or (N, 1, 1, S) with heads.
#   Masks combine with *and*.
# - In the plain softmax a row without an open cell is NaN, and 0 times NaN is NaN.
#   Fill with $-\infty$ before the softmax and give empty rows a weight of 0 after it.
# - `True` means “may attend” here and in `F.scaled_dot_product_attention`,
#   and “blocked” in `nn.MultiheadAttention`.
#   Draw the influence map of a mask that comes from somewhere else.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Implement ★★ (8 minutes)
#
# Write a test for causal attention.
# `causal_test(attend, x)` returns one of three strings:
#
# - `"leaks"` if some output depends on a later token,
# - otherwise `"too tight"` if some output does not depend on a token that it may look at,
# - otherwise `"correct"`.
#
# An output that is NaN depends on everything.
#
# <details><summary>Hint</summary>
#
# The influence map has a row for each output and a column for each token.
# In which part of it must there be zeros, and in which part must there be none?
# Compare with 0 in such a way that NaN counts: is NaN > 0, and is NaN != 0?
# </details>

# %%
from attnlab.exercises import check_causal_test, check_padded_batch, check_safe_softmax


# %% tags=["exercise"]
def causal_test(attend, x):
    """attend: (L, E) -> (L, E), x (L, E) -> "leaks", "too tight" or "correct"."""


# %%
check_causal_test(causal_test)


# %% causal-test-solution tags=["solution"]
def causal_test_solution(attend, x):
    depends = influence_map(attend, x) != 0  # also where it is NaN
    if depends.triu(1).any():
        return "leaks"
    causal = torch.ones_like(depends).tril()
    return "correct" if torch.equal(depends, causal) else "too tight"


check_causal_test(causal_test_solution)

# %% exercise-1-limits [markdown]
# A mistake in the mask can be invisible to such a test.
# Suppose that a word may look at two or more different words before it, but not at *itself*.
# Its output still depends on it: it is the query, and decides how the other words are weighted.

# %% exercise-2 [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# `masked_softmax` is what this page has used.
# Make it safe:
#
# - In a row without any allowed key, all weights are 0.
# - If the allowed scores are finite, every other row sums to 1, up to rounding,
#   and the gradient is correct and finite.
# - A NaN in an *allowed* score stays visible, because it is a sign of a bug that has to be found.
# - The content of a *blocked* score does not matter.
#
# The explorer can draw what your function computes: `MaskExplorer(function=safe_softmax)`.
#
# <details><summary>Hint</summary>
#
# Which cells have to be 0 in the end, whatever the softmax says?
# You can tell from `allowed`.
# </details>


# %% masked-softmax
def masked_softmax(scores, allowed):
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)


# %% tags=["exercise"]
def safe_softmax(scores, allowed):
    """scores (..., L, S), allowed bool, broadcast if need be -> weights (..., L, S)."""


# %%
check_safe_softmax(safe_softmax)


# %% safe-softmax-solution tags=["solution"]
def safe_softmax_solution(scores, allowed):
    return masked_softmax(scores, allowed).masked_fill(~allowed, 0.0)


check_safe_softmax(safe_softmax_solution)

# %% exercise-3 [markdown]
# ### 3 · Find two bugs ★★ (8 minutes)
#
# `broken` takes a Hugging Face `attention_mask`, with 1 for a word and 0 for padding,
# which may stand on the left or on the right.
# The function has two bugs.
# With 2 sentences and 2 heads it nevertheless runs without an error.
# Write `mended`, in which the queries of `<pad>` attend to the words, too.
#
# <details><summary>Hint</summary>
#
# What does 1 mean in the mask, and what does True mean to the function?
# Then try 2 sentences with 3 heads: the scores have the shape (N, H, L, S), with H for the heads,
# and broadcasting matches shapes from the right.
# </details>


# %% tags=["exercise"]
def broken(query, key, value, attention_mask):
    mask = attention_mask[:, None] == 0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def mended(query, key, value, attention_mask):
    """(N, H, L, E), (N, H, S, E), (N, H, S, Ev), (N, S) -> (N, H, L, Ev)."""


# %%
check_padded_batch(mended)


# %% mended-solution tags=["solution"]
def mended_solution(query, key, value, attention_mask):
    mask = attention_mask[:, None, None] == 1  # (N, 1, 1, S), True = a word
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


check_padded_batch(mended_solution)

# %% exercise-4 [markdown]
# ### 4 · Explain ★ (4 minutes)
#
# A friend says: “After the softmax I set the blocked weights to 0 and divide each row by what is
# left of it.
# That is the same as filling with minus infinity before the softmax.”
# When is your friend right, and when not?
#
# <details><summary>An answer</summary>
#
# Your friend is right, up to rounding,
# if the row has an open cell and no blocked score towers above the open ones:
# the sum by which the softmax divides cancels, and with it all blocked scores.
# In a row without an open cell both give 0/0, which is NaN.
# And if a blocked score is larger than every open one by 104 or more,
# the open weights have rounded to 0 in float32, and only your friend gets NaN.
# </details>

# %% in-torch [markdown] below="attnlab has these masks"
# ## In torch
#
# attnlab has these masks and their converters, and `influence_map` too, as later lessons use them.

# %% converters
from attnlab import causal_mask, combine_masks, sequence_mask
from attnlab import from_hf_attention_mask, from_key_padding_mask

attention_mask = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1]])
words = from_hf_attention_mask(attention_mask)  # Hugging Face: 1 = a word; (N, 1, 1, S)
same = from_key_padding_mask(
    attention_mask == 0
)  # nn.MultiheadAttention: True = padding
combined = combine_masks(causal_mask(6), words)  # (N, 1, L, S), True = may attend
padded_right = sequence_mask([6, 3])  # from lengths; (N, S)
torch.equal(words, same), torch.equal(combined[:, 0], both), padded_right.sum(dim=-1)

# %% in-torch-table [markdown]
# | | `F.scaled_dot_product_attention` | `nn.MultiheadAttention` |
# |---|---|---|
# | True means | may attend | blocked, in `attn_mask` and in `key_padding_mask` |
# | a mask of floats | is added to the scores | is added to the scores |
# | `is_causal=True` | makes the causal mask | promises that your `attn_mask` is exactly the causal mask; the layer may then ignore yours, so pass both |
# | a row without an open cell gives | 0, at least on the CPU | NaN or finite numbers, depending on settings such as `need_weights` |
#
# Do not pass `attn_mask` to the function together with `is_causal=True`:
# sometimes it raises an error, and sometimes it combines the two.
#
# With padding on the right, the causal mask alone protects the words.
# With padding on the left, no mask corrects the positions.
# If the model adds a vector for each position (lesson 11), count from the first word,
# for example with `(real.cumsum(dim=-1) - 1).clamp(min=0)`.

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.2.3: the mask of the decoder.
# - An inverted mask that went unnoticed:
#   [LLMs-from-scratch, issue 1061](https://github.com/rasbt/LLMs-from-scratch/issues/1061).
#   It was in a bonus notebook and has been fixed.
# - Rows without a key: [PyTorch, issue 103749](https://github.com/pytorch/pytorch/issues/103749).
# - The lowest number of the type: `eager_mask` in
#   [masking_utils.py](https://github.com/huggingface/transformers/blob/main/src/transformers/masking_utils.py)
#   of the Transformers library, which adds it to the scores.
#
# The coins, the sentence and its features are our own.
# Setting weights to 0 and dividing again, before the better way,
# is how chapter 3 of Sebastian Raschka's
# [Build a Large Language Model (From Scratch)](https://www.manning.com/books/build-a-large-language-model-from-scratch)
# introduces the causal mask.

# %% next [markdown]
# ## Next
#
# [4 · Reading heatmaps honestly](04_reading_heatmaps_honestly.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 46 minutes, and where a class stalls</summary>
#
# **46 minutes.**
# The coin and the first prediction: 10.
# The influence map, the screens and the table: 10.
# Padding: 6.
# NaN: 6.
# The explorer: 9.
# True and the answer: 5.
# Set the exercises and “Further” as homework.
#
# **Where a class stalls.**
# *“Guess 3 is about toss 4”:* put a finger on a row of Figure 3.1,
# and have the class say what it sees and what it guesses.
# *“If *cat* has to be guessed, why may *cat* see itself?”*
# Because another row guesses it.
# *“True hides”:* that is what True does in `masked_fill`.
# Keep one sentence on the board: True = may attend.
# *The NaN of the second layer:* write 0 · NaN = NaN on the board.
# *Six rules at once:* half of the room takes questions 1 and 2, the other half 2 and 3.
# *The diagonal on the left of Figure 3.3:* a word is its own query,
# so it moves its own output as soon as two different words share its weights.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# Under a causal mask, which row has to guess word 4, and what may it see?
# **Row 3, which sees words 0 to 3.**
# *Row 4* would see its own answer.
# *Row 3, which sees words 0 to 2* closes the diagonal, which hides a word that is given.
#
# **2.**
# Padding is all zeros, and there is no padding mask.
# How much weight does it take?
# **Some.**
# *None* reads a score of 0 as a weight of 0.
# *All* would need all other scores to lie far below 0.
#
# **3.**
# What shape does a padding mask for scores of shape (N, H, L, S) have?
# **(N, 1, 1, S).**
# *(N, 1, S)* lines the sentences up with the heads.
# *(N, 1, S, 1)* blocks rows.
#
# **4.**
# What is the softmax of a row that holds only $-\infty$?
# **NaN.**
# *Zeros* is what attnlab returns, but not what the softmax itself returns.
# *Uniform* is what -1e9 gives.
#
# **5.**
# A training loss falls far below that of the best known model on the first day.
# What do you do first?
# **Draw the influence map.**
# *Celebrate* is what the model of this lesson would like you to do.
# *Lower the learning rate* treats a fault that is not there.
# </details>
