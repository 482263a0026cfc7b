"""Scores, weights and the sides that they come from: broken, and correct in unusual ways."""

# ruff: noqa: D102, D103  (a docstring says what the name does not)

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import broken, correct
from attnlab.clinic.broken._templates import (
    AnnotatedLayer,
    CausalLayer,
    CrossLayer,
    CubeLayer,
    Layer,
    MatrixLayer,
    ResidualLayer,
    SmallHead,
    StackedLayer,
    Steps,
    ValuesKeysQuery,
    WeightsLayer,
    masked,
    of_itself,
    plain,
    softmax,
)


@broken("scale-missing", plain, Layer, CausalLayer, CrossLayer, ResidualLayer, step="score")
@broken("scale-missing", MatrixLayer, CubeLayer, of_itself, step="score")
def unscaled(self, query, key):
    return query @ key.transpose(-2, -1)


@broken("scale-d", plain, Layer, CubeLayer, step="score")
def divided_by_d(self, query, key):
    return query @ key.transpose(-2, -1) / query.size(-1)


@broken("scale-inverse", plain, Layer, step="score")
def divided_by_the_inverse_root(self, query, key):
    """Divide by d ** -0.5, which multiplies by the square root."""
    return query @ key.transpose(-2, -1) / query.size(-1) ** -0.5


@broken("scale-model", plain, Layer, AnnotatedLayer, ValuesKeysQuery, step="score")
def divided_by_the_root_of_the_model_width(self, query, key):
    _, num_heads, _, head_dim = query.shape
    return query @ key.transpose(2, 3) / math.sqrt(num_heads * head_dim)


@broken("scale-model")
class SmallHeadScaledByC(SmallHead):
    """Take C for the scale, the width of the whole model, in a small head."""

    def score(self, query, key):
        return query @ key.transpose(-2, -1) * self.query.in_features**-0.5


@broken("scale-model")
class StackedLayerScaledByC(StackedLayer):
    """Take C for the scale, where its root is the width of a head."""

    def score(self, query, key):
        return query @ key.transpose(-2, -1) * self.c_proj.in_features**-0.5


@broken("scale-quarter", plain, Layer, step="score")
def scaled_on_one_side(self, query, key):
    """Give d ** -0.25 to the query only; the key needs the same factor."""
    return (query * query.size(-1) ** -0.25) @ key.transpose(-2, -1)


@broken("scale-length", plain, Layer, step="score")
def divided_by_the_root_of_the_key_count(self, query, key):
    return query @ key.transpose(-2, -1) / math.sqrt(key.size(-2))


@broken("scale-length", plain, step="score")
def divided_by_the_root_of_axis_one(self, query, key):
    """Take size(1) for d, which in a batch is the number of queries."""
    return torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.size(1))


@broken("scale-length")
def divided_by_the_root_of_the_value_width(q, k, v):
    """Divide by the root of the width of the values."""
    weights = F.softmax(q @ k.mT / v.size(-1) ** 0.5, dim=-1)
    return weights @ v, weights


@broken("scale-constant", plain, Layer, step="score")
def divided_by_eight(self, query, key):
    """Divide by 8, which is correct for d = 64 only."""
    return query @ key.transpose(-2, -1) / 8


@broken("scale-other", plain, step="score")
def divided_by_the_whole_number_below_the_root(self, query, key):
    return query @ key.transpose(-2, -1) / int(query.size(-1) ** 0.5)


@broken("scale-other", plain, Layer, step="score")
def with_a_temperature(self, query, key):
    return query @ key.transpose(-2, -1) / (0.7 * math.sqrt(query.size(-1)))


@broken("scores-not-dot-products", plain, step="score")
def cosines(self, query, key):
    cosine = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1)
    return cosine / math.sqrt(query.size(-1))


@broken("scores-not-dot-products", plain, step="score")
def distances(self, query, key):
    return -torch.cdist(query, key) / math.sqrt(query.size(-1))


# --- query, key and value in each other's place ---------------------------------------------------


@broken("query-key-swapped", plain, step="score")
def keys_by_queries(self, query, key):
    """Form K Q^T, so that a row of the scores belongs to a key and not to a query."""
    return key @ query.transpose(-2, -1) / math.sqrt(key.size(-1))


@broken("key-value-swapped", plain, step="attend")
def key_averaged(self, query, key, value, mask):
    """Compare the query with the values and average the keys."""
    return Steps.attend(self, query, value, key, mask)


@broken("wrong-source", plain, Layer, step="score")
def query_with_query(self, query, key):
    return query @ query.transpose(-2, -1) / math.sqrt(query.size(-1))


@broken("wrong-source", plain, step="score")
def key_with_key(self, query, key):
    return key @ key.transpose(-2, -1) / math.sqrt(key.size(-1))


@broken("wrong-source", plain, Layer, step="attend")
def keys_for_values(self, query, key, value, mask):
    return Steps.attend(self, query, key, key, mask)


@broken("wrong-source", plain, step="attend")
def queries_for_values(self, query, key, value, mask):
    return Steps.attend(self, query, key, query, mask)


@broken("wrong-source", Layer, step="forward")
def value_from_the_layer_of_the_key(self, x):
    query, key = (self.split(layer(x), self.num_heads) for layer in (self.q_proj, self.k_proj))
    return self.out_proj(self.merge(self.attend(query, key, key, None)))


@broken("key-value-swapped", CrossLayer, step="forward")
def value_before_key(self, query, key, value, mask=None):
    return self.run(query, value, key, mask)


@broken("cross-side", CrossLayer, step="forward")
def sides_exchanged(self, query, key, value, mask=None):
    return self.run(key, query, query, mask)


@broken("cross-side", CrossLayer, step="forward")
def query_for_everything(self, query, key, value, mask=None):
    return self.run(query, query, query, mask)


@broken("cross-side", CrossLayer, step="forward")
def key_for_query(self, query, key, value, mask=None):
    return self.run(key, key, value, mask)


@broken("cross-side", CrossLayer, step="forward")
def key_for_value(self, query, key, value, mask=None):
    return self.run(query, key, key, mask)


@broken("cross-side", CrossLayer, step="forward")
def queries_from_the_memory(self, x, memory):
    return self.run(memory, x, x)


@broken("softmax-axis", plain, Layer, CausalLayer, WeightsLayer, softmax, step="soft")
@broken("softmax-axis", MatrixLayer, AnnotatedLayer, of_itself, step="soft")
def softmax_over_the_queries(self, scores):
    """Run the softmax over the queries: the columns sum to 1, and the rows do not."""
    return scores.softmax(dim=-2)


@broken("softmax-axis", Layer, CrossLayer, AnnotatedLayer, step="soft")
def softmax_over_the_heads(self, scores):
    """Run the softmax over dim=1, so that the heads compete with each other."""
    return scores.softmax(dim=1)


@broken("softmax-axis", Layer, step="soft")
def softmax_over_the_batch(self, scores):
    return scores.softmax(dim=0)


@broken("softmax-axis")
def softmax_over_axis_one(q, k, v):
    """Run the softmax over dim=1, which in a batch is the axis of the queries."""
    attn = F.softmax(torch.bmm(q, k.transpose(1, 2)) / k.size(2) ** 0.5, dim=1)
    return torch.bmm(attn, v), attn


@broken("softmax-axis")
def softmax_over_axis_one_of_four(queries, keys, values):
    """Run the softmax over dim=1 of four axes, so that the heads compete with each other."""
    scores = torch.einsum("nhqd,nhkd->nhqk", queries, keys) / math.sqrt(queries.size(3))
    return torch.einsum("nhqk,nhkd->nhqd", torch.softmax(scores, dim=1), values)


@broken("softmax-axis")
def softmax_without_an_axis(q, k, v):
    """Leave dim out: for three axes torch chooses axis 0, the batch."""
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
    return torch.bmm(F.softmax(scores), v)


@broken("not-normalised", plain, Layer, step="soft")
def raw_scores(self, scores):
    return scores


@broken("not-normalised", plain, Layer, step="soft")
def sigmoids(self, scores):
    return torch.sigmoid(scores)


@broken("not-normalised", plain, Layer, softmax, step="soft")
def bare_exponentials(self, scores):
    return scores.exp()


@broken("not-normalised", plain, step="soft")
def log_softmax(self, scores):
    return F.log_softmax(scores, dim=-1)


@broken("not-normalised")
def scaled_after_the_softmax(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1), dim=-1) / math.sqrt(Q.shape[-1])
    return weights @ V


@broken("hard", plain, step="soft")
def best_key_only(self, scores):
    return F.one_hot(scores.argmax(dim=-1), scores.size(-1)).to(scores.dtype)


# --- a softmax written by hand --------------------------------------------------------------------


@broken("softmax-axis", softmax, step="soft")
def sum_of_everything(self, scores):
    exps = torch.exp(scores - scores.max())
    return exps / exps.sum()


@correct(plain, step="soft")
@broken("nan", softmax, step="soft", strict=True)
def maximum_left_in(self, scores):
    """Leave the maximum in, so that a score of 1000 gives inf / inf."""
    return torch.exp(scores) / torch.exp(scores).sum(dim=-1, keepdim=True)


@broken("underflow", softmax, step="soft", strict=True)
def one_maximum_for_all_rows(self, scores):
    """Subtract one maximum from all rows: a row far below it becomes 0 / 0."""
    exps = torch.exp(scores - scores.max())
    return exps / exps.sum(dim=-1, keepdim=True)


@broken("modifies-input", softmax, step="soft")
def maximum_subtracted_in_place(self, scores):
    scores -= scores.max(dim=-1, keepdim=True).values
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


@broken("square-only", softmax, step="soft")
def sums_without_keepdim(self, scores):
    exps = torch.exp(scores - scores.max(dim=-1).values)
    return exps / exps.sum(dim=-1)


# --- weights returned beside the output -----------------------------------------------------------


@broken("weights-differ")
def scores_returned(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return torch.softmax(scores, dim=-1) @ value, scores


@broken("weights-differ")
def unmasked_weights_returned(q, k, v, mask=None):
    """Return the weights of the unmasked scores beside the masked output."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return output, scores.softmax(dim=-1)


@broken("weights-differ", WeightsLayer, step="forward")
def weights_transposed(self, x):
    return self.run(x, x, x), self.weights.mT


@broken("weights-differ", WeightsLayer, step="attend")
def scores_for_weights(self, query, key, value, mask):
    self.weights = self.score(query, key)
    return self.soft(self.weights) @ value


@correct(plain, softmax, step="soft")
def softmax_with_the_maximum(self, scores):
    exps = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return exps / exps.sum(dim=-1, keepdim=True)


@correct(masked, step="soft")
def softmax_of_low_precision_in_float32(self, scores):
    """Compute the softmax of low precision in float32 and cast back."""
    wide = torch.promote_types(scores.dtype, torch.float32)
    return F.softmax(scores, dim=-1, dtype=wide).to(scores.dtype)


@correct(plain, Layer, step="score")
def scaled_on_both_sides(self, query, key):
    factor = query.size(-1) ** -0.25
    return (query * factor) @ (key * factor).mT


@correct(plain, step="score")
def root_of_a_tensor(self, query, key):
    d_k = torch.tensor(query.size(-1), dtype=torch.float32)
    return query @ key.transpose(-2, -1) / torch.sqrt(d_k)


@correct(plain, step="attend")
def columns(self, query, key, value, mask):
    """Keep the scores as keys by queries and turn everything back at the end."""
    columns = value.mT @ self.score(key, query).softmax(dim=-2)
    return columns.mT


@correct(plain, step="attend")
def tiles(self, query, key, value, mask):
    """Visit the keys two at a time and correct the sums on the way."""
    top = torch.full_like(query[..., :1], -math.inf)
    total = torch.zeros_like(top)
    output = torch.zeros_like(query[..., :1]) * value[..., :1, :]
    for start in range(0, key.size(-2), 2):
        scores = self.score(query, key[..., start : start + 2, :])
        new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        exps, shrink = torch.exp(scores - new_top), torch.exp(top - new_top)
        total = total * shrink + exps.sum(dim=-1, keepdim=True)
        output = output * shrink + exps @ value[..., start : start + 2, :]
        top = new_top
    return output / total
