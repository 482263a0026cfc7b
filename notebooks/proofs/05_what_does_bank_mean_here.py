# %% after: typed-banks
# nothing generic went in: two vectors at nearly a right angle
assert tokens[2:] == ["Bank (finance)", "Bank (shore)"]
assert features == ["finance", "nature", "building", "shore"]
assert not torch.allclose(x[2], x[3], atol=0.5)

# %% after: banks-map
from attnlab import scaled_dot_product_attention

wanted = torch.tensor([0.2768, 0.2358, 0.1459, 0.3414])
assert torch.allclose(bank_weights[3], wanted, atol=1e-4)  # River is 0.28, and Water below 0.25
assert wanted[1] < 0.25 and abs(wanted[2] / wanted[1] - 0.62) < 0.01  # the other bank: 62 %
others = torch.cat([bank_weights.flatten()[:10], bank_weights.flatten()[11:]])
assert others.min() > 0.14 and others.max() < 0.342 and bank_weights[2, 2] > 0.52  # over 2 x 0.25
# a score adds up what two tokens share: 0.9 for nature and 0.5 for shore
raw = x @ x.T
shared = torch.tensor([[1.25, 1.2, 0, 1.4], [1.2, 1.44, 0, 1.08], [0, 0, 2.44, 0.12]])
assert torch.allclose(raw[:3], shared, atol=1e-4)
assert torch.allclose(x[3] * x[0], torch.tensor([0, 0.9, 0, 0.5]), atol=1e-4)
# names of features play no part: a random rotation leaves every weight as it is
for seed in range(3):
    generator = torch.Generator().manual_seed(seed)
    turned = x @ torch.linalg.qr(torch.randn(4, 4, generator=generator))[0]
    assert torch.allclose((turned @ turned.T / 2).softmax(dim=-1), bank_weights, atol=1e-5)
assert torch.allclose(scaled_dot_product_attention(x, x, x), bank_weights @ x, atol=1e-6)

# %% after: cosine
assert abs(cosine(x[2], x[3]) - 0.0569) < 1e-4
assert cosine(x[0], 3 * x[0]) > 0.9999 and cosine(torch.eye(4)[0], torch.eye(4)[1]) == 0

# %% after: see-alike
assert abs(cosine(bank_output[2], bank_output[3]) - 0.7382) < 1e-4
mixture = torch.tensor([0.2093, 0.8671, 0.1459, 0.4798])  # of finance, too: 0.1 before
assert torch.allclose(bank_output[3], mixture, atol=1e-4)
# sharper weights keep the banks apart only because each attends to itself
for factor, apart, to_itself in ((2, 0.082, 0.5), (3, 0.0505, 0.84)):
    sharp = (factor**2 * x @ x.T / 2).softmax(dim=-1)
    ends = sharp @ x
    assert abs(cosine(ends[2], ends[3]) - apart) < 1e-3 and sharp[3, 3] > to_itself
# the reason that the question gives, on random tokens: outputs are more alike than inputs
generator = torch.Generator().manual_seed(0)
inputs = torch.randn(200, 6, 8, generator=generator)
ends = (inputs @ inputs.mT / 8**0.5).softmax(dim=-1) @ inputs
pairs = [(i, j) for i in range(6) for j in range(i)]
closer = torch.stack(
    [cosine(ends[:, i], ends[:, j]) > cosine(inputs[:, i], inputs[:, j]) for i, j in pairs]
)
assert closer.float().mean() > 0.8

# %% after: fair-test  numbers: 53

# %% after: one-bank
assert len(names) == 53 and len(features) + 1 == rows.shape[1] == 5
assert (cosine(bank, x[2:]) > 0.7).all()  # about as near to either

# %% after: see-average
expected = [[0.304, 0.871], [0.262, 0.867], [0.960, 0.289], [0.962, 0.276]]
assert torch.allclose(fair, torch.tensor(expected), atol=1e-3)
# the weights of the two examples are nearly even
for context in (["river", "water"], ["money", "loan"]):
    beside = vectors([*context, "bank"])[:, :4]
    even = (bank @ beside.T / 2).softmax(dim=-1)
    assert 0.29 < even.min() and even.max() < 0.39
# the first three words of either meaning in the table, and bank: the average is as near as attention
for context in (["pond", "boat", "swam"], ["deposit", "borrowed", "lend"]):
    attended, plain = cosine(new_vectors(context)[:, None], x[2:])
    assert (attended - plain).abs().max() < 0.08
    assert attended.argmax() == plain.argmax()

# %% after: draw-average
# in the plane of the figure, too, the diamonds lie on the circles
for context in (["river", "water"], ["money", "loan"]):
    attended, plain = new_vectors(context)[:, :2]
    assert (attended - plain).norm() < 0.06 < 0.3 < (attended - bank[:2]).norm()

# %% after: ask-for-clue
# every clue of the sentences that is in the table is one there, too
clues = set(pd.read_csv(data_path("bank_sentences.csv")).clue)
assert all(typed[word][4] == 1 for word in clues & set(names)) and len(clues & set(names)) > 15
assert 0 < rows[:, 4].sum() < len(names) and set(rows[:, 4].tolist()) == {0, 1}
for clue, correct in (("sailed", 1), ("borrowed", 0)):
    cosines = torch.tensor([asked[clue, f"strength {n}"][1:] for n in (0, 4, 8)])
    assert cosines[0].argmax() != correct  # the plain average is closer to the wrong bank
    assert cosines[1].argmax() == cosines[2].argmax() == correct
    given = [asked[clue, f"strength {n}"][0] for n in (0, 4, 8)]
    assert given == sorted(given)
for words in (thief.split(), farmer.split()):
    plain = vectors(words)[:, :4].mean(dim=0)
    assert torch.allclose(ask_for_clue(words, 0)[1], plain, atol=1e-6)

# %% after: explore-bank
drawn = BankExplorer()
assert drawn.sentence == "both"
assert abs(drawn.result.output[0]) < 1e-6 and abs(drawn.result.average[0]) < 1e-6
# straight down, to the height of the filler words and below: little weight, and only attention turns
for down in (-1, -1.3, -2.4):
    drawn.moved = [("river", -3, down)]
    assert drawn.result.output[0] > 1.6 and abs(drawn.result.average[0]) < 1e-6
    assert drawn.result.weights[4] < 0.03 and "They select" in drawn.say()
    assert drawn.result.average[1] < 0.8 * BankExplorer().result.average[1]
# to the right, or down and to the centre: the plain average comes along
for across, up in ((3, 2), (2, 2), (-0.5, -1.3), (0, -1.3), (-0.3, -1.9)):
    drawn.moved = [("river", across, up)]
    assert drawn.result.average[0] > 0.3 and "mixing is enough" in drawn.say()

# %% after: ask-heads  numbers: 11

# %% after: see-heads
most = [sat.tokens[j] for j in of_bank.argmax(dim=-1)]
assert [h for h in range(12) if most[h] == "river"] == [4, 10]
assert most.count("[CLS]") == 7 and of_bank[2].argmax() == sat.tokens.index("bank") - 1
assert of_bank[2].max() > 0.99
assert torch.allclose(of_bank[[4, 10], 8], torch.tensor([0.714, 0.639]), atol=2e-3)

# %% after: explore-heads
reading = layer.read(sentence_of_both)
first = [reading.tokens[j] for j in reading.weights[:, 2].argmax(dim=-1)]
assert reading.tokens[2] == "bank"
assert [h for h in range(12) if first[h] == "river"] == [4, 10]
assert [h for h in range(12) if first[h] == "loan"] == [0, 3]

# %% after: who-asks  numbers: 35

# %% after: fresh-sentences
assert len(sentences) == 35 and len(known) == 3 and not set(fresh.clue) & set(known.clue)
assert len(fresh) == 25 == 35 - 3 - 7
assert not (fresh.kind == "known").any()
for sentence, clue in zip(sentences.sentence, sentences.clue, strict=True):
    assert layer.tokens(sentence).count("bank") == 1 and clue in layer.tokens(sentence)

# %% after: uniform-shares  numbers: 0.3, 0.1

# %% after: clue-shares
# straight from the readings, without the short cut
direct = []
for sentence, clue in zip(fresh.sentence, fresh.clue, strict=True):
    read = layer.read(sentence)
    place, there = read.tokens.index("bank"), read.tokens.index(clue)
    direct.append(read.weights[:, place, there] * len(read.tokens))
direct = torch.stack(direct).mean(dim=0)
assert torch.allclose(direct, clue_shares(["bank"])[:, 0], atol=1e-4)
assert (direct > 1.7).sum() == 4 and abs(direct[4] - 3.33) < 0.01
swapped = [layer.read(s.replace("bank", "chair")) for s in fresh.sentence]
by_chair = torch.stack(
    [
        read.weights[:, layer.tokens(s).index("bank"), read.tokens.index(clue)] * len(read.tokens)
        for read, s, clue in zip(swapped, fresh.sentence, fresh.clue, strict=True)
    ]
).mean(dim=0)
assert torch.allclose(by_chair, clue_shares(["chair"])[:, 0], atol=1e-4)

# %% after: see-rank
at_bank = query_words.index("bank")
long_words = [word for word in layer.vocabulary if word.isalpha() and len(word) > 2]
assert query_words == long_words[:5000] and len(query_words) == 5000 == len(set(query_words))
assert all(word.isascii() for word in query_words)
# the vocabulary begins with the commonest words
common = [query_words.index(word) for word in ("the", "and", "was", "for", "with", "that")]
assert max(common) < 20 and not {"scarce", "teller"} & set(query_words)
assert ranks[4] == 1 and ranks[torch.arange(12) != 4].min() == 72
in_head_4 = shares[4].sort(descending=True)
assert abs(in_head_4.values[0] - 3.33) < 0.01 and abs(in_head_4.values[1] - 2.59) < 0.01
assert query_words[in_head_4.indices[1]] == "served" and abs(shares[4].median() - 0.52) < 0.005
assert abs(shares[4, query_words.index("river")] - 0.8) < 0.05
assert abs(shares[4, query_words.index("money")] - 1.3) < 0.05
for word in ("field", "court", "financial"):
    share = shares[4, query_words.index(word)]
    assert 2.0 < share < 2.35 and 1 + (shares[4] > share).sum() <= 25
# head 3 favours the clue, no matter which word asks
assert abs(shares[3].median() - 2.0) < 0.05 and abs(ranks[3] - 1500) < 20
assert shares.median(dim=1).values.argmax() == 3

# head 4 alone, from its part of the matrices: all words of the vocabulary, one sentence at a time
from functools import cache

of_head_4 = slice(4 * 32, 5 * 32)


@cache
def put_in_place(place):
    """Return the queries and the keys of all words at one place: (W, 32) each."""
    parts = [
        layer.embed(long_words[i : i + 512], positions=[place] * len(long_words[i : i + 512]))[0]
        for i in range(0, len(long_words), 512)
    ]
    embedded = torch.cat(parts)
    both = (layer.attention.q_proj, layer.attention.k_proj)
    return [embedded @ part.weight[of_head_4].T + part.bias[of_head_4] for part in both]


singly = []  # uniform shares of the clue: (W,) for every sentence
for sentence, clue in zip(fresh.sentence, fresh.clue, strict=True):
    words = layer.tokens(sentence)
    queries, keys = put_in_place(words.index("bank"))
    others = layer.attention.k_proj(layer.embed(words)[0])[:, of_head_4]  # (S, 32)
    scores = queries @ others.T / 32**0.5
    scores[:, words.index("bank")] = (queries * keys).sum(dim=-1) / 32**0.5
    singly.append(scores.softmax(dim=-1)[:, words.index(clue)] * len(words))
singly = torch.stack(singly)  # (25, W)
assert torch.allclose(singly[:, :5000].mean(dim=0), shares[4], atol=1e-4)
# first among all words of the vocabulary, too
assert len(long_words) == 21361
by_all = singly.mean(dim=0)
assert by_all[5000:].max() < 0.9 * by_all[at_bank] == 0.9 * by_all.max()
# not in each sentence, and of the sentences of one meaning it is not first
singly = singly[:, :5000]
places = 1 + (singly > singly[:, at_bank, None]).sum(dim=1)
assert abs(places.median() - 219) <= 1
for meaning, rank, count in (("river", 8, 11), ("money", 3, 14)):
    assert (fresh.meaning == meaning).sum() == count
    mean = singly[torch.tensor((fresh.meaning == meaning).tolist())].mean(dim=0)
    assert 1 + (mean > mean[at_bank]).sum() == rank
# sentences drawn again: "bank" stays among the first twenty of 5,000
generator = torch.Generator().manual_seed(0)
drawn_again = torch.stack(
    [
        torch.bincount(torch.randint(25, (25,), generator=generator), minlength=25)
        for _ in range(200)
    ]
)
means_again = drawn_again.float() @ singly / 25  # (200, 5000)
firsts = 1 + (means_again > means_again[:, at_bank, None]).sum(dim=1)
assert (firsts == 1).float().mean() > 0.6 and (firsts <= 20).float().mean() > 0.95

# other words in the place of the clue, in head 4: how many get more from "bank" than the clue?
better = []
for sentence, clue in zip(fresh.sentence, fresh.clue, strict=True):
    read = layer.read(sentence)
    at, there = read.tokens.index("bank"), read.tokens.index(clue)
    query = layer.attention.q_proj(read.embedded)[at, of_head_4]
    # only the key at this place changes, so the order of the scores is that of the weights
    scores = put_in_place(there)[1] @ query / 32**0.5
    of_clue = scores[long_words.index(clue)]
    to_itself = put_in_place(at)[1][at_bank] @ query / 32**0.5
    measured = (read.weights[4, at, there] / read.weights[4, at, at]).log()
    assert torch.allclose(of_clue - to_itself, measured, atol=1e-3)
    better.append((scores[:5000] > of_clue).float().mean())
    # the favourites are the same in every sentence, and no words of banks only
    order = scores[:5000].argsort(descending=True)
    favourites = [query_words[place] for place in order[:15]]
    assert {"lakes", "traded", "supply", "america", "account", "grade"} <= set(favourites)
    assert (scores[:5000] > scores[query_words.index("money")]).sum() > 2000
better = torch.stack(better)
assert (better < 0.1).sum() >= 16  # fewer than one in ten, for most of the clues
assert ((better > 0.4) & (better < 0.8)).sum() == 6  # not for all

# %% after: which-meaning
assert ranks[4] == 1 and ranks[torch.arange(12) != 4].min() > 70
read = layer.read("in america the bank kept my money")
row = read.weights[4, read.tokens.index("bank")]
assert abs(row[read.tokens.index("america")] - 0.86) < 0.005
assert abs(row[read.tokens.index("money")] - 0.01) < 0.005
read = layer.read("the bank gave us money")
row = read.weights[4, read.tokens.index("bank")]
assert row[read.tokens.index("us")] > 0.7 > 0.05 > row[read.tokens.index("money")]

# %% after: see-robbed
for verb in ("saw", "robbed"):
    assert verb in layer.vocabulary
before, after = (compared[verb, "score: river - bank"] for verb in ("saw", "robbed"))
assert torch.allclose(before, after, atol=1e-3)
river_weights = torch.stack([compared[verb, "weight of river"] for verb in ("saw", "robbed")])
assert torch.allclose(river_weights[:, 10], torch.tensor([0.54, 0.23]), atol=6e-3)
assert torch.allclose(river_weights[:, 4], torch.tensor([0.73, 0.72]), atol=6e-3)
# the score itself, from query and key: any third word leaves it as it is
from attnlab import attention_scores, split_heads


def scores_of(text):
    embedded = layer.read(text).embedded
    parts = (layer.attention.q_proj, layer.attention.k_proj)
    return attention_scores(*(split_heads(part(embedded), 12) for part in parts))


base = scores_of("the thief saw the bank by the river")
for third in ("robbed", "painted", "loved", "left"):
    other = scores_of(f"the thief {third} the bank by the river")
    rest = [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert torch.allclose(base[:, rest][:, :, rest], other[:, rest][:, :, rest], atol=1e-4)
# a word that is put in moves positions, and with them the scores
wider = scores_of("the thief saw the bank by the big river")
gap, wider_gap = base[:, 5, 8] - base[:, 5, 5], wider[:, 5, 9] - wider[:, 5, 5]
assert (wider_gap - gap).abs()[[2, 4]].min() > 0.3
# the weight of "money" falls beside "lake", and its score does not
short, long = (
    scores_of("i left my money on the bank"),
    scores_of("i left my money on the bank of the lake"),
)
assert torch.allclose(short[:, 7, 4], long[:, 7, 4], atol=1e-4)
assert (short[:, 7].softmax(-1)[:, 4] > long[:, 7].softmax(-1)[:, 4] + 0.01)[[0, 3, 4, 10]].all()

# %% after: what-a-score-sees  numbers: 64

# %% after: count-pairs
# the words that make the direction occur in no sentence
assert len(WATER) == 12 and len(MONEY) == 10
assert "ocean" in WATER and "cash" in MONEY
occurring = {word for sentence in sentences.sentence for word in layer.tokens(sentence)}
assert not {*WATER, *MONEY} & occurring and {*WATER, *MONEY} <= {*layer.vocabulary}
# the attention of the helper is that of the layer: its leans add up to those of the output
W = layer.attention.out_proj
for sentence in sentences.sentence[:3]:
    read = layer.read(sentence)
    row = read.weights[:, read.tokens.index("bank")]
    mixture = (row[:, None] @ values_of(read.tokens))[:, 0]  # (H, 32)
    output = mixture.flatten() @ W.weight.T + W.bias
    assert torch.allclose(output, read.output[read.tokens.index("bank")], atol=1e-4)
    ends = leans(sentence)
    assert torch.allclose(ends[0, :12], (mixture * direction).sum(dim=-1), atol=1e-4)
    assert torch.allclose(ends[:, 12], ends[:, :12].sum(dim=-1), atol=1e-4)

# %% after: ask-pairs  numbers: 32

# %% after: see-pairs
for kind in ("clear", "mixed"):
    assert sentences[sentences.kind == kind].meaning.value_counts().tolist() == [8, 8]
best = mixed[:, :12].max(dim=-1)
assert best.values.tolist() == [52, 53] and best.indices[0] == 4
assert (mixed[1, :12] == 53).nonzero().flatten().tolist() == [0, 8]
assert clear[:, 12].tolist() == [64, 64] and mixed[:, 12].tolist() == [53, 53]
assert mixed[:, 12].min() > 32  # better than guessing
assert mixed[:, 4].tolist() == [52, 40] and mixed.sum(dim=0).min() > 0

# the same with the sixteen sentences labelled at random: eight of them are called river sentences
import itertools

positions = torch.stack([leans(one) for one in sentences[sentences.kind == "mixed"].sentence])
higher = (positions[:, None] > positions).float()  # (16, 16, 2, 13)
labels = torch.tensor(list(itertools.combinations(range(16), 8)))
called_river = torch.zeros(len(labels), 16).scatter_(1, labels, 1.0)
counts = torch.einsum("ni,ijkh,nj->nkh", called_river, higher, 1 - called_river)
luck = counts[..., :12].amax(dim=-1)  # (labellings, 2): the best of twelve heads
assert luck.mean(dim=0).round().tolist() == [46, 44]
reached = (luck >= torch.tensor([52, 53])).float().mean(dim=0)
assert [round(100 * one.item()) for one in reached] == [18, 12]
assert (abs((counts[..., 12] >= 53).float().mean(dim=0) - 0.014) < 0.003).all()

# %% after: shuffled-layers
assert by_chance.numel() == 240 and abs(by_chance.mean() - 1.1) < 0.05
assert abs(by_chance.amax(dim=1).mean() - 2.0) < 0.05 and abs(by_chance.max() - 2.6) < 0.05
trained = share_in(layer)
assert (trained[[0, 3, 10]] > 1.76).all() and abs(trained[3] - 2.3) < 0.06
assert (trained > 1.7).sum() == 4 > (by_chance > 1.7).sum(dim=1).max()
assert by_chance.amax(dim=1).max() > trained[3]  # the best of twelve reaches it by chance
assert by_chance.max() < 0.8 * trained[4] and abs(trained[4] - 3.3) < 0.05
assert torch.allclose(trained, clue_shares(["bank"])[:, 0], atol=1e-4)
new, old = shuffled_layer(0).attention, layer.attention
for one, other in zip(new.parameters(), old.parameters(), strict=True):
    assert torch.equal(one.flatten().sort().values, other.flatten().sort().values)
assert torch.equal(layer.attention.q_proj.weight, load_layer().attention.q_proj.weight)

# %% after: remember  numbers: 0.06, 0.74
assert len(query_words) - 1 == 4999 and ranks[4] == 1
assert round(cosine(x[2], x[3]).item(), 2) == 0.06
assert round(cosine(bank_output[2], bank_output[3]).item(), 2) == 0.74

# %% after: exercise-3
assert len(fresh) == 25


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
assert abs(clue_shares(["bank"])[10, 0] - 1.8) < 0.05

# %% after: exercise-4
for verb, word in (("saw", "river"), ("robbed", "robbed")):
    read = layer.read(f"the thief {verb} the bank by the river")
    assert read.tokens[read.weights[10, read.tokens.index("bank")].argmax()] == word
sailed = layer.read("they sailed to the bank")
assert sailed.tokens[sailed.weights[10, sailed.tokens.index("bank")].argmax()] == "sailed"

# %% after: torch-control
from attnlab import sequence_mask

seen = sequence_mask([5], max_len=z.shape[1])
masked = F.scaled_dot_product_attention(torch.zeros_like(z), z, z, attn_mask=seen[:, None])
assert torch.allclose(masked, z[:, :5].mean(dim=1, keepdim=True).expand_as(z), atol=1e-5)

# %% after: sources  numbers: 2019, 2020

# %% after: teacher-plan  numbers: 50, 8, 7, 10, 9, 4

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 0, 143, 144
