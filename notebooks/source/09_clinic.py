# %% opening [markdown]
# # 9 · The attention clinic: finding a bug without a correct version
#
# You have written attention. It runs, the output has the correct shape, and the loss goes down. Is it correct? Lesson 7
# showed that none of this proves it: layers with scrambled heads returned the correct shape and learned to copy.
#
# If a correct version exists, you can compare yours with it on random numbers. But often there is none: you wrote your
# own attention precisely because it has a new mask or a new scale. And a comparison only shows *that* something is
# wrong, not *what*. So how do you find a bug without a correct version?
#
# You do know some properties that must hold, whatever the numbers are. The weights of a query add up to 1 (unless all
# its keys are blocked), and no output depends on a blocked key. A [**probe**](glossary.ipynb#probe) tests one such
# property. It chooses inputs for which the output reveals the property, or it changes one thing and looks at what
# moves. In this lesson you will probe broken functions and layers, which we call patients. Then a program, the clinic,
# will examine a function and a layer of your own.
#
# **You need:** [lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb) (the square root of $d_k$),
# [lesson 3](03_masks_who_may_look_at_whom.ipynb) (masks, padding and the leak test) and
# [lesson 7](07_multi_head_reshaping_without_scrambling.ipynb) (heads).
#
# **You will be able to:** test attention when you have no correct version and work out the bug from what changes, tell a
# test that can fail from one that cannot, draw the mask of any layer, examine code of your own with `diagnose`, and say
# what its report proves and what it does not.
#
# **Time:** 50 minutes in class, or 95 on your own with the exercises. “Further” takes another 15.

# %% setup
import pandas as pd
import torch
import torch.nn.functional as F

from attnlab import causal_mask, merge_heads, split_heads
from attnlab.clinic import diagnose
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import MaskExplorer

lesson_setup()

# %% a-test-that-cannot-fail [markdown]
# ## A test that cannot fail
#
# Here are attention and patient A, which has one bug. The five sizes of the inputs are all different, so
# that a mix-up of two axes has a chance to show: $N = 2$ sequences, $L = 5$ queries, $S = 7$ keys, $E = 11$ features,
# and $E_v = 3$ features in a value. The numbers are random, and in float64 a rounding error cannot be mistaken for a bug.

# %% patient-a
N, L, S, E, Ev = 2, 5, 7, 11, 3
torch.manual_seed(0)
query = torch.randn(N, L, E, dtype=torch.float64)
key = torch.randn(N, S, E, dtype=torch.float64)
value = torch.randn(N, S, Ev, dtype=torch.float64)


def attention(query, key, value):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ value


def patient_a(query, key, value):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return scores.softmax(dim=-2) @ value


attention(query, key, value).shape, patient_a(query, key, value).shape

# %% probe-1 [markdown]
# Both pass the shape test, and so would a function that returns nothing but zeros. Do not trust a test until you have
# seen it fail.
#
# ## Probe 1: values that show the weights
#
# Each output is a weighted sum of values. Let value $j$ be 1 in feature $j$ and 0 in all others. Then feature $j$ of
# the output *is* weight $j$. This works for functions that accept values with $S$ features.


# %% weights-of
def weights_of(attend, query, key):
    N, S, _ = key.shape
    unit_values = torch.eye(S, dtype=key.dtype).expand(
        N, S, S
    )  # the same for each sequence
    return attend(query, key, unit_values)  # the weights (N, L, S)


for attend in (attention, patient_a):
    print(weights_of(attend, query, key)[0].sum(dim=-1))  # of each query

# %% probe-2 [markdown]
# The weights of patient A do not add up to 1 for each query. Its softmax runs over the queries, so the weights of each
# *key* add up to 1. Each of the 7 keys hands out a total weight of 1, so the 5 sums above add up to 7.
#
# ## Probe 2: the divisor
#
# Are the scores divided by the correct number? The softmax raises $e$ to each score and divides by the sum of the row. So
# the logarithm of a weight is its score minus a number that is the same for all keys of the row. And each score is a raw
# score, a dot product, divided by some number:
#
# $$\log w_j = \frac{\text{raw score}_j}{\text{divisor}} - \text{a constant}$$
#
# You know the raw scores. If you plot the logarithms of the weights against them, the points of a row lie on a straight
# line with the slope 1/divisor. `divisor_of` subtracts the mean of each row, which removes the constant, and computes the
# slope from all keys by least squares. Patient B forgets to divide. Patient C divides by 8, the number used in the
# original Transformer, where a head has 64 features.


# %% divisor-of
def divisor_of(attend, query, key):
    """1 / slope for each query: (N, L)."""
    raw, logs = query @ key.mT, weights_of(attend, query, key).log()
    raw = raw - raw.mean(dim=-1, keepdim=True)
    logs = logs - logs.mean(dim=-1, keepdim=True)
    return (raw * raw).sum(dim=-1) / (raw * logs).sum(dim=-1)


def patient_b(query, key, value):
    return (query @ key.mT).softmax(dim=-1) @ value


def patient_c(query, key, value):
    return (query @ key.mT / 8).softmax(dim=-1) @ value


for attend in (attention, patient_b, patient_c):
    print(divisor_of(attend, query, key)[0])

# %% scale-figure jupyter={"source_hidden": true}
import matplotlib.pyplot as plt

from attnlab.palette import BLUE, GREEN, ORANGE

torch.manual_seed(1)
looks = {
    "attention": (attention, BLUE, "o", 7),
    "patient B": (patient_b, ORANGE, "s", 4),
    "patient C": (patient_c, GREEN, "^", 4),
}
points = {}
_, axes = plt.subplots(1, 3, figsize=(7.5, 2.9), layout="constrained", sharey=True)
for ax, size in zip(axes, (4, 11, 64), strict=True):
    some_query, some_key = torch.randn(2, 5, size), torch.randn(2, 7, size)
    products = some_query @ some_key.mT
    for label, (attend, colour, marker, width) in looks.items():
        logs = weights_of(attend, some_query, some_key).log()
        across, up = (
            (t - t.mean(dim=-1, keepdim=True)).flatten() for t in (products, logs)
        )
        points[size, label] = across, up
        ax.plot(
            across, up, marker, color=colour, ms=width, mew=0, alpha=0.7, label=label
        )
    ax.set(xlabel="raw score", xlim=(-19, 19), ylim=(-19, 19), xticks=(-15, 0, 15))
    ax.set_title(f"{size} features: slope 1/{size**0.5:.2g}")
axes[2].text(18, -16, "C looks correct", ha="right", color=GREEN, fontsize=11)
axes[0].set_ylabel("log of the weight")
axes[0].legend(loc="upper left")
show_figure(axes[0], "9.1")

# %% certificate [markdown]
# With 11 features the divisor should be $\sqrt{11} = 3.317$. Only `attention` uses it. Figure 9.1 repeats the probe at
# three sizes. At 64 features the points of patient C lie on the line for attention. So a test at a single size cannot
# tell a rule from a constant.
#
# ### A test with stored numbers
#
# A public course checks your attention by comparing its output with stored correct numbers (see Sources). These are its
# inputs: three queries, three keys and three values of four features, all of them whole numbers up to 114.

# %% course-inputs
rows = [[12.0, 2, 17, 88], [1, 43, 13, 7], [69, 48, 18, 55]]
course_query = torch.tensor([rows])
course_key = torch.tensor([[[10.0, 99, 65, 10], [85, 6, 114, 53], [25, 5, 3, 4]]])
course_value = torch.tensor([[[33.0, 32, 18, 3], [36, 77, 90, 37], [19, 47, 72, 39]]])
course_query @ course_key.mT  # the raw scores

# %% ask-certificate
predict("09/large-whole-numbers")

# %% see-certificate
# %%answer 09/large-whole-numbers
inputs = course_query, course_key, course_value
for attend in (attention, patient_a, patient_b, patient_c):
    gap = (attend(*inputs) - attention(*inputs)).abs().max()
    print(f"{attend.__name__:10} {gap:.0f}")

# %% probe-3 [markdown]
# The test catches patient A, but B and C return exactly the stored numbers. In each row the best score leads by thousands.
# Even after a division its key gets a weight that rounds to 1, so the output is a copy of one value, with any divisor from
# 1 to 100. Test with small random numbers, as we did above.
#
# ## Probe 3: the leak test draws the mask
#
# You know the leak test from lesson 3: replace a token and look at which outputs move. A friend tests her causal layer with
# two tokens. When she replaces the last token, only the last output moves. When she replaces the first, all outputs
# move, so her test can see a change.

# %% ask-leak
predict("09/two-tokens")


# %% reach
# %%answer 09/two-tokens
def reach(layer, tokens):
    columns = []
    for j in range(len(tokens)):
        changed = tokens.clone()
        changed[j] = torch.randn(tokens.shape[-1])
        moved = (layer(changed) - layer(tokens)).abs() > 1e-6
        columns.append(moved.any(dim=-1))  # which outputs move with token j
    return torch.stack(columns, dim=-1).int()


def leaky(x):
    mask = causal_mask(5)
    mask[[0, 1, 2], [3, 2, 3]] = True  # three cells above the diagonal
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


tokens = torch.randn(5, 11)
reach(leaky, tokens)

# %% patient-d-text [markdown]
# Her layer may still leak. `leaky` has three open cells above the diagonal, and it passes both of her tests: they read the
# last and the first column, and the leaks are in the columns between. So replace every token in turn. The table of what
# moves *is* the mask: for a causal layer, 1 on and below the diagonal and 0 above it.
#
# Patient D is a layer, and a layer has two modes: training mode, and evaluation mode, which `.eval()` switches on.


# %% patient-d
class PatientD(torch.nn.Module):
    def __init__(self, E):
        super().__init__()
        self.qkv = torch.nn.Linear(E, 3 * E)

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        causal = self.training  # True after .train(), False after .eval()
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


patient_d = PatientD(11)
print(reach(patient_d.train(), tokens))
print(reach(patient_d.eval(), tokens))

# %% probe-4 [markdown]
# In training mode patient D is causal. In evaluation mode every token sees the future, and the layer computes something
# that it was not trained to compute. So run the leak test once in each mode. For training mode, set dropout to 0 first,
# since otherwise the outputs move at random. The layer in one of PyTorch’s own tutorials switches off causality together
# with dropout in evaluation mode (see Sources).
#
# ## Probe 4: change what is blocked
#
# The last two of the seven keys are padding. Patient E gives them a weight of 0, but only after the softmax. What the
# padding contains must not matter, so we write 99 into all its features, first into its values and then into its keys.
# (A NaN would be another matter: it spreads even through a weight of 0, as lesson 3 showed.)


# %% patient-e
def patient_e(query, key, value, mask):  # True = may attend
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights * mask) @ value


real = torch.arange(S) < 5  # (S,), False for the padding
value_99 = value.masked_fill(~real[:, None], 99)
key_99 = key.masked_fill(~real[:, None], 99)

# %% ask-padding
predict("09/ninety-nine-in-the-padding")

# %% see-padding
# %%answer 09/ninety-nine-in-the-padding
plain = patient_e(query, key, value, real)
print((patient_e(query, key, value_99, real) - plain).abs().max())
print((patient_e(query, key_99, value, real) - plain).abs().max())

# %% two-more [markdown]
# Only the keys move the output. A weight of 0 hides the value. But the score of the padding is still part of the sum by
# which the softmax divides, and it takes weight from the real keys, so the weights of a row no longer add up to 1. Always
# change both the values and the keys. The repair is the one from lesson 3: fill the scores with minus infinity before the
# softmax.
#
# ## Two more probes, and a table
#
# **Alone or in a batch?** The sequences of a batch must not influence each other. So give the function one sequence by
# itself, and compare the result with what it returns for the same sequence in the batch.
#
# **Do the outputs follow the queries?** If you shuffle the queries, the outputs must be shuffled in the same way. This holds for functions without a causal mask and without positions.
#
# Patient F reshapes where it should transpose, and patient G joins the batch into one long sequence. Let us try all the
# probes that need no mask on all patients that are functions of query, key and value.


# %% patients-f-g
def patient_f(query, key, value):
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    columns = value.mT @ weights.mT  # (N, Ev, L)
    return columns.reshape(columns.mT.shape)  # the bug: this should be columns.mT


def patient_g(query, key, value):
    joined = (t.reshape(1, -1, t.shape[-1]) for t in (query, key, value))
    return attention(*joined).view(*query.shape[:-1], value.shape[-1])


# %% all-probes
order = torch.tensor([4, 2, 0, 3, 1])
tried = [attention, patient_a, patient_b, patient_c, patient_f, patient_g]
results = {}
for f in tried:
    output, sums = f(query, key, value), weights_of(f, query, key).sum(dim=-1)
    alone, shuffled = f(query[:1], key[:1], value[:1]), f(query[:, order], key, value)
    divisor = divisor_of(f, query, key)
    results[f.__name__] = {
        "shape": output.shape == (N, L, Ev),
        "row sums": torch.allclose(sums, torch.ones_like(sums)),
        "divisor": torch.allclose(divisor, torch.full_like(divisor, E**0.5)),
        "alone": torch.allclose(alone, output[:1]),
        "order": torch.allclose(shuffled, output[:, order]),
    }
pd.DataFrame(results).replace({True: "passes", False: "fails"}).T

# %% the-clinic [markdown]
# The shape test catches none of the patients, but each of them is caught by at least one other probe. The divisor probe
# catches all five, but it explains only B and C, because it assumes that the weights of a query come from one softmax
# over its own keys. In A the softmax divides by a sum over the queries, so each key has a constant of its own. In F the
# outputs are in the wrong order, so probe 1 reads the wrong weights. In G a query also attends to the other sequence. So if
# the divisor and another probe fail, begin with the other one.
#
# ## Let the clinic do it
#
# `diagnose` runs such probes, and many more, on a function that you give it.

# %% report-b
diagnose(patient_b)

# %% read-the-report [markdown]
# Read the report from the top. The headline names the [**finding**](glossary.ipynb#finding), and the sentence below it
# says what is wrong. The table is the evidence: the factor stays the same while $1/\sqrt{d_k}$ changes. ($d_k$ is our
# $E$, and the factor is 1 over our divisor.)
#
# ### Your experiment: a function, drawn
#
# The mask editor of lesson 3 can draw what a function makes of given scores and a mask. For patient E we use probe 1:
# with the scores as queries and unit vectors as keys and values, the output is the weights. Here “cat” is padding, and
# the sentence above the map names the first three rows that do not sum to 1. Click the word, and every row does.


# %% explore
def drawn(scores, mask):
    unit = torch.eye(len(scores))[None]  # (1, n, n): a batch of one
    undivided = scores[None] * len(scores) ** 0.5  # the patient divides again
    return patient_e(undivided, unit, unit, mask[None])[0]


MaskExplorer(function=drawn, mask="none", padding=[1], ask=False)

# %% a-function-of-your-own [markdown]
# ## Your own function, your own layer
#
# Suppose that the next function is yours. It is correct, and in its mask True means *blocked*, as in
# `nn.MultiheadAttention`.


# %% mine
def mine(query, key, value, mask):
    scores = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(mask, -torch.inf)
    return scores.softmax(dim=-1) @ value


diagnose(mine)

# %% say-what-you-mean [markdown]
# This report is a question: `diagnose` cannot know what True means in your mask, so it names the option that settles it.

# %% what-you-mean
diagnose(mine, mask="blocked")

# %% a-layer [markdown]
# Now a layer with three heads. It takes its attention function as an argument, so that we can swap in another one.


# %% my-layer
class MyLayer(torch.nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.attend = attend
        self.qkv, self.out = torch.nn.Linear(12, 36), torch.nn.Linear(12, 12)

    def forward(self, x):  # (N, L, 12)
        parts = self.qkv(x).chunk(3, dim=-1)
        query, key, value = (split_heads(part, 3) for part in parts)
        return self.out(merge_heads(self.attend(query, key, value)))


torch.manual_seed(0)
diagnose(MyLayer(patient_c))

# %% follow [markdown]
# A layer makes its own queries, keys and values, so you cannot use probes 1 and 2 on it from outside. The clinic *follows
# its steps*: it records the matrix products of a forward pass, finds those in which queries are multiplied by keys and
# weights by values, and reads the raw scores and the weights there. That is all that probe 2 needs.
#
# Now it is your turn. Paste your `masked_attention` of lesson 3, your layer of lesson 7 or any other attention of yours
# into the next cell, and examine it. If you have none at hand, repair the one that is there.


# %% your-own
def your_own(query, key, value):
    scores = query @ key.mT / query.shape[-1]
    return scores.softmax(dim=-1) @ value


print(diagnose(your_own).summary)
print(diagnose(MyLayer(your_own)).summary)

# %% not-proved [markdown]
# ## What a report does not prove
#
# A probe sees what a function does only for the sizes and numbers that it tries. The next patient forgets its divisor if
# there are 16 keys or more.


# %% patient-long
def patient_long(query, key, value):
    divisor = query.shape[-1] ** 0.5 if key.shape[-2] < 16 else 1.0
    return (query @ key.mT / divisor).softmax(dim=-1) @ value


print(diagnose(patient_long).summary)
torch.manual_seed(0)
long_key = torch.randn(N, 16, E, dtype=torch.float64)
print(divisor_of(patient_long, query, long_key)[0])

# %% closing [markdown]
# The clinic finds nothing wrong, because it tries at most 8 keys for a function and at most 5 tokens for a layer like ours.
# If your code treats long inputs in another way, probe it there yourself. A report can also say that something could not be
# examined; then `report.ok` is None and `report.gap` says what. And it can be mistaken: a finding is a bug unless you
# mean it that way or the clinic is wrong.
#
# ## So how do you find a bug without a correct version?
#
# You write down what must hold, and you test it: the weights add up to 1, the divisor is correct at more than one size,
# the table of what moves is the mask that you want in both modes, the content of the padding has no effect, a sequence
# gives the same result alone as in a batch, and the outputs follow the queries. You use random numbers and unequal sizes,
# and you make sure that each test can fail. A program like the clinic runs many probes at once, but you have to say what
# you mean and judge what it reports.

# %% further [markdown]
# ## Further: the clinic in detail
#
# ### Say what you mean
#
# If an option, a name or the docstring in your code says what you mean, `diagnose` judges your code by that. These are the
# options that you are most likely to need:
#
# | your code | your option |
# |---|---|
# | In its mask, True means blocked. | `mask="blocked"` |
# | Its mask is added to the scores and contains 0 or $-\infty$. | `mask="additive"` |
# | No query is meant to see a later key. | `causal=True` |
# | It is a layer that takes query, key and value, and you always pass the same tokens for all three. | `self_attention=True` |
# | It has to be called in a special way. | `call=adapter` |
# | A finding is what you want. (The language model T5 leaves out the divisor on purpose.) | `meant={"scale-missing"}` |
#
# A report has three outcomes. `report.ok` is False if there is a finding. It is True if nothing wrong was found with the
# sizes and arguments that were tried; the report names them, and its list names the checks. It is None if something could
# not be examined, or has to be asked. The function below reads its dropout from a dictionary, which the clinic cannot
# guess. What helps is an adapter, a function that calls yours. It receives your function, the query, the key, the value
# and a mask that is either None or a Boolean tensor in which True means “may attend”.


# %% how-to-call
def configured(query, key, value, config, mask=None):
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=config["dropout"]
    )


def adapter(function, query, key, value, mask):
    return function(query, key, value, {"dropout": 0.0}, mask)


print(diagnose(configured).ok, diagnose(configured, call=adapter).ok)

# %% follow-sums [markdown]
# ### A layer that cannot be followed
#
# A layer can also compute its scores without a matrix product, by multiplying a query and a key feature by feature and
# adding up the products. Here is a correct layer of this kind, and one whose softmax runs over the queries.


# %% by-sums
def by_sums(query, key):
    products = query[..., :, None, :] * key[..., None, :, :]  # (..., L, S, E)
    return products.sum(dim=-1) / query.shape[-1] ** 0.5


def attention_by_sums(query, key, value):
    return by_sums(query, key).softmax(dim=-1) @ value


def patient_a_by_sums(query, key, value):
    return by_sums(query, key).softmax(dim=-2) @ value


for attend in (attention_by_sums, patient_a_by_sums):
    print(f"layer {diagnose(MyLayer(attend)).ok}, function {diagnose(attend).ok}")

# %% not-followed [markdown]
# In these layers there is no matrix product of queries and keys that the clinic could read. So it can check neither the
# divisor nor the softmax, it cannot tell the correct layer from the wrong one, and it says so: the outcome of both is None.
# What helps is to examine the attention function by itself.
#
# ### How often is the clinic right?
#
# We wrote 54 correct implementations of attention in the style of public code, and put several hundred textbook bugs into
# them, one at a time. We set half of these implementations aside until the clinic had been written. The first column shows
# our first look at this half. Afterwards we improved the clinic with both halves before us, so the other two columns may
# look better than they would on new code.

# %% how-often jupyter={"source_hidden": true}
from attnlab import data_path

panel = pd.read_csv(data_path("clinic_panel.csv"))
panel["share"] = (100 * panel["count"] / panel["of"]).round().astype(int).astype(
    str
) + "%"
rows = {
    ("correct (first call)", "accused"): "correct code, no options: accused",
    ("correct (with options)", "accused"): "correct code, with options: accused",
    ("injected bugs", "named"): "bugs: named",
    ("injected bugs", "missed"): "bugs: missed",
}
columns = {
    "first look": "held-out half, first look",
    "unseen half": "held-out half, now",
    "seen half": "the other half, now",
}
shares = panel.pivot(index=["examined", "answer"], columns="half", values="share")
shares.loc[list(rows)].set_axis(list(rows.values())).rename(columns=columns)[
    list(columns.values())
]

# %% how-often-read [markdown]
# Most of the bugs were named, and few were missed. But at our first look correct code was accused as well, less often with
# the appropriate options. And we wrote all of these implementations ourselves, so expect more false findings in your own
# code than the table shows.

# %% remember [markdown]
# ## What to remember
#
# - A probe tests a property that your attention is meant to have. It needs no correct version.
# - A correct shape proves nothing. Large whole numbers, equal sizes or a single size can hide a bug. Do not trust a
#   test until you have seen it fail.
# - If value $j$ is 1 in feature $j$ and 0 elsewhere, the output shows the weights. Their logarithms, plotted against the raw
#   scores, reveal the divisor.
# - Replace every token in turn, in training mode and in evaluation mode. The table of what moves is the mask. Change the keys
#   of the padding as well as its values.
# - Tell `diagnose` what you mean, for example with `mask=` or `causal=`. A finding can be wrong, and “nothing wrong found” is
#   a statement only about what was tried. If `report.ok` is None, something was not examined.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %%
from attnlab.exercises import check_disguise, check_hiding_sizes
from attnlab.exercises import check_learning_probe, check_mended_mask

# %% exercise-1 [markdown]
# ### 1 · Find the bug ★ (5 minutes)
#
# Patient X has a bug. Yet there are sizes for which no test can show it. Find the bug by reading the code, and return such sizes, each
# at least 2.
#
# <details><summary>Hint</summary>
#
# In a batch, which of the five sizes is <code>shape[1]</code> of the key, and which one should be used instead?
# </details>


# %% patient-x
def patient_x(query, key, value):
    scores = query @ key.mT / key.shape[1] ** 0.5
    return scores.softmax(dim=-1) @ value


# %% tags=["exercise"]
def sizes_that_hide_it():
    """Return five numbers: N, L, S, E, Ev."""


# %%
check_hiding_sizes(sizes_that_hide_it)


# %% tags=["solution"] jupyter={"source_hidden": true}
def sizes_that_hide_it_solution():
    return 2, 5, 11, 11, 3  # as many keys as features


check_hiding_sizes(sizes_that_hide_it_solution)

# %% exercise-2 [markdown]
# ### 2 · Repair ★ (8 minutes)
#
# `two_bugs` has two bugs. Write a corrected version, `mended`. The check uses `diagnose`.
#
# <details><summary>Hint</summary>
#
# Try probes 2 and 4 on it. If you are stuck, run <code>diagnose(two_bugs)</code>.
# </details>


# %% tags=["exercise"]
def two_bugs(query, key, value, mask):
    scores = query @ key.mT / query.shape[-1]
    scores = scores * mask  # True = may attend
    return scores.softmax(dim=-1) @ value


def mended(query, key, value, mask):
    """(N, L, E), (N, S, E), (N, S, Ev), mask (N, L, S), True = may attend -> output."""


# %%
check_mended_mask(mended)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_solution(query, key, value, mask):
    scores = query @ key.mT / query.shape[-1] ** 0.5  # the square root
    scores = scores.masked_fill(~mask, -torch.inf)  # a score of 0 blocks nothing
    return scores.softmax(dim=-1) @ value


check_mended_mask(mended_solution)

# %% exercise-3 [markdown]
# ### 3 · Write a probe ★★ (10 minutes)
#
# `frozen_weights` and `frozen_query` return correct numbers, so they would pass all the probes in our table. Still, a part
# of the model gets no gradient through them. Write a probe that returns True for correct functions. It should return
# False for these two, and for any other function through which the query, the key or the value gets no gradient, or a
# gradient of nothing but zeros. The check tries it on more functions of both kinds.
#
# <details><summary>Hint</summary>
#
# What does training need from a function besides its output? Give it fresh copies,
# <code>t.detach().clone().requires_grad_()</code>, and look at <em>all three</em> gradients after
# <code>backward()</code>. Can <code>backward()</code> run if the output has no gradient at all?
# </details>


# %% frozen
def frozen_weights(query, key, value):
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return weights.detach() @ value


def frozen_query(query, key, value):
    return attention(query.detach(), key, value)


expected = attention(query, key, value)
[torch.equal(f(query, key, value), expected) for f in (frozen_weights, frozen_query)]


# %% tags=["exercise"]
def learning_probe(attend):
    """Return True if a model can learn through this function."""


# %%
check_learning_probe(learning_probe)


# %% tags=["solution"] jupyter={"source_hidden": true}
def learning_probe_solution(attend):
    leaves = [t.detach().clone().requires_grad_() for t in (query, key, value)]
    output = attend(*leaves)
    if not output.requires_grad:  # no gradient reaches any of the three
        return False
    output.square().sum().backward()
    return all(leaf.grad is not None and leaf.grad.abs().max() > 0 for leaf in leaves)


check_learning_probe(learning_probe_solution)

# %% exercise-4 [markdown]
# ### 4 · Break it ★★ (12 minutes)
#
# `weak_check` compares the output of a function with the correct one, on random numbers. Write a wrong attention
# function that passes it and that `diagnose` catches, in a way that is none of our patients.
#
# <details><summary>Hint</summary>
#
# How many sizes does the check try, and which? How many sequences, and which dtype? Does it look at its inputs afterwards?
# </details>


# %% weak
def weak_check(attend):
    torch.manual_seed(0)
    inputs = torch.randn(3, 1, 10, 64)  # query, key, value: one sequence
    return torch.allclose(attend(*inputs), attention(*inputs), atol=1e-5)


# %% tags=["exercise"]
def wolf(query, key, value):
    """Pass weak_check, and be wrong."""


# %%
check_disguise(wolf)


# %% tags=["solution"] jupyter={"source_hidden": true}
def wolf_solution(query, key, value):
    divisor = (6.4 * key.shape[-2]) ** 0.5  # 8 for ten keys, whatever the features
    return (query @ key.mT / divisor).softmax(dim=-1) @ value


check_disguise(wolf_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: “I ran `diagnose` on my attention layer, and it found no bug. So my layer is correct.” Answer in two
# sentences, and name one thing to look at in the report. Then compare your answer with ours.
#
# <details><summary>An answer</summary>
#
# Look at the outcome first: if it is None, something was not examined, and you should examine the attention function inside
# the layer by itself. If it is True, no property
# in the list failed at the sizes and numbers that were tried, which says nothing about properties that are not in it.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `torch.testing.assert_close` compares your output with that of a correct version, and `torch.autograd.gradcheck`
# compares gradients with finite differences. `F.scaled_dot_product_attention` can serve as the correct version if yours
# computes the same thing. In its Boolean mask, True means *may attend*, whereas in `nn.MultiheadAttention` it means
# *blocked*. The function itself returns no weights, but probe 1 recovers them.

# %% sources [markdown]
# ## Sources
#
# - Neuromatch Academy, [Deep Learning, W2D5, tutorial
#   1](https://github.com/NeuromatchAcademy/course-content-dl/blob/main/tutorials/W2D5_AttentionAndTransformers/W2D5_Tutorial1.ipynb),
#   coding exercise 2: the check with large whole numbers (licence CC BY).
# - PyTorch, [tutorial on scaled dot product
#   attention](https://github.com/pytorch/tutorials/blob/main/intermediate_source/scaled_dot_product_attention_tutorial.py):
#   causality tied to training. The same happened in [Kronos, issue 199](https://github.com/shiyu-coder/Kronos/issues/199).
# - [xformers, issue 522](https://github.com/facebookresearch/xformers/issues/522): T5 folds the divisor into its
#   initialisation.
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017: heads with 64 features.

# %% next [markdown]
# ## Next
#
# Lesson 10, [One real attention layer](10_one_real_attention_layer.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.** Probes 1 and 2: 11. The test with stored numbers: 5. Probes 3 and 4: 12. The table and the explorer: 12.
# Your own function and layer, and what a report does not prove: 10. Set “Further” as homework.
#
# **Where a class stalls.** *The logarithm of probe 2:* let the class take the logarithms of one row of weights by hand and
# subtract one from another. The sum in the softmax cancels. *“But it passes”:* let everyone write a wrong function that
# passes. *Training and evaluation mode:* ask where `.eval()` is called in code that the students know. *“The program says
# OK”:* ask what the program has tried.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** The output has the correct shape. What does that show? **Nothing about the numbers.** *The sequences stay apart:* a batch that
# is joined into one text has the same shape. *The softmax runs over the correct axis:* patient A has the correct shape too.
#
# **2.** All rows of weights add up to 1. What follows? **Other bugs may remain.** *The divisor is correct:* patient B passes.
# *The causal mask works:* a leaking function passes too.
#
# **3.** A function is meant to be causal. With dropout switched off, you replace the last token of a sequence, and all
# outputs move. What does this show? **It leaks.** *That is normal* is true without a mask. *Only the last token may
# look ahead:* nothing comes after it.
#
# **4.** If you write 99 into the blocked keys, the output moves; if you write it into the blocked values, it does not. What is wrong?
# **The weights are set to zero after the
# softmax.** *The mask is inverted* and *there is no mask:* then the values would move it as well.
#
# **5.** `diagnose` finds nothing wrong. What does this tell you? **No property that it tried has failed.** *It is correct at every size:* see `patient_long`.
# *It does what I want:* the clinic cannot know that.
# </details>
