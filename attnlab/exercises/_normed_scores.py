"""The check for exercise 5 of lesson 2: scores that do not depend on lengths."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.clinic import Evidence
from attnlab.exercises._answers import Answer, NotDone, Right, Wrong, article, judge, table
from attnlab.exercises._verdict import Verdict

L, S, E = 5, 7, 11
LEADS = ((2,), (), (2, 3))  # a batch, one sequence, a batch with heads
CLOSE = {"rtol": 5e-3, "atol": 5e-3}  # a small number added against division by 0 is welcome
SMALL_QUERY = torch.tensor([[3.0, 4.0, 0.0, 0.0], [30.0, 40.0, 0.0, 0.0]])
SMALL_KEY = torch.tensor([[1.0, 1.0, 1.0, 1.0], [10.0, 10.0, 10.0, 10.0]])
SMALL_RIGHT = 1.4


def check_normed_scores(answer: object) -> Verdict:
    """Check scores that do not depend on the lengths of queries and keys.

    Verified: every query and key alone brought to root mean square 1, no mean taken off, the
    division by the root of d_k; for one sequence, a batch, and a batch with heads.

    Parameters
    ----------
    answer : callable
        A function of query (..., L, E) and key (..., S, E) that returns scores (..., L, S).

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.nn.functional.rms_norm : torch's version of the rescaling.
    """
    return judge(answer, _normed_scores)


def _normed_scores(answer: Answer) -> Right:
    for lead in LEADS:
        query, key = _inputs(lead)
        case = f"query {tuple(query.shape)} and key {tuple(key.shape)}"
        given = query.clone(), key.clone()
        scores = answer.ask(*given, read=_tensor, case=case)
        if not (torch.equal(given[0], query) and torch.equal(given[1], key)):
            raise Wrong("It changes its arguments in place: write x = x / ..., not x /= ....")
        right = _scores(_unit(query), _unit(key))
        if scores.shape != right.shape:
            wanted = f"the scores must be {tuple(right.shape)}, got {tuple(scores.shape)}"
            raise Wrong(f"With {case} {wanted}. Count dimensions from the end.")
        if not torch.allclose(scores, right, **CLOSE):
            why = _misconception(scores, query, key)
            raise Wrong(why, _evidence(answer, scores, right))
    return Right(
        f"Every query scores the root of {E} with itself, whatever its length; factors on single "
        "queries or keys change nothing, and no mean is taken off."
    )


def _inputs(lead: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return query and key whose rows have different lengths, and no mean of 0."""
    generator = torch.Generator().manual_seed(0)
    sizes, dtype = ((*lead, L, E), (*lead, S, E)), torch.float32
    query, key = (1 + torch.randn(size, generator=generator, dtype=dtype) for size in sizes)
    return query * torch.arange(1.0, L + 1)[:, None], key * torch.arange(0.5, S)[:, None]


def _tensor(value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise Wrong(f"It returns {article(type(value).__name__)} instead of a tensor of scores.")
    return value.detach().to(torch.float32)


def _unit(x: Tensor) -> Tensor:
    return x / x.square().mean(dim=-1, keepdim=True).sqrt()


def _scores(query: Tensor, key: Tensor, divisor: float = E**0.5) -> Tensor:
    return query @ key.transpose(-2, -1) / divisor


def _misconception(scores: Tensor, query: Tensor, key: Tensor) -> str:
    """Name the formula behind wrong scores, or else say which property they lack."""
    if scores.isnan().any():
        return "The scores hold NaN although every input is ordinary: a root of a negative number?"
    for why, known in _known(query, key).items():
        if any(torch.allclose(scores, wrong, **CLOSE) for wrong in known):
            return why
    return (
        "The scores are not those of queries and keys with root mean square 1, divided by "
        f"the root of {E}."
    )


def _known(query: Tensor, key: Tensor) -> dict[str, list[Tensor]]:
    """Return wrong scores by the misconception that leads to them."""
    unit_query, unit_key = _unit(query), _unit(key)
    cosines = _scores(F.normalize(query, dim=-1), F.normalize(key, dim=-1), 1.0)
    raw, right = _scores(query, key), _scores(unit_query, unit_key)
    known = {
        "Nothing is rescaled: keys ten times as large change the scores.": [raw, raw * E**0.5],
        "Only the queries are rescaled: keys ten times as large change the scores.": [
            _scores(unit_query, key)
        ],
        "Only the keys are rescaled: queries ten times as large change the scores.": [
            _scores(query, unit_key)
        ],
        f"The division by the root of d_k is missing: every query scores {E} with itself, and "
        f"the root of {E} is asked for.": [right * E**0.5],
        "Every query scores 1 with itself: these are cosines. Set the root mean square to 1, not "
        "the length, and divide by the root of d_k, not by d_k.": [cosines],
        "The length is 1, not the root mean square: take the mean of the squares, not their sum.": [
            cosines / E**0.5
        ],
        "Softmax is one step too far: scores are asked for, not weights.": [right.softmax(-1)],
        "The scores were rescaled. Rescale the queries and the keys, before the product.": [
            _unit(raw),
            _unit(raw) / E**0.5,
        ],
    }
    for why, norms in NORMS.items():
        scores = [_scores(norm(query), norm(key)) for norm in norms]
        known[why] = scores + [one * E**0.5 for one in scores]
    return known


NORMS: dict[str, list[Callable[[Tensor], Tensor]]] = {
    "The mean was taken off: that is another norm (LayerNorm). Rescale only.": [
        lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
        lambda x: F.layer_norm(x, (E,)),
    ],
    "That is the standard deviation, which takes the mean off before it squares. Root mean "
    "square takes nothing off.": [
        lambda x: x / x.std(-1, keepdim=True),
        lambda x: x / x.std(-1, keepdim=True, correction=0),
    ],
    "The root is missing: divide by the root of the mean square.": [
        lambda x: x / x.square().mean(-1, keepdim=True)
    ],
    "One number rescales them all: each query and each key needs its own.": [
        lambda x: x / x.square().mean().sqrt(),
        lambda x: x / x.square().mean((-2, -1), keepdim=True).sqrt(),
    ],
    "The mean runs over the tokens: each query needs the mean over its own features, the last "
    "axis.": [lambda x: x / x.square().mean(-2, keepdim=True).sqrt()],
    "That is the mean of the sizes, not the root of the mean of the squares.": [
        lambda x: x / x.abs().mean(-1, keepdim=True)
    ],
}


def _evidence(answer: Answer, scores: Tensor, right: Tensor) -> Evidence:
    """Return a case of two queries and two keys if it fails, else a row of the larger one."""
    try:
        small = answer.ask(SMALL_QUERY.clone(), SMALL_KEY.clone(), read=_tensor)
    except (Wrong, NotDone):
        small = torch.full((2, 2), SMALL_RIGHT)
    if small.shape == (2, 2) and not torch.allclose(small, torch.tensor(SMALL_RIGHT), **CLOSE):
        names = ("query 3 4 0 0", "query 30 40 0 0")
        rows = dict(zip(names, small.tolist(), strict=True))
        caption = (
            f"Your scores of queries (2, 4) and keys (2, 4). Right is {SMALL_RIGHT} everywhere:"
        )
        return table(caption, rows, ("key 1 1 1 1", "key 10 10 10 10"))
    rows = {"yours": scores, "right": right}
    first = {name: part.reshape(-1, S)[0].tolist() for name, part in rows.items()}
    return table("Scores of query 0:", first, [f"key {j}" for j in range(S)])
