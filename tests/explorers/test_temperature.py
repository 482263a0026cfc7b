"""TemperatureExplorer: what torch says of every temperature, and that the words are true."""

import re

import pytest
import torch

from attnlab import effective_keys
from attnlab.explorers import TemperatureExplorer
from attnlab.explorers import temperature as module
from attnlab.explorers.temperature import SCORES, STOPS, measure, sentence

FIVE = torch.tensor(SCORES)


@pytest.mark.parametrize("tau", STOPS)
def test_result_is_the_softmax_of_the_divided_scores(tau):
    result = TemperatureExplorer(tau=tau).result
    torch.testing.assert_close(result.weights.float(), (FIVE / tau).softmax(-1))
    assert result.effective_keys == pytest.approx(effective_keys(result.weights[None]).item())
    assert 1 <= result.effective_keys <= 5


def test_the_order_never_changes_and_the_contrast_always_falls():
    results = [measure(tau) for tau in STOPS]
    assert {tuple(one.weights.argsort().tolist()) for one in results} == {(4, 3, 2, 1, 0)}
    assert {one.winner for one in results} == {0}
    used = torch.tensor([one.effective_keys for one in results])
    assert (used.diff() > 0).all()
    assert used[0] < 1.01
    assert used[-1] > 4.9


def test_scores_and_stops_of_lesson_2_are_there():
    """The explorer stands beside its table: the same five scores, the same numbers."""
    assert SCORES == (2.0, 1.0, 0.5, 0.0, -1.0)
    assert set(STOPS) >= {0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0}
    assert module.D_K**0.5 in STOPS
    steps = torch.tensor(STOPS).log10().diff()
    torch.testing.assert_close(steps, torch.full_like(steps, 0.1), atol=0.01, rtol=0)


def is_true(text, tau):
    """Return whether a sentence says what torch gives at a temperature."""
    weights = (FIVE.double() / tau).softmax(-1)
    best, second = weights.topk(2).values.tolist()
    used = torch.special.entr(weights).sum().exp().item()
    said = re.match(r"τ = ([\d.]+): key (\d) wins.* is (.+), ([\d.,]+) times.*; ([\d.]+) eff", text)
    share = float(said[3]) if said[3] != "nearly 1" else 1.0
    return (
        float(said[1]) == tau
        and int(said[2]) == weights.argmax()
        and abs(share - best) <= 0.0051
        and float(said[4].replace(",", ""))
        == pytest.approx(best / second, abs=0.051 if best < 10 * second else 0.51)
        and abs(float(said[5]) - used) <= 0.051
        and ("hard look-up" in text) == (best > 0.99)
        and ("plain average" in text) == (best - weights.min().item() < 0.1)
    )


@pytest.mark.parametrize("tau", STOPS)
def test_the_sentence_is_true_at_every_stop(tau):
    text = TemperatureExplorer(tau=tau).say()
    assert is_true(text, tau), text
    assert text == sentence(tau).replace("**", "")


def say(tau):
    return sentence(tau).replace("**", "")


def test_a_false_sentence_is_noticed():
    assert not is_true(say(1.0), 1.25)
    assert not is_true(say(1.0).replace("key 0", "key 1"), 1.0)
    assert not is_true(say(0.1).replace("nearly a hard look-up", "no surprise"), 0.1)


@pytest.mark.parametrize("tau", STOPS)
def test_frames_show_the_weights_beside_those_of_temperature_1(tau):
    frame, result = TemperatureExplorer(tau=tau).frame_now(), measure(tau)
    bars, names = frame["weights"], {"torch": torch}
    assert torch.equal(bars["weights"], result.weights)
    torch.testing.assert_close(bars["outline"].float(), FIVE.softmax(-1))
    assert bars["marks"] == ["wins", "", "", "", ""]
    exec(frame["code"], names)
    torch.testing.assert_close(names["weights"].double(), result.weights, atol=1e-6, rtol=0)
    assert names["used"].item() == pytest.approx(result.effective_keys, rel=1e-4)
    assert TemperatureExplorer.panels[1].lines[0].values[STOPS.index(tau)] == result.effective_keys
