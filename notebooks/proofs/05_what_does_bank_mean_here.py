# %% after: read-both
assert left.tokens.index("bank") == keep.tokens.index("bank")
assert 0.055 < changes.sum(dim=-1).max() / 2 < 0.065
lake, money_at = left.tokens.index("lake"), left.tokens.index("money")
assert (lake, money_at) == (keep.tokens.index("lake"), keep.tokens.index("money"))
assert abs(rows[0, lake] - 0.68) < 0.005 and abs(rows[1, lake] - 0.69) < 0.005
assert rows.argmax(dim=-1).tolist() == [lake, lake]
assert (rows[:, money_at] - 0.02).abs().max() < 0.005

# %% after: see-robbed
for verb, of_river, of_verb in (("saw", 0.54, 0.02), ("robbed", 0.23, 0.59)):
    tokens, _, _, weights = layer.read(f"the thief {verb} the bank by the river")
    row = weights[10, tokens.index("bank")]
    assert abs(row[tokens.index("river")] - of_river) < 0.005
    assert abs(row[tokens.index(verb)] - of_verb) < 0.005
both = [layer.read(f"the thief {verb} the bank by the river").weights for verb in ("saw", "robbed")]
assert (both[1] - both[0])[:, 5].abs().sum(dim=-1).argmax() == 10

# %% after: ask-robbed  numbers: 10

# %% after: see-score
# whatever verb of one piece stands there, in all heads, in four dtypes
from copy import deepcopy

for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
    attention, found = deepcopy(layer.attention).to(dtype), []
    for verb in "saw robbed painted loved left burned sold".split():
        tokens = layer.tokens(f"the thief {verb} the bank by the river")
        assert (tokens[3], tokens.index("bank"), tokens.index("river")) == (verb, 5, 8)
        found.append(scores_of(attention, layer.embed(tokens)[0].to(dtype))[:, 5, 8].float())
    assert torch.equal(torch.stack(found), found[0].expand(7, 12)) or dtype == torch.float32
    assert (torch.stack(found) - found[0]).abs().max() < 1e-4
    assert abs(found[0][10] - 3.086) < (0.0006 if dtype.itemsize > 2 else 0.05)

moved = [
    layer.read(f"the thief {verb} the bank by the river").embedded for verb in ("saw", "robbed")
]
moved = [scores_of(layer.attention, one)[10, 5] for one in moved]
assert ((moved[1] - moved[0]).abs() > 1e-4).nonzero().flatten().tolist() == [3]  # only “robbed”
t = layer.tokens("the thief burgled the bank by the river")  # three pieces move both words
longer = scores_of(layer.attention, layer.embed(t)[0])[10, t.index("bank"), t.index("river")]
assert abs(longer - found[0][10]) > 0.1

# in all heads, “bank” has the same score for “lake” in both sentences of the lake
lake = left.tokens.index("lake")
assert (left.tokens[bank], keep.tokens[bank], keep.tokens[lake]) == ("bank", "bank", "lake")
of_lake = [scores_of(layer.attention, one.embedded)[:, bank, lake] for one in (left, keep)]
assert (of_lake[0] - of_lake[1]).abs().max() < 1e-4

# %% after: shopping-list  numbers: 1
# at position 5, “bank” has the same score for “river” at position 8 in any sentence, in all heads
common = layer.common_words(5000)
found = []
for seed in range(5):
    words = torch.randint(5000, (12,), generator=torch.Generator().manual_seed(seed)).tolist()
    tokens = [common[i] for i in words]
    tokens[5], tokens[8] = "bank", "river"
    found.append(scores_of(layer.attention, layer.embed(tokens)[0])[:, 5, 8])
assert (torch.stack(found) - found[0]).abs().max() < 1e-4

# %% after: water-wins
assert len(sentences) == 64 and len(mixed) == 32
assert sentences.clue.is_unique and sentences.sentence.is_unique
for kind in ("clear", "mixed"):
    assert sentences[sentences.kind == kind].meaning.value_counts().tolist() == [16, 16]
of_meaning = mixed.water.where(mixed.meaning == "river", mixed.money)
assert (mixed.clue == of_meaning).all() and mixed.water.notna().all() and mixed.money.notna().all()
clear = sentences[sentences.kind == "clear"]
assert (clear[["water", "money"]].notna().sum(axis=1) == 1).all()
for row in sentences.itertuples():  # each word is one piece and occurs once
    tokens = layer.tokens(row.sentence)
    for word in filter(lambda one: isinstance(one, str), (row.clue, row.water, row.money)):
        assert tokens.count(word) == tokens.count("bank") == 1
assert of_three.tolist() == [27, 0, 17]

# %% after: ask-bank  numbers: 15, 8, 32, 5,000

# %% after: see-bank
# of 5,000 words that ask in head 8, 113 give the money word more in all 16 money sentences: none of
# them the water word in more than 9 river sentences, and nearly all in fewer than 8
from attnlab.explorers import who_asks

won = who_asks._bits(who_asks._stored()[1][:5000])[:, 8]  # (5000, 32)
of_river, of_money = won[:, is_river].sum(dim=-1), won[:, ~is_river].sum(dim=-1)
in_river = of_river[of_money == 0]
assert len(in_river) == 113 and in_river.max() == 9 and (in_river < 8).float().mean() > 0.9
assert not ((of_river >= 13) & (of_money <= 1)).any()
chair = layer.common_words(5000).index("chair")
assert (of_river[chair], of_money[chair]) == (8, 9)
assert by_bank[is_river, 8].sum() == 1 and by_bank[~is_river, 8].sum() == 0
assert by_bank[is_river, 10].sum() == 11 and by_bank[~is_river, 10].sum() == 14

# %% after: rulers
occurring = {token for text in sentences.sentence for token in layer.tokens(text)}
assert not occurring & {*water, *money} and (len(water), len(money)) == (12, 12)
apart = by_water - by_money
assert apart[[1, 4, 8, 10]].min() > 0.355
assert apart[[0, 2, 3, 5, 6, 7, 9, 11]].abs().max() < 0.2
# where “bank” lies: beyond the middle of both groups, and in head 4 at the edge
middle = (by_water + by_money) / 2
assert (share[[8, 1], 0] < middle[[8, 1]]).all() and (share[[4, 10], 0] > middle[[4, 10]]).all()
assert (32 * share[[4, 10], 0]).tolist() == [21, 25]
assert share[4, 0] == share[4, 1:13].min() and share[4, 0] > share[4, 13:].max()
# other sentences and other rulers: 2,000 draws of both
pools = [water, money]
pools[0] = (
    water + "shore beaches harbour port dock docks fleet shark sharks marine cove gulf".split()
)
pools[1] = (
    money + "loan loans financial economic investment banking payment revenue profits".split()
)
pools[1] += "trading price dollar wage taxes".split()
pools = [[w for w in pool if w not in occurring] for pool in pools]
wins = water_wins(["bank", *pools[0], *pools[1]]).float()
generator = torch.Generator().manual_seed(0)
sides = torch.zeros(12)
for _ in range(2000):
    drawn = wins[torch.randint(32, (32,), generator=generator)].mean(dim=0)  # (H, A)
    first = 1 + torch.randperm(len(pools[0]), generator=generator)[:12]
    second = 1 + len(pools[0]) + torch.randperm(len(pools[1]), generator=generator)[:12]
    sides += drawn[:, 0] > (drawn[:, first].mean(dim=1) + drawn[:, second].mean(dim=1)) / 2
assert sides[[8, 1]].max() < 0.02 * 2000 and sides[10] > 0.95 * 2000
assert 0.7 * 2000 < sides[4] < 0.97 * 2000

# %% after: four-heads  numbers: 5,000
# where “bank” lies among 5,000 words
from attnlab.explorers import who_asks

count = who_asks._bits(who_asks._stored()[1][:5000]).sum(dim=-1).float()  # (5000, H)
of_bank = 32 * share[:, 0]
assert 0.005 < (count <= of_bank).float().mean(dim=0)[8] < 0.013

# %% after: explore-askers
from attnlab.explorers import who_asks

assert who_asks.WATER == (*water,) and who_asks.MONEY == (*money,)
of_bank = by_bank[is_river].sum(dim=0), by_bank[~is_river].sum(dim=0)
assert not ((of_bank[0] >= 12) & (of_bank[1] <= 4)).any()
for head in range(12):  # the stored numbers are those of this page
    result = WhoAsksExplorer(ask=False, word="bank", head=head).result
    assert (result.river, result.money) == (of_bank[0][head].item(), of_bank[1][head].item())
    assert bool(result.side) == (head in (1, 4, 8, 10))

# %% after: answer-askers  numbers: 5,000
from attnlab.explorers import who_asks

of_bank = by_bank[is_river].sum(dim=0), by_bank[~is_river].sum(dim=0)
assert [one[5].item() for one in of_bank] == [11, 6] and [one[4].item() for one in of_bank] == [
    13,
    8,
]
assert abs(who_asks.gaps()[4].item() - 4.7) < 0.05
stored = who_asks._bits(who_asks._stored()[1][:5000])[:, 5]  # (5000, 32)
gap = stored[:, :16].sum(dim=1) - stored[:, 16:].sum(dim=1)
assert (of_bank[0] - of_bank[1]).max() == 5 and abs((gap >= 5).float().mean() - 1 / 9) < 0.01

# %% after: pairs
assert 16 * 16 == 256 == 2 * 128
assert in_order(leans, "clear").tolist() == [252, 210, 254, 255]
assert in_order(leans, "mixed").tolist() == [194, 188, 161, 250]
clear = sentences[sentences.kind == "clear"]
assert (clear.clue == clear.water.fillna(clear.money)).all()  # so “without both” lacks the clue
# with 40 other axes: without both words, the count is nearer to 190 than to 160
vectors = torch.stack([lean(row) for row in sentences.itertuples()])  # (64, 4, 384)
generator = torch.Generator().manual_seed(0)
more_water = "shore beaches harbour port dock docks fleet shark sharks marine cove gulf".split()
more_money = "loan loans financial economic investment banking payment revenue profits".split()
more_money += "trading price dollar wage taxes".split()
pools = water + more_water, money + more_money
for _ in range(40):
    groups = [
        [pool[i] for i in torch.randperm(len(pool), generator=generator)[:12]] for pool in pools
    ]
    other_axis = mean_of(groups[0]) - mean_of(groups[1])
    plain, others, attended, alone = in_order(vectors @ other_axis, "mixed").tolist()
    assert attended <= plain and alone > 240 and others > max(175, plain - 15)

# %% after: ask-mixed  numbers: 160, 190, 188

# %% after: draw-rulers
assert (32 * share[[4, 10], 0]).tolist() == [21, 25]

# %% after: read-mixed
# the mixed sentences drawn again from themselves: attention minus plain average
chosen = torch.tensor((sentences.kind == "mixed").values)
values = leans[chosen][:, [0, 2]]
river_ones, money_ones = values[is_river], values[~is_river]
for seed in range(5):
    draws = torch.randint(16, (2, 10_000, 16), generator=torch.Generator().manual_seed(seed))
    won = (river_ones[draws[0]][:, :, None] > money_ones[draws[1]][:, None]).sum(dim=(1, 2))
    ends = (won[:, 1] - won[:, 0]).float().quantile(torch.tensor([0.025, 0.975]))
    assert abs(ends[0] + 70) <= 2 and abs(ends[1] - 5) <= 3
far = hands_over(layer.embed(["hired"], positions=[3])[0])[0] @ axis
assert (mean_of(water) + mean_of(money)) @ axis / 2 - far > 10  # beyond the middle of the axis

# %% after: later-layers
for text in texts:
    tokens = layer.tokens(text)
    assert (tokens[at_bank], tokens[at_river]) == ("bank", "river")
changes = torch.tensor([
    [
        (scores_of(part.attention, x[number]) - scores_of(part.attention, readings[0][number]))[
            :, at_bank, at_river
        ].abs().max()
        for x in readings[1:]
    ]
    for number, part in enumerate(encoder.layers)
])  # fmt: skip
assert changes[0].max() < 1e-4 and changes[1:].min() > 0.2
for number in range(1, len(encoder.layers)):  # the query alone moves the score, and the key alone
    attention = encoder.layers[number].attention
    query = [split_heads(attention.q_proj(z[number]), 12)[:, at_bank] for z in readings]
    key = [split_heads(attention.k_proj(z[number]), 12)[:, at_river] for z in readings]
    by_query = ((query[1] - query[0]) * key[0]).sum(dim=-1) / 32**0.5
    by_key = (query[0] * (key[1] - key[0])).sum(dim=-1) / 32**0.5
    assert by_query.abs().max() > 0.1 and by_key.abs().max() > 0.08

# %% after: the-answer  numbers: 8, 10

# %% after: typed-cosine
assert 0.5 < (x @ x.T / 2).softmax(dim=-1).max() < 0.55
sharper = (4 * (x @ x.T)).softmax(dim=-1) @ x  # eight times the scores: less alike than before
assert torch.cosine_similarity(sharper[2], sharper[3], dim=0) < 0.055
before, after, plain = (torch.cosine_similarity(v[2], v[3], dim=0) for v in (x, output, average))
assert abs(before - 0.06) < 0.005 and abs(after - 0.74) < 0.005 and abs(plain - 1) < 1e-5

# %% after: remember  numbers: 1, 4, 8, 10

# %% after: exercise-2
coins = torch.rand(20_000, 12, 32, generator=torch.Generator().manual_seed(0)) < 0.5
assert 0.4 < (coins.sum(dim=-1).amax(dim=-1) >= 21).float().mean() < 0.6
right = (by_bank == is_river[:, None]).sum(dim=0)
assert right.max() == 21 and (right == 21).nonzero().flatten().tolist() == [4, 5]

# %% after: exercise-3  numbers: 1
from attnlab.explorers import who_asks

common = layer.common_words(5000)
won = who_asks._bits(who_asks._stored()[1][:5000])  # (5000, 12, 32)
won = (won == is_river).sum(dim=-1)
assert won.max() == 30 and won[common.index("piano"), 11] == 30 and 12 * 5000 == 60_000

# with the places of clue and other word exchanged
places = [
    [tokens.index(word) for word in (clue, water_word if clue == money_word else money_word)]
    for tokens, clue, water_word, money_word in zip(
        map(layer.tokens, mixed.sentence), mixed.clue, mixed.water, mixed.money, strict=True
    )
]
assert sum(clue > rest for clue, rest in places) == 28
number = {word: row for row, word in enumerate(layer.vocabulary)}
clue_wins_there = 0
for text, clue, (at_clue, at_rest) in zip(mixed.sentence, mixed.clue, places, strict=True):
    tokens = layer.tokens(text)
    query = layer.attention.q_proj(layer._embedded([number["piano"]], [tokens.index("bank")]))
    swapped = layer._embedded([number[clue], number[tokens[at_rest]]], [at_rest, at_clue])
    scores = (split_heads(query, 12) @ split_heads(layer.attention.k_proj(swapped), 12).mT)[11, 0]
    clue_wins_there += int(scores[0] > scores[1])
assert clue_wins_there == 13

# %% after: exercise-3-read  numbers: 28, 13, 11

# %% after: exercise-4
put = layer.read("i put my money in the bank")
row = put.weights[8, put.tokens.index("bank")]
rest = [i for i, token in enumerate(put.tokens) if token not in ("[CLS]", "[SEP]", "bank")]
assert put.tokens[max(rest, key=lambda i: row[i])] == "money"
row = left.weights[8, bank]
lake, money_at = left.tokens.index("lake"), left.tokens.index("money")
assert abs(row[money_at] - 0.12) < 0.005 and abs(row[lake] - 0.01) < 0.005

# %% after: torch-control
assert torch.allclose(masked, z[:, :5].mean(dim=1, keepdim=True).expand_as(z), atol=1e-5)

# %% after: sources  numbers: 2019, 2020

# %% after: teacher-plan  numbers: 46, 4, 8, 10, 13, 3

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 8, 143, 144
