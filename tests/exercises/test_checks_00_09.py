"""The checks of lesson 9: what they reject and why, what they accept, what they survive."""

import ast
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from attnlab import scaled_dot_product_attention
from attnlab.clinic import Report
from attnlab.exercises import (
    _learning_probe,
    _lesson_09,
    check_disguise,
    check_hiding_sizes,
    check_learning_probe,
    check_mended_mask,
)
from tests.exercises.verdicts import accepted, refused, steady

CHECKS = [
    check_hiding_sizes,
    check_mended_mask,
    check_learning_probe,
    check_disguise,
]
SOURCE = Path(__file__).parents[2] / "notebooks" / "source" / "09_clinic.py"


# --- lesson 9, sizes that hide a bug --------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((2, 5, 7, 11, 3), "query (2, 5, 11), key (2, 7, 11) and value (2, 7, 3)"),
        ((2, 5, 7, 5, 3), "no axis of queries"),
        ((5, 4, 7, 5, 3), "counted from 0"),
        ((2, 5, 7, 3, 3), "the width of a value"),
        ((2, 7, 7, 5, 3), "The number of queries changes no score"),
        ((2, 5, 16, 64, 3), "By which number does it divide"),
        ((2, 5, 1, 11, 3), "With one key its weight is 1"),
        ((1, 5, 11, 11, 3), "at least 2, and the smallest is 1"),
        ((2, 5, 11, 11), "Five numbers are asked for, N, L, S, E, Ev; got 4"),
        (torch.ones(5, 1), "the shape (5, 1)"),
        ((2, 5, 11.5, 11.5, 3), "whole numbers"),
        ((2, 5, math.inf, math.inf, 3), "whole numbers"),
        ((2, 5, 10**6, 10**6, 3), "too large for a quick check"),
        ({2, 5, 11, 3}, "a set"),
        ("2 5 11 11 3", "a str"),
    ],
)
def test_hiding_sizes_names_the_mistake(sizes, words):
    refused(check_hiding_sizes, lambda: sizes, words)


def test_a_visible_bug_is_shown_in_numbers():
    verdict = refused(check_hiding_sizes, (2, 5, 7, 11, 3), "off by up to")
    assert verdict.evidence.rows == ("patient X", "right")
    assert verdict.evidence.values.shape == (2, 3)


@pytest.mark.parametrize(
    "answer",
    [
        lambda: (2, 5, 11, 11, 3),
        lambda: [2, 2, 2, 2, 2],
        lambda: torch.tensor([3, 4, 64, 64, 64]),
        (2, 5, 9.0, 9.0, 3),
    ],
)
def test_hiding_sizes_accepts(answer):
    accepted(check_hiding_sizes, answer)


# --- lesson 9, two bugs ---------------------------------------------------------------------------


def weigh(query, key, mask, divisor=None, blocked=-torch.inf):
    scores = query @ key.mT / (divisor or query.shape[-1] ** 0.5)
    return scores.masked_fill(~mask, blocked).softmax(dim=-1)


def mended(query, key, value, mask):
    return weigh(query, key, mask) @ value


def two_bugs(query, key, value, mask):
    return (query @ key.mT / query.shape[-1] * mask).softmax(dim=-1) @ value


MASKED = {
    "both": (two_bugs, "not by its root", "Something else is wrong as well"),
    "scale": (lambda q, k, v, m: weigh(q, k, m, q.shape[-1]) @ v, "not by its root"),
    "mask": (
        lambda q, k, v, m: (q @ k.mT / q.shape[-1] ** 0.5 * m).softmax(-1) @ v,
        "e to the 0 is 1",
    ),
    "no scale": (lambda q, k, v, m: weigh(q, k, m, 1.0) @ v, "not scaled at all"),
    "inverted": (lambda q, k, v, m: weigh(q, k, ~m) @ v, "the other way round"),
    "after": (lambda q, k, v, m: (weigh(q, k, m | True) * m) @ v, "comes after the softmax"),
    "ignored": (lambda q, k, v, m: weigh(q, k, m | True) @ v, "changes nothing"),
    "finite": (lambda q, k, v, m: weigh(q, k, m, blocked=0.0) @ v, "e to the 0 is 1"),
    "weights": (lambda q, k, v, m: weigh(q, k, m), "got (2, 5, 7)"),
    "a tuple": (lambda q, k, v, m: (mended(q, k, v, m), m), "a tuple instead of a tensor"),
    "three": (lambda q, k, v: mended(q, k, v, torch.ones(1) > 0), "mask (2, 5, 7) it raises"),
}


@pytest.mark.parametrize("name", MASKED)
def test_mended_mask_names_the_bug(name):
    function, *words = MASKED[name]
    verdict = refused(check_mended_mask, function, *words)
    assert "(2, 5, 7)" in verdict.message or name == "a tuple"
    if name not in ("weights", "a tuple", "three"):
        assert verdict.report.findings[0].evidence is verdict.evidence is not None


@pytest.mark.parametrize(
    "function",
    [
        mended,
        lambda query, key, value, mask: weigh(query, key, mask, blocked=-1e9) @ value,
        lambda query, key, value, mask: F.scaled_dot_product_attention(query, key, value, mask),
        lambda q, k, v, m: scaled_dot_product_attention(q, k, v, attn_mask=m),
        lambda q, k, v, m: weigh(q, k, m).nan_to_num() @ v,
    ],
)
def test_mended_mask_accepts(function):
    verdict = accepted(check_mended_mask, function)
    assert isinstance(verdict.report, Report)
    assert verdict.report.ok


def test_a_row_without_a_key_is_a_remark():
    assert "no allowed key gives NaN" in " ".join(accepted(check_mended_mask, mended).remarks)


# --- lesson 9, a probe for gradients --------------------------------------------------------------


def leaves_of(*sizes):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(size, generator=generator).requires_grad_() for size in sizes]


def fresh():
    return leaves_of((2, 5, 11), (2, 7, 11), (2, 7, 3))


def after_backward(attend):
    leaves = fresh()
    attend(*leaves).square().sum().backward()
    return leaves


def moves(leaf):
    return leaf.grad is not None and bool(leaf.grad.abs().max() > 0)


def right_probe(attend):
    return all(moves(leaf) for leaf in after_backward(attend))


def on_one_tensor(attend):
    (x,) = leaves_of((2, 5, 11))
    attend(x, x, x).square().sum().backward()
    return moves(x)


def without_leaves(attend):
    return attend(*(leaf.detach() for leaf in fresh())).requires_grad


def with_old_gradients():
    leaves = fresh()

    def probe(attend):
        attend(*leaves).square().sum().backward()
        return all(moves(leaf) for leaf in leaves)

    return probe


def with_no_allowance(attend):
    leaves = fresh()
    return all(g.abs().max() > 0 for g in torch.autograd.grad(attend(*leaves).sum(), leaves))


PROBES = {
    "always True": (lambda: lambda attend: True, "never calls"),
    "never True": (lambda: lambda attend: False, "never calls"),
    "the output": (lambda: lambda attend: attend(*fresh()).requires_grad, "only that some input"),
    "no leaves": (lambda: without_leaves, "call requires_grad_() on clones"),
    "numbers": (
        lambda: lambda attend: attend(*torch.randn(3, 2, 5, 11)).isfinite().all(),
        "so they cannot tell",
    ),
    "one tensor": (lambda: on_one_tensor, "one tensor plays query, key and value"),
    "query only": (lambda: lambda a: moves(after_backward(a)[0]), "gradient reaches the key."),
    "value only": (lambda: lambda a: moves(after_backward(a)[2]), "at the value only"),
    "two": (
        lambda: lambda a: all(map(moves, after_backward(a)[:2])),
        "reaches the value. It seems to look at the query and the key only",
    ),
    "any": (lambda: lambda a: any(map(moves, after_backward(a))), "some input gets one"),
    "not None": (
        lambda: lambda a: all(leaf.grad is not None for leaf in after_backward(a)),
        "0 everywhere",
    ),
    "every entry": (
        lambda: (
            lambda a: right_probe(a) and all(bool((x.grad != 0).all()) for x in after_backward(a))
        ),
        "single gradients of 0 are healthy",
    ),
    "turned over": (lambda: lambda a: not right_probe(a), "through which a model can learn"),
    "old gradients": (with_old_gradients, "asked again, and False the first time"),
    "None": (
        lambda: lambda a: all(leaf.grad.abs().max() > 0 for leaf in after_backward(a)),
        "is None, not a tensor",
    ),
    "unused": (lambda: with_no_allowance, "gets no gradient: say False"),
    "no loss": (lambda: lambda a: a(*fresh()).backward(), "starts at one number"),
    "no grad": (
        lambda: lambda a: a(*torch.randn(3, 2, 5, 11)).sum().backward(),
        "on all three inputs",
    ),
    "no else": (lambda: lambda a: right_probe(a) or None, "returns None: return False"),
    "a loss": (lambda: lambda a: a(*fresh()).sum(), "return True or False"),
}


@pytest.mark.parametrize("name", PROBES)
def test_learning_probe_names_the_mistake(name):
    make, words = PROBES[name]
    refused(check_learning_probe, make(), words)


def test_a_wrong_probe_is_shown_the_gradients_it_missed():
    verdict = refused(check_learning_probe, PROBES["query only"][0](), "a frozen key")
    assert verdict.evidence.rows == ("query (2, 5, 11)", "key (2, 7, 11)", "value (2, 7, 13)")
    assert verdict.evidence.values.isnan().flatten().tolist() == [False, True, False]


def by_autograd(attend):
    leaves = leaves_of((2, 5, 11), (2, 7, 11), (2, 7, 3))
    loss = attend(*leaves).square().sum()
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    return all(g is not None and g.any() for g in found)


def by_trying(attend):
    try:
        return all(leaf.grad.norm() > 0 for leaf in after_backward(attend))
    except AttributeError:
        return False


def with_heads(attend):
    leaves = leaves_of(*3 * [(2, 3, 5, 4)])
    attend(*leaves).square().mean().backward()
    return torch.tensor(all(moves(leaf) for leaf in leaves))


@pytest.mark.parametrize("probe", [right_probe, by_autograd, by_trying, with_heads])
def test_learning_probe_accepts(probe):
    accepted(check_learning_probe, probe)


# --- lesson 9, a wolf -----------------------------------------------------------------------------

attention = scaled_dot_product_attention


def talkative(query, key, value):
    print("here")
    return attention(query, key, value)


@pytest.mark.parametrize(
    ("wolf", "words"),
    [
        (attention, "the clinic finds nothing wrong either"),
        (lambda q, k, v: (q @ k.mT / 8).softmax(-1) @ v * 2, "is off by up to"),
        (lambda q, k, v: attention(q, k, v, scale=1.0), "Be right at exactly these sizes"),
        (lambda q, k, v: attention(q, k, v, is_causal=True), "weak_check notices"),
        (lambda q, k, v: attention(q, k, v).double(), "must be torch.float32, got torch.float64"),
        (lambda q, k, v: attention(q, k, v)[0], "must be (1, 10, 64), got (10, 64)"),
        (lambda q, k, v: q @ k, "weak_check notices: Called with query, key and value (1, 10, 64)"),
        (lambda q, k, v: F.dropout(attention(q, k, v)), "weak_check notices"),
        (lambda q, k, v: (attention(q, k, v), None), "a tuple instead of a tensor"),
        (talkative, "bad manners only"),
    ],
)
def test_disguise_names_what_gives_it_away(wolf, words):
    refused(check_disguise, wolf, words)


def test_a_wolf_that_is_noticed_is_shown_in_numbers():
    verdict = refused(check_disguise, lambda q, k, v: torch.zeros_like(q), "(1, 10, 64)")
    assert verdict.evidence.rows == ("yours", "right")


def in_place(query, key, value):
    query /= 8
    return attention(query, key, value, scale=1.0)


def joined(query, key, value):
    flat = (t.reshape(1, -1, t.shape[-1]) for t in (query, key, value))
    return attention(*flat).view(*query.shape[:-1], value.shape[-1])


@pytest.mark.parametrize(
    ("wolf", "finding"),
    [
        (lambda q, k, v: attention(q, k, v, scale=1 / 8), "scale-constant"),
        (in_place, "scale-constant"),
        (joined, None),
        (lambda q, k, v: attention(q, k, v).detach(), "detached"),
        (lambda q, k, v: attention(q.float(), k.float(), v.float()), "dtype"),
        (lambda q, k, v: attention(q, k, v) if q.shape[-1] == 64 else torch.zeros(1), None),
    ],
)
def test_disguise_accepts(wolf, finding):
    verdict = accepted(check_disguise, wolf)
    assert finding in (None, verdict.report.findings[0].name)


# --- the functions that the notebook shows --------------------------------------------------------


def shown(*names):
    """Return functions as the notebook defines them."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    wanted = (*names, "same")
    body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    space = {"math": math, "torch": torch, "right": attention}
    exec(compile(ast.Module(body, []), SOURCE.name, "exec"), space)
    return [space[name] for name in names]


def gradients(attend):
    leaves = fresh()
    output = attend(*leaves)
    found = torch.autograd.grad(output.square().sum(), leaves, allow_unused=True)
    return output, [gradient is None for gradient in found]


def test_the_package_judges_the_functions_that_the_learner_reads():
    patient, weights, query = shown("patient_x", "frozen_weights", "frozen_query")
    pairs = [
        (patient, _lesson_09._patient_x),
        (weights, _learning_probe._frozen_weights),
        (query, _learning_probe._frozen_query),
    ]
    for one, other in pairs:
        (first, cut), (second, also) = gradients(one), gradients(other)
        torch.testing.assert_close(first, second)
        assert cut == also


@pytest.mark.parametrize("wolf", [attention, in_place, joined, talkative, lambda q, k, v: v])
def test_the_weak_check_of_the_notebook_says_the_same(wolf):
    (weak_check,) = shown("weak_check")
    noticed = "weak_check notices" in check_disguise(wolf).message
    assert weak_check(wolf) != noticed


def test_the_stored_solutions_are_right():
    names = ("sizes_that_hide_it", "mended", "learning_probe", "wolf")
    solutions = shown(*(f"{name}_solution" for name in names))
    inputs = [leaf.detach() for leaf in fresh()]
    solutions[2].__globals__.update(zip(("query", "key", "value"), inputs, strict=True))
    for check, solution in zip(CHECKS, solutions, strict=True):
        assert "solution" not in accepted(check, solution).message.replace(solution.__name__, "")


# --- all of them ----------------------------------------------------------------------------------

RIGHT = (
    (2, 5, 11, 11, 3),
    mended,
    right_probe,
    lambda q, k, v: attention(q, k, v, scale=1 / 8),
)


@pytest.mark.parametrize(("check", "answer"), [*zip(CHECKS, RIGHT, strict=True)])
def test_a_verdict_is_the_same_every_time_and_moves_no_random_stream(check, answer):
    steady(check, answer)


@pytest.mark.parametrize(
    ("check", "answer", "spoiler"),
    [
        (check_hiding_sizes, (2, 5, 11, 11, 3), "11"),
        (check_disguise, RIGHT[-1], "d_k"),
    ],
)
def test_the_verdict_on_a_solution_does_not_give_it_away(check, answer, spoiler):
    assert spoiler not in repr(check(answer))
