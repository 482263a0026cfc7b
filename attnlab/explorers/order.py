"""Explorer 12: without positions, attention takes a sentence for a bag of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import scaled_dot_product_attention
from attnlab.data import load_table
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import State, flag
from attnlab.explorers._page import numbers, short
from attnlab.plotting import plot_attention

TABLE = "the_cat_sat_on_the_mat.csv"
COUNT = 6  # of words
SHUFFLES = ((4, 5, 2, 3, 0, 1), (1, 2, 0, 4, 5, 3), (1, 0, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0))
POSITION_SEED, POSITION_SIZE = 0, 0.5
SAME = 1e-4  # an output that moves less far is called the same
LOWEST, HIGHEST = -0.8, 1.6  # of the colours


class OrderResult(NamedTuple):
    """Outputs of self-attention on a sentence as written and in another order.

    Attributes
    ----------
    before : Tensor, shape (6, 5)
        Outputs, words as written.
    after : Tensor, shape (6, 5)
        Outputs, words in the new order.
    moved : Tensor, shape (6,)
        Distance between the two outputs of a word, in the new order.
    """

    before: Tensor
    after: Tensor
    moved: Tensor


def _order(name: str, value: object, _explorer: OrderExplorer) -> tuple[int, ...]:
    """Check an order of the words."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a list of places, got {short(value)}.")
    whole = all(isinstance(one, int) and not isinstance(one, bool) for one in value)
    if not whole or sorted(value) != list(range(COUNT)):
        raise ValueError(
            f"{name} must hold each of 0 to {COUNT - 1} once, as integers, got {short(value)}."
        )
    return tuple(value)


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

    order = State(SHUFFLES[0], _order)
    positions = State(False, flag)

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
        table = load_table(TABLE)
        words, places = _vectors()
        return {
            "tokens": table.tokens,
            "features": table.features,
            "words": numbers(words, 8),
            "placed": numbers(words[:, None] + places, 8),  # (word, place, feature)
            "shuffles": SHUFFLES,
            "same": SAME,
            "range": (LOWEST, HIGHEST),
        }

    def draw(self, fig: Figure) -> None:
        """Draw the outputs before and after."""
        result, table = self.result, load_table(TABLE)
        shuffled = [table.tokens[word] for word in self.order]
        pairs = (("before", table.tokens, result.before), ("after", shuffled, result.after))
        for ax, (name, words, outputs) in zip(fig.subplots(1, 2), pairs, strict=True):
            look = {"queries": words, "keys": table.features, "vmin": LOWEST, "vmax": HIGHEST}
            plot_attention(outputs, ax=ax, title=f"output, {name}", **look)
            ax.set(xlabel="", ylabel="", aspect="auto")

    def say(self) -> str:
        """Return how many outputs the shuffle has changed."""
        if self.order == tuple(range(COUNT)):
            return "The words stand as written, so before and after are the same. Shuffle them."
        moved = self.result.moved
        changed = int((moved > SAME).sum())
        if not self.positions:
            return (
                "Another order, and no output has changed: each moved along with its word. "
                "Without positions, attention takes the sentence for a bag of words."
            )
        most = int((moved > moved.max() - 1e-6).nonzero()[0])  # of equals the first
        word = load_table(TABLE).tokens[self.order[most]]
        return (
            f"With positions, {changed} of {COUNT} outputs have changed, that of “{word}” most, "
            f"by {moved[most]:.2f}. Now the order counts."
        )


def _vectors() -> tuple[Tensor, Tensor]:
    """Return the vectors of the words and those of the places, both (6, 5)."""
    words = load_table(TABLE).values
    generator = torch.Generator().manual_seed(POSITION_SEED)
    places = POSITION_SIZE * torch.randn(words.shape, generator=generator)
    return words.double(), places.double()


def _attend(x: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x)
