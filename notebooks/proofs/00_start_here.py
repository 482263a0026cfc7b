# %% after: one-dot-product
assert [f for f, a, b in zip(features, on, mat, strict=True) if a * b] == ["place"]

# %% after: scores
from attnlab import attention_scores

assert torch.allclose(scores, attention_scores(x, x))
matches = x[tokens.index("cat")] @ x.T
others = [token for token in tokens if token != "cat"]
assert max(others, key=lambda token: matches[tokens.index(token)]) == "sat"
named = matches[[tokens.index(token) for token in ("sat", "mat", "on", "The")]]
assert torch.allclose(named, torch.tensor([2.28, 0.60, 0.12, 0.0]))

# %% after: weights
assert torch.allclose(weights.sum(dim=-1), torch.ones(L))
row_of_cat = weights[tokens.index("cat"), [tokens.index(t) for t in ("cat", "sat", "mat")]]
assert torch.allclose(row_of_cat, torch.tensor([0.36, 0.25, 0.12]), atol=0.005)
assert weights[tokens.index("cat")].argmax() == tokens.index("cat")
# the caption: the rows sum to 1, but the numbers shown do not; no cell has the colour of a 1
from attnlab.plotting import WEIGHT_COLOURS

assert ((weights * 100).round().sum(dim=-1) != 100).any()
assert sum(WEIGHT_COLOURS(1.0)[:3]) < sum(WEIGHT_COLOURS(weights.max().item())[:3])

# %% after: reading-the-heatmap
powers = scores[tokens.index("cat")].exp()
assert abs(scores[1, 1] - 1.38) < 0.005 and abs(powers[1] - 4.0) < 0.05
assert abs(powers.sum() - 11.1) < 0.05 and abs(powers[0] / powers.sum() - 0.09) < 0.005

# %% after: new-vector
place = features.index("place")
assert x[cat, place] == 0 and 0 < output[cat, place] < 1
parts = weights[cat] * x[:, place]
giving = [token for token, part in zip(tokens, parts, strict=True) if part > 0]
assert giving == ["sat", "on", "mat"]
shares = weights[cat, [2, 3, 5]]
assert torch.allclose(shares, torch.tensor([0.250, 0.095, 0.118]), atol=5e-4)
assert x[2, place] == 0.5 and x[3, place] == 1.0 and abs(x[5, place] - 1.3) < 1e-6
assert 1 / 9 < weights[cat, 5] < 1 / 8  # "about an eighth"
assert round(output[cat, place].item(), 1) == 0.4
assert round(x[[2, 3, 5], place].mean().item(), 1) == 0.9 and shares.sum() < 0.5

# %% after: what-happened
place, animal = features.index("place"), features.index("animal")
parts = (weights[cat] * x[:, place])[[5, 2, 3]]  # of mat, sat and on
assert torch.allclose(parts, torch.tensor([0.15, 0.12, 0.10]), atol=0.005)
assert abs(output[cat, place] - 0.37) < 0.005 and abs(output[cat, animal] - 0.80) < 0.005
assert [t for t, row in zip(tokens, x, strict=True) if row[animal] > 0] == ["cat", "sat"]
assert abs(x[:, place].mean() - 0.47) < 0.005  # with six equal weights
assert weights[cat].argmax() == cat and output[cat, place] < x[:, place].mean()
# had "cat" only a sixth of the weight, and the others more, the place would not be less
others = weights[cat].masked_fill(torch.arange(L) == cat, 0)
even = x[cat] / L + (others / others.sum()) @ x * (L - 1) / L
assert even[place] > x[:, place].mean()
# what "on" and "sat" give in the plain average, and here
assert x[3, place] / L == 2 * x[2, place] / L and parts[1] > parts[2]
assert scores[cat, 2] > scores[cat, 3]

# %% after: parts
assert torch.allclose((weights[cat, :, None] * x).sum(dim=0), output[cat])
printed = (torch.stack(weighted_rows) * 100).round().sum(dim=0)
assert (printed != (output[cat] * 100).round()).any()  # "up to the rounding"

# %% after: three-lines
from attnlab import scaled_dot_product_attention

assert torch.allclose(attend(x), scaled_dot_product_attention(x, x, x))
assert torch.equal(attend(x), output)
# for the caption of the drawing: L and S can differ, and so can E and Ev
others = torch.randn(9, E, generator=torch.Generator().manual_seed(0))
longer = torch.randn(9, 7, generator=torch.Generator().manual_seed(1))
assert fast(x, others, longer).shape == (L, 7)

# %% after: steps  numbers: 6, 5

# %% after: two-sentences
assert short[cat, features.index("place")] == 0 and (short[cat] != output[cat]).all()

# %% after: swapped
assert [tokens[i] for i in (0, 5, 2, 3, 4, 1)] == ["The", "mat", "sat", "on", "the", "cat"]
assert torch.allclose(attend(swapped)[5], output[cat])
for seed in range(20):  # any order of any words
    some = torch.randn(7, 5, generator=torch.Generator().manual_seed(seed))
    order = torch.randperm(7, generator=torch.Generator().manual_seed(seed))
    assert torch.allclose(attend(some[order]), attend(some)[order], atol=1e-5)

# %% after: after-swapped  numbers: 0.4472
from attnlab import attention_scores

assert round(E**-0.5, 4) == 0.4472
uniform = attention_weights(attention_scores(x, x, scale=0))
assert torch.allclose(effective_keys(uniform), torch.full((L,), 6.0))
assert torch.allclose(effective_keys(torch.eye(L)), torch.ones(L))
# with a causal mask the order counts: the rows of "The" and "the" differ
ordered = fast(x, x, x, is_causal=True)
assert torch.equal(x[0], x[4]) and not torch.allclose(ordered[0], ordered[4])

# %% after: slider
from attnlab import attention_scores

first = tokens.index("The")
for factor in (0, 0.4472, 1, 2, 4, 8):
    row = attention_weights(attention_scores(x, x, scale=factor))[first]
    assert row[0] == row[4] and row.max() < 0.5  # they tie, so neither has all
assert abs(row[0] - 0.45) < 0.01
alone = attention_weights(attention_scores(x, x), attn_mask=causal_mask(L))[first]
assert alone.tolist() == [1, 0, 0, 0, 0, 0]

# %% after: where-it-sits
functional = torch.nn.functional
moved = x.clone()
moved[5] += 1  # another last word
assert (attend(moved)[0] != output[0]).any()
assert torch.equal(functional.layer_norm(moved, (E,))[0], functional.layer_norm(x, (E,))[0])
mlp = torch.nn.Sequential(torch.nn.Linear(E, 13), torch.nn.ReLU(), torch.nn.Linear(13, E))
assert torch.equal(mlp(moved)[0], mlp(x)[0])
# the norm: the classic one and the one of Llama give every vector the same size; only one of them
# gives it the same mean
for rescale in (functional.layer_norm, functional.rms_norm):
    sizes = rescale(x, (E,)).square().mean(dim=-1).sqrt()
    assert torch.allclose(sizes, torch.ones(L), atol=1e-3)
assert functional.layer_norm(x, (E,)).mean(dim=-1).abs().max() < 1e-6
assert functional.rms_norm(x, (E,)).mean(dim=-1).abs().min() > 0.1
# the two plus signs: torch's block in this order, computed by hand
torch.manual_seed(0)
block = torch.nn.TransformerEncoderLayer(E, 1, 13, norm_first=True, batch_first=True).eval()
normed = block.norm1(x)
first = x + block.self_attn(normed, normed, normed)[0]
second = first + block.linear2(block.linear1(block.norm2(first)).relu())
with torch.no_grad():
    assert torch.allclose(block(x[None])[0], second, atol=1e-5)


# %% after: two-boxes
# the positions in the scores: query and key are turned by an angle that grows with the position
def turned(rows):
    angle = torch.arange(len(rows), dtype=rows.dtype)[:, None]
    a, b = rows[:, ::2], rows[:, 1::2]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


for seed in range(10):
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))
    swap = [0, 5, 2, 3, 4, 1]
    there, here = (fast(turned(r), turned(r), r) for r in (rows, rows[swap]))
    assert (there[1] - here[5]).abs().max() > 1e-3  # now the order counts, without a mask
    shift = turned(torch.cat([rows, rows]))  # only the distance counts
    assert torch.allclose(shift[:6] @ shift[:6].T, shift[6:] @ shift[6:].T, atol=1e-4)

# %% after: plus
animal, place = features.index("animal"), features.index("place")
assert (x + output)[cat, animal] > x[cat, animal] and (x + output)[cat, place] == output[cat, place]

# %% after: the-answer
# the same row twice in one text: the same output, unless there is a mask
for seed in range(20):
    text = torch.randn(13, 8, generator=torch.Generator().manual_seed(seed))
    text[5] = text[12]  # the two "bat"
    out, masked_out = (fast(text, text, text, is_causal=hidden) for hidden in (False, True))
    assert torch.allclose(out[5], out[12], atol=1e-6)
    assert not torch.allclose(masked_out[5], masked_out[12], atol=1e-2)
    alone = attend(text[:6])[5], attend(text[6:])[6]
    assert not torch.allclose(*alone, atol=1e-2)
# with matrices, the best match of "cat" need not be the word with the most similar features
best = []
for seed in range(8):
    w_q, w_k = torch.randn(2, E, E, generator=torch.Generator().manual_seed(seed))
    best.append(tokens[(x[cat] @ w_q @ (x @ w_k).T).argmax()])
assert len(set(best)) > 3 and best.count("cat") < 8 / 2  # "cat" is most similar to itself
assert (x[cat] @ x.T).argmax() == cat

# %% after: hint  numbers: 0.9999999
softmaxed = torch.randn(1000, 6, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
assert (softmaxed.sum(dim=-1) != 1).any()  # rows of weights do not always sum to exactly 1

# %% after: torch-line
assert not torch.allclose(masked, output) and torch.allclose(masked[cat], short[cat])
layer = torch.nn.MultiheadAttention(E, 1)
_, seen = layer(x, x, x, attn_mask=~causal_mask(L))  # True = blocked
assert torch.equal(seen > 0, causal_mask(L))

# %% after: sources  numbers: 2017, 2020, 2021, 2022, 2023
# under a causal mask, the order of the words before it is lost in one step and seen in two
for seed in range(5):
    rows = torch.randn(6, 5, generator=torch.Generator().manual_seed(seed))
    once = [fast(r, r, r, is_causal=True) for r in (rows, rows[[2, 0, 1, 3, 4, 5]])]
    twice = [fast(r, r, r, is_causal=True) for r in once]
    assert torch.allclose(once[0][3:], once[1][3:], atol=1e-6)
    assert (twice[0][3:] - twice[1][3:]).abs().max() > 0.01

# %% after: the-lessons  numbers: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 40, 45, 50, 75, 80, 85, 90

# %% after: plan  numbers: 40, 30, 8, 5, 7, 4, 6

# %% after: questions  numbers: 0, 1, 2, 3, 4, 5

# %% after: misconceptions  numbers: -1e9
