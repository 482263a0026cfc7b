# %% after: hard
assert abs(math.degrees(math.atan2(kitten[1], kitten[0])) - 30) < 0.01

# %% after: between
assert (shares[:2] / shares[:2].sum()) @ legs[:2] == 3  # without spider

# %% after: after-between  numbers: 0.108, 0.446, 3, 3.54

# %% after: soft
# the same lookup, whatever the order of the pairs of keys and values
order = torch.tensor([2, 0, 1])
assert torch.allclose((kitten @ keys[order].T).softmax(dim=-1) @ legs[order], soft_lookup(kitten))
largest = [(match / t).softmax(dim=-1).max().item() for t in (0.1, 0.5, 1, 2, 10)]
assert sorted(largest, reverse=True) == largest  # a high temperature evens the weights out

# %% after: found  numbers: 2, 8
anywhere = 5 * torch.randn(10_000, 2, generator=torch.Generator().manual_seed(0))
for temperature in (0.05, 1, 5):
    outputs = soft_lookup(anywhere, temperature=temperature)
    assert outputs.min() > 2 - 1e-5 and outputs.max() < 8 + 1e-5  # up to rounding
# nowhere in the explorer's square is the output closer to 8 than at the lower left
steps_of_square = torch.arange(-30, 31, dtype=torch.float64) / 20
square = torch.cartesian_prod(steps_of_square, steps_of_square)
corner = torch.tensor([-1.5, -1.5], dtype=torch.float64)


def legs_at(query, temperature):
    return (query @ keys.T.double() / temperature).softmax(dim=-1) @ legs.double()


assert (keys.double() @ corner).sign().tolist() == [-1, -1, 1]
for temperature in SoftLookupExplorer.temperature.values:
    assert legs_at(square, temperature).max() <= legs_at(corner, temperature) + 1e-12

# %% after: turning  numbers: 0, 90, 180
# the alternative text
assert hard.unique().tolist() == [2, 4, 8] and (hard.diff() != 0).sum() == 2
ends = torch.stack([soft[0], soft.min(), soft[-1]])
assert torch.allclose(ends, torch.tensor([3.9, 3.5, 6.2]), atol=0.05)

# %% after: after-turning  numbers: 60

# %% after: two-slopes
assert abs(math.degrees(math.atan2(start[1], start[0])) - 60) < 0.01
assert (hard[(angle - 60).abs() < 14] == 2).all()  # wrong and flat

# %% after: after-two-slopes  numbers: 2, 3.50, 3.57
begin = start.clone().requires_grad_()
for rate in (0.001, 0.01, 0.1):  # a step in the direction in which the loss falls
    (slope_of_loss,) = torch.autograd.grad((soft_lookup(begin) - 4) ** 2, begin)
    assert soft_lookup(start) < soft_lookup(start - rate * slope_of_loss) < 4
assert soft_lookup(start) < soft_lookup(moved) < 4

# %% after: learned
assert torch.allclose(weights[1], torch.tensor([0.34, 0.44, 0.22]), atol=0.005)
assert torch.allclose(weights[0], torch.tensor([0.36, 0.51, 0.13]), atol=0.006)
assert abs(weights[1, 1] / weights[1, 2] - 2) < 0.01 and weights[1].argmax() == 1
assert abs(soft_lookup(path[-1]) - 4) < 1e-3
# %% after: after-learned  numbers: -1.5, 0.51, 0.13, 0.18, 0.36, 0.5, 0.59, 4.5
# the pull of each key: how the answer changes with its score, which is its weight times a distance
raw_scores = (keys @ start).detach().requires_grad_()
first = raw_scores.softmax(dim=0)
(pulls,) = torch.autograd.grad(first @ legs, raw_scores)
assert torch.allclose(pulls, first * (legs - first @ legs), atol=1e-6)
assert torch.allclose(pulls[[0, 2]], torch.tensor([0.18, 0.59]), atol=0.005)
distances = torch.tensor([0.5, 4.5])
assert torch.allclose(legs[[0, 2]] - first @ legs, distances, atol=0.005)
assert abs(pulls[1] + 0.51 * 1.5) < 0.01
assert torch.equal(keys[0], -keys[2])  # opposite directions
turned = torch.tensor([math.pi * d / 180 for d in (59, 60, 61)])
by_turning = soft_lookup(torch.stack([turned.cos(), turned.sin()], dim=-1))
assert by_turning.max() - by_turning.min() < 0.005 and moved.norm() < start.norm()
assert weights[1, 0] < weights[0, 0]  # none of it went to cat

# %% after: twelve
assert all((soft_lookup(done[-1]) - 4).abs().max() < 0.02 for done in (from_legs, from_both))
assert torch.allclose(from_legs[-1].sum(dim=-1), torch.tensor(math.log(2)), atol=0.01)  # the line
# a long query that points at spider has no slope
long = learn(-10 * keys[:1], legs_and_wings, torch.tensor([4.0, 0.0]))[-1]
assert (-10 * keys[:1])[0].tolist() == (10 * keys[2]).tolist()
assert (long @ keys.T).softmax(dim=-1)[0, 0] < 1e-3
# the same from five draws of random queries, which are at most as long as these
for seed in range(5):
    generator = torch.Generator().manual_seed(seed)
    elsewhere = F.normalize(torch.randn(12, 2, generator=generator))
    elsewhere *= torch.rand(12, 1, generator=generator)
    found_by_both = learn(elsewhere, legs_and_wings, torch.tensor([4.0, 0.0]))[-1]
    assert (found_by_both @ keys.T).softmax(dim=-1)[:, 0].min() > 0.96
    found_by_legs = learn(elsewhere, legs, 4.0)[-1]
    assert (soft_lookup(found_by_legs) - 4).abs().max() < 0.02
    assert (found_by_legs @ keys.T).softmax(dim=-1)[:, 0].max() < 0.9

# %% after: twelve-paths
assert from_both[-1].std(dim=0).max() < 0.03  # one place
lowest, highest = torch.tensor([-1.9, -2.2]), torch.tensor([2.8, 1.9])
for drawn in (from_legs, from_both):  # nothing leaves the picture
    assert (drawn > lowest).all() and (drawn < highest).all()

# %% after: after-twelve  numbers: 1,000, 0.15, 0.78, 0.97
of_legs, of_both = of_cat
assert abs(of_legs.min() - 0.15) < 0.005 and abs(of_legs.max() - 0.78) < 0.005
assert (of_both - 0.97).abs().max() < 0.005
more_steps = learn(from_both[-1], legs_and_wings, torch.tensor([4.0, 0.0]))[-1]
more_cat = (more_steps @ keys.T).softmax(dim=-1)[:, 0]
assert (more_cat > of_both).all() and more_cat.max() < 1
# no other average has four legs and no wings: the three values form a triangle
assert torch.linalg.matrix_rank(legs_and_wings[1:] - legs_and_wings[0]) == 2

# %% after: raw
assert raw.shape == (6, 6) and raw.numel() == 36

# %% after: longer
assert torch.allclose(longer[5], 2 * K[5]) and two_rows.argmax(dim=-1).tolist() == [3, 5]

# %% after: after-longer  numbers: 0.23, 0.30

# %% after: attention
two = torch.stack([x, x.flip(0)])  # "works for a batch as well"
assert torch.allclose(attention(two, two, two)[0][0], output, atol=1e-6)

# %% after: ten-zeros
assert abs(100 / (100 + math.e) - 0.974) < 5e-4  # the feedback
assert abs(math.e + 10 - 12.7) < 0.05 and abs(math.e - 2.7) < 0.05
assert abs(one_and_ten[1] - 0.079) < 5e-4

# %% after: after-zeros  numbers: -5, 0, 0.786, 1, 5, 1000

# %% after: differences
as_it_is, plus_1000, _ = torch.stack([row, row + 1000, row * 8]).softmax(dim=-1)
assert (as_it_is - plus_1000).abs().max() < 0.005
assert torch.tensor(1000.0, dtype=torch.float64).exp().isinf()

# %% after: over-dim-1
assert torch.allclose(raw.softmax(dim=1), raw.softmax(dim=-1))  # for one sentence it is correct
assert torch.allclose(maps[1], maps[0].T) and torch.allclose(maps[1].sum(dim=0), torch.ones(6))
sums = maps[1].sum(dim=-1)
assert abs(sums.min() - 0.83) < 0.005 and abs(sums.max() - 1.17) < 0.005


# %% after: the-answer  numbers: 60
assert abs(soft_lookup(kitten) - 3.64) < 0.005
assert of_cat[1][2] > 0.97 - 0.005  # the third direction is 60 degrees
assert torch.allclose(around[2], start, atol=1e-3)

# %% after: further  numbers: 60, 0.871

# %% after: ask-slope  numbers: 45, 60, 0.871

# %% after: slope
assert legs[:2].tolist() == [4, 2]
assert abs(query.grad.norm()) < 1e-3
assert (keys @ start / 0.02).softmax(dim=-1)[1] > 0.999  # bird has nearly all the weight

# %% after: after-row
raw_he = load_table("he_is_awesome.csv").values @ load_table("he_is_awesome.csv").values[0]
assert torch.allclose(raw_he[:2], torch.tensor([0.300, 0.700]))

# %% after: three-words
assert small.norm(dim=-1).argmax() == 1  # "is" is the longest, in nearly the direction of "He"
assert F.cosine_similarity(small[0], small[1], dim=0) > 0.96

# %% after: remember
# correct sums of rows do not prove the divisor correct
odd = (raw / math.sqrt(6)).softmax(dim=-1)  # the root of the number of keys
assert torch.allclose(odd.sum(dim=-1), torch.ones(6)) and not torch.allclose(odd, maps[0])
lowest, highest = V.amin(dim=0), V.amax(dim=0)  # "within the range of the values"
assert ((output >= lowest - 1e-6) & (output <= highest + 1e-6)).all()

# %% after: exercise-2  numbers: 0.9, 4
larger = (small[2] > small[0]) & (small[2] > small[1])
assert larger.tolist() == [True, False, False, False]  # the hint: one feature
wanted = small[2].clone().requires_grad_()  # gradient descent finds such a query
for _ in range(2000):
    (slope_of_loss,) = torch.autograd.grad(-(small @ wanted / 2).log_softmax(dim=-1)[2], wanted)
    wanted = (wanted - 0.5 * slope_of_loss).detach().requires_grad_()
assert (small @ wanted / 2).softmax(dim=-1)[2] > 0.9

# %% after: exercise-4  numbers: 1000, -1000

# %% after: exercise-6
ant = (learn(around, legs_and_wings, torch.tensor([6.0, 0.0]))[-1] @ keys.T).softmax(dim=-1)
assert torch.allclose(ant, torch.tensor([0.5, 0.0, 0.5]).expand(12, 3), atol=0.05)
assert (ant.amax(dim=0) - ant.amin(dim=0)).max() < 0.003

# %% after: in-torch
unscaled = F.scaled_dot_product_attention(x, x, x, scale=1.0)
assert torch.allclose(unscaled, raw.softmax(dim=-1) @ x, atol=1e-6)

# %% after: sources  numbers: 8, 1964, 2014, 2015, 2017, 2023, 2024

# %% after: plan  numbers: 3.64, 4, 6, 7, 10, 17, 50
longer_yet = learn(from_both[-1], legs_and_wings, torch.tensor([4.0, 0.0]))[-1]
assert (longer_yet.norm(dim=-1) > from_both[-1].norm(dim=-1)).all()

# %% after: questions  numbers: -1, 0, 1, 3, 4, 5, 8, 9
