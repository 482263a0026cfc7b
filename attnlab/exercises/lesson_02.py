"""The checks of lesson 2: why divide by the square root of d_k."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import attention_scores
from attnlab.checks import shape
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import choice, numbers
from attnlab.exercises.frame.forms import Compared, Either, Value, randoms

# --- always true ----------------------------------------------------------------------------------


@Value(
    read=partial(choice, options="ABCD"),
    right="B",
    slips={
        "A is not always true. In head 2 of the trained layer, the variance is near 100 after the "
        "division.": "A",
        "C is not always true. For 64 features and 256 keys, most gradients became longer.": "C",
        "D is not always true. A model can learn without the division, because training can change "
        "the size of the scores.": "D",
    },
    verified="The lesson contains a counterexample to each of the other three sentences. This one "
    "is always true.",
)
def check_always_true(_said: str) -> None:
    """Check which of four sentences about the division is always true.

    Verified: the letter. A wrong one is answered with its counterexample.

    Parameters
    ----------
    answer
        "A", "B", "C" or "D", or a function without arguments that returns the letter.

    See Also
    --------
    attnlab.score_variance : measures what the sentences speak of.
    """


# --- a hundred dice -------------------------------------------------------------------------------

MEAN, VARIANCE = 100 * 3.5, 100 * 35 / 12


@Compared(
    read=lambda value: numbers(value, (2,), "two numbers, the mean and the variance"),
    right=lambda c: (MEAN / c, VARIANCE / c**2),
    slips={
        "The mean or the variance is that of a single die. Means add up, and so do variances of "
        "independent terms.": Either(
            lambda c: (3.5 / c, 35 / 12 / c**2), lambda c: (MEAN / c, 35 / 12 / c**2)
        ),
        "Divide the mean by the divisor, and the variance by its square.": Either(
            lambda c: (MEAN, VARIANCE), lambda c: (MEAN / c, VARIANCE / c)
        ),
        "The second number is the standard deviation, which is the square root of the variance.": (
            lambda c: (MEAN / c, VARIANCE**0.5 / c)
        ),
        "You divided the sum of the squared distances by 5. The six faces are not a sample but all "
        "that the die has, so divide by 6 (correction=0).": lambda c: (MEAN / c, 350 / c**2),
    },
    what="mean or the variance",
    otherwise="Add up the means of the 100 dice and divide the sum by the divisor. Add up the "
    "variances of the dice and divide the sum by the square of the divisor.",
    verified="Mean and variance are correct for every divisor.",
    columns=("mean", "variance"),
    atol=0.0,
    rtol=0.03,
)
def check_hundred_dice() -> Iterator[tuple[str, tuple]]:
    """Check formulas for mean and variance of a sum of 100 dice, divided by a number.

    Verified: both, for the divisors 1, 10 and 100.

    Parameters
    ----------
    answer
        A function of the divisor that returns mean and variance.

    See Also
    --------
    check_always_true : the same law in words.
    """
    for divisor in (1, 10, 100):
        yield f"the divisor {divisor}", (divisor,)


# --- a good factor --------------------------------------------------------------------------------

LOW, HIGH = 0.8, 1.25
START = 1160  # the variance with the factor 10


@cache
def variance_with(factor: float) -> float:
    """Return the variance of the scaled scores in the demonstration of the lesson."""
    torch.manual_seed(42)  # as in the lesson: the layers come first
    w_query, w_key = nn.Linear(8, 8), nn.Linear(8, 8)
    x = torch.randn(10, 8) * factor
    with torch.no_grad():
        return attention_scores(w_query(x), w_key(x)).var().item()


@Value(
    right=lambda factor: LOW < variance_with(factor) < HIGH,
    near=lambda factor, other: abs(factor - other) < 0.03 * other,
    slips={
        "A score is a product of a query and a key, so it grows with the square of the factor, and "
        "its variance with the fourth power.": Either(10 / START, 10 / START**0.5),
        "Dividing the tokens by the square root of 8 divides the variance by 64, and dividing them "
        "by 8 divides it by 4096. It has to be divided by 1160.": Either(10 / 8**0.5, 10 / 8),
    },
    otherwise="If you double the factor, each score becomes four times as large, and the variance "
    "sixteen times.",
    verified=f"With the factor 10 it was {START}.",
)
def check_good_factor(factor: float) -> str:
    """Check a factor on the tokens that brings the variance of the scaled scores near 1.

    Verified: the variance lies between 0.8 and 1.25, with the layers of the lesson.

    Parameters
    ----------
    answer
        The factor, or a function without arguments that returns it.

    See Also
    --------
    attnlab.score_variance : measures the spread of scores.
    """
    variance = variance_with(factor)
    if LOW < variance < HIGH:
        return f"The variance is {variance:.3g}, which lies between {LOW} and {HIGH}."
    return f"The variance is {variance:.4g}, which is too {'small' if variance < 1 else 'large'}."


# --- scores that do not depend on lengths ---------------------------------------------------------

L, S, E = 5, 7, 11


def unit(x: Tensor) -> Tensor:
    """Return vectors rescaled to root mean square 1."""
    return x / x.square().mean(dim=-1, keepdim=True).sqrt()


def scores(query: Tensor, key: Tensor) -> Tensor:
    """Return scaled scores."""
    return query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5


def normed_by(*norms: Callable[[Tensor], Tensor]) -> Either:
    """Return scores of queries and keys that are rescaled in wrong ways."""
    return Either(*(lambda query, key, norm=norm: scores(norm(query), norm(key)) for norm in norms))


@Compared(
    right=lambda query, key: scores(unit(query), unit(key)),
    slips={
        "Queries and keys must both be rescaled. If either becomes ten times as large, the scores "
        "must not change.": Either(
            scores,
            lambda query, key: scores(unit(query), key),
            lambda query, key: scores(query, unit(key)),
        ),
        "The division by the square root of d_k is missing. The score of every query with itself "
        "is d_k, but it should be the square root of d_k.": lambda query, key: (
            unit(query) @ unit(key).transpose(-2, -1)
        ),
        "The scores are too small. Set the root mean square of each vector to 1, not its length, "
        "and divide the dot products by the square root of d_k, not by d_k.": Either(
            lambda query, key: scores(unit(query), unit(key)) / query.shape[-1] ** 0.5,
            lambda query, key: scores(unit(query), unit(key)) / query.shape[-1],
        ),
        "The mean is subtracted, as in LayerNorm or in a standard deviation. The root mean square "
        "subtracts nothing.": normed_by(
            lambda x: F.layer_norm(x, x.shape[-1:]),
            lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
            lambda x: x / x.std(-1, keepdim=True),
        ),
        "A single number rescales them all, but each query and each key needs its own.": normed_by(
            lambda x: x / x.norm(), lambda x: x / x.square().mean().sqrt()
        ),
    },
    what="scores",
    axes=("sequence", "head", "query", "key"),
    nan="They contain NaN, although every input is an ordinary number. Do you take the square "
    "root of a negative number?",
    errors=voice.TRANSPOSED | voice.KEEPDIM,
    misshapen=voice.FROM_THE_END,
    otherwise="Queries and keys need a root mean square of 1, and then the dot products must be "
    "divided by the square root of d_k.",
    verified="The score of every query with itself is the square root of d_k, whatever the length "
    "of the query. Rescaling a single query or key by a positive factor changes nothing.",
    atol=5e-3,  # a small number added against division by 0 is welcome
    rtol=5e-3,
    keeps_inputs=True,
)
def check_normed_scores() -> Iterator[tuple[str, tuple]]:
    """Check scores that do not depend on the lengths of queries and keys.

    Verified: every query and key by itself is brought to root mean square 1, no mean is
    subtracted, and the dot products are divided by the square root of d_k; for one sequence, a
    batch, and a batch with heads.

    Parameters
    ----------
    answer
        A function of query (..., L, E) and key (..., S, E) that returns scores (..., L, S).

    See Also
    --------
    torch.nn.functional.rms_norm : torch's version of the rescaling.
    """
    for lead in ((2,), (), (2, 3)):
        query, key = (1 + one for one in randoms((*lead, L, E), (*lead, S, E)))  # no mean of 0
        query *= torch.arange(1.0, L + 1)[:, None]  # rows of different lengths
        key *= torch.arange(0.5, S)[:, None]
        yield f"query {shape(query)} and key {shape(key)}", (query, key)
