"""The diagnosis of every implementation in the clinic's catalogue, each in a test of its own.

tests/clinic/test_record.py asks the same of all of them together, which takes too long for each
mutant. pytest does not collect this file by itself.
"""

import pytest
import torch

from attnlab.clinic import diagnose
from attnlab.clinic.broken import BROKEN, RIGHT
from tests.clinic.test_record import MISNAMED

pytestmark = pytest.mark.filterwarnings("ignore")  # learners' code may warn

EVERY = [pytest.param(case, id=case.name) for case in (*BROKEN, *RIGHT)]
LAYERS = [case for case in EVERY if case.values[0].kind == "layer"]
FUNCTIONS = [case for case in EVERY if case not in LAYERS]


def first_finding(case):
    torch.manual_seed(0)
    report = diagnose(case.make(), time_limit=0.5, **case.options)
    return report.findings[0].name if report.findings else None


@pytest.mark.parametrize("case", FUNCTIONS)
def test_function(case):
    assert first_finding(case) == MISNAMED.get(case.name, case.cause)


@pytest.mark.parametrize("case", LAYERS)
def test_layer(case):
    assert first_finding(case) == MISNAMED.get(case.name, case.cause)
