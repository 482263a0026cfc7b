"""Heads over some tokens, one of which asks: of anybody's weights."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab._matrix import to_tensor
from attnlab.checks import check_list, check_size, check_weights, shape
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.bundle import numbers
from attnlab.explorers.frame.controls import State
from attnlab.explorers.frame.panels import Bars, Maps
from attnlab.explorers.frame.sentences import MANY, named, share, top_of
from attnlab.explorers.frame.sentences import WORDS as SHARED_WORDS
from attnlab.explorers.frame.words import HALF, TIE, texts_beside
from attnlab.models.pretrained import FIRST, LAST

DIGITS = 4
MOST_BARS = 24  # of the still picture; of more keys it shows those with the largest weights
FINE = 1_500_000  # weights are sent in two bytes each, and more than these in one
MOST_NUMBERS = 4_000_000  # more would make a page of more than 6 MB

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
        """Return the tokens, and the weights of the layer in force: (H, L, S)."""
        raise NotImplementedError

    def attended_to(self) -> Sequence[str] | None:
        """Return the S tokens that are attended to, or None in self-attention."""
        return None

    def _named(self) -> dict[str, object]:
        tokens, place = self.shown()[0], self.picked
        asking = named(tokens, place)
        return {"layer": self.layer, "head": self.head, "place": place, "asking": asking}

    def frame_now(self) -> dict[str, object]:
        """Return the maps of all heads, and the row of the token that asks."""
        tokens, weights = self.shown()
        keys = self.attended_to() or tokens
        row = weights[self.head, self.picked]
        ranked = row.round(decimals=DIGITS).sort(descending=True, stable=True).indices
        places = ranked[:MOST_BARS].sort().values.tolist()  # of equal weights, the first ones
        names = [keys[place] for place in places]
        title = self.words["head"].format(**self._named())
        return {
            "maps": {"maps": weights},
            "row": {"names": names, "weights": row[places], "title": title},
        }

    def say_rich(self) -> str:
        """Return what the token attends to most in this head."""
        (tokens, weights), keys = self.shown(), self.attended_to()
        row = weights[self.head, self.picked]
        if row.isnan().any():
            return self.words["broken"].format(**self._named())
        row = numbers(row, DIGITS)
        return self.words["say" if max(row) else "nothing"].format(
            **self._named(),
            **top_of(keys or tokens, row, -1 if keys else self.picked),
            marked=share(row[0] + row[-1]),
            equal=share(1 / len(row)),
        )


def _place(name: str, value: object, view: HeadView) -> int:
    """Check a position of a layer, a head or a token."""
    count = dict(zip(("layer", "head", "word"), view.result.weights.shape, strict=False))[name]
    return check_size(name, value, at_least=0, at_most=count - 1)


class HeadViewResult(NamedTuple):
    """The weights that are shown."""

    tokens: tuple[str, ...]  # L of them, which ask
    keys: tuple[str, ...] | None  # S of them; None in self-attention, where tokens ask tokens
    weights: Tensor  # (layers, H, L, S): row i says what token i attends to


class HeadView(HeadsPicture):
    """Your own attention weights: layers, heads, and what a token attends to.

    ::

        outputs = model(**inputs, output_attentions=True)
        tokens = tokenizer.convert_ids_to_tokens(inputs.input_ids[0])
        HeadView(outputs.attentions, tokens).save("heads.html")
        HeadView(outputs.cross_attentions, target, source)  # of an encoder and a decoder

    Parameters
    ----------
    weights : Tensor or array, or a list of them
        Attention of one text: (layers, H, L, S), (H, L, S) or (L, S), or a list with (1, H, L, S)
        or (H, L, S) for each layer, as models return it. What ``generate`` returns, a list of steps
        with a list of layers each, is joined into one matrix for each head of a layer.
    tokens : sequence, optional
        What asks, L of them: words, or numbers such as those of a tokenizer. Positions if not
        given.
    keys : sequence, optional
        What is attended to, S of them, in cross-attention; ``tokens`` if not given.
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

    Notes
    -----
    A row of NaN, which a softmax makes of scores that are all blocked, is crossed.

    Up to 4,000,000 weights can be shown: twelve heads of 512 tokens, or 144 of 128. Those of more
    than 1,500,000 are rounded, by 0.004 at most.
    """

    module = "head_view"
    layer = State(0, _place)
    head = State(0, _place)
    word = State(0, _place)

    def __init__(
        self,
        weights: object,
        tokens: Sequence[object] | None = None,
        keys: Sequence[object] | None = None,
        **state: object,
    ) -> None:
        path, layers = _layers_of(weights)
        queries = _labels("tokens", tokens, layers.shape[2])
        asked = None if keys is None else _labels("keys", keys, layers.shape[3])
        _check_sizes(layers, queries, asked)
        self._result = HeadViewResult(queries, asked, layers)
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

    def attended_to(self) -> Sequence[str] | None:
        """Return the tokens that are attended to in cross-attention."""
        return self.result.keys

    def make_data(self) -> dict[str, object]:
        """Return weights and words, and the controls that these weights need."""
        tokens, keys, weights = self.result
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
            "packed": _packed(weights),
            "tokens": tokens,
            **({"keys": keys} if keys else {}),
            "words": self.words,
            "markers": [FIRST, LAST],
            "tie": TIE,
            "half": HALF,
            "many": MANY,
        }


def _packed(weights: Tensor) -> dict[str, object]:
    """Return weights as text: their square roots in one or two bytes, so that small ones stay.

    The highest level stands for NaN.
    """
    size = 2 if weights.numel() <= FINE else 1
    nan = 256**size - 1
    scale = max(1.0, weights.nan_to_num().max().item())
    levels = (weights / scale).sqrt().mul(nan - 1).round().nan_to_num(nan)
    raw = levels.numpy().astype(np.dtype(f"<u{size}")).tobytes()
    text = base64.b64encode(raw).decode()
    return {"shape": [*weights.shape], "bytes": size, "scale": scale, "text": text}


def _labels(name: str, given: object, count: int) -> tuple[str, ...]:
    """Return words, numbers, or else positions as text."""
    if given is None:
        return (*map(str, range(count)),)
    if isinstance(given, Tensor | np.ndarray):
        given = given.tolist()
    check_list(name, given, "a list of tokens")
    return (*map(str, given),)


def _layers_of(weights: object) -> tuple[str, Tensor]:
    """Return how a row of the weights is written, and the weights as (layers, H, L, S)."""
    if isinstance(weights, list | tuple) and weights and isinstance(weights[0], list | tuple):
        joined = _joined(weights)
        return "HeadView(weights).result.weights[{layer}, {head}, {place}]", joined
    several = isinstance(weights, list | tuple)
    layers = [*weights] if several else [weights]
    tensors = [to_tensor("weights", layer, ndim=3 if several else 4) for layer in layers]
    sizes = dict.fromkeys(map(shape, tensors))
    if len(sizes) != 1:
        fix = "; show one layer at a time, e.g. HeadView(weights[0], tokens)" if sizes else ""
        raise ValueError(
            f"weights must be layers of one shape, got {' and '.join(sizes) or 'none'}{fix}."
        )
    first = tensors[0]
    if first.ndim > 3 + (not several):
        one = "[layer[0] for layer in weights]" if several else "weights[:, 0]"
        raise ValueError(
            f"weights must be those of one text, got {shape(first)}; take one, e.g. {one}."
        )
    named = ("{layer}", "{head}", "{place}")[4 - first.ndim :]
    index = ["0"] * (layers[0].ndim - first.ndim) + [*named]
    path = f"weights{'[{layer}]' * several}[{', '.join(index)}]"
    stacked = torch.stack(tensors) if several else first[(None,) * (4 - first.ndim)]
    return path, _checked(stacked, "weights[:{n}]" if several or layers[0].ndim == 4 else "")


def _joined(steps: Sequence[Sequence[object]]) -> Tensor:
    """Return the layers of all steps of ``generate``: later steps have more keys, and one query."""
    layers = []
    for parts in zip(*steps, strict=True):
        tables = [to_tensor("weights", part, ndim=3) for part in parts]
        if any(table.ndim != 3 for table in tables):
            raise ValueError(
                f"weights must be those of one text, got steps of {shape(parts[0])}; take one, "
                "e.g. [[layer[:1] for layer in step] for step in weights]."
            )
        S = max(table.shape[-1] for table in tables)
        layers.append(torch.cat([F.pad(table, (0, S - table.shape[-1])) for table in tables], -2))
    return _checked(torch.stack(layers), "[step[:{n}] for step in weights]")


def _checked(weights: Tensor, of_layers: str) -> Tensor:
    """Return weights (layers, H, L, S) in float32, or raise if they cannot be shown.

    ``of_layers`` is code that takes the first ``n`` layers, where there are several.
    """
    check_weights(weights)
    if weights.numel() > MOST_NUMBERS:
        n = MOST_NUMBERS // weights[0].numel()  # layers that fit
        heads = max(1, MOST_NUMBERS // weights[:1, :1].numel())
        few = of_layers.format(n=n) if n and of_layers else f"weights[..., :{heads}, :, :]"
        raise ValueError(
            f"weights must be at most {MOST_NUMBERS:,} numbers, got {weights.numel():,} in "
            f"{shape(weights)}; choose a few, e.g. {few}."
        )
    return weights.detach().cpu().float()


def _check_sizes(weights: Tensor, tokens: Sequence[str], keys: Sequence[str] | None) -> None:
    """Raise ValueError unless there is a token for each row and a key for each column."""
    L, S = weights.shape[2:]
    if (len(tokens), len(keys or tokens)) == (L, S):
        return
    if keys is None:
        more = "" if L == S else "; for cross-attention, use HeadView(weights, queries, keys)"
        raise ValueError(
            f"weights must be (H, L, L) for L tokens, got {shape(weights[0])} for {len(tokens)} "
            f"tokens{more}."
        )
    raise ValueError(
        f"weights must be (H, L, S) for L tokens and S keys, got {shape(weights[0])} for "
        f"{len(tokens)} tokens and {len(keys)} keys."
    )
