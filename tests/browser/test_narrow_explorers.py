"""Explorers in cards of several widths: names whole, panels side by side, code words unbroken."""

import pytest

from attnlab.explorers import (
    AfterSoftmaxExplorer,
    CrossExplorer,
    DivisorsExplorer,
    MaskExplorer,
    OrderExplorer,
    PeekExplorer,
    RowExplorer,
    ScalingExplorer,
)

STATES = {
    CrossExplorer: {"question": "doing what?"},
    OrderExplorer: {"order": (4, 5, 2, 3, 0, 1), "positions": True},
    RowExplorer: {"step": 7},
    AfterSoftmaxExplorer: {"rule": "after: 0"},
    MaskExplorer: {"mask": "window"},
    ScalingExplorer: {},
    DivisorsExplorer: {},
    PeekExplorer: {},
}
THREE_PANELS = (ScalingExplorer, DivisorsExplorer, PeekExplorer)
CUT_NAMES = """card => [...card.querySelectorAll('th')]
    .filter(name => name.scrollWidth > name.clientWidth).map(name => name.textContent)"""
LINES = """(element, word) => {
    const row = [...element.querySelectorAll('.row')].find(row => row.textContent.includes(word));
    const range = document.createRange(), walker = document.createTreeWalker(row, 4);
    for (let node; (node = walker.nextNode());) {
        const at = node.data.indexOf(word);
        if (at < 0) continue;
        range.setStart(node, at);
        range.setEnd(node, at + word.length);
        return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size;
    }
}"""


@pytest.fixture(scope="module")
def cards(open_cards):
    """The cards of a page, by explorer."""
    made = [kind(ask=False, **state) for kind, state in STATES.items()]
    return dict(zip(STATES, open_cards(made), strict=True))


@pytest.fixture
def at_width(tab, cards):
    """Make the cards of a width; return them."""

    def resize(width):
        tab.page.set_viewport_size({"width": width + 16, "height": 768})
        return cards

    return resize


@pytest.mark.parametrize("width", [1180, 1000, 930, 860, 600, 374])
def test_no_name_is_cut_off(at_width, width):
    found = {kind.__name__: card.evaluate(CUT_NAMES) for kind, card in at_width(width).items()}
    assert {name: cut for name, cut in found.items() if cut} == {}


@pytest.mark.parametrize("kind", THREE_PANELS)
def test_three_panels_stand_side_by_side_below_the_sentence(at_width, kind):
    card = at_width(860)[kind]
    boxes = card.evaluate(
        """card => [...card.querySelector('.picture').children, card.querySelector('.bar'),
            card.querySelector('.say')].map(element => element.getBoundingClientRect())
            .map(({top, bottom}) => [top, bottom])"""
    )
    *panels, bar, say = boxes
    assert len(panels) == 3
    assert len({top for top, _ in panels}) == 1
    assert bar[1] <= say[0] <= say[1] <= panels[0][0]


def test_the_picture_stays_where_it_is_while_the_sentence_changes(at_width):
    card = at_width(860)[ScalingExplorer]
    places = set()
    for stop in range(11):
        card.locator("input[type=range]").fill(str(stop))
        places.add(card.locator(".picture").bounding_box()["y"])
    assert len(places) == 1


@pytest.mark.parametrize(
    ("kind", "width"), [(AfterSoftmaxExplorer, 990), (DivisorsExplorer, 860), (PeekExplorer, 860)]
)
def test_all_controls_are_in_one_line(at_width, kind, width):
    assert at_width(width)[kind].locator(".bar").bounding_box()["height"] < 75


@pytest.mark.parametrize("width", [1180, 844])  # 844: in JupyterLab at 1024
def test_all_words_of_the_sentence_are_in_one_line(at_width, width):
    words = at_width(width)[MaskExplorer].locator(".chips button").all()
    assert len({word.bounding_box()["y"] for word in words}) == 1


@pytest.mark.parametrize("width", [1180, 1000, 860, 600, 374])
def test_no_word_of_the_code_is_broken(at_width, width):
    card = at_width(width)[MaskExplorer]
    card.evaluate("card => { card.querySelector('details').open = true; }")
    code = card.locator("pre .row").first.locator("xpath=..")
    assert code.evaluate(LINES, "-torch.inf") == 1
    assert "scores = scores.masked_fill(~mask, -torch.inf)" in code.text_content()


def test_the_code_stands_after_picture_and_tables_where_these_are_stacked(at_width):
    card = at_width(600)[CrossExplorer]
    parts = (".panel-crossing", ".column", "details")
    tops = [card.locator(one).bounding_box()["y"] for one in parts]
    assert tops == sorted(tops)
    assert len(set(tops)) == 3


@pytest.mark.parametrize("window", [1, 3])
def test_the_window_is_told_beside_its_slider_and_in_the_code(at_width, window):
    card = at_width(1180)[MaskExplorer]
    card.get_by_role("slider", name="width of the window").fill(str(window - 1))
    words = "itself alone" if window == 1 else "itself and 2 before"
    assert words in card.locator(".bar").inner_text()
    assert f".tril().triu({1 - window}).bool()  # {words}" in card.locator("pre").text_content()
