# %% after: ten-queries  numbers: 512

# %% after: two-maps
assert (undivided.amax(dim=-1) > 0.99).sum() == 9 and divided.amax() < 0.6
# on average about seven rows of ten exceed 0.99
q, k = torch.randn(2, 500, 10, 512, generator=torch.Generator().manual_seed(0))
best = (q @ k.mT).softmax(dim=-1).amax(dim=-1)
assert abs((best > 0.99).sum(dim=-1).float().mean() - 7.1) < 0.2

# %% after: so-sure  numbers: 99

# %% after: variances-add
# a token compared with itself
assert abs(queries.square().sum(dim=-1).mean() - 64) < 1

# %% after: random-sequences
assert random_raw_scores(1).numel() == 16_000
assert (spread / sizes**0.5 - 1).abs().max() < 0.05

# %% after: spread-and-weights
import math

assert abs(math.exp(1) - 2.7) < 0.05 and round(math.exp(8)) == 2981
assert effective_keys(torch.full((1, 5), 0.2)).round(decimals=4) == 5

# %% after: effective-by-hand
assert torch.allclose(entropy.exp(), effective_keys(divided), atol=1e-4)
assert (effective_keys(divided) > 4.5).sum() > 5 and (effective_keys(undivided) < 1.1).sum() == 9
# of 16 keys about 11, for every number of features
assert all(
    abs(effective_keys((random_raw_scores(d_k) / d_k**0.5).softmax(dim=-1)).mean() - 11) < 0.7
    for d_k in (4, 16, 64, 256, 1024)
)

# %% after: ask-many  numbers: 100

# %% after: see-many
import math

assert table["share of all keys"].between(0.595, 0.69).all()
assert (
    abs(table["divided by √64"][16] - 11) < 0.5 and abs(table["divided by √64"][4096] - 2500) < 60
)
row = torch.randn(100_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
share = effective_keys(row.softmax(dim=-1)[None]) / len(row)
assert abs(share - math.exp(-0.5)) < 0.01
# a key at +1 against one at -1, and how rare a score above 3 is
assert math.exp(2) > 7 and (row > 3).double().mean() < 0.002

# %% after: grows-with-n  numbers: 0.6, 0.61
import math

# the share e^(-variance / 2), for few keys and many
for variance, expected in ((1, 0.61), (1 / 4, 0.88), (1 / 9, 0.95)):
    for n_keys in (256, 4096):
        row = torch.randn(200, n_keys, generator=torch.Generator().manual_seed(0)) * variance**0.5
        share = effective_keys(row.softmax(dim=-1)).mean() / n_keys
        assert abs(share - expected) < 0.02 and abs(share - math.exp(-variance / 2)) < 0.015

# twice the keys, twice the count
few = torch.randn(1, 20, generator=torch.Generator().manual_seed(0))
twice = effective_keys(few.repeat(1, 2).softmax(dim=-1))
assert torch.isclose(twice, 2 * effective_keys(few.softmax(dim=-1)), rtol=1e-3)

# %% after: nine-derivatives
from attnlab import softmax_jacobian

assert torch.equal(softmax_jacobian(p), p.diag() - p.outer(p))
assert torch.allclose((raised.softmax(dim=-1) - p) / 0.01, softmax_jacobian(p)[:, 0], atol=1e-3)
winner = torch.tensor([0.998, 0.001, 0.001])
assert abs(softmax_jacobian(winner)[0, 0] - 0.002) < 5e-5

# %% after: two-forces  numbers: 0.998, 1,000
first_row = (p.diag() - p.outer(p))[0]
assert torch.allclose(first_row / 2, torch.tensor([0.125, -0.075, -0.05]))

# %% after: query-gradients
# the three steps of the text, for one query
generator = torch.Generator().manual_seed(0)
query = torch.randn(40, 25, 64, generator=generator)[0, 0].requires_grad_()
key = torch.randn(40, 16, 64, generator=generator)[0]
value = torch.randn(40, 16, 1, generator=generator)[0]
weights = (key @ query / 8).softmax(dim=-1)
(weights @ value).sum().backward()
p = weights.detach()
three_steps = key.T @ (p.diag() - p.outer(p)) @ value[:, 0] / 8
assert torch.allclose(query.grad, three_steps, atol=1e-5)
assert torch.isclose(query.grad.norm(), query_gradients(64, 16, 8)[1][0], rtol=1e-4)

# %% after: see-gradient
found = medians.set_index(["d_k", "keys"])
assert abs(found.ratio[64, 256] - 12) < 1 and abs(found.ratio[64, 2048] - 36) < 2
assert 12 < found.ratio[128, 2048] < 36 and 0.9e-3 < found.ratio[1024, 16] < 1.6e-3
assert 0.7 < found.ratio[128, 16] < 1.2  # the two effects nearly cancel
raw_median, root_median = found["gradient, not divided"], found["gradient, divided"]
assert abs(raw_median[64, 256] - 1.17) < 0.01 and abs(root_median[64, 256] - 0.09) < 0.01
usual = [(64, 256), (64, 2048), (128, 2048)]
assert found["largest weight, not divided"][usual].between(0.7, 0.9).all()
assert max(divided_by_root[i][0].median() for i in range(3)) < 0.05
won = random_raw_scores(1024).softmax(dim=-1).amax(dim=-1) > 0.99
assert won.float().mean() > 0.75


def lengths_of(d_k, n_keys, divisor, seed, loss):
    draw = {"generator": torch.Generator().manual_seed(seed)}
    query = torch.randn(20, 25, d_k, **draw).requires_grad_()
    key, value = torch.randn(20, n_keys, d_k, **draw), torch.randn(20, n_keys, 1, **draw)
    loss((query @ key.mT / divisor).softmax(dim=-1) @ value).backward()
    return query.grad.norm(dim=-1).flatten()


# the same directions in other draws and for another loss
for seed in (1, 2, 3):
    for loss in (torch.sum, lambda output: (output - 1).square().sum()):
        raw, root = (lengths_of(64, 256, c, seed, loss) for c in (1, 8))
        assert raw.median() > 5 * root.median() and (raw > root).double().mean() > 0.75
    raw, root = (lengths_of(1024, 16, c, seed, torch.sum) for c in (1, 32))
    assert 3e-4 < raw.median() / root.median() < 3e-3
    assert raw.quantile(0.9) > 7 * root.quantile(0.9) and raw.quantile(0.9) > 1000 * raw.median()

# %% after: half-true  numbers: 0.8, 8, 11, 12, 36, 1,024

# %% after: gradient-figure  numbers: 1,000
# a box and its whiskers: uneven without the division, similar with it
for (_, raw), (_, root) in zip(without, divided_by_root, strict=True):
    assert raw.quantile(0.9) > 50 * raw.quantile(0.1)
    assert root.quantile(0.9) < 3 * root.quantile(0.1)

# %% after: uneven  numbers: 512, 1,000, 1,024
# a few queries dominate the gradient of the parameters that make the queries
token = torch.randn(1000, 64, generator=torch.Generator().manual_seed(0))
generator = torch.Generator().manual_seed(0)
query = torch.randn(40, 25, 1024, generator=generator).requires_grad_()
key, value = (torch.randn(40, 16, size, generator=generator) for size in (1024, 1))
((query @ key.mT).softmax(dim=-1) @ value).sum().backward()
each = query.grad.flatten(0, 1)
longest = each.norm(dim=-1).argsort(descending=True)
few, others = (token[part].T @ each[part] for part in (longest[:100], longest[100:]))
assert few.norm() > 2 * others.norm()
assert each.norm(dim=-1)[longest[:100]].sum() > 0.8 * each.norm(dim=-1).sum()

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

# %% after: see-trained
assert len(sentences) == 35
for reading in readings:
    before = reading.weights[2, 1:].diagonal()  # query i + 1, key i
    assert before.min() > 0.99
assert abs(of_heads[2] - 100) < 15 and ((of_heads > 0.5) & (of_heads < 2)).sum() == 9
# among ten keys, 99% for one needs a lead of almost 7, and then a variance between 4 and 5
sure = torch.full((10,), 0.01 / 9)
sure[0] = 0.99
assert 6.7 < sure.log()[0] - sure.log()[1] < 7
assert 4 < sure.log().var(correction=0) < sure.log().var() < 5

assert maps[0].amax() < 0.6 and maps[1].amax(dim=-1).min() > 0.99

# %% after: after-trained  numbers: 2, 100, 1/2

# %% after: without-it
trained = torch.cat([r.weights.amax(dim=-1) for r in readings], dim=-1) > 0.99
assert (trained.float().mean(dim=-1) == 0).sum() == 10
assert trained[2].float().mean() > 0.95  # head 2 chooses with the division too

# %% after: training-race  numbers: 3, 16

# %% after: see-race
# the script draws parameters with which queries and keys have variance 1
import runpy

script = runpy.run_path(str(data_path("scaling_race.csv").with_name("make_scaling_race.py")))
drawn = [script["make_weights"]() for _ in range(20)]
asked = torch.stack([one["name"] @ one["query"] for one in drawn])
shown = torch.stack([(one["name"] + one["number"].repeat(2, 1)) @ one["key"] for one in drawn])
assert abs(asked.var() - 1) < 0.1 and abs(shown.var() / 2 - 1) < 0.1

# %% after: race-figure  numbers: 1,000
mean = race[race.learning_rate == 0.001].groupby(["step", "divisor"]).accuracy.mean().unstack()
assert mean["divided by √d_k"][100] > 0.97 > mean["divided by d_k"][100]
assert mean["divided by d_k"][200] > 0.97 > mean["not divided"][200]
assert mean["not divided"][300] > 0.95

# %% after: race-reading  numbers: 0.01, 0.03, 0.95
lowest = final[400].xs(0.0003, level="learning_rate")
assert lowest[names["sqrt(d_k)"]] > 0.95 > lowest[names["d_k"]] > lowest["not divided"]
assert (final[1600].xs(0.0003, level="learning_rate") > 0.95).all()
assert final[1600, "not divided", 0.01] < 0.7
assert all(final[step, name, 0.03] < 0.95 for step in (400, 1600) for name in names.values())
above = (final > 0.95).groupby(["step", "divisor"]).sum()
assert all(above[step, names["sqrt(d_k)"]] > above[step, "not divided"] for step in (400, 1600))
for step in (400, 1600):
    for rate in (0.01, 0.03):
        assert final[step, names["d_k"], rate] > final[step, names["sqrt(d_k)"], rate]

# %% after: t5  numbers: 5
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
    return ((x @ w_q) @ (x @ w_k).T / outside - before).abs().mean()


def ratios(optimiser, **size):
    both = [[moved(optimiser, inside, seed, **size) for seed in range(5)] for inside in (1, 0)]
    return torch.tensor(both[0]) / torch.tensor(both[1])


for width in (64, 512):
    assert abs(ratios(torch.optim.Adam, width=width) - 5).max() < 0.8  # about 5 times

# %% after: remember  numbers: 0.6

# %% after: exercise-1  numbers: 1

# %% after: exercise-2  numbers: 1
die = torch.arange(1.0, 7.0)
assert die.mean() == 3.5 and abs(die.var(correction=0) - 2.917) < 5e-4

# %% after: dice-solution
assert abs(hundred_dice_solution(100)[1] - 0.029) < 5e-4
assert hundred_dice_solution(10)[0] == 35

# %% after: exercise-3  numbers: 8, 0.8, 1.25, 10

# %% after: in-torch
# the layer with several heads divides by the root of the number of features of one head
layer = torch.nn.MultiheadAttention(512, num_heads=8, bias=False, batch_first=True)
layer.in_proj_weight.data = torch.eye(512).repeat(3, 1)  # query = key = value = x
tokens = torch.randn(1, 6, 512, generator=torch.Generator().manual_seed(0))
_, weights = layer(tokens, tokens, tokens, average_attn_weights=False)  # (N, H, L, S)
heads = tokens.unflatten(-1, (8, 64)).transpose(1, 2)  # (N, H, L, head_dim)
assert torch.allclose(weights, (heads @ heads.mT / 64**0.5).softmax(dim=-1), atol=1e-5)

# %% after: start  numbers: 0.95, 0.88
import math

for variance, share in ((1 / 9, 0.95), (1 / 4, 0.88)):
    assert abs(math.exp(-variance / 2) - share) < 0.005

# %% after: torch-start
generator = torch.Generator().manual_seed(0)
tokens = torch.randn(2000, 512, generator=generator)
for seed in range(4):
    torch.manual_seed(seed)
    with torch.no_grad():
        linear = [torch.nn.Linear(512, 64)(tokens) for _ in range(2)]
        heads = torch.nn.MultiheadAttention(512, num_heads=8)
        q, k, _ = (tokens @ heads.in_proj_weight.T).chunk(3, dim=-1)
    assert abs((linear[0] @ linear[1].T / 64**0.5).var() - 1 / 9) < 0.02
    assert abs((q[:, :64] @ k[:, :64].T / 64**0.5).var() - 0.25) < 0.03

# %% after: sources  numbers: 4, 2017, 2020, 2022

# %% after: teacher-plan  numbers: 50, 13, 11, 12, 6, 8

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 8, 16, 64, 256, 512
