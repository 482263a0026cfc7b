# %% after: hard
assert abs(math.degrees(math.atan2(kitten[1], kitten[0])) - 30) < 0.01

# %% after: soft
# the same look-up, whatever the order of the pairs of keys and values
order = torch.tensor([2, 0, 1])
assert torch.allclose((kitten @ keys[order].T).softmax(dim=-1) @ legs[order], soft_look_up(kitten))
largest = [(match / t).softmax(dim=-1).max().item() for t in (0.1, 0.5, 1, 2, 10)]
assert sorted(largest, reverse=True) == largest  # a high temperature evens the weights out

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


assert (keys.double() @ corner).sign().tolist() == [-1, -1, 1]
assert (keys.double() @ straight).sign().tolist() == [-1, 0, 1]
for temperature in SoftLookupExplorer.temperature.values:
    assert legs_at(square, temperature).max() <= legs_at(corner, temperature) + 1e-12
assert f"{legs_at(straight, 0.05):.4f} {legs_at(corner, 0.05):.4f}" == "8.0000 8.0000"

# %% after: turning  numbers: 0, 90, 180
# the alternative text
assert hard.unique().tolist() == [2, 4, 8] and (hard.diff() != 0).sum() == 2
ends = torch.stack([soft[0], soft.min(), soft[-1]])
assert torch.allclose(ends, torch.tensor([3.9, 3.5, 6.2]), atol=0.05)

# %% after: after-turning  numbers: 30, 50, 70, 0.645


def slope_at(degrees, temperature):
    angle = torch.tensor(math.radians(degrees), requires_grad=True)
    soft_look_up(torch.stack([angle.cos(), angle.sin()]), temperature).backward()
    return abs(angle.grad.item())


assert slope_at(45, 0.02) > 10 * slope_at(45, 1)  # "that is true close to 45 degrees"
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
assert abs(soft_look_up(degrees_50) - 3.52) < 0.005
for rate in (0.001, 0.01, 0.1):
    stepped = soft_look_up(query_learned_from(legs, 4.0, 1, rate, start=degrees_50))
    assert soft_look_up(degrees_50) < stepped < 4
# from 70 degrees the legs grow towards bird, and beyond it they reach 4 again
rising = soft[(angle > 69) & (angle < 110)]
assert (rising.diff() > 0).all() and rising[0] < 4 < rising[-1]
# for teachers: one number is reached by giving spider more weight, not by choosing cat ...
mixture = (keys @ query_learned_from(legs, 4.0, 1000, 0.01)).softmax(dim=-1)
assert abs(mixture @ legs - 4) < 1e-3
assert mixture[0] < (keys @ kitten).softmax(dim=-1)[0] and mixture[2] > 0.15
# ... and with a value of three numbers for each key, cat is chosen
chosen = (keys @ query_learned_from(torch.eye(3), torch.eye(3)[0], 1000, 0.5)).softmax(dim=-1)
assert chosen[0] > 0.9

# %% after: ask-slope  numbers: 30, 45

# %% after: slope
# "all but vanishes": a lead of 25 temperatures, for any queries and temperatures
generator = torch.Generator().manual_seed(0)
for _ in range(200):
    one = torch.randn(2, generator=generator)
    temperature = 10 ** (4 * torch.rand((), generator=generator) - 2).item()
    first, second, _ = (keys @ one).sort(descending=True).values.tolist()
    far = (one * 25 * temperature / (first - second)).double().requires_grad_()
    ((far @ keys.T.double() / temperature).softmax(dim=-1) @ legs.double()).backward()
    assert far.grad.norm() * temperature < 1e-8

# %% after: raw
assert raw.numel() == 36

# %% after: longer
assert abs(Q[3] @ longer[5] - 2.6) < 1e-5
one_key = torch.tensor([1.3, 0.0])
for degrees in (0, 1, 45, 89, 91, 135, 180):
    asking = torch.tensor([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])
    assert (asking @ (2 * one_key) > asking @ one_key).item() == (degrees < 90)

# %% after: attention
# "The next day is bright", the example named under "Sources"; data/README.md says whose it is
inputs = load_table("the_next_day_is_bright.csv").values
generator = torch.Generator().manual_seed(123)
mixed, shared = attention(*(inputs @ torch.rand(8, 4, generator=generator) for _ in range(3)))
reference = torch.tensor([0.0980, 0.3099, 0.3521, 0.0589, 0.1811])
assert torch.allclose(shared[1], reference, atol=1e-4)
assert torch.allclose(mixed[1], torch.tensor([1.3301, 1.5304, 1.8753, 2.3433]), atol=1e-4)
two = torch.stack([x, x.flip(0)])  # "works for a batch as well"
assert torch.allclose(attention(two, two, two)[0][0], output)

# %% after: ten-zeros
assert abs(math.e + 10 - 12.7) < 0.05 and abs(math.e - 2.7) < 0.05
assert abs(one_and_ten[1] - 0.079) < 5e-4

# %% after: zeros-add-up  numbers: 5, 3, 1
left = torch.stack([kept[f"score {score}"][50] for score in (5, 3, 1)])
assert torch.allclose(left, torch.tensor([0.75, 0.29, 0.05]), atol=0.005)

# %% after: after-zeros  numbers: -5, 1000
beside = {score: torch.tensor([score, 0.0]).softmax(dim=-1)[1].item() for score in (5.0, -5.0)}
assert abs(beside[5.0] - 0.007) < 5e-4 and abs(beside[-5.0] - 0.993) < 5e-4

# %% after: differences
assert ((row * 8).softmax(dim=-1) > 0).all()  # shown as 0.00, and not zero
assert torch.tensor(1000.0).exp().isinf()
near_1000 = torch.nextafter(torch.tensor(1000.0), torch.tensor(2000.0)) - 1000
assert 1e-5 < near_1000 < 1e-4  # "about four decimals"

# %% after: over-dim-1
assert torch.allclose(scores.softmax(dim=1), weights)  # for one sentence it is correct

# %% after: both-axes
assert torch.allclose(both[1], both[0].T)

# %% after: the-answer
assert abs(soft_look_up(kitten) - 3.64) < 0.005

# %% after: after-row
raw_he = small @ small[0]
directions = torch.nn.functional.cosine_similarity(small[:1], small)
assert abs(raw_he[1] - 0.700) < 1e-5 and abs(raw_he[0] - 0.300) < 1e-5
assert directions[1] > 0.96 and small.norm(dim=-1).argmax() == 1

# %% after: wide
assert torch.allclose(attention(small, small, one_hot)[0], attention(small, small, small)[1])

# %% after: remember
# correct sums of rows do not prove the divisor correct
odd = (raw / math.sqrt(6)).softmax(dim=-1)  # the root of the number of keys
assert torch.allclose(odd.sum(dim=-1), torch.ones(6)) and not torch.allclose(odd, weights)
lowest, highest = V.amin(dim=0), V.amax(dim=0)  # "within the range of the values"
assert ((output >= lowest - 1e-6) & (output <= highest + 1e-6)).all()

# %% after: exercise-2  numbers: 0.9
larger = (small[2] > small[0]) & (small[2] > small[1])
assert larger.tolist() == [True, False, False, False]  # the hint: one feature

# %% after: exercise-4  numbers: 1000, -1000

# %% after: in-torch
unscaled = torch.nn.functional.scaled_dot_product_attention(x, x, x, scale=1.0)
assert torch.allclose(unscaled, raw.softmax(dim=-1) @ x)

# %% after: sources  numbers: 8, 2014, 2015, 2017, 2023, 2024

# %% after: plan  numbers: 3.64, 4, 5, 6, 7, 8, 9, 10, 45

# %% after: questions  numbers: -1, 0, 1, 3, 4, 5, 8, 9
