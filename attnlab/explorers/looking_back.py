"""Follow the two looks of a model that copies, at every step of its training."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab import palette
from attnlab.display.table import load_rows
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Picked, Slider
from attnlab.explorers.frame.panels import Axis, Curves, Line
from attnlab.explorers.frame.words import decimals
from attnlab.models.looking_back import SYMBOLS, followers, to_tokens
from attnlab.models.store import load_tensors

TEXT = "KQZBMTAR|QZB|TARKQ|MTA"  # of make_looking_back.py, as are the steps
STOPS = (0, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200, 300)
WIDEST = 14  # of the lines, in points of the still picture
NAMES = {
    "previous": "previous, layer 0",
    "follower": "follower, layer 1",
    "correct": "share correct",
}
LOOKS = {
    "previous": ("raw", "dashed", "square"),
    "follower": ("scaled", "solid", "circle"),
    "correct": ("good", "dotted", "triangle"),
}


class LookingBackResult(NamedTuple):
    """Two looks, from one token of the text and from the token that it looks at most."""

    second: Tensor  # (22,): weights of the second layer, from the token that is chosen
    target: int  # the position of the largest of them
    first: Tensor  # (22,): weights of the first layer, from the target
    source: int  # the position of the largest of them
    guess: str  # the symbol that the model thinks most likely to come next
    chance: float  # how likely, from 0 to 1


@cache
def _stored() -> tuple[Tensor, Tensor]:
    """Return the weights (steps, layers, L, L) and the chances of the symbols (steps, L, 27)."""
    stored = load_tensors("looking_back.safetensors")
    return stored["watched.weights"].float(), stored["watched.chances"].float()


@cache
def follow(step: int, position: int) -> LookingBackResult:
    """Return both looks from one position, at one step of the training."""
    weights, chances = (stored[STOPS.index(step)] for stored in _stored())
    second = weights[1, position]
    target = int(second.argmax())
    first = weights[0, target]
    chance, symbol = chances[position].max(dim=-1)
    guess = SYMBOLS[int(symbol)]
    return LookingBackResult(second, target, first, int(first.argmax()), guess, chance.item())


@cache
def scores() -> dict[str, list[float]]:
    """Return the scores of the six models with two layers at each stop, on average."""
    rows = [row for row in load_rows("looking_back.csv") if row["num_layers"] == "2"]

    def mean(name: str, stop: int) -> float:
        values = [float(row[name]) for row in rows if int(row["step"]) == stop]
        return torch.tensor(values).mean().item()

    return {name: [mean(name, stop) for stop in STOPS] for name in NAMES}


class LookingBackExplorer(Explorer):
    """Two looks of a model with two layers: choose a letter, and follow them back.

    Parameters
    ----------
    **state
        ``position``: 0 to 21, the token of the text that guesses what comes next. ``step``: the
        step of the training, 0, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200 or 300. ``ask`` and
        ``large``, as in ``Explorer``.

    Notes
    -----
    The model was trained beforehand, by ``data/make_looking_back.py``.

    See Also
    --------
    attnlab.models.looking_back.load_looking_back : the model after its training.
    """

    module = "looking_back"
    figsize = (9.2, 3.9)
    position = Picked(10, tuple(range(len(TEXT))))
    step = Slider(
        300, STOPS, label="step", spoken="step of the training", presets=(0, 40, 60, 300), width=180
    )

    @property
    def panels(self) -> tuple[Curves, ...]:
        """Both scores and the share of correct guesses over the training."""
        lines = [Line(NAMES[name], values, *LOOKS[name]) for name, values in scores().items()]
        return (
            Curves(
                "scores",
                "mean of six models",
                under="both scores and the share correct, 500 texts",
                over="step",
                stops=STOPS,
                labels=[f"{stop}" if stop in (0, 40, 80, 150, 300) else "" for stop in STOPS],
                lines=lines,
                y=Axis(0, 1, (0, 0.5, 1)),
                xlabel="training step",
                xscale="linear",
            ),
        )

    @property
    def result(self) -> LookingBackResult:
        """Both looks, from the stored weights."""
        return follow(self.step, self.position)

    def make_data(self) -> dict[str, object]:
        """Return the frames, and the letters of the text."""
        return {**super().make_data(), "letters": list(TEXT), "rows": ROWS}

    def frame(self, position: int, step: int) -> dict[str, object]:
        """Return both looks and what they lead to."""
        result = follow(step, position)
        return {
            "say": sentence(step, position),
            "bad": False,
            "code": code(position, result.target),
            "scores": {
                "looks": {
                    "second": [round(weight, 3) for weight in result.second.tolist()],
                    "target": result.target,
                    "first": [round(weight, 3) for weight in result.first.tolist()],
                    "source": result.source,
                }
            },
        }

    def draw(self, fig: Figure) -> None:
        """Draw the three rows of letters with the lines between them, and the curves."""
        axes = fig.subplot_mosaic([["looks", "scores"]], width_ratios=(2.2, 1))
        self._draw_looks(axes["looks"])
        (curves,) = self.panels
        curves.draw(axes["scores"], {}, self.state())
        fig.legend(*axes["scores"].get_legend_handles_labels(), loc="outside lower center", ncols=3)

    def _draw_looks(self, ax: Axes) -> None:
        result = self.result
        looks = ((2, self.position, result.second), (1, result.target, result.first))
        line = {"color": palette.BLUE, "alpha": 0.55, "solid_capstyle": "butt"}
        for row, start, weights in looks:
            for position, weight in enumerate(weights.tolist()):
                ends = [start, position], [row - 0.16, row - 0.84]
                ax.plot(*ends, linewidth=WIDEST * weight, **line)
        marked = {2: self.position, 1: result.target, 0: result.source}
        for row, text in zip((2, 1, 0), ROWS, strict=True):
            x, side = (-0.5, "left") if row == 2 else (len(TEXT) - 0.5, "right")
            ax.text(x, row + 0.2, text, ha=side, fontsize=10, color=palette.INK)
            for position, letter in enumerate(TEXT):
                look = {"edgecolor": palette.ORANGE, "facecolor": "none", "pad": 2.5}
                box = look if marked[row] == position else None
                ax.text(position, row, letter, ha="center", va="center", fontsize=12.5, bbox=box)
        ax.set(xlim=(-1, len(TEXT)), ylim=(-0.3, 2.45))
        ax.set_axis_off()


ROWS = (
    "choose the letter from which to guess",
    "layer 1 looks from there to here",
    "layer 0 looked from the framed letter to here",
)

# --- words ----------------------------------------------------------------------------------------


def sentence(step: int, position: int) -> str:
    """Return both looks in words, and the guess."""
    second, target, first, source, guess, chance = follow(step, position)
    start = (
        f"**Step {step}:** from {_named(position)}, layer 1 attends most to {_named(target)}, with "
        f"weight {decimals(second[target].item())}. From there, layer 0 attended most to "
        f"{_named(source)} ({decimals(first[source].item())})."
    )
    rows = followers(to_tokens(TEXT)[None])[0, position].nonzero().flatten().tolist()
    told = f"The model guesses **{guess}** with probability {decimals(chance)}"
    if not rows:
        return f"{start} {told}. No letter has followed {_letter(position)} yet, so it cannot know."
    letter = TEXT[rows[0]]
    verdict = "which is correct" if guess == letter else f"but {letter} would be correct"
    return f"{start} {told}, {verdict}."


def _letter(position: int) -> str:
    return "a bar" if TEXT[position] == "|" else TEXT[position]


def _named(position: int) -> str:
    return f"the {'bar' if TEXT[position] == '|' else TEXT[position]} at position {position}"


def code(position: int, target: int) -> str:
    """Return the lines of PyTorch."""
    return (
        f'tokens = to_tokens("{TEXT}")[None]  # (1, {len(TEXT)})\n'
        "logits, weights = model(tokens)  # weights: (layers, N, H, L, L)\n"
        f"second = weights[1, 0, 0, {position}]  # where layer 1 looks from {position}\n"
        "target = second.argmax()\n"
        f"first = weights[0, 0, 0, target]  # where layer 0 looked from {target}\n"
        f"guess = SYMBOLS[logits[0, {position}].argmax()]"
    )
