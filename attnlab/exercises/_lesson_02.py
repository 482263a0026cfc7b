"""Checks for the exercises of lesson 2: why divide by the square root of d_k."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from attnlab.attention import attention_scores, attention_weights
from attnlab.exercises._answers import Answer, Right, Wrong, judge, number, table, vector
from attnlab.exercises._verdict import Verdict

COUNTEREXAMPLES = {
    "A": "the tokens times 10 were divided as well, and ended at 436",
    "C": "the mean gradient of the raw scores grew",
    "D": "in the race the raw model learned",
}
DIVISORS = (1, 10, 100)
DICE_SEED = 2
FIRST_WEIGHT = 0.6555482
LOW, HIGH = 0.8, 1.25

Pairs = dict[int, tuple[float, float]]  # mean and variance for each divisor


def check_always_true(answer: object) -> Verdict:
    """Check which of four sentences about the division is always true.

    Verified: the letter; a wrong one meets its counterexample.

    Parameters
    ----------
    answer : callable or str
        A function without arguments that returns "A", "B", "C" or "D", or the letter.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.score_variance : measures what the sentences speak of.
    """
    return judge(answer, _always_true)


def check_hundred_dice(answer: object) -> Verdict:
    """Check formulas for mean and variance of a sum of 100 dice, divided by a number.

    Verified: both, for the divisors 1, 10 and 100, against 20,000 throws.

    Parameters
    ----------
    answer : callable
        A function of the divisor that returns mean and variance.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    check_always_true : the same law in words.
    """
    return judge(answer, _hundred_dice)


def check_repeatable_experiment(answer: object) -> Verdict:
    """Check an experiment that owns its random numbers.

    Verified: 0.6555 for seed 42 at every call, another number for another seed, and that torch's
    common stream stands where it stood.

    Parameters
    ----------
    answer : callable
        A function of the seed that returns one number.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.Generator : a stream of one's own.
    """
    return judge(answer, _repeatable_experiment)


def check_good_factor(answer: object) -> Verdict:
    """Check a factor on the tokens that brings the variance of the scaled scores near 1.

    Verified: the variance lies between 0.8 and 1.25, with the layers of the lesson.

    Parameters
    ----------
    answer : callable or float
        A function without arguments that returns the factor, or the factor.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.score_variance : measures the spread of scores.
    """
    return judge(answer, _good_factor)


# --- always true ----------------------------------------------------------------------------------


def _always_true(answer: Answer) -> Right:
    said = answer.value(_letter)
    if said == "B":
        return Right("The other three have a counterexample in the lesson; this one has none.")
    raise Wrong(f"{said} is not always true: {COUNTEREXAMPLES[said]}.")


def _letter(value: object) -> str:
    letter = value.strip().upper() if isinstance(value, str) else ""
    if letter not in ("A", "B", "C", "D"):
        raise Wrong('One letter is asked for: "A", "B", "C" or "D".')
    return letter


# --- a hundred dice -------------------------------------------------------------------------------


def _hundred_dice(answer: Answer) -> Right:
    generator = torch.Generator().manual_seed(DICE_SEED)
    sums = torch.randint(1, 7, (20_000, 100), generator=generator).double().sum(dim=-1)
    said, thrown = {}, {}
    for c in DIVISORS:
        said[c] = answer.ask(c, read=_pair, case=f"divisor {c}")
        thrown[c] = (sums / c).mean().item(), (sums / c).var().item()
    for c in DIVISORS:
        _compare_dice(c, said, thrown)
    rows = {f"sum / {c}": [*said[c], *thrown[c]] for c in DIVISORS}
    columns = ("your mean", "your variance", "mean thrown", "variance thrown")
    evidence = table("A hundred dice, thrown 20,000 times:", rows, columns)
    return Right("Mean and variance agree with the throws for every divisor.", evidence)


def _pair(value: object) -> tuple[float, float]:
    read = vector(value)
    if read.shape != (2,):
        raise Wrong(f"Two numbers are asked for, mean and variance; got {tuple(read.shape)}.")
    if not read.isfinite().all():
        raise Wrong("Mean or variance is NaN or infinite.")
    mean, variance = read.tolist()
    return mean, variance


def _compare_dice(c: int, said: Pairs, thrown: Pairs) -> None:
    """Raise Wrong unless mean and variance are those of the throws, up to chance."""
    near_mean, near_variance = (_near(said[c][i], thrown[c][i], (0.01, 0.05)[i]) for i in (0, 1))
    if near_mean and near_variance:
        return
    if _near(said[c][1], thrown[c][0], 0.01) and _near(said[c][0], thrown[c][1], 0.05):
        why = "Mean and variance stand in the wrong order: the mean comes first."
    else:
        place, what = (1, "variance") if near_mean else (0, "mean")
        why = f"The {what} of sum / {c} is {thrown[c][place]:.3f}. "
        why += _law_of({c: pair[place] for c, pair in said.items()}, (MEANS, VARIANCES)[place])
    rows = {"yours": said[c], "thrown": thrown[c]}
    raise Wrong(why, table(f"The sum of 100 dice, divided by {c}:", rows, ("mean", "variance")))


def _law_of(said: dict[int, float], laws: dict[str, Callable[[int], float]]) -> str:
    """Return the sentence of the wrong law that all numbers follow, else the last sentence."""
    fitting = [why for why, law in laws.items() if all(_near(said[c], law(c), 0.01) for c in said)]
    return fitting[0] if fitting else [*laws][-1]


MEANS: dict[str, Callable[[int], float]] = {
    "Yours is the mean of one die, whatever c is: means add up.": lambda c: 3.5,
    "Yours begins with the mean of one die: means add up.": lambda c: 3.5 / c,
    "Dividing by c divides a mean by c; yours stays.": lambda c: 350,
    "Dividing by c divides a mean by c, not by its square.": lambda c: 350 / c**2,
    "Add up the means of 100 dice, then divide.": lambda c: 350 / c,
}
VARIANCES: dict[str, Callable[[int], float]] = {
    "Yours is the variance of one die: variances of independent terms add up.": lambda c: 35 / 12,
    "Yours begins with the variance of one die: variances of independent terms add up.": (
        lambda c: 35 / 12 / c**2
    ),
    "Dividing by c divides a variance by c squared; yours stays.": lambda c: 3500 / 12,
    "Dividing by c divides a variance by c squared, not by c.": lambda c: 3500 / 12 / c,
    "Yours is the standard deviation, the root of the variance.": lambda c: (3500 / 12) ** 0.5 / c,
    "Yours is right for 100 times the same die; independent dice do not all fall alike.": (
        lambda c: 350_000 / 12 / c**2
    ),
    "Yours takes a fifth of the squared distances. The six faces are all there is: divide by 6 "
    "(correction=0).": lambda c: 350 / c**2,
    "Add up the variances of 100 dice, then divide by c squared.": lambda c: 3500 / 12 / c**2,
}


def _near(one: float, other: float, share: float) -> bool:
    return abs(one - other) <= share * abs(other)


# --- a repeatable experiment ----------------------------------------------------------------------


def _repeatable_experiment(answer: Answer) -> Right:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = answer.ask(42, read=number, case="seed 42")
    if not torch.equal(before, torch.random.get_rng_state()):
        raise Wrong(
            "The common stream of random numbers has moved, for everybody. Draw from a generator "
            "of your own."
        )
    calls = {"seed 42": first, "seed 42 again": answer.ask(42, read=number, case="seed 42")}
    calls["seed 43"] = answer.ask(43, read=number, case="seed 43")
    evidence = table("Your numbers:", {name: [one] for name, one in calls.items()}, ("weight",))
    if calls["seed 42 again"] != first:
        raise Wrong(
            "The second call with seed 42 gives another number: the stream went on. Make the "
            "generator inside the function.",
            evidence,
        )
    if abs(first - FIRST_WEIGHT) > 1e-4:
        raise Wrong(f"Seed 42 must give 0.6555, got {first:.4f}. {_wrong_weight(first)}", evidence)
    if calls["seed 43"] == first:
        raise Wrong("Seed 43 gives the same number as seed 42: the seed is not used.", evidence)
    return Right(
        "0.6555 for seed 42 at every call, another number for seed 43, and the common stream "
        "stands where it stood.",
    )


def _wrong_weight(weight: float) -> str:
    """Say where a number comes from that is not the weight of the first experiment."""
    generator = torch.Generator().manual_seed(42)
    one, other = (torch.randn(1, 4, 8, generator=generator) for _ in range(2))
    reordered = attention_weights(attention_scores(other, one))[0]
    weights = attention_weights(attention_scores(one, other))[0]
    if abs(reordered[1, 1] - weight) < 1e-4:
        return "Draw the query first, then the key."
    if abs(attention_weights(attention_scores(one, other, scale=1.0))[0, 1, 1] - weight) < 1e-4:
        return "The scores were not divided by the root of 8."
    if abs(attention_scores(one, other)[0, 1, 1] - weight) < 1e-4:
        return "That is a score; softmax makes it a weight."
    if (weights - weight).abs().min() < 1e-4:
        return "That is another entry of the table: query 1 and key 1 are asked for."
    if abs(attention_weights(attention_scores(one, one))[0, 1, 1] - weight) < 1e-4:
        return "Query and key are the same numbers: draw two, from one generator."
    return "Draw query and key, in this order, each of shape (1, 4, 8), from one generator."


# --- a good factor --------------------------------------------------------------------------------


def _good_factor(answer: Answer) -> Right:
    factor = answer.value(number)
    variance, start = _variance_with(factor), _variance_with(10.0)
    if LOW < variance < HIGH:
        return Right(
            f"The variance is {variance:.3f}, between {LOW} and {HIGH}; with 10 it is {start:.2f}."
        )
    rows = {
        "10, the demonstration": [10.0, start],
        "yours": [factor, variance],
    }
    evidence = table("Tokens (10, 8), d_k = 8:", rows, ("factor", "variance"))
    side = "small" if variance < 1 else "large"
    why = f"The variance is {variance:.3g}: the factor is too {side}."
    raise Wrong(f"{why} {_wrong_factor(factor, start)}".rstrip(), evidence)


def _variance_with(factor: float) -> float:
    """Return the variance of the scaled scores in the demonstration of the lesson."""
    torch.manual_seed(42)  # as in the lesson: the layers come first
    w_query, w_key, _ = (nn.Linear(8, 8) for _ in range(3))
    x = torch.randn(10, 8) * factor
    with torch.no_grad():
        return attention_scores(w_query(x), w_key(x)).var().item()


def _wrong_factor(factor: float, start: float) -> str:
    known = {
        "A score is a product: it grows with the square of the factor, its variance with the "
        "fourth power.": (10 / start, 10 / start**0.5),
        "The exponent is four: twice the factor, four times the score, sixteen times the "
        "variance.": (10 / start**0.125, 10 / start ** (1 / 3)),
        "Dividing tokens by the root of 8 is not enough: the variance has to fall by 436.": (
            10 / 8**0.5,
            10 / 8,
        ),
    }
    matches = [why for why, values in known.items() if any(_near(factor, v, 0.03) for v in values)]
    return matches[0] if matches else ""
