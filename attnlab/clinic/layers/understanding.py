"""Find out how a module computes: the first recipe that gives exactly what it gives."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from attnlab.clinic.layers.calls import Patient
from attnlab.clinic.layers.influence import head_numbers
from attnlab.clinic.layers.parts import Flow, Record, flows
from attnlab.clinic.layers.recipe import Recipe, cook, fits, misfit, recipes, scales

MOST_FLOWS = 5  # a layer with many parts has many ways to play together


class Found(NamedTuple):
    """A recipe that gives exactly what the module gives."""

    flow: Flow
    recipe: Recipe
    name: str  # of the factor, empty if it is right
    words: str


def understand(record: Record, patient: Patient, causal: tuple[bool, ...]) -> Found | None:
    """Return the first recipe, from right to more and more wrong, that gives the same output."""
    every = list(flows(record))
    heads = head_numbers(patient) or [1]
    if patient.sizes.heads is None:
        heads = [1, *heads]
    staged = [(flow, list(recipes(flow, patient, heads, causal))) for flow in every[:MOST_FLOWS]]
    stages = max((len(stages) for _, stages in staged), default=0)
    for stage in range(stages):
        for flow, all_stages in staged:
            tries = (
                _with_some_factor(flow, recipe, patient, 16 if stage == 0 else 4)
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
    return misfit(found.flow, cook(found.flow, found.recipe))


def _with_some_factor(flow: Flow, recipe: Recipe, patient: Patient, count: int) -> Found | None:
    width = flow.query.shape[-1]
    for name, words, scale in scales(patient, width // recipe.heads, width)[:count]:
        tried = replace(recipe, scale=scale)
        try:
            if fits(flow, cook(flow, tried), patient.exact):
                return Found(flow, tried, name, words)
        except RuntimeError:
            return None
    return None


def fitted(record: Record, patient: Patient, causal: tuple[bool, ...]) -> Found | None:
    """Search a factor that no name is known for."""
    if not patient.exact:
        return None
    for flow in list(flows(record))[:6]:
        heads = [patient.sizes.heads] if patient.sizes.heads else [1]
        for recipe in next(iter(recipes(flow, patient, heads, causal))):
            scale = _search(flow, recipe)
            if scale is not None:
                return Found(flow, replace(recipe, scale=scale), "scale-other", "no known rule")
    return None


def _search(flow: Flow, recipe: Recipe) -> float | None:
    def far(power: float) -> float:
        joined = cook(flow, replace(recipe, scale=math.exp(power)))
        return math.inf if joined is None else misfit(flow, joined)

    grid = [power / 4 for power in range(-24, 17)]
    tried = [far(power) for power in grid]
    best = min(range(len(grid)), key=tried.__getitem__)
    if not math.isfinite(tried[best]) or tried[best] > 0.2:
        return None
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if far(left) < far(right) else (left, high)
    return math.exp(low) if far(low) < 1e-7 else None
