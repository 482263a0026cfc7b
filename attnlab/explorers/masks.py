"""Who may look at whom, and what happens to keys that are blocked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlab._matrix import draw_matrix
from attnlab.attention import attention_weights
from attnlab.checks import as_integer, short
from attnlab.explorers.frame import learner
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.bundle import sendable
from attnlab.explorers.frame.controls import Button, Choice, Question, Slider, State, check_items
from attnlab.explorers.frame.words import TOKENS, decimals, listed, texts_beside
from attnlab.masks import causal_mask, combine_masks, sliding_window_mask
from attnlab.palette import INK, ORANGE
from attnlab.plotting import WEIGHT_COLOURS

MOST_TOKENS, LONGEST_TOKEN = 10, 12
KINDS = ("none", "causal", "window")
REACH = {
    width: f"itself and {width - 1} before" if width > 1 else "itself alone"
    for width in range(1, MOST_TOKENS + 1)
}  # of a window, which is causal
FILLS = {
    "-inf": "−∞",
    "-1e9": "−1e9",
    "0": "0",
    "0 after": "0 after softmax",
    "attnlab": "attnlab’s rule",
}
SCORE_SEED, SCORE_SPREAD = 3, 1.3
TEXTS = texts_beside(__file__)
WORDS = TEXTS["words"]


class MaskResult(NamedTuple):
    """What a mask does to the weights."""

    weights: Tensor  # (n, n): after the softmax, queries down and keys across
    mask: Tensor  # (n, n): True where the query may attend to the key
    empty_rows: tuple[int, ...]  # queries that may attend to nothing


# --- state ----------------------------------------------------------------------------------------


def _positions(name: str, value: object, explorer: MaskExplorer) -> tuple[int, ...]:
    """Check a list of positions of tokens."""
    check_items(name, value, "be a list of positions")
    return tuple(sorted({_position(name, one, len(explorer.tokens)) for one in value}))


def _cells(name: str, value: object, explorer: MaskExplorer) -> tuple[tuple[int, int], ...]:
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


# --- the explorer ---------------------------------------------------------------------------------


class MaskExplorer(Explorer):
    """Masks of one sentence: click cells and words, choose how they block.

    Parameters
    ----------
    tokens : sequence of str
        Two to ten short words.
    mask : {"causal", "none", "window"}
        Where every query may look: at itself and what came before, at everything, or at itself
        and the ``window - 1`` tokens before it: the window is causal, where that of
        ``sliding_window_mask`` alone reaches to both sides.
    window : int
        Width of the window.
    padding : sequence of int
        Positions of the tokens that are padding: no query may attend to them.
    toggled : sequence of (int, int)
        Cells (query, key) that are flipped by hand, after all else.
    fill : {"-inf", "-1e9", "0", "0 after", "attnlab"}
        What blocked scores become; "attnlab" is -inf, and weights 0 for a row without any key. With
        "0 after" the scores stay, and blocked weights become 0 after the softmax.
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
    code_title = "The same in PyTorch (True = may attend)"
    mask = Choice("causal", KINDS, label="mask")
    window = Slider(
        3,
        REACH,
        label="width",
        spoken="width of the window",
        width=110,
        when={"mask": ["window"]},
    )
    fill = Choice("-inf", FILLS, label="blocked score")
    reset = Button("Reset", padding=(), toggled=())
    padding = State((), _positions)
    toggled = State((), _cells)

    def __init__(
        self,
        tokens: Sequence[str] = TOKENS,
        *,
        function: Callable[[Tensor, Tensor], Tensor] | None = None,
        **options: object,
    ) -> None:
        self.tokens = _checked_tokens(tokens)
        count, generator = len(tokens), torch.Generator().manual_seed(SCORE_SEED)
        drawn = torch.randn(count, count, generator=generator, dtype=torch.float64)
        self.scores = (drawn * SCORE_SPREAD).round(decimals=2).float()
        super().__init__(function, **options)

    @property
    def prediction(self) -> Question:
        """Ask which row sees nothing."""
        return Question.of(TEXTS["prediction"], token=self.tokens[0])

    @property
    def result(self) -> MaskResult:
        """Weights, mask and rows without a key, by torch, whatever the learner's function says."""
        mask = self._make_mask()
        if self.fill == "attnlab":
            weights = attention_weights(self.scores, attn_mask=mask)
        elif self.fill == "0 after":
            weights = attention_weights(self.scores).masked_fill(~mask, 0)
        else:
            weights = self.scores.masked_fill(~mask, float(self.fill)).softmax(dim=-1)
        return MaskResult(weights, mask, tuple((~mask).all(dim=-1).nonzero().flatten().tolist()))

    def _make_mask(self) -> Tensor:
        """Return the mask of the state in force."""
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
        checked = learner.checked_weights(weights, tuple(self.scores.shape), function)
        return {"weights": sendable(checked)}

    def make_data(self) -> dict[str, object]:
        """Return tokens, scores, words and lines of code."""
        words = {**WORDS, "reach": [*REACH.values()]}
        return sendable({"tokens": self.tokens, "scores": self.scores, "words": words})

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

    def draw(self, fig: Figure) -> None:
        """Draw the weights; blocked cells are hatched, NaN is crossed."""
        result, labels = self._shown(), list(self.tokens)
        wide = f"causal window of width {self.window}\n"
        kind = wide if self.mask == "window" else f"{self.mask}, "
        title = f"mask: {kind}blocked score: {FILLS[self.fill]}"
        if self.answer:
            title = f"drawn by {self.answer['name']}"
        ax = fig.subplots()
        draw_matrix(  # plot_attention refuses what cannot be weights; here it is to be seen
            result.weights,
            ax,
            colours=WEIGHT_COLOURS,
            limits=(0, 1),
            labels=(labels, labels),
            title=title,
            # hatched unless there is something to see
            attn_mask=result.mask | (result.weights != 0),
        )
        for row, (weights, allowed) in enumerate(zip(result.weights, result.mask, strict=True)):
            mark, _ = WORDS["marks"][_problem(weights, allowed)]
            text = mark.format(sum=f"{weights.sum():.2f}")
            look = {"va": "center", "color": ORANGE if "✗" in mark else INK}
            ax.text(len(labels) + 0.15, row + 0.5, text, **look)

    # --- words ------------------------------------------------------------------------------------

    def say_rich(self) -> str:
        """Return which queries see nothing, and what becomes of them."""
        if self.answer:
            return self._say_of_function()
        weights, mask, empty = self.result
        if self.fill in WORDS["harm"] and not mask.all():
            kept = (weights * mask).sum(dim=-1)
            numbers = {"kept": decimals(kept.min()), "lost": decimals(1 - kept.min())}
            row = self._name_of_row(int(kept.argmin()))
            return WORDS["harm"][self.fill].format(row=row, **numbers)
        if not empty:
            return WORDS["full"]
        names = listed([self._name_of_row(row) for row in empty])
        if len(empty) == len(self.tokens):
            names = WORDS["every"]
        return WORDS["empty"].format(names=names, what=WORDS["what happens"][self.fill])

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
