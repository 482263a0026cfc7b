"""The clinic's own record: how it does on every implementation of its catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from attnlab.clinic._diagnose import diagnose
from attnlab.clinic._report import Report
from attnlab.clinic.broken import BROKEN, RIGHT, Case


class Examined(NamedTuple):
    """One implementation of the catalogue and what the clinic said of it."""

    case: Case
    report: Report

    @property
    def named(self) -> bool:
        """Whether the first finding is the cause."""
        return self.report.findings[:1] != () and self.report.findings[0].name == self.case.cause


class Record(NamedTuple):
    """The clinic's record: what it said of every implementation."""

    broken: tuple[Examined, ...]
    right: tuple[Examined, ...]

    @property
    def found(self) -> int:
        """How many broken ones have a finding at all."""
        return sum(bool(one.report.findings) for one in self.broken)

    @property
    def named(self) -> int:
        """How many broken ones have their cause as the first finding."""
        return sum(one.named for one in self.broken)

    @property
    def accused(self) -> int:
        """How many right ones have a finding."""
        return sum(bool(one.report.findings) for one in self.right)

    def __repr__(self) -> str:
        return (
            f"{self.found} of {len(self.broken)} broken implementations found, {self.named} by "
            f"their cause; {self.accused} of {len(self.right)} right ones accused"
        )


def record(
    broken: Sequence[Case] = BROKEN, right: Sequence[Case] = RIGHT, *, time_limit: float = 1.0
) -> Record:
    """Diagnose every implementation of a catalogue, the clinic's own if none is given."""

    def examined(case: Case) -> Examined:
        return Examined(case, diagnose(case.make(), time_limit=time_limit, **case.options))

    return Record(tuple(map(examined, broken)), tuple(map(examined, right)))
