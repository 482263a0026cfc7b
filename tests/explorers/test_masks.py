"""MaskExplorer: torch results, hostile state, the learner's function."""

import itertools
import re

import pytest
import torch
import torch.nn.functional as F

from attnlab import causal_mask
from attnlab.explorers import MaskExplorer

NAN, INF = float("nan"), float("inf")


def states():
    for mask, fill in itertools.product(("none", "causal", "window"), ("-inf", "-1e9", "attnlab")):
        for padding, toggled in (((), ()), ((0,), ()), ((0, 1, 2), ((2, 0), (5, 1)))):
            yield {"mask": mask, "fill": fill, "padding": padding, "toggled": toggled}


@pytest.mark.parametrize("state", [*states()], ids=str)
def test_result_is_what_torch_gives(state):
    explorer = MaskExplorer(ask=False, **state)
    result = explorer.result
    used = result.mask.any(dim=-1)
    values = torch.eye(6)
    reference = F.scaled_dot_product_attention(
        explorer.scores, values, values, attn_mask=result.mask, scale=1.0
    )  # keys and values are unit vectors: the output is the weights
    torch.testing.assert_close(result.weights[used], reference[used])
    assert result.empty_rows == tuple((~used).nonzero().flatten().tolist())
    rest = result.weights[~used]
    if state["fill"] == "-inf":
        assert rest.isnan().all()
    elif state["fill"] == "-1e9":
        torch.testing.assert_close(rest, torch.full_like(rest, 1 / 6))
    else:
        assert (rest == 0).all()


def test_masks_are_those_of_the_package_and_true_means_may_attend():
    assert torch.equal(MaskExplorer().result.mask, causal_mask(6))
    assert MaskExplorer(mask="none").result.mask.all()
    narrow = MaskExplorer(mask="window", window=2).result.mask
    assert narrow.sum(dim=-1).tolist() == [1, 2, 2, 2, 2, 2]
    assert not MaskExplorer(mask="none", padding=[3]).result.mask[:, 3].any()
    assert MaskExplorer(toggled=[(0, 5)]).result.mask[0, 5]
    assert not MaskExplorer(toggled=[(4, 4)]).result.mask[4, 4]


@pytest.mark.parametrize(
    ("window", "words"), [(1, "itself alone"), (2, "itself and 1 before"), (10, "and 9 before")]
)
def test_the_window_looks_back_alone_and_the_picture_says_how_far(window, words):
    explorer = MaskExplorer(mask="window", window=window)
    mask = explorer.result.mask
    back = (torch.arange(6)[:, None] - torch.arange(6))[mask]
    assert back.min() == 0
    assert back.max() == min(window, 6) - 1
    assert words in explorer.figure().axes[0].get_title(loc="left")


def test_the_sentence_tells_what_happens_to_an_empty_row():
    assert "every row of weights adds up to 1" in MaskExplorer().say()
    says = {
        fill: MaskExplorer(padding=[0], fill=fill).say() for fill in ("-inf", "-1e9", "attnlab")
    }
    assert all(text.startswith("“The” (row 0) may attend to nothing.") for text in says.values())
    assert "NaN" in says["-inf"]
    assert "the same weight" in says["-1e9"]
    assert "set to 0" in says["attnlab"]
    two = MaskExplorer(padding=[0, 1]).say()
    assert two.startswith("“The” (row 0) and “cat” (row 1) may attend to nothing.")
    three = MaskExplorer(padding=[0, 1, 2]).say()
    assert three.startswith("“The” (row 0), “cat” (row 1) and “sat” (row 2) may")
    assert MaskExplorer(padding=range(6)).say().startswith("All queries may attend to nothing.")


@pytest.mark.parametrize(
    ("state", "error", "sentence"),
    [
        ({"tokens": ["a"] * 10_000}, ValueError, "tokens must be 2 to 10 words, got 10000"),
        ({"tokens": ["a"]}, ValueError, "tokens must be 2 to 10 words, got 1"),
        ({"tokens": "The cat"}, TypeError, "tokens must be a list of words"),
        ({"tokens": [1, 2]}, TypeError, "tokens must be words, got 1"),
        ({"tokens": ["x" * 1000, "b"]}, ValueError, "1 to 12 letters, got 'xxx"),
        ({"tokens": ["", "b"]}, ValueError, "1 to 12 letters"),
        ({"padding": 3}, TypeError, "padding must be a list of positions, got 3"),
        ({"padding": [6]}, ValueError, "padding must hold positions 0 to 5, got 6"),
        ({"padding": [-1]}, ValueError, "positions 0 to 5, got -1"),
        ({"padding": ["The"]}, TypeError, "padding must hold integers, got 'The'"),
        ({"padding": [NAN]}, TypeError, "padding must hold integers, got nan"),
        ({"toggled": [(1, 2, 3)]}, TypeError, "toggled must hold \\(query, key\\) pairs"),
        ({"toggled": [1]}, TypeError, "toggled must hold \\(query, key\\) pairs, got 1"),
        ({"toggled": [(0, 9)]}, ValueError, "toggled must hold positions 0 to 5, got 9"),
        ({"toggled": None}, TypeError, "toggled must be a list"),
    ],
)
def test_tokens_positions_and_cells_are_checked(state, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        MaskExplorer(**state)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)


def test_two_to_ten_tokens_are_drawn():
    for count in (2, 10):
        explorer = MaskExplorer([f"word{i}" for i in range(count)], window=10)
        assert explorer.result.weights.shape == (count, count)
        assert explorer.to_html()


# --- the learner's function -----------------------------------------------------------------------


def mine(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


def test_the_learners_function_draws_and_is_told_what_is_wrong():
    explorer = MaskExplorer(function=mine)
    assert explorer.say() == ("Drawn by mine: every row is right, and no blocked key gets weight.")
    explorer.padding = [0]
    assert explorer.answer["state"]["padding"] == (0,)
    assert "(row 0) may attend to nothing and still gives weight" in explorer.say()
    assert explorer.result.weights[0].isnan().all()  # what torch says stays


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda scores, mask: scores.softmax(-1), "“The” \\(row 0\\) gives weight to blocked keys"),
        (lambda scores, mask: scores * NAN, "“The” \\(row 0\\) is NaN"),
        (lambda scores, mask: mask / 10, "\\(row 0\\) adds up to 0.10"),
        (lambda scores, mask: mask * INF, "\\(row 0\\) (is NaN|adds up to inf)"),
    ],
)
def test_weights_that_cannot_be_right_are_named(function, sentence):
    explorer = MaskExplorer(function=function)
    assert re.search(sentence, explorer.say())
    assert explorer.to_html()


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda scores, mask: scores[0], "must return weights \\(6, 6\\), got \\(6,\\)"),
        (lambda scores, mask: scores.tolist(), "must return a torch.Tensor, got list"),
        (lambda scores, mask: (scores, scores), "weights alone, got a tuple of 2"),
        (lambda scores, mask: scores + 1j, "must return real numbers"),
        (lambda scores, mask: None, "returns None: write it first"),
        (lambda scores: scores, "takes 1 positional argument but 2 were given"),
        (lambda scores, mask: scores / mask.nope, "'Tensor' object has no attribute 'nope'"),
    ],
)
def test_an_error_is_shown_and_goes_away(function, sentence):
    explorer = MaskExplorer(function=mine)
    weights = explorer.answer["drawn"]
    explorer.function = function
    assert re.search(sentence, str(explorer.last_error))
    assert re.search(sentence, explorer.answer["error"])
    assert explorer.answer["drawn"] is weights  # the old picture, to be marked as stale
    assert re.search(sentence, explorer.say())
    explorer.function = mine
    assert explorer.answer["error"] == ""
    assert explorer.last_error is None


def test_the_line_of_the_error_is_shown():
    def broken(scores, mask):
        scores = scores + 1
        return scores / [1]

    assert "return scores / [1]" in MaskExplorer(function=broken).answer["error"]


def test_the_function_cannot_spoil_the_scores():
    def spoiling(scores, mask):
        mask[:] = True
        return scores.fill_(1 / 6)

    explorer = MaskExplorer(ask=False, function=spoiling)
    torch.testing.assert_close(explorer.result.weights, MaskExplorer().result.weights)


def test_one_change_of_two_values_asks_the_function_once():
    calls = []

    def counting(scores, mask):
        calls.append(1)
        return mine(scores, mask)

    explorer = MaskExplorer(function=counting)
    with explorer.hold_trait_notifications():
        explorer.mask, explorer.padding = "window", [1]
    assert len(calls) == 2
