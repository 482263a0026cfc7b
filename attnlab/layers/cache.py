"""Keep the keys and values of the tokens that were read, so that a new token costs one row."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.checks import check_floating, check_ndim, check_same_kind, check_size, shape


class KeyValueCache:
    """The keys and values of one attention layer for the tokens read so far.

    Parameters
    ----------
    window : int, optional
        How many of the last tokens are kept; all of them if not given.

    Attributes
    ----------
    key, value : Tensor, shape (..., kept, E) and (..., kept, Ev), or None
        What is kept; None before the first tokens.
    length : int
        How many tokens were appended altogether. The next token has this position.
    kept : int
        How many of them are still here.
    nbytes : int
        How many bytes the keys and values take.

    Raises
    ------
    TypeError, ValueError
        If ``window`` is not a positive integer.

    See Also
    --------
    MultiHeadAttention : takes one as ``cache``.
    torch.nn.functional.scaled_dot_product_attention : takes what ``append`` returns; its
        ``is_causal=True`` is wrong here, because it pairs the first query with the first key.

    Notes
    -----
    A cache takes 2 N H_kv head_dim numbers for each token that is kept, in every layer. Appending
    copies what is there. Programs made for speed write into memory that was reserved beforehand.

    References
    ----------
    Pope et al., "Efficiently Scaling Transformer Inference", 2022, section 2.
    https://arxiv.org/abs/2211.05102

    Examples
    --------
    >>> cache = KeyValueCache(window=3)
    >>> for length in (4, 1):
    ...     key, value = cache.append(torch.zeros(1, length, 2), torch.zeros(1, length, 2))
    >>> cache, key.shape
    (KeyValueCache(length=5, kept=3, window=3), torch.Size([1, 3, 2]))
    """

    def __init__(self, *, window: int | None = None) -> None:
        self.window = None if window is None else check_size("window", window, at_least=1)
        self.key: Tensor | None = None
        self.value: Tensor | None = None
        self.length = 0

    @property
    def kept(self) -> int:
        """How many tokens are kept."""
        return 0 if self.key is None else self.key.shape[-2]

    @property
    def nbytes(self) -> int:
        """How many bytes the keys and values take."""
        return 0 if self.key is None else self.key.nbytes + self.value.nbytes

    @property
    def reach(self) -> int:
        """How many of the kept tokens a new token can still see."""
        return self.kept if self.window is None else min(self.kept, self.window - 1)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new tokens, and return those that the new tokens can see.

        Parameters
        ----------
        key : Tensor, shape (..., L, E)
            Keys of L new tokens.
        value : Tensor, shape (..., L, Ev)
            Their values.

        Returns
        -------
        tuple of Tensor, shapes (..., S, E) and (..., S, Ev)
            With S = reach + L: first the earlier tokens, then the new ones. Only the last
            ``window`` of them are kept.

        Raises
        ------
        TypeError, ValueError
            If the two do not belong together or do not fit what is kept. The cache then stays as
            it was.

        See Also
        --------
        causal_mask : ``align="lower_right"`` is the mask for L queries and S keys.

        Examples
        --------
        >>> cache = KeyValueCache()
        >>> _ = cache.append(torch.zeros(1, 2), torch.zeros(1, 2))
        >>> cache.append(torch.ones(1, 2), torch.ones(1, 2))[0]
        tensor([[0., 0.],
                [1., 1.]])
        """
        self._check(key, value)
        seen = (self._joined(self.key, key), self._joined(self.value, value))
        self.length += key.shape[-2]
        self.key, self.value = (self._last(tensor) for tensor in seen)
        return seen

    def _joined(self, old: Tensor | None, new: Tensor) -> Tensor:
        """Return what new tokens can see, (..., reach + L, E): always a new tensor."""
        earlier = [] if old is None else [old[..., self.kept - self.reach :, :]]
        return torch.cat([*earlier, new], dim=-2)

    def _last(self, tensor: Tensor) -> Tensor:
        """Return what stays of (..., S, E); a copy if less, so that the rest can be freed."""
        if self.window is None or tensor.shape[-2] <= self.window:
            return tensor
        return tensor[..., -self.window :, :].clone()

    def _check(self, key: Tensor, value: Tensor) -> None:
        for name, tensor, letters in (("key", key, "(L, E)"), ("value", value, "(L, Ev)")):
            check_floating(name, tensor)
            check_ndim(name, tensor, letters, at_least=2)
        check_same_kind("key", key, "value", value)
        if key.shape[:-1] != value.shape[:-1]:
            raise ValueError(
                "key and value must have the same shape up to their features, "
                f"got {shape(key)} and {shape(value)}."
            )
        if self.key is None:
            return
        for name, new, old in (("key", key, self.key), ("value", value, self.value)):
            check_same_kind(f"the cache's {name}", old, name, new)
            if (new.shape[:-2], new.shape[-1]) != (old.shape[:-2], old.shape[-1]):
                raise ValueError(
                    f"{name} must fit the cache in all dimensions but its length (dimension -2), "
                    f"got {shape(new)} for a cache of {shape(old)}."
                )

    def __repr__(self) -> str:
        return f"KeyValueCache(length={self.length}, kept={self.kept}, window={self.window})"
