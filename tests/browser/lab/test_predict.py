"""`predict` in JupyterLab: the answer is not in the page before a commit, by mouse or keyboard."""

import os

import nbformat
import pytest
from playwright.sync_api import expect

from tools._browser import NO_BROWSER, find_browser

pytestmark = pytest.mark.browser
if find_browser() is None and os.environ.get("CI") != "true":  # in CI each test fails without
    pytest.skip(NO_BROWSER, allow_module_level=True)

CHOICE = """
predict(
    r"A score of 0, with $\\sqrt{d_k} = 8$: how much **weight**?",
    options=["nothing", "some", "all"],
    reveal="Some of it, the zebra says.",
)
"""
NUMBER = """
predict(
    "How much?",
    number="share of weight",
    reveal="A half, the giraffe says.",
)
"""
WHOLE_PAGE = "() => document.documentElement.innerHTML"
FOCUSED = "() => document.activeElement.textContent"
COUNTS = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .map(cell => cell.executionCount)"""
# the contrast of text with what lies behind it, for each element of a widget that holds text
CONTRASTS = """root => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const behind = element => {
        const layers = [];
        for (let one = element; one; one = one.parentElement)
            layers.unshift(getComputedStyle(one).backgroundColor);
        return layers;
    };
    const paint = colors => {
        for (const color of colors) {
            canvas.fillStyle = color;
            canvas.fillRect(0, 0, 1, 1);
        }
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(
            c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    return [...root.querySelectorAll('p, button, label, input')].map(element => {
        const layers = behind(element);
        const pair = [paint(layers), paint([...layers, getComputedStyle(element).color])];
        return [element.textContent.slice(0, 20),
                (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05)];
    });
}"""


@pytest.fixture(scope="module")
def notebook(open_page, server):
    """A notebook with two predictions, their sources folded as in the lessons."""
    cells = [
        nbformat.v4.new_code_cell(source)
        for source in ("from attnlab.exercises import predict", CHOICE.strip(), NUMBER.strip())
    ]
    for cell in cells[1:]:
        cell.metadata["jupyter"] = {"source_hidden": True}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    nbformat.write(notebook, server.root / "predict.ipynb")
    return open_page("predict.ipynb")


@pytest.fixture
def look(notebook):
    """The notebook run anew: both questions are open."""
    notebook.run_all()
    buttons = notebook.page.locator(".attnlab-predict button")
    expect(buttons.filter(visible=True)).to_have_count(4)
    expect(notebook.page.locator(".attnlab-predict button:disabled")).to_have_count(0)
    yield notebook
    assert notebook.errors() == notebook.problems == notebook.outside == []


def shows(look, text: str) -> None:
    """Wait until a text is to be seen."""
    look.page.get_by_text(text).first.wait_for(state="visible")


def is_focused(look, text: str) -> None:
    """Wait until what has this text has the focus: the answer of the kernel may be on its way."""
    look.page.wait_for_function(f"text => ({FOCUSED})() === text", arg=text)


def test_the_answer_is_not_in_the_page_before_a_click_and_is_after(look):
    look.page.locator(".attnlab-predict mjx-container").first.wait_for()  # the formula
    before = look.page.evaluate(WHOLE_PAGE)
    assert "zebra" not in before
    assert "giraffe" not in before
    look.page.get_by_role("button", name="some").click()
    shows(look, "Some of it, the zebra says.")
    box = look.page.locator(".attnlab-predict").first
    expect(box.get_by_role("status")).to_contain_text("You said some.")
    expect(box.get_by_role("button", name="✓ some")).to_have_count(1)
    expect(box.get_by_role("button", name="nothing")).to_be_disabled()
    assert "giraffe" not in look.page.evaluate(WHOLE_PAGE)


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_keyboard_commits_and_keeps_its_place(look, key):
    counts = look.page.evaluate(COUNTS)
    look.page.get_by_role("button", name="nothing").focus()
    look.page.keyboard.press("Tab")
    is_focused(look, "some")
    look.page.keyboard.press(key)
    shows(look, "Some of it, the zebra says.")
    is_focused(look, "✓ some")
    look.page.keyboard.press("Tab")  # on to the next question
    look.page.wait_for_function("() => document.activeElement.closest('.jp-Cell') !== null")
    assert look.page.evaluate(COUNTS) == counts  # no shortcut of JupyterLab ran a cell


def test_a_number_is_typed_and_enter_commits(look):
    box = look.page.get_by_label("share of weight")
    box.click()
    look.page.keyboard.type("half")
    look.page.keyboard.press("Enter")
    shows(look, "Write a number, such as 0.25.")
    assert "giraffe" not in look.page.evaluate(WHOLE_PAGE)
    box.press("Control+a")
    look.page.keyboard.type("0.001")  # 0 twice would restart the kernel, were it a shortcut
    look.page.keyboard.press("Enter")
    shows(look, "A half, the giraffe says.")
    shows(look, "You said 0.001.")
    expect(box).to_be_disabled()
    is_focused(look, "✓ Committed")


def test_a_number_is_committed_by_the_button_not_by_leaving_the_box(look):
    look.page.get_by_label("share of weight").fill("0.5")
    look.page.keyboard.press("Tab")
    look.page.wait_for_timeout(500)
    assert "giraffe" not in look.page.evaluate(WHOLE_PAGE)
    is_focused(look, "Commit")
    look.page.keyboard.press("Enter")
    shows(look, "You said 0.5.")


def test_all_words_can_be_read_in_both_themes(look):
    look.page.get_by_role("button", name="some").click()
    shows(look, "Some of it, the zebra says.")
    look.page.mouse.move(0, 0)
    for theme, light in (("JupyterLab Dark", "false"), ("JupyterLab Light", "true")):
        change = "theme => { jupyterapp.commands.execute('apputils:change-theme', {theme}); }"
        look.page.evaluate(change, theme)
        look.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'")
        look.page.wait_for_timeout(500)  # the style sheet and the colours settle
        for widget in look.page.locator(".attnlab-predict").all():
            contrasts = widget.evaluate(CONTRASTS)
            assert len(contrasts) >= 4
            assert [pair for pair in contrasts if pair[1] < 4.5] == []
