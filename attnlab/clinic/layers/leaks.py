"""Why a masked token still moves an output, and what a row without any allowed key gives."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from attnlab.clinic._results import Options, Results
from attnlab.clinic.layers.calls import Reply, Subject
from attnlab.clinic.layers.forms import Form
from attnlab.clinic.layers.parts import CallRecord, flows
from attnlab.clinic.layers.plans import extra_key
from attnlab.clinic.layers.recipe import FILLS, compute, fits, misfit
from attnlab.clinic.layers.understanding import Found

FILLINGS = {
    "added": ("mask-added", "is added to the scores as 0 and 1 instead of blocking them"),
    "multiplied": ("mask-multiplied", "multiplies the scores: a blocked score is 0, and e^0 = 1"),
    "0": ("mask-multiplied", "sets blocked scores to 0, and e^0 = 1"),
    "after": ("mask-after-softmax", "is applied after the softmax: the rows do not sum to 1"),
    "1e-9": ("mask-finite", "fills blocked scores with about 0 (1e-9 instead of -1e9?)"),
    "-1e-9": ("mask-finite", "fills blocked scores with about 0 (-1e-9 instead of -1e9?)"),
}
FILLINGS |= {fill: ("mask-finite", f"fills blocked scores with {fill}") for fill in FILLS}


def leak_named(
    subject: Subject,
    name: str,
    form: Form,
    allowed: Tensor,
    values: Tensor,
    leaking: float,
    found: Found | None,
) -> tuple[str, str]:
    """Return the name and the sentence for a mask that hides too little."""
    x = subject.x(3 if subject.sizes.heads != 3 else 4)
    batch, length = x.shape[:2]
    everyone = torch.ones(batch, length, length, dtype=torch.bool)
    allowed_all = allowed.expand(batch, -1, -1)
    mask = form(allowed_all, subject.dtype)
    masked = subject(x, named={name: mask})
    plain = subject(x, named={name: form(everyone, subject.dtype)})
    if masked is None or plain is None:
        return "mask-leak", f"Tokens that {name} blocks still move the output."
    change = (masked.output - plain.output).abs().nan_to_num(nan=1.0).amax(dim=(0, 2))
    if change.max() < 1e-12 and _blocks_if_all_agree(subject, name, form, allowed_all, plain):
        return "mask-broadcast", f"{name} blocks a key only where every sequence blocks it."
    if change.max() < 1e-12:
        return "mask-ignored", f"{name} is ignored: blocking keys changes nothing in the output."
    real = allowed[0]
    if form.keys and change[real].max() < 1e-12 < change[~real].max():
        return (
            "mask-queries",
            f"{name} blocks the rows of padded queries instead of the columns of padded keys: "
            "real tokens still see every padded one.",
        )
    named = _by_recipe(subject, name, mask, allowed_all, found)
    if named is not None:
        return named[0], f"{name} {named[1]}; a blocked token moves outputs by {leaking:.2g}."
    return _by_size(name, masked.weights, leaking, values.max().item())


def _blocks_if_all_agree(
    subject: Subject, name: str, form: Form, allowed: Tensor, plain: Reply
) -> bool:
    """Give every sequence the mask of the first; return whether that changes anything."""
    x = subject.x(len(allowed))
    same = subject(x, named={name: form(allowed[:1].expand_as(allowed), subject.dtype)})
    return same is not None and bool((same.output - plain.output).abs().max() > 1e-12)


def _by_size(name: str, weights: Tensor | None, leaking: float, largest: float) -> tuple[str, str]:
    """Name a leak that no recipe explains by its size, and by the weights that came back."""
    sums = None if weights is None else weights.sum(dim=-1)
    if sums is not None and sums.min() < 0.999:
        after = FILLINGS["after"]
        return after[0], f"{name} {after[1]} but to {sums.min().item():.2g} and more."
    if leaking < 0.01 * largest:
        return (
            "mask-finite",
            f"Tokens that {name} blocks leak a little: they move outputs by {leaking:.1e} of their "
            "size; the fill value is too small.",
        )
    return (
        "mask-leak",
        f"Tokens that {name} blocks still move the output, by up to {leaking:.2g} of its size.",
    )


def _by_recipe(
    subject: Subject, name: str, mask: Tensor, allowed: Tensor, found: Found | None
) -> tuple[str, str] | None:
    """Compute it again with every known misuse of a mask."""
    if found is None or isinstance(subject.module, nn.MultiheadAttention):
        return None
    x = subject.x(len(allowed))
    for flow in flows(CallRecord(subject, x, {name: mask})):
        tried = {
            filling: compute(flow, replace(found.recipe, filling=filling), allowed[:, None])
            for filling in FILLINGS
        }
        fitting = [filling for filling in tried if fits(flow, tried[filling], subject.exact)]
        blocking = compute(flow, replace(found.recipe, filling="block"), allowed[:, None])
        if fits(flow, blocking, subject.exact):
            return "padding-leak", (
                "blocks its keys in the attention, but blocked tokens get in before it, perhaps by "
                "a mean over the whole sequence"
            )
        if fitting:  # 0 and 1e-9 both fit; the nearest is the one
            return FILLINGS[min(fitting, key=lambda filling: misfit(flow, tried[filling]))]
    return None


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
    more = extra_key(subject.module)
    if more:
        results.note(
            "empty-row", f"A row of {name} with no allowed key still sees the key that {more} adds."
        )
        return
    one, two = reply.output[0, 1], other.output[0, 1]
    if not one.isfinite().all():
        what = "NaN"
    elif one.abs().max() == 0:
        what = "0"
    elif torch.allclose(one, two):
        what = "the same vector whatever the tokens are (the bias of the output projection)"
    elif _only_its_own(subject, x, {name: mask}, one):
        what = "what its own token gives (a residual connection)"
    else:
        what = "a mixture of tokens that it may not see"
    sentence = f"A row of {name} with no allowed key gives {what}."
    if options.strict and (what == "NaN" or what.startswith("a mixture")):
        results.found("blocked-row", sentence)
    else:
        results.note("empty-row", sentence)


def _only_its_own(subject: Subject, x: Tensor, named: dict, one: Tensor) -> bool:
    """Change every token but its own; return whether row 1 of sequence 0 stays."""
    others = x + subject.x(1, seed=12)
    others[:, 1] = x[:, 1]
    reply = subject(others, named=named)
    return reply is not None and torch.allclose(reply.output[0, 1], one)
