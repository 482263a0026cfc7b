"""Broken: pairs (or halves of pairs) that split features into heads and merge them again."""

# ruff: noqa: D102  (one sentence on the class says what its two functions do)

from attnlab.clinic.broken._case import broken


@broken("split-without-transpose", misconception="M3", met="forum question")
class SplitByView:
    """View straight as (N, H, L, head_dim); the merge is the right one."""

    @staticmethod
    def split(x, num_heads):
        n, length, width = x.shape
        return x.view(n, num_heads, length, width // num_heads)

    @staticmethod
    def merge(x):
        return x.transpose(1, 2).flatten(2)


@broken("merge-without-transpose", misconception="M3", met="Transformer-Neural-Network issue 8")
class MergeByReshape:
    """Split rightly and reshape straight back."""

    @staticmethod
    def split(x, num_heads):
        n, length, width = x.shape
        return x.reshape(n, length, num_heads, width // num_heads).permute(0, 2, 1, 3)

    @staticmethod
    def merge(x):
        n, heads, length, head_dim = x.shape
        return x.reshape(n, length, heads * head_dim)


@broken("split-and-merge", misconception="M3", met="TinyTorch's round trip passes it (anchors B9)")
class ReshapeBothWays:
    """Reshape there and back: the round trip is right and both halves are wrong."""

    @staticmethod
    def split(x, num_heads):
        n, length, width = x.shape
        return x.reshape(n, num_heads, length, width // num_heads)

    @staticmethod
    def merge(x):
        n, heads, length, head_dim = x.shape
        return x.reshape(n, length, heads * head_dim)


@broken("heads-order", misconception="which axis is the head", met="view with (head_dim, H)")
class InterleavedHeads:
    """Give head h every H-th feature instead of its block of neighbours."""

    @staticmethod
    def split(x, num_heads):
        return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)

    @staticmethod
    def merge(x):
        return x.permute(0, 2, 3, 1).flatten(2)


@broken(
    "heads-order", misconception="order of heads is free", met="stack built with insert(0, ...)"
)
class HeadsBackwards:
    """Number the heads from the last block to the first, both ways."""

    @staticmethod
    def split(x, num_heads):
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).flip(1)

    @staticmethod
    def merge(x):
        return x.flip(1).transpose(1, 2).flatten(2)


@broken("heads-order", misconception="each half looks fine", met="two halves from two answers")
class TwoLayouts:
    """Split into blocks and merge as if the heads were interleaved."""

    @staticmethod
    def split(x, num_heads):
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    @staticmethod
    def merge(x):
        return x.permute(0, 2, 3, 1).flatten(2)


@broken("batch-mixing", misconception="M12", met="sequence-first code on batch-first data")
class SplitSequenceFirst:
    """Read (N, L, D) as (L, N, D) on the way in and on the way out."""

    @staticmethod
    def split(x, num_heads):
        n, length, width = x.shape
        return x.reshape(length, n, num_heads, width // num_heads).permute(1, 2, 0, 3)

    @staticmethod
    def merge(x):
        n, heads, length, head_dim = x.shape
        return x.permute(2, 0, 1, 3).reshape(n, length, heads * head_dim)


@broken("contiguity", misconception="M15", met="LLMs-from-scratch issue 61")
class MergeByView:
    """Merge with view, which works on a fresh split and fails on the output of a matmul."""

    @staticmethod
    def split(x, num_heads):
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    @staticmethod
    def merge(x):
        n, heads, length, head_dim = x.shape
        return x.transpose(1, 2).view(n, length, heads * head_dim)


@broken(
    "round-trip",
    misconception="batch and heads may be joined in any order",
    met="heads folded into the batch",
)
class HeadsFoldedTwoWays:
    """Fold the heads behind the batch on the way there and in front of it on the way back."""

    @staticmethod
    def split(x, num_heads):
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).flatten(0, 1)

    @staticmethod
    def merge(x, num_heads):
        return x.unflatten(0, (num_heads, -1)).permute(1, 2, 0, 3).flatten(2)


@broken("split-without-transpose", misconception="M3", met="forum question")
def split_heads_in_one_step(x, num_heads):
    """Reshape to four axes in the wanted order without moving anything."""
    batch, length, width = x.shape
    return x.reshape(batch, num_heads, length, width // num_heads)


@broken("merge-without-transpose", misconception="M3", met="forum question")
def merge_heads_in_one_step(x):
    """Flatten heads and features although the length stands between them."""
    batch, heads, length, head_dim = x.shape
    return x.contiguous().view(batch, length, heads * head_dim)
