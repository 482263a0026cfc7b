"""What is wrong in a way of its own is named, and nothing that is correct is accused."""

import pytest
import torch

from attnlab.clinic import diagnose
from tests.clinic.cases import ROWS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_what_is_wrong_is_named_and_nothing_else_accused(row):
    torch.manual_seed(0)
    report = diagnose(row.make(), **row.options)
    names = [finding.name for finding in report.findings]
    if row.names:
        question = getattr(report.gap, "name", None)  # asked, since it may be a convention
        assert (*names, question)[0] in row.names, repr(report)
    else:
        assert report.ok, repr(report)
