"""Every named way to do a step of attention, the correct one first, and the search among them.

A ``Sample`` is one observed call of one attention, whether a function was called or a layer was
followed; ``explain`` finds the ``Recipe`` with the fewest slips that gives the output of all of
them. Numbers that no table can hold, such as a fill value, are measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.clinic._evidence import Evidence
from attnlab.clinic._results import Results

SURE = 1e-3  # relative: far above the rounding of float32, far below any bug
EXACT = 1e-6  # the same for float64
VISIBLE = 1e-4  # a weight above this has a logarithm worth reading


@dataclass(frozen=True)
class Sizes:
    """The sizes of one call, all unlike wherever they may be."""

    N: int = 2
    H: int = 3
    L: int = 5
    S: int = 7
    E: int = 11
    Ev: int = 13
    width: int | None = None  # of the tokens of a layer, where it is not H * E

    @property
    def even(self) -> int:
        """An even number of features."""
        return self.E + self.E % 2

    @property
    def model(self) -> int:
        """The width of all heads together."""
        return self.width or self.H * self.E


class Sample(NamedTuple):
    """One observed call of one attention: per head, after projection, before they are joined."""

    query: Tensor  # (N, H, L, E)
    key: Tensor  # (N, H, S, E)
    value: Tensor  # (N, H, S, Ev)
    output: Tensor  # (N, H, L, Ev)
    sizes: Sizes  # with one head where it knows none
    allowed: Tensor | None = None  # the mask that it got, (N, H, L, S), True = may attend
    seen: Tensor | None = None  # its weights, where they were seen

    @property
    def products(self) -> Tensor:
        """The dot products of every query with every key, in float64."""
        return self.query.double() @ self.key.double().mT


class Way(NamedTuple):
    """One way to do one step."""

    cause: str | None  # name of the finding; None where it is correct
    words: str  # ``{taken}`` and the like are filled with what was measured
    compute: Callable  # what the step gives; None where this way does not fit the sizes
    advice: str = ""  # how to mend it, where more is known than the usual repair
    asked: bool = False  # some mean it so: it is asked, not accused


# --- the steps ------------------------------------------------------------------------------------

_NAMES = {"q": "query", "k": "key", "v": "value"}


def _sides(letters: str) -> Callable:
    return lambda *given: tuple(given["qkv".index(letter)] for letter in letters)


def _stray(letters: str) -> Way:
    """Return a way in which two of the three sides are not those that they should be."""
    one, other, averaged = (_NAMES[letter] for letter in letters)
    parts = [] if letters[:2] == "qk" else [f"the scores compare {one} with {other}"]
    parts += [] if letters[2] == "v" else [f"the output averages the rows of {averaged}"]
    sentence = " and ".join(parts)
    return Way("wrong-source", f"{sentence[0].upper()}{sentence[1:]}.", _sides(letters))


SIDES = (
    Way(None, "", _sides("qkv")),
    Way(
        "query-key-swapped",
        "Query and key are exchanged: row i of the scores belongs to key i. With as many queries "
        "as keys nothing but the numbers shows it.",
        _sides("kqv"),
    ),
    Way(
        "key-value-swapped",
        "Key and value are exchanged: the query is compared with value, key is averaged.",
        _sides("qvk"),
    ),
    *map(_stray, "qqv kkv qkk qkq kvq vkq vqk qvv vkv vvv qqq kkk kqk kqq".split()),
)


def _cosine(one: Tensor, other: Tensor) -> Tensor:
    return F.normalize(one, dim=-1) @ F.normalize(other, dim=-1).mT


def _not_dot(how: str, compute: Callable) -> Way:
    return Way("scores-not-dot-products", f"The scores compare query with key {how}.", compute)


PRODUCTS = (
    Way(None, "", lambda one, other: one @ other.mT),
    _not_dot("by cosine, not by dot product", _cosine),
    _not_dot("by distance, not by dot product", lambda one, other: -torch.cdist(one, other)),
)


def _law(name: str, words: str, compute: Callable[[Sizes], float]) -> Way:
    told = "with d_k = {E} the factor is {factor} instead of {right}"
    return Way(name, f"The dot products {words}: {told}.", compute)


RIGHT_SCALE = Way(None, "", lambda size: size.E**-0.5)
SCALES = (
    RIGHT_SCALE,
    _law("scale-missing", "are not scaled at all", lambda size: 1.0),
    _law("scale-d", "are divided by d_k itself, not by its square root", lambda size: 1 / size.E),
    _law("scale-inverse", "are multiplied by the square root of d_k", lambda size: size.E**0.5),
    _law("scale-inverse", "are multiplied by d_k", lambda size: float(size.E)),
    _law("scale-other", "are divided by the fourth root of d_k", lambda size: size.E**-0.25),
    _law(
        "scale-model",
        "are divided by the square root of the width of the model, d_k times the number of heads",
        lambda size: size.model**-0.5,
    ),
    _law("scale-length", "are divided by the square root of L, the queries", lambda n: n.L**-0.5),
    _law("scale-length", "are divided by the square root of S, the keys", lambda n: n.S**-0.5),
    _law("scale-length", "are divided by S, the number of keys", lambda size: 1 / size.S),
    _law("scale-model", "are divided by the width of the model", lambda size: 1 / size.model),
    _law("scale-other", "are divided by the square root of Ev, the features of a value",
         lambda size: size.Ev**-0.5),
)  # fmt: skip


def _triangle(diagonal: int, *, upper: bool = False) -> Callable:
    def allowed(queries: int, keys: int) -> Tensor:
        ones = torch.ones(queries, keys, dtype=torch.bool)
        return ones.triu(diagonal) if upper else ones.tril(diagonal)

    return allowed


_UPSIDE_DOWN = "Every query sees only later keys: the causal mask is upside down."
DENSE = Way(None, "", lambda queries, keys: None)
CAUSAL = Way(None, "", _triangle(0))
ENDS = Way(None, "", lambda queries, keys: _triangle(keys - queries)(queries, keys))
ONE_AHEAD = Way(
    "causal-off-by-one",
    "Every query sees one key too many: its successor. The diagonal is off by one.",
    _triangle(1),
)
ONE_BEHIND = Way(
    "causal-off-by-one",
    "No query sees its own key, so query 0 sees nothing: the diagonal is off by one.",
    _triangle(-1),
)
ORDERS = (
    DENSE,
    CAUSAL,
    ENDS,
    ONE_AHEAD,
    ONE_BEHIND,
    Way("causal-flipped", _UPSIDE_DOWN, _triangle(0, upper=True)),
    Way("causal-flipped", _UPSIDE_DOWN, _triangle(1, upper=True)),
)

Softmax = Callable[[Tensor], Tensor]


def _filled(
    which: Callable[[Tensor, Tensor], Tensor | None], value: float = -math.inf
) -> Callable[[Tensor, Tensor, Softmax], Tensor | None]:
    """Return a masking that fills where ``which`` (scores, allowed) says so."""

    def masked(scores: Tensor, allowed: Tensor, softmax: Softmax) -> Tensor | None:
        blocked = which(scores, allowed)
        return None if blocked is None else softmax(scores.masked_fill(blocked, value))

    return masked


def _turned(scores: Tensor, allowed: Tensor) -> Tensor | None:
    return ~allowed.mT if scores.shape[-1] == scores.shape[-2] else None


TAKEN = "{keys} still take {taken} of a query's weight"
MASK_ORDER = (
    "{The_mask} comes after the softmax: the weights of a query sum to {sums} instead of 1."
)
MASK_ZERO = f"The score of a blocked key becomes 0, or next to it, and e to the 0 is 1: {TAKEN}."
MASK_ADDED = f"{{The_mask}} is added as 0 and 1, which moves a score by 1: {TAKEN}.{{additive}}"
ADDITIVE = ' If it is meant to hold 0 and minus infinity, call diagnose(..., mask="additive").'
BLOCK = Way(None, "", _filled(lambda scores, allowed: ~allowed))
IGNORE = Way(
    "mask-ignored",
    f"{{The_mask}} changes nothing: {TAKEN}.",
    lambda scores, allowed, softmax: softmax(scores),
)
INVERT = Way(
    "mask-inverted",
    "True blocks a key in this mask, as in nn.MultiheadAttention; if that is what you mean, call "
    'diagnose(..., mask="blocked"). In F.scaled_dot_product_attention, and by default in '
    "diagnose, True means “may attend”. Read that way, the blocked keys take {taken} of a query's "
    "weight.",
    _filled(lambda scores, allowed: allowed),
)
MASKINGS = (
    BLOCK,
    IGNORE,
    INVERT,
    Way("mask-after-softmax", MASK_ORDER, lambda x, may, softmax: softmax(x) * may),
    Way("mask-after-softmax", MASK_ORDER, lambda x, may, softmax: softmax(x) * ~may),
    Way("mask-multiplied", MASK_ZERO, lambda x, may, softmax: softmax(x * may)),
    Way("mask-multiplied", MASK_ZERO, lambda x, may, softmax: softmax(x * ~may)),
    Way("mask-added", MASK_ADDED, lambda x, may, softmax: softmax(x + may)),
    Way("mask-added", MASK_ADDED, lambda x, may, softmax: softmax(x + ~may)),
    Way(
        "mask-queries",
        "{The_mask} is used transposed: it blocks queries instead of keys, so that {keys} take "
        "{taken} of a query's weight.",
        _filled(_turned),
    ),
)


def _over(dim: int) -> Callable:
    def softmax(scores: Tensor, factor: float) -> Tensor | None:
        return scores.softmax(dim) if scores.shape[dim] > 1 else None

    return softmax


def _axis(of: str, compute: Callable) -> Way:
    words = f"The softmax runs over {of}, not over the keys: the weights of a query sum to"
    return Way("softmax-axis", f"{words} {{sums}} instead of 1.", compute)


def _unlike_softmax(words: str, compute: Callable) -> Way:
    told = f"{words} The weights of a query sum to {{sums}} instead of 1."
    return Way("not-normalised", told, compute)


SOFTMAXES = (
    Way(None, "", lambda scores, factor: scores.softmax(-1)),
    _axis("the queries", _over(-2)),
    _axis("the heads", _over(-3)),
    _axis("the sequences of the batch", _over(-4)),
    _axis("the whole table of scores", lambda x, factor: x.flatten(-2).softmax(-1).view_as(x)),
    _axis("all scores at once", lambda x, factor: x.flatten().softmax(0).view_as(x)),
    _unlike_softmax(
        "The raw scores are used as weights, without a softmax.", lambda scores, factor: scores
    ),
    _unlike_softmax(
        "Each weight is a sigmoid of its own score, so the keys do not compete.",
        lambda scores, factor: scores.sigmoid(),
    ),
    Way(
        "scores-not-dot-products",
        "The softmax is applied twice: its weights, between 0 and 1, are taken for scores.",
        lambda scores, factor: scores.softmax(-1).softmax(-1),
        "apply softmax once.",
    ),
    Way(
        "wrong-source",
        "Every key gets the same weight, whatever query and key are.",
        lambda scores, factor: torch.zeros_like(scores).softmax(-1),
    ),
)

AFTER = (
    Way(None, "", lambda weights: weights),
    Way(
        "position-mixing",
        "The weights are transposed before they meet the values: row i of the output uses the "
        "weights that every query gives to key i.",
        lambda weights: weights.mT if weights.shape[-1] == weights.shape[-2] else None,
    ),
    Way(
        "position-mixing",
        "The rows of the output come in the opposite order.",
        lambda weights: weights.flip(-2),
    ),
)

HIDINGS = ("mask-after-softmax", "mask-multiplied", "mask-added")  # of what it blocks by itself
STEPS = {
    "sides": SIDES,
    "product": PRODUCTS,
    "scale": SCALES,
    "order": ORDERS,
    "hiding": tuple(way for way in MASKINGS if way.cause in (None, *HIDINGS)),
    "masking": MASKINGS,
    "softmax": SOFTMAXES,
    "after": AFTER,
}
PAIRS = (
    ("scale", "sides"),
    ("scale", "product"),
    ("scale", "softmax"),
    ("scale", "after"),
    ("scale", "hiding"),
    ("order", "hiding"),
)


# --- recipes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """One way for each step.

    ``order`` is what the attention blocks by itself and ``hiding`` how; ``masking`` is how it uses
    the mask that it gets.
    """

    sides: Way = SIDES[0]
    product: Way = PRODUCTS[0]
    scale: Way = RIGHT_SCALE
    order: Way = DENSE
    hiding: Way = BLOCK
    masking: Way = BLOCK
    softmax: Way = SOFTMAXES[0]
    after: Way = AFTER[0]

    @property
    def slips(self) -> tuple[Way, ...]:
        """The steps that are wrong."""
        return tuple(way for way in vars(self).values() if way.cause is not None)

    def scores(self, sample: Sample) -> Tensor | None:
        """Return the scores before any mask, in float64; None where sizes do not fit."""
        one, other, _ = self._given(sample)
        if one.shape[-1] != other.shape[-1]:
            return None
        return self.product.compute(one, other) * self.scale.compute(sample.sizes)

    def _given(self, sample: Sample) -> tuple[Tensor, Tensor, Tensor]:
        return self.sides.compute(*(part.double() for part in sample[:3]))

    def weights(self, sample: Sample) -> Tensor | None:
        """Return the weights (N, H, L, S), in float64; None where sizes do not fit."""
        scores = self.scores(sample)
        if scores is None:
            return None
        factor = self.scale.compute(sample.sizes)

        def softmax(scores: Tensor) -> Tensor | None:
            return self.softmax.compute(scores, factor)

        uses = [
            (self.masking, sample.allowed),
            (self.hiding, self.order.compute(*scores.shape[-2:])),
        ]
        for way, allowed in uses:
            if allowed is not None:
                softmax = _masked(way, allowed.expand_as(scores), softmax)
        weights = softmax(scores)
        return None if weights is None else self.after.compute(weights)

    def output(self, sample: Sample) -> Tensor | None:
        """Return the output (N, H, L, Ev), in float64; None where sizes do not fit."""
        weights, value = self.weights(sample), self._given(sample)[2]
        if weights is None or weights.shape[-1] != value.shape[-2]:
            return None
        return weights @ value

    def gives(self, sample: Sample) -> bool:
        """Return whether it gives the output of a sample."""
        output = self.output(sample)
        return output is not None and same(sample.output, output)


def _masked(way: Way, allowed: Tensor, softmax: Softmax) -> Softmax:
    if allowed.dtype != torch.bool:  # a measured order may be what is added to the scores
        return lambda scores: softmax(scores + allowed)
    return lambda scores: way.compute(scores, allowed, softmax)


def explain(
    samples: Iterable[Sample], start: Recipe = Recipe(), steps: Iterable[str] = tuple(STEPS)
) -> Recipe | None:
    """Return the recipe with at most two slips that gives the output of every sample.

    ``start`` says what is known of the steps that are not open. Samples of several sizes tell laws
    of the sizes apart.
    """
    samples = list(samples)
    return next(
        (recipe for recipe in recipes(start, tuple(steps)) if all(map(recipe.gives, samples))), None
    )


def recipes(start: Recipe, steps: tuple[str, ...]) -> Iterator[Recipe]:
    """Yield recipes with more and more slips, from what ``start`` says of the other steps."""
    bases = [start]
    if "order" in steps and start.order is DENSE:
        bases.append(replace(start, order=CAUSAL))
        yield from bases
        yield replace(start, order=ENDS)  # of the last queries, as with a cache
    yield from bases
    for base in bases:
        for step in steps:
            yield from _changed(base, step)
    for base in bases:
        for one, other in PAIRS:
            if one in steps and other in steps:
                for changed in _changed(base, one):
                    yield from _changed(changed, other)


def _changed(base: Recipe, step: str) -> Iterator[Recipe]:
    if step == "hiding" and base.order is DENSE:
        return
    for way in STEPS[step]:
        if way.cause is not None:
            yield replace(base, **{step: way})


def same(one: Tensor, expected: Tensor) -> bool:
    """Return whether two tensors agree up to rounding.

    Rows of ``expected`` that are not finite belong to queries without a key and may hold anything.
    """
    if one.shape != expected.shape:
        return False
    known = expected.isfinite().all(dim=-1, keepdim=True).expand_as(expected)
    if not known.any() or not one[known].isfinite().all():
        return False
    tolerance = EXACT if one.dtype == torch.float64 else SURE
    one, expected = one.detach().double()[known], expected[known]
    return bool(((one - expected).abs() <= tolerance * expected.abs().max().clamp_min(1e-6)).all())


# --- what is measured -----------------------------------------------------------------------------


class Fit(NamedTuple):
    """How far the logarithms of weights follow scores: ``log w = factor * score`` in each row."""

    factor: float
    residual: float  # relative to the spread of the logarithms; 0 is a perfect fit

    @property
    def good(self) -> bool:
        """Whether the weights are a softmax of these scores."""
        return self.residual < 0.01


def fit_scores(weights: Tensor, scores: Tensor, *, dim: int = -1) -> Fit:
    """Return the factor between scores and the logarithms of weights, both (..., L, S).

    Softmax ran over ``dim``: logarithms are known up to a constant along it.
    """
    scores = scores.double()
    visible = weights > VISIBLE * weights.amax(dim=dim, keepdim=True)
    logs = weights.clamp_min(1e-300).log()
    best = weights.argmax(dim=dim, keepdim=True)
    y = (logs - logs.gather(dim, best))[visible]
    x = (scores - scores.gather(dim, best))[visible]
    if not y.numel() or float(x.norm()) == 0 or not (x.isfinite().all() and y.isfinite().all()):
        return Fit(float("nan"), float("inf"))
    factor = float((x * y).sum() / (x * x).sum())
    spread = float(y.norm())
    return Fit(factor, float((y - factor * x).norm()) / spread if spread > 1e-6 else float("inf"))


def measured_weights(sample: Sample) -> Tensor:
    """Return the weights behind an output; the rows of ``value`` must be independent."""
    if sample.seen is not None:
        return sample.seen
    return sample.output.double() @ torch.linalg.pinv(sample.value.double())


def measured_scale(samples: Iterable[Sample]) -> Way | None:
    """Return the factors on the dot products, by their law if there is one; None if they vary."""
    factors: dict[Sizes, float] = {}
    for sample in samples:
        fit = fit_scores(measured_weights(sample), sample.products)
        if not fit.good:
            return None
        factors[sample.sizes] = fit.factor
    return scale_of(factors)


def scale_of(factors: dict[Sizes, float]) -> Way:
    """Return the law that factors follow, or the factors themselves."""
    for way in SCALES:
        if all(abs(way.compute(size) - one) < SURE * abs(one) for size, one in factors.items()):
            return way
    factor, *others = factors.values()
    alike = others and max(abs(one - factor) for one in others) < 10 * SURE * abs(factor)
    if alike or (not others and factor and abs(factor**-2 - round(factor**-2)) < 1e-4):
        words = f"The dot products are multiplied by {factor:.4g}, which is right for d_k = "
        return Way("scale-constant", f"{words}{factor**-2:.4g} only.", lambda size: factor)
    told = ", ".join(
        f"{one:.4g} for d_k = {size.E}"
        for size, one in sorted(factors.items(), key=lambda item: item[0].E)
    )
    words = f"The dot products are not divided by the square root of d_k: the factor is {told}."
    return Way("scale-other", words, lambda size: factors.get(size, size.E**-0.5))


def measured_sink(samples: Iterable[Sample], base: Recipe) -> Way | None:
    """Return a softmax that gives a part of each weight to a sink of its head; None if none fits.

    ``base`` says everything else: the exponentials are divided by their sum and a constant.
    """
    found = []
    for sample in samples:
        scores, order = base.scores(sample), base.order.compute(*sample.products.shape[-2:])
        if order is not None:
            scores = scores.masked_fill(~order, -math.inf)
        total, sums = scores.exp().sum(-1), measured_weights(sample).sum(-1)
        constant = total / sums - total
        alike = (constant - constant[:1, :, :1]).abs().max() < 10 * SURE * constant.abs().max()
        if not alike or not (constant > SURE).all():
            return None
        found.append(constant[:1, :, :1, None])
    heads = next((one for one in found if one.max() - one.min() > SURE), found[0][:, :1])

    def softmax(scores: Tensor, factor: float) -> Tensor | None:
        return scores.exp() / (scores.exp().sum(-1, keepdim=True) + heads)

    words = "A part of every query's weight goes to a sink: those of the keys sum to {sums}."
    return Way("not-normalised", words, softmax, asked=True)


def measured_masking(scores: Tensor, weights: Tensor, allowed: Tensor) -> Way:
    """Return what became of blocked keys where no named masking fits; it computes nothing.

    ``scores`` are those before the mask, and every row of ``allowed`` has a key; all (..., L, S).
    """
    taken = weights.masked_fill(allowed, 0).sum(dim=-1)
    if not weights.isfinite().all():
        holes = int((~weights.isfinite()).any(dim=-1).sum())
        return _measured(
            "nan", f"With a mask that leaves every query a key, {holes} rows of weights hold NaN."
        )
    if weights.min() < -SURE or weights.max() > 1 + SURE:
        words = "With {the_mask} the weights of a query sum to {sums} instead of 1."
        return _measured("not-normalised", words)
    if taken.abs().max() < 1e-7:
        words = "{Keys} get nothing, but allowed keys lose weight too: a row sums to {sums}."
        return _measured("mask-leak", words)
    implied = _implied(scores, weights, allowed)
    for what, moved in (("set to", implied), ("moved by", implied - scores)):
        at = moved[~allowed.expand_as(moved) & (weights > 1e-9)]
        value = float(at.mean()) if at.numel() > 1 else 0.0
        alike = at.numel() > 1 and float((at - value).abs().max()) < 0.02 * max(1.0, abs(value))
        if alike and abs(value) <= 0.02 and what == "set to":
            return _measured("mask-multiplied", MASK_ZERO)
        if alike and abs(value) > 0.02:
            return _measured(
                "mask-finite",
                f"The scores of {{keys}} are {what} {value:.3g} instead of minus infinity: "
                f"{{keys}} still take up to {taken.max():.3g} of a query's weight.",
            )
    return _measured("mask-leak", "{Keys} still take {taken} of a query's weight.")


def _measured(cause: str, words: str) -> Way:
    return Way(cause, words, lambda *given: None)


def _implied(scores: Tensor, weights: Tensor, allowed: Tensor) -> Tensor:
    """Return the scores that would give these weights, level with ``scores`` at allowed keys."""
    logs = weights.clamp_min(1e-300).log()
    anchor = weights.masked_fill(~allowed, -1).argmax(dim=-1, keepdim=True)
    return logs - logs.gather(-1, anchor) + scores.gather(-1, anchor)


# --- what is said ---------------------------------------------------------------------------------


def report(
    recipe: Recipe,
    samples: Iterable[Sample],
    results: Results,
    *,
    weights: Tensor | None = None,
    mask: str = "the mask",
) -> None:
    """Report every slip of a recipe, with what the samples show.

    ``weights`` are those of the last sample, where the recipe cannot compute them; ``mask`` is what
    the mask of the caller is called.
    """
    samples = list(samples)
    sample = samples[-1]
    made = recipe.weights(sample) if weights is None else weights
    for step in sorted(STEPS, key="scale".__eq__):  # what is most wrong first, a factor last
        way = getattr(recipe, step)
        if way.cause is None:
            continue
        order = recipe.order.compute(*sample.products.shape[-2:])
        hidden, words = sample.allowed, (mask, "blocked keys")
        if step == "hiding":
            hidden, words = order, ("the causal mask", "later keys", "")
        told = numbers(recipe, sample, made, hidden, *words)
        evidence = _evidence(step, recipe, samples, made, hidden)
        if way.asked:
            results.ask(way.cause, way.words.format(**told))
        else:
            results.found(way.cause, way.words.format(**told), evidence, advice=way.advice)


def numbers(
    recipe: Recipe,
    sample: Sample,
    weights: Tensor | None,
    allowed: Tensor | None,
    mask: str = "the mask",
    keys: str = "blocked keys",
    additive: str = ADDITIVE,
) -> dict[str, object]:
    """Return what the words of a way are filled with."""
    E, told = sample.sizes.E, {"sums": "nothing", "taken": "a part", "additive": additive}
    told |= {"keys": keys, "Keys": _capital(keys), "The_mask": _capital(mask), "the_mask": mask}
    told |= {"factor": f"{recipe.scale.compute(sample.sizes):.4g}", "right": f"{E**-0.5:.4g}"}
    told |= {"E": E} if weights is None else {"E": E, "sums": span(weights.sum(dim=-1))}
    if weights is not None and allowed is not None:
        told["taken"] = span(weights.masked_fill(allowed.expand_as(weights), 0).sum(dim=-1))
    return told


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def span(values: Tensor) -> str:
    """Return from where to where numbers go; one number if they are all the same."""
    values = values[values.isfinite()]
    if not values.numel():
        return "NaN"
    low, high = f"{values.min():.2f}", f"{values.max():.2f}"
    return high if low == high else f"between {low} and {high}"


def _evidence(
    step: str, recipe: Recipe, samples: list[Sample], weights: Tensor | None, allowed: Tensor | None
) -> Evidence | None:
    if step == "scale":
        sizes = sorted({sample.sizes for sample in samples}, key=lambda size: size.E)
        factors = torch.tensor([[recipe.scale.compute(size), size.E**-0.5] for size in sizes])
        rows = tuple(f"d_k = {size.E}" for size in sizes)
        return Evidence("Factor on query · key:", factors.double(), rows, ("used", "1/sqrt(d_k)"))
    if weights is None:
        return None
    if step in ("hiding", "masking") and allowed is not None:
        return masked_table(weights, allowed)
    return weights_table("Weights of the first sequence:", weights, sums=step == "softmax")


def weights_table(caption: str, weights: Tensor, *, sums: bool = False) -> Evidence:
    """Return the weights of the first sequence as a table, with the sums of its rows if wanted."""
    table = weights.detach().double().reshape(-1, *weights.shape[-2:])[0]
    table = table.masked_fill(table.abs() < 1e-6, 0.0)  # what rounding leaves
    rows = tuple(f"query {i}" for i in range(table.shape[0]))
    columns = tuple(f"key {j}" for j in range(table.shape[1]))
    if sums:
        table, columns = torch.cat([table, table.sum(-1, keepdim=True)], -1), (*columns, "sum")
    return Evidence(caption, table, rows, columns, shaded=True)


def masked_table(weights: Tensor, allowed: Tensor) -> Evidence:
    """Return the weights of the first sequence, and what blocked keys take of each row."""
    evidence = weights_table("", weights)
    may = allowed.expand_as(weights).reshape(-1, *weights.shape[-2:])[0]
    leaked = evidence.values.masked_fill(may, 0).sum(dim=-1, keepdim=True)
    marks = ("".join("." if one else "x" for one in row) for row in may.tolist())
    return Evidence(
        "Weights of the first sequence; x marks a blocked key:",
        torch.cat([evidence.values, leaked], dim=-1),
        tuple(f"{name} ({mark})" for name, mark in zip(evidence.rows, marks, strict=True)),
        (*evidence.columns, "on blocked"),
        shaded=True,
    )


def tell_sums(weights: Tensor, results: Results) -> bool:
    """Say so if the weights of a query do not sum to 1."""
    weights = weights.nan_to_num(nan=0.0)  # of rows without a key

    def ones(dim: int) -> bool:
        sums = weights.sum(dim)
        return bool(((sums[sums != 0] - 1).abs() < 2e-3).all())

    if ones(-1) and weights.min() > -SURE:
        return False
    axes = {-2: "queries", 1: "heads", 0: "sequences of the batch"}
    over = [of for dim, of in axes.items() if weights.shape[dim] > 1 and ones(dim)]
    name, told = "not-normalised", "The weights"
    if over:
        name = "softmax-axis"
        told = f"The softmax runs over the {over[0]}, not over the keys: the weights"
    sentence = f"{told} of a query sum to {span(weights.sum(dim=-1))} instead of 1."
    if ones(-1):
        sentence = f"Some weights are negative, such as {weights.min():.2g}: no softmax gives them."
    table = weights_table("Weights of the first sequence:", weights, sums=True)
    results.found(name, sentence, table)
    return True
