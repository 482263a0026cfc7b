"""What a temperature does to one row of weights, and what it leaves alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.attention import attention_weights
from attnlab.diagnostics import effective_keys
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import Question, Slider
from attnlab.explorers._panels import Axis, Bars, Curves, Line

SCORES = (2.0, 1.0, 0.5, 0.0, -1.0)  # those of lesson 2
KEYS = tuple(f"key {j}" for j in range(len(SCORES)))
D_K = 4  # features of the query that has these raw scores: sqrt(d_k) is a stop
DECADE = (1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0)  # nearly even steps of a log axis
STOPS = (*(step / 10 for step in DECADE), *DECADE, 10.0)
PRESETS = {0.1: "near 0: 0.1", 1.0: "1", D_K**0.5: f"√d_k = √{D_K} = 2", 10.0: "large: 10"}
HARD, FLAT = 0.99, 0.1  # a largest weight above, all weights within: an end is reached


class TemperatureResult(NamedTuple):
    """What one temperature makes of the five scores."""

    weights: Tensor  # (5,): after the softmax
    winner: int  # the key with the largest weight
    effective_keys: float  # how many keys the weights amount to, from 1 to 5


def measure(tau: float) -> TemperatureResult:
    """Return what one temperature makes of the five scores."""
    scores = torch.tensor([SCORES], dtype=torch.float64) / tau  # (1, S): one query
    weights = attention_weights(scores)
    return TemperatureResult(weights[0], int(weights.argmax()), effective_keys(weights).item())


CURVE = [measure(tau).effective_keys for tau in STOPS]


class TemperatureExplorer(Explorer):
    """One row of weights while all its scores are divided by a temperature.

    Parameters
    ----------
    **state
        ``tau``: the temperature, one of 21 stops from 0.1 to 10, evenly spaced on a logarithmic
        axis: 0.1, 0.2, 0.5, 1, 2, 5 and 10 are among them. ``ask`` and ``large``, as in
        ``Explorer``.

    See Also
    --------
    attnlab.effective_keys : counts the keys that weights amount to.
    ScalingExplorer : the temperature that attention takes, sqrt(d_k).
    """

    figsize = (8.2, 3.1)
    title = "What does a temperature change?"
    hint = (
        "One query and five keys. All scores are divided by a temperature τ before the softmax "
        "turns them into weights. In attention, τ is √d_k. Beside each key is its raw score."
    )
    prediction = Question(
        ask=f"τ runs from {STOPS[0]:g} to {STOPS[-1]:g}. Does another key ever become the winner?",
        then=f"Now take τ to both ends, {STOPS[0]:g} and {STOPS[-1]:g}, and look.",
        options=("yes, at a low τ", "yes, at a high τ", "never"),
        right=2,
        why="Key 0 wins throughout. Dividing all scores by the same positive number keeps their "
        "order, and so does the softmax: only the contrast changes.",
        settled=({"tau": [STOPS[0]]}, {"tau": [STOPS[-1]]}),
    )
    tau = Slider(1.0, STOPS, label="τ", spoken="temperature τ", presets=PRESETS)
    panels = (
        Bars(
            "weights",
            f"weights of one query with d_k = {D_K} features",
            grow=1.6,
            names=KEYS,
            columns={"score": [f"{score:g}".replace("-", "−") for score in SCORES]},
            marked=True,
            filled="divided",
            outlined="not divided: τ = 1",
        ),
        Curves(
            "used",
            f"how many of {len(KEYS)} keys it uses",
            under="1: one key has it all, 5: all share alike; point to look, click to stay",
            over="tau",
            stops=STOPS,
            labels=[f"{tau:g}" if tau in (0.1, 0.32, 1, 3.2, 10) else "" for tau in STOPS],
            lines=[Line("effective keys", CURVE, "scaled", "solid", "circle")],
            y=Axis(1, len(KEYS), range(1, len(KEYS) + 1)),
            xlabel="τ, logarithmic",
        ),
    )

    @property
    def result(self) -> TemperatureResult:
        """Weights, winner and effective keys at this temperature, by torch."""
        return measure(self.tau)

    def frame(self, tau: float) -> dict[str, object]:
        """Return the weights, and those of temperature 1 to compare them with."""
        weights, winner, _ = measure(tau)
        return {
            "say": sentence(tau),
            "bad": False,
            "code": code(tau),
            "weights": {
                "weights": weights,
                "outline": measure(1.0).weights,
                "marks": ["wins" if j == winner else "" for j in range(len(KEYS))],
                "filled": f"scores divided by {tau:g}",
            },
        }


def sentence(tau: float) -> str:
    """Return who wins at one temperature, and by how much."""
    weights, winner, used = measure(tau)
    best, second = weights.topk(2).values.tolist()
    start = (
        f"**τ = {tau:g}: {KEYS[winner]} wins**, as it does at every τ. Its weight is "
        f"{_share(best)}, which is {_times(best / second)} times the next largest, and the query "
        f"uses {used:.1f} of its {len(KEYS)} keys"
    )
    if best > HARD:
        return f"{start}. This is nearly a hard look-up."
    flat = best - weights.min().item() < FLAT
    return f"{start}. This is nearly a plain average." if flat else f"{start}."


def _share(weight: float) -> str:
    return f"{weight:.2f}" if weight < 0.995 else "nearly 1"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"


def code(tau: float) -> str:
    """Return the lines of PyTorch."""
    return (
        f"scores = torch.tensor([{', '.join(f'{score:g}' for score in SCORES)}])\n"
        f"weights = (scores / {tau:g}).softmax(dim=-1)\n"
        "entropy = torch.special.entr(weights).sum()\n"
        "used = entropy.exp()  # effective keys"
    )
