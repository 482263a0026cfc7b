"""Splitting and merging heads: each number encodes its token, head and feature."""

import pytest
import torch
from torch.testing import assert_close

from attnlab import merge_heads, scaled_dot_product_attention, split_heads

N, H, L, D = 2, 3, 5, 7  # batch, heads, tokens, features of a head


def named(*lead: int) -> torch.Tensor:
    """Return (..., L, H * D) whose number 1234 means sequence 1, token 2, head 3, feature 4."""
    n, t, h, d = torch.meshgrid(*(torch.arange(size) for size in (N, L, H, D)), indexing="ij")
    names = (1000 * n + 100 * t + 10 * h + d).view(N, L, H * D)
    return names if lead == (N,) else names[0]


def test_every_number_arrives_at_its_head_token_and_feature():
    heads = split_heads(named(N), H)
    assert heads.shape == (N, H, L, D)
    for n, h, t, d in [(0, 0, 0, 0), (1, 2, 4, 6), (0, 1, 3, 2), (1, 0, 2, 5)]:
        assert heads[n, h, t, d] == 1000 * n + 100 * t + 10 * h + d
    n, h, t, d = torch.meshgrid(*(torch.arange(size) for size in heads.shape), indexing="ij")
    assert torch.equal(heads, 1000 * n + 100 * t + 10 * h + d)


@pytest.mark.parametrize("num_heads", [1, 3, 7, 21])
def test_merging_undoes_splitting(num_heads):
    x = named(N)
    assert torch.equal(merge_heads(split_heads(x, num_heads)), x)


def test_merging_alone_puts_the_heads_of_a_token_side_by_side():
    n, h, t, d = torch.meshgrid(*(torch.arange(size) for size in (N, H, L, D)), indexing="ij")
    heads = 1000 * n + 100 * t + 10 * h + d
    assert torch.equal(merge_heads(heads), named(N))


@pytest.mark.parametrize("lead", [(), (2,), (2, 11), (2, 1, 11)], ids=str)
def test_any_number_of_leading_dimensions(lead):
    x = torch.randn(*lead, L, H * D)
    heads = split_heads(x, H)
    assert heads.shape == (*lead, H, L, D)
    assert torch.equal(merge_heads(heads), x)


def test_one_sequence_without_a_batch_is_split_like_one_within():
    assert torch.equal(split_heads(named(), H), split_heads(named(N), H)[0])


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


def test_gradients_pass_through_unchanged():
    x = torch.randn(N, L, H * D, requires_grad=True)
    pull = torch.randn(N, L, H * D)
    (gradient,) = torch.autograd.grad((merge_heads(split_heads(x, H)) * pull).sum(), x)
    assert_close(gradient, pull, rtol=0, atol=0)
