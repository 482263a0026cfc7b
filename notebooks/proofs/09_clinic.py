# %% after: patient-a
# the three lines are attention, and a function of zeros has the same shape
assert torch.allclose(
    attention(query, key, value), F.scaled_dot_product_attention(query, key, value), atol=1e-6
)
assert len({N, L, S, E, Ev}) == 5
assert torch.zeros(N, L, Ev).shape == attention(query, key, value).shape
assert patient_a(query, key, value).shape == attention(query, key, value).shape

# %% after: weights-of
exact = (query @ key.mT / E**0.5).softmax(dim=-1)
assert torch.allclose(weights_of(attention, query, key), exact, atol=1e-6)
of_a = weights_of(patient_a, query, key)
assert torch.allclose(of_a.sum(dim=-2), torch.ones(N, S), atol=1e-6)  # 1 for each key
assert abs(of_a.sum(dim=-1)[0].sum() - 7) < 1e-5 and (of_a.sum(dim=-1) - 1).abs().max() > 0.1
# with as many queries as keys the mean of the row sums is 1, and the single rows still differ
square = weights_of(patient_a, key, key).sum(dim=-1)
assert abs(square.mean() - 1) < 1e-5 and (square - 1).abs().max() > 0.1


# a function that insists on values as wide as the queries cannot be asked in this way
def with_equal_widths(query, key, value):
    if value.shape[-1] != query.shape[-1]:
        raise ValueError("unequal widths")
    return attention(query, key, value)


import pytest

with pytest.raises(ValueError, match="unequal"):
    weights_of(with_equal_widths, query, key)

# %% after: two-keys
assert abs(difference / log_ratio - 11**0.5) < 1e-4
for q in range(L):
    for j in range(1, S):
        left = (weights[1, q, 0] / weights[1, q, j]).log()
        right = (raw[1, q, 0] - raw[1, q, j]) / 11**0.5
        assert torch.isclose(left, right, atol=1e-5)

# %% after: divisor-of
for attend, wanted in ((attention, 11**0.5), (patient_b, 1.0), (patient_c, 8.0)):
    assert torch.allclose(divisor_of(attend, query, key), torch.tensor(wanted), rtol=1e-4)
for seed in range(5):
    drawn = torch.Generator().manual_seed(seed)
    for size in (4, 11, 16, 64):
        pair = [torch.randn(N, n, size, generator=drawn, dtype=torch.float64) for n in (L, S)]

        def divisors(attend, pair=pair):
            return divisor_of(lambda q, k, v: attend(q, k, v.double()), *pair)

        for attend, wanted in ((attention, size**0.5), (patient_b, 1.0), (patient_c, 8.0)):
            assert torch.allclose(divisors(attend), torch.full((N, L), wanted).double())
        apart = divisors(patient_a)
        assert apart.std() > 0.1 * apart.mean().abs()  # no single number

# %% after: scale-figure
for (size, name), (x, y) in points.items():
    divisor = {"attention": size**0.5, "patient B": 1, "patient C": 8}[name]
    assert torch.allclose(y, x / divisor, atol=1e-3)

# %% after: certificate  numbers: 3.317, 114, 1, 30
assert abs(11**0.5 - 3.317) < 5e-4

# %% after: see-certificate
assert gap.abs().max() == 0
lead = (best - second).min()
assert lead == 126 and 51 < lead / 6**0.5 < 52
assert (whole[0] @ whole[0].T)[0].tolist() == [91, 217, 343, 469, 595]
picked = whole[0][(whole[0] @ whole[0].T).argmax(dim=-1)]  # no softmax at all
assert torch.equal(picked, attention(whole, whole, whole)[0])
assert torch.exp(torch.tensor(-51.0)) + 1 == 1

# %% after: patient-d
assert moved(patient_d.train(), tokens, place=-1).tolist() == [0, 0, 0, 0, 1]
assert moved(patient_d.train(), tokens, place=0).tolist() == [1] * 5
assert moved(patient_d.eval(), tokens, place=-1).tolist() == [1] * 5
for seed in range(5):
    torch.manual_seed(seed)
    other, x = PatientD(E), torch.randn(L, E)
    assert moved(other.train(), x, place=-1).tolist() == [0, 0, 0, 0, 1]
    assert moved(other.eval(), x, place=-1).tolist() == [1] * 5

# %% after: see-padding
assert torch.equal(by_value, plain) and (by_key - plain).abs().max() > 0.1
sums = weights_of(lambda q, k, v: patient_e(q, k, v, real), query, key).sum(dim=-1)
assert sums.max() < 0.99


def mended(query, key, value, mask):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1) @ value


key_99, value_99 = (t.masked_fill(~real[:, None], 99) for t in (key, value))
healed = mended(query, key, value, real)
assert torch.equal(mended(query, key, value_99, real), healed)
assert torch.equal(mended(query, key_99, value, real), healed)
for seed in range(5):
    drawn = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(t.shape, generator=drawn) for t in (query, key, value))
    base = patient_e(q, k, v, real)
    k_99, v_99 = (torch.where(real[:, None], t, 99.0) for t in (k, v))
    assert torch.equal(patient_e(q, k, v_99, real), base)
    assert (patient_e(q, k_99, v, real) - base).abs().max() > 0.1

# %% after: all-probes
wanted = {
    "attention": [],
    "patient_a": ["row sums", "divisor"],
    "patient_b": ["divisor"],
    "patient_c": ["divisor"],
    "patient_f": ["row sums", "divisor", "order"],
    "patient_g": ["divisor", "alone"],
}
for name, failing in wanted.items():
    assert [probe for probe, passes in table[name].items() if not passes] == failing, name
from attnlab.clinic import diagnose

# the probe of the order is for functions without positions and without a causal mask


def causal_one(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def with_places(query, key, value):
    return attention(query + torch.arange(query.shape[-2])[:, None], key, value)


assert not probes["order"](causal_one) and not probes["order"](with_places)
assert diagnose(causal_one).ok


# the probes see nothing of a mask: a function that ignores it passes all of them
def ignores(query, key, value, mask=None):
    return attention(query, key, value)


assert all(passes(ignores) for passes in probes.values()) and not diagnose(ignores).ok

# %% after: report-b
report = diagnose(patient_b)
assert [one.name for one in report.findings] == ["scale-missing"] and report.properties
assert "1/sqrt(d_k)" in str(report) and report.findings[0].lesson_title == "lesson 2"
assert {diagnose(f).ok for f in (patient_a, patient_c, patient_f, patient_g)} == {False}
assert diagnose(attention).ok

# %% after: explore
from attnlab.explorers import YourAttentionExplorer

assert sum(check.mark == "no" for check in YourAttentionExplorer(patient_e).checks) == 1

# %% after: see-mine
assert diagnose(mine).findings[0].name == "mask-inverted"
keep = torch.rand(N, L, S, generator=torch.Generator().manual_seed(0)) > 0.4
keep[..., 0] = True
ours = mine(query, key, value, ~keep)
assert torch.allclose(
    ours, F.scaled_dot_product_attention(query, key, value, attn_mask=keep), atol=1e-6
)


# the same in a layer, with a mask of padding (N, S)
class Padded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(12, 36)

    def forward(self, x, mask=None):
        heads = [split_heads(part, 3) for part in self.qkv(x).chunk(3, dim=-1)]
        mask = x.new_zeros(x.shape[:2]).bool() if mask is None else mask
        return merge_heads(mine(*heads, mask[:, None, None]))


assert diagnose(Padded()).findings[0].name == "mask-inverted"
assert diagnose(Padded(), mask="blocked").ok

# %% after: what-you-mean
blocked = diagnose(mine, mask="blocked")
assert blocked.ok and any("blocked key" in held for held in blocked.properties)
causal = diagnose(mine, mask="blocked", causal=True)
assert causal.findings[0].name == "causal-missing"


def additive(query, key, value, mask=0.0):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return (scores + mask).softmax(dim=-1) @ value


assert diagnose(additive, mask="additive").ok
assert any("blocked key" in held for held in diagnose(additive, mask="additive").properties)


# the guess from the name: the same function under two names
def decoder(query, key, value):
    return attention(query, key, value)


assert diagnose(decoder).findings[0].name == "causal-missing" and diagnose(attention).ok

# %% after: how-to-call


def called(temperature):
    def adapter(f, q, k, v, mask):
        return f(q, k, v, temperature, mask)

    return adapter


assert diagnose(tempered).findings[0].name == "raises"
assert diagnose(tempered, call=called(1)).ok
assert any("blocked key" in held for held in diagnose(tempered, call=called(1)).properties)
# temperature 2 is another divisor, and an adapter that drops the mask looks like a mask ignored
assert diagnose(tempered, call=called(2)).findings[0].name == "scale-other"
dropped = diagnose(mine, call=lambda f, q, k, v, mask: f(q, k, v, torch.tensor(False)))
assert dropped.findings[0].name == "mask-ignored"

# %% after: my-layer
plain = MyLayer(attention, torch.nn.Identity())
assert diagnose(plain).ok and any("1/sqrt" in held for held in diagnose(plain).properties)
x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))
assert diagnose(plain, causal=True).findings[0].name == "causal-missing"
heads = [split_heads(part, 3) for part in plain.qkv(x).chunk(3, dim=-1)]
assert torch.allclose(plain(x), plain.out(merge_heads(attention(*heads))), atol=1e-6)

# %% after: see-follow
FOLLOWED = "could not be followed"
assert [report.ok for report in reports.values()] == [True, False, True, True]
assert [FOLLOWED in str(report) for report in reports.values()] == [False, False, True, True]
[found_in] = reports["patient A"].findings
assert found_in.name == "softmax-axis"
last = reports["patient A, norm"]
assert any(held.startswith("equal tokens are averaged") for held in last.properties)
assert not any("softmax" in held or "sqrt" in held for held in last.properties)
assert summary["row sums (probe 1)"] == {name: "A" not in name for name in layers}
assert diagnose(layers["patient A, norm"].attend).findings[0].name == "softmax-axis"
# other parameters: the same verdicts
for seed in (1, 2):
    torch.manual_seed(seed)
    again = [MyLayer(f, norm()) for norm in (torch.nn.Identity, lambda: torch.nn.RMSNorm(4))
             for f in (attention, patient_a)]  # fmt: skip
    assert [diagnose(one).ok for one in again] == [True, False, True, True]
# a report can be empty of findings because nothing was examined
nothing = diagnose(torch.nn.MultiheadAttention(12, 3, kdim=8, batch_first=True))
assert nothing.ok and not nothing.properties

# %% after: not-followed  numbers: 143, 62, 229, 56, 68, 16, 10, 33, 27, 15, 42, 32, 6, 4, 34, 200, 9, 20, 186, 178, 43, 22
# the figures of the review agree with each other; the collection is not part of this project
judged = {"correct": 68, "with a convention": 33, "wrong": 42}
injected = {"named": 200, "another name": 9, "missed": 20}
steps = {"followed": (178, 186), "not followed": (22, 43)}
assert sum(judged.values()) == 143 and sum(injected.values()) == 229
assert [sum(each) for each in zip(*steps.values(), strict=True)] == [200, 229]
assert abs(16 / judged["correct"] - 1 / 4) < 0.02


# what "did not matter" means: float32 inside, for an input in float64
def in_float32(query, key, value):
    weights = (query @ key.mT / query.shape[-1] ** 0.5).float().softmax(dim=-1)
    return weights @ value.float()


assert [one.name for one in diagnose(in_float32).findings] == ["dtype"]

# its own collection: a sample; the project's tests examine all of it
from attnlab.clinic import record
from attnlab.clinic.broken import BROKEN, RIGHT

marks = record(BROKEN[::20], RIGHT[::20])
assert marks.found == len(BROKEN[::20]) and marks.accused == 0

# %% after: patient-long
assert diagnose(patient_long).ok and gap_at_1000.abs().max() > 0.1
few = torch.randn(1, 999, E, generator=torch.Generator().manual_seed(0))
assert torch.allclose(patient_long(query[:1], few, few), attention(query[:1], few, few))

# %% after: backwards
assert torch.allclose(layer(batch).output, twin(batch).output, atol=1e-6)
assert torch.equal(layer(batch).weights.flip(1), twin(batch).weights)

# %% after: patient-rude
assert not torch.allclose(first, second) and first.dtype == torch.float32
assert {one.name for one in diagnose(patient_h).findings} >= {"modifies-input", "dtype"}

# %% after: frozen
assert all(passes(f) for passes in probes.values() for f in (frozen_weights, frozen_query))

# %% after: exercise-2  numbers: 0

# %% after: sources  numbers: 199, 522, 2020, 2017, 2

# %% after: teacher-plan  numbers: 45, 1, 2, 3, 4, 12, 8, 7, 10

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 99
