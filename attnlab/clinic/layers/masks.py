"""Whether a layer's mask hides what it should: replace hidden tokens and see who moves."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from attnlab.clinic._hints import says_additive, says_blocked
from attnlab.clinic._results import Options, Results
from attnlab.clinic.hypotheses import (
    INVERT,
    MASKINGS,
    Recipe,
    Sample,
    Sizes,
    report,
)
from attnlab.clinic.layers.anatomy import Heads, attentions
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.forms import accepted, forms_of
from attnlab.clinic.layers.influence import influence, influence_table
from attnlab.clinic.layers.plans import STACKS, is_torchs
from attnlab.clinic.masks import LENGTHS, Form, examine_both, judged, pattern, reads_mask

LOW = -1e6  # in the place of minus infinity, which times 0 is NaN
SPOILED = (
    "split-and-merge split-without-transpose merge-without-transpose attends-over-heads "
    "position-mixing detached softmax-axis not-normalised wrong-source"
).split()
EXTRA = {"bias_k": "add_bias_kv", "add_zero_attn": "add_zero_attn"}  # give rows one more key
Known = tuple[Heads, Recipe] | None


def examine_masks(subject: Subject, known: Known, options: Options, results: Results) -> None:
    """Examine every mask argument of forward, one after the other and then two together."""
    torchs = is_torchs(subject.layer) and subject.plan.kind == "memory"
    if torchs or isinstance(subject.layer, STACKS):
        words = "Masks of a whole transformer layer of torch were not checked."
        results.note("masks-left-out", words)
        return
    if results.has(*SPOILED):
        return
    right: dict[str, Form] = {}
    for name in subject.plan.masks:
        before = len(results.findings)
        form = _find_form(subject, name, options, results)
        form = form and _judge_form(subject, name, form, known, options, results)
        if len(results.findings) > before:
            return
        right |= {name: form} if form else {}
    for pair in itertools.combinations(right, 2) if known is not None else ():
        _judge_heads(subject, {name: right[name] for name in pair}, known, results)


def _find_form(subject: Subject, name: str, options: Options, results: Results) -> Form | None:
    adapter, torchs = subject.plan.adapter, is_torchs(subject.layer)
    if adapter is not None and not reads_mask(adapter):
        results.note("masks-left-out", "The function call= does not use its mask.")
        return None
    says = options.mask == "additive" or "bias" in name or says_additive(subject.layer, name)
    kinds: tuple[str, ...] = ("bool", "float", "int", "additive")
    if torchs:
        kinds = ("bool",)
    elif says and adapter is None:
        kinds = ("additive",)
    flipped = adapter is None and (options.mask == "blocked" or torchs)
    form = accepted(subject, name, forms_of(subject, name, kinds, flipped))
    of_heads = form is None or ("pad" in name.lower() and form.letters != "(N, S)")
    if of_heads and (heads := subject.sizes.heads or 1) > 1:
        # as many sequences as heads: a mask of the batch then lies over the heads
        sizes = Sizes(heads, 1, subject.sizes.length, subject.sizes.length)
        for one in forms_of(subject, name, kinds, flipped):
            if 0 in one.shared or (form is not None and one.letters != "(N, S)"):
                continue
            mask = one(pattern(sizes, LENGTHS), subject.dtype)
            if subject(subject.x(heads), named={name: mask}) is not None:
                results.found(
                    "mask-broadcast",
                    f"A mask of shape {one.letters} is accepted only with as many sequences as "
                    f"heads ({heads}), and is then spread over the heads: it lacks the dimension "
                    "of the heads.",
                )
                return None
    if form is None:
        results.unexamined(
            f"No shape of {name} that was tried is accepted ({subject.trouble}): what it hides was "
            "not checked.",
            remedy="Pass call=..., a function that gives the layer its mask.",
        )
    return form


# --- who moves whom -------------------------------------------------------------------------------


def _judge_form(
    subject: Subject, name: str, form: Form, known: Known, options: Options, results: Results
) -> Form | None:
    """Report what a mask does wrong; return how it is to be given, if it is right."""
    length = subject.sizes.length
    if length < 4:
        results.note("masks-left-out", f"{name} was not checked: {length} tokens are too few.")
        return None
    allowed = _pattern(length, form)
    base, values = (
        influence(subject),
        influence(
            subject, mask=lambda n: {name: form(allowed.expand(n, 1, -1, -1), subject.dtype)}
        ),
    )
    if values is None or base is None:
        if not subject.caller.out_of_time:
            sentence = f"With {name} of shape {form.letters} it raises {subject.trouble}."
            results.found("raises", sentence)
        return None
    seen, could = values > subject.tolerance, base > subject.tolerance
    right = _fits(seen, could, allowed, form)
    inverted = _fits(seen, could, ~allowed, form) and not right
    if inverted and _by_convention(subject, name, form, results):
        form, right, inverted = form.turned(), True, False
    if form.per_key and _only_queries(subject, name, form, allowed):
        words = next(way.words for way in MASKINGS if way.cause == "mask-queries")
        results.found("mask-queries", words.format(The_mask=name))
    elif known is not None and not (inverted and form.flipped):
        _judge_heads(subject, {name: form}, known, results)
    if results.findings:
        return None
    if not right:
        _tell(inverted, name, form, allowed, values, subject, results)
        return None
    if "pad" in name.lower() and not form.flipped and form.kind != "additive":
        words = f"{name}: True means a real token; torch's argument of this name is opposite."
        results.note("mask-convention", words)
    words = f"{name} of shape {form.letters} hides what it should, and nothing else"
    results.held("blocked-keys", words)
    _tell_blocked_row(subject, name, form, options, results)
    return form


def _pattern(length: int, form: Form) -> Tensor:
    """Return who may see whom: for keys some tokens, else oneself and the token before."""
    place = torch.arange(length)
    if form.letters == LENGTHS.letters:
        return (place < length - 2).expand(length, length)
    if form.per_key:
        return ((place % 3 != 1) & (place < length - 1)).expand(length, length)
    return ((place[:, None] - place) % length) <= 1


def _fits(seen: Tensor, could: Tensor, allowed: Tensor, form: Form) -> bool:
    """Return whether a token moves those that may see it, and would without a mask."""
    same = (seen == (allowed & could)) | torch.eye(len(seen), dtype=torch.bool)
    return bool(same[allowed[0]].all()) if form.per_key else bool(same.all())


def _only_queries(subject: Subject, name: str, form: Form, allowed: Tensor) -> bool:
    """Return whether a mask of padded tokens changes their own outputs and no other."""
    batch = 3 if subject.sizes.heads != 3 else 4
    x, every = subject.x(batch), allowed.expand(batch, 1, -1, -1)
    masks = (form(may, subject.dtype) for may in (every, torch.ones_like(every)))
    replies = [subject(x, named={name: mask}) for mask in masks]
    if any(reply is None for reply in replies):
        return False
    one, two = (reply.output.nan_to_num(nan=1e3) for reply in replies)
    change, real = (one - two).abs().amax(dim=(0, 2)), allowed[0]
    return bool(change[real].max() < subject.tolerance < change[~real].max())


def _by_convention(subject: Subject, name: str, form: Form, results: Results) -> bool:
    """Return whether the other meaning of True is the one that it says it has."""
    forward = getattr(type(subject.layer), "forward", None)
    own = not getattr(forward, "__module__", "").startswith("torch.nn")
    if is_torchs(subject.layer) and own:
        sentence = "True means may attend, unlike in the class that it inherits from."
    elif "pad" in name.lower() and not form.flipped:
        sentence = "True means padding, as in torch."
    elif not form.flipped and says_blocked(subject.layer, name):
        sentence = "True means blocked, as its text says and as in nn.MultiheadAttention."
    else:
        return False
    results.note("mask-convention", f"{name}: {sentence}")
    return True


def _tell(
    inverted: bool,
    name: str,
    form: Form,
    allowed: Tensor,
    values: Tensor,
    subject: Subject,
    results: Results,
) -> None:
    leak = (values * (~allowed).fill_diagonal_(False)).max().item()
    who = "each query itself and the token before it"
    if form.per_key:
        who = f"tokens {', '.join(map(str, allowed[0].nonzero().flatten().tolist()))}"
    caption = f"How far output i moves when token j is replaced; {name} allows {who}:"
    cause, advice = "mask-inverted", ""
    if inverted and form.flipped:
        sentence = f"True means “may attend” in {name}, though it was said to mean “blocked”."
        advice = 'leave out mask="blocked", or fill where the mask is True.'
    elif inverted:
        sentence = INVERT.words.format(taken="a part")
    elif leak < subject.tolerance:
        cause = "mask-broadcast"
        sentence = f"{name} of shape {form.letters} hides other tokens than those it blocks."
    else:
        cause = "padding-leak" if form.per_key else "mask-leak"
        sentence = (
            f"Tokens that {name} blocks still move other outputs, by up to {leak:.2g} of their "
            "size, though not through the weights of the attention."
        )
    results.found(cause, sentence, influence_table(caption, values), advice=advice)


# --- what the weights are -------------------------------------------------------------------------


def _judge_heads(
    subject: Subject, given: dict[str, Form], known: tuple[Heads, Recipe], results: Results
) -> None:
    """Compare the weights under masks with what every known use of a mask would give."""
    heads, recipe = known
    x = subject.x(1 if subject.plan.single else subject.sizes.sequences())
    sizes = Sizes(len(x), 1, x.shape[1], x.shape[1])
    patterns = {n: pattern(sizes, form, seed) for seed, (n, form) in enumerate(given.items(), 3)}
    named = {name: form(patterns[name], subject.dtype) for name, form in given.items()}
    allowed = torch.stack(list(patterns.values())).all(dim=0)
    plain, masked = (attentions(subject, x, named=how)[:1] for how in ({}, named))
    if not plain or not masked or heads.law is None or heads.law.apart or heads.law.raw:
        return
    none, masked[0].law = plain[0].none, heads.law
    sample = masked[0].sample(allowed)
    if none is None or sample is None or sample.output.shape != none.shape:
        return
    if len(none) == len(allowed) and none.shape[-2:] == allowed.shape[-2:]:
        own = (none / none.amax(dim=-1, keepdim=True)).log().clamp_min(LOW)  # what it hides itself
        own = own / recipe.scale.compute(sample.sizes)
        sample = sample._replace(query=sample.query + own)
        _tell_masking(sample, patterns, Recipe(scale=recipe.scale), results)


def _tell_masking(
    sample: Sample, patterns: dict[str, Tensor], recipe: Recipe, results: Results
) -> None:
    """Report how the masks are used, if not by blocking."""
    names = " and ".join(patterns)
    if recipe.gives(sample):
        if len(patterns) > 1:
            results.held("two-masks", f"{names} together hide what either of them hides")
        return
    if len(patterns) > 1 and examine_both(sample, patterns, recipe, results):
        return
    if recipe.gives(_first_rows(sample)):
        return
    weights = sample.output.double()
    report(judged(recipe, sample), [sample], results, weights=weights, mask=names)


def _first_rows(sample: Sample) -> Sample:
    """Return two rows of each sequence that a mask of keys leaves real: others do not count."""
    real = sample.allowed[:, :, 0].int()  # (N, 1, S): the same for every query
    same = (sample.allowed[:, :, :1] == sample.allowed).all()
    if not same or real.shape[-1] != sample.output.shape[-2]:
        return sample
    rows = real.argsort(dim=-1, descending=True, stable=True)[..., :2, None]

    def taken(part: Tensor) -> Tensor:
        return part.gather(-2, rows.expand(-1, part.shape[1], -1, part.shape[-1]))

    parts = {name: taken(getattr(sample, name)) for name in ("query", "output", "allowed")}
    return sample._replace(**parts)


# --- rows without a key ---------------------------------------------------------------------------


def _tell_blocked_row(
    subject: Subject, name: str, form: Form, options: Options, results: Results
) -> None:
    """Block every key of one row, or of one sequence, and say what comes out."""
    x = subject.x(3 if subject.sizes.heads != 3 else 4)
    batch, length = x.shape[:2]
    allowed = torch.ones(batch, 1, length, length, dtype=torch.bool)
    allowed[: 1 if form.per_key else None, :, slice(None) if form.per_key else 1] = False
    others = x + subject.x(1, seed=12)
    elsewhere = others.clone()
    elsewhere[:, 1] = x[:, 1]
    mask = form(allowed, subject.dtype)
    replies = [subject(part, named={name: mask}) for part in (x, others, elsewhere)]
    parts = subject.module.modules() if subject.module is not None else ()
    told = [(part, at) for part in parts for at in EXTRA if getattr(part, at, None) is not None]
    more = [EXTRA[at] for part, at in told if getattr(part, at) is not False]
    if any(reply is None for reply in replies):
        results.note("empty-row", f"A row with no allowed key raises {subject.trouble}")
        return
    if more:
        words = f"A row of {name} with no allowed key still sees the key that {more[0]} adds."
        results.note("empty-row", words)
        return
    one, two, three = (reply.output[0, 1] for reply in replies)
    if not one.isfinite().all():
        what = "NaN"
    elif one.abs().max() == 0:
        what = "0"
    elif torch.allclose(one, two):
        what = "the same vector whatever the tokens are (the bias of the output projection)"
    elif torch.allclose(one, three):
        what = "what its own token gives (a residual connection)"
    else:
        what = MIXTURE
    sentence = f"A row of {name} with no allowed key gives {what}."
    if options.strict and what in ("NaN", MIXTURE):
        results.found("blocked-row", sentence)
    else:
        results.note("empty-row", sentence)


MIXTURE = "a mixture of tokens that it may not see"
