"""The slides in a real browser: nothing is cut off, questions come first, figures move."""

import pytest

from tools import slides
from tools.notebooks import find_notebooks, is_lesson

LESSONS = [path.stem for path in find_notebooks() if is_lesson(path)]
SIZE = {"width": 1280, "height": 720}
SMALLEST = 20  # px: of text, which must be read from the last row

# Show all slides at once, one upon the other, and return of each: what is beyond its edges or must
# be scrolled, the size of its text, and its headings and other words.
LOOK = """() => {
    const style = document.createElement('style');
    style.textContent = `.reveal .slides section, .reveal .slides > section > section {
        display: block !important; visibility: visible !important; }`;
    document.head.append(style);
    const inside = (element) => [...element.querySelectorAll('*:not(.notes, .notes *)')]
        .flatMap(one => [one, ...(one.shadowRoot ? inside(one.shadowRoot) : [])]);
    const name = (one) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`;
    const scrolls = (one) => one instanceof HTMLElement
        && getComputedStyle(one).overflow !== 'visible'
        && (one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1);
    const isCut = (box) => (one) => {
        if (!one.checkVisibility() || one.matches('.unseen')) return false;
        const {left, top, right, bottom} = one.getBoundingClientRect();
        return left < box.left - 1 || top < box.top - 1 || right > box.right + 1
            || bottom > box.bottom + 1 || scrolls(one);
    };
    return [...document.querySelectorAll('section.slide')].map(slide => {
        const box = slide.getBoundingClientRect();
        return {
            box: [box.width, box.height],
            cut: [slide, ...inside(slide)].filter(isCut(box)).map(name),
            size: parseFloat(slide.style.fontSize),
            heading: slide.firstElementChild.textContent,
            options: slide.querySelectorAll('.options li').length,
            words: slide.textContent.trim().slice(0, 60),
        };
    });
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides")
    slides.write_slides(folder, find_notebooks())
    return folder


@pytest.fixture(scope="module")
def tab(only_tab):
    """The tab, as large as a slide."""
    only_tab.start_anew()
    only_tab.page.set_viewport_size(SIZE)
    yield only_tab
    assert only_tab.outside == only_tab.problems == []


@pytest.fixture(scope="module")
def open_slides(tab, folder):
    """Open the slides of a lesson and wait until they are made."""

    def open_named(name):
        page = tab.open(folder / f"{name}.html")
        page.wait_for_function("() => window.Reveal?.isReady()")
        return page

    return open_named


@pytest.mark.parametrize("name", LESSONS)
def test_nothing_is_cut_off_and_questions_come_first(open_slides, name):
    seen = open_slides(name).evaluate(LOOK)
    assert [(slide["words"], slide["cut"]) for slide in seen if slide["cut"]] == []
    assert {tuple(slide["box"]) for slide in seen} == {(1280, 720)}
    assert min(slide["size"] for slide in seen) >= SMALLEST
    headings = [slide["heading"] for slide in seen]
    asked = [i for i, slide in enumerate(seen) if slide["options"]]
    assert asked
    assert [headings[i : i + 2] for i in asked] == [["Predict", "The answer"]] * len(asked)


TURN_TO = """selector => {
    const {h, v} = Reveal.getIndices(document.querySelector(selector).closest('section'));
    Reveal.slide(h, v);
}"""


def test_an_explorer_moves_and_the_presenter_turns_the_page(open_slides):
    page = open_slides("01_attention_is_a_soft_look_up")
    page.evaluate(TURN_TO, ".attnlab-explorer")
    before = page.evaluate("Reveal.getSlidePastCount()")
    card = page.locator("section.present .card")
    picture = card.locator(".picture").inner_html()
    card.get_by_label("temperature").press("ArrowRight")
    assert card.locator(".picture").inner_html() != picture
    assert page.evaluate("Reveal.getSlidePastCount()") == before
    page.keyboard.press("PageDown")
    assert page.evaluate("Reveal.getSlidePastCount()") == before + 1
    page.keyboard.press("PageUp")
    assert card.is_visible()


def test_notes_for_teachers_are_only_in_the_window_of_the_speaker(open_slides):
    page = open_slides(LESSONS[0])
    assert page.get_by_text("For teachers").filter(visible=True).count() == 0
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    popup.value.get_by_text("For teachers: a plan").wait_for()
    popup.value.close()
