"""Observe attention: call a function at several sizes, or follow the steps of a layer.

Of all matrix products of two passes over different tokens, those with two moving factors are
attention (the scores, then the average of the values); those with one are projections.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab.clinic.call import Call, Reply
from attnlab.clinic.factors import factor_of
from attnlab.clinic.measure import measured_weights
from attnlab.clinic.plan import SIZES
from attnlab.clinic.sample import Sample, Sizes, close
from attnlab.clinic.signature import LARGE

MATRIX_PRODUCTS = {"bmm": 0, "mm": 0, "baddbmm": 1, "addmm": 1}  # where the factors begin
NORMS = ("native_layer_norm", "_fused_rms_norm")
Product = tuple[Tensor, Tensor, Tensor]  # two factors and what they give


class Core(NamedTuple):
    """One observed attention, with what a layer does before and after it."""

    sample: Sample
    weights: Tensor  # (N, H, L, S), in float64
    projected: tuple[Tensor, ...] = ()  # what projections before it gave
    merged: Tensor | None = None  # what the projection after it gets
    known: bool = True  # whether it is known by what query and key were multiplied before
    cut: tuple[bool | None, ...] = ()  # whether heads of query, key, value are cut as they should
    reply: Reply | None = None


class Recorder(TorchDispatchMode):
    """Keep the factors and the result of every matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Product] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        """Run an operation, and keep it if it is a product."""
        result = operation(*args, **(kwargs or {}))
        place = MATRIX_PRODUCTS.get(operation.overloadpacket.__name__)
        if operation.overloadpacket.__name__ in NORMS:  # it gives what is cut, too
            kept = args[0].detach().clone(), torch.zeros(1, 1), result[0].detach().clone()
            self.products.append(kept)
        if place is not None:
            factors = (_kept(part) for part in args[place : place + 2])
            self.products.append((*factors, result.detach().clone()))
        return result


def _kept(part: Tensor) -> Tensor:
    """Return a copy of a factor; the parameters of a large layer are themselves kept."""
    return part.detach() if part.numel() > LARGE // 8 else part.detach().clone()


class Observer:
    """Observes the attentions of one call.

    Whichever factors of its products move is looked up once for each number of products.
    """

    def __init__(self, call: Call, moving: dict[int, list] | None = None) -> None:
        self.call = call
        self.moving = {} if moving is None else moving

    def at(self, **changes: object) -> Observer:
        """Return an observer of the same call with changes of its plan."""
        return Observer(self.call.at(**changes), self.moving)

    def square(self) -> Observer:
        """Return an observer of the same call with as many keys as queries."""
        plan = self.call.plan
        return self.at(demand={"L": "S", **plan.demand}, memory=plan.length)

    @property
    def inside(self) -> bool:
        """Whether the steps are followed, and not only the output is looked at."""
        return self.call.signature.followed or self.call.plan.inside

    def __call__(
        self,
        *,
        seed: int = 0,
        masks: dict | None = None,
        allowed: Tensor | None = None,
        causal: bool = False,
        parts: dict | None = None,
    ) -> list[Core]:
        """Return one core for each attention of a layer, or for each size of a function.

        ``masks`` are given by name; ``allowed`` says what they mean, (N, H, L, S).
        """
        observe = self._followed if self.inside else self._called
        return list(observe(seed, allowed, parts, {"masks": masks, "causal": causal}))

    def _called(
        self, seed: int, allowed: Tensor | None, own: dict | None, given: dict
    ) -> Iterator[Core]:
        """Yield a core for each size at which a function gives an output."""
        plan = self.call.plan
        for sizes in SIZES[: 1 if given["masks"] or own else len(SIZES)]:
            parts = own or self.call.inputs(sizes, seed=seed)
            reply = self.call(parts, **given)
            if reply.output is None:
                continue
            lead = {2: (1, 1), 3: (sizes.N, 1), 4: (sizes.N, sizes.H)}[plan.ndim]
            known = replace(plan.sizes(sizes), N=lead[0], H=lead[1])
            shaped = [
                part.detach().reshape(*lead, *part.shape[-2:])
                for part in (*parts.values(), reply.output)
            ]
            sample = Sample(*shaped, known, allowed)
            yield Core(sample, measured_weights(sample), reply=reply)

    def _followed(
        self, seed: int, allowed: Tensor | None, parts: dict | None, given: dict
    ) -> Iterator[Core]:
        """Yield a core for each pair of products that belongs to one attention."""
        call, N = self.call, None if allowed is None else len(allowed)
        parts = parts or call.inputs(seed=seed, N=N)
        reply, products = recorded(call, parts, **given)
        if reply.output is None:
            return
        moving = self.moving.get(len(products))
        if moving is None:
            redrawn = recorded(call, call.inputs(seed=seed + 7, N=N), **given)[1]
            if len(products) != len(redrawn):
                return
            moving = [_moved(*pair) for pair in zip(products, redrawn, strict=True)]
            self.moving[len(products)] = moving
        batch = len(parts["query"]) if parts["query"].ndim > 2 else 1
        for start, end in _pairs(products, moving):
            projected = [products[place][2] for place in range(start) if sum(moving[place]) == 1]
            projected = (*projected, *parts.values())
            after = [place for place in range(end + 1, len(products)) if sum(moving[place]) == 1]
            merged = products[after[0]][0 if moving[after[0]][0] else 1] if after else None
            core = _core(products[start], products[end], projected, allowed, batch)
            if core is None or not (call.signature.followed or _returned(core, reply)):
                continue
            sizes = replace(core.sample.sizes, width=call.plan.embed)
            sample = core.sample._replace(sizes=sizes)
            yield core._replace(sample=sample, merged=merged, reply=reply)


# --- following ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _in_the_open() -> Iterator[Recorder]:
    """Let torch compute its own attention step by step, and record the products."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), Recorder() as recorder:
            yield recorder
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def recorded(call: Call, parts: dict, **given: object) -> tuple[Reply, list[Product]]:
    """Return the reply to one call and its products."""
    with _in_the_open() as recorder:
        reply = call(parts, **given)
    return reply, recorder.products


def _returned(core: Core, reply: Reply) -> bool:
    """Return whether the attention seen inside is what comes back."""
    inner, output = core.sample.output, reply.output
    return inner.shape[-2:] == output.shape[-2:] and close(inner.flatten(), output.flatten())


def _moved(product: Product, redrawn: Product) -> list[bool]:
    """Return which factors of a product moved."""
    if product[0].shape != redrawn[0].shape:
        return [False, False]
    return [not torch.equal(*pair) for pair in zip(product[:2], redrawn[:2], strict=True)]


def _pairs(products: list[Product], moving: list) -> Iterator[tuple[int, int]]:
    """Yield the places of scores with those of the averages that belong to them."""
    waiting: list[int] = []
    used: list[int] = []
    for place, (left, right, _) in enumerate(products):
        if not all(moving[place]):
            continue
        shapes = [tuple(part.shape) for part in (left, right)]
        shapes += [(*shape[:-2], shape[-1], shape[-2]) for shape in shapes]
        start = next((p for p in waiting if tuple(products[p][2].shape) in shapes), None)
        if start is not None:
            waiting.remove(start)
            used.append(start)
            yield start, place
        elif not any(tuple(products[p][2].shape) in shapes for p in used):
            waiting.append(place)


def _core(
    scores: Product, average: Product, projected: tuple[Tensor, ...], allowed: Tensor | None, N: int
) -> Core | None:
    """Return what two products show of one attention; None if it is of another form."""
    query, key, products = (p if p.ndim == 3 else p[None] for p in scores)
    weights, value, output = (p if p.ndim == 3 else p[None] for p in average)
    key = key.mT
    if weights.shape[-1] != value.shape[-2] or weights.shape[-2:] != products.shape[-2:]:
        weights, value, output = value.mT, weights.mT, output.mT  # values times weights
    if weights.shape[-2:] != products.shape[-2:] and weights.mT.shape == products.shape:
        query, key = key, query  # keys times queries
    if weights.shape != (*query.shape[:-1], key.shape[-2]) or len(query) % N:
        return None
    seen = query, key, value, output, weights
    parts = [part.unflatten(0, (N, -1)) for part in seen]
    factors, cut = zip(*(factor_of(part, projected) for part in parts[:3]), strict=True)
    if not all(cut) and len(query) > N > 1:  # the heads may stand in front of the sequences
        turned = [part.unflatten(0, (-1, N)).transpose(0, 1) for part in seen]
        again = list(zip(*(factor_of(part, projected) for part in turned[:3]), strict=True))
        if all(again[1]):
            parts, (factors, cut) = turned, again
    known, before = None not in factors[:2], (factors[0] or 1.0) * (factors[1] or 1.0)
    (H, L, E), S = parts[0].shape[1:], parts[1].shape[2]
    if allowed is not None:
        per_key = bool((allowed == allowed[..., :1, :]).all())
        rows = allowed[:, :1, :1] if per_key else allowed[:, :1]
        fits = allowed.shape[-1] == S and (per_key or allowed.shape[-2] == L)
        allowed = rows.expand(N, H, L, S) if fits else None
    sizes, weights = Sizes(N, H, L, S, E, parts[2].shape[-1]), parts[4].double()
    sample = Sample(parts[0] / before, *parts[1:4], sizes, allowed, weights)
    return Core(sample, weights, projected, None, known, cut)
