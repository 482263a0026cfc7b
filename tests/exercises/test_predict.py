"""Predictions without a browser: what the page is told, what is stored, what was said."""

import pytest

from attnlab import _folds
from attnlab.exercises import Prediction, predict

CHOICE = {
    "question": "How much do ten zeros take?",
    "explanation": "Most of it: each zero counts as 1.",
    "options": [
        {"text": "nothing", "feedback": "A zero counts as 1."},
        {"text": "most of it", "feedback": "Yes.", "correct": True},
    ],
}
NUMBER = {
    "question": "How much?",
    "explanation": "A half.",
    "number": {
        "unit": "share",
        "value": 0.5,
        "tolerance": 0.05,
        "feedback": "Right.",
        "low": "More.",
        "slips": [
            {"value": 1, "feedback": "Half of it."},
            {"value": 2, "tolerance": 0.25, "feedback": "A quarter."},
        ],
    },
}


@pytest.fixture
def ask(monkeypatch):
    """Make a prediction of a question that is not in a file."""

    def ask(question=CHOICE, **options) -> Prediction:
        monkeypatch.setattr("attnlab.exercises._predict.question_of", lambda key: question)
        return predict("17/zebra", **options)

    return ask


# --- answering ------------------------------------------------------------------------------------


def test_the_browser_says_what_was_answered(ask):
    prediction = ask()
    assert prediction.answer is None
    prediction.said = {"option": 1}
    assert prediction.answer == "most of it"
    number = ask(NUMBER)
    number.said = {"written": "1/4", "value": 0.25}
    assert number.answer == 0.25


def test_the_page_is_told_all_it_needs_to_judge_alone(ask):
    asked = ask().asked
    assert [option["correct"] for option in asked["options"]] == [False, True]
    assert asked["options"][0]["feedback"] == "A zero counts as 1."
    number = ask(NUMBER).asked["number"]
    assert [slip["tolerance"] for slip in number["slips"]] == [0.05, 0.25]
    assert (number["feedback"], number["low"], number["high"]) == ("Right.", "More.", "")


def test_a_cell_that_runs_again_asks_again(ask):
    ask().said = {"option": 0}
    assert "17/zebra" in _folds.committed
    assert ask().answer is None
    assert "17/zebra" not in _folds.committed


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "page"),
    [
        (
            "a < b & <script>alert(1)</script>",
            "a &lt; b &amp; &lt;script&gt;alert(1)&lt;/script&gt;",
        ),
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


# --- stored ---------------------------------------------------------------------------------------


def test_a_stored_question_lists_the_options_and_folds_the_answer(ask, monkeypatch):
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    prediction = ask()
    data = prediction._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html"}
    page = data["text/html"]
    assert "<li>nothing</li>" in page
    shown, folded = page.split("<details><summary>Show the answer</summary>")
    told = "✗ <b>nothing</b> A zero counts", "✓ <b>most of it</b> Yes.", "each zero counts as 1"
    for words in told:
        assert words in folded.split("</details>")[0]
        assert words not in shown
    assert "<script" not in page
    prediction.said = {"option": 1}
    assert prediction._repr_mimebundle_() == data


def test_a_stored_number_names_what_to_estimate(ask):
    shown, folded = ask(NUMBER).to_html().split("<details>")
    assert "Your number: share." in shown
    assert "✓ <b>0.5</b> Right." in folded


def test_a_wrong_option_without_feedback_is_not_listed_among_the_answers(ask):
    options = [{"text": "some"}, {"text": "all", "correct": True}]
    folded = ask(CHOICE | {"options": options}).to_html().split("<details>")[1]
    assert "✗" not in folded
    assert "✓ <b>all</b>" in folded


def test_a_teacher_sees_the_answer_at_once(ask):
    prediction = ask(ask=False)
    assert prediction.asked["ask"] is False
    assert "<details" not in prediction.to_html()
    assert CHOICE["explanation"] in prediction.to_html()


def test_the_live_bundle_holds_widget_page_and_text(ask, monkeypatch):
    monkeypatch.delenv("ATTNLAB_STATIC", raising=False)
    assert set(ask()._repr_mimebundle_()) == {
        *("application/vnd.jupyter.widget-view+json", "text/html", "text/plain")
    }
    assert repr(ask()) == "predict('17/zebra')"


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"key": 3}, TypeError, "key must be a string, got int 3"),
        ({"key": " "}, ValueError, "key must not be empty"),
        ({"key": "00/nothing-of-the-kind"}, ValueError, "00_.*toml has no prediction 'nothing-of"),
        ({"key": "00/x", "ask": 1}, TypeError, "ask must be True or False, got int 1"),
    ],
)
def test_a_wrong_call_is_refused_in_one_sentence(arguments, error, message):
    with pytest.raises(error, match=message):
        predict(**arguments)
