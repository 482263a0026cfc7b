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
        ("[0.8, 0.7, -0.5]", "-0.5 is negative, and no weight"): (
            lambda row: bool((row <= 1).all() and abs(row.sum() - 1) < 1e-5)
        ),
        "without `abs`": lambda row: bool(abs(row.abs().sum() - 1) < 1e-5),
        "without `clamp`": lambda row: bool(abs(row.clamp(min=0).sum() - 1) < 1e-5),
        "tolerance must be": lambda row: bool((row >= 0).all() and abs(row.sum() - 1) < 0.1),
        ("a tensor of shape (3,). Return one", "call `.all()`"): lambda row: row >= 0,
        "a number (torch.float32). Return True or False": lambda row: row.sum(),
        "returns None for the row [0.9, 0.4, 0.0]. Return False": without_else,
    }
})  # fmt: skip


def test_a_wrong_distribution_is_shown_with_all_rows():
    verdict = refused(check_is_distribution, without_else)
    assert verdict.evidence.columns == ("sum", "correct", "yours")
    assert "NaN" in repr(verdict)
    shown = refused(check_is_distribution, lambda row: True).evidence
    assert shown.values[3].tolist() == [0.4, False, True]  # [0.2, 0.2]
