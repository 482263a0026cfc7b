"""Controls and what they change are in sight together, wherever an explorer is shown."""

import re
from functools import cache

import pytest

from attnlab import attention_weights, explorers
from tests.browser.pages import pieces_of, read, wait_until
from tools.build.sources import find_sources
from tools.publish.site.pages import asset

CALLS = [
    call
    for path in find_sources()
    for call in re.findall(r"^\w+Explorer\(.*\)$", path.read_text(encoding="utf-8"), re.MULTILINE)
]  # of explorers in the lessons
NAMES = vars(explorers) | {
    "patient_f_weights": lambda scores, mask: attention_weights(scores, attn_mask=mask)
}
# What JupyterLab leaves an output beside its open side bar, a projector, a phone with the bars of
# its browser: width, height, and whether the whole picture is in sight from the top of the card.
# In any other case each part of a picture can be seen with the controls.
PLACES = {
    "JupyterLab at 1366 x 768": (919, 647, True),
    "JupyterLab without the side bar": (1171, 647, True),
    "JupyterLab at 1024 x 768": (577, 647, False),
    "JupyterLab at a zoom of 150 %": (745, 512, False),
    "projector at 1920 x 1080": (1856, 1080, True),
    "projector in JupyterLab": (1488, 959, True),
    "projector at 1366 x 768": (1302, 768, True),
    "projector at 1280 x 720": (1216, 720, True),
    "phone": (358, 664, False),
}
BOXES = """<style>.jp-OutputArea, .jp-OutputArea-output { overflow: auto; }
.jp-OutputArea-child { overflow: hidden; }</style>"""  # as JupyterLab has them around an output
AROUND = "jp-CodeCell", "jp-OutputArea", "jp-OutputArea-child", "jp-OutputArea-output"
# What is measured at the start, after the longest answer, whose verdict comes at once, and after
# each control has gone to each of its ends, and, on a slide, after a word that is not known.
MOVED = """async host => {
    const card = host.shadowRoot.querySelector('.card'), seen = [];
    const measure = MEASURE;
    const look = async (what) => {
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        seen.push([card.ariaLabel, what, ...measure(host)]);
    };
    await look('start');
    const lengthOf = (one) => one.textContent.length;
    [...card.querySelectorAll('.gate button:not(.plain)')]
        .sort((one, other) => lengthOf(other) - lengthOf(one))[0]?.click();
    await look('answered');
    for (const input of card.querySelectorAll('.bar [type=range]')) {
        for (const end of [input.min, input.max]) {
            input.value = end;
            input.dispatchEvent(new Event('input'));
            await look(`${input.ariaLabel}: ${end}`);
        }
    }
    for (const one of card.querySelectorAll('.bar [type=radio], .bar button, .pairs :last-child')) {
        one.click();
        await look(one.textContent || one.value);
    }
    const form = card.querySelector('.who');
    if (form && host.matches('.slide')) {
        form.querySelector('input').value = 'qwzx';
        form.requestSubmit();
        await look('a word that cannot ask');
    }
    return seen;
}"""
# Of a card: how far its picture reaches beyond the window, the card's top at the top; and by how
# much each part of the picture does not fit between the controls and the end of the window.
BEYOND = """host => {
    const card = host.shadowRoot.querySelector('.card'), bar = card.querySelector('.bar');
    const boxOf = (element) => element.getBoundingClientRect();
    const picture = card.querySelector('.picture');  // whose parts are veiled at first
    const parts = card.matches('.asking') ? [picture] : [...picture.children];
    scrollBy(0, boxOf(card).top);
    const whole = Math.max(...parts.map(one => boxOf(one).bottom)) - innerHeight;
    const each = parts.map(one => {
        scrollBy(0, boxOf(one).top - boxOf(bar).height);
        const top = boxOf(bar), part = boxOf(one);
        return Math.max(-top.top, top.bottom - part.top, part.bottom - innerHeight);
    });
    return [whole, Math.max(...each)];
}"""
WIDTHS = {"off": range(358, 1221, 40), "on": range(560, 1861, 200)}  # px, at either size
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
LEAST = 0.03 * 720, 0.022 * 720  # px, of a label or a sentence on a slide, and of anything else
# On a slide: the size of the smallest label or sentence, of the smallest text, and how many things
# are cut off.
SEEN = """host => {
    const card = host.shadowRoot.querySelector('.card'), slide = host.closest('section');
    const {right, bottom} = slide.getBoundingClientRect();
    const seen = [...card.querySelectorAll('*')].filter(one => one.checkVisibility()
        && !one.closest('.unseen, .asking .picture'));
    const isOut = (one) => {
        const box = one.getBoundingClientRect();
        return box.bottom > bottom || box.right > right;
    };
    const sizeOf = (one) => parseFloat(getComputedStyle(one).fontSize)
        * (one.closest('svg')?.getScreenCTM().a ?? one.currentCSSZoom);
    const hasText = (one) => [...one.childNodes].some(({nodeType, nodeValue}) =>
        nodeType === Node.TEXT_NODE && nodeValue.trim());
    const smallest = (all) => Math.min(...all.map(sizeOf));
    return [smallest(seen.filter(one => one.matches('.say, .bar :is(label, .label), .gate p'))),
        smallest(seen.filter(hasText)), seen.filter(isOut).length + (slide.scrollHeight > 720)];
}"""


@cache
def in_lessons(*, questions: bool) -> list[str]:
    """Return the scripts and the explorers of all lessons; verdicts come with the answers."""
    made = [eval(call, NAMES) for call in CALLS]
    for one in made:
        one.ask = one.ask and questions
        if question := one.data["question"]:
            one.data |= {"question": {**question, "then": question["why"]}}
    return pieces_of(made)


def show(tab, folder, *, large: bool, questions: bool = False):
    """Return the explorers of all lessons on a page, each in the boxes of a JupyterLab output."""
    script, *pieces = in_lessons(questions=questions)
    boxes = "".join(f'<div class="{name}">' for name in AROUND)
    outputs = [f"{boxes}{piece}{'</div>' * len(AROUND)}" for piece in pieces]
    page = tab.show(folder, BOXES, script, *outputs, "<style>body { margin: 0 0 2000px; }</style>")
    page.evaluate(
        "on => { document.documentElement.dataset.projector = on ? 'on' : 'off'; }", large
    )
    wait_until(page, lambda: page.locator(".large").count() == large * len(CALLS), "the size")
    return page.locator(".attnlab-explorer")


def moved(shown, measure: str) -> list[list]:
    """Return what is measured of explorers while their controls move."""
    script = MOVED.replace("MEASURE", measure)
    return [seen for one in shown.all() for seen in one.evaluate(script)]


@pytest.mark.parametrize("place", PLACES)
def test_controls_and_what_they_change_are_in_sight_together(tab, tmp_path, place):
    width, height, at_once = PLACES[place]
    is_large = place.startswith("projector")
    tab.page.set_viewport_size({"width": width, "height": height})
    shown = show(tab, tmp_path, large=is_large, questions=is_large)
    beyond = moved(shown, BEYOND)
    assert [one for one in beyond if one[3] > 1 or (at_once and one[2] > 0)] == []
    assert min(read(shown, "host => host.currentCSSZoom")) >= 1  # a projector makes nothing smaller


@pytest.mark.parametrize("size", WIDTHS)
def test_no_number_is_wider_than_its_cell_and_no_table_than_its_card(tab, tmp_path, size):
    shown = show(tab, tmp_path, large=size == "on")
    for width in WIDTHS[size]:
        tab.page.set_viewport_size({"width": width, "height": 700})
        cut = read(shown, CUT)
        assert [text for one in cut for text in one] == [], f"{width} px"


def test_explorers_fill_a_slide_and_are_read_from_the_last_row(tab, tmp_path):
    script, *pieces = in_lessons(questions=True)
    style = f"<style>{asset('site.css')}{asset('slides.css')}</style>"
    page = tab.show(tmp_path, style, script, *map(SLIDE.format, pieces))
    page.evaluate("document.documentElement.dataset.slides = ''")
    shown = page.locator(".slide .attnlab-explorer.slide")
    wait_until(page, lambda: shown.count() == len(CALLS), "slides")
    faults = [one for one in moved(shown, SEEN) if one[2] < LEAST[0] or one[3] < LEAST[1] or one[4]]
    assert faults == []
