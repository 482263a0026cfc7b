"""What an answer gave where it ran is enough for a check elsewhere to say the same of it."""

import pickle
import time

import pytest
import torch
from torch import nn

from attnlab import exercises, sandbox
from attnlab.exercises.frame.answers import Either
from attnlab.exercises.frame.forms import Compared
from tools.grade.judge import judged
from tools.grade.replay import Recorder, pack, unpack

CHECKS = {name: getattr(exercises, name) for name in exercises.__all__ if name.startswith("check_")}
FORMS = {name: check.form for name, check in CHECKS.items() if hasattr(check, "form")}
FIRST_SLIPS = {name: next(iter(form.slips.values())) for name, form in FORMS.items() if form.slips}
COMPARED = [name for name, form in FORMS.items() if isinstance(form, Compared)]
COMPARED.remove("check_disguise")  # which wants a wrong answer
SCORES = "check_normed_scores"


def raises(*inputs):
    raise ZeroDivisionError


def changes_its_input(query, key):
    result = FORMS[SCORES].right(query, key)
    query.zero_()
    return result


ANSWERS = [
    *((name, FORMS[name].right, "correct") for name in COMPARED),
    *((n, way[0] if isinstance(way, Either) else way, "not yet") for n, way in FIRST_SLIPS.items()),
    *((SCORES, given, "not yet") for given in (raises, exit, nn.Linear(2, 2), b"B", 3)),
    (SCORES, lambda *inputs: object(), "not yet"),
    (SCORES, changes_its_input, "not yet"),  # which only the process of the answer sees
    ("check_new_vector", lambda query, x, hidden: None, "missing"),
    (SCORES, lambda query, key: time.sleep(60), "failed to run"),  # cut short, and not wrong
]


@pytest.mark.parametrize(("name", "given", "verdict"), ANSWERS)
def test_the_verdict_elsewhere_is_that_of_the_check(monkeypatch, name, given, verdict):
    monkeypatch.setattr(sandbox, "WAIT", 0.1 if verdict == "failed to run" else sandbox.WAIT)
    answer = Recorder(given)
    there = CHECKS[name](answer)
    asked = ("asked", "f", unpack(pack(answer.notes)), (there.done, there.ok, there.message))
    graded = judged(CHECKS[name], asked)
    assert there.ok is {"correct": True, "not yet": False}.get(verdict, there.ok)
    assert graded == (verdict, "" if verdict == "missing" else there.message)


FORGED = {
    "none": [],
    "seen": [("seen", (True, []), [])] * 9,
    "ones": [("gives", torch.ones(1), [])] * 99,
    "words": [("gives", "yes", [])] * 99,
    "nothing": [None],
}


@pytest.mark.parametrize("name", [SCORES, "check_same_scores", "check_disguise"])
@pytest.mark.parametrize("notes", FORGED.values(), ids=FORGED)
def test_forged_notes_are_not_correct(name, notes):
    kind, sentence = judged(CHECKS[name], ("asked", "f", notes, (True, True, "Correct.")))
    assert kind == "not yet"
    assert sentence


def test_a_layer_can_be_sent_an_object_cannot_and_a_value_is_noted_as_it_was():
    assert unpack(pack(nn.Linear(2, 3))).weight.shape == (3, 2)
    with pytest.raises(pickle.UnpicklingError):
        unpack(pack(Recorder))
    weight = torch.ones(3)
    answer = Recorder(lambda: weight)
    answer.ask()
    weight.zero_()
    assert answer.notes[0][1].tolist() == [1, 1, 1]
