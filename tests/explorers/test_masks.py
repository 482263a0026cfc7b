"""MaskExplorer: torch results, what is said of empty rows, the learner's function."""

import itertools
import re

import pytest
import torch
import torch.nn.functional as F

from attnlab import causal_mask
from attnlab.explorers import MaskExplorer
from tests.explorers.common import ExplorerTests, at

NAN, INF = float("nan"), float("inf")
MASKS = ("none", "causal", "window")
FILLS = {  # what is said of a row that may attend to nothing, and its weights
    "-inf": ("NaN", NAN),
    "-1e9": ("the same weight", 1 / 6),
    "attnlab": ("set to 0", 0.0),
}
PLACES = [((), ()), ((0,), ()), ((0, 1, 2), ((2, 0), (5, 1)))]  # padding, and toggled


class TestMasks(ExplorerTests):
    kind = MaskExplorer
    states = [
        {"mask": mask, "fill": fill, "padding": padding, "toggled": toggled}
        for mask, fill, (padding, toggled) in itertools.product(MASKS, FILLS, PLACES)
    ]

    def expected(self, explorer):
        may, unit = explorer.result.mask, torch.eye(6)  # values are unit vectors: output is weights
        empty = ~may.any(dim=-1)
        weights = F.scaled_dot_product_attention(
            explorer.scores, unit, unit, attn_mask=may, scale=1.0
        )
        weights[empty] = FILLS[explorer.fill][1]
        return {"weights": weights, "empty_rows": empty.nonzero().flatten()}

    def check_words(self, explorer, said, result):
        assert ("every row of weights adds up to 1" in said) == (not result.empty_rows)
        told = [(name, int(row)) for name, row in re.findall(r"“(\w+)” \(row (\d)\)", said)]
        assert told == [(explorer.tokens[row], row) for row in result.empty_rows]
        assert not told or FILLS[explorer.fill][0] in said


def test_masks_are_those_of_the_package_and_true_means_may_attend():
    def mask_of(**state):
        return at(MaskExplorer, **state).result.mask

    assert torch.equal(mask_of(), causal_mask(6))
    assert mask_of(mask="none").all()
    assert mask_of(mask="window", window=2).sum(dim=-1).tolist() == [1, 2, 2, 2, 2, 2]
    assert not mask_of(mask="none", padding=[3])[:, 3].any()
    assert mask_of(toggled=[(0, 5)])[0, 5]
    assert not mask_of(toggled=[(4, 4)])[4, 4]


@pytest.mark.parametrize(
    ("window", "words"), [(1, "itself alone"), (2, "itself and 1 before"), (10, "and 9 before")]
)
def test_the_window_looks_back_alone_and_the_picture_says_how_far(window, words):
    explorer = at(MaskExplorer, mask="window", window=window, fill="-1e9")
    back = (torch.arange(6)[:, None] - torch.arange(6))[explorer.result.mask]
    assert (back.min(), back.max()) == (0, min(window, 6) - 1)
    assert words in explorer.data["words"]["reach"][window - 1]  # beside the slider and in the code
    title = explorer.figure().axes[0].get_title(loc="left")
    assert title.startswith(f"mask: causal window of width {window}\n")
    assert title.endswith("blocked scores: -1e9")


def test_the_sentence_names_the_empty_rows():
    says = [at(MaskExplorer, padding=range(count)).say() for count in (1, 2, 3, 6)]
    starts = [
        "“The” (row 0) may attend to nothing.",
        "“The” (row 0) and “cat” (row 1) may attend to nothing.",
        "“The” (row 0), “cat” (row 1) and “sat” (row 2) may attend to nothing.",
        "All queries may attend to nothing.",
    ]
    assert [said[: len(start)] for said, start in zip(says, starts, strict=True)] == starts


@pytest.mark.parametrize("count", [2, 10])
def test_two_to_ten_tokens_are_drawn(count):
    explorer = MaskExplorer([f"word{i}" for i in range(count)], window=10)
    assert explorer.result.weights.shape == (count, count)
    windows = {one.get("name"): one.get("values") for one in explorer.data["controls"]}["window"]
    assert windows == [*range(1, count + 1)]
    assert explorer.to_html()


def test_the_key_says_which_look_gives_weight_to_a_blocked_key():
    key = dict(at(MaskExplorer).data["words"]["key"])
    assert {look: "still has weight" in words for look, words in key.items()} == {
        "blocked": False,
        "leak": True,
        "nan": False,
    }


# --- the learner's function -----------------------------------------------------------------------


def mine(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


def test_the_learners_function_draws_and_is_told_what_is_wrong():
    explorer = MaskExplorer(function=mine)
    assert explorer.say() == (
        "Drawn by mine: every row with an open key sums to 1, and no blocked key gets any weight."
    )
    explorer.padding = [0]
    assert explorer.answer["state"]["padding"] == (0,)
    assert "(row 0) may attend to nothing but still gives weight" in explorer.say()
    assert explorer.result.weights[0].isnan().all()  # what torch says stays


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda scores, mask: scores.softmax(-1), "“The” \\(row 0\\) gives weight to blocked keys"),
        (lambda scores, mask: scores * NAN, "“The” \\(row 0\\) is NaN"),
        (lambda scores, mask: mask / 10, "\\(row 0\\) adds up to 0.10"),
        (lambda scores, mask: 0.6 * mine(scores, mask), "\\(row 0\\) adds up to 0.60"),
        (lambda scores, mask: mask * INF, "\\(row 0\\) (is NaN|adds up to inf)"),
    ],
)
def test_weights_that_cannot_be_right_are_named(function, sentence):
    explorer = MaskExplorer(function=function)
    assert re.search(sentence, explorer.say())


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
    for told in (str(explorer.last_error), explorer.answer["error"], explorer.say()):
        assert re.search(sentence, told)
    assert explorer.answer["drawn"] is weights  # the old picture, to be marked as stale
    explorer.function = mine
    assert explorer.answer["error"] == ""
    assert explorer.last_error is None
    explorer.function = function
    explorer.function = None
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
    explorer = MaskExplorer(function=lambda scores, mask: calls.append(1) or mine(scores, mask))
    with explorer.hold_trait_notifications():
        explorer.mask, explorer.padding = "window", [1]
    assert len(calls) == 2
