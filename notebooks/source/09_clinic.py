# %% opening [markdown]
# # 9 · The attention clinic: finding a bug without a correct version
#
# You have written attention. It runs, the output has the correct shape, and the loss goes down. Is it correct? Lesson 7
# showed that none of this proves it: layers with scrambled heads returned the correct shape and learned to copy.
#
# If a correct version exists, compare with it on random numbers. Often there is none. Your attention has a new mask or
# a new scale, and that is why you wrote it. Even where one exists, the comparison tells you *that* something is wrong,
# but not *what*. So how do you find a bug without a correct version?
#
# You know some things that must hold for any input. The weights of a query add up to 1, and no output depends on a
# blocked key. A [**probe**](glossary.ipynb#probe) tests one such property. It uses inputs for which the output shows
# the property, or it changes one thing and looks at what moves. In this lesson you will probe six broken
# functions and layers, which we call patients. Then you will let a program, the clinic, examine a function and a layer
# of your own, and learn how far you can trust its report.
#
# **You need** lesson 2 (the square root of $d_k$), lesson 3 (masks, padding and the leak test) and lesson 7 (heads).
#
# **You will be able to**
# - test attention when you have no correct version to compare with, and work out the bug from what changes,
# - tell a test that can fail from one that cannot,
# - examine code of your own with `diagnose`, and tell it what your masks mean and how to call your code,
# - say what a report without findings proves, and what it does not.
#
# **Time:** 50 minutes in class, 100 alone. You may skip the part "Further".

# %% setup
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import merge_heads, split_heads
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import YourAttentionExplorer

lesson_setup()

# %% a-test-that-cannot-fail [markdown]
# ## A test that cannot fail
#
# Here are attention as you know it and patient A, which has one bug. We call both with inputs whose five sizes are all
# different, so that an axis taken for another one has a chance to show: $N = 2$ sequences, $L = 5$ queries, $S = 7$
# keys, $E = 11$ features and $E_v = 3$ features in a value.

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
# Both pass the shape test, and so would a function that returns nothing but zeros. A test is worth little until you have
# seen it fail.
#
# ## Probe 1: values that show the weights
#
# Each output is a weighted sum of values. Let value $j$ be 1 in feature $j$ and 0 in all others. Then feature $j$ of the
# output *is* weight $j$. This works for a function that accepts values with $S$ features. It does not work for a whole
# layer, because a layer makes its own values.


# %% weights-of
def weights_of(attend, query, key):
    """The weights (N, L, S) of a function that returns only the output."""
    N, S, _ = key.shape
    return attend(query, key, torch.eye(S).expand(N, S, S))


(
    weights_of(attention, query, key)[0].sum(dim=-1),
    weights_of(patient_a, query, key)[0].sum(dim=-1),
)

# %% probe-2 [markdown]
# The weights of patient A do not add up to 1 for each query. Its softmax runs over the queries instead, so each *key* has
# a total weight of 1, and the 7 keys share out 7 among 5 queries.
#
# ## Probe 2: the divisor
#
# Are the scores divided by the correct number? Take one query and two keys. The softmax raises $e$ to each score and
# divides the results by their sum. In the ratio of two weights this sum cancels, and the logarithm of the ratio
# is the difference of the two scores:
#
# $$\log \frac{w_0}{w_1} = s_0 - s_1$$
#
# The scores are raw scores (dot products) divided by a number. You know the raw scores, so you can compute that
# number. We do it for one query first and then, with `divisor_of`, for all of them. There are two more patients now.
# Patient B forgets to divide. Patient C divides by 8, the number in the original Transformer, where a head has 64
# features.

# %% two-keys
raw, weights = query @ key.mT, weights_of(attention, query, key)  # (N, L, S) both
difference = raw[0, 0, 0] - raw[0, 0, 1]  # query 0 and the keys 0 and 1
log_ratio = (weights[0, 0, 0] / weights[0, 0, 1]).log()
difference, log_ratio, difference / log_ratio, E**0.5


# %% divisor-of
def divisor_of(attend, query, key):
    """The divisor of each query (N, L), from the weights of its first two keys."""
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
looks = {"attention": (attention, BLUE, "o", 7)}
looks["patient B"] = (patient_b, ORANGE, "s", 4)
looks["patient C"] = (patient_c, GREEN, "^", 4)
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
    ax.set(title=f"{size} features", xlabel="difference of raw scores", ylim=(-8, 8))
axes[0].set_ylabel("log of the ratio of weights")
axes[0].legend(loc="upper left")
show_figure(axes[0], "9.1")

# %% certificate [markdown]
# Our 11 features ask for $\sqrt{11} = 3.317$, and only attention divides by it. Figure 9.1 repeats the probe with more keys
# at three sizes, with a point for every query and every further key. The weights are a softmax of divided dot products, so the
# points of each function lie on a line, and its slope is 1 / divisor. At 64 features the points of patient C lie on the line of
# attention. A test at a single size cannot tell a rule from a number.
#
# ### A test with a certificate
#
# In a published exercise a test like the following one has to tell whether you remembered to divide. It compares your output with
# stored correct numbers. The inputs are large whole numbers. Ours count from 1 to 30, in five rows of six features, and
# serve as query, key and value.

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
# You know the leak test from lesson 3: change the last token, and under a causal mask only the last output may move.
# (Then change the first token. All outputs should move, or the test cannot see the change.) Patient D is a layer, and a
# layer has two modes, one for training and one, set by `.eval()`, for use. We change the last token in both.


# %% patient-d
class PatientD(torch.nn.Module):
    def __init__(self, E):
        super().__init__()
        self.qkv = torch.nn.Linear(E, 3 * E)

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        causal = self.training
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


def moved(layer, x, place):
    """1 for each output that moves when the token at `place` changes, else 0."""
    changed = x.clone()
    changed[place] += 1
    return ((layer(changed) - layer(x)).abs() > 1e-6).any(dim=-1).int()


torch.manual_seed(2)
tokens, patient_d = torch.randn(L, E), PatientD(E)
moved(patient_d.train(), tokens, place=-1), moved(patient_d.eval(), tokens, place=-1)

# %% probe-4 [markdown]
# In training mode only the last output moves. In `eval` mode all five do: every token sees the future, and the layer computes
# something that it was not trained for. So run the leak test twice, once in each mode. The patient is not invented. A tutorial
# of PyTorch switches causality off together with dropout (see Sources).
#
# ## Probe 4: change what is blocked
#
# The last two of seven keys are padding. Patient E gives them the weight 0, but only after the softmax. The content of
# padding must not matter, so we write 99 into all its features: first into its values, then into its keys.


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
# Always do both halves, the values and the keys. The repair is that of lesson 3: fill the scores with $-\infty$ before the
# softmax.
#
# ## Two more probes, and a table
#
# **Alone or in a batch.** The sequences of a batch must not influence each other. So give the function one sequence alone, and
# compare with what it returns for the same sequence in a batch.
#
# **Another order.** Shuffle the queries, and the outputs must follow in the same order. This holds without a causal mask
# and without positions, because then no query has a place.
#
# Patient F reshapes where it should transpose, and patient G joins the batch into one long sequence. Let us try all probes
# for functions on all patients that are functions of query, key and value.


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
# The shape test catches none of them, and every patient fails some other probe. The divisor catches all of them but explains only two:
# where the weights are not a softmax of dot products, its number means nothing. So the rest of the row matters. If only the
# divisor fails, the divisor is wrong. If the row sums fail too, begin there, and if the order fails, begin with the order. The
# table has no column for masks and leaks, which need probes 3 and 4.
#
# ## Let the clinic do it
#
# `diagnose` runs such probes, and many more, on a function that you hand it.

# %% report-b
from attnlab.clinic import diagnose

diagnose(patient_b)

# %% read-the-report [markdown]
# Read the report from the top. The headline names the [**finding**](glossary.ipynb#finding), and the sentence below says it in
# words. The evidence is a small table: here the factor stays the same while $1/\sqrt{d_k}$ changes. ($d_k$ is our $E$, and the
# factor is 1 over our divisor.) Then come a repair and the lesson that explains it. The folded list at the end says what was
# checked and held.
#
# ### Your experiment: a function, drawn and checked
#
# This explorer uses probe 1 to draw the weights of patient E, and beside them it lists what the clinic checked. Answer the
# question, make a word padding by clicking it, and read the row sums. Then put a function of your own in the place of
# `patient_e`: a function of query, key and value, with or without a mask in which True means "may attend".

# %% explore
YourAttentionExplorer(patient_e)

# %% a-function-of-your-own [markdown]
# ## A function of your own
#
# Suppose that the next function is yours. It is correct. In its mask, True means *blocked*, as in `nn.MultiheadAttention`.


# %% mine
def mine(query, key, value, mask):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    scores = scores.masked_fill(mask, -torch.inf)
    return scores.softmax(dim=-1) @ value


# %% ask-mine
predict("09/true-means-blocked")

# %% see-mine
# %%answer 09/true-means-blocked
print(diagnose(mine).summary)

# %% options [markdown]
# The clinic cannot know what you mean, so tell it:
#
# | your code | call |
# |---|---|
# | True in its mask means blocked | `diagnose(mine, mask="blocked")` |
# | its mask is added to the scores, 0 or $-\infty$ | `diagnose(mine, mask="additive")` |
# | no query is meant to see a later key | `diagnose(mine, causal=True)` |
# | it has to be called in a way of its own | `diagnose(mine, call=adapter)` |
#
# Without `causal=`, the clinic guesses from the name of the function. Suppose that `mine` was meant to be causal, and you forgot
# the causal mask. What you have written is correct attention without one, so nothing can be found until you say what you
# meant.
#
# An adapter is a function of your function, the query, the key, the value and a mask. The mask is None or Boolean with
# True = may attend, whatever yours means, so the adapter converts it if need be. The next function has a required
# temperature, which the clinic cannot guess.


# %% what-you-mean
print(diagnose(mine, mask="blocked").summary)
print(diagnose(mine, mask="blocked", causal=True).summary)


# %% how-to-call
def tempered(query, key, value, temperature, mask=None):
    return F.scaled_dot_product_attention(query / temperature, key, value, mask)


print(diagnose(tempered).summary)
print(diagnose(tempered, call=lambda f, q, k, v, mask: f(q, k, v, 1.0, mask)).summary)

# %% a-layer [markdown]
# "It raises ..." often means only that the clinic called your code in the wrong way. Now replace `mine` by a function of your own,
# and run the cells of this part again.
#
# ## A layer of your own
#
# Here is a layer with three heads. It takes its attention function as an argument, so that we can break it.


# %% my-layer
class MyLayer(torch.nn.Module):
    def __init__(self, attend, norm):
        super().__init__()
        self.attend, self.norm = attend, norm
        self.qkv, self.out = torch.nn.Linear(12, 36), torch.nn.Linear(12, 12)

    def forward(self, x):  # (N, L, 12)
        query, key, value = (
            split_heads(part, 3) for part in self.qkv(x).chunk(3, dim=-1)
        )
        query, key = self.norm(query), self.norm(key)  # Identity changes nothing
        return self.out(merge_heads(self.attend(query, key, value)))


torch.manual_seed(0)
diagnose(MyLayer(attention, norm=torch.nn.Identity()))

# %% follow [markdown]
# The report looks the same, but it was made in another way. A layer makes its own queries, keys and values, so probes 1 and 2
# cannot be used on it. Some probes only change the input: shuffle the tokens, pad a sequence, switch the mode. For
# all others the clinic has to *follow the steps* of the layer, as Figure 9.2 shows. It records what the linear layers
# return, takes this for queries, keys and values, and computes attention from it in the correct way and in many wrong
# ways, until one of the results gives the output of the layer.
#
# Many recent language models normalise each query and each key before the dot products. OLMo 2 is one of them. `torch.nn.RMSNorm(4)`
# does this for our heads with four features. So we have four layers: correct attention and patient A, each without
# and with this norm.

# %% follow-figure jupyter={"source_hidden": true}
from attnlab.diagrams import draw_followed_steps

show_figure(draw_followed_steps(), "9.2")

# %% ask-follow
predict("09/which-softmax-is-found")

# %% see-follow jupyter={"source_hidden": true}
# %%answer 09/which-softmax-is-found
torch.manual_seed(0)
layers = {
    "attention": MyLayer(attention, torch.nn.Identity()),
    "patient A": MyLayer(patient_a, torch.nn.Identity()),
    "attention, norm": MyLayer(attention, torch.nn.RMSNorm(4)),
    "patient A, norm": MyLayer(patient_a, torch.nn.RMSNorm(4)),
}
reports = {name: diagnose(layer) for name, layer in layers.items()}
summary = {
    "ok": {name: report.ok for name, report in reports.items()},
    "findings": {
        n: ", ".join(one.name for one in r.findings) for n, r in reports.items()
    },
    "steps followed": {
        n: "followed" not in " ".join(r.notes) for n, r in reports.items()
    },
    "row sums (probe 1)": {
        n: probes["row sums"](one.attend) for n, one in layers.items()
    },
}
pd.DataFrame(summary)

# %% not-followed [markdown]
# ## What a report does not prove
#
# <details><summary>What the table shows</summary>
#
# Both wrong layers have the same bug, and the report on the second one is "OK". Only a line under *Good to know* says
# that its own steps **could not be followed**: the norm comes between the linear layers and the dot products, and the
# clinic does not know it. That note is not a verdict on your code. It means that the scores, their factor and the softmax have
# not been checked. The list of what holds does not help either. It says that equal tokens are averaged to the same, which is
# true of the wrong softmax as well.
#
# The way out is in the last column. Write the attention inside your layer as a function of its own, as here, and then
# both probe 1 and `diagnose` can examine that function.
# </details>
#
# So read three things in a report: the findings, the list of what was checked (is what you care about in it?), and the
# notes. "Nothing wrong found" is a statement about what was tried.
#
# ### How often is it right?
#
# A review tried an earlier version of the clinic on code that its authors had never seen: 143 implementations
# of attention from 62 public repositories, articles and packages. Each was judged by hand and compared with
# `F.scaled_dot_product_attention`. Then 229 textbook bugs were put into 56 of the correct ones.
#
# | examined | the first call of `diagnose` | with the fitting option or adapter |
# |---|---|---|
# | 68 correct ones | 16 accused | 10 accused |
# | 33 correct ones with a convention of their own | 27 accused | 15 accused |
# | 42 wrong ones | 32 named, 6 found under another or a vague name, 4 missed | 2 more named |
# | 229 textbook bugs | 200 named, 9 found under another name, 20 missed | |
#
# So about one in four correct implementations was accused at the first call, and half of these 16 only because the
# clinic had called them in the wrong way. Of the 10 that were left, 6 were accused of something true that did not matter to
# them, such as a result in float32 for an input in float64. Whether the steps of a layer were followed made a large difference.
# Of 186 bugs in code that was followed, 178 were named, and of 43 in code that was not, only 22. The clinic has been changed since
# then and may do better or worse now. On its own collection of broken and correct code it does better, but it was repaired
# until it did.
#
# ## So how do you find a bug without a correct version?
#
# You write down what must hold, and you test it: the weights, the divisor at more than one size, leaks in both modes, the
# content of padding, one sequence alone, another order. Use random numbers and unequal sizes, and let each test
# fail once on something broken. A program such as the clinic saves you work, because it runs many probes within a second. But
# you have to tell it what you mean, and you have to judge what it says: a finding may be the clinic's mistake, and a report
# without findings may have examined little.

# %% further [markdown]
# ## Further
#
# ### What no probe can tell
#
# A probe sees what a function does at the sizes and the numbers that it tries. The next patient forgets its divisor if there are
# a thousand keys or more.


# %% patient-long
def patient_long(query, key, value):
    divisor = query.shape[-1] ** 0.5 if key.shape[-2] < 1000 else 1.0
    return (query @ key.mT / divisor).softmax(dim=-1) @ value


torch.manual_seed(0)
many = torch.randn(1, 1000, E)
gap_at_1000 = patient_long(query[:1], many, many) - attention(query[:1], many, many)
print(diagnose(patient_long).summary)
gap_at_1000.abs().max()

# %% intention [markdown]
# Nor can a probe know what you intended. The language model T5 leaves out the divisor on purpose and makes up for it when it
# initialises its parameters. If you examine a function without a divisor, `diagnose` says what it said of patient B.
# You decide whether a property is wanted.
#
# ### Heads have no names
#
# Some differences leave no trace at all. In any layer, number the heads backwards and move their parameters along with them. What
# changes?

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
# The outputs stay the same, and only the order of the heads in the weights changes. Nothing is wrong here until you copy
# parameters between two programs that count heads differently.
#
# ### Two side effects
#
# A function can return correct numbers and still cause trouble. Does it change its input? Does it keep float64? (`gradcheck`,
# which compares gradients with small steps, needs float64.)


# %% patient-rude
def patient_h(query, key, value):
    query /= query.shape[-1] ** 0.5  # changes the tensor of the caller
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
# - A correct shape proves nothing, and large whole numbers, equal sizes or a single size can hide a bug. Before you trust a test, let
#   it fail once.
# - Values that are unit vectors show the weights of a function that averages values of any width. Two weights and their scores
#   show the divisor.
# - Run the leak test in training mode and in `eval` mode. Change the keys of the padding as well as its values.
# - Tell `diagnose` what you mean: `mask=`, `causal=`, `call=`. A finding can be wrong, and "nothing wrong found" is a
#   statement about what was tried.
# - "Could not be followed" means that the scores and the softmax inside your layer were not checked. Examine its attention
#   function by itself.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Find the bug ★ (5 minutes)
#
# Patient X has a bug. Yet there are sizes for which no test can show it. Find the bug by reading, and return such sizes, each at
# least 2.
#
# <details><summary>Hint</summary>
#
# In a batch, which of the five sizes is <code>shape[1]</code> of the key, and which one should stand there?
# </details>

# %%
from attnlab.exercises import check_disguise, check_hiding_sizes
from attnlab.exercises import check_learning_probe, check_mended_mask


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
# `two_bugs` has two bugs. Write `mended` without them. The check asks `diagnose`.
#
# <details><summary>Hint</summary>
#
# By which number does it divide? And what is $e$ to the power of a score of 0? If you are stuck, run
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
    scores = query @ key.mT / query.shape[-1] ** 0.5  # the root
    scores = scores.masked_fill(~mask, -torch.inf)  # a score of 0 blocks nothing
    return scores.softmax(dim=-1) @ value


check_mended_mask(mended_solution)

# %% exercise-3 [markdown]
# ### 3 · Write a probe ★★ (10 minutes)
#
# `frozen_weights` and `frozen_query` return correct numbers, and all our probes pass. Still, a part of the model gets no gradient
# through them. Write a probe that is True for correct functions and False for these two, and for any other
# through which the query, the key or the value gets no gradient, or nothing but zeros. The check tries it on more functions of
# both kinds.
#
# <details><summary>Hint</summary>
#
# What does training need from a function besides its output? Give it fresh copies,
# <code>t.detach().clone().requires_grad_()</code>, and look at <em>all three</em> gradients after
# <code>backward()</code>.
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
    attend(*leaves).square().sum().backward()
    return all(leaf.grad is not None and leaf.grad.abs().max() > 0 for leaf in leaves)


check_learning_probe(learning_probe_solution)

# %% exercise-4 [markdown]
# ### 4 · Break it ★★ (12 minutes)
#
# `weak_check` compares with the correct output on random numbers. Write a wrong attention function that passes it and that
# `diagnose` finds. (One of the patients will do. Can you find another way?)
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
# A friend says: "I ran `diagnose` on my attention layer, and it found nothing wrong. So my layer is correct." Answer in two
# sentences, and name one thing to look at in the report. Then compare.
#
# <details><summary>An answer</summary>
#
# The report says that no property which was tried has failed, at the sizes and numbers that were tried, so it depends on what was tried. Look under
# <em>Good to know</em>: if the steps of the layer could not be followed, its scores and its softmax were not checked.
# Then examine the attention function inside the layer by itself.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `torch.testing.assert_close` compares with a correct version, and `torch.autograd.gradcheck` compares gradients with small
# steps. `F.scaled_dot_product_attention` serves as the correct version, if you compute the same thing. It returns no weights,
# but probe 1 recovers them. True means *may attend* there, and *blocked* in `nn.MultiheadAttention`.

# %% sources [markdown]
# ## Sources
#
# - Neuromatch Academy, [Deep Learning, W2D5, tutorial
#   1](https://github.com/NeuromatchAcademy/course-content-dl/blob/main/tutorials/W2D5_AttentionAndTransformers/W2D5_Tutorial1.ipynb),
#   coding exercise 2: a check with large whole numbers.
# - PyTorch, [tutorial on scaled dot product
#   attention](https://github.com/pytorch/tutorials/blob/main/intermediate_source/scaled_dot_product_attention_tutorial.py):
#   causality tied to training. The same happened in [Kronos, issue 199](https://github.com/shiyu-coder/Kronos/issues/199).
# - [xformers, issue 522](https://github.com/facebookresearch/xformers/issues/522): T5 puts the divisor into its
#   initialisation.
# - Henry et al., [Query-Key Normalization for Transformers](https://arxiv.org/abs/2010.04245), 2020, and Hugging Face,
#   [OLMo 2](https://huggingface.co/docs/transformers/model_doc/olmo2): a norm for queries and keys.
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017: heads with 64 features.

# %% next [markdown]
# ## Next
#
# [10 · One real attention layer](10_one_real_attention_layer.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.** Probes 1 and 2: 14. Probes 3 and 4: 9. The table and the explorer: 9. A function of your own: 8. A layer of your own, and
# what a report does not prove: 10. Leave "Further" for home.
#
# **Where a class stalls.** *The logarithm of probe 2:* let the class divide two weights of one row by hand. The sum in the
# softmax cancels. *"But it passes":* let everyone write a wrong function that passes. *Training and eval:* ask where
# `.eval()` is called in code that they know. *"The program says OK":* ask what the program has tried.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the wrong answers are tempting</summary>
#
# **1.** The output has the correct shape. What does that show? **Nothing about the numbers.** *The sequences stay apart:* a batch that
# is joined into one text has the same shape. *The softmax has the correct axis:* patient A has the correct shape too.
#
# **2.** All rows of weights add up to 1. What follows? **Other bugs may remain.** *The divisor is correct:* patient B passes.
# *The causal mask works:* a leaking function passes too.
#
# **3.** In a function that is meant to be causal, the last token changes and all outputs move. **It leaks.** *That is normal* is true
# without a mask. *Only the last token may look ahead:* nothing comes after it.
#
# **4.** 99 in blocked keys moves the output, and 99 in blocked values does not. **The weights are set to zero after the
# softmax.** *The mask is inverted* and *there is no mask:* then the values would move it as well.
#
# **5.** `diagnose` finds nothing. **No property that it tried has failed.** *It is correct at every size:* see `patient_long`.
# *It does what I want:* the clinic cannot know that.
# </details>
