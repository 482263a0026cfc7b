"""How explorers look: large letters, nothing cut off, and nothing that only colour tells."""

import io
import re

import pytest
from PIL import Image

from attnlab import explorers, palette
from attnlab.explorers import (
    CacheExplorer,
    HeadsExplorer,
    LayersExplorer,
    MaskExplorer,
    RealHeadsExplorer,
)
from attnlab.explorers.real_heads import CHOICES
from tests.browser.pages import barriers, pieces_of

KINDS = [getattr(explorers, name) for name in explorers.__all__ if name != "Explorer"]
# Beside the first state of every explorer: rows without a key that leak or are NaN, wrong numbers,
# a long sentence, a question that comes first.
STATES = [
    MaskExplorer(ask=False, padding=[0, 1], fill="-1e9"),
    MaskExplorer(ask=False, padding=[0]),
    HeadsExplorer(ask=False, way="short cut", step="merge"),
    RealHeadsExplorer(ask=False, sentence=CHOICES["it, animal"][0]),
    LayersExplorer(ask=False, word=1, layer=0),
    CacheExplorer(ask=False, cache=True, step=6),
    MaskExplorer(),
]
# Texts that reach beyond their own box, which cuts them off or lets them run into the next.
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
BEYOND_THE_EDGE = """card => [...card.querySelectorAll('*')]
    .filter(element => element.getBoundingClientRect().right > innerWidth)
    .map(element => element.outerHTML.slice(0, 80))"""
MARKS = ("✓", "✗", "○", "–", "=", "≠")


@pytest.fixture(scope="module")
def page(tab, tmp_path_factory):
    """A page of every explorer."""
    made = [kind(ask=False) for kind in KINDS] + STATES
    return tab.show(tmp_path_factory.mktemp("looks"), *pieces_of(made))


def in_cards(page, script):
    """Return what a function of a card gives, for all cards, one list."""
    return page.locator(".attnlab-explorer").evaluate_all(
        f"hosts => hosts.flatMap(host => ({script})(host.shadowRoot.querySelector('.card')))"
    )


# --- large letters --------------------------------------------------------------------------------


def enlarge(page, large):
    in_cards(
        page, f"card => {{ card.classList.toggle('large', {str(large).lower()}); return []; }}"
    )


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("width", [1366, 1024, 860])  # 860: beside JupyterLab's own at 1024
def test_no_text_is_cut_off(page, width, large):
    page.set_viewport_size({"width": width, "height": 900})
    enlarge(page, large)
    assert in_cards(page, CUT_OFF) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1366, 390])
def test_nothing_is_wider_than_the_page(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    enlarge(page, False)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert in_cards(page, BEYOND_THE_EDGE) == []


@pytest.mark.parametrize(("width", "most"), [(1196, 620), (860, 647), (745, 512)])
def test_controls_sentence_and_picture_fit_on_a_screen(page, width, most):
    """The whole card in JupyterLab at 1366 pixels; else all down to the end of the first panel.

    860 is JupyterLab at 1024 pixels, 745 at 1366 pixels and a zoom of 150 %.
    """
    page.set_viewport_size({"width": width, "height": 900})
    enlarge(page, False)
    heights = in_cards(
        page,
        """card => {
            const main = card.querySelector('.picture').firstElementChild;
            const first = main.classList.contains('column') ? main.firstElementChild : main;
            const top = card.querySelector('.bar').getBoundingClientRect().top;
            return [[card.offsetHeight, first.getBoundingClientRect().bottom - top]];
        }""",
    )
    names = [kind.__name__ for kind in KINDS] + [repr(one) for one in STATES[:-1]]
    pairs = zip(names, heights, strict=False)  # the last one is taller until it is answered
    fits = {name: whole if width > 1180 else part for name, (whole, part) in pairs}
    assert {name: height for name, height in fits.items() if height > most} == {}


def test_one_button_makes_all_cards_large_and_small_again(page):
    large = "card => [card.classList.contains('large')]"
    font = """() => getComputedStyle(document.documentElement)
        .getPropertyValue('--jp-content-font-size1')"""  # of the text around them, in JupyterLab
    button = page.locator(".card").nth(1).get_by_role("button", name="Projector")
    count = len(in_cards(page, large))
    for pressed, size in (("true", "20px"), ("false", "")):
        button.click()
        page.wait_for_function(
            f"""() => [...document.querySelectorAll('.attnlab-explorer')].every(host => host
                .shadowRoot.querySelector('.projector').ariaPressed === '{pressed}')"""
        )
        assert in_cards(page, large) == [pressed == "true"] * count
        assert page.evaluate(font) == size


def test_large_letters_are_larger_in_every_text(page):
    """By a quarter; words that stand in a row of given width by a tenth at least."""
    sizes = """card => [...card.querySelectorAll('h3, h4, p, th, label, button, .cell')]
        .filter(element => element.checkVisibility() && element.textContent).map(element =>
            [element.outerHTML.slice(0, 60), parseFloat(getComputedStyle(element).fontSize)])"""
    enlarge(page, False)
    before = in_cards(page, sizes)
    enlarge(page, True)
    after = in_cards(page, sizes)
    enlarge(page, False)
    pairs = [(name, size, large) for (name, size), (_, large) in zip(before, after, strict=True)]
    assert [one for one in pairs if one[2] < 1.1 * one[1] or one[2] < 9] == []
    assert sum(large > 1.24 * small for _, small, large in pairs) > 0.95 * len(pairs)


# --- colours --------------------------------------------------------------------------------------


def lab_of(colour):
    """Return a colour in CIELAB, where equal steps look equally large."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (one / 255 for one in colour)
    ]
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1.0, 1.089)
    x, y, z = (
        (sum(a * b for a, b in zip(row, linear, strict=True)) / full) ** (1 / 3)
        for row, full in zip(rows, white, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one, other):
    return sum((a - b) ** 2 for a, b in zip(lab_of(one), lab_of(other), strict=True)) ** 0.5


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", ["none", "deuteranopia", "protanopia", "tritanopia"])
def test_the_colours_of_the_roles_stay_apart(page, kind, dark):
    """Raw and scaled, right and wrong, as they look to somebody who sees few colours."""
    session = page.context.new_cdp_session(page)
    page.evaluate(
        """dark => {
            const card = document.querySelector('.attnlab-explorer').shadowRoot
                .querySelector('.card').cloneNode();
            card.classList.toggle('dark', dark);
            card.id = 'swatches';
            card.style = 'position:fixed; inset:0 auto auto 0; z-index:9; width:60px; height:20px;'
                + 'display:flex; padding:0; margin:0; border:0; border-radius:0; contain:none';
            for (const role of ['raw', 'scaled', 'good']) {
                const swatch = document.createElement('div');
                swatch.style = `flex:1; background:var(--${role})`;
                card.append(swatch);
            }
            document.querySelector('.attnlab-explorer').shadowRoot.append(card);
        }""",
        dark,
    )
    session.send("Emulation.setEmulatedVisionDeficiency", {"type": kind})
    swatches = page.locator("#swatches")
    picture = Image.open(io.BytesIO(swatches.screenshot())).convert("RGB")
    session.send("Emulation.setEmulatedVisionDeficiency", {"type": "none"})
    swatches.evaluate("swatches => swatches.remove()")
    raw, scaled, good = (picture.getpixel((x, 10)) for x in (10, 30, 50))
    assert difference(raw, scaled) > 40
    assert difference(raw, good) > 20


CELLS = """card => [...card.querySelectorAll('.cell')].filter(cell => cell.checkVisibility())
    .filter(cell => cell.className.trim() === 'cell' && /^[.]\\d\\d$/.test(cell.textContent))
    .map(cell => [Number(cell.textContent), getComputedStyle(cell).backgroundColor,
        getComputedStyle(cell).color])"""


@pytest.mark.parametrize("background", ["#ffffff", "#111111"])
def test_a_weight_has_one_colour_everywhere_and_is_darker_the_larger_it_is(page, background):
    """On a light page and on a dark one: the shade of its two decimals, as in the figures."""
    page.evaluate("background => { document.body.style.backgroundColor = background; }", background)
    page.wait_for_timeout(100)
    cells = in_cards(page, CELLS)
    assert len(cells) > 150
    for weight, shade, ink in cells:
        near = [palette.shade(round(weight + step, 2)) for step in (-0.01, 0, 0.01)]
        assert tuple(map(int, re.findall(r"\d+", shade))) in near, weight
        assert ink in ("rgb(0, 0, 0)", "rgb(255, 255, 255)")
    assert palette.luminance(palette.shade(0.9)) < palette.luminance(palette.shade(0.1))
    page.evaluate("document.body.style.backgroundColor = ''")


def test_lines_of_a_chart_differ_by_dash_or_mark(page):
    """Without their colours."""
    legends = in_cards(
        page,
        """card => [...card.querySelectorAll('.legend')].map(legend =>
            [...legend.querySelectorAll('svg')].map(sample => [...sample.children].map(part =>
                part.getAttribute('stroke-dasharray') ?? part.getAttribute('d')).join()))""",
    )
    assert len(legends) >= 6
    assert all(len(set(looks)) == len(looks) for looks in legends)


def test_what_is_right_or_wrong_has_a_mark_or_a_word(page):
    said = in_cards(
        page,
        """card => [...card.querySelectorAll('.sum .bad, .sum .fine, .checks i')]
            .map(element => element.textContent.trim())""",
    )
    assert len(said) > 30
    assert [text for text in said if not text.startswith(MARKS)] == []


# --- barriers -------------------------------------------------------------------------------------

EXPLORERS = ".attnlab-explorer"


@pytest.mark.parametrize(
    ("background", "rules"), [("#ffffff", ()), ("#111111", ("color-contrast",))]
)
def test_axe_finds_nothing_but_what_is_made_wrong(page, background, rules):
    page.evaluate("background => { document.body.style.backgroundColor = background; }", background)
    page.wait_for_timeout(350)  # colours fade
    assert barriers(page, EXPLORERS, *rules) == []
    hint = page.locator(f"{EXPLORERS} .hint").first
    hint.evaluate("hint => { hint.style.color = 'var(--soft)'; }")
    ((rule, element),) = barriers(page, EXPLORERS, "color-contrast")
    assert rule == "color-contrast"
    assert "hint" in element
    hint.evaluate("hint => { hint.style.color = ''; }")
