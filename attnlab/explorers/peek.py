"""What a model gains by peeking at the future in training, and what it loses."""

from __future__ import annotations

import csv
import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.display.table import data_path
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice, Slider
from attnlab.explorers.frame.panels import (
    Axis,
    Curves,
    Heatmap,
    Line,
    Panel,
    Table,
    how_to_read,
    stacked,
)

STEPS = tuple(range(0, 301, 10))
LINES = (
    Line("given the words so far", (), "scaled", "solid", "square"),
    Line("given the whole sentence", (), "scaled", "dotted", "circle"),
)
LOOKS = (("allowed leak", "the word to be guessed is visible"), ("blocked", "blocked"))
PLACES = ("1st", "2nd", "3rd", "4th", "5th")
WORDS = 8  # of the made-up language
CHANCES = (0.6, 0.3, 0.1)  # of the words that may follow a word
TOP = 3.0  # of the picture: all means lie below


class PeekResult(NamedTuple):
    """Losses of four runs at one step of the training, on new sentences."""

    # (4,): loss when the whole sentence lies before the model, as in training
    whole_sentence: Tensor
    words_so_far: Tensor  # (4,): loss when it gets the words so far and no more, as in use
    best_possible: float  # average loss of a model that knows the language
    guessing: float  # loss of a model to which all words are equally likely


def best_possible() -> float:
    """Return the loss, in nats, of a model that knows the chances."""
    return torch.special.entr(torch.tensor(CHANCES)).sum().item()


def guessing() -> float:
    """Return the loss of a model to which all words are equally likely."""
    return math.log(WORDS)


@cache
def _table() -> dict[tuple[bool, int], Tensor]:
    """Return {(causal, step): (2, runs)}: losses given the whole sentence and the words so far."""
    found: dict[tuple[bool, int], list[list[float]]] = {}
    with data_path("peek_at_the_future.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            place = (row["causal"] == "1", int(row["step"]))
            found.setdefault(place, []).append([float(row["training"]), float(row["use"])])
    return {place: torch.tensor(rows).T for place, rows in found.items()}


def losses(causal: bool, step: int) -> PeekResult:
    """Return the losses of one model at one step."""
    return PeekResult(*_table()[causal, step], best_possible(), guessing())


@cache
def mean(causal: bool, step: int) -> tuple[float, float]:
    """Return the mean of both losses over the runs."""
    result = losses(causal, step)
    return result.whole_sentence.mean().item(), result.words_so_far.mean().item()


class PeekExplorer(Explorer):
    """A model trained with and without a causal mask: two losses over the steps of training.

    Parameters
    ----------
    **state
        ``causal``: whether the model was trained, and is used, with a causal mask. ``step``: 0 to
        300, every 10. ``ask`` and ``large``, as in ``Explorer``.

    Notes
    -----
    The models were trained beforehand, by ``data/make_peek_at_the_future.py``.

    See Also
    --------
    attnlab.causal_mask : the mask.
    """

    figsize = (7.2, 3.6)
    causal = Choice(True, {False: "none", True: "causal"}, label="mask in training")
    step = Slider(
        300, STEPS, label="step", spoken="step of the training", presets=(0, 50, 300), width=180
    )

    @property
    def panels(self) -> tuple[Panel, ...]:
        """What a word may look at, both losses over the steps, and those of both models."""
        best, guess = best_possible(), guessing()
        return (
            stacked(
                Heatmap(
                    "sight",
                    "what a word may look at",
                    under="in training; each row has to guess its “next”",
                    caption="Which word may look at which while the model is trained",
                    rows=PLACES,
                    columns=PLACES,
                    measure="",
                    still=False,
                ),
                how_to_read(*LOOKS),
            ),
            Curves(
                "curves",
                under=f"best: {best:.2f} on average; guess: {guess:.2f}, at random",
                over="step",
                stops=STEPS,
                labels=["" if step % 100 else f"{step}" for step in STEPS],
                lines=LINES,
                y=Axis(0, TOP, {0: "0", best: "best", guess: "guess", TOP: f"{TOP:g}"}),
                xlabel="training step",
                ylabel="loss",
                xscale="linear",
            ),
            Table(
                "board",
                "loss at this step",
                under="mean and range of four runs; ✓ marks the lower one",
                caption="Losses at this step",
            ),
        )

    @property
    def result(self) -> PeekResult:
        """The losses at this step, one for each run."""
        return losses(self.causal, self.step)

    def frame(self, causal: bool, step: int) -> dict[str, object]:
        """Return what words may look at, the curves of this model, and the losses of both."""
        role = "scaled" if causal else "raw"
        places = range(len(PLACES))
        sight = [[_sight(i, j, causal) for j in places] for i in places]
        looks, texts = ([[cell[part] for cell in row] for row in sight] for part in (0, 1))
        cells = torch.zeros(len(PLACES), len(PLACES))
        return {
            "say": sentence(causal, step),
            "bad": not causal,
            "code": code(causal),
            "sight": {"cells": cells, "looks": looks, "texts": texts},
            "curves": {
                "values": [[mean(causal, one)[place] for one in STEPS] for place in (1, 0)],
                "title": "causal mask: the two curves coincide" if causal else "no mask",
                "role": role,
            },
            "board": {
                "head": ["", ("no mask", "raw"), ("causal", "scaled")],
                "body": [
                    ["given the whole sentence", *_board(0, causal, step)],
                    ["given the words so far", *_board(1, causal, step)],
                ],
            },
        }


def _sight(query: int, key: int, causal: bool) -> tuple[str, str]:
    """Return look and text of a cell: whether a word may look at another one while training."""
    following = key == query + 1
    if causal and key > query:
        return "blocked", "next" if following else ""
    return ("allowed leak", "next") if following else ("allowed", "✓")


def _board(place: int, causal: bool, step: int) -> list[tuple[str, str]]:
    """Return one loss of both models: its mean and its range; the lower one has a tick."""
    means = [round(mean(model, step)[place], 2) for model in (False, True)]
    cells = []
    for model, own in zip((False, True), means, strict=True):
        low, high = (end.item() for end in losses(model, step)[place].aminmax())
        tick = "✓ " if own == min(means) != max(means) else ""
        look = "now" if model == causal else ""
        cells.append((f"{tick}**{own:.2f}**\n{low:.2f} to {high:.2f}", look))
    return cells


# --- words ----------------------------------------------------------------------------------------


@cache
def sentence(causal: bool, step: int) -> str:
    """Return both losses of a model, beside those of the other one."""
    own, other = mean(causal, step), mean(not causal, step)
    this, that = ("With", "without") if causal else ("Without", "with")
    text = (
        f"**{this} the causal mask**, the loss at step {step} is {own[0]:.2f} given the whole "
        f"sentence, and {own[1]:.2f} given only the words so far. It is {other[0]:.2f} and "
        f"{other[1]:.2f} {that} the mask."
    )
    if own[0] < best_possible() - 0.05:
        text += f" Without peeking, the best possible loss is {best_possible():.2f}."
    if own[1] > guessing() + 0.05 and step:
        text += f" Guessing at random gives {guessing():.2f}."
    return text


def code(causal: bool) -> str:
    """Return the lines of PyTorch."""
    return (
        f"output = SelfAttention(32, 32)(x, is_causal={causal}).output\n"
        "# given the whole sentence: every next word at once, as in training\n"
        "loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())\n"
        "# given the words so far: word t, from those before it and no more\n"
        "loss = F.cross_entropy(model(words[:, :t])[:, -1], words[:, t])"
    )
