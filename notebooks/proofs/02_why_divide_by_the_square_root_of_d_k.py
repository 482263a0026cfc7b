# %% after: ten-queries  numbers: 512

# %% after: two-maps
assert (undivided.amax(dim=-1) > 0.99).sum() == 9 and divided.amax() < 0.6
# on average about seven rows of ten exceed 0.99
q, k = torch.randn(2, 500, 10, 512, generator=torch.Generator().manual_seed(0))
best = (q @ k.mT).softmax(dim=-1).amax(dim=-1)
assert abs((best > 0.99).sum(dim=-1).float().mean() - 7.1) < 0.2

# %% after: so-sure  numbers: 99

# %% after: spread
assert random_raw_scores(1).numel() == 16_000

# %% after: spread-and-weights
import math

assert abs(math.exp(1) - 2.7) < 0.05 and round(math.exp(8)) == 2981
assert effective_keys(torch.full((1, 5), 0.2)).round(decimals=4) == 5

# %% after: contrast  numbers: 40
# a lead of 3 decides between two keys, not among 1,000
for n_keys, weight in ((2, 0.953), (1000, 0.020)):
    row = torch.zeros(n_keys)
    row[0] = 3.0
    assert abs(row.softmax(dim=-1)[0] - weight) < 5e-4

# %% after: used-figure
without, with_division = (torch.stack(column) for column in used.values())
assert without[0] == with_division[0] and (without.diff() < 0).all() and without[-1] < 1.3

# %% after: nine-slopes
winner = torch.tensor([0.998, 0.001, 0.001])
assert abs(softmax_jacobian(winner)[0, 0] - 0.002) < 5e-5
weights = torch.rand(1000, 7, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
assert softmax_jacobian(weights).max() <= 0.25 == softmax_jacobian(torch.tensor([0.5, 0.5]))[0, 0]
# some of 1,000 random queries are close to a tie at every size
for d_k in (64, 256, 1024):
    largest = random_raw_scores(d_k).softmax(dim=-1).amax(dim=-1)
    assert (largest < 0.6).double().mean() > 0.02

# %% after: two-forces  numbers: 0.998
first_row = softmax_jacobian(torch.tensor([0.5, 0.3, 0.2]))[0]
assert torch.allclose(first_row / 2, torch.tensor([0.125, -0.075, -0.05]))

# %% after: query-gradients
# the formula of the text, for one query
torch.manual_seed(0)
query = torch.randn(40, 25, 64)[0, 0].requires_grad_()
key, value = torch.randn(40, 16, 64)[0], torch.randn(40, 16, 1)[0]
weights = (key @ query / 8).softmax(dim=-1)
(weights @ value).sum().backward()
formula = key.T @ softmax_jacobian(weights.detach()) @ value[:, 0] / 8
assert torch.allclose(query.grad, formula, atol=1e-5)
assert torch.isclose(query.grad.norm(), query_gradients(64, 16, 8)[0], rtol=1e-4)

# %% after: see-gradient
unlike, alike, median, longer = {}, {}, {}, {}
for d_k, n_keys in [(64, 16), (64, 256), (1024, 16), (1024, 256)]:
    low, middle, high = rows[d_k, n_keys, "1"]
    low_s, middle_s, high_s = rows[d_k, n_keys, "√d_k"]
    unlike[d_k, n_keys], alike[d_k, n_keys] = high / low, high_s / low_s
    median[d_k, n_keys], longer[d_k, n_keys] = middle / middle_s, high / high_s
assert 900 < unlike[64, 16] < 1300 and max(alike.values()) < 3  # a factor of about 1,000
assert abs(median[64, 256] - 12) < 0.5 and 0.9e-3 < median[1024, 16] < 1.3e-3
assert min(longer.values()) > 7
for n_keys in (16, 256):
    assert abs(rows[64, n_keys, "√d_k"][1] / rows[1024, n_keys, "√d_k"][1] - 1) < 0.1
# without the division, a few queries outweigh all others
without, root = (query_gradients(1024, 16, c).sort(descending=True).values for c in (1, 32))
assert without[:100].sum() > 5 * without[100:].sum()
assert root[:100].sum() < 0.25 * root[100:].sum()
# among 256 keys the slopes are larger than with the division, and seldom only an eighth as large
raw = random_raw_scores(64, 256)[:, 0]
steep, flat = (softmax_jacobian((raw / c).softmax(dim=-1)).flatten(1).norm(dim=-1) for c in (1, 8))
assert steep.median() > 2 * flat.median() and (steep > flat / 8).double().mean() > 0.8


def lengths_of(d_k, n_keys, divisor, seed, loss):
    draw = {"generator": torch.Generator().manual_seed(seed)}
    query = torch.randn(20, 25, d_k, **draw).requires_grad_()
    key, value = torch.randn(20, n_keys, d_k, **draw), torch.randn(20, n_keys, 1, **draw)
    weights = (query @ key.mT / divisor).softmax(dim=-1)
    return gradient_norms(loss(weights @ value), query).flatten()


# the same directions in other draws and for another loss
for seed in (1, 2, 3):
    for loss in (torch.sum, lambda output: (output - 1).square().sum()):
        raw, root = (lengths_of(64, 256, c, seed, loss) for c in (1, 8))
        assert raw.median() > 5 * root.median() and (raw > root).double().mean() > 0.75
    raw, root = (lengths_of(1024, 16, c, seed, torch.sum) for c in (1, 32))
    assert 3e-4 < raw.median() / root.median() < 3e-3
    assert raw.quantile(0.9) > 7 * root.quantile(0.9)

# %% after: half-true  numbers: 512

# %% after: explore-scaling
median = {
    divisor: [
        ScalingExplorer(d_k=2**n, divisor=divisor).result.divided_sweep.median for n in range(2, 11)
    ]
    for divisor in ScalingExplorer.divisor.values
}
steady = [divisor for divisor, lengths in median.items() if max(lengths) < 1.25 * min(lengths)]
assert steady == ["sqrt(d_k)"]

# %% after: only-the-root  numbers: 64/512, 1/8
torch.manual_seed(0)
q, k = torch.randn(2, 8, 200, 64)  # (H, L, d_k): 8 heads of a layer of width 512
assert abs((q @ k.mT / 512**0.5).var() - 0.125) < 0.005
# divided by d_k, a key that is identical to its query gets a score of about 1
for d_k in (64, 512):
    q, k = torch.randn(2000, d_k), torch.randn(2000, 16, d_k)
    k[:, 0] = q
    scores = (k @ q[:, :, None]).squeeze(-1) / d_k
    weights = scores.softmax(dim=-1).mean(dim=0)
    assert abs(scores[:, 0].mean() - 1) < 0.01 and abs(weights[0] / weights[1:].mean() - 2.7) < 0.1

# %% after: read-sentences
assert len(sentences) == 35

# %% after: log-of-a-weight
# within a row, too, the scores of random queries and keys have variance 1 on average
for d_k in (4, 16, 64, 1024):
    assert abs((random_raw_scores(d_k) / d_k**0.5).var(dim=-1).mean() - 1) < 0.06

# %% after: see-trained
for reading in readings:
    before = reading.weights[2, 1:].diagonal()  # query i + 1, key i
    assert before.min() > 0.99

# %% after: trained-maps
assert pair[0].amax() < 0.6 and pair[1].amax(dim=-1).min() > 0.99
within = torch.cat(variances, dim=-1)
near = ((within > 0.5) & (within < 2)).float().mean(dim=-1)
assert abs(near[3] - 0.31) < 0.005
# in texts of about 50 tokens, about half of the heads
for start in range(0, 30, 6):
    read = layer.read(" ".join(sentences[start : start + 6]))
    mean = read.weights.log().var(dim=-1).mean(dim=-1)
    assert abs(len(read.tokens) - 50) <= 11 and ((mean > 0.5) & (mean < 2)).sum() in (6, 7)
# among ten keys, a weight of 99% needs a variance of about 5
sure = torch.full((10,), 0.01 / 9)
sure[0] = 0.99
assert 4.5 < sure.log().var() < 5

# %% after: without-it
trained = torch.cat([r.weights.amax(dim=-1) for r in readings], dim=-1) > 0.99
assert (trained.float().mean(dim=-1) == 0).sum() == 10
assert trained[2].float().mean() > 0.95  # head 2 chooses with the division too

# %% after: training-race  numbers: 3

# %% after: see-race
# the script draws parameters with which queries and keys have variance 1, or 9
import runpy

script = runpy.run_path(str(data_path("scaling_race.csv").with_name("make_scaling_race.py")))
for scale in (1, 3):
    drawn = [script["make_weights"](scale) for _ in range(20)]
    names = torch.stack([one["name"] @ one["query"] for one in drawn])
    pairs = torch.stack([(one["name"] + one["number"].repeat(2, 1)) @ one["key"] for one in drawn])
    assert abs(names.var() / scale**2 - 1) < 0.1 and abs(pairs.var() / 2 / scale**2 - 1) < 0.1

# %% after: race-figure  numbers: 1,000
mean = narrow[narrow.learning_rate == 0.001].groupby(["step", "divisor"]).accuracy.mean().unstack()
assert mean.loc[100, "sqrt(d_k)"] > 0.97 > mean.loc[100, "d_k"]
assert mean.loc[200, "d_k"] > 0.97 > mean.loc[200, "raw"] and mean.loc[300, "raw"] > 0.97

# %% after: race-reading
by_step = narrow.groupby(["divisor", "learning_rate", "step"]).accuracy.mean()
for name in ("raw", "d_k"):
    assert by_step[name, 0.0003, 400] > by_step[name, 0.0003, 350] + 0.1  # still improving
assert round(1 / 8 + 7 / 8 / 16, 2) == 0.18 > by_step["raw", 0.03, 400]

# %% after: broken-assumptions
assert abs(layer_a(a).var() - 1 / 3) < 0.05
generator = torch.Generator().manual_seed(0)
for d_k, low, high in ((25, 5, 9), (100, 20, 30), (400, 80, 120)):  # shared: about d_k / 4
    q, k = (
        torch.randn(5000, d_k, generator=generator) + torch.randn(5000, 1, generator=generator)
        for _ in range(2)
    )
    assert low < (q * k).sum(dim=-1).div(2 * d_k**0.5).var() < high

# %% after: its-weights
assert (large_weights.amax(dim=-1) > 0.99).nonzero().flatten().tolist() == [1, 2, 3, 5, 6, 7, 8, 9]

# %% after: t5
# one step, with the factor outside and inside the parameters: how far the scores move


def moved(optimiser, inside, seed, d_k=64, width=64):
    torch.manual_seed(seed)
    x, w_q, w_k = torch.randn(9, width), *torch.randn(2, width, d_k) / width**0.5
    value, root = torch.randn(9, 1), d_k**0.5
    w_q = (w_q / root if inside else w_q).requires_grad_()
    step, outside = optimiser([w_q, w_k.requires_grad_()], lr=1e-3), 1 if inside else root
    before = (x @ w_q) @ (x @ w_k).T / outside
    (before.softmax(dim=-1) @ value).square().sum().backward()
    step.step()
    return ((x @ w_q) @ (x @ w_k).T / outside - before).abs().mean(), w_q.grad.norm()


def ratios(optimiser, **size):
    both = [[moved(optimiser, inside, seed, **size)[0] for seed in range(5)] for inside in (1, 0)]
    return torch.tensor(both[0]) / torch.tensor(both[1])


for width in (64, 512):
    assert abs(ratios(torch.optim.Adam, width=width) - 5).max() < 0.8  # about 5 times
    assert abs(ratios(torch.optim.SGD, width=width) - 33).max() < 10  # about 30 times
    assert torch.allclose(ratios(torch.optim.Adafactor, width=width), torch.ones(5), rtol=1e-3)
inside, outside = (moved(torch.optim.SGD, where, 0)[1] for where in (True, False))
assert torch.isclose(inside, 8 * outside, rtol=1e-3)  # the smaller parameters, the larger gradient

# %% after: remember  numbers: 64, 256, 1,024, 16

# %% after: exercise-1  numbers: 1

# %% after: exercise-2  numbers: 1
die = torch.arange(1.0, 7.0)
assert die.mean() == 3.5 and abs(die.var(correction=0) - 2.917) < 5e-4

# %% after: dice-solution
assert abs(hundred_dice_solution(100)[1] - 0.029) < 5e-4
assert hundred_dice_solution(10)[0] == 35

# %% after: exercise-3  numbers: 8, 0.8, 1.25

# %% after: in-torch
# the layer with several heads divides by the root of the number of features of one head
layer = torch.nn.MultiheadAttention(512, num_heads=8, bias=False, batch_first=True)
layer.in_proj_weight.data = torch.eye(512).repeat(3, 1)  # query = key = value = x
tokens = torch.randn(1, 6, 512, generator=torch.Generator().manual_seed(0))
_, weights = layer(tokens, tokens, tokens, average_attn_weights=False)  # (N, H, L, S)
heads = tokens.unflatten(-1, (8, 64)).transpose(1, 2)  # (N, H, L, head_dim)
assert torch.allclose(weights, (heads @ heads.mT / 64**0.5).softmax(dim=-1), atol=1e-5)

# %% after: sources  numbers: 4, 2017, 2020, 2022

# %% after: teacher-plan  numbers: 45, 13, 7, 11, 6, 8

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 8, 16, 64, 256, 512
