"""DivisorsExplorer: what torch says of four divisors, the numbers of lesson 2, true words."""

import itertools
import math
import re

import pytest
import torch

from attnlab import attention_scores, attention_weights, effective_keys, score_variance
from attnlab.explorers import DivisorsExplorer
from attnlab.explorers import divisors as module
from attnlab.explorers.divisors import DIVISORS, STOPS, measure, sentence, verdict

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


def test_the_browser_gets_what_torch_computed():
    data = DivisorsExplorer().data
    for divisor, d_k in STATES:
        at = STOPS.index(d_k)
        shown, measured = data["frames"][divisor][at], measure(divisor, d_k)
        assert data["curves"]["variance"][divisor][at] == pytest.approx(measured.variance, rel=1e-3)
        assert data["curves"]["keys"][divisor][at] == pytest.approx(measured.keys, rel=1e-3)
        weights = DivisorsExplorer(divisor=divisor, d_k=d_k).result.weights
        torch.testing.assert_close(torch.tensor(shown["weights"]), weights, atol=6e-4, rtol=0)
        assert shown["say"] == sentence(divisor, d_k)
        assert float(shown["number"]) == pytest.approx(RULES[divisor](d_k), rel=5e-3)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_the_lines_of_pytorch_give_the_weights(divisor):
    query, key = torch.randn(2, 6, 512, generator=torch.Generator().manual_seed(module.DRAW_SEED))
    names = {"query": query, "key": key}
    exec(module.code(divisor, 16), names)
    torch.testing.assert_close(
        names["weights"], DivisorsExplorer(divisor=divisor, d_k=16).result.weights
    )


def test_curves_fit_on_the_axes_of_the_browser():
    curves = DivisorsExplorer().data["curves"]
    assert all(0.001 < one < 1000 for line in curves["variance"].values() for one in line)
    assert all(1 <= one <= 16 for line in curves["keys"].values() for one in line)


def test_the_figure_shows_all_curves_and_marks_d_k():
    figure = DivisorsExplorer(divisor="d_k", d_k=16).figure()
    heat, *charts = figure.axes[:3]
    assert heat.get_title(loc="left") == "divided by d_k"
    for ax in charts:
        marks = [line for line in ax.lines if len(line.get_xdata()) == len(STOPS)]
        assert len(marks) == len(DIVISORS)
        assert any(math.isclose(line.get_xdata()[0], 16) for line in ax.lines)


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"d_k": 1024}, "d_k must be one of 1, 2, 4, .*, 512, got 1024"),
        ({"d_k": 0}, "got 0"),
        ({"d_k": 64.0}, "got 64.0"),
        ({"d_k": True}, "got True"),
        ({"d_k": float("nan")}, "got nan"),
        ({"d_k": [64] * 10_000}, r"got \[64, 64, .*\.\.\."),
        ({"divisor": 1}, "divisor must be one of '1', 'sqrt\\(d_k\\)', .*, got 1"),
        ({"divisor": "√d_k"}, "got '√d_k'"),
        ({"divisor": None}, "got None"),
        ({"divisor": torch.ones(2)}, "divisor must be one of"),
    ],
)
def test_a_hostile_state_gets_one_sentence(state, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        DivisorsExplorer(**state)
    assert len(str(caught.value)) < 200
