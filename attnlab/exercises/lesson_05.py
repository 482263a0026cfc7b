"""The checks of lesson 5: mixing, selecting, and controls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import product

import torch
from torch import Tensor

from attnlab.checks import shape
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Right, Wrong, numbers, tokens_of
from attnlab.exercises.frame.forms import Compared, Either, Found, Value
from attnlab.models.pretrained import FIRST, LAST, PretrainedLayer, Reading, load_layer

# --- a strength -----------------------------------------------------------------------------------

OTHERS = 8
STRENGTH = math.log(OTHERS)  # e^s = 8 times e^0


@Value(
    right=STRENGTH,
    near=lambda one, other: abs(one - other) < 0.006,  # two decimals
    slips={
        "That score would be correct if there were nine other words, but there are only eight.": (
            math.log(9)
        ),
        "You gave e to the power of the score. What is the score itself?": OTHERS,
        "2 to the power of your score is 8, but softmax takes powers of e.": math.log2(OTHERS),
    },
    verified="The clue gets as much weight as the eight other words together.",
    otherwise=lambda strength: f"That is too {'little' if strength < STRENGTH else 'much'}.",
)
def check_needed_strength(strength: float) -> str:
    """Check the score with which one key among nine gets half of the weight; the others score 0.

    Verified: the number, to two decimals.

    Parameters
    ----------
    answer
        The number, or a function without arguments that returns it.

    See Also
    --------
    attnlab.attention_weights : the softmax.
    """
    share = 1 / (1 + OTHERS * math.exp(-strength)) if abs(strength) < 500 else float(strength > 0)
    return f"With your score, the clue gets {share:.3f} of the weight."


# --- the control ----------------------------------------------------------------------------------

L, S, EV = 4, 5, 3


def average(value: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the values that each query may attend to."""
    return mask.to(value.dtype) / mask.sum(dim=-1, keepdim=True).clamp(min=1) @ value


@Compared(
    right=average,
    slips={
        "Your function averages all values, so the mask is not used.": (
            lambda value, mask: average(value, torch.ones_like(mask))
        ),
        "Divide the sum of the values by the number of keys that the query may attend to.": Either(
            lambda value, mask: mask.to(value.dtype) @ value,
            lambda value, mask: mask.to(value.dtype) @ value / S,
        ),
        "Your function averages the blocked values, but True means “may attend”.": (
            lambda value, mask: average(value, ~mask)
        ),
        "The query that may attend to nothing gets the average of all values. It must get zeros.": (
            lambda value, mask: average(value, mask | ~mask.any(dim=-1, keepdim=True))
        ),
    },
    errors=voice.KEEPDIM
    | dict.fromkeys(
        ("same dtype", "expected scalar type"),
        "Both factors of a product need the same dtype, so convert the mask to value.dtype.",
    ),
    nan="It contains NaN, because 0 was divided by 0. A query that may attend to nothing must get "
    "zeros.",
    otherwise="Every value that a query may attend to must get the same weight.",
    verified="Your function is correct for one sentence, for a batch and for several heads, even "
    "where a query may attend to nothing.",
    keeps_inputs=True,
    keeps_dtype=True,
)
def check_plain_average() -> Iterator[tuple[str, tuple]]:
    """Check a function that averages the values that a query may attend to, with equal weights.

    Verified: the output for one sentence, a batch and heads, with queries that may attend to
    nothing, in float64, and that the arguments stay as they were.

    Parameters
    ----------
    answer
        A function of (value, attn_mask) that returns the output.

    See Also
    --------
    attnlab.scaled_dot_product_attention : with a query of zeros it computes the same.
    """
    in_float32 = product(((), (2,), (2, 3)), (False, True), (torch.float32,))
    for lead, blocked, dtype in (*in_float32, ((2,), True, torch.float64)):
        generator = torch.Generator().manual_seed(0)
        value = torch.randn(*lead, S, EV, generator=generator, dtype=torch.float32).to(dtype)
        mask = torch.rand(*lead, L, S, generator=generator, dtype=torch.float32) < 0.5
        mask[..., :2] = torch.tensor([True, False])
        if blocked:
            mask[..., 1, :] = False
        seen = "query 1 may attend to nothing" if blocked else "every query may attend to some key"
        double = " in float64" if dtype == torch.float64 else ""
        yield (
            f"value {shape(value)}{double} and attn_mask {shape(mask)}, where {seen}",
            (value, mask),
        )


# --- a head, tested -------------------------------------------------------------------------------


def reported(choose_on: Tensor, measure_on: Tensor) -> tuple[Tensor, Tensor]:
    """Return the head that is best in one table, and its mean in another."""
    head = choose_on.mean(dim=1).argmax()
    return head, measure_on[head].mean()


def both(known: Tensor, fresh: Tensor) -> Tensor:
    """Return the table of all sentences."""
    return torch.cat([known, fresh], dim=1)


@Compared(
    right=reported,
    slips={
        "The mean includes the known sentences, but the head was chosen on these.": Either(
            lambda known, fresh: reported(known, known),
            lambda known, fresh: reported(known, both(known, fresh)),
        ),
        "Your function chooses the head that is best on the fresh sentences, or on all. Choose it "
        "on the known sentences alone.": Either(
            lambda known, fresh: reported(fresh, fresh),
            lambda known, fresh: reported(both(known, fresh), fresh),
        ),
    },
    what="report",
    read=lambda value: numbers(value, (2,), "two numbers, the head and its mean"),
    otherwise="Choose the head with the largest mean on the known sentences, and return it with "
    "its mean on the fresh ones.",
    verified="For all three tables, your function chooses the head on the known sentences and "
    "measures it on the fresh ones.",
    columns=("head", "mean"),
    atol=1e-4,
    rtol=0.0,
)
def check_tested_head() -> Iterator[tuple[str, tuple]]:
    """Check a report that chooses a head on some sentences and measures it on others.

    Verified: head and mean, for three pairs of tables.

    Parameters
    ----------
    answer
        A function of (known_shares, fresh_shares) that returns the head and its mean.

    See Also
    --------
    torch.argmax : the first of the largest.
    """
    for heads, known, fresh in ((6, 3, 9), (12, 4, 5), (5, 2, 2)):
        generator = torch.Generator().manual_seed(heads)
        sizes = (heads, known), (heads, fresh)
        seen, new = (torch.rand(size, generator=generator, dtype=torch.float32) for size in sizes)
        seen[1] += 1.0  # the best on the known sentences
        seen[2, 0] = 2.1  # the largest single share
        new[3] += 3.0  # the best on the fresh sentences and on all
        yield f"known_shares {shape(seen)} and fresh_shares {shape(new)}", (seen, new)


# --- a minimal pair -------------------------------------------------------------------------------

HEAD = 10
LITTLE = (
    "a an the of to in into on at by for from with near along under and or but not he she they we "
    "it his her their my our is are was were , . ' ! ? ; :".split()
)


def two_texts(value: object) -> tuple[str, str]:
    """Read two sentences."""
    match value:
        case (str(first), str(second)):
            return first, second
    raise Wrong(voice.returned(voice.kind_of(value), "two sentences, each of them a string"))


@Found(read=two_texts)
def check_minimal_pair(texts: tuple[str, str]) -> Right:
    """Check two sentences that differ in one word, where “bank” attends most to the same word.

    Verified: what the trained layer's head 10 attends to. What the sentences mean is not judged.

    Parameters
    ----------
    answer
        Two sentences, or a function without arguments that returns them.

    See Also
    --------
    attnlab.models.pretrained.load_layer : the layer.
    """
    readings = [read_sentence(text) for text in texts]
    changed = changed_place(readings)
    rows = [one.weights[HEAD, one.tokens.index("bank")] for one in readings]
    tops = [int(row.argmax()) for row in rows]
    words = [one.tokens[top] for one, top in zip(readings, tops, strict=True)]
    weights = [row[top].item() for row, top in zip(rows, tops, strict=True)]
    if tops[0] != tops[1] or tops[0] == changed:
        raise Wrong(
            f"In head {HEAD}, “bank” attends most to “{words[0]}” ({weights[0]:.3f}) in the first "
            f"sentence and to “{words[1]}” ({weights[1]:.3f}) in the second. The word that it "
            "attends to most must be the same in both sentences, and not the word that you changed."
        )
    if words[0] in (FIRST, LAST, "bank") or words[0] in LITTLE:
        raise Wrong(
            f"In head {HEAD}, “bank” attends most to “{words[0]}”, which says nothing about banks."
        )
    return Right(
        f"In both sentences, “bank” attends most to “{words[0]}” in head {HEAD}, with weights of "
        f"{weights[0]:.3f} and {weights[1]:.3f}. If a reader agrees that “{words[0]}” "
        "is a water word and that only the second sentence is about money, the claim is refuted."
    )


@cache
def trained_layer() -> PretrainedLayer:
    """Return a layer that no answer can change."""
    return load_layer()


def read_sentence(text: str) -> Reading:
    """Return what the layer makes of a sentence with one "bank"."""
    if tokens_of(trained_layer(), text).count("bank") != 1:
        raise Wrong(f"Each sentence must contain the word “bank” exactly once. “{text}” does not.")
    return trained_layer().read(text)


def changed_place(readings: list[Reading]) -> int:
    """Return the place of the one token in which two sentences differ."""
    first, second = (one.tokens for one in readings)
    pairs = enumerate(zip(first, second, strict=False))
    differ = [place for place, (one, other) in pairs if one != other]
    if first == second:
        raise Wrong("The two sentences are the same.")
    if len(first) != len(second) or len(differ) > 1:
        read = " and ".join(f"“{' '.join(tokens[1:-1])}”" for tokens in (first, second))
        split = any(token.startswith("##") for token in (*first, *second))
        why = " It splits words that it does not know, so choose another word." if split else ""
        raise Wrong(f"Only one word may differ, but the layer reads {read}.{why}")
    if not (first[differ[0]] + second[differ[0]]).isalnum():
        raise Wrong("The two sentences must differ in a word, not in a punctuation mark.")
    return differ[0]
