# %% after: six-layers  numbers: 64, 35, 51, 48, 0, 5

# %% after: all-banks
assert len(encoder.layers) == 6 and len(set(sentences)) == 64 + 35
assert (~is_mixed).sum() == 51 and is_mixed.sum() == 48

# %% after: nearer  numbers: 20, 0

# %% after: lean
tokens_of_known = [encoder.tokens(one) for one in known.sentence]
where = [tokens.index("bank") for tokens in tokens_of_known]
assert where[::2] == where[1::2] and known_is_river.tolist() == [True, False] * 10
assert not {*known.sentence} & {*sentences}
at_first = {
    encoder.tokens(one).index("bank"): x[0] for one, x in zip(sentences, vectors, strict=True)
}
for one, x in zip(
    sentences, vectors, strict=True
):  # before the first layer, the place decides alone
    assert torch.equal(x[0], at_first[encoder.tokens(one).index("bank")])
assert lean(vectors, known_vectors)[:, 0].abs().max() < 1e-6

# %% after: read-lean  numbers: 0, 2, 5
from attnlab.models.meanings import lean as lean_by

for left_out in range(10):  # any nine of the ten pairs
    rest = torch.arange(20) // 2 != left_out
    of_thief = lean_by(vectors[thief], known_vectors[rest], known_is_river[rest])
    assert (of_thief[1:4] > 0.012).all() and of_thief[4] > 0 and abs(of_thief[-1]) < 0.006
    assert (of_thief[3:].diff() < 0).all()
both = torch.stack([known_vectors[kind].mean(dim=0) for kind in (known_is_river, ~known_is_river)])
assert lean(both, known_vectors).abs().max() < 0.06
assert (lean(vectors[thief], known_vectors)[1:4].diff() > 0).all()

# %% after: your-experiment-from-layer-to-layer  numbers: 0, 5

# %% after: explorer
shown = LayersExplorer()
assert shown.sentence == sentences[thief] and shown.picked == 6 and shown.layer == 1
assert (shown.result.leans - lean(vectors[thief], known_vectors)).abs().max() < 1e-5

# %% after: see-thief  numbers: 0.2
tokens = readings[thief].tokens
assert [round(weight, 2) for weight in rows[0, [0, 3, 5]].tolist()] == [0.22, 0.17, 0.13]
assert [round(weight, 2) for weight in rows[1, [0, 2, 9, 3]].tolist()] == [0.44, 0.13, 0.11, 0.05]

# %% after: hide-one-token
from attnlab.models.meanings import lean as lean_by

turns = {tokens[n] for n, end in enumerate(ends) if end[0, -1] > 0}
assert turns == {"thief", "gold"}
for left_out in range(10):  # any nine of the ten pairs: these two words come first
    rest = torch.arange(20) // 2 != left_out
    leaning = []
    for n in range(len(tokens)):
        x = vectors_of(encoder, "bank", [sentences[thief]], edit=hide_from_bank(n))
        leaning.append(lean_by(x, known_vectors[rest], known_is_river[rest])[0, -1].item())
    largest = sorted(range(len(tokens)), key=leaning.__getitem__)[-2:]
    assert {tokens[n] for n in largest} == {"thief", "gold"}

# %% after: read-hidden  numbers: 99

# %% after: read-thief  numbers: 0, 1, 4, 5, 99
words = [tokens.index(word) for word in ("sailed", "thief", "gold")]
assert [round(weight, 2) for weight in rows[0, words].tolist()] == [0.17, 0.10, 0.07]
assert [round(weight, 2) for weight in rows[1, words].tolist()] == [0.05, 0.13, 0.11]
assert rows[0, 1:-1].argmax() + 1 == words[0] and rows[1, 1:-1].argmax() + 1 == words[1]
assert (weights[1:5, :, of_bank[thief], 0].mean(dim=1) > 0.5).all()

# %% after: ask-layers  numbers: 25, 30, 45

# %% after: see-layers
assert trained[~is_mixed].sum(dim=0).tolist() == [50, 50, 50, 50, 50, 51]
assert trained[is_mixed].sum(dim=0).tolist() == [31, 36, 38, 37, 36, 33]

# %% after: draw-leans  numbers: 99

# %% after: read-layers  numbers: 0
# without any layer: the mean of all input vectors
inputs = torch.stack([one.vectors[0].mean(dim=0) for one in readings])
input_means = [encoder.read(text).vectors[0].mean(dim=0) for text in known.sentence]
own = (lean(inputs, torch.stack(input_means)) > 0) == is_river
assert own[~is_mixed].sum() == 50
from attnlab.models.meanings import lean as lean_by

assert (is_mixed & is_river).sum() == 24 and (is_mixed & ~is_river).sum() == 24
for left_out in range(10):
    rest = torch.arange(20) // 2 != left_out
    own = on_own_side(lean_by(vectors, known_vectors[rest], known_is_river[rest]))
    assert (own[~is_mixed].sum(dim=0) >= 49).all()
    assert (own[is_mixed].sum(dim=0) >= 31).all() and (own[is_mixed].sum(dim=0) <= 39).all()
    assert own[is_mixed][:, 0].sum() <= 34 and own[is_mixed][:, -1].sum() <= 36
middle = (
    known_vectors[known_is_river].mean(dim=0) + known_vectors[~known_is_river].mean(dim=0)
) / 2
centred = on_own_side(lean(vectors - middle, known_vectors - middle))
assert (centred[~is_mixed].sum(dim=0) >= 48).all() and (centred[is_mixed].sum(dim=0) <= 40).all()

# %% after: equal
from attnlab.models.meanings import lean as lean_by

assert equal[~is_mixed].sum(dim=0).tolist() == [46, 46, 44, 47, 47, 47]
assert equal[is_mixed].sum(dim=0).tolist() == [37, 38, 38, 31, 34, 35]
changed = vectors_of(encoder, "bank", sentences, edit=equal_shares)
means = vectors_of(encoder, "bank", known.sentence.tolist(), edit=equal_shares)
for left_out in range(10):
    rest = torch.arange(20) // 2 != left_out
    ours, theirs = (
        on_own_side(lean_by(x, other[rest], known_is_river[rest])).float()
        for x, other in ((vectors, known_vectors), (changed, means))
    )
    ahead = ours - theirs
    assert (ahead[~is_mixed].sum(dim=0) > 0).all()
    assert ahead[~is_mixed].sum() > 3 * ahead[is_mixed].sum().abs()
    assert (ahead[is_mixed].sum(dim=0) < 0).any() and (ahead[is_mixed].sum(dim=0) > 0).any()

# %% after: read-equal  numbers: 5
from attnlab.models.meanings import lean as lean_by

changed = vectors_of(encoder, "bank", [sentences[thief]], edit=equal_in_layer_5)[0]
means = vectors_of(encoder, "bank", known.sentence.tolist(), edit=equal_in_layer_5)
for left_out in range(10):
    rest = torch.arange(20) // 2 != left_out
    assert lean_by(changed, means[rest], known_is_river[rest])[-1] > 0.01
assert leans_with(equal_shares)[thief, -1] > 0.005

# %% after: one-swap  numbers: 2

# %% after: by-hand
assert readings[thief].tokens[of_bank[thief]] == readings[loan].tokens[of_bank[loan]] == "bank"
assert before.min() > 0.008 and after[0].abs() < 0.001 and after[1] < -0.003

# %% after: read-by-hand  numbers: 99, 19

# %% after: all-swaps
assert (donors != torch.arange(99)[:, None]).all() and donors.shape == (99, 19)
assert (is_same.sum(dim=1) >= 5).all() and ((~is_same).sum(dim=1) >= 5).all()

# %% after: see-swaps
gaps = {name: mean_over(is_same, x) - mean_over(~is_same, x) for name, x in swaps.items()}
of_words, of_first, of_output = gaps.values()
assert (of_words > 0).sum() == 90 and (of_first > 0).sum() == 55
assert all(gap.abs().min() > 1e-3 for gap in gaps.values())  # no sign hangs on rounding
old = torch.arange(99) < 35
for some in (old, ~old, is_mixed, ~is_mixed, is_river, ~is_river):
    assert of_words[some].mean() > 4 * of_words[some].std() / some.sum() ** 0.5
    assert of_first[some].mean() < of_words[some].mean() / 2 < of_output[some].mean() / 4
    assert (of_output[some] > 0).float().mean() > 0.9
assert 0.45 < (words[is_same] > 0).float().mean() < 0.55 and words[is_same].abs().mean() > 8
cosines = cosine_similarity(
    *torch.stack([watched(x.vectors[-1], x.tokens) for x in readings]).unbind(1)
)
assert cosines.median() > 0.9

# %% after: read-swaps  numbers: 99, 50, 7.5%, 24%

# %% after: what-this-shows-and-what-it-does-not  numbers: 0, 2, 3, 38, 40, 48
# a ridge probe of mixed sentences, tested on those that it has not seen: six parts, five orders
mixed_vectors = vectors[is_mixed].double()
wanted = torch.where(is_river[is_mixed], 1.0, -1.0).double()
for number in (2, 3):
    for seed in range(5):
        right = 0
        order_ = torch.randperm(48, generator=torch.Generator().manual_seed(seed))
        for held_out in order_.view(6, 8):
            seen = torch.ones(48, dtype=torch.bool).index_fill(0, held_out, False)
            x = mixed_vectors[:, number + 1] - mixed_vectors[seen, number + 1].mean(dim=0)
            x = x / x[seen].norm(dim=-1).mean()
            penalty = 0.1 * torch.eye(40, dtype=torch.float64)
            middle_ = wanted[seen].mean()
            dual = torch.linalg.solve(x[seen] @ x[seen].T + penalty, wanted[seen] - middle_)
            guessed = x[held_out] @ x[seen].T @ dual + middle_
            right += int(((guessed > 0) == (wanted[held_out] > 0)).sum())
        assert right > 40, (number, seed, right)

# %% after: further-luck
ahead = trained[~is_mixed].sum(dim=0) - equal[~is_mixed].sum(dim=0)
assert (ahead.min(), ahead.max()) == (3, 6)

# %% after: one-margin
assert (trained[~is_mixed] | ~equal[~is_mixed]).all()

# %% after: to-coins  numbers: 0, 5, 100,000

# %% after: coins


def chance(ours, theirs, seed):
    margins = (ours.float() - theirs.float()).sum(dim=1)
    heads = torch.randint(2, (100_000, len(margins)), generator=torch.Generator().manual_seed(seed))
    return ((heads * 2.0 - 1) @ margins).abs().ge(margins.sum().abs()).float().mean().item()


for seed in range(1, 5):  # with other coins
    assert chance(trained[~is_mixed], equal[~is_mixed], seed) < 0.02
    assert chance(trained[is_mixed], equal[is_mixed], seed) > 0.5
forwards, backwards = margin_and_chance(trained, equal), margin_and_chance(equal, trained)
assert forwards == (-backwards[0], backwards[1])

# %% after: to-order  numbers: 5%

# %% after: exercise-2  numbers: 7

# %% after: exercise-3  numbers: 0.005

# %% after: exercise-4  numbers: 2,000, 95%

# %% after: sources  numbers: 2019, 2020, 2021, 2022

# %% after: next  numbers: 2017, 2021, 2022

# %% after: teacher-plan  numbers: 48, 15, 46, 9, 12, 13, 34, 50, 7.5%

# %% after: teacher-questions  numbers: 1, 2, 20, 33, 28, 35
