"""The panel is what it says: right code is right, wrong code is not, and bugs change outputs."""

import csv
import inspect
import itertools
import math

import pytest
import torch
from torch import nn

from attnlab import data_path
from attnlab.clinic._causes import CAUSES
from tests.clinic.panel import HALVES, load, right_halves
from tests.clinic.panel._case import Case, given
from tests.clinic.panel._plain import qkv, rand, some
from tests.clinic.panel.injection import ACCEPTED, MASK, compiled, mutants, tree_of
from tools.clinic_panel import FIRST_LOOK, HEADER, Answer, answers_of, counts, table, write

BOTH = {half: load(half) for half in HALVES}
CORRECT = [case for half in BOTH.values() for case in half.correct]
BUILDERS = [case for half in BOTH.values() for case in half.builders]
WRONG = [case for half in BOTH.values() for case in half.wrong]


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@named(CORRECT)
def test_a_correct_one_computes_attention(case):
    expected = case.right_output()
    torch.testing.assert_close(
        case.output().double(), expected.double(), rtol=0, atol=case.tolerance
    )


@named(BUILDERS)
def test_a_builder_gives_the_mask_of_its_rule(case):
    built = case.sample().of(case.target)
    torch.testing.assert_close(built.double(), case.right_output().double())


@named(WRONG)
def test_a_wrong_one_is_wrong(case):
    output, expected = case.output(), case.right_output()
    assert output.shape == expected.shape
    assert not torch.allclose(output, expected, atol=1e-3)


def test_names_are_unique_and_causes_are_known():
    names = [case.name for case in (*CORRECT, *BUILDERS, *WRONG)]
    assert len(set(names)) == len(names)
    wished = itertools.chain(*ACCEPTED.values(), *(case.cause for case in WRONG))
    assert set(wished) <= CAUSES.keys()
    assert all(case.cause for case in WRONG)


@pytest.mark.parametrize("sort", ["correct", "builders", "wrong"])
def test_each_case_is_in_the_half_that_its_name_says(sort):
    places = {case.name: half for half in HALVES for case in getattr(BOTH[half], sort)}
    assert places == right_halves(case for half in BOTH.values() for case in getattr(half, sort))


def arguments_of(code):
    return " ".join(inspect.signature(getattr(code, "forward", code)).parameters)


def test_the_panel_is_large_enough():
    masked = [case for case in CORRECT if MASK.search(arguments_of(case.target))]
    assert len(CORRECT) >= 44
    assert len(masked) >= 20
    assert len(BUILDERS) >= 20
    assert len(WRONG) >= 15


@named(CORRECT[::8])
def test_the_unchanged_code_is_the_same_in_a_module_of_its_own(case):
    code = compiled(tree_of(case), case)
    torch.testing.assert_close(case.output(code), case.output())


@named(CORRECT[::8])
def test_an_injected_bug_changes_the_output(case):
    output = case.output()
    found = list(mutants(case))
    assert len(found) >= 4
    for mutant in found:
        if mutant.kind != "dropout in eval":  # this one depends on chance
            changed = case.output(mutant.target)
            same = changed.shape == output.shape and torch.allclose(changed, output, atol=1e-6)
            assert not same, (mutant.kind, mutant.change)


def plain(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -torch.inf)
    weights = scores.softmax(dim=-1)
    return weights @ value


class CausalLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        n, t, width = x.shape
        q = self.q(x).view(n, t, self.heads, -1).transpose(1, 2)
        k = self.k(x).view(n, t, self.heads, -1).transpose(1, 2)
        v = self.v(x).view(n, t, self.heads, -1).transpose(1, 2)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        future = torch.ones(t, t).triu(1) > 0
        weights = self.drop(torch.softmax(scores.masked_fill(future, -1e9), -1))
        return (weights @ v).transpose(1, 2).reshape(n, t, width)


SMALL = Case("plain", "", plain, sample=lambda: given(*qkv(2, 3), some(2, 1, 4, 6)))
LAYER = Case(
    "layer",
    "",
    CausalLayer,
    make=lambda Layer: Layer(12, 3),
    sample=lambda: given(rand(2, 5, 12)),
)


def test_what_is_injected_into_a_function():
    changes = {(mutant.kind, mutant.change) for mutant in mutants(SMALL)}
    score = "scores = query @ key.transpose(-2, -1) / "
    assert changes >= {
        ("scale-missing", f"{score}1.0"),
        ("scale-d", f"{score}query.shape[-1] ** 1.0"),
        ("softmax over queries", "weights = scores.softmax(dim=-2)"),
        ("softmax over dim 1", "weights = scores.softmax(dim=1)"),
        ("no softmax", "weights = scores"),
        ("key as value", "return weights @ key"),
        ("mask inverted", "scores = scores.masked_fill(mask != 0, -torch.inf)"),
        ("mask not assigned", "scores.masked_fill(mask == 0, -torch.inf)"),
        ("mask after softmax", "pass | weights = weights.masked_fill(mask == 0, 0.0)"),
    }
    fills = [change for kind, change in changes if kind == "mask filled finite"]
    assert fills
    assert all("-torch.inf" not in change for change in fills)
    assert "keys with keys" not in dict(changes)  # it does not run where L != S


def test_what_is_injected_into_a_layer():
    kinds = {mutant.kind for mutant in mutants(LAYER)}
    assert kinds >= {
        "scale-missing",
        "scale-d",
        "scale-model",
        "keys with keys",
        "split by view",
        "keys split by view",
        "merge by view",
        "causal inverted",
        "causal filled finite",
        "causal off by one",
        "dropout in eval",
    }
    assert not any(kind.startswith("mask") for kind in kinds)


def test_changed_code_can_be_read_by_inspect():
    unscaled = next(mutant for mutant in mutants(SMALL) if mutant.kind == "scale-missing")
    assert "/ 1.0" in inspect.getsource(unscaled.target)


# --- the tool -------------------------------------------------------------------------------------


def said(*names, wished=(), examined=True):
    return Answer("seen", "a", "mutant", names, examined, "why", "scale-d", "x / d", wished)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (said(), "ok"),
        (said("nan"), "accused"),
        (said(examined=False), "not examined"),
        (said(wished=("nan",)), "missed"),
        (said("nan", "raises", wished=("nan",)), "named"),
        (said("raises", "nan", wished=("nan",)), "other name"),
        (said(wished=("nan",), examined=False), "not examined"),
    ],
)
def test_the_verdict_on_an_answer(answer, verdict):
    assert answer.verdict == verdict
    assert str(answer).startswith(f"{verdict}: a (scale-d)")


def test_the_answers_on_one_case_and_their_table():
    answers = answers_of("seen", "correct", "bmm_plain")
    assert [one.sort for one in answers[:3]] == ["first attempt", "with options", "mutant"]
    assert [one.verdict for one in answers[:2]] == ["ok", "ok"]
    assert {one.verdict for one in answers[2:]} == {"named"}
    lines = [" ".join(line.split()) for line in table(answers).splitlines()]
    count = len(answers) - 2
    assert "correct (first call) 1: 1 ok" in lines
    assert f"injected bugs {count}: {count} named" in lines
    assert "scale-d 1: 1 named" in lines


def test_the_counts_are_written_as_a_table(tmp_path):
    answers = [said(wished=("nan",)), said("nan", wished=("nan",)), said("nan", wished=("nan",))]
    now = ("seen half", "injected bugs")
    rows = counts(answers)
    assert rows[: len(FIRST_LOOK)] == FIRST_LOOK
    assert {(*now, "named", 2, 3), (*now, "missed", 1, 3), (*now, "not examined", 0, 3)} <= {*rows}
    write(answers, tmp_path / "counts.csv")
    header, *written = (tmp_path / "counts.csv").read_text(encoding="utf-8").splitlines()
    assert header == ",".join(HEADER)
    assert written == [",".join(map(str, row)) for row in rows]


def test_the_counts_that_are_told_add_up():
    with data_path("clinic_panel.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file, strict=True)]
    totals = {}
    for row in rows:
        key = row["half"], row["examined"], int(row["of"])
        totals[key] = totals.get(key, 0) + int(row["count"])
    complete = [key for key in totals if "first look" not in key[0] or "bugs" in key[1]]
    assert all(totals[key] == key[2] for key in complete)
    assert len({key[:2] for key in totals}) == len(totals) == 13
    sizes = {half: len(BOTH[half].correct) for half in HALVES}
    told = {half: of for half, examined, of in totals if examined == "correct (first call)"}
    assert told == {
        "first look": sizes["unseen"],
        **{f"{half} half": size for half, size in sizes.items()},
    }
