"""The checks of lesson 8: what attention costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from weakref import WeakSet

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from attnlab.checks import shape
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Answer, Wrong, vector
from attnlab.exercises.frame.forms import Case, Compared, Either, Opinion, Value, bugs_left, randoms
from attnlab.layers.memory import PeakMemory

# --- memory of the weights ------------------------------------------------------------------------

TEXTS, HEADS, TOKENS, BYTES, MIB = 3, 16, 4096, 2, 2**20
MEMORY = TEXTS * HEADS * TOKENS**2 * BYTES // MIB


@Value(
    right=lambda said: math.isclose(said, MEMORY, rel_tol=1e-6),
    near=partial(math.isclose, rel_tol=2e-3),
    slips={
        "That is for one text, but there are 3 in the batch.": MEMORY / TEXTS,
        "Each of the 16 heads has weights of its own.": Either(
            MEMORY / HEADS, MEMORY / (TEXTS * HEADS)
        ),
        "Each weight takes 16 bits, which are 2 bytes.": Either(MEMORY * 2, MEMORY / 2, MEMORY * 8),
        "That is in another unit, but the task asks for MiB. 1 MiB is 1024 times 1024 "
        "bytes.": Either(
            MEMORY * MIB, MEMORY * 1024, MEMORY / 1024, MEMORY * MIB / 1e6, MEMORY * MIB / 1e9
        ),
    },
    verified="There are 3 texts and 16 heads, with one weight for every pair of tokens, and each "
    "weight takes 2 bytes.",
    otherwise="Multiply the number of texts by the number of heads, the number of queries, the "
    "number of keys and the number of bytes that a weight takes. Then divide by the number of "
    "bytes in a MiB.",
)
def check_weight_memory(_said: float) -> None:
    """Check how many MiB the attention weights of a batch of 3 texts take.

    Verified: the number, for 16 heads, 4,096 tokens and 16 bits a number.

    Parameters
    ----------
    answer
        The number, or a function without arguments that returns it.

    See Also
    --------
    torch.Tensor.nbytes : counts the bytes of a tensor, also of one on the device "meta".
    """


# --- tiles under a causal window ------------------------------------------------------------------

TILES = [
    (i * size, j * size, size, window)
    for tiles, size, windows in (
        (6, 4, (1, 2, 4, 5, 6, 9, 30)),
        (5, 1, (1, 2, 4)),
        (4, 8, (1, 3, 8, 9, 10, 17)),
    )
    for window in windows
    for i in range(tiles)
    for j in range(tiles)
]


def is_needed(i: int, j: int, size: int, window: int) -> bool:
    """Return whether some query of a tile may attend to some key of it."""
    return j <= i and i - (j + size - 1) < window


@Opinion(
    slips={
        "It gives the same answer for every tile.": Either(lambda *tile: True, lambda *tile: False),
        "It applies the causal mask alone, but keys that are too far back are blocked too.": (
            lambda i, j, size, window: j <= i
        ),
        "It compares the first query with the first key. The closest pair is the first query and "
        "the last key.": lambda i, j, size, window: 0 <= i - j < window,
        "It is off by one: a key exactly `window` steps back must be blocked.": (
            lambda i, j, size, window: j <= i and i - (j + size - 1) <= window
        ),
    },
    verified=f"Your function is correct for all {len(TILES)} tiles.",
)
def check_needed_tile() -> Iterator[Case]:
    """Check a function that says whether a tile is needed under a causal window.

    Verified: every tile of a few grids, with windows narrower and wider than a tile.

    Parameters
    ----------
    answer
        A function of (i, j, size, window): the first query and the first key of a tile, its side,
        and the window. Returns a bool.

    See Also
    --------
    attnlab.tiled_attention : skips the tiles that are not needed.
    """
    for i, j, size, window in TILES:
        name = f"the tile with i = {i}, j = {j}, size = {size} and window = {window}"
        truth = is_needed(i, j, size, window)
        some = "Some query of this tile may attend to one of its keys."
        none = "No query of this tile may attend to any of its keys."
        yield Case(name, (i, j, size, window), truth, some if truth else none)


# --- three bugs -----------------------------------------------------------------------------------

L, S, E, EV, SIZE = 5, 11, 4, 3, 4
MANY_L, MANY_S, PIECE = 64, 1021, 64  # a table far larger than a piece; no other size is 1021
ONE_PASS = 2 * MANY_L * MANY_S * (E + EV)  # FLOPs: each score, and each value in the average, once


def see_one_pass(answer: Answer, _body: Callable) -> None:
    """Raise Wrong if an answer does not go through the keys once, or keeps their scores."""
    inputs = randoms((MANY_L, E), (MANY_S, E), (MANY_S, EV))
    with _Watch(inputs[0]) as watch:  # outside the call, whose alarm could ring while it is left
        answer.ask(*inputs, PIECE, case=f"{MANY_L} queries and {MANY_S} keys", patience=5)
    table = MANY_L * MANY_S * 4  # bytes of all scores in float32
    if watch.rows is not None:
        did = f"makes a tensor of shape {shape(watch.rows)}, with scores of all {MANY_S} keys"
    elif watch.flops > 1.2 * ONE_PASS:  # the total may be one more column of the values
        did = f"takes {watch.flops / ONE_PASS:.1f} times the FLOPs of one pass"
    elif watch.peak > table:
        did = f"holds {watch.peak // 1024} KiB at a time, more than all scores together take "
        did += f"({table // 1024} KiB)"
    else:
        return
    raise Wrong(
        f"The numbers are correct, but your function {did}. Go through the pieces of the keys "
        "once, let the top rise, and do not keep the scores of a piece."
    )


class _Watch(PeakMemory):
    """Counts FLOPs and memory, and notices what is made of the query for all keys at once."""

    def __init__(self, query: Tensor) -> None:
        super().__init__()
        self.flops = 0
        self.rows: Tensor | None = None  # made of the query, with an axis for all keys
        self._of_query = WeakSet([query.untyped_storage()])

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        made = super().__torch_dispatch__(operation, types, args, kwargs)
        if count := flop_registry.get(operation.overloadpacket):
            self.flops += count(*args, **(kwargs or {}), out_val=made)
        given, results = (
            [leaf for leaf in tree_leaves(part) if isinstance(leaf, Tensor)]
            for part in ((args, kwargs), made)
        )
        borrows = operation.overloadpacket.__name__.startswith("new_")  # only dtype and device
        if not borrows and any(x.untyped_storage() in self._of_query for x in given):
            self._of_query.update(x.untyped_storage() for x in results)
            self.rows = next((x for x in results if MANY_S in x.shape), self.rows)
        return made


def in_pieces(
    first_top: float = torch.finfo(torch.float32).min,
    total: int = 1,
    output: int = 1,
    divides: tuple[str, ...] = ("at the end",),
    root: float = E**0.5,
    new_top: Callable[[Tensor, Tensor], Tensor] = torch.maximum,
    keeps_top: bool = True,
) -> Callable[..., Tensor]:
    """Return attention in pieces of the keys, with some of its steps changed.

    When the top rises, 1 shrinks the total or the output, 0 leaves it and -1 lets it grow.
    """

    def attend(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
        top = torch.full_like(query[:, :1], first_top)
        sums = weighted = torch.zeros_like(top)
        for keys, values in zip(key.split(size), value.split(size), strict=True):
            scores = query @ keys.mT / root
            level = new_top(top, scores.amax(dim=-1, keepdim=True))
            exponentials = (scores - level).exp()
            sums = sums * (total * (top - level)).exp() + exponentials.sum(dim=-1, keepdim=True)
            weighted = weighted * (output * (top - level)).exp() + exponentials @ values
            weighted = weighted / sums if "in every round" in divides else weighted
            top = level if keeps_top else top
        return weighted / sums if "at the end" in divides else weighted

    return attend


BUGS = {
    "the output is not shrunk when the top rises.": {"output": 0},
    "the output is divided in every round. Divide it only once, at the end.": {
        "divides": ("in every round",)
    },
    "the top begins too high for rows whose scores all lie far below 0.": {"first_top": 0.0},
}
ORDINARY, FAR = 4, 4096
LOWEST = 10**6  # with one key, whose total is 1, no logarithm is rounded


@Compared(
    right=in_pieces(),
    slips={
        **bugs_left(in_pieces, BUGS),
        "The top begins too high for scores that are far lower still.": in_pieces(first_top=-1e4),
        "The output is not divided by the total.": in_pieces(divides=()),
        "The total must shrink too when the top rises.": Either(
            in_pieces(total=0), in_pieces(total=0, output=0)
        ),
        "The factor has the wrong sign in its exponent. It is exp(old top - new top), which is at "
        "most 1.": in_pieces(first_top=0.0, total=-1, output=-1),  # from the lowest top: NaN
        "The top of each piece takes the place of the top so far. Keep the larger of the two.": (
            in_pieces(new_top=lambda _old, new: new)
        ),
        "Keep the new top for the next piece.": in_pieces(keeps_top=False),
        "The scores are not divided. Divide them by the root of E.": in_pieces(root=1.0),
    },
    nan=(
        "It contains NaN. Keep the largest score of each row up to the current piece, and subtract "
        "it from the scores of that row before you apply exp. Multiply the total and the output of "
        "the earlier pieces by exp(old top - new top)."
    ),
    otherwise="Follow the top, the total and the output of one row from piece to piece.",
    also=see_one_pass,
    verified=(
        "The results agree with attention, for low, high, rising and falling scores and for pieces "
        "of 1, 4 and 11 keys. The function goes through the keys once and keeps no scores."
    ),
    axes=("query", "feature"),
    atol=1e-3,  # the logarithm of a total near e^4096 is rounded
    rtol=0.0,
)
def check_mended_pieces() -> Iterator[tuple[str, tuple]]:
    """Check attention that goes through the keys in pieces.

    Verified: shape and numbers of the output, for scores near 0, far above and far below, rising
    and falling, for pieces of one key and of all keys, and for a single key. And for a table that
    is much larger than a piece: that no tensor holds whole rows, that the matrix products take the
    FLOPs of one pass, and that the scores of the pieces are not kept.

    Parameters
    ----------
    answer
        A function of (query, key, value, size) that returns the output (L, Ev).

    See Also
    --------
    attnlab.tiled_attention : the same for queries in tiles, with masks and a backward pass.
    """
    sizes = (L, E), (S, E), (S, EV)
    query, key, value = randoms(*sizes)
    query = query.abs() + 0.5
    key = key.sort(dim=0).values  # the top rises
    key[:, -1] = 1
    for far, size in ((ORDINARY, SIZE), (FAR, SIZE), (FAR, 1), (FAR, S)):
        query[:, -1] = torch.tensor([-2.0 * far, 0, 0, 0, 2 * far])  # E is 4, and its root 2
        inputs = [(8 * x).round() / 8 for x in (query, key)]  # scores without rounding errors
        case = f"scores near -{far}, 0 and {far}, and pieces of {size}"
        yield "query {}, key {}, value {}, ".format(*sizes) + case, (*inputs, value, size)
    inputs[1][:, -1] = torch.linspace(-1, 1, S).mul(8).round() / 8
    case = f"scores that fall or rise by up to {2 * FAR}, and pieces of {SIZE}"
    yield "query {}, key {}, value {}, ".format(*sizes) + case, (*inputs, value, SIZE)
    query[:, -1] = -2.0 * LOWEST
    case = f"query {sizes[0]}, one key, scores near -{LOWEST:,}, and pieces of 1"
    yield case, (query, key[:1], value[:1], 1)


# --- two pieces, joined ---------------------------------------------------------------------------

ROWS, FEATURES = 4, 3
SHAPES = [(ROWS, 1), (ROWS, 1), (ROWS, FEATURES)]
State = tuple[Tensor, Tensor, Tensor]  # top, total, output
MEANING = ("top + log(total)", *(f"output / total, {n}" for n in range(FEATURES)))


def meaning(value: object) -> Tensor:
    """Read a state: the logarithm of the sum of all exponentials, and the means."""
    wanted = "the three parts (top, total, output)"
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise Wrong(voice.returned(voice.kind_of(value), wanted))
    top, total, output = state = tuple(vector(part, wanted) for part in value)
    shapes = [tuple(part.shape) for part in state]
    if shapes != SHAPES:
        raise Wrong(
            f"top, total and output have the shapes {shapes}, but they should have {SHAPES}."
        )
    mean = torch.where(total == 0, output, output / total)
    return torch.cat([top + total.log(), mean], dim=-1)


def joined(
    total: Sequence[int] = (1, 1), output: Sequence[int] = (1, 1), per_row: bool = True
) -> Callable[[State, State], State]:
    """Return a function that joins two states.

    For each of the two, 1 shrinks its total or its output, 0 leaves it and -1 lets it grow.
    """

    def join(*states: State) -> State:
        new_top = torch.maximum(states[0][0], states[1][0])
        new_top = new_top if per_row else new_top.amax().expand_as(new_top)
        sums = [
            sum(
                state[part] * (sign * (state[0] - new_top)).exp()
                for state, sign in zip(states, signs, strict=True)
            )
            for part, signs in ((1, total), (2, output))
        ]
        return new_top, *sums

    return join


def state_of(scores: Tensor, value: Tensor) -> State:
    """Return what a piece of the keys leaves behind."""
    top = scores.amax(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    exponentials = (scores - top).exp()
    return top, exponentials.sum(dim=-1, keepdim=True), exponentials @ value


@Compared(
    right=joined(),
    slips={
        "The two pieces are on different scales, so shrink both the total and the output of the "
        "piece with the smaller top.": Either(
            joined((0, 0), (0, 0)), joined(output=(0, 0)), joined(total=(0, 0))
        ),
        "The same piece is always shrunk. Shrink the one with the smaller top.": Either(
            joined((0, 1), (0, 1)), joined((1, 0), (1, 0))
        ),
        "The factors have the wrong sign in their exponents. Each must be exp(top of the piece - "
        "larger top), which is at most 1.": joined((-1, -1), (-1, -1)),
        "Each row has a top of its own, but one top is used for all rows.": joined(per_row=False),
        "The output is already divided by the total. Leave that division to the end.": (
            lambda *states: ((state := joined()(*states))[0], state[1], state[2] / state[1])
        ),
    },
    what="joined state",
    read=meaning,
    nan=(
        "It contains NaN or infinity. Shrink both pieces to the larger top, so that no factor is "
        "above 1, and divide nothing by a total, which may be 0."
    ),
    otherwise="It does not describe the keys of both pieces together. Which top, which factor for "
    "each piece, and which sums does it need?",
    verified="The function joins states whose tops are close together or far apart, and states "
    "that have seen no keys.",
    axes=("row", "number"),
    columns=MEANING,
    atol=3e-5,  # tops near 100 are rounded
    rtol=0.0,
    keeps_inputs=True,
)
def check_joined_pieces() -> Iterator[tuple[str, tuple]]:
    """Check a function that joins what two pieces of the keys have left behind.

    Verified: top + log(total) and output / total for random pieces, for tops far apart in both
    directions and from row to row, with a piece in which nothing was seen, and that the arguments
    stay as they are.

    Parameters
    ----------
    answer
        A function of two states (top, total, output), shapes (L, 1), (L, 1) and (L, Ev), that
        returns the state of both.

    See Also
    --------
    torch.logsumexp : top + log(total), which joined states add up in the same way.
    """

    def two_states(apart: float) -> tuple[State, State]:
        scores, value = randoms((ROWS, 9), (9, FEATURES))
        scores[::2, :4] += apart + 1  # in rows 0 and 2 the first piece has the larger top
        scores[1::2, 4:] += apart + 1
        scores += 0.4 * apart * torch.arange(ROWS)[:, None]  # no top fits all rows
        return state_of(scores[:, :4], value[:4]), state_of(scores[:, 4:], value[4:])

    seen, _ = near = two_states(0.0)
    nothing = state_of(torch.full((ROWS, 1), -math.inf), torch.zeros(1, FEATURES))
    yield "two pieces", near
    yield "tops that lie 100 apart, in both directions", two_states(100.0)
    empty = "no key was seen (its state is the lowest number, 0 and 0)"
    yield f"a second piece in which {empty}", (seen, nothing)
    yield f"a first piece in which {empty}", (nothing, seen)
    yield f"two pieces, and in both {empty}", (nothing, nothing)
