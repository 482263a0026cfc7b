"""DivisorsExplorer: what torch says of four divisors, the numbers of lesson 2, true words."""

import itertools
import re

import pytest
import torch

from attnlab import attention_scores, attention_weights, effective_keys, score_variance
from attnlab.explorers import DivisorsExplorer
from attnlab.explorers import divisors as module
from attnlab.explorers.divisors import DIVISORS, STOPS, measure, verdict

STATES = [*itertools.product(DIVISORS, STOPS)]
RULES = {  # as in lesson 2, but for d_model, which is fixed here
    "1": lambda d_k: 1,
    "sqrt(d_k)": lambda d_k: d_k**0.5,
    "d_k": lambda d_k: d_k,
    "sqrt(d_model)": lambda d_k: 512**0.5,
}


def draw_attention(d_k, rows=400, n_keys=16):
    """Return query and key as lesson 2 draws them."""
    torch.manual_seed(0)
    return torch.randn(rows, 1, d_k), torch.randn(rows, n_keys, d_k)


@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("d_k", [1, 4, 64, 256])
def test_the_measured_numbers_are_those_of_lesson_2(divisor, d_k):
    scores = attention_scores(*draw_attention(d_k), scale=1 / RULES[divisor](d_k))
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


def test_dividing_by_d_k_errs_the_other_way():
    assert measure("d_k", 512).keys > 15.9
    assert measure("1", 512).keys < 1.3
    assert all(10 < measure("sqrt(d_k)", d_k).keys < 12.5 for d_k in STOPS)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_weights_are_softmax_of_the_divided_products(divisor):
    generator = torch.Generator().manual_seed(1)
    query, key = torch.randn(2, 6, 512, generator=generator)[..., :32]
    result = DivisorsExplorer(divisor=divisor, d_k=32).result
    assert result.divisor == pytest.approx(RULES[divisor](32))
    torch.testing.assert_close(result.weights, (query @ key.T / RULES[divisor](32)).softmax(-1))


@pytest.mark.parametrize(("divisor", "d_k"), STATES)
def test_the_sentence_is_true_at_every_stop(divisor, d_k):
    say = DivisorsExplorer(divisor=divisor, d_k=d_k).say()
    variance, keys = measure(divisor, d_k)
    found = re.fullmatch(
        r"d_k = (\d+), divided by (.*): the scores have variance (\S+), and a query uses "
        r"(\S+) of 16 keys: (.*)\.",
        say,
    )
    assert int(found[1]) == d_k
    if "=" in found[2]:
        assert float(found[2].split("= ")[1]) == pytest.approx(RULES[divisor](d_k), rel=5e-3)
    assert float(found[3]) == pytest.approx(variance, rel=5e-3)
    assert float(found[4]) == pytest.approx(keys, abs=0.051)
    assert ("sharp" in found[5], "flat" in found[5]) == {
        "sharp": (variance > 1, False),
        "flat": (False, variance < 1),
        "near 1": (0.9 < variance < 1.1,) * 2,  # "neither sharp nor flat"
    }[verdict(divisor, d_k)]
    assert ("one key takes nearly all" in say) == (keys < 1.5)
    assert ("nearly a plain average" in say) == (keys > 15)


@pytest.mark.parametrize(("divisor", "d_k"), STATES)
def test_frames_show_the_weights_and_point_to_the_line_of_the_divisor(divisor, d_k):
    explorer = DivisorsExplorer(divisor=divisor, d_k=d_k)
    frame, panels = explorer.frame_now(), explorer.panels
    assert torch.equal(frame["weights"]["cells"], explorer.result.weights)
    assert frame["bad"] == (verdict(divisor, d_k) != "near 1")
    number = re.match(r"softmax\(QKᵀ / (\S+)\)", frame["weights"]["under"])[1]
    assert float(number) == pytest.approx(RULES[divisor](d_k), rel=5e-3)
    for key, field, panel in (("variance", "variance", panels[1]), ("used", "keys", panels[2])):
        line = panel.lines[frame[key]["current"]]
        assert line.role == frame["weights"]["role"]
        assert line.values[STOPS.index(d_k)] == getattr(measure(divisor, d_k), field)
        assert all(panel.y.low <= value <= panel.y.high for value in line.values)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_the_lines_of_pytorch_give_the_weights(divisor):
    query, key = torch.randn(2, 6, 512, generator=torch.Generator().manual_seed(module.DRAW_SEED))
    names = {"query": query, "key": key}
    exec(module.code(divisor, 16), names)
    torch.testing.assert_close(
        names["weights"], DivisorsExplorer(divisor=divisor, d_k=16).result.weights
    )
