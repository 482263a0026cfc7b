"""Heads over some tokens, one of which asks: of anybody's weights."""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab._matrix import to_tensor
from attnlab.checks import check_list, check_size, check_weights, shape, short
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import State, one_of
from attnlab.explorers.frame.panels import Bars, Maps
from attnlab.explorers.frame.sentences import LIMITS, named, share, top_of
from attnlab.explorers.frame.sentences import WORDS as SHARED_WORDS
from attnlab.explorers.frame.words import texts_beside

DIGITS = 4
MOST_BARS = 24  # of the still picture; of more keys it shows those with the largest weights
FINE = 1_500_000  # weights are sent in two bytes each, and more than these in one
MOST_NUMBERS = 4_000_000  # more would make a page of more than 6 MB

WORDS = SHARED_WORDS | texts_beside(__file__)["words"]
PLACES = ("layer", "head", "word")
ARCS = ("all", "within", "across")  # sentences


class HeadViewResult(NamedTuple):
    """The weights that are shown."""

    tokens: tuple[str, ...]  # L of them, which ask
    keys: tuple[str, ...] | None  # S of them; None in self-attention, where tokens ask tokens
    weights: Tensor  # (layers, H, L, S): row i says what token i attends to
    code: str  # how a row of what was given is written


# Tokens; keys, if they are others; weights of a layer, (H, L, S); layer, head and token that asks.
Shown = tuple[Sequence[str], Sequence[str] | None, Tensor, tuple[int, int, int]]


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
    boundary: int | None = None  #: where the second of two sentences begins

    def shown(self) -> Shown:
        """Return what is shown."""
        raise NotImplementedError

    def names(self) -> dict[str, object]:
        """Return what is named in sentences and titles."""
        tokens, _, _, (layer, head, place) = self.shown()
        asking = named(tokens, place)
        return {**self.state(), "layer": layer, "head": head, "place": place, "asking": asking}

    def frame_now(self) -> dict[str, object]:
        """Return the maps of all heads, and the row of the token that asks."""
        tokens, keys, weights, (_, head, place) = self.shown()
        row = weights[head, place]
        ranked = row.round(decimals=DIGITS).sort(descending=True, stable=True).indices
        places = ranked[:MOST_BARS].sort().values.tolist()  # of equal weights, the first ones
        names = [(keys or tokens)[place] for place in places]
        title = self.words["head"].format(**self.names())
        return {
            "maps": {"maps": weights},
            "row": {"names": names, "weights": row[places], "title": title},
        }

    def heard(self, row: Tensor, place: int) -> tuple[str, Tensor, dict[str, str]]:
        """Return the name of a sentence, the weights it is about, and what else it tells."""
        if self.boundary is None:
            return ("say" if row.any() else "nothing"), row, {}
        is_first = torch.arange(len(row)) < self.boundary
        side = (is_first == is_first[place]) == (self.arcs == "within")
        told = {"side": self.words[self.arcs], "sum": share(row[side].sum().item())}
        if self.arcs == "all":
            return ("both" if row.any() else "nothing"), row, told
        row = row.where(side, 0)
        return ("side" if row.any() else "none"), row, told

    def say_rich(self) -> str:
        """Return what the token attends to most in this head."""
        tokens, keys, weights, (_, head, place) = self.shown()
        row = weights[head, place].double().round(decimals=DIGITS)
        if row.isnan().any():
            return self.words["broken"].format(**self.names())
        sentence, row, told = self.heard(row, place)
        row = row.tolist()
        return self.words[sentence].format(
            **self.names(),
            **told,
            **top_of(keys or tokens, row, -1 if keys else place),
            marked=share(row[0] + row[-1]),
            equal=share(1 / len(row)),
        )


def _known(name: str, value: object, view: HeadView) -> object:
    """Check the name of a kind of attention, or a position that one of them has."""
    if name == "attention":
        return one_of(*view.kinds)(name, value, view)
    return check_size(name, value, at_least=0, at_most=view.most(name) - 1)


class HeadView(HeadsPicture):
    """Your own attention weights: layers, heads, and what a token attends to.

    ::

        outputs = model(**inputs, output_attentions=True)
        tokens = tokenizer.convert_ids_to_tokens(inputs.input_ids[0])
        HeadView(outputs.attentions, tokens).save("heads.html")
        HeadView(outputs.attentions, tokens, boundary="[SEP]")  # two sentences
        HeadView(outputs.attentions, ["[CLS]"], grid=(14, 14))  # of a vision transformer
        HeadView(
            {
                "encoder": (outputs.encoder_attentions, source),
                "decoder": (outputs.decoder_attentions, target),
                "cross": (outputs.cross_attentions, target, source),
            }
        )

    Parameters
    ----------
    weights : Tensor or array, or a list or dict of them
        Attention of one text: (layers, H, L, S), (H, L, S) or (L, S), or a list with (1, H, L, S)
        or (H, L, S) for each layer, as models return it. What ``generate`` returns, a list of steps
        with a list of layers each, is joined into one matrix for each head of a layer. Several
        kinds of attention are a dict with a tuple for each: weights, tokens and, in
        cross-attention, keys.
    tokens : sequence, optional
        What asks, L of them: words, or numbers such as those of a tokenizer. Positions if not
        given.
    keys : sequence, optional
        What is attended to, S of them, in cross-attention; ``tokens`` if not given.
    boundary : int or str, optional
        Where the second of two sentences begins: the position of its first token, or the token
        that ends the first sentence, such as "[SEP]".
    grid : (int, int), optional
        Rows and columns of patches, which are shown as a picture; ``tokens`` are those before them.
    **state
        ``layer``, ``head`` and ``word``, each counted from 0: what is shown first, and the token
        that asks; the last one if a kind of attention has fewer. ``attention``: the name of
        such a kind. ``arcs``: "all", or those "within" a sentence or "across". ``large``, as in
        ``Explorer``.

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
    A row of NaN, which a softmax makes of scores that are all blocked, is crossed. A picture of
    patches is darkest where its weight is largest, since each weight of many patches is small.

    Up to 4,000,000 weights can be shown: twelve heads of 512 tokens, or 144 of 128. Those of more
    than 1,500,000 are rounded, by 0.004 at most.

    Examples
    --------
    >>> weights = torch.tensor([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.0, 0.4, 0.6]])
    >>> HeadView(weights, ["yes", "[SEP]", "no"], boundary="[SEP]", word=2).say()
    'In head 0, “no” attends most to itself (0.60); the other sentence gets 0.40 in all.'
    """

    module = "head_view"
    attention = State("", _known)
    layer = State(0, _known)
    head = State(0, _known)
    word = State(0, _known)
    arcs = State("all", one_of(*ARCS))

    def __init__(
        self,
        weights: object,
        tokens: Sequence[object] | None = None,
        keys: Sequence[object] | None = None,
        *,
        boundary: int | str | None = None,
        grid: tuple[int, int] | None = None,
        **state: object,
    ) -> None:
        several = isinstance(weights, Mapping)
        given = [one is not None for one in (keys, boundary, grid, tokens if several else None)]
        if sum(given) + several > 1 or (several and not weights):
            raise TypeError(
                "weights in a dict, keys, boundary and grid must not be combined; a dict holds "
                'tokens and keys beside their weights, as in {"cross": (weights, queries, keys)}.'
            )
        if several:
            self.kinds = {name: _named_kind(name, one) for name, one in weights.items()}
        else:
            self.kinds = {"": _kind_of("weights", weights, None if grid else tokens, keys)}
        first, result = next(iter(self.kinds.items()))
        self.boundary = None if boundary is None else _boundary_in(result.tokens, boundary)
        self.grid = None if grid is None else _grid_in(result.tokens, grid)
        if self.grid:
            self.kinds[""] = _of_patches(result, self.grid, tokens)
        self._size = _size_of(self.kinds)
        where = "{attention}, " * several + "layer {layer}, " * (self.most("layer") > 1)
        where += "head {head}"
        self.words = {name: text.replace("WHERE", where) for name, text in WORDS.items()}
        super().__init__(**({"attention": first} | state))

    @property
    def result(self) -> HeadViewResult:
        """Tokens and weights of the kind of attention in force."""
        return self.kinds[self.attention]

    def shown(self) -> Shown:
        """Return the layer in force, and the last place where a kind of attention has fewer."""
        tokens, keys, weights, _ = self.result
        counts = zip(PLACES, weights.shape, strict=False)
        place = tuple(min(getattr(self, name), count - 1) for name, count in counts)
        return tokens, keys, weights[place[0]], place

    def frame_now(self) -> dict[str, object]:
        """Return the maps of all heads, or what the patch that asks attends to, and its row."""
        frame = super().frame_now()
        if self.grid:
            _, _, weights, (_, _, place) = self.shown()
            patches = weights[:, place, -math.prod(self.grid) :].unflatten(-1, self.grid)
            most = patches.nan_to_num().amax((1, 2), keepdim=True)
            frame["maps"] = {"maps": patches / most.where(most > 0, 1), "under": WORDS["darkest"]}
        return frame

    def most(self, name: str) -> int:
        """Return how many layers, heads or tokens the kind has that has most of them."""
        place = PLACES.index(name)
        return max(kind.weights.shape[place] for kind in self.kinds.values())

    def make_data(self) -> dict[str, object]:
        """Return weights and words, and the controls that these weights need."""
        kinds = {
            name: kind._asdict() | {"weights": _packed(kind.weights, self._size)}
            for name, kind in self.kinds.items()
        }
        layers = [
            {**_choice("layer", range(len(kind.weights))), "when": {"attention": [name]}}
            for name, kind in self.kinds.items()
        ]
        picked = [{**_choice(name, range(self.most(name))), "kind": ""} for name in PLACES[1:]]
        arcs = _choice("arcs", ARCS[: 1 if self.boundary is None else None])
        return {
            "controls": [_choice("attention", self.kinds), *layers, arcs, *picked],
            "kinds": kinds,
            "boundary": self.boundary,
            "grid": self.grid,
            "words": self.words,
            **LIMITS,
        }


def _choice(name: str, values: Iterable[object]) -> dict[str, object]:
    """Return the control of a state: none in sight where there is nothing to choose."""
    values = [*values]
    kind, texts = "choice" if len(values) > 1 else "", [*map(str, values)]
    return {"kind": kind, "name": name, "label": name, "values": values, "texts": texts}


def _packed(weights: Tensor, size: int) -> dict[str, object]:
    """Return weights as text: their square roots in one or two bytes, so that small ones stay.

    The highest level stands for NaN.
    """
    nan = 256**size - 1
    scale = max(1.0, weights.nan_to_num().max().item())
    levels = (weights / scale).sqrt().mul(nan - 1).round().nan_to_num(nan)
    raw = levels.numpy().astype(np.dtype(f"<u{size}")).tobytes()
    text = base64.b64encode(raw).decode()
    return {"shape": [*weights.shape], "bytes": size, "scale": scale, "text": text}


def _labels(name: str, given: object) -> tuple[str, ...]:
    """Return words or numbers as text."""
    if isinstance(given, Tensor | np.ndarray):
        given = given.tolist()
    check_list(name, given, "a list of tokens")
    if any(isinstance(one, list) for one in given):
        raise TypeError(f"{name} must be those of one text, e.g. {name}[0], got a list of lists.")
    return (*map(str, given),)


def _boundary_in(tokens: Sequence[str], given: object) -> int:
    """Return where the second sentence begins: at a position, or after a token."""
    if isinstance(given, str):
        if given not in tokens:
            raise ValueError(f"boundary must be one of the tokens, got {short(given)}.")
        given = tokens.index(given) + 1
    return check_size("boundary", given, at_least=1, at_most=len(tokens) - 1)


def _grid_in(tokens: Sequence[str], given: object) -> tuple[int, int]:
    """Return rows and columns of patches, which are all tokens but for a few before them."""
    check_list("grid", given, "rows and columns, such as (14, 14)")
    sides = tuple(check_size("grid", side, at_least=1) for side in given)
    if len(sides) != 2 or not 0 <= len(tokens) - math.prod(sides) <= max(sides):
        raise ValueError(
            "grid must be rows and columns of all tokens, but for a few before them, "
            f"got {' x '.join(map(str, sides))} for {len(tokens)}."
        )
    return sides


def _of_patches(result: HeadViewResult, grid: tuple[int, int], tokens: object) -> HeadViewResult:
    """Return weights of patches, called by their places; ``tokens`` stand before them."""
    first = len(result.tokens) - math.prod(grid)
    before = _labels("tokens", [f"token {i}" for i in range(first)] if tokens is None else tokens)
    if len(before) != first:
        raise ValueError(f"tokens must be the {first} before the patches, got {len(before)}.")
    places = itertools.product(*map(range, grid))
    names = [WORDS["patch"].format(row=row, column=column) for row, column in places]
    code = f"{result.code}[{first}:].reshape{grid}"
    return result._replace(tokens=(*before, *names), code=code)


def _named_kind(name: str, given: object) -> HeadViewResult:
    """Return one of several kinds of attention, or raise with its name."""
    if not isinstance(given, tuple) or not 1 <= len(given) <= 3:
        raise TypeError(
            f"{name} must be (weights, tokens) or (weights, queries, keys), got {short(given)}."
        )
    try:
        return _kind_of(f"weights[{name!r}][0]", *given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _kind_of(
    written: str, weights: object, tokens: object = None, keys: object = None
) -> HeadViewResult:
    """Return a kind of attention; ``written`` is code that gives its weights."""
    code, layers = _layers_of(written, weights)
    queries = _labels("tokens", range(layers.shape[2]) if tokens is None else tokens)
    asked = None if keys is None else _labels("keys", keys)
    _check_sizes(layers, queries, asked)
    return HeadViewResult(queries, asked, layers, code)


def _size_of(kinds: Mapping[str, HeadViewResult]) -> int:
    """Return how many bytes are sent of each weight, or raise if there are too many."""
    total = sum(kind.weights.numel() for kind in kinds.values())
    if total > MOST_NUMBERS:
        raise ValueError(
            f"weights must be at most {MOST_NUMBERS:,} numbers, got {total:,} in all; show one "
            f"kind, e.g. HeadView(*weights[{next(iter(kinds))!r}])."
        )
    return 2 if total <= FINE else 1


def _layers_of(written: str, weights: object) -> tuple[str, Tensor]:
    """Return how a row of the weights is written, and the weights as (layers, H, L, S)."""
    if isinstance(weights, list | tuple) and weights and isinstance(weights[0], list | tuple):
        row = "[{layer}, {head}, {place}{slice}]"
        return f"HeadView({written}).result.weights{row}", _joined(weights)
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
    path = f"{written}{'[{layer}]' * several}[{', '.join(index)}{{slice}}]"
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
    wanted, given, more = "(H, L, L) for L tokens", f"{len(tokens)} tokens", ""
    if keys is not None:
        wanted, given = "(H, L, S) for L tokens and S keys", f"{given} and {len(keys)} keys"
    elif L != S:
        more = "; for cross-attention, use HeadView(weights, queries, keys)"
    raise ValueError(f"weights must be {wanted}, got {shape(weights[0])} for {given}{more}.")
