"""How a slip of a recipe is told, with the numbers and the table that show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from attnlab.clinic.evidence import Evidence
from attnlab.clinic.family import ADDITIVE, RIGHT_SCALE, STEPS
from attnlab.clinic.results import Fact, ask, held, wrong
from attnlab.clinic.sample import SURE, Sample
from attnlab.clinic.search import Recipe


def slips_told(
    recipe: Recipe,
    samples: Iterable[Sample],
    *,
    weights: Tensor | None = None,
    mask: str = "the mask",
) -> Iterator[Fact]:
    """Yield every slip of a recipe, with what the samples show.

    ``weights`` are those of the last sample, where the recipe cannot compute them; ``mask`` is what
    the mask of the caller is called.
    """
    samples = list(samples)
    sample = samples[-1]
    made = recipe.weights(sample) if weights is None else weights
    for step in sorted(STEPS, key="scale".__eq__):  # what is most wrong first, a factor last
        way = getattr(recipe, step)
        if way.cause is None:
            continue
        order = recipe.order.compute(*sample.products.shape[-2:])
        hidden, words = sample.allowed, (mask, "blocked keys")
        if step == "hiding":
            hidden, words = order, ("the causal mask", "later keys", "")
        sentence = way.words.format(**_numbers(recipe, sample, made, hidden, *words))
        evidence = _evidence(step, recipe, samples, made, hidden)
        if way.asked:
            yield ask(way.cause, sentence)
        else:
            yield wrong(way.cause, sentence, evidence, advice=way.advice)


def right_told(recipe: Recipe, sample: Sample, *, known: bool) -> Iterator[Fact]:
    """Yield which steps are right; ``known`` says by what query and key were multiplied before."""
    if recipe.softmax.cause is None:
        yield held("sums", "without a mask, the weights of every query sum to 1")
    if recipe.product.cause is None and recipe.sides.cause is None:
        yield held("products", "the scores are dot products of query and key")
    if recipe.scale is RIGHT_SCALE and known:
        E = sample.sizes.E
        yield held("scale", f"the dot products are divided by sqrt(d_k), here sqrt({E})")
    if recipe.sides.cause is None and recipe.after.cause is None:
        yield held("average", "each row of the output is a weighted average of the rows of value")


def _numbers(
    recipe: Recipe,
    sample: Sample,
    weights: Tensor | None,
    allowed: Tensor | None,
    mask: str = "the mask",
    keys: str = "blocked keys",
    additive: str = ADDITIVE,
) -> dict[str, object]:
    """Return what the words of a way are filled with."""
    E, known = sample.sizes.E, {"sums": "nothing", "taken": "a part", "additive": additive}
    known |= {"keys": keys, "Keys": _capital(keys), "The_mask": _capital(mask), "the_mask": mask}
    known |= {"factor": f"{recipe.scale.compute(sample.sizes):.4g}", "right": f"{E**-0.5:.4g}"}
    known |= {"E": E} if weights is None else {"E": E, "sums": span(weights.sum(dim=-1))}
    if weights is not None and allowed is not None:
        known["taken"] = span(weights.masked_fill(allowed.expand_as(weights), 0).sum(dim=-1))
    return known


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def span(values: Tensor) -> str:
    """Return from where to where numbers go; one number if they are all the same."""
    values = values[values.isfinite()]
    if not values.numel():
        return "NaN"
    low, high = f"{values.min():.2f}", f"{values.max():.2f}"
    return high if low == high else f"between {low} and {high}"


def _evidence(
    step: str, recipe: Recipe, samples: list[Sample], weights: Tensor | None, allowed: Tensor | None
) -> Evidence | None:
    if step == "scale":
        sizes = sorted({sample.sizes for sample in samples}, key=lambda size: size.E)
        factors = torch.tensor([[recipe.scale.compute(size), size.E**-0.5] for size in sizes])
        rows = tuple(f"d_k = {size.E}" for size in sizes)
        return Evidence("Factor on query · key:", factors.double(), rows, ("used", "1/sqrt(d_k)"))
    if weights is None:
        return None
    if step in ("hiding", "masking") and allowed is not None:
        return masked_table(weights, allowed)
    return weights_table("Weights of the first sequence:", weights, sums=step == "softmax")


def weights_table(caption: str, weights: Tensor, *, sums: bool = False) -> Evidence:
    """Return the weights of the first sequence as a table, with the sums of its rows if wanted."""
    table = weights.detach().double().reshape(-1, *weights.shape[-2:])[0]
    table = table.masked_fill(table.abs() < 1e-6, 0.0)  # what rounding leaves
    rows = tuple(f"query {i}" for i in range(table.shape[0]))
    columns = tuple(f"key {j}" for j in range(table.shape[1]))
    if sums:
        table, columns = torch.cat([table, table.sum(-1, keepdim=True)], -1), (*columns, "sum")
    return Evidence(caption, table, rows, columns, shaded=True)


def masked_table(weights: Tensor, allowed: Tensor) -> Evidence:
    """Return the weights of the first sequence, and what blocked keys take of each row."""
    evidence = weights_table("", weights)
    may = allowed.expand_as(weights).reshape(-1, *weights.shape[-2:])[0]
    leaked = evidence.values.masked_fill(may, 0).sum(dim=-1, keepdim=True)
    marks = ("".join("." if one else "x" for one in row) for row in may.tolist())
    return Evidence(
        "Weights of the first sequence; x marks a blocked key:",
        torch.cat([evidence.values, leaked], dim=-1),
        tuple(f"{name} ({mark})" for name, mark in zip(evidence.rows, marks, strict=True)),
        (*evidence.columns, "on blocked"),
        shaded=True,
    )


def sums_told(weights: Tensor) -> list[Fact]:
    """Return a finding if the weights of a query do not sum to 1."""
    weights = weights.nan_to_num(nan=0.0)  # of rows without a key

    def ones(dim: int) -> bool:
        sums = weights.sum(dim)
        return bool(((sums[sums != 0] - 1).abs() < 2e-3).all())

    if ones(-1) and weights.min() > -SURE:
        return []
    axes = {-2: "queries", 1: "heads", 0: "sequences of the batch"}
    over = [of for dim, of in axes.items() if weights.shape[dim] > 1 and ones(dim)]
    name, subject = "not-normalised", "The weights"
    if over:
        name = "softmax-axis"
        subject = f"The softmax runs over the {over[0]}, not over the keys: the weights"
    sentence = f"{subject} of a query sum to {span(weights.sum(dim=-1))} instead of 1."
    if ones(-1):
        sentence = f"Some weights are negative, such as {weights.min():.2g}: no softmax gives them."
    table = weights_table("Weights of the first sequence:", weights, sums=True)
    return [wrong(name, sentence, table)]
