# %% after: scores
matches = x[tokens.index("cat")] @ x.T
named = matches[[tokens.index(token) for token in ("sat", "mat", "on", "The")]]
assert torch.allclose(named, torch.tensor([2.28, 0.60, 0.12, 0.0]))
assert all(torch.allclose(x[i] @ x[j], (x @ x.T)[i, j]) for i in range(6) for j in range(6))

# %% after: weights
assert torch.allclose(weights[cat], shares)
assert ((weights * 100).round().sum(dim=-1) != 100).any()  # "up to the rounding"

# %% after: reading-the-heatmap
row_of_cat = weights[cat, [tokens.index(t) for t in ("cat", "sat", "mat", "The")]]
assert torch.allclose(row_of_cat, torch.tensor([0.36, 0.25, 0.12, 0.09]), atol=0.005)
ties = (weights >= weights.diagonal()[:, None]).nonzero().tolist()  # besides a word and itself
assert [pair for pair in ties if pair[0] != pair[1]] == [[0, 4], [4, 0]]  # The and the

# %% after: new-vector
place = features.index("place")
given = weights[cat, [2, 3, 5]]
assert torch.allclose(given, torch.tensor([0.250, 0.095, 0.118]), atol=5e-4)
assert round(x[[2, 3, 5], place].mean().item(), 1) == 0.9 and given.sum() < 0.5

# %% after: parts
printed = (weights[cat][:, None] * x * 100).round().sum(dim=0)
assert (printed != (output[cat] * 100).round()).any()  # "up to the rounding"

# %% after: what-happened
place = features.index("place")
assert x[3, place] == 2 * x[2, place]  # on, sat
assert weights[cat, 2] * x[2, place] > weights[cat, 3] * x[3, place]

# %% after: three-lines
assert torch.equal(attend(x), output)

# %% after: after-swapped
assert torch.allclose(attend(swapped)[5], output[cat], atol=1e-6)
assert torch.equal(weights[0], weights[4])
for seed in range(20):  # any order of any words
    some = torch.randn(7, 5, generator=torch.Generator().manual_seed(seed))
    order = torch.randperm(7, generator=torch.Generator().manual_seed(seed))
    assert torch.allclose(attend(some[order]), attend(some)[order], atol=1e-5)

# %% after: slider
assert round(5**-0.5, 4) == 0.4472
assert effective_keys(torch.full((1, 6), 1 / 6)).round(decimals=4) == 6
for factor in (0, 0.4472, 1, 2, 4, 8):
    row = attention_weights(x @ x.T * factor)[0]
    assert row[0] == row[4] and row.max() < 0.5  # they tie, so neither has all
assert abs(row[0] - 0.45) < 0.01
assert attention_weights(x @ x.T, attn_mask=causal_mask(6))[0, 0] == 1

# %% after: after-two-bats
assert torch.equal(in_the_cave[-1], with_the_ball[-1])
new_bats = torch.stack([attend(in_the_cave)[-1], attend(with_the_ball)[-1]])[:, :2]  # animal, sport
assert torch.allclose(new_bats, torch.tensor([[0.48, 0.27], [0.25, 0.69]]), atol=0.005)
given = [(words @ words[-1] / 5**0.5).softmax(dim=0) for words in (in_the_cave, with_the_ball)]
assert torch.allclose(given[0][[3, 4]], torch.tensor([0.16, 0.14]), atol=0.005)  # cave, hung
assert torch.allclose(given[1][[3, 1]], torch.tensor([0.21, 0.14]), atol=0.005)  # ball, hit
both = ((in_the_cave, given[0], [3, 4]), (with_the_ball, given[1], [1, 3]))
for words, row, bring in both:
    others = [j for j in range(6) if j not in bring]
    assert (words[others] @ words[-1] == 0).all() and row[others].max() < row[bring].min()
keeps = (in_the_cave @ in_the_cave.T / 5**0.5).softmax(dim=-1)[
    0
]  # "deep" gives more to "cave" than to itself
assert keeps[3] > keeps[0]
leads = [
    [(one[0] - one[1]).item() for one in (attend(words)[-1], words.mean(dim=0))]
    for words in (in_the_cave, with_the_ball)
]  # animal over sport
assert all(abs(lead - 0.2) < 0.015 for lead in leads[0])
assert abs(leads[1][1] - leads[1][0] - 0.1) < 0.005
assert (given[0][[3, 4]] - 1 / 7).abs().max() < 0.02  # about a seventh
assert with_the_ball[:, 1].argmax() == 3 and given[1][:6].argmax() == 3  # "ball"
# the feedback: the sport of "bat" in the cave is the weight that it keeps
assert torch.isclose(given[0][-1], new_bats[0, 1])

# %% after: where-it-sits
# "the only step in which words see each other": the others give the first word the same vector
moved = x.clone()
moved[5] += 1  # another last word
assert (attend(moved)[0] != output[0]).any()
assert torch.equal(F.layer_norm(moved, (5,))[0], F.layer_norm(x, (5,))[0])
mlp = torch.nn.Sequential(torch.nn.Linear(5, 13), torch.nn.ReLU(), torch.nn.Linear(13, 5))
assert torch.equal(mlp(moved)[0], mlp(x)[0])
# the norm: the classic one and the one of Llama give every vector the same size; only one of them
# gives it the same mean
for rescale in (F.layer_norm, F.rms_norm):
    sizes = rescale(x, (5,)).square().mean(dim=-1).sqrt()
    assert torch.allclose(sizes, torch.ones(6), atol=1e-3)
assert F.rms_norm(x, (5,)).mean(dim=-1).abs().min() > 0.1
# the two plus signs of the caption: torch's block in this order, computed by hand
with torch.no_grad():
    block = torch.nn.TransformerEncoderLayer(5, 1, 13, norm_first=True, batch_first=True).eval()
    normed = block.norm1(x)
    first = x + block.self_attn(normed, normed, normed)[0]
    second = first + block.linear2(block.linear1(block.norm2(first)).relu())
    assert torch.allclose(block(x[None])[0], second, atol=1e-5)

# %% after: two-boxes
# under a causal mask, the order of the words before it is lost
for seed in range(5):
    some = torch.randn(6, 5, generator=torch.Generator().manual_seed(seed))
    first, second = (
        F.scaled_dot_product_attention(r, r, r, is_causal=True)
        for r in (some, some[[2, 0, 1, 3, 4, 5]])
    )
    assert torch.allclose(first[3:], second[3:], atol=1e-6)

# %% after: which-word
animal = torch.stack(without)[:, 0]
assert animal.argmin() == 3 and (animal[[0, 1, 2, 5]] > attend(in_the_cave)[-1, 0]).all()
assert given[0][3] > given[0][4]  # the weights of "cave" and of "hung"
assert without[3][0] > without[3][1]  # hung is enough

# %% after: hint-third
short = rows("bat cave cave ball")
assert 2 * short[1, 0] == short[3, 1]
assert attend(short)[0, 0] < attend(short)[0, 1] and (short @ short[0])[1:].argmax() == 2

# %% after: in-torch
masked = F.scaled_dot_product_attention(x, x, x, attn_mask=causal_mask(6))
assert torch.allclose(masked, F.scaled_dot_product_attention(x, x, x, is_causal=True))
assert masked[cat, features.index("place")] == 0

# %% after: sources  numbers: 2017, 2020, 2021, 2022, 2023

# %% after: the-lessons  numbers: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 45, 50, 51, 54, 70, 75, 80, 85, 90, 95

# %% after: plan  numbers: 50, 40, 10, 7, 8, 4, 5, 6
gear = attend(rows("she hung a bat in the cave"))[3]
assert gear[0] > gear[1]  # more animal than sport

# %% after: questions  numbers: 0, 1, 2, 3, 4, 5

# %% after: misconceptions  numbers: -1e9
