"""Positions that a layer gives its tokens, and the cache from which it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from attnlab.clinic.call import Call, Reply, flat
from attnlab.clinic.factors import turned
from attnlab.clinic.names import ROTARY_NAME
from attnlab.clinic.observe import Observer
from attnlab.clinic.plan import SIZES
from attnlab.clinic.probes.layers import table
from attnlab.clinic.results import Fact, ask, held, note, tried, wrong
from attnlab.clinic.sample import Sample, alike
from attnlab.clinic.signature import PARTS


def rotations(watch: Observer) -> Iterator[Fact]:
    """Give the same token at every place: rotated scores depend on the distance alone."""
    call, moves = watch.call, False
    tokens = call.signature.alone or call.plan.inside
    if call.plan.ndim < 3 or not tokens or call.signature.large:
        return
    x, y = call.inputs(equal=True), call.inputs(seed=6, equal=True)
    seen = [watch(parts=part) for part in (x, y, {s: 2 * y[s] - x[s] for s in x})]
    for cores in zip(*seen, strict=False):
        first, second, third = (core.sample for core in cores)
        if first.query.shape[-2] < 3 or first.query.shape[-2] != first.key.shape[-2]:
            return
        turns = [_places(*parts) for parts in zip(first[:3], second[:3], third[:3], strict=True)]
        if not any(turns):
            continue
        moves = True
        scores = first.products
        shifted = alike(scores[..., 1:, 1:], scores[..., :-1, :-1])
        names = ("queries", "keys", "values")
        who = " and ".join(name for name, turn in zip(names, turns, strict=True) if turn)
        if shifted and not turns[2]:
            yield held("positions", "queries and keys are rotated: scores depend on distances")
            continue
        how = "are turned with the values" if shifted else "do not depend on the distance alone"
        sentence = f"Positions turn the {who}, and the scores of equal tokens {how}."
        if _rotates(first, second):
            evidence = table("Scores of equal tokens:", scores[0, 0], "query", "key")
            yield wrong("positions", sentence, evidence)
        else:
            sentence = sentence.replace("turn", "change", 1)
            yield ask("positions", sentence, "Rotate pairs of features.")
        return
    if not moves:
        yield from unmoved(watch)


def unmoved(watch: Observer) -> Iterator[Fact]:
    """Yield that positions change nothing, though a name speaks of rotary positions."""
    call, parts = watch.call, watch.call.signature.module
    names = [type(part).__name__ for part in (parts.modules() if parts is not None else ())]
    given = any(arg.role == "position" for arg in call.signature.arguments)
    if given or not any(map(ROTARY_NAME.search, (*names, call.signature.name))):
        return
    words = "Its name speaks of rotary positions, but positions change nothing"
    if any(turned(core.sample.query, core.projected) for core in watch()):
        words += ": every token is turned by the same angles, which cancel between query and key."
        yield wrong("positions", words, advice="turn by the place of the token, not of the head.")
    else:
        yield ask("positions", f"{words}: queries and keys are not turned.")


def _places(first: Tensor, second: Tensor, third: Tensor) -> bool:
    """Return whether every place changes a row in a way of its own, but linearly."""
    moved = second - first  # what is added to tokens does not change it; a norm is not linear
    rows = moved.transpose(0, -2)
    alone = all(not alike(rows[i], rows[j]) for i in range(len(rows)) for j in range(i))
    return alone and alike(third - second, moved)


def _rotates(first: Sample, second: Sample) -> bool:
    """Return whether the rows keep their lengths at every place."""
    moved = [(b - a).norm(dim=-1) for a, b in zip(first[:3], second[:3], strict=True)]
    return all(alike(part, part[..., :1].expand_as(part)) for part in moved)


def cached(call: Call) -> Iterator[Fact]:
    """Go on from a cache: its last rows are those of the whole pass."""
    known = call.signature.arguments
    caches = [arg for arg in known if arg.role == "cache"]
    places = [arg for arg in caches if not isinstance(arg.default, bool) and not arg.required]
    small = call.plan.ndim < 3 or call.plan.length < 4
    if len(places) != 1 or not call.signature.alone or small:
        return
    name = places[0].name
    flags = {
        arg.name: True
        for arg in known
        if isinstance(arg.default, bool) and (arg in caches or "cache" in arg.name)
    }
    x = call.inputs()["query"]
    cut = x.shape[1] - 3
    whole, first = (call(dict.fromkeys(PARTS, part), **flags) for part in (x, x[:, :cut]))
    whole, cache = whole.output, _cache_of(first, cut)
    if whole is None or cache is None or not alike(first.output, whole[:, :cut]):
        return  # without a cache, or not causal
    for steps in ((cut, cut + 1), (cut + 1, cut + 3)):
        if cache is None:
            break
        step = dict.fromkeys(PARTS, x[:, slice(*steps)])
        rest = call(step, **{name: cache}, **flags)
        if rest.output is not None and alike(rest.output, whole[:, slice(*steps)]):
            cache = _cache_of(rest, steps[1])
        elif steps[0] > cut:
            words = f"From {name} only single tokens go on as they should, not several at"
            yield note("cache", f"{words} once.")
        elif rest.output is None:
            return
        else:
            apart = (rest.output - whole[:, slice(*steps)]).abs().max()
            sentence = f"A step with {name} differs by up to {apart:.2g} from the same "
            sentence += "row of the whole pass."
            if any(arg.role == "position" for arg in known):
                yield ask("cache", f"{sentence} It may have to be told its position.")
            else:
                yield wrong("cache", sentence)
            yield from map(tried, (name, *flags))
            return
    yield held("cache", f"a step with {name} equals the same row of the whole pass")
    yield from map(tried, (name, *flags))


def cached_function(call: Call) -> Iterator[Fact]:
    """Give a function its last query, key and value, and what came before as its cache."""
    taken = [arg for arg in call.signature.arguments if arg.role == "cache"]
    caches = [arg.name for arg in taken if not isinstance(arg.default, bool)]
    parts = call.inputs(replace(SIZES[0], S=SIZES[0].L))
    last = {side: part[..., -1:, :] for side, part in parts.items()}
    whole, pair = call(parts).output, tuple(parts[side][..., :-1, :] for side in PARTS[1:])
    if len(caches) not in (1, 2) or whole is None:
        return
    given = dict(zip(caches, pair if len(caches) == 2 else (pair,), strict=True))
    step = call(last, **given).output
    if step is None:
        return
    yield from map(tried, caches)
    if alike(step, whole[..., -1:, :]):
        yield held("cache", f"a step with {caches[0]} equals the same row of the whole pass")
    else:
        apart = (step - whole[..., -1:, :]).abs().max()
        words = (
            f"A step with {' and '.join(caches)} differs by up to {apart:.2g} from the same row "
        )
        yield wrong("cache", f"{words}of the whole pass.")


def _cache_of(reply: Reply, length: int) -> object:
    """Return what came back beside the output and holds keys and values; None if nothing does."""
    if reply.output is None or not isinstance(reply.value, (tuple, list)):
        return None
    for part in reply.value:
        inside = [piece for piece in flat(part) if isinstance(piece, Tensor)]
        if isinstance(part, (tuple, list)) and len(inside) == 2:
            if all(length in piece.shape for piece in inside):
                return part
    return None
