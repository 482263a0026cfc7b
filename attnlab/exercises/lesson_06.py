"""The checks of lesson 6: trainable projections."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.checks import shape
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Wrong
from attnlab.exercises.frame.forms import Case, Compared, Either, Opinion, Value, randoms

# --- counting -------------------------------------------------------------------------------------

D_IN, D_K, D_V = 12, 7, 5
OUTPUTS = D_K + D_K + D_V
MATRICES = D_IN * OUTPUTS
COUNT = MATRICES + OUTPUTS


@Value(
    right=COUNT,
    slips={
        "Queries and keys each need a projection, and each output has a bias.": Either(
            (D_IN + 1) * (D_K + D_V), D_IN * (D_K + D_V)
        ),
        "The matrices are correct. Now add one bias for each output of each projection.": Either(
            MATRICES, MATRICES + 3, MATRICES + 3 * D_IN
        ),
        "A value has 5 numbers, not 7, and each output has a bias.": Either(
            3 * (D_IN + 1) * D_K, 3 * D_IN * D_K
        ),
        "The words share the matrices, so 9 words need no more parameters than one word does.": (
            Either(9 * COUNT, 9 * MATRICES, MATRICES + 9 * OUTPUTS)
        ),
    },
    verified="The matrices have 228 entries and the biases 19, for a sentence of any length.",
    otherwise="For each projection, multiply the number of inputs by the number of outputs, and "
    "add one bias for each output.",
)
def check_parameter_count(_count: float) -> None:
    """Check how many parameters three projections 12 -> 7, 7 and 5 with bias have.

    Verified: the number.

    Parameters
    ----------
    answer
        The number, or a function without arguments that returns it.

    See Also
    --------
    torch.nn.Module.parameters : to count with.
    """


# --- a linear layer made of a matrix --------------------------------------------------------------


def linear_of(matrix: Tensor) -> nn.Linear:
    """Return a layer without bias that multiplies by a matrix."""
    layer = nn.Linear(*matrix.shape, bias=False)
    layer.weight = nn.Parameter(matrix.T.clone())
    return layer


def weight_of(layer: object) -> Tensor:
    """Return a copy of the weight of a linear layer, and set it to 0."""
    if not isinstance(layer, nn.Linear):
        raise Wrong(voice.returned(voice.kind_of(layer), "an nn.Linear"))
    if layer.bias is not None:
        zero = "" if layer.bias.any() else " Even a bias of zeros would be trained."
        raise Wrong(f"The layer must not have a bias, so pass bias=False.{zero}")
    if not layer.weight.requires_grad:
        raise Wrong("The weight cannot be trained, because its requires_grad is False.")
    weight = layer.weight.detach().clone()
    with torch.no_grad():
        layer.weight.zero_()
    sizes = layer.in_features, layer.out_features
    if weight.shape != sizes[::-1]:
        raise Wrong(
            f"An nn.Linear{sizes} stores a weight of the shape {sizes[::-1]}, but yours has the "
            f"shape {shape(weight)}."
        )
    return weight


@Compared(
    right=linear_of,
    what="weight of the layer",
    read=weight_of,
    slips={
        "The weight of the layer must hold the transposed matrix. If the matrix is square, no "
        "error tells you that you forgot to transpose it.": (
            lambda matrix: linear_of(matrix.T if len(matrix) == len(matrix.T) else matrix)
        ),
    },
    errors={
        "as parameter 'weight'": "A weight must be a parameter: wrap the numbers in nn.Parameter.",
        "a leaf Variable that requires grad": (
            "Copy the numbers inside `with torch.no_grad():`, so that the copying is not part of "
            "what is trained."
        ),
    },
    misshapen="nn.Linear stores one row for each output.",
    otherwise="It must hold the transposed matrix.",
    axes=("output", "input"),
    keeps_inputs="The layer shares its memory with the matrix, so training it changes the matrix. "
    "Copy the numbers with clone().",
    verified="The layer returns x @ matrix, even for a square matrix. Its weight is a copy, so "
    "training the layer does not change the matrix.",
)
def check_linear_from() -> Iterator[tuple[str, tuple]]:
    """Check a function that makes an ``nn.Linear`` of a matrix (d_in, d_out).

    Verified: type, sizes, no bias, the numbers for oblong matrices and a square one, that it can
    be trained, and that training it leaves the given matrix alone.

    Parameters
    ----------
    answer
        A function of a matrix (d_in, d_out) that returns the layer.

    See Also
    --------
    torch.nn.Linear : stores its weight as (d_out, d_in).
    """
    for sizes in ((5, 3), (4, 4), (5, 1)):  # of one column, the transpose shares its memory
        yield f"a matrix {sizes}", randoms(sizes)


# --- the same scores ------------------------------------------------------------------------------

BY_A = "W_query is multiplied by a matrix A, and W_key by"


@Opinion(
    verified="Your function compares what decides the scores, whatever the numbers in the matrices "
    "are.",
)
def check_same_scores() -> Iterator[Case]:
    """Check a function that says whether two layers have the same scores for all tokens.

    Verified: True for two pairs of layers with the same scores, one of them with another d_k, and
    False for nine pairs without.

    Parameters
    ----------
    answer
        A function of (W_query, W_key, other_query, other_key) that returns a bool.

    See Also
    --------
    attnlab.attention_scores : they depend on the product only.
    """
    query, key, change = randoms((8, 4), (8, 4), (4, 4))
    change = change + 3 * torch.eye(4)
    inverse = change.inverse()
    last, inner, of_key = query.clone(), query.clone(), key.clone()
    last[-1, -1] += 1
    inner[2, 1] += 1
    of_key[4, 2] += 1
    close = query.clone()
    close[0, 0] += 0.02
    pushed = [1.25**0.25 * matrix for matrix in (query, key)]  # d_k = 5 instead of 4
    shifted = F.pad(pushed[0], (0, 1), value=3.0), F.pad(pushed[1], (0, 1), value=1.0)
    wide_query, wide_key = (F.pad(matrix, (0, 12)) for matrix in (query, key))  # d_k = 16
    for name, others, truth, why in (
        (
            f"in which {BY_A} the transpose of the inverse of A",
            (query @ change, key @ inverse.T),
            True,
            "The matrices differ, but W_query @ W_key.T does not, apart from rounding. Compare the "
            "products, with a tolerance.",
        ),
        (
            "with d_k = 16 and twice the product W_query @ W_key.T",
            (2 * wide_query, wide_key),
            True,
            "The product is twice as large, and so is the square root of d_k.",
        ),
        (
            "with d_k = 16 and the same product W_query @ W_key.T",
            (wide_query, wide_key),
            False,
            "The products are equal, but one is divided by 2 and the other by 4.",
        ),
        (
            f"in which {BY_A} the inverse of A",
            (query @ change, key @ inverse),
            False,
            "A cancels the inverse of A only if this inverse is transposed.",
        ),
        (
            "in which W_query and W_key are swapped",
            (key, query),
            False,
            "The swap transposes the scores, so the two layers differ: the score of query i and "
            "key j becomes that of query j and key i.",
        ),
        ("in which W_query is negated", (-query, key), False, "All scores have the opposite sign."),
        (
            "in which one entry of W_query is changed",
            (last, key),
            False,
            "The change matters only where the last feature is not 0. Compare all rows of the "
            "product.",
        ),
        (
            "in which an entry in the middle of W_query is changed",
            (inner, key),
            False,
            "The change shows in a single row of the product. Compare all of them.",
        ),
        (
            "in which an entry in the middle of W_key is changed",
            (query, of_key),
            False,
            "The change shows in a single column of the product. Compare all of them.",
        ),
        (
            "that adds a number to each row of scores",
            shifted,
            False,
            "The weights of single features are the same, but the scores are not.",
        ),
        (
            "in which an entry of W_query is larger by 0.02",
            (close, key),
            False,
            "Scores differ by more than rounding. Compare the largest difference, with a small "
            "tolerance.",
        ),
    ):
        yield Case(f"a layer and a copy of it {name}", (query, key, *others), truth, why)
