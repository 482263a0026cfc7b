"""Checks for the exercises of lesson 4: reading heatmaps."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.clinic import Evidence
from attnlab.exercises._answers import (
    Answer,
    NotDone,
    Right,
    Wrong,
    judge,
    table,
    vector,
)
from attnlab.exercises._attention_answers import calls_softmax
from attnlab.exercises._sequence_first import sequence_first, tensor
from attnlab.exercises._verdict import Verdict

KEYS = ("a", "b", "a", "a")
LONELY = (0.17487769, 0.4753668, 0.17487769, 0.17487769)  # 1 and e, divided by e + 3
FACTOR = math.sqrt(math.log(198))  # e^(c c) / (e^(c c) + 2) = 0.99
ROUNDED = math.ceil(100 * FACTOR) / 100
SIZES = ((5, 7), (7, 5), (4, 4))  # queries and keys; equal sizes hide a mistake
BATCHES = ((), (2,), (2, 3))
E = 3


def check_lonely_weights(answer: object) -> Verdict:
    """Check the weights that token b gives to the keys a, b, a, a.

    Verified: four numbers, to two decimals, found without a softmax.

    Parameters
    ----------
    answer : callable or sequence of float
        A function without arguments that returns four weights, or the weights.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    check_sharp_factor : the next exercise.
    """
    return judge(answer, _lonely_weights)


def check_sharp_factor(answer: object) -> Verdict:
    """Check the smallest factor of the features with which a token gives itself 0.99 or more.

    Verified: the positive number, as it is or rounded up to two decimals.

    Parameters
    ----------
    answer : callable or float
        A function without arguments that returns the number, or the number.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    check_lonely_weights : the exercise before.
    """
    return judge(answer, _sharp_factor)


def check_recovered_weights(answer: object) -> Verdict:
    """Check a function that gets the weights out of an attention function without seeing inside.

    Verified: four attention functions (plain, causal, another scale, one query that may look at no
    key), as many keys as queries, more and fewer, one sentence, a batch and heads, float64.

    Parameters
    ----------
    answer : callable
        A function of (attention, query, key) that returns the weights.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.trace_attention : returns weights by itself.
    """
    return judge(answer, _recovered_weights)


def check_sequence_first(answer: object) -> Verdict:
    """Check a call of a layer that expects (L, N, E) with a batch of shape (N, L, E).

    Verified: output and weights, for two sentences of five words and for three of three, of the
    layer as it is given.

    Parameters
    ----------
    answer : callable
        A function of (layer, x) that returns output and weights.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.nn.MultiheadAttention : has the argument ``batch_first``.
    """
    return judge(answer, sequence_first)


# --- one odd token among four ---------------------------------------------------------------------


def _lonely_weights(answer: Answer) -> Right:
    weights = answer.value(vector)
    if weights.shape in ((1, 4), (4, 1)):
        weights = weights.flatten()
    if weights.shape != (4,):
        raise Wrong(f"One weight per key, shape (4,); yours has {tuple(weights.shape)}.")
    if not weights.isfinite().all():
        raise Wrong("Weights are ordinary numbers; yours hold NaN or infinity.")
    right = torch.tensor(LONELY, dtype=torch.float64)
    if (weights - right).abs().max() < 0.00501:  # two decimals
        if calls_softmax(answer):
            raise Wrong("The numbers are right, but softmax made them. Find them without it.")
        return Right("Token b keeps less than half: three scores of 0 count three times.")
    rows = {"raw score of b": [0, 2, 0, 0], "your weight": weights.tolist()}
    raise Wrong(_why_lonely(weights), table("Query b, keys a, b, a, a:", rows, KEYS))


def _why_lonely(weights: Tensor) -> str:
    """Name the misconception behind four wrong weights."""

    def near(*numbers: float) -> bool:
        return bool(torch.allclose(weights, weights.new_tensor(numbers), atol=0.006))

    unscaled, copies, total = math.e**2 + 3, 3 * math.e + 1, float(weights.sum())
    if near(0, 1, 0, 0):
        return "These are the scores. A score of 0 is not a weight of 0: e to the 0 is 1."
    if near(0, 2, 0, 0):
        return "These are the raw scores. Divide, raise e to each, then divide by the sum."
    if near(1, math.e, 1, 1):
        return "These are e to each score. Now divide by their sum: weights sum to 1."
    if near(1 / unscaled, math.e**2 / unscaled, 1 / unscaled, 1 / unscaled):
        return "These come from the raw scores. Divide by the root of 4 features first."
    if near(math.e / copies, 1 / copies, math.e / copies, math.e / copies):
        return "This is the row of a token a. The question is about the query b."
    if near(0.212, 0.576, 0.212, 0.212):
        return "These are the weights of the three tokens in the text. One more a shares here."
    if abs(total - 1) > 0.015:
        return f"Weights sum to 1, yours to {total:.3f}."
    if near(0.25, 0.25, 0.25, 0.25):
        return "A uniform row: but b scores 1 with itself and 0 with each a."
    return "The weights differ. Take e to the score of each key, then divide by the sum."


# --- a factor for the features --------------------------------------------------------------------


def _self_weight(factor: float) -> float:
    score = torch.tensor([0.0, factor * factor, 0.0], dtype=torch.float64)
    return score.softmax(dim=-1)[1].item()


def _sharp_factor(answer: Answer) -> Right:
    said = vector(answer.value(vector))
    if said.numel() != 1:
        raise Wrong(f"One number is asked for, and it gives the shape {tuple(said.shape)}.")
    factor = said.item()
    if not math.isfinite(factor) or factor == 0:
        raise Wrong(f"A positive factor is asked for, and it gives {factor:g}.")
    if factor < 0:
        raise Wrong(
            f"Query and key flip together, so {factor:g} does the same as {-factor:g}. The "
            "positive number is asked for."
        )
    share = _self_weight(factor)
    if FACTOR - 0.0001 < factor < ROUNDED + 0.001:
        return Right(f"With {factor:.2f} token b gives itself {share:.4f}.")
    told = f"With {factor:.4g} token b gives itself {share:.4f}"
    if abs(factor - FACTOR**2) < 0.1:
        raise Wrong(
            f"{told}. By this the score must grow. Query and key both grow with the features, "
            "so the score grows by the square of the factor."
        )
    if abs(factor - FACTOR / math.sqrt(2)) < 0.02:
        raise Wrong(f"{told}: too little. Divide the product by the root of 4 features.")
    if abs(factor - math.sqrt(math.log(99))) < 0.01:
        raise Wrong(f"{told}: too little, for two strangers share the row with b.")
    if factor < FACTOR:
        raise Wrong(f"{told}: too little.")
    raise Wrong(f"{told}. That is enough, but a smaller factor reaches 0.99 as well.")


# --- weights of a function that hides them --------------------------------------------------------


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def _soft(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, scale=0.1)


def _blind(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool)
    allowed[0] = False
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)


HIDDEN: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "plain attention": F.scaled_dot_product_attention,
    "causal attention": _causal,
    "attention with the scale 0.1": _soft,
    "attention whose query 0 may look at no key": _blind,
}


def _recovered_weights(answer: Answer) -> Right:
    generator = torch.Generator().manual_seed(0)
    for batch in BATCHES:
        for L, S in SIZES:
            query = torch.randn(*batch, L, E, generator=generator)
            key = torch.randn(*batch, S, E, generator=generator)
            for name, attention in HIDDEN.items():
                _compare_recovered(answer, name, attention, query, key)
    query, key = query.double(), key.double()
    _compare_recovered(answer, "plain attention in float64", HIDDEN["plain attention"], query, key)
    return Right(
        "The weights hold for plain, causal, differently scaled and blocked attention, in a batch "
        "and with heads, in float64, whatever the number of keys."
    )


def _compare_recovered(
    answer: Answer,
    name: str,
    attention: Callable[[Tensor, Tensor, Tensor], Tensor],
    query: Tensor,
    key: Tensor,
) -> None:
    """Raise Wrong unless the answer finds the weights of one attention function."""
    right = attention(query, key, _identity(key))
    case = f"{name}, query {tuple(query.shape)} and key {tuple(key.shape)}"
    got = _asked(answer, attention, query, key, case)
    if got.shape != right.shape or not torch.allclose(got.to(right), right, atol=1e-5):
        why = _why_not_weights(got, right, attention, query, key)
        raise Wrong(f"With {case} {why}", _first_difference(got, right))
    if got.dtype != right.dtype:
        raise Wrong(f"With {case} the weights must be {right.dtype}, got {got.dtype}.")


def _identity(key: Tensor) -> Tensor:
    """Return a value with which an output is the weights: (..., S, S)."""
    S = key.shape[-2]
    return torch.eye(S, dtype=key.dtype).expand(*key.shape[:-2], S, S)


def _asked(
    answer: Answer,
    attention: Callable[[Tensor, Tensor, Tensor], Tensor],
    query: Tensor,
    key: Tensor,
    case: str,
) -> Tensor:
    """Return what the answer gives; tell a forgotten return from a stub."""
    calls = []

    def given(*args: Tensor, **kwargs: Tensor) -> Tensor:
        calls.append(args)
        return attention(*args, **kwargs)

    try:
        return answer.ask(given, query.clone(), key.clone(), read=tensor, case=case)
    except NotDone:
        if calls:
            raise Wrong("It asks the function and returns None: is return missing?") from None
        raise
    except Wrong as wrong:
        if not wrong.by_error:
            raise
        raise Wrong(
            f"{wrong.message} The value needs one row per key, {key.shape[-2]} here, the leading "
            f"dimensions of the key, and the dtype of the key, {key.dtype}."
        ) from None


def _why_not_weights(
    got: Tensor,
    right: Tensor,
    attention: Callable[[Tensor, Tensor, Tensor], Tensor],
    query: Tensor,
    key: Tensor,
) -> str:
    """Name what was returned instead of the weights."""

    def is_output(of: Tensor, function: Callable = attention) -> bool:
        output = function(query, key, of)
        fits = got.shape == (*output.shape[:-1], got.shape[-1]) and got.shape[-1] > 0
        return fits and torch.allclose(got.to(right), output.expand(got.shape), atol=1e-5)

    S = key.shape[-2]
    if is_output(key.new_ones(*key.shape[:-1], 1)):
        return "these are the row sums: each column of the value holds ones."
    if got.shape[-1:] == key.shape[-1:] and is_output(key):
        return "these are averages of the keys. Which value hands over the weights themselves?"
    if got.ndim > right.ndim:
        return (
            f"it gives {tuple(got.shape)}, one axis too many: the weights must be "
            f"{tuple(right.shape)}. The value needs the leading dimensions of the key, no more."
        )
    if got.shape != right.shape:
        return (
            f"the weights must be {tuple(right.shape)}, got {tuple(got.shape)}. "
            f"One column per key: a value with {S} columns."
        )
    if got.isnan().any():
        return (
            "it gives NaN: a query that may look at no key has weights of 0, and 0 / 0 is no "
            "number. Return them as the function used them."
        )
    if is_output(_identity(key), F.scaled_dot_product_attention):
        return (
            "it gives the weights of plain attention. Ask the given function; it may mask and "
            "scale."
        )
    return "these are not the weights."


def _first_difference(got: Tensor, right: Tensor) -> Evidence | None:
    """Return the first row that differs; None if the shapes do."""
    if got.shape != right.shape:
        return None
    differs = ~torch.isclose(got.to(right), right, atol=1e-5).all(dim=-1)
    *lead, row = differs.nonzero()[0].tolist()
    place = (*lead, row)
    rows = {"yours": got[place][:4].tolist(), "right": right[place][:4].tolist()}
    return table(f"Query {row}, the first four keys:", rows, [f"key {j}" for j in range(4)])
