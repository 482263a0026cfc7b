"""Every named way to do a step of attention, the correct one first."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.clinic.sample import Sizes, Way

# --- the steps ------------------------------------------------------------------------------------

_NAMES = {"q": "query", "k": "key", "v": "value"}


def _from(letters: str) -> Callable:
    return lambda *given: tuple(given["qkv".index(letter)] for letter in letters)


def _stray(letters: str) -> Way:
    """Return a way in which two of the three sides are not those that they should be."""
    compared, against, averaged = (_NAMES[letter] for letter in letters)
    parts = [] if letters[:2] == "qk" else [f"the scores compare {compared} with {against}"]
    parts += [] if letters[2] == "v" else [f"the output averages the rows of {averaged}"]
    sentence = " and ".join(parts)
    return Way("wrong-source", f"{sentence[0].upper()}{sentence[1:]}.", _from(letters))


SIDES = (
    Way(None, "", _from("qkv")),
    Way(
        "query-key-swapped",
        "Query and key are exchanged: row i of the scores belongs to key i. With as many queries "
        "as keys nothing but the numbers shows it.",
        _from("kqv"),
    ),
    Way(
        "key-value-swapped",
        "Key and value are exchanged: the query is compared with value, key is averaged.",
        _from("qvk"),
    ),
    *map(_stray, "qqv kkv qkk qkq kvq vkq vqk qvv vkv vvv qqq kkk kqk kqq".split()),
)


def _cosine(query: Tensor, key: Tensor) -> Tensor:
    return F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).mT


def _not_dot(how: str, compute: Callable) -> Way:
    return Way("scores-not-dot-products", f"The scores compare query with key {how}.", compute)


PRODUCTS = (
    Way(None, "", lambda query, key: query @ key.mT),
    _not_dot("by cosine, not by dot product", _cosine),
    _not_dot("by distance, not by dot product", lambda query, key: -torch.cdist(query, key)),
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


def _repeated(scores: Tensor, allowed: Tensor) -> Tensor | None:
    N, H = allowed.shape[:2]
    return ~allowed[:, 0].repeat(H, 1, 1).view_as(allowed) if N > 1 and H > 1 else None


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
REPEATED = Way(
    "mask-leak",
    "{The_mask} is repeated in the wrong order: heads get the masks of other sequences, so "
    "that {keys} take {taken} of a query's weight.",
    _filled(_repeated),
    "repeat every mask for all heads of its sequence: mask.repeat_interleave(H, dim=0).",
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
    _axis(
        "the queries of all sequences",
        lambda x, factor: (
            x.transpose(0, 1).flatten(1, 2).softmax(1).view_as(x.transpose(0, 1)).transpose(0, 1)
        ),
    ),
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
