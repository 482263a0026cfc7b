"""Measurements of scores, weights and gradients: tensor in, tensor out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnlab.checks import check_exact_ndim, check_floating, check_weights, shape


def effective_keys(weights: Tensor) -> Tensor:
    """Return how many keys each query effectively uses: exp(entropy).

    The entropy of a row is ``-sum_j w_j log w_j``, in nats.

    Parameters
    ----------
    weights : Tensor, shape (..., L, S)
        Attention weights.

    Returns
    -------
    Tensor, shape (..., L)
        From 1 (one key has all the weight) to S (all equal); 0 for a row without an allowed key.

    Raises
    ------
    TypeError, ValueError
        If ``weights`` is not a floating-point tensor (..., L, S), or a number lies outside 0 to 2.

    See Also
    --------
    torch.special.entr : ``-w log w`` of every entry.

    Examples
    --------
    >>> effective_keys(torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.0, 0.0]]))
    tensor([2., 1., 0.])
    """
    check_weights(weights)
    used = torch.special.entr(weights).sum(dim=-1).exp()
    return used.masked_fill((weights == 0).all(dim=-1), 0.0)


def influence_map(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return how much every output token changes when an input token is changed a little.

    Entry (i, j) is the norm of d output_i / d x_j. A zero means that output i does not depend on
    token j at this input: a causal function has zeros above the diagonal, and a function that
    treats every token separately has zeros everywhere but on the diagonal.

    Parameters
    ----------
    function : callable
        Maps (L, E) to (L, Ev) and is differentiable.
    x : Tensor, shape (L, E)
        The point at which the derivative is taken. It stays unchanged.

    Returns
    -------
    Tensor of float64, shape (L, L)
        Row i: output token. Column j: input token.

    Raises
    ------
    TypeError, ValueError
        If ``function`` cannot be called, ``x`` is not a floating-point tensor (L, E), or the output
        is not a tensor with as many tokens.

    See Also
    --------
    torch.autograd.functional.jacobian : the derivative before the norm.

    Notes
    -----
    A correct mask gives exact zeros, so compare with ``!= 0``: then NaN counts as an influence. A
    derivative sees nothing behind ``detach`` or ``argmax``, and it is 0 as well where an allowed
    weight rounds to 0; with tokens in float64 this needs a score that is 746 below the largest one.

    The function is called once, and one number of its output is differentiated at a time, so that
    the memory for (L, E) is enough.

    Examples
    --------
    >>> influence_map(lambda x: x.cumsum(dim=0), torch.zeros(3, 1))
    tensor([[1., 0., 0.],
            [1., 1., 0.],
            [1., 1., 1.]], dtype=torch.float64)
    """
    if not callable(function):
        raise TypeError(f"function must be callable, got {type(function).__name__}.")
    check_floating("x", x)
    check_exact_ndim("x", x, "(L, E)", ndim=2, fix="pass one sequence without a batch dimension.")
    if not x.numel():
        raise ValueError(f"x must have at least one token and one feature, got {shape(x)}.")
    x = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        output = function(x.clone())  # a function may change what it is given
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != len(x):
        got = shape(output) if isinstance(output, Tensor) else type(output).__name__
        raise ValueError(f"function must map (L, E) to (L, Ev), got {shape(x)} -> {got}.")
    check_floating("the output of function", output)

    squares = x.new_zeros(len(x), len(x), dtype=torch.float64)  # those of 1e-29 are 0 in float32
    if output.requires_grad:
        for i, row in enumerate(output):
            for number in row:
                gradient = torch.autograd.grad(
                    number, x, retain_graph=True, allow_unused=True, materialize_grads=True
                )[0]
                squares[i] += gradient.double().square().sum(dim=-1)
    return squares.sqrt()
