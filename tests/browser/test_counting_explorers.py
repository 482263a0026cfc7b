"""Rules for padding, cost, peeking: the browser shows the state that Python computes."""

import os

import pytest
import torch

from attnlab.explorers import AfterSoftmaxExplorer, CostExplorer, PeekExplorer
from attnlab.explorers.cost import bytes_text
from tools._browser import NO_BROWSER, find_browser

pytestmark = pytest.mark.browser
if find_browser() is None and os.environ.get("CI") != "true":  # in CI each test fails without
    pytest.skip(NO_BROWSER, allow_module_level=True)

RULES = [
    AfterSoftmaxExplorer(ask=False, rule=rule, lift=lift)
    for rule, lift in (("no mask", -4), ("before: -inf", 2), ("before: 0", 0), ("after: 0", 6))
]
COSTS = [
    CostExplorer(ask=False, n=64, heads=1, dtype="float16"),
    CostExplorer(ask=False, n=65536, heads=32),
    CostExplorer(4096, ask=False, n=8192),
]
PEEKS = [
    PeekExplorer(ask=False, causal=causal, step=step)
    for causal, step in ((True, 0), (False, 50), (False, 300))
]
ASKING = [AfterSoftmaxExplorer(lift=2), CostExplorer(), PeekExplorer()]
ALL = [*RULES, *COSTS, *PEEKS, *ASKING]


@pytest.fixture(scope="module")
def cards(open_cards):
    """Return a function from an explorer to its card, in one page without a kernel."""
    found = open_cards(ALL)
    return lambda explorer: found[ALL.index(explorer)]


@pytest.mark.parametrize("explorer", [*RULES, *COSTS, *PEEKS], ids=repr)
def test_the_browser_says_what_python_says(cards, explorer):
    assert cards(explorer).locator(".say").inner_text() == explorer.say()


@pytest.mark.parametrize("explorer", RULES, ids=repr)
def test_cells_bars_and_sums_are_those_of_the_rule(cards, explorer):
    card, result = cards(explorer), explorer.result
    cells = [float(text) for text in card.locator("td .cell").all_inner_texts()]
    torch.testing.assert_close(torch.tensor(cells), result.weights.flatten(), atol=0.0056, rtol=0)
    widths = card.locator("td i").evaluate_all("all => all.map(e => parseFloat(e.style.width))")
    wanted = torch.stack([result.on_words, result.on_padding], dim=1).flatten()
    torch.testing.assert_close(torch.tensor(widths) / 100, wanted, atol=6e-4, rtol=0)
    leaking = card.locator("td .cell.leak").count()
    assert leaking == (10 if explorer.rule in ("no mask", "before: 0") else 0)
    sums = card.locator("td.sum").all_inner_texts()
    assert [text.startswith("✓") for text in sums] == [explorer.rule != "after: 0"] * 5
    names = {"torch": torch, "scores": torch.zeros(5, 5)}
    exec(card.locator("pre").text_content(), names)
    assert names["weights"].shape == (5, 5)


@pytest.mark.parametrize("explorer", COSTS, ids=repr)
def test_tiles_and_lines_hold_the_cost(cards, explorer):
    card, result = cards(explorer), explorer.result
    tiles = card.locator("svg").first.locator("text").all_text_contents()
    assert tiles[:5] == [bytes_text(result.weight_bytes)] * 5
    assert tiles[5:7] == [f"n = {explorer.n}", f"n = {2 * explorer.n}"]
    names = {"torch": torch}
    exec(card.locator("pre").text_content(), names)
    assert names["memory"] == result.weight_bytes
    assert names["attention"] == result.attention_flops
    assert f"n = 2 d_model = {2 * explorer.d_model}" in card.inner_text()


@pytest.mark.parametrize("explorer", PEEKS, ids=repr)
def test_the_board_holds_the_losses_and_the_winner(cards, explorer):
    card = cards(explorer)
    shown = card.locator("td b").all_inner_texts()  # no mask and causal, for both losses
    both = [PeekExplorer(causal=causal, step=explorer.step).result for causal in (False, True)]
    losses = [result[place].mean().item() for place in (0, 1) for result in both]
    numbers = [float(text.removeprefix("✓ ")) for text in shown]
    assert numbers == pytest.approx(losses, abs=0.00501)
    lower = [a < b for pair in (numbers[:2], numbers[2:]) for a, b in (pair, pair[::-1])]
    assert [text.startswith("✓") for text in shown] == lower
    assert card.locator("td .cell.leak").count() == (0 if explorer.causal else 4)
    assert f"is_causal={explorer.causal}" in card.locator("pre").text_content()


def test_predictions_are_settled_by_the_state_they_ask_about(cards):
    rule, cost, peek = (cards(explorer) for explorer in ASKING)
    gates = [card.get_by_role("group", name="Predict first") for card in (rule, cost, peek)]
    for gate, guess in zip(gates, ("no mask", "4 times", "close to it"), strict=True):
        gate.get_by_role("button", name=guess).press("Enter")
        assert f"You predicted: {guess}" in gate.inner_text()
    rule.get_by_role("radio", name="0 before").check()
    assert "✗" not in gates[0].inner_text()  # the numbers it tells are those of the lesson
    rule.get_by_role("button", name="add 0").click()
    assert "✗ You predicted no mask. With 0 before the softmax “cat” leaves 0.580" in (
        gates[0].inner_text()
    )
    cost.get_by_role("button", name="Double n").click()
    assert "✓ You predicted 4 times" in gates[1].inner_text()
    peek.get_by_role("radio", name="none").check()
    assert "✗ You predicted close to it" in gates[2].inner_text()


def test_double_n_stops_at_the_end_and_keeps_the_focus(cards):
    card = cards(COSTS[0])
    button = card.get_by_role("button", name="Double n")
    button.focus()
    for _ in range(12):
        card.page.keyboard.press("Enter")
    assert card.locator("output").inner_text() == "65536"
    assert button.get_attribute("aria-disabled") == "true"
    assert button.evaluate("e => e.getRootNode().activeElement === e")


def test_pointing_at_a_curve_previews_and_a_click_keeps(cards):
    card = cards(PEEKS[0])
    curve, say = card.locator("svg.pickable"), card.locator(".say")
    curve.scroll_into_view_if_needed()
    box = curve.bounding_box()
    place = {"x": box["width"] * (46 + 250 / 3) / 310, "y": box["height"] / 2}  # step 100
    curve.hover(position=place)
    assert "step 100" in say.inner_text()
    assert card.locator("output").inner_text() == "0"
    card.locator("h3").hover()
    assert "step 0" in say.inner_text()
    curve.click(position=place)
    card.locator("h3").hover()
    assert "step 100" in say.inner_text()
    assert card.locator("output").inner_text() == "100"
