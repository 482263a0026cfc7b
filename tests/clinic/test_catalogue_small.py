"""The catalogue's head pairs, mask builders and softmaxes are broken or right as they say."""

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attnlab.clinic.broken import BROKEN, RIGHT, Case

pytestmark = pytest.mark.filterwarnings("ignore")  # learners' code may warn

H = 3


def named(cases: tuple[Case, ...], *themes: str) -> list:
    """Return the cases of some themes as pytest parameters."""
    where = {f"attnlab.clinic.broken.{theme}" for theme in themes}
    return [pytest.param(c, id=c.name) for c in cases if c.target.__module__ in where]


def small(cases: tuple[Case, ...], theme: str, word: str) -> list:
    """Return the cases of a theme whose name has a word in it."""
    return [param for param in named(cases, theme) if word in param.values[0].name]


def distance(output: Tensor, reference: Tensor) -> float:
    if output.shape != reference.shape:
        return float("inf")
    return float((output - reference).abs().max().nan_to_num(torch.inf))


def head_distances(case: Case) -> list[float]:
    """Return how far split, merge and the round trip are from those of torch's views."""
    made = case.make()
    split, merge = made if isinstance(made, tuple) else (made, None)
    if case.name.startswith("merge_"):
        split, merge = None, made
    x = torch.arange(2 * 5 * 12.0).view(2, 5, 12)
    heads = x.unflatten(-1, (H, -1)).transpose(1, 2).contiguous()
    found = [] if split is None else [distance(split(x, H), heads)]
    found += [] if merge is None else [distance(merge(heads), x)]
    return found if None in (split, merge) else [*found, distance(merge(split(x, H)), x)]


@pytest.mark.parametrize("case", named(BROKEN, "head_shapes"))
def test_broken_heads_are_broken(case: Case) -> None:
    if case.cause == "contiguity":
        with pytest.raises(RuntimeError, match="view"):
            head_distances(case)
        return
    if case.cause == "round-trip":  # each side has a layout of its own that would do
        split, merge = case.make()
        x = torch.arange(2 * 5 * 12.0).view(2, 5, 12)
        assert distance(merge(split(x, H), H), x) > 0
        return
    *parts, trip = head_distances(case)
    assert trip > 0 or max(parts) > 0
    if case.cause in ("split-and-merge", "batch-mixing"):
        assert trip == 0  # a round trip does not see it


HEADS = [p for word in ("And", "Einsum", "heads") for p in small(RIGHT, "right_small", word)]


@pytest.mark.parametrize("case", HEADS)
def test_right_heads_are_right(case: Case) -> None:
    assert max(head_distances(case)) == 0


def wrong_masks(case: Case) -> list[bool]:
    """Return whether each mask differs from the boolean one, or, if float, from 0 and -inf."""
    made = case.make()
    if "lengths" in inspect.signature(made).parameters:
        lengths = torch.tensor([4, 2])
        pairs = [(made(lengths, 5), torch.arange(5) < lengths[:, None])]
    else:
        pairs = [(made(5), torch.ones(5, 5).tril().bool())]
        if len(inspect.signature(made).parameters) == 2:
            pairs.append((made(5, 7), torch.ones(5, 7).tril().bool()))
    additive = [(m, torch.zeros(k.shape).masked_fill(~k, -torch.inf)) for m, k in pairs]
    return [
        not (mask.equal(keep) if mask.dtype == torch.bool else mask.equal(bias))
        for (mask, keep), (_, bias) in zip(pairs, additive, strict=True)
    ]


@pytest.mark.parametrize("case", named(BROKEN, "mask_builders"))
def test_broken_mask_is_broken(case: Case) -> None:
    assert any(wrong_masks(case))


@pytest.mark.parametrize("case", small(RIGHT, "right_small", "mask"))
def test_right_mask_is_right(case: Case) -> None:
    assert not any(wrong_masks(case))


def softmax_holds(softmax: Callable[[Tensor], Tensor]) -> bool:
    """Return whether a softmax is right for small, large and distant rows and keeps its input."""
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    rows = torch.tensor([[0.0], [1000.0], [2000.0], [-900.0], [1.0]], dtype=torch.float64)
    for scores in (x * 3, x + rows, x * rows):
        before = scores.detach().clone()
        result, reference = softmax(scores), before.softmax(dim=-1)
        if result.dtype != scores.dtype or distance(result, reference) > 1e-6:
            return False
        if not scores.detach().equal(before) or not result.requires_grad:
            return False
    return True


@pytest.mark.parametrize("case", named(BROKEN, "softmaxes"))
def test_broken_softmax_is_broken(case: Case) -> None:
    if case.cause == "square-only":
        with pytest.raises(RuntimeError, match="must match the size"):
            softmax_holds(case.make())
    else:
        assert not softmax_holds(case.make())


@pytest.mark.parametrize("case", small(RIGHT, "right_small", "softmax"))
def test_right_softmax_is_right(case: Case) -> None:
    assert softmax_holds(case.make())
