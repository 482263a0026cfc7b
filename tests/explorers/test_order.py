"""OrderExplorer: a bag of words without positions, an order with them."""

import itertools
import re

import pytest
import torch
import torch.nn.functional as F

from attnlab.data import load_table
from attnlab.explorers import OrderExplorer
from attnlab.explorers.order import SHUFFLES

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
        assert word == explorer.data["tokens"][order[place]]
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
    torch.testing.assert_close(torch.tensor(data["words"]), x)
    assert (4, 5, 2, 3, 0, 1) in data["shuffles"]  # "the mat sat on The cat", as in lesson 4


@pytest.mark.parametrize(
    ("state", "error", "sentence"),
    [
        ({"order": "012345"}, TypeError, "order must be a list of places, got '012345'"),
        ({"order": None}, TypeError, "order must be a list of places, got None"),
        ({"order": torch.arange(6)}, TypeError, "order must be a list of places"),
        ({"order": [0, 1, 2]}, ValueError, "must hold each of 0 to 5 once, as integers"),
        ({"order": [0, 1, 2, 3, 4, 4]}, ValueError, "each of 0 to 5 once"),
        ({"order": [1, 2, 3, 4, 5, 6]}, ValueError, "each of 0 to 5 once"),
        ({"order": [0, True, 2, 3, 4, 5]}, ValueError, "each of 0 to 5 once, as integers"),
        ({"order": [0, 1.0, 2, 3, 4, 5]}, ValueError, "as integers"),
        ({"order": [0, float("nan"), 2, 3, 4, 5]}, ValueError, "as integers"),
        ({"order": list(range(10_000))}, ValueError, r"got \[0, 1, .*\.\.\."),
        ({"positions": 1}, TypeError, "positions must be True or False, got int 1"),
        ({"positions": "on"}, TypeError, "positions must be True or False"),
    ],
)
def test_a_hostile_state_gets_one_sentence(state, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        OrderExplorer(**state)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)
