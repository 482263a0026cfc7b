"""Whether a layer's mask hides what it should: replace hidden tokens and see who moves."""

from __future__ import annotations

import dis
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
    explain,
    masked_table,
    measured_masking,
    report,
)
from attnlab.clinic.layers.anatomy import Heads, attentions
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.forms import Form, accepted, forms
from attnlab.clinic.layers.influence import SIZES, influence, influence_table, strongest
from attnlab.clinic.layers.plans import STACKS, extra_key, is_torchs

LOW = -1e6  # in the place of minus infinity, which times 0 is NaN
SPOILED = (
    "split-and-merge split-without-transpose merge-without-transpose attends-over-heads "
    "position-mixing detached softmax-axis not-normalised wrong-source"
).split()
Known = tuple[Heads, Recipe] | None


def examine_masks(subject: Subject, known: Known, options: Options, results: Results) -> None:
    """Examine every mask argument of forward, one after the other and then two together."""
    torchs = is_torchs(subject.layer) and subject.plan.kind == "memory"
    if torchs or isinstance(subject.layer, STACKS):
        results.note(
            "masks-left-out", "Masks of a whole transformer layer of torch were not checked."
        )
        return
    if results.has(*SPOILED):
        return
    names = [*subject.plan.masks, *([subject.plan.lengths] if subject.plan.lengths else [])]
    right: dict[str, Form] = {}
    for name in names:
        before = len(results.findings)
        form = _find_form(subject, name, options, results)
        if form is not None:
            form = _judge_form(subject, name, form, known, options, results)
        if len(results.findings) > before:
            return
        if form is not None:
            right[name] = form
    for pair in itertools.combinations(right, 2) if known is not None else ():
        _judge_heads(subject, {name: right[name] for name in pair}, known, results)


def _find_form(subject: Subject, name: str, options: Options, results: Results) -> Form | None:
    if subject.plan.adapter is not None and not _uses_its_mask(subject.plan.adapter):
        results.note("masks-left-out", "The function call= does not use its mask.")
        return None
    kinds: tuple[str, ...] = ("bool", "float", "int", "additive")
    torchs = is_torchs(subject.layer)
    if torchs:
        kinds = ("bool",)
    says = options.mask == "additive" or "bias" in name or says_additive(subject.layer, name)
    if says and subject.plan.adapter is None and not torchs:
        kinds = ("additive",)
    flipped = options.mask == "blocked" or torchs
    flipped = flipped and subject.plan.adapter is None
    form = accepted(subject, name, forms(subject, name, kinds, flipped))
    about_padding = "pad" in name.lower() and form is not None and form.shape != "(N, S)"
    if about_padding and _needs_equal(subject, name, kinds, flipped, results, only="(N, S)"):
        return None
    if form is None and not _needs_equal(subject, name, kinds, flipped, results):
        results.unexamined(
            f"No shape of {name} that was tried is accepted ({subject.trouble}): what it hides was "
            "not checked.",
            remedy="Pass call=..., a function that gives the layer its mask.",
        )
    return form


def _uses_its_mask(adapter: object) -> bool:
    """Return whether a function reads its fifth argument."""
    code = getattr(adapter, "__code__", None)
    if code is None or code.co_argcount < 5:
        return True
    return any(step.argval == code.co_varnames[4] for step in dis.get_instructions(code))


def _needs_equal(
    subject: Subject,
    name: str,
    kinds: tuple[str, ...],
    flipped: bool,
    results: Results,
    only: str = "",
) -> bool:
    """Give it as many sequences as heads: a mask of the batch then lies over the heads."""
    heads = subject.sizes.heads or 1
    if heads < 2:
        return False
    allowed, x = _lengths(subject, heads), subject.x(heads)
    for form in forms(subject, name, kinds, flipped):
        if not form.batch or (only and form.shape != only):
            continue
        if subject(x, named={name: form(allowed, subject.dtype)}) is None:
            continue
        results.found(
            "mask-broadcast",
            f"A mask of shape {form.shape} is accepted only with as many sequences as heads "
            f"({heads}), and is then spread over the heads: it lacks the dimension of the heads.",
        )
        return True
    return False


def _lengths(subject: Subject, batch: int) -> Tensor:
    """Return allowed (N, L, L): a batch of lengths, the real tokens come first."""
    length = subject.sizes.length
    real = torch.tensor([max(1, length - 2 - n % 3 % max(1, length - 2)) for n in range(batch)])
    return (torch.arange(length) < real[:, None])[:, None].expand(batch, length, length)


def _judge_form(
    subject: Subject, name: str, form: Form, known: Known, options: Options, results: Results
) -> Form | None:
    """Report what a mask does wrong; return how it is to be given, if it is right."""
    length = subject.sizes.length
    if length < 4:
        results.note("masks-left-out", f"{name} was not checked: {length} tokens are too few.")
        return None
    allowed = _pattern(length, form)
    values, base = _influence(subject, name, form, allowed), influence(subject)
    if values is None or base is None:
        if not subject.caller.out_of_time:
            sentence = f"With {name} of shape {form.shape} it raises {subject.trouble}."
            results.found("raises", sentence)
        return None
    verdict = _verdict(values, base, allowed, form, subject)
    if verdict == "inverted" and _by_convention(subject, name, form, results):
        form, verdict = form.turned(), "right"
    if form.keys and _only_queries(subject, name, form, allowed):
        words = next(way.words for way in MASKINGS if way.cause == "mask-queries")
        results.found("mask-queries", words.format(The_mask=name))
    elif known is not None and not (verdict == "inverted" and form.flipped):
        _judge_heads(subject, {name: form}, known, results)
    if results.findings:
        return None
    if verdict != "right":
        _tell(verdict, name, form, allowed, values, subject, results)
        return None
    if "pad" in name.lower() and not form.flipped and form.kind != "additive":
        results.note(
            "mask-convention",
            f"{name}: True means a real token; torch's argument of this name is opposite.",
        )
    results.held(
        "blocked-keys", f"{name} of shape {form.shape} hides what it should, and nothing else"
    )
    _judge_padding(subject, name, form, results)
    tell_blocked_row(subject, name, form, options, results)
    return form


def _only_queries(subject: Subject, name: str, form: Form, allowed: Tensor) -> bool:
    """Return whether a mask of padded tokens changes their own outputs and no other."""
    batch = 3 if subject.sizes.heads != 3 else 4
    x, every = subject.x(batch), allowed.expand(batch, -1, -1)
    replies = [
        subject(x, named={name: form(may, subject.dtype)})
        for may in (every, torch.ones_like(every))
    ]
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


def _pattern(length: int, form: Form) -> Tensor:
    """Return who may see whom: for keys some tokens, else oneself and the token before."""
    place = torch.arange(length)
    if form.shape == "(N,) lengths":
        return (place < length - 2).expand(length, length)
    if form.keys:
        return ((place % 3 != 1) & (place < length - 1)).expand(length, length)
    return ((place[:, None] - place) % length) <= 1


def _influence(subject: Subject, name: str, form: Form, allowed: Tensor) -> Tensor | None:
    length = len(allowed)
    taken = (length, subject.sizes.heads)
    batch = next(n for n in range(length + 1, length + 5) if n not in taken)
    x = subject.x(1).repeat(batch, 1, 1)
    steps = subject.tokens(length, x.shape[-1], seed=50)
    x[torch.arange(1, length + 1), torch.arange(length)] += steps
    mask = form(allowed.expand(batch, -1, -1), subject.dtype)
    moves = strongest(subject(size * x, named={name: mask}) for size in SIZES)
    return None if moves is None else moves[:, :length]


def _verdict(values: Tensor, base: Tensor, allowed: Tensor, form: Form, subject: Subject) -> str:
    """Return "right", "inverted" or "leak"."""
    seen, could = values > subject.tolerance, base > subject.tolerance
    off = ~torch.eye(len(seen), dtype=torch.bool)
    every = torch.ones(len(seen), dtype=torch.bool)

    def fits(expected: Tensor, rows: Tensor) -> bool:
        same = (seen == (expected & could)) | ~off
        return bool(same[rows].all())

    rows = allowed[0] if form.keys else every
    if fits(allowed, rows) and not fits(~allowed, rows):
        return "right"
    if fits(~allowed, ~allowed[0] if form.keys else every):
        return "inverted"
    return "leak"


def _judge_heads(
    subject: Subject, given: dict[str, Form], known: tuple[Heads, Recipe], results: Results
) -> None:
    """Compare the weights under masks with what every known use of a mask would give."""
    heads, recipe = known
    batch = next(n for n in (3, 4, 5) if n not in (subject.sizes.length, subject.sizes.heads))
    x = subject.x(1 if subject.plan.single else batch)
    patterns = {name: _pattern_of(subject, form, place, len(x))
                for place, (name, form) in enumerate(given.items())}  # fmt: skip
    named = {name: form(patterns[name], subject.dtype) for name, form in given.items()}
    allowed = torch.stack(list(patterns.values())).all(dim=0)
    plain, masked = (attentions(subject, x, named=how)[:1] for how in ({}, named))
    none = plain[0].weights_of_zeros if plain else None
    if not masked or none is None or not heads.law.plain:
        return
    one = masked[0]
    one.law = heads.law
    sample = one.sample(allowed[:, None])
    if sample is not None and sample.output.shape[-2:] == allowed.shape[-2:]:
        if len(sample.query) == len(allowed) and none.shape == sample.query.shape:
            none = none / none.amax(dim=-1, keepdim=True)
            own = none.log().clamp_min(LOW) / recipe.scale.compute(
                sample.sizes
            )  # what it hides or adds by itself
            sample, recipe = sample._replace(query=sample.query + own), Recipe(scale=recipe.scale)
            _tell_masking(sample, patterns, recipe, results)


def _tell_masking(
    sample: Sample, patterns: dict[str, Tensor], recipe: Recipe, results: Results
) -> None:
    """Report how the masks are used, if not by blocking."""
    names, weights = list(patterns), sample.output.double()
    if recipe.gives(sample):
        if len(names) > 1:
            held = " and ".join(names)
            results.held("two-masks", f"{held} together hide what either of them hides")
        return
    for name in names if len(names) > 1 else ():
        alone = sample._replace(allowed=patterns[name][:, None])
        if recipe.gives(alone):
            (other,) = (one for one in names if one != name)
            told = f"Together with {name}, {other} is lost: keys that it blocks are seen again."
            advice = "combine the masks before the fill, or fill what the first fill gave."
            results.found("mask-ignored", told, advice=advice)
            return
    if recipe.gives(_first_rows(sample)):
        return
    if recipe.gives(_of_the_longest(sample)) and not recipe.gives(_of_everyone(sample)):
        results.found(
            "padding-leak",
            f"{names[0]} blocks a key only where every sequence of the batch blocks it: a "
            "shorter sequence looks at its padding.",
            masked_table(weights, sample.allowed),
        )
        return
    found = explain([sample], recipe, ("masking",))
    if found is None:
        scores = recipe.scores(sample)
        way = measured_masking(scores, weights, sample.allowed.expand_as(weights))
        found = Recipe(**{**vars(recipe), "masking": way})
    report(found, [sample], results, weights=weights, mask=" and ".join(names))


def _first_rows(sample: Sample) -> Sample:
    """Return two rows of each sequence that a mask of keys leaves real: others do not count."""
    real = sample.allowed[:, :, 0].int()  # (N, 1, S): the same for every query
    if (sample.allowed[:, :, :1] != sample.allowed).any() or real.shape[-1] != sample.output.shape[
        -2
    ]:
        return sample
    rows = real.argsort(dim=-1, descending=True, stable=True)[..., :2]

    def taken(part: Tensor) -> Tensor:
        index = rows[..., None].expand(-1, part.shape[1], -1, part.shape[-1])
        return part.gather(-2, index)

    return sample._replace(
        query=taken(sample.query), output=taken(sample.output), allowed=taken(sample.allowed)
    )


def _of_the_longest(sample: Sample) -> Sample:
    """Return a sample whose mask allows what it allows any of the sequences."""
    return sample._replace(
        allowed=sample.allowed.any(dim=0, keepdim=True).expand_as(sample.allowed)
    )


def _of_everyone(sample: Sample) -> Sample:
    """Return a sample whose mask allows everything."""
    return sample._replace(allowed=torch.ones_like(sample.allowed))


def _pattern_of(subject: Subject, form: Form, place: int, batch: int) -> Tensor:
    """Return who may see whom, (N, L, L), another one for every sequence where that is possible."""
    length = subject.sizes.length
    if form.keys:
        if form.shape == "(N,) lengths":
            return _lengths(subject, batch)
        number = torch.arange(batch)[:, None] if form.batch else torch.zeros(batch, 1)
        keys = (torch.arange(length) + number + place) % 3 != 1
        keys[:, -1] = False  # one that no sequence may see
        keys[:, 0] = True  # a causal layer has no other key for its first query
        return keys[:, None].expand(batch, length, length)
    shift = torch.arange(batch)[:, None, None] if form.batch else torch.zeros(batch, 1, 1)
    apart = torch.arange(length)[:, None] - torch.arange(length)
    seen = ((apart + shift + place) % 3 == 1) | (torch.arange(length) == place)
    return (apart == 0) | (seen & (torch.arange(length) < length - 1))


def _tell(
    verdict: str,
    name: str,
    form: Form,
    allowed: Tensor,
    values: Tensor,
    subject: Subject,
    results: Results,
) -> None:
    hidden = ~allowed & ~torch.eye(len(allowed), dtype=torch.bool)
    table = influence_table(
        f"How far output i moves when token j is replaced; {name} allows {_words(allowed, form)}:",
        values,
    )
    if verdict == "inverted" and form.flipped:
        sentence = f"True means “may attend” in {name}, though it was said to mean “blocked”."
        advice = 'leave out mask="blocked", or fill where the mask is True.'
        results.found("mask-inverted", sentence, table, advice=advice)
    elif verdict == "inverted":
        results.found("mask-inverted", INVERT.words.format(taken="a part"), table)
    elif (values * hidden).max() < subject.tolerance:
        sentence = f"{name} of shape {form.shape} hides other tokens than those it blocks."
        results.found("mask-broadcast", sentence, table)
    else:
        leak = (values * hidden).max().item()
        results.found(
            "padding-leak" if form.keys else "mask-leak",
            f"Tokens that {name} blocks still move other outputs, by up to {leak:.2g} of their "
            "size, though not through the weights of the attention.",
            table,
        )


def _words(allowed: Tensor, form: Form) -> str:
    if not form.keys:
        return "each query itself and the token before it"
    return "tokens " + ", ".join(str(j) for j, ok in enumerate(allowed[0].tolist()) if ok)


def _judge_padding(subject: Subject, name: str, form: Form, results: Results) -> None:
    """Compare a short sequence alone with the same one padded."""
    length = subject.sizes.length
    short = length - 2
    x = subject.x(seed=6)
    alone = subject(x[:, :short])
    allowed = (torch.arange(length) < short).expand(len(x), length, length)
    padded = subject(x, named={name: form(allowed, subject.dtype)})
    if alone is None or padded is None:
        return
    far = _far(padded.output[:, :short], alone.output)
    if far > 1e3 * subject.tolerance:
        rows = torch.stack([alone.output[0, :, 0], padded.output[0, :short, 0]])
        results.found(
            "padding-leak",
            f"{short} tokens alone and the same padded to {length} with {name} differ by "
            f"{far:.2g} of their size.",
            influence_table("First feature of the outputs, alone (row 0), padded (row 1):", rows),
        )
    else:
        results.held("padding", "a sequence gives the same alone and padded in a batch")


def _far(one: Tensor, two: Tensor) -> float:
    size = two.abs().mean().clamp_min(1e-12)
    return ((one - two).abs().max() / size).nan_to_num(nan=1e9).item()


def tell_blocked_row(
    subject: Subject, name: str, form: Form, options: Options, results: Results
) -> None:
    """Block every key of one row, or of one sequence, and say what comes out."""
    x = subject.x(3 if subject.sizes.heads != 3 else 4)
    batch, length = x.shape[:2]
    allowed = torch.ones(batch, length, length, dtype=torch.bool)
    if form.keys:
        allowed[0] = False
    else:
        allowed[:, 1] = False
    mask = form(allowed, subject.dtype)
    reply = subject(x, named={name: mask})
    other = subject(x + subject.x(1, seed=12), named={name: mask})
    if reply is None or other is None:
        results.note("empty-row", f"A row with no allowed key raises {subject.trouble}")
        return
    more = extra_key(subject.layer)
    if more:
        results.note(
            "empty-row", f"A row of {name} with no allowed key still sees the key that {more} adds."
        )
        return
    one, two = reply.output[0, 1], other.output[0, 1]
    sees_others = False
    if not one.isfinite().all():
        what = "NaN"
    elif one.abs().max() == 0:
        what = "0"
    elif torch.allclose(one, two):
        what = "the same vector whatever the tokens are (the bias of the output projection)"
    elif _only_its_own(subject, x, {name: mask}, one):
        what = "what its own token gives (a residual connection)"
    else:
        what, sees_others = "a mixture of tokens that it may not see", True
    sentence = f"A row of {name} with no allowed key gives {what}."
    if options.strict and (sees_others or not one.isfinite().all()):
        results.found("blocked-row", sentence)
    else:
        results.note("empty-row", sentence)


def _only_its_own(subject: Subject, x: Tensor, named: dict, one: Tensor) -> bool:
    """Change every token but its own; return whether row 1 of sequence 0 stays."""
    others = x + subject.x(1, seed=12)
    others[:, 1] = x[:, 1]
    reply = subject(others, named=named)
    return reply is not None and torch.allclose(reply.output[0, 1], one)
