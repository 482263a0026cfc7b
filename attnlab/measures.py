"""Measurements of scores, weights and gradients: tensor in, tensor out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnlab.checks import check_exact_ndim, check_floating, check_ndim, check_weights, shape


def score_variance(scores: Tensor) -> Tensor:
    """Return the variance of each row of scores, which decides how sharp its softmax is.

    Parameters
    ----------
    scores : Tensor, shape (..., L, S)
        Scores before the mask, with at least two keys.

    Returns
    -------
    Tensor, shape (..., L)
        Sample variance over the keys (divided by S - 1).

    Raises
    ------
    TypeError, ValueError
        If ``scores`` is not a floating-point tensor (..., L, S) with S of at least 2.

    See Also
    --------
    torch.var : the same over any dimension.

    Examples
    --------
    >>> score_variance(torch.tensor([[1.0, 3.0], [2.0, 2.0]]))
    tensor([2., 0.])
    """
    check_floating("scores", scores)
    check_ndim("scores", scores, "(L, S)", at_least=2)
    if scores.shape[-1] < 2:
        raise ValueError(f"scores must have at least 2 keys (dimension -1), got {shape(scores)}.")
    if not scores.numel():
        raise ValueError(f"scores must have at least one row, got {shape(scores)}.")
    return scores.var(dim=-1)


def attention_entropy(weights: Tensor) -> Tensor:
    """Return the entropy of each row of weights, in nats.

    ``-sum_j w_j log w_j``: 0 when one key has all the weight, ``log S`` when all are equal.

    Parameters
    ----------
    weights : Tensor, shape (..., L, S)
        Attention weights.

    Returns
    -------
    Tensor, shape (..., L)
        Entropy in nats; 0 for a row without an allowed key.

    Raises
    ------
    TypeError, ValueError
        If ``weights`` is not a floating-point tensor (..., L, S), or a number lies outside 0 to 2.

    See Also
    --------
    torch.special.entr : ``-w log w`` of every entry.

    Examples
    --------
    >>> attention_entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    tensor([0.6931, 0.0000])
    """
    check_weights(weights)
    return torch.special.entr(weights).sum(dim=-1)


def effective_keys(weights: Tensor) -> Tensor:
    """Return how many keys each query effectively uses: exp(entropy).

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
        As ``attention_entropy``.

    See Also
    --------
    attention_entropy : its logarithm.

    Examples
    --------
    >>> effective_keys(torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.0, 0.0]]))
    tensor([2., 1., 0.])
    """
    used = attention_entropy(weights).exp()
    return used.masked_fill((weights == 0).all(dim=-1), 0.0)


def max_weight(weights: Tensor) -> Tensor:
    """Return the largest weight of each row.

    Parameters
    ----------
    weights : Tensor, shape (..., L, S)
        Attention weights.

    Returns
    -------
    Tensor, shape (..., L)
        From 1 / S to 1; 0 for a row without an allowed key.

    Raises
    ------
    TypeError, ValueError
        As ``attention_entropy``.

    See Also
    --------
    torch.amax : the same over any dimension.

    Examples
    --------
    >>> max_weight(torch.tensor([[0.25, 0.75]]))
    tensor([0.7500])
    """
    check_weights(weights)
    return weights.amax(dim=-1)


def softmax_jacobian(weights: Tensor) -> Tensor:
    """Return the derivative of the softmax at the given weights.

    ``J[i, j] = d weight_i / d score_j = weight_i * (1 if i == j else 0) - weight_i * weight_j``.
    Only the diagonal is p (1 - p). Every row and every column sums to 0.

    Parameters
    ----------
    weights : Tensor, shape (..., S)
        Softmax weights of one or more rows.

    Returns
    -------
    Tensor, shape (..., S, S)
        One symmetric matrix per row of weights.

    Raises
    ------
    TypeError, ValueError
        If ``weights`` is not a floating-point tensor (..., S), or a number lies outside 0 to 2.

    See Also
    --------
    torch.autograd.functional.jacobian : the same for any function, by autograd.

    Examples
    --------
    >>> softmax_jacobian(torch.tensor([0.5, 0.5]))
    tensor([[ 0.2500, -0.2500],
            [-0.2500,  0.2500]])
    """
    check_weights(weights, "(S,)", at_least=1)
    return torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]


def gradient_norms(loss: Tensor, tensor: Tensor) -> Tensor:
    """Return the norm of the gradient of ``loss`` for each row of ``tensor``.

    Parameters
    ----------
    loss : Tensor, a single number
        Must depend on ``tensor``. Its graph is kept, so it can be asked about several tensors.
    tensor : Tensor, shape (..., L, E)
        Any tensor that ``loss`` was computed from and that requires gradients.

    Returns
    -------
    Tensor, shape (..., L)
        Euclidean norm over the features. ``tensor.grad`` is left alone.

    Raises
    ------
    TypeError
        If an argument is not a floating-point tensor.
    ValueError
        If ``loss`` is not a single number, ``tensor`` has no dimension or does not require
        gradients, or ``loss`` does not depend on it.

    See Also
    --------
    torch.autograd.grad : returns the gradient itself.

    Examples
    --------
    >>> x = torch.ones(2, 3, requires_grad=True)
    >>> gradient_norms((x[0] ** 2).sum(), x)
    tensor([3.4641, 0.0000])
    """
    check_floating("loss", loss)
    check_floating("tensor", tensor)
    check_ndim("tensor", tensor, "(..., E)", at_least=1)
    if loss.numel() != 1:
        raise ValueError(f"loss must be a single number, got {shape(loss)}; use loss.sum().")
    if not tensor.requires_grad:
        raise ValueError("tensor must require gradients; call tensor.requires_grad_() first.")
    grad = None
    if loss.requires_grad:
        (grad,) = torch.autograd.grad(loss, tensor, retain_graph=True, allow_unused=True)
    if grad is None:
        raise ValueError("loss must depend on tensor, but no gradient reaches it.")
    return grad.norm(dim=-1)


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
    Tensor, shape (L, L)
        Row i: output token. Column j: input token.

    Raises
    ------
    TypeError, ValueError
        If ``function`` cannot be called, ``x`` is not a floating-point tensor (L, E), or the output
        is not a tensor with as many tokens.

    See Also
    --------
    torch.autograd.functional.jacobian : the derivative before the norm.

    Examples
    --------
    >>> influence_map(lambda x: x.cumsum(dim=0), torch.zeros(3, 1))
    tensor([[1., 0., 0.],
            [1., 1., 0.],
            [1., 1., 1.]])
    """
    if not callable(function):
        raise TypeError(f"function must be callable, got {type(function).__name__}.")
    check_floating("x", x)
    check_exact_ndim("x", x, "(L, E)", ndim=2, fix="pass one sequence without a batch dimension.")
    if not x.numel():
        raise ValueError(f"x must have at least one token and one feature, got {shape(x)}.")

    def checked(x: Tensor) -> Tensor:
        output = function(x)
        if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != len(x):
            got = shape(output) if isinstance(output, Tensor) else type(output).__name__
            raise ValueError(f"function must map (L, E) to (L, Ev), got {shape(x)} -> {got}.")
        check_floating("the output of function", output)
        return output

    jacobian = torch.autograd.functional.jacobian(checked, x.detach().clone())  # (L, Ev, L, E)
    return jacobian.norm(dim=(1, 3))
