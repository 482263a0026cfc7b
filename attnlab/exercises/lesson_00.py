"""The checks of lesson 0: start here."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnlab.display.table import load_table
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Right, Wrong, vector
from attnlab.exercises.frame.forms import Compared, Either, Found, randoms, same

# --- one hidden word ------------------------------------------------------------------------------


def scores_of(query: Tensor, x: Tensor) -> Tensor:
    """Return the score of a query with each row."""
    return x @ query / query.shape[-1] ** 0.5


def weights_of(query: Tensor, x: Tensor) -> Tensor:
    """Return the weights that a query gives to the rows."""
    return scores_of(query, x).softmax(dim=-1)


def others(x: Tensor, hidden: int) -> Tensor:
    """Return a copy of the rows without the hidden one."""
    return torch.cat([x[:hidden], x[hidden + 1 :]])


def zeroed(rows: Tensor, hidden: int) -> Tensor:
    """Return a copy of the rows, or of the numbers, with 0 in place of the hidden one."""
    return rows.index_fill(0, torch.tensor(hidden), 0.0)


def without_exp(query: Tensor, x: Tensor) -> Tensor:
    """Return the average of all rows, weighted by their shares of the sum of all scores."""
    return scores_of(query, x) @ x / scores_of(query, x).sum()


def weight_left(got: Tensor, right: Tensor, _query: Tensor, x: Tensor, hidden: int) -> str:
    """Say what the hidden word still does, or which steps can be wrong."""
    if got.isinf().any():
        return "The result contains inf. If you use -inf, put it in place of a score, not a weight."
    towards = x[hidden] - right
    weight = float((got - right) @ towards / towards.square().sum())
    if 0 < weight and same(got, right + weight * towards, atol=1e-6):
        if weight > 0.9:
            return (
                "The hidden word gets nearly all the weight: the other words have scores that are "
                "even lower than the one that you gave it. Only -inf is lower than every score."
            )
        return (
            f"The hidden word still gets a weight of about {weight:.1g}. It must get exactly 0, as "
            "with a score of -inf."
        )
    large = x[hidden].abs() > 1000
    if large.any() and same(got[~large], right[~large]):
        return (
            "The hidden row still enters a sum, and rounding its large numbers changes the result. "
            "Leave it out of every sum."
        )
    return (
        "One of these four steps is wrong: computing the scores, hiding the word, taking the "
        "softmax, or averaging the rows."
    )


def ordinary_attention(query: Tensor, x: Tensor) -> Tensor:
    """Return the average of all rows, weighted by how well they match a query."""
    return weights_of(query, x) @ x


def new_vector(query: Tensor, x: Tensor, hidden: int) -> Tensor:
    """Return the average of all rows but one, weighted by how well they match a query."""
    return ordinary_attention(query, others(x, hidden))


@Compared(
    what="new vector",
    axes=("feature",),
    right=new_vector,
    read=lambda value: vector(value, "the new vector alone, with one number for each feature"),
    slips={
        "The hidden word still gets its usual weight. It must get none.": (
            lambda query, x, hidden: ordinary_attention(query, x)
        ),
        "You used the last row of x as the query. The word that asks is given in `query`, and need "
        "not be in x.": Either(
            lambda query, x, hidden: new_vector(others(x, hidden)[-1], x, hidden),
            lambda query, x, hidden: new_vector(x[-1], x, hidden),
        ),
        "You used the hidden word as the query. The word that asks is given in `query`.": Either(
            lambda query, x, hidden: new_vector(x[hidden], x, hidden),
            lambda query, x, hidden: ordinary_attention(x[hidden], x),
        ),
        "You let the query attend to itself, as an extra row. Average only the rows of x, without "
        "the hidden one.": lambda query, x, hidden: ordinary_attention(
            query, torch.cat([others(x, hidden), query[None]])
        ),
        "You added the query to the average. Return the average alone.": (
            lambda query, x, hidden: new_vector(query, x, hidden) + query
        ),
        "You hid the words after the hidden one. Hide that word alone.": Either(
            lambda query, x, hidden: ordinary_attention(query, x[:hidden]),
            lambda query, x, hidden: ordinary_attention(query, x[: hidden + 1]),
        ),
        "You hid the word before it. `hidden` counts from 0.": (
            lambda query, x, hidden: new_vector(query, x, hidden - 1)
        ),
        "You took the softmax of weights. Hide the word in the scores, and take it once.": Either(
            lambda query, x, hidden: zeroed(weights_of(query, x), hidden).softmax(dim=-1) @ x,
            lambda query, x, hidden: (
                others(weights_of(query, x), hidden).softmax(dim=-1) @ others(x, hidden)
            ),
        ),
        "You hid all words but one: the hidden word gets all the weight. It must get none.": (
            lambda query, x, hidden: x[hidden]
        ),
        "The weights are made without the exponential. Raise e to the power of each score, and "
        "then divide by the sum.": Either(
            lambda query, x, hidden: without_exp(query, zeroed(x, hidden)),
            lambda query, x, hidden: without_exp(query, others(x, hidden)),
        ),
        "The score of the hidden word is 0, but that is not a weight of 0: e to the power of 0 is "
        "1.": Either(
            lambda query, x, hidden: zeroed(scores_of(query, x), hidden).softmax(dim=-1) @ x,
            lambda query, x, hidden: ordinary_attention(query, zeroed(x, hidden)),
        ),
        "You divided the scores by √5, which is right for 5 features. This query has 11: divide by "
        "√11.": lambda query, x, hidden: new_vector(query * (len(query) / 5) ** 0.5, x, hidden),
        "The scores must be divided by the square root of the number of features.": Either(
            # another length of the query, as if its dot products were divided by 1, E and √L
            lambda query, x, hidden: new_vector(query * len(query) ** 0.5, x, hidden),
            lambda query, x, hidden: new_vector(query / len(query) ** 0.5, x, hidden),
            lambda query, x, hidden: new_vector(query * (len(query) / len(x)) ** 0.5, x, hidden),
        ),
        "You returned one number for each word. Average the rows of x with the weights.": Either(
            lambda query, x, hidden: scores_of(query, x).softmax(dim=-1),
            lambda query, x, hidden: scores_of(query, others(x, hidden)).softmax(dim=-1),
        ),
        "This is the plain average of the other rows. Words that match the query better must get "
        "more weight.": lambda query, x, hidden: others(x, hidden).mean(dim=0),
        "The weights of the other words do not sum to 1. Leave out the hidden word, and then "
        "divide each power of e by the sum of the powers.": Either(
            lambda query, x, hidden: zeroed(weights_of(query, x), hidden) @ x,
            lambda query, x, hidden: zeroed(scores_of(query, x).exp(), hidden) @ x,
        ),
    },
    errors={
        "must match the size": "The weighted average of the rows is `weights @ x`.",
        "mat1 and mat2 shapes": "One score for each row is `x @ query`, and their average is "
        "`weights @ x`. If you leave out a score, leave out its row of x as well.",
        "size mismatch": "The weighted average of the rows is `weights @ x`, in this order.",
        "Dimension out of range": "The scores of one query lie along a single dimension: dim=-1.",
        "out of bounds": "The query need not be a row of x. Take it from `query`.",
    },
    misshapen="Return a single vector, with one number for each feature.",
    nan="The result contains NaN. Set the score of the hidden word, and nothing else, to -inf (not "
    "inf).",
    otherwise=weight_left,
    verified="The new vector is right for sentences of different lengths, and whichever word is "
    "hidden.",
    keeps_inputs=True,
)
def check_new_vector() -> Iterator[tuple[str, tuple]]:
    """Check a function that returns the new vector of one word, while another is hidden from it.

    Verified: its numbers and shape, for three sizes and three places of the hidden word, and that
    large numbers in the row of the hidden word change nothing, even if all scores are low.

    Parameters
    ----------
    answer
        A function of (query, x, hidden), shapes (E,) and (L, E), that returns E numbers.

    See Also
    --------
    torch.nn.functional.scaled_dot_product_attention : for many queries at once, with a mask.
    """
    for length, features, hidden in ((7, 5, 3), (3, 11, 0), (13, 2, 12)):
        x, more = randoms((length, features), (length, features), seed=length)
        case = f"query ({features},), x ({length}, {features}) and hidden = {hidden}"
        yield case, (more[0], x, hidden)
    x, more = randoms((7, 5), (7, 5))
    query = torch.cat([torch.tensor([-9.0]), more[0, 1:3], torch.zeros(2)])
    x[:, 0], x[3, 3:] = 20, torch.tensor([1e30, -3e30])  # the smallest weight shows
    case = "query (5,), x (7, 5) in which the hidden row ends in 1e30, -3e30, hidden = 3"
    yield f"{case} and scores of about -80", (query, x, 3)


# --- a third sentence with "bat" ------------------------------------------------------------------

WORDS = load_table("cave_and_ball.csv")


def words_of(value: object) -> list[str]:
    """Read a sentence of words from the table, with one bat and one ball."""
    if not isinstance(value, str):
        raise Wrong(voice.returned(voice.kind_of(value), "a sentence, as a string"))
    words = value.split()
    for word in words:
        if word not in WORDS.tokens:
            raise Wrong(
                f"“{word[:40]}” is not in the table, which contains only these words: "
                f"{', '.join(WORDS.tokens)}. Do not use capital letters or full stops."
            )
    for word in ("bat", "ball"):
        if words.count(word) != 1:
            raise Wrong(
                f"The word “{word}” must occur exactly once in your sentence, not "
                f"{words.count(word)} times."
            )
    return words


@Found(read=words_of)
def check_third_sentence(words: list[str]) -> Right:
    """Check a sentence with a ball in which “bat” still becomes more of an animal.

    Verified: its words, and that the new vector of “bat” has more animal than sport.

    Parameters
    ----------
    answer
        The sentence, or a function without arguments that returns it.

    See Also
    --------
    check_new_vector : computes a new vector.
    """
    x = WORDS.values[[WORDS.tokens.index(word) for word in words]]
    bat = x[words.index("bat")]
    animal, sport = (scores_of(bat, x).softmax(dim=-1) @ x)[:2].tolist()
    plain_animal, plain_sport = x.mean(dim=0)[:2].tolist()
    measured = f"The new vector of “bat” has {animal:.3f} of `animal` and {sport:.3f} of `sport`."
    if animal > sport:
        return Right(
            f"{measured} Together, the words that have some `animal` outweigh those that have some "
            "`sport`."
        )
    if plain_animal > plain_sport:
        raise Wrong(
            f"{measured} In the plain average, `animal` would lead, by {plain_animal:.3f} to "
            f"{plain_sport:.3f}. But words that match “bat” well get more of its attention, "
            "and “ball” matches it better than “cave” and “hung” do. Add more of these."
        )
    advice = "Add more of the words that have some `animal`."
    if "hit" in words:
        advice += " Leaving out “hit”, which has some `sport`, helps, too."
    raise Wrong(f"{measured} {advice}")
