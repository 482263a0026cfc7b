"""Judge a learner's probe for gradients: lesson 9, exercise 3."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention import scaled_dot_product_attention
from attnlab.clinic import Evidence
from attnlab.exercises._answers import Answer, Right, Wrong, table
from attnlab.exercises._yes_no import opinions

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
SIZES = {"query": (2, 5, 11), "key": (2, 7, 11), "value": (2, 7, 13)}


def _weights(query: Tensor, key: Tensor) -> Tensor:
    return (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)


def _plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return _weights(query, key) @ value


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def _frozen_weights(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return _weights(query, key).detach() @ value


def _frozen_query(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return _plain(query.detach(), key, value)


def _frozen_key(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return _plain(query, key.detach(), value)


def _frozen_value(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return _plain(query, key, value.detach())


def _rounded_weights(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return (1e6 * _weights(query, key)).round() / 1e6 @ value


HEALTHY: dict[str, Attend] = {
    "right attention": scaled_dot_product_attention,
    "attention written out": _plain,
    "causal attention": _causal,
}
ILL: dict[str, Attend] = {
    "frozen_weights": _frozen_weights,
    "frozen_query": _frozen_query,
    "a frozen key": _frozen_key,
    "a frozen value": _frozen_value,
    "rounded weights": _rounded_weights,
}
AGAIN = "frozen_query, asked again"
PARTS = {"query": "frozen_query", "key": "a frozen key", "value": "a frozen value"}


@dataclass
class _Seen:
    """What a probe did with the functions that it got."""

    called: bool = False
    wanted: bool = False  # some input required a gradient
    apart: bool = False  # query and key were different tensors


def learning_probe(answer: Answer) -> Right:
    """Decide about a probe for gradients.

    Parameters
    ----------
    answer : Answer
        A function of an attention function.

    Returns
    -------
    Right
        If it is right about all functions.

    Raises
    ------
    NotDone
        If it is a stub.
    Wrong
        With the first function that it misjudges, and its gradients.
    """
    seen = _Seen()
    ill = {name: _watched(attend, seen) for name, attend in ILL.items()}
    healthy = {name: _watched(attend, seen) for name, attend in HEALTHY.items()}
    # An ill one comes first and last: gradients of an earlier call must not pass for its own.
    try:
        said = opinions(answer, ill | healthy | {AGAIN: ill["frozen_query"]})
    except Wrong as wrong:
        raise Wrong(f"{wrong.message}{_hint(wrong)}") from None
    misjudged = [name for name in HEALTHY if not said[name]]
    misjudged += [name for name in (*ILL, AGAIN) if said[name] is not False]
    if not misjudged:
        return Right(
            f"It is right about {len(HEALTHY)} functions that learn and {len(ILL)} that do not."
        )
    if not seen.called:
        raise Wrong("It never calls the function that it is given.")
    name = _telling(misjudged, said)
    raise Wrong(_why(name, said, seen), _gradients(name))


def _watched(attend: Attend, seen: _Seen) -> Attend:
    @functools.wraps(attend)
    def watched(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen.called = True
        seen.wanted |= any(part.requires_grad for part in (query, key, value))
        seen.apart |= query is not key
        return attend(query, key, value)

    return watched


def _hint(wrong: Wrong) -> str:
    """Say what an error of torch's or Python's means here."""
    if "NoneType" in wrong.message:
        return " The gradient of an input that was cut off is None, not a tensor: say False then."
    if "have been used in the graph" in wrong.message:
        return " An input that is not in the graph gets no gradient: say False then."
    if "does not require grad" in wrong.message:
        return " Call requires_grad_() on all three inputs before the function gets them."
    if "grad can be implicitly created" in wrong.message:
        return " backward() starts at one number: square the output and sum it."
    return ""


def _telling(misjudged: list[str], said: dict[str, bool | None]) -> str:
    """Return the case to show: a memory first, then a healthy one, then an overlooked part."""
    if said["frozen_query"] is False and AGAIN in misjudged:
        return AGAIN
    if misjudged[0] in HEALTHY:
        return misjudged[0]
    overlooked = [name for name in PARTS.values() if name in misjudged]
    return overlooked[0] if overlooked else misjudged[0]


def _why(name: str, said: dict[str, bool | None], seen: _Seen) -> str:
    """Name the mistake of a probe, shown with the case ``name``."""
    if said[name] is None:
        return f"Of {name} it returns None: return {name in HEALTHY}, also where no `if` holds."
    told = f"It says {said[name]} of {name}"
    if name in HEALTHY:
        return f"{told}{_too_strict(name, seen)}"
    if name == AGAIN:
        return (
            f"{told}, and False the first time. Gradients add up in `.grad`: those of an earlier "
            "function are still there. Begin with fresh clones."
        )
    overlooked = [part for part, case in PARTS.items() if said[case] is not False]
    if len(overlooked) == len(PARTS):
        return f"{told}{_blind(seen)}"
    if name in PARTS.values():
        rest = [part for part in PARTS if part not in overlooked]
        return (
            f"{told}: no gradient reaches the {overlooked[0]}. It seems to look at the "
            f"{' and the '.join(rest)} only; look at all three."
        )
    if name == "rounded weights":
        return (
            f"{told}. A gradient comes back to query and key, and it is 0 everywhere: nothing can "
            "be learned from it. Look at its size as well."
        )
    return f"{told}, through which neither query nor key gets a gradient."


def _too_strict(name: str, seen: _Seen) -> str:
    if not seen.wanted:
        return (
            ", since no input asks for a gradient: call requires_grad_() on clones of all three "
            "before the function gets them."
        )
    if name == "causal attention":
        return (
            ", through which a model can learn. Query 0 sees one key only, and late keys are never "
            "seen: single gradients of 0 are healthy. Does any differ from 0?"
        )
    return (
        ", through which a model can learn. Are the inputs the tensors on which requires_grad_() "
        "was called, and does backward() run?"
    )


def _blind(seen: _Seen) -> str:
    if not seen.wanted:
        return (
            ", and of every other function. Its numbers are right, so they cannot tell: look at "
            "the gradients."
        )
    if not seen.apart:
        return (
            ": one tensor plays query, key and value, so a gradient always reaches it by another "
            "way. Take three tensors."
        )
    return (
        ": no gradient reaches the query. That the output has a gradient says only that some input "
        "gets one. Look at `.grad` of each of three fresh inputs."
    )


def _gradients(name: str) -> Evidence:
    """Show the largest gradient of each input, measured through the function of a case."""
    generator = torch.Generator().manual_seed(0)
    leaves = [
        torch.randn(size, generator=generator, dtype=torch.float64).requires_grad_()
        for size in SIZES.values()
    ]
    attend = (HEALTHY | ILL | {AGAIN: _frozen_query})[name]
    loss = attend(*leaves).square().sum()
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    rows = {
        f"{part} {size}": [math.nan if gradient is None else gradient.abs().max()]
        for (part, size), gradient in zip(SIZES.items(), found, strict=True)
    }
    caption = f"Largest gradient of each input, {name}; NaN stands for None:"
    return table(caption, rows, ("largest gradient",))
