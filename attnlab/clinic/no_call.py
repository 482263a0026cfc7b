"""Why no call gives an output."""

from __future__ import annotations

from collections.abc import Iterator

from attnlab.clinic.call import Call, Search
from attnlab.clinic.plan import widths_of
from attnlab.clinic.results import Fact, ask, unexamined, wrong

ADAPTER = "Pass call= with an adapter that makes a call which works."


def not_called(search: Search) -> Iterator[Fact]:
    """Yield why no call that was tried works."""
    call, first, signature = search.call, search.first, search.call.signature
    parts, sides, name = call.inputs(), signature.sides, signature.name
    given = ", ".join(f"{name}: {tuple(parts[side].shape)}" for name, side in sides.items())
    made, error, value = f"{name}({given})", first.error, first.value
    if call.caller.hangs:
        yield _late(search, made)
    elif isinstance(error, NotImplementedError) or (error is None and value is None):
        yield wrong(
            "wrong-shape",
            f"It gives no tensor: {first.trouble or 'returns None'}. Its body is to be written.",
            advice="write the body and return the result.",
        )
    elif signature.strange:
        what = f"What {' and '.join(signature.strange)} should be is not known, so {name} could "
        yield unexamined(f"{what}not be examined.", call=made, remedy=ADAPTER)
    elif _works_where_equal(call):
        yield wrong(
            "square-only",
            "It works only where there are as many tokens as sequences: "
            + (f"{made} raises {first.trouble}." if error else "its output has another shape."),
        )
    elif error is None:
        shape = tuple(getattr(value, "shape", ()))
        sentence = f"{made} returns {f'a tensor {shape}' if shape else type(value).__name__}"
        if signature.followed:
            yield ask("wrong-shape", f"{sentence}, which is no output for every query.", ADAPTER)
        else:
            right = (*parts["query"].shape[:-1], parts["value"].shape[-1])
            yield wrong("wrong-shape", f"{sentence}; it should be {right}.")
    elif len(sides) == 2 and not signature.followed:
        yield unexamined(
            "It takes no query, key and value: only attention as a whole is examined.", call=made
        )
    else:
        sentence = f"{made} raises {first.trouble}, and no other call that was tried works."
        yield ask("raises", sentence, ADAPTER, call=made)


def _late(search: Search, made: str) -> Fact:
    """Return that a call does not come back."""
    limit = search.call.signature.options.time_limit
    deaf = ""
    if search.first.seconds > 2 * limit + 1:
        deaf = " It spends them in compiled code, which cannot be stopped."
    return unexamined(
        f"{made} gives no answer within {limit:g} seconds of computing.{deaf}",
        remedy="Look for a loop that never ends; if it only takes long, pass "
        f"time_limit={4 * limit:g}.",
        name="hangs",
    )


def _works_where_equal(call: Call) -> bool:
    """Return whether it works only where L = N, which hides a mix-up of the two."""
    if not call.signature.followed:
        call = call.at(demand={"L": "N", "S": "N"}, ndim=3)
        return call(call.inputs()).output is not None
    for embed in widths_of(call.signature)[:3]:
        call = call.at(form=None, embed=embed, length=3, memory=3, batch=3, ndim=3)
        reply = call(call.inputs())
        if reply.output is not None and call.alive(reply):
            return True
    return False
