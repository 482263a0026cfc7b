"""Captions and predictions are read from their files; what is wrong is told in one sentence."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from attnlab.display import texts
from attnlab.display.texts import caption_of, question_of, text_files

FORM = Draft202012Validator(
    json.loads(Path(__file__).with_name("predictions.schema.json").read_text(encoding="utf-8"))
)
ZEBRAS = """
[question.zebra]
question = "Which?"
explanation = "Two."
[[question.zebra.options]]
text = "one"
feedback = "One is too few."
[[question.zebra.options]]
text = "two"
correct = true

[figure."17.2"]
caption = "Up."
alt = "A line."
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the texts of lesson 17."""
    monkeypatch.setattr(texts, "FOLDERS", (tmp_path / "installed", tmp_path))
    return (tmp_path / "17_zebras.toml").write_text


def test_questions_and_captions_are_found_by_their_keys(write):
    write(ZEBRAS)
    assert [option["text"] for option in question_of("17/zebra")["options"]] == ["one", "two"]
    assert caption_of("17.2") == {"caption": "Up.", "alt": "A line."}


KEYS = [
    (question_of, "zebra", 'as in "02/variance-of-a-product", got .zebra/.; .* texts are 17'),
    (question_of, "18/zebra", "got '18/zebra'"),
    (question_of, "17/zebr", "17_zebras.toml has no question 'zebr'; did you mean zebra"),
    (question_of, "17/x", "17_zebras.toml has no question 'x'[.]"),
    (caption_of, "17.3", "17_zebras.toml has no figure '17.3'; did you mean 17.2"),
    (caption_of, "18.3", 'as in "3.2", got .18.3.; the lessons with texts are 17'),
]


@pytest.mark.parametrize(("find", "key", "words"), KEYS)
def test_a_wrong_key_is_told_with_its_file(write, find, key, words):
    write(ZEBRAS)
    with pytest.raises(ValueError, match=words):
        find(key)


def test_a_file_that_is_no_toml_is_named(write):
    write(ZEBRAS.replace("[question.zebra]", "[question.zebra", 1))
    with pytest.raises(ValueError, match=r"17_zebras\.toml cannot be read: .*line 2"):
        question_of("17/zebra")


@pytest.mark.parametrize("lesson", sorted(text_files()))
def test_every_answer_to_a_prediction_gets_feedback(lesson):
    questions = texts.read(text_files()[lesson])["question"]
    FORM.validate(questions)
    assert len(questions) >= 2
    for name, question in questions.items():
        options = question["options"]
        assert len({option["text"] for option in options}) == len(options)
        feedback = [option.get("feedback", "") for option in options]
        assert all(text.endswith((".", "?")) for text in feedback), name
