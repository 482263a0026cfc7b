"""Checks for the exercises of lesson 5: mixing, selecting, and controls."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from attnlab._checks import shape
from attnlab.clinic import Evidence
from attnlab.exercises._answers import Answer, Right, Wrong, article, judge, number, table
from attnlab.exercises._verdict import Verdict
from attnlab.pretrained import FIRST, LAST, PretrainedLayer, Reading, load_layer

OTHERS = 8
STRENGTH = math.log(OTHERS)  # e^s = 8 times e^0
# What a number says about the way it was found.
FOUND = {
    math.log(OTHERS + 1): "Nine would be for all words; half means as much as the other eight.",
    OTHERS: "That is e to the strength. Which strength gives it?",
    math.log2(OTHERS): "2 to this number is 8. Softmax raises e, not 2.",
    math.log10(OTHERS): "10 to this number is 8. Softmax raises e, not 10.",
    0.5: "That is the weight it shall get. Which score leads there?",
}
LEADS = ((), (2,), (2, 3))
L, S, EV = 4, 5, 3
TABLES = ((6, 3, 9), (12, 4, 5), (5, 2, 2))  # heads, known sentences, fresh ones
HEAD = 10
LITTLE = frozenset(
    "a an the of to in into on at by for from with near along under and or but not no as so he she "
    "they we i you it his her their our my your its this that is was are were be been has have had "
    ", . ' ! ? ; :".split()
)


def check_needed_strength(answer: object) -> Verdict:
    """Check the score with which one key among nine gets half of the weight; the others score 0.

    Verified: the number, to two decimals.

    Parameters
    ----------
    answer : callable or float
        A function without arguments that returns the number, or the number.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.attention_weights : the softmax.
    """
    return judge(answer, _needed_strength)


def check_plain_average(answer: object) -> Verdict:
    """Check a function that averages the values a query may look at, with equal weights.

    Verified: the output for one sentence, a batch and heads, with queries that may look at nothing,
    in float64, and that the arguments stay as they were.

    Parameters
    ----------
    answer : callable
        A function of (value, attn_mask) that returns the output.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.scaled_dot_product_attention : with a query of zeros it computes the same.
    """
    return judge(answer, _plain_average)


def check_tested_head(answer: object) -> Verdict:
    """Check a report that chooses a head on some sentences and measures it on others.

    Verified: head and mean, for three pairs of tables.

    Parameters
    ----------
    answer : callable
        A function of (known, fresh) that returns the head and its mean.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.argmax : the first of the largest.
    """
    return judge(answer, _tested_head)


def check_minimal_pair(answer: object) -> Verdict:
    """Check two sentences that differ in one word and leave the favourite of "bank" in place.

    Verified: what the trained layer's head 10 looks at. What the sentences mean is not judged.

    Parameters
    ----------
    answer : callable or pair of str
        A function without arguments that returns two sentences, or the sentences.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.pretrained.load_layer : the layer.
    """
    return judge(answer, _minimal_pair)


# --- a strength -----------------------------------------------------------------------------------


def _needed_strength(answer: Answer) -> Right:
    strength = answer.value(number)
    share = 1 / (1 + OTHERS * math.exp(-strength)) if abs(strength) < 500 else float(strength > 0)
    told = f"With {strength:.4g} the word gets {share:.3f} of the weight"
    if abs(strength - STRENGTH) < 0.006:  # two decimals
        return Right(f"{told}. e to it is 8, as much as the eight others.")
    for wrong, why in FOUND.items():
        if abs(strength - wrong) < 0.006:
            raise Wrong(f"{told}. {why}")
    raise Wrong(f"{told}: too {'little' if strength < STRENGTH else 'much'}.")


# --- the control ----------------------------------------------------------------------------------


def _plain_average(answer: Answer) -> Right:
    for lead in LEADS:
        for blocked in (False, True):
            _compare_average(answer, *_average_inputs(lead, blocked), blocked)
    value, mask = _average_inputs((2,), True)
    _compare_average(answer, value.double(), mask, True)
    return Right("One sentence, a batch and heads are right, with rows that see nothing too.")


def _average_inputs(lead: tuple[int, ...], blocked: bool) -> tuple[Tensor, Tensor]:
    """Return value and mask; in the mask every query may look at some keys, or one at none."""
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(*lead, S, EV, generator=generator, dtype=torch.float32)
    mask = torch.rand(*lead, L, S, generator=generator, dtype=torch.float32) < 0.5
    mask[..., :2] = torch.tensor([True, False])
    if blocked:
        mask[..., 1, :] = False
    return value, mask


def _compare_average(answer: Answer, value: Tensor, mask: Tensor, blocked: bool) -> None:
    """Raise Wrong unless the answer gives the control for one value and mask."""
    seen = "query 1 may look at nothing" if blocked else "every query may look at some"
    case = f"value {shape(value)} {str(value.dtype)[6:]}, attn_mask {shape(mask)}, {seen}"
    given = value.clone(), mask.clone()
    got = answer.ask(*given, read=_tensor, case=case)
    if not (torch.equal(given[0], value) and torch.equal(given[1], mask)):
        raise Wrong(f"With {case} it changes what it is given; work on a copy.")
    right = _average(value, mask)
    if got.shape != right.shape:
        raise Wrong(f"With {case} the output must be {shape(right)}, got {shape(got)}.")
    if not torch.allclose(got.to(right), right, atol=1e-5):
        raise Wrong(f"With {case} {_why_no_average(got, value, mask)}", _first_row(got, right))
    if got.dtype != right.dtype:
        raise Wrong(f"With {case} the output must be {right.dtype}, got {got.dtype}.")


def _average(value: Tensor, mask: Tensor) -> Tensor:
    counts = mask.sum(dim=-1, keepdim=True).clamp(min=1)
    return (mask.to(value.dtype) / counts) @ value


def _why_no_average(got: Tensor, value: Tensor, mask: Tensor) -> str:
    """Name what was computed instead."""
    nothing = ~mask.any(dim=-1, keepdim=True)
    if got.isnan().any():
        return "it gives NaN: a query that may look at nothing gets zeros, not 0 / 0."
    everything = torch.ones_like(mask)
    known = (
        (everything, 1, "it averages all values: the mask is not used."),
        (mask, mask.sum(dim=-1, keepdim=True), "it sums: divide by how many may be looked at."),
        (
            mask,
            mask.sum(dim=-1, keepdim=True) / S,
            "it divides by all keys: a query that may look at two shares among two.",
        ),
        (~mask, 1, "it averages what is blocked: True means “may attend”."),
        (
            mask | nothing,
            1,
            "the query that may look at nothing gets the average of all; it must get zeros.",
        ),
    )
    for wrong, factor, why in known:
        if torch.allclose(got.to(value), _average(value, wrong) * factor, atol=1e-5):
            return why
    return "the numbers are wrong. Every allowed value must count the same."


def _first_row(got: Tensor, right: Tensor) -> Evidence:
    """Return the first row that differs."""
    differs = ~torch.isclose(got.to(right), right, atol=1e-5).all(dim=-1)
    place = tuple(differs.nonzero()[0].tolist())
    rows = {"yours": got[place].tolist(), "right": right[place].tolist()}
    return table(f"Query {place[-1]}:", rows, [f"feature {i}" for i in range(EV)])


def _tensor(value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise Wrong(f"It gives {article(type(value).__name__)}; the output alone is asked for.")
    return value.detach()


# --- a head, tested -------------------------------------------------------------------------------


def _tested_head(answer: Answer) -> Right:
    for heads, known, fresh in TABLES:
        _see_report(answer, *_shares(heads, known, fresh))
    return Right("Chosen on the known sentences, measured on the fresh ones, for three tables.")


def _shares(heads: int, known: int, fresh: int) -> tuple[Tensor, Tensor]:
    """Return two tables: head 1 is best on the known sentences, head 3 on the fresh and on all."""
    generator = torch.Generator().manual_seed(heads)
    sizes = (heads, known), (heads, fresh)
    seen, new = (torch.rand(size, generator=generator, dtype=torch.float32) for size in sizes)
    seen[1] += 1.0
    new[3] += 3.0
    return seen, new


def _see_report(answer: Answer, known: Tensor, fresh: Tensor) -> None:
    case = f"known {shape(known)} and fresh {shape(fresh)}"
    head, mean = answer.ask(known.clone(), fresh.clone(), read=_report, case=case)
    right = known.mean(dim=1).argmax().item()
    everything = torch.cat([known, fresh], dim=1)
    if head != right:
        if mean == right:
            raise Wrong(f"With {case} the order is turned round: first the head, then its mean.")
        if head == fresh.mean(dim=1).argmax():
            raise Wrong(
                f"With {case} it chooses head {head:g}, the best with the fresh sentences in "
                f"sight. On the known ones alone head {right} is best."
            )
        raise Wrong(f"With {case} it chooses head {head:g}; on the known ones {right} is best.")
    if math.isclose(mean, fresh[right].mean(), abs_tol=1e-4):
        return
    told = f"With {case} head {right} is right, and its mean is not: {mean:.3f} is "
    for wrong, what in ((known, "the known"), (everything, "all"), (fresh.mean(), "")):
        if math.isclose(mean, wrong[right].mean() if what else wrong, abs_tol=1e-4):
            where = f"that on {what} sentences" if what else "the mean of all heads"
            raise Wrong(f"{told}{where}.")
    raise Wrong(f"{told}not that on the fresh sentences, {fresh[right].mean():.3f}.")


def _report(value: object) -> tuple[float, float]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Wrong(f"Head and mean are asked for, two numbers; it gives {_kind(value)}.")
    head, mean = map(number, value)
    return head, mean


def _kind(value: object) -> str:
    many = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"{article(type(value).__name__)}{many}"


# --- a minimal pair -------------------------------------------------------------------------------


def _minimal_pair(answer: Answer) -> Right:
    readings = [_reading(text) for text in answer.value(_two_texts)]
    changed = _changed_place(readings)
    tops, rows = [], []
    for reading in readings:
        row = reading.weights[HEAD, reading.tokens.index("bank")]
        tops.append(int(row.argmax()))
        rows.append(row)
    words = [reading.tokens[top] for reading, top in zip(readings, tops, strict=True)]
    weights = [row[top].item() for row, top in zip(rows, tops, strict=True)]
    if tops[0] != tops[1]:
        raise Wrong(
            f"Head {HEAD} looks most at “{words[0]}” ({weights[0]:.3f}) in the first and at "
            f"“{words[1]}” ({weights[1]:.3f}) in the second."
        )
    if tops[0] == changed:
        raise Wrong(
            f"Head {HEAD} looks most at the word that you changed, “{words[0]}” and "
            f"“{words[1]}”. The favourite must be the same word."
        )
    if words[0] in (FIRST, LAST, "bank") or words[0] in LITTLE:
        raise Wrong(f"Head {HEAD} looks most at “{words[0]}”, which tells nothing of any bank.")
    evidence = _pair_evidence(readings, rows, tops[0], changed)
    return Right(
        f"In both, head {HEAD} looks most at “{words[0]}”: {weights[0]:.3f} and {weights[1]:.3f}. "
        "If a reader agrees that only the second is about money, the claim is broken.",
        evidence,
    )


def _two_texts(value: object) -> tuple[str, str]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Wrong(f"Two sentences are asked for; it gives {_kind(value)}.")
    for text in value:
        if not isinstance(text, str):
            raise Wrong(f"Two sentences are asked for; one is {article(type(text).__name__)}.")
    return value[0], value[1]


@lru_cache(maxsize=1)
def _layer() -> PretrainedLayer:
    return load_layer()


def _reading(text: str) -> Reading:
    """Return what the layer makes of a sentence with one "bank"."""
    try:
        reading = _layer().read(text)
    except ValueError as error:  # the layer says in one sentence what it cannot read
        raise Wrong(f"The layer cannot read it: {error}") from None
    count = reading.tokens.count("bank")
    if count != 1:
        raise Wrong(f"Each sentence needs the word “bank” once; “{text}” has it {count} times.")
    return reading


def _changed_place(readings: list[Reading]) -> int:
    """Return where two sentences differ; raise Wrong unless it is one word."""
    first, second = (reading.tokens for reading in readings)
    if len(first) != len(second):
        raise Wrong(
            f"Only one word may differ; they have {len(first) - 2} and {len(second) - 2} word "
            "pieces."
        )
    places = [i for i, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1]]
    if not places:
        raise Wrong("The two sentences are the same.")
    if len(places) > 1:
        raise Wrong(f"Only one word may differ; {len(places)} do.")
    return places[0]


def _pair_evidence(readings: list[Reading], rows: list[Tensor], top: int, changed: int) -> Evidence:
    told = {
        f"with “{reading.tokens[changed]}”": [row[top], row[changed], 1 / len(row)]
        for reading, row in zip(readings, rows, strict=True)
    }
    columns = (f"“{readings[0].tokens[top]}”", "the changed word", "an even share")
    return table(f"Head {HEAD}, weights of the query “bank”:", told, columns)
