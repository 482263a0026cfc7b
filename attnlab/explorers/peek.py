"""Explorer 9: what a model gains by peeking at the future in training, and what it loses."""

from __future__ import annotations

import csv
import math
from functools import cache
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.data import data_path
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import State, flag, one_of
from attnlab.explorers._page import numbers
from attnlab.plotting import plot_sweep

STEPS = tuple(range(0, 301, 10))
RUNS = 4
WORDS = 8  # of the made-up language
CHANCES = (0.6, 0.3, 0.1)  # of the words that may follow a word
TOP = 3.0  # of the picture: all means lie below


class PeekResult(NamedTuple):
    """Losses of four runs at one step of the training, on new sentences.

    Attributes
    ----------
    whole_sentence : Tensor, shape (4,)
        Loss when the whole sentence lies before the model, as in training.
    words_so_far : Tensor, shape (4,)
        Loss when it gets the words so far and no more, as in use.
    best_possible : float
        Loss of whoever knows the language, on average.
    guessing : float
        Loss of whoever finds every word equally likely.
    """

    whole_sentence: Tensor
    words_so_far: Tensor
    best_possible: float
    guessing: float


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

    module = "peek"
    figsize = (7.2, 3.6)

    causal = State(True, flag)
    step = State(300, one_of(*STEPS))

    @property
    def result(self) -> PeekResult:
        """The losses at this step, one for each run."""
        return losses(self.causal, self.step)

    def make_data(self) -> dict[str, object]:
        """Return the curves of both models, and the words of every state."""
        return {
            "steps": list(STEPS),
            "best": best_possible(),
            "guessing": guessing(),
            "top": TOP,
            "models": {name: model(name == "causal") for name in ("causal", "unmasked")},
        }

    def draw(self, fig: Figure) -> None:
        """Draw both losses of the chosen model over the steps."""
        ax = fig.subplots()
        curves = {
            "given the words so far": [mean(self.causal, step)[1] for step in STEPS],
            "given the whole sentence": [mean(self.causal, step)[0] for step in STEPS],
        }
        title = f"trained {'with' if self.causal else 'without'} a causal mask, mean of four runs"
        look = {"xlabel": "training step", "ylabel": "loss", "at": self.step}
        plot_sweep(STEPS, curves, ax=ax, title=title, **look)
        for loss, name in ((best_possible(), "best possible"), (guessing(), "guessing")):
            ax.axhline(loss, color="#555555", linewidth=1, linestyle=":")
            ax.text(293, loss - 0.05, name, ha="right", va="top", fontsize=10)
        ax.set(ylim=(0, TOP))

    def say(self) -> str:
        """Return both losses at this step, and those of the other model."""
        return sentence(self.causal, self.step)


def best_possible() -> float:
    """Return the loss, in nats, of whoever knows the chances."""
    return torch.special.entr(torch.tensor(CHANCES)).sum().item()


def guessing() -> float:
    """Return the loss of whoever finds every word equally likely."""
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


def model(causal: bool) -> dict[str, object]:
    """Return the curves of one model for the browser, and what is said at every step."""
    every = torch.stack([_table()[causal, step] for step in STEPS])  # (steps, 2, runs)
    parts = {"mean": every.mean(-1), "low": every.amin(-1), "high": every.amax(-1)}
    return {
        **{name: numbers(part.T, 2) for name, part in parts.items()},
        "say": [sentence(causal, step) for step in STEPS],
    }


@cache
def sentence(causal: bool, step: int) -> str:
    """Return both losses of a model, beside those of the other one."""
    own = [round(loss, 2) for loss in mean(causal, step)]
    other = [round(loss, 2) for loss in mean(not causal, step)]
    whole, so_far = (
        f"{_relation(*pair)} the {pair[1]:.2f} {'without' if causal else 'with'} it"
        for pair in zip(own, other, strict=True)
    )
    start = f"{'With' if causal else 'Without'} the causal mask, step {step}: loss "
    text = (
        f"{start}{own[0]:.2f} given the whole sentence, {whole}, and {own[1]:.2f} given the words "
        f"so far, {so_far}."
    )
    if own[0] < best_possible() - 0.05:
        text += f" Nobody gets so far below {best_possible():.2f} without peeking."
    if own[1] > guessing() + 0.05 and step:
        text += f" Guessing at random gives {guessing():.2f}."
    return text


def _relation(one: float, other: float) -> str:
    if one == other:
        return "equal to"
    return "lower than" if one < other else "higher than"
