"""The checks of lesson 4: reading heatmaps."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attnlab.checks import shape
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Wrong, number, numbers, vector
from attnlab.exercises.frame.forms import Compared, Either, Value, randoms, same

# --- one odd token among four ---------------------------------------------------------------------

E1, E2 = math.e, math.e**2
LONELY = (1 / (E1 + 3), E1 / (E1 + 3), 1 / (E1 + 3), 1 / (E1 + 3))


@Value(
    read=lambda value: numbers(
        value, (4,), "four numbers, one weight for each key", {(4, 4): "Give the row of b alone."}
    ),
    right=LONELY,
    # two decimals
    near=lambda weights, slip: same(weights, torch.as_tensor(slip), rtol=0, atol=0.00501),
    slips={
        "These are the scores. A score of 0 does not give a weight of 0, because e to the power of "
        "0 is 1.": [0, 1, 0, 0],
        "These are e to the power of each score. Now divide by their sum, because weights sum to "
        "1.": [1, E1, 1, 1],
        "These are the raw scores. Divide by 2, raise e to the power of each, and divide by the "
        "sum.": [0, 2, 0, 0],
        "These are e to the power of the raw scores. Divide the scores by 2 first, and in the end "
        "by the sum.": [1, E2, 1, 1],
        "These are the right numbers in another order. The keys are a, b, a, a.": Either(
            *(torch.tensor(LONELY).roll(by) for by in (-1, 1, 2))
        ),
        "These weights come from the raw scores. Divide the scores by 2, the square root of the "
        "number of features.": ([1 / (E2 + 3), E2 / (E2 + 3), 1 / (E2 + 3), 1 / (E2 + 3)]),
        "This is the row of the tokens “a”. The question is about the query “b”.": (
            [E1 / (3 * E1 + 1), 1 / (3 * E1 + 1), E1 / (3 * E1 + 1), E1 / (3 * E1 + 1)]
        ),
    },
    otherwise=lambda weights: (
        f"Weights sum to 1, but yours sum to {weights.sum():.3f}."
        if abs(weights.sum() - 1) > 0.015
        else "What is the score of b with each key? Raise e to the power of each score, and divide "
        "by the sum."
    ),
    verified="These are the four weights that attention gives, found without a softmax.",
    by_hand=True,
)
def check_lonely_weights(_weights: Tensor) -> None:
    """Check the weights that token b gives to the keys a, b, a, a.

    Verified: four numbers, to two decimals, found without a softmax.

    Parameters
    ----------
    answer
        Four weights, or a function without arguments that returns them.

    See Also
    --------
    check_sharp_factor : the next exercise.
    """


# --- a factor for the features --------------------------------------------------------------------

FACTOR = math.sqrt(math.log(198))  # e^(c c) / (e^(c c) + 2) = 0.99
ROUNDED = math.ceil(100 * FACTOR) / 100


def positive(value: object) -> float:
    """Read a positive number."""
    factor = number(value)
    if factor <= 0:
        raise Wrong(voice.returned(f"{factor:g}", "a positive number"))
    return factor


@Value(
    read=positive,
    right=lambda factor: FACTOR - 0.0001 < factor < ROUNDED + 0.001,
    near=lambda factor, slip: abs(factor - slip) < 0.01 * slip,
    slips={
        "Your number is the factor by which the score must grow. Query and key both grow with the "
        "features, so the score is multiplied by the square of your number.": FACTOR**2,
        "That is too little. Divide the product by 2, the square root of the number of features.": (
            FACTOR / math.sqrt(2)
        ),
        "That is too little, because two other tokens share the row with b, not one.": (
            math.sqrt(math.log(99))
        ),
        "That is about what three a’s need. With two, a smaller number reaches 0.99.": (
            math.sqrt(math.log(297))
        ),
    },
    otherwise=lambda factor: (
        "That is too little."
        if factor < FACTOR
        else "That is enough, but a smaller factor reaches 0.99 as well."
    ),
    verified="No smaller factor with two decimals reaches 0.99.",
)
def check_sharp_factor(factor: float) -> str:
    """Check the smallest factor of the features with which a token gives itself 0.99 or more.

    Verified: the positive number, as it is or rounded up to two decimals.

    Parameters
    ----------
    answer
        The number, or a function without arguments that returns it.

    See Also
    --------
    check_lonely_weights : the exercise before.
    """
    scores = torch.tensor([0.0, factor * factor, 0.0], dtype=torch.float64)
    return f"With your factor, token b gives itself {scores.softmax(dim=-1)[1]:.5f}."


# --- what a key contributes -----------------------------------------------------------------------


@Compared(
    read=lambda value: vector(value, "the contributions, as a tensor"),
    right=lambda weights, value: weights * value.norm(dim=-1)[..., None, :],
    slips={
        "These are not weights times lengths. The length of a value is the square root of the sum "
        "of its squared features.": Either(
            lambda weights, value: weights * value.sum(dim=-1)[..., None, :],
            lambda weights, value: weights * value.square().sum(dim=-1)[..., None, :],
            lambda weights, value: weights * value.square().mean(dim=-1).sqrt()[..., None, :],
            lambda weights, value: weights * value.abs().sum(dim=-1)[..., None, :],
        ),
        "The lengths belong to the keys, so each column has one. Here each row has one.": (
            lambda weights, value: weights * value.norm(dim=-1)[..., :, None]
        ),
        "You hid the key, and its weight went to the others. Here the weights stay as they are, "
        "and one value becomes 0.": lambda weights, value: (
            weights / (1 - weights) * torch.cdist(weights @ value, value)
        ),
    },
    what="contributions",
    axes=("sentence", "head", "query", "key"),
    errors={
        "weights (2, ": "Give the lengths an axis of size 1 for the queries: [..., None, :].",
        "must match the size": "The length of a value is taken over its features, the last axis.",
    },
    misshapen="There must be one number for each query and key.",
    otherwise="If you set the value of one key to 0, how far does an output move?",
    verified="Each number says how far the output of a query moves if the value of a key is set "
    "to 0. Your function is correct for one map, for a batch, and for a batch with heads.",
)
def check_contributions() -> Iterator[tuple[str, tuple]]:
    """Check how far each key's value moves each output: weight times length.

    Verified: square and rectangular maps, a batch and heads.

    Parameters
    ----------
    answer
        A function of (weights, value) that returns one number for each cell.

    See Also
    --------
    torch.linalg.vector_norm : the length of a vector.
    """
    for lead, L, S in (((), 4, 4), ((), 3, 5), ((2,), 5, 3), ((2, 3), 4, 4)):
        scores, value = randoms((*lead, L, S), (*lead, S, 6))
        case = f"weights {shape(scores)} and value {shape(value)}"
        yield case, (scores.softmax(dim=-1), value)


# --- what a fitted picture still tells ------------------------------------------------------------


@Compared(
    read=lambda value: numbers(value, (2,), "two numbers, the lower and the upper bound"),
    right=lambda shades: (1 / shades.shape[-1], 1 / shades[0].sum()),  # all rows have this sum
    slips={
        "Your bounds are swapped. The lower one comes first.": lambda shades: (
            1 / shades[0].sum(),
            1 / shades.shape[-1],
        ),
        "An upper bound of 1 is true of every weight, but the shades tell you more. How large "
        "would the darkest weight be if the palest were exactly 0?": lambda shades: (
            1 / shades.shape[-1],
            1,
        ),
        "The darkest weight cannot be 0, because the largest weight of a row is at least 1 "
        "divided by the number of its keys.": lambda shades: (0, 1 / shades[0].sum()),
        "You divided by the number of rows. A row shares its weight among the keys, so divide by "
        "the number of columns.": lambda shades: (1 / len(shades), 1 / shades[0].sum()),
    },
    what="bounds",
    otherwise="If the palest weight is w and the darkest is d, a cell of shade s holds "
    "w + s (d - w), and each row sums to 1. Which d belongs to w = 0, and which to w = d?",
    columns=("lower bound", "upper bound"),
    verified="The true weight lies between your two numbers for every picture, and neither number "
    "can be improved.",
    rtol=1e-4,
)
def check_darkest_range() -> Iterator[tuple[str, tuple]]:
    """Check what a picture with fitted colours tells about its darkest weight.

    Verified: both ends, for random tables of four sizes.

    Parameters
    ----------
    answer
        A function of shades (L, S) that returns two numbers.

    See Also
    --------
    attnlab.plotting.plot_attention : its scale runs from 0 to 1 if nothing else is asked.
    """
    for size in ((3, 5), (4, 4), (6, 3), (2, 9)):
        weights = randoms(size)[0].softmax(dim=-1)
        yield f"shades {size}", ((weights - weights.min()) / (weights.max() - weights.min()),)
