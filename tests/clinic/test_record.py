"""The record of the clinic: every broken implementation named, no right one accused."""

import time

import pytest
import torch

from attnlab.clinic import Record, diagnose, record
from attnlab.clinic._record import Visit
from attnlab.clinic.broken import BROKEN, RIGHT, Case

SLOWEST = 2.0  # seconds for one diagnosis, on a machine that is not otherwise busy


@pytest.fixture(scope="module")
def the_record():
    return record()


def test_the_catalogue_is_large_enough():
    assert len(BROKEN) >= 60
    assert len(RIGHT) >= 25


def test_every_broken_implementation_is_found(the_record):
    print(f"\nthe clinic: {the_record}")
    missed = [visit.case.name for visit in the_record.broken if visit.report.ok]
    assert missed == []
    assert the_record.found == len(BROKEN)


def test_nearly_every_broken_implementation_is_named_by_its_cause(the_record):
    misnamed = [
        f"{visit.case.name}: {visit.case.cause}, named {visit.report.findings[0].name}"
        for visit in the_record.broken
        if not visit.report.ok and not visit.named
    ]
    assert the_record.named >= 0.95 * len(BROKEN), "\n".join(misnamed)


def test_no_right_implementation_is_accused(the_record):
    accused = [
        f"{visit.case.name}: {visit.report.summary}"
        for visit in the_record.right
        if not visit.report.ok
    ]
    assert accused == []
    assert the_record.accused == 0


def test_what_was_checked_is_said_of_every_right_implementation(the_record):
    silent = [visit.case.name for visit in the_record.right if not visit.report.properties]
    assert silent == []


def test_first_findings_show_evidence(the_record):
    shown = [visit for visit in the_record.broken if visit.report.findings[0].evidence]
    assert len(shown) > len(BROKEN) / 2


def test_the_record_can_be_bad():
    right = Case("right", torch.nn.functional.scaled_dot_product_attention, "nan", "", "", {}, {})
    missed = Record((Visit(right, diagnose(right.make())),), ())
    assert (missed.found, missed.named) == (0, 0)

    def unscaled(query, key, value):
        """Forget the scale."""
        return (query @ key.transpose(-2, -1)).softmax(dim=-1) @ value

    wrong = Case("unscaled", unscaled, "softmax-axis", "", "", {}, {})
    misnamed = Record((Visit(wrong, diagnose(unscaled)),), (Visit(wrong, diagnose(unscaled)),))
    assert (misnamed.found, misnamed.named, misnamed.accused) == (1, 0, 1)


@pytest.mark.parametrize("name", ["attend_down_the_columns", "CausalSelfAttention"])
def test_a_diagnosis_is_quick(name):
    cases = [case for case in (*BROKEN, *RIGHT) if case.name == name] or [RIGHT[0]]
    diagnose(cases[0].make(), **cases[0].options)
    start = time.perf_counter()
    diagnose(cases[0].make(), **cases[0].options)
    assert time.perf_counter() - start < SLOWEST
