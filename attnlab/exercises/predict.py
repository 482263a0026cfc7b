"""A question that the learner answers before the answer is shown."""

from __future__ import annotations

import html
import re
from pathlib import Path

from attnlab.checks import check_flag, lessons_extra
from attnlab.display import Storable, browser, folds, texts

with lessons_extra():
    import anywidget
    import traitlets

FORMATTED = re.compile(r"(`[^`]+`|\$[^$]+\$)")
SIMPLE_TAGS = re.compile(r"&lt;(/?(?:b|i|em|strong|code|sub|sup))&gt;")


def predict(key: str, *, ask: bool = True) -> Prediction:
    """Return a question whose answer is shown once the learner has answered.

    Question, options, feedback and explanation are in ``notebooks/predictions/``, a file for each
    lesson. The texts may hold `` `code` ``, ``**bold**``, ``$formulas$`` and tags such as
    ``<sup>``; everything else is shown as it is written.

    Parameters
    ----------
    key : str
        The number of the lesson and the name of the question, such as
        ``"02/variance-of-a-product"``.
    ask : bool
        False shows question and answer at once, for a teacher.

    Returns
    -------
    Prediction
        ``.answer`` holds what was said.

    Raises
    ------
    TypeError
        If ``key`` is not a string.
    ValueError
        If there is no such question, or its entry in the file is not complete; the message names
        file and question.

    See Also
    --------
    attnlab.explorers.live.live : controls around a drawing.
    """
    check_flag("ask", ask)
    return Prediction(key, ask)


class Prediction(Storable, anywidget.AnyWidget):
    """A question, buttons or a box, and an answer that is folded away; made by ``predict``.

    The browser judges the answer, so that a question can be answered while the kernel is busy, and
    in a notebook that was stored and opened again.

    Attributes
    ----------
    key : str
        Lesson and name of the question.
    answer : str, float or None
        The learner's answer: an option, or a number; None before.
    said : dict or None
        The same as the browser tells it: the place of the option, or the number as written.
    """

    _esm = browser.script(Path(__file__).with_name("predict.mjs"))
    _css = browser.style_sheet(Path(__file__).with_name("predict.css"), ".attnlab-predict")
    asked = traitlets.Dict().tag(sync=True)
    said = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)

    def __init__(self, key: str, ask: bool) -> None:
        self._question = texts.question_of(key)
        self.key = key
        super().__init__(asked={"key": key, "ask": ask, **_formatted_texts(self._question)})
        folds.committed.pop(key, None)  # a cell that runs again asks again
        self.observe(self._on_said, "said")

    def _on_said(self, change: object) -> None:
        if self.said is not None:
            folds.committed[self.key] = self.answer

    @property
    def answer(self) -> str | float | None:
        """The learner's answer: an option, or a number; None before."""
        if self.said is None:
            return None
        if "options" in self._question:
            return self._question["options"][self.said["option"]]["text"]
        return self.said["value"]

    def __repr__(self) -> str:
        return f"predict({self.key!r})"

    def to_html(self) -> str:
        """Return the question, and the answer folded, for pages without Python.

        Returns
        -------
        str
            HTML that needs no script.
        """
        asked = self.asked
        question = f"<p><b>Predict.</b> {asked['question']}</p>"
        if "options" in asked:
            items = "".join(_item(option) for option in asked["options"])
            question += f"<ul>{items}</ul>"
            reasons = "".join(map(_reason, asked["options"]))
        else:
            number = asked["number"]
            question += f"<p>Your number: {number['unit']}.</p>"
            reasons = f"<p>✓ <b>{number['value']:g}</b> {number['feedback']}</p>"
        answer = f"{reasons}<p>{asked['explanation']}</p>"
        if asked["ask"]:
            answer = f"<details><summary>Show the answer</summary>{answer}</details>"
            answer += '<p style="font-size:14px">Run this cell to answer here.</p>'
        key = html.escape(self.key)
        return f'<div class="attnlab-predict-stored" data-key="{key}">{question}{answer}</div>'


def _item(option: dict) -> str:
    return f"<li{' data-correct' if option['correct'] else ''}>{option['text']}</li>"


def _reason(option: dict) -> str:
    mark = "✓" if option["correct"] else "✗"
    told = option["correct"] or option["feedback"]
    reason = f"{mark} <b>{option['text']}</b> {option['feedback']}"
    return f'<p class="reason">{reason}</p>' if told else ""


def _formatted_texts(question: dict) -> dict[str, object]:
    """Return a question for the browser: all texts as HTML, what may be left out as empty."""
    texts = {name: _formatted(question[name]) for name in ("question", "explanation")}
    if "options" in question:
        options = [
            {
                "text": _formatted(option["text"]),
                "feedback": _formatted(option.get("feedback", "")),
                "correct": option.get("correct", False),
            }
            for option in question["options"]
        ]
        return {**texts, "options": options}
    number = question["number"]
    told = {name: _formatted(number.get(name, "")) for name in ("unit", "feedback", "low", "high")}
    slips = [
        {"tolerance": number["tolerance"], **slip, "feedback": _formatted(slip["feedback"])}
        for slip in number.get("slips", [])
    ]
    return {**texts, "number": {**number, **told, "slips": slips}}


def _formatted(text: str) -> str:
    """Return a text as HTML: code, formulas, bold and simple tags, all else escaped."""
    parts = []
    for index, part in enumerate(FORMATTED.split(text)):
        safe = html.escape(part, quote=False)
        if index % 2 == 0:
            safe = SIMPLE_TAGS.sub(r"<\1>", re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", safe))
        elif part.startswith("`"):
            safe = f"<code>{safe[1:-1]}</code>"
        parts.append(safe)
    return "".join(parts)
