"""Call a small function, and say in words what came back instead of a tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._calling import Caller, Outcome, OutOfTime, call, name_of, parameters
from attnlab.clinic._damage import damage
from attnlab.clinic._results import Options, Results

MOST = 10**6  # numbers that a result of the clinic's small inputs may have
VIEW_ERRORS = ("view size is not compatible", "contiguous")


class Form(NamedTuple):
    """One way to call a function: its arguments in front and its named ones."""

    arguments: tuple
    named: dict[str, object]

    def __str__(self) -> str:
        named = [f"{name}={_told(value)}" for name, value in self.named.items()]
        return ", ".join([*map(_told, self.arguments), *named])


class Subject:
    """A function under examination: every call goes through here, on copies of the inputs.

    Parameters
    ----------
    function : callable
        The code under examination.
    role : str
        How the sentences call it, such as ``"split"``.
    options : Options
        ``options.call`` is called as ``call(function, ...)`` if given.
    results : Results
        Where findings go.
    """

    def __init__(self, function: Callable, role: str, options: Options, results: Results) -> None:
        self.role = role
        self.results = results
        self.name = name_of(function)
        adapter = options.call
        known = parameters(adapter or function)
        if known and any(one.kind is one.VAR_POSITIONAL for one in known):
            known = None  # *args do not say how many it takes
        self.parameters = known[1:] if known and adapter is not None else known  # without itself
        asked = function if adapter is None else lambda *a, **k: adapter(function, *a, **k)
        self.caller = Caller(asked, options.time_limit)

    def ask(self, form: Form) -> Outcome:
        """Call with fresh copies, so that what one call changes does not reach the next."""
        named = {name: _copy(value) for name, value in form.named.items()}
        outcome = self.caller(*map(_copy, form.arguments), **named)
        outcome.value = _plain_tensor(outcome.value)
        return outcome

    def values(self, form: Form) -> Tensor | None:
        """Return the result in float64, or None without a finding if there is none."""
        return numbers(self.ask(form).value)

    def tensor(self, form: Form) -> Tensor | None:
        """Return the result in float64; if there is none, report why."""
        outcome = self.ask(form)
        result = numbers(outcome.value)
        if result is None:
            self.explain(outcome, form)
        return result

    def explain(self, outcome: Outcome, form: Form) -> None:
        """Report what an outcome without a usable tensor is."""
        asked = f"{self.role}({form})"
        if isinstance(outcome.error, OutOfTime):
            limit = self.caller.time_limit
            self.results.found("hangs", f"{asked} gives no answer within {limit:g} seconds.")
        elif outcome.error is not None and any(e in outcome.message for e in VIEW_ERRORS):
            sentence = f"{asked} views a tensor whose memory is in another order"
            self.results.found("contiguity", f"{sentence}: {outcome.trouble}")
        elif outcome.error is not None:
            self.results.found("raises", f"{asked} raises {outcome.trouble}")
        elif outcome.value is None:
            self.results.found(
                "not-done", f"{asked} returns None: there is nothing to look at yet."
            )
        elif isinstance(outcome.value, Tensor):
            self.results.found("wrong-type", f"{asked} returns {kind_of_tensor(outcome.value)}.")
        else:
            kind = type(outcome.value).__name__
            article = "an" if kind[:1].lower() in "aeiou" else "a"
            self.results.found("wrong-type", f"{asked} returns {article} {kind}, not a tensor.")

    def see_noise(self, form: Form, first: Tensor) -> bool:
        """Report whether the same call gives another result; return whether it does not."""
        again = self.values(form)
        if again is None:
            self.results.found("random", f"{self.role} answers once and then no more.")
        elif not same(first, again):
            change = _distance(first, again)
            sentence = f"{self.role} gives two results for the same input: {change}."
            self.results.found("random", sentence)
        else:
            self.results.held("steady", f"{self.role} gives the same result for the same input")
            return True
        return False

    def see_behaviour(self) -> None:
        """Report what was printed and which arguments were changed by all calls so far."""
        if self.caller.printed.strip():
            first = self.caller.printed.strip().splitlines()[0][:60]
            self.results.found("prints", f"{self.role} prints at every call: {first!r}.")
        if self.caller.changed:
            sentence = f"{self.role} changes the tensor that it is given, in place."
            self.results.found("modifies-input", sentence, damage(self.caller))
        else:
            self.results.held("arguments", f"{self.role} leaves its input as it is")

    def see_memory(self, turned: Form, expected: Tensor) -> None:
        """Report whether the order of the numbers in memory matters."""
        outcome = self.ask(turned)
        result = numbers(outcome.value)
        if outcome.error is not None and not isinstance(outcome.error, OutOfTime):
            sentence = f"{self.role} fails on a tensor that is not contiguous: {outcome.trouble}"
            self.results.found("contiguity", sentence)
        elif result is None or not same(result, expected):
            sentence = "gives another result when the same numbers are stored in another order"
            self.results.found("contiguity", f"{self.role} {sentence}.")
        else:
            self.results.held("contiguity", f"{self.role} takes tensors that are not contiguous")

    def see_dtype(self, form: Form, dtype: torch.dtype) -> None:
        """Report whether the result keeps the dtype of the input."""
        value = _stacked(self.ask(form).value)
        if isinstance(value, Tensor) and value.dtype != dtype:
            sentence = f"{self.role} is given {dtype} and returns {value.dtype}."
            self.results.found("dtype", sentence)
        elif isinstance(value, Tensor):
            self.results.held("dtype", f"{self.role} keeps the dtype of its input")

    def see_gradient(
        self, form: Form, x: Tensor, weights: Tensor, wanted: Tensor | None = None
    ) -> None:
        """Check that the result depends on x for autograd, and how if ``wanted`` is given."""
        leaf = x.clone().requires_grad_()
        named = {name: leaf if value is x else value for name, value in form.named.items()}
        outcome = self.caller(*[leaf if v is x else v for v in form.arguments], **named)
        value = _stacked(_plain_tensor(outcome.value))
        ready = isinstance(value, Tensor) and value.requires_grad and value.shape == weights.shape
        total = call(lambda: torch.autograd.grad((value * weights).sum(), leaf)[0])
        given = numbers(total.value) if ready else None
        if given is None:
            trouble = f": {outcome.trouble}" if outcome.trouble else "."
            sentence = f"the result of {self.role} does not depend on its input for autograd"
            self.results.found("detached", f"{sentence[0].upper()}{sentence[1:]}{trouble}")
        elif wanted is not None and not same(given, wanted, atol=1e-4):
            apart = (given - wanted).abs().nan_to_num().max().item()
            sentence = f"The gradient of {self.role} is off by up to {apart:.3g}"
            self.results.found("detached", f"{sentence}: a part of it is cut off.")
        else:
            self.results.held("gradients", f"gradients flow through {self.role}")


def fit(
    parameters: Sequence[inspect.Parameter] | None,
    known: Mapping[str, object],
    spare: Sequence[object],
) -> Form | None:
    """Return a call that gives parameters their values by name, and the others the spare ones.

    Parameters
    ----------
    parameters : sequence of Parameter or None
        Of the function; None if they are unknown.
    known : mapping from str to object
        Values by plain name: small letters, no underscores.
    spare : sequence
        For required parameters whose name says nothing, in this order.

    Returns
    -------
    Form or None
        None if there is a required parameter too many.
    """
    rest = list(spare)
    if not parameters:  # a function without any is given one, to hear what it says
        return Form(tuple(rest if parameters is None else rest[:1]), {})
    arguments, named, in_front = [], {}, True
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        in_front = in_front and parameter.kind is not parameter.KEYWORD_ONLY
        plain = plain_name(parameter.name)
        if plain in known:
            value = known[plain]
        elif parameter.default is not parameter.empty:
            in_front = False
            continue
        elif rest:
            value = rest.pop(0)
        else:
            return None
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
    if not isinstance(value, Tensor):
        return None
    if call(lambda: _is_small_and_plain(value)).value is not True:
        return None
    made = call(lambda: value.detach().as_subclass(Tensor).to(torch.float64).clone())
    return made.value if isinstance(made.value, Tensor) else None


def _is_small_and_plain(value: Tensor) -> bool:
    usable = value.device.type != "meta" and value.layout is torch.strided
    return usable and not value.is_complex() and not value.is_nested and value.numel() <= MOST


def same(one: Tensor, other: Tensor, atol: float = 1e-5) -> bool:
    """Return whether two results agree, NaN with NaN."""
    return one.shape == other.shape and torch.allclose(
        one.double(), other.double(), rtol=1e-5, atol=atol, equal_nan=True
    )


def shape(tensor: Tensor) -> str:
    """Return the shape as it is written in a sentence."""
    return str(tuple(tensor.shape))


def kind_of_tensor(value: Tensor) -> str:
    """Return what keeps a tensor from being looked at."""
    if value.numel() > MOST:
        return f"a tensor of shape {shape(value)}, which is too large"
    if value.device.type == "meta":
        return "a tensor on the meta device, which has no numbers"
    return f"a {value.dtype} tensor, {str(value.layout).removeprefix('torch.')}"


def _plain_tensor(value: object) -> object:
    """Return a subclass of Tensor, which may answer questions in its own way, as a Tensor."""
    if not isinstance(value, Tensor) or type(value) is Tensor:
        return value
    with torch._C.DisableTorchFunctionSubclass():
        made = call(lambda: value.as_subclass(Tensor))
    return made.value if made.error is None else None


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


def _distance(one: Tensor, other: Tensor) -> str:
    if one.shape != other.shape:
        return f"shapes {shape(one)} and {shape(other)}"
    return f"they differ by up to {(one - other).abs().nan_to_num().max().item():.3g}"


def _told(value: object) -> str:
    if isinstance(value, Tensor):
        if value.ndim <= 1 and value.numel() <= 4 and not value.is_floating_point():
            return f"tensor({value.tolist()})"
        return f"tensor {shape(value)}"
    text = repr(value)
    return text if len(text) < 40 else f"a {type(value).__name__}"
