"""A question that the learner answers before the answer is shown."""

from __future__ import annotations

import html
import re
from pathlib import Path

from attnlab.checks import check_flag
from attnlab.display import browser, folds, texts
from attnlab.display.extra import lessons_extra
from attnlab.display.stored import Storable
from attnlab.exercises.frame.saved import said_before
from attnlab.palette import BLUE

with lessons_extra():
    import anywidget
    import traitlets

FORMATTED = re.compile(r"(`[^`]+`|\$[^$]+\$)")
FRAME = f"padding:8px 16px;border-left:5px solid {BLUE}"  # it is stored without a style sheet
SCRIPT = Path(__file__).with_name("predict.mjs")
STYLE = SCRIPT.with_suffix(".css")
DETAILS = "<details{}><summary>{}</summary>{}</details>"
NOTE = '<p style="font-size:14px">Run this cell to answer {}.</p>'
SIMPLE_TAGS = re.compile(r"&lt;(/?(?:b|i|em|strong|code|sub|sup))&gt;")


def predict(key: str, *, ask: bool = True) -> Prediction:
    """Return a question whose answer is shown once the learner has answered.

    Question, options, feedback and explanation are in ``notebooks/texts/``, a file for each
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
    attnlab.explorers.live : controls around a drawing.
    """
    check_flag("ask", ask)
    return Prediction(key, ask)


class Prediction(Storable, anywidget.AnyWidget):
    """A question, buttons, and an answer that is folded away; made by ``predict``.

    The browser judges the answer, so that a question can be answered while the kernel is busy, and
    in a notebook that was stored and opened again.

    Attributes
    ----------
    key : str
        Lesson and name of the question.
    answer : str or None
        The learner's answer, an option; None before.
    said : dict or None
        The same as the browser tells it: the place of the option.
    """

    _esm = f"{browser.pointing_script()}\n{browser.script(SCRIPT)}"
    _css = browser.style_sheet(STYLE, ".attnlab-predict")
    asked = traitlets.Dict().tag(sync=True)
    said = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)

    def __init__(self, key: str, ask: bool) -> None:
        self._question = texts.question_of(key)
        self.key = key
        super().__init__(asked={"key": key, "ask": ask, **_formatted_texts(self._question)})
        options = [option["text"] for option in self._question["options"]]
        committed = folds.committed.get(key)
        self._before = options.index(committed) if committed in options else said_before(key)
        self.observe(self._on_said, "said")
        if ask and self._before in range(len(options)):
            self.said = {"option": self._before}  # a cell that runs again shows what was said

    def _on_said(self, change: object) -> None:
        if self.said is not None:
            folds.committed[self.key] = self.answer

    @property
    def answer(self) -> str | None:
        """The learner's answer, an option; None before."""
        return self.said and self._question["options"][self.said["option"]]["text"]

    def __repr__(self) -> str:
        return f"predict({self.key!r})"

    def facts(self) -> dict[str, object]:
        """Return the question, and the page as it is once ``{said}`` has been answered."""
        facts = {"kind": "prediction", **self.asked, "answered": self._page(said="{said}")}
        return facts if self._before is None else {**facts, "before": self._before}

    def to_html(self) -> str:
        """Return the question, and the answer folded, for pages without Python.

        Returns
        -------
        str
            HTML that needs no script.
        """
        return self._page()

    def _page(self, said: str = "") -> str:
        asked = self.asked
        items = "".join(f"<li>{option['text']}</li>" for option in asked["options"])
        question = f"<p><b>Predict.</b> {asked['question']}</p><ul>{items}</ul>"
        reasons = "".join(map(_reason, asked["options"]))
        answer = f"{reasons}<p>{asked['explanation']}</p>"
        if said:
            answer = (
                f"<p>You said: <b>{said}</b></p>{DETAILS.format(' open', 'The answer', answer)}"
            )
            answer += NOTE.format("again")
        elif asked["ask"]:
            answer = DETAILS.format("", "Show the answer", answer) + NOTE.format("here")
        return f'<div class="attnlab-predict-stored" style="{FRAME}">{question}{answer}</div>'


def _reason(option: dict) -> str:
    mark = "✓" if option["correct"] else "✗"
    told = option["correct"] or option["feedback"]
    reason = f"{mark} <b>{option['text']}</b> {option['feedback']}"
    return f'<p class="reason">{reason}</p>' if told else ""


def _formatted_texts(question: dict) -> dict[str, object]:
    """Return a question for the browser: all texts as HTML, what may be left out as empty."""
    options = [
        {
            "text": _formatted(option["text"]),
            "feedback": _formatted(option.get("feedback", "")),
            "correct": option.get("correct", False),
        }
        for option in question["options"]
    ]
    texts = {name: _formatted(question[name]) for name in ("question", "explanation")}
    return {**texts, "options": options}


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


def page_parts() -> tuple[str, str]:
    """Return script and style of predictions for a page: ``askHere(model, element)`` shows one."""
    script = browser.script(SCRIPT).replace("export default", "return")
    ask = f"const askHere = (() => {{\n{script}}})().render;"
    return ask, browser.read(STYLE)
