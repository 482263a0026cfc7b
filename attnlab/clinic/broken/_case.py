"""What an entry of the catalogue is, and the two decorators that add entries."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import NamedTuple

from attnlab.clinic.broken._templates import Steps, kind_of

STEPS = {"split", "merge", "score", "hide", "soft", "attend", "forward"}


class Case(NamedTuple):
    """One implementation, broken or correct.

    Attributes
    ----------
    name : str
        Unique in the catalogue: ``"unscaled"``, or ``"Layer.unscaled"`` for a step in a template.
    target : callable or type
        The code as it is written in the catalogue: a whole implementation, or some of its steps.
    cause : str or None
        Name of the finding that ``diagnose`` must put first; None for a correct one.
    kind : {"function", "layer", "pair", "split", "merge", "builder", "softmax"}
        What ``make`` returns.
    arguments : dict
        What a layer is made with.
    options : dict
        For ``diagnose``.
    template : callable or type, optional
        The correct code whose steps ``target`` replaces; None for a whole implementation.
    steps : dict
        The replaced steps by name: split, merge, score, hide, soft, attend, or a layer's forward.
    """

    name: str
    target: Callable
    cause: str | None
    kind: str
    arguments: dict[str, object]
    options: dict[str, object]
    template: Callable | None = None
    steps: dict[str, Callable] = {}  # noqa: RUF012  (never changed)

    def make(self) -> object:
        """Return what ``diagnose`` looks at: a function, a new layer, or a pair (split, merge).

        Returns
        -------
        callable or tuple of callable
            In its initial state: what one call leaves behind is not in the next one made.
        """
        if self.template is not None:
            if not inspect.isclass(self.template):
                return self.template(type("Changed", (Steps,), self.steps)())
            steps = {**self.steps, "__module__": self.template.__module__}
            return type(self.template.__name__, (self.template,), steps)(**self.arguments)
        return self.target(**self.arguments) if inspect.isclass(self.target) else self.target

    def source(self) -> str:
        """Return the code, without decorators; a step is followed by the template that uses it.

        Returns
        -------
        str
            Python source.
        """
        parts = [self.target] if self.template is None else [self.target, self.template]
        return "\n\n\n".join(_source(part) for part in parts)


CASES: list[Case] = []


def broken(
    cause: str | None,
    *templates: Callable,
    step: str | None = None,
    kind: str | None = None,
    name: str | None = None,
    arguments: dict[str, object] | None = None,
    **options: object,
) -> Callable[[Callable], Callable]:
    """Return a decorator that adds entries and leaves what it decorates as it is.

    Without templates this is a whole implementation, by default a function or a layer. With
    templates there is an entry for each of them: a function replaces the named ``step`` of it, a
    class all steps that it defines. ``options`` are for ``diagnose``; the other parameters are
    explained by ``Case``.
    """

    def add(target: Callable) -> Callable:
        own, made_with = name or target.__name__, arguments or {}
        whole = kind or ("layer" if inspect.isclass(target) else "function")
        steps = (
            {step: target} if step else {n: getattr(target, n) for n in STEPS & vars(target).keys()}
        )
        if not templates:
            CASES.append(Case(own, target, cause, whole, made_with, options))
        for template in templates:
            full, kind_of_it = f"{template.__name__}.{own}", kind_of(template)
            CASES.append(Case(full, target, cause, kind_of_it, made_with, options, template, steps))
        return target

    return add


def correct(*templates: Callable, **how: object) -> Callable[[Callable], Callable]:
    """Return the same decorator for correct code."""
    return broken(None, *templates, **how)


def _source(code: Callable) -> str:
    lines = textwrap.dedent(inspect.getsource(code)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(("def ", "class ")))
    return "\n".join(lines[start:])
