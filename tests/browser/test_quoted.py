"""Words that the sentence of an explorer quotes light rows, columns and tokens of its picture."""

import torch
from playwright.sync_api import Locator

from attnlab.explorers import HeadView, MaskExplorer, RealHeadsExplorer
from tests.browser.pages import barriers, read
from tests.browser.pointed import BOX


def lines_of(card: Locator, word: str) -> list[list[float]]:
    """Return the boxes that light up for a quoted word."""
    card.locator(".attnlab-named", has_text=word).focus()
    return read(card.locator(".attnlab-outline"), BOX)


def test_a_quoted_word_lights_its_row_or_column_and_its_token(open_cards):
    opened = MaskExplorer(ask=False, mask="causal", padding=0, toggled=[[1, 2]])
    padded = MaskExplorer(ask=False, mask="both", padding=2, fill="0 after")
    heads = RealHeadsExplorer(ask=False)
    twice = HeadView(torch.eye(3)[None], ["so", "and", "so"], word=2)
    opened, padded, heads, twice = open_cards([opened, padded, heads, twice])
    for panel, row in enumerate(lines_of(opened, "“cat”")):
        table = opened.locator("table").nth(panel)
        assert row == table.locator("tbody tr").nth(1).evaluate(BOX)
    for panel, (x, y, *_) in enumerate(lines_of(opened, "“sat”")):
        head = opened.locator("table").nth(panel).locator("th[scope=col]").nth(2)
        assert [x, y] == head.evaluate(BOX)[:2]
    assert "“The” (row 2)" in padded.locator(".say").inner_text()
    assert len(lines_of(padded, "“The”")) == 3  # one for each panel
    assert "“so” at 2" in twice.locator(".say").inner_text()
    assert lines_of(twice, "“so”") == [twice.locator(".arcs button").nth(2).evaluate(BOX)]
    (token,) = lines_of(heads, "“river”")
    assert token == heads.locator(".arcs button", has_text="river").evaluate(BOX)
    heads.locator(".arcs button", has_text="river").focus()
    assert barriers(heads.page, ".attnlab-explorer") == []
