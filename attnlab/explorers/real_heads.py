"""Explorer 16: twelve heads of a trained layer read a sentence, chosen or typed."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import State, one_of
from attnlab.explorers._page import numbers, short
from attnlab.plotting import WEIGHT_COLOURS
from attnlab.pretrained import FIRST, LAST, NUM_HEADS, PretrainedLayer, Reading, load_layer

# name of a choice: sentence, the word to look from
CHOICES = {
    "bank, river": ("she sat on the bank of the river", "bank"),
    "bank, money": ("she walked to the bank to deposit the money", "bank"),
    "bat, cave": ("the bat flew out of the cave at night", "bat"),
    "bat, ball": ("the player swung the bat and hit the ball", "bat"),
    "spring, winter": ("the flowers bloom in spring after the winter", "spring"),
    "spring, mattress": ("the metal spring in the mattress was broken", "spring"),
    "plant, garden": ("she watered the plant in the garden", "plant"),
    "it, animal": ("the animal didn't cross the street because it was too tired", "it"),
}
LONGEST = 24  # tokens that can stand side by side, markers included
DIGITS = 4
TIE = 0.005  # weights closer than this to the largest are called as large
HALF = 1e-9  # added before rounding: halves go up, in the browser as here
BLUE = "#0b61a4"


class RealHeadsResult(NamedTuple):
    """What the layer makes of the sentence.

    Attributes
    ----------
    tokens : tuple of str
        Word pieces, L of them, from ``[CLS]`` to ``[SEP]``.
    weights : Tensor, shape (12, L, L)
        A map for each head, counted from 0: row i says where token i looks.
    """

    tokens: tuple[str, ...]
    weights: Tensor


def _sentence(_name: str, value: object, _explorer: RealHeadsExplorer) -> str:
    """Return a sentence with single spaces, if the layer can read it and it is short."""
    tokens = _layer().tokens(value)  # refuses whatever it cannot read
    if len(tokens) > LONGEST:
        raise ValueError(
            f"text must have at most {LONGEST - 2} word pieces to be drawn side by side, "
            f"got {len(tokens) - 2}."
        )
    return " ".join(value.split())


def _place(name: str, value: object, _explorer: RealHeadsExplorer) -> int:
    if type(value) is not int or not 0 <= value < LONGEST:
        raise ValueError(f"{name} must be an integer from 0 to {LONGEST - 1}, got {short(value)}.")
    return value


class RealHeadsExplorer(Explorer):
    """Twelve heads of a trained layer over a sentence: all maps, one head, one row.

    In Jupyter any English sentence can be typed, and Python computes it; a page without a kernel
    carries a few.

    Parameters
    ----------
    **state
        ``sentence``: English, at most 24 word pieces with ``[CLS]`` and ``[SEP]``. ``head``: 0 to
        11. ``word``: position of the token whose row is shown, counted from 0; the last one if
        there are fewer. ``ask`` and ``large``, as in ``Explorer``.

    Attributes
    ----------
    problem : str
        Why what was typed last could not be read; empty if it could.

    See Also
    --------
    attnlab.pretrained.load_layer : the layer.
    """

    module = "real_heads"
    figsize = (9.2, 4.2)

    sentence = State(CHOICES["bank, river"][0], _sentence)
    head = State(4, one_of(*range(NUM_HEADS)))
    word = State(5, _place)
    typed = traitlets.Unicode().tag(sync=True)  # sent by the browser, emptied when it is read
    problem = traitlets.Unicode().tag(sync=True)
    reading = traitlets.Dict().tag(sync=True)  # of a sentence that is none of the choices

    @property
    def result(self) -> RealHeadsResult:
        """Tokens and weights, by torch."""
        reading = _read(self.sentence)
        return RealHeadsResult(tuple(reading.tokens), reading.weights.clone())

    @property
    def picked(self) -> int:
        """Position of the token whose row is shown."""
        return min(self.word, len(self.result.tokens) - 1)

    def make_data(self) -> dict[str, object]:
        """Return weights and words of all choices."""
        return {"readings": _choices(), "first": FIRST, "last": LAST, "tie": TIE}

    def data_to_store(self) -> dict[str, object]:
        """Return the choices, and the sentence in force if it is none of them."""
        own = [self.reading] if self.reading.get("sentence") == self.sentence else []
        return {**self.data, "readings": [*self.data["readings"], *own]}

    # --- a sentence of the reader's own -----------------------------------------------------------

    @traitlets.observe("sentence")
    def _on_sentence(self, _change: object) -> None:
        if self.sentence not in {sentence for sentence, _ in CHOICES.values()}:
            self.reading = _told(self.sentence)
        self.problem = ""

    @traitlets.observe("typed")
    def _on_typed(self, _change: object) -> None:
        if not self.typed:
            return
        asking = self.result.tokens[self.picked]
        with self.hold_sync():  # one message: the browser draws once
            try:
                self.sentence = self.typed
                self.problem = ""
                if asking in self.result.tokens:
                    self.word = self.result.tokens.index(asking)
            except Exception as error:  # shown inside the explorer: nobody else would see it
                self.problem = str(error)
            self.typed = ""

    # --- the picture ------------------------------------------------------------------------------

    def draw(self, fig: Figure) -> None:
        """Draw all heads small, and the row of one word as bars."""
        tokens, weights = self.result
        left, right = fig.subfigures(1, 2, width_ratios=[1.15, 1])
        for head, ax in enumerate(left.subplots(3, 4).flat):
            ax.imshow(weights[head].numpy(), cmap=WEIGHT_COLOURS, vmin=0, vmax=1)
            mark = "▸ " if head == self.head else ""
            ax.set(xticks=[], yticks=[], title=f"{mark}head {head}")
        _draw_row(right.subplots(), tokens, weights[self.head, self.picked], self.picked)
        right.axes[0].set_title(f"head {self.head}: where “{tokens[self.picked]}” looks")

    def say(self) -> str:
        """Return where the word looks most in this head, and what the two markers get."""
        tokens, weights = self.result
        row = numbers(weights[self.head, self.picked], DIGITS)
        most = max(row)
        top = [
            "itself" if i == self.picked else _named(tokens, i)
            for i, weight in enumerate(row)
            if weight > most - TIE
        ]
        each = " each" if len(top) > 1 else ""
        return (
            f"In head {self.head}, {_named(tokens, self.picked)} looks most at "
            f"{' and '.join(top)} ({_decimals(most)}{each}). {FIRST} and {LAST} together get "
            f"{_decimals(row[0] + row[-1])}; equal shares would be {_decimals(1 / len(row))} each."
        )


@lru_cache(maxsize=1)
def _layer() -> PretrainedLayer:
    return load_layer()


@lru_cache(maxsize=64)
def _read(sentence: str) -> Reading:
    """Return the reading of a sentence; nobody outside gets hold of it."""
    return _layer().read(sentence)


@lru_cache(maxsize=1)
def _choices() -> list[dict[str, object]]:
    told = []
    for name, (sentence, word) in CHOICES.items():
        told.append({**_told(sentence), "name": name, "word": _read(sentence).tokens.index(word)})
    return told


def _told(sentence: str) -> dict[str, object]:
    """Return all that the browser needs to know of a sentence."""
    reading = _read(sentence)
    return {
        "sentence": sentence,
        "tokens": reading.tokens,
        "weights": numbers(reading.weights, DIGITS),
        "code": code(sentence),
        "respelled": _respelled(sentence),
    }


def code(sentence: str) -> str:
    """Return the lines of PyTorch that compute the weights of a sentence."""
    length = len(_read(sentence).tokens)
    return (
        f"layer = load_layer()\n"
        f"tokens = layer.tokens({sentence!r})\n"
        f"x = layer.embed(tokens)  # (1, {length}, 384)\n"
        f"output, weights = layer.attention(x)\n"
        f"weights.shape  # (1, {NUM_HEADS}, {length}, {length})"
    )


def _respelled(sentence: str) -> str:
    """Return what to know of words that the original model spells otherwise; empty if none."""
    words = [f"“{word}” as {' '.join(own)}" for word, own in _layer().respelled(sentence).items()]
    if not words:
        return ""
    return f"The original model spells {', '.join(words)}: it would compute other weights."


def _draw_row(ax: Axes, tokens: tuple[str, ...], row: Tensor, picked: int) -> None:
    """Draw the weights of one query as bars, in the order of the sentence."""
    places = range(len(tokens))
    drawn = ax.barh(places, row.tolist(), color=BLUE, height=0.7)
    ax.bar_label(drawn, [_decimals(weight) for weight in row.tolist()], padding=4)
    ax.set(xlim=(0, 1.15), xticks=[], yticks=places)
    ax.set_yticklabels([f"▸ {t}" if i == picked else t for i, t in enumerate(tokens)])
    ax.invert_yaxis()


def _named(tokens: tuple[str, ...], place: int) -> str:
    """Return a token in quotes; one that stands several times with its place."""
    name = tokens[place] if tokens[place] in (FIRST, LAST) else f"“{tokens[place]}”"
    return f"{name} at {place}" if tokens.count(tokens[place]) > 1 else name


def _decimals(weight: float) -> str:
    return f"{weight + HALF:.2f}"
