"""Follow the two looks of a model that copies, and forge what the first of them wrote."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab import palette
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice, Picked
from attnlab.explorers.frame.words import decimals
from attnlab.models.looking_back import SYMBOLS, followers, load_looking_back, to_tokens

TEXT = "KQZBMTAR|QZB|TARKQ|MTA"
FORGED = 3  # the position of the B whose note can be exchanged
PARTNERS = (3, 4, 5, 6, 7)  # with whose: its own at first, which changes nothing
WIDEST = 14  # of the lines, in points of the still picture


class LookingBackResult(NamedTuple):
    """Two looks, from one token of the text and from the token that it looks at most."""

    second: Tensor  # (22,): weights of layer 1, from the token that is chosen
    target: int  # the position of the largest of them
    written: int  # the position at which the note of this token was written
    first: Tensor  # (22,): weights of layer 0, from there
    source: int  # the position of the largest of them
    guess: str  # the symbol that the model thinks most likely to come next
    chance: float  # how likely, from 0 to 1


@cache
def _looks(partner: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weights of both layers (L, L), and the chances of the symbols (L, 27)."""
    model = load_looking_back()
    tokens = to_tokens(TEXT)[None]
    x = model.symbol(tokens) + model.position.weight[: len(TEXT)]
    notes, first = model.layers[0](model.norms[0](x), is_causal=True)
    x = x + notes[:, _order(partner)]
    found, second = model.layers[1](model.norms[1](x), is_causal=True)
    chances = model.guess(model.last_norm(x + found)).softmax(dim=-1)
    return first[0, 0], second[0, 0], chances[0]


def _order(partner: int) -> Tensor:
    """Return at which position the note of each token was written."""
    order = torch.arange(len(TEXT))
    order[FORGED], order[partner] = partner, FORGED
    return order


@cache
def follow(partner: int, position: int) -> LookingBackResult:
    """Return both looks from one position."""
    first, second, chances = _looks(partner)
    target = int(second[position].argmax())
    written = int(_order(partner)[target])
    source = int(first[written].argmax())
    chance, symbol = chances[position].max(dim=-1)
    guess = SYMBOLS[int(symbol)]
    looks = second[position], target, written, first[written], source
    return LookingBackResult(*looks, guess, chance.item())


class LookingBackExplorer(Explorer):
    """Two looks of a model with two layers: choose a letter, follow them back, exchange two notes.

    Parameters
    ----------
    **state
        ``position``: 0 to 21, the token of the text that guesses what comes next. ``partner``: the
        position 3 to 7 whose note changes places with that of the B at 3; 3 leaves all as it is.
        ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.models.looking_back.load_looking_back : the model.
    """

    module = "looking_back"
    figsize = (6.6, 3.6)
    position = Picked(10, tuple(range(len(TEXT))))
    partner = Choice(
        FORGED,
        {at: f"B and {TEXT[at]}" if at != FORGED else "no notes" for at in PARTNERS},
        label="exchange",
    )

    @property
    def result(self) -> LookingBackResult:
        """Both looks, by the stored model."""
        return follow(self.partner, self.position)

    def make_data(self) -> dict[str, object]:
        """Return the frames, and the letters of the text."""
        return {**super().make_data(), "letters": list(TEXT), "rows": ROWS}

    def frame(self, position: int, partner: int) -> dict[str, object]:
        """Return both looks and what they lead to."""
        result = follow(partner, position)
        return {
            "say": sentence(partner, position),
            "bad": False,
            "code": code(partner, position),
            "looks": {
                "second": [round(weight, 3) for weight in result.second.tolist()],
                "target": result.target,
                "written": result.written,
                "first": [round(weight, 3) for weight in result.first.tolist()],
                "source": result.source,
            },
        }

    def draw(self, fig: Figure) -> None:
        """Draw the three rows of letters with the lines between them."""
        self._draw_looks(fig.subplots())

    def _draw_looks(self, ax: Axes) -> None:
        result = self.result
        looks = ((2, self.position, result.second), (1, result.written, result.first))
        line = {"color": palette.BLUE, "alpha": 0.55, "solid_capstyle": "butt"}
        for row, start, weights in looks:
            for position, weight in enumerate(weights.tolist()):
                ends = [start, position], [row - 0.16, row - 0.84]
                ax.plot(*ends, linewidth=WIDEST * weight, **line)
        marked = {2: self.position, 1: result.target, 0: result.source}
        for row, text in zip((2, 1, 0), ROWS, strict=True):
            x, side = (-0.5, "left") if row == 2 else (len(TEXT) - 0.5, "right")
            ax.text(x, row + 0.2, text, ha=side, fontsize=10, color=palette.INK)
            for position, letter in enumerate(TEXT):
                look = {"edgecolor": palette.ORANGE, "facecolor": "none", "pad": 2.5}
                box = look if marked[row] == position else None
                ax.text(position, row, letter, ha="center", va="center", fontsize=12.5, bbox=box)
        ax.set(xlim=(-1, len(TEXT)), ylim=(-0.3, 2.45))
        ax.set_axis_off()


ROWS = (
    "choose the letter from which to guess",
    "layer 1 looks from there to here",
    "its note was written by a look to here",
)

# --- words ----------------------------------------------------------------------------------------


def sentence(partner: int, position: int) -> str:
    """Return both looks in words, and the guess."""
    second, target, written, first, source, guess, chance = follow(partner, position)
    start = (
        f"From {_named(position)}, layer 1 attends most to {_named(target)}, with weight "
        f"{decimals(second[target].item())}."
    )
    looked = f"layer 0 attended most to {_named(source)} ({decimals(first[source].item())})."
    if written == target:
        start += f" From there, {looked}"
    else:
        start += f" It carries the note of {_named(written)}, from where {looked}"
    rows = followers(to_tokens(TEXT)[None])[0, position].nonzero().flatten().tolist()
    told = f"The model guesses **{guess}** with probability {decimals(chance)}"
    if not rows:
        return f"{start} {told}. No letter has followed {_letter(position)} yet, so it cannot know."
    letter = TEXT[rows[0]]
    verdict = "which is correct" if guess == letter else f"but {letter} would be correct"
    return f"{start} {told}, {verdict}."


def _letter(position: int) -> str:
    return "a bar" if TEXT[position] == "|" else TEXT[position]


def _named(position: int) -> str:
    return f"the {'bar' if TEXT[position] == '|' else TEXT[position]} at position {position}"


def code(partner: int, position: int) -> str:
    """Return the lines of PyTorch."""
    forge = f"notes[:, [{FORGED}, {partner}]] = notes[:, [{partner}, {FORGED}]]\n"
    return (
        f'tokens = to_tokens("{TEXT}")[None]  # (1, {len(TEXT)})\n'
        f"x = model.symbol(tokens) + model.position.weight[:{len(TEXT)}]\n"
        "notes, first = model.layers[0](model.norms[0](x), is_causal=True)\n"
        f"{forge if partner != FORGED else ''}"
        "x = x + notes\n"
        "found, second = model.layers[1](model.norms[1](x), is_causal=True)\n"
        f"target = second[0, 0, {position}].argmax()  # where layer 1 looks from {position}\n"
        f"guess = SYMBOLS[model.guess(model.last_norm(x + found))[0, {position}].argmax()]"
    )
