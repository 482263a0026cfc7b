# %% after: translate
winners = [english[i] for i in translation.weights.argmax(dim=1)]
assert winners == ["cat", "cat", "black", "sees", "a", "small", "house", "a"]
assert torch.allclose(translation.weights[0, [0, 2]], torch.tensor([0.43, 0.57]), atol=0.005)
assert abs(translation.weights[[1, 2, 3, 5, 6]].amax(dim=1).min() - 0.87) < 0.005
assert translation.weights[7, [3, 4]].min() > 0.4  # the full stop is split between two words

# %% after: read-map  numbers: 1
assert abs(translation.weights[1, 2] - 0.98) < 0.005

# %% after: ask-darkest  numbers: 0.5, 0.9, 0.1

# %% after: scales-figure
# the two fitted pictures look alike: shades of the same cells are close
shades = [(one - one.min()) / (one.max() - one.min()) for one in (weights, faint)]
assert torch.corrcoef(torch.stack([s.flatten() for s in shades]))[0, 1] > 0.75
# seaborn and matplotlib fit their colours if no limits are given
import seaborn as sns

for drawn in (sns.heatmap(weights).collections[0], plt.imshow(weights)):
    assert [round(float(end), 4) for end in drawn.get_clim()] == [0.0408, 0.6555]
plt.close("all")

# %% after: house-rule  numbers: 4, 0.25, 100, 0, 1
assert weights.argmax(dim=-1).tolist() == [1, 1, 3, 3]  # the story of the next paragraph

# %% after: ask-chance  numbers: 0.1, 2, 25

# %% after: see-chance
import math

dice = (1 / 4 * 1 / 4, 1 - math.perm(4, 4) / 4**4)
assert (math.perm(4, 4), 4**4) == (24, 256)
assert [round(100 * chance) for chance in dice] == [6, 91]


def stories(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return attention_scores(*torch.randn(2, count, 4, 8, generator=generator)).argmax(dim=-1)


for seed in range(1, 6):  # other blocks of 2,000 tables
    top = stories(2000, seed)
    agree = torch.nn.functional.one_hot(top, 4).sum(dim=1).amax(dim=-1) >= 2
    assert 0.905 < agree.float().mean() < 0.935
    assert 0.05 < ((top[:, 2] == 3) & (top[:, 3] == 3)).float().mean() < 0.08

# %% after: chance-figure
assert abs(weights.max() - 0.66) < 0.005 and abs(largest.mean() - weights.max().item()) < 0.03
assert votes.amax(dim=-1).bincount().argmax() == ours.bincount().max() == 2

# %% after: causal-noise
assert causal[:, 0, 0].min() == 1
for seed in range(1, 5):  # other tables: token 0 gets the most, and the rows grow paler
    generator = torch.Generator().manual_seed(seed)
    other = attention_scores(*torch.randn(2, 2000, 8, 8, generator=generator))
    other = attention_weights(other.masked_fill(~causal_mask(8), -torch.inf))
    assert abs(other.sum(dim=-2).mean(dim=0)[0] - 2.72) < 0.05
    assert (other.amax(dim=-1).mean(dim=0).diff() < 0).all()

# %% after: look-at-articles
assert len(sentences) == 200 and not any(s.english in trained_on for s in sentences)
assert torch.equal(  # the same position for every article
    torch.tensor(hits["same position"].values)[torch.tensor([k != "others" for k in kinds])],
    torch.ones(sum(k != "others" for k in kinds), dtype=torch.bool),
)
others = hits[[kind == "others" for kind in kinds]]
assert others[names].all().all()  # “always”
for translator in map(load_translator, names):
    for text, correct, _ in sentences:
        assert translator.translate(text, french=correct).french == [*correct.split(), "."]

# %% after: pale
assert rows[2][3] < 0.01 and abs(rows[3][3] - 0.68) < 0.005  # the second translator
assert rows[4][3] > 0.5 and rows[5][3] < 0.1  # the third

# %% after: hide-many
feminine_form = {"le": "la", "un": "une", "la": "la", "une": "une"}
masculine_form = {"la": "le", "une": "un", "le": "le", "un": "un"}
for name, form in zip(names, (feminine_form, feminine_form, masculine_form), strict=True):
    assert list(table[name]) == [form[word] for word in correct]

from attnlab.models.translator import ENGLISH, FRENCH, START


@torch.no_grad()
def articles_without_value(translator):  # with the weights as they are, the value of the noun is 0
    written = []
    for english, french, _ in sentences:
        words, so_far = english.split(), [START, *french.split()]
        numbers = torch.tensor([ENGLISH.index(word) for word in words])
        x = translator.words(numbers) + translator.places.weight[: len(words)]
        numbers = torch.tensor([FRENCH.index(word) for word in so_far])
        state = translator.memory(translator.written(numbers))[0]
        scores = attention_scores(translator.query(state), translator.key(x))
        weights = attention_weights(scores)
        places = [i for i, word in enumerate(words) if word in NOUNS]
        for row, word in enumerate(so_far[1:]):
            if word in articles:
                kept = weights[row].clone()
                kept[places.pop(0)] = 0
                output = torch.cat([state[row], kept @ translator.value(x)])
                written.append(FRENCH[1 + translator.next_word(output)[1:].argmax()])
    return written


for name in names:
    assert articles_without_value(translators[name]) == without_noun[name]

# %% after: head-six
marker = weights_six[:, 0]
assert abs(marker.min() - 0.39) < 0.005 and abs(marker.max() - 0.60) < 0.005
assert weights_six[:, 1:].max() < 0.185

# %% after: one-row-proves-little
assert len(pd.read_csv(data_path("bank_sentences.csv"))) == 35

# %% after: ask-carried  numbers: 170

# %% after: see-carried
assert [round(term, 2) for term in ways[0, [0, 6]].tolist()] == [0.15, 0.27]
assert abs(weights_six[2, 6] - 0.09) < 0.005
# the output moves by w / (1 - w) times its distance from the value of the hidden key
distance = torch.cdist(weights_six @ values, values)
formula = weights_six / (1 - weights_six) * distance
assert torch.allclose(hiding(weights_six, values), formula, atol=1e-5)

# %% after: carried-read  numbers: 6, 141, 241
shuffled = torch.zeros(8, 2)  # in how many rows, with the values shuffled among the keys
for seed in range(8):
    generator = torch.Generator().manual_seed(seed)
    for sentence in pd.read_csv(data_path("bank_sentences.csv")).sentence:
        _, weights, values = head_six(sentence)
        asks = weights.argmax(dim=-1) == 0
        asks[[0, -1]] = False
        moved = values[torch.randperm(len(values), generator=generator)]
        most = [asks & (way(weights, moved).argmax(dim=-1) == 0) for way in (zeroing, hiding)]
        shuffled[seed] += torch.stack(most).sum(dim=-1)
assert (shuffled.mean(dim=0) - torch.tensor([172, 206])).abs().max() < 1
elsewhere = torch.zeros(3)
for sentence in pd.read_csv(data_path("two_meanings.csv")).sentence:
    _, *both = head_six(sentence)
    asks = both[0].argmax(dim=-1) == 0
    asks[[0, -1]] = False
    most = [asks & (way(*both).argmax(dim=-1) == 0) for way in (zeroing, hiding)]
    elsewhere += torch.stack([asks, *most]).sum(dim=-1)
# in 144 other sentences the two ways disagree as well
assert (
    elsewhere[0] > 1000 and elsewhere[1] < 0.03 * elsewhere[0] < 0.4 * elsewhere[0] < elsewhere[2]
)

# %% after: whose-column
assert len(pd.read_csv(data_path("bank_sentences.csv"))) == 35

# %% after: late-read
same = torch.stack(same_word).mean(dim=0)
assert len(same_word) > 400 and same[0] == 0  # at the start the same word has the same vector
assert (same[1:].round(decimals=2)[[0, 5]] - torch.tensor([0.22, 0.85])).abs().max() < 0.015
assert (means[1] > 1).all()  # “bank” itself, everywhere
for new in ("house", "tree", "money"):  # other words in the place of “bank”
    for sentence in pd.read_csv(data_path("bank_sentences.csv")).sentence[:8]:
        old, fresh = (encoder.read(s).vectors for s in (sentence, sentence.replace("bank", new)))
        change = (fresh - old).norm(dim=-1) / old.norm(dim=-1)
        place = encoder.tokens(sentence).index("bank")
        others = [i for i in range(1, len(old[0]) - 1) if i != place]
        assert change[0, others].max() == 0 and change[1, others].min() > 0
        assert change[6, others].mean() > 2 * change[1, others].mean()
        assert (change[:, place] > change[:, others].mean(dim=1)).all()

# %% after: who-asks
at_marker = (trained[:, 1:-1].argmax(dim=-1) == 0).float().mean(dim=-1)  # rows of words
assert at_marker[3] == 0 and sum(at_marker > 0.8) >= 6  # most of the others are easy to tell

# %% after: reveal-read  numbers: 2, 3
apart = (trained[:, 1] - trained[:, 5]).abs().amax(dim=-1)  # of the two rows of “the”
assert apart[3] < 0.055 and apart[2] > 0.99 and (noise[1] - noise[5]).abs().max() > 0.4
# similar vectors, and untrained matrices on the same tokens tend to give similar rows as well
embedded = layer.read("the cat sat on the mat").embedded
embedded = embedded / embedded.std()
assert torch.cosine_similarity(embedded[1], embedded[5], dim=0) > 0.85
closer = 0
for seed in range(100):
    W_q, W_k = torch.randn(2, 384, 32, generator=torch.Generator().manual_seed(seed)) / 384**0.5
    maps = attention_weights(attention_scores(embedded @ W_q, embedded @ W_k))
    apart = torch.cdist(maps, maps)[1]
    closer += (apart[5] < apart[[2, 3, 4, 6]].mean()).item()
assert closer > 85

# %% after: explored
even = (attention_weights(scores.T) - 1 / 3).abs().amax(dim=-1) < 1e-6
assert even.nonzero().flatten().tolist() == [0, 4]  # "The" and "the"

# %% after: diagonal
for seed in range(1, 5):  # other tokens and matrices
    generator = torch.Generator().manual_seed(seed)
    other_x = torch.randn(100, 10, 64, generator=generator)
    q, k = torch.randn(2, 100, 64, 64, generator=generator) / 8
    top = attention_scores(other_x @ q, other_x @ k).argmax(dim=-1)
    assert abs((top == torch.arange(10)).float().mean() - 0.1) < 0.03
    assert (attention_scores(other_x, other_x).argmax(dim=-1) == torch.arange(10)).all()
products = many_x @ many_x.mT
off = products[:, ~torch.eye(10, dtype=torch.bool)]
assert abs(products.diagonal(dim1=1, dim2=2).mean() - 64) < 1
assert abs(off.mean()) < 0.3 and abs(off.std() - 8) < 0.3

# %% after: exercise-1  numbers: 4, 1, 0

# %% after: exercise-2  numbers: 0.576, 0.99

# %% after: exercise-5  numbers: 3, 60

# %% after: torch-weights
assert layer_of_torch(*three_times, need_weights=False)[1] is None
assert torch.allclose(mean_of_heads, each_head.mean(dim=1))

# %% after: sources  numbers: 2015, 2017, 2019, 2020

# %% after: teacher-plan  numbers: 50, 4, 10, 14, 11, 6, 7

# %% after: teacher-questions  numbers: 1, 2, 3, 4, 5, 1/8, 0.6, 0, 0.9, 0.00
