"""The way back of a pair: how merge is called and where its numbers come from."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from attnlab.clinic._calling import Outcome
from attnlab.clinic.pieces.calls import numbers, same
from attnlab.clinic.pieces.codes import Layout, Sizes, Verdict, arrange, judge, names_in, uncut
from attnlab.clinic.pieces.pair_sides import Side, wrong_shape

USUAL = (0, 2, 1, 3)  # (N, H, L, d) as an order of N, L, H, d
FIXED = ((2, 3), (4, 3), (8, 3), (4, 16), (8, 64), (12, 64))  # heads, d: likewise, for merge


class Merge(Side):
    """The way back: (N, H, L, d) to (N, L, D)."""

    role, scrambled = "merge", "merge-without-transpose"
    promise = "row t of the merged tensor holds the heads of token t one after the other"

    def input(self, sizes: Sizes) -> object:
        """Return the heads, whose numbers are their names."""
        z = arrange(sizes, self.layout)
        return list(z) if self.listed and self.layout is not None else z

    def canonical(self, values: Tensor, s: Sizes) -> Tensor:
        """Return a result as (N, H, L, d)."""
        return values.reshape(s.n, s.length, s.heads, s.d).transpose(1, 2)

    def other_sizes(self, sizes: Sizes) -> Iterator[Sizes]:
        """Yield sizes for a function that knows its number of heads."""
        yield from (sizes._replace(heads=heads, d=d) for heads, d in FIXED)

    def look(self, result: Tensor, s: Sizes) -> tuple[Verdict | None, Layout | None]:
        """Return what is wrong with a result; the layout is that of the input."""
        expected = (s.n, s.length, s.width)[1 if s.flat else 0 :]
        names = names_in(result, s)
        if names is None:
            return self.unnamed(result, expected, s), self.layout
        got = self.canonical(names, s)
        kept = uncut(got, s, self.role) if self.layout is None else None
        if kept is not None and names.ndim == len(expected):
            return kept, None
        if tuple(names.shape) != expected:
            return wrong_shape(names, expected), self.layout
        return judge(got, s, scrambled=self.scrambled), self.layout

    def start(self) -> bool:
        """Take the usual layout of the heads; alone, another one if merge is right for it."""
        if self.layout is None and not self.paired:
            usual = self.take(self.sizes) and self.verdict is None
            self.layout = None if usual else self.other_layout()
            if self.layout is not None:
                self.results.note("layout", f"merge takes {self.layout} and not (N, H, L, d).")
        return super().start()

    def other_layout(self) -> Layout | None:
        """Return another layout of the heads for which merge is right."""
        s = self.sizes
        whole = (s.n, s.length, s.heads, s.d)
        for order, size in (
            (USUAL, (s.n * s.heads, s.length, s.d)),
            ((2, 0, 1, 3), (s.heads, s.n, s.length, s.d)),
            ((2, 0, 1, 3), (s.heads * s.n, s.length, s.d)),
            ((0, 2, 3, 1), (s.n, s.heads, s.d, s.length)),
        ):
            layout = Layout(order, size, whole)
            form = self.form(arrange(s, layout), s)
            result = None if form is None else self.subject.values(form)
            if result is not None and same(result, s.tokens()):
                return layout
        return None

    def of(self, raw: object) -> Outcome:
        """Return what comes of merging what split returned."""
        form = self.form(raw, self.sizes)
        return Outcome() if form is None else self.subject.ask(form)

    def undoes(self, raw: object) -> bool:
        """Return whether that is the input of split."""
        result = numbers(self.of(raw).value)
        return result is not None and same(result, self.sizes.tokens())
