"""Explorers in JupyterLab: keys, several views, errors, typed sentences, restarts, stored ones."""

import nbformat
import pytest
from playwright.sync_api import expect

from attnlab.explorers import MaskExplorer, RealHeadsExplorer, _page
from tests.browser.pages import wait_until
from tools._browser import NotebookPage

FIRST = """
from attnlab.explorers import *
from attnlab.explorers import Explorer

def mine(scores, mask):
    if not mask.any(dim=-1).all():
        raise ValueError("a row sees nothing")
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)

scaling, masks = ScalingExplorer(ask=False), MaskExplorer(ask=False)
own, real = MaskExplorer(function=mine, ask=False), RealHeadsExplorer(ask=False)
heads = HeadView(real.result.weights, real.result.tokens)
"""
CELLS = ["scaling", "masks", "own", "real", "masks", "heads"]
SCALING, MASKS, OWN, REAL, AGAIN, HEADS = range(len(CELLS))
TRUST = """() => {
    const panel = window.jupyterapp.shell.currentWidget;
    for (const cell of panel.content.model.cells) cell.trusted = true;
}"""


class Notebook:
    """A notebook of explorers that has run."""

    def __init__(self, look):
        self.look, self.page, self.ask = look, look.page, look.ask
        self.cards = self.page.locator(".jp-OutputArea .card")
        look.run()
        self.cards.nth(len(CELLS) - 1).wait_for()

    def wait(self, condition, what):
        wait_until(self.page, condition, what)

    def until(self, code, wanted):
        self.wait(lambda: self.ask(code) == wanted, f"{code} is {wanted}")

    def said(self, place):
        return self.cards.nth(place).locator(".say").inner_text()


@pytest.fixture(scope="module")
def lab(open_page, write_notebook):
    lab = Notebook(open_page(write_notebook("explorers.ipynb", FIRST, *CELLS)))
    yield lab
    assert lab.look.errors() == lab.look.problems == lab.look.outside == []
    lab.look.put_away()  # its kernel was restarted: the next notebook gets a new one


def test_keys_work_inside_jupyterlab_and_python_hears_them(lab):
    cells = lab.page.locator(".jp-Notebook .jp-Cell").count()
    card = lab.cards.nth(SCALING)
    card.get_by_role("slider").press("ArrowRight")
    card.get_by_role("slider").press("x")  # in command mode this cuts the cell
    assert card.locator("output").inner_text() == "8"
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == cells
    lab.until("print(scaling.d_k, round(scaling.result.raw_sweep.variance))", "8 8")
    lab.cards.nth(MASKS).locator("button.cell").nth(1).press("Enter")
    lab.until("print(masks.toggled, masks.result.mask[0, 1].item())", "((0, 1),) True")


def test_after_a_fast_drag_python_has_the_last_state(lab):
    slider = lab.cards.nth(SCALING).get_by_role("slider")
    slider.scroll_into_view_if_needed()
    box, mouse = slider.bounding_box(), lab.page.mouse
    ends, middle = (box["x"] + 5, box["x"] + box["width"] - 5), box["y"] + box["height"] / 2
    mouse.move(ends[0], middle)
    mouse.down()
    for sweep in range(3):
        mouse.move(ends[1 - sweep % 2], middle, steps=18)
    mouse.up()
    lab.until("print(scaling.d_k)", "1024")
    lab.wait(lambda: lab.ask("print(scaling.say())") == lab.said(SCALING), "both say the same")


def test_own_weights_are_shown_and_python_hears_which(lab):
    card = lab.cards.nth(HEADS)
    for name in ("head 7", "river (8)"):
        card.get_by_role("button", name=name).click()
    lab.until("print(heads.head, heads.word)", "7 8")
    lab.wait(lambda: lab.ask("print(heads.say())") == lab.said(HEADS), "both say the same")


def test_what_python_sets_is_seen_in_every_view(lab):
    assert lab.ask("masks.set_trait('fill', 'attnlab'); masks.padding = [0, 1]") == ""
    for card in (lab.cards.nth(MASKS), lab.cards.nth(AGAIN)):
        expect(card).to_contain_text("weights are set to 0")
        expect(card.locator(".chips [aria-pressed=true]")).to_have_count(2)
    lab.cards.nth(AGAIN).get_by_role("button", name="Reset").click()
    expect(lab.cards.nth(MASKS)).to_contain_text("adds up to 1")
    assert "must be one of" in lab.ask("masks.fill = 'zero'")


def test_an_error_of_the_learner_is_shown_and_goes_away(lab):
    card = lab.cards.nth(OWN)
    error, word = card.get_by_role("alert"), card.get_by_role("button", name="The", exact=True)
    assert "Drawn by mine: every row with an open key sums to 1" in card.inner_text()
    word.click()
    expect(error).to_contain_text("mine failed. ValueError: a row sees nothing")
    expect(error).to_contain_text('raise ValueError("a row sees nothing")')
    expect(card.locator(".picture.stale")).to_have_count(1)
    word.click()
    expect(error).to_be_hidden()
    expect(card.locator(".picture.stale")).to_have_count(0)
    lab.ask("own.function = lambda scores, mask: scores[0]")
    expect(error).to_contain_text("must return weights (6, 6), got (6,)")
    lab.ask("own.function = lambda scores, mask: scores * float('nan')")
    expect(card.locator("button.cell.nan")).to_have_count(36)
    lab.ask("own.function = mine")
    expect(card).to_contain_text("every row with an open key sums to 1")


# --- typed sentences ------------------------------------------------------------------------------


def test_a_typed_sentence_is_computed_by_python(lab):
    own = "vexing and the exact bank of the river"  # x in command mode cuts the cell
    cells, card = lab.page.locator(".jp-Notebook .jp-Cell").count(), lab.cards.nth(REAL)
    box = card.get_by_role("textbox", name="A sentence of your own")
    box.fill("")
    box.press_sequentially(own)
    card.get_by_role("button", name="Read").click()
    expected = RealHeadsExplorer(ask=False, sentence=own)
    expected.word = expected.result.tokens.index("bank")
    expect(card.locator(".say")).to_have_text(expected.say())
    expect(card.locator(".arcs button")).to_have_text([*expected.result.tokens])
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == cells


# --- views and kernels that come and go -----------------------------------------------------------


def test_a_second_tab_shows_what_was_saved_and_leaves_nothing_behind(lab, browser, server):
    """Another tab of the browser on the same notebook: pages that move without the kernel."""
    other = NotebookPage(browser, server)
    open_comms = "import comm; print(len(comm.get_comm_manager().comms))"
    comms, before = lab.ask(open_comms), lab.said(SCALING)
    lab.look.save()
    other.open("explorers.ipynb")
    cards = other.page.locator(".jp-OutputArea .card")
    expect(cards).to_have_count(len(CELLS))
    said = cards.nth(SCALING).locator(".say").inner_text()
    cards.nth(SCALING).get_by_role("slider").press("End")
    expect(cards.nth(SCALING).locator(".say")).not_to_have_text(said)
    assert lab.said(SCALING) == before
    assert other.problems == other.outside == []
    other.page.close()
    assert lab.ask(open_comms) == comms
    lab.cards.nth(SCALING).get_by_role("slider").press("ArrowLeft")
    lab.until("print(scaling.d_k)", "512")  # the first tab lives


def test_running_again_and_restarting_leaves_no_dead_copies(lab):
    lab.look.run([1])
    expect(lab.cards).to_have_count(len(CELLS))
    lab.look.restart()
    lab.wait(lambda: lab.ask("print(1)") == "1", "the kernel is back")
    own = lab.cards.nth(OWN)  # its Python is gone: it says so and does not pretend
    own.get_by_role("button", name="cat", exact=True).click()
    expect(own).to_contain_text("Python has not answered yet")
    assert own.locator(".picture.stale").count() == 1
    scaling = lab.cards.nth(SCALING)
    scaling.get_by_role("slider").press("ArrowLeft")  # what needs no Python still moves
    assert scaling.locator("output").inner_text() == "256"
    lab.look.run()
    expect(lab.cards).to_have_count(len(CELLS))
    lab.cards.nth(SCALING).get_by_role("slider").press("ArrowRight")
    lab.until("print(scaling.d_k)", "8")


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
        cell = outputs.nth(place).locator("button.cell").nth(1)
        cell.click()
        assert "may attend" in cell.get_attribute("aria-label")
    assert look.problems == look.outside == []
