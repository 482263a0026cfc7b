"""Measurements agree with closed forms and with autograd, and empty rows measure 0."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attnlab import (
    causal_mask,
    effective_keys,
    influence_map,
    scaled_dot_product_attention,
)
from tests.helper.common import NAN, draw, refuses

N, H, L, S, E = 2, 3, 5, 7, 11
HALF, QUARTER = 0.5, 0.25
ROWS = [  # weights of a row, and their effective keys
    ([1 / S] * S, S),
    ([0, 1, 0, 0, 0, 0, 0], 1),
    ([HALF, QUARTER, QUARTER, 0, 0, 0, 0], 2**1.5),
    ([0] * S, 0),  # no key is allowed
    ([HALF, NAN, 0, 0, 0, 0, HALF], NAN),
]


@pytest.mark.parametrize("lead", [(), (N, 1, H)], ids=str)
def test_rows_of_weights_that_are_known(lead):
    rows, keys = (torch.tensor(part).double() for part in zip(*ROWS, strict=True))
    got = effective_keys(rows.expand(*lead, L, S))
    assert_close(got, keys.expand(*lead, L), equal_nan=True)


# --- who depends on whom --------------------------------------------------------------------------


def attend_causally(x: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x, is_causal=True)


ROOT = math.sqrt(E)
KNOWN = {
    "every token alone": (lambda x: 3 * x, 3 * ROOT * torch.eye(L)),
    "turned round": (lambda x: x.flip(0), ROOT * torch.eye(L).flip(0)),
    "mean": (lambda x: x.mean(dim=0).expand(L, E), torch.full((L, L), ROOT / L)),
    "first token": (lambda x: x[:1].expand(L, E), ROOT * torch.eye(L)[0].expand(L, L)),
    "constant": (lambda x: torch.ones(L, 2).double() + 0 * x[:, :2], torch.zeros(L, L)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_influence_of_functions_that_are_known(name):
    function, wanted = KNOWN[name]
    assert_close(influence_map(function, draw(L, E)), wanted.double())


def test_influence_equals_autograd_and_leaves_its_argument_alone():
    x = draw(L, E).requires_grad_()
    before = x.detach().clone()

    def careless(y: Tensor) -> Tensor:
        output = attend_causally(y.clone())
        y.data.fill_(7)
        return output

    influence = influence_map(careless, x)
    jacobian = torch.autograd.functional.jacobian(attend_causally, before)  # (L, E, L, E)
    assert_close(influence, jacobian.norm(dim=(1, 3)))
    assert torch.equal(influence > 0, causal_mask(L))
    assert torch.equal(x, before)
    assert x.grad is None
    assert not influence.requires_grad


X = torch.ones(L, E, requires_grad=True)
ONES = torch.ones(L, E)
BAD = [  # a call, the kind of error, and how its sentence begins
    (lambda: effective_keys(ONES.int()), TypeError, r"weights .* use weights.float\(\)"),
    (lambda: effective_keys(ONES - 1.75), ValueError, r"weights must lie .* got -0.75; pass"),
    (
        lambda: effective_keys(ONES + 1.1),
        ValueError,
        r"weights must lie between 0 and 1 .* 2.1",
    ),
    (lambda: effective_keys(ONES[:, :0]), ValueError, r"weights must have at least one key S"),
    (lambda: influence_map(3, X), TypeError, r"function must be callable, got int"),
    (lambda: influence_map(torch.sin, X[None]), ValueError, r"x must .* without a batch dimension"),
    (lambda: influence_map(torch.sin, X[:0]), ValueError, r"x must have at least one token"),
    (lambda: influence_map(lambda x: x[1:], X), ValueError, r"function .* \(5, 11\) -> \(4, 11\)"),
    (lambda: influence_map(lambda x: 3, X), ValueError, r"function must map .* -> int"),
    (lambda: influence_map(lambda x: x.int(), X), TypeError, r"the output of function must be a"),
]


test_a_bad_call_gets_a_sentence = refuses(BAD)
