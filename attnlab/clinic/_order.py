"""Put findings in order: the cause first, and what follows from it folded under it."""

from __future__ import annotations

from collections.abc import Iterable

from attnlab.clinic._report import Finding

# What each of these explains, if it was found as well; "*" for everything.
EXPLAINS: dict[str, tuple[str, ...]] = {
    "not-done": ("*",),
    "hangs": ("*",),
    "random": ("*",),
    "softmax-axis": ("batch-mixing", "head-mixing", "position-mixing", "not-normalised"),
    "key-value-swapped": ("square-only", "wrong-source"),
    "query-key-swapped": ("square-only",),
    "wrong-source": ("square-only", "detached"),
    "hard": ("detached",),
    "dtype": ("detached",),
    "remembers": ("detached", "dtype", "contiguity"),
    "batch-mixing": ("head-mixing", "position-mixing"),
    "transposed-batch": ("batch-mixing", "square-only"),
    "mask-queries": ("padding-leak", "square-only"),
    "mask-inverted": ("padding-leak", "mask-leak"),
    "batch-first": ("batch-mixing", "attends-over-heads"),
}


def arrange(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings, each with those folded under it that it explains.

    Parameters
    ----------
    findings : iterable of Finding
        In the order in which they were reported: a cause comes before its consequences.

    Returns
    -------
    tuple of Finding
        Causes only.

    See Also
    --------
    attnlab.clinic.diagnose : reports them.
    """
    left = list(findings)
    causes = []
    while left:
        cause = left.pop(0)
        explained = EXPLAINS.get(cause.name, ())
        folded = [other for other in left if "*" in explained or other.name in explained]
        left = [other for other in left if other not in folded]
        causes.append(cause.with_consequences(tuple(folded)))
    return tuple(causes)
