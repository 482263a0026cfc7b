"""What the clinic checks of an attention function, as a list with ticks and crosses."""

from __future__ import annotations

from typing import NamedTuple

from attnlab.clinic import Finding, Report

MARKS = {"yes": "✓", "no": "✗", "note": "○", "open": "–"}
SPOKEN = {"yes": "holds", "no": "fails", "note": "a choice", "open": "could not be checked"}


class Property(NamedTuple):
    """One line of the list, and how a report speaks of it."""

    words: str  # what ought to hold
    held: tuple[str, ...]  # beginnings of the sentences by which a report says that it holds
    # names, or their beginnings with a star, of the findings by which it fails
    findings: tuple[str, ...]
    always: bool = True  # whether it is listed also if the report does not speak of it


EMPTY_ROW = "A row with no allowed key gives "
PROPERTIES = (
    Property(
        "each row of weights sums to 1",
        ("without a mask, the weights",),
        ("softmax-axis", "not-normalised", "hard", "nan", "underflow"),
    ),
    Property(
        "scores are dot products q · k",
        ("scores are dot products",),
        ("scores-not-dot-products", "query-key-swapped"),
    ),
    Property("scores are divided by √d_k", ("the scores are divided",), ("scale-*",)),
    Property(
        "each output row averages the values",
        ("the output averages",),
        ("key-value-swapped", "wrong-source", "not-attention", "position-mixing"),
    ),
    Property(
        "a blocked key gets no weight and takes none",
        ("a blocked key", "an additive mask"),
        ("mask-*", "padding-leak"),
    ),
    Property("a row without any key gives 0", (f"{EMPTY_ROW}0.",), ("blocked-row",)),
    Property("no query sees a later key", ("no query sees",), ("causal-*",), always=False),
    Property(
        "sequences and heads stay apart",
        ("one sequence", "one head"),
        ("batch-mixing", "head-mixing", "transposed-batch", "attends-over-heads"),
    ),
    Property("gradients reach query, key and value", ("gradients reach",), ("detached",)),
    Property("the arguments are left as they were", ("the arguments",), ("modifies-input",)),
    Property("double precision stays double", ("float64 is",), ("dtype",)),
    Property(
        "the returned weights made the output",
        ("the returned weights",),
        ("weights-differ",),
        always=False,
    ),
    Property(
        "it runs at every size, and always the same",
        ("transposed views", "no tensor is made"),
        (
            *("not-callable", "not-done", "raises", "wrong-type", "wrong-shape", "square-only"),
            *("hangs", "slow", "prints", "random", "remembers", "contiguity", "device"),
        ),
    ),
)
OF_MASKS = ("a blocked key gets no weight and takes none", "a row without any key gives 0")
FOLLOWS = "Follows from another cross."


class Check(NamedTuple):
    """One line of the list: ``mark`` is a key of MARKS, ``finding`` and ``lesson`` may be empty."""

    mark: str
    words: str
    finding: str = ""
    lesson: str = ""

    def told(self) -> str:
        """Return what stands under the line."""
        return f"{self.finding} See {self.lesson}." if self.lesson else self.finding


def checklist(report: Report, *, takes_mask: bool) -> list[Check]:
    """Return the lines of a report on an attention function.

    Parameters
    ----------
    report : Report
        What ``diagnose`` said.
    takes_mask : bool
        Whether the function has an argument for a mask; without, masks are not listed.

    Returns
    -------
    list of Check
        One for each property, and one for each finding that belongs to none.
    """
    checks, told = [], set()
    for one in PROPERTIES:
        check = _check(one, report)
        told |= {finding.name for finding in _causes(report) if _names(one, finding)}
        silent = check.mark == "open" and not one.always
        if not silent and (takes_mask or one.words not in OF_MASKS or check.mark == "no"):
            checks.append(check)
    rest = [finding for finding in report.findings if finding.name not in told]
    return checks + [_cross(finding.name.replace("-", " "), finding) for finding in rest]


def _check(one: Property, report: Report) -> Check:
    for finding in report.findings:
        if _names(one, finding):
            return _cross(one.words, finding)
    if any(_names(one, finding) for finding in _causes(report)):
        return Check("no", one.words, FOLLOWS)
    spoken = [*report.properties, *report.notes]
    if any(sentence.startswith(one.held) for sentence in spoken):
        return Check("yes", one.words)
    note = next((text for text in report.notes if text.startswith(EMPTY_ROW)), "")
    if note and one.held[0].startswith(EMPTY_ROW):
        return Check("note", one.words, f"{note} Libraries differ here.", "lesson 3")
    return Check("open", one.words)


def _causes(report: Report) -> list[Finding]:
    """Return all findings, with those that follow from others."""
    return [one for cause in report.findings for one in (cause, *cause.consequences)]


def _names(one: Property, finding: Finding) -> bool:
    """Return whether a finding says that a property fails."""
    return any(
        finding.name.startswith(name[:-1]) if name.endswith("*") else finding.name == name
        for name in one.findings
    )


def _cross(words: str, finding: Finding) -> Check:
    return Check("no", words, finding.sentence, f"lesson {int(finding.lesson[:2])}")


def count_checks(checks: list[Check]) -> str:
    """Return how many of the lines hold, fail and are open; words between two stars are bold."""
    count = {mark: sum(check.mark == mark for check in checks) for mark in MARKS}
    parts = [f"**{count['yes']} of {len(checks)} properties hold**"]
    if count["no"]:
        parts.append(f"**{count['no']} fail{'s' if count['no'] == 1 else ''}**")
    if count["note"]:
        parts.append(f"{count['note']} is a choice")
    if count["open"]:
        parts.append(f"{count['open']} could not be checked")
    return ", ".join(parts)
