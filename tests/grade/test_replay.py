"""What an answer gave where it ran is enough for a check elsewhere to say the same of it."""

import pickle
import time

import pytest
import torch
from torch import nn

from attnlab import exercises
from attnlab.clinic import _calling
from attnlab.exercises import _answers
from tests.exercises.test_every_check import FORMS, HOSTILE, SLIPS
from tools.grade._judge import judged
from tools.grade._replay import Recorder, Replayer, pack, unpack

FEW = SLIPS[::25]


def both(check, given):
    """Return what a check says where an answer runs, and elsewhere."""
    answer = Recorder(given)
    there = check(answer)
    notes = unpack(pack(answer.notes))
    return there, check(Replayer(answer.name, notes)), notes


@pytest.mark.parametrize(("name", "way"), [(n, way) for n, _, way in FEW])
def test_a_mistake_is_named_with_the_same_sentence(name, way):
    there, here, _ = both(getattr(exercises, name), way)
    assert (here.done, here.ok, here.message) == (there.done, there.ok, there.message)
    assert not here.ok


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_nonsense_is_correct(kind, monkeypatch):
    monkeypatch.setattr(_answers, "TIME_LIMIT", 0.5)
    for name in ("check_normed_scores", "check_always_true", "check_causal_test"):
        _, here, _ = both(getattr(exercises, name), HOSTILE[kind])
        assert not here.ok, name


def test_a_value_is_noted_as_it_was_when_it_was_given():
    weight = torch.ones(3)
    answer = Recorder(lambda: weight)
    answer.ask(read=lambda value: value)
    weight.zero_()
    assert answer.notes[0][1].tolist() == [1, 1, 1]


def test_a_layer_can_be_sent_and_an_object_cannot():
    assert unpack(pack(nn.Linear(2, 3))).weight.shape == (3, 2)
    with pytest.raises(pickle.UnpicklingError):
        unpack(pack(Recorder))
    answer = Recorder(lambda: object())
    answer.ask()
    assert answer.notes == [("nothing", None, [])]


@pytest.mark.parametrize("name", ["check_normed_scores", "check_is_distribution", "check_disguise"])
@pytest.mark.parametrize(
    "notes",
    [
        [],
        [("gives", True, [])],
        [("seen", (True, []), [])] * 9,
        [("gives", torch.ones(1), [])] * 99,
        [("gives", "yes", [])] * 99,
        [(1, 2, 3)],
        [None],
    ],
    ids=["none", "one", "seen", "ones", "words", "numbers", "nothing"],
)
def test_forged_notes_are_not_correct(name, notes):
    told = ("asked", "f", notes, (True, True, "Correct."))
    kind, sentence = judged(getattr(exercises, name), told)
    assert kind == "not yet"
    assert sentence


def test_a_stub_that_gives_nothing_is_missing():
    check = exercises.check_is_distribution
    there, _, notes = both(check, lambda weights: None)
    told = ("asked", "f", notes, (there.done, there.ok, there.message))
    assert judged(check, told) == ("missing", "")


def test_what_only_the_process_of_the_answer_sees_counts_against_it():
    form = FORMS["check_normed_scores"]

    def changing(query, key):
        result = form.right(query, key)
        query.zero_()
        return result

    check = exercises.check_normed_scores
    there, _, notes = both(check, changing)
    assert "changes its arguments in place" in there.message
    told = ("asked", "f", notes, (there.done, there.ok, there.message))
    assert judged(check, told) == ("not yet", there.message)


@pytest.mark.parametrize("name", ["check_mended_pieces", "check_normed_scores"])
def test_a_right_answer_is_right_elsewhere_too(name):
    check = getattr(exercises, name)
    there, here, _ = both(check, FORMS[name].right)
    assert there.ok
    assert here.ok


def test_what_was_cut_short_is_no_wrong_answer(monkeypatch):
    monkeypatch.setattr(_calling, "WAIT", 0.1)
    check = exercises.check_normed_scores
    there, here, notes = both(check, lambda query, key: time.sleep(5))
    told = ("asked", "f", notes, (there.done, there.ok, there.message))
    assert (there.ok, here.ok) == (None, None)
    assert judged(check, told) == ("failed to run", there.message)
