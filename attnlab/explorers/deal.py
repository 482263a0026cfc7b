"""Two ways to split features into heads and two ways to merge them, played with cards."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attnlab import palette
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice
from attnlab.explorers.frame.panels import Panel, how_to_read, stacked
from attnlab.explorers.frame.words import listed

TOKENS = ("cat", "dog", "owl", "fox", "bat", "?")  # five entries and the question of lesson 7
COUNT, WIDTH = len(TOKENS), 32
HEADS = (1, 2, 4)
DEAL, CUT, COLLECT, PILE = "deal", "cut", "collect", "pile"
NUMBERS = 8  # of what is recorded for an animal, all equally likely


class DealResult(NamedTuple):
    """Where the cards are; a card is named by its place in memory, token * H + part."""

    hands: Tensor  # (H, 6): the cards of each head, one for each of its places
    output: Tensor  # (6, H): which averages each token gets, by the card of the query
    heard: Tensor  # (6, H, 6): True where such an average is over a token
    wrong_hands: Tensor  # (H, 6): True where place t of head h does not hold part h of token t
    wrong_output: Tensor  # (6, H): True where part h of t is not for t, or not over all


def move(split: str, merge: str, heads: int) -> DealResult:
    """Return where torch puts the cards."""
    deck = torch.arange(COUNT * heads)
    dealt = deck.view(COUNT, heads).T
    hands = dealt if split == DEAL else deck.view(heads, COUNT)
    places = deck.view(heads, COUNT)  # in the order of the averages: head by head
    order = places.T if merge == COLLECT else places.reshape(COUNT, heads)
    output = hands.flatten()[order]
    heads_tokens = torch.zeros(heads, COUNT, dtype=torch.bool)
    heads_tokens.scatter_(1, hands // heads, True)
    heard = heads_tokens[order // COUNT]
    wrong_output = (output != deck.view(COUNT, heads)) | ~heard.all(dim=-1)
    return DealResult(hands, output, heard, hands != dealt, wrong_output)


def best_share(heard: Tensor) -> float:
    """Return how often both numbers can be named by who has heard some of the six tokens.

    Two of the five entries are asked for, each pair equally often. A number that was not heard can
    only be guessed.
    """
    guesses = [1 if known else 1 / NUMBERS for known in heard[:-1].tolist()]
    pairs = [one * other for one, other in combinations(guesses, 2)]
    return sum(pairs) / len(pairs)


class DealExplorer(Explorer):
    """Six tokens with 32 features, split into heads and merged, each step in two ways.

    Parameters
    ----------
    **state
        ``split``: "deal", ``view`` and then ``transpose``, or "cut", ``view`` alone. ``merge``:
        "collect", ``transpose`` and then ``flatten``, or "pile", ``reshape`` alone. ``heads``: 1, 2
        or 4. ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.split_heads, attnlab.merge_heads : deal and collect.
    """

    figsize = (7.5, 3.1)
    split = Choice(DEAL, (DEAL, CUT), label="split")
    merge = Choice(COLLECT, (COLLECT, PILE), label="merge")
    heads = Choice(2, HEADS, label="heads")
    panels = (
        stacked(
            Panel("cards", kind="deal"),
            how_to_read(
                ("ear", "in this average: cat, dog, owl, fox, bat, ?"),
                ("crossed", "not what belongs here"),
            ),
        ),
    )

    @property
    def result(self) -> DealResult:
        """Where the cards are in the heads and in the output, by torch."""
        return move(self.split, self.merge, self.heads)

    def frame(self, heads: int, merge: str, split: str) -> dict[str, object]:
        """Return the cards at one state."""
        result = move(split, merge, heads)
        return {
            "say": sentence(result, heads),
            "bad": bool(result.wrong_output.any()),
            "code": code(split, merge, heads),
            "cards": {
                "tokens": TOKENS,
                "deck": [card(place, heads) for place in range(COUNT * heads)],
                "hands": result.hands,
                "wrong_hands": result.wrong_hands,
                "asked": [[TOKENS[one // heads] for one in row] for row in result.output.T],
                "heard": result.heard.transpose(0, 1),
                "wrong_output": result.wrong_output.T,
                "parts": [part(head, heads) for head in range(heads)],
            },
        }

    def draw(self, fig: Figure) -> None:
        """Draw the hands on the left and the output on the right."""
        cards = self.frame_now()["cards"]
        left, right = fig.subplots(1, 2)
        heads = [f"head {head}" for head in range(self.heads)]
        hands = [[cards["deck"][one] for one in row] for row in cards["hands"].tolist()]
        _draw_cards(left, "In the heads", hands, cards["wrong_hands"], heads, range(COUNT))
        _draw_cards(
            *(right, "Output: whose averages", cards["asked"], cards["wrong_output"]),
            *(cards["parts"], TOKENS, cards["heard"]),
        )


def card(place: int, heads: int) -> str:
    """Return the name of a card: its token and which part of its features."""
    return f"{TOKENS[place // heads]}·{place % heads}"


def part(head: int, heads: int) -> str:
    """Return which features of an output a head should fill."""
    size = WIDTH // heads
    return f"{head * size}–{(head + 1) * size - 1}"


# --- words ----------------------------------------------------------------------------------------


def sentence(result: DealResult, heads: int) -> str:
    """Return what the question's output holds; words between two stars are bold."""
    if heads == 1:
        return "**With one head there is nothing to deal.** All four ways agree."
    back = torch.equal(result.output.flatten(), torch.arange(COUNT * heads))
    trip = "The round trip gives x again" if back else "The round trip does not give x"
    asked = [*map(spoken, (result.output[-1] // heads).unique().tolist())]
    heard = result.heard[-1]  # (H, 6)
    if not result.wrong_output.any():
        return (
            f"{trip}. Each output holds **{heads} averages for its own queries**, and each of them "
            "is over all six tokens."
        )
    if asked == ["the question"]:
        known = [TOKENS[i] for i in range(COUNT - 1) if heard[:, i].any()]
        share = best_share(heard.any(dim=0))
        return (
            f"{trip}. But **the question has heard only {listed([*known, 'itself'])}**, so no "
            f"training can name both numbers in more than {share:.0%} of the lists."
        )
    whose = f"**the output of the question holds averages for the queries of {listed(asked)}**"
    if heard.all():
        return f"{trip}. Every average is over all six tokens, but {whose}."
    most = heard.sum(dim=-1).max().item()
    return f"{trip}. Here {whose}, and none of them is over more than {most} tokens."


def spoken(token: int) -> str:
    """Return what a token is called in a sentence."""
    return "the question" if TOKENS[token] == "?" else TOKENS[token]


def code(split: str, merge: str, heads: int) -> str:
    """Return the lines of PyTorch, for x of shape (N, 6, 32)."""
    size = WIDTH // heads
    cut = f"x.view(N, {heads}, {COUNT}, {size})"
    dealt = f"x.view(N, {COUNT}, {heads}, {size}).transpose(1, 2)"
    collected = f"averages.transpose(1, 2).reshape(N, {COUNT}, {WIDTH})"
    piled = f"averages.reshape(N, {COUNT}, {WIDTH})"
    return (
        f"heads = {dealt if split == DEAL else cut}\n"
        "averages = F.scaled_dot_product_attention(heads, heads, heads)\n"
        f"output = {collected if merge == COLLECT else piled}"
    )


# --- the still picture ----------------------------------------------------------------------------


def _draw_cards(
    ax: Axes,
    title: str,
    texts: list[list[str]],
    wrong: Tensor,
    rows: object,
    columns: object,
    heard: Tensor | None = None,
) -> None:
    middle = {"ha": "center", "va": "center"}
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            frame = {"facecolor": "white", "edgecolor": palette.LINE, "linewidth": 1.2}
            ax.add_patch(Rectangle((j + 0.04, i + 0.06), 0.92, 0.88, **frame))
            up = 0.5 if heard is None else 0.38
            ax.text(j + 0.5, i + up, text, fontsize=10.5, **middle)
            ax.text(j + 0.86, i + 0.18, "✗" if wrong[i, j] else "", fontsize=9, **middle)
            for k in range(COUNT if heard is not None else 0):
                colour = palette.BLUE if heard[i, j, k] else "white"
                look = {"facecolor": colour, "edgecolor": palette.MUTED, "linewidth": 0.5}
                ax.add_patch(Rectangle((j + 0.13 + 0.125 * k, i + 0.62), 0.115, 0.2, **look))
    ax.set(xlim=(0, COUNT), ylim=(len(texts), 0))
    ax.set_title(title, pad=22)  # above the names of the columns
    ax.set_xticks([j + 0.5 for j in range(COUNT)], columns)
    ax.set_yticks([i + 0.5 for i in range(len(texts))], rows)
    ax.tick_params(length=0)
    ax.xaxis.tick_top()
    ax.spines[:].set_visible(False)
