"""Heads, sequences and positions that are mixed, shared, cut or merged in the wrong way."""

# ruff: noqa: D102, D103  (a docstring says what the name does not)

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.clinic.broken._case import broken, correct
from attnlab.clinic.broken._templates import (
    CausalLayer,
    Layer,
    MatrixLayer,
    PositionedLayer,
    StackedLayer,
    Steps,
    WeightsLayer,
    merge,
    of_itself,
    pair,
    plain,
    split,
)

LARGE, SMALL = {"embed_dim": 64, "num_heads": 8}, {"embed_dim": 8, "num_heads": 2}


@broken("split-without-transpose", Layer, step="split", arguments=LARGE, name="large_split_by_view")
@broken("split-without-transpose", Layer, CausalLayer, PositionedLayer, StackedLayer, step="split")
@broken("split-without-transpose", pair, split, step="split")
def split_by_view(self, x, num_heads):
    """View straight as (N, H, L, d), so that a head holds pieces of neighbouring tokens."""
    n, length, width = x.shape
    return x.reshape(n, num_heads, length, width // num_heads)


@broken("merge-without-transpose", Layer, step="merge", arguments=LARGE, name="large_merge")
@broken("merge-without-transpose", Layer, CausalLayer, PositionedLayer, StackedLayer, step="merge")
@broken("merge-without-transpose", pair, merge, step="merge")
def merge_by_reshape(self, x):
    """Reshape (N, H, L, d) straight back to (N, L, E)."""
    n, heads, length, head_dim = x.shape
    return x.reshape(n, length, heads * head_dim)


@broken("split-and-merge", Layer, arguments=LARGE, name="LargeReshapes")
@broken("split-and-merge", Layer, arguments=SMALL, name="SmallReshapes")
@broken("split-and-merge", pair, Layer, CausalLayer)
class ReshapedBothWays:
    """Reshape there and back: the round trip is correct and both halves are wrong."""

    split, merge = split_by_view, merge_by_reshape


@broken("contiguity", pair, step="merge")
@broken("raises", Layer, step="merge")
def merge_by_view(self, x):
    n, heads, length, head_dim = x.shape
    return x.transpose(1, 2).view(n, length, heads * head_dim)


@correct(Layer)
@broken("heads-order", pair)
class HeadsInterleaved:
    """Give head h every H-th feature instead of its block of neighbours."""

    def split(self, x, num_heads):
        return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)

    def merge(self, x):
        return x.permute(0, 2, 3, 1).flatten(2)


@broken("heads-order", pair)
class HeadsBackwards:
    """Number the heads from the last block to the first, both ways."""

    def split(self, x, num_heads):
        return Steps.split(self, x, num_heads).flip(1)

    def merge(self, x):
        return Steps.merge(self, x.flip(1))


@broken("heads-order", pair)
class TwoLayouts:
    """Split into blocks and merge as if the heads were interleaved."""

    merge = HeadsInterleaved.merge


@broken("batch-mixing", pair)
class SplitSequenceFirst:
    """Read (N, L, E) as (L, N, E) on the way in and on the way out."""

    def split(self, x, num_heads):
        n, length, width = x.shape
        return x.reshape(length, n, num_heads, width // num_heads).permute(1, 2, 0, 3)

    def merge(self, x):
        n, heads, length, head_dim = x.shape
        return x.permute(2, 0, 1, 3).reshape(n, length, heads * head_dim)


@broken("round-trip", pair)
class HeadsFoldedTwoWays:
    """Fold the heads behind the batch on the way there and in front of it on the way back."""

    def split(self, x, num_heads):
        return Steps.split(self, x, num_heads).flatten(0, 1)

    def merge(self, x, num_heads):
        return x.unflatten(0, (num_heads, -1)).permute(1, 2, 0, 3).flatten(2)


@broken("attends-over-heads", Layer, WeightsLayer)
class HeadsBehindTokens:
    """Leave the heads behind the tokens, so that heads attend to heads and tokens never meet."""

    def split(self, x, num_heads):
        return x.unflatten(-1, (num_heads, -1))

    def merge(self, x):
        return x.flatten(2)


@broken("batch-mixing", Layer, step="split")
def split_with_the_heads_first(self, x, num_heads):
    n, length, width = x.shape
    return x.reshape(num_heads, n, length, width // num_heads).transpose(0, 1)


@broken("position-mixing", Layer, step="merge")
def merge_backwards(self, x):
    return Steps.merge(self, x).flip(1)


# --- heads that share, miss or do nothing ---------------------------------------------------------


class OneHead(nn.Module):
    """Attend in one head; several of them make a layer."""

    def __init__(self, embed_dim, head_dim):
        super().__init__()
        self.query = nn.Linear(embed_dim, head_dim, bias=False)
        self.key = nn.Linear(embed_dim, head_dim, bias=False)
        self.value = nn.Linear(embed_dim, head_dim, bias=False)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return (q @ k.mT * k.size(-1) ** -0.5).softmax(dim=-1) @ v


@correct(name="ListOfHeadsWithoutProjection", arguments={"last": nn.Identity})
@correct()
class ListOfHeads(nn.Module):
    """Give each head a module of its own."""

    def __init__(self, embed_dim=12, num_heads=3, last=nn.Linear):
        super().__init__()
        self.heads = nn.ModuleList(self.make(embed_dim, num_heads))
        self.proj = last(embed_dim, embed_dim)

    def make(self, embed_dim, num_heads):
        return [OneHead(embed_dim, embed_dim // num_heads) for _ in range(num_heads)]

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


@broken("heads-shared")
class ListOfOneHead(ListOfHeads):
    """Multiply a list that holds one head, so that every head is the same object."""

    def make(self, embed_dim, num_heads):
        return [OneHead(embed_dim, embed_dim // num_heads)] * num_heads


@broken("heads-shared")
class HeadsByExpand(Layer):
    """Project to one head and repeat it, which looks like many heads."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(12, 4) for _ in range(3))

    def split(self, x, num_heads):
        return x[:, None].expand(-1, num_heads, -1, -1)


@broken("heads-from-input")
class HeadsCutFromInput(Layer):
    """Cut the input into heads first and project each slice with one small layer."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        slices = self.split(x, self.num_heads)
        query, key, value = self.q_proj(slices), self.k_proj(slices), self.v_proj(slices)
        return self.out_proj(self.merge(self.attend(query, key, value, None)))


@broken("heads-from-input")
class HeadsFromSlices(ListOfHeads):
    """Give each head a module of its own, and only its slice of the input."""

    def make(self, embed_dim, num_heads):
        return [OneHead(embed_dim // num_heads, embed_dim // num_heads) for _ in range(num_heads)]

    def forward(self, x):
        slices = zip(self.heads, x.chunk(len(self.heads), dim=-1), strict=True)
        return self.proj(torch.cat([head(part) for head, part in slices], dim=-1))


@broken("wrong-source", Layer, step="attend")
def last_head_idle(self, query, key, value, mask):
    heads = Steps.attend(self, query, key, value, mask)
    return torch.cat([heads[:, :-1], torch.zeros_like(heads[:, -1:])], dim=1)


@broken("batch-mixing")
def attention_across_the_batch(q, k, v):
    """Flatten the batch first, so that every sequence attends to all the others."""
    n, length, d = q.shape
    scores = q.reshape(-1, d) @ k.reshape(-1, d).t() / math.sqrt(d)
    output = scores.softmax(dim=-1) @ v.reshape(-1, v.shape[-1])
    return output.view(n, length, v.shape[-1])


@broken("batch-mixing", plain, step="score")
def keys_summed_over_the_batch(self, query, key):
    return torch.einsum("bqd,ckd->bqk", query, key) / math.sqrt(query.size(-1))


@broken("batch-mixing", of_itself, step="attend")
def attention_over_the_batch(self, query, key, value, mask):
    scores = torch.einsum("nld,mld->lnm", query, key)
    return torch.softmax(scores, dim=-1) @ value.transpose(0, 1)


@broken("batch-mixing", Layer, step="forward")
def batch_as_one_sequence(self, x):
    joined = x.reshape(1, -1, x.size(-1))
    return self.run(joined, joined, joined).view(x.shape)


@correct(Layer, step="forward", name="sequence_first_on_purpose", batch_first=False)
@broken("batch-first", Layer, step="forward")
def sequence_first(self, x):
    """Read axis 0 as the length and axis 1 as the batch."""
    x = x.transpose(0, 1)
    return self.run(x, x, x).transpose(0, 1)


@correct(name="TorchWithBatchFirst", arguments={"batch_first": True})
@broken("batch-first")
class TorchWithoutBatchFirst(nn.Module):
    """Wrap nn.MultiheadAttention without batch_first, so that a batch attends over sequences."""

    def __init__(self, batch_first=False):
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 3, batch_first=batch_first)

    def forward(self, query, key, value):
        return self.attention(query, key, value)


@broken("head-mixing")
def weights_averaged_over_heads(query, key, value):
    scores = torch.einsum("nhqd,nhkd->nhqk", query, key) / math.sqrt(query.size(-1))
    return scores.softmax(dim=-1).mean(dim=1, keepdim=True) @ value


@broken("head-mixing")
def attention_between_heads(q, k, v):
    """Move the heads next to the features, so that heads attend to heads inside each token."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return (scores.softmax(dim=-1) @ v).transpose(1, 2)


@broken("position-mixing", plain, step="attend")
def columns_reshaped(self, query, key, value, mask):
    """Compute the output as columns and reshape it back where a transpose is needed."""
    columns = value.mT @ self.soft(self.score(query, key)).mT
    return columns.reshape(*query.shape[:-1], value.shape[-1])


@broken("position-mixing", plain, step="attend")
def rows_in_reverse(self, query, key, value, mask):
    rows = [Steps.attend(self, row, key, value, mask) for row in query.split(1, dim=-2)]
    return torch.cat(rows[::-1], dim=-2)


@broken("transposed-batch")
def axes_zero_and_one_exchanged(q, k, v):
    """Exchange batch and length of the key instead of length and features."""
    _, _, d = q.shape
    scores = torch.matmul(q, k.transpose(0, 1)) / math.sqrt(d)
    return torch.matmul(F.softmax(scores, dim=-1), v)


@broken("transposed-batch")
def all_axes_reversed(queries, keys, values):
    """Use .T on a batch, which reverses all three axes."""
    batch, length, d = queries.shape
    scores = queries @ keys.T / math.sqrt(d)
    return (scores.softmax(dim=-1) @ values).view(batch, length, -1)


@broken("transposed-batch", MatrixLayer, step="attend", arguments={"d_in": 12, "d_out": 12})
def axes_of_the_key_reversed(self, query, key, value, mask):
    _, _, d = query.shape
    return torch.softmax(query @ key.T / math.sqrt(d), dim=-1) @ value


@broken("square-only")
def square_table_of_scores(query, key, value):
    """Fill a table as long as the queries on both sides; further keys are never seen."""
    length, d = query.shape
    scores = torch.zeros(length, length, dtype=query.dtype, device=query.device)
    for i in range(length):
        for j in range(length):
            scores[i, j] = query[i] @ key[j] / math.sqrt(d)
    return scores.softmax(dim=-1) @ value[:length]


@broken("square-only")
def output_as_wide_as_the_query(q, k, v):
    """Write into zeros shaped like the query, so that values of another width do not fit."""
    output = torch.zeros_like(q)
    for i in range(q.size(-2)):
        scores = (k * q[..., i : i + 1, :]).sum(-1) / math.sqrt(q.size(-1))
        output[..., i, :] = (scores.softmax(-1).unsqueeze(-1) * v).sum(-2)
    return output


@broken("square-only")
def weights_viewed_as_a_square(Q, K, V):
    """View the weights as length by length, which fails for another number of keys."""
    n, length, d = Q.shape
    weights = torch.softmax(Q @ K.transpose(1, 2) / math.sqrt(d), dim=-1)
    weights = weights.view(n, length, length)
    return weights @ V, weights


@correct(pair)
class ChunkAndStack:
    """Cut the features into blocks and join them again."""

    def split(self, x, num_heads):
        return torch.stack(x.chunk(num_heads, dim=-1), dim=1)

    def merge(self, x):
        return torch.cat(x.unbind(dim=1), dim=-1)
