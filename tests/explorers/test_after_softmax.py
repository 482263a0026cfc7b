"""AfterSoftmaxExplorer: the rules against torch, the numbers of lesson 3, words that are true."""

import itertools
import re

import pytest
import torch
import torch.nn.functional as F

from attnlab.explorers import AfterSoftmaxExplorer
from attnlab.explorers.after_softmax import LIFTS, RULES

STATES = list(itertools.product(RULES, LIFTS))
REAL = torch.tensor([[True, True, True, False, False]])


def lesson_scores():
    """Return the scores as lesson 3 draws them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(42)
        return torch.randn(5, 5)


def by_hand(rule, scores):
    """Return the weights of a rule, as lesson 3 writes it."""
    return {
        "no mask": lambda: scores.softmax(dim=-1),
        "before: -inf": lambda: scores.masked_fill(~REAL, -torch.inf).softmax(dim=-1),
        "before: 0": lambda: scores.masked_fill(~REAL, 0.0).softmax(dim=-1),
        "after: 0": lambda: scores.softmax(dim=-1) * REAL,
    }[rule]()


@pytest.mark.parametrize(("rule", "lift"), STATES)
def test_result_is_the_rule_of_the_lesson(rule, lift):
    scores = lesson_scores()
    scores[:, 3:] += lift
    result = AfterSoftmaxExplorer(rule=rule, lift=lift).result
    torch.testing.assert_close(result.weights, by_hand(rule, scores))
    torch.testing.assert_close(result.on_words, result.weights[:, :3].sum(dim=-1))
    torch.testing.assert_close(result.on_padding, result.weights[:, 3:].sum(dim=-1))
    torch.testing.assert_close(result.row_sums, result.on_words + result.on_padding)


def test_minus_infinity_is_what_torch_does_and_padding_cannot_change_it():
    unit = torch.eye(5)  # values are unit vectors: the output is the weights
    reference = F.scaled_dot_product_attention(
        lesson_scores(), unit, unit, attn_mask=REAL.expand(5, 5), scale=1.0
    )
    for lift in LIFTS:
        result = AfterSoftmaxExplorer(rule="before: -inf", lift=lift).result
        torch.testing.assert_close(result.weights, reference)


@pytest.mark.parametrize(
    ("rule", "part", "expected"),
    [
        ("no mask", "on_padding", [0.132, 0.402, 0.351, 0.616, 0.454]),
        ("before: -inf", "on_padding", [0, 0, 0, 0, 0]),
        ("before: 0", "on_padding", [0.127, 0.580, 0.475, 0.536, 0.509]),
        ("after: 0", "row_sums", [0.868, 0.598, 0.649, 0.384, 0.546]),
    ],
)
def test_the_numbers_are_those_of_the_lesson(rule, part, expected):
    found = getattr(AfterSoftmaxExplorer(rule=rule).result, part)
    torch.testing.assert_close(found, torch.tensor(expected).float(), atol=6e-4, rtol=0)


@pytest.mark.parametrize(("rule", "lift"), STATES)
def test_the_sentence_is_true(rule, lift):
    explorer = AfterSoftmaxExplorer(rule=rule, lift=lift)
    text, result = explorer.say(), explorer.result
    assert ("every row adds up to 1" in text) == torch.allclose(result.row_sums, torch.ones(5))
    nothing = "leaves nothing on <pad>" in text or "nothing lies on <pad>" in text
    assert nothing == bool((result.on_padding == 0).all())
    assert "-" not in text
    assert ("raised by" in text, "lowered by" in text) == (lift > 0, lift < 0)
    told = {float(number) for number in re.findall(r"\d\.\d+", text)}
    bare = by_hand("no mask", lesson_scores() + lift * ~REAL)[1, 3:].sum().item()
    sums, leak = result.row_sums, result.on_padding[1].item()
    wanted = {
        "no mask": [bare],
        "before: -inf": [],
        "before: 0": [leak, bare],
        "after: 0": [sums.min().item(), sums.max().item(), sums[1].item()],
    }[rule]
    assert told == {round(one, 3) for one in wanted}
    assert ("more than" in text) == (rule == "before: 0" and leak > bare)
    assert 0 not in told


def test_zero_before_the_softmax_is_worst_until_padding_scores_high():
    def leak(rule, lift):
        return AfterSoftmaxExplorer(rule=rule, lift=lift).result.on_padding[1].item()

    leaks = [leak(rule, 0) for rule in RULES]
    assert leaks.index(max(leaks)) == list(RULES).index("before: 0")
    assert len({leak("before: 0", lift) for lift in LIFTS}) == 1
    assert leak("no mask", 2) > leak("before: 0", 2)


@pytest.mark.parametrize("rule", RULES)
def test_frames_show_the_weights_and_code_computes_them_again(rule):
    for lift in LIFTS:
        explorer = AfterSoftmaxExplorer(rule=rule, lift=lift)
        frame, result = explorer.frame_now(), explorer.result
        names = {"torch": torch, "scores": lesson_scores()}
        exec(frame["code"], names)
        torch.testing.assert_close(names["weights"], result.weights)
        assert torch.equal(frame["weights"]["cells"], result.weights)
        assert torch.equal(frame["shares"]["weights"], result.on_words)
        assert torch.equal(frame["shares"]["rest"], result.on_padding)
        looks = frame["weights"]["looks"]
        assert {look for row in looks for look in row[:3]} == {""}
        leaking = [[look == "leak" for look in row[3:]] for row in looks]
        assert torch.equal(torch.tensor(leaking), result.weights[:, 3:] > 0)
        assert all(look in ("leak", "blocked") for row in looks for look in row[3:])
        sums = frame["weights"]["sums"]
        good = (result.row_sums - 1).abs() < 0.005
        assert [fine for _, fine in sums] == good.tolist()
        assert all(text == "✓ 1" for text, fine in sums if fine)
        assert frame["bad"] == (rule != "before: -inf")
