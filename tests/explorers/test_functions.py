"""The learner's own function draws the weights: what is said of it, and its errors."""

import math

import pytest

from attnlab.explorers import MaskExplorer


def mine(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (mine, "Drawn by mine: every row with an open key sums to 1, and no blocked key gets"),
        (lambda scores, mask: scores.softmax(-1), "“The” (row 0) gives weight to blocked keys"),
        (lambda scores, mask: scores * math.nan, "(row 0) is NaN; “cat” (row 1) is NaN; “sat”"),
        (lambda scores, mask: 0.6 * mine(scores, mask), "“The” (row 0) adds up to 0.60; “cat”"),
        (lambda scores, mask: scores[0], "must return weights (6, 6), got (6,)"),
        (lambda scores, mask: scores.tolist(), "must return a torch.Tensor, got list"),
        (lambda scores, mask: (scores, scores), "weights alone, got a tuple of 2"),
        (lambda scores, mask: scores + 1j, "must return real numbers"),
        (lambda scores, mask: None, "returns None: write it first"),
        (lambda scores: scores, "takes 1 positional argument but 2 were given"),
        (lambda scores, mask: scores / [1], 'scores / [1], "unsupported operand'),  # its line
    ],
)
def test_the_editor_of_masks_draws_a_function_and_says_what_is_wrong(function, said):
    explorer = MaskExplorer(function=mine)
    before = explorer.answer["drawn"]
    explorer.function = function
    assert said in explorer.say()
    assert bool(explorer.answer["error"]) == (explorer.last_error is not None)
    assert (explorer.answer["drawn"] is before) == bool(explorer.last_error)  # it is stale
    explorer.function = None
    assert (explorer.answer, explorer.last_error) == (None, None)


def test_a_function_is_asked_once_for_each_state_and_cannot_spoil_it():
    calls = []

    def spoiling(scores, mask):
        calls.append(int(mask.sum()))
        mask[:] = True
        return scores.fill_(1 / 6)

    explorer = MaskExplorer(function=spoiling)
    with explorer.hold_trait_notifications():
        explorer.mask, explorer.padding = "causal", [0]
    assert calls == [21, 15]
    assert "(row 0) may attend to nothing but still gives weight" in explorer.say()
    assert explorer.result.weights[0].isnan().all()  # what torch says stays


def test_two_to_ten_tokens_are_drawn_and_no_window_is_wider():
    for count in (2, 10):
        explorer = MaskExplorer([f"word{i}" for i in range(count)], window=10)
        assert explorer.result.weights.shape == (count, count)
        (window,) = (one for one in explorer.data["controls"] if one.get("name") == "window")
        assert window["values"] == [*range(1, count + 1)]
        assert explorer.figure()
