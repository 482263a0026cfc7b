"""Explorers in JupyterLab: keys, several views, errors, restarts, stored notebooks."""

import nbformat
import pytest

from attnlab.explorers import MaskExplorer, _page
from tests.browser.pages import wait_until

FIRST = """
from attnlab.explorers import MaskExplorer, ScalingExplorer

scaling = ScalingExplorer(ask=False)
scaling
"""
SECOND = "masks = MaskExplorer(ask=False)\nmasks"
MINE = """
def mine(scores, mask):
    if not mask.any(dim=-1).all():
        raise ValueError("a row sees nothing")
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)

own = MaskExplorer(function=mine, ask=False)
own
"""
AGAIN = "masks"
TRUST = """() => {
    const panel = window.jupyterapp.shell.currentWidget;
    for (const cell of panel.content.model.cells) cell.trusted = true;
}"""


class Notebook:
    """A notebook of explorers that has run."""

    def __init__(self, look):
        self.look, self.page = look, look.page
        self.cards = self.page.locator(".jp-OutputArea .card")
        look.run()
        self.cards.nth(3).wait_for()

    def ask(self, code):
        return self.look.ask(code)

    def wait(self, condition, what):
        wait_until(self.page, condition, what)

    def until(self, code, wanted):
        self.wait(lambda: self.ask(code) == wanted, f"{code} is {wanted}")


@pytest.fixture(scope="module")
def lab(open_page, write_notebook):
    return Notebook(open_page(write_notebook("explorers.ipynb", FIRST, SECOND, MINE, AGAIN)))


def test_keys_work_inside_jupyterlab_and_python_hears_them(lab):
    cells = lab.page.locator(".jp-Notebook .jp-Cell").count()
    slider = lab.cards.nth(0).locator("input")
    slider.press("ArrowRight")
    slider.press("x")  # in command mode this cuts the cell
    assert lab.cards.nth(0).locator("output").inner_text() == "8"
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == cells
    lab.until("print(scaling.d_k, round(scaling.result.raw_sweep.variance))", "8 8")
    lab.cards.nth(1).locator("button.cell").nth(1).press("Enter")
    lab.until("print(masks.toggled, masks.result.mask[0, 1].item())", "((0, 1),) True")


def test_what_python_sets_is_seen_in_every_view(lab):
    assert lab.ask("masks.set_trait('fill', 'attnlab'); masks.padding = [0, 1]") == ""
    for card in (lab.cards.nth(1), lab.cards.nth(3)):
        lab.wait(lambda card=card: "weights are set to 0" in card.inner_text(), "the picture")
        assert card.locator(".chips [aria-pressed=true]").count() == 2
    lab.cards.nth(3).get_by_role("button", name="Reset").click()
    lab.wait(lambda: "adds up to 1" in lab.cards.nth(1).inner_text(), "the other view follows")
    assert "must be one of" in lab.ask("masks.fill = 'zero'")


def test_an_error_of_the_learner_is_shown_and_goes_away(lab):
    card = lab.cards.nth(2)
    error, word = card.get_by_role("alert"), card.get_by_role("button", name="The", exact=True)
    assert "Drawn by mine: every row with an open key sums to 1" in card.inner_text()
    word.click()
    error.wait_for()
    assert "mine failed. ValueError: a row sees nothing" in error.inner_text()
    assert 'raise ValueError("a row sees nothing")' in error.inner_text()
    assert card.locator(".picture.stale").count() == 1
    word.click()
    error.wait_for(state="hidden")
    assert card.locator(".picture.stale").count() == 0
    lab.ask("own.function = lambda scores, mask: scores[0]")
    error.wait_for()
    assert "must return weights (6, 6), got (6,)" in error.inner_text()
    lab.ask("own.function = lambda scores, mask: scores * float('nan')")
    error.wait_for(state="hidden")
    assert card.locator("button.cell.nan").count() == 36
    lab.ask("own.function = mine")
    lab.wait(
        lambda: "every row with an open key sums to 1" in card.inner_text(),
        "the mended function draws",
    )


def test_running_again_and_restarting_leaves_no_dead_copies(lab):
    lab.look.run([0])
    lab.wait(lambda: lab.cards.count() == 4, "four cards again")
    lab.page.evaluate(
        "() => { window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart(); }"
    )
    lab.page.wait_for_timeout(500)
    lab.wait(lambda: lab.ask("print(1)") == "1", "the kernel is back")
    own = lab.cards.nth(2)  # its Python is gone: it says so and does not pretend
    own.get_by_role("button", name="cat", exact=True).click()
    own.get_by_text("Python has not answered yet").wait_for()
    assert own.locator(".picture.stale").count() == 1
    scaling = lab.cards.nth(0)
    scaling.locator("input").press("ArrowRight")
    assert scaling.locator("output").inner_text() == "8"
    lab.look.run()
    lab.wait(lambda: lab.cards.count() == 4, "four cards after a restart")
    lab.cards.nth(0).locator("input").press("ArrowRight")
    lab.until("print(scaling.d_k)", "8")
    assert lab.look.errors() == []
    assert lab.look.problems == []
    assert lab.look.outside == []


def test_a_stored_notebook_shows_a_picture_and_moves_once_it_is_trusted(
    open_page, write_notebook, monkeypatch
):
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    monkeypatch.setattr(_page, "_stored", set())
    made = [MaskExplorer(ask=False, padding=[0]), MaskExplorer(ask=False)]
    cells = [nbformat.v4.new_code_cell("explorer") for _ in made]
    for cell, explorer in zip(cells, made, strict=True):
        bundle = explorer._repr_mimebundle_()
        cell.outputs = [nbformat.v4.new_output("display_data", bundle)]
    look = open_page(write_notebook("stored.ipynb", *cells))
    outputs = look.page.locator(".jp-OutputArea-output")
    for place, explorer in enumerate(made):
        assert outputs.nth(place).locator("img").is_visible()
        assert explorer.say() in outputs.nth(place).inner_text()
    assert look.page.locator(".card").count() == 0
    look.page.evaluate(TRUST)
    for place in (0, 1):
        card = outputs.nth(place).locator(".card")
        card.locator("button.cell").nth(1).click()
        assert "may attend" in card.locator("button.cell").nth(1).get_attribute("aria-label")
    assert look.problems == look.outside == []
