"""What a check returns: one sentence about an answer, and the numbers that show it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

from attnlab.clinic import Evidence, Report
from attnlab.palette import BLUE, EDGE, ORANGE, ROLES

# Words and the kind of line say which it is; colour alone never does.
LOOKS = {
    "Not done yet": f"6px dotted {EDGE}",
    "Not checked": f"6px dotted {ORANGE}",
    "Not yet correct": f"6px dashed {ORANGE}",
    "Correct": f"6px solid {BLUE}",
}
BOX = (
    "box-sizing:border-box;max-width:860px;margin:8px 0;padding:6px 16px;line-height:1.45;"
    f"border:1px solid {EDGE};border-left:{{line}};font-size:16px;"
    f"background:var(--jp-layout-color0, {ROLES['paper'].light});"
    f"color:var(--jp-content-font-color0, {ROLES['ink'].light})"
)
TEXT = "margin:4px 0;max-width:48em"

latest: dict[str, Verdict] = {}  #: what each check said last in this kernel, by its name


@dataclass(frozen=True)
class Verdict:
    """What a check says about an answer; made by the ``check_`` functions.

    Attributes
    ----------
    name : str
        The name of the answer.
    done : bool
        Whether there is an answer at all.
    ok : bool or None
        Whether it is correct; None if it was cut short, which says nothing about it.
    message : str
        What is wrong, or what was verified.
    evidence : Evidence or None
        A small table of numbers that shows it.
    remarks : tuple of str
        What is good to know about a correct answer.
    report : Report or None
        Everything that the clinic found, if it was asked.
    """

    name: str
    done: bool
    ok: bool | None
    message: str
    evidence: Evidence | None = None
    remarks: tuple[str, ...] = ()
    report: Report | None = None

    @property
    def headline(self) -> str:
        """The verdict in one to three words."""
        if not self.done:
            return "Not done yet"
        return {True: "Correct", False: "Not yet correct", None: "Not checked"}[self.ok]

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.headline.lower()}. {self.message}"]
        if self.evidence is not None:
            lines += ["", str(self.evidence)]
        if self.remarks:
            lines += ["", *(f"Good to know: {remark}" for remark in self.remarks)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<b>{self.headline}</b> · <code>{escape(self.name)}</code>"]
        parts.append(_html_of(self.message))
        parts += [f"<b>Good to know.</b> {_html_of(remark)}" for remark in self.remarks]
        told = [f'<p style="{TEXT}">{part}</p>' for part in parts]
        if self.evidence is not None:
            told.insert(2, self.evidence._repr_html_())
        return f'<div style="{BOX.format(line=LOOKS[self.headline])}">{"".join(told)}</div>'


def _html_of(text: str) -> str:
    """Return a text as HTML; what stands between two backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
