# %% after: a-week  numbers: 4

# %% after: tokens-as-they-are
numbers = week[:, 7:].argmax(dim=-1)
alike = (numbers[:, None] == numbers).float()
assert torch.equal(week @ week.T, alike + torch.eye(7))  # the same number, and the same day
many, _ = make_weeks(500, torch.Generator().manual_seed(2))  # in any week, the diagonal is ahead
assert torch.equal((many @ many.mT).argmax(dim=-1), torch.arange(7).expand(500, 7))

# %% after: widths  numbers: 4

# %% after: by-hand
assert torch.allclose(query.roll(1, dims=0), key)  # each arrow ends on the next dot

# %% after: see-tuesday
assert abs(scores[1, 0] + 2.5) < 0.05 and 90 < 2 * 360 / len(days)
assert abs(2 * 360 / len(days) - 103) < 0.5
tomorrow = torch.arange(1, 8) % 7
assert torch.equal(output.argmax(dim=-1), answer)
assert torch.equal(weights.argmax(dim=-1), tomorrow) and weights.amax(dim=-1).min() > 0.9
around = torch.stack([torch.arange(7), tomorrow, tomorrow.roll(-1)], dim=-1)
assert torch.equal(weights.topk(3).indices.sort().values, around.sort().values)

# %% after: see-parameters
assert parameters == 108 and table.numel() == 10_000 * 49 and 700 == 100 * 7

# %% after: train-two
assert accuracy(two).min() > 0.99

# %% after: see-one-matrix
full, *tied, plain = (accuracy(layer) for layer in layers.values())
assert full.min() > 0.99
neighbours = torch.arange(7)
for seed, share in enumerate(
    tied
):  # one day guesses; in some runs a second is lost, wholly or partly
    assert (share > 0.99).sum() == (5 if seed == 3 else 6) and share.min() < 0.25
    table = layers[f"one for both, start {seed}"](test_weeks)[1]
    before, after = (table[:, neighbours, (neighbours + step) % 7] for step in (-1, 1))
    assert (before >= after).any(dim=-1).all()  # in every week
assert abs(plain.mean() - 0.41) < 0.005
commonest = test_weeks[:, :, 7:].sum(dim=1).argmax(dim=-1)[:, None]
assert ((commonest == test_answers).float().mean() - 0.41).abs() < 0.01
torch.manual_seed(1)  # longer training does not help
one = SelfAttention(12, 2, 5)
one.W_key = one.W_query
assert accuracy(train(one, 1500)).min() < 0.25

# %% after: neighbours
chain = [symmetric[i - 1, i].item() for i in range(7)]
assert chain[:6] == sorted(chain[:6]) and chain[6] < 0 < chain[0]
assert (pairs[0], pairs[-1]) == ("Sun-Mon", "Sat-Sun")
assert symmetric[5, 4] > 50 + symmetric[5, 6]  # Sat and Fri, Sat and Sun

# %% after: explore-training
for matrix in (two.W_query, two.W_key):  # the five rows of the numbers are nearly equal
    assert (matrix[7:] - matrix[7:].mean(dim=0)).norm(dim=-1).max() < 0.05
share, largest = accuracy(stages[60]), stages[60](week)[1].amax(dim=-1)
lengths = (each_day @ stages[60].W_query).norm(dim=-1)
assert 0.35 < lengths[6] < 0.6 and lengths[:6].min() > 1
assert share[6] < 0.7 and share[:6].min() > 0.8 and largest.argmin() == 6
assert accuracy(stages[80]).min() > 0.99
spread = [(each_day @ stages[step].W_key).norm(dim=-1).mean() for step in (0, 60, 100, 200, 300)]
assert spread == sorted(spread)
assert stages[100](week)[1].amax(dim=-1).mean() < stages[300](week)[1].amax(dim=-1).mean()
assert torch.equal(stages[300].W_query, two.W_query)

# %% after: two-planes


def order(layer):
    angles = torch.atan2(*rows_of(layer)[1].T.flip(0))
    around = angles.argsort().tolist()
    around = around[around.index(0) :] + around[: around.index(0)]  # from Mon on
    return min(around, [0, *reversed(around[1:])])  # whichever way round


for layer in (two, another):
    arrows, dots = rows_of(layer)
    nearest = F.cosine_similarity(arrows[:, None], dots, dim=-1)
    assert torch.equal(nearest.argmax(dim=-1), torch.arange(1, 8) % 7)
    assert nearest.amax(dim=-1).min() > 0.95
    assert 3 < dots.norm(dim=-1).min() and dots.norm(dim=-1).max() < 5  # a ring
    assert order(layer) != list(range(7))
assert order(two) != order(another) and accuracy(another).min() > 0.99

# %% after: another-pair
assert torch.equal((each_day @ M @ each_day.T).argmax(dim=-1), torch.arange(1, 8) % 7)

# %% after: read-the-product
assert M.numel() == 144 and trained_Q.numel() + trained_K.numel() == 48
torch.manual_seed(0)  # one matrix M, with the tokens themselves as keys
large = SelfAttention(12, 12, 5)
large.W_key = nn.Parameter(torch.eye(12), requires_grad=False)
assert accuracy(train(large)).min() > 0.99

# %% after: untrained-text  numbers: 2, 1000, 8, 4, 0, 1

# %% after: one-number
thin_layers = [line]
for seed in range(1, 4):
    torch.manual_seed(seed)
    thin_layers.append(train(SelfAttention(12, 1, 5)))
for thin in thin_layers:
    assert (accuracy(thin) > 0.99).sum() == 2
    above = (each_day @ thin.W_key).flatten() > 0
    assert above.sum() in (3, 4)
    table = thin(test_weeks)[1].mean(dim=0)  # most weight lies on the side of the next day
    assert all(table[i, above == above[(i + 1) % 7]].sum() > 0.5 for i in range(7))
lost = accuracy(line) < 0.9
assert accuracy(line)[lost].mean() > 0.02 + accuracy(equal).mean()

# %% after: untrained-draws
assert 1000 * len(words) * (1 / len(words)) ** 5 < 2  # of 1,000 draws, by chance
generator = torch.Generator().manual_seed(3)
for tokens in make_weeks(5, generator)[0]:  # the days have less in common
    for low, at_most in ((0, 500), (-1, 10)):  # positive, and of both signs
        drawn = torch.empty(2, 1000, 12, 4).uniform_(low, 1, generator=generator)
        best = (tokens @ drawn[0] @ (tokens @ drawn[1]).mT).argmax(dim=-1)
        assert (best == best[:, :1]).all(dim=-1).sum() < at_most

# %% after: exercise-1  numbers: 12, 7, 5, 9

# %% after: exercise-4  numbers: 0.001

# %% after: same-scores-solution
tokens = torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
for Q, K, same in ((new_Q, new_K, True), (trained_K, trained_Q, False)):
    scores_of = [
        (tokens @ one) @ (tokens @ other).T for one, other in ((trained_Q, trained_K), (Q, K))
    ]
    assert torch.allclose(*scores_of, atol=1e-2) == same
    assert same_scores_solution(trained_Q, trained_K, Q, K) == same

# %% after: exercise-5
from copy import copy


def exchanged(layer):
    other = copy(layer)
    other._parameters = {**layer._parameters, "W_query": layer.W_key, "W_key": layer.W_query}
    yesterday = test_answers.roll(2, dims=1)
    return (other(test_weeks)[0].argmax(dim=-1) == yesterday).float().mean(dim=0)


assert (exchanged(two) > 0.95).sum() == 6
column = (each_day @ M @ each_day.T)[:, 1]  # of Tue
assert column.topk(2).indices.tolist() == [3, 0] and column[3] - column[0] < 1
by_hand = (key @ query.T).argmax(dim=-1)
assert torch.equal(by_hand, torch.arange(-1, 6) % 7)

# %% after: linear
# a forgotten .T: an error for (12, 2), and silently another layer for a square matrix
import pytest

with torch.no_grad(), pytest.raises(RuntimeError):
    q_proj.weight.copy_(trained_Q)
square = torch.nn.Linear(12, 12, bias=False)
matrix, x = torch.randn(2, 12, 12, generator=torch.Generator().manual_seed(0))
with torch.no_grad():
    square.weight.copy_(matrix)
assert not torch.allclose(square(x), x @ matrix, atol=0.1)

# %% after: torch-layer
assert module.in_proj_weight.shape == (3 * 12, 12)

# %% after: sources  numbers: 2017, 2020, 2024, 2021

# %% after: teacher-plan  numbers: 50, 6, 11, 9, 4, 2

# %% after: teacher-questions  numbers: 5, 8, 4, 0
