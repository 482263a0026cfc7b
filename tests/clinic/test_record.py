"""The record of the clinic: every broken implementation named, no correct one accused."""

import time

import pytest
import torch

from attnlab.clinic import Record, diagnose, record
from attnlab.clinic._record import Examined
from attnlab.clinic.broken import BROKEN, RIGHT
from attnlab.clinic.broken._templates import LAYERS

KINDS = {
    "attention function": "function",
    "attention layer": "layer",
    "pair (split, merge)": "pair",
    "head split": "split",
    "head merge": "merge",
    "mask builder": "builder",
    "softmax": "softmax",
}
MISNAMED = {  # found, but under the name of something that looks the same from outside
    "PaddedLayer.padding_of_the_longest": "mask-ignored",
    "CausalLayer.standardised_over_the_sequence": "causal-missing",
}
SLOWEST = 2.0  # seconds of the processor for one diagnosis


@pytest.fixture(scope="module")
def the_record() -> Record:
    torch.manual_seed(0)
    return record(time_limit=0.5)


def test_every_broken_implementation_is_named_by_its_cause(the_record):
    first = {one.case.name: [f.name for f in one.report.findings[:1]] for one in the_record.broken}
    expected = {case.name: [MISNAMED.get(case.name, case.cause)] for case in BROKEN}
    assert first == expected
    assert (the_record.found, the_record.named) == (len(BROKEN), len(BROKEN) - len(MISNAMED))


def test_no_correct_implementation_is_accused(the_record):
    accused = {one.case.name: one.report.summary for one in the_record.right if one.report.findings}
    assert accused == {}
    assert the_record.accused == 0


def test_every_case_is_taken_for_what_it_is(the_record):
    every = (*the_record.broken, *the_record.right)
    assert [KINDS[one.report.kind] for one in every] == [one.case.kind for one in every]


def test_what_was_checked_is_said_of_every_correct_implementation(the_record):
    assert [one.case.name for one in the_record.right if not one.report.properties] == []
    notes = {one.case.name: " ".join(one.report.notes) for one in the_record.right}
    assert [name for name, note in notes.items() if "could be checked" in note] == []


def test_the_steps_of_every_layer_of_the_templates_are_followed(the_record):
    gaps = {one.case.target: one.report.gap for one in the_record.right}
    assert [layer for layer in LAYERS if gaps[layer]] == []


def test_first_findings_show_evidence(the_record):
    shown = [one for one in the_record.broken if one.report.findings[0].evidence]
    assert len(shown) > len(BROKEN) / 2


@pytest.mark.parametrize("name", ["plain.fused", "CausalLayer"])
def test_a_diagnosis_is_quick(name):
    case = next(case for case in RIGHT if case.name == name)
    diagnose(case.make(), **case.options)
    start = time.process_time()
    diagnose(case.make(), **case.options)
    assert time.process_time() - start < SLOWEST


def test_the_record_can_be_bad():
    correct = next(case for case in RIGHT if case.name == "plain.fused")
    missed = Record((Examined(correct, diagnose(correct.make())),), ())
    assert (missed.found, missed.named) == (0, 0)

    unscaled = next(case for case in BROKEN if case.name == "plain.unscaled")
    report = diagnose(unscaled.make())
    wrong = Examined(unscaled._replace(cause="softmax-axis"), report)
    misnamed = Record((wrong,), (wrong,))
    assert (misnamed.found, misnamed.named, misnamed.accused) == (1, 0, 1)
