# %% 5-what-does-bank-mean-here-mixing-is-not-selecting [markdown]
# # 5 · What does “bank” mean here? Mixing is not selecting
#
# Attention gives “bank” a weighted average of its sentence, and a plain average often does as well. Whether the weights
# **select** the words that tell has to be measured: in hand-made, random and trained numbers.
#
# **You need** lessons 1 and 4; for one cell, the masks of lesson 3.
#
# **You will be able to** put a control beside an attention experiment, tell mixing from selecting, test a trained head on fresh
# sentences, build a counterexample.
#
# **Time:** 45 minutes in class, 80 alone.

# %%
import matplotlib.pyplot as plt
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import attention_scores, attention_weights, data_path, load_table
from attnlab import sequence_mask, split_heads, trace_attention
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import check_minimal_pair, check_needed_strength
from attnlab.exercises import check_plain_average, check_tested_head, predict
from attnlab.explorers import BankExplorer, RealHeadsExplorer
from attnlab.live import live
from attnlab.plotting import plot_attention, plot_sweep
from attnlab.pretrained import load_layer

lesson_setup()

# %% [markdown]
# ## Two banks, typed in
#
# A well-known demonstration has four tokens and four features, all typed in. Two tokens are banks. It is said to show that the
# river's bank looks at “River” and “Water”, ignores the other bank, and so the two are told apart. We run it.

# %% two-banks-typed-in
tokens, features, x = load_table("two_banks.csv")
money_bank, river_bank = x[2], x[3]


def alike(a, b):
    """1: same direction. 0: nothing in common."""
    return F.cosine_similarity(a, b, dim=-1)


before = alike(money_bank, river_bank)
assert torch.isclose(before, torch.tensor(0.0569), atol=1e-4)
print(tokens, features, before)
x

# %% two-banks-typed-in-2 [markdown]
# The cosine of the two banks is 0.057: nearly at a right angle. No generic “bank” went in. Whoever typed the rows had told
# the two apart already.
#
# A score adds up what two tokens share, feature by feature.

# %% two-banks-typed-in-3
raw = x @ x.T
expected = [[1.25, 1.2, 0, 1.4], [1.2, 1.44, 0, 1.08], [0, 0, 2.44, 0.12]]
assert torch.allclose(raw[:3], torch.tensor(expected), atol=1e-4)
products = river_bank * x[0]  # with River
assert products.sum().isclose(raw[3, 0])
products, raw[3]

# %% two-banks-typed-in-4 [markdown]
# 0.9 for nature and 0.5 for shore make the 1.4 of “River”; with the other bank only finance is shared, 0.12. So far the
# demonstration is right: overlap makes scores.

# %% much-attention-river-s-bank
predict("05/much-attention-river-s-bank")

# %% much-attention-river-s-bank-answer
# %%answer 05/much-attention-river-s-bank
output, weights, scores = trace_attention(x, x, x)
row = weights[3]
assert torch.allclose(row, torch.tensor([0.2768, 0.2358, 0.1459, 0.3414]), atol=1e-4)
assert row[1] < 0.25 < row[0]
print(f"the other bank gets {row[2] / row[1]:.0%} of what Water gets")
row, row / 0.25  # weights, and how many even shares they are

# %% two-banks-typed-in-5
ax = plot_attention(
    weights, queries=tokens, keys=tokens, colorbar=True, title="Nobody is ignored"
)
show_figure(ax, "5.1")

# %% after-attention-outputs-more-alike
predict("05/after-attention-outputs-more-alike")

# %% after-attention-outputs-more-alike-answer
# %%answer 05/after-attention-outputs-more-alike
after = alike(output[2], output[3])
assert torch.isclose(after, torch.tensor(0.7382), atol=1e-4)
mixed = torch.tensor([0.2093, 0.8671, 0.1459, 0.4798])
assert torch.allclose(output[3], mixed, atol=1e-4)
print(f"before {before:.3f}, after {after:.3f}")
river_bank, output[3]

# %% two-banks-typed-in-6 [markdown]
# The river's bank had 1.0 of shore and 0.1 of finance; now it has 0.480 and 0.209. Meanings were **mixed**, that of the other
# bank too. Nothing ambiguous went in, so nothing was resolved.
#
# Nor does it show intelligence. A random orthogonal matrix turns or mirrors all rows alike: no column
# has a name any more, and the weights stay.

# %% two-banks-typed-in-7
turn, _ = torch.linalg.qr(torch.randn(4, 4))
turned = x @ turn
assert torch.allclose(trace_attention(turned, turned, turned).weights, weights)
turned

# %% sharper [markdown]
# The table of weights needs no “nature”, only dot products, and those came from our keyboard.
#
# ## Sharper?
#
# A first repair: multiply queries and keys by a factor, so scores by its square; leave the values. At 3 the outputs have the cosine 0.050, a little below the inputs.

# %% river-s-bank-look
predict("05/river-s-bank-look")

# %% river-s-bank-look-answer
# %%answer 05/river-s-bank-look
print("factor  cosine  River  Water  other bank  itself")
for factor in (1, 2, 3):
    sharp = trace_attention(factor * x, factor * x, x)
    cosine = alike(sharp.output[2], sharp.output[3])
    entries = "  ".join(f"{weight:.3f}" for weight in sharp.weights[3])
    print(f"{factor:>6}   {cosine:.3f}  {entries}")
assert cosine.isclose(torch.tensor(0.0505), atol=1e-4)  # factor 3
assert sharp.weights[3].argmax() == 3

# %% a-fair-test [markdown]
# Who listens to nobody learns nothing. At 2 this bank still listens to “River”, 0.255, with the cosine 0.082: but the two were apart when
# they went in.
#
# ## A fair test
#
# One vector for “bank”, the same in every sentence. And a [**control**](glossary.ipynb#control): the average of the same vectors with
# equal weights, which cannot select. Where it does as well, the weights have earned nothing.
#
# `bank_words.csv` has 53 words, typed in. Its fifth feature comes later.

# %%
names, columns, table = load_table("bank_words.csv")
assert len(names) == 53
typed = dict(zip(names, table, strict=True))


def vectors(words):
    """One row per word, (S, 5); a word that is not in the table gets zeros."""
    return torch.stack([typed.get(word, torch.zeros(5)) for word in words])


bank = vectors(["bank"])[0, :4]
print(columns[:4], bank)
alike(bank, money_bank), alike(bank, river_bank)  # about as near to either

# %% well-plain-average
predict("05/well-plain-average")


# %% well-plain-average-answer
# %%answer 05/well-plain-average
def both_ways(context):
    """Cosines with (money bank, river bank): by attention, by the plain average."""
    words = vectors([*context, "bank"])[:, :4]
    attended, weights, _ = trace_attention(words[-1:], words, words)
    ends = torch.stack([attended[0], words.mean(dim=0)])
    return alike(ends[:, None], torch.stack([money_bank, river_bank])), weights[0]


near_river, _ = both_ways(["river", "water"])
near_money, _ = both_ways(["money", "loan"])
right = torch.tensor([[0.304, 0.871], [0.262, 0.867]])
assert torch.allclose(near_river, right, atol=1e-3)
assert torch.allclose(near_money[:, 0], torch.tensor([0.960, 0.962]), atol=1e-3)
_, three = both_ways(["river", "water", "money"])
assert torch.allclose(three, torch.tensor([0.239, 0.222, 0.254, 0.286]), atol=1e-3)
near_river, near_money, three

# %% [markdown]
# The company decides, the weights add next to nothing. With river, water **and** money the weights are 0.239, 0.222, 0.254, and
# 0.286 for itself: nearly even. This experiment shows mixing. It does not show selecting.

# %% [markdown]
# ## Let “bank” ask for what tells
#
# “The thief sailed to the bank with the gold”: “thief” and “gold” go with money, “sailed” with water, and “sailed” tells. So we type in a fifth
# feature, `tells`: 1 for words that tell which bank is meant.
#
# To measure, each word gets a **lean**: the dot product with a direction, from the mean of four money words to the mean of four river words.

# %%
RIVER = ["shore", "lake", "ocean", "beach"]
MONEY = ["finance", "cash", "credit", "market"]
direction = vectors(RIVER).mean(dim=0) - vectors(MONEY).mean(dim=0)
thief = "the thief sailed to the bank with the gold".split()
farmer = "the farmer on the island borrowed gold for his horses from the bank"
farmer = farmer.split()
for words in (thief, farmer):
    lean, tells = vectors(words) @ direction, vectors(words)[:, 4]
    known = [i for i, word in enumerate(words) if word in typed]
    print(*(f"{words[i]} {lean[i]:.2f}{' *' * int(tells[i])}  " for i in known))
direction  # a star above: tells

# %% [markdown]
# A lean above 0 points to the river, below 0 to money. The eight words of the direction occur in no sentence we measure. The lean of an average
# is the average of the leans, with the same weights.
#
# Real layers multiply $x$ by $W_Q$ for the queries and by $W_K$ for the keys (lesson 6). Ours have one column. “bank” asks for `tells`,
# with a strength we choose.


# %%
def asks(words, strength):
    """Weights of the query "bank" with typed matrices (5, 1), (S,)."""
    x = vectors(words)
    bank = x[[words.index("bank")]]
    W_query = strength / bank.sum() * torch.ones(5, 1)  # the query is the strength
    W_key = torch.tensor([[0.0], [0], [0], [0], [1]])  # reads `tells`
    return attention_weights(attention_scores(bank @ W_query, x @ W_key))[0]


def as_it_is(words, strength):
    """The same with query = key = x, scores times strength."""
    x = vectors(words)
    scores = attention_scores(x[[words.index("bank")]], x)
    return attention_weights(strength * scores)[0]


def lean_after(ways, words, strength):
    return (ways(words, strength) @ vectors(words) @ direction).item()


for words in (thief, farmer):
    plain = (vectors(words).mean(dim=0) @ direction).item()
    asked = [lean_after(asks, words, strength) for strength in (0, 1, 2, 3)]
    assert abs(asked[0] - plain) < 1e-6  # strength 0: all weights are equal
    print(f"plain {plain:.3f}   asks:", *(f"{lean:.3f}" for lean in asked))
like_bank = vectors(["island", "borrowed"])[:, :4] @ bank
assert like_bank[0] > like_bank[1]

# %%
strengths = [n / 4 for n in range(25)]
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
for ax, words in zip(axes, (thief, farmer), strict=True):
    plain = (vectors(words).mean(dim=0) @ direction).item()
    curves = {
        "asks for tells": [lean_after(asks, words, one) for one in strengths],
        "query = key = x": [lean_after(as_it_is, words, one) for one in strengths],
        "plain average": [plain] * len(strengths),
    }
    plot_sweep(strengths, curves, ax=ax, xlabel="strength", ylabel="lean of “bank”")
    ax.axhline(0, color="#555555", lw=1)
    ax.set_title(f"{words[1]}: should be {'above' if words is thief else 'below'} 0")
    ax.get_legend().remove()
axes[1].legend(loc="upper right", fontsize=9)
show_figure(fig, "5.2")

# %% [markdown]
# The plain average is on the wrong side in both sentences, -0.025 and 0.060. Asking with strength 3 gives 0.665 and -0.596. The weights
# select, and only now they do what the average cannot. Likeness to “bank” is another thing: “island” scores higher with it than “borrowed”.
#
# What was built in by hand? Both matrices and `tells`, typed with the sentences in sight. The mechanism **can** select. Nothing
# here has found out what tells.

# %% [markdown]
# ## River **and** loan
#
# One vector per word, the same in all sentences. Left and right are meaning, up and down is content: up there “bank” listens.
#
# ### Your experiment: drag a meaning
#
# Answer first. Then lower “river” to the filler words; put it back and push it to the right. When do the weights decide what the plain
# average leaves open?

# %%
BankExplorer()

# %%
both = BankExplorer(sentence="both")
lowered = BankExplorer(sentence="both", moved=[("river", -3, -2)])
right = BankExplorer(sentence="both", moved=[("river", 3, 2)])
for state in (both, lowered, right):
    ends, average = state.result.output[0], state.result.average[0]
    print(f"attention {ends + 0.0:.2f}   plain average {average + 0.0:.2f}")
assert abs(both.result.output[0]) < 1e-6 and lowered.result.output[0] > 1.7
for sharpness in (0, 0.25, 0.5, 1, 2, 4, 8):
    sharp = BankExplorer(sentence="both", sharpness=sharpness)
    assert abs(sharp.result.output[0]) < 1e-6
this = "this bank by the river gave a loan".split()
undecided = lean_after(asks, this, 3)
assert abs(undecided) < 0.02
print(f"our matrices, the same sentence: lean {undecided:.3f}")

# %% [markdown]
# Undecided at any sharpness: both tell, both get the same. Lowered, “river” leaves “bank” to “loan”, and the plain average stays in
# the middle: there the weights select. Pushed to the right, mixing is enough.
#
# A bank that gives loans is no river's bank, wherever it stands. To get this right we would type 0 for “river”, in this sentence
# only. But `tells` belongs to a word, and **which** word tells belongs to the sentence.

# %% [markdown]
# ## A trained layer
#
# Nobody typed these numbers: the first of six layers of all-MiniLM-L6-v2, a small model that turns sentences into vectors. Twelve heads side by
# side, counted from 0, each with its own $W_Q$, $W_K$ and $W_V$ (lessons 6 and 7). A token's row is made of word and position; the markers
# `[CLS]` and `[SEP]` stand at the ends. We look at the attention alone.

# %%
layer = load_layer()
sat = layer.read("she sat on the bank of the river")
assert layer.respelled("she sat on the bank of the river") == {}
at, river = sat.tokens.index("bank"), sat.tokens.index("river")
print(sat.tokens)
sat.embedded.shape, sat.weights.shape  # (L, E), (H, L, L)

# %%
predict("05/many-twelve-heads-river-bank")

# %%
# %%answer 05/many-twelve-heads-river-bank
rows_of_bank = sat.weights[:, at]  # (H, S): one query, twelve heads
favourites = [sat.tokens[j] for j in rows_of_bank.argmax(dim=-1)]
assert [h for h, word in enumerate(favourites) if word == "river"] == [4, 10]
assert favourites.count("[CLS]") == 7 and rows_of_bank[2].argmax() == at - 1
print(rows_of_bank[[4, 10], river])
heads = [f"head {h}" for h in range(12)]
fig, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
plot_attention(rows_of_bank, ax=ax, queries=heads, keys=sat.tokens, colorbar=True)
ax.set(ylabel="", title="“bank” in twelve heads")
show_figure(fig, "5.3")

# %% [markdown]
# “river”, from “bank”: it looks like understanding. But two of twelve were found by looking at twelve.
#
# ### Your experiment: river and loan, once more
#
# The sentence of the plane, read by twelve heads. Which of them send “bank” to “river”, which to “loan”? Then type a sentence of your own.
#
# <details><summary>Answer</summary>Heads 4 and 10 to “river”, heads 0 and 3 to “loan”: nobody decides.</details>

# %%
seen = layer.read(" ".join(this))
most = [seen.tokens[j] for j in seen.weights[:, seen.tokens.index("bank")].argmax(-1)]
assert [h for h in range(12) if most[h] == "river"] == [4, 10]
assert [h for h in range(12) if most[h] == "loan"] == [0, 3]
RealHeadsExplorer(sentence=" ".join(this), head=4, word=2, ask=False)

# %% [markdown]
# ## Chance, habit, or a question of its own?
#
# We wrote 32 sentences with their telling words before any head read them. Half are **clear**, with words of one side
# only; half are **mixed**, like that of the thief and the gold. We measure what the telling word gets, in even shares (lesson 4: uniform share):
# 1 is the plain average.
#
# The heads were found with three others, where “river”, “deposit” and “robbed” tell. Sentences where these tell are left out.

# %%
task = pd.read_csv(data_path("bank_sentences.csv"))
task = task[task.kind != "known"].reset_index(drop=True)
texts = [layer.tokens(sentence) for sentence in task.sentence]
lengths = torch.tensor([len(text) for text in texts])
bank_at = torch.tensor([text.index("bank") for text in texts])
pairs = zip(texts, task.telling, strict=True)
telling_at = torch.tensor([text.index(word) for text, word in pairs])
fresh = torch.tensor([w not in ("river", "deposit", "robbed") for w in task.telling])
assert len(task) == 32 and fresh.sum() == 25
assert all(layer.respelled(sentence) == {} for sentence in task.sentence)
print(task.groupby(["kind", "meaning"]).size().to_dict())
task.iloc[[0, 8, 16, 24]]

# %%
real = sequence_mask(lengths)  # (N, L), True = a token
each = torch.arange(len(task))


def embed_all(layer, asker="bank"):
    """All sentences, with another word in the place of "bank" if asked: (N, L, E)."""
    x = torch.zeros(*real.shape, 384)
    for i, text in enumerate(texts):
        swapped = [asker if token == "bank" else token for token in text]
        x[i, : len(text)] = layer.embed(swapped)[0]
    return x


def rows_of(layer, asker="bank"):
    """The row of "bank", or of who stands there, in every head: (N, H, S)."""
    weights = layer.attention(embed_all(layer, asker), attn_mask=real[:, None, None])[1]
    return weights[each, :, bank_at]


def even_shares(rows):
    """Weight of the telling word times the number of tokens, where it is fresh."""
    return (rows[each, :, telling_at] * lengths[:, None])[fresh]  # (25, H)


rows = rows_of(layer)
shares = even_shares(rows).mean(dim=0)  # (H,)
most = (rows.argmax(dim=-1) == telling_at[:, None])[fresh].sum(dim=0)
print(f"it gets most of all in {most[4]} of 25 (head 4), {most[10]} of 25 (head 10)")
shares

# %% [markdown]
# Head 4 gives a fresh telling word 3.3 even shares, head 10 gives 1.8. Would chance?
#
# Two controls, 240 heads each: a layer filled with random numbers, with the mean and spread of each trained matrix; and one that
# keeps the trained word vectors, with random matrices in its attention.


# %%
def fill(part, like, seed):
    """Random numbers with the mean and spread of the trained ones."""
    generator = torch.Generator().manual_seed(seed)
    for mine, trained in zip(part.parameters(), like.parameters(), strict=True):
        mine.normal_(trained.mean().item(), trained.std().item(), generator=generator)


def drawn(seed, words):
    """A layer with random attention, and trained or random words."""
    new = load_layer()
    fill(new.attention if words == "trained" else new, LIKE[words], seed)
    return new


LIKE = {"random": layer, "trained": layer.attention}
chance = {}
for words in LIKE:
    layers = [rows_of(drawn(seed, words)) for seed in range(20)]
    found = torch.stack([even_shares(one).mean(dim=0) for one in layers])  # (20, H)
    best = found.amax(dim=1).mean()  # of twelve, picked after looking
    print(f"{words} words: mean {found.mean():.1f}, best {found.max():.1f}", end="; ")
    print(f"the best of twelve, on average, {best:.1f}")
    chance[words] = found
assert max(found.max() for found in chance.values()) < shares[4]
assert all(found.numel() == 240 for found in chance.values())
assert chance["trained"].amax(dim=1).mean() > shares[10]

# %% many-chair-asks
predict("05/many-chair-asks")

# %%
# %%answer 05/many-chair-asks
askers = ["bank", "chair", "school", "side", "edge"]
asked = {word: even_shares(rows_of(layer, word)).mean(dim=0) for word in askers}
assert asked["chair"][4] < 0.5 and asked["school"][4] < 0.5 < 1.5 < asked["side"][4]
assert shares[4] > 2 * max(asked[word][4] for word in askers[1:])
frame = pd.DataFrame({word: asked[word][[3, 4, 10]].tolist() for word in askers})
frame.set_axis(["head 3", "head 4", "head 10"]).round(2)

# %%
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
look = {"color": "#f2dcc8", "lw": 0, "label": "240 random heads, trained words"}
ax.axhspan(chance["trained"].min().item(), chance["trained"].max().item(), **look)
places, own, chair = torch.arange(12), shares, asked["chair"]
bars = ax.bar(places - 0.2, own, 0.4, color="#0b61a4", label="“bank” asks")
ax.bar(places + 0.2, chair, 0.4, color="#c8500a", hatch="//", label="“chair” asks")
ax.axhline(1, color="#555555", lw=1, ls="--")
ax.bar_label(bars, [f"{share:.1f}" for share in own], padding=2, fontsize=9)
ax.set(xticks=range(12), xlabel="head", ylabel="even shares", ylim=(0, 5))
ax.legend(loc="upper right", fontsize=9)
show_figure(fig, "5.4")

# %% [markdown]
# Head 10 does not pass: the best of twelve random heads that know the words gets 2.0, on average. Head 4 passes: more than any of 240, and
# less than half if another word asks. It has learned to pick, for “bank”, words that go with banks. That **is** selection. Of a meaning?
#
# ## Which bank is meant?
#
# “the thief saw the bank by the river” may be a river's bank. “the thief robbed the bank by the river” is not.

# %%
predict("05/happens-score-bank-river-before")

# %%
# %%answer 05/happens-score-bank-river-before
saw = layer.read("the thief saw the bank by the river")
robbed = layer.read("the thief robbed the bank by the river")
assert saw.tokens.index("bank") == robbed.tokens.index("bank") == at
rest = [j for j in range(len(saw.tokens)) if saw.tokens[j] != "saw"]
# a ratio of two weights is e to the difference of their scores
pair = [one.weights[:, at] for one in (saw, robbed)]
ratios = [row[:, rest] / row[:, [river]] for row in pair]
assert torch.allclose(*ratios, rtol=1e-3)
for head in (4, 10):
    (first, then), (new, kept) = (row[head, [3, river]].tolist() for row in pair)
    print(f"head {head}: saw {first:.3f}, river {then:.3f}")
    print(f"{'':8}robbed {new:.3f}, river {kept:.3f}")

# %% [markdown]
# Among the other words everything is shared as before. No third word can tell “bank” that this river is beside the point. In
# deeper layers it might: there a word's row is already a mixture of its sentence. We do not test them.
#
# The position of a word does enter the score. How much does order matter?

# %%
predict("05/shuffle-eight-words-she-sat")

# %%
# %%answer 05/shuffle-eight-words-she-sat
generator = torch.Generator().manual_seed(0)
found, before_bank = [], []
for _ in range(200):
    order = [0, *(1 + torch.randperm(8, generator=generator)).tolist(), 9]
    words = [sat.tokens[j] for j in order]
    place, there = words.index("bank"), words.index("river")
    found.append(layer(words).weights[0, :, place, there])
    before_bank.append(there == place - 1)
    kept = layer.attention(layer.embed(words, positions=order)).weights
    assert torch.allclose(kept[0, :, place, there], rows_of_bank[:, river], atol=1e-5)
found = torch.stack(found)  # (200, H)
assert rows_of_bank[4, river].isclose(torch.tensor(0.714), atol=1e-3)
assert torch.equal(found[:, 2] > 0.9, torch.tensor(before_bank))
for head in (4, 10, 2):
    one, usual = found[:, head], rows_of_bank[head, river]
    print(f"head {head}: in order {usual:.2f}, shuffled {one.mean():.2f}", end=" ")
    print(f"({one.min():.2f} to {one.max():.2f})")

# %% [markdown]
# For head 10 this is nearly a bag of words. Head 2 does mind order: “river” gets nearly all right before “bank”.
#
# ### Your experiment: build a counterexample
#
# The claim is: “the weights pick the word that shows which bank is meant”. One sentence about money in which head 4 prefers a word of water breaks
# it. Of the three below two do, and one does not. Put in your own, run the cell, move the head.

# %%
mine = [
    "the bank raised the price of the river island",
    "this bank by the river gave a loan",
    "the bank by the bridge has no money",
]


def draw_bank(fig, sentence, head):
    reading = layer.read(mine[sentence])
    ax, place = fig.subplots(), reading.tokens.index("bank")
    row = reading.weights[head, place]
    bars = ax.bar(range(len(row)), row, color="#0b61a4", width=0.7)
    ax.bar_label(bars, [f"{weight:.2f}" for weight in row], padding=2, fontsize=9)
    ax.axhline(1 / len(row), color="#c8500a", ls="--", lw=1, zorder=0)
    ax.set(xticks=range(len(row)), ylim=(0, 1.1), ylabel="weight")
    ax.set_xticklabels(reading.tokens, rotation=40, ha="right")
    most = reading.tokens[row.argmax()]
    return f"{mine[sentence]}: head {head} looks most at <b>{most}</b>. Dashed: even."


live(
    draw_bank,
    sentence=list(range(len(mine))),
    head=list(range(12)),
    start={"head": 4},
    figsize=(7.2, 3.2),
    alt="Bars: the weights of the query bank in one head, a bar per token.",
)

# %%
for text, favourite in [
    ("the bank raised the price of the river island", "river"),
    ("this bank by the river gave a loan", "river"),
    ("the bank by the bridge has no money", "[CLS]"),
]:
    reading = layer.read(text)
    row = reading.weights[4, reading.tokens.index("bank")]
    assert reading.tokens[row.argmax()] == favourite

# %% [markdown]
# ## One task, three kinds of features
#
# Take a sentence about a river and one about money, both clear or both mixed. Whose “bank” leans further to the river, after
# attention? 8 times 8 pairs of each kind; guessing gets 32.
#
# The lean in a trained or random head: as before, a direction from the four money words to the four river words, made of the head's own values.
# You may skip how pairs are counted.


# %%
def leans_of(layer, river=RIVER, money=MONEY):
    """The lean of every token in every head, 0 for padding: (N, H, S)."""

    def by_head(x):
        return split_heads(layer.attention.v_proj(x), 12)  # (..., H, S, 32)

    def middle(words):
        alone = [layer.embed(["[CLS]", word, "[SEP]"]) for word in words]
        return torch.cat([by_head(x)[:, :, 1] for x in alone]).mean(dim=0)  # (H, 32)

    direction = middle(river) - middle(money)
    leans = (by_head(embed_all(layer)) * direction[:, None]).sum(dim=-1)
    return leans * real[:, None]


def ends_of(rows, leans):
    """Lean of "bank" by attention, and by the plain average: (N, H) each."""
    return (rows * leans).sum(dim=-1), leans.sum(dim=-1) / lengths[:, None]


by_attention, by_average = ends_of(rows, leans_of(layer))
by_attention.shape

# %%
where = {
    pair: torch.tensor(indices)  # 8 sentences each
    for pair, indices in task.groupby(["kind", "meaning"]).indices.items()
}


def pairs_right(lean, kind):
    """Which of 8 times 8 pairs come out right; lean (N,) -> (8, 8)."""
    return lean[where[kind, "river"]][:, None] > lean[where[kind, "money"]]


def tally(share, attended, plain):
    """Even shares of the telling word, then how many pairs are right."""
    counts = [
        pairs_right(lean, kind).sum()
        for kind in ("clear", "mixed")
        for lean in (plain, attended)
    ]
    return torch.stack([share.mean(), *counts])


def tally_typed(ways, strength):
    share, attended, plain = [], [], []
    for sentence, word in zip(task.sentence, task.telling, strict=True):
        words = sentence.split()
        weights, lean = ways(words, strength), vectors(words) @ direction
        share.append(weights[words.index(word)] * len(words))
        attended.append(weights @ lean)
        plain.append(lean.mean())
    share, attended, plain = map(torch.stack, (share, attended, plain))
    return tally(share[fresh], attended, plain)


# %% plain-average-same-values
predict("05/plain-average-same-values")

# %%
# %%answer 05/plain-average-same-values
share = even_shares(rows)
chosen = {f"trained, head {h}": (share, by_attention, by_average, h) for h in (4, 10)}
table = {
    "hand-made, query = key = x": tally_typed(as_it_is, 1),
    "hand-made, asks for tells": tally_typed(asks, 3),
}
by_chance = []
for seed in range(20):
    other = drawn(seed, "random")
    noise = rows_of(other)
    parts = even_shares(noise), *ends_of(noise, leans_of(other))
    by_chance += [tally(*(part[:, h] for part in parts)) for h in range(12)]
table["random, mean of 240 heads"] = torch.stack(by_chance).mean(dim=0)
for name, (*parts, h) in chosen.items():
    table[name] = tally(*(part[:, h] for part in parts))
table["trained, all heads"] = tally(share, by_attention.sum(1), by_average.sum(1))

# %%
# %%answer 05/plain-average-same-values
kinds = [(kind, way) for kind in ("clear", "mixed") for way in ("plain", "attention")]
index = pd.MultiIndex.from_tuples([("telling word", "even shares"), *kinds])
measured = pd.DataFrame({name: row.tolist() for name, row in table.items()}, index).T
assert measured["clear"].drop("random, mean of 240 heads").min().min() > 60
gain = measured["mixed", "attention"] - measured["mixed", "plain"]
assert gain.iloc[[1, 3, 4, 5]].tolist() == [13, 15, -7, 2]
measured.round(1).astype({pair: int for pair in kinds})

# %%
# %%answer 05/plain-average-same-values
both = [pairs_right(lean[:, 4], "mixed").float() for lean in (by_attention, by_average)]
generator = torch.Generator().manual_seed(0)
water, money = torch.randint(8, (2, 4000, 8), generator=generator)  # drawn again
gaps = (both[0] - both[1])[water[:, :, None], money[:, None]].sum(dim=(1, 2))
low, high = gaps.quantile(torch.tensor([0.025, 0.975])).tolist()
print(f"head 4 against its plain average: +{gaps.mean():.0f} pairs", end=" ")
print(f"({low:.0f} to {high:.0f} with other draws of the sentences)")
unseen = fresh[where["mixed", "river"]][:, None] & fresh[where["mixed", "money"]]
few, few_plain = (right[unseen].sum().item() for right in both)
print(f"fresh telling words: {few:.0f} of {unseen.sum()} pairs, plain {few_plain:.0f}")
values, gained = leans_of(layer)[:, 4:5], []  # of head 4
for seed in range(20):
    ends = (rows_of(drawn(seed, "trained")) * values).sum(dim=-1)  # random weights
    gained += [pairs_right(one, "mixed").sum() - both[1].sum() for one in ends.T]
gained = torch.stack(gained)
print(f"random: {gained.mean():.0f}, {(gained >= 15).sum()} of {len(gained)} gain 15")
assert (few, few_plain, unseen.sum()) == (20, 16, 24)
case = task.index[task.sentence == "the thief robbed the bank by the river"].item()
whole = by_attention.sum(dim=1)
beaten = (whole[case] > whole[where["mixed", "river"]]).sum()
assert beaten == 7
print(f"the robbed bank leans further to the river than {beaten} of 8 river banks")

# %% [markdown]
# **Clear sentences** cannot tell mixing from selecting: the plain average of typed or trained values gets 61 or more.
#
# **Mixed sentences** can. Typed matrices gain 13 pairs, from typed answers. Head 4 gains 15, with other sentences perhaps 3 or 28; random
# weights on its values lose 4, on average. Fresh telling words only: 20 of 24 pairs, plain 16. Head 10 **loses** 7; all heads gain 2.
#
# The robbed bank leans further than 7 of 8 river banks.

# %% [markdown]
# | features | whose numbers | shown here | not shown |
# |---|---|---|---|
# | hand-made | ours, with the answers in sight | attention mixes; with `tells` it can select | that anything is learned |
# | random | chance | what a pattern has to beat | |
# | trained | learned from text by a whole model | head 4 selects words that go with “bank” | that it chooses the meaning; what six layers do |
#
# So “attention understands which bank is meant” is wrong for these numbers. What holds: attention lets “bank” take in its sentence, and training
# can teach it which words to take most of.

# %% [markdown]
# ## Further: other words for the direction
#
# The lean rests on eight words that we chose. Thirty times we draw four and four from longer lists. What survives?

# %%
waters = "shore lake ocean beach sea wave coast harbor sand ship whale shark".split()
trades = "finance cash credit market business tax company trade cost income".split()
assert not {*waters, *trades} & {token for text in texts for token in text}
generator, found = torch.Generator().manual_seed(0), []
for _ in range(30):
    four = [
        [words[i] for i in torch.randperm(len(words), generator=generator)[:4]]
        for words in (waters, trades)
    ]
    ends = ends_of(rows, leans_of(layer, *four))
    one = [[pairs_right(lean[:, h], "mixed").sum() for lean in ends] for h in (4, 10)]
    whole = ends[0].sum(dim=1)
    one.append([pairs_right(lean.sum(dim=1), "mixed").sum() for lean in ends])
    beaten = (whole[case] > whole[where["mixed", "river"]]).sum()
    found.append([*(by_weights - plain for by_weights, plain in one), beaten])
found = torch.tensor(found)
what = ["head 4 gains", "head 10 gains", "all heads gain", "river banks beaten"]
for name, column in zip(what, found.T, strict=True):
    print(f"{name}: {column.min()} to {column.max()}, median {column.median()}")
assert found[:, 0].min() > 0 and found[:, 3].min() >= 1 and found[:, 3].median() < 7

# %% [markdown]
# Head 4 gains with all thirty choices, 4 to 18 pairs; 15 was a high draw. Head 10 and all heads together go either way. The robbed bank leans
# further to the river than at least one river bank, each time; 7 was a high draw too.

# %% [markdown]
# ## What to remember
#
# - Attention mixes: two banks with the cosine 0.057 came out with 0.738.
# - Put a plain average beside every attention experiment. On clear sentences the average of all heads gets 64 of 64 pairs too.
# - Selecting means doing what the plain average cannot. Typed matrices can, with typed answers; head 4 of a trained layer did, on our
#   mixed sentences.
# - Found by looking at twelve? Test on fresh sentences, against random heads that know the same words, with another word asking.
# - In a first layer the score of two words does not depend on the others: none can say that this river is beside the point.

# %%
assert abs(before - 0.057) < 1e-3 and abs(after - 0.738) < 1e-3
assert table["trained, all heads"][1] == 64 and shares[4] > 3

# %% 1-predict-4-minutes [markdown]
# ## Exercises
#
# ### 1 · Predict ★ (4 minutes)
#
# Our typed matrices, a sentence of nine words. One word has `tells` 1, the other eight 0. Which strength gives it exactly half of the weight?
#
# <details><summary>Hint</summary>Its score is the strength, the others' scores are 0. What does each of them count in the row's sum? $e$ to the strength must be
# as much as all of them together.</details>


# %% tags=["exercise"]
def needed_strength():
    """Return the number."""


# %%
check_needed_strength(needed_strength)


# %% tags=["solution"] jupyter={"source_hidden": true}
def needed_strength_solution():
    return torch.tensor(8.0).log().item()  # e^s = 8 times e^0


check_needed_strength(needed_strength_solution)

# %% 2-implement-8-minutes [markdown]
# ### 2 · Implement ★★ (8 minutes)
#
# Write the control for any attention: every query gets the plain average of the values it may look at. True means “may attend”; a query that
# may look at nothing gets zeros, as in attention.
#
# <details><summary>Hint</summary>The mask as numbers is a table of weights that are not divided yet. By what must each row be divided, and what if that is 0?</details>


# %% tags=["exercise"]
def plain_average(value, attn_mask):
    """value (..., S, Ev), attn_mask (..., L, S) of bool -> (..., L, Ev)."""


# %%
check_plain_average(plain_average)


# %% tags=["solution"] jupyter={"source_hidden": true}
def plain_average_solution(value, attn_mask):
    open_to = attn_mask.to(value.dtype)
    return open_to / open_to.sum(dim=-1, keepdim=True).clamp(min=1) @ value


check_plain_average(plain_average_solution)

# %% 3-repair-8-minutes [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# A report says: “one head gives the telling word many even shares”. It looked for the best head on the very sentences it reports. Repair it: choose the
# head on `known`, report on `fresh`.
#
# <details><summary>Hint</summary>Two means: over the known sentences to choose, over the fresh ones to report. The fresh ones may not take part in the choice.</details>


# %% tags=["exercise"]
def broken_report(known, fresh):
    means = torch.cat([known, fresh], dim=1).mean(dim=1)
    return means.argmax().item(), means.max().item()


def tested_head(known, fresh):
    """Even shares (H, known sentences), (H, fresh ones) -> head, its mean."""


# %%
check_tested_head(tested_head)


# %% tags=["solution"] jupyter={"source_hidden": true}
def tested_head_solution(known, fresh):
    head = known.mean(dim=1).argmax()
    return head.item(), fresh[head].mean().item()


torch.manual_seed(0)
luck = torch.rand(500, 12, 6) * 2  # even share 1 in every head: nothing to find
told = torch.tensor([broken_report(one[:, :3], one[:, 3:])[1] for one in luck])
tested = torch.tensor([tested_head_solution(one[:, :3], one[:, 3:])[1] for one in luck])
assert told.mean() > 1.3 and abs(tested.mean() - 1) < 0.05
print(f"of pure luck: broken {told.mean():.1f}, repaired {tested.mean():.1f}")
check_tested_head(tested_head_solution)

# %% 4-build-10-minutes [markdown]
# ### 4 · Build ★★ (10 minutes)
#
# With “robbed” for “saw”, head 10 changed its favourite from “river” to “robbed”. Perhaps it notices, after all? Find two sentences that
# differ in **one** word, the first about a river's bank, the second about a money bank, where head 10's favourite is the same word in both. The check
# measures; the meaning is for you to judge.
#
# <details><summary>Hint</summary>Head 10 likes words of water, wherever they stand. Which word may follow such a word without taking its place? Try your sentences in the
# slider above, or with <code>reading = layer.read(text)</code> print <code>reading.weights[10, reading.tokens.index("bank")]</code>.</details>


# %% tags=["exercise"]
def minimal_pair():
    """Return two sentences."""


# %%
check_minimal_pair(minimal_pair)


# %% tags=["solution"] jupyter={"source_hidden": true}
def minimal_pair_solution():
    return "they sailed to the bank for a swim", "they sailed to the bank for a loan"


check_minimal_pair(minimal_pair_solution)

# %% 5-explain-5-minutes [markdown]
# ### 5 · Explain ★ (5 minutes)
#
# A blog shows one heatmap: in “I put my money in the bank” some head sends “bank” to “money”. “So the model knows that this is no river bank.” Which
# experiments of this lesson would you ask for?
#
# <details><summary>An answer</summary>The plain average: does “bank” end nearer to money without any weights? Fresh sentences, with words of both kinds. Random heads that
# know the same words, as many as were looked at. Another word in the place of “bank”. And a pair of sentences in which “money” stays and the meaning changes: “I left my money on the bank of the lake”. Does the
# head let go?</details>

# %% [markdown]
# ## In torch
#
# The control in one line: a query of zeros. All scores are 0, so what is allowed gets equal weight, in `F.scaled_dot_product_attention` too.
#
# `nn.MultiheadAttention` hands out the mean over the heads unless told otherwise. “river” gets 0.170 of “bank” there: two heads
# give it more than 0.6, the other ten less than 0.15.

# %%
z = sat.embedded[None]
even = F.scaled_dot_product_attention(torch.zeros_like(z), z, z)
assert torch.allclose(even[0], z.mean(dim=1).expand(10, -1), atol=1e-5)
_, mean_of_heads = layer.attention.to_torch()(z, z, z)
assert torch.allclose(mean_of_heads[0], sat.weights.mean(dim=0), atol=1e-4)
assert (rows_of_bank[:, river] > 0.6).sum() == 2
assert (rows_of_bank[:, river] < 0.15).sum() == 10
print(f"river, mean over heads: {mean_of_heads[0, at, river]:.3f}")

# %% next [markdown]
# ## Sources
#
# - Wang et al., [MiniLM](https://arxiv.org/abs/2002.10957), 2020: how the model it comes from was trained.
# - Hewitt and Liang, [Designing and Interpreting Probes with Control Tasks](https://arxiv.org/abs/1909.03368), 2019.
# - Clark et al., [What Does BERT Look At?](https://arxiv.org/abs/1906.04341), 2019: single heads, and attention parked on `[SEP]`.
# - Reif et al., [Visualizing and Measuring the Geometry of BERT](https://arxiv.org/abs/1906.02715), 2019: senses of a word do come apart in whole models.
#
#
#
# ## Next
#
# [6 · Where Q, K and V come from: trainable projections](06_where_q_k_and_v_come_from.ipynb)

# %% next-2 [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# Two banks 8 minutes, fair test 6, asking and the explorer 11, the trained layer and its controls 10, which bank 6, the table 4. Sharpening and shuffling can be
# read at home.
#
# Stalls: “but the model **does** understand”. Agree that a whole model may, and ask which cell shows it. “The plain average is only lucky”: let the class write six
# sentences and count. Let two students hold “river” and “loan” and pull “bank” on a rope; a third is “the”.
# </details>

# %% next-3 [markdown] tags=["teacher"]
# <details><summary>For teachers: questions 1 to 3, and why a wrong choice tempts</summary>
#
# **1.** After attention two tokens of one sentence are, as a rule? **More alike.** *Less*: takes attending for sorting. *Unchanged*: forgets that values are averaged.
#
# **2.** The control for an attention experiment? **Equal weights, same values.** *Random weights*: adds noise of its own. *No attention*: takes the mixing away too.
#
# **3.** Strength 0 gives? **The plain average.** *Zeros*: takes scores for weights. *The word itself*: thinks that who asks for nothing gets nothing.
#
# </details>

# %% next-4 [markdown] tags=["teacher"]
# <details><summary>For teachers: questions 4 and 5</summary>
#
# **4.** Somebody inspects 144 heads and finds one that sends “bank” to “river”. Then? **Test it on fresh sentences.** *It understands*: forgets the other 143. *It is chance*: that is to be measured as well.
#
# **5.** First layer, “saw” becomes “robbed”. The score of “bank” for “river”? **Stays.** *Falls*: mixes up score and weight. *Depends on the head*: no head sees a third word.
#
# </details>
