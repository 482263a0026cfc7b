"""PeekExplorer: the stored losses, the numbers of lesson 3, words that are true."""

import csv
import importlib.util
import itertools
import math
import re

import pytest
import torch

from attnlab import data_path
from attnlab.explorers import PeekExplorer
from attnlab.explorers.peek import STEPS, best_possible

STATES = list(itertools.product((True, False), STEPS))


@pytest.fixture(scope="module")
def rows():
    with data_path("peek_at_the_future.csv").open() as file:
        return list(csv.DictReader(file))


def stored(rows, causal, step):
    """Return [training, use] of all runs, read apart from the explorer."""
    wanted = [row for row in rows if row["causal"] == str(int(causal)) and row["step"] == str(step)]
    return [[float(row[name]) for row in wanted] for name in ("training", "use")]


@pytest.mark.parametrize(("causal", "step"), STATES)
def test_result_is_what_was_stored(rows, causal, step):
    result = PeekExplorer(causal=causal, step=step).result
    training, use = stored(rows, causal, step)
    assert len(training) == 4
    torch.testing.assert_close(result.whole_sentence, torch.tensor(training))
    torch.testing.assert_close(result.words_so_far, torch.tensor(use))


def test_no_row_of_the_table_is_left_out(rows):
    assert len(rows) == 4 * len(STATES)
    assert {int(row["step"]) for row in rows} == set(STEPS)


def test_the_numbers_are_those_of_the_lesson():
    honest, peeking = PeekExplorer().result, PeekExplorer(causal=False).result
    assert honest.best_possible == pytest.approx(0.898, abs=1e-3)
    assert honest.guessing == pytest.approx(math.log(8))
    assert peeking.whole_sentence.tolist() == pytest.approx([0.10] * 4, abs=0.01)
    assert peeking.words_so_far.aminmax() == pytest.approx((1.97, 2.97), abs=0.005)
    assert (peeking.words_so_far > peeking.guessing).sum() == 3
    for losses in honest[:2]:
        assert losses.tolist() == pytest.approx([0.91] * 4, abs=0.01)


def test_the_cheater_wins_one_and_loses_the_other_from_step_10_on():
    for step in STEPS[1:]:
        honest, peeking = (
            PeekExplorer(causal=causal, step=step).result for causal in (True, False)
        )
        assert peeking.whole_sentence.mean() < honest.whole_sentence.mean()
        assert peeking.words_so_far.mean() > honest.words_so_far.mean()


def test_the_language_is_the_one_that_was_learned():
    path = data_path("make_peek_at_the_future.py")
    spec = importlib.util.spec_from_file_location("make_peek", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert best_possible() == pytest.approx(made.FLOOR)
    assert tuple(range(0, made.STEPS + 1, made.EVERY)) == STEPS
    assert PeekExplorer().result.guessing == math.log(made.WORDS)


WHAT = r"loss ([\d.]+) given .*?, (\w+) (?:than|to) the ([\d.]+) .*, and ([\d.]+) given .*?, (\w+) "
WHAT += r"(?:than|to) the ([\d.]+) "


@pytest.mark.parametrize(("causal", "step"), STATES)
def test_the_sentence_is_true(rows, causal, step):
    text = PeekExplorer(causal=causal, step=step).say()
    start = "With the causal mask" if causal else "Without the causal mask"
    assert text.startswith(f"{start}, step {step}: ")
    found = re.search(WHAT, text).groups()
    own, other = (
        [sum(losses) / 4 for losses in stored(rows, which, step)] for which in (causal, not causal)
    )
    for (mine, word, yours), a, b in zip((found[:3], found[3:]), own, other, strict=True):
        assert float(mine) == pytest.approx(a, abs=0.00501)
        assert float(yours) == pytest.approx(b, abs=0.00501)
        mine, yours = float(mine), float(yours)
        assert word == ("equal" if mine == yours else "lower" if mine < yours else "higher")
    assert ("Nobody gets so far below 0.90 without peeking" in text) == (own[0] < 0.848)
    assert ("Guessing at random gives 2.08" in text) == (own[1] > 2.13 and step > 0)


@pytest.mark.parametrize(("causal", "step"), STATES)
def test_the_browser_gets_the_stored_losses(causal, step):
    explorer = PeekExplorer(causal=causal, step=step)
    sent, at = explorer.data["models"]["causal" if causal else "unmasked"], STEPS.index(step)
    for place, losses in enumerate(explorer.result[:2]):
        assert sent["mean"][place][at] == pytest.approx(losses.mean().item(), abs=0.00501)
        assert sent["low"][place][at] == pytest.approx(losses.min().item(), abs=0.00501)
        assert sent["high"][place][at] == pytest.approx(losses.max().item(), abs=0.00501)
        assert f" {sent['mean'][place][at]:.2f} given" in explorer.say()
        assert 0 < sent["mean"][place][at] < explorer.data["top"]
    assert sent["say"][at] == explorer.say()


@pytest.mark.parametrize(
    ("state", "error", "sentence"),
    [
        ({"causal": "no"}, TypeError, "causal must be True or False, got str 'no'"),
        ({"causal": 1}, TypeError, "got int 1"),
        ({"causal": None}, TypeError, "got NoneType None"),
        ({"step": 5}, ValueError, "step must be one of 0, 10, 20, .*, 300, got 5"),
        ({"step": 310}, ValueError, "got 310"),
        ({"step": -10}, ValueError, "got -10"),
        ({"step": 10.0}, ValueError, "got 10.0"),
        ({"step": float("nan")}, ValueError, "got nan"),
        ({"step": False}, ValueError, "got False"),
    ],
)
def test_a_hostile_state_gets_one_sentence(state, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        PeekExplorer(**state)
    assert len(str(caught.value)) < 250


def test_the_page_is_small():
    assert len(PeekExplorer().to_html(library=False)) < 120_000
