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
# moves. In this lesson you will probe seven broken functions and layers, which we call patients. Then a program, the
# clinic, will examine a function and a layer of your own, and you will learn how far you can trust its report.
#
# **You need** lesson 2 (the square root of $d_k$), lesson 3 (masks, padding and the leak test) and lesson 7 (heads).
#
# **You will be able to**
# - test attention when you have no correct version, and work out the bug from what changes,
# - tell a test that can fail from one that cannot,
# - examine code of your own with `diagnose`, and tell it what your masks mean and how to call your code,
# - say what each of the three outcomes of a report proves, and what it does not.
#
# **Time:** 45 minutes in class, 90 alone. You may skip the section headed "Further".

# %% setup
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import data_path, merge_heads, split_heads
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import MaskExplorer

lesson_setup()

# %% a-test-that-cannot-fail [markdown]
# ## A test that cannot fail
#
# Below are attention as you know it and patient A, which has one bug. The five sizes of the inputs are all different,
# so that a mix-up of two axes has a chance to show. There are $N = 2$ sequences, $L = 5$ queries, $S = 7$ keys, $E =
# 11$ features, and $E_v = 3$ features in a value.

# %% patient-a
N, L, S, E, Ev = 2, 5, 7, 11, 3
torch.manual_seed(0)
query, key, value = torch.randn(N, L, E), torch.randn(N, S, E), torch.randn(N, S, Ev)


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
# the output *is* weight $j$. This works for functions that accept values with $S$ features. It does not work for a
# whole layer, because a layer makes its own values.


# %% weights-of
def weights_of(attend, query, key):
    N, S, _ = key.shape
    return attend(query, key, torch.eye(S).expand(N, S, S))  # the weights (N, L, S)


[weights_of(f, query, key)[0].sum(dim=-1) for f in (attention, patient_a)]

# %% probe-2 [markdown]
# The weights of patient A do not add up to 1 for each query. Its softmax runs over the queries, so the weights of each
# *key* add up to 1. Each of the 7 keys hands out a total weight of 1, so the 5 sums above add up to 7.
#
# ## Probe 2: the divisor
#
# Are the scores divided by the correct number? Take one query and two keys. The softmax raises $e$ to each score and
# divides the results by their sum. In the ratio of two weights this sum cancels, so the logarithm of the ratio is the
# difference of the two scores. And each score $s$ is a raw score $r$, a dot product, divided by some number:
#
# $$\log \frac{w_0}{w_1} = s_0 - s_1 = \frac{r_0 - r_1}{\text{divisor}}, \qquad\text{so}\qquad
# \text{divisor} = \frac{r_0 - r_1}{\log (w_0 / w_1)}$$
#
# You know the raw scores, so you can compute the divisor, first for one query and then for all of them. Patient B
# forgets to divide. Patient C divides by 8, the number used in the original Transformer, where a head has 64 features.

# %% two-keys
raw, weights = query @ key.mT, weights_of(attention, query, key)  # both (N, L, S)
difference = raw[0, 0, 0] - raw[0, 0, 1]  # query 0, keys 0 and 1
log_ratio = (weights[0, 0, 0] / weights[0, 0, 1]).log()
difference, log_ratio, difference / log_ratio, E**0.5


# %% divisor-of
def divisor_of(attend, query, key):
    """The divisor for each query (N, L), from the weights of the first two keys."""
    raw, weights = query @ key.mT, weights_of(attend, query, key)
    return (raw[..., 0] - raw[..., 1]) / (weights[..., 0] / weights[..., 1]).log()


def patient_b(query, key, value):
    return (query @ key.mT).softmax(dim=-1) @ value


def patient_c(query, key, value):
    return (query @ key.mT / 8).softmax(dim=-1) @ value


[divisor_of(f, query, key)[0] for f in (attention, patient_b, patient_c)]

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
    some_query, some_key = torch.randn(N, L, size), torch.randn(N, S, size)
    products = some_query @ some_key.mT
    for name, (function, colour, marker, width) in looks.items():
        logs = weights_of(function, some_query, some_key).log()
        x, y = ((t[..., :1] - t[..., 1:]).flatten() for t in (products, logs))
        points[size, name] = x, y
        ax.plot(x, y, marker, color=colour, ms=width, mew=0, alpha=0.7, label=name)
    ax.set(xlabel="difference of raw scores", xlim=(-21, 21), ylim=(-21, 21))
    ax.set_title(f"{size} features")
axes[2].text(20, -18, "C looks correct", ha="right", color=GREEN, fontsize=11)
axes[0].set_ylabel("log of the ratio of weights")
axes[0].legend(loc="upper left")
show_figure(axes[0], "9.1")

# %% certificate [markdown]
# Our 11 features call for $\sqrt{11} = 3.317$, and only attention divides by it. Figure 9.1 repeats the probe with more
# pairs of keys and at three sizes. For a softmax of scaled dot products, the points lie on a straight line whose slope
# is 1/divisor. At 64 features the points of patient C lie on the line for attention. So a test at a single size cannot
# tell a rule from a constant.
#
# ### A test with stored numbers
#
# A public course checks your attention by comparing its output with stored correct numbers (see Sources). The inputs of
# this check are whole numbers up to 114. Ours run from 1 to 30, in five rows of six features, and serve as query, key
# and value.

# %% ask-certificate
predict("09/large-whole-numbers")

# %% see-certificate
# %%answer 09/large-whole-numbers
whole = torch.arange(1.0, 31.0).view(1, 5, 6)
gap = patient_b(whole, whole, whole) - attention(whole, whole, whole)
best, second = (whole[0] @ whole[0].T).topk(2).values.T  # raw scores of each query
gap.abs().max(), best - second

# %% probe-3 [markdown]
# ## Probe 3: the leak test, in both modes
#
# You know the leak test from lesson 3: replace the last token, and under a causal mask only the last output may move.
# Then replace the first token. All outputs should move; otherwise the test cannot detect a change. Patient D is a
# layer, and a layer has two modes: training mode, and evaluation mode, which `.eval()` switches on.


# %% patient-d
class PatientD(torch.nn.Module):
    def __init__(self, E):
        super().__init__()
        self.qkv = torch.nn.Linear(E, 3 * E)

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        causal = self.training  # True after .train(), False after .eval()
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


def moved(layer, x, place):
    """1 for each output that moves when the token at `place` is replaced, else 0."""
    changed = x.clone()
    changed[place] = torch.randn(x.shape[-1])
    return ((layer(changed) - layer(x)).abs() > 1e-6).any(dim=-1).int()


torch.manual_seed(2)
tokens, patient_d = torch.randn(L, E), PatientD(E)
in_training = [moved(patient_d.train(), tokens, place) for place in (0, -1)]
in_training, moved(patient_d.eval(), tokens, place=-1)

# %% probe-4 [markdown]
# In training mode the last token moves only the last output. In `eval` mode it moves all five: every token but the last
# sees the future, and the layer computes something that it was not trained to compute. So run the leak test once in
# each mode. For training mode, set dropout to 0 first, since otherwise the outputs move at random. The layer in one of
# PyTorch's own tutorials switches off causality together with dropout in `eval` mode (see Sources).
#
# ## Probe 4: change what is blocked
#
# The last two of the seven keys are padding. Patient E gives them a weight of 0, but only after the softmax. What the
# padding contains must not matter, so we write 99 into all its features, first into its values and then into its keys.


# %% patient-e
def patient_e(query, key, value, mask):  # True = may attend
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights * mask) @ value


real = torch.arange(S) < 5  # (S,), False for the padding

# %% ask-padding
predict("09/ninety-nine-in-the-padding")

# %% see-padding
# %%answer 09/ninety-nine-in-the-padding
by_value = patient_e(query, key, value.masked_fill(~real[:, None], 99), real)
by_key = patient_e(query, key.masked_fill(~real[:, None], 99), value, real)
plain = patient_e(query, key, value, real)
(by_value - plain).abs().max(), (by_key - plain).abs().max()

# %% two-more [markdown]
# ## Two more probes, and a table
#
# **Alone or in a batch?** The sequences of a batch must not influence each other. So give the function one sequence by
# itself, and compare the result with what it returns for the same sequence in the batch.
#
# **Do the outputs follow the queries?** If you shuffle the queries, the outputs must be shuffled in the same way. This
# holds for functions without a causal mask and without positions, because they treat a query in the same way wherever
# it appears in the sequence.
#
# Patient F reshapes where it should transpose, and patient G joins the batch into one long sequence. Let us try
# all the probes that need no mask on all patients that are functions of query, key and value.


# %% patients-f-g
def patient_f(query, key, value):
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    columns = value.mT @ weights.mT  # (N, Ev, L)
    return columns.reshape(*query.shape[:-1], value.shape[-1])


def patient_g(query, key, value):
    joined = (t.reshape(1, -1, t.shape[-1]) for t in (query, key, value))
    return attention(*joined).view(*query.shape[:-1], value.shape[-1])


def same(a, b):
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-4)


# %% all-probes
order = torch.tensor([4, 2, 0, 3, 1])
probes = {
    "shape": lambda f: f(query, key, value).shape == (N, L, Ev),
    "row sums": lambda f: same(weights_of(f, query, key).sum(dim=-1), torch.ones(N, L)),
    "divisor": lambda f: same(divisor_of(f, query, key), torch.full((N, L), E**0.5)),
    "alone": lambda f: same(f(query[:1], key[:1], value[:1]), f(query, key, value)[:1]),
    "order": lambda f: same(
        f(query[:, order], key, value), f(query, key, value)[:, order]
    ),
}
tried = [attention, patient_a, patient_b, patient_c, patient_f, patient_g]
table = {
    f.__name__: {name: passes(f) for name, passes in probes.items()} for f in tried
}
pd.DataFrame(table).replace({True: "passes", False: "fails"}).T

# %% the-clinic [markdown]
# The shape test catches none of the patients, but each of them is caught by at least one other probe. The divisor probe
# catches all five but explains only B and C. Its formula assumes that the weights of a query come from one softmax over
# its own keys. In A every key has a total of its own. In G a query also attends to the other sequence, and probe 1 adds
# up two weights for each key. In F the weights inside the function are correct, but the output is in the wrong order.
# Probe 1 reads the weights from the output, so the row sums fail as well. So for these patients the computed divisor
# means nothing. If another probe fails as well, begin with that one.
#
# ## Let the clinic do it
#
# `diagnose` runs such probes, and many more, on a function that you give it.

# %% report-b
from attnlab.clinic import diagnose

diagnose(patient_b)

# %% read-the-report [markdown]
# Read the report from the top. The headline names the [**finding**](glossary.ipynb#finding), and the sentence below it
# says what is wrong. The table is the evidence: the factor stays the same while $1/\sqrt{d_k}$ changes. ($d_k$ is our
# $E$, and the factor is 1 over our divisor.) Then come a repair and the lesson that explains it. The folded list at the
# end shows what was checked and found to hold.
#
# ### Your experiment: a function, drawn
#
# The mask editor of lesson 3 can draw what a function makes of given scores and a mask. For patient E we use probe 1:
# with the scores as queries and unit vectors as keys and values, the output is the weights. Here "cat" is padding, and
# the sentence above the map names the first three rows that do not sum to 1. Click the word, and every row does. Then
# put a function of your own in place of `patient_e`.


# %% explore
def drawn(scores, mask):
    one = torch.eye(len(scores))[None]  # (1, n, n): a batch of one
    undivided = scores[None] * len(scores) ** 0.5  # the patient divides again
    return patient_e(undivided, one, one, mask[None])[0]


MaskExplorer(function=drawn, mask="none", padding=[1], ask=False)

# %% a-function-of-your-own [markdown]
# ## A function of your own
#
# Suppose that the next function is yours. It is correct, and in its mask True means *blocked*, as in
# `nn.MultiheadAttention`.


# %% mine
def mine(query, key, value, mask):
    scores = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(mask, -torch.inf)
    return scores.softmax(dim=-1) @ value


diagnose(mine)

# %% options [markdown]
# ### Say what you mean
#
# This report is a question. `diagnose` cannot know what True means in your mask. If an option, a name or the docstring
# in your code says so, it judges your code by that. (A function called `add_bias`, for example, is given a mask of 0
# and $-\infty$, and the report says so under *Good to know*.) If nothing says so, it names both readings, and the
# option that settles each. These are the options that you are most likely to need:
#
# | your code | your option |
# |---|---|
# | In its mask, True means blocked. | `mask="blocked"` |
# | Its mask is added to the scores and contains 0 or $-\infty$. | `mask="additive"` |
# | No query is meant to see a later key. | `causal=True` |
# | It is a layer that takes query, key and value, and you always pass the same tokens for all three. | `self_attention=True` |
# | It has to be called in a special way. | `call=adapter` |
# | A finding is what you want, such as scores that are not scaled. | `meant={"scale-missing"}` |
#
# Unless you pass `causal=`, the clinic guesses from the name of the function whether it is meant to be causal. If
# `mine` is meant to be causal and you have forgotten the causal mask, the clinic cannot find this bug until you pass
# `causal=True`.

# %% what-you-mean
print(diagnose(mine, mask="blocked").summary)
diagnose(mine, mask="blocked", causal=True)

# %% three-outcomes [markdown]
# The report on the missing causal mask lists fewer properties, because after this finding the clinic leaves out some
# checks, such as the one for blocked keys. So fix the bug that was found first, and run `diagnose` again.
#
# ### Three outcomes
#
# | `report.ok` | what it means |
# |---|---|
# | False | The clinic has found something. It is a bug, unless you mean it that way or the clinic is mistaken. |
# | True | The clinic found nothing wrong with the sizes and arguments that it tried. Its first line names them, and its list names the checks. |
# | None | Something could not be examined, or has to be asked. `report.gap` says what, which call was made, and what would help. |
#
# The function `configured` below reads its dropout from a dictionary, which the clinic cannot guess. What helps is an
# adapter, a function that calls yours. It receives your function, the query, the key, the value and a mask. This mask
# is either None or a Boolean tensor in which True means "may attend".


# %% how-to-call
def configured(query, key, value, config, mask=None):
    dropout = config["dropout"]
    return F.scaled_dot_product_attention(query, key, value, mask, dropout)


def adapter(function, query, key, value, mask):
    return function(query, key, value, {"dropout": 0.0}, mask)


print(diagnose(configured, call=adapter).summary)
diagnose(configured)

# %% a-layer [markdown]
# Now go back to `mine` and replace it with a function of your own.
#
# ## A layer of your own
#
# Here is a layer with three heads. It takes its attention function as an argument, so that we can swap in another one.
# When you have read this part, give `diagnose` a layer of your own.


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
diagnose(MyLayer(attention))

# %% follow [markdown]
# A layer makes its own queries, keys and values, so you cannot use probes 1 and 2 on it from outside. To check its
# divisor and its softmax, the clinic has to *follow its steps*. It records every matrix product of a forward pass, and
# compares them with those of a second pass with other tokens. In a projection only one of the two factors changes,
# because the other one holds parameters. Where both change, queries are multiplied by keys, or the resulting weights
# by values. (`F.scaled_dot_product_attention` does both.) So the clinic knows both the raw scores and the weights, and
# that is all that probe 2 needs.
#
# But a layer can also compute its scores without a matrix product, by multiplying a query and a key feature by feature
# and adding up the products:
#
# ```python
# scores = (query[..., :, None, :] * key[..., None, :, :]).sum(dim=-1) / query.shape[-1] ** 0.5
# ```
#
# Let us build four layers: one with attention, one with patient A, and the same two again with scores that are computed
# as such sums. What does the clinic report on the last two?

# %% ask-follow
predict("09/scores-by-sums")

# %% see-follow jupyter={"source_hidden": true}
# %%answer 09/scores-by-sums
from IPython.display import display


def by_sums(query, key):
    products = query[..., :, None, :] * key[..., None, :, :]  # (..., L, S, E)
    return products.sum(dim=-1) / query.shape[-1] ** 0.5


def attention_by_sums(query, key, value):
    return by_sums(query, key).softmax(dim=-1) @ value


def patient_a_by_sums(query, key, value):
    return by_sums(query, key).softmax(dim=-2) @ value


torch.manual_seed(0)
examined = [attention, patient_a, attention_by_sums, patient_a_by_sums]
reports = {f.__name__: diagnose(MyLayer(f)) for f in examined}
alone = {f.__name__: diagnose(f) for f in examined}
summary = {
    "report.ok of the layer": {name: str(one.ok) for name, one in reports.items()},
    "findings": {
        name: ", ".join(finding.name for finding in one.findings)
        for name, one in reports.items()
    },
    "report.ok of the function alone": {
        name: str(one.ok) for name, one in alone.items()
    },
}
display(pd.DataFrame(summary), reports["patient_a_by_sums"])

# %% not-followed [markdown]
# ## What a report does not prove
#
# <details><summary>What the table and the report show</summary>
#
# In the last two layers there is no product of queries and keys that the clinic could see. So it could check
# neither the divisor nor the softmax, nor how heads are cut and joined. The list of what holds
# mentions none of these. The clinic cannot tell the correct layer from the wrong one, and it says so: the outcome of
# both is None.
#
# The last column shows what helps: examine the attention function by itself.
#
# </details>
#
# In any report, read three things: the outcome, the notes under *Good to know*, if there are any, and the list of what
# was checked. Does that list include what you care about?
#
# ### How often is the clinic right?
#
# We wrote 54 correct implementations of attention in the style of public code, and put several hundred textbook bugs
# into them, one at a time. We set half of these implementations aside until the clinic had been written. The first
# column of the table shows our first look at this half. Afterwards we improved the clinic with both halves before us,
# so the other two columns may look better than they would on new code. *Other name* means that the clinic found
# something wrong, but did not name this bug. Some counts from the first look were not recorded.

# %% how-often
panel = pd.read_csv(data_path("clinic_panel.csv"))
panel["number"] = panel["count"].astype(str) + " of " + panel["of"].astype(str)
panel = panel[panel.examined.str.contains("correct|injected")]
panel.pivot(index=["examined", "answer"], columns="half", values="number").fillna("")

# %% closing [markdown]
# Most of the bugs were named, and only a few were missed. But at our first look correct code was accused as well, less
# often with the appropriate options than without, and some of it could not be examined. Moreover, we wrote all of these
# implementations ourselves. A review of an earlier version of the clinic used 143 public implementations instead, and
# 43 of the 101 correct ones among them were accused at first. Without those that follow a convention of their own, such
# as True for blocked, the share was still 24%. So be prepared for more false findings in your own code than the table
# shows.
#
# ## So how do you find a bug without a correct version?
#
# You write down what must hold, and you test it: the weights add up to 1, the divisor is correct at more than one size,
# nothing leaks in either mode, the content of the padding has no effect, a sequence gives the same result alone as in a
# batch, and the outputs follow the queries. You use random numbers and unequal sizes, and you make sure that each test
# can fail. A program like the clinic runs many probes at once, but you have to say what you mean, and to judge what it
# reports. A finding may be the clinic's mistake, and a report without findings may not cover what you care about.

# %% further [markdown]
# ## Further
#
# ### What no probe can tell
#
# A probe sees what a function does only for the sizes and numbers that the probe tries. The clinic tries short inputs,
# with at most 8 keys for a function and at most 5 tokens for a layer like ours. The next patient forgets its divisor
# if there are 16 keys or more.


# %% patient-long
def patient_long(query, key, value):
    divisor = query.shape[-1] ** 0.5 if key.shape[-2] < 16 else 1.0
    return (query @ key.mT / divisor).softmax(dim=-1) @ value


torch.manual_seed(0)
many = torch.randn(1, 16, E)
gap_at_16 = patient_long(query[:1], many, many) - attention(query[:1], many, many)
print(diagnose(patient_long).summary)
gap_at_16.abs().max()

# %% intention [markdown]
# Nor can a probe know what you intended. The language model T5 leaves out the divisor on purpose and makes up for it
# when it initialises its parameters. For such a function, `diagnose` gives the same report as for patient B, unless you
# pass `meant={"scale-missing"}`. It is up to you to decide which properties your function should have.
#
# ### Heads have no names
#
# Some differences cannot be seen in the output at all. In a layer whose heads differ only in their parameters, reverse
# the order of the heads and move their parameters along with them. What changes?

# %% backwards
import copy

from attnlab import MultiHeadAttention

torch.manual_seed(0)
layer, batch = MultiHeadAttention(12, 3), torch.randn(2, 5, 12)
twin = copy.deepcopy(layer)
backwards = torch.arange(12).view(3, 4).flip(0).flatten()  # 8 to 11, 4 to 7, 0 to 3
with torch.no_grad():
    for linear in (twin.q_proj, twin.k_proj, twin.v_proj):
        linear.weight.copy_(linear.weight[backwards])
        linear.bias.copy_(linear.bias[backwards])
    twin.out_proj.weight.copy_(twin.out_proj.weight[:, backwards])
(
    same(layer(batch).output, twin(batch).output),
    same(layer(batch).weights, twin(batch).weights),
)

# %% side-effects [markdown]
# The outputs stay the same, and only the order of the heads in the weights changes. This does no harm until you copy
# only a part of the parameters, or copy them between programs that store the heads in different orders.
#
# ### Two side effects
#
# A function can return correct numbers and still cause trouble. Does it change its input? Does it keep float64?
# (`torch.autograd.gradcheck`, which compares gradients with finite differences, needs float64.)


# %% patient-rude
def patient_h(query, key, value):
    query /= query.shape[-1] ** 0.5  # changes the caller's tensor
    weights = (query @ key.mT).float().softmax(dim=-1)  # float64 becomes float32
    return weights @ value.float()


precise = [t.double() for t in (query, key, value)]
first, second = patient_h(*precise), patient_h(*precise)
print("same call, same result:", torch.allclose(first, second), first.dtype)
print("findings:", ", ".join(one.name for one in diagnose(patient_h).findings))

# %% remember [markdown]
# ## What to remember
#
# - A probe tests a property that your attention is meant to have. It needs no correct version.
# - A correct shape proves nothing. Large whole numbers, equal sizes or a single size can hide a bug. Do not trust a
#   test until you have seen it fail.
# - If value $j$ is 1 in feature $j$ and 0 elsewhere, the output shows the weights. Two weights and their raw scores
#   reveal the divisor.
# - Run the leak test in training mode and in `eval` mode, and check that a new first token moves all outputs. Change
#   the keys of the padding as well as its values.
# - Tell `diagnose` what you mean: `mask=`, `causal=`, `call=`. A finding can be wrong, and "nothing wrong found" is a
#   statement only about what was tried.
# - If `report.ok` is None, something was not examined, and `report.gap` says what helps. If the steps of a layer could
#   not be followed, examine its attention function by itself.

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
# What number does it divide by? And what is $e$ to the power of a score of 0? If you are stuck, run
# <code>diagnose(two_bugs)</code>.
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
# `frozen_weights` and `frozen_query` return correct numbers, and they pass all the probes in our table. Still, a part
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


[passes(f) for passes in probes.values() for f in (frozen_weights, frozen_query)]


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
# function that passes it and that `diagnose` catches. (More than one of the patients will do. Can you find another
# way?)
#
# <details><summary>Hint</summary>
#
# How many sizes does the check try, and which? How many sequences, and which dtype? Does it look at its inputs afterwards?
# </details>


# %% weak
def weak_check(attend):
    torch.manual_seed(0)
    inputs = torch.randn(3, 1, 10, 64)  # query, key, value: one sequence
    expected = attention(*inputs)
    return same(attend(*inputs), expected)


# %% tags=["exercise"]
def wolf(query, key, value):
    """Pass weak_check, and be wrong."""


# %%
check_disguise(wolf)


# %% tags=["solution"] jupyter={"source_hidden": true}
def wolf_solution(query, key, value):
    return (query @ key.mT / 8).softmax(dim=-1) @ value  # correct for 64 features only


check_disguise(wolf_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: "I ran `diagnose` on my attention layer, and it found no bug. So my layer is correct." Answer in two
# sentences, and name one thing to look at in the report. Then compare your answer with ours.
#
# <details><summary>An answer</summary>
#
# Look at the outcome first: if it is None, something was not examined, such as the softmax of a layer whose steps could
# not be followed, and you should examine the attention function inside the layer by itself. If it is True, no property
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
#   coding exercise 2: a check with large whole numbers.
# - PyTorch, [tutorial on scaled dot product
#   attention](https://github.com/pytorch/tutorials/blob/main/intermediate_source/scaled_dot_product_attention_tutorial.py):
#   causality tied to training. The same happened in [Kronos, issue 199](https://github.com/shiyu-coder/Kronos/issues/199).
# - [xformers, issue 522](https://github.com/facebookresearch/xformers/issues/522): T5 folds the divisor into its
#   initialisation.
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017: heads with 64 features.

# %% next [markdown]
# ## Next
#
# [10 · One real attention layer](10_one_real_attention_layer.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.** Probes 1 and 2: 12. Probes 3 and 4: 8. The table and the explorer: 8. A function of your own: 7. A
# layer of your own, and what a report does not prove: 10. Leave "Further" as homework.
#
# **Where a class stalls.** *The logarithm of probe 2:* let the class divide two weights of one row by hand. The sum in
# the softmax cancels. *"But it passes":* let everyone write a wrong function that passes. *Training and eval:* ask
# where `.eval()` is called in code that the students know. *"The program says OK":* ask what the program has tried.
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
