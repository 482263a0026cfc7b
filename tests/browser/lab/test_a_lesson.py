"""Lessons and `live` in JupyterLab, with a real browser: what a learner does and sees."""

import pytest

from tests.browser.pages import wait_until
from tools import lab
from tools._browser import NotebookPage

LESSONS = lab.find_lessons(lab.LESSONS)
IMPORTS = """
import torch
from attnlab.live import live
from attnlab.plotting import plot_attention

torch.manual_seed(0)
query, key = torch.randn(8, 512), torch.randn(8, 512)
stops = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]


def weights(d_k, divisor):
    return (query[:, :d_k] @ key[:, :d_k].T / divisor).softmax(dim=-1)
"""
ONE_HEATMAP = """
def draw(fig, d_k):
    plot_attention(weights(d_k, 1), ax=fig.subplots(), annotate=True)

live(draw, d_k=stops, figsize=(5, 4))
"""
TWO_PANELS = """
def draw(fig, d_k):
    left, right = fig.subplots(1, 2)
    plot_attention(weights(d_k, 1), ax=left, annotate=True)
    plot_attention(weights(d_k, d_k**0.5), ax=right, annotate=True)
    return f"d_k is {d_k}"

live(draw, d_k=stops, figsize=(8, 4))
"""
RAISES_AT_2 = """
def draw(fig, d_k):
    fig.subplots().bar(["a", "b"], [1, d_k])
    if d_k == 2:
        raise ValueError(f"no picture for {d_k}")

live(draw, d_k=stops)
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

    def __init__(self, look: NotebookPage, index: int = 0):
        self.look = look
        self.box = look.page.locator(".attnlab-live").nth(index)
        self.handle = self.box.get_by_role("slider").first
        self.image = self.box.get_by_role("img")
        self.error = self.box.locator("[role=alert]")  # hidden while there is none
        self.box.scroll_into_view_if_needed()

    @property
    def pixels(self) -> str:
        image = self.image.element_handle()
        return self.look.page.wait_for_function(PIXELS, arg=image).json_value()

    @property
    def opacity(self) -> float:
        return float(self.image.evaluate("img => getComputedStyle(img.parentElement).opacity"))

    @property
    def stop(self) -> str:
        return self.handle.get_attribute("aria-valuetext")

    def wait_for(self, condition, what: str) -> None:
        wait_until(self.look.page, condition, what)

    def press(self, key: str) -> None:
        """Press a key on the slider and wait until the picture is another one."""
        self.change(lambda: self.handle.press(key), key)

    def move_every_control(self) -> None:
        """Move each control away and back, a slider by keys, buttons by clicks.

        Every move changes the picture, and every way back shows the first one.
        """
        start = self.pixels
        for slider in self.box.get_by_role("slider").all():
            at_the_end = slider.input_value() == slider.get_attribute("max")
            away, back = ("ArrowLeft", "ArrowRight")[:: 1 if at_the_end else -1]
            self.change(lambda slider=slider, key=away: slider.press(key), f"{away} on a slider")
            self.change(lambda slider=slider, key=back: slider.press(key), f"{back} on a slider")
            assert self.pixels == start
        for row in self.box.get_by_role("radiogroup").all():
            home = row.locator("input:checked").element_handle()
            self.change(row.locator("input:not(:checked)").first.click, "a click on a choice")
            self.change(home.click, "a click back")
            assert self.pixels == start

    def change(self, act, what: str) -> None:
        """Do something and wait until the picture is another one."""
        before = self.pixels
        act()
        self.wait_for(lambda: self.pixels != before, f"a new picture after {what}")


@pytest.fixture(scope="module")
def look(open_page, write_notebook):
    """A notebook with three `live` widgets, run."""
    path = write_notebook("trial.ipynb", IMPORTS, ONE_HEATMAP, TWO_PANELS, RAISES_AT_2)
    look = open_page(path)
    look.run()
    return look


@pytest.fixture(scope="module")
def lesson(open_page):
    return open_page(f"{lab.COPIES.name}/{LESSONS[0].name}")


def test_a_lesson_opens_trusted_with_its_answers_folded(lesson):
    assert lesson.is_trusted()
    folds = lesson.page.locator("details.attnlab-answer, .attnlab-predict-stored > details")
    assert folds.count() >= 3
    assert folds.evaluate_all("all => all.filter(one => one.open).length") == 0


def test_a_lesson_is_not_changed_by_opening_it(lesson):
    lesson.page.wait_for_timeout(2000)  # for what JupyterLab adds when the kernel has answered
    assert not lesson.page.evaluate("window.jupyterapp.shell.currentWidget.context.model.dirty")


def test_a_lesson_runs(lesson):
    lesson.run()
    assert lesson.errors() == lesson.problems == lesson.outside == []


def test_all_controls_of_a_lesson_move(lesson):
    """Here a slider and buttons; strict nbval takes those of every lesson through all stops."""
    figure = LiveFigure(lesson)
    assert lesson.page.locator(".attnlab-live").count() == 1
    for role in ("slider", "radiogroup"):
        assert figure.box.get_by_role(role).count() == 1
    figure.move_every_control()
    assert lesson.problems == lesson.outside == []


def test_the_keyboard_moves_the_picture_and_back(look):
    figure = LiveFigure(look)
    stop, pixels = figure.stop, figure.pixels
    figure.press("ArrowRight")
    assert (stop, figure.stop) == ("1", "2")
    figure.press("ArrowLeft")
    assert (figure.stop, figure.pixels) == (stop, pixels)


def test_the_mouse_moves_the_picture(look):
    figure = LiveFigure(look, 1)
    before, mouse = figure.pixels, look.page.mouse
    track = figure.handle.bounding_box()
    middle = track["y"] + track["height"] / 2
    mouse.move(track["x"] + 8, middle)
    mouse.down()
    mouse.move(track["x"] + track["width"], middle, steps=12)
    mouse.up()
    figure.wait_for(lambda: figure.stop == "512", "the last stop")
    figure.wait_for(lambda: "d_k is 512" in figure.box.inner_text(), "the sentence")
    assert figure.pixels != before


def test_an_error_in_draw_is_shown_and_goes_away(look):
    figure = LiveFigure(look, 2)
    before = figure.pixels
    figure.handle.press("ArrowRight")
    figure.wait_for(lambda: "ValueError: no picture for 2" in figure.error.inner_text(), "error")
    assert "raise ValueError" in figure.error.inner_text()
    assert figure.pixels == before
    figure.wait_for(lambda: figure.opacity < 0.5, "the stale picture fades")

    figure.press("ArrowRight")
    figure.wait_for(lambda: not figure.error.inner_text().strip(), "the error goes")
    figure.wait_for(lambda: figure.opacity == 1, "the picture is in full colour")
    assert figure.stop == "4"


def test_the_trial_ran_without_errors_and_alone(look):
    assert look.errors() == []
    assert look.problems == []
    assert look.outside == []


def test_what_goes_wrong_in_a_page_is_noticed(open_page, write_notebook):
    """Each check above can fail: an error in a cell, one in the page, a request to elsewhere."""
    look = open_page(write_notebook("broken.ipynb", "1 / 0", "2 + 2"))
    look.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    look.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.content.model.cells.get(0).outputs.length"
    )
    assert look.errors() == ["ZeroDivisionError: division by zero"]
    assert not look.problems
    assert not look.outside
    look.page.evaluate("() => { new Image().src = 'http://attnlab.invalid/picture.png'; }")
    look.page.evaluate("() => { console.error('said in the page'); }")
    look.page.wait_for_timeout(500)
    assert any("said in the page" in problem for problem in look.problems)
    assert look.outside == ["http://attnlab.invalid/picture.png"]
