"""What the attention inside a layer does, measured between its two products.

The first product is replaced by zeros and by random numbers; how the weights answer tells the
factor of the scores, the axis of the softmax and what a mask does, however the layer writes it.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic.hypotheses import Sample, Sizes
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.trace import Core, Trace, before, cores, cores_of_learned_queries, learned

CLOSE = 1e-6  # how well a law must fit, in float64
MOST = 24  # attentions of one pass: of a deep model the first ones are enough


class Law(NamedTuple):
    """How weights follow products: a softmax over the keys of the products times a factor."""

    factor: float
    apart: bool = False  # every head has a factor of its own
    turned: bool = False  # the products are keys by queries
    raw: bool = False  # there is no softmax


class Heads:
    """One attention of a layer. Its tensors are (N, H, L, ...): sequence, head, token."""

    def __init__(self, subject: Subject, x: Tensor, core: Core, trace: Trace, **how) -> None:
        self.subject, self.x, self.core, self.trace, self.how = subject, x, core, trace, how
        self.batch, self.heads_first = 1, False
        self.folds: dict[str, bool] = {}  # how the rows of several heads lie in one: by token?
        self._find_layout()

    def _raw(self, trace: Trace) -> dict[str, Tensor]:
        """Return what a pass put into the two products and got from them, (b, ..., ...)."""
        average, scores = (trace.steps[at] for at in (self.core.average, self.core.scores[0]))
        (weights, _), (value, _) = average.factors
        output = average.result
        if not self.core.weights_first:
            weights, value, output = value.mT, weights.mT, output.mT
        (query, _), (key, _) = scores.factors
        raw = {"weights": weights, "value": value, "output": output, "products": scores.result}
        raw |= {"query": query, "key": key.mT}
        return {name: part if part.ndim == 3 else part[None] for name, part in raw.items()}

    def _find_layout(self) -> None:
        """Find which sequences, heads and tokens the dimensions of the products hold."""
        products = self._raw(self.trace)["products"]
        count, batch, length = len(products), len(self.x), self.x.shape[1]
        if batch > 1 and count % batch == 0:
            other = self.subject.tokens(*self.x.shape[1:], seed=33)
            moved = self._moved(torch.cat([self.x[:1] + other, self.x[1:]]), "products")
            moved, place = moved.any(dim=1), torch.arange(count)
            self.heads_first = torch.equal(moved, place % batch == 0) and count > batch
            if self.heads_first or torch.equal(moved, place < count // batch):
                self.batch = batch
        several = products.shape[-2] // length
        if several > 1 and products.shape[-2] % length == 0:
            self._find_folds(several, length)

    def _find_folds(self, several: int, length: int) -> None:
        """Find how the queries of several heads that share a key lie in one of the products."""
        token = length // 2  # one that sees several keys, in a causal layer as well
        x = self.x.clone()
        x[:, token] += self.subject.tokens(x.shape[-1], seed=34)
        moved = self._moved(x, "query")[0]
        if int(moved.sum()) != several:
            return
        rows = slice(token * several, (token + 1) * several)  # if they lie by token
        self.folds = {"query": bool(moved[rows].all())}
        products = 0 * self.trace.steps[self.core.scores[0]].result
        none = self._with_products(products)
        keys = products.shape[-1]
        products.view(-1, *products.shape[-2:])[:, moved] = self.subject.tokens(keys, seed=35)
        some = self._with_products(products)
        if none is None or some is None:
            return
        none, some = (self._raw(trace)["weights"][0] for trace in (none, some))
        if len(none) == several * length:
            self.folds["weights"] = bool((some != none).any(dim=-1)[rows].all())

    def _moved(self, x: Tensor, name: str) -> Tensor:
        """Return which rows of a part move when the tokens are these, (b, rows)."""
        again = self.again(x=x)
        plain = self._raw(self.trace)[name]
        other = plain if again is None else self._raw(again)[name]
        return (other != plain).any(dim=-1)

    def again(self, x: Tensor | None = None, **how) -> Trace | None:
        """Return another pass through the same steps; None if it goes another way."""
        trace = self.subject.traced(self.x if x is None else x, **{**self.how, **how})
        if trace is None or len(trace.steps) != len(self.trace.steps):
            return None
        steps = (*self.core.scores, self.core.average)
        sizes = [[t.steps[place].result.shape for place in steps] for t in (trace, self.trace)]
        return trace if sizes[0] == sizes[1] else None

    def cut(self, part: Tensor, name: str) -> Tensor:
        """Return a part, (b, ..., ...), as (N, H, ..., ...)."""
        part = part if part.ndim == 3 else part[None]
        heads = len(part) // self.batch
        if self.heads_first:
            part = part.unflatten(0, (heads, self.batch)).transpose(0, 1)
        else:
            part = part.unflatten(0, (self.batch, heads))
        by_token = self.folds.get({"products": "query", "output": "weights"}.get(name, name))
        if by_token is not None:
            length = self.x.shape[1]
            part = part.unflatten(2, (length, -1) if by_token else (-1, length))
            part = (part.transpose(2, 3) if by_token else part).flatten(1, 2)
        return part

    def parts(self, trace: Trace) -> dict[str, Tensor]:
        """Return query, key, value, products, weights and output of a pass."""
        cut = {name: self.cut(part, name) for name, part in self._raw(trace).items()}
        heads = cut["query"].shape[1]
        for name in ("key", "value"):
            cut[name] = cut[name].repeat_interleave(max(1, heads // cut[name].shape[1]), dim=1)
        return cut

    @cached_property
    def seen(self) -> dict[str, Tensor]:
        """The parts of the plain pass."""
        return self.parts(self.trace)

    @property
    def head_dim(self) -> int:
        """How many features of a query and a key are compared."""
        return sum(self.trace.steps[place].factors[0][0].shape[-1] for place in self.core.scores)

    # --- other products ---------------------------------------------------------------------------

    def weights_of(self, products: Tensor) -> Tensor | None:
        """Return the weights of a pass in which ``products`` take the place of its own."""
        trace = self._with_products(products)
        return None if trace is None else self.cut(self._raw(trace)["weights"], "weights").double()

    def _with_products(self, products: Tensor) -> Trace | None:
        first, *others = self.core.scores
        instead = {place: self._putting(place, 0 * products) for place in others}
        return self.again(instead={**instead, first: self._putting(first, products)})

    def _putting(self, place: int, wanted: Tensor):
        (one, _), (two, _) = self.trace.steps[place].factors
        return lambda result: result + (wanted.to(result) - (one @ two).to(result))

    @cached_property
    def drawn(self) -> Tensor:
        """Random numbers in the shape of its products."""
        shape = self.trace.steps[self.core.scores[0]].result.shape
        return self.subject.tokens(*shape, seed=41)

    @cached_property
    def none(self) -> Tensor | None:
        """The weights of products that are all the same."""
        return self.weights_of(0 * self.drawn)

    @cached_property
    def some(self) -> Tensor | None:
        """The weights of random products."""
        return self.weights_of(self.drawn)

    @cached_property
    def law(self) -> Law | None:
        """How the weights follow from the products; None where no softmax says so."""
        none, some, close = self.none, self.some, CLOSE if self.subject.fine else 1e-3
        drawn = self.cut(self.drawn, "products").double()
        if none is None or some is None:
            return None
        if drawn.shape == none.shape and (raw := _raw_factor(none, some, drawn, close)):
            return Law(raw, raw=True)
        every = torch.ones_like(none, dtype=torch.bool)
        lower = every.tril()  # odd things may happen to later keys
        for turned, where in ((False, every), (True, every), (False, lower)):
            products = drawn.mT if turned else drawn
            heads = None
            if products.shape == none.shape:
                heads = _slopes(none, some, products, where, close)
            if heads is not None:
                factor = heads.mean().item()
                apart = bool((heads - factor).abs().max() > 1e-4 * abs(factor))
                return Law(factor, apart, turned)
        return None

    @property
    def factor(self) -> float:
        """By what the products of projected queries and keys are multiplied, all in all."""
        return self.law.factor * self.earlier

    @cached_property
    def earlier(self) -> float:
        """By what queries and keys were multiplied between their projection and their product."""
        factors = self.trace.steps[self.core.scores[0]].factors
        return math.prod(before(self.trace, own) for _, own in factors)

    @property
    def unit(self) -> bool:
        """Whether queries and keys are unit vectors: then any factor may be right."""
        norms = [self.seen[name].norm(dim=-1) for name in ("query", "key")]
        return all((norm - 1).abs().max() < 1e-3 for norm in norms)

    @property
    def learned(self) -> bool:
        """Whether a parameter is part of the factor."""
        return learned(self.trace, self.core)

    def sample(self, allowed: Tensor | None = None) -> Sample | None:
        """Return what it makes of random products, as a sample whose output are its weights."""
        weights, products = self.some, self.cut(self.drawn, "products")
        if weights is None:
            return None
        products = products.mT if self.law is not None and self.law.turned else products
        if products.shape != weights.shape:
            return None
        batch, heads, queries, keys = weights.shape
        eye = torch.eye(keys, dtype=weights.dtype).expand(batch, heads, keys, keys)
        widths = self.head_dim, self.seen["value"].shape[-1], self.subject.sizes.embed
        weights = weights if self.subject.fine else weights.float()
        sizes = Sizes(batch, heads, queries, keys, *widths)
        return Sample(products.double() / self.earlier, eye, eye, weights, sizes, allowed)


def _raw_factor(none: Tensor, some: Tensor, products: Tensor, close: float) -> float | None:
    """Return the factor of products that are the weights themselves, apart from what is hidden."""
    used = (some != none) & (some - none).isfinite()
    rise, run = (torch.where(used, part, 0.0) for part in (some - none, products))
    factor = (rise * run).sum() / (run * run).sum()
    fits = factor.isfinite() and (rise - factor * run).abs().max() < close * factor.abs()
    return factor.item() if fits else None


def _slopes(
    none: Tensor, some: Tensor, products: Tensor, where: Tensor, close: float
) -> Tensor | None:
    """Return the factor of each head with which ``logs - factor * products`` is level on keys."""
    used = (none > 0) & (some > 0) & where
    count = used.sum(dim=-1, keepdim=True).clamp_min(1)

    def centred(part: Tensor) -> Tensor:
        part = torch.where(used, part, 0.0)
        return torch.where(used, part - part.sum(dim=-1, keepdim=True) / count, 0.0)

    rise, run = centred(some.log() - none.log()), centred(products)
    slopes = (rise * run).sum(dim=(0, 2, 3), keepdim=True)
    slopes = slopes / (run * run).sum(dim=(0, 2, 3), keepdim=True)
    size = (run * slopes).abs().max().clamp_min(1e-9)
    if not run.any() or (rise - slopes * run).abs().max() > close * size or not slopes.all():
        return None
    return slopes.flatten()


def attentions(subject: Subject, x: Tensor, **how) -> list[Heads]:
    """Return every attention that a layer makes of these tokens; none where it works in blocks."""
    trace = subject.traced(x, **how)
    if trace is None:
        return []
    seen, known, length = cores(trace), [], x.shape[1]
    if subject.pools:
        seen = seen or cores_of_learned_queries(trace)
        return [Heads(subject, x, core, trace, **how) for core in seen]
    for core in seen[:MOST]:
        rows = trace.steps[core.scores[0]].result.shape[-2]
        if rows % length == 0 or length % rows == 0:  # else features are compared, and no tokens
            known.append(Heads(subject, x, core, trace, **how))
    return [] if any(itertools.starmap(_are_blocks, itertools.pairwise(known))) else known


def _are_blocks(one: Heads, other: Heads) -> bool:
    """Return whether two products belong to one attention that goes through its keys in blocks."""
    shared = set(one.core.scores) & set(other.core.scores)
    query, key = (torch.equal(one.seen[side], other.seen[side]) for side in ("query", "key"))
    return (query and not key) or bool(shared and one.core.scores != other.core.scores)
