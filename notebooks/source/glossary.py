# %% opening [markdown]
# # Glossary
#
# The letters of this series, and then its words in alphabetical order.
# Each entry ends with a link to the lesson that introduces what the word stands for.
# Links in the lessons lead to the entry itself; to get back to where you were,
# use the tab of your lesson.

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
# | d_k | the original paper's name for the E of one head |
# | d_in | features of a token that is multiplied by the matrix of a [projection](#projection) |
# | d_v | the original paper's name for Ev |
# | d_model | the original paper's name for the width of the model, `embed_dim` in `nn.MultiheadAttention` |
# | d_out | output features of a projection |

# %% words [markdown]
# ## Words
#
# ### ablation
#
# Removing or replacing one part of a model and running it again,
# to see how much the result depended on that part.
# [Lesson 10](10_one_real_attention_layer.ipynb)
#
# ### activation patching
#
# Putting a vector from one run of a model into another run, and watching how the rest changes.
# It tests whether the model takes up what the vector holds.
# [Lesson 14](14_where_a_meaning_appears.ipynb)
#
# ### ALiBi
#
# A way to tell a model the [position](#position) of a token: a number is added to each score,
# and it falls with the distance between query and key.
# [Lesson 11](11_order.ipynb)
#
# ### attention
#
# A step that gives every token a new vector:
# a weighted average of the [values](#value) of the tokens that it may attend to.
# The [weights](#weight) come from comparing its [query](#query) with their [keys](#key).
# In full, scaled dot-product attention.
# [Lesson 0](00_start_here.ipynb)
#
# ### attention sink
#
# A token that receives a large [weight](#weight) while its [value](#value) adds little to the
# output.
# If it is removed, its weight goes to other tokens, so the [head](#head) usually adds more.
# Some authors call any token with a large weight a sink.
# [Lesson 10](10_one_real_attention_layer.ipynb)
#
# ### autoregressive
#
# A model that writes one token after another, under a [causal mask](#causal-mask).
# [Lesson 3](03_masks_who_may_look_at_whom.ipynb)

# %% [markdown]
# ### bag of words
#
# Words without their order: what attention without a mask sees of a text if nothing tells it the
# [positions](#position).
# [Lesson 11](11_order.ipynb)
#
# ### baseline
#
# What a measure gives without the thing that is claimed, for example with random weights.
# A result counts by how far it lies above its baseline.
# If one ingredient is taken away on purpose, the comparison is called a [control](#control).
# [Lesson 4](04_reading_heatmaps_honestly.ipynb)
#
# ### batch
#
# Several sentences that are processed at once, stacked along an extra first dimension.
# N is their number.
# [Lesson 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### bias
#
# A vector of trainable numbers that is added to the result of a [projection](#projection),
# one number for each output [feature](#feature).
# Shape (d_out,).
# [Lesson 6](06_where_q_k_and_v_come_from.ipynb)

# %% [markdown]
# ### block
#
# One of the stages of a [Transformer](#Transformer): [attention](#attention) and an [MLP](#MLP),
# each with a [norm](#norm) and a [residual connection](#residual-connection).
# [Lesson 0](00_start_here.ipynb)

# %% [markdown]
# ### cache
#
# The [keys](#key) and [values](#value) of earlier tokens,
# kept so that they need not be computed again when the next token is written.
# Also called KV cache.
# [Lesson 13](13_word_by_word_the_cache.ipynb)
#
# ### causal mask
#
# The [mask](#mask) of models that write one word after another:
# each token may look at itself and at the tokens before it.
# Shape (L, S).
# Also called look-ahead mask; a model with it is called autoregressive.
# [Lesson 3](03_masks_who_may_look_at_whom.ipynb)
#
# ### context vector
#
# Another name for the [output](#output) of attention.
# [Lesson 0](00_start_here.ipynb)
#
# ### contiguous
#
# A tensor is contiguous if reading its entries in order means walking through memory step by step.
# After a transpose it is usually not.
# [Lesson 7](07_multi_head_reshaping_without_scrambling.ipynb)
#
# ### control
#
# The same experiment without the one ingredient that is thought to cause the effect.
# If the effect is still there, it does not need the ingredient.
# [Lesson 5](05_what_does_bank_mean_here.ipynb)
#
# ### cosine
#
# Of two vectors: their [dot product](#dot-product) divided by the product of their lengths,
# which is the cosine of the angle between them.
# It is one if they have the same direction, zero if they are at a right angle,
# and minus one if their directions are opposite.
# [Lesson 5](05_what_does_bank_mean_here.ipynb)
#
# ### cross-attention
#
# [Attention](#attention) in which the [queries](#query) come from one text and the [keys](#key) and
# [values](#value) from another, as in translation.
# The table of weights need not be square.
# Also called encoder-decoder attention; models that translate with it are called seq2seq.
# [Lesson 4](04_reading_heatmaps_honestly.ipynb)

# %% [markdown]
# ### decoding
#
# Writing a text token by token: each step reads the token that was written last.
# Reading the [prompt](#prompt) before it is called [prefill](#prefill).
# [Lesson 13](13_word_by_word_the_cache.ipynb)
#
# ### dot product
#
# The sum that results when two vectors are multiplied entry by entry and the products are added up.
# It equals the product of the two lengths and the cosine of the angle between the vectors.
# [Lesson 0](00_start_here.ipynb)
#
# ### dropout
#
# Setting entries to zero at random during training,
# and dividing the others by the probability of being kept,
# so that their expected sum stays the same.
# [Lesson 7](07_multi_head_reshaping_without_scrambling.ipynb)

# %% [markdown]
# ### effective keys
#
# How many keys share the [weight](#weight) of a query:
# the exponential of the [entropy](#entropy) of its row.
# It is one if a single key has all the weight and S if all keys have the same weight.
# [Lesson 0](00_start_here.ipynb)
#
# ### entropy
#
# How spread out a row of [weights](#weight) is: minus the sum of each weight times its logarithm.
# It is zero if one key has all the weight and log S if all keys have the same weight.
# [Lesson 0](00_start_here.ipynb)

# %% [markdown]
# ### feature
#
# One of the numbers of a token's vector.
# In our small tables the features have names; those of a trained model have none.
# [Lesson 0](00_start_here.ipynb)
#
# ### finding
#
# What the report of `attnlab.clinic.diagnose` says about a bug: its name, a sentence, the evidence,
# and how to repair it.
# [Lesson 9](09_clinic.ipynb)
#
# ### FlashAttention
#
# A [fused kernel](#fused-kernel) that computes attention [tile](#tile) by tile.
# [Lesson 8](08_what_attention_costs_and_how_to_pay_less.ipynb)
#
# ### FLOPs
#
# Floating-point operations: the additions and multiplications that a computation takes.
# [Lesson 8](08_what_attention_costs_and_how_to_pay_less.ipynb)
#
# ### fused kernel
#
# A single [kernel](#kernel) that does several steps, such as scores, softmax and average,
# without writing the intermediate results to memory.
# [Lesson 8](08_what_attention_costs_and_how_to_pay_less.ipynb)

# %% [markdown]
# ### GQA
#
# Short for grouped-query attention: see [grouped heads](#grouped-heads).
# [Lesson 13](13_word_by_word_the_cache.ipynb)
#
# ### gradient
#
# The slopes of a function with a single output, usually the loss, one for each entry of a tensor.
# They point in the direction in which the output grows fastest;
# training changes the [parameters](#parameter) roughly in the opposite direction.
# [Lesson 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### grouped heads
#
# Several [heads](#head) of queries that share one head of keys and values,
# which makes the [cache](#cache) smaller.
# Also called grouped-query attention (GQA), or multi-query attention
# (MQA) if all queries share one head.
# [Lesson 13](13_word_by_word_the_cache.ipynb)

# %% [markdown]
# ### hard lookup
#
# A lookup that returns the value of the key with the largest score and ignores all others.
# [Lesson 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### head
#
# One of several attention computations that run side by side in a layer,
# each with its own [projections](#projection).
# H is their number, and heads are counted from zero.
# [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
#
# ### head_dim
#
# The number of [features](#feature) of one [head](#head),
# usually d_model divided by H. [Lesson 7](07_multi_head_reshaping_without_scrambling.ipynb)
#
# ### heatmap
#
# A table of numbers drawn as coloured cells.
# In this series a darker cell means a larger weight.
# [Lesson 0](00_start_here.ipynb)

# %% [markdown]
# ### independent
#
# Two random numbers are independent if knowing one of them tells you nothing about the other.
# [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
#
# ### induction head
#
# A [head](#head) that looks at what followed an earlier copy of the current token,
# and makes the model repeat it.
# Usually an earlier layer has told each token what stands before it.
# [Lesson 12](12_two_layers_that_look_back.ipynb)
#
# ### influence map
#
# A table with the length of the derivative of each output by each input:
# how much output $i$ moves when token $j$ is changed a little.
# In one layer, it is exactly zero where a [mask](#mask) blocks, except on the diagonal.
# Shape (L, L).
# [Lesson 3](03_masks_who_may_look_at_whom.ipynb)

# %% [markdown]
# ### kernel
#
# A compiled routine that runs on the processor or the GPU.
# One kernel may compute one operation or several: see [fused kernel](#fused-kernel).
# [Lesson 8](08_what_attention_costs_and_how_to_pay_less.ipynb)
#
# ### key
#
# The vector by which a token is found: the [query](#query) is compared with it.
# One row of K, shape (S, E).
# [Lesson 0](00_start_here.ipynb)

# %% [markdown]
# ### KV cache
#
# Another name for the [cache](#cache) of keys and values.
# [Lesson 13](13_word_by_word_the_cache.ipynb)

# %% [markdown]
# ### leak test
#
# A test that finds out whether an output depends on a token that its [mask](#mask) should hide.
# The [influence map](#influence-map) shows it for all pairs;
# a simpler test replaces one token and sees which outputs change.
# [Lesson 3](03_masks_who_may_look_at_whom.ipynb)

# %% [markdown]
# ### lean
#
# The [cosine](#cosine) of a vector with one mean minus its cosine with another:
# it is positive if the vector lies nearer to the first.
# The word belongs to this series.
# [Lesson 14](14_where_a_meaning_appears.ipynb)
#
# ### mask
#
# A table that says which token may attend to which.
# In this series True means *may attend*; some libraries mean the opposite.
# Shape (L, S).
# [Lesson 0](00_start_here.ipynb)
#
# ### merge
#
# Joining the outputs of all [heads](#head) back into one vector for each token,
# the reverse of the [split](#split).
# Result (N, L, d_model).
# [Lesson 7](07_multi_head_reshaping_without_scrambling.ipynb)
#
# ### MLP
#
# A multilayer perceptron: two or more matrices with a simple function between them.
# In a [Transformer](#Transformer) it processes each token on its own.
# [Lesson 0](00_start_here.ipynb)
#
# ### MQA
#
# Short for multi-query attention:
# [grouped heads](#grouped-heads) of which there is a single one of keys and values.
# [Lesson 13](13_word_by_word_the_cache.ipynb)

# %% [markdown]
# ### norm
#
# The length of a vector: the square root of the sum of the squares of its entries.
# In a diagram of a Transformer, *norm* is a layer that rescales every vector to a standard size.
# [Lesson 0](00_start_here.ipynb)

# %% [markdown]
# ### offset
#
# The difference between the [positions](#position) of a query and a key.
# [Lesson 11](11_order.ipynb)
#
# ### online softmax
#
# The softmax of a row computed piece by piece.
# Whenever a larger score appears, the sums so far are scaled down.
# [Lesson 8](08_what_attention_costs_and_how_to_pay_less.ipynb)
#
# ### output
#
# What attention returns for a query: the average of the [values](#value),
# weighted by the query's [weights](#weight), `weights @ value`.
# Shape (L, Ev).
# Also called context vector.
# [Lesson 0](00_start_here.ipynb)
#
# ### overflow
#
# What happens to a number that is too large for its type: in float16,
# bfloat16 and float32 it becomes infinite.
# [Lesson 1](01_attention_is_a_soft_look_up.ipynb)

# %% [markdown]
# ### padding
#
# Filler tokens that bring the sentences of a batch to the same length.
# They must be hidden by a [mask](#mask).
# [Lesson 3](03_masks_who_may_look_at_whom.ipynb)
#
# ### parameter
#
# A tensor that training may change, such as the matrix of a [projection](#projection).
# [Lesson 6](06_where_q_k_and_v_come_from.ipynb)
#
# ### permutation equivariance
#
# If the inputs are shuffled, the outputs are shuffled in the same way but do not otherwise change.
# Attention without a mask and without [positions](#position) has this property.
# [Lesson 0](00_start_here.ipynb)
#
# ### position
#
# Where a token stands in its text.
# A model learns of it by a positional encoding, of which three kinds are usual.
# Some add a vector to the token's vector.
# RoPE rotates queries and keys by an angle that depends on the position;
# its base is often called rope_theta.
# ALiBi adds a number to the scores.
# A model with none of them is called NoPE.
# [Lesson 11](11_order.ipynb)
#
# ### prefill
#
# The first step of a model that writes: it reads the whole prompt and fills the [cache](#cache).
# Decoding follows, one token at a time.
# [Lesson 13](13_word_by_word_the_cache.ipynb)
#
# ### probe
#
# A test of one property that an attention function is meant to have,
# such as that its rows of weights sum to one.
# It needs no correct version to compare with.
# Elsewhere the word means something else: see [probing](#probing).
# [Lesson 9](09_clinic.ipynb)
#
# ### probing
#
# Reading a property of a token, such as its meaning, from the vectors inside a model.
# Often a small model is trained to read it, and that model is called a probe;
# a comparison with the means of two groups of vectors needs no training.
# [Lesson 14](14_where_a_meaning_appears.ipynb)
#
# ### projection
#
# A vector times a trained matrix, `x @ W`.
# A layer uses one for the [query](#query), one for the [key](#key) and one for the [value](#value),
# and, if it has several heads, an output projection for what they return together.
# [Lesson 6](06_where_q_k_and_v_come_from.ipynb)

# %% [markdown]
# ### prompt
#
# The beginning of a text that a model is given to continue.
# [Lesson 13](13_word_by_word_the_cache.ipynb)
#
# ### query
#
# The vector with which a token asks: it is compared with all [keys](#key).
# One row of Q, shape (L, E).
# [Lesson 0](00_start_here.ipynb)

# %% [markdown]
# ### raw score
#
# The [dot product](#dot-product) of a query and a key, before it is divided by $\sqrt{E}$.
# Shape (L, S).
# [Lesson 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### residual connection
#
# The connection that adds the input of a step to its output,
# so that the step only has to compute a change.
# [Lesson 10](10_one_real_attention_layer.ipynb)
#
# ### residual stream
#
# The vector of a token on its way through a model with
# [residual connections](#residual-connection): each layer reads it and adds to it.
# [Lesson 12](12_two_layers_that_look_back.ipynb)
#
# ### root mean square
#
# The square root of the mean of the squared numbers of a vector.
# Unlike the [standard deviation](#standard-deviation), it subtracts no mean.
# [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
#
# ### RoPE
#
# Short for rotary position embedding:
# queries and keys are rotated by angles that depend on the [position](#position).
# [Lesson 11](11_order.ipynb)

# %% [markdown]
# ### saturated
#
# A [softmax](#softmax) is saturated if one key of a row has nearly all the weight.
# Small changes in the scores then have almost no effect.
# [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
#
# ### score
#
# How well a query matches a key: their [raw score](#raw-score) divided by $\sqrt{E}$,
# before the mask and the softmax.
# Shape (L, S).
# Some authors also call the raw score, or even the weight, a score.
# [Lesson 0](00_start_here.ipynb)
#
# ### self-attention
#
# [Attention](#attention) in which queries, keys and values come from the same text.
# [Lesson 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### sliding window
#
# A [mask](#mask) that lets each query look only at keys near its own position.
# Shape (L, S).
# [Lesson 8](08_what_attention_costs_and_how_to_pay_less.ipynb)
#
# ### soft lookup
#
# A lookup that takes a share of every value and returns their sum.
# Attention is a soft lookup.
# [Lesson 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### softmax
#
# The function that turns a row of scores into [weights](#weight):
# it raises $e$ to the power of each score and divides each result by their sum.
# The weights are not negative and sum to one.
# In attention it runs along the axis of the [keys](#key), the last one.
# [Lesson 0](00_start_here.ipynb)
#
# ### split
#
# Cutting the projected [query](#query),
# [key](#key) and [value](#value) of each token into one piece for each [head](#head).
# Result (N, H, L, head_dim).
# [Lesson 7](07_multi_head_reshaping_without_scrambling.ipynb)
#
# ### standard deviation
#
# The square root of the [variance](#variance): a typical distance from the mean.
# [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)
#
# ### stride
#
# The number of places in memory from one entry to the next along a dimension of a tensor.
# [Lesson 7](07_multi_head_reshaping_without_scrambling.ipynb)

# %% [markdown]
# ### temperature
#
# The number by which dot products are divided before the [softmax](#softmax).
# A low temperature sharpens the weights, and a high one evens them out.
# Attention uses $\sqrt{E}$.
# [Lesson 1](01_attention_is_a_soft_look_up.ipynb)
#
# ### tile
#
# A block of the table of scores: some queries by some keys.
# Computing attention tile by tile avoids storing the whole table.
# FlashAttention is a [fused kernel](#fused-kernel) that works in this way.
# [Lesson 8](08_what_attention_costs_and_how_to_pay_less.ipynb)
#
# ### token
#
# A word or a piece of a word.
# It is stored as a number, its index in the list of all tokens.
# Each token *has* a vector, which the model looks up.
# [Lesson 0](00_start_here.ipynb)
#
# ### Transformer
#
# A model made of a stack of [blocks](#block), each with [attention](#attention) and an [MLP](#MLP).
# BERT and GPT are Transformers: in BERT each token may attend to all tokens,
# in GPT to itself and to earlier ones.
# [Lesson 0](00_start_here.ipynb)

# %% [markdown]
# ### uniform attention
#
# Attention that prefers no key: every allowed key gets the same weight,
# a [uniform share](#uniform-share), which is one divided by the number of allowed keys.
# [Lesson 10](10_one_real_attention_layer.ipynb)
#
# ### uniform share
#
# The weight that [uniform attention](#uniform-attention) gives to a key.
# A weight of three uniform shares is three times as large.
# [Lesson 10](10_one_real_attention_layer.ipynb)

# %% [markdown]
# ### value
#
# The vector that a token hands over: the values are what attention averages.
# One row of V, shape (S, Ev).
# [Lesson 0](00_start_here.ipynb)
#
# ### variance
#
# How widely numbers are spread: the mean squared distance from their mean.
# [Lesson 2](02_why_divide_by_the_square_root_of_d_k.ipynb)

# %% [markdown]
# ### weight
#
# The share of its attention that a query gives to a key.
# The weights of a row are not negative and sum to one.
# Shape (L, S).
# (The numbers that training changes are called [parameters](#parameter) in this series.)
# [Lesson 0](00_start_here.ipynb)
#
# ### word piece
#
# A token that may be only a part of a word.
# Rare words are made of several.
# [Lesson 10](10_one_real_attention_layer.ipynb)
