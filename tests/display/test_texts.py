"""Captions and predictions are read from their files; what is wrong is told in one sentence."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from attnlab.display import texts
from attnlab.display.texts import caption_of, prediction_files, question_of

FORM = Draft202012Validator(
    json.loads(Path(__file__).with_name("predictions.schema.json").read_text(encoding="utf-8"))
)
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
CAPTION = '["1.2"]\ncaption = "Up."\nalt = "A line."\n'


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the predictions of lesson 17, or the captions."""
    monkeypatch.setattr(texts, "PREDICTIONS", (tmp_path / "installed", tmp_path))
    monkeypatch.setattr(texts, "CAPTIONS", (tmp_path / "none.toml", tmp_path / "captions.toml"))

    def write(text):
        name = "captions.toml" if "caption" in text else "17_zebras.toml"
        (tmp_path / name).write_text(text, encoding="utf-8")

    return write


def test_questions_and_captions_are_found_by_their_keys(write):
    write(CHOICE)
    assert [option["text"] for option in question_of("17/zebra")["options"]] == ["one", "two"]
    write(ESTIMATE)
    assert question_of("17/zebra")["number"]["value"] == 0.5
    write(CAPTION)
    assert caption_of("1.2") == {"caption": "Up.", "alt": "A line."}


KEYS = [
    (question_of, "zebra", "number of a lesson and a name, .* got 'zebra'; .* are 17"),
    (question_of, "18/zebra", "got '18/zebra'"),
    (question_of, "17/zebr", "17_zebras.toml has no prediction 'zebr'; did you mean zebra"),
    (question_of, "17/x", "17_zebras.toml has no prediction 'x'[.]"),
    (caption_of, "1.3", "captions.toml has no caption for Figure '1.3'"),
]


@pytest.mark.parametrize(("find", "key", "words"), KEYS)
def test_a_wrong_key_is_told_with_its_file(write, find, key, words):
    write(CHOICE)
    write(CAPTION)
    with pytest.raises(ValueError, match=words):
        find(key)


def test_a_file_that_is_no_toml_is_named(write):
    write(CHOICE.replace("[zebra]", "[zebra", 1))
    with pytest.raises(ValueError, match=r"17_zebras\.toml cannot be read: .*line 2"):
        question_of("17/zebra")


@pytest.mark.parametrize("lesson", sorted(prediction_files()))
def test_every_answer_to_a_prediction_gets_feedback(lesson):
    """Every option, a number that is correct, too low or too high, and at least one slip."""
    names = texts.read(prediction_files()[lesson])
    FORM.validate(names)
    assert len(names) >= 2
    for name in names:
        question = question_of(f"{lesson}/{name}")
        options = question.get("options", [])
        assert len({option["text"] for option in options}) == len(options)
        told = [option.get("feedback", "") for option in options]
        if number := question.get("number"):
            told = [number.get(part, "") for part in ("feedback", "low", "high")]
            told += [slip["feedback"] for slip in number.get("slips", [{"feedback": ""}])]
        assert all(feedback.endswith((".", "?")) for feedback in told), name
