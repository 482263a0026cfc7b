# %% after: opening  numbers: 3, 7, 0, 5, 1

# %% after: two-animals-in-one-question  numbers: 15

# %% after: ask-one-head  numbers: 20, 30, 64

# %% after: see-one-head
tokens, answer = two_animals(2000)
different = answer[:, 0] != answer[:, 1]
read = guess(one_head, two_animals, tokens).argmax(dim=-1)
assert (read == answer).any(dim=-1).float().mean() > 0.95  # nearly always one of the two
assert (read[:, 0] == read[:, 1])[different].float().mean() > 0.5  # often the same number twice
both = (read == answer).all(dim=-1)
assert both[~different].float().mean() > 0.98
assert abs(both[different].float().mean() - 0.07) < 0.015
for seed in (1, 2):  # other seeds, and fewer steps: about 20 to 30 %
    layer = train(MultiHeadAttention(32, 1, bias=False), two_animals, steps=400, seed=seed)
    assert 0.18 < share_correct(layer, two_animals)[2] < 0.32

# %% after: see-more-heads
layer = train(MultiHeadAttention(32, 2, bias=False), two_animals, seed=1)
assert share_correct(layer, two_animals)[2] > 0.99

# %% after: where-they-look
# over 2,000 questions: the mean weight of the animal that is named first, and of the second


def looked_at(layer, x):
    weights = layer(x).weights[:, :, -1, :5]  # (n, H, 5)
    asked = x[:, 5, 16:].unflatten(-1, (2, 8))  # (n, 2, 8)
    where = x[:, :5, :8] @ asked.mT  # (n, 5, 2): 1 at the animal that is named
    return (weights @ where).mean(dim=0).tolist()


x, _ = two_animals(2000)
[[first, second]] = looked_at(one_head, x)
assert min(first, second) > 0.3 and first + second > 0.8
(first, second), (other, another) = looked_at(layers[2], x)
assert (first > second) != (other > another)
for of_head in ((first, second), (other, another)):
    assert max(of_head) > 0.85 and min(of_head) < 0.1
assert looks[0].topk(2).values.sum() > 0.8 and (looks[1:].amax(dim=-1) > 0.8).all()

# with two linear layers behind it, one head learns the task, and weights the two animals unequally
from attnlab import AttentionOutput


class WithTwoLayers(MultiHeadAttention):
    def __init__(self):
        super().__init__(32, 1, bias=False)
        self.one, self.two = torch.nn.Linear(32, 64), torch.nn.Linear(64, 16)

    def forward(self, x):
        output, weights = super().forward(x)
        return AttentionOutput(self.two(self.one(output).relu()), weights)


both = train(WithTwoLayers(), lambda n: two_animals(8 * n), steps=150)
assert share_correct(both, two_animals)[2] > 0.99
[shares] = looked_at(both, x)
assert abs(max(shares) - 0.66) < 0.04 and abs(min(shares) - 0.27) < 0.04

# %% after: torch-layer
# before the last projection, feature 0 depends on head 0 alone; after it, on all four
values = split(ours.v_proj(sentence), 4).detach().requires_grad_()
merged = merge(weights.detach() @ values)
for result, reached in ((merged, 1), (ours.out_proj(merged), 4)):
    (gradient,) = torch.autograd.grad(result[..., 0].sum(), values, retain_graph=True)
    assert gradient.abs().amax(dim=(0, 2, 3)).gt(0).sum() == reached

# %% after: small-matrices
# on how many features of a token does head 0 depend? A slice of 8 without a projection
one = sentence[:, :1].clone().requires_grad_()
for projected, count in ((one, 8), (ours.q_proj(one), 32)):
    (gradient,) = torch.autograd.grad(split(projected, 4)[0, 0].sum(), one)
    assert (gradient[0] != 0).sum() == count

# %% after: follow-the-numbers  numbers: 210, 1, 001

# %% after: names
assert torch.equal(split(names[None], 3)[0], by_head)

# %% after: ask-rows  numbers: 6

# %% after: see-rows
assert same.numel() == 12 and same[0, 0] and same[2, 3] and (~same).sum() == 10

# %% after: pairs
torch.manual_seed(0)
apart, numbers = MultiHead(12, 3, *pairs["heads stay"]), torch.randn(2, 5, 12)
assert apart(numbers)[1].shape == (2, 5, 3, 3)  # (N, L, H, H)
seen = influence_map(lambda x: apart(x[None])[0][0], numbers[0]) > 0
assert torch.equal(seen, torch.eye(5).bool())  # no token looks at another one

# %% after: explore-heads
wrong = HeadsExplorer(way="short cut").result.wrong_scores
assert wrong.numel() == 48 and wrong.sum() == 46
assert not wrong[0, 0, 0] and not wrong[2, 3, 3]  # the first row of head 0, the last of head 2

# %% after: would-training  numbers: 0, 7, 200

# %% after: see-copy
assert min(copied.values()) > 0.99
# but with eight heads, the short merge learns the two-animal task too
layer = train(MultiHead(32, 8, *pairs["short merge"]), two_animals)
assert share_correct(layer, two_animals)[2] > 0.95


# the features for the place bring the digits back: without them the layers with one short cut fail
class WithoutPlace(MultiHead):
    def forward(self, x):
        return super().forward(x * (torch.arange(32) < 8))


for name, low, high in (("correct", 0.95, 1), ("short split", 0, 0.5), ("short merge", 0, 0.5)):
    layer = train(WithoutPlace(32, 2, *pairs[name]), copy_digits, steps=100)
    assert low <= share_correct(layer, copy_digits)[-1] <= high, name

# %% after: two-tests  numbers: 4, 7

# %% after: maps
sees_future = {name for name, one in maps.items() if one.triu(1).any()}
assert sees_future == {"short split", "short merge"}
blocks = torch.block_diag(*[torch.ones(2, 2).tril()] * 4).bool()
assert torch.equal(maps["both short"], blocks)
assert torch.equal(maps["heads stay"], torch.eye(8).bool())

# %% after: table-of-tests
from unittest.mock import patch


# a split that swaps the sentences, and a merge that swaps them back
def crossed(x, H):
    return split(x.flip(0), H)


def crossed_back(heads):
    return merge(heads).flip(0)


assert torch.equal(causal_map(crossed, crossed_back), triangle)
assert not slice_test(crossed, crossed_back)
# a saturated softmax has gradients of 0 even in a correct layer
loud = 30 * torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
with patch("torch.randn", return_value=loud):
    assert not torch.equal(causal_map(split, merge), triangle)
# both tests tell the five pairs apart at other sizes as well
for L, H in ((5, 2), (6, 3), (9, 4)):
    sample = torch.randn(L, 12 * H, generator=torch.Generator().manual_seed(1))
    for name, (split_it, merge_it) in pairs.items():

        def attend(sample, split_it=split_it, merge_it=merge_it, H=H):
            heads = split_it(sample[None], H)
            mixed = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
            return merge_it(mixed)[0]

        seen = influence_map(attend, sample) > 0
        assert torch.equal(seen, torch.ones(L, L).tril().bool()) == (name == "correct")

# %% after: count-many-heads
from torch.utils.flop_counter import FlopCounterMode

order = layer(words).weights[0].argsort(dim=-1)  # (12, 6, 6)
measured = {}
sample = torch.randn(1, 128, 64, generator=torch.Generator().manual_seed(0))
for count in (1, 2, 4, 8, 16):
    layer = MultiHeadAttention(64, count)
    with FlopCounterMode(display=False) as counter:
        numbers = layer(sample).weights
    parameters = sum(p.numel() for p in layer.parameters())
    measured[count] = parameters, counter.get_total_flops(), numbers.numel()
assert len({row[:2] for row in measured.values()}) == 1
assert all(row[2] == count * measured[1][2] for count, row in measured.items())
forwards, backwards = order == order[:, :1], order == order[:, :1].flip(-1)
assert (forwards.all(dim=-1) | backwards.all(dim=-1)).all()  # in every head

# %% after: further-contiguity-3
places = torch.arange(24).view(4, 3, 2).transpose(0, 1).flatten()[:6]
assert places.diff().tolist() == [1, 5, 1, 5, 1]

# %% after: further-contiguity-4
import pytest

product = torch.rand(1, 3, 4, 4) @ split(names[None] / 100, 3)  # (N, H, L, head_dim)
assert not torch.allclose(product.view(1, 4, 6), merge(product))  # wrong, without an error
with pytest.raises(RuntimeError, match="view size is not compatible"):
    product.transpose(1, 2).view(1, 4, 6)

# %% after: batch-axis
assert default(batch, batch, batch)[1].shape == (5, 3, 3)
assert theirs(batch, batch, batch)[1].shape == (3, 5, 5)

# %% after: mean-of-heads
each = theirs(batch, batch, batch, average_attn_weights=False)[1]
assert torch.allclose(theirs(batch, batch, batch)[1], each.mean(dim=1), atol=1e-6)

# %% after: ranks
lowest = torch.linalg.svdvals(narrow)[-1]  # far above the limit of matrix_rank in float64
assert lowest > 1000 * 6 * torch.finfo(torch.float64).eps

# %% after: exercise-1  numbers: 4, 6, 8, 2

# %% after: sources  numbers: 2017, 2019, 6, 42929

# %% after: teacher-plan  numbers: 45, 11, 9, 4, 7, 5, 210, 64, 128

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 8, 12
dealt = x.view(2, 5, 4, 3).permute(0, 3, 1, 2)
assert torch.equal(dealt[:, 0], x[..., [0, 3, 6, 9]]) and dealt.shape == split(x, 3).shape
