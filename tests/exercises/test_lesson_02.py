"""The checks of lesson 2: what they accept, and what they say of answers that are not slips."""

import math

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
from tests.exercises.verdicts import accepted, accepts, names, refused

MEAN, VARIANCE = 350.0, 100 * 35 / 12


def experiment(seed):
    own = torch.Generator().manual_seed(seed)
    query = torch.randn(1, 4, 8, generator=own)
    key = torch.randn(1, 4, 8, generator=own)
    return attention_weights(attention_scores(query, key))[0, 1, 1].item()


def with_a_fork(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        query, key = torch.randn(1, 4, 8), torch.randn(1, 4, 8)
    return attention_weights(attention_scores(query, key))[0, 1, 1].item()


def with_common_stream(seed):
    torch.manual_seed(seed)
    return attention_weights(attention_scores(*torch.randn(2, 1, 4, 8)))[0, 1, 1].item()


def with_one_generator():
    own = torch.Generator().manual_seed(42)

    def function(_seed):
        query, key = (torch.randn(1, 4, 8, generator=own) for _ in range(2))
        return attention_weights(attention_scores(query, key))[0, 1, 1].item()

    return function


def size(x):
    return x.square().mean(dim=-1, keepdim=True).sqrt()


def normed(query, key):
    return (query / size(query)) @ (key / size(key)).mT / query.shape[-1] ** 0.5


def rescaled(function):
    return lambda query, key: function(query) @ function(key).mT / 11**0.5


test_accepts = accepts(
    {
        check_always_true: [lambda: "B", lambda: " b ", "B"],
        check_hundred_dice: [
            lambda c: (MEAN / c, VARIANCE / c**2),
            lambda c: (torch.tensor(MEAN / c), torch.tensor(VARIANCE) / c**2),
        ],
        check_repeatable_experiment: [
            experiment,
            with_a_fork,
            lambda seed: torch.tensor(experiment(seed)),
        ],
        check_good_factor: [lambda: 10 / 436.5**0.25, 2.1, lambda: torch.tensor([2.0])],
        check_normed_scores: [
            normed,
            rescaled(lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)),
            lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * q.shape[-1] ** 0.5,
            lambda q, k: normed(q.double(), k.double()),
        ],
    }
)

test_names_the_mistake = names(
    {
        check_always_true: {
            'Return one letter: "A", "B", "C" or "D"': "AB",
        },
        check_hundred_dice: {
            "Add up the means": lambda c: (300.0 / c, VARIANCE / c**2),
            "Add up the variances": lambda c: (MEAN / c, 200 / c**2),
            "NaN": lambda c: (MEAN / c, math.nan),
            "Return two numbers": lambda c: MEAN / c,
        },
        check_repeatable_experiment: {
            "changes torch's global random state": with_common_stream,
            "Make the generator inside": with_one_generator(),
            "must give 0.6555, got 0.2836. Draw query and key, in this order": lambda seed: (
                experiment(seed + 1)
            ),
        },
        check_good_factor: {
            "436, so the factor is too large.": 10,
            "too small": 0,
        },
        check_normed_scores: {
            "must be (2, 5, 7), got (2, 7, 5). Count dimensions": lambda q, k: normed(k, q),
            "query (5, 11)": lambda q, k: torch.bmm(q / size(q), (k / size(k)).mT) / 11**0.5,
            "key (7, 11) it raises IndexError": (
                rescaled(lambda x: x / x.pow(2).mean(2, keepdim=True).sqrt())
            ),
            "a root of a negative number": lambda q, k: normed(q, k).sub(9).sqrt(),
        },
    }
)


def test_dice_are_shown_beside_the_throws():
    verdict = accepted(check_hundred_dice, lambda c: (MEAN / c, VARIANCE / c**2))
    assert "observed variance" in repr(verdict)
    verdict = refused(check_hundred_dice, lambda c: (MEAN, VARIANCE))
    assert verdict.evidence.rows == ("yours", "observed")
    assert verdict.evidence.values[0].tolist() == pytest.approx([MEAN, VARIANCE])


def test_a_factor_is_shown_beside_the_one_of_the_lesson():
    verdict = refused(check_good_factor, 10 / 8, "divides the variance by the fourth power of 8")
    assert "too small" in verdict.message
    assert verdict.evidence.values[0].tolist() == [10, verdict.evidence.values[0, 1]]
    assert abs(verdict.evidence.values[0, 1] - 436.5) < 0.1
