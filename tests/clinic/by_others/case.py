"""What an entry is, and the decorator that adds entries."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping

import torch


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One implementation as somebody else would write it.

    Attributes
    ----------
    name : str
        For the name of its tests.
    target : callable or type
        The code: a function or a class.
    cause : tuple of str
        Names that ``diagnose`` may put first; empty for correct code.
    make : callable, optional
        Makes what is examined from ``target``, by default a layer of 24 features and 3 heads.
    options : dict
        For ``diagnose``: what a reader of its docstring passes at the second attempt.
    """

    name: str
    target: Callable
    cause: tuple[str, ...]
    make: Callable | None
    options: Mapping[str, object]

    def build(self) -> object:
        """Return what is examined, always with the same weights."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            if self.make:
                return self.make(self.target)
            return self.target(24, 3) if inspect.isclass(self.target) else self.target


CASES: list[Case] = []


def foreign(
    name: str, *, cause: tuple[str, ...] = (), make: Callable | None = None, **options: object
) -> Callable[[Callable], Callable]:
    """Add an implementation, correct if it has no cause; see ``Case``."""
    return lambda target: CASES.append(Case(name, target, cause, make, options)) or target
