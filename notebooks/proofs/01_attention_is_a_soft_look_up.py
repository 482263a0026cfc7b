# %% after: hard
assert abs(math.degrees(math.atan2(kitten[1], kitten[0])) - 30) < 0.01

# %% after: soft
# the same lookup, whatever the order of the pairs of keys and values
order = torch.tensor([2, 0, 1])
assert torch.allclose(
    (kitten @ keys[order].T).softmax(dim=-1) @ legs[order], soft_lookup(kitten, keys, legs)
)
largest = [(match / t).softmax(dim=-1).max().item() for t in (0.1, 0.5, 1, 2, 10)]
assert sorted(largest, reverse=True) == largest  # a high temperature evens the weights out

# %% after: ask-most  numbers: -90

# %% after: circle
assert best - 360 == -24 and torch.allclose(
    of_cat[[0, best]], torch.tensor([0.665, 0.700]), atol=5e-4
)
others = (around[[0, best, 270]] @ keys.T).softmax(dim=-1)
assert torch.allclose(others[:2, 1], torch.tensor([0.245, 0.187]), atol=6e-4)
assert abs(others[0, 2] - 0.090) < 5e-4 and abs(others[2, 0] - 0.42) < 0.005
# "its lead over each of the other keys": keys of five seeds, three sizes (one of a model).
# The key's own arrow is not the best query: a small step up the gradient of the weight improves it.
for seed in range(5):
    for size in (2, 64, 768):
        generator = torch.Generator().manual_seed(seed)
        some = F.normalize(torch.randn(7, size, generator=generator, dtype=torch.float64), dim=-1)
        own = some[0].clone().requires_grad_()
        weight = (some @ own).softmax(dim=0)[0]
        (uphill,) = torch.autograd.grad(weight, own)
        uphill -= (uphill @ some[0]) * some[0]  # along the sphere
        better = F.normalize(some[0] + 0.01 * F.normalize(uphill, dim=0), dim=0)
        assert (some @ better).softmax(dim=0)[0] > weight

# %% after: found  numbers: 2, 8
anywhere = 5 * torch.randn(10_000, 2, generator=torch.Generator().manual_seed(0))
for temperature in (0.05, 1, 5):
    outputs = soft_lookup(anywhere, keys, legs, temperature=temperature)
    assert outputs.min() > 2 - 1e-5 and outputs.max() < 8 + 1e-5  # up to rounding
# nowhere in the explorer's square is the output closer to 8 than at the lower left
steps_of_square = torch.arange(-30, 31, dtype=torch.float64) / 20
square = torch.cartesian_prod(steps_of_square, steps_of_square)
corner = torch.tensor([-1.5, -1.5], dtype=torch.float64)


def legs_at(query, temperature):
    return (query @ keys.T.double() / temperature).softmax(dim=-1) @ legs.double()


assert (keys.double() @ corner).tolist() == [-1.5, -1.5, 1.5]  # 3 above the other two
for temperature in SoftLookupExplorer.temperature.values:
    assert legs_at(square, temperature).max() <= legs_at(corner, temperature) + 1e-12

# %% after: turning  numbers: 0, 90, 180
# the alternative text
assert hard.nan_to_num(3).unique().tolist() == [2, 3, 4, 8] and hard.isnan().sum() == 2
soft = curves["soft"]
ends = torch.stack([soft[0], soft.min(), soft[-1]])
assert torch.allclose(ends, torch.tensor([3.9, 3.5, 6.2]), atol=0.05)
assert abs(soft[120] - 4.40) < 0.005 and abs(soft[120] - 4.4) < 0.05

# %% after: after-turning  numbers: 0, 120
assert (hard[46:135] == 2).all()

# %% after: hard-slope
import pytest

with pytest.raises(RuntimeError, match="does not require grad"):
    legs[(keys @ start.clone().requires_grad_()).argmax()].backward()

# %% after: after-hard-slope  numbers: 2, 120
assert (hard[110:131] == 2).all()  # "a small turn changes nothing"
assert (curves["soft"][110:120] - 4).abs().max() < curves["soft"][120] - 4  # closer to four
begin = start.clone().requires_grad_()
for rate in (0.001, 0.01, 0.1):  # a step in the direction in which the loss falls
    (slope_of_loss,) = torch.autograd.grad((soft_lookup(begin, keys, legs) - 4) ** 2, begin)
    stepped = soft_lookup(start - rate * slope_of_loss, keys, legs)
    assert 4 < stepped < soft_lookup(start, keys, legs)

# %% after: learned
before, after = before_and_after
assert torch.allclose(before, torch.tensor([0.13, 0.51, 0.36]), atol=0.006)
assert torch.allclose(after, torch.tensor([0.15, 0.57, 0.28]), atol=0.006)
assert abs(after[1] / after[2] - 2) < 0.01 and after.argmax() == 1
assert after[2] < before[2]  # the feedback: it loses weight
assert abs(soft_lookup(path[-1], keys, legs) - 4) < 1e-3

# %% after: twelve
assert all((soft_lookup(p[-1], keys, legs) - 4).abs().max() < 0.02 for p in (from_legs, from_both))
assert torch.allclose(twelve.norm(dim=-1), torch.ones(12))
assert torch.allclose(from_legs[-1].sum(dim=-1), torch.tensor(math.log(2)), atol=0.01)  # the line
# the same from five draws of random queries, which are at most as long as these
for seed in range(5):
    generator = torch.Generator().manual_seed(seed)
    elsewhere = F.normalize(torch.randn(12, 2, generator=generator))
    elsewhere *= torch.rand(12, 1, generator=generator)
    found_by_both = learn(elsewhere, keys, legs_and_wings, torch.tensor([4.0, 0.0]))[-1]
    assert (found_by_both @ keys.T).softmax(dim=-1)[:, 0].min() > 0.96
    found_by_legs = learn(elsewhere, keys, legs, 4.0)[-1]
    assert (soft_lookup(found_by_legs, keys, legs) - 4).abs().max() < 0.02
    assert (found_by_legs @ keys.T).softmax(dim=-1)[:, 0].max() < 0.9

# %% after: twelve-paths
assert from_both[-1].std(dim=0).max() < 0.03  # one place
lowest, highest = torch.tensor([-1.9, -2.2]), torch.tensor([2.8, 1.9])
for drawn in (from_legs, from_both):  # nothing leaves the picture
    assert (drawn > lowest).all() and (drawn < highest).all()

# %% after: after-twelve  numbers: 0.15, 0.78, 0.97, 1000
of_legs, of_both = cat_from_legs, cat_from_both
assert abs(of_legs.min() - 0.15) < 0.005 and abs(of_legs.max() - 0.78) < 0.005
assert (of_both - 0.97).abs().max() < 0.005
# no other average has four legs and no wings: the three values form a triangle
assert torch.linalg.matrix_rank(legs_and_wings[1:] - legs_and_wings[0]) == 2

# %% after: attention
assert torch.allclose(output[1, 0], torch.tensor(0.8), atol=0.005)  # lesson 0's 0.80 of *animal*
two = torch.stack([x, x.flip(0)])  # "works for a batch as well"
assert torch.allclose(attention(two, two, two)[0][0], output, atol=1e-6)

# %% after: the-answer  numbers: 120
assert abs(soft_lookup(kitten, keys, legs) - 3.64) < 0.005
assert abs(cat_from_both[4] - 0.97) < 0.005  # the fifth direction is 120 degrees
assert torch.equal(twelve[4], start)

# %% after: ten-zeros
assert abs(100 / (100 + math.e) - 0.974) < 5e-4  # the feedback
assert abs(math.e + 10 - 12.7) < 0.05 and abs(math.e - 2.7) < 0.05
assert abs(one_and_ten[1] - 0.079) < 5e-4

# %% after: after-zeros  numbers: -5, 0, 0.786, 1, 5, 10

# %% after: differences
assert round(row[0].item(), 6) == 0 and row.max() == row[1]
as_it_is, plus_10, times_8 = torch.stack([row, row + 10, row * 8]).softmax(dim=-1)
assert times_8[1] > 0.9
# adding 10 in float32: five seeds, three sizes (one of a real model)
for seed in range(5):
    for size in (5, 64, 768):
        some = torch.randn(7, size, generator=torch.Generator().manual_seed(seed))
        some = (some @ some.T)[0] / size**0.5
        assert (some.softmax(dim=-1) - (some + 10).softmax(dim=-1)).abs().max() < 1e-5

# %% after: after-row
raw_he = load_table("he_is_awesome.csv").values @ load_table("he_is_awesome.csv").values[0]
assert torch.allclose(raw_he[:2], torch.tensor([0.300, 0.700]))

# %% after: three-words
assert small.norm(dim=-1).argmax() == 1  # "is" is the longest, in nearly the direction of "He"
assert F.cosine_similarity(small[0], small[1], dim=0) > 0.96

# %% after: remember
lowest, highest = V.amin(dim=0), V.amax(dim=0)  # "within the range of the values"
assert ((output >= lowest - 1e-6) & (output <= highest + 1e-6)).all()

# %% after: exercise-1  numbers: 0.9, 4
larger = (small[2] > small[0]) & (small[2] > small[1])
assert larger.tolist() == [True, False, False, False]  # the hint: one feature
wanted = small[2].clone().requires_grad_()  # gradient descent finds such a query
for _ in range(2000):
    (slope_of_loss,) = torch.autograd.grad(-(small @ wanted / 2).log_softmax(dim=-1)[2], wanted)
    wanted = (wanted - 0.5 * slope_of_loss).detach().requires_grad_()
assert (small @ wanted / 2).softmax(dim=-1)[2] > 0.9

# %% after: exercise-3  numbers: 1000, -1000

# %% after: exercise-5
ant = (learn(twelve, keys, legs_and_wings, torch.tensor([6.0, 0.0]))[-1] @ keys.T).softmax(dim=-1)
assert torch.allclose(ant, torch.tensor([0.5, 0.0, 0.5]).expand(12, 3), atol=0.05)
assert (ant.amax(dim=0) - ant.amin(dim=0)).max() < 0.003

# %% after: in-torch
unscaled = F.scaled_dot_product_attention(x, x, x, scale=1.0)
assert torch.allclose(unscaled, (Q @ K.T).softmax(dim=-1) @ x, atol=1e-6)

# %% after: sources  numbers: 8, 1964, 2014, 2015, 2017, 2023, 2024

# %% after: plan  numbers: 3.64, 4, 6, 8, 18, 44
assert abs(soft_lookup(learn(kitten, keys, legs, 4.0)[-1], keys, legs) - 4) < 1e-3

# %% after: questions  numbers: -1, 0, 1, 3, 4, 5, 8, 9
