"""Split and merge of heads: follow every number from its token to its head and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._results import Options, Results
from attnlab.clinic.behaviour import close, examine_behaviour, examine_steadiness, examine_watch
from attnlab.clinic.names import plain_name
from attnlab.clinic.pieces.calls import Form, Piece, numbers, shape
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
WIDE = 48  # features to try where a function knows its number of heads, or their size, itself
PROMISE = {
    "split": "head h of token t holds features h * d to (h + 1) * d - 1 of token t",
    "merge": "row t of the merged tensor holds the heads of token t one after the other",
}
OWN_SIZES = (
    "Pass num_heads= and embed_dim= to diagnose: {role} takes neither, so only sizes that it knows "
    "itself can work."
)
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
        self.role, self.results = role, results
        self.piece = Piece(function, options, results, role)
        self.strange = [one for one in self.piece.needed[1:] if plain_name(one) not in SIZES]
        sizes = _sizes(options)
        takes = {SIZES.get(plain_name(one.name)) for one in (self.piece.parameters or [])[1:]}
        told = options.num_heads or self.strange or takes & {"heads", "d"}
        if self.piece.parameters and not told:
            self.piece.sure, self.piece.remedy = False, OWN_SIZES.format(role=role)
            sizes = self._own(sizes, options)
        self.trial = Trial(sizes, None)

    def form(self, x: object, sizes: Sizes) -> Form | None:
        """Return a call, or None if its arguments are not known."""
        known = {name: getattr(sizes, size) for name, size in SIZES.items()}
        return self.piece.form(x, known, *([sizes.heads] if self.role == "split" else []))

    def input(self, sizes: Sizes, layout: Layout = USUAL) -> Tensor:
        """Return its input, whose numbers are their names."""
        if self.role == "split":
            return sizes.tokens()
        z = layout.heads(sizes)
        return z[0] if sizes.flat else z

    def _own(self, sizes: Sizes, options: Options) -> Sizes:
        """Return the sizes that a split has which is told none."""
        for one in (sizes, sizes._replace(n=1, flat=True)) if self.role == "split" else ():
            wide = one._replace(heads=1, d=options.embed_dim or WIDE)
            result = self.piece.values(self.form(wide.tokens(), wide))
            d = 1 if result is None or result.ndim < 2 else result.shape[-1]
            if 1 < d < wide.d and wide.d % d == 0:
                return sizes._replace(heads=wide.d // d, d=d)
        return sizes

    def start(self) -> bool:
        """Take the call with the best result; report why and return False if there is none."""
        if self.piece.lacks(self.strange):
            return False
        trials = []
        for way in self._ways():
            trials += filter(None, [self.take(*way)])
            if trials and trials[-1].rank == 0:
                break
        if not trials:
            form = self.form(self.input(self.trial.sizes), self.trial.sizes)
            self.piece.explain(self.piece.ask(form), form)
            return False
        self.trial = best = min(trials, key=lambda one: one.rank)
        size = self.input(best.sizes, best.layout).shape
        self.piece.draw = lambda seed: {
            "x": torch.randn(size, generator=torch.Generator().manual_seed(seed))
        }
        self.piece.way = lambda inputs: self.form(inputs["x"], best.sizes)
        if not examine_steadiness(self.piece, self.results):
            self.trial = best._replace(verdict=None)  # whatever the first call looked like
        return True

    def _ways(self) -> Iterator[tuple[Sizes, Layout]]:
        """Yield sizes and layouts, the likeliest first."""
        sizes = self.trial.sizes
        yield sizes, USUAL
        yield from ((sizes, one) for one in (LAYOUTS if self.role == "merge" else ()))
        yield sizes._replace(n=1, flat=True), USUAL

    def take(self, sizes: Sizes, layout: Layout = USUAL) -> Trial | None:
        """Call once and judge; None if there is no result."""
        result = self.piece.values(self.form(self.input(sizes, layout), sizes))
        return None if result is None else Trial(sizes, *self._look(result, sizes, layout))

    def _look(self, result: Tensor, s: Sizes, layout: Layout) -> tuple[Verdict | None, Layout]:
        """Return what is wrong with a result, and the layout of the heads."""
        split = self.role == "split"
        expected = (s.n, s.heads, s.length, s.d) if split else (s.n, s.length, s.width)
        expected = expected[s.flat :]
        shaped = f"returns shape {shape(result)} where {expected} is needed"
        if result.numel() != s.codes().numel():
            return Verdict("wrong-shape", shaped), layout
        if not result.isfinite().all():
            return Verdict("nan", "returns NaN or infinity for finite numbers"), layout
        names = result.round().long()
        if not close(names, result, 1e-6) or names.min() < 0 or names.max() >= names.numel():
            words = "changes the numbers themselves, not only their places"
            return Verdict("heads-order", words), layout
        if result.shape == expected:
            cut = (s.heads, s.length) if split else (s.length, s.heads)
            got = names.reshape(s.n, *cut, s.d)
            return judge(got if split else got.transpose(1, 2), s, self.role), layout
        other = layout_of(names, s) if split else None
        if other is not None and other.usable:
            return None, other
        if other is not None and other.groups[-2:] == ("H", "d"):
            words = f"{shaped}: the heads were not moved in front of the tokens"
            return Verdict("split-without-transpose", words), other
        return Verdict("wrong-shape", shaped), other or layout

    def report(self) -> None:
        """Report the verdict, or what holds, and a note on another layout."""
        layout, role, results = self.trial.layout, self.role, self.results
        if self.trial.verdict is not None:
            sentence = f"{role} {self.trial.verdict.words}."
            results.found(self.trial.verdict.name, sentence, self.trial.verdict.evidence)
        if self.trial.verdict is not None or results.has("random", "remembers"):
            return
        if self.trial.sizes.flat:
            words = f"{role} takes one sequence, without the dimension of the batch."
            results.note("single", words)
        if layout is not USUAL:
            first = ": x is read as (L, N, D)" if layout.groups[-2] == "N" else ""
            does = "gives" if role == "split" else "takes"
            results.note("layout", f"{role} {does} {layout} and not (N, H, L, d){first}.")
        results.held("placement", PROMISE[role])

    def rest(self) -> None:
        """Look at other numbers of sequences and tokens, and at how it behaves."""
        if self.results.has("random", "remembers"):
            return
        s = self.trial.sizes
        s = s._replace(n=1 if s.flat else 4, length=6)
        if self.trial.verdict is None and self.trial.layout is USUAL:
            other = self.take(s)
            if other is None:
                form = self.form(self.input(s), s)
                self.piece.explain(self.piece.ask(form), form)
            elif other.verdict is not None:
                asked = f"For x of shape {shape(self.input(s))} {self.role} {other.verdict.words}."
                self.results.found(other.verdict.name, asked, other.verdict.evidence)
            else:
                words = f"{self.role} works for other numbers of sequences and tokens"
                self.results.held("sizes", words)
        if not self.piece.caller.changed:
            examine_behaviour(self.piece, self.results)


def _together(split: Side, merge: Side, results: Results) -> None:
    """Report what is wrong with the two as a pair: what merge makes of what split gives."""
    if not split.start():
        if merge.start():
            merge.report()
        return
    merge.trial, merge.piece.sure, s = split.trial, True, split.trial.sizes
    raw = split.piece.ask(split.form(split.input(s), s)).value
    back = None if merge.strange else merge.piece.ask(merge.form(raw, s))
    if back is not None and close(numbers(back.value), s.tokens()):
        _undone(split, merge, results)
    elif merge.start():
        _judge(split, merge, back.trouble, results)
    if not results.has("round-trip", "random"):
        split.rest()
        if not isinstance(raw, list | tuple):
            merge.rest()


def _undone(split: Side, merge: Side, results: Results) -> None:
    """Report on a split that merge undoes: any layout of its own will do."""
    wrong = split.trial.verdict
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
    given, wanted = split.trial.layout, merge.trial.layout
    if split.trial.verdict or merge.trial.verdict:
        split.report()
        merge.report()
    elif given != wanted:
        results.found(
            "round-trip",
            f"split gives {given} and merge is right for {wanted}: each is fine alone, but "
            "merge(split(x)) is not x.",
        )
    elif trouble:
        words = "merge takes a tensor that is contiguous, but not what split returns"
        results.found("contiguity", f"{words}: {trouble}")
    else:
        words = "split and merge are each right alone, but merge(split(x)) != x."
        results.found("round-trip", words)


def _sizes(options: Options) -> Sizes:
    """Return sizes that are all different, for the number of heads that is known, if it is."""
    heads = options.num_heads if options.num_heads and options.num_heads > 1 else 3
    width = options.embed_dim
    d = width // heads if width and width % heads == 0 and width > heads else 4 + (heads == 4) * 2
    free = [size for size in (2, 5, 7, 3) if size not in (heads, d)]
    return Sizes(free[0], free[1], heads, d)
