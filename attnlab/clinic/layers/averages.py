"""Whether a module averages: equal tokens give the same, however many there are."""

from __future__ import annotations

from attnlab.clinic._results import Results
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.plans import extra_key


def examine_average(subject: Subject, results: Results) -> None:
    """Give the same token three and six times: an average of equal values does not change."""
    if extra_key(subject.module):  # one more key, which is not a token
        return
    token = subject.x(1, 1, seed=3)
    replies = [subject(token.expand(1, length, -1).clone()) for length in (3, 6)]
    if any(reply is None or not reply.output.isfinite().all() for reply in replies):
        return
    short, long = (reply.output[0] for reply in replies)
    level = short.abs().max().clamp_min(1e-12)
    spread = max((part - part[:1]).abs().max() for part in (short, long)) / level
    if spread > subject.tolerance:  # it has positions, or mixes them up: no average to compare
        return
    apart = ((short[0] - long[0]).abs().max() / level).item()
    if apart > max(subject.tolerance, 1e-6):
        results.found(
            "not-normalised",
            f"One token given three times and six times must give the same, and differs by "
            f"{apart:.2f} of its size: the weights of a query do not sum to 1.",
        )
    else:
        results.held(
            "average", "a sequence of equal tokens gives the same output, however long it is"
        )
