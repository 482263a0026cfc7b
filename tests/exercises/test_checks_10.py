"""The checks of lesson 10: what they reject and why, and what they accept."""

import pytest
import torch

from attnlab.exercises import (
    check_mended_ablation,
    check_own_word,
    check_sink_share,
    check_third_word,
)
from attnlab.pretrained import load_layer
from tests.exercises.verdicts import accepted, refused

# --- a third word ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (0.08, "must still sum to 1"),
        (0.05, "do not lose the same amount"),
        (0.11, "does not get what “animal” lost"),
        (0.5, "e to their scores"),
    ],
)
def test_a_wrong_weight_is_explained(said, words):
    refused(check_third_word, lambda: said, words)


def test_the_ratio_stays_in_the_layer_too():
    accepted(check_third_word, lambda: 0.06)
    accepted(check_third_word, 0.06)
    layer = load_layer()
    rows = [layer.read(f"the cat saw the dog {word}").weights[:, 2] for word in ("sit", "run")]
    ratios = [row[:, 3] / row[:, 5] for row in rows]  # 2 asks, 3 and 5 are compared
    assert not torch.allclose(rows[0][:, 3], rows[1][:, 3], rtol=1e-3)
    torch.testing.assert_close(*ratios, rtol=1e-3, atol=0)


# --- sinks ----------------------------------------------------------------------------------------


def right_share(weights):
    rows = weights[:, 1:-1]
    return (rows[:, :, 0] + rows[:, :, -1]).mean(dim=-1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda w: (w[:, :, 0] + w[:, :, -1]).mean(-1), "Leave out the rows"),
        (lambda w: w[:, 1:-1, 0].mean(-1), "[CLS] alone"),
        (lambda w: w[:, 1:-1, -1].mean(-1), "[SEP] alone"),
        (lambda w: right_share(w) / 2, "Add them"),
        (lambda w: (w[:, 0, 1:-1] + w[:, -1, 1:-1]).mean(-1), "axis 1 holds the queries"),
        (lambda w: right_share(w) * (w.shape[1] - 2), "Take their mean"),
        (lambda w: right_share(w) + 0.01, "Which rows count"),
        (lambda w: right_share(w).mean(), "One number per head"),
        (lambda w: w[:, 1:-1, 0], "it gives (12, "),
    ],
)
def test_wrong_shares_are_explained(answer, words):
    refused(check_sink_share, answer, words)


def test_right_shares_are_accepted():
    accepted(check_sink_share, right_share)
    accepted(check_sink_share, lambda w: right_share(w).tolist())


# --- a layer without a head -----------------------------------------------------------------------


def columns(head):
    return slice(32 * head, 32 * (head + 1))


def on_a_copy(change):
    """Return an answer that changes the last matrix of a copy."""

    def answer(layer, text, head):
        copy = load_layer()
        change(copy.attention.out_proj, head)
        return copy.read(text).output

    return answer


def careless(layer, text, head):
    layer.attention.out_proj.weight[:, columns(head)] = 0
    return layer.read(text).output


def put_back(layer, text, head):
    matrix = layer.attention.out_proj.weight
    kept = matrix.clone()
    matrix[:, columns(head)] = 0
    output = layer.read(text).output
    matrix.copy_(kept)
    return output


def without_columns(linear, head):
    linear.weight[:, columns(head)] = 0


def without_rows(linear, head):
    linear.weight[columns(head)] = 0


def cut_out(layer, text, head):
    output = layer.read(text).output.clone()
    output[:, columns(head)] = 0
    return output


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (careless, "It changes the layer that it is given"),
        (on_a_copy(without_rows), "Rows of out_proj.weight are output features"),
        (cut_out, "belong to no single head"),
        (on_a_copy(lambda linear, head: without_columns(linear, head - 1)), "lacks head 3"),
        (lambda layer, text, head: layer.read(text).output, "with all heads"),
        (on_a_copy(lambda linear, head: linear.weight.zero_()), "Which 32 columns"),
        (lambda layer, text, head: layer.read(text).weights, "must be (7, 384)"),
        (lambda layer, text, head: layer.read(text), "is a tensor (L, 384)"),
    ],
)
def test_a_wrong_ablation_is_explained(answer, words):
    refused(check_mended_ablation, answer, words)


def test_right_ablations_are_accepted():
    accepted(check_mended_ablation, on_a_copy(without_columns))
    accepted(check_mended_ablation, put_back)


# --- an ambiguous word of one's own ---------------------------------------------------------------

GOLF = ("he hit the golf ball with a club", "golf", 10)
DANCED = ("they danced in the club", "danced", 10)


def test_a_word_of_ones_own_is_accepted():
    verdict = accepted(check_own_word, lambda: ("club", GOLF, DANCED))
    assert verdict.remarks == ("One head does it in both sentences.",)
    other = accepted(check_own_word, lambda: ("Club", (*GOLF[:2], 9), [*DANCED]))
    assert other.remarks == ()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (("bank", ("she sat on the bank of the river", "river", 4), GOLF), "lesson's words"),
        (("club", GOLF, GOLF), "where is the other meaning"),
        (("club", (*GOLF[:2], 7), DANCED), "head 7 looks most at [CLS]"),
        (
            ("club", ("the golf club", "golf", 2), DANCED),
            "not 0.05 less: the head looks there",
        ),
        (("club", GOLF, ("a club is a club, they danced", "danced", 10)), "must stand once"),
        (("club", GOLF, ("they danced in the club", "dance", 10)), "must stand once"),
        (("club", GOLF, ("the pirate danced in the club", "danced", 10)), "spelled otherwise"),
        (("club", GOLF, ("the club 🙂 danced", "danced", 10)), "cannot read"),
        (("club", GOLF, ("", "danced", 10)), "cannot read"),
        (("club", (*GOLF[:2], 12), DANCED), "from 0 to 11"),
        (("club", (*GOLF[:2], True), DANCED), "from 0 to 11"),
        (("club", (3, "golf", 1), DANCED), "must be texts"),
        (("club", GOLF), "Return a word and two examples"),
        (("club", "golf", "danced"), "Return a word and two examples"),
    ],
)
def test_a_word_that_shows_nothing_is_refused(answer, words):
    refused(check_own_word, lambda: answer, words)
