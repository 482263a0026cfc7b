"""Predictions without a browser: nothing is shown early, and what was said stays."""

import json

import ipywidgets as widgets
import pytest

from attnlab.exercises import Prediction, predict

ANSWER = "Most of it, 0.786: each zero counts as 1."


def a_choice(**options) -> Prediction:
    given = {"options": ["nothing", "a tenth", "most of it"], "reveal": ANSWER}
    return predict("How much do ten zeros take?", **(given | options))


def a_number(**options) -> Prediction:
    return predict("How much?", **({"number": "share of weight", "reveal": ANSWER} | options))


def every_widget(widget):
    """Return a widget and all that lie in it."""
    return [
        widget,
        *(part for child in getattr(widget, "children", ()) for part in every_widget(child)),
    ]


def told_to_the_page(widget) -> str:
    """Return all that the browser is told about a widget and its parts."""
    parts = every_widget(widget)
    parts += [part.layout for part in parts] + [
        part.style for part in parts if hasattr(part, "style")
    ]
    return json.dumps([part.get_state() for part in parts], default=str)


def write(prediction, text, *, enter):
    """Write into the box as a browser does: Enter is told first, then the text."""
    if enter:
        prediction.box._handle_custom_msg({"event": "submit"}, [])
    prediction.box.value = text


# --- answering ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [a_choice, a_number])
def test_before_an_answer_the_page_is_told_nothing_of_it(ask):
    prediction = ask()
    assert prediction.answer is None
    assert ANSWER not in told_to_the_page(prediction)
    assert "You said" not in told_to_the_page(prediction)


def test_what_the_page_is_told_is_looked_at_in_full():
    hidden = widgets.HBox([widgets.VBox([widgets.HTML("deep")])], tooltip="tip")
    assert "deep" in told_to_the_page(hidden)
    assert "tip" in told_to_the_page(hidden)
    prediction = a_choice()
    prediction.buttons[0].click()
    assert ANSWER in told_to_the_page(prediction)


@pytest.mark.parametrize("index", [0, 2])
def test_a_click_commits_and_shows_what_was_said_and_the_answer(index):
    prediction = a_choice()
    prediction.buttons[index].click()
    said = prediction.options[index]
    assert prediction.answer == said
    assert f"You said <b>{said}</b>." in prediction.outcome.value
    assert ANSWER in prediction.outcome.value
    assert 'role="status"' in prediction.outcome.value


def test_the_chosen_button_is_marked_and_the_others_are_off():
    prediction = a_choice()
    prediction.buttons[1].click()
    assert [button.description for button in prediction.buttons] == [
        *("nothing", "✓ a tenth", "most of it")
    ]
    assert [button.disabled for button in prediction.buttons] == [True, False, True]


def test_a_commit_is_a_commit():
    prediction = a_choice()
    prediction.buttons[1].click()
    before = told_to_the_page(prediction)
    for button in prediction.buttons:
        button.click()
    assert prediction.answer == "a tenth"
    assert told_to_the_page(prediction) == before


def test_a_cell_that_runs_again_asks_again():
    first = a_choice()
    first.buttons[0].click()
    assert a_choice().answer is None


@pytest.mark.parametrize(
    ("text", "value"), [("0.75", 0.75), (" 1/4 ", 0.25), ("-2", -2.0), ("1e-3", 0.001)]
)
@pytest.mark.parametrize("enter", [True, False])
def test_a_number_is_committed_by_enter_and_by_the_button(text, value, enter):
    prediction = a_number()
    write(prediction, text, enter=enter)
    if not enter:
        assert prediction.answer is None
        prediction.buttons[0].click()
    assert prediction.answer == value
    assert f"You said <b>{text.strip()}</b>." in prediction.outcome.value
    assert ANSWER in prediction.outcome.value
    assert prediction.box.disabled


@pytest.mark.parametrize("text", ["", "half", "0,25", "1/0", "nan", "inf", "1/2/3"])
def test_what_is_no_number_commits_nothing(text):
    prediction = a_number()
    write(prediction, text, enter=False)
    prediction.buttons[0].click()
    assert prediction.answer is None
    assert "Write a number" in prediction.outcome.value
    assert ANSWER not in told_to_the_page(prediction)
    write(prediction, "0.5", enter=True)
    assert prediction.answer == 0.5
    assert "Write a number" not in prediction.outcome.value


def test_leaving_the_box_long_after_an_enter_commits_nothing(monkeypatch):
    prediction = a_number()
    prediction.box._handle_custom_msg({"event": "submit"}, [])
    prediction._entered -= 5
    prediction.box.value = "0.5"
    assert prediction.answer is None


def test_a_number_is_committed_once():
    prediction = a_number()
    write(prediction, "0.5", enter=True)
    write(prediction, "0.7", enter=True)
    prediction.buttons[0].click()
    assert prediction.answer == 0.5


def test_a_teacher_sees_question_and_answer_at_once():
    prediction = a_choice(ask=False)
    assert prediction.buttons == ()
    assert "ten zeros" in told_to_the_page(prediction)
    assert ANSWER in prediction.outcome.value
    assert prediction.answer is None


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
def test_texts_are_escaped_but_for_simple_marks(text, page):
    prediction = predict(text, options=["yes", "no"], reveal=text)
    assert page in prediction.children[0].value
    assert prediction.to_html().count(page) == 2
    prediction.buttons[0].click()
    assert page in prediction.outcome.value


def test_options_and_what_was_said_are_escaped():
    prediction = predict("Which?", options=["<b>", "b"], reveal="None.")
    assert "<li>&lt;b&gt;</li>" in prediction.to_html()
    prediction.buttons[0].click()
    assert prediction.answer == "<b>"
    assert "You said <b>&lt;b&gt;</b>." in prediction.outcome.value


@pytest.mark.parametrize(
    ("question", "reveal", "kind"),
    [
        ("plain", "plain", widgets.HTML),
        ("$d_k$", "plain", widgets.HTMLMath),
        ("plain", "$d_k$", widgets.HTMLMath),
    ],
)
def test_formulas_are_typeset(question, reveal, kind):
    prediction = predict(question, options=["yes", "no"], reveal=reveal)
    assert type(prediction.outcome) is type(prediction.children[0]) is kind


# --- stored ---------------------------------------------------------------------------------------


def test_a_stored_question_lists_the_options_and_folds_the_answer(monkeypatch):
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    data = a_choice()._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html"}
    page = data["text/html"]
    assert "<li>a tenth</li>" in page
    shown, folded = page.split("<details><summary>Show the answer</summary>")
    assert ANSWER in folded.split("</details>")[0]
    assert ANSWER not in shown
    assert "<script" not in page


def test_a_stored_number_names_what_to_estimate():
    assert "Your number: share of weight." in a_number().to_html()


def test_a_stored_answer_is_open_for_a_teacher():
    page = a_choice(ask=False).to_html()
    assert ANSWER in page
    assert "<details" not in page


def test_the_live_bundle_holds_widget_page_and_text(monkeypatch):
    monkeypatch.delenv("ATTNLAB_STATIC", raising=False)
    assert set(a_choice()._repr_mimebundle_()) == {
        *("application/vnd.jupyter.widget-view+json", "text/html", "text/plain")
    }


def test_what_is_stored_is_the_same_every_time():
    assert a_choice().to_html() == a_choice().to_html()
    prediction = a_choice()
    before = repr(prediction), prediction.to_html()
    prediction.buttons[0].click()
    assert (repr(prediction), prediction.to_html()) == before


def test_the_text_form_is_short():
    assert repr(a_choice()) == (
        "predict('How much do ten zeros take?', options=['nothing', 'a tenth', 'most of it'])"
    )
    assert repr(a_number()) == "predict('How much?', number='share of weight')"
    long = predict("word " * 40, options=["yes", "no"], reveal="No.")
    assert len(repr(long)) < 100
    assert ANSWER not in repr(a_choice())


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"options": None}, ValueError, "either options or number, got neither"),
        ({"number": "share"}, ValueError, "either options or number, got both"),
        ({"options": ["yes"]}, ValueError, "2 to 5 answers, got 1"),
        ({"options": list("abcdef")}, ValueError, "2 to 5 answers, got 6"),
        ({"options": ["a", "b", "a"]}, ValueError, "must differ, got 'a' 2 times"),
        ({"options": "yes"}, TypeError, "list of strings, got str"),
        ({"options": ["yes", 2]}, TypeError, r"options\[1\] must be a string, got int"),
        ({"options": ["yes", " "]}, ValueError, r"options\[1\] must not be empty"),
        ({"options": None, "number": ""}, ValueError, "number must not be empty"),
        ({"options": None, "number": True}, TypeError, "number must be a string, got bool"),
        ({"reveal": " "}, ValueError, "reveal must not be empty"),
        ({"reveal": None}, TypeError, "reveal must be a string, got NoneType"),
    ],
)
def test_a_wrong_call_is_refused_in_one_sentence(change, error, message):
    with pytest.raises(error, match=message):
        a_choice(**change)


@pytest.mark.parametrize(("question", "error"), [("", ValueError), (3, TypeError)])
def test_a_question_says_something(question, error):
    with pytest.raises(error, match="question must"):
        predict(question, options=["yes", "no"], reveal="No.")
