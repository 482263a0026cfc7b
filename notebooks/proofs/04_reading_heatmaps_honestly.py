# %% after: two-maps
# the trained map: the rows of the two "the" are nearly the same; in the random one they are not
assert reading.tokens[1] == reading.tokens[5] == "the"
trained_gap = (reading.weights[3, 1] - reading.weights[3, 5]).abs().max()
noise_gap = (noise[1] - noise[5]).abs().max()
assert trained_gap < 0.06 and noise_gap > 0.4
# untrained matrices on the same tokens tend to give the two similar rows as well
x = reading.embedded / reading.embedded.std()
closer = 0
for seed in range(100):
    W_q, W_k = torch.randn(2, 384, 32, generator=torch.Generator().manual_seed(seed)) / 384**0.5
    rows = attention_weights(attention_scores(x @ W_q, x @ W_k))
    gaps = torch.cdist(rows, rows)[1]
    closer += (gaps[5] < gaps[[2, 3, 4, 6]].mean()).item()
assert closer > 85
assert torch.cosine_similarity(x[1], x[5], dim=0) > 0.85

# %% after: see-shape
# a map that is not square, and its winners are not on a diagonal
weights_of = found.weights
assert weights_of.shape == (8, 7) and torch.allclose(weights_of.sum(dim=1), torch.ones(8))
columns = weights_of.sum(dim=0)
assert columns.min() < 0.5 and columns.max() > 1.5
assert abs(weights_of[0, 0] - 0.43) < 0.006 and abs(weights_of[0, 2] - 0.57) < 0.006
winners = [found.english[i] for i in weights_of.argmax(dim=1)]
assert winners == ["cat", "cat", "black", "sees", "a", "small", "house", "a"]
shown = {"le": (0, [0, 2], [0.43, 0.57]), "chat": (1, [2], [0.98])}
for row, keys, numbers in shown.values():
    assert torch.allclose(weights_of[row, keys], torch.tensor(numbers), atol=0.006)
assert min(weights_of[i].max() for i in (1, 2, 3, 5, 6)) > 0.865  # 0.87 or more
assert abs(weights_of[7, 3] - 0.41) < 0.01 and abs(weights_of[7, 4] - 0.46) < 0.01

# %% after: read-map  numbers: 1, 2
assert abs(found.weights[1, 2] - 0.98) < 0.005

# %% after: see-turned
tokens, features, _ = load_table("the_cat_sat_on_the_mat.csv")
asked, turned = attention_weights(scores), attention_weights(attention_scores(x, questions))
assert features[:4] == ["animal", "object", "action", "place"] and tokens[1] == "cat"
assert abs(asked[0, 1] - 0.66) < 0.001 and abs(turned[1, 0] - 0.817) < 0.0005
assert torch.allclose(scores.T, attention_scores(x, questions))
assert [tokens[j] for j in asked.argmax(dim=-1)] == ["cat", "sat", "mat"]
even = (turned - 1 / 3).abs().amax(dim=-1) < 1e-6
assert even.nonzero().flatten().tolist() == [0, 4]
assert ((asked - 1 / 6).abs().amax(dim=-1) > 0.2).all()
# what lesson 11 will show: without positions or a mask, outputs follow their words
from attnlab import scaled_dot_product_attention

before = scaled_dot_product_attention(x, x, x)
for places in ([1, 2, 0, 4, 5, 3], [4, 5, 2, 3, 0, 1]):
    after = scaled_dot_product_attention(x[places], x[places], x[places])
    assert torch.allclose(after, before[places], atol=1e-6)
torch.manual_seed(0)
position = 0.5 * torch.randn(6, 5)


def attend(z, is_causal=False):
    return scaled_dot_product_attention(z, z, z, is_causal=is_causal)


for swap in ([4, 5, 2, 3, 0, 1], [1, 0, 2, 3, 4, 5]):  # with positions all six move
    assert (attend(x[swap] + position) - attend(x + position)[swap]).norm(dim=-1).min() > 1e-5
    causal = (attend(x[swap], True) - attend(x, True)[swap]).norm(dim=-1)
    assert causal[:2].min() > 1e-4
assert causal[2:].max() < 1e-6  # a causal mask: only words that now see others
twice = attend(attend(x[swap], True), True) - attend(attend(x, True), True)[swap]
assert twice.norm(dim=-1)[2:].min() > 0.17

# %% after: explore-cross
from attnlab.explorers.cross import OUTPUTS

assert CrossExplorer.panels[1].panels[0].scale == (0, 1)
assert CrossExplorer.panels[1].panels[1].scale == OUTPUTS == (0, 3.5)
turned = attention_weights(scores.T)
assert torch.allclose(CrossExplorer(asking="words").result.weights, turned)

# %% after: see-darkest
assert f"{faint.max():.4f}" == "0.2504" and f"{faint.min():.4f}" == "0.2497"
for n_keys in (2, 4, 8, 50):  # a row that sums to 1 has a weight of at least the uniform share
    rows = torch.randn(500, n_keys, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
    assert rows.amax(dim=-1).min() > 1 / n_keys
# cross-attention between random tensors, a batch of one sentence
torch.manual_seed(42)
q, k, v = (torch.randn(1, 4, 8) for _ in range(3))
assert torch.equal(q[0], query) and torch.equal(k[0], key)
expected = torch.tensor(
    [
        [0.1942, 0.4102, 0.3242, 0.0714],
        [0.0408, 0.6555, 0.0864, 0.2173],
        [0.1041, 0.2057, 0.1824, 0.5078],
        [0.1926, 0.1803, 0.1955, 0.4316],
    ]
)
assert torch.allclose(weights, expected, atol=1e-4)
from attnlab import trace_attention

first = torch.tensor([0.2667, 0.2371, -0.0554, 0.1298])
assert torch.allclose(trace_attention(q, k, v).output[0, 0, :4], first, atol=1e-4)
# the same cell counted from 1 and from 0
assert torch.allclose(weights[[1, 2], [2, 3]], torch.tensor([0.0864, 0.5078]), atol=1e-4)
assert torch.allclose(weights[[1, 2], [1, 2]], torch.tensor([0.6555, 0.1824]), atol=1e-4)
assert ((weights > 0.4) & (weights < 0.6)).sum() == 3

# %% after: scales-figure
assert [f"{end:.4f}" for end in (weights.min(), weights.max())] == ["0.0408", "0.6555"]
# the two fitted pictures look alike: shades of the same cells are close
shades = [(one - one.min()) / (one.max() - one.min()) for one in (weights, faint)]
assert torch.corrcoef(torch.stack([s.flatten() for s in shades]))[0, 1] > 0.75
# a scale that is cut off at 0.15 and 0.30 paints 0.324 and 0.656 with one colour
dark = weights[weights > 0.30]
assert len(dark) == 5 and abs(dark.min() - 0.324) < 1e-3 and abs(dark.max() - 0.656) < 1e-3
# the plot refuses a batch, names its axes, and can be saved
import io

import pytest

with pytest.raises(ValueError, match=r"select one example or head, e.g. weights\[0\], or use"):
    plot_attention(weights[None])
saved, axes_of = io.BytesIO(), plot_attention(weights)
axes_of.figure.savefig(saved, dpi=100)
assert saved.tell() > 5000
assert (axes_of.get_xlabel(), axes_of.get_ylabel()) == ("key position", "query position")
plt.close(axes_of.figure)
# seaborn and matplotlib fit their colours if no limits are given
import seaborn as sns

drawn = [sns.heatmap(weights).collections[0], plt.imshow(weights)]
for one in drawn:
    assert [round(float(end), 4) for end in one.get_clim()] == [0.0408, 0.6555]
    darkest, palest = (sum(one.get_cmap()(end)[:3]) for end in (0.0, 1.0))
    assert darkest < palest - 0.5  # by default dark is small
with_blues = plt.imshow(weights, cmap="Blues").get_cmap()
assert sum(with_blues(1.0)[:3]) < sum(with_blues(0.0)[:3]) - 1
plt.close("all")

# %% after: house-rule  numbers: 4, 0.25, 100, 0.01, 1

# %% after: noise-map
assert weights.argmax(dim=-1).tolist() == [1, 1, 3, 3]
assert [f"{weights[cell]:.2f}" for cell in ((1, 1), (2, 3))] == ["0.66", "0.51"]

# %% after: see-chance
import math

dice = (1 / 4 * 1 / 4, 1 - math.perm(4, 4) / 4**4)
assert (math.perm(4, 4), 4**4) == (24, 256)
assert [round(100 * chance) for chance in dice] == [6, 91]
assert round(100 * this_story.float().mean().item()) == 7
assert round(100 * some_story.float().mean().item()) == 92 and some_story.float().mean() > 0.9
# other blocks of 2,000 tables: about 6 or 7% and 92%, and one row of four on the diagonal
for seed in range(1, 6):
    generator = torch.Generator().manual_seed(seed)
    top = attention_scores(*torch.randn(2, 2000, 4, 8, generator=generator)).argmax(dim=-1)
    twice = ((top[:, 2] == 3) & (top[:, 3] == 3)).float().mean()
    agree = torch.nn.functional.one_hot(top, 4).sum(dim=1).amax(dim=-1) >= 2
    assert 0.05 < twice < 0.08 and 0.905 < agree.float().mean() < 0.935
    assert abs((top == torch.arange(4)).float().sum(dim=-1).mean() - 1) < 0.06
# both queries meet the same keys: a little more often than dice, for any key and any two rows
generator = torch.Generator().manual_seed(0)
top = attention_scores(*torch.randn(2, 50_000, 4, 8, generator=generator)).argmax(dim=-1)
both = [(top[:, i] == 3) & (top[:, j] == 3) for i in range(4) for j in range(i)]
assert 0.065 < torch.stack(both).float().mean() < 0.0675
agree = torch.nn.functional.one_hot(top, 4).sum(dim=1).amax(dim=-1) >= 2
assert dice[1] + 0.005 < agree.float().mean() < 0.925
# the draws of the reference: 137 of 2,000, that with the seed 42 among them
one_by_one = []
for seed in range(2000):
    torch.manual_seed(seed)
    one_by_one.append(torch.randn(2, 4, 8))
reference = attention_weights(attention_scores(*torch.stack(one_by_one, dim=1)))
assert torch.allclose(reference[42], weights)
prefer = reference.argmax(dim=-1)
assert ((prefer[:, 2] == 3) & (prefer[:, 3] == 3)).sum() == 137

# %% after: ask-chance  numbers: 0.1, 2, 25

# %% after: chance-figure
assert f"{weights.max():.2f}" == "0.66"
assert votes.amax(dim=-1).bincount().argmax() == 2 and here == 2  # rows on the diagonal
assert ours.bincount().max() == 2
assert abs(largest.mean() - weights.max().item()) < 0.03
assert abs(diagonal.float().mean() - 1) < 0.05

# %% after: on-partner
from unittest.mock import patch

from attnlab.translator import NOUNS

by_kind = pd.DataFrame(hits).groupby(kinds).mean()
assert (by_kind.loc["others", ["first", "second"]] == 1).all()
assert abs(by_kind.loc["others", "same place"] - 0.57) < 0.005
from attnlab.translator import Translator

torch.manual_seed(5)
another = pd.Series(darkest_on_partner(Translator().eval().requires_grad_(False), sentences))
assert abs(another.groupby(kinds).mean()["la, une"] - 0.44) < 0.005
assert by_kind.loc["others", "untrained"] < 0.25
assert (by_kind.drop("others")["same place"] == 1).all()
english, french, partner = sentences[0]
assert french.split()[4] == "voiture" and partner[4] == 5 and english.split()[5] == "car"
# sentences that neither translator was trained on
with patch("torch.tensor", list):  # nothing is asked of the partners
    trained_on = {s.english for seed in range(3000) for s in make_sentences(64, seed=seed)}
assert 100 < sum(s.english in trained_on for s in sentences) < 190
new = [s for s in make_sentences(700, seed=3000) if s.english not in trained_on][:200]
assert len(new) == 200
for some, name in ((sentences, "first"), (sentences, "second"), (new, "first"), (new, "second")):
    one, hit, of_noun = load_translator(name), [], {"le, un": [], "la, une": []}
    for english, french, partner in some:
        found_here, hidden, nouns = one.translate(english, french=french), [], []
        written = [*french.split(), "."]
        assert found_here.french == written  # each word after correct ones: no error at all
        hit.append(found_here.weights[:-1].argmax(dim=-1) == partner)
        words = english.split()
        for row, word in enumerate(written):
            if word not in ("le", "un", "la", "une"):
                continue
            place, weight = partner[row].item(), found_here.weights[row]
            noun = next(i for i in range(place, len(words)) if words[i] in NOUNS)
            nouns.append((row, noun))
            if word in ("le", "un"):  # both cells are dark
                of_noun["le, un"].append(weight[noun])
                assert {place, noun} == {*weight.topk(2).indices.tolist()}
            else:
                of_noun["la, une"].append(weight[noun])
                hidden.append((row, noun))
        without = one.translate(english, french=french, hidden=hidden).french
        assert all(without[row] == written[row] for row, _ in hidden)
        places = [(row, place) for row, place in nouns if written[row] in ("le", "un")]
        without = one.translate(english, french=french, hidden=places).french
        assert all(without[row] == {"le": "la", "un": "une"}[written[row]] for row, _ in places)
    on_it = pd.Series(torch.cat(hit)).groupby(kinds_of_words(some)).mean()
    assert on_it["others"] == on_it["la, une"] == 1 and on_it["le, un"] < 0.25
    assert min(of_noun["le, un"]) > 0.39 and max(of_noun["la, une"]) < 0.18
    if some is new:  # without the darkest and the second darkest cell
        top, next_one = (
            pd.Series(changed_without(one, new, rank=rank)).groupby(kinds_of_words(new)).mean()
            for rank in (0, 1)
        )
        assert top["others"] > 0.95 and next_one["others"] < 0.005
        assert next_one["la, une"] == 0 and 0.4 < next_one["le, un"]

# %% after: pale
assert seen.weights[0, 3] < 0.005 and seen.weights[0, 0] > 0.97 and seen.french[0] == "la"

# %% after: see-pale
assert swapped.french[0] == "le" and swapped.weights[0, 3] > 0.6
correct = ["la grande vache blanche veut une fleur .", "le grand chien blanc veut une fleur ."]
assert [" ".join(one.french) for one in (seen, swapped)] == correct
# hiding "cow" does not change "la": the row lacks a key, as if there were no masculine noun
assert second.translate("the big white cow wants a flower", hidden=[(0, 3)]).french[0] == "la"
feminine = second.translate("the big white house wants a flower")
assert feminine.french[0] == "la" and feminine.weights[0, 3] < 0.01
# which gender draws the weight is an accident of training
from attnlab.translator import NOUNS

third, nouns_of = load_translator("third"), {"le, un": [], "la, une": []}
for english, french, partner in sentences:
    read = third.translate(english, french=french)
    assert read.french == [*french.split(), "."]
    words = english.split()
    for row, word in enumerate(french.split()):
        if word in ("le", "un", "la", "une"):
            noun = next(i for i in range(partner[row].item(), len(words)) if words[i] in NOUNS)
            nouns_of["le, un" if word in ("le", "un") else "la, une"].append(
                read.weights[row, noun]
            )
assert max(nouns_of["le, un"]) < 0.06 and min(nouns_of["la, une"]) > 0.4

# %% after: hidden-cells
shares_changed = changed.groupby(kinds).mean()
top, next_one = shares_changed["darkest hidden"], shares_changed["second darkest hidden"]
assert top["others"] > 0.96 and next_one["others"] == next_one["la, une"] == 0
assert min(top["le, un"], next_one["le, un"]) > 0.8

# %% after: two-words
# word by word, in both translators
words = " ".join(s.french for s in sentences).split()
for name, shares in {"first": (0.78, 0.83), "second": (0, 1)}.items():
    without = changed_without(load_translator(name), sentences, rank=1)
    by_word = pd.Series(without).groupby(words).mean()[["le", "un", "la", "une"]]
    assert [round(share, 2) for share in by_word] == [*shares, 0, 0]
second_darkest = [
    translator.translate(s.english, french=s.french).weights[:-1].topk(2).values[:, 1]
    for s in sentences
]
is_other = torch.tensor([kind == "others" for kind in kinds])
assert abs(torch.cat(second_darkest)[is_other].mean() - 0.03) < 0.005
assert torch.cat(second_darkest)[torch.tensor([w in ("la", "une") for w in words])].max() < 0.16

# %% after: head-six
marker = reading.weights[6, :, 0]
assert (reading.weights[6].argmax(dim=-1) == 0).all()
assert abs(marker.min() - 0.39) < 0.005 and abs(marker.max() - 0.60) < 0.005
assert reading.weights[6, :, 1:].max() < 0.185

# %% after: see-carried
assert reading.tokens[3] == "sat" and abs(given[0] - 0.52) < 0.005 and abs(given[3] - 0.09) < 0.005
moves = given * lengths
assert abs(moves[3] - 0.32) < 0.005 and abs(moves[0] - 0.15) < 0.005
assert 1.9 < moves[3] / moves[0] < 2.4 and 5.5 < given[0] / given[3] < 6.5
assert abs(lengths[0] - 0.28) < 0.005 and abs(lengths[3] - 3.56) < 0.005
assert lengths[0] < 0.1 * lengths[3]
for key in (0, 3):  # the output moves by exactly that
    without = values.clone()
    without[key] = 0
    assert torch.isclose((given @ values - given @ without).norm(), moves[key], rtol=1e-5)
# in 35 other sentences: [CLS] has the largest weight in 241 rows of words; it moves the output
# most in 6 of them if its value is set to 0, and in 141 if it is hidden
import pandas as pd
from attnlab import data_path

rows = furthest = masked = 0
for sentence in pd.read_csv(data_path("bank_sentences.csv")).sentence:
    other = layer.read(sentence)
    long = layer.attention.v_proj(other.embedded)[:, 192:224].norm(dim=-1)
    w = other.weights[6, 1:-1]
    marked = w.argmax(dim=-1) == 0
    rows += marked.sum().item()
    furthest += ((w * long).argmax(dim=-1) == 0)[marked].sum().item()
    assert long[0] < 0.35 < 1 < long[1:].min()
    out_of = layer.attention.v_proj(other.embedded)[:, 192:224]
    for row in w[marked]:
        rest = row.repeat(len(row), 1).fill_diagonal_(0)
        rest = rest / rest.sum(dim=-1, keepdim=True)
        masked += ((rest - row) @ out_of).norm(dim=-1).argmax().item() == 0
assert (rows, furthest, masked) == (241, 6, 141)
# the same after the output matrix, which the layer applies to the heads
out = layer.attention.out_proj.weight[:, 192:224]
through = (values @ out.T).norm(dim=-1)
assert given[3] * through[3] > 1.5 * given[0] * through[0]

# %% after: see-masked
blocked = torch.eye(8, dtype=torch.bool)
row_scores = given.log().expand(8, 8).masked_fill(blocked, -torch.inf)  # a mask does just that
assert torch.allclose(row_scores.softmax(dim=-1), rest, atol=1e-6)
assert moved.argmax() == 0 and abs(moved[0] - 0.56) < 0.005 and abs(moved[3] - 0.32) < 0.005
assert 2 < rest[0, 3] / given[3] < 2.1
terms = given * values.norm(dim=-1)  # what each key adds to the row of "sat"
assert (
    given[0] > 0.5
    and 0.9 * terms.mean() < terms[0] < terms.mean()
    and values.norm(dim=-1).argmax() == 3
)
for w in reading.weights[6]:  # in every row of this sentence
    others = w.repeat(8, 1).fill_diagonal_(0)
    others = others / others.sum(dim=-1, keepdim=True)
    assert ((others - w) @ values).norm(dim=-1).argmax() == 0
# a value is a matrix times the token's vector, plus a constant
v_proj = layer.attention.v_proj
assert torch.allclose(reading.embedded @ v_proj.weight.T + v_proj.bias, all_values, atol=1e-5)
assert v_proj.bias[192:224].norm() > 0.2

# %% after: the-answer
# two large terms may cancel: each alone moves the output far, and both together do not
opposite, share = torch.tensor([[5.0, 0], [-5, 0], [0, 1]]), torch.tensor([0.45, 0.45, 0.1])
assert (share * opposite.norm(dim=-1))[:2].min() > 2 and (share @ opposite).norm() < 0.11
# what moves to lesson 7: the batch axis, dropout, the mean over heads, weights that are not returned
torch.manual_seed(0)
batch = torch.randn(3, 5, 8)  # (N, L, E)
changed_batch = batch.clone()
changed_batch[0] += torch.randn(5, 8)
wrong = torch.nn.MultiheadAttention(8, num_heads=2).eval()  # batch_first=False
out_1, crossed = wrong(batch, batch, batch)
moved = (wrong(changed_batch, changed_batch, changed_batch)[0] - out_1).abs().amax(dim=-1) > 1e-6
assert moved.all() and out_1.shape == batch.shape and crossed.shape == (5, 3, 3)
mended = torch.nn.MultiheadAttention(8, num_heads=2, batch_first=True).eval()
mended.load_state_dict(wrong.state_dict())
out_2, straight = mended(batch, batch, batch)
moved = (mended(changed_batch, changed_batch, changed_batch)[0] - out_2).abs().amax(dim=-1) > 1e-6
assert moved[0].all() and not moved[1:].any() and straight.shape == (3, 5, 5)
dropping = torch.nn.MultiheadAttention(8, num_heads=2, dropout=0.5, batch_first=True)
dropping.load_state_dict(wrong.state_dict())
torch.manual_seed(0)
each = {"average_attn_weights": False}
passes = [dropping(batch, batch, batch, **each)[1] for _ in range(500)]
sums = torch.cat(passes).sum(dim=-1)
assert 0 <= sums.min() < 0.1 and 1.9 < sums.max() < 2.001 and abs(sums.mean() - 1) < 0.02
calm = dropping.eval()(batch, batch, batch, **each)[1]
assert torch.allclose(calm.sum(dim=-1), torch.ones(3, 2, 5))
assert torch.allclose(dropping(batch, batch, batch)[1], calm.mean(dim=1))
two_heads = torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]])
assert two_heads.argmax(dim=-1).tolist() == [0, 2] and two_heads.mean(dim=0).argmax() == 1
# the fused kernel returns no weights; the identity as value shows them
fused = torch.nn.functional.scaled_dot_product_attention
recovered = fused(query[None], key[None], torch.eye(4)[None])[0]
assert torch.allclose(recovered, weights, atol=1e-6)
assert torch.allclose(fused(query, key, torch.ones(4, 1)), torch.ones(4, 1))
from torch.nn.attention import SDPBackend, sdpa_kernel

padded = torch.eye(4, 8)[None, None]  # the fast kernel wants four axes and values as wide as keys
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    forced = fused(query[None, None], key[None, None], padded)
assert torch.allclose(forced[0, 0, :, :4], weights, atol=1e-6)

# %% after: reveal-read  numbers: 1, 5
# head 3 was named after looking: of the other eleven, nine agree and two do not
gaps = (reading.weights[:, 1] - reading.weights[:, 5]).abs().amax(dim=-1)
assert gaps.shape == (12,) and torch.equal(reading.weights[3], shown[order.argmin()])
nine = [head for head in range(12) if head not in (2, 3, 5)]
assert len(nine) == 9 and gaps[nine].max() < 0.11 and gaps[3] < 0.06
assert abs(gaps[2] - 1.00) < 0.005 and abs(gaps[5] - 0.42) < 0.005
assert gaps[2] > (noise[1] - noise[5]).abs().max() > gaps[5]

# %% after: diagonal
assert (same_vectors == torch.arange(10)).float().mean() > 0.999
assert abs((two_matrices == torch.arange(10)).float().mean() - 0.1) < 0.015
products = many_x @ many_x.mT
off = products[:, ~torch.eye(10, dtype=torch.bool)]
assert abs(products.diagonal(dim1=1, dim2=2).mean() - 64) < 1 and abs(off.std() - 8) < 0.1
assert abs(off.mean()) < 0.1
short, longer = torch.tensor([1.0, 0]), torch.tensor([2.0, 1])
assert short @ longer > short @ short
for seed in (1, 2, 3):
    generator = torch.Generator().manual_seed(seed)
    x_again = torch.randn(500, 10, 64, generator=generator)
    q_again, k_again = torch.randn(2, 500, 64, 64, generator=generator)
    top = ((x_again @ q_again) @ (x_again @ k_again).mT).argmax(dim=-1)
    assert abs((top == torch.arange(10)).float().mean() - 0.1) < 0.02

# %% after: three-tokens
import math

assert math.isclose(of_three[1, 1], math.e / (math.e + 2), rel_tol=1e-5)
assert torch.allclose(of_three[0], torch.tensor([0.4223, 0.1554, 0.4223]), atol=1e-4)
assert torch.equal(of_three[0], of_three[2]) and abs(1 - of_three[1, 1] - 0.42) < 0.005
mixed = of_three @ three
assert torch.allclose(mixed[0], torch.tensor([0.8446, 0.1554] * 2), atol=1e-4)
# other weights give the same output, since the values of the two a's are equal
others = torch.tensor([[2, 1, 0], [0, 1, 2]]) * of_three[0]
assert torch.allclose(others @ three, mixed[[0, 0]])

# %% after: crowd
assert torch.isclose(of_a[0], of_a[11]) and abs(of_a[0] - 0.1761) < 1e-4
assert abs(of_a[1:11].sum() - 0.648) < 1e-3 and round(100 * of_a[1:11].sum().item()) == 65

# %% after: exercise-1  numbers: 4, 1, 0

# %% after: exercise-2  numbers: 0.576, 0.99

# %% after: exercise-5  numbers: 3, 60

# %% after: torch-weights
assert layer_of_torch(*three_times, need_weights=False)[1] is None
assert torch.allclose(mean_of_heads, each_head.mean(dim=1))
for draw_map in (plt.imshow, sns.heatmap):  # as the text above says
    draw_map(mean_of_heads[0].detach(), cmap="Blues", vmin=0, vmax=1)
plt.close("all")

# %% after: sources  numbers: 2015, 2017, 2019, 2020

# %% after: teacher-plan  numbers: 50, 4, 12, 6, 10, 11, 7

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 1/8, 0.6, 0, 0.9, 0.00
