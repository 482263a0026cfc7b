# %% after: six-layers  numbers: 99, 64, 51, 48, 0, 5

# %% after: all-banks
assert len(encoder.layers) == 6 and len(set(sentences)) == 64 + 35
assert (~is_mixed).sum() == 51 and is_mixed.sum() == 48

# %% after: nearer  numbers: 20, 0

# %% after: ask-layers  numbers: 25, 30, 45, 15

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

# %% after: read-lean  numbers: 0, 2, 5, 99
from attnlab.models.meanings import lean as lean_by

for left_out in range(10):  # any nine of the ten pairs
    rest = torch.arange(20) // 2 != left_out
    of_thief = lean_by(vectors[thief], known_vectors[rest], known_is_river[rest])
    assert (of_thief[1:4] > 0.012).all() and of_thief[4] > 0 and abs(of_thief[-1]) < 0.006
    falls = -of_thief[3:].diff()
    assert (falls > 0).all() and falls[1] < falls[[0, 2]].min()  # most in layers 3 and 5
    assert 0.39 < of_thief[4] / of_thief[3] < 0.61  # layer 3 takes about half
    everywhere = lean_by(vectors, known_vectors[rest], known_is_river[rest]).abs()
    assert (everywhere[:, 5] < everywhere[:, 4]).sum() >= 93  # in layer 4 nearly all shrink
assert (lean(vectors[thief], known_vectors)[1:4].diff() > 0).all()

# %% after: see-layers
assert own[~is_mixed].sum(dim=0).tolist() == [50, 50, 50, 50, 50, 51]
assert own[is_mixed].sum(dim=0).tolist() == [31, 36, 38, 37, 36, 33]

# %% after: draw-leans  numbers: 51, 48, 50, 31, 0
assert (to_own_side[~is_mixed, -1] > 0).all()
assert ((to_own_side[is_mixed] < 0).sum(dim=0)[1:] >= 10).all()

# %% after: read-layers  numbers: 0, 5
from attnlab.models.meanings import lean as lean_by

late = own[:, :5].all(dim=1) & ~own[:, 5] & is_mixed
assert late[thief] and late.sum() == 3 and (~own[is_mixed, 5]).sum() == 15
assert (is_mixed & is_river).sum() == 24 and (is_mixed & ~is_river).sum() == 24
for left_out in range(10):
    rest = torch.arange(20) // 2 != left_out
    own_ = on_own_side(lean_by(vectors, known_vectors[rest], known_is_river[rest]))
    assert (own_[~is_mixed].sum(dim=0) >= 49).all()
    assert (own_[is_mixed].sum(dim=0) >= 31).all() and (own_[is_mixed].sum(dim=0) <= 39).all()
    assert own_[is_mixed][:, 0].sum() <= 34 and own_[is_mixed][:, -1].sum() <= 36
    assert (own_[:, :5].all(dim=1) & ~own_[:, 5] & is_mixed).sum() <= 3
middle = (
    known_vectors[known_is_river].mean(dim=0) + known_vectors[~known_is_river].mean(dim=0)
) / 2
centred = on_own_side(lean(vectors - middle, known_vectors - middle))
assert (centred[~is_mixed].sum(dim=0) >= 48).all() and (centred[is_mixed].sum(dim=0) <= 40).all()

# %% after: your-experiment-from-layer-to-layer  numbers: 5

# %% after: explorer
shown = LayersExplorer()
assert shown.sentence == sentences[thief] and shown.picked == 6 and shown.layer == 1
assert (shown.result.leans - lean(vectors[thief], known_vectors)).abs().max() < 1e-5

# %% after: see-thief  numbers: 0.2
tokens = readings[thief].tokens
assert [round(weight, 2) for weight in looks[0, [0, 3, 5]].tolist()] == [0.22, 0.17, 0.13]
assert [round(weight, 2) for weight in looks[1, [0, 2, 9, 3]].tolist()] == [0.44, 0.13, 0.11, 0.05]

# %% after: read-thief  numbers: 0, 1, 4, 5
words = [tokens.index(word) for word in ("sailed", "thief", "gold")]
assert [round(weight, 2) for weight in looks[0, words].tolist()] == [0.17, 0.10, 0.07]
assert [round(weight, 2) for weight in looks[1, words].tolist()] == [0.05, 0.13, 0.11]
assert looks[0, 1:-1].argmax() + 1 == words[0] and looks[1, 1:-1].argmax() + 1 == words[1]
assert (weights[1:5, :, of_bank[thief], 0].mean(dim=1) > 0.5).all()

from attnlab.models.meanings import lean as lean_by

nurse = sentences[thief].replace("thief", "nurse")
sword, bread = (sentences[thief].replace("gold", word) for word in ("sword", "bread"))
assert not {"nurse", "sword", "bread"} & {*" ".join(known.sentence).split()}
for left_out in range(10):  # any nine of the ten pairs
    rest = torch.arange(20) // 2 != left_out
    x = vectors_of(encoder, "bank", [nurse, sword, bread])
    at_end = lean_by(x, known_vectors[rest], known_is_river[rest])[:, -1]
    assert (at_end[:2] > 0.012).all() and at_end[2] < 0

# %% after: hide
from attnlab.models.meanings import lean as lean_by

lean_of = {words: round(value, 3) for words, value in hidden_leans.items()}
assert [lean_of[words] for words in ("thief", "gold", "thief gold")] == [0.007, 0.004, 0.013]
assert lean_of["none"] == -0.001 and lean_of["sailed"] == -0.006
assert {*" ".join(hidden_words).split()} == {*tokens[1:-1]}
reading, at_ = encoder.read(sentences[thief]), of_bank[thief]


def hidden_from_bank(places, to):
    """Only the row of "bank" changes: the weights go to the places ``to``, in proportion."""

    def edit(layer, weights):
        if layer == 5:
            weights = weights.clone()
            row = weights[..., at_, :]
            lost = row[..., places].sum(dim=-1, keepdim=True)
            row[..., places] = 0
            row[..., to] *= 1 + lost / row[..., to].sum(dim=-1, keepdim=True)
        return weights

    return encoder.read(sentences[thief], edit=edit).vectors[:, at_]


the_two = [tokens.index("thief"), tokens.index("gold")]
sailed_ = tokens.index("sailed")
for kind_ in ("all", "sink", "words"):  # who gets the weights that are taken
    for left_out in range(10):  # any nine of the ten pairs
        rest = torch.arange(20) // 2 != left_out

        def gain_(places, kind_=kind_, rest=rest):
            """How much hiding adds to the lean, and the new lean."""
            stay = [n for n in range(len(tokens)) if n not in places]
            to = {"all": stay, "sink": [0], "words": [n for n in stay if 0 < n < len(tokens) - 1]}
            new = hidden_from_bank(places, to[kind_])
            leans_ = [
                lean_by(x, known_vectors[rest], known_is_river[rest])[-1].item()
                for x in (new, vectors[thief])
            ]
            return leans_[0] - leans_[1], leans_[0]

        assert all(gain_([place])[0] > 0.0015 for place in the_two)
        assert gain_(the_two)[0] > 0.006 and gain_(the_two)[1] > 0.004  # with the river
        assert gain_([sailed_])[0] < -0.002
        for place in {*range(1, len(tokens) - 1)} - {*the_two, sailed_, at_}:
            assert abs(gain_([place])[0]) < 0.0006
        if kind_ == "all":
            assert abs(gain_([at_])[0]) < 0.002
            assert all(gain_([place])[1] > 0 for place in the_two)

# %% after: read-hide  numbers: 5, 0.14, 0.007, 0.004, 0.013, 0.006
of_nurse = encoder.read(sentences[thief].replace("thief", "nurse"))
assert round(of_nurse.weights[5, :, 6, 2].mean().item(), 2) == 0.14 and of_nurse.tokens[6] == "bank"

# %% after: is-it-the-meaning  numbers: 119

# %% after: ask-nouns  numbers: 5, 24, 25, 32, 33, 48, 51

# %% after: see-nouns
counted = {
    name: [side_[kind].sum().item() for kind in kinds.values()] for name, side_ in sides.items()
}
assert counted["bank"] == [51, 33] and counted["mean of the input vectors"] == [50, 30]
exchanged = torch.tensor([counted[noun] for noun in nouns[1:]])
assert exchanged.amin(dim=0).tolist() == [42, 25] and exchanged.amax(dim=0).tolist() == [51, 37]
assert exchanged.float().mean(dim=0).round().tolist() == [48, 32]
for noun in ("hill", "king", "wall", "room", "school"):  # nor are other nouns far from "bank"
    side_ = own_side(noun)
    assert side_[~is_mixed].sum() >= 47 and 25 <= side_[is_mixed].sum() <= 37, noun
    assert sum(text.split().count(noun) for text in with_noun(noun, sentences)) == 99
better = [noun for noun in nouns[1:] if counted[noun][1] > counted["bank"][1]]
assert better == ["place", "table", "thing"]

# %% after: read-nouns  numbers: 42, 51, 25, 37, 50, 30

# %% after: draw-the-swap  numbers: 2, 5

# %% after: by-hand
assert readings[thief].tokens[of_bank[thief]] == readings[loan].tokens[of_bank[loan]] == "bank"
before_, after_ = lean(others(run_from_2(x), tokens, "bank"), known_others("bank")).tolist()
assert [round(before_, 3), round(after_, 3)] == [0.021, 0.010]

# %% after: read-by-hand  numbers: 9, 99, 0.021, 0.010, 0.115
runs_ = [others(one.vectors[-1], one.tokens, "bank") for one in readings]
mean_lean = (lean(torch.stack(runs_), known_others("bank")) * torch.where(is_river, 1, -1)).mean()
assert round(mean_lean.item(), 3) == 0.115

# %% after: see-swaps
assert (donors != torch.arange(99)[:, None]).all() and donors.shape == (99, 9)
assert (is_same.sum(dim=1) >= 2).all() and ((~is_same).sum(dim=1) >= 2).all()
gaps = {name: same_ - other_ for name, (other_, same_) in results.items()}
assert 7 < gaps["number"] < gaps["bank"] < gaps["letter"]
assert all(abs(gaps[noun]) < 2.5 for noun in ("place", "table", "car", "thing"))
assert round(results["letter"][0], 1) <= -9.4 and abs(results["letter"][1]) < 1.5
assert abs(results["bank"][0] + 9.4) < 0.05 and abs(results["bank"][1]) < 0.5


def mean_over(kind, changes):
    return changes.where(kind, torch.nan).nanmean(dim=1)  # of each sentence: (99,)


words = all_swaps("bank")
gap_ = mean_over(is_same, words) - mean_over(~is_same, words)
old = torch.arange(99) < 35
for some in (old, ~old, is_mixed, ~is_mixed, is_river, ~is_river):
    assert gap_[some].mean() > 4 * gap_[some].std() / some.sum() ** 0.5

# %% after: read-swaps  numbers: 9.4%

# %% after: what-this-shows-and-what-it-does-not  numbers: 0, 3, 4, 5, 27, 38, 48
function_words = {
    *"the a an of to in on for with into after down over under and".split(),
    *"she we they his her its our their was all bank".split(),
}
in_means = {*" ".join(known.sentence).split()} - function_words
is_shared = torch.tensor([not in_means.isdisjoint(text.split()) for text in sentences])
assert is_shared.sum() == 27
own_shares = on_own_side(lean(vectors, known_vectors)).float()
for kind in kinds.values():
    assert (own_shares[kind & ~is_shared].mean(0) - own_shares[kind].mean(0)).abs().max() < 0.04

# %% after: exercise-2  numbers: 7

# %% after: exercise-3  numbers: 0.005

# %% after: exercise-4  numbers: 2,000, 95%

# %% after: sources  numbers: 2019, 2020, 2021, 2022

# %% after: next  numbers: 2017, 2021, 2022

# %% after: teacher-plan  numbers: 46, 16, 14, 7, 9, 34, 9.4%

# %% after: teacher-questions  numbers: 20, 50, 51
