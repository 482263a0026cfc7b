"""What one examination reports, and what its caller may say beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from attnlab.clinic._report import Evidence, Finding


@dataclass(frozen=True)
class Options:
    """The options of ``diagnose``; its docstring explains each."""

    mask: str | None = None
    causal: bool | None = None
    batch_first: bool | None = None
    num_heads: int | None = None
    embed_dim: int | None = None
    call: Callable | None = None
    strict: bool = False
    time_limit: float = 1.0


@dataclass
class Results:
    """Findings, notes and properties, in the order in which they were seen."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    properties: list[str] = field(default_factory=list)

    def found(self, name: str, sentence: str, evidence: Evidence | None = None) -> None:
        """Report a finding, once for each name."""
        if not self.has(name):
            self.findings.append(Finding(name, sentence, evidence))

    def note(self, sentence: str) -> None:
        """Report something that is good to know but not a bug."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def failed(self, error: Exception, sentence: str) -> None:
        """Note that a probe itself failed, so that something was left unchecked."""
        self.note(f"{sentence}: {type(error).__name__}.")

    def held(self, sentence: str) -> None:
        """Report a property that was checked and holds."""
        if sentence not in self.properties:
            self.properties.append(sentence)

    def has(self, *names: str) -> bool:
        """Return whether one of these findings was reported."""
        return any(finding.name in names for finding in self.findings)
