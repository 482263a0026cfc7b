"""Explorer 2: what "bank" means between other words, and whether attention selects or mixes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import attention_scores, attention_weights
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import State, one_of
from attnlab.explorers._page import short

# one vector per word, the same in every sentence: (nature to money, filler to content)
VECTORS = {
    "river": (-3.0, 2.0),
    "loan": (3.0, 2.0),
    "bank": (0.0, 1.4),
    "flooded": (-1.9, 0.6),
    "this": (-0.6, -1.3),
    "the": (0.6, -1.3),
    "by": (-1.1, -2.4),
    "gave": (0.0, -2.4),
    "a": (1.1, -2.4),
}
SENTENCES = {
    "river": ("the", "river", "bank", "flooded"),
    "loan": ("the", "bank", "gave", "a", "loan"),
    "both": ("this", "bank", "by", "the", "river", "gave", "a", "loan"),
}
SHARPNESS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
WIDE, HIGH = 3.5, 2.5  # words stay that close to the origin
EDGES = (4.0, 3.0)  # of the plane, a little further out
MIDDLE = 0.3  # closer to the border between nature and money than this: undecided
TIE = 0.005  # weights closer than this are called equal
HALF = 1e-9  # added before rounding: halves go up, in the browser as here
NATURE, MONEY, UNDECIDED = "#00704f", "#8a6100", "#6b7683"
BLUE, ORANGE = "#0b61a4", "#c8500a"


class BankResult(NamedTuple):
    """Attention of "bank" over the words of its sentence.

    Attributes
    ----------
    words : tuple of str
        The sentence, S words.
    vectors : Tensor, shape (S, 2)
        Queries, keys and values in one.
    weights : Tensor, shape (S,)
        Of the query "bank".
    output : Tensor, shape (2,)
        Where "bank" ends: ``weights @ vectors``.
    average : Tensor, shape (2,)
        The control: the mean of the same vectors, without any weights.
    """

    words: tuple[str, ...]
    vectors: Tensor
    weights: Tensor
    output: Tensor
    average: Tensor


def _stop(name: str, value: object, _explorer: BankExplorer) -> float:
    """Check a sharpness; a browser sends 1 for 1.0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in SHARPNESS:
        allowed = ", ".join(f"{stop:g}" for stop in SHARPNESS)
        raise ValueError(f"{name} must be one of {allowed}, got {short(value)}.")
    return float(value)


def _moved(
    name: str, value: object, _explorer: BankExplorer
) -> tuple[tuple[str, float, float], ...]:
    """Check a list of words that lie elsewhere than at the start."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a list of (word, x, y), got {short(value)}.")
    places = {}
    for entry in value:
        if isinstance(entry, str) or not isinstance(entry, Sequence) or len(entry) != 3:
            raise TypeError(f"{name} must hold (word, x, y), got {short(entry)}.")
        word, x, y = entry
        if not isinstance(word, str) or word not in VECTORS:
            raise ValueError(f"{name} must name words of {', '.join(VECTORS)}, got {short(word)}.")
        _check_coordinate(name, word, x, WIDE)
        _check_coordinate(name, word, y, HIGH)
        places[word] = (float(x), float(y))
    return tuple((word, *place) for word, place in sorted(places.items()))


def _check_coordinate(name: str, word: str, value: object, limit: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must give {word!r} two numbers, got {short(value)}.")
    if not -limit <= value <= limit:  # NaN included
        raise ValueError(
            f"{name} must keep {word!r} within ±{WIDE:g} across and ±{HIGH:g} up, "
            f"got {short(value)}."
        )


class BankExplorer(Explorer):
    """One ambiguous word between others: drag them, and compare attention with a plain average.

    Parameters
    ----------
    **state
        ``sentence``: "river", "loan" or "both". ``sharpness``: factor on the scores, one of 0,
        0.25, 0.5, 1, 2, 4, 8. ``moved``: words that lie elsewhere than at the start, as a list of
        (word, x, y); x runs from -3.5 (nature) to 3.5 (money), y from -2.5 (filler) to 2.5
        (content). ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.attention_weights : the weights shown, from scores times ``sharpness``.
    """

    module = "bank"
    figsize = (9.2, 3.9)

    sentence = State("river", one_of(*SENTENCES))
    sharpness = State(1.0, _stop)
    moved = State((), _moved)

    @property
    def result(self) -> BankResult:
        """Weights, output and plain average, by torch in double precision."""
        words = SENTENCES[self.sentence]
        places = VECTORS | {word: place for word, *place in self.moved}
        vectors = torch.tensor([places[word] for word in words], dtype=torch.float64)  # (S, 2)
        query = vectors[[words.index("bank")]]  # (1, 2)
        weights = attention_weights(self.sharpness * attention_scores(query, vectors))[0]
        return BankResult(words, vectors, weights, weights @ vectors, vectors.mean(dim=0))

    def make_data(self) -> dict[str, object]:
        """Return words, sentences and stops."""
        return {
            "vectors": dict(VECTORS),
            "sentences": dict(SENTENCES),
            "stops": SHARPNESS,
            "middle": MIDDLE,
            "tie": TIE,
            "limits": (WIDE, HIGH),
            "edges": EDGES,
        }

    def draw(self, fig: Figure) -> None:
        """Draw the plane with the words, and a bar of weight per word."""
        plane, bars = fig.subplots(1, 2, width_ratios=[1.55, 1])
        result = self.result
        _draw_plane(plane, result)
        plane.set_title(" ".join(result.words))
        words, weights = list(result.words), result.weights.tolist()
        drawn = bars.barh(words, weights, color=BLUE, height=0.62)
        bars.bar_label(drawn, [f"{weight:.2f}" for weight in weights], padding=4)
        bars.axvline(1 / len(words), color=ORANGE, linestyle="--")
        bars.set(xlim=(0, 1.12), title="weights of “bank”; dashed: average", xticks=[])
        bars.invert_yaxis()
        fig.legend(loc="outside lower left", ncols=2)

    def say(self) -> str:
        """Return where "bank" ends, and whether a plain average ends on the same side."""
        result = self.result
        here, control = (point[0].item() for point in (result.output, result.average))
        if self.sharpness == 0:
            return (
                f"Sharpness 0: all weights are equal, and attention is the plain average. “bank” "
                f"ends {_where(here)}; nothing is selected."
            )
        start = f"“bank” ends {_where(here)}; it listens most to {self._loudest(result)}. "
        return f"{start}The plain average ends {_where(control)}{VERDICTS[_case(here, control)]}"

    def _loudest(self, result: BankResult) -> str:
        weights = result.weights.tolist()
        most = max(weights)
        names = [
            "itself" if word == "bank" else f"“{word}”"
            for word, weight in zip(result.words, weights, strict=True)
            if weight > most - TIE
        ]
        return f"{' and '.join(names)} ({most + HALF:.2f}{' each' if len(names) > 1 else ''})"


VERDICTS = {
    "undecided": " too: undecided.",
    "mixing": ", the same side: mixing is enough for that, it takes no selecting.",
    "selecting": ": mixing alone does not decide this, the weights do. They select.",
    "holding": ": it is the weights that keep “bank” undecided.",
}


def _side(x: float) -> int:
    return 0 if round(abs(x) + HALF, 2) < MIDDLE else int(math.copysign(1, x))


def _case(here: float, control: float) -> str:
    """Return what the two end points, attention and plain average, say together."""
    if _side(here) == _side(control):
        return "mixing" if _side(here) else "undecided"
    return "selecting" if _side(here) else "holding"


def _where(x: float) -> str:
    if not _side(x):
        return "in the middle"
    return f"{abs(x) + HALF:.2f} towards {'money' if x > 0 else 'nature'}"


def _draw_plane(ax: Axes, result: BankResult) -> None:
    """Draw words, pull lines and both end points on the plane."""
    for left, right, colour in ((-EDGES[0], -MIDDLE, NATURE), (MIDDLE, EDGES[0], MONEY)):
        ax.axvspan(left, right, color=colour, alpha=0.1, linewidth=0)
    end, average = result.output.tolist(), result.average.tolist()
    for (x, y), weight in zip(result.vectors.tolist(), result.weights.tolist(), strict=True):
        ax.plot([x, end[0]], [y, end[1]], color=BLUE, alpha=0.35, linewidth=0.4 + 14 * weight)
    for word, (x, y) in zip(result.words, result.vectors.tolist(), strict=True):
        look = {"color": "white", "edgecolor": BLUE} if word == "bank" else {"color": "#3d4854"}
        ax.scatter(x, y, s=60, zorder=3, linewidths=2, **look)
        ax.annotate(word, (x, y), (0, -14), textcoords="offset points", ha="center", va="center")
    ax.scatter(*end, s=150, color=BLUE, zorder=4, edgecolor="white", label="“bank” after attention")
    ax.scatter(*average, s=95, color=ORANGE, marker="D", zorder=4, edgecolor="white",
               label="plain average")  # fmt: skip
    ax.set(xlim=(-EDGES[0], EDGES[0]), ylim=(-EDGES[1], EDGES[1]), xticks=[], yticks=[])
    ax.set_xlabel("← nature         undecided         money →")
    ax.set_ylabel("filler → content")
