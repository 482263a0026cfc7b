# %% after: may-look
from attnlab import causal_mask

assert torch.equal(may_look, causal_mask(6))
assert torch.equal(may_look, torch.ones(6, 6).tril().bool())

# %% after: see-share
without_mask, with_mask = scores.softmax(dim=-1)[1], masked.softmax(dim=-1)[1]
assert without_mask[2:].sum() > 0.5 and (with_mask[2:] == 0).all()
growth = with_mask[:2] / without_mask[:2]
assert torch.allclose(growth, 1 / without_mask[:2].sum()) and growth[0] > 2
# minus infinity, not zero: a key with score 0 keeps a share
assert scores.masked_fill(~may_look, 0.0).softmax(dim=-1)[1, 2:].sum() > 0.4

# %% after: three-steps
from attnlab import attention_scores, attention_weights

assert torch.allclose(scores, attention_scores(x, x))
assert torch.allclose(weights, attention_weights(scores, attn_mask=may_look))
assert (weights[~may_look] == 0).all()
assert torch.allclose(weights.sum(dim=-1), torch.ones(6))

# %% after: masked-attention
expected = F.scaled_dot_product_attention(x, x, x, attn_mask=may_look)
assert torch.allclose(causal(x), expected, atol=1e-6)
# a layer norm hides a constant from the model, and so from a test that adds one
block = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, norm_first=True)
y = torch.rand(6, 8)
assert torch.allclose(block(y)[:5], block(y + torch.eye(6)[5, :, None])[:5], atol=1e-5)
assert moved(block, y, 5).tolist() == [1, 1, 1, 1, 1, 1]

# %% after: see-moved
for place in range(6):  # every word moves its own output and all later ones
    assert torch.equal(moved(causal, x, place), may_look[:, place].int())

# %% after: inverted-mask
# a mask that blocks too much is found by a word on which outputs should depend
assert moved(lambda x: masked_attention(x, x, x, torch.eye(6).bool()), x, 0).sum() == 1

# %% after: inverted
assert moved(inverted, x, 5).tolist() == [1, 1, 1, 1, 1, 0] and (inverted(x)[5] == 0).all()
assert moved(inverted, x, 0).tolist() == [1, 0, 0, 0, 0, 0]  # none of them sees the past

# %% after: nobody-warns
import importlib.util

from attnlab import data_path

# the models of "What peeking does to a model", with the inverted mask and with the causal one
spec = importlib.util.spec_from_file_location("peek", data_path("make_peek_at_the_future.py"))
peek = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peek)
inverse = ~causal_mask(peek.LENGTH)


class Inverted(peek.NextWord):
    def forward(self, words):
        h = self.word(words) + self.place(torch.arange(words.shape[1]))
        return self.out(h + self.attention(h, attn_mask=inverse).output)


reached = []
for kind in (Inverted, peek.NextWord):
    torch.manual_seed(0)
    model = kind(causal=True)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        loss = peek.loss_of(model, peek.sentences(64, generator))
        loss.backward()
        optimizer.step()
    reached.append(loss.item())
assert reached[0] < 0.3 < 0.8 < reached[1]

# %% after: see-zeros
_, padded_weights = alone, (batch[1] @ batch[1].T / 5**0.5).softmax(dim=-1)
lost = padded_weights[2, 3:].sum()
assert abs(lost - 0.28) < 0.005
assert torch.allclose(together[1, 2], (1 - lost) * alone[2])  # all by the same factor
assert abs(1 - lost - 0.72) < 0.005
assert torch.allclose(together[1, :3], padded_weights[:3] @ batch[1], atol=1e-6)

# %% after: keys-of-padding  numbers: 1

# %% after: padding-mask
from attnlab import scaled_dot_product_attention

for attend in (F.scaled_dot_product_attention, scaled_dot_product_attention):
    theirs = attend(batch, batch, batch, attn_mask=real[:, None])
    assert torch.allclose(output, theirs, atol=1e-6)
assert torch.allclose(output[0], F.scaled_dot_product_attention(x, x, x), atol=1e-6)

# %% after: explore-rules
from attnlab import attention_weights

generator = torch.Generator().manual_seed(42)
random_scores = torch.randn(5, 5, generator=generator)
real_five = torch.tensor([[True, True, True, False, False]])
plain = random_scores.softmax(dim=-1)
on_keys = attention_weights(random_scores, attn_mask=real_five)
on_padding = torch.tensor([0.1320, 0.4020, 0.3505, 0.6158, 0.4539])
assert torch.allclose(plain[:, 3:].sum(dim=-1), on_padding, atol=1e-4)
assert torch.allclose(on_keys[1, :3], torch.tensor([0.2007, 0.6607, 0.1386]), atol=1e-4)
given = {
    rule: [AfterSoftmaxExplorer(rule=rule, lift=lift).result for lift in (0, 6, -4)]
    for rule in ("no mask", "before: -inf", "before: 0", "after: 0")
}
same = {
    rule: all(torch.equal(results[0].weights, one.weights) for one in results)
    for rule, results in given.items()
}
assert list(same.values()) == [False, True, True, False]
assert torch.allclose(given["before: -inf"][0].weights, on_keys)
assert torch.allclose(given["no mask"][0].weights, plain)
with_zero = torch.tensor([0.127, 0.580, 0.475, 0.536, 0.509])
assert torch.allclose(given["before: 0"][0].on_padding, with_zero, atol=1e-3)
erased = torch.tensor([0.868, 0.598, 0.649, 0.384, 0.546])
assert torch.allclose(given["after: 0"][0].row_sums, erased, atol=1e-3)
# erased weights leak: the scores of <pad> move every row
for lifted, same in zip(given["after: 0"][1].weights, given["after: 0"][0].weights, strict=True):
    assert not torch.allclose(lifted, same, atol=1e-3)
# the same flags along the keys, along the queries, and along both
along_queries = attention_weights(random_scores, attn_mask=real_five.mT)
assert torch.allclose(along_queries[:3], plain[:3])  # the words look at padding as before
assert (along_queries[3:] == 0).all()

# %% after: combined
from attnlab import combine_masks

assert torch.equal(may_look & window, combine_masks(may_look, window))
assert torch.equal(window, (i - j).abs() < 3)
blocked = ~may_look | ~window  # where True means blocked, masks combine with or
assert torch.equal(may_look & window, ~blocked)
assert (~(may_look & from_left)).all(dim=-1).tolist() == [True, True] + 4 * [False]

# %% after: see-empty
assert first[0].isnan().all() and first[1:].isfinite().all()
assert torch.equal(left_mask, may_look[:4, :4] & ~(left == 0).all(dim=-1))

# an output that is NaN before and after the change has not moved
assert moved(lambda t: masked_attention(t, t, t, left_mask), left, 3).tolist() == [0, 0, 0, 1]

# %% after: second-layer
_scores = first @ first.mT / 5**0.5
again = _scores.masked_fill(~left_mask, -torch.inf).softmax(dim=-1)
assert (again[1:, 0] == 0).all() and again[1:].isfinite().all()
assert (again @ first).isnan().all()

# %% after: nan-spreads  numbers: -1e9
from attnlab import scaled_dot_product_attention

for attend in (F.scaled_dot_product_attention, scaled_dot_product_attention):
    assert (attend(left, left, left, attn_mask=left_mask)[0] == 0).all()

# %% after: families  numbers: -1e9
# torch's own function returns 0 for an empty row, on the CPU
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    for shape in ((4, 5), (6, 5), (2, 3, 64, 8), (1, 1, 512, 16)):
        z = torch.rand(shape, dtype=dtype)
        looks = torch.ones(shape[-2], shape[-2]).tril().bool()
        looks[:, :2] = False
        for keep in (looks, torch.zeros(looks.shape, dtype=dtype).masked_fill(~looks, -torch.inf)):
            empty_first = F.scaled_dot_product_attention(z, z, z, attn_mask=keep)
            assert (empty_first[..., :2, :] == 0).all() and empty_first.isfinite().all()

# %% after: explore-masks
row = [(3, key) for key in range(6)]  # the cells of "on"


def without_a_key(**state):
    return MaskExplorer(**state).result.empty_rows


assert without_a_key(mask="window", window=2, padding=[2, 3]) == (3,)  # two clicks
assert without_a_key(mask="window", window=2) == () == without_a_key()
assert without_a_key(toggled=row[:4]) == (3,) and without_a_key(toggled=row[:3]) == ()
assert without_a_key(mask="none", toggled=row) == (3,)
assert without_a_key(mask="none", toggled=row[:5]) == ()
# padding under a causal mask, at the start, at the end, and at the end under a window
assert without_a_key(padding=[0, 1]) == (0, 1) and without_a_key(padding=[4, 5]) == ()
assert without_a_key(mask="window", window=2, padding=[4, 5]) == (5,)
fills = {
    fill: MaskExplorer(toggled=row[:4], fill=fill).result.weights[3]
    for fill in ("-inf", "-1e9", "attnlab")
}
assert fills["-inf"].isnan().all() and (fills["attnlab"] == 0).all()
assert torch.allclose(fills["-1e9"], torch.full((6,), 1 / 6))

# %% after: see-floats
ones_and_zeros = torch.ones(6, 6).tril()
added = (x @ x.T / 5**0.5 + ones_and_zeros).softmax(dim=-1) @ x
assert torch.allclose(with_floats(x), added, atol=1e-6)
# what is added must be large against the differences, not only below all scores
spread, lowered = torch.tensor([100.0, 140.0, 100.0]), torch.tensor([0.0, -20.0, 0.0])
assert lowered.min() < spread.min() and (spread + lowered).softmax(dim=-1)[1] > 0.99
assert (spread + 100 * lowered).softmax(dim=-1)[1] == 0

# %% after: three-families  numbers: 1
import pytest

from attnlab import to_additive_mask

y = batch[1, :4]  # The cat sat <pad>
keep = torch.tensor([[True, True, True, False]])
expected = masked_attention(y, y, y, keep)
with pytest.raises(RuntimeError, match="bool or float"):  # it takes no 1
    F.scaled_dot_product_attention(y, y, y, attn_mask=keep.int())
for mask in (keep, keep.int() == 1, to_additive_mask(keep)):  # of one family after the other
    assert torch.allclose(F.scaled_dot_product_attention(y, y, y, attn_mask=mask), expected)
unit = torch.nn.MultiheadAttention(5, 1, bias=False)
for weight, count in ((unit.in_proj_weight, 3), (unit.out_proj.weight, 1)):
    weight.data = torch.eye(5).repeat(count, 1)
assert torch.allclose(unit(y, y, y, key_padding_mask=~keep[0])[0], expected, atol=1e-6)
assert torch.allclose(unit(y, y, y, attn_mask=~keep.expand(4, 4))[0], expected, atol=1e-6)

# %% after: torch-layer
for place in range(6):
    assert torch.equal(moved(blocked_where_true, x, place), may_look[:, place].int())

# %% after: as-if-it-ended
whole = causal(x)
assert torch.allclose(alone[2], whole[2], atol=1e-6)
for end in range(1, 7):  # as if the sentence ended there
    part = x[:end]
    there = masked_attention(part, part, part, may_look[:end, :end])
    assert torch.allclose(there, whole[:end], atol=1e-6)

# %% after: the-ending


def erased(x):  # the mask after the softmax
    return ((x @ x.T / 5**0.5).softmax(dim=-1) * may_look) @ x


for leaking in (inverted, with_floats, erased):
    assert moved(leaking, x, 5)[:5].all()

# %% after: explore-peek
from attnlab.explorers.peek import CHANCES, WORDS

result = PeekExplorer(causal=False, step=300).result
assert abs(result.best_possible - 0.90) < 0.005
assert CHANCES == (0.6, 0.3, 0.1) and WORDS == 8
assert abs(torch.tensor(8.0).log() - 2.08) < 0.005

# %% after: peek-curves
ends = losses[losses.step == 300].set_index(["causal", "seed"])
peeking, honest = ends.loc[0], ends.loc[1]
guessing = torch.tensor(8.0).log().item()
assert ((peeking.training - 0.10).abs() < 0.01).all()
assert ((honest[["training", "use"]] - 0.91).abs() < 0.01).all(axis=None)
assert abs(peeking.use.min() - 1.97) < 0.005 and abs(peeking.use.max() - 2.97) < 0.005
assert (peeking.use > guessing).sum() == 3 and abs(guessing - 2.08) < 0.005
assert abs(mean.loc[0].use.iloc[-1] - 2.5) < 0.05
lowest = mean.loc[0].use.idxmin()  # first it falls, then it rises while the other loss falls
assert abs(mean.loc[0].use[lowest] - 1.3) < 0.05 and 0 < lowest < 30
assert mean.loc[0].use[50] > 2.8 and mean.loc[0].training[lowest] > 0.90 > mean.loc[0].training[50]
assert (mean.loc[1].training - mean.loc[1].use).abs().max() < 1e-3
# nine of ten guesses can be copied: what is left is about a tenth of the best possible loss
assert abs(peeking.training.mean() - 0.898 / 10) < 0.02

# %% after: moved-by-padding
from attnlab import attention_weights

assert moved(padded, batch[1], [3, 4, 5]).tolist() == [0, 0, 0, 1, 1, 1]
# a mask that blocks these rows too changes no word
rows_too = real[1] & real[1, :, None]
assert torch.equal(
    attention_weights(scores, attn_mask=rows_too)[:3],
    attention_weights(scores, attn_mask=real[1:])[:3],
)
# the mean over all six outputs does move
changed = batch[1].clone()
changed[3:] += 1
assert (padded(changed).mean(dim=0) - padded(batch[1]).mean(dim=0)).abs().max() > 0.01

# %% after: see-heads
import pytest

assert torch.equal(with_three_axes[1, 0], of_heads[1, 0].softmax(dim=-1))
assert (on_last_three[:, 1] == 0).all() and (on_last_three[:, 0] > 0.3).all()
correct = attention_weights(of_heads, attn_mask=sequence_mask([6, 3])[:, None, None])
assert (correct[1, ..., 3:] == 0).all() and (correct[0, ..., 3:] > 0).all()
for heads, fits in ((2, True), (3, False)):
    try:
        assert torch.broadcast_shapes((2, 1, 6), (2, heads, 6, 6)) == (2, heads, 6, 6)
    except RuntimeError:
        assert not fits
    else:
        assert fits
with pytest.raises(RuntimeError, match="at non-singleton dimension 1"):  # the axis of the heads
    torch.zeros(2, 3, 6, 6).masked_fill(sequence_mask([6, 3])[:, None], 0)

# %% after: see-cache
assert torch.equal(newest, text[:1]) and not (text[1:] == newest).all(dim=-1).any()
bare = F.scaled_dot_product_attention(x[5:], x, x)
assert torch.allclose(bare, F.scaled_dot_product_attention(x, x, x, is_causal=True)[5:], atol=1e-6)

# %% after: large-negative  numbers: -1e9

# %% after: fill-row-zero
assert torch.allclose(finite[0], torch.full((4,), 0.25)) and (torch_output[0] == 0).all()
assert abs((finite @ left)[0, 0] - 0.625) < 1e-6
minus_infinity = (left @ left.T / 5**0.5).masked_fill(~left_mask, -torch.inf).softmax(dim=-1)
assert torch.equal(finite[1:], minus_infinity[1:])
# torch's function, too, averages if the float mask holds the most negative number
lowest = torch.zeros(4, 4).masked_fill(~left_mask, torch.finfo(torch.float32).min)
averaged = F.scaled_dot_product_attention(left, left, left, attn_mask=lowest)[0]
assert torch.allclose(averaged, left.mean(dim=0))
# what open keys of ordinary size mean: below -1e9 the fill wins
low = torch.tensor([-2e9, -1e9]).softmax(dim=-1)
assert low.tolist() == [0, 1]
# what the fills do to the gradient of a loss that leaves row 0 out
for fill, finite_gradient in ((-torch.inf, False), (-1e9, True)):
    z = left.clone().requires_grad_()
    w = (z @ z.T / 5**0.5).masked_fill(~left_mask, fill).softmax(dim=-1)
    (w @ z)[1:].sum().backward()
    assert z.grad.isfinite().all() == finite_gradient

# %% after: half-precision  numbers: -1e9, 65504, 16
assert torch.finfo(torch.float16).max == 65504

# %% after: half-added
assert added[0].isneginf().all() and added.dtype == torch.float16
written = half.clone()
written[~left_mask] = -1e9  # raises nothing either
assert written[0].isneginf().all()
broad = torch.zeros(4, 4, dtype=torch.bfloat16).masked_fill(~left_mask, -1e9)
assert broad.isfinite().all() and (broad.softmax(dim=-1)[0] == 0.25).all()

# %% after: half-silent  numbers: -1e9, 16

# %% after: exercise-1  numbers: 0
# with large inputs the test misses that "cat" may look at "The"
assert moved(causal, x, 0)[1] == 1 and moved(causal, 100 * x, 0)[1] == 0
# dropout makes outputs move at random
dropping, y = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1), torch.rand(6, 8)
assert not torch.allclose(dropping(y), dropping(y))
assert torch.allclose(dropping.eval()(y), dropping(y))

# %% after: causal-test-solution
causal_but_self = torch.ones(6, 6).tril().bool()
causal_but_self[3, 3] = causal_but_self[5, 5] = False


def no_self(x):
    return masked_attention(x, x, x, causal_but_self)


small = torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
assert causal_test_solution(no_self, small) == "correct"  # invisible to the test
alike = small[:1].repeat(6, 1)  # where the earlier words are equal, it is seen
assert causal_test_solution(no_self, alike) == "too tight"

# %% after: decoder-mask-solution
from attnlab import causal_mask

words = decoder_mask_solution(torch.tensor([5, 3]))[1, 0, :3]  # rows of sentence 1
assert torch.equal(words, causal_mask(5)[:3])  # as without padding

# %% after: safe-softmax-solution
s = torch.zeros(2, 3, requires_grad=True)
allowed = torch.tensor([[False, False, False], [True, True, False]])
safe_softmax_solution(s, allowed)[1, 0].backward()
assert s.grad.isfinite().all()
# a NaN inside the softmax: harmless where the score was filled, not where it was added to
for hide, harmless in (
    (lambda s: s.masked_fill(~allowed, -torch.inf), True),
    (lambda s: s + torch.zeros(2, 3).masked_fill(~allowed, -torch.inf), False),
):
    s = torch.zeros(2, 3, requires_grad=True)
    w = torch.where(allowed.any(dim=-1, keepdim=True), hide(s).softmax(dim=-1), 0.0)
    w[1, 0].backward()
    assert s.grad.isfinite().all() == harmless

# with -inf in an empty row there is a NaN on the way, unless its scores are finite
for made_finite in (True, False):
    s = torch.zeros(2, 3, requires_grad=True)
    w = s.masked_fill(~allowed, -torch.inf)
    if made_finite:
        w = w.masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)
    w = w.softmax(dim=-1)
    assert w.isfinite().all() == made_finite
    if made_finite:
        with torch.autograd.detect_anomaly():  # raises if the gradient is NaN anywhere
            w.masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)[1, 0].backward()

# %% after: exercise-4  numbers: 0, 1, 2, 3

# %% after: exercise-5  numbers: -1e9

# %% after: in-torch
import pytest
from torch.nn.attention.bias import causal_lower_right

z, nothing = torch.ones(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)  # all padding
fates = {}
for heads in (1, 2):
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(4, heads, batch_first=True)
    torch.nn.init.ones_(layer.out_proj.bias)
    for mode in (True, False):
        for gradient in (True, False):
            for need_weights in (True, False):
                layer.train(mode)
                with torch.set_grad_enabled(gradient):
                    out = layer(z, z, z, key_padding_mask=nothing, need_weights=need_weights)[0]
                assert out.isnan().all() or torch.equal(out, torch.ones_like(out))
                fates[heads, mode, gradient, need_weights] = bool(out.isnan().all())
assert all(fate for (*_, need_weights), fate in fates.items() if need_weights)
for heads in (1, 2):
    without_weights = [fate for (h, *_, w), fate in fates.items() if h == heads and not w]
    assert without_weights == ([False, False, False, heads == 2])
# attn_mask and is_causal together: an error, or both at once
wide = torch.ones(6, 6).triu(-1).bool()
for shape in ((6, 5), (1, 6, 5), (1, 1, 6, 5)):
    z = x.expand(shape)
    try:
        together = F.scaled_dot_product_attention(z, z, z, attn_mask=wide, is_causal=True)
    except RuntimeError:
        assert len(shape) < 4
    else:
        both = F.scaled_dot_product_attention(z, z, z, attn_mask=wide & may_look)
        assert len(shape) == 4 and torch.allclose(together, both, atol=1e-6)
# in the layer, is_causal makes no mask, and it may replace another one
layer, z, narrow = torch.nn.MultiheadAttention(5, 1, batch_first=True), x[None], may_look & wide
with pytest.raises(RuntimeError, match="Need attn_mask"):
    layer(z, z, z, is_causal=True)
for need_weights in (True, False):
    hinted, windowed, plain = (
        layer(z, z, z, attn_mask=~mask, is_causal=hint, need_weights=need_weights)[0]
        for mask, hint in ((narrow, True), (narrow, False), (may_look, False))
    )
    assert torch.allclose(hinted, windowed if need_weights else plain, atol=1e-6)
    assert not torch.allclose(windowed, plain, atol=1e-3)
z = x[None, None]
cached = F.scaled_dot_product_attention(z[..., 4:, :], z, z, attn_mask=causal_lower_right(2, 6))
assert torch.allclose(cached[0, 0], whole[4:], atol=1e-6)
# ignore_index leaves padding out of a loss
guesses, pad = torch.rand(4, 8), 7
targets = torch.tensor([1, 2, 3, pad])
left_out = F.cross_entropy(guesses, targets, ignore_index=pad)
assert torch.allclose(left_out, F.cross_entropy(guesses[:3], targets[:3]))

# %% after: sources  numbers: 2017, 2020, 1061, 103749

# %% after: teacher-plan  numbers: 45, 11, 8, 10, 6, 0

# %% after: teacher-questions  numbers: 0, 1, 2, 3, 4, 5, -1e9
