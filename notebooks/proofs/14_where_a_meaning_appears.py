# %% after: six-layers  numbers: 19, 16, 35, 0, 5

# %% after: all-banks
assert len(encoder.layers) == 6
assert (~is_mixed).sum() == 19 and is_mixed.sum() == 16

# %% after: nearer  numbers: 34

# %% after: lean
of_thief = fair_lean(thief, vectors[thief], vectors, is_river)
assert is_river[thief] and of_thief[1] > 0.005 and of_thief[-1] < -0.005
assert (of_thief[1:6] > 0.001).all() and (of_thief[1:].diff() < 0).all()

# %% after: read-lean  numbers: 35, 0, 5
# the two means point in nearly the same direction
river_mean, money_mean = vectors[is_river].mean(dim=0), vectors[~is_river].mean(dim=0)
assert cosine_similarity(river_mean, money_mean, dim=-1).min() > 0.9

# %% after: fair-leans
# before the first layer, the vector depends on the position of "bank" alone
where = [encoder.tokens(one).index("bank") for one in sentences]
for a in range(35):
    for b in range(a):
        assert torch.equal(vectors[a, 0], vectors[b, 0]) == (where[a] == where[b])
assert on_own_side(included, is_river)[:, 0].sum() == 24
assert on_own_side(left_out, is_river)[:, 0].sum() == 16
assert left_out.abs().min() > 1e-4 and included.abs().min() > 1e-5  # no sign hangs on rounding

# %% after: leave-out  numbers: 24, 35, 16, 0

# %% after: see-layers
assert trained[~is_mixed].sum(dim=0).tolist() == [7, 18, 19, 19, 19, 19, 19]
assert trained[is_mixed].sum(dim=0).tolist() == [9, 11, 14, 14, 15, 14, 13]

# %% after: read-layers  numbers: 0, 1, 5, 29, 35
mended, lost = (~trained[:, 1:-1] & trained[:, 2:]), (trained[:, 1:-1] & ~trained[:, 2:])
assert mended.sum(dim=0).tolist() == [4, 0, 1, 0, 0] and lost.sum(dim=0).tolist() == [0, 0, 0, 1, 1]
assert lost[thief, -1]
worked = sentences.index("she swam well and worked at the bank")
assert to_own_side[:, -1].argmin() == worked and not trained[worked, 1:].any()
river_mean, money_mean = vectors[is_river].mean(dim=0), vectors[~is_river].mean(dim=0)
spread = cosine_similarity(river_mean, money_mean, dim=-1)
assert spread[3] < spread[1] < spread[0]  # the two means move apart

# %% after: explorer
robber = LayersExplorer()
assert robber.result.leans[1] > 0.02 and -0.011 < robber.result.leans[-1] < 0
assert robber.result.leans[2:].abs().max() <= 0.011
read = encoder.read(robber.sentence)
row_of_bank = read.weights.mean(dim=1)[:, read.tokens.index("bank")]  # (6, L)
of_robbed, of_river = (row_of_bank[:, read.tokens.index(w)] for w in ("robbed", "river"))
assert of_robbed.argmax() == 0 and abs(of_robbed[0] - 0.24) < 0.006
assert 1.7 < of_robbed[0] / of_river[0] < 2

# %% after: use-it  numbers: 0, 0.24

# %% after: equal
assert equal.sum(dim=0).tolist() == [16, 22, 26, 28, 32, 31, 29]
assert (trained.sum(dim=0)[1:] > equal.sum(dim=0)[1:]).all()
# centred by the middle of the two means
for some, uncentred in (
    (vectors, trained),
    (vectors_of(encoder, "bank", sentences, edit=equal_shares), equal),
):
    counted = torch.zeros(7, dtype=torch.long)
    for i in range(35):
        left = torch.arange(35) != i
        known, labels = some[left], is_river[left]
        middle = (known[labels].mean(dim=0) + known[~labels].mean(dim=0)) / 2
        counted += (lean(some[i] - middle, known - middle, labels) > 0) == is_river[i]
    assert (counted - uncentred.sum(dim=0)).abs().max() <= 1

# %% after: overlap  numbers: 0, 5, 29, 3
assert (outcome == 2).sum() == 29 and (outcome == 1).sum() == 3

# %% after: see-early
assert (own_side_with(equal_early)[:, 4:].sum(dim=0) <= equal[:, 4:].sum(dim=0)).all()
assert own_side_with(equal_late)[:, 4:].sum() == trained[:, 4:].sum()


def chance_of(ours, theirs):
    margins = (ours.float() - theirs.float()).sum(dim=1)
    heads = torch.randint(2, (100_000, 35), generator=torch.Generator().manual_seed(1))
    return ((heads * 2.0 - 1) @ margins).abs().ge(margins.sum().abs()).float().mean().item()


late, early = own_side_with(equal_late)[:, 4:], own_side_with(equal_early)[:, 4:]
assert 0.22 < chance_of(late, early) < 0.28
with_late = vectors_of(encoder, "bank", sentences, edit=equal_late)
assert fair_lean(thief, with_late[thief], with_late, is_river)[-1] > 0.005
shared = torch.zeros(6)  # the weight of "bank" that is shared equally
for sentence in sentences:
    read = encoder.read(sentence)
    row = read.weights[:, :, read.tokens.index("bank")].mean(dim=1)  # (6, L)
    shared += 1 - row[:, [0, read.tokens.index("bank"), -1]].sum(dim=-1)
assert (shared[1:5] / 35 < 0.25).all() and shared[0] / 35 > 0.5

# %% after: read-early  numbers: 0, 1, 2, 3, 4, 5, 29, 33, 35, 25%

# %% after: one-swap  numbers: 2, 33, 35, 34
assert trained[:, 2].sum() == 33

# %% after: by-hand
assert (readings[thief].tokens[6], readings[loan].tokens[5]) == ("bank", "bank")
after = fair_lean(thief, other_words(x[0], readings[thief].tokens), others, is_river)
assert unchanged[thief] - after > 0.005

# %% after: read-by-hand  numbers: 34

# %% after: see-swap
assert other.mean().round() == -9 and 0 < same.mean() < 2 and (other < same).sum() == 34
of_same = all_swaps(2, of_bank)[is_river[:, None] == is_river]
assert of_same.abs().nanmean() > 8 and 0.4 < (of_same[~of_same.isnan()] > 0).float().mean() < 0.6
of_thief = all_swaps(2, of_bank)[thief]  # what was done by hand
after = fair_lean(thief, other_words(x[0], readings[thief].tokens), others, is_river)
assert abs(of_thief[loan] - 100 * (after - unchanged[thief]) / mean_lean) < 0.01
for number in (1, 3, 4, 5):  # before other layers, it is much the same
    elsewhere_other, elsewhere_same = by_meaning(all_swaps(number, of_bank))
    assert (elsewhere_other < elsewhere_same).sum() >= 29
    assert elsewhere_same.mean() - elsewhere_other.mean() > 3

# %% after: read-swap  numbers: 9%, 0, 1

# %% after: see-first
of_swapped, of_first, of_nothing, of_first_word = (
    by_same - by_other for by_other, by_same in swaps.values()
)
assert (of_first > 0).sum() == 34 and 0 < 4 * of_first.mean() < of_swapped.mean()
assert 0.75 * of_first.mean() < of_first_word.mean() < of_first.mean()
error = of_nothing.std() / 35**0.5
assert of_nothing.mean().abs() < 2 * error < of_swapped.mean() / 5
assert all(abs(one).min() > 1e-3 for one in (of_swapped, of_first))  # no sign hangs on rounding


def without_donors(number, at):
    """The mean difference if the donor's sentence is left out of the means as well."""
    changes = torch.full((35, 35), torch.nan)
    donors = torch.stack([one.vectors[number, at[j]] for j, one in enumerate(readings)])
    for i, one in enumerate(readings):
        x = one.vectors[number].repeat(35, 1, 1)
        x[:, at[i]] = donors
        for layer in encoder.layers[number:]:
            x, _ = layer(x)
        swapped = other_words(x, one.tokens)
        for j in set(range(35)) - {i}:
            rest = [n for n in range(35) if n not in (i, j)]
            pair = torch.stack([others[i], swapped[j]])
            before, after = lean(pair, others[rest], is_river[rest])
            changes[i, j] = 100 * (after - before) * side[i] / mean_lean
    by_other, by_same = by_meaning(changes)
    return (by_same - by_other).mean().item()


assert abs(without_donors(2, of_bank) - 8.95) < 0.06
assert abs(without_donors(2, [1] * 35) + 3.4) < 0.06

# %% after: read-controls  numbers: 0, 1, 2, 9, 34, 35, -3.4

# %% after: left-out
assert changes_without(of_bank).mean().abs() < changes_without(of_bank).std() / 35**0.5
hidden_own = []  # with means of their own
for i, one in enumerate(readings):
    kept = [n for n in range(len(one.tokens)) if n != of_bank[i]]
    x, _ = encoder([one.tokens[n] for n in kept], positions=kept)
    after = one.vectors[-1].clone()
    after[kept] = x[-1, 0]
    hidden_own.append(other_words(after, one.tokens))
own = fair_leans(torch.stack(hidden_own), is_river) * side
assert own.mean() > mean_lean

# %% after: what-this-shows  numbers: 0, 1, 3, 5, 6%, 20, 35

# %% after: to-order  numbers: 5%

# %% after: see-order
assert [side_by_side.sum(dim=0)[1].item() for side_by_side in unplaced.values()] == [31, 28]
ahead = unplaced["trained weights"].sum(dim=0) - unplaced["equal shares"].sum(dim=0)
assert (ahead[1:] > 0).all()

# %% after: further-words  numbers: 31, 29, 28, 22, 0, 35, 144

# %% after: other-eight


def chance(ours, theirs, seed):
    margins = (ours.float() - theirs.float()).sum(dim=1)
    heads = torch.randint(2, (100_000, len(margins)), generator=torch.Generator().manual_seed(seed))
    return ((heads * 2.0 - 1) @ margins).abs().ge(margins.sum().abs()).float().mean().item()


ours = of_144["trained weights"]
for seed in range(1, 5):  # with other coins
    assert chance(trained, equal, seed) < 0.005
    assert 0.05 < chance(*unplaced.values(), seed) < 0.15
    assert chance(ours, of_144["equal shares"], seed) < 0.005
    assert chance(ours, of_144["equal in layers 3 to 5"], seed) > 0.5
rows_of_144 = pd.read_csv(data_path("two_meanings.csv"))
without = []
for edit in (None, equal_shares):
    found = []
    for word, rows in rows_of_144.groupby("word"):
        read = []
        for sentence in rows.sentence:
            tokens = encoder.tokens(sentence)
            positions = [0, *[5] * (len(tokens) - 2), len(tokens) - 1]
            read.append(
                encoder(tokens, positions=positions, edit=edit)[0][:, 0, tokens.index(word)]
            )
        is_first = torch.tensor(rows.meaning.to_numpy() == rows.meaning.iloc[0])
        found.append(on_own_side(fair_leans(torch.stack(read), is_first), is_first))
    without.append(torch.cat(found))
assert (without[0].sum(dim=0)[1:] > without[1].sum(dim=0)[1:]).all()
for seed in range(1, 5):
    assert 0.02 < chance(*without, seed) < 0.04

# %% after: read-eight  numbers: 88, 144, 72, 0, 2, 3, 4, 5, 7, 3%

# %% after: exercise-2  numbers: 7

# %% after: exercise-3  numbers: 35

# %% after: exercise-4  numbers: 2,000, 95%

# %% after: sources  numbers: 2019, 2020, 2021, 2022

# %% after: next  numbers: 2017, 2021, 2022

# %% after: teacher-plan  numbers: 50, 10, 14, 16, 35, 29, 32, 34

# %% after: teacher-questions  numbers: 1, 2, 33, 28, 35
