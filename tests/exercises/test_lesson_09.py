"""The checks of lesson 9: what they accept, and what they say of answers that are not slips."""

import ast
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from attnlab import scaled_dot_product_attention as attention
from attnlab.exercises import (
    check_disguise,
    check_hiding_sizes,
    check_learning_probe,
    check_mended_mask,
    lesson_09,
)
from tests.exercises.verdicts import accepted, accepts, names, refused

SOURCE = Path(__file__).parents[2] / "notebooks" / "source" / "09_clinic.py"

# --- two bugs -------------------------------------------------------------------------------------


def weigh(query, key, mask, blocked=-torch.inf):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return scores.masked_fill(~mask, blocked).softmax(dim=-1)


def mended(query, key, value, mask):
    return weigh(query, key, mask) @ value


def two_bugs(query, key, value, mask):
    return (query @ key.mT / query.shape[-1] * mask).softmax(dim=-1) @ value


def multiplied(query, key, value, mask):
    return (query @ key.mT / query.shape[-1] ** 0.5 * mask).softmax(dim=-1) @ value


# --- a probe for gradients ------------------------------------------------------------------------


def leaves_of(*sizes):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(size, generator=generator).requires_grad_() for size in sizes]


def fresh():
    return leaves_of((2, 5, 11), (2, 7, 11), (2, 7, 3))


def after_backward(attend, leaves=None):
    leaves = leaves or fresh()
    output = attend(*leaves)
    if output.requires_grad:
        output.square().sum().backward()
    return leaves


def moves(leaf):
    return leaf.grad is not None and bool(leaf.grad.abs().max() > 0)


def learns(attend):
    return all(map(moves, after_backward(attend)))


def by_autograd(attend):
    leaves = fresh()
    try:
        found = torch.autograd.grad(attend(*leaves).square().sum(), leaves, allow_unused=True)
    except RuntimeError:
        return False
    return all(gradient is not None and gradient.any() for gradient in found)


def without_a_guard(attend):
    leaves = fresh()
    attend(*leaves).square().sum().backward()
    return all(map(moves, leaves))


def by_trying(attend):
    try:
        return all(leaf.grad.norm() > 0 for leaf in after_backward(attend))
    except AttributeError:
        return False


def with_heads(attend):
    leaves = after_backward(attend, leaves_of(*3 * [(2, 3, 5, 4)]))
    return torch.tensor(all(map(moves, leaves)))


def every_entry(attend):
    return all(moves(leaf) and bool((leaf.grad != 0).all()) for leaf in after_backward(attend))


def on_one_tensor(attend):
    (x,) = leaves_of((2, 5, 11))
    return moves(after_backward(attend, [x, x, x])[0])


def without_allowance(attend):
    leaves = fresh()
    return all(g.abs().max() > 0 for g in torch.autograd.grad(attend(*leaves).sum(), leaves))


def with_old(*parts):
    """Return a probe that keeps some of its inputs from call to call."""
    kept = fresh()

    def probe(attend):
        leaves = [kept[i] if i in parts else leaf for i, leaf in enumerate(fresh())]
        return all(map(moves, after_backward(attend, leaves)))

    return probe


# --- a wrong function that passes -----------------------------------------------------------------


def with_64_features(query, key, value):
    return attention(query, key, value, scale=1 / 8)


def in_place(query, key, value):
    query /= 8
    return attention(query, key, value, scale=1.0)


def joined(query, key, value):
    flat = (part.reshape(1, -1, part.shape[-1]) for part in (query, key, value))
    return attention(*flat).view(*query.shape[:-1], value.shape[-1])


def unscaled_at_a_thousand_keys(query, key, value):
    return attention(query, key, value, scale=None if key.shape[-2] < 1000 else 1.0)


def talkative(query, key, value):
    print("here")
    return attention(query, key, value)


def picky(query, key, value):
    assert query.shape == (1, 10, 64)
    return attention(query, key, value)


# --- all ------------------------------------------------------------------------------------------

test_accepts = accepts(
    {
        check_hiding_sizes: [
            lambda: (2, 5, 11, 11, 3),
            [2, 2, 2, 2, 2],
            lambda: torch.tensor([3, 4, 64, 64, 64]),
            (2, 5, 9.0, 9.0, 3),
        ],
        check_mended_mask: [
            mended,
            lambda q, k, v, mask: weigh(q, k, mask, blocked=-1e9) @ v,
            lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask),
            lambda q, k, v, mask: weigh(q, k, mask).nan_to_num() @ v,
        ],
        check_learning_probe: [learns, by_autograd, by_trying, with_heads],
        check_disguise: [
            with_64_features,
            joined,
            lambda q, k, v: attention(q, k, v) if q.shape[-1] == 64 else torch.zeros(1),
        ],
    }
)

test_names_the_mistake = names(
    {
        check_hiding_sizes: {
            "query (2, 5, 11), key (2, 7, 11) and value (2, 7, 3) `patient_x` is off": (
                lambda: (2, 5, 7, 11, 3)
            ),
            "With one key its weight is 1": (2, 5, 1, 11, 3),
            "at least 2, and the smallest is 1": (1, 5, 11, 11, 3),
            "Five numbers are asked for, N, L, S, E, Ev; got 4": (2, 5, 11, 11),
            "the shape (5, 1)": torch.ones(5, 1),
            "whole numbers": (2, 5, 11.5, 11.5, 3),
            "too large for a quick check": (2, 5, 10**6, 10**6, 3),
        },
        check_mended_mask: {
            ("not by its root", "mask (2, 5, 7)", "Something else is wrong as well"): two_bugs,
            "e to the 0 is 1": multiplied,
            "True blocks a key in this mask": lambda q, k, v, mask: weigh(q, k, ~mask) @ v,
            "comes after the softmax": lambda q, k, v, mask: weigh(q, k, mask | True) * mask @ v,
            "changes nothing": lambda q, k, v, mask: weigh(q, k, mask | True) @ v,
            "got (2, 5, 7)": lambda q, k, v, mask: weigh(q, k, mask),
            "mask (2, 5, 7) it raises": lambda q, k, v: mended(q, k, v, torch.ones(1) > 0),
        },
        check_learning_probe: {
            "It never calls the function": lambda attend: True,
            "only that some input gets one": lambda attend: attend(*fresh()).requires_grad,
            "False of attnlab's attention. No input asks for a gradient": (
                lambda attend: attend(*(leaf.detach() for leaf in fresh())).requires_grad
            ),
            "so they cannot show it": (
                lambda attend: attend(*torch.randn(3, 2, 5, 11)).isfinite().all()
            ),
            "One tensor plays query, key and value": on_one_tensor,
            "0 everywhere": (
                lambda attend: all(leaf.grad is not None for leaf in after_backward(attend))
            ),
            "single gradients of 0 are healthy": every_entry,
            "True of frozen_weights. Gradients add up in `.grad`": with_old(0, 1, 2),
            "in a second call. Gradients add up in `.grad`": with_old(0),
            "is None, not a tensor": (
                lambda attend: all(leaf.grad.abs().max() > 0 for leaf in after_backward(attend))
            ),
            "gets no gradient: return False": without_allowance,
            "starts at one number": lambda attend: attend(*fresh()).backward(),
            ("a detached output", "has no gradient, return False before backward()"): (
                without_a_guard
            ),
            "on all three inputs": (
                lambda attend: attend(*torch.randn(3, 2, 5, 11)).sum().backward()
            ),
            "returns None: return False": lambda attend: learns(attend) or None,
        },
        check_disguise: {
            ("finds nothing wrong either", "only where the clinic does not look"): (
                unscaled_at_a_thousand_keys
            ),
            ("weak_check notices it. With", "is off by up to", "Make it correct at exactly"): (
                lambda q, k, v: attention(q, k, v, scale=1.0)
            ),
            "got torch.float64": lambda q, k, v: attention(q, k, v).double(),
            "notices it. Called with query, key and value (1, 10, 64) it raises": (
                lambda q, k, v: q @ k
            ),
            "Its numbers are correct. It prints at every call": talkative,
            ("the clinic could not examine it", "picky(query, key, value)", "at every size"): picky,
        },
    }
)


def test_wrong_answers_are_shown_in_numbers():
    evidence = refused(check_hiding_sizes, (2, 5, 7, 11, 3)).evidence
    assert evidence.rows == ("patient_x", "correct")
    evidence = refused(check_disguise, lambda q, k, v: torch.zeros_like(q)).evidence
    assert evidence.rows == ("yours", "correct")
    evidence = refused(check_learning_probe, with_old(1), "a frozen key").evidence
    assert evidence.rows == ("query (2, 5, 11)", "key (2, 7, 11)", "value (2, 7, 13)")
    assert evidence.values.isnan().flatten().tolist() == [False, True, False]


def test_the_report_of_the_clinic_comes_with_the_verdict():
    verdict = refused(check_mended_mask, two_bugs)
    assert verdict.report.findings[0].evidence is verdict.evidence is not None
    verdict = accepted(check_mended_mask, mended)
    assert verdict.report.ok
    assert "no allowed key gives NaN" in " ".join(verdict.remarks)


@pytest.mark.parametrize(
    ("function", "finding"),
    [
        (with_64_features, "scale-constant"),
        (in_place, "scale-constant"),
        (lambda q, k, v: attention(q, k, v).detach(), "detached"),
        (lambda q, k, v: attention(q.float(), k.float(), v.float()), "dtype"),
    ],
)
def test_the_clinic_finds_what_the_weak_check_misses(function, finding):
    assert accepted(check_disguise, function).report.findings[0].name == finding


# --- the functions that the notebook shows --------------------------------------------------------


def shown(*wanted):
    """Return functions as the notebook defines them."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    body = [node for node in functions if node.name in (*wanted, "same")]
    space = {"torch": torch, "attention": attention}
    exec(compile(ast.Module(body, []), SOURCE.name, "exec"), space)
    return [space[name] for name in wanted]


def gradients(attend):
    leaves = fresh()
    output = attend(*leaves)
    found = torch.autograd.grad(output.square().sum(), leaves, allow_unused=True)
    return output, [gradient is None for gradient in found]


@pytest.mark.parametrize("name", ["patient_x", "frozen_weights", "frozen_query"])
def test_the_package_judges_the_functions_that_the_learner_reads(name):
    (first, cut), (second, also) = map(gradients, (*shown(name), getattr(lesson_09, name)))
    torch.testing.assert_close(first, second)
    assert cut == also


@pytest.mark.parametrize("function", [attention, in_place, joined, talkative, lambda q, k, v: v])
def test_the_weak_check_of_the_notebook_says_the_same(function):
    (weak_check,) = shown("weak_check")
    noticed = "weak_check notices" in check_disguise(function).message
    assert weak_check(function) != noticed
