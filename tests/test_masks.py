"""Masks are compared cell by cell with drawings, and with torch's own flags."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attnlab import (
    causal_mask,
    combine_masks,
    from_hf_attention_mask,
    from_key_padding_mask,
    scaled_dot_product_attention,
    sequence_mask,
    sliding_window_mask,
    to_additive_mask,
    to_key_padding_mask,
)

N, H, L, S = 2, 3, 5, 7


def drawn(mask: Tensor) -> list[str]:
    """Return a mask as rows of text: x where the query may attend to the key."""
    return ["".join("x" if allowed else "." for allowed in row) for row in mask.tolist()]


def assert_bool(mask: Tensor) -> None:
    assert mask.dtype == torch.bool


# --- building -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "align", "rows"),
    [
        ((3,), "upper_left", ["x..", "xx.", "xxx"]),
        ((3,), "lower_right", ["x..", "xx.", "xxx"]),
        ((2, 4), "upper_left", ["x...", "xx.."]),
        ((2, 4), "lower_right", ["xxx.", "xxxx"]),
        ((4, 2), "upper_left", ["x.", "xx", "xx", "xx"]),
        ((4, 2), "lower_right", ["..", "..", "x.", "xx"]),
        ((1, 4), "lower_right", ["xxxx"]),
        ((1, 1), "upper_left", ["x"]),
    ],
)
def test_causal_mask_cell_by_cell(size, align, rows):
    mask = causal_mask(*size, align=align)
    assert align == "lower_right" or torch.equal(mask, causal_mask(*size))
    assert_bool(mask)
    assert drawn(mask) == rows


def test_lower_right_is_what_decoding_with_a_cache_needs():
    x = torch.randn(S, 11)
    whole = scaled_dot_product_attention(x, x, x, is_causal=True)
    last = scaled_dot_product_attention(
        x[-2:], x, x, attn_mask=causal_mask(2, S, align="lower_right")
    )
    assert_close(last, whole[-2:])


@pytest.mark.parametrize(
    ("size", "options", "rows"),
    [
        ((4,), {"window": 1}, ["x...", ".x..", "..x.", "...x"]),
        ((4,), {"window": 2}, ["xx..", "xxx.", ".xxx", "..xx"]),
        ((4,), {"window": 9}, ["xxxx"] * 4),
        ((2, 4), {"window": 2}, ["xx..", "xxx."]),
        ((2, 4), {"window": 2, "align": "lower_right"}, [".xxx", "..xx"]),
        ((4, 2), {"window": 1, "align": "lower_right"}, ["..", "..", "x.", ".x"]),
    ],
    ids=str,
)
def test_sliding_window_mask_cell_by_cell(size, options, rows):
    mask = sliding_window_mask(*size, **options)
    assert_bool(mask)
    assert drawn(mask) == rows


@pytest.mark.parametrize("lengths", [[3, 0, 2], torch.tensor([3, 0, 2])], ids=["list", "tensor"])
def test_sequence_mask_cell_by_cell(lengths):
    assert_bool(sequence_mask(lengths))
    assert drawn(sequence_mask(lengths)) == ["xxx", "...", "xx."]
    assert drawn(sequence_mask(lengths, max_len=5)) == ["xxx..", ".....", "xx..."]


def test_sequence_mask_of_any_shape_of_lengths():
    assert sequence_mask(torch.tensor([[1, 2, 3], [0, 5, 4]]), S).shape == (N, H, S)
    assert drawn(sequence_mask(torch.tensor(2), 3)[None]) == ["xx."]
    assert sequence_mask(torch.zeros(0, dtype=torch.int64)).shape == (0, 0)


@pytest.mark.parametrize(
    "make", [causal_mask, lambda L, **kw: sliding_window_mask(L, window=2, **kw)]
)
def test_masks_are_made_on_the_device_that_is_asked_for(make):
    assert make(L, device="meta").device.type == "meta"
    with torch.device("meta"):
        assert make(L, device="cpu").device.type == "cpu"


# --- combining ------------------------------------------------------------------------------------


def test_combined_masks_allow_what_all_of_them_allow():
    causal, window = causal_mask(L), sliding_window_mask(L, window=2)
    real = from_hf_attention_mask(torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]]))
    combined = combine_masks(causal, window, real)
    assert_bool(combined)
    assert combined.shape == (N, 1, L, L)
    assert torch.equal(combined, torch.logical_and(torch.logical_and(causal, window), real))
    assert drawn(combined[0, 0]) == [".....", ".x...", ".xx..", "..xx.", "...xx"]
    assert torch.equal(causal, causal_mask(L))  # nothing is combined in place


# --- converting -----------------------------------------------------------------------------------


def test_three_conventions_of_padding_say_the_same():
    real = sequence_mask([5, 3], S)[:, None, None, :]
    assert real.shape == (N, 1, 1, S)
    hugging_face = torch.tensor([[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0, 0]])
    for dtype in (torch.int64, torch.bool, torch.float32):
        assert torch.equal(from_hf_attention_mask(hugging_face.to(dtype)), real)
    assert torch.equal(from_key_padding_mask(hugging_face == 0), real)
    assert torch.equal(to_key_padding_mask(real), hugging_face == 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_additive_mask_is_zero_where_allowed_and_minus_infinity_where_blocked(dtype):
    additive = to_additive_mask(torch.tensor([[True, False]]), dtype)
    assert additive.dtype == dtype
    assert additive.tolist() == [[0.0, float("-inf")]]


def test_additive_mask_is_float32_if_not_told_otherwise_and_stays_on_its_device():
    assert to_additive_mask(causal_mask(2)).dtype == torch.float32
    assert to_additive_mask(causal_mask(2, device="meta")).device.type == "meta"


@pytest.mark.parametrize(
    "convert", [from_key_padding_mask, from_hf_attention_mask, to_additive_mask, combine_masks]
)
def test_converters_leave_the_given_mask_alone(convert):
    mask = torch.rand(N, S) < 0.5
    before = mask.clone()
    converted = convert(mask)
    assert torch.equal(mask, before)
    assert mask._version == 0
    if convert is not from_hf_attention_mask:  # that one returns a view: nothing has to change
        assert converted.untyped_storage().data_ptr() != mask.untyped_storage().data_ptr()
