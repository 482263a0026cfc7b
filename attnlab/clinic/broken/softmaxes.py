"""Broken: softmax written by hand."""

import torch

from attnlab.clinic.broken._case import broken


@broken("softmax-axis", misconception="M6", met="stackoverflow.com/q/34968722: sum(axis=0)")
def softmax_with_axis_zero(x):
    """Sum down the columns, as the code for one vector does."""
    exps = torch.exp(x - x.max())
    return exps / exps.sum(dim=0)


@broken("softmax-axis", misconception="M6", met="forum question")
def softmax_of_columns(scores):
    """Normalise the axis before the last."""
    exps = (scores - scores.amax(dim=-2, keepdim=True)).exp()
    return exps / exps.sum(dim=-2, keepdim=True)


@broken("not-normalised", misconception="softmax is exp", met="forgotten division")
def softmax_without_division(x):
    """Take safe exponentials and forget to divide."""
    return torch.exp(x - x.max(dim=-1, keepdim=True).values)


@broken("softmax-axis", misconception="sum() sums a row", met="stackoverflow.com/q/34968722: sum()")
def softmax_over_everything(x):
    """Divide by the sum of the whole table, so only the table sums to 1."""
    exps = torch.exp(x - x.max())
    return exps / exps.sum()


@broken(
    "nan", misconception="exp is harmless", met="the first version most people write", strict=True
)
def softmax_naive(x):
    """Leave the maximum in, so a score of 1000 gives inf / inf."""
    return torch.exp(x) / torch.exp(x).sum(dim=-1, keepdim=True)


@broken("nan", misconception="any shift will do", met="minimum for maximum", strict=True)
def softmax_minus_minimum(scores):
    """Subtract the minimum, which makes large scores larger."""
    exps = torch.exp(scores - scores.min(dim=-1, keepdim=True).values)
    return exps / exps.sum(dim=-1, keepdim=True)


@broken(
    "underflow", misconception="one maximum for all rows", met="x.max() without dim", strict=True
)
def softmax_minus_global_maximum(x):
    """Subtract one maximum from all rows: a row far below it becomes 0 / 0."""
    exps = torch.exp(x - x.max())
    return exps / exps.sum(dim=-1, keepdim=True)


@broken(
    "modifies-input", misconception="x -= c makes a new x", met="d2l masked_softmax (anchors B5)"
)
def softmax_in_place(x):
    """Subtract the maximum from the caller's scores in place."""
    x -= x.max(dim=-1, keepdim=True).values
    exps = x.exp()
    return exps / exps.sum(dim=-1, keepdim=True)


@broken("square-only", misconception="M10", met="keepdim forgotten")
def softmax_without_keepdim(x):
    """Forget keepdim, so the sums do not line up with the rows."""
    exps = torch.exp(x - x.max(dim=-1).values)
    return exps / exps.sum(dim=-1)


@broken("dtype", misconception="float32 is everything", met=".float() for safety")
def softmax_in_float32(scores):
    """Return float32 whatever came in."""
    return torch.softmax(scores.float(), dim=-1)


@broken("detached", misconception="numpy and torch are the same", met="softmax done in numpy")
def softmax_rebuilt(x):
    """Rebuild the result from a list, so no gradient comes back."""
    return torch.tensor(x.softmax(dim=-1).tolist(), dtype=x.dtype, device=x.device)
