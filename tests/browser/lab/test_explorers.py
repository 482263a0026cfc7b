"""Explorers and live figures in JupyterLab: keys, views, errors, typed sentences, restarts."""

import pytest
from playwright.sync_api import expect

from attnlab.explorers import RealHeadsExplorer
from tests.browser.pages import wait_until

FIRST = """
from attnlab.explorers import *
from attnlab.explorers import live

def mine(scores, mask):
    if not mask.any(dim=-1).all():
        raise ValueError("a row sees nothing")
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)

def draw(fig, d_k, word):
    if d_k == 2:
        raise ValueError(f"no picture for {d_k}")
    print("drawn with", word)
    fig.subplots().bar(["a", word], [1, d_k])
    return f"d_k is {d_k}"

scaling, masks = ScalingExplorer(ask=False), MaskExplorer(ask=False, mask="causal", padding=0)
own, real = MaskExplorer(function=mine, padding=0), RealHeadsExplorer(ask=False)
heads = HeadView(real.result.weights, real.result.tokens)
figure = live(draw, d_k=[1, 2, 3, 4], word=["raw", "scaled"], figsize=(5, 4))
"""
CELLS = ["scaling", "masks", "own", "real", "masks", "heads", "figure"]
SCALING, MASKS, OWN, REAL, AGAIN, HEADS, LIVE = range(len(CELLS))


class Notebook:
    """A notebook of explorers that has run."""

    def __init__(self, look):
        self.look, self.page, self.ask = look, look.page, look.ask
        self.all = self.page.locator(".jp-OutputArea .card")
        self.cards = [self.all.nth(place) for place in range(len(CELLS))]
        look.run()
        self.cards[-1].wait_for()

    def until(self, code, wanted):
        wait_until(self.page, lambda: self.ask(code) == wanted, f"{code} is {wanted}")

    def until_both_say_the_same(self, name, place):
        said = self.cards[place].locator(".say")
        wait_until(
            self.page, lambda: self.ask(f"print({name}.say())") == said.inner_text(), "the same"
        )


@pytest.fixture(scope="module")
def lab(open_page, write_notebook):
    lab = Notebook(open_page(write_notebook("explorers.ipynb", FIRST, *CELLS)))
    yield lab
    assert lab.look.errors() == lab.look.problems == lab.look.outside == []
    lab.look.put_away()  # its kernel was restarted: the next notebook gets a new one


def test_keys_work_inside_jupyterlab_and_python_hears_them(lab):
    cells, card = lab.page.locator(".jp-Notebook .jp-Cell").count(), lab.cards[SCALING]
    slider = card.get_by_role("slider").first
    slider.press("ArrowRight")
    slider.press("x")  # in command mode this cuts the cell
    lab.until("print(scaling.d_k, scaling.result.best_rates[1])", "64 2.0")
    lab.cards[MASKS].locator("button.cell").nth(1).press("Enter")
    lab.until("print(masks.toggled, masks.result.mask[0, 1].item())", "((0, 1),) True")
    for name in ("head 7", "river (8)"):
        lab.cards[HEADS].get_by_role("button", name=name).click()
    lab.until("print(heads.head, heads.word)", "7 8")
    lab.until_both_say_the_same("heads", HEADS)
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == cells


def test_controls_stay_in_sight_while_the_notebook_is_scrolled(lab):
    beyond = """card => {
        const page = card.getRootNode().host.closest('.jp-WindowedPanel-outer');
        const topOf = (element) => element.getBoundingClientRect().top;
        page.scrollBy(0, topOf(card.querySelector('.picture')) - topOf(page));
        return topOf(card.querySelector('.bar')) - topOf(page);
    }"""
    assert abs(lab.cards[MASKS].evaluate(beyond)) < 1


def test_after_a_fast_drag_python_has_the_last_state(lab):
    slider = lab.cards[SCALING].get_by_role("slider").first
    slider.scroll_into_view_if_needed()
    box, mouse = slider.bounding_box(), lab.page.mouse
    ends, middle = (box["x"] + 5, box["x"] + box["width"] - 5), box["y"] + box["height"] / 2
    mouse.move(ends[0], middle)
    mouse.down()
    for sweep in range(3):
        mouse.move(ends[1 - sweep % 2], middle, steps=18)
    mouse.up()
    lab.until("print(scaling.d_k)", "1024")
    lab.until_both_say_the_same("scaling", SCALING)


def test_what_python_sets_is_seen_in_every_view(lab):
    assert lab.ask("masks.set_trait('fill', '0'); masks.padding = 2") == ""
    for card in (lab.cards[MASKS], lab.cards[AGAIN]):
        expect(card).to_contain_text("A score of 0 is a score like any other")
        expect(card.get_by_role("slider")).to_have_attribute("aria-valuetext", "2")
    lab.cards[AGAIN].get_by_role("button", name="Reset").click()
    expect(lab.cards[MASKS]).to_contain_text("every row adds up to 1")


def test_an_error_of_the_learner_is_shown_and_goes_away(lab):
    card = lab.cards[OWN]
    error, slider = card.get_by_role("alert"), card.get_by_role("slider")
    stale = card.locator(".picture.stale")
    assert "Drawn by mine: every row with an open cell adds up to 1" in card.inner_text()
    slider.press("ArrowRight")
    expect(error).to_contain_text("mine failed. ValueError: a row sees nothing")
    expect(error).to_contain_text('raise ValueError("a row sees nothing")')
    expect(stale).to_have_count(1)
    slider.press("ArrowLeft")
    expect(error).to_be_hidden()
    expect(stale).to_have_count(0)
    lab.ask("own.function = lambda scores, mask: scores[0]")
    expect(error).to_contain_text("must return weights (6, 6), got (6,)")
    lab.ask("own.function = lambda scores, mask: scores * float('nan')")
    expect(card.locator("td .cell.nan")).to_have_count(72)
    lab.ask("own.function = mine")
    expect(card).to_contain_text("every row with an open cell adds up to 1")


def test_a_live_figure_moves_and_an_error_in_it_is_shown_and_goes_away(lab):
    card = lab.cards[LIVE]
    slider, image, said = card.get_by_role("slider"), card.get_by_role("img"), card.locator(".say")
    start, error = image.get_attribute("src"), card.get_by_role("alert")
    card.get_by_role("radio", name="scaled").check(force=True)
    expect(image).not_to_have_attribute("src", start)
    card.get_by_role("radio", name="raw").check(force=True)
    expect(image).to_have_attribute("src", start)
    slider.press("ArrowRight")
    expect(error).to_contain_text("ValueError: no picture for 2")
    expect(error).to_contain_text("raise ValueError")
    faded = "image => Number(getComputedStyle(image.closest('.column')).opacity) < 0.5"
    wait_until(lab.page, lambda: image.evaluate(faded), "the stale picture fades")
    slider.press("End")
    expect(error).to_be_hidden()
    expect(said).to_have_text("d_k is 4")
    expect(card.locator(".picture pre")).to_have_text("drawn with raw")
    wait_until(lab.page, lambda: not image.evaluate(faded), "the picture is in full colour")


def test_a_typed_sentence_is_computed_by_python(lab):
    own = "vexing and the exact bank of the river"  # x in command mode cuts the cell
    cells, card = lab.page.locator(".jp-Notebook .jp-Cell").count(), lab.cards[REAL]
    box = card.get_by_role("textbox", name="A sentence of your own")
    box.fill("")
    box.press_sequentially(own)
    card.get_by_role("button", name="Read").click()
    expected = RealHeadsExplorer(ask=False, sentence=own)
    expected.word = expected.result.tokens.index("bank")
    expect(card.locator(".say")).to_have_text(expected.say())
    expect(card.locator(".arcs button")).to_have_text([*expected.result.tokens])
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == cells


def test_running_again_and_restarting_leaves_no_dead_copies(lab):
    lab.look.run([1])
    expect(lab.all).to_have_count(len(CELLS))
    lab.look.restart()
    lab.until("print(1)", "1")
    own = lab.cards[OWN]  # its Python is gone: it says so and does not pretend
    own.locator("button.cell").first.click()
    expect(own.locator(".bar")).to_contain_text("run this cell again")
    assert own.locator(".picture.stale").count() == 1
    lab.cards[SCALING].get_by_role("slider").first.press(
        "ArrowLeft"
    )  # what needs no Python still moves
    assert lab.cards[SCALING].locator("output").first.inner_text() == "256"
