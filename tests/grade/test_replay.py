"""What an answer gave where it ran is enough for a check elsewhere to say the same of it."""

import pickle
import time

import pytest
import torch
from torch import nn

from attnlab import _bounded, exercises
from attnlab.exercises._answers import Either
from attnlab.exercises._forms import Compared
from tools.grade._judge import judged
from tools.grade._replay import Recorder, pack, unpack

CHECKS = {name: getattr(exercises, name) for name in exercises.__all__ if name.startswith("check_")}
FORMS = {name: check.form for name, check in CHECKS.items() if hasattr(check, "form")}
RIGHT = {name: form.right for name, form in FORMS.items() if isinstance(form, Compared)}
WRONG = [(name, next(iter(form.slips.values()))) for name, form in FORMS.items() if form.slips]


def both(name, given):
    """Return what a check says where an answer runs, and what is graded elsewhere."""
    answer = Recorder(given)
    there = CHECKS[name](answer)
    notes = unpack(pack(answer.notes))
    return there, judged(CHECKS[name], ("asked", "f", notes, (there.done, there.ok, there.message)))


@pytest.mark.parametrize(("name", "right"), RIGHT.items(), ids=RIGHT)
def test_a_right_answer_is_correct_elsewhere(name, right):
    there, graded = both(name, right)
    assert there.ok
    assert graded == ("correct", there.message)


@pytest.mark.parametrize(("name", "way"), WRONG[::4], ids=[name for name, _ in WRONG[::4]])
def test_a_mistake_is_named_with_the_same_sentence(name, way):
    there, graded = both(name, way[0] if isinstance(way, Either) else way)
    assert not there.ok
    assert graded == ("not yet", there.message)


def raises(*inputs):
    raise ZeroDivisionError


HOSTILE = [raises, exit, lambda *inputs: object(), lambda *inputs: "yes", nn.Linear(2, 2), b"B", 3]


@pytest.mark.parametrize("name", ["check_normed_scores", "check_always_true", "check_causal_test"])
def test_no_nonsense_is_correct(name):
    assert {both(name, given)[1][0] for given in HOSTILE} == {"not yet"}


def test_a_value_is_noted_as_it_was_when_it_was_given():
    weight = torch.ones(3)
    answer = Recorder(lambda: weight)
    answer.ask()
    weight.zero_()
    assert answer.notes[0][1].tolist() == [1, 1, 1]


def test_a_layer_can_be_sent_and_an_object_cannot():
    assert unpack(pack(nn.Linear(2, 3))).weight.shape == (3, 2)
    with pytest.raises(pickle.UnpicklingError):
        unpack(pack(Recorder))
    answer = Recorder(lambda: object())
    answer.ask()
    assert answer.notes == [("nothing", None, [])]


FORGED = {
    "none": [],
    "one": [("gives", True, [])],
    "seen": [("seen", (True, []), [])] * 9,
    "ones": [("gives", torch.ones(1), [])] * 99,
    "words": [("gives", "yes", [])] * 99,
    "numbers": [(1, 2, 3)],
    "nothing": [None],
}


@pytest.mark.parametrize("name", ["check_normed_scores", "check_is_distribution", "check_disguise"])
@pytest.mark.parametrize("notes", FORGED.values(), ids=FORGED)
def test_forged_notes_are_not_correct(name, notes):
    kind, sentence = judged(CHECKS[name], ("asked", "f", notes, (True, True, "Correct.")))
    assert kind == "not yet"
    assert sentence


def test_a_stub_that_gives_nothing_is_missing():
    assert both("check_is_distribution", lambda weights: None)[1] == ("missing", "")


def test_what_only_the_process_of_the_answer_sees_counts_against_it():
    def changing(query, key):
        result = FORMS["check_normed_scores"].right(query, key)
        query.zero_()
        return result

    there, graded = both("check_normed_scores", changing)
    assert "changes its arguments in place" in there.message
    assert graded == ("not yet", there.message)


def test_what_was_cut_short_is_no_wrong_answer(monkeypatch):
    monkeypatch.setattr(_bounded, "WAIT", 0.1)
    there, graded = both("check_normed_scores", lambda query, key: time.sleep(60))
    assert there.ok is None
    assert graded == ("failed to run", there.message)
