# %% 9-the-attention-clinic-the-right-shape-proves-nothin [markdown]
# # 9 · The attention clinic: the right shape proves nothing
#
# A wrong attention function runs without an error, returns the right shape and sometimes even learns its task.
# Seven short probes tell what is wrong, each by changing one thing and watching what moves.
#
# **You need:** lessons 1 and 2; masks (lesson 3) and heads (lesson 7) help.
#
# **You will be able to:** test attention without a right version at hand, name a bug from what moves, tell a test that can fail
# from one that cannot, read a report of `diagnose`.
#
# **Time:** 60 minutes in class, 100 minutes alone.

# %%
import copy
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from IPython.display import Markdown, display

from attnlab import MultiHeadAttention, influence_map, merge_heads, split_heads
from attnlab import scaled_dot_product_attention as right
from attnlab.clinic import diagnose, record
from attnlab.clinic.broken import BROKEN
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import check_disguise, check_hiding_sizes
from attnlab.exercises import check_learning_probe, check_mended_mask, predict
from attnlab.explorers import YourAttentionExplorer
from attnlab.live import live
from attnlab.plotting import plot_attention

lesson_setup()

# %% [markdown]
# ## A test that cannot fail is no test
#
# On this ward every function runs, and every function returns the right shape. Our inputs have five different sizes, so
# that an axis taken for another has a chance to show: $N = 2$ sequences, $L = 5$ queries, $S = 7$ keys,
# $E = 11$ features, values $E_v = 3$ wide.
#
# Patient zero gives no attention at all, and passes a common test.

# %%
N, L, S, E, Ev = 2, 5, 7, 11, 3
query, key, value = torch.randn(N, L, E), torch.randn(N, S, E), torch.randn(N, S, Ev)


def patient_zero(query, key, value):
    return torch.zeros(*query.shape[:-1], value.shape[-1])


assert patient_zero(query, key, value).shape == (N, L, Ev)
right(query, key, value).shape

# %% [markdown]
# Where a right version exists, compare with it, on random numbers and unequal sizes: that shows *that* something is
# wrong. Often there is none, and a difference does not say *what* is wrong. A [**probe**](glossary.ipynb#probe) tests a property that attention
# must have.
#
# ## Probe 1: values that hand over the weights
#
# An output row is a weighted sum of value rows. Let value $j$ be 1 at place $j$ and 0 elsewhere. Then entry $j$ of the
# output **is** weight $j$.


# %%
def weights_of(attend, query, key):
    """Weights (N, L, S) of a function that returns the output only."""
    S = key.shape[-2]
    return attend(query, key, torch.eye(S).expand(len(key), S, S))


def patient_a(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.softmax(dim=1) @ value


patient_a(query, key, value).shape

# %%
predict("09/mean-5-row-sums-sequence")

# %%
# %%answer 09/mean-5-row-sums-sequence
sums = weights_of(patient_a, query, key).sum(dim=-1)  # (N, L)
assert torch.allclose(sums.mean(), torch.tensor(7 / 5))
square = weights_of(patient_a, key, key).sum(dim=-1)  # as many queries as keys
assert square.mean().isclose(torch.tensor(1.0)) and (square - 1).abs().max() > 0.1
sums[0], sums.mean()


# %%
def mended_a(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1) @ value  # the repair: over the keys


assert torch.allclose(weights_of(mended_a, query, key).sum(dim=-1), torch.ones(N, L))
assert torch.allclose(mended_a(query, key, value), right(query, key, value), atol=1e-6)

# %% [markdown]
# ## Probe 2: the scale law
#
# Patient B comes with a certificate. It passed a check that compares its output with stored right numbers.
# The inputs are large whole numbers, here counting up from 1.


# %%
def patient_b(query, key, value):
    scores = query @ key.transpose(-2, -1)
    return scores.softmax(dim=-1) @ value


counting = torch.arange(1.0, 31.0).view(1, 5, 6)
counting[0]

# %%
predict("09/these-inputs-query-key-value")

# %%
# %%answer 09/these-inputs-query-key-value
gap = patient_b(counting, counting, counting) - right(counting, counting, counting)
raw = counting[0] @ counting[0].T
picked = counting[0][raw.argmax(dim=-1)]  # no softmax at all
assert torch.equal(picked, right(counting, counting, counting)[0])
best, second = raw.topk(2, dim=-1).values.unbind(dim=-1)
lead = (best - second).min()  # of the best score in its row
gap.abs().max(), lead, lead / math.sqrt(6)

# %% [markdown]
# The probe: softmax turns scores into weights, and the logarithm turns them back, up to a constant for each row. Differences
# within a row know no constant: those of raw scores must be $\sqrt{E}$ times those of logarithms. So we subtract the row's mean
# from both and fit the factor: the number by which the function divides.


# %%
def divisor_of(attend, query, key):
    """The number by which the raw scores are divided before the softmax."""
    raw = query @ key.transpose(-2, -1)
    logs = weights_of(attend, query, key).log()
    raw, logs = (t - t.mean(dim=-1, keepdim=True) for t in (raw, logs))
    return (raw * raw).sum() / (raw * logs).sum()  # least squares: logs = raw / divisor


divisor_of(patient_b, query, key), divisor_of(right, query, key), torch.tensor(E).sqrt()

# %% [markdown]
# Patient B divides by 1.000 instead of 3.317. Is one size enough? The original paper has 64 features in a head. Whoever
# copies its 8 divides by a number, not by a root.


# %%
def patient_eight(query, key, value):
    return (query @ key.transpose(-2, -1) / 8).softmax(dim=-1) @ value


for E_tried in (4, 16, 64):
    pair = torch.randn(N, L, E_tried), torch.randn(N, S, E_tried)
    divisors = [divisor_of(f, *pair) for f in (right, patient_b, patient_eight)]
    print(E_tried, "features:", *(f"{divisor:8.3f}" for divisor in divisors))
assert math.isclose(divisors[0], divisors[2], rel_tol=1e-3)  # the last: E = 64

# %% [markdown]
# With 64 features the third function is right. A test at a single size cannot tell a law from a number.
#
# ## Probe 3: the leak test
#
# A **causal** function lets a token see itself and what came before. Patient C builds a table that is True at the places to
# block, and hands it to torch's function.


# %%
def patient_c(query, key, value):
    later = query.new_ones(query.shape[-2], key.shape[-2]).triu(diagonal=1).bool()
    return F.scaled_dot_product_attention(query, key, value, attn_mask=later)


def leak_test(function, x):
    """(L,): True for the outputs that move when the last token of x (L, E) changes."""
    changed = x.clone()
    changed[-1] += 1
    return ((function(changed) - function(x)).abs() > 1e-6).any(dim=-1)


# %%
predict("09/outputs-patient-c-move")

# %%
# %%answer 09/outputs-patient-c-move
x = torch.randn(L, E)
moved = leak_test(lambda x: patient_c(x, x, x), x)
assert moved.tolist() == [True] * 4 + [False] and (patient_c(x, x, x)[-1] == 0).all()
moved


# %%
def mended_c(query, key, value):
    later = query.new_ones(query.shape[-2], key.shape[-2]).triu(diagonal=1).bool()
    return F.scaled_dot_product_attention(query, key, value, attn_mask=~later)


assert leak_test(lambda x: mended_c(x, x, x), x).tolist() == [False] * 4 + [True]

# %% [markdown]
# No leak from the last token: only the last output moves. (The earlier ones can be changed in turn.)
#
# A leak test needs one more turn. Patient D is a layer, and layers have two modes: `.train()`, and `.eval()` for use.


# %%
class PatientD(torch.nn.Module):
    def __init__(self, embed_dim):
        super().__init__()
        self.qkv = torch.nn.Linear(embed_dim, 3 * embed_dim)

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        causal = self.training
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


# %%
predict("09/after-eval-many-5-outputs")

# %%
# %%answer 09/after-eval-many-5-outputs
layer = PatientD(E)
in_training, in_use = leak_test(layer.train(), x), leak_test(layer.eval(), x)
assert in_training.sum() == 1 and in_use.all()
in_training, in_use

# %% [markdown]
# The repair: `is_causal=True` in both modes. PyTorch's own tutorial on this function, in the version we read, ties causality to training.
#
# ## Probe 4: change what is blocked
#
# Two of seven keys are padding. Patient E gives them the weight 0, after the softmax. Any finite number in
# blocked places must not matter, so we write 99 there.


# %%
def patient_e(query, key, value, mask):
    """mask: True = may attend."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return (scores.softmax(dim=-1) * mask) @ value


mask = torch.tensor([True] * 5 + [False] * 2)  # (S,)


def padded_with_99(t):
    return torch.where(mask[:, None], t, 99.0)


# %%
predict("09/moves-output-patient-e")

# %%
# %%answer 09/moves-output-patient-e
plain = patient_e(query, key, value, mask)
by_value = patient_e(query, key, padded_with_99(value), mask) - plain
by_key = patient_e(query, padded_with_99(key), value, mask) - plain
assert by_value.abs().max() == 0 and by_key.abs().max() > 0.1
sums = weights_of(lambda q, k, v: patient_e(q, k, v, mask), query, key).sum(dim=-1)
by_value.abs().max(), by_key.abs().max(), sums[0]


# %%
def mended_e(query, key, value, mask):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, -torch.inf)  # the repair: before the softmax
    return scores.softmax(dim=-1) @ value


plain = mended_e(query, key, value, mask)
assert torch.equal(mended_e(query, key, padded_with_99(value), mask), plain)
assert torch.equal(mended_e(query, padded_with_99(key), value, mask), plain)

# %% [markdown]
# ## Probe 5: who moves whom
#
# Several attentions may run side by side, each on its own part of the features: **heads** (lesson 7). To split, the features
# of each token are cut, and then the heads moved to the front. The next two functions get the shapes right in one step.


# %%
def split_by_reshape(x, num_heads):  # (N, L, E) -> (N, H, L, d)
    N, L, E = x.shape
    return x.reshape(N, num_heads, L, E // num_heads)


def merge_by_reshape(x):  # (N, H, L, d) -> (N, L, E)
    N, H, L, d = x.shape
    return x.reshape(N, L, H * d)


def in_three_heads(x, split, merge):
    heads = split(x, 3)
    return merge(right(heads, heads, heads))


# %%
predict("09/two-tests-courses-use-merge")

# %%
# %%answer 09/two-tests-courses-use-merge
x = torch.randn(1, 6, 12)
assert torch.equal(merge_by_reshape(split_by_reshape(x, 3)), x)
assert torch.equal(split_by_reshape(x, 3)[0, 0].flatten(), x[0, :2].flatten())
ones = torch.ones(1, 6, 12)
wrong = in_three_heads(ones, split_by_reshape, merge_by_reshape)
(wrong - in_three_heads(ones, split_heads, merge_heads)).abs().max()

# %% [markdown]
# The probe: move each input token a little, and measure how far each output token moves. `influence_map` does it
# with derivatives: row $i$, column $j$ holds how strongly token $j$ moves output $i$. We show shares, so that each row sums to 1.
#
# A third variant cuts the features but never moves the heads to the front, so that heads attend to heads within one token.

# %%
cases = {
    "right": (split_heads, merge_heads),
    "both by reshape": (split_by_reshape, merge_by_reshape),
    "heads not moved": (lambda x, h: x.unflatten(-1, (h, -1)), lambda x: x.flatten(-2)),
}
fig, axes = plt.subplots(1, 3, figsize=(8.4, 3.3), layout="constrained", sharey=True)
shares = []
for ax, (name, pair) in zip(axes, cases.items(), strict=True):
    moved = influence_map(lambda x, pair=pair: in_three_heads(x[None], *pair)[0], x[0])
    shares.append(moved / moved.sum(dim=-1, keepdim=True))
    plot_attention(shares[-1], ax=ax, title=name)
    ax.set(xlabel="input token", ylabel="output token" if ax is axes[0] else "")
assert (shares[0] > 0).all()
blocks = torch.block_diag(*[torch.ones(2, 2)] * 3) == 1
assert torch.equal(shares[1] > 0, blocks) and torch.equal(shares[2], torch.eye(6))
show_figure(fig, "9.1")

# %% [markdown]
# ### It even learns
#
# "The loss goes down, so it is right." A small network with four heads has to write six digits backwards. We train it twice:
# with the right merge, and with a right split and the merge by reshape, which scrambles the rows.


# %%
class Reverser(torch.nn.Module):
    def __init__(self, merge):
        super().__init__()
        self.merge = merge
        self.digit = torch.nn.Embedding(10, 32)
        self.place = torch.nn.Parameter(0.5 * torch.randn(6, 32))
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 10)

    def forward(self, digits):
        qkv = self.qkv(self.digit(digits) + self.place).chunk(3, dim=-1)
        return self.out(self.merge(right(*(split_heads(part, 4) for part in qkv))))


# %%
for merge in (merge_heads, merge_by_reshape):
    torch.manual_seed(0)
    model = Reverser(merge)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        digits = torch.randint(10, (64, 6))
        loss = F.cross_entropy(model(digits).transpose(1, 2), digits.flip(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    digits = torch.randint(10, (500, 6))
    accuracy = (model(digits).argmax(dim=-1) == digits.flip(1)).float().mean()
    assert accuracy > 0.99
    print(f"{merge.__name__:17} {accuracy:.1%} of new digits right")

# %% [markdown]
# The weights around the bug learn to live with it, for six digits at least: texts of another length would be scrambled
# in another way. A falling loss proves little.
#
# ## Probe 6: alone or in a batch
#
# Sequences of a batch have nothing to say to each other. We give `nn.MultiheadAttention`, with its default options, a
# batch of 4 sequences of 6 tokens, and then change sequence 0.

# %%
predict("09/four-outputs-move")

# %%
# %%answer 09/four-outputs-move
torch.manual_seed(0)
batch = torch.randn(4, 6, 12)
changed = batch.clone()
changed[0] += 1
for batch_first in (False, True):
    layer = torch.nn.MultiheadAttention(12, 3, batch_first=batch_first)
    before, after = (layer(x, x, x)[0] for x in (batch, changed))
    moved = ((after - before).abs() > 1e-6).any(dim=-1).any(dim=-1)  # (4,)
    print(f"{batch_first=}", moved.tolist())
assert moved.tolist() == [True] + [False] * 3

# %% probe-7-shuffle [markdown]
# The repair is one word: `batch_first=True`.
#
# ## Probe 7: shuffle
#
# Without a mask and without positions, attention knows no order. Shuffle the queries, and the outputs must follow in the same order. Patient F computes
# the transposed output, and reshapes it where a transpose is needed (`.mT`, of the last two axes).


# %%
def patient_f(query, key, value):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)
    columns = value.mT @ weights.mT  # (N, Ev, L)
    return columns.reshape(*query.shape[:-1], value.shape[-1])


order = torch.tensor([4, 2, 0, 3, 1])
follows = patient_f(query, key, value)[:, order]
averages = patient_f(query, key, torch.ones(N, S, 1))  # rows of weights, summed
assert torch.allclose(averages, torch.ones(N, L, 1))
(patient_f(query[:, order], key, value) - follows).abs().max()

# %% [markdown]
# The outputs do not follow. Values of ones would hand over the row sums, but a table of ones is still ones after any
# reshape: that check is blind to F. The repair: `.mT` instead of `reshape`.


# %%
def mended_f(query, key, value):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)
    return (value.mT @ weights.mT).mT


follows = mended_f(query, key, value)[:, order]
assert torch.allclose(mended_f(query[:, order], key, value), follows, atol=1e-6)

# %% [markdown]
# ## The ward's chart
#
# The shape check and four probes, one line each, against six patients. The new one, G, joins the batch into one long text. The table is
# computed: "first" marks the first probe that fails, "also" the later ones.


# %%
def patient_g(query, key, value):
    flat = (t.reshape(1, -1, t.shape[-1]) for t in (query, key, value))
    return right(*flat).view(*query.shape[:-1], value.shape[-1])


def same(a, b):
    return a.shape == b.shape and torch.allclose(a, b, atol=1e-4)


qkv = query, key, value
probes = {
    "shape": lambda f: f(*qkv).shape == (N, L, Ev),
    "shuffle": lambda f: same(f(query[:, order], key, value), f(*qkv)[:, order]),
    "batch": lambda f: same(f(query[:1], key[:1], value[:1]), f(*qkv)[:1]),
    "row sums": lambda f: same(weights_of(f, query, key).sum(dim=-1), torch.ones(N, L)),
    "scale law": lambda f: same(divisor_of(f, query, key), torch.tensor(E**0.5)),
}

# %%
lines = [f"| | {' | '.join(probes)} |", "|---" * 6 + "|"]
ill = [patient_zero, patient_a, patient_b, patient_eight, patient_f, patient_g]
for attend in [right, *ill]:
    failed = [name for name, passes in probes.items() if not passes(attend)]
    assert bool(failed) == (attend is not right) and "shape" not in failed
    marks = dict.fromkeys(failed, "also") | dict.fromkeys(failed[:1], "**first**")
    row = " | ".join(marks.get(name, "") for name in probes)
    name = "right" if attend is right else attend.__name__
    lines.append(f"| {name} | {row} |")
display(Markdown("\n".join(lines)))

# %% [markdown]
# The shape sees no one. The scale law notices all six and explains two: where the weights are no softmax of scores, its
# divisor means nothing. Here the first probe that fails is the place to start; later ones may be echoes. For a leak or a
# mask this chart has no column at all.
#
# ### Your experiment
#
# Choose a patient and a probe. Which pictures look healthy although the patient is ill?

# %%
torch.manual_seed(0)
tokens, others = torch.randn(3, L, E), torch.randn(3, S, E)  # three sequences each


def draw_weights(ax, attend):
    weights = weights_of(attend, tokens, others)[0]
    labels = [f"sum {total:.2f}" for total in weights.sum(dim=-1)]
    plot_attention(weights, ax=ax, queries=labels)


def draw_scale_law(ax, attend):
    raw = (tokens @ others.mT)[0]
    logs = weights_of(attend, tokens, others)[0].log()
    raw, logs = (t - t[:, -1:] for t in (raw, logs))  # against the last key
    ax.plot(raw.flatten(), logs.flatten(), "o", color="#0b61a4", alpha=0.6)
    ax.plot([-15, 15], [-15 / E**0.5, 15 / E**0.5], "--", color="#c8500a")
    ax.set(xlim=(-15, 15), ylim=(-15, 15), xlabel="raw score, difference")
    ax.set_ylabel("log weight, difference")


# %%
def draw_influence(ax, attend, what):
    x = tokens[0] if what == "token" else tokens.flatten(1)
    shape = (1, L, E) if what == "token" else tokens.shape
    moved = influence_map(lambda x: attend(*[x.view(shape)] * 3).reshape(len(x), -1), x)
    plot_attention(moved / moved.sum(dim=-1, keepdim=True).clamp(min=1e-9), ax=ax)
    ax.set(xlabel=f"input {what}", ylabel=f"output {what}")


draws = {
    "weights": draw_weights,
    "scale law": draw_scale_law,
    "tokens": lambda ax, attend: draw_influence(ax, attend, "token"),
    "batch": lambda ax, attend: draw_influence(ax, attend, "sequence"),
}
ward = dict(A=patient_a, B=patient_b, C=patient_c, F=patient_f, G=patient_g)
reports = {name: diagnose(attend) for name, attend in ward.items()}
assert same(patient_g(*[tokens[:1]] * 3), right(*[tokens[:1]] * 3))  # one sequence


# %%
def draw(fig, patient, probe):
    pair = {f"patient {patient}": ward[patient], "right": right}
    for ax, (name, attend) in zip(fig.subplots(1, 2), pair.items(), strict=True):
        draws[probe](ax, attend)
        ax.set_title(f"{name}: {probe}")
    return f"The clinic on patient {patient}: {reports[patient].summary}"


live(
    draw,
    patient=list(ward),
    probe=list(draws),
    figsize=(8.0, 3.2),
    alt="What a probe shows of a patient, and beside it what it shows of right "
    "attention.",
)

# %% [markdown]
# Patient G shows two pictures that pass: its weights sum to 1, and while it is alone in the batch its tokens move each other as they should.
#
# ## Let the clinic do it
#
# `diagnose` runs most of these probes and others, and puts the cause first.

# %%
report = diagnose(patient_b)
assert report.findings[0].name == "scale-missing"
report

# %% [markdown]
# Read it from above. The headline names the [**finding**](glossary.ipynb#finding), the sentence says it in words. The **evidence** is a small table that
# shows it: a factor that does not change where $1/\sqrt{d_k}$ does; $d_k$ is the number of features, our $E$. Then the
# repair, and the lesson. (The factor is one over our divisor.) At the end stands **what holds**, folded: where you need not look.
#
# A right function gets a list of what was checked.

# %%
report = diagnose(torch.nn.MultiheadAttention(12, 3, batch_first=True))
assert report.ok and diagnose(right).ok
report

# %% [markdown]
# Note the words: nothing wrong *found*. "Good to know" is no bug: what a row without any allowed key gives differs
# between libraries (below, under Further).
#
# ### Your function, drawn and checked
#
# Patient E draws the weights here, and beside them stands what the clinic checked. Make a word padding and read the row sums; then
# put a function of your own in its place, of query, key and value, with or without a mask.

# %%
YourAttentionExplorer(patient_e)

# %% [markdown]
# ### Who tests the tester?
#
# Whoever names bugs must be tested with bugs. The clinic has a catalogue of broken and of right implementations, many of them met in public
# code. It was mended until it did well here, so expect less on code of your own.

# %%
marks = record()
misnamed = [one.case.name for one in marks.broken if not one.named]
assert len(BROKEN) == marks.found and marks.accused == 0
assert marks.named >= 0.95 * len(BROKEN)
print(marks)
print("found, but under another name:", ", ".join(misnamed) or "none")

# %% [markdown]
# ### What no clinic can tell
#
# A probe sees behaviour, at the sizes and numbers that it tries. The next patient forgets its scale from a thousand keys on.


# %%
def patient_long(query, key, value):
    divisor = math.sqrt(query.shape[-1]) if key.shape[-2] < 1000 else 1.0
    return (query @ key.mT / divisor).softmax(dim=-1) @ value


torch.manual_seed(0)
many = torch.randn(1, 1000, E)
gap = patient_long(query[:1], many, many) - right(query[:1], many, many)
assert gap.abs().max() > 0.1
print("found nothing:", diagnose(patient_long).ok)
gap.abs().max()

# %% [markdown]
# Nor can it know what you meant. The language model T5 leaves the scale out on purpose, and makes up for it in its starting weights. Called
# on an unscaled function, `diagnose` says what it said of patient B. Whether a property is wanted is your decision.
#
# And some differences leave no trace in the behaviour.
#
# ## Further: three short visits
#
# ### Heads without names
#
# In any layer, number the heads backwards and move their weights along. Which head is called 0?

# %%
torch.manual_seed(0)
layer = MultiHeadAttention(12, 3)
twin = copy.deepcopy(layer)
backwards = torch.arange(12).view(3, 4).flip(0).flatten()  # 8 to 11, 4 to 7, 0 to 3
with torch.no_grad():
    for linear in (twin.q_proj, twin.k_proj, twin.v_proj):
        linear.weight.copy_(linear.weight[backwards])
        linear.bias.copy_(linear.bias[backwards])
    twin.out_proj.weight.copy_(twin.out_proj.weight[:, backwards])
assert torch.allclose(layer(batch).output, twin(batch).output, atol=1e-6)
assert torch.equal(layer(batch).weights.flip(1), twin(batch).weights)

# %% [markdown]
# Same outputs, other order. Nobody can tell from outside, and nothing is wrong, until weights are copied between two programs
# that count differently.
#
# ### A row that may look at nothing
#
# The first query has no allowed key. Three ways to block, three answers.

# %%
allowed = torch.ones(L, S, dtype=torch.bool)
allowed[0] = False
scores = (query @ key.mT / math.sqrt(E))[0]
infinite = scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)
finite = scores.masked_fill(~allowed, -1e9).softmax(dim=-1)
fused = F.scaled_dot_product_attention(*qkv, attn_mask=allowed)[0]
assert infinite[0].isnan().all() and torch.allclose(finite[0], torch.full((S,), 1 / S))
assert (fused[0] == 0).all()
assert diagnose(mended_e).ok and not diagnose(mended_e, strict=True).ok
infinite[0], finite[0], fused[0]

# %% [markdown]
# NaN, which spreads through the next layer; an average over exactly what was to be hidden; or 0, attnlab's choice and the fused
# function's. The clinic reports it as good to know; with `strict=True` anything but 0 is a finding.
#
# ### Two bad manners
#
# The numbers are right, and yet: does the caller's tensor survive, and does double precision stay double?


# %%
def patient_rude(query, key, value):
    query /= math.sqrt(query.shape[-1])  # changes the caller's tensor
    weights = (query @ key.mT).float().softmax(dim=-1)  # forgets float64
    return weights @ value.float()


precise = [t.double() for t in qkv]
first, second = patient_rude(*precise), patient_rude(*precise)
print("same call, same result:", torch.allclose(first, second), first.dtype)
print("findings:", ", ".join(found.name for found in diagnose(patient_rude).findings))

# %% [markdown]
# ## What to remember
#
# - The right shape proves nothing; nor do inputs of ones, a round trip, or a falling loss.
# - Before you trust a test, give it something broken. A test that cannot fail is no test.
# - Unequal sizes, random numbers, more than one $d_k$, both modes of a layer.
# - Change one thing, watch what moves: the last token, a blocked key, another sequence, the order.
# - Values that are unit vectors hand over the weights of any function that averages values.
# - "Nothing found" is a statement about what was tried.

# %% [markdown]
# ## Exercises
#
# Write your answer in the cell below a task, run it, and then run the check after it. Click the dots to open a solution.
#
# ### 1 · Find the bug ★ (5 minutes)
#
# Patient X is ill. Yet there are sizes at which no test in the world can show it. Find the bug by reading, and return
# such sizes, each at least 2.
#
# <details><summary>Hint</summary>In a batch, which of the five sizes is <code>shape[1]</code> of the key, and which one should stand
# there?</details>


# %%
def patient_x(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[1])
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

# %% 2-repair-8-minutes [markdown]
# ### 2 · Repair ★ (8 minutes)
#
# `two_bugs` has two. Write `mended` without them. The check asks `diagnose`.
#
# <details><summary>Hint</summary>By which number does it divide? And what is <em>e</em> to the power of a score of 0? If you are stuck,
# run <code>diagnose(two_bugs)</code>.</details>


# %% tags=["exercise"]
def two_bugs(query, key, value, mask):
    scores = query @ key.transpose(-2, -1) / query.shape[-1]
    scores = scores * mask  # True = may attend
    return scores.softmax(dim=-1) @ value


def mended(query, key, value, mask):
    """(N, L, E), (N, S, E), (N, S, Ev), mask (N, L, S), True = may attend -> output."""


# %%
check_mended_mask(mended)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_solution(query, key, value, mask):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # the root
    scores = scores.masked_fill(~mask, -torch.inf)  # a score of 0 blocks nothing
    return scores.softmax(dim=-1) @ value


check_mended_mask(mended_solution)

# %% [markdown]
# ### 3 · Write a probe ★★ (10 minutes)
#
# `frozen_weights` and `frozen_query` return every number right, and all probes above pass. Still, part of a model
# gets no gradient through them. Write a probe that is True for healthy functions and False for these two, and for any other through which
# the query, the key or the value gets no gradient, or nothing but zeros. The check tries it on more of both kinds.
#
# <details><summary>Hint</summary>What does training need from a function besides its output? Give it fresh copies,
# <code>t.detach().clone().requires_grad_()</code>, and look at <em>all three</em> gradients after <code>backward()</code>.</details>


# %%
def frozen_weights(query, key, value):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)
    return weights.detach() @ value


def frozen_query(query, key, value):
    return right(query.detach(), key, value)


for passes in probes.values():
    assert passes(frozen_weights) and passes(frozen_query)


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

# %% [markdown]
# ### 4 · Break it ★★ (12 minutes)
#
# `weak_check` compares with the right output, on random numbers. Write a wrong attention function (a patient above may
# inspire you) that passes it and that `diagnose` finds.
#
# <details><summary>Hint</summary>How many sizes does the check try, and which? How many sequences, which dtype, does it look at its inputs
# afterwards?</details>


# %%
def weak_check(attend):
    torch.manual_seed(0)
    inputs = torch.randn(3, 1, 10, 64)  # query, key, value: one sequence
    expected = right(*inputs)
    return same(attend(*inputs), expected)


# %% tags=["exercise"]
def wolf(query, key, value):
    """Pass weak_check, and be wrong."""


# %%
check_disguise(wolf)


# %% tags=["solution"] jupyter={"source_hidden": true}
def wolf_solution(query, key, value):
    return right(query, key, value, scale=1 / 8)  # 64 features only


check_disguise(wolf_solution)

# %% 5-explain-4-minutes [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend says: "My attention is right. The shapes fit, and the model reaches 100 % on the task." Answer in two sentences, and
# name one probe to run. Then compare.
#
# <details><summary>An answer</summary>Shapes cannot tell a transpose from a reshape, and the weights around a bug learn to live with it: the small network above
# reverses digits with a wrong merge. Shuffle the tokens and see whether the outputs follow, or run the leak test if it should be
# causal: a leak in training makes the score better, as a rule, not worse.</details>

# %% [markdown]
# ## In torch
#
# `torch.testing.assert_close` compares with a right version; `torch.autograd.gradcheck` compares gradients with small steps. The reference is
# `F.scaled_dot_product_attention`, which returns no weights: probe 1 recovers them. True means *may attend* there, and *blocked* in
# `nn.MultiheadAttention`, which also wants `batch_first=True` for (N, L, E).

# %% next [markdown]
# ## Sources
#
# - Neuromatch Academy, [Deep Learning, W2D5, tutorial 1](https://github.com/NeuromatchAcademy/course-content-dl/blob/main/tutorials/W2D5_AttentionAndTransformers/W2D5_Tutorial1.ipynb), coding exercise 2: a check with large whole numbers.
# - Raschka, LLMs-from-scratch, [issue 1061](https://github.com/rasbt/LLMs-from-scratch/issues/1061): the inverted triangle of patient C.
# - PyTorch, [tutorial on scaled dot product attention](https://github.com/pytorch/tutorials/blob/main/intermediate_source/scaled_dot_product_attention_tutorial.py): causality tied to training; the same in [Kronos, issue 199](https://github.com/shiyu-coder/Kronos/issues/199).
# - Zhang et al., [Dive into Deep Learning](https://d2l.ai/chapter_attention-mechanisms-and-transformers/multihead-attention.html), multi-head attention: a shape check on ones.
# - [transformer-from-scratch, pull request 6](https://github.com/jsbaan/transformer-from-scratch/pull/6): a merge without a transpose, in a model that trained.
# - [xformers, issue 522](https://github.com/facebookresearch/xformers/issues/522): T5 puts the scale into its starting weights.
#
#
#
# ## Next
#
# [10 · One real attention layer](10_one_real_attention_layer.ipynb)

# %% next-2 [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.** Patient zero, probe 1: 10. Probe 2: 8. Probe 3: 9. Probe 4: 6. Probe 5: 6. The clinic: 6. (The 60 minutes add "It even
# learns": 4, probes 6 and 7: 6, the chart: 5.)
#
# **Stalls.** The logarithm of probe 2: divide two weights of a row first: the row's sum cancels. "It passes": let them write a wrong function that passes. Train and eval: ask who calls `.eval()`.
#
#
# </details>

# %% next-3 [markdown] tags=["teacher"]
# <details><summary>For teachers: questions 1 to 3</summary>
#
# **1.** The output's shape is right. That shows? **Nothing about numbers.** *Sequences stay apart*: a batch joined into one text fits too. *The axis is right*: A's shape fits too.
#
# **2.** Weights: all rows sum to 1. Then? **Other bugs may remain.** *The divisor is right*: B passes. *The causal mask works*: a leak passes.
#
# **3.** A causal function; the last token changes, all outputs move. **It leaks.** *Normal*: without a mask. *Only the last token may look ahead*: it has
# nothing ahead; earlier outputs moved.
#
#
# </details>

# %% next-4 [markdown] tags=["teacher"]
# <details><summary>For teachers: questions 4 and 5</summary>
#
# **4.** 99 in blocked keys moves the output, 99 in blocked values does not. **Weights zeroed after the softmax.** *Mask inverted*, *no mask*: either would let the
# values move it.
#
# **5.** `diagnose` finds nothing. **No property that it tried failed.** *It is right at every size*: see `patient_long`. *It does what I want*: it cannot
# know that.
#
#
# </details>
