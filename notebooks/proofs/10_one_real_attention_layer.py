# %% after: opening  numbers: 46

# %% after: read-sentence
for text in (
    "she sat on the bank of the river",
    "river river river river river river",
    "! ? . , ; !",
    "the animal didn't cross the street because it was too tired",
    " ".join(["we saw a bird in the sky and a fish in the sea"] * 9),
):
    before = layer.read(text).weights[2].diagonal(offset=-1)  # token i looks at token i - 1
    assert before.min() > 0.98, text

# %% after: examples
assert len(examples) == 46 and examples.word.nunique() == 21

# %% after: largest-weights
assert sum(len(one.tokens) - 2 for one in readings) == 304 and top.shape == (12, 304)
assert abs((top == 0).float().mean() - 0.62) < 0.005
assert over_words(lambda one: one.weights[:, 1:-1, 0], readings)[6].mean() > 0.4

# %% after: see-length
of_head_6, size = [], []
for k in (1, 3, 9):
    some = joined(k)
    size.append(sum(len(one.tokens) for one in some) / len(some))
    of_head_6.append(over_words(lambda one: one.weights[:, 1:-1, 0], some)[6].mean().item())
assert [round(of_head_6[i], 2) for i in range(3)] == [0.41, 0.18, 0.06]
assert round(size[0], 1) == 8.6 and round(size[1]) == 22 and round(size[2]) == 62
assert size[2] / size[0] > 7 and 6.5 < of_head_6[0] / of_head_6[2] < 7.5
assert abs(0.41 * size[0] - 3.6) < 0.1 and abs(of_head_6[2] * size[2] - 3.9) < 0.1
# in head 6, the score of [CLS] does not grow with the text, and those of the others do not fall
of_cls, of_others = [], []
for k in (1, 3, 9):
    scores = []
    for one in joined(k):
        q, k_ = (
            split_heads(part(one.embedded), 12)[6]
            for part in (layer.attention.q_proj, layer.attention.k_proj)
        )
        scores.append((q @ k_.T / 32**0.5)[1:-1])
    of_cls.append(torch.cat([row[:, 0] for row in scores]).mean())
    of_others.append(torch.cat([row[:, 1:].exp().mean(dim=-1).log() for row in scores]).mean())
assert of_cls[0] > of_cls[1] > of_cls[2] and max(of_others) - min(of_others) < 0.1

# %% after: draw-length
in_shares = torch.stack(cls_shares)  # (3, H)
growths = in_shares.amax(dim=0) / in_shares.amin(dim=0)
assert (growths < 2).nonzero().flatten().tolist() == [h for h in range(12) if h != 5]
assert round(in_shares[2, 5].item()) == 11 and in_shares[0, 5] < 3
assert in_shares[:, 6].min() > 3.5 and in_shares[:, 6].max() < 4
assert abs(text_lengths[2] - 62) < 0.5 and abs(in_shares[0, 9] - 3.8) < 0.05

# %% after: in-uniform-shares  numbers: 46

# %% after: portrait
assert (portrait.argmax(dim=0) == 0).sum() == 10
assert portrait.argmax(dim=0)[[2, 3]].tolist() == [3, 1]
assert abs(portrait[0, 9] - 3.8) < 0.05 and abs(portrait[3, 5] - 2.6) < 0.05
assert abs(portrait[3, 2] - 8.8) < 0.05 and abs(portrait[0, 2] - 1.3) < 0.05
assert (
    abs(portrait[0, 3] - 0.3) < 0.05 and portrait[1:].masked_fill(portrait[1:] > 2.5, 0).max() < 2
)

# %% after: see-shuffle
for seed in (0, 1, 2, 3):  # other shuffles
    torch.manual_seed(seed)
    by_head = over_words(lambda one: moved(*shuffled(one))[:, 1:-1], readings).mean(dim=-1)
    if seed == 0:
        assert [round(by_head[h].item(), 2) for h in (2, 5, 4)] == [0.86, 0.34, 0.14]
    assert set(by_head.topk(3).indices.tolist()) == {2, 4, 5} and by_head.topk(4).values[3] < 0.08
    assert by_head[2] > 0.75 and 0.3 < by_head[5] < 0.4 and 0.1 < by_head[4] < 0.2
# a head that looked at places only: its old weights stay where they are


def both(reading):
    length = len(reading.tokens)
    order = torch.tensor([0, *(1 + torch.randperm(length - 2)), length - 1])
    new = layer([reading.tokens[j] for j in order]).weights[0]
    old = reading.weights[:, order][:, :, order]
    return torch.stack([moved(old, new), moved(old, reading.weights)])[..., 1:-1]


for seed in (0, 1, 2, 3):
    torch.manual_seed(seed)
    now, most = over_words(both, readings).mean(dim=-1)
    if seed == 0:
        assert [round(most[head].item(), 2) for head in (2, 5, 11)] == [0.86, 0.44, 0.24]
    parts = now / most
    assert parts[2] > 0.99 and parts[[3, 11]].sub(0.25).abs().max() < 0.04
    assert parts[[0, 1, 6, 7, 8, 9, 10]].max() < 0.18
# longer texts
for seed in (0, 1, 2):
    torch.manual_seed(seed)
    by_head = over_words(lambda one: moved(*shuffled(one))[:, 1:-1], joined(9)).mean(dim=-1)
    assert (by_head > 0.1).nonzero().flatten().tolist() == [0, 2, 3, 4, 5, 8, 11]
    assert abs(by_head[3] - 0.36) < 0.01
# each word keeps its position vector: nothing moves
mixed_up = [sat.tokens[j] for j in (0, 4, 2, 7, 1, 3, 8, 5, 6, 9)]
kept = layer.attention(layer.embed(mixed_up, positions=[0, 4, 2, 7, 1, 3, 8, 5, 6, 9]))
same_order = torch.tensor([0, 4, 2, 7, 1, 3, 8, 5, 6, 9])
assert torch.allclose(kept.output[0], sat.output[same_order], atol=1e-4)
assert torch.allclose(kept.weights[0], sat.weights[:, same_order][:, :, same_order], atol=1e-5)

# %% after: by-asker
# [CLS] and a word exchange their position vectors: the rows of the other words
look_at_cls = (portrait.argmax(dim=0) == 0).nonzero().flatten().tolist()
assert len(look_at_cls) == 10


def exchange(texts):
    found = []
    for one in texts:
        size = len(one.tokens)
        positions = [1, 0, *range(2, size)]
        new = layer.attention(layer.embed(one.tokens, positions=positions)).weights[0]
        found.append((new * size)[:, 2 : size - 1, :2])
    return torch.cat(found, dim=1).mean(dim=1).T  # (H,) each


on_cls, on_word = exchange(readings)
assert [h for h in look_at_cls if on_word[h] > on_cls[h]] == [4, 8, 10, 11]
at_home = [one.weights[:, 2:-1, 1] * len(one.tokens) for one in readings]  # in place 1
assert (on_word > torch.cat(at_home, dim=1).mean(dim=1))[look_at_cls].all()
# every word is a clue, the ambiguous word itself, or one of these
FUNCTION = set(
    "a an the of on in at to from for with out and or she he it they we you him his her its"
    " is was were as near after that".split()
)
everything = [
    set(one.sentence.split()) - FUNCTION - {one.word} <= set(one.clues.split())
    for one in examples.itertuples()
]
assert sum(everything) > 23  # in most sentences
assert not any(set(clues.split()) & FUNCTION for clues in examples.clues)

# %% after: askers
assert abs(shares[3, 0] - 2.1) < 0.05 and abs(shares[8, 0] - 0.5) < 0.05
assert shares[:, 0].argmax() == 3 and ((shares[[1, 4, 10], 0] - 1.5).abs() < 0.12).all()

# %% after: see-percentile
assert percentile.round()[[3, 8]].tolist() == [80, 99]
assert (percentile[[1, 4, 10]] > 98.7).all()
assert set(percentile.topk(4).indices.tolist()) == {1, 4, 8, 10}
assert percentile.topk(5).values[4] < 95
medians = others.median(dim=1).values
assert abs(medians[3] - 1.68) < 0.005 and medians.argmax() == 3 and medians[8] < 0.22
assert (others > 1).float().mean(dim=1)[3] > 0.9  # most words favour the clues in head 3
# the 21 ambiguous words exchange their sentences at random
number, ambiguous = torch.tensor(examples.word.factorize()[0]), examples.word.unique().tolist()
in_places = []
for example in examples.itertuples():
    here = layer.tokens(example.sentence)
    rows = layer.attend_as(ambiguous, here, here.index(example.word))
    clues = torch.tensor([token in example.clues.split() for token in here])
    in_places.append(rows[..., clues].mean(dim=-1) * len(here))
in_places = torch.stack(in_places)  # (46, H, 21)
for seed in (0, 1, 2):
    generator = torch.Generator().manual_seed(seed)
    exchanged = torch.stack(
        [
            in_places[torch.arange(46), :, torch.randperm(21, generator=generator)[number]].mean(0)
            for _ in range(1000)
        ]
    )
    less_then = (exchanged < own.T).float().mean(dim=0)  # (H,)
    assert (less_then[[1, 4, 8, 10]] == 1).all() and 0.4 < less_then[3] < 0.48

# %% after: third-word  numbers: 5,000, 90%, 18, 46, 552, 15
of_each = torch.stack(each)  # (46, H, 1 + A)
ahead = 100 * (of_each[..., 1:] < of_each[..., :1]).float().mean(dim=-1)  # (46, H)
assert (ahead > 90).sum(dim=0)[[1, 4, 10]].tolist() == [18, 18, 18] and abs(46 * 0.1 - 5) < 0.5
of_river = layer.attend_as(["bank", *askers], sat.tokens, 5)[4, :, 8]
assert sat.tokens[8] == "river" and (of_river[1:] > of_river[0]).sum() < 10
# the pairs of a head and a sentence in which fewer than ten askers give the clues more
rank = (of_each[..., 1:] > of_each[..., :1]).sum(dim=-1)  # (46, H)
assert (
    rank.numel() == 552
    and (rank < 10).sum() == 15
    and examples.sentence[0] == " ".join(sat.tokens[1:-1])
)
assert rank[0, 4] < 10 and abs(552 * 10 / 5000 - 1.1) < 0.01
four_to_river = sat.weights[4, 5]  # the row of "bank"
assert sat.tokens[5] == "bank" and sat.tokens[four_to_river.argmax()] == "river"

# %% after: see-it
assert (one.tokens[10], one.tokens[2], one.tokens[8]) == ("it", "animal", "street")
it, animal, street = 10, 2, 8
start = "the animal didn't cross the street because it was too "
ratios = []
for last in ("tired", "wide", "cold", "happy", "the"):
    read = layer.read(start + last)
    ratios.append(read.weights[:, it, animal] / read.weights[:, it, street])
assert all(torch.allclose(ratio, ratios[0], rtol=2e-3) for ratio in ratios)  # in every head
tired, wide = (layer.read(start + last).weights[6, it] for last in ("tired", "wide"))
assert (
    tired.argmax() == animal
    and (tired[[animal, street]] - torch.tensor([0.224, 0.144])).abs().max() < 6e-4
)
assert (wide[[animal, street]] - torch.tensor([0.229, 0.147])).abs().max() < 6e-4
assert abs(tired[animal] / tired[street] - 1.555) < 1e-3

# %% after: contributions
assert u.shape == (12, 10, 384)
for one in readings[:5]:
    sums_of = (one.weights @ projected_values(one)).sum(dim=0) + constant
    assert torch.allclose(sums_of, one.output, atol=1e-5)
everywhere = torch.full_like(sat.weights, 0.1)  # other weights: the constant is the same
by_hand = everywhere @ split_heads(layer.attention.v_proj(sat.embedded), 12)  # (H, L, 32)
by_hand = layer.attention.out_proj(by_hand.transpose(0, 1).flatten(1))
assert torch.allclose((everywhere @ u).sum(dim=0) + constant, by_hand, atol=1e-5)

# %% after: sink
lengths_of = [projected_values(one).norm(dim=-1) for one in readings]  # (H, S) each
of_cls = torch.stack([one[:, 0] for one in lengths_of])  # (46, H)
of_words = torch.cat([one[:, 1:-1] for one in lengths_of], dim=1)  # (H, 304)
shorter = of_cls.amax(dim=0) < of_words.amin(dim=1)
assert shorter.nonzero().flatten().tolist() == [h for h in range(12) if h != 3]
assert (of_cls.mean(dim=0) < 0.4 * of_words.mean(dim=1)).sum() == 10  # much shorter in most
assert (of_cls.mean(dim=0) < 0.4 * of_words.mean(dim=1))[[4, 6, 9]].all()

# %% after: ask-sink  numbers: 62

# %% after: see-sink
assert no_cls.shape == less.shape == (12, 304) and abs(no_cls[9].mean() - 1.6) < 0.05
assert abs(cls_shares[0][9] - 3.8) < 0.05
assert (no_cls > 1).all(dim=1).nonzero().flatten().tolist() == [h for h in range(12) if h != 2]
enough = [one.weights[..., 0] <= one.weights[..., 1:-1].sum(dim=-1) for one in readings]
enough = torch.cat([one[:, 1:-1] for one in enough], dim=1)  # (H, 304)
for seed in (0, 1, 2):
    torch.manual_seed(seed)
    here = over_words(lambda one: change_of_length(one, less_of_words), readings)
    assert 0.84 < here.mean(dim=1).min() and here.mean(dim=1).max() < 1.025
    for head in range(12):  # the rows whose words have enough: the same
        assert 0.84 < here[head, enough[head]].mean() < 1.025
        if head != 2:  # whose words then give [CLS] next to nothing
            assert no_cls[head, enough[head]].mean() > 1.02
in_long = over_words(lambda one: change_of_length(one, without_cls), joined(9)).mean(dim=1)
assert in_long.min() > 1 and (in_long < 1.075).sum() == 11 and in_long.argmax() == 5
# the same with the bias of the values, which is a part of what a head adds
columns = layer.attention.out_proj.weight.T.unflatten(0, (12, 32))


def with_bias(reading):
    return split_heads(layer.attention.v_proj(reading.embedded), 12) @ columns


biased = []
for one in readings:
    full, fewer = with_bias(one), one.weights.index_fill(-1, torch.tensor(0), 0)
    fewer = fewer / fewer.sum(dim=-1, keepdim=True)
    biased.append(((fewer @ full).norm(dim=-1) / (one.weights @ full).norm(dim=-1))[:, 1:-1])
biased = torch.cat(biased, dim=1)
assert abs(biased[9].mean() - 1.9) < 0.05

# %% after: ablate
part = change[1].mean(dim=-1) / change[0].mean(dim=-1)
assert [round(part[head].item(), 2) for head in (2, 5, 9)] == [0.90, 0.87, 0.82]
assert part.topk(3).indices.tolist() == [2, 5, 9] and part[9] > 0.8 > 0.75 > part.topk(4).values[3]


def all_but_cls(reading):
    """Change if [CLS] keeps its weight and the other tokens share the rest equally."""
    u, w = projected_values(reading), reading.weights
    shared = w.clone()
    shared[..., 1:] = w[..., 1:].mean(dim=-1, keepdim=True)
    far = ((w - shared) @ u).norm(dim=-1)
    return (far / reading.output.norm(dim=-1))[..., 1:-1]


kept_sink = over_words(all_but_cls, readings).mean(dim=-1) / change[0].mean(dim=-1)
assert [round(kept_sink[head].item(), 2) for head in (5, 9, 2)] == [0.68, 0.58, 0.82]
assert (change[1].mean(dim=-1) < change[0].mean(dim=-1)).all()

# %% after: draw-ablation
gone, evened = change.mean(dim=-1)
assert abs(gone.min() - 0.20) < 0.005 and abs(gone.max() - 0.39) < 0.005
assert gone.argmax() == 2 and evened.argmax() == 2 and abs(evened[2] - 0.35) < 0.005
assert abs(evened.min() - 0.12) < 0.006 and abs(evened[8] - 0.25) < 0.005
assert evened.topk(2).indices[1] == 8

# %% after: ask-moved  numbers: 50

# %% after: see-moved
assert attention.shape == change[1].shape == (12, 304) and attention.numel() == 3648
assert abs(agreement(attention, change[1]) - 0.77) < 0.005
assert abs(agreement(attention, change[1]) - 0.75) < 0.03  # about 75%


def changes_with(reading):
    u = projected_values(reading)
    noise = torch.randn(u.shape)
    u = noise / noise.norm(dim=-1, keepdim=True) * u.norm(dim=-1, keepdim=True)
    far = (reading.weights @ u - u.mean(dim=1, keepdim=True)).norm(dim=-1)
    return (far / reading.output.norm(dim=-1))[..., 1:-1]


for seed in (0, 1, 2):
    torch.manual_seed(seed)
    by_chance = over_words(changes_with, readings)
    assert 0.8 < agreement(attention, by_chance) < 0.83
within = torch.stack(within)
assert within.argmin() == 2 and abs(within[2] - 0.51) < 0.006
assert within.argmax() == 11 and abs(within[11] - 0.87) < 0.006
assert attention[2].min() > 0.8 and attention[2].max() < 0.95

# %% after: the-answer  numbers: 2, 5, 4, 0.17, 0.55
assert abs(change[1, 2].min() - 0.17) < 0.005 and abs(change[1, 2].max() - 0.55) < 0.006
assert (portrait.argmax(dim=0) == 0).sum() == 10
before = torch.cat([one.embedded[1:-1] for one in readings])
after = before + torch.cat([one.output[1:-1] for one in readings])
assert abs(torch.cosine_similarity(before, after, dim=-1).mean() - 0.94) < 0.005

# %% after: compare-copy
assert len(original_texts) == 13 and off_by(layer).max() < 0.002
assert off_by(slip)[0] < 0.002 and off_by(slip)[1] > 4

# %% after: further-same-weights  numbers: 46

# %% after: the-or-a
by = torch.tensor(found)
assert len(found) == 31 and by[:, 0].max() < 0.135 and by[:, 1].min() > 1 / 3
assert abs(by[:, 0].mean() - 0.06) < 0.005

# %% after: remember  numbers: 2, 5, 4
assert set(percentile.topk(4).indices.tolist()) == {1, 4, 8, 10}

# %% after: exercise-1  numbers: 0.12, 0.08, 0.09

# %% after: exercise-3  numbers: 32, 384
# with the bias of the values of a head removed, too
columns = layer.attention.out_proj.weight.T.unflatten(0, (12, 32))  # (H, 32, E)
biases = layer.attention.v_proj.bias.view(12, 1, 32) @ columns  # (H, 1, E)
with_biases = over_words(
    lambda one: (
        (one.weights @ projected_values(one) + biases).norm(dim=-1) / one.output.norm(dim=-1)
    )[:, 1:-1],
    readings,
).mean(dim=-1)
assert with_biases.argmax() == 4 and with_biases[4] > 0.45 > 0.43 > with_biases[2]

# %% after: exercise-4  numbers: 5,000, 21, 50, 0.98
in_one_head = 100 / len(askers)
assert in_one_head == 1 / 50 and abs(1 - 0.98**12 - 1 / 5) < 0.02
of_askers = torch.stack(each)[..., 1:]  # (46, H, A)
passes = (of_askers >= of_askers.topk(100, dim=-1).values[..., -1:]) & (of_askers >= 1)
assert abs(passes.any(dim=1).float().mean() - 1 / 6) < 0.01  # in one sentence of six

# %% after: exercise-5  numbers: 4

# %% after: torch-weights
assert torch.allclose(mean[0], sat.weights.mean(dim=0), atol=1e-5)
assert (sat.tokens[5], sat.tokens[8]) == ("bank", "river")

# %% after: sources  numbers: 2017, 2019, 2020, 2022, 2023

# %% after: teacher-plan  numbers: 45, 8, 5, 10, 7

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 0.1, 60
