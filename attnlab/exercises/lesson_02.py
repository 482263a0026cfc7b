"""The checks of lesson 2: why divide by the square root of d_k."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.checks import shape
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Answer, Either, Right, Wrong, number
from attnlab.exercises.frame.forms import Check, Compared, Value, randoms

# --- one division ---------------------------------------------------------------------------------


def scores(query: Tensor, key: Tensor, divisor: float | None = None) -> Tensor:
    """Return dot products divided by a number, the square root of d_k if none is given."""
    return query @ key.transpose(-2, -1) / (divisor or root(query))


def root(query: Tensor, _key: Tensor | None = None) -> float:
    """Return the square root of d_k."""
    return query.shape[-1] ** 0.5


def attention(
    divisor: Callable[[Tensor, Tensor], float] = root, dim: int = -1
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return attention whose scores are divided by some number, made of query and key."""
    return lambda query, key, value: (
        scores(query, key, divisor(query, key)).softmax(dim=dim) @ value
    )


@Compared(
    right=attention(),
    slips={
        "In all, a score is divided by d_k: either once by d_k, or by its square root in the query "
        "and again in the key.": attention(lambda query, _key: query.shape[-1]),
        "Now nothing is divided. The raw scores of a head with 256 features have a spread of 16. "
        "Keep one of the two divisions.": attention(lambda *_: 1),
        "Query and key are both divided by the number of features, so the scores are divided by "
        "its square.": attention(lambda query, _key: query.shape[-1] ** 2),
        "In d_k ** 1/2 the power comes before the division. Write d_k ** 0.5.": Either(
            *(attention(lambda query, _key, n=n: n * query.shape[-1]) for n in (0.5, 2))
        ),
        "The divisor counts tokens. Take the number of features, which is the last dimension, "
        "shape[-1].": Either(
            attention(lambda _query, key: key.shape[-2] ** 0.5),
            attention(lambda query, _key: query.shape[-2] ** 0.5),
            attention(lambda query, key: (query.shape[-2] * key.shape[-2]) ** 0.5),
            attention(lambda _query, key: len(key) ** 0.5),
        ),
        "The divisor is the same for every head. It must be the square root of the number of "
        "features that the query has.": Either(
            *(attention(lambda *_, fixed=fixed: fixed) for fixed in (2, 4, 8, 16, 32))
        ),
        "The scores are divided by the fourth root of d_k. If query and key share the division, "
        "each needs the fourth root; if only one of them has it, it needs the square root.": (
            attention(lambda query, _key: query.shape[-1] ** 0.25)
        ),
        "Your softmax runs over another axis than the keys. Let it run over the last axis.": (
            attention(dim=-2)
        ),
        "This is right for one sequence and wrong for a batch. Count the dimensions from the end, "
        "with -1.": Either(
            *(
                attention(lambda query, _key, axis=axis: query.shape[axis] ** 0.5, dim)
                for axis, dim in ((1, 1), (1, -1), (-1, 1))
            ),
            attention(lambda _query, key: key.shape[1] ** 0.5),
        ),
        "The softmax is missing between the scores and the values.": (
            lambda query, key, value: scores(query, key) @ value
        ),
        "These are the weights. Multiply them by the values.": (
            lambda query, key, _value: scores(query, key).softmax(dim=-1)
        ),
        "The values, weights or output are divided. Divide the scores.": lambda *inputs: (
            attention(lambda *_: 1)(*inputs) / root(inputs[0])
        ),
        "The scores are multiplied by the square root of d_k. Divide them.": (
            attention(lambda query, _key: query.shape[-1] ** -0.5)
        ),
    },
    errors=voice.TRANSPOSED,
    misshapen=voice.FROM_THE_END,
    otherwise="The scores must be the dot products divided once by the square root of the number "
    "of features, query.shape[-1].",
    verified="The scores are divided once, by the square root of the number of features, in heads "
    "of 11, 16, 64 and 256 features and in a batch.",
    keeps_inputs=True,
)
def check_divided_once() -> Iterator[tuple[str, tuple]]:
    """Check attention whose scores were divided twice.

    Verified: the output, for heads of four sizes, alone and in a batch.

    Parameters
    ----------
    answer
        A function of query (..., L, E), key (..., S, E) and value (..., S, Ev) that returns the
        output (..., L, Ev).

    See Also
    --------
    attnlab.scaled_dot_product_attention : divides by sqrt(E) unless told otherwise.
    """
    for lead, features in (((), 11), ((), 16), ((2,), 64), ((2,), 256)):
        sizes = (*lead, 5, features), (*lead, 7, features), (*lead, 7, 3)
        query, key, value = randoms(*sizes)
        case = f"query {shape(query)}, key {shape(key)} and value {shape(value)}"
        yield case, (query, key, value)


# --- a start without a division -------------------------------------------------------------------

LOW, HIGH = 0.7, 1.4
NAMES, WIDTH = 32, 64


def matrices(value: object) -> Tensor:
    """Return two matrices as one tensor of float64."""
    if isinstance(value, tuple | list) and all(isinstance(matrix, Tensor) for matrix in value):
        value = torch.stack(tuple(value))
    if not isinstance(value, Tensor):
        raise Wrong(voice.returned(voice.kind_of(value), "both matrices in one tensor, w"))
    return value.detach().double()


def spread_of(value: object, d_k: int) -> float:
    """Return the spread of the scores that two matrices make of the names, not divided."""
    w = matrices(value)
    if w.shape != (2, WIDTH, d_k):
        raise Wrong(voice.returned(voice.kind_of(value), f"a tensor of shape (2, {WIDTH}, {d_k})"))
    if not w.isfinite().all():
        raise Wrong(voice.returned("a tensor with NaN or infinity", "finite numbers"))
    if w.any() and torch.linalg.matrix_rank(w).min() < min(WIDTH, d_k):
        raise Wrong(
            f"With d_k = {d_k}, features of queries or keys are copies or mixtures of others. Draw "
            "each number of the matrices by itself, with torch.randn."
        )
    if (w.mean(dim=(1, 2)).abs() > w.std(dim=(1, 2)) / 4).any():
        raise Wrong(
            f"With d_k = {d_k}, the mean of a matrix is {w.mean():.2g}. Draw numbers whose mean is "
            "0, as torch.randn does."
        )
    if w.any() and torch.cosine_similarity(*w.flatten(1), dim=0).abs() > 0.5:
        raise Wrong(
            "The two matrices are the same, or multiples of each other, so the query of a name is "
            "a multiple of its key. Draw them separately."
        )
    generator = torch.Generator().manual_seed(0)
    names = torch.randn(NAMES, WIDTH, dtype=torch.float64, generator=generator)
    query, key = names @ w
    return (query @ key.mT).std().item()


@dataclass(frozen=True, kw_only=True)
class Spread(Check):
    """A check of a function that draws two matrices for a head of some size."""

    verified: str

    def decide(self, body: Callable, answer: Answer) -> Right:
        """Measure the spread of the scores at every size; a mistake has spreads of its own."""
        found = {
            d_k: answer.ask(d_k, read=partial(spread_of, d_k=d_k), case=f"d_k = {d_k}")
            for d_k in body()
        }
        d_k = next((d_k for d_k in found if not LOW < found[d_k] < HIGH), None)
        if d_k is None:
            return Right(self.verified)

        def fits(slip: Callable) -> bool:
            ratios = (found[size] / spread_of(slip(size), size) for size in found)
            return all(1 / HIGH < ratio < HIGH for ratio in ratios)

        why = answer.slip(fits) or (
            "A score is a product of a query and a key, so its spread is the product of the "
            f"spreads of both matrices, times 64 · √{d_k}."
        )
        raise Wrong(
            f"With d_k = {d_k}, the scores have a spread of {found[d_k]:.3g}, which is not between "
            f"{LOW} and {HIGH}. {why}"
        )


Size = Callable[[int], float]  # a number made of d_k


def drawn(first: Size, second: Size | None = None) -> Callable[[int], Tensor]:
    """Return a function that draws two matrices, divided by one number or by two."""

    def start(d_k: int) -> Tensor:
        divisors = torch.tensor([float(first(d_k)), float((second or first)(d_k))])
        return torch.randn(2, WIDTH, d_k) / divisors[:, None, None]

    return start


@Spread(
    slips={
        "This is the start of the lesson. It is still followed by a division, so make one of the "
        "matrices smaller by √d_k, or both by its square root.": drawn(lambda _: 8),
        "Both matrices are smaller by √d_k, or one of them by d_k. A score is a product of the "
        "two, so together they must be smaller by √d_k.": Either(
            drawn(lambda d_k: 8 * d_k**0.5), drawn(lambda d_k: 8 * d_k, lambda _: 8)
        ),
        "That is half of what is needed. Only one of the matrices is smaller by the fourth root "
        "of d_k.": drawn(lambda d_k: 8 * d_k**0.25, lambda _: 8),
        "The division by 8 is missing, which makes up for the 64 features of a name.": Either(
            drawn(lambda d_k: d_k**0.25), drawn(lambda _: 1)
        ),
        "Both matrices are divided by d_k alone. Divide them by 8, which makes up for the 64 "
        "features of a name, and together by √d_k.": drawn(lambda d_k: d_k),
        "In all, there is one division by 8. Each matrix needs one, for the 64 features of a "
        "name.": drawn(lambda d_k: d_k**0.5, lambda _: 8),
    },
    verified="Without a division, the scores begin with a spread near 1 in heads of 16 to 1,024 "
    "features.",
)
def check_small_start() -> tuple[int, ...]:
    """Check two matrices whose scores need no division at the start.

    Verified: the spread of the scores of the lesson's 32 names lies between 0.7 and 1.4, for heads
    of 16, 64, 100, 256 and 1,024 features.

    Parameters
    ----------
    answer
        A function of d_k that returns a tensor (2, 64, d_k).

    See Also
    --------
    torch.nn.init.normal_ : fills a matrix with random numbers of a given spread.
    """
    return 16, 64, 100, 256, 1024


# --- three logs -----------------------------------------------------------------------------------

RIGHT = "CAB", 256


def reading(value: object) -> tuple[str, float]:
    """Return three letters and a number."""
    wanted = 'three letters and a number, such as ("ABC", 64)'
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Wrong(voice.returned(voice.kind_of(value), wanted))
    letters, rate = value
    if isinstance(letters, tuple | list):
        letters = "".join(map(str, letters))
    if not isinstance(letters, str):
        raise Wrong(voice.returned(f"{voice.kind_of(letters)} first", wanted))
    letters = "".join(letter for letter in letters.upper() if letter.isalpha())
    if sorted(letters) != ["A", "B", "C"]:
        raise Wrong(voice.returned(f"“{value[0]}” first", f"each of A, B and C once: {wanted}"))
    if isinstance(rate, str):
        raise Wrong("The rate is a string. Return it without quotation marks.")
    return letters, number(rate)


def misread(said: tuple[str, float]) -> str:
    """Return which log was taken for another, or how the rate went wrong."""
    letters, rate = said
    plain, share = letters[0], {"A": 0.18, "B": 0.14}
    if plain in share:
        return (
            f"In {plain} the loudest tenth of the queries makes up only {share[plain]} of the "
            "total. Without a division it makes up much more: look for the uneven log."
        )
    if letters != RIGHT[0]:
        return (
            "C is the log without a division, but the other two are exchanged. The root needs no "
            "rate of 16. Which divisor makes every gradient too short for a rate of 1/8?"
        )
    reasons = {
        16: "At 512 features, a step at the same rate moves the scores a sixteenth as far as at "
        "32. So the rate must be higher.",
        64: "One step moves the scores in proportion to d_k / c², which is 1 / d_k for c = d_k. "
        "Sixteen times the features make it a sixteenth, not a quarter.",
        1: "The rate must become higher, not lower: at 512 features, a step at the same rate moves "
        "the scores a sixteenth as far as at 32.",
        4096: "The step is a sixteenth as long, not a 256th: d_k / c² is 1 / d_k for c = d_k.",
    }
    return reasons.get(
        rate,
        "The rate must make up for the step, which is proportional to 1 / d_k. By how much does "
        "1 / d_k change from 32 to 512?",
    )


@Value(
    read=reading,
    right=RIGHT,
    slips={
        misread(said): said
        for said in (*((logs, 256) for logs in ("ABC", "BAC", "CBA")), ("CAB", 16), ("CAB", 64))
    },
    otherwise=misread,
    verified="C is uneven, and of the two even logs B needs the high rate. At 512 features a step "
    "of B moves the scores a sixteenth as far, so the rate must be sixteen times as high.",
)
def check_three_logs(said: tuple[str, float]) -> str:
    """Check which log belongs to which divisor, and the rate that one of them needs.

    Verified: the three letters and the rate.

    Parameters
    ----------
    answer
        Three letters for "not divided", the root and d_k, and a learning rate, such as
        ("ABC", 64); or a function without arguments that returns them.

    See Also
    --------
    attnlab.explorers.ScalingExplorer : shows accuracies at many rates.
    """
    letters, rate = said
    return f"Your answer is {letters} and {rate:g}."


# --- scores that do not depend on lengths ---------------------------------------------------------

L, S, E = 5, 7, 11


def unit(x: Tensor) -> Tensor:
    """Return vectors rescaled to root mean square 1."""
    return x / x.square().mean(dim=-1, keepdim=True).sqrt()


def normed_by(*norms: Callable[[Tensor], Tensor]) -> Either:
    """Return scores of queries and keys that are rescaled in wrong ways."""
    return Either(*(lambda query, key, norm=norm: scores(norm(query), norm(key)) for norm in norms))


@Compared(
    right=lambda query, key: scores(unit(query), unit(key)),
    slips={
        "Queries and keys must both be rescaled. If either becomes ten times as large, the scores "
        "must not change.": Either(
            scores,
            lambda query, key: scores(unit(query), key),
            lambda query, key: scores(query, unit(key)),
        ),
        "The division by the square root of d_k is missing. The score of every query with itself "
        "is d_k, but it should be the square root of d_k.": lambda query, key: (
            unit(query) @ unit(key).transpose(-2, -1)
        ),
        "The scores are too small. Set the root mean square of each vector to 1, not its length, "
        "and divide the dot products by the square root of d_k, not by d_k.": Either(
            lambda query, key: scores(unit(query), unit(key)) / query.shape[-1] ** 0.5,
            lambda query, key: scores(unit(query), unit(key)) / query.shape[-1],
        ),
        "The mean is subtracted, as in LayerNorm or in a standard deviation. The root mean square "
        "subtracts nothing.": normed_by(
            lambda x: F.layer_norm(x, x.shape[-1:]),
            lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
            lambda x: x / x.std(-1, keepdim=True),
            lambda x: x / x.std(-1, keepdim=True, correction=0),
        ),
        "The mean is taken before the squares, or without them. Square first.": normed_by(
            lambda x: x / x.mean(-1, keepdim=True),
            lambda x: x / x.mean(-1, keepdim=True).abs(),
        ),
        "The square root of the mean is missing.": normed_by(
            lambda x: x / x.square().mean(-1, keepdim=True)
        ),
        "The mean must run over the features, dim=-1.": normed_by(
            lambda x: x / x.square().mean(-2, keepdim=True).sqrt(),
            lambda x: F.normalize(x, dim=-2) * x.shape[-1] ** 0.5,
        ),
        "That is the mean of absolute values. Take the square root of the mean of the squares.": (
            normed_by(lambda x: x / x.abs().mean(-1, keepdim=True))
        ),
        "These are weights. Return the scores, without a softmax.": (
            lambda query, key: scores(unit(query), unit(key)).softmax(dim=-1)
        ),
        "The number added against a division by 0 is too large for small queries and keys.": (
            normed_by(lambda x: x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt())
        ),
        "A single number rescales them all, but each query and each key needs its own.": normed_by(
            lambda x: x / x.norm(), lambda x: x / x.square().mean().sqrt()
        ),
    },
    what="scores",
    axes=("group", "sentence", "query", "key"),
    nan="They contain NaN, although every input is an ordinary number. Do you take the square "
    "root of a negative number?",
    errors=voice.TRANSPOSED
    | {
        f"a ({L}) must match the size of tensor b ({S})": "The scores have one row per query and "
        "one column per key. Turn the numbers of the keys into a row, with .mT."
    }
    | voice.KEEPDIM,
    misshapen=voice.FROM_THE_END,
    otherwise="Queries and keys need a root mean square of 1, and then the dot products must be "
    "divided by the square root of d_k.",
    verified="The score of every query with itself is the square root of d_k, whatever the length "
    "of the query. Rescaling a single query or key by a positive factor changes nothing.",
    atol=5e-3,  # a small number added against division by 0 is welcome
    rtol=5e-3,
    keeps_inputs=True,
)
def check_normed_scores() -> Iterator[tuple[str, tuple]]:
    """Check scores that do not depend on the lengths of queries and keys.

    Verified: every query and key by itself is brought to root mean square 1, no mean is
    subtracted, and the dot products are divided by the square root of d_k; for one sequence, a
    batch, and groups of batches.

    Parameters
    ----------
    answer
        A function of query (..., L, E) and key (..., S, E) that returns scores (..., L, S).

    See Also
    --------
    torch.nn.functional.rms_norm : torch's version of the rescaling.
    """
    for lead, size in (((2,), 1), ((), 1), ((2, 3), 0.1)):
        query, key = (
            size * (1 + rows) for rows in randoms((*lead, L, E), (*lead, S, E))
        )  # no mean of 0
        query *= torch.arange(1.0, L + 1)[:, None]  # rows of different lengths
        key *= torch.arange(0.5, S)[:, None]
        yield f"query {shape(query)} and key {shape(key)}", (query, key)
