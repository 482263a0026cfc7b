"""A question that the learner answers before the answer is shown."""

from __future__ import annotations

import html
import math
import re
import time
from collections.abc import Sequence

from attnlab._checks import lessons_extra
from attnlab.display import Storable
from attnlab.palette import css

with lessons_extra():
    import ipywidgets as widgets

CSS = """<style>
.attnlab-predict { PALETTE; max-width: 780px; margin: 4px 0; padding: 4px 0 6px 16px;
  overflow: visible;
  border-left: 5px solid var(--jp-brand-color1, var(--scaled)); }
.attnlab-predict .widget-html, .attnlab-predict .widget-htmlmath,
.attnlab-predict .widget-html-content, .attnlab-predict .widget-htmlmath-content {
  height: auto; line-height: 1.45; overflow: visible; white-space: normal; flex: 1 1 auto; }
.attnlab-predict p { font-size: 17px; line-height: 1.45; margin: 2px 0 6px; max-width: 44em;
  color: var(--jp-content-font-color1, var(--ink)); }
.attnlab-predict p.attnlab-predict-kind { font-size: 14px; font-weight: 700; margin: 0; }
.attnlab-predict code { font-size: 0.92em; white-space: nowrap; padding: 1px 4px;
  border-radius: 3px; color: inherit; background: var(--jp-layout-color2, var(--soft)); }
.attnlab-predict .widget-hbox { overflow: visible; gap: 8px; margin: 2px; align-items: center; }
.attnlab-predict .jupyter-button { width: auto; height: auto; min-height: 38px; margin: 0;
  padding: 5px 16px; font-size: 16px; line-height: 1.35; white-space: normal; text-align: left;
  border: 1px solid var(--jp-ui-font-color2, var(--mute)); border-radius: 4px; box-shadow: none;
  color: var(--jp-ui-font-color1, var(--ink)); background: var(--jp-layout-color1, var(--paper)); }
.attnlab-predict .jupyter-button:hover:enabled { background: var(--jp-layout-color2, var(--soft));
  box-shadow: none; }
.attnlab-predict .jupyter-button:focus-visible, .attnlab-predict input:focus-visible {
  outline: 3px solid var(--jp-brand-color1, var(--scaled)); outline-offset: 2px; }
.attnlab-predict .jupyter-button:disabled { opacity: 1; cursor: default;
  color: var(--jp-ui-font-color2, var(--mute)); border-style: dashed; }
.attnlab-predict .jupyter-button.attnlab-predict-said,
.attnlab-predict .jupyter-button.attnlab-predict-said:hover:enabled { font-weight: 700;
  cursor: default; color: var(--on); border: 1px solid var(--scaled); background: var(--scaled); }
.attnlab-predict .widget-text { width: auto; height: auto; margin: 0; align-items: center; }
.attnlab-predict .widget-label { width: auto; height: auto; font-size: 16px; }
.attnlab-predict .widget-text input[type="text"] { width: 130px; flex: none; height: 38px;
  font-size: 16px; border: 1px solid var(--jp-ui-font-color2, var(--mute)); border-radius: 4px;
  color: var(--jp-ui-font-color1, var(--ink)); background: var(--jp-layout-color1, var(--paper)); }
.attnlab-predict .widget-text input:disabled { opacity: 1; font-weight: 700; }
.attnlab-predict [role="status"]:not(:empty) { margin: 8px 0 2px; padding: 8px 14px 4px;
  border-radius: 4px; background: var(--jp-layout-color2, var(--soft)); }
.attnlab-predict [role="status"] code { background: var(--jp-layout-color1, var(--paper)); }
</style>""".replace("PALETTE", css())

FORMATTED = re.compile(r"(`[^`]+`|\$[^$]+\$)")
SIMPLE_TAGS = re.compile(r"&lt;(/?(?:b|i|em|strong|code|sub|sup))&gt;")
NO_NUMBER = "Write a number, such as 0.25."
ENTER_LASTS = 1  # seconds: the browser reports a pressed Enter first, then what the box holds


def predict(
    question: str,
    *,
    options: Sequence[str] | None = None,
    number: str | None = None,
    reveal: str,
    ask: bool = True,
) -> Prediction:
    """Return a question whose answer is shown once the learner has answered.

    No answer is marked right or wrong: the learner reads both and compares.

    Parameters
    ----------
    question : str
        One or two sentences. It and ``reveal`` may hold `` `code` ``, ``**bold**``, ``$formulas$``
        and tags such as ``<sup>``; everything else is shown as it is written.
    options : sequence of str, optional
        Two to five short answers, as plain text: buttons.
    number : str, optional
        What to estimate, with its unit: a box for a number. Either this or ``options``.
    reveal : str
        What happens and why; one to four sentences.
    ask : bool
        False shows question and answer at once, for a teacher.

    Returns
    -------
    Prediction
        ``.answer`` holds what was said.

    Raises
    ------
    TypeError
        If a text is not a string, or ``options`` is not a sequence of strings.
    ValueError
        If neither or both of ``options`` and ``number`` are given, there are not two to five
        options, two are the same, or a text is empty.

    See Also
    --------
    attnlab.live.live : controls around a drawing.

    Examples
    --------
    >>> from attnlab.exercises import predict
    >>> predict("Which is larger?", options=["e", "pi"], reveal="pi, by about 0.42.")
    predict('Which is larger?', options=['e', 'pi'])
    """
    return Prediction(question, options, number, reveal, ask)


class Prediction(Storable, widgets.VBox):
    """A question, buttons or a box, and an answer that is not there yet; made by ``predict``.

    Attributes
    ----------
    answer : str, float or None
        The learner's answer: an option, or a number; None before.
    buttons : tuple of ipywidgets.Button
        One per option, or the one that commits a number.
    box : ipywidgets.Text or None
        The box for a number.
    outcome : ipywidgets.HTML
        The learner's answer and the correct one; empty before.
    """

    def __init__(
        self,
        question: str,
        options: Sequence[str] | None,
        number: str | None,
        reveal: str,
        ask: bool,
    ) -> None:
        _check(question, options, number, reveal)
        self.question, self.reveal, self.ask = question, reveal, ask
        self.options = None if options is None else tuple(options)
        self.number = number
        self.answer: str | float | None = None
        self.box: widgets.Text | None = None
        self.buttons: tuple[widgets.Button, ...] = ()
        self._entered = -math.inf
        kind = widgets.HTMLMath if "$" in question + reveal else widgets.HTML
        asked = kind(
            f'{CSS}<p class="attnlab-predict-kind">Predict</p><p>{_formatted(question)}</p>'
        )
        self.outcome = kind(_status())
        super().__init__([asked, self._controls(), self.outcome] if ask else [asked, self.outcome])
        self.add_class("attnlab-predict")
        if not ask:
            self.outcome.value = _status(_formatted(reveal))

    def _controls(self) -> widgets.HBox:
        about = _shortened(self.question)
        names = ["Commit"] if self.options is None else self.options
        self.buttons = tuple(widgets.Button(description=name, tooltip=about) for name in names)
        row: list[widgets.DOMWidget] = [*self.buttons]
        for button in self.buttons:
            button.on_click(self._on_click)
        if self.number is not None:
            self.box = widgets.Text(
                description=self.number,
                continuous_update=False,
                style={"description_width": "initial"},
            )
            self.box.on_msg(self._on_enter)
            self.box.observe(self._on_written, "value")
            row.insert(0, self.box)
        return widgets.HBox(row, layout={"flex_flow": "row wrap"})

    def _on_click(self, button: widgets.Button) -> None:
        if self.answer is not None:
            return
        if self.box is None:
            self._commit(button, button.description)
        else:
            self._commit_number()

    def _on_enter(self, _box: widgets.Text, content: dict, _buffers: object) -> None:
        """Note that Enter was pressed: the browser sends the text right after."""
        if content.get("event") == "submit":
            self._entered = time.monotonic()

    def _on_written(self, _change: object) -> None:
        if self.answer is None and time.monotonic() - self._entered < ENTER_LASTS:
            self._commit_number()

    def _commit_number(self) -> None:
        written = self.box.value.strip()
        value = _read_number(written)
        if value is None:
            self.outcome.value = _status(NO_NUMBER)
            return
        self._commit(self.buttons[0], value, written)
        self.buttons[0].focus()  # a disabled box loses the keyboard's focus
        self.box.disabled = True

    def _commit(self, chosen: widgets.Button, answer: str | float, written: str = "") -> None:
        self.answer = answer
        for button in self.buttons:
            button.disabled = button is not chosen  # the chosen one keeps the keyboard's focus
        chosen.description = f"✓ {answer if self.options else 'Committed'}"
        chosen.add_class("attnlab-predict-said")
        said = html.escape(written or str(answer), quote=False)
        self.outcome.value = _status(f"You said <b>{said}</b>.", _formatted(self.reveal))

    def __repr__(self) -> str:
        given = f"options={[*self.options]!r}" if self.options else f"number={self.number!r}"
        return f"predict({_shortened(self.question)!r}, {given})"

    def to_html(self) -> str:
        """Return the question, and the answer folded, for pages without Python.

        Returns
        -------
        str
            HTML that needs no script.
        """
        asked = f"<p><b>Predict.</b> {_formatted(self.question)}</p>"
        answer = f"<p>{_formatted(self.reveal)}</p>"
        if not self.ask:
            return f'<div class="attnlab-predict-stored">{asked}{answer}</div>'
        if self.options:
            items = "".join(f"<li>{html.escape(option)}</li>" for option in self.options)
            asked += f"<ul>{items}</ul>"
        else:
            asked += f"<p>Your number: {html.escape(self.number)}.</p>"
        return (
            f'<div class="attnlab-predict-stored">{asked}'
            f"<details><summary>Show the answer</summary>{answer}</details>"
            f'<p style="font-size:14px">Run this cell to answer here.</p></div>'
        )


def _check(question: str, options: Sequence[str] | None, number: str | None, reveal: str) -> None:
    if (options is None) == (number is None):
        what = "neither" if options is None else "both"
        raise ValueError(
            f"predict needs either options or number, got {what}; e.g. options=['yes', 'no']."
        )
    texts = {"question": question, "reveal": reveal}
    if options is None:
        texts["number"] = number
    elif isinstance(options, str) or not isinstance(options, Sequence):
        raise TypeError(f"options must be a list of strings, got {type(options).__name__}.")
    else:
        texts |= {f"options[{index}]": option for index, option in enumerate(options)}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a string, got {type(text).__name__}.")
        if not text.strip():
            raise ValueError(f"{name} must not be empty, got {text!r}.")
    if options is None:
        return
    if not 2 <= len(options) <= 5:
        raise ValueError(f"options must be 2 to 5 answers, got {len(options)}.")
    if twice := [option for option in options if options.count(option) > 1]:
        raise ValueError(f"options must differ, got {twice[0]!r} {len(twice)} times.")


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


def _status(*paragraphs: str) -> str:
    """Return paragraphs that a screen reader announces when they appear."""
    return f'<div role="status">{"".join(f"<p>{text}</p>" for text in paragraphs)}</div>'


def _shortened(text: str, width: int = 60) -> str:
    return text if len(text) <= width else f"{text[: width - 3].rstrip()}..."


def _read_number(text: str) -> float | None:
    """Return the number that a text stands for, also 1/3; None if it is not one."""
    above, slash, below = text.partition("/")
    try:
        value = float(above) / (float(below) if slash else 1)
    except (ValueError, ZeroDivisionError):
        return None
    return value if math.isfinite(value) else None
