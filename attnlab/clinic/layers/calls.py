"""How a learner's layer is called: which argument is what, and what comes back."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from attnlab._bounded import Caller, Outcome, a
from attnlab.clinic import behaviour
from attnlab.clinic._copying import converted, copy_of
from attnlab.clinic.layers.plans import Plan, Sizes
from attnlab.clinic.names import Argument
from attnlab.clinic.trace import Trace, recorded


@dataclass(frozen=True)
class Reply:
    """What a module returned, batch first: output (N, L, O), weights (N, H, L, S) or None."""

    output: Tensor
    weights: Tensor | None = None
    averaged: bool = False  # weights came as (N, L, S)
    missing: bool = False  # a second element was promised and is None


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
    def fine(self) -> bool:
        """Whether it computes in float64 all the way."""
        return self.dtype == torch.float64 and not self.single

    @property
    def tolerance(self) -> float:
        """What counts as no difference, relative to the output."""
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

    def sides(self, *tokens: Tensor | None) -> dict[str, Tensor]:
        """Return what plays each role: keys and values of another width are turned to it."""
        query, key, value = (*tokens, None, None)[:3]
        key = query if key is None else key
        sides = {"query": query, "key": key, "value": key if value is None else value}
        for role, width in (("key", self.sizes.key), ("value", self.sizes.value)):
            part = sides[role]
            if width not in (None, part.shape[-1]):
                turn = self.tokens(part.shape[-1], width, seed=97).to(part)
                sides[role] = part @ turn / width**0.5
        return {**sides, "memory": sides["key"]}

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
        """Return it around a fresh copy; None if it cannot be copied, or not be moved."""
        if self.module is None:
            return None if device else self.like(self.layer, dtype or self.dtype)
        try:
            copied = converted(copy_of(self.pristine), dtype or self.dtype)
            copied = copied.to(device) if device else copied
        except Exception:
            return None
        other = self.like(copied, dtype or self.dtype)
        other.caller.time_limit += 20 if device else 0  # torch loads much for its first call there
        return other

    # --- calls ------------------------------------------------------------------------------------

    def __call__(
        self,
        *tokens: Tensor | None,
        named: dict | None = None,
        seed: int | None = 0,
        grad: bool = False,
    ) -> Reply | None:
        """Return its reply to batch-first tokens, or None with ``trouble`` set."""
        sides, named = self.sides(*tokens), named or {}
        if self.plan.single:
            replies = []
            for row in range(len(sides["query"])):
                one = {role: part[row] for role, part in sides.items()}
                replies.append(self._ask(one, named, seed, grad))
                if replies[-1] is None:
                    return None
            output = torch.cat([reply.output for reply in replies])
            weights = [reply.weights for reply in replies]
            together = None if weights[0] is None else torch.cat(weights)
            return replace(replies[0], output=output, weights=together)
        if self.plan.sequence_first:
            sides = {role: part.transpose(0, 1) for role, part in sides.items()}
        return self._ask(sides, named, seed, grad)

    def traced(self, *tokens: Tensor, instead: dict | None = None, **how) -> Trace | None:
        """Return every step of a call; None if the call fails."""
        self.instead = instead or {}
        try:
            reply = self(*tokens, **how)
        finally:
            self.instead = None
        if reply is None:
            return None
        self.trace.reply = reply
        return self.trace

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
        return self._read(self.last.value, *self._sizes(sides)) if not self.last.error else None

    def _sizes(self, sides: dict[str, Tensor]) -> tuple[int, int, int]:
        """Return the numbers of sequences, queries and keys of what a call gets."""
        axis = 0 if self.plan.single or self.plan.sequence_first else 1
        batch = 1 if self.plan.single else sides["query"].shape[1 - axis]
        return batch, sides["query"].shape[axis], sides["key"].shape[axis]

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
        first = [tokens.pop(plan.roles[0][0])] if plan.first else []
        return first, {**tokens, **named}

    def _nothing(self, one: Argument, sides: dict[str, Tensor]) -> object:
        """Return what stands for nothing where something is required."""
        (batch, length, keys), device = self._sizes(sides), sides["query"].device
        if one.role == "lengths":
            return torch.full((batch,), keys, device=device)
        if self.plan.stand_in is None or one.role not in ("mask", "padding", "unknown"):
            known = {"causal": False, "flag": False, "dropout": self.plan.dropout, "size": length}
            known |= {"width": self.sizes.embed, "heads": self.sizes.heads}
            return known.get(one.role)
        shape, content = self.plan.stand_in
        size = [{"N": batch, "L": length, "S": keys, "1": 1}[letter] for letter in shape]
        kind = torch.bool if isinstance(content, bool) else self.dtype
        return torch.full(size, content, dtype=kind, device=device)

    def _read(self, value: object, batch: int, length: int, keys: int) -> Reply | None:
        several = isinstance(value, (tuple, list))
        items = list(value) if several else [value]
        if not several and not isinstance(value, Tensor):
            held = value if isinstance(value, dict) else getattr(value, "__dict__", {})
            items = list(held.values())
        tensors = [item for item in items if isinstance(item, Tensor)]
        strange = [t for t in tensors if t.layout != torch.strided or t.device.type != self.place]
        if not tensors:
            self.trouble = "None" if value is None else a(type(value).__name__)
            return None
        if strange:
            self.trouble = f"a tensor of layout {strange[0].layout} on {strange[0].device}"
            return None
        self.shapes = [tuple(tensor.shape) for tensor in tensors]
        lead = (length, batch) if self.plan.sequence_first else (batch, length)
        lead = (length,) if self.plan.single else lead
        outputs = [
            one for one in tensors
            if one.ndim == len(lead) + 1 and one.shape[:-1] == lead and one.is_floating_point()
        ]  # fmt: skip
        outputs.sort(key=lambda tensor: tensor.shape[-1] == keys != self.sizes.embed)
        pooled = [one for one in tensors if one.ndim in (2, 3) and len(one) == batch]
        if self.pools and pooled and not outputs:
            return Reply(pooled[0].reshape(batch, -1, pooled[0].shape[-1]))
        if not outputs:
            self.trouble = "the wrong shape"
            return None
        output = outputs[0]
        rest = [tensor for tensor in tensors if tensor is not output]
        if self.plan.single:
            output, rest = output[None], [tensor[None] for tensor in rest]
        elif self.plan.sequence_first:
            output = output.transpose(0, 1)
        found = (_weights(tensor, batch, length, keys) for tensor in rest)
        weights = next((one for one in found if one is not None), None)
        averaged = weights is not None and weights.shape[1] == 1 and (self.sizes.heads or 1) > 1
        return Reply(output, weights, averaged, missing=several and any(i is None for i in items))


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
