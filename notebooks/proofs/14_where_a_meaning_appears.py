# %% after: six-layers  numbers: 19, 16

# %% after: all-banks
assert len(encoder.layers) == 6
assert (bank.kind != "mixed").sum() == 19 and (bank.kind == "mixed").sum() == 16

# %% after: read-lean  numbers: 0.9, 35
from itertools import combinations

cos = torch.nn.functional.cosine_similarity
across = [
    cos(vectors[a], vectors[b], dim=-1)
    for a, b in combinations(range(35), 2)
    if is_river[a] != is_river[b]
]
across = torch.stack(across).mean(dim=0)
assert 0.83 < across.min() and abs(across.mean() - 0.9) < 0.02
# before the first layer, the vector depends on the position of "bank" alone
at = [encoder.tokens(one).index("bank") for one in sentences]
for a, b in combinations(range(35), 2):
    assert torch.equal(vectors[a, 0], vectors[b, 0]) == (at[a] == at[b])

# %% after: ask-included  numbers: 17, 22

# %% after: see-included
assert is_right(included)[:, 0].sum() == 24 and is_right(left_out)[:, 0].sum() == 16
assert left_out.abs().min() > 1e-4  # no sign hangs on rounding

# with shuffled meanings, each sentence in its own mean
torch.manual_seed(0)
labels = torch.stack([is_river[torch.randperm(35)] for _ in range(2000)])
unit = torch.nn.functional.normalize(vectors[:, 0], dim=-1)  # (35, 384)
to_river, to_money = (
    torch.nn.functional.normalize(of.float() @ vectors[:, 0], dim=-1) @ unit.T
    for of in (labels, ~labels)
)
lucky = ((to_river > to_money) == labels).sum(dim=-1).float()
assert abs(lucky.mean() - 21.6) < 0.1

# %% after: see-layers
clear = ~is_mixed
right = is_right(left_out)
assert right[clear].sum(dim=0).tolist() == [7, 18, 19, 19, 19, 19, 19]
assert right[is_mixed].sum(dim=0).tolist() == [9, 11, 14, 14, 15, 14, 13]
assert right.sum(dim=0).tolist() == [16, 29, 33, 33, 34, 33, 32]
# some mixed sentences are right in the middle and wrong at the end
assert (right[is_mixed][:, 2:6].any(dim=1) & ~right[is_mixed][:, 6]).any()

# %% after: few  numbers: 35, 95%
from math import comb

# how often Wilson's interval holds the true rate
for n in (19, 35, 48):
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

# %% after: read-intervals  numbers: 16, 19, 35, 72
assert abs(1 - wilson_interval(19, 19)[0] - 1 / 6) < 0.005

# %% after: ask-average  numbers: 72, 17

# %% after: see-average
right = is_right(leans(average, is_river))
assert right.sum(dim=0).tolist() == [16, 20, 29, 26, 28, 28, 28]
assert leans(average, is_river).abs().min() > 2e-5
# without the MLPs
bare = load_encoder()
for block in bare.layers:
    block.contract.weight = torch.nn.Parameter(0 * block.contract.weight, requires_grad=False)
    block.contract.bias = torch.nn.Parameter(0 * block.contract.bias, requires_grad=False)
of_bare = is_right(leans(vectors_of(bare, "bank", sentences, edit=plain_average), is_river))
assert of_bare[:, 6].sum() == 27

# %% after: draw-average  numbers: 95, 0.9, 0.57
shares = trained_right.float().mean(dim=0), average_right.float().mean(dim=0)
assert abs(shares[0][1] - 0.83) < 0.005 and shares[0][2:].min() > 0.9
assert abs(shares[1][1] - 0.57) < 0.005 and (shares[1][2:] - 0.79).abs().max() < 0.06
trained_low = [wilson_interval(int(one), 35)[0] for one in trained_right.sum(dim=0)]
average_high = [wilson_interval(int(one), 35)[1] for one in average_right.sum(dim=0)]
assert all(low < high for low, high in zip(trained_low, average_high, strict=True))


# %% after: read-paired  numbers: 85, 2,048, 24, 12, 20
from math import comb


def once_in(more, fewer):
    """How rarely tosses of a coin come out at least as one-sided, to either side."""
    n = more + fewer
    return 2**n / (2 * sum(comb(n, k) for k in range(fewer + 1)))


assert round(once_in(10, 1)) == 85 and 4.5 < once_in(5, 1) < 5
assert (counts[0] > counts[1])[1:].all()


# with one position for all words: 31 and 27, and four sentences that differ
at_5 = [
    is_right(leans(torch.stack([at_one_position(one, edit) for one in sentences]), is_river))[:, 1]
    for edit in (None, plain_average)
]
assert [one.sum().item() for one in at_5] == [31, 27]
assert differing(*at_5).tolist() == [4, 0]

# %% after: ask-order  numbers: 23, 19, 16, 13, 11, 9, 17

# %% after: see-order
last = torch.stack(by_change)[:, -1].tolist()
assert last == [32, 30, 28, 26, 29, 29, 28], last
of_mixed = [is_right(leans(one, is_river))[is_mixed, -1].sum() for one in changed.values()]
of_clear = [is_right(leans(one, is_river))[~is_mixed, -1].sum() for one in changed.values()]
assert (min(of_clear[3:]), max(of_clear[3:])) == (17, 19)
assert of_mixed[:2] == [13, 11] and (min(of_mixed[3:]), max(of_mixed[3:])) == (9, 11)

# %% after: explore  numbers: 27, 31, 20, 29
from math import comb

assert 2**4 / (2 * comb(4, 0)) == 8

# %% after: explorer
robbed = LayersExplorer()
assert robbed.result.leans[1] > 0.02 and -0.01 < robbed.result.leans[4:].min()
assert (robbed.result.leans[4:] < 0).all() and (robbed.result.leans[1:4] > 0).all()
looks = encoder.read(robbed.sentence)
of_bank = looks.weights.mean(dim=1)[:, looks.tokens.index("bank"), looks.tokens.index("robbed")]
assert of_bank.argmax() == 0 and of_bank[0] > 0.2 and of_bank[1:].max() < 0.1

# %% after: heads  numbers: 4, 4,999

# %% after: ask-head-4  numbers: 17, 71, 72, 28

# %% after: see-head-4
right = is_right(leans(without_4, is_river))
assert right[:, -1].sum() == 31


def first_averages(layer, weights):
    return plain_average(layer, weights) if layer == 0 else weights


evened = vectors_of(encoder, "bank", sentences, edit=first_averages)
assert is_right(leans(evened, is_river))[:, -1].sum() == 32


# %% after: draw-heads
def of(change, is_bank=True):
    here = heads[(heads.change == change) & ((heads.word == "bank") == is_bank)]
    return here.groupby(["layer", "head"], dropna=False)[["right", "lean"]].agg(
        {"right": "sum", "lean": "mean"}
    )


gone = of("removed")
assert len(gone) == 72 and gone.right.min() == 31 and gone.right.max() == 33
assert gone.lean.idxmin() == (0, 4)
level = of("nothing").lean.item()
assert abs(gone.lean[0, 4] / level - 0.75) < 0.02
# the row of the table is what the page computes
of_page = (leans(without_4, is_river)[:, -1] * (2.0 * is_river - 1)).mean()
assert abs(of_page - gone.lean[0, 4]) < 2e-4
eight, all_heads = of("removed", False), of("nothing", False).lean.item()
assert eight.lean[0, 4] > all_heads and eight.lean.rank()[0, 4] > 60

# %% after: read-heads  numbers: 72, 23, 29, 35, 71, 31
alone = of_alone = heads[(heads.word == "bank") & (heads.change == "others removed")]
assert alone.right.min() == 21 and alone.right.max() == 29
best = alone.loc[alone.right.idxmax()]
assert (best.layer, best["head"]) == (0, 4) and (alone.right == 29).sum() == 1
beside = heads[(heads.word == "bank") & (heads.change == "others averaged")]
assert beside.right.min() == 27 and beside.right.max() == 29
single = heads[heads.word == "bank"].set_index("change").right
assert single["all removed"] == 23 and single["all averaged"] == 28
# without heads, the position of "bank" decides: early for money
removed = vectors_of(encoder, "bank", sentences, edit=lambda layer, weights: 0 * weights)
alone_right = is_right(leans(removed, is_river))[:, -1]
is_late = torch.tensor([encoder.tokens(one).index("bank") for one in sentences]) > 5
assert torch.equal(alone_right, is_late == is_river) and alone_right.sum() == 23


# %% after: open-words
assert of_96.tolist() == [[56, 77, 80, 78, 79, 81, 83], [56, 66, 76, 76, 78, 74, 77]]
assert len(seen) == 96 and len(aside) == 48 and words.word.nunique() == 8
# the best layers, which the next cell uses
assert differing(trained_open[:, 6], average_open[:, 4]).tolist() == [13, 8]
assert of_96[0].argmax() == 6 and of_96[1].argmax() == 4

# %% after: look-once
assert trained_aside.sum() == 42 and average_aside.sum() == 34

# %% after: read-once  numbers: 83, 96, 78, 26, 35, 34, 29, 42, 40, 32
from math import comb

one_sided = sum(comb(12, k) for k in range(3))
assert round(2**12 / (2 * one_sided)) == 26


def second(layer, weights):
    """Keep the weights on the token itself and on the markers; average the rest."""
    length = weights.shape[-1]
    kept = torch.eye(length, dtype=torch.bool)
    kept[:, [0, -1]] = True
    rest = (weights * ~kept).sum(dim=-1, keepdim=True)
    return torch.where(kept, weights, rest / (~kept).sum(dim=-1, keepdim=True).clamp(min=1))


of_bank = is_right(leans(vectors_of(encoder, "bank", sentences, edit=second), is_river))
second_open, second_aside = [], []
for word, rows in aside.groupby("word"):
    old, old_is_first = read(seen[seen.word == word], second)
    new, is_first = read(rows, second)
    second_open.append((leans(old, old_is_first) > 0) == old_is_first[:, None])
    second_aside.append((lean(new, old, old_is_first) > 0) == is_first[:, None])
second_open = torch.cat(second_open).sum(dim=0)
assert second_open.tolist() == [56, 66, 68, 76, 76, 77, 78] and second_open.argmax() == 6
table = {
    "trained": (trained_right.sum(dim=0).max(), of_96[0].max(), trained_aside.sum()),
    "second": (of_bank.sum(dim=0).max(), second_open.max(), torch.cat(second_aside)[:, 6].sum()),
    "average": (average_right.sum(dim=0).max(), of_96[1].max(), average_aside.sum()),
}
table = {name: [int(one) for one in row] for name, row in table.items()}
assert table == {"trained": [34, 83, 42], "second": [32, 78, 40], "average": [29, 78, 34]}
leads = [
    best - other
    for name in ("second", "average")
    for best, other in zip(table["trained"], table[name], strict=True)
]
assert min(leads) == 2 and max(leads) == 8  # what-it-shows: by two to eight sentences

# %% after: two-sentences
assert mine[6] > same_meaning[6] + 0.005
assert (same_meaning > different_meaning).all()
assert ((same_meaning - different_meaning)[1:] > 0.015).all()

# %% after: what-it-shows  numbers: 29, 34, 35
assert average_right.sum(dim=0).max() == 29 and trained_right.sum(dim=0).max() == 34

# %% after: exercise-1  numbers: 0.9

# %% after: exercise-2  numbers: 7

# %% after: exercise-4  numbers: 6, 35

# %% after: exercise-5  numbers: 2,000, 95%

# %% after: sources  numbers: 2019, 2020, 2022, 1927

# %% after: next  numbers: 2017, 2021, 2022

# %% after: teacher-plan  numbers: 50, 8, 9, 10, 7, 19, 32, 4

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 33, 28, 35, 72, 71
