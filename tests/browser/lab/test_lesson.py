"""A lesson and live figures in JupyterLab: what a learner does and sees."""

import pytest

from tests.browser.pages import wait_until
from tools import lab

LESSON = lab.find_lessons(lab.LESSONS)[0].name
LIVE = """
import torch
from attnlab.live import live
from attnlab.plotting import plot_attention

torch.manual_seed(0)
query, key = torch.randn(8, 4), torch.randn(8, 4)


def draw(fig, d_k, word):
    scores = query[:, :d_k] @ key[:, :d_k].T
    plot_attention(scores.softmax(dim=-1), ax=fig.subplots(), annotate=True)
    fig.axes[0].set_title(word)
    if d_k == 2:
        raise ValueError(f"no picture for {d_k}")
    return f"d_k is {d_k}"


live(draw, d_k=[1, 2, 3, 4], word=["raw", "scaled"], figsize=(5, 4))
"""
PIXELS = """img => {  // a word that is another one for other pixels; null while they load
    if (!img.complete || img.naturalWidth === 0) return null;
    const canvas = new OffscreenCanvas(img.naturalWidth, img.naturalHeight);
    const context = canvas.getContext('2d', {willReadFrequently: true});
    context.drawImage(img, 0, 0);
    const {data} = context.getImageData(0, 0, canvas.width, canvas.height);
    let hash = 2166136261;
    for (const four of new Uint32Array(data.buffer)) hash = Math.imul(hash ^ four, 16777619);
    return hash.toString(16);
}"""


class LiveFigure:
    """One `live` widget in the page: its controls, its picture and its words."""

    def __init__(self, look):
        self.look = look
        self.box = look.page.locator(".card")
        self.slider = self.box.get_by_role("slider")
        self.image = self.box.get_by_role("img")
        self.box.scroll_into_view_if_needed()

    @property
    def pixels(self):
        image = self.image.element_handle()
        return self.look.page.wait_for_function(PIXELS, arg=image).json_value()

    def wait_for(self, condition, what):
        wait_until(self.look.page, condition, what)

    def change(self, act, what):
        """Do something and wait until the picture is another one; return the one before."""
        before = self.pixels
        act()
        self.wait_for(lambda: self.pixels != before, f"a new picture after {what}")
        return before


@pytest.fixture(scope="module")
def lesson(open_page):
    return open_page(f"{lab.COPIES.name}/{LESSON}")


@pytest.fixture(scope="module")
def figure(open_page, write_notebook):
    look = open_page(write_notebook("live.ipynb", LIVE))
    look.run()
    return LiveFigure(look)


def test_a_lesson_opens_trusted_with_its_answers_folded_and_is_not_changed(lesson):
    assert lesson.is_trusted()
    folds = lesson.page.locator("details.attnlab-answer, .attnlab-predict-stored > details")
    assert folds.count() >= 3
    assert not any(folds.evaluate_all("all => all.map(one => one.open)"))
    lesson.page.wait_for_timeout(1000)  # for what JupyterLab adds when the kernel has answered
    assert not lesson.page.evaluate("window.jupyterapp.shell.currentWidget.context.model.dirty")


def test_a_lesson_runs(lesson):
    lesson.run()
    assert lesson.page.locator(".card .panel-picture").count() == 1
    assert lesson.errors() == lesson.problems == lesson.outside == []


def test_keys_and_clicks_move_a_live_figure_and_back(figure):
    row = figure.box.get_by_role("radiogroup").locator("input")
    start = figure.change(row.nth(1).click, "a click on a choice")
    figure.change(row.nth(0).click, "a click back")
    assert figure.pixels == start
    figure.change(lambda: figure.slider.press("End"), "End")
    assert figure.slider.get_attribute("aria-valuetext") == "4"
    figure.change(lambda: figure.slider.press("Home"), "Home")
    assert figure.pixels == start


def test_an_error_in_draw_is_shown_and_goes_away(figure):
    error = figure.box.locator("[role=alert]")  # hidden while there is none
    faded = "image => Number(getComputedStyle(image.closest('.panel')).opacity) < 0.5"
    for key in ("End", "ArrowLeft", "ArrowLeft"):
        figure.slider.press(key)
    figure.wait_for(lambda: "ValueError: no picture for 2" in error.inner_text(), "the error")
    assert "raise ValueError" in error.inner_text()
    figure.wait_for(lambda: figure.image.evaluate(faded), "the stale picture fades")
    figure.change(lambda: figure.slider.press("ArrowLeft"), "the next stop")
    figure.wait_for(lambda: not error.is_visible(), "the error goes")
    figure.wait_for(lambda: not figure.image.evaluate(faded), "the picture is in full colour")
    look = figure.look
    assert look.errors() == look.problems == look.outside == []
