"""Ask a learner's test about several cases: each answer must be True or False."""

from __future__ import annotations

from collections.abc import Mapping

from attnlab.exercises._answers import Answer, NotDone, NoValue, yes_or_no

__all__ = ["opinions", "yes_or_no"]


def opinions(answer: Answer, cases: Mapping[str, object]) -> dict[str, bool | None]:
    """Return what a test says of every case.

    Parameters
    ----------
    answer : Answer
        A function of one argument.
    cases : mapping from str to object
        What it gets, by the name of the case.

    Returns
    -------
    dict from str to bool or None
        None where it returns nothing, as after an ``if`` without an ``else``.

    Raises
    ------
    NotDone
        If it returns nothing for any case.
    Wrong
        If it raises, hangs, or gives something else.
    """
    said: dict[str, bool | None] = {}
    for name, given in cases.items():
        try:
            said[name] = answer.ask(given, read=yes_or_no, case=name)
        except (NotDone, NoValue) as error:
            said[name], nothing = None, error
    if all(one is None for one in said.values()):
        raise nothing
    return said
