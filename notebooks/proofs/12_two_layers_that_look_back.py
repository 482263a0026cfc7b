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

# %% after: longer  numbers: 500, 1,000, 0.23, 0.15, 0.10
assert 0.095 < random_pick[known].mean() < 0.105
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

# %% after: why-two  numbers: 10
looks = pd.read_csv(data_path("one_look.csv"))
wide = looks[looks["num_heads"] == 22]
assert len(wide) == 8 and len(looks) == 24
assert abs(wide["correct"].mean() - 0.28) < 0.01
assert (wide["before_jump"] > 0.6).all() and (wide["after_jump"] < 0.21).all()
assert wide["oldest"].between(0.45, 0.6).all() and looks["rule_before_jump"].eq(1).all()
assert looks["rule_after_jump"].between(0.3, 0.37).all()


def oldest(text):
    """Return the letter that has not been played for the longest time."""
    return min(set(text) - {"|"}, key=text.rindex)


for seed in range(5):  # until the first jump, it is always the next one
    torch.manual_seed(seed)
    for tokens, known in zip(*make_texts(50), strict=True):
        text = to_text(tokens)
        for i in known.nonzero().flatten().tolist():
            assert "|" in text[: i + 1] or oldest(text[: i + 1]) == text[i + 1]

# %% after: two-looks  numbers: 3, 2, 10, 0

# %% after: scores
from attnlab.models.looking_back import followers as of_attnlab

some = make_texts(50).tokens
assert torch.equal(followers(some), of_attnlab(some))

# %% after: stored-model  numbers: 200, 300

# %% after: score-table
assert scores[1, 1] > 0.97 and abs(scores[0, 0] - 0.5) < 0.02
assert scores[1, 0] <= scores[2, 0] < 0.11 and scores[0, 1] <= scores[2, 1] < 0.07
# in the six stored runs as well
two_runs = runs[(runs["num_layers"] == 2) & (runs["step"] == 300)]
assert len(two_runs) == 6
assert two_runs["previous"].between(0.46, 0.53).all() and (two_runs["follower"] > 0.96).all()

# %% after: ask-half  numbers: 0.5, 15

# %% after: see-half  numbers: 0, 1, 15, 18, 100, 150, 500, 1,000
by_position = before.mean(dim=(0, 1))
assert by_position[:15].min() > 0.9 and by_position[15:].mean() < 0.1
assert (by_position[15:] > 0.1).nonzero().flatten().tolist() == [2]  # position 18 is an exception
# a copy that has been followed stands within the first sixteen tokens, nearly always
noted = followers(texts.tokens[:, :-1])[:, :, 1:16].any(dim=-1)
assert abs(noted[texts.known].float().mean() - 0.997) < 0.0006
hits = model(texts.tokens[:, :-1])[0].argmax(dim=-1) == texts.tokens[:, 1:]
assert hits[texts.known & noted].float().mean() > 0.999
assert not hits[texts.known & ~noted].any() and (texts.known & ~noted).sum() > 20
of_texts = weights[0].diagonal(-1, dim1=-2, dim2=-1)[:, 0, :15].mean(dim=-1)
assert (of_texts > 0.8).float().mean() > 0.97  # in nearly every text
diagonal = (
    two_layers(new_texts.tokens[:, :-1])[1][0].diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, 1))
)
assert diagonal[:14].min() > 0.8 and diagonal[16:].mean() < 0.15

# from left to right
of_run = pd.read_csv(data_path("notes_spread.csv")).query("seed == 0")
groups = pd.cut(of_run["position"], [0, 3, 7, 11, 15])
by_group = of_run.groupby([groups, "step"], observed=True)["note"].mean()
firsts = [by_group[group].gt(0.5).idxmax() for group in groups.cat.categories]
assert firsts == sorted(set(firsts))

# %% after: average-hides  numbers: 0, 15, 18

# %% after: forge  numbers: 3, 5

# %% after: see-forged
assert to_text(forged[0, -1:]) == "T"
for other, letter in ((4, "M"), (6, "A"), (7, "R")):
    again = guess_with_exchanged(to_tokens("KQZBMTAR|QZ")[None], 3, other)
    assert to_text(again[0, -1:]) == letter
untouched = guess_with_exchanged(texts.tokens[:, :-1], 3, 3)
assert torch.equal(untouched, model(texts.tokens[:, :-1])[0].argmax(dim=-1))


# %% after: see-many-notes
for seed in range(5):
    torch.manual_seed(seed)
    some = make_texts(500)
    now = some.tokens[:, :-1]
    marks = followers(now)
    ask = some.known & marks[:, :, 3] & (marks.sum(dim=-1) == 1)
    for other in (2, 4, 5, 6, 7):
        guesses = guess_with_exchanged(now, 3, other)
        assert (guesses == now[:, other, None])[ask].float().mean() > 0.94

# %% after: explorer
assert LookingBackExplorer().result.guess == "B"
assert LookingBackExplorer(partner=5).result.guess == "T"
shown = "KQZBMTAR|QZB|TARKQ|MTA"
can_be_known = followers(to_tokens(shown)[None])[0].any(dim=-1).nonzero().flatten().tolist()
for partner in (4, 5, 6, 7):
    for position in can_be_known:
        guesses = [
            LookingBackExplorer(position=position, partner=at).result.guess for at in (3, partner)
        ]
        assert (guesses[0] != guesses[1]) == (shown[position] in ("Z", shown[partner - 1]))

# %% after: see-without
whole, no_first, no_second = torch.tensor(rows)
chance = scores_of(average.expand(1, 1000, 1, 32, 32))[0, 1]
assert whole[1] > 0.98 and 0 < no_first[1] - chance < 0.04
assert torch.equal(no_second[0], whole[0])  # to the last digit
assert max(no_first[2], no_second[2]) < 0.12 and whole[2] > 0.99
assert abs(no_first[2] - random_pick[known].mean()) < 0.01
assert no_first[1].round(decimals=2) == 0.09 and chance.round(decimals=2) == 0.06

# without layer 1, half of the guesses are the letter just before, or have not been played
now = texts.tokens[:, :-1]
said = without_layer(1)(now)[0].argmax(dim=-1)
just_before = (said[:, 1:] == now[:, :-1])[texts.known[:, 1:]].float().mean()
unplayed = ~(said[:, :, None] == now[:, None]).tril().any(dim=-1)
assert 0.45 < just_before + unplayed[texts.known].float().mean() < 0.55

# %% after: counting  numbers: 12, 0.06

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
of_one = [row[0] for row in shares]
assert max(of_one[0], of_one[2]) < 0.04 and of_one[3] > 0.98 and of_one[4] < 0.1
assert 0.7 < of_one[1] < 0.9 and min(row[1] for row in shares) > 0.97

# %% after: counting-read  numbers: 23, 11, 12, 6

# %% after: what-a-second-layer-adds  numbers: 2022

# %% after: score-solution
looks = model(texts.tokens[:, :-1])[1]
given = [same_letter_score_solution(layer, texts.tokens[:, :-1]).item() for layer in looks]
assert [round(score, 2) for score in given] == [0.03, 0.00]
even = same_letter_score_solution(average.expand(1000, 1, 32, 32), texts.tokens[:, :-1])
assert even.round(decimals=2) == 0.07

# %% after: score-reading  numbers: 0.03, 0.00, 0.07

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

# %% after: teacher-plan  numbers: 46, 0, 1, 10, 4, 5, 11, 14, 2

# %% after: teacher-questions  numbers: 0, 1, 2, 3, 4, 5, 12, 11
