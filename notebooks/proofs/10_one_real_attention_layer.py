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
row_of_bank = sat.weights[4, sat.tokens.index("bank")]
assert sat.tokens[row_of_bank.argmax()] == "river"  # head 4 shows the arc

# %% after: many-sentences  numbers: 46, 21

# %% after: examples
assert len(examples) == 46 and examples.word.nunique() == 21

# %% after: weight-of-cls
of_cls = weight_of_cls(readings)
assert abs(of_cls[6] - 0.41) < 0.005

# %% after: so-much  numbers: 0.41, 8.6

# %% after: join
assert by_length[0] == "8.6 tokens" and abs(lengths[2] - 62) < 0.5

# %% after: ask-length  numbers: 8.6

# %% after: see-length
assert torch.allclose(values[:, 6], torch.tensor([0.41, 0.18, 0.06]), atol=0.005)
assert values[2].argmax() == 5 and abs(values[2, 5] - 0.18) < 0.005
in_texts = weight_of_cls(in_groups(9))
assert abs(in_texts[6] - 0.06) < 0.005
# in head 6, the score of [CLS] does not grow with the text, and those of the others do not fall
of_cls, of_others = [], []
for k in (1, 3, 9):
    scores = []
    for one in in_groups(k):
        q, k_ = (
            split_heads(part(one.embedded), 12)[6]
            for part in (layer.attention.q_proj, layer.attention.k_proj)
        )
        scores.append((q @ k_.T / 32**0.5)[1:-1])
    of_cls.append(torch.cat([row[:, 0] for row in scores]).mean())
    of_others.append(torch.cat([row[:, 1:].exp().mean(dim=-1).log() for row in scores]).mean())
assert of_cls[0] > of_cls[1] > of_cls[2] and max(of_others) - min(of_others) < 0.1

# %% after: in-uniform-shares  numbers: 1, 0.06

# %% after: shares-of-cls
assert 3.55 < values[:, 6].min() and values[:, 6].max() < 3.95
assert abs(values[0, 5] - 2.8) < 0.05 and abs(values[2, 5] - 11.3) < 0.05
weights = torch.stack([weight_of_cls(group) for group in groups])
assert ((values[2] / values[0]).log().abs() < (weights[2] / weights[0]).log().abs()).sum() == 11
# in head 5 distant tokens get low scores: far away, e to the score is a tenth of what it is nearby
near, far, of_cls = [], [], []
for text in groups[2]:
    queries, keys = (
        split_heads(part(text.embedded), 12)[5, :-1]
        for part in (layer.attention.q_proj, layer.attention.k_proj)
    )
    powers = (queries @ keys.T / 32**0.5).exp()[1:]
    of_cls.append(powers[30:, 0].mean())  # far from it
    powers = powers[:, 1:]
    distance = (torch.arange(len(powers)) - torch.arange(len(powers))[:, None]).abs()
    near.append(powers[distance <= 8].mean())
    far.append(powers[distance > 8].mean())
assert sum(near) > 10 * sum(far) and sum(of_cls) > sum(near)  # but not [CLS]

# %% after: short-only  numbers: 3.6, 3.9

# %% after: portrait
by_word = torch.cat([where_to(reading) for reading in readings], dim=-1)
assert by_word.shape == (6, 12, 258)  # the last word's token after is [SEP]: each word counts once
assert (by_word.sum(dim=0) == 1).all()
assert (portrait[0] > 0.5).nonzero().flatten().tolist() == [0, 1, 6, 7, 8, 9, 10, 11]
assert portrait[3, 2] == 1 and abs(portrait[5, 3] - 0.53) < 0.005 and portrait[0, 3] == 0
assert abs(portrait[:, [4, 5]].max() - 0.34) < 0.005
of_cls = portrait[0, [0, 1, 8, 10]]
assert torch.allclose(of_cls, torch.tensor([0.58, 0.65, 0.75, 0.78]), atol=0.005)
assert abs(portrait[0, [6, 7, 9, 11]].min() - 0.91) < 0.005
by_luck = sum((len(r.tokens) - 3) / len(r.tokens) for r in readings) / 258  # one position
assert abs(by_luck - 1 / 9) < 0.01

# %% after: shuffle
assert torch.allclose(moved[[2, 5, 4]], torch.tensor([0.86, 0.34, 0.14]), atol=0.005)
assert abs(moved[[0, 1, 3, 6, 7, 8, 9, 10, 11]].max() - 0.07) < 0.005
for seed in (0, 1, 2, 3):  # other shuffles
    dice = torch.Generator().manual_seed(seed)
    by_head = torch.cat([moved_by_shuffling(one, dice) for one in readings], dim=1).mean(dim=1)
    assert (by_head > 0.1).nonzero().flatten().tolist() == [2, 4, 5]
    assert by_head.topk(4).values[3] < 0.1
    assert by_head[2] > 0.75 and abs(by_head[5] - 1 / 3) < 0.05 and abs(by_head[4] - 1 / 7) < 0.03

# %% after: by-asker  numbers: 20, 5,000

# %% after: clue-shares
assert own.argmax() == 3 and abs(own[3] / of_others[3] - 1) < 0.02
times = own / of_others
assert set(times.topk(4).indices.tolist()) == {1, 4, 8, 10}
assert times[[1, 4, 8, 10]].min() > 1.7 and times.max() < 2.2 and times.topk(5).values[4] < 1.3
assert times.argmin() == 7 and times[7] < 0.7 and times.topk(11).values[10] > 0.85
assert abs(own[8] - 0.5) < 0.03
# the 21 ambiguous words exchange their sentences at random: fewer shares every time
number = torch.tensor(examples.word.factorize()[0])
in_places = []
for example in examples.itertuples():
    shares = clue_shares(example.word, example.sentence, example.clues, ambiguous)
    in_places.append(shares)  # (H, 21)
in_places = torch.stack(in_places)  # (46, H, 21)
for seed in range(4):
    generator = torch.Generator().manual_seed(seed)
    by_chance = torch.stack(
        [
            in_places[torch.arange(46), :, torch.randperm(21, generator=generator)[number]].mean(0)
            for _ in range(300)
        ]
    )
    less_then = (by_chance < own).float().mean(dim=0)  # (H,)
    assert (less_then[[1, 4, 8, 10]] == 1).all() and less_then[3] < 0.6

# %% after: draw-askers  numbers: 20
five = [1, 4, 8, 10, 7]
assert torch.allclose(own[five], torch.tensor([1.61, 1.46, 0.50, 1.50, 0.54]), atol=0.006)
assert torch.allclose(of_others[five], torch.tensor([0.74, 0.77, 0.29, 0.81, 0.81]), atol=0.006)
assert abs(own[3] - 2.1) < 0.05

# %% after: two-reasons  numbers: 46, 552, 5,000

# %% after: luck
assert few.sum() == 15 and ahead.numel() == 552 and ahead[0, 4] < 10
assert few.sum(dim=0)[[1, 4, 8, 10]].sum() == 13
assert examples.sentence[0] == " ".join(sat.tokens[1:-1]) and examples.clues[0] == "river"
for factor in (1 - 1e-5, 1 + 1e-5):  # no number hangs on rounding
    again = askers_ahead(factor * from_word)
    assert (again < 10).sum() == 15 and again[0, 4] <= ahead[0, 4] + 1

# %% after: lucky-cases  numbers: 15, 552, 5,000

# %% after: ask-another-word  numbers: 500, 7, 15

# %% after: see-another-word
assert abs(sum(of_each) / 20 - 1.65) < 1e-6 and max(of_each) <= 5

# %% after: what-arrives  numbers: 15, 32, 384

# %% after: what-reaches-the-output  numbers: 32, 384

# %% after: contributions
assert u.shape == (12, 10, 384)
for one in readings[:5]:
    summed = (one.weights @ projected_values(one.embedded)).sum(dim=0)
    assert torch.allclose(summed + layer.attention.out_proj.bias, one.output, atol=1e-5)

# %% after: how-long  numbers: 0

# %% after: sink-lengths
near_zero = [6, 7, 8, 9, 11]
assert (times_as_long > 5).nonzero().flatten().tolist() == near_zero
of_five = times_as_long[near_zero]
assert torch.allclose(of_five, torch.tensor([8.6, 11.8, 8.5, 8.8, 10.5]), atol=0.06)
assert abs(times_as_long[[0, 1, 2, 3, 4, 5, 10]].max() - 4.6) < 0.05

# %% after: sink  numbers: 0.05, 0.44, 8.8, 9, 8, 12
of_cls = weight_of_cls(readings)
assert abs(of_cls[9] - 0.44) < 0.005 and abs(times_as_long[9] - 8.8) < 0.05

# %% after: see-sink
near_zero = [6, 7, 8, 9, 11]
measured, expected = factors
assert abs(measured[9] - 1.73) < 0.005
assert (measured / expected - 1)[near_zero].abs().max() < 0.08
assert [head for head in near_zero if measured[head] > 1.02 * expected[head]] == [11]
against = []
for one in readings:
    u_of_one = projected_values(one.embedded)
    rest = one.weights[:, 1:-1, 1:] @ u_of_one[:, 1:]
    against.append(torch.cosine_similarity(rest, u_of_one[:, :1], dim=-1))
assert torch.cat(against, dim=1).mean(dim=1)[11] < -0.4
assert 1.5 < factors[:, near_zero].min() and factors[:, near_zero].max() < 1.8

# %% after: the-arithmetic  numbers: 1, 1.73, 11

# %% after: ablate
removed, equal = ablated
share = equal / removed
assert (share < 0.8).all()  # a head adds something without choosing
assert equal.argmax() == 2  # its choice matters most
by_size = ablated.sort(dim=1, descending=True).values[:, [0, 1, 2, 11]]
assert torch.allclose(by_size[0], torch.tensor([0.46, 0.43, 0.35, 0.19]), atol=0.005)
assert torch.allclose(by_size[1], torch.tensor([0.32, 0.21, 0.17, 0.07]), atol=0.005)
assert removed.argmax() == 4 and abs(removed[4] - 0.46) < 0.005 and abs(equal[4] - 0.17) < 0.005
# without the choice, the head adds what the text says: [CLS] keeps its weight, the rest is equal
one = readings[0]
kept = one.weights[..., :1]
even = ((1 - kept) / (len(one.tokens) - 1)).expand_as(one.weights[..., 1:])
u_of_one = projected_values(one.embedded)
gone = (one.weights - torch.cat([kept, even], dim=-1)) @ u_of_one
assert torch.allclose(
    gone.norm(dim=-1)[:, 1:-1] / one.output.norm(dim=-1)[1:-1], changes(one)[1], atol=1e-5
)

# %% after: before-table  numbers: 4, 0.46, 0.17, 0, 1

# %% after: the-table  numbers: 2, 3, 4, 5

# %% after: the-answer  numbers: 2, 3, 4, 5
# the ratio of two weights does not depend on a third word, in any head
for start, end in (("the animal didn't cross the street because it was too ", "tired wide the"),):
    rows_of_it = [layer.read(start + word).weights[:, 10] for word in end.split()]
    ratios = [row[:, 2] / row[:, 8] for row in rows_of_it]
    assert all(torch.allclose(ratio, ratios[0], rtol=2e-3) for ratio in ratios)
rows_of_bank = [
    layer.read(f"she {verb} on the bank of the river").weights[:, 5] for verb in ("sat", "swam")
]
ratios = [row[:, 8] / row[:, 1] for row in rows_of_bank]
assert torch.allclose(*ratios, rtol=2e-3)

# %% after: further-same-weights  numbers: 46

# %% after: the-or-a
attention, change = torch.stack(moves).mean(dim=0)
assert len(moves) == 31 and attention.max() < 0.045 and abs(change[2] - 0.40) < 0.005
assert change.argmax() == 2 and attention[2] < 0.005
assert abs(change[5] - 0.13) < 0.005 and change[[0, 1, 3, 4, *range(6, 12)]].max() < 0.055

# %% after: exercise-1  numbers: 0.12, 0.08, 0.09

# %% after: exercise-3  numbers: 32, 384

# %% after: exercise-4  numbers: 5,000, 21, 50, 0.98, 4
in_one_head = 100 / len(common)
assert in_one_head == 1 / 50 and abs(1 - 0.98**12 - 1 / 5) < 0.02

# %% after: exercise-5  numbers: 0.8, 1, 5

# %% after: in-torch  numbers: 4

# %% after: torch-weights
assert torch.allclose(mean[0], sat.weights.mean(dim=0), atol=1e-5)
assert (sat.tokens[5], sat.tokens[8]) == ("bank", "river")

# %% after: sources  numbers: 2017, 2019, 2020, 2022, 2023

# %% after: teacher-plan  numbers: 50, 3, 7, 8, 10, 12, 40, 62

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 0.1, 60
