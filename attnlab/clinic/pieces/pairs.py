"""Split and merge of heads: follow every number from its token to its head and back."""

from __future__ import annotations

from collections.abc import Callable

from attnlab.clinic._results import Options, Results
from attnlab.clinic.behaviour import examine_watch
from attnlab.clinic.pieces.pair_merge import Merge
from attnlab.clinic.pieces.pair_sides import Side, Split


def examine_pair(
    pair: tuple[Callable | None, Callable | None], options: Options, results: Results
) -> None:
    """Report how a split and a merge of heads behave, alone and together.

    Parameters
    ----------
    pair : (split, merge)
        One of them may be None: the other is then looked at alone.
    options : Options
        ``num_heads`` for functions that know their number of heads; ``call(function, x, heads)``.
    results : Results
        Is written into.

    See Also
    --------
    attnlab.heads.split_heads, attnlab.heads.merge_heads : the right ones.
    """
    split, merge = pair
    if merge is None:
        examine_split(split, options, results)
    elif split is None:
        examine_merge(merge, options, results)
    else:
        sides = Split(split, options, results), Merge(merge, options, results)
        _together(*sides, results)
        for side in sides:
            examine_watch(side.subject, results)


def examine_split(split: Callable, options: Options, results: Results) -> None:
    """Report how a function that cuts features into heads behaves.

    Parameters
    ----------
    split : callable
        ``(x)``, ``(x, num_heads)`` or ``(x, num_heads, head_dim)``; x of shape (N, L, D).
    options : Options
        As for ``examine_pair``.
    results : Results
        Is written into.

    See Also
    --------
    attnlab.heads.split_heads : the right one.
    """
    _alone(Split(split, options, results))


def examine_merge(merge: Callable, options: Options, results: Results) -> None:
    """Report how a function that joins the heads again behaves.

    Parameters
    ----------
    merge : callable
        ``(x)`` or ``(x, num_heads)``; x of shape (N, H, L, d).
    options : Options
        As for ``examine_pair``.
    results : Results
        Is written into.

    See Also
    --------
    attnlab.heads.merge_heads : the right one.
    """
    _alone(Merge(merge, options, results))


def _alone(side: Side) -> None:
    if side.start():
        side.report()
        side.rest()
    examine_watch(side.subject, side.results)


def _together(split: Split, merge: Merge, results: Results) -> None:
    """Report what is wrong with the two as a pair."""
    if not split.start():
        if merge.start():
            merge.report()
        return
    merge.sizes, merge.listed = split.sizes, split.listed
    merge.fixed = merge.paired = True
    if split.layout is not None and _agree(split, merge):
        split.verdict = None
        results.note(
            "layout",
            f"split gives {split.layout} and not (N, H, L, d): a layout of its own, "
            "and merge undoes it.",
        )
    elif split.verdict is None and not merge.take(merge.sizes) and merge.other_layout():
        given = split.layout or "(N, H, L, d)"
        _disagree(str(given), str(merge.other_layout()), results)
    elif merge.start():
        _judge(split, merge, results)
    else:
        split.report()
        return
    if results.has("round-trip", "random"):
        return
    if split.verdict is None and merge.verdict is None:
        _see_round_trip(split, merge, results)
    split.rest()
    merge.rest()


def _agree(split: Split, merge: Merge) -> bool:
    """Return whether merge undoes the layout of split; leave merge with it if so."""
    merge.layout = split.layout
    if merge.take(merge.sizes) and merge.verdict is None:
        return True
    merge.layout = None
    return False


def _judge(split: Split, merge: Merge, results: Results) -> None:
    """Report the verdicts of the two, which were looked at in the usual layout."""
    both = split.verdict is not None and merge.verdict is not None
    if both and _undoes(split, merge):
        _say_both(split, merge, results)
    elif split.layout is not None and split.verdict is None:
        if merge.verdict is None:
            _disagree(str(split.layout), "(N, H, L, d)", results)
        else:
            merge.report()
    elif split.verdict is None and merge.verdict is not None:
        other = merge.other_layout()
        if other is None:
            merge.report()
        else:
            merge.verdict = None
            _disagree("(N, H, L, d)", str(other), results)
    else:
        split.report()
        merge.report()


def _say_both(split: Split, merge: Merge, results: Results) -> None:
    names = (split.verdict.name, merge.verdict.name)
    if names == (Split.scrambled, Merge.scrambled):
        results.found(
            "split-and-merge",
            f"split {split.verdict.words}; merge makes the same mistake backwards, so that "
            "merge(split(x)) equals x and hides it.",
            split.verdict.evidence,
        )
    else:
        words = f"split {split.verdict.words}; merge undoes it, so that a round trip hides it."
        results.found(split.verdict.name, words, split.verdict.evidence)


def _disagree(given: str, wanted: str, results: Results) -> None:
    results.found(
        "round-trip",
        f"split gives {given} and merge is right for {wanted}: each is fine alone, "
        "but merge(split(x)) is not x.",
    )


def _undoes(split: Split, merge: Merge) -> bool:
    return merge.undoes(split.raw())


def _see_round_trip(split: Split, merge: Merge, results: Results) -> None:
    """Check merge(split(x)) == x for the tensor that split itself returns."""
    raw = split.raw()
    outcome = merge.of(raw)
    if outcome.error is not None:
        results.found(
            "contiguity",
            f"merge takes a tensor that is contiguous, but not what split returns: "
            f"{outcome.trouble}",
        )
    elif not merge.undoes(raw):
        results.found(
            "round-trip", "split and merge are each right alone, but merge(split(x)) != x."
        )
    else:
        results.held("round-trip", "merge(split(x)) is x, number by number")
