# %% after: random-inputs
assert len({N, L, S, E, Ev}) == 5

# %% after: weights-of
of_a = weights_of(patient_a, query, key)
assert torch.allclose(of_a.sum(dim=-2), torch.ones(N, S).double())  # 1 for each key
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

# %% after: divisor-of
for attend, wanted in ((attention, 11**0.5), (patient_b, 1.0), (patient_c, 8.0)):
    assert torch.allclose(divisor_of(attend, query, key), torch.tensor(wanted).double())
for seed in range(50):
    drawn = torch.Generator().manual_seed(seed)
    for size in (4, 11, 64, 256):
        pair = [torch.randn(N, n, size, generator=drawn, dtype=torch.float64) for n in (L, S)]
        for attend, wanted in ((attention, size**0.5), (patient_b, 1.0), (patient_c, 8.0)):
            assert torch.allclose(divisor_of(attend, *pair), torch.tensor(wanted).double())

# %% after: read-divisors  numbers: 3.317, 11, 64
assert abs(11**0.5 - 3.317) < 5e-4

# %% after: course-inputs
assert max(t.max() for t in (course_query, course_key, course_value)) == 114

# %% after: three-patients  numbers: 64

# %% after: see-certificate
inputs = course_query, course_key, course_value
assert torch.equal(stored, course_value[:, [1, 0, 1]])  # three of the values
raw = course_query @ course_key.mT
lead = raw.topk(2).values.diff().abs().min()
assert lead == 2986 and torch.exp(-lead / 8) + 1 == 1
assert torch.equal(course_value[:, raw.argmax(dim=-1)[0]], stored)  # no softmax at all
assert [torch.equal(f(*inputs), stored) for f in (attention, patient_b, patient_c)] == [True] * 3
assert not torch.equal(patient_a(*inputs), stored)
for divisor in range(1, 101):
    assert torch.equal((raw / divisor).softmax(dim=-1) @ course_value, stored)
# %% after: patient-d
from attnlab.clinic import diagnose

# size 1 reads the divisor, and size 100 shows the overflow, up to the width of a real model
for width in (11, 64, 768):
    for seed in range(5):
        drawn = torch.Generator().manual_seed(seed)
        q, k = (torch.randn(N, n, width, generator=drawn).double() for n in (L, S))
        for attend in (attention, patient_d):
            assert (weights_of(attend, q, k).sum(dim=-1) - 1).abs().max() < 1e-5
            used = divisor_of(attend, q, k)
            assert torch.allclose(used, torch.full_like(used, width**0.5))
        weights = weights_of(attention, 100 * q, 100 * k)
        assert (weights.sum(dim=-1) - 1).abs().max() < 1e-5 and (weights == 0).any()
        assert divisor_of(attention, 100 * q, 100 * k).mean().isnan()
        assert weights_of(patient_d, 100 * q, 100 * k).isnan().any()
assert patient_d(course_query, course_key, course_value).isnan().any()

# %% after: leaky
wanted = causal_mask(5)
wanted[0, 3] = wanted[1, 2] = wanted[2, 3] = True


def masked_layer(mask):
    return lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


generator = torch.Generator().manual_seed(0)
for width in (11, 64, 768):
    for _ in range(2):
        x = torch.randn(5, width, dtype=torch.float64, generator=generator)
        assert torch.equal(influence_map(leaky, x) != 0, wanted)
itself = torch.eye(5).bool()
for _ in range(20):  # off the diagonal the map is the mask, and a blocked diagonal does not show
    x = torch.randn(5, 11, dtype=torch.float64, generator=generator)
    mask = torch.rand(5, 5, generator=generator) > 0.5
    mask[range(5), [1, 2, 3, 4, 0]] = True  # no empty row
    shown = influence_map(masked_layer(mask), x) != 0
    assert torch.equal(shown | itself, mask | itself)
    assert (influence_map(masked_layer(~itself), x) != 0).all()
# both tests of the friend
x = torch.randn(5, 11, dtype=torch.float64, generator=generator)
for token, moved in ((4, [False] * 4 + [True]), (0, [True] * 5)):
    changed = x.clone()
    changed[token] = torch.randn(11, dtype=torch.float64, generator=generator)
    assert ((leaky(changed) - leaky(x)).abs() > 1e-9).any(dim=-1).tolist() == moved

# %% after: patient-e
for seed in range(5):
    torch.manual_seed(seed)
    other, x = PatientE(11).double(), torch.randn(5, 11, dtype=torch.float64)
    assert torch.equal(influence_map(other.train(), x) != 0, causal_mask(5))
    assert (influence_map(other.eval(), x) != 0).all()

# %% after: probe-4


def behind_detach(x):  # its scale is made of all tokens
    x = x / x.std(dim=0).detach()
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


for seed in range(5):
    x, other = torch.randn(2, 5, 11, generator=torch.Generator().manual_seed(seed)).double()
    assert torch.equal(influence_map(behind_detach, x) != 0, causal_mask(5))
    x_other = torch.cat([x[:4], other[4:]])
    assert ((behind_detach(x_other) - behind_detach(x)).abs().amax(dim=-1) > 0.01).all()

# %% after: see-padding
assert sums.max() < 0.99


for seed in range(5):
    drawn = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(t.shape, generator=drawn).double() for t in (query, key, value))
    base = patient_f(q, k, v, real)
    k_99, v_99 = (torch.where(real[:, None], t, 99.0) for t in (k, v))
    assert torch.equal(patient_f(q, k, v_99, real), base)
    assert (patient_f(q, k_99, v, real) - base).abs().max() > 0.1

# %% after: explore
from attnlab.explorers.masks import scores_of

# without padding all rows add up to 1, and with it no row does; “The” loses the most of the words,
# with one <pad> as much as “the”
for padding in range(6):
    editor = MaskExplorer(mask="padding", padding=padding)
    rows = patient_f_weights(scores_of(editor.vectors).float(), editor.result.mask).sum(dim=-1)
    assert ((rows - 1).abs() < 1e-4).all() if not padding else (rows < 0.95).all()
    assert editor.tokens[padding] == "The"
    if padding in (2, 3):
        assert rows[padding] < rows[padding + 1 :].min() - 0.03
    if padding == 1:
        assert editor.tokens[5] == "the" and torch.allclose(rows[1], rows[5])

# %% after: your-own
assert [diagnose(f).findings[0].name for f in (your_own, MyLayer(your_own))] == 2 * ["scale-d"]
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
assert diagnose(MyLayer(attention)).ok

# a layer is examined in evaluation mode only, and it may see the future unless it is told not to


class Reversed(PatientE):  # causal in evaluation mode only
    def forward(self, x):
        modes_seen.add(self.training)
        self.training = not self.training
        output = super().forward(x)
        self.training = not self.training
        return output


modes_seen = set()
assert diagnose(Reversed(11).train(), causal=True).ok and modes_seen == {False}
assert diagnose(PatientE(11)).ok and not diagnose(PatientE(11), causal=True).ok

# %% after: not-proved
lengths = {"function": set(), "layer": set()}


def noting(query, key, value):
    lengths["function"].add(key.shape[-2])
    return attention(query, key, value)


class Noting(MyLayer):
    def forward(self, x):
        lengths["layer"].add(x.shape[1])
        return super().forward(x)


assert diagnose(noting).ok and diagnose(Noting(attention)).ok
assert max(lengths["function"] | lengths["layer"]) == 8  # as the teacher's questions say
assert diagnose(lambda query, key, value: attention(query, key[:, :10], value[:, :10])).ok

# %% after: closing
# a padding of 99 moves the outputs of the padding, and of no real token
for seed in range(5):
    x = torch.randn(5, 11, generator=torch.Generator().manual_seed(seed)).double()
    for words in range(2, 5):
        mask = (torch.arange(5) < words).expand(5, 5)
        changed = torch.cat([x[:words], torch.full_like(x[words:], 99)])
        before, after = (F.scaled_dot_product_attention(t, t, t, mask) for t in (x, changed))
        moves = after - before
        assert (moves[:words] == 0).all() and moves[words:].abs().max() > 0.1

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
assert diagnose(add_bias).ok  # its name says so
assert diagnose(patient_b, meant={"scale-missing"}).ok
assert diagnose(mine, mask="blocked", causal=True).ok is False


def promises(query, key, value):
    """Causal attention."""
    return attention(query, key, value)


assert diagnose(promises).ok and diagnose(promises, causal=True).ok is False

# a layer of three tensors that is meant for the same tokens: what helps is in the table


class Threefold(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(12, 12) for _ in range(3))

    def forward(self, query, key, value):
        one, two, three = (f(x) for f, x in zip(self.qkv, (query, query, value), strict=True))
        return attention(one, two, three)


assert diagnose(Threefold()).ok is False and diagnose(Threefold(), self_attention=True).ok

# %% after: all-probes
shares = pd.DataFrame(results).T
assert not divisor(your_own) and all(p(your_own) for p in probes if p is not divisor)
assert all(p(patient_d) for p in probes)
assert shares.loc["attention"].all() and shares["shape"].all()
assert not shares.drop(index="attention")["divisor"].any()
for name in ("patient_a", "patient_g", "patient_h"):  # another probe fails as well
    assert not shares.loc[name].drop(["shape", "divisor"]).all()
for name in ("patient_b", "patient_c"):
    assert shares.loc[name].drop("divisor").all()

# scrambling F by hand: a transpose that a reshape does not undo
assert not torch.allclose(patient_g(query, key, value), attention(query, key, value))

# the probe of the order is for functions without positions and with one mask for all queries


def causal_one(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def with_places(query, key, value):
    return attention(query + torch.arange(query.shape[-2])[:, None], key, value)


def near(query, key, value):  # each query sees its neighbours
    mask = (torch.arange(L)[:, None] - torch.arange(S)).abs() < 3
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


for f in (causal_one, with_places, near):
    assert not order(f)
assert order(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=real.expand(L, S)))
assert diagnose(causal_one).ok


# the probes see nothing of a mask: a function that ignores it passes all of them
def ignores(query, key, value, mask=None):
    return attention(query, key, value)


assert not diagnose(ignores).ok

# %% after: weak
some = (attention, patient_a, patient_b, patient_c, patient_g, patient_h)
assert [f for f in (*some, patient_d) if weak_check(f)] == [
    attention,
    patient_c,
    patient_h,
    patient_d,
]
assert weak_check(lambda q, k, v: (attention(q, k, v), v.zero_())[0])  # changes its inputs

# %% after: frozen
for f in (frozen_weights, frozen_query):
    assert all(probe(f) for probe in probes)
    weights = weights_of(f, 100 * query, 100 * key)
    assert torch.equal(weights, weights_of(attention, 100 * query, 100 * key))
    assert (influence_map(lambda x, f=f: f(*3 * [x]), tokens) != 0).all()

# %% after: exercise-2  numbers: 2, 4

# %% after: sources  numbers: 199, 522, 2017

# %% after: teacher-plan  numbers: 44, 1, 2, 3, 4, 6, 13, 17, 8

# %% after: teacher-questions  numbers: 8, 1, 2, 3, 4, 5, 99
