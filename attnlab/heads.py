"""Split the features of every token into heads, and merge the heads again."""

from __future__ import annotations

from torch import Tensor

from attnlab.checks import check_ndim, check_size, shape


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Return ``x`` with its features cut into heads, the heads in front of the tokens.

    Head h of token t holds the features ``h * head_dim`` to ``(h + 1) * head_dim - 1`` of token t.
    The features are cut first and the axes transposed afterwards: a ``view`` that goes to the
    final shape at once gives the correct shape and mixes the tokens.

    Parameters
    ----------
    x : Tensor, shape (..., L, embed_dim)
        One vector per token.
    num_heads : int
        Number of heads H; must divide ``embed_dim``.

    Returns
    -------
    Tensor, shape (..., num_heads, L, head_dim)
        A view of ``x``, with ``head_dim = embed_dim // num_heads``.

    Raises
    ------
    TypeError, ValueError
        If ``x`` has fewer than two dimensions or ``num_heads`` does not divide its last one.

    See Also
    --------
    merge_heads : the inverse.
    torch.nn.MultiheadAttention : does this internally.

    Examples
    --------
    >>> import torch
    >>> split_heads(torch.arange(6).view(1, 6), 2)
    tensor([[[0, 1, 2]],
    <BLANKLINE>
            [[3, 4, 5]]])
    """
    check_ndim("x", x, "(L, embed_dim)", at_least=2)
    num_heads = check_size("num_heads", num_heads, at_least=1)
    check_size("the number of features of x (dimension -1)", x.shape[-1], at_least=1)
    if x.shape[-1] % num_heads:
        raise ValueError(
            f"num_heads must divide embed_dim (dimension -1 of x), got x {shape(x)} and "
            f"num_heads {num_heads}: {x.shape[-1]} = {x.shape[-1] // num_heads} * {num_heads} "
            f"+ {x.shape[-1] % num_heads}."
        )
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)  # (..., H, L, head_dim)


def merge_heads(x: Tensor) -> Tensor:
    """Return ``x`` with the heads of every token joined into one vector again.

    Parameters
    ----------
    x : Tensor, shape (..., num_heads, L, head_dim)
        One vector per head and token.

    Returns
    -------
    Tensor, shape (..., L, num_heads * head_dim)
        ``merge_heads(split_heads(x, H))`` equals ``x``.

    Raises
    ------
    TypeError, ValueError
        If ``x`` has fewer than three dimensions.

    See Also
    --------
    split_heads : the inverse.
    torch.nn.MultiheadAttention : does this internally, before its output projection.

    Examples
    --------
    >>> import torch
    >>> merge_heads(torch.zeros(2, 3, 5, 7)).shape
    torch.Size([2, 5, 21])
    """
    check_ndim("x", x, "(num_heads, L, head_dim)", at_least=3)
    return x.transpose(-3, -2).flatten(-2)  # (..., L, H * head_dim)
