"""Where every number goes when features are split into heads."""

from __future__ import annotations

from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from torch import Tensor

from attnlab import palette
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice
from attnlab.explorers.frame.panels import Panel, how_to_read, stacked
from attnlab.explorers.frame.words import counted
from attnlab.heads import split_heads

TOKENS, FEATURES = 4, 6
HEADS = (1, 2, 3, 6)
RIGHT, SHORTCUT = WAYS = ("right", "shortcut")
STEPS = ("x", "view", "transpose", "scores", "merge")
TINT = 0.25  # of the colours of the tokens, as in style.css


class HeadsResult(NamedTuple):
    """Numbers that carry their names, 100 * token + 10 * head + feature, after split and merge."""

    heads: Tensor  # (H, 4, head_dim): what stands in the heads
    merged: Tensor  # (4, 6): what comes back
    # (H, 4): True where a row of the heads does not hold its token's numbers of this head
    wrong_rows: Tensor
    wrong_scores: Tensor  # (H, 4, 4): True where the score of two rows has a wrong row in it


class Places(NamedTuple):
    """The place in memory of each number, laid out as torch lays the numbers out."""

    x: Tensor  # (4, 6)
    cut: Tensor  # (4, H, head_dim): with the shortcut (H, 4, head_dim)
    heads: Tensor  # (H, 4, head_dim)
    merged: Tensor  # (4, 6)


def named(heads: int) -> Tensor:
    """Return numbers 100 * token + 10 * head + feature: (4, 6)."""
    token, head = torch.arange(TOKENS).view(-1, 1, 1), torch.arange(heads).view(-1, 1)
    return (100 * token + 10 * head + torch.arange(FEATURES // heads)).flatten(1)


def places(heads: int, way: str) -> Places:
    """Return where the numbers of ``x`` stand at every step."""
    head_dim = FEATURES // heads
    x = torch.arange(TOKENS * FEATURES).view(TOKENS, FEATURES)
    if way == SHORTCUT:
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


class HeadsExplorer(Explorer):
    """Four tokens with six features, split into heads and merged again, step by step.

    Parameters
    ----------
    **state
        ``heads``: 1, 2, 3 or 6. ``way``: "right", ``view`` and then ``transpose``, or "shortcut",
        ``view`` alone, there and back. ``step``: "x", "view", "transpose", "scores" or "merge".
        ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.split_heads, attnlab.merge_heads : the correct way.
    """

    figsize = (7.5, 2.6)
    heads = Choice(3, HEADS, label="heads")
    way = Choice(RIGHT, {RIGHT: "view + transpose", SHORTCUT: "shortcut"}, label="way")
    step = Choice("x", STEPS, label="step")
    panels = (
        stacked(
            Panel("tables", kind="tables"),
            how_to_read(
                ("tokens", "colour and first digit: the token"),
                ("wrong", "✗: not what view and transpose put here"),
            ),
        ),
    )

    @property
    def result(self) -> HeadsResult:
        """Where the numbers stand in the heads and after the merge, by torch."""
        return move(self.heads, self.way)

    def frame(self, heads: int, step: str, way: str) -> dict[str, object]:
        """Return the tables of one step."""
        drawn = tables(heads, way, step)
        return {
            "say": sentence(heads, way, step),
            "bad": bool(drawn["wrong"].any()),
            "code": "\n".join(code(heads, way)[: STEPS.index(step) + 1]),
            "tables": {**drawn, "title": f"{drawn.pop('what')}: shape {tuple(drawn.pop('shape'))}"},
        }

    def draw(self, fig: Figure) -> None:
        """Draw one table per token or per head; wrong cells are crossed."""
        drawn = tables(self.heads, self.way, self.step)
        tokens, count = drawn["tokens"], len(drawn["tokens"])
        across = min(count, 12 // tokens.shape[-1])
        axes = fig.subplots(count // across, across, squeeze=False).flat
        for ax, *table in zip(
            axes, tokens, drawn["texts"], drawn["wrong"], drawn["names"], strict=True
        ):
            _draw_table(ax, *table)


def tables(heads: int, way: str, step: str) -> dict[str, object]:
    """Return the tables of a step: the values of ``Tables``, its shape and what it is."""
    at, result = places(heads, way), move(heads, way)
    if step == "scores":
        token = result.heads[..., 0] // 100  # (H, 4): whose numbers a row holds
        pairs = torch.stack(
            [token.unsqueeze(2).expand(-1, -1, TOKENS), token.unsqueeze(1).expand(-1, TOKENS, -1)],
            dim=-1,
        )  # (H, 4, 4, 2): tokens of query and key
        texts = [[[f"{i}·{j}" for i, j in row] for row in table] for table in pairs.tolist()]
        shown = {"what": "scores", "shape": result.wrong_scores.shape, "row": "token"}
        shown |= {"texts": texts, "tokens": pairs[..., 1], "wrong": result.wrong_scores}
        shown |= {"places": [], "columns": [str(j) for j in range(TOKENS)]}
        return shown | {"names": [f"head {head}" for head in range(heads)]}
    cut = step == "view" and way == RIGHT
    what = {"x": "x", "merge": "merged"}.get(step, "cut" if cut else "heads")
    whose, row = ("token", "head") if cut else ("head", "token")
    place = {"x": at.x, "merge": at.merged, "view": at.cut}.get(step, at.heads)
    shape = place.shape
    if place.ndim == 2:  # a single table
        names, wrong, place = [what], place.ne(at.x).any(dim=-1)[None], place[None]
    else:
        names = [f"{whose} {i}" for i in range(len(place))]
        wrong = torch.zeros(shape[:2], dtype=torch.bool) if cut else result.wrong_rows
    numbers = named(heads).flatten()[place]
    texts = [[[f"{number:03d}" for number in line] for line in table] for table in numbers.tolist()]
    return {
        "what": what,
        "shape": shape,
        "row": row,
        "names": names,
        "columns": [],
        "texts": texts,
        "tokens": numbers // 100,
        "wrong": wrong.unsqueeze(-1).expand(numbers.shape),
        "places": place,
    }


# --- words ----------------------------------------------------------------------------------------


def sentence(heads: int, way: str, step: str) -> str:
    """Return what is seen; the words between two stars are bold."""
    if step == "x":
        return (
            f"**{TOKENS} tokens with {FEATURES} features each**, shape ({TOKENS}, {FEATURES}). The "
            "first digit of a number names its token, and the second digit names its head."
        )
    if way == SHORTCUT:
        return _say_shortcut(heads, step)
    head_dim, rows = FEATURES // heads, TOKENS * heads
    slices = f"{counted(heads, 'slice')} of {head_dim}"
    return {
        "view": f"view cuts the {FEATURES} features of each token into **{slices}**: one table per "
        f"token, and nothing is mixed yet.",
        "transpose": f"transpose brings the heads to the front. Row t of every head belongs to "
        f"token t: **all {rows} rows are correct**.",
        "scores": f"Row i, column j of a head compares token i with token j, using "
        f"{counted(head_dim, 'feature')} of each: **all {rows * TOKENS} scores are correct**.",
        "merge": f"Transpose back, then join: **all {TOKENS} rows are what they were** before the "
        "split.",
    }[step]


def _say_shortcut(heads: int, step: str) -> str:
    result, head_dim = move(heads, SHORTCUT), FEATURES // heads
    rows = f"{result.wrong_rows.sum()} of {result.wrong_rows.numel()} rows"
    scores = f"{result.wrong_scores.sum()} of {result.wrong_scores.numel()} scores"
    seen = [str(token) for token in (result.heads[0] // 100).unique().tolist()]
    whose = f"token {seen[0]}" if len(seen) == 1 else f"tokens {' and '.join(seen)}"
    left_out = (
        "The shortcut has no transpose, because the shape is already "
        f"({heads}, {TOKENS}, {head_dim})"
    )
    if heads == 1:
        nothing = "**With one head there is nothing to scramble.**"
        return f"{left_out}. {nothing}" if step == "transpose" else f"{nothing} {_ALL_RIGHT[step]}"
    return {
        "view": f"The shape is the same, but the numbers are in the wrong places: **{rows} are "
        f"wrong**, and no error is raised. Head 0 holds numbers from {whose} only.",
        "transpose": f"{left_out}. **{rows} are wrong**, and no error is raised.",
        "scores": f"**{scores} compare the wrong rows**, and no error is raised. Head 0 sees "
        f"{whose} only.",
        "merge": f"Merging by the shortcut gives **all {TOKENS} rows back**, although {rows} of "
        "the heads were wrong. So a round trip does not prove that the heads are correct.",
    }[step]


_ALL_RIGHT = {
    "view": f"All {TOKENS} rows are correct.",
    "scores": f"All {TOKENS**2} scores are correct.",
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
        lines.append(f"heads = x.view({heads}, {TOKENS}, {head_dim})  # shortcut")
        lines.append("# no transpose")
    lines.append("scores = heads @ heads.transpose(-2, -1)")
    back = "heads.transpose(0, 1)" if way == RIGHT else "heads"
    return [*lines, f"merged = {back}.reshape({TOKENS}, {FEATURES})"]


# --- the still picture ----------------------------------------------------------------------------


def _tint(colour: str) -> tuple[float, ...]:
    return tuple(1 - TINT * (1 - part) for part in to_rgb(colour))


def _draw_table(ax: Axes, tokens: Tensor, texts: list, wrong: Tensor, title: str) -> None:
    middle = {"ha": "center", "va": "center"}
    roles = (palette.BLUE, palette.ORANGE, palette.GREEN, palette.PURPLE)
    colours = ListedColormap([_tint(colour) for colour in roles])
    ax.pcolormesh(tokens, cmap=colours, vmin=0, vmax=3, edgecolor="white", linewidth=2)
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            ax.text(j + 0.5, i + (0.36 if wrong[i, j] else 0.52), text, fontsize=9.5, **middle)
            if wrong[i, j]:
                ax.text(j + 0.5, i + 0.74, "✗", color=palette.ORANGE, fontsize=10, **middle)
    ax.set(xticks=[], yticks=[], aspect="equal", title=title)
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)
