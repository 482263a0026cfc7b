"""Step through a generation: what a cache of keys and values saves, step by step."""

from __future__ import annotations

from functools import cache as remember
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice, Slider
from attnlab.explorers.frame.panels import Axis, Curves, Heatmap, Line, Panel, how_to_read, stacked
from attnlab.explorers.frame.words import counted, decimals
from attnlab.layers.cache import KeyValueCache
from attnlab.models.looking_back import SYMBOLS, load_looking_back, to_tokens

PROMPT = "KQZBMTARK"
STEPS = tuple(range(7))  # the prefill, and six steps with one new token each
LENGTH = len(PROMPT) + STEPS[-1]  # tokens that the last step has read
LAYERS = ("layer 0", "layer 1")
MADE = ("queries", "keys", "values")


class CacheResult(NamedTuple):
    """One step of the generation by the model of lesson 12."""

    text: str  # the L tokens read so far
    rows: int  # how many of them this step computes
    so_far: int  # rows of all steps up to this one
    made: Tensor  # (3, L): in which step the queries, keys and values were computed; 0: gone
    weights: Tensor  # (2, L): what the newest token attends to, in each layer
    guess: str  # the symbol that comes next
    chance: float  # how likely the model thinks it is


@remember
def generate(kept: bool) -> list[CacheResult]:
    """Return every step of the generation, each with the guess of the one before it."""
    model = load_looking_back()
    text, so_far, results = PROMPT, 0, []
    caches = [KeyValueCache() for _ in model.layers] if kept else None
    for step in STEPS:
        new = text[-1] if kept and step else text
        logits, weights = model(to_tokens(new)[None], caches)  # (1, rows, symbols)
        so_far += len(new)
        made = torch.full((len(MADE), len(text)), step + 1.0)
        if kept and step:
            made[0, :-1] = 0
            made[1:, :-1] = results[-1].made[1:]
        chance, symbol = logits[0, -1].softmax(dim=-1).max(dim=-1)
        guess = SYMBOLS[int(symbol)]
        looks = weights[:, 0, 0, -1]  # (2, L)
        results.append(CacheResult(text, len(new), so_far, made, looks, guess, chance.item()))
        text += guess
    return results


class CacheExplorer(Explorer):
    """A generation, step by step: what is computed anew, and what a cache has kept.

    Parameters
    ----------
    **state
        ``step``: 0 (the prefill) to 6. ``cache``: whether keys and values are kept. ``ask`` and
        ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.KeyValueCache : keeps them.
    LookingBackExplorer : what the model attends to.
    """

    figsize = (9.2, 4.0)
    cache = Choice(False, {False: "without a cache", True: "with a cache"}, label="generate")
    step = Slider(
        0,
        {step: str(step + 1) for step in STEPS},
        label="step",
        spoken="step of the generation",
        forward="Next step ▶",
        width=160,
    )

    @property
    def panels(self) -> tuple[Panel, ...]:
        """What was computed in which step, the weights, and the rows so far."""
        return (
            stacked(
                Heatmap(
                    "made",
                    "in which step each one was computed",
                    caption="Queries, keys and values of every token: the step that computed them",
                    rows=MADE,
                    scale=(0, len(STEPS)),
                    measure="step",
                ),
                how_to_read(("blocked", "not kept: no later step needs it")),
                Heatmap(
                    "looks", rows=("layer 0", "layer 1"), caption="Weights of the newest token"
                ),
                grow=3,
            ),
            Curves(
                "rows",
                "rows computed so far",
                under="one row for each token that a step computes",
                over="step",
                stops=STEPS,
                labels=[str(step + 1) for step in STEPS],
                lines=[
                    Line(name, [float(step.so_far) for step in generate(kept)], *look)
                    for name, kept, *look in (
                        ("without a cache", False, "raw", "dashed", "square"),
                        ("with a cache", True, "scaled", "solid", "circle"),
                    )
                ],
                y=Axis(0, 90, (0, 30, 60, 90)),
                xlabel="step",
                xscale="linear",
            ),
        )

    @property
    def result(self) -> CacheResult:
        """The step, by the stored model."""
        return generate(self.cache)[self.step]

    def frame(self, cache: bool, step: int) -> dict[str, object]:
        """Return which step computed what, the weights and the rows so far."""
        result = generate(cache)[step]
        later = LENGTH - len(result.text)
        empty = [""] * later
        made = torch.nn.functional.pad(result.made, (0, later))
        looks = result.weights.tolist()
        gone = [["" if number else "blocked" for number in row] for row in result.made.tolist()]
        columns = [*result.text, *"·" * later]
        return {
            "say": sentence(cache, step),
            "bad": False,
            "code": code(step, result.text) if cache else code_without(result.text),
            "made": {
                "columns": columns,
                "cells": made,
                "looks": [row + ["gap"] * later for row in gone],
                "texts": [[f"{n:g}" if n else "" for n in row] for row in made.tolist()],
            },
            "looks": {
                "title": f"weights of the newest token, {result.text[-1]}; ● is the largest",
                "columns": columns,
                "cells": torch.nn.functional.pad(result.weights, (0, later)),
                "looks": [[""] * len(result.text) + ["gap"] * later] * len(LAYERS),
                "texts": [["" if w < max(row) else "●" for w in row] + empty for row in looks],
            },
            "rows": {"current": int(cache)},
        }


# --- words ----------------------------------------------------------------------------------------


def sentence(kept: bool, step: int) -> str:
    """Return what the step computes, what it reuses, and what comes next."""
    result, otherwise = (generate(way)[step] for way in (kept, not kept))
    guess = f"The model guesses **{result.guess}** with probability {decimals(result.chance)}"
    if not step:
        return (
            f"**Step 1**, the prefill, computes all **{counted(result.rows, 'row')}** of the "
            f"prompt, with a cache or without one. {guess}."
        )
    old = counted(len(result.text) - 1, "token")
    does = f" and reuses the keys and values of {old}" if kept else f", for {old} once more"
    return (
        f"**Step {step + 1}** computes **{counted(result.rows, 'row')}**{does}. That makes "
        f"**{result.so_far} rows** so far, and {otherwise.so_far} "
        f"{'without' if kept else 'with'} a cache. {guess} either way."
    )


def code_without(text: str) -> str:
    """Return the lines of PyTorch of one step that keeps nothing."""
    return (
        f'tokens = to_tokens("{text}")[None]  # (1, {len(text)})\n'
        "logits, weights = model(tokens)\n"
        "chance, symbol = logits[0, -1].softmax(dim=-1).max(dim=-1)"
    )


def code(step: int, text: str) -> str:
    """Return the lines of PyTorch of the steps with a cache."""
    first, new = text[: len(PROMPT)], text[len(PROMPT) :]
    lines = [
        "caches = [KeyValueCache() for _ in model.layers]",
        f'logits, weights = model(to_tokens("{first}")[None], caches)  # the prefill',
    ]
    if step:
        lines.append(f'for letter in "{new}":')
        lines.append("    logits, weights = model(to_tokens(letter)[None], caches)  # one row")
    return "\n".join([*lines, "chance, symbol = logits[0, -1].softmax(dim=-1).max(dim=-1)"])
