"""The clinic answers in words, whatever it examines: it never raises an error of its own."""

import asyncio
import functools
import itertools
import sys
import time
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import BaseTorchFunctionMode
from torch.overrides import _get_current_function_mode_stack as modes_of_torch

from attnlab.clinic import Report, diagnose
from attnlab.clinic._causes import CAUSES

SIGNATURES = (
    "",
    "q",
    "q, k",
    "q, k, v",
    "q, k, v, mask",
    "q, k, v, mask=None",
    "q, k, v, mask=None, is_causal=False",
    "q, k, v, *, attn_mask=None, training=True",
    "a, b, c, d, e, f",
    "*args",
    "*args, **kwargs",
    "x, num_heads",
    "scores, dim=-1",
    "lengths, max_len=None",
)
NAMES = ("attention", "causal_mask", "my_softmax", "split_heads", "merge_heads", "f")


class Speechless(Exception):
    """An error whose own text raises."""

    def __str__(self):
        raise RuntimeError("no words")


class Uncatchable(BaseException):
    """An error that ``except Exception`` lets through."""


def fail(error):
    raise error


def first(arguments):
    return next((part for part in arguments if isinstance(part, torch.Tensor)), torch.ones(2, 2))


def deep(arguments):
    return deep(arguments)


def sometimes():
    """Return a behaviour that fails on every third call."""
    counter = itertools.count()

    def behave(arguments):
        return fail(ValueError("third time")) if next(counter) % 3 == 2 else first(arguments)

    return behave


def shrinking():
    """Return a behaviour whose result loses a dimension with every call."""
    counter = itertools.count()
    return lambda arguments: first(arguments)[(0,) * (next(counter) % 3)]


BEHAVIOURS = {
    "raises": lambda a: fail(ValueError("boom")),
    "raises without words": lambda a: fail(KeyError()),
    "raises many lines": lambda a: fail(RuntimeError("a\n" * 50)),
    "raises without a text": lambda a: fail(Speechless()),
    "raises past Exception": lambda a: fail(Uncatchable("gone")),
    "exits": lambda a: sys.exit(3),
    "stops iteration": lambda a: next(iter(())),
    "recurs": deep,
    "asserts": lambda a: fail(AssertionError()),
    "returns None": lambda a: None,
    "returns a number": lambda a: 3.5,
    "returns text": lambda a: "output",
    "returns a generator": lambda a: (part for part in a),
    "returns a list": lambda a: [[1.0, 2.0]],
    "returns an empty tuple": lambda a: (),
    "returns a nest": lambda a: ((first(a),), {"x": first(a)}),
    "returns a dict": lambda a: {"output": first(a)},
    "returns a module": lambda a: nn.Linear(2, 2),
    "returns a function": lambda a: fail,
    "returns the input": first,
    "returns all inputs": lambda a: a,
    "returns NaN": lambda a: first(a) * float("nan"),
    "returns infinity": lambda a: first(a) / 0,
    "returns zeros": lambda a: torch.zeros_like(first(a)),
    "returns a scalar": lambda a: torch.tensor(1.0),
    "returns nothing in it": lambda a: torch.zeros(0, 3),
    "returns bool": lambda a: first(a) > 0,
    "returns integers": lambda a: first(a).long(),
    "returns complex": lambda a: first(a) * 1j,
    "returns sparse": lambda a: first(a).to_sparse(),
    "returns meta": lambda a: first(a).to("meta"),
    "returns the huge": lambda a: torch.ones(1).expand(10**5, 10**5),
    "returns a huge batch": lambda a: torch.ones(()).expand(2, 5, 13, 10**9),
    "returns noise": lambda a: torch.randn(first(a).shape),
    "returns a parameter": lambda a: nn.Parameter(first(a).detach().float()),
    "returns six dimensions": lambda a: first(a)[None, None, None],
    "transposes": lambda a: first(a).transpose(-1, -2),
    "fails at times": sometimes(),
    "shrinks": shrinking(),
    "prints much": lambda a: print("x" * 10**5) or first(a),
    "prints to stderr": lambda a: print("!", file=sys.stderr) or first(a),
    "turns its input in place": lambda a: first(a).t_() if first(a).ndim == 2 else first(a).zero_(),
    "resizes its input": lambda a: first(a).resize_(1, 1),
    "switches gradients off": lambda a: (torch.set_grad_enabled(False) and None) or first(a),
    "changes the default dtype": lambda a: torch.set_default_dtype(torch.float64) or first(a),
    "changes the default device": lambda a: torch.set_default_device("meta") or first(a),
    "watches torch for good": lambda a: BaseTorchFunctionMode().__enter__() and first(a),
    "sleeps a little": lambda a: time.sleep(0.02) or first(a),
    "averages everything": lambda a: first(a).mean(-2, keepdim=True).expand_as(first(a)),
    "is torch's": lambda a: F.scaled_dot_product_attention(*a[:3]),
}
THINGS = {
    "number": 3,
    "text": "attention",
    "None": None,
    "tensor": torch.ones(2),
    "empty pair": (),
    "three functions": (len, len, len),
    "pair of numbers": (1, 2),
    "builtin len": len,
    "builtin print": print,
    "builtin max": max,
    "class int": int,
    "class dict": dict,
    "class Linear": nn.Linear,
    "class MultiheadAttention": nn.MultiheadAttention,
    "torch.softmax": torch.softmax,
    "torch.matmul": torch.matmul,
    "torch.tril": torch.tril,
    "module types": types,
    "coroutine": asyncio.sleep,
    "partial": functools.partial(F.softmax, dim=-1),
    "bound method": torch.ones(2).softmax,
    "generator function": lambda q, k, v: (yield q),
    "Linear": nn.Linear(12, 12),
    "LayerNorm": nn.LayerNorm(12),
    "Sequential": nn.Sequential(nn.Linear(12, 5), nn.ReLU()),
    "Embedding": nn.Embedding(5, 12),
    "Identity": nn.Identity(),
    "LSTM": nn.LSTM(12, 12),
    "Conv": nn.Conv1d(12, 12, 3),
    "Transformer layer": nn.TransformerEncoderLayer(12, 3, batch_first=True),
    "bare Module": nn.Module(),
}


def function_of(behaviour, signature, name):
    """Return a function of this signature that behaves like that whatever it gets."""
    names = [part.split("=")[0].strip() for part in signature.split(",") if part.strip(" *")]
    values = "".join(f"{part}, " for part in names if part != "**kwargs")
    scope = {"behaviour": behaviour}
    exec(f"def {name}({signature}): return behaviour(({values}))", scope)
    return scope[name]


def functions():
    """Yield each behaviour under three signatures, and so each signature with many behaviours."""
    signatures, called = itertools.cycle(SIGNATURES), itertools.cycle(NAMES)
    for words, behaviour in BEHAVIOURS.items():
        for signature, name in itertools.islice(zip(signatures, called, strict=False), 3):
            yield pytest.param(
                function_of(behaviour, signature, name), id=f"{words}: {name}({signature})"
            )


TARGETS = [*functions(), *(pytest.param(thing, id=words) for words, thing in THINGS.items())]


@pytest.mark.parametrize("thing", TARGETS)
def test_the_clinic_answers_in_words(thing):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    try:
        report = diagnose(thing, time_limit=0.2)
    finally:
        switches = torch.get_default_dtype(), torch.is_grad_enabled(), modes_of_torch()
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
    assert isinstance(report, Report)
    assert switches == (torch.float32, True, [])
    assert torch.equal(torch.get_rng_state(), state)
    assert len(repr(report)) < 20_000
    assert "<script" not in report._repr_html_()
    for finding in report.findings:
        assert finding.name in CAUSES
        assert len(str(finding)) > 10
        assert "Traceback" not in str(finding)
    assert (report.ok is False) == bool(report.findings)
    if report.ok is None:
        assert report.gap or not report.properties
    if report.findings:
        assert report.summary == str(report.findings[0])
    elif report.ok is None:
        assert report.gap
