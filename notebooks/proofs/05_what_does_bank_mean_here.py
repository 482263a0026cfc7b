# %% after: banks-map  numbers: 0.25
assert torch.allclose(bank_weights[3, [0, 2]], torch.tensor([0.28, 0.15]), atol=0.005)
others = torch.cat([bank_weights.flatten()[:10], bank_weights.flatten()[11:]])
assert abs(others.min() - 0.15) < 0.005 and abs(others.max() - 0.34) < 0.005
assert abs(bank_weights[2, 2] - 0.53) < 0.005 and others.min() > 0.14

# %% after: read-map  numbers: 0, 0.25, 0.28, 0.53, 1

# %% after: factors
# on random tokens, too: outputs are more alike than inputs
inputs = torch.randn(200, 6, 8, generator=torch.Generator().manual_seed(0))
ends = (inputs @ inputs.mT / 8**0.5).softmax(dim=-1) @ inputs
pairs = [(i, j) for i in range(6) for j in range(i)]
closer = [cosine(ends[:, i], ends[:, j]) > cosine(inputs[:, i], inputs[:, j]) for i, j in pairs]
assert torch.stack(closer).float().mean() > 0.8

assert abs(alike[1] - 1) < 1e-5 and abs(alike[0] - alike[3]) < 0.01
eightfold = (8 * x @ x.T / 2).softmax(dim=-1)
assert eightfold[2, 2] > 0.99 and eightfold[3, 3] > 0.8 and eightfold[3, 2] < 0.01

# %% after: see-average
average, attended, *sharper = measured[1:]  # cosines with the correct bank
assert torch.allclose(average, attended, atol=0.005)
assert all(
    (after < before).all() for before, after in zip([attended, *sharper], sharper, strict=False)
)
for context in (["river", "water"], ["money", "loan"]):  # largest score with itself
    products = vectors(["bank"])[0, :4] @ vectors(["bank", *context])[:, :4].T
    assert products.argmax() == 0
# the weights of the two examples are nearly even
for context in (["river", "water"], ["money", "loan"]):
    even = (vectors(["bank"])[0, :4] @ vectors([*context, "bank"])[:, :4].T / 2).softmax(dim=-1)
    assert 0.29 < even.min() and even.max() < 0.39

# %% after: draw-average
# in the plane of the figure, too, the diamonds lie on the circles
for context in (["river", "water"], ["money", "loan"]):
    attended, plain = new_vector(context, 1)[:2], new_vector(context, 0)[:2]
    assert (attended - plain).norm() < 0.06 < 0.3 < (attended - bank[:2]).norm()

# %% after: explore-bank
drawn = BankExplorer()
assert abs(drawn.result.output[0]) < 1e-6 and abs(drawn.result.average[0]) < 1e-6
# straight down, to the height of the filler words and below: little weight, and only attention turns
for down in (-1, -1.3, -2.4):
    drawn.moved = [("river", -3, down)]
    assert drawn.result.output[0] > 1.6 and abs(drawn.result.average[0]) < 1e-6
    assert drawn.result.weights[4] < 0.03
for across, up in ((3, 2), (2, 2)):  # to the right: the plain average comes along
    drawn.moved = [("river", across, up)]
    assert drawn.result.average[0] > 0.3 and drawn.result.output[0] > 0.3
# the scores of "bank" depend on the height alone
assert drawn.result.vectors[drawn.result.words.index("bank"), 0] == 0

# %% after: read-sentence
most = [sat.tokens[j] for j in of_bank.argmax(dim=-1)]
assert [h for h in range(12) if most[h] == "river"] == [4, 10] and most.count("[CLS]") == 7
assert of_bank[2, sat.tokens.index("bank") - 1] > 0.99
assert torch.allclose(of_bank[[4, 10], 8], torch.tensor([0.71, 0.64]), atol=0.005)

# %% after: fresh-sentences
assert len(sentences) == 35 and len(known) == 3 and len(fresh) == 25 == 35 - 3 - 7

# %% after: uniform-shares  numbers: 0.3, 0.1

# %% after: clue-shares
of_each = clue_shares(["bank"]).mean(dim=0)[:, 0]
assert abs(of_each[4] - 3.3) < 0.05 and of_each.argmax() == 4
assert 0.25 < (by_bank[:, 4] < 1).float().mean() < 0.33  # “more than a quarter”
assert torch.allclose(of_each[[0, 3, 10]], torch.tensor([1.9, 2.3, 1.8]), atol=0.06)

# %% after: see-rank
in_order = mean[4].sort(descending=True)
assert torch.allclose(in_order.values[:2], torch.tensor([3.3, 2.6]), atol=0.05)
assert query_words[in_order.indices[1]] == "served" and abs(mean[4].median() - 0.52) < 0.005
by_head = 1 + (mean > mean[:, at_bank, None]).sum(dim=1)
assert by_head[4] == 1 and by_head.sort().values[1] == 72
# head 3 favours the clue, no matter which word asks
assert abs(mean[3].median() - 2.0) < 0.05 and abs(by_head[3] - 1500) < 20

long_words = [word for word in layer.vocabulary if word.isalpha() and len(word) > 2]
assert long_words[:5000] == query_words

# %% after: two-groups  numbers: 5,000, 1,000, 12
assert 12 / 5000 == 0.0024

# %% after: halves
head_4 = torch.stack(chosen) == 4
assert head_4.float().mean() > 0.9 and abs(torch.stack(own_shares).mean() - 3.2) < 0.05
assert (ranks <= 10).float().mean() > 0.9 and (ranks == 1).float().mean() < 0.75
for seed in (1, 2):  # other splits
    dice = torch.Generator().manual_seed(seed)
    splits = [torch.randperm(25, generator=dice) for _ in range(500)]
    heads = [by_bank[split[:12]].mean(dim=0).argmax() for split in splits]
    assert sum(head == 4 for head in heads) > 450
    measured = [by_bank[split[12:], head].mean() for split, head in zip(splits, heads, strict=True)]
    assert abs(sum(measured) / 500 - 3.2) < 0.05

# %% after: see-groups
assert is_river.sum() == 11 and (~is_river).sum() == 14
for chosen, rank in ((is_river, 8), (~is_river, 3)):
    mean_share = shares[chosen, 4].mean(dim=0)
    assert 1 + (mean_share > mean_share[at_bank]).sum() == rank
better = [
    shares[chosen, 4].mean(dim=0) > shares[chosen, 4, at_bank].mean()
    for chosen in (is_river, ~is_river)
]
assert better[0].any() and better[1].any() and not (better[0] & better[1]).any()

# %% after: why-first  numbers: 384, 5,000

# %% after: favourite-keys
named = "lakes harbor account commerce grade restaurants".split()
liked = []
for asker in ("bank", "river", "money", "chair"):
    best = (keys @ in_head_4(q_proj, asker, 5)).topk(15).indices
    liked.append({query_words[i] for i in best})
assert (
    {*named} <= liked[0]
    and "money" not in liked[0]
    and all(len(liked[0] & other) < 5 for other in liked[1:])
)
# from other positions, too, all of these are among the first thirty
for asks, offers in ((5, 1), (8, 3), (8, 6)):
    placed = torch.stack([in_head_4(k_proj, word, offers) for word in query_words])
    best = (placed @ in_head_4(q_proj, "bank", asks)).topk(30).indices
    assert {*named} <= {query_words[i] for i in best}

# %% after: thief
for sentence, word, weight in (
    (deposit, "deposit", 0.67),
    (restaurants, "restaurants", 0.76),
    (restaurants, "money", 0.01),
):
    reading = layer.read(sentence)
    row = reading.weights[4, reading.tokens.index("bank")]
    assert abs(row[reading.tokens.index(word)] - weight) < 0.005

# %% after: see-robbed
for verb in ("robbed", "painted", "loved", "left"):  # any third word leaves the score as it is
    weights = layer.read(f"the thief {verb} the bank by the river").weights[:, at]
    difference = (weights[:, river] / weights[:, at]).log()
    assert torch.allclose(difference, differences[0], atol=1e-3)
assert torch.allclose(torch.stack(of_river)[:, 10], torch.tensor([0.54, 0.23]), atol=0.005)
assert abs(of_verb[1][10] - 0.59) < 0.005

# %% after: the-meaning  numbers: 35, 0.71, 0.67

# %% after: direction
assert (len(water), len(money)) == (12, 10)
occurring = {word for sentence in sentences.sentence for word in layer.tokens(sentence)}
assert not {*water, *money} & occurring

# %% after: pairs-told  numbers: 16
assert (robbed > sailed).all()

# %% after: count-pairs
assert correct[1].tolist() == [53, 53]
for kind in ("clear", "mixed"):
    assert sentences[sentences.kind == kind].meaning.value_counts().tolist() == [8, 8]
# the sixteen mixed sentences drawn again from themselves: attention minus plain average
generator = torch.Generator().manual_seed(0)
draws = torch.randint(8, (2, 10_000, 8), generator=generator)
drawn_river, drawn_money = river_ones[draws[0]], money_ones[draws[1]]  # (10000, 8, 2)
won = (drawn_river[:, :, None] > drawn_money[:, None]).sum(dim=(1, 2))
difference = (won[:, 0] - won[:, 1]).float().quantile(torch.tensor([0.025, 0.975]))
assert abs(difference[0] + 10) <= 1 and abs(difference[1] - 11) <= 1

# %% after: pairs-read  numbers: 95, 25

# %% after: shuffled-layers
assert abs(by_chance.mean() - 2.0) < 0.05 and len(by_chance) == 300
assert (by_chance >= best_share(layer.attention)).sum() == 1

# %% after: shuffled-reading  numbers: 4

# %% after: remember
assert len(query_words) - 1 == 4999
assert round(cosine(x[2], x[3]).item(), 2) == 0.06
assert round(alike[2].item(), 2) == 0.74

# %% after: exercise-3


def shares_of_clue(some):
    found = []
    for sentence, clue in zip(some.sentence, some.clue, strict=True):
        read = layer.read(sentence)
        row = read.weights[:, read.tokens.index("bank")]
        found.append(row[:, read.tokens.index(clue)] * len(read.tokens))
    return torch.stack(found).mean(dim=0)  # (H,)


of_known = shares_of_clue(known)
assert of_known.argmax() == 10 and abs(of_known[10] - 5.7) < 0.05
same_clues = sentences[sentences.clue.isin(known.clue) & (sentences.kind != "known")]
assert len(same_clues) == 7 and abs(shares_of_clue(same_clues)[10] - 5.8) < 0.05
assert len(fresh) == 25 and shares_of_clue(fresh)[10] < shares_of_clue(same_clues)[10] / 3

# %% after: exercise-4
for verb, word in (("saw", "river"), ("robbed", "robbed")):
    read = layer.read(f"the thief {verb} the bank by the river")
    row = read.weights[10, read.tokens.index("bank")]
    assert read.tokens[row.argmax()] == word
    of_river = row[read.tokens.index("river")]
    assert abs(of_river - {"saw": 0.54, "robbed": 0.23}[verb]) < 0.005
assert abs(row[read.tokens.index("robbed")] - 0.59) < 0.005
sailed = layer.read("they sailed to the bank")
assert sailed.tokens[sailed.weights[10, sailed.tokens.index("bank")].argmax()] == "sailed"

# %% after: torch-control
assert torch.allclose(masked, z[:, :5].mean(dim=1, keepdim=True).expand_as(z), atol=1e-5)

# %% after: sources  numbers: 2019, 2020

# %% after: teacher-plan  numbers: 50, 8, 11, 3, 4

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 0, 143, 144
