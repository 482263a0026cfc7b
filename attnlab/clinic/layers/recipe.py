"""Compute a module again in plain steps, rightly and in every known wrong way, and compare."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from attnlab.clinic._hints import text_of
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.parts import Flow

FILLS = ("-1", "-2", "-3", "-4", "-5", "-8", "-10", "-20", "-50", "0.1", "1e-3", "-100")
SOFTMAXES = ("keys", "queries", "heads", "batch", "all", "none", "sigmoid", "hard", "after")


@dataclass(frozen=True)
class Recipe:
    """One way to compute attention from projected tokens; the defaults are right."""

    heads: int
    scale: float | Tensor  # or several to try at once, (F, 1, 1, 1, 1)
    causal: bool = False
    softmax: str = "keys"
    layout: str = "blocks"  # or "interleaved" features, or "stacked" in each head
    wrong: str = ""  # "split", "merge" or both, by a bare view
    sides: str = "qkv"  # what plays query, key and value
    filling: str = "block"  # how the mask is used


def compute(flow: Flow, recipe: Recipe, allowed: Tensor | None = None) -> Tensor | None:
    """Return the joined heads (N, L, H * d) that a recipe gives, or None if sizes do not fit.

    Of a recipe with several scales, one after the other, (F, N, L, H * d).
    """
    parts = _parts(flow, recipe)
    if parts is None:
        return None
    _, _, value, products = parts
    scores = products * recipe.scale
    if recipe.causal:
        causal = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        allowed = causal if allowed is None else allowed & causal
    heads = computed_weights(scores, recipe, allowed) @ value
    if "merge" in recipe.wrong:
        return heads.reshape(*heads.shape[:-3], heads.shape[-2], -1)
    if recipe.layout == "interleaved":
        return heads.movedim(-3, -1).flatten(-2)
    return heads.transpose(-3, -2).flatten(-2)


def computed_weights(scores: Tensor, recipe: Recipe, allowed: Tensor | None) -> Tensor:
    """Return the weights after the recipe's mask and its softmax."""
    if allowed is not None:
        scores = _masked(scores, allowed, recipe.filling)
    weights = _softmax(scores, recipe)
    if allowed is not None and recipe.filling == "after":
        weights = weights * allowed
    return weights


def _masked(scores: Tensor, allowed: Tensor, filling: str) -> Tensor:
    if filling == "block":
        return scores.masked_fill(~allowed, -torch.inf)
    if filling == "inverted":
        return scores.masked_fill(allowed, -torch.inf)
    if filling == "transposed":
        return scores.masked_fill(~allowed.mT, -torch.inf)
    if filling == "added":
        return scores + allowed
    if filling == "multiplied":
        return scores * allowed
    if filling.startswith("after"):
        return scores
    return scores.masked_fill(~allowed, float(filling))


def _softmax(scores: Tensor, recipe: Recipe) -> Tensor:
    kind = recipe.softmax
    axes = {"keys": -1, "queries": -2, "heads": -3, "batch": -4}
    if kind in axes:
        return scores.softmax(dim=axes[kind])
    if kind == "all":
        return scores.flatten(-2).softmax(dim=-1).view_as(scores)
    if kind == "sigmoid":
        return scores.sigmoid()
    if kind == "hard":
        return torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    if kind == "after":
        return (scores / recipe.scale).softmax(dim=-1) * recipe.scale
    return scores


def _parts(flow: Flow, recipe: Recipe) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
    """Return query, key and value as (N, H, L, d), and the products of the first two."""
    how = (recipe.heads, recipe.layout, "split" in recipe.wrong, recipe.sides)
    if how not in flow.cut:
        three = _three(flow, recipe)
        products = None if three is None else three[0] @ three[1].transpose(-2, -1)
        flow.cut[how] = None if three is None else (*three, products)
    return flow.cut[how]


def _three(flow: Flow, recipe: Recipe) -> tuple[Tensor, Tensor, Tensor] | None:
    heads = recipe.heads
    if recipe.layout == "stacked":
        if flow.stacked is None or flow.stacked.shape[-1] % (3 * heads):
            return None
        cut = flow.stacked.unflatten(-1, (heads, -1)).chunk(3, dim=-1)
        three = {name: part.flatten(2) for name, part in zip("qkv", cut, strict=True)}
        three["x"] = flow.raw
    else:
        three = {"q": flow.query, "k": flow.key, "v": flow.value, "x": flow.raw}
    query, key, value = (three[name] for name in recipe.sides)
    if query is None or query.shape[-1] % heads:
        return None
    head_dim = query.shape[-1] // heads
    if key.shape[-1] % head_dim or value.shape[-1] % max(1, key.shape[-1] // head_dim):
        return None
    groups = key.shape[-1] // head_dim
    if heads % groups:
        return None
    cuts = [(query, heads), (key, groups), (value, groups)]
    made = [_cut(tokens, count, recipe) for tokens, count in cuts]
    query, *shared = made
    key, value = (part.repeat_interleave(heads // groups, dim=1) for part in shared)
    return query, key, value


def query_key(flow: Flow, recipe: Recipe) -> tuple[Tensor, Tensor] | None:
    """Return query and key as the heads of a recipe compare them, (N, H, L, d) each."""
    parts = _parts(flow, recipe)
    return None if parts is None else parts[:2]


def _cut(tokens: Tensor, count: int, recipe: Recipe) -> Tensor:
    batch, length, _ = tokens.shape
    if "split" in recipe.wrong:
        return tokens.reshape(batch, count, length, -1)
    if recipe.layout == "interleaved":
        return tokens.unflatten(-1, (-1, count)).permute(0, 3, 1, 2)
    return tokens.unflatten(-1, (count, -1)).transpose(1, 2)


def fitting(flow: Flow, joined: Tensor | None, exact: bool) -> list[bool]:
    """Return whether joined heads give the target, through one of the output projections."""
    if joined is None:
        return []
    return (misfits(flow, joined) < (1e-7 if exact else 2e-4)).reshape(-1).tolist()


def fits(flow: Flow, joined: Tensor | None, exact: bool) -> bool:
    """Return the same for the joined heads of one recipe with one scale."""
    return any(fitting(flow, joined, exact))


def misfit(flow: Flow, joined: Tensor) -> float:
    """Return how far joined heads are from the target, relative to it."""
    return misfits(flow, joined).item()


def misfits(flow: Flow, joined: Tensor) -> Tensor:
    """Return the same for each scale of (F, N, L, H * d)."""
    best = torch.full(joined.shape[:-3], math.inf, dtype=joined.dtype)
    for matrix in flow.matrices:
        made = joined if matrix is None else None
        if matrix is not None and joined.shape[-1] == matrix.shape[0]:
            made = joined @ matrix
        if made is not None and made.shape[-3:] == flow.target.shape:
            size = flow.size
            best = torch.fmin(best, (made - flow.target).abs().amax(dim=(-3, -2, -1)) / size)
    return best


@lru_cache(maxsize=64)
def takes_roots(kind: type) -> bool:
    """Return whether its text has a root; asked where 1/sqrt(embed_dim) equals 1/head_dim."""
    return bool(re.search(r"sqrt|0?\.5\b|1 ?/ ?2", text_of(kind)))


def scales(subject: Subject, head_dim: int, width: int) -> list[tuple[str, str, float]]:
    """Return name, words and value of every factor worth trying, the right one first."""
    sizes = subject.sizes
    named = [
        ("", "1/sqrt(head_dim)", head_dim**-0.5),
        ("scale-missing", "1", 1.0),
        *_by_width(subject, head_dim, width),
        ("scale-inverse", "sqrt(head_dim)", head_dim**0.5),
        ("scale-quarter", "head_dim ** -0.25", head_dim**-0.25),
        ("scale-length", "1/sqrt(L)", sizes.length**-0.5),
        ("scale-length", "1/L", 1 / sizes.length),
        ("scale-other", "1/embed_dim", 1 / width),
        ("scale-other", "1/sqrt(num_heads)", (width / head_dim) ** -0.5),
        ("scale-inverse", "head_dim", float(head_dim)),
        ("scale-inverse", "sqrt(embed_dim)", width**0.5),
        ("scale-constant", "1/8, whatever head_dim is", 1 / 8),
        ("scale-constant", "1/10, whatever head_dim is", 1 / 10),
        ("scale-other", "1/head_dim ** 2", head_dim**-2),
    ]
    kept: dict[float, tuple[str, str, float]] = {}
    for name, words, value in named:  # equal factors cannot be told apart: the first one stays
        kept.setdefault(round(value, 12), (name, words, value))
    return list(kept.values())


def _by_width(subject: Subject, head_dim: int, width: int) -> list[tuple[str, str, float]]:
    """Return 1/head_dim and 1/sqrt(embed_dim); where they may be mistaken, the likelier first."""
    embed = subject.sizes.embed
    by_d = [("scale-d", "1/head_dim", 1 / head_dim)]
    by_model = [("scale-model", "1/sqrt(embed_dim)", size**-0.5) for size in (width, embed)]
    apart = width == embed and not math.isclose(head_dim**2, embed, rel_tol=0.1)
    if not apart and takes_roots(type(subject.module)):
        return [*by_model, *by_d]
    return [*by_d, *by_model]


def recipes(flow: Flow, heads: list[int], causal: tuple[bool, ...]) -> Iterator[list[Recipe]]:
    """Yield stages of recipes for the right factor, from right to more and more wrong."""
    layouts = ["blocks", "interleaved"] + (["stacked"] if flow.stacked is not None else [])
    bases = [
        Recipe(count, (flow.query.shape[-1] / count) ** -0.5, hidden, layout=layout)
        for count, layout, hidden in itertools.product(heads, layouts, causal)
        if not (count == 1 and layout != "blocks")
    ]
    orders = ("kqv", "vkq", "qvk", "kvq", "vqk")
    yield bases
    yield [replace(base, sides=order) for base in bases for order in orders]
    yield [
        replace(base, wrong=wrong)
        for base in bases
        for wrong in ("split", "merge", "split merge")
        if base.layout != "interleaved"
    ]
    yield [replace(base, softmax=kind) for base in bases for kind in SOFTMAXES[1:]]
    stray = ("qqv", "kkv", "qkq", "qkk", "qkx", "xxv", "qxv", "xkv", "vvv", "qvv", "qqq", "kkk")
    yield [replace(base, sides=order) for base in bases for order in stray]
    fillings = ("0", "1e-9", "-1e-9", *FILLS, "added", "multiplied", "after")
    yield [replace(base, causal=True, filling=how) for base in bases for how in fillings]
