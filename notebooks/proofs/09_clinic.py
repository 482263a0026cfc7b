# %% after: patient-a
assert len({N, L, S, E, Ev}) == 5

# %% after: weights-of
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

# %% after: certificate  numbers: 3.317, 114, 1, 30
assert abs(11**0.5 - 3.317) < 5e-4

# %% after: see-certificate
lead = (best - second).min()
assert lead == 126 and 51 < lead / 6**0.5 < 52
assert (whole[0] @ whole[0].T)[0].tolist() == [91, 217, 343, 469, 595]
picked = whole[0][(whole[0] @ whole[0].T).argmax(dim=-1)]  # no softmax at all
assert torch.equal(picked, attention(whole, whole, whole)[0])
assert 0 < torch.exp(torch.tensor(-51.0)) and torch.exp(torch.tensor(-51.0)) + 1 == 1

# %% after: patient-d
for seed in range(5):
    torch.manual_seed(seed)
    other, x = PatientD(E), torch.randn(L, E)
    assert moved(other.train(), x, place=-1).tolist() == [0, 0, 0, 0, 1]
    assert moved(other.eval(), x, place=-1).tolist() == [1] * 5
    assert moved(other.train(), x, place=0).tolist() == [1] * 5

    # a norm in front removes what is the same in all features, so a token is replaced as a whole
    def block(x, other=other):
        return x + other(F.layer_norm(x, (E,)))

    other.eval()
    raised = torch.cat([x[:-1], x[-1:] + 1])
    assert ((block(raised) - block(x)).abs() > 1e-4).any(dim=-1).tolist() == [False] * 4 + [True]
    assert moved(block, x, place=-1).tolist() == [1] * 5

# %% after: see-padding
sums = weights_of(lambda q, k, v: patient_e(q, k, v, real), query, key).sum(dim=-1)
assert sums.max() < 0.99


for seed in range(5):
    drawn = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(t.shape, generator=drawn) for t in (query, key, value))
    base = patient_e(q, k, v, real)
    k_99, v_99 = (torch.where(real[:, None], t, 99.0) for t in (k, v))
    assert torch.equal(patient_e(q, k, v_99, real), base)
    assert (patient_e(q, k_99, v, real) - base).abs().max() > 0.1

# %% after: all-probes
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

# %% after: the-clinic
# what probe 1 recovers from A, F and G is not the softmax over the query's own keys
exact = (query @ key.mT / E**0.5).softmax(dim=-1)
for patient in (patient_a, patient_f, patient_g):
    assert not torch.allclose(weights_of(patient, query, key), exact, atol=0.1)

# %% after: explore
# without a mask all rows add up to 1, and with any one word as padding no row does
for padding in ([], *([word] for word in range(6))):
    editor = MaskExplorer(mask="none", padding=padding)
    rows = drawn(editor.scores, editor.result.mask).sum(dim=-1)
    assert ((rows - 1).abs() < 1e-4).eq(not padding).all()

# %% after: mine
first_call = diagnose(mine)
assert first_call.gap.name == "mask-inverted" and 'mask="blocked"' in str(first_call.gap)
keep = torch.rand(N, L, S, generator=torch.Generator().manual_seed(0)) > 0.4
keep[..., 0] = True
ours = mine(query, key, value, ~keep)
correct = F.scaled_dot_product_attention(query, key, value, attn_mask=keep)
assert torch.allclose(ours, correct, atol=1e-6)


# %% after: options
def adds(query, key, value, mask):
    return (query @ key.mT / query.shape[-1] ** 0.5 + mask).softmax(dim=-1) @ value


def add_bias(query, key, value, mask):
    return adds(query, key, value, mask)


assert diagnose(adds).gap.name == "mask-added" and diagnose(adds, mask="additive").ok
of_bias = diagnose(add_bias)
assert of_bias.ok and any("minus infinity" in str(note) for note in of_bias.notes)
assert diagnose(patient_b, meant={"scale-missing"}).ok

# %% after: what-you-mean
blocked = diagnose(mine, mask="blocked")
causal = diagnose(mine, mask="blocked", causal=True)
assert set(causal.properties) < set(blocked.properties)
assert "blocked key" in " ".join(set(blocked.properties) - set(causal.properties))


# the guess from the name: the same function under two names
def decoder(query, key, value):
    return attention(query, key, value)


assert diagnose(decoder).findings[0].name == "causal-missing" and diagnose(attention).ok

# a layer of three tensors that is meant for the same tokens: what helps is in the table


class Threefold(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(12, 12) for _ in range(3))

    def forward(self, query, key, value):
        one, two, three = (f(x) for f, x in zip(self.qkv, (query, query, value), strict=True))
        return attention(one, two, three)


assert diagnose(Threefold()).ok is False and diagnose(Threefold(), self_attention=True).ok

# %% after: how-to-call
unexamined, examined_now = diagnose(configured), diagnose(configured, call=adapter)
# the three outcomes: a finding, a gap without a finding, or a list that all holds
for one in (diagnose(patient_b), unexamined, examined_now):
    wanted = False if one.findings else None if one.gap else bool(one.properties)
    assert one.ok is wanted

# %% after: my-layer
x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))


# probes 1 and 2 inside a layer: other numbers in the place of its first product
class Replaced(torch.overrides.TorchFunctionMode):
    def __init__(self, products):
        self.products, self.seen = products, []

    def __torch_function__(self, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        if function is torch.Tensor.matmul:
            self.seen.append(arguments[0])  # the weights are the first factor of the second
            result = self.products if len(self.seen) == 1 else result
        return result


drawn = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(1))
for attend, divisor in ((attention, 2.0), (patient_b, 1.0), (patient_c, 8.0)):
    with torch.no_grad(), Replaced(drawn) as inside:
        MyLayer(attend)(x)
    logs = inside.seen[1].log()
    got = (drawn[..., :1] - drawn[..., 1:]) / (logs[..., :1] - logs[..., 1:])
    assert torch.allclose(got, torch.tensor(divisor), rtol=1e-2)
with torch.no_grad(), Replaced(drawn) as inside:
    MyLayer(patient_a)(x)
assert (inside.seen[1].sum(dim=-1) - 1).abs().max() > 0.1


# %% after: see-follow
third, fourth = reports["attention_by_sums"], reports["patient_a_by_sums"]
assert "scale" in fourth.gap.why and "softmax" in fourth.gap.why
assert third.properties == fourth.properties and len(fourth.properties) > 3
assert not any(word in str(fourth.properties) for word in ("softmax", "sqrt", "sum to 1"))
# other parameters: the same outcomes
for seed in (1, 2):
    torch.manual_seed(seed)
    assert [diagnose(MyLayer(f)).ok for f in examined] == [True, False, None, None]

# %% after: not-followed  numbers: 54
counted = pd.read_csv(data_path("clinic_panel.csv"))
assert counted[counted.answer == "ok"].groupby("examined").of.sum()["correct (first call)"] == 54

# %% after: how-often
rows = {(one.half, one.examined, one.answer): one for one in panel.itertuples()}
look, *now = halves = ["first look", "unseen half", "seen half"]
FIRST, THEN = "correct (first call)", "correct (with options)"
assert set(panel.half) == set(halves)
for half in halves:
    named = rows[half, "injected bugs", "named"]
    assert named.count > 0.85 * named.of and named.of > 250
    assert rows[half, "injected bugs", "missed"].count < 0.025 * named.of
    assert rows[half, THEN, "accused"].count <= rows[half, FIRST, "accused"].count
assert rows[look, THEN, "accused"].count < rows[look, FIRST, "accused"].count

# %% after: closing  numbers: 143, 43, 101, 24
# figures of the review; its collection is not part of this project
correct, accused = {"plain": 68, "own convention": 33}, {"plain": 16, "own convention": 27}
assert sum(correct.values()) == 101 and sum(accused.values()) == 43
assert round(100 * accused["plain"] / correct["plain"]) == 24

# %% after: further
lengths = {"function": set(), "layer": set()}


def noting(query, key, value):
    lengths["function"].add(key.shape[-2])
    return attention(query, key, value)


class Noting(MyLayer):
    def forward(self, x):
        lengths["layer"].add(x.shape[1])
        return super().forward(x)


assert diagnose(noting).ok and diagnose(Noting(attention)).ok
assert max(lengths["function"]) == 8 and max(lengths["layer"]) == 5

# %% after: patient-long
assert diagnose(patient_long).ok and gap_at_16.abs().max() > 0.1
few = torch.randn(1, 15, E, generator=torch.Generator().manual_seed(0))
assert torch.allclose(patient_long(query[:1], few, few), attention(query[:1], few, few))

# %% after: backwards
# all parameters copied: nothing happens; only a part of them: the output changes
mixed = copy.deepcopy(layer)
mixed.load_state_dict(twin.state_dict())
assert torch.equal(mixed(batch).output, twin(batch).output)
mixed.q_proj = layer.q_proj
assert not torch.allclose(mixed(batch).output, layer(batch).output, atol=0.01)

# %% after: frozen
assert all(passes(f) for passes in probes.values() for f in (frozen_weights, frozen_query))

# %% after: weak
some = (attention, patient_a, patient_b, patient_c, patient_f, patient_g)
assert [f for f in some if weak_check(f)] == [attention, patient_c, patient_g]

# %% after: exercise-2  numbers: 0

# %% after: sources  numbers: 199, 522, 2017

# %% after: teacher-plan  numbers: 45, 1, 2, 3, 4, 12, 8, 7, 10

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 99
