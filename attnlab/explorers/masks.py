"""Who may look at whom, and what happens to a query that may look at nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import attention_weights
from attnlab.explorers import _learner
from attnlab.explorers._controls import Button, Choice, Question
from attnlab.explorers._masked import MaskedSentence, MaskResult, empty_rows
from attnlab.explorers._page import sendable
from attnlab.explorers._words import TOKENS, listed

FILLS = {"-inf": "−∞", "-1e9": "−1e9", "attnlab": "attnlab’s rule"}
SCORE_SEED, SCORE_SPREAD = 3, 1.3


class MaskExplorer(MaskedSentence):
    """Masks of one sentence: click cells and words, choose what blocked scores become.

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
    title = "Who may look at whom?"
    hint = (
        "Each row is a query, and each column is a key. Click a cell to allow or to block it, or "
        "click a word to turn it into padding."
    )

    code_title = "The same in PyTorch (True = may attend)"
    fill = Choice("-inf", FILLS, label="blocked score")
    reset = Button("Reset", padding=(), toggled=())

    def __init__(
        self,
        tokens: Sequence[str] = TOKENS,
        *,
        function: Callable[[Tensor, Tensor], Tensor] | None = None,
        **options: object,
    ) -> None:
        super().__init__(tokens, function, options)

    def _prepare(self, count: int) -> None:
        generator = torch.Generator().manual_seed(SCORE_SEED)
        drawn = torch.randn(count, count, generator=generator, dtype=torch.float64)
        self.scores = (drawn * SCORE_SPREAD).round(decimals=2).float()

    @property
    def prediction(self) -> Question:
        """Ask which row sees nothing."""
        token = self.tokens[0]
        return Question(
            ask=f"the mask is causal, and “{token}” becomes padding. Which row sees nothing?",
            then=f"Now make “{token}” padding under the causal mask.",
            options=("no row", f"“{token}” (row 0)", "every row"),
            right=1,
            why="Row 0 could look only at itself, and now it may not even do that. Every later row "
            "may still look at itself.",
        )

    @property
    def result(self) -> MaskResult:
        """Weights, mask and rows without a key, by torch, whatever the learner's function says."""
        mask = self._make_mask()
        if self.fill == "attnlab":
            weights = attention_weights(self.scores, attn_mask=mask)
        else:
            weights = self.scores.masked_fill(~mask, float(self.fill)).softmax(dim=-1)
        return MaskResult(weights, mask, empty_rows(mask))

    def run_function(self, function: Callable[[Tensor, Tensor], Tensor]) -> dict[str, object]:
        """Return the weights that the learner's function computes, checked."""
        weights = function(self.scores.clone(), self._make_mask())
        checked = _learner.checked_weights(weights, tuple(self.scores.shape), function)
        return {"weights": sendable(checked)}

    def make_data(self) -> dict[str, object]:
        """Return tokens, scores, words and lines of code."""
        return self._data_with(sendable(self.scores), WORDS, CODE)

    def draw(self, fig: Figure) -> None:
        """Draw the weights; blocked cells are hatched, NaN is crossed."""
        kind = (
            f"causal window of width {self.window}\n" if self.mask == "window" else f"{self.mask}, "
        )
        self._draw_weights(fig.subplots(), f"mask: {kind}blocked scores: {self.fill}")

    def say_rich(self) -> str:
        """Return which queries see nothing, and what becomes of them."""
        if self.answer:
            return self._say_of_function()
        empty = self.result.empty_rows
        if not empty:
            return WORDS["full"]
        names = listed([self._name_of_row(row) for row in empty])
        if len(empty) == len(self.tokens):
            names = WORDS["every"]
        return WORDS["empty"].format(names=names, what=WORDS["what happens"][self.fill])


WORDS = {
    "full": "Every query may attend to at least one key, and every row of weights adds up to 1.",
    "empty": "{names} may attend to nothing. {what}",
    "every": "**All queries**",
    "what happens": {
        "-inf": "The softmax of −∞ alone is 0/0, which gives **NaN**, and the NaN spreads to "
        "everything that is computed from it.",
        "-1e9": "All scores are equal, so **each key gets the same weight**, blocked or not. "
        "The result is wrong, but no error is raised.",
        "attnlab": "The weights are set to **0**, so the output is 0 as well. "
        "attnlab.scaled_dot_product_attention does the same.",
    },
}
SOFTMAX = "weights = scores.softmax(dim=-1)"
CODE = {
    "-inf": f"scores = scores.masked_fill(~mask, -torch.inf)\n{SOFTMAX}",
    "-1e9": f"scores = scores.masked_fill(~mask, -1e9)\n{SOFTMAX}",
    "attnlab": f"scores = scores.masked_fill(~mask, -torch.inf)\n{SOFTMAX}\n"
    "weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0)",
    "function": "weights = {name}(scores, mask)",
}
