"""The slides in a browser: nothing is cut off or given away, one key turns them, figures move."""

import re

import pytest

from tests.browser.pages import wait_until
from tools.build.sources import find_notebooks, is_lesson
from tools.publish import slides

LESSONS = [path for path in find_notebooks() if is_lesson(path)]
SIZES = [{"width": 1280, "height": 720}, {"width": 1024, "height": 768}]
LONGEST = 95  # characters of a line that fits in the smallest type
SMALLEST = 20  # px: of text, which must be read from the last row
SMALLEST_DRAWN = 16  # px: of the labels of a figure
MOST_WORDS = 30  # of prose that is not a question

# Show all slides at once, one upon the other, and return of each: what is beyond its edges or must
# be scrolled, the size of its text and of the labels of its figures (10.5 pt, in pictures with 144
# dots per inch), and the words of its longest paragraph.
LOOK = """async () => {
    const style = document.createElement('style');
    style.textContent = `.reveal .slides section {
        display: flex !important; visibility: visible !important; }`;
    document.head.append(style);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));  // explorers shrink
    const inside = (element) => [...element.querySelectorAll('*:not(.notes, .notes *)')]
        .flatMap(one => [one, ...(one.shadowRoot ? inside(one.shadowRoot) : [])]);
    const name = (one) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`;
    const scrolls = (one) => one instanceof HTMLElement
        && getComputedStyle(one).overflow !== 'visible'
        && (one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1);
    const isCut = (box) => (one) => {
        if (!one.checkVisibility() || one.closest('.unseen, .asking .picture')) return false;
        const {left, top, right, bottom} = one.getBoundingClientRect();
        return left < box.left - 1 || top < box.top - 1 || right > box.right + 1
            || bottom > box.bottom + 1 || scrolls(one);
    };
    const words = (one) => one.textContent.split(/\\s+/).length;
    return [...document.querySelectorAll('section.slide')].map(slide => {
        const box = slide.getBoundingClientRect();
        return {
            cut: [slide, ...inside(slide)].filter(isCut(box)).map(name),
            size: parseFloat(slide.style.fontSize),
            drawn: Math.min(99, ...[...slide.querySelectorAll(':scope.figure figure img')].map(
                one => 21 * Math.min(one.offsetWidth / one.naturalWidth,
                    one.offsetHeight / one.naturalHeight))),
            broken: slide.dataset.layout === 'broken',
            longest: Math.max(0, ...[...slide.querySelectorAll('pre')].flatMap(
                one => one.textContent.split('\\n').map(line => line.length))),
            prose: slide.matches('.question, .explorer') ? 0
                : Math.max(0, ...[...slide.querySelectorAll('p:not(.notes p)')].map(words)),
        };
    });
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides")
    slides.write_slides(folder, find_notebooks())
    return folder


@pytest.fixture(scope="module")
def open_slides(only_tab, folder):
    """Open the slides of a lesson in a tab as large as a slide, and wait until they are made."""

    def open_named(path):
        page = only_tab.open(folder / f"{path.stem}.html")
        page.wait_for_function("() => window.Reveal?.isReady()")
        return page

    only_tab.start_anew()
    only_tab.page.set_viewport_size(SIZES[0])
    yield open_named
    assert only_tab.outside == only_tab.problems == []


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_solution_is_in_the_slides_and_notes_are_only_for_the_speaker(folder, path):
    page = (folder / f"{path.stem}.html").read_text()
    notes = re.findall('<aside class="notes">.*?</aside>', page, re.DOTALL)
    assert "<summary>For teachers: a plan" in notes[0]
    assert "For teachers:" not in "".join([page.replace(note, "") for note in notes[:1]])
    assert not re.search(r"_solution\b", page)
    for part in ("MIT licensed", "Hakim El Hattab", "default-src 'none'"):  # reveal.js, no requests
        assert part in page


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_nothing_is_cut_off_and_prose_is_in_the_notes(open_slides, only_tab, path, size):
    only_tab.page.set_viewport_size(size)
    seen = open_slides(path).evaluate(LOOK)
    assert [slide for slide in seen if slide["cut"]] == []
    assert [one for one in seen if one["broken"] and one["longest"] <= LONGEST] == []
    assert min(slide["size"] for slide in seen) >= SMALLEST
    assert min(slide["drawn"] for slide in seen) >= SMALLEST_DRAWN
    assert max(slide["prose"] for slide in seen) <= MOST_WORDS


TURN_TO = """selector => {
    const slide = document.querySelector(selector).closest('section');
    Reveal.slide(Reveal.getIndices(slide).h);
}"""


def test_an_explorer_moves_the_presenter_turns_the_page_and_has_notes(open_slides):
    page = open_slides(LESSONS[1])
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    popup.value.get_by_text("For teachers: a plan").wait_for()
    popup.value.close()
    page.evaluate(TURN_TO, ".attnlab-explorer")
    before = page.evaluate("Reveal.getSlidePastCount()")
    card = page.locator("section.present .card")
    card.get_by_role("button", name="skip").press("Enter")
    picture = card.locator(".picture").inner_html()
    card.get_by_label("temperature").press("ArrowRight")
    assert card.locator(".picture").inner_html() != picture
    assert page.evaluate("Reveal.getSlidePastCount()") == before
    page.keyboard.press("PageDown")
    assert page.evaluate("Reveal.getSlidePastCount()") == before + 1


def test_one_key_shows_the_answer_and_then_every_slide(open_slides):
    page = open_slides(LESSONS[1])
    page.evaluate(TURN_TO, ".options")
    page.keyboard.press("ArrowRight")
    marked = page.locator("section.present .options .visible")
    assert marked.evaluate("one => getComputedStyle(one, '::after').content") == '" ✓"'
    page.evaluate("Reveal.slide(0)")
    seen = {page.evaluate("Reveal.getIndices().h")}
    while not page.evaluate("Reveal.isLastSlide()"):
        page.keyboard.press("Space")
        seen.add(page.evaluate("Reveal.getIndices().h"))
    assert len(seen) == page.evaluate("Reveal.getTotalSlides()")


def test_a_question_comes_first_then_what_it_asks_about_then_the_verdict(open_slides):
    page = open_slides(LESSONS[2])
    page.evaluate(TURN_TO, ".figure .output.fragment")
    parts = [page.locator(f"section.present {one}") for one in ("h2", ".output", ".verdict")]
    for seen in ([True, False, False], [True, True, False], [True, True, True]):
        wait_until(page, lambda now=seen: [part.is_visible() for part in parts] == now, str(seen))
        page.keyboard.press("ArrowRight")


def test_a_key_hides_code_and_passes_over_slides_of_nothing_else(open_slides):
    page = open_slides(LESSONS[2])
    bare = page.locator(".slide:has(.made):not(:has(.output))").count()
    code, output = (page.locator(f"section.present {one}") for one in (".made", ".output"))
    page.evaluate(TURN_TO, ".made")
    page.keyboard.press("c")
    assert (code.is_visible(), output.is_visible()) == (False, True)
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("Reveal.getCurrentSlide().className").startswith("slide question")
    page.evaluate("Reveal.slide(0)")
    seen = {0}
    while not page.evaluate("Reveal.isLastSlide()"):
        page.keyboard.press("Space")
        seen.add(page.evaluate("Reveal.getIndices().h"))
    assert len(seen) == page.evaluate("Reveal.getTotalSlides()") - bare
    page.keyboard.press("c")
    page.evaluate(TURN_TO, ".made")
    assert code.is_visible()
