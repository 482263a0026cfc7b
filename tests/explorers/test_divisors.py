"""DivisorsExplorer: what torch says of four divisors, the numbers of lesson 2, true words."""

import itertools
import re

import pytest
import torch

from attnlab import attention_scores, attention_weights, effective_keys, score_variance
from attnlab.explorers import DivisorsExplorer
from attnlab.explorers import divisors as module
from attnlab.explorers.divisors import DIVISORS, STOPS, measure, verdict
from tests.explorers.common import DeclaredTests

RULES = {  # as in lesson 2, but for d_model, which is fixed here
    "1": lambda d_k: 1,
    "sqrt(d_k)": lambda d_k: d_k**0.5,
    "d_k": lambda d_k: d_k,
    "sqrt(d_model)": lambda d_k: 512**0.5,
}


class TestDivisors(DeclaredTests):
    kind = DivisorsExplorer
    states = [{"divisor": one, "d_k": d_k} for one, d_k in itertools.product(DIVISORS, STOPS)]
    written = {"weights": "weights"}

    def given(self, explorer):
        generator = torch.Generator().manual_seed(module.DRAW_SEED)
        query, key = torch.randn(2, 6, 512, generator=generator)
        return {"query": query, "key": key}

    def expected(self, explorer):
        query, key = (one[:, : explorer.d_k] for one in self.given(explorer).values())
        divisor = RULES[explorer.divisor](explorer.d_k)
        return {"divisor": divisor, "weights": (query @ key.T / divisor).softmax(-1)}

    def check_words(self, explorer, said, result):
        divisor, d_k = explorer.divisor, explorer.d_k
        variance, keys = measure(divisor, d_k)
        found = re.fullmatch(
            r"d_k = (\d+), divided by (.*): the scores have variance (\S+), and a query uses "
            r"(\S+) of 16 keys, so the weights are (.*)\.",
            said,
        )
        assert int(found[1]) == d_k
        assert ("=" in found[2]) == ("sqrt" in divisor)
        if "=" in found[2]:
            assert float(found[2].split("= ")[1]) == pytest.approx(RULES[divisor](d_k), rel=5e-3)
        assert float(found[3]) == pytest.approx(variance, rel=5e-3)
        assert float(found[4]) == pytest.approx(keys, abs=0.051)
        assert ("sharp" in found[5], "flat" in found[5]) == {
            "sharp": (variance > 1, False),
            "flat": (False, variance < 1),
            "near 1": (0.9 < variance < 1.1,) * 2,  # "neither sharp nor flat"
        }[verdict(divisor, d_k)]
        assert ("one key takes nearly all" in said) == (keys < 1.5)
        assert ("nearly a plain average" in said) == (keys > 15)

    def check_frame(self, explorer, frame, result):
        divisor, d_k, panels = explorer.divisor, explorer.d_k, explorer.panels
        assert torch.equal(frame["weights"]["cells"], result.weights)
        assert frame["bad"] == (verdict(divisor, d_k) != "near 1")
        number, mark, told = re.match(
            r"softmax\(QKᵀ / (\S+)\).*, ([✓✗]) (.*)$", frame["weights"]["under"]
        ).groups()
        assert (mark, told) == ("✗" if frame["bad"] else "✓", verdict(divisor, d_k))
        assert float(number) == pytest.approx(RULES[divisor](d_k), rel=5e-3)
        for key, field, panel in (("variance", "variance", panels[1]), ("used", "keys", panels[2])):
            line = panel.lines[frame[key]["current"]]
            assert line.role == frame["weights"]["role"]
            assert line.values[STOPS.index(d_k)] == getattr(measure(divisor, d_k), field)
            assert all(panel.y.low <= value <= panel.y.high for value in line.values)


@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("d_k", [1, 4, 64, 256])
def test_the_measured_numbers_are_those_of_lesson_2(divisor, d_k):
    torch.manual_seed(0)
    query, key = torch.randn(400, 1, d_k), torch.randn(400, 16, d_k)
    scores = attention_scores(query, key, scale=1 / RULES[divisor](d_k))
    wanted = score_variance(scores).mean(), effective_keys(attention_weights(scores)).mean()
    assert measure(divisor, d_k) == pytest.approx([one.item() for one in wanted], rel=1e-4)


def test_the_root_keeps_the_variance_and_the_others_do_not():
    variance = {name: [measure(name, d_k).variance for d_k in STOPS] for name in DIVISORS}
    assert variance["sqrt(d_k)"] == pytest.approx([1] * len(STOPS), abs=0.08)
    assert variance["1"] == pytest.approx(STOPS, rel=0.08)
    assert variance["d_k"] == pytest.approx([1 / d_k for d_k in STOPS], rel=0.08)
    assert variance["sqrt(d_model)"] == pytest.approx([d_k / 512 for d_k in STOPS], rel=0.08)
    assert measure("sqrt(d_model)", 64).variance == pytest.approx(1 / 8, abs=0.003)
    assert measure("sqrt(d_model)", 512) == measure("sqrt(d_k)", 512)  # a single head
    assert measure("d_k", 512).keys > 15.9  # it errs the other way
    assert measure("1", 512).keys < 1.3
    assert all(10 < measure("sqrt(d_k)", d_k).keys < 12.5 for d_k in STOPS)
