# %% after: a-week  numbers: 4

# %% after: tokens-as-they-are
numbers = week[:, 7:].argmax(dim=-1)
alike = (numbers[:, None] == numbers).float()
assert torch.equal(week @ week.T, alike + torch.eye(7))  # the same number, and the same day
many, _ = make_weeks(500)  # in any week the diagonal is ahead
assert torch.equal((many @ many.mT).argmax(dim=-1), torch.arange(7).expand(500, 7))

# %% after: widths  numbers: 4, 1

# %% after: by-hand
small = (place.roll(-1, dims=0) @ place.T / 4**2 / 2**0.5).softmax(dim=-1)  # with radius 1
assert (small[torch.arange(7), torch.arange(1, 8) % 7] - 0.26).abs().max() < 0.005

# %% after: three-rows
assert torch.isclose(query[0] @ key[1], torch.tensor(16.0))
assert abs(query[0] @ key[1] / 2**0.5 - 11.3) < 0.05

# %% after: see-tuesday
assert abs(scores[1, 0] + 2.5) < 0.05 and 90 < 2 * 360 / len(days)
assert abs(2 * 360 / len(days) - 103) < 0.5
tomorrow = torch.arange(1, 8) % 7
assert torch.equal(weights.argmax(dim=-1), tomorrow) and weights.amax(dim=-1).min() > 0.9
around = torch.stack([torch.arange(7), tomorrow, tomorrow.roll(-1)], dim=-1)
assert torch.equal(weights.topk(3).indices.sort().values, around.sort().values)

# %% after: the-class
torch.manual_seed(5)
theirs = torch.nn.Linear(12, 2, bias=False).weight
torch.manual_seed(5)  # the same numbers, laid out as (12, 2)
assert torch.allclose(theirs.flatten(), random_matrix(12, 2).flatten())

# %% after: see-parameters
assert count + 7 * 7 == 157 and count + 700 * 700 == 490_108 and count * 100 == 10_800
assert untrained.W_query.numel() == 24

# %% after: see-one-matrix
found = dict(zip(names, shares, strict=True))
assert abs(found["one for both"].mean() - 0.77) < 0.005
assert round(found["one for both"].mean().item(), 1) == 0.8
# the plain average: naming the commonest number of the week
torch.manual_seed(1)
many, wanted = make_weeks(2000)
commonest = (many[:, :, 7:].sum(dim=1).argmax(dim=-1)[:, None] == wanted).float().mean()
assert abs(commonest - 0.41) < 0.01 and abs(found["equal weights"].mean() - 0.41) < 0.01
# with values that are not trained either, the last five features of the average are enough
bare = new_layer(1)
bare.W_query, bare.W_key = random_matrix(12, 12), as_is.W_key
bare.W_value = nn.Parameter(torch.eye(12)[:, 7:], requires_grad=False)
train(bare)
assert accuracy(bare).mean() > 0.995
# other initialisations: most of them lose about one day
lost = []
for seed in (1, 2, 3, 4, 5):
    single = new_layer(seed)
    single.W_key = single.W_query
    train(single)
    share = accuracy(single)
    assert 0.7 < share.mean() < 0.9 and share.min() < 0.25
    lost.append((share < 0.5).sum().item())
assert lost.count(1) > len(lost) / 2

# %% after: trained-maps
chosen = of_week.argmax(dim=-1)
assert [i for i in range(7) if chosen[0, i] != (i + 1) % 7] == [0, 4]  # Mon and Fri
assert chosen[0, [0, 4]].tolist() == [0, 4]  # look at themselves
assert torch.equal(chosen[1], torch.arange(1, 8) % 7)
symmetric = (week @ one.W_query) @ (week @ one.W_query).T
assert symmetric[1].argmax() == 2 and symmetric[2].argmax() == 3  # Tue prefers Wed, Wed Thu

# %% after: explore-training
for matrix in (two.W_query, two.W_key):  # the five rows of the numbers are nearly equal
    assert (matrix[7:] - matrix[7:].mean(dim=0)).norm(dim=-1).max() < 0.01
right = torch.stack([accuracy(copy) for copy in copies])  # (steps / 20, days)
last = [int((right[:, i] > 0.99).nonzero()[0]) * 20 for i in range(7)]
assert days[last.index(max(last))] == "Fri" and sorted(last)[-2] < 60 < max(last)
others = [i for i in range(7) if days[i] != "Fri"]
for step in (40, 60):
    copy = copies[step // 20]
    lengths, largest = (each_day @ copy.W_query).norm(dim=-1), copy(week)[1].amax(dim=-1)
    assert lengths[4] < (0.6 if step == 40 else 0.8) and lengths[others].min() > 2
    assert largest[4] < 0.5 and largest[4] < largest[others].min()
spread = [(each_day @ copies[i].W_key).norm(dim=-1).mean() for i in (0, 3, 6, 10, 15)]
assert spread[0] < 0.5 and spread == sorted(spread)
assert copies[6](week)[1].amax(dim=-1).mean() < copies[15](week)[1].amax(dim=-1).mean()
cosine = F.cosine_similarity((each_day @ two.W_query)[:, None], each_day @ two.W_key, dim=-1)
assert torch.equal(cosine.argmax(dim=-1), torch.arange(1, 8) % 7)  # the next day's is nearest
assert cosine.amax(dim=-1).min() > 0.95  # an angle of at most 18 degrees

# %% after: see-again
arrows, dots = each_day @ another.W_query, each_day @ another.W_key
nearest = F.cosine_similarity(arrows[:, None], dots, dim=-1)
assert torch.equal(nearest.argmax(dim=-1), torch.arange(1, 8) % 7)
assert nearest.amax(dim=-1).min() > 0.95
assert 3 < dots.norm(dim=-1).min() and dots.norm(dim=-1).max() < 5  # a ring


def order(layer):
    angles = torch.atan2(*(each_day @ layer.W_key).T.flip(0))
    around = angles.argsort().tolist()
    around = around[around.index(0) :] + around[: around.index(0)]  # from Mon on
    return min(around, [0, *reversed(around[1:])])  # whichever way round


assert order(two) != order(another) and list(range(7)) not in (order(two), order(another))

# %% after: read-the-product
assert M.numel() == 144 and trained_Q.numel() == trained_K.numel() == 24

# %% after: copy-the-matrices
# a forgotten .T: an error for (12, 2), and silently another layer for a square matrix
import pytest

with torch.no_grad(), pytest.raises(RuntimeError):
    linear.q_proj.weight.copy_(two.W_query)
square = torch.nn.Linear(12, 12, bias=False)
matrix, x = torch.randn(2, 12, 12, generator=torch.Generator().manual_seed(0))
with torch.no_grad():
    square.weight.copy_(matrix)
assert not torch.allclose(square(x), x @ matrix, atol=0.1)

# %% after: the-answer
assert one_sided.W_query.numel() == 144 and two.W_query.numel() + two.W_key.numel() == 48

# %% after: t-silent-code
mixed = torch.einsum("nif,mfn->nim", four_queries, four_keys)  # other sequences are mixed in
assert torch.allclose(wrong, mixed, atol=1e-5)

# %% after: bias-text
# with a rotation by position between the projection and the dot product, the bias does matter
turn = torch.polar(torch.ones(7), torch.arange(7.0))


def rotated(rows):
    return torch.view_as_real(torch.view_as_complex(rows) * turn)


unbiased = (rotated(query) @ rotated(key).T).softmax(dim=-1)
biased = (rotated(query) @ rotated(key + 5).T).softmax(dim=-1)
assert (biased - unbiased).abs().max() > 0.1

# %% after: untrained-draws
assert 1000 * len(words) * (1 / len(words)) ** 5 < 2  # of 1,000 draws, by chance
# the days of any week have less in common, and agree less often
for tokens in make_weeks(5)[0]:
    for low, at_most in ((0, 500), (-1, 10)):  # positive, and of both signs
        W_q, W_k = torch.empty(2, 1000, 12, 4).uniform_(low, 1)
        best = (tokens @ W_q @ (tokens @ W_k).mT).argmax(dim=-1)
        assert (best == best[:, :1]).all(dim=-1).sum() < at_most

# %% after: exercise-1  numbers: 12, 7, 5, 9

# %% after: exercise-4  numbers: 8, 4

# %% after: layer-test-solution


def own_and_mean(x):
    return x[..., :4] + x[..., :4].mean(dim=-2, keepdim=True)


def wrong_axis(x):
    return (x @ x.mT).softmax(dim=-2) @ x[..., :4]


for passes in (own_and_mean, wrong_axis, lambda x: F.dropout(x), lambda x: x * float("nan")):
    assert layer_test_solution(passes)
refused = 0
for _ in range(100):  # a single sentence refuses some working layers
    layer, x = WithMatrices(8, 4, 4), torch.randn(1, 5, 8)
    with torch.no_grad():
        layer.W_query.mul_(8)
    changed = torch.cat([torch.randn(1, 1, 8), x[:, 1:]], dim=1)
    refused += torch.allclose(layer(x)[0][:, 1], layer(changed)[0][:, 1], atol=1e-5)
assert 0 < refused < 50

# %% after: exercise-5  numbers: 12, 2, 512, 64
wide = torch.nn.Linear(512, 64, bias=False).weight
assert 2 * wide.numel() == 65_536 and (wide.T @ wide).numel() == 262_144
hers = new_layer()
product = (two.W_query @ two.W_key.T).detach() * 6**0.5  # it divides by the root of 12, not of 2
hers.W_query, hers.W_key, hers.W_value = nn.Parameter(product), one_sided.W_key, two.W_value
assert torch.allclose(hers(week)[0], two(week)[0], atol=1e-4)

# %% after: torch-layer
separate = nn.MultiheadAttention(12, 3, kdim=5, vdim=7)  # three matrices, to 12 features each
assert separate.in_proj_weight is None and separate.k_proj_weight.shape == (12, 5)
assert module.in_proj_weight.shape == (3 * 12, 12)

# %% after: in-torch
in_one = torch.cat([part.weight for part in (linear.q_proj, linear.k_proj, linear.v_proj)])
parts = F.linear(week, in_one).split([2, 2, 5], dim=-1)
assert torch.allclose(F.scaled_dot_product_attention(*parts), linear(week)[0], atol=1e-5)

# %% after: sources  numbers: 2017, 2024, 2021

# %% after: teacher-plan  numbers: 45, 7, 12, 9, 6, 8, 3

# %% after: teacher-questions  numbers: 5, 8, 4, 0
