"""What "bank" means between other words, and whether attention selects or only mixes."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import attention_scores, attention_weights
from attnlab.checks import short
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.bundle import sendable
from attnlab.explorers.frame.controls import Choice, Slider, State, check_items
from attnlab.explorers.frame.panels import Bars
from attnlab.explorers.frame.words import HALF, TIE, decimals, largest, texts_beside
from attnlab.palette import BLUE, GREEN, INK, ORANGE

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
NAMES = {"river": "river", "loan": "loan", "both": "river and loan"}
SHARPNESS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
WIDE, HIGH = 3.5, 2.5  # words stay that close to the origin
EDGES = (4.0, 3.0)  # of the plane, a little further out
MIDDLE = 0.3  # closer to the border between nature and money than this: undecided
PULL = 20  # width of the line of a weight of 1

WORDS = texts_beside(__file__)["words"]


class BankResult(NamedTuple):
    """Attention of "bank" over the words of its sentence."""

    words: tuple[str, ...]  # the sentence, S words
    vectors: Tensor  # (S, 2): queries, keys and values in one
    weights: Tensor  # (S,): of the query "bank"
    output: Tensor  # (2,): where "bank" ends up: ``weights @ vectors``
    average: Tensor  # (2,): the control: the mean of the same vectors, without any weights


def _moved(
    name: str, value: object, _explorer: BankExplorer
) -> tuple[tuple[str, float, float], ...]:
    """Check a list of words that lie elsewhere than at the start."""
    check_items(name, value, "be a list of (word, x, y)")
    places = {}
    for entry in value:
        check_items(name, entry, "hold (word, x, y)", count=3)
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
    sentence = Choice("both", NAMES, label="sentence")
    sharpness = Slider(
        1.0,
        SHARPNESS,
        label="sharpness",
        spoken="sharpness of the weights",
        presets=(0.0, 1.0, 8.0),
        width=140,
    )
    moved = State((), _moved)
    panels = (
        Bars(
            title="weights of “bank”",
            under="how much it attends to each word",
            caption="Weights of the query “bank”",
            head="word",
            filled="attention",
            outlined="plain average",
        ),
    )

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
        """Return the plane, the sentences and all words."""
        plane = {"vectors": VECTORS, "limits": (WIDE, HIGH), "edges": EDGES, "middle": MIDDLE}
        told = {"sentences": SENTENCES, "words": WORDS}
        return sendable({**plane, **told, "tie": TIE, "half": HALF, "pull": PULL})

    def draw(self, fig: Figure) -> None:
        """Draw the plane with the words, and a bar of weight per word."""
        plane, bars = fig.subplots(1, 2, width_ratios=[1.55, 1])
        result = self.result
        _draw_plane(plane, result)
        plane.set_title(" ".join(result.words))
        average = torch.full_like(result.weights, 1 / len(result.words))
        title = "weights of “bank”; dashed: average"
        values = {"names": result.words, "weights": result.weights, "outline": average}
        self.panels[0].at({**values, "title": title}).draw(bars, values, self.state())
        fig.legend(*plane.get_legend_handles_labels(), loc="outside lower left", ncols=2)

    def say_rich(self) -> str:
        """Return where "bank" ends up, and whether a plain average ends up on the same side."""
        result = self.result
        here, control = (point[0].item() for point in (result.output, result.average))
        if self.sharpness == 0:
            return WORDS["flat"].format(here=_where(here))
        weights = result.weights.tolist()
        top = [result.words[place] for place in largest(weights)]
        names = [WORDS["itself" if word == "bank" else "word"].format(word=word) for word in top]
        return WORDS["ends"].format(
            here=_where(here),
            names=" and ".join(names),
            most=decimals(max(weights)),
            each=WORDS["each"] if len(names) > 1 else "",
            verdict=WORDS["verdicts"][_case(here, control)].format(there=_where(control)),
        )


def _side(x: float) -> int:
    return 0 if round(abs(x) + HALF, 2) < MIDDLE else int(math.copysign(1, x))


def _case(here: float, control: float) -> str:
    """Return what the two end points, attention and plain average, say together."""
    if _side(here) == _side(control):
        return "mixing" if _side(here) else "undecided"
    return "selecting" if _side(here) else "holding"


def _where(x: float) -> str:
    if not _side(x):
        return WORDS["middle"]
    return WORDS["towards"].format(far=decimals(abs(x)), side="money" if x > 0 else "nature")


def _draw_plane(ax: Axes, result: BankResult) -> None:
    """Draw words, pull lines and both end points on the plane."""
    for left, right, colour in ((-EDGES[0], -MIDDLE, GREEN), (MIDDLE, EDGES[0], ORANGE)):
        ax.axvspan(left, right, color=colour, alpha=0.1, linewidth=0)
    end, average = result.output.tolist(), result.average.tolist()
    for (x, y), weight in zip(result.vectors.tolist(), result.weights.tolist(), strict=True):
        ax.plot([x, end[0]], [y, end[1]], color=BLUE, alpha=0.35, linewidth=PULL * weight)
    for word, (x, y) in zip(result.words, result.vectors.tolist(), strict=True):
        look = {"color": "white", "edgecolor": BLUE} if word == "bank" else {"color": INK}
        ax.scatter(x, y, s=60, zorder=3, linewidths=2, **look)
        ax.annotate(word, (x, y), (0, -14), textcoords="offset points", ha="center", va="center")
    front = {"zorder": 4, "edgecolor": "white"}
    ax.scatter(*end, s=150, color=BLUE, label="“bank” after attention", **front)
    ax.scatter(*average, s=95, color=ORANGE, marker="D", label="plain average", **front)
    ax.set(xlim=(-EDGES[0], EDGES[0]), ylim=(-EDGES[1], EDGES[1]), xticks=[], yticks=[])
    ax.set_xlabel("← nature         undecided         money →")
    ax.set_ylabel("filler → content")
