"""The cell magic ``%%answer``: the output of a cell stays folded until the learner has predicted.

The fold is part of the output, so that it also holds where a notebook is only shown: after it is
saved, on GitHub, on paper. It is open from the start if the prediction was answered in this kernel.
"""

from __future__ import annotations

import ast
import base64
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from attnlab.display import texts
from attnlab.display.ipython import running_shell
from attnlab.display.stored import BUNDLE, Stored

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

SUMMARY = "What happens? Predict first, then open."
ANSWERED = "The answer"  # as predict.mjs calls it
OPENING = (
    '<details class="attnlab-answer {key}"{state}>'
    '<summary style="cursor:pointer;font-size:15px;font-weight:600">{summary}</summary>'
)
CLOSING = "</details>"
PRE = '<pre style="white-space:pre-wrap">{}</pre>'

committed: dict[str, object] = {}  #: what was predicted in this kernel, by key


def register() -> None:
    """Make ``%%answer`` known to the notebook that runs; elsewhere do nothing."""
    if shell := running_shell():
        shell.register_magic_function(answer, magic_kind="cell")


def answer(line: str, cell: str) -> None:
    """Run a cell and show all that it prints and displays inside one fold.

    The code runs in the notebook's own namespace, and an error is that of the cell. What a cell
    shows is kept as text, HTML or picture: a widget is shown as it is stored.

    Parameters
    ----------
    line : str
        The key of the prediction, such as ``02/variance-of-a-product``.
    cell : str
        The code.
    """
    from IPython.display import display
    from IPython.utils.capture import capture_output

    key = line.strip()
    texts.question_of(key)  # a wrong key is an error of this cell
    try:
        with capture_output() as captured:
            try:
                _run(cell, running_shell())
            finally:
                _flush_pictures()
    finally:
        printed = [captured.stdout, captured.stderr]
        shown = [PRE.format(escape(text)) for text in printed if text]
        shown += [_html(output.data) for output in captured.outputs]
        facts = tuple(out.data[BUNDLE] for out in captured.outputs if BUNDLE in out.data)
        display(Folded("\n".join(shown), facts, is_open=key in committed, key=key))


@dataclass(frozen=True, repr=False)
class Folded(Stored):
    """An output inside a ``<details>``, and the facts of what it shows."""

    html: str
    shown: tuple[dict[str, object], ...]
    is_open: bool
    key: str

    def __repr__(self) -> str:
        return SUMMARY

    def facts(self) -> dict[str, object]:
        """Return the key of the prediction and what is folded."""
        return {"kind": "answer", "key": self.key, "shown": list(self.shown)}

    def to_html(self) -> str:
        """Return the output, folded; scripts find it by the key among its classes."""
        return fold(self.key, self.html, is_open=self.is_open)


def fold(key: str, html: str, *, is_open: bool = False) -> str:
    """Return HTML inside a fold that opens once the prediction is answered."""
    state, summary = (" open", ANSWERED) if is_open else ("", SUMMARY)
    return OPENING.format(key=escape(key), state=state, summary=summary) + html + CLOSING


def unfold(key: str, page: str) -> str:
    """Return the HTML inside a closed fold."""
    return page.removeprefix(fold(key, "").removesuffix(CLOSING)).removesuffix(CLOSING)


def _run(cell: str, shell: InteractiveShell) -> None:
    """Run code as a cell does: the value of a last line that is an expression is shown."""
    source = shell.transform_cell(cell)
    name = shell.compile.cache(source, shell.execution_count, raw_code=cell)
    body = ast.parse(source, name).body
    last = [body.pop()] if body and isinstance(body[-1], ast.Expr) else []
    exec(compile(ast.Module(body, []), name, "exec"), shell.user_ns)
    exec(compile(ast.Interactive(last), name, "single"), shell.user_ns)


def _flush_pictures() -> None:
    """Show open figures of pyplot now: after the cell they would stand outside the fold."""
    if "matplotlib.pyplot" in sys.modules and "matplotlib_inline.backend_inline" in sys.modules:
        sys.modules["matplotlib_inline.backend_inline"].flush_figures()


def _html(data: Mapping[str, object]) -> str:
    """Return the richest form of an output that HTML can hold."""
    if "text/html" in data:
        return data["text/html"]
    if "image/png" in data:
        png = data["image/png"]
        text = base64.b64encode(png).decode() if isinstance(png, bytes) else png.replace("\n", "")
        return f'<img alt="" style="max-width:100%" src="data:image/png;base64,{text}">'
    return PRE.format(escape(str(data.get("text/plain", ""))))
