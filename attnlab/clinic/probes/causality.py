"""Whether later keys stay unseen: by a switch, together with a mask, and by the outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from attnlab.clinic import hints
from attnlab.clinic.call import Call
from attnlab.clinic.family import CAUSAL, DENSE, RIGHT_SCALE
from attnlab.clinic.observe import Core, Observer
from attnlab.clinic.probes.attempts import Attempts
from attnlab.clinic.results import Fact, ask, held, lost, note, tried, wrong
from attnlab.clinic.sample import SURE, Sizes
from attnlab.clinic.search import Recipe, explain
from attnlab.clinic.words import slips_told, weights_table


def switched(watch: Observer, recipe: Recipe) -> Iterator[Fact]:
    """Switch its causal argument on."""
    name = watch.call.signature.switches[0].name
    cores = watch.square()(causal=True)[:1]
    for core in cores:
        yield tried(name)
        explained = explain([core.sample], recipe, ("order", "hiding"))
        if explained is None:
            yield from _later_taken(core, name)
        elif explained.order is DENSE:
            yield wrong(
                "causal-missing",
                f"With {name}=True queries see later keys all the "
                "same: the switch changes nothing.",
                weights_table("Weights:", core.weights),
            )
        elif explained.order.cause or explained.hiding.cause:
            yield from slips_told(replace(explained, scale=RIGHT_SCALE), [core.sample])
        else:
            yield held("causal", f"with {name}=True no query sees a later key (causal)")


def _later_taken(core: Core, name: str) -> Iterator[Fact]:
    """Yield what later keys take of a query's weight, if it is much."""
    later = float(core.weights.triu(1).abs().max())
    if later > SURE:
        sentence = f"With {name}=True queries see later keys, which take up to {later:.2f} of a "
        table = weights_table("Weights:", core.weights)
        yield wrong("causal-leak", f"{sentence}query's weight.", table)


def switched_with_mask(watch: Observer, recipe: Recipe, masks: list[Attempts]) -> Iterator[Fact]:
    """Switch it on and give a mask: neither may be lost."""
    name, given = masks[0].mask.name, masks[0].clean.given
    switch = watch.call.signature.switches[0].name
    for core in watch(masks={name: given}, causal=True)[:1]:
        hidden = core.weights.triu(1).abs().max()
        if hidden > SURE and recipe.order is DENSE:
            yield ask(
                "causal-leak",
                f"With {name} and {switch}=True together queries see later keys: the switch is "
                "lost where a mask is given.",
            )


def last_token_leaks(call: Call, *, meant: bool = True) -> Iterator[Fact]:
    """Move the last token: of a layer that is ``meant`` to be causal no earlier output may move."""
    parts = call.inputs()
    moved = parts["query"].clone()
    moved[..., -1, :] += 3.0 * torch.randn(
        moved.shape[-1], generator=torch.Generator().manual_seed(5)
    ).to(moved)
    before, after = call(parts).output, call(dict.fromkeys(parts, moved)).output
    if before is None or after is None:
        return
    apart = (before - after).abs().amax(dim=-1)
    later = float((apart[..., :-1]).max() / before.abs().max())
    if later > SURE and not meant:
        yield lost("causal")
    elif later > SURE:
        yield wrong(
            "causal-leak",
            f"The last token moves earlier outputs, by up to {later:.2f} of their size.",
        )
    elif apart[..., -1].max() > 0:
        yield held("causal", "the last token moves no earlier output (causal)")


def aligned(call: Call, recipe: Recipe, sizes: Sizes) -> Iterator[Fact]:
    """Yield where the causal mask lies if there are fewer queries than keys."""
    if recipe.order is not CAUSAL or sizes.L >= sizes.S:
        return
    words = f"With {sizes.L} queries and {sizes.S} keys its causal mask lies at the upper left"
    if hints.says_newest(call.signature.target):
        yield ask(
            "cache",
            f"{words}. Its text says that the queries are the newest tokens: the last of them "
            "should see every key.",
            "Align the mask at the lower right: tril(diagonal=S - L).",
        )
    else:
        yield note(
            "aligned",
            f"{words}, as in F.scaled_dot_product_attention. Behind a cache it would have to lie "
            "at the lower right.",
        )
