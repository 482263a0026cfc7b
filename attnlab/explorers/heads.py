"""Explorer 10: where every number goes when features are split into heads."""

from __future__ import annotations

from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import State, one_of
from attnlab.heads import split_heads

TOKENS, FEATURES = 4, 6
HEADS = (1, 2, 3, 6)
RIGHT, SHORT_CUT = WAYS = ("right", "short cut")
STEPS = ("x", "view", "transpose", "scores", "merge")
COLOURS = ListedColormap(["#cfe3f5", "#fbdcb8", "#d3ebc9", "#e7d3ee"])  # of the tokens
CROSS_COLOUR = "#b04600"


class HeadsResult(NamedTuple):
    """Numbers that carry their names, 100 * token + 10 * head + feature, after split and merge.

    Attributes
    ----------
    heads : Tensor, shape (H, 4, head_dim)
        What stands in the heads.
    merged : Tensor, shape (4, 6)
        What comes back.
    wrong_rows : Tensor of bool, shape (H, 4)
        True where a row of the heads does not hold its token's numbers of this head.
    wrong_scores : Tensor of bool, shape (H, 4, 4)
        True where the score of two rows has a wrong row in it.
    """

    heads: Tensor
    merged: Tensor
    wrong_rows: Tensor
    wrong_scores: Tensor


class Places(NamedTuple):
    """The place in memory of each number, laid out as torch lays the numbers out."""

    x: Tensor  # (4, 6)
    cut: Tensor  # (4, H, head_dim), with the short cut (H, 4, head_dim)
    heads: Tensor  # (H, 4, head_dim)
    merged: Tensor  # (4, 6)


class HeadsExplorer(Explorer):
    """Four tokens with six features, split into heads and merged again, step by step.

    Parameters
    ----------
    **state
        ``heads``: 1, 2, 3 or 6. ``way``: "right", ``view`` and then ``transpose``, or "short cut",
        ``view`` alone, there and back. ``step``: "x", "view", "transpose", "scores" or "merge".
        ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.split_heads, attnlab.merge_heads : the right way.
    """

    module = "heads"
    figsize = (7.5, 2.6)

    heads = State(3, one_of(*HEADS))
    way = State(RIGHT, one_of(*WAYS))
    step = State("x", one_of(*STEPS))

    @property
    def result(self) -> HeadsResult:
        """Where the numbers stand in the heads and after the merge, by torch."""
        return move(self.heads, self.way)

    def make_data(self) -> dict[str, object]:
        """Return names, pictures, sentences and code of every state."""
        states = [(heads, way) for heads in HEADS for way in WAYS]
        return {
            "heads": list(HEADS),
            "steps": list(STEPS),
            "names": {str(heads): _texts(named(heads).flatten()) for heads in HEADS},
            "frames": {
                f"{heads} {way}": {step: frame(heads, way, step) for step in STEPS}
                for heads, way in states
            },
            "code": {f"{heads} {way}": code(heads, way) for heads, way in states},
        }

    def draw(self, fig: Figure) -> None:
        """Draw one table per token or per head; wrong cells are crossed."""
        shown = frame(self.heads, self.way, self.step)
        tables, wrong = torch.tensor(shown["tables"]), torch.tensor(shown["wrong"])
        if self.step == "scores":  # (H, 4, 4, 2): tokens of query and key
            texts = [[[f"{i}·{j}" for i, j in row] for row in table] for table in tables.tolist()]
            tokens = tables[..., 1]
        else:
            names = named(self.heads).flatten()[tables]
            texts, tokens = _texts(names), names // 100
            wrong = wrong.unsqueeze(-1).expand(tables.shape)
        count = len(tables)
        across = min(count, 12 // tokens.shape[-1])
        axes = fig.subplots(count // across, across, squeeze=False).flat
        whole = self.step in ("x", "merge")
        for i, ax in enumerate(axes):
            title = shown["title"] if whole else f"{shown['title']} {i}"
            _draw_table(ax, tokens[i], texts[i], wrong[i], title)

    def say(self) -> str:
        """Return what this step does, and how many rows or scores are wrong."""
        return sentence(self.heads, self.way, self.step).replace("**", "")


# --- where the numbers go -------------------------------------------------------------------------


def named(heads: int) -> Tensor:
    """Return numbers 100 * token + 10 * head + feature: (4, 6)."""
    token, head = torch.arange(TOKENS).view(-1, 1, 1), torch.arange(heads).view(-1, 1)
    return (100 * token + 10 * head + torch.arange(FEATURES // heads)).flatten(1)


def places(heads: int, way: str) -> Places:
    """Return where the numbers of ``x`` stand at every step."""
    head_dim = FEATURES // heads
    x = torch.arange(TOKENS * FEATURES).view(TOKENS, FEATURES)
    if way == SHORT_CUT:
        split = x.view(heads, TOKENS, head_dim)
        return Places(x, split, split, split.view(TOKENS, FEATURES))
    cut = x.view(TOKENS, heads, head_dim)
    split = cut.transpose(0, 1)
    return Places(x, cut, split, split.transpose(0, 1).reshape(TOKENS, FEATURES))


def move(heads: int, way: str) -> HeadsResult:
    """Return the named numbers after split and merge, compared with ``attnlab.split_heads``."""
    names, at = named(heads), places(heads, way)
    split, merged = names.flatten()[at.heads], names.flatten()[at.merged]
    wrong = (split != split_heads(names, heads)).any(dim=-1)
    return HeadsResult(split, merged, wrong, wrong.unsqueeze(2) | wrong.unsqueeze(1))


def frame(heads: int, way: str, step: str) -> dict[str, object]:
    """Return the picture of a state.

    ``tables`` holds the place in memory of each number, for scores the tokens of query and key;
    ``wrong`` has one entry per row, for scores one per cell.
    """
    at, result = places(heads, way), move(heads, way)
    words = {"title": "head", "row": "token", "say": sentence(heads, way, step)}
    if step == "scores":
        token = result.heads[..., 0] // 100  # (H, 4): whose numbers a row holds
        pairs = torch.stack(
            [token.unsqueeze(2).expand(-1, -1, TOKENS), token.unsqueeze(1).expand(-1, TOKENS, -1)],
            dim=-1,
        )
        return {**words, "tables": pairs.tolist(), "wrong": result.wrong_scores.tolist()}
    if step in ("x", "merge"):
        tables = (at.x if step == "x" else at.merged).unsqueeze(0)
        right = tables.eq(at.x).all(dim=-1)
        title = "x" if step == "x" else "merged"
        return {**words, "title": title, "tables": tables.tolist(), "wrong": (~right).tolist()}
    if step == "view" and way == RIGHT:
        right = torch.zeros(TOKENS, heads, dtype=torch.bool)
        words |= {"title": "token", "row": "head"}
        return {**words, "tables": at.cut.tolist(), "wrong": right.tolist()}
    return {**words, "tables": at.heads.tolist(), "wrong": result.wrong_rows.tolist()}


# --- words ----------------------------------------------------------------------------------------


def sentence(heads: int, way: str, step: str) -> str:
    """Return what is seen; the words between two stars are bold."""
    if step == "x":
        return (
            f"**{TOKENS} tokens with {FEATURES} features each**, shape ({TOKENS}, {FEATURES}). The "
            f"first digit of a number names its token, the second the head it is to go to."
        )
    if way == SHORT_CUT:
        return _say_short_cut(heads, step)
    head_dim, rows = FEATURES // heads, TOKENS * heads
    slices = f"{_count(heads, 'slice')} of {head_dim}"
    return {
        "view": f"view cuts the {FEATURES} features of each token into **{slices}**: one table per "
        f"token, and nothing is mixed yet.",
        "transpose": f"transpose brings the heads to the front. Row t of every head belongs to "
        f"token t: **all {rows} rows are right**.",
        "scores": f"Row i, column j of a head compares token i with token j, by "
        f"{_count(head_dim, 'feature')} of each: **all {rows * TOKENS} scores are right**.",
        "merge": f"Transpose back, then join: **all {TOKENS} rows are what they were** before the "
        "split.",
    }[step]


def _say_short_cut(heads: int, step: str) -> str:
    result, head_dim = move(heads, SHORT_CUT), FEATURES // heads
    rows = f"{result.wrong_rows.sum()} of {result.wrong_rows.numel()} rows"
    scores = f"{result.wrong_scores.sum()} of {result.wrong_scores.numel()} scores"
    seen = [str(token) for token in (result.heads[0] // 100).unique().tolist()]
    whose = f"token {seen[0]}" if len(seen) == 1 else f"tokens {' and '.join(seen)}"
    left_out = (
        f"The short cut has no transpose: the shape is ({heads}, {TOKENS}, {head_dim}) as it is"
    )
    if heads == 1:
        nothing = "**With one head there is nothing to scramble.**"
        return f"{left_out}. {nothing}" if step == "transpose" else f"{nothing} {_ALL_RIGHT[step]}"
    return {
        "view": f"The same shape, other numbers: **{rows} are wrong**, without an error. Head 0 "
        f"holds numbers of {whose} alone.",
        "transpose": f"{left_out}. **{rows} are wrong**, without an error.",
        "scores": f"**{scores} compare the wrong rows**, without an error. Head 0 sees {whose} "
        "alone.",
        "merge": f"The short cut back: **all {TOKENS} rows are what they were**, though {rows} of "
        "the heads were wrong. A round trip is no proof.",
    }[step]


_ALL_RIGHT = {
    "view": f"All {TOKENS} rows are right.",
    "scores": f"All {TOKENS**2} scores are right.",
    "merge": f"All {TOKENS} rows are what they were.",
}


def code(heads: int, way: str) -> list[str]:
    """Return a line of PyTorch for every step."""
    head_dim = FEATURES // heads
    lines = [f"x  # ({TOKENS}, {FEATURES}): tokens, features"]
    if way == RIGHT:
        lines.append(f"cut = x.view({TOKENS}, {heads}, {head_dim})")
        lines.append("heads = cut.transpose(0, 1)")
    else:
        lines.append(f"heads = x.view({heads}, {TOKENS}, {head_dim})  # short cut")
        lines.append("# no transpose")
    lines.append("scores = heads @ heads.transpose(-2, -1)")
    back = "heads.transpose(0, 1)" if way == RIGHT else "heads"
    return [*lines, f"merged = {back}.reshape({TOKENS}, {FEATURES})"]


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


# --- the still picture ----------------------------------------------------------------------------


def _texts(names: Tensor) -> list:
    if names.ndim == 0:
        return f"{names:03d}"
    return [_texts(one) for one in names]


def _draw_table(ax: Axes, tokens: Tensor, texts: list, wrong: Tensor, title: str) -> None:
    middle = {"ha": "center", "va": "center"}
    ax.pcolormesh(tokens, cmap=COLOURS, vmin=0, vmax=3, edgecolor="white", linewidth=2)
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            ax.text(j + 0.5, i + (0.36 if wrong[i, j] else 0.52), text, fontsize=9.5, **middle)
            if wrong[i, j]:
                ax.text(j + 0.5, i + 0.74, "✗", color=CROSS_COLOUR, fontsize=10, **middle)
    ax.set(xticks=[], yticks=[], aspect="equal", title=title)
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)
