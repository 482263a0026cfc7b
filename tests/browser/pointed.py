"""A figure with a heatmap, and whether one of its cells is lit."""

import pytest
import torch
from playwright.sync_api import Page

from attnlab.display import ShownFigure, show_figure
from attnlab.plotting import plot_attention
from tests.browser.pages import read

WEIGHTS = [[0.75, 0.25], [0.25, 0.7]]
WORDS = ["cat", "sat"]
BOX = """e => {
    const {x, y, width, height} = e.getBoundingClientRect();
    return [x, y, width, height];
}"""


def shown_weights() -> ShownFigure:
    """Return the figure whose cells the tests point at."""
    ax = plot_attention(torch.tensor(WEIGHTS), queries=WORDS, keys=WORDS)
    return show_figure(ax, "1.1", alt="Weights.", caption="Read it.")


def is_lit(page: Page, row: int, column: int) -> bool:
    """Return whether one outline lies on this cell of the picture, to a pixel or two."""
    left, top, width, height = shown_weights().maps[0]["box"]
    found = read(page.locator(".attnlab-outline"), BOX)
    x, y, wide, high = page.locator("figure img").evaluate(BOX)
    wanted = [x + wide * (left + width * column / 2), y + high * (top + height * row / 2)]
    wanted += [wide * width / 2, high * height / 2]
    return len(found) == 1 and found[0] == pytest.approx(wanted, abs=2)
