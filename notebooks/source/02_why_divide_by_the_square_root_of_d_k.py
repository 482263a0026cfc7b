# %% opening [markdown]
# # 2 · Why divide by the square root of d_k
#
# Open almost any implementation of attention and you will find a line like this one:
#
# ```python
# scores = query @ key.T / d_k**0.5
# ```
#
# The dot products say how well each query matches each key, so why divide them by anything? And why by the square root
# of the number of features, rather than by that number itself? The paper that introduced the formula gives the reason
# for the root in a footnote. The authors could only
# suspect why large dot products do harm: such products may push the softmax into regions where its gradients are
# extremely small. In this lesson you will measure what the authors suspected.
#
# **You need** lesson 1: scores, weights, output, and the softmax along a row. You should also know what a loss, a
# gradient, the chain rule and a learning rate are.
#
# **You will be able to**
# - explain where $\sqrt{d_k}$ comes from, and check it by measuring,
# - predict how sharp the weights become without the division,
# - say what the division does for the gradients, and what it does not do,
# - check whether the scores of a trained layer still have a variance of about 1.
#
# **Time:** 45 minutes in class, 75 on your own.

# %% setup
import pandas as pd
import torch
from attnlab import data_path, effective_keys, gradient_norms, softmax_jacobian
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import predict
from attnlab.explorers import ScalingExplorer
from attnlab.plotting import plot_heads, plot_sweep

lesson_setup()

# %% ten-queries [markdown]
# ## Ten queries, ten keys
#
# Let us leave the division out and see what happens. Here are ten queries and ten keys with 512 features each. All of
# their features are random numbers, so no key has anything to do with any query.

# %% two-maps
torch.manual_seed(0)
query, key = torch.randn(2, 10, 512)  # (L, d_k) and (S, d_k)
dot_products = query @ key.T  # (L, S)
undivided = dot_products.softmax(dim=-1)
divided = (dot_products / 512**0.5).softmax(dim=-1)
titles = ["not divided", "divided by √512"]
show_figure(plot_heads(torch.stack([undivided, divided]), titles=titles), "2.1")

# %% so-sure [markdown]
# Look at the map on the left. In nine of its ten rows, a single key takes more than 99% of the weight. (On average over
# many draws, this happens in about seven of the ten rows.) Attention is supposed to compute a weighted *average*, but
# here it has turned into a choice, and an arbitrary one. The map on the right comes from the same dot products, but in
# it every query still averages over several keys.
#
# So the division matters. To understand the divisor, we look at what is being divided.
#
# ## A dot product is a sum
#
# The **raw score** of a query $q$ and a key $k$ is their dot product. It is a sum with one term for each of their $d_k$
# features:
#
# $$q \cdot k = q_1 k_1 + q_2 k_2 + \dots + q_{d_k} k_{d_k}$$
#
# How spread out are such sums? The usual measure is the [**variance**](glossary.ipynb#variance), the mean squared
# distance from the mean. Its square root, the [**standard deviation**](glossary.ipynb#standard-deviation), is a typical
# distance from the mean.
#
# For now we make three assumptions about the features. They have mean 0, they have variance 1, and they are
# [**independent**](glossary.ipynb#independent): knowing one of them tells you nothing about the others. We draw 20,000
# queries with 64 features each, and one key for each query.

# %% one-product
torch.manual_seed(0)
queries, keys = torch.randn(2, 20_000, 64)
products = queries * keys  # (20000, 64): one row holds q_1 k_1, q_2 k_2, ...
queries.var(), products.var()

# %% ask-sum
predict("02/variance-of-a-sum")

# %% see-sum
# %%answer 02/variance-of-a-sum
raw_scores = products.sum(dim=-1)  # (20000,)
raw_scores[:8], raw_scores.var(), raw_scores.std()

# %% variances-add [markdown]
# ## Where the root comes from
#
# To understand the result, take two of the products, such as $q_1 k_1$ and $q_2 k_2$, and call them $a$ and $b$. A
# query is independent of its key, so the mean of $q_1 k_1$ is the mean of $q_1$ times the mean of $k_1$, which is 0. In
# the same way, the mean of $b$ is 0, and so is that of $a + b$. The variance of this sum is therefore the mean of
#
# $$(a + b)^2 = a^2 + 2ab + b^2.$$
#
# The two products are independent too, so the mean of $ab$ is the mean of $a$ times the mean of $b$, which is 0. What
# remains is the mean of $a^2$ plus the mean of $b^2$, and these are the two variances. With more terms the argument is
# the same: **the variance of a sum of independent terms is the sum of their variances.**
#
# How large is the variance of a single term, such as $q_1 k_1$? Its mean is 0, so its variance is the mean of $q_1^2
# k_1^2$. By independence, this is the mean of $q_1^2$ times the mean of $k_1^2$, which is the variance of $q_1$ times
# the variance of $k_1$. There are $d_k$ such terms, so
#
# $$\mathrm{Var}(q \cdot k) = d_k \cdot \mathrm{Var}(q_i) \cdot \mathrm{Var}(k_i).$$
#
# In our case both variances on the right are 1. So the variance of a raw score is $d_k$, and its standard deviation is
# $\sqrt{d_k}$. If we divide all raw scores by a number $c$, we divide their standard deviation by $c$ and their
# variance by $c^2$. So dividing by $\sqrt{d_k}$ brings both back to 1, however many features there are.
#
# Let us check this for other sizes. We draw 40 random sequences with 25 queries and 16 keys each, which gives 16,000
# raw scores for each size.


# %% random-sequences
def random_raw_scores(d_k, n_keys=16):
    torch.manual_seed(0)
    query, key = torch.randn(40, 25, d_k), torch.randn(40, n_keys, d_k)
    return query @ key.mT  # (40, 25, n_keys); .mT swaps the last two axes


# %% spread
sizes = torch.tensor([1, 4, 16, 64, 256, 1024])
spread = torch.stack([random_raw_scores(d_k).std() for d_k in sizes])
spread

# %% spread-figure jupyter={"source_hidden": true}
curves = {"raw": spread, "divided by √d_k": spread / sizes**0.5}
ax = plot_sweep(sizes, curves, xscale="log", yscale="log", xlabel="d_k")
ax.set(title="Raw scores grow like √d_k", ylabel="standard deviation")
ax.set_xticks(sizes, sizes.tolist())
show_figure(ax, "2.2")

# %% spread-and-weights [markdown]
# ## What the spread does to the weights
#
# The spread of the scores matters because the softmax turns *differences* between scores into *ratios* between weights.
# If one score is 1 above another, its weight is $e \approx 2.7$ times as large. If it is 8 above, its weight is $e^8
# \approx 2{,}981$ times as large.
#
# To describe by a single number how sharp a row of weights is, we count its [**effective
# keys**](glossary.ipynb#effective-keys). If five keys share the weight equally, the number is 5, and if one key has all
# of it, the number is 1. (The formula is $\exp(-\sum_j p_j \ln p_j)$ for the weights $p_j$. Five weights of $1/5$ give
# $\exp(\ln 5) = 5$.)
#
# Here are the weights of five scores, and then the weights of the same scores multiplied by 8, as if we had not divided
# by $\sqrt{64}$.

# %% times-eight
five = torch.tensor([1.2, 0.6, 0.1, -0.4, -1.5])
five_weights = torch.stack([five, 8 * five]).softmax(dim=-1)
five_weights, effective_keys(five_weights)

# %% contrast [markdown]
# The order of the keys is still the same, but the contrast has changed: the first key went from less than half of the
# weight to nearly all of it. What matters most is how far the best key is ahead of the second best. But the number of
# keys matters too: a thousand keys that are all a little behind still take a large share between them.
#
# Now we return to the 40 random sequences, which hold 1,000 queries in all. We divide their raw scores by $\sqrt{d_k}$
# and count the effective keys, for each of the six sizes.

# %% ask-used
predict("02/keys-used-with-the-division")

# %% see-used
# %%answer 02/keys-used-with-the-division
used = {"raw": [], "divided by √d_k": []}
for d_k in sizes:
    raw = random_raw_scores(d_k)
    for name, scores in zip(used, (raw, raw / d_k**0.5), strict=True):
        used[name].append(effective_keys(scores.softmax(dim=-1)).mean())
torch.stack(used["divided by √d_k"])

# %% used-figure
# %%answer 02/keys-used-with-the-division
ax = plot_sweep(sizes, used, xscale="log", xlabel="d_k", ylabel="effective keys")
ax.set(title="How many of its 16 keys a query uses", ylim=(0, 16))
ax.set_xticks(sizes, sizes.tolist())
show_figure(ax, "2.3")

# %% learning [markdown]
# ## What the spread does to learning
#
# Now we turn to the gradients, and to what the authors of the paper suspected. A model can learn from a score only if
# changing the score changes the weights. The table that says how fast each weight moves when one of the scores moves is
# called the [**Jacobian**](glossary.ipynb#Jacobian) of the softmax. For three keys with the weights 0.5, 0.3 and 0.2 it
# has nine entries, which we call **slopes**.

# %% nine-slopes
softmax_jacobian(torch.tensor([0.5, 0.3, 0.2]))

# %% two-forces [markdown]
# The entry in row $i$ and column $j$ says how fast weight $i$ moves when score $j$ rises. On the diagonal you find
# $p_i (1 - p_i)$, which is positive because the weight of a key rises with its own score. Everywhere else you find
# $-p_i p_j$, which is negative because the weights add up to 1: what one key gains, the others must lose.
#
# If one key has a weight of, say, 0.998, its slope on the diagonal is $0.998 \cdot 0.002$, which is about 0.002. Hardly
# anything moves, and we say that the softmax is *saturated*. But if two keys are *tied* at 0.5, their slopes are 0.25,
# and no slope is larger than that. Among many random queries, some are close to a tie even when $d_k$ is large.
#
# ### Two effects on the gradient
#
# The division changes more than the slopes. To see the rest, we follow the derivatives of the loss from the weights
# back to the query. As an example, take the three keys from above, and let the loss be the first weight. Then its
# derivatives with respect to the three weights are $g = (1, 0, 0)$. Three steps lead from there to the query:
#
# 1. **The softmax.** The first row of the table says how fast the first weight, and with it the loss, moves with each
#    *score*: $(0.25, -0.15, -0.1)$. For any $g$, each row of the table is multiplied by its entry of $g$, and the rows
#    are added up. This is $J^\top g$, or $J g$, because the table $J$ is symmetric.
# 2. **The division.** A score is a raw score divided by some number $c$. So the derivatives with respect to the *raw
#    scores* are those of step 1, divided by $c$. If $d_k$ is 4, then $c$ is $\sqrt{4} = 2$, and we get
#    $(0.125, -0.075, -0.05)$.
# 3. **The dot products.** The derivative of $q \cdot k$ with respect to $q$ is the key $k$. So the gradient of the
#    *query* is a sum of the keys, each multiplied by its number from step 2: 0.125 times the first key, minus 0.075
#    times the second, minus 0.05 times the third. With the keys as the rows of a matrix $K$, this is a multiplication
#    by $K^\top$.
#
# By the chain rule, the three steps make one formula, which we read from right to left:
#
# $$\frac{\partial\,\text{loss}}{\partial q} = \underbrace{K^\top}_{\text{3. dot products}}\;
# \underbrace{\,1/c\,}_{\text{2. division}}\; \underbrace{J}_{\text{1. softmax}}\; g$$
#
# Leaving out the division changes two of the factors. In step 2, nothing is divided by $\sqrt{d_k}$ any more, which
# makes the gradient longer. In step 1, the slopes change, and they become small if one key has won. What is the effect
# of both together? We let PyTorch compute the gradients of 1,000 random queries. Each key has one random number as its
# value, and the loss is the sum of all outputs. When a weight moves, the loss moves by the value of its key, so here
# $g$ holds these values.


# %% query-gradients
def query_gradients(d_k, n_keys, divisor):
    """Return the length of the gradient of each query."""
    torch.manual_seed(0)
    query = torch.randn(40, 25, d_k, requires_grad=True)
    key, value = torch.randn(40, n_keys, d_k), torch.randn(40, n_keys, 1)
    weights = (query @ key.mT / divisor).softmax(dim=-1)
    return gradient_norms((weights @ value).sum(), query).flatten()  # (1000,)


# %% ask-gradient
predict("02/gradient-of-a-query")

# %% see-gradient
# %%answer 02/gradient-of-a-query
rows, marks = {}, torch.tensor([0.1, 0.5, 0.9])
for d_k, n_keys in [(64, 16), (64, 256), (1024, 16), (1024, 256)]:
    for name, divisor in [("1", 1), ("√d_k", d_k**0.5)]:
        lengths = query_gradients(d_k, n_keys, divisor)
        rows[d_k, n_keys, name] = lengths.quantile(marks).tolist()
table = pd.DataFrame(rows, index=["10% are below", "median", "10% are above"]).T
best = random_raw_scores(64, 256).softmax(dim=-1).amax(dim=-1)
print(f"median weight of the best of 256 keys, not divided: {best.median():.1f}")
table.rename_axis(["d_k", "keys", "divided by"]).round(4)

# %% half-true [markdown]
# ### What the table says
#
# Each row describes the lengths of 1,000 gradients, and "divided by 1" means without the division. The table shows more
# than that:
#
# - **Without the division, the gradients are very uneven.** For 64 features and 16 keys, the number in the last column
#   is about 1,000 times the number in the first.
# - **With many features and few keys, most of the gradients vanish.** For 1,024 features and 16 keys, the median is
#   about a thousandth of what it is with the division. Yet even in this case, the longest tenth of the gradients are
#   far longer than the longest tenth with the division. They belong to queries for which no key has clearly won: their
#   slopes are large, and nothing divides the result by 32.
# - **With the division, the gradients are of similar length.** In all four cases the last column is less than three
#   times the first, and the medians for 64 and for 1,024 features are nearly the same.
#
# So the suspicion, which is about step 1 alone, is only half the truth. Without the division, some queries get almost
# no gradient and others a very large one. In a layer, one set of parameters makes all the queries (lesson 6), and its
# gradient is the sum of what the queries contribute. So a few queries can outweigh all the others. (We measured all of
# this on random queries and keys, and the lengths depend on the loss.)
#
# ## Why not divide by something else?
#
# If dividing by $\sqrt{d_k}$ is good, perhaps dividing by $d_k$ itself, or by $\sqrt{d_{model}}$, is better. Here $d_k$
# is the number of features in *one query*, whereas $d_{model}$ is the number of features of a token in the whole layer.
# In lesson 7, a layer of width 512 will be split into 8 [heads](glossary.ipynb#head). Each head is a small attention
# computation of its own, and its queries have 64 features.
#
# The explorer labels its map with the six words of lesson 0, but all features are random. Its curves are averages over
# many queries with 16 keys, and $d_{model}$ is always 1,024. Try all four divisors with a small and with a large $d_k$,
# and compare the maps. Which divisor keeps the gradient at the same length?

# %% explore-scaling
ScalingExplorer(d_k=256, divisor="d_k", ask=False)

# %% only-the-root [markdown]
# Only $\sqrt{d_k}$ keeps the variance near 1 for every $d_k$. If we divide by $d_k$, the variance drops to $d_k/d_k^2 =
# 1/d_k$. In a large head, all scores of random keys are then nearly equal, and the output is nearly a plain average.
# Even a key that is identical to the query gains little. Their dot product is a sum of $d_k$ squares, each with mean 1,
# so it is about $d_k$. So the score is only about 1, and the weight is about 2.7 times that of another key. Dividing by
# $\sqrt{d_{model}}$ ignores the fact that the sum has only as many terms as the *query* has features. In a layer of
# width 512 with 8 heads, it leaves a variance of $64/512 = 1/8$. And only the root keeps the median length of the
# gradient nearly the same from 4 features to 1,024.
#
# ## Does a trained layer keep to the rule?
#
# So far, all the numbers have been random, but training may move the features anywhere. Let us look at the first
# attention layer of all-MiniLM-L6-v2, a small model that turns English sentences into vectors. It has twelve heads with
# $d_k = 32$, and it reads 35 sentences for us. The model adds a token at each end of a sentence, so eight words become
# ten tokens.

# %% read-sentences
from attnlab.pretrained import load_layer

layer = load_layer()
sentences = pd.read_csv(data_path("bank_sentences.csv")).sentence
readings = [layer.read(sentence) for sentence in sentences]
sentences[0], readings[0].weights.shape  # (H, L, S): H heads

# %% log-of-a-weight [markdown]
# The layer returns weights, not scores. But the logarithm of a weight is its score up to a constant, because $\ln p_j =
# s_j - \ln \sum_i e^{s_i}$, and the sum is the same for the whole row. Adding a constant does not change a variance, so
# the logarithms of the weights in a row have the same variance as its scores. We now take one variance for each row,
# and for random queries and keys it is again 1 on average. For each head, we average it over all rows of all sentences.

# %% ask-trained
predict("02/trained-heads")

# %% see-trained
# %%answer 02/trained-heads
variances = [reading.weights.log().var(dim=-1) for reading in readings]  # (H, L) each
of_heads = torch.cat(variances, dim=-1).mean(dim=-1)  # (H,)
of_heads

# %% trained-maps
# %%answer 02/trained-heads
pair, words = readings[0].weights[[1, 2]], readings[0].tokens
of_pair = [f"head {head}: variance {of_heads[head]:.1f}" for head in (1, 2)]
figure = plot_heads(pair, queries=words, keys=words, titles=of_pair)
figure.set_figheight(3.4)
show_figure(figure, "2.4")

# %% the-answer [markdown]
# ## So why that number?
#
# A raw score is a sum of $d_k$ products. If the features are independent, with mean 0 and variance 1, its typical size
# is $\sqrt{d_k}$. Dividing by this number gives small and large heads nearly the same sharpness at initialisation, that
# is, before any training. Each query then averages over several keys, and most queries get gradients of similar length.
#
# A model can also learn without the division, because training can change the size of the scores by itself. T5, a
# family of language models, starts with smaller queries instead. Under "Further", we train a small model with three
# divisors. It learns with the raw scores too, but more slowly and at fewer learning rates.
#
# And why not divide by $d_k$? Because at initialisation, a larger head would then be closer to a plain average. The
# root gives heads of different sizes the same spread to begin with. It is not the best choice in every setting: in some
# of those runs, dividing by $d_k$ works better, and in others worse.

# %% further [markdown]
# ## Further
#
# The topics of this section are optional. If you are tired, go on to **What to remember**.
#
# ### Trained heads without the division
#
# The heads of all-MiniLM-L6-v2 were trained with the division. What would their weights look like without it? To undo
# it, we multiply the logarithms of the weights by $\sqrt{32}$. (This multiplies the constant of each row too, but it
# remains a constant, and the softmax ignores it.)

# %% without-it
undone = [(reading.weights.log() * 32**0.5).softmax(dim=-1) for reading in readings]
largest = torch.cat([weights.amax(dim=-1) for weights in undone], dim=-1)  # (H, rows)
(largest > 0.99).float().mean(dim=-1)  # the share of rows that choose a single key

# %% training-race [markdown]
# Even with the division, head 2 gives nearly all of its weight to one key. Without the division, the other eleven
# heads would give more than 99% of the weight to a single key in 6% to 56% of their rows. With the division, ten of the
# eleven never do. (A model trained without the division would of course have learned different features.)
#
# ### A training race
#
# One attention layer with $d_k = 256$ sees eight pairs such as (a, 3), and then the question "a". The correct answer is
# 3, one of 16 numbers. We trained the layer with three divisors, five learning rates and four seeds, and stored the
# accuracy on new examples. (The script is `data/make_scaling_race.py`.) We begin with the runs whose queries and keys
# have variance 1 at initialisation.

# %% see-race
race = pd.read_csv(data_path("scaling_race.csv"))
narrow = race[race.weight_scale == 1]  # variance 1 at initialisation

# %% race-figure jupyter={"source_hidden": true}
import matplotlib.pyplot as plt
import seaborn as sns

_, ax = plt.subplots(layout="constrained")
sns.lineplot(
    narrow[narrow.learning_rate == 0.001],
    x="step",
    y="accuracy",
    hue="divisor",
    style="divisor",
    palette={"raw": "#c8500a", "sqrt(d_k)": "#0b61a4", "d_k": "#3d7a35"},
    dashes={"raw": (4, 2), "sqrt(d_k)": "", "d_k": (1, 1)},
    errorbar=("pi", 100),
    ax=ax,
)
ax.set(ylim=(0, 1.02), title="Learning rate 0.001: the root arrives first")
show_figure(ax, "2.5")

# %% five-rates [markdown]
# The models with the other two divisors are slower than the one with the root at this rate, but their accuracy comes
# close to 1 as well. Here is the accuracy after 400 steps for all five rates. In the lower half of the table, the
# parameters that produce the queries and keys are three times as large at initialisation.

# %% race-table
last = race[race.step == 400].groupby(["weight_scale", "divisor", "learning_rate"])
final = last.accuracy.mean().unstack("learning_rate")
final.round(3)

# %% race-reading [markdown]
# In the upper half, the model with raw scores ends above 0.95 at two of the five rates, the model that divides by the
# root at four, and the model that divides by $d_k$ at three. At 0.0003, the model with raw scores and the one that
# divides by $d_k$ are slow, and both are still improving when we stop. At 0.01 the model with raw scores is still far
# from 0.95, and at 0.03 its accuracy of 0.12 is below the 0.18 that naming any of the eight numbers would give.
#
# The root is not the best choice in every setting. In the upper half, the model that divides by $d_k$ is ahead at
# the two highest rates, and in the lower half it is ahead at all five. In the lower half, the model with raw scores does not reach 0.95 at any rate within 400 steps. This is
# a single task at a single size, so it does not prove a general law. Here, the division made learning faster and the
# choice of the learning rate less critical.

# %% assumptions [markdown]
# ### When the assumptions fail
#
# We derived the rule from three assumptions: the features have mean 0, have variance 1, and are independent. Let us
# break them in several ways. In every row of the table, $d_k$ is 100 and the scores are divided by 10.

# %% broken-assumptions
torch.manual_seed(0)
a, b = torch.randn(2, 5000, 100)
shared_a, shared_b = torch.randn(2, 5000, 1)  # the same number for a whole vector
layer_a = torch.nn.Linear(100, 100).requires_grad_(False)
layer_b = torch.nn.Linear(100, 100).requires_grad_(False)
changed = {
    "nothing changed": (a, b),
    "standard deviation 2": (2 * a, 2 * b),
    "standard deviation 0.5": (a / 2, b / 2),
    "a shared part": ((a + shared_a) / 2**0.5, (b + shared_b) / 2**0.5),
    "key = query": (a, a),
    "untrained nn.Linear": (layer_a(a), layer_b(b)),
}
found = {name: (q * k).sum(dim=-1) / 10 for name, (q, k) in changed.items()}
moments = {name: (s.mean().item(), s.var().item()) for name, s in found.items()}
pd.DataFrame(moments, index=["mean", "variance"]).T.round(2)

# %% assumptions-read [markdown]
# If the features have a standard deviation of 2, the variance of the scores is $2^2 \cdot 2^2 = 16$: the root still
# removes the factor $d_k$, but a constant remains. An untrained `nn.Linear` has parameters so small that inputs of
# variance 1 give outputs with a variance of only about 1/3. This makes the constant about one ninth.
#
# In the row "a shared part", all features of a query contain the same random number, and all features of a key contain
# another one. In this case the root does not even remove the factor $d_k$: every product contains the same two shared
# numbers, so this part adds up $d_k$ times instead of averaging out. The table cannot show this, because its $d_k$ is
# always 100, but with more features the variance would be larger still.
#
# With key = query, each term is the square of a normal random number, which has mean 1 and variance 2, so the *mean* of
# the scores is $100/10 = 10$. If the scores of all keys had that mean, it would not matter, since the softmax ignores a
# number that is added to the whole row. But only the score of a token with its own key has this mean.
#
# ### Tokens that are ten times as large
#
# In this demonstration, ten random tokens are multiplied by 10 and sent through three untrained linear layers, which
# make their queries, keys and values with $d_k = 8$. Does dividing by $\sqrt{8}$ keep the scores small?

# %% ten-tokens
torch.manual_seed(42)
w_query, w_key, w_value = (torch.nn.Linear(8, 8) for _ in range(3))
tokens = torch.randn(10, 8) * 10.0
with torch.no_grad():
    q, k, v = w_query(tokens), w_key(tokens), w_value(tokens)
before = q @ k.T  # (L, S) = (10, 10)
large_scores = before / 8**0.5
print(f"variance of q {q.var():.1f}, of k {k.var():.1f}, of q @ k.T {before.var():.1f}")
print(f"variance of the scores {large_scores.var():.1f}")

# %% its-weights
from attnlab.plotting import plot_attention

large_weights = large_scores.softmax(dim=-1)
print((large_weights @ v)[3], v[large_weights[3].argmax()], sep="\n")
ax = plot_attention(large_weights, title="Eight of ten rows choose one key")
show_figure(ax, "2.6")

# %% stays-sharp [markdown]
# The division did what it always does: it divided the variance by 8. It cannot bring the variance to 1 unless the
# variance was 8 before. Eight of the ten rows give more than 99% of their weight to a single key, and the output of
# token 3 is the value of the key that it chose.
#
# ### Is the division needed at all?
#
# A layer can *compute* the same things without the division, because the factor can be absorbed into the parameters
# that make the queries. The scores then stay the same.

# %% moved-factor
torch.manual_seed(0)
x, weight_query, weight_key = torch.randn(9, 64), *torch.randn(2, 64, 256)
with_division = (x @ weight_query) @ (x @ weight_key).T / 256**0.5
factor_moved = (x @ (weight_query / 256**0.5)) @ (x @ weight_key).T
assert torch.allclose(with_division, factor_moved, rtol=1e-4, atol=1e-3)

# %% t5 [markdown]
# The T5 models do this. Their code does not divide. Instead, the parameters that make the queries are initialised with
# smaller values, so the initial scores are as small as they would be with the division.
#
# The training steps differ, however, because the parameters that make the queries are now smaller by a factor of
# $\sqrt{d_k}$. The optimiser Adam takes steps of the same length whether the parameters are small or large, so relative to
# their size it changes the small ones more. With plain gradient descent (SGD), the step is even longer without the
# division than with it: the same scores now come from smaller parameters, so their gradient is larger by a factor of $\sqrt{d_k}$. We tried
# this with $d_k = 64$ and the same learning rate for both versions.
# Without the division, the first step with Adam moved the scores about 5 times as far as it did with the division, and
# the first step with SGD moved them about 30 times as far. With a third optimiser, Adafactor, it makes no difference
# where the factor is, because its steps are proportional to the size of the parameters (unless these are tiny). T5 was
# trained with Adafactor.

# %% remember [markdown]
# ## What to remember
#
# - A raw score is a sum of $d_k$ products. If the features have mean 0 and variance 1 and are independent, its variance
#   is $d_k$ and its standard deviation is $\sqrt{d_k}$.
# - Dividing by $\sqrt{d_k}$ makes the standard deviation of such scores 1, whatever $d_k$ is. Here $d_k$ stands for the
#   number of features in a query of one head, not for the width of the layer.
# - Without the division, a random query with many features and few keys usually puts nearly all of its weight on one
#   key.
# - "The gradients vanish" is only half the truth. Without the division they are very uneven: with 64 features and 256
#   keys most of them are longer, but with 1,024 features and 16 keys most are close to 0.
# - The root makes the spread of the scores at initialisation independent of $d_k$. Training may change the spread of
#   the scores, and a model can learn without the root.

# %% exercises [markdown]
# ## Exercises
#
# Write your answer in the cell below the task and run that cell. Then run the check in the next cell.

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


# %% tags=["solution"] jupyter={"source_hidden": true}
def always_true_solution():
    return "B"  # it holds for any numbers; A only if the variance was d_k before


check_always_true(always_true_solution)

# %% exercise-2 [markdown]
# ### 2 · Compute ★ (6 minutes): a hundred dice
#
# Each term of a dot product is like a die: it adds its own randomness to the sum. A single die has mean 3.5 and
# variance 2.917. Add up 100 dice, and divide the sum by 1, by 10 (the root of 100), or by 100 (which gives the
# average). In which of the three cases do you get the variance of a single die, and what is the mean then? Write the
# mean and the variance in terms of the divisor. The check throws the dice.
#
# <details><summary>Hint</summary>
#
# Means add up, and so do the variances of independent terms. Dividing by $c$ divides a mean by $c$ and a variance by
# $c^2$.
# </details>


# %% hundred-dice tags=["exercise"]
def hundred_dice(divisor):
    """Return mean and variance of (sum of 100 dice) / divisor, as two numbers."""


# %%
check_hundred_dice(hundred_dice)


# %% dice-solution tags=["solution"] jupyter={"source_hidden": true}
def hundred_dice_solution(divisor):
    die = torch.arange(1.0, 7.0)  # six faces, all equally likely
    mean, variance = die.mean().item(), die.var(correction=0).item()
    return 100 * mean / divisor, 100 * variance / divisor**2


check_hundred_dice(hundred_dice_solution).ok

# %% dice-reading [markdown] tags=["solution"]
# <details><summary>What the numbers mean</summary>
#
# The root keeps the variance of a single die, 2.917. The average has a variance of only 0.029: averages of a hundred
# dice are all nearly the same number, as the scores are after dividing by $d_k$. But dividing by the root does nothing
# about a *mean* that is not 0: the mean, 3.5 for a single die, has become 35.
# </details>

# %% exercise-3 [markdown]
# ### 3 · Modify ★★ (6 minutes)
#
# A demonstration with $d_k = 8$ multiplies ten random tokens by 10. Untrained linear layers make queries and keys from
# them, and after the division the scores have variance 436. By what factor should the tokens be multiplied instead, so
# that the variance ends up between 0.8 and 1.25?
#
# <details><summary>Hint</summary>
#
# A score is a product of a query and a key. If the factor doubles, what happens to a score, and what happens to its
# variance? (You can ignore the bias of the layers.)
# </details>


# %% tags=["exercise"]
def good_factor():
    """Return a number."""


# %%
check_good_factor(good_factor)


# %% tags=["solution"] jupyter={"source_hidden": true}
def good_factor_solution():
    return 10 / 436.5**0.25  # the variance grows with the fourth power of the factor


check_good_factor(good_factor_solution)

# %% exercise-4 [markdown]
# ### 4 · Implement ★★★ (10 minutes)
#
# Some models first rescale each query and each key so that its **root mean square** is 1. (This is the square root of
# the mean of its squared features. We leave out the learned factors that such models multiply by afterwards.) Then they
# divide the dot products by $\sqrt{d_k}$. Write a function that does both. Making queries and keys ten times as large
# must not change the scores.
#
# <details><summary>Hint</summary>
#
# Which axis holds the features of one query? You need one number per row, and `keepdim=True` keeps the shape. Do not
# set the *length* of the query to 1: its length is the root of the *sum* of its squared features, and you need the root
# of their mean.
# </details>


# %% tags=["exercise"]
def normed_scores(query, key):
    """Scores that ignore lengths. query (..., L, E), key (..., S, E) -> (..., L, S)."""


# %%
check_normed_scores(normed_scores)


# %% tags=["solution"] jupyter={"source_hidden": true}
def normed_scores_solution(query, key):
    def rescaled(x):
        return x / x.pow(2).mean(dim=-1, keepdim=True).sqrt()

    return rescaled(query) @ rescaled(key).transpose(-2, -1) / query.shape[-1] ** 0.5


check_normed_scores(normed_scores_solution)

# %% in-torch [markdown]
# ## In torch
#
# `F.scaled_dot_product_attention` multiplies the dot products by `scale`. Its default is $1/\sqrt{E}$, where $E$ is the
# size of the last dimension of the query. Note that `scale` is a *factor*: to divide by a number $c$, pass `scale=1 /
# c`. Torch's layer with several heads, `nn.MultiheadAttention`, divides by the root of the number of features of one
# head, not by the root of the width of the whole layer.

# %% torch-scale
import torch.nn.functional as F

torch.manual_seed(0)
x = torch.randn(1, 6, 64)  # (N, L, E), as query, key and value
default = F.scaled_dot_product_attention(x, x, x)
assert torch.allclose(default, F.scaled_dot_product_attention(x, x, x, scale=1 / 8))

# %% sources [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.1 and footnote 4.
#   The footnote states the variance, and the suspicion is voiced in the sentence that begins "We suspect".
# - The trained layer is the first attention layer of
#   [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2) (Apache-2.0).
# - Henry et al., [Query-Key Normalization for Transformers](https://arxiv.org/abs/2010.04245), 2020. Its method
#   resembles that of exercise 4, but it rescales each vector to length 1 and multiplies the scores by a learned factor.
# - T5 without the division: `_init_weights` in
#   [modeling_t5.py](https://github.com/huggingface/transformers/blob/main/src/transformers/models/t5/modeling_t5.py).
#   Its training with Adafactor: Raffel et al., [Exploring the Limits of Transfer Learning with a Unified Text-to-Text
#   Transformer](https://arxiv.org/abs/1910.10683), 2020, section 3.1.2.
# - Yang et al., [Tensor Programs V](https://arxiv.org/abs/2203.03466), 2022. In this paper the dot products are divided
#   by $d_k$, because queries and keys align during training.

# %% next [markdown]
# ## Next
#
# Lesson 3, [Masks: who may look at whom](03_masks_who_may_look_at_whom.ipynb).

# %% teacher-plan [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 45 minutes, and where a class stalls</summary>
#
# **45 minutes.** Ten queries and the sum: 13. The weights: 7. Learning: 11. The divisor, with the explorer: 6. The
# trained layer and the answer: 8.
#
# **Where a class stalls.** *Root or no root?* Have them divide a list of numbers by 8 and compute the variance again.
# *The nine slopes:* fill in one row together on the board. *The three steps back to the query:* follow the example with
# numbers first, and write the formula last. *"The gradients vanish":* ask them to name a model that they know, and to
# find its row in the table.
# </details>

# %% teacher-questions [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why the other answers are wrong</summary>
#
# **1.** $d_k = 64$, and the features have mean 0 and variance 1 and are independent. What is the standard deviation of
# a raw score? **8.** *64* is the variance. *1* is what we get after the division.
#
# **2.** The features of queries and keys have variance 4 instead of 1. What is the variance of the scores after
# dividing by the root? **16.** *1* forgets the assumption. *4* counts only one of the two variances.
#
# **3.** A layer has width 512 and 8 heads. What goes under the root? **64.** *512* is the width of the layer. *8* is
# the number of heads.
#
# **4.** The scores of a row are not all equal, and each is divided by 2. What happens to the key with the largest
# weight? **It stays the same key and gets less weight.** *Another key wins:* dividing keeps the order. *Its weight
# comes closer to 1:* that happens when the scores are multiplied.
#
# **5.** The scores are not divided, $d_k$ is 64, and there are 256 keys. What happens to the gradients of the queries? **They become uneven, and most
# become longer.** *All vanish:* this answer considers only the slopes, and only those of keys that have won. *All
# become longer by a factor of 8:* this answer considers only the missing factor $1/c$, not the slopes.
# </details>
