"""A sentence under a mask: the state, the words, and what is right or wrong with its weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from torch import Tensor

from attnlab._cells import draw_matrix
from attnlab._checks import as_integer, short
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import Choice, Slider, State, check_items
from attnlab.explorers._page import sendable
from attnlab.masks import causal_mask, combine_masks, sliding_window_mask
from attnlab.plotting import WEIGHT_COLOURS

MOST_TOKENS, LONGEST_TOKEN = 10, 12
KINDS = ("none", "causal", "window")
REACH = {
    width: f"itself and {width - 1} before" if width > 1 else "itself alone"
    for width in range(1, MOST_TOKENS + 1)
}  # of a window, which is causal
WORDS = {
    "row": "**“{token}” (row {row})**",
    "drawn": "Drawn by {name}: {what}.",
    "right": "every row with an open key sums to 1, and no blocked key gets any weight",
    "problems": {
        "nan": "is NaN",
        "empty leaks": "may attend to nothing but still gives weight",
        "leaks": "gives weight to blocked keys",
        "sum": "adds up to {sum}",
    },
    "marks": {  # after the row: what its weights add up to, and a word
        "": ["✓ 1", ""],
        "empty": ["○ 0", "no key"],
        "nan": ["✗ NaN", ""],
        "empty leaks": ["✗ {sum}", "leaks"],
        "leaks": ["✗ {sum}", "leaks"],
        "sum": ["✗ {sum}", ""],
    },
    "cell": "query “{query}”, key “{key}”: {may}, weight {weight}",
    "idle": "Point at a cell, or move there with the arrow keys.",
}
CODE = {
    "none": "mask = torch.ones(n, n).bool()",
    "causal": "mask = torch.ones(n, n).tril().bool()",
    "window": "mask = torch.ones(n, n).tril().triu({first}).bool()  # {reach}",
    "padding": "mask[:, [{padding}]] = False  # padding",
    "toggled": "mask[[{rows}], [{columns}]] ^= True  # flipped by hand",
}
KEY = (
    ("blocked", "blocked: weight 0"),
    ("nan", "not a number"),
    ("leak", "blocked, but still has weight"),
)


class MaskResult(NamedTuple):
    """What a mask does to the weights."""

    weights: Tensor  # (n, n): after the softmax, queries down and keys across
    mask: Tensor  # (n, n): True where the query may attend to the key
    empty_rows: tuple[int, ...]  # queries that may attend to nothing


# --- state ----------------------------------------------------------------------------------------


def _positions(name: str, value: object, explorer: MaskedSentence) -> tuple[int, ...]:
    """Check a list of positions of tokens."""
    count = len(explorer.tokens)
    check_items(name, value, "be a list of positions")
    return tuple(sorted({_position(name, one, count) for one in value}))


def _cells(name: str, value: object, explorer: MaskedSentence) -> tuple[tuple[int, int], ...]:
    """Check a list of (query, key) pairs."""
    count = len(explorer.tokens)
    check_items(name, value, "be a list of (query, key) pairs")
    for pair in value:
        check_items(name, pair, "hold (query, key) pairs", count=2)
    return tuple(sorted({tuple(_position(name, one, count) for one in pair) for pair in value}))


def _position(name: str, value: object, count: int) -> int:
    place = as_integer(value)
    if place is None:
        raise TypeError(f"{name} must hold integers, got {short(value)}.")
    if not 0 <= place < count:
        raise ValueError(f"{name} must hold positions 0 to {count - 1}, got {place}.")
    return place


def _checked_tokens(tokens: object) -> tuple[str, ...]:
    check_items("tokens", tokens, "be a list of words")
    if not 2 <= len(tokens) <= MOST_TOKENS:
        raise ValueError(f"tokens must be 2 to {MOST_TOKENS} words, got {len(tokens)}.")
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"tokens must be words, got {short(token)}.")
        if not 1 <= len(token.strip()) <= LONGEST_TOKEN:
            raise ValueError(
                f"tokens must be words of 1 to {LONGEST_TOKEN} letters, got {short(token)}."
            )
    return tuple(tokens)


# --- what two explorers share ---------------------------------------------------------------------


class MaskedSentence(Explorer):
    """A sentence, a mask made by clicks, and weights: the base of the explorers of masks.

    Parameters
    ----------
    tokens : sequence of str
        Two to ten short words.
    function : callable, optional
        As in ``Explorer``.
    **options
        The state, ``ask`` and ``large``.
    """

    mask = Choice("causal", KINDS, label="mask")
    window = Slider(
        3,
        REACH,
        label="width",
        spoken="width of the window",
        width=110,
        when={"mask": ["window"]},
    )
    padding = State((), _positions)
    toggled = State((), _cells)

    def __init__(
        self, tokens: Sequence[str], function: Callable | None, options: dict[str, object]
    ) -> None:
        self.tokens = _checked_tokens(tokens)
        self._prepare(len(self.tokens))
        super().__init__(function, **options)

    def _prepare(self, count: int) -> None:
        """Make the numbers that the weights of ``count`` tokens are computed from."""
        raise NotImplementedError

    def _make_mask(self, **changes: object) -> Tensor:
        """Return the mask of the state in force, or of one that differs from it."""
        state = {**self.state(), **changes}
        count = len(self.tokens)
        mask = torch.ones(count, count, dtype=torch.bool)
        if state["mask"] != "none":
            mask = causal_mask(count)
        if state["mask"] == "window":
            mask = combine_masks(mask, sliding_window_mask(count, window=state["window"]))
        mask[:, list(state["padding"])] = False
        for query, key in state["toggled"]:
            mask[query, key] = ~mask[query, key]
        return mask

    def _data_with(
        self, scores: object, words: Mapping[str, object], code: Mapping[str, str]
    ) -> dict[str, object]:
        """Return tokens and scores, and an explorer's words and code with those of all masks."""
        told = {**WORDS, "reach": [*REACH.values()], "key": KEY, **words, "code": {**CODE, **code}}
        return sendable({"tokens": self.tokens, "words": told}) | {"scores": scores}

    def _describe(self) -> dict[str, object]:
        data = super()._describe()
        for control in data["controls"]:
            if control.get("name") == "window":  # a wider one than the sentence changes nothing
                control |= {"values": control["values"][: len(self.tokens)]}
        return data

    def _shown(self) -> MaskResult:
        """Return the result with the weights that the learner's function last gave, if any."""
        drawn = (self.answer or {}).get("drawn")
        if drawn is None:
            return self.result
        weights = torch.tensor([[float(one) for one in row] for row in drawn["weights"]])
        return self.result._replace(weights=weights)

    def _draw_weights(self, ax: Axes, title: str) -> None:
        """Draw the weights; blocked cells are hatched, NaN is crossed."""
        result = self._shown()
        labels = list(self.tokens)
        blocked = result.mask | (result.weights != 0)  # hatched unless there is something to see
        if self.answer:
            title = f"drawn by {self.answer['name']}"
        draw_matrix(  # plot_attention refuses what cannot be weights; here it is to be seen
            result.weights,
            ax,
            colours=WEIGHT_COLOURS,
            limits=(0, 1),
            labels=(labels, labels),
            title=title,
            attn_mask=blocked,
        )

    def _say_of_function(self) -> str:
        """Return which rows of the learner's weights cannot be right, or its error."""
        name = self.answer["name"]
        if self.answer["error"]:
            return f"{name} failed. {self.answer['error']}"
        shown = self._shown()
        problems = []
        for i, (weights, allowed) in enumerate(zip(shown.weights, shown.mask, strict=True)):
            if what := WORDS["problems"].get(_problem(weights, allowed)):
                total = f"{weights.sum():.2f}"
                problems.append(f"{self._name_of_row(i)} {what.format(sum=total)}")
        what = "; ".join(problems[:3]) or WORDS["right"]
        return WORDS["drawn"].format(name=name, what=what)

    def _name_of_row(self, row: int) -> str:
        return WORDS["row"].format(token=self.tokens[row], row=row)


def empty_rows(mask: Tensor) -> tuple[int, ...]:
    """Return the queries that may attend to nothing."""
    return tuple((~mask).all(dim=-1).nonzero().flatten().tolist())


def _problem(weights: Tensor, allowed: Tensor) -> str:
    """Return what cannot be right about a row of weights, as a key of ``WORDS``."""
    total = weights.sum().item()
    leaks = bool((weights[~allowed].abs() > 1e-6).any())
    if math.isnan(total):
        return "nan"
    if not allowed.any():
        return "empty leaks" if leaks else "empty"
    if leaks:
        return "leaks"
    return "sum" if abs(total - 1) > 0.005 else ""
