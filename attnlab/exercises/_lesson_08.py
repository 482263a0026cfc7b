"""Checks for the exercises of lesson 8: what attention costs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlab.clinic import Evidence
from attnlab.exercises._answers import Answer, Right, Wrong, article, judge, number, table, vector
from attnlab.exercises._mended_pieces import check_mended_pieces
from attnlab.exercises._verdict import Verdict
from attnlab.exercises._yes_no import yes_or_no

__all__ = [
    "check_joined_pieces",
    "check_mended_pieces",
    "check_needed_tile",
    "check_weight_memory",
]

State = tuple[Tensor, Tensor, Tensor]  # top, total, output


def check_weight_memory(answer: object) -> Verdict:
    """Check how many MiB the attention weights of a batch of 3 texts take.

    Verified: the number, for 16 heads, 4,096 tokens and 16 bits a number.

    Parameters
    ----------
    answer : callable or float
        A function without arguments that returns the number, or the number.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.Tensor.nbytes : counts the bytes of a tensor, also of one on the device "meta".
    """
    return judge(answer, _weight_memory)


def check_needed_tile(answer: object) -> Verdict:
    """Check a function that says whether a tile is needed under a causal window.

    Verified: every tile of a few grids, with windows narrower and wider than a tile.

    Parameters
    ----------
    answer : callable
        A function of (i, j, size, window): the first query and the first key of a tile, its side,
        and the window. Returns a bool.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.tiled_attention : skips the tiles that are not needed.
    """
    return judge(answer, _needed_tile)


def check_joined_pieces(answer: object) -> Verdict:
    """Check a function that joins what two pieces of the keys have left behind.

    Verified: output and total for random pieces, for tops far apart in both directions and from
    row to row, with a piece in which nothing was seen, and that the arguments stay as they are.

    Parameters
    ----------
    answer : callable
        A function of two states (top, total, output) of shapes (L, 1), (L, 1) and (L, Ev) that
        returns the state of both.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.logsumexp : top + log(total), which joined states add up in the same way.
    """
    return judge(answer, _joined_pieces)


# --- memory of the weights ------------------------------------------------------------------------

TEXTS, HEADS, TOKENS, BYTES = 3, 16, 4096, 2
MIB = 2**20
MEMORY = TEXTS * HEADS * TOKENS**2 * BYTES // MIB
COUNTED = {  # what a number says about the way it was counted
    MEMORY // TEXTS: "That is one text; there are 3 in the batch.",
    MEMORY // HEADS: "Each head has weights of its own.",
    MEMORY // (TEXTS * HEADS): "That is one head of one text.",
    MEMORY * 2: "A number of 16 bits takes 2 bytes, not 4.",
    MEMORY // 2: "A number of 16 bits takes 2 bytes, not 1.",
    MEMORY * 8: "A byte has 8 bits: a number of 16 bits takes 2 bytes.",
    MEMORY * HEADS: "The weights grow with the number of heads, not with its square.",
    MEMORY * TEXTS: "A token looks at the tokens of its own text only.",
    MEMORY * MIB: "Those are the bytes. 1 MiB is 1024 times 1024 bytes.",
    MEMORY * MIB / 10**6: "Those are millions of bytes. 1 MiB is 1024 times 1024 bytes.",
    MEMORY / 1024: "Those are GiB; the answer is asked in MiB.",
    MEMORY / TOKENS: "A head has a weight for every pair of tokens, not one for every token.",
}


def _weight_memory(answer: Answer) -> Right:
    said = answer.value(number)
    if math.isclose(said, MEMORY, rel_tol=1e-6):
        return Right("3 texts, 16 heads, a weight for every pair of tokens, 2 bytes each.")
    for value, why in COUNTED.items():
        if math.isclose(said, value, rel_tol=2e-3):
            raise Wrong(f"{said:g} is not it. {why}")
    raise Wrong(
        f"{said:g} is not it. Multiply: texts, heads, queries, keys, bytes of a number; then "
        "divide by the bytes of a MiB."
    )


# --- tiles under a causal window ------------------------------------------------------------------

GRIDS = (  # tiles in a row, side of a tile, windows
    (6, 4, (1, 2, 4, 5, 6, 9, 30)),
    (5, 1, (1, 2, 4)),
    (4, 8, (1, 3, 8, 9, 10, 17)),
)
TRUTH = {True: "needed", False: "not needed"}


def _needed_tile(answer: Answer) -> Right:
    grids = [(tiles, size, window) for tiles, size, windows in GRIDS for window in windows]
    cases = [
        (i * size, j * size, size, window)
        for tiles, size, window in grids
        for i in range(tiles)
        for j in range(tiles)
    ]
    said = {
        case: answer.ask(
            *case,
            read=yes_or_no,
            case="i = {}, j = {}, size = {}, window = {}".format(*case),
        )
        for case in cases
    }
    wrong = [case for case in cases if said[case] != _is_needed(*case)]
    if wrong:
        raise Wrong(_why_needed(said, wrong), _nearest_pair(*wrong[0]))
    return Right(f"It is right about all {len(cases)} tiles of {len(grids)} grids.")


def _is_needed(i: int, j: int, size: int, window: int) -> bool:
    queries, keys = torch.arange(i, i + size)[:, None], torch.arange(j, j + size)
    back = queries - keys
    return bool(((back >= 0) & (back < window)).any())


def _why_needed(said: dict[tuple, bool], wrong: list[tuple]) -> str:
    i, j, size, window = wrong[0]
    told = (
        f"Of the tile with i = {i}, j = {j}, size = {size} and window = {window} it says "
        f"“{TRUTH[said[wrong[0]]]}”"
    )
    slips = {
        "It says so of every tile.": lambda i, j, size, window: said[wrong[0]],
        "It says the opposite of every tile.": lambda *case: not _is_needed(*case),
        "That is the causal mask alone; keys too far back are blocked too.": (
            lambda i, j, size, window: j <= i
        ),
        "That is the window alone; later keys are blocked too.": (
            lambda i, j, size, window: abs(i - j) < window + size - 1
        ),
        "It compares the first query with the first key. The pair that lies nearest is the first "
        "query and the last key.": lambda i, j, size, window: 0 <= i - j < window,
        "It asks whether the whole tile is allowed; one allowed pair is enough.": (
            lambda i, j, size, window: j + size - 1 <= i and i + size - 1 - j < window
        ),
        "It is off by one: a key exactly window steps back is blocked.": (
            lambda i, j, size, window: j <= i and i - (j + size - 1) <= window
        ),
    }
    for why, rule in slips.items():
        if all(said[case] == rule(*case) for case in said):
            return f"{told}. {why}"
    if said[wrong[0]]:
        return f"{told}, and no query in it may look at any of its keys."
    return f"{told}, and a query in it may look at a key in it."


def _nearest_pair(i: int, j: int, size: int, window: int) -> Evidence:
    rows = {
        "first query, last key": [i, j + size - 1, i - (j + size - 1)],
        "last query, first key": [i + size - 1, j, i + size - 1 - j],
    }
    caption = f"A pair is allowed if the query lies 0 to {window - 1} steps after the key:"
    return table(caption, rows, ["query", "key", "steps"])


# --- two pieces, joined ---------------------------------------------------------------------------

ROWS, FEATURES = 4, 3
NOTHING = "one piece in which nothing was seen: the lowest number, 0 and 0"


def _joined_pieces(answer: Answer) -> Right:
    near, far = _states(0.0), _states(200.0)
    empty = _state(torch.full((ROWS, 1), -math.inf), torch.zeros(1, FEATURES))
    _see(answer, *near, "two pieces")
    _see(answer, *far, "tops that lie 200 apart, in both directions")
    _see(answer, *_states(0.0, between_rows=200.0), "rows whose tops lie 200 apart")
    for pair in ((near[0], empty), (empty, near[0])):
        _see(answer, *pair, NOTHING)
    _see(answer, empty, empty, "two pieces in which nothing was seen")
    return Right("It joins near and far tops, and pieces in which nothing was seen.")


def _states(apart: float, between_rows: float = 0.0) -> tuple[State, State]:
    """Return the states of two pieces of 4 and 5 keys.

    Their tops lie apart, those of every other row the other way round; the rows lie apart too.
    """
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(ROWS, 9, generator=generator)
    value = torch.randn(9, FEATURES, generator=generator)
    scores[::2, :4] += apart + 1  # rows 0 and 2: the first piece lies higher
    scores[1::2, 4:] += apart + 1
    scores += between_rows * torch.arange(ROWS)[:, None]
    return _state(scores[:, :4], value[:4]), _state(scores[:, 4:], value[4:])


def _state(scores: Tensor, value: Tensor) -> State:
    lowest = torch.full((len(scores), 1), torch.finfo(scores.dtype).min)
    top = torch.maximum(lowest, scores.amax(dim=-1, keepdim=True))
    exponentials = (scores - top).exp()
    return top, exponentials.sum(dim=-1, keepdim=True), exponentials @ value


def _join(one: State, other: State) -> State:
    top = torch.maximum(one[0], other[0])
    shrinks = [(state[0] - top).exp() for state in (one, other)]
    total, output = (
        sum(state[place] * shrink for state, shrink in zip((one, other), shrinks, strict=True))
        for place in (1, 2)
    )
    return top, total, output


def _see(answer: Answer, one: State, other: State, case: str) -> None:
    given = [tuple(part.clone() for part in state) for state in (one, other)]
    top, total, output = answer.ask(*given, read=_read_state, case=case)
    for state, before in zip(given, (one, other), strict=True):
        if not all(torch.equal(part, was) for part, was in zip(state, before, strict=True)):
            raise Wrong("It changes the states that it is given. Use a * b, not a *= b.")
    right = _join(one, other)
    if _same_state((top, total, output), right):
        return
    if not torch.cat([total, output], dim=1).isfinite().all():
        why = _why_infinite(case)
    else:
        why = _why_joined((top, total, output), one, other)
    rows = {"yours": [top, total, output], "right": list(right)}
    row = _first_wrong_row((top, total, output), right)
    numbers = {
        name: [float(part) for tensor in state for part in tensor[row]]
        for name, state in rows.items()
    }
    names = ["top", "total", *(f"output {n}" for n in range(FEATURES))]
    raise Wrong(f"With {case}: {why}", table(f"Row {row}:", numbers, names))


def _read_state(value: object) -> State:
    if not isinstance(value, tuple | list) or len(value) != 3:
        kind = article(type(value).__name__)
        raise Wrong(f"It gives {kind}; return the three parts (top, total, output).")
    state = tuple(vector(part).float() for part in value)
    shapes = [(ROWS, 1), (ROWS, 1), (ROWS, FEATURES)]
    found = [tuple(part.shape) for part in state]
    if found != shapes:
        raise Wrong(f"top, total and output must have the shapes {shapes}, got {found}.")
    return state


def _same_state(one: State, other: State) -> bool:
    """Return whether two states stand for the same keys; another top is no mistake."""
    return _rows_agree(one, other).all().item()


def _rows_agree(one: State, other: State) -> Tensor:
    (top, total, output), (right_top, right_total, right_output) = one, other
    shift = (top.double() - right_top).clamp(-600, 600).exp()  # brings both to the same top
    parts = torch.cat([total * shift, output * shift], dim=1)
    wanted = torch.cat([right_total, right_output], dim=1).double()
    return torch.isclose(parts, wanted, rtol=1e-4, atol=1e-5).all(dim=1)


def _first_wrong_row(one: State, other: State) -> int:
    return int((~_rows_agree(one, other)).nonzero()[0])


def _why_infinite(case: str) -> str:
    if "nothing" in case:
        return "it gives NaN. Is something divided by a total of 0? Leave the output undivided."
    return (
        "it gives NaN or infinity. Is there a factor of e to the 200? Shrink both pieces to the "
        "larger top, so that no factor is above 1."
    )


def _why_joined(state: State, one: State, other: State) -> str:
    if (state[1] == 0).any():
        return "a total is 0 though keys were seen. Take the larger top of every row for itself."
    top = torch.maximum(one[0], other[0])
    first, second = ((part[0] - top).exp() for part in (one, other))
    right = _join(one, other)
    added = one[2] + other[2]
    slips = {
        "nothing is shrunk. The piece with the smaller top was added up on another scale.": (
            top,
            one[1] + other[1],
            added,
        ),
        "only the first piece is shrunk. Where its top is the larger one, the second must be.": (
            top,
            one[1] * first + other[1],
            one[2] * first + other[2],
        ),
        "only the second piece is shrunk. Where its top is the larger one, the first must be.": (
            top,
            one[1] + other[1] * second,
            one[2] + other[2] * second,
        ),
        "the total is right, the output is not shrunk.": (top, right[1], added),
        "the output is right, the total is not shrunk.": (top, one[1] + other[1], right[2]),
        "the output is divided by the total already. Leave that to the end.": (
            top,
            right[1],
            right[2] / right[1],
        ),
        "it takes the mean of two outputs. A piece counts by its share of the total.": (
            top,
            torch.ones_like(top),
            (one[2] / one[1] + other[2] / other[1]) / 2,
        ),
    }
    for why, slip in slips.items():
        if all(torch.allclose(a, b, atol=1e-4) for a, b in zip(state[1:], slip[1:], strict=True)):
            return why
    return "total or output are not what all keys together give. Which factor does each piece need?"
