"""Splitting and merging heads: every number arrives at its head, token and feature."""

import numpy as np
import pytest
import torch

from attnlab import merge_heads, split_heads
from tests.helper.common import refuses

H, L, D = 3, 5, 7  # heads, tokens, features of a head


@pytest.mark.parametrize("num_heads", [1, H, D, H * D])
@pytest.mark.parametrize("lead", [(), (2,), (2, 11), (2, 1, 11), (0,)], ids=str)
def test_each_head_holds_its_slice_of_the_features_as_a_view(lead, num_heads):
    x = torch.randn(*lead, L, H * D)
    heads = split_heads(x, num_heads)
    size = H * D // num_heads
    assert heads.shape == (*lead, num_heads, L, size)
    for h in range(num_heads):
        assert torch.equal(heads[..., h, :, :], x[..., h * size : (h + 1) * size])
    assert heads.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert torch.equal(merge_heads(heads), x)


def test_any_order_in_memory_and_any_integer():
    x = torch.randn(2, H * D, L).mT
    for num_heads in (H, np.int64(H), torch.tensor(H)):
        assert torch.equal(merge_heads(split_heads(x, num_heads).contiguous()), x)


X = torch.ones(2, L, 22)
BAD = [  # a call, the kind of error, and how its sentence begins
    (lambda: split_heads(X, 3), ValueError, r"num_heads must .* \(2, 5, 22\).* 22 = 7 \* 3 \+ 1"),
    (lambda: split_heads(X, 0), ValueError, r"num_heads must be at least 1, got 0"),
    (lambda: split_heads(X, 2.0), TypeError, r"num_heads must be an integer, got float 2.0"),
    (lambda: split_heads(X[0, 0], 2), ValueError, r"x .* 2 dimensions \(L, embed_dim\), got \(22,"),
    (lambda: split_heads(X[..., :0], 2), ValueError, r"the number of features of x .* 1, got 0"),
    (lambda: split_heads([1.0], 2), TypeError, r"x must be a torch.Tensor, got list"),
    (lambda: merge_heads(X[0]), ValueError, r"x must .* 3 dimensions \(num_heads, L, head_dim\)"),
    (lambda: merge_heads([1.0]), TypeError, r"x must be a torch.Tensor, got list"),
]


test_a_bad_call_gets_a_sentence = refuses(BAD)
