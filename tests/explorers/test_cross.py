"""CrossExplorer: the numbers of lesson 4, and sentences that are true for every row."""

import re

import pytest
import torch
import torch.nn.functional as F

from attnlab.data import load_table
from attnlab.explorers import CrossExplorer
from attnlab.explorers.cross import FEATURES, OUTPUTS, QUESTIONS, TOKENS

STATES = [{"asking": "questions", "question": question} for question in QUESTIONS]
STATES += [{"asking": "words", "word": word} for word in TOKENS]


def lesson_vectors():
    """Return questions and words as lesson 4 makes them."""
    tokens, features, x = load_table("the_cat_sat_on_the_mat.csv")
    assert tuple(tokens) == TOKENS
    columns = [features.index(wish) for wish in ("animal", "action", "place")]
    return 4 * torch.eye(5)[columns], x


@pytest.mark.parametrize("state", STATES, ids=str)
def test_result_is_what_torch_and_the_lesson_give(state):
    query, key = lesson_vectors()
    if state["asking"] == "words":
        query, key = key, query
    result = CrossExplorer(**state).result
    torch.testing.assert_close(result.output, F.scaled_dot_product_attention(query, key, key))
    torch.testing.assert_close(result.weights, (query @ key.T / 5**0.5).softmax(dim=-1))
    assert (len(result.queries), len(result.keys)) == result.weights.shape
    assert result.queries[result.picked] in state.values()


def test_the_table_is_not_square_and_turning_it_round_changes_the_weights():
    asked, asking = (CrossExplorer(asking=one).result.weights for one in ("questions", "words"))
    assert asked.shape == (3, 6)
    assert asking.shape == (6, 3)
    assert not torch.allclose(asked, asking.T, atol=0.1)  # the softmax runs the other way
    assert asked[:, 1].sum().item() == pytest.approx(0.856, abs=5e-4)  # as in the lesson
    assert asked[0, 2].item() == pytest.approx(0.189, abs=5e-4)


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_sentence_is_true_at_every_stop(state):
    explorer = CrossExplorer(**state)
    said, result = explorer.say(), explorer.result
    row = result.weights[result.picked]
    assert said.startswith(f"“{result.queries[result.picked]}” asks")
    assert f"{result.weights.shape[0]} by {result.weights.shape[1]}: every row adds" in said
    torch.testing.assert_close(result.weights.sum(dim=-1), torch.ones(len(result.queries)))
    top = row.max().item()
    assert f"({top:.2f}" in said
    if "all alike" in said:
        torch.testing.assert_close(row, torch.full_like(row, top))
        return
    key, total = re.search(r"column of “(.+)” to (\d\.\d\d)", said).groups()
    assert result.keys[row.argmax()] == key
    assert (row > top - 0.005).sum() == 1
    column = result.weights[:, result.keys.index(key)].sum().item()
    assert float(total) == pytest.approx(column, abs=0.0051)


def test_a_word_without_a_wish_looks_at_all_alike():
    assert "looks at all alike (0.33 each)" in CrossExplorer(asking="words", word="The").say()
    assert "all alike" not in CrossExplorer(asking="words").say()


@pytest.mark.parametrize("state", STATES, ids=str)
def test_a_frame_holds_both_tables_and_the_line_of_each_weight(state):
    explorer = CrossExplorer(**state)
    frame, result = explorer.frame_now(), explorer.result
    assert torch.equal(frame["weights"]["cells"], result.weights)
    assert torch.equal(frame["output"]["cells"], result.output)
    assert torch.equal(frame["lines"]["weights"], result.weights[result.picked])
    assert {part["picked"] for part in (frame["weights"], frame["lines"])} == {result.picked}
    assert frame["weights"]["title"] == f"Weights {tuple(result.weights.shape)}"
    assert state[frame["weights"]["picks"]] == result.queries[result.picked]
    assert 0 <= result.output.min() <= result.output.max() <= OUTPUTS[1]  # the stated scale


def test_the_names_are_those_of_the_table_and_the_picked_row_is_framed():
    table = load_table("the_cat_sat_on_the_mat.csv")
    assert (TOKENS, FEATURES) == (tuple(table.tokens), tuple(table.features))
    weights, output = CrossExplorer(question="where?").figure().axes
    for ax, keys in ((weights, 6), (output, 5)):
        assert [frame.get_bbox().bounds for frame in ax.patches] == [(0, 2, keys, 1)]
