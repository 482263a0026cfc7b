"""How a learner's module is called: which argument is what, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from attnlab.clinic._calling import Caller, Outcome, a
from attnlab.clinic.layers.plans import Plan


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

    def other(self, taken: tuple[int, ...] = ()) -> int:
        """Return a number of keys unlike every other size."""
        taken = (*taken, self.embed, self.length, self.batch, self.heads or 0)
        return next(size for size in (7, 6, 9, 8, 10, 11, 13) if size not in taken)


class Subject:
    """A module with a way to call it; answers in batch-first tensors or not at all."""

    def __init__(self, module: object, plan: Plan, sizes: Sizes, time_limit: float) -> None:
        self.module, self.plan, self.sizes = module, plan, sizes
        self.caller = Caller(module, time_limit)
        self.dtype = torch.float32
        self.pristine = module  # a copy that was never called
        self.last = Outcome()
        self.by_chance = False  # a call has drawn random numbers
        self.trouble, self.place = "", "cpu"
        self.shapes: list[tuple[int, ...]] = []

    def like(self, module: object, dtype: torch.dtype) -> Subject:
        """Return the same subject around another copy."""
        other = Subject(module, self.plan, self.sizes, self.caller.time_limit)
        other.dtype, other.pristine = dtype, self.pristine
        return other

    @property
    def exact(self) -> bool:
        """Whether it computes in float64."""
        return self.dtype == torch.float64

    @property
    def tolerance(self) -> float:
        """What counts as no difference, relative to the output."""
        return 1e-9 if self.exact else 2e-5

    def tokens(self, *shape: int, seed: int = 0) -> Tensor:
        """Return random tokens of its dtype."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return drawn.to(self.dtype)

    def x(self, batch: int | None = None, length: int | None = None, seed: int = 0) -> Tensor:
        """Return random tokens (N, L, E)."""
        sizes = self.sizes
        return self.tokens(batch or sizes.batch, length or sizes.length, sizes.embed, seed=seed)

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
        sides = {"query": query, "key": key, "value": value, "memory": key}
        if self.plan.single:
            return self._one_by_one(sides, named or {}, seed, grad)
        if self.plan.sequence_first:
            sides = {role: tokens.transpose(0, 1) for role, tokens in sides.items()}
        return self._ask(sides, named or {}, seed, grad)

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
        own = {role: tokens.clone() for role, tokens in sides.items()}  # it may change them
        arguments, extras = self._arguments(own, dict(named))
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        before = torch.default_generator.get_state()
        with torch.set_grad_enabled(grad):
            self.last = self.caller(*arguments, **extras)
        self.by_chance |= not torch.equal(before, torch.default_generator.get_state())
        self.trouble = self.last.trouble
        if self.last.error is not None:
            return None
        batched = {
            role: tokens[None] if self.plan.single else tokens for role, tokens in sides.items()
        }
        if self.plan.sequence_first:
            batched = {role: tokens.transpose(0, 1) for role, tokens in batched.items()}
        batch, length = batched["query"].shape[:2]
        reply = self._read(self.last.value, batch, length, batched["key"].shape[1])
        return reply

    def _arguments(self, sides: dict[str, Tensor], named: dict) -> tuple[list, dict]:
        plan = self.plan
        if plan.adapter is not None:
            self.caller.function = plan.adapter
            tokens = [sides[role] for role in ("query", "key", "value")]
            return [self.module, *tokens, named.get("attn_mask")], {}
        if isinstance(self.module, nn.MultiheadAttention):
            named = {"need_weights": True, "average_attn_weights": False, **named}
        arguments = [sides[role] for _, role in plan.roles]
        for name in plan.required:
            if name not in named:
                named[name] = self._nothing(name, sides)
        return arguments, named

    def _nothing(self, name: str, sides: dict[str, Tensor]) -> object:
        """Return what stands for no mask where one is required."""
        if name in self.plan.flags:
            return False
        axis = 0 if self.plan.sequence_first or self.plan.single else 1
        if name == self.plan.lengths:
            key = sides["key"]
            return torch.full((key.shape[1 - axis],), key.shape[axis], device=key.device)
        if self.plan.stand_in is None:
            return None
        shape, content = self.plan.stand_in
        batch, length, keys = (
            sides["query"].shape[1 - axis],
            *(sides[side].shape[axis] for side in ("query", "key")),
        )
        size = {"LS": (length, keys), "NS": (batch, keys), "N11S": (batch, 1, 1, keys)}[shape]
        return torch.full(size, content, device=sides["query"].device)

    def _read(self, value: object, batch: int, length: int, keys: int) -> Reply | None:
        several = isinstance(value, (tuple, list))
        items = list(value) if several else [value]
        if isinstance(value, dict):
            items = list(value.values())
        tensors = [item for item in items if isinstance(item, Tensor)]
        if not tensors:
            self.trouble = "None" if value is None else a(type(value).__name__)
            return None
        strange = [t for t in tensors if t.layout != torch.strided or t.device.type != self.place]
        if strange:
            self.trouble = f"a tensor of layout {strange[0].layout} on {strange[0].device}"
            return None
        if self.plan.single:
            tensors = [tensor[None] for tensor in tensors]
        self.shapes = [tuple(tensor.shape) for tensor in tensors]
        outputs = [tensor for tensor in tensors if self._is_output(tensor, batch, length)]
        outputs.sort(key=lambda tensor: tensor.shape[-1] == keys != self.sizes.embed)
        if not outputs:
            self.trouble = "the wrong shape"
            return None
        output = outputs[0]
        rest = [tensor for tensor in tensors if tensor is not output]
        weights = [_weights(tensor, batch, length, keys) for tensor in rest]
        weights = [found for found in weights if found is not None]
        if self.plan.sequence_first:
            output = output.transpose(0, 1)
        first = weights[0] if weights else None
        averaged = first is not None and first.shape[1] == 1 and (self.sizes.heads or 1) > 1
        return Reply(output, first, averaged, missing=several and any(i is None for i in items))

    def _is_output(self, tensor: Tensor, batch: int, length: int) -> bool:
        size = (length, batch) if self.plan.sequence_first else (batch, length)
        return tensor.ndim == 3 and tuple(tensor.shape[:2]) == size and tensor.is_floating_point()


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
