# %% after: see-share
without_mask, with_mask = scores.softmax(dim=-1)[1], masked.softmax(dim=-1)[1]
assert without_mask[2:].sum() > 0.5
assert torch.allclose(with_mask[:2] / without_mask[:2], 1 / without_mask[:2].sum())

# %% after: three-steps
assert (weights[~may_look] == 0).all()

# %% after: masked-attention
expected = F.scaled_dot_product_attention(x, x, x, attn_mask=may_look)
assert torch.allclose(causal(x), expected, atol=1e-6)

# %% after: see-moved
for place in range(6):  # every word moves its own output and all later ones
    assert torch.equal(moved(causal, x, place), may_look[:, place].int())

# %% after: inverted-mask
# a mask that blocks too much is found by a word on which outputs should depend
assert moved(lambda x: masked_attention(x, x, x, torch.eye(6).bool()), x, 0).sum() == 1

# %% after: inverted
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
lost = (batch[1] @ batch[1].T / 5**0.5).softmax(dim=-1)[2, 3:].sum()
assert abs(lost - 0.28) < 0.005 and abs(1 - lost - 0.72) < 0.005
assert torch.allclose(together[1, 2], (1 - lost) * alone[2])  # all by the same factor

# %% after: keys-of-padding  numbers: 1

# %% after: explore-rules
given = {
    rule: MaskExplorer(padded_words, mask="none", padding=[3, 4], fill=rule).result.weights
    for rule in ("-inf", "-1e9", "0", "0 after", "attnlab")
}
unread = {rule for rule, weights in given.items() if (weights[:, 3:] == 0).all()}
assert unread == given.keys() - {"0"}
assert {r for r in unread if torch.allclose(given[r].sum(-1), torch.ones(5))} == unread - {
    "0 after"
}
# scores of <pad> below 0: a fill of 0 is even worse than no mask
scores = MaskExplorer(padded_words).scores - 4 * (torch.arange(5) > 2)
filled = scores.masked_fill(torch.arange(5) > 2, 0).softmax(dim=-1)
assert (filled[:, 3:].sum(-1) > scores.softmax(dim=-1)[:, 3:].sum(-1)).all()
# erased weights: rows that do not add up to 1, and every one of them leaks
erased = [
    (s.softmax(dim=-1) * (torch.arange(5) < 3))
    for s in (scores, scores + 4 * (torch.arange(5) > 2))
]
assert (erased[1].sum(-1) < 0.99).all() and (erased[0] - erased[1]).abs().amax(-1).min() > 1e-3

# %% after: combine  numbers: -1e9

# %% after: combined
assert torch.equal(window, (i - j).abs() < 3)
assert (~(may_look & from_left)).all(dim=-1).tolist() == [True, True] + 4 * [False]

# %% after: second-layer
again = (first @ first.mT / 5**0.5).masked_fill(~left_mask, -torch.inf).softmax(dim=-1)
assert (again[1:, 0] == 0).all() and again[1:].isfinite().all()

# %% after: nan-spreads  numbers: -1e9

# %% after: explore-masks
row = [(3, key) for key in range(4)]  # the cells of "on" that a causal mask leaves open
fills = {
    fill: MaskExplorer(toggled=row, fill=fill).result.weights[3]
    for fill in ("-inf", "-1e9", "attnlab")
}
assert fills["-inf"].isnan().all() and (fills["attnlab"] == 0).all()
assert torch.allclose(fills["-1e9"], torch.full((6,), 1 / 6))

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

# %% after: see-floats
added = (x @ x.T / 5**0.5 + torch.ones(6, 6).tril()).softmax(dim=-1) @ x
assert torch.allclose(with_floats(x), added, atol=1e-6)
# what is added must be large against the differences, not only below all scores
spread, lowered = torch.tensor([100.0, 140.0, 100.0]), torch.tensor([0.0, -20.0, 0.0])
assert lowered.min() < spread.min() and (spread + lowered).softmax(dim=-1)[1] > 0.99
assert (spread + 100 * lowered).softmax(dim=-1)[1] == 0

# %% after: three-families  numbers: 1
y = batch[1, :4]  # The cat sat <pad>
keep = torch.tensor([[True, True, True, False]])
expected = masked_attention(y, y, y, keep)
for mask in (keep, torch.tensor([[0, 0, 0, -torch.inf]])):
    assert torch.allclose(F.scaled_dot_product_attention(y, y, y, attn_mask=mask), expected)
unit = torch.nn.MultiheadAttention(5, 1, bias=False)
for weight, count in ((unit.in_proj_weight, 3), (unit.out_proj.weight, 1)):
    weight.data = torch.eye(5).repeat(count, 1)
assert torch.allclose(unit(y, y, y, key_padding_mask=~keep[0])[0], expected, atol=1e-6)

# %% after: as-if-it-ended
for end in range(1, 7):
    part = x[:end]
    there = masked_attention(part, part, part, may_look[:end, :end])
    assert torch.allclose(there, causal(x)[:end], atol=1e-6)

# %% after: the-ending


def erased(x):  # the mask after the softmax
    return ((x @ x.T / 5**0.5).softmax(dim=-1) * may_look) @ x


for leaking in (inverted, with_floats, erased):
    assert moved(leaking, x, 5)[:5].all()

# %% after: further
best_possible = torch.special.entr(torch.tensor([0.6, 0.3, 0.1])).sum()
assert abs(best_possible - 0.90) < 0.005 and abs(torch.tensor(8.0).log() - 2.08) < 0.005

# %% after: peek-curves
ends = losses[losses.step == 300].set_index(["causal", "seed"])
peeking, honest = ends.loc[0], ends.loc[1]
assert ((peeking.training - 0.10).abs() < 0.01).all()
assert ((honest[["training", "use"]] - 0.91).abs() < 0.01).all(axis=None)
assert abs(peeking.use.min() - 1.97) < 0.005 and abs(peeking.use.max() - 2.97) < 0.005
assert (peeking.use > 2.08).sum() == 3
assert abs(mean.loc[0].use.iloc[-1] - 2.5) < 0.05 and abs(mean.loc[0].use.min() - 1.3) < 0.05

# %% after: moved-by-padding
# a mask that blocks these rows too changes no word
rows_too = sequence_mask([3], max_len=6) & sequence_mask([3], max_len=6).mT
rows_empty = masked_attention(batch[1], batch[1], batch[1], rows_too)
assert torch.equal(rows_empty[:3], padded(batch[1])[:3]) and rows_empty[3:].isnan().all()

# %% after: see-heads
import pytest

with pytest.raises(RuntimeError, match="at non-singleton dimension 1"):  # the axis of the heads
    torch.zeros(2, 3, 6, 6).masked_fill(sequence_mask([6, 3])[:, None], 0)

# %% after: large-negative  numbers: -1e9

# %% after: fill-row-zero
minus_infinity = (left @ left.T / 5**0.5).masked_fill(~left_mask, -torch.inf).softmax(dim=-1)
assert torch.equal(finite[1:], minus_infinity[1:])

# %% after: half-precision  numbers: -1e9, 16
assert torch.finfo(torch.float16).max == 65504

# %% after: half-added
assert added[0].isneginf().all()
broad = torch.zeros(4, 4, dtype=torch.bfloat16).masked_fill(~left_mask, -1e9)
assert broad.isfinite().all() and (broad.softmax(dim=-1)[0] == 0.25).all()

# %% after: half-silent  numbers: -1e9, 16

# %% after: exercise-1  numbers: 0
# with large inputs the test misses that "cat" may look at "The"
assert moved(causal, x, 0)[1] == 1 and moved(causal, 100 * x, 0)[1] == 0

# %% after: causal-test-solution
causal_but_self = torch.ones(6, 6).tril().bool()
causal_but_self[3, 3] = causal_but_self[5, 5] = False


def no_self(x):
    return masked_attention(x, x, x, causal_but_self)


small = torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
assert causal_test_solution(no_self, small) == "correct"  # invisible to the test

# %% after: decoder-mask-solution
words = decoder_mask_solution(torch.tensor([5, 3]))[1, 0, :3]  # rows of sentence 1
assert torch.equal(words, causal_mask(5)[:3])  # as without padding

# %% after: safe-softmax-solution
s = torch.zeros(2, 3, requires_grad=True)
allowed = torch.tensor([[False, False, False], [True, True, False]])
with torch.autograd.detect_anomaly():  # raises if the gradient is NaN anywhere on the way
    safe_softmax_solution(s, allowed)[1, 0].backward()
assert s.grad.isfinite().all()

# %% after: exercise-4  numbers: 0, 1, 2, 3

# %% after: exercise-5  numbers: -1e9

# %% after: in-torch
import pytest
from torch.nn.attention.bias import causal_lower_right

# attn_mask and is_causal together: an error, or both at once
wide = torch.ones(6, 6).triu(-1).bool()
with pytest.raises(RuntimeError, match="is_causal"):
    F.scaled_dot_product_attention(x, x, x, attn_mask=wide, is_causal=True)
z = x[None, None]
together = F.scaled_dot_product_attention(z, z, z, attn_mask=wide, is_causal=True)
assert torch.allclose(together[0, 0], masked_attention(x, x, x, wide & may_look), atol=1e-6)
cached = F.scaled_dot_product_attention(z[..., 4:, :], z, z, attn_mask=causal_lower_right(2, 6))
assert torch.allclose(cached[0, 0], whole[4:], atol=1e-6)
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
    # all padding: NaN with the weights, and finite without them
    all_padding = torch.ones(1, 6, dtype=torch.bool)
    output = layer(z, z, z, key_padding_mask=all_padding, need_weights=need_weights)[0]
    assert output.isnan().all() if need_weights else output.isfinite().all()

# %% after: sources  numbers: 2017, 2020, 1061, 103749

# %% after: teacher-plan  numbers: 45, 11, 8, 10, 6, 0

# %% after: teacher-questions  numbers: 0, 1, 2, 3, 4, 5, -1e9
