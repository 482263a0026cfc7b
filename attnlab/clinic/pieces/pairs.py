"""Split and merge of heads: follow every number from its token to its head and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._calling import Outcome
from attnlab.clinic._results import Options, Results
from attnlab.clinic.behaviour import examine_behaviour, examine_steadiness, examine_watch
from attnlab.clinic.pieces.calls import Form, Piece, fit, numbers, plain_name, same, shape
from attnlab.clinic.pieces.codes import (
    LAYOUTS,
    USUAL,
    Layout,
    Sizes,
    Verdict,
    judge,
    layout_of,
)

SIZES = {  # of arguments by their names
    name: size
    for size, names in {
        "heads": "numheads nheads nhead heads head headnum headsnum h nh numattentionheads",
        "d": "d dk dhead headdim dimhead dimperhead depth headsize hd dh hs",
        "width": "embeddim dmodel dim e hidden hiddensize modeldim width features embedsize",
        "n": "batch batchsize bs b",
        "length": "l t seqlen seqlength length ntokens",
    }.items()
    for name in names.split()
}
WIDTHS = (12, 24, 60, 64, 512, 768)  # to try where a function knows its number of heads itself
FIXED = ((2, 3), (4, 3), (8, 3), (4, 16), (8, 64), (12, 64))  # heads, d: likewise, for merge
PROMISE = {
    "split": "head h of token t holds features h * d to (h + 1) * d - 1 of token t",
    "merge": "row t of the merged tensor holds the heads of token t one after the other",
}
Pair = tuple[Callable | None, Callable | None]


def examine_pair(pair: Pair, options: Options, results: Results) -> None:
    """Report how a split and a merge of heads behave, alone and together; one of them may be None.

    ``split`` takes ``(x)``, ``(x, num_heads)`` or ``(x, num_heads, head_dim)``, ``merge`` its
    result. ``options.num_heads`` is for functions that know their number of heads.
    """
    sides = [Side(role, one, options, results)
             for role, one in zip(("split", "merge"), pair, strict=True) if one]  # fmt: skip
    if len(sides) == 2:
        _together(*sides, results)
    elif sides[0].start():
        sides[0].report()
        sides[0].rest()
    for side in sides:
        examine_watch(side.piece, results)


def examine_split(split: Callable, options: Options, results: Results) -> None:
    """Report how a function that cuts features into heads behaves, as ``examine_pair``."""
    examine_pair((split, None), options, results)


def examine_merge(merge: Callable, options: Options, results: Results) -> None:
    """Report how a function that joins the heads again behaves, as ``examine_pair``."""
    examine_pair((None, merge), options, results)


class Trial(NamedTuple):
    """What came of one call."""

    sizes: Sizes
    verdict: Verdict | None
    layout: Layout = USUAL

    @property
    def rank(self) -> int:
        """How far it is from right."""
        if self.verdict is not None:
            return 3 if self.verdict.name == "wrong-shape" else 2
        return 0 if self.layout is USUAL else 1


class Side:
    """A split or a merge: how it is called, and what it does with every number."""

    def __init__(self, role: str, function: Callable, options: Options, results: Results) -> None:
        self.role, self.options, self.results = role, options, results
        self.piece = Piece(function, options, results, role)
        needed = self.piece.needed()[1:]
        self.strange = [name for name in needed if plain_name(name) not in SIZES]
        self.trial = Trial(_sizes(options), None)
        self.paired = False  # the sizes are those of the other side

    @property
    def verdict(self) -> Verdict | None:
        """What is wrong."""
        return self.trial.verdict

    def form(self, x: object, sizes: Sizes) -> Form | None:
        """Return a call, or None if its arguments are not known."""
        parameters = self.piece.parameters
        known = {name: getattr(sizes, size) for name, size in SIZES.items()}
        if parameters:  # the first one is x, whatever its name
            known[plain_name(parameters[0].name)] = x
        given = [x, sizes.heads] if parameters is None and self.role == "split" else [x]
        return fit(parameters, known, [] if parameters else given)

    def input(self, sizes: Sizes, layout: Layout = USUAL) -> Tensor:
        """Return its input, whose numbers are their names."""
        if self.role == "split":
            return sizes.tokens()
        return sizes.per_head() if layout is USUAL else layout.heads(sizes)

    def start(self) -> bool:
        """Take the call with the best result; report why and return False if there is none."""
        best = None
        if self.strange:
            words = f"What {' and '.join(self.strange)} should be is not known."
            self.piece.unknown("", words, self.strange)
            return False
        for way in self._ways():
            trial = self.take(*way)
            if trial is not None and (best is None or trial.rank < best.rank):
                best = trial
            if best is not None and (best.rank == 0 or (best.rank < 3 and way[0].flat)):
                break
        if best is None:
            self.piece.tensor(self.form(self.input(self.trial.sizes), self.trial.sizes))
            return False
        self.trial = best
        self.piece.draw = self._drawn
        self.piece.way = lambda inputs: self.form(inputs["x"], best.sizes)
        if not examine_steadiness(self.piece, self.results):
            self.trial = best._replace(verdict=None)  # whatever the first call looked like
        return True

    def _ways(self) -> Iterator[tuple[Sizes, Layout]]:
        """Yield sizes and layouts, the likeliest first."""
        own = self.trial.sizes
        for sizes in (own,) if self.paired else (own, own._replace(n=1, flat=True)):
            yield sizes, USUAL
            if self.role == "merge" and not self.paired and not sizes.flat:
                yield from ((sizes, layout) for layout in LAYOUTS)
            told = [one for one in self.form(0, sizes).values if one in sizes[2:4]]
            if not told and not self.paired and not self.options.num_heads:
                yield from ((other, USUAL) for other in self._other_sizes(sizes))

    def _other_sizes(self, sizes: Sizes) -> Iterator[Sizes]:
        """Yield sizes for code that knows its number of heads, found by trying."""
        if self.role == "merge":
            yield from (sizes._replace(heads=heads, d=d) for heads, d in FIXED)
            return
        for width in (self.options.embed_dim,) if self.options.embed_dim else WIDTHS:
            trial = sizes._replace(heads=1, d=width)
            result = self.piece.values(self.form(trial.tokens(), trial))
            if result is not None and result.ndim > 1:
                d = result.shape[-1]
                if 1 < d < width and width % d == 0:
                    yield sizes._replace(heads=width // d, d=d)

    def _drawn(self, seed: int) -> dict[str, Tensor]:
        """Return random numbers of the shape of the input."""
        generator = torch.Generator().manual_seed(seed)
        x = self.input(self.trial.sizes, self.trial.layout)
        return {"x": torch.randn(x.shape, generator=generator)}

    def take(self, sizes: Sizes, layout: Layout = USUAL) -> Trial | None:
        """Call once and judge; None if there is no result."""
        result = self.piece.values(self.form(self.input(sizes, layout), sizes))
        return None if result is None else Trial(sizes, *self._look(result, sizes, layout))

    def _look(self, result: Tensor, s: Sizes, layout: Layout) -> tuple[Verdict | None, Layout]:
        """Return what is wrong with a result, and the layout of the heads."""
        split = self.role == "split"
        expected = (s.n, s.heads, s.length, s.d) if split else (s.n, s.length, s.width)
        expected = expected[1 if s.flat else 0 :]
        shaped = f"returns shape {shape(result)} where {expected} is needed"
        if result.numel() != s.n * s.length * s.width:
            return Verdict("wrong-shape", shaped), layout
        if not result.isfinite().all():
            return Verdict("nan", "returns NaN or infinity for finite numbers"), layout
        names = result.round().long()
        if not same(names, result) or names.min() < 0 or names.max() >= names.numel():
            words = "changes the numbers themselves, not only their places"
            return Verdict("heads-order", words), layout
        if result.shape == expected:
            got = names.reshape(s.n, s.heads, s.length, s.d) if split else (
                names.reshape(s.n, s.length, s.heads, s.d).transpose(1, 2))  # fmt: skip
            return judge(got, s, self.role), layout
        other = layout_of(names, s) if split else None
        if other is None:
            return Verdict("wrong-shape", shaped), layout
        if other.usable and other.groups[-2] == "N" and self.options.batch_first:
            return Verdict("batch-first", f"returns {other}: it takes dimension 0 for the tokens"
                           ), other  # fmt: skip
        if other.usable:
            return None, other
        if other.groups[-2:] == ("H", "d"):
            words = f"{shaped}: the heads were not moved in front of the tokens"
            return Verdict("split-without-transpose", words), other
        return Verdict("wrong-shape", shaped), other

    def report(self) -> None:
        """Report the verdict."""
        if self.verdict is not None:
            sentence = f"{self.role} {self.verdict.words}."
            self.results.found(self.verdict.name, sentence, self.verdict.evidence)
        elif not self.results.has("random", "remembers"):
            self.hold()

    def hold(self) -> None:
        """Report what holds, and a note on another layout."""
        layout, sizes = self.trial.layout, self.trial.sizes
        if sizes.flat:
            words = f"{self.role} takes one sequence, without the dimension of the batch."
            self.results.note("single", words)
        if layout is not USUAL:
            first = ": x is read as (L, N, D)" if layout.groups[-2] == "N" else ""
            does = "gives" if self.role == "split" else "takes"
            words = f"{self.role} {does} {layout} and not (N, H, L, d){first}."
            self.results.note("layout", words)
        self.results.held("placement", PROMISE[self.role])

    def other_layout(self) -> Layout | None:
        """Return another layout of the heads for which merge is right, and take it."""
        for layout in LAYOUTS:
            trial = self.take(self.trial.sizes, layout)
            if trial is not None and trial.verdict is None:
                self.trial = trial
                return layout
        return None

    def rest(self) -> None:
        """Look at other sizes, and at how it behaves."""
        if self.results.has("random", "remembers"):
            return
        if self.verdict is None and self.trial.layout is USUAL:
            self._examine_other_sizes()
        if not self.piece.caller.changed:
            examine_behaviour(self.piece, self.results)

    def _examine_other_sizes(self) -> None:
        """Do what was right once again for other numbers of sequences and tokens."""
        s = self.trial.sizes._replace(n=1 if self.trial.sizes.flat else 4, length=6)
        if self.piece.tensor(self.form(self.input(s), s)) is None:
            return
        verdict = self.take(s).verdict
        if verdict is not None:
            asked = f"For x of shape {shape(self.input(s))} {self.role} {verdict.words}."
            self.results.found(verdict.name, asked, verdict.evidence)
        else:
            words = f"{self.role} works for other numbers of sequences and tokens"
            self.results.held("sizes", words)


def _together(split: Side, merge: Side, results: Results) -> None:
    """Report what is wrong with the two as a pair: what merge makes of what split gives."""
    if not split.start():
        if merge.start():
            merge.report()
        return
    merge.paired, s = True, split.trial.sizes
    merge.trial = split.trial
    raw = split.piece.ask(split.form(split.input(s), s)).value
    outcome = merge.piece.ask(merge.form(raw, s)) if not merge.strange else Outcome()
    back = numbers(outcome.value)
    if back is not None and same(back, s.tokens()):
        _undone(split, merge, results)
    elif split.verdict is None and not merge.strange and (other := merge.other_layout()):
        _disagree(split, other, results)
    elif merge.start():
        _judge(split, merge, outcome.trouble, results)
    if not results.has("round-trip", "random"):
        split.rest()
        if not isinstance(raw, list | tuple):
            merge.rest()


def _undone(split: Side, merge: Side, results: Results) -> None:
    """Report on a split that merge undoes: any layout of its own will do."""
    wrong = split.verdict
    if wrong is None or split.trial.layout is not USUAL:
        split.trial = merge.trial = split.trial._replace(verdict=None)
        split.report()
        results.held("round-trip", "merge(split(x)) is x, number by number")
    elif wrong.name == "split-without-transpose":
        words = "merge makes the same mistake backwards, so that merge(split(x)) equals x and "
        sentence = f"split {wrong.words}; {words}hides it."
        results.found("split-and-merge", sentence, wrong.evidence)
    else:
        sentence = f"split {wrong.words}; merge undoes it, so that a round trip hides it."
        results.found(wrong.name, sentence, wrong.evidence)


def _judge(split: Side, merge: Side, trouble: str, results: Results) -> None:
    """Report on a pair that does not give x again: which of the two is wrong alone."""
    if split.verdict or merge.verdict:
        split.report()
        merge.report()
    elif split.trial.layout is not USUAL:
        _disagree(split, USUAL, results)
    elif trouble:
        words = "merge takes a tensor that is contiguous, but not what split returns"
        results.found("contiguity", f"{words}: {trouble}")
    else:
        words = "split and merge are each right alone, but merge(split(x)) != x."
        results.found("round-trip", words)


def _disagree(split: Side, wanted: Layout, results: Results) -> None:
    results.found(
        "round-trip",
        f"split gives {split.trial.layout} and merge is right for {wanted}: each is fine alone, "
        "but merge(split(x)) is not x.",
    )


def _sizes(options: Options) -> Sizes:
    """Return sizes that are all different, for the number of heads that is known, if it is."""
    heads = options.num_heads if options.num_heads and options.num_heads > 1 else 3
    width = options.embed_dim
    d = width // heads if width and width % heads == 0 and width > heads else 4 + (heads == 4) * 2
    free = [size for size in (2, 5, 7, 3) if size not in (heads, d)]
    return Sizes(free[0], free[1], heads, d)
