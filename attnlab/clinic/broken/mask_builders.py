"""Broken: functions that build a mask (True = may attend) of the wrong cells, kind or shape."""

import torch

from attnlab.clinic.broken._case import broken


@broken("mask-inverted", misconception="M1", met="the buffer of LLMs-from-scratch and ARENA")
def causal_mask_of_blocked(size):
    """Say True where the future is, the convention of nn.MultiheadAttention."""
    return torch.ones(size, size, dtype=torch.bool).triu(diagonal=1)


@broken("mask-inverted", misconception="M1", met="key_padding_mask's convention")
def padding_mask_of_padding(lengths, max_len):
    """Say True where the padding is."""
    return torch.arange(max_len)[None, :] >= lengths[:, None]


@broken("causal-flipped", misconception="triu for tril", met="triu for tril")
def causal_mask_upper(L):
    """Allow the own key and the later ones."""
    return torch.triu(torch.ones(L, L)).bool()


@broken("mask-transposed", misconception="M10", met="rows and columns exchanged")
def padding_mask_in_columns(lengths, max_len):
    """Put the sentences into the columns: (S, N) instead of (N, S)."""
    return torch.arange(max_len)[:, None] < lengths[None, :]


@broken("causal-off-by-one", misconception="which diagonal", met="tril(diagonal=1)")
def causal_mask_one_ahead(length):
    """Allow the next key too."""
    return torch.ones(length, length, dtype=torch.bool).tril(diagonal=1)


@broken("causal-off-by-one", misconception="which diagonal", met="< instead of <=")
def causal_mask_strict(n):
    """Forbid the own key."""
    positions = torch.arange(n)
    return positions[None, :] < positions[:, None]


@broken("length-off-by-one", misconception="counting from 1", met="<= instead of <")
def padding_mask_one_more(lengths, max_len):
    """Allow the first padding token, because positions count from 0."""
    return torch.arange(max_len) <= lengths.unsqueeze(1)


@broken("length-off-by-one", misconception="counting from 1", met="range from 1")
def sequence_mask_one_less(lengths, max_len):
    """Cut the last real token off, because positions are made to count from 1."""
    return torch.arange(1, max_len + 1)[None, :] < lengths[:, None]


@broken("mask-dtype", misconception="M1", met="tril(ones) handed to the fused kernel", strict=True)
def causal_mask_of_floats(size):
    """Return floats 0 and 1, which a kernel would add to the scores."""
    return torch.tril(torch.ones(size, size))


@broken(
    "square-only", misconception="attention tables are square", met="self-attention code reused"
)
def causal_mask_always_square(L, S=None):
    """Ignore S and return (L, L)."""
    return torch.ones(L, L, dtype=torch.bool).tril()


@broken("nan", misconception="0 times infinity is 0", met="additive mask by a product")
def causal_mask_by_product(length):
    """Multiply 0 and 1 by -inf: 0 times -inf is NaN."""
    return torch.triu(torch.ones(length, length), diagonal=1) * float("-inf")
