"""OrderExplorer: a bag of words without positions, an order with them."""

import itertools
import re

import pytest
import torch
import torch.nn.functional as F

from attnlab.data import load_table
from attnlab.explorers import OrderExplorer
from attnlab.explorers.order import FEATURES, SHUFFLES, TOKENS
from tests.explorers.common import ExplorerTests, at

AS_WRITTEN = (0, 1, 2, 3, 4, 5)
ORDERS = [*SHUFFLES, AS_WRITTEN, (4, 1, 2, 3, 0, 5), (0, 1, 2, 3, 5, 4)]


def lesson_vectors():
    """Return words and positions as lesson 4 makes them."""
    torch.manual_seed(0)
    return load_table("the_cat_sat_on_the_mat.csv").values, 0.5 * torch.randn(6, 5)


class TestOrder(ExplorerTests):
    kind = OrderExplorer
    states = [
        {"order": order, "positions": positions}
        for order, positions in itertools.product(ORDERS, (False, True))
    ]

    def expected(self, explorer):
        x, position = lesson_vectors()
        position, order = explorer.positions * position, list(explorer.order)
        before, after = (
            F.scaled_dot_product_attention(one, one, one)
            for one in (x + position, x[order] + position)
        )
        moved = (after - before[order]).norm(dim=-1)
        return {"before": before, "after": after, "moved": moved}

    def check_words(self, explorer, said, result):
        moved = result.moved
        if explorer.order == AS_WRITTEN:
            assert "as written" in said
            assert moved.max() == 0
        elif not explorer.positions:
            assert "no output has changed" in said
            assert moved.max() < 1e-6
        else:
            found = re.search(r"(\d) of 6 .* of “(\w+)” most, by (\d\.\d\d)", said)
            assert int(found[1]) == (moved > 1e-4).sum()
            place = int((moved > moved.max() - 1e-6).nonzero()[0])
            assert found[2] == TOKENS[explorer.order[place]]
            assert float(found[3]) == pytest.approx(moved[place].item(), abs=0.0051)


@pytest.mark.parametrize("positions", [False, True])
def test_all_720_orders_stay_on_the_stated_scale_and_move_outputs_by_positions_alone(positions):
    low, high = OrderExplorer.panels[1].scale
    explorer = at(OrderExplorer, positions=positions)
    for explorer.order in [*itertools.permutations(range(6))][1:]:
        result = explorer.result
        assert low < result.after.min() < result.after.max() < high
        assert result.moved.max() > 0.01 if positions else result.moved.max() < 1e-12


def test_equal_words_that_change_places_leave_the_others_alone():
    said = at(OrderExplorer, order=(4, 1, 2, 3, 0, 5), positions=True).say()
    assert "2 of 6 outputs have changed" in said  # “The” and “the” have one vector
    assert "6 of 6" in at(OrderExplorer, order=SHUFFLES[0], positions=True).say()


def test_the_browser_gets_every_word_at_every_place():
    x, position = lesson_vectors()
    data = OrderExplorer().data
    torch.testing.assert_close(torch.tensor(data["placed"]), x[:, None] + position)
    torch.testing.assert_close(torch.tensor(data["vectors"]), x)
    assert (4, 5, 2, 3, 0, 1) in data["shuffles"]  # "the mat sat on The cat", as in lesson 4
    table = load_table("the_cat_sat_on_the_mat.csv")
    assert (TOKENS, FEATURES) == (tuple(table.tokens), tuple(table.features))


def test_the_still_picture_shows_the_words_in_both_orders():
    before, after = at(OrderExplorer, order=(4, 1, 2, 3, 0, 5)).figure().axes
    names = [[text.get_text() for text in ax.get_yticklabels()] for ax in (before, after)]
    assert names == [[*TOKENS], ["the", "cat", "sat", "on", "The", "mat"]]
    assert before.collections[0].get_clim() == after.collections[0].get_clim() == (-0.8, 1.6)
