"""Twelve heads of a trained layer read a sentence, chosen or typed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import traitlets
from torch import Tensor

from attnlab._checks import short
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import Picked, Question, State
from attnlab.explorers._page import numbers
from attnlab.explorers._panels import Bars, Maps
from attnlab.explorers._words import HALF, TIE, decimals, largest
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

WORDS = {
    "say": f"In head {{head}}, {{asking}} attends most to **{{top}}** ({{most}}{{each}}). {FIRST} "
    f"and {LAST} together get {{marked}}; uniform attention gives each {{equal}}.",
    "itself": "itself",
    "quoted": "“{token}”",
    "several": "{name} at {place}",
    "each": " each",
    "head": "Head {head}: what {asking} attends to",
    "row": "Row {place} of head {head}",
    "code": "{lines}\nweights[0, {head}, {place}]  # head {head}, {token}",
    "box": "A sentence of your own",
    "read": "Read",
    "or": "or a sentence with",
    "alone": "sentence with",
    "few": "Other sentences need a running notebook.",
    "empty": "Type a sentence first.",
}


class RealHeadsResult(NamedTuple):
    """What the layer makes of the sentence."""

    tokens: tuple[str, ...]  # word pieces, L of them, from ``[CLS]`` to ``[SEP]``
    # (12, L, L): a map for each head, counted from 0: row i says what token i attends to
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
        11. ``word``: position of the token whose row is shown, counted from 0; the last word if
        there are fewer tokens. ``ask`` and ``large``, as in ``Explorer``.

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
    title = "Twelve real heads"
    hint = (
        "The first attention layer of a trained model. Pick a sentence, a head and the word that "
        "asks: point to look, click to keep."
    )
    panels = (
        Maps(
            key="maps",
            title="All heads",
            under="darker: more attention; ▸ the row that asks",
            over="head",
        ),
        Bars(key="row", caption="Weights of the word that asks", head="key"),
    )

    sentence = State(CHOICES["bank, river"][0], _sentence)
    head = Picked(4, range(NUM_HEADS))
    word = State(5, _place)
    typed = traitlets.Unicode().tag(sync=True)  # sent by the browser, emptied when it is read
    problem = traitlets.Unicode().tag(sync=True)
    reading = traitlets.Dict().tag(sync=True)  # of a sentence that is not a choice

    @property
    def result(self) -> RealHeadsResult:
        """Tokens and weights, by torch."""
        reading = _read(self.sentence)
        return RealHeadsResult(tuple(reading.tokens), reading.weights.clone())

    @property
    def picked(self) -> int:
        """Position of the token whose row is shown."""
        return _place_in(self.result.tokens, self.word)

    @property
    def prediction(self) -> Question:
        """Ask how many heads send "bank" to "river"."""
        sentence, word = CHOICES["bank, river"]
        tokens, weights = _read(sentence).tokens, _read(sentence).weights
        most = [tokens[i] for i in weights[:, tokens.index(word)].argmax(dim=-1).tolist()]
        fit = [f"head {head}" for head, token in enumerate(most) if token == "river"]
        marked = sum(token in (FIRST, LAST) for token in most)
        return Question(
            ask=f"twelve heads read “{sentence}”. In how many of them does “{word}” attend most "
            "to “river”?",
            then="Now keep another head, and look through all of them.",
            options=("at most 2", "3 to 9", "10 or more"),
            right=(len(fit) > 2) + (len(fit) > 9),
            why=f"In “{sentence}” it is {len(fit)}: {' and '.join(fit)}. In {marked} heads "
            f"“{word}” attends most to {FIRST} or {LAST}, which are not words.",
            settled=({"head": [head for head in range(NUM_HEADS) if head != self.head]},),
        )

    def make_data(self) -> dict[str, object]:
        """Return weights and words of all choices."""
        limits = {"longest": LONGEST, "tie": TIE, "half": HALF}
        return {"readings": _choices(), "markers": [FIRST, LAST], **limits, "words": WORDS}

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
                self.word = _place_in(self.result.tokens, self.word, asking)
            except Exception as error:  # shown inside the explorer
                self.problem = str(error)
            self.typed = ""

    # --- the picture ------------------------------------------------------------------------------

    def frame_now(self) -> dict[str, object]:
        """Return the maps of all heads, and the row of the word that asks."""
        tokens, weights = self.result
        asking = {"head": self.head, "asking": _named(tokens, self.picked)}
        row = {"names": tokens, "weights": weights[self.head, self.picked]}
        return {"maps": {"maps": weights}, "row": {**row, "title": WORDS["head"].format(**asking)}}

    def say_rich(self) -> str:
        """Return what the word attends to most in this head, and what the two markers get."""
        tokens, weights = self.result
        row = numbers(weights[self.head, self.picked], DIGITS)
        top = [WORDS["itself"] if i == self.picked else _named(tokens, i) for i in largest(row)]
        return WORDS["say"].format(
            head=self.head,
            asking=_named(tokens, self.picked),
            top=" and ".join(top),
            most=decimals(max(row)),
            each=WORDS["each"] if len(top) > 1 else "",
            marked=decimals(row[0] + row[-1]),
            equal=decimals(1 / len(row)),
        )


def _place_in(tokens: Sequence[str], place: int, token: str = "") -> int:
    """Return where a token is first, or else a place that the sentence has."""
    if token in tokens:
        return tokens.index(token)
    return place if place < len(tokens) else len(tokens) - 2  # the last word, not its marker


@lru_cache(maxsize=1)
def _layer() -> PretrainedLayer:
    return load_layer()


@lru_cache(maxsize=64)
def _read(sentence: str) -> Reading:
    """Return the reading of a sentence; it is shared, so nothing may change it."""
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


def _named(tokens: tuple[str, ...], place: int) -> str:
    """Return a token in quotes, with its place if it occurs several times."""
    token = tokens[place]
    name = token if token in (FIRST, LAST) else WORDS["quoted"].format(token=token)
    several = tokens.count(token) > 1
    return WORDS["several"].format(name=name, place=place) if several else name
