"""What an entry of the panel is, and the decorators that add entries."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


@dataclasses.dataclass(frozen=True)
class Call:
    """The arguments of a call."""

    args: tuple
    named: dict[str, Any]

    def of(self, target: Callable, *before: object) -> object:
        return target(*before, *self.args, **self.named)


def given(*args: object, **named: object) -> Call:
    return Call(args, named)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One implementation as somebody else would write it.

    Attributes
    ----------
    name, family : str
        Its name in the panel, and that of the few cases which do the same in another way.
    target : callable or type
        The code: a function or a class.
    beside : tuple of callable or type
        Other code that it is made of.
    cause : tuple of str
        Names that ``diagnose`` may put first; empty for correct code.
    make : callable
        Makes what is examined from ``target``.
    sample : callable, optional
        Returns the arguments of a call that shows every part of the code at work.
    expected : callable, optional
        Computes what that call must give, in another way. It gets the arguments of the call and,
        before them, the object if ``target`` is a class.
    options : dict
        For ``diagnose``: what a reader of its docstring passes at the second attempt.
    convention : bool
        Whether it cannot be judged without these options.
    tolerance : float
        How far the sample may be from what is expected.
    double : bool
        Whether a layer is made float64 for its sample.
    spared : tuple of str
        Kinds of injected bugs that are none here.
    """

    name: str
    family: str
    target: Callable
    beside: tuple[Callable, ...] = ()
    cause: tuple[str, ...] = ()
    make: Callable | None = None
    sample: Callable[[], Call] | None = None
    expected: Callable | None = None
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)
    convention: bool = False
    tolerance: float = 1e-9
    double: bool = True
    spared: tuple[str, ...] = ()

    def build(self, target: Callable | None = None) -> Any:
        """Return what is examined, always with the same weights; ``target``: changed code."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            target = target or self.target
            return self.make(target) if self.make else target

    def output(self, target: Callable | None = None) -> Tensor:
        """Return the output of the sample call, by the original or by changed code."""
        return tensor_of(self.sample().of(self.ready(target)))

    def right_output(self) -> Tensor:
        """Return what the sample call must give."""
        before = (self.ready(),) if inspect.isclass(self.target) else ()
        return self.sample().of(self.expected, *before)

    def ready(self, target: Callable | None = None) -> Callable:
        """Return what is examined, in eval mode and ready for the sample."""
        built = self.build(target)
        if isinstance(built, nn.Module):
            built = (built.double() if self.double else built).eval()
        return built


def scripted(code: Callable) -> Callable:
    """Return what TorchScript makes of a function or a layer; torch would rather have it gone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(code)


def tensor_of(result: object) -> Tensor:
    """Return the output among the results of a call: the first tensor."""
    if isinstance(result, Tensor):
        return result
    if isinstance(result, Mapping):
        return tensor_of(next(iter(result.values())))
    if dataclasses.is_dataclass(result):
        return tensor_of(getattr(result, dataclasses.fields(result)[0].name))
    return tensor_of(result[0])


CASES: list[Case] = []
BUILDERS: list[Case] = []
WRONG: list[Case] = []


def _adds_to(cases: list[Case]) -> Callable:
    def declare(name: str, family: str, **how: Any) -> Callable[[Callable], Callable]:
        def add(target: Callable) -> Callable:
            cases.append(Case(name, family, target, **how))
            return target

        return add

    return declare


foreign = _adds_to(CASES)  # correct functions and layers
builder = _adds_to(BUILDERS)  # correct functions that build masks
wrong = _adds_to(WRONG)  # wrong functions and layers
