# %% opening [markdown] above="Does attention find out"
# # 5 · What does “bank” mean here?
#
# “She sat on the bank of the river.”
# “She walked to the bank to deposit the money.”
# You know at once which bank is meant, because you also read the other words.
# Attention uses the other words too: it gives “bank” a new vector,
# which is a weighted average of the words of its sentence.
# So people often say that attention can tell the two meanings apart.
# Does attention find out what a word means?
#
# To answer this, we have to keep three things apart:
#
# - To **mix**: in any average, a word gets mixed with its sentence.
# - To **select**: certain words get large weights because of what they are.
# - To select the words *that show the meaning*.
#
# **You need:** lesson 1 (scores, weights and output), the end of lesson 2
# (the trained layer and its heads), and lesson 4 (uniform attention;
# comparing a pattern with chance).
#
# **You will be able to:** design a control for an experiment on attention,
# tell selecting from mixing, test whether what a head does depends on the word that asks,
# and say what a score in a first layer can depend on.
#
# **Time:** 50 minutes in class, or 85 on your own with the exercises.
# “Further” takes another 15.

# %% setup
import pandas as pd
import torch
from IPython.display import display

from attnlab import Table, data_path, load_table
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import BankExplorer, RealHeadsExplorer
from attnlab.plotting import plot_attention

lesson_setup()

# %% two-banks [markdown] below="One bank lends money"
# ## Two banks in one table
#
# Suppose a tutorial wants to show that attention can separate two meanings of “bank”.
# Its author types in four tokens with four features.
# One bank lends money, and the other is the shore of a river.
# The typed vectors serve as queries, keys and values.

# %% typed-banks
two_banks = load_table("two_banks.csv")
tokens, features, x = two_banks  # x: (4, 4)
two_banks

# %% banks-map
bank_weights = (x @ x.T / 4**0.5).softmax(dim=-1)  # (L, S)
title = "One weight stands out"
ax = plot_attention(
    bank_weights, queries=tokens, keys=tokens, colorbar=True, title=title
)
show_figure(ax, "5.1")

# %% read-map [markdown] above="Only one weight stands" below="The table shows the"
# Only one weight stands out: the money bank gives 0.53 to itself.
# In the bottom row, the river bank attends most to itself and to “river”.
# But [uniform attention](glossary.ipynb#uniform-attention) would give 0.25 to each of the four
# tokens, and “river” gets 0.28, which is hardly more.
#
# What does that do to the vectors?
# We compare the two banks by the **cosine** of the angle between them.
# It is 1 for two vectors that point in the same direction, and 0 for two at right angles.
# The table shows the cosine of the two banks before attention, and then after it.
# There, all scores are multiplied by a factor, which is 1 in our heatmap.


# %% factors
def cosine(a, b):
    return torch.nn.functional.cosine_similarity(a, b, dim=-1)


stages, alike = ["before attention"], [cosine(x[2], x[3])]
for factor in (0, 1, 8):
    output = (factor * x @ x.T / 4**0.5).softmax(dim=-1) @ x
    stages.append(f"factor {factor}")
    alike.append(cosine(output[2], output[3]))
Table(["cosine of the banks"], stages, torch.stack(alike)[None])

# %% fair-test [markdown] above="Attention has mixed the" below="We therefore give \u201cbank\u201d"
# Attention has mixed the two banks: with the factor 1, their cosine rises from 0.06 to 0.74.
# Each output is an average of the same four vectors, so each bank now contains a part of the other.
# With the factor 0 all weights are equal, both outputs are the same **plain average**,
# and the cosine is 1.
#
# With the factor 8, each bank gives most of its weight to itself,
# because there its score is largest.
# The money bank takes in nothing else, and the river bank only some of “river” and “water”.
# So the banks stay apart.
#
# But this cannot show that attention finds a meaning: the two banks went in as different vectors,
# already separated by the person who typed the table.
#
# ## A fair test
#
# A model looks each word up in a table,
# so at the start “bank” has the same vector in every sentence
# (apart from the effect of its position).
# We therefore give “bank” a single vector and let attention move it.

# %% one-bank
word_table = load_table("bank_words.csv")
typed = dict(zip(word_table.tokens, word_table.values, strict=True))


def vectors(words):
    """Return one row per word, (S, 5); a word that is not in the table gets zeros."""
    return torch.stack([typed.get(word, torch.zeros(5)) for word in words])


shown = ["bank", "river", "water", "money", "loan"]
Table(shown, word_table.features[:4], vectors(shown)[:, :4])  # the fifth comes later

# %% the-control [markdown]
# First “bank” attends to “river”, “water” and itself, and then to “money”, “loan” and itself.
# If its vector moves towards the correct bank each time, the weights may have done it,
# or merely the words that it was averaged with.
# To find out, an experiment needs a [**control**](glossary.ipynb#control):
# the same experiment without the ingredient that is thought to cause the effect.
# Ours is the weights, so the control is a plain average of the same three vectors.

# %% ask-average
predict("05/the-plain-average")


# %% see-average
# %%answer 05/the-plain-average
def new_vector(context, factor):
    """Return "bank" after attention whose scores are multiplied by a factor, (4,)."""
    words = vectors([*context, "bank"])[:, :4]  # (S, 4)
    weights = (factor * words[-1] @ words.T / 4**0.5).softmax(dim=-1)  # (S,)
    return weights @ words


def cosines(factor):
    """Return the cosines of both new vectors with the correct bank."""
    by_river = new_vector(["river", "water"], factor)
    by_money = new_vector(["money", "loan"], factor)
    return cosine(torch.stack([by_river, by_money]), x[[3, 2]])


before = cosine(vectors(["bank"])[:, :4], x[[3, 2]])
measured = torch.stack([before, cosines(0), cosines(1), cosines(4), cosines(16)])
lines = ["before", "plain average", "attention", "scores times 4", "scores times 16"]
Table(lines, ["with river and water", "with money and loan"], measured)

# %% draw-average jupyter={"source_hidden": true}
# %%answer 05/the-plain-average
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(5.4, 3.8), layout="constrained")
bank = vectors(["bank"])[0]
look = {
    "width": 0.008,
    "angles": "xy",
    "scale_units": "xy",
    "scale": 1,
    "color": "#777",
}
for context, dy in ((["river", "water"], 0.05), (["money", "loan"], -0.09)):
    attended = new_vector(context, 1)[:2]  # finance and nature
    plain = new_vector(context, 0)[:2]
    ax.quiver(*bank[:2], *(attended - bank[:2]), **look)
    ax.scatter(*attended, s=150, color="#0b61a4", zorder=3, edgecolor="white")
    ax.scatter(*plain, s=70, color="#c8500a", marker="D", zorder=4, edgecolor="white")
    ax.text(attended[0] + 0.05, attended[1] + dy, f"with {' and '.join(context)}")
ax.scatter(*bank[:2], s=90, color="white", edgecolor="#222", linewidth=2, zorder=3)
ax.text(bank[0] + 0.04, bank[1], "“bank” before", va="center")
ax.scatter([], [], s=110, color="#0b61a4", label="after attention")
ax.scatter([], [], s=70, color="#c8500a", marker="D", label="plain average")
ax.set(xlim=(0, 1.5), ylim=(0, 1.1), xlabel="finance", ylabel="nature")
ax.set_title("The plain average ends up where attention does")
ax.legend(loc="upper right")
show_figure(ax, "5.2")

# %% disagree [markdown] above="The plain average does" answers="05/the-plain-average"
# The plain average does as well as attention: to two decimals,
# its cosines with the correct bank are the same.
# Larger scores do not help, because “bank”, too,
# has its largest score with itself and stays closer to where it was.
# So here the words next to “bank” decide where it goes, and the weights add nothing.
# This experiment shows mixing and no selection.

# %% when-the-words-disagree [markdown] below="The fifth column is"
# ## When the words disagree
#
# In these two examples all the words point the same way.
# Real sentences are not so kind: “The thief sailed to the bank with the gold.”
# “Thief” and “gold” go with money, but this is a river bank, because the thief *sailed* to it.
# Such a word is the **clue** of its sentence.
# The fifth column is 1 for some words that make good clues, and 0 for all the others.

# %% clue-column
shown = ["bank", "thief", "sailed", "gold"]
Table(shown, word_table.features, vectors(shown))

# %% typed-query [markdown]
# A query that asks for this feature alone should find the clue.
# So we type in such a query, with a `strength`, and let it ask in place of “bank”.
# Words such as “the”, which are not in the table, get zeros.


# %% ask-for-clue
def ask_for_clue(sentence, clue, strength):
    """Return the weight of the clue, and the cosines of the output with both banks."""
    words = sentence.split()
    keys = vectors(words)  # (S, 5), and also the values
    query = torch.tensor([0.0, 0.0, 0.0, 0.0, strength])
    weights = (query @ keys.T / 5**0.5).softmax(dim=-1)  # (S,)
    new = (weights @ keys)[:4]
    return torch.stack([weights[words.index(clue)], *cosine(new, x[2:])])


thief = "the thief sailed to the bank with the gold"
asked = torch.stack([ask_for_clue(thief, "sailed", strength) for strength in (0, 4, 8)])
columns = ["weight of “sailed”", "cosine with the money bank", "with the river bank"]
Table(["strength 0", "strength 4", "strength 8"], columns, asked)

# %% selecting [markdown] above="Here the weights do" below="Drag \u201criver\u201d back up"
# With strength 0 all weights are equal, so the first row is the control.
# Its output is slightly closer to the *wrong* bank.
# The more strongly the query asks, the more weight the clue gets,
# and “bank” moves to the correct side.
# Here the weights do what the plain average cannot: they select.
# But we typed in the query and the column of clues by hand, knowing what they had to work for.
#
# ### Your experiment: drag a word
#
# Now every word is a point, with nature on the left, money on the right,
# and filler words at the bottom.
# A score is the dot product of two of these points, counted from the centre of the plane,
# divided by √2.
# “Bank”, the hollow circle, stands straight above the centre, so **the higher a word lies,
# the larger its score**, be it on the left or on the right.
#
# “River” and “loan” began as mirror images of each other.
# Then we dragged “river” **straight down**,
# and attention and the plain average came to lie in different areas.
# Drag “river” back up and then to the right, past the middle.
# Do attention and the plain average end up in different areas again?

# %% explore-bank
BankExplorer(moved=[("river", -3, -1.3)])

# %% trained-layer [markdown]
# <details><summary>The answer</summary>
#
# No.
# Far down, “river” has a low score and gets little weight, so attention turns to “loan”,
# while the plain average only moves down: there the weights decide.
# Back up and past the middle, “river” takes both of them along to the right, so mixing is enough.
# </details>
#
# ## A trained layer
#
# The numbers in a trained layer were learned, not typed in.
# We take the one that you know from lesson 2, the first attention layer of all-MiniLM-L6-v2,
# with twelve [heads](glossary.ipynb#head).
# It puts the token `[CLS]` before each sentence and `[SEP]` after it.
# We choose a first layer because there we can say exactly what a score can depend on.
# So whatever we find holds for this layer, and not for a whole model.

# %% read-sentence
from attnlab.models.pretrained import load_layer

layer = load_layer()
sat = layer.read("she sat on the bank of the river")
of_bank = sat.weights[:, sat.tokens.index("bank")]  # (H, S): the row of "bank"
title = "Two heads prefer “river”"
ax = plot_attention(of_bank, keys=sat.tokens, colorbar=True, title=title)
ax.set_ylabel("head")
show_figure(ax, "5.3")

# %% who-asks [markdown] above="In heads 4 and" below="We leave out the"
# In heads 4 and 10, “bank” attends most to “river”, with weights of 0.71 and 0.64.
# Head 2 gives everything to the token before “bank”, and most of the other heads prefer `[CLS]`.
#
# ## Does it matter which word asks?
#
# Whoever may choose from twelve maps easily finds one that looks convincing.
# So we test all twelve heads on fresh sentences.
# We wrote 35 sentences with “bank” and named the clue of each before the layer read it,
# except for three that we had used to explore the layer.
# We leave out the three known sentences, and seven others with the same clues, so 25 remain.

# %% fresh-sentences
sentences = pd.read_csv(data_path("bank_sentences.csv"))
known = sentences[sentences.kind == "known"]
fresh = sentences[~sentences.clue.isin(known.clue)]
fresh.sample(4, random_state=0)[["sentence", "clue", "meaning"]]

# %% uniform-shares [markdown]
# How much is a weight of 0.3?
# In a sentence of ten tokens, uniform attention gives 0.1 to each of them,
# so 0.3 is **three [uniform shares](glossary.ipynb#uniform-share)**.
# In general, the number of uniform shares is the weight times the number of tokens.
#
# The function below does this for the clue of every fresh sentence.
# It can also put another **query word** in place of “bank”,
# so that the layer reads “we swam to the chair”.
# The method `attend_as` computes the rows of many query words at once.


# %% clue-shares
def clue_shares(query_words):
    """Return the uniform shares of the clue of each sentence: (25, H, W)."""
    shares = []
    for sentence, clue in zip(fresh.sentence, fresh.clue, strict=True):
        tokens = layer.tokens(sentence)
        weights = layer.attend_as(query_words, tokens, tokens.index("bank"))
        shares.append(weights[:, :, tokens.index(clue)] * len(tokens))
    return torch.stack(shares)


by_bank = clue_shares(["bank"])[:, :, 0]  # (25, H)
lines = ["mean over the sentences", "fraction of the sentences with less than 1"]
both = torch.stack([by_bank.mean(dim=0), (by_bank < 1).float().mean(dim=0)])
Table(lines, [f"head {head}" for head in range(12)], both)

# %% many-askers [markdown] above="On average, \u201cbank\u201d in" below="We rank the query"
# On average, “bank” in head 4 gives the clue 3.3 uniform shares, more than in any other head.
# But in more than a quarter of the sentences, it gives the clue less than one.
#
# Is “bank” the reason?
# Perhaps this head favours the clue words no matter which word asks.
# So we let 5,000 words ask in place of “bank”:
# the first 5,000 in the layer's vocabulary with at least three letters,
# roughly the most common ones.
# We rank the query words by the shares that they give to the clue,
# on average over the 25 sentences.

# %% see-rank
query_words = layer.common_words(5000)
shares = clue_shares(query_words)  # (25, H, W)
mean, at_bank = shares.mean(dim=0), query_words.index("bank")
others = mean.clone()
others[:, at_bank] = 0
results = {
    "rank of “bank”": 1 + (mean > mean[:, at_bank, None]).sum(dim=1),
    "its shares": mean[:, at_bank],
    "best other word": others.amax(dim=1),
    "median word": mean.median(dim=1).values,
}
pd.DataFrame(results).rename_axis("head").round(1)

# %% draw-askers jupyter={"source_hidden": true}
import seaborn as sns

fig, axes = plt.subplots(
    1, 2, figsize=(7.4, 3), layout="constrained", sharex=True, sharey=True
)
titles = ["head 4: “bank” stands alone", "head 3: “bank” is one of many"]
for ax, head, title in zip(axes, (4, 3), titles, strict=True):
    sns.histplot(mean[head].numpy(), bins=45, binrange=(0, 4.5), color="#c6dcef", ax=ax)
    of_this = mean[head, at_bank].item()
    ax.axvline(of_this, color="#c8500a", lw=2)
    ax.text(of_this, 560, f"“bank”, {of_this:.1f} ", color="#a03f08", ha="right")
    ax.set(
        title=title,
        xlabel="uniform shares given to the clue",
        ylabel="number of query words",
    )
show_figure(fig, "5.4")

# %% two-groups [markdown] above="So head 4 selects" below="We repeat this 1,000"
# In head 4 “bank” comes first: it gives the clue 3.3 uniform shares on average,
# and the best other word gives it 2.6.
# In head 3, “bank” also gives the clue more than two uniform shares, but so do many words:
# there it ranks only 1,496th.
# So head 4 selects, and what it selects depends on the word that asks.
#
# ### We picked head 4: what does that cost?
#
# We picked head 4 out of twelve because its number is large,
# and reported this number on the same sentences.
# Luck alone hardly explains that “bank” comes first: if it were a word like any other,
# it would come first in at least one of twelve heads with a chance of at most 12 in 5,000,
# or 0.24%.
# But a number that was chosen because it is large tends to be somewhat too large.
#
# To see how much, we choose a head on twelve of the sentences, drawn at random,
# and measure it on the other thirteen.
# We repeat this 1,000 times, and each time the head may be another one.

# %% halves
generator = torch.Generator().manual_seed(0)
chosen, own_shares, ranks = [], [], []
for _ in range(1000):
    order = torch.randperm(25, generator=generator)
    head = by_bank[order[:12]].mean(dim=0).argmax()
    means = shares[order[12:], head].mean(dim=0)  # (W,)
    chosen.append(head)
    own_shares.append(means[at_bank])
    ranks.append(1 + (means > means[at_bank]).sum())
ranks = torch.stack(ranks)
print(f"head 4 is chosen in {(torch.stack(chosen) == 4).float().mean():.0%}")
print(f"uniform shares from “bank”: {torch.stack(own_shares).mean():.1f} on average")
print(f"“bank” in the first ten: {(ranks <= 10).float().mean():.0%}")
print(f"“bank” first: {(ranks == 1).float().mean():.0%}")

# %% groups [markdown] above="\u201cBank\u201d is in the" below="Does \u201cbank\u201d find the"
# The choice costs little: head 4 is chosen nearly every time,
# and on sentences that took no part in the choice, the clue gets 3.2 uniform shares instead of 3.3.
# “Bank” is in the first ten in 92% of the cases,
# but its first place partly depends on these sentences.
#
# ## One query for two meanings
#
# Eleven of the 25 sentences are about a river bank and fourteen about a money bank.
# Does “bank” find the clues of one meaning only, or those of both?

# %% see-groups
is_river = torch.tensor(fresh.meaning.eq("river").to_numpy())
for meaning, of_meaning in (("river", is_river), ("money", ~is_river)):
    mean_share = shares[of_meaning, 4].mean(dim=0)  # (W,)
    rank = 1 + (mean_share > mean_share[at_bank]).sum()
    print(f"{meaning} sentences: “bank” ranks number {rank}")

# %% why-first [markdown] above="\u201cBank\u201d finds the clues" below="As a control, the"
# “Bank” finds the clues of both meanings.
# Of 5,000 words, it is number 8 in the river sentences and number 3 in the money sentences.
# A few words beat it on one meaning, but none on both.
#
# Which keys does “bank” prefer, then?
# The matrix `q_proj` of the layer makes the queries of all twelve heads,
# and `k_proj` makes the keys.
# Both give 384 numbers, 32 for each head.
# In the next cell, “bank” asks from position 5 of a sentence,
# and each of the 5,000 words is a key at position 3.
# The cell prints the fifteen keys with the highest scores in head 4.
# As a control, the cell prints the favourite keys of three other query words as well.


# %% favourite-keys
def in_head_4(matrix, word, position):
    """Return the query or the key of a word in head 4, (32,)."""
    vector = layer.embed([word], positions=[position])[0, 0]  # (384,)
    return matrix(vector)[4 * 32 : 5 * 32]


q_proj, k_proj = layer.attention.q_proj, layer.attention.k_proj
keys = torch.stack([in_head_4(k_proj, word, 3) for word in query_words])  # (W, 32)
for asker in ["bank", "river", "money", "chair"]:
    scores = keys @ in_head_4(q_proj, asker, 5)  # (W,)
    favourites = scores.argsort(descending=True)[:15]
    print(f"{asker}:", ", ".join(query_words[i] for i in favourites))

# %% which-meaning [markdown] above="Among the favourites of" below="Here is what \u201cbank\u201d"
# Among the favourites of “bank”,
# “lakes” and “harbor” stand side by side with “account” and “commerce”.
# Others, such as “grade” and “restaurants”, have little to do with either meaning.
# (We picked these words out after looking, so they are examples and no test.)
# The other query words prefer quite different keys.
#
# In this layer “bank” has the same query in every sentence, apart from the effect of its position,
# so it cannot ask only for the words that fit the present one.
# Here is what “bank” does in two sentences about money.

# %% two-sentences
deposit = "she walked to the bank to deposit the money"
restaurants = "the money went from the bank to the restaurants"
for reading in (layer.read(deposit), layer.read(restaurants)):
    row = reading.weights[4, reading.tokens.index("bank")]
    display(Table(["“bank” in head 4"], reading.tokens, row[None]))

# %% thief [markdown] above="In the second sentence"
# In the first sentence, head 4 finds “deposit”.
# In the second sentence head 4 gives 0.76 to “restaurants” and only 0.01 to “money”.
# “Restaurants” is one of its favourites from the list above,
# although it says nothing about this bank; “money” is not.
#
# ## “Robbed” instead of “saw”
#
# “The thief saw the bank by the river” can be about a river bank.
# If we replace “saw” with “robbed”, it must be about a money bank,
# and “river” only says where that bank stands.
#
# We look at the weight that “bank” gives to “river”, and at its score.
# The layer gives us weights only.
# But the logarithm of a weight is its score minus a number that is the same in the whole row
# (lesson 2), so differences of scores can be read from the weights.
# We take the score of “bank” for “river”, minus the score of “bank” for itself.

# %% ask-robbed
predict("05/robbed-for-saw")

# %% see-robbed
# %%answer 05/robbed-for-saw
differences, of_river, of_verb = [], [], []
for verb in ("saw", "robbed"):
    reading = layer.read(f"the thief {verb} the bank by the river")
    at, river, third = (reading.tokens.index(word) for word in ("bank", "river", verb))
    row = reading.weights[:, at]  # (H, S)
    differences.append((row[:, river] / row[:, at]).log())
    of_river.append(row[:, river])
    of_verb.append(row[:, third])
lines = ["difference of the scores, saw", "difference of the scores, robbed"]
lines += ["weight of river, saw", "weight of river, robbed"]
lines += ["weight of saw", "weight of robbed"]
heads = [f"head {head}" for head in range(12)]
Table(lines, heads, torch.stack([*differences, *of_river, *of_verb]))

# %% the-answer [markdown] above="In each of the" answers="05/robbed-for-saw"
# In each of the twelve heads, the difference of the scores is the same for both sentences.
# A score of a first layer is computed from the vectors of two words at their positions,
# and neither “bank” nor “river” has changed.
#
# The weights may change, because “robbed” takes a share of the row: in head 10 it gets 0.59,
# and the weight of “river” falls from 0.54 to 0.23.

# %% the-meaning [markdown] above="In this first layer"
# ## So does attention find the meaning?
#
# Not in this layer, as far as we could tell.
# In “she sat on the bank of the river”, head 4 gives 0.71 to “river”,
# and in “she walked to the bank to deposit the money” it gives 0.67 to “deposit”.
# That is selection, it was learned,
# and hardly any other word in the place of “bank” does as well on the fresh sentences.
# But “bank” asks for lakes, accounts and restaurants alike, whatever its sentence is about.
#
# Whether “river” tells us which bank is meant depends on a third word, “saw” or “robbed”.
# In this first layer the score of “bank” for “river” cannot take a third word into account.
# (The output contains the values of all words.
# Whether it knows more than a plain average is tested in “Further”, on few sentences.)
#
# From the second layer on, the vectors that are compared are mixtures themselves,
# so there a score can depend on any word of the sentence.
# Lesson 10 asks the same of other words with two meanings,
# and lesson 14 follows these 35 sentences through all six layers of the model.

# %% further [markdown]
# ## Further
#
# ### Does the output know more than a plain average?
#
# The score of “bank” for “river” does not depend on whether the river matters,
# but the output collects the values of the whole sentence, “robbed” included.
# (In the whole model the output is then *added* to the vector of “bank”.)
# Does it lean towards the correct side?
# We choose twelve water words and ten money words, none of which occurs in our sentences.
# The mean value of the first, minus the mean value of the second,
# is a direction from money to water in each head.
# The dot product of an output with it says how far the output leans towards water;
# we add up the twelve heads.

# %% direction
from attnlab import split_heads

water = "shore lake ocean beach sea wave coast harbor sand ship whale shark".split()
money = "finance cash credit market business tax company trade cost income".split()


def values_of(tokens):
    return split_heads(layer.attention.v_proj(layer.embed(tokens)[0]), 12)  # (H, S, 32)


def mean_value(words):
    alone = [values_of(["[CLS]", word, "[SEP]"])[:, 1] for word in words]
    return torch.stack(alone).mean(dim=0)  # (H, 32)


direction = mean_value(water) - mean_value(money)


# %% leans
def lean_towards_water(sentence):
    """Return how far “bank” leans towards water, by attention and by plain average."""
    tokens = layer.tokens(sentence)
    lean = (values_of(tokens) * direction[:, None]).sum(dim=-1)  # (H, S)
    row = layer(tokens).weights[0, :, tokens.index("bank")]  # (H, S)
    return torch.stack([(row * lean).sum(), lean.mean(dim=-1).sum()])


sailed = lean_towards_water("the thief sailed to the bank with the gold")
robbed = lean_towards_water("the thief robbed the bank by the river")
ways = ["attention", "plain average"]
Table(["sailed", "robbed"], ways, torch.stack([sailed, robbed]))

# %% pairs-told [markdown]
# A pair of a river sentence and a money sentence counts as correct if “bank” leans further towards
# water in the river sentence.
# Our two thieves are not a correct pair:
# in both columns the output leans further towards water with “robbed”,
# whose sentence contains “river”, than with “sailed”.
#
# Besides the three known sentences we have 16 **clear** ones, with words of one kind only,
# and 16 **mixed** ones.
# Half of each kind are about a river, which makes 8 × 8 = 64 pairs of each kind.

# %% count-pairs
correct = []
for kind in ("clear", "mixed"):
    of_kind = sentences[sentences.kind == kind].groupby("meaning").sentence
    river_ones, money_ones = (
        torch.stack([lean_towards_water(text) for text in of_kind.get_group(meaning)])
        for meaning in ("river", "money")
    )  # (8, 2) each
    correct.append((river_ones[:, None] > money_ones).sum(dim=(0, 1)))
ways = ["attention", "plain average"]
pd.DataFrame(torch.stack(correct), ["clear", "mixed"], ways)

# %% pairs-read [markdown]
# In clear sentences mixing is enough.
# In mixed sentences the plain average gets as many pairs right as attention does.
# But sixteen sentences are few.
# To see how much chance does, we used a *bootstrap*:
# we drew eight sentences of each meaning from the eight with replacement, 10,000 times.
# In 95% of the draws, the two differ by no more than about ten pairs either way.
# So an advantage of up to about ten pairs would not have shown.
#
# ### Would a random head do it?
#
# Lesson 4 taught you to ask what chance would do.
# To make random heads that still have all the numbers of the trained ones,
# we shuffle the numbers inside each of the parameters that make queries and keys.
# The vectors of the words stay as they are.
# We do this 300 times, let “bank” ask in all 25 sentences,
# and keep the best of the twelve heads each time.

# %% read-once
inputs = []  # for each sentence its vectors and the positions of "bank" and of the clue
for sentence, clue in zip(fresh.sentence, fresh.clue, strict=True):
    pieces = layer.tokens(sentence)
    inputs.append((layer.embed(pieces), pieces.index("bank"), pieces.index(clue)))


def best_share(attention):
    """Return the share of the clue in the best head, averaged over the sentences."""
    rows = [attention(z).weights[0, :, at, to] * z.shape[1] for z, at, to in inputs]
    return torch.stack(rows).mean(dim=0).max()


best_share(layer.attention)

# %% shuffled-layers
from copy import deepcopy

by_chance = []
for seed in range(300):
    generator = torch.Generator().manual_seed(seed)
    shuffled = deepcopy(layer.attention)
    for part in (shuffled.q_proj, shuffled.k_proj):
        for numbers in part.parameters():
            order = torch.randperm(numbers.numel(), generator=generator)
            numbers.copy_(numbers.flatten()[order].view_as(numbers))
    by_chance.append(best_share(shuffled))
by_chance = torch.stack(by_chance)
by_chance.mean(), (by_chance >= best_share(layer.attention)).sum()

# %% shuffled-reading [markdown]
# If you are free to pick the best of twelve heads, chance alone gives you about 2.0 uniform shares.
# The 3.3 of head 4 are rare: in only one of the 300 shuffled layers does any head reach them.

# %% remember [markdown]
# ## What to remember
#
# - Attention mixes.
#   With our typed vectors, it raised the cosine of two banks from 0.06 to 0.74;
#   a plain average would have made them equal.
# - Compare every experiment on attention with a plain average of the same values.
# - A head selects if it gives large weights to certain words because of what they are.
#   A plain average cannot do that.
# - Test whether the weights depend on the word that asks: put many other words in its place.
#   In one of the twelve heads, none of 4,999 other words gives the clue as much weight as “bank”
#   does, on average over our sentences.
# - In a first layer a word has one query for all its meanings.
#   It cannot ask only for words that fit the meaning in its sentence.
# - In a first layer, a score depends on the two words and their positions, and on nothing else.
#   If a third word is replaced and the positions stay,
#   it can only compete for the weight and add its own value.

# %% exercises [markdown]
# ## Exercises
#
# In a running notebook, write your answer in the cell below the task and run it.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Compute ★ (4 minutes)
#
# In a sentence of nine words, the clue gets a score of $s$,
# and each of the other eight words gets a score of 0.
# How large must $s$ be for the clue to get exactly half of the weight?
#
# <details><summary>Hint</summary>
#
# The weight of a key is $e$ to the power of its score,
# divided by the sum of these powers over the row.
# What does each of the other words contribute to that sum?
# The clue must contribute as much as all of them together.
# </details>

# %%
from attnlab.exercises import check_minimal_pair, check_needed_strength
from attnlab.exercises import check_plain_average, check_tested_head


# %% tags=["exercise"]
def needed_strength():
    """Return the score of the clue."""


# %%
check_needed_strength(needed_strength)


# %% tags=["solution"]
def needed_strength_solution():
    return torch.tensor(8.0).log().item()  # e^s = 8 times e^0


check_needed_strength(needed_strength_solution)

# %% exercise-2 [markdown]
# ### 2 · Implement ★★ (8 minutes)
#
# Write the control for any experiment on attention:
# every query gets the plain average of the values that it may look at.
# In the mask `attn_mask`, True means that the query may look at the key.
# A query that may not look at any key gets zeros.
# The result must have the dtype of `value`, which can be float32 or float64.
#
# <details><summary>Hint</summary>
#
# Turned into numbers, the mask is a table of weights that have not been divided yet.
# What must each row be divided by, and what if that is 0?
# </details>


# %% tags=["exercise"]
def plain_average(value, attn_mask):
    """value (..., S, Ev), attn_mask (..., L, S) of bool -> (..., L, Ev)."""


# %%
check_plain_average(plain_average)


# %% tags=["solution"]
def plain_average_solution(value, attn_mask):
    counts = attn_mask.to(value.dtype)
    return counts / counts.sum(dim=-1, keepdim=True).clamp(min=1) @ value


check_plain_average(plain_average_solution)

# %% exercise-3 [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# With `known_shares`, the author of a report explored a layer;
# `fresh_shares` come from sentences that the layer had not read.
# Both hold one row for each head and one column for each sentence.
# `broken_report` says which head gives the clue the most uniform shares, and how many.
# The reported number is too large on average, even if no head does anything special.
# Find out why, and write `tested_head`, which reports a head and its mean without this mistake.
#
# <details><summary>Hint</summary>
#
# Two means are needed: one to choose the head, and one to report.
# Over which sentences does each of them go?
# </details>
#
# <details><summary>What the mistake does to our own sentences</summary>
#
# The author looked for the best head on the very sentences that the report is about.
# Such a result looks better than it is,
# by luck or because a head happens to favour these particular words.
# On our three known sentences, head 10 is the best of the twelve.
# On the seven others with the same clues it gives the clue as many uniform shares,
# but on the 25 fresh ones, which have other clues, fewer than a third as many.
# </details>


# %% tags=["exercise"]
def broken_report(known_shares, fresh_shares):
    means = torch.cat([known_shares, fresh_shares], dim=1).mean(dim=1)
    return means.argmax().item(), means.max().item()


def tested_head(known_shares, fresh_shares):
    """Two tensors of uniform shares -> the head and its mean on the fresh sentences."""


# %%
check_tested_head(tested_head)


# %% tags=["solution"]
def tested_head_solution(known_shares, fresh_shares):
    head = known_shares.mean(dim=1).argmax()
    return head.item(), fresh_shares[head].mean().item()


# shares that are 1 on average in every head, so that there is nothing to find
by_luck = 2 * torch.rand(500, 12, 6, generator=torch.Generator().manual_seed(0))
known_ones, fresh_ones = by_luck[:, :, :3], by_luck[:, :, 3:]
for report in (broken_report, tested_head_solution):
    reported = [report(*both)[1] for both in zip(known_ones, fresh_ones, strict=True)]
    print(f"{report.__name__}: {sum(reported) / 500:.1f} uniform shares by luck alone")
check_tested_head(tested_head_solution)

# %% exercise-4 [markdown]
# ### 4 · Build ★★ (10 minutes)
#
# When “robbed” took the place of “saw”,
# the weight that “bank” gives to “river” in head 10 fell from 0.54 to 0.23, and “robbed” got 0.59.
# One might conclude that head 10 notices when a water word does not matter.
# Find two sentences that refute this conclusion.
# They may differ in **one** word only.
# The first must be about a river bank and the second about a money bank,
# but in both of them “bank” must attend most to the same **water word** in head 10.
# The check measures the weights.
# The meaning is for you to judge.
#
# <details><summary>Hint</summary>
#
# Find a sentence with a water word to which “bank” gives a large weight in head 10,
# such as “sailed”.
# Then add one more word that shows that a river bank is meant,
# and replace that word with one that shows that a money bank is meant.
# </details>
#
# Try your sentences here before you write them down.

# %% explore-heads
RealHeadsExplorer(sentence="they sailed to the bank", head=10, word=5, ask=False)


# %% tags=["exercise"]
def minimal_pair():
    """Return two sentences."""


# %%
check_minimal_pair(minimal_pair)


# %% tags=["solution"]
def minimal_pair_solution():
    return "they sailed to the bank for a swim", "they sailed to the bank for a loan"


check_minimal_pair(minimal_pair_solution)

# %% exercise-5 [markdown]
# ### 5 · Explain ★ (5 minutes)
#
# A blog shows a single heatmap: in “I put my money in the bank”, in one head,
# “bank” attends most to “money”.
# “So the model knows that this is not a river bank”, it says.
# Which experiments of this lesson would you ask for?
#
# <details><summary>An answer</summary>
#
# - The control: does “bank” end up as close to money with a plain average?
# - All heads, and fresh sentences, among them some with words of both kinds.
# - Other words in place of “bank”: does the head attend to “money” for them as well?
# - A pair of sentences in which “money” stays and the meaning changes,
#   such as “I left my money on the bank of the lake”.
#   Does the score of “bank” for “money” change, compared with its score for itself?
#   (The weight changes anyway, because “lake” takes a share of the row.)
# </details>

# %% in-torch [markdown]
# ## In torch
#
# The control takes one line: with a query of zeros, all scores are 0,
# so all keys that are allowed get the same weight.
# This works in `F.scaled_dot_product_attention` too, with a Boolean mask or without any mask.

# %% torch-control
import torch.nn.functional as F

z = sat.embedded[None]  # (N, L, E)
allowed = torch.arange(z.shape[1]) < 5  # every query may attend to the first five keys
zeros = torch.zeros_like(z)
control = F.scaled_dot_product_attention(zeros, z, z)
masked = F.scaled_dot_product_attention(zeros, z, z, attn_mask=allowed[None])
assert torch.allclose(control[0, 0], z[0].mean(dim=0), atol=1e-5)
assert torch.allclose(masked[0, 0], z[0, :5].mean(dim=0), atol=1e-5)

# %% sources [markdown]
# ## Sources
#
# - Hewitt and Liang,
#   [Designing and Interpreting Probes with Control Tasks](https://arxiv.org/abs/1909.03368), 2019:
#   why a result about a model needs a control.
# - Clark et al., [What Does BERT Look At?](https://arxiv.org/abs/1906.04341), 2019:
#   what single heads of a whole model attend to, and how much weight goes to `[SEP]`.
# - Reif et al., [Visualizing and Measuring the Geometry of BERT](https://arxiv.org/abs/1906.02715),
#   2019: the senses of a word come apart in whole models.
# - The trained layer is the first attention layer of
#   [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2) (Apache-2.0).
#   Wang et al., [MiniLM](https://arxiv.org/abs/2002.10957), 2020,
#   describe how the larger model behind it was trained.

# %% next [markdown]
# ## Next
#
# Lesson 6, [Where Q, K and V come from](06_where_q_k_and_v_come_from.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.**
# Two banks: 8.
# The fair test: 8.
# When the words disagree, with the explorer: 11.
# The trained layer: 3.
# Who asks: 8.
# One query for two meanings: 4.
# The thief and the answer: 8.
#
# **Where a class stalls.**
# *“But the model does understand”:* agree that a whole model may, and ask which cell shows it.
# *“The plain average is only lucky”:* let the class write six sentences, three of each kind,
# and count.
# *The tie:* let two students play “river” and “loan” and pull on a rope tied to “bank”,
# while a third plays “the”.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# Suppose that no attention weight is near 0.
# After attention, are two tokens of a sentence usually more alike than before, or less?
# **More alike.**
# *Less:* this confuses attending to words with sorting them.
# *As before:* this forgets that the values are averaged.
#
# **2.**
# You want to know whether the *weights* cause an effect.
# What is the control?
# **Equal weights, with the same values.**
# *No attention at all:* this takes the mixing away too.
# *Random weights:* they answer a different question: would chance do as well?
# It is worth asking too.
#
# **3.**
# A query asks with strength 0.
# What comes out?
# **The plain average.**
# *Zeros:* this takes the scores for the weights.
# *The word itself:* this assumes that a query that asks for nothing gets nothing new.
#
# **4.**
# Someone inspects 144 heads and finds one in which “bank” attends most to “river”.
# What next?
# **Test it on fresh sentences, and with other query words.**
# *It understands:* this forgets the other 143.
# *It is chance:* that has to be measured as well.
#
# **5.**
# In the first layer, “saw” is replaced with “robbed”.
# What happens to the score of “bank” for “river”?
# **It stays the same.**
# *It falls:* this confuses the score with the weight.
# *That depends on the head:* in every head, a score depends only on two words and their positions.
# </details>
