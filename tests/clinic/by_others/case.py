"""What an entry of the panel is, and the decorator that adds entries."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tests.clinic.by_others.plain import attend


@dataclasses.dataclass(frozen=True)
class Call:
    """The arguments of a call."""

    args: tuple
    named: dict[str, Any]

    def of(self, target: Callable, *before: object) -> object:
        """Return what the call gives; the arguments themselves stay as they are."""
        args, named = copy.deepcopy((self.args, self.named))
        return target(*before, *args, **named)


def given(*args: object, **named: object) -> Call:
    return Call(args, named)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One implementation as somebody else would write it.

    Attributes
    ----------
    name : str
        Its name in the panel.
    target : callable or type
        The code: a function or a class.
    sample : Call
        A call that shows every part of the code at work.
    expected : callable
        Computes what that call must give, in another way. It gets the arguments of the call and,
        before them, the object if ``target`` is a class.
    cause : tuple of str
        Names that ``diagnose`` may put first; empty for correct code.
    make : callable, optional
        Makes what is examined from ``target``, by default a layer of 24 features and 3 heads.
    beside : tuple of callable or type
        Other code that it is made of.
    tolerance : float
        How far the sample may be from what is expected.
    options : dict
        For ``diagnose``: what a reader of its docstring passes at the second attempt.
    """

    name: str
    target: Callable
    sample: Call
    expected: Callable = attend
    cause: tuple[str, ...] = ()
    make: Callable | None = None
    beside: tuple[Callable, ...] = ()
    tolerance: float = 1e-9
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def build(self, target: Callable | None = None) -> Any:
        """Return what is examined, always with the same weights; ``target``: changed code."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            target = target or self.target
            if self.make:
                return self.make(target)
            return target(24, 3) if inspect.isclass(target) else target

    def output(self, target: Callable | None = None) -> Tensor:
        """Return the output of the sample call, by the original or by changed code."""
        return tensor_of(self.sample.of(self.ready(target))).detach()

    def right_output(self) -> Tensor:
        """Return what the sample call must give."""
        before = (self.ready(),) if inspect.isclass(self.target) else ()
        return self.sample.of(self.expected, *before).detach()

    def ready(self, target: Callable | None = None) -> Callable:
        """Return what is examined, in eval mode and ready for the sample."""
        built = self.build(target)
        if isinstance(built, nn.Module):
            dtypes = {part.dtype for part in built.parameters()}
            built = (built if torch.bfloat16 in dtypes else built.double()).eval()
        return built


def tensor_of(result: object) -> Tensor:
    """Return the output among the results of a call: the first tensor."""
    while not isinstance(result, Tensor):
        result = next(iter(result.values() if isinstance(result, Mapping) else result))
    return result


CASES: list[Case] = []


def foreign(
    name: str,
    sample: Call,
    expected: Callable = attend,
    *,
    cause: tuple[str, ...] = (),
    make: Callable | None = None,
    beside: tuple[Callable, ...] = (),
    tolerance: float = 1e-9,
    **options: object,
) -> Callable[[Callable], Callable]:
    """Add an implementation to the panel, correct if it has no cause; see ``Case``."""

    def add(target: Callable) -> Callable:
        CASES.append(Case(name, target, sample, expected, cause, make, beside, tolerance, options))
        return target

    return add
