"""Attention as other people write it: nobody correct is accused, and what is wrong is named."""

import pytest

from attnlab.clinic import diagnose
from tests.clinic.by_others import load

CASES = load()


@pytest.mark.parametrize("told", [False, True], ids=["first call", "with options"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nobody_correct_is_accused(case, told):
    report = diagnose(case.build(), **(case.options if told else {}))
    names = [finding.name for finding in report.findings]
    if case.cause:
        assert (*names, report.gap and report.gap.name)[0] in case.cause, repr(report)
    else:
        assert not names, repr(report)
