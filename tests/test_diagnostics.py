"""Measurements agree with closed forms and with autograd, and empty rows measure 0.

What is refused, and the other shapes and dtypes, are tested in test_bad_arguments.py.
"""

import math
import re

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attnlab import (
    attention_entropy,
    attention_weights,
    causal_mask,
    effective_keys,
    gradient_norms,
    influence_map,
    max_weight,
    scaled_dot_product_attention,
    score_variance,
    softmax_jacobian,
)
from tests.kernels import NAN, draw

N, H, L, S, E = 2, 3, 5, 7, 11
WEIGHT_MEASURES = (attention_entropy, effective_keys, max_weight)


def draw_weights(*shape: int) -> Tensor:
    return attention_weights(draw(*shape))


# --- rows of weights ------------------------------------------------------------------------------


HALF, QUARTER = 0.5, 0.25
ROWS = [  # weights of a row, then their entropy in nats, effective keys, largest weight
    ([1 / S] * S, math.log(S), S, 1 / S),
    ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.0, 1.0, 1.0),
    ([HALF, QUARTER, QUARTER, 0.0, 0.0, 0.0, 0.0], 1.5 * math.log(2), 2**1.5, HALF),
    ([0.0] * S, 0.0, 0.0, 0.0),  # no key is allowed
    ([HALF, NAN, 0.0, 0.0, 0.0, 0.0, HALF], NAN, NAN, NAN),
]


@pytest.mark.parametrize("measure", WEIGHT_MEASURES)
@pytest.mark.parametrize("lead", [(), (N, H), (N, 1, H)], ids=str)
def test_rows_of_weights_that_are_known(measure, lead):
    rows, *columns = zip(*ROWS, strict=True)
    weights = torch.tensor(rows, dtype=torch.float64).expand(*lead, L, S)
    wanted = columns[WEIGHT_MEASURES.index(measure)]
    wanted = torch.tensor(wanted, dtype=torch.float64).expand(*lead, L)
    assert_close(measure(weights), wanted, equal_nan=True)


@pytest.mark.parametrize("measure", WEIGHT_MEASURES)
def test_scores_in_place_of_weights_are_an_error(measure):
    sentence = "got -0.75; pass the weights after the softmax, not the scores."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        measure(torch.tensor([[0.5, -0.75], [1.0, 2.0]]))


def test_score_variance_is_the_sample_variance_within_a_row():
    scores = draw(N, 1, L, S)
    centred = scores - scores.mean(dim=-1, keepdim=True)
    assert_close(score_variance(scores), centred.square().sum(dim=-1) / (S - 1))


# --- derivatives ----------------------------------------------------------------------------------


def test_jacobian_of_every_row_equals_autograd_and_is_zero_in_a_blocked_one():
    scores = draw(N, H, L, S)
    scores[0, 1, 2] = -torch.inf
    jacobian = softmax_jacobian(attention_weights(scores, attn_mask=~scores.isneginf()))
    assert jacobian.shape == (N, H, L, S, S)
    assert (jacobian[0, 1, 2] == 0).all()
    twin = torch.autograd.functional.jacobian(lambda s: s.softmax(dim=-1), scores[1, 2, 3])
    assert_close(jacobian[1, 2, 3], twin)
    assert_close(softmax_jacobian(scores[1, 2, 3].softmax(dim=-1)), twin)


def test_gradient_norms_of_every_row():
    x = draw(N, L, E).requires_grad_()
    factor = torch.arange(1.0, L + 1, dtype=torch.float64)
    norms = gradient_norms((x * factor[:, None]).sum(), x)
    assert_close(norms, (factor * math.sqrt(E)).expand(N, L))


def test_gradient_norms_can_be_asked_in_turn_and_leave_no_trace():
    query, key = (draw(length, E).requires_grad_() for length in (L, S))
    value = draw(S, 13)
    loss = scaled_dot_product_attention(query, key, value).square().sum()
    first, second = gradient_norms(loss, query), gradient_norms(loss, key)
    assert first.shape == (L,)
    assert second.shape == (S,)
    assert query.grad is None
    assert key.grad is None
    loss.backward()  # the graph is still there
    assert_close(first, query.grad.norm(dim=-1))
    assert_close(second, key.grad.norm(dim=-1))


def test_gradient_norms_of_a_loss_with_one_entry():
    x = torch.ones(L, E, requires_grad=True)
    assert gradient_norms(x.sum().view(1, 1), x).shape == (L,)


# --- who depends on whom --------------------------------------------------------------------------


def attend_causally(x: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x, is_causal=True)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: 3 * x, 3 * torch.eye(L).double() * math.sqrt(E)),
        (lambda x: x.flip(0), torch.eye(L).double().flip(0) * math.sqrt(E)),
        (lambda x: x.mean(dim=0).expand(L, E), torch.full((L, L), math.sqrt(E) / L).double()),
        (lambda x: torch.ones(L, 2).double() + 0 * x[:, :2], torch.zeros(L, L).double()),
    ],
    ids=["every token alone", "turned round", "mean", "constant"],
)
def test_influence_of_functions_that_are_known(function, expected):
    assert_close(influence_map(function, draw(L, E)), expected)


def test_influence_equals_autograd_entry_by_entry():
    x = draw(L, E)
    jacobian = torch.autograd.functional.jacobian(attend_causally, x)  # (L, E, L, E)
    influence = influence_map(attend_causally, x)
    assert_close(influence, jacobian.norm(dim=(1, 3)))
    assert torch.equal(influence > 0, causal_mask(L))


def test_influence_leaves_its_argument_alone():
    x = draw(L, E).requires_grad_()
    before = x.detach().clone()

    def careless(y: Tensor) -> Tensor:
        y.data.fill_(7)
        return 2 * y

    influence = influence_map(careless, x)
    assert torch.equal(x, before)
    assert x.grad is None
    assert not influence.requires_grad


@pytest.mark.parametrize("measure", [*WEIGHT_MEASURES, score_variance, softmax_jacobian])
def test_measures_can_be_differentiated_and_leave_their_argument_alone(measure):
    weights = draw_weights(L, S).requires_grad_()
    before = weights.detach().clone()
    result = measure(weights)
    (gradient,) = torch.autograd.grad(result.sum(), weights)
    assert gradient.isfinite().all()
    assert torch.equal(weights, before)
    assert weights._version == 0
    assert result.dtype == weights.dtype
