# %% opening [markdown] above="The dot products say"
# # 2 · Why divide by the square root of d_k
#
# Open almost any implementation of attention and you will find a line like this one:
#
# ```python
# scores = query @ key.T / d_k**0.5
# ```
#
# The dot products say how well each query matches each key, so why divide them by anything?
# And why by the square root of the number of features, rather than by that number itself?
# The paper that introduced the formula explains the root in a footnote.
# Its authors could only suspect why large dot products do harm:
# they may push the softmax into regions where its gradients are extremely small.
#
# **You need:** lesson 1 (scores, weights, output, and the softmax along a row),
# and the ideas of a loss, a gradient, the chain rule and a learning rate.
#
# **You will be able to**
# - explain where $\sqrt{d_k}$ comes from, and check it by measuring,
# - predict how sharp the weights become with the division and without it,
# - say what the division does for the gradients, and what it cannot do in a trained layer.
#
# **Time:** 50 minutes in class, or 75 on your own with the exercises.
# “Further” takes another 15.

# %% setup
import pandas as pd
import torch
from attnlab import data_path, effective_keys
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import ScalingExplorer
from attnlab.plotting import plot_heads, plot_sweep

lesson_setup()

# %% ten-queries [markdown]
# ## Ten queries, ten keys
#
# Let us leave the division out.
# Here are ten queries and ten keys with 512 features each.
# All features are random numbers, so no key has anything to do with any query.

# %% two-maps
generator = torch.Generator().manual_seed(0)
query, key = torch.randn(2, 10, 512, generator=generator)  # (L, d_k) and (S, d_k)
dot_products = query @ key.T  # (L, S)
undivided = dot_products.softmax(dim=-1)
divided = (dot_products / 512**0.5).softmax(dim=-1)
titles = ["not divided", "divided by √512"]
show_figure(plot_heads(torch.stack([undivided, divided]), titles=titles), "2.1")

# %% so-sure [markdown] above="Without the division, a" below="The **raw score** of"
# Without the division, a single key takes more than 99% of the weight in nine of the ten rows.
# (On average over many draws, it happens in seven of the ten rows.)
# Attention is supposed to compute a weighted *average*, but here it has turned into a choice,
# and an arbitrary one.
# The map on the right comes from the same dot products,
# but in it every query still averages over several keys.
#
# ## A dot product is a sum
#
# The **raw score** of a query $q$ and a key $k$ is their dot product,
# with one term for each feature.
#
# $$q \cdot k = q_1 k_1 + q_2 k_2 + \dots + q_{d_k} k_{d_k}$$
#
# How spread out are such sums?
# The usual measure is the [**variance**](glossary.ipynb#variance),
# the mean squared distance from the mean.
# Its square root, the [**standard deviation**](glossary.ipynb#standard-deviation),
# is a typical distance from the mean.
#
# For now we make three assumptions about the features.
# They have mean 0, they have variance 1,
# and they are [**independent**](glossary.ipynb#independent):
# knowing one of them tells you nothing about the others.
# We draw 20,000 queries with 64 features each, and one key for each query.

# %% one-product
generator = torch.Generator().manual_seed(0)
queries, keys = torch.randn(2, 20_000, 64, generator=generator)
products = queries * keys  # (20000, 64): a row holds q_1 k_1, q_2 k_2, ...
raw_scores = products.sum(dim=-1)  # (20000,)
print(f"variance: products {products.var():.2f}, raw scores {raw_scores.var():.1f}")

# %% variances-add [markdown] above="A single product has" below=["The variance of $a", "There are $d_k$ terms"]
# ## Where the root comes from
#
# A single product has variance 1, and a sum of 64 products has a variance of about 64.
# To see why, take two of the products, $a = q_1 k_1$ and $b = q_2 k_2$.
# Since $q_1$ and $k_1$ are independent,
# the mean of $a$ is the mean of $q_1$ times the mean of $k_1$, which is 0.
# The mean of $b$ is 0 as well, and so is the mean of $a + b$.
# The variance of $a + b$ is therefore the mean of its square.
#
# $$(a + b)^2 = a^2 + 2ab + b^2.$$
#
# The two products are independent of each other, so the mean of $ab$ is 0.
# What remains is the mean of $a^2$ plus the mean of $b^2$, which are the two variances.
# The same holds for more terms: **the variance of a sum of independent terms is the sum of their
# variances.**
#
# A single term $q_1 k_1$ has the variance of $q_1$ times the variance of $k_1$,
# because $q_1^2$ and $k_1^2$ are independent too.
# There are $d_k$ terms, so the variance of a raw score is $d_k$ times that of one term.
#
# $$\mathrm{Var}(q \cdot k) = d_k \cdot \mathrm{Var}(q_i) \cdot \mathrm{Var}(k_i).$$
#
# Here, both factors on the right are 1.
# So the variance of a raw score is $d_k$, and its standard deviation is $\sqrt{d_k}$.
# If we divide all raw scores by $\sqrt{d_k}$, the standard deviation becomes 1.
#
# (A token that is compared with itself, as in lesson 0, breaks the third assumption.
# Its raw score is a sum of squares, near $d_k$, or near $\sqrt{d_k}$ after the division.)

# %% ask-larger
predict("02/features-of-variance-4")

# %% see-larger
# %%answer 02/features-of-variance-4
scores_of_larger = ((2 * queries) * (2 * keys)).sum(dim=-1) / 64**0.5
print(f"variance {scores_of_larger.var():.1f}")

# %% other-sizes [markdown] above="The division makes up"
# The variance is about 16, because queries and keys each contribute a factor of 4.
# The division makes up for the number of features, not for their size.
#
# Does it do so for any $d_k$?
# We try six sizes, on 40 random sequences with 25 queries and 16 keys each.


# %% random-sequences
def random_raw_scores(d_k, n_keys=16):
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(40, 25, d_k, generator=generator)
    key = torch.randn(40, n_keys, d_k, generator=generator)
    return query @ key.mT  # (40, 25, n_keys); .mT swaps the last two axes


sizes = torch.tensor([1, 4, 16, 64, 256, 1024])
spread = torch.stack([random_raw_scores(d_k).std() for d_k in sizes])

# %% spread-figure jupyter={"source_hidden": true}
curves = {"not divided": spread, "divided by √d_k": spread / sizes**0.5}
ax = plot_sweep(sizes, curves, xscale="log", yscale="log", xlabel="d_k")
ax.set(title="Raw scores grow like √d_k", ylabel="standard deviation")
ax.set_xticks(sizes, sizes.tolist())
roots = [1, 2, 4, 8, 16, 32]
ax.set_yticks(roots, roots)
show_figure(ax, "2.2")

# %% spread-and-weights [markdown] above="After the division by"
# After the division by $\sqrt{d_k}$, the standard deviation is close to 1 at every size.
#
# ## What the spread does to the weights
#
# The spread of the scores matters because the softmax turns *differences* between scores into
# *ratios* between weights.
# If one score is 1 above another, its weight is $e \approx 2.7$ times as large.
# If it is 8 above, its weight is $e^8 \approx 2{,}981$ times as large.
#
# How sharp is a row of weights?
# We count its [**effective keys**](glossary.ipynb#effective-keys).
# If five keys share the weight equally, the count is 5, and if one key has all of it,
# the count is 1.
# In general it is $e$ to the power of the entropy,
# which is the sum of $-p \ln p$ over the weights $p$ of the row.
# Here is the count for the ten rows of both maps in Figure 2.1.

# %% effective-by-hand
entropy = -(divided * divided.log()).sum(dim=-1)  # (L,)
print("divided, by hand:", entropy.exp())
print("divided:         ", effective_keys(divided))
print("not divided:     ", effective_keys(undivided))

# %% many-keys [markdown] above="With the division, most"
# With the division, most of these queries use about half of the ten keys or more.
# Without it, nine of them use little more than one.
# But how many keys does a query use in a text of thousands of words?

# %% ask-many
predict("02/four-thousand-keys")

# %% see-many
# %%answer 02/four-thousand-keys
counts = [16, 64, 256, 1024, 4096]
table = pd.DataFrame(index=pd.Index(counts, name="keys"))
for n_keys in counts:
    raw = random_raw_scores(64, n_keys)
    for name, divisor in (("not divided", 1), ("divided by √64", 8)):
        weights = (raw / divisor).softmax(dim=-1)
        table.loc[n_keys, name] = effective_keys(weights).mean().item()
table["share of all keys"] = table["divided by √64"] / table.index
table.round(2)

# %% grows-with-n [markdown] above="With the division, a"
# With the division, a query uses about 0.6 of its keys as soon as there are a few dozen of them.
# To see why it is a *share* of the keys, imagine that every key is there twice:
# each weight is halved, and the number of effective keys doubles.
# For normally distributed scores of variance $\sigma^2$ and many keys,
# the share is $e^{-\sigma^2/2}$, which is 0.61 if the variance is 1.
#
# In a long text, an untrained query averages over most of the words,
# and training has to make the scores larger before the query can single out one of them.
#
# ## What the spread does to learning
#
# Now we turn to what the authors suspected.
# A model can learn from a score only if changing the score changes the weights.
# We take three keys with the weights 0.5, 0.3 and 0.2, raise the score of the first by 0.01,
# and divide the change of each weight by 0.01.

# %% nine-derivatives
p = torch.tensor([0.5, 0.3, 0.2])
scores = p.log()  # three scores that have these weights
raised = scores + torch.tensor([0.01, 0.0, 0.0])
print((raised.softmax(dim=-1) - p) / 0.01)
print(p.diag() - p.outer(p))  # the same for all three scores, by a formula

# %% two-forces [markdown] above="The weight of a"
# The weight of a key rises with its own score, and the other keys lose what it gains.
# The table, called the [**Jacobian**](glossary.ipynb#Jacobian) of the softmax,
# says the same for every score: its entry in row $i$ and column $j$ is how fast weight $i$ moves
# when score $j$ rises.
# The quotient rule gives $p_i (1 - p_i)$ on the diagonal and $-p_i p_j$ everywhere else.
#
# If one key has a weight of 0.998, its entry on the diagonal is $0.998 \cdot 0.002$,
# or about 0.002.
# Hardly anything moves: the softmax is *saturated*.
#
# ## Back to the query, in three steps
#
# The division changes more than these derivatives.
# Take the three keys from above, and let the loss be the first weight.
#
# 1. **The softmax.**
#    The first row of the table says how fast the first weight, and with it the loss,
#    moves with each *score*: $(0.25, -0.15, -0.1)$.
# 2. **The division.**
#    A score is a raw score divided by some number $c$.
#    So the derivatives with respect to the *raw scores* are those of step 1, divided by $c$.
#    If $d_k$ is 4, then $c$ is 2, and we get $(0.125, -0.075, -0.05)$.
# 3. **The dot products.**
#    The derivative of $q \cdot k$ with respect to $q$ is the key $k$.
#    So the gradient of the *query* is a sum of the keys: 0.125 times the first key,
#    minus 0.075 times the second, minus 0.05 times the third.
#
# Without the division, step 2 no longer divides by $\sqrt{d_k}$, which makes the gradient longer.
# But in step 1 the derivatives become small if one key has won.
# What is the effect of both together?
# We let PyTorch compute the gradients of 1,000 random queries.
# Each key has one random number as its value, and the loss is the sum of all outputs.


# %% query-gradients
def query_gradients(d_k, n_keys, divisor):
    """Return the largest weight of each query, and the length of its gradient."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(40, 25, d_k, generator=generator).requires_grad_()
    key = torch.randn(40, n_keys, d_k, generator=generator)
    value = torch.randn(40, n_keys, 1, generator=generator)
    weights = (query @ key.mT / divisor).softmax(dim=-1)
    (weights @ value).sum().backward()
    largest = weights.detach().amax(dim=-1)
    return largest.flatten(), query.grad.norm(dim=-1).flatten()  # (1000,) each


# %% ask-gradient
predict("02/gradient-of-a-query")

# %% see-gradient
# %%answer 02/gradient-of-a-query
cases = [(64, 256), (64, 2048), (128, 2048), (128, 16), (1024, 16)]
without = [query_gradients(d_k, n_keys, divisor=1) for d_k, n_keys in cases]
divided_by_root = [query_gradients(d_k, n_keys, d_k**0.5) for d_k, n_keys in cases]
medians = pd.DataFrame(cases, columns=["d_k", "keys"])
medians["largest weight, not divided"] = [w.median().item() for w, _ in without]
medians["gradient, not divided"] = [g.median().item() for _, g in without]
medians["gradient, divided"] = [g.median().item() for _, g in divided_by_root]
medians["ratio"] = medians["gradient, not divided"] / medians["gradient, divided"]
medians.set_index(["d_k", "keys"]).map("{:.3g}".format)

# %% half-true [markdown] above="With 64 features and"
# With 64 features and 256 keys, the median gradient is about twelve times as long without the
# division.
# So the gradients do not simply vanish:
#
# - **In heads of the usual size, most gradients become longer.**
#   With 64 or 128 features and hundreds or thousands of keys, the median is 12 to 36 times as long.
#   A factor of $\sqrt{d_k}$, here 8 or 11, comes from step 2.
#   The rest comes from step 1.
#   Without the division, the largest weight is typically near 0.8,
#   and its derivative near $0.8 \cdot 0.2 = 0.16$.
#   With it, the weights are small, and so are the derivatives.
# - **With many features and few keys, most gradients vanish.**
#   With 1,024 features and 16 keys, one key has won in most rows,
#   and the median is about a thousandth of what it is with the division.
#
# With 128 features and 16 keys, the two effects nearly cancel.

# %% gradient-figure jupyter={"source_hidden": true}
# %%answer 02/gradient-of-a-query
import matplotlib.pyplot as plt
import seaborn as sns

measured = {"not divided": without, "divided by √d_k": divided_by_root}
long = pd.concat(
    pd.DataFrame(
        {"case": f"{d_k:,} features\n{n:,} keys", "scores": name, "length": length}
    )
    for name, results in measured.items()
    for (d_k, n), (_, length) in zip(cases, results, strict=True)
)
_, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
colors = {"not divided": "#c8500a", "divided by √d_k": "#0b61a4"}
sns.boxplot(
    long,
    x="length",
    y="case",
    hue="scores",
    palette=colors,
    whis=(10, 90),
    showfliers=False,
    ax=ax,
)
ax.set(xscale="log", xlabel="length of the gradient of a query", ylabel="")
ticks = [0.0001, 0.001, 0.01, 0.1, 1, 10]
ax.set_xticks(ticks, ["0.0001", "0.001", "0.01", "0.1", "1", "10"])
ax.set_xlim(ticks[0], ticks[-1])
ax.set_title("Without the division, gradients are uneven")
sns.move_legend(ax, "upper left", title=None)
show_figure(ax, "2.3")

# %% uneven [markdown] above="Without the division, the"
# Without the division, the gradients of different queries are uneven.
# With it, most of them have similar lengths.
#
# So the suspicion, which is about step 1 alone, is only half the truth.
# A smaller learning rate makes up for gradients when every one of them is too long,
# but not when they are *uneven*.
# All queries of a layer are made by the same parameters (lesson 6),
# whose gradient is a sum over the queries.
# In the last case of Figure 2.3, the longest tenth is over 1,000 times as long as the median,
# so a few queries dominate this sum.
#
# ## Why not divide by something else?
#
# Perhaps dividing by $d_k$ itself is better, or by $\sqrt{d_{model}}$,
# where $d_{model}$ is the number of features of a token in the whole layer.
# A layer of width 512 is often split into 8 [heads](glossary.ipynb#head),
# small attention computations of their own whose queries have $d_k = 64$ features (lesson 7).
#
# In the explorer, $d_{model}$ is always 1,024.
# Try the four divisors with a small and with a large $d_k$.
# Which of them keeps both the number of effective keys and the length of the gradient nearly the
# same?

# %% explore-scaling
ScalingExplorer(d_k=256, divisor="d_k", ask=False)

# %% only-the-root [markdown] above="Divided by $d_k$, the"
# From $d_k = 4$ on, only $\sqrt{d_k}$ keeps both nearly the same.
# If we divide by $d_k$, the variance drops to $d_k/d_k^2 = 1/d_k$.
# Divided by $d_k$, the scores of random keys are nearly equal in a large head.
# The output is then nearly a plain average.
# If we divide by $\sqrt{d_{model}}$,
# we ignore the fact that the sum has only as many terms as the *query* has features.
# In a layer of width 512 with 8 heads, this leaves a variance of $64/512 = 1/8$.
#
# ## Do trained scores still have a variance of 1?
#
# Let us look at the first attention layer of all-MiniLM-L6-v2,
# a small model that turns English sentences into vectors.
# The layer has twelve heads with $d_k = 32$.
# We let it read 35 sentences; the model adds two tokens to each.
#
# The layer returns weights.
# The logarithm of a weight is its score, up to a number that is the same in the whole row,
# so the logarithms of the weights vary exactly as the scores do.

# %% ask-trained
predict("02/a-sharp-trained-head")

# %% see-trained
# %%answer 02/a-sharp-trained-head
from attnlab.models.pretrained import load_layer

layer = load_layer()
sentences = pd.read_csv(data_path("bank_sentences.csv")).sentence
readings = [layer.read(sentence) for sentence in sentences]  # weights (H, L, S) each
variances = [reading.weights.log().var(dim=-1) for reading in readings]  # (H, L) each
of_heads = torch.cat(variances, dim=-1).mean(dim=-1)  # (H,)
print("mean variance in each head:", of_heads)
words = readings[0].tokens
titles = [f"head {head}: variance {of_heads[head]:.1f}" for head in (1, 2)]
maps = readings[0].weights[[1, 2]]
figure = plot_heads(maps, queries=words, keys=words, titles=titles)
show_figure(figure, "2.4")

# %% after-trained [markdown] above="Head 2 looks almost"
# Head 2 looks almost only at the preceding token, and the variance of its scores is near 100.
# So the division does not keep the scores small: in this head, training has made them large.
# Nine of the other heads have a mean variance between 1/2 and 2 in these short sentences,
# but nothing keeps it there.

# %% the-answer [markdown]
# ## So why that number?
#
# A raw score is a sum of $d_k$ products.
# If the features are independent, with mean 0 and variance 1, its typical size is $\sqrt{d_k}$.
# Dividing by this number gives small and large heads the same sharpness before any training.
# Each query then averages over several keys, and most queries get gradients of similar length.
# If we divided by $d_k$ instead, a larger head would begin closer to a plain average.
#
# A model can also learn without the division, because training can change the size of the scores.
# Under “Further” we train a small model, which does so, but more slowly,
# and only within a narrower range of learning rates.

# %% further [markdown]
# ## Further
#
# ### Trained heads without the division
#
# The heads of all-MiniLM-L6-v2 were trained with the division.
# What would their weights look like without it?
# To undo it, we multiply the logarithms of the weights by $\sqrt{32}$.
# (This multiplies the number that they all share as well, but the softmax ignores it.)

# %% without-it
undone = [(reading.weights.log() * 32**0.5).softmax(dim=-1) for reading in readings]
largest = torch.cat([weights.amax(dim=-1) for weights in undone], dim=-1)  # (H, rows)
(largest > 0.99).float().mean(dim=-1)  # the share of rows that choose a single key

# %% training-race [markdown]
# Even with the division, head 2 gives nearly all of its weight to one key.
# Without the division, the other eleven heads would give more than 99% of the weight to a single
# key in 6% to 56% of their rows.
# With the division, ten of the eleven never do.
# (A model trained without the division would of course have learned different features.)
#
# ### A training race
#
# One attention layer with $d_k = 256$ sees eight pairs such as (a, 3), and then the question “a”.
# The correct answer is 3, one of 16 numbers.
# We trained it with Adam, once for each combination of three divisors,
# five learning rates and four seeds, and stored the accuracy on new examples.
# (The script is `data/make_scaling_race.py`.)
# At the start, queries and keys have variance 1.

# %% see-race
race = pd.read_csv(data_path("scaling_race.csv"))
names = {"raw": "not divided", "sqrt(d_k)": "divided by √d_k", "d_k": "divided by d_k"}
race["divisor"] = race.divisor.map(names)

# %% race-figure jupyter={"source_hidden": true}
_, ax = plt.subplots(layout="constrained")
sns.lineplot(
    race[(race.learning_rate == 0.001) & (race.step <= 400)],
    x="step",
    y="accuracy",
    hue="divisor",
    style="divisor",
    palette=dict(zip(names.values(), ("#c8500a", "#0b61a4", "#3d7a35"), strict=True)),
    dashes=dict(zip(names.values(), ((4, 2), "", (1, 1)), strict=True)),
    errorbar=("pi", 100),
    ax=ax,
)
ax.set(ylim=(0, 1.02), title="Learning rate 0.001: √d_k learns fastest")
show_figure(ax, "2.5")

# %% five-rates [markdown]
# The other two versions are slower at this rate, but their accuracy comes close to 1 as well.
# Here is the accuracy for all five rates, after 400 steps and after 1,600.

# %% race-table
compared = race[race.step.isin([400, 1600])]
final = compared.groupby(["step", "divisor", "learning_rate"]).accuracy.mean()
final.unstack("learning_rate").round(3)

# %% race-reading [markdown]
# At the lowest rate, $\sqrt{d_k}$ learns fastest again,
# and the other two versions only need more time.
# At the rate of 0.01, more time does not help the version without the division.
# At 0.03 no version is above 0.95 at either step, and dividing by $d_k$ does better than the root.
#
# This is one task at one size, so it does not prove a general law.
# Here, the model learned faster with $\sqrt{d_k}$ than without a division,
# and over a wider range of learning rates.
# Compared with $d_k$ the result is mixed: the root was faster at the low rates,
# and $d_k$ did better at the two highest.
#
# ### Is the division needed at all?
#
# A layer can *compute* the same things without the division,
# because the factor can be absorbed into the parameters that make the queries.
# The scores then stay the same.

# %% moved-factor
generator = torch.Generator().manual_seed(0)
x = torch.randn(9, 64, generator=generator)
weight_query, weight_key = torch.randn(2, 64, 256, generator=generator)
with_division = (x @ weight_query) @ (x @ weight_key).T / 256**0.5
factor_moved = (x @ (weight_query / 256**0.5)) @ (x @ weight_key).T
assert torch.allclose(with_division, factor_moved, rtol=1e-4, atol=1e-3)

# %% t5 [markdown]
# The T5 models do this: their code does not divide,
# but initialises the parameters that make the queries with smaller values,
# so that the initial scores are as small as they would be with the division.
#
# The training steps differ, however,
# because the parameters that make the queries are now smaller by a factor of $\sqrt{d_k}$.
# The optimiser Adam takes steps of the same length whether the parameters are small or large,
# so relative to their size it changes the small ones more.
# We tried this with $d_k = 64$ and the same learning rate for both versions.
# Without the division, the first step moved the scores about 5 times as far.

# %% remember [markdown]
# ## What to remember
#
# - A raw score is a sum of $d_k$ products.
#   If the features have mean 0 and variance 1 and are independent,
#   its variance is $d_k$ and its standard deviation is $\sqrt{d_k}$.
# - Dividing by $\sqrt{d_k}$ makes the standard deviation of such scores 1, whatever $d_k$ is.
#   Here $d_k$ stands for the number of features in a query of one head,
#   not for the width of the layer.
# - If the scores of a query are normally distributed with variance 1,
#   it uses about 0.6 of its keys, once there are a few dozen of them.
#   Without the division, a query with many features and few keys usually puts nearly all of its
#   weight on one key.
# - “The gradients vanish” is only half the truth.
#   Without the division they are uneven: in heads of the usual size most are longer,
#   but with many more features and few keys most are close to 0.
# - The root makes the spread of the scores before training independent of $d_k$.
#   Training may change the spread, and a model can learn without the root.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell.
# Then run the check in the next cell.

# %% exercise-1 [markdown]
# ### 1 · Explain ★ (3 minutes)
#
# Which of these sentences is always true?
#
# - A: After the division by $\sqrt{d_k}$, the scores have variance 1.
# - B: The division by $\sqrt{d_k}$ divides the variance of the scores by $d_k$.
# - C: Without the division, all gradients vanish.
# - D: Without the division, a model cannot learn.
#
# <details><summary>Hint</summary>
#
# For three of them, you can find a counterexample in this lesson.
# </details>

# %%
from attnlab.exercises import check_always_true, check_good_factor, check_hundred_dice
from attnlab.exercises import check_normed_scores


# %% tags=["exercise"]
def always_true():
    """Return "A", "B", "C" or "D"."""


# %%
check_always_true(always_true)


# %% tags=["solution"]
def always_true_solution():
    return "B"  # it holds for any numbers; A only if the variance was d_k before


check_always_true(always_true_solution)

# %% exercise-2 [markdown]
# ### 2 · Compute ★ (6 minutes): a hundred dice
#
# Each term of a dot product is like a die: it adds its own randomness to the sum.
# A single die has mean 3.5 and variance 2.917.
# Add up 100 dice, and divide the sum by 1, by 10 (the root of 100), or by 100
# (which gives the average).
# In which of the three cases do you get the variance of a single die, and what is the mean then?
# Write the mean and the variance in terms of the divisor.
# The check throws the dice.
#
# <details><summary>Hint</summary>
#
# Means add up, and so do the variances of independent terms.
# Dividing by $c$ divides a mean by $c$ and a variance by $c^2$.
# </details>


# %% hundred-dice tags=["exercise"]
def hundred_dice(divisor):
    """Return mean and variance of (sum of 100 dice) / divisor, as two numbers."""


# %%
check_hundred_dice(hundred_dice)


# %% dice-solution tags=["solution"]
def hundred_dice_solution(divisor):
    die = torch.arange(1.0, 7.0)  # six faces, all equally likely
    mean, variance = die.mean().item(), die.var(correction=0).item()
    return 100 * mean / divisor, 100 * variance / divisor**2


check_hundred_dice(hundred_dice_solution)

# %% dice-reading [markdown]
# <details><summary>An answer</summary>
#
# The root keeps the variance of a single die, 2.917.
# The average has a variance of only 0.029:
# averages of a hundred dice are all nearly the same number,
# as the scores are after dividing by $d_k$.
# But dividing by the root does nothing about a *mean* that is not 0: the mean,
# 3.5 for a single die, has become 35.
# </details>

# %% exercise-3 [markdown]
# ### 3 · Modify ★★ (6 minutes)
#
# Here ten random tokens are multiplied by 10,
# and untrained linear layers make queries and keys with $d_k = 8$ from them.
# Even after the division the scores have a large variance.
# By what factor should the tokens be multiplied instead,
# so that the variance ends up between 0.8 and 1.25?
#
# <details><summary>Hint</summary>
#
# A score is a product of a query and a key.
# If the factor doubles, what happens to a score, and what happens to its variance?
# (You can ignore the bias of the layers.)
# </details>

# %% ten-tokens
torch.manual_seed(42)
w_query, w_key = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
tokens = torch.randn(10, 8) * 10.0
scores = w_query(tokens) @ w_key(tokens).T / 8**0.5
print(f"variance of the scores {scores.var():.0f}")


# %% tags=["exercise"]
def good_factor():
    """Return a number."""


# %%
check_good_factor(good_factor)


# %% tags=["solution"]
def good_factor_solution():
    return 10 / 1160**0.25  # the variance grows with the fourth power of the factor


check_good_factor(good_factor_solution)

# %% exercise-4 [markdown]
# ### 4 · Implement ★★★ (10 minutes)
#
# Some models first rescale each query and each key so that its **root mean square** is 1.
# (This is the square root of the mean of its squared features.
# We leave out the learned factors that such models multiply by afterwards.)
# Then they divide the dot products by $\sqrt{d_k}$.
# Write a function that does both.
# Making queries and keys ten times as large must not change the scores.
#
# <details><summary>Hint</summary>
#
# Which axis holds the features of one query?
# You need one number per row, and `keepdim=True` keeps the shape.
# Do not set the *length* of the query to 1:
# its length is the root of the *sum* of its squared features, and you need the root of their mean.
# </details>


# %% tags=["exercise"]
def normed_scores(query, key):
    """Scores that ignore lengths. query (..., L, E), key (..., S, E) -> (..., L, S)."""


# %%
check_normed_scores(normed_scores)


# %% tags=["solution"]
def normed_scores_solution(query, key):
    def rescaled(x):
        return x / x.pow(2).mean(dim=-1, keepdim=True).sqrt()

    return rescaled(query) @ rescaled(key).mT / query.shape[-1] ** 0.5


check_normed_scores(normed_scores_solution)

# %% in-torch [markdown]
# ## In torch
#
# `F.scaled_dot_product_attention` multiplies the dot products by `scale`.
# Its default is $1/\sqrt{E}$, where $E$ is the size of the last dimension of the query.
# Note that `scale` is a *factor*: to divide by a number $c$, pass `scale=1 / c`.
# Torch's layer with several heads, `nn.MultiheadAttention`,
# divides by the root of the number of features of one head,
# not by the root of the width of the whole layer.

# %% torch-scale
import torch.nn.functional as F

generator = torch.Generator().manual_seed(0)
x = torch.randn(1, 6, 64, generator=generator)  # (N, L, E): query, key and value
default = F.scaled_dot_product_attention(x, x, x)
assert torch.allclose(default, F.scaled_dot_product_attention(x, x, x, scale=1 / 8))

# %% start [markdown]
# What variance do the scores have before training, after the division?
# For tokens of variance 1 it depends on how the layer draws its parameters.
# Two layers made by `nn.Linear` begin with queries and keys of variance 1/3,
# and so with scores of variance 1/9.
# `nn.MultiheadAttention` begins with a variance of 1/2, and so with scores of variance 1/4.
# By the formula $e^{-\sigma^2/2}$, a query then uses 0.95 or 0.88 of its keys: before training,
# the output is close to a plain average.

# %% torch-start
torch.manual_seed(0)
x = torch.randn(600, 512)
w_query, w_key = torch.nn.Linear(512, 64), torch.nn.Linear(512, 64)
from_linear = w_query(x) @ w_key(x).T / 64**0.5
layer = torch.nn.MultiheadAttention(512, num_heads=8)
query, key, value = (x @ layer.in_proj_weight.T).chunk(3, dim=-1)
first_head = query[:, :64] @ key[:, :64].T / 64**0.5
print(
    f"nn.Linear {from_linear.var():.2f}, nn.MultiheadAttention {first_head.var():.2f}"
)

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017,
#   section 3.2.1 and footnote 4.
#   The footnote states the variance,
#   and the suspicion is voiced in the sentence that begins "We suspect".
# - The trained layer is the first attention layer of
#   [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2) (Apache-2.0).
# - Henry et al., [Query-Key Normalization for
#   Transformers](https://arxiv.org/abs/2010.04245), 2020.
#   Its method resembles that of exercise 4,
#   but it rescales each vector to length 1 and multiplies the scores by a learned factor.
# - T5 without the division: `_init_weights` in
#   [modeling_t5.py](https://github.com/huggingface/transformers/blob/main/src/transformers/models/t5/modeling_t5.py).
# - Yang et al., [Tensor Programs V](https://arxiv.org/abs/2203.03466), 2022.
#   In this paper the dot products are divided by $d_k$,
#   because queries and keys align during training.

# %% next [markdown]
# ## Next
#
# Lesson 3, [Masks: who may look at whom](03_masks_who_may_look_at_whom.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 50 minutes, and where a class stalls</summary>
#
# **50 minutes.**
# Ten queries and the sum: 13.
# The weights and the number of keys: 11.
# Learning: 12.
# The divisor, with the explorer: 6.
# The trained layer and the answer: 8.
#
# **Where a class stalls.**
# *Root or no root?*
# Have them divide a list of numbers by 8 and compute the variance again.
# *The nine derivatives:* fill in one row together on the board.
# *The three steps back to the query:* follow the example with numbers on the board.
# *“The gradients vanish”:* ask them to name a model that they know,
# and to find its row in the table.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.**
# $d_k = 64$, and the features have mean 0 and variance 1 and are independent.
# What is the standard deviation of a raw score?
# **8.**
# *64* is the variance.
# *1* is what we get after the division.
#
# **2.**
# The features of the queries have variance 9, and those of the keys have variance 1.
# What is the standard deviation of the scores after dividing by the root?
# **3.**
# *1* forgets the assumption.
# *9* is the variance.
#
# **3.**
# A layer has width 512 and 8 heads.
# What goes under the root?
# **64.**
# *512* is the width of the layer.
# *8* is the number of heads.
#
# **4.**
# The scores of a row are not all equal, and each is divided by 2.
# What happens to the key with the largest weight?
# **It stays the same key and gets less weight.**
# *Another key wins:* dividing keeps the order.
# *Its weight comes closer to 1:* that happens when the scores are multiplied.
#
# **5.**
# The scores are not divided, $d_k$ is 64, and there are 256 keys.
# What happens to the gradients of the queries?
# **They become uneven, and most become longer.**
# *All vanish:* this answer considers only the softmax, and only rows in which one key has won.
# *All become longer by a factor of 8:* this answer considers only the missing factor $1/c$,
# not the softmax.
# </details>
