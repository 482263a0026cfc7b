"""How a piece of attention is called: its arguments, and what came back instead of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab._bounded import Caller, Outcome, a, call, name_of
from attnlab.clinic import behaviour
from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Options, Results
from attnlab.clinic.names import arguments, plain_name

MOST = 10**6  # numbers that a result of the clinic's small inputs may have
MOST_SHOWN = 7  # rows and columns of a table
VIEW_ERRORS = ("view size is not compatible", "contiguous")


class Form(NamedTuple):
    """One way to call a function: its arguments in front and its named ones."""

    arguments: tuple
    named: dict[str, object]

    def __str__(self) -> str:
        named = [f"{name}={_told(value)}" for name, value in self.named.items()]
        return ", ".join([*map(_told, self.arguments), *named])

    @property
    def values(self) -> tuple:
        """All that is passed."""
        return (*self.arguments, *self.named.values())


class Piece(behaviour.Subject):
    """A function under examination: every call goes through here, on copies of the inputs.

    ``who`` is its name in sentences. ``draw`` returns the inputs for a seed, ``way`` their call. An
    error is its own if it is ``sure`` what its arguments mean; else ``remedy`` may help.
    """

    def __init__(
        self, function: Callable, options: Options, results: Results, who: str = ""
    ) -> None:
        self.name, self.results = name_of(function), results
        self.who = who or (self.name if self.name.isidentifier() else "the function")
        asked, adapter, known = function, options.call, arguments(options.call or function) or []
        if adapter is not None:
            asked, known = lambda *a, **k: adapter(function, *a, **k), known[1:]
        self.parameters = known or None  # None where nothing is known of what it takes
        self.caller = Caller(asked, options.time_limit)
        self.sure, self.remedy = bool(known), ""
        self.way: Callable[[dict[str, Tensor]], Form | None] = lambda _: None
        self.draw: Callable[[int], dict[str, Tensor]] = lambda _: {}

    @property
    def needed(self) -> list[str]:
        """The names of the arguments that it requires."""
        return [one.name for one in self.parameters or [] if one.required]

    def form(self, first: object, known: Mapping[str, object], *spare: object) -> Form | None:
        """Return a call: what comes first, whatever its name, and the others by their plain names.

        None where a required one is not among the ``known``. Where nothing is known of its
        arguments, it gets the first and the ``spare`` ones.
        """
        if self.parameters is None:
            return Form((first, *spare), {})
        known = {**known, plain_name(self.parameters[0].name): first}
        in_front, named, skipped = [], {}, False
        for one in self.parameters:
            plain = plain_name(one.name)
            if plain not in known:
                if one.required:
                    return None
                skipped = True
            elif one.by_place and not skipped:
                in_front.append(known[plain])
            else:
                named[one.name] = known[plain]
        return Form(tuple(in_front), named)

    # --- as the table of behaviour asks -----------------------------------------------------------

    def inputs(self, *, seed: int = 0, sizes: int = 0) -> dict[str, Tensor] | None:
        """Return the inputs; other sizes are tried by the examination itself."""
        return None if sizes else {n: x.to(self.dtype) for n, x in self.draw(seed).items()}

    def answer(self, inputs: dict[str, Tensor], *, graph: bool = False) -> Outcome:
        """Return what comes of the call."""
        form = self.way(inputs)
        with torch.set_grad_enabled(graph):
            outcome = Outcome() if form is None else self.ask(form, copied=not graph)
        outcome.value = _stacked(outcome.value)
        return outcome

    def called(self, place: str) -> str:
        """Return the name of an argument, or which one it is."""
        known = self.parameters or []
        by_place = place.isdigit() and int(place) < len(known)
        return known[int(place)].name if by_place else f"argument {place}"

    # --- as this room asks ------------------------------------------------------------------------

    def ask(self, form: Form, *, copied: bool = True) -> Outcome:
        """Call with fresh copies, so that what one call changes does not reach the next."""
        of = _copy if copied else (lambda value: value)
        named = {name: of(value) for name, value in form.named.items()}
        outcome = self.caller(*map(of, form.arguments), **named)
        if isinstance(outcome.value, Tensor) and type(outcome.value) is not Tensor:
            with torch._C.DisableTorchFunctionSubclass():  # it may answer questions in its own way
                outcome.value = call(outcome.value.as_subclass, Tensor).value
        return outcome

    def values(self, form: Form | None) -> Tensor | None:
        """Return the result in float64, or None without a finding if there is none."""
        return None if form is None else numbers(self.ask(form).value)

    def explain(self, outcome: Outcome, form: Form) -> None:
        """Report what an outcome without a usable tensor is; ``examine_watch`` tells of a hang."""
        asked, found, value = f"{self.who}({form})", self.results.found, outcome.value
        if self.caller.out_of_time:
            return
        if outcome.error is not None and any(e in outcome.message for e in VIEW_ERRORS):
            sentence = f"{asked} views a tensor whose memory is in another order"
            found("contiguity", f"{sentence}: {outcome.trouble}.")
        elif outcome.error is not None and not self.sure:
            self.unknown(f"{asked} raises {outcome.trouble}.", call=asked)
        elif outcome.error is not None:
            found("raises", f"{asked} raises {outcome.trouble}.")
        elif value is None:
            found("not-done", f"{asked} returns None: there is nothing to look at yet.")
        elif isinstance(value, Tensor):
            found("wrong-type", f"{asked} returns a tensor of no few plain numbers.")
        else:
            found("wrong-type", f"{asked} returns {a(type(value).__name__)}, no tensor.")

    def lacks(self, strange: Collection[str]) -> bool:
        """Report required arguments of which nobody knows what they should be, if there are any."""
        if strange:
            self.unknown(f"What {' and '.join(strange)} should be is not known.", strange)
        return bool(strange)

    def unknown(self, why: str, strange: Collection[str] = (), call: str = "") -> None:
        """Report that nobody knows how to call it: what its ``strange`` arguments should be."""
        needed = self.needed or ["x"]
        inside = ", ".join(f"{name}=..." if name in strange else name for name in needed)
        given = ", ".join(["f", *(name for name in needed if name not in strange)])
        usual = f"Pass call=lambda {given}: f({inside}) with values that make sense."
        remedy = usual if strange else self.remedy or usual
        self.results.unexamined(why, call=call, remedy=remedy)


def numbers(value: object) -> Tensor | None:
    """Return a detached float64 copy of a tensor, or of a list of equal tensors; else None."""
    value = _stacked(value)
    if not isinstance(value, Tensor) or not call(lambda: _is_small_and_plain(value)).value:
        return None
    return call(lambda: value.detach().as_subclass(Tensor).to(torch.float64).clone()).value


def _is_small_and_plain(value: Tensor) -> bool:
    usable = value.device.type != "meta" and value.layout is torch.strided
    return usable and not value.is_complex() and not value.is_nested and value.numel() <= MOST


def shape(tensor: Tensor) -> str:
    """Return the shape as it is written in a sentence."""
    return str(tuple(tensor.shape))


def table(
    caption: str, values: Tensor, rows: str, columns: str, *, shaded: bool = False
) -> Evidence:
    """Return the first rows and columns of a matrix as evidence."""
    shown = values[:MOST_SHOWN, :MOST_SHOWN].double()
    names = [
        tuple(f"{word} {i}" for i in range(size))
        for word, size in zip((rows, columns), shown.shape, strict=True)
    ]
    return Evidence(caption, shown, *names, shaded=shaded)


def _stacked(value: object) -> object:
    """Return a list or tuple of tensors of one shape as one tensor, everything else as it is."""
    listed = isinstance(value, (list, tuple)) and 1 < len(value) <= 64
    if not listed or not all(isinstance(one, Tensor) for one in value):
        return value
    small = call(lambda: sum(one.numel() for one in value) <= MOST).value is True
    made = call(lambda: torch.stack(tuple(value))).value if small else None
    return made if isinstance(made, Tensor) else value


def _copy(value: object) -> object:
    if isinstance(value, list):
        return list(value)
    return value.clone() if isinstance(value, Tensor) else value


def _told(value: object) -> str:
    if isinstance(value, Tensor):
        whole = value.ndim <= 1 and value.numel() <= 4 and not value.is_floating_point()
        return f"tensor({value.tolist()})" if whole else f"tensor {shape(value)}"
    text = repr(value)
    return text if len(text) < 40 else a(type(value).__name__)
