# %% after: scores  covers: S4.22
assert torch.equal(scores * E**0.5, attention_scores(x, x, scale=1.0)) or torch.allclose(
    scores, attention_scores(x, x)
)
matches = x @ x[tokens.index("cat")]
others = [token for token in tokens if token != "cat"]
best = max(others, key=lambda token: matches[tokens.index(token)])
assert best == "sat"
for token, match in {"sat": 2.28, "mat": 0.60, "on": 0.12, "The": 0.0}.items():
    assert abs(matches[tokens.index(token)] - match) < 1e-5  # the predictions' feedback

# %% after: weights  numbers: 0.36, 0.25, 0.12, 6
assert torch.allclose(weights.sum(dim=-1), torch.ones(L))
row_of_cat = dict(zip(tokens, weights[tokens.index("cat")].tolist(), strict=True))
for token, weight in {"cat": 0.36, "sat": 0.25, "mat": 0.12, "on": 0.095}.items():
    assert abs(row_of_cat[token] - weight) < 0.005
assert max(row_of_cat, key=row_of_cat.get) == "cat"

# %% after: new-vector
import math

place = features.index("place")
assert x[cat, place] == 0 and 0 < output[cat, place] < 1
from_words = weights[cat] * x[:, place]
assert [token for token, part in zip(tokens, from_words, strict=True) if part > 0] == [
    "sat",
    "on",
    "mat",
]
assert 1 / 9 < weights[cat, 5] < 1 / 8  # "about an eighth"

# %% after: what-happened  numbers: 0.15, 0.13, 0.09
place, animal = features.index("place"), features.index("animal")
parts = weights[cat] * x[:, place]
for token, part in {"mat": 0.15, "sat": 0.13, "on": 0.09}.items():
    assert abs(parts[tokens.index(token)] - part) < 0.006
assert abs(output[cat, place] - 0.37) < 0.005 and abs(output[cat, animal] - 0.80) < 0.005
assert [t for t, row in zip(tokens, x, strict=True) if row[animal] > 0] == ["cat", "sat"]

# %% after: three-lines
assert torch.allclose(attend(x), scaled_dot_product_attention(x, x, x))
assert torch.equal(attend(x), output)

# %% after: steps  covers: S0.15

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
assert round(E**-0.5, 4) == 0.4472
# with a causal mask the order counts: the rows of "The" and "the" differ
masked = scaled_dot_product_attention(x, x, x, is_causal=True)
assert torch.equal(x[0], x[4]) and not torch.allclose(masked[0], masked[4])

# %% after: slider  numbers: 0.45
first = tokens.index("The")
for factor in (0, 0.4472, 1, 2, 4, 8):
    row = attention_weights(attention_scores(x, x, scale=factor))[first]
    assert row[0] == row[4] and row.max() < 0.5  # they tie, so neither has all
assert abs(row[0] - 0.45) < 0.01
alone = attention_weights(attention_scores(x, x), attn_mask=causal_mask(L))[first]
assert alone.tolist() == [1, 0, 0, 0, 0, 0]

# %% after: after-the-slider
uniform = attention_weights(attention_scores(x, x, scale=0))
assert torch.allclose(effective_keys(uniform), torch.full((L,), 6.0))
assert torch.allclose(effective_keys(torch.eye(L)), torch.ones(L))

# %% after: block  covers: S1.1
functional = torch.nn.functional
moved = x.clone()
moved[5] += 1  # another last word
assert (attend(moved)[0] != output[0]).any()
assert torch.equal(functional.layer_norm(moved, (E,))[0], functional.layer_norm(x, (E,))[0])
mlp = torch.nn.Sequential(torch.nn.Linear(E, 13), torch.nn.ReLU(), torch.nn.Linear(13, E))
assert torch.equal(mlp(moved)[0], mlp(x)[0])

# %% after: the-answer  numbers: 2.4
assert torch.allclose((x + output)[cat, [0, 3]], torch.tensor([2.4, 0.37]), atol=0.005)

# %% after: the-lessons  covers: S3.1  numbers: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 40, 45, 50, 60, 75, 80, 90, 100

# %% after: hint  numbers: 0.9999999
softmaxed = torch.randn(1000, 6, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
assert (softmaxed.sum(dim=-1) != 1).any()  # rows of weights do not always sum to exactly 1

# %% after: torch-line
assert torch.allclose(causal, fast(x, x, x, is_causal=True))
assert not torch.allclose(causal, output)
layer = torch.nn.MultiheadAttention(E, 1)
_, seen = layer(x, x, x, attn_mask=~causal_mask(L))  # True = blocked
assert torch.equal(seen > 0, causal_mask(L))
