"""What a catalogue entry is, and the two decorators that make one."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import NamedTuple


class Case(NamedTuple):
    """One implementation, broken or right.

    Attributes
    ----------
    name : str
        Of the function or class.
    target : callable or type
        The implementation as it is written in the catalogue.
    cause : str or None
        Name of the finding that ``diagnose`` must put first; None for a right one.
    misconception : str
        ``"M1"`` to ``"M15"`` of the series, or a few words of its own.
    met : str
        Where learners met it.
    arguments : dict
        For a class: what it is made with.
    options : dict
        For ``diagnose``.
    """

    name: str
    target: Callable
    cause: str | None
    misconception: str
    met: str
    arguments: dict[str, object]
    options: dict[str, object]

    def make(self) -> object:
        """Return what ``diagnose`` looks at: the function, a new module, or a pair (split, merge).

        Returns
        -------
        callable or tuple of callable
            A class with ``split`` and ``merge`` gives the pair.
        """
        if not inspect.isclass(self.target):
            return self.target
        if hasattr(self.target, "split"):
            return self.target.split, self.target.merge
        return self.target(**self.arguments)

    def source(self) -> str:
        """Return the code of the implementation, without its decorator.

        Returns
        -------
        str
            Python source.
        """
        source = textwrap.dedent(inspect.getsource(self.target))
        start = next(
            number
            for number, line in enumerate(source.splitlines())
            if line.startswith(("def ", "class "))
        )
        return "\n".join(source.splitlines()[start:])


CASES: list[Case] = []


def broken(
    cause: str,
    *,
    misconception: str,
    met: str,
    arguments: dict[str, object] | None = None,
    **options: object,
) -> Callable[[Callable], Callable]:
    """Return a decorator that puts a broken implementation into the catalogue.

    Parameters
    ----------
    cause : str
        Name of the finding that ``diagnose`` must put first.
    misconception : str
        ``"M1"`` to ``"M15"`` of the series, or a few words of its own.
    met : str
        Where learners met it.
    arguments : dict, optional
        What a class is made with.
    **options
        For ``diagnose``.

    Returns
    -------
    callable
        The decorator; it returns what it decorates, unchanged.
    """

    def note(target: Callable) -> Callable:
        CASES.append(
            Case(target.__name__, target, cause, misconception, met, arguments or {}, options)
        )
        return target

    return note


def right(
    *, arguments: dict[str, object] | None = None, **options: object
) -> Callable[[Callable], Callable]:
    """Return a decorator that puts a right implementation into the catalogue.

    Parameters
    ----------
    arguments : dict, optional
        What a class is made with.
    **options
        For ``diagnose``.

    Returns
    -------
    callable
        The decorator; it returns what it decorates, unchanged.
    """

    def note(target: Callable) -> Callable:
        CASES.append(Case(target.__name__, target, None, "", "", arguments or {}, options))
        return target

    return note
