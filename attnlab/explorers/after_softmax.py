"""Explorer 8: what keeps weight away from padding: a score of -inf, and not a 0, early or late."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import attention_weights
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import State, one_of
from attnlab.explorers._page import numbers
from attnlab.plotting import plot_attention

TOKENS = ("The", "cat", "sat", "<pad>", "<pad>")
WORDS = 3  # the tokens after them are padding
SPOKEN_OF = 1  # "cat"
SCORE_SEED = 42
RULES = ("no mask", "before: -inf", "before: 0", "after: 0")
LIFTS = (-4, -2, 0, 2, 4, 6)
WORD_LOOK = {"color": "#0b61a4", "label": "on words"}
PAD_LOOK = {"color": "#c8500a", "hatch": "//", "edgecolor": "white", "label": "on <pad>"}


class AfterSoftmaxResult(NamedTuple):
    """Weights under one rule, and where the weight of every row goes.

    Attributes
    ----------
    weights : Tensor, shape (5, 5)
        Queries down, keys across.
    on_words, on_padding : Tensor, shape (5,)
        What each row gives to words and to padding.
    row_sums : Tensor, shape (5,)
        Both together.
    """

    weights: Tensor
    on_words: Tensor
    on_padding: Tensor
    row_sums: Tensor


class AfterSoftmaxExplorer(Explorer):
    """Five tokens, two of them padding, and four things one may do about it.

    Parameters
    ----------
    **state
        ``rule``: "no mask", "before: -inf" (blocked scores become -inf before the softmax),
        "before: 0" (they become 0) or "after: 0" (blocked weights are set to 0 after it). ``lift``:
        what is added to the scores of padding, -4, -2, 0, 2, 4 or 6. ``ask`` and ``large``, as in
        ``Explorer``.

    See Also
    --------
    attnlab.attention_weights : blocks with -inf, before the softmax.
    """

    module = "after_softmax"
    figsize = (8.2, 3.7)

    rule = State("no mask", one_of(*RULES))
    lift = State(0, one_of(*LIFTS))

    @property
    def result(self) -> AfterSoftmaxResult:
        """Weights and sums under this rule, by torch."""
        return apply_rule(self.rule, self.lift)

    def make_data(self) -> dict[str, object]:
        """Return the weights, sums and words of every state."""
        return {
            "tokens": list(TOKENS),
            "words": WORDS,
            "spoken_of": SPOKEN_OF,
            "lifts": list(LIFTS),
            "frames": {rule: [frame(rule, lift) for lift in LIFTS] for rule in RULES},
        }

    def draw(self, fig: Figure) -> None:
        """Draw the weights, and the sum of each row as a bar."""
        result = self.result
        left, right = fig.subplots(1, 2, width_ratios=[3, 2])
        hidden = (
            {} if self.rule == "no mask" else {"attn_mask": may_attend() | (result.weights > 0)}
        )
        labels = {"queries": list(TOKENS), "keys": list(TOKENS)}
        plot_attention(result.weights, ax=left, title=self.rule, **labels, **hidden)
        _draw_sums(right, result)

    def say(self) -> str:
        """Return what the rows add up to, and what lies on padding."""
        return sentence(self.rule, self.lift)


def _draw_sums(ax: Axes, result: AfterSoftmaxResult) -> None:
    words, padding = result.on_words.numpy(), result.on_padding.numpy()
    places = range(len(TOKENS))
    ax.barh(places, words, **WORD_LOOK)
    ax.barh(places, padding, left=words, **PAD_LOOK)
    ax.axvline(1, color="#555555", linewidth=1, linestyle=":")
    ax.set(xlim=(0, 1.05), ylim=(len(TOKENS) - 0.5, -0.5), yticks=[], title="row sums")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)


def may_attend() -> Tensor:
    """Return the mask (1, 5): True for words, False for padding."""
    return torch.arange(len(TOKENS))[None] < WORDS


def scores_of(lift: int) -> Tensor:
    """Return the random scores (5, 5), those of padding raised by ``lift``."""
    scores = torch.randn(
        len(TOKENS), len(TOKENS), generator=torch.Generator().manual_seed(SCORE_SEED)
    )
    return scores + lift * ~may_attend()


@cache
def apply_rule(rule: str, lift: int) -> AfterSoftmaxResult:
    """Return the weights that a rule gives."""
    scores, mask = scores_of(lift), may_attend()
    if rule == "before: -inf":
        weights = attention_weights(scores, attn_mask=mask)
    elif rule == "before: 0":
        weights = attention_weights(scores.masked_fill(~mask, 0.0))
    else:
        weights = attention_weights(scores)
    if rule == "after: 0":
        weights = weights * mask
    words, padding = (part.sum(dim=-1) for part in weights.split([WORDS, len(TOKENS) - WORDS], -1))
    return AfterSoftmaxResult(weights, words, padding, weights.sum(dim=-1))


def frame(rule: str, lift: int) -> dict[str, object]:
    """Return one state for the browser."""
    weights, *totals = apply_rule(rule, lift)
    words, padding, sums = (numbers(part, 3) for part in totals)
    parts = {"words": words, "padding": padding, "sums": sums}
    parts["weights"] = numbers(weights, 5)  # so that only a weight of 0 is 0 there
    return {**parts, "say": sentence(rule, lift), "code": code(rule, lift)}


# --- words ----------------------------------------------------------------------------------------

NAMES = {
    "no mask": "No mask",
    "before: -inf": "−∞ before the softmax",
    "before: 0": "0 before the softmax",
    "after: 0": "0 after the softmax",
}


def sentence(rule: str, lift: int) -> str:
    """Return what a rule does to the row sums and to the weight on padding."""
    raised = f", the scores of <pad> {'raised' if lift > 0 else 'lowered'} by {abs(lift)}"
    result, word = apply_rule(rule, lift), f"“{TOKENS[SPOKEN_OF]}”"
    leak = result.on_padding[SPOKEN_OF].item()
    if rule == "no mask":
        what = f"every row adds up to 1, and {word} leaves {leak:.3f} of its weight on <pad>."
    elif rule == "before: -inf":
        what = "every row adds up to 1 and leaves nothing on <pad>, whatever <pad> scores."
    elif rule == "before: 0":
        bare = apply_rule("no mask", lift).on_padding[SPOKEN_OF].item()
        what = (
            f"every row adds up to 1, but {word} leaves {leak:.3f} of its weight on <pad>, "
            f"{'more' if leak > bare else 'less'} than the {bare:.3f} without a mask: 0 is a score "
            "like any other."
        )
    else:
        low, high = (extreme.item() for extreme in result.row_sums.aminmax())
        what = (
            f"nothing lies on <pad>, but the rows add up to only {low:.3f} to {high:.3f}, {word} "
            f"to {result.row_sums[SPOKEN_OF]:.3f}: the share of <pad> is lost."
        )
    return f"{NAMES[rule]}{raised if lift else ''}: {what}"


def code(rule: str, lift: int) -> str:
    """Return the same in PyTorch, from ``scores``."""
    lines = ["mask = torch.tensor([True, True, True, False, False])"]
    if lift:
        lines.append(f"scores = scores {'+' if lift > 0 else '-'} {abs(lift)} * ~mask  # of <pad>")
    if rule.startswith("before"):
        fill = "-torch.inf" if rule.endswith("inf") else "0.0"
        lines.append(f"scores = scores.masked_fill(~mask, {fill})")
    lines.append("weights = scores.softmax(dim=-1)")
    if rule == "after: 0":
        lines.append("weights = weights * mask")
    return "\n".join(lines)
