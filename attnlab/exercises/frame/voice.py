"""What checks say about kinds, shapes, calls and truth values, in one voice.

A message says what the learner's code did, with the inputs that it names, and the next step.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor

from attnlab.checks import shape

STUB = "Write your answer in the cell above, run it, and then run this cell again."
NOT_A_FUNCTION = (
    "Your answer is not a function. Pass the name of your function to the check, without "
    "parentheses."
)
KINDS = {
    str: "a string",
    bytes: "a bytes object",
    bool: "a single True or False",
    int: "an integer",
    float: "a number",
    complex: "a complex number",
    dict: "a dictionary",
    type(None): "None",
}
# What errors of PyTorch mean here, by a part of their text.
HINTS = {
    "is ambiguous": "To get one True or False for a whole tensor, call `.all()` or `.any()`.",
    "return_types.": "`max` with a `dim` returns values and indices: take `.values`, or call "
    "`amax`.",
    "view size is not compatible": (
        "That advice is right only if the axes are in the order that you intend."
    ),
}
FROM_THE_END = "Count the dimensions from the end, with -1 and -2."
TRANSPOSED = {
    "a (2) must match the size of tensor b": "You moved dimensions besides the last two, as `.T` "
    "does. Swap the last two with key.mT or key.transpose(-2, -1)."
}
KEEPDIM = {
    "must match the size of tensor": "A sum, a mean or a largest value along one dimension needs "
    "keepdim=True, so that this dimension stays, with size 1."
}


# --- kinds, shapes and truth values ---------------------------------------------------------------


def kind_of(value: object) -> str:
    """Return what a value is, with its article, and its length or its shape."""
    if type(value) in (tuple, list):
        return f"{article(type(value).__name__)} of length {len(value)}"
    if isinstance(value, Tensor | np.ndarray):
        name = "tensor" if isinstance(value, Tensor) else "NumPy array"
        return f"a {name} {f'of shape {tuple(value.shape)}' if value.ndim else 'with one number'}"
    return KINDS.get(type(value)) or article(type(value).__name__)


def listed(numbers: Iterable[float]) -> str:
    """Return numbers as a list, whole ones without a decimal point."""
    return f"[{', '.join(f'{number:g}' for number in numbers)}]"


def article(noun: str) -> str:
    """Return a word with its article."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def returned(got: str, wanted: str, why: str = "") -> str:
    """Say what a function returned, and what it should return."""
    return f"Your function returned {got}. Return {wanted}. {why}".rstrip()


def of_value(message: str) -> str:
    """Say the same of an answer that is no function."""
    given = message.replace("Your function returned", "Your answer is")
    return given.replace(". Return ", ". It should be ")


def has(case: str, what: str, part: str, got: Tensor, right: Tensor) -> str:
    """Say which shape or dtype a result has, and which it should have."""
    has = "have" if is_plural(what) else "has"
    given, wanted = ((x.dtype if part == "dtype" else shape(x)) for x in (got, right))
    return f"With {case}, the {what} {has} the {part} {given} instead of {wanted}."


def is_wrong(case: str, what: str) -> str:
    """Say that the numbers of a result are wrong."""
    return f"With {case}, the {what} {'are' if is_plural(what) else 'is'} wrong."


def is_plural(noun: str) -> bool:
    """Return whether a noun is in the plural."""
    return noun.endswith("s")


def says(opinion: object, case: str) -> str:
    """Say which opinion a function returned for a case."""
    return f"Your function returns {quoted(opinion)} for {case}."


def quoted(opinion: object) -> object:
    """Return an opinion, in quotation marks if it is a word."""
    return f"“{opinion}”" if isinstance(opinion, str) else opinion


# --- calls ----------------------------------------------------------------------------------------


def called(case: str) -> str:
    """Begin a sentence on what the learner's function did."""
    return f"With {case}, your function" if case else "Your function"


def returns_nothing(case: str, printed: bool) -> str:
    """Say that a function with a body returned None."""
    if printed:
        return f"{called(case)} prints something and returns None. Use `return` instead of `print`."
    return f"{called(case)} runs, but it returns None. Is a `return` missing?"


def raises(case: str, error: str) -> str:
    """Say what a function raised; a long text has been cut."""
    stop = "..." if error.endswith("...") else "."
    return hinted(f"{called(case)} raises {error.rstrip('.')}{stop}", HINTS)


def too_slow(case: str, limit: float) -> str:
    """Say that a function computed for too long."""
    return (
        f"{called(case)} had not finished after {limit:g} seconds of computing time. Does it "
        "contain an endless loop?"
    )


def waits(case: str, passed: float, computed: float) -> str:
    """Say that a function was stopped while it hardly computed."""
    return (
        f"{called(case)} was stopped after {passed:.0f} seconds, although it had computed for only "
        f"{computed:.1f} seconds. Does it wait for something, such as input()?"
    )


def changes_inputs(case: str) -> str:
    """Say that a function changed what it was given."""
    return (
        f"{called(case)} changes its arguments in place, as functions whose names end in _ and "
        "assignments such as x[0] = 0 and x += 1 do. Work on a copy."
    )


def unreadable(error: str) -> str:
    """Say that the check itself could not use a result."""
    return f"The check cannot read what your function returned ({error})."


def is_older(name: str) -> str:
    """Say that a function is the one of an earlier run of its cell."""
    return (
        f"The cell that defines `{name}` ended in an error when you last ran it, so this verdict "
        "is about the previous version of your function."
    )


def hinted(message: str, hints: dict[str, str]) -> str:
    """Return a message with the first hint whose fragment it contains."""
    hint = next((hint for fragment, hint in hints.items() if fragment in message), "")
    return f"{message} {hint}".rstrip()
