"""CrossExplorer: the numbers of lesson 4, and sentences that are true for every row."""

import re

import pytest
import torch
import torch.nn.functional as F

from attnlab.data import load_table
from attnlab.explorers import CrossExplorer
from attnlab.explorers.cross import FEATURES, OUTPUTS, QUESTIONS, TOKENS
from tests.explorers.common import DeclaredTests, at


def lesson_vectors():
    """Return questions and words as lesson 4 makes them."""
    tokens, features, x = load_table("the_cat_sat_on_the_mat.csv")
    assert (tuple(tokens), tuple(features)) == (TOKENS, FEATURES)
    columns = [features.index(wish) for wish in ("animal", "action", "place")]
    return 4 * torch.eye(5)[columns], x


class TestCross(DeclaredTests):
    kind = CrossExplorer
    states = [
        *({"asking": "questions", "question": question} for question in QUESTIONS),
        *({"asking": "words", "word": word} for word in TOKENS),
    ]
    written = {"weights": "weights", "output": "output"}

    def given(self, explorer):
        return dict(zip(("question_x", "x"), lesson_vectors(), strict=True))

    def expected(self, explorer):
        asked = explorer.asking == "questions"
        query, key = lesson_vectors()[:: 1 if asked else -1]
        names, picked = (QUESTIONS, explorer.question) if asked else (TOKENS, explorer.word)
        return {
            "picked": names.index(picked),
            "weights": (query @ key.T / 5**0.5).softmax(dim=-1),
            "output": F.scaled_dot_product_attention(query, key, key),
        }

    def check_words(self, explorer, said, result):
        row = result.weights[result.picked]
        assert (len(result.queries), len(result.keys)) == result.weights.shape
        assert said.startswith(f"“{result.queries[result.picked]}” asks")
        assert f"{result.weights.shape[0]} by {result.weights.shape[1]}: every row adds" in said
        top = row.max().item()
        assert f"({top:.2f}" in said
        if "all alike" in said:
            torch.testing.assert_close(row, torch.full_like(row, top))
            return
        key, total = re.search(r"column of “(.+)” adds up to (\d\.\d\d)", said).groups()
        assert result.keys[row.argmax()] == key
        assert (row > top - 0.005).sum() == 1
        column = result.weights[:, result.keys.index(key)].sum().item()
        assert float(total) == pytest.approx(column, abs=0.0051)

    def check_frame(self, explorer, frame, result):
        assert torch.equal(frame["weights"]["cells"], result.weights)
        assert torch.equal(frame["output"]["cells"], result.output)
        assert torch.equal(frame["lines"]["weights"], result.weights[result.picked])
        assert {part["picked"] for part in (frame["weights"], frame["lines"])} == {result.picked}
        assert frame["weights"]["title"] == f"Weights {tuple(result.weights.shape)}"
        assert frame["output"]["title"] == f"Output {tuple(result.output.shape)}: one per query"
        picked = getattr(explorer, frame["weights"]["picks"])
        assert picked == result.queries[result.picked]
        assert 0 <= result.output.min() <= result.output.max() <= OUTPUTS[1]  # the stated scale


def test_the_table_is_not_square_and_turning_it_round_changes_the_weights():
    asked, asking = (at(CrossExplorer, asking=one).result.weights for one in ("questions", "words"))
    assert asked.shape == (3, 6)
    assert not torch.allclose(asked, asking.T, atol=0.1)  # the softmax runs the other way
    assert asked[:, 1].sum().item() == pytest.approx(0.856, abs=5e-4)  # as in the lesson
    assert asked[0, 2].item() == pytest.approx(0.189, abs=5e-4)
    alike = at(CrossExplorer, asking="words", word="The").say()
    assert "looks at all alike (0.33 each)" in alike


def test_the_picked_row_is_framed():
    for ax, keys in zip(at(CrossExplorer, question="where?").figure().axes, (6, 5), strict=True):
        assert [frame.get_bbox().bounds for frame in ax.patches] == [(0, 2, keys, 1)]
