# %% after: the-task  numbers: 8, 15, 33, 32

# %% after: three-texts
for tokens, known in zip(*examples, strict=True):
    text = to_text(tokens)
    seen = [text[i : i + 2] for i in range(32)]
    wanted = ["|" not in pair and pair in seen[:i] for i, pair in enumerate(seen)]
    assert known.tolist() == wanted

# %% after: the-model  numbers: 64, 27

# %% after: one-or-two  numbers: 88, 64

# %% after: see-one-layer
late = new_texts.tokens[:, 16:] == 26  # the second round of every loop has begun
assert 0.2 < late[:, 1:].sum() / (~late[:, :-1]).sum() < 0.3  # about one bar in four letters


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


# not fewer for the single layer, and hardly more
assert parameters(two_layers) <= parameters(one_layer) < 1.01 * parameters(two_layers)

assert 0.095 < guesser < 0.105
assert (
    0.13 < share_correct(one_layer, new_texts) < 0.17
    and share_correct(two_layers, new_texts) > 0.985
)
assert share_correct(one_layer, new_texts) > 1.3 * guesser

# the wide layer names letters of the loop, and most of its success does not need the current one
now, unseen = new_texts.tokens[:300, :-1], []
for row in now.tolist():
    unseen.append(min(set(range(26)) - set(row)))
hits_with, hits_without, named_letters = [], [], []
for i in range(8, 32):
    rows_i = new_texts.known[:300, i]
    start, answer = now[rows_i, : i + 1], new_texts.tokens[:300][rows_i, i + 1]
    other = start.clone()
    other[:, -1] = torch.tensor(unseen)[rows_i]
    said = one_layer(start)[0][:, -1].argmax(dim=-1)
    hits_with.append(said == answer)
    hits_without.append(one_layer(other)[0][:, -1].argmax(dim=-1) == answer)
    named_letters.append((start[:, :-1] == said[:, None]).any(dim=-1) & (said != start[:, -1]))
hits_with, hits_without = (
    torch.cat(hits_with).float().mean(),
    torch.cat(hits_without).float().mean(),
)
assert torch.cat(named_letters).float().mean() > 0.98
assert 0.12 < hits_with < 0.18 and 0.1 < hits_without and hits_with - hits_without < 0.05

# %% after: longer  numbers: 500, 1,000
ends = jumping[jumping["step"] == jumping.groupby("model")["step"].transform("max")]
best = ends.groupby("model")["correct"].agg(["min", "max", "size"])
assert best["size"].to_dict() == {stopped: 6} | dict.fromkeys(named.values(), 8)
assert best["max"]["one layer, 1 head"] < 0.25 and best["max"]["one layer, 4 heads"] < 0.25
assert best["min"]["one layer, 22 heads"] > best["max"]["one layer, 4 heads"]
assert best["min"][stopped] > 0.99
typical = ends.groupby("model")["correct"].mean().round(2)
assert typical[[*named.values()]].tolist() == [0.15, 0.17, 0.28]
early = jumping[(jumping["model"] == stopped) & (jumping["step"] == 100)]
assert early["correct"].min() > 0.95
singles = jumping[jumping["num_layers"] == 1]
assert (singles["embed_dim"] == 88).all() and singles["rate"].nunique() == 2

# %% after: two-looks  numbers: 3, 2, 10, 0

# %% after: stored-model  numbers: 200, 300

# %% after: score-table
assert scores[1, 1] > 0.97 and abs(scores[0, 0] - 0.5) < 0.02
assert scores[1, 0] < 0.1 and scores[0, 1] < 0.06
# in the six stored runs as well
two_runs = runs[(runs["num_layers"] == 2) & (runs["step"] == 300)]
assert len(two_runs) == 6
assert two_runs["previous"].between(0.46, 0.53).all() and (two_runs["follower"] > 0.96).all()

# %% after: half
assert scores[0, 0] > 5 * scores[1, 0]

# %% after: ask-half  numbers: 0.5, 15

# %% after: see-half
assert by_position[:15].min() > 0.9 and by_position[15:].mean() < 0.1
assert (by_position[15:] > 0.1).nonzero().flatten().tolist() == [2]  # position 18 is an exception
# a copy that has been followed stands within the first sixteen tokens, nearly always
noted = followers(texts.tokens[:, :-1])[:, :, 1:16].any(dim=-1)
assert abs(noted[texts.known].float().mean() - 0.997) < 0.0006
hits = model(texts.tokens[:, :-1])[0].argmax(dim=-1) == texts.tokens[:, 1:]
assert hits[texts.known & noted].float().mean() > 0.999
assert not hits[texts.known & ~noted].any() and (texts.known & ~noted).sum() > 20
spread = layer_0.diagonal(-1, dim1=-2, dim2=-1)[:, 0, :15].mean(dim=-1)
assert (spread > 0.8).float().mean() > 0.97  # in nearly every text
diagonal = (
    two_layers(new_texts.tokens[:, :-1])[1][0].diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, 1))
)
assert diagonal[:14].min() > 0.8 and diagonal[16:].mean() < 0.15

# %% after: average-hides  numbers: 18, 15

# %% after: explorer
from attnlab.explorers.looking_back import STOPS, scores as scores_over_steps

assert LookingBackExplorer().result.guess == "B"
over = scores_over_steps()
at = dict(zip(STOPS, zip(*(over[k] for k in ("previous", "follower")), strict=True), strict=True))
assert max(at[30]) < 0.3 and at[60][1] > 0.5 and at[60][0] > 0.2  # both between 30 and 60

# %% after: see-note


def weight_test(model):
    """Return how often the own note fits best, then the own letter, and how often it is copied."""
    first, second = model.layers
    letters, own = model.symbol.weight[:26], torch.arange(26)
    read = model.norms[1](letters)
    notes = model.norms[1](first.out_proj(first.v_proj(model.norms[0](letters))))
    query = second.q_proj(read)
    fits = [(query @ second.k_proj(x).mT).argmax(dim=-1) == own for x in (notes, read)]
    copied = model.guess(model.last_norm(second.out_proj(second.v_proj(read))))
    return [part.sum().item() for part in (*fits, copied.argmax(dim=-1) == own)]


assert weight_test(model) == [26, 0, 26] == weight_test(two_layers)
torch.manual_seed(0)
assert max(weight_test(LookingBack())) < 4  # before training
for seed in range(1, 5):
    torch.manual_seed(seed)
    assert weight_test(train(2, 64, 1)) == [26, 0, 26]

# the rest of the stream does not change it: whole tokens, with positions, own letters and notes
at = model.position.weight
for spot, asking in ((3, 12), (8, 20), (12, 30)):
    all_notes = first.out_proj(first.v_proj(model.norms[0](letters + at[spot - 1])))
    tokens_there = letters[:, None] + at[spot] + all_notes  # (own letter, note, E)
    keys_there = second.k_proj(model.norms[1](tokens_there))
    asked = second.q_proj(model.norms[1](letters + at[asking]))
    fit = torch.einsum("qe,hne->qhn", asked, keys_there)
    assert (fit.argmax(dim=2) == torch.arange(26)[:, None]).all()  # the note decides
    assert (fit.argmax(dim=1) == torch.arange(26)[:, None]).float().mean() < 0.04

# %% after: see-copies
assert (guess == torch.arange(26)).all()

# %% after: see-without
whole, no_first, no_second = torch.tensor(rows)
uniform = torch.ones(32, 32).tril() / torch.arange(1, 33)[:, None]
chance = follower_score(uniform.expand(1000, 1, 32, 32), texts)
assert whole[1] > 0.98 and 0 < no_first[1] - chance < 0.04
assert torch.equal(no_second[0], whole[0])  # to the last digit
assert max(no_first[2], no_second[2]) < 0.12 and whole[2] > 0.99
assert abs(no_first[2] - guesser) < 0.01 and no_first[2].round(decimals=2) == 0.10
assert no_first[1].round(decimals=2) == 0.09


def averaged(layer, dims):
    """Return the model with one layer's output replaced by its average over the texts."""
    changed = load_looking_back()

    def replace(module, args, returned):
        output, weights = returned
        return output.mean(dim=dims, keepdim=True).expand_as(output), weights

    changed.layers[layer].register_forward_hook(replace)
    return changed


for zero, layer in ((no_first, 0), (no_second, 1)):
    for dims in (0, (0, 1)):  # for each position, or over all of them
        mean_model = averaged(layer, dims)
        assert abs(share_correct(mean_model, texts) - zero[2]) < 0.015
        assert abs(scores_of(mean_model)[1][1] - zero[1]) < 0.02

# %% after: counting  numbers: 12

# %% after: ask-counting  numbers: 3, 20

# %% after: see-counting
assert share_correct(regular_model, twelves) > 0.98 and 0.9 < score[0] < 1.001
no_loops = torch.randint(26, (300, 32))
looks_at = regular_model(no_loops)[1][0, :, 0]  # (N, L, L)
back = {far: looks_at.diagonal(-far, dim1=-2, dim2=-1).mean(dim=0) for far in (11, 23)}
both = back[11][1:].clone()  # from position 12 on
both[11:] += back[23]
assert both.min() > 0.8 and both.mean() > 0.95

# %% after: see-other-loops
assert table[0][0] < 0.04 and table[1][0] < 0.04
assert table[2][0] > 0.98 and table[3][0] < 0.1 and min(row[1] for row in table) > 0.98

# %% after: counting-read  numbers: 23, 11, 5, 12, 1, 15, 20

# %% after: see-limit
torch.manual_seed(1)
for tested in (model, two_layers, train(2, 64, 1), train(2, 64, 1)):
    for size in (18, 20, 22):
        torch.manual_seed(4)
        many = make_texts(300, shortest=size, longest=size)
        near = followers(many.tokens[:, :-1])[:, :, 1:16].any(dim=-1)
        at_notes, elsewhere = (
            share_correct(tested, many._replace(known=many.known & part)) for part in (near, ~near)
        )
        assert at_notes > 0.97 and elsewhere < 0.3

# %% after: what-two-add  numbers: 2022

# %% after: oldest
assert share_of_rule(smooth) == 1 and 0.3 < share_of_rule(scratched) < 0.5

# %% after: further-two-heads  numbers: 32

# %% after: two-heads
assert share_correct(shared, new_texts) > 0.95  # head 0 only
shared.layers[1].out_proj.weight[:] = 0
assert share_correct(shared, new_texts) < 0.07

# %% after: exercise-3
for tested in (model, two_layers):
    layer, spots = tested.layers[0], tested.norms[0](tested.position.weight)
    fits = layer.q_proj(spots) @ layer.k_proj(spots).mT
    fits = fits.masked_fill(torch.ones(32, 32).triu(1) > 0, -torch.inf)
    assert (fits.argmax(dim=-1)[1:15] == torch.arange(14)).all()

# %% after: exercise-5  numbers: 0.9

# %% after: sources  numbers: 2021, 2022, 2024

# %% after: teacher-plan  numbers: 0, 50, 9, 4, 5, 14, 6, 7

# %% after: teacher-questions  numbers: 0, 1, 2, 3, 4, 5, 12, 11
