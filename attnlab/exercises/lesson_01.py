"""The checks of lesson 1: attention is a soft lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attnlab.attention import trace_attention
from attnlab.data import load_table
from attnlab.exercises._answers import Answer, Right, Wrong, table, vector
from attnlab.exercises._examined import Examined, examined, remarks
from attnlab.exercises._forms import Check, Either, Value, calls_softmax, randoms

WORDS = ("“He”", "“is”", "“awesome”")
KEYS = load_table("he_is_awesome.csv").values
FUNCTION = "A function of (query, key, value) that returns the output."

# --- a query of zeros -----------------------------------------------------------------------------


def three_weights(value: object) -> Tensor:
    """Read one weight per key."""
    weights = vector(value)
    if weights.shape != (3,):
        why = ": four is the number of features, not of keys" if weights.numel() == 4 else ""
        shape = tuple(weights.shape)
        raise Wrong(f"There must be one weight for each key, shape (3,); yours has {shape}{why}.")
    if not weights.isfinite().all():
        raise Wrong("Weights must be finite numbers; yours hold NaN or infinity.")
    return weights


def no_third(weights: Tensor) -> str:
    """Say which property of weights is missing."""
    total = float(weights.sum())
    if abs(total - 1) > 0.02:
        percent = " Are they in percent? A weight is a share of 1." if abs(total - 100) < 2 else ""
        return f"Weights sum to 1, but yours sum to {total:.3f}.{percent}"
    if weights.min() < 0:
        return f"No weight can be negative, but one of yours is {weights.min():.3f}."
    return "Your weights are not all equal. Does any key have a higher score than another?"


@Value(
    answer="Three weights, or a function without arguments that returns them.",
    see="check_query_for_awesome : the next exercise.",
    read=three_weights,
    right=[1 / 3] * 3,
    near=lambda weights, other: bool((weights - torch.as_tensor(other)).abs().max() < 0.007),
    slips={
        "These are the scores. A score of 0 does not give a weight of 0: e to the power of 0 is 1, "
        "and the three weights sum to 1.": [0, 0, 0],
        "e to the power of 0 is 1, so that step is correct. Now divide by the sum of all three, "
        "because weights sum to 1.": [1, 1, 1],
        "These are the weights of the query “He”. A query of zeros has a dot product of 0 with "
        "every key.": (trace_attention(KEYS, KEYS, KEYS).weights[0].double()),
        "Here one key takes everything, as in a hard lookup. Does any key have a higher score "
        "than another?": Either([1, 0, 0], [0, 1, 0], [0, 0, 1]),
    },
    otherwise=no_third,
    verified="These are the three weights that attention gives, found without softmax.",
    evidence=lambda weights: table(
        "Query (4,), keys (3, 4):",
        {"score of a query of zeros": [0, 0, 0], "your weights": weights},
        WORDS,
    ),
    by_hand=True,
)
def check_zero_query(_weights: Tensor) -> None:
    """Check the weights that a query of zeros gives to three keys.

    Verified: three numbers, each a third up to rounding, found without a softmax.
    """


# --- a query for one word -------------------------------------------------------------------------

ENOUGH = 0.9


def weights_of(query: Tensor) -> Tensor:
    """Return the weights of a query; 2 is the root of 4 features."""
    return (KEYS.double() @ query / 2).softmax(dim=-1)


@Check(
    answer="The query, or a function without arguments that returns it.",
    see="check_zero_query : the exercise before.",
)
def check_query_for_awesome(answer: Answer) -> Right:
    """Check a query that is to give “awesome” more than 0.9 of the weight.

    Verified: its shape (4,), and the weights that attention gives it over “He is awesome”.
    """
    query = answer.value(vector)
    if query.shape != (4,):
        why = ""
        if query.shape == (3,):
            why = ": a query has a number for each feature, not each word"
        why = ": a single query is one row of it" if query.shape == (1, 4) else why
        raise Wrong(f"The query must have the shape (4,), yours has {tuple(query.shape)}{why}.")
    if not query.isfinite().all():
        raise Wrong("The query must be finite; yours holds NaN or infinity.")
    weights = weights_of(query)
    if not weights.isfinite().all():
        raise Wrong(
            "The query is so long that its scores are too large for floating-point numbers."
        )
    share = float(weights[2])
    if share > ENOUGH:
        return Right(
            f"“awesome” gets {share:.3f} of the weight, which is more than {ENOUGH}, with the keys "
            "unchanged."
        )
    rows = {"raw score": KEYS.double() @ query, "weight": weights}
    evidence = table("Your query (4,) with the keys (3, 4):", rows, WORDS)
    raise Wrong(f"“awesome” gets {share:.3f} of the weight{advice(query)}", evidence)


def advice(query: Tensor) -> str:
    """Say what keeps “awesome” below its share."""
    weights = weights_of(query)
    if weights.max() - weights.min() < 1e-9:
        return ", like every word, because this query prefers none of them. Choose a direction."
    leader = int(weights.argmax())
    if leader == 2:
        return (
            ". It has the largest weight already, so the direction is good. Make the query longer."
        )
    turned = "; the opposite one would do" if int(weights_of(-query).argmax()) == 2 else ""
    return (
        f", but {WORDS[leader]} gets the largest. A longer query will not help, so choose another "
        f"direction{turned}."
    )


# --- attention functions --------------------------------------------------------------------------

L, S, E, EV = 5, 7, 11, 13
# A solution's verdict is in sight before the learner's own answer: it says no more than it must.
FOUND = "The output agrees with torch, for one sentence and for a batch"
FROM_THE_END = "Count the dimensions from the end, with -1 and -2."
TRANSPOSE = "Swap the last two dimensions of the key with key.transpose(-2, -1)."
ERRORS = {
    "a (2) must match the size of tensor b (11)": f"`.T` reverses all dimensions. {TRANSPOSE}",
    "to be: [2, 11] but got: [2, 7]": TRANSPOSE,
    "must match the size of tensor": (
        "A sum or a largest value over the keys needs keepdim=True, so that it stays a column with "
        "one number for each query."
    ),
}


def inputs_of(*lead: int) -> tuple[str, tuple[Tensor, Tensor, Tensor]]:
    """Return query, key and value, and how a message names them."""
    sizes = ((*lead, L, E), (*lead, S, E), (*lead, S, EV))
    return "query {}, key {} and value {}".format(*sizes), randoms(*sizes)


WITH_HEADS = (
    *inputs_of(2, 3),
    f"It does not work yet for a query of shape {(2, 3, L, E)}, with heads; lesson 7 needs that.",
)


@Examined(
    answer=FUNCTION,
    see="attnlab.clinic.diagnose : the probes.",
    errors=ERRORS,
    advice=FROM_THE_END,
    also=WITH_HEADS,
    verified=f"{FOUND}.",
)
def check_mended() -> Iterator[tuple[str, tuple]]:
    """Check an attention function with the clinic's probes.

    Verified: all that ``attnlab.clinic.diagnose`` looks for, and the numbers for one sentence and
    for a batch.
    """
    yield from (inputs_of(2), inputs_of())


def by_exp(subtract: Callable[[Tensor], object]) -> Callable[..., Tensor]:
    """Return attention from exp and a sum, of scores from which a number was subtracted."""

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        positive = (scores - subtract(scores)).exp()
        return positive / positive.sum(dim=-1, keepdim=True) @ value

    return attend


@Check(
    answer=FUNCTION,
    see="check_mended : the same without the demands on the softmax.",
    slips={
        "You subtract the largest score of each key, taken over the queries. All scores of a row "
        "must lose the same number, or the weights change.": (
            by_exp(lambda scores: scores.amax(dim=-2, keepdim=True))
        ),
        "You subtract a large fixed number from every score, so e to each of them rounds to 0. "
        "Subtract a number that suits the row.": by_exp(lambda scores: 1000),
    },
    errors=ERRORS,
)
def check_attention_from_exp(answer: Answer) -> Right:
    """Check attention that is written with exp and a sum.

    Verified: all that ``check_mended`` looks at, no call of softmax, raw scores above 1000 and
    below -1000 side by side.
    """
    keys = [KEYS.clone() for _ in range(3)]
    if answer.observe(lambda given: calls_softmax(given, *keys)):
        raise Wrong("Your function calls softmax, directly or not. Write it with exp and a sum.")
    cases = [inputs_of(2), inputs_of()]
    report = examined(answer, cases, ERRORS, FROM_THE_END)
    see_large_scores(answer)
    return Right(
        f"{FOUND}, and for raw scores of 2000 and -2000. Your function does not call softmax.",
        None,
        remarks(answer, report, WITH_HEADS),
        report,
    )


def see_large_scores(answer: Answer) -> None:
    """Raise Wrong unless two queries of one feature, 1000 and -1000, get their correct output."""
    output = two_queries(answer, 1000.0)
    right = torch.tensor([20.0, 10.0], dtype=torch.float64)
    if torch.allclose(output, right, atol=1e-3):
        return
    if not output.isnan().any():
        why = "With large raw scores the numbers are finite, but wrong. No score may be cut off."
    elif not output[0].isnan():
        why = (
            "The row with scores far below 0 gives NaN, because e to each of its scores became 0, "
            "and so did the sum. Subtract the largest score of each row, not one number for all."
        )
    elif two_queries(answer, 100.0).isfinite().all():
        why = (
            "Raw scores of 100 and 200 work, but 1000 and 2000 give NaN. The number that you "
            "subtract must leave no score far above 0. The mean of a row, for example, can leave "
            "such scores."
        )
    else:
        why = (
            "Large raw scores give NaN, because e to the power of 1000 is infinite in floats. What "
            "may you subtract from a row of scores without changing its weights?"
        )
    rows = {
        "query 0: raw scores 1000 and 2000": [output[0], right[0]],
        "query 1: raw scores -1000 and -2000": [output[1], right[1]],
    }
    caption = "Keys 1 and 2, values 10 and 20, one feature:"
    raise Wrong(why, table(caption, rows, ("your output", "correct")))


def two_queries(answer: Answer, size: float) -> Tensor:
    """Return what attention makes of the queries ``size`` and ``-size``."""
    columns = torch.tensor([[size, -size], [1.0, 2.0], [10.0, 20.0]])
    case = "query (2, 1), key (2, 1) and value (2, 1)"
    output = answer.ask(*columns[..., None], read=vector, case=case)
    if output.shape != (2, 1):
        raise Wrong(f"With {case} the output must be (2, 1), got {tuple(output.shape)}.")
    return output[:, 0]
