"""The web pages in a real browser, opened from a folder: quiet, alone, readable, all folds open."""

import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
import torch
from nbformat import write
from nbformat.v4 import (
    new_code_cell,
    new_markdown_cell,
    new_notebook,
    new_output,
    new_raw_cell,
)
from playwright.sync_api import expect

from attnlab import _texts, palette, rotate
from attnlab.exercises import predict
from attnlab.explorers import LayersExplorer
from attnlab.explorers.layers import labelled
from attnlab.pretrained import load_layer
from tests.browser.pages import FilePage, barriers, wait_until
from tools import site
from tools._site_api import API, entry, write_api
from tools.notebooks import find_notebooks, read_notebook
from tools.student import student_copy

LESSONS = [path.stem for path in find_notebooks()]
PAGES = ["index", *LESSONS, API]

SIZES = [1366, 1024, 390]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    site.write_site(folder, [*find_notebooks(), write_api(tmp_path_factory.mktemp("api"))])
    return folder


@pytest.fixture(scope="module")
def open_named(tab, folder):
    """Open the page of a lesson, or the index."""
    return lambda name: tab.open(folder / f"{name}.html")


def wider_than(page, size):
    """Return what reaches beyond the right edge of the page and cannot be scrolled to."""
    page.set_viewport_size({"width": size, "height": 900})
    return page.evaluate(
        """size => document.documentElement.scrollWidth <= size ? []
            : [...document.querySelectorAll('body *')].filter(element =>
                element.getBoundingClientRect().right > size + 1 &&
                !element.closest('pre, .scroll, .shown, p:has(> math)'))
                .map(element => element.outerHTML.slice(0, 90))""",
        size,
    )


# Use the controls in sight until one changes the picture; return whether one did.
MOVES = """card => {
    const look = () => card.querySelector('.picture').outerHTML;
    const before = look();
    return [...card.querySelectorAll('input, button')]
        .filter(control => control.checkVisibility()).some(control => {
            if (control.type === 'range') {
                control.value = control.value === control.min ? control.max : control.min;
                control.dispatchEvent(new Event('input'));
            } else control.click();
            return look() !== before;
        });
}"""


# What a page holds: formulas that are not drawn, pictures that are not, places, links.
HOLDS = """() => {
    document.querySelectorAll('details').forEach(fold => { fold.open = true; });
    const formulas = [...document.querySelectorAll('main math')];
    return {
        titles: document.querySelectorAll('h1').length,
        formulas: formulas.length,
        undrawn: formulas.filter(math => math.getBoundingClientRect().width < 4
            || math.textContent.includes('\\\\') || math.querySelector('merror')).length,
        broken: [...document.images].filter(image => !image.naturalWidth || !image.alt).length,
        places: [...document.querySelectorAll('[id]')].map(element => element.id),
        links: [...document.links].map(link => [link.href, decodeURIComponent(link.hash)]),
    };
}"""


def visit(page):
    """Look at a page at every width, move its explorers, and return what it holds."""
    wide = [wider_than(page, size) for size in SIZES]
    scrolls = page.evaluate("document.documentElement.scrollWidth")
    page.set_viewport_size({"width": SIZES[0], "height": 900})
    hosts = page.locator(".attnlab-explorer")
    moved = [card.evaluate(MOVES) for card in hosts.locator(".card").all()]
    held = {**page.evaluate(HOLDS), "explorers": hosts.count(), "moved": moved}
    return {**held, "wide": wide, "scrolls": scrolls, "address": page.url}


@pytest.fixture(scope="module")
def visits(open_named):
    return {name: visit(open_named(name)) for name in PAGES}


# --- every page -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_all_of_it_is_drawn(visits, name):
    seen = visits[name]
    assert seen["titles"] == 1
    assert seen["wide"] == [[], [], []]
    assert seen["scrolls"] <= SIZES[-1]
    assert seen["broken"] == seen["undrawn"] == 0


def test_formulas_are_drawn(visits):
    """No other test would notice if they were left out; a lesson of few needs none."""
    assert sum(seen["formulas"] >= 3 for seen in visits.values()) >= 12


@pytest.mark.parametrize("name", LESSONS)
def test_every_explorer_of_a_lesson_moves(visits, name):
    """Each of their controls is used in test_explorers.py."""
    assert visits[name]["moved"] == [True] * visits[name]["explorers"]


def test_explorers_follow_the_theme(open_named):
    page = open_named("02_why_divide_by_the_square_root_of_d_k")
    for scheme, dark in (("dark", "true"), ("light", "false")):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            f"""() => document.querySelector('.attnlab-explorer').shadowRoot
                .querySelector('.card').classList.contains('dark') === {dark}"""
        )


def test_a_theme_that_is_chosen_stays_and_the_system_has_it_back(open_named):
    dark = "getComputedStyle(document.body).backgroundColor === 'rgb(20, 26, 33)'"
    page = open_named(LESSONS[1])
    page.get_by_label("Theme").select_option("dark")
    page = open_named(LESSONS[2])
    page.wait_for_function(
        "() => document.querySelector('.attnlab-explorer').shadowRoot.querySelector('.card.dark')"
    )
    assert page.evaluate(dark)
    assert page.get_by_label("Theme").input_value() == "dark"
    page.get_by_label("Theme").select_option("system")
    assert not page.evaluate(dark)


LARGE = """() => [document.body, document.querySelector('.attnlab-explorer').shadowRoot
    .querySelector('.card')].map(one => parseFloat(getComputedStyle(one).fontSize))"""


def test_a_page_for_a_projector_is_larger_and_so_is_the_next(open_named):
    page = open_named(LESSONS[1])
    small = page.evaluate(LARGE)
    assert page.locator(".card .projector").filter(visible=True).count() == 0
    page.get_by_role("button", name="Projector").click()
    page = open_named(LESSONS[2])
    page.wait_for_function("() => document.documentElement.dataset.projector === 'on'")
    assert all(
        large >= 1.2 * before for large, before in zip(page.evaluate(LARGE), small, strict=True)
    )
    assert [wider_than(page, size) for size in SIZES[:2]] == [[], []]
    assert barriers(page, ".top") == []
    page.set_viewport_size({"width": SIZES[0], "height": 900})
    page.get_by_role("button", name="Projector", pressed=True).click()
    assert open_named(LESSONS[1]).evaluate(LARGE) == small


def test_all_code_is_hidden_in_every_lesson_and_shown_again(open_named):
    code = open_named(LESSONS[1]).locator(".cell > :is(.highlight, .source, .solution)")
    outputs = code.page.locator(".cell > .out, .cell > .shown").filter(visible=True)
    seen, printed = code.filter(visible=True).count(), outputs.count()
    code.page.get_by_role("button", name="Hide code").click()
    open_named(LESSONS[1])
    assert (code.filter(visible=True).count(), outputs.count()) == (0, printed)
    code.page.get_by_role("button", name="Show code").click()
    assert code.filter(visible=True).count() == seen > 10


def test_code_is_copied_or_marked(open_named):
    page = open_named(LESSONS[1])
    code = page.locator(".cell .highlight").nth(1)
    code.get_by_role("button", name="Copy").press("Enter")
    code.get_by_role("button", name="Press Ctrl+C").wait_for()  # nobody allowed the clipboard
    marked = page.evaluate("getSelection().toString()").strip()
    assert marked == code.locator("pre").inner_text().strip()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.reload()
    code.get_by_role("button", name="Copy").press("Enter")
    code.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == marked
    page.context.clear_permissions()


def dead_links(visits):
    """Return the links to a page or to a place in it that are not there."""
    places = {seen["address"]: ["", *seen["places"]] for seen in visits.values()}
    return [
        (name, href)
        for name, seen in visits.items()
        for href, place in seen["links"]
        if href.startswith("file:") and place[1:] not in places.get(re.split("[?#]", href)[0], [])
    ]


def test_links_between_pages_lead_to_a_page_and_a_place(visits):
    assert dead_links(visits) == []


LINES = """number => {
    const text = document.createRange();
    text.selectNodeContents(number);
    return text.getClientRects().length;
}"""


def test_no_number_on_the_index_is_broken_into_two_lines(open_named):
    numbers = open_named("index").locator(".cards .number").all()
    assert [number.evaluate(LINES) for number in numbers if number.inner_text()] == [1] * sum(
        name[0].isdecimal() for name in LESSONS
    )


def test_one_walks_from_the_index_to_a_lesson_and_on(open_named):
    page = open_named("index")
    page.get_by_role("link", name="Start here").click()
    page.wait_for_url(f"**/{LESSONS[0]}.html")
    page.get_by_role("navigation", name="Lessons").get_by_role("link", name="Lesson 1").click()
    page.wait_for_url(f"**/{LESSONS[1]}.html")
    page.locator("main").get_by_role("link", name="hard look-up").click()
    page.wait_for_url("**/glossary.html?*#hard-look-up")
    top = page.locator("#hard-look-up").evaluate("h => h.getBoundingClientRect().top")
    assert 0 <= top < 150
    page.get_by_role("link", name="attnlab").click()
    page.wait_for_url("**/index.html")


# --- the state of explorers in the address --------------------------------------------------------


def address_with(page, part):
    """Return the address of a page once it holds a text, which is written after a moment."""
    page.wait_for_function("part => location.hash.includes(part)", arg=part)
    return page.url


def follow(page, address):
    """Open an address anew."""
    page.goto("about:blank")
    page.goto(address)


def cards_of(page):
    """Return what the explorers of a page say, and what their controls say."""
    return page.locator(".card").evaluate_all(
        """cards => cards.map(card => [card.querySelector('.say').innerText,
            ...[...card.querySelectorAll('output')].map(one => one.innerText)])"""
    )


def test_a_link_shows_what_its_sender_saw(open_named):
    page = open_named(LESSONS[1])
    look_up, row = page.locator("#explorer-1"), page.locator("#explorer-2")
    row.get_by_role("button", name="skip").press("Enter")
    row.get_by_role("button", name="Next").press("Enter")
    look_up.get_by_role("slider", name="temperature").press("ArrowLeft")
    look_up.get_by_role("slider", name="query").press("ArrowUp")
    address = address_with(page, "&2.step=2")  # what was moved last comes first
    sent = cards_of(page)
    follow(page, address)
    assert cards_of(page) == sent
    assert row.get_by_role("group", name="Predict first").count() == 0
    assert 0 <= look_up.bounding_box()["y"] < 120
    row.get_by_role("button", name="Back").press("Enter")
    page.wait_for_function("() => !location.hash.includes('2.step')")
    assert "#1." in page.url


def test_nonsense_in_an_address_is_ignored(open_named):
    page = open_named(LESSONS[1])
    fresh, address = cards_of(page), page.url
    for nonsense in (
        "1.temperature=7&1.query=[9,9]&1.query=[&1.ask=false",
        "2.step=99&2.step=&1.__proto__={}&1.constructor=1&99.x=1&0.step=1",
        "%E0%A4%A&=&1=2&.&1.=1&<b>",
    ):
        follow(page, f"{address}#{nonsense}")
        assert cards_of(page) == fresh
        assert page.locator(".gate").count() == 1
        assert page.evaluate("scrollY") == 0


def test_a_link_followed_from_its_own_page_shows_its_state(open_named):
    page = open_named(LESSONS[1])
    page.evaluate("location.hash = '1.temperature=5'")
    page.locator("#explorer-1 output", has_text="5").wait_for()


def test_a_link_to_what_an_explorer_shows_is_copied(open_named):
    page = open_named(LESSONS[1])
    address = page.url
    button = page.locator(".share").nth(1).get_by_role("button")
    button.press("Enter")
    page.get_by_role("button", name="The link is in the address bar").wait_for()
    assert page.url == f"{address}#explorer-2"
    follow(page, page.url)
    assert 0 <= page.locator("#explorer-2").bounding_box()["y"] < 120
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#explorer-1").get_by_role("slider", name="temperature").press("ArrowLeft")
    page.locator(".share").first.get_by_role("button").press("Enter")
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == f"{address}#1.temperature=0.5"
    page.context.clear_permissions()


# --- words of the glossary ------------------------------------------------------------------------


def test_a_word_shows_its_meaning_until_it_is_put_away(open_named):
    page = open_named(LESSONS[1])
    word = page.locator("main").get_by_role("link", name="hard look-up")
    meaning = page.get_by_role("tooltip")
    assert meaning.is_hidden()
    word.hover()
    assert meaning.inner_text().startswith("hard look-up ")
    assert "Lesson" not in meaning.inner_text()
    meaning.hover()
    page.wait_for_timeout(400)
    assert meaning.is_visible()  # one can go there with the pointer
    assert barriers(page, ".meaning") == []
    page.keyboard.press("Escape")
    assert meaning.is_hidden()
    word.focus()
    assert meaning.is_visible()
    described = page.locator(f"[id='{word.get_attribute('aria-describedby')}']")
    assert described.inner_text() == meaning.inner_text()
    page.keyboard.press("Tab")
    page.mouse.move(0, 0)
    assert "soft look-up" in meaning.inner_text()
    page.keyboard.press("Escape")
    assert meaning.is_hidden()


def test_a_word_leads_to_its_row_and_back_to_its_place(open_named):
    page = open_named(LESSONS[1])
    page.locator("main").get_by_role("link", name="raw score").first.press("Enter")
    page.wait_for_url("**/glossary.html?*#raw-score")
    row = page.locator("#raw-score")
    assert 0 <= row.bounding_box()["y"] < 150
    back = page.get_by_role("link", name="Back to 1 · Attention is a soft look-up")
    assert back.locator("xpath=../preceding-sibling::*[1]").get_attribute("id") == "raw-score"
    page.evaluate("location.hash = 'softmax'")  # another word on the way
    page.wait_for_function("() => document.querySelector('#softmax + p > [href*=word-]')")
    back.click()
    page.wait_for_url(f"**/{LESSONS[1]}.html#word-*")
    top = page.locator(":target + a").bounding_box()["y"]
    assert page.locator(":target + a").inner_text() == "raw score"
    assert 0 <= top < 150
    follow(page, f"{open_named('glossary').url}#softmax")
    assert back.count() == 0  # nobody came to this row from a lesson


# --- search ---------------------------------------------------------------------------------------

QUESTIONS = {
    "Why do we divide by the square root of d_k?": ("02_", "Why-divide-by"),
    "causal mask": ("glossary", "causal-mask"),
    "softmax along which axis": ("01_", "Which-axis?"),
    "score_variance": ("api.html", "score_variance"),
}


def found(page, question):
    """Return the links to what the search finds."""
    page.get_by_role("searchbox").fill(question)
    page.locator(".found li").first.wait_for()
    return page.locator(".found a").evaluate_all("links => links.map(link => link.href)")


def test_the_words_of_a_question_lead_to_a_lesson_and_a_section(open_named):
    page = open_named("index")
    for question, wanted in QUESTIONS.items():
        links = [unquote(href.rpartition("/")[2]) for href in found(page, question)]
        assert any(all(part in link for part in wanted) for link in links[:3]), (question, links)


def test_the_search_is_used_by_keyboard(open_named):
    page = open_named("index")
    page.keyboard.press("Control+k")
    page.keyboard.type("zero que")  # the last word is not finished
    page.locator(".found mark").first.wait_for()
    assert barriers(page, "search") == []
    page.keyboard.press("Escape")
    assert page.locator(".found").is_hidden()
    page.keyboard.type("ry")
    page.keyboard.press("ArrowDown")
    target = page.evaluate("document.activeElement.href")
    page.keyboard.press("Enter")
    page.wait_for_url(target)
    assert found(page, "xyzzy nothing")
    page.get_by_role("searchbox").fill("xyzzy")
    page.get_by_text("Nothing found.").wait_for()


# --- one lesson -----------------------------------------------------------------------------------


@pytest.fixture
def lesson(open_named):
    return open_named("01_attention_is_a_soft_look_up")


def test_a_prediction_shows_its_answer_after_a_choice(lesson):
    box = lesson.locator(".attnlab-predict-stored").first
    answer = box.get_by_text("points away from the query and still gets")
    assert answer.is_hidden()
    box.get_by_role("button", name="exactly 3").press("Enter")
    assert answer.is_visible()
    assert box.get_by_role("status").inner_text() == "You said exactly 3."
    assert box.get_by_role("button", name="✗ exactly 3").get_attribute("aria-pressed") == "true"
    assert box.get_by_role("button", name="✓ more than 3").is_disabled()


def test_answers_are_kept_and_counted_until_they_are_forgotten(open_named, lesson):
    progress, asked = lesson.locator("aside .progress"), ".attnlab-predict-stored"
    total = lesson.locator(asked).count()
    lesson.evaluate("localStorage.clear()")
    lesson.reload()
    assert progress.inner_text() == f"0 of {total} predictions answered"
    lesson.locator(asked).last.get_by_role("button").nth(1).click()
    assert progress.inner_text() == f"1 of {total} predictions answered"
    lesson.reload()
    box = lesson.locator(asked).last
    assert box.get_by_role("button").nth(1).get_attribute("aria-pressed") == "true"
    assert box.locator("details").get_attribute("open") is not None
    counts = open_named("index").locator("span.progress")
    expect(counts.nth(1)).to_have_text(f"1 of {total} predictions answered")
    counts.page.get_by_role("button", name="Forget my answers").click()
    assert all(text.startswith("0 of ") for text in counts.all_inner_texts())
    open_named(LESSONS[1])
    expect(progress).to_have_text(f"0 of {total} predictions answered")
    lesson.reload()
    assert lesson.locator(f"{asked} [aria-pressed]").count() == 0


@pytest.mark.parametrize("words", ["Show the answer", "What happens", "A solution", "Hint"])
def test_a_fold_opens(lesson, words):
    fold = lesson.locator("main details", has=lesson.locator("summary", has_text=words)).first
    height = fold.bounding_box()["height"]
    fold.locator("summary").first.press("Enter")
    assert fold.bounding_box()["height"] > height + 20


def test_one_button_unfolds_and_folds_everything(lesson):
    closed = lesson.locator("css:light=main details:not(.contents):not([open])")
    assert closed.count() > 10
    lesson.get_by_role("button", name="Unfold all").click()
    assert closed.count() == 0
    lesson.get_by_role("button", name="Fold all").click()
    assert closed.count() > 10


def test_the_contents_follow_the_reading(lesson):
    contents = lesson.locator("aside.contents")
    assert contents.locator("[aria-current=page]").inner_text().startswith("1 · ")
    contents.get_by_role("link", name="Which axis?").click()
    current = contents.locator("[aria-current=true]")
    lesson.wait_for_function(
        """() => document.querySelector('aside.contents [aria-current=true]')?.hash
            === '#Which-axis?'"""
    )
    assert current.count() == 1
    lesson.set_viewport_size({"width": 390, "height": 900})
    assert contents.is_hidden()
    lesson.locator("details.contents summary").click()
    assert lesson.get_by_role("link", name="Which axis?").is_visible()
    lesson.set_viewport_size({"width": 1366, "height": 900})


def test_the_notebook_is_downloaded(lesson):
    with lesson.expect_download(timeout=9000) as download:
        lesson.get_by_role("button", name="Download this notebook").click()
    assert download.value.suggested_filename == f"{LESSONS[1]}.ipynb"
    original = next(path for path in find_notebooks() if path.stem == LESSONS[1])
    assert read_notebook(download.value.path()) == student_copy(
        read_notebook(original), {"teacher"}
    )


def test_a_page_without_scripts_is_whole(browser, folder):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "01_attention_is_a_soft_look_up.html").as_uri())
    box = page.locator(".attnlab-predict-stored").first
    assert box.get_by_text("exactly 3").first.is_visible()
    box.get_by_text("Show the answer").click()
    assert box.get_by_text("points away from the query and still gets").is_visible()
    assert page.locator("button").count() == 0
    context.close()


def palette_of(colour):
    """Return a colour such as "rgb(0, 0, 255)" as the palette writes it."""
    return palette.to_hex([int(part) for part in colour[4:-1].split(",")])


def test_paper_is_white_and_nothing_hangs_over(lesson):
    lesson.emulate_media(color_scheme="dark")
    lesson.locator(".card.dark").first.wait_for()
    lesson.emulate_media(media="print", color_scheme="dark")
    lesson.set_viewport_size({"width": 680, "height": 900})  # a sheet between its margins
    colours = lesson.evaluate(
        """() => ['backgroundColor', 'color'].map(name => getComputedStyle(document.body)[name])"""
    )
    assert [palette_of(colour) for colour in colours] == ["#ffffff", palette.INK]
    paper = "card => getComputedStyle(card).backgroundColor"
    papers = [card.evaluate(paper) for card in lesson.locator(".card").all()]
    assert {palette_of(colour) for colour in papers} == {"#ffffff"}
    over = "[...document.querySelectorAll('pre, .scroll')].filter(e => e.scrollWidth > 681).length"
    assert lesson.evaluate(over) == 0
    assert lesson.locator(".top, aside, .download").filter(visible=True).count() == 0
    folded = lesson.locator("css:light=main details:not(.contents) > :not(summary)")
    assert folded.filter(visible=True).count() == folded.count() > 20
    lesson.emulate_media(media="screen", color_scheme="light")
    lesson.set_viewport_size({"width": 1366, "height": 900})


def test_pages_were_quiet_and_asked_nothing_of_the_network(tab, visits):
    assert len(visits) == len(PAGES)
    assert tab.problems == tab.outside == []


# --- sentences of one's own -----------------------------------------------------------------------

HEADS, SIX_LAYERS = (
    next(name for name in LESSONS if name[:2] == number) for number in ("10", "14")
)
SPELLED = Path(__file__).parent.with_name("minilm_spelled.tsv")
OWN = "the café's bat flew over the clay court, constructor"
READ = "([kind, text]) => attnlabReaders[kind].read(text, () => {})"


def type_into(page, text, selector, wanted):
    """Type a text into the explorer of a page; return its card when it shows the wanted words."""
    card = page.locator(".attnlab-explorer .card")
    card.get_by_label("A sentence of your own").fill(text)
    card.get_by_role("button", name="Read").press("Enter")
    shown = card.locator(selector)
    wait_until(page, lambda: wanted in shown.all_inner_texts(), wanted)
    return card


def difference(one, other):
    """Return the largest difference between two nested lists of numbers of the same shape."""
    one, other = torch.tensor(one), torch.tensor(other)
    assert one.shape == other.shape
    return (one - other).abs().max().item()


def test_a_page_spells_words_as_python_does(open_named):
    lines = [line.split("\t") for line in SPELLED.read_text(encoding="utf-8").split("\n")[:-1]]
    wanted = {json.loads(text): pieces.split(" ") for text, pieces in lines}
    page = open_named(HEADS)
    page.evaluate(READ, ["real_heads", "a"])
    spell = "texts => texts.map((text) => tokensOf(text, parts.start.numbers))"
    assert dict(zip(wanted, page.evaluate(spell, [*wanted]), strict=True)) == wanted
    assert len(wanted) > 100


def test_real_heads_read_a_sentence_and_say_what_they_cannot_read(open_named):
    page = open_named(HEADS)
    card = type_into(page, OWN, ".arcs button", "cafe")
    card.get_by_role("button", name="cafe (2)").press("Enter")
    tokens, _, _, weights = load_layer().read(OWN)
    assert card.locator(".arcs button").all_inner_texts() == tokens
    shown = [float(text) for text in card.locator(".rows .figure b").all_inner_texts()]
    assert difference(shown, weights[4, 2].tolist()) < 0.007
    assert "In head 4, “cafe” attends most to" in card.locator(".say").inner_text()
    assert difference(page.evaluate(READ, ["real_heads", OWN])["weights"], weights.tolist()) < 0.002
    for text, problem in (
        ("\u200b", "Type a sentence with at least one word."),
        (
            "bank " * 23,
            "This sentence has 23 word pieces, but only 22 fit side by side. Please shorten it.",
        ),
    ):
        type_into(page, text, ".problem", problem)


def test_a_link_shows_a_sentence_that_was_typed(open_named):
    page = open_named(HEADS)
    card = type_into(page, OWN, ".arcs button", "cafe")
    card.get_by_role("button", name="cafe (2)").press("Enter")
    sent = cards_of(page)
    address = address_with(page, "word=2")
    follow(page, address)
    wait_until(page, lambda: cards_of(page) == sent, "the sentence of the address")
    assert card.get_by_label("A sentence of your own").input_value() == OWN
    assert page.url == address
    for nonsense in ("7", '"+"', "null", '["the+bat"]'):
        follow(page, f"{address.partition('#')[0]}#1.sentence={nonsense}")
        assert card.get_by_label("A sentence of your own").input_value().startswith("she sat")
        assert page.evaluate("Object.keys(parts)") == []


def test_a_page_alone_says_which_file_it_needs(tab, folder, tmp_path):
    page = tab.open(Path(shutil.copy(folder / f"{HEADS}.html", tmp_path)))
    missing = "This needs the file model/start.js, which is not beside this page."
    type_into(page, "the", ".problem", missing)
    follow(page, f'{page.url}#1.sentence="she+ate+bread"')
    page.locator(".problem", has_text=missing).wait_for()


@pytest.mark.parametrize("text", [OWN, labelled("bat").sentences[0]])
def test_six_layers_read_a_sentence(open_named, text):
    page = open_named(SIX_LAYERS)
    card = type_into(page, text, ".arcs button", "flew")
    card.get_by_role("button", name="bat (").press("Enter")
    told = LayersExplorer.told(text)
    assert card.locator(".arcs button").all_inner_texts() == told["tokens"]
    names = card.locator(".legend span").filter(visible=True).all_inner_texts()
    assert names == ["this word", "mean of animal", "mean of club"]
    read = page.evaluate(READ, ["layers", text])
    assert difference(read["maps"], told["maps"]) <= 1  # percent, rounded
    assert read["known"].keys() == told["known"].keys()
    for place, known in told["known"].items():
        assert read["known"][place]["names"] == [*known["names"]]
        assert difference(read["known"][place]["curves"], known["curves"]) < 0.001


# --- a lesson with one cell of each kind ----------------------------------------------------------


def all_kinds_of_cells():
    """Return one cell of each kind: axe need not look at hundreds of the same."""
    text = "# 1 · Kinds\n\nWords `code` $x$ and [a link](01_all_kinds.ipynb).\n\n## Table\n\n"
    table = "| | a |\n|---|---|\n| 1 | 2 |\n\n<details><summary>Hint</summary>Add.</details>"
    error = new_output("error", ename="E", evalue="v", traceback=["-" * 300, "E: v"])
    plain = new_output("stream", name="stdout", text="wide " * 60)
    code = 'def f(a):\n    """Say."""\n    return f"{a}" + "b"  # or 1.5\n'
    first = next(iter(_texts.read(_texts.prediction_files()["00"])))
    asked = predict(f"00/{first}").to_html()
    html = new_output("execute_result", {"text/html": asked, "text/plain": "-"}, execution_count=1)
    hidden = {"source_hidden": True}
    return [
        new_markdown_cell(text + table),
        new_code_cell(code, outputs=[plain, error]),
        new_code_cell("predict()", outputs=[html]),
        new_code_cell("s", outputs=[plain], metadata={"tags": ["solution"], "jupyter": hidden}),
        new_raw_cell(entry("attnlab", "rotate", rotate, {"rotate": "Table"})),
    ]


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """The page of a made-up lesson with one cell of each kind."""
    folder = tmp_path_factory.mktemp("made_up")
    notebook = folder / "01_all_kinds.ipynb"
    write(new_notebook(cells=all_kinds_of_cells()), notebook)
    site.write_site(folder / "site", [notebook])
    return folder / "site" / "01_all_kinds.html"


@pytest.mark.parametrize(("size", "scheme"), [(1366, "light"), (390, "dark")])
def test_axe_finds_nothing(tab, made_up, size, scheme):
    lesson = tab.open(made_up)
    lesson.set_viewport_size({"width": size, "height": 900})
    lesson.emulate_media(color_scheme=scheme)
    answers = lesson.locator(".attnlab-predict-stored").get_by_role("button")
    answers.nth(1).click()  # the mouse stays over the answer
    assert barriers(lesson) == []
    lesson.get_by_role("button", name="Unfold all").click()
    assert barriers(lesson) == []
    lesson.evaluate("document.querySelector('h1').style.color = 'var(--soft)'")
    assert [rule for rule, _ in barriers(lesson, "html", "color-contrast")] == ["color-contrast"]
    lesson.emulate_media(color_scheme="light")
    lesson.set_viewport_size({"width": 1366, "height": 900})


# --- the checks can fail --------------------------------------------------------------------------


def test_what_is_wrong_with_a_page_is_noticed(browser, folder, tmp_path):
    text = (folder / "index.html").read_text()
    bad = (
        "<h1 style='width:2000px'>wide</h1><img src='data:,' alt='x'><math></math>"
        "<math><mi>\\\\nosuch</mi></math><script>new Image().src = 'http://a.invalid/b'</script>"
    )
    (tmp_path / "bad.html").write_text(text.replace("<main>", f"<main>{bad}"))
    look = FilePage(browser)
    seen = visit(look.open(tmp_path / "bad.html"))
    assert [len(found) for found in seen["wide"]] == [1, 1, 1]
    assert seen["scrolls"] >= 2000
    assert seen["titles"] == 2
    assert seen["broken"] == 1
    assert seen["undrawn"] == 2
    assert look.outside == ["http://a.invalid/b"]
    assert "Content Security Policy" in look.problems[0]  # the page forbids it to itself
    look.context.close()
