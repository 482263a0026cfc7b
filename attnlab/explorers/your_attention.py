"""The learner's attention draws a masked sentence, and the clinic examines it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import attention_scores, attention_weights, scaled_dot_product_attention
from attnlab.clinic import Finding, Report, diagnose
from attnlab.clinic._results import Options
from attnlab.clinic.subject import SIDES, Subject
from attnlab.explorers import _learner
from attnlab.explorers._controls import Button, Question
from attnlab.explorers._masked import KINDS, MaskedSentence, MaskResult, empty_rows
from attnlab.explorers._page import numbers
from attnlab.explorers._words import TOKENS
from attnlab.palette import GREEN, INK, MUTED, ORANGE

FEATURES, SEED, SPREAD = 4, 202, 1.5
COLOURS = {"yes": GREEN, "no": ORANGE, "note": MUTED, "open": MUTED}
UNHURRIED = {"hangs", "slow"}  # no function with these is called more often than it must be
MARKS = {"yes": "✓", "no": "✗", "note": "○", "open": "–"}
SPOKEN = {"yes": "holds", "no": "fails", "note": "a choice", "open": "could not be checked"}

WORDS = {
    "clinic": "{drawn} The clinic: {count}.",
    "correct": "a correct function",
    "maskless": "This function has no argument for a mask.",
    "list": {"marks": MARKS, "spoken": SPOKEN, "see": " See {lesson}."},
}
CODE = {"values": "value = torch.eye(n).expand(1, n, n)  # output = weights"}


class YourAttentionExplorer(MaskedSentence):
    """An attention function of one's own: it draws the weights, and the clinic examines it.

    Its weights are seen in its output, since the values are unit vectors. The clinic examines it
    once, when it is handed over.

    Parameters
    ----------
    function : callable
        ``function(query, key, value)`` or ``function(query, key, value, mask)`` returns the output,
        or a tuple that begins with it. Tensors are (1, n, d), the mask is (1, n, n) and True where
        the query may attend. attnlab's own function if not given.
    tokens : sequence of str
        Two to ten short words.
    **state
        ``mask``, ``window``, ``padding`` and ``toggled``, as in ``MaskExplorer``; ``ask`` and
        ``large``, as in ``Explorer``.

    Attributes
    ----------
    report : attnlab.clinic.Report
        What the clinic says of the function.

    See Also
    --------
    attnlab.clinic.diagnose : says more of a function, and examines layers as well.
    """

    module = "your_attention"
    figsize = (9.0, 4.4)
    title = "Your attention"
    hint = (
        "Your function draws these weights: the values are unit vectors, so the output is the "
        "weights. The list is what the clinic checked."
    )
    code_title = "How it was called"
    reset = Button("Reset", padding=(), toggled=())

    def __init__(
        self,
        function: Callable[..., Tensor] = scaled_dot_product_attention,
        tokens: Sequence[str] = TOKENS,
        **state: object,
    ) -> None:
        if function is None:
            raise TypeError("function must be callable, got None; leave it out for attnlab's own.")
        self.report: Report | None = None
        super().__init__(tokens, function, state)

    def _prepare(self, count: int) -> None:
        generator = torch.Generator().manual_seed(SEED)
        shape = 2, count, FEATURES
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * SPREAD**0.5
        self.query, self.key = drawn.round(decimals=2).float()

    @property
    def takes_mask(self) -> bool:
        """Whether the function has an argument for a mask."""
        return bool(Subject(self.function, Options()).masks)

    @property
    def result(self) -> MaskResult:
        """Weights, mask and rows without a key as they must be, whatever the function says."""
        mask = self._make_mask()
        scores = attention_scores(self.query, self.key)
        return MaskResult(attention_weights(scores, attn_mask=mask), mask, empty_rows(mask))

    def _make_mask(self, **changes: object) -> Tensor:
        if self.takes_mask:
            return super()._make_mask(**changes)
        return torch.ones(len(self.tokens), len(self.tokens), dtype=torch.bool)

    def make_data(self) -> dict[str, object]:
        """Return the words, and the scores of a correct function."""
        scores = numbers(attention_scores(self.query, self.key))
        return self._data_with(scores, WORDS, CODE)

    # --- the function -----------------------------------------------------------------------------

    def examine_function(self, function: Callable) -> dict[str, object]:
        """Return what the clinic checked; it is asked once for each function."""
        self.report = diagnose(function, kind="attention")
        checks = checklist(self.report, takes_mask=self.takes_mask)
        return {
            "checks": [check._asdict() for check in checks],
            "count": count_checks(checks),
            "takes_mask": self.takes_mask,
            "call": _written_call(function, self.query),
            "question": _question(_learner.name_of(function), checks).describe(),
        }

    def run_function(self, function: Callable) -> dict[str, object]:
        """Return the weights that the function's output shows, checked."""
        return self._drawn(function, self._make_mask())

    def _drawn(self, function: Callable, mask: Tensor) -> dict[str, object]:
        if any(finding.name == "hangs" for finding in self.report.findings):
            _learner.give_up(self.report.summary)
        weights = weights_of(function, self.query, self.key, mask)
        return {"weights": numbers(weights.reshape(mask.shape))}

    def answer_to_store(self) -> dict[str, object]:
        """Return the answer, with those for every kind of mask and each token as padding."""
        slow = UNHURRIED & {finding.name for finding in self.report.findings}
        if slow or not self.takes_mask:
            return self.answer
        paddings = [(), *((i,) for i in range(len(self.tokens)))]
        changes = [{"mask": m, "padding": p, "toggled": ()} for m in KINDS for p in paddings]
        return {**self.answer, "others": [self._answer_at(one) for one in changes]}

    def _answer_at(self, changes: dict[str, object]) -> dict[str, object]:
        """Return what the function answers at another state."""
        answer = {"state": {**self.state(), **changes}, "drawn": None, "error": ""}
        try:
            return {**answer, "drawn": self._drawn(self.function, self._make_mask(**changes))}
        except Exception as error:  # a page shows it where the state is chosen
            return {**answer, **_learner.failure(error, self.function)}

    # --- the picture ------------------------------------------------------------------------------

    @property
    def checks(self) -> list[Check]:
        """What the clinic checked of the function, in the order in which it is listed."""
        return [Check(**one) for one in self.answer["checks"]]

    def draw(self, fig: Figure) -> None:
        """Draw the weights and, beside them, the list of what was checked."""
        left, right = fig.subplots(1, 2, width_ratios=[1.1, 1])
        self._draw_weights(left, "")
        _list_checks(right, self.checks)

    def say_rich(self) -> str:
        """Return what is wrong with the rows that are drawn, and how many checks passed."""
        drawn = self._say_of_function()
        if self.answer["error"]:
            return drawn
        return WORDS["clinic"].format(drawn=drawn, count=self.answer["count"])


def _question(name: str, checks: list[Check]) -> Question:
    """Return the question how many of the checks fail."""
    failing = sum(check.mark == "no" for check in checks)
    crosses = "one cross" if failing == 1 else f"{failing or 'no'} cross{'es' * (failing > 1)}"
    return Question(
        ask=f"the clinic checks {name}. How many crosses?",
        then="",
        options=("none", "one", "more than one"),
        right=min(failing, 2),
        why=f"{name} has {crosses}.",
    )


def _list_checks(ax: Axes, checks: list[Check]) -> None:
    """Write the list of what was checked into axes of their own."""
    ax.set_axis_off()
    lines = []
    for check in checks:
        text = f"{MARKS[check.mark]} {check.words}"
        lines += [(line, COLOURS[check.mark]) for line in textwrap.wrap(text, 46)]
        lines += [(f"    {line}", INK) for line in textwrap.wrap(check.told(), 44)]
    for place, (line, colour) in enumerate(lines):
        height = 1 - place / max(len(lines), 16)
        ax.text(0, height, line, color=colour, va="top", fontsize=9, transform=ax.transAxes)


def weights_of(function: Callable, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
    """Return the weights of an attention function: its output for values that are unit vectors.

    Parameters
    ----------
    function : callable
        Of (query, key, value), with or without an argument for a mask.
    query, key : Tensor, shape (n, d)
        The function gets them with the dimensions that it takes: a batch of one, none, or one head.
    mask : Tensor of bool, shape (n, n)
        True where the query may attend.

    Returns
    -------
    Tensor, shape (n, n)
        In float64.

    Raises
    ------
    Exception
        What the function raises for a batch, if it takes no other number of dimensions either.
    """
    value = torch.eye(len(key))
    first: Exception | None = None
    for lead in ((1,), (), (1, 1)):
        inputs = [part.expand(*lead, *part.shape).clone() for part in (query, key, value, mask)]
        try:
            output = _call(function, *inputs)
            return _learner.checked_output(output, tuple(inputs[3].shape), function)
        except Exception as error:
            first = first or error
    raise first


def _call(function: Callable, *inputs: Tensor) -> object:
    """Call a function in the order and by the names of its own arguments."""
    *parts, mask = inputs
    placed, named = _arguments(function, dict(zip(SIDES, parts, strict=True)), mask)
    return function(*placed.values(), **named)


def _arguments(function: Callable, parts: dict, mask: Tensor) -> tuple[dict, dict]:
    """Return what a function gets by place and by name."""
    subject = Subject(function, Options())
    named = {name: parts[side] for name, side in subject.sides.items()}
    named |= subject.rest(parts, {one.name: mask for one in subject.masks[:1]}, False)
    placed = {name: named.pop(name) for name in list(subject.sides) if subject.ask(name).by_place}
    return placed, named


def _written_call(function: Callable, query: Tensor) -> str:
    """Return the line of PyTorch that calls a function as ``_call`` does."""
    sides = dict.fromkeys(SIDES, query)
    placed, named = _arguments(function, sides, None)
    of = Subject(function, Options())
    parts = [of.sides[name] for name in placed]
    masks = [one.name for one in of.masks[:1]]
    words = {name: of.sides[name] for name in named if name in of.sides}
    words |= {name: "mask.expand(1, n, n)" for name in masks}
    parts += [f"{name}={words.get(name, value)}" for name, value in named.items()]
    return f"weights = {_learner.name_of(function)}({', '.join(parts)})"


# --- what the clinic checked ----------------------------------------------------------------------


class Property(NamedTuple):
    """One line of the list, and how a report speaks of it."""

    words: str  # what ought to hold
    keys: tuple[str, ...]  # of the properties by which a report says that it holds
    # names, or their beginnings with a star, of the findings by which it fails
    findings: tuple[str, ...]
    always: bool = True  # whether it is listed also if the report does not speak of it


EMPTY_ROW = "empty-row"  # the only note of a report that a line speaks of
PROPERTIES = (
    Property(
        "without a mask, each row sums to 1",
        ("sums",),
        ("softmax-axis", "not-normalised", "hard", "nan", "underflow"),
    ),
    Property(
        "scores are dot products q · k",
        ("products",),
        ("scores-not-dot-products", "query-key-swapped"),
    ),
    Property("scores are divided by √d_k", ("scale",), ("scale-*",)),
    Property(
        "each output row averages the values",
        ("average",),
        ("key-value-swapped", "wrong-source", "not-attention", "position-mixing"),
    ),
    Property(
        "a blocked key gets no weight and does not change the others",
        ("blocked-keys",),
        ("mask-*", "padding-leak"),
    ),
    Property("a row whose keys are all blocked gives 0", (EMPTY_ROW,), ("blocked-row",)),
    Property("no query sees a later key", ("causal",), ("causal-*",), always=False),
    Property(
        "sequences and heads stay apart",
        ("apart",),
        ("batch-mixing", "head-mixing", "transposed-batch", "attends-over-heads"),
    ),
    Property("gradients reach query, key and value", ("gradients",), ("detached",)),
    Property("the arguments are not changed", ("arguments",), ("modifies-input",)),
    Property("double precision stays double", ("dtype",), ("dtype",)),
    Property(
        "the returned weights made the output",
        ("weights",),
        ("weights-differ",),
        always=False,
    ),
    Property(
        "it ran at every size tried, and the same call gave the same result",
        ("contiguity", "device"),
        (
            *("not-callable", "not-done", "raises", "wrong-type", "wrong-shape", "square-only"),
            *("hangs", "slow", "prints", "random", "remembers", "contiguity", "device"),
        ),
    ),
)
OF_MASKS = (
    "a blocked key gets no weight and does not change the others",
    "a row whose keys are all blocked gives 0",
)
FOLLOWS = "Follows from another cross."


class Check(NamedTuple):
    """One line of the list: ``mark`` is a key of MARKS, ``finding`` and ``lesson`` may be empty."""

    mark: str
    words: str
    finding: str = ""
    lesson: str = ""

    def told(self) -> str:
        """Return what stands under the line."""
        return f"{self.finding} See {self.lesson}." if self.lesson else self.finding


def checklist(report: Report, *, takes_mask: bool) -> list[Check]:
    """Return the lines of a report on an attention function.

    Parameters
    ----------
    report : Report
        What ``diagnose`` said.
    takes_mask : bool
        Whether the function has an argument for a mask; without, masks are not listed.

    Returns
    -------
    list of Check
        One for each property, and one for each finding that belongs to none.
    """
    checks, told = [], set()
    for one in PROPERTIES:
        check = _check(one, report)
        told |= {finding.name for finding in _causes(report) if _names(one, finding)}
        silent = check.mark == "open" and not one.always
        if not silent and (takes_mask or one.words not in OF_MASKS or check.mark == "no"):
            checks.append(check)
    rest = [finding for finding in report.findings if finding.name not in told]
    return checks + [_cross(finding.name.replace("-", " "), finding) for finding in rest]


def _check(one: Property, report: Report) -> Check:
    for finding in report.findings:
        if _names(one, finding):
            return _cross(one.words, finding)
    if any(_names(one, finding) for finding in _causes(report)):
        return Check("no", one.words, FOLLOWS)
    if any(said.key in one.keys for said in report.properties):
        return Check("yes", one.words)
    note = next((said for said in report.notes if said.key == EMPTY_ROW), None)
    if note and EMPTY_ROW in one.keys:
        return Check("note", one.words, f"{note} Libraries differ here.", "lesson 3")
    return Check("open", one.words)


def _causes(report: Report) -> list[Finding]:
    """Return all findings, with those that follow from others."""
    return [one for cause in report.findings for one in (cause, *cause.consequences)]


def _names(one: Property, finding: Finding) -> bool:
    """Return whether a finding says that a property fails."""
    return any(
        finding.name.startswith(name[:-1]) if name.endswith("*") else finding.name == name
        for name in one.findings
    )


def _cross(words: str, finding: Finding) -> Check:
    return Check("no", words, finding.sentence, f"lesson {int(finding.lesson[:2])}")


def count_checks(checks: list[Check]) -> str:
    """Return how many of the lines hold, fail and are open; words between two stars are bold."""
    count = {mark: sum(check.mark == mark for check in checks) for mark in MARKS}
    parts = [f"**{count['yes']} of {len(checks)} properties hold**"]
    if count["no"]:
        parts.append(f"**{count['no']} fail{'s' if count['no'] == 1 else ''}**")
    if count["note"]:
        parts.append(f"{count['note']} is a choice")
    if count["open"]:
        parts.append(f"{count['open']} could not be checked")
    return ", ".join(parts)
