"""What is run today and saved is there tomorrow: by another server, whose kernels answer late.

Today comes first: a lesson opens trusted, with its answers folded, and runs without an error.
"""

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell
from playwright.sync_api import expect

from tests.browser.lab.conftest import LESSON
from tests.browser.lab.jupyterlab import IS_READY, OPEN, TOKEN, NotebookPage, serve
from tools.build.sources import fold
from tools.lab import __main__ as lab
from tools.lab.saved_notebook import VIEW

FORMS = [  # of what is stored: predictions, what they fold, figures, explorers
    """
from attnlab.display import lesson_setup
from attnlab.exercises import predict
from attnlab.explorers import SoftLookupExplorer
from attnlab.explorers import live

lesson_setup()
""",
    'predict("00/place-of-cat")',
    '%%answer 00/place-of-cat\n"A hyena."',
    """
def draw(fig, d_k):
    fig.subplots().bar(["a", "b"], [1, d_k])

live(draw, d_k=[1, 2, 4], alt="Two bars.")
""",
    "SoftLookupExplorer(ask=False)",
    fold(new_markdown_cell("A hyena, too.", metadata={"answers": "00/place-of-cat"})),
]
NAMES = [f"{lab.COPIES.name}/{LESSON.name}", "forms.ipynb"]
LATE = "import time\ntime.sleep(5)\n"
STORED = ".attnlab-predict-stored, .attnlab-live-stored, .attnlab-explorer"
IS_SHOWN = "path => window.jupyterapp?.shell.currentWidget?.context?.path === path"
IS_TRUSTED = """[...window.jupyterapp.shell.currentWidget.content.model.cells]
    .every(cell => cell.type !== 'code' || cell.trusted)"""


@pytest.fixture(scope="module")
def said(open_page, write_notebook):
    """Run and save the notebooks; return what was answered in each of them."""
    write_notebook(NAMES[1], *FORMS)
    said = {}
    for name in NAMES:
        look = open_page(name)
        if name == NAMES[0]:
            check_first_look(look)
        look.run()
        box = look.page.locator(".attnlab-predict").first
        box.get_by_role("button").first.click()
        expect(box.get_by_role("status")).to_contain_text("You said")
        said[name] = box.get_by_role("status").locator("b").nth(1).inner_text()
        look.save()
        assert look.errors() == look.problems == look.outside == []
    look.put_away()
    return said


def check_first_look(look):
    """Fail unless a lesson is trusted, its answers are folded, and opening it changes nothing."""
    assert look.page.evaluate(IS_TRUSTED)
    folds = look.page.locator("details.attnlab-answer, .attnlab-predict-stored > details")
    assert folds.count() >= 3
    assert not any(folds.evaluate_all("all => all.map(one => one.open)"))
    look.page.wait_for_timeout(1000)  # for what JupyterLab adds when the kernel has answered
    assert not look.page.evaluate("window.jupyterapp.shell.currentWidget.context.model.dirty")


@pytest.mark.usefixtures("said")
def test_what_is_saved_needs_no_kernel(server):
    for name in NAMES:
        notebook = nbformat.read(server.root / name, as_version=4)
        outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
        assert not any(VIEW in output.get("data", {}) for output in outputs)
        assert "widgets" not in notebook.metadata


def test_tomorrow_all_is_there_even_before_a_kernel_answers(said, browser, home, server):
    """In a plain `jupyter lab`, which has only the files: `make lab` adds nothing to what is saved.

    The kernels of both start late.
    """
    startup = home / "ipython" / "profile_default" / "startup" / "late.py"
    startup.parent.mkdir(parents=True, exist_ok=True)
    startup.write_text(LATE)
    with serve(server.root, home, plain=True) as tomorrow:
        look = NotebookPage(browser, tomorrow)
        page, panel = look.page, look.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        page.goto(f"{tomorrow.url}/lab/tree/{NAMES[0]}?token={TOKEN}&reset")
        for name in NAMES:
            if name != NAMES[0]:
                look.do(OPEN, name)
            page.wait_for_function(IS_SHOWN, arg=name)
            panel.locator(STORED).first.wait_for()
            answer = panel.locator(".attnlab-predict-stored").first
            expect(answer).to_contain_text(f"You said: {said[name]}")
            assert answer.locator("details").get_attribute("open") is not None
            folds = panel.locator("details.attnlab-answer")
            key = folds.first.evaluate("one => one.classList[1]")
            expect(
                panel.locator(f'details[class~="{key}"]').nth(1)
            ).to_be_attached()  # output and text
            keys = folds.evaluate_all("all => all.map(one => [one.classList[1], one.open])")
            assert {is_open for one, is_open in keys if one == key} == {True}
            card = panel.locator(".card").filter(has=page.get_by_role("slider")).first
            if card.count():
                card.get_by_role("slider").first.press("Home")
                first = card.locator(".picture").inner_html()
                card.get_by_role("slider").first.press("End")
                expect(card.locator(".picture")).not_to_have_js_property("innerHTML", first)
            page.wait_for_function(IS_READY, arg=name, polling=100)
            assert panel.get_by_text("Error displaying widget").count() == 0
        assert look.problems == look.outside == []
        look.context.close()
    startup.unlink()
