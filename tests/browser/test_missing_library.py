"""Stored explorers when the output that carries their scripts is missing, and when it comes."""

import pytest

from attnlab.explorers import Explorer, MaskExplorer, ScalingExplorer, _page

SHOWN = "hosts => hosts.map(host => host.shadowRoot?.querySelector('.say').textContent ?? null)"


@pytest.fixture
def outputs(monkeypatch):
    """Return what a notebook stores of three explorers: the first carries what they share."""
    monkeypatch.setattr(Explorer, "_picture", lambda self: b"")
    monkeypatch.setattr(_page, "_stored", set())
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    made = [ScalingExplorer(ask=False), MaskExplorer(ask=False), MaskExplorer(padding=[0])]
    return made, [explorer._repr_mimebundle_()["text/html"] for explorer in made]


@pytest.fixture
def show(tab, tmp_path):
    """Open a page of pieces; return it. Nothing goes wrong there."""
    tab.start_anew()
    yield lambda *pieces: tab.show(tmp_path, *pieces)
    assert tab.problems == []


def said(page):
    """Return the sentences of the explorers that move; None for those that stand still."""
    return page.locator(".attnlab-explorer").evaluate_all(SHOWN)


def test_without_the_first_output_the_others_stand_still_with_their_sentence(outputs, show):
    made, pieces = outputs
    page = show(*pieces[1:])
    assert said(page) == [None, None]
    for explorer, host in zip(made[1:], page.locator(".attnlab-explorer").all(), strict=True):
        assert host.locator("img").get_attribute("alt") == explorer.say()
        assert host.locator("p").first.inner_text() == explorer.say()
        assert host.locator("p").first.is_visible()
        assert "Run this cell" in host.inner_text()


def test_they_move_when_the_scripts_come_in_whatever_order(outputs, show):
    made, pieces = outputs
    page = show(*reversed(pieces))
    assert said(page) == [explorer.say() for explorer in reversed(made)]
    assert page.locator("img:visible").count() == 0


def test_they_move_when_an_explorer_is_run_as_a_widget(outputs, show):
    made, pieces = outputs
    page = show(*pieces[1:])
    page.add_script_tag(type="module", content=_page.widget_script("declared"))
    page.wait_for_function("document.querySelector('.attnlab-explorer').shadowRoot")
    assert said(page) == [explorer.say() for explorer in made[1:]]


def test_a_page_that_leaves_out_scripts_keeps_its_picture(outputs, show):
    made, pieces = outputs
    bare = pieces[1].partition("<script")[0] + "</div>"
    page = show(bare, *pieces)
    assert said(page) == [None, *(explorer.say() for explorer in made)]
