# %% opening [markdown]
# # Glossary
#
# The words and letters of this series, in alphabetical order. Each entry ends with the lesson that explains the word. Links in
# the lessons lead to the entry itself; to get back to where you were, use the tab of your lesson.

# %% letters [markdown]
# ## Letters
#
# | letter | what it counts or holds |
# |---|---|
# | N | sequences in a [batch](#batch) |
# | H | [heads](#head), counted from zero |
# | L | [queries](#query) |
# | S | [keys](#key), and as many [values](#value) |
# | E | [features](#feature) of a query and of a key; before the heads are split, the width of the model |
# | Ev | features of a value |
# | Q, K, V | the queries, keys and values, one in each row |
# | d_k | the original paper's name for E of one head |
# | d_model | the original paper's name for the width of the model, `embed_dim` in PyTorch |
# | d_out | output features of a projection |

# %% words [markdown]
# ## Words
#
# ### ablation
#
# Removing or replacing one part of a model and computing again, to see how much the result depended on that part. [Lesson
# 10](10_one_real_attention_layer.ipynb)
#
# ### attention
#
# A step that gives every token a new vector: a weighted average of the [values](#value) of the tokens that it may look at. The
# [weights](#weight) come from comparing its [query](#query) with their [keys](#key). [Lesson 0](00_start_here.ipynb)
#
# ### attention sink
#
# A token that receives much [weight](#weight) while its [value](#value) adds little to the output. Some authors call any token
# with much weight a sink. [Lesson 10](10_one_real_attention_layer.ipynb)

# %% [markdown]
# ### batch
#
# Several sentences that are computed at once, stacked in a dimension in front of all others. N is their number. [Lesson
# 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### bias
#
# One trainable number for each output [feature](#feature) of a [projection](#projection), which is added to it. Shape (d_out,).
# [Lesson 6](06_where_q_k_and_v_come_from.ipynb)

# %% [markdown]
# ### cache
#
# The [keys](#key) and [values](#value) of earlier tokens, kept so that they need not be computed again when the next token is
# written. Also called KV cache. [Lesson 3](03_masks_who_may_look_at_whom.ipynb)
#
# ### causal mask
#
# The [mask](#mask) of models that write text: each token may look at itself and at the tokens before it. Shape (L, S). [Lesson
# 3](03_masks_who_may_look_at_whom.ipynb)
#
# ### contiguous
#
# A tensor is contiguous if reading its entries in order means walking through memory step by step. After a transpose it is not.
# [Lesson 7](07_multi_head_reshaping_without_scrambling.ipynb)
#
# ### control
#
# The same experiment without the one ingredient that is thought to cause the effect. If the effect is still there, the ingredient
# was not the cause. [Lesson 5](05_what_does_bank_mean_here.ipynb)
#
# ### cross-attention
#
# [Attention](#attention) in which the [queries](#query) come from one text and the [keys](#key) and [values](#value) from
# another, as in translation. The table of weights need not be square. [Lesson 4](04_reading_heatmaps_honestly.ipynb)

# %% [markdown]
# ### dot product
#
# The sum of the products of two vectors, entry by entry. It equals the cosine of the angle between them times both lengths.
# [Lesson 0](00_start_here.ipynb)
#
# ### dropout
#
# Setting entries to zero at random during training, and dividing the others by the share that was kept, so that their expected
# sum stays the same. [Lesson 4](04_reading_heatmaps_honestly.ipynb)

# %% [markdown]
# ### effective keys
#
# How many keys share the [weight](#weight) of a query: the exponential of the [entropy](#entropy) of its row. It is one if a
# single key has all the weight and S if all keys have the same. [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
#
# ### entropy
#
# How spread out a row of [weights](#weight) is: minus the sum of each weight times its logarithm. It is zero if one key has all
# the weight and log S if all have the same. [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)

# %% [markdown]
# ### feature
#
# One of the numbers of a token's vector. In our small tables the features have names; those of a trained model have none. [Lesson
# 0](00_start_here.ipynb)
#
# ### finding
#
# What `attnlab.clinic.diagnose` returns for a bug: its name, a sentence, the evidence, and how to repair it. [Lesson
# 9](09_clinic.ipynb)
#
# ### FLOPs
#
# The number of additions and multiplications that a computation takes. [Lesson
# 7](07_multi_head_reshaping_without_scrambling.ipynb)
#
# ### fused kernel
#
# A single [kernel](#kernel) that does several steps, such as scores, softmax and average, without writing the results in between
# to memory. [Lesson 8](08_what_attention_costs_and_how_to_pay_less.ipynb)

# %% [markdown]
# ### gradient
#
# The slopes of a number, usually the loss, with respect to each entry of a tensor. Training changes [parameters](#parameter)
# along it. [Lesson 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### grouped heads
#
# Several [heads](#head) of queries that share one head of keys and values, which makes the [cache](#cache) smaller. [Lesson
# 8](08_what_attention_costs_and_how_to_pay_less.ipynb)

# %% [markdown]
# ### hard look-up
#
# A look-up that returns the value of the key with the largest score and ignores all others. [Lesson
# 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### head
#
# One of several attentions that run side by side in a layer, each on its own [projections](#projection). H is their number, and
# heads are counted from zero. [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
#
# ### head_dim
#
# The number of [features](#feature) of one [head](#head), usually d_model divided by H. [Lesson
# 7](07_multi_head_reshaping_without_scrambling.ipynb)

# %% [markdown]
# ### independent
#
# Two random numbers are independent if knowing one of them tells you nothing about the other. [Lesson
# 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
#
# ### influence map
#
# A table that says how much each output moves when each input is changed. Shape (L, L). [Lesson
# 7](07_multi_head_reshaping_without_scrambling.ipynb)

# %% [markdown]
# ### Jacobian
#
# All slopes of a function with several inputs and outputs, as a matrix. For the [softmax](#softmax) of a row it says how weight
# $i$ moves with score $j$. Shape (S, S). [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)

# %% [markdown]
# ### kernel
#
# A compiled routine that runs on the processor or the GPU. One kernel may compute one operation or several: see [fused
# kernel](#fused-kernel). [Lesson 4](04_reading_heatmaps_honestly.ipynb)
#
# ### key
#
# The vector by which a token is found: the [query](#query) is compared with it. One row of K, shape (S, E). [Lesson
# 0](00_start_here.ipynb)

# %% [markdown]
# ### lead
#
# By how much the best [score](#score) of a row exceeds the second best. [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
#
# ### leak test
#
# A test of a [mask](#mask): change one token, and see whether outputs that must not look at it move, and whether those that may
# look at it do. [Lesson 3](03_masks_who_may_look_at_whom.ipynb)

# %% [markdown]
# ### mask
#
# A table that says which token may look at which. In this series True means *may look*; some libraries mean the opposite. Shape
# (L, S). [Lesson 0](00_start_here.ipynb)
#
# ### merge
#
# Joining the outputs of all [heads](#head) of a token into one vector again, the reverse of the [split](#split). Result (N, L,
# d_model). [Lesson 7](07_multi_head_reshaping_without_scrambling.ipynb)

# %% [markdown]
# ### norm
#
# The length of a vector: the square root of the sum of the squares of its entries. In a drawing of a Transformer it is a layer
# that brings every vector to a standard size. [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)

# %% [markdown]
# ### online softmax
#
# The softmax of a row computed piece by piece. Whenever a larger score appears, the sums so far are scaled down. [Lesson
# 8](08_what_attention_costs_and_how_to_pay_less.ipynb)
#
# ### orthogonal
#
# A square matrix R is orthogonal if $R R^T = I$. It rotates or reflects all rows in the same way, so all dot products stay.
# [Lesson 6](06_where_q_k_and_v_come_from.ipynb)
#
# ### output
#
# What attention returns for a query: the average of the [values](#value) with its [weights](#weight), `weights @ value`. Shape
# (L, Ev). Also called context vector. [Lesson 0](00_start_here.ipynb)
#
# ### overflow
#
# What happens to a number that is too large for its type: it becomes infinite. [Lesson 3](03_masks_who_may_look_at_whom.ipynb)

# %% [markdown]
# ### padding
#
# Filler tokens that bring the sentences of a batch to the same length. They must be hidden by a [mask](#mask). [Lesson
# 3](03_masks_who_may_look_at_whom.ipynb)
#
# ### parameter
#
# A tensor that training may change, such as the matrix of a [projection](#projection). [Lesson
# 6](06_where_q_k_and_v_come_from.ipynb)
#
# ### permutation equivariance
#
# If the inputs are shuffled, the outputs are shuffled in the same way and do not change otherwise. Attention without a mask and
# without [positions](#position) has this property. [Lesson 4](04_reading_heatmaps_honestly.ipynb)
#
# ### position
#
# Where a token stands in its text. Models add a vector for it to the token's vector, rotate queries and keys by an angle that
# depends on it, or add a number to the scores. [Lesson 4](04_reading_heatmaps_honestly.ipynb)
#
# ### probe
#
# A test of one property that attention must have, such as rows that sum to one. [Lesson 9](09_clinic.ipynb)
#
# ### projection
#
# A token's vector times a trained matrix, x @ W. Attention uses one for the [query](#query), one for the [key](#key) and one for
# the [value](#value). [Lesson 6](06_where_q_k_and_v_come_from.ipynb)

# %% [markdown]
# ### query
#
# The vector with which a token asks: it is compared with all [keys](#key). One row of Q, shape (L, E). [Lesson
# 0](00_start_here.ipynb)

# %% [markdown]
# ### raw score
#
# The [dot product](#dot-product) of a query and a key, before it is divided. Shape (L, S). [Lesson
# 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### residual connection
#
# The connection that adds the input of a step to its output, so that the step only has to compute a change. Shape (L, d_model).
# [Lesson 10](10_one_real_attention_layer.ipynb)

# %% [markdown]
# ### saturated
#
# A [softmax](#softmax) is saturated if one key of a row has nearly all the weight. Small changes of the scores then change almost
# nothing. [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
#
# ### score
#
# How well a query matches a key: their [raw score](#raw-score) divided by $\sqrt{E}$, before the mask and the softmax. Shape (L,
# S). Some authors also call the raw score, or even the weight, a score. [Lesson 0](00_start_here.ipynb)
#
# ### self-attention
#
# [Attention](#attention) in which queries, keys and values come from the same text. [Lesson
# 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### sliding window
#
# A [mask](#mask) that lets each query look only at keys near its own place. Shape (L, S). [Lesson
# 3](03_masks_who_may_look_at_whom.ipynb)
#
# ### soft look-up
#
# A look-up that returns a share of every value, added up. Attention is one. [Lesson 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### softmax
#
# The function that turns a row of scores into [weights](#weight): it raises $e$ to each score and divides by the total. The
# results are positive and sum to one. [Lesson 0](00_start_here.ipynb)
#
# ### split
#
# Cutting the vector of each token into one piece for each [head](#head). Result (N, H, L, head_dim). [Lesson
# 7](07_multi_head_reshaping_without_scrambling.ipynb)
#
# ### standard deviation
#
# The square root of the [variance](#variance): a typical distance from the mean. [Lesson
# 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
#
# ### stride
#
# By how many places of memory one moves to reach the next entry along a dimension of a tensor. [Lesson
# 7](07_multi_head_reshaping_without_scrambling.ipynb)

# %% [markdown]
# ### temperature
#
# The number by which dot products are divided before the [softmax](#softmax). A low one sharpens the weights, a high one evens
# them out; attention uses $\sqrt{E}$. [Lesson 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### tile
#
# A block of the table of scores: some queries by some keys. Computing attention tile by tile avoids storing the whole table.
# [Lesson 8](08_what_attention_costs_and_how_to_pay_less.ipynb)
#
# ### token
#
# A word or a piece of a word, stored as a number in a list of all tokens. Each token *has* a vector, which the model looks up.
# [Lesson 0](00_start_here.ipynb)
#
# ### Transformer
#
# A model made of a stack of blocks, each with [attention](#attention) and a small network that treats every token by itself.
# [Lesson 0](00_start_here.ipynb)

# %% [markdown]
# ### uniform attention
#
# Attention that prefers no key: every allowed key gets the same weight, the uniform share of one over their number. [Lesson
# 4](04_reading_heatmaps_honestly.ipynb)

# %% [markdown]
# ### value
#
# The vector that a token hands over: the values are what attention averages. One row of V, shape (S, Ev). [Lesson
# 0](00_start_here.ipynb)
#
# ### variance
#
# How widely numbers are spread: the mean squared distance from their mean. [Lesson
# 2](02_why_divide_by_the_square_root_of_d_k.ipynb)

# %% [markdown]
# ### weight
#
# The share of its attention that a query gives to a key. The weights of a row are not negative and sum to one. Shape (L, S). (The
# numbers that training changes are called [parameters](#parameter) in this series.) [Lesson 0](00_start_here.ipynb)
#
# ### word piece
#
# A token that may be only a part of a word. Rare words are made of several. [Lesson 10](10_one_real_attention_layer.ipynb)
