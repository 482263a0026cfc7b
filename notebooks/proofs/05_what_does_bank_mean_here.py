# %% after: banks-map
assert torch.allclose(bank_weights[3, [0, 2]], torch.tensor([0.28, 0.15]), atol=0.005)
assert bank_weights[3, 1] < 0.25  # Water gets a little less
others = torch.cat([bank_weights.flatten()[:10], bank_weights.flatten()[11:]])
assert abs(others.min() - 0.15) < 0.005 and abs(others.max() - 0.34) < 0.005
assert abs(bank_weights[2, 2] - 0.53) < 0.005 and others.min() > 0.14

# %% after: see-alike
# the reason that the question gives, on random tokens: outputs are more alike than inputs
inputs = torch.randn(200, 6, 8, generator=torch.Generator().manual_seed(0))
ends = (inputs @ inputs.mT / 8**0.5).softmax(dim=-1) @ inputs
pairs = [(i, j) for i in range(6) for j in range(i)]
closer = [cosine(ends[:, i], ends[:, j]) > cosine(inputs[:, i], inputs[:, j]) for i, j in pairs]
assert torch.stack(closer).float().mean() > 0.8

# %% after: fair-test  numbers: 53

# %% after: one-bank
assert len(names) == 53

# %% after: see-average
# the weights of the two examples are nearly even
for context in (["river", "water"], ["money", "loan"]):
    even = (bank @ vectors([*context, "bank"])[:, :4].T / 2).softmax(dim=-1)
    assert 0.29 < even.min() and even.max() < 0.39

# %% after: draw-average
# in the plane of the figure, too, the diamonds lie on the circles
for context in (["river", "water"], ["money", "loan"]):
    attended, plain = new_vectors(context)[:, :2]
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
    assert drawn.result.average[0] > 0.3

# %% after: ask-heads  numbers: 11

# %% after: see-heads
most = [sat.tokens[j] for j in of_bank.argmax(dim=-1)]
assert [h for h in range(12) if most[h] == "river"] == [4, 10] and most.count("[CLS]") == 7
assert of_bank[2, sat.tokens.index("bank") - 1] > 0.99
assert torch.allclose(of_bank[[4, 10], 8], torch.tensor([0.71, 0.64]), atol=0.005)

# %% after: explore-heads
reading = layer.read(sentence_of_both)
first = [reading.tokens[j] for j in reading.weights[:, 2].argmax(dim=-1)]
assert [h for h in range(12) if first[h] == "river"] == [4, 10]
assert [h for h in range(12) if first[h] == "loan"] == [0, 3]

# %% after: fresh-sentences
assert len(sentences) == 35 and len(known) == 3 and len(fresh) == 25 == 35 - 3 - 7

# %% after: uniform-shares  numbers: 0.3, 0.1

# %% after: clue-shares
assert (clue_shares(["bank"]) > 1.7).sum() == 4

# %% after: see-rank
in_head_4 = shares[4].sort(descending=True)
assert torch.allclose(in_head_4.values[:2], torch.tensor([3.3, 2.6]), atol=0.05)
assert query_words[in_head_4.indices[1]] == "served" and abs(shares[4].median() - 0.52) < 0.005
assert abs(shares[4, query_words.index("river")] - 0.8) < 0.05
assert abs(shares[4, query_words.index("money")] - 1.3) < 0.05
for word in ("field", "court", "financial"):
    share = shares[4, query_words.index(word)]
    assert 2.0 < share < 2.35 and 1 + (shares[4] > share).sum() <= 25
# head 3 favours the clue, no matter which word asks
assert abs(shares[3].median() - 2.0) < 0.05 and abs(ranks[3] - 1500) < 20

# head 4 alone, from its part of the matrices: all words of the vocabulary, sentence by sentence
from functools import cache

long_words = [word for word in layer.vocabulary if word.isalpha() and len(word) > 2]
assert len(long_words) == 21361 and long_words[:5000] == query_words
of_head_4 = slice(4 * 32, 5 * 32)


def projected(part, embedded):
    return embedded @ part.weight[of_head_4].T + part.bias[of_head_4]


@cache
def put_in_place(place):
    """Return the queries and the keys of all words at one place: (W, 32) each."""
    parts = [long_words[i : i + 512] for i in range(0, len(long_words), 512)]
    at_place = [layer.embed(part, positions=[place] * len(part))[0] for part in parts]
    both = (layer.attention.q_proj, layer.attention.k_proj)
    return [projected(part, torch.cat(at_place)) for part in both]


singly = []  # uniform shares of the clue: (W,) for every sentence
for sentence, clue in zip(fresh.sentence, fresh.clue, strict=True):
    words = layer.tokens(sentence)
    queries, keys = put_in_place(words.index("bank"))
    scores = queries @ projected(layer.attention.k_proj, layer.embed(words)[0]).T / 32**0.5
    scores[:, words.index("bank")] = (queries * keys).sum(dim=-1) / 32**0.5
    singly.append(scores.softmax(dim=-1)[:, words.index(clue)] * len(words))
singly, at_bank = torch.stack(singly), query_words.index("bank")  # (25, W)
assert torch.allclose(singly[:, :5000].mean(dim=0), shares[4], atol=1e-4)
assert singly.mean(dim=0).argmax() == at_bank
# of the sentences of one meaning it is not first
for meaning, rank, count in (("river", 8, 11), ("money", 3, 14)):
    of_meaning = singly[(fresh.meaning == meaning).to_numpy(), :5000]
    mean = of_meaning.mean(dim=0)
    assert len(of_meaning) == count and 1 + (mean > mean[at_bank]).sum() == rank

# %% after: which-meaning
read = layer.read("in america the bank kept my money")
row = read.weights[4, read.tokens.index("bank")]
assert abs(row[read.tokens.index("america")] - 0.86) < 0.005
assert abs(row[read.tokens.index("money")] - 0.01) < 0.005

# %% after: see-robbed
for third in ("robbed", "painted", "loved", "left"):  # any third word leaves the score as it is
    weights = layer.read(f"the thief {third} the bank by the river").weights[:, at]
    score = (weights[:, river] / weights[:, at]).log()
    assert torch.allclose(score, compared["saw", "score: river - bank"], atol=1e-3)

# %% after: what-a-score-sees  numbers: 64

# %% after: count-pairs
# the words that make the direction occur in no sentence
assert len(WATER) == 12 and len(MONEY) == 10
occurring = {word for sentence in sentences.sentence for word in layer.tokens(sentence)}
assert not {*WATER, *MONEY} & occurring

# %% after: ask-pairs  numbers: 32

# %% after: see-pairs
for kind in ("clear", "mixed"):
    assert sentences[sentences.kind == kind].meaning.value_counts().tolist() == [8, 8]

# the same with the sixteen sentences labelled at random: eight of them are called river sentences
import itertools

positions = torch.stack([leans(one) for one in sentences[sentences.kind == "mixed"].sentence])
higher = (positions[:, None] > positions).float()  # (16, 16, 2, 13)
labels = torch.tensor(list(itertools.combinations(range(16), 8)))
called_river = torch.zeros(len(labels), 16).scatter_(1, labels, 1.0)
counts = torch.einsum("ni,ijkh,nj->nkh", called_river, higher, 1 - called_river)
luck = counts[..., :12].amax(dim=-1)  # (labellings, 2): the best of twelve heads
assert abs(luck[:, 1].mean() - 44) < 0.5
reached = (luck >= mixed[:, :12].amax(dim=-1)).float().mean(dim=0)
assert [round(100 * one.item()) for one in reached] == [18, 12]
assert (abs((counts[..., 12] >= 53).float().mean(dim=0) - 0.014) < 0.003).all()

# %% after: shuffled-layers
trained = share_in(layer)
assert (trained > 1.7).sum() == 4 > (by_chance > 1.7).sum(dim=1).max()
assert torch.allclose(trained[[0, 3, 4, 10]], torch.tensor([1.9, 2.3, 3.3, 1.8]), atol=0.05)
assert by_chance.numel() == 240

# %% after: remember
assert len(query_words) - 1 == 4999
assert round(cosine(x[2], x[3]).item(), 2) == 0.06
assert round(cosine(bank_output[2], bank_output[3]).item(), 2) == 0.74

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
assert len(fresh) == 25 and abs(shares_of_clue(fresh)[10] - 1.8) < 0.05

# %% after: exercise-4
for verb, word in (("saw", "river"), ("robbed", "robbed")):
    read = layer.read(f"the thief {verb} the bank by the river")
    assert read.tokens[read.weights[10, read.tokens.index("bank")].argmax()] == word
sailed = layer.read("they sailed to the bank")
assert sailed.tokens[sailed.weights[10, sailed.tokens.index("bank")].argmax()] == "sailed"

# %% after: torch-control
allowed = torch.arange(z.shape[1]) < 5
masked = F.scaled_dot_product_attention(torch.zeros_like(z), z, z, attn_mask=allowed[None])
assert torch.allclose(masked, z[:, :5].mean(dim=1, keepdim=True).expand_as(z), atol=1e-5)

# %% after: sources  numbers: 2019, 2020

# %% after: teacher-plan  numbers: 50, 8, 7, 10, 9, 4

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 0, 143, 144
