"""What only a layer has: heads that are cut and joined, sides, positions and a cache."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from attnlab.clinic._evidence import Evidence
from attnlab.clinic._results import Results
from attnlab.clinic.hypotheses import SIDES as WAYS
from attnlab.clinic.hypotheses import Recipe, Sample
from attnlab.clinic.observe import Core, observe
from attnlab.clinic.subject import SIDES, SIZES, Reply, Subject, _flat
from attnlab.sandbox import call

CLOSE = 1e-5  # relative: above the rounding of float32
UNLIKE = (
    "Heads that share a key do not share the value of that key: keys and values are repeated in "
    "different orders."
)
REPEAT = "repeat both alike: repeat_interleave(groups, dim=1)."


def examine_heads(subject: Subject, cores: list[Core], results: Results) -> None:
    """Report how heads are cut, joined and shared."""
    for core in cores:
        if core.sample.sizes.H < 2:
            continue
        if _over_heads(subject, core, results):
            return
        _cut(core, subject, results)
        _joined(core, subject, results)
        _groups(core, results)
        _shared(core, results)
    if cores and not results.findings:
        results.held("heads", "heads are cut from the features of each token and joined again")


def _over_heads(subject: Subject, core: Core, results: Results) -> bool:
    """Say so if the tokens stand where the heads should: heads look at each other."""
    sizes = core.sample.sizes
    if sizes.H != subject.length or not sizes.L == sizes.S != subject.length:
        return False
    results.found(
        "head-mixing",
        f"Heads look at each other instead of tokens: the table of scores is {sizes.L} × "
        f"{sizes.S}, the number of heads, for a text of {subject.length} tokens.",
        advice="move the heads in front of the tokens: transpose(1, 2).",
    )
    return True


def _cut(core: Core, subject: Subject, results: Results) -> None:
    """Say so if a head holds pieces of some tokens; the windows of local attention are left out."""
    sizes, own = core.sample.sizes, (subject.length, subject.memory)
    H, L = sizes.H, sizes.L
    whole = (L in own, sizes.S in own, sizes.S in own)
    known = zip(SIDES, core.cut, whole, strict=True)
    cut = {side: right for side, right, sees_all in known if right is not None and sees_all}
    wrong, right = ([side for side in cut if cut[side] is one] for one in (False, True))
    if not wrong:
        return
    words = f"The {H} heads are cut by a bare view, without a transpose"
    if right:
        words = f"The heads of the {' and '.join(wrong)} are cut by a bare view, and those of the "
        words += f"{' and '.join(right)} are not"
    size = L if "query" in wrong else sizes.S
    held = torch.arange(H * size).div(H, rounding_mode="floor").view(H, size)
    results.found(
        "split-without-transpose",
        f"{words}: a head holds pieces of some tokens instead of a part of every token.",
        _table("The token that each row of a head holds:", held, "head", "row"),
    )


def _joined(core: Core, subject: Subject, results: Results) -> None:
    """Compare what heads give with what the projection behind them gets, token by token."""
    output, merged = core.sample.output.double(), core.merged
    N, H, L, d = output.shape
    if merged is None and subject.alone and core.reply is not None:
        merged = core.reply.output.detach()
    if merged is None or merged.numel() != output.numel():
        return
    if L not in (subject.length, subject.memory) or (merged.shape[0] not in (N, L, N * L)):
        return
    wanted = output.transpose(1, 2).reshape(N, L, H * d)
    placed = [merged.double().reshape(N, L, H * d)]
    placed.append(merged.double().reshape(L, N, H * d).transpose(0, 1))  # the batch second
    if any(_same(rows.sort(-1).values, wanted.sort(-1).values) for rows in placed):
        return
    rows = placed[0]
    if not _same(rows.flatten().sort().values, wanted.flatten().sort().values):
        return
    ordered = [part.sort(-1).values[0] for part in (rows, wanted)]
    if all(any(_same(one, other) for other in ordered[1]) for one in ordered[0]):
        told = "What a query gathers comes out at another token"
        results.found("position-mixing", f"{told}: row i of the output is not that of query i.")
        return
    view = _same(merged.flatten(), output.flatten())
    how = "by a bare view, without a transpose" if view else "in a wrong order of dimensions"
    results.found(
        "merge-without-transpose",
        f"The {H} heads are joined {how}: an output row holds several positions of one head.",
        _table(
            "The position that each part of an output row holds:",
            torch.arange(H * L).remainder(L).view(L, H),
            "row",
            "part",
        ),
    )


def _groups(core: Core, results: Results) -> None:
    """Compare which heads share keys with which share values."""
    groups = []
    for part in core.sample[1:3]:
        flat = part.transpose(0, 1).flatten(1)
        groups.append([[_same(one, other) for other in flat] for one in flat])
    several = [sum(map(sum, table)) > len(table) for table in groups]
    if all(several) and groups[0] != groups[1]:
        results.found("wrong-source", UNLIKE, advice=REPEAT)


def examine_grouped(subject: Subject, recipe: Recipe, results: Results) -> None:
    """Give a function two heads of keys and values, and four of queries."""
    if subject.ndim < 4 or subject.options.call is not None:
        return
    sizes = replace(subject.sizes(SIZES[1]), H=4)
    parts = subject.inputs(sizes)
    few = {side: part if side == "query" else part[:, :2] for side, part in parts.items()}
    reply = subject(few)
    if reply is None:
        return
    query, *pair = few.values()
    near = [part.repeat_interleave(2, dim=1) for part in pair]
    far = [part.repeat(1, 2, 1, 1) for part in pair]

    def gives(key: Tensor, value: Tensor) -> bool:
        return recipe.gives(Sample(query, key, value, reply.output, sizes))

    if gives(*near):
        results.held("groups", "with 2 heads of keys for 4 of queries, neighbours share a key")
    elif gives(near[0], far[1]) or gives(far[0], near[1]):
        results.found("wrong-source", UNLIKE, advice=REPEAT)


def _shared(core: Core, results: Results) -> None:
    output = core.sample.output
    if output.abs().max() > 0 and _same(output, output[:, :1].expand_as(output)):
        results.found(
            "wrong-source",
            f"All {output.shape[1]} heads compute the same, from the same features.",
            _table("What the heads give the first token:", output[0, :, 0, :5], "head", "feature"),
            advice="give every head its own part of the projections.",
        )


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(
        (one - other).abs().max() <= CLOSE * other.abs().max().clamp_min(1e-9)
    )


def _table(caption: str, values: Tensor, row: str, column: str) -> Evidence:
    shown = values[:7, :7].double()
    names = (
        [f"{word} {i}" for i in range(n)]
        for word, n in zip((row, column), shown.shape, strict=True)
    )
    return Evidence(caption, shown, *map(tuple, names))


# --- what plays query, key and value --------------------------------------------------------------


def examine_sides(subject: Subject, cores: list[Core], results: Results) -> None:
    """Report sides that are exchanged, or not used though the layer has parameters for them."""
    for core in cores:
        letters = _letters(core)
        unused = _unused(subject, core) if letters != "qkv" else ""
        if unused:
            told = next((way.words for way in WAYS if letters == "".join(way.compute(*"qkv"))), "")
            told = told or "Two of query, key and value are the same."
            results.found("wrong-source", f"{told} Weights that it has are never used: {unused}.")
    if len(set(subject.sides.values())) > 1 and not subject.large:
        _exchanged(subject, results)


def _letters(core: Core) -> str:
    """Return what plays query, key and value: of equal sides the first."""
    parts = [part.double() / part.double().norm().clamp_min(1e-12) for part in core.sample[:3]]
    letters = ""
    for place, part in enumerate(parts):
        same = [other for other in range(place) if _same(part, parts[other])]
        letters += "qkv"[same[0] if same else place]
    return letters


def _unused(subject: Subject, core: Core) -> str:
    """Return the name of a matrix of which some rows or columns take no part in the output."""
    module = subject.module
    parts = list(module.modules()) if module is not None else []
    tables = {id(part.weight) for part in parts if isinstance(part, nn.Embedding)}
    named = {
        name: part
        for name, part in (module.named_parameters() if parts else ())
        if part.ndim >= 2 and part.requires_grad and id(part) not in tables
    }
    reply = subject(subject.inputs(), graph=True) if named else None
    if reply is None or not reply.output.requires_grad:
        return ""
    total = (reply.output * torch.randn_like(reply.output)).sum()
    grads = call(torch.autograd.grad, total, list(named.values()), allow_unused=True).value
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


def _exchanged(subject: Subject, results: Results) -> None:
    """Move one input at a time: the query comes from the first, key and value from the others."""
    base = observe(subject)
    if not base or subject.options.call is not None or results.findings:
        return
    sides, uses = set(subject.sides.values()), {}
    for side in sides:
        fresh, moved = subject.inputs(seed=3), {side}
        if side == "key" and "value" not in sides:
            moved = {"key", "value"}
            fresh["value"] = fresh["key"]
        parts = {s: fresh[s] if s in moved else part for s, part in subject.inputs().items()}
        again = observe(subject, parts=parts)
        if len(again) != len(base):
            return
        pairs = zip(base[-1].sample[:3], again[-1].sample[:3], strict=True)
        used = {name for name, (a, b) in zip(SIDES, pairs, strict=True) if not _same(a, b)}
        uses[side] = (used, moved)
    advice = (
        "queries come from the first argument, keys and values from "
        "the others; if all are meant to be the same tokens, pass self_attention=True."
    )
    if all(used == wanted for used, wanted in uses.values()):
        results.held("sides", "queries come from the first argument, keys and values from the rest")
    elif uses.get("key", ())[:1] == ({"value"},) and uses.get("value", ())[:1] == ({"key"},):
        results.found("key-value-swapped", "Key and value are exchanged.", advice=advice)
    else:
        told = "; ".join(
            f"{' and '.join(sorted(used)) or 'nothing'} move{'s' * (len(used) < 2)} with {side}"
            for side, (used, _) in sorted(uses.items())
        )
        sentence = f"Its inputs are not used as their names say: {told}."
        results.found("wrong-source", sentence, advice=advice)


# --- positions and a cache ------------------------------------------------------------------------


def examine_positions(subject: Subject, results: Results) -> None:
    """Give the same token at every place: rotated scores depend on the distance alone."""
    alike = subject.alone or subject.inside
    if results.findings or subject.ndim < 3 or not alike or subject.large:
        return
    x, y = (
        {side: part[..., :1, :].expand_as(part).clone() for side, part in parts.items()}
        for parts in (subject.inputs(), subject.inputs(seed=6))
    )
    seen = [observe(subject, parts=part) for part in (x, y, {s: 2 * y[s] - x[s] for s in x})]
    for cores in zip(*seen, strict=False):
        one, other, third = (core.sample for core in cores)
        if one.query.shape[-2] < 3 or one.query.shape[-2] != one.key.shape[-2]:
            return
        turns = [_places(*parts) for parts in zip(one[:3], other[:3], third[:3], strict=True)]
        if not any(turns):
            continue
        table = one.products
        shifted = _same(table[..., 1:, 1:], table[..., :-1, :-1])
        names = ("queries", "keys", "values")
        who = " and ".join(name for name, turn in zip(names, turns, strict=True) if turn)
        if shifted and not turns[2]:
            results.held("positions", "queries and keys are rotated: scores depend on distances")
            continue
        how = "are turned with the values" if shifted else "do not depend on the distance alone"
        told = f"Positions turn the {who}, and the scores of equal tokens {how}."
        table = _table("Scores of equal tokens:", table[0, 0], "query", "key")
        if _rotates(one, other):
            results.found("positions", told, table)
        else:
            results.ask("positions", told.replace("turn", "change", 1), "Rotate pairs of features.")
        return


def _places(one: Tensor, other: Tensor, third: Tensor) -> bool:
    """Return whether every place changes a row in a way of its own, but linearly.

    What is added to tokens does not change the difference of two; a norm is not linear.
    """
    moved = other - one
    rows = moved.transpose(0, -2)
    alone = all(not _same(rows[i], rows[j]) for i in range(len(rows)) for j in range(i))
    return alone and _same(third - other, moved)


def _rotates(one: Sample, other: Sample) -> bool:
    """Return whether the rows keep their lengths at every place."""
    moved = [(b - a).norm(dim=-1) for a, b in zip(one[:3], other[:3], strict=True)]
    return all(_same(part, part[..., :1].expand_as(part)) for part in moved)


def examine_cache(subject: Subject, results: Results) -> None:
    """Go on from a cache: its last rows are those of the whole pass."""
    caches = [one for one in subject.known if one.role == "cache"]
    places = [one for one in caches if not isinstance(one.default, bool) and not one.required]
    small = subject.ndim < 3 or subject.length < 4
    if results.findings or len(places) != 1 or not subject.alone or small:
        return
    flags = {
        one.name: True
        for one in subject.known
        if isinstance(one.default, bool) and (one in caches or "cache" in one.name)
    }
    x = subject.inputs()["query"]
    cut = x.shape[1] - 3
    whole, first = (subject(dict.fromkeys(SIDES, part), **flags) for part in (x, x[:, :cut]))
    cache = _cache_of(first, cut)
    if whole is None or cache is None or not _same(first.output, whole.output[:, :cut]):
        subject.given -= {places[0].name, *flags}
        return  # without a cache, or not causal
    for steps in ((cut, cut + 1), (cut + 1, cut + 3)):
        if cache is None:
            break
        step = dict.fromkeys(SIDES, x[:, slice(*steps)])
        rest = subject(step, **{places[0].name: cache}, **flags)
        if rest is not None and _same(rest.output, whole.output[:, slice(*steps)]):
            cache = _cache_of(rest, steps[1])
        elif steps[0] > cut:
            words = f"From {places[0].name} only single tokens go on as they should, not several at"
            results.note("cache", f"{words} once.")
        elif rest is None:
            subject.given -= {places[0].name, *flags}
            return
        else:
            apart = (rest.output - whole.output[:, slice(*steps)]).abs().max()
            sentence = f"A step with {places[0].name} differs by up to {apart:.2g} from the same "
            sentence += "row of the whole pass."
            if any(one.role == "position" for one in subject.known):
                results.ask("cache", f"{sentence} It may have to be told its position.")
            else:
                results.found("cache", sentence)
            return
    results.held("cache", f"a step with {places[0].name} equals the same row of the whole pass")


def _cache_of(reply: Reply | None, length: int) -> object:
    """Return what came back beside the output and holds keys and values; None if nothing does."""
    if reply is None or not isinstance(reply.value, (tuple, list)):
        return None
    for part in reply.value:
        inside = [one for one in _flat(part) if isinstance(one, Tensor)]
        if isinstance(part, (tuple, list)) and len(inside) == 2:
            if all(length in one.shape for one in inside):
                return part
    return None
