"""The panel is what it says, and the clinic reaches its bars on every sixth of its bugs."""

import csv

import pytest

from attnlab import data_path
from tests.clinic.panel import HALVES, load
from tools.clinic_panel import INJECTED, THEN, answers_of, shares

CASES = [case for half in HALVES for case in load(half)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_computes_attention_if_it_is_told_to_be_correct(case):
    output, expected = case.output().double(), case.right_output().double()
    assert output.shape == expected.shape
    distance = (output - expected).abs().max()
    assert distance > 1e-3 if case.cause else distance <= case.tolerance


@pytest.mark.parametrize("half", HALVES)
def test_nobody_correct_is_accused_and_bugs_are_found_and_named(half):
    answers = [
        one
        for place, case in enumerate(load(half))
        for one in answers_of(half, case.name, start=place % 6, step=6)
    ]
    texts = "\n".join(one.text for one in answers if one.verdict not in ("ok", "named"))
    assert ("accused", THEN) not in [(one.verdict, one.sort) for one in answers], texts
    assert sum(one.sort == INJECTED for one in answers) > 35
    found, named = shares(answers)
    assert found >= 0.95, texts
    assert named >= 0.88, texts


def test_the_counts_that_are_told_are_of_this_panel():
    with data_path("clinic_panel.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file, strict=True)]
    for half in HALVES:
        told = {int(row["of"]) for row in rows
                if row["half"] == f"{half} half" and row["examined"] == THEN}  # fmt: skip
        assert told == {sum(not case.cause for case in load(half))}
