# %% after: weight-bytes
# the numbers of the opening
assert weight_bytes(16_384, 8) == 8 * GiB
one = torch.empty(8, 16_384, 64, device="meta").nbytes  # queries, keys, values or outputs
assert (3 * one, one) == (96 * MiB, 32 * MiB)

# %% after: see-weights
growth = weight_bytes(16_000, 8) / weight_bytes(512, 8)
assert abs(growth - 977) < 0.5 and 16_000 // 512 == 31 and growth < 1000
one, eight, _ = (gib[name][2] for name in gib)
assert abs(eight - 7.6) < 0.05
assert abs(31 * 8 - 250) < 3 and abs(one - 1) < 0.05
assert abs(8 * eight - 61) < 0.1
assert weight_bytes(2 * 512, 8) == 4 * weight_bytes(512, 8) == weight_bytes(2 * 512, 32) / 4

# %% after: see-flops
from attnlab import MultiHeadAttention
from torch.utils.flop_counter import FlopCounterMode

# torch counts the same while a layer runs, however many heads there are
for i, heads in ((0, 8), (2, 8), (2, 1), (4, 8)):
    layer = MultiHeadAttention(d, heads).to("meta")
    with FlopCounterMode(display=False) as counted_flops:
        layer(torch.empty(1, n[i], d, device="meta"))
    counts = counted_flops.get_flop_counts()["Global"]
    assert counts[torch.ops.aten.addmm] == projections[i] == 8 * n[i] * d**2
    assert counts[torch.ops.aten.bmm] == attention[i] == 4 * n[i] ** 2 * d
assert (attention / projections).tolist() == [1 / 8, 0.5, 1, 4, 16] and n[2] == 2 * d
# the usual MLP, with 4 d features inside, and where the square catches up with all the rest
far = 6 * d
wide = torch.nn.Sequential(torch.nn.Linear(d, 4 * d), torch.nn.Linear(4 * d, d)).to("meta")
with FlopCounterMode(display=False) as counted_flops:
    wide(torch.empty(far, d, device="meta"))
assert counted_flops.get_total_flops() == 16 * far * d**2
assert 4 * far**2 * d == 8 * far * d**2 + 16 * far * d**2 == 24 * far * d**2

# %% after: formula  numbers: 4, 64

# %% after: explore-cost
for heads, below, above in ((8, 128, 256), (1, 1024, 2048)):
    less, more = (CostExplorer(n=n, heads=heads).result for n in (below, above))
    assert less.weight_bytes < less.qkv_bytes and more.weight_bytes > more.qkv_bytes
assert CostExplorer(n=64).result.attention_flops < CostExplorer(n=64).result.projection_flops


# %% after: see-peak
def peak(function, n):
    tensors = torch.randn(3, 1, 1, n, 64)
    with PeakMemory() as memory:
        function(*tensors)
    return memory.peak / MiB


for n in (512, 1000, 2048):  # two tables and the output
    assert peak(plain, n) * MiB == 2 * weight_bytes(n, 1) + n * 64 * 4


def two_names(query, key, value):
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ value


def three_names(query, key, value):
    raw = query @ key.mT
    scores = raw / query.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1)
    return weights @ value


assert peak(three_names, 2048) == 48.5  # it is the names that keep the tables
assert 16.5 < peak(two_names, 2048) == 32  # but a table is made from another one

# %% after: rows  numbers: 64

# %% after: by-rows
some = torch.randn(3, 2, 3, 300, 16, generator=torch.Generator().manual_seed(0))
for size in (1, 7, 64, 300, 1000):
    assert torch.allclose(by_rows(*some, size=size), plain(*some), atol=1e-6)

# %% after: peak-of-rows
assert counted_rows.peak / MiB == 1.5 and counted_rows.peak < counted.peak / 20
for n in (512, 1024):  # in proportion to the length
    fewer = inputs[..., :n, :]
    with PeakMemory() as memory:
        by_rows(*fewer)
    assert memory.peak / n == counted_rows.peak / 2048


# %% after: see-time
division.columns = ["new", "reused"]
at = measured[measured.what == "time"].pivot_table("value", "size", "case")
assert 0.35 < at.by_rows[4096] / at.plain[4096] < 0.55 and 4096 * 4096 * 4 == 64 * MiB
assert at.by_rows[512] / at.plain[512] > at.by_rows[4096] / at.plain[4096]
# left: in the cache, in main memory, in new memory
assert round(division.reused.loc[:2].mean(), 2) == 0.15
assert 0.13 < division.reused.loc[:2].min() < division.reused.loc[:2].max() < 0.18
assert (division.reused.loc[16:] / division.reused.loc[:2].mean()).between(1.9, 2.7).all()
assert division.new.between(1.2, 2.2).all() and (division.new > 3 * division.reused).all()
assert division.index[0] == 0.5 and division.index[-1] == 256
# right
whole, fused = steps.sum(axis=1), wholes.fused
products = steps[["scores", "average"]].sum(axis=1)
assert products["64 rows"] < whole["new"] / 2  # the multiplications take less than half
assert whole["reused"] < whole["new"] / 2 and whole["64 rows"] < whole["reused"]
assert [round(one, 1) for one in (*whole, wholes.by_rows, fused)] == [9.4, 4.2, 3.6, 5.1, 3.2]
assert 0.75 < products["reused"] / whole["reused"] and fused < 1.15 * products["64 rows"]
assert abs(products["reused"] / whole["new"] - 1 / 3) < 0.03
assert 0.45 < wholes.by_rows / whole["new"] < 0.55 and wholes.by_rows > whole["64 rows"]
assert 1.9 < steps.scores["new"] / steps.scores["reused"] < 2.2  # twice as long
assert round(whole["new"] - whole["reused"]) == 5 and round(whole["new"] - fused, 1) == 6.2
assert 0.4 < whole["reused"] - whole["64 rows"] < 0.8 and 0.2 < whole["64 rows"] - fused < 0.6
assert whole["new"] - whole["reused"] > products["reused"]  # the title of the figure
assert 64 * 4096 * 4 == MiB

# %% after: slow-and-fast  numbers: 64, 9.4, 6.2, 5

# %% after: one-row  numbers: 40.3, 41.7, 4.4, 7.3, 13%, 192, 16384, 1024, 64
assert round(100 * (75.2 / 66.6 - 1)) == 13  # billions of FLOPs, in figure 2 of the paper
assert torch.empty(64, 16_384, device="meta").nbytes == 4 * MiB
a_row = torch.empty(16_384, device="meta").nbytes
assert a_row == 64 * 1024 and 3 * a_row <= 192 * 1024 < 4 * a_row

# %% after: two-passes
assert torch.tensor(100.0).exp().isinf()  # without a top, soon too large for float32
first, second, _ = row.split(2)
assert abs(first[0]) < 5e-4 and abs(first[1] - 0.268) < 5e-4
assert abs((first - first.max()).exp().sum() - 1.765) < 5e-4
assert abs(second[0] - 0.291) < 5e-4 and abs(second[1] - 0.581) < 5e-4
assert abs(torch.tensor(0.268 - 0.581).exp() - 0.731) < 5e-4
assert abs(torch.tensor(0.581 - 0.268).exp() - 1.368) < 1e-3

# %% after: see-factor


def one_pass(row, size, corrected):
    top, total, shares = torch.tensor(-torch.inf), torch.tensor(0.0), torch.empty(0)
    for piece in row.split(size):
        new_top = torch.maximum(top, piece.max())
        factor = (top - new_top).exp() if corrected else torch.tensor(1.0)
        shares = torch.cat([shares * factor, (piece - new_top).exp()])
        total, top = total * factor + (piece - new_top).exp().sum(), new_top
    return total, shares / total


for size in (1, 2, 3, 4, 6):
    assert torch.allclose(one_pass(row, size, True)[1], row.softmax(dim=-1))
    falling = row.sort(descending=True).values  # the largest score comes first
    assert torch.allclose(one_pass(falling, size, False)[1], falling.softmax(dim=-1))
    rising = row.sort().values
    assert size == 6 or not torch.allclose(
        one_pass(rising, size, False)[1], rising.softmax(dim=-1), atol=1e-3
    )

# %% after: mat-in-pieces
# after two pieces: attention over the first four words, which is what exercise 4 relies on
state_of_four = nothing_yet(x[5:], x)
for scores, values in zip(row[None, :4].split(2, dim=-1), x[:4].split(2), strict=True):
    state_of_four = add_piece(state_of_four, scores, values)
assert torch.allclose(state_of_four[2] / state_of_four[1], row[None, :4].softmax(dim=-1) @ x[:4])

# %% after: explore-pieces
from attnlab.explorers.pieces import CUTS, FACTORS, SCORES, VALUES

scores, values = torch.tensor([SCORES, VALUES], dtype=torch.float64)
of_torch = scores.softmax(dim=-1) @ values
for cut in CUTS:
    right, *others = (PiecesExplorer(cut=cut, factor=factor).result for factor in FACTORS)
    assert torch.allclose(right.output, of_torch)
    assert torch.allclose(right.terms[-1], scores.softmax(dim=-1))
    unnoticed = scores[:cut].max() == scores[cut:].max()
    assert unnoticed == (2 <= cut <= 5)
    assert all(torch.allclose(one.output, of_torch) == unnoticed for one in others)

# %% after: tiles  numbers: 128

# %% after: tiled
# the running sums of a long row, in half precision: a larger error than that of plain
torch.manual_seed(0)
coarse = [one.bfloat16() for one in (torch.randn(16, 64), *torch.randn(2, 16_384, 64))]
exact = plain(*(one.double() for one in coarse))


def off(function):
    return (function(*coarse).double() - exact).norm() / exact.norm()


assert off(tiled) > 3 * off(plain) and off(tiled_attention) < off(plain)

# %% after: memory-and-time
# counted here as recorded there by another tool
for name in ("plain", "by_rows", "tiled"):
    assert [one * MiB for one in in_mib[name]] == peaks[name].iloc[:4].tolist()
assert peaks.fused[2048] > torch.empty(2048, 64).nbytes + 256 * 512 * 4  # with a tile inside
beyond = [one - n * 64 * 4 / MiB for one, n in zip(in_mib["tiled"], peaks.index[:4], strict=True)]
assert max(beyond) == min(beyond) and round(beyond[0], 2) == 0.28
assert 4 < beyond[0] * MiB / (128 * 128 * 4) < 5  # "only a few tensors as large as a tile"
assert [n * 64 * 4 / MiB for n in (512, 4096)] == [0.125, 1]
ours = peaks[["plain", "by_rows", "tiled"]]
assert ours.idxmin(axis=1).tolist() == ["by_rows"] + 4 * ["tiled"]
assert [round(peaks[f][4096] / MiB, 1) for f in drawn] == [129.0, 3.0, 1.3, 1.6]
# times
assert (times.tiled_attention.loc[4096:] - 4).abs().max() < 0.1  # "about 4 ns"
level = times.loc[2048:, drawn]
assert (level.max() / level.min() < 1.35).all()
assert (times[drawn].idxmin(axis=1) == "fused").all()
assert (times.tiled > 1.3 * times.by_rows).all()
assert times.plain.between(6, 10.5).all() and times.plain.iloc[0] < 7 < 9 < times.plain.iloc[-1]
assert round(times.tiled[4096], 1) == 7.5 and round(times.fused[4096], 1) == 3.2
assert times.tiled.between(7, 9.5).all() and times.fused.between(3, 3.8).all()
assert times.by_rows.between(3.7, 5.5).all()
assert (times.tiled_attention / times.tiled).loc[2048:].between(0.5, 0.6).all()

# %% after: tiled-causal
from torch.utils.flop_counter import FlopCounterMode

query, key, value = torch.randn(3, 2, 300, 16)
expected = F.scaled_dot_product_attention(query, key, value, is_causal=True)
assert torch.allclose(tiled_causal(query, key, value), expected, atol=1e-6)
computed = {}
for name, function in {"causal": tiled_causal, "all": tiled}.items():
    for n in (1024, 2048):
        with FlopCounterMode(display=False) as flops:
            function(*torch.randn(3, n, 64))
        computed[name, n] = flops.get_total_flops() // (4 * 128 * 128 * 64)
assert [computed["causal", n] for n in (1024, 2048)] == [36, 136]
assert sum(range(8)) == 28 and sum(range(8)) + 8 == computed["causal", 1024]
assert [computed["all", n] for n in (1024, 2048)] == [64, 256]
shares = [computed["causal", n] / computed["all", n] for n in (1024, 2048)]
assert round(shares[0], 2) == 0.56 and round(shares[1], 2) == 0.53 and shares[0] > shares[1] > 0.5

# %% after: mask-figure
left = {
    n: {name: tiles(mask).count_nonzero().item() for name, mask in masks(n).items()}
    for n in (1024, 2048, 4096)
}
assert [row["causal"] for row in left.values()] == [36, 136, 528]
assert [row["causal window"] for row in left.values()] == [21, 45, 93]  # a band
q = torch.randn(1024, 16)
skipping = tiled_attention(q, q, q, is_causal=True, window=256)
causal_output = F.scaled_dot_product_attention(q, q, q, is_causal=True)
assert not torch.allclose(skipping, causal_output, atol=0.1)  # another computation

# %% after: long-text  numbers: 64

# %% after: read-long-text
assert weight_bytes(16_384, 8) == 8 * GiB and heads.nbytes == 32 * MiB
assert abs(held.peak / MiB - 39) < 0.5 and held.peak < 64 * MiB

# %% after: the-answer
n, features = 16_384, 512
attention_flops, projection_flops = 4 * n**2 * features, 8 * n * features**2
assert attention_flops == 16 * projection_flops
in_a_row = n // 128
share_of_tiles = sum(range(1, in_a_row + 1)) / in_a_row**2
assert round(16 * share_of_tiles) == 8

# %% after: see-blocked
lowest = torch.finfo(torch.float32).min
assert torch.allclose(attend_in_pieces(row - 200, lowest), row.softmax(dim=-1) @ x, atol=1e-4)
nowhere = torch.full((6,), -torch.inf)
assert attend_in_pieces(nowhere, lowest).isnan().all()  # 0 / 0

# %% after: see-backward
forward, trains = (dict(zip(both, one, strict=True)) for one in zip(*both.values(), strict=True))
assert forward["plain"] == 8.25 and abs(forward["tiled"] - 0.5) < 0.05
assert abs(trains["plain"] - 12.25) < 0.05 and abs(trains["tiled_attention"] - 2.2) < 0.05
assert 0.85 < trains["tiled"] / trains["plain"] < 1.15 and 4 < trains["by_rows"] < 6
# what autograd keeps of all tiles: two whole tables, of scores and exponentials
kept, leaves = [], [torch.randn(1024, 64, requires_grad=True) for _ in range(3)]
with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda unused: None):
    tiled(*leaves)
tensors = {t.data_ptr(): t.nbytes for t in kept if t.shape[-2:] == (128, 128)}
assert sum(tensors.values()) >= 2 * weight_bytes(1024, 1)
# the gradients are correct
start = [torch.randn(200, 16, requires_grad=True) for _ in range(3)]
wanted = torch.autograd.grad(plain(*start).square().sum(), start)
for function in (by_rows, tiled):
    found = torch.autograd.grad(function(*start).square().sum(), start)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-5), function.__name__

# %% after: backward-by-tiles
# all three gradients, and the products: six with stored weights, seven with computed ones
from torch.utils.flop_counter import FlopCounterMode

query, key, value = (torch.randn(200, 16, requires_grad=True) for _ in range(3))
gradient = torch.randn(200, 16)
with FlopCounterMode(display=False) as with_stored:
    result = plain(query, key, value)
    result.backward(gradient)
with torch.no_grad(), FlopCounterMode(display=False) as again:
    numbers = (query @ key.T / 4 - (query @ key.T / 4).logsumexp(dim=-1, keepdim=True)).exp()
    d_value = numbers.T @ gradient
    slopes = numbers * (gradient @ value.T - (gradient * result).sum(dim=-1, keepdim=True))
    d_query, d_key = slopes @ key / 4, slopes.T @ query / 4
for one, tensor in ((d_query, query), (d_key, key), (d_value, value)):
    assert torch.allclose(one, tensor.grad, atol=1e-5)
product = 2 * 200 * 200 * 16
assert with_stored.get_total_flops() == (2 + 4) * product
assert again.get_total_flops() - product == 5 * product  # the level above is kept, not computed

# %% after: exercise-1  numbers: 16, 3, 4096

# %% after: exercise-2  numbers: 1

# %% after: in-torch
from torch.nn import MultiheadAttention
from torch.profiler import ProfilerActivity, profile

recorded = {}  # the largest piece of memory that is taken at once; the fast path hides it in one call
for batch_first, need_weights in ((True, False), (False, False), (True, True)):
    layer = MultiheadAttention(16, 2, batch_first=batch_first).eval()
    text = torch.randn(1, 512, 16) if batch_first else torch.randn(512, 1, 16)
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        layer(text, text, text, need_weights=need_weights)
    events = record.profiler.kineto_results.events()
    taken = max(e.nbytes() for e in events if e.name() == "[memory]")
    recorded[batch_first, need_weights] = taken
stored = weight_bytes(512, 2)
assert recorded[True, True] == recorded[True, False] == stored > 1.5 * recorded[False, False]

# %% after: sources  numbers: 2018, 2021, 2022, 2023, 2019

# %% after: teacher-plan  numbers: 45, 12, 8, 6, 9, 4, 1, 2, 4096

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 9, 27, 200, 768, 1536, 256, 257, 1024
