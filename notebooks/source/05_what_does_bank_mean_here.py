# %% opening [markdown]
# # 5 · What does “bank” mean here?
#
# "She sat on the bank of the river." "She walked to the bank to deposit the money." You know at once which bank is
# meant, because you also read the other words. Attention looks at the other words too: it gives "bank" a new vector,
# which is a weighted average over its sentence. So people often say that it finds out what a word means. Does it?
#
# To answer this, we have to keep two things apart. In any average, a word gets **mixed** with its sentence. It takes
# more to **select**, that is, to give large weights to certain words because of what they are. Whether these are the
# words that show the meaning is a further question.
#
# **You need** lesson 1 (scores, weights and output), the trained layer and its heads from the end of lesson 2, and,
# from lesson 4, uniform attention and the idea of comparing a pattern with chance.
#
# **You will be able to**
# - design a control for an experiment on attention,
# - tell selecting from mixing,
# - test whether what a head does depends on the word that asks,
# - say what a score in the first layer of a model can depend on, and what it cannot.
#
# **Time:** 50 minutes in class, 80 alone.

# %% setup
import pandas as pd
import torch
from attnlab import data_path, load_table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import BankExplorer, RealHeadsExplorer
from attnlab.plotting import plot_attention

lesson_setup()

# %% two-banks [markdown]
# ## Two banks in one table
#
# Suppose a tutorial wants to show that attention can separate two meanings of "bank". Its author types in four tokens
# with four features. One bank lends money, and the other is the shore of a river. The queries, keys and values are the
# typed vectors themselves.

# %% typed-banks
two_banks = load_table("two_banks.csv")
tokens, features, x = two_banks  # x: (4, 4)
two_banks

# %% banks-map
bank_weights = (x @ x.T / 4**0.5).softmax(dim=-1)  # (L, S)
ax = plot_attention(bank_weights, queries=tokens, keys=tokens, colorbar=True)
show_figure(ax, "5.1")

# %% read-map [markdown]
# The bottom row belongs to the river bank. Apart from itself, it attends most to River, because both have the features
# *nature* and *shore*. But [uniform attention](glossary.ipynb#uniform-attention) would give 0.25 to each of the four
# tokens, and the 0.28 of River is hardly more than that. Water gets a little less, and 0.15 goes to the other bank.
#
# What does that do to the vectors? We compare them by the **cosine** of the angle between them. It is 1 for two vectors
# that point in the same direction and 0 for two at right angles to each other.


# %% cosine
def cosine(a, b):
    return torch.nn.functional.cosine_similarity(a, b, dim=-1)


cosine(x[2], x[3])  # the two banks, before attention

# %% ask-alike
predict("05/two-banks-after-attention")

# %% see-alike
# %%answer 05/two-banks-after-attention
bank_output = bank_weights @ x  # (L, E)
print(bank_output)
cosine(bank_output[2], bank_output[3])

# %% fair-test [markdown]
# Whatever the result, the demonstration has a flaw. The two banks went in as different vectors, so their meanings had
# already been separated by the person who typed the table.
#
# ## A fair test
#
# A model looks each word up in a list, so at the start "bank" has the same vector in every sentence (apart from the
# effect of its position). We therefore give it a single vector and let attention move it.
#
# If it moves towards one of the two meanings, do the weights deserve the credit? To find out, an experiment needs a
# [**control**](glossary.ipynb#control): the same experiment without the ingredient that is thought to cause the effect.
# Our ingredient is the weights. So the control is a **plain average** of the same vectors, in which all of them count
# equally.
#
# The table `bank_words.csv` holds 53 words with the four features from above and a fifth one, which we will need later.
# Below are the vector of "bank" and its cosines with the two banks of the first table.

# %% one-bank
names, _, rows = load_table("bank_words.csv")
typed = dict(zip(names, rows, strict=True))


def vectors(words):
    """Return one row per word, (S, 5); a word that is not in the table gets zeros."""
    return torch.stack([typed.get(word, torch.zeros(5)) for word in words])


bank = typed["bank"][:4]
bank, cosine(bank, x[2:])

# %% ask-average
predict("05/the-plain-average")


# %% see-average
# %%answer 05/the-plain-average
def new_vectors(context):
    """Return "bank" after attention and after a plain average: (2, 4)."""
    words = vectors([*context, "bank"])[:, :4]  # (S, 4)
    weights = (bank @ words.T / 4**0.5).softmax(dim=-1)  # (S,)
    return torch.stack([weights @ words, words.mean(dim=0)])


moved = torch.cat([new_vectors(["river", "water"]), new_vectors(["money", "loan"])])
fair = cosine(moved[:, None], x[2:])  # (4, 2)
ways = ["river, water: attention", "plain", "money, loan: attention", "plain"]
pd.DataFrame(fair, ways, ["cosine with money bank", "with shore"]).round(2)

# %% draw-average jupyter={"source_hidden": true}
# %%answer 05/the-plain-average
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(5.4, 3.8), layout="constrained")
look = {
    "width": 0.008,
    "angles": "xy",
    "scale_units": "xy",
    "scale": 1,
    "color": "#777",
}
for context, dy in ((["river", "water"], 0.05), (["money", "loan"], -0.09)):
    attended, plain = new_vectors(context)[:, :2]  # finance and nature
    ax.quiver(*bank[:2], *(attended - bank[:2]), **look)
    ax.scatter(*attended, s=150, color="#0b61a4", zorder=3, edgecolor="white")
    ax.scatter(*plain, s=70, color="#c8500a", marker="D", zorder=4, edgecolor="white")
    ax.text(attended[0] + 0.05, attended[1] + dy, f"with {' and '.join(context)}")
ax.scatter(*bank[:2], s=90, color="white", edgecolor="#222", linewidth=2, zorder=3)
ax.text(bank[0] + 0.04, bank[1], "“bank” before", va="center")
ax.scatter([], [], s=110, color="#0b61a4", label="after attention")
ax.scatter([], [], s=70, color="#c8500a", marker="D", label="plain average")
ax.set(xlim=(0, 1.3), ylim=(0, 1.1), xlabel="finance", ylabel="nature")
ax.set_title("“bank” moves towards its neighbours")
ax.legend(loc="upper right")
show_figure(ax, "5.2")

# %% disagree [markdown]
# ## When the words disagree
#
# In these two examples, all the words point the same way. Real sentences are not so kind: "The thief sailed to the bank
# with the gold." "Thief" and "gold" go with money, but you know that this is a river bank, because the thief *sailed*
# to it. Such a word is the **clue** of its sentence. The fifth feature of our table is 1 for some words that make good
# clues, and 0 for all the others.
#
# A query that asks for this feature, and for nothing else, should find the clue. So we do not let "bank" ask with its
# own vector. We type in a query of this kind instead, and the output is the new vector of "bank". The number `strength`
# says how hard it asks. In our second sentence, the clue is "borrowed": "The farmer on the island borrowed gold for his
# horses from the bank." That bank lends money.


# %% ask-for-clue
def ask_for_clue(words, strength):
    keys = vectors(words)  # (S, 5), and also the values
    query = torch.tensor([0.0, 0.0, 0.0, 0.0, strength])
    weights = (query @ keys.T / 5**0.5).softmax(dim=-1)  # (S,)
    return weights, (weights @ keys)[:4]


thief = "the thief sailed to the bank with the gold"
farmer = "the farmer on the island borrowed gold for his horses from the bank"
asked = {}
for clue, words in {"sailed": thief.split(), "borrowed": farmer.split()}.items():
    for strength in (0, 4, 8):
        weights, new = ask_for_clue(words, strength)
        of_clue = weights[words.index(clue)].item()
        asked[clue, f"strength {strength}"] = [of_clue, *cosine(new, x[2:]).tolist()]
columns = ["weight of the clue", "cosine with money bank", "with shore"]
pd.DataFrame(asked, columns).T.round(2)

# %% selecting [markdown]
# With strength 0, all scores are 0 and all weights are equal, so these two rows are the control. The plain average is
# closer to the *wrong* bank in both sentences. The harder the query asks, the more weight the clue gets, and "bank"
# moves to the correct side. Here the weights do what the plain average cannot: they select.
#
# But we typed in the query and the column of clues by hand, knowing which sentences they had to work for.
#
# ### Your experiment: drag a meaning
#
# Now every word is a point, with nature on the left, money on the right, and filler words at the bottom. "River" and
# "loan" are mirror images of each other, so "bank" ends up in the middle. Answer the question above the picture, and
# drag "river" **straight down**. Then put it back and push it to the right, past the middle. After which of the two
# moves do attention and the plain average end up in different zones?

# %% explore-bank
BankExplorer()

# %% trained-layer [markdown]
# <details><summary>The answer</summary>
#
# When you drag "river" straight down, it gets little weight, so attention turns to "loan". The plain average moves down
# too, but not to the right: it stays between nature and money. In this move the weights decide. Pushed past the middle,
# "river" takes the plain average along, so mixing is enough.
# </details>
#
# ## A trained layer
#
# The numbers in a trained layer were learned, not typed in. We take the one that you know from lesson 2: the first
# attention layer of all-MiniLM-L6-v2, with twelve [heads](glossary.ipynb#head). It puts a token before each sentence,
# `[CLS]`, and one after it, `[SEP]`.

# %% read-sentence
from attnlab.pretrained import load_layer

layer = load_layer()
sat = layer.read("she sat on the bank of the river")
sat.tokens, sat.weights.shape  # (H, L, S)

# %% ask-heads
predict("05/heads-that-attend-to-river")

# %% see-heads
# %%answer 05/heads-that-attend-to-river
of_bank = sat.weights[:, sat.tokens.index("bank")]  # (H, S): the row of "bank"
ax = plot_attention(of_bank, keys=sat.tokens, colorbar=True)
ax.set_ylabel("head")
show_figure(ax, "5.3")

# %% look-through [markdown]
# ### Your experiment: look through the heads
#
# Now the layer reads "this bank by the river gave a loan". In which of the twelve heads does "bank" attend most to
# "river", and in which to "loan"? Then type in a sentence of your own.
#
# <details><summary>The answer</summary>
#
# "River" comes first in heads 4 and 10, and "loan" in heads 0 and 3.
# </details>

# %% explore-heads
sentence_of_both = "this bank by the river gave a loan"
RealHeadsExplorer(sentence=sentence_of_both, head=2, word=2, ask=False)

# %% who-asks [markdown]
# ## Does it matter which word asks?
#
# Among twelve maps, one nearly always looks nice. So we test all twelve heads, on fresh sentences. We wrote 35
# sentences with "bank" and named the clue of each before the layer read it, except for three that we had used to
# explore the layer. If we leave out these and seven others with the same clues, 25 sentences remain. (A head that we
# noticed because of "river" would do well on every sentence that contains "river".)

# %% fresh-sentences
sentences = pd.read_csv(data_path("bank_sentences.csv"))
known = sentences[sentences.kind == "known"]
fresh = sentences[~sentences.clue.isin(known.clue)]
fresh.sample(4, random_state=0)[["sentence", "clue", "meaning"]]

# %% uniform-shares [markdown]
# How much is a weight of 0.3? In a sentence of ten tokens, uniform attention gives 0.1 to each of them, so 0.3 is three
# times that, or **three [uniform shares](glossary.ipynb#uniform-share)**. In general, we multiply the weight by the
# number of tokens.
#
# The function below does this for the clue of every fresh sentence. It can also put another word in place of "bank", so
# that the layer reads "we swam to the chair". Then "chair" is the **query word**. `attend_as` computes the rows of many
# query words at once.


# %% clue-shares
def clue_shares(query_words):
    """Return the uniform shares of the clue, averaged over the sentences: (H, W)."""
    total = torch.zeros(12, len(query_words))
    for sentence, clue in zip(fresh.sentence, fresh.clue, strict=True):
        tokens = layer.tokens(sentence)
        place = tokens.index("bank")
        weights = layer.attend_as(query_words, tokens, place)  # (H, W, S)
        total += weights[:, :, tokens.index(clue)] * len(tokens)
    return total / len(fresh)


clue_shares(["bank"])[:, 0]  # (H,)

# %% many-askers [markdown]
# In four heads, the clue gets more than 1.7 uniform shares from "bank", and in head 4 it gets 3.3. But is "bank" the
# reason? Perhaps these heads favour the clue words no matter which word asks. So we let 5,000 words ask in place of
# "bank": the first 5,000 in the layer's vocabulary with at least three letters, which are roughly the most common ones.

# %% ask-rank
predict("05/rank-of-bank")

# %% see-rank
# %%answer 05/rank-of-bank
query_words = layer.common_words(5000)
shares = clue_shares(query_words)  # (H, W)
by_bank = shares[:, query_words.index("bank"), None]
ranks = 1 + (shares > by_bank).sum(dim=1)  # rank 1 is the largest share
len(query_words), ranks

# %% draw-askers jupyter={"source_hidden": true}
# %%answer 05/rank-of-bank
import seaborn as sns

_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
sns.boxplot(shares.T.numpy(), whis=(0, 100), color="#c6dcef", linewidth=1, ax=ax)
ax.plot(range(12), by_bank, "D", color="#c8500a", ms=8, label="“bank” asks", zorder=5)
ax.axhline(1, color="#555", ls="--", lw=1, label="uniform attention")
ax.set(xlabel="head", ylabel="uniform shares given to the clue", ylim=(-0.2, 5.2))
ax.set_title("What each query word gives to the clue")
ax.legend(loc="upper right", ncols=2)
show_figure(ax, "5.4")

# %% which-meaning [markdown]
# ## Does the head select by meaning?
#
# In head 4, no other query word gives the clue as much as "bank" does, on average over the 25 sentences. In each of the
# other heads, "bank" ranks 72nd or worse. So here is a trained head that selects, and what it selects depends on the
# word that asks.
#
# But not all of its favoured words go with banks. In the sentence "in america the bank kept my money", it gives 0.86 to
# "america" and 0.01 to "money".
#
# Even a word that goes with banks need not show which bank is meant in a given sentence. "The thief saw the bank by the
# river" is probably about a river bank. If we replace "saw" with "robbed", it is about a money bank, and "river" is no
# longer a clue. What happens to the score of "bank" for "river"?

# %% ask-robbed
predict("05/robbed-instead-of-saw")

# %% see-robbed
# %%answer 05/robbed-instead-of-saw
compared = {}
for verb in ("saw", "robbed"):
    reading = layer.read(f"the thief {verb} the bank by the river")
    at, river = (reading.tokens.index(word) for word in ("bank", "river"))
    to_itself, to_river = reading.weights[:, at, at], reading.weights[:, at, river]
    # the log of a weight is its score plus a constant of the row (lesson 2);
    # in a difference it drops out: the score for "river" minus that for "bank"
    compared[verb, "score: river - bank"] = (to_river / to_itself).log()
    compared[verb, "weight of river"] = to_river
pd.DataFrame(compared).rename_axis("head").round(2)

# %% what-a-score-sees [markdown]
# ## What does the output know?
#
# In a first layer, a score is computed from the vectors of two words and their positions. So no score of this layer can
# depend on whether the river matters here. But the output collects the values of the whole sentence, "robbed" included.
#
# We choose twelve water words (such as "ocean") and ten money words (such as "cash"), none of which occurs in our
# sentences. In each head, we average the values of the water words (each read alone) and subtract the average for the
# money words. The difference is a direction that points from money to water. The dot product of the output of "bank"
# with it says how far "bank" leans towards water. For all heads together, we add up the twelve numbers.
#
# Besides the three known ones, we have 16 **clear** sentences, with words of one kind only, and 16 **mixed** ones. Half
# of each kind are about a river. We compare every river sentence with every money sentence, which makes 8 × 8 = 64
# pairs of each kind. A pair counts as correct if the output of "bank" lies further towards water in its river sentence
# than in its money sentence.
#
# The helper `count_pairs` does this for attention and, as a control, for a plain average of the same values. When we
# pick the head that does best with attention, we give the control the same freedom and pick the head that does best
# with it.

# %% count-pairs jupyter={"source_hidden": true}
from attnlab import split_heads

WATER = "shore lake ocean beach sea wave coast harbor sand ship whale shark".split()
MONEY = "finance cash credit market business tax company trade cost income".split()


def values_of(tokens):
    """Return the values of every head, (H, S, 32)."""
    return split_heads(layer.attention.v_proj(layer.embed(tokens)[0]), 12)


def mean_value(words):
    alone = [values_of(["[CLS]", word, "[SEP]"])[:, 1] for word in words]
    return torch.stack(alone).mean(dim=0)  # (H, 32)


direction = mean_value(WATER) - mean_value(MONEY)


def leans(sentence):
    """Return how far "bank" leans to water, by attention and by a plain average."""
    tokens = layer.tokens(sentence)
    lean = (values_of(tokens) * direction[:, None]).sum(dim=-1)  # (H, S)
    row = layer(tokens).weights[0, :, tokens.index("bank")]  # (H, S)
    both = torch.stack([(row * lean).sum(dim=-1), lean.mean(dim=-1)])  # (2, H)
    return torch.cat([both, both.sum(dim=-1, keepdim=True)], dim=-1)  # (2, 13)


def count_pairs(kind):
    """Count the correct pairs, with attention and plain average: (2, 13)."""
    of_kind = sentences[sentences.kind == kind].groupby("meaning").sentence
    river, money = (
        torch.stack([leans(one) for one in of_kind.get_group(meaning)])
        for meaning in ("river", "money")
    )
    return (river[:, None] > money).sum(dim=(0, 1))


# %% ask-pairs
predict("05/best-plain-average")

# %% see-pairs
# %%answer 05/best-plain-average
clear, mixed = count_pairs("clear"), count_pairs("mixed")  # (2, 13) each
kinds = pd.MultiIndex.from_product([["clear", "mixed"], ["attention", "plain"]])
pd.DataFrame(torch.cat([clear, mixed]), kinds, columns=[*range(12), "all heads"])

# %% the-answer [markdown]
# ## So does attention find the meaning?
#
# Nothing that we tried shows that it does so here. In clear sentences mixing is enough: a plain average gets all 64
# pairs right too. In mixed sentences all heads together do better than guessing, but a plain average does equally well.
#
# What one head has learned is to select, and what it selects depends on the word that asks. But this head also favours
# words that say nothing about banks. And what "river" says about the bank depends on a third word, "saw" or "robbed".
# But no score in this layer can depend on a third word.
#
# From the second layer on, the vectors that are compared are mixtures themselves, so a score can depend on any word of
# the sentence. In whole models, the senses of a word do end up in different places (Reif et al., under Sources).

# %% further [markdown]
# ## Further
#
# ### Would a random head do it?
#
# Lesson 4 taught you to ask what chance would do. To make random heads that still have all the numbers of the trained
# ones, we shuffle the numbers inside each parameter of the attention. The vectors of the words stay as they are. We do
# this twenty times and let "bank" ask. The three results below are uniform shares of the clue: the mean over all 240
# heads, the mean of the twenty best heads (the best one of each layer), and the best of all 240.


# %% shuffled-layers
def shuffled_layer(seed):
    generator = torch.Generator().manual_seed(seed)
    shuffled = load_layer()
    for numbers in shuffled.attention.parameters():
        order = torch.randperm(numbers.numel(), generator=generator)
        numbers.copy_(numbers.flatten()[order].view_as(numbers))
    return shuffled


def share_in(some_layer):
    readings = [some_layer.read(sentence) for sentence in fresh.sentence]
    found = [
        one.weights[:, one.tokens.index("bank"), one.tokens.index(clue)]
        * len(one.tokens)
        for one, clue in zip(readings, fresh.clue, strict=True)
    ]
    return torch.stack(found).mean(dim=0)  # (H,)


by_chance = torch.stack([share_in(shuffled_layer(seed)) for seed in range(20)])
by_chance.mean(), by_chance.amax(dim=1).mean(), by_chance.max()

# %% shuffled-reading [markdown]
# If you may choose the best of twelve, chance gives you 2.0 uniform shares. So if the best head of our layer had been
# head 0, 3 or 10, a share of 1.8 to 2.3 would not have been unusual. What is unusual is to find four such heads in one
# layer: none of the twenty shuffled layers has four heads with more than 1.7 uniform shares. And the 3.3 of head 4 is
# unusual by itself, for none of the 240 random heads reaches it.

# %% remember [markdown]
# ## What to remember
#
# - Attention mixes. Two banks that had almost nothing in common, with a cosine of 0.06, came out with a cosine of 0.74.
# - Compare every experiment on attention with a plain average, and give the average the same freedom: the same values,
#   and its own best head if you report attention's best head.
# - To select is to give large weights to certain words because of what they are. A plain average cannot do that.
# - Test whether the weights depend on the word that asks: put many other words in its place. In one of the twelve
#   heads, none of 4,999 other words gives the clue as much weight as "bank" does, on average over our sentences. But
#   what this head favours is not always a word that goes with banks.
# - In a first layer, a score depends on the two words and their positions, and on nothing else. If a third word is
#   replaced and the positions stay, it can only compete for the weight and add its own value.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Compute ★ (4 minutes)
#
# In a sentence of nine words, the clue gets a score of $s$, and each of the other eight words gets a score of 0. How
# large must $s$ be for the clue to get exactly half of the weight?
#
# <details><summary>Hint</summary>
#
# The weight of a key is $e$ to the power of its score, divided by the sum of these powers over the row. What does each
# of the other words contribute to that sum? The clue must contribute as much as all of them together.
# </details>

# %%
from attnlab.exercises import check_minimal_pair, check_needed_strength
from attnlab.exercises import check_plain_average, check_tested_head


# %% tags=["exercise"]
def needed_strength():
    """Return the score of the clue."""


# %%
check_needed_strength(needed_strength)


# %% tags=["solution"] jupyter={"source_hidden": true}
def needed_strength_solution():
    return torch.tensor(8.0).log().item()  # e^s = 8 times e^0


check_needed_strength(needed_strength_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (8 minutes)
#
# Write the control for any experiment on attention: every query gets the plain average of the values that it may look
# at. In the mask `attn_mask`, True means that the query may look at the key. A query that may not look at any key gets
# zeros. The result must have the dtype of `value`, which can be float32 or float64.
#
# <details><summary>Hint</summary>
#
# Turned into numbers, the mask is a table of weights that have not been divided yet. What must each row be divided by,
# and what if that is 0?
# </details>


# %% tags=["exercise"]
def plain_average(value, attn_mask):
    """value (..., S, Ev), attn_mask (..., L, S) of bool -> (..., L, Ev)."""


# %%
check_plain_average(plain_average)


# %% tags=["solution"] jupyter={"source_hidden": true}
def plain_average_solution(value, attn_mask):
    counts = attn_mask.to(value.dtype)
    return counts / counts.sum(dim=-1, keepdim=True).clamp(min=1) @ value


check_plain_average(plain_average_solution)

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# A report says: "One head gives the clue many uniform shares." Its author looked for the best head on the very
# sentences that the report is about. A result found in this way looks better than it is, either by luck or because a
# head happens to favour these particular words. On our three known sentences, for example, head 10 is the best of the
# twelve, with 5.7 uniform shares. On the seven other sentences with the same clues it gets 5.8, but on the 25 fresh
# ones, which have other clues, only 1.8.
#
# Repair the report: choose the head on `known_shares`, and measure it on `fresh_shares`. Both hold one row for each
# head and one column for each sentence. (This is what to do if you want to report on a single head. In the lesson we
# showed all twelve instead.)
#
# <details><summary>Hint</summary>
#
# You need two means: one over the known sentences to choose the head, and one over the fresh sentences to report. The
# fresh sentences must not take part in the choice.
# </details>


# %% tags=["exercise"]
def broken_report(known_shares, fresh_shares):
    means = torch.cat([known_shares, fresh_shares], dim=1).mean(dim=1)
    return means.argmax().item(), means.max().item()


def tested_head(known_shares, fresh_shares):
    """Two tensors of uniform shares -> the head and its mean on the fresh sentences."""


# %%
check_tested_head(tested_head)


# %% tags=["solution"] jupyter={"source_hidden": true}
def tested_head_solution(known_shares, fresh_shares):
    head = known_shares.mean(dim=1).argmax()
    return head.item(), fresh_shares[head].mean().item()


torch.manual_seed(0)
luck = 2 * torch.rand(500, 12, 6)  # 1 on average in every head: nothing to find
broken = torch.tensor([broken_report(one[:, :3], one[:, 3:])[1] for one in luck])
mended = torch.tensor([tested_head_solution(one[:, :3], one[:, 3:])[1] for one in luck])
print(f"with luck alone: broken {broken.mean():.1f}, repaired {mended.mean():.1f}")
check_tested_head(tested_head_solution)

# %% exercise-4 [markdown]
# ### 4 · Build ★★ (10 minutes)
#
# When "robbed" took the place of "saw", "bank" in head 10 turned away from "river" and attended most to "robbed"
# instead. Perhaps head 10 notices when a water word does not matter? Find two sentences that refute this. They may
# differ in **one** word only. The first must be about a river bank and the second about a money bank, but in both of
# them "bank" must attend most to the same **water word** in head 10. The check measures the weights. The meaning is for
# you to judge.
#
# <details><summary>Hint</summary>
#
# Find a sentence with a water word to which "bank" gives a large weight in head 10, such as "sailed". Then add one more
# word that shows that a river bank is meant, and replace that word with one that shows that a money bank is meant. You
# can try your sentences in the explorer above.
# </details>


# %% tags=["exercise"]
def minimal_pair():
    """Return two sentences."""


# %%
check_minimal_pair(minimal_pair)


# %% tags=["solution"] jupyter={"source_hidden": true}
def minimal_pair_solution():
    return "they sailed to the bank for a swim", "they sailed to the bank for a loan"


check_minimal_pair(minimal_pair_solution).ok  # so that our sentences are not printed

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (5 minutes)
#
# A blog shows a single heatmap: in "I put my money in the bank", in one head, "bank" attends most to "money". "So the
# model knows that this is not a river bank", it says. Which experiments of this lesson would you ask for?
#
# <details><summary>An answer</summary>
#
# - The control: does "bank" end up as close to money with a plain average?
# - All heads, and fresh sentences, among them some with words of both kinds.
# - Other words in place of "bank": does the head attend to "money" for them as well?
# - A pair of sentences in which "money" stays and the meaning changes, such as "I left my money on the bank of the
#   lake". Does the score of "bank" for "money" change, compared with its score for itself? (The weight changes anyway,
#   because "lake" takes a share of the row.)
# </details>

# %% in-torch [markdown]
# ## In torch
#
# The control takes one line: with a query of zeros, all scores are 0, so all keys that are allowed get the same weight.
# This works in `F.scaled_dot_product_attention` too, with a Boolean mask or without any mask.

# %% torch-control
import torch.nn.functional as F

z = sat.embedded[None]  # (N, L, E)
control = F.scaled_dot_product_attention(torch.zeros_like(z), z, z)
assert torch.allclose(control, z.mean(dim=1, keepdim=True).expand_as(z), atol=1e-5)

# %% sources [markdown]
# ## Sources
#
# - Hewitt and Liang, [Designing and Interpreting Probes with Control Tasks](https://arxiv.org/abs/1909.03368), 2019:
#   why a result about a model needs a control.
# - Clark et al., [What Does BERT Look At?](https://arxiv.org/abs/1906.04341), 2019: what single heads of a whole model
#   attend to, and how much weight goes to `[SEP]`.
# - Reif et al., [Visualizing and Measuring the Geometry of BERT](https://arxiv.org/abs/1906.02715), 2019: the senses
#   of a word come apart in whole models.
# - The trained layer is the first attention layer of
#   [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2) (Apache-2.0). Wang et al.,
#   [MiniLM](https://arxiv.org/abs/2002.10957), 2020, describe how the larger model behind it was trained.

# %% next [markdown]
# ## Next
#
# Lesson 6, [Where Q, K and V come from](06_where_q_k_and_v_come_from.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.** Two banks: 8. The fair test: 7. When the words disagree, with the first explorer: 10. The trained
# layer, with the second: 9. Who asks: 8. The thief: 4. The pairs and the answer: 4.
#
# **Where a class stalls.** *"But the model does understand":* agree that a whole model may, and ask which cell shows
# it. *"The plain average is only lucky":* let the class write six sentences, three of each kind, and count. *The tie:*
# let two students play "river" and "loan" and pull on a rope tied to "bank", while a third plays "the".
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** Suppose that no attention weight is near 0. After attention, are two tokens of a sentence usually more alike
# than before, or less? **More alike.** *Less:* this confuses attending to words with sorting them. *As before:* this
# forgets that the values are averaged.
#
# **2.** You want to know whether the *weights* cause an effect. What is the control? **Equal weights, with the same
# values.** *No attention at all:* this takes the mixing away too. *Random weights:* they answer a different question:
# would chance do as well? It is worth asking too.
#
# **3.** A query asks with strength 0. What comes out? **The plain average.** *Zeros:* this takes the scores for the
# weights. *The word itself:* this assumes that a query that asks for nothing gets nothing new.
#
# **4.** Someone inspects 144 heads and finds one in which "bank" attends most to "river". What next? **Test it on fresh
# sentences, and with other query words.** *It understands:* this forgets the other 143. *It is chance:* that has to be
# measured as well.
#
# **5.** In the first layer, "saw" is replaced with "robbed". What happens to the score of "bank" for "river"? **It
# stays the same.** *It falls:* this confuses the score with the weight. *That depends on the head:* in every head, a
# score depends only on two words and their positions.
# </details>
