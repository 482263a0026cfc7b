"""What every check does: it names its mistakes, and it survives whatever it is given."""

import math
import re

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from attnlab import exercises
from attnlab.exercises import Verdict
from attnlab.exercises.frame import answers
from attnlab.exercises.frame.forms import Compared, Either
from attnlab.palette import BLUE, EDGE, ORANGE
from tests.exercises.verdicts import accepted, refused, state_of_torch

CHECKS = {name: getattr(exercises, name) for name in exercises.__all__ if name.startswith("check_")}
FORMS = {name: check.form for name, check in CHECKS.items()}
COMPARED = [name for name, form in FORMS.items() if isinstance(form, Compared)]
COMPARED.remove("check_disguise")  # which wants a wrong answer
NUMBERS = [name for name, form in FORMS.items() if getattr(form, "read", None) is answers.number]
ONE_PER_FORM = {type(form): CHECKS[name] for name, form in FORMS.items()}
every_form = pytest.mark.parametrize(
    "check", ONE_PER_FORM.values(), ids=[form.__name__ for form in ONE_PER_FORM]
)


def raising(error):
    def function(*_inputs):
        raise error

    return function


def giving(value):
    return lambda *_inputs: value


# --- mistakes and right answers -------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.slips])
def test_every_slip_is_named(name):
    for why, ways in FORMS[name].slips.items():
        for way in ways if isinstance(ways, Either) else (ways,):
            refused(CHECKS[name], way, why)


@pytest.mark.parametrize("name", COMPARED)
def test_what_is_compared(name):
    """The right answer passes, and of others the kind, the shape and the numbers are told."""
    check, form = CHECKS[name], FORMS[name]

    def otherwise(*inputs):
        result = form.right(*inputs)
        odd = torch.arange(result.shape[-1]) % 3 == 1
        return result ^ odd if result.dtype == torch.bool else 3 * result + 0.37

    def spoils(*inputs):
        result = form.right(*inputs)
        next(one for one in tree_leaves(inputs) if isinstance(one, Tensor)).zero_()
        return result

    accepted(check, form.right)
    if form.read is answers.tensor:
        is_are = "are" if form.what.endswith("s") else "is"
        refused(check, otherwise, f"the {form.what} {is_are} wrong. ")
        refused(check, lambda *inputs: form.right(*inputs)[None], " the shape (1, ", "instead of (")
        refused(check, giving((torch.ones(2), 1)), "a tuple of length 2. Return the output alone")
    if form.keeps_inputs:
        said = "your function changes its arguments in place"
        refused(check, spoils, form.keeps_inputs if isinstance(form.keeps_inputs, str) else said)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number(name):
    check, form = CHECKS[name], FORMS[name]
    if not callable(form.right):
        right = float(form.right)
        for answer in (right, [right], torch.tensor([right]).requires_grad_(), giving(right)):
            accepted(check, answer)
    refused(check, 12345.75, form.otherwise if isinstance(form.otherwise, str) else "")
    refused(check, [1.0, 2.0], "Your answer is a list of length 2. It should be one number.")
    refused(check, math.inf, "Your answer is inf, which is not a finite number. It should be one")


# --- stubs and forgotten returns ------------------------------------------------------------------


def only_a_docstring(*_inputs):
    """Return nothing yet."""


def without_return(*inputs):
    """Forget it."""
    _result = 1 + 1


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_stub_is_told_apart_from_a_wrong_answer(check):
    for stub in (only_a_docstring, None):
        assert "not done yet" in repr(check(stub))
    refused(check, without_return, "returns None. Is a `return` missing?")
    parts = "Parameters\n-+\nanswer\n +.*\n\nReturns\n.*\n\nSee Also\n-+\n.* : "
    assert re.search(parts, check.__doc__, re.DOTALL)


@every_form
def test_all_stubs_of_all_forms(check):
    wrapped, raises = torch.no_grad()(only_a_docstring), raising(NotImplementedError("later"))
    for stub in (wrapped, raises, lambda *inputs: ..., ...):
        verdict = check(stub)
        assert (verdict.done, verdict.ok) == (False, False)
    refused(check, torch.no_grad()(without_return), "returns None. Is a `return` missing?")
    refused(check, lambda *inputs: print(1), "prints something and returns None. Use `return`")


# --- hostile answers ------------------------------------------------------------------------------


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Nameless:
    def __getattr__(self, name):
        raise RuntimeError("no name")

    def __call__(self, *inputs):
        raise ValueError("no")


def generator(*inputs):
    yield 1


async def coroutine(*inputs):
    return 1


RESULTS = [
    {"a": 1},
    [],
    [[1], [2, 3]],
    torch.full((3,), math.nan),
    torch.ones(3, dtype=torch.complex64),
    torch.empty(3, device="meta"),
    torch.eye(3).to_sparse(),
    print,
    "a text",
]
HOSTILE = [
    *map(raising, (ZeroDivisionError("by zero"), Unspeakable(), SystemExit(1))),
    *map(giving, RESULTS),
    *(generator, coroutine, lambda a, b, c, d, e: 1, lambda *, a: 1, lambda *inputs: [inputs]),
    *(Nameless(), Nameless, math, nn.MultiheadAttention, 3, "check", torch.ones(2, 3)),
]


@every_form
def test_whatever_is_handed_in_it_answers_in_words(check):
    before = state_of_torch()
    for answer in HOSTILE:
        verdict = check(answer)
        assert isinstance(verdict, Verdict)
        assert not verdict.ok
        assert len(verdict.message) > 15
        assert "Traceback" not in repr(verdict)
        assert verdict._repr_html_().startswith("<div")
    assert state_of_torch() == before


@every_form
def test_a_loop_is_stopped_and_the_learner_s_interrupt_is_not(check, monkeypatch):
    def endless(*inputs):
        while True:
            pass

    monkeypatch.setattr(answers, "TIME_LIMIT", 0.05)
    before = state_of_torch()
    refused(check, endless, "had not finished after 0.05 seconds of computing time")
    assert state_of_torch() == before
    with pytest.raises(KeyboardInterrupt):
        check(raising(KeyboardInterrupt()))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (raising(ValueError("no luck.")), "(2, 7, 11), your function raises ValueError: no luck."),
        (raising(ValueError("a" * 300)), "a..."),
        (lambda query, key: query.mT.view(-1), "That advice is right only if the axes are in"),
        (lambda query, key: query if query else key, "whole tensor, call `.all()`"),
        (raising(NotImplementedError("'exp' not implemented for 'Bool'")), "for 'Bool'."),
        (generator, "Your function returned a generator. Return its values in a list"),
        (torch.ones(2), "Your answer is not a function. Pass"),
    ],
)
def test_an_error_is_told_and_explained(function, words):
    verdict = refused(exercises.check_normed_scores, function, words)
    assert len(verdict.message) < 400
    assert verdict.message.endswith("...") == (words == "a...")


# --- what a verdict says --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "headline", "line"),
    [
        (None, "Not done yet", f"dotted {EDGE}"),
        (("BCA", 256), "Not yet correct", f"dashed {ORANGE}"),
        (("CAB", 256), "Correct", f"solid {BLUE}"),
    ],
)
def test_a_verdict_shows_its_state_by_words_and_by_its_line(answer, headline, line):
    page = exercises.check_three_logs(answer)._repr_html_()
    assert f"<b>{headline}</b>" in page
    assert f"border-left:6px {line};" in page


def test_code_in_a_verdict_is_set_as_code():
    verdict = Verdict("x", True, False, "Write `a < b`.", remarks=("`a` is `b`.",))
    page = verdict._repr_html_()
    assert "Write <code>a &lt; b</code>." in page
    assert "<code>a</code> is <code>b</code>." in page
