"""Times of the kernels and layers, on one thread, against torch and against the usual few lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab import (
    MultiHeadAttention,
    causal_mask,
    combine_masks,
    merge_heads,
    scaled_dot_product_attention,
    sequence_mask,
    sliding_window_mask,
    split_heads,
    tiled_attention,
)
from tools._bench_measure import Function, Result, compare

HEADS, HEAD_DIM, WINDOW = 8, 64, 256
CLASSROOM = (2, 10, 512)  # sequences, tokens, embed_dim


def tiled_against_torch(size: int, budget: float, *, all_gradients: bool) -> Iterator[Result]:
    """Yield the tiled kernel against torch's fused one for one sequence of ``size`` tokens."""
    tensors = draw(1, size)
    pull = torch.randn_like(tensors[2])
    for what, our_options, make_their_options in tiled_cases(size):
        their_options = make_their_options()
        gradients = all_gradients or what == "no mask"
        for name, given in (("forward", None), ("forward + backward", pull))[: 1 + gradients]:
            ours = call(tiled_attention, tensors, our_options, given)
            theirs = call(F.scaled_dot_product_attention, tensors, their_options, given)
            yield compare(f"{what}, {name}", f"N = {size}", ours, theirs, budget)


def tiled_cases(size: int) -> Iterator[tuple[str, dict, Callable[[], dict]]]:
    """Yield a name, our options, and a function that makes the same options for torch."""
    padding = sequence_mask([size * 3 // 4], size)[:, None, None, :]
    window = {"window": WINDOW}
    yield "no mask", {}, dict
    yield "causal", {"is_causal": True}, lambda: {"is_causal": True}
    yield "25 % padding", {"attn_mask": padding}, lambda: {"attn_mask": padding}
    yield (
        f"window {WINDOW}",
        window,
        lambda: {"attn_mask": sliding_window_mask(size, window=WINDOW)},
    )
    yield (
        f"window {WINDOW}, causal",
        {"is_causal": True, **window},
        lambda: {
            "attn_mask": combine_masks(causal_mask(size), sliding_window_mask(size, window=WINDOW))
        },
    )


def plain_kernel(size: int, budget: float) -> Iterator[Result]:
    """Yield the plain kernel against torch's fused one and against the usual few lines."""
    batch, tokens, _ = CLASSROOM if size == CLASSROOM[1] else (1, size, 0)
    tensors = draw(batch, tokens)
    pull = torch.randn_like(tensors[2])
    rivals = {"torch": F.scaled_dot_product_attention, "by hand": by_hand}
    for what, given in (("forward", None), ("forward + backward", pull)):
        ours = call(scaled_dot_product_attention, tensors, {}, given)
        for name, rival in rivals.items():
            theirs = call(rival, tensors, {}, given)
            yield compare(f"plain kernel, {what}", f"N = {tokens}", ours, theirs, budget, name)


def layer(budget: float) -> Iterator[Result]:
    """Yield MultiHeadAttention, weights of every head returned, at classroom size."""
    batch, tokens, embed_dim = CLASSROOM
    theirs = nn.MultiheadAttention(embed_dim, HEADS, batch_first=True)
    ours = MultiHeadAttention.from_torch(theirs)
    x = torch.randn(batch, tokens, embed_dim)
    rivals = {
        "torch": (lambda: theirs(x, x, x, average_attn_weights=False), theirs),
        "by hand": (lambda: layer_by_hand(ours, x), ours),
    }
    for name, (rival, module) in rivals.items():
        size = f"N = {tokens}"
        yield compare("layer, forward", size, lambda: ours(x), rival, budget, name)
        yield compare(
            "layer, forward + backward",
            size,
            backward_of(lambda: ours(x), ours),
            backward_of(rival, module),
            budget,
            name,
        )


def by_hand(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention as it is usually written, without a check."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1) @ value


def layer_by_hand(layer: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the layer returns, in the usual lines."""
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    query, key, value = (split_heads(project(x), layer.num_heads) for project in projections)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = scores.softmax(dim=-1)
    return layer.out_proj(merge_heads(weights @ value)), weights


def draw(batch: int, size: int) -> list[Tensor]:
    """Return query, key and value (batch, HEADS, size, HEAD_DIM) in float32."""
    return [torch.randn(batch, HEADS, size, HEAD_DIM) for _ in range(3)]


def call(function: Callable, tensors: list[Tensor], options: dict, pull: Tensor | None) -> Function:
    """Return a call of a kernel; with ``pull`` also its gradients."""

    def forward() -> Tensor:
        return function(*tensors, **options)

    def forward_and_backward() -> tuple[Tensor, ...]:
        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        return torch.autograd.grad(function(*leaves, **options), leaves, pull)

    return forward if pull is None else forward_and_backward


def backward_of(forward: Callable[[], tuple[Tensor, Tensor]], module: nn.Module) -> Function:
    """Return a call of a layer that also finds the gradients of its weights."""
    parameters = list(module.parameters())
    return lambda: torch.autograd.grad(forward()[0].sum(), parameters)
