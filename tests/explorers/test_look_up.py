"""SoftLookupExplorer: what torch says of a query among three keys, and that the words are true."""

import itertools
import math
import re

import pytest
import torch

from attnlab import scaled_dot_product_attention
from attnlab.explorers import SoftLookupExplorer
from attnlab.explorers.look_up import ANIMALS, KEYS, LEGS, TEMPERATURES
from tests.explorers.common import ExplorerTests, at

HALF = math.sqrt(0.5)
QUERIES = [
    (0.866, 0.5),
    (0.7071, 0.7071),
    (-0.7071, 0.7071),
    (0, 0),
    (1.5, 1.5),
    (-1.5, -1.5),
    (0, -1.5),
    (-1, -1),  # four decimals of the weights are too few at temperature 1
    (-0.1, 1.1),  # five are too few at temperature 0.2
]


class TestLookUp(ExplorerTests):
    kind = SoftLookupExplorer
    states = [
        {"query": query, "temperature": temperature}
        for query, temperature in itertools.product(QUERIES, TEMPERATURES)
    ]

    def expected(self, explorer):
        query, keys = torch.tensor([explorer.query]), torch.tensor(KEYS)
        scores = (query @ keys.T)[0] / explorer.temperature
        values = torch.tensor(LEGS)[:, None]
        output = scaled_dot_product_attention(query, keys, values, scale=1 / explorer.temperature)
        return {"scores": scores, "weights": scores.softmax(-1), "output": output.item()}

    def check_words(self, explorer, said, result):
        _, weights, output = self.expected(explorer).values()
        found = re.match(
            r"([\d.]+) · 4 \+ ([\d.]+) · 2 \+ ([\d.]+) · 8 ≈ ([\d.]+) legs: (.*)\.$", said
        )
        *written, average = [float(found[i]) for i in (1, 2, 3, 4)]
        assert written == pytest.approx(weights.tolist(), abs=5.1e-5)
        assert average == pytest.approx(output, abs=5.1e-3)
        recomputed = sum(weight * legs for weight, legs in zip(written, LEGS, strict=True))
        assert f"{recomputed:.2f}" == found[4]
        alone = re.match("nearly the value of (cat|bird|spider) alone", found[5])
        winner = ("cat", "bird", "spider")[weights.argmax()]
        assert (alone[1] if alone else None) == (winner if weights.max() >= 0.99 else None)
        assert ("plain average" in said) == bool(weights.max() - weights.min() < 0.01)
        assert ("exactly the plain average" in said) == (explorer.query == (0, 0))


def test_numbers_of_lesson_1():
    """kitten gets 3.637 legs; between cat and bird it is more than 3, since spider has its say."""
    assert SoftLookupExplorer().result.output == pytest.approx(3.637, abs=5e-4)
    between = SoftLookupExplorer(query=(HALF, HALF)).result
    assert between.weights.tolist() == pytest.approx([0.446, 0.446, 0.108], abs=5e-4)
    assert between.output == pytest.approx(3.542, abs=5e-4)


def test_the_prediction_is_right():
    """Between bird and spider less than 5 comes out, whatever length and temperature."""
    for length, temperature in itertools.product((0.5, 1, 2), TEMPERATURES):
        query = (-length * HALF, length * HALF)
        weights = at(SoftLookupExplorer, query=query, temperature=temperature).result.weights
        assert weights[1] == pytest.approx(weights[2].item())
        assert weights[0] > 0
    output = at(SoftLookupExplorer, query=(-HALF, HALF)).result.output
    assert output == pytest.approx(4.892, abs=5e-4)


@pytest.mark.parametrize(
    ("query", "temperature", "first"),
    [((0.866, 0.5), 1, "0.5346"), ((-1, -1), 1, "0.10651"), ((-0.1, 1.1), 0.2, "0.002456")],
)
def test_weights_are_written_with_as_many_decimals_as_the_output_needs(query, temperature, first):
    explorer = at(SoftLookupExplorer, query=query, temperature=temperature)
    assert explorer.say().split(" ")[0] == first


def test_a_query_is_kept_as_two_short_numbers():
    explorer = SoftLookupExplorer(query=torch.tensor([HALF, -0.0]))
    assert explorer.query == (0.7071, 0.0)
    assert repr(explorer) == "SoftLookupExplorer(query=(0.7071, 0.0))"
    explorer.set_trait("query", [1, -1])  # as the browser sends it
    explorer.temperature = 2
    assert explorer.state()["query"] == (1.0, -1.0)
    assert explorer.result.scores.tolist() == [0.5, -0.5, -0.5]


def test_the_still_picture_draws_each_weight_as_the_area_of_a_ball():
    explorer = at(SoftLookupExplorer, query=(-1.5, 0), temperature=0.5)
    arrows, bars, ax = explorer.figure().axes
    (query,) = [one for one in arrows.collections if len(one.U) == 1]
    assert (query.U[0], query.V[0]) == explorer.query
    names = {text.get_text(): text.get_position() for text in arrows.texts}
    for name, (x, y) in zip(ANIMALS, KEYS, strict=True):
        assert names[name][0] * x + names[name][1] * y > 1  # beyond the end of its arrow
    scores = [text.get_text().split()[-1] for text in bars.get_yticklabels()]
    assert scores == ["−3.00", "0.00", "3.00"]
    assert "score" in [text.get_text() for text in bars.texts]  # heads that column
    balls = ax.collections[0]
    areas = torch.tensor(balls.get_sizes())
    torch.testing.assert_close(areas / areas.sum(), explorer.result.weights)
    assert balls.get_offsets()[:, 0].tolist() == list(LEGS)
    assert balls.get_linewidth() == [0]  # an edge would add to the area
    assert ax.lines[1].get_xdata()[0] == explorer.result.output
