# %% after: shuffle-them
# every order of the words, not only one
import itertools

from attnlab import scaled_dot_product_attention

sentence = load_table("the_cat_sat_on_the_mat.csv").values.double()
before = scaled_dot_product_attention(sentence, sentence, sentence)
orders = torch.tensor([*itertools.permutations(range(6))])
after = scaled_dot_product_attention(*3 * [sentence[orders]])
assert torch.allclose(after, before[orders], atol=1e-9)

# %% after: see-mask
assert words == ["The", "cat", "sat", "on", "the", "mat"]
assert (change[0][2:] < 1e-5).all() and (change[1] > 0.1).all()
# any sentence, any swap among the first words, any values: later outputs stay
torch.manual_seed(1)
for _ in range(20):
    z, places = torch.randn(9, 8), torch.cat([torch.randperm(4), torch.arange(4, 9)])
    gap = (attend(z[places], is_causal=True) - attend(z, is_causal=True)[places]).norm(dim=-1)
    assert gap[4:].max() < 1e-5

# %% after: add-vectors  numbers: 2, 1, 10000
from attnlab import sinusoidal_positions

waves = sinusoidal_positions(64, 64)
omega = 10_000 ** (-2 * 3 / 64)
assert torch.allclose(waves[:, 6], (torch.arange(64) * omega).sin(), atol=1e-5)
assert torch.allclose(waves[:, 7], (torch.arange(64) * omega).cos(), atol=1e-5)
assert (waves[:, :2].diff(dim=0).abs().amax(dim=0) > 0.9).all()
assert (waves[:, -2:].diff(dim=0).abs() < 2e-4).all()

# %% after: cross-terms
x_, y_, p_ = torch.randn(5), torch.randn(5), torch.randn(2, 5)
terms = x_ @ y_ + x_ @ p_[1] + p_[0] @ y_ + p_[0] @ p_[1]
assert torch.allclose((x_ + p_[0]) @ (y_ + p_[1]), terms, atol=1e-5)
products = p @ p.T
mixed = p @ (torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) / 8) @ p.T
assert (mixed.diagonal(2) - mixed.diagonal(2)[0]).abs().max() > 1  # seen through projections
for far_ in range(64):
    diagonal = products.diagonal(far_)
    assert (diagonal - diagonal[0]).abs().max() < 1e-3

# %% after: turn
scores = [turn(q, 0.5 * m) @ turn(k, 0.5 * n) for m, n in ((3, 1), (10, 8), (6, 2), (1, 3))]
assert torch.isclose(scores[0], scores[1], atol=1e-5)
assert all((scores[0] - other).abs() > 0.5 for other in scores[2:])

# %% after: proof  numbers: 2


def angle_between(one, other):
    return torch.atan2(one[1], one[0]) - torch.atan2(other[1], other[0])


theta, generator = 0.37, torch.Generator().manual_seed(0)
for _ in range(50):
    a, b = torch.randn(2, 2, generator=generator)
    m, n = torch.randint(100, (2,), generator=generator).tolist()
    alpha = angle_between(a, b)
    wanted = a.norm() * b.norm() * torch.cos(alpha + (m - n) * theta)
    assert torch.isclose(turn(a, m * theta) @ turn(b, n * theta), wanted, atol=1e-4)

# %% after: explore-rotary
explorer = RotaryExplorer(ask=False)
assert explorer.data["speeds"][explorer.data["bases"].index(10_000.0)][:2] == [1.0, 0.1]

# %% after: by-hand
table = rotate_by_hand(queries) @ rotate_by_hand(keys).T
for far_ in range(-5, 6):
    diagonal = table.diagonal(far_)
    assert (diagonal - diagonal[0]).abs().max() < 1e-4
assert table.std() > 0.5

# %% after: task
entries = to_words(lists.tokens[0])
asked = entries[-1].removesuffix("?")
listed = [int(one[-1]) for one in entries[:-1] if one.startswith(f"{asked} ")]
assert len(set(listed)) >= 2 and listed[-1] == lists.answers[0, -1]

# %% after: layouts
# rows of W_Q and W_K reordered: the layer works with halves, as exercise 4 does it
order_ = [*range(0, 16, 2), *range(1, 16, 2)]
reorder = [16 * head + i for head in range(4) for i in order_]
other = load_list_reader().attention
for projection in (other.q_proj, other.k_proj):
    projection.weight.data = projection.weight.data[reorder]
    projection.bias.data = projection.bias.data[reorder]
z = torch.randn(2, 9, 64, generator=torch.Generator().manual_seed(0))
moved = rotary_attention(other, z, rotate_by_hand)
assert torch.allclose(moved, rotary_attention(reader.attention, z, rotate), atol=1e-4)
assert torch.allclose(rotate(some, layout="halves"), rotate_by_hand(some), atol=1e-5)

# %% after: wrong-rotations
assert shares[0] > 0.98 and 0.75 < shares[1] < 0.82 and 0.44 < shares[2] < 0.54
assert shares[3] > 0.97
# without rotation, every answer is a number that was recorded for the animal
some_lists = make_lists(2000, 16, generator=torch.Generator().manual_seed(1))
x_ = rotary_attention(reader.attention, reader.embed(some_lists.tokens), lambda x: x)
guesses = reader.read(x_[:, -1]).argmax(dim=-1).tolist()
for i in (some_lists.entries[:, -1] >= 2).nonzero().flatten().tolist():
    *before_, question = to_words(some_lists.tokens[i])
    assert f"{question.removesuffix('?')} {guesses[i]}" in before_

# %% after: penalty
from attnlab import alibi_bias

lower = torch.ones(6, 6).tril() > 0
assert torch.allclose(((m - m[:, None]).tril() / 4)[lower], alibi_bias(4, 6)[0][lower])
trained_slopes = -alibi_bias(4, 2)[:, 1, 0]
assert torch.allclose(trained_slopes, 4.0 ** -torch.arange(1, 5))

# %% after: wrong-read  numbers: 0.48, 0.79, 0, 16, 64, 63

# %% after: lengths  numbers: 64
by = results.set_index(["scheme", "tokens"])["accuracy"]
for kind in ("learned", "sinusoidal", "rotary", "ALiBi"):
    assert by[kind, 16].min() >= 0.96
assert by["ALiBi"].min() > 0.9 and by["none", 16].between(0.45, 0.55).all()
for kind in ("learned", "sinusoidal"):
    assert abs(by[kind, 64].mean() - 0.23) < 0.02 and by[kind, 24].max() < 0.7
    for length in (32, 40, 48, 64):
        assert by[kind, length].mean() < by["none", length].mean()
assert by["rotary", 32].min() > 0.93 and by["rotary", 64].between(0.455, 0.625).all()

# %% after: how-far-back
raw = pd.read_csv(data_path("how_far_back.csv"))
one = raw.set_index(["scheme", "distance"])["accuracy"].sort_index()
counts = raw.query("scheme == 'ALiBi' and seed == 0").set_index("distance")["questions"]
assert abs(counts["1-15"] / counts["all"] - 0.867) < 0.005
assert counts.drop("all").sum() == counts["all"] and counts.min() > 400
assert one["ALiBi", "24-31"].max() < 0.17 and one["ALiBi", "32-63"].max() < 1 / 8
assert one["none", "24-31"].mean() > one["ALiBi", "24-31"].mean()
assert one["none", "32-63"].mean() > one["ALiBi", "32-63"].mean()
assert one["rotary", "1-15"].mean() < 0.65 and one["ALiBi", "1-15"].min() > 0.97

# %% after: after-far  numbers: 87, 15, 24, 0, 16

# %% after: see-save
at = dict(zip(lengths, shares.T, strict=True))
assert at[64][3] > 0.97 and at[128][3] > 0.96 and at[16][3] > 0.98
assert abs(at[256][5] - 0.91) < 0.005 and abs(at[16][5] - 0.85) < 0.005
assert (at[16][2:].diff() < 0).all()  # the price on short lists
assert abs(at[64][1] - results.query("scheme == 'rotary' and tokens == 64").accuracy.min()) < 0.02
reach = [max(k for k in lengths if at[k][i] > 0.8) for i in range(1, 6)]
assert reach == sorted(reach)

# %% after: far-again
low, high = torch.stack(far_back[:2]).aminmax(dim=1)
assert abs(weight_far_back(lambda x: x) - 48 / 64).max() < 0.02  # a layer without order
assert abs(low[0] - 0.60) < 0.01 and abs(high[0] - 0.81) < 0.01
assert abs(low[1] - 0.17) < 0.01 and abs(high[1] - 0.36) < 0.01

# %% after: saved  numbers: 0.60, 0.81, 0.17, 0.36, 15, 10, 8, 0.91, 0.85

# %% after: dog-and-man
torch.manual_seed(0)
for _ in range(20):  # any vectors
    the_, dog_, bit_, man_ = torch.randn(4, 16)
    one_, two_ = (
        torch.stack([the_, dog_, bit_, the_, man_]),
        torch.stack([the_, man_, bit_, the_, dog_]),
    )
    assert torch.allclose(attend(one_)[1], attend(two_)[4], atol=1e-5)

# %% after: further-counting  numbers: 1, 0

# %% after: exercise-1  numbers: 8, 10,000, 40, 1
assert abs(40 * 10_000 ** (-1 / 4) - 4) < 1e-9

# %% after: exercise-2  numbers: 57

# %% after: exercise-4  numbers: 0, 2, 4, 1, 3, 5

# %% after: sources  numbers: 2017, 2021, 2022, 2023, 64, 4, 1,000

# %% after: teacher-plan  numbers: 50, 8, 5, 4, 14, 2, 3, 60

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 512, 600
