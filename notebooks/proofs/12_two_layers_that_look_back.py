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

assert 0.13 < share_correct(one_layer, new_texts) < 0.17
assert share_correct(two_layers, new_texts) > 0.985

# %% after: see-baseline  numbers: 16, 1, 2
late = known & ~early
assert 0.095 < random_pick[known].mean() < 0.105
assert correct[early].mean() > 2 * random_pick[early].mean()
assert abs(correct[late].mean() - random_pick[late].mean()) < 0.02

# most of the success does not need the current letter
assert at_start[early].float().mean() > 0.35
assert correct[early & at_start].mean() > 4 * random_pick[early & at_start].mean()
assert correct[early & ~at_start].mean() < random_pick[early & ~at_start].mean()
unseen = torch.tensor([min(set(range(26)) - set(text.tolist())) for text in tokens])
hits = []
for i in range(8, 16):
    rows = early[:, i]
    start = tokens[rows, : i + 1].clone()
    start[:, -1] = unseen[rows]
    hits.append(one_layer(start)[0][:, -1].argmax(dim=-1) == tokens[rows, i + 1])
assert torch.cat(hits).float().mean() > 0.6 * correct[early].mean()

# %% after: longer  numbers: 500, 1,000, 0.23
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
assert scores[1, 0] <= scores[2, 0] < 0.11 and scores[0, 1] <= scores[2, 1] < 0.07
# in the six stored runs as well
two_runs = runs[(runs["num_layers"] == 2) & (runs["step"] == 300)]
assert len(two_runs) == 6
assert two_runs["previous"].between(0.46, 0.53).all() and (two_runs["follower"] > 0.96).all()

# %% after: half
assert scores[0, 0] > 5 * scores[1, 0]

# %% after: ask-half  numbers: 0.5, 15

# %% after: see-half  numbers: 18
assert by_position[:15].min() > 0.9 and by_position[15:].mean() < 0.1
assert (by_position[15:] > 0.1).nonzero().flatten().tolist() == [2]  # position 18 is an exception
# a copy that has been followed stands within the first sixteen tokens, nearly always
noted = followers(texts.tokens[:, :-1])[:, :, 1:16].any(dim=-1)
assert abs(noted[texts.known].float().mean() - 0.997) < 0.0006
hits = model(texts.tokens[:, :-1])[0].argmax(dim=-1) == texts.tokens[:, 1:]
assert hits[texts.known & noted].float().mean() > 0.999
assert not hits[texts.known & ~noted].any() and (texts.known & ~noted).sum() > 20
spread = weights[0].diagonal(-1, dim1=-2, dim2=-1)[:, 0, :15].mean(dim=-1)
assert (spread > 0.8).float().mean() > 0.97  # in nearly every text
diagonal = (
    two_layers(new_texts.tokens[:, :-1])[1][0].diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, 1))
)
assert diagonal[:14].min() > 0.8 and diagonal[16:].mean() < 0.15

# how far the notes reach follows from the longest loop of the training
for longest in (11, 20):
    torch.manual_seed(0)
    other = train(2, 64, 1, longest=longest)
    other_texts = make_texts(500, longest=longest)
    at = other(other_texts.tokens[:, :-1])[1][0].diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, 1))
    last = {11: 11, 20: 19}[longest]  # at[0] is position 1
    assert at[:last].min() > 0.6 and at[last:].max() < 0.3

# %% after: average-hides  numbers: 18, 15, 11, 20, 19

# %% after: explorer
from attnlab.explorers.looking_back import STOPS, scores as scores_over_steps

assert LookingBackExplorer().result.guess == "B"
over = scores_over_steps()
at = dict(zip(STOPS, zip(*(over[k] for k in ("previous", "follower")), strict=True), strict=True))
first_rise, steep_rise = (
    [b - a for a, b in zip(at[one], at[other], strict=True)] for one, other in ((0, 30), (30, 80))
)  # of the previous-token score and the follower score
assert abs(first_rise[0]) < 0.02 and 0.03 < first_rise[1] < 0.1
assert steep_rise[0] > 0.25 and steep_rise[1] > 0.7

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
for seed in range(1, 6):
    torch.manual_seed(seed)
    another = train(2, 64, 1)
    assert weight_test(another) == [26, 0, 26]
    looks = another(texts.tokens[:, :-1])[1][0].diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, 1))
    assert looks[:14].min() > 0.7 and looks[16:].max() < 0.2  # position 18 is no exception here

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
chance = scores_of(average.expand(1, 1000, 1, 32, 32))[0, 1]
assert whole[1] > 0.98 and 0 < no_first[1] - chance < 0.04
assert torch.equal(no_second[0], whole[0])  # to the last digit
assert max(no_first[2], no_second[2]) < 0.12 and whole[2] > 0.99
assert abs(no_first[2] - random_pick[known].mean()) < 0.01
assert no_first[1].round(decimals=2) == 0.09

# without layer 1, half of the guesses are the letter just before, or have not been played
now = texts.tokens[:, :-1]
said = without_layer(1)(now)[0].argmax(dim=-1)
just_before = (said[:, 1:] == now[:, :-1])[texts.known[:, 1:]].float().mean()
unplayed = ~(said[:, :, None] == now[:, None]).tril().any(dim=-1)
assert 0.45 < just_before + unplayed[texts.known].float().mean() < 0.55


def share_with_mean_output(removed):
    """Return the share correct if a layer adds its mean output to every token."""
    stream = model.symbol(texts.tokens[:, :-1]) + model.position.weight
    for number, (norm, layer) in enumerate(zip(model.norms, model.layers, strict=True)):
        output, _ = layer(norm(stream), is_causal=True)
        stream = stream + (output.mean(dim=(0, 1)) if number == removed else output)
    guesses = model.guess(model.last_norm(stream)).argmax(dim=-1)
    return (guesses == texts.tokens[:, 1:])[texts.known].float().mean()


assert abs(share_with_mean_output(None) - whole[2]) < 1e-4
assert abs(share_with_mean_output(0) - no_first[2]) < 0.01
assert abs(share_with_mean_output(1) - no_second[2]) < 0.01

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
assert shares[0][0] < 0.04 and shares[1][0] < 0.04
assert shares[2][0] > 0.98 and shares[3][0] < 0.1 and min(row[1] for row in shares) > 0.98

# %% after: counting-read  numbers: 23, 11, 5, 12, 1, 15, 20

# %% after: see-limit
assert correct[longer.known & parts["at positions 1 to 15"]].float().mean() > 0.99
assert 0.4 < correct[longer.known & parts["at position 18"]].float().mean() < 0.6
assert correct[longer.known & parts["elsewhere"]].float().mean() < 0.06
torch.manual_seed(1)
for tested in (model, two_layers, train(2, 64, 1), train(2, 64, 1)):
    for size in (18, 20, 22):
        torch.manual_seed(4)
        many = make_texts(300, shortest=size, longest=size)
        near = followers(many.tokens[:, :-1])[:, :, 1:16].any(dim=-1)
        right = tested(many.tokens[:, :-1])[0].argmax(dim=-1) == many.tokens[:, 1:]
        assert right[many.known & near].float().mean() > 0.97
        assert right[many.known & ~near].float().mean() < 0.3

# %% after: what-a-second-layer-adds  numbers: 2022

# %% after: oldest
assert share_of_rule(make_texts(200, jump=0.0)) == 1
assert 0.3 < share_of_rule(make_texts(200)) < 0.5

# %% after: further-two-heads  numbers: 32

# %% after: two-heads
assert share_correct(shared, new_texts) > 0.95  # head 0 only
shared.layers[1].out_proj.weight[:] = 0
assert share_correct(shared, new_texts) < 0.07
for seed in (1, 2, 3):
    torch.manual_seed(seed)
    another = train(num_layers=2, embed_dim=64, num_heads=2)
    of_heads = another.layers[1].out_proj.weight.split(32, dim=1)
    kept = of_heads[0].clone()
    of_heads[0].zero_()
    assert share_correct(another, new_texts) > 0.9  # head 1 only
    of_heads[1].zero_()
    assert share_correct(another, new_texts) < 0.1
    of_heads[0].copy_(kept)
    assert share_correct(another, new_texts) > 0.9  # head 0 only

# %% after: score-solution
looks = model(texts.tokens[:, :-1])[1]
given = [same_letter_score_solution(layer, texts.tokens[:, :-1]).item() for layer in looks]
assert [round(score, 2) for score in given] == [0.06, 0.00]
even = same_letter_score_solution(average.expand(1000, 1, 32, 32), texts.tokens[:, :-1])
assert even.round(decimals=2) == 0.07


def share_without_notes(*blind):
    """Return the share correct if these parts of layer 1 do not see what layer 0 wrote."""
    plain = model.symbol(texts.tokens[:, :-1]) + model.position.weight
    full = plain + first(model.norms[0](plain), is_causal=True)[0]
    read = [model.norms[1](plain if part in blind else full) for part in ("query", "key", "value")]
    projected = second.q_proj(read[0]), second.k_proj(read[1]), second.v_proj(read[2])
    added = second.out_proj(F.scaled_dot_product_attention(*projected, is_causal=True))
    guesses = model.guess(model.last_norm(full + added)).argmax(dim=-1)
    return (guesses == texts.tokens[:, 1:])[texts.known].float().mean()


assert abs(share_without_notes() - share_correct(model, texts)) < 0.001
assert share_without_notes("query") > 0.99 and share_without_notes("key") < 0.11

# %% after: score-reading  numbers: 0.06, 0.00, 0.07

# %% after: key-solution
for tested in (model, two_layers):
    layer, spots = tested.layers[0], tested.norms[0](tested.position.weight)
    fits = best_key_solution(layer.q_proj(spots), layer.k_proj(spots))
    before = fits == torch.arange(32) - 1
    assert before[1:16].all() and before[16:].sum() <= 1
    if tested is model:
        assert before[16:].nonzero().flatten().tolist() == [2]  # position 18

# %% after: key-reading  numbers: 1, 15, 16, 18

# %% after: exercise-5  numbers: 0.9

# %% after: sources  numbers: 2021, 2022, 2024

# %% after: teacher-plan  numbers: 0, 50, 9, 5, 13, 6, 7

# %% after: teacher-questions  numbers: 0, 1, 2, 3, 4, 5, 12, 11
