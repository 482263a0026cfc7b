"""OrderExplorer: a bag of words without positions, an order with them."""

import itertools
import re

import pytest
import torch
import torch.nn.functional as F

from attnlab.data import load_table
from attnlab.explorers import OrderExplorer
from attnlab.explorers.order import FEATURES, SHUFFLES, TOKENS

ORDERS = [*SHUFFLES, (0, 1, 2, 3, 4, 5), (4, 1, 2, 3, 0, 5), (0, 1, 2, 3, 5, 4)]


def lesson_vectors():
    """Return words and positions as lesson 4 makes them."""
    torch.manual_seed(0)
    return load_table("the_cat_sat_on_the_mat.csv").values, 0.5 * torch.randn(6, 5)


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_result_is_what_torch_and_the_lesson_give(order, positions):
    x, position = lesson_vectors()
    y, z = (x, x[list(order)]) if not positions else (x + position, x[list(order)] + position)
    before, after = (F.scaled_dot_product_attention(one, one, one) for one in (y, z))
    result = OrderExplorer(order=order, positions=positions).result
    torch.testing.assert_close(result.before.float(), before)
    torch.testing.assert_close(result.after.float(), after)
    moved = (after - before[list(order)]).norm(dim=-1)
    torch.testing.assert_close(result.moved.float(), moved, atol=1e-5, rtol=0)


def test_without_positions_no_order_of_all_720_moves_an_output():
    explorer = OrderExplorer()
    for order in itertools.permutations(range(6)):
        explorer.order = order
        assert explorer.result.moved.max() < 1e-12
    explorer.positions = True
    assert explorer.result.moved.min() > 0.01


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_the_sentence_is_true_at_every_stop(order, positions):
    explorer = OrderExplorer(order=order, positions=positions)
    said, moved = explorer.say(), explorer.result.moved
    if order == (0, 1, 2, 3, 4, 5):
        assert "as written" in said
        assert moved.max() == 0
    elif not positions:
        assert "no output has changed" in said
        assert moved.max() < 1e-6
    else:
        count, word, far = re.search(r"(\d) of 6 .* of “(\w+)” most, by (\d\.\d\d)", said).groups()
        assert int(count) == (moved > 1e-4).sum()
        place = int((moved > moved.max() - 1e-6).nonzero()[0])
        assert word == TOKENS[order[place]]
        assert float(far) == pytest.approx(moved[place].item(), abs=0.0051)


def test_equal_words_that_change_places_leave_the_others_alone():
    said = OrderExplorer(order=(4, 1, 2, 3, 0, 5), positions=True).say()
    assert "2 of 6 outputs have changed" in said  # “The” and “the” have one vector
    assert "6 of 6" in OrderExplorer(order=SHUFFLES[0], positions=True).say()


def test_the_browser_gets_every_word_at_every_place():
    x, position = lesson_vectors()
    data = OrderExplorer().data
    placed = torch.tensor(data["placed"])
    assert placed.shape == (6, 6, 5)
    torch.testing.assert_close(placed[4, 1], x[4] + position[1])
    torch.testing.assert_close(torch.tensor(data["vectors"]), x)
    assert (4, 5, 2, 3, 0, 1) in data["shuffles"]  # "the mat sat on The cat", as in lesson 4


@pytest.mark.parametrize(
    ("order", "error", "sentence"),
    [
        ("012345", TypeError, "order must be a list of places, got '012345'"),
        (None, TypeError, "order must be a list of places, got None"),
        (torch.arange(6), TypeError, "order must be a list of places"),
        ([0, 1, 2], ValueError, "must hold each of 0 to 5 once, as integers"),
        ([0, 1, 2, 3, 4, 4], ValueError, "each of 0 to 5 once"),
        ([1, 2, 3, 4, 5, 6], ValueError, "each of 0 to 5 once"),
        ([0, True, 2, 3, 4, 5], ValueError, "each of 0 to 5 once, as integers"),
        ([0, 1.0, 2, 3, 4, 5], ValueError, "as integers"),
        ([0, float("nan"), 2, 3, 4, 5], ValueError, "as integers"),
        (list(range(10_000)), ValueError, r"got \[0, 1, .*\.\.\."),
    ],
)
def test_what_is_not_an_order_gets_one_sentence(order, error, sentence):
    with pytest.raises(error, match=sentence) as found:
        OrderExplorer(order=order)
    assert len(str(found.value)) < 200


def test_the_names_are_those_of_the_table_and_outputs_lie_on_the_stated_scale():
    table = load_table("the_cat_sat_on_the_mat.csv")
    assert (TOKENS, FEATURES) == (tuple(table.tokens), tuple(table.features))
    low, high = OrderExplorer.panels[1].scale
    explorer = OrderExplorer(positions=True)
    for explorer.order in itertools.permutations(range(6)):
        assert low < explorer.result.after.min() < explorer.result.after.max() < high


def test_the_still_picture_shows_the_words_in_both_orders():
    before, after = OrderExplorer(order=(4, 1, 2, 3, 0, 5)).figure().axes
    names = [[text.get_text() for text in ax.get_yticklabels()] for ax in (before, after)]
    assert names == [[*TOKENS], ["the", "cat", "sat", "on", "The", "mat"]]
    assert before.collections[0].get_clim() == after.collections[0].get_clim() == (-0.8, 1.6)
