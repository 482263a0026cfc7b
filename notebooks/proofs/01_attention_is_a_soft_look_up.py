# %% after: hard
assert torch.allclose(keys.norm(dim=-1), torch.ones(3))
one_length = kitten / kitten.norm()
cosines = torch.nn.functional.cosine_similarity(keys, kitten[None])
assert torch.allclose(keys @ one_length, cosines) and abs(kitten.norm() - 1) < 1e-4
assert match.argmax() == 0 and match[1] > 0 > match[2]
assert abs(math.degrees(math.atan2(kitten[1], kitten[0])) - 30) < 0.01

# %% after: between
assert shares[0] == shares[1] and 0 < shares[2] < shares[0]
assert torch.allclose(shares, torch.tensor([0.446, 0.446, 0.108]), atol=5e-4)
assert abs(shares @ legs - 3.54) < 0.005 and (shares @ legs) > 3
assert torch.allclose(shares, (keys @ between).softmax(dim=-1))

# %% after: soft
# the same look-up, whatever the order of the pairs of keys and values
order = torch.tensor([2, 0, 1])
assert torch.allclose((kitten @ keys[order].T).softmax(dim=-1) @ legs[order], soft_look_up(kitten))
used = [(kitten @ keys.T / t).softmax(dim=-1) for t in (0.1, 0.5, 1, 2, 10)]
assert all(torch.equal(w.argsort(), used[0].argsort()) for w in used)
assert sorted((w.max().item() for w in used), reverse=True) == [w.max().item() for w in used]

# %% after: found  numbers: 0, 2, 8
assert torch.allclose((torch.zeros(2) @ keys.T).softmax(dim=-1), torch.full((3,), 1 / 3))
anywhere = 5 * torch.randn(10_000, 2, generator=torch.Generator().manual_seed(0))
for temperature in (0.05, 1, 5):
    outputs = soft_look_up(anywhere, temperature)
    assert outputs.min() > 2 - 1e-5 and outputs.max() < 8 + 1e-5  # up to rounding
    uneven = (anywhere @ keys.T / temperature).softmax(dim=-1)
    assert ((uneven.amax(dim=-1) - uneven.amin(dim=-1)) > 1e-4).all()  # none is even
# nowhere in the explorer's square is the output closer to 8 than at the lower left
steps_of_square = torch.arange(-30, 31, dtype=torch.float64) / 20
square = torch.cartesian_prod(steps_of_square, steps_of_square)
corner, straight = torch.tensor([[-1.5, -1.5], [-1.5, 0.0]], dtype=torch.float64)


def legs_at(query, temperature):
    return (query @ keys.T.double() / temperature).softmax(dim=-1) @ legs.double()


assert (keys.double() @ corner > 0).tolist() == [False, False, True]
assert (keys.double() @ corner < 0).tolist() == [True, True, False]
assert (keys.double() @ straight == 0).tolist() == [False, True, False]
for temperature in SoftLookupExplorer.temperature.values:
    assert legs_at(square, temperature).max() <= legs_at(corner, temperature) + 1e-12
    if temperature >= 0.1:
        assert legs_at(straight, temperature) < legs_at(corner, temperature)
assert legs_at(straight, 1) < 7 < 7.5 < legs_at(corner, 1)
assert f"{legs_at(straight, 0.05):.4f} {legs_at(corner, 0.05):.4f}" == "8.0000 8.0000"
# the correct answer is 4, and the soft one is 3.64
assert abs(soft_look_up(kitten) - 3.64) < 0.005

# %% after: turning  numbers: 0, 90, 180
assert angle.shape == (360,)
steps = hard.diff()
assert hard.unique().tolist() == [2, 4, 8] and (steps != 0).sum() == 2
assert (sharp - hard).abs().mean() < (soft - hard).abs().mean()
ends = torch.stack([soft[0], soft.min(), soft[-1]])
assert torch.allclose(ends, torch.tensor([3.9, 3.5, 6.2]), atol=0.05)  # the alternative text

# %% after: after-turning  numbers: 30, 50, 70, 3.52, 0.645


def slope_at(degrees, temperature):
    angle = torch.tensor(math.radians(degrees), requires_grad=True)
    soft_look_up(torch.stack([angle.cos(), angle.sin()]), temperature).backward()
    return abs(angle.grad.item())


for degrees in (*range(0, 16), *range(75, 106), *range(165, 181)):  # outside its steps
    assert slope_at(degrees, 0.1) < 0.1
assert slope_at(30, 0.02) < 1e-4 < slope_at(45, 0.02)  # "on the flat part"
assert slope_at(45, 0.02) > 10 * slope_at(45, 1)  # "a step close to 45 degrees"
everywhere = [slope_at(degrees, 1) for degrees in range(0, 181)]
assert sum(slope > 0.05 for slope in everywhere) > 160  # "a slope nearly everywhere"


def query_learned_from(values, target, steps, rate, start=kitten):
    one = start.clone().requires_grad_()
    for _ in range(steps):
        loss = (((keys @ one).softmax(dim=-1) @ values - target) ** 2).sum()
        (slope_of_loss,) = torch.autograd.grad(loss, one)
        one = (one - rate * slope_of_loss).detach().requires_grad_()
    return one.detach()


# a query at 50 degrees: the hard answer is wrong and flat, the soft one can be improved
degrees_50 = torch.tensor([math.cos(math.radians(50)), math.sin(math.radians(50))])
assert (hard[(angle - 50).abs() < 4] == 2).all()
assert round(soft_look_up(degrees_50).item(), 2) == 3.52
for rate in (0.001, 0.01, 0.1):
    stepped = soft_look_up(query_learned_from(legs, 4.0, 1, rate, start=degrees_50))
    assert soft_look_up(degrees_50) < stepped < 4
# from 70 degrees the legs grow towards bird, and beyond it they reach 4 again
rising = soft[(angle > 69) & (angle < 110)]
assert (rising.diff() > 0).all() and rising[0] < 4 < rising[-1]
# teacher notes: one number is reached by giving spider more weight, not by choosing cat ...
mixture = (keys @ query_learned_from(legs, 4.0, 5000, 0.01)).softmax(dim=-1)
assert abs(mixture @ legs - 4) < 1e-3
assert mixture[0] < (keys @ kitten).softmax(dim=-1)[0] and mixture[2] > 0.15
# ... and with a value of three numbers for each key, cat is chosen
chosen = (keys @ query_learned_from(torch.eye(3), torch.eye(3)[0], 5000, 0.5)).softmax(dim=-1)
assert chosen[0] > 0.95
# the curve of the figure and the slope of any direction are not the same
assert abs(slope_at(30, 1) - 0.645) > 0.1

# %% after: ask-slope  numbers: 30, 45

# %% after: slope
norms = {}
for temperature in (1.0, 0.2, 0.05, 0.02):
    asked = kitten.clone().requires_grad_()
    soft_look_up(asked, temperature).backward()
    norms[temperature] = asked.grad.norm().item()
assert abs(norms[1.0] - 0.645) < 5e-4 and norms[0.2] > norms[1.0]
assert norms[0.02] < 0.0001 < norms[0.05] < norms[1.0]


def slope_of(query, temperature=1.0):
    asked = query.double().requires_grad_()
    weights = (asked @ keys.T.double() / temperature).softmax(dim=-1)
    (weights @ legs.double()).backward()
    return asked.grad.norm().item()


# "among other things": with the same weights, the slope is ten times as large
assert math.isclose(slope_of(kitten / 10, 0.1), 10 * slope_of(kitten), rel_tol=1e-4)
# the-answer and remember: it is the lead, not the temperature alone, that flattens the answer
leads = {}
for length in (1, 5, 10, 20, 50):
    first, second, _ = (keys @ kitten * length).sort(descending=True).values.tolist()
    leads[length] = (first - second, slope_of(kitten * length))
assert leads[1][1] > 0.6 and leads[50][0] > 18 and leads[50][1] < 1e-6
for size in (0.01, 0.1, 1, 10, 100):  # lead and temperature grow together: no slope is lost
    assert math.isclose(slope_of(kitten * size, size) * size, slope_of(kitten), rel_tol=1e-4)
generator = torch.Generator().manual_seed(0)
for _ in range(200):  # "vanishes": a lead of 25 temperatures, other queries and temperatures
    one = torch.randn(2, generator=generator)
    temperature = 10 ** (4 * torch.rand((), generator=generator) - 2).item()
    first, second, _ = (keys @ one).sort(descending=True).values.tolist()
    far = one * 25 * temperature / (first - second)
    assert slope_of(far, temperature) * temperature < 1e-8

# %% after: raw
assert x.shape == (6, 5) and list(x[1]) == list(x[tokens.index("cat")])
assert (x[0] * x[1] == 0).all()  # “cat” and “The” have no feature in common
assert raw.shape == (6, 6) and raw.numel() == 36
assert abs(raw[1, 2] - (1.6 * 0.9 + 0.6 * 1.4)) < 1e-5
assert ((raw.sum(dim=-1) - 1).abs() > 0.1).all()
# the reference example: "He" matches "is" better than itself, since "is" is long
he = load_table("he_is_awesome.csv").values
he_raw = he @ he.T
reference = torch.tensor([[0.3, 0.7, 0.2], [0.7, 1.74, 0.68], [0.2, 0.68, 0.86]])
assert torch.allclose(he_raw, reference)
assert torch.allclose(he_raw.sum(dim=-1), torch.tensor([1.20, 3.12, 1.74]))
length, cosine = he.norm(dim=-1), torch.nn.functional.cosine_similarity(he[:1], he)
assert torch.allclose(he_raw[0], cosine * length[0] * length)
assert he_raw[0].argmax() == 1 and cosine.argmax() == 0 and length.argmax() == 1

# %% after: scores
assert torch.allclose(weights.sum(dim=-1), torch.ones(6)) and not torch.allclose(scores, weights)
without = raw.softmax(dim=-1).amax(dim=-1)
assert (without > weights.amax(dim=-1)).all()  # dividing evens the weights out
he = load_table("he_is_awesome.csv").values
he_weights = (he @ he.T / math.sqrt(4)).softmax(dim=-1)
reference = torch.tensor([[0.3152, 0.3850, 0.2998], [0.2723, 0.4581, 0.2696]])
assert math.sqrt(4) == 2 and torch.allclose(he_weights[:2], reference, atol=1e-4)

# %% after: before-longer
assert tokens[3] == "on" and tokens[5] == "mat" and weights[3].topk(2).indices.tolist() == [3, 5]
assert abs(weights[3, 3] - 0.229) < 5e-4 and abs(weights[3, 5] - 0.194) < 5e-4

# %% after: longer
on = Q[3] @ longer.T
assert on.argmax() == 5 and abs(on[5] - 2.6) < 1e-5 and abs(raw[3, 5] - 1.3) < 1e-5
assert abs(on[3] - 1.68) < 1e-5 and torch.equal(longer[:5], K[:5])
turned = torch.nn.functional.cosine_similarity(K[5], longer[5], dim=0)
assert torch.isclose(turned, torch.tensor(1.0))
toward, away = torch.tensor([1.0, 1.0]), torch.tensor([1.0, -2.0])  # queries and one key
assert 2 * toward @ toward > toward @ toward > 0 > away @ toward > 2 * away @ toward
for degrees in (0, 1, 45, 89, 91, 135, 180):
    asking = torch.tensor([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])
    one_key = torch.tensor([1.3, 0.0])
    assert (asking @ (2 * one_key) > asking @ one_key).item() == (degrees < 90)

# %% after: by-hand
assert torch.allclose(by_hand, output[1])
assert abs(output[1, features.index("place")] - 0.373) < 5e-4
he = load_table("he_is_awesome.csv").values
he_weights = (he @ he.T / math.sqrt(4)).softmax(dim=-1)
he_output = he_weights @ he
reference = torch.tensor([0.5427, 0.2629, 0.3629, 0.4629])
by_parts = he_weights[2, 0] * he[0] + he_weights[2, 1] * he[1] + he_weights[2, 2] * he[2]
assert torch.allclose(by_parts, reference, atol=1e-4) and torch.allclose(by_parts, he_output[2])

# %% after: attention
# "The next day is bright": 8 features in, 4 out; see data/README.md for where it comes from
words, _, inputs = load_table("the_next_day_is_bright.csv")
generator = torch.Generator().manual_seed(123)
W_query, W_key, W_value = (torch.rand(8, 4, generator=generator) for _ in range(3))
assert inputs.shape == (5, 8) and W_query.shape == (8, 4)
query_1 = inputs[1] @ W_query
queries, keys_of_all, values = inputs @ W_query, inputs @ W_key, inputs @ W_value
assert torch.allclose(query_1, torch.tensor([0.8463, 2.3367, 1.1531, 1.9900]), atol=1e-4)
one, row = torch.dot(query_1, keys_of_all[1]), keys_of_all @ query_1
assert torch.allclose((queries @ keys_of_all.T)[1], row) and torch.allclose(row[1], one)
assert torch.allclose(row[:3], torch.tensor([9.7351, 12.0370, 12.2923]), atol=1e-4)
assert abs(row.softmax(dim=-1).max() - 0.466) < 1e-3  # raw scores near 10 do not saturate
mixed, shared = attention(queries, keys_of_all, values)
reference = torch.tensor([0.0980, 0.3099, 0.3521, 0.0589, 0.1811])
assert torch.allclose(shared[1], reference, atol=1e-4) and mixed.shape == (5, 4)
assert torch.allclose(mixed[1], torch.tensor([1.3301, 1.5304, 1.8753, 2.3433]), atol=1e-4)
assert torch.allclose(shared.sum(dim=-1), torch.ones(5))
batch_of_two = torch.stack([x, x.flip(0)])
assert torch.allclose(attention(batch_of_two, batch_of_two, batch_of_two)[0][0], output)
unscaled = torch.nn.functional.scaled_dot_product_attention(x, x, x, scale=1.0)
assert torch.allclose(unscaled, raw.softmax(dim=-1) @ x)

# %% after: ten-zeros
total = math.e + 10
assert torch.allclose(one_and_ten[0], torch.tensor(math.e / total))
assert abs(total - 12.7) < 0.05 and abs(math.e - 2.7) < 0.05 and 10 / total > 0.75
assert abs(one_and_ten[1] - 0.079) < 5e-4 and abs(10 / total - 0.786) < 5e-4
assert raw[1, 0] == 0 and abs(weights[1, 0] - 0.090) < 5e-4

assert abs(math.exp(-math.sqrt(0.5)) - 0.49) < 0.005 and (keys @ between)[2] < 0 < powers[2]

# %% after: zeros-add-up  numbers: 5, 3, 1
left = torch.stack([kept[f"score {score}"][50] for score in (5, 3, 1)])
assert torch.allclose(left, torch.tensor([0.75, 0.29, 0.05]), atol=0.005)

# %% after: after-zeros  numbers: -5, 1000
beside = {score: torch.tensor([score, 0.0]).softmax(dim=-1)[1].item() for score in (5.0, -5.0)}
assert abs(beside[5.0] - 0.007) < 5e-4 and abs(beside[-5.0] - 0.993) < 5e-4
assert torch.tensor([1.0, -torch.inf]).softmax(dim=-1)[1] == 0

# %% after: differences
assert torch.allclose((row + 1000).softmax(dim=-1), row.softmax(dim=-1), atol=1e-4)
assert torch.allclose((row * 8).softmax(dim=-1), (row / (1 / 8)).softmax(dim=-1))
assert ((row * 8).softmax(dim=-1) > 0).all()  # shown as 0.00, and not zero
assert torch.tensor(1000.0).exp().isinf()  # too large for a float, and the softmax copes
# the reference example, after Karpathy
t = torch.tensor([0.1, -0.2, 0.3, -0.2, 0.5])
assert torch.allclose(
    (8 * t).softmax(dim=-1), torch.tensor([0.0326, 0.0030, 0.1615, 0.0030, 0.8000]), atol=1e-4
)
near_1000 = torch.nextafter(torch.tensor(1000.0), torch.tensor(2000.0)) - 1000
assert 1e-5 < near_1000 < 1e-4  # "about four decimals"
coarse = (t.bfloat16() + 1000).softmax(dim=-1)
assert (coarse == coarse[0]).all()  # on paper nothing changes; here rounding levels the row

# %% after: after-differences
signed = torch.tensor([1.0, -2.0, 3.0])
assert (signed / signed.sum()).min() < 0 < signed.softmax(dim=-1).min()
assert (torch.tensor([1.0, -1.0]) / 0).isinf().all()  # shares of a sum of 0
# teacher notes: shares of the sum stay the same if all scores are doubled; softmax weights grow
positive = torch.tensor([1.0, 2.0, 3.0])
assert torch.allclose(2 * positive / (2 * positive).sum(), positive / positive.sum())
assert positive.softmax(dim=-1)[2] < (2 * positive).softmax(dim=-1)[2] < 1

# %% after: over-dim-1
rows = over_1[0].sum(dim=-1)
assert abs(rows.min() - 0.83) < 0.005 and abs(rows.max() - 1.17) < 0.005
assert torch.allclose(over_1[0].sum(dim=-2), torch.ones(6))
assert torch.allclose(scores.softmax(dim=1), weights)  # for one sentence it is correct
he = load_table("he_is_awesome.csv").values
he_wrong = torch.stack([he @ he.T / 2] * 2).softmax(dim=1)
reference = torch.tensor([0.8606, 1.1902, 0.9493])
assert torch.allclose(he_wrong[0].sum(dim=-1), reference, atol=1e-4)

# %% after: both-axes
assert torch.allclose(both[1], both[0].T) and not torch.equal(both[1], both[0])
# "the queries and the keys are the same rows": enough for any rows, and it fails without that
generator = torch.Generator().manual_seed(0)
for _ in range(20):
    rows_of_q, rows_of_k = torch.randn(2, 6, 5, generator=generator)
    for rows_of_key, same in ((rows_of_q, True), (rows_of_k, False)):
        two = torch.stack([rows_of_q @ rows_of_key.T / math.sqrt(5)] * 2)
        mirrored = torch.allclose(two.softmax(dim=1)[0], two.softmax(dim=-1)[0].T, atol=1e-6)
        assert mirrored == same

# %% after: the-answer
assert abs(soft_look_up(kitten) - 3.64) < 0.005

# %% after: three-words
assert len(words) == 3 and small.shape == (3, 4)

# %% after: row
explored = RowExplorer(query="awesome").result
assert torch.allclose(explored.weights, attention(small, small, small)[1][2])
assert torch.allclose(explored.output, attention(small, small, small)[0][2])

# %% after: after-row
raw_he = small @ small[0]
directions = torch.nn.functional.cosine_similarity(small[:1], small)
assert abs(raw_he[1] - 0.700) < 1e-5 and abs(raw_he[0] - 0.300) < 1e-5
assert directions[1] > 0.96 and small.norm(dim=-1).argmax() == 1

# %% after: wide
assert torch.allclose(attention(small, small, one_hot)[0], attention(small, small, small)[1])
wide = torch.ones(3, 9)
assert attention(small, small, wide)[0].shape == (3, 9)  # any other number of features
message = ""
try:
    scaled_dot_product_attention(small, small, wide[:2])  # three keys, two values
except ValueError as error:
    message = str(error)
assert message.startswith("key and value must have the same length")

# %% after: remember
# correct sums of rows do not prove the divisor correct
odd = (raw / math.sqrt(6)).softmax(dim=-1)  # the root of the number of keys
assert torch.allclose(odd.sum(dim=-1), torch.ones(6)) and not torch.allclose(odd, weights)

ranges = torch.stack([V.amin(dim=0), V.amax(dim=0)])  # of each feature
assert ((output >= ranges[0] - 1e-6) & (output <= ranges[1] + 1e-6)).all()

# %% after: exercise-2  numbers: 0.9
larger = (small[2] > small[0]) & (small[2] > small[1])
assert larger.tolist() == [True, False, False, False]  # the hint: one feature

# %% after: exercise-4  numbers: 1000, -1000

# %% after: in-torch
# a new module has parameters, and they are random until the model is trained
with torch.random.fork_rng():
    modules = [torch.nn.MultiheadAttention(4, 2) for _ in range(2)]
assert not torch.equal(modules[0].in_proj_weight, modules[1].in_proj_weight)
assert all(parameter.requires_grad for parameter in modules[0].parameters())
longer_values = torch.ones(2, 5, 7), torch.ones(2, 3, 7), torch.ones(2, 3, 9)
shape_of_output = torch.nn.functional.scaled_dot_product_attention(*longer_values).shape
assert shape_of_output == (2, 5, 9)  # (..., L, E), (..., S, E) and (..., S, Ev)

# %% after: sources  numbers: 2014, 2015, 2017, 2023, 2024

# %% after: plan  numbers: 3.64, 4, 5, 6, 7, 8, 9, 10, 45

# %% after: questions  numbers: -1, 0, 1, 3, 4, 5, 9
assert legs.max() == 8
