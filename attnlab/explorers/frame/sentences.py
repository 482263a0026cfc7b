"""A trained model reads a sentence, chosen or typed, and one of its tokens asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import traitlets

from attnlab.checks import short
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.words import HALF, TIE, decimals, largest, texts_beside
from attnlab.models.pretrained import FIRST, LAST

LONGEST = 24  # tokens that can stand side by side, markers included
MANY = 2  # words with the same weight are counted if they are more
# what the browser needs to name tokens and what gets most, as `named` and `top_of` do
LIMITS = {"markers": [FIRST, LAST], "tie": TIE, "half": HALF, "many": MANY}

WORDS = texts_beside(__file__)


def readable(_name: str, value: object, explorer: SentenceExplorer) -> str:
    """Return a sentence with single spaces, if the model can read it and it is short."""
    tokens = explorer.tokens_of(value)  # refuses whatever it cannot read
    if len(tokens) > LONGEST:
        raise ValueError(
            f"text must have at most {LONGEST - 2} word pieces to be drawn side by side, "
            f"got {len(tokens) - 2}."
        )
    return " ".join(value.split())


def a_place(name: str, value: object, _explorer: SentenceExplorer) -> int:
    """Return a position that some sentence has."""
    if type(value) is not int or not 0 <= value < LONGEST:
        raise ValueError(f"{name} must be an integer from 0 to {LONGEST - 1}, got {short(value)}.")
    return value


class SentenceExplorer(Explorer):
    """What explorers share in which a sentence can be chosen or typed.

    In Jupyter any English sentence can be typed, and Python computes it. A page without a kernel
    carries a few, and computes others itself if it brings what ``js/sentences.mjs`` looks for: the
    site does. There are also the controls, and the sentence with its arcs.

    Attributes
    ----------
    problem : str
        Why what was typed last could not be read; empty if it could.

    See Also
    --------
    attnlab.models.pretrained.load_layer : reads sentences.
    """

    choices: Mapping[str, tuple[str, str]]  #: name of a choice: sentence, the word to look from
    sentence: str  #: a state, checked by ``readable``
    word: int  #: a state, checked by ``a_place``: position of the token that asks
    typed = traitlets.Unicode().tag(sync=True)  # sent by the browser, emptied when it is read
    problem = traitlets.Unicode().tag(sync=True)
    reading = traitlets.Dict().tag(sync=True)  # of a sentence that is not a choice

    @classmethod
    def tokens_of(cls, sentence: object) -> list[str]:
        """Return the tokens of a sentence, or raise if the model cannot read it."""
        raise NotImplementedError

    @classmethod
    def told(cls, sentence: str) -> dict[str, object]:
        """Return all that the browser needs to know of a sentence."""
        raise NotImplementedError

    @property
    def picked(self) -> int:
        """Position of the token that asks."""
        return place_in(self.tokens_of(self.sentence), self.word)

    @classmethod
    @cache
    def told_choices(cls) -> dict[str, object]:
        """Return all choices, and what else ``js/sentences.mjs`` reads."""
        readings = [
            {**cls.told(sentence), "name": name, "word": cls.tokens_of(sentence).index(word)}
            for name, (sentence, word) in cls.choices.items()
        ]
        return {"readings": readings, "longest": LONGEST, **LIMITS}

    def data_to_store(self) -> dict[str, object]:
        """Return the choices, and the sentence in force if it is none of them."""
        own = [self.reading] if self.reading.get("sentence") == self.sentence else []
        return {**self.data, "readings": [*self.data["readings"], *own]}

    @traitlets.observe("sentence")
    def _on_sentence(self, _change: object) -> None:
        if self.sentence not in {sentence for sentence, _ in self.choices.values()}:
            self.reading = self.told(self.sentence)
        self.problem = ""

    @traitlets.observe("typed")
    def _on_typed(self, _change: object) -> None:
        if not self.typed:
            return
        asking = self.tokens_of(self.sentence)[self.picked]
        with self.hold_sync():  # one message: the browser draws once
            try:
                self.sentence = self.typed
                self.problem = ""
                known = [int(place) for place in self.reading.get("known", ())]
                self.word = place_of(asking, self.tokens_of(self.sentence), known)
            except Exception as error:  # shown inside the explorer
                self.problem = str(error)
            self.typed = ""


def place_in(tokens: Sequence[str], place: int) -> int:
    """Return a place, or the last word of a sentence that has fewer tokens."""
    return place if place < len(tokens) else len(tokens) - 2


def place_of(asking: str, tokens: Sequence[str], known: Sequence[int] = ()) -> int:
    """Return where a token is first in another sentence, or else where its last word begins.

    A place of which meanings are ``known`` goes before.
    """
    place = tokens.index(asking) if asking in tokens else -1
    if known and place not in known:
        return known[0]
    if place >= 0:
        return place
    words = [place for place, token in enumerate(tokens[:-1]) if token[0].isalnum()]
    return words[-1] if words else len(tokens) - 2


def named(tokens: Sequence[str], place: int) -> str:
    """Return a token in quotes, with its place if it occurs several times."""
    token = tokens[place]
    name = token if token in (FIRST, LAST) else WORDS["quoted"].format(token=token)
    several = tokens.count(token) > 1
    return WORDS["several"].format(name=name, place=place) if several else name


def top_of(
    tokens: Sequence[str], row: Sequence[float], picked: int, *, words_only: bool = False
) -> dict[str, str]:
    """Return the words for what gets most of a row of weights, and for how much it gets."""
    ends = 1 if words_only else 0  # the markers
    part = row[ends : len(row) - ends]
    places = [ends + i for i in largest(part)]
    top = [WORDS["itself"] if i == picked else named(tokens, i) for i in places]
    kind = "words" if words_only else "tokens"
    many = WORDS["many"].format(count=len(top), total=len(part), kind=kind)
    return {
        "top": many if len(top) > MANY else " and ".join(top),
        "most": share(max(part)),
        "each": WORDS["each"] if len(top) > 1 else "",
    }


def share(weight: float) -> str:
    """Return a weight as it stands in a sentence."""
    text = decimals(weight)
    return WORDS["little"] if text == "0.00" else text
