"""How a learner's layer is called: which argument is what, and what comes back."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from attnlab.clinic import behaviour
from attnlab.clinic._calling import Caller, Outcome, a
from attnlab.clinic._copying import converted, copy_of
from attnlab.clinic.layers.plans import Plan
from attnlab.clinic.names import Argument
from attnlab.clinic.trace import Trace, recorded


@dataclass(frozen=True)
class Reply:
    """What a module returned, batch first: output (N, L, O), weights (N, H, L, S) or None."""

    output: Tensor
    weights: Tensor | None = None
    averaged: bool = False  # weights came as (N, L, S)
    missing: bool = False  # a second element was promised and is None


@dataclass(frozen=True)
class Sizes:
    """The sizes that a module was found to accept."""

    embed: int
    length: int
    batch: int = 2
    heads: int | None = None
    key: int | None = None  # the width of keys, where it is not that of queries
    value: int | None = None

    def other(self, taken: tuple[int, ...] = ()) -> int:
        """Return a number of keys unlike every other size."""
        taken = (*taken, self.embed, self.length, self.batch, self.heads or 0)
        return next(size for size in (7, 6, 9, 8, 10, 11, 13) if size not in taken)


class Subject(behaviour.Subject):
    """A layer with a way to call it; answers in batch-first tensors or not at all."""

    def __init__(self, layer: object, plan: Plan, sizes: Sizes, time_limit: float) -> None:
        self.layer, self.plan, self.sizes = layer, plan, sizes
        self.module = layer if isinstance(layer, nn.Module) else None
        self.caller = Caller(plan.adapter or layer, time_limit)
        self.pristine = layer  # a copy that was never called
        self.last = Outcome()
        self.by_chance = False  # a call has drawn random numbers
        self.single = False  # it computes some steps in float32 even in float64
        self.trouble, self.place = "", "cpu"
        self.shapes: list[tuple[int, ...]] = []
        self.instead: dict | None = None  # what a traced call puts in the place of results
        self.trace: Trace | None = None
        self.pools = False  # any number of vectors for each sequence is an output

    def like(self, layer: object, dtype: torch.dtype) -> Subject:
        """Return the same subject around another copy."""
        other = Subject(layer, self.plan, self.sizes, self.caller.time_limit)
        other.dtype, other.pristine, other.single = dtype, self.pristine, self.single
        return other

    @property
    def exact(self) -> bool:
        """Whether it computes in float64."""
        return self.dtype == torch.float64

    @property
    def fine(self) -> bool:
        """Whether it computes in float64 all the way."""
        return self.exact and not self.single

    @property
    def tolerance(self) -> float:
        """What counts as no difference, relative to the output."""
        if self.dtype in (torch.float16, torch.bfloat16):
            return 2e-2
        return 1e-9 if self.fine else 2e-5

    def tokens(self, *shape: int, seed: int = 0) -> Tensor:
        """Return random tokens of its dtype."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return drawn.to(self.dtype)

    def x(self, batch: int | None = None, length: int | None = None, seed: int = 0) -> Tensor:
        """Return random tokens (N, L, E)."""
        sizes = self.sizes
        return self.tokens(batch or sizes.batch, length or sizes.length, sizes.embed, seed=seed)

    def side(self, tokens: Tensor, width: int | None) -> Tensor:
        """Return tokens of another width: each of them is turned by the same matrix."""
        if width in (None, tokens.shape[-1]):
            return tokens
        return tokens @ self.tokens(tokens.shape[-1], width, seed=97).to(tokens) / width**0.5

    # --- what the table of behaviour asks ---------------------------------------------------------

    def inputs(self, *, seed: int = 0, sizes: int = 0) -> dict[str, Tensor] | None:
        """Return new tokens, x alone or query and memory."""
        length = self.sizes.length + (-2 if sizes == 1 else max(0, sizes - 1))
        if length < 1:
            return None
        sides = {"x": "x", "memory": "query memory", "triple": "query key value"}[self.plan.kind]
        return {
            name: self.x(length=length, seed=seed + 5 * sizes + 17 * place)
            for place, name in enumerate(sides.split())
        }

    def answer(self, inputs: dict[str, Tensor], *, graph: bool = False) -> Outcome:
        """Return what comes of a call, the output alone."""
        reply = self(*inputs.values(), seed=None, grad=graph)
        return replace(self.last, value=None if reply is None else reply.output)

    def again(
        self, *, dtype: torch.dtype | None = None, device: str | None = None
    ) -> Subject | None:
        """Return it around a fresh copy."""
        if self.module is None:
            return None if device else self.like(self.layer, dtype or self.dtype)
        try:
            copied = copy_of(self.pristine)
            copied = converted(copied, dtype or self.dtype)
            copied = copied.to(device) if device else copied
        except Exception:  # it cannot be copied, or not be moved
            return None
        other = self.like(copied, dtype or self.dtype)
        other.caller.time_limit += 20 if device else 0  # torch loads much for its first call there
        return other

    # --- calls ------------------------------------------------------------------------------------

    def __call__(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        named: dict | None = None,
        seed: int | None = 0,
        grad: bool = False,
    ) -> Reply | None:
        """Return its reply to batch-first tokens, or None with ``trouble`` set."""
        key = query if key is None else key
        value = key if value is None else value
        sides = {"query": query, "key": self.side(key, self.sizes.key)}
        sides["value"] = self.side(value, self.sizes.value)
        sides["memory"] = sides["key"]
        if self.plan.single:
            return self._one_by_one(sides, named or {}, seed, grad)
        if self.plan.sequence_first:
            sides = {role: tokens.transpose(0, 1) for role, tokens in sides.items()}
        return self._ask(sides, named or {}, seed, grad)

    def traced(
        self, x: Tensor, memory: Tensor | None = None, *, instead: dict | None = None, **how
    ) -> Trace | None:
        """Return every step of a call; None if the call fails."""
        self.instead = instead or {}
        try:
            reply = self(x, memory, **how)
        finally:
            self.instead = None
        if reply is None:
            return None
        self.trace.reply = reply
        return self.trace

    def _one_by_one(
        self, sides: dict[str, Tensor], named: dict, seed: int | None, grad: bool
    ) -> Reply | None:
        replies = []
        for row in range(len(sides["query"])):
            one = {role: tokens[row] for role, tokens in sides.items()}
            replies.append(self._ask(one, named, seed, grad))
            if replies[-1] is None:
                return None
        output = torch.cat([reply.output for reply in replies])
        weights = [reply.weights for reply in replies]
        together = None if weights[0] is None else torch.cat(weights)
        return replace(replies[0], output=output, weights=together)

    def _ask(
        self, sides: dict[str, Tensor], named: dict, seed: int | None, grad: bool
    ) -> Reply | None:
        self.place = sides["query"].device.type
        own = sides if grad else {role: part.clone() for role, part in sides.items()}
        given, extras = self.arguments(own, dict(named))
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        before = torch.default_generator.get_state()
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(grad))
            if self.instead is not None:
                self.trace = stack.enter_context(recorded(own.values(), self.instead))
            self.last = self.caller(*given, **extras)
        self.by_chance |= not torch.equal(before, torch.default_generator.get_state())
        self.trouble = self.last.trouble
        if self.last.error is not None:
            return None
        axis = 0 if self.plan.single or self.plan.sequence_first else 1
        batch = 1 if self.plan.single else sides["query"].shape[1 - axis]
        lengths = (sides[side].shape[axis] for side in ("query", "key"))
        return self._read(self.last.value, batch, *lengths)

    def arguments(self, sides: dict[str, Tensor], named: dict) -> tuple[list, dict]:
        """Return the arguments of one call, by place and by name."""
        plan = self.plan
        if plan.adapter is not None:
            tokens = [sides[role] for role in ("query", "key", "value")]
            return [self.layer, *tokens, named.get("attn_mask")], {}
        if isinstance(self.layer, nn.MultiheadAttention):
            named = {"need_weights": True, "average_attn_weights": False, **named}
        for one in plan.required:
            if one.name not in named:
                named[one.name] = self._nothing(one, sides)
        tokens = {name: sides[role] for name, role in plan.roles}
        if not plan.first:
            return [], {**tokens, **named}
        (first, _), *_ = plan.roles
        return [tokens.pop(first)], {**tokens, **named}

    def _nothing(self, one: Argument, sides: dict[str, Tensor]) -> object:
        """Return what stands for nothing where something is required."""
        plan, axis = self.plan, 0 if self.plan.sequence_first or self.plan.single else 1
        query, key = sides["query"], sides["key"]
        batch, length, keys = query.shape[1 - axis], query.shape[axis], key.shape[axis]
        known = {"causal": False, "flag": False, "dropout": plan.dropout, "size": length}
        known |= {"width": self.sizes.embed, "heads": self.sizes.heads}
        if one.role == "lengths":
            return torch.full((batch,), keys, device=query.device)
        if plan.stand_in is None or one.role not in ("mask", "padding", "unknown"):
            return known.get(one.role)
        shape, content = plan.stand_in
        size = {
            "LS": (length, keys),
            "NS": (batch, keys),
            "N11S": (batch, 1, 1, keys),
            "NLS": (batch, length, keys),
            "N1S": (batch, 1, keys),
        }[shape]
        kind = torch.bool if isinstance(content, bool) else self.dtype
        return torch.full(size, content, dtype=kind, device=query.device)

    def _read(self, value: object, batch: int, length: int, keys: int) -> Reply | None:
        several = isinstance(value, (tuple, list))
        items = list(value) if several else [value]
        if not several and not isinstance(value, Tensor):
            items = list(_fields(value))
        tensors = [item for item in items if isinstance(item, Tensor)]
        if not tensors:
            self.trouble = "None" if value is None else a(type(value).__name__)
            return None
        strange = [t for t in tensors if t.layout != torch.strided or t.device.type != self.place]
        if strange:
            self.trouble = f"a tensor of layout {strange[0].layout} on {strange[0].device}"
            return None
        self.shapes = [tuple(tensor.shape) for tensor in tensors]
        outputs = [tensor for tensor in tensors if self._is_output(tensor, batch, length)]
        if self.pools and not outputs:
            pooled = [t for t in tensors if t.ndim in (2, 3) and len(t) == batch]
            return Reply(pooled[0].reshape(batch, -1, pooled[0].shape[-1])) if pooled else None
        outputs.sort(key=lambda tensor: tensor.shape[-1] == keys != self.sizes.embed)
        if not outputs:
            self.trouble = "the wrong shape"
            return None
        output = outputs[0]
        rest = [tensor for tensor in tensors if tensor is not output]
        if self.plan.single:
            output, rest = output[None], [tensor[None] for tensor in rest]
        weights = [_weights(tensor, batch, length, keys) for tensor in rest]
        weights = [found for found in weights if found is not None]
        if self.plan.sequence_first:
            output = output.transpose(0, 1)
        first = weights[0] if weights else None
        averaged = first is not None and first.shape[1] == 1 and (self.sizes.heads or 1) > 1
        return Reply(output, first, averaged, missing=several and any(i is None for i in items))

    def _is_output(self, tensor: Tensor, batch: int, length: int) -> bool:
        size = (length, batch) if self.plan.sequence_first else (batch, length)
        shape = tuple(tensor.shape)
        rows = shape[:1] == (length,) if self.plan.single else shape[:2] == size
        ranks = 2 if self.plan.single else 3
        return tensor.ndim == ranks and rows and tensor.is_floating_point()


def _fields(value: object) -> list[object]:
    """Return what a dict or a data class holds."""
    held = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return list(held.values())


def _weights(tensor: Tensor, batch: int, length: int, keys: int) -> Tensor | None:
    """Return weights as (N, H, L, S), or None if they do not have the shape of weights."""
    if tuple(tensor.shape[-2:]) != (length, keys) or not tensor.is_floating_point():
        return None
    if tensor.ndim == 2:
        return tensor[None, None].expand(batch, 1, length, keys)
    if tensor.ndim == 3 and len(tensor) == batch:
        return tensor[:, None]
    if tensor.ndim == 3 and len(tensor) % batch == 0:
        return tensor.reshape(batch, -1, length, keys)
    return tensor if tensor.ndim == 4 and len(tensor) == batch else None
