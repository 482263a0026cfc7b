"""What a probe saw, as facts, and where ``diagnose`` collects them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from attnlab.clinic.causes import EXPLAINS, UNDONE_BY
from attnlab.clinic.evidence import Evidence
from attnlab.clinic.report import Finding, Gap, Said

FINDING, NOTE, PROPERTY, QUESTION, GAP = "finding", "note", "property", "question", "gap"
TRIED, CALLED, LOST = "tried", "called", "lost"


class Fact(NamedTuple):
    """One thing that a probe saw."""

    kind: str  # one of the constants above
    said: Finding | Said | Gap | str | tuple  # of ``TRIED`` an argument, of ``LOST`` a key


def wrong(name: str, sentence: str, evidence: Evidence | None = None, *, advice: str = "") -> Fact:
    """Return what is wrong."""
    return Fact(FINDING, Finding(name, sentence, evidence, advice=advice))


def note(key: str, sentence: str) -> Fact:
    """Return something that is good to know but not a bug."""
    return Fact(NOTE, Said(key, sentence))


def held(key: str, sentence: str) -> Fact:
    """Return a property that was checked and holds."""
    return Fact(PROPERTY, Said(key, sentence))


def unexamined(why: str, *, call: str = "", remedy: str = "", name: str = "") -> Fact:
    """Return what could not be examined."""
    return Fact(GAP, Gap(why, call, remedy, name))


def ask(name: str, why: str, remedy: str = "", *, call: str = "") -> Fact:
    """Return a question that nothing decides, with the name that the finding would have."""
    meant = f'If it is meant, pass meant={{"{name}"}}.'
    return Fact(QUESTION, Gap(why, call, f"{remedy} {meant}".lstrip(), name))


def lost(key: str) -> Fact:
    """Return that a property does not hold in every case, though it was seen to hold in one."""
    return Fact(LOST, key)


def called(sizes: str, untried: tuple[str, ...]) -> Fact:
    """Return with which sizes it was called, and the arguments that no call was given."""
    return Fact(CALLED, (sizes, untried))


def tried(name: str) -> Fact:
    """Return that an argument was given in some call."""
    return Fact(TRIED, name)


@dataclass
class Results:
    """Facts in the order in which they were seen; only ``add`` changes them.

    What is ``meant`` is a note and no finding; ``sizes`` and ``tried`` say what was looked at.
    """

    meant: frozenset[str] = frozenset()
    findings: list[Finding] = field(default_factory=list)
    notes: list[Said] = field(default_factory=list)
    properties: list[Said] = field(default_factory=list)
    gap: Gap | None = None
    sizes: str = ""
    tried: set[str] = field(default_factory=set)
    untried: tuple[str, ...] = ()

    def add(self, fact: Fact) -> None:
        """Add a fact, once for each name or sentence; gaps behind the first are notes."""
        kind, said = fact
        if kind in (FINDING, QUESTION) and said.name in self.meant:
            why = said.sentence if kind == FINDING else said.why
            kind, said = NOTE, Said("meant", f"Meant so: {why} [{said.name}]")
        if kind in (QUESTION, GAP) and self.gap is not None:
            kind, said = NOTE, Said("unexamined", said.why)
            if said == self.gap.why:
                return
        if kind == FINDING and not self.has(said.name):
            self.findings.append(said)
        elif kind == NOTE and said not in self.notes:
            self.notes.append(said)
        elif kind == PROPERTY and said not in self.properties:
            self.properties.append(said)
        elif kind in (QUESTION, GAP):
            self.gap = said
        elif kind == LOST:
            self.properties = [held for held in self.properties if held.key != said]
        elif kind == TRIED:
            self.tried.add(said)
        elif kind == CALLED:
            self.sizes, self.untried = said

    def has(self, *names: str) -> bool:
        """Return whether one of these findings was reported."""
        return any(finding.name in names for finding in self.findings)

    def holds(self, *keys: str) -> bool:
        """Return whether a property with one of these keys was reported."""
        return any(said.key in keys for said in self.properties)

    def standing(self) -> tuple[Said, ...]:
        """Return the properties that no finding and no question contradicts."""
        found = {said.name for said in (*self.findings, self.gap) if said}
        return tuple(
            said for said in self.properties if found.isdisjoint(UNDONE_BY.get(said.key, ()))
        )

    def arranged(self) -> tuple[Finding, ...]:
        """Return the findings, each with the later ones folded under it that it explains."""
        left, causes = list(self.findings), []
        while left:
            cause = left.pop(0)
            explained = EXPLAINS.get(cause.name, ())
            folded = [later for later in left if "*" in explained or later.name in explained]
            left = [later for later in left if later not in folded]
            causes.append(replace(cause, consequences=tuple(folded)))
        return tuple(causes)
