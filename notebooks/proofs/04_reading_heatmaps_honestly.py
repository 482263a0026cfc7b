# %% after: translate
winners = [english[i] for i in translation.weights.argmax(dim=1)]
assert winners == ["cat", "cat", "black", "sees", "a", "small", "house", "a"]
assert torch.allclose(translation.weights[0, [0, 2]], torch.tensor([0.43, 0.57]), atol=0.005)
assert abs(translation.weights[[1, 2, 3, 5, 6]].amax(dim=1).min() - 0.87) < 0.005
assert translation.weights[7, [3, 4]].min() > 0.4  # the full stop is split between two words

# %% after: read-map  numbers: 1
assert abs(translation.weights[1, 2] - 0.98) < 0.005

# %% after: ask-darkest  numbers: 0.5, 0.9, 0.1

# %% after: see-darkest  numbers: 0.25
assert [round(end.item(), 4) for end in (faint.min(), faint.max())] == [0.2497, 0.2504]
# the two fitted pictures look alike: shades of the same cells are close
shades = [(one - one.min()) / (one.max() - one.min()) for one in (weights, faint)]
assert torch.corrcoef(torch.stack([s.flatten() for s in shades]))[0, 1] > 0.75
# seaborn and matplotlib fit their colours if no limits are given
import seaborn as sns

for drawn in (sns.heatmap(weights).collections[0], plt.imshow(weights)):
    assert [round(float(end), 4) for end in drawn.get_clim()] == [0.0408, 0.6555]
plt.close("all")

# %% after: house-rule  numbers: 4, 0.25
assert weights.argmax(dim=-1).tolist() == [1, 1, 3, 3]  # the story of the next paragraph

# %% after: our-rule  numbers: 0, 1

# %% after: ask-chance  numbers: 0.1, 2, 25

# %% after: see-chance
import math

dice = (1 / 4 * 1 / 4, 1 - math.perm(4, 4) / 4**4)
assert (math.perm(4, 4), 4**4) == (24, 256)
assert [round(100 * chance) for chance in dice] == [6, 91]


def stories(count, seed, features=8):
    generator = torch.Generator().manual_seed(seed)
    tables = torch.randn(2, count, 4, features, generator=generator)
    top = attention_scores(*tables).argmax(dim=-1)
    agree = torch.nn.functional.one_hot(top, 4).sum(dim=1).amax(dim=-1) >= 2
    both = (top[:, 2] == 3) & (top[:, 3] == 3)
    return both.double().mean().item(), agree.double().mean().item()


for seed in range(1, 6):  # other blocks of 2,000 tables
    both, agree = stories(2000, seed)
    assert 0.05 < both < 0.08 and 0.905 < agree < 0.935
for seed in range(3):  # many tables: hardly more than dice
    for features in (8, 64, 256):
        both, agree = stories(20_000, seed, features)
        assert abs(both - dice[0]) < 0.008 and abs(agree - dice[1]) < 0.02

# %% after: evidence  numbers: 2.718, 1/8
assert causal[:, 0, 0].min() == 1
by_symmetry = (1 / torch.arange(1.0, 9)).flip(0).cumsum(0).flip(0)  # sums of 1/n from each row on
for seed in range(5):  # other tables: the sums are those, and the rows grow paler
    generator = torch.Generator().manual_seed(seed)
    other = attention_scores(*torch.randn(2, 2000, 8, 8, generator=generator))
    other = attention_weights(other.masked_fill(~causal_mask(8), -torch.inf))
    assert (other.sum(dim=-2).mean(dim=0) - by_symmetry).abs().max() < 0.05
    assert (other.amax(dim=-1).mean(dim=0).diff() < 0).all()
assert abs(by_symmetry[0] - 2.718) < 0.0005 and by_symmetry[7] == 1 / 8

# %% after: look-at-articles  numbers: 200, 51, 19
assert errors == 0 and len(sentences) == 200 and not any(s.english in trained_on for s in sentences)
feminine_first = [0, 1, 2, 6, 7]  # they write feminine articles if the noun is hidden
kinds = kinds_of_words(sentences)
hit = pd.DataFrame(hits).groupby(kinds)
is_article = torch.tensor([kind != "others" for kind in kinds])
assert hits["same position"][is_article].all()  # the same position for every article
shares = hit.mean()
for i in range(8):
    assert hits[f"translator {i}"][~is_article].all()  # “always”
    own, other = ("la, une", "le, un") if i in feminine_first else ("le, un", "la, une")
    assert shares[f"translator {i}"][own] > 0.99 and shares[f"translator {i}"][other] < 0.2

# %% after: hide-many  numbers: 0.21, 0.09
feminine_first = [0, 1, 2, 6, 7]
feminine_form = {"le": "la", "un": "une", "la": "la", "une": "une"}
masculine_form = {"la": "le", "une": "un", "le": "le", "un": "un"}
others = [s for s in make_sentences(300, seed=1510) if s.english not in trained_on][:60]
table = pd.DataFrame({"correct": correct, **written}).drop_duplicates()
assert len(table) == 4  # of 400 rows
for i, translator in enumerate(translators):
    form = feminine_form if i in feminine_first else masculine_form
    assert written[f"translator {i}"] == [form[word] for word in correct]
    for english, french, _ in others:  # the same in other sentences
        rows = [n for n, word in enumerate(french.split()) if word in articles]
        columns = [n for n, word in enumerate(english.split()) if word in NOUNS]
        right = [french.split()[row] for row in rows]
        for nouns, wanted in ((columns, [form[word] for word in right]), (columns[::-1], right)):
            cells = list(zip(rows, nouns, strict=True))
            words = translator.translate(english, french=french, hidden=cells).french
            assert [words[row] for row in rows] == wanted


masculine = [noun for noun in NOUNS if not NOUNS[noun][1]]
held = []  # by the noun that the control hides
for translator in translators:
    for english, french, _ in sentences:
        rows = [n for n, word in enumerate(french.split()) if word in articles]
        columns = [n for n, word in enumerate(english.split()) if word in NOUNS][::-1]
        held.append(translator.translate(english, french=french).weights[rows, columns].max())
assert round(max(held).item(), 2) == 0.09
pale, swaps = [], 0
for i in feminine_first:
    for n, (english, french, _) in enumerate(sentences + others):
        words = english.split()
        rows = [k for k, word in enumerate(french.split()) if word in articles]
        columns = [k for k, word in enumerate(words) if word in NOUNS]
        for row, column in zip(rows, columns, strict=True):
            if not NOUNS[words[column]][1]:
                continue
            new = " ".join([*words[:column], masculine[n % 5], *words[column + 1 :]])
            right = masculine_form[french.split()[row]]
            assert translators[i].translate(new, french=french).french[row] == right
            unchanged = translators[i].translate(english, french=french)
            pale.append(unchanged.weights[row, column].item())
            swaps += 1
assert round(max(pale), 2) <= 0.21 and swaps > 1200

# %% after: head-six
marker = weights_six[:, 0]
assert abs(marker.min() - 0.39) < 0.005 and abs(marker.max() - 0.60) < 0.005
assert weights_six[:, 1:].max() < 0.185
longest_terms = (weights_six * values.norm(dim=-1)).argmax(dim=-1)
assert {tokens[i] for i in longest_terms} == {"sat", "mat"}  # in all eight rows

# %% after: one-row-proves-little  numbers: 241, 35
assert len(pd.read_csv(data_path("bank_sentences.csv"))) == 35

# %% after: see-carried
# the output moves by w / (1 - w) times its distance from the value of the hidden key
for key in range(len(values)):
    rest = weights_six.clone()
    rest[:, key] = 0
    rest = rest / rest.sum(dim=-1, keepdim=True)
    moved = (rest @ values - weights_six @ values).norm(dim=-1)
    assert torch.allclose(hiding(weights_six, values)[:, key], moved, atol=1e-5)

# %% after: count-rows
assert sum(int((w[1:-1].argmax(dim=-1) == 0).sum()) for w, _ in stored) == 241
for origin in (-vector, mean):  # the same function: subtracted from values, added to the output
    for w, v in stored:
        assert torch.allclose(w @ (v - origin) + origin, w @ v, atol=1e-5)

# %% after: carried-read  numbers: 6, 231, 74, 141, 100
for seed in range(5):
    other = torch.randn(32, generator=torch.Generator().manual_seed(seed))
    assert rows_of_marker(zeroing, other) > 200  # zeroing says what we like
    assert rows_of_marker(hiding, other) == 141
assert rows_of_marker(zeroing) == 6 and rows_of_marker(zeroing, -mean) == 74

# %% after: who-asks
at_marker = (trained[:, 1:-1].argmax(dim=-1) == 0).float().mean(dim=-1)  # rows of words
assert at_marker[3] == 0 and sum(at_marker > 0.8) >= 6  # most of the others are easy to tell

# %% after: reveal-read  numbers: 0.02
apart = (trained[:, 1] - trained[:, 5]).abs().amax(dim=-1)  # of the two rows of “the”
assert abs(apart[3] - 0.05) < 0.005 and (untrained[1] - untrained[5]).abs().max() < 0.025
for seed in range(5):  # other matrices
    to_q, to_k = torch.randn(2, 384, 32, generator=torch.Generator().manual_seed(seed)) / 384**0.5
    other = attention_weights(attention_scores(embedded @ to_q, embedded @ to_k))
    assert (other[1] - other[5]).abs().max() < 0.04
assert abs((noise[1] - noise[5]).abs().max() - 0.45) < 0.005

# %% after: exercise-1  numbers: 4, 1, 0

# %% after: exercise-2  numbers: 0.576, 0.99

# %% after: exercise-5  numbers: 3, 60

# %% after: torch-weights
assert layer_of_torch(x, x, x, need_weights=False)[1] is None
assert torch.allclose(mean_of_heads, each_head.mean(dim=1))

# %% after: sources  numbers: 2015, 2017, 2019, 2020

# %% after: teacher-plan  numbers: 46, 4, 8, 12, 10, 6, 9, 3

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 1/8, 0.6, 0, 0.9, 0.00
