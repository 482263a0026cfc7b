"""Functions that build a mask, held against the masks that people mean and the known slips."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._evidence import Evidence
from attnlab.clinic._hints import says_blocked
from attnlab.clinic._results import Options, Results
from attnlab.clinic.behaviour import examine_steadiness, examine_watch
from attnlab.clinic.hypotheses import CAUSAL, DENSE, ENDS, ORDERS
from attnlab.clinic.names import BUILDER, plain_name
from attnlab.clinic.pieces.calls import Form, Piece, numbers, shape, table

SQUARE, WIDE, TALL, OTHER = (7, 7), (5, 7), (7, 5), (6, 6)
DEEP = 1000.0  # a fill value this far below the others leaves nothing after the softmax
OF_ANOTHER_KIND = re.compile(
    r"prefix|chunk|block|global|doc|segment|packed|dilat|strid|sparse|random|bird|tree|alibi|bias|"
    r"slope|image|patch|pixel|grid|cross|cache|past|sink|diag|bidirect|full|ring|axial|tokens?_type",
    re.IGNORECASE,
)
NO_PADDING = "every real token is allowed, and no padding"
FAMILIES = {  # kinds of masks by words of their names
    "causal": "causal|subsequent|ahead|future|autoregressive|tril|triang",
    "lengths": "length|lens|valid",
    "tokens": "pad|src_mask|trg_mask|tgt_mask",
    "window": "window|sliding|local|band",
}
SIZED = ("queries", "tensors", "tokens")
FIRST = {"causal": SIZED, "lengths": ("counts",), "tokens": ("tokens",), "window": SIZED}
TELLING = {"lengths": "counts", "tokens": "pads", "window": "windows"}  # roles of arguments
HELD = {
    "causal": "query i may attend to the keys up to its own, and to no later one",
    "lengths": NO_PADDING,
    "tokens": NO_PADDING,
    "window": "every query sees a window of neighbouring keys",
}


TURN = {  # by whether numbers are added to the scores
    False: 'return ~mask, or pass mask="blocked" to diagnose if True is meant to block.',
    True: "exchange the two: 0 where a query may look, -inf where it must not.",
}
ANOTHER_KIND = (
    "Pass causal=True if it is meant to be causal. A mask of another kind is best compared with "
    "one that you write out by hand; plot_mask draws it."
)


class Trial(NamedTuple):
    """One call of a builder: the mask that is meant has queries × keys, or real tokens (N, S)."""

    family: str
    queries: int
    keys: int
    real: Tensor | None = None
    window: int = 0
    form: Form = Form((), {})


class Known(NamedTuple):
    """A mask that is right, its name None, or a known slip."""

    name: str | None
    words: str
    allowed: Tensor


class Mask(NamedTuple):
    """A mask that was read: what it allows, and what its numbers are if it is not bool."""

    allowed: Tensor
    words: str = ""  # about the numbers
    name: str = ""  # of the finding that they are, if it is more than a note
    additive: bool = False  # it holds numbers to add to the scores


def examine_mask_builder(function: Callable, options: Options, results: Results) -> None:
    """Report how a function that builds a mask behaves; True is meant to say "may attend".

    It takes ``(L)``, ``(L, S)`` or ``(x)`` for a causal mask, ``(L, window)``, or for padding
    ``(lengths)``, ``(lengths, max_len)`` or ``(ids, pad_id)``. A mask of another kind, or one that
    needs an argument whose meaning is not known, is reported as not examined.
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
        known = frozenset().union(*BUILDER.values())
        self.strange = [name for name in piece.needed if plain_name(name) not in known]
        piece.sure = not self.strange
        name, bare = piece.name.lower(), piece.name == "<lambda>"
        told = " ".join([name, *(one.name for one in piece.parameters or [])])
        of_words = [one for one, words in FAMILIES.items() if re.search(words, name)]
        self.named = bool(bare or of_words) and not OF_ANOTHER_KIND.search(told)
        self.causal = options.causal or (self.named and (bare or "causal" in of_words))
        self.families = sorted(FAMILIES, key=lambda one: -self._likely(one, one in of_words))

    def _likely(self, family: str, named: bool) -> int:
        """Return how much speaks for a family: its words, and the names of the arguments."""
        told = {plain_name(one.name) for one in self.piece.parameters or []}
        by = BUILDER.get(TELLING.get(family), frozenset()) - {"length", "k"}
        return 2 * named + 3 * bool(told & by) + bool(family == "tokens" and told & TEXT)

    # --- calls ------------------------------------------------------------------------------------

    def first(self) -> tuple[Trial | None, Tensor | None]:
        """Return the first call that gives a mask of the shape that is meant, or a first result."""
        piece, kept, failed = self.piece, None, None
        for trial in (one for family in self.families for one in self.trials(family, SQUARE)):
            outcome = piece.ask(trial.form)
            failed = failed or (outcome, trial.form)
            if isinstance(outcome.value, Tensor) and numbers(outcome.value) is not None:
                kept = kept or (trial, outcome.value)
                if reduced(outcome.value, trial) is not None:
                    return trial, outcome.value
        if kept is None and failed is not None:
            piece.explain(*failed)
        elif kept is None:
            strange = self.strange or piece.needed
            words = f"What {' and '.join(strange) or 'it takes'} should be is not known, so "
            piece.unknown(f"{words}{piece.who} was not called.", strange)
        return kept or (None, None)

    def trials(self, family: str, sizes: tuple[int, int], again: int = 0) -> Iterator[Trial]:
        """Yield the calls of one family; ``again`` = 1 for other numbers.

        Only the first argument of a builder that says what it is may have a name that says nothing.
        """
        known, needed = self.piece.parameters, {*map(plain_name, self.piece.needed)}
        named = known and any(plain_name(known[0].name) in BUILDER[one] for one in FIRST[family])
        if known and not (self.named or named):
            return
        told = set()
        for trial, values, firsts in _calls(family, sizes, again, needed):
            given = {name: x for role, x in values.items() for name in BUILDER[role]}
            given |= {name: x for name, x in SAYS_NOTHING.items() if name in needed}
            for one in firsts:
                form = self.piece.form(one, given)
                if form is not None and str(form) not in told:
                    told.add(str(form))
                    yield trial._replace(form=form)

    # --- verdicts ---------------------------------------------------------------------------------

    def examine(self, trial: Trial, value: Tensor) -> bool:
        """Report what is wrong with one mask; return whether nothing is."""
        asked, found = f"{self.piece.who}({trial.form})", self.results.found
        core = reduced(value, trial)
        if core is None and self.named and trial.family != "window":
            wanted = "(L, S)" if trial.real is None else "(N, S), (N, 1, S) or (N, 1, 1, S)"
            found("wrong-shape", f"{asked} returns shape {shape(value)}, and not {wanted}.")
            return False
        mask = None if core is None else read(core, blocked=self.blocked, strict=self.strict)
        if mask is not None and mask.name == "nan":
            found("nan", f"{asked} {mask.words}.")
            return False
        meant = self.causal if trial.family == "causal" else self.named and trial.real is not None
        known = mask and recognised(mask.allowed, trial, self.blocked, meant)
        if known is None:
            why = (
                f"It returns shape {shape(value)}, but no causal mask, no window and no mask of "
                "padding, and what is meant is not known."
            )
            self.results.unexamined(why, call=asked, remedy=ANOTHER_KIND)
            return False
        if known.name == "mask-inverted" and self.says_blocked:
            self.blocked, self.says_blocked = True, False
            words = "It says itself that True means blocked, as in nn.MultiheadAttention, and was "
            self.results.note("convention", f'{words}examined as with mask="blocked".')
            return self.examine(trial, value)
        if known.name is not None:
            inverted = known.name == "mask-inverted" and not self.blocked
            advice = TURN[mask.additive] if inverted else ""
            evidence = _evidence(mask.allowed, trial)
            found(known.name, f"{asked}: {known.words}", evidence, advice=advice)
        elif known.words:
            self.results.note("mask-kind", f"{asked}: {known.words}")
        if mask.name:
            found(mask.name, f"{asked} {mask.words}.")
        if known.name or mask.name:
            return False
        if mask.words:
            self.results.note("mask-dtype", f"{self.piece.who} {mask.words}.")
        else:
            self.results.held("mask-dtype", "the mask is bool")
        self.results.held(trial.family, HELD[trial.family])
        return True

    # --- other sizes ------------------------------------------------------------------------------

    def examine_others(self, trial: Trial) -> None:
        """Examine again: other sizes, and fewer queries than keys where it takes both numbers."""
        again = self._alike(trial, OTHER, 1)[:1]
        if trial.family == "causal":
            wide = [one for sizes in (WIDE, TALL) for one in self._alike(trial, sizes)]
            again += [one for one in wide if _says_both(one)][:2]
        for other in again:
            outcome, square = self.piece.ask(other.form), other.queries == other.keys
            value = outcome.value if numbers(outcome.value) is not None else None
            if value is None or reduced(value, other) is None:
                told = outcome.trouble or ("nothing" if value is None else f"shape {shape(value)}")
                asked = [f"{self.piece.who}({one.form})" for one in (trial, other)]
                sentence = f"{asked[0]} is right, but {asked[1]} gives {told}."
                name = "raises" if outcome.error else "wrong-shape"
                if not self.piece.caller.out_of_time:
                    self.results.found(name if square else "square-only", sentence)
                return
            if not self.examine(other, value):
                return
            what = "other sizes" if square else f"{other.queries} queries and {other.keys} keys"
            self.results.held("sizes", f"it is right for {what} as well")

    def _alike(self, trial: Trial, sizes: tuple[int, int], again: int = 0) -> list[Trial]:
        """Return the calls that give arguments of the same kinds."""
        trials = self.trials(trial.family, sizes, again)
        return [one for one in trials if _kinds(one) == _kinds(trial)]


# --- the tables -----------------------------------------------------------------------------------

INVERTED = (
    "it is True where a query must not look, as in nn.MultiheadAttention; in "
    "F.scaled_dot_product_attention True means may attend"
)
STILL_INVERTED = "it is True where a query may look, and was said to mean blocked"


def recognised(allowed: Tensor, trial: Trial, blocked: bool, meant: bool) -> Known | None:
    """Return the first known mask that this is, or whose opposite it is.

    None where it is none and may be ``meant`` to be of another kind.
    """
    known = [*{"causal": _causal, "window": _window}.get(trial.family, _padding)(trial)]
    if meant:
        all_or_nothing = (
            ("causal-missing" if trial.family == "causal" else "mask-ignored",
             "it blocks nothing at all.", torch.ones_like(allowed)),
            ("blocked-row", "it blocks everything: no query may look.", torch.zeros_like(allowed)),
        )  # fmt: skip
        known += [Known(*one) for one in all_or_nothing]
    turned = STILL_INVERTED if blocked else INVERTED
    for right in (True, False):  # right ones first
        some = [one for one in known if (one.name is None) is right]
        for one in some:
            if _equal(one.allowed, allowed):
                return one
        for one in some:
            if _equal(~one.allowed, allowed):
                also = f"; and turned around, {one.words}" if one.name else "."
                return Known("mask-inverted", f"{turned}{also}", allowed)
    return _odd(allowed, trial) if meant else None


def _causal(trial: Trial) -> Iterator[Known]:
    """Yield the orders that attention functions are compared with, too."""
    L, S = trial.queries, trial.keys
    corners = {CAUSAL: "upper left", ENDS: "lower right"}
    for way in ORDERS:
        if way is not DENSE:
            words = _in_small(way.words)
            if way in corners and L != S:
                words = f"it starts its diagonal in the {corners[way]} corner."
            yield Known(way.cause, words, way.compute(L, S))


def _in_small(words: str) -> str:
    return f"{words[:1].lower()}{words[1:]}"


def _window(trial: Trial) -> Iterator[Known]:
    w = trial.window
    distance = torch.arange(trial.keys) - torch.arange(trial.queries)[:, None]
    for reach in sorted({w - 1, w, w // 2, (w - 1) // 2}):
        for low, high in ((-reach, 0), (-reach, reach)):
            yield Known(None, _sees(low, high), (distance >= low) & (distance <= high))
        if reach:
            later = (distance >= 0) & (distance <= reach)
            words = f"it lets every query see only its own key and the {reach} after it."
            yield Known("causal-flipped", words, later)
            one_more = (distance >= -reach) & (distance <= 1)
            yield Known("causal-off-by-one", f"{_sees(-reach, 1)} One is later.", one_more)


def _sees(low: int, high: int) -> str:
    return f"it lets query i see the keys i{low:+d} to i{high:+d}."


def _padding(trial: Trial) -> Iterator[Known]:
    real, S = trial.real, trial.keys
    keys, queries, lower = real[:, None, :], real[:, :, None], CAUSAL.compute(S, S)
    lengths, place = keys.sum(-1, keepdim=True), torch.arange(S)
    yield Known(None, "", keys)
    if trial.family == "lengths":
        yield Known(None, "it takes the padding to be on the left.", place >= S - lengths)
    for pair in (keys & queries, keys & queries & lower):
        yield Known(None, "it blocks the rows of padded queries as well.", pair)
    for what, allowed in (
        ("it", place <= lengths),
        ("it", place < lengths - 1),
        ("it blocks the first token and", keys & (place >= 1)),
        ("it counts the positions from 1 and", (place >= 1) & (place <= lengths)),
        ("it has one column for each sequence and", real.T),
    ):
        name = "mask-transposed" if allowed.ndim == 2 else "length-off-by-one"
        told = f"keys for lengths {lengths.flatten().tolist()}."
        yield Known(name, f"{what} allows {allowed.sum(-1).flatten().tolist()} {told}", allowed)
    words = "it blocks the rows of padded queries and not the columns of padded keys."
    for rows in (queries, queries & lower):
        yield Known("mask-queries", words, rows)
    yield Known("mask-ignored", "it is causal and blocks no padding.", lower[None])
    for way in ORDERS:
        if way is not DENSE:
            words = _in_small(way.words) or "it is causal as well."
            yield Known(way.cause, words, keys & way.compute(S, S))


# --- what is in no table --------------------------------------------------------------------------


def _odd(allowed: Tensor, trial: Trial) -> Known | None:
    """Return what is wrong with a mask that is meant to be of this family and is no known slip."""
    if trial.real is None:
        right = torch.ones_like(allowed).tril(max(0, trial.keys - trial.queries))
        name, key = "causal-leak", "later"
    else:
        right, name, key = trial.real[:, None, :], "padding-leak", "padded"
    if allowed.ndim == right.ndim and (leaks := int((allowed & ~right).sum())):
        total = int((~right).expand_as(allowed).sum())
        words = f"it allows {leaks} of the {total} pairs of a query and a {key} key."
        return Known(name, words, allowed)
    words = "it blocks some of the earlier keys as well: a window?"
    return Known(None, words, allowed) if trial.real is None else None


# --- reading what came back -----------------------------------------------------------------------


def read(core: Tensor, *, blocked: bool, strict: bool) -> Mask | None:
    """Return what a mask allows: bool, 0 and 1, or numbers to add; None if it is no mask."""
    if core.dtype == torch.bool:
        return Mask(core ^ blocked)
    values, dtype = core.double(), str(core.dtype).removeprefix("torch.")
    if values.isnan().any() or values.isposinf().any():
        words = "holds NaN or +inf (0 times infinity is NaN): fill -inf with masked_fill instead"
        return Mask(values > 0, words, "nan")
    levels = values.unique().tolist()
    bottom, top = levels[0], levels[-1]
    if len(levels) > 2:
        return None
    if top in (0.0, 1.0) and bottom in (0.0, 1.0) and not (core.is_floating_point() and top == 0):
        added = core.is_floating_point()
        words = "which torch would add to the scores" if added else "which torch does not take"
        words = f"returns 0 and 1 as {dtype}, {words}: mask.bool()"
        return Mask(core.bool() ^ blocked, words, "mask-dtype" if added and strict else "")
    allowed = values > (bottom if len(levels) == 2 else -DEEP)
    if len(levels) == 2 and top - bottom < DEEP:
        words = f"blocks with {bottom:g} added to a score: a score that is larger leaks through"
        return Mask(allowed, words, "mask-finite", additive=True)
    half = ", which float16 may not hold," if -torch.inf < bottom < -6e4 else ""
    low = "" if allowed.all() else f": {bottom:g}{half} where blocked"
    return Mask(allowed, f"returns numbers to add to the scores{low}", additive=True)


def reduced(value: Tensor, trial: Trial) -> Tensor | None:
    """Return the mask without dimensions that say nothing; None if it has the wrong shape.

    It has (L, S) for causal masks and windows; for padding (N, S, S), or (S, N) if it is turned.
    """
    value, real = value.detach(), trial.real
    if real is None:
        fits = value.ndim >= 2 and tuple(value.shape[-2:]) == (trial.queries, trial.keys)
        slices = value.reshape(-1, *value.shape[-2:]) if fits and value.numel() else None
        return slices[0] if slices is not None and _all_alike(slices) else None
    n, size = real.shape
    if value.shape == real.T.shape:
        return value
    value = value[:, None] if value.ndim == 2 else value
    if value.ndim < 3 or len(value) != n or not value.numel() or size not in value.shape[-2:]:
        return None
    heads = value.reshape(n, -1, *value.shape[-2:]).transpose(0, 1)
    if not {*value.shape[-2:]} <= {1, size} or not _all_alike(heads):
        return None
    return heads[0].expand(n, size, size)


def _all_alike(slices: Tensor) -> bool:
    """Return whether all slices are like the first."""
    slices = slices.double().nan_to_num(0.5)
    return torch.equal(slices[:1].expand_as(slices), slices)


def _equal(known: Tensor, allowed: Tensor) -> bool:
    return known.ndim == allowed.ndim and torch.equal(known.expand_as(allowed), allowed)


def _evidence(allowed: Tensor, trial: Trial) -> Evidence:
    rows, columns = "query", "key"
    if allowed.ndim == 3 and _all_alike(allowed.transpose(0, 1)):
        allowed, rows = allowed[:, 0], "sequence"
    elif trial.real is not None and allowed.ndim == 2:
        rows, columns = "key", "sequence"
    shown = (allowed[0] if allowed.ndim == 3 else allowed).double()
    return table("What the mask allows (1) and blocks (0):", shown, rows, columns, shaded=True)


# --- how it may be called -------------------------------------------------------------------------

SAYS_NOTHING = {"device": torch.device("cpu"), "dtype": torch.float32, "numheads": 2}
TEXT = {"ids", "tokens", "inputids", "tokenids", "seq"}
Calls = Iterator[tuple[Trial, dict[str, object], list[object]]]


def _calls(family: str, sizes: tuple[int, int], again: int, needed: set[str]) -> Calls:
    """Yield what is meant, the arguments by their roles, and values for the first of them."""
    if family in ("causal", "window"):
        queries, keys = sizes
        values = {"queries": queries, "keys": keys}
        values |= {"windows": 3 - again} if family == "window" else {}
        shapes = ((2, queries, 11), (2, 4, queries, keys), (queries, keys))
        firsts = [queries, *map(torch.zeros, shapes), torch.ones(2, queries, dtype=torch.long)]
        yield Trial(family, queries, keys, window=3 - again), values, firsts
        return
    lengths, size = ((2, 5, 3), (6, 1, 4, 3))[again], 7 + again
    if family == "lengths":
        size = size if len(needed) > 1 else max(lengths)
        real = torch.arange(size) < torch.tensor(lengths)[:, None]
        trial = Trial(family, size, size, real)
        yield trial, {"longest": size}, [torch.tensor(lengths), list(lengths)]
        return
    real = torch.arange(size) < torch.tensor([*lengths[:2], size, 4])[:, None]
    for pad in (9, 0) if needed & BUILDER["pads"] else (0, 1):
        text = torch.arange(4 * size).view(4, size) % 5 + 2  # no 0 and no 1
        text[2, 1] = 0 if pad == 9 else 3  # an ordinary token where another id means padding
        yield Trial(family, size, size, real), {"pads": pad}, [text.masked_fill(~real, pad)]


def _kinds(trial: Trial) -> list:
    return [value.ndim if isinstance(value, Tensor) else type(value) for value in trial.form.values]


def _says_both(trial: Trial) -> bool:
    """Return whether the numbers of queries and keys are both said in the call."""
    parts = [x.shape[-2:] if isinstance(x, Tensor) else (x,) for x in trial.form.values]
    return {trial.queries, trial.keys} <= {n for part in parts for n in part if isinstance(n, int)}
