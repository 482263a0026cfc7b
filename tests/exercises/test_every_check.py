"""What every check does: it names its mistakes, and it survives whatever it is given."""

import inspect
import math
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode

from attnlab import exercises
from attnlab import scaled_dot_product_attention as attention
from attnlab.exercises import Verdict, _answers
from attnlab.exercises._forms import Check, Compared, Either
from attnlab.palette import BLUE, EDGE, ORANGE
from tests.exercises.verdicts import accepted, refused, steady

CHECKS = {name: getattr(exercises, name) for name in exercises.__all__ if name.startswith("check_")}
FORMS = {name: check.form for name, check in CHECKS.items() if hasattr(check, "form")}
SLIPS = [
    (name, why, way)
    for name, form in FORMS.items()
    for why, ways in form.slips.items()
    for way in (ways if isinstance(ways, Either) else (ways,))
]
COMPARED = [name for name, form in FORMS.items() if isinstance(form, Compared)]
TENSORS = [name for name in COMPARED if FORMS[name].read is _answers.tensor]
NUMBERS = [name for name, form in FORMS.items() if getattr(form, "read", None) is _answers.number]
DECLARED = [name for name in NUMBERS if not callable(FORMS[name].right)]
KEEP_THE_INPUTS = """check_followers check_left_out check_mended_decoding check_mended_rotary
    check_mended_stream check_normed_scores check_plain_average check_rotate_at check_to_halves
    check_windowed_keys""".split()
every_check = pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "why", "way"), SLIPS, ids=[f"{n}-{w[:40]}" for n, w, _ in SLIPS])
def test_every_slip_is_named(name, why, way):
    refused(CHECKS[name], way, why)


@pytest.mark.parametrize("name", COMPARED)
def test_what_a_form_calls_right_is_accepted(name):
    accepted(CHECKS[name], FORMS[name].right)


@pytest.mark.parametrize("name", DECLARED)
def test_a_number_is_accepted_in_any_form(name):
    check, right = CHECKS[name], float(FORMS[name].right)
    for answer in (right, [right], torch.tensor(right), torch.tensor([right]).requires_grad_()):
        steady(check, answer)
        steady(check, giving(answer))


# --- wrong answers without a name -----------------------------------------------------------------


def changed(name, change):
    """Return the correct function of a check, with another result."""
    form = FORMS[name]
    return lambda *inputs: change(form.read(form.right(*inputs)))


def otherwise(result):
    if result.dtype == torch.bool:
        return result ^ (torch.arange(result.shape[-1]) % 3 == 1)
    return 3 * result + 0.37


@pytest.mark.parametrize("name", [name for name in COMPARED if name != "check_joined_pieces"])
def test_what_has_no_name_gets_the_advice_of_its_check(name):
    advice = FORMS[name].otherwise
    refused(CHECKS[name], changed(name, otherwise), *([advice] if isinstance(advice, str) else []))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_without_a_name_gets_the_advice_of_its_check(name):
    advice = FORMS[name].otherwise
    refused(CHECKS[name], 12345.75, *([advice] if isinstance(advice, str) else []))
    refused(CHECKS[name], [1.0, 2.0], "One number is asked for, and it gives the shape (2,).")
    refused(CHECKS[name], math.inf, "It gives inf, which is not a finite number.")
    refused(CHECKS[name], "2", "It gives a str, and numbers are asked for.")


@pytest.mark.parametrize("name", TENSORS)
def test_the_shape_of_a_result_is_told(name):
    refused(CHECKS[name], changed(name, lambda result: result[None]), "must be (", "got (1, ")
    refused(CHECKS[name], giving((torch.ones(2), 1)), "a tuple of 2; return the output alone, as")


@pytest.mark.parametrize("name", KEEP_THE_INPUTS)
def test_a_change_in_place_is_told(name):
    right = FORMS[name].right

    def spoils(*inputs):
        result = right(*inputs)
        next(one for one in inputs if isinstance(one, Tensor)).zero_()
        return result

    refused(CHECKS[name], spoils, "it changes its arguments in place")


@pytest.mark.parametrize("name", FORMS)
def test_a_check_describes_itself(name):
    check, form = CHECKS[name], FORMS[name]
    assert isinstance(form, Check)
    assert check.__name__ == name
    assert list(inspect.signature(check).parameters) == ["answer"]
    for part in ("Check ", "Parameters", form.answer, form.see, "Never an error", *form.slips):
        assert part in check.__doc__
    first = check.__doc__.splitlines()[0]
    assert first.endswith(".")
    assert len(first) < 100


# --- stubs and forgotten returns ------------------------------------------------------------------


def raising(error):
    def function(*inputs):
        raise error

    return function


def giving(value):
    return lambda *_inputs: value


def only_a_docstring(*_inputs):
    """Return nothing yet."""


def only_pass(*_inputs):
    pass


def only_none(*_inputs):
    """Return nothing yet."""
    return None


STUBS = {
    "a docstring": only_a_docstring,
    "pass": only_pass,
    "return None": only_none,
    "without gradients": torch.no_grad()(only_a_docstring),
    "gives None": lambda *inputs: None,
    "gives dots": lambda *inputs: ...,
    "not implemented": raising(NotImplementedError),
    "implemented later": raising(NotImplementedError("later")),
    "None": None,
    "dots": ...,
}


@every_check
def test_a_stub_is_not_done_yet(check):
    for name, stub in STUBS.items():
        verdict = check(stub)
        assert (verdict.done, verdict.ok) == (False, False), name
        assert "not done yet" in repr(verdict), name
        assert "Not done yet" in verdict._repr_html_(), name


def without_return(*inputs):
    """Forget it."""
    _result = 1 + 1


@every_check
def test_a_forgotten_return_is_said(check):
    refused(check, without_return, "returns None: is a `return` missing?")
    refused(check, torch.no_grad()(without_return), "returns None: is a `return` missing?")


@every_check
def test_a_print_instead_of_a_return_is_said(check):
    refused(check, lambda *inputs: print(1), "prints", "use return instead of print")


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


@every_check
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


@every_check
def test_a_value_of_another_kind_is_an_answer_and_refused(check):
    for value in VALUES:
        refused(check, giving(value))


@every_check
def test_an_error_is_told(check):
    refused(check, raising(ValueError("no idea")), "no idea")


def test_an_error_is_told_with_its_case():
    verdict = refused(exercises.check_normed_scores, raising(ValueError("no luck.")), "(2, 5, 11)")
    assert verdict.message.endswith("it raises ValueError: no luck.")


def test_a_long_error_is_cut_and_ends_with_three_dots():
    verdict = refused(exercises.check_normed_scores, raising(ValueError("a" * 300)), "aaa...")
    assert verdict.message.endswith("a...")
    assert len(verdict.message) < 300


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda query, key: query.mT.reshape(2, -1).view(1), "is invalid for input of size 110."),
        (
            lambda query, key: query.mT.view(-1),
            "This is correct advice if the axes are in the order",
        ),
        (lambda query, key: query if query else key, "`.all()` makes one True or False"),
    ],
)
def test_an_error_of_torch_is_explained(function, words):
    refused(exercises.check_normed_scores, function, words)


def test_what_torch_has_not_implemented_is_no_stub():
    error = NotImplementedError("'exp' not implemented for 'Bool'")
    refused(exercises.check_normed_scores, raising(error), "'exp' not implemented for 'Bool'")


def test_a_result_instead_of_the_function_is_told():
    refused(exercises.check_mended, torch.ones(2, 5, 13), "the function itself")


def test_html_in_an_answer_is_escaped():
    def function():
        raise ValueError("<script>alert(1)</script>")

    function.__name__ = "<b>"
    page = exercises.check_zero_query(function)._repr_html_()
    assert "<script" not in page
    assert "&lt;b&gt;" in page


def endless(*inputs):
    while True:
        pass


@every_check
def test_a_hang_is_stopped_and_leaves_nothing_behind(check, monkeypatch):
    monkeypatch.setattr(_answers, "TIME_LIMIT", 0.1)
    refused(check, endless, "did not come back within 0.1 seconds of computing: a loop?")
    assert _get_current_function_mode_stack() == []
    assert _get_current_dispatch_mode() is None


@every_check
def test_an_interrupt_passes_through(check):
    with pytest.raises(KeyboardInterrupt):
        check(raising(KeyboardInterrupt()))


# --- what a verdict says --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "headline", "line"),
    [
        (None, "Not done yet", f"dotted {EDGE}"),
        ("A", "Not yet correct", f"dashed {ORANGE}"),
        ("B", "Correct", f"solid {BLUE}"),
    ],
)
def test_a_verdict_shows_its_state_by_words_and_by_its_line(answer, headline, line):
    page = exercises.check_always_true(answer)._repr_html_()
    assert f"<b>{headline}</b>" in page
    assert f"border-left:6px {line};" in page


def test_a_page_tells_verdict_message_numbers_and_remarks_in_this_order():
    shown = _answers.table("Numbers:", {"yours": [1]}, ["one"])
    verdict = Verdict("f", True, True, "It is < 1.", shown, ("See & compare.",))
    page, text = verdict._repr_html_(), repr(verdict)
    parts = ("Correct", "It is &lt; 1.", "Numbers:", "Good to know.</b> See &amp; compare.")
    assert re.search(".*".join(map(re.escape, parts)), page, re.DOTALL)
    assert text.index("It is < 1.") < text.index("Numbers:") < text.index("to know: See & compare.")


def test_the_first_difference_is_shown_with_its_place():
    got, right = torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)
    got[1, 2, 3] = 5
    shown = _answers.first_difference(got, right, ("sequence", "head", "query", "key"))
    assert shown.caption == "The first difference, head 1, query 2:"
    assert (shown.rows, shown.columns[3]) == (("yours", "correct"), "key 3")
    assert shown.values.tolist() == [[0, 0, 0, 5], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("name", "words"),
    [("check_decoder_mask", "the mask is wrong"), ("check_normed_scores", "the scores are wrong")],
)
def test_one_is_and_many_are_wrong(name, words):
    way = next(iter(FORMS[name].slips.values()))
    refused(CHECKS[name], way[0] if isinstance(way, Either) else way, words)


def test_every_check_has_answers_that_it_must_accept():
    files = Path(__file__).parent.glob("test_*.py")
    tested = "".join(path.read_text(encoding="utf-8") for path in files)
    assert [name for name in FORMS if f"    {name}: [" not in tested] == []


@pytest.mark.parametrize(
    ("name", "answer", "spoiler"),
    [
        ("check_zero_query", [1 / 3] * 3, "third"),
        ("check_always_true", "B", "B"),
        ("check_good_factor", 2.1, "2.1"),
        ("check_hiding_sizes", (2, 5, 11, 11, 3), "11"),
        ("check_disguise", lambda *qkv: attention(*qkv, scale=1 / 8), "d_k"),
    ],
)
def test_the_verdict_on_a_solution_does_not_give_it_away(name, answer, spoiler):
    assert spoiler not in repr(accepted(CHECKS[name], answer))
