"""What one examination reports, and what its caller may say beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from attnlab.clinic._causes import EXPLAINS
from attnlab.clinic._report import Evidence, Finding, Gap, Said


@dataclass(frozen=True)
class Options:
    """The options of ``diagnose``; its docstring explains each."""

    mask: str | None = None
    causal: bool | None = None
    batch_first: bool | None = None
    num_heads: int | None = None
    embed_dim: int | None = None
    call: Callable | None = None
    self_attention: bool = False
    time_limit: float = 1.0
    meant: frozenset[str] = frozenset()


@dataclass
class Results:
    """Findings, notes and properties, in the order in which they were seen.

    What is ``meant`` is a note and no finding; ``sizes`` and ``untried`` say what was looked at.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[Said] = field(default_factory=list)
    properties: list[Said] = field(default_factory=list)
    gap: Gap | None = None
    meant: frozenset[str] = frozenset()
    sizes: str = ""
    untried: tuple[str, ...] = ()

    def found(
        self, name: str, sentence: str, evidence: Evidence | None = None, *, advice: str = ""
    ) -> None:
        """Report a finding, once for each name."""
        if name in self.meant:
            self.note("meant", f"Meant so: {sentence} [{name}]")
        elif not self.has(name):
            self.findings.append(Finding(name, sentence, evidence, advice=advice))

    def note(self, key: str, sentence: str) -> None:
        """Report something that is good to know but not a bug."""
        if sentence not in self.notes:
            self.notes.append(Said(key, sentence))

    def held(self, key: str, sentence: str) -> None:
        """Report a property that was checked and holds."""
        if sentence not in self.properties:
            self.properties.append(Said(key, sentence))

    def unexamined(self, why: str, *, call: str = "", remedy: str = "", name: str = "") -> None:
        """Report what could not be examined; the first reason counts, the others are notes."""
        if self.gap is None:
            self.gap = Gap(why, call, remedy, name)
        elif why != self.gap.why:
            self.note("unexamined", why)

    def ask(self, name: str, why: str, remedy: str = "", *, call: str = "") -> None:
        """Ask what nothing decides: a gap with the name that the finding would have."""
        if name in self.meant:
            self.note("meant", f"Meant so: {why} [{name}]")
        else:
            meant = f'If it is meant, pass meant={{"{name}"}}.'
            self.unexamined(why, call=call, remedy=f"{remedy} {meant}".lstrip(), name=name)

    def failed(self, error: Exception, sentence: str) -> None:
        """Report that a probe itself failed, so that something was left unchecked."""
        self.unexamined(f"{sentence}: {type(error).__name__}.")

    def has(self, *names: str) -> bool:
        """Return whether one of these findings was reported."""
        return any(finding.name in names for finding in self.findings)

    def holds(self, *keys: str) -> bool:
        """Return whether a property with one of these keys was reported."""
        return any(said.key in keys for said in self.properties)

    def arranged(self) -> tuple[Finding, ...]:
        """Return the findings, each with the later ones folded under it that it explains."""
        left, causes = list(self.findings), []
        while left:
            cause = left.pop(0)
            explained = EXPLAINS.get(cause.name, ())
            folded = [other for other in left if "*" in explained or other.name in explained]
            left = [other for other in left if other not in folded]
            causes.append(replace(cause, consequences=tuple(folded)))
        return tuple(causes)
