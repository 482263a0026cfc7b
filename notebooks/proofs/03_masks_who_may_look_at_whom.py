# %% after: two-rows
without_mask, with_mask = scores.softmax(dim=-1)[1], masked.softmax(dim=-1)[1]
assert without_mask[2:].sum() > 0.5
assert torch.allclose(with_mask[:2] / without_mask[:2], 1 / without_mask[:2].sum())

# %% after: three-steps
assert (weights[~may_attend] == 0).all()

# %% after: masked-attention
expected = F.scaled_dot_product_attention(x, x, x, attn_mask=may_attend)
assert torch.allclose(causal(x), expected, atol=1e-6)

# %% after: moved
for place in range(6):  # every word moves its own output and all later ones
    assert torch.equal(moved(causal, x, place), may_attend[:, place].int())

# %% after: two-halves
# a mask that blocks too much is found by a word on which outputs should depend
assert moved(lambda x: masked_attention(x, x, x, torch.eye(6).bool()), x, 0).sum() == 1

# %% after: inverted
assert moved(inverted, x, 0).tolist() == [1, 0, 0, 0, 0, 0]  # none of them sees the past

# %% after: nobody-warns
from attnlab.explorers import PeekExplorer

# the loss in training, of models that see the next word and of others
seeing, honest = (PeekExplorer(causal=causal).result.whole_sentence for causal in (False, True))
assert seeing.max() < 0.2 < 0.8 < honest.min()

# %% after: see-blind
own = (draws * draws).sum(dim=-1) / 16
assert abs(own.mean() - 16) < 0.2
for seed in range(5):  # other draws, and other widths
    for features in (256, 768):
        other = torch.Generator().manual_seed(seed)
        many = torch.randn(50, 6, features, generator=other)
        counts = count_moved(many, 5, 1e-5)
        assert max(counts[:5]) <= 5 and counts[5] == 50


def normed(attend):
    return lambda x: attend(F.layer_norm(x, x.shape[-1:]))


# float64 finds all leaks, also behind a layer norm; small numbers do not help there
for seed in range(3):
    many = torch.randn(50, 6, 256, generator=torch.Generator().manual_seed(seed)).double()
    for leaks, right in ((without_mask, causal), (normed(without_mask), normed(causal))):
        for one in many:
            assert moved(leaks, one, 5, 1e-12).all()
            for place in range(6):  # and it is right about the correct mask
                assert torch.equal(moved(right, one, place, 1e-12), may_attend[:, place].int())
    small = (0.1 * many).float()
    assert sum(moved(normed(without_mask), one, 5)[:5].any().item() for one in small) < 10


# rounding alone moves outputs by more than 1e-12 in float32, and not in float64
def mask_after_subtracting(x):  # a correct causal mask, with the largest of all scores subtracted
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp() * may_attend
    return powers / powers.sum(dim=-1, keepdim=True) @ x


few = torch.randn(50, 6, 8, generator=torch.Generator().manual_seed(0))
for tested, alarms in ((few, True), (few.double(), False)):
    reports = torch.stack([moved(mask_after_subtracting, one, 5, 1e-12)[:5] for one in tested])
    assert reports.any().item() == alarms
# with the matrices of a layer, the usual test sees that there is no mask
for features in (256, 1024):
    for seed in range(10):
        torch.manual_seed(seed)
        drawn_layer, tokens_drawn = (
            torch.nn.MultiheadAttention(features, 8),
            torch.randn(6, features),
        )
        assert moved(lambda x, a=drawn_layer: a(x, x, x)[0], tokens_drawn, 5).all()

# %% after: blind-read  numbers: 0.00001
assert abs(math.exp(16) - 9e6) < 2e5
pairs = draws @ draws.mT / 16
assert pairs[:, ~torch.eye(6).bool()].abs().mean() < 1
late = [moved(causal, one, 0)[1:] for one in draws]  # the second half, under the correct mask
assert torch.stack(late).float().mean() < 0.05

# %% after: see-zeros
lost = (batch[1] @ batch[1].T / math.sqrt(5)).softmax(dim=-1)[2, 3:].sum()
assert abs(lost - 0.28) < 0.005 and abs(1 - lost - 0.72) < 0.005
assert torch.allclose(together[1, 2], (1 - lost) * alone[2])  # all by the same factor

# %% after: padding-mask
assert torch.equal(real, sequence_mask(lengths))
assert torch.allclose(output[1, :3], alone) and torch.allclose(output[0], together[0])

# %% after: padding-is-a-query
# a mask that blocks the rows of <pad> too changes no word
rows_too = real[1] & real[1][:, None]
rows_empty = masked_attention(batch[1], batch[1], batch[1], rows_too)
assert torch.equal(rows_empty[:3], padded(batch[1])[:3]) and rows_empty[3:].isnan().all()

# %% after: combined
from attnlab import sliding_window_mask

assert torch.equal(window, sliding_window_mask(6, window=3))
assert (~(may_attend & from_left)).all(dim=-1).tolist() == [True, True] + 4 * [False]

# %% after: left-padding
assert first_layer[0].isnan().all() and first_layer[1:].isfinite().all()

# %% after: second-layer
again = (first_layer @ first_layer.mT / math.sqrt(5)).masked_fill(~left_mask, -torch.inf)
again = again.softmax(dim=-1)[1:]
assert (again[:, 0] == 0).all() and again.isfinite().all()
second = masked_attention(first_layer, first_layer, first_layer, left_mask)
assert second.isnan().all()

# %% after: nan-spreads  numbers: -1e9

# %% after: explore-masks
padded_words = "pad pad The cat sat".split()
given = {
    rule: MaskExplorer(padded_words, padding=[0, 1], fill=rule).result.weights
    for rule in ("-inf", "-1e9", "0", "0 after", "attnlab")
}
correct = given["attnlab"][2:]
assert torch.allclose(correct.sum(dim=-1), torch.ones(3)) and (correct[:, :2] == 0).all()
assert all(torch.equal(given[rule][2:], correct) for rule in ("-inf", "-1e9"))
assert (given["0"][2:, :2] > 0.1).all() and (given["0 after"][2:].sum(dim=-1) < 0.99).all()
assert given["-inf"][:2].isnan().all()
assert torch.allclose(given["-1e9"][:2], torch.full((2, 5), 0.2))
assert torch.allclose(given["0"][:2], torch.full((2, 5), 0.2))
assert all((given[rule][:2] == 0).all() for rule in ("0 after", "attnlab"))

# %% after: rules  numbers: -1e9, 0, 1
# erased weights leak: with the scores of blocked keys, every row changes
bare = MaskExplorer("pad pad The cat sat".split()).scores
keys_of_words = torch.arange(5) > 1
erased = [s.softmax(dim=-1) * keys_of_words for s in (bare, bare - 4 * (~keys_of_words).float())]
assert (erased[0] - erased[1]).abs().amax(dim=-1).min() > 1e-3
# the lowest number of the type gives the average too, filled in or added
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    lowest_number = torch.finfo(dtype).min
    row = bare.to(dtype)
    assert (torch.full_like(row, lowest_number).softmax(dim=-1) == row.new_tensor(0.2)).all()
    assert ((row + lowest_number).softmax(dim=-1) == row.new_tensor(0.2)).all()
# PyTorch's own function returns 0 for an empty row, on the CPU
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    for shape in ((4, 5), (6, 5), (2, 3, 64, 8), (1, 1, 512, 16)):
        z = torch.rand(shape, dtype=dtype)
        looks = torch.ones(shape[-2], shape[-2]).tril().bool()
        looks[:, :2] = False
        for keep in (looks, torch.zeros(looks.shape, dtype=dtype).masked_fill(~looks, -torch.inf)):
            empty_first = F.scaled_dot_product_attention(z, z, z, attn_mask=keep)
            assert (empty_first[..., :2, :] == 0).all() and empty_first.isfinite().all()
# three families, one mask
y = batch[1, :4]  # The cat sat <pad>
keep = torch.tensor([[True, True, True, False]])
expected = masked_attention(y, y, y, keep)
for mask in (keep, torch.tensor([[0, 0, 0, -torch.inf]])):
    assert torch.allclose(F.scaled_dot_product_attention(y, y, y, attn_mask=mask), expected)
unit = torch.nn.MultiheadAttention(5, 1, bias=False)
for weight, count in ((unit.in_proj_weight, 3), (unit.out_proj.weight, 1)):
    weight.data = torch.eye(5).repeat(count, 1)
assert torch.allclose(unit(y, y, y, key_padding_mask=~keep[0])[0], expected, atol=1e-6)

# %% after: wrong-family
biased = (x @ x.T / math.sqrt(5) + ones_and_zeros).softmax(dim=-1) @ x
assert torch.allclose(with_floats(x), biased, atol=1e-6)
for seed in range(10):  # the layer is drawn at random
    torch.manual_seed(seed)
    drawn_layer = torch.nn.MultiheadAttention(5, num_heads=1)
    for place in range(6):
        moves = moved(lambda x, a=drawn_layer: a(x, x, x, attn_mask=~may_attend)[0], x, place)
        assert torch.equal(moves, may_attend[:, place].int())

# %% after: as-if-it-ended
for end in range(1, 7):
    part = x[:end]
    there = masked_attention(part, part, part, may_attend[:end, :end])
    assert torch.allclose(there, causal(x)[:end], atol=1e-6)
# one layer without the mask is enough for a leak
for first, then in ((without_mask, causal), (causal, without_mask)):
    assert moved(lambda x, first=first, then=then: then(first(x)), x, 5).all()

# %% after: further
assert abs(torch.special.entr(torch.tensor([0.6, 0.3, 0.1])).sum() - 0.90) < 0.005
assert abs(torch.tensor(8.0).log() - 2.08) < 0.005

# %% after: explore-peek
honest, peeking = (PeekExplorer(causal=causal, step=300).result for causal in (True, False))
assert (peeking.whole_sentence < 0.15).all()
for losses in (honest.whole_sentence, honest.words_so_far):
    assert ((losses - honest.best_possible).abs() < 0.02).all()
assert peeking.words_so_far.mean() > math.log(8)
steps = range(0, 301, 10)
in_use = [PeekExplorer(causal=False, step=s).result.words_so_far.mean() for s in steps]
highest = max(range(len(steps)), key=in_use.__getitem__)
assert min(in_use) == in_use[1] < 1.5 and highest == 5 and abs(in_use[highest] - 2.9) < 0.05
assert math.log(8) < in_use[-1] < in_use[highest] - 0.3

# %% after: see-cache
assert torch.allclose(with_cache, whole[4:]) and torch.allclose(newest[0], x[0])
single = F.scaled_dot_product_attention(x[5:], x, x)
assert torch.allclose(single[0], whole[5], atol=1e-6)

# %% after: half-silent
assert torch.finfo(torch.float16).max == 65504
broad = torch.zeros(4, 4, dtype=torch.bfloat16).masked_fill(~left_mask, -1e9)
assert broad.isfinite().all() and (broad.softmax(dim=-1)[0] == 0.25).all()

# %% after: corners-reading  numbers: -1e9, 16

# %% after: half-reading  numbers: -1e9

# %% after: half-why  numbers: -1e9, 16

# %% after: causal-test-solution
causal_but_self = torch.ones(6, 6).tril().bool()
causal_but_self[3, 3] = causal_but_self[5, 5] = False


def no_self(x):
    return masked_attention(x, x, x, causal_but_self)


small = torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
assert causal_test_solution(no_self, small) == "correct"  # invisible to the test
assert causal_test_solution(with_floats, small) == "leaks"

# %% after: decoder-mask-solution
rows_of_words = decoder_mask_solution(torch.tensor([5, 3]))[1, 0, :3]  # of sentence 1
assert torch.equal(rows_of_words, causal_mask(5)[:3])  # as without padding

# %% after: safe-softmax-solution
s = torch.zeros(2, 3, requires_grad=True)
allowed = torch.tensor([[False, False, False], [True, True, False]])
with torch.autograd.detect_anomaly():  # raises if the gradient is NaN anywhere on the way
    safe_softmax_solution(s, allowed)[1, 0].backward()
assert s.grad.isfinite().all()
drawn_by = MaskExplorer(padding=[0, 1], function=safe_softmax_solution, ask=False)
assert "no blocked key gets any weight" in drawn_by.say()

# %% after: exercise-4  numbers: 0, 1, 2, 3

# %% after: mended-solution
import pytest

two = torch.rand(2, 3, 6, 5)  # sentences, heads, L, E
with pytest.raises(RuntimeError, match=r"at non-singleton dimension 1|must match the size"):
    broken(two, two, two, sequence_mask([6, 3]).int())
assert broken(two[:, :2], two[:, :2], two[:, :2], sequence_mask([6, 3]).int()).shape == (2, 2, 6, 5)

# %% after: exercise-5  numbers: -1e9

# %% after: in-torch
import pytest
from torch.nn.attention.bias import causal_lower_right

# attn_mask and is_causal together: an error, or both at once
wide = torch.ones(6, 6).triu(-1).bool()
with pytest.raises(RuntimeError, match="is_causal"):
    F.scaled_dot_product_attention(x, x, x, attn_mask=wide, is_causal=True)
z = x[None, None]
both = F.scaled_dot_product_attention(z, z, z, attn_mask=wide, is_causal=True)
assert torch.allclose(both[0, 0], masked_attention(x, x, x, wide & may_attend), atol=1e-6)
cached = F.scaled_dot_product_attention(z[..., 4:, :], z, z, attn_mask=causal_lower_right(2, 6))
assert torch.allclose(cached[0, 0], whole[4:], atol=1e-6)
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

# positions counted from the left edge and from the first word
vectors = torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
real_left = torch.tensor([False, False, True, True, True])
counted = (real_left.cumsum(dim=-1) - 1).clamp(min=0)
assert counted[2:].tolist() == [0, 1, 2]
words = torch.cat([torch.zeros(2, 5), short])
own_sentence = short + vectors[:3]
wanted = masked_attention(own_sentence, own_sentence, own_sentence, may_attend[:3, :3])
for positions, right in ((torch.arange(5), False), (counted, True)):
    z = words + vectors[positions]
    found = masked_attention(z, z, z, may_attend[:5, :5] & real_left)[2:]
    assert torch.allclose(found, wanted, atol=1e-6) == right

# %% after: sources  numbers: 2017, 2020, 1061, 103749

# %% after: teacher-plan  numbers: 50, 11, 14, 9, 12, 4, 256, 0

# %% after: teacher-questions  numbers: 0, 1, 2, 3, 4, 5, -1e9
