"""PeekExplorer: the stored losses, the numbers of lesson 3, words that are true."""

import csv
import importlib.util
import itertools
import math
import re

import pytest
import torch

from attnlab import causal_mask, data_path
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


def test_frames_show_the_losses_of_both_models():
    for causal, step in STATES:
        frame, at = PeekExplorer(causal=causal, step=step).frame_now(), STEPS.index(step)
        results = [PeekExplorer(causal=model, step=step).result for model in (False, True)]
        for place, row in enumerate(frame["board"]["body"]):
            means = [round(result[place].mean().item(), 2) for result in results]
            for result, mean, other, (text, _) in zip(
                results, means, means[::-1], row[1:], strict=True
            ):
                tick = "✓ " if mean < other else ""
                low, high = result[place].aminmax()
                assert text == f"{tick}**{mean:.2f}**\n{low:.2f} to {high:.2f}"
            assert [look for _, look in row[1:]] == (["", "now"] if causal else ["now", ""])
        so_far, whole = (values[at] for values in frame["curves"]["values"])
        own = results[causal]
        assert [whole, so_far] == pytest.approx([losses.mean().item() for losses in own[:2]])


@pytest.mark.parametrize("causal", [True, False])
def test_the_word_to_be_guessed_lies_open_without_the_mask(causal):
    sight = PeekExplorer(causal=causal).frame_now()["sight"]
    for i, (looks, texts) in enumerate(zip(sight["looks"], sight["texts"], strict=True)):
        blocked = causal_mask(5)[i].logical_not().tolist() if causal else [False] * 5
        assert [look == "blocked" for look in looks] == blocked
        assert ["leak" in look for look in looks] == [j == i + 1 and not causal for j in range(5)]
        assert [text == "next" for text in texts] == [j == i + 1 for j in range(5)]
