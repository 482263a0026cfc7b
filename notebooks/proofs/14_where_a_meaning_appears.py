# %% after: six-layers  numbers: 19, 16, 35, 0, 5

# %% after: all-banks
assert len(encoder.layers) == 6
assert (~is_mixed).sum() == 19 and is_mixed.sum() == 16

# %% after: nearer  numbers: 34

# %% after: lean
of_thief = lean(vectors[thief], vectors[rest], is_river[rest])
assert is_river[thief] and of_thief[1] > 0.005 and of_thief[-1] < -0.005
assert (of_thief[1:6] > 0.001).all()

# %% after: read-lean  numbers: 0.9, 35, 0, 5
across = cosine_similarity(vectors[:, None], vectors[None], dim=-1)
across = across[is_river[:, None] != is_river].mean(dim=0)  # (7,)
assert 0.83 < across.min() and abs(across.mean() - 0.9) < 0.02
# before the first layer, the vector depends on the position of "bank" alone
where = [encoder.tokens(one).index("bank") for one in sentences]
for a in range(35):
    for b in range(a):
        assert torch.equal(vectors[a, 0], vectors[b, 0]) == (where[a] == where[b])

# %% after: see-included
assert is_right(included)[:, 0].sum() == 24 and is_right(left_out)[:, 0].sum() == 16
assert left_out.abs().min() > 1e-4 and included.abs().min() > 1e-5  # no sign hangs on rounding
# with shuffled meanings, each sentence in its own mean
unit = torch.nn.functional.normalize(vectors[:, 0], dim=-1)  # (35, 384)
for seed in range(4):
    generator = torch.Generator().manual_seed(seed)
    labels = [is_river[torch.randperm(35, generator=generator)] for _ in range(1000)]
    labels = torch.stack(labels)
    to_river, to_money = (
        torch.nn.functional.normalize(of.float() @ vectors[:, 0], dim=-1) @ unit.T
        for of in (labels, ~labels)
    )
    lucky = ((to_river > to_money) == labels).sum(dim=-1).float()
    assert abs(lucky.mean() - 21.6) < 0.3

# %% after: see-layers
right = trained_right
assert right[~is_mixed].sum(dim=0).tolist() == [7, 18, 19, 19, 19, 19, 19]
assert right[is_mixed].sum(dim=0).tolist() == [9, 11, 14, 14, 15, 14, 13]
assert right.sum(dim=0).tolist() == [16, 29, 33, 33, 34, 33, 32]
# some mixed sentences are right in the middle and wrong at the end
assert (right[is_mixed][:, 2:6].any(dim=1) & ~right[is_mixed][:, 6]).any()

# %% after: few  numbers: 19, 15, 35, 1, 95%
from math import comb

# how often Wilson's interval holds the true rate
for n in (19, 35):
    held = []
    for p in (0.5, 0.6, 0.7, 0.8, 0.85, 0.9):
        ends = [wilson_interval(k, n) for k in range(n + 1)]
        held.append(
            sum(
                comb(n, k) * p**k * (1 - p) ** (n - k)
                for k, (low, high) in enumerate(ends)
                if low <= p <= high
            )
        )
    assert min(held) > 0.91 and abs(sum(held) / len(held) - 0.95) < 0.015

# %% after: read-intervals  numbers: 19, 72
assert abs(1 - wilson_interval(19, 19)[0] - 1 / 6) < 0.005

# %% after: ask-included  numbers: 17

# %% after: ask-average  numbers: 72, 17

# %% after: see-average
assert average_right.sum(dim=0).tolist() == [16, 20, 29, 26, 28, 28, 28]
assert leans(average, is_river).abs().min() > 2e-5
# centred by the middle of the two means
for one, uncentred in ((vectors, trained_right), (average, average_right)):
    counts = torch.zeros(7, dtype=torch.long)
    for i in range(35):
        left = torch.arange(35) != i
        known, labels = one[left], is_river[left]
        middle = (known[labels].mean(dim=0) + known[~labels].mean(dim=0)) / 2
        counts += (lean(one[i] - middle, known - middle, labels) > 0) == is_river[i]
    assert (counts - uncentred.sum(dim=0)).abs().max() <= 1
# without the MLPs
bare = load_encoder()
for block in bare.layers:
    block.contract.weight = torch.nn.Parameter(0 * block.contract.weight, requires_grad=False)
    block.contract.bias = torch.nn.Parameter(0 * block.contract.bias, requires_grad=False)
of_bare = is_right(leans(vectors_of(bare, "bank", sentences, edit=plain_average), is_river))
assert of_bare[:, 6].sum() == 27

# %% after: paired
trained_only, average_only = (
    [one[kind].sum(dim=0)[1:].tolist() for kind in kinds.values()]
    for one in (only_trained, only_average)
)
assert trained_only == [[8, 2, 3, 3, 2, 3], [2, 2, 4, 3, 3, 2], [10, 4, 7, 6, 5, 5]]
assert average_only == [[0] * 6, [1, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 1]]

# %% after: read-paired  numbers: 1,000, 85, 2,048, 24, 20, 64, 32, 7, 6, 0, 2, 3
from math import comb


def once_in(more, fewer):
    """How rarely tosses of a coin come out at least as one-sided, to either side."""
    n = more + fewer
    return 2**n / (2 * sum(comb(n, k) for k in range(fewer + 1)))


assert round(once_in(10, 1)) == 85 and once_in(7, 0) == 64 and once_in(6, 0) == 32
# one coin for each sentence, for all six layers at once: so large a lead is rare
difference = (trained_right.float() - average_right.float())[:, 1:]
for seed in range(4):
    coins = torch.randint(2, (20000, 35), generator=torch.Generator().manual_seed(seed)) * 2.0 - 1
    assert ((coins @ difference).sum(dim=1).abs() >= difference.sum()).float().mean() < 1 / 1000

# %% after: hide-cls
without_it = is_right(leans(hidden, is_river)).sum(dim=0)
assert without_it.tolist() == [16, 29, 33, 32, 31, 32, 32]
assert leans(hidden, is_river).abs().min() > 2e-5
assert (trained_right.sum(dim=0) - without_it).max() == 3

# %% after: explorer
robbed = LayersExplorer()
assert robbed.result.leans[1] > 0.02 and -0.01 < robbed.result.leans[4:].min()
assert (robbed.result.leans[4:] < 0).all() and (robbed.result.leans[1:4] > 0).all()
looks = encoder.read(robbed.sentence)
of_bank = looks.weights.mean(dim=1)[:, looks.tokens.index("bank"), looks.tokens.index("robbed")]
assert of_bank.argmax() == 0 and of_bank[0] > 0.2 and of_bank[1:].max() < 0.1

# %% after: the-swap  numbers: 34

# %% after: ask-swap  numbers: 35

# %% after: see-swap
assert (wrong < right).sum(dim=-1).tolist() == [34, 35, 34, 35, 32]
assert (wrong - right).abs().min() > 1e-3  # no count hangs on rounding
means = 100 * torch.stack([wrong, right]).mean(dim=-1)
assert (means - means.round()).abs().max() < 0.49
assert 1 / 9 < -wrong[1].mean() < 1 / 7.5 and wrong[4].mean() > wrong[:4].mean(dim=-1).max()
# nothing is changed if a sentence is its own donor
for number in (1, 3, 5):
    kept = swap(thief, number)[thief]
    assert torch.allclose(kept, others[thief], atol=1e-4)

# %% after: read-swap  numbers: 2, 35, 32, 5, 0, 1, 4


# %% after: see-order
assert [row[1].item() for row in rows] == [31, 27] and [row[-1].item() for row in rows] == [30, 28]

# %% after: further-layers  numbers: 31, 29, 27, 20, 0

# %% after: without-layers
assert removed == [28, 31, 30, 30, 33, 34, 23]
# without heads, the position of "bank" decides
alone = vectors_of(encoder, "bank", sentences, edit=lambda layer, weights: 0 * weights)
by_position = {}
for vector, pieces in zip(alone, tokens, strict=True):
    place = pieces.index("bank")
    assert torch.allclose(by_position.setdefault(place, vector), vector, atol=1e-5)

# %% after: further-words  numbers: 34, 32, 144, 5

# %% after: eight-table
counts = torch.stack(rows)[:, 1:]
assert (counts[0] > counts[1]).all() and (counts[2] > counts[3]).all()
assert (counts[0] > counts[2])[3:].all()

# %% after: read-eight  numbers: 3

# %% after: exercise-1  numbers: 0.9

# %% after: exercise-2  numbers: 35

# %% after: exercise-5  numbers: 2,000, 95%

# %% after: sources  numbers: 2019, 2020, 2021, 2022, 1927

# %% after: next  numbers: 2017, 2021, 2022

# %% after: teacher-plan  numbers: 50, 7, 9, 10, 12, 19, 32, 40, 28

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 33, 28, 35
