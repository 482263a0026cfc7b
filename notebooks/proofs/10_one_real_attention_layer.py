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

# %% after: largest-weights
assert sum(len(one.tokens) - 2 for one in readings) == 304 and favourites.shape == (12, 304)
assert abs((favourites == 0).float().mean() - 0.62) < 0.005

# %% after: so-much  numbers: 62, 0.41, 8.6
assert abs(over_words(lambda one: one.weights[:, 1:-1, 0], readings)[6].mean() - 0.41) < 0.005

# %% after: see-length
of_texts = over_words(lambda one: one.weights[:, 1:-1, 0], joined(9))[6].mean()
assert abs(of_texts - 0.06) < 0.005
shares_in_6 = [
    over_words(lambda one: one.weights[6, 1:-1, 0] * len(one.tokens), joined(k)).mean()
    for k in (1, 3, 9)
]
assert 3 < min(shares_in_6) and max(shares_in_6) < 4
assert abs((over_words(favourite, joined(9)) == 0).float().mean() - 0.30) < 0.005
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

# %% after: in-uniform-shares  numbers: 46, 62

# %% after: portrait
assert abs(portrait[0, 9] - 3.8) < 0.05 and over_words(shares_of_five, readings).shape[-1] == 304
assert (portrait.argmax(dim=0) == 0).sum() == 10
assert portrait.argmax(dim=0)[[2, 3]].tolist() == [3, 1]
assert abs(portrait[3, 2] - 8.8) < 0.05 and abs(portrait[3, 5] - 2.6) < 0.05
assert (portrait[1] > 1).sum() == 7  # [SEP]
others = portrait.clone()
others[0] = 0
assert others.masked_fill(others > 2.5, 0).max() < 2

# %% after: ask-shuffle  numbers: 46

# %% after: shuffle
# each word keeps its position vector: nothing moves
order = [0, 4, 2, 7, 1, 3, 8, 5, 6, 9]
kept = weights_of([reading.tokens[j] for j in order], positions=order)
assert torch.allclose(kept, reading.weights[:, order][:, :, order], atol=1e-5)

# %% after: see-shuffle
for seed in (0, 1, 2, 3):  # other shuffles
    dice = torch.Generator().manual_seed(seed)
    by_head = over_words(moved_by_shuffling, readings).mean(dim=-1)
    assert (by_head > 0.1).nonzero().flatten().tolist() == [2, 4, 5]
    assert by_head.topk(4).values[3] < 0.08 and by_head[2] > 0.75

# %% after: swap
at_home, away_from_home, first_at_0 = two_by_two[0], two_by_two[2], two_by_two[3]
ten = [head for head in range(12) if head not in (2, 3)]
assert [head for head in ten if first_at_0[head] > away_from_home[head]] == [4, 8, 10, 11]
assert [head for head in ten if away_from_home[head] >= at_home[head]] == [0, 1, 9]
# in 5, 6 and 7, [CLS] loses, and the first word gains but stays behind
assert (away_from_home < at_home)[[5, 6, 7]].all() and (first_at_0 > two_by_two[1])[[5, 6, 7]].all()

# %% after: by-asker  numbers: 5,000

# %% after: askers
assert abs(by_word[3, 0] - 2.1) < 0.05 and by_word[:, 0].argmax() == 3
assert abs(by_word[8, 0] - 0.5) < 0.05
# no number of the page hangs on rounding: the shares that are compared differ
gaps = (by_askers.double() - by_word.double()).abs()
assert gaps.amin() > 1e-6

# %% after: see-askers
assert abs(by_askers.median(dim=1).values[3] - 1.68) < 0.005
assert (
    set(percentile.topk(4).indices.tolist()) == {1, 4, 8, 10} and percentile.topk(4).values[3] > 98
)
assert percentile.topk(5).values[4] < 95
assert (by_askers > 1).float().mean(dim=1)[3] > 0.9  # most words favour the clues in head 3
FUNCTION = set(
    "a an the of on in at to from for with out and or she he it they we you him his her its"
    " is was were as near after that".split()
)
everything = [
    set(one.sentence.split()) - FUNCTION - {one.word} <= set(one.clues.split())
    for one in examples.itertuples()
]
assert sum(everything) > 23  # in most sentences, every word with a meaning of its own is a clue
# the 21 ambiguous words exchange their sentences at random: fewer shares every time
number, ambiguous = torch.tensor(examples.word.factorize()[0]), examples.word.unique().tolist()
in_places = []
for example in examples.itertuples():
    here = layer.tokens(example.sentence)
    as_asked = layer.attend_as(ambiguous, here, here.index(example.word))
    clues = torch.tensor([token in example.clues.split() for token in here])
    in_places.append(as_asked[..., clues].mean(dim=-1) * len(here))
in_places = torch.stack(in_places)  # (46, H, 21)
for seed in range(4):
    generator = torch.Generator().manual_seed(seed)
    exchanged = torch.stack(
        [
            in_places[torch.arange(46), :, torch.randperm(21, generator=generator)[number]].mean(0)
            for _ in range(300)
        ]
    )
    less_then = (exchanged < by_word.T).float().mean(dim=0)  # (H,)
    assert (less_then[[1, 4, 8, 10]] == 1).all() and less_then[3] < 0.5

# %% after: clues-are-content  numbers: 5,000, 46, 552, 10, 1.68

# %% after: luck
assert (ahead < 10).sum() == 15 and ahead.numel() == 552 and ahead[0, 4] < 10
assert examples.sentence[0] == " ".join(reading.tokens[1:-1]) and examples.clues[0] == "river"
first_tenth = (ahead < 500).sum(dim=0)
assert first_tenth[[1, 4, 8, 10]].max() <= 24 and first_tenth[[1, 4, 8, 10]].min() >= 18
assert first_tenth[8] == 24  # 24 of 46
for factor in (1 - 1e-5, 1 + 1e-5):  # no number hangs on rounding
    again = (by_sentence[..., 1:] > factor * by_sentence[..., :1]).sum(dim=-1)
    assert (again < 10).sum() == 15 and again[0, 4] <= ahead[0, 4] + 1
    assert torch.equal((again < 500).sum(dim=0), first_tenth)

# %% after: what-arrives  numbers: 32, 384, 15, 46
# the ratio of two weights does not depend on a third word, in any head
start, ratios = "the animal didn't cross the street because it was too ", []
for word in ("tired", "wide", "cold", "happy", "the"):
    row_of_it = layer.read(start + word).weights[:, 10]
    ratios.append(row_of_it[:, 2] / row_of_it[:, 8])
    assert torch.allclose(ratios[-1], ratios[0], rtol=2e-3)

# %% after: contributions
assert u.shape == (12, 10, 384)
for one in readings[:5]:
    summed = (one.weights @ projected_values(one.embedded)).sum(dim=0)
    assert torch.allclose(summed + layer.attention.out_proj.bias, one.output, atol=1e-5)

# %% after: how-long  numbers: 304, 1

# %% after: sink-lengths
near_zero = [6, 7, 8, 9, 11]
assert ((without > 0.2) & (without < 0.3)).sum() == 9  # about a quarter in most heads
assert (with_bias < 0.12).nonzero().flatten().tolist() == near_zero
assert (elsewhere > 0.8).all()
product = projected_values(in_0) - bias
opposite = torch.cosine_similarity(product, bias, dim=-1).flatten()
assert (opposite[near_zero] < -0.89).all()

# %% after: sink  numbers: 6, 7, 8, 9, 11

# %% after: ask-sink
in_9 = over_words(lambda one: one.weights[:, 1:-1, 0], readings)[9].mean()
assert abs(in_9 - 0.44) < 0.005 and with_bias[9] < 0.12

# %% after: see-sink
near_zero = [6, 7, 8, 9, 11]
measured, expected, measured_long, expected_long = (each.median(dim=-1).values for each in medians)
assert abs(measured[9] - 1.73) < 0.005
assert (measured / expected - 1)[near_zero].abs().max() < 0.1
assert ((measured / expected) < 0.92)[[4, 5, 10]].all() and with_bias[[4, 5, 10]].min() > 0.2
assert measured_long.max() < 1.1  # little changes in long texts
assert measured[8] > 1.5 > 1.32 > measured[10]

# %% after: ablation  numbers: 1

# %% after: ablate
assert over_words(changes, readings).shape == (2, 12, 304)
part = uniform / removed
assert (part < 0.51).nonzero().flatten().tolist() == [0, 3, 4]
assert (part > 0.8).nonzero().flatten().tolist() == [2, 7, 8, 9]
assert removed.topk(2).indices.tolist() == [4, 2] and abs(removed.min() - 0.19) < 0.005
assert abs(removed[4] - 0.46) < 0.005 and abs(uniform[2] - 0.35) < 0.005
assert uniform.topk(2).values[1] < 0.255 and uniform.min() > 0.11

# %% after: the-answer  numbers: 2, 4, 5

# %% after: further-same-weights  numbers: 46

# %% after: the-or-a
found = torch.tensor(rows)
assert len(found) == 31 and found[:, 0].max() < 0.135 and found[:, 1].min() > 1 / 3

# %% after: exercise-1  numbers: 0.12, 0.08, 0.09

# %% after: exercise-3  numbers: 32, 384

# %% after: exercise-4  numbers: 5,000, 21, 50, 0.98, 4
in_one_head = 100 / len(askers)
assert in_one_head == 1 / 50 and abs(1 - 0.98**12 - 1 / 5) < 0.02
of_askers = by_sentence[..., 1:]  # (46, H, A)
passes = (of_askers >= of_askers.topk(100, dim=-1).values[..., -1:]) & (of_askers >= 1)
assert abs(passes.any(dim=1).float().mean() - 1 / 6) < 0.01  # in one sentence of six

# %% after: exercise-5  numbers: 0.8, 1, 5

# %% after: in-torch  numbers: 4

# %% after: torch-weights
assert torch.allclose(mean[0], reading.weights.mean(dim=0), atol=1e-5)
assert (reading.tokens[5], reading.tokens[8]) == ("bank", "river")

# %% after: sources  numbers: 2017, 2019, 2020, 2022, 2023

# %% after: teacher-plan  numbers: 50, 9, 8, 10, 6, 40

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 0.1, 60
