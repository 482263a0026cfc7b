"""Predictions, answers and live figures in JupyterLab, from the first look to the next day."""

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.pages import barriers, wait_until
from tools import lab
from tools._browser import NotebookPage, serve

QUESTIONS = r"""
[choice]
question = "A score of 0, with $\\sqrt{d_k} = 8$: how much **weight**?"
explanation = "Some of it, the zebra says."
[[choice.options]]
text = "nothing"
feedback = "The lion thought so, too."
[[choice.options]]
text = "some"
correct = true
feedback = "So it is."

[number]
question = "How much?"
explanation = "A half, the giraffe says."
[number.number]
unit = "share"
value = 0.5
tolerance = 0.05
feedback = "So it is."
low = "It is more."
high = "It is less."
slips = [{ value = 2, feedback = "The leopard divided the other way." }]
"""
CELLS = [
    """
from pathlib import Path

import torch
from attnlab import _texts
from attnlab.display import lesson_setup
from attnlab.exercises import predict
from attnlab.explorers import SoftLookupExplorer
from attnlab.live import live
from attnlab.plotting import plot_attention

_texts.PREDICTIONS = (Path("FOLDER"),)  # the kernel may have been started elsewhere
lesson_setup()
""",
    'predict("17/choice")',
    '%%answer 17/choice\nprint("A hyena.")\nplot_attention(torch.eye(2))',
    'predict("17/number")',
    '%%answer 17/number\n"A cheetah."',
    """
def draw(fig, d_k):
    fig.subplots().bar(["a", "b"], [1, d_k])
    return f"d_k is {d_k}."

live(draw, d_k=[1, 2, 4], alt="Two bars.")
""",
    "SoftLookupExplorer(ask=False)",
]
ANSWERS = ("zebra", "lion", "hyena", "giraffe", "leopard", "cheetah", "So it is")
IN_SIGHT = "() => document.querySelector('.jp-Notebook').innerText"
FOCUSED = "() => document.activeElement.textContent"
COUNTS = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .map(cell => cell.executionCount)"""


@pytest.fixture(scope="module")
def look(open_page, server, write_notebook):
    """The notebook, run; the tests below follow each other in it, as a learner's evening does."""
    (server.root / "17_zebras.toml").write_text(QUESTIONS)
    cells = [cell.replace("FOLDER", str(server.root)) for cell in CELLS]
    look = open_page(write_notebook("predict.ipynb", *cells))
    look.run()
    look.page.locator(".attnlab-predict").nth(1).wait_for()
    yield look
    assert look.errors() == look.problems == look.outside == []
    look.put_away()  # its kernel was restarted: the next notebook gets a new one


def in_sight(look: NotebookPage) -> list[str]:
    """Return the answers that can be read, other than in the source of a cell."""
    text = look.page.evaluate(IN_SIGHT)
    for cell in CELLS:
        for line in cell.splitlines():
            text = text.replace(line, "")
    return [answer for answer in ANSWERS if answer in text]


def stored_widgets(path) -> set[str]:
    """Return the names of the widgets whose state a notebook holds."""
    metadata = nbformat.read(path, as_version=4).metadata
    return {*metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]}


def fold(look: NotebookPage, key: str):
    return look.page.locator(f'details.attnlab-answer[data-key="{key}"]')


def test_no_answer_is_in_sight_after_run_all_and_save(look):
    look.page.locator(".attnlab-predict mjx-container").first.wait_for()  # the formula
    look.save()
    assert in_sight(look) == []
    fold(look, "17/choice").locator("summary").click()
    wait_until(look.page, lambda: in_sight(look) == ["hyena"], "what is unfolded is noticed")
    fold(look, "17/choice").locator("summary").click()


def test_the_keyboard_commits_to_a_wrong_option_that_gets_no_tick(look):
    page, counts = look.page, look.page.evaluate(COUNTS)
    page.get_by_role("button", name="nothing").focus()
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "some"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    box = page.locator(".attnlab-predict").first
    expect(box.get_by_role("status")).to_contain_text("✗ Not quite. You said nothing.")
    assert in_sight(look) == ["zebra", "lion", "hyena"]  # the answering cell has opened itself
    marks = box.get_by_role("button").evaluate_all("all => all.map(one => one.dataset.mark)")
    assert marks == ["✗ ", "✓ "]
    assert page.evaluate(FOCUSED) == "nothing"
    box.get_by_role("button", name="some").click(force=True)  # it is too late
    assert "You said nothing." in box.inner_text()
    kept = look.ask("from attnlab import _folds; print(_folds.committed)")
    assert kept == "{'17/choice': 'nothing'}"
    assert page.evaluate(COUNTS) == counts  # no shortcut of JupyterLab ran a cell


def test_a_number_is_typed_and_enter_commits(look):
    page = look.page
    box, status = page.get_by_label("share"), page.locator(".attnlab-predict [role=status]").nth(1)
    box.fill("half")
    box.press("Enter")
    expect(status).to_have_text("Write a number, such as 0.25.")
    box.fill("")
    page.keyboard.type("0.01")  # 0 twice would restart the kernel, were it a shortcut
    page.keyboard.press("Tab")  # leaving the box commits nothing
    assert "giraffe" not in in_sight(look)
    box.fill("6/3")
    box.press("Enter")
    expect(status).to_contain_text("✗ Not quite. You said 6/3.")
    expect(status).to_contain_text("The leopard divided the other way.")
    assert {"giraffe", "leopard", "cheetah"} <= {*in_sight(look)}
    assert box.get_attribute("readonly") is not None


def test_a_cell_that_runs_again_asks_again(look):
    look.run([3])
    box = look.page.locator(".attnlab-predict").nth(1)
    expect(box.get_by_role("status")).to_be_empty()
    box.get_by_role("textbox").fill("0.44")
    box.get_by_role("button", name="Commit").click()
    expect(box.get_by_role("status")).to_contain_text("It is more.")


def test_all_words_can_be_read_in_both_themes(look):
    look.page.mouse.move(0, 0)
    for theme, light in (("JupyterLab Dark", "false"), ("JupyterLab Light", "true")):
        change = "theme => { jupyterapp.commands.execute('apputils:change-theme', {theme}); }"
        look.page.evaluate(change, theme)
        look.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'")
        for widget in (".attnlab-predict", ".jp-OutputArea"):
            wait_until(
                look.page,
                lambda widget=widget: barriers(look.page, widget, "color-contrast") == [],
                f"the words of {widget} can be read in {theme}",
            )


def live_in(page):
    """Return the live figure of a page."""
    return page.locator(".card").filter(has=page.locator("img"))


def test_a_kernel_that_was_restarted_is_told_of_and_the_next_run_mends_it(look):
    figure = live_in(look.page)
    figure.get_by_role("slider").press("ArrowRight")
    expect(figure.get_by_text("d_k is 2.")).to_be_visible()
    look.restart()
    figure.get_by_role("slider").press("ArrowRight")
    expect(figure.get_by_text("Python has not answered yet")).to_be_visible()
    assert not figure.get_by_text("d_k is 2.").is_visible()
    figure.get_by_role("slider").press("ArrowLeft")  # where the picture is true
    expect(figure.get_by_text("d_k is 2.")).to_be_visible()
    assert not figure.get_by_text("Python has not answered yet").is_visible()


def test_the_next_day_all_is_there_in_a_plain_jupyterlab(look, browser, server, tmp_path):
    look.save()
    stored = stored_widgets(server.root / "predict.ipynb")
    assert len(stored) == 8  # four widgets, each with its layout
    lab.trust([server.root / "predict.ipynb"], tmp_path)
    with serve(server.root, tmp_path, plain=True) as another:
        day = NotebookPage(browser, another)
        try:
            day.open("predict.ipynb")
            page = day.page
            page.locator(".attnlab-predict").nth(1).wait_for()
            expect(page.get_by_text("You said nothing.")).to_be_visible()
            expect(page.get_by_text("You said 0.44.")).to_be_visible()
            expect(page.get_by_role("img", name="Two bars.")).to_be_visible()
            expect(page.get_by_text("d_k is 2.")).to_be_visible()
            explorer = page.get_by_role("slider", name="temperature").first
            said = page.locator(".card .say").last.inner_text()
            explorer.press("ArrowRight")
            expect(page.locator(".card .say").last).not_to_have_text(said)
            assert page.get_by_text("Error displaying widget").count() == 0
            live_in(page).get_by_role("slider").press("ArrowRight")
            expect(page.get_by_text("Python has not answered yet")).to_be_visible()
            day.save()
            assert stored_widgets(server.root / "predict.ipynb") == stored
            assert day.problems == []
        finally:
            day.close()
