"""Check for an exercise of lesson 3: a softmax that survives a row without an allowed key."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab._checks import shape
from attnlab.attention import attention_weights
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
from attnlab.exercises._verdict import Verdict


def check_safe_softmax(answer: object) -> Verdict:
    """Check a softmax over the allowed keys that is 0 in rows without any.

    Verified: the weights, also for large scores, an empty row, sums of 1 up to rounding and
    blocked weights of exactly 0, a NaN that must stay visible and one that must not matter, the
    gradient, a mask that broadcasts, and that the scores stay as they are.

    Parameters
    ----------
    answer : callable
        A function of (scores, allowed) that returns the weights.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.attention_weights : attnlab's own.
    """
    return judge(answer, _safe_softmax)


def _scores(*lead: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*lead, 3, 4, generator=generator, dtype=torch.float32)


ALLOWED = torch.tensor([[1, 1, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1]]).bool()
EXTREMES = torch.tensor(
    [[100.0, 101.0, -100.0, 99.0], [100.0, 100.0, -110.0, -111.0], [-100.0, 100.0, 0.0, 99.0]]
)
FAR_BELOW = -1e5  # moves all scores: the weights stay, a fill such as -150 is no longer lowest
WITH_EMPTY = ALLOWED & torch.tensor([[False], [True], [True]])
ONE_KEY = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]]).bool()
ROUNDING = 5e-7  # of a sum of four weights in float32: right answers stay below 3e-7


def _safe_softmax(answer: Answer) -> Right:
    _see_weights(answer)
    _see_large_scores(answer)
    _see_empty_row(answer)
    _see_exact(answer)
    _see_nan(answer)
    _compare_gradient(answer, _scores(), "a mask with an empty row")
    _see_broadcast(answer)
    _see_blocked_nan(answer)
    return Right(
        "Weights, large scores, an empty row, NaN, the gradient and a mask (N, 1, 1, S) hold.",
        None,
        _half_precision(answer),
    )


def _weights_of(answer: Answer, scores: Tensor, allowed: Tensor, case: str) -> Tensor:
    weights = answer.ask(scores, allowed, read=vector, case=case)
    if weights.shape != scores.shape:
        raise Wrong(f"With {case} the weights must be {shape(scores)}, got {shape(weights)}.")
    return weights


def _see_weights(answer: Answer) -> None:
    scores = _scores()
    given = scores.clone()
    case = "scores (3, 4) and a mask with a key in every row"
    weights = _weights_of(answer, given, ALLOWED.clone(), case)
    if not torch.equal(given, scores):
        raise Wrong("It changes the scores it is given. Use masked_fill, not masked_fill_.")
    right = attention_weights(scores, attn_mask=ALLOWED).double()
    if torch.allclose(weights, right, atol=1e-5):
        return
    erased = scores.softmax(dim=-1).double() * ALLOWED
    known = (
        (
            attention_weights(scores, attn_mask=~ALLOWED),
            "The mask is read the wrong way round.",
        ),
        (erased, "Weights are erased after the softmax, so the rows do not sum to 1."),
        (scores.softmax(dim=-1), "The mask is not used."),
        (
            scores.masked_fill(~ALLOWED, 0.0).softmax(dim=-1),
            "Blocked scores are filled with 0, a score like any other.",
        ),
        (
            scores.masked_fill(~ALLOWED, -torch.inf).softmax(dim=-2).nan_to_num(),
            "The softmax runs over the queries; the keys are the last axis.",
        ),
    )
    why = [told for wrong, told in known if torch.allclose(weights, wrong.double(), atol=1e-5)]
    if weights[2].isnan().any():
        why = ["A row without any blocked key gives NaN."]
    told = why[0] if why else "The weights are wrong although every row has an allowed key."
    raise Wrong(told, _rows(weights, right, "A mask that leaves a key in every row:"))


def _see_large_scores(answer: Answer) -> None:
    for shift in (0.0, FAR_BELOW):
        scores = EXTREMES + shift
        case = f"scores from {scores.min():.0f} to {scores.max():.0f}"
        weights = _weights_of(answer, scores.clone(), ALLOWED.clone(), case)
        right = attention_weights(scores, attn_mask=ALLOWED).double()
        if not torch.allclose(weights, right, atol=1e-4):
            seen = _rows(weights, right, f"{case.capitalize()}:")
            raise Wrong(_why_large(weights, scores), seen)


def _why_large(weights: Tensor, scores: Tensor) -> str:
    if (weights * ~ALLOWED).nan_to_num().sum() > 0.01:
        return (
            f"With scores from {scores.min():.0f} to {scores.max():.0f} a blocked key is still "
            "read: only -inf lies below everything."
        )
    return (
        "Scores of 100 or -110 break it: the exponential overflows or rounds to 0. softmax takes "
        "off the largest score first, and blocked ones must be gone by then."
    )


def _see_empty_row(answer: Answer) -> None:
    case = "a mask whose row 0 allows no key"
    weights = _weights_of(answer, _scores(), WITH_EMPTY.clone(), case)
    right = attention_weights(_scores(), attn_mask=WITH_EMPTY).double()
    if torch.allclose(weights, right, atol=1e-5):
        return
    first = weights[0]
    if first.isnan().any():
        why = "Row 0 allows no key and gives NaN: the softmax divides 0 by 0."
    elif torch.allclose(first, torch.full_like(first, 0.25), atol=1e-3):
        why = (
            "Row 0 allows no key and gives each 0.25: the fill is one number in the whole row, so "
            "all keys are read. It must give 0."
        )
    elif torch.allclose(first, _scores().softmax(dim=-1)[0].double(), atol=1e-4):
        why = "Row 0 allows no key and gets weights all the same: set them to 0 after the softmax."
    elif not torch.allclose(weights[1:], right[1:], atol=1e-5):
        why = "An empty row changes the others: look for it row by row, along the keys."
    else:
        why = "Row 0 allows no key: all its weights must be 0."
    raise Wrong(why, _rows(weights, right, "A mask whose row 0 allows no key:"))


def _see_exact(answer: Answer) -> None:
    """Raise Wrong unless blocked keys get nothing at all and rows sum to 1 up to rounding."""
    case = "a mask with an empty row, a row of one key and a full one"
    weights = _weights_of(answer, _scores(), ONE_KEY.clone(), case)
    if (most := weights[~ONE_KEY].abs().max()) > 0:
        raise Wrong(
            f"A blocked key gets the weight {most:.0e}: little, but not nothing. Whatever its "
            "value holds, NaN included, still reaches the output a little."
        )
    sums = weights[1:].sum(dim=-1)
    row = int((sums - 1).abs().argmax())
    if abs(sums[row] - 1) > ROUNDING:
        raise Wrong(
            f"Row {row + 1} sums to {sums[row]:.7f}, and rounding does not explain it: is a small "
            "number added to the weights, or to what divides them? The mask tells which rows are "
            "empty."
        )


def _see_nan(answer: Answer) -> None:
    scores = _scores()
    scores[1, 2] = torch.nan  # allowed
    weights = _weights_of(answer, scores, WITH_EMPTY.clone(), "a NaN among the allowed scores")
    if weights[1, 2:].isnan().any():
        return
    raise Wrong(
        "A NaN in an allowed score of row 1 has vanished: a bug elsewhere would stay hidden. Find "
        "empty rows from the mask, not from the NaN.",
        table("Row 1, keys 2 and 3 allowed:", {"yours": weights[1].tolist()}, _keys()),
    )


def _blocked_nan() -> Tensor:
    """Return scores with NaN and infinity where they are blocked: in the empty row, and outside."""
    scores = _scores()
    scores[0, :2], scores[1, 0] = torch.tensor([torch.nan, torch.inf]), torch.nan
    return scores


def _see_blocked_nan(answer: Answer) -> None:
    weights = _weights_of(answer, _blocked_nan(), WITH_EMPTY.clone(), "a NaN among blocked scores")
    right = attention_weights(_blocked_nan(), attn_mask=WITH_EMPTY).double()
    if not torch.allclose(weights, right, atol=1e-5):
        why = "A NaN in a blocked score reaches the weights: adding and multiplying keep a NaN."
        raise Wrong(f"{why} masked_fill replaces it.", _rows(weights, right, "NaN, blocked:"))
    _compare_gradient(answer, _blocked_nan(), "NaN and infinity among the blocked scores")


def _compare_gradient(answer: Answer, scores: Tensor, case: str) -> None:
    """Raise Wrong unless the gradient is that of attnlab's own weights."""
    factors = torch.randn(2, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float32)
    scores.requires_grad_()

    def gradient(value: object) -> Tensor | None:
        if not isinstance(value, Tensor) or not value.requires_grad:
            return None
        loss = (value[1:] * factors).sum()  # row 0 is no part of the loss
        (found,) = torch.autograd.grad(loss, scores, allow_unused=True)
        return found

    found = answer.ask(scores, WITH_EMPTY.clone(), read=gradient, case=case)
    if found is None:
        raise Wrong(
            "No gradient comes back: the weights must be computed by torch from the scores."
        )
    if not found.isfinite().all():
        raise Wrong(
            f"With {case} the weights are right, and the gradient is NaN: the empty row's trouble "
            "was covered up after the softmax. Give such a row finite scores before it."
        )
    right = gradient(attention_weights(scores, attn_mask=WITH_EMPTY))
    if not torch.allclose(found, right, atol=1e-5):
        raise Wrong(
            f"With {case} the weights are right, and the gradient is not: is a part of the "
            "calculation, such as the sum, detached?",
            _rows(found.double(), right.double(), "Gradient of the scores:"),
        )


def _see_broadcast(answer: Answer) -> None:
    scores = _scores(2, 3)  # N, H, L, S = 2, 3, 3, 4
    allowed = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]]).bool()[:, None, None, :]
    case = "scores (2, 3, 3, 4) and allowed (2, 1, 1, 4)"
    weights = _weights_of(answer, scores, allowed, case)
    right = attention_weights(scores, attn_mask=allowed).double()
    if not torch.allclose(weights, right, atol=1e-5):
        raise Wrong(f"With {case} the weights are wrong: count axes from the end, with -1.")


def _half_precision(answer: Answer) -> tuple[str, ...]:
    try:
        answer.ask(_scores().half(), WITH_EMPTY.clone(), read=vector)
    except (Wrong, NotDone):
        return ("With float16 scores it raises: the fill does not fit; -inf fits every float.",)
    return ()


def _keys() -> tuple[str, ...]:
    return tuple(f"key {j}" for j in range(4))


def _rows(weights: Tensor, right: Tensor, caption: str) -> Evidence:
    worst = (weights - right).abs().nan_to_num(torch.inf).amax(dim=-1).argmax()
    rows = {
        f"row {worst}, yours": weights[worst].tolist(),
        f"row {worst}, right": right[worst].tolist(),
    }
    return table(caption, rows, _keys())
