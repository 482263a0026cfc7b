"""Checks for the exercises of lesson 1: attention is a soft look-up."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.attention import trace_attention
from attnlab.clinic import Evidence
from attnlab.data import load_table
from attnlab.exercises._answers import Answer, NotDone, Right, Wrong, judge, table, vector
from attnlab.exercises._attention_answers import calls_softmax, examined, remarks_of
from attnlab.exercises._verdict import Verdict

WORDS = ("“He”", "“is”", "“awesome”")
ENOUGH = 0.9
# A solution's verdict is in sight before the learner's own answer: it says no more than it must.
FOUND = (
    "Scores, weights and output hold, with the numbers of torch, for one sentence and for a batch"
)


def check_zero_query(answer: object) -> Verdict:
    """Check the weights that a query of zeros gives to three keys.

    Verified: three numbers, each a third up to rounding, found without a softmax.

    Parameters
    ----------
    answer : callable or sequence of float
        A function without arguments that returns three weights, or the weights.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    check_query_for_awesome : the next exercise.
    """
    return judge(answer, _zero_query)


def check_query_for_awesome(answer: object) -> Verdict:
    """Check a query that is to give “awesome” more than 0.9 of the weight.

    Verified: its shape (4,), and the weights that attention gives it over “He is awesome”.

    Parameters
    ----------
    answer : callable or Tensor, shape (4,)
        A function without arguments that returns the query, or the query.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    check_zero_query : the exercise before.
    """
    return judge(answer, _query_for_awesome)


def check_mended(answer: object) -> Verdict:
    """Check an attention function with the clinic's probes.

    Verified: all that ``attnlab.clinic.diagnose`` looks for, and the numbers for one sentence and
    for a batch.

    Parameters
    ----------
    answer : callable
        A function of (query, key, value) that returns the output.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.clinic.diagnose : the probes.
    """
    return judge(answer, _mended)


def check_attention_from_exp(answer: object) -> Verdict:
    """Check attention that is written with exp and a sum.

    Verified: all that ``check_mended`` looks at, no call of softmax, raw scores above 1000 and
    below -1000 side by side.

    Parameters
    ----------
    answer : callable
        A function of (query, key, value) that returns the output.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    check_mended : the same without the demands on the softmax.
    """
    return judge(answer, _attention_from_exp)


def _keys() -> Tensor:
    return load_table("he_is_awesome.csv").values


# --- a query of zeros -----------------------------------------------------------------------------


def _zero_query(answer: Answer) -> Right:
    weights = answer.value(vector)
    if weights.shape != (3,):
        why = ": four counts the features, and there are three keys" if weights.numel() == 4 else ""
        raise Wrong(f"One weight per key, shape (3,); yours has {tuple(weights.shape)}{why}.")
    wrong = _wrong_weights(weights)
    if wrong:
        scores = "score of a query of zeros"
        rows = {scores: torch.zeros(3).tolist(), "your weight": weights.tolist()}
        raise Wrong(wrong, table("Query (4,), keys (3, 4):", rows, WORDS))
    if calls_softmax(answer):
        raise Wrong("The numbers are right, but softmax made them. Predict them without it.")
    return Right("These are the three weights that attention gives, found without softmax.")


def _wrong_weights(weights: Tensor) -> str | None:
    """Name the misconception behind three weights; None if each is a third."""
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    if (weights - third).abs().max() < 0.007:
        return None
    total, equal = float(weights.sum()), bool((weights == weights[0]).all())
    he = trace_attention(*(3 * [_keys()])).weights[0].double()
    if not weights.isfinite().all():
        return "Weights are ordinary numbers; yours hold NaN or infinity."
    if equal and weights[0] == 0:
        return (
            "These are the scores. A score of 0 is not a weight of 0: e to the 0 is 1, and the "
            "three weights share 1."
        )
    if equal and weights[0] == 1:
        return "1 is e to the 0. Now divide by the sum of all three: weights sum to 1."
    if abs(total - 1) > 0.02:
        percent = " In percent? A weight is a share of 1." if abs(total - 100) < 2 else ""
        return f"Weights sum to 1, yours to {total:.3f}.{percent}"
    if weights.min() < 0:
        return f"No weight is negative, and one of yours is {weights.min():.3f}."
    if torch.allclose(weights, he, atol=6e-3):
        return "These are the weights of the query “He”. Zeros have the dot product 0 with any key."
    if weights.max() == 1:
        return "One key takes all: a hard look-up. Does any key score more than another?"
    return "The weights differ. Does any key score more than another?"


# --- a query for one word -------------------------------------------------------------------------


def _query_for_awesome(answer: Answer) -> Right:
    query, keys = answer.value(vector), _keys().double()
    if query.shape != (4,):
        why = ": a query has one number per feature, not per word" if query.shape == (3,) else ""
        why = ": one query alone is one row of it" if query.shape == (1, 4) else why
        raise Wrong(f"The query must have the shape (4,), yours has {tuple(query.shape)}{why}.")
    if not query.isfinite().all():
        raise Wrong("The query holds NaN or infinity.")
    weights, raw = _look(query), keys @ query
    if not weights.isfinite().all():
        raise Wrong("The query is so long that its scores leave the range of numbers.")
    share = float(weights[2])
    if share <= ENOUGH:
        rows = {"raw score": raw.tolist(), "weight": weights.tolist()}
        evidence = table("Your query (4,) with the keys (3, 4):", rows, WORDS)
        raise Wrong(_advice(query, weights), evidence)
    return Right(
        f"“awesome” gets {share:.3f} of the weight, more than {ENOUGH}, with the old keys."
    )


def _look(query: Tensor) -> Tensor:
    return (_keys().double() @ query / 2).softmax(dim=-1)  # 2 is the root of 4 features


def _advice(query: Tensor, weights: Tensor) -> str:
    """Say what keeps “awesome” below its share."""
    share, leader = float(weights[2]), int(weights.argmax())
    told = f"“awesome” gets {share:.3f} of the weight"
    if weights.max() - weights.min() < 1e-9:
        return f"{told}, like every word: this query prefers none. Choose a direction."
    if leader == 2:
        return f"{told} and leads already: the direction is right. Make the query longer."
    turned = "; the opposite one would do" if int(_look(-query).argmax()) == 2 else ""
    return (
        f"{told}, and {WORDS[leader]} leads: length will not help. "
        f"Choose another direction{turned}."
    )


# --- attention functions --------------------------------------------------------------------------


def _mended(answer: Answer) -> Right:
    report = examined(answer)
    return Right(f"{FOUND}.", None, remarks_of(answer, report), report)


def _attention_from_exp(answer: Answer) -> Right:
    if calls_softmax(answer, *(3 * [_keys()])):
        raise Wrong("It calls softmax, or a function that does. Write it with exp and a sum.")
    try:
        report = examined(answer)
    except Wrong as wrong:
        raise _known_slip(answer) or wrong from None
    _large_scores(answer)
    told = f"{FOUND}; raw scores of 2000 and -2000 as well, and no call of softmax."
    return Right(told, None, remarks_of(answer, report), report)


def _known_slip(answer: Answer) -> Wrong | None:
    """Return what is wrong if the maximum was taken over the queries, which the clinic cannot name.

    Subtracting another number from each score of a row changes the weights of the row.
    """
    query, key = torch.tensor([[1.0], [3.0]]), torch.tensor([[1.0], [2.0]])
    value = torch.tensor([[10.0], [20.0]])
    scores = query @ key.T
    slip = (scores - scores.amax(dim=-2)).softmax(dim=-1) @ value
    try:
        output = answer.ask(query, key, value, read=vector)
    except (Wrong, NotDone):
        return None
    if output.shape != slip.shape or not torch.allclose(output, slip.double(), atol=1e-4):
        return None
    right = (scores.softmax(dim=-1) @ value).double()
    message = (
        "Each key loses its own maximum, taken over the queries. Within a row every score must "
        "lose the same number, or the weights change."
    )
    rows = {f"query {i}": [output[i, 0], right[i, 0]] for i in range(2)}
    caption = "Queries 1 and 3, keys 1 and 2, values 10 and 20, one feature:"
    return Wrong(message, table(caption, rows, ("your output", "right")))


def _large_scores(answer: Answer) -> None:
    """Raise Wrong unless two queries of one feature, 1000 and -1000, get their right output."""
    columns = torch.tensor([[1000.0, -1000.0], [1.0, 2.0], [10.0, 20.0]])
    query, key, value = columns[..., None]
    case = "query (2, 1), key (2, 1) and value (2, 1)"
    output = answer.ask(query, key, value, read=vector, case=case)
    right = torch.tensor([[20.0], [10.0]], dtype=torch.float64)
    if output.shape != right.shape:
        raise Wrong(f"With {case} the output must be (2, 1), got {tuple(output.shape)}.")
    if torch.allclose(output, right, atol=1e-3):
        return
    raise Wrong(_overflow(output.flatten().tolist()), _large_table(output, right))


def _overflow(output: list[float]) -> str:
    """Say why large scores gave a wrong output."""
    first, second = (number == number for number in output)
    if not first:
        return (
            "Large raw scores give NaN: e to the 1000 is infinite in floats. What may you subtract "
            "from a row of scores without changing its weights?"
        )
    if not second:
        return (
            "The row with scores far below 0 gives NaN: every e to a score became 0, and so did "
            "their sum. Each row needs its own largest score, not one for all."
        )
    return "With large raw scores the numbers are finite, but wrong. Nothing may be cut off."


def _large_table(output: Tensor, right: Tensor) -> Evidence:
    rows = {
        "query 0: raw scores 1000 and 2000": [output.flatten()[0], right[0, 0]],
        "query 1: raw scores -1000 and -2000": [output.flatten()[1], right[1, 0]],
    }
    return table("Keys 1 and 2, values 10 and 20, one feature:", rows, ("your output", "right"))
