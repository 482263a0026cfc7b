"""Live figures on the web pages and slides: every control moves them, by keyboard and by mouse."""

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlab.live import live
from tests.browser.pages import FilePage, barriers
from tools import site, slides
from tools.live_figures import payload_of

WORDS = ["alike", "twice"]


def draw(fig, step, word, turned):
    heights = [1, step]
    fig.subplots().bar([word, "b"], heights[::-1] if turned else heights, color="#0b61a4")
    fig.axes[0].set_title(f"{step} {word} {turned}")
    return f"$x$ is {step}, {word}" if step < 4 else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A made-up lesson with one live figure, and the page of the same without its pictures."""
    controls = {"step": [1, 2, 4], "word": WORDS, "turned": False}
    figure = live(draw, start={"step": 1}, figsize=(5, 2), alt="Two bars.", **controls)
    folder = tmp_path_factory.mktemp("frames")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLAB_STATIC", "1")
        output = new_output("execute_result", figure._repr_mimebundle_(), execution_count=1)
    cells = [new_markdown_cell("# 0 · Made up\n\nWords."), new_code_cell("f", outputs=[output])]
    notebook, frames = folder / "00_made_up.ipynb", {output.data["text/html"]: payload_of(figure)}
    write(new_notebook(cells=cells), notebook)
    site.write_site(folder / "moving", [notebook], frames=lambda path: frames)
    site.write_site(folder / "still", [notebook])
    slides.write_slides(folder / "slides", [notebook], frames=lambda path: frames)
    return folder


class LivePage:
    """The page of the made-up lesson."""

    def __init__(self, tab, folder, box=".card"):
        self.page = tab.open(folder / "00_made_up.html")
        self.box = self.page.locator(box)
        self.slider = self.box.get_by_role("slider")

    @property
    def picture(self):
        return self.box.locator("img").evaluate("img => img.decode().then(() => img.src)")

    @property
    def said(self):
        said = self.box.locator("[role=status]")
        return " ".join(said.inner_text().split()) if said.is_visible() else ""


@pytest.fixture
def look(tab, folder):
    tab.start_anew()
    yield LivePage(tab, folder / "moving")
    assert tab.problems == tab.outside == []


def test_the_keyboard_moves_the_figure_to_a_picture_for_every_stop(look):
    start, reached = look.picture, set()
    assert look.said == "𝑥 is 1, alike"
    for word in WORDS:
        look.box.get_by_role("radio", name=word).press("Space")
        for turned in ("on", "off"):
            look.box.get_by_role("radio", name=turned).press("Space")
            look.slider.press("Home")
            for said in (f"𝑥 is 1, {word}", f"𝑥 is 2, {word}", ""):
                assert look.said == said
                reached.add(look.picture)
                look.slider.press("ArrowRight")
            assert look.slider.get_attribute("aria-valuetext") == "4"
    assert len(reached) == 12
    look.slider.press("Home")
    look.box.get_by_role("radio", name="twice").press("ArrowLeft")
    assert look.picture == start


@pytest.mark.parametrize(("size", "scheme"), [(1366, "light"), (390, "dark")])
def test_axe_finds_nothing_and_nothing_hangs_over(look, size, scheme):
    look.page.set_viewport_size({"width": size, "height": 900})
    look.page.emulate_media(color_scheme=scheme)
    assert look.page.evaluate("document.documentElement.scrollWidth") <= size
    assert barriers(look.page, ".attnlab-explorer") == []


def test_the_figure_moves_on_a_slide(tab, folder):
    tab.start_anew()
    look = LivePage(tab, folder / "slides")
    look.page.wait_for_function("() => window.Reveal?.isReady()")
    look.page.keyboard.press("ArrowDown")
    start = look.picture
    look.slider.press("ArrowRight")
    assert look.picture != start
    assert look.said == "𝑥 is 2, alike"


@pytest.mark.parametrize(("kind", "scripts"), [("still", True), ("moving", False)])
def test_without_pictures_or_scripts_it_stays_a_picture(browser, folder, kind, scripts):
    tab = FilePage(browser, java_script_enabled=scripts)
    look = LivePage(tab, folder / kind, ".attnlab-live-stored")
    assert look.box.locator("img").get_attribute("alt") == "Two bars."
    assert "The controls work in JupyterLab: step = 1, 2, 4; word" in look.box.inner_text()
    assert look.said == "𝑥 is 1, alike"
    assert look.box.locator("input").count() == 0
    tab.context.close()
