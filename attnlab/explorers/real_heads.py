"""Twelve heads of a trained layer read a sentence, chosen or typed."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from torch import Tensor

from attnlab.explorers.frame.bundle import numbers
from attnlab.explorers.frame.controls import Picked, State
from attnlab.explorers.frame.sentences import WORDS as SHARED_WORDS
from attnlab.explorers.frame.sentences import SentenceExplorer, a_place, readable
from attnlab.explorers.frame.words import texts_beside
from attnlab.explorers.head_view import DIGITS, HeadsPicture, Shown
from attnlab.models.pretrained import NUM_HEADS, PretrainedLayer, Reading, load_layer

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

WORDS = SHARED_WORDS | texts_beside(__file__)["words"]


class RealHeadsResult(NamedTuple):
    """What the layer makes of the sentence."""

    tokens: tuple[str, ...]  # word pieces, L of them, from ``[CLS]`` to ``[SEP]``
    # (12, L, L): a map for each head, counted from 0: row i says what token i attends to
    weights: Tensor


class RealHeadsExplorer(SentenceExplorer, HeadsPicture):
    """Twelve heads of a trained layer over a sentence: all maps, one head, one row.

    In Jupyter any English sentence can be typed, and Python computes it; on the pages of the site
    the browser does. Any other page without a kernel carries a few.

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
    attnlab.models.pretrained.load_layer : the layer.
    HeadView : the same for weights of your own.
    """

    module = "real_heads"
    words = WORDS
    choices = CHOICES
    sentence = State(CHOICES["bank, river"][0], readable)
    word = State(5, a_place)
    head = Picked(4, range(NUM_HEADS))

    @property
    def result(self) -> RealHeadsResult:
        """Tokens and weights, by torch."""
        reading = _read(self.sentence)
        return RealHeadsResult(tuple(reading.tokens), reading.weights.clone())

    def shown(self) -> Shown:
        """Return tokens and weights of the only layer."""
        tokens, weights = self.result
        return tokens, None, weights, (0, self.head, self.picked)

    def make_data(self) -> dict[str, object]:
        """Return weights and words of all choices."""
        return {**self.told_choices(), "words": WORDS}

    @classmethod
    def tokens_of(cls, sentence: object) -> list[str]:
        """Return the tokens of a sentence, or raise if the layer cannot read it."""
        return _layer().tokens(sentence)

    @classmethod
    def told(cls, sentence: str) -> dict[str, object]:
        """Return all that the browser needs to know of a sentence."""
        reading = _read(sentence)
        return {
            "sentence": sentence,
            "tokens": reading.tokens,
            "weights": numbers(reading.weights, DIGITS),
            "code": code(sentence, len(reading.tokens)),
        }


@lru_cache(maxsize=1)
def _layer() -> PretrainedLayer:
    return load_layer()


@lru_cache(maxsize=64)
def _read(sentence: str) -> Reading:
    """Return the reading of a sentence; it is shared, so nothing may change it."""
    return _layer().read(sentence)


def code(sentence: str, length: object) -> str:
    """Return the lines of PyTorch that compute the weights of a sentence of so many tokens."""
    return (
        f"layer = load_layer()\n"
        f"tokens = layer.tokens({sentence!r})\n"
        f"x = layer.embed(tokens)  # (1, {length}, 384)\n"
        f"output, weights = layer.attention(x)\n"
        f"weights.shape  # (1, {NUM_HEADS}, {length}, {length})"
    )
