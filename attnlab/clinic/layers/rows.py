"""Which token every row of a head holds, and where its result comes out."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.clinic._evidence import Evidence
from attnlab.clinic._results import Results
from attnlab.clinic.layers.anatomy import Heads

SIDES = ("query", "key", "value")
NAMES = {"split": "split-without-transpose", "merge": "merge-without-transpose"}
MANY = 16  # heads: of more of them the first are enough
Rows = dict[str, Tensor]  # of query, key and value: the token of each row, (H, L)


def examine_rows(found: list[Heads], results: Results) -> None:
    """Report heads that are cut or joined by a bare view."""
    for heads in found:
        rows = rows_of(heads)
        if rows is None or results.findings:
            return
        cut = {side for side, held in rows.items() if _cut_by_view(held)}
        out = outlets(heads, found)
        if cut:
            _tell_cut(heads, rows, cut, out, results)
        elif out is not None:
            _tell_joined(heads, rows, out, results)


def rows_of(heads: Heads) -> Rows | None:
    """Change one token after the other, and see which rows move; None if several move a row."""
    length = heads.x.shape[1]
    moved: dict[str, list[Tensor]] = {side: [] for side in SIDES}
    for token in range(length):
        x = heads.x.clone()
        x[0, token] += heads.subject.tokens(x.shape[-1], seed=60 + token)
        again = heads.again(x=x)
        if again is None:
            return None
        parts = heads.parts(again)
        for side in SIDES:
            apart = (parts[side] - heads.seen[side]).abs().amax(dim=-1)[0]
            moved[side].append(apart > 1e-9 * heads.seen[side].abs().max())
    held = {}
    for side, rows in moved.items():
        by = torch.stack(rows)  # (token, H, rows)
        own = by.any(dim=0)
        if not own.any() or (by.sum(dim=0) > 1).any():
            return None
        held[side] = torch.where(own, by.int().argmax(dim=0), -1)
    return held


def _cut_by_view(held: Tensor) -> bool:
    """Return whether some head holds several pieces of one token and too few of others.

    The windows of local attention hold each token once, queries that share keys all equally often.
    """
    if len(held) < 2 or (held < 0).any():
        return False
    counts = torch.nn.functional.one_hot(held).sum(dim=1)  # (H, token)
    uneven = counts.amin(dim=-1) < counts.amax(dim=-1)
    alone = (counts > 0).sum(dim=-1) == 1  # all rows are of one token: heads look at each other
    return bool((uneven & (counts.amax(dim=-1) > 1)).any() and not alone.all())


def outlets(heads: Heads, found: list[Heads]) -> Tensor | None:
    """Push row i of all heads; return which outputs move, (row, token); None if others follow."""
    place = heads.core.average
    later = [one for one in found if one.core.average > place]
    if any(place in one.trace.comes_from(one.core.average) for one in later):
        return None
    plain, moves = heads.trace.reply.output, []
    rows = heads.seen["output"].shape[-2]
    for row in range(rows):
        noise = heads.subject.tokens(heads.seen["output"].shape[-1], seed=80 + row)
        again = heads.again(instead={place: pushing(heads, row, noise)})
        if again is None:
            return None
        apart = (again.reply.output - plain).abs().amax(dim=-1)[0]
        moves.append(apart > 1e-9 * plain.abs().max())
    return torch.stack(moves)


def pushing(heads: Heads, row: int, noise: Tensor, head: int | None = None):
    """Return what adds noise to one row of the average, of one head or of all."""

    def pushed(result: Tensor) -> Tensor:
        place = torch.arange(result.numel()).view(result.shape)
        place = heads.cut(place if heads.core.weights_first else place.mT, "output")
        place = place[:, :, row] if head is None else place[:, head, row]
        result = result.contiguous().clone()
        result.view(-1)[place] += noise.to(result)
        return result

    return pushed


def _tell_cut(
    heads: Heads, rows: Rows, cut: set[str], out: Tensor | None, results: Results
) -> None:
    held = rows[min(cut, key=SIDES.index)]
    count, length = held.shape
    table = Evidence(
        "The token that each row of a head holds:",
        held[:7, :7].double(),
        tuple(f"head {h}" for h in range(min(7, count))),
        tuple(f"row {i}" for i in range(min(7, length))),
    )
    if len(cut) < len(SIDES):
        sides = " and ".join(f"{side}" for side in SIDES if side in cut)
        results.found(
            NAMES["split"],
            f"The heads of the {sides} are cut by a bare view, without a transpose, and those of "
            "the others are not.",
            table,
        )
    elif out is not None and torch.equal(out, _joined_by_view(count, length)):
        results.found(
            "split-and-merge",
            f"Heads are cut and joined by bare views: with {count} heads and {length} tokens each "
            "token sees only the tokens of its own block.",
            table,
        )
    else:
        results.found(
            NAMES["split"],
            f"The {count} heads are cut by a bare view, without a transpose: a head holds pieces "
            "of some tokens instead of a part of every token.",
            table,
        )


def _joined_by_view(heads: int, rows: int) -> Tensor:
    """Return which outputs row i of all heads reaches when they are joined by a bare view."""
    reached = torch.zeros(rows, rows, dtype=torch.bool)
    pieces = torch.arange(heads * rows).view(heads, rows) // heads
    for head in range(heads):
        reached[torch.arange(rows), pieces[head]] = True
    return reached


def _tell_joined(heads: Heads, rows: Rows, out: Tensor, results: Results) -> None:
    held = rows["query"]
    count, length = held.shape
    if out.shape != (length, length) or (held != held[:1]).any() or not out.any():
        return
    wanted = torch.zeros_like(out)
    wanted[torch.arange(length), held[0]] = True
    if torch.equal(out, wanted):
        return
    table = Evidence(
        "Which outputs (columns) move with row i of every head:",
        out[:7, :7].double(),
        tuple(f"row {i}" for i in range(min(7, length))),
        tuple(f"token {j}" for j in range(min(7, length))),
    )
    if count > 1 and torch.equal(out, _joined_by_view(count, length)):
        results.found(
            NAMES["merge"],
            f"The {count} heads are joined by a bare view, without a transpose: an output row "
            "holds several positions of one head.",
            table,
        )
    elif (out.sum(dim=1) == 1).all():
        row = int((out != wanted).any(dim=1).int().argmax())
        results.found(
            "position-mixing",
            f"What query {row} gathers comes out at token {int(out[row].int().argmax())}: the rows "
            "of the output are not those of the queries.",
            table,
        )
