"""Live figures on the web pages and slides: every control moves them, with no kernel."""

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlab.display.figure import CSS_PIXELS_PER_INCH
from attnlab.explorers import live
from tests.browser.pages import FilePage, barriers
from tools.publish import slides
from tools.publish.live_figures import payload_of
from tools.publish.site import pages


def draw(fig, step, word):
    fig.subplots().bar([word, "b"], [1, step], color="#0b61a4")
    return f"$x$ is {step}, {word}" if step < 4 else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A made-up lesson with one live figure, and the page of the same without its pictures."""
    controls = {"step": [1, 2, 4], "word": ["alike", "twice"]}
    figure = live(draw, start={"step": 1}, figsize=(5, 2), alt="Two bars.", **controls)
    folder = tmp_path_factory.mktemp("frames")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLAB_STATIC", "1")
        output = new_output("execute_result", figure._repr_mimebundle_(), execution_count=1)
    cells = [new_markdown_cell("# 0 · Made up\n\nWords."), new_code_cell("f", outputs=[output])]
    notebook, frames = folder / "00_made_up.ipynb", {figure.facts()["key"]: payload_of(figure)}
    write(new_notebook(cells=cells), notebook)
    pages.write_site(folder / "moving", [notebook], frames=lambda path: frames)
    pages.write_site(folder / "still", [notebook])
    slides.write_slides(folder / "slides", [notebook], frames=lambda path: frames)
    return folder


def shown(card):
    """Return the picture of a figure, and its sentence, if there is one."""
    said = card.locator("[role=status]")
    words = " ".join(said.inner_text().split()) if said.is_visible() else ""
    return card.locator("img").evaluate("img => img.decode().then(() => img.src)"), words


def test_every_stop_has_its_picture_and_sentence_and_axe_finds_nothing(tab, folder):
    page = tab.open(folder / "moving" / "00_made_up.html")
    card, slider, reached = page.locator(".card"), page.get_by_role("slider"), set()
    start = shown(card)
    assert start[1] == "𝑥 is 1, alike"
    for word in ("alike", "twice"):
        card.get_by_role("radio", name=word).press("Space")
        slider.press("Home")
        for said in (f"𝑥 is 1, {word}", f"𝑥 is 2, {word}", ""):
            reached.add(shown(card))
            assert shown(card)[1] == said
            slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "4"
    assert len(reached) == 6
    slider.press("Home")
    card.get_by_role("radio", name="twice").press("ArrowLeft")
    assert shown(card) == start
    assert barriers(page, ".attnlab-explorer") == tab.problems == []


def test_a_click_opens_the_picture_that_is_shown(tab, folder):
    page = tab.open(folder / "moving" / "00_made_up.html")
    card, large = page.locator(".card"), page.get_by_role("dialog").get_by_role("img")
    page.get_by_role("slider").press("End")
    card.locator("img").click()
    assert large.get_attribute("src") == shown(card)[0]


def test_on_a_phone_the_picture_keeps_a_size_at_which_it_can_be_read(tab, folder):
    page = tab.open(folder / "moving" / "00_made_up.html")
    page.set_viewport_size({"width": 390, "height": 664})
    picture = page.locator(".card img")
    width = picture.evaluate("img => img.getBoundingClientRect().width")
    assert width == pytest.approx(0.65 * 5 * CSS_PIXELS_PER_INCH)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    picture.focus()
    page.keyboard.press("ArrowRight")  # scrolls
    page.wait_for_function("img => img.parentNode.scrollLeft > 0", arg=picture.element_handle())
    assert barriers(page, ".attnlab-explorer") == tab.problems == []


def test_the_figure_moves_on_a_slide(tab, folder):
    page = tab.open(folder / "slides" / "00_made_up.html")
    page.wait_for_function("() => window.Reveal?.isReady()")
    page.keyboard.press("ArrowDown")
    card = page.locator(".card")
    picture, _ = shown(card)
    card.get_by_role("slider").press("ArrowRight")
    assert shown(card)[0] != picture
    assert shown(card)[1] == "𝑥 is 2, alike"


@pytest.mark.parametrize(("kind", "scripts"), [("still", True), ("moving", False)])
def test_without_pictures_or_scripts_it_stays_a_picture(browser, folder, kind, scripts):
    tab = FilePage(browser, java_script_enabled=scripts)
    box = tab.open(folder / kind / "00_made_up.html").locator(".attnlab-live-stored")
    assert box.locator("img").get_attribute("alt") == "Two bars."
    assert "The controls work in JupyterLab: step = 1, 2, 4; word" in box.inner_text()
    assert box.locator("input").count() == 0
    tab.context.close()
