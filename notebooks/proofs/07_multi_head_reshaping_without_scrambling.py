# %% after: opening  numbers: 3, 7, 0, 5, 1

# %% after: two-animals-in-one-question  numbers: 15

# %% after: the-task
assert (
    two_animals(1000)[1].max() == 7
    and lists.shape == (3, 6, 32)
    and set(lists.unique().tolist()) == {0.0, 1.0}
)
for tokens, (one, other) in zip(lists, answers.tolist(), strict=True):
    *entries, question = in_words(tokens)
    known = dict(entry.split() for entry in entries)
    first, second = question.rstrip("?").split(", ")
    assert len(known) == 5 and first != second
    assert (int(known[first]), int(known[second])) == (one, other)

# %% after: ask-one-head  numbers: 20, 30, 64

# %% after: see-one-head
found = report({1: one_head}).loc[1]
assert found["both correct"] == 0.2  # a fifth
assert max(found[:2]) > 0.8 and min(found[:2]) < 0.3  # one number is found, the other is not
tokens, answer = two_animals(2000)
different = answer[:, 0] != answer[:, 1]
read = guess(one_head, two_animals, tokens).argmax(dim=-1)
assert (read == answer).any(dim=-1).float().mean() > 0.95  # nearly always one of the two
assert (read[:, 0] == read[:, 1])[different].float().mean() > 0.5  # often the same number twice
both = (read == answer).all(dim=-1)
assert abs((~different).float().mean() - 1 / 8) < 0.03 and both[~different].float().mean() > 0.98
assert abs(both[different].float().mean() - 0.07) < 0.015
# one place of the question has more weight in nearly all questions, so the mixture holds the order:
# two linear layers, trained on the output of the finished head, find both numbers
asked = tokens[:, 5, 16:].unflatten(-1, (2, 8))  # (n, 2, 8)
where = tokens[:, :5, :8] @ asked.mT  # (n, 5, 2): 1 at the animal that is named
share_of_first, share_of_second = (one_head(tokens).weights[:, 0, -1:, :5] @ where)[:, 0].T
first_leads = (share_of_first > share_of_second).float().mean()
assert max(first_leads, 1 - first_leads) > 0.9
torch.manual_seed(0)
reader = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
adam = torch.optim.Adam(reader.parameters(), lr=0.01)
with torch.no_grad():
    pool, known = two_animals(10_000)
    mixtures = one_head(pool)[0][:, -1]
for _ in range(300):
    chosen = torch.randint(len(pool), (256,))
    mixture, wanted = mixtures[chosen], known[chosen]
    adam.zero_grad()
    F.cross_entropy(
        reader(mixture).unflatten(-1, (2, 8)).flatten(0, 1), wanted.flatten()
    ).backward()
    adam.step()
both_read = reader(one_head(tokens)[0][:, -1]).unflatten(-1, (2, 8)).argmax(dim=-1) == answer
assert both_read.all(dim=-1).float().mean() > 0.9
for seed in (1, 2):  # other seeds, and fewer steps: about 20 to 30 %
    layer = train(MultiHeadAttention(32, 1, bias=False), two_animals, steps=400, seed=seed)
    assert 0.18 < share_correct(layer, two_animals)[2] < 0.32

# %% after: see-more-heads
table = report(layers)
assert table["both correct"][[2, 4]].eq(1.0).all()
assert set(table["parameters"]) == {4 * 32 * 32}
layer = train(MultiHeadAttention(32, 2, bias=False), two_animals, seed=1)
assert share_correct(layer, two_animals)[2] > 0.99

# %% after: where-they-look
from attnlab import AttentionOutput

# over 2,000 questions: the mean weight of the animal that is named first, and of the second


def looked_at(layer, x):
    weights = layer(x).weights[:, :, -1, :5]  # (n, H, 5)
    asked = x[:, 5, 16:].unflatten(-1, (2, 8))  # (n, 2, 8)
    where = x[:, :5, :8] @ asked.mT  # (n, 5, 2): 1 at the animal that is named
    return (weights @ where).mean(dim=0).tolist()


x, _ = two_animals(2000)
[[first, second]] = looked_at(one_head, x)
assert min(first, second) > 0.3 and 0.8 < first + second
for first, second in (of_two := looked_at(layers[2], x)):
    assert max(first, second) > 0.85 and min(first, second) < 0.1
assert (of_two[0][0] > of_two[0][1]) != (of_two[1][0] > of_two[1][1])
assert looks[0].topk(2).values.sum() > 0.8 and (looks[1:].amax(dim=-1) > 0.8).all()


# with two linear layers behind it, one head learns the task, and weights the two animals unequally
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

# %% after: split-and-merge
import pytest

from attnlab import merge_heads, split_heads

numbers = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))
for H in (1, 2, 3, 4, 6, 12):
    assert torch.equal(split(numbers, H), split_heads(numbers, H))
    assert torch.equal(merge(split(numbers, H)), numbers)
    assert torch.equal(merge(split(numbers, H).contiguous()), numbers)
    assert torch.equal(merge_heads(split(numbers, H)), numbers)
turned = numbers.transpose(0, 1)  # not contiguous
assert torch.equal(split(turned, 3), split_heads(turned, 3))
ten = torch.zeros(1, 4, 10)
assert ten.shape[-1] // 3 * 3 == 9  # integer division does not check that the heads fit
with pytest.raises(RuntimeError, match="invalid for input of size"):
    split(ten, 3)

# %% after: multi-head
torch.manual_seed(0)
layer, attnlabs = MultiHead(12, 2), MultiHeadAttention(12, 2, bias=False)
attnlabs.load_state_dict(layer.state_dict())
sample = torch.randn(3, 5, 12)  # (N, L, E)
output, weights = layer(sample)
assert torch.allclose(output, attnlabs(sample).output, atol=1e-6)
assert torch.allclose(weights, attnlabs(sample).weights, atol=1e-6)

# %% after: torch-layer
each = theirs(sentence, sentence, sentence, average_attn_weights=False)[1]
assert torch.allclose(each, weights, atol=1e-6)
merged = merge(weights @ split(ours.v_proj(sentence), 4))
assert not torch.allclose(merged, output, atol=0.1)  # without the last projection: another output
assert torch.allclose(merged @ ours.out_proj.weight.T, output, atol=1e-6)
# before the last projection, feature 0 depends on head 0 alone; after it, on all four
values = split(ours.v_proj(sentence), 4).detach().requires_grad_()
for result, reached in ((merge(weights.detach() @ values), 1), (None, 4)):
    if result is None:
        result = ours.out_proj(merge(weights.detach() @ values))
    (gradient,) = torch.autograd.grad(result[..., 0].sum(), values)
    assert gradient.abs().amax(dim=(0, 2, 3)).gt(0).sum() == reached
# the divisor: with the root of E the variance of random scores is an eighth for 8 heads
q, k = torch.randn(2, 4, 100, 512, generator=torch.Generator().manual_seed(0))
raw = split(q, 8) @ split(k, 8).mT
assert abs((raw / 64**0.5).var() - 1) < 0.02 and abs((raw / 512**0.5).var() - 1 / 8) < 0.003

# %% after: small-matrices
# on how many features of a token does head 0 depend? A slice of 64; with a projection, all 512
torch.manual_seed(42)
tokens = torch.randn(1, 10, 512)
W_query, W_key = torch.randn(2, 512, 512) / 512**0.5
single = tokens[:, :1].clone().requires_grad_()
for projected, count in ((single, 64), (single @ W_query, 512)):
    (gradient,) = torch.autograd.grad(split(projected, 8)[0, 0].sum(), single)
    assert (gradient != 0).sum() == count
# bare slices give eight diagonals; two matrices for query and key remove them
bare = split(tokens, 8)
assert torch.equal(bare[0, 3], tokens[0, :, 192:256])
own = (bare @ bare.mT / 8).softmax(dim=-1)
assert (own.argmax(dim=-1) == torch.arange(10)).all()
assert own.diagonal(dim1=-2, dim2=-1).mean() > 0.95
q, k = split(tokens @ W_query, 8), split(tokens @ W_key, 8)
apart = (q @ k.mT / 8).softmax(dim=-1)
assert apart.diagonal(dim1=-2, dim2=-1).mean() < 0.2

# %% after: follow-the-numbers  numbers: 210, 1, 001

# %% after: names
assert (by_head // 100 == torch.arange(4)[:, None]).all()  # the token of a row
assert (by_head // 10 % 10 == torch.arange(3)[:, None, None]).all()  # the head
assert names[2, 2] == 210 and names[0, 1] == 1
assert torch.equal(split(names[None], 3)[0], by_head)

# %% after: ask-rows  numbers: 6

# %% after: see-rows
assert same.numel() == 12 and same.sum() == 2 and same[0, 0] and same[2, 3]
explored = HeadsExplorer(way="short cut").result
assert torch.equal(explored.wrong_rows, ~same) and (~same).sum() == 10
assert torch.equal(short, names.reshape(3, 4, 2))
assert short[0].flatten().tolist() == names.flatten()[:8].tolist()  # eight numbers for head 0
assert same[0].sum() == 1

# %% after: pairs
# The reference layer without a transpose in its split. Its notebook sets no seed; this one gives
# the numbers that it prints, if its cell of layers is run twice.
from attnlab import load_table

tokens = load_table("ten_tokens.csv").values  # (10, 10)
torch.manual_seed(369139896)
for _ in range(3):
    torch.nn.Linear(5, 5, bias=False)
v_small, k_small, q_small = (torch.nn.Linear(5, 5, bias=False) for _ in range(3))
fc_out = torch.nn.Linear(10, 10)
parts = tokens[None].reshape(1, 10, 2, 5)  # batch, tokens, heads, head_dim
query, key, value = q_small(parts), k_small(parts), v_small(parts)
scores = query @ key.mT / 5**0.5
shares = scores.softmax(dim=-1)
heads = shares @ value
joined = heads.transpose(1, 2).contiguous().view(1, 10, 10)
final = fc_out(joined)
assert scores.shape == (1, 10, 2, 2) and final.shape == (1, 10, 10)  # (N, L, H, H)


def near(tensor, expected):
    return torch.allclose(tensor, torch.tensor(expected), atol=1e-4)


assert near(scores[0, 0], [[-0.1030, -0.2223], [-0.3210, -0.6317]])
assert near(shares[0, 0], [[0.5298, 0.4702], [0.5771, 0.4229]])
assert near(heads[0, 0, 0], [0.5127, -0.0231, 0.7679, 0.3540, -0.4895])
assert near(final[0, 0, :3], [0.4335, 0.0646, -0.2029])


def layer(x, repaired, is_causal=False):
    cut = x.reshape(1, 10, 2, 5)
    cut = cut.transpose(1, 2) if repaired else cut
    query, key, value = q_small(cut), k_small(cut), v_small(cut)
    mixed = F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
    return mixed, fc_out(mixed.transpose(1, 2).reshape(10, 10))


def reach(*options):
    return influence_map(lambda x: layer(x, *options)[1], tokens) > 0


assert torch.allclose(layer(tokens, False)[1], final[0], atol=1e-6)
before_merge = influence_map(lambda x: layer(x, False)[0].view(10, 10), tokens) > 0
assert torch.equal(before_merge, torch.eye(10).bool())  # no token looks at another one
pair_of_rows = torch.eye(5).repeat_interleave(2, dim=1).repeat(2, 1).bool()
assert torch.equal(reach(False), pair_of_rows)  # and its merge mixes two rows
assert torch.equal(joined[0, 5], torch.cat([heads[0, 0, 1], heads[0, 1, 1]]))
repaired = layer(tokens, True)[1]  # one transpose repairs both
assert near(repaired[0, :3], [0.4008, -0.1209, 0.0223]) and reach(True).all()
assert torch.equal(reach(True, True), torch.ones(10, 10).tril().bool())
assert not torch.equal(reach(False, True), torch.ones(10, 10).tril().bool())
assert abs((repaired - final[0]).abs().max() - 0.733) < 5e-4  # the shape is the same
# one small matrix for both heads is a large one with equal blocks: 75 parameters against 300
small = sum(linear.weight.numel() for linear in (q_small, k_small, v_small))
assert (small, 3 * torch.nn.Linear(10, 10, bias=False).weight.numel()) == (75, 300)
for linear in (q_small, k_small, v_small):
    blocks = torch.block_diag(linear.weight, linear.weight)
    assert torch.allclose(tokens @ blocks.T, linear(parts).flatten(-2)[0], atol=1e-6)

# all pairs return heads or a result of the correct size, and the layer without a transpose has
# scores of shape (N, L, H, H) and looks at no other token
numbers = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))
for name, (split_it, merge_it) in pairs.items():
    assert merge_it(split_it(numbers, 3)).shape == numbers.shape
    in_place = split_it(numbers, 3).shape == (2, 3, 5, 4)
    assert in_place == (name != "heads stay")
torch.manual_seed(0)
apart = MultiHead(12, 3, *pairs["heads stay"])
assert apart(numbers)[1].shape == (2, 5, 3, 3)
assert torch.equal(influence_map(lambda x: apart(x[None])[0][0], numbers[0]) > 0, torch.eye(5) > 0)

# %% after: see-round-trip
assert [*round_trip.values()] == [True, False, False, True, True]

# %% after: explore-heads
explored = HeadsExplorer(way="short cut").result
assert explored.wrong_scores.sum() == 46 and explored.wrong_scores.numel() == 48  # 2 are correct
assert not explored.wrong_scores[0, 0, 0] and not explored.wrong_scores[2, 3, 3]
for way in ("right", "short cut"):
    assert torch.equal(HeadsExplorer(way=way).result.merged, names)

# %% after: would-training  numbers: 0, 7, 200

# %% after: see-copy
assert min(copied.values()) > 0.99 and answered["correct"] > 0.99
assert max(share for name, share in answered.items() if name != "correct") < 0.7
# but with eight heads, the short merge learns the two-animal task too
for seed in (0, 1):
    layer = train(MultiHead(32, 8, *pairs["short merge"]), two_animals, seed=seed)
    assert share_correct(layer, two_animals)[2] > 0.95


# the features for the place bring the digits back: without them the layers with one short cut fail
class WithoutPlace(MultiHead):
    def forward(self, x):
        return super().forward(x * (torch.arange(32) < 8))


for name, low, high in (("correct", 0.95, 1), ("short split", 0, 0.5), ("short merge", 0, 0.5)):
    layer = train(WithoutPlace(32, 2, *pairs[name]), copy_digits, steps=100)
    assert low <= share_correct(layer, copy_digits)[-1] <= high, name
# another seed, and four heads: all five copy
for pair in pairs.values():
    copier = train(MultiHead(32, 4, *pair), copy_digits, steps=100, seed=1)
    assert share_correct(copier, copy_digits)[-1] > 0.95

# %% after: two-tests  numbers: 4, 7

# %% after: table-of-tests
alone = [True, False, False, False, False]
assert [*found["causal map"].values()] == [*found["slice test"].values()] == alone
assert [*found["learns the two animals"].values()] == alone
assert all(found["output shape"].values()) and all(found["learns to copy"].values())


# a split that swaps the sentences, and a merge that swaps them back
def crossed(x, H):
    return split(x.flip(0), H)


def crossed_back(heads):
    return merge(heads).flip(0)


assert torch.equal(causal_map(crossed, crossed_back), triangle)
assert not slice_test(crossed, crossed_back)


# such a layer is correct, until each sentence has a mask of its own
def padded(split, merge, keep):  # keep (N, 1, 1, S)
    heads = split(x / 100, 3)
    return merge(F.scaled_dot_product_attention(heads, heads, heads, attn_mask=keep))


for keep, same in ((None, True), (torch.arange(5) < torch.tensor([3, 5]).view(2, 1, 1, 1), False)):
    assert torch.allclose(padded(crossed, crossed_back, keep), padded(split, merge, keep)) is same
# a saturated softmax: zeros below the diagonal in the correct layer
loud = 30 * torch.randn(8, 32, generator=torch.Generator().manual_seed(0))


def attend_loudly(tokens):
    heads = split(tokens[None], 4)
    return merge(F.scaled_dot_product_attention(heads, heads, heads, is_causal=True))[0]


assert not torch.equal(influence_map(attend_loudly, loud) > 0, triangle)
# features 0, 3, 6, 9 for head 0, as in a question for teachers: other names for the features
dealt = x.view(2, 5, 4, 3).permute(0, 3, 1, 2)
assert torch.equal(dealt[:, 0], x[..., [0, 3, 6, 9]]) and dealt.shape == split(x, 3).shape
# both tests tell the five pairs apart at other sizes as well
for L, H in ((5, 2), (6, 3), (9, 4)):
    lower = torch.ones(L, L).tril().bool()
    for name, (split_it, merge_it) in pairs.items():
        sample = torch.randn(L, 12 * H, generator=torch.Generator().manual_seed(1))

        def attend(sample, split_it=split_it, merge_it=merge_it, H=H):
            heads = split_it(sample[None], H)
            mixed = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
            return merge_it(mixed)[0]

        correct = torch.equal(influence_map(attend, sample) > 0, lower)
        assert correct == (name == "correct"), (L, H, name)

# %% after: explore-many-heads
from torch.utils.flop_counter import FlopCounterMode

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
order = ManyHeadsExplorer(heads=12).result.weights.argsort(dim=-1)  # (12, 6, 6)
forwards, backwards = order == order[:, :1], order == order[:, :1].flip(-1)
assert (forwards.all(dim=-1) | backwards.all(dim=-1)).all()  # in every head

# %% after: strides
assert names.data_ptr() == cut.data_ptr() == by_head.data_ptr() == short.data_ptr()

# %% after: further-contiguity-3
places = torch.arange(24).view(4, 3, 2).transpose(0, 1).flatten()[:6]
assert places.diff().tolist() == [1, 5, 1, 5, 1]
assert by_head.flatten()[:6].tolist() == [0, 1, 100, 101, 200, 201]

# %% after: reshape-joins
assert torch.equal(by_head.transpose(0, 1).reshape(4, 6), names)
assert (by_head.reshape(4, 6)[0] // 100).unique().tolist() == [0, 1, 2]  # three tokens
# an error is no verdict
import pytest

heads = split(names[None] / 100, 3)  # (1, 3, 4, 2)
product = (heads @ heads.mT / 2**0.5).softmax(dim=-1) @ heads
assert product.view(1, 4, 6).shape == merge(product).shape
assert not torch.allclose(product.view(1, 4, 6), merge(product))  # wrong, without an error
with pytest.raises(RuntimeError, match="view size is not compatible"):
    product.transpose(1, 2).view(1, 4, 6)

# %% after: batch-axis
crossed = default(batch, batch, batch)[1]
assert crossed.shape == (5, 3, 3) and theirs(batch, batch, batch)[1].shape == (3, 5, 5)
moved = default(changed, changed, changed)[0] - default(batch, batch, batch)[0]
assert (moved.abs().amax(dim=-1) > 1e-6).all()

# %% after: dropout-sums
torch.manual_seed(1)
sums = torch.cat([dropping.train()(batch, batch, batch)[1].sum(dim=-1) for _ in range(200)])
assert sums.min() < 0.7 and sums.max() > 1.3 and abs(sums.mean() - 1) < 0.02
calm = dropping.eval()(batch, batch, batch)[1]
assert torch.allclose(calm.sum(dim=-1), torch.ones(3, 5))

# %% after: mean-of-two
assert two_rows.argmax(dim=-1).tolist() == [0, 2] and two_rows.mean(dim=0).argmax() == 1
each = theirs(batch, batch, batch, average_attn_weights=False)[1]
assert torch.allclose(theirs(batch, batch, batch)[1], each.mean(dim=1), atol=1e-6)

# %% after: interleaved
rows = interleaved.unflatten(0, (4, 3, 8)).transpose(0, 1).flatten(0, 2)
assert torch.equal(rows, stacked)
assert off_by > 1.2 * output.abs().max()

# %% after: ranks
assert [torch.linalg.matrix_rank(raw).item() for raw in tables_of] == [6, 4, 1]
assert torch.linalg.matrix_rank(narrow) == 6
lowest = torch.linalg.svdvals(narrow)[-1]  # far above the limit of matrix_rank in float64
assert lowest > 1000 * 6 * torch.finfo(torch.float64).eps

# %% after: exercise-1  numbers: 4, 6, 8, 2

# %% after: sources  numbers: 2017, 2019, 6, 42929

# %% after: teacher-plan  numbers: 45, 11, 9, 4, 7, 5, 210, 64, 128

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 8, 12, 0, 6, 9
