"""What split and merge have in common, and split: how it is called and where its numbers go."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attnlab.clinic._calling import Outcome
from attnlab.clinic._results import Options, Results
from attnlab.clinic.behaviour import examine_behaviour, examine_steadiness
from attnlab.clinic.pieces.calls import Form, Piece, Verdict, fit, numbers, plain_name, same, shape
from attnlab.clinic.pieces.codes import Layout, Sizes, judge, layout_of, names_in, uncut

NAMES = {
    "heads": "numheads nheads nhead heads head headnum headsnum h nh numattentionheads",
    "d": "d dk dhead headdim dimhead dimperhead depth headsize hd dh hs",
    "width": "embeddim dmodel dim e hidden hiddensize modeldim width features embedsize",
    "n": "batch batchsize bs b",
    "length": "l t seqlen seqlength length ntokens",
}
WIDTHS = (12, 24, 60, 64, 512, 768)  # to try where a function knows its number of heads itself
RIGHT, OTHER_LAYOUT, WRONG_PLACES, WRONG_SHAPE = range(4)


class Side:
    """What split and merge have in common: sizes, a way to be called, and a verdict.

    Attributes
    ----------
    verdict : Verdict or None
        What is wrong.
    layout : Layout or None
        The layout with the heads, if it is another than (N, H, L, d).
    """

    role, scrambled = "", ""

    def __init__(self, function: Callable, options: Options, results: Results) -> None:
        self.subject = Piece(function, options, results, self.role)
        self.options, self.results = options, results
        first, *others = [plain_name(name) for name in self.subject.needed()] or [""]
        told = {name for names in NAMES.values() for name in names.split()}
        self.subject.sure = first not in NAMES["heads"].split() and told >= {*others}
        self.sizes = _sizes(options)
        self.reading = 0  # of arguments whose names say nothing
        self.layout: Layout | None = None
        self.verdict: Verdict | None = None
        self.result = torch.zeros(())
        self.listed = False  # heads as a list of tensors
        self.fixed = options.num_heads is not None  # the number of heads is known
        self.paired = False  # the sizes are those of the other side

    def form(self, x: object, sizes: Sizes, reading: int | None = None) -> Form | None:
        """Return a call, or None if its arguments cannot be guessed."""
        parameters, s = self.subject.parameters, sizes
        known = {name: getattr(s, key) for key, names in NAMES.items() for name in names.split()}
        if parameters:  # the first one is x, whatever its name
            known.pop(plain_name(parameters[0].name), None)
        readings = [
            (x, s.heads, s.d),
            (x, s.d),
            (x, s.n, s.length),
            (x, s.n, s.heads),
            (x, s.width),
        ]
        if parameters is None:
            readings = [(x, s.heads), (x,), (x, s.heads, s.d)]
        reading = self.reading if reading is None else reading
        return fit(parameters, known, readings[reading]) if reading < len(readings) else None

    def start(self) -> bool:
        """Take the call with the best result; report why and return False if there is none."""
        best = None
        for sizes, reading in self.ways():
            if best is not None and best[0] <= WRONG_PLACES and sizes.flat:
                break
            if not self.take(sizes, reading):
                continue
            kept = (self.rank(), self.verdict, self.layout, self.result, sizes, reading)
            best = kept if best is None or kept[0] < best[0] else best
            if best[0] == RIGHT:
                break
        if best is None:
            return self.fail()
        _, self.verdict, self.layout, self.result, self.sizes, self.reading = best
        self.subject.draw = self.drawn
        self.subject.way = lambda inputs: self.form(inputs["x"], self.sizes)
        if self._one_tensor() and not examine_steadiness(self.subject, self.results):
            self.verdict = None  # whatever the first call looked like
        return True

    def drawn(self, seed: int) -> dict[str, Tensor]:
        """Return random numbers of the shape of the input."""
        generator = torch.Generator().manual_seed(seed)
        return {"x": torch.randn(self.input(self.sizes).shape, generator=generator)}

    def _one_tensor(self) -> bool:
        return isinstance(self.input(self.sizes), Tensor)

    def ways(self) -> Iterator[tuple[Sizes, int]]:
        """Yield sizes and readings of unknown arguments, the likeliest first."""
        flat = self.sizes._replace(n=1, flat=True)
        for sizes in (self.sizes,) if self.layout or self.paired else (self.sizes, flat):
            told = set()
            for reading in range(4):
                form = self.form(self.input(sizes), sizes, reading)
                if form is not None and str(form) not in told:
                    told.add(str(form))
                    yield sizes, reading
            if not self.fixed and _is_bare(self.form(self.input(sizes), sizes, 0), sizes):
                yield from ((others, 0) for others in self.other_sizes(sizes))

    def take(self, sizes: Sizes, reading: int = 0) -> bool:
        """Call once and judge; return whether there was a result."""
        form = self.form(self.input(sizes), sizes, reading)
        outcome = Outcome() if form is None else self.subject.ask(form)
        self.listed = self.listed or isinstance(outcome.value, (list, tuple))
        result = numbers(outcome.value)
        if result is None:
            return False
        self.sizes, self.reading, self.result = sizes, reading, result
        self.verdict, self.layout = self.look(result, sizes)
        return True

    def rank(self) -> int:
        """Return how far the verdict is from right."""
        if self.verdict is not None:
            return WRONG_SHAPE if self.verdict.name == "wrong-shape" else WRONG_PLACES
        return RIGHT if self.layout is None or self.role == "merge" else OTHER_LAYOUT

    def fail(self) -> bool:
        """Report why there was no result at all."""
        x = self.input(self.sizes)
        self.subject.tensor(self.form(x, self.sizes, 0) or Form((x, self.sizes.heads), {}))
        return False

    def report(self) -> None:
        """Report the verdict."""
        if self.verdict is not None:
            sentence = f"{self.role} {self.verdict.words}."
            self.results.found(self.verdict.name, sentence, self.verdict.evidence)
        if self.verdict is not None or self.results.has("random", "remembers"):
            return
        if self.sizes.flat:
            self.results.note(
                "single", f"{self.role} takes one sequence, without the dimension of the batch."
            )
        self.results.held("placement", self.promise)

    def rest(self) -> None:
        """Look at other sizes, and at how it behaves."""
        if not self._one_tensor() or self.results.has("random", "remembers"):
            return
        if self.verdict is None:
            self.see_other_sizes()
        if not self.subject.caller.changed:
            examine_behaviour(self.subject, self.results)

    def see_other_sizes(self) -> None:
        """Do what was right once again for other numbers of sequences and tokens."""
        if self.layout is not None:
            return
        s = self.sizes._replace(n=1 if self.sizes.flat else 4, length=6)
        form = self.form(self.input(s), s)
        result = None if form is None else self.subject.tensor(form)
        if result is None:
            return
        verdict, layout = self.look(result, s)
        if verdict is not None or layout is not None:
            name, words = verdict[:2] if verdict else ("wrong-shape", f"returns {shape(result)}")
            asked = f"for x of shape {shape(self.input(s))} {self.role} {words}"
            self.results.found(
                name, f"{asked[0].upper()}{asked[1:]}.", verdict and verdict.evidence
            )
        else:
            self.results.held(
                "sizes", f"{self.role} works for other numbers of sequences and tokens"
            )

    def unnamed(self, result: Tensor, expected: tuple[int, ...], s: Sizes) -> Verdict:
        """Return what is wrong with a result in which numbers are lost or changed."""
        if result.shape != expected:
            return wrong_shape(result, expected)
        if not result.isfinite().all():
            return Verdict("nan", "returns NaN or infinity for finite numbers")
        for axis, name in enumerate(("batch-mixing", "position-mixing", "head-mixing")):
            share = self.leak(result, axis, s)
            shared = axis == 2 and same(result, result[..., :1, :, :].expand(result.shape))
            if self.role == "split" and shared:
                return Verdict("heads-shared", "gives every head the same features")
            if share:
                thing = ("sequence", "token", "head")[axis]
                words = f"lets {thing} 0 change the numbers of the others ({share:.0%} of them)"
                return Verdict(name, words)
        lost = s.n * s.length * s.width - len(set(result.flatten().tolist()))
        words = f"changes the numbers themselves ({lost} of them are lost), not only their places"
        return Verdict("heads-order", words)

    def leak(self, result: Tensor, axis: int, s: Sizes) -> float:
        """Return the share of foreign numbers that change with index 0 of N, L or H."""
        codes = s.codes()
        part = codes.select(axis, 0).flatten()
        x = self.input(s)
        bumped = torch.where(torch.isin(x.long(), part), x + 1000.0, x)
        form = self.form(bumped, s)
        other = None if form is None else self.subject.values(form)
        if other is None or other.shape != result.shape:
            return 0.0
        changed = self.canonical((other - result).abs() > 1e-3, s)  # (N, H, L, d)
        foreign = changed.transpose(1, 2).narrow(axis, 1, codes.shape[axis] - 1)
        return foreign.double().mean().item() if foreign.numel() else 0.0


class Split(Side):
    """The way there: (N, L, D) to (N, H, L, d)."""

    role, scrambled = "split", "split-without-transpose"
    promise = "head h of token t holds features h * d to (h + 1) * d - 1 of token t"

    def input(self, sizes: Sizes) -> Tensor:
        """Return x, whose numbers are their names."""
        return sizes.tokens()

    def canonical(self, values: Tensor, s: Sizes) -> Tensor:
        """Return a result as (N, H, L, d)."""
        return values.reshape(s.n, s.heads, s.length, s.d)

    def other_sizes(self, sizes: Sizes) -> Iterator[Sizes]:
        """Yield sizes for a function that knows its number of heads, found by trying."""
        for width in (self.options.embed_dim,) if self.options.embed_dim else WIDTHS:
            trial = sizes._replace(heads=1, d=width)
            result = self.subject.values(self.form(trial.tokens(), trial, 0))
            if result is not None and result.ndim > 1 and result.numel() == trial.n * 5 * width:
                d = result.shape[-1]
                if 1 < d < width and width % d == 0:
                    yield sizes._replace(heads=width // d, d=d)

    def look(self, result: Tensor, s: Sizes) -> tuple[Verdict | None, Layout | None]:
        """Return what is wrong with a result, and its layout if it has another than usual."""
        expected = (s.n, s.heads, s.length, s.d)[1 if s.flat else 0 :]
        names = names_in(result, s)
        if names is None:
            return self.unnamed(result, expected, s), None
        got = self.canonical(names, s)
        if tuple(names.shape) == expected:
            return uncut(got, s, self.role) or judge(got, s, scrambled=self.scrambled), None
        layout = layout_of(names, s)
        if layout is not None and layout.usable:
            return self.usable(layout), layout
        if s.heads in names.shape and uncut(got, s, self.role) is not None:
            words = f"returns shape {shape(names)} where {expected} is needed: "
            words += "the heads were not moved in front of the tokens"
            return Verdict(self.scrambled, words), layout
        return wrong_shape(names, expected), layout

    def usable(self, layout: Layout) -> Verdict | None:
        """Return a verdict on a layout that products can work with: only on the batch."""
        if layout.groups[-2] == "N" and self.options.batch_first:
            words = f"returns {layout}: it takes dimension 0 for the tokens"
            return Verdict("batch-first", words)
        return None

    def report(self) -> None:
        """Report the verdict, and a note on another layout."""
        super().report()
        if self.verdict is None and self.layout is not None:
            first = ": x is read as (L, N, D)" if self.layout.groups[-2] == "N" else ""
            self.results.note("layout", f"split gives {self.layout} and not (N, H, L, d){first}.")

    def raw(self) -> object:
        """Return what split itself returns, a list or a tensor that is not contiguous included."""
        return self.subject.ask(self.form(self.input(self.sizes), self.sizes)).value


def _is_bare(form: Form | None, sizes: Sizes) -> bool:
    """Return whether a call says nothing about the number of heads."""
    given = () if form is None else (*form.arguments, *form.named.values())
    telling = (sizes.heads, sizes.d)
    return bool(given) and not any(one in telling for one in given if isinstance(one, int))


def _sizes(options: Options) -> Sizes:
    """Return sizes that are all different, for the number of heads that is known, if it is."""
    heads = options.num_heads if options.num_heads and options.num_heads > 1 else 3
    width = options.embed_dim
    d = width // heads if width and width % heads == 0 and width > heads else 4 + (heads == 4) * 2
    free = [size for size in (2, 5, 7, 3) if size not in (heads, d)]
    return Sizes(free[0], free[1], heads, d)


def wrong_shape(result: Tensor, expected: tuple[int, ...]) -> Verdict:
    """Return the verdict on a result of another shape than is needed."""
    return Verdict("wrong-shape", f"returns shape {shape(result)} where {expected} is needed")
