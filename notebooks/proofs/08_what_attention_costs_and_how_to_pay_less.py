# %% after: opening  numbers: 16384

# %% after: ask-weights  numbers: 32, 1024, 256, 64, 8, 1, 512, 16384

# %% after: see-weights
MiB = 2**20
GiB = 1024 * MiB
assert 16_384 == 32 * 512 and weight_bytes(16_384, 8) == 1024 * weight_bytes(512, 8) == 8 * GiB
assert weight_bytes(512, 8) == 8 * MiB
assert weight_bytes(2 * 512, 8) == 4 * weight_bytes(512, 8) == weight_bytes(2 * 512, 32) / 4
assert 32 * 8 * MiB == 256 * MiB and weight_bytes(16_384, 1) == GiB
# the numbers of the opening
one = torch.empty(8, 16_384, 64, device="meta").nbytes  # queries, keys, values or outputs
assert (3 * one, one) == (96 * MiB, 32 * MiB)

# %% after: plain
MiB = 2**20
for length in (512, 1000, 2048):  # two tables and the output
    some = [torch.randn(1, 1, length, 64) for _ in range(3)]
    assert peak(plain, *some) * MiB == 2 * length**2 * 4 + length * 64 * 4
assert 2048**2 * 4 == 16 * MiB and 2048 * 64 * 4 == MiB / 2

# %% after: rows  numbers: 64

# %% after: by-rows
some = torch.randn(3, 2, 3, 300, 16, generator=torch.Generator().manual_seed(0))
for size in (1, 7, 64, 300, 1000):
    assert torch.allclose(by_rows(*some, size=size), plain(*some), atol=1e-6)
assert peak(by_rows, *inputs) < peak(plain, *inputs) / 20
halved = [part[..., :1024, :] for part in inputs]
assert 0.49 < peak(by_rows, *halved) / peak(by_rows, *inputs) < 0.52  # grows with the length

# %% after: gpu  numbers: 40.3, 41.7, 4.4, 7.3, 64, 16, 1024, 1.5, 192, 16384, 128
table = torch.empty(64, 16, 1024, 1024, dtype=torch.bfloat16, device="meta").nbytes / 1e9
assert (round(table, 1), round(4 * table, 1), round(40.3 / 1.5)) == (2.1, 8.6, 27)
assert 16_384 / 128 == 128
a_row = torch.empty(16_384, device="meta").nbytes
assert a_row == 64 * 1024 and 3 * a_row == 192 * 1024 and -(-16_384 // 3) == 5462
# the numbers of the question
x = load_table("the_cat_sat_on_the_mat.csv").values
first, second, _ = (x[5] @ x.T / 5**0.5).split(2)
assert torch.tensor(100.0).exp().isinf()  # without a top, soon too large for float32
assert abs(first[0]) < 5e-4 and abs(first[1] - 0.268) < 5e-4
assert abs((first - first.max()).exp().sum() - 1.765) < 5e-4
assert abs(second[0] - 0.291) < 5e-4 and abs(second[1] - 0.581) < 5e-4
assert abs(torch.tensor(0.268 - 0.581).exp() - 0.731) < 5e-4
assert abs(torch.tensor(0.581 - 0.268).exp() - 1.368) < 1e-3
assert abs(first[1] / second[1] - 0.462) < 5e-4

# %% after: see-factor
assert abs(same_terms - 1.290) < 5e-4
assert torch.allclose(same_terms / old_total, (first.max() - second.max()).exp())


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
wrong = PiecesExplorer(cut=1, factor="forgotten").result
assert abs(wrong.terms[-1, 0] - 0.26) < 5e-3 and abs(scores.softmax(dim=-1)[0] - 0.04) < 5e-3

# %% after: tiles  numbers: 3

# %% after: add-piece
# after two pieces: attention over the first four words, which is what exercise 4 relies on
state_of_four = empty_state(x[5:], x)
for scores, values in zip(row[None, :4].split(2, dim=-1), x[:4].split(2), strict=True):
    state_of_four = add_piece(state_of_four, scores, values)
assert torch.allclose(state_of_four[2] / state_of_four[1], row[None, :4].softmax(dim=-1) @ x[:4])


# a first piece in which everything is blocked
def attend_in_pieces(row, first_top):
    state = torch.tensor([[first_top]]), torch.zeros(1, 1), torch.zeros(1, 5)
    for piece, values in zip(row[None].split(2, dim=-1), x.split(2), strict=True):
        state = add_piece(state, piece, values)
    return state[2] / state[1]


lowest = torch.finfo(torch.float32).min
blocked = row.masked_fill(torch.arange(6) < 2, -torch.inf)
assert attend_in_pieces(blocked, -torch.inf).isnan().all()
assert torch.allclose(attend_in_pieces(blocked, lowest), blocked.softmax(dim=-1) @ x)
assert torch.allclose(attend_in_pieces(row - 200, lowest), row.softmax(dim=-1) @ x, atol=1e-4)

# %% after: tiles-told  numbers: 256

# %% after: tiled
assert torch.allclose(tiled(*inputs), plain(*inputs), atol=1e-6)
from torch.utils.flop_counter import FlopCounterMode

for shape in ((2, 300, 16), (1, 1024, 64), (8, 700, 128)):
    some = [torch.randn(shape, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    wanted = F.scaled_dot_product_attention(*some)
    for size in (32, 100, 256, 2000):
        assert torch.allclose(tiled(*some, size=size), wanted, atol=1e-5)
for n in (1024, 2048):
    with FlopCounterMode(display=False) as flops:
        tiled(*torch.randn(3, n, 64))
    assert flops.get_total_flops() == 4 * n * n * 64  # every cell of the table, once

# in float32, tiles are no farther from the result in double precision than the whole table
for seed in range(5):
    generator = torch.Generator().manual_seed(seed)
    for n, features in ((256, 64), (1024, 64), (2048, 128)):
        some = torch.randn(3, n, features, generator=generator)
        wanted = plain(*some.double())
        off = [(f(*some).double() - wanted).abs().mean() for f in (plain, tiled)]
        assert off[1] < 1.3 * off[0] < 1e-6

# %% after: long-text  numbers: 64

# %% after: long
MEBI = 2**20
held = pd.DataFrame(memory, ["plain", "by_rows", "tiled"])
held.columns = [1024, 4096, 16_384]
assert abs(held.loc["plain", 16_384] / 1024 - 16) < 0.05 and round(held.loc["tiled", 16_384]) == 40
assert 8 * 16_384**2 * 4 == 8192 * MEBI  # the weights
for n, output_size in zip(held, (2, 8, 32), strict=True):
    assert 8 * n * 64 * 4 == output_size * MEBI
    for heads in (1, 8, 12):  # less than four tiles for each head
        extra = peak(tiled, *[torch.empty(1, heads, n, 64, device="meta")] * 3) * MEBI
        assert 3 < (extra / heads - n * 64 * 4) / (256 * 256 * 4) < 4
real = [torch.randn(1, 8, 1024, 64) for _ in range(3)]
for function in (plain, by_rows, tiled):  # the same as with memory
    assert peak(function, *real) == held.loc[function.__name__, 1024]
for few, many in ((1024, 4096), (4096, 16_384)):
    more = held[many] / held[few]
    assert 15 < more["plain"] < 16.5 and more["by_rows"] <= 4 and more["tiled"] <= 4

# %% after: seconds
seconds = measured.pivot(index="function", columns="tokens", values="seconds")
fused = seconds.loc["scaled_dot_product_attention"]
for n in (1024, 4096):
    assert fused[n] < seconds[n].drop(fused.name).min()
assert (seconds.loc[["by_rows", "tiled"], 4096] < 0.9 * seconds.loc["plain", 4096]).all()
longer = (seconds[16_384] / seconds[4096]).drop("plain")
assert longer.round().min() == 16

# %% after: the-answer  numbers: 16, 17, 4096, 16384, 31, 32

# %% after: see-flops
from attnlab import MultiHeadAttention

# torch counts the same while a layer runs, however many heads there are
for n, heads in ((128, 8), (1024, 8), (1024, 1), (16_384, 8)):
    layer = MultiHeadAttention(d, heads).to("meta")
    with FlopCounterMode(display=False) as counted_flops:
        layer(torch.empty(1, n, d, device="meta"))
    counts = counted_flops.get_flop_counts()["Global"]
    assert counts[torch.ops.aten.addmm] == 8 * n * d**2
    assert counts[torch.ops.aten.bmm] == 4 * n**2 * d
    assert quotients[n] == n / (2 * d)
assert [*quotients.values()] == [1 / 8, 0.5, 1, 4, 16]

# %% after: formula  numbers: 4, 2, 6, 128, 512
for d_model in (64, 512, 4096):  # scores and averages against the projections, and all the rest
    assert 8 * (2 * d_model) * d_model**2 == 4 * (2 * d_model) ** 2 * d_model
    assert (8 + 16) * (6 * d_model) * d_model**2 == 4 * (6 * d_model) ** 2 * d_model
assert 2 * (2 * d * 4 * d) == 16 * d**2  # two matrices, d by 4d, for each token

# %% after: explore-cost
for count, below, above in ((8, 128, 256), (1, 1024, 2048)):
    less, more = (CostExplorer(n=n, heads=count).result for n in (below, above))
    assert less.weight_bytes < less.qkv_bytes and more.weight_bytes > more.qkv_bytes
    crossing = 3 * 512 // count
    assert count * crossing**2 == 3 * crossing * 512 and crossing in (192, 1536)

# %% after: explore-cost-answer  numbers: 192, 1536

# %% after: see-backward
forward, trains = (dict(zip(names, column, strict=True)) for column in zip(*both, strict=True))
assert forward["plain"] == 8.25 and abs(forward["tiled"] - 1.2) < 0.05
assert abs(trains["plain"] - 12.5) < 0.05 and abs(trains["tiled_attention"] - 2.2) < 0.05
assert round(trains["tiled"]) == 10 and 0.8 < trains["tiled"] / trains["plain"] < 0.85
# what autograd keeps of all tiles: two whole tables, of scores and exponentials
kept, leaves = [], [torch.randn(1024, 64, requires_grad=True) for _ in range(3)]
with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda unused: None):
    tiled(*leaves)
tensors = {t.data_ptr(): t.nbytes for t in kept if t.shape[-2:] == (256, 256)}
assert sum(tensors.values()) >= 2 * 1024**2 * 4
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

# %% after: exercise-2  numbers: 1, 1024

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

# %% after: sources  numbers: 2018, 2021, 2022, 2023

# %% after: teacher-plan  numbers: 44, 10, 4, 5, 18, 2, 4096

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 9, 27, 64, 128, 256, 257, 1024
