"""The shapes in which a mask may be given, and what was done with it: of functions and layers."""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Results
from attnlab.clinic.hypotheses import (
    INVERT,
    ONE_AHEAD,
    ORDERS,
    Recipe,
    Sample,
    Sizes,
    Way,
    explain,
    masked_table,
    measured_masking,
    measured_weights,
)

TURN = "turn the mask around: masked_fill(mask, -torch.inf)."
BOTH = "apply the second mask to the masked scores: scores = scores.masked_fill(...)."


def _opposite(who: str, advice: str) -> Way:
    words = (
        f"True means “may attend” in this mask, as in F.scaled_dot_product_attention; {who} "
        "the opposite, and then the blocked keys take {taken} of a query's weight."
    )
    return Way("mask-inverted", words, INVERT.compute, advice)


STILL_BLOCKED = _opposite('mask="blocked" says', f'leave mask="blocked" out, or {TURN}')
NOT_AS_SAID = _opposite("its own words say", TURN)


class Form(NamedTuple):
    """A shape and a kind of mask, and what it means for the weights (N, H, L, S)."""

    letters: str
    cut: Callable[[Tensor], Tensor]  # from a mask (N, H, L, S) to what is given
    shared: tuple[int, ...] = ()  # the dimensions of (N, H, L, S) along which it is the same
    kind: str = "bool"  # or "float" and "int" for 1 and 0, "additive" for 0 and -inf
    flipped: bool = False  # True = blocked

    @property
    def per_key(self) -> bool:
        """Whether the same keys are blocked for every query."""
        return 2 in self.shared

    @property
    def means(self) -> str:
        """What its numbers mean, in words."""
        if self.letters == LENGTHS.letters:
            return "lengths"
        said = "True = blocked" if self.flipped else "True = may attend"
        return "0 and minus infinity" if self.kind == "additive" else said

    def turned(self) -> Form:
        """Return the same form with the opposite meaning of True."""
        return self._replace(flipped=not self.flipped)

    def __call__(self, allowed: Tensor, dtype: torch.dtype) -> Tensor:
        """Return a mask (N, H, L, S), True = may attend, as it is wanted."""
        mask = self.cut(allowed)
        if self.letters == LENGTHS.letters:
            return mask
        if self.kind == "additive":
            return torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -torch.inf)
        mask = ~mask if self.flipped else mask.clone()
        return {"bool": mask, "float": mask.to(dtype), "int": mask.long()}[self.kind]


LENGTHS = Form("(N,)", lambda full: full[:, 0, 0].sum(dim=-1), (1, 2))
FORMS: dict[int, tuple[Form, ...]] = {  # by the number of dimensions of a query
    2: (
        Form("(L, S)", lambda full: full[0, 0]),
        Form("(S,)", lambda full: full[0, 0, 0], (2,)),
        Form("(1, S)", lambda full: full[0, 0, :1], (2,)),
    ),
    3: (
        Form("(N, L, S)", lambda full: full[:, 0]),
        Form("(L, S)", lambda full: full[0, 0], (0,)),
        Form("(N, 1, S)", lambda full: full[:, 0, :1], (2,)),
        Form("(N, S)", lambda full: full[:, 0, 0], (2,)),
        Form("(1, L, S)", lambda full: full[:1, 0], (0,)),
        Form("(N, 1, L, S)", lambda full: full),
        Form("(N, 1, 1, S)", lambda full: full[:, :, :1], (2,)),
    ),
    4: (
        Form("(N, H, L, S)", lambda full: full),
        Form("(L, S)", lambda full: full[0, 0], (0, 1)),
        Form("(N, 1, 1, S)", lambda full: full[:, :1, :1], (1, 2)),
        Form("(N, S)", lambda full: full[:, 0, 0], (1, 2)),
        Form("(N, L, S)", lambda full: full[:, 0], (1,)),
        Form("(N, 1, L, S)", lambda full: full[:, :1], (1,)),
        Form("(N, 1, S)", lambda full: full[:, 0, :1], (1, 2)),
        Form("(1, 1, L, S)", lambda full: full[:1, :1], (0, 1)),
    ),
}


def pattern(sizes: Sizes, form: Form, seed: int = 3) -> Tensor:
    """Return a mask (N, H, L, S) without symmetry, with a True and a False in every row.

    Every query may see its own key, so that a causal mask beside it leaves a key; of a mask of
    keys all sequences see the first and none the last.
    """
    full, S = (sizes.N, sizes.H, sizes.L, sizes.S), sizes.S
    place = torch.arange(S)
    if form.letters == LENGTHS.letters:
        lengths = (2 * torch.arange(sizes.N) + 3) % (S - 1) + 1
        return (place < lengths[:, None, None, None]).expand(full)
    shape = [1 if dim in form.shared else size for dim, size in enumerate(full)]
    if form.per_key:
        n, h = torch.arange(shape[0])[:, None, None, None], torch.arange(shape[1])[:, None, None]
        allowed = ((place + n + h + seed) % 3 != 1) & (place < S - 1) | (place == 0)
        return allowed.expand(full)
    allowed = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.55
    own = torch.arange(shape[2])[:, None] % S
    allowed = (allowed | (place == own)) & (place != (own + S - 1) % S)
    return allowed.expand(full)


def judged(recipe: Recipe, sample: Sample) -> Recipe:
    """Return the recipe with what was done with the mask, named or measured."""
    found = explain([sample], recipe, ("masking", "softmax"))
    if found is not None:
        return found
    weights = measured_weights(sample)
    scores, order = recipe.scores(sample), recipe.order.compute(*weights.shape[-2:])
    allowed = sample.allowed.expand_as(weights)
    if order is not None and order.dtype != torch.bool:
        order, scores = order.isfinite(), scores + order
    if order is not None:
        allowed, scores = allowed & order, scores.masked_fill(~order, -torch.inf)
        if not allowed.any(dim=-1).all():
            return recipe  # rows without a key may hold anything: nothing can be measured
    return replace(recipe, masking=measured_masking(scores, weights, allowed))


def examine_both(
    sample: Sample, alone: dict[str, Tensor], recipe: Recipe, results: Results
) -> bool:
    """Report that of two masks given at once one is lost; return whether that is so."""
    for kept, lost in (tuple(alone), tuple(alone)[::-1]):
        if recipe.gives(sample._replace(allowed=alone[kept])):
            sentence = f"Together with {kept}, {lost} is lost: keys that it blocks are seen again."
            evidence = masked_table(measured_weights(sample), sample.allowed)
            results.found("mask-ignored", sentence, evidence, advice=BOTH)
            return True
    return False


def tell_pattern(seen: Tensor, meant: bool, evidence: Evidence, results: Results) -> None:
    """Name who sees whom, (L, S), where not everyone sees everyone.

    ``meant`` says that no query is meant to see a later key.
    """
    ones, ahead = torch.ones_like(seen), seen.triu(1)
    way = next((way for way in ORDERS if way.cause and _blocks(way, seen)), None)
    if way is None and meant and torch.equal(ahead, ones.triu(1).tril(1)):
        way = ONE_AHEAD  # the end of a window
    if way is not None:
        results.found(way.cause, way.words, evidence)
    elif not ahead.any():
        results.held("causal", "no query sees a later key (causal)")
        if not torch.equal(seen.tril(-1), ones.tril(-1)):
            words = "Some earlier keys are never seen either: a window, perhaps."
            results.note("window", words)
    elif meant:
        i, j = ahead.nonzero()[0].tolist()
        sentence = (
            f"{int(ahead.any(dim=1).sum())} of {len(seen)} queries see later keys, such as query "
            f"{i} key {j}."
        )
        results.found("causal-leak", sentence, evidence)
    else:
        i, j = (~seen).nonzero()[0].tolist()
        words = f"Some keys are never seen by some queries, such as key {j} by query {i}."
        results.note("window", words)


def _blocks(way: Way, seen: Tensor) -> bool:
    """Return whether an order blocks exactly what is never seen; rows without a key are free."""
    allowed = way.compute(*seen.shape)
    known = allowed.any(dim=-1)
    return torch.equal(seen[known], allowed[known])


def reads_mask(adapter: Callable) -> bool:
    """Return whether an adapter does something with its last argument, the mask."""
    code = getattr(adapter, "__code__", None)
    if code is None:
        return True
    if code.co_argcount < 5:
        return bool(code.co_flags & 4)  # *arguments
    name = code.co_varnames[4]
    read = [step.argval for step in dis.get_instructions(code)]
    return any(name == one or (isinstance(one, tuple) and name in one) for one in read)
