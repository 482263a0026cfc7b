"""Whether a module's mask hides what it should: replace hidden tokens and see who moves."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.clinic._results import Options, Results
from attnlab.clinic.layers.calls import Reply, Subject
from attnlab.clinic.layers.forms import Form, accepted, forms, says_added
from attnlab.clinic.layers.influence import SIZES, influence, influence_table, strongest
from attnlab.clinic.layers.leaks import leak_named, tell_blocked_row
from attnlab.clinic.layers.plans import STACKS, is_torchs
from attnlab.clinic.layers.understanding import Found

SPOILED = (
    "split-and-merge split-without-transpose merge-without-transpose attends-over-heads "
    "position-mixing detached"
).split()


def examine_masks(
    subject: Subject, found: Found | None, options: Options, results: Results
) -> None:
    """Examine every mask argument of forward."""
    torchs = is_torchs(subject.module) and subject.plan.kind == "memory"
    if torchs or isinstance(subject.module, STACKS):
        results.note(
            "masks-left-out", "Masks of a whole transformer layer of torch were not checked."
        )
        return
    if results.has(*SPOILED, "softmax-axis", "not-normalised", "wrong-source"):
        return
    names = [*subject.plan.masks, *([subject.plan.lengths] if subject.plan.lengths else [])]
    for name in names:
        before = len(results.findings)
        form = _find_form(subject, name, options, results)
        if form is not None:
            _judge_form(subject, name, form, found, options, results)
        if len(results.findings) > before:
            return


def _find_form(subject: Subject, name: str, options: Options, results: Results) -> Form | None:
    kinds: tuple[str, ...] = ("bool", "float", "int", "additive")
    torchs = is_torchs(subject.module)
    if torchs:
        kinds = ("bool",)
    says = options.mask == "additive" or "bias" in name or says_added(subject.module)
    if says and subject.plan.adapter is None and not torchs:
        kinds = ("additive",)
    flipped = options.mask == "blocked" or torchs
    flipped = flipped and subject.plan.adapter is None
    form = accepted(subject, name, forms(subject, name, kinds, flipped))
    about_padding = "pad" in name.lower() and form is not None and form.shape != "(N, S)"
    if about_padding and _needs_equal(subject, name, kinds, flipped, results, only="(N, S)"):
        return None
    if form is None and not _needs_equal(subject, name, kinds, flipped, results):
        results.note(
            "masks-left-out", f"No shape of {name} that was tried is accepted ({subject.trouble})."
        )
    return form


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
    subject: Subject, name: str, form: Form, found: Found | None, options: Options, results: Results
) -> None:
    length = subject.sizes.length
    if length < 4:
        results.note("masks-left-out", f"{name} was not checked: {length} tokens are too few.")
        return
    allowed = _pattern(length, form)
    values = _influence(subject, name, form, allowed)
    base = influence(subject)
    if values is None or base is None:
        sentence = f"With {name} of shape {form.shape} it raises {subject.trouble}"
        if not subject.caller.out_of_time:
            results.found("raises", sentence)
        return
    verdict = _verdict(values, base, allowed, form, subject)
    if verdict == "inverted" and "pad" in name.lower():
        results.note("mask-convention", f"{name}: True means padding, as in torch.")
        form = _flip(form)
    elif verdict == "inverted" and _by_its_own_rule(subject.module):
        results.note(
            "mask-convention",
            f"{name}: True means may attend, unlike in the class that it inherits from.",
        )
        form = _flip(form)
    elif verdict != "right":
        _tell(verdict, subject, name, form, allowed, values, found, results)
        return
    elif "pad" in name.lower() and not form.flipped and form.kind != "additive":
        results.note(
            "mask-convention",
            f"{name}: True means a real token; torch's argument of this name is opposite.",
        )
    results.held(
        "blocked-keys", f"{name} of shape {form.shape} hides what it should, and nothing else"
    )
    _judge_batch(subject, name, form, results)
    _judge_padding(subject, name, form, results)
    tell_blocked_row(subject, name, form, options, results)


def _by_its_own_rule(module: object) -> bool:
    """Return whether it inherits from a layer of torch and has a forward of its own."""
    forward = getattr(type(module), "forward", None)
    return is_torchs(module) and not getattr(forward, "__module__", "").startswith("torch.nn")


def _flip(form: Form) -> Form:
    return Form(form.shape, form.cut, form.keys, form.batch, not form.flipped, form.kind)


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
    seen, could = values > subject.tolerance, base > subject.tolerance
    length = len(seen)
    off = ~torch.eye(length, dtype=torch.bool)

    def fits(expected: Tensor, rows: Tensor) -> bool:
        same = (seen == (expected & could)) | ~off
        return bool(same[rows].all())

    every = torch.ones(length, dtype=torch.bool)
    rows = allowed[0] if form.keys else every
    if fits(allowed, rows) and not fits(~allowed, rows):
        return "right"
    if fits(~allowed, ~allowed[0] if form.keys else every):
        return "inverted"
    if not form.keys and fits(allowed.mT, every):
        return "transposed"
    if not form.keys and fits(~allowed.mT, every):
        return "inverted"
    hidden = (~allowed & could & off)[rows]
    return "leak" if (seen[rows] & hidden).any() else "strange"


def _tell(
    verdict: str,
    subject: Subject,
    name: str,
    form: Form,
    allowed: Tensor,
    values: Tensor,
    found: Found | None,
    results: Results,
) -> None:
    length = len(allowed)
    hidden = ~allowed & ~torch.eye(length, dtype=torch.bool)
    seen = _words(allowed, form)
    caption = f"How far output i moves when token j is replaced; {name} allows {seen}:"
    table = influence_table(caption, values)
    blocking = form.flipped  # what stands for blocked: False, or True in some masks
    simple = {
        "inverted": (
            "mask-inverted",
            f"{name} is read the wrong way round: the tokens that it blocks ({blocking}) are the "
            "ones that are seen.",
        ),
        "transposed": (
            "mask-transposed",
            f"{name} is transposed: entry (j, i) decides whether query i sees key j.",
        ),
        "strange": (
            "mask-broadcast",
            f"{name} of shape {form.shape} hides other tokens than those it blocks.",
        ),
    }
    if verdict in simple:
        results.found(*simple[verdict], table)
    else:
        leaking = (values * hidden).max().item()
        results.found(*leak_named(subject, name, form, allowed, values, leaking, found), table)


def _words(allowed: Tensor, form: Form) -> str:
    if not form.keys:
        return "each query itself and the token before it"
    return "tokens " + ", ".join(str(j) for j, ok in enumerate(allowed[0].tolist()) if ok)


def _judge_batch(subject: Subject, name: str, form: Form, results: Results) -> None:
    """Each sequence must get its own mask: alone and in the batch it gives the same."""
    if not form.batch or subject.plan.single:
        return
    batch = next(n for n in (3, 4, 6) if n not in (subject.sizes.length, subject.sizes.heads))
    allowed, x = _lengths(subject, batch), subject.x(batch, seed=4)
    together = subject(x, named={name: form(allowed, subject.dtype)})
    for row in range(batch):
        part = slice(row, row + 1)
        alone = subject(x[part], named={name: form(allowed[part], subject.dtype)})
        if together is None or alone is None:
            return
        real = int(allowed[row, 0].sum())
        far = _far(together.output[row, :real], alone.output[0, :real])
        if far > 1e3 * subject.tolerance:
            results.found(
                "mask-broadcast",
                f"With a different {name} for each sequence, sequence {row} of the batch is "
                f"{far:.2g} away from the same one alone: it gets another one's mask.",
            )
            return


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


def unchanged(one: Reply | None, two: Reply | None) -> bool:
    """Return whether two replies are the same."""
    return one is not None and two is not None and _far(one.output, two.output) < 1e-9
