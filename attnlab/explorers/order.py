"""Without positions, attention treats a sentence as a bag of words."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.attention import scaled_dot_product_attention
from attnlab.checks import as_integer, short
from attnlab.display.table import load_table
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.bundle import numbers
from attnlab.explorers.frame.controls import Button, Choice, State, check_items
from attnlab.explorers.frame.panels import Heatmap
from attnlab.explorers.frame.words import FEATURES, TABLE, TOKENS, texts_beside

COUNT = len(TOKENS)
WRITTEN = tuple(range(COUNT))
SHUFFLES = ((4, 5, 2, 3, 0, 1), (1, 2, 0, 4, 5, 3), (1, 0, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0))
POSITION_SEED, POSITION_SIZE = 0, 0.5
SAME = 1e-4  # an output that moves less far is called the same
OUTPUTS = {"columns": FEATURES, "scale": (-0.8, 1.6), "measure": "output"}

WORDS = texts_beside(__file__)["words"]


class OrderResult(NamedTuple):
    """Outputs of self-attention on a sentence as written and in another order."""

    before: Tensor  # (6, 5): outputs, words as written
    after: Tensor  # (6, 5): outputs, words in the new order
    moved: Tensor  # (6,): distance between the two outputs of a word, in the new order


def _order(name: str, value: object, _explorer: OrderExplorer) -> tuple[int, ...]:
    """Check an order of the words."""
    check_items(name, value, "be a list of places")
    order = [as_integer(place) for place in value]
    if None in order or sorted(order) != list(range(COUNT)):
        raise ValueError(
            f"{name} must hold each of 0 to {COUNT - 1} once, as integers, got {short(value)}."
        )
    return tuple(order)


class OrderExplorer(Explorer):
    """Outputs of self-attention before and after a shuffle of the words.

    Parameters
    ----------
    **state
        ``order``: which word of "The cat sat on the mat" stands first, second, ... ``positions``:
        whether a vector for its place is added to each word. ``ask`` and ``large``, as in
        ``Explorer``.

    See Also
    --------
    attnlab.scaled_dot_product_attention : computes the outputs.
    """

    module = "order"
    figsize = (9.2, 3.9)
    order = State(WRITTEN, _order)
    positions = Choice(False, {False: "off", True: "on"}, label="positions")
    back = Button("As written", order=WRITTEN)
    panels = (
        Heatmap(
            key="before",
            title="Output before",
            under="a row is the output of a word, a column a feature",
            caption="Output before",
            rows=TOKENS,
            **OUTPUTS,
        ),
        Heatmap(
            key="after",
            title="Output after",
            under="“= 0”: the same vector as before, wherever it is now",
            caption="Output after",
            rows=TOKENS,
            sum_title="change",
            sum_width=5.6,
            **OUTPUTS,
        ),
    )

    @property
    def result(self) -> OrderResult:
        """Outputs before and after, by torch in double precision."""
        words, places = _vectors()
        shift = places * self.positions
        before = _attend(words + shift)
        after = _attend(words[list(self.order)] + shift)
        return OrderResult(before, after, (after - before[list(self.order)]).norm(dim=-1))

    def make_data(self) -> dict[str, object]:
        """Return words, vectors, and the sum of every word with every place."""
        words, places = _vectors()
        return {
            "tokens": TOKENS,
            "words": WORDS,
            "vectors": numbers(words, 8),
            "placed": numbers(words[:, None] + places, 8),  # (word, place, feature)
            "shuffles": SHUFFLES,
            "same": SAME,
        }

    def frame_now(self) -> dict[str, object]:
        """Return both tables of outputs."""
        before, after, _ = self.result
        rows = [TOKENS[word] for word in self.order]
        return {"before": {"cells": before}, "after": {"cells": after, "rows": rows}}

    def say_rich(self) -> str:
        """Return how many outputs the shuffle has changed."""
        if self.order == WRITTEN:
            return WORDS["written"]
        if not self.positions:
            return WORDS["unmoved"]
        moved = self.result.moved
        most = int((moved > moved.max() - 1e-6).nonzero()[0])  # of equals the first
        changed, word = int((moved > SAME).sum()), TOKENS[self.order[most]]
        return WORDS["moved"].format(changed=changed, word=word, far=f"{moved[most]:.2f}")


def _vectors() -> tuple[Tensor, Tensor]:
    """Return the vectors of the words and those of the places, both (6, 5)."""
    words = load_table(TABLE).values
    generator = torch.Generator().manual_seed(POSITION_SEED)
    places = POSITION_SIZE * torch.randn(words.shape, generator=generator)
    return words.double(), places.double()


def _attend(x: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x)
