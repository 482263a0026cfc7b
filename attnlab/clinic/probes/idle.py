"""What has no effect: parameters that no output depends on, and arguments that change nothing."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from attnlab.clinic.call import Call
from attnlab.clinic.names import PROJECTION
from attnlab.clinic.results import Fact, ask, tried, wrong
from attnlab.clinic.sample import close


def idle_parameters(idle: dict[str, Tensor]) -> Iterator[Fact]:
    """Yield which parameters change nothing: what its name has a use for is missed.

    A bias alone is left out: that of a key changes no weight.
    """
    missed = [name for name, part in idle.items() if part.ndim > 1 and PROJECTION.search(name)]
    others = [name for name in idle if not name.endswith("bias")]
    if missed:
        yield wrong(
            "no-effect",
            f"{_listed(missed)} changed without any effect on the output: something else is used "
            "in its place, or nothing.",
            advice="put query, key, value and output each through a projection of its own.",
        )
    elif others:
        yield ask(
            "no-effect",
            f"{_listed(others)} changed without any effect on the output.",
            "Pass the arguments that make use of it by call=, or take it out.",
        )


def _listed(names: list[str]) -> str:
    """Return the names of parameters as the beginning of a sentence."""
    plural = "s" if len(names) > 1 else ""
    return f"The parameter{plural} {' and '.join(names[:4])} can be"


def idle_arguments(call: Call) -> Iterator[Fact]:
    """Give the scale that may be given: the output must move."""
    parts = call.inputs()
    output = call(parts).output
    for arg in call.signature.arguments:
        if arg.role != "scale" or arg.required or call.signature.options.call is not None:
            continue
        given = call(parts, **{arg.name: 0.37}).output
        if given is not None and output is not None:
            yield tried(arg.name)
            if close(given, output, 1e-9):
                yield wrong(
                    "no-effect",
                    f"With {arg.name}=0.37 the output is the same as without it: it has no effect.",
                )
