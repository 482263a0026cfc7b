"""What the tests of the core share: drawn tensors, calls and gradients, and refused calls."""

import random
import re
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

NAN, INF = float("nan"), float("inf")
HALF = (torch.float16, torch.bfloat16)


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def draw_leads(dice: random.Random) -> Callable[[], tuple[int, ...]]:
    """Return a function that draws leading dimensions, all of which broadcast together."""
    full = dice.choice([(), (2,), (2, 3), (2, 3, 2)])

    def some_lead() -> tuple[int, ...]:
        kept = full[dice.randint(0, len(full)) :]
        return tuple(size if dice.random() < 0.6 else 1 for size in kept)

    return some_lead


def reorder(tensor: Tensor, dice: random.Random) -> Tensor:
    """Return the same numbers, in half of the cases in another order in memory."""
    return tensor.mT.contiguous().mT if dice.random() < 0.5 else tensor


def draw_mask(dice: random.Random, lead: Sequence[int], L: int, S: int) -> Tensor:
    """Return a boolean mask that broadcasts to (*lead, L, S), with empty rows now and then."""
    kept = lead[dice.randint(0, len(lead)) :]
    shape = [size if dice.random() < 0.6 else 1 for size in (*kept, L, S)]
    mask = torch.rand(shape) < dice.choice([0.1, 0.5, 0.95])
    if dice.random() < 0.3:
        mask[..., :: max(2, L - 1), :] = False
    return reorder(mask, dice)


def run(
    function: Callable,
    tensors: Sequence[Tensor],
    attn_mask: Tensor | None = None,
    *,
    learned: bool = False,
    **options: object,
) -> dict[str, Tensor]:
    """Return the output and the gradients of ``(output * fixed random numbers).sum()``.

    The gradient of the mask is among them if it is learned.
    """
    leaves = {
        name: tensor.detach().requires_grad_()
        for name, tensor in zip(("query", "key", "value"), tensors, strict=True)
    }
    if learned:
        leaves["attn_mask"] = attn_mask.detach().requires_grad_()
    elif attn_mask is not None:
        options["attn_mask"] = attn_mask
    output = function(**leaves, **options)
    pull = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output)
    loss, inputs = (output * pull).sum(), list(leaves.values())
    gradients = torch.autograd.grad(loss, inputs, materialize_grads=True)  # torch may use no mask
    return {"output": output.detach(), **dict(zip(leaves, gradients, strict=True))}


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor], atol: float = 1e-12) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert_close(tensor, theirs[name], rtol=0, atol=atol, msg=lambda m, n=name: f"{n}: {m}")


def nan_rows(tensor: Tensor) -> list[int]:
    """Return the rows (dimension -2) that hold a NaN in any sequence."""
    return tensor.isnan().any(dim=-1).flatten(0, -2).any(dim=0).nonzero().flatten().tolist()


def assert_refused(call: Callable[[], object], kind: type[Exception], words: str) -> None:
    """Assert that a call gets one sentence that begins with ``words``, a regular expression."""
    with pytest.raises(kind) as caught:
        call()
    said = str(caught.value)
    assert re.match(words, said), said
    assert said.endswith(".")
    assert "\n" not in said


def refuses(calls: Sequence[tuple]) -> Callable:
    """Return a test that calls are refused: (call, kind of error, how its sentence begins)."""

    @pytest.mark.parametrize(("call", "kind", "words"), calls)
    def test(call, kind, words):
        assert_refused(call, kind, words)

    return test
