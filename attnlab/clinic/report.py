"""What ``diagnose`` returns: a report of findings, as text and as HTML without a script."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from attnlab import palette
from attnlab.clinic.causes import CAUSES
from attnlab.clinic.evidence import Evidence

CONVENTIONS = (  # which some mean so, as they do any scale
    "not-normalised scores-not-dot-products wrong-source mask-finite detached square-only "
    "weights-differ no-effect"
).split()
CSS = (
    f"<style>\n.attnlab-report {{ {palette.css()} }}\n"
    f"{Path(__file__).with_name('report.css').read_text(encoding='utf-8')}</style>"
)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong; ``str(finding)`` is a sentence about it.

    Attributes
    ----------
    name : str
        Short and stable, such as ``"softmax-axis"``.
    sentence : str
        What is wrong, with the numbers that were measured.
    evidence : Evidence or None
        What shows it.
    consequences : tuple of Finding
        Other findings that follow from this one.
    advice : str
        How to mend it in this target, where more is known than the usual repair.
    """

    name: str
    sentence: str
    evidence: Evidence | None = None
    consequences: tuple[Finding, ...] = ()
    advice: str = ""

    def __post_init__(self) -> None:
        if self.name not in CAUSES:
            raise ValueError(f"{self.name!r} is not a known cause.")

    @property
    def fix(self) -> str:
        """How to mend it."""
        return self.advice or CAUSES[self.name].fix

    @property
    def if_meant(self) -> str:
        """What to pass where it is meant so; empty for what nobody means."""
        own = self.name.startswith("scale") or self.name in CONVENTIONS
        return f' If this is intended, pass meant={{"{self.name}"}}.' if own else ""

    @property
    def lesson(self) -> str:
        """File name of the lesson that explains it, without its ending."""
        return CAUSES[self.name].lesson

    @property
    def lesson_title(self) -> str:
        """How a text names that lesson, such as ``"lesson 3"``."""
        return f"lesson {int(self.lesson[:2])}"

    def __str__(self) -> str:
        return self.sentence


class Said(str):
    """A sentence of a report with the key of what it is about, such as ``"causal"``.

    Programs read the key; the words are for people and may change.
    """

    key: str

    def __new__(cls, key: str, sentence: str) -> Said:
        """Return a sentence with its key."""
        said = super().__new__(cls, sentence)
        said.key = key
        return said


@dataclass(frozen=True)
class Gap:
    """What could not be examined.

    Attributes
    ----------
    why : str
        One sentence: what stood in the way.
    call : str
        The call that was made and did not work, such as ``"layer(x, mask=None)"``; may be empty.
    remedy : str
        What the caller can do about it, such as ``"pass call=..."``; may be empty.
    name : str
        Of a question that nothing decides, the name that the finding would have, such as
        ``"mask-inverted"``; may be empty.
    """

    why: str
    call: str = ""
    remedy: str = ""
    name: str = ""

    def __str__(self) -> str:
        called = f" The call was {self.call}." if self.call else ""
        return f"{self.why}{called}{f' {self.remedy}' if self.remedy else ''}"


@dataclass(frozen=True)
class Report:
    """The result of ``diagnose``.

    Attributes
    ----------
    target : str
        Name of what was examined.
    kind : str
        As what it was examined, such as ``"attention function"``.
    findings : tuple of Finding
        What is wrong, the cause first.
    notes : tuple of Said
        Facts that are good to know and not bugs: sentences, each with a ``key``.
    properties : tuple of Said
        What was checked and is correct: sentences, each with a ``key``.
    gap : Gap or None
        What could not be examined, and what would help.
    sizes : str
        The shapes with which it was called; a function was called at two other sizes as well.
    untried : tuple of str
        Its arguments that no call was given.
    """

    target: str
    kind: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[Said, ...] = ()
    properties: tuple[Said, ...] = ()
    gap: Gap | None = None
    sizes: str = ""
    untried: tuple[str, ...] = ()

    @property
    def ok(self) -> bool | None:
        """Whether it is correct as far as it was examined; None if something was not examined."""
        if self.findings:
            return False
        return None if self.gap or not self.properties else True

    @property
    def summary(self) -> str:
        """The first finding, what could not be examined, or what was checked."""
        if self.findings:
            return str(self.findings[0])
        if self.ok is None:
            return str(self.gap or "Nothing could be checked.")
        return f"Nothing wrong found: {len(self.properties)} properties checked, and all hold."

    def __repr__(self) -> str:
        lines = [f"{self.target} ({self.kind}): {self._count()}{self._tried()}"]
        for number, finding in enumerate(self.findings, 1):
            lines += ["", f"{number}. {finding}  [{finding.name}]"]
            lines += [f"   {line}".rstrip() for line in str(finding.evidence or "").splitlines()]
            lines += [f"   Fix: {finding.fix}{finding.if_meant}"]
            lines += [f"   See {finding.lesson_title}."]
            lines += [f"   Follows from it: {other}" for other in finding.consequences]
        if self.gap:
            lines += ["", f"Not examined: {self.gap.why}"]
            lines += [f"   Call: {self.gap.call}"] if self.gap.call else []
            lines += [f"   What helps: {self.gap.remedy}"] if self.gap.remedy else []
        for title, said in self._lists():
            lines += ["", f"{title}:", *(f"- {sentence}" for sentence in said)] if said else []
        return "\n".join(lines)

    def _lists(self) -> tuple[tuple[str, tuple[Said, ...]], ...]:
        return ("Good to know", self.notes), ("Checked and found to hold", self.properties)

    def _tried(self) -> str:
        """Return with which sizes it was called, and which arguments were never given."""
        left = f" Not tried: {', '.join(self.untried)}." if self.untried else ""
        return (f", with {self.sizes}." if self.sizes else "") + left

    def _count(self) -> str:
        if self.ok:
            return "nothing wrong found"
        if self.ok is None:
            return "not fully examined" if self.properties else "not examined"
        return "1 finding" if len(self.findings) == 1 else f"{len(self.findings)} findings"

    def _repr_html_(self) -> str:
        parts = [self._headline()]
        if tried := self._tried().removeprefix(", with "):
            parts.append(f"<p>Called with {escape(tried)}</p>" if self.sizes else f"<p>{tried}</p>")
        for number, one in enumerate(self.findings, 1):
            named = f"<p><b>{number}. {escape(one.name)}:</b> {escape(str(one))}</p>"
            shown = _first(str(one)) if number == 1 else named
            parts.append((FINDING_BLOCK if number > 1 else "{}").format(shown + _details(one)))
        helped = _helped(self.gap) if self.gap else ""
        if self.findings and self.gap:
            words = f"<p><b>Not examined:</b> {escape(self.gap.why)}</p>{helped}"
            parts.append(FINDING_BLOCK.format(words))
        elif not self.findings:
            parts.append(_first(self.gap.why if self.gap else self.summary) + helped)
        parts += [_folded(*one, opened=not self.findings) for one in self._lists()]
        state = {True: " attnlab-ok", None: " attnlab-open", False: ""}[self.ok]
        label, body = escape(f"Report on {self.target}"), "\n".join(filter(None, parts))
        return (
            f'{CSS}\n<div class="attnlab-report{state}" role="group" aria-label="{label}">\n'
            f"{body}\n</div>"
        )

    def _headline(self) -> str:
        """Return the name of the target and of the first finding, and how many more there are."""
        if self.ok:  # the sentence below says so in words
            mark, state = "&#10003;", ""
        elif self.ok is None:
            mark, state = "?", f": {self._count()}"
        else:
            mark, state = "&#10007;", f": {escape(self.findings[0].name)}"
            more = len(self.findings) - 1
            state += f" and {more} other finding{'s' if more > 1 else ''}" if more else ""
        return (
            f'<p class="attnlab-title"><span aria-hidden="true">{mark}</span> '
            f"{escape(self.target)}{state} "
            f'<span class="attnlab-kind">({escape(self.kind)})</span></p>'
        )


FINDING_BLOCK = '<div class="attnlab-finding">{}</div>'


def _first(sentence: str) -> str:
    """Return the sentence that is read first."""
    return f'<p class="attnlab-sentence">{escape(sentence)}</p>'


def _details(finding: Finding) -> str:
    """Return what follows the sentence of a finding: evidence, fix, lesson, consequences."""
    evidence = finding.evidence._repr_html_() if finding.evidence is not None else ""
    link = escape(f"{finding.lesson}.ipynb")
    consequences = tuple(f"{one.name}: {one}" for one in finding.consequences)
    return (
        f"{evidence}<p>Fix: <code>{escape(finding.fix)}</code>{escape(finding.if_meant)}</p>"
        f'<p>See <a href="{link}">{finding.lesson_title}</a>.</p>'
        f"{_folded('Follows from it', consequences, opened=False)}"
    )


def _helped(gap: Gap) -> str:
    """Return the call that was made and what would help."""
    call = f"<p>Call: <code>{escape(gap.call)}</code></p>" if gap.call else ""
    return call + (f"<p>What helps: {escape(gap.remedy)}</p>" if gap.remedy else "")


def _folded(title: str, sentences: Iterable[str], *, opened: bool) -> str:
    items = [f"<li>{escape(sentence)}</li>" for sentence in sentences]
    if not items:
        return ""
    state = " open" if opened else ""
    summary = f"<summary>{escape(title)} ({len(items)})</summary>"
    return f"<details{state}>{summary}<ul>{''.join(items)}</ul></details>"
