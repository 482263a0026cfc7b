"""Boolean masks: build them, convert them, combine them. True always means "may attend".

Other conventions exist, and mixing them up raises no error. This is what True or 1 means there:

=====================================================  ================  ==========================
where                                                  True / 1 means    to ours
=====================================================  ================  ==========================
attnlab, ``F.scaled_dot_product_attention``            may attend        nothing to do
``nn.MultiheadAttention`` ``attn_mask``                blocked           ``~mask``
``nn.MultiheadAttention`` ``key_padding_mask``         padding           ``from_key_padding_mask``
Hugging Face ``attention_mask``                        real token        ``from_hf_attention_mask``
lengths of the sequences                               a count           ``sequence_mask``
=====================================================  ================  ==========================
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab.checks import (
    FLOATING,
    check_bool,
    check_choice,
    check_exact_ndim,
    check_same_device,
    check_size,
    check_tensor,
    shape,
    short,
)

ALIGNMENTS = ("upper_left", "lower_right")


def causal_mask(
    L: int,
    S: int | None = None,
    *,
    align: str = "upper_left",
    device: torch.device | str | None = None,
) -> Tensor:
    """Return the mask under which no query attends to a later key.

    Parameters
    ----------
    L : int
        Number of queries.
    S : int, optional
        Number of keys; ``L`` if not given.
    align : {"upper_left", "lower_right"}
        Which corner the diagonal starts from when ``L != S``. ``"upper_left"`` pairs query 0 with
        key 0, as torch's ``is_causal=True`` does. ``"lower_right"`` pairs the last query with the
        last key, as decoding with a cache of earlier keys needs it.
    device : torch.device or str, optional
        Device of the mask; torch's default device if not given.

    Returns
    -------
    Tensor of bool, shape (L, S)
        True where query i may attend to key j.

    Raises
    ------
    TypeError, ValueError
        If a size is not a nonnegative integer, or ``align`` or ``device`` is unknown.

    See Also
    --------
    torch.nn.functional.scaled_dot_product_attention : ``is_causal=True`` is ``"upper_left"``.

    Notes
    -----
    With ``"lower_right"`` and ``L > S`` the first ``L - S`` queries have no allowed key.

    Examples
    --------
    >>> causal_mask(2, 4, align="lower_right").int()
    tensor([[1, 1, 1, 0],
            [1, 1, 1, 1]], dtype=torch.int32)
    """
    return distance(L, S, align, device) <= 0  # (L, S)


def sliding_window_mask(
    L: int,
    S: int | None = None,
    *,
    window: int,
    align: str = "upper_left",
    device: torch.device | str | None = None,
) -> Tensor:
    """Return the mask under which a query attends only to keys nearer than ``window`` positions.

    Parameters
    ----------
    L, S, align, device
        As in ``causal_mask``.
    window : int
        A key is allowed while its distance to the query, before or after, is below ``window``.
        Combined with a causal mask this leaves the query's own key and the ``window - 1`` before.

    Returns
    -------
    Tensor of bool, shape (L, S)
        True where query i may attend to key j.

    Raises
    ------
    TypeError, ValueError
        If a size or ``window`` is not an integer in range, or ``align`` or ``device`` is unknown.

    See Also
    --------
    causal_mask : blocks the later keys.
    torch.nn.attention.flex_attention.create_block_mask : windows written as a function of i and j.

    References
    ----------
    Beltagy et al., "Longformer", 2020, section 3.1. https://arxiv.org/abs/2004.05150

    Examples
    --------
    >>> combine_masks(causal_mask(4), sliding_window_mask(4, window=2)).int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 1, 1, 0],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    window = check_size("window", window, at_least=1)
    return distance(L, S, align, device).abs() < window


def sequence_mask(lengths: Tensor | Sequence[int], max_len: int | None = None) -> Tensor:
    """Return which positions of each padded sequence hold a real token.

    Parameters
    ----------
    lengths : Tensor of int or sequence of int, shape (...)
        Number of real tokens of each sequence; padding comes after them.
    max_len : int, optional
        Padded length S; the largest of ``lengths`` if not given.

    Returns
    -------
    Tensor of bool, shape (..., S)
        True where the position holds a real token. As an attention mask for scores of shape
        (N, H, L, S), use ``sequence_mask(lengths)[:, None, None, :]``.

    Raises
    ------
    TypeError
        If ``lengths`` or ``max_len`` are not integers.
    ValueError
        If a length is negative or larger than ``max_len``.

    See Also
    --------
    torch.nn.utils.rnn.pad_sequence : pads the sequences themselves.

    Examples
    --------
    >>> sequence_mask([3, 1]).int()
    tensor([[1, 1, 1],
            [1, 0, 0]], dtype=torch.int32)
    """
    lengths = _integers("lengths", lengths)
    if lengths.numel() and int(lengths.min()) < 0:
        raise ValueError(f"lengths must not be negative, got {int(lengths.min())}.")
    longest = int(lengths.max()) if lengths.numel() else 0
    max_len = longest if max_len is None else check_size("max_len", max_len, at_least=0)
    if longest > max_len:
        raise ValueError(f"lengths must not exceed max_len, got {longest} > {max_len}.")
    return torch.arange(max_len, device=lengths.device) < lengths[..., None]


def combine_masks(*masks: Tensor) -> Tensor:
    """Return the mask that allows what every given mask allows (logical and).

    Parameters
    ----------
    *masks : Tensor of bool
        One or more masks whose shapes broadcast together, all on one device.

    Returns
    -------
    Tensor of bool
        True where every mask is True; the broadcast shape.

    Raises
    ------
    TypeError
        If a mask is not boolean.
    ValueError
        If no mask is given, or shapes or devices do not fit together.

    See Also
    --------
    torch.logical_and : the same for two tensors, without the checks.

    Examples
    --------
    >>> real = sequence_mask([2], max_len=3)                   # (N, S)
    >>> combine_masks(causal_mask(3), real[:, None, None, :]).shape
    torch.Size([1, 1, 3, 3])
    """
    if not masks:
        raise ValueError("combine_masks needs at least one mask, got none.")
    for position, mask in enumerate(masks):
        check_bool(f"mask {position}", mask)
        check_same_device("mask 0", masks[0], f"mask {position}", mask)
    try:
        torch.broadcast_shapes(*(mask.shape for mask in masks))
    except RuntimeError:
        shapes = " and ".join(shape(mask) for mask in masks)
        raise ValueError(f"masks must have shapes that broadcast together, got {shapes}.") from None
    combined = masks[0].clone()
    for mask in masks[1:]:
        combined = combined & mask
    return combined


def from_key_padding_mask(key_padding_mask: Tensor) -> Tensor:
    """Return the attention mask for a torch ``key_padding_mask``, where True means padding.

    Parameters
    ----------
    key_padding_mask : Tensor of bool, shape (N, S)
        True where the key is padding, as ``nn.MultiheadAttention`` wants it.

    Returns
    -------
    Tensor of bool, shape (N, 1, 1, S)
        True where the key may be attended to; broadcasts over heads and queries.

    Raises
    ------
    TypeError
        If the mask is not boolean.
    ValueError
        If the mask does not have two dimensions.

    See Also
    --------
    torch.nn.MultiheadAttention : takes ``key_padding_mask``.

    Examples
    --------
    >>> from_key_padding_mask(torch.tensor([[False, False, True]]))
    tensor([[[[ True,  True, False]]]])
    """
    check_tensor("key_padding_mask", key_padding_mask)
    if key_padding_mask.dtype != torch.bool:  # True means padding here: check_bool says otherwise
        convert = "for 0 and 1 (1 = padding), use key_padding_mask.bool()"
        if (key_padding_mask < 0).any():
            convert = "for 0 and -inf, which are added to the scores, use key_padding_mask < 0"
        raise TypeError(
            f"key_padding_mask must be bool (True = padding), got {key_padding_mask.dtype}; "
            f"{convert}."
        )
    check_exact_ndim(
        "key_padding_mask", key_padding_mask, "(N, S)", ndim=2, fix="give one row per sequence."
    )
    return ~key_padding_mask[:, None, None, :]


def to_additive_mask(attn_mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the float mask that is added to the scores: 0 where allowed, -inf where blocked.

    Parameters
    ----------
    attn_mask : Tensor of bool
        True where the query may attend to the key.
    dtype : torch.dtype
        A floating point dtype: that of the scores.

    Returns
    -------
    Tensor of ``dtype``, same shape
        0 and ``-inf``.

    Raises
    ------
    TypeError
        If the mask is not boolean or ``dtype`` is not a floating point dtype.

    See Also
    --------
    torch.nn.functional.scaled_dot_product_attention : takes both kinds.

    Examples
    --------
    >>> to_additive_mask(causal_mask(2))
    tensor([[0., -inf],
            [0., 0.]])
    """
    check_bool("attn_mask", attn_mask)
    if dtype not in FLOATING:
        raise TypeError(f"dtype must be a floating-point torch.dtype, got {short(dtype)}.")
    zeros = torch.zeros(attn_mask.shape, dtype=dtype, device=attn_mask.device)
    return zeros.masked_fill(~attn_mask, -torch.inf)


def from_hf_attention_mask(attention_mask: Tensor) -> Tensor:
    """Return the attention mask for a Hugging Face ``attention_mask`` of 0s and 1s.

    Parameters
    ----------
    attention_mask : Tensor of int, bool or float, shape (N, S)
        1 where the token is real, 0 where it is padding, as a tokenizer returns it.

    Returns
    -------
    Tensor of bool, shape (N, 1, 1, S)
        True where the key may be attended to; broadcasts over heads and queries.

    Raises
    ------
    TypeError
        If the mask is not a tensor.
    ValueError
        If the mask does not have two dimensions or holds values other than 0 and 1.

    See Also
    --------
    from_key_padding_mask : torch's convention, the opposite one.

    Examples
    --------
    >>> from_hf_attention_mask(torch.tensor([[1, 1, 0]]))
    tensor([[[[ True,  True, False]]]])
    """
    check_tensor("attention_mask", attention_mask)
    odd = attention_mask[(attention_mask != 0) & (attention_mask != 1)]
    added = bool((odd < 0).any())  # 0 and a large negative number, as inside a model
    fix = "give one row per text."
    if attention_mask.ndim == 4:
        whole = "attention_mask == 0" if added else "attention_mask.bool()"
        fix = f"it has rows for the queries already: use {whole} as attn_mask."
    check_exact_ndim("attention_mask", attention_mask, "(N, S)", ndim=2, fix=fix)
    if odd.numel():
        fix = "for a mask that is added to the scores, use attention_mask == 0"
        if not added:
            fix = (
                "for numbers of packed texts, use (ids[:, :, None] == ids[:, None])[:, None] as "
                "attn_mask; of position ids, (position_ids == 0).cumsum(dim=-1) makes such numbers"
            )
        raise ValueError(
            f"attention_mask must hold 0s and 1s only, got {odd.flatten()[0].item()}; {fix}."
        )
    return attention_mask.bool()[:, None, None, :]


def distance(L: int, S: int | None, align: str, device: torch.device | str | None) -> Tensor:
    """Return (L, S): how many positions key j comes after the key opposite query i."""
    L = check_size("L", L, at_least=0)
    S = L if S is None else check_size("S", S, at_least=0)
    check_choice("align", align, ALIGNMENTS)
    first = S - L if align == "lower_right" else 0
    opposite = torch.arange(L, device=device) + first
    return torch.arange(S, device=device) - opposite[:, None]


def _integers(name: str, values: Tensor | Sequence[int]) -> Tensor:
    """Return integers as a tensor, whatever sequence they come in."""
    try:
        tensor = values if isinstance(values, Tensor) else torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"{name} must be integers, got {short(values)}.") from None
    if tensor is not values and not tensor.numel():
        return tensor.long()  # torch takes [] for floating-point
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise TypeError(f"{name} must be integers, got {tensor.dtype}.")
    return tensor
