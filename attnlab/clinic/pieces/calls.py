"""How a piece of attention is called: its arguments, and what came back instead of a tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic import behaviour
from attnlab.clinic._calling import Caller, Outcome, OutOfTime, a, call, name_of, parameters
from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Options, Results

MOST = 10**6  # numbers that a result of the clinic's small inputs may have
MOST_SHOWN = 7  # rows and columns of a table
SAYS_BLOCKED = (
    "It says itself that True means blocked, as in nn.MultiheadAttention, and was examined as with "
    'mask="blocked".'
)
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

    Attributes
    ----------
    who : str
        How the sentences call it; its own name if not given.
    way : callable
        Returns the call of these inputs, a ``Form``.
    draw : callable
        Returns the inputs for a seed.
    sure : bool
        Whether it is known what its arguments mean: an error is then its own.
    """

    def __init__(
        self, function: Callable, options: Options, results: Results, who: str = ""
    ) -> None:
        self.name, self.results = name_of(function), results
        self.who = who or (self.name if self.name.isidentifier() else "the function")
        adapter = options.call
        known = parameters(adapter or function)
        if known and any(one.kind is one.VAR_POSITIONAL for one in known):
            known = None  # *args do not say how many it takes
        self.parameters = known[1:] if known and adapter is not None else known  # without itself
        asked = function if adapter is None else lambda *a, **k: adapter(function, *a, **k)
        self.caller = Caller(asked, options.time_limit)
        self.sure = True
        self.way: Callable[[dict[str, Tensor]], Form | None] = lambda _: None
        self.draw: Callable[[int], dict[str, Tensor]] = lambda _: {}

    def needed(self) -> list[str]:
        """Return the names of the arguments that it requires."""
        several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        known = [one for one in self.parameters or [] if one.kind not in several]
        return [one.name for one in known if one.default is one.empty]

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
        if not place.isdigit() or not self.parameters or int(place) >= len(self.parameters):
            return f"argument {place}"
        return self.parameters[int(place)].name

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

    def tensor(self, form: Form) -> Tensor | None:
        """Return the result in float64; if there is none, report why."""
        outcome = self.ask(form)
        result = numbers(outcome.value)
        if result is None:
            self.explain(outcome, form)
        return result

    def explain(self, outcome: Outcome, form: Form) -> None:
        """Report what an outcome without a usable tensor is."""
        asked, found, value = f"{self.who}({form})", self.results.found, outcome.value
        if isinstance(outcome.error, OutOfTime):
            found("hangs", f"{asked} gives no answer within {behaviour.late(self.caller)}.")
        elif outcome.error is not None and any(e in outcome.message for e in VIEW_ERRORS):
            sentence = f"{asked} views a tensor whose memory is in another order"
            found("contiguity", f"{sentence}: {outcome.trouble}.")
        elif outcome.error is not None and not self.sure:
            self.unknown(asked, f"{asked} raises {outcome.trouble}.")
        elif outcome.error is not None:
            found("raises", f"{asked} raises {outcome.trouble}.")
        elif value is None:
            found("not-done", f"{asked} returns None: there is nothing to look at yet.")
        elif isinstance(value, Tensor):
            layout = str(value.layout).removeprefix("torch.")
            what = f"a {value.dtype} tensor of shape {shape(value)}, {layout}, on {value.device}"
            found("wrong-type", f"{asked} returns {what}: no few plain numbers.")
        else:
            found("wrong-type", f"{asked} returns {a(type(value).__name__)}, no tensor.")

    def unknown(self, asked: str, why: str, strange: Collection[str] = ()) -> None:
        """Report that nobody knows how to call it: what its ``strange`` arguments should be."""
        needed = self.needed() or ["x"]
        inside = ", ".join(f"{name}=..." if name in strange else name for name in needed)
        given = ", ".join(["f", *(name for name in needed if name not in strange)])
        remedy = f"Pass call=lambda {given}: f({inside}) with values that make sense."
        self.results.unexamined(why, call=asked, remedy=remedy)


def fit(
    parameters: Sequence[inspect.Parameter] | None,
    known: Mapping[str, object],
    spare: Sequence[object],
) -> Form | None:
    """Return a call that gives parameters their values by name, and the others the spare ones.

    ``known`` has plain names, as ``plain_name`` makes them. None where a required one is left.
    """
    rest = list(spare)
    if not parameters:  # a function without any is given one, to hear what it says
        return Form(tuple(rest if parameters is None else rest[:1]), {})
    arguments, named, in_front = [], {}, True
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        plain = plain_name(parameter.name)
        in_front = in_front and parameter.kind is not parameter.KEYWORD_ONLY
        if plain not in known and parameter.default is not parameter.empty:
            in_front = False
            continue
        if plain not in known and not rest:
            return None
        value = known[plain] if plain in known else rest.pop(0)
        if in_front:
            arguments.append(value)
        else:
            named[parameter.name] = value
    return Form(tuple(arguments), named)


def plain_name(name: str) -> str:
    """Return a name in small letters without underscores."""
    return name.lower().replace("_", "")


def numbers(value: object) -> Tensor | None:
    """Return a detached float64 copy of a tensor, or of a list of equal tensors; else None."""
    value = _stacked(value)
    if not isinstance(value, Tensor) or not call(lambda: _is_small_and_plain(value)).value:
        return None
    return call(lambda: value.detach().as_subclass(Tensor).to(torch.float64).clone()).value


def _is_small_and_plain(value: Tensor) -> bool:
    usable = value.device.type != "meta" and value.layout is torch.strided
    return usable and not value.is_complex() and not value.is_nested and value.numel() <= MOST


def same(one: Tensor, other: Tensor) -> bool:
    """Return whether two results agree, NaN with NaN."""
    return one.shape == other.shape and torch.allclose(
        one.double(), other.double(), rtol=1e-5, atol=1e-5, equal_nan=True
    )


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
