"""Numbers in the text of a notebook light the cells of the figure above, while its kernel runs."""

import pytest
from nbformat.v4 import new_markdown_cell
from playwright.sync_api import expect

from tests.browser.pages import wait_until
from tests.browser.pointed import WEIGHTS, is_lit

CELLS = [
    'from attnlab.exercises import predict\npredict("00/two-bats-in-one-sentence")',
    f"""
import torch
from attnlab.display import show_figure
from attnlab.plotting import plot_attention

ax = plot_attention(torch.tensor({WEIGHTS}), queries=["cat", "sat"], keys=["cat", "sat"])
show_figure(ax, "1.1", alt="Weights.", caption="Read it.")
""",
    new_markdown_cell("In the row of `cat`, 0.25 goes to `sat`."),
]


@pytest.fixture
def look(open_page, write_notebook):
    look = open_page(write_notebook("numbers.ipynb", *CELLS))
    look.run()
    yield look
    assert look.errors() == look.problems == look.outside == []
    look.put_away()


def test_a_number_lights_its_cell_also_after_text_and_figure_were_drawn_anew(look):
    page, mark = look.page, look.page.locator(".jp-RenderedMarkdown .attnlab-named")

    def is_lit_by_pointer() -> bool:
        page.mouse.move(0, 0)
        mark.hover()
        return is_lit(page, row=0, column=1)

    mark.focus()
    assert is_lit(page, row=0, column=1)
    look.run([1, 2])
    page.locator(".jp-OutputArea figure").wait_for()
    wait_until(page, is_lit_by_pointer, "the cell of the new figure is lit")
    expect(mark).to_have_attribute("title", "row cat, column sat of Figure 1.1")
    mark.press("Enter")
    expect(page.locator(".jp-mod-editMode")).to_have_count(0)
