"""Heads over some tokens, one of which asks: of anybody's weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab._matrix import to_tensor
from attnlab.checks import check_list, check_size, check_weights, shape
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.bundle import numbers
from attnlab.explorers.frame.controls import State
from attnlab.explorers.frame.panels import Bars, Maps
from attnlab.explorers.frame.sentences import WORDS as SHARED_WORDS
from attnlab.explorers.frame.sentences import named, top_of
from attnlab.explorers.frame.words import HALF, TIE, decimals, texts_beside
from attnlab.models.pretrained import FIRST, LAST

DIGITS = 4
MOST_BARS = 24  # of the still picture; of more keys it shows those with the largest weights
MOST_NUMBERS = 2_000_000  # more would make a page of 15 MB

WORDS = SHARED_WORDS | texts_beside(__file__)["words"]


class HeadsPicture(Explorer):
    """What explorers share that show heads: all maps, and one row of one head with its arcs."""

    figsize = (9.2, 4.2)
    panels = (
        Maps(
            key="maps",
            title="All heads",
            under="darker: more attention; ▸ the row that asks",
            over="head",
        ),
        Bars(key="row", caption="Weights of the word that asks", head="key"),
    )
    words: dict[str, str]  #: templates of what is said
    layer = 0

    @property
    def picked(self) -> int:
        """Position of the token that asks."""
        return self.word

    def shown(self) -> tuple[Sequence[str], Tensor]:
        """Return the tokens, and the weights of the layer in force: (H, L, L)."""
        raise NotImplementedError

    def _named(self) -> dict[str, object]:
        tokens, place = self.shown()[0], self.picked
        asking = named(tokens, place)
        return {"layer": self.layer, "head": self.head, "place": place, "asking": asking}

    def frame_now(self) -> dict[str, object]:
        """Return the maps of all heads, and the row of the token that asks."""
        tokens, weights = self.shown()
        row = weights[self.head, self.picked]
        ranked = row.round(decimals=DIGITS).sort(descending=True, stable=True).indices
        places = ranked[:MOST_BARS].sort().values.tolist()  # of equal weights, the first ones
        names = [tokens[place] for place in places]
        title = self.words["head"].format(**self._named())
        return {
            "maps": {"maps": weights},
            "row": {"names": names, "weights": row[places], "title": title},
        }

    def say_rich(self) -> str:
        """Return what the token attends to most in this head."""
        tokens, weights = self.shown()
        row = numbers(weights[self.head, self.picked], DIGITS)
        return self.words["say"].format(
            **self._named(),
            **top_of(tokens, row, self.picked),
            marked=decimals(row[0] + row[-1]),
            equal=decimals(1 / len(row)),
        )


def _place(name: str, value: object, view: HeadView) -> int:
    """Check a position of a layer, a head or a token."""
    count = dict(zip(("layer", "head", "word"), view.result.weights.shape, strict=False))[name]
    return check_size(name, value, at_least=0, at_most=count - 1)


class HeadViewResult(NamedTuple):
    """The weights that are shown."""

    tokens: tuple[str, ...]  # L of them
    weights: Tensor  # (layers, H, L, L): row i says what token i attends to


class HeadView(HeadsPicture):
    """Your own attention weights: layers, heads, and what a token attends to.

    ::

        weights = model(**inputs, output_attentions=True).attentions
        tokens = tokenizer.convert_ids_to_tokens(inputs.input_ids[0])
        HeadView(weights, tokens).save("heads.html")

    Parameters
    ----------
    weights : Tensor or array, or a list of them
        Self-attention of one sequence of L tokens: (layers, H, L, L), (H, L, L) or (L, L), or a
        list with (1, H, L, L) or (H, L, L) for each layer, as models return it.
    tokens : sequence of str
        The L tokens.
    **state
        ``layer``, ``head`` and ``word``, each counted from 0: what is shown first, and the token
        that asks. ``large``, as in ``Explorer``.

    Raises
    ------
    TypeError, ValueError
        If ``weights`` cannot be attention weights of these tokens, or a state does not exist.

    See Also
    --------
    attnlab.plotting.plot_heads : a picture that stays still.
    RealHeadsExplorer : the heads of a trained layer.
    """

    module = "head_view"
    layer = State(0, _place)
    head = State(0, _place)
    word = State(0, _place)

    def __init__(self, weights: object, tokens: Sequence[str], **state: object) -> None:
        check_list("tokens", tokens, "a list of tokens")
        path, layers = _layers_of(weights, len(tokens))
        self._result = HeadViewResult(tuple(map(str, tokens)), layers)
        where = "layer {layer}, head {head}" if len(layers) > 1 else "head {head}"
        self.words = {
            name: text.replace("WHERE", where).replace("PATH", path) for name, text in WORDS.items()
        }
        super().__init__(**state)

    @property
    def result(self) -> HeadViewResult:
        """Tokens and weights."""
        return self._result

    def shown(self) -> tuple[Sequence[str], Tensor]:
        """Return the tokens, and the weights of the layer in force."""
        return self.result.tokens, self.result.weights[self.layer]

    def make_data(self) -> dict[str, object]:
        """Return weights and words, and the controls that these weights need."""
        tokens, weights = self.result
        counts = dict(zip(("layer", "head", "word"), weights.shape, strict=False))
        return {
            "controls": [
                {
                    "kind": "choice" if name == "layer" else "",
                    "name": name,
                    "label": name,
                    "values": [*range(count)],
                    "texts": [*map(str, range(count))],
                }
                for name, count in counts.items()
            ],
            "layers": numbers(weights, DIGITS),
            "tokens": tokens,
            "words": self.words,
            "markers": [FIRST, LAST],
            "tie": TIE,
            "half": HALF,
        }


def _layers_of(weights: object, count: int) -> tuple[str, Tensor]:
    """Return how a row of the weights is written, and the weights as (layers, H, L, L)."""
    several = isinstance(weights, list | tuple)
    layers = [*weights] if several else [weights]
    tensors = [to_tensor("weights", layer, ndim=3 if several else 4) for layer in layers]
    sizes = dict.fromkeys(map(shape, tensors))
    if len(sizes) != 1:
        raise ValueError(
            f"weights must be layers of one shape, got {' and '.join(sizes) or 'none'}."
        )
    (given,), first = sizes, tensors[0]
    named = ("{layer}", "{head}", "{place}")[4 - first.ndim :]
    index = ["0"] * (layers[0].ndim - first.ndim) + [*named]
    path = f"weights{'[{layer}]' * several}[{', '.join(index)}]"
    stacked = torch.stack(tensors) if several else first[(None,) * (4 - first.ndim)]
    if stacked.ndim != 4 or stacked.shape[2:] != (count, count) or not stacked.numel():
        raise ValueError(
            f"weights must be (H, L, L) where L is the number of tokens, or a list of such layers, "
            f"got {given} for {count} tokens."
        )
    check_weights(stacked)
    if stacked.numel() > MOST_NUMBERS:
        raise ValueError(
            f"weights must be at most {MOST_NUMBERS:,} numbers, got {stacked.numel():,} in "
            f"{given}; choose a few layers, e.g. weights[:2]."
        )
    if stacked.isnan().any():
        raise ValueError("weights must be numbers, got NaN; plot_heads draws it.")
    return path, stacked.detach().cpu().float()
