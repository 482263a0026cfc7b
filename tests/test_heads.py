"""Splitting and merging heads: each number encodes its token, head and feature."""

import pytest
import torch

from attnlab import merge_heads, scaled_dot_product_attention, split_heads

N, H, L, D = 2, 3, 5, 7  # batch, heads, tokens, features of a head


def test_every_number_arrives_at_its_head_token_and_feature():
    """A number such as 1234 means sequence 1, token 2, head 3, feature 4."""
    n, t, h, d = torch.meshgrid(*(torch.arange(size) for size in (N, L, H, D)), indexing="ij")
    named = 1000 * n + 100 * t + 10 * h + d
    heads = split_heads(named.view(N, L, H * D), H)
    assert torch.equal(heads, named.transpose(1, 2))


@pytest.mark.parametrize("num_heads", [1, H, D, H * D])
@pytest.mark.parametrize("lead", [(), (2,), (2, 11), (2, 1, 11)], ids=str)
def test_merging_undoes_splitting_for_any_number_of_leading_dimensions(lead, num_heads):
    x = torch.randn(*lead, L, H * D)
    heads = split_heads(x, num_heads)
    assert heads.shape == (*lead, num_heads, L, H * D // num_heads)
    assert torch.equal(merge_heads(heads), x)


def test_splitting_returns_a_view_and_copies_nothing():
    x = torch.randn(N, L, H * D)
    heads = split_heads(x, H)
    assert heads.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert heads._base is x
    assert merge_heads(heads)._version == 0


def test_merging_one_head_is_a_view_as_well():
    x = torch.randn(N, L, D)
    assert merge_heads(split_heads(x, 1)).data_ptr() == x.data_ptr()


def test_tensors_in_any_memory_order_can_be_split_and_merged():
    x = torch.randn(N, H * D, L).transpose(1, 2)
    assert torch.equal(merge_heads(split_heads(x, H)), x)
    attended = scaled_dot_product_attention(*[split_heads(x, H)] * 3)
    assert merge_heads(attended).shape == (N, L, H * D)
