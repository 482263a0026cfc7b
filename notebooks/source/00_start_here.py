# %% 0-start-here-attention-in-five-minutes [markdown]
# # 0 · Start here: attention in five minutes
#
# Attention gives every word a new vector: a weighted average of vectors of the sentence.
# The weights come from comparing words, and this page shows all of it once, before the lessons take it apart.
#
# **You need:** Python, matrix products, a little PyTorch.
#
# **You will be able to:** read a heatmap of attention weights, move a slider, and find the lesson you want.
#
# **A word you do not know?** [Words and letters](#Words-and-letters), further down.
#
# **Time:** five minutes for attention itself; 15 in class or 20 alone with the tour of the series.

# %% [markdown]
# ## Is everything there?
#
# If the next cell names something, close JupyterLab and start it again with `make lab`.

# %%
from importlib.util import find_spec

needed = ["torch", "matplotlib", "seaborn", "ipywidgets", "jupyterlab", "attnlab"]
missing = [name for name in needed if find_spec(name) is None]
print("missing:", ", ".join(missing) or "nothing")

# %%
import torch
import torch.nn.functional as F

from attnlab import attention_scores, attention_weights, causal_mask, effective_keys
from attnlab import load_table, scaled_dot_product_attention
from attnlab.diagrams import draw_attention_steps, draw_transformer_block
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import check_is_distribution, predict
from attnlab.explorers import SoftLookupExplorer
from attnlab.live import live
from attnlab.plotting import plot_attention

lesson_setup()

# %% [markdown]
# ## Six words, five numbers each
#
# A [**token**](#Words-and-letters) is a word or a piece of one. Each token is a vector of [**features**](#Words-and-letters).
# We typed these features in by hand; a trained model learns its own, and they have no names.

# %%
tokens, features, x = load_table("the_cat_sat_on_the_mat.csv")
print(" " * 4, *(f"{name:>8}" for name in features))
for token, row in zip(tokens, x, strict=True):
    print(f"{token:>4}", *(f"{value:8.1f}" for value in row))

# %%
L, E = x.shape  # L tokens, E features
L, E

# %% [markdown]
# ## Attention in three lines
#
# Every token asks every token one question: how well do our vectors match? The [**score**](#Words-and-letters) of a pair is their dot product,
# divided by $\sqrt{E}$ (lesson 2 says why).
#
# [**Softmax**](#Words-and-letters) turns a row of scores into positive [**weights**](#Words-and-letters) that sum to 1: raise $e$ to each score, divide by the row's sum.
# The [**output**](#Words-and-letters) of a token is the average of all vectors with these weights.

# %%
scores = x @ x.T / E**0.5  # (L, L)
weights = torch.softmax(scores, dim=-1)  # (L, L)
output = weights @ x  # (L, E)
output.shape

# %% [markdown]
# `attnlab`, the package of this series, and torch compute the same. Both take three arguments: who asks (the [**query**](#Words-and-letters)), what
# is compared with it (the [**key**](#Words-and-letters)), what is averaged (the [**value**](#Words-and-letters)). Here all three are `x`.

# %%
torch.testing.assert_close(output, scaled_dot_product_attention(x, x, x))
torch.testing.assert_close(output, F.scaled_dot_product_attention(x, x, x))

# %% much-attention-cat-give
predict("00/much-attention-cat-give")

# %%
# %%answer 00/much-attention-cat-give
cat, the, sat = tokens.index("cat"), tokens.index("The"), tokens.index("sat")
print(f"score {scores[cat, the]:.3f}   weight {weights[cat, the]:.3f}")

# %% [markdown]
# Lesson 1 says what a score of 0 means; lesson 3 shows how a [**mask**](#Words-and-letters) forbids a look.

# %%
assert scores[cat, the] == 0 and abs(weights[cat, the] - 1 / 10) < 0.02

# %% [markdown]
# ## Reading a heatmap
#
# A row is the token that asks, a column the token that is looked at. Read along a row.

# %%
ax = plot_attention(
    weights,
    queries=tokens,
    keys=tokens,
    title='Beside itself, "cat" looks most at "sat"',
)
show_figure(ax, "0.1")

# %%
torch.testing.assert_close(weights.sum(dim=-1), torch.ones(L))
assert weights[cat].argsort(descending=True)[:2].tolist() == [cat, sat]

# %% [markdown]
# ## Move something
#
# `scale` takes the place of $1/\sqrt{E}$, here 0.4472, as the factor on the dot products: 0 wipes out all differences, a large one
# sharpens them. `causal` forbids looking at later words.

# %%
factor = round(E**-0.5, 4)
assert factor == 0.4472

# %%
predict("00/can-put-weight-first-row")


# %%
def draw(fig, scale, causal):
    mask = causal_mask(L) if causal else torch.ones(L, L, dtype=torch.bool)
    weights = attention_weights(attention_scores(x, x, scale=scale), attn_mask=mask)
    ax = fig.subplots()
    plot_attention(weights, ax=ax, attn_mask=mask, queries=tokens, keys=tokens)
    used = effective_keys(weights)[tokens.index("sat")]
    return f'"sat" spreads its attention over about <b>{used:.1f}</b> words.'


live(
    draw,
    scale=[0, factor, 1, 2, 4, 8],
    causal=False,
    start={"scale": factor},
    figsize=(5.2, 3.7),
    alt="Heatmap of the weights of the six words.",
)

# %% [markdown]
# The number of words in the sentence below the picture is measured by `effective_keys`, the exponential of the entropy: 6 when
# all weights are equal, 1 when one word takes all.

# %%
sharp, even = attention_scores(x, x, scale=8), attention_scores(x, x, scale=0)
row = attention_weights(sharp)[the]
assert row[0] == row[4] and abs(row[0] - 0.45) < 0.01
assert attention_weights(sharp, attn_mask=causal_mask(L))[the, the] == 1
uniform = attention_weights(even)
torch.testing.assert_close(effective_keys(uniform), torch.full((L,), 6.0))
torch.testing.assert_close(effective_keys(torch.eye(L)), torch.ones(L))

# %% [markdown]
# ## Drag a question
#
# So far query, key and value were the same vectors. Here they differ: a blue arrow is the key of an animal, its number of legs
# the value, and the orange arrow asks. `temperature` divides the scores, as $\sqrt{E}$ did.
#
# Answer first, then drag the query there. Drag it on, and change the temperature: when is the output nearly one animal's value, when nearly
# the average of all three?

# %%
SoftLookupExplorer()

# %% [markdown]
# At a small temperature, and with a query that is not too short, it is nearly the value of the key at the smallest angle (a tie is shared). At a
# large one, or with the query at zero, it is nearly the plain average, 2 legs. It never leaves the range from 0 to 4.

# %%
asked = SoftLookupExplorer(query=[-0.7071, 0.7071]).result  # between bird and snake
assert asked.weights[1].isclose(asked.weights[2]) and asked.output > 1  # cat pulls
for query, temperature, legs in [
    ([0.9, 0.5], 0.05, 4),  # a small temperature: cat is the closest
    ([-0.9, 0.5], 0.05, 0),  # snake is
    ([0, 0], 0.05, 2),
    ([0.9, 0.5], 5, 2),  # a large temperature
]:
    found = SoftLookupExplorer(query=query, temperature=temperature).result
    assert abs(found.output - legs) < 0.3 and 0 < found.output < 4

# %% [markdown]
# ## The same in one drawing
#
# In brackets: shapes. Here query, key and value are the same six vectors, so L and S are both 6. They differ when one
# text asks another, as in translation: L queries from the one, S keys and values from the other. Ev is the width of a value.

# %% the-same-in-one-drawing
show_figure(draw_attention_steps(), "0.2")

# %% [markdown]
# In the block below, attention is the only step in which tokens see each other; every other step treats each token alone.
# Attention itself does not know the order of the words: rows `The` and `the` above are equal. Hence "+ position".

# %% the-same-in-one-drawing-2
show_figure(draw_transformer_block(), "0.3")

# %%
moved = x.clone()
moved[5] += 1  # another last token
assert (scaled_dot_product_attention(moved, moved, moved)[0] != output[0]).any()
assert torch.equal(F.layer_norm(moved, (E,))[0], F.layer_norm(x, (E,))[0])
assert torch.equal(output[0], output[4])  # "The" and "the"

# %% the-lessons [markdown]
# ## The lessons
#
# Minutes: in class / alone.
#
# | | lesson | claim | minutes |
# |---|---|---|---|
# | 0 | Start here | you are here | 15 / 20 |
# | 1 | [Attention is a soft look-up](01_attention_is_a_soft_look_up.ipynb) | a dict that answers with a weighted average | 45 / 75 |
# | 2 | [Why divide by the square root of d_k](02_why_divide_by_the_square_root_of_d_k.ipynb) | it keeps the scores' variance, and the gradients of most rows | 50 / 80 |
# | 3 | [Masks](03_masks_who_may_look_at_whom.ipynb) | who may look at whom, and what goes wrong silently | 45 / 90 |
# | 4 | [Reading heatmaps](04_reading_heatmaps_honestly.ipynb) | bright does not mean important | 45 / 80 |
# | 5 | [What does “bank” mean here?](05_what_does_bank_mean_here.ipynb) | mixing is not selecting | 45 / 80 |
# | 6 | [Projections](06_where_q_k_and_v_come_from.ipynb) | where Q, K and V come from | 45 / 75 |
# | 7 | [Multi-head attention](07_multi_head_reshaping_without_scrambling.ipynb) | reshaping without scrambling | 45 / 90 |
# | 8 | [What attention costs](08_what_attention_costs_and_how_to_pay_less.ipynb) | exact attention without the big table; the work stays | 45 / 90 |
# | 9 | [The attention clinic](09_clinic.ipynb) | the right shape proves nothing: name the bug | 60 / 100 |
# | 10 | [One real attention layer](10_one_real_attention_layer.ipynb) | a map of weights is not an explanation | 50 / 90 |

# %% [markdown]
# ## How a lesson works
#
# - **Answer first.** A box headed *Predict* asks; it shows the answer once you have given yours. The folded output
#   below it computes that answer. Run cell by cell: running all opens every fold.
# - **Check.** Every number in the text is computed or asserted by a cell nearby. An `assert` that holds prints nothing.
# - **Wrong on purpose.** The usual mistake comes first, then the repair.
# - **Exercises:** an empty function, a check that names mistakes, a folded solution.

# %% try-an-exercise-2-minutes [markdown]
# ### Try an exercise ★ (2 minutes)
#
# Write `is_distribution(row)`: True if all entries are at least 0 and they sum to 1. Edit the cell, run it, run the check.


# %% tags=["exercise"]
def is_distribution(row):
    """Return whether a 1-D tensor holds weights. row: (S,) -> bool."""


# %%
check_is_distribution(is_distribution)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Two conditions, joined by `and`. Does `weights[0].sum() == 1` hold? Print more digits.
# </details>


# %% tags=["solution"] jupyter={"source_hidden": true}
def is_distribution_solution(row):
    return bool((row >= 0).all() and abs(row.sum() - 1) < 1e-5)


check_is_distribution(is_distribution_solution)

# %% three-ways-to-use-the-series [markdown]
# ## Three ways to use the series
#
# - **In class:** project a lesson, stop at each prediction, let hands go up (`ask=False` shows the answer). Figures lie in `figures/`. `make student` writes copies without solutions and teacher notes into `student/`.
# - **Alone:** one lesson in an evening. You work on a copy in `my_notebooks/`; `make fresh NB=01` gives a new copy and keeps the old.
# - **Sliders only:** run all cells, then go from slider to slider. One sentence says what is to be seen.

# %% words-and-letters [markdown]
# ## Words and letters
#
# In alphabetical order. A word is linked once, where its lesson explains it. From another lesson the link leads to this table
# if lesson 0 is open in a tab, else to the top of this page.
#
# | word | what it is | shape | lesson |
# |---|---|---|---|
# | ablate | compute again without one part, and compare |  | [10](10_one_real_attention_layer.ipynb) |
# | bias | one trainable number per output feature, added to it | (d_out,) | [6](06_where_q_k_and_v_come_from.ipynb) |
# | cache | keys and values of earlier words, kept | (S, E), (S, Ev) | [3](03_masks_who_may_look_at_whom.ipynb) |
# | causal mask | each token may look at itself and at earlier ones | (L, S) | [3](03_masks_who_may_look_at_whom.ipynb) |
# | contiguous | reading the axes in order walks memory step by step |  | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | control | the same experiment without the thing that shall make the effect |  | [5](05_what_does_bank_mean_here.ipynb) |
# | cross-attention | queries from one text, keys and values from another | (L, S) | [4](04_reading_heatmaps_honestly.ipynb) |
# | dropout | strikes out numbers at random in training and enlarges the rest |  | [4](04_reading_heatmaps_honestly.ipynb) |
# | effective keys | how many keys share the weight: exponential of the row's entropy | (L,) | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | feature | one of the numbers of a token's vector | E of them | [0](#Six-words,-five-numbers-each) |
# | finding | a bug that `diagnose` names, with evidence and repair |  | [9](09_clinic.ipynb) |
# | FLOPs | additions and multiplications of a computation, counted |  | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | grouped heads | several heads of queries share one head of keys and values |  | [8](08_what_attention_costs_and_how_to_pay_less.ipynb) |
# | hard look-up | the value of the key with the largest score, no other | (Ev,) | [1](01_attention_is_a_soft_look_up.ipynb) |
# | head | one attention among several side by side | H of them | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | head_dim | features of one head; by convention d_model / H |  | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | independent | knowing one number says nothing about the other |  | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | influence map | how much output i moves with input j | (L, L) | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | Jacobian | slopes of the softmax: how weight $i$ moves with score $j$ | (S, S) | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | kernel | a compiled routine that computes one operation |  | [4](04_reading_heatmaps_honestly.ipynb) |
# | key | what a position is found by | (S, E) | [0](#Attention-in-three-lines) |
# | lead | how far the best score is ahead of the second best | (L,) | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | leak test | change a token; forbidden outputs must stay, permitted ones must move |  | [3](03_masks_who_may_look_at_whom.ipynb) |
# | mask | who may look at whom; here True = may attend | (L, S) | [0](#Attention-in-three-lines) |
# | merge | join the heads of each token again | (N, L, d_model) | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | norm | root of the sum of squares; in figure 0.3 a layer |  | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | online softmax | a row's softmax piece by piece; older sums shrink when the top rises | (L, S) | [8](08_what_attention_costs_and_how_to_pay_less.ipynb) |
# | orthogonal | a square R with $R R^T = I$: turns or mirrors all rows alike | (d_k, d_k) | [6](06_where_q_k_and_v_come_from.ipynb) |
# | output | average of the values: weights @ value | (L, Ev) | [0](#Attention-in-three-lines) |
# | padding | filler tokens that make sentences equally long |  | [3](03_masks_who_may_look_at_whom.ipynb) |
# | parameter | a tensor that training may change |  | [6](06_where_q_k_and_v_come_from.ipynb) |
# | permutation equivariance | shuffle the inputs, and each output moves along with its token |  | [4](04_reading_heatmaps_honestly.ipynb) |
# | position | a vector for each place, added to the token's vector or built into attention | (L, d_model) | [4](04_reading_heatmaps_honestly.ipynb) |
# | probe | a test of one property that attention must have |  | [9](09_clinic.ipynb) |
# | projection | what a matrix makes of a token for one role: x @ W | (L, d_out) | [6](06_where_q_k_and_v_come_from.ipynb) |
# | query | what a position asks for | (L, E) | [0](#Attention-in-three-lines) |
# | raw score | dot product of a query and a key, not divided | (L, S) | [1](01_attention_is_a_soft_look_up.ipynb) |
# | residual connection | adds the input of a layer to its output | (L, d_model) | [10](10_one_real_attention_layer.ipynb) |
# | score | raw score divided by $\sqrt{E}$; elsewhere also the raw score, or even the weight | (L, S) | [0](#Attention-in-three-lines) |
# | self-attention | queries, keys and values come from one text |  | [1](01_attention_is_a_soft_look_up.ipynb) |
# | sink | a token that gets much weight and hands over little; elsewhere: much weight alone |  | [10](10_one_real_attention_layer.ipynb) |
# | sliding window | a mask that keeps only keys near the query | (L, S) | [3](03_masks_who_may_look_at_whom.ipynb) |
# | soft look-up | a share of every value, added up | (Ev,) | [1](01_attention_is_a_soft_look_up.ipynb) |
# | softmax | $e$ to each score, divided by the sum of its row | (L, S) | [0](#Attention-in-three-lines) |
# | split | cut the features into heads, heads in front | (N, H, L, head_dim) | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | standard deviation | root of the variance: a typical distance from the mean |  | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | stride | steps in memory to the next entry of an axis |  | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | temperature | the number that divides all scores before the softmax |  | [1](01_attention_is_a_soft_look_up.ipynb) |
# | tile | a block of the table of scores: some queries, some keys |  | [8](08_what_attention_costs_and_how_to_pay_less.ipynb) |
# | token | a word or a piece of one, as a vector | (d_model,) | [0](#Six-words,-five-numbers-each) |
# | uniform share | one over the number of allowed keys: no preference |  | [4](04_reading_heatmaps_honestly.ipynb) |
# | value | what a position hands over | (S, Ev) | [0](#Attention-in-three-lines) |
# | variance | mean squared distance from the mean |  | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | weight | a key's share of the attention; a row sums to 1 | (L, S) | [0](#Attention-in-three-lines) |
# | word piece | a token that may be a part of a word |  | [10](10_one_real_attention_layer.ipynb) |

# %% words-and-letters-2 [markdown]
# | letter | what it counts or holds |
# |---|---|
# | N | sequences in a batch |
# | H | heads, counted from 0 |
# | L, S | queries, keys |
# | E, Ev | features of query and key, of value; before heads are split, E is the model's width |
# | Q, K, V | the queries, keys and values, one in each row |
# | d_k | the paper's name for E of one head |
# | d_model | the paper's name for the width of the model: `embed_dim` in torch |
# | d_out | output features of a projection |

# %%
shown = dict(query=x, key=x, value=x, scores=scores, weights=weights, output=output)
{name: tuple(tensor.shape) for name, tensor in shown.items()}

# %% [markdown]
# ## In torch
#
# This page in one line: `F.scaled_dot_product_attention(x, x, x)`. It returns the output, not the weights. One word differs: in the
# mask of this function and of this series True means *may attend*; in `nn.MultiheadAttention` it means *blocked* (lesson 3).

# %%
sees = causal_mask(L)  # True = may attend
fused = F.scaled_dot_product_attention(x, x, x, attn_mask=sees)
torch.testing.assert_close(fused, scaled_dot_product_attention(x, x, x, attn_mask=sees))
_, weights = torch.nn.MultiheadAttention(E, 1)(x, x, x, attn_mask=~sees)
assert torch.equal(weights > 0, sees)

# %% [markdown]
# ## Next
#
# [1 · Attention is a soft look-up](01_attention_is_a_soft_look_up.ipynb) takes the three lines apart with numbers that fit on paper.

# %% next [markdown] tags=["teacher"]
# <details><summary>For teachers: a plan for 15 minutes, and where a class stalls</summary>
#
# **15 minutes.** Table and three lines: 5. Heatmap: 3. The slider and its prediction: 4. The map of lessons: 3. The rest is for reading.
#
# **Stalls.** "A score of 0 is no attention" (write $e^0 = 1$ on the board). Rows against columns: say "`cat` looks at `sat`" with a finger
# on the cell. "What do the features mean?" They were typed in; nothing here was learned.
#
#
# </details>

# %% next-2 [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, and why a wrong choice tempts</summary>
#
# **1.** A row of six equal scores gives? **Six times a sixth.** *Zeros*: takes scores for weights. *One 1*: takes softmax for a maximum.
#
# **2.** With a causal mask, whom does the first word see? **Itself.** *All later words*: reads the mask the wrong way round. *Nobody*: forgets "itself".
#
# **3.** `scale` is 0, `causal` off. Then? **All weights are equal.** *All are 0*: forgets $e^0 = 1$. *An error*: it is a factor, not a divisor.
#
# **4.** Does attention by itself know the order of the words? **No.** *Yes, by the rows*: shuffle them, and each output moves along.
# *Yes, by the columns*: the same.
#
# **5.** A token's output is? **An average of values.** *The best value*: that is a hard look-up. *Its own value, sharpened*: the others count too.
#
#
# </details>

# %% next-3 [markdown] tags=["teacher"]
# <details><summary>For teachers: which lesson meets which misconception?</summary>
#
# | learners think | | lesson |
# |---|---|---|
# | True means the same in every mask | M1 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | a row where everything is masked is harmless | M2 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | `view` does what `transpose` does when splitting heads | M3 | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | divide by the square root of the model width | M4 | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | any divisor that grows with d_k will do | M5 | [2](02_why_divide_by_the_square_root_of_d_k.ipynb) |
# | any axis will do for the softmax | M6 | [1](01_attention_is_a_soft_look_up.ipynb) |
# | -1e9 always works as a mask | M7 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | padding must mask the rows of the padding | M8 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | padding with zeros needs no mask | M9 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | a mask of any shape that does not crash is right | M10 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | `is_causal` also works with a cache | M11 | [3](03_masks_who_may_look_at_whom.ipynb) |
# | batch first is a matter of taste | M12 | [4](04_reading_heatmaps_honestly.ipynb) |
# | rows still sum to 1 after dropout | M13 | [4](04_reading_heatmaps_honestly.ipynb) |
# | a head sees a slice of the input | M14 | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
# | contiguity errors are noise | M15 | [7](07_multi_head_reshaping_without_scrambling.ipynb) |
#
#
# </details>
