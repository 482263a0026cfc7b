"""The checks of lesson 2: what they reject and why, and what they accept."""

import math
import random

import pytest
import torch
import torch.nn.functional as F

from attnlab import attention_scores, attention_weights
from attnlab.exercises import (
    check_always_true,
    check_good_factor,
    check_hundred_dice,
    check_normed_scores,
    check_repeatable_experiment,
)
from tests.exercises.verdicts import accepted, refused, steady


def scores_of(query, key):
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def unit(x):
    return x / x.pow(2).mean(dim=-1, keepdim=True).sqrt()


def normed(query, key):
    return unit(query) @ unit(key).transpose(-2, -1) / query.shape[-1] ** 0.5


def experiment(seed):
    own = torch.Generator().manual_seed(seed)
    query = torch.randn(1, 4, 8, generator=own)
    key = torch.randn(1, 4, 8, generator=own)
    return attention_weights(attention_scores(query, key))[0, 1, 1].item()


# --- lesson 2, always true ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("A", "ended at 436"),
        ("C", "mean gradient"),
        ("D", "the raw model learned"),
        ("E", "One letter"),
        ("AB", "One letter"),
        ("", "One letter"),
        (2, "One letter"),
        (["B"], "One letter"),
    ],
)
def test_always_true_gives_the_counterexample(said, words):
    refused(check_always_true, lambda: said, words)


@pytest.mark.parametrize("answer", [lambda: "B", lambda: " b ", "B"])
def test_always_true_accepts(answer):
    accepted(check_always_true, answer)


# --- lesson 2, a hundred dice ---------------------------------------------------------------------

MEAN, VARIANCE = 350.0, 100 * 35 / 12


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        (lambda c: (MEAN / c, VARIANCE / c), "by c squared, not by c"),
        (lambda c: (MEAN / c, VARIANCE), "yours stays"),
        (lambda c: (MEAN, VARIANCE / c**2), "divides a mean by c; yours"),
        (lambda c: (MEAN / c**2, VARIANCE / c**2), "not by its square"),
        (lambda c: (3.5, 35 / 12), "mean of one die"),
        (lambda c: (3.5 / c, 35 / 12 / c**2), "begins with the mean"),
        (lambda c: (MEAN / c, 35 / 12 / c**2), "begins with the variance"),
        (lambda c: (MEAN / c, 35 / 12), "variance of one die"),
        (lambda c: (MEAN / c, VARIANCE**0.5 / c), "standard deviation"),
        (lambda c: (MEAN / c, 100 * VARIANCE / c**2), "do not all fall alike"),
        (lambda c: (MEAN / c, 350 / c**2), "divide by 6"),
        (lambda c: (VARIANCE / c**2, MEAN / c), "wrong order"),
        (lambda c: (300.0 / c, VARIANCE / c**2), "Add up the means"),
        (lambda c: (MEAN / c, 200 / c**2), "Add up the variances"),
        (lambda c: (MEAN / c, math.nan), "NaN"),
        (lambda c: MEAN / c, "Two numbers"),
        (lambda c: "350 and 292", "a str"),
    ],
)
def test_hundred_dice_names_the_mistake(formula, words):
    refused(check_hundred_dice, formula, words)


@pytest.mark.parametrize(
    "formula",
    [
        lambda c: (MEAN / c, VARIANCE / c**2),
        lambda c: [350 / c, 291.67 / c**2],
        lambda c: torch.tensor([MEAN / c, VARIANCE / c**2]),
        lambda c: (torch.tensor(MEAN / c), torch.tensor(VARIANCE) / c**2),
    ],
)
def test_hundred_dice_accepts(formula):
    verdict = accepted(check_hundred_dice, formula)
    assert "variance thrown" in repr(verdict)


# --- lesson 2, a repeatable experiment ------------------------------------------------------------


def with_common_stream(seed):
    torch.manual_seed(seed)
    return attention_weights(attention_scores(*torch.randn(2, 1, 4, 8)))[0, 1, 1].item()


def with_two_generators(seed):
    query, key = (
        torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(seed)) for _ in range(2)
    )
    return attention_weights(attention_scores(query, key))[0, 1, 1].item()


def other_order(seed):
    own = torch.Generator().manual_seed(seed)
    key, query = (torch.randn(1, 4, 8, generator=own) for _ in range(2))
    return attention_weights(attention_scores(query, key))[0, 1, 1].item()


def entry(seed, row=1, column=1, **options):
    own = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(1, 4, 8, generator=own) for _ in range(2))
    return attention_weights(attention_scores(query, key, **options))[0, row, column].item()


def with_one_generator():
    own = torch.Generator().manual_seed(42)

    def function(seed):
        query, key = (torch.randn(1, 4, 8, generator=own) for _ in range(2))
        return attention_weights(attention_scores(query, key))[0, 1, 1].item()

    return function


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: with_common_stream, "common stream"),
        (with_one_generator, "Make the generator inside"),
        (lambda: lambda seed: 0.6555482, "the seed is not used"),
        (lambda: lambda seed: experiment(42), "the seed is not used"),
        (lambda: lambda seed: experiment(seed + 1), "must give 0.6555"),
        (lambda: other_order, "Draw the query first"),
        (lambda: with_two_generators, "the same numbers"),
        (lambda: lambda seed: entry(seed, scale=1.0), "root of 8"),
        (lambda: lambda seed: entry(seed, 0, 1), "another entry"),
        (lambda: lambda seed: random.Random(seed).random(), "must give 0.6555"),
        (lambda: lambda seed: torch.ones(4, 4), "shape (4, 4)"),
        (lambda: lambda seed: math.nan, "not a finite number"),
    ],
)
def test_repeatable_experiment_names_the_mistake(make, words):
    refused(check_repeatable_experiment, make(), words)


def with_a_fork(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        query, key = torch.randn(1, 4, 8), torch.randn(1, 4, 8)
    return attention_weights(attention_scores(query, key))[0, 1, 1].item()


def as_a_tensor(seed):
    return torch.tensor(experiment(seed))


@pytest.mark.parametrize("function", [experiment, with_a_fork, as_a_tensor])
def test_repeatable_experiment_accepts(function):
    accepted(check_repeatable_experiment, function)


# --- lesson 2, a good factor ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (10 / 436, "fourth power"),
        (10 / 436**0.5, "fourth power"),
        (10 / 436**0.125, "exponent is four"),
        (10 / 8**0.5, "root of 8"),
        (10, "too large"),
        (1, "too small"),
        (0, "too small"),
        (torch.ones(2), "One number"),
        (math.inf, "not a finite number"),
        ("2.2", "a str"),
    ],
)
def test_good_factor_names_the_mistake(factor, words):
    refused(check_good_factor, lambda: factor, words)


@pytest.mark.parametrize("answer", [lambda: 10 / 436.5**0.25, 2.1, lambda: torch.tensor([2.0])])
def test_good_factor_accepts(answer):
    accepted(check_good_factor, answer)


# --- lesson 2, scores of rescaled queries and keys ------------------------------------------------


def rescaled(function, divisor=11**0.5):
    return lambda query, key: function(query) @ function(key).mT / divisor


WRONG_NORMED = {
    "nothing": (scores_of, "Nothing is rescaled"),
    "queries only": (lambda q, k: scores_of(unit(q), k), "Only the queries"),
    "keys only": (lambda q, k: scores_of(q, unit(k)), "Only the keys"),
    "no division": (rescaled(unit, 1), "The division by the root of d_k is missing"),
    "cosine": (rescaled(lambda x: F.normalize(x, dim=-1), 1), "these are cosines"),
    "length": (rescaled(lambda x: x / x.norm(dim=-1, keepdim=True)), "not their sum"),
    "layer norm": (rescaled(lambda x: F.layer_norm(x, x.shape[-1:])), "The mean was taken off"),
    "deviation": (rescaled(lambda x: x / x.std(-1, keepdim=True)), "standard deviation"),
    "no root": (rescaled(lambda x: x / x.pow(2).mean(-1, keepdim=True)), "The root is missing"),
    "one for all": (rescaled(lambda x: x / x.pow(2).mean().sqrt()), "One number rescales"),
    "one each": (
        rescaled(lambda x: x / x.pow(2).mean((-2, -1), keepdim=True).sqrt()),
        "One number rescales",
    ),
    "tokens": (rescaled(lambda x: x / x.pow(2).mean(-2, keepdim=True).sqrt()), "over the tokens"),
    "sizes": (rescaled(lambda x: x / x.abs().mean(-1, keepdim=True)), "mean of the sizes"),
    "softmax": (lambda q, k: normed(q, k).softmax(-1), "one step too far"),
    "scores": (lambda q, k: unit(scores_of(q, k)), "before the product"),
    "transposed": (lambda q, k: normed(k, q), "got (2, 7, 5)"),
    "batch only": (lambda q, k: torch.bmm(unit(q), unit(k).mT) / 11**0.5, "query (5, 11)"),
    "from the front": (
        rescaled(lambda x: x / x.pow(2).mean(2, keepdim=True).sqrt()),
        "query (5, 11)",
    ),
    "in place": (lambda q, k: normed(q.div_(2), k), "in place"),
    "a constant": (lambda q, k: normed(q, k) + 1, "are not those"),
    "a number": (lambda q, k: 1.0, "instead of a tensor"),
}


@pytest.mark.parametrize("name", WRONG_NORMED)
def test_normed_scores_names_the_mistake(name):
    function, words = WRONG_NORMED[name]
    refused(check_normed_scores, function, words)


@pytest.mark.parametrize(
    "function",
    [
        normed,
        rescaled(lambda x: F.rms_norm(x, x.shape[-1:])),
        rescaled(lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)),
        lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * q.shape[-1] ** 0.5,
        lambda q, k: attention_scores(unit(q), unit(k)),
        lambda q, k: scores_of(q, k) / (unit_size(q) * unit_size(k).mT),
    ],
)
def test_normed_scores_accepts(function):
    accepted(check_normed_scores, function)


def unit_size(x):
    return x.square().mean(dim=-1, keepdim=True).sqrt()


# --- what a verdict is ----------------------------------------------------------------------------

RIGHT = {
    check_always_true: "B",
    check_good_factor: 2.1,
    check_hundred_dice: lambda c: (MEAN / c, VARIANCE / c**2),
    check_normed_scores: normed,
    check_repeatable_experiment: experiment,
}


@pytest.mark.parametrize("check", RIGHT, ids=lambda check: check.__name__)
def test_a_verdict_is_the_same_every_time_and_moves_no_random_stream(check):
    steady(check, RIGHT[check])
