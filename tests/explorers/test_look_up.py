"""SoftLookupExplorer: what torch says of a query among three keys, and that the words are true."""

import itertools
import math
import re

import pytest
import torch

from attnlab import scaled_dot_product_attention
from attnlab.explorers import SoftLookupExplorer
from attnlab.explorers.look_up import KEYS, LEGS, LIMIT, TEMPERATURES

QUERIES = [
    (0.866, 0.5),
    (0.7071, 0.7071),
    (-0.7071, 0.7071),
    (0, 0),
    (1.5, 1.5),
    (-1.5, -1.5),
    (0, -1.5),
]
STATES = list(itertools.product(QUERIES, TEMPERATURES))
HALF = math.sqrt(0.5)


@pytest.mark.parametrize(("query", "temperature"), STATES)
def test_result_is_attention_and_stays_inside_the_values(query, temperature):
    result = SoftLookupExplorer(query=query, temperature=temperature).result
    keys, values = torch.tensor(KEYS), torch.tensor(LEGS)[:, None]
    wanted = scaled_dot_product_attention(
        torch.tensor([query]).float(), keys, values, scale=1 / temperature
    )
    assert result.output == pytest.approx(wanted.item(), abs=1e-4)
    torch.testing.assert_close(result.weights, result.scores.softmax(-1))
    assert min(LEGS) <= result.output <= max(LEGS)


def test_numbers_of_lesson_1():
    """kitten gets 2.880 legs; between cat and bird it is less than 3, since snake has its say."""
    assert SoftLookupExplorer().result.output == pytest.approx(2.880, abs=5e-4)
    between = SoftLookupExplorer(query=(HALF, HALF)).result
    torch.testing.assert_close(
        between.weights.float(), torch.tensor([0.446, 0.446, 0.108]), atol=5e-4, rtol=0
    )
    assert between.output == pytest.approx(2.675, abs=5e-4)


def test_the_prediction_is_right():
    """Between bird and snake more than 1 comes out, whatever length and temperature."""
    for length, temperature in itertools.product((0.5, 1, 2), TEMPERATURES):
        query = (-length * HALF, length * HALF)
        weights = SoftLookupExplorer(query=query, temperature=temperature).result.weights
        assert weights[1] == pytest.approx(weights[2].item())
        assert weights[0] > 0
    assert SoftLookupExplorer(query=(-HALF, HALF)).result.output == pytest.approx(1.325, abs=5e-4)


def is_true(text, query, temperature):
    """Return whether a sentence says what torch gives for a query."""
    scores = torch.tensor(KEYS).double() @ torch.tensor(query).double() / temperature
    weights = scores.softmax(-1)
    said = re.match(r"([\d.]+) · 4 \+ ([\d.]+) · 2 \+ ([\d.]+) · 0 ≈ ([\d.]+) legs: (.*)\.$", text)
    shares = torch.tensor([float(said[i]) for i in (1, 2, 3)]).double()
    alone = re.match("nearly the value of (cat|bird|snake) alone", said[5])
    winner = ("cat", "bird", "snake")[weights.argmax()]
    return (
        bool((shares - weights).abs().max() <= 5.1e-4)
        and abs(float(said[4]) - (weights @ torch.tensor(LEGS).double()).item()) <= 5.1e-4
        and ((alone[1] if alone else None) == (winner if weights.max() >= 0.99 else None))
        and ("plain average" in text) == bool(weights.max() - weights.min() < 0.01)
        and ("exactly the plain average" in text) == (tuple(query) == (0, 0))
    )


@pytest.mark.parametrize(("query", "temperature"), STATES)
def test_the_sentence_is_true(query, temperature):
    text = SoftLookupExplorer(query=query, temperature=temperature).say()
    assert is_true(text, query, temperature), text


def test_a_false_sentence_is_noticed():
    text = SoftLookupExplorer(query=(1.5, 0), temperature=0.1).say()
    assert is_true(text, (1.5, 0), 0.1)
    assert not is_true(text, (-1.5, 0), 0.1)
    assert not is_true(text.replace("of cat", "of bird"), (1.5, 0), 0.1)
    assert not is_true(SoftLookupExplorer().say(), (0, 0), 1.0)


def test_a_query_is_kept_as_two_short_numbers():
    explorer = SoftLookupExplorer(query=torch.tensor([HALF, -0.0]))
    assert explorer.query == (0.7071, 0.0)
    assert repr(explorer) == "SoftLookupExplorer(query=(0.7071, 0.0))"
    explorer.set_trait("query", [1, -1])  # as the browser sends it
    explorer.temperature = 2
    assert explorer.state()["query"] == (1.0, -1.0)
    assert explorer.result.scores.tolist() == [0.5, -0.5, -0.5]


@pytest.mark.parametrize(
    ("query", "error", "sentence"),
    [
        ((3, 0), ValueError, f"query must hold numbers from -1.5 to {LIMIT:g}, got 3"),
        ((float("nan"), 0), ValueError, "got nan"),
        ((0, float("-inf")), ValueError, "got -inf"),
        ((10**400, 0), ValueError, "got 1000"),
        ((1,), TypeError, r"query must be two numbers \(right, up\), got \(1,\)"),
        (torch.ones(2, 2), TypeError, r"query must hold numbers, got \[1.0, 1.0\]"),
        (torch.tensor(1.0), TypeError, "two numbers .* got 1.0"),
        ("ab", TypeError, "two numbers .* got 'ab'"),
        ((True, 0), TypeError, "query must hold numbers, got True"),
        (("1", 0), TypeError, "query must hold numbers, got '1'"),
        ([0.0] * 10_000, TypeError, r"got \[0.0, .*\.\.\."),
    ],
)
def test_a_query_outside_the_plane_gets_one_sentence(query, error, sentence):
    with pytest.raises(error, match=sentence) as found:
        SoftLookupExplorer(query=query)
    assert len(str(found.value)) < 200


def test_the_still_picture_draws_each_weight_as_the_area_of_a_ball():
    explorer = SoftLookupExplorer(query=(-1.5, 0), temperature=0.5)
    ax = explorer.figure().axes[-1]
    balls = ax.collections[0]
    areas = torch.tensor(balls.get_sizes())
    torch.testing.assert_close(areas / areas.sum(), explorer.result.weights)
    assert balls.get_offsets()[:, 0].tolist() == list(LEGS)
    assert balls.get_linewidth() == [0]  # an edge would add to the area
    assert ax.lines[1].get_xdata()[0] == explorer.result.output
