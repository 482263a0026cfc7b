"""A softmax by itself: attention whose query is the scores, and whose key and value are units."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attnlab.clinic._hints import says_blocked, text_of
from attnlab.clinic._results import Options, Results
from attnlab.clinic.behaviour import examine_behaviour, examine_steadiness, examine_watch
from attnlab.clinic.functions.masks import STILL_BLOCKED
from attnlab.clinic.hypotheses import (
    INVERT,
    Recipe,
    Sample,
    Sizes,
    Way,
    explain,
    fit_scores,
    measured_masking,
    report,
    same,
)
from attnlab.clinic.names import role_of
from attnlab.clinic.pieces.calls import SAYS_BLOCKED, Form, Piece, fit, plain_name, shape

SHAPES = ((2, 3, 5, 6), (2, 5, 6), (5, 6))  # N, H, L, S
SQUARE = (6, 6)
DIMS = ("dim", "axis", "d")
MASK_ROLES = ("mask", "padding", "lengths")
LARGE = 1000.0
SUMS = "The weights of a query sum to {sums} instead of 1."
NO_SOFTMAX = "The weights of a query sum to 1 and are not the softmax of its scores."
AT_OTHER_KEYS = "The weights of a query are those of its softmax, but at the wrong keys."


def examine_softmax(function: Callable, options: Options, results: Results) -> None:
    """Report how a softmax behaves, with a mask or lengths if it takes them.

    With ``options.strict`` overflow is a finding and no note.
    """
    softmax = Softmax(function, options, results)
    mask, needed = softmax.mask, softmax.piece.needed()[1:]
    strange = [name for name in needed if plain_name(name) not in DIMS]
    strange = [name for name in strange if mask is None or name != mask.name]
    if strange:
        why = f"What {' and '.join(strange)} should be is not known."
        softmax.piece.unknown("", why, strange)
        return
    if mask is None or mask.default is not mask.empty:
        softmax.without_a_mask()
    if mask is not None and not results.findings:
        softmax.with_a_mask()
    examine_watch(softmax.piece, results)


class Softmax:
    """One examination of a softmax."""

    def __init__(self, function: Callable, options: Options, results: Results) -> None:
        self.function, self.options, self.results = function, options, results
        self.piece = Piece(function, options, results)
        self.blocked = options.mask == "blocked"
        self.extra: tuple[int, ...] = ()  # the dim for a function that names no arguments
        masks = [p for p in (self.piece.parameters or [])[1:] if role_of(p.name) in MASK_ROLES]
        self.mask = next(iter(masks), None)

    def form(self, x: Tensor, mask: Tensor | None = None, dim: int = -1) -> Form | None:
        """Return a call."""
        known = self.piece.parameters
        if known is None:
            return Form((x, *self.extra), {})
        given = dict.fromkeys(DIMS, dim)
        if mask is not None:
            given[plain_name(self.mask.name)] = mask
        if known:
            given[plain_name(known[0].name)] = x
        return fit(known, given, [] if known else [x])

    def weights(self, x: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor | None:
        """Return what it gives, if that has the shape of the scores."""
        form = self.form(x, mask, dim)
        out = None if form is None else self.piece.values(form)
        return out if out is not None and out.shape == x.shape else None

    # --- without a mask ---------------------------------------------------------------------------

    def without_a_mask(self) -> None:
        """Compare the weights with those of every known softmax."""
        x = self._first_scores()
        if x is None:
            self._fail()
            return
        sample = sample_of(x, self.weights(x))
        recipe = explain([sample], steps=["softmax"]) or _measured(sample)
        if not self._is_steady_and_right(recipe, sample, x):
            return
        words = "the weights of every query are the softmax of its scores and sum to 1"
        self.results.held("sums", words)
        if x.ndim == 3 and self.weights(scores(SHAPES[0])) is not None:
            words = "It counts the dimension from the front: right for scores (N, L, S) only."
            self.results.note("dim", words)
        elif x.ndim < 4:
            self.results.note("sizes", f"It was looked at with scores of shape {shape(x)}.")
        self._examine_dims(x)
        self._examine_extremes(x)
        self._examine_rest()

    def _first_scores(self) -> Tensor | None:
        """Return the first scores that work; of three dimensions where it is right for those only.

        ``softmax(dim=2)`` is meant for (N, L, S).
        """
        if self.piece.parameters is None and self.weights(scores(SHAPES[0])) is None:
            self.extra = (-1,)
        worked = [x for x in map(scores, SHAPES) if self.weights(x) is not None]
        right = [x for x in worked if self._is_right(x)]
        if any(x.ndim == 3 for x in right):
            return right[0]
        if worked or self.weights(scores(SQUARE)) is not None:
            return next(iter(worked), None)
        row = scores(SQUARE[:1])
        return None if self.weights(row) is None else row

    def _is_right(self, x: Tensor, dim: int = -1) -> bool:
        out = self.weights(x, dim=dim)
        return out is not None and same(out.float(), x.double().softmax(dim))

    def _fail(self) -> None:
        """Report what comes of a call; perhaps it works with as many keys as queries."""
        x, self.extra = scores(SHAPES[-1]), ()
        form = self.form(x) or Form((x,), {})
        trouble = self.piece.ask(form).trouble
        if trouble and self.weights(scores(SQUARE)) is not None:
            sentence = f"For scores of shape {SHAPES[-1]} it raises {trouble}, and works for "
            self.results.found("square-only", f"{sentence}{SQUARE}.")
        else:
            self._report_shape(form)

    def _report_shape(self, form: Form) -> None:
        """Report what is no result, or of another shape than the scores."""
        out = self.piece.tensor(form)
        if out is not None:
            sentence = f"Scores of shape {shape(form.arguments[0])} give shape {shape(out)}."
            self.results.found("wrong-shape", sentence)

    def _is_steady_and_right(
        self, recipe: Recipe, sample: Sample, x: Tensor, mask: Tensor | None = None
    ) -> bool:
        """Report the slips, or that it gives something else each time; return if there is none."""
        self.piece.draw = lambda seed: {"scores": scores(tuple(x.shape), seed)}
        self.piece.way = lambda inputs: self.form(inputs["scores"], _like(mask, inputs["scores"]))
        steady = examine_steadiness(self.piece, self.results)
        if steady and recipe.slips:
            weights, text = sample.output.double(), text_of(self.function)
            report(recipe, [sample], self.results, weights=weights, text=text)
        return steady and not recipe.slips

    def _examine_rest(self) -> None:
        if not self.piece.caller.changed:
            examine_behaviour(self.piece, self.results)

    def _examine_dims(self, x: Tensor) -> None:
        """Check other values of ``dim``, if the function takes it."""
        told = {plain_name(one.name) for one in (self.piece.parameters or [])[1:]}
        if not told.intersection(DIMS) or x.ndim < 2:
            return
        for dim in (-2, 0):
            if not self._is_right(x, dim):
                sentence = f"Asked for the softmax over dimension {dim} it gives something else."
                self.results.found("softmax-axis", sentence)
                return
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
            if out is None or self._is_right(given):
                continue
            row = out.view(-1, out.shape[-1])[0]
            self._tell(name, "large-scores", f"Scores {words.format(LARGE, _of_row(row))}.")
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
        """Compare the weights with those of every known use of a mask."""
        failed = None
        for x, mask, allowed in self._masked_ways():
            out = self.weights(x, mask)
            if out is not None:
                self._judge(x, mask, sample_of(x, out, allowed))
                return
            failed = failed or self.form(x, mask)
        if failed is not None:
            self._report_shape(failed)

    def _judge(self, x: Tensor, mask: Tensor, sample: Sample) -> None:
        recipe = _with_mask(sample, by_length=mask.ndim == 1)
        if recipe.masking is INVERT and not self.blocked and says_blocked(self.function):
            self.blocked = True
            self.results.note("convention", SAYS_BLOCKED)
            self.with_a_mask()
            return
        if recipe.masking is INVERT and self.blocked:
            recipe = replace(recipe, masking=STILL_BLOCKED)
        if not self._is_steady_and_right(recipe, sample, x, mask):
            return
        if mask.dtype != torch.bool and mask.ndim > 1:
            self.results.note("mask-dtype", f"It takes masks of {mask.dtype}, not bool.")
        words = "blocked keys get the weight 0, and the others share 1"
        self.results.held("blocked-keys", words)
        self._examine_blocked_row(x, mask, sample.allowed)
        self._examine_rest()

    def _masked_ways(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield scores, the mask to be passed, and what it allows."""
        if role_of(self.mask.name) == "lengths":
            for size in SHAPES[1::-1]:
                lengths = torch.tensor([2, 4])
                real = torch.arange(size[-1]) < lengths.view(-1, *[1] * (len(size) - 1))
                yield scores(size), lengths, real.expand(size)
            return
        for size in SHAPES:
            allowed = torch.rand(size, generator=torch.Generator().manual_seed(3)) > 0.4
            allowed[..., 1], allowed[..., 4] = True, False  # some of both in every row
            for mask in (allowed.view(-1, *size[-2:])[0].clone(), allowed):
                given = ~mask if self.blocked else mask
                kinds = [given, given.long()] if self.options.mask != "additive" else []
                for one in (*kinds, torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)):
                    yield scores(size), one, mask.expand(size)

    def _examine_blocked_row(self, x: Tensor, mask: Tensor, allowed: Tensor) -> None:
        """Report what a row with no allowed key gives."""
        mask = mask.clone()
        if mask.ndim == 1:
            mask[0] = 0
        else:
            first = ~allowed.reshape(-1, *allowed.shape[-2:])[0]
            rows = mask.view(-1, *mask.shape[-2:])[0]
            rows[0] = rows[first][0]
        out = self.weights(x, mask)
        if out is None:
            return
        what = _of_row(out.view(-1, x.shape[-1])[0])
        if self.options.strict and what == "zeros":
            return
        self._tell("blocked-row", "empty-row", f"A row in which no key is allowed gives {what}.")


def scores(size: tuple[int, ...], seed: int = 0) -> Tensor:
    """Return scores that are all different, the same at every call."""
    return 1.5 * torch.randn(size, generator=torch.Generator().manual_seed(4 + seed))


def sample_of(x: Tensor, out: Tensor, allowed: Tensor | None = None) -> Sample:
    """Return what a softmax did as a call of attention: the scores are the dot products."""
    x, out = (_of_four(part) for part in (x, out))
    unit, (N, H, L, S) = torch.eye(x.shape[-1]), x.shape
    may = None if allowed is None else _of_four(allowed)
    return Sample(x, unit, unit, out.float(), Sizes(N, H, L, S, E=1, Ev=S), may)


def _of_four(part: Tensor) -> Tensor:
    """Return a tensor of (N, H, L, S)."""
    return part[:, None] if part.ndim == 3 else part[(None,) * (4 - part.ndim)]


def _measured(sample: Sample) -> Recipe:
    """Return a recipe with what no table knows."""
    x, out = sample.products, sample.output.double()
    right, fitted = x.softmax(-1), fit_scores(out, x)
    if not out.isfinite().all():
        cause, words = "nan", "Ordinary scores give NaN or infinity."
    elif not same(sample.output.sum(-1, keepdim=True), torch.ones_like(out[..., :1])):
        cause, words = "not-normalised", SUMS
    elif (out > 0).all() and fitted.good:
        root = abs(fitted.factor - x.shape[-1] ** -0.5) < 1e-3
        cause = "scale-length" if root else "scale-other"
        words = f"The scores are multiplied by {fitted.factor:.4g} before the softmax"
        words += ", by the root of the number of keys." if root else "."
    elif same(sample.output.sort(-1).values, right.sort(-1).values):
        cause, words = "position-mixing", AT_OTHER_KEYS
    else:
        cause, words = "not-normalised", NO_SOFTMAX
    return Recipe(softmax=Way(cause, words, lambda *given: None))


def _with_mask(sample: Sample, *, by_length: bool) -> Recipe:
    """Return the recipe that gives weights under a mask, with a measured masking if need be."""
    recipe = explain([sample], steps=["masking", "softmax"])
    if recipe is not None:
        return recipe
    if by_length:
        lengths = sample.allowed.sum(-1, keepdim=True)
        for step in (-1, 1):
            moved = torch.arange(sample.sizes.S) < lengths + step
            if Recipe().gives(sample._replace(allowed=moved)):
                first = int(lengths.flatten()[0])
                words = f"{first} real keys are read as {first + step}."
                return Recipe(masking=Way("length-off-by-one", words, lambda *given: None))
    weights = sample.output.double()
    return Recipe(masking=measured_masking(sample.products, weights, sample.allowed))


def _of_row(row: Tensor) -> str:
    if row.isnan().any():
        return "NaN"
    return f"weights that sum to {row.sum().item():.3g}" if row.any() else "zeros"


def _like(mask: Tensor | None, x: Tensor) -> Tensor | None:
    """Return a mask on the device of the scores, and of their dtype if it is added to them."""
    return mask if mask is None else mask.to(x if mask.is_floating_point() else x.device)
