# %% after: opening  numbers: 16384

# %% after: weight-bytes
# the numbers of the opening
assert weight_bytes(16_384, 8) == 8 * GiB
one = torch.empty(8, 16_384, 64, device="meta").nbytes  # queries, keys, values or outputs
assert (3 * one, one) == (96 * MiB, 32 * MiB)

# %% after: ask-weights  numbers: 32, 1024, 256, 64, 8, 1

# %% after: see-weights
assert 16_384 == 32 * 512 and weight_bytes(16_384, 8) == 1024 * weight_bytes(512, 8) == 8 * GiB
assert weight_bytes(2 * 512, 8) == 4 * weight_bytes(512, 8) == weight_bytes(2 * 512, 32) / 4
assert 32 * 8 * MiB == 256 * MiB and weight_bytes(16_384, 1) == GiB

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

# %% after: formula  numbers: 4, 2

# %% after: peak-of-plain
for length in (512, 1000, 2048):  # two tables and the output
    some = random_inputs(length)
    assert peak(plain, *some) * MiB == 2 * weight_bytes(length, 1) + length * 64 * 4
assert weight_bytes(2048, 1) == 16 * MiB

# %% after: rows  numbers: 64

# %% after: by-rows
some = torch.randn(3, 2, 3, 300, 16, generator=torch.Generator().manual_seed(0))
for size in (1, 7, 64, 300, 1000):
    assert torch.allclose(by_rows(*some, size=size), plain(*some), atol=1e-6)
assert peak(by_rows, *inputs) < peak(plain, *inputs) / 20
halved = [part[..., :1024, :] for part in inputs]
assert 0.49 < peak(by_rows, *halved) / peak(by_rows, *inputs) < 0.52  # grows with the length

# %% after: slow-and-fast
from attnlab import data_path

timed = pd.read_csv(data_path("cost_of_attention.csv")).set_index("function").ns_per_weight
assert timed["by_rows"] < 0.6 * timed["plain"]

# %% after: gpu  numbers: 40.3, 41.7, 4.4, 7.3, 64, 1024, 1.5, 312

# %% after: a100
assert 9 < (40.3 / 1.5) / (6 * product / 312e9) < 11  # ten times as long
from torch.utils.flop_counter import FlopCounterMode

leaves = torch.randn(3, 128, 16, requires_grad=True)
with FlopCounterMode(display=False) as counter:
    plain(*leaves).sum().backward()
assert counter.get_total_flops() == 6 * 2 * 128 * 128 * 16
moved, fused = 40.3 / 1.5, 4.4 / 1.5  # ms
assert 0.6 < moved / 41.7 < 0.7 and (moved - fused) / (41.7 - 7.3) > 0.65

# %% after: one-row  numbers: 41.7, 192, 16384, 32
a_row = torch.empty(16_384, device="meta").nbytes
assert a_row // 2 == 32 * 1024 and 3 * a_row == 192 * 1024

# %% after: two-passes
assert torch.tensor(100.0).exp().isinf()  # without a top, soon too large for float32
first, second, _ = row.split(2)
assert abs(first[0]) < 5e-4 and abs(first[1] - 0.268) < 5e-4
assert abs((first - first.max()).exp().sum() - 1.765) < 5e-4
assert abs(second[0] - 0.291) < 5e-4 and abs(second[1] - 0.581) < 5e-4
assert abs(torch.tensor(0.268 - 0.581).exp() - 0.731) < 5e-4
assert abs(torch.tensor(0.581 - 0.268).exp() - 1.368) < 1e-3

# %% after: see-factor
assert top == row.max() and torch.allclose(total, (row - row.max()).exp().sum())


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
state_of_four = empty_state(x[5:], x)
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
    # in a loop like add_piece, a forgotten factor is noticed only where the top rises
    rises = scores[:cut].max() < scores[cut:].max()
    first, second = scores[:cut], scores[cut:]
    top = torch.maximum(first.max(), second.max())
    terms = torch.cat([(first - first.max()).exp(), (second - top).exp()])
    assert rises == (cut == 1)
    assert torch.allclose(terms / terms.sum(), scores.softmax(dim=-1)) != rises
wrong = PiecesExplorer(cut=1, factor="forgotten").result
assert abs(wrong.terms[-1, 0] - 0.26) < 5e-3 and abs(scores.softmax(dim=-1)[0] - 0.04) < 5e-3

# %% after: tiles  numbers: 128

# %% after: tiled
# the running sums of a long row, in half precision: a larger error than that of plain
torch.manual_seed(0)
coarse = [one.bfloat16() for one in (torch.randn(16, 64), *torch.randn(2, 16_384, 64))]
exact = plain(*(one.double() for one in coarse))


def off(function):
    return (function(*coarse).double() - exact).norm() / exact.norm()


assert off(tiled) > 3 * off(plain) and off(tiled_attention) < off(plain)
from torch.utils.flop_counter import FlopCounterMode

query, key, value = (torch.randn(2, 300, 16) for _ in range(3))
expected = F.scaled_dot_product_attention(query, key, value, is_causal=True)
assert torch.allclose(tiled(query, key, value, is_causal=True), expected, atol=1e-6)
computed = {}
for name, is_causal in {"causal": True, "all": False}.items():
    for n in (1024, 2048):
        with FlopCounterMode(display=False) as flops:
            tiled(*torch.randn(3, n, 64), is_causal=is_causal)
        computed[name, n] = flops.get_total_flops() // (4 * 128 * 128 * 64)
assert [computed["causal", n] for n in (1024, 2048)] == [36, 136]
assert sum(range(8)) == 28 and sum(range(8)) + 8 == computed["causal", 1024]
assert [computed["all", n] for n in (1024, 2048)] == [64, 256]
shares = [computed["causal", n] / computed["all", n] for n in (1024, 2048)]
assert round(shares[0], 2) == 0.56 and round(shares[1], 2) == 0.53 and shares[0] > shares[1] > 0.5

# %% after: peaks
assert [names[i].split()[0] for i in torch.tensor(peaks[:3]).argmin(dim=0)] == ["by_rows"] + 3 * [
    "tiled"
]
beyond = [held - n * 64 * 4 / MiB for held, n in zip(peaks[2], lengths, strict=True)]
assert max(beyond) == min(beyond) and 1024 * 64 * 4 == MiB / 4
assert 4 < beyond[0] * MiB / (128 * 128 * 4) < 6  # "only a few tensors as large as a tile"
assert peaks[3][0] > peaks[0][0] and peaks[3][3] < peaks[0][3] / 20

# %% after: tile-sizes
sizes_of = of_tiles.ns_per_weight.tolist()
assert sizes_of[:4] == sorted(sizes_of[:4], reverse=True)  # from 32 to 256 ever less
assert sizes_of[2] > 1.2 * sizes_of[4] and sizes_of[0] > 4 * sizes_of[4]
assert min(sizes_of) == sizes_of[4] and sizes_of[3] < min(sizes_of[:3] + sizes_of[5:])
took = recorded.ns_per_weight
assert 0.8 < sizes_of[2] / took["plain"] < 1 and 0.95 < sizes_of[4] / took["by_rows"] < 1.05
assert 0.6 < took["scaled_dot_product_attention"] / took["by_rows"] < 0.7
fused = took["scaled_dot_product_attention"]
assert fused < min(*sizes_of, took["by_rows"]) and took["by_rows"] < took["plain"]
assert took["tiled_attention"] < sizes_of[2]  # "faster than our loop"

# %% after: time  numbers: 0.25, 1024, 512, 128

# %% after: masks  numbers: 28, 8, 36, 64, 512, 128, 1024
# more than a dozen torch functions for each tile
from torch.utils._python_dispatch import TorchDispatchMode


class Calls(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += 1
        return operation(*args, **(kwargs or {}))


counts = []
for length in (512, 1024):
    with Calls() as called:
        tiled(*torch.randn(3, length, 64))
    counts.append(called.count)
assert 12 < (counts[1] - 2 * counts[0]) / (64 - 2 * 16) < 30

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
assert weight_bytes(16_384, 8) == 8 * GiB and long[0].nbytes == 32 * MiB
assert abs(held - 39) < 0.5 and held < 64

# %% after: the-answer
n, features = 16_384, 512
attention_flops, projection_flops = 4 * n**2 * features, 8 * n * features**2
assert attention_flops == 16 * projection_flops
in_a_row = n // 128
share_of_tiles = sum(range(1, in_a_row + 1)) / in_a_row**2
assert round(16 * share_of_tiles) == 8

# %% after: explore-cost
for count, below, above in ((8, 128, 256), (1, 1024, 2048)):
    less, more = (CostExplorer(n=n, heads=count).result for n in (below, above))
    assert less.weight_bytes < less.qkv_bytes and more.weight_bytes > more.qkv_bytes
    crossing = 3 * 512 // count
    assert count * crossing**2 == 3 * crossing * 512 and crossing in (192, 1536)

# %% after: further-pages  numbers: 192, 1536, 4

# %% after: page-faults
assert 4096**2 * 4 == 64 * MiB == 16_384 * 4096  # bytes: two tables of so many pages
of_both = [new_pages(function, *longer) for function in (plain, by_rows)]
assert of_both[0] > 10 * of_both[1]
assert torch.allclose(reusing(*longer), plain(*longer), atol=1e-6)
# measured on one core, in ns for each weight: plain 6.6, reusing 3.5, by_rows 3.1
import time


def shortest(function, runs=5):
    times = []
    for _ in range(runs):
        start = time.process_time()
        function(*longer)
        times.append(time.process_time() - start)
    return min(times)


assert shortest(reusing) < 0.8 * shortest(plain)

# %% after: see-blocked
lowest = torch.finfo(torch.float32).min
assert torch.allclose(attend_in_pieces(row - 200, lowest), row.softmax(dim=-1) @ x, atol=1e-4)
nowhere = torch.full((6,), -torch.inf)
assert attend_in_pieces(nowhere, lowest).isnan().all()  # 0 / 0

# %% after: see-backward
forward, trains = (dict(zip(names, column, strict=True)) for column in zip(*both, strict=True))
assert forward["plain"] == 8.25 and abs(forward["tiled"] - 0.53) < 0.005
assert abs(trains["plain"] - 12.5) < 0.05 and abs(trains["tiled_attention"] - 2.2) < 0.05
assert 0.85 < trains["tiled"] / trains["plain"] < 1.15 and 4 < trains["by_rows"] < 6
# what autograd keeps of all tiles: two whole tables, of scores and exponentials
kept, leaves = [], [torch.randn(1024, 64, requires_grad=True) for _ in range(3)]
with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda unused: None):
    tiled(*leaves)
tensors = {t.data_ptr(): t.nbytes for t in kept if t.shape[-2:] == (128, 128)}
assert sum(tensors.values()) >= 2 * weight_bytes(1024, 1)
assert 0.4 < trains["by_rows"] / trains["plain"] < 0.6
kept.clear()
with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda unused: None):
    by_rows(*leaves)
tensors = {t.data_ptr(): t.nbytes for t in kept if t.shape == (64, 1024) and t.is_contiguous()}
assert sum(tensors.values()) == weight_bytes(1024, 1)  # the weights, one table
# the gradients are correct
start = [torch.randn(200, 16, requires_grad=True) for _ in range(3)]
wanted = torch.autograd.grad(plain(*start).square().sum(), start)
for function in (by_rows, tiled):
    found = torch.autograd.grad(function(*start).square().sum(), start)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-5), function.__name__

# %% after: further-recompute
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

# %% after: sources  numbers: 2018, 2021, 2022, 2023, 312, 66.6, 75.2, 64
assert 6 * product > 800e9 > 75.2e9

# %% after: teacher-plan  numbers: 50, 11, 6, 16, 7, 3, 1, 2

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 9, 27, 200, 768, 1536, 256, 257, 1024
