"""What plays query, key and value in a layer, and from which of its inputs each comes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from attnlab.clinic.call import Call
from attnlab.clinic.family import SIDES
from attnlab.clinic.observe import Core, Observer
from attnlab.clinic.results import Fact, held, wrong
from attnlab.clinic.sample import alike
from attnlab.clinic.signature import PARTS
from attnlab.sandbox import call as call_safely


def unused_sides(call: Call, cores: list[Core]) -> Iterator[Fact]:
    """Yield sides that are the same or exchanged, though the layer has parameters for them."""
    for core in cores:
        letters = _letters(core)
        unused = _unused(call, core) if letters != "qkv" else ""
        if unused:
            ways = (way.words for way in SIDES if letters == "".join(way.compute(*"qkv")))
            words = next(ways, "") or "Two of query, key and value are the same."
            yield wrong("wrong-source", f"{words} Weights that it has are never used: {unused}.")


def _letters(core: Core) -> str:
    """Return what plays query, key and value: of equal sides the first."""
    parts = [part.double() / part.double().norm().clamp_min(1e-12) for part in core.sample[:3]]
    letters = ""
    for place, part in enumerate(parts):
        same = [earlier for earlier in range(place) if alike(part, parts[earlier])]
        letters += "qkv"[same[0] if same else place]
    return letters


def _unused(call: Call, core: Core) -> str:
    """Return the name of a matrix of which some rows or columns take no part in the output."""
    parts = list(call.module.modules()) if call.module is not None else []
    tables = {id(part.weight) for part in parts if isinstance(part, nn.Embedding)}
    named = {
        name: part
        for name, part in (call.module.named_parameters() if parts else ())
        if part.ndim >= 2 and part.requires_grad and id(part) not in tables
    }
    output = call(call.inputs(), graph=True).output if named else None
    if output is None or not output.requires_grad:
        return ""
    total = (output * torch.randn_like(output)).sum()
    grads = call_safely(torch.autograd.grad, total, list(named.values()), allow_unused=True).value
    d = core.sample.sizes.E
    return next((n for n, grad in zip(named, grads or (), strict=False) if _idle(grad, d)), "")


def _idle(grad: Tensor | None, d: int) -> bool:
    """Return whether as much of a matrix as one head has gets no gradient at all."""
    if grad is None:
        return True
    for dim, size in enumerate(grad.shape):
        still = (grad.transpose(0, dim).flatten(1) == 0).all(dim=1)
        if int(still.sum()) * (grad.numel() // size) >= d * min(grad.shape[-2:]):
            return True
    return False


def crossed(watch: Observer, cores: list[Core]) -> list[int]:
    """Return the places of the attentions whose keys come from another sequence."""
    new = watch.call.inputs(seed=3)
    again = watch(parts={**new, "query": watch.call.inputs()["query"]})
    pairs = enumerate(zip(cores, again, strict=False))
    return [place for place, pair in pairs if not alike(pair[0].sample.key, pair[1].sample.key)]


def exchanged_sides(watch: Observer) -> Iterator[Fact]:
    """Move one input at a time: the query comes from the first, key and value from the others."""
    call, base = watch.call, watch()
    if not base or call.signature.options.call is not None:
        return
    sides, uses = set(call.signature.sides.values()), {}
    for side in sides:
        fresh, moved = call.inputs(seed=3), {side}
        if side == "key" and "value" not in sides:
            moved = {"key", "value"}
            fresh["value"] = fresh["key"]
        parts = {s: fresh[s] if s in moved else part for s, part in call.inputs().items()}
        again = watch(parts=parts)
        if len(again) != len(base):
            return
        pairs = zip(base[-1].sample[:3], again[-1].sample[:3], strict=True)
        used = {name for name, pair in zip(PARTS, pairs, strict=True) if not alike(*pair)}
        uses[side] = (used, moved)
    advice = (
        "queries come from the first argument, keys and values from "
        "the others; if all are meant to be the same tokens, pass self_attention=True."
    )
    if all(used == wanted for used, wanted in uses.values()):
        yield held("sides", "queries come from the first argument, keys and values from the rest")
    elif uses.get("key", ())[:1] == ({"value"},) and uses.get("value", ())[:1] == ({"key"},):
        yield wrong("key-value-swapped", "Key and value are exchanged.", advice=advice)
    else:
        moves = "; ".join(
            f"{' and '.join(sorted(used)) or 'nothing'} move{'s' * (len(used) < 2)} with {side}"
            for side, (used, _) in sorted(uses.items())
        )
        sentence = f"Its inputs are not used as their names say: {moves}."
        yield wrong("wrong-source", sentence, advice=advice)
