"""Saved today, opened tomorrow: by another server, whose kernels answer late."""

import nbformat
import pytest
from playwright.sync_api import expect

from tools import lab
from tools._browser import IS_READY, TOKEN, NotebookPage, serve
from tools.tomorrow import VIEW

LESSONS = [path.name for path in lab.find_lessons(lab.LESSONS) if path.name[:2] in "00 02 03 07"]
LATE = "import time\ntime.sleep(5)\n"
STORED = ".attnlab-predict-stored, .attnlab-live-stored, .attnlab-explorer"


def answer_first(look):
    """Answer the first prediction of a lesson; return what was said."""
    box = look.page.locator(".attnlab-predict").first
    number = box.get_by_role("textbox")
    if number.count():
        number.fill("123")
        number.press("Enter")
    else:
        box.get_by_role("button").first.click()
    expect(box.get_by_role("status")).to_contain_text("You said")
    return box.get_by_role("status").locator("b").nth(1).inner_text()


@pytest.fixture(scope="module")
def saved(browser, tmp_path_factory):
    """Return a folder of lessons that were run, answered and saved, its home, and the answers."""
    root, home = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("home")
    copies = lab.copy_new([lab.LESSONS / name for name in LESSONS], root / lab.COPIES.name)
    lab.trust(copies, home)
    said = {}
    with serve(root, home) as today:
        look = NotebookPage(browser, today)
        for path in copies:
            look.open(f"{lab.COPIES.name}/{path.name}")
            look.run()
            said[path.name] = answer_first(look)
            look.save()
        assert look.errors() == look.problems == look.outside == []
        look.close()
    return root, home, said


def test_what_is_saved_needs_no_kernel(saved):
    root, _, _ = saved
    for name in LESSONS:
        notebook = nbformat.read(root / lab.COPIES.name / name, as_version=4)
        outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
        assert not any(VIEW in output.get("data", {}) for output in outputs)
        assert "widgets" not in notebook.metadata


@pytest.mark.parametrize(
    ("plain", "names"), [(False, LESSONS), (True, LESSONS[:1])], ids=["make lab", "jupyter lab"]
)
def test_tomorrow_all_is_there_even_before_a_kernel_answers(saved, browser, plain, names):
    root, home, said = saved
    startup = home / "ipython" / "profile_default" / "startup" / "late.py"
    startup.parent.mkdir(parents=True, exist_ok=True)
    startup.write_text(LATE)
    with serve(root, home, plain=plain) as tomorrow:
        look = NotebookPage(browser, tomorrow)
        page = look.page
        for name in names:
            path = f"{lab.COPIES.name}/{name}"
            page.goto(f"{tomorrow.url}/lab/tree/{path}?token={TOKEN}&reset")
            page.locator(STORED).first.wait_for()
            answer = page.locator(".attnlab-predict-stored").first
            expect(answer).to_contain_text(f"You said {said[name]}.")
            assert answer.locator("details").get_attribute("open") is not None
            folds = page.locator("details.attnlab-answer")
            keys = folds.evaluate_all("all => all.map(one => [one.dataset.key, one.open])")
            assert {is_open for key, is_open in keys if key == keys[0][0]} == {True}
            card = page.locator(".card").filter(has=page.get_by_role("slider")).first
            if card.count():
                card.get_by_role("slider").first.press("Home")
                first = card.locator(".picture").inner_html()
                card.get_by_role("slider").first.press("End")
                expect(card.locator(".picture")).not_to_have_js_property("innerHTML", first)
            page.wait_for_function(IS_READY, arg=path, polling=100)
            assert page.get_by_text("Error displaying widget").count() == 0
        assert look.problems == look.outside == []
        look.close()
