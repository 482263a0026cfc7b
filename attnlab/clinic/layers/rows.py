"""What the heads of a layer hold, which of them count, and what they give back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnlab._bounded import call
from attnlab.clinic._evidence import Evidence
from attnlab.clinic._hints import says_narrow
from attnlab.clinic._results import Results
from attnlab.clinic.hypotheses import SIDES, number_table, returned_weights
from attnlab.clinic.layers.anatomy import Heads

NAMES = ("query", "key", "value")
MANY = 16  # heads: of more of them the first are enough
NOTHING = 1e-9  # relative: less than this is no move


# --- which token each row holds -------------------------------------------------------------------


def examine_rows(found: list[Heads], results: Results) -> None:
    """Report heads that are cut or joined by a bare view."""
    for heads in found:
        rows = rows_of(heads)
        if rows is None or results.findings:
            return
        cut = [side for side, held in rows.items() if _cut_by_view(held)]
        out = outlets(heads, found)
        if cut:
            _tell_cut(rows[cut[0]], cut, out, results)
        elif out is not None:
            _tell_joined(rows["query"], out, results)


def rows_of(heads: Heads) -> dict[str, Tensor] | None:
    """Return the token of each row of query, key and value, (H, L); None if several move a row."""
    moved: dict[str, list[Tensor]] = {side: [] for side in NAMES}
    for token in range(heads.x.shape[1]):
        x = heads.x.clone()
        x[0, token] += heads.subject.tokens(x.shape[-1], seed=60 + token)
        again = heads.again(x=x)
        if again is None:
            return None
        parts = heads.parts(again)
        for side in NAMES:
            apart = (parts[side] - heads.seen[side]).abs().amax(dim=-1)[0]
            moved[side].append(apart > NOTHING * heads.seen[side].abs().max())
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
    later = [one.core.average for one in found if one.core.average > place]
    if any(place in heads.trace.comes_from(other) for other in later):
        return None
    moves = []
    for row in range(heads.seen["output"].shape[-2]):
        moved = _pushed(heads, row, slice(None), seed=80 + row)
        if moved is None:
            return None
        moves.append(moved[0])
    return torch.stack(moves)


def _pushed(heads: Heads, row: int, head: int | slice, *, seed: int) -> Tensor | None:
    """Add noise to a row of the average; return which outputs move, (N, token)."""
    noise = heads.subject.tokens(heads.seen["output"].shape[-1], seed=seed)

    def pushed(result: Tensor) -> Tensor:
        place = torch.arange(result.numel()).view(result.shape)
        place = heads.cut(place if heads.core.weights_first else place.mT, "output")
        result = result.contiguous().clone()
        result.view(-1)[place[:, head, row]] += noise.to(result)
        return result

    again = heads.again(instead={heads.core.average: pushed})
    if again is None:
        return None
    plain = heads.trace.reply.output
    return (again.reply.output - plain).abs().amax(dim=-1) > NOTHING * plain.abs().max()


def _tell_cut(held: Tensor, cut: list[str], out: Tensor | None, results: Results) -> None:
    count, length = held.shape
    table = _table("The token that each row of a head holds:", held, "head", "row")
    name = "split-without-transpose"
    if len(cut) < len(NAMES):
        words = f"The heads of the {' and '.join(cut)} are cut by a bare view, without a "
        words += "transpose, and those of the others are not."
    elif out is not None and torch.equal(out, _joined_by_view(count, length)):
        name = "split-and-merge"
        words = f"Heads are cut and joined by bare views: with {count} heads and {length} tokens "
        words += "each token sees only the tokens of its own block."
    else:
        words = f"The {count} heads are cut by a bare view, without a transpose: a head holds "
        words += "pieces of some tokens instead of a part of every token."
    results.found(name, words, table)


def _joined_by_view(heads: int, rows: int) -> Tensor:
    """Return which outputs row i of all heads reaches when they are joined by a bare view."""
    pieces = torch.arange(heads * rows).view(heads, rows) // heads
    return torch.nn.functional.one_hot(pieces, rows).any(dim=0)


def _tell_joined(held: Tensor, out: Tensor, results: Results) -> None:
    count, length = held.shape
    if out.shape != (length, length) or (held != held[:1]).any() or not out.any():
        return
    wanted = torch.nn.functional.one_hot(held[0].clamp_min(0), length).bool()
    if torch.equal(out, wanted):
        return
    table = _table("Which outputs (columns) move with row i of every head:", out, "row", "token")
    if count > 1 and torch.equal(out, _joined_by_view(count, length)):
        results.found(
            "merge-without-transpose",
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


def _table(caption: str, values: Tensor, row: str, column: str) -> Evidence:
    shown = values[:7, :7].double()
    names = [
        [f"{word} {i}" for i in range(n)]
        for word, n in zip((row, column), shown.shape, strict=True)
    ]
    return Evidence(caption, shown, *map(tuple, names))


# --- whether heads differ, count, and see all of the input ----------------------------------------


def examine_sharing(found: list[Heads], results: Results) -> None:
    """Compare the heads of the attentions that stand side by side."""
    outputs = [one.seen["output"] for one in found]
    rows = {part.shape[-2] for part in outputs}
    if rows != {found[0].x.shape[1]} or any(part.shape != outputs[0].shape for part in outputs):
        return  # of queries one by one, or of layers one after the other
    joined = torch.cat(outputs, dim=1)
    count = joined.shape[1]
    if count < 2 or len(joined) != len(found[0].x):
        return
    if joined.abs().max() > 0 and (joined - joined[:, :1]).abs().max() < 1e-9:
        results.found(
            "heads-shared",
            f"All {count} heads compute the same: the joined heads repeat the same "
            f"{joined.shape[-1]} features.",
            _table("What the heads give the first token:", joined[0, :, 0, :5], "head", "feature"),
        )
        return
    _tell_idle(found, results)
    _tell_slices(found, count, results)
    if not results.findings:
        results.held(
            "heads", "every head contributes to the output, and sees all features of its input"
        )


def _tell_idle(found: list[Heads], results: Results) -> None:
    """Push what each head gathers; name heads whose push never reaches the output."""
    reaches = []
    for one in found:
        for head in range(min(one.seen["output"].shape[1], MANY)):
            moved = _pushed(one, 0, head, seed=90)
            if moved is None:
                return
            reaches.append(bool(moved.any()))
    if 0 < reaches.count(False) < len(reaches):
        still = reaches.count(False)
        named = f"Head {reaches.index(False)} contributes" if still == 1 else "Heads contribute"
        rows = {f"head {h}": [float(moves)] for h, moves in enumerate(reaches)}
        results.found(
            "wrong-source",
            f"{named} nothing ({still} of {len(reaches)}): what it gathers never reaches the "
            "output.",
            number_table("Whether the output moves with a head:", rows, ("moves",)),
        )


def _tell_slices(found: list[Heads], count: int, results: Results) -> None:
    """Change one slice of the features of x: the values of every head must move."""
    first = found[0]
    width = first.x.shape[-1]
    if width % count or first.subject.module is None:
        return
    for part in (slice(0, width // count), slice(0, width, count)):
        x = first.x.clone()
        x[..., part] += first.subject.tokens(*x[..., part].shape, seed=95)
        again = first.again(x=x)
        if again is None:
            return
        apart = [one.parts(again)["value"] - one.seen["value"] for one in found]
        if sum(int((one.abs().amax(dim=(0, 2, 3)) > NOTHING).sum()) for one in apart) != 1:
            continue
        if says_narrow(first.subject.layer):
            words = "Its heads are cut from x and not from its projections, as its text says."
            results.note("heads", words)
        else:
            results.found(
                "heads-from-input",
                "The heads are cut from x and not from its projections: "
                f"{width // count} features of x reach one head of {count} only.",
                number_table(
                    "Heads whose values move when one slice of x changes:",
                    {"slice of one head": [1.0, float(count)]},
                    ("found", "if every head sees all of x"),
                ),
            )
        return


# --- what plays query, key and value --------------------------------------------------------------


def examine_sources(one: Heads, results: Results) -> None:
    """Name a side that is not used, though the layer has parameters for it."""
    letters = _letters(one)
    unused = _unused_weights(one) if letters != "qkv" else ""
    if unused:
        fitting = (way.words for way in SIDES if letters == "".join(way.compute(*"qkv")))
        told = next(fitting, "") or "Two of query, key and value are the same."
        results.found("wrong-source", f"{told} Weights that it has are never used: {unused}.")


def _letters(one: Heads) -> str:
    """Return what plays query, key and value: of equal sides the first, q, k or v."""
    parts = [one.seen[side].double() for side in NAMES]
    parts = [part / part.norm().clamp_min(1e-12) for part in parts]  # one may be scaled already
    letters = ""
    for place, part in enumerate(parts):
        same = [other for other in range(place) if parts[other].shape == part.shape
                and torch.allclose(parts[other], part, 1e-6, 1e-9)]  # fmt: skip
        letters += "qkv"[same[0] if same else place]
    return letters


def _unused_weights(one: Heads) -> str:
    """Return the name of a matrix of which a quarter or all takes no part in the output."""
    subject, module = one.subject, one.subject.module
    parts = list(module.modules()) if module is not None else []
    tables = {id(part.weight) for part in parts if isinstance(part, nn.Embedding)}
    named = {
        name: part
        for name, part in (module.named_parameters() if parts else ())
        if part.ndim >= 2 and part.requires_grad and id(part) not in tables
    }
    reply = subject(one.x, grad=True) if named else None
    if reply is None or not reply.output.requires_grad:
        return ""
    total = (reply.output * subject.tokens(*reply.output.shape, seed=3)).sum()
    grads = call(torch.autograd.grad, total, list(named.values()), allow_unused=True).value
    return next((n for n, grad in zip(named, grads or (), strict=False) if _idle(grad)), "")


def _idle(grad: Tensor | None) -> bool:
    """Return whether a quarter of the rows of a matrix has no gradient, or of its columns."""
    if grad is None:
        return True
    return any((grad == 0).all(dim=dim).double().mean() >= 0.25 for dim in range(grad.ndim))


# --- what comes back ------------------------------------------------------------------------------


def examine_weights(found: list[Heads], results: Results) -> None:
    """Compare the weights that it returns with those that made its output."""
    reply = found[0].trace.reply
    if reply.weights is None:
        if reply.missing:
            results.note("weights", "It returns None for the weights.")
        return
    used = [one.seen["weights"].double() for one in found]
    used = torch.cat(used, dim=1) if len({part.shape[-2:] for part in used}) == 1 else used[-1]
    weights = reply.weights.detach().double()
    if reply.averaged:
        shape = tuple(weights[:, 0].shape)
        results.note("weights", f"It returns weights of shape {shape}: a mean over heads.")
        used = used.mean(dim=1, keepdim=True)
    returned_weights(weights, used, results)
