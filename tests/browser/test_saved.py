"""An explorer that is saved: one file that works alone, for everybody."""

import torch

from attnlab.explorers import HeadView
from tests.browser.pages import barriers, wait_until

TOKENS = "the cat sat on the mat </script>".split()


def test_a_saved_file_works_by_keyboard_without_network(tab, tmp_path):
    weights = torch.randn(2, 3, 7, 7, generator=torch.Generator().manual_seed(0)).softmax(-1)
    view = HeadView(list(weights[:, None]), TOKENS)
    view.save(tmp_path / "heads.html")
    page = tab.open(tmp_path / "heads.html")
    card = page.locator(".card")
    assert card.locator(".say").inner_text() == view.say()
    card.get_by_role("radio").first.focus()
    page.keyboard.press("ArrowRight")  # the other layer
    for name, keys in (("head 2", "Enter"), ("mat (5)", "Space")):
        card.get_by_role("button", name=name).focus()
        page.keyboard.press(keys)
    view.layer, view.head, view.word = 1, 2, 5
    card.locator("summary").press("Enter")
    assert card.locator(".say").inner_text() == view.say()
    code = card.locator("pre").inner_text()
    assert code == "weights[1][0, 2, 5]  # layer 1, head 2, mat"
    assert card.locator(".map").count() == 3
    wait_until(page, lambda: barriers(page, ".attnlab-explorer") == [], "no barrier")
    assert tab.problems == []
    assert tab.outside == []
