"""What the tests of the two attention kernels share: random tensors, gradients, comparisons."""

import random
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

NAN, INF = float("nan"), float("inf")
HALF = (torch.float16, torch.bfloat16)


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def random_leads(dice: random.Random) -> Callable[[], tuple[int, ...]]:
    """Return a function that draws leading dimensions, all of which broadcast."""
    full = dice.choice([(), (2,), (2, 3), (2, 3, 2)])

    def some_lead() -> tuple[int, ...]:
        kept = full[dice.randint(0, len(full)) :]
        return tuple(size if dice.random() < 0.6 else 1 for size in kept)

    return some_lead


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
        name: tensor.detach().clone().requires_grad_()
        for name, tensor in zip(("query", "key", "value"), tensors, strict=True)
    }
    if learned:
        leaves["attn_mask"] = attn_mask.detach().clone().requires_grad_()
    elif attn_mask is not None:
        options["attn_mask"] = attn_mask
    output = function(**leaves, **options)
    pull = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output)
    gradients = torch.autograd.grad((output * pull).sum(), list(leaves.values()))
    return {"output": output.detach(), **dict(zip(leaves, gradients, strict=True))}


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor], atol: float = 1e-12) -> None:
    for name, tensor in ours.items():
        assert_close(tensor, theirs[name], rtol=0, atol=atol, msg=lambda m, n=name: f"{n}: {m}")


def error_ratios(function: Callable, calls: Sequence[tuple], **tiling: object) -> dict[str, float]:
    """Return the errors of a function as multiples of torch's, over calls (tensors, options).

    Errors are root mean squares of the distance from float64 on the same inputs.
    """
    totals: dict[str, Tensor] = {}
    torchs = F.scaled_dot_product_attention
    for tensors, options in calls:
        ours = run(function, tensors, **options, **tiling)
        theirs = run(torchs, tensors, **options)
        wide = {
            name: value.double()
            if isinstance(value, Tensor) and value.is_floating_point()
            else value
            for name, value in options.items()
        }
        exact = run(torchs, [tensor.double() for tensor in tensors], **wide)
        for name, wanted in exact.items():
            squares = [(part[name].double() - wanted).square().mean() for part in (ours, theirs)]
            totals[name] = totals.get(name, 0) + torch.stack(squares)
    return {name: float((ours / theirs).sqrt()) for name, (ours, theirs) in totals.items()}


def nan_rows(tensor: Tensor) -> list[int]:
    """Return the rows (dimension -2) that hold a NaN in any sequence."""
    return tensor.isnan().any(dim=-1).flatten(0, -2).any(dim=0).nonzero().flatten().tolist()
