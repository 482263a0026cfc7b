"""YourAttentionExplorer: the function draws, the clinic's list, errors, what a page knows."""

import math
import re
from functools import cache
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F

from attnlab import scaled_dot_product_attention
from attnlab.clinic import Finding, Report, diagnose
from attnlab.clinic._causes import CAUSES
from attnlab.clinic.broken import BROKEN, RIGHT
from attnlab.explorers import YourAttentionExplorer, your_attention
from attnlab.explorers._masked import KINDS
from attnlab.explorers.your_attention import PROPERTIES, checklist
from attnlab.palette import GREEN, ORANGE

NAN = float("nan")
BLOCKED = "a blocked key gets no weight and does not change the others"


def scores_of(query, key):
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def weights(query, key, mask):
    return scores_of(query, key).masked_fill(~mask, -math.inf).softmax(dim=-1)


def right_with_nan(query, key, value, mask):
    return weights(query, key, mask) @ value


CASES = {case.name: case for case in (*BROKEN, *RIGHT)}
after_softmax = CASES["masked.weights_multiplied_by_the_mask"].make()
leaks = CASES["required.mask_not_used"].make()
wrong_axis = CASES["plain.softmax_over_the_queries"].make()
unscaled = CASES["plain.unscaled"].make()
rude = CASES["plain.query_divided_in_place"].make()
frozen = CASES["plain.weights_detached"].make()
single = CASES["plain.everything_in_float32"].make()
causal = CASES["causal.fused"].make()
causal_flipped = CASES["causal.blocked_for_allowed"].make()


def rough_and_frozen(query, key, value):
    query, key = (part.detach().bfloat16().to(value) for part in (query, key))
    return scores_of(query, key).softmax(dim=-1) @ value


class Both(NamedTuple):
    output: torch.Tensor
    weights: torch.Tensor


def with_weights(query, key, value, mask=None):
    scores = scores_of(query, key)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    return Both(weights @ value, weights)


@cache
def examined(function):
    """Return an explorer of a function, the same at every call: no test changes it."""
    return YourAttentionExplorer(function)


def marks_of(function):
    """Return the marks of all lines by their words."""
    return {check.words: check.mark for check in examined(function).checks}


# --- what is drawn --------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [scaled_dot_product_attention, F.scaled_dot_product_attention])
def test_a_right_function_draws_what_is_right(function):
    explorer = YourAttentionExplorer(function, window=2, padding=[0], toggled=[(4, 5)])
    for explorer.mask in KINDS:
        mask, weights = explorer.result.mask, explorer.result.weights
        inputs = explorer.query, explorer.key, torch.eye(6)
        torch.testing.assert_close(
            weights, F.scaled_dot_product_attention(*inputs, attn_mask=mask), atol=1e-6, rtol=0
        )
        torch.testing.assert_close(explorer._shown().weights, weights, atol=1e-4, rtol=0)
        assert "every row with an open key sums to 1" in explorer.say()


def turned_round(value, key, query, d_k, mask):
    return right_with_nan(query, key, value, mask)


@pytest.mark.parametrize(
    "function", [scaled_dot_product_attention, F.scaled_dot_product_attention, turned_round]
)
def test_the_lines_of_pytorch_call_the_function_as_it_was_called(function):
    explorer = YourAttentionExplorer(function)
    names = {"torch": torch, "n": 6, "mask": explorer.result.mask, function.__name__: function}
    names |= {"query": explorer.query[None], "key": explorer.key[None]}
    exec(f"{explorer.data['words']['code']['values']}\n{explorer.answer['call']}", names)
    torch.testing.assert_close(names["weights"][0], explorer.result.weights)


def test_a_function_without_a_mask_draws_without_one():
    explorer = YourAttentionExplorer(wrong_axis, padding=[0])
    columns = explorer._shown().weights.sum(dim=0)
    torch.testing.assert_close(columns, torch.ones(6), atol=1e-3, rtol=0)
    assert explorer.result.mask.all()
    assert explorer.answer["takes_mask"] is False
    assert BLOCKED not in marks_of(wrong_axis)
    assert "“mat” (row 5) adds up to 0.00" in examined(causal_flipped).say()


@pytest.mark.parametrize(
    "function",
    [
        lambda value, key, query, mask: right_with_nan(query, key, value, mask),
        lambda q, k, v, *, attn_mask=None: right_with_nan(q, k, v, attn_mask),
        lambda q, k, v, d_k, mask: right_with_nan(q, k, v, mask),
        lambda q, k, v, mask: torch.einsum("ls,sv->lv", weights(q, k, mask), v),
        lambda q, k, v, mask: torch.einsum("bhls,bhsv->bhlv", weights(q, k, mask), v),
        with_weights,
    ],
)
def test_functions_are_called_as_they_want(function):
    explorer = YourAttentionExplorer(function)
    assert explorer.last_error is None
    torch.testing.assert_close(
        explorer._shown().weights, explorer.result.weights, atol=1e-4, rtol=0
    )


# --- what the clinic checked ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "failing", "told"),
    [
        (
            wrong_axis,
            "without a mask, each row sums to 1",
            "softmax runs over the queries.*See lesson 1",
        ),
        (unscaled, "scores are divided by √d_k", "not scaled at all.*See lesson 2"),
        (after_softmax, BLOCKED, "The mask comes after the softmax.*See lesson 3"),
        (leaks, BLOCKED, "See lesson 3"),
        (causal_flipped, "no query sees a later key", "See lesson 3"),
        (rough_and_frozen, "gradients reach query, key and value", "Follows from another cross"),
        (rude, "the arguments are not changed", "See lesson 3"),
        (frozen, "gradients reach query, key and value", "See lesson 2"),
        (single, "double precision stays double", "See lesson 9"),
    ],
)
def test_what_fails_has_a_cross_a_finding_and_a_lesson(function, failing, told):
    explorer = examined(function)
    crosses = [check for check in explorer.checks if check.mark == "no"]
    (cross,) = (check for check in crosses if check.words == failing)
    assert re.search(told, cross.told())
    assert not explorer.report.ok
    fail = "1 fails" if len(crosses) == 1 else f"{len(crosses)} fail"
    assert re.search(rf"hold, {fail}\b", explorer.say())


def test_what_holds_has_a_tick():
    assert set(marks_of(scaled_dot_product_attention).values()) == {"yes"}
    assert marks_of(causal)["no query sees a later key"] == "yes"
    assert marks_of(with_weights)["the returned weights made the output"] == "yes"
    marks = marks_of(unscaled)
    assert [words for words, mark in marks.items() if mark != "yes"] == [
        "scores are divided by √d_k"
    ]
    assert "12 of 12 properties hold" in examined(scaled_dot_product_attention).say()


@pytest.mark.parametrize(
    ("function", "right", "why"),
    [
        (scaled_dot_product_attention, 0, "has no cross."),
        (causal_flipped, 1, "causal_attention has one cross."),
        (rough_and_frozen, 2, " crosses."),
    ],
)
def test_the_question_is_answered_by_the_count_of_crosses(function, right, why):
    question = examined(function).answer["question"]
    crosses = [check for check in examined(function).checks if check.mark == "no"]
    assert question["right"] == right == min(len(crosses), 2)
    assert question["why"].endswith(why)
    assert examined(function).answer["name"] in question["ask"]


def test_an_empty_row_is_a_choice_and_what_was_not_reached_is_open():
    (check,) = (one for one in examined(right_with_nan).checks if one.mark == "note")
    assert check.words == "a row whose keys are all blocked gives 0"
    assert check.told().startswith("A row with no allowed key gives NaN.")
    assert marks_of(wrong_axis)["scores are divided by √d_k"] == "open"
    assert "3 could not be checked" in examined(wrong_axis).say()


@pytest.mark.parametrize("function", [scaled_dot_product_attention, causal, with_weights])
def test_no_sentence_of_the_clinic_is_left_out(function):
    known = {key for one in PROPERTIES for key in one.keys}
    assert {said.key for said in examined(function).report.properties} <= known


def test_every_cause_of_a_function_has_its_line():
    """What is left can only be found in layers, head splits, mask builders."""
    lines = {
        name: [one.words for one in PROPERTIES if your_attention._names(one, Finding(name, "x"))]
        for name in CAUSES
    }
    assert all(len(words) <= 1 for words in lines.values())
    assert {name for name, words in lines.items() if not words} == {
        *("train-eval", "split-without-transpose", "merge-without-transpose", "split-and-merge"),
        *("heads-order", "round-trip", "heads-shared", "heads-from-input", "batch-first"),
        *("cross-side", "length-off-by-one"),
    }
    report = Report("f", "attention function", (Finding("batch-first", "It is turned."),))
    assert checklist(report, takes_mask=True)[-1].told() == "It is turned. See lesson 4."


def test_what_is_found_of_masks_is_listed_for_a_function_without_one_too():
    report = Report("f", "attention function", (Finding("mask-ignored", "It leaks."),))
    crosses = [one.words for one in checklist(report, takes_mask=False) if one.mark == "no"]
    assert crosses == [BLOCKED]


def test_the_clinic_is_asked_once_for_each_function(monkeypatch):
    asked = []
    monkeypatch.setattr(
        your_attention, "diagnose", lambda f, **kind: asked.append(f) or diagnose(f, **kind)
    )
    explorer = YourAttentionExplorer(after_softmax)
    explorer.padding, explorer.mask = [1], "none"
    explorer.answer_to_store()
    assert asked == [after_softmax]
    explorer.function = right_with_nan
    assert asked == [after_softmax, right_with_nan]
    assert explorer.report.ok


# --- errors ---------------------------------------------------------------------------------------


def no_empty_rows(query, key, value, mask):
    if not mask.any(dim=-1).all():
        raise ValueError("a row sees nothing")
    return right_with_nan(query, key, value, mask)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda query, key, value: query[0], r"must return an output \(1, 6, 6\), got \(6, 4\)"),
        (lambda query, key, value: (), "must return a torch.Tensor, got tuple"),
        (lambda query, key, value: query / [1], "unsupported operand"),
        (lambda query: query, "takes 1 positional argument but 3 were given"),
    ],
)
def test_what_cannot_be_drawn_says_why_and_has_a_cross(function, sentence):
    explorer = YourAttentionExplorer(right_with_nan)
    explorer.function = function
    assert explorer.last_error is not None
    assert re.search(sentence, explorer.answer["error"])
    assert [check.mark for check in explorer.checks].count("no") == 1
    assert explorer.say().endswith(explorer.answer["error"])
    explorer.function = right_with_nan
    assert explorer.last_error is None


def test_nan_and_a_function_that_is_not_written_are_shown():
    assert "(row 0) is NaN" in YourAttentionExplorer(lambda q, k, v: q @ k.mT @ v * NAN).say()
    explorer = YourAttentionExplorer(lambda query, key, value: None)
    assert "returns None: write it first" in explorer.say()
    assert explorer.checks[-1].told() == "It returns None: not done yet. See lesson 9."


def clinic_finds(monkeypatch, name, told):
    """Let the clinic find one thing about every function."""
    report = Report("f", "attention function", (Finding(name, told),))
    monkeypatch.setattr(your_attention, "diagnose", lambda function, kind: report)


def test_a_function_that_never_ends_is_not_called_again(monkeypatch):
    clinic_finds(monkeypatch, "hangs", "It gave no answer within 1 s.")
    calls = []
    explorer = YourAttentionExplorer(lambda query, key, value: calls.append(1))
    assert isinstance(explorer.last_error, TimeoutError)
    assert "no answer within 1 s" in explorer.answer["error"]
    assert calls == []


def test_the_function_cannot_spoil_its_inputs():
    explorer = YourAttentionExplorer(rude, ask=False)
    assert torch.equal(explorer.query, YourAttentionExplorer().query)


# --- what a page without a kernel knows -----------------------------------------------------------


def test_a_page_knows_the_answers_for_every_mask_and_single_padding():
    explorer = YourAttentionExplorer(no_empty_rows, window=2)
    others = explorer.answer_to_store()["others"]
    assert len(others) == 3 * 7
    for other in others:
        if other["error"]:
            assert "a row sees nothing" in other["error"]
            continue
        explorer.mask, explorer.padding = other["state"]["mask"], other["state"]["padding"]
        assert other["drawn"] == explorer.answer["drawn"]
        assert other["state"] == explorer.state()
    failed = [(one["state"]["mask"], one["state"]["padding"]) for one in others if one["error"]]
    assert failed == [("causal", (0,)), ("window", (0,))]


def test_a_slow_function_is_not_asked_for_them(monkeypatch):
    clinic_finds(monkeypatch, "slow", "It took 0.9 s.")
    assert "others" not in YourAttentionExplorer(right_with_nan).answer_to_store()
    monkeypatch.undo()
    assert "others" not in examined(unscaled).answer_to_store()


def test_the_picture_lists_every_property():
    explorer = examined(after_softmax)
    lines = explorer.figure().axes[1].texts
    colours = {one.get_text()[0]: one.get_color() for one in lines}
    assert (colours["✓"], colours["✗"]) == (GREEN, ORANGE)
    texts = " ".join(one.get_text() for one in lines)
    assert texts.count("✓") == 9
    assert f"✗ {BLOCKED}" in texts
    assert "See lesson 3." in texts
