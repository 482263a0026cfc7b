# %% after: six-layers  numbers: 19, 16, 35, 0, 5

# %% after: all-banks
assert len(encoder.layers) == 6
assert (~is_mixed).sum() == 19 and is_mixed.sum() == 16

# %% after: nearer  numbers: 34

# %% after: lean
of_thief = lean(vectors[thief], vectors[rest], is_river[rest])
assert is_river[thief] and of_thief[1] > 0.005 and of_thief[-1] < -0.005
assert (of_thief[1:6] > 0.001).all()

# %% after: read-lean  numbers: 35, 0, 5
# the two means point in nearly the same direction
river_mean, money_mean = vectors[is_river].mean(dim=0), vectors[~is_river].mean(dim=0)
assert cosine_similarity(river_mean, money_mean, dim=-1).min() > 0.9
# before the first layer, the vector depends on the position of "bank" alone
where = [encoder.tokens(one).index("bank") for one in sentences]
for a in range(35):
    for b in range(a):
        assert torch.equal(vectors[a, 0], vectors[b, 0]) == (where[a] == where[b])

# %% after: ask-included  numbers: 17, 24

# %% after: see-included
assert is_right(included)[:, 0].sum() == 24 and is_right(left_out)[:, 0].sum() == 16
assert left_out.abs().min() > 1e-4 and included.abs().min() > 1e-5  # no sign hangs on rounding

# %% after: ask-layers  numbers: 17

# %% after: see-layers
right = trained_right
assert right[~is_mixed].sum(dim=0).tolist() == [7, 18, 19, 19, 19, 19, 19]
assert right[is_mixed].sum(dim=0).tolist() == [9, 11, 14, 14, 15, 14, 13]
assert right.sum(dim=0).tolist() == [16, 29, 33, 33, 34, 33, 32]
# some mixed sentences are right in the middle and wrong at the end
assert (right[is_mixed][:, 2:6].any(dim=1) & ~right[is_mixed][:, 6]).any()

# %% after: read-layers  numbers: 0, 1, 2, 3, 4, 29, 35, 15
assert trained_right[:, 1].sum() == 29 and trained_right[is_mixed].sum(dim=0).argmax() == 4
assert (to_own_side[:, 3] > to_own_side[:, 1]).float().mean() > 0.8
assert (trained_right[:, 3] == trained_right[:, 4:].all(dim=1)).sum() >= 30
assert left_out[thief, 4:6].abs().max() < left_out[thief, 0] + 0.002

# %% after: read-intervals  numbers: 19, 29, 35, 72
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
assert wilson_interval(29, 35)[0] > 0.5

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

# %% after: coins
only_trained, only_average = trained_right & ~average_right, average_right & ~trained_right
assert only_trained.sum() == 37 and only_average.sum() == 2


# %% after: milder
early = (trained_right.long() - milder_right.long())[:, 1:4].sum()
whole = (trained_right.long() - milder_right.long()).sum()
assert early == 19 and whole == 26 and 0.70 < early / whole < 0.75
assert (trained_right.sum(dim=0) >= milder_right.sum(dim=0)).all()

# %% after: explorer
robbed = LayersExplorer()
assert robbed.result.leans[1] > 0.02 and robbed.result.leans[2:].abs().max() <= 0.011
robbed_words = encoder.read(robbed.sentence)
row_of_bank = robbed_words.weights.mean(dim=1)[:, robbed_words.tokens.index("bank")]  # (6, L)
of_robbed, of_river = (row_of_bank[:, robbed_words.tokens.index(w)] for w in ("robbed", "river"))
assert of_robbed.argmax() == 0 and abs(of_robbed[0] - 0.24) < 0.006
assert 1.7 < of_robbed[0] / of_river[0] < 2

# %% after: use-it  numbers: 0, 0.24, 35, 95%

# %% after: the-swap  numbers: 34

# %% after: see-swap
assert wrong.mean().round() == -9 and 0 < right.mean() < 2 and (wrong < right).sum() == 34
# nothing is changed if a sentence is its own donor
for number in (0, 2):
    assert torch.allclose(swap(thief, number, of_bank)[thief], others[thief], atol=1e-4)
assert (leans(others, is_river) * side > 0).sum() == 30

# %% after: read-swap  numbers: 10, 34, 35, 0
assert abs((right - wrong).mean() - 10) < 0.5

# %% after: controls
size = {name: (right_one - wrong_one) for name, (wrong_one, right_one) in swaps.items()}
of_swapped, of_first, of_nothing = size.values()
assert (of_first > 0).sum() == 34 and 0 < 4 * of_first.mean() < of_swapped.mean()
error = of_nothing.std() / 35**0.5
assert of_nothing.mean().abs() < 2 * error < of_swapped.mean() / 5
assert all(abs(one).min() > 1e-3 for one in (of_swapped, of_first))  # no sign hangs on rounding

# %% after: read-controls  numbers: 0, 1, 34, 35

# %% after: see-order
assert [row[0].item() for row in rows] == [31, 27]

# %% after: further-words  numbers: 31, 29, 27, 20, 0, 144


# %% after: other-eight
def luck(ours, theirs, seed):
    leads = (ours.float() - theirs.float()).sum(dim=1)
    coins = torch.randint(2, (100_000, len(leads)), generator=torch.Generator().manual_seed(seed))
    return ((coins * 2.0 - 1) @ leads).abs().ge(leads.sum()).float().mean().item()


early, late = slice(0, 4), slice(4, 7)
for seed in range(1, 5):  # with other coins
    assert luck(trained_right, average_right, seed) < 0.001
    assert luck(trained_right, milder_right, seed) < 0.005
    assert luck(trained_right[:, early], milder_right[:, early], seed) < 0.05
    assert luck(trained_right[:, late], milder_right[:, late], seed) > 0.2
    assert luck(rights[0][:, late], rights[1][:, late], seed) < 0.02
trained_144, milder_144, average_144 = (right.sum(dim=0)[1:] for right in rights)
assert (trained_144 > milder_144).all() and (trained_144 > average_144).all()
assert wilson_interval(88, 144)[0] > 0.5

# %% after: read-eight  numbers: 88, 144, 72, 3, 5

# %% after: exercise-1  numbers: 0.9

# %% after: exercise-2  numbers: 7

# %% after: exercise-5  numbers: 2,000, 95%

# %% after: sources  numbers: 2019, 2020, 2021, 2022, 1927

# %% after: next  numbers: 2017, 2021, 2022

# %% after: teacher-plan  numbers: 50, 9, 13, 15, 19, 32, 40, 28, 34, 35

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 33, 28, 35
