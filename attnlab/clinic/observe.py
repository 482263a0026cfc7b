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

from attnlab.clinic.behaviour import close
from attnlab.clinic.hypotheses import Sample, Sizes, measured_weights
from attnlab.clinic.subject import LARGE, SIZES, Reply, Subject

PRODUCTS = {"bmm": 0, "mm": 0, "baddbmm": 1, "addmm": 1}  # where the factors begin
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
        place = PRODUCTS.get(operation.overloadpacket.__name__)
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


def observe(
    subject: Subject,
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
    given = {"masks": masks, "causal": causal}
    if subject.followed or subject.inside:
        return _followed(subject, seed, allowed, parts, given)
    return list(_called(subject, seed, allowed, parts, given))


def _called(
    subject: Subject, seed: int, allowed: Tensor | None, own: dict | None, given: dict
) -> Iterator[Core]:
    for sizes in SIZES[: 1 if given["masks"] or own else len(SIZES)]:
        parts = own or subject.inputs(sizes, seed)
        reply = subject(parts, **given)
        if reply is None:
            continue
        lead = {2: (1, 1), 3: (sizes.N, 1), 4: (sizes.N, sizes.H)}[subject.ndim]
        known = replace(subject.sizes(sizes), N=lead[0], H=lead[1])
        shaped = [
            part.detach().reshape(*lead, *part.shape[-2:])
            for part in (*parts.values(), reply.output)
        ]
        sample = Sample(*shaped, known, allowed)
        yield Core(sample, measured_weights(sample), reply=reply)


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


def record(subject: Subject, parts: dict, **given: object) -> tuple:
    """Return the reply to one call and its products."""
    with _in_the_open() as recorder:
        reply = subject(parts, **given)
    return reply, recorder.products


def _followed(
    subject: Subject, seed: int, allowed: Tensor | None, parts: dict | None, given: dict
) -> list[Core]:
    N = None if allowed is None else len(allowed)
    parts = parts or subject.inputs(seed=seed, N=N)
    reply, one = record(subject, parts, **given)
    if reply is None:
        return []
    moving = subject.moving.get(len(one))
    if moving is None:
        other = record(subject, subject.inputs(seed=seed + 7, N=N), **given)[1]
        if len(one) != len(other):
            return []
        moving = [_moved(p, q) for p, q in zip(one, other, strict=True)]
        subject.moving[len(one)] = moving
    batch = len(parts["query"]) if parts["query"].ndim > 2 else 1
    cores = []
    for start, end in _pairs(one, moving):
        projected = tuple(one[place][2] for place in range(start) if sum(moving[place]) == 1)
        projected = projected or tuple(parts.values())
        after = [place for place in range(end + 1, len(one)) if sum(moving[place]) == 1]
        merged = one[after[0]][0 if moving[after[0]][0] else 1] if after else None
        core = _core(one[start], one[end], projected, merged, allowed, batch, subject)
        if core is not None and (subject.followed or _returned(core, reply)):
            cores.append(core._replace(reply=reply))
    return cores


def _returned(core: Core, reply: Reply) -> bool:
    """Return whether the attention seen inside is what comes back."""
    inner, output = core.sample.output, reply.output
    return inner.shape[-2:] == output.shape[-2:] and close(inner.flatten(), output.flatten())


def _moved(one: Product, other: Product) -> list[bool]:
    """Return which factors of a product moved."""
    if one[0].shape != other[0].shape:
        return [False, False]
    return [not torch.equal(a, b) for a, b in zip(one[:2], other[:2], strict=True)]


def _pairs(products: list[Product], moving: list) -> Iterator[tuple[int, int]]:
    """Yield the places of scores with those of the averages that belong to them."""
    waiting: list[int] = []
    used: list[int] = []
    for place, (one, other, _) in enumerate(products):
        if not all(moving[place]):
            continue
        shapes = [tuple(part.shape) for part in (one, other)]
        shapes += [(*shape[:-2], shape[-1], shape[-2]) for shape in shapes]
        start = next((p for p in waiting if tuple(products[p][2].shape) in shapes), None)
        if start is not None:
            waiting.remove(start)
            used.append(start)
            yield start, place
        elif not any(tuple(products[p][2].shape) in shapes for p in used):
            waiting.append(place)


def _core(
    scores: Product,
    average: Product,
    projected: tuple[Tensor, ...],
    merged: Tensor | None,
    allowed: Tensor | None,
    N: int,
    subject: Subject,
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
    parts = [p.unflatten(0, (N, -1)) for p in (query, key, value, output, weights)]
    factors, cut = zip(*(_factor(part, projected) for part in parts[:3]), strict=True)
    known, before = None not in factors[:2], (factors[0] or 1.0) * (factors[1] or 1.0)
    (H, L, E), S = parts[0].shape[1:], parts[1].shape[2]
    sizes = Sizes(N, H, L, S, E, parts[2].shape[-1], subject.embed)
    if allowed is not None:
        per_key = bool((allowed == allowed[..., :1, :]).all())
        rows = allowed[:, :1, :1] if per_key else allowed[:, :1]
        fits = allowed.shape[-1] == S and (per_key or allowed.shape[-2] == L)
        allowed = rows.expand(N, H, L, S) if fits else None
    sample = Sample(parts[0] / before, *parts[1:4], sizes, allowed, parts[4].double())
    return Core(sample, parts[4].double(), projected, merged, known, cut)


def _factor(part: Tensor, projected: tuple[Tensor, ...]) -> tuple[float | None, bool | None]:
    """Return by what a projection was multiplied to give (N, H, L, d), and if it lies in place.

    Norms alone tell, so it is right behind a rotation, too. False says that heads are cut by a bare
    view, None that it cannot be told.
    """
    part = unrepeated(part).double()
    moved, elsewhere = part.transpose(1, 2).flatten(2), None
    for rows in pieces(projected, part):
        for one, other, right in ((moved, rows, True), (part, rows.reshape(part.shape), False)):
            ratio = one.norm(dim=-1) / other.norm(dim=-1)
            if ((ratio / ratio.mean() - 1).abs() < 1e-5).all():
                return float(ratio.mean()), right
        total = part.norm() / rows.norm()
        if abs(part.abs().sum() / rows.abs().sum() / total - 1) < 1e-7:
            elsewhere = float(total)  # the same numbers at other places
    return elsewhere, None


def unrepeated(part: Tensor) -> Tensor:
    """Return the heads (N, H, L, d) without those that only repeat another."""
    heads = part.shape[1]
    for groups in range(1, heads):
        if heads % groups == 0:
            if torch.equal(part, part[:, :groups].repeat(1, heads // groups, 1, 1)):
                return part[:, :groups]
            kept = part[:, :: heads // groups]
            if torch.equal(part, kept.repeat_interleave(heads // groups, dim=1)):
                return kept
    return part


def pieces(projected: tuple[Tensor, ...], part: Tensor) -> Iterator[Tensor]:
    """Yield every piece (N, L, H * d) of projections that heads (N, H, L, d) may be made of."""
    N, H, L, d = part.shape
    width = H * d
    for whole in projected:
        if whole.numel() % (N * L):
            continue
        rows = whole.double()
        if rows.ndim == 4 and rows.shape == part.shape:  # of a norm of each head
            rows = rows.transpose(1, 2)
        if rows.ndim == 3 and len(rows) != N and rows.shape[1] == L and len(rows) % N == 0:
            rows = rows.reshape(N, -1, L, rows.shape[-1]).transpose(1, 2)
        for turned in (rows.reshape(N, L, -1), rows.reshape(L, N, -1).transpose(0, 1)):
            for start in range(0, turned.shape[-1] - width + 1, d):
                yield turned[..., start : start + width]
            count, rest = divmod(turned.shape[-1], width)
            if count > 1 and not rest:  # query, key and value of each head side by side
                side_by_side = turned.unflatten(-1, (H, count, -1)).unbind(-2)
                last = turned.unflatten(-1, (-1, count)).unbind(-1)
                yield from (one.flatten(2) for one in (*side_by_side, *last))
