"""What is wrong in a way of its own is named, and nothing that is correct is accused."""

import inspect

import pytest
import torch

from attnlab.clinic import diagnose
from tests.clinic.cases import ROWS
from tests.clinic.parts import answer


@pytest.mark.parametrize(("names", "target", "options"), ROWS)
def test_what_is_wrong_is_named_and_nothing_else_accused(names, target, options):
    torch.manual_seed(0)
    if callable(target) and not inspect.signature(target).parameters:
        target = target()
    report = diagnose(target, **options)
    if names:  # it may be asked, since it may be a convention
        assert answer(report) in names.split(), repr(report)
    else:
        assert report.ok, repr(report)
