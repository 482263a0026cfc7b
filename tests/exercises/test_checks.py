"""The checks of the exercises: what they reject and why, what they accept, what they survive."""

import functools
import math
import random
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import softmax as weigh
from torch.overrides import _get_current_function_mode_stack

from attnlab import (
    attention_scores,
    attention_weights,
    exercises,
    load_table,
    scaled_dot_product_attention,
)
from attnlab.exercises import (
    Verdict,
    _answers,
    check_always_true,
    check_attention_from_exp,
    check_good_factor,
    check_hundred_dice,
    check_mended,
    check_normed_scores,
    check_query_for_awesome,
    check_repeatable_experiment,
    check_zero_query,
)
from tests.exercises.verdicts import accepted, refused, steady

X = load_table("he_is_awesome.csv").values
CHECKS = {name: getattr(exercises, name) for name in exercises.__all__ if name.startswith("check_")}
ARGUMENTS = {
    "check_mended": 3,
    "check_attention_from_exp": 3,
    "check_hundred_dice": 1,
    "check_repeatable_experiment": 1,
    "check_normed_scores": 2,
}  # the others: 0


def attention(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1) @ value


def scores_of(query, key):
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def from_exp(query, key, value):
    scores = scores_of(query, key)
    positive = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return positive / positive.sum(dim=-1, keepdim=True) @ value


def unit(x):
    return x / x.pow(2).mean(dim=-1, keepdim=True).sqrt()


def normed(query, key):
    return unit(query) @ unit(key).transpose(-2, -1) / query.shape[-1] ** 0.5


def experiment(seed):
    own = torch.Generator().manual_seed(seed)
    query = torch.randn(1, 4, 8, generator=own)
    key = torch.randn(1, 4, 8, generator=own)
    return attention_weights(attention_scores(query, key))[0, 1, 1].item()


# --- lesson 1, a query of zeros -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([0, 0, 0], "These are the scores"),
        ([1, 1, 1], "divide by the sum"),
        ([1, 0, 0], "a hard look-up"),
        ([0.25] * 4, "four counts the features"),
        ([0.5, 0.5], "yours has (2,)"),
        ([0.315, 0.385, 0.3], "weights of the query “He”"),
        ([100 / 3] * 3, "In percent?"),
        ([0.3, 0.3, 0.3], "yours to 0.900"),
        ([0.5, 0.6, -0.1], "No weight is negative"),
        ([0.4, 0.3, 0.3], "Does any key score more"),
        ([math.nan] * 3, "NaN"),
        (torch.full((1, 3), 1 / 3), "yours has (1, 3)"),
        ("a third", "a str"),
    ],
)
def test_zero_query_names_the_misconception(weights, words):
    refused(check_zero_query, lambda: weights, words)


@pytest.mark.parametrize(
    "answer",
    [
        lambda: [1 / 3, 1 / 3, 1 / 3],
        lambda: (0.33, 0.33, 0.33),
        lambda: [0.34, 0.33, 0.33],
        lambda: torch.full((3,), 1 / 3, requires_grad=True),
        lambda: torch.ones(3, dtype=torch.float16) / 3,
        lambda: [torch.tensor(1 / 3)] * 3,
        [1 / 3] * 3,
        torch.exp(torch.zeros(3)) / 3,
    ],
)
def test_zero_query_accepts(answer):
    accepted(check_zero_query, answer)


SOFTMAXES = [
    lambda scores: scores.softmax(-1),
    lambda scores: torch.softmax(scores, dim=-1),
    lambda scores: F.softmax(scores, dim=-1),
    lambda scores: weigh(scores, dim=-1),
    lambda scores: nn.Softmax(dim=-1)(scores),
    lambda scores: F.log_softmax(scores, dim=-1).exp(),
    lambda scores: scores.log_softmax(-1).exp(),
    lambda scores: torch.special.softmax(scores, -1),
    lambda scores: F.softmin(-scores, dim=-1),
    attention_weights,
]


@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_zero_query_notices_a_softmax(softmax):
    refused(check_zero_query, lambda: softmax(torch.zeros(1, 3))[0], "without it")


# --- lesson 1, a query for one word ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (X[2], "Make the query longer"),
        (X[2] - X[1], "Make the query longer"),
        (X[0], "“is” leads"),
        (100 * X[1], "the opposite one would do"),
        (-20 * (X[2] - X[1]), "the opposite one would do"),
        (torch.zeros(4), "prefers none"),
        (torch.ones(4), "“is” leads"),
        (1000 * torch.ones(4), "length will not help"),
        (X[2][None], "one query alone"),
        ([0, 0, 1], "per feature, not per word"),
        ([1, math.inf, 0, 0], "NaN or infinity"),
        ([1e308, 1e308, 1e308, 1e308], "leave the range"),
    ],
)
def test_query_for_awesome_names_what_is_missing(query, words):
    refused(check_query_for_awesome, lambda: query, words)


@pytest.mark.parametrize(
    "answer",
    [
        lambda: 20 * (X[2] - X[1]),
        lambda: [10, -10, -10, -10],
        lambda: (20.0, -20.0, -1.0, 0.0),
        (20 * (X[2] - X[1])).tolist(),
        (20 * (X[2] - X[1])).requires_grad_(),
    ],
)
def test_query_for_awesome_accepts(answer):
    assert "of the weight" in accepted(check_query_for_awesome, answer).message


# --- lesson 1, a broken attention -----------------------------------------------------------------


def broken(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(len(key))
    return scores.softmax(dim=0) @ value


def half_mended(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(len(key))
    return scores.softmax(dim=-1) @ value


def from_scores(weights):
    return lambda query, key, value: weights(scores_of(query, key)) @ value


def shared(positive):
    return positive / positive.sum(dim=-1, keepdim=True)


WRONG_ATTENTIONS = {
    "broken": (broken, "runs over the sequences of the batch"),
    "half mended": (half_mended, "root of the batch size"),
    "over the queries": (
        lambda query, key, value: scores_of(query, key).softmax(dim=1) @ value,
        "runs over the queries",
    ),
    "root of S": (
        lambda query, key, value: (query @ key.mT / key.shape[-2] ** 0.5).softmax(-1) @ value,
        "root of S",
    ),
    "not divided": (
        lambda query, key, value: (query @ key.mT).softmax(-1) @ value,
        "not scaled at all",
    ),
    "counted from the front": (
        lambda query, key, value: scores_of(query, key).softmax(dim=2) @ value,
        "from the end",
    ),
    "no batch": (
        lambda query, key, value: (query @ key.t() / query.shape[-1] ** 0.5).softmax(-1) @ value,
        "query (2, 5, 11)",
    ),
    "weights too": (
        lambda query, key, value: (attention(query, key, value), scores_of(query, key)),
        "a tuple of 2",
    ),
    "a list": (lambda query, key, value: attention(query, key, value).tolist(), "a list of 2"),
    "weights": (lambda query, key, value: scores_of(query, key).softmax(-1), "(2, 5, 7)"),
    "key and value": (lambda query, key, value: attention(query, value, key), "are exchanged"),
    "causal": (
        lambda query, key, value: F.scaled_dot_product_attention(query, key, value, is_causal=True),
        "query (2, 5, 11)",
    ),
    "no keepdim": (
        from_scores(lambda s: shared((s - s.amax(-1)).exp())),
        "it raises RuntimeError: The size of tensor a (7)",
    ),
    "random": (lambda query, key, value: F.dropout(attention(query, key, value)), "random"),
    "None for one": (
        lambda query, key, value: attention(query, key, value) if query.ndim == 3 else None,
        "it returns None",
    ),
    "an array": (
        lambda query, key, value: attention(query, key, value).detach().numpy(),
        "an ndarray",
    ),
    "in place": (
        lambda query, key, value: attention(query.mul_(1), key.add_(1), value),
        "in place",
    ),
}


@pytest.mark.parametrize("name", WRONG_ATTENTIONS)
def test_mended_names_the_bug(name):
    function, words = WRONG_ATTENTIONS[name]
    refused(check_mended, function, words)


def test_a_wrong_attention_is_shown_in_numbers_and_shapes():
    verdict = refused(check_mended, broken, "Tried with query (2, 5, 11)")
    assert verdict.report.findings[0].name == "softmax-axis"
    assert "<table" in verdict._repr_html_()
    assert "sum" in repr(verdict)


def with_einsum(query, key, value):
    scores = torch.einsum("...le,...se->...ls", query, key) * query.shape[-1] ** -0.5
    return torch.einsum("...ls,...sv->...lv", torch.softmax(scores, -1), value)


def query_by_query(query, key, value):
    rows = [
        (query[..., i : i + 1, :] @ key.mT / query.size(-1) ** 0.5).softmax(-1) @ value
        for i in range(query.shape[-2])
    ]
    return torch.cat(rows, dim=-2)


@pytest.mark.parametrize(
    "function",
    [
        attention,
        with_einsum,
        query_by_query,
        lambda query, key, value: scaled_dot_product_attention(query, key, value),
        F.scaled_dot_product_attention,
        functools.partial(attention),
    ],
)
def test_mended_accepts(function):
    assert accepted(check_mended, function).remarks == ()


def test_what_cannot_be_learned_through_is_a_remark():
    (remark,) = accepted(check_mended, torch.no_grad()(attention)).remarks
    assert "No gradient" in remark
    assert not remark.endswith("..")


def test_a_print_and_a_missing_head_are_remarks():
    def talkative(query, key, value):
        print("row sums", 1)
        if query.ndim == 4:
            raise ValueError("too many")
        return attention(query, key, value)

    remarks = " ".join(accepted(check_mended, talkative).remarks)
    assert "prints something" in remarks
    assert "with heads" in remarks


# --- lesson 1, attention from exp -----------------------------------------------------------------


WRONG_FROM_EXP = {
    "no maximum": (from_scores(lambda s: shared(s.exp())), "e to the 1000 is infinite"),
    "one maximum": (from_scores(lambda s: shared((s - s.max()).exp())), "own largest score"),
    "mean taken off": (
        from_scores(lambda s: shared((s - s.mean(-1, keepdim=True)).exp())),
        "infinite",
    ),
    "clamped": (from_scores(lambda s: shared(s.clamp(-80, 80).exp())), "finite, but wrong"),
    "NaN removed": (from_scores(lambda s: shared(s.exp()).nan_to_num()), "finite, but wrong"),
    "a small number": (
        from_scores(
            lambda s: (s - s.max()).exp() / ((s - s.max()).exp().sum(dim=-1, keepdim=True) + 1e-30)
        ),
        "finite, but wrong",
    ),
    "no sum": (from_scores(lambda s: (s - s.amax(-1, keepdim=True)).exp()), "sum to"),
    "maximum over the queries": (
        from_scores(lambda s: shared((s - s.amax(-2, keepdim=True)).exp())),
        "loses its own maximum",
    ),
    "wrong sum": (
        from_scores(lambda s: s.exp() / s.exp().sum(dim=-2, keepdim=True)),
        "runs over the queries",
    ),
    "no root": (
        lambda query, key, value: from_exp(query * query.shape[-1] ** 0.5, key, value),
        "not scaled at all",
    ),
    "base 2": (
        from_scores(lambda s: shared(torch.exp2(s - s.amax(-1, keepdim=True)))),
        "not divided by the root",
    ),
}


@pytest.mark.parametrize("name", WRONG_FROM_EXP)
def test_attention_from_exp_names_the_bug(name):
    function, words = WRONG_FROM_EXP[name]
    verdict = refused(check_attention_from_exp, function, words)
    assert verdict.evidence is not None


@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_attention_from_exp_notices_a_softmax(softmax):
    refused(check_attention_from_exp, from_scores(softmax), "calls softmax")


@pytest.mark.parametrize("function", [F.scaled_dot_product_attention, attention])
def test_attention_from_exp_notices_a_whole_attention(function):
    refused(check_attention_from_exp, lambda q, k, v: function(q, k, v), "calls softmax")


@pytest.mark.parametrize(
    "function",
    [
        from_exp,
        from_scores(lambda s: (s - s.logsumexp(dim=-1, keepdim=True)).exp()),
        from_scores(lambda s: shared(torch.exp(s - s.max(dim=-1, keepdim=True).values))),
        from_scores(lambda s: shared(math.e ** (s - s.amax(-1)[..., None]))),
    ],
)
def test_attention_from_exp_accepts(function):
    accepted(check_attention_from_exp, function)


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
        (lambda: lambda seed: math.nan, "no finite number"),
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
        (math.inf, "no finite number"),
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


# --- stubs ----------------------------------------------------------------------------------------


def raising(error):
    def function(*inputs):
        raise error

    return function


def giving(value):
    return lambda *_inputs: value


def only_a_docstring(*_inputs):
    """Return nothing yet."""


STUBS = {
    "a docstring": only_a_docstring,
    "gives None": lambda *inputs: None,
    "gives dots": lambda *inputs: ...,
    "not implemented": raising(NotImplementedError),
    "implemented later": raising(NotImplementedError("later")),
    "None": None,
    "dots": ...,
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_stub_is_not_done_yet(check):
    for name, stub in STUBS.items():
        verdict = check(stub)
        assert (verdict.done, verdict.ok) == (False, False), name
        assert "not done yet" in repr(verdict), name
        assert "Not done yet" in verdict._repr_html_(), name


# --- hostile answers ------------------------------------------------------------------------------


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Rude(BaseException):
    pass


class Nameless:
    def __getattr__(self, name):
        raise RuntimeError("no name")

    def __call__(self, *inputs):
        raise ValueError("no")


class Lying:
    @property
    def __class__(self):
        raise RuntimeError("no class")


def generator(*inputs):
    yield 1


async def coroutine(*inputs):
    return 1


HOSTILE = {
    "raises": raising(ZeroDivisionError("division by zero")),
    "unspeakable": raising(Unspeakable()),
    "rude": raising(Rude("no")),
    "exits": raising(SystemExit(1)),
    "generator": generator,
    "coroutine": coroutine,
    "too many arguments": lambda a, b, c, d, e: 1,
    "keywords only": lambda *, a: 1,
    "a string": lambda *inputs: "yes",
    "a dict": lambda *inputs: {"a": 1},
    "a set": lambda *inputs: {1, 2},
    "an object": lambda *inputs: object(),
    "a function": lambda *inputs: print,
    "NaN": lambda *inputs: math.nan,
    "NaNs": lambda *inputs: torch.full((3,), math.nan),
    "empty": lambda *inputs: [],
    "an empty tensor": lambda *inputs: torch.empty(0),
    "ragged": lambda *inputs: [[1], [2, 3]],
    "complex": lambda *inputs: torch.ones(3, dtype=torch.complex64),
    "a complex number": lambda *inputs: 1j,
    "bool": lambda *inputs: True,
    "meta": lambda *inputs: torch.empty(3, device="meta"),
    "sparse": lambda *inputs: torch.eye(3).to_sparse(),
    "itself": lambda *inputs: [inputs],
    "nameless": Nameless(),
    "lying": Lying(),
    "lies": lambda *inputs: Lying(),
    "a class": Nameless,
    "a module": math,
    "a layer": nn.Linear(2, 2),
    "a layer's class": nn.MultiheadAttention,
    "an object's type": type,
    "print": print,
    "a number": 3,
    "a text": "check",
    "bytes": b"B",
    "a tensor": torch.ones(2, 3),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_whatever_is_handed_in_it_answers_in_words(check):
    for name, answer in HOSTILE.items():
        verdict = check(answer)
        assert isinstance(verdict, Verdict), name
        assert not verdict.ok, name
        assert len(verdict.message) > 15, name
        assert "Traceback" not in repr(verdict)
        assert "!" not in repr(verdict)
        assert verdict._repr_html_().startswith("<div")


VALUES = ["a text", 3.5, [], {}, torch.zeros(2), torch.zeros(3, 2), math.nan, (1, 2, 3)]


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_value_of_another_kind_is_an_answer_and_refused(check):
    for value in VALUES:
        refused(check, giving(value))


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_an_error_is_told(check):
    refused(check, raising(ValueError("no idea")), "no idea")


def test_an_error_is_told_with_its_case():
    verdict = refused(check_normed_scores, raising(ValueError("no luck.")), "(2, 5, 11)")
    assert verdict.message.endswith("it raises ValueError: no luck.")


def test_a_result_instead_of_the_function_is_told():
    refused(check_mended, torch.ones(2, 5, 13), "the function itself")


def test_html_in_an_answer_is_escaped():
    def function():
        raise ValueError("<script>alert(1)</script>")

    function.__name__ = "<b>"
    page = check_zero_query(function)._repr_html_()
    assert "<script" not in page
    assert "&lt;b&gt;" in page


def endless(*inputs):
    while True:
        pass


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_hang_is_stopped_and_leaves_nothing_behind(check, monkeypatch):
    monkeypatch.setattr(_answers, "TIME_LIMIT", 0.1)
    started = time.perf_counter()
    refused(check, endless, "did not come back within 0.1 seconds")
    assert time.perf_counter() - started < 5
    assert _get_current_function_mode_stack() == []


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_an_interrupt_passes_through(check):
    with pytest.raises(KeyboardInterrupt):
        check(raising(KeyboardInterrupt()))


# --- what a verdict is ----------------------------------------------------------------------------

RIGHT = {
    check_always_true: "B",
    check_attention_from_exp: from_exp,
    check_good_factor: 2.1,
    check_hundred_dice: lambda c: (MEAN / c, VARIANCE / c**2),
    check_mended: attention,
    check_normed_scores: normed,
    check_query_for_awesome: 20 * (X[2] - X[1]),
    check_repeatable_experiment: experiment,
    check_zero_query: [1 / 3] * 3,
}


def test_every_check_is_tested_here_or_beside():
    files = Path(__file__).parent.glob("test_checks_*.py")
    beside = "".join(path.read_text(encoding="utf-8") for path in files)
    untested = {name for name, check in CHECKS.items() if check not in RIGHT}
    assert {name for name in untested if f"{name}," not in beside} == set()


@pytest.mark.parametrize("check", RIGHT, ids=lambda check: check.__name__)
def test_a_verdict_is_the_same_every_time_and_moves_no_random_stream(check):
    steady(check, RIGHT[check])


@pytest.mark.parametrize(
    ("check", "spoiler"),
    [(check_zero_query, "third"), (check_always_true, "B"), (check_good_factor, "2.1")],
)
def test_the_verdict_on_a_solution_does_not_give_it_away(check, spoiler):
    assert spoiler not in repr(check(RIGHT[check]))


@pytest.mark.parametrize("check", [check_mended, check_zero_query])
def test_the_words_are_calm(check):
    for answer in (*HOSTILE.values(), broken):
        text = repr(check(answer))
        assert "!" not in text
        assert text.isprintable() or "\n" in text
