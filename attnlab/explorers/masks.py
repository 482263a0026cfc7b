"""Who may look at whom, and what happens to cells that are blocked."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attnlab._matrix import draw_matrix
from attnlab.checks import as_integer, short
from attnlab.display.table import load_table
from attnlab.explorers.frame import learner
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.bundle import sendable
from attnlab.explorers.frame.controls import Choice, Reset, Slider, State, check_items
from attnlab.explorers.frame.words import HALF, TABLE, TOKENS, decimals, listed, texts_beside
from attnlab.masks import causal_mask
from attnlab.measures import influence_map
from attnlab.palette import INK, ORANGE
from attnlab.plotting import WEIGHT_COLOURS, plot_mask

PAD = "<pad>"
KINDS = ("none", "causal", "padding", "both")
FILLS = {
    "-inf": "score −∞",
    "-1e9": "score −1e9",
    "0": "score 0",
    "0 after": "weight 0",
    "divide again": "weight 0, divided again",
    "-inf and 0": "score −∞, then weight 0",
}
SEEN = 1e-6  # an influence above this is none of rounding
STRONG = 2.0  # the influence that is darkest: most lie below
COUNT = len(TOKENS)
WORDS = texts_beside(__file__)["words"]
X = load_table(TABLE).values.double().round(decimals=4)  # (6, 5), as the browser gets it


class MaskResult(NamedTuple):
    """What a mask does to the weights, and what the outputs depend on."""

    weights: Tensor  # (6, 6): queries down and keys across
    influence: Tensor  # (6, 6): how much an output (down) moves with a token (across)
    mask: Tensor  # (6, 6): True where the query may attend to the key
    empty_rows: tuple[int, ...]  # queries that may attend to nothing


def blocked_weights(scores: Tensor, mask: Tensor, fill: str) -> Tensor:
    """Return weights in which cells are blocked by one of the rules."""
    if fill in ("-1e9", "0"):
        return scores.masked_fill(~mask, float(fill)).softmax(dim=-1)
    if fill in ("0 after", "divide again"):
        weights = scores.softmax(dim=-1).masked_fill(~mask, 0)
        return weights if fill == "0 after" else weights / weights.sum(dim=-1, keepdim=True)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights if fill == "-inf" else weights.masked_fill(~mask, 0)


def _cells(name: str, value: object, _explorer: Explorer) -> tuple[tuple[int, int], ...]:
    """Check a list of (query, key) pairs."""
    check_items(name, value, "be a list of (query, key) pairs")
    for pair in value:
        check_items(name, pair, "hold (query, key) pairs", count=2)
        for place in map(as_integer, pair):
            if place is None:
                raise TypeError(f"{name} must hold integers, got {short(pair)}.")
            if not 0 <= place < COUNT:
                raise ValueError(f"{name} must hold positions 0 to {COUNT - 1}, got {place}.")
    return tuple(sorted({tuple(map(as_integer, pair)) for pair in value}))


class MaskExplorer(Explorer):
    """A mask whose cells can be clicked, its weights, and what each output depends on.

    Parameters
    ----------
    padding : int
        Number of ``<pad>``, 0 to 5, in front of “The cat sat on the mat”, of which six tokens are
        shown.
    mask : {"both", "none", "causal", "padding"}
        Whether later tokens are blocked, or ``<pad>``, or both.
    fill : {"-inf", "-1e9", "0", "0 after", "divide again", "-inf and 0"}
        What a blocked cell gets: one of three scores before the softmax; or a weight of 0 after it,
        as it is or with each row divided by its sum; or first the score and then the weight.
    toggled : sequence of (int, int)
        Cells (query, key) that are flipped by hand, after all else. Another mask or another padding
        takes them back.
    function : callable, optional
        ``function(scores, mask)`` returns the weights (6, 6) that are drawn. ``mask`` is True where
        the query may attend. The influence map is that of these weights times the vectors.
    **options
        ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.causal_mask, attnlab.from_key_padding_mask : the masks.
    attnlab.influence_map : the third picture.
    """

    module = "masks"
    figsize = (10.4, 3.9)
    code_title = "The same in PyTorch (True = may attend)"
    padding = Slider(
        3, range(COUNT), label=PAD, spoken="padding in front", width=90, sets={"toggled": ()}
    )
    mask = Choice("both", KINDS, label="mask", sets={"toggled": ()})
    fill = Choice("-inf", FILLS, label="blocked")
    reset = Reset()
    toggled = State((), _cells)

    def __init__(
        self, *, function: Callable[[Tensor, Tensor], Tensor] | None = None, **options: object
    ) -> None:
        super().__init__(function, **options)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The six tokens, padding first."""
        return (PAD,) * self.padding + TOKENS[: COUNT - self.padding]

    @property
    def vectors(self) -> Tensor:
        """The vectors of the tokens, (6, 5); those of padding are zeros."""
        return torch.cat([torch.zeros_like(X[: self.padding]), X[: COUNT - self.padding]])

    @property
    def result(self) -> MaskResult:
        """Weights and influence by torch, whatever the learner's function says."""
        mask = self._make_mask()

        def weights_of(x: Tensor) -> Tensor:
            return blocked_weights(scores_of(x), mask, self.fill)

        influence = influence_map(lambda x: weights_of(x) @ x, self.vectors)
        return MaskResult(weights_of(self.vectors), influence, mask, _empty(mask))

    def _make_mask(self) -> Tensor:
        """Return the mask of the state in force."""
        mask = torch.ones(COUNT, COUNT, dtype=torch.bool)
        if self.mask in ("causal", "both"):
            mask &= causal_mask(COUNT)
        if self.mask in ("padding", "both"):
            mask[:, : self.padding] = False
        for query, key in self.toggled:
            mask[query, key] = ~mask[query, key]
        return mask

    def run_function(self, function: Callable[[Tensor, Tensor], Tensor]) -> dict[str, object]:
        """Return the weights that the learner's function computes, checked, and their influence."""
        mask, drawn = self._make_mask(), {}

        def attend(x: Tensor) -> Tensor:
            weights = function(scores_of(x), mask.clone())
            drawn["weights"] = learner.checked_weights(weights, (COUNT, COUNT), function)
            return weights.to(x.dtype) @ x

        drawn["influence"] = influence_map(attend, self.vectors.float())
        return sendable(drawn)

    def make_data(self) -> dict[str, object]:
        """Return tokens, vectors, words and lines of code."""
        limits = {"seen": SEEN, "strong": STRONG, "half": HALF}
        return sendable({"pad": PAD, "words": WORDS, "x": X, "sentence": TOKENS, **limits})

    def _describe(self) -> dict[str, object]:
        described = super()._describe()
        if self._function is not None:  # it decides what a blocked cell gets
            kept = [control for control in described["controls"] if control.get("name") != "fill"]
            described["controls"] = kept
        return described

    def _shown(self) -> MaskResult:
        """Return the result with what the learner's function last gave, if anything."""
        drawn = (self.answer or {}).get("drawn")
        if drawn is None:
            return self.result
        mask = self._make_mask()
        return MaskResult(
            _numbers(drawn["weights"]), _numbers(drawn["influence"]), mask, _empty(mask)
        )

    def draw(self, fig: Figure) -> None:
        """Draw mask, weights and influence; blocked cells are hatched, NaN is crossed."""
        shown, tokens = self._shown(), list(self.tokens)
        titles = WORDS["panels"]
        left, middle, right = fig.subplots(1, 3)
        fig.get_layout_engine().set(wspace=0.1)  # the sums stand clear of the next names
        plot_mask(shown.mask, ax=left, queries=tokens, keys=tokens, title=titles[0], legend=False)
        drawn_by = FILLS[self.fill]
        if (self.answer or {}).get("drawn"):
            drawn_by = WORDS["by"].format(name=self.answer["name"])
        for ax, cells, top, title in (
            (middle, shown.weights, 1, f"{titles[1]} ({drawn_by})"),
            (right, shown.influence, STRONG, titles[2]),
        ):
            draw_matrix(  # plot_attention refuses what cannot be weights; here it is to be seen
                cells,
                ax,
                colours=WEIGHT_COLOURS,
                limits=(0, top),
                labels=(tokens, tokens),
                title=title,
                attn_mask=shown.mask | ~(cells.abs() <= SEEN),
            )
        for row, weights in enumerate(shown.weights):
            wrong = _problem(weights, shown.mask[row])
            look = {"va": "center", "color": ORANGE if wrong else INK}
            total = "NaN" if weights.isnan().any() else f"{weights.sum():.2f}"
            middle.text(COUNT + 0.15, row + 0.5, total, **look)
        opened = self._opened(shown.mask)
        through = (_off_diagonal(shown.influence).gt(SEEN) & ~shown.mask).nonzero().tolist()
        for ax, cells in ((left, opened), (right, [*through, *opened])):
            for row, column in cells:
                frame = {"fill": False, "edgecolor": ORANGE, "linewidth": 2}
                ax.add_patch(Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, **frame))
        for ax in (left, middle, right):
            ax.set(xlabel="", ylabel="")

    # --- words ------------------------------------------------------------------------------------

    def say_rich(self) -> str:
        """Return what gets through the mask, and which rows are right."""
        if (self.answer or {}).get("error"):
            return f"{self.answer['name']} failed. {self.answer['error']}"
        shown = self._shown()
        opened = self._opened(shown.mask)
        told = self._say_of_function(shown) if self.answer else self._say_of_rule(shown)
        return f"{self._say_opened(opened)} {told}" if opened else told

    def _opened(self, mask: Tensor) -> list[tuple[int, int]]:
        """Return the cells opened by hand, in which a later token or padding is seen."""
        return [(query, key) for query, key in self.toggled if mask[query, key]]

    def _say_opened(self, opened: list[tuple[int, int]]) -> str:
        (query, key), *more = opened
        tokens = self.tokens
        is_later = self.mask != "padding" and key > query
        kind = "padding" if not is_later else "token" if tokens[key] == PAD else "word"
        what = WORDS["seen"][kind].format(key=tokens[key])
        text = WORDS["opened"].format(query=tokens[query], what=what)
        return text + (WORDS["more"][len(more) > 1].format(cells=len(more)) if more else "")

    def _say_of_rule(self, shown: MaskResult) -> str:
        weights, influence, mask, empty = shown
        leaks = int((_off_diagonal(influence) > SEEN).logical_and(~mask).sum())
        if mask.all():
            return WORDS["all"] + self._say_padding(weights)
        if self.fill == "0":
            kept = weights.masked_fill(mask, 0).sum(dim=-1)
            most = percent((kept[mask.any(dim=-1)] if mask.any() else kept).max())
            return WORDS["glass"].format(most=most, leaks=_leak(leaks))
        if self.fill == "0 after":
            rows = [row for row in range(COUNT) if row not in empty]
            least = min(rows, key=lambda row: (weights[row].sum() + HALF).item(), default=None)
            short_row = ""
            if least is not None:
                name, kept = self._name_of_row(least), decimals(weights[least].sum())
                short_row = WORDS["short"].format(row=name, kept=kept)
            return (
                WORDS["erased" if leaks else "erased alone"].format(leaks=_leak(leaks)) + short_row
            )
        through_itself = (influence.diagonal() > SEEN).logical_and(~mask.diagonal()).any()
        the_map = WORDS["map"][int(through_itself)]
        if not empty:
            return WORDS["right"].format(map=the_map) + self._say_padding(weights)
        who = WORDS["who"][min(len(empty), 2) - 1].format(rows=_rows(empty))
        who = WORDS["who"][2] if len(empty) == COUNT else who
        others = WORDS["others"] if len(empty) < COUNT else ""
        if self.fill in ("-inf", "divide again"):
            return WORDS["nan"].format(who=who, others=others)
        if self.fill == "-1e9":
            return WORDS["average"].format(who=who, others=others)
        return WORDS["both"].format(map=the_map)

    def _say_padding(self, weights: Tensor) -> str:
        """Return how much the last word gives to padding, if anything."""
        taken = weights[-1, : self.padding].sum()
        return WORDS["taken"].format(share=percent(taken), word=self.tokens[-1]) if taken else ""

    def _say_of_function(self, shown: MaskResult) -> str:
        """Return what cannot be right about the learner's weights."""
        weights, influence, mask, _ = shown
        problems = []
        for i, (row, allowed) in enumerate(zip(weights, mask, strict=True)):
            if what := _problem(row, allowed):
                total = decimals(row.sum())
                problems.append(
                    f"{self._name_of_row(i)} {WORDS['problems'][what].format(sum=total)}"
                )
        told = problems[:2]
        if influence.isnan().any():
            told.append(WORDS["nan influence"])
        elif leaks := int((_off_diagonal(influence) > SEEN).logical_and(~mask).sum()):
            told.append(_leak(leaks))
        what = "; ".join(told) or WORDS["good"]
        return WORDS["drawn"].format(name=self.answer["name"], what=what)

    def _name_of_row(self, row: int) -> str:
        return WORDS["row"].format(token=self.tokens[row], row=row)


def scores_of(x: Tensor) -> Tensor:
    """Return the scores of vectors with each other."""
    return x @ x.mT / x.shape[-1] ** 0.5


def percent(share: float) -> str:
    """Return a share in whole percent, rounded as in the browser."""
    return f"{100 * (float(share) + HALF):.0f}"


def _empty(mask: Tensor) -> tuple[int, ...]:
    return tuple((~mask.any(dim=-1)).nonzero().flatten().tolist())


def _numbers(rows: list) -> Tensor:
    return torch.tensor([[float(number) for number in row] for row in rows], dtype=torch.float64)


def _off_diagonal(influence: Tensor) -> Tensor:
    """Return the influence of other tokens: a token is its own query, whatever the mask says."""
    return influence.masked_fill(torch.eye(COUNT, dtype=torch.bool), 0)


def _rows(rows: tuple[int, ...]) -> str:
    """Return the numbers of rows as words."""
    first, last = rows[0], rows[-1]
    if len(rows) > 2 and last - first == len(rows) - 1:
        return WORDS["range"].format(first=first, last=last)
    return listed([str(row) for row in rows])


def _leak(cells: int) -> str:
    return WORDS["leak"][min(cells, 2) - 1].format(cells=cells) if cells else WORDS["no leak"]


def _problem(weights: Tensor, allowed: Tensor) -> str:
    """Return what cannot be right about a row of weights, as a key of ``WORDS``."""
    total = weights.sum()
    if total.isnan():
        return "nan"
    if (weights[~allowed].abs() > SEEN).any():
        return "leaks" if allowed.any() else "empty leaks"
    return "sum" if allowed.any() and abs(total - 1) > 0.005 else ""
