# %% after: a-week  numbers: 4

# %% after: one-week
assert week.shape == (7, 12) and answer.shape == (7,)
assert torch.equal(week.sum(dim=-1), torch.full((7,), 2.0))
numbers = week[:, 7:].argmax(dim=-1).tolist()
assert torch.equal(week[:, :7], torch.eye(7)) and numbers[1:] + numbers[:1] == answer.tolist()

# %% after: tokens-as-they-are
raw, numbers = week @ week.T, week[:, 7:].argmax(dim=-1)
assert torch.equal(raw.diagonal(), torch.full((7,), 2.0)) and torch.equal(raw, raw.T)
alike = (numbers[:, None] == numbers).float()
assert torch.equal(raw, alike + torch.eye(7))  # the same number, and the same day
assert torch.equal(as_they_are.argmax(dim=-1), torch.arange(7))
assert as_they_are.diagonal().max() < 0.25  # the largest of its row, and far from most of it
many, _ = make_weeks(500)  # in any week the diagonal is ahead
assert torch.equal((many @ many.mT).argmax(dim=-1), torch.arange(7).expand(500, 7))

# %% after: widths  numbers: 4, 1, 0.26
from attnlab import load_table

# the projection of one token and of a sentence, with matrices of random numbers: the reference
_, _, five = load_table("the_next_day_is_bright.csv")
torch.manual_seed(123)
random_query, random_key, random_value = (torch.rand(8, 4) for _ in range(3))
query_of_next = five[1] @ random_query
reference = torch.tensor([0.8463, 2.3367, 1.1531, 1.9900])
assert torch.allclose(query_of_next, reference, atol=1e-4)
summed = sum(five[1, feature] * random_query[feature, 0] for feature in range(8))
assert torch.allclose(summed, query_of_next[0])
queries, keys = five @ random_query, five @ random_key
assert queries.shape == keys.shape == (five @ random_value).shape == (5, 4)
assert torch.allclose(queries[1], query_of_next)
assert not torch.allclose(queries @ keys.T, (queries @ keys.T).T, atol=0.1)

# %% after: by-hand
number = int(week[0, 7:].argmax())
assert torch.equal(week[0] @ W_query, W_query[0] + W_query[7 + number])
assert torch.allclose(place.norm(dim=-1), torch.tensor(4.0))
small = (place.roll(-1, dims=0) @ place.T / 4**2 / 2**0.5).softmax(dim=-1)  # with radius 1
assert (small[torch.arange(7), torch.arange(1, 8) % 7] - 0.26).abs().max() < 0.005

# %% after: three-rows
assert torch.equal(query[0], key[1]) and value[1].argmax() == answer[0]
assert torch.allclose(query[0].norm(), torch.tensor(4.0))
assert torch.isclose(query[0] @ key[1], torch.tensor(16.0))
assert abs(query[0] @ key[1] / 2**0.5 - 11.3) < 0.05

# %% after: see-tuesday
assert abs(scores[1, 0] + 2.5) < 0.05
assert (
    torch.allclose(scores[6, 0], scores[0, 1])
    and 90 < 2 * 360 / len(days)
    and abs(2 * 360 / len(days) - 103) < 0.5
)
assert torch.equal(weights.argmax(dim=-1), torch.arange(1, 8) % 7) and weights.amax() > 0.9
assert (weights.topk(3).indices.sort().values[0] == torch.tensor([0, 1, 2])).all()

# %% after: output
assert torch.equal(output.argmax(dim=-1), answer)
torch.manual_seed(1)
many, wanted = make_weeks(500)  # in 500 other weeks as well
q, k, v = many @ W_query, many @ W_key, many @ W_value
assert torch.equal(((q @ k.mT / 2**0.5).softmax(dim=-1) @ v).argmax(dim=-1), wanted)

# %% after: the-class
from attnlab import load_table

torch.manual_seed(5)
ours = random_matrix(12, 2)
torch.manual_seed(5)  # nn.Linear draws the same numbers, laid out as (2, 12)
theirs = torch.nn.Linear(12, 2, bias=False).weight
torch.manual_seed(5)
assert torch.allclose(theirs.flatten(), (2 * torch.rand(24) - 1) / 12**0.5)
assert ours.abs().max() <= 12**-0.5 and ours.requires_grad
# this holds for nn.Linear; nn.MultiheadAttention draws from a wider range
assert torch.nn.MultiheadAttention(12, 3).in_proj_weight.abs().max() > 12**-0.5

# with the numbers of the reference, the class repeats the steps that have no class
_, _, five = load_table("the_next_day_is_bright.csv")
torch.manual_seed(123)
matrices = [torch.rand(8, 4) for _ in range(3)]
layer = WithMatrices(8, 4, 4)
with torch.no_grad():
    for parameter, matrix in zip(layer.parameters(), matrices, strict=True):
        parameter.copy_(matrix)
q, k, v = (five @ matrix for matrix in matrices)
steps = (q @ k.T / 4**0.5).softmax(dim=-1) @ v
got = layer(five)[0]
assert torch.allclose(got, steps) and got.requires_grad and not steps.requires_grad
assert torch.allclose(got[0, :2], torch.tensor([1.3246, 1.5236]), atol=1e-4)
assert [name for name, _ in layer.named_parameters()] == ["W_query", "W_key", "W_value"]
batch = torch.stack([five, 2 * five])
assert torch.allclose(layer(batch)[0][1], layer(2 * five)[0])

# %% after: see-parameters
assert count == 12 * (2 + 2 + 5) == 108
assert count + 7 * 7 == 157 and count + 700 * 700 == 490_108 and count * 100 == 10_800

# %% after: train-two
assert len(copies) == 16 and accuracy(two).mean() == 1 and accuracy(copies[0]).mean() < 0.25
assert accuracy(two).shape == (7,)

# %% after: see-one-matrix
found = dict(zip(names, shares, strict=True))
assert abs(found["equal weights"].mean() - 0.41) < 0.01
assert abs(found["no matrices"].mean() - 0.35) < 0.01
assert abs(found["one for both"].mean() - 0.77) < 0.005
assert (found["one for both"] < 0.5).sum() == 2 and found["two matrices"].min() == 1
assert found["queries only"].min() == 1 and one_sided.W_query.numel() == 144
# the plain average: naming the commonest number of the week, with W_V as the identity
torch.manual_seed(1)
many, wanted = make_weeks(2000)
counts = many[:, :, 7:].sum(dim=1)
commonest = (counts.argmax(dim=-1)[:, None] == wanted).float().mean()
assert abs(commonest - found["equal weights"].mean()) < 0.01
# with values that are not trained either, the last five features of the average are enough
for seed in (1, 2):  # and with other initialisations
    bare = new_layer(seed)
    bare.W_query, bare.W_key = random_matrix(12, 12), as_is.W_key
    bare.W_value = nn.Parameter(torch.eye(12)[:, 7:], requires_grad=False)
    train(bare)
    assert accuracy(bare).mean() > 0.995
# other initialisations, and a wider d_k: one matrix at most six days of seven
for seed, d_k in ((1, 2), (5, 2), (0, 8), (1, 8)):  # most of them lose about one day
    torch.manual_seed(seed)
    single = WithMatrices(12, d_k, 5)
    single.W_key = single.W_query
    train(single)
    share = accuracy(single)
    assert 0.7 < share.mean() < 0.9 and share.min() < 0.25
    assert (share > 0.8).sum() in (5, 6)  # it finds the direction of most days
    weights = single(many)[1]  # no week in which every day prefers the next
    assert not (weights.argmax(dim=-1) == torch.arange(1, 8) % 7).all(dim=-1).any()
# a symmetric table of scores never prefers the next day to the one before in all seven rows
tables = torch.randn(5000, 7, 7, generator=torch.Generator().manual_seed(0))
tables = tables + tables.mT
after = torch.stack([tables[:, i, (i + 1) % 7] for i in range(7)], dim=1)
before = torch.stack([tables[:, i, (i - 1) % 7] for i in range(7)], dim=1)
assert not (after > before).all(dim=1).any()

# %% after: trained-maps
tomorrow = torch.arange(1, 8) % 7
wrong = [days[i] for i in range(7) if of_week[0].argmax(dim=-1)[i] != tomorrow[i]]
assert wrong == ["Mon", "Fri"] and torch.equal(of_week[1].argmax(dim=-1), tomorrow)
queries = week @ one.W_query  # which are the keys as well
symmetric = queries @ queries.T
assert torch.equal(symmetric, symmetric.T) and not torch.allclose(of_week[0], of_week[0].T)
assert symmetric[1].argmax() == 2 and symmetric[2].argmax() == 3  # Tue prefers Wed, Wed Thu
longest = queries.norm(dim=-1).argmax()  # its largest score is for itself, in any week
assert symmetric[longest].argmax() == longest and symmetric.argmax(dim=-1)[[0, 4]].tolist() == [
    0,
    4,
]
assert of_week[0, 1, 2] > 0.9 and of_week[0, 2, 1] < 0.01
assert of_week[0].argmax(dim=-1)[[0, 4]].tolist() == [0, 4]  # Mon and Fri look at themselves

# %% after: explore-training
assert torch.allclose(each_day @ two.W_key, two.W_key[:7] + two.W_key[7:].mean(dim=0), atol=1e-5)
for matrix in (two.W_query, two.W_key):  # the five rows of the numbers are nearly equal
    assert (matrix[7:] - matrix[7:].mean(dim=0)).norm(dim=-1).max() < 0.01
    assert matrix[7:].mean(dim=0).norm() > 0.1  # but they are not 0
right = torch.stack([accuracy(copy) for copy in copies])  # (steps / 20, days)
last = [int((right[:, i] > 0.99).nonzero()[0]) * 20 for i in range(7)]
assert days[last.index(max(last))] == "Fri" and sorted(last)[-2] < 60 < max(last)
queries, keys = each_day @ two.W_query, each_day @ two.W_key
cosine = F.cosine_similarity(queries[:, None], keys, dim=-1)  # of each arrow with each dot
assert torch.equal(cosine.argmax(dim=-1), torch.arange(1, 8) % 7)  # the next day's is nearest
assert cosine.amax(dim=-1).min() > 0.95  # an angle of at most 18 degrees
spread = [(each_day @ copy.W_key).norm(dim=-1).mean() for copy in copies]
assert spread[0] < 0.5 and spread[3] < spread[6] < spread[10] < spread[15]
others = [i for i in range(7) if days[i] != "Fri"]
for copy in copies[2:4]:  # after 40 and 60 steps
    lengths = (each_day @ copy.W_query).norm(dim=-1)
    assert lengths[4] < 0.8 and lengths[others].min() > 2
    assert copy is not copies[2] or lengths[4] < 0.6  # no name at step 40
    largest = copy(week)[1].amax(dim=-1)
    assert largest[4] < 0.5 and largest[4] < largest[others].min()
torch.manual_seed(2)
many, wanted = make_weeks(500)
losses = [
    F.cross_entropy(copies[i](many)[0].flatten(0, 1), wanted.flatten()) for i in (4, 7, 10, 15)
]
assert losses[0] > losses[1] > losses[2] > losses[3]
assert copies[4](week)[1].amax(dim=-1).mean() < copies[10](week)[1].amax(dim=-1).mean()

# %% after: see-again
assert accuracy(another).mean() == 1
pair = [each_day @ one.W_query @ (each_day @ one.W_key).T for one in (two, another)]
assert (pair[0] - pair[1]).abs().max() > 5  # "and its scores are different too"
sevens, _ = make_weeks(500)
for seed in range(1, 4):  # and in two further runs
    layer = another if seed == 1 else new_layer(seed)
    if seed > 1:
        train(layer)
    arrows, dots = each_day @ layer.W_query, each_day @ layer.W_key
    nearest = F.cosine_similarity(arrows[:, None], dots, dim=-1)
    assert torch.equal(nearest.argmax(dim=-1), torch.arange(1, 8) % 7)
    assert nearest.amax(dim=-1).min() > 0.95 and accuracy(layer).mean() > 0.995
    assert 3 < dots.norm(dim=-1).min() and dots.norm(dim=-1).max() < 5  # a ring
    raw = (sevens @ layer.W_query) @ (sevens @ layer.W_key).mT
    assert (raw - arrows @ dots.T).abs().max() < 0.25  # which number it is hardly matters
    assert torch.equal((arrows @ dots.T).argmax(dim=-1), torch.arange(1, 8) % 7)


def order(layer):
    angles = torch.atan2(*(each_day @ layer.W_key).T.flip(0))
    around = angles.argsort().tolist()
    around = around[around.index(0) :] + around[: around.index(0)]  # from Mon on
    return min(around, [0, *reversed(around[1:])])  # whichever way round


assert order(two) != order(another) and list(range(7)) not in (order(two), order(another))


# %% after: another-pair
assert (new_Q != trained_Q).any(dim=-1).all() and (new_K != trained_K).any(dim=-1).all()
raw = week[0] @ M @ week[1]  # the raw score of Mon for Tue: four entries of M
entries = M[week[0].bool()][:, week[1].bool()]
assert entries.shape == (2, 2) and torch.isclose(raw, entries.sum(), atol=1e-4)
assert torch.equal(raw_scores.argmax(dim=-1), torch.arange(1, 8) % 7)  # that of the next day
many, _ = make_weeks(500)
assert (many @ M @ many.mT - raw_scores).abs().max() < 0.1  # the scores of real tokens are alike
# the entries of M do not follow from the scores: every token has one day and one number
shifted = trained_Q + torch.cat([torch.ones(7, 1), -torch.ones(5, 1)]) * torch.tensor([1.5, -2.0])
assert torch.allclose(many @ shifted @ trained_K.T @ many.mT, many @ M @ many.mT, atol=1e-4)
assert (shifted @ trained_K.T - M).abs().max() > 5
changed = deepcopy(two)
with torch.no_grad():
    changed.W_query.copy_(new_Q)
    changed.W_key.copy_(new_K)
assert torch.allclose(changed(week)[0], two(week)[0], atol=1e-4)
R, _ = torch.linalg.qr(torch.randn(2, 2, generator=torch.Generator().manual_seed(0)))
assert torch.allclose(R.inverse().T, R, atol=1e-5)  # a rotation or reflection
# biases are turned along with the matrices, and then no score changes either
generator = torch.Generator().manual_seed(0)
x, y = torch.randn(2, 20, 8, generator=generator)
w_q, w_k = torch.randn(2, 8, 4, generator=generator)
b_q, b_k = torch.randn(2, 4, generator=generator)
B = torch.randn(4, 4, generator=generator)
turned = (x @ w_q @ B + b_q @ B) @ (y @ w_k @ B.inverse().T + b_k @ B.inverse().T).T
straight = (x @ w_q + b_q) @ (y @ w_k + b_k).T
assert torch.allclose(turned, straight, rtol=1e-3, atol=1e-2)


# with rotations by position, a rotation in the same plane changes no score, and a stretch does
def rotated(rows):
    angles = torch.arange(20.0)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack(
        [rows[:, 0] * cos - rows[:, 1] * sin, rows[:, 0] * sin + rows[:, 1] * cos], -1
    )


q, k = torch.randn(2, 20, 2, generator=generator)
turn = torch.tensor([[0.8, -0.6], [0.6, 0.8]])
plain = rotated(q) @ rotated(k).T
assert torch.allclose(rotated(q @ turn) @ rotated(k @ turn).T, plain, atol=1e-4)
assert not torch.allclose(rotated(q @ A) @ rotated(k @ A.inverse().T).T, plain, atol=0.1)
left_behind = (x @ w_q @ B + b_q) @ (y @ w_k @ B.inverse().T + b_k).T
assert (left_behind - straight).abs().max() > 1

# %% after: read-the-product
assert M.numel() == 144 and trained_Q.numel() == trained_K.numel() == 24
assert torch.linalg.matrix_rank(M) == 2

# %% after: with-linear
with_bias = WithLinear(12, 2, 5, bias=True)
assert sum(p.numel() for p in with_bias.parameters()) == 12 * 9 + 9
small = WithLinear(8, 4, 4, bias=True)
assert sum(p.numel() for p in small.parameters()) == 3 * (8 * 4 + 4)
assert nn.Linear(12, 2).bias is not None
output, weights = small(torch.rand(2, 5, 8))
assert output.shape == (2, 5, 4) and torch.allclose(weights.sum(dim=-1), torch.ones(2, 5))

# %% after: copy-the-matrices
from attnlab import SelfAttention, load_table

_, _, five = load_table("the_next_day_is_bright.csv")
torch.manual_seed(789)  # the reference: another class and another seed, and another output
reference = WithLinear(8, 4, 4)
expected = torch.tensor([0.0174, 0.0553])
assert torch.allclose(reference(five)[0][0, :2], expected, atol=1e-4)
# one seed is not enough, because the two classes lay their numbers out differently
torch.manual_seed(123)
matrices = WithMatrices(8, 4, 4)
torch.manual_seed(123)
layers = WithLinear(8, 4, 4)
assert not torch.allclose(matrices(five)[0], layers(five)[0], atol=1e-3)
with torch.no_grad():
    for parameter, matrix in zip(layers.parameters(), matrices.parameters(), strict=True):
        parameter.copy_(matrix.T)
assert torch.allclose(matrices(five)[0], layers(five)[0], atol=1e-6)
ours = SelfAttention(8, 4)
ours.load_state_dict(layers.state_dict())  # the same names
assert torch.allclose(ours(five[None]).output[0], layers(five)[0], atol=1e-6)
widths = {tuple(projection.weight.shape) for projection in (ours.q_proj, ours.k_proj, ours.v_proj)}
assert widths == {(4, 8)}  # one width for all three
try:
    ours(five)
except ValueError:
    pass
else:
    raise AssertionError("SelfAttention took a sentence without a batch axis")
# a forgotten .T: an error for (12, 2), and silently another layer for a square matrix
try:
    torch.empty(2, 12).copy_(torch.empty(12, 2))
except RuntimeError:
    pass
else:
    raise AssertionError("copy_ took a matrix of the wrong shape")
square = torch.nn.Linear(12, 12, bias=False)
matrix, x = torch.randn(2, 12, 12, generator=torch.Generator().manual_seed(0))
with torch.no_grad():
    square.weight.copy_(matrix)
assert not torch.allclose(square(x), x @ matrix, atol=0.1)

# %% after: the-answer
assert one_sided.W_query.numel() == 144 and two.W_query.numel() + two.W_key.numel() == 48

# %% after: t-silent-code
mixed = torch.einsum("nif,mfn->nim", four_queries, four_keys)  # other sequences are mixed in
assert torch.allclose(wrong, mixed, atol=1e-5)
assert torch.allclose(correct, torch.einsum("nif,njf->nij", four_queries, four_keys), atol=1e-5)

# %% after: zeros
assert torch.equal(nothing, torch.zeros(7, 5)) and torch.allclose(same, torch.tensor(1 / 7))
fresh = new_layer()(week)[0]
assert not torch.allclose(fresh[0], fresh[1], atol=1e-3)

# %% after: zeros-learn
assert not stuck.W_query.any() and not stuck.W_key.any() and stuck.W_value.any()

# %% after: bias-of-keys
assert not torch.equal(with_bias(week)[0], torch.zeros(7, 5))


def rotated_pairs(rows):
    angles = torch.arange(7.0)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack(
        [rows[:, 0] * cos - rows[:, 1] * sin, rows[:, 0] * sin + rows[:, 1] * cos], -1
    )


# with a rotation by position between the projection and the dot product, the bias does matter
b = torch.tensor([5.0, 5.0])
unbiased = (rotated_pairs(query) @ rotated_pairs(key).T).softmax(dim=-1)
biased = (rotated_pairs(query) @ rotated_pairs(key + b).T).softmax(dim=-1)
assert (biased - unbiased).abs().max() > 0.1

# %% after: untrained-draws
positive, linear = agreeing(words, 0, 1), agreeing(words, -limit, limit)
assert positive > 900 and 200 < linear < 400
assert words.min() > 0
assert 1000 * len(words) * (1 / len(words)) ** 5 < 2  # of 1,000 draws, by chance
assert abs(linear / 1000 - 1 / 3) < 0.05
# whatever the matrices: centred queries never agree
assert agreeing(centred, -1, 1) == agreeing(centred, 0, 1) == 0
# the mean query is large compared with the deviations; the days of any week have less in common
torch.manual_seed(0)
mean = words.mean(dim=0)
assert mean.norm() > 2 * (words - mean).norm(dim=-1).mean()
for tokens in make_weeks(5)[0]:
    W_q, W_k = torch.rand(2, 1000, 12, 4)
    for low in (0, -1):  # positive, and of both signs
        best = (tokens @ (low + (1 - low) * W_q) @ (tokens @ (low + (1 - low) * W_k)).mT).argmax(-1)
        agree = (best == best[:, :1]).all(dim=-1).sum()
        assert agree < (500 if low == 0 else 10)
# the layer of nn.Linear's numbers starts with nearly even weights
torch.manual_seed(0)
first = torch.nn.Linear(8, 4, bias=False), torch.nn.Linear(8, 4, bias=False)
start = ((first[0](words) @ first[1](words).T) / 2).softmax(dim=-1)
assert 0.15 < start.min() and start.max() < 0.25

# %% after: exercise-1  numbers: 12, 7, 5, 9

# %% after: exercise-4  numbers: 8, 4


# %% after: layer-test-solution
# a correct layer with a causal mask passes
assert layer_test_solution(
    lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)[..., :4]
)


def own_and_mean(x):
    return x[..., :4] + x[..., :4].mean(dim=-2, keepdim=True)


def wrong_axis(x):
    return (x @ x.mT).softmax(dim=-2) @ x[..., :4]


for passes in (own_and_mean, wrong_axis, lambda x: F.dropout(x), lambda x: x * float("nan")):
    assert layer_test_solution(passes)
refused = 0
for seed in range(300):  # it refuses no working layer by chance, even if the scores are large
    torch.manual_seed(seed)
    W_q, W_k, W_v = torch.randn(3, 8, 4)

    def working(x, W_q=W_q, W_k=W_k, W_v=W_v):
        return (x @ W_q @ (x @ W_k).mT / 2).softmax(dim=-1) @ x @ W_v

    assert layer_test_solution(working)
    x = torch.randn(1, 5, 8)
    changed = torch.cat([torch.randn(1, 1, 8), x[:, 1:]], dim=1)
    refused += torch.allclose(working(x)[:, 1], working(changed)[:, 1], atol=1e-5)
assert 10 < refused < 100  # but a single sentence does refuse some

# %% after: exercise-5  numbers: 12, 2, 512, 64
wide = torch.nn.Linear(512, 64, bias=False).weight
assert 2 * wide.numel() == 65_536 and (wide.T @ wide).numel() == 262_144
product = (two.W_query @ two.W_key.T).detach() * 6**0.5  # it divides by the root of 12, not of 2
hers = new_layer()
hers.W_query, hers.W_key = torch.nn.Parameter(product), one_sided.W_key
hers.W_value = two.W_value
assert torch.allclose(hers(week)[0], two(week)[0], atol=1e-4)

# %% after: torch-layer
separate = nn.MultiheadAttention(12, 3, kdim=5, vdim=7)  # three matrices, to 12 features each
assert separate.in_proj_weight is None and separate.k_proj_weight.shape == (12, 5)
assert separate.v_proj_weight.shape == (12, 7)
assert module.in_proj_weight.shape == (3 * 12, 12) and module.in_proj_bias is not None
one_piece = nn.Linear(12, 9, bias=False)
with torch.no_grad():
    parts = (linear.q_proj, linear.k_proj, linear.v_proj)
    one_piece.weight.copy_(torch.cat([part.weight for part in parts]))
    q, k, v = one_piece(week).split([2, 2, 5], dim=-1)
    cut = F.scaled_dot_product_attention(q, k, v)
    assert torch.allclose(cut, linear(week)[0], atol=1e-5)

# %% after: sources  numbers: 2017, 2024, 2021

# %% after: teacher-plan  numbers: 45, 7, 12, 9, 6, 8, 3

# %% after: teacher-questions  numbers: 5, 8, 4, 0
