# %% after: phone-book  numbers: 64, 32

# %% after: look-up
generator = torch.Generator().manual_seed(5)
who, number = phone_books(1000, generator)
assert all(len(set(row)) == 8 for row in who.tolist()) and (number.sum(dim=-1) == 1).all()
# what one book finds, by attention as in lesson 0: a query, its keys, its values
w = torch.randn(2, 64, 16, dtype=torch.float64, generator=generator) / 8
asks, is_asked = names[who[3, :1]] @ w[0], names[who[3]] @ w[1]
by_hand = (asks @ is_asked.T / 4).softmax(dim=-1) @ number[3]
assert torch.allclose(look_up(w, 4, who, number)[3], by_hand[0])

# %% after: numbers  numbers: 15, 16

# %% after: training  numbers: 8

# %% after: train
# features of mean 0 and variance 1; a query and the key of the same name are strangers
drawn = torch.randn(40, 2, 64, 64, generator=torch.Generator().manual_seed(0)).double() / 8
query, key = (names @ drawn).unbind(dim=1)
for features in (query, key):
    assert abs(features.mean()) < 0.02 and abs(features.var() - 1) < 0.1
raw = (query * key).sum(dim=-1)  # of each name with itself
assert abs(raw.mean()) < 1 and abs(raw.std() - 8) < 0.8

# %% after: counting  numbers: 500

# %% after: see-larger


def of_models(d_k, divisor, seeds, **training):
    right = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        w = train(d_k, divisor, generator, **training)
        who, number = phone_books(500, generator)
        found = look_up(w, divisor, who, number).argmax(dim=-1)
        right.append((found == number[:, 0].argmax(dim=-1)).double().mean().item())
    return sum(right) / len(right)


untrained, plain, by_root = table
assert abs(untrained[0] - 0.17) < 0.006 and abs(untrained[2] - 0.20) < 0.006
assert abs(plain[0] - 0.80) < 0.006 and abs(plain[2] - 0.57) < 0.006
assert min(by_root) > 0.94
# the same in three other groups of five models
for first in (5, 10, 15):
    seeds = range(first, first + 5)
    small, middle, large = (of_models(d_k, 1, seeds) for d_k in (16, 64, 256))
    assert 0.67 < small < 0.81 and small - 0.05 > middle > large and 0.4 < large < 0.62
    assert min(of_models(d_k, d_k**0.5, seeds) for d_k in (16, 64, 256)) > 0.88

# %% after: larger  numbers: .80, .57

# %% after: vote
assert votes.numel() * 5 == 225
best = votes.argmax(dim=-1)
assert all(abs(best[i] - (i + 1)) <= 1 for i in range(1, 5))  # the root is column i + 1
# five other models: the root is close to the best of five divisors, the neighbours included
for d_k in (16, 64, 256):
    around = []
    for power in (-2, -1, 0, 1, 2):
        right = []
        for seed in range(5, 10):
            generator = torch.Generator().manual_seed(seed)
            w = train(d_k, d_k**0.5 * 2**power, generator)
            who, number = phone_books(500, generator)
            found = look_up(w, d_k**0.5 * 2**power, who, number).argmax(dim=-1)
            right.append((found == number[:, 0].argmax(dim=-1)).double().mean())
        around.append(sum(right) / 5)
    assert max(around[1:4]) == max(around) and around[2] > max(around) - 0.06

# %% after: diagonal  numbers: 16

# %% after: walks
undivided, sure = measured["not divided: spread"], measured["not divided: one weight above 0.99"]
assert (undivided / counts**0.5 - 1).abs().max() < 0.04 and 0.6 < sure[2] < 0.7
# other distributions of mean 0 and variance 1, other draws
for seed in range(5):
    torch.manual_seed(seed)
    coins = torch.randint(2, (2, 2000, 256)) * 2.0 - 1
    uniform = (torch.rand(2, 2000, 256) * 2 - 1) * 3**0.5
    normal = torch.randn(2, 2000, 256)
    for one, other in (coins, uniform, normal):
        assert abs((one * other).sum(dim=-1).std() / 16 - 1) < 0.06
    scores = torch.randn(500, 1, 256) @ torch.randn(500, 256, 8)
    assert 0.57 < (scores.softmax(dim=-1).amax(dim=-1) > 0.99).double().mean() < 0.73
    assert (scores / 16).softmax(dim=-1).amax() < 0.99

# %% after: walks-figure
# what the alternative text says of the first query
first = walks[0]
assert first.softmax(dim=0).amax(dim=0).gt(0.9).double().mean() > 0.7
assert (first / torch.arange(1, 1025) ** 0.5).softmax(dim=0)[:, 64:].amax() < 0.8

# %% after: lucky  numbers: 3,000
import math

assert abs(math.exp(8) - 3000) < 30 and abs(walks[:, :, -1].mean()) < 1

# %% after: variances-add  numbers: 0.99

# %% after: voices  numbers: 1,000

# %% after: crowd-figure
# the area of a dot is its length, and the same in the whole figure
assert gradients(64, 8)[:160].mean() > 0.2
# other draws and other names: mean length, and share of the queries below a tenth of it


def loudness_of(d_k, divisor, seed, n=400):
    generator = torch.Generator().manual_seed(seed)
    others = torch.randn(32, 64, dtype=torch.float64, generator=generator)
    w_query, w_key = torch.randn(2, 64, d_k, dtype=torch.float64, generator=generator) / 8
    who, number = phone_books(n, generator)
    query = (others @ w_query)[who[:, :1]].requires_grad_()
    output = (query @ (others @ w_key)[who].mT / divisor).softmax(dim=-1) @ number
    (output - number[:, :1]).square().sum().backward()
    length = query.grad.norm(dim=-1)
    silent = (length < length.mean() / 10).double().mean()
    return length.mean(), silent, length.max()


for seed in range(5):
    silent = []
    for d_k in (16, 64, 256, 1024):
        raw, share, loudest = loudness_of(d_k, 1, seed)
        root, share_of_root, loudest_of_root = loudness_of(d_k, d_k**0.5, seed)
        soft, share_of_soft, _ = loudness_of(d_k, d_k, seed)
        assert loudest > 2 * loudest_of_root
        silent.append(share)
        assert 0.7 < raw < 2 and 0.22 < root < 0.37 and 0.22 < soft * d_k**0.5 < 0.28
        assert max(share_of_root, share_of_soft) < 0.05
    for share, near in zip(silent, (0.1, 0.4, 0.6, 0.75), strict=True):
        assert abs(share - near) < 0.1

# %% after: explore-scaling
# the rates that reach .9 at 16 features, and at 1,024
reach = pd.read_csv(data_path("scaling_race.csv")).query("optimizer == 'SGD' and entries == 8")
reach = reach[reach.accuracy >= 0.9].groupby(["divisor", "d_k"]).learning_rate.agg(set)
assert ("1", 16) not in reach and reach["sqrt(d_k)", 16] == {0.5, 2} <= reach["sqrt(d_k)", 1024]
assert reach["d_k", 16] == {2, 8} and not reach["d_k", 16] & reach["d_k", 1024]
best = {d_k: ScalingExplorer(ask=False, d_k=d_k, entries=8).result for d_k in (16, 64, 256, 1024)}
at_two = [ScalingExplorer(ask=False, d_k=d_k, entries=8, rate=2.0).result for d_k in best]
assert min(one.accuracy[1] for one in at_two) > 0.98
assert [one.best_rates[2] for one in best.values()] == [8, 32, 128, 512]
assert min(min(one.best[1:]) for one in best.values()) > 0.95
assert abs(best[256].best[0] - 0.57) < 0.006 and best[1024].best[0] < 0.5
# the explorer shows what the page computes
here = ScalingExplorer(ask=False, d_k=256, entries=8, rate=0.5).result.accuracy
assert max(abs(one - accuracy(256, c)) for one, c in zip(here, (1, 16, 256), strict=True)) < 0.01

# %% after: rescued  numbers: .57, .98

# %% after: one-step
# ten models: the root about the same at every size, d_k about a quarter each time


def moved_by(d_k, divisor, seed):
    scores = []
    for steps in (0, 1):
        query, key = names @ train(d_k, divisor, torch.Generator().manual_seed(seed), steps=steps)
        scores.append(query @ key.mT / divisor)
    return (scores[1] - scores[0]).std().item()


of_root = torch.tensor(
    [[moved_by(d_k, d_k**0.5, seed) for d_k in (16, 64, 256)] for seed in range(10)]
)
of_size = torch.tensor([[moved_by(d_k, d_k, seed) for d_k in (16, 64, 256)] for seed in range(10)])
assert 0.17 < of_root.min() and of_root.max() < 0.45
quarter = of_size.mean(dim=0)[1:] / of_size.mean(dim=0)[:-1]
assert 0.18 < quarter.min() and quarter.max() < 0.32
by_size = torch.tensor(step_lengths["by d_k"])
assert (by_size[1:] / by_size[:-1] - 0.25).abs().max() < 0.07
of_root = step_lengths["by √d_k"]
assert min(of_root) > 0.19 and max(of_root) < 0.3

# %% after: both-ends  numbers: 1
for i in range(3, 5):  # to the right of the frames, the row above moved on by a column
    assert (votes[i, i + 2 :] - votes[i - 1, i + 1 : -1]).abs().max() < 0.06
# to the right of the frame the step alone decides: with queries that begin at 0, so that no score
# has a spread, the rows repeat each other in the same way


def from_zero(d_k, divisor):
    right = []
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        w = torch.randn(2, 64, d_k, dtype=torch.float64, generator=generator) / 8
        w[0] = 0
        optimizer = torch.optim.SGD([w.requires_grad_()], lr=0.5)
        for _ in range(10):
            who, number = phone_books(32, generator)
            error = look_up(w, divisor, who, number) - number[:, 0]
            optimizer.zero_grad()
            error.square().sum(dim=-1).mean().backward()
            optimizer.step()
        who, number = phone_books(500, generator)
        found = look_up(w.detach(), divisor, who, number).argmax(dim=-1)
        right.append((found == number[:, 0].argmax(dim=-1)).double().mean().item())
    return sum(right) / 3


for d_k in (16, 64, 256):
    for factor in (2, 4):
        divisor = d_k**0.5 * factor
        assert abs(from_zero(d_k, divisor) - from_zero(4 * d_k, 2 * divisor)) < 0.1
    assert from_zero(d_k, d_k**0.5 / 4) > 0.95  # and nothing is lost to the left of it

# %% after: concert  numbers: 32, 384
assert ScalingExplorer.d_k.values[1] == 16  # sizes near that of these heads

# %% after: see-trained
assert len(sentences) == 35 and readings[0].weights.shape[0] == 12
for reading in readings:
    before = reading.weights[2, 1:].diagonal()  # query i + 1, key i
    assert before.min() > 0.99
others = torch.cat([of_heads[:2], of_heads[3:]])
assert 0.75 < others.min() and others.max() < 1.85 and abs(of_heads[2] - 10) < 0.5

# %% after: after-trained  numbers: 0.8, 1.8, 10, 35

# %% after: see-twins  numbers: 8, 16
for d_k in (64, 256, 1024):
    same = torch.randn(1000, d_k, generator=torch.Generator().manual_seed(1))
    assert abs(same.square().sum(dim=-1).mean() / d_k - 1) < 0.02

# %% after: twins  numbers: 8, 16

# %% after: adam
# one step of Adam, ten models: d_k / c


def moved_by_adam(d_k, divisor, seed):
    generator = torch.Generator().manual_seed(seed)
    w = train(d_k, divisor, generator, steps=0).requires_grad_()
    query, key = names @ w
    who, number = phone_books(32, generator)
    error = look_up(w, divisor, who, number) - number[:, 0]
    error.square().sum(dim=-1).mean().backward()
    torch.optim.Adam([w], lr=1 / 64).step()
    new_query, new_key = names @ w
    return ((new_query @ new_key.mT - query @ key.mT) / divisor).std().item()


for power, factor in ((0.5, 2), (1, 1)):
    far = torch.tensor(
        [
            sum(moved_by_adam(d_k, d_k**power, seed) for seed in range(10))
            for d_k in (16, 64, 256, 1024)
        ]
    )
    assert (far[1:] / far[:-1] / factor - 1).abs().max() < 0.2

# %% after: see-adam
root, by_size = (by_rate.loc[name].drop(4) for name in ("sqrt(d_k)", "d_k"))
assert min(root[1 / 64].min(), by_size[1 / 64].min()) > 0.9

# %% after: adam-reads  numbers: 64

# %% after: remember  numbers: 32, 64
# rates between those of the slider do not make up for the division either
for d_k in (64, 256, 1024):
    assert max(accuracy(d_k, 1, rate=rate) for rate in (0.25, 0.35, 0.7, 1)) < 0.75

# %% after: exercise-2  numbers: 0.7, 1.4

# %% after: small-start-goes-on  numbers: 2, 64, 256, 1/8
right = {}
for d_k in (64, 256):
    for rate in (0.5, 2.0, 0.125):
        for seed in range(5):
            generator = torch.Generator().manual_seed(seed)
            w = torch.randn(2, 64, d_k, dtype=torch.float64, generator=generator) / 8 / d_k**0.25
            w.requires_grad_()
            optimizer = torch.optim.SGD([w], lr=rate)
            for _ in range(10):
                who, number = phone_books(32, generator)
                error = look_up(w, 1, who, number) - number[:, 0]
                optimizer.zero_grad()
                error.square().sum(dim=-1).mean().backward()
                optimizer.step()
            who, number = phone_books(500, generator)
            found = look_up(w.detach(), 1, who, number).argmax(dim=-1)
            share = (found == number[:, 0].argmax(dim=-1)).double().mean().item()
            right[d_k, rate] = right.get((d_k, rate), 0) + share / 5
assert min(right[d_k, 0.5] for d_k in (64, 256)) > 0.9
assert max(right[d_k, 2.0] for d_k in (64, 256)) < 0.7
assert min(right[d_k, 0.125] for d_k in (64, 256)) > 0.9

# %% after: exercise-3  numbers: 0.10, 512, 0.18, 0.14, 0.33, 1/8
for divisor, share, slow, fast in (
    (32**0.5, 0.18, 0.57, 0.31),
    (32, 0.14, 0.25, 1.00),
    (1, 0.33, 0.64, 0.18),
):
    loud = gradients(32, divisor).sort(descending=True).values
    assert abs(loud[:100].sum() / loud.sum() - share) < 0.006
    for rate, noted in ((1 / 8, slow), (16, fast)):
        assert abs(accuracy(32, divisor, rate=rate) - noted) < 0.006

# %% after: exercise-4  numbers: 10

# %% after: in-torch
# the layer with several heads divides by the root of the number of features of one head
layer = torch.nn.MultiheadAttention(512, num_heads=8, bias=False, batch_first=True)
layer.in_proj_weight.data = torch.eye(512).repeat(3, 1)  # query = key = value = x
tokens = torch.randn(1, 6, 512, generator=torch.Generator().manual_seed(0))
_, weights = layer(tokens, tokens, tokens, average_attn_weights=False)  # (N, H, L, S)
heads = tokens.unflatten(-1, (8, 64)).transpose(1, 2)  # (N, H, L, head_dim)
assert torch.allclose(weights, (heads @ heads.mT / 64**0.5).softmax(dim=-1), atol=1e-5)

# %% after: torch-start
tokens = torch.randn(2000, 512, generator=torch.Generator().manual_seed(0))
for seed in range(4):
    torch.manual_seed(seed)
    with torch.no_grad():
        linear = [torch.nn.Linear(512, 64)(tokens) for _ in range(2)]
    assert abs((linear[0] @ linear[1].T / 64**0.5).std() - 1 / 3) < 0.03

# %% after: sources  numbers: 4, 2017, 2020, 2022

# %% after: teacher-plan  numbers: 46, 13, 4, 8, 5, 10, 6
# two batches of 32 books agree less without the division
import torch.nn.functional as F


def agreement(d_k, divisor):
    cosines = []
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        w = torch.randn(2, 64, d_k, dtype=torch.float64, generator=generator) / 8
        w.requires_grad_()
        slopes = []
        for _ in range(2):
            who, number = phone_books(32, generator)
            error = look_up(w, divisor, who, number) - number[:, 0]
            slopes += torch.autograd.grad(error.square().sum(dim=-1).mean(), w)
        cosines.append(F.cosine_similarity(slopes[0].flatten(), slopes[1].flatten(), dim=0))
    return sum(cosines) / 10


for d_k in (64, 256):
    assert agreement(d_k, 1) < 0.27 < agreement(d_k, d_k**0.5)

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 8, 16, 64, 512, 1,024
