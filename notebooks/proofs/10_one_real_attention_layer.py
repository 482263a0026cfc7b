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
assert sum(len(one.tokens) - 2 for one in readings) == 304
assert abs(share_won_by_cls(readings) - 0.62) < 0.005

# %% after: so-much  numbers: 62, 0.41, 8.6
assert abs(torch.cat([one.weights[6, 1:-1, 0] for one in readings]).mean() - 0.41) < 0.005

# %% after: see-length
one_to_nine = torch.tensor(rows)
assert abs(one_to_nine[2, 1] - 0.06) < 0.005 and abs(one_to_nine[2, 3] - 0.30) < 0.005
assert 3.55 < one_to_nine[:, 2].min() and one_to_nine[:, 2].max() < 3.95
assert 1 / one_to_nine[2, 0] < 0.02  # a token that is picked by chance
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

# %% after: in-uniform-shares  numbers: 1, 3.6, 3.9, 62, 30, 2, 0.06

# %% after: portrait
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

# %% after: see-shuffle
for seed in (0, 1, 2, 3):  # other shuffles
    dice = torch.Generator().manual_seed(seed)
    by_head = torch.cat([moved_by_shuffling(one, dice) for one in readings], dim=1).mean(dim=1)
    assert (by_head > 0.1).nonzero().flatten().tolist() == [2, 4, 5]
    assert by_head.topk(4).values[3] < 0.1
    assert by_head[2] > 0.75 and abs(by_head[5] - 1 / 3) < 0.05 and abs(by_head[4] - 1 / 7) < 0.03

# %% after: swap
ten = [head for head in range(12) if head not in (2, 3)]
assert [head for head in ten if word_in_0[head] > cls_in_1[head]] == [4, 8, 10, 11]
lost = 1 - cls_in_1 / cls_in_0
assert (lost[[6, 7]] - 1 / 4).abs().max() < 0.03 and lost[[0, 1, 5, 9]].max() < 0.1
assert word_in_1[ten].max() < 1
# head 2 gives as much to whatever stands in position 1
assert (torch.stack([word_in_1, cls_in_1])[:, 2] - 1.5).abs().max() < 0.05
assert cls_in_0[2] < 0.01 and word_in_0[2] < 0.01
# head 3 avoids position 0
assert word_in_0[3] < 0.15 < 1 < word_in_1[3] and cls_in_0[3] < 0.35 < 2.3 < cls_in_1[3]

# %% after: by-asker  numbers: 5,000

# %% after: askers
assert abs(from_word[3] - 2.1) < 0.05 and from_word.argmax() == 3
assert abs(from_word[8] - 0.5) < 0.05
# no number of the page hangs on rounding: the shares that are compared differ
gaps = (from_askers.double() - from_word.double()[:, None]).abs()
assert gaps.amin() > 1e-6

# %% after: see-askers
assert abs(from_askers.median(dim=1).values[3] - 1.68) < 0.005
assert (from_askers > 1).float().mean(dim=1)[3] > 0.9  # most words favour the clues in head 3
FUNCTION = set(
    "a an the of on in at to from for with out and or she he it they we you him his her its"
    " is was were as near after that".split()
)
everything = [
    set(one.sentence.split()) - FUNCTION - {one.word} <= set(one.clues.split())
    for one in examples.itertuples()
]
assert sum(everything) > 23  # in most sentences, every word with a meaning of its own is a clue
marked = set(" ".join(examples.clues).split())
assert not marked & {"the", "in", "a", "of", "to"}
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
    by_chance = torch.stack(
        [
            in_places[torch.arange(46), :, torch.randperm(21, generator=generator)[number]].mean(0)
            for _ in range(300)
        ]
    )
    less_then = (by_chance < from_word).float().mean(dim=0)  # (H,)
    assert (less_then[[1, 4, 8, 10]] == 1).all() and less_then[3] < 0.5

# %% after: clues-are-content  numbers: 1.68, 8

# %% after: percentile
assert (
    set(percentile.topk(4).indices.tolist()) == {1, 4, 8, 10} and percentile.topk(4).values[3] > 98
)
assert percentile.topk(5).values[4] < 95

# %% after: luck-text  numbers: 46, 552

# %% after: luck
assert few == 15 and ahead.numel() == 552 and ahead[0, 4] < 10 and 552 * 10 / 5000 < 1.5
assert examples.sentence[0] == " ".join(reading.tokens[1:-1]) and examples.clues[0] == "river"
assert (min(first_tenth), max(first_tenth)) == (18, 24)
for factor in (1 - 1e-5, 1 + 1e-5):  # no number hangs on rounding
    again = (by_sentence[..., 1:] > factor * by_sentence[..., :1]).sum(dim=-1)
    assert (again < 10).sum() == 15 and again[0, 4] <= ahead[0, 4] + 1
    assert (again < 500).sum(dim=0)[[1, 4, 8, 10]].tolist() == first_tenth

# %% after: what-arrives  numbers: 32, 384, 15, 46, 18, 24

# %% after: contributions
assert u.shape == (12, 10, 384)
for one in readings[:5]:
    summed = (one.weights @ projected_values(one.embedded)).sum(dim=0)
    assert torch.allclose(summed + layer.attention.out_proj.bias, one.output, atol=1e-5)

# %% after: how-long  numbers: 304, 1

# %% after: sink-lengths
near_zero, table_of_u = [6, 7, 8, 9, 11], torch.stack(rows)  # length and cosine in 0, then in 1
assert (table_of_u[0] < 0.13).nonzero().flatten().tolist() == near_zero
assert (table_of_u[1] < -0.89).nonzero().flatten().tolist() == near_zero
assert table_of_u[2].min() > 0.8 and table_of_u[3][near_zero].min() > 0

# %% after: sink  numbers: 6, 7, 8, 9, 11

# %% after: ask-sink
in_9 = torch.cat([one.weights[9, 1:-1, 0] for one in readings]).mean()
assert abs(in_9 - 0.44) < 0.005 and 0.09 < rows[0][9] < 0.12

# %% after: see-sink
assert abs(measured[9] - 1.73) < 0.005

# %% after: compare-factor
_, expected, in_long_texts = rows
assert (measured / expected - 1)[[6, 7, 8, 9, 11]].abs().max() < 0.1
assert (measured / expected)[[0, 1, 4, 5, 10]].max() < 0.92  # where [CLS] adds something
assert in_long_texts.max() < 1.095

# %% after: ablation  numbers: 1, 9

# %% after: ablate
share = uniform / removed
assert (share < 0.51).nonzero().flatten().tolist() == [0, 3, 4]
assert removed.topk(2).indices.tolist() == [4, 2] and abs(removed.min() - 0.19) < 0.005
assert abs(removed[4] - 0.46) < 0.005 and abs(uniform[4] - 0.19) < 0.005 and share[9] > 0.95
assert abs(uniform[2] - 0.35) < 0.005
assert uniform.topk(2).values[1] < 0.255 and uniform.min() > 0.11

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
attention, change = torch.stack(rows).mean(dim=0)
assert len(rows) == 31 and attention.max() < 0.045 and abs(change[2] - 0.40) < 0.005
assert change.argmax() == 2 and attention[2] < 0.005

# %% after: exercise-1  numbers: 0.12, 0.08, 0.09

# %% after: exercise-3  numbers: 32, 384

# %% after: exercise-4  numbers: 5,000, 21, 50, 0.98, 4
in_one_head = 100 / len(askers)
assert in_one_head == 1 / 50 and abs(1 - 0.98**12 - 1 / 5) < 0.02

# %% after: exercise-5  numbers: 0.8, 1, 5

# %% after: in-torch  numbers: 4

# %% after: torch-weights
assert torch.allclose(mean[0], reading.weights.mean(dim=0), atol=1e-5)
assert (reading.tokens[5], reading.tokens[8]) == ("bank", "river")

# %% after: sources  numbers: 2017, 2019, 2020, 2022, 2023

# %% after: teacher-plan  numbers: 50, 9, 8, 10, 6, 40

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 0.1, 60
