"""Measurements agree with closed forms and with autograd, and empty rows measure 0."""

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

N, H, L, S, E = 2, 3, 5, 7, 11
NAN = float("nan")
WEIGHT_MEASURES = (attention_entropy, effective_keys, max_weight)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def draw_weights(*shape: int) -> Tensor:
    return attention_weights(draw(*shape))


# --- rows of weights ------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [1, 2, 7, 1024])
def test_uniform_weights(keys):
    weights = torch.full((L, keys), 1 / keys, dtype=torch.float64)
    every_row = torch.ones(L, dtype=torch.float64)
    assert_close(attention_entropy(weights), every_row * math.log(keys))
    assert_close(effective_keys(weights), every_row * keys)
    assert_close(max_weight(weights), every_row / keys)


def test_all_weight_on_one_key():
    weights = torch.eye(L, S, dtype=torch.float64)
    assert torch.equal(attention_entropy(weights), torch.zeros(L, dtype=torch.float64))
    assert torch.equal(effective_keys(weights), torch.ones(L, dtype=torch.float64))
    assert torch.equal(max_weight(weights), torch.ones(L, dtype=torch.float64))


def test_weights_shared_by_some_keys():
    weights = torch.tensor([[0.5, 0.25, 0.25, 0.0]], dtype=torch.float64)
    assert_close(attention_entropy(weights), torch.tensor([1.5 * math.log(2)]).double())
    assert_close(effective_keys(weights), torch.tensor([2**1.5]).double())


def test_entropy_is_in_nats_and_never_above_that_of_uniform_weights():
    weights = draw_weights(N, H, L, S)
    by_hand = -(weights * weights.log()).sum(dim=-1)
    assert_close(attention_entropy(weights), by_hand)
    assert (attention_entropy(weights) < math.log(S)).all()


@pytest.mark.parametrize("measure", WEIGHT_MEASURES)
def test_a_row_without_an_allowed_key_measures_zero(measure):
    weights = draw_weights(N, L, S)
    weights[1, 3] = 0
    measured = measure(weights)
    assert measured[1, 3] == 0
    assert (measured[0] > 0).all()


@pytest.mark.parametrize("measure", WEIGHT_MEASURES)
def test_a_nan_stays_visible_in_its_row_and_only_there(measure):
    weights = draw_weights(N, L, S)
    weights[1, 3, 2] = NAN
    assert measure(weights).isnan().nonzero().tolist() == [[1, 3]]


@pytest.mark.parametrize("measure", WEIGHT_MEASURES)
def test_scores_in_place_of_weights_are_an_error(measure):
    scores = torch.tensor([[0.5, -0.75], [1.0, 2.0]])
    sentence = (
        "weights must lie between 0 and 1 (2 after dropout), got -0.75; "
        "pass the weights after the softmax, not the scores."
    )
    with pytest.raises(ValueError, match=re.escape(sentence)):
        measure(scores)


@pytest.mark.parametrize("measure", [*WEIGHT_MEASURES, score_variance])
@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 1, 3)], ids=str)
def test_every_row_measure_keeps_the_leading_dimensions(measure, lead):
    weights = draw_weights(*lead, L, S)
    assert measure(weights).shape == (*lead, L)
    alone = measure(weights[(0,) * len(lead)])
    assert_close(measure(weights)[(0,) * len(lead)], alone)


def test_rows_are_measured_not_columns():
    weights = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    assert_close(effective_keys(weights), torch.tensor([1.0, 1.0, 2.0]))
    assert_close(max_weight(weights), torch.tensor([1.0, 1.0, 0.5]))


# --- scores ---------------------------------------------------------------------------------------


def test_score_variance_is_the_sample_variance_within_a_row():
    scores = draw(N, H, L, S)
    centred = scores - scores.mean(dim=-1, keepdim=True)
    assert_close(score_variance(scores), centred.square().sum(dim=-1) / (S - 1))


def test_score_variance_sees_no_difference_between_rows():
    scores = torch.tensor([[1.0, 1.0, 1.0], [100.0, 100.0, 100.0]])
    assert torch.equal(score_variance(scores), torch.zeros(2))


# --- derivatives ----------------------------------------------------------------------------------


def test_jacobian_by_hand():
    p = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    by_hand = [[0.16, -0.06, -0.1], [-0.06, 0.21, -0.15], [-0.1, -0.15, 0.25]]
    assert_close(softmax_jacobian(p), torch.tensor(by_hand, dtype=torch.float64))


def test_jacobian_equals_autograd():
    scores = draw(S)
    twin = torch.autograd.functional.jacobian(lambda s: s.softmax(dim=-1), scores)
    assert_close(softmax_jacobian(scores.softmax(dim=-1)), twin)


def test_jacobian_of_every_row_is_symmetric_and_sums_to_zero():
    weights = draw_weights(N, H, L, S)
    jacobian = softmax_jacobian(weights)
    assert jacobian.shape == (N, H, L, S, S)
    assert_close(jacobian[1, 2, 3], softmax_jacobian(weights[1, 2, 3]))
    assert_close(jacobian, jacobian.transpose(-1, -2))
    assert_close(jacobian.sum(dim=-1), torch.zeros(N, H, L, S, dtype=torch.float64))
    diagonal = jacobian.diagonal(dim1=-2, dim2=-1)
    assert_close(diagonal, weights * (1 - weights))


def test_jacobian_of_a_blocked_row_is_zero():
    assert torch.equal(softmax_jacobian(torch.zeros(S)), torch.zeros(S, S))


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


def test_influence_of_a_causal_function_stops_at_the_diagonal():
    influence = influence_map(attend_causally, draw(L, E))
    assert torch.equal(influence > 0, causal_mask(L))


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
    assert_close(influence[4, 1], jacobian[4, :, 1, :].norm())
    assert_close(influence[2, 2], jacobian[2, :, 2, :].norm())


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
def test_measures_leave_their_argument_alone(measure):
    weights = draw_weights(L, S)
    before = weights.clone()
    result = measure(weights)
    assert torch.equal(weights, before)
    assert weights._version == 0
    assert result.dtype == weights.dtype


@pytest.mark.parametrize("measure", [*WEIGHT_MEASURES, score_variance, softmax_jacobian])
def test_measures_can_be_differentiated(measure):
    weights = draw_weights(L, S).requires_grad_()
    (gradient,) = torch.autograd.grad(measure(weights).sum(), weights)
    assert gradient.isfinite().all()
