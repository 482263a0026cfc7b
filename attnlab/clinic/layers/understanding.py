"""Find out how a module computes: the first recipe that gives exactly what it gives."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.influence import head_numbers
from attnlab.clinic.layers.parts import CallRecord, Flow, flows
from attnlab.clinic.layers.recipe import (
    Recipe,
    compute,
    fitting,
    misfit,
    misfits,
    recipes,
    scales,
)

MOST_FLOWS = 5  # a layer with many parts has many ways to play together


class Found(NamedTuple):
    """A recipe that gives exactly what the module gives."""

    flow: Flow
    recipe: Recipe
    name: str  # of the factor, empty if it is right
    words: str


def understand(record: CallRecord, subject: Subject, causal: tuple[bool, ...]) -> Found | None:
    """Return the first recipe, from right to more and more wrong, that gives the same output."""
    every = list(flows(record))
    heads = head_numbers(subject) or [1]
    if subject.sizes.heads is None:
        heads = [1, *heads]
    staged = [(flow, list(recipes(flow, heads, causal))) for flow in every[:MOST_FLOWS]]
    stages = max((len(stages) for _, stages in staged), default=0)
    for stage in range(stages):
        for flow, all_stages in staged:
            tries = (
                _with_some_factor(flow, recipe, subject, 16 if stage == 0 else 4)
                for recipe in all_stages[stage]
            )
            if stage < stages - 1:
                best = next((found for found in tries if found is not None), None)
            else:  # fillings: 0 and 1e-9 both fit, the nearest is the one
                fitting = [found for found in tries if found is not None]
                best = min(fitting, key=_distance) if fitting else None
            if best is not None:
                return best
    return None


def _distance(found: Found) -> float:
    return misfit(found.flow, compute(found.flow, found.recipe))


def _with_some_factor(flow: Flow, recipe: Recipe, subject: Subject, count: int) -> Found | None:
    width = flow.query.shape[-1]
    tried = scales(subject, width // recipe.heads, width)[:count]
    try:
        joined = compute(
            flow, replace(recipe, scale=_stacked(flow, [scale for *_, scale in tried]))
        )
        fit = fitting(flow, joined, subject.exact)
    except RuntimeError:
        return None
    for (name, words, scale), good in zip(tried, fit, strict=False):
        if good:
            return Found(flow, replace(recipe, scale=scale), name, words)
    return None


def _stacked(flow: Flow, scales: list[float]) -> Tensor:
    return torch.tensor(scales, dtype=flow.query.dtype).view(-1, 1, 1, 1, 1)


def fitted(record: CallRecord, subject: Subject, causal: tuple[bool, ...]) -> Found | None:
    """Search a factor that no name is known for."""
    if not subject.exact:
        return None
    for flow in list(flows(record))[:6]:
        heads = [subject.sizes.heads] if subject.sizes.heads else [1]
        for recipe in next(iter(recipes(flow, heads, causal))):
            scale = _search(flow, recipe)
            if scale is not None:
                return Found(flow, replace(recipe, scale=scale), "scale-other", "no known rule")
    return None


def _search(flow: Flow, recipe: Recipe) -> float | None:
    def far(*powers: float) -> list[float]:
        scale = _stacked(flow, [math.exp(power) for power in powers])
        joined = compute(flow, replace(recipe, scale=scale))
        return [math.inf] if joined is None else misfits(flow, joined).tolist()

    grid = [power / 4 for power in range(-24, 17)]
    tried = far(*grid)
    best = min(range(len(tried)), key=tried.__getitem__)
    if not math.isfinite(tried[best]) or tried[best] > 0.2:
        return None
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        at_left, at_right = far(left, right)
        low, high = (low, right) if at_left < at_right else (left, high)
    return math.exp(low) if far(low)[0] < 1e-7 else None
