"""LookingBackExplorer: the stored looks, the model of lesson 12, words that are true."""

import csv
import itertools
import re

import pytest
import torch

from attnlab import data_path
from attnlab.explorers import LookingBackExplorer
from attnlab.explorers.looking_back import NAMES, STOPS, TEXT, scores
from attnlab.looking_back import SYMBOLS, load_looking_back, to_tokens
from tests.explorers.common import ExplorerTests, assert_same, at, script

LOOK = r"from the (.+?) at place (\d+), layer 2 attends most to the (.+?) at place (\d+), "
LOOK += r"with weight (\d\.\d\d)\. "
LOOK += r"From there, layer 1 attended most to the (.+?) at place (\d+) \((\d\.\d\d)\)\. "
LOOK += r"The model guesses (.) with probability (\d\.\d\d)"


@pytest.fixture(scope="module")
def trained():
    return load_looking_back()


class TestLookingBack(ExplorerTests):
    kind = LookingBackExplorer
    states = [
        {"place": place, "step": step}
        for place, step in itertools.product((0, 9, 10, 12, 17, 21), STOPS)
    ]

    def expected(self, explorer):
        result = explorer.result
        return {
            "target": result.second.argmax(),
            "source": result.first.argmax(),
            "second": result.second * (torch.arange(len(TEXT)) <= explorer.place),
            "first": result.first * (torch.arange(len(TEXT)) <= result.target),
        }

    def check_words(self, explorer, said, result):
        names = [TEXT[one].replace("|", "bar") for one in range(len(TEXT))]
        start, at_2, weight_2, at_1, weight_1 = re.search(LOOK, said).group(2, 4, 5, 7, 8)
        letters = re.search(LOOK, said).group(1, 3, 6)
        places = [int(one) for one in (start, at_2, at_1)]
        assert places == [explorer.place, result.target, result.source]
        assert list(letters) == [names[place] for place in places]
        shown = [result.second[result.target], result.first[result.source], result.chance]
        found = [float(one) for one in (weight_2, weight_1, re.search(LOOK, said)[10])]
        assert found == pytest.approx([float(one) for one in shown], abs=0.0051)
        assert re.search(LOOK, said)[9] == result.guess
        own = TEXT[explorer.place]
        pairs = [TEXT[i : i + 2] for i in range(explorer.place)]
        known = [pair[1] for pair in pairs if pair[0] == own != "|" != pair[1]]
        assert ("it cannot know" in said) == (not known)
        assert ("which is correct" in said) == (known[:1] == [result.guess])

    def test_frames_show_the_result(self):
        for explorer in self.explorers():
            looks, result = explorer.frame_now()["scores"]["looks"], explorer.result
            assert_same(looks["second"], result.second.mul(1000).round() / 1000, explorer)
            assert_same(looks["first"], result.first.mul(1000).round() / 1000, explorer)
            assert (looks["target"], looks["source"]) == (result.target, result.source)


def test_after_the_training_the_looks_are_those_of_the_stored_model(trained):
    logits, weights = trained(to_tokens(TEXT)[None])
    for place in range(len(TEXT)):
        result = at(LookingBackExplorer, place=place, step=300).result
        torch.testing.assert_close(result.second, weights[1, 0, 0, place], atol=2e-3, rtol=0)
        torch.testing.assert_close(result.first, weights[0, 0, 0, result.target], atol=2e-3, rtol=0)
        chances = logits[0, place].softmax(dim=-1)
        assert result.chance == pytest.approx(chances.max().item(), abs=3e-3)
        assert result.guess == SYMBOLS[chances.argmax()]


def test_the_lines_of_pytorch_give_the_result(trained):
    explorer = at(LookingBackExplorer, place=14)
    names = {"to_tokens": to_tokens, "model": trained, "SYMBOLS": SYMBOLS}
    exec(explorer.frame_now()["code"], names)
    assert_same(names["target"], explorer.result.target, explorer)
    assert names["guess"] == explorer.result.guess
    torch.testing.assert_close(names["first"], explorer.result.first, atol=2e-3, rtol=0)


def test_the_curves_are_means_of_the_stored_runs():
    with data_path("looking_back.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["num_layers"] == "2"]
    for name, values in scores().items():
        for stop, value in zip(STOPS, values, strict=True):
            runs = [float(row[name]) for row in rows if int(row["step"]) == stop]
            assert len(runs) == 6
            assert value == pytest.approx(sum(runs) / 6, abs=1e-5)
    assert list(scores()) == list(NAMES)


def test_both_are_learned_between_steps_30_and_60():
    for name, low, high in (("previous", 0.13, 0.25), ("follower", 0.15, 0.75)):
        values = dict(zip(STOPS, scores()[name], strict=True))
        assert values[30] < low < high < values[60]


def test_text_and_steps_are_those_of_the_script():
    made = script("make_looking_back.py")
    assert (made.WATCHED, made.STOPS) == (TEXT, STOPS)
    assert all(stop % made.TWO_EVERY == 0 for stop in STOPS)


def test_the_still_picture_has_a_line_for_each_weight_and_frames_three_letters():
    explorer = LookingBackExplorer(ask=False)
    looks, _ = explorer.figure().axes
    widths = [line.get_linewidth() for line in looks.lines]
    assert_same(widths, 14 * torch.cat([explorer.result.second, explorer.result.first]), explorer)
    framed = [text.get_text() for text in looks.texts if text.get_bbox_patch()]
    assert framed == ["Z", "B", "Z"]
