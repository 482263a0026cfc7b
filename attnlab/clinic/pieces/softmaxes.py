"""A softmax written by hand: its axis, its sums, and what it does with a mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attnlab.clinic._results import Options, Results
from attnlab.clinic.pieces.behaviour import Form, Subject, fit, numbers, plain_name, same, shape
from attnlab.clinic.pieces.softmax_verdicts import axis_name, judge, judge_masked

SHAPES = ((2, 3, 5, 6), (2, 5, 6), (5, 6))  # N, H, L, S
SQUARE = (6, 6)
DIMS = "dim axis d".split()
MASKS = "mask attnmask m attentionmask keep allowed validmask blocked bias paddingmask".split()
LENGTHS = "validlens validlen lengths lens validlengths seqlens".split()
LARGE = 1000.0


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
    subject = Subject(function, "softmax", options, results)
    subject.role = subject.name if subject.name.isidentifier() else subject.role
    subject.extra = False  # whether dim is passed to a function that names no arguments
    names = {plain_name(one.name): one for one in subject.parameters or []}
    mask = next((one for name, one in names.items() if name in (*MASKS, *LENGTHS)), None)
    if mask is None or mask.default is not mask.empty:
        _examine_plain(subject, options, needs_mask=mask is None)
    if mask is not None and not results.findings:
        _examine_masked(subject, options)
    subject.see_behaviour()


# --- without a mask -------------------------------------------------------------------------------


def _examine_plain(subject: Subject, options: Options, *, needs_mask: bool) -> None:
    results = subject.results
    found = _first_result(subject)
    if found is None:
        if needs_mask and _second_is_unknown(subject):
            _examine_masked(subject, options)
        else:
            _explain(subject)
        return
    x, form, out = found
    if not subject.see_noise(form, out):
        return
    verdict = judge(out, x.double())
    if verdict is not None and _is_right_for_three(subject, verdict):
        results.note(
            "dim", "It counts the dimension from the front: right for scores (N, L, S) only."
        )
        x = scores(SHAPES[1])
        form = _plain_form(subject, x)
        out, verdict = subject.values(form), None
    if verdict is not None:
        name, words, evidence = verdict
        results.found(name, f"{words[0].upper()}{words[1:]}.", evidence)
        return
    results.held("sums", "the weights of every query are the softmax of its scores and sum to 1")
    if x.ndim < 4:
        results.note("sizes", f"It was looked at with scores of shape {shape(x)}.")
    _see_dims(subject, x)
    _see_rest(subject, x, form, out)
    _see_extremes(subject, x, options)


def scores(size: tuple[int, ...]) -> Tensor:
    """Return scores that are all different, the same at every call."""
    return 1.5 * torch.randn(size, generator=torch.Generator().manual_seed(4))


def _plain_form(subject: Subject, x: Tensor, dim: int = -1) -> Form | None:
    known = dict.fromkeys(DIMS, dim)
    if subject.parameters:
        known.pop(plain_name(subject.parameters[0].name), None)
    if subject.parameters is None and not subject.extra:
        return Form((x,), {})
    return fit(subject.parameters, known, [x, dim])


def _first_result(subject: Subject) -> tuple[Tensor, Form, Tensor] | None:
    """Return scores, the call and its result: of the right shape if there is one."""
    kept = None
    for extra in (False, True) if subject.parameters is None else (False,):
        subject.extra = extra
        for size in (*SHAPES, SQUARE, SHAPES[0][-1:]):
            x = scores(size)
            form = _plain_form(subject, x)
            out = None if form is None else subject.values(form)
            if out is None:
                continue
            if size == SQUARE:  # it needs as many keys as queries, if there is no other result
                return kept
            if out.shape == x.shape:
                return x, form, out
            kept = kept or (x, form, out)
    return kept


def _explain(subject: Subject) -> None:
    """Report why there is no result; maybe there is one for as many keys as queries."""
    x = scores(SQUARE)
    form = _plain_form(subject, x)
    out = None if form is None else subject.values(form)
    other = _plain_form(subject, scores(SHAPES[2])) or Form((scores(SHAPES[2]),), {})
    if out is not None and out.shape == x.shape:
        trouble = subject.ask(other).trouble
        wrong = judge(out, x.double())
        also = f" and for (6, 6) {wrong[1]}" if wrong else ""
        sentence = f"For scores of shape (5, 6) it raises {trouble}{also}."
        subject.results.found("square-only", sentence, wrong[2] if wrong else None)
    else:
        subject.tensor(other)


def _second_is_unknown(subject: Subject) -> bool:
    plain = [one for one in subject.parameters or [] if one.kind is not one.VAR_KEYWORD]
    needed = [one for one in plain if one.default is one.empty]
    return len(needed) > 1 and plain_name(needed[1].name) not in DIMS


def _is_right_for_three(subject: Subject, verdict: tuple) -> bool:
    """Return whether softmax(dim=2) was meant for (N, L, S), where it is right."""
    x = scores(SHAPES[1])
    form = _plain_form(subject, x)
    out = None if form is None or verdict[0] != "softmax-axis" else subject.values(form)
    return out is not None and out.shape == x.shape and judge(out, x.double()) is None


def _see_dims(subject: Subject, x: Tensor) -> None:
    """Check other values of ``dim``, if the function takes it."""
    names = [plain_name(one.name) for one in subject.parameters or []]
    if not any(name in DIMS for name in names[1:]) or x.ndim < 2:
        return
    for dim in (-2, 0):
        form = _plain_form(subject, x, dim)
        out = subject.tensor(form)
        if out is None:
            return
        if not same(out, x.double().softmax(dim)):
            wrong = "the same result as dim=-1" if same(out, x.double().softmax(-1)) else "others"
            where = f"{axis_name(dim, x.ndim)} (dim={dim})"
            sentence = f"Asked for the softmax over {where} it does not give it: {wrong}."
            subject.results.found("softmax-axis", sentence)
            return
    subject.results.held("dim", "it follows dim")


def _see_rest(subject: Subject, x: Tensor, form: Form, out: Tensor) -> None:
    """Check memory, dtype and gradient."""
    if x.ndim > 1 and not subject.caller.changed:
        turned = x.transpose(-2, -1).contiguous().transpose(-2, -1)
        subject.see_memory(_plain_form(subject, turned), out)
    subject.see_dtype(_plain_form(subject, x.double()), torch.float64)
    _see_gradient(subject, form, x, lambda leaf: leaf.softmax(-1))


def _see_gradient(subject: Subject, form: Form, x: Tensor, right: Callable) -> None:
    if subject.caller.changed:
        return
    weights = scores((*x.shape[:-1], x.shape[-1] + 1))[..., 1:]
    leaf = x.double().requires_grad_()
    wanted = torch.autograd.grad((right(leaf) * weights).sum(), leaf)[0]
    subject.see_gradient(form, x, weights, wanted)


def _see_extremes(subject: Subject, x: Tensor, options: Options) -> None:
    """Look at very large scores, and at one row far below the others."""
    low = x.clone()
    low.view(-1, x.shape[-1])[0] -= LARGE
    wide = x.clone()
    wide[..., 0] -= LARGE
    for name, given, words in (
        ("nan", x + LARGE, f"scores near {LARGE:g} give {{}}: exp overflows without the maximum"),
        ("nan", wide, f"scores that lie {LARGE:g} apart give {{}}: take off the largest of a row"),
        ("underflow", low, f"a row of scores {LARGE:g} below the others gives {{}}: it needs its "
         "own maximum"),
    ):  # fmt: skip
        out = subject.values(_plain_form(subject, given))
        if out is None or same(out, given.double().softmax(-1), atol=1e-3):
            continue
        bad = out.view(-1, out.shape[-1])[0] if out.shape == x.shape else out.flatten()[:1]
        told = "NaN" if bad.isnan().any() else f"weights that sum to {bad.sum().item():.3g}"
        sentence = words.format(told)
        if options.strict:
            subject.results.found(name, f"{sentence[0].upper()}{sentence[1:]}.")
        else:
            subject.results.note("large-scores", f"{sentence[0].upper()}{sentence[1:]}.")
        return
    subject.results.held("large-scores", "very large and very small scores give no NaN")


# --- with a mask ----------------------------------------------------------------------------------


def _examine_masked(subject: Subject, options: Options) -> None:
    results, failed = subject.results, None
    for x, given, allowed in _masked_ways(subject, options):
        form = _masked_form(subject, x, given)
        if form is None:
            continue
        outcome = subject.ask(form)
        out = numbers(outcome.value)
        if out is None or out.shape != x.shape:
            failed = failed or (outcome, form, out, x)
            continue
        if not subject.see_noise(form, out):
            return
        exact = _in_float64(subject, x, given)
        result = out if exact is None else exact
        verdict = judge_masked(result, x.double(), allowed, by_length=given.ndim == 1)
        if verdict is not None:
            name, words, evidence = verdict
            results.found(name, f"{words[0].upper()}{words[1:]}.", evidence)
            return
        if given.dtype != torch.bool and given.ndim > 1:
            results.note("mask-dtype", f"It takes masks of {given.dtype}, not bool.")
        results.held("blocked-keys", "blocked keys get the weight 0, and the others share 1")
        _see_blocked_row(subject, options, x, given, allowed)
        blocked = ~allowed
        _see_gradient(
            subject, form, x, lambda s, b=blocked: s.masked_fill(b, -torch.inf).softmax(-1)
        )
        return
    if failed is None:
        x = scores(SHAPES[2])
        subject.tensor(Form((x, torch.ones(x.shape, dtype=torch.bool)), {}))
    elif failed[2] is not None:
        sentence = f"It returns shape {shape(failed[2])} for scores of shape {shape(failed[3])}."
        results.found("wrong-shape", sentence)
    else:
        subject.explain(failed[0], failed[1])


def _masked_ways(subject: Subject, options: Options) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield scores, the mask to be passed, and what it allows."""
    names = [plain_name(one.name) for one in subject.parameters or []]
    if any(name in LENGTHS for name in names):
        for size in SHAPES[1::-1]:
            lengths = torch.tensor([2, 4])
            real = torch.arange(size[-1]) < lengths.view(-1, *[1] * (len(size) - 1))
            yield scores(size), lengths, real.expand(size)
        return
    for size in SHAPES:
        allowed = torch.rand(size, generator=torch.Generator().manual_seed(3)) > 0.4
        allowed[..., 1], allowed[..., 4] = True, False  # some of both in every row
        first = allowed.view(-1, *size[-2:])[0].clone()
        masks = [(first, first.expand(size)), (allowed, allowed)]
        for mask, meant in masks:
            given = ~mask if options.mask == "blocked" else mask
            added = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
            kinds = [added] if options.mask == "additive" else [given, given.long(), added]
            yield from ((scores(size), one, meant) for one in kinds)


def _masked_form(subject: Subject, x: Tensor, given: Tensor) -> Form | None:
    known = {**dict.fromkeys((*MASKS, *LENGTHS), given), **dict.fromkeys(DIMS, -1)}
    if subject.parameters:
        known.pop(plain_name(subject.parameters[0].name), None)
    return fit(subject.parameters, known, [x, given, -1] if subject.parameters else [x, given])


def _in_float64(subject: Subject, x: Tensor, given: Tensor) -> Tensor | None:
    """Return the result for float64 scores, if there is one: it tells 0 from 1e-9."""
    given = given.double() if given.is_floating_point() else given
    form = _masked_form(subject, x.double(), given)
    out = subject.values(form)
    return out if out is not None and out.shape == x.shape else None


def _see_blocked_row(
    subject: Subject, options: Options, x: Tensor, given: Tensor, allowed: Tensor
) -> None:
    """Report what a row with no allowed key gives."""
    given = given.clone()
    if given.ndim == 1:
        given[0] = 0
    else:
        value = given[~allowed[(0,) * (x.ndim - given.ndim)]].view(-1)[:1]
        given.view(-1, given.shape[-1])[0] = value
    out = subject.values(_masked_form(subject, x, given))
    if out is None or out.shape != x.shape:
        return
    row = out.view(-1, x.shape[-1])[0]
    total = f"weights that sum to {row.sum().item():.3g}"
    what = "NaN" if row.isnan().any() else "zeros" if not row.any() else total
    sentence = f"A row in which no key is allowed gives {what}."
    if options.strict and what != "zeros":
        subject.results.found("blocked-row", sentence)
    else:
        subject.results.note("empty-row", sentence)
