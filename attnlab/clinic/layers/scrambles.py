"""Heads that are cut or joined by a bare view, and other ways to mix up positions."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from attnlab.clinic._copying import copy_of
from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Results
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.influence import influence, influence_table, push, scrambles_like

POSITIONS = re.compile(r"pos|wpe|(^|[._])pe([._]|$)|rel|alibi|slope|time|sin|cos|freq")


def moves_table(values: Tensor) -> Evidence:
    """Return an influence map as evidence."""
    return influence_table("How far output i moves when token j is replaced:", values)


def tell_only_itself(subject: Subject, values: Tensor, results: Results) -> None:
    """Report that no token sees another, or that nothing is seen at all."""
    if (values.diagonal() <= subject.tolerance).all():
        results.found("detached", "The output does not depend on x at all.", moves_table(values))
        return
    heads = subject.sizes.heads
    if heads is None:
        results.found(
            "not-attention",
            "Every token sees only itself: replacing token j moves output j and no other.",
            moves_table(values),
        )
        return
    why = "the heads of a token look at each other instead of at the tokens."
    if heads == 1:
        why = "nothing is gathered from the other tokens."
    results.found(
        "attends-over-heads",
        f"Every token sees only itself: replacing token j moves output j and no other; {why}",
        moves_table(values),
    )


def tell_scramble(name: str, heads: int, values: Tensor, results: Results) -> None:
    """Report how the heads are cut or joined by a bare view."""
    length = len(values)
    words = {
        "split-and-merge": "Heads are cut and joined by bare views: with "
        f"{heads} heads and {length} tokens each token sees only the tokens of its own block.",
        "split-without-transpose": f"The {heads} heads are cut by a bare view, without a "
        "transpose: a head holds a piece of the text instead of a part of every token.",
        "merge-without-transpose": f"The {heads} heads are joined by a bare view, without a "
        "transpose: an output row holds several positions of one head.",
    }
    results.found(name, words[name], moves_table(values))


def again(subject: Subject, scrambles: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return those that another length shows too: a window of tokens would not."""
    for more in (2, 1, -1):
        values = influence(subject, length=subject.sizes.length + more)
        if values is not None:
            numbers = [number for _, number in scrambles]
            also = scrambles_like(values > subject.tolerance, numbers)
            return [one for one in scrambles if one in also]
    return []


def is_window(seen: Tensor) -> bool:
    """Return whether who sees whom depends on the distance only, and not on everything."""
    length = len(seen)
    bands = [seen.diagonal(k) for k in range(1 - length, length) if k]
    return all(band.all() or not band.any() for band in bands)


def shuffled_badly(subject: Subject, results: Results) -> bool:
    """Permute the tokens; where the outputs do not follow, ask the plain average why."""
    x = subject.x(1)
    order = torch.arange(x.shape[1]).roll(2).flip(0)
    both = subject(torch.cat([x, x[:, order]]))
    if both is None or not both.output.isfinite().all():
        return False
    one, two = both.output[0][order], both.output[1]
    apart = ((one - two).abs().max() / one.abs().mean().clamp_min(1e-12)).item()
    if apart < max(subject.tolerance, 1e-8):
        results.held("order", "shuffled tokens give the same outputs, shuffled")
        return False
    if not subject.exact:
        results.note("order", "Shuffled tokens change its outputs; why was not checked in float32.")
        return False
    if torch.cdist(one, two).amin(dim=1).max() < 1e-8:  # the same rows in another order
        _tell_shuffled(subject, "position-mixing", apart, results)
        return True
    for still in (True, False):
        by_row, by_column = _average_depends(_at_rest(subject, keep_positions=still))
        if by_row is None or (by_row and by_column):
            continue
        if not (by_row or by_column):
            results.note(
                "order", "It knows the order of the tokens: shuffled tokens change the outputs."
            )
            return False
        name = "merge-without-transpose" if by_row else "split-without-transpose"
        name = name if subject.sizes.heads != 1 else "position-mixing"
        _tell_shuffled(subject, name, apart, results)
        return True
    results.note(
        "order",
        "Shuffled tokens change its outputs; whether by positions or a scramble is not clear.",
    )
    return False


def _at_rest(subject: Subject, *, keep_positions: bool) -> Subject:
    """Return a copy without biases, so that tokens of zeros give equal scores."""
    if not isinstance(subject.module, nn.Module):
        return subject
    module = copy_of(subject.module)
    with torch.no_grad():
        for name, parameter in [*module.named_parameters(), *module.named_buffers()]:
            last = name.split(".")[-1].lower()
            about_order = POSITIONS.search(name.lower()) and parameter.is_floating_point()
            bias = parameter.ndim == 1 and ("bias" in last or last.startswith("b"))
            if bias or (about_order and not keep_positions):
                parameter.zero_()
        for part in module.modules():
            if isinstance(part, nn.Embedding) and not keep_positions:
                part.weight.zero_()
    return subject.like(module, subject.dtype)


def _average_depends(subject: Subject) -> tuple[bool | None, bool]:
    """Return whether the derivative of output i by token j at zero depends on i, and on j.

    With equal scores a right module averages: every output takes 1/L of every token. Heads that
    are joined wrongly make it depend on the row, heads that are cut wrongly on the column.
    """
    length = subject.sizes.length
    drawn = subject.tokens(subject.sizes.embed, seed=4)
    directions = torch.zeros(length, length, subject.sizes.embed, dtype=subject.dtype)
    directions[torch.arange(length), torch.arange(length)] = drawn
    slopes = push(subject, torch.zeros_like(directions[:1]), directions)  # (token, output, O)
    if slopes is None:
        return None, False
    off = ~torch.eye(length, dtype=torch.bool)
    size = slopes[off].abs().max().clamp_min(1e-12)
    by_row = max(_spread(slopes[j][off[j]]) for j in range(length)) / size
    by_column = max(_spread(slopes[:, i][off[:, i]]) for i in range(length)) / size
    return bool(by_row > 1e-5), bool(by_column > 1e-5)


def _spread(rows: Tensor) -> Tensor:
    return (rows - rows[:1]).abs().max()


def _tell_shuffled(subject: Subject, name: str, apart: float, results: Results) -> None:
    words = {
        "merge-without-transpose": "The heads are joined by a bare view, without a transpose: "
        "shuffled tokens change the outputs by up to {:.2g} of their size, and what an output "
        "takes of a plain average depends on its row.",
        "split-without-transpose": "The heads are cut by a bare view, without a transpose: "
        "shuffled tokens change the outputs by up to {:.2g} of their size, and what a plain "
        "average takes of a token depends on its position.",
        "position-mixing": "Shuffled tokens change the outputs by up to {:.2g} of their size: "
        "output row i is not that of token i.",
    }
    x = subject.x(1)
    order = torch.arange(x.shape[1]).roll(2).flip(0)
    both = subject(torch.cat([x, x[:, order]]))
    pair = torch.stack([both.output[0][order][:, 0], both.output[1][:, 0]])
    evidence = influence_table(
        "First feature of the outputs: row 0 shuffled afterwards, row 1 of shuffled tokens:", pair
    )
    results.found(name, words[name].format(apart), evidence)
