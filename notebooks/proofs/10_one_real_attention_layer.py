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

# %% after: what-it-looks-at  numbers: 0.71

# %% after: see-swam
assert sat.tokens[1:9:7] == ["she", "river"] and sat.tokens[5] == "bank"
by_verb = {}
for verb in "sat swam waited".split() + layer.common_words(5000)[::20]:  # whichever token
    read = layer.embed([*sat.tokens[:2], verb, *sat.tokens[3:]])
    row = layer.attention(read).weights[0, :, 5]
    by_verb[verb] = row[:, 8], row[:, 8] / row[:, 1]  # (H,): river, and river / she
for _, ratio_of in by_verb.values():  # in every head
    assert torch.allclose(ratio_of, by_verb["sat"][1], rtol=2e-3)
    assert abs(ratio_of[4] - 230) < 1
assert abs(by_verb["sat"][0][4] - 0.71) < 0.005 and abs(by_verb["swam"][0][4] - 0.65) < 0.005
rows = [
    layer.read(f"she {verb} on the bank of the river").weights[4, 5] for verb in ("sat", "swam")
]
assert rows[1][2] / rows[1][8] > rows[0][2] / rows[0][8]  # swam has the larger score
for start, end in (("the animal didn't cross the street because it was too ", "tired wide the"),):
    rows_of_it = [layer.read(start + word).weights[:, 10] for word in end.split()]
    ratios = [row[:, 2] / row[:, 8] for row in rows_of_it]
    assert all(torch.allclose(ratio, ratios[0], rtol=2e-3) for ratio in ratios)

# %% after: experiment-heads  numbers: 10.1

# %% after: many-sentences  numbers: 46, 21

# %% after: examples
assert len(examples) == 46 and examples.word.nunique() == 21

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
sizes = torch.tensor([len(r.tokens) for r in readings]).float()
assert (sizes.min(), sizes.max()) == (7, 12)
of_cls_by_chance = ((sizes - 3) / sizes).sum() / 258  # the words but the first, 1 / size each
assert 8.5 < 1 / of_cls_by_chance < 9.5

all_words = torch.cat([one.weights[:, 1:-1].argmax(dim=-1) == 0 for one in readings], dim=1)
assert all_words.float().mean(dim=1)[[7, 11]].min() > 0.98

# %% after: by-asker  numbers: 20

# %% after: clue-shares
assert own.argmax() == 3 and abs(own[3] / of_others[3] - 1) < 0.02
times = own / of_others
assert set(times.topk(4).indices.tolist()) == {1, 4, 8, 10}
assert times[[1, 4, 8, 10]].min() > 1.7 and times.max() < 2.2 and times.topk(5).values[4] < 1.3
assert times.argmin() == 7 and times[7] < 0.7 and times.topk(11).values[10] > 0.85
others_than_bank = examples.word.ne("bank").to_numpy().nonzero()[0]
assert len(others_than_bank) == 40
own_then = from_word[others_than_bank].mean(dim=(0, 2))
times_then = (own_then / from_others[others_than_bank].mean(dim=(0, 2)))[[1, 4, 8, 10]]
assert abs(times_then.min() - 1.6) < 0.05 and abs(times_then.max() - 2.3) < 0.05
ahead_of_most = ((from_word > from_others).sum(dim=-1) > 10).sum(dim=0)  # of 20; (H,)
assert ahead_of_most[[1, 4, 8, 10]].tolist() == [33, 33, 37, 31]
assert round(46 * 10 / 21) == 22  # ranks 1 to 10 of 21 are ahead of more than 10
for start in range(3):  # clearly more in two thirds of the sentences, too
    kept = [i for i in range(46) if i % 3 != start]
    in_part = from_word[kept].mean(dim=(0, 2)) / from_others[kept].mean(dim=(0, 2))
    assert in_part[[1, 4, 8, 10]].min() > 1.4, start
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

# %% after: two-reasons  numbers: 46, 552, 5,000, 1.7, 2.2

# %% after: luck
listed = few_ahead(from_word)
assert listed.sum() == 14 and listed.numel() == 552 and listed[0, 4]
assert listed.sum(dim=0)[[1, 4, 8, 10]].sum() == 12
by_luck = torch.stack([few_ahead(from_others[:, :, [k]]).sum() for k in range(20)]).float()
assert by_luck.min() == 0 and by_luck.max() == 5 and abs(by_luck.mean() - 1.7) < 0.05
number = torch.tensor(examples.word.factorize()[0])
in_places = torch.stack([clue_shares(*example, ambiguous) for example in examples.values])
for seed in range(5):  # other deals of the 21 words, in which none keeps its own sentences
    generator = torch.Generator().manual_seed(seed)
    deals = [torch.randperm(21, generator=generator) for _ in range(60)]
    deals = [deal for deal in deals if (deal != torch.arange(21)).all()]
    dealt = [in_places[torch.arange(46), :, deal[number]][:, :, None] for deal in deals]
    assert len(deals) > 10 and max(few_ahead(shares).sum() for shares in dealt) < 10
ahead_of_bank = (from_common[0, 4] > from_word[0, 4]).nonzero().flatten().tolist()
assert [common[i] for i in ahead_of_bank] == "south deep headed bodies salt boats".split()
for factor in (1 - 1e-6, 1 + 1e-6):  # no case hangs on rounding
    assert few_ahead(factor * from_word).equal(listed)

# %% after: what-arrives  numbers: 552

# %% after: what-reaches-the-output  numbers: 32, 384, 0

# %% after: contributions
assert u.shape == (12, 10, 384)
for one in readings[:5]:
    summed = (one.weights @ projected_values(one.embedded)).sum(dim=0)
    assert torch.allclose(summed + layer.attention.out_proj.bias, one.output, atol=1e-5)
sinks = [6, 7, 8, 9, 11]
assert (longer > 5).nonzero().flatten().tolist() == sinks
assert 8 < longer[sinks].min() and longer[sinks].max() < 12
assert abs(w[9] - 0.42) < 0.005 and abs(longer[9] - 8.81) < 0.005
# u holds the bias of the values
parts = zip(blocks, layer.attention.v_proj.bias.view(12, 32), strict=True)
bias = torch.stack([block @ part for block, part in parts])
assert torch.allclose(projected_values(torch.zeros(1, 384))[:, 0], bias, atol=1e-6)

# %% after: sink  numbers: 8, 12

# %% after: see-sink
sinks = [6, 7, 8, 9, 11]
expected = 1 / (1 - w)
assert abs(ratio[9] - 1.73) < 0.005
assert (ratio / expected - 1)[sinks].abs().max() < 0.08
assert (ratio[[0, 1, 4, 5, 10]] < 0.93 * expected[[0, 1, 4, 5, 10]]).all()
assert [head for head in sinks if ratio[head] > 1.02 * expected[head]] == [11]
against = []
for one in readings:
    u_of_one = projected_values(one.embedded)
    rest = one.weights[:, 1:-1, 1:] @ u_of_one[:, 1:]
    against.append(torch.cosine_similarity(rest, u_of_one[:, :1], dim=-1))
assert torch.cat(against, dim=1).mean(dim=1)[11] < -0.4
assert 1.5 < ratio[sinks].min() and ratio[sinks].max() < 1.8
assert ratio[sinks].min() > ratio[[0, 1, 2, 3, 4, 5, 10]].max()

added = [(one.weights @ projected_values(one.embedded))[:, 1:-1] for one in readings]
added = torch.cat([one.norm(dim=-1) for one in added], dim=1)  # (H, words)
for length in (added.mean(dim=1), added.median(dim=1).values):
    assert abs(length[sinks].mean() / length[[0, 1, 10]].mean() - 0.9) < 0.05

# %% after: the-arithmetic  numbers: 1, 1.73, 10.4

# %% after: the-answer  numbers: 7, 12, 46

# %% after: further-shuffle  numbers: 1

# %% after: shuffle
for seed in range(6):  # other shuffles
    dice = torch.Generator().manual_seed(seed)
    by_head = torch.cat([moved_by_shuffling(one, dice) for one in readings], dim=1).mean(dim=1)
    assert by_head.topk(3).indices.tolist() == [2, 5, 4]
    assert by_head.topk(4).values[3] < 0.13
    assert by_head[2] > 0.75 and abs(by_head[5] - 1 / 2) < 0.03 and abs(by_head[4] - 1 / 6) < 0.02
for start in range(0, 45, 5):  # longer sentences
    long = layer.read(" and ".join(examples.sentence[start : start + 5]))
    dice = torch.Generator().manual_seed(start)
    of_head_4 = [moved_by_shuffling(long, dice)[4].mean() for _ in range(5)]
    assert abs(len(long.tokens) - 40) <= 3 and abs(sum(of_head_4) / 5 - 1 / 2) < 0.1

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

# %% after: ablate-read  numbers: 4, 0.46, 0.17

# %% after: exercise-1  numbers: 0.12, 0.08, 0.09

# %% after: exercise-3  numbers: 32, 384

# %% after: exercise-4  numbers: 5,000, 21, 50, 0.98, 4, 8
in_one_head = 100 / 5000
assert in_one_head == 1 / 50 and abs(1 - 0.98**12 - 1 / 5) < 0.02


def heads_that_pass(word, sentence, clue):
    own_share, *others = clue_shares(word, sentence, clue, [word, *common]).T  # (H,) each
    others = torch.stack(others)  # (askers, H)
    passes = (own_share >= 1) & (own_share >= 2 * others.median(dim=0).values)
    return (passes & ((others > own_share).sum(dim=0) < 100)).nonzero().flatten().tolist()


assert heads_that_pass("glass", "he drank a glass of water", "drank") == [1, 4, 8]
assert heads_that_pass("glass", "he drank a glass of water", "water") == []
assert heads_that_pass("glass", "the window is made of glass", "window")
assert heads_that_pass("tank", "the tank drove into battle", "drove")
assert heads_that_pass("tank", "the fish swam in the tank", "fish")
assert heads_that_pass("coach", "the coach trained the team", "team")
assert heads_that_pass("coach", "the passengers left the coach", "passengers")

# %% after: exercise-5  numbers: 0.8, 1, 5

# %% after: in-torch  numbers: 4

# %% after: torch-weights
assert torch.allclose(mean[0], sat.weights.mean(dim=0), atol=1e-5)
assert (sat.tokens[5], sat.tokens[8]) == ("bank", "river")

# %% after: sources  numbers: 2017, 2019, 2020, 2022, 2023

# %% after: teacher-plan  numbers: 45, 14, 13, 8, 10, 40

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 0.1, 60
