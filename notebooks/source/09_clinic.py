# %% opening [markdown] above="How do you find" end="How do you find"
# # 9 · The attention clinic: finding a bug without a correct version
#
# You have written attention.
# It runs, the output has the correct shape, and the loss goes down.
# Is it correct?
#
# If a correct version exists, you can compare yours with it on random numbers.
# But often there is none, because your attention has a new mask or a new scale.
# How do you find a bug without a correct version?
#
# You do know some properties that softmax attention must have, whatever the numbers are.
# The weights of a query add up to 1 (unless all its keys are blocked, or dropout is on),
# and no output depends on a blocked key.
# A [**probe**](glossary.ipynb#probe) tests one such property.
# You will probe broken functions and layers, which we call patients.
#
# **You need:** [lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
# (the square root of $d_k$), [lesson 3](03_masks_who_may_look_at_whom.ipynb) (masks,
# padding and the influence map) and [lesson 7](07_multi_head_reshaping_without_scrambling.ipynb)
# (heads).
#
# **You will be able to:** test attention when you have no correct version,
# tell a test that can see a bug from one that cannot,
# draw which tokens each output of a layer depends on, and examine code of your own with `diagnose`.
#
# **Time:** 44 minutes in class, or 83 on your own with the exercises.
# “Further” takes another 10.

# %% setup
import matplotlib.pyplot as plt
import pandas as pd
import torch
import torch.nn.functional as F

from attnlab import causal_mask, influence_map, merge_heads, split_heads
from attnlab.clinic import diagnose
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import MaskExplorer
from attnlab.plotting import plot_mask

lesson_setup()

# %% a-test-with-stored-numbers [markdown] below="A public course checks"
# ## A test with stored numbers
#
# A public course checks your attention by comparing its output with stored correct numbers
# (see Sources).
# These are its inputs: three queries, keys and values of four features, whole numbers up to 114.

# %% course-inputs
rows = [[12.0, 2, 17, 88], [1, 43, 13, 7], [69, 48, 18, 55]]
course_query = torch.tensor([rows])
course_key = torch.tensor([[[10.0, 99, 65, 10], [85, 6, 114, 53], [25, 5, 3, 4]]])
course_value = torch.tensor([[[33.0, 32, 18, 3], [36, 77, 90, 37], [19, 47, 72, 39]]])
course_query @ course_key.mT  # the raw scores

# %% three-patients [markdown]
# We try this test on three patients, each with one bug.
# Patient A runs its softmax over the queries, not over the keys.
# Patient B forgets to divide the scores.
# Patient C divides them by 8, the number used in the original Transformer,
# where a head has 64 features.

# %% ask-certificate
predict("09/large-whole-numbers")

# %% patients [markdown] below="Here are a correct"
# Here are a correct `attention`, the three patients, and their test.


# %% see-certificate
# %%answer 09/large-whole-numbers
def attention(query, key, value):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ value


def patient_a(query, key, value):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return scores.softmax(dim=-2) @ value


def patient_b(query, key, value):
    return (query @ key.mT).softmax(dim=-1) @ value


def patient_c(query, key, value):
    return (query @ key.mT / 8).softmax(dim=-1) @ value


stored = torch.tensor([[[36.0, 77, 90, 37], [33, 32, 18, 3], [36, 77, 90, 37]]])
for attend in (attention, patient_a, patient_b, patient_c):
    output = attend(course_query, course_key, course_value)
    print(f"{attend.__name__:10} passes: {torch.equal(output, stored)}")

# %% certificate [markdown] above="The test catches patient" answers="09/large-whole-numbers"
# The test catches patient A, but B and C return exactly the stored numbers.
# In each row the best score leads by thousands.
# Even after a division by 8 its key gets a weight that rounds to 1,
# so the output is a copy of one value.

# %% other-inputs [markdown] below="Our own inputs are"
# ### Inputs of our own
#
# Our own inputs are random numbers, in float64.
# Their five sizes are all different, so that a mix-up of two axes has a chance to show:
# $N = 2$ sequences, $L = 5$ queries, $S = 7$ keys, $E = 11$ features,
# and $E_v = 3$ features in a value.

# %% random-inputs
N, L, S, E, Ev = 2, 5, 7, 11, 3
torch.manual_seed(0)
query = torch.randn(N, L, E, dtype=torch.float64)
key = torch.randn(N, S, E, dtype=torch.float64)
value = torch.randn(N, S, Ev, dtype=torch.float64)
attention(query, key, value).shape, patient_a(query, key, value).shape

# %% probe-1 [markdown] above="Patient A passes the" below="Each output is a"
# Patient A passes the shape test like `attention`,
# and so would a function that returns nothing but zeros.
# Do not trust a test until you have seen it fail on the bug that you fear.
#
# ## Probe 1: values that show the weights
#
# Each output is a weighted sum of values.
# Let value $j$ be 1 in feature $j$ and 0 in all others.
# Then feature $j$ of the output *is* weight $j$.
# The function must accept values with $S$ features.


# %% weights-of
def weights_of(attend, query, key):
    N, S, _ = key.shape
    unit_values = torch.eye(S, dtype=key.dtype).expand(N, S, S)
    return attend(query, key, unit_values)  # the weights (N, L, S)


for attend in (attention, patient_a):
    print(weights_of(attend, query, key)[0].sum(dim=-1))  # of each query

# %% probe-2 [markdown] above="The weights of patient" below=["Are the scores divided", "You know the raw"]
# The weights of patient A do not add up to 1 for each query.
# Its softmax runs over the queries, so the weights of each *key* add up to 1.
#
# ## Probe 2: the divisor
#
# Are the scores divided by the correct number?
# A weight is $e$ to the power of raw score / divisor, divided by the sum of its row.
# In the difference of two logarithms of a row the sum cancels:
#
# $$\log w_i - \log w_j = \frac{\text{raw score}_i - \text{raw score}_j}{\text{divisor}}$$
#
# You know the raw scores, so the formula gives the divisor.


# %% divisor-of
def divisor_of(attend, query, key):
    """The divisor, from each key and key 0: (N, L, S - 1)."""
    raw = query @ key.mT
    logs = weights_of(attend, query, key).log()
    return (raw[..., 1:] - raw[..., :1]) / (logs[..., 1:] - logs[..., :1])


for size in (4, 11, 64):
    some_query, some_key = torch.randn(2, N, 5, size, dtype=torch.float64)
    for attend in (attention, patient_b, patient_c):
        found = divisor_of(attend, some_query, some_key)[0, 0, 0]  # of one pair of keys
        print(f"{size:2} features, {attend.__name__}: {found:.3f}")

# %% read-divisors [markdown] above="At 64 features patient"
# With 11 features the divisor should be $\sqrt{11} = 3.317$.
# At 64 features patient C divides by the same number as attention.
# So a test that passes at a single size cannot tell a rule from a constant.

# %% size-of-the-numbers [markdown] below="Patient D writes out"
# ### The size of the numbers
#
# Patient D writes out its softmax,
# but does not subtract the largest score before it takes the exponentials.
# Can our probes see this?


# %% patient-d
def patient_d(query, key, value):
    exponentials = (query @ key.mT / query.shape[-1] ** 0.5).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True) @ value


table = {}
for size in (1, 100):
    for attend in (attention, patient_d):
        total = weights_of(attend, size * query, size * key)[0, 0].sum()
        mean = divisor_of(attend, size * query, size * key)[0, 0].mean()
        table[f"size {size}, {attend.__name__}"] = [total.item(), mean.item()]
pd.DataFrame.from_dict(table, orient="index", columns=["sum of weights", "divisor"])

# %% read-sizes [markdown] above="So in float64 take"
# At size 1 patient D passes both probes.
# At size 100 its exponentials overflow.
# But the divisor of `attention` cannot be read there, because some weights are 0.
# So in float64 take size 1 to see the divisor, and size 100 to see an overflow.

# %% probe-3-the-influence-map-draws-the-mask [markdown] below="A friend replaces the"
# ## Probe 3: the influence map draws the mask
#
# A friend replaces the last of five tokens, and only the last output of her layer moves.
# She replaces the first, and all outputs move.
# Is her layer causal?
# The [influence map](glossary.ipynb#influence-map) of lesson 3 looks at every token:
# where output $i$ does not depend on token $j$, it is exactly 0.


# %% leaky
def leaky(x):
    mask = causal_mask(5)
    mask[0, 3] = mask[1, 2] = mask[2, 3] = True  # three cells above the diagonal
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


tokens = torch.randn(5, 11, dtype=torch.float64)
(influence_map(leaky, tokens) != 0).int()

# %% patient-e-text [markdown] above="For one layer of" below="Patient E is a layer"
# `leaky` has three open cells above the diagonal, and it passes both of her tests.
#
# For one layer of self-attention and tokens of size 1, the influence map draws the mask,
# except on the diagonal.
# Output $j$ can depend on token $j$ even if the mask blocks this pair,
# because query $j$ is made from token $j$ too.
#
# Patient E is a layer, with a training mode and, after `.eval()`, an evaluation mode.


# %% patient-e
class PatientE(torch.nn.Module):
    def __init__(self, E):
        super().__init__()
        self.qkv = torch.nn.Linear(E, 3 * E)

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        causal = self.training  # True after .train(), False after .eval()
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


patient_e = PatientE(11).double()
_, axes = plt.subplots(1, 2, figsize=(5, 2.6), layout="constrained")
modes = {"training mode": patient_e.train, "evaluation mode": patient_e.eval}
for ax, (title, switch) in zip(axes, modes.items(), strict=True):
    plot_mask(influence_map(switch(), tokens) != 0, ax=ax, title=title, legend=False)
    ax.set(xlabel="token", ylabel="output")
show_figure(axes[0], "9.1")

# %% probe-4 [markdown] above="In evaluation mode every"
# In training mode patient E is causal.
# In evaluation mode every token but the last sees the future.
# So draw the map once in each mode, with dropout set to 0.
# The map is a derivative, which stops at `.detach()`, so replace tokens as well.

# %% probe-4-change-what-is-blocked [markdown] below=["The keys and values", "The keys and values"]
# ## Probe 4: change what is blocked
#
# The last two of the seven keys are padding.
# Patient F gives them a weight of 0, but only after the softmax.
# The keys and values of the padding must not matter, so we write 99 into the values first,
# and then into the keys.


# %% patient-f
def patient_f(query, key, value, mask):  # True = may attend
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights * mask) @ value


real = torch.arange(S) < 5  # (S,), False for the padding
value_99 = value.masked_fill(~real[:, None], 99)
key_99 = key.masked_fill(~real[:, None], 99)

# %% ask-padding
predict("09/ninety-nine-in-the-padding")

# %% see-padding
# %%answer 09/ninety-nine-in-the-padding
plain = patient_f(query, key, value, real)
print((patient_f(query, key, value_99, real) - plain).abs().max())
print((patient_f(query, key_99, value, real) - plain).abs().max())
sums = weights_of(lambda q, k, v: patient_f(q, k, v, real), query, key).sum(dim=-1)
print(sums[0])  # of the weights of each query

# %% lost-weight [markdown] above="Only the keys of" answers="09/ninety-nine-in-the-padding"
# Only the keys of the padding move the output of patient F. The softmax divides by a sum that
# includes the padding, which takes weight from the real keys:
# the sums in the last line are below 1.
# So change the keys as well.
# The repair is the one from lesson 3: fill the scores with minus infinity before the softmax.

# %% your-experiment-add-padding [markdown] below="If you put two"
# ### Your experiment: add padding
#
# The mask editor of lesson 3 draws the weights of patient F, and beside each row its sum.
# If you put two or three `<pad>` before the words, the sum of which word changes most?


# %% explore
def patient_f_weights(scores, mask):
    return scores.softmax(dim=-1) * mask


MaskExplorer(function=patient_f_weights, mask="padding", padding=0)

# %% who-loses-most [markdown]
# <details><summary>The answer</summary>
#
# That of “The”.
# Whatever is missing from 1 is the weight that `<pad>` has taken.
# A `<pad>` has a score of 0, and the smaller the other scores are, the more weight it takes.
# </details>

# %% let-the-clinic-do-it [markdown] below="`diagnose` runs many such"
# ## Let the clinic do it
#
# `diagnose` runs many such probes on a function, or on a layer in evaluation mode;
# say `causal=True` if you mean it.
# Paste your own attention into the next cell, or take the function that is there.


# %% your-own
def your_own(query, key, value):
    scores = query @ key.mT / query.shape[-1]
    return scores.softmax(dim=-1) @ value


class MyLayer(torch.nn.Module):  # three heads
    def __init__(self, attend):
        super().__init__()
        self.attend = attend
        self.qkv, self.out = torch.nn.Linear(12, 36), torch.nn.Linear(12, 12)

    def forward(self, x):  # (N, L, 12)
        parts = self.qkv(x).chunk(3, dim=-1)
        query, key, value = (split_heads(part, 3) for part in parts)
        return self.out(merge_heads(self.attend(query, key, value)))


print(diagnose(your_own).summary)
diagnose(MyLayer(your_own))

# %% not-proved [markdown] above="The clinic finds the"
# The clinic finds the same bug in the function and in the layer.
#
# But a report proves nothing about what was not tried.
# For example, the clinic finds nothing wrong with a function that reads only the first ten keys.
# It can also be mistaken, so check a finding yourself before you change your code.

# %% closing [markdown] end="You use random numbers"
# ## So how do you find a bug without a correct version?
#
# You write down what must hold, and you test it:
#
# 1. The weights of each query add up to 1 (A and F fail), with large numbers as well (D fails).
# 2. The divisor is the one that you want, at more than one size (B and C fail).
# 3. In both modes, the influence map draws the mask that you want (E fails).
# 4. What the padding contains moves no output of a real token (F fails).
#
# You use random numbers and unequal sizes, and you make sure that each test can fail.

# %% further [markdown]
# ## Further
#
# ### Say what you mean
#
# Options tell `diagnose` what you mean.
# It also reads names and docstrings, but does not understand all of them.
# The next function is correct, but in its mask True means *blocked*, as in `nn.MultiheadAttention`.


# %% mine
def mine(query, key, value, mask):
    scores = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(mask, -torch.inf)
    return scores.softmax(dim=-1) @ value


print(diagnose(mine).ok, diagnose(mine, mask="blocked").ok)
diagnose(mine)

# %% options [markdown]
# The report asks what True means in the mask.
# The first outcome is None, because this is open.
# `mask="blocked"` answers, and then nothing is wrong: True.
# A finding would give False.
#
# Some options:
#
# | your code | your option |
# |---|---|
# | In its mask, True means blocked. | `mask="blocked"` |
# | Its mask is added to the scores and contains 0 or $-\infty$. | `mask="additive"` |
# | No query is meant to see a later key. | `causal=True` |
# | It is a layer that takes query, key and value, and you always pass the same tokens for all three. | `self_attention=True` |
# | It has to be called in a special way. | `call=adapter` |
# | A finding is what you want. (The language model T5 leaves out the divisor on purpose.) | `meant={"scale-missing"}` |

# %% two-more [markdown]
# ### Two more probes, and a table
#
# **Alone or in a batch?**
# The sequences of a batch must not influence each other.
# So give the function one sequence by itself,
# and compare the result with what it returns for the same sequence in the batch.
#
# **Do the outputs follow the queries?**
# If you shuffle the queries, the outputs must be shuffled in the same way.
# This holds for functions without positions and without a mask that differs from query to query.
#
# Let us turn five probes that need no mask into functions,
# and try them on two more patients as well.


# %% probes
def shape(attend):
    return attend(query, key, value).shape == (N, L, Ev)


def row_sums(attend):
    sums = weights_of(attend, query, key).sum(dim=-1)
    return torch.allclose(sums, torch.ones_like(sums))


def divisor(attend):
    used = divisor_of(attend, query, key)
    return torch.allclose(used, torch.full_like(used, E**0.5))


def alone(attend):
    first = attend(query[:1], key[:1], value[:1])
    return torch.allclose(first, attend(query, key, value)[:1])


def order(attend):
    shuffle = torch.tensor([4, 2, 0, 3, 1])
    shuffled = attend(query[:, shuffle], key, value)
    return torch.allclose(shuffled, attend(query, key, value)[:, shuffle])


# %% all-probes
def patient_g(query, key, value):
    output = attention(query, key, value)
    return output.mT.reshape(output.shape)  # a transpose too many, then a reshape


def patient_h(query, key, value):  # joins the batch into one long sequence
    joined = (t.reshape(1, -1, t.shape[-1]) for t in (query, key, value))
    return attention(*joined).view(*query.shape[:-1], value.shape[-1])


probes = [shape, row_sums, divisor, alone, order]
tried = [attention, patient_a, patient_b, patient_c, patient_g, patient_h]
results = {f.__name__: {p.__name__: p(f) for p in probes} for f in tried}
pd.DataFrame(results).replace({True: "passes", False: "fails"}).T

# %% who-fails [markdown]
# The shape test catches none of the patients,
# and at 11 features the divisor probe catches all five.
# But the divisor is the bug only in B and C. A, G and H fail other probes as well.

# %% remember [markdown] end=["A probe tests a", "Do not trust a", "A finding can be"]
# ## What to remember
#
# - A probe tests a property that your attention is meant to have.
#   It needs no correct version.
# - A correct shape says nothing about the numbers.
#   Axes of equal length, a single length, or numbers of a single magnitude can hide a bug.
#   Do not trust a test until you have seen it fail on the bug that you fear.
# - If value $j$ is 1 in feature $j$ and 0 elsewhere, the output shows the weights.
#   The differences of their logarithms reveal the divisor.
# - Draw the influence map in training mode and in evaluation mode.
#   For one layer and tokens of size 1, it is the mask off the diagonal.
#   Change the keys of the padding as well as its values.
# - A finding can be wrong, and “nothing wrong found” is a statement only about what was tried.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %%
from attnlab.exercises import check_disguise, check_hiding_sizes
from attnlab.exercises import check_learning_probe, check_mended_mask

# %% exercise-1 [markdown]
# ### 1 · Find the bug ★ (5 minutes)
#
# Patient X has a bug.
# Yet there are sizes for which no test can show it.
# Find the bug by reading the code, and return such sizes, each at least 2.
#
# <details><summary>Hint</summary>
#
# In a batch, which of the five sizes is <code>shape[1]</code> of the key,
# and which one should be used instead?
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


# %% tags=["solution"]
def sizes_that_hide_it_solution():
    return 2, 5, 11, 11, 3  # as many keys as features


check_hiding_sizes(sizes_that_hide_it_solution)

# %% exercise-2 [markdown]
# ### 2 · Repair ★ (8 minutes)
#
# `two_bugs` has two bugs.
# Write a corrected version, `mended`.
# The check uses `diagnose`.
#
# <details><summary>Hint</summary>
#
# For probe 2, turn it into a function of three arguments that blocks nothing:
# <code>lambda q, k, v: two_bugs(q, k, v, torch.ones(L, S).bool())</code>.
# For probe 4, pass <code>real</code> as the mask, as we did for patient F.
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


# %% tags=["solution"]
def mended_solution(query, key, value, mask):
    scores = query @ key.mT / query.shape[-1] ** 0.5  # the square root
    scores = scores.masked_fill(~mask, -torch.inf)  # a score of 0 blocks nothing
    return scores.softmax(dim=-1) @ value


check_mended_mask(mended_solution)

# %% exercise-3 [markdown]
# ### 3 · Write a probe ★★ (10 minutes)
#
# `frozen_weights` and `frozen_query` return correct numbers and would pass all the probes of this
# lesson.
# Still, a part of the model gets no gradient through them.
# Write a probe that returns True for correct functions.
# It should return False for these two, and for any other function through which the query,
# the key or the value gets no gradient, or a gradient of nothing but zeros.
# The check tries it on more functions of both kinds.
#
# <details><summary>Hint</summary>
#
# What does training need from a function besides its output?
# Give it fresh copies, <code>t.detach().clone().requires_grad_()</code>,
# and look at <em>all three</em> gradients after <code>backward()</code>.
# Can <code>backward()</code> run if the output has no gradient at all?
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


# %% tags=["solution"]
def learning_probe_solution(attend):
    leaves = [t.detach().clone().requires_grad_() for t in (query, key, value)]
    output = attend(*leaves)
    if not output.requires_grad:  # no gradient reaches any of the three
        return False
    output.square().sum().backward()
    return all(leaf.grad is not None and leaf.grad.abs().max() > 0 for leaf in leaves)


check_learning_probe(learning_probe_solution)

# %% exercise-4 [markdown]
# ### 4 · Fool a test ★★ (12 minutes)
#
# `weak_check` compares the output of a function with the correct one, on random numbers.
# Write a wrong attention function that passes it and that `diagnose` catches.
# Its bug must not be that of patient C or D.
#
# <details><summary>Hint</summary>
#
# How many sizes does the check try, and which?
# How many sequences?
# Does it look at its inputs afterwards?
# </details>


# %% weak
def weak_check(attend):
    torch.manual_seed(0)
    inputs = torch.randn(3, 1, 10, 64)  # query, key, value: one sequence
    return torch.allclose(attention(*inputs), attend(*inputs), atol=1e-5)


# %% tags=["exercise"]
def disguised(query, key, value):
    """A wrong function that passes weak_check."""


# %%
check_disguise(disguised)


# %% tags=["solution"]
def disguised_solution(query, key, value):
    divisor = (6.4 * key.shape[-2]) ** 0.5  # 8 for ten keys, whatever the features
    return (query @ key.mT / divisor).softmax(dim=-1) @ value


check_disguise(disguised_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: “I ran `diagnose` on my attention layer, and it found no bug.
# So my layer is correct.”
# Answer in two sentences, and name one thing to look at in the report.
# Then compare your answer with ours.
#
# <details><summary>An answer</summary>
#
# Look at what the report says was not tried, such as training mode.
# No property in its list failed at the sizes and numbers that were tried,
# which says nothing about other properties, sizes and numbers.
# </details>

# %% in-torch [markdown]
# ## In torch
#
# `torch.testing.assert_close` compares your output with that of a correct version,
# and `torch.autograd.gradcheck` compares gradients with finite differences.
# `F.scaled_dot_product_attention` can serve as the correct version if yours computes the same
# thing.
# In its Boolean mask, True means *may attend*,
# whereas in `nn.MultiheadAttention` it means *blocked*.
# The function itself returns no weights, but probe 1 recovers them.

# %% sources [markdown]
# ## Sources
#
# - Neuromatch Academy,
#   [Deep Learning, W2D5, tutorial 1](https://github.com/NeuromatchAcademy/course-content-dl/blob/main/tutorials/W2D5_AttentionAndTransformers/W2D5_Tutorial1.ipynb),
#   coding exercise 2: the check with large whole numbers (licence CC BY).
# - PyTorch,
#   [tutorial on scaled dot product attention](https://github.com/pytorch/tutorials/blob/main/intermediate_source/scaled_dot_product_attention_tutorial.py):
#   causality tied to training, as in patient E. The same happened in
#   [Kronos, issue 199](https://github.com/shiyu-coder/Kronos/issues/199).
# - [xformers, issue 522](https://github.com/facebookresearch/xformers/issues/522):
#   T5 folds the divisor into its initialisation.
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017:
#   heads with 64 features.

# %% next [markdown]
# ## Next
#
# Lesson 10, [One real attention layer](10_one_real_attention_layer.ipynb)

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 44 minutes, and where a class stalls</summary>
#
# **44 minutes.**
# The stored numbers: 6.
# Probes 1 and 2, and the size of the numbers: 13.
# Probes 3 and 4, with the explorer: 17.
# The clinic, your own function and layer, and what a report does not prove: 8.
# Set “Further” as homework.
#
# **Where a class stalls.**
# *The logarithm of probe 2:* let the class take the logarithms of one row of weights by hand and
# subtract one from another.
# The sum in the softmax cancels.
# *“But it passes”:* let everyone write a wrong function that passes.
# *Training and evaluation mode:* ask where `.eval()` is called in code that the students know.
# *“The program says OK”:* ask what the program has tried.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# The output has the correct shape.
# What does that show?
# **Nothing about the numbers.**
# *The sequences stay apart:* a batch that is joined into one text has the same shape.
# *The softmax runs over the correct axis:* patient A has the correct shape too.
#
# **2.**
# All rows of weights add up to 1.
# What follows?
# **Other bugs may remain.**
# *The divisor is correct:* patient B passes.
# *The causal mask works:* a leaking function passes too.
#
# **3.**
# A function is meant to be causal.
# With dropout switched off, you replace the last token of a sequence, and all outputs move.
# What does this show?
# **It leaks.**
# *That is normal* is true without a mask.
# *Only the last token may look ahead:* nothing comes after it.
#
# **4.**
# If you write 99 into the blocked keys, the output moves; if you write it into the blocked values,
# it does not.
# What is wrong?
# **The weights are set to zero after the softmax.**
# *The mask is inverted* and *there is no mask:* then the values would move it as well.
#
# **5.**
# `diagnose` finds nothing wrong.
# What does this tell you?
# **No property that it tried has failed.**
# *It is correct at every size:* the clinic tries only a few.
# *It does what I want:* the clinic cannot know that.
# </details>
