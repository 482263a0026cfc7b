# %% after: opening  numbers: 3, 7, 0, 5, 1, 25

# %% after: two-animals-in-one-question  numbers: 16

# %% after: ask-one-head  numbers: 64, 10

# %% after: see-one-head
tokens, answers = two_animals(4000, torch.Generator().manual_seed(2))
assert abs(share_correct(one_head)[2] - 0.2) < 0.03
for seed in range(3):  # a fifth to a third, whatever the seed; the first layer is that of the page
    torch.manual_seed(seed)
    layer = one_head
    if seed:
        layer = train(MultiHeadAttention(32, num_heads=1, bias=False), steps=400)
    read = at_the_question(layer(tokens).output).argmax(dim=-1)
    both, differ = (read == answers).all(dim=-1), answers[:, 0] != answers[:, 1]
    assert 0.18 < both.float().mean() < 0.34
    assert (read == answers).any(dim=-1).float().mean() > 0.9  # nearly always one of the two
    assert 0.05 < both[differ].float().mean() < 0.18  # "about 10 %"
    assert both[~differ].float().mean() > 0.98
assert abs(differ.float().mean() - 7 / 8) < 0.02

# %% after: more-heads  numbers: 96, 200, 800

# %% after: see-more-heads
sizes = [sum(p.numel() for p in layer.parameters()) for layer in (one_head, wide, two_heads)]
assert sizes[1] == 16 * sizes[0] and sizes[2] == sizes[0]
assert 0.17 < shares[1][2] < 0.34 and min(shares[2][2], shares[3][2]) > 0.99
torch.manual_seed(1)  # another start for the wide layer, and slower steps
other = MultiHeadAttention(128, num_heads=1, bias=False)
assert 0.17 < share_correct(train(other, wide_animals, steps=400), wide_animals)[2] < 0.34
layer = train(MultiHeadAttention(32, 2, bias=False))
assert share_correct(layer)[2] > 0.99

# %% after: where-they-look
# over 2,000 questions: the mean weight of the animal that is named first, and of the second


def looked_at(layer, x):
    weights = layer(x).weights[:, :, -1, :5]  # (n, H, 5)
    asked = x[:, 5, 16:32].unflatten(-1, (2, 8))  # (n, 2, 8)
    where = x[:, :5, :8] @ asked.mT  # (n, 5, 2): 1 at the animal that is named
    return (weights @ where).mean(dim=0).tolist()


x, _ = two_animals(2000, torch.Generator().manual_seed(2))
[[first, second]] = looked_at(one_head, x)
assert min(first, second) > 0.3 and first + second > 0.8
(first, second), (other, another) = looked_at(two_heads, x)
assert (first > second) != (other > another)
for of_head in ((first, second), (other, another)):
    assert max(of_head) > 0.8 and min(of_head) < 0.1
assert seen[0].topk(2).values.sum() > 0.8 and (seen[1:].amax(dim=-1) > 0.75).all()

# with an MLP behind it, one head learns the task and weights the animals unequally; not with four
from attnlab import AttentionOutput


class WithMLP(MultiHeadAttention):
    def __init__(self, num_heads, asked):
        super().__init__(48, num_heads, bias=False)
        self.one, self.two = torch.nn.Linear(48, 192), torch.nn.Linear(192, 8 * asked)

    def forward(self, x):
        output, weights = super().forward(x)
        return AttentionOutput(self.two(self.one(output).relu()), weights)


def learned_with_mlp(num_heads, asked, steps=150):
    def task(n, generator):
        animal = torch.rand(8 * n, 8, generator=generator).argsort(dim=-1)[:, :5]
        number = torch.randint(8, (8 * n, 5), generator=generator)
        named = torch.rand(8 * n, 5, generator=generator).argsort(dim=-1)[:, :asked]
        tokens = torch.zeros(8 * n, 6, 48)
        tokens[:, :5, :8], tokens[:, :5, 8:16] = F.one_hot(animal, 8), F.one_hot(number, 8)
        tokens[:, 5, 16 : 16 + 8 * asked] = F.one_hot(animal.gather(1, named), 8).flatten(1)
        return tokens, number.gather(1, named)

    def read(output):
        return output[:, -1].unflatten(-1, (asked, 8))

    torch.manual_seed(0)
    layer = train(WithMLP(num_heads, asked), task, read, steps)
    return layer, share_correct(layer, task, read)[-1]


layer, share = learned_with_mlp(1, 2)
[shares_of_weight] = looked_at(layer, F.pad(x, (0, 16)))
assert share > 0.9 and max(shares_of_weight) > 1.5 * min(shares_of_weight)
_, one_for_four = learned_with_mlp(1, 4)
_, four_for_four = learned_with_mlp(4, 4)
assert one_for_four < 0.6 and four_for_four > 0.9

# %% after: head-dim  numbers: 7, 3072, 256, 4096, 16, 32
assert 16 * 256 == 4096 != 3072

# %% after: torch-layer
# before the last projection, feature 0 depends on head 0 alone; after it, on all four
values = split(ours.v_proj(sentences), 4).detach().requires_grad_()
merged = merge(weights.detach() @ values)
for result, reached in ((merged, 1), (ours.out_proj(merged), 4)):
    (gradient,) = torch.autograd.grad(result[..., 0].sum(), values, retain_graph=True)
    assert gradient.abs().amax(dim=(0, 2, 3)).gt(0).sum() == reached
# on how many features of a token does head 0 depend? A slice of 8 without a projection
one = sentences[:, :1].clone().requires_grad_()
for projected, count in ((one, 8), (ours.q_proj(one), 32)):
    (gradient,) = torch.autograd.grad(split(projected, 4)[0, 0].sum(), one)
    assert (gradient[0] != 0).sum() == count
# one large matrix is the small matrices of all heads, stacked
small = ours.q_proj.weight.chunk(4)  # (8, 32) each
one_by_one = torch.stack([sentences @ matrix.T for matrix in small], dim=1)
assert torch.allclose(one_by_one, split(ours.q_proj(sentences), 4), atol=1e-6)

# %% after: follow-the-numbers  numbers: 210, 1, 001

# %% after: addresses
assert torch.equal(split(addresses[None], 3)[0], by_head)
same = (shortcut == by_head).all(dim=-1)  # (H, L): one entry for each row
assert same.numel() == 12 and same[0, 0] and same[2, 3] and (~same).sum() == 10
assert (shortcut[0] // 100).unique(return_counts=True)[1].tolist() == [6, 2]

# %% after: round-trip
back = {name: torch.equal(join(cut(x, 3)), x) for name, (cut, join) in pairs.items()}
assert [*back.values()] == [True, False, False, True, True]

# %% after: experiment-follow  numbers: 4, 48

# %% after: explore-heads
wrong = HeadsExplorer(way="shortcut").result.wrong_scores
assert wrong.numel() == 48 and wrong.sum() == 46
assert not wrong[0, 0, 0] and not wrong[2, 3, 3]  # the first row of head 0, the last of head 2

# %% after: would-training  numbers: 0, 7, 200

# %% after: breakable
torch.manual_seed(0)
apart, numbers_in = AnyPair(12, 3, cut_only, join_only), torch.randn(2, 5, 12)
query, key = (cut_only(part(numbers_in), 3) for part in (apart.q_proj, apart.k_proj))
assert (query @ key.mT).shape == (2, 5, 3, 3)  # (N, L, H, H)
seen = influence_map(lambda x: apart(x[None])[0][0], numbers_in[0]) > 0
assert torch.equal(seen, torch.eye(5).bool())  # no token looks at another one

# %% after: see-copy
assert copied.min() > 0.99 and found[0] > 0.99 and found[1:].max() < 0.5
torch.manual_seed(1)  # another start
assert min(learns(pair, copy_digits, at_each_token) for pair in pairs.values()) > 0.98
assert learns(pairs["reshaped merge"], two_animals, at_the_question) < 0.5


# the features for the position bring the digits back: without them two layers fail
class WithoutPosition(AnyPair):
    def forward(self, x):
        return super().forward(x * (torch.arange(32) < 8))


for name, low, high in (
    ("correct", 0.95, 1),
    ("reshaped split", 0, 0.5),
    ("reshaped merge", 0, 0.5),
):
    layer = train(WithoutPosition(32, 2, *pairs[name]), copy_digits, at_each_token, steps=100)
    assert low <= share_correct(layer, copy_digits, at_each_token)[-1] <= high, name

# %% after: two-tests  numbers: 4, 7

# %% after: maps
sees_future = {name for name, one in maps.items() if one.triu(1).any()}
assert sees_future == {"reshaped split", "reshaped merge"}
blocks = torch.block_diag(*[torch.ones(2, 2).tril()] * 4).bool()
assert torch.equal(maps["both reshaped"], blocks)
assert torch.equal(maps["heads never moved"], torch.eye(8).bool())

# %% after: table-of-tests
from unittest.mock import patch

caught = [name for name, row in tests.items() if row == [True, False, False, False, False]]
assert caught == ["learns the two animals", "causal map", "slice test"]
# with eight heads, the reshaped merge learns the two animals too
torch.manual_seed(0)  # one start in six needed more than 200 steps
layer = train(AnyPair(32, 8, *pairs["reshaped merge"]), steps=400)
assert share_correct(layer)[2] > 0.9
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

# %% after: the-answer  numbers: 0, 7, 25

# %% after: count-many-heads
from torch.utils.flop_counter import FlopCounterMode

order = layer.double()(words.double()).weights[0].argsort(dim=-1)  # (12, 6, 6)
forwards, backwards = order == order[:, :1], order == order[:, :1].flip(-1)
assert (forwards.all(dim=-1) | backwards.all(dim=-1)).all()  # in every head
measured = {}
sample = torch.randn(1, 128, 64, generator=torch.Generator().manual_seed(0))
for count in (1, 2, 4, 8, 16):
    layer = MultiHeadAttention(64, count)
    with FlopCounterMode(display=False) as counter:
        many = layer(sample).weights
    parameters = sum(p.numel() for p in layer.parameters())
    measured[count] = parameters, counter.get_total_flops(), many.numel()
assert len({row[:2] for row in measured.values()}) == 1
assert all(row[2] == count * measured[1][2] for count, row in measured.items())

# %% after: further-contiguity-3  numbers: 0, 1, 100, 101, 200, 201, 5
places = torch.arange(24).view(4, 3, 2).transpose(0, 1).flatten()[:6]
assert places.diff().tolist() == [1, 5, 1, 5, 1]
import pytest

product = torch.rand(1, 3, 4, 4) @ split(addresses[None] / 100, 3)  # (N, H, L, head_dim)
assert not torch.allclose(product.view(1, 4, 6), merge(product))  # wrong, without an error
with pytest.raises(RuntimeError, match="view size is not compatible"):
    product.transpose(1, 2).view(1, 4, 6)

# %% after: batch-axis
assert default(batch, batch, batch)[1].shape == (5, 3, 3)
assert theirs(batch, batch, batch)[1].shape == (3, 5, 5)

# %% after: mean-of-heads
each = theirs(batch, batch, batch, average_attn_weights=False)[1]
assert torch.allclose(theirs(batch, batch, batch)[1], each.mean(dim=1), atol=1e-6)

# %% after: exercise-1  numbers: 4, 6, 8, 2

# %% after: exercise-4
lying = by_head.contiguous().flatten().tolist()  # the two orders that are printed there
assert addresses.flatten()[:13].tolist() == [
    0,
    1,
    10,
    11,
    20,
    21,
    100,
    101,
    110,
    111,
    120,
    121,
    200,
]
assert lying[:13] == [0, 1, 100, 101, 200, 201, 300, 301, 10, 11, 110, 111, 210]
heads = split(addresses[None], 3)
assert heads.untyped_storage().data_ptr() == addresses.untyped_storage().data_ptr()
assert torch.equal(heads, heads.contiguous()) and (weights @ weights).is_contiguous()

# %% after: sources  numbers: 2017, 2019, 6, 42929, 2024

# %% after: teacher-plan  numbers: 50, 13, 9, 4, 11, 10, 3, 210, 64, 128

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 8, 12
x = torch.randn(2, 5, 12)
dealt = x.view(2, 5, 4, 3).permute(0, 3, 1, 2)
assert torch.equal(dealt[:, 0], x[..., [0, 3, 6, 9]]) and dealt.shape == split(x, 3).shape
