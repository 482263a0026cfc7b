"""Controls and what they change are in sight together, wherever an explorer is shown."""

import pytest

from tests.browser.pages import pieces_of, read, wait_until
from tests.explorers.common import KINDS
from tools.publish.site.pages import asset

# What JupyterLab leaves an output beside its open side bar, a projector, a phone with the bars of
# its browser: width, height, and whether the whole picture is in sight from the top of the card.
# In any other case each part of a picture can be seen with the controls.
PLACES = {
    "JupyterLab at 1366 x 768": (919, 647, True),
    "JupyterLab without the side bar": (1171, 647, True),
    "JupyterLab at 1024 x 768": (577, 647, False),
    "JupyterLab at a zoom of 150 %": (745, 512, False),
    "projector at 1920 x 1080": (1856, 1080, True),
    "projector in JupyterLab": (1488, 959, False),
    "phone": (358, 664, False),
}
BOXES = """<style>.jp-OutputArea, .jp-OutputArea-output { overflow: auto; }
.jp-OutputArea-child { overflow: hidden; }</style>"""  # as JupyterLab has them around an output
AROUND = "jp-CodeCell", "jp-OutputArea", "jp-OutputArea-child", "jp-OutputArea-output"
# Of a card: how far its picture reaches beyond the window, the card's top at the top; and by how
# much each part of the picture does not fit between the controls and the end of the window.
BEYOND = """host => {
    const card = host.shadowRoot.querySelector('.card'), bar = card.querySelector('.bar');
    const boxOf = (element) => element.getBoundingClientRect();
    const parts = [...card.querySelector('.picture').children];
    scrollBy(0, boxOf(card).top);
    const whole = Math.max(...parts.map(one => boxOf(one).bottom)) - innerHeight;
    const each = parts.map(one => {
        scrollBy(0, boxOf(one).top - boxOf(bar).height);
        const top = boxOf(bar), part = boxOf(one);
        return Math.max(-top.top, top.bottom - part.top, part.bottom - innerHeight);
    });
    return [card.ariaLabel, whole, Math.max(...each)];
}"""
WIDTHS = {"off": range(358, 1221, 40), "on": range(560, 1861, 100)}  # px, at either size
# Of a card: each number that is wider than its cell, and each thing that is beyond the card.
CUT = """host => {
    const card = host.shadowRoot.querySelector('.card'), range = document.createRange();
    const {left, right} = card.getBoundingClientRect();
    const widthOf = (cell) => {
        range.selectNodeContents(cell);
        return range.getBoundingClientRect().width;
    };
    const seen = [...card.querySelectorAll('.picture *')].filter(one => one.checkVisibility()
        && !one.closest('svg, .arcs.long') && !one.matches('.unseen, :has(> .unseen)'));
    const boxes = seen.map(one => [one, one.getBoundingClientRect()]);
    return boxes.filter(([one, box]) => box.right > right + 1 || box.left < left - 1
        || (one.matches('.cell') && widthOf(one) > box.width))
        .map(([one]) => `${card.ariaLabel}: ${one.textContent.slice(0, 40)}`);
}"""
SLIDE = """<section class="slide explorer" style="font-size: 30px; --zoom: 1.25">
<h2>A sentence over it.</h2><div class="body"><div class="shown">{}</div></div></section>"""
LEAST = 0.03 * 720  # px, of text on a slide that is 720 px high
# Of a slide: the size of its smallest label or sentence, and how many things are cut off.
SEEN = """slide => {
    const card = slide.querySelector('.attnlab-explorer').shadowRoot.querySelector('.card');
    const {right, bottom} = slide.getBoundingClientRect();
    const isOut = (one) => {
        const box = one.getBoundingClientRect();
        return one.checkVisibility() && !one.closest('.unseen, .asking .picture')
            && (box.bottom > bottom || box.right > right);
    };
    const sizes = [...card.querySelectorAll('.say, .bar :is(label, .label), .gate p')]
        .map(one => parseFloat(getComputedStyle(one).fontSize) * one.currentCSSZoom);
    return [card.ariaLabel, Math.min(...sizes),
        [...card.querySelectorAll('*')].filter(isOut).length + (slide.scrollHeight > 720)];
}"""


@pytest.fixture(scope="module")
def page(tab, tmp_path_factory):
    """A page of every explorer, each in the boxes of an output of JupyterLab."""
    script, *pieces = pieces_of([kind(ask=False) for kind in KINDS])
    boxes = "".join(f'<div class="{name}">' for name in AROUND)
    pages = [f"{boxes}{piece}{'</div>' * len(AROUND)}" for piece in pieces]
    end = "<style>body { margin: 0 0 2000px; }</style>"
    return tab.show(tmp_path_factory.mktemp("page"), BOXES, script, *pages, end)


@pytest.mark.parametrize("place", PLACES)
def test_controls_and_what_they_change_are_in_sight_together(page, place):
    width, height, at_once = PLACES[place]
    page.set_viewport_size({"width": width, "height": height})
    is_large = "on" if place.startswith("projector") else "off"
    page.evaluate("on => { document.documentElement.dataset.projector = on; }", is_large)
    large = page.locator(".attnlab-explorer.large")
    wait_until(page, lambda: large.count() == (is_large == "on") * len(KINDS), "the size")
    beyond = read(page.locator(".attnlab-explorer"), BEYOND)
    assert len(beyond) == len(KINDS)
    assert [(name, part) for name, _, part in beyond if part > 1] == []
    assert not at_once or [(name, whole) for name, whole, _ in beyond if whole > 0] == []


@pytest.mark.parametrize("size", WIDTHS)
def test_no_number_is_wider_than_its_cell_and_no_table_than_its_card(page, size):
    page.evaluate("on => { document.documentElement.dataset.projector = on; }", size)
    for width in WIDTHS[size]:
        page.set_viewport_size({"width": width, "height": 700})
        cut = read(page.locator(".attnlab-explorer"), CUT)
        assert [text for one in cut for text in one] == [], f"{width} px"


def test_explorers_fill_a_slide_and_are_read_from_the_last_row(tab, tmp_path):
    script, *pieces = pieces_of([kind() for kind in KINDS])
    style = f"<style>{asset('site.css')}{asset('slides.css')}</style>"
    page = tab.show(tmp_path, style, script, *map(SLIDE.format, pieces))
    page.evaluate("document.documentElement.dataset.slides = ''")
    wait_until(page, lambda: page.locator(".slide .slide").count() == len(KINDS), "slides")
    for step in ("asked", "answered"):
        seen = read(page.locator("section.slide"), SEEN)
        assert [one for one in seen if one[1] < LEAST or one[2]] == [], step
        read(page.get_by_role("button", name="skip"), "skip => skip.click()")
