"""Functions that build a mask, held against the masks that people mean and the known slips."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic import names
from attnlab.clinic._hints import says_blocked
from attnlab.clinic._results import Options, Results
from attnlab.clinic.behaviour import examine_steadiness, examine_watch
from attnlab.clinic.pieces.calls import (
    SAYS_BLOCKED,
    Form,
    Piece,
    fit,
    numbers,
    plain_name,
    shape,
    table,
)

HEADS, FEATURES, WINDOW = 2, 11, 3
SQUARE, WIDE, TALL, OTHER = (7, 7), (5, 7), (7, 5), (6, 6)
LENGTHS = ((2, 5, 3), (6, 1, 4, 3))
LONGEST = 7
DEEP = 1000.0  # a fill value this far below the others leaves nothing after the softmax
FAMILY_WORDS = {
    "window": ("window", "sliding", "local", "band"),
    "causal": ("causal", "subsequent", "ahead", "future", "autoregressive", "tril", "triang"),
    "lengths": ("length", "lens", "valid"),
    "tokens": ("pad", "src_mask", "trg_mask", "tgt_mask"),
}
OF_ANOTHER_KIND = re.compile(
    r"prefix|chunk|block|global|doc|segment|packed|dilat|strid|sparse|random|bird|tree|alibi|bias|"
    r"slope|image|patch|pixel|grid|cross|cache|past|sink|diag|bidirect|full|ring|axial|tokens?_type",
    re.IGNORECASE,
)
WANTED = {
    "causal": "(L, S)",
    "window": "(L, S)",
    "lengths": "(N, S), (N, 1, S) or (N, 1, 1, S)",
    "tokens": "(N, S), (N, 1, S) or (N, 1, 1, S)",
}
ADDED = "returns numbers to add to the scores"


class Trial(NamedTuple):
    """One call of a builder and what it is about.

    Attributes
    ----------
    form : Form
        The call.
    family : str
        ``"causal"``, ``"window"``, ``"lengths"`` or ``"tokens"``.
    queries, keys : int
        Sizes of the mask that is meant.
    real : Tensor or None
        Which positions are real, (N, S), for masks of padding.
    window : int
        For windows.
    """

    form: Form
    family: str
    queries: int
    keys: int
    real: Tensor | None = None
    window: int = 0


class Known(NamedTuple):
    """A mask that is right, or a known slip: the name of the finding, None if it is right."""

    name: str | None
    words: str
    allowed: Tensor


class Mask(NamedTuple):
    """A mask that was read: what it allows, and what its numbers are if it is not bool."""

    allowed: Tensor
    note: str = ""
    name: str = ""  # of a finding about the numbers
    words: str = ""
    additive: bool = False  # numbers to add to the scores


def examine_mask_builder(function: Callable, options: Options, results: Results) -> None:
    """Report how a function that builds a mask behaves.

    A mask of a kind that is not known here, or that needs an argument whose meaning is not known,
    is reported as not examined.

    Parameters
    ----------
    function : callable
        Causal ``(L)``, ``(L, S)`` or ``(x)``; a window ``(L, window)``; padding from ``(lengths)``,
        ``(lengths, max_len)`` or ``(ids, pad_id)``. True is meant to say "may attend".
    options : Options
        ``mask="blocked"`` if True is meant to say "blocked"; ``call(function, ...)``.
    results : Results
        Is written into.

    See Also
    --------
    attnlab.masks.causal_mask, attnlab.masks.sequence_mask : right ones.
    """
    piece = Piece(function, options, results)
    builder = Builder(piece, options, says_blocked(function))
    trial, value = builder.first()
    if trial is not None:
        piece.way = lambda _: trial.form
        if examine_steadiness(piece, results) and builder.examine(trial, value):
            builder.examine_others(trial)
    examine_watch(piece, results)


class Builder:
    """One examination of a builder."""

    def __init__(self, piece: Piece, options: Options, says_blocked: bool) -> None:
        self.piece, self.results, self.strict = piece, piece.results, options.strict
        self.blocked = options.mask == "blocked"
        self.says_blocked = options.mask is None and says_blocked
        piece.sure = all(map(_is_known, piece.needed()))
        told = " ".join([piece.name, *(one.name for one in piece.parameters or [])])
        words = [word for family in FAMILY_WORDS.values() for word in family]
        plain = piece.name == "<lambda>" or any(word in piece.name.lower() for word in words)
        self.named = plain and not OF_ANOTHER_KIND.search(told)  # says what it is
        causal = any(word in piece.name.lower() for word in FAMILY_WORDS["causal"])
        self.causal = options.causal or (self.named and (causal or piece.name == "<lambda>"))

    def first(self) -> tuple[Trial | None, Tensor | None]:
        """Return the first call that gives a mask of the shape that is meant, or a first result."""
        piece, kept, failed = self.piece, None, None
        for family in families(piece.name, piece.parameters):
            for trial in trials(family, piece.parameters, SQUARE, named=self.named):
                outcome = piece.ask(trial.form)
                failed = failed or (outcome, trial.form)
                if not isinstance(outcome.value, Tensor) or numbers(outcome.value) is None:
                    continue
                kept = kept or (trial, outcome.value)
                if reduced(outcome.value, trial) is not None:
                    return trial, outcome.value
        if kept is None and failed is None:
            self._ask_for_arguments()
        elif kept is None:
            piece.explain(*failed)
        return kept or (None, None)

    def _ask_for_arguments(self) -> None:
        needed = self.piece.needed()
        strange = [name for name in needed if not _is_known(name)] or needed
        if not needed:
            self.results.found("raises", f"{self.piece.who} takes no size, length or token.")
            return
        what = " and ".join(strange)
        words = f"What {what} should be is not known, so {self.piece.who} was not called."
        self.piece.unknown("", words, strange)

    def examine(self, trial: Trial, value: Tensor) -> bool:
        """Report what is wrong with one mask; return whether nothing is."""
        asked = f"{self.piece.who}({trial.form})"
        core = reduced(value, trial)
        if core is None:
            words = f"{asked} returns shape {shape(value)} where {WANTED[trial.family]} is needed."
            if self.named and trial.family != "window":
                self.results.found("wrong-shape", words)
            else:
                self._not_known(asked, f"It returns shape {shape(value)}")
            return False
        mask = read(core, blocked=self.blocked, strict=self.strict)
        if mask is None:
            self._not_known(asked, "It returns many different numbers, as a bias does")
            return False
        evidence = _evidence(mask.allowed, trial)
        if mask.name == "nan":
            self.results.found("nan", f"{asked} {mask.words}.", evidence)
            return False
        known = self._known(mask.allowed, trial)
        if known is None:
            self._not_known(asked, "It returns no causal mask, no window and no mask of padding")
            return False
        if known.name == "mask-inverted" and self.says_blocked:
            self.blocked, self.says_blocked = True, False
            self.results.note("convention", SAYS_BLOCKED)
            return self.examine(trial, value)
        if known.name is not None:
            advice = self._advice(known.name, mask)
            self.results.found(known.name, f"{asked} {known.words}.", evidence, advice=advice)
        elif known.words:
            self.results.note("mask-kind", f"{asked} {known.words}.")
        if mask.name:
            self.results.found(mask.name, f"{asked} {mask.words}.")
        if known.name is None and not mask.name:
            if mask.note:
                self.results.note("mask-dtype", f"{self.piece.who} {mask.note}.")
            else:
                self.results.held("mask-dtype", "the mask is bool")
            self.results.held(trial.family, HELD[trial.family])
            return True
        return False

    def _known(self, allowed: Tensor, trial: Trial) -> Known | None:
        """Return the first known mask that it is; None where it may be meant to be another."""
        matches = (
            one for one in tables(trial, allowed, self.blocked) if _equal(one.allowed, allowed)
        )
        known = next(matches, None)
        if known is not None:
            return known
        if trial.family in ("lengths", "tokens"):
            return _odd_padding(allowed, trial) if self.named else None
        if trial.family == "window":
            return _odd_window(allowed, trial) if self._ignores_the_window(trial) else None
        return _odd_causal(allowed, trial) if self.causal else None

    def _ignores_the_window(self, trial: Trial) -> bool:
        """Return whether a smaller window gives the same mask."""
        sizes = trial.queries, trial.keys
        smaller = next(self._alike(trial, sizes, 1), None)
        if smaller is None or smaller.form == trial.form:
            return False
        one, two = (self.piece.values(each.form) for each in (trial, smaller))
        return one is not None and two is not None and torch.equal(one, two)

    def _not_known(self, asked: str, why: str) -> None:
        remedy = (
            "Pass causal=True if it is meant to be causal. A mask of another kind is best compared "
            "with one that you write out by hand; plot_mask draws it."
        )
        self.results.unexamined(
            f"{why}, and what is meant is not known.", call=asked, remedy=remedy
        )

    def _advice(self, name: str, mask: Mask) -> str:
        if name != "mask-inverted" or self.blocked:
            return ""
        if mask.additive or mask.name == "mask-finite":
            return "exchange the two: 0 where a query may look, -inf where it must not."
        return 'return ~mask, or pass mask="blocked" to diagnose if True is meant to block.'

    def examine_others(self, trial: Trial) -> None:
        """Examine again: other sizes, and fewer queries than keys where it takes both numbers."""
        again = [*self._alike(trial, OTHER, 1)][:1]
        if trial.family == "causal":
            again += [one for sizes in (WIDE, TALL) for one in self._alike(trial, sizes)
                      if _takes_both(one, sizes)][:2]  # fmt: skip
        for other in again:
            if not self._examine_other(trial, other):
                return
            square = other.queries == other.keys or other.real is not None
            what = "other sizes" if square else f"{other.queries} queries and {other.keys} keys"
            self.results.held("sizes", f"it is right for {what} as well")

    def _alike(self, trial: Trial, sizes: tuple[int, int], again: int = 0) -> Iterator[Trial]:
        """Yield calls that give arguments of the same kinds."""
        kinds = _kinds(trial)
        for one in trials(trial.family, self.piece.parameters, sizes, again, named=self.named):
            if _kinds(one) == kinds:
                yield one

    def _examine_other(self, trial: Trial, other: Trial) -> bool:
        piece, outcome = self.piece, self.piece.ask(other.form)
        value = outcome.value if isinstance(outcome.value, Tensor) else None
        usable = value is not None and numbers(value) is not None
        if usable and reduced(value, other) is not None:
            return self.examine(other, value)
        asked = f"{piece.who}({other.form})"
        if other.keys != other.queries:
            told = outcome.trouble or (f"shape {shape(value)}" if usable else "nothing")
            words = f"It is right for {trial.queries} queries and {trial.keys} keys"
            self.results.found("square-only", f"{words}, but {asked} gives {told}.")
        elif value is None:
            piece.explain(outcome, other.form)
        else:
            words = f"{asked} returns shape {shape(value)}: it fits one size only."
            self.results.found("wrong-shape", words)
        return False


HELD = {
    "causal": "query i may attend to the keys up to its own, and to no later one",
    "window": "every query sees a window of neighbouring keys",
    "lengths": "every real token is allowed, and no padding",
    "tokens": "every real token is allowed, and no padding",
}


# --- the tables -----------------------------------------------------------------------------------


def tables(trial: Trial, allowed: Tensor, blocked: bool) -> Iterator[Known]:
    """Yield the masks that may be meant by a call, and the known slips."""
    turned = (
        "is True where a query may look, and was said to mean blocked"
        if blocked
        else "is True where a query must not look, as in nn.MultiheadAttention; in "
        "F.scaled_dot_product_attention True means may attend"
    )
    if trial.family == "causal":
        yield from _causal(trial.queries, trial.keys, turned)
    elif trial.family == "window":
        yield from _window(trial, turned)
    elif allowed.ndim == 2:
        yield from _padding(trial, turned)
    else:
        yield from _padding_rows(trial, turned)


def _causal(queries: int, keys: int, turned: str) -> Iterator[Known]:
    ones, shift = torch.ones(queries, keys, dtype=torch.bool), keys - queries
    right = {0: "upper left", shift: "lower right"}
    for k, corner in right.items():
        words = f"starts its diagonal in the {corner} corner" if shift else ""
        yield Known(None, words, ones.tril(k))
    for k in right:
        yield Known("mask-inverted", turned, ~ones.tril(k))
        words = "allows the own key and the later ones: it is the upper triangle"
        yield Known("causal-flipped", words, ones.triu(k))
        for step, what in ((-1, "blocks the own key of every query"), (1, "allows one later key")):
            yield Known("causal-off-by-one", what, ones.tril(k + step))
            also = f"{turned}; turned around, it still {what}"
            yield Known("mask-inverted", also, ~ones.tril(k + step))


def _window(trial: Trial, turned: str) -> Iterator[Known]:
    w = trial.window
    distance = torch.arange(trial.keys) - torch.arange(trial.queries)[:, None]

    def band(low: int, high: int) -> Tensor:
        return (distance >= low) & (distance <= high)

    reaches = sorted({w - 1, w, w // 2, (w - 1) // 2})
    right = [(-reach, high) for reach in reaches for high in (0, reach)]
    for low, high in right:
        words = f"lets query i see the keys i{low:+d} to i{high:+d}"
        yield Known(None, words, band(low, high))
    for low, high in right:
        yield Known("mask-inverted", turned, ~band(low, high))
        if high == 0 > low:
            words = f"lets every query see only its own key and the {-low} after it"
            yield Known("causal-flipped", words, band(0, -low))
            words = f"lets query i see the keys i{low:+d} to i+1: one later key"
            yield Known("causal-off-by-one", words, band(low, 1))


def _padding(trial: Trial, turned: str) -> Iterator[Known]:
    real = trial.real
    lengths, place = real.sum(-1, keepdim=True), torch.arange(real.shape[1])
    told = lengths.flatten().tolist()

    def counted(allowed: Tensor, words: str = "") -> str:
        return f"{words}allows {allowed.sum(-1).tolist()} keys for lengths {told}"

    more, less = place <= lengths, place < lengths - 1
    later, shifted = (place >= 1) & (place < lengths), (place >= 1) & (place <= lengths)
    yield Known(None, "", real)
    if trial.family == "lengths":
        left = place >= real.shape[1] - lengths
        yield Known(None, "takes the padding to be on the left", left)
    yield Known("mask-inverted", turned, ~real)
    for one in (more, less):
        yield Known("length-off-by-one", counted(one), one)
    yield Known("length-off-by-one", counted(later, "blocks the first token: it "), later)
    words = "is shifted by one: it counts the positions from 1"
    yield Known("length-off-by-one", words, shifted)
    for one in (more, less):
        yield Known("mask-inverted", f"{turned}; turned around, it is still one off", ~one)
    yield Known("mask-ignored", "blocks nothing, whatever the padding", torch.ones_like(real))
    yield Known("blocked-row", "blocks everything", torch.zeros_like(real))
    columns = "has one column for each sequence, and one row for each key"
    yield Known("mask-transposed", columns, real.T)
    yield Known("mask-transposed", f"{columns}; besides, it {turned}", ~real.T)


def _padding_rows(trial: Trial, turned: str) -> Iterator[Known]:
    """Yield masks with a row for every query: padding, and maybe causality."""
    keys, queries = trial.real[:, None, :], trial.real[:, :, None]
    size = trial.real.shape[1]
    lower = torch.ones(size, size, dtype=torch.bool).tril()
    whole = keys.expand(-1, size, -1)
    yield Known(None, "is causal as well", keys & lower)
    for pair in (keys & queries, keys & queries & lower):
        yield Known(None, "blocks the rows of padded queries as well", pair)
    words = "blocks the rows of padded queries and not the columns of padded keys"
    rows = queries.expand_as(whole)
    for one in (rows, queries, rows & lower):
        yield Known("mask-queries", words, one)
    for one in (whole, keys & lower, keys & queries, keys & queries & lower):
        yield Known("mask-inverted", turned, ~one)
    yield Known("mask-ignored", "is causal and blocks no padding", lower.expand_as(whole))
    yield Known("causal-flipped", "allows the later keys and not the earlier ones", keys & lower.mT)
    for step, words in ((-1, "blocks the own key of every query"), (1, "allows one later key")):
        one = keys & torch.ones_like(lower).tril(step)
        yield Known("causal-off-by-one", words, one)


# --- what is in no table --------------------------------------------------------------------------


def _odd_causal(allowed: Tensor, trial: Trial) -> Known | None:
    """Return what is wrong with a mask that is meant to be causal and resembles no triangle."""
    shift = trial.keys - trial.queries
    later = torch.ones_like(allowed).triu(1 + max(0, shift))
    leaks, total = int((allowed & later).sum()), int(later.sum())
    if allowed.all():
        return Known("causal-missing", "blocks nothing at all", allowed)
    if not allowed.any():
        return Known("blocked-row", "blocks everything: no query may look", allowed)
    if leaks:
        words = f"allows {leaks} of the {total} pairs of a query and a later key"
        return Known("causal-leak", words, allowed)
    if not allowed.diagonal(shift).all() and not allowed.diagonal().all():
        return Known("causal-off-by-one", "blocks the own key of some queries", allowed)
    return Known(None, "blocks some of the earlier keys as well: a window?", allowed)


def _odd_window(allowed: Tensor, trial: Trial) -> Known | None:
    """Return what is wrong with a band of another width than the window's."""
    distance = torch.arange(trial.keys) - torch.arange(trial.queries)[:, None]
    seen = distance[allowed]
    if not len(seen):
        return Known("blocked-row", "blocks everything: no query may look", allowed)
    low, high = int(seen.min()), int(seen.max())
    if not _equal((distance >= low) & (distance <= high), allowed):
        return None
    words = f"lets query i see the keys i{low:+d} to i{high:+d}"
    return Known("mask-ignored", f"{words}, which window {trial.window} does not explain", allowed)


def _odd_padding(allowed: Tensor, trial: Trial) -> Known | None:
    """Return what is wrong with a mask of padding that is no known slip."""
    real = trial.real
    if allowed.ndim == 3:
        share = int((allowed & ~real[:, None, :]).sum())
        words = f"allows {share} pairs of a query and a padded key"
        return Known("padding-leak", words, allowed) if share else None
    counts = f"allows {allowed.sum(-1).tolist()} keys for lengths {real.sum(-1).tolist()}"
    if allowed.shape == real.shape and all((real == row).all(-1).any() for row in allowed):
        words = f"gives sequences the lengths of others: it {counts}"
        return Known("batch-mixing", words, allowed)
    return Known("padding-leak", f"does not follow the lengths: it {counts}", allowed)


# --- reading what came back -----------------------------------------------------------------------


def read(core: Tensor, *, blocked: bool, strict: bool) -> Mask | None:
    """Return what a mask allows: bool, 0 and 1, or numbers to add; None if it is no mask."""
    if core.dtype == torch.bool:
        return Mask(core ^ blocked)
    values = core.double()
    if values.isnan().any():
        words = "holds NaN: 0 times infinity is NaN; fill -inf with masked_fill instead"
        return Mask(~values.isnan(), name="nan", words=words)
    levels = values.unique().tolist()
    if len(levels) > 2:
        return None
    if set(levels) <= {0.0, 1.0} and (1.0 in levels or not core.is_floating_point()):
        return _zeros_and_ones(core, blocked=blocked, strict=strict)
    bottom, top = levels[0], levels[-1]
    if len(levels) == 1 and top > -DEEP:
        return Mask(torch.ones_like(core, dtype=torch.bool), note=ADDED, additive=True)
    allowed = values > bottom if len(levels) == 2 else torch.zeros_like(core, dtype=torch.bool)
    if top == torch.inf:
        return Mask(allowed, name="nan", words="holds +inf, and softmax of it is NaN: -inf blocks")
    if top - bottom < DEEP and len(levels) == 2:
        words = f"blocks with {bottom:g} added to a score: a score that is larger leaks through"
        return Mask(allowed, name="mask-finite", words=words)
    half = ", which float16 may not hold," if -torch.inf < bottom < -6e4 else ""
    return Mask(allowed, note=f"{ADDED}: {bottom:g}{half} where blocked", additive=True)


def _zeros_and_ones(core: Tensor, *, blocked: bool, strict: bool) -> Mask:
    allowed, dtype = core.bool() ^ blocked, str(core.dtype).removeprefix("torch.")
    if not core.is_floating_point():
        note = f"returns 0 and 1 as {dtype}; torch's own attention wants bool: mask.bool()"
        return Mask(allowed, note=note)
    words = (
        f"returns 0 and 1 as {dtype}, neither bool nor 0 and -inf: torch would add them to the "
        "scores"
    )
    return Mask(allowed, name="mask-dtype", words=words) if strict else Mask(allowed, note=words)


def reduced(value: Tensor, trial: Trial) -> Tensor | None:
    """Return the mask without dimensions that say nothing; None if it has the wrong shape.

    Parameters
    ----------
    value : Tensor
        What a builder returned.
    trial : Trial
        How it was called.

    Returns
    -------
    Tensor or None
        (L, S) for causal masks and windows; for padding (N, S), (S, N), (N, S, 1) or (N, S, S).
    """
    value = value.detach()
    if trial.real is None:
        fits = value.ndim >= 2 and tuple(value.shape[-2:]) == (trial.queries, trial.keys)
        if not fits or not value.numel():
            return None
        slices = value.reshape(-1, trial.queries, trial.keys)
        return slices[0] if _alike(slices, slices[:1]) else None
    n, size = trial.real.shape
    if tuple(value.shape) in ((n, size), (size, n)):
        return value
    if value.ndim < 3 or value.shape[0] != n or not value.numel():
        return None
    if value.shape[-1] == 1 and value.shape[-2] == size and value.numel() == n * size:
        return value.reshape(n, size, 1)
    if value.shape[-1] != size or value.shape[-2] not in (1, size):
        return None
    heads = value.reshape(n, -1, value.shape[-2], size)
    rows = heads[:, 0]
    if not _alike(heads, heads[:, :1]):
        return None
    return rows[:, 0] if _alike(rows, rows[:, :1]) else rows


def _alike(slices: Tensor, one: Tensor) -> bool:
    """Return whether all slices are like this one."""
    one, slices = (part.double().nan_to_num(0.5) for part in (one, slices))
    return torch.equal(one.expand_as(slices), slices)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


def _evidence(allowed: Tensor, trial: Trial) -> object:
    rows, columns = "query", "key"
    if trial.real is not None and allowed.ndim == 2:
        flat = allowed.shape == trial.real.shape
        rows, columns = ("sequence", "key") if flat else ("key", "sequence")
    shown = (allowed[0] if allowed.ndim == 3 else allowed).double()
    return table("What the mask allows (1) and blocks (0):", shown, rows, columns, shaded=True)


# --- how it may be called -------------------------------------------------------------------------


def _is_known(name: str) -> bool:
    lists = (names.BUILDER_QUERIES, names.BUILDER_KEYS, names.BUILDER_WINDOWS, names.BUILDER_COUNTS)
    lists += (names.BUILDER_LONGEST, names.BUILDER_TOKENS, names.BUILDER_PADS, [*SAYS_NOTHING])
    return any(plain_name(name) in known for known in lists)


SAYS_NOTHING = {"device": torch.device("cpu"), "dtype": torch.float32, "numheads": HEADS}


def families(name: str, parameters: list[inspect.Parameter] | None) -> list[str]:
    """Return the kinds of masks that a builder may make, the likeliest first."""
    told = [plain_name(one.name) for one in parameters or []]
    scores = dict.fromkeys(("causal", "lengths", "tokens", "window"), 0)
    for family, words in FAMILY_WORDS.items():
        scores[family] += 2 * any(word in name.lower() for word in words)
    first = told[0] if told else ""
    scores["lengths"] += 3 * (first in names.BUILDER_COUNTS and first != "length")
    scores["tokens"] += 3 * any(one in names.BUILDER_PADS for one in told)
    scores["tokens"] += first in names.BUILDER_TOKENS[:5]
    scores["window"] += 3 * any(one in names.BUILDER_WINDOWS and one != "k" for one in told)
    return sorted(scores, key=lambda family: -scores[family])


def trials(
    family: str,
    parameters: list[inspect.Parameter] | None,
    sizes: tuple[int, int],
    again: int = 0,
    *,
    named: bool,
) -> Iterator[Trial]:
    """Yield the calls of one family; ``again`` = 1 for other numbers.

    Only the first argument of a builder that says what it is may have a name that says nothing.
    """
    make = {"lengths": _of_lengths, "tokens": _of_tokens}.get(family)
    made = make(parameters, again) if make else _of_sizes(family, parameters, sizes, WINDOW - again)
    told = set()
    sure = named or not parameters or plain_name(parameters[0].name) in FIRST[family]
    for known, values, trial in made:
        if parameters and sure:  # of the others each must have a name that says something
            known, values = {plain_name(parameters[0].name): values[0], **known}, []
        form = fit(parameters, known, [] if parameters else values)
        if form is not None and str(form) not in told:
            told.add(str(form))
            yield trial._replace(form=form)


FIRST = {
    "causal": {*names.BUILDER_QUERIES, *names.BUILDER_TENSORS, *names.BUILDER_TOKENS[:7]},
    "window": {*names.BUILDER_QUERIES, *names.BUILDER_TENSORS, *names.BUILDER_TOKENS[:7]},
    "lengths": {*names.BUILDER_COUNTS},
    "tokens": {*names.BUILDER_TOKENS},
}
Ways = Iterator[tuple[dict[str, object], list[object], Trial]]


def _of_sizes(
    family: str, parameters: list[inspect.Parameter] | None, sizes: tuple[int, int], window: int
) -> Ways:
    queries, keys = sizes
    trial = Trial(Form((), {}), family, queries, keys, window=window)
    known = {**dict.fromkeys(names.BUILDER_QUERIES, queries), **_plain(parameters)}
    known |= dict.fromkeys(names.BUILDER_KEYS, keys)
    if family == "window":
        known |= dict.fromkeys(names.BUILDER_WINDOWS, window)
    first = plain_name(parameters[0].name) if parameters else ""
    rest = {name: value for name, value in known.items() if name != first}
    spare = [window] if family == "window" else []
    ways = [(known, [queries, *spare]), (known, [queries, keys, *spare])]
    if parameters is None:
        ways.insert(0, (known, [queries]))
    given = [
        torch.zeros(2, queries, FEATURES),
        torch.zeros(2, 4, queries, keys),
        torch.ones(2, queries, dtype=torch.long),
        torch.zeros(queries, keys),
    ]
    tensors = [(rest, [x, *spare]) for x in given]
    if parameters == []:
        return
    for way in [*tensors, *ways] if first in names.BUILDER_TENSORS else [*ways, *tensors]:
        yield *way, trial


def _of_lengths(parameters: list[inspect.Parameter] | None, again: int) -> Ways:
    lengths = LENGTHS[again]
    told = {plain_name(one.name) for one in (parameters or [])[1:]} & {*names.BUILDER_LONGEST}
    needed = parameters is not None and sum(one.default is one.empty for one in parameters) > 1
    size = LONGEST + again if told or needed else max(lengths)
    real = torch.arange(size) < torch.tensor(lengths)[:, None]
    known = {**dict.fromkeys(names.BUILDER_LONGEST, size), **_plain(parameters)}
    if parameters:
        known.pop(plain_name(parameters[0].name), None)
    for given in (torch.tensor(lengths), list(lengths)):
        first = [given] if parameters is None else [given, size]
        yield known, first, Trial(Form((), {}), "lengths", size, size, real)


def _of_tokens(parameters: list[inspect.Parameter] | None, again: int) -> Ways:
    length = LONGEST + again
    real = torch.arange(length) < torch.tensor([*LENGTHS[again][:2], length, 4])[:, None]
    fixed = [one for one in parameters or [] if plain_name(one.name) in names.BUILDER_PADS]
    pads = (9, 0) if fixed else (0, 1)
    if fixed and isinstance(fixed[0].default, int):
        pads = (fixed[0].default,)
    for pad in pads:
        text = torch.arange(4 * length).view(4, length) % 5 + 2  # no 0 and no 1
        text[2, 1] = 0 if pad == 9 else 3  # an ordinary token where another id means padding
        ids = text.masked_fill(~real, pad)
        known = {**dict.fromkeys(names.BUILDER_PADS, pad), **_plain(parameters)}
        first = [ids] if parameters is None else [ids, pad]
        yield known, first, Trial(Form((), {}), "tokens", length, length, real)


def _plain(parameters: list[inspect.Parameter] | None) -> dict[str, object]:
    """Return values for required arguments that say nothing about the mask."""
    needed = {plain_name(one.name) for one in parameters or [] if one.default is one.empty}
    return {name: value for name, value in SAYS_NOTHING.items() if name in needed}


def _kinds(trial: Trial) -> list:
    return [value.ndim if isinstance(value, Tensor) else type(value) for value in trial.form.values]


def _takes_both(trial: Trial, sizes: tuple[int, int]) -> bool:
    """Return whether the number of keys is said somewhere in the call."""
    given = trial.form.values
    tensors = [value for value in given if isinstance(value, Tensor) and value.ndim > 1]
    whole = [value for value in given if isinstance(value, int)]
    return any(tuple(x.shape[-2:]) == sizes for x in tensors) or set(sizes) <= set(whole)
