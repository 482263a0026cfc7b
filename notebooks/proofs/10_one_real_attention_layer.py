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
row_of_bank = reading.weights[4, reading.tokens.index("bank")]
assert reading.tokens[row_of_bank.argmax()] == "river"  # head 4 shows the arc

# %% after: many-sentences  numbers: 46, 304, 21

# %% after: examples
assert len(examples) == 46 and examples.word.nunique() == 21

# %% after: weight-of-cls
assert sum(len(one.tokens) - 2 for one in readings) == 304
of_cls = weight_of_cls(readings)
assert abs(of_cls[6] - 0.41) < 0.005

# %% after: so-much  numbers: 8.6, 0.41
assert abs(sum(len(one.tokens) for one in readings) / 46 - 8.6) < 0.05

# %% after: see-length
in_texts = weight_of_cls(in_groups(9))
assert abs(sum(len(one.tokens) for one in in_groups(9)) / 5 - 62) < 0.5
assert abs(in_texts[6] - 0.06) < 0.005 and abs(in_texts[9] - 0.08) < 0.005
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
weights = torch.stack([weight_of_cls(group) for group in texts.values()])
assert ((values[2] / values[0]).log().abs() < (weights[2] / weights[0]).log().abs()).sum() == 11

# %% after: short-only  numbers: 3.6, 3.9

# %% after: portrait  numbers: 46
assert torch.cat([shares_of_five(one) for one in readings], dim=-1).shape[-1] == 258
assert portrait.argmax(dim=0).tolist() == [0, 0, 3, 1, *[0] * 8]
previous = torch.cat([one.weights[2].diagonal(offset=-1)[1:-1] for one in readings])
assert previous.min() > 0.97 and abs(portrait[3, 2] - 8.9) < 0.05
assert abs(portrait[3, 5] - 2.1) < 0.05 and portrait[:, 3].max() < 1.2 and portrait[0, 3] < 0.35
others = portrait.clone()
others[0] = 0
assert others.masked_fill(others > 2, 0).max() < 2 and (others > 2).sum() == 2
shares = portrait[0][[0, 1, 4, 5, 6, 7, 8, 9, 10, 11]]
assert abs(shares.min() - 1.7) < 0.05 and abs(shares.max() - 4.0) < 0.05

# %% after: largest
most = torch.tensor([head for head in range(12) if most_to_cls[head] > 0.5])
assert most.tolist() == [0, 1, 6, 7, 8, 9, 10, 11]
assert 1 / 3 < most_to_cls[[4, 5]].min() and most_to_cls[[4, 5]].max() < 0.4

# %% after: shuffle
for seed in (0, 1, 2, 3):  # other shuffles
    dice = torch.Generator().manual_seed(seed)
    by_head = torch.cat([moved_by_shuffling(one, dice) for one in readings], dim=1).mean(dim=1)
    assert (by_head > 0.1).nonzero().flatten().tolist() == [2, 4, 5]
    assert by_head.topk(4).values[3] < 0.1
    assert by_head[2] > 0.75 and abs(by_head[5] - 1 / 3) < 0.05 and abs(by_head[4] - 1 / 7) < 0.03

# %% after: by-asker  numbers: 5,000, 20

# %% after: askers
assert abs(own[3] - 2.1) < 0.05 and own.argmax() == 3

# %% after: see-askers  numbers: 20
assert abs(median[3] - 1.68) < 0.005 and abs(own[3] / others[3] - 1) < 0.02
times = own / others
assert set(times.topk(4).indices.tolist()) == {1, 4, 8, 10}
assert times[[1, 4, 8, 10]].min() > 1.7 and times.max() < 2.2 and times.topk(5).values[4] < 1.3
assert (from_common.mean(dim=0) > 1).float().mean(dim=1)[3] > 0.9  # nearly every asker, in head 3
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

# %% after: two-reasons  numbers: 1.68, 20, 46, 552

# %% after: luck
assert few == 15 and ahead.numel() == 552 and ahead[0, 4] < 10 and 1 < by_chance < 2
assert examples.sentence[0] == " ".join(reading.tokens[1:-1]) and examples.clues[0] == "river"
four = [1, 4, 8, 10]
assert (
    in_first_tenth[four].min() > 1.9 * others_in_it[four].max()
    and abs(in_first_tenth.max() - 24 / 46) < 0.005
)
for factor in (1 - 1e-5, 1 + 1e-5):  # no number hangs on rounding
    again = (from_common > factor * from_word).sum(dim=-1)
    assert (again < 10).sum() == 15 and again[0, 4] <= ahead[0, 4] + 1
    assert torch.allclose((again < 500).float().mean(dim=0), in_first_tenth)

# %% after: what-arrives  numbers: 15, 46, 32, 384, 552

# %% after: contributions
assert u.shape == (12, 10, 384)
for one in readings[:5]:
    summed = (one.weights @ projected_values(one.embedded)).sum(dim=0)
    assert torch.allclose(summed + layer.attention.out_proj.bias, one.output, atol=1e-5)

# %% after: how-long  numbers: 304, 1, 0

# %% after: sink-lengths
near_zero = [6, 7, 8, 9, 11]
assert (lengths[0] < 0.13).nonzero().flatten().tolist() == near_zero
assert lengths[1:].min() > 0.8  # other positions, other tokens
for place in (2, 5, 10, 50):
    in_place = projected_values(layer.embed(["[CLS]"], positions=[place])[0])[:, 0]
    assert (in_place.norm(dim=-1) / of_words).min() > 0.8

# %% after: sink  numbers: 0, 0.05, 0.11, 0.44, 9
of_cls = weight_of_cls(readings)
assert abs(of_cls[9] - 0.44) < 0.005 and abs(lengths[0, 9] - 0.11) < 0.005
assert abs(of_cls[9] * lengths[0, 9] - 0.05) < 0.005

# %% after: see-sink
assert abs(measured[9] - 1.73) < 0.005
w = weight_of_cls(readings)
assert (measured * (1 - w) - 1)[[6, 7, 8, 9, 11]].abs().max() < 0.05
assert length_ratio(texts["9 sentences"][0]).median(dim=1).values.max() < 1.15

# %% after: the-arithmetic  numbers: 1, 1.73

# %% after: ablate
share = equal / removed
assert (share < 0.8).all()  # a head adds something without choosing
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

# %% after: before-table  numbers: 4, 0.46, 0.17

# %% after: the-answer  numbers: 2, 4, 5
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

# %% after: exercise-1  numbers: 0.12, 0.08, 0.09

# %% after: exercise-3  numbers: 32, 384

# %% after: exercise-4  numbers: 5,000, 21, 50, 0.98, 4
in_one_head = 100 / len(common)
assert in_one_head == 1 / 50 and abs(1 - 0.98**12 - 1 / 5) < 0.02

# %% after: exercise-5  numbers: 0.8, 1, 5

# %% after: in-torch  numbers: 4

# %% after: torch-weights
assert torch.allclose(mean[0], reading.weights.mean(dim=0), atol=1e-5)
assert (reading.tokens[5], reading.tokens[8]) == ("bank", "river")

# %% after: sources  numbers: 2017, 2019, 2020, 2022, 2023

# %% after: teacher-plan  numbers: 50, 3, 7, 8, 10, 11, 40, 62

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 0.1, 60
