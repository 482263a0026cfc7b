# %% after: scores
matches = x[tokens.index("cat")] @ x.T
named = matches[[tokens.index(token) for token in ("sat", "mat", "on", "The")]]
assert torch.allclose(named, torch.tensor([2.28, 0.60, 0.12, 0.0]))

# %% after: weights
row_of_cat = weights[tokens.index("cat"), [tokens.index(t) for t in ("cat", "sat", "mat")]]
assert torch.allclose(row_of_cat, torch.tensor([0.36, 0.25, 0.12]), atol=0.005)
# the caption: the numbers shown in a row do not sum to 1; no cell has the colour of a 1
from attnlab.plotting import WEIGHT_COLOURS

assert ((weights * 100).round().sum(dim=-1) != 100).any()
assert sum(WEIGHT_COLOURS(1.0)[:3]) < sum(WEIGHT_COLOURS(weights.max().item())[:3])

# %% after: reading-the-heatmap
powers = scores[tokens.index("cat")].exp()
assert abs(scores[1, 1] - 1.38) < 0.005 and abs(powers[1] - 4.0) < 0.05
assert abs(powers.sum() - 11.1) < 0.05 and abs(powers[0] / powers.sum() - 0.09) < 0.005

# %% after: new-vector
place = features.index("place")
shares = weights[cat, [2, 3, 5]]
assert torch.allclose(shares, torch.tensor([0.250, 0.095, 0.118]), atol=5e-4)
assert round(x[[2, 3, 5], place].mean().item(), 1) == 0.9 and shares.sum() < 0.5

# %% after: what-happened
place = features.index("place")
assert abs(x[:, place].mean() - 0.47) < 0.005  # with six equal weights
# had "cat" only a sixth of the weight, and the others more, the place would not be less
others = weights[cat].masked_fill(torch.arange(L) == cat, 0)
even = x[cat] / L + (others / others.sum()) @ x * (L - 1) / L
assert even[place] > x[:, place].mean() > output[cat, place]

# %% after: parts
printed = (torch.stack(weighted_rows) * 100).round().sum(dim=0)
assert (printed != (output[cat] * 100).round()).any()  # "up to the rounding"

# %% after: three-lines
assert torch.equal(attend(x), output)
# for the caption of the drawing: L and S can differ, and so can E and Ev
assert fast(x, torch.ones(9, E), torch.ones(9, 7)).shape == (L, 7)

# %% after: steps  numbers: 6, 5

# %% after: swapped
for seed in range(20):  # any order of any words
    some = torch.randn(7, 5, generator=torch.Generator().manual_seed(seed))
    order = torch.randperm(7, generator=torch.Generator().manual_seed(seed))
    assert torch.allclose(attend(some[order]), attend(some)[order], atol=1e-5)

# %% after: after-swapped
assert round(E**-0.5, 4) == 0.4472
assert effective_keys(torch.full((1, L), 1 / L)).round(decimals=4) == 6

# %% after: slider
for factor in (0, 0.4472, 1, 2, 4, 8):
    row = attention_weights(x @ x.T * factor)[0]
    assert row[0] == row[4] and row.max() < 0.5  # they tie, so neither has all
assert abs(row[0] - 0.45) < 0.01
assert attention_weights(x @ x.T, attn_mask=causal_mask(L))[0, 0] == 1

# %% after: where-it-sits
# "the only step in which words see each other": the others give the first word the same vector
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
assert functional.rms_norm(x, (E,)).mean(dim=-1).abs().min() > 0.1
# the two plus signs of the caption: torch's block in this order, computed by hand
with torch.no_grad():
    block = torch.nn.TransformerEncoderLayer(E, 1, 13, norm_first=True, batch_first=True).eval()
    normed = block.norm1(x)
    first = x + block.self_attn(normed, normed, normed)[0]
    second = first + block.linear2(block.linear1(block.norm2(first)).relu())
    assert torch.allclose(block(x[None])[0], second, atol=1e-5)

# %% after: two-boxes
# under a causal mask, the order of the words before it is lost
for seed in range(5):
    rows = torch.randn(6, 5, generator=torch.Generator().manual_seed(seed))
    first, second = (fast(r, r, r, is_causal=True) for r in (rows, rows[[2, 0, 1, 3, 4, 5]]))
    assert torch.allclose(first[3:], second[3:], atol=1e-6)

# %% after: the-answer
# the same row twice in one text: the same output; in two texts: another
for seed in range(20):
    text = torch.randn(13, 8, generator=torch.Generator().manual_seed(seed))
    text[5] = text[12]  # the two "bat"
    assert torch.allclose(attend(text)[5], attend(text)[12], atol=1e-6)
    assert not torch.allclose(attend(text[:6])[5], attend(text[6:])[6], atol=1e-2)

# %% after: hint  numbers: 0.9999999
softmaxed = torch.randn(1000, 6, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
assert (softmaxed.sum(dim=-1) != 1).any()  # rows of weights do not always sum to exactly 1

# %% after: in-torch
layer = torch.nn.MultiheadAttention(E, 1)
_, seen = layer(x, x, x, attn_mask=~causal_mask(L))  # True = blocked
assert torch.equal(seen > 0, causal_mask(L))

# %% after: sources  numbers: 2017, 2020, 2021, 2022, 2023

# %% after: the-lessons  numbers: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 40, 45, 50, 75, 80, 85, 90

# %% after: plan  numbers: 40, 30, 8, 5, 7, 4, 6

# %% after: questions  numbers: 0, 1, 2, 3, 4, 5

# %% after: misconceptions  numbers: -1e9
