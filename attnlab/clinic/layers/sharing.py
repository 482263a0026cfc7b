"""Whether heads differ, whether each of them counts, and what each of them sees of the input."""

from __future__ import annotations

import torch
from torch import nn

from attnlab.clinic._calling import call
from attnlab.clinic._evidence import Evidence
from attnlab.clinic._hints import says_narrow
from attnlab.clinic._results import Results
from attnlab.clinic.hypotheses import SIDES, number_table
from attnlab.clinic.layers.anatomy import Heads
from attnlab.clinic.layers.rows import MANY, pushing


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
        rows = {f"head {h}": joined[0, h, 0, :5].tolist() for h in range(min(count, 7))}
        columns = tuple(f"feature {i}" for i in range(joined[0, 0, 0, :5].numel()))
        results.found(
            "heads-shared",
            f"All {count} heads compute the same: the joined heads repeat the same "
            f"{joined.shape[-1]} features.",
            number_table("What the heads give the first token:", rows, columns),
        )
        return
    _tell_idle(found, results)
    _tell_slices(found, count, results)
    if not results.findings:
        results.held("heads", "every head counts, and sees all features of its input")


def _tell_idle(found: list[Heads], results: Results) -> None:
    """Push what each head gathers; name heads whose push never reaches the output."""
    still, number = [], 0
    for one in found:
        plain = one.trace.reply.output
        noise = one.subject.tokens(one.seen["output"].shape[-1], seed=90)
        for head in range(min(one.seen["output"].shape[1], MANY)):
            again = one.again(instead={one.core.average: pushing(one, 0, noise, head)})
            if again is None:
                return
            if (again.reply.output - plain).abs().max() < 1e-9 * plain.abs().max():
                still.append(number)
            number += 1
    if 0 < len(still) < number:
        named = f"Head {still[0]} contributes" if len(still) == 1 else "Heads contribute"
        rows = {f"head {h}": [float(h not in still)] for h in range(number)}
        results.found(
            "wrong-source",
            f"{named} nothing ({len(still)} of {number}): what it gathers never reaches the "
            "output.",
            number_table("Whether the output moves with a head:", rows, ("moves",)),
        )


def _tell_slices(found: list[Heads], count: int, results: Results) -> None:
    """Change one slice of the features of x: the queries of every head must move."""
    first = found[0]
    width = first.x.shape[-1]
    if width % count or not isinstance(first.subject.module, nn.Module):
        return
    for part in (slice(0, width // count), slice(0, width, count)):
        x = first.x.clone()
        x[..., part] += first.subject.tokens(*x[..., part].shape, seed=95)
        again = first.again(x=x)
        if again is None:
            return
        moved = [
            bool((after - before).abs().max() > 1e-9)
            for one in found
            for after, before in zip(
                one.parts(again)["value"].unbind(1), one.seen["value"].unbind(1), strict=True
            )
        ]
        if moved.count(True) == 1 and says_narrow(first.subject.layer):
            results.note(
                "heads", "Its heads are cut from x and not from its projections, as its text says."
            )
            return
        if moved.count(True) == 1:
            results.found(
                "heads-from-input",
                "The heads are cut from x and not from its projections: "
                f"{width // count} features of x reach one head of {count} only.",
                Evidence(
                    "Heads whose values move when one slice of x changes:",
                    torch.tensor([[1.0, float(count)]]),
                    ("slice of one head",),
                    ("found", "if every head sees all of x"),
                ),
            )
            return


def examine_sources(found: list[Heads], results: Results) -> None:
    """Name a side that is not used, though the layer has parameters for it."""
    one = found[0]
    letters = _letters(one)
    unused = unused_weights(one) if letters != "qkv" else []
    if not unused:
        return
    way = next((way for way in SIDES if way.cause and letters == _letters_of(way)), None)
    told = way.words if way is not None else "Two of query, key and value are the same."
    results.found("wrong-source", f"{told} Weights that it has are never used: {unused[0]}.")


def _letters(one: Heads) -> str:
    """Return what plays query, key and value: of equal sides the first, q, k or v."""
    parts = [one.seen[side].double() for side in ("query", "key", "value")]
    parts = [part / part.norm().clamp_min(1e-12) for part in parts]  # one may be scaled already
    letters = ""
    for place, part in enumerate(parts):
        same = [
            other
            for other in range(place)
            if parts[other].shape == part.shape and torch.allclose(parts[other], part, 1e-6, 1e-9)
        ]
        letters += "qkv"[same[0] if same else place]
    return letters


def _letters_of(way) -> str:
    return "".join(way.compute("q", "k", "v"))


def unused_weights(one: Heads) -> list[str]:
    """Return the names of matrices that take no part in the output, as a whole or by many rows."""
    subject, module = one.subject, one.subject.module
    if module is None:
        return []
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    named = {
        name: part
        for name, part in module.named_parameters()
        if part.ndim >= 2 and part.requires_grad and id(part) not in tables
    }
    reply = subject(one.x, grad=True)
    if reply is None or not reply.output.requires_grad:
        return []
    total = (reply.output * subject.tokens(*reply.output.shape, seed=3)).sum()
    grads = call(torch.autograd.grad, total, list(named.values()), allow_unused=True).value
    return [] if grads is None else [n for n, g in zip(named, grads, strict=True) if _idle(g)]


def _idle(grad: torch.Tensor | None) -> bool:
    """Return whether a quarter of the rows of a matrix has no gradient, or of its columns."""
    if grad is None:
        return True
    return any((grad == 0).all(dim=dim).double().mean() >= 0.25 for dim in range(grad.ndim))
