# %% after: opening  numbers: 92

# %% after: ask-where  numbers: 8

# %% after: train
# ten starts would be too long here: data/peeking_at_coins.csv holds those of 24
assert abs(right.float().mean() - 11 / 12) < 0.005

# %% after: by-place
share = right.float().mean(dim=(0, 2))
assert (share[:5] == 1).all() and abs(share[5] - 0.5) < 0.02

# %% after: influence
map_of_suspect = maps.mean(dim=0)
for guess in range(5):  # the answer is the darkest cell of its row by far
    row = map_of_suspect[guess]
    assert row.argmax() == guess + 1 and row[guess + 1] > 5 * row.sort().values[-2]
assert 10 < map_of_suspect[:5].max() < 13
largest = set()  # the last row is chance: its largest cell moves from start to start
for seed in range(4):
    torch.manual_seed(seed)
    other = train(fair)
    rows_ = [influence_map(other, row)[5] for row in new[:20, :-1]]
    largest.add(torch.stack(rows_).mean(dim=0).argmax().item())
assert len(largest) > 1

# it is attnlab's, and exactly 0 where a mask blocks, whatever the width, the type and the code
from attnlab import influence_map as of_attnlab

close = {"rtol": 1e-4, "atol": 1e-5}
assert torch.allclose(of_attnlab(suspect, new[0, :-1]).float(), maps[0], **close)
lower = torch.ones(6, 6).tril().bool()


def by_hand(z, fill=-torch.inf):
    drawn = (z @ z.mT / z.shape[-1] ** 0.5).masked_fill(~lower, fill)
    return drawn.softmax(dim=-1) @ z


def added(z):
    blocked = torch.zeros(6, 6, dtype=z.dtype).masked_fill(~lower, -torch.inf)
    return (z @ z.mT / z.shape[-1] ** 0.5 + blocked).softmax(dim=-1) @ z


def erased_after(z):
    return (z @ z.mT / z.shape[-1] ** 0.5).softmax(dim=-1) * lower @ z


def along_one_direction(attend, z):  # as the map, with one derivative for each output
    z = z.clone().requires_grad_()
    output = attend(z)
    way = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(z.dtype)
    rows = [
        torch.autograd.grad((one * w).sum(), z, retain_graph=True)[0]
        for one, w in zip(output, way, strict=True)
    ]
    return torch.stack([row.double().norm(dim=-1) for row in rows])


for width in (5, 64, 1024, 4096):
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(6, width, generator=generator, dtype=torch.float64)
        for z in (drawn, drawn.float(), drawn.bfloat16()):
            correct = (
                lambda z: F.scaled_dot_product_attention(z, z, z, is_causal=True),
                lambda z: F.scaled_dot_product_attention(z, z, z, attn_mask=lower),
                *(by_hand, added, lambda z: by_hand(z, -1e9)),
            )
            leaky = (
                lambda z: F.scaled_dot_product_attention(z, z, z),
                *(erased_after, lambda z: by_hand(z, 0.0)),
            )
            for attend_ in correct:
                assert torch.equal(along_one_direction(attend_, z) != 0, lower)
            for attend_ in leaky:
                assert (along_one_direction(attend_, z)[~lower] != 0).all()

# %% after: two-rows
without, with_mask = scores.softmax(dim=-1)[1], masked.softmax(dim=-1)[1]
assert abs(without[2:].sum() - 0.55) < 0.005
assert torch.allclose(with_mask[:2] / without[:2], 1 / without[:2].sum())
assert (masked.softmax(dim=-1)[~may_attend] == 0).all()

# %% after: four-trainings
import csv
import math

from attnlab import data_path

assert abs(math.log(2) - 0.69) < 0.005
for seed in range(5):  # it is not the short rows: six tosses, later ones drawn anew, are no better
    torch.manual_seed(seed)
    sighted, new_rows = train(sticky), sticky(4_000)
    drawn_anew = []
    for t in range(1, 7):
        earlier = torch.cat([new_rows[:, :t], fair(4_000)[:, t:6]], dim=1)
        drawn_anew.append(sighted(earlier)[:, t - 1])
    drawn_anew = torch.stack(drawn_anew, dim=1)
    loss_anew = F.binary_cross_entropy_with_logits(drawn_anew, new_rows[:, 1:])
    assert loss_anew > 2 * math.log(2)  # 2.4 to 2.5
assert abs(-0.8 * math.log(0.8) - 0.2 * math.log(0.2) - 0.50) < 0.001
with data_path("peeking_at_coins.csv").open(newline="", encoding="utf-8") as file:
    starts = {}
    for row in csv.DictReader(file):
        starts.setdefault((row["coin"], row["causal"] == "1"), []).append(
            [
                float(row[n])
                for n in ("loss_in_sight", "right_in_sight", "loss_in_use", "right_in_use")
            ]
        )
for coin, best in (("fair", math.log(2)), ("sticky", 0.5004)):
    peeking, masked_ones = (torch.tensor(starts[coin, causal]) for causal in (False, True))
    assert len(peeking) == len(masked_ones) == 24
    assert (peeking[:, 0] < best / 3).all() and (peeking[:, 2] > 2 * math.log(2)).all()
    assert ((masked_ones[:, [0, 2]] - best).abs() < 0.007).all()
    assert torch.equal(masked_ones[:, 0], masked_ones[:, 2])
assert (torch.tensor(starts["sticky", True])[:, 3] > 0.79).all()
assert (torch.tensor(starts["sticky", False])[:, 3] < 0.76).all()
# one pass gives the guesses of six: with the mask, up to rounding, and not without it
for name, model in models.items():
    tosses_ = sticky(1000)[:, :-1]
    apart = (model(tosses_) - in_use(model, tosses_)).abs().max()
    assert apart < 1e-5 if "causal" in name else apart > 1

# %% after: stripe
map_of_honest = torch.stack(
    [influence_map(models["sticky coin, causal mask"], row) for row in rows_of_sticky]
).mean(dim=0)
assert torch.equal(map_of_honest != 0, may_attend)
assert torch.equal(map_of_honest.argmax(dim=-1), torch.arange(6))

# %% after: see-zeros
lost = (batch[1] @ batch[1].T / 5**0.5).masked_fill(~may_attend, -torch.inf).softmax(dim=-1)[5, :3]
assert abs(lost.sum() - 0.28) < 0.005 and abs(1 - lost.sum() - 0.72) < 0.005
assert torch.allclose(behind_pad, (1 - lost.sum()) * alone)

# %% after: both-masks
assert torch.allclose(first[1, 3:], attend_masked(short, may_attend[:3, :3]), atol=1e-6)
assert first[1, :3].isnan().all() and torch.allclose(first[0], attend_masked(x, may_attend))

# %% after: second-layer
second = attend_masked(first, both)
assert second[1].isnan().all() and not second[0].isnan().any()

# %% after: explore-masks
rules = ("-inf", "-1e9", "0", "0 after", "divide again", "-inf and 0")
words = [3, 4, 5]
given = {rule: MaskExplorer(fill=rule).result for rule in rules}
correct = attend_masked(short, may_attend[:3, :3])
hidden = ~given["-inf"].mask & ~torch.eye(6).bool()
for rule in ("-inf", "-1e9", "divide again", "-inf and 0"):
    drawn = given[rule].weights[3:] @ batch[1].nan_to_num().double()
    assert torch.allclose(drawn.float(), correct, atol=1e-6)
for rule in ("-inf", "divide again"):
    assert given[rule].weights[:3].isnan().all() and given[rule].influence.isnan().all()
for rule in ("-1e9", "0"):
    assert torch.allclose(given[rule].weights[:3], torch.full((3, 6), 1 / 6).double())
for rule in ("0 after", "-inf and 0"):
    assert (given[rule].weights[:3] == 0).all()
assert (given["0 after"].weights[~given["0 after"].mask] == 0).all()
assert (given["0 after"].weights[3:].sum(dim=-1) < 0.8).all()
assert (given["0 after"].influence[3:][hidden[3:]] > 0.01).all()
assert (given["0"].weights[3:][~given["0"].mask[3:]] > 0.05).all()
# with padding there is NaN under both masks, and without it nowhere
for pads in range(6):
    assert bool(MaskExplorer(padding=pads).result.weights.isnan().any()) == (pads > 0)
# without NaN or orange at every padding: the last rule alone
for rule in rules:
    clean = []
    for pads in range(6):
        found = MaskExplorer(fill=rule, padding=pads).result
        seen = found.influence.isnan() | (found.influence > 1e-6)
        clean.append(not (seen & ~found.mask & ~torch.eye(6).bool()).any())
    assert all(clean) == (rule == "-inf and 0")


# %% after: rules  numbers: -1e9, 0, 1, 3
def train_once(width, seed, weight=None):  # one step with a matrix for each of three roles
    generator = torch.Generator().manual_seed(seed)
    roles = [torch.randn(width, width, generator=generator) / width**0.5 for _ in range(3)]
    padded = torch.cat([torch.zeros(3, width), torch.randn(3, width, generator=generator)])
    roles = [role.requires_grad_() for role in roles]
    query, key, value = (padded @ role for role in roles)
    weights = (query @ key.mT / width**0.5).masked_fill(~both[1], -torch.inf).softmax(dim=-1)
    output = (weights if weight is None else weights.masked_fill(~both[1], weight)) @ value
    output[3:].square().mean().backward()
    return output, [role.grad for role in roles]


for width in (5, 64, 768):
    for seed in range(5):
        spoilt, spoilt_gradients = train_once(width, seed)  # the gradient of the values alone is
        nan = [gradient.isnan().float().mean() for gradient in spoilt_gradients]
        assert spoilt[3:].isfinite().all() and nan == [0, 0, 1]
        output, gradients = train_once(width, seed, weight=0.0)
        assert output.isfinite().all() and all(g.isfinite().all() for g in gradients)
        assert torch.allclose(output[3:], spoilt[3:])

# %% after: three-calls
for seed in range(10):  # the layer is drawn at random
    torch.manual_seed(seed)
    drawn_layer = torch.nn.MultiheadAttention(5, num_heads=1)
    seen = influence_map(lambda x, a=drawn_layer: a(x, x, x, attn_mask=~may_attend)[0], x) != 0
    assert torch.equal(seen, may_attend)
upper = influence_map(calls["function, ~may_attend"], x) != 0
assert torch.equal(upper.triu(1), torch.ones(6, 6).triu(1).bool()) and not upper.tril(-1).any()
assert (influence_map(calls["function, 1.0 and 0.0"], x) != 0).all()

# %% after: draw-the-map  numbers: 0, 1

# %% after: blind-table
for right_mask in (True, False):
    for width in (64, 256, 768, 1024, 4096):
        for seed in range(5):
            generator = torch.Generator().manual_seed(seed)
            drawn = torch.randn(10, 6, width, generator=generator, dtype=torch.float64)
            for z in drawn:
                found = derivative(
                    lambda z, m=right_mask: F.scaled_dot_product_attention(z, z, z, is_causal=m), z
                )
                assert found != right_mask
# a leak behind detach stays unseen
assert not derivative(lambda z: attend_masked(z, may_attend) + z.detach().mean(dim=0), drawn[0])
own = (draws * draws).sum(dim=-1) / 4096**0.5
assert abs(own.mean() - 64) < 1

# %% after: blind-read  numbers: 0, 1,024, 32, 16
for dtype, gap in ((torch.float64, 746), (torch.float32, 104)):
    for far, zero in ((gap, True), (gap - 2, False)):
        weight = torch.tensor([0.0, far], dtype=dtype).softmax(dim=0)[0]
        assert (weight == 0) == zero
assert 1024 / 1024**0.5 == 32


def causal(x):
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


for width in (64, 256, 768, 1024):
    for seed in range(5):
        torch.manual_seed(seed)
        draws = torch.randn(10, 6, width)
        assert all(replace_last(no_mask, 0.3 * z, 1e-5) for z in draws)
        assert not any(replace_last(causal, 0.3 * z, 1e-5) for z in draws)
for width in (64, 256, 768, 1024, 4096):  # small tokens hide nothing from the derivative
    for seed in range(5):
        z = torch.randn(6, width, generator=torch.Generator().manual_seed(seed)).double()
        for size in (0.3, 0.01):
            assert derivative(no_mask, size * z) and not derivative(causal, size * z)

# %% after: half  numbers: 65504, -1e9, 16
assert torch.finfo(torch.float16).max == 65504

# %% after: half-silent
broad = torch.zeros(6, 6, dtype=torch.bfloat16).masked_fill(~both[1], -1e9)
assert broad.isfinite().all()
assert torch.allclose(broad.softmax(dim=-1)[0], torch.full((6,), 1 / 6, dtype=torch.bfloat16))

# %% after: half-reading  numbers: -1e9

# %% after: half-why  numbers: -1e9, 16

# %% after: remember  numbers: 0, 1

# %% after: causal-test-solution
causal_but_self = torch.ones(6, 6).tril().bool()
causal_but_self[3, 3] = causal_but_self[5, 5] = False
drawn = torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
assert (
    causal_test_solution(lambda z: attend_masked(z, causal_but_self), drawn) == "correct"
)  # invisible

# %% after: safe-softmax-solution
s = torch.zeros(2, 3, requires_grad=True)
allowed = torch.tensor([[False, False, False], [True, True, False]])
safe_softmax_solution(s, allowed)[1, 0].backward()
assert s.grad.isfinite().all()
drawn_by = MaskExplorer(function=safe_softmax_solution)
assert "no blocked cell has any weight or influence" in drawn_by.say()

# %% after: exercise-3  numbers: 0, 1, 2, 3

# %% after: mended-solution
import pytest

two = torch.rand(2, 3, 6, 5)  # sentences, heads, L, E
hugging_face = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
with pytest.raises(RuntimeError, match=r"at non-singleton dimension 1|must match the size"):
    broken(two, two, two, hugging_face)
assert broken(two[:, :2], two[:, :2], two[:, :2], hugging_face).shape == (2, 2, 6, 5)

# %% after: exercise-4  numbers: 0, 104
for dtype, near in ((torch.float32, 1e-6), (torch.float64, 1e-14)):
    for seed in range(20):  # ordinary scores: the same up to rounding
        generator = torch.Generator().manual_seed(seed)
        drawn = 3 * torch.randn(16, 16, generator=generator, dtype=dtype)
        opened = (torch.rand(16, 16, generator=generator) < 0.5) | torch.eye(16).bool()
        kept = drawn.softmax(dim=-1) * opened
        again = kept / kept.sum(dim=-1, keepdim=True)
        wanted = drawn.masked_fill(~opened, -torch.inf).softmax(dim=-1)
        assert (again - wanted).abs().max() < near
for far, nan in ((104, True), (102, False)):
    kept = torch.tensor([0.0, far]).softmax(dim=0) * torch.tensor([1.0, 0.0])
    assert (kept / kept.sum()).isnan().any() == nan
    assert torch.tensor([0.0, -torch.inf]).softmax(dim=0).isfinite().all()

# %% after: in-torch-table  numbers: 0, 1
import pytest

# attn_mask and is_causal together: an error, or both at once
wide = torch.ones(6, 6).triu(-1).bool()
with pytest.raises(RuntimeError, match="is_causal"):
    F.scaled_dot_product_attention(x, x, x, attn_mask=wide, is_causal=True)
z = x[None, None]
at_once = F.scaled_dot_product_attention(z, z, z, attn_mask=wide, is_causal=True)
assert torch.allclose(at_once[0, 0], attend_masked(x, wide & may_attend), atol=1e-6)
# PyTorch's own function returns 0 for an empty row, on the CPU
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    for shape in ((4, 5), (6, 5), (2, 3, 64, 8), (1, 1, 512, 16)):
        z = torch.rand(shape, dtype=dtype)
        looks = torch.ones(shape[-2], shape[-2]).tril().bool()
        looks[:, :2] = False
        for keep in (looks, torch.zeros(looks.shape, dtype=dtype).masked_fill(~looks, -torch.inf)):
            empty_first = F.scaled_dot_product_attention(z, z, z, attn_mask=keep)
            assert (empty_first[..., :2, :] == 0).all() and empty_first.isfinite().all()
# in the layer, is_causal makes no mask, and it may replace another one
other_layer, z = torch.nn.MultiheadAttention(5, 1, batch_first=True), x[None]
narrow = may_attend & wide
with pytest.raises(RuntimeError, match="Need attn_mask"):
    other_layer(z, z, z, is_causal=True)
for need_weights in (True, False):
    hinted, windowed, plain = (
        other_layer(z, z, z, attn_mask=~mask, is_causal=hint, need_weights=need_weights)[0]
        for mask, hint in ((narrow, True), (narrow, False), (may_attend, False))
    )
    assert torch.allclose(hinted, windowed if need_weights else plain, atol=1e-6)
    assert not torch.allclose(windowed, plain, atol=1e-3)
    # all padding: NaN with the weights, and finite without them
    all_padding = torch.ones(1, 6, dtype=torch.bool)
    result = other_layer(z, z, z, key_padding_mask=all_padding, need_weights=need_weights)[0]
    assert result.isnan().all() if need_weights else result.isfinite().all()
# padding on the right: the causal mask alone protects the words
right_pad = torch.cat([short, torch.zeros(3, 5)])
assert torch.allclose(
    attend_masked(right_pad, may_attend)[:3], attend_masked(short, may_attend[:3, :3])
)
# positions counted from the left edge and from the first word
vectors = torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
real_left = torch.tensor([False, False, True, True, True])
counted = (real_left.cumsum(dim=-1) - 1).clamp(min=0)
assert counted[2:].tolist() == [0, 1, 2]
padded_words = torch.cat([torch.zeros(2, 5), short])
wanted = attend_masked(short + vectors[:3], may_attend[:3, :3])
for positions, is_right in ((torch.arange(5), False), (counted, True)):
    found = attend_masked(padded_words + vectors[positions], may_attend[:5, :5] & real_left)[2:]
    assert torch.allclose(found, wanted, atol=1e-6) == is_right

# %% after: sources  numbers: 2017, 1061, 103749

# %% after: teacher-plan  numbers: 46, 10, 9, 6, 5, 3, 4, 1, 2, 0

# %% after: teacher-questions  numbers: 0, 1, 2, 3, 4, 5, -1e9
