"""`make poll` on slides: a question shows its votes, then its answer, and → goes on from there."""

import subprocess
import sys

import pytest
from tornado.testing import bind_unused_port


@pytest.fixture
def poll():
    """Return the addresses of a poll: for the teacher, of its slides, and for phones."""
    socket, port = bind_unused_port()
    socket.close()
    command = [sys.executable, "-u", "-m", "tools.poll", "3", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said = dict(process.stdout.readline().split(": ", 1) for _ in range(4))
        yield [said[page].strip() for page in ("For you", "On slides", "For phones")]
        process.terminate()


@pytest.fixture
def visit(browser):
    """Return a function that opens a page in a browser that nobody used before."""
    contexts = []

    def open_page(address):
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 720}))
        page = contexts[-1].new_page()
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()


def test_votes_and_answer_come_to_the_slide(poll, visit):
    _, slides, phones = poll
    page, phone = visit(slides), visit(phones)
    page.wait_for_function("() => window.Reveal?.isReady()")
    phone.locator("#said", has_text="not been asked yet").wait_for()
    number = page.evaluate(
        "Reveal.getSlides().findIndex(slide => slide.matches('.question:has(iframe)'))"
    )
    page.evaluate("number => Reveal.slide(number)", number)
    shown = page.frame_locator("section.present iframe")
    shown.locator("#voted", has_text="0 votes").wait_for()
    phone.locator("button").first.click()
    shown.locator("#voted", has_text="1 vote").wait_for()
    for brought in (".count:text-is('1 · 100 %')", "li.right"):
        assert not shown.locator(brought).count()
        page.keyboard.press("ArrowRight")
        shown.locator(brought).first.wait_for()
    assert page.evaluate("Reveal.getIndices().h") == number
    page.keyboard.press("ArrowRight")
    assert page.evaluate("Reveal.getIndices().h") == number + 1
    page.keyboard.press("ArrowLeft")
    shown.locator("li.right").wait_for()


def test_both_arrows_are_equally_small_at_each_step_and_reasons_are_nearly_as_large_as_options(
    poll, visit
):
    page = visit(poll[0])
    for brought in ("#options li", ".count:text-is('0 · 0 %')", "li.right"):
        page.locator(brought).first.wait_for()
        back, on = (page.locator(arrow).bounding_box()["width"] for arrow in ("#back", "#on"))
        assert back == on < 80
        if brought != "li.right":
            page.keyboard.press("ArrowRight")
    size = "parts => parts.map(part => parseFloat(getComputedStyle(part).fontSize))"
    option, reason = page.locator("li:has(.reason) b, .reason").evaluate_all(size)[:2]
    assert reason > 0.8 * option
