"""Six layers of a trained model read a sentence: how near a word lies to its two meanings."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.display.table import load_rows
from attnlab.explorers.frame.bundle import numbers
from attnlab.explorers.frame.controls import Slider, State
from attnlab.explorers.frame.panels import Axis, Bars, Curves, Line
from attnlab.explorers.frame.sentences import WORDS as SHARED_WORDS
from attnlab.explorers.frame.sentences import (
    SentenceExplorer,
    a_place,
    named,
    readable,
    share,
    top_of,
)
from attnlab.explorers.frame.words import listed, texts_beside
from attnlab.models.meanings import lean, vectors_of
from attnlab.models.pretrained import (
    NUM_HEADS,
    NUM_LAYERS,
    EncoderReading,
    PretrainedEncoder,
    load_encoder,
)

# name of a choice: sentence, the word to look from
CHOICES = {
    "thief": ("the thief sailed to the bank with the gold", "bank"),
    "robbed": ("the thief robbed the bank by the river", "bank"),
    "swam": ("she swam well and worked at the bank", "bank"),
    "mattress": ("the metal spring in the mattress broke", "spring"),
    "tennis": ("they played tennis on a clay court", "court"),
}
TABLES = ("bank_means.csv", "two_meanings.csv")
PLACES = tuple(range(NUM_LAYERS + 1))  # before the first layer, and after each
AFTER = {place: str(place - 1) if place else "before" for place in PLACES}
MEAN = "mean"  # of all heads
CLOSE = 0.005  # leans closer to 0 than this are to neither side
DIGITS = 3  # of leans; weights are sent in percent

WORDS = SHARED_WORDS | texts_beside(__file__)["words"]


class LayersResult(NamedTuple):
    """One token of a sentence in six layers."""

    tokens: tuple[str, ...]  # word pieces, L of them, from ``[CLS]`` to ``[SEP]``
    weights: Tensor  # (L,): what the token attends to in the layer; zeros before the first layer
    meanings: tuple[str, ...]  # the two meanings of the word; none if there are no sentences
    leans: Tensor  # (7,): how much nearer it lies to the first one, place by place; NaN if none


class Labelled(NamedTuple):
    """A word in sentences whose meanings are known."""

    meanings: tuple[str, str]
    sentences: tuple[str, ...]  # n of them
    is_first: Tensor  # (n,): whether the word has the first meaning
    vectors: Tensor  # (n, 7, 384)


class LayersExplorer(SentenceExplorer):
    """A word in six layers: how near to its two meanings, and what it attends to.

    In Jupyter any English sentence can be typed, and Python computes it; on the pages of the site
    the browser does. Any other page without a kernel carries a few.

    Parameters
    ----------
    **state
        ``sentence``: English, at most 24 word pieces with ``[CLS]`` and ``[SEP]``. ``word``:
        position of the token that is shown, counted from 0; the last word if there are fewer
        tokens. ``layer``: how many layers it has passed, 0 to 6. ``head``: "mean" (of all heads),
        or 0 to 11. ``ask`` and ``large``, as in ``Explorer``.

    Attributes
    ----------
    problem : str
        Why what was typed last could not be read; empty if it could.

    Notes
    -----
    A meaning is the mean of the word's vectors in the labelled sentences of lesson 14; the sentence
    that is shown is left out.

    See Also
    --------
    attnlab.models.meanings.lean : how much nearer a vector lies to one meaning.
    attnlab.models.pretrained.load_encoder : the model.
    RealHeadsExplorer : the heads of its first layer.
    """

    module = "layers"
    figsize = (9.2, 4.2)
    choices = CHOICES
    sentence = State(CHOICES["thief"][0], readable)
    word = State(6, a_place)
    layer = Slider(1, AFTER, label="after layer", spoken="after layer", width=110)
    head = Slider(MEAN, (MEAN, *range(NUM_HEADS)), label="head", width=110)
    panels = (
        Bars("row", caption="Weights of the word that asks", head="key", grow=1.4),
        Curves(
            "curve",
            over="layer",
            stops=PLACES,
            labels=[*AFTER.values()],
            lines=[
                Line(name, [0.0] * len(PLACES), *look)
                for name, *look in (
                    ("this word", "scaled", "solid", "circle"),
                    ("first meaning", "good", "dashed", "square"),
                    ("second meaning", "raw", "dotted", "triangle"),
                )
            ],
            y=Axis(-0.18, 0.18, {-0.1: "−0.1", 0: "0", 0.1: "0.1"}),
            xlabel="after layer",
            ylabel="lean",
            xscale="linear",
            grow=1.4,
        ),
    )

    @property
    def result(self) -> LayersResult:
        """Weights and leans, by torch."""
        tokens, _, weights = _read(self.sentence)
        below = weights[max(self.layer - 1, 0), :, self.picked]  # (12, L)
        row = below.mean(dim=0) if self.head == MEAN else below[self.head].clone()
        meanings, curves = between(self.sentence, self.picked)
        return LayersResult(tuple(tokens), row * (self.layer > 0), meanings, curves[0])

    def make_data(self) -> dict[str, object]:
        """Return weights, curves and words of all choices."""
        others = WORDS["others"].format(known=listed(list(labelled_rows())))
        return {**self.told_choices(), "words": {**WORDS, "others": others}, "close": CLOSE}

    @classmethod
    def tokens_of(cls, sentence: object) -> list[str]:
        """Return the tokens of a sentence, or raise if the model cannot read it."""
        return _encoder().tokens(sentence)

    @classmethod
    def told(cls, sentence: str) -> dict[str, object]:
        """Return all that the browser needs to know of a sentence; weights in percent."""
        tokens = _read(sentence).tokens
        known = {place: between(sentence, place) for place in range(len(tokens))}
        return {
            "sentence": sentence,
            "tokens": tokens,
            "maps": percent(sentence).tolist(),
            "known": {
                str(place): {"names": meanings, "curves": numbers(curves, DIGITS)}
                for place, (meanings, curves) in known.items()
                if meanings
            },
            "code": code(sentence, len(tokens)),
        }

    # --- the picture ------------------------------------------------------------------------------

    def frame_now(self) -> dict[str, object]:
        """Return the row of the word that is shown, and its curve."""
        tokens, weights, meanings, _ = self.result
        facts = {"asking": named(tokens, self.picked), "below": self.layer - 1}
        heading = WORDS["heading"][self.layer > 0].format(**facts)
        names = ["this word", *(WORDS["line"].format(meaning=meaning) for meaning in meanings)]
        lines = [
            replace(line, name=name)
            for line, name in zip(self.panels[1].lines, names, strict=False)
        ]
        curve = {
            "title": WORDS["curve" if meanings else "none"].format(**facts),
            "lines": lines,
            "values": between(self.sentence, self.picked)[1][: len(lines)].tolist(),
        }
        return {"row": {"title": heading, "names": tokens, "weights": weights}, "curve": curve}

    def say_rich(self) -> str:
        """Return which meaning the word lies nearer to, and what it attends to most."""
        tokens, _, meanings, leans = self.result
        layer = self.layer
        facts = {"asking": named(tokens, self.picked), "below": layer - 1, "head": self.head}
        which = 0 if self.head == MEAN else 1 + self.head
        row = percent(self.sentence)[max(layer - 1, 0), which, self.picked] / 100
        kind = "first" if layer == 0 else "mean" if self.head == MEAN else "head"
        top = top_of(tokens, row.tolist(), self.picked, words_only=True)
        facts |= {**top, "marked": share((row[0] + row[-1]).item())}
        where = WORDS[kind].format(**facts)
        attends = WORDS["attends"].format(where=where, **facts) if layer else where
        if not meanings:
            token = WORDS["quoted"].format(token=tokens[self.picked])
            return f"{WORDS['unknown'].format(token=token)} {attends}"
        difference = numbers(leans, DIGITS)[layer]
        alike = abs(difference) < CLOSE
        near, far = meanings if alike or difference > 0 else reversed(meanings)
        facts |= {"near": near, "far": far, "lean": f"{difference:.{DIGITS}f}".replace("-", "−")}
        when = WORDS["when"][layer > 0].format(**facts)
        lies = WORDS["alike" if alike else "nearer"].format(when=when, **facts)
        return f"{lies} {attends}"


# --- numbers --------------------------------------------------------------------------------------


@cache
def _encoder() -> PretrainedEncoder:
    """Return the model in float64, so that no percent is rounded otherwise on another processor."""
    encoder = load_encoder()
    for part in (encoder.positions, encoder.types, encoder.norm, encoder.layers):
        part.double()  # the words stay in the file
    return encoder


@lru_cache(maxsize=64)
def _read(sentence: str) -> EncoderReading:
    """Return the reading of a sentence; it is shared, so nothing may change it."""
    return _encoder().read(sentence)


@cache
def labelled_rows() -> dict[str, list[tuple[str, str]]]:
    """Return meaning and sentence of every row of the tables that is not set aside, by word."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for row in itertools.chain(*map(load_rows, TABLES)):
        if row.get("part") != "aside":
            pairs.setdefault(row.get("word", "bank"), []).append((row["meaning"], row["sentence"]))
    return pairs


@cache
def labelled(word: str) -> Labelled | None:
    """Return the labelled sentences of a word, if there are any."""
    if word not in labelled_rows():
        return None
    meanings, sentences = zip(*labelled_rows()[word], strict=True)
    first, second = dict.fromkeys(meanings)
    is_first = torch.tensor([meaning == first for meaning in meanings])
    vectors = vectors_of(_encoder(), word, sentences)
    return Labelled((first, second), sentences, is_first, vectors)


@lru_cache(maxsize=256)
def between(sentence: str, place: int) -> tuple[tuple[str, ...], Tensor]:
    """Return the meanings of a token, and three curves: its leans, and those of both means."""
    tokens, vectors, _ = _read(sentence)
    known = labelled(tokens[place])
    if known is None:
        return (), torch.full((3, len(PLACES)), torch.nan)
    is_other = torch.tensor([text != sentence for text in known.sentences])
    others, is_first = known.vectors[is_other], known.is_first[is_other]
    means = [others[is_first == side].mean(dim=0) for side in (True, False)]
    points = torch.stack([vectors[:, place], *means])  # (3, 7, 384)
    return known.meanings, lean(points, others, is_first)


@lru_cache(maxsize=64)
def percent(sentence: str) -> Tensor:
    """Return the weights of each layer, on average and of each head, in percent: (6, 13, L, L)."""
    weights = _read(sentence).weights
    return (100 * torch.cat([weights.mean(dim=1, keepdim=True), weights], dim=1)).round().long()


def code(sentence: str, length: object) -> str:
    """Return the lines of PyTorch that read a sentence of so many tokens."""
    return (
        "encoder = load_encoder()\n"
        f"tokens, vectors, weights = encoder.read({sentence!r})\n"
        f"vectors.shape, weights.shape  # (7, {length}, 384), (6, {NUM_HEADS}, {length}, {length})"
    )
