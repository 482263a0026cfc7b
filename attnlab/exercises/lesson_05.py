"""The checks of lesson 5: a control, what a clue wins, and an honest report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

import torch
from torch import Tensor

from attnlab.checks import shape
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import number, vector
from attnlab.exercises.frame.forms import Compared, Either
from attnlab.models.pretrained import PretrainedLayer, load_layer

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
            lambda value, mask: mask.to(value.dtype) @ value / L,
        ),
        "Your function divides by how many queries may attend to a key. Divide each row by the "
        "number of keys that its query may attend to.": (
            lambda value, mask: mask.to(value.dtype) / mask.sum(-2, keepdim=True).clamp(1) @ value
        ),
        "Your function counts along dim=1, which fits one sentence only. Count the keys over the "
        "last dimension, dim=-1.": (
            lambda value, mask: mask.to(value.dtype) / mask.sum(1, keepdim=True).clamp(1) @ value
        ),
        "Your function averages the blocked values, but True means “may attend”.": (
            lambda value, mask: average(value, ~mask)
        ),
        "The softmax gives a 0 in the mask some weight. A blocked key must get none.": (
            lambda value, mask: mask.to(value.dtype).softmax(dim=-1) @ value
        ),
        "The query that may attend to nothing gets the average of all values. It must get zeros.": (
            lambda value, mask: average(value, mask | ~mask.any(dim=-1, keepdim=True))
        ),
    },
    errors={
        "b (5)": "Multiply the mask and `value` as matrices, and count the keys over the last "
        "dimension, dim=-1, which also fits a batch.",
    }
    | dict.fromkeys(
        ("a (5) must match the size of tensor b (3)", "shape of the mask"),
        "The mask (4, 5) holds a weight for each query and key, so it does not fit the entries of "
        "`value` (5, 3). Multiply them as matrices.",
    )
    | voice.KEEPDIM
    | dict.fromkeys(
        ("same dtype", "expected scalar type"),
        "Both factors of a product need the same dtype, so convert the mask to value.dtype.",
    ),
    nan="It contains NaN, because 0 was divided by 0. A query that may attend to nothing must get "
    "zeros.",
    otherwise="Every value that a query may attend to must get the same weight, and the weights of "
    "a row must add up to 1.",
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
        case = f"value {shape(value)}{double} and attn_mask {shape(mask)}, where {seen}"
        yield case, (value, mask)


# --- what the clue wins ---------------------------------------------------------------------------


@Compared(
    right=lambda wins, is_river: (wins == is_river[:, None]).sum(dim=0),
    slips={
        "Your function counts where the water word wins. In a money sentence, the clue is the "
        "other word.": lambda wins, is_river: wins.sum(dim=0),
        "Your function counts where the money word wins. In a river sentence, the clue is the "
        "other word.": lambda wins, is_river: (~wins).sum(dim=0),
        "Your function takes the first half of the rows for the river sentences. `is_river` says "
        "which rows they are.": lambda wins, is_river: (
            wins[: len(wins) // 2].sum(dim=0) + (~wins[len(wins) // 2 :]).sum(dim=0)
        ),
        "Your function counts where the clue loses.": (
            lambda wins, is_river: (wins != is_river[:, None]).sum(dim=0)
        ),
        "Here these are the river sentences only. A money sentence counts if the water word does "
        "not win.": lambda wins, is_river: wins[is_river].sum(dim=0),
        "Here these are the money sentences only. A river sentence counts if the water word "
        "wins.": lambda wins, is_river: (~wins[~is_river]).sum(dim=0),
        "There need not be 16 money sentences. Count them: (~is_river).sum().": (
            lambda wins, is_river: wins[is_river].sum(dim=0) + 16 - wins[~is_river].sum(dim=0)
        ),
        "This is a share of the sentences. Return how many they are.": (
            lambda wins, is_river: (wins == is_river[:, None]).double().mean(dim=0)
        ),
        "Your function says of each sentence and head whether the clue wins. Now count, for each "
        "head.": lambda wins, is_river: (wins == is_river[:, None]).double(),
        "Your function counts the heads for each sentence. Count the sentences for each head.": (
            lambda wins, is_river: (wins == is_river[:, None]).sum(dim=1)
        ),
        "Your function adds up all heads. Return one count for each head.": (
            lambda wins, is_river: (wins == is_river[:, None]).sum()
        ),
    },
    errors={
        "must match the size of tensor": "`is_river` needs a second dimension, of size 1.",
        "is ambiguous": "`not` asks for a single truth value. Use ~, which works entry by entry.",
    }
    | dict.fromkeys(
        ("Negation", "Subtraction"), "Use ~, which turns True into False and False into True."
    ),
    what="counts",
    read=lambda value: vector(value, "a count for each head"),
    otherwise="In a river sentence the clue wins where `wins` is True, in a money sentence where "
    "it is False.",
    verified="Your function counts the clues of both kinds of sentences, for each head.",
    axes=("head",),
    keeps_inputs=True,
)
def check_clue_wins() -> Iterator[tuple[str, tuple]]:
    """Check a function that counts for each head in how many sentences the clue wins.

    Verified: the counts, for three tables, one of them with few river sentences.

    Parameters
    ----------
    answer
        A function of (wins, is_river) that returns the counts.

    See Also
    --------
    torch.eq : compares entry by entry, and broadcasts.
    """
    for sentences, heads, share in ((32, 12, 0.5), (11, 3, 0.6), (13, 5, 0.2)):
        generator = torch.Generator().manual_seed(sentences)
        wins = torch.rand(sentences, heads, generator=generator, dtype=torch.float32) < 0.7
        is_river = torch.rand(sentences, generator=generator, dtype=torch.float32) < share
        is_river[:2] = torch.tensor([True, False])
        yield f"wins {shape(wins)} and is_river {shape(is_river)}", (wins, is_river)


# --- an honest report -----------------------------------------------------------------------------


def reported(choose_on: Tensor, measure_on: Tensor) -> Tensor:
    """Return the share, in one table, of the candidate that is best in another."""
    return measure_on[choose_on.mean(dim=1).argmax()].mean()


def choosing(choose: Callable[[Tensor], object]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a report on what is chosen in the first table in some way."""
    return lambda first, second: second[choose(first)].mean()


def both(first: Tensor, second: Tensor) -> Tensor:
    """Return the table of all sentences."""
    return torch.cat([first, second], dim=1)


def table_of(counts: list[int], sentences: int, generator: torch.Generator) -> Tensor:
    """Return a table with so many ones in each row, at random places."""
    places = [torch.randperm(sentences, generator=generator) < count for count in counts]
    return torch.stack(places).float()


@Compared(
    right=reported,
    slips={
        "The share is measured in `first`, where the candidate was chosen.": (
            lambda first, second: reported(first, first)
        ),
        "The share is measured in both tables, and in one of them the candidate was chosen.": (
            lambda first, second: reported(first, both(first, second))
        ),
        "Your function chooses and measures in the same sentences, as `broken_report` does.": (
            lambda first, second: reported(both(first, second), both(first, second))
        ),
        "Your function chooses the candidate that is best in `second`, or in both tables. Choose "
        "it in `first` alone.": Either(
            lambda first, second: reported(second, second),
            lambda first, second: reported(both(first, second), second),
        ),
        "Your function chooses a candidate with more than half, as a median does. Choose the one "
        "with the largest share, which is the mean of its row.": choosing(
            lambda first: first.median(dim=1).values.argmax()
        ),
        "Your function chooses the candidate that is worst in `first`.": choosing(
            lambda first: first.mean(dim=1).argmin()
        ),
        "Your function takes candidate 0 here, which is not the best in `first`. `argmax` must "
        "compare the means of the rows.": choosing(lambda first: 0),
        "Your function takes the number of a sentence for that of a candidate. Rows are candidates "
        "and columns are sentences: choose a row by the means of the rows.": Either(
            lambda first, second: second[:, first.mean(dim=0).argmax()].mean(),
            choosing(lambda first: first.argmax(dim=1)),
        ),
        "You chose in `second` and measured in `first`. Do it the other way round.": (
            lambda first, second: reported(second, first)
        ),
        "Two candidates are equally good in `first`. Take the first of them.": Either(
            choosing(lambda first: len(first) - 1 - first.mean(1).flip(0).argmax()),
            choosing(lambda first: first.mean(1) == first.mean(1).max()),
            lambda first, second: second[first.mean(1) == first.mean(1).max()].mean(1).max(),
        ),
        "Your function looks for a candidate that is good in both tables. Choose it in `first` "
        "alone.": lambda first, second: torch.minimum(first.mean(1), second.mean(1)).max(),
        "This is the number of the candidate. Return its share in `second`.": (
            lambda first, second: first.mean(dim=1).argmax()
        ),
        "This is a count. Return a share: divide it by the number of sentences in `second`.": (
            lambda first, second: second[first.mean(dim=1).argmax()].sum()
        ),
        "This is the mean over all candidates. Return the share of the one that was chosen.": (
            lambda first, second: second.mean()
        ),
    },
    errors={
        "out of bounds": "Rows are candidates and columns are sentences: choose a row by the means "
        "of the rows.",
    },
    what="share",
    read=lambda value: torch.tensor([number(value)], dtype=torch.float64),
    otherwise="Choose the candidate with the largest mean in `first`, and return its mean in "
    "`second`.",
    verified="For all four pairs of tables, your function chooses in `first` and measures in "
    "`second`.",
    axes=("share",),
    columns=("share",),
)
def check_tested() -> Iterator[tuple[str, tuple]]:
    """Check a report that chooses a candidate in some sentences and measures it in others.

    Verified: the share, for four pairs of tables, in one of which two candidates are equally good.

    Parameters
    ----------
    answer
        A function of (first, second) that returns the share.

    See Also
    --------
    torch.argmax : the first of the largest.
    """
    for rows, n, m, tied in ((6, 11, 7, 0), (12, 16, 16, 0), (7, 13, 5, 0), (6, 11, 8, 1)):
        # in the first pair, no row has the number of the best column of `first`, and the first
        # entry is 1, so that `first.argmax()` is 0
        generator = torch.Generator().manual_seed(592 + rows)
        # in every `first` row 2 is the best, or level with row 5, which is the worst otherwise, and
        # further from a half; row 4 is the best in `second`, row 3 in both, and row 1 comes
        # first of those that win more than half of `first`
        best = n - 3
        more = [best if tied else 1, *[n // 3] * (rows - 6)]
        counts = [n // 2, n // 2 + 1, best, best - 1, n // 3 + 1, *more]
        first = table_of(counts, n, generator)
        chosen = m - 2 if rows == 12 else m // 2  # in one pair more than the best share of `first`
        counts = [m // 3, 1, chosen, m - 1, m, m - 2, *[m // 2] * (rows - 6)]
        second = table_of(counts, m, generator)
        yield f"first {shape(first)} and second {shape(second)}", (first, second)


@cache
def trained_layer() -> PretrainedLayer:
    """Return a layer that no answer can change."""
    return load_layer()
