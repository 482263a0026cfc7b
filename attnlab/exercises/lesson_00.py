"""The check of lesson 0: start here."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from attnlab.exercises._forms import Compared, Either, randoms


def scores_of(query: Tensor, x: Tensor) -> Tensor:
    """Return the score of a query with each row."""
    return x @ query / query.shape[-1] ** 0.5


def new_vector(query: Tensor, x: Tensor) -> Tensor:
    """Return the average of the rows, weighted by how well they match a query."""
    return scores_of(query, x).softmax(dim=-1) @ x


@Compared(
    what="new vector",
    axes=("feature",),
    right=new_vector,
    slips={
        "The scores are not divided. Divide them by the square root of the number of features.": (
            lambda query, x: (x @ query).softmax(dim=-1) @ x
        ),
        "The scores are divided, but not by the square root of the number of features.": Either(
            lambda query, x: (x @ query / len(query)).softmax(dim=-1) @ x,
            lambda query, x: (x @ query / len(x) ** 0.5).softmax(dim=-1) @ x,
            lambda query, x: (x @ query / 5**0.5).softmax(dim=-1) @ x,
        ),
        "You returned one number for each word. Average the rows of x with the weights.": Either(
            scores_of, lambda query, x: scores_of(query, x).softmax(dim=-1)
        ),
        "This is the plain average of the rows. Words that match the query better must get more "
        "weight.": lambda query, x: x.mean(dim=0),
        "The weights of the words do not sum to 1. Make them with a softmax over the words.": (
            Either(
                lambda query, x: scores_of(query, x) @ x,
                lambda query, x: scores_of(query, x).exp() @ x,
                lambda query, x: x.sum(dim=0),  # a softmax over a single number
            )
        ),
    },
    errors={"must match the size": "The weighted average of the rows is `weights @ x`."},
    misshapen="Return a single vector, with one number for each feature.",
    otherwise="One of three steps is wrong: the score of each word, the softmax of the scores, or "
    "the average.",
    verified="The new vector is right for sentences of different lengths, and for any query.",
)
def check_new_vector() -> Iterator[tuple[str, tuple[Tensor, ...]]]:
    """Check a function that returns the new vector of one word.

    Verified: its numbers and shape, for three sizes.

    Parameters
    ----------
    answer
        A function of (query, x), shapes (E,) and (L, E), that returns a tensor (E,).

    See Also
    --------
    torch.nn.functional.scaled_dot_product_attention : for many queries at once.
    """
    for length, features in ((7, 5), (3, 11), (13, 2)):
        x, others = randoms((length, features), (length, features), seed=length)
        yield f"query ({features},) and x ({length}, {features})", (others[0], x)
