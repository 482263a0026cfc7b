"""Right: pairs that split and merge heads, mask builders and softmaxes."""

# ruff: noqa: D102  (one sentence on the class says what its two functions do)

import torch

from attnlab.clinic.broken._case import right


@right()
class ViewAndTranspose:
    """Split and merge with view and transpose."""

    @staticmethod
    def split(x, num_heads):
        n, length, width = x.shape
        return x.reshape(n, length, num_heads, width // num_heads).transpose(1, 2)

    @staticmethod
    def merge(x):
        n, heads, length, head_dim = x.shape
        return x.transpose(1, 2).contiguous().view(n, length, heads * head_dim)


@right()
class UnflattenAndPermute:
    """Split and merge any number of axes in front."""

    @staticmethod
    def split(x, num_heads):
        return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)

    @staticmethod
    def merge(x):
        return x.transpose(-3, -2).flatten(-2)


@right()
class ChunkAndStack:
    """Cut the features into blocks and join them again."""

    @staticmethod
    def split(x, num_heads):
        return torch.stack(x.chunk(num_heads, dim=-1), dim=1)

    @staticmethod
    def merge(x):
        return torch.cat(x.unbind(dim=1), dim=-1)


@right()
class EinsumThereAndBack:
    """Move the axes with einsum."""

    @staticmethod
    def split(x, num_heads):
        n, length, width = x.shape
        return torch.einsum("nlhd->nhld", x.reshape(n, length, num_heads, width // num_heads))

    @staticmethod
    def merge(x):
        n, heads, length, head_dim = x.shape
        return torch.einsum("nhld->nlhd", x).reshape(n, length, heads * head_dim)


@right()
def split_heads_alone(x, num_heads):
    """Split into heads; the merge is somebody else's."""
    batch, length, width = x.shape
    return x.reshape(batch, length, num_heads, width // num_heads).permute(0, 2, 1, 3)


@right()
def causal_mask_by_tril(size):
    """Keep the lower triangle."""
    return torch.tril(torch.ones(size, size, dtype=torch.bool))


@right()
def causal_mask_by_inverted_triu(L, S=None):
    """Negate the upper triangle above the diagonal, for any number of keys."""
    return ~torch.ones(L, S or L, dtype=torch.bool).triu(diagonal=1)


@right()
def causal_mask_by_positions(length):
    """Compare the positions of key and query."""
    positions = torch.arange(length)
    return positions[None, :] <= positions[:, None]


@right()
def causal_mask_to_add(n):
    """Build an additive mask, 0 and -inf."""
    return torch.full((n, n), float("-inf")).triu(diagonal=1)


@right()
def padding_mask_from_lengths(lengths, max_len):
    """Say True for the real tokens of each sentence."""
    return torch.arange(max_len)[None, :] < lengths[:, None]


@right()
def softmax_with_maximum(x):
    """Subtract the maximum of each row first."""
    exps = torch.exp(x - x.max(dim=-1, keepdim=True).values)
    return exps / exps.sum(dim=-1, keepdim=True)


@right()
def softmax_by_logsumexp(scores):
    """Subtract the logarithm of the sum of exponentials."""
    return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()


@right()
def softmax_with_axis(x, dim=-1):
    """Take the axis as an argument, the last one by default."""
    shifted = x - x.amax(dim=dim, keepdim=True)
    return shifted.exp() / shifted.exp().sum(dim=dim, keepdim=True)


@right()
def softmax_of_torch(x):
    """Call torch's own."""
    return torch.nn.functional.softmax(x, dim=-1)
