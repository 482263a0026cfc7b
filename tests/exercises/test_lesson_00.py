"""The check of lesson 0: what it accepts, and what it says of wrong answers that are not slips."""

import torch

from attnlab.exercises import check_is_distribution
from tests.exercises.verdicts import accepts, names, refused


def is_distribution(row):
    return bool((row >= 0).all() and abs(row.sum() - 1) < 1e-5)


def without_else(row):
    if is_distribution(row):
        return True


test_accepts = accepts({
    check_is_distribution: [
        is_distribution,
        lambda row: (row >= 0).all() and torch.isclose(row.sum(), torch.tensor(1.0)),
        lambda row: ((row >= 0).all() & ((row.sum() - 1).abs() < 1e-6)).numpy(),
    ]
})  # fmt: skip

test_names_the_mistake = names({
    check_is_distribution: {
        "sums to 0.9999998": lambda row: bool((row >= 0).all() and row.sum() == 1),
        "may be exactly 0": lambda row: bool((row > 0).all() and abs(row.sum() - 1) < 1e-5),
        ("[0.8, 0.7, -0.5]", "-0.5 is negative: every entry"): (
            lambda row: bool((row <= 1).all() and abs(row.sum() - 1) < 1e-5)
        ),
        "without `abs`": lambda row: bool(abs(row.abs().sum() - 1) < 1e-5),
        "narrow the tolerance": lambda row: bool((row >= 0).all() and abs(row.sum() - 1) < 0.1),
        ("the shape (3,); return one", "`.all()` makes one"): lambda row: row >= 0,
        "a Tensor of torch.float32; return True or False": lambda row: row.sum(),
        "returns None: return False": without_else,
    }
})  # fmt: skip


def test_a_wrong_distribution_is_shown_with_all_rows():
    verdict = refused(check_is_distribution, without_else)
    assert verdict.evidence.columns == ("its sum", "correct", "yours")
    assert "NaN" in repr(verdict)
    shown = refused(check_is_distribution, lambda row: True).evidence
    assert shown.values[3].tolist() == [0.4, False, True]  # [0.2, 0.2]
