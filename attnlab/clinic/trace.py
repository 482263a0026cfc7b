"""Follow a layer by what torch computes: every product, and what lies between two of them.

A forward pass is recorded operation by operation, so it does not matter how a layer names or stores
its parameters. Attention is a product of two things that come from the input (the scores), and a
second product of what became of them (the weights) with a third (the values). To learn what lies
between the two, the pass is made again with other numbers in the place of the first product.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = {"bmm": 0, "mm": 0, "baddbmm": 1, "addmm": 1}  # the place of the first factor
NORMS = ("norm", "rsqrt", "layer_norm", "var", "std")  # parts of the names of what normalises
MOST = 20_000  # operations of a pass: more are those of a whole model or of a loop


class TooLong(Exception):
    """The pass has too many operations to be followed."""


@dataclass
class Step:
    """One operation: its name, the steps that its tensors come from, and its factors, if any."""

    name: str
    sources: tuple[int, ...]
    factors: tuple[tuple[Tensor, int], ...] = ()  # of a product: the numbers and their step
    result: Tensor | None = None  # of a product
    number: float = 1.0  # by which it multiplies everything, where it does only that
    learned: bool = False  # whether a parameter takes part


@dataclass
class Trace:
    """What one forward pass computed."""

    steps: list[Step] = field(default_factory=list)
    given: frozenset[int] = frozenset()  # the steps (below 0) that stand for the arguments
    reply: object = None  # what came back
    single: bool = False  # a float64 pass computed something in float32

    def comes_from(self, step: int) -> set[int]:
        """Return every step that this one needs."""
        return self._behind([step], lambda _: False)

    def products_behind(self, step: int, products: set[int]) -> set[int]:
        """Return the nearest of these products that a step needs."""
        return self._behind([step], products.__contains__) & products

    def _behind(self, start: Iterable[int], closed: Callable[[int], bool]) -> set[int]:
        seen: set[int] = set()
        left = list(start)
        while left:
            step = left.pop()
            if step not in seen:
                seen.add(step)
                if step >= 0 and not closed(step):
                    left.extend(self.steps[step].sources)
        return seen


class _Recorder(TorchDispatchMode):
    """Write down every operation, and put other numbers in the place of some results."""

    def __init__(self, arguments: Iterable[Tensor], instead: dict[int, Callable]) -> None:
        super().__init__()
        self.trace, self.instead = Trace(), instead
        self.kept: list[Tensor] = list(arguments)  # so that no id is given twice
        self.made_by = {id(tensor): -1 - place for place, tensor in enumerate(self.kept)}
        self.trace.given = frozenset(self.made_by.values())
        self.written: dict[int, list[int]] = {}  # a storage: the steps that changed it in place

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and loading the compiler takes a second

    def __torch_dispatch__(self, operation, _types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = operation.overloadpacket.__name__
        tensors = [*_tensors(args), *_tensors(kwargs.values())]
        number = len(self.trace.steps)
        if number > MOST:
            raise TooLong
        step = Step(name, tuple(s for tensor in tensors for s in self._sources(tensor)))
        if name in PRODUCTS:
            pair = args[PRODUCTS[name] : PRODUCTS[name] + 2]
            step.factors = tuple((part.detach().clone(), self._own(part)) for part in pair)
        step.number = _number(name, args)
        step.learned = any(isinstance(tensor, nn.Parameter) for tensor in tensors)
        result = operation(*args, **kwargs)
        if number in self.instead and isinstance(result, Tensor):
            with contextlib.suppress(RuntimeError):
                result.copy_(self.instead[number](result))
        self.trace.steps.append(step)
        if step.factors:
            step.result = result.detach().clone()
        self._note_results(operation, args, result, number)
        made = [tensor.dtype for tensor in _tensors([result])]
        if torch.float32 in made and any(tensor.dtype == torch.float64 for tensor in tensors):
            self.trace.single = True
        return result

    def _own(self, tensor: Tensor) -> int | None:
        """Return the step that made a tensor or changed it last; None for a parameter."""
        return max(self._sources(tensor), default=None)

    def _sources(self, tensor: Tensor) -> list[int]:
        made = self.made_by.get(id(tensor))
        changed = [
            step for step in self.written.get(_storage(tensor), ()) if made is None or step > made
        ]
        return changed if made is None else [made, *changed]

    def _note_results(self, operation, args: tuple, result: object, number: int) -> None:
        for tensor in _tensors(result if isinstance(result, (list, tuple)) else (result,)):
            self.made_by[id(tensor)] = number
            self.kept.append(tensor)
        for place, argument in enumerate(operation._schema.arguments):
            changes = argument.alias_info is not None and argument.alias_info.is_write
            if changes and place < len(args) and isinstance(args[place], Tensor):
                self.written.setdefault(_storage(args[place]), []).append(number)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _tensors(values: Iterable[object]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _number(name: str, args: tuple) -> float:
    """Return the number by which an operation multiplies all that it gets."""
    if name not in ("mul", "div", "mul_", "div_") or len(args) < 2:
        return 1.0
    other = args[1]
    if isinstance(other, Tensor):
        if other.numel() != 1 or other.is_meta:
            return 1.0
        other = other.item()
    return float(other) if name.startswith("mul") else 1 / float(other) if other else 1.0


@contextlib.contextmanager
def recorded(
    arguments: Iterable[Tensor], instead: dict[int, Callable[[Tensor], Tensor]] | None = None
) -> Iterator[Trace]:
    """Record what is computed from these very tensors; the trace is complete when the block ends.

    ``instead`` says what to put in the place of the results of some steps, by their numbers.
    """
    recorder = _Recorder(arguments, instead or {})
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one operation, which shows nothing
    try:
        with sdpa_kernel(SDPBackend.MATH), recorder:
            yield recorder.trace
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


class Core(NamedTuple):
    """One attention in a trace: the steps of its scores, the step that averages the values."""

    scores: tuple[int, ...]  # several, if their sum counts
    average: int
    weights_first: bool  # weights @ values, or values.T @ weights.T


def cores(trace: Trace) -> list[Core]:
    """Return every attention of a trace: a product of what a product of the input became."""
    moving = _moving(trace)
    products = {
        place
        for place, step in enumerate(trace.steps)
        if step.name in PRODUCTS
        and len(step.factors) == 2
        and all(own in moving for _, own in step.factors)
    }
    averages: set[int] = set()
    found = []
    for place in sorted(products):
        behind = [
            trace.products_behind(own, products) - averages for _, own in trace.steps[place].factors
        ]
        if bool(behind[0]) != bool(behind[1]):
            averages.add(place)
            found.append(Core(tuple(sorted(behind[0] or behind[1])), place, bool(behind[0])))
    return found


def cores_of_learned_queries(trace: Trace) -> list[Core]:
    """Return every attention whose queries do not depend on the input: one product has its keys."""
    moving = _moving(trace)
    moved = [[own in moving for _, own in step.factors] for step in trace.steps]
    products = {place for place, sides in enumerate(moved) if any(sides)}
    found = []
    for place in sorted(products):
        behind = [trace.comes_from(own) & products for _, own in trace.steps[place].factors]
        first = len(behind[0]) > len(behind[1])  # keys are projected and compared, values projected
        if all(moved[place]) and len(behind[0]) != len(behind[1]):
            scores = max(behind[0] if first else behind[1])
            found.append(Core((scores,), place, first))
    return found


def _moving(trace: Trace) -> set[int]:
    """Return the steps that depend on the arguments."""
    moving = set(trace.given)
    for place, step in enumerate(trace.steps):
        if any(source in moving for source in step.sources):
            moving.add(place)
    return moving


def before(trace: Trace, step: int) -> float:
    """Return the number by which a factor was multiplied since it was projected or normalised."""
    moving, number = _moving(trace), 1.0

    def projects(place: int) -> bool:
        name = trace.steps[place].name
        return name in PRODUCTS or any(part in name for part in NORMS)

    for place in trace._behind([step], projects):
        if place in moving and place >= 0 and not projects(place):
            number *= trace.steps[place].number
    return number


def learned(trace: Trace, core: Core) -> bool:
    """Return whether a parameter multiplies or divides between the two products."""
    weights = trace.steps[core.average].factors[0 if core.weights_first else 1][1]
    moving = _moving(trace)
    between = trace._behind([weights], core.scores.__contains__)
    for place in between:
        if place >= 0 and trace.steps[place].name in ("mul", "div", "mul_", "div_"):
            still = [s for s in trace.steps[place].sources if s not in moving]
            behind = [place, *(s for q in still for s in trace.comes_from(q) if s >= 0)]
            if any(trace.steps[s].learned for s in behind):
                return True
    return False
