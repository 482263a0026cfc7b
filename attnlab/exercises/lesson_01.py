"""The checks of lesson 1: attention is a soft lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from attnlab.display.table import load_table
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Right, Wrong, numbers, table
from attnlab.exercises.frame.examined import Examined
from attnlab.exercises.frame.forms import Either, Found, randoms

WORDS = ("“He”", "“is”", "“awesome”")
KEYS = load_table("he_is_awesome.csv").values.double().round(decimals=3)  # free of float32

# --- a query for one word -------------------------------------------------------------------------

ENOUGH = 0.9


def one_query(value: object) -> Tensor:
    """Read a query of four features."""
    why = {(3,): "A query has a number for each feature, not for each word."}
    return numbers(value, (4,), "four numbers, one for each feature", why)


def weights_of(query: Tensor) -> Tensor:
    """Return the weights of a query; 2 is the square root of 4 features."""
    return (KEYS @ query / 2).softmax(dim=-1)


def lead_of(weights: Tensor) -> float:
    """Return how far “awesome” lies above the better of the other words."""
    return float(weights[2] - weights[:2].max())


@Found(read=one_query)
def check_query_for_awesome(query: Tensor) -> Right:
    """Check a query that is to give “awesome” more than 0.9 of the weight.

    Verified: its shape (4,), and the weights that attention gives it over “He is awesome”.

    Parameters
    ----------
    answer
        The query, or a function without arguments that returns it.

    See Also
    --------
    check_mended : the next exercise.
    """
    weights = weights_of(query)
    if not weights.isfinite().all():
        raise Wrong(
            "The query is so long that its scores are too large for floating-point numbers."
        )
    share = f"“awesome” gets {weights[2]:.3f} of the weight"
    if weights[2] > ENOUGH:
        return Right(f"{share}, and more than {ENOUGH} was asked for.")
    rows = {"raw score": KEYS @ query, "weight": weights}
    evidence = table("Your query (4,) with the keys (3, 4):", rows, WORDS)
    rival = WORDS[int(weights[:2].argmax())]
    if weights.max() - weights.min() < 1e-9:
        why = ", like every word, because this query prefers none of them. Choose a direction."
    elif abs(lead_of(weights)) < 1e-9:
        why = f", and {rival} as much. A longer query will not help. Choose another direction."
    elif lead_of(weights) > 0:
        why = ". That is the largest weight, so the direction is good. Make the query longer."
    else:
        opposite = lead_of(weights_of(-query)) > 1e-9
        why = f" and {rival} gets the most. A longer query will not help. Choose "
        why += "the opposite direction." if opposite else "another direction."
    raise Wrong(f"{share}{why}", evidence)


# --- attention functions --------------------------------------------------------------------------

L, S, E, EV = 5, 7, 11, 13
FOUND = "The output agrees with torch, without a batch and with one or two batch dimensions"
ERRORS = {
    **voice.TRANSPOSED,
    "to be: [2, 11] but got: [2, 7]": "Swap the last two dimensions with key.transpose(-2, -1).",
    **dict.fromkeys(("Dimension out of range", "batch1 must be a 3D tensor"), voice.FROM_THE_END),
    "length of the desired ordering": "Swap the last two dimensions with key.transpose(-2, -1).",
    **dict.fromkeys(
        ("same dtype", "expected scalar type"),
        "Give both factors of a product the same dtype.",
    ),
    **voice.KEEPDIM,
}


def inputs_of(*lead: int) -> tuple[str, tuple[Tensor, Tensor, Tensor]]:
    """Return query, key and value, and how a message names them."""
    sizes = ((*lead, L, E), (*lead, S, E), (*lead, S, EV))
    return "query {}, key {} and value {}".format(*sizes), randoms(*sizes)


def by_sum(positive: Tensor, dim: int = -1) -> Tensor:
    """Return numbers divided by their sum over the keys."""
    return positive / positive.sum(dim=dim, keepdim=True)


def soft(scores: Tensor, dim: int = -1) -> Tensor:
    """Return a softmax, without calling one."""
    return by_sum((scores - scores.amax(dim=dim, keepdim=True)).exp(), dim)


def attention(
    weigh: Callable[[Tensor], Tensor] = soft,
    squared: Callable[[Tensor], int] = lambda key: key.shape[-1],
) -> Callable[..., Tensor]:
    """Return attention that makes weights of its scores, after dividing by some square root."""
    return lambda query, key, value: weigh(query @ key.mT / squared(key) ** 0.5) @ value


ROOT = "the square root of the number of features, √11."
MISTAKES = {
    f"The scores must be divided by {ROOT}": Either(
        *(attention(squared=lambda key, square=square: square) for square in (1, E**2, S))
    ),
    "The scores are divided by √2, and 2 is the batch size. `len(key)` is the number of keys for "
    "one sentence, but the number of sentences for a batch. Divide the scores by "
    f"{ROOT}": attention(squared=len),
    "The weights are made without the exponential. Raise e to the power of each score, and then "
    "divide by the sum.": Either(
        attention(by_sum), attention(lambda s: by_sum(s - s.amax(dim=-1, keepdim=True)))
    ),
    "The softmax runs over the queries. It must run over the keys, the last dimension: "
    "dim=-1.": attention(partial(soft, dim=-2)),
    "The softmax runs over the keys only if there is at most one batch dimension. Count from the "
    "end: dim=-1.": Either(
        *(attention(lambda s, dim=dim: soft(s, dim if s.ndim > 3 else -1)) for dim in (1, 2))
    ),
    "These are the weights. Multiply them by the value.": (
        lambda query, key, _value: attention()(query, key, torch.eye(key.shape[-2]))
    ),
}


@Examined(
    slips=MISTAKES,
    errors=ERRORS,
    verified=f"{FOUND}.",
)
def check_mended() -> Iterator[tuple[str, tuple]]:
    """Check an attention function with the clinic's probes.

    Verified: all that ``attnlab.clinic.diagnose`` looks for, and the numbers without a batch and
    with one or two batch dimensions.

    Parameters
    ----------
    answer
        A function of (query, key, value) that returns the output.

    See Also
    --------
    attnlab.clinic.diagnose : the probes.
    """
    yield from (inputs_of(2), inputs_of(), inputs_of(3, 2))


def by_exp(subtract: Callable[[Tensor], object]) -> Callable[..., Tensor]:
    """Return attention from exp and a sum, of scores from which a number was subtracted."""
    return attention(lambda scores: by_sum((scores - subtract(scores)).exp()))


@Examined(
    slips={
        **MISTAKES,
        "Large raw scores give NaN, because e to the power of 100 is infinite in float32. What may "
        "you subtract from a row of scores without changing its weights?": Either(
            by_exp(lambda scores: 0),
            attention(lambda s: s.exp() / (s.exp().sum(dim=-1, keepdim=True) + 1e-9)),
        ),
        "The row with scores far below 0 gives NaN: its powers of e all round to 0, or one is "
        "infinite. Subtract the largest score of each row itself: not the largest of all rows, and "
        "not the largest absolute value.": Either(
            by_exp(lambda scores: scores.amax()),
            by_exp(lambda scores: scores.abs().amax(dim=-1, keepdim=True)),
        ),
        "You subtracted the largest score of each column. Subtract that of each row, with "
        "amax(dim=-1, keepdim=True).": by_exp(lambda scores: scores.amax(dim=-2, keepdim=True)),
        "Some score stays far above 0, and e to its power is infinite. A fixed number, the mean or "
        "the smallest score of a row is too little. Subtract the largest.": Either(
            by_exp(lambda scores: scores.mean(dim=-1, keepdim=True)),
            by_exp(lambda scores: scores.amin(dim=-1, keepdim=True)),
        ),
        "You replaced NaN by 0, but the weights that became NaN are not 0. Subtract the largest "
        "score of each row before you use exp.": Either(
            attention(lambda scores: by_sum(scores.exp()).nan_to_num()),
            attention(lambda scores: by_sum(scores.exp().nan_to_num())),
        ),
        "The numbers are finite, but wrong, because scores were cut off. Every score must keep its "
        "distance from the others in its row.": Either(
            *(attention(lambda s, low=low: by_sum(s.clamp(low, 80).exp())) for low in (None, -80)),
            by_exp(lambda scores: (scores - 80).relu()),
        ),
        "You divided the scores of each row by one of them, which changes their differences. "
        "Subtract the largest score instead.": Either(
            attention(lambda s: by_sum((s / s.amax(dim=-1, keepdim=True)).exp())),
            attention(lambda s: by_sum((s / s.abs().amax(dim=-1, keepdim=True)).exp())),
        ),
        "If you subtracted a fixed number, all powers of e are now too small for float32. "
        "Subtract the largest score of each row.": Either(
            *(by_exp(lambda scores, fixed=fixed: fixed) for fixed in (100, 1000))
        ),
        "Smaller raw scores work, but these give NaN. float64 only moves the limit: e to the "
        "power of a score becomes infinite at about 709 instead of 88.": attention(
            lambda scores: by_sum(scores.double().exp()).to(scores.dtype)
        ),
    },
    errors=ERRORS,
    right=attention(),
    by_hand=True,
    verified=f"{FOUND}, and for raw scores of 2000 and -2000. Your function does not call softmax.",
)
def check_attention_from_exp() -> Iterator[tuple[str, tuple]]:
    """Check attention that is written with exp and a sum.

    Verified: all that ``check_mended`` looks at, no call of softmax, raw scores above 1000 and
    below -1000 side by side.

    Parameters
    ----------
    answer
        A function of (query, key, value) that returns the output.

    See Also
    --------
    check_mended : the same without the demands on the softmax.
    """
    yield from (inputs_of(2), inputs_of(), inputs_of(3, 2))
    for size in (100, 300, 1000):
        columns = torch.tensor([[size, -size], [1.0, 2.0], [10.0, 20.0]])
        scores = f"{size} and {2 * size} in row 0, and {-size} and {-2 * size} in row 1"
        yield f"raw scores of {scores}", tuple(columns[..., None])
