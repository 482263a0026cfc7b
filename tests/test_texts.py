"""Captions and predictions are read from their files; what is wrong is told in one sentence."""

import re

import pytest

from attnlab import _texts
from attnlab._texts import caption_of, prediction_files, question_of

CHOICE = """
[zebra]
question = "Which?"
explanation = "Two."
[[zebra.options]]
text = "one"
feedback = "One is too few."
[[zebra.options]]
text = "two"
correct = true
"""
ESTIMATE = """
[zebra]
question = "How much?"
explanation = "A half."
number = { unit = "share", value = 0.5, tolerance = 0.05 }
"""
RIGHT_TWICE = '[[zebra.options]]\ntext = "one"\n'


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the predictions of lesson 17, or the captions."""
    monkeypatch.setattr(_texts, "PREDICTIONS", (tmp_path / "installed", tmp_path))
    monkeypatch.setattr(_texts, "CAPTIONS", (tmp_path / "none.toml", tmp_path / "captions.toml"))

    def write(text, name="17_zebras.toml"):
        (tmp_path / name).write_text(text, encoding="utf-8")

    return write


def test_a_question_is_found_by_lesson_and_name(write):
    write(CHOICE)
    question = question_of("17/zebra")
    assert [option["text"] for option in question["options"]] == ["one", "two"]
    write(ESTIMATE)
    assert question_of("17/zebra")["number"]["value"] == 0.5


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("zebra", "must be the number of a lesson and a name, .* got 'zebra'; .* are 17"),
        ("18/zebra", "got '18/zebra'"),
        ("17/zebr", "17_zebras.toml has no prediction 'zebr'; did you mean zebra?"),
        ("17/x", "17_zebras.toml has no prediction 'x'."),
    ],
)
def test_a_wrong_key_is_told_with_its_file(write, key, message):
    write(CHOICE)
    with pytest.raises(ValueError, match=message):
        question_of(key)


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (CHOICE, "[zebra]", "[zebra", "17_zebras.toml cannot be read: .*line 2"),
        (CHOICE, 'question = "Which?"', "", "toml, zebra: question is missing"),
        (CHOICE, '"Which?"', "3", "toml, zebra: question must be text, got 3"),
        (CHOICE, '"Two."', '" "', "toml, zebra: explanation must be text, got ' '"),
        (CHOICE, "feedback", "feedbck", "zebra, option 1: 'feedbck' is not known; there may be"),
        (CHOICE, "correct = true", "correct = 1", "option 2: correct must be true or false, got 1"),
        (CHOICE, "correct = true", "", "toml, zebra: no option says correct = true"),
        (CHOICE, '"two"', '"one"', "toml, zebra: two options have the text 'one'"),
        (CHOICE, RIGHT_TWICE, "", "toml, zebra: there must be 2 to 5 options, got 1"),
        (CHOICE, '"Two."', '"Two."\nnumber = {}', "there must be either options or a number"),
        (ESTIMATE, "number =", "numbr =", "zebra: 'numbr' is not known"),
        (ESTIMATE, "value = 0.5", "value = true", "number: value must be a number, got True"),
        (ESTIMATE, ", tolerance = 0.05", "", "zebra, number: tolerance is missing"),
        (ESTIMATE, "0.05", "0.05, slips = [{value = 1}]", "slip 1: feedback is missing"),
        (ESTIMATE, "0.05", "0.05, slips = [1]", "slip 1: this must be a table, got 1"),
    ],
)
def test_a_broken_question_is_told_with_file_and_key(write, text, old, new, message):
    if new == "" and old == RIGHT_TWICE:
        text = text.replace('feedback = "One is too few."\n', "")
    assert old in text
    write(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=re.escape(message).replace(r"\.\*", ".*")):
        question_of("17/zebra")


def test_a_caption_is_found_by_its_number(write):
    write('["1.2"]\ncaption = "Up."\nalt = "A line."', "captions.toml")
    assert caption_of("1.2") == {"caption": "Up.", "alt": "A line."}
    with pytest.raises(ValueError, match=r"captions.toml has no caption for Figure '1.3'"):
        caption_of("1.3")
    write('["1.2"]\ncaption = "Up."', "captions.toml")
    with pytest.raises(ValueError, match=r"captions.toml, 1.2: alt is missing"):
        caption_of("1.2")


def keys_of(lesson):
    return [f"{lesson}/{name}" for name in _texts.read(prediction_files()[lesson])]


def without_feedback(question):
    """Return the parts of a question that no sentence of feedback belongs to."""
    if "options" in question:
        told = {option["text"]: option.get("feedback", "") for option in question["options"]}
    else:
        number = question["number"]
        told = {name: number.get(name, "") for name in ("feedback", "low", "high")}
        slips = number.get("slips", [])
        told |= {f"slip {slip['value']}": slip["feedback"] for slip in slips} or {"slips": ""}
    return [part for part, feedback in told.items() if not feedback.endswith((".", "?"))]


@pytest.mark.parametrize("lesson", sorted(prediction_files()))
def test_every_answer_to_a_prediction_gets_feedback(lesson):
    """Every option, a number that is correct, too low or too high, and at least one slip."""
    missing = {key: without_feedback(question_of(key)) for key in keys_of(lesson)}
    assert len(missing) >= 3
    assert not any(missing.values()), missing


TOLD = 'feedback = "Yes.", low = "More.", high = "Less.", slips = [{value = 1, feedback = "x"}]'


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (CHOICE, ["two"]),
        (CHOICE.replace("few.", "few"), ["one", "two"]),
        (ESTIMATE, ["feedback", "low", "high", "slips"]),
        (ESTIMATE.replace("0.05", f"0.05, {TOLD}"), ["slip 1"]),
        (ESTIMATE.replace("0.05", f"0.05, {TOLD}".replace('"x"', '"Half of it."')), []),
    ],
)
def test_a_part_without_a_sentence_of_feedback_is_found(write, text, missing):
    write(text)
    assert without_feedback(question_of("17/zebra")) == missing
