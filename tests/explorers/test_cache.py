"""CacheExplorer: passes with and without a cache, counted and compared with whole passes."""

import itertools
import re
from functools import cache

import pytest
import torch

from attnlab import KeyValueCache
from attnlab.explorers import CacheExplorer
from attnlab.explorers.cache import LENGTH, PROMPT, generate
from attnlab.looking_back import SYMBOLS, load_looking_back, to_tokens
from tests.explorers.common import DeclaredTests, assert_same, at

MODEL = cache(load_looking_back)


class TestCache(DeclaredTests):
    kind = CacheExplorer
    states = [
        {"step": step, "cache": kept} for step, kept in itertools.product(range(7), (False, True))
    ]
    written = {"chance": "chance"}

    def given(self, explorer):
        return {"model": MODEL(), "to_tokens": to_tokens, "KeyValueCache": KeyValueCache}

    def expected(self, explorer):
        step, length = explorer.step, len(PROMPT) + explorer.step
        logits, weights = MODEL()(to_tokens(explorer.result.text)[None])  # without a cache
        rows = [1 if explorer.cache and i else len(PROMPT) + i for i in range(step + 1)]
        first = [max(1, place - 7) for place in range(length)]  # the tenth is new in pass 2
        passes = torch.full((3, length), step + 1)
        if explorer.cache:
            passes = torch.tensor(
                [[0] * (length - 1) + [step + 1] if step else first, first, first]
            )
        return {
            "rows": rows[-1],
            "so_far": sum(rows),
            "passes": passes,
            "weights": weights[:, 0, 0, -1],
            "chance": logits[0, -1].softmax(dim=-1).max(),
        }

    def check_words(self, explorer, said, result):
        numbers = [int(one) for one in re.findall(r"(?<![.\d])\d+(?![.\d]\d)", said)]
        other = generate(not explorer.cache)[explorer.step].so_far
        old = len(result.text) - 1
        counts = [result.rows, old, result.so_far, other] if explorer.step else [result.rows]
        assert numbers[: 1 + len(counts)] == [explorer.step + 1, *counts]
        assert f"guesses {result.guess} with probability {result.chance:.2f}" in said
        if explorer.step:
            assert ("reuses the keys" in said) == explorer.cache
            assert ("without a cache" in said) == explorer.cache

    def check_frame(self, explorer, frame, result):
        length, made, looks = len(result.text), frame["made"], frame["looks"]
        for table, shown in ((made, result.passes), (looks, result.weights)):
            assert_same(table["cells"][:, :length], shown, explorer)
            assert_same(
                table["cells"][:, length:], torch.zeros(len(shown), LENGTH - length), explorer
            )
            assert "".join(table["columns"]) == result.text + "·" * (LENGTH - length)
        hatched = [[one == "blocked" for one in row[:length]] for row in made["looks"]]
        assert_same(hatched, result.passes == 0, explorer)
        marked = [[text == "●" for text in row] for row in looks["texts"]]
        assert [row.index(True) for row in marked] == result.weights.argmax(dim=-1).tolist()
        assert [sum(row) for row in marked] == [1, 1]
        assert frame["rows"]["current"] == explorer.cache


def test_each_guess_is_the_next_letter_of_the_text():
    for kept in (False, True):
        results = [at(CacheExplorer, step=step, cache=kept).result for step in range(7)]
        texts = [result.text + result.guess for result in results]
        assert texts == [PROMPT + "QZBMTAR"[:end] for end in range(1, 8)]
        logits, _ = MODEL()(to_tokens(texts[-1][:-1])[None])
        guessed = "".join(SYMBOLS[one] for one in logits[0].argmax(dim=-1)[8:])
        assert guessed == "QZBMTAR"


def test_the_curves_are_the_rows_so_far():
    *_, curves = at(CacheExplorer).panels
    for line, kept in zip(curves.lines, (False, True), strict=True):
        counted = [at(CacheExplorer, step=step, cache=kept).result.so_far for step in range(7)]
        assert list(line.values) == counted
    assert [line.values[-1] for line in curves.lines] == [84, 15]
    assert curves.y.high > 84


def test_the_still_picture_writes_passes_and_weights():
    made, looks, _ = at(CacheExplorer, cache=True, step=6).figure().axes
    texts = [text.get_text() for text in made.texts]
    assert texts == [""] * 14 + ["7"] + 2 * (["1"] * 9 + list("234567"))
    assert [text.get_text() for text in looks.texts].count("●") == 2
    assert made.get_xlabel() == looks.get_ylabel() == ""


@pytest.mark.parametrize("kept", [False, True])
def test_the_code_writes_the_text_that_was_read(kept):
    code = at(CacheExplorer, step=3, cache=kept).frame_now()["code"]
    assert re.findall(r'"([A-Z]+)"', code) == ([PROMPT, "QZB"] if kept else [PROMPT + "QZB"])
