"""A softmax by itself: attention whose query is the scores, and whose key and value are units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from inspect import Parameter, Signature

import torch
from torch import Tensor

from attnlab.clinic._causes import CAUSES
from attnlab.clinic._hints import text_of
from attnlab.clinic._results import Options, Results
from attnlab.clinic.behaviour import (
    examine_behaviour,
    examine_finite,
    examine_steadiness,
    examine_watch,
)
from attnlab.clinic.functions.examination import examine_attention
from attnlab.clinic.hypotheses import (
    Recipe,
    Sample,
    Sizes,
    Way,
    explain,
    fit_scores,
    report,
    same,
)
from attnlab.clinic.names import SIDES, plain_name
from attnlab.clinic.pieces.calls import Form, Piece, numbers, shape

SHAPES = ((2, 3, 5, 6), (2, 5, 6), (5, 6))  # N, H, L, S
SQUARE = (6, 6)
DIMS = ("dim", "axis", "d")
MASK_ROLES = ("mask", "padding", "lengths")
LARGE = 1000.0
OF_ATTENTION = (
    "layout scale products average dimensions sizes causal gradients apart arguments".split()
)
SUMS = "The weights of a query sum to {sums} instead of 1."
NO_SOFTMAX = "The weights of a query sum to 1 and are not the softmax of its scores."
AT_OTHER_KEYS = "The weights of a query are those of its softmax, but at the wrong keys."


def examine_softmax(function: Callable, options: Options, results: Results) -> None:
    """Report how a softmax behaves, with a mask or lengths if it takes them.

    With ``options.strict`` overflow is a finding and no note.
    """
    softmax = Softmax(function, options, results)
    mask, needed = softmax.mask, softmax.piece.needed[1:]
    known = (*DIMS, plain_name(mask.name)) if mask else DIMS
    if softmax.piece.lacks([name for name in needed if plain_name(name) not in known]):
        return
    if mask is None or not mask.required:
        softmax.without_a_mask()
    if mask is not None and not results.findings:
        softmax.with_a_mask()
    examine_watch(softmax.piece, results)


class Softmax:
    """One examination of a softmax."""

    def __init__(self, function: Callable, options: Options, results: Results) -> None:
        self.function, self.options, self.results = function, options, results
        self.piece = Piece(function, options, results)
        others = (self.piece.parameters or [])[1:]
        self.mask = next((one for one in others if one.role in MASK_ROLES), None)
        self.masked: Form | None = None  # a call with a mask that tells keys apart
        self.takes_dim = any(plain_name(one.name) in DIMS for one in others)

    def form(self, x: Tensor, mask: Tensor | None = None, dim: int = -1) -> Form:
        """Return a call."""
        masked = {} if mask is None else {plain_name(self.mask.name): mask}
        return self.piece.form(x, dict.fromkeys(DIMS, dim) | masked)

    def weights(self, x: Tensor, dim: int = -1) -> Tensor | None:
        """Return what it gives, if that has the shape of the scores."""
        out = self.piece.values(self.form(x, dim=dim))
        return out if out is not None and out.shape == x.shape else None

    # --- without a mask ---------------------------------------------------------------------------

    def without_a_mask(self) -> None:
        """Compare the weights with those of every known softmax."""
        piece, results = self.piece, self.results
        shapes = (*SHAPES, SQUARE, SQUARE[:1])
        worked = [x for x in map(scores, shapes) if self.weights(x) is not None]
        if not worked or worked[0].shape == SQUARE:
            self._fail(scores(SHAPES[-1]))
            return
        # softmax(dim=2) is meant for (N, L, S)
        x = next((x for x in worked if x.ndim > 2 and self._is_right(x)), worked[0])
        sample = sample_of(x, self.weights(x))
        recipe = explain([sample], steps=["softmax"]) or Recipe(softmax=_measured(sample))
        piece.draw = lambda seed: {"scores": scores(tuple(x.shape), seed)}
        piece.way = lambda inputs: self.form(inputs["scores"])
        if not examine_steadiness(piece, results) or not examine_finite(piece, results):
            return
        if recipe.slips:
            weights, text = sample.output.double(), text_of(self.function)
            report(recipe, [sample], results, weights=weights, text=text)
            return
        words = "the weights of every query are the softmax of its scores and sum to 1"
        results.held("sums", words)
        if x is not worked[0]:
            words = "It counts the dimension from the front: right for scores (N, L, S) only."
            results.note("dim", words)
        elif x.ndim < 4:
            results.note("sizes", f"It was looked at with scores of shape {shape(x)}.")
        if self.takes_dim and x.ndim > 1:
            self._examine_dims(x)
        self._examine_extremes(x)
        if not piece.caller.changed:
            examine_behaviour(piece, results)

    def _is_right(self, x: Tensor, dim: int = -1) -> bool:
        out = self.weights(x, dim=dim)
        return out is not None and same(out.float(), x.double().softmax(dim))

    def _fail(self, x: Tensor) -> None:
        """Report what comes of a call; perhaps it works with as many keys as queries."""
        form = self.form(x)
        outcome = self.piece.ask(form)
        out = numbers(outcome.value)
        if outcome.error and self.weights(scores(SQUARE)) is not None:
            sentence = f"For scores of shape {shape(x)} it raises {outcome.trouble}, and works for "
            self.results.found("square-only", f"{sentence}{SQUARE}.")
        elif out is None:
            self.piece.explain(outcome, form)
        else:
            sentence = f"Scores of shape {shape(x)} give shape {shape(out)}."
            self.results.found("wrong-shape", sentence)

    def _examine_dims(self, x: Tensor) -> None:
        """Check other values of ``dim``."""
        wrong = [dim for dim in (-2, 0) if not self._is_right(x, dim)]
        if wrong:
            sentence = f"Asked for the softmax over dimension {wrong[0]} it gives something else."
            self.results.found("softmax-axis", sentence)
        else:
            self.results.held("dim", "it follows dim")

    def _examine_extremes(self, x: Tensor) -> None:
        """Look at very large scores, and at one row far below the others."""
        low, wide = x.clone(), x.clone()
        low.view(-1, x.shape[-1])[0] -= LARGE
        wide[..., 0] -= LARGE
        for name, given, words in (
            ("nan", x + LARGE, "near {:g} give {}: exp overflows without the maximum"),
            ("nan", wide, "that lie {:g} apart give {}: take off the largest of a row"),
            ("underflow", low, "{:g} below those of other rows give {}: a row needs its own "
             "maximum"),
        ):  # fmt: skip
            out = self.weights(given)
            if out is not None and not self._is_right(given):
                sentence = f"Scores {words.format(LARGE, _of_first_row(out))}."
                self._tell(name, "large-scores", sentence)
                return
        self.results.held("large-scores", "very large and very small scores give no NaN")

    def _tell(self, name: str, key: str, sentence: str) -> None:
        """Report what unusual input shows: a finding only for those who are strict."""
        if self.options.strict:
            self.results.found(name, sentence)
        else:
            self.results.note(key, sentence)

    # --- with a mask ------------------------------------------------------------------------------

    def with_a_mask(self) -> None:
        """Report what the probes of attention functions say of attention with this softmax."""
        seen, results = Results(), self.results
        examine_attention(self._attention(), replace(self.options, call=None), seen)
        if self.masked is not None:
            self.piece.ask(self.masked)  # which is watched: does it change its scores?
        of_lengths = CAUSES["length-off-by-one"].fix if self.mask.role == "lengths" else ""
        for one in seen.findings:
            advice = of_lengths if one.name in ("mask-leak", "wrong-source") else ""
            results.found(one.name, one.sentence, one.evidence, advice=advice or one.advice)
        results.gap = results.gap or seen.gap
        for said in seen.notes:
            if said.key not in OF_ATTENTION:
                results.note(said.key, said)
        for said in seen.properties:
            if said.key not in OF_ATTENTION:
                results.held(said.key, said)

    def _attention(self) -> Callable:
        """Return attention with this softmax, which takes its mask by the same name."""
        mask, asked = self.mask, self.piece.caller.function

        @wraps(self.function, updated=())
        def attention(query: Tensor, key: Tensor, value: Tensor, **given: Tensor) -> Tensor:
            scores = query @ key.mT / query.shape[-1] ** 0.5
            form = self.form(scores, given.get(mask.name))
            tells = scores.device.type == "cpu" and mask.name in given
            if tells and self.masked is None and len(given[mask.name].unique()) > 1:
                self.masked = self.form(scores.detach().clone(), given[mask.name].clone())
            return asked(*form.arguments, **form.named) @ value

        default = Parameter.empty if mask.required else mask.default
        attention.__signature__ = Signature(
            [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in SIDES]
            + [Parameter(mask.name, Parameter.KEYWORD_ONLY, default=default)]
        )
        return attention


def scores(size: tuple[int, ...], seed: int = 0) -> Tensor:
    """Return scores that are all different, the same at every call."""
    return 1.5 * torch.randn(size, generator=torch.Generator().manual_seed(4 + seed))


def sample_of(x: Tensor, out: Tensor) -> Sample:
    """Return what a softmax did as a call of attention: the scores are the dot products."""
    x, out, unit = _of_four(x), _of_four(out), torch.eye(x.shape[-1])
    N, H, L, S = x.shape
    return Sample(x, unit, unit, out.float(), Sizes(N, H, L, S, E=1, Ev=S))


def _of_four(part: Tensor) -> Tensor:
    """Return a tensor of (N, H, L, S)."""
    return part[:, None] if part.ndim == 3 else part[(None,) * (4 - part.ndim)]


def _measured(sample: Sample) -> Way:
    """Return the way of a softmax that no table knows."""
    out, fitted = sample.output.double(), fit_scores(sample.output.double(), sample.products)
    if not same(out.sum(-1, keepdim=True).float(), torch.ones_like(out[..., :1])):
        cause, words = "not-normalised", SUMS
    elif fitted.good:
        words = f"The scores are multiplied by {fitted.factor:.4g} before the softmax."
        cause = "scale-other"
    elif same(out.sort(-1).values, sample.products.softmax(-1).sort(-1).values):
        cause, words = "position-mixing", AT_OTHER_KEYS
    else:
        cause, words = "not-normalised", NO_SOFTMAX
    return Way(cause, words, lambda *given: None)


def _of_first_row(out: Tensor) -> str:
    row = out.view(-1, out.shape[-1])[0]
    if row.isnan().any():
        return "NaN"
    return f"weights that sum to {row.sum().item():.3g}" if row.any() else "zeros"
