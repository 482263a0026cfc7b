"""TemperatureExplorer: what torch says of every temperature, and that the words are true."""

import re

import pytest
import torch

from attnlab.explorers import TemperatureExplorer
from attnlab.explorers import temperature as module
from attnlab.explorers.temperature import SCORES, STOPS, measure
from tests.explorers.common import DeclaredTests

FIVE = torch.tensor(SCORES).double()


class TestTemperature(DeclaredTests):
    kind = TemperatureExplorer
    states = [{"tau": tau} for tau in STOPS]
    written = {"weights": "weights", "used": "effective_keys"}

    def expected(self, explorer):
        weights = (FIVE / explorer.tau).softmax(-1)
        return {"weights": weights, "effective_keys": torch.special.entr(weights).sum().exp()}

    def check_words(self, explorer, said, result):
        weights, used = self.expected(explorer).values()
        best, second = weights.topk(2).values.tolist()
        found = re.match(
            r"τ = (\S+): key (\d) wins.* is (.+), which is (\S+) times.* uses (\S+) of its 5", said
        )
        assert (float(found[1]), int(found[2])) == (explorer.tau, weights.argmax())
        share = float(found[3].replace("nearly 1", "1"))
        assert share == pytest.approx(best, abs=0.0051)
        close = 0.051 if best < 10 * second else 0.51
        assert float(found[4].replace(",", "")) == pytest.approx(best / second, abs=close)
        assert float(found[5]) == pytest.approx(used.item(), abs=0.051)
        assert ("hard look-up" in said) == (best > 0.99)
        assert ("plain average" in said) == (best - weights.min().item() < 0.1)

    def check_frame(self, explorer, frame, result):
        bars, line = frame["weights"], explorer.panels[1].lines[0]
        assert torch.equal(bars["weights"], result.weights)
        torch.testing.assert_close(bars["outline"], FIVE.softmax(-1), check_dtype=False)
        assert bars["marks"] == ["wins", "", "", "", ""]
        assert line.values[STOPS.index(explorer.tau)] == result.effective_keys


def test_the_order_never_changes_and_the_contrast_always_falls():
    results = [measure(tau) for tau in STOPS]
    assert {tuple(one.weights.argsort().tolist()) for one in results} == {(4, 3, 2, 1, 0)}
    assert {one.winner for one in results} == {0}
    used = torch.tensor([one.effective_keys for one in results])
    assert (used.diff() > 0).all()
    assert 1 < used[0] < 1.01
    assert 4.9 < used[-1] < 5


def test_scores_and_stops_of_lesson_2_are_there():
    """The explorer stands beside its table: the same five scores, the same numbers."""
    assert SCORES == (2.0, 1.0, 0.5, 0.0, -1.0)
    assert set(STOPS) >= {0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0}
    assert module.D_K**0.5 in STOPS
    steps = torch.tensor(STOPS).log10().diff()
    torch.testing.assert_close(steps, torch.full_like(steps, 0.1), atol=0.01, rtol=0)
