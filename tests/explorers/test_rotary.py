"""RotaryExplorer: turned pairs and their score, computed with complex numbers."""

import itertools
import math
import re

import pytest
import torch

from attnlab.explorers import RotaryExplorer
from attnlab.explorers.rotary import BASES, DISTANCES, PAIRS, PLACES, SIDE
from tests.explorers.common import ExplorerTests, at


class TestRotary(ExplorerTests):
    kind = RotaryExplorer
    states = [
        {"query": query, "key": key, "base": base}
        for query, key, base in itertools.product((0, 5, 23, 24), (0, 2, 24), BASES)
    ]

    def expected(self, explorer):
        speeds = explorer.base ** (-torch.arange(PAIRS).double() / PAIRS)
        query = torch.exp(1j * explorer.query * speeds)
        key = torch.exp(1j * (explorer.key * speeds - 0.5))
        away = torch.outer(torch.tensor(DISTANCES).double(), speeds)
        return {
            "query": torch.view_as_real(query),
            "key": torch.view_as_real(key),
            "score": (query * key.conj()).real.sum().item(),
            "curve": (away + 0.5).cos().sum(dim=-1),
        }

    def check_words(self, explorer, said, result):
        found = re.match(
            r"The query is at position (\d+), the key at (\d+)\. At distance (\d+) − (\d+) = "
            r"(−?\d+) the raw score is (−?\d\.\d\d), and (.*)\.$",
            said,
        )
        query, key, *again, distance = (int(found[i].replace("−", "-")) for i in range(1, 6))
        assert [query, key] == again == [explorer.query, explorer.key]
        assert distance == query - key
        assert float(found[6].replace("−", "-")) == pytest.approx(result.score, abs=0.0051)
        pairs = [m - n for m, n in itertools.product(PLACES, PLACES)].count(distance)
        several = f"it is the same for all {pairs} ways to place the two at this distance"
        alone = "no other two of these positions have this distance"
        assert found[7] == (several if pairs > 1 else alone)


@pytest.mark.parametrize("base", BASES)
def test_the_score_is_the_one_of_its_distance_at_all_625_places(base):
    explorer = at(RotaryExplorer, base=base)
    curve = explorer.result.curve
    low, high = RotaryExplorer.panels[0].y.low, RotaryExplorer.panels[0].y.high
    assert low < curve.min() < curve.max() < high
    for explorer.query, explorer.key in itertools.product(PLACES[::4], PLACES[::3]):
        score = explorer.result.score
        assert score == pytest.approx(curve[explorer.query - explorer.key + 24].item(), abs=1e-9)


def test_the_prediction_is_right():
    """A larger base slows down every pair but the first."""
    slow, fast = (torch.tensor(RotaryExplorer().data["speeds"])[i] for i in (-1, 0))
    assert slow[0] == fast[0] == 1
    assert (slow[1:] < fast[1:]).all()


def test_the_still_picture_draws_both_arrows_in_every_plane():
    explorer = at(RotaryExplorer, query=24, key=3, base=100.0)
    axes = {ax.get_title(loc="left"): ax for ax in explorer.figure().axes}
    curve = axes["raw score at each distance"]
    for pair in range(PAIRS):
        ax = axes[f"pair {pair}"]
        ends = [line.get_xydata()[-1].tolist() for line in ax.lines[::2]]
        wanted = [explorer.result.query[pair].tolist(), explorer.result.key[pair].tolist()]
        assert ends == [pytest.approx(one) for one in wanted]
        assert ax.get_xlim() == (-SIDE, SIDE)
        assert max(math.hypot(*end) for end in ends) < SIDE
    wanted = explorer.result.curve.tolist()
    assert curve.lines[0].get_ydata().tolist() == pytest.approx(wanted, abs=1e-5)
    assert curve.lines[1].get_xdata()[0] == 21
