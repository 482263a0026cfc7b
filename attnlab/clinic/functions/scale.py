"""Which factor a function puts on the dot products, and what the factor follows."""

from __future__ import annotations

import math
from collections.abc import Callable

from attnlab.clinic._calling import Unusable
from attnlab.clinic._results import Results
from attnlab.clinic.functions.calls import GENERAL, WIDER, Attention, Sizes
from attnlab.clinic.functions.measure import SURE, fit_scores, number_table, products, weights_of

# Every size differs in every call, so that no two laws agree by accident.
CALLS = (
    GENERAL,
    Sizes(N=3, H=2, L=7, S=6, E=32, Ev=6 + WIDER),
    Sizes(N=5, H=4, L=6, S=8, E=64, Ev=8 + WIDER),
)

Law = Callable[[Sizes], float]
LAWS: tuple[tuple[str, str, Law], ...] = (
    ("scale-missing", "are not scaled at all", lambda size: 1.0),
    ("scale-d", "are divided by d_k itself, not by its root", lambda size: 1 / size.E),
    ("scale-inverse", "are multiplied by the root of d_k", lambda size: size.E**0.5),
    ("scale-inverse", "are multiplied by d_k", lambda size: float(size.E)),
    ("scale-quarter", "are divided by the fourth root of d_k", lambda size: size.E**-0.25),
    (
        "scale-model",
        "are divided by the root of d_k times the number of heads, the width of the model",
        lambda size: (size.E * size.H) ** -0.5,
    ),
    ("scale-length", "are divided by the root of L, the queries", lambda size: size.L**-0.5),
    ("scale-length", "are divided by the root of S, the keys", lambda size: size.S**-0.5),
    ("scale-length", "are divided by L, the number of queries", lambda size: 1 / size.L),
    ("scale-length", "are divided by S, the number of keys", lambda size: 1 / size.S),
    ("scale-length", "are divided by the root of the batch size", lambda size: size.N**-0.5),
    ("scale-length", "are divided by the root of the number of heads", lambda size: size.H**-0.5),
    ("scale-length", "are divided by the root of the value's width", lambda size: size.Ev**-0.5),
)


def examine_scale(attention: Attention, results: Results, ndim: int) -> None:
    """Compare the measured factors with 1 / sqrt(d_k), and name the law that they follow."""
    factors: dict[Sizes, float] = {}
    for call in CALLS:
        try:
            query, key, _ = attention.inputs(ndim, call)
            fit = fit_scores(weights_of(attention, query, key), products(query, key))
        except Unusable:
            continue
        if fit.good:
            factors[attention.sizes(call)] = fit.factor
    if not factors:
        return
    if _follow(factors, lambda size: size.E**-0.5):
        results.held("scale", "the scores are divided by the square root of d_k")
        return
    _accuse(factors, results)


def _follow(factors: dict[Sizes, float], law: Law) -> bool:
    return all(
        math.isclose(factor, law(size), rel_tol=10 * SURE) for size, factor in factors.items()
    )


def _accuse(factors: dict[Sizes, float], results: Results) -> None:
    rows = {f"d_k = {size.E}": [factor, size.E**-0.5] for size, factor in sorted_by_width(factors)}
    evidence = number_table("Factor on query · key:", rows, ("measured", "1/sqrt(d_k)"))
    for name, words, law in LAWS:
        if _follow(factors, law):
            results.found(name, f"The dot products {words}.", evidence)
            return
    values = list(factors.values())
    if max(values) - min(values) < 10 * SURE * abs(max(values)) and len(values) > 1:
        sentence = (
            f"The dot products are multiplied by {values[0]:.4g} whatever d_k is: right for "
            f"d_k = {1 / values[0] ** 2:.4g} only."
        )
        results.found("scale-constant", sentence, evidence)
        return
    told = ", ".join(
        f"{factor:.3f} for d_k = {size.E}" for size, factor in sorted_by_width(factors)
    )
    sentence = f"The dot products are not divided by the root of d_k: the factor is {told}."
    results.found("scale-other", sentence, evidence)


def sorted_by_width(factors: dict[Sizes, float]) -> list[tuple[Sizes, float]]:
    """Return sizes and factors, the smallest d_k first."""
    return sorted(factors.items(), key=lambda item: item[0].E)
