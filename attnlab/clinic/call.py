"""One call of a target as a plan says, and the search for a plan that works."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab.clinic.plan import SIZES, Plan, inputs, plans
from attnlab.clinic.sample import Sizes
from attnlab.clinic.signature import PARTS, Signature, known_shape
from attnlab.sandbox import Caller, Outcome


class Reply(NamedTuple):
    """What one call gave back."""

    output: Tensor | None  # (..., L, Ev); None where there is none
    others: list[Tensor]  # every other tensor of numbers that came back
    outcome: Outcome

    @property
    def value(self) -> object:
        """All of what came back."""
        return self.outcome.value


@dataclass(frozen=True)
class Call:
    """A target that is called as a plan says.

    ``origin`` is a layer that is never called itself, unless it is large; ``module`` is its copy.
    """

    signature: Signature
    plan: Plan
    origin: nn.Module | None
    module: nn.Module | None
    caller: Caller

    @classmethod
    def of(cls, signature: Signature, plan: Plan, origin: nn.Module | None) -> Call:
        """Return a call of a fresh copy, with nothing remembered."""
        target, limit = signature.target, signature.options.time_limit
        module = None
        if origin is not None:
            module = origin if signature.large else converted(copy_of(origin), plan.dtype)
            target, limit = module, limit * (4 if signature.large else 1)
        if signature.options.call is not None:
            target = functools.partial(signature.options.call, target)
        return cls(signature, plan, origin, module, Caller(target, limit))

    def fresh(self, **changes: object) -> Call:
        """Return the same call of a fresh copy of a layer, with changes of the plan."""
        return Call.of(self.signature, replace(self.plan, **changes), self.origin)

    def at(self, **changes: object) -> Call:
        """Return the same call with changes of its plan."""
        return replace(self, plan=replace(self.plan, **changes))

    def inputs(self, sizes: Sizes = SIZES[0], **how: object) -> dict[str, Tensor]:
        """Return tokens, or query, key and value, by sides; see ``inputs`` of ``plan``."""
        return inputs(self.signature, self.plan, sizes, **how)

    def rest(self, parts: dict, masks: dict, *, causal: bool = False) -> dict:
        """Return what is given beside the tokens, by name."""
        query, key, plan, signature = parts["query"], parts["key"], self.plan, self.signature
        width, size = query.shape[-1], query.shape[-2]
        fixed = {
            "width": width,
            "scale": width**-0.5,
            "heads": signature.options.num_heads or 1,
            "size": size,
            "flag": False,
            "causal": causal,
            "cache": None,
            "lengths": torch.full((len(query),), key.shape[-2]),
            "dropout": nn.Identity() if self.module is not None else None,
        }
        given = {}
        for arg in signature.arguments:
            if arg.name in signature.sides:
                continue
            if arg.name in masks:
                given[arg.name] = masks[arg.name]
            elif arg.role == "causal" and causal:
                given[arg.name] = True
            elif arg.required and arg in signature.masks and (plan.form or arg.role != "lengths"):
                given[arg.name] = plan.form and plan.form.whole(query, key, plan.dtype)
            elif arg.required:
                given[arg.name] = fixed.get(arg.role, plan.stand_in)
        return given

    def __call__(
        self,
        parts: dict,
        *,
        masks: dict | None = None,
        causal: bool = False,
        graph: bool = False,
        **more: object,
    ) -> Reply:
        """Call it with copies of query, key and value."""
        query, value, signature = parts["query"], parts["value"], self.signature
        given = {side: self._dressed(part) for side, part in parts.items()}
        with torch.set_grad_enabled(graph):
            if signature.options.call is not None:
                mask = next(iter((masks or {}).values()), None)
                outcome = self.caller(*given.values(), *self._for_adapter(mask))
            else:
                named = {name: given[side] for name, side in signature.sides.items()}
                named |= self.rest(parts, masks or {}, causal=causal) | more
                placed = itertools.takewhile(
                    lambda arg: arg.by_place and arg.name in named, signature.arguments
                )
                outcome = self.caller(*[named.pop(arg.name) for arg in placed], **named)
        wanted = query.shape[:-1] if signature.followed else (*query.shape[:-1], value.shape[-1])
        return self._reply(outcome, wanted)

    def _for_adapter(self, mask: Tensor | None) -> tuple:
        """Return what an adapter gets beside query, key and value."""
        code = getattr(self.signature.options.call, "__code__", None)
        return () if code is not None and code.co_argcount == 4 else (mask,)

    def _dressed(self, part: Tensor) -> Tensor:
        """Return a copy of an input with its axes as the target wants them."""
        return part.transpose(*self.plan.swap).clone() if self.plan.swap else part.clone()

    def _reply(self, outcome: Outcome, wanted: tuple[int, ...]) -> Reply:
        """Return the output among what came back: the first tensor of the shape wanted."""
        tensors = []
        for part in flat(outcome.value):
            if isinstance(part, Tensor) and (part.is_floating_point() or part.is_complex()):
                tensors.append(part)
        for place, part in enumerate(tensors):
            output = self._placed(part, wanted)
            if output is not None:
                return Reply(output, tensors[:place] + tensors[place + 1 :], outcome)
        return Reply(None, tensors, outcome)

    def _placed(self, part: Tensor, wanted: tuple[int, ...]) -> Tensor | None:
        """Return a tensor as an output (..., L, Ev), however its dimensions are arranged."""
        swap, followed = self.plan.swap, self.signature.followed
        if swap and part.ndim == len(wanted) + followed:
            part = part.transpose(*swap)
        if part.ndim == len(wanted) + followed and part.shape[: len(wanted)] == wanted:
            return part
        if self.plan.loose and part.ndim in (2, 3) and len(part) == wanted[0] and not swap:
            return part if part.ndim == 3 else part[:, None]
        if followed or len(wanted) != 4:
            return None
        N, H, L, Ev = wanted
        if part.shape == (N, L, H, Ev):  # as many libraries return it
            return part.transpose(1, 2)
        if part.shape == (N, L, H * Ev):
            return part.unflatten(-1, (H, Ev)).transpose(1, 2)
        return None

    def alive(self, reply: Reply) -> bool:
        """Return whether its query makes a difference, as it does not where all is blocked."""
        parts = self.inputs()
        parts["query"] = self.inputs(seed=4)["query"]
        moved = self(dict.fromkeys(parts, parts["query"]) if self.signature.alone else parts)
        finite = reply.output.isfinite().all() and moved.output is not None
        return bool(finite and not torch.allclose(reply.output, moved.output))

    @property
    def shapes(self) -> str:
        """The shapes of its main call, in words."""
        parts, sides = self.inputs(), self.signature.sides
        if self.signature.alone:
            return f"{next(iter(sides), 'x')} {self._written(parts['query'])}"
        names = {side: name for name, side in sides.items()}
        return ", ".join(
            f"{names[side]} {self._written(parts[side])}" for side in PARTS if side in names
        )

    def _written(self, part: Tensor) -> str:
        """Return the shape of an input as the target gets it."""
        return str(tuple(self._dressed(part).shape))


def flat(value: object) -> Iterator[object]:
    """Yield what came back, one after the other."""
    if hasattr(value, "__dataclass_fields__"):
        value = vars(value)
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from flat(part)
    else:
        yield value


# --- the search for a call ------------------------------------------------------------------------


class Search(NamedTuple):
    """A call that works, or the likeliest of those that do not."""

    call: Call
    works: bool
    first: Outcome  # of the likeliest call


def find_call(signature: Signature) -> Search:
    """Find a plan that works, the likeliest first."""
    first, likely, origin = None, None, signature.module
    for loose in (False, True)[: 1 + signature.followed]:
        for dtype in (torch.float64, torch.float32)[signature.large :]:
            kept, start = None, None
            for plan in plans(signature):
                plan = replace(plan, dtype=dtype, loose=loose)
                start = start or Call.of(signature, plan, origin)
                call = replace(start, plan=plan)
                reply = call(call.inputs())
                first, likely = first or reply.outcome, likely or call
                if reply.output is not None:
                    if (signature.followed and not signature.masked) or call.alive(reply):
                        return Search(_with_origin(call), True, first)
                    kept = kept or call
                if call.caller.out_of_time:
                    return Search(replace(call, plan=likely.plan), False, first)
            if kept:
                return Search(_with_origin(kept), True, first)
    return Search(likely, False, first)


def _with_origin(call: Call) -> Call:
    """Return a call whose copies are made of what it was called as: of a lazy layer, made whole."""
    if call.module is None or all(map(known_shape, call.origin.parameters())):
        return call
    return replace(call, origin=copy_of(call.module))


# --- copies ---------------------------------------------------------------------------------------


def copy_of(module: nn.Module) -> nn.Module | None:
    """Return a copy that shares nothing with a module, or None; kept results lose their graphs."""
    kept = [value for part in module.modules() for value in vars(part).values()]
    memo = {
        id(value): value.detach().clone()
        for value in kept
        if isinstance(value, Tensor) and not value.is_leaf
    }
    try:
        with torch.no_grad():  # TorchScript clones its parameters, and would remember from which
            copied = copy.deepcopy(module, memo)
    except Exception:
        return None
    for own, copied_part in zip(module.parameters(), copied.parameters(), strict=True):
        if own.requires_grad and not copied_part.requires_grad:
            copied_part.requires_grad_()
    return copied


def converted(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Make the numbers of a module those of another dtype; complex ones stay complex."""
    wide = torch.complex128 if dtype == torch.float64 else torch.complex64

    def convert(part: Tensor) -> Tensor:
        """Return a parameter in the dtype."""
        if part.is_complex():
            return part.to(wide)
        return part.to(dtype) if part.is_floating_point() else part

    return module._apply(convert)
