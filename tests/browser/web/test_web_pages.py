"""The web pages in a browser, opened from a folder: quiet, alone, readable, remembering."""

import re
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from attnlab import palette
from tests.browser.pages import SIZE, FilePage, address_with, barriers, cards_of, follow
from tools.build.sources import find_notebooks, outputs_of, read_notebook, shown_in
from tools.publish.site.api import API
from tools.publish.student import leave_out

LESSONS = [path.stem for path in find_notebooks()]
PAGES = ["index", *LESSONS, API]
LESSON, NEXT = LESSONS[1:3]

# What reaches beyond the right edge of the page and cannot be scrolled to.
WIDER = """() => document.documentElement.scrollWidth <= innerWidth ? []
    : [...document.querySelectorAll('body *')].filter(element =>
        element.getBoundingClientRect().right > innerWidth + 1 &&
        !element.closest('pre, .scroll, .shown, p:has(> math)'))
        .map(element => element.outerHTML.slice(0, 90))"""
# Use the controls in sight until one changes the picture; return whether none did.
STILL = """card => {
    const look = () => card.querySelector('.picture').outerHTML;
    const before = look();
    return ![...card.querySelectorAll('input, button')]
        .filter(control => control.checkVisibility()).some(control => {
            if (control.type === 'range') {
                control.value = control.value === control.min ? control.max : control.min;
                control.dispatchEvent(new Event('input'));
            } else control.click();
            return look() !== before;
        });
}"""
TOUCHED = {"has_touch": True, "is_mobile": True}
UNFOLD = "document.querySelectorAll('details').forEach(fold => { fold.open = true; })"
# Formulas and pictures that are not drawn.
UNDRAWN = """() => {
    const formulas = [...document.querySelectorAll('main math:not(.answers *)')].filter(math =>
        math.getBoundingClientRect().width < 4 || math.querySelector('merror')
        || math.textContent.includes('\\\\'));
    const images = [...document.images].filter(image =>
        !image.naturalWidth || !(image.alt || image.matches('.thumbnail')));
    return [...formulas, ...images].map(element => element.outerHTML.slice(0, 90));
}"""


@pytest.fixture
def own_tab(browser):
    """A tab of somebody who has never been there, since the browser keeps what readers choose."""
    look = FilePage(browser)
    yield look
    assert look.problems == look.outside == []
    look.context.close()


@pytest.fixture
def open_named(own_tab, site_folder):
    """Open the page of a lesson, or the index."""
    return lambda name: own_tab.open(site_folder / f"{name}.html")


@pytest.fixture
def lesson(open_named):
    """A lesson, as if nobody had been there."""
    return open_named(LESSON)


def test_every_page_fits_and_moves(open_named):
    for name in PAGES:
        page, wide = open_named(name), []
        for width in (390, SIZE["width"]):
            page.set_viewport_size({"width": width, "height": 900})
            wide += page.evaluate(WIDER)
        page.evaluate(UNFOLD)
        cards = page.locator(".attnlab-explorer .card").all()
        still = sum(card.evaluate(STILL) for card in cards)
        assert (wide, still, page.evaluate(UNDRAWN)) == ([], 0, []), name
        assert page.locator("h1").count() == 1


def test_one_walks_from_the_index_to_a_lesson_to_a_word_and_back(open_named):
    page = open_named("index")
    page.get_by_role("link", name="Start here").click()
    page.wait_for_url(f"**/{LESSONS[0]}.html")
    page.get_by_role("navigation", name="Lessons").get_by_role("link", name="Lesson 1").click()
    page.locator("main").get_by_role("link", name="raw score").first.press("Enter")
    page.wait_for_url("**/glossary.html?*#raw-score")
    assert 0 <= page.locator("#raw-score").bounding_box()["y"] < 150
    back = page.get_by_role("link", name="Back to 1 · Attention is a soft lookup")
    back.click()
    page.wait_for_url(f"**/{LESSON}.html#word-*")
    follow(page, f"{open_named('glossary').url}#softmax")
    assert back.count() == 0  # nobody came to this row from a lesson


def test_the_index_leads_to_the_first_lesson_or_back_to_the_last_one(open_named):
    page = open_named("index")
    begin = page.locator(".begin")
    assert begin.inner_text() == "Start with lesson 0"
    for name in (LESSON, "glossary"):  # which is no lesson to go on with
        open_named(name)
    page = open_named("index")
    assert begin.inner_text() == "Continue with lesson 1"
    begin.click()
    page.wait_for_url(f"**/{LESSON}.html")


def test_on_a_phone_the_head_takes_one_row_and_a_button_opens_the_others(lesson):
    lesson.set_viewport_size({"width": 390, "height": 900})
    assert lesson.locator(".top").bounding_box()["height"] < 60
    projector = lesson.locator(".top").get_by_role("button", name="Projector")
    assert projector.is_hidden()
    menu = lesson.get_by_role("button", name="View", exact=True)
    menu.press("Enter")
    assert projector.is_visible()
    assert menu.get_attribute("aria-expanded") == "true"
    lesson.set_viewport_size({**SIZE})
    assert menu.is_hidden()
    assert projector.is_visible()


@pytest.mark.parametrize("size", [390, 600])
def test_what_is_found_lies_in_the_window(lesson, size):
    lesson.set_viewport_size({"width": size, "height": 800})
    lesson.get_by_role("searchbox").fill("mask")
    lesson.locator("search li").first.wait_for()
    box = lesson.locator("search .found").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size


def test_on_a_phone_nothing_covers_the_code_and_a_tap_opens_a_figure(browser, site_folder):
    tab = FilePage(browser, **TOUCHED)
    page = tab.open(site_folder / f"{LESSON}.html")
    page.set_viewport_size({"width": 390, "height": 844})
    code = page.locator(".cell > .highlight").first
    copy, lines = (code.locator(one).bounding_box() for one in (".copy", "pre"))
    assert copy["y"] >= lines["y"] + lines["height"]
    picture = page.get_by_role("button").and_(page.locator("figure img")).first
    picture.scroll_into_view_if_needed()
    width = picture.bounding_box()["width"]
    view = page.get_by_role("dialog", name="Enlarged figure")
    large = view.get_by_role("img")
    for close in (
        lambda: page.keyboard.press("Escape"),
        lambda: large.tap(),
        lambda: view.get_by_role("button", name="Close").tap(),
    ):
        picture.tap()
        assert large.get_attribute("alt") == picture.get_attribute("alt")
        assert large.bounding_box()["width"] > 2 * width
        assert view.evaluate("box => box.scrollWidth > box.clientWidth")
        assert barriers(page, "dialog") == []
        close()
        assert view.is_hidden()
        expect(picture).to_be_focused()
    picture.press("Enter")
    assert view.is_visible()
    assert tab.problems == []
    tab.context.close()


# --- settings that stay ---------------------------------------------------------------------------

DARK = "getComputedStyle(document.body).backgroundColor === 'rgb(20, 26, 33)'"
LARGE = """() => [document.body, document.querySelector('.attnlab-explorer').shadowRoot
    .querySelector('.card')].map(one =>
    parseFloat(getComputedStyle(one).fontSize) * one.currentCSSZoom)"""


def test_theme_size_and_hidden_code_stay_on_the_next_page_and_explorers_follow(lesson, open_named):
    code = lesson.locator(".cell > :is(.highlight, .source)").filter(visible=True)
    small, seen = lesson.evaluate(LARGE), code.count()
    lesson.get_by_label("Theme").select_option("dark")
    lesson.get_by_role("button", name="Projector").first.click()
    lesson.get_by_role("button", name="Hide code").click()
    page = open_named(NEXT)
    page.locator(".card.dark").first.wait_for(state="attached")  # the first one is folded
    page.wait_for_function("() => document.documentElement.dataset.projector === 'on'")
    pairs = zip(page.evaluate(LARGE), small, strict=True)
    assert all(large >= 1.2 * before for large, before in pairs)
    assert page.evaluate(DARK)
    assert page.evaluate(WIDER) == []
    assert code.count() == 0
    page.get_by_label("Theme").select_option("system")
    page.get_by_role("button", name="Projector", pressed=True).first.click()
    page.get_by_role("button", name="Show code").click()
    page = open_named(LESSON)
    page.locator(".card:not(.dark)").first.wait_for(state="attached")
    assert (page.evaluate(LARGE), page.evaluate(DARK)) == (small, False)
    assert code.count() == seen > 10


# --- what is shared -------------------------------------------------------------------------------

# Replace the clipboard by one that takes a text or refuses it; what a button says of it stays.
CLIPBOARD = """takes => {
    const later = setTimeout;
    window.setTimeout = (act, wait) => (wait === 3000 ? 0 : later(act, wait));
    const writeText = async text => {
        if (!takes) throw new DOMException('refused', 'NotAllowedError');
        window.copied = text;
    };
    Object.defineProperty(navigator, 'clipboard', {value: {writeText}});
}"""


@pytest.mark.parametrize("takes", [True, False])
def test_code_and_links_are_copied_or_shown(lesson, takes):
    address, code = lesson.url, lesson.locator(".cell .highlight").nth(1)
    lesson.evaluate(CLIPBOARD, takes)
    code.get_by_role("button", name="Copy").press("Enter")
    code.get_by_role("button", name="Copied" if takes else "Press Ctrl+C").wait_for()
    copied = lesson.evaluate("window.copied ?? getSelection().toString()")
    assert copied.strip() == code.locator("pre").inner_text().strip()
    look_up = lesson.locator("#explorer-1")
    look_up.get_by_role("button", name="skip").press("Enter")
    look_up.get_by_role("slider", name="temperature").press("ArrowLeft")
    share = lesson.locator(".share").first.get_by_role("button")
    share.press("Enter")
    expect(share).to_have_text("Copied" if takes else "The link is in the address bar")
    copied = lesson.evaluate("copied") if takes else lesson.url
    assert copied == f"{address}#1.temperature=0.5"


def test_a_link_shows_what_its_sender_saw(lesson):
    look_up, row = lesson.locator("#explorer-1"), lesson.locator("#explorer-2")
    for explorer in (look_up, row):
        explorer.get_by_role("button", name="skip").press("Enter")
    row.get_by_role("button", name="Next").press("Enter")
    look_up.get_by_role("slider", name="temperature").press("ArrowLeft")
    look_up.get_by_role("slider", name="query").press("ArrowUp")
    address = address_with(lesson, "&2.step=6")  # the last moved comes first
    sent = cards_of(lesson)
    follow(lesson, address)
    assert cards_of(lesson) == sent
    assert row.get_by_role("group", name="Predict first").count() == 0
    assert 0 <= look_up.bounding_box()["y"] < 120
    lesson.evaluate("location.hash = '1.temperature=5'")  # followed from its own page
    look_up.locator("output", has_text="5").wait_for()


def test_nonsense_in_an_address_is_ignored(lesson):
    fresh = cards_of(lesson)
    wrong = "1.temperature=7&1.query=[9,9]&1.query=[&1.ask=false&2.step=99&2.step="
    odd = "1.__proto__={}&1.constructor=1&99.x=1&0.step=1&%E0%A4%A&=&1=2&.&<b>"
    follow(lesson, f"{lesson.url}#{wrong}&{odd}")
    assert cards_of(lesson) == fresh
    assert lesson.locator(".gate").count() == 2
    assert lesson.evaluate("scrollY") == 0


# --- words of the glossary, search ----------------------------------------------------------------


def test_a_word_shows_its_meaning_until_it_is_put_away(lesson):
    word = lesson.locator("main").get_by_role("link", name="hard lookup")
    meaning = lesson.get_by_role("tooltip")
    word.hover()
    assert meaning.inner_text().startswith("hard lookup ")
    meaning.hover()  # one can go there with the pointer
    assert barriers(lesson, ".meaning") == []
    lesson.keyboard.press("Escape")
    assert meaning.is_hidden()
    word.focus()
    described = lesson.locator(f"[id='{word.get_attribute('aria-describedby')}']")
    assert described.inner_text() == meaning.inner_text()


def test_a_number_of_a_lesson_lights_its_cell(open_named):
    page = open_named(LESSONS[0])
    page.locator("main .attnlab-named").first.focus()
    expect(page.locator(".attnlab-outline")).to_have_count(1)


QUESTIONS = {  # what stands first
    "Why do we divide by the square root of d_k?": "02_#2-·-Why-divide-by",
    "causal mask": "glossary#causal-mask",
    "softmax along which axis": "glossary#softmax",
    "softmax dim": "glossary#softmax",
    "effective_keys": "api#effective_keys",
    "RoPE": "glossary#RoPE",
    "rotary": "glossary#RoPE",
    "rope_theta": "glossary#position",
    "NoPE": "glossary#position",
    "positional encoding": "glossary#position",
    "sinusoid": "11_#Add-a-vector",
    "flash": "glossary#FlashAttention",
    "flash attention": "glossary#FlashAttention",
    "FlashAttention": "glossary#FlashAttention",
    "MHA": "07_#7-·-Multi-head-attention",
    "multi head": "07_#7-·-Multi-head-attention",
    "GQA": "glossary#GQA",
    "KV cache": "glossary#KV-cache",
    "BERT": "glossary#Transformer",
    "T5": "02_#A-model-that-does-not-divide",
    "seq2seq": "glossary#cross-attention",
    "autoregressive": "glossary#autoregressive",
    "look ahead mask": "glossary#causal-mask",
    "maks": "glossary#(causal-)?mask",
    "mask": "glossary#mask",
    "mask NaN": "03_#Two-masks-at-once",
    "why my mask gives NaN": "03_#Two-masks-at-once",
    "NaN": "03_#Two-masks-at-once",
    "-inf": "03_#(A-screen-between-the-desks|What-to-remember)",
    "-1e9": "03_#A-large-negative-number",
    "padding": "glossary#padding",
    "padding mask": "glossary#padding",
    "temprature": "glossary#temperature",
    "heatmap": "glossary#heatmap",
    "view vs transpose": "07_#The-same-shape",
    "bank": "(05|10|14)_",
    "attention sink": "glossary#attention-sink",
    "induction head": "glossary#induction-head",
    "square root": "02_#2-·-Why-divide-by",
}


def test_the_search_finds_what_people_type_and_is_used_by_keyboard(open_named):
    page = open_named("index")
    box = page.get_by_role("searchbox")
    first = page.locator("search .found a").first
    for question, wanted in QUESTIONS.items():
        box.fill(question)
        first.wait_for()
        place = unquote(first.evaluate("link => link.href")).rpartition("/")[2]
        assert re.match(wanted.replace("#", ".*#"), place), (question, place)
    box.fill("xyzzy")
    page.get_by_text("Nothing found.").wait_for()
    page.keyboard.press("Escape")
    assert page.locator("search .found").is_hidden()
    page.locator("h1").click()
    page.keyboard.press("Control+k")
    page.keyboard.type("zero que")  # the last word is not finished
    page.locator("search .found mark").first.wait_for()
    assert barriers(page, "search") == []
    page.keyboard.press("ArrowDown")
    target = page.evaluate("document.activeElement.href")
    page.keyboard.press("Enter")
    page.wait_for_url(target)


# --- one lesson -----------------------------------------------------------------------------------


def plain(text):
    """Return the words of HTML."""
    return BeautifulSoup(text, "html.parser").get_text()


def test_an_answer_comes_after_a_choice_and_is_kept_until_it_is_forgotten(lesson, open_named):
    progress, boxes = lesson.locator("aside .progress"), lesson.locator(".attnlab-predict")
    total, box = boxes.count(), boxes.first
    expect(progress).to_have_text(f"0 of {total} predictions answered")
    notebook = read_notebook(next(path for path in find_notebooks() if path.stem == LESSON))
    told = (facts for output in outputs_of(notebook) for facts in shown_in(output))
    asked = next(facts for facts in told if facts.kind == "prediction")
    place, option = next((i, one) for i, one in enumerate(asked.options) if not one.correct)
    folds = lesson.locator(f"details.attnlab-answer[class~='{asked.key}']")
    assert folds.count() >= 2  # the output of the answer, and what the text says about it
    assert not any(folds.evaluate_all("all => all.map(one => one.open)"))
    status = box.get_by_role("status")
    expect(status).to_be_empty()
    box.get_by_role("button").nth(place).press("Enter")
    for again in (False, True):
        if again:
            lesson.reload()
        expect(status).to_contain_text(f"✗ Not quite. You said: {plain(option.text)}")
        expect(status).to_contain_text(plain(option.feedback))
        expect(folds.locator("visible=true").first).to_have_attribute("open", "")
        assert all(folds.evaluate_all("all => all.map(one => one.open)"))
        summaries = folds.locator("> summary").all_text_contents()
        assert {*summaries} == {"The answer"}  # nobody is asked to predict any more
    assert box.get_by_role("button").nth(place).get_attribute("aria-pressed") == "true"
    count = open_named("index").locator("span.progress").nth(1)
    expect(count).to_have_text(f"1 of {total} predictions answered")
    lesson.get_by_role("button", name="Forget my answers").click()
    expect(count).to_have_text(f"0 of {total} predictions answered")
    open_named(LESSON)
    expect(status).to_be_empty()


def test_folds_contents_and_the_notebook(lesson):
    for words in ("What happens", "Predict first, then read on", "A solution", "Hint"):
        fold = lesson.locator("main details", has=lesson.locator("summary", has_text=words)).first
        height = fold.bounding_box()["height"]
        fold.locator("summary").first.press("Enter")
        assert fold.bounding_box()["height"] > height + 20
    others = "main details:not(.contents, .attnlab-answer, [open])"
    closed = lesson.locator(f"css:light={others}")
    for words, is_closed in (("Unfold all", False), ("Fold all", True)):
        lesson.get_by_role("button", name=words, exact=True).click()
        assert (closed.count() > 10, closed.count() == 0) == (is_closed, not is_closed)
        # what tells the answer of an open prediction stays closed
        assert lesson.locator(".attnlab-answer:not([open])").count() > 1
    contents = lesson.locator("aside.contents")
    assert contents.locator("[aria-current=page]").inner_text().startswith("1 · ")
    contents.get_by_role("link", name="A query that learns").click()
    expect(contents.locator("[aria-current=true]")).to_have_text("A query that learns")
    with lesson.expect_download() as download:
        lesson.get_by_role("button", name="Download this notebook").click()
    assert download.value.suggested_filename == f"{LESSON}.ipynb"
    original = next(path for path in find_notebooks() if path.stem == LESSON)
    wanted = leave_out(read_notebook(original), {"teacher"})
    assert read_notebook(download.value.path()) == wanted
    lesson.set_viewport_size({"width": 390, "height": 900})
    assert contents.is_hidden()
    lesson.locator("details.contents summary").click()
    assert lesson.get_by_role("link", name="A query that learns").is_visible()


def test_a_page_without_scripts_is_whole(browser, site_folder):
    tab = FilePage(browser, java_script_enabled=False)
    page = tab.open(site_folder / f"{LESSON}.html")
    page.emulate_media(media="print")
    told = "details:not(.contents) > :not(summary)"
    assert page.locator(f"main {told}").filter(visible=True).count() == 0  # a sheet
    page.emulate_media(media="screen")
    box = page.locator(".attnlab-predict-stored").first  # as it is stored
    box.get_by_text("Show the answer").click()
    assert box.locator("details > p:last-of-type").is_visible()
    assert page.locator("button").count() == 0
    tab.context.close()


def test_paper_is_white_and_nothing_hangs_over(lesson):
    lesson.emulate_media(media="print", color_scheme="dark")
    lesson.set_viewport_size({"width": 680, "height": 900})  # a sheet between its margins
    cards = "[...document.querySelectorAll('.attnlab-explorer')].map(host => host.shadowRoot)"
    papers = lesson.evaluate(
        f"""() => [document.body, ...{cards}.map(root => root.querySelector('.card'))]
            .map(element => getComputedStyle(element).backgroundColor)"""
    )
    assert {*papers} == {"rgb(255, 255, 255)"}
    ink = lesson.evaluate("getComputedStyle(document.body).color")
    assert palette.to_hex([int(part) for part in ink[4:-1].split(",")]) == palette.INK
    over = "[...document.querySelectorAll('pre, .scroll')].filter(e => e.scrollWidth > 681).length"
    assert lesson.evaluate(over) == 0
    assert lesson.locator(".top, aside, .download").filter(visible=True).count() == 0


def test_a_sheet_tells_no_answer_and_the_other_print_tells_all(lesson):
    asked = lesson.locator(".attnlab-predict-stored")
    first = asked.first.get_by_role("button").first
    first.click()  # whoever has answered prints an empty sheet all the same
    lesson.evaluate("window.print = () => {}")
    answers = lesson.locator("css:light=.answers li")
    assert answers.count() == asked.count() > 2
    folded = lesson.locator("css:light=main details:not(.contents, .source) > :not(summary)")
    seen = folded.filter(visible=True)
    unfolded = seen.count()  # by the answer
    ink = "button => [getComputedStyle(button).color, getComputedStyle(button, '::before').content]"
    plain_ink = asked.nth(1).get_by_role("button").first.evaluate(ink)
    for name, wanted in (("Print without answers", 0), ("Print with answers", folded.count())):
        lesson.emulate_media(media="screen")
        lesson.get_by_role("button", name=name).click()
        lesson.emulate_media(media="print")
        assert seen.count() == wanted
        assert answers.filter(visible=True).count() == (answers.count() if wanted else 0)
        assert lesson.locator(".attnlab-predict [role=status]").filter(visible=True).count() == 0
        if not wanted:
            assert first.evaluate(ink) == plain_ink
        lesson.evaluate("dispatchEvent(new Event('afterprint'))")
        assert seen.count() == unfolded  # as before, also on paper
    assert answers.filter(visible=True).count() == 0
    assert lesson.locator("main > :last-child").get_attribute("class") == "answers"


def test_no_explorer_is_cut_or_takes_a_page_of_paper(open_named):
    for name in LESSONS:
        page = open_named(name)
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 680, "height": 900})  # a sheet between its margins
        page.evaluate(UNFOLD)
        assert page.evaluate(WIDER.replace(", .scroll, .shown", "")) == [], name
        heights = page.locator(".attnlab-explorer").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect().height)"
        )
        assert max(heights, default=0) < 600, name


@pytest.mark.parametrize(("size", "scheme"), [(1366, "light"), (390, "dark")])
def test_axe_finds_nothing(open_named, size, scheme):
    page = open_named(LESSONS[0])
    page.set_viewport_size({"width": size, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.locator(".attnlab-predict-stored").first.get_by_role("button").nth(1).click()
    if size == 390:  # the buttons of the head are behind another
        page.get_by_role("button", name="View", exact=True).click()
    page.get_by_role("button", name="Unfold all").click()
    assert barriers(page) == []
