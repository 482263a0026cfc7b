"""Predictions and answers in JupyterLab, as a learner's evening goes."""

import pytest
from nbformat.v4 import new_markdown_cell
from playwright.sync_api import expect

from tests.browser.lab.jupyterlab import NotebookPage
from tests.browser.pages import barriers, wait_until
from tools.build.sources import fold

QUESTIONS = r"""
[question.choice]
question = "A score of 0, with $\\sqrt{d_k} = 8$: how much **weight**?"
explanation = "Some of it, the zebra says."
options = [
    { text = "nothing", feedback = "The lion thought so, too." },
    { text = "some", correct = true, feedback = "So it is." },
]

[question.other]
question = "How much?"
explanation = "A half, the giraffe says."
options = [
    { text = "a quarter", feedback = "The leopard divided once too often." },
    { text = "a half", correct = true },
]
"""
CELLS = [
    """
from pathlib import Path

import torch
from attnlab.display import texts
from attnlab.display import lesson_setup
from attnlab.exercises import predict
from attnlab.plotting import plot_attention

texts.FOLDERS = (Path("PLACE"),)  # the kernel may have been started elsewhere
lesson_setup()
""",
    'predict("17/choice")',
    '%%answer 17/choice\nprint("A hyena.")\nplot_attention(torch.eye(2))',
    'predict("17/other")',
    '%%answer 17/other\n"A cheetah."',
    fold(new_markdown_cell("The ocelot told **all**.", metadata={"answers": "17/choice"})),
]
ANSWERS = ("zebra", "lion", "ocelot", "hyena", "giraffe", "leopard", "cheetah", "So it is")
IN_SIGHT = "() => document.querySelector('.jp-Notebook').innerText"
FOCUSED = "() => document.activeElement.textContent"
COUNTS = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .map(cell => cell.executionCount)"""


@pytest.fixture(scope="module")
def look(open_page, server, write_notebook):
    """The notebook, run; the tests below follow each other in it, as a learner's evening does."""
    (server.root / "17_zebras.toml").write_text(QUESTIONS)
    setup, *cells = CELLS
    setup = setup.replace("PLACE", str(server.root))
    look = open_page(write_notebook("predict.ipynb", setup, *cells))
    look.run()
    look.page.locator(".attnlab-predict").nth(1).wait_for()
    yield look
    assert look.errors() == look.problems == look.outside == []
    look.put_away()  # its kernel knows other predictions than the next notebook


def in_sight(look: NotebookPage) -> list[str]:
    """Return the answers that can be read, other than in the source of a cell."""
    text = look.page.evaluate(IN_SIGHT)
    for cell in CELLS[:-1]:
        for line in cell.splitlines():
            text = text.replace(line, "")
    return [answer for answer in ANSWERS if answer in text]


def fold(look: NotebookPage, key: str):
    return look.page.locator(f'.jp-OutputArea details.attnlab-answer[class~="{key}"]')


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
    expect(box.get_by_role("status")).to_contain_text("✗ Not quite. You said: nothing")
    # what answers has opened itself, in the output and in the text
    assert in_sight(look) == ["zebra", "lion", "ocelot", "hyena"]
    expect(fold(look, "17/choice").locator("summary")).to_have_text("The answer")
    marks = box.get_by_role("button").evaluate_all("all => all.map(one => one.dataset.mark)")
    assert marks == ["✗ ", "✓ ", None]
    assert page.evaluate(FOCUSED) == "nothing"
    box.get_by_role("button", name="some").click(force=True)  # it is too late
    assert "You said: nothing" in box.inner_text()
    kept = look.ask("from attnlab.display import folds; print(folds.committed)")
    assert kept == "{'17/choice': 'nothing'}"
    box.get_by_role("button", name="Answer again").press("Enter")
    assert page.evaluate(FOCUSED) == "nothing"
    expect(box.get_by_role("status")).to_be_empty()
    page.keyboard.press("Enter")
    expect(box.get_by_role("status")).to_contain_text("You said: nothing")
    assert page.evaluate(COUNTS) == counts  # no shortcut of JupyterLab ran a cell


def test_a_cell_that_runs_again_shows_what_was_said(look):
    page = look.page
    box = page.locator(".attnlab-predict").nth(1)
    box.get_by_role("button", name="a quarter").click()
    expect(box.get_by_role("status")).to_contain_text("The leopard divided once too often.")
    assert {"giraffe", "leopard", "cheetah"} <= {*in_sight(look)}
    look.run([3])
    expect(box.get_by_role("status")).to_contain_text("You said: a quarter")


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
