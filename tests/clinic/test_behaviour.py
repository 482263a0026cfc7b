"""One table of behaviour for functions, layers and pieces: what is wrong is named in each."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnlab._bounded import Caller
from attnlab.clinic import behaviour, diagnose
from attnlab.clinic._results import Results


class Doubling(behaviour.Subject):
    """A function of one tensor x, (N, L, E)."""

    def __init__(self, function, module=None):
        self.function, self.module = function, module
        self.caller = Caller(function, 5.0)

    def inputs(self, *, seed=0, sizes=0):
        drawn = torch.Generator().manual_seed(seed)
        x = torch.randn(2, 5 + sizes, 4, generator=drawn, dtype=torch.float64)
        return {"x": x.to(self.dtype)}

    def answer(self, inputs, *, graph=False):
        with torch.set_grad_enabled(graph):
            return self.caller(*(x if graph else x.clone() for x in inputs.values()))

    def again(self, *, dtype=None, device=None):
        if self.module is None:
            return super().again(dtype=dtype)
        module = copy.deepcopy(self.module).to(device or "cpu")
        other = Doubling(module, module)
        other.dtype = dtype or self.dtype
        return other

    def called(self, place):
        return "x"


def names(function, module=None):
    subject, results = Doubling(function, module), Results()
    if behaviour.examine_steadiness(subject, results):
        behaviour.examine_memory(subject, results)
        behaviour.examine_finite(subject, results)
        behaviour.examine_precision(subject, results)
        behaviour.examine_behaviour(subject, results)
    behaviour.examine_watch(subject, results)
    return [finding.name for finding in results.findings], results


def cached_by_shape():
    kept = {}
    return lambda x: kept.setdefault(x.shape, x.clone()) * 2


def counting():
    calls = []
    return lambda x: (calls.append(1), x * len(calls))[1]


WRONG = {
    "noise": (lambda x: x + torch.randn_like(x), "random"),
    "counts": (counting(), "remembers"),
    "cached by shape": (cached_by_shape(), "remembers"),
    "half inside": (lambda x: x.softmax(-1).half().to(x), "dtype"),
    "float32 only": (lambda x: x.float() * 2, "dtype"),
    "NaN": (lambda x: x / 0 * 0, "nan"),
    "detached": (lambda x: x.detach() * 2, "detached"),
    "a part detached": (lambda x: x.exp() / x.exp().sum(-1, keepdim=True).detach(), "detached"),
    "on the CPU": (lambda x: x + torch.zeros(4, dtype=x.dtype), "device"),
    "viewed": (lambda x: x.view(-1, 4).view(x.shape), "contiguity"),
    "in place": (lambda x: x.mul_(2), "modifies-input"),
    "prints": (lambda x: print("hi") or x * 2, "prints"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name):
    function, cause = WRONG[name]
    assert names(function)[0][:1] == [cause]


@pytest.mark.parametrize(
    "function", [lambda x: x * 2, lambda x: x.softmax(-1), lambda x: F.relu(x), torch.tanh]
)
def test_what_is_right_is_not_accused(function):
    found, results = names(function)
    assert found == []
    keys = {said.key for said in results.properties}
    assert keys == {"device", "gradients", "contiguity", "dtype", "arguments"}


def test_a_softmax_in_float32_is_no_low_precision():
    assert names(lambda x: x.softmax(-1, dtype=torch.float32).to(x))[0] == []


def test_a_tensor_that_a_layer_keeps_is_to_be_registered():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = torch.zeros(4)

        def forward(self, x):
            return x + self.shift.to(x.dtype)

    module = Keeps()
    results = names(module, module)[1]
    assert "register_buffer('shift'" in results.findings[0].fix


def test_a_parameter_without_a_gradient_is_told_from_an_unused_one():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.spare = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * self.scale.detach()

    module = Cut()
    found, results = names(module, module)
    assert found == ["detached"]
    assert "scale" in str(results.findings[0])
    assert "spare" not in str(results.findings[0])


def test_the_input_is_named_where_it_is_changed():
    results = names(lambda x: x.mul_(2))[1]
    assert str(results.findings[0]) == "It changes what it is given, in place: x."


def test_the_first_row_that_changed_is_shown_before_and_after():
    def spoil(x):
        x[1:, 2] = 9
        return x

    shown = names(spoil)[1].findings[-1].evidence
    assert shown.rows == ("before", "after")
    assert shown.values[1].tolist() == [9] * 4


def test_nothing_is_said_of_arguments_that_no_call_took():
    def attention(query, key, value, table):
        return table["scale"] * query

    report = diagnose(attention)
    assert (report.ok, report.properties) == (None, ())
