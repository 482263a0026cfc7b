# %% after: a-week  numbers: 4

# %% after: tokens-as-they-are
numbers = week[:, 7:].argmax(dim=-1)
alike = (numbers[:, None] == numbers).float()
assert torch.equal(week @ week.T, alike + torch.eye(7))  # the same number, and the same day
many, _ = make_weeks(500, torch.Generator().manual_seed(2))  # in any week, the diagonal is ahead
assert torch.equal((many @ many.mT).argmax(dim=-1), torch.arange(7).expand(500, 7))

# %% after: why-it-fails  numbers: 4

# %% after: by-hand
assert torch.allclose(query.roll(1, dims=0), key)  # each arrow ends on the next dot
assert abs(scores[1, 0] + 2.5) < 0.05 and 90 < 2 * 360 / len(days)
assert abs(2 * 360 / len(days) - 103) < 0.5
tomorrow = torch.arange(1, 8) % 7
assert torch.equal(output.argmax(dim=-1), answer)
assert torch.equal(weights.argmax(dim=-1), tomorrow) and weights.amax(dim=-1).min() > 0.9

# %% after: which-matrices-does-the-task-need  numbers: 12

# %% after: train-two
assert accuracy(two).min() > 0.99
for seed in range(1, 5):  # from every start
    torch.manual_seed(seed)
    assert accuracy(train(SelfAttention(12, 2, 5))).min() > 0.99

# %% after: see-without
for seed in range(5):
    for d_k, keys, values in ((12, same, None), (2, None, numbers), (12, same, numbers)):
        torch.manual_seed(seed)
        layer = SelfAttention(12, d_k, 5)
        for name, matrix in (("W_key", keys), ("W_value", values)):
            if matrix is not None:
                setattr(layer, name, fixed(matrix))
        assert accuracy(train(layer)).min() > 0.99

# %% after: see-one-matrix
*tied, only_value, equal = (accuracy(layer) for layer in layers.values())
neighbours = torch.arange(7)
for seed, share in enumerate(tied):
    # one day guesses; in start 3 a second is partly lost
    assert (share > 0.99).sum() == (5 if seed == 3 else 6) and share.min() < 0.25
    table = layers[f"one for both, start {seed}"](test_weeks)[1]
    before, after = (table[:, neighbours, (neighbours + step) % 7] for step in (-1, 1))
    assert (before >= after).any(dim=-1).all()  # in every week
for d_k in (1, 2, 12, 64):  # whatever the one matrix is, also where scores depend on the numbers
    one = SelfAttention(12, d_k, 5)
    one.W_query = one.W_key = fixed(3 * torch.randn(12, d_k, dtype=torch.float64))
    one.W_value = fixed(numbers.double())
    table = one(test_weeks.double())[1]
    before, after = (table[:, neighbours, (neighbours + step) % 7] for step in (-1, 1))
    assert (before >= after).any(dim=-1).all()
assert 0.3 < only_value.min() and only_value.max() < 0.38 < equal.min()
counts = test_weeks[..., 7:].sum(dim=1)  # (2000, 5): how often each number occurs in the week
averages = [layers["equal weights"]]
for seed in range(3):
    torch.manual_seed(seed)
    averages.append(SelfAttention(12, 12, 5))
    averages[-1].W_query, averages[-1].W_key = fixed(0 * same), fixed(same)
    train(averages[-1])
for average in averages:
    named = counts.gather(1, average(test_weeks)[0].argmax(dim=-1))  # (2000, 7)
    assert torch.equal(named, counts.amax(dim=1, keepdim=True).expand_as(named))

# %% after: explore-product
M = trained_Q @ trained_K.T
assert M.numel() == 144 and trained_Q.numel() + trained_K.numel() == 48
for matrix in (trained_Q, trained_K):  # the five rows of the numbers are nearly equal
    assert (matrix[7:] - matrix[7:].mean(dim=0)).norm(dim=-1).max() < 0.05
for seed in range(20):  # any invertible matrix
    A = torch.randn(2, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    new_Q, new_K = trained_Q.double() @ A, trained_K.double() @ A.inverse().T
    assert torch.allclose(new_Q @ new_K.T, M.double(), atol=1e-3)
best = (each_day @ M @ each_day.T).argmax(dim=-1)
assert torch.equal(best, torch.arange(1, 8) % 7)

# %% after: the-answer  numbers: 144, 48

# %% after: one-number
thin_layers = [line]
for seed in range(1, 4):
    torch.manual_seed(seed)
    thin_layers.append(train(SelfAttention(12, 1, 5)))
for thin in thin_layers:
    able = accuracy(thin) > 0.99
    most = thin(test_weeks)[1].mean(dim=0).amax(dim=-1)  # (7,): what one day gives another
    assert able.sum() == 2 and most[~able].max() < 0.5 < most[able].min()

# %% after: exercise-1  numbers: 12, 7, 5, 9

# %% after: same-scores-solution
tokens = torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
A = torch.tensor([[2.0, 1.0], [0.0, 1.0]])
new_Q, new_K = trained_Q @ A, trained_K @ A.inverse().T
for Q, K, equal in ((new_Q, new_K, True), (trained_K, trained_Q, False)):
    both = [(tokens @ q) @ (tokens @ k).T for q, k in ((trained_Q, trained_K), (Q, K))]
    assert torch.allclose(*both, atol=1e-2) == equal
    assert same_scores_solution(trained_Q, trained_K, Q, K) == equal

# %% after: exchange
for layer, count in ((two, 6), (another, 7)):
    swapped.W_query, swapped.W_key, swapped.W_value = layer.W_key, layer.W_query, layer.W_value
    right = swapped(test_weeks)[0].argmax(dim=-1) == yesterday
    assert right.all(dim=0).sum() == count
assert torch.equal((key @ query.T).argmax(dim=-1), torch.arange(-1, 6) % 7)

# %% after: linear
# a forgotten .T: an error for (12, 2), and silently another layer for a square matrix
import pytest

with torch.no_grad(), pytest.raises(RuntimeError):
    q_proj.weight.copy_(two.W_query)
square = torch.nn.Linear(12, 12, bias=False)
matrix, x = torch.randn(2, 12, 12, generator=torch.Generator().manual_seed(0))
with torch.no_grad():
    square.weight.copy_(matrix)
assert not torch.allclose(square(x), x @ matrix, atol=0.1)

# %% after: sources  numbers: 2017, 2024, 2021

# %% after: teacher-plan  numbers: 44, 5, 7, 8, 2

# %% after: teacher-questions  numbers: 5, 8, 4, 0, 3
