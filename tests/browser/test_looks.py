"""How explorers look: wide, narrow, large and dark, for everybody."""

import pytest

from attnlab.explorers import (
    DealExplorer,
    MaskExplorer,
    RealHeadsExplorer,
    RowExplorer,
    ScalingExplorer,
    SoftLookupExplorer,
)
from attnlab.explorers.real_heads import CHOICES
from tests.browser.pages import barriers, wait_until
from tests.explorers.common import KINDS

# Beside the first state of every explorer: rows without a key that leak, wrong cards, a long
# sentence, long names, a question that comes first.
STATES = [
    MaskExplorer(ask=False, fill="0 after", toggled=[(0, 5)]),
    DealExplorer(ask=False, split="cut", heads=4),
    RealHeadsExplorer(ask=False, sentence=CHOICES["it, animal"][0]),
    MaskExplorer(),
]
# Texts that reach beyond their own box, which cuts them off or lets them run into the next; names
# of rows and columns that are cut off; what reaches beyond the page.
CUT_OFF = """card => {
    const cut = [], walker = document.createTreeWalker(card, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
        let box = node.parentElement;
        const apart = '.unseen, style, svg, .plane, [hidden]';
        if (!node.data.trim() || !box.checkVisibility() || box.closest(apart)) continue;
        while (getComputedStyle(box).display === 'inline') box = box.parentElement;
        const range = document.createRange();
        range.selectNodeContents(node);
        const text = range.getBoundingClientRect(), outer = box.getBoundingClientRect();
        if (text.right > outer.right + 1.5 || text.left < outer.left - 1.5)
            cut.push(node.data.trim());
    }
    return cut;
}"""
NARROW = """card => [...card.querySelectorAll('*')].filter(one =>
    one.getBoundingClientRect().right > innerWidth
    || (one.tagName === 'TH' && one.scrollWidth > one.clientWidth))
    .map(element => element.outerHTML.slice(0, 80))"""


def in_cards(page, script):
    """Return what a function of a card gives, for all cards, one list."""
    return page.locator(".attnlab-explorer").evaluate_all(
        f"hosts => hosts.flatMap(host => ({script})(host.shadowRoot.querySelector('.card')))"
    )


@pytest.fixture(scope="module")
def page(open_cards):
    """A page of every explorer."""
    return open_cards([kind(ask=False) for kind in KINDS] + STATES)[0].page


@pytest.mark.parametrize(  # 860: beside JupyterLab's own at 1024
    ("width", "looks"), [(1366, CUT_OFF), (860, CUT_OFF), (390, NARROW)]
)
def test_nothing_is_cut_off(page, width, looks):
    page.set_viewport_size({"width": width, "height": 900})
    assert in_cards(page, looks) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1180, 919, 577])
def test_all_of_a_mask_is_in_sight_of_its_controls(page, width):
    """919 and 577: JupyterLab at 1366 and at 1024 pixels with its side bar open."""
    page.set_viewport_size({"width": width, "height": 900})
    reach = """card => card.querySelector('.masks') ? [[
        card.querySelectorAll('section')[2].getBoundingClientRect().bottom
        - card.querySelector('.bar').getBoundingClientRect().top,
        ...[...card.querySelectorAll('section')].map(one => one.offsetHeight)]] : []"""
    for depth, *heights in in_cards(page, reach):
        assert depth < 647
        assert max(heights) - min(heights) < 2  # rows of the three stand side by side


def test_the_picture_stays_where_it_is_while_the_sentence_changes(page):
    page.set_viewport_size({"width": 860, "height": 900})
    card, places = page.locator(".card").nth(KINDS.index(ScalingExplorer)), set()
    for stop in range(8):
        card.locator("input[type=range]").last.fill(str(stop))
        places.add(card.locator(".picture").bounding_box()["y"])
    assert len(places) == 1


def test_one_button_makes_all_cards_large_and_small_again(page):
    page.set_viewport_size({"width": 1366, "height": 900})
    sizes = """card => ['h3', '.say', 'button'].map(one => card.querySelector(one))
        .map(one => parseFloat(getComputedStyle(one).fontSize) * one.currentCSSZoom)"""
    small, button = in_cards(page, sizes), page.locator(".card").nth(1)
    button = button.get_by_role("button", name="Projector")
    button.click()
    small_ones = page.locator(".attnlab-explorer:not(.large)")
    wait_until(page, lambda: small_ones.count() == 0, "all are large")
    now = in_cards(page, sizes)
    assert min(size / before for size, before in zip(now, small, strict=True)) >= 1.1
    assert in_cards(page, CUT_OFF) == []
    button.click()
    wait_until(page, lambda: in_cards(page, sizes) == small, "all are small again")


# Together they hold every kind of panel and of control.
FEW = [ScalingExplorer, SoftLookupExplorer, RowExplorer, RealHeadsExplorer]


@pytest.mark.parametrize(("background", "some"), [("#ffffff", FEW), ("#111111", FEW[:3])])
def test_axe_finds_nothing_but_what_is_made_wrong(open_cards, background, some):
    leaks = MaskExplorer(ask=False, fill="0 after")
    cards = open_cards([leaks, MaskExplorer(), *(kind(ask=False) for kind in some)])
    page, dark = cards[0].page, background == "#111111"
    page.evaluate("color => { document.body.style.backgroundColor = color; }", background)
    page.locator(f".card{'.dark' if dark else ':not(.dark)'}").nth(len(cards) - 1).wait_for()
    host, contrast = ".attnlab-explorer", "color-contrast"
    rules = [contrast] if dark else []
    wait_until(page, lambda: barriers(page, host, *rules) == [], "colours have faded: no barrier")
    page.locator(".hint").first.evaluate("hint => { hint.style.color = 'var(--soft)'; }")
    ((rule, element),) = barriers(page, host, contrast)
    assert (rule, "hint" in element) == (contrast, True)
