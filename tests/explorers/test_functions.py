"""The learner's own function draws weights and influence: what is said of it, and its errors."""

import math

import pytest
import torch

from attnlab.explorers import MaskExplorer, ScalingExplorer
from tests.explorers.oracles_computed import masks
from tests.explorers.test_every_stop import assert_true


def mine(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


def erased(scores, mask):
    return scores.softmax(dim=-1) * mask


GOOD = "every row with an open cell adds up to 1, and no blocked cell has any weight or influence."


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (mine, f"Drawn by mine: {GOOD}"),
        (lambda scores, mask: scores.softmax(-1), "“The” (row 0) gives weight to blocked cells"),
        (
            lambda scores, mask: scores * math.nan,
            "(row 0) is NaN; “cat” (row 1) is NaN; every grad",
        ),
        (lambda scores, mask: 0.6 * mine(scores, mask), "“The” (row 0) adds up to 0.60; “cat”"),
        (erased, "“The” (row 0) adds up to 0.21; “cat” (row 1) adds up to 0.45; 15 blocked cells"),
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
    explorer = MaskExplorer(function=mine, mask="causal", padding=0)
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

    explorer = MaskExplorer(function=spoiling, mask="causal", padding=0)
    with explorer.hold_trait_notifications():
        explorer.mask, explorer.padding = "both", 1
    assert calls == [21, 15]
    assert "(row 0) has no open cell but gives weight" in explorer.say()
    assert explorer.result.weights[0].isnan().all()  # what torch says stays


def test_with_a_function_no_question_comes_first_and_no_control_does_nothing():
    data = MaskExplorer(function=mine).data
    assert data["question"] is None
    assert [one.get("name", one.get("text")) for one in data["controls"] if one["kind"]] == [
        *("padding", "mask", "Reset")
    ]


def test_the_still_picture_says_who_has_drawn_it():
    for function, name in ((mine, "by mine"), (lambda scores, mask: None, "score −∞")):
        middle = MaskExplorer(function=function).figure().axes[1]
        assert f"weights ({name})" in [middle.get_title(loc=side) for side in ("left", "center")]


def test_reset_goes_back_to_the_state_of_the_call():
    called = {"padding": 2, "mask": "padding", "fill": "0", "toggled": [[0, 2]]}
    explorer = MaskExplorer(**called)
    explorer.padding, explorer.toggled = 5, ()
    assert explorer.data["call"] == called  # which the button sets


def test_a_leak_made_by_hand_is_named():
    explorer = MaskExplorer(mask="causal", padding=0, toggled=[(0, 2)])
    assert explorer.say().startswith("“The” now sees the later word “sat”. The influence map is")
    explorer.toggled = [(0, 2), (1, 3), (2, 5)]
    assert "“sat”. 2 other cells were opened by hand, too. The infl" in explorer.say()
    assert [len(ax.patches) for ax in explorer.figure().axes] == [3, 0, 3]  # each has a frame
    explorer.mask = "none"  # they are closed now
    assert "now sees" not in explorer.say()


@pytest.mark.parametrize("mask", ["padding", "both"])
def test_padding_that_is_opened_by_hand_is_named(mask):
    explorer = MaskExplorer(mask=mask, padding=1, fill="-1e9", toggled=[(3, 0)])
    assert explorer.say().startswith("“sat” now sees padding. ")
    explorer.toggled = [(0, 3), (3, 0)]  # the first opens a later word, or closes a word
    assert ("later word “sat”. Another cell" in explorer.say()) == (mask == "both")
    assert "are right" not in explorer.say()  # of rows that see what they should not


def test_any_cells_flipped_by_hand_leave_every_sentence_true():
    generator = torch.Generator().manual_seed(0)

    def draw(most):
        return int(torch.randint(most, (1,), generator=generator))

    explorer = MaskExplorer(ask=False)
    values = explorer.frame_values()
    for _ in range(120):
        cells = [(draw(6), draw(6)) for _ in range(1 + draw(4))]
        with explorer.hold_trait_notifications():
            for name in ("padding", "mask", "fill"):
                setattr(explorer, name, values[name][draw(len(values[name]))])
            explorer.toggled = cells
        assert_true(explorer, masks(explorer))


def test_a_divisor_of_ones_own_is_trained_now_and_is_a_fourth_line():
    explorer = ScalingExplorer(function=math.sqrt, entries=4)
    drawn = explorer.answer["drawn"]
    *_, stored, _, own = drawn["crowds"]["lengths"]
    assert own == stored  # divided by the root
    for panel in ("sizes", "rates"):
        _, stored, _, own = drawn[panel]["values"]
        assert own == pytest.approx(stored, abs=0.002)  # of 2,500 answers
    assert "√d_k and sqrt reach 0.9" in explorer.say()
    assert "or by sqrt(16)" in drawn["code"]
    assert explorer.figure().axes[1].lines[3].get_ydata().tolist() == pytest.approx(own)


@pytest.mark.parametrize("given", [None, 0, -1.0, "x", math.inf, math.nan, torch.ones(2)])
def test_a_divisor_must_be_a_positive_number(given):
    explorer = ScalingExplorer(function=lambda d_k: given)
    assert "must return a positive number to divide by, got" in explorer.answer["error"]
    assert len(explorer.panels[0].lines) == 3  # the others are shown with the error
    assert explorer.data["frames"]
    assert explorer.to_html()
