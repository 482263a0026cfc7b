"""Predictions and answers in JupyterLab, as a learner's evening goes."""

import pytest
from playwright.sync_api import expect

from tests.browser.pages import barriers, wait_until
from tools.lab.browser import NotebookPage

QUESTIONS = r"""
[choice]
question = "A score of 0, with $\\sqrt{d_k} = 8$: how much **weight**?"
explanation = "Some of it, the zebra says."
options = [
    { text = "nothing", feedback = "The lion thought so, too." },
    { text = "some", correct = true, feedback = "So it is." },
]

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
from attnlab.display import texts
from attnlab.display import lesson_setup
from attnlab.exercises import predict
from attnlab.plotting import plot_attention

texts.PREDICTIONS = (Path("FOLDER"),)  # the kernel may have been started elsewhere
lesson_setup()
""",
    'predict("17/choice")',
    '%%answer 17/choice\nprint("A hyena.")\nplot_attention(torch.eye(2))',
    'predict("17/number")',
    '%%answer 17/number\n"A cheetah."',
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
    look.put_away()  # its kernel knows other predictions than the next notebook


def in_sight(look: NotebookPage) -> list[str]:
    """Return the answers that can be read, other than in the source of a cell."""
    text = look.page.evaluate(IN_SIGHT)
    for cell in CELLS:
        for line in cell.splitlines():
            text = text.replace(line, "")
    return [answer for answer in ANSWERS if answer in text]


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
    look.run([3])  # asks again
    expect(status).to_be_empty()


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
