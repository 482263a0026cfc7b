# %% after: patient-a
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

# %% after: scale-figure
for (size, name), (x, y) in points.items():
    slope = {"attention": size**-0.5, "patient B": 1, "patient C": 1 / 8}[name]
    assert torch.allclose(y, slope * x, atol=1e-4) and x.abs().max() < 19

# %% after: certificate  numbers: 3.317, 114
assert abs(11**0.5 - 3.317) < 5e-4

# %% after: course-inputs
assert max(t.max() for t in (course_query, course_key, course_value)) == 114

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
# random numbers that are too small hide a missing divisor as well
small = [0.01 * t for t in (query, key, value)]
assert torch.allclose(patient_b(*small), attention(*small), atol=1e-5)
assert not torch.allclose(patient_b(query, key, value), attention(query, key, value), atol=0.1)

# %% after: ask-leak  numbers: 1, 2, 3, 0

# %% after: reach
table = reach(leaky, tokens)
assert table[:, -1].tolist() == [False] * 4 + [True] and table[:, 0].all()
assert table.triu(1).nonzero().tolist() == [[0, 3], [1, 2], [2, 3]]


def masked_layer(mask):
    return lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


generator = torch.Generator().manual_seed(0)
for _ in range(50):
    x = torch.randn(5, 11, dtype=torch.float64, generator=generator)
    assert torch.equal(reach(leaky, x), table)
    # off the diagonal the table is the mask
    mask = torch.rand(5, 5, generator=generator) > 0.5
    mask[range(5), [1, 2, 3, 4, 0]] = True  # no empty row
    shown, itself = reach(masked_layer(mask), x), torch.eye(5).bool()
    assert torch.equal(shown | itself, mask | itself)
    # and a blocked diagonal does not show
    assert reach(masked_layer(~itself), x).all()

# two layers with a window of two reach as far as one with a window of three
narrow, wider = (torch.ones(5, 5).tril().triu(1 - width).bool() for width in (2, 3))
narrow = masked_layer(narrow)
assert torch.equal(reach(lambda x: narrow(narrow(x)), tokens), wider)

# %% after: patient-d
for seed in range(5):
    torch.manual_seed(seed)
    other, x = PatientD(11).double(), torch.randn(5, 11, dtype=torch.float64)
    assert torch.equal(reach(other.train(), x), causal_mask(5))
    assert reach(other.eval(), x).all()

    # a norm in front removes what is the same in all features, so a token is replaced as a whole
    def block(x, other=other):
        return x + other(F.layer_norm(x, (11,)))

    raised = torch.cat([x[:-1], x[-1:] + 1])
    moved = ((block(raised) - block(x)).abs() > 1e-9).any(dim=-1)
    assert moved.tolist() == [False] * 4 + [True]
    assert reach(block, x).all()

# %% after: see-padding
assert sums.max() < 0.99


for seed in range(5):
    drawn = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(t.shape, generator=drawn).double() for t in (query, key, value))
    base = patient_e(q, k, v, real)
    k_99, v_99 = (torch.where(real[:, None], t, 99.0) for t in (k, v))
    assert torch.equal(patient_e(q, k, v_99, real), base)
    assert (patient_e(q, k_99, v, real) - base).abs().max() > 0.1

# %% after: all-probes
shares = pd.DataFrame(results).T
assert shares.loc["attention"].all() and shares["shape"].all()
assert not shares.drop(index="attention")["divisor"].any()
for name in ("patient_a", "patient_f", "patient_g"):  # another probe fails as well
    assert not shares.loc[name].drop(["shape", "divisor"]).all()
for name in ("patient_b", "patient_c"):
    assert shares.loc[name].drop("divisor").all()

# scrambling F by hand: a transpose that a reshape does not undo
assert not torch.allclose(patient_f(query, key, value), attention(query, key, value))

# two more properties: keys shuffled with their values, and one vector added to all keys
turn = torch.tensor([3, 0, 6, 1, 5, 2, 4])
one = torch.randn(E, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def unmoved(f):
    base = f(query, key, value)
    others = f(query, key[:, turn], value[:, turn]), f(query, key + one, value)
    return [torch.allclose(base, other) for other in others]


assert unmoved(attention) == [True, True] and unmoved(patient_a) == [True, False]


# with a bias for the distance, the divisor probe fails although the divisor is correct
def biased(query, key, value):
    distance = torch.arange(query.shape[-2])[:, None] - torch.arange(key.shape[-2])
    scores = query @ key.mT / query.shape[-1] ** 0.5 - 0.25 * distance.abs()
    return scores.softmax(dim=-1) @ value


assert not divisor(biased)

# the probe of the order is for functions without positions and without a causal mask


def causal_one(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def with_places(query, key, value):
    return attention(query + torch.arange(query.shape[-2])[:, None], key, value)


for f in (causal_one, with_places):
    assert not order(f)
assert diagnose(causal_one).ok


# the probes see nothing of a mask: a function that ignores it passes all of them
def ignores(query, key, value, mask=None):
    return attention(query, key, value)


assert not diagnose(ignores).ok

# %% after: the-clinic
# what probe 1 recovers from A, F and G is not the softmax over the query's own keys
exact = (query @ key.mT / E**0.5).softmax(dim=-1)
for patient in (patient_a, patient_f, patient_g):
    assert not torch.allclose(weights_of(patient, query, key), exact, atol=0.1)

# %% after: explore
from attnlab.explorers.masks import scores_of

# without padding all rows add up to 1, and with it no row does; “The” loses the most of the words
for padding in range(6):
    editor = MaskExplorer(mask="padding", padding=padding)
    rows = patient_e_weights(scores_of(editor.vectors).float(), editor.result.mask).sum(dim=-1)
    assert ((rows - 1).abs() < 1e-4).all() if not padding else (rows < 0.95).all()
    assert editor.tokens[padding] == "The" and rows[padding] < rows[padding:].min() + 1e-4

# %% after: mine
first_call = diagnose(mine)
assert first_call.gap.name == "mask-inverted" and 'mask="blocked"' in str(first_call.gap)
keep = torch.rand(N, L, S, generator=torch.Generator().manual_seed(0)) > 0.4
keep[..., 0] = True
ours = mine(query, key, value, ~keep)
correct = F.scaled_dot_product_attention(query, key, value, attn_mask=keep)
assert torch.allclose(ours, correct, atol=1e-6)

# %% after: your-own
assert [diagnose(f).findings[0].name for f in (your_own, MyLayer(your_own))] == 2 * ["scale-d"]
assert not divisor(your_own) and all(p(your_own) for p in probes if p is not divisor)
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

# %% after: patient-long
assert diagnose(patient_long).ok
few = torch.randn(N, 15, E, generator=torch.Generator().manual_seed(0)).double()
assert torch.allclose(divisor_of(patient_long, query, few), torch.tensor(E**0.5).double())

# %% after: closing
lengths = {"function": set(), "layer": set()}


def noting(query, key, value):
    lengths["function"].add(key.shape[-2])
    return attention(query, key, value)


class Noting(MyLayer):
    def forward(self, x):
        lengths["layer"].add(x.shape[1])
        return super().forward(x)


assert diagnose(noting).ok and diagnose(Noting(attention)).ok
assert max(lengths["function"] | lengths["layer"]) == 8
# who fails what, beside the table: patient E and the row sums
assert not row_sums(lambda q, k, v: patient_e(q, k, v, real))

# %% after: further


def adds(query, key, value, mask):
    return (query @ key.mT / query.shape[-1] ** 0.5 + mask).softmax(dim=-1) @ value


def add_bias(query, key, value, mask):
    return adds(query, key, value, mask)


assert diagnose(adds).gap.name == "mask-added" and diagnose(adds, mask="additive").ok
assert diagnose(add_bias).ok  # its name says so
assert diagnose(patient_b, meant={"scale-missing"}).ok
assert diagnose(mine, mask="blocked", causal=True).ok is False

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

# %% after: by-sums
third, fourth = (diagnose(MyLayer(f)) for f in (attention_by_sums, patient_a_by_sums))
assert "scale" in fourth.gap.why and "softmax" in fourth.gap.why
assert third.properties == fourth.properties != ()
assert not any(word in str(fourth.properties) for word in ("softmax", "sqrt", "sum to 1"))

# %% after: how-often
named, missed = (counts.loc[("injected bugs", answer)] for answer in ("named", "missed"))
assert named["count"] > 0.85 * named["of"] and named["of"] > 250
assert missed["count"] < 0.025 * missed["of"]
accused = counts["count"].iloc[:2].tolist()
assert accused[0] > accused[1] > 0

# %% after: weak
some = (attention, patient_a, patient_b, patient_c, patient_f, patient_g)
assert [f for f in some if weak_check(f)] == [attention, patient_c, patient_g]

# %% after: exercise-2  numbers: 2, 4

# %% after: sources  numbers: 199, 522, 2017

# %% after: teacher-plan  numbers: 50, 1, 2, 3, 4, 11, 5, 18

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 99
