"""Masks cell by cell: a drawing says x where a query may attend to a key."""

import numpy as np
import pytest
import torch
from torch import Tensor

from attnlab import (
    causal_mask,
    combine_masks,
    from_hf_attention_mask,
    from_key_padding_mask,
    sequence_mask,
    sliding_window_mask,
    to_additive_mask,
)
from tests.helper.common import INF, refuses


def drawn(mask: Tensor) -> str:
    """Return the rows of a boolean mask, with a slash between them."""
    assert mask.dtype == torch.bool
    rows = mask.flatten(0, -2).tolist()
    return "/".join("".join("x" if allowed else "." for allowed in row) for row in rows)


RIGHT = {"align": "lower_right"}
THREE = torch.tensor(3)
DRAWINGS = [
    (lambda: causal_mask(3), "x../xx./xxx"),
    (lambda: causal_mask(3, **RIGHT), "x../xx./xxx"),
    (lambda: causal_mask(2, 4), "x.../xx.."),
    (lambda: causal_mask(2, 4, **RIGHT), "xxx./xxxx"),
    (lambda: causal_mask(4, 2), "x./xx/xx/xx"),
    (lambda: causal_mask(4, 2, **RIGHT), "../../x./xx"),
    (lambda: causal_mask(1, 4, **RIGHT), "xxxx"),
    (lambda: causal_mask(1), "x"),
    (lambda: sliding_window_mask(4, window=1), "x.../.x../..x./...x"),
    (lambda: sliding_window_mask(4, window=2), "xx../xxx./.xxx/..xx"),
    (lambda: sliding_window_mask(2, window=9), "xx/xx"),
    (lambda: sliding_window_mask(2, 4, window=2), "xx../xxx."),
    (lambda: sliding_window_mask(2, 4, window=2, **RIGHT), ".xxx/..xx"),
    (lambda: sliding_window_mask(4, 2, window=1, **RIGHT), "../../x./.x"),
    (lambda: sequence_mask([3, 0, 2]), "xxx/.../xx."),
    (lambda: sequence_mask(torch.tensor([3, 0, 2])), "xxx/.../xx."),
    (lambda: sequence_mask([3, 1], max_len=4), "xxx./x..."),
    (lambda: sequence_mask([[1, 2], [0, 3]]), "x../xx./.../xxx"),
    (lambda: sequence_mask(torch.tensor(2), 3)[None], "xx."),
    (lambda: sequence_mask([0, 0], max_len=2), "../.."),
    # integers of any kind
    (lambda: causal_mask(np.int64(2), THREE), "x../xx."),
    (lambda: causal_mask(np.uint8(2), np.uint8(1), **RIGHT), "./x"),  # 1 - 2 is 255 in uint8
    (lambda: sliding_window_mask(THREE, window=np.int32(1)), "x../.x./..x"),
    (lambda: sequence_mask(np.array([1, 2]), THREE), "x../xx."),
    (lambda: sequence_mask([THREE, torch.tensor(1)]), "xxx/x.."),
    # combined and converted
    (lambda: combine_masks(causal_mask(3), sequence_mask([2], 3)), "x../xx./xx."),
    (
        lambda: combine_masks(causal_mask(3), sliding_window_mask(3, window=2), ~causal_mask(3)),
        ".../.../...",
    ),
    (lambda: combine_masks(causal_mask(2), sequence_mask([1, 2])[:, None]), "x./x./x./xx"),
    (lambda: from_key_padding_mask(torch.tensor([[False, True], [True, True]])), "x./.."),
    (lambda: from_hf_attention_mask(torch.tensor([[1, 0, 1], [0, 0, 1]])), "x.x/..x"),
    (lambda: from_hf_attention_mask(torch.tensor([[1.0, 0.0]])), "x."),
    (lambda: from_hf_attention_mask(torch.tensor([[True, False]])), "x."),
]


@pytest.mark.parametrize(("make", "rows"), DRAWINGS)
def test_cell_by_cell(make, rows):
    assert drawn(make()) == rows


def test_shapes_broadcast_over_heads_and_queries():
    given = torch.zeros(2, 5, dtype=torch.bool)
    assert from_key_padding_mask(given).shape == (2, 1, 1, 5)
    assert from_hf_attention_mask(given).shape == (2, 1, 1, 5)
    assert combine_masks(causal_mask(5), given[:, None, None]).shape == (2, 1, 5, 5)


@pytest.mark.parametrize(
    ("lengths", "max_len", "shape"),
    [([], None, (0, 0)), ([], 3, (0, 3)), ([[], []], None, (2, 0, 0)), ([0, 0], None, (2, 0))],
)
def test_no_sequences_and_no_tokens(lengths, max_len, shape):
    assert sequence_mask(lengths, max_len).shape == shape
    assert sequence_mask(torch.tensor(lengths, dtype=torch.int64), max_len).shape == shape


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_what_is_added_is_zero_where_allowed_and_minus_infinity_where_blocked(dtype):
    mask = torch.tensor([[True, False]])
    assert to_additive_mask(mask, dtype).dtype == dtype
    assert to_additive_mask(mask, dtype).tolist() == [[0, -INF]]
    assert to_additive_mask(mask).dtype == torch.float32


def test_masks_are_made_on_the_device_that_is_asked_for():
    for make in (causal_mask, lambda L, **where: sliding_window_mask(L, window=2, **where)):
        assert make(3, device="meta").is_meta
        with torch.device("meta"):
            assert make(3, device="cpu").is_cpu
    with torch.device("meta"):
        given = torch.ones(2, 3, dtype=torch.bool, device="cpu")
        assert to_additive_mask(given).is_cpu
        assert sequence_mask(torch.ones(2, dtype=torch.int64, device="cpu")).is_cpu
    assert to_additive_mask(causal_mask(2, device="meta")).is_meta


@pytest.mark.parametrize("convert", [from_key_padding_mask, to_additive_mask, combine_masks])
def test_a_converted_mask_is_a_new_tensor(convert):
    mask = torch.tensor([[True, False]])
    converted = convert(mask)
    assert converted.untyped_storage().data_ptr() != mask.untyped_storage().data_ptr()
    assert mask.tolist() == [[True, False]]


SQUARE = torch.ones(3, 3, dtype=torch.bool)
FOUR = torch.ones(2, 3, 1, 5, dtype=torch.bool)
BAD = [  # a call, the kind of error, and how its sentence begins
    (lambda: causal_mask(-1), ValueError, r"L must be at least 0, got -1"),
    (lambda: causal_mask(2, -3), ValueError, r"S must be at least 0, got -3"),
    (lambda: causal_mask(2.0), TypeError, r"L must be an integer, got float 2.0"),
    (lambda: causal_mask(2, align="left"), ValueError, r"align must be 'upper_left' or 'lower_ri"),
    (lambda: sliding_window_mask(3, window=0), ValueError, r"window must be at least 1, got 0"),
    (lambda: sequence_mask([1.5]), TypeError, r"lengths must be integers, got torch.float32"),
    (lambda: sequence_mask([True]), TypeError, r"lengths must be integers, got torch.bool"),
    (lambda: sequence_mask([1j]), TypeError, r"lengths must be integers, got torch.complex64"),
    (lambda: sequence_mask("abc"), TypeError, r"lengths must be integers, got 'abc'"),
    (lambda: sequence_mask([[1], [2, 3]]), TypeError, r"lengths must be integers, got \[\[1\], \["),
    (lambda: sequence_mask([10**400]), TypeError, r"lengths must be integers, got"),
    (lambda: sequence_mask(torch.zeros(0)), TypeError, r"lengths must be integers, got torch.flo"),
    (lambda: sequence_mask([3, -2]), ValueError, r"lengths must not be negative, got -2"),
    (lambda: sequence_mask([3, 9], 7), ValueError, r"lengths must not exceed max_len, got 9 > 7"),
    (lambda: sequence_mask([3], 0), ValueError, r"lengths must not exceed max_len, got 3 > 0"),
    (lambda: sequence_mask([], -1), ValueError, r"max_len must be at least 0, got -1"),
    (lambda: combine_masks(), ValueError, r"combine_masks needs at least one mask"),
    (lambda: combine_masks(SQUARE, SQUARE.float()), TypeError, r"mask 1 must be .* from_hf_atten"),
    (lambda: combine_masks(SQUARE, SQUARE[:2]), ValueError, r"masks .* got \(3, 3\) and \(2, 3\)"),
    (lambda: combine_masks(SQUARE, SQUARE.to("meta")), ValueError, r"mask 0 and mask 1 .* device"),
    (lambda: from_key_padding_mask(SQUARE.int()), TypeError, r"key_.* \(True = padding\), got tor"),
    (lambda: from_key_padding_mask([True]), TypeError, r"key_padding_mask must be a torch.Tensor"),
    (lambda: from_key_padding_mask(SQUARE[0]), ValueError, r"key_.* \(N, S\), .*; give one row pe"),
    (lambda: to_additive_mask(SQUARE.float()), TypeError, r"attn_mask must be a bool tensor"),
    (lambda: to_additive_mask(SQUARE, torch.int64), TypeError, r"dtype must be .* got torch.int64"),
    (lambda: from_hf_attention_mask(torch.ones(7)), ValueError, r"attention_mask .* \(N, S\), got"),
    (
        lambda: from_hf_attention_mask(SQUARE * -9.0),
        ValueError,
        r"attention_mask .* got -9.0; for a mask that is added",
    ),
]


test_a_bad_call_gets_a_sentence = refuses(BAD)
