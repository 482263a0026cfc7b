"""AfterSoftmaxExplorer: the rules against torch, the numbers of lesson 3, words that are true."""

import itertools
import re

import torch
import torch.nn.functional as F

from attnlab.explorers import AfterSoftmaxExplorer
from attnlab.explorers.after_softmax import LIFTS, RULES
from tests.explorers.common import DeclaredTests, at

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


class TestAfterSoftmax(DeclaredTests):
    kind = AfterSoftmaxExplorer
    states = [{"rule": rule, "lift": lift} for rule, lift in itertools.product(RULES, LIFTS)]
    written = {"weights": "weights"}

    def given(self, explorer):
        return {"scores": lesson_scores()}

    def expected(self, explorer):
        weights = by_hand(explorer.rule, lesson_scores() + explorer.lift * ~REAL)
        parts = {"on_words": weights[:, :3].sum(dim=-1), "on_padding": weights[:, 3:].sum(dim=-1)}
        return {"weights": weights, "row_sums": weights.sum(dim=-1), **parts}

    def check_words(self, explorer, said, result):
        rule, lift = explorer.rule, explorer.lift
        ones = torch.allclose(result.row_sums, torch.ones(5))
        assert ("every row adds up to 1" in said) == ones
        nothing = "puts nothing on <pad>" in said or "no weight is left on <pad>" in said
        assert nothing == bool((result.on_padding == 0).all())
        assert "-" not in said
        assert ("raised by" in said, "lowered by" in said) == (lift > 0, lift < 0)
        told = {float(number) for number in re.findall(r"\d\.\d+", said)}
        bare = by_hand("no mask", lesson_scores() + lift * ~REAL)[1, 3:].sum().item()
        sums, leak = result.row_sums, result.on_padding[1].item()
        wanted = {
            "no mask": [bare],
            "before: -inf": [],
            "before: 0": [leak, bare],
            "after: 0": [sums.min().item(), sums.max().item(), sums[1].item()],
        }[rule]
        assert told == {round(one, 3) for one in wanted}
        assert ("more than" in said) == (rule == "before: 0" and leak > bare)
        assert 0 not in told

    def check_frame(self, explorer, frame, result):
        assert torch.equal(frame["weights"]["cells"], result.weights)
        assert torch.equal(frame["shares"]["weights"], result.on_words)
        assert torch.equal(frame["shares"]["rest"], result.on_padding)
        looks = frame["weights"]["looks"]
        assert {look for row in looks for look in row[:3]} == {""}
        assert {look for row in looks for look in row[3:]} <= {"leak", "blocked"}
        leaking = [[look == "leak" for look in row[3:]] for row in looks]
        assert torch.equal(torch.tensor(leaking), result.weights[:, 3:] > 0)
        sums = frame["weights"]["sums"]
        assert [fine for _, fine in sums] == ((result.row_sums - 1).abs() < 0.005).tolist()
        assert all(text == "✓ 1" for text, fine in sums if fine)
        assert frame["bad"] == (explorer.rule != "before: -inf")


def test_minus_infinity_is_what_torch_does_and_padding_cannot_change_it():
    unit = torch.eye(5)  # values are unit vectors: the output is the weights
    reference = F.scaled_dot_product_attention(
        lesson_scores(), unit, unit, attn_mask=REAL.expand(5, 5), scale=1.0
    )
    for lift in LIFTS:
        result = at(AfterSoftmaxExplorer, rule="before: -inf", lift=lift).result
        torch.testing.assert_close(result.weights, reference)


def test_zero_before_the_softmax_is_worst_until_padding_scores_high():
    def leak(rule, lift):
        return at(AfterSoftmaxExplorer, rule=rule, lift=lift).result.on_padding[1].item()

    leaks = [leak(rule, 0) for rule in RULES]
    assert leaks.index(max(leaks)) == list(RULES).index("before: 0")
    assert len({leak("before: 0", lift) for lift in LIFTS}) == 1
    assert leak("no mask", 2) > leak("before: 0", 2)
