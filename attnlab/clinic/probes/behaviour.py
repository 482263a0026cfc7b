"""How a target behaves, apart from what it computes: steady, apart, settings."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import replace

from attnlab.clinic.call import Call
from attnlab.clinic.names import role_of
from attnlab.clinic.plan import SIZES
from attnlab.clinic.results import Fact, ask, held, note, tried, unexamined, wrong
from attnlab.clinic.sample import SURE, close

SETTINGS = ("dropout", "scale", "causal", "heads", "width")

# --- before anything else -------------------------------------------------------------------------


def steady(call: Call) -> Generator[Fact, None, bool]:
    """Yield if two calls differ or give NaN, or an input is changed; return whether to go on."""
    parts = call.inputs()
    # another call in between, so that what remembers earlier inputs shows
    first, _, again = (call(drawn).output for drawn in (parts, call.inputs(seed=4), parts))
    if call.caller.changed:
        yield _changed_in_place(call)
    if call.caller.out_of_time:
        limit = 4 * call.signature.options.time_limit
        yield unexamined("It takes too long.", remedy=f"Pass time_limit={limit:g}.")
        return False
    if first is None or again is None or not close(first, again, 1e-6):
        fresh = [call.fresh()(parts).output for _ in range(2)]
        if close(*fresh, 1e-6):
            yield wrong(
                "remembers",
                "The same call gives something else the second time, and a "
                "fresh copy does not: it keeps something between calls.",
            )
            return False
        where = "in eval mode " if call.module is not None else ""
        gap = ""
        if first is not None and again is not None:
            gap = f", by up to {(first - again).abs().max():.2g}"
        yield wrong(
            "random",
            f"Two calls with the same input give different outputs {where}all the same{gap}.",
        )
        return False
    if not first.isfinite().any():
        yield not_finite(call)
        return False
    return True


def not_finite(call: Call) -> Fact:
    """Return that an output is not finite at ordinary inputs."""
    return wrong(
        "nan",
        f"The output is NaN or infinite at ordinary scores: with {call.shapes}.",
        advice="look for a row whose keys are all blocked, a softmax over an axis of which "
        "a whole line is blocked, or minus infinity that is subtracted.",
    )


def _changed_in_place(call: Call) -> Fact:
    """Return which arguments are changed."""
    placed = dict(enumerate(arg.name for arg in call.signature.arguments))
    changed = sorted(call.caller.changed)
    names = [placed.get(int(n), n) if n.isdigit() else n for n in changed]
    sentence = f"It changes what it is given, in place: {' and '.join(names)}."
    return wrong("modifies-input", sentence)


# --- sequences and heads stay apart ---------------------------------------------------------------


def mixed(call: Call, advice: str = "") -> list[Fact]:
    """Return a fact if one sequence or head changes the result of another.

    ``advice`` is how to mend it, where more is known.
    """
    names = (("batch-mixing", "sequence of the batch"), ("head-mixing", "head"))
    followed, options = call.signature.followed, call.signature.options
    ndim = min(call.plan.ndim, 3) if followed else call.plan.ndim
    for dim, (name, what) in enumerate(names[: ndim - 2]):
        counts = (None, 3, 5) if dim == 0 and not call.signature.large else (None,)
        moved = {N: _moved_by_others(call, dim, N=N) for N in counts}
        shown = [N for N in counts if moved[N] > SURE]
        if not shown:
            continue
        if followed and not call.plan.swap:
            if _moved_by_others(call.fresh(swap=(0, 1)), 0, unknown=math.inf) < SURE:
                words = "It keeps sequences apart if the batch stands second, (L, N, E)"
                if options.batch_first or hasattr(call.module, "batch_first"):
                    said = f"{words}, though batch_first is said to be True."
                    return [wrong("batch-first", said)]
                return [
                    ask(
                        "batch-first",
                        f"{words}, and mixes them if it stands first, (N, L, E)."
                        " Nothing says which is meant.",
                        "Pass batch_first=False if the batch stands second; with "
                        "batch_first=True it is a finding.",
                    )
                ]
        sentence = (
            f"Another {what} changes this one's result, by {max(moved.values()):.2f} of its size: "
            f"every {what} must be treated alone."
        )
        if shown[0] is not None:
            usual = len(call.inputs()["query"])
            sentence += f" It shows with {shown[0]} sequences, and not with {usual}."
        return [wrong(name, sentence, advice=advice)]
    return []


def _moved_by_others(call: Call, dim: int, unknown: float = 0.0, *, N: int | None = None) -> float:
    """Return how much a slice of the output moves when all the others are new."""
    sizes = replace(SIZES[0], N=N or SIZES[0].N)
    parts, moved = call.inputs(sizes, N=N), 0.0
    output = call(parts).output
    if output is None or output.shape[dim] != parts["query"].shape[dim] or output.shape[dim] < 2:
        return unknown
    for own in range(output.shape[dim]):
        fresh = call.inputs(sizes, seed=5, N=N)
        for side, part in parts.items():
            fresh[side].select(dim, own).copy_(part.select(dim, own))
        beside_new = call(fresh).output
        if beside_new is None:
            return unknown
        before, after = output.select(dim, own), beside_new.select(dim, own)
        if not (before.isfinite().all() and after.isfinite().all()):
            return unknown
        moved = max(moved, float((after - before).abs().max() / before.abs().max().clamp_min(1e-6)))
    return moved


# --- the rest -------------------------------------------------------------------------------------


def arguments_stay(call: Call) -> Fact | None:
    """Return whether the arguments are as they were; nothing where calls are slow."""
    if call.caller.changed:
        return _changed_in_place(call)
    return None if call.caller.slow else held("arguments", "the arguments are not changed")


def settings_stay(call: Call) -> Iterator[Fact]:
    """Compare the settings of a layer before its first call with those behind its last."""
    if call.module is None or call.module is call.origin:
        return
    for before, after in zip(call.origin.modules(), call.module.modules(), strict=False):
        for name, value in vars(before).items():
            new = vars(after).get(name, value)
            if type(value) not in (bool, int, float, str) or new == value:
                continue
            sentence = f"A call changes the layer itself: {name} was {value} and is {new}."
            if role_of(name) in SETTINGS or name == "training":
                advice = "read settings in forward, and assign them in __init__ only."
                yield wrong("remembers", sentence, advice=advice)
            elif isinstance(value, int) and not isinstance(value, bool):
                yield note("counts", sentence)
            else:
                yield ask("remembers", sentence)


def in_own_half(call: Call) -> Iterator[Fact]:
    """Call a layer of half precision as it is: it may raise only there."""
    half = call.signature.options.half
    if half is not None:
        fresh = call.fresh(dtype=half)
        outcome = fresh(fresh.inputs()).outcome
        name = str(half).removeprefix("torch.")
        yield tried(name)
        if outcome.error is not None and "not implemented for" not in outcome.message:
            yield wrong("raises", f"In {name}, its own dtype, a call raises {outcome.trouble}.")


def too_slow(call: Call) -> Iterator[Fact]:
    """Yield that calls take long, where they do."""
    if call.caller.slow:
        limit = 4 * call.signature.options.time_limit
        yield note("slow", "A call with a few small tensors computes for long.")
        yield unexamined(
            "It computes for so long that some probes were left out.",
            remedy=f"Pass time_limit={limit:g}.",
        )


def remembered(call: Call) -> list[Fact]:
    """Call it with other sizes and numbers in between; then the first call again."""
    parts, fresh = call.inputs(), call.fresh()
    first, between = fresh(parts).output, [call.inputs(seed=9)]
    if call.signature.followed and call.signature.alone and call.plan.ndim > 2:
        between.append({side: part[:, :-1] for side, part in between[0].items()})
    for drawn in (*between, parts):
        used, clean = fresh(drawn).output, call.fresh()(drawn).output
        if clean is not None and first is not None and not close(used, clean, 1e-6):
            how = "raises an error" if used is None else "gives something else"
            sentence = f"A call {how} after calls with other inputs: it keeps something between "
            return [wrong("remembers", f"{sentence}calls.")]
    return []


def alone_or_together(call: Call) -> list[Fact]:
    """Call it with one sequence: the result is that of the batch."""
    if call.plan.ndim < 3 or call.plan.swap:
        return []
    parts, fresh = call.inputs(), call.fresh()
    output = fresh(parts).output
    reply = fresh({side: part[:1] for side, part in parts.items()})
    shape = tuple(getattr(reply.value, "shape", ()))
    if reply.output is None and shape == tuple(output.shape[1:]):
        return [
            wrong(
                "wrong-shape",
                f"For one sequence alone the output is {shape}: it loses the dimension of the "
                "batch.",
                advice="squeeze only a dimension that you name.",
            )
        ]
    if reply.output is not None and not close(reply.output, output[:1], SURE):
        return [wrong("batch-mixing", "A sequence gives another result alone than in a batch.")]
    return []
