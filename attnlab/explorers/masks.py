"""Explorer 7: who may look at whom, and what happens to a query that may look at nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import attention_weights
from attnlab.explorers import _learner
from attnlab.explorers._base import Explorer, State, one_of
from attnlab.explorers._page import numbers, short
from attnlab.masks import causal_mask, combine_masks, sliding_window_mask
from attnlab.plotting import plot_attention

TOKENS = ("The", "cat", "sat", "on", "the", "mat")
MOST_TOKENS, LONGEST_TOKEN = 10, 12
KINDS = ("none", "causal", "window")
FILLS = ("-inf", "-1e9", "attnlab")
SCORE_SEED, SCORE_SPREAD = 3, 1.3


class MaskResult(NamedTuple):
    """What a mask does to the weights.

    Attributes
    ----------
    weights : Tensor, shape (n, n)
        After the softmax, queries down and keys across.
    mask : Tensor of bool, shape (n, n)
        True where the query may attend to the key.
    empty_rows : tuple of int
        Queries that may attend to nothing.
    """

    weights: Tensor
    mask: Tensor
    empty_rows: tuple[int, ...]


def _positions(name: str, value: object, explorer: MaskExplorer) -> tuple[int, ...]:
    """Check a list of positions of tokens."""
    count = len(explorer.tokens)
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a list of positions, got {short(value)}.")
    for one in value:
        _check_position(name, one, count)
    return tuple(sorted(set(value)))


def _cells(name: str, value: object, explorer: MaskExplorer) -> tuple[tuple[int, int], ...]:
    """Check a list of (query, key) pairs."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a list of (query, key) pairs, got {short(value)}.")
    for pair in value:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise TypeError(f"{name} must hold (query, key) pairs, got {short(pair)}.")
        for one in pair:
            _check_position(name, one, len(explorer.tokens))
    return tuple(sorted({tuple(pair) for pair in value}))


def _width(name: str, value: object, explorer: MaskExplorer) -> int:
    """Check the width of the window."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {short(value)}.")
    if not 1 <= value <= MOST_TOKENS:
        raise ValueError(f"{name} must be 1 to {MOST_TOKENS} tokens, got {value}.")
    return value


def _check_position(name: str, value: object, count: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must hold integers, got {short(value)}.")
    if not 0 <= value < count:
        raise ValueError(f"{name} must hold positions 0 to {count - 1}, got {value}.")


class MaskExplorer(Explorer):
    """Masks of one sentence: click cells and words, choose what blocked scores become.

    Parameters
    ----------
    tokens : sequence of str
        Two to ten short words.
    mask : {"causal", "none", "window"}
        Where every query may look: at itself and what came before, at everything, or at itself
        and the ``window - 1`` tokens before it.
    window : int
        Width of the window.
    padding : sequence of int
        Positions of the tokens that are padding: no query may attend to them.
    toggled : sequence of (int, int)
        Cells (query, key) that are flipped by hand, after all else.
    fill : {"-inf", "-1e9", "attnlab"}
        What blocked scores become; "attnlab" is -inf, and weights 0 for a row without any key.
    function : callable, optional
        ``function(scores, mask)`` returns the weights (n, n) to be drawn. ``mask`` is True where
        the query may attend.
    **options
        ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.causal_mask, attnlab.sliding_window_mask : the masks.
    """

    module = "masks"
    figsize = (5.4, 4.4)

    mask = State("causal", one_of(*KINDS))
    window = State(3, _width)
    padding = State((), _positions)
    toggled = State((), _cells)
    fill = State("-inf", one_of(*FILLS))

    def __init__(
        self,
        tokens: Sequence[str] = TOKENS,
        *,
        function: Callable[[Tensor, Tensor], Tensor] | None = None,
        **options: object,
    ) -> None:
        self.tokens = _checked_tokens(tokens)
        generator = torch.Generator().manual_seed(SCORE_SEED)
        count = len(self.tokens)
        drawn = torch.randn(count, count, generator=generator, dtype=torch.float64)
        self.scores = (drawn * SCORE_SPREAD).round(decimals=2).float()
        super().__init__(function, **options)

    @property
    def result(self) -> MaskResult:
        """Weights, mask and rows without a key, by torch, whatever the learner's function says."""
        mask = self._make_mask()
        empty = (~mask).all(dim=-1)
        if self.fill == "attnlab":
            weights = attention_weights(self.scores, attn_mask=mask)
        else:
            weights = self.scores.masked_fill(~mask, float(self.fill)).softmax(dim=-1)
        return MaskResult(weights, mask, tuple(empty.nonzero().flatten().tolist()))

    def _make_mask(self) -> Tensor:
        count = len(self.tokens)
        mask = torch.ones(count, count, dtype=torch.bool)
        if self.mask != "none":
            mask = causal_mask(count)
        if self.mask == "window":
            mask = combine_masks(mask, sliding_window_mask(count, window=self.window))
        mask[:, list(self.padding)] = False
        for query, key in self.toggled:
            mask[query, key] = ~mask[query, key]
        return mask

    def run_function(self, function: Callable[[Tensor, Tensor], Tensor]) -> dict[str, object]:
        """Return the weights that the learner's function computes, checked."""
        weights = function(self.scores.clone(), self._make_mask())
        checked = _learner.checked_weights(weights, tuple(self.scores.shape), function)
        return {"weights": numbers(checked)}

    def make_data(self) -> dict[str, object]:
        """Return the words and the scores."""
        return {"tokens": list(self.tokens), "scores": numbers(self.scores)}

    def _shown(self) -> MaskResult:
        """Return the result with the weights that the learner's function last gave, if any."""
        drawn = (self.answer or {}).get("drawn")
        if drawn is None:
            return self.result
        weights = torch.tensor([[float(one) for one in row] for row in drawn["weights"]])
        return self.result._replace(weights=weights)

    def draw(self, fig: Figure) -> None:
        """Draw the weights; blocked cells are hatched, NaN is crossed."""
        result = self._shown()
        labels = {"queries": list(self.tokens), "keys": list(self.tokens)}
        blocked = result.mask | (result.weights != 0)  # hatched unless there is something to see
        ax = fig.subplots()
        title = f"mask: {self.mask}, blocked scores: {self.fill}"
        if self.answer:
            title = f"drawn by {self.answer['name']}"
        plot_attention(result.weights, ax=ax, attn_mask=blocked, title=title, **labels)

    def say(self) -> str:
        """Return which queries see nothing, and what becomes of them."""
        if self.answer and self.answer["error"]:
            return f"{self.answer['name']} failed. {self.answer['error']}"
        if self.answer:
            return self._say_of_function()
        empty = self.result.empty_rows
        if not empty:
            return (
                "Every query may attend to at least one key, and every row of weights adds up to 1."
            )
        names = " and ".join(self._name_of_row(row) for row in empty)
        return f"{names} may attend to nothing. {WHAT_HAPPENS[self.fill]}"

    def _say_of_function(self) -> str:
        """Return which rows of the learner's weights cannot be right."""
        shown = self._shown()
        found = [_problem(*pair) for pair in zip(shown.weights, shown.mask, strict=True)]
        problems = [f"{self._name_of_row(i)} {what}" for i, what in enumerate(found) if what]
        right = "every row is right, and no blocked key gets weight"
        return f"Drawn by {self.answer['name']}: {'; '.join(problems[:3]) or right}."

    def _name_of_row(self, row: int) -> str:
        return f"“{self.tokens[row]}” (row {row})"


WHAT_HAPPENS = {
    "-inf": "A softmax over −∞ alone is 0/0: NaN, and it spreads to all that is computed from it.",
    "-1e9": "All scores are equal, so each key gets the same weight, blocked or not: a wrong "
    "answer without an error.",
    "attnlab": "The weights are set to 0, and so is the output, as scaled_dot_product_attention "
    "does.",
}


def _problem(weights: Tensor, allowed: Tensor) -> str:
    """Return what cannot be right about a row of weights, or nothing."""
    total = weights.sum().item()
    leak = bool((weights[~allowed].abs() > 1e-6).any())
    if math.isnan(total):
        return "is NaN"
    if not allowed.any():
        return "may attend to nothing and still gives weight" if leak else ""
    if leak:
        return "gives weight to blocked keys"
    return f"adds up to {total:.2f}" if abs(total - 1) > 0.005 else ""


def _checked_tokens(tokens: object) -> tuple[str, ...]:
    if isinstance(tokens, str) or not isinstance(tokens, Sequence):
        raise TypeError(f"tokens must be a list of words, got {short(tokens)}.")
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
