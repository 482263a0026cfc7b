"""Predictions without a browser: what the page is told, what is stored, what was said."""

import pytest

from attnlab.display import folds
from attnlab.display.stored import BUNDLE
from attnlab.exercises import predict

CHOICE = {
    "question": "How much do ten zeros take?",
    "explanation": "Most of it: each zero counts as 1.",
    "options": [
        {"text": "nothing", "feedback": "A zero counts as 1."},
        {"text": "some"},
        {"text": "most of it", "feedback": "Yes.", "correct": True},
    ],
}


@pytest.fixture
def ask(monkeypatch):
    """Make a prediction of a question that is not in a file."""

    def ask(question=CHOICE, **options):
        monkeypatch.setattr("attnlab.display.texts.question_of", lambda key: question)
        return predict("17/zebra", **options)

    return ask


def test_the_browser_says_what_was_answered_and_a_cell_that_runs_again_shows_it(ask):
    prediction = ask()
    assert prediction.answer is None
    prediction.said = {"option": 2}
    assert prediction.answer == folds.committed["17/zebra"] == "most of it"
    again = ask()
    assert again.answer == "most of it"
    again.said = None  # the learner answers again, and until then the first answer counts
    assert (again.answer, folds.committed["17/zebra"]) == (None, "most of it")
    assert ask(ask=False).answer is None


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("a < b & <script>f()</script>", "a &lt; b &amp; &lt;script&gt;f()&lt;/script&gt;"),
        ("`x < 2` and `**b**`", "<code>x &lt; 2</code> and <code>**b**</code>"),
        ("**so** <b>it</b> <i>is</i><sup>2</sup>", "<b>so</b> <b>it</b> <i>is</i><sup>2</sup>"),
        ('<b onclick="f()">it</b>', '&lt;b onclick="f()"&gt;it</b>'),
        (r"$a**2 < \sqrt{b**3}$", r"$a**2 &lt; \sqrt{b**3}$"),
    ],
)
def test_texts_are_escaped_but_for_simple_marks(ask, text, page):
    option = {"text": text, "feedback": text, "correct": True}
    prediction = ask({"question": text, "explanation": text, "options": [option, option]})
    assert prediction.asked["question"] == prediction.asked["explanation"] == page
    assert prediction.asked["options"][0] == {"text": page, "feedback": page, "correct": True}
    assert prediction.to_html().count(page) == 8


def test_a_stored_question_folds_the_answer_and_is_told_as_data(ask, monkeypatch):
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    data = ask()._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html", BUNDLE}
    shown, folded = data["text/html"].split("<details><summary>Show the answer</summary>")
    assert "<li>nothing</li>" in shown
    told = "✗ <b>nothing</b> A zero counts", "✓ <b>most of it</b> Yes.", "each zero counts as 1"
    for words in told:
        assert words in folded.split("</details>")[0]
        assert words not in shown
    assert folded.count("✗") == 1  # a wrong option without feedback is not listed
    facts = data[BUNDLE]
    assert (facts["kind"], facts["question"]) == ("prediction", CHOICE["question"])
    assert [option["correct"] for option in facts["options"]] == [False, False, True]
    assert "<p>You said: <b>{said}</b></p><details open>" in facts["answered"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"key": 3}, TypeError, "key must be a string, got int 3"),
        ({"key": " "}, ValueError, "key must not be empty"),
        ({"key": "00/nothing-of-the-kind"}, ValueError, "00_.*toml has no question 'nothing-of"),
        ({"key": "00/x", "ask": 1}, TypeError, "ask must be True or False, got int 1"),
    ],
)
def test_a_wrong_call_is_refused_in_one_sentence(arguments, error, message):
    with pytest.raises(error, match=message):
        predict(**arguments)
