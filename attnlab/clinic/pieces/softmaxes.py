"""A softmax written by hand, held against the right one and the known slips."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from itertools import combinations

import torch
from torch import Tensor

from attnlab.clinic import names
from attnlab.clinic._hints import says_blocked
from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Options, Results
from attnlab.clinic.behaviour import examine_behaviour, examine_steadiness, examine_watch
from attnlab.clinic.pieces.calls import (
    SAYS_BLOCKED,
    Form,
    Piece,
    Verdict,
    fit,
    numbers,
    plain_name,
    same,
    shape,
)

SHAPES = ((2, 3, 5, 6), (2, 5, 6), (5, 6))  # N, H, L, S
SQUARE = (6, 6)
AXES = ("batch", "heads", "queries", "keys")
DIMS = ("dim", "axis", "d")
LARGE = 1000.0
SURE = 1e-4  # by how much a row may miss the sum of 1
Way = tuple[str | None, str, Tensor]  # a name (None if right), words, and the weights


def examine_softmax(function: Callable, options: Options, results: Results) -> None:
    """Report how a softmax behaves, with a mask if it takes one.

    Parameters
    ----------
    function : callable
        ``(scores)``, ``(scores, dim)``, ``(scores, mask)`` or ``(scores, lengths)``.
    options : Options
        ``mask`` says what True means; with ``strict`` overflow is a finding and no note.
    results : Results
        Is written into.

    See Also
    --------
    attnlab.attention.attention_weights : a right one with a mask.
    torch.softmax : a right one without.
    """
    examined = Softmax(function, options, results)
    mask = examined.mask
    if mask is None or mask.default is not mask.empty:
        examined.without_a_mask()
    if mask is not None and not results.findings:
        examined.with_a_mask()
    examine_watch(examined.piece, results)


class Softmax:
    """One examination of a softmax."""

    def __init__(self, function: Callable, options: Options, results: Results) -> None:
        self.piece = Piece(function, options, results)
        self.results, self.options = results, options
        self.blocked = options.mask == "blocked"
        self.says_blocked = options.mask is None and says_blocked(function)
        self.extra = False  # whether dim is passed to a function that names no arguments
        known = [one for one in self.piece.parameters or [] if one.kind is not one.VAR_KEYWORD]
        self.others = [one for one in known[1:] if plain_name(one.name) not in DIMS]
        needed = [one for one in self.others if one.default is one.empty]
        named = [one for one in self.others if names.role_of(one.name) in MASK_ROLES]
        self.mask: inspect.Parameter | None = next(iter(named or needed), None)
        self.sure = bool(named)  # its name says that it is a mask

    # --- without a mask ---------------------------------------------------------------------------

    def without_a_mask(self) -> None:
        """Compare the weights with those of the right softmax and of the known slips."""
        found = self._first_result()
        if found is None:
            self._explain()
            return
        x, out = found
        verdict = judge(out, x.double())
        if verdict is not None and verdict.name == "softmax-axis" and self._right_for_three():
            words = "It counts the dimension from the front: right for scores (N, L, S) only."
            self.results.note("dim", words)
            x, verdict = scores(SHAPES[1]), None
        self._use(x, self.plain_form)
        if not examine_steadiness(self.piece, self.results):
            return
        if verdict is not None:
            self._found(verdict)
            return
        sentence = "the weights of every query are the softmax of its scores and sum to 1"
        self.results.held("sums", sentence)
        if x.ndim < 4:
            self.results.note("sizes", f"It was looked at with scores of shape {shape(x)}.")
        self._see_dims(x)
        self._rest()
        self._see_extremes(x)

    def plain_form(self, x: Tensor, dim: int = -1) -> Form | None:
        """Return a call without a mask."""
        if self.piece.parameters is None:
            return Form((x, dim) if self.extra else (x,), {})
        return fit(
            self.piece.parameters,
            self._known(x, dict.fromkeys(DIMS, dim)),
            [x][len(self.piece.parameters) :],
        )

    def _known(self, x: Tensor, others: dict[str, object]) -> dict[str, object]:
        """Return the arguments by name: the first is the scores."""
        first = [plain_name(one.name) for one in self.piece.parameters[:1]]
        return {**others, **dict.fromkeys(first, x)}

    def _use(self, x: Tensor, form: Callable[[Tensor], Form | None]) -> None:
        """Let the table of behaviour ask with these scores."""
        self.piece.draw = lambda seed: {"scores": scores(tuple(x.shape), seed)}
        self.piece.way = lambda inputs: form(inputs["scores"])

    def _rest(self) -> None:
        if not self.piece.caller.changed:
            examine_behaviour(self.piece, self.results)

    def _found(self, verdict: Verdict, advice: str = "") -> None:
        words = f"{verdict.words[0].upper()}{verdict.words[1:]}."
        self.results.found(verdict.name, words, verdict.evidence, advice=advice)

    def _first_result(self) -> tuple[Tensor, Tensor] | None:
        """Return scores and the result for them: of the right shape if there is one."""
        kept = None
        for extra in (False, True) if self.piece.parameters is None else (False,):
            self.extra = extra
            for size in (*SHAPES, SQUARE, SHAPES[0][-1:]):
                x = scores(size)
                out = self.piece.values(self.plain_form(x))
                if out is None:
                    continue
                if size == SQUARE:  # it needs as many keys as queries, if there is no other result
                    return kept
                if out.shape == x.shape:
                    return x, out
                kept = kept or (x, out)
        return kept

    def _explain(self) -> None:
        """Report why there is no result; maybe there is one for as many keys as queries."""
        x, other = scores(SQUARE), self.plain_form(scores(SHAPES[2]))
        out = self.piece.values(self.plain_form(x))
        if other is None:
            self.piece.tensor(Form((scores(SHAPES[2]),), {}))
        elif out is not None and out.shape == x.shape:
            trouble = self.piece.ask(other).trouble
            wrong = judge(out, x.double())
            also = f" and for (6, 6) {wrong.words}" if wrong else ""
            sentence = f"For scores of shape (5, 6) it raises {trouble}{also}."
            self.results.found("square-only", sentence, wrong and wrong.evidence)
        else:
            self.piece.tensor(other)

    def _right_for_three(self) -> bool:
        """Return whether softmax(dim=2) was meant for (N, L, S), where it is right."""
        x = scores(SHAPES[1])
        out = self.piece.values(self.plain_form(x))
        return out is not None and same(out, x.double().softmax(-1))

    def _see_dims(self, x: Tensor) -> None:
        """Check other values of ``dim``, if the function takes it."""
        told = [plain_name(one.name) for one in (self.piece.parameters or [])[1:]]
        if not any(name in DIMS for name in told) or x.ndim < 2:
            return
        for dim in (-2, 0):
            out = self.piece.tensor(self.plain_form(x, dim))
            if out is None:
                return
            if not same(out, x.double().softmax(dim)):
                last = same(out, x.double().softmax(-1))
                wrong = "the same result as dim=-1" if last else "others"
                where = f"{axis_name(dim, x.ndim)} (dim={dim})"
                sentence = f"Asked for the softmax over {where} it does not give it: {wrong}."
                self.results.found("softmax-axis", sentence)
                return
        self.results.held("dim", "it follows dim")

    def _see_extremes(self, x: Tensor) -> None:
        """Look at very large scores, and at one row far below the others."""
        low, wide = x.clone(), x.clone()
        low.view(-1, x.shape[-1])[0] -= LARGE
        wide[..., 0] -= LARGE
        for name, given, words in (
            ("nan", x + LARGE, f"Scores near {LARGE:g} give {{}}: exp overflows without the "
             "maximum."),
            ("nan", wide, f"Scores that lie {LARGE:g} apart give {{}}: take off the largest of a "
             "row."),
            ("underflow", low, f"A row of scores {LARGE:g} below the others gives {{}}: it needs "
             "its own maximum."),
        ):  # fmt: skip
            out = self.piece.values(self.plain_form(given))
            if out is None or same(out, given.double().softmax(-1), atol=1e-3):
                continue
            bad = out.view(-1, out.shape[-1])[0] if out.shape == x.shape else out.flatten()[:1]
            told = "NaN" if bad.isnan().any() else f"weights that sum to {bad.sum().item():.3g}"
            if self.options.strict:
                self.results.found(name, words.format(told))
            else:
                self.results.note("large-scores", words.format(told))
            return
        self.results.held("large-scores", "very large and very small scores give no NaN")

    # --- with a mask ------------------------------------------------------------------------------

    def with_a_mask(self) -> None:
        """Compare the weights with those of the right mask and of the known slips."""
        failed = None
        for x, given, allowed in self._masked_ways():
            form = self.masked_form(x, given)
            if form is None:
                break
            outcome = self.piece.ask(form)
            out = numbers(outcome.value)
            if out is None or out.shape != x.shape:
                failed = failed or (outcome, form, out, x)
                continue
            self._judge_masked(x, given, allowed, out)
            return
        asked = f"{self.piece.who}({', '.join(one.name for one in self.piece.parameters)})"
        if failed is None or not self.sure:
            strange = [one.name for one in self.others]
            words = f"What {' and '.join(strange)} should be is not known."
            self.piece.unknown(asked, words, strange)
        elif failed[2] is not None:
            sentence = f"It returns shape {shape(failed[2])} for scores of shape "
            self.results.found("wrong-shape", f"{sentence}{shape(failed[3])}.")
        else:
            self.piece.explain(failed[0], failed[1])

    def _judge_masked(self, x: Tensor, given: Tensor, allowed: Tensor, out: Tensor) -> None:
        self._use(x, lambda x: self.masked_form(x, _like(given, x)))
        exact = self.piece.values(self.masked_form(x.double(), _like(given, x.double())))
        exact = out if exact is None or exact.shape != x.shape else exact  # tells 0 from 1e-9
        verdict = judge_masked(exact, x.double(), allowed, by_length=given.ndim == 1)
        if verdict is not None and verdict.name == "mask-inverted" and self.says_blocked:
            self.blocked, self.says_blocked = True, False
            self.results.note("convention", SAYS_BLOCKED)
            self.with_a_mask()
            return
        if verdict is not None and not self.sure:
            asked = f"{self.piece.who}({self.masked_form(x, given)})"
            name = self.mask.name
            self.piece.unknown(asked, f"What {name} should be is not known.", [name])
            return
        if not examine_steadiness(self.piece, self.results):
            return
        if verdict is not None:
            self._found(verdict, ADVICE.get(verdict.name, "") if not self.options.mask else "")
            return
        if given.dtype != torch.bool and given.ndim > 1:
            self.results.note("mask-dtype", f"It takes masks of {given.dtype}, not bool.")
        sentence = "blocked keys get the weight 0, and the others share 1"
        self.results.held("blocked-keys", sentence)
        self._see_blocked_row(x, given, allowed)
        self._rest()

    def _masked_ways(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield scores, the mask to be passed, and what it allows."""
        if names.role_of(self.mask.name) == "lengths":
            for size in SHAPES[1::-1]:
                lengths = torch.tensor([2, 4])
                real = torch.arange(size[-1]) < lengths.view(-1, *[1] * (len(size) - 1))
                yield scores(size), lengths, real.expand(size)
            return
        for size in SHAPES:
            allowed = torch.rand(size, generator=torch.Generator().manual_seed(3)) > 0.4
            allowed[..., 1], allowed[..., 4] = True, False  # some of both in every row
            first = allowed.view(-1, *size[-2:])[0].clone()
            for mask in (first, allowed):
                given = ~mask if self.blocked else mask
                added = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
                kinds = [given, given.long(), added]
                for one in kinds[2:] if self.options.mask == "additive" else kinds:
                    yield scores(size), one, mask.expand(size)

    def masked_form(self, x: Tensor, given: Tensor) -> Form | None:
        """Return a call with a mask."""
        others = {plain_name(self.mask.name): given, **dict.fromkeys(DIMS, -1)}
        return fit(self.piece.parameters, self._known(x, others), [])

    def _see_blocked_row(self, x: Tensor, given: Tensor, allowed: Tensor) -> None:
        """Report what a row with no allowed key gives."""
        given = given.clone()
        if given.ndim == 1:
            given[0] = 0
        else:
            value = given[~allowed[(0,) * (x.ndim - given.ndim)]].view(-1)[:1]
            given.view(-1, given.shape[-1])[0] = value
        out = self.piece.values(self.masked_form(x, given))
        if out is None or out.shape != x.shape:
            return
        row = out.view(-1, x.shape[-1])[0]
        total = f"weights that sum to {row.sum().item():.3g}"
        what = "NaN" if row.isnan().any() else "zeros" if not row.any() else total
        sentence = f"A row in which no key is allowed gives {what}."
        if self.options.strict and what != "zeros":
            self.results.found("blocked-row", sentence)
        else:
            self.results.note("empty-row", sentence)


MASK_ROLES = ("mask", "padding", "lengths")
ADVICE = {
    "mask-inverted": "scores.masked_fill(~mask, -torch.inf), or pass mask=\"blocked\" to diagnose "
    "if True is meant to block.",
    "mask-added": "scores.masked_fill(~mask, -torch.inf), or pass mask=\"additive\" to diagnose if "
    "the mask is meant to hold 0 and -inf.",
}  # fmt: skip


def scores(size: tuple[int, ...], seed: int = 0) -> Tensor:
    """Return scores that are all different, the same at every call."""
    return 1.5 * torch.randn(size, generator=torch.Generator().manual_seed(4 + seed))


def _like(given: Tensor, x: Tensor) -> Tensor:
    """Return a mask on the device of the scores, and of their dtype if it is added to them."""
    return given.to(x) if given.is_floating_point() else given.to(x.device)


def axis_name(dim: int, ndim: int) -> str:
    """Return what a dimension of scores holds, such as ``"the queries"``."""
    held = {1: AXES[3:], 2: AXES[2:], 3: (AXES[0], *AXES[2:]), 4: AXES}[ndim]
    return f"the {held[dim]}"


# --- the table without a mask ---------------------------------------------------------------------


def judge(out: Tensor, x: Tensor) -> Verdict | None:
    """Return what is wrong with weights made from scores without a mask.

    Parameters
    ----------
    out : Tensor of float64
        What came back.
    x : Tensor of float64, shape (..., L, S)
        The scores.

    Returns
    -------
    Verdict or None
        None if they are the softmax over the last dimension.
    """
    if out.shape != x.shape:
        return Verdict("wrong-shape", f"scores of shape {shape(x)} give shape {shape(out)}")
    way = next((way for way in (*_axes(x), *_slips(x)) if same(out, way[2], atol=1e-5)), None)
    if way is not None:
        return None if way[0] is None else Verdict(way[0], way[1], _weights(out))
    if not out.isfinite().all():
        return Verdict("nan", "ordinary scores give NaN or infinity", _weights(out))
    if ((out.sum(-1) - 1).abs() > SURE).any():
        return Verdict("not-normalised", f"{_sums(out)}{_divided(out, x)}", _weights(out))
    return _other_numbers(out, x)


def _axes(x: Tensor) -> Iterator[Way]:
    """Yield the softmax over every dimension and over several, the right one first."""
    yield None, "", x.softmax(-1)
    for size in range(1, x.ndim + 1):
        for dims in combinations(range(-x.ndim, 0), size):
            positive = (x - x.amax(dims, keepdim=True)).exp()
            weights = positive / positive.sum(dims, keepdim=True)
            where = " and ".join(axis_name(dim, x.ndim) for dim in dims)
            if size == 1:
                where += f" (dimension {dims[0]})"
            elif size == x.ndim:
                where = "all scores together"
            else:
                where += " together"
            rest = ", those of a key to 1" if dims == (-2,) else ""
            yield "softmax-axis", f"the softmax runs over {where}: {_sums(weights)}{rest}", weights


def _slips(x: Tensor) -> Iterator[Way]:
    """Yield what other known slips give."""
    ends, top = x.exp(), x.argmax(-1)
    shifted = (x - x.amax(-1, keepdim=True)).exp()
    bare = "nothing divides the exponentials"
    yield "not-normalised", "it returns the logarithms of the weights", x.log_softmax(-1)
    words = "only the largest score of every row gets a weight: it is 1"
    yield "hard", words, torch.nn.functional.one_hot(top, x.shape[-1]).to(x)
    for words, weights in (
        (bare, ends),
        (bare, shifted),
        ("it is a sigmoid of every score by itself", x.sigmoid()),
        ("it returns the scores themselves", x),
        ("the scores are divided by their sum, without exp", x / x.sum(-1, keepdim=True)),
    ):
        yield "not-normalised", f"{_sums(weights)}: {words}", weights
    length = x.shape[-1] ** -0.5
    words = f"the scores are multiplied by {length:.4g} before the softmax, the root of the keys"
    yield "scale-length", words, (x * length).softmax(-1)
    weights = x.softmax(-1)
    words = "the weights of a query are right and at the wrong keys"
    for way in (
        weights.sort(-1).values,
        weights.sort(-1, descending=True).values,
        weights.flip(-1),
    ):
        yield "position-mixing", words, way


def _sums(weights: Tensor) -> str:
    sums = weights.sum(-1)
    return f"the weights of a query sum to {sums.min().item():.4g} to {sums.max().item():.4g}"


def _divided(out: Tensor, x: Tensor) -> str:
    """Return what is known of the divisor of exponentials."""
    ratio = out / x.exp()
    if not same(ratio, ratio[..., :1].expand_as(ratio), atol=1e-4):
        return ""
    missing = 1 / out.sum(-1) - 1
    some = (missing > 0).all() and missing.max() < 0.5
    words = ": the exponentials are divided by something else than their own sum"
    return f"{words}{', e.g. by the sum plus a constant' if some else ''}"


def _other_numbers(out: Tensor, x: Tensor) -> Verdict:
    """Return a verdict on rows that sum to 1 but are not the softmax of their scores."""
    centred = x - x.mean(-1, keepdim=True)
    if (out > 0).all():
        logs = out.log() - out.log().mean(-1, keepdim=True)
        slope = ((logs * centred).sum() / (centred * centred).sum()).item()
        if same(logs, slope * centred, atol=1e-3):
            words = f"the scores are multiplied by {slope:.4g} before the softmax"
            return Verdict("scale-other", words, _weights(out))
    two = x.flatten(0, -2)[0].topk(min(2, x.shape[-1]))
    high, low = two.values.tolist()[0], two.values.tolist()[-1]
    first, second = (out.flatten(0, -2)[0][two.indices[place]].item() for place in (0, -1))
    words = (
        f"the rows sum to 1 and are not the softmax: scores {high:.3g} and {low:.3g} should give "
        f"weights in the ratio {math.exp(high - low):.3g}, and give {first:.3g} and {second:.3g}"
    )
    return Verdict("not-normalised", words, _weights(out))


# --- the table with a mask ------------------------------------------------------------------------


def judge_masked(
    out: Tensor, x: Tensor, allowed: Tensor, *, by_length: bool = False
) -> Verdict | None:
    """Return what is wrong with weights made with a mask.

    Parameters
    ----------
    out, x : Tensor of float64, shape (..., L, S)
        Weights and scores.
    allowed : Tensor of bool, same shape
        What the mask was meant to allow.
    by_length : bool
        Whether it was said by the lengths of the sequences.

    Returns
    -------
    Verdict or None
        None if blocked keys get nothing and the others share 1.
    """
    evidence = _weights(out, allowed)
    for name, words, weights in _maskings(x, allowed, by_length=by_length):
        if same(out, weights):
            return None if name is None else Verdict(name, words, evidence)
    if not out.isfinite().all():
        return Verdict("nan", "a mask with allowed keys in every row gives NaN", evidence)
    leak = _leak(out, x, allowed, evidence)
    turned = None if leak else _leak(out, x, ~allowed, evidence)
    if turned is not None:
        return Verdict("mask-inverted", f"{TRUE_BLOCKS}, and moreover {turned.words}", evidence)
    if leak is not None:
        return leak
    if ((out.sum(-1) - 1).abs() > SURE).any():
        return Verdict("not-normalised", _sums(out), evidence)
    share = (out * ~allowed).sum(-1).max().item()
    return Verdict("mask-leak", f"blocked keys keep up to {share:.3g} of a row", evidence)


TRUE_BLOCKS = "it reads True as blocked, as in nn.MultiheadAttention"


def _maskings(x: Tensor, allowed: Tensor, *, by_length: bool) -> Iterator[Way]:
    """Yield what the right mask and known slips give."""
    plain, filled = x.softmax(-1), x.masked_fill(~allowed, -torch.inf)
    yield None, "", filled.softmax(-1)
    yield "mask-ignored", "the mask changes nothing", plain
    words = f"the keys that the mask allows get the weight 0: {TRUE_BLOCKS}"
    yield "mask-inverted", words, x.masked_fill(allowed, -torch.inf).softmax(-1)
    after = f"the mask comes after the softmax: {_sums(plain * allowed)}"
    yield "mask-after-softmax", after, plain * allowed
    words = f"{TRUE_BLOCKS}, and the mask comes after the softmax: {_sums(plain * ~allowed)}"
    yield "mask-inverted", words, plain * ~allowed
    if by_length:
        lengths = allowed.sum(-1, keepdim=True)
        place, first = torch.arange(x.shape[-1]), lengths.flatten()[0].item()
        for step in (-1, 1):
            words = f"{first} real keys are read as {first + step}"
            weights = x.masked_fill(place >= lengths + step, -torch.inf).softmax(-1)
            yield "length-off-by-one", words, weights
    bare = x.exp() * allowed
    yield "not-normalised", f"{_sums(bare)}: nothing divides the exponentials", bare
    for fill in (-torch.inf, -1e9):
        for name, words, weights in _axes(x.masked_fill(~allowed, fill)):
            if name is not None:
                yield name, words, weights


def _leak(out: Tensor, x: Tensor, allowed: Tensor, evidence: Evidence) -> Verdict | None:
    """Return a verdict if blocked scores were given a finite number, or one was added to them."""
    if (out <= 0).any():
        return None
    shift = torch.where(allowed, out.log() - x, torch.nan).nanmean(-1, keepdim=True)
    if not same((out.log() - x)[allowed], shift.expand_as(x)[allowed], atol=1e-4):
        return None
    filled = (out.log() - shift)[~allowed]  # the scores that the blocked keys seem to have
    added = filled - x[~allowed]
    share = f"blocked keys keep up to {(out * ~allowed).sum(-1).max().item():.3g} of a row"
    value, step = filled.mean().item(), added.mean().item()
    if _flat(filled) and abs(value) < 1e-12:
        words = f"blocked scores become 0, a score like any other, and {share}"
        return Verdict("mask-multiplied", words, evidence)
    if _flat(filled):
        words = f"blocked scores are set to {value:.3g}, and {share}"
        return Verdict("mask-finite", words, evidence)
    if _flat(added) and abs(abs(step) - 1) < 1e-4:
        words = f"the mask is added as 0 and 1: it moves scores by {abs(step):.3g}, and {share}"
        return Verdict("mask-added", words, evidence)
    if _flat(added):
        words = f"blocked scores are changed by {step:.3g} only, and {share}"
        return Verdict("mask-finite", words, evidence)
    return None


def _flat(values: Tensor) -> bool:
    return bool(values.max() - values.min() < 1e-4)


def _weights(out: Tensor, allowed: Tensor | None = None) -> Evidence:
    """Return the weights of the first sequence and head, with the sum of every row."""
    matrix = out.reshape(-1, *out.shape[-2:])[0] if out.ndim > 1 else out[None]
    shown, sums = matrix[:7, :6], matrix.sum(-1)[:7, None]
    rows = tuple(f"query {i}" for i in range(len(shown)))
    columns = tuple(f"key {j}" for j in range(shown.shape[1]))
    if allowed is not None:
        first = allowed.expand(out.shape).reshape(-1, *out.shape[-2:])[0]
        stars = [", ".join(map(str, (~row).nonzero().flatten().tolist())) for row in first[:7]]
        rows = tuple(f"{name} (blocked: {keys})" for name, keys in zip(rows, stars, strict=True))
    caption = "Weights of the first sequence and head:"
    return Evidence(caption, torch.cat([shown, sums], -1), rows, (*columns, "sum"), shaded=True)
