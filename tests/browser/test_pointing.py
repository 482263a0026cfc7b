"""Numbers in the text below a figure light the cell that is meant, and the cell its number."""

import pytest
from playwright.sync_api import expect

from attnlab.display.browser import pointing_script
from attnlab.explorers.frame import to_json
from tests.browser.pages import barriers, read
from tests.browser.pointed import BOX, is_lit, shown_weights

SENTENCES = {  # in the text below the figure, and what is marked in it: number, row, column
    "In the row of <code>cat</code>, .25 goes to <em>sat</em>.": [(".25", "cat", "sat")],
    "“sat” keeps 0.70, or 0.7. And 0.70?": [("0.70", "sat", "sat")],
    "“sat” gives or gets 0.25.": [],
    "The cat keeps 0.75, and “the cat” too.": [],
    "“cat” has 10.75, 0.753, 0.75% and 3.0.75.": [],
    'The <a href="#">0.75</a> of “cat”, <code>0.75</code> in code': [],
    "“cat” gives 0.50 to nobody.": [],
}


@pytest.fixture
def page(tab, tmp_path):
    """A heading, the figure, its text, and more of the same below another heading."""
    shown, text = shown_weights(), "".join(f"<p>{sentence}</p>" for sentence in SENTENCES)
    text = f'<div class="prose">{text}<h2>Next</h2><p>“cat” keeps 0.75.</p></div>'
    maps = to_json({shown.number: shown.maps})
    link = f"linkNumbers(document.querySelector('main'), {maps})"
    script = f"<script>{pointing_script()}\nconst unlink = {link};</script>"
    return tab.show(tmp_path, "<h1>One</h1>", shown.to_html(), text, script)


def test_only_numbers_that_can_mean_one_cell_are_marked_and_a_mark_leaves_no_trace(page):
    wanted = [
        (number, f"row {row}, column {column} of Figure 1.1")
        for told in SENTENCES.values()
        for number, row, column in told
    ]
    marks = page.locator(".attnlab-named")
    assert [tuple(one) for one in read(marks, "e => [e.textContent, e.title]")] == wanted
    assert barriers(page, ".prose") == []
    page.evaluate("unlink()")
    expect(marks).to_have_count(0)
    assert read(page.locator(".prose p"), "e => e.innerHTML") == [*SENTENCES, "“cat” keeps 0.75."]


def test_pointer_and_keyboard_light_the_cell_and_the_cell_its_number(page):
    first, second = page.locator(".attnlab-named").all()
    first.hover()
    assert is_lit(page, row=0, column=1)
    page.keyboard.press("Tab")
    expect(first).to_be_focused()
    page.mouse.move(0, 0)
    assert is_lit(page, row=0, column=1)
    page.keyboard.press("Tab")
    expect(second).to_be_focused()
    assert is_lit(page, row=1, column=1)
    x, y, width, height = page.locator(".attnlab-outline").evaluate(BOX)
    second.blur()
    expect(page.locator(".attnlab-outline")).to_have_count(0)
    page.mouse.move(x + width / 2, y + height / 2)
    assert [one.evaluate("e => e.classList.contains('lit')") for one in (first, second)] == [0, 1]


def test_a_number_far_below_brings_its_figure_into_sight(page):
    page.set_viewport_size({"width": 1366, "height": 400})
    page.evaluate("document.querySelector('.prose').style.marginTop = '2000px'")
    mark, picture = page.locator(".attnlab-named").last, page.locator("figure img")
    mark.focus()
    expect(picture).not_to_be_in_viewport()
    mark.press("Enter")
    expect(picture).to_be_in_viewport()
