"""What keeps weight away from padding: a score of -inf, and not a 0, early or late."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.attention import attention_weights
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import Choice, Question, Slider
from attnlab.explorers._panels import Bars, Heatmap, how_to_read, stacked

TOKENS = ("The", "cat", "sat", "<pad>", "<pad>")
WORDS = 3  # the tokens after them are padding
SPOKEN_OF = 1  # "cat"
SCORE_SEED = 42
RULES = {
    "no mask": "no mask",
    "before: -inf": "−∞ before",
    "before: 0": "0 before",
    "after: 0": "0 after",
}
LIFTS = {-4: "−4", -2: "−2", 0: "0", 2: "+2", 4: "+4", 6: "+6"}


class AfterSoftmaxResult(NamedTuple):
    """Weights under one rule, and where the weight of every row goes."""

    weights: Tensor  # (5, 5): queries down, keys across
    on_words: Tensor  # (5,): what each row gives to words
    on_padding: Tensor  # (5,): what each row gives to padding
    row_sums: Tensor  # (5,): both together


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


class AfterSoftmaxExplorer(Explorer):
    """Five tokens, two of them padding, and four rules for their scores and weights.

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

    figsize = (8.2, 4.2)
    title = "Block before the softmax, or after?"
    hint = (
        "The scores of these five tokens are random, and the last two tokens are padding. Choose a "
        "rule, and then change the scores of <pad>."
    )
    code_title = "The same in PyTorch (True = may attend)"
    rule = Choice("no mask", RULES, label="rule")
    lift = Slider(
        0,
        LIFTS,
        label="add to <pad>",
        spoken="added to the scores of <pad>",
        presets=(-4, 0, 6),
        width=96,
    )
    panels = (
        Heatmap("weights", "weights", rows=TOKENS, columns=TOKENS, sum_title="sum", sum_width=6),
        stacked(
            Bars(
                "shares",
                "where the weight of each row goes",
                caption="Sum of the weights of each row, on words and on padding",
                head="query",
                names=TOKENS,
                digits=3,
                marked=True,
                filled="on words",
                hatched="on <pad>",
            ),
            how_to_read(
                ("blocked", "padding without weight"),
                ("leak", "padding that takes weight"),
            ),
        ),
    )

    @property
    def prediction(self) -> Question:
        """Ask which rule leaves most of the weight on padding."""
        word = f"“{TOKENS[SPOKEN_OF]}”"
        zero, none = (
            f"{apply_rule(rule, 0).on_padding[SPOKEN_OF]:.3f}" for rule in ("before: 0", "no mask")
        )
        late = f"{apply_rule('after: 0', 0).row_sums[SPOKEN_OF]:.3f}"
        return Question(
            ask=f"under which rule does {word} put the most weight on <pad>?",
            then="Now try all four rules.",
            options=("no mask", "−∞ before the softmax", "0 before", "0 after"),
            right=2,
            why=f"With 0 before the softmax, {word} puts {zero} of its weight on <pad>, against "
            f"{none} without a mask, because 0 is a score like any other, and e⁰ = 1. With −∞ it "
            "puts nothing there. With 0 after the softmax it puts nothing there either, but its "
            f"row adds up to only {late}.",
            settled=({"rule": ["before: 0"], "lift": [0]},),
        )

    @property
    def result(self) -> AfterSoftmaxResult:
        """Weights and sums under this rule, by torch."""
        return apply_rule(self.rule, self.lift)

    def frame(self, rule: str, lift: int) -> dict[str, object]:
        """Return the weights, and where those of each row go."""
        weights, words, padding, sums = apply_rule(rule, lift)
        good = sums.sub(1).abs() < 0.005
        looks = [
            ["" if j < WORDS else "leak" if weight else "blocked" for j, weight in enumerate(row)]
            for row in weights.tolist()
        ]
        return {
            "say": sentence(rule, lift),
            "bad": rule != "before: -inf",
            "code": code(rule, lift),
            "weights": {
                "cells": weights,
                "looks": looks,
                "sums": [
                    ("✓ 1" if fine else f"✗ {total:.3f}", fine)
                    for total, fine in zip(sums.tolist(), good.tolist(), strict=True)
                ],
            },
            "shares": {
                "weights": words,
                "rest": padding,
                "marks": [f"{share:.3f}" for share in padding.tolist()],
            },
        }


# --- words ----------------------------------------------------------------------------------------

NAMES = {
    "no mask": "No mask",
    "before: -inf": "−∞ before the softmax",
    "before: 0": "0 before the softmax",
    "after: 0": "0 after the softmax",
}


def sentence(rule: str, lift: int) -> str:
    """Return what a rule does to the row sums and to the weight on padding."""
    raised = f", with the scores of <pad> {'raised' if lift > 0 else 'lowered'} by {abs(lift)}"
    result, word = apply_rule(rule, lift), f"“{TOKENS[SPOKEN_OF]}”"
    leak = result.on_padding[SPOKEN_OF].item()
    if rule == "no mask":
        what = f"every row adds up to 1, and {word} puts {leak:.3f} of its weight on <pad>."
    elif rule == "before: -inf":
        what = "every row adds up to 1 and puts nothing on <pad>, whatever the scores of <pad> are."
    elif rule == "before: 0":
        bare = apply_rule("no mask", lift).on_padding[SPOKEN_OF].item()
        what = (
            f"every row adds up to 1, but {word} puts {leak:.3f} of its weight on <pad>, "
            f"{'more' if leak > bare else 'less'} than the {bare:.3f} without a mask, because 0 is "
            "a score like any other."
        )
    else:
        low, high = (extreme.item() for extreme in result.row_sums.aminmax())
        what = (
            f"no weight is left on <pad>, but the sums of the rows are only {low:.3f} to "
            f"{high:.3f} ({result.row_sums[SPOKEN_OF]:.3f} for {word}), because the share of <pad> "
            "is lost."
        )
    return f"**{NAMES[rule]}**{raised if lift else ''}: {what}"


def code(rule: str, lift: int) -> str:
    """Return the same in PyTorch, from ``scores``."""
    lines = ["mask = torch.tensor([True, True, True, False, False])"]
    if lift:
        lines.append(f"scores = scores {'+' if lift > 0 else '-'} {abs(lift)} * ~mask  # at <pad>")
    if rule.startswith("before"):
        fill = "-torch.inf" if rule.endswith("inf") else "0.0"
        lines.append(f"scores = scores.masked_fill(~mask, {fill})")
    lines.append("weights = scores.softmax(dim=-1)")
    if rule == "after: 0":
        lines.append("weights = weights * mask")
    return "\n".join(lines)
