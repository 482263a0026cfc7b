"""The check of lesson 0: start here."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnlab.exercises._forms import Compared, randoms


def scores_of(query: Tensor, x: Tensor) -> Tensor:
    """Return the score of a query with each row."""
    return x @ query / query.shape[-1] ** 0.5


def new_vector(query: Tensor, x: Tensor) -> Tensor:
    """Return the average of the rows, weighted by how well they match a query."""
    return scores_of(query, x).softmax(dim=-1) @ x


@Compared(
    answer="A function of (query, x), shapes (E,) and (L, E), that returns a tensor (E,).",
    see="torch.nn.functional.scaled_dot_product_attention : for many queries at once.",
    what="new vector",
    axes=("feature",),
    right=new_vector,
    slips={
        "The scores are not divided. Divide them by the square root of the number of features.": (
            lambda query, x: (x @ query).softmax(dim=-1) @ x
        ),
        "The scores are divided by the number of features. Divide them by its square root.": (
            lambda query, x: (x @ query / len(query)).softmax(dim=-1) @ x
        ),
        "The scores are divided by the square root of the number of words. Divide them by that of "
        "the number of features.": lambda query, x: (x @ query / len(x) ** 0.5).softmax(dim=-1) @ x,
        "These are the weights of the words. Use them to average the rows of x.": (
            lambda query, x: scores_of(query, x).softmax(dim=-1)
        ),
        "These are the scores. Turn them into weights, and average the rows of x with them.": (
            scores_of
        ),
        "These are the numbers of the query itself, as they were before attention.": (
            lambda query, x: query.clone()
        ),
        "This is the plain average of the rows. Words that match the query better must get more "
        "weight.": lambda query, x: x.mean(dim=0),
        "Every row gets the weight 1, because the softmax runs over a single number. It must run "
        "over the words.": lambda query, x: x.sum(dim=0),
        "The rows are averaged with the scores. Turn the scores into weights first.": (
            lambda query, x: scores_of(query, x) @ x
        ),
        "The powers of e are not divided by their sum, so the weights do not add up to 1.": (
            lambda query, x: scores_of(query, x).exp() @ x
        ),
        "The query has been added to the new vector. Return the average alone.": (
            lambda query, x: query + new_vector(query, x)
        ),
        "The scores are always divided by the square root of 5. Ask the query how many features it "
        "has.": lambda query, x: (x @ query / 5**0.5).softmax(dim=-1) @ x,
        "These are the new vectors of all words. Return only the one for the query.": (
            lambda query, x: torch.stack([new_vector(row, x) for row in x])
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
    """
    for length, features in ((7, 5), (3, 11), (13, 2)):
        x, others = randoms((length, features), (length, features), seed=length)
        yield f"query ({features},) and x ({length}, {features})", (others[0], x)
