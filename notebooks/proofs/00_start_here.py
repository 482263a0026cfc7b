# %% after: scores
matches = x[tokens.index("cat")] @ x.T
named = matches[[tokens.index(token) for token in ("sat", "mat", "on", "The")]]
assert torch.allclose(named, torch.tensor([2.28, 0.60, 0.12, 0.0]))
assert all(torch.allclose(x[i] @ x[j], (x @ x.T)[i, j]) for i in range(6) for j in range(6))
# in this table, what two words share in some columns is never taken away by the others
assert (x >= 0).all()

# %% after: softmax-by-hand
assert (scores >= 0).all()
assert round(powers.sum().item(), 1) == 11.1 and round(1 / 11.1, 2) == 0.09
# where numbers differ in sign, a score can be negative: five seeds, three sizes (one of a real model)
for seed in range(5):
    for size in (5, 64, 768):
        some = torch.randn(6, size, generator=torch.Generator().manual_seed(seed))
        assert (some @ some.T / size**0.5)[0].min() < 0
# powers of e overflow from 89 on in float32 (the solution of exercise 1)
assert torch.tensor(88.0).exp().isfinite() and torch.tensor(89.0).exp().isinf()

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
assert round(x[[2, 3, 5], place].mean().item(), 2) == 0.93 and given.sum() < 0.5
assert abs(output[cat, place] - 0.37) < 0.005 and output[:, place].argmin() == cat
assert abs(average[0, place] - 0.47) < 0.005
kept = torch.stack([output[cat, 0], output[5, 1], average[0, 0], average[0, 1]])
assert torch.allclose(kept, torch.tensor([0.80, 0.76, 0.42, 0.32]), atol=0.005)
assert (weights[[1, 5], [1, 5]] > 1 / 6).all()  # each keeps more than a sixth of itself
for word in (1, 5):  # "more from a word that matches it better"
    best_first = scores[word].argsort(descending=True)
    assert (weights[word][best_first].diff() <= 0).all()
assert torch.allclose(weights[1, [2, 0]], torch.tensor([0.25, 0.09]), atol=0.005)
assert weights[cat, cat] > 1 / 3 and round(average[0, place].item(), 2) == 0.47  # the feedback

# %% after: three-lines
assert torch.allclose(output, scores.softmax(dim=-1) @ x)

# %% after: slider
assert round(5**-0.5, 4) == 0.4472
assert effective_keys(torch.full((1, 6), 1 / 6)).round(decimals=4) == 6


def vector_of_cat(scale, attn_mask=None):
    return attention_weights(x @ x.T * scale, attn_mask=attn_mask)[cat] @ x


assert torch.allclose(vector_of_cat(0), average[0]) and controls["scale"][-1] == 8
away = [(vector_of_cat(scale) - x[cat]).norm().item() for scale in controls["scale"]]
assert away == sorted(away, reverse=True) and away[-1] < 0.01
for scale in controls["scale"]:
    assert vector_of_cat(scale, causal_mask(6))[features.index("place")] == 0

# %% after: after-two-bats
assert torch.equal(in_the_cave[-1], with_the_ball[-1])
given = [cave_weights[-1], ball_weights[-1]]
adds = []
for words, row, bring, column in (
    (in_the_cave, given[0], [3, 4], 0),
    (with_the_ball, given[1], [1, 3], 1),
):
    others = [j for j in range(6) if j not in bring]
    assert (words[others] @ words[-1] == 0).all() and (words[:6, 1 - column] == 0).all()
    adds.append(row[bring] @ words[bring, column])
    new, plain = row @ words, words.mean(dim=0)
    assert (new[:2] < 1).all()  # the alt text: below the dashed line
    assert new[column] > new[1 - column] and plain[column] > plain[1 - column]
assert torch.allclose(torch.stack(adds), torch.tensor([0.21, 0.45]), atol=0.005)
assert torch.allclose(torch.stack(given)[:, -1], torch.tensor([0.27, 0.25]), atol=0.005)
# the plain average brings the same to every word, attention does not
attended = attend(in_the_cave)[0][[6, 4, 2]]  # bat, hung, the
assert all((attended[i] - attended[j]).norm() > 0.1 for i, j in ((0, 1), (0, 2), (1, 2)))
parts = [
    (row[:, None] * words)[:, :2]
    for words, row in zip((in_the_cave, with_the_ball), given, strict=True)
]
assert torch.allclose(parts[0][[3, 4], 0], torch.tensor([0.12, 0.09]), atol=0.005)  # the alt text
assert torch.allclose(parts[1][[3, 1], 1], torch.tensor([0.33, 0.12]), atol=0.005)

# %% after: after-both-bats
assert torch.equal(outputs[1], outputs[-1]) and len(sentence.split()) == 13
assert torch.allclose(outputs[1, :2], torch.tensor([0.377, 0.514]), atol=5e-4)
bats = rows(sentence)
causal = attention_weights(bats @ bats.T / 5**0.5, attn_mask=causal_mask(13)) @ bats
assert torch.allclose(causal[1, :2], torch.tensor([0.71, 0.71]), atol=0.005)
assert torch.allclose(causal[12, :2], torch.tensor([0.38, 0.51]), atol=0.005)
bat_weights = attend(rows(sentence))[1][1]
assert torch.allclose(bat_weights[[1, 12]], torch.tensor([0.14, 0.14]), atol=0.005)
# a padding mask, which hides the last word, does not tell the order; a causal mask does
turned = [8, 5, 0, 3, 1, 7, 2, 4, 6, 10, 9, 11, 12]
for mask, alike in ((torch.arange(13) < 12, True), (causal_mask(13), False)):
    one, other = (
        F.scaled_dot_product_attention(some, some, some, attn_mask=mask.expand(13, 13))
        for some in (bats, bats[turned])
    )
    assert torch.allclose(other, one[turned], atol=1e-6) == alike
# any order of any words: five seeds, three sizes (one of a real model), two dtypes
for seed in range(5):
    for size in (5, 64, 768):
        for dtype in (torch.float32, torch.float64):
            generator = torch.Generator().manual_seed(seed)
            some = torch.randn(7, size, generator=generator, dtype=dtype)
            order = torch.randperm(7, generator=generator)
            assert torch.allclose(attend(some[order])[0], attend(some)[0][order], atol=1e-4)
            some[4] = some[0]  # equal words get equal vectors
            assert torch.allclose(attend(some)[0][4], attend(some)[0][0], atol=1e-5)
# without a mask, three steps with the plus do not see the order either
for seed in range(5):
    for size in (5, 64, 768):
        some = torch.randn(7, size, generator=torch.Generator().manual_seed(seed)) / size**0.25
        order = [2, 0, 3, 1, 4, 5, 6]
        stacked, turned = some, some[order]
        for _ in range(3):
            stacked, turned = stacked + attend(stacked)[0], turned + attend(turned)[0]
        assert torch.allclose(turned, stacked[order], atol=1e-3)

# %% after: where-it-sits
# "the only step in which words see each other": the others give the first word the same vector
moved = x.clone()
moved[5] += 1  # another last word
assert (attend(moved)[0][0] != output[0]).any()
assert torch.equal(F.layer_norm(moved, (5,))[0], F.layer_norm(x, (5,))[0])
mlp = torch.nn.Sequential(torch.nn.Linear(5, 13), torch.nn.ReLU(), torch.nn.Linear(13, 5))
assert torch.equal(mlp(moved)[0], mlp(x)[0])
# the norm gives every vector the same size
for rescale in (F.layer_norm, F.rms_norm):
    sizes = rescale(x, (5,)).square().mean(dim=-1).sqrt()
    assert torch.allclose(sizes, torch.ones(6), atol=1e-3)
# the two plus signs of the caption: torch's block in this order, computed by hand
with torch.no_grad():
    block = torch.nn.TransformerEncoderLayer(5, 1, 13, norm_first=True, batch_first=True).eval()
    normed = block.norm1(x)
    first = x + block.self_attn(normed, normed, normed)[0]
    second = first + block.linear2(block.linear1(block.norm2(first)).relu())
    assert torch.allclose(block(x[None])[0], second, atol=1e-5)

# %% after: two-boxes
# `cat` had lost some of its `animal`, and the plus brings it back
assert output[cat, 0] < x[cat, 0] < (x + output)[cat, 0]

# %% after: remember
# heads of three models: the divisor is the root of the features of a query, not of the width
for seed in range(5):
    for heads, size in ((2, 5), (12, 64), (16, 128)):
        for dtype in (torch.float32, torch.float64):
            generator = torch.Generator().manual_seed(seed)
            q, k, v = torch.randn(3, heads, 16, size, generator=generator, dtype=dtype)
            fused = F.scaled_dot_product_attention(q, k, v)
            by_query, by_width = (
                (q @ k.mT / divisor**0.5).softmax(dim=-1) @ v for divisor in (size, heads * size)
            )
            assert torch.allclose(by_query, fused, atol=1e-5)
            assert not torch.allclose(by_width, fused, atol=1e-2)

# %% after: one-hidden  numbers: 5

# %% after: which-word
animal = torch.stack(without)[:, 0]
assert animal.argmin() == 3
assert cave_weights[-1, 3] > cave_weights[-1, 4]  # cave and hung
assert without[3][0] > without[3][1]  # hung is enough

# %% after: hint-third
short = rows("bat cave cave ball")
assert 2 * short[1, 0] == short[3, 1]
assert attend(short)[0][0, 0] < attend(short)[0][0, 1] and (short @ short[0])[1:].argmax() == 2

# %% after: sources  numbers: 0, 2017, 2020

# %% after: plan  numbers: 44, 40, 7, 8, 9, 4
gear = attend(rows("she hung a bat in the cave"))[0][3]
assert gear[0] > gear[1]  # more animal than sport

# %% after: questions  numbers: 0, 1, 2, 3, 4, 5

# %% after: misconceptions  numbers: -1e9
