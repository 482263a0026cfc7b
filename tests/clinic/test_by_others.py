"""Attention as other people write it: nobody correct is accused, and what is wrong is named."""

import pytest

from attnlab.clinic import diagnose
from tests.clinic.by_others import load
from tests.clinic.parts import answer

CASES = load()


@pytest.mark.parametrize("told", [False, True], ids=["first call", "with options"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nobody_correct_is_accused(case, told):
    report = diagnose(case.build(), **(case.options if told else {}))
    if case.cause:
        assert answer(report) in case.cause, repr(report)
    else:
        assert not report.findings, repr(report)
