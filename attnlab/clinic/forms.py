"""The shapes and the kinds of masks, and what each says about query, key and head."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Form(NamedTuple):
    """A shape and a kind of mask.

    ``kind`` is ``"bool"`` or ``"float"`` with 1 for may attend, ``"blocked"`` or ``"blocked
    float"`` for the opposite, ``"additive"`` for 0 and minus infinity.
    """

    letters: str
    cut: Callable[[Tensor], Tensor]  # from a mask (N, H, L, S) to what is given
    shared: tuple[int, ...] = ()  # the dimensions of (N, H, L, S) along which it is the same
    kind: str = "bool"

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return self.letters.count(",") + (self.letters != "(N,)")

    @property
    def per_key(self) -> bool:
        """Whether the same keys are blocked for every query."""
        return 2 in self.shared

    def __call__(self, allowed: Tensor, dtype: torch.dtype) -> Tensor:
        """Return a mask (N, H, L, S), True = may attend, as it is wanted."""
        mask = self.cut(allowed)
        if self.letters == "(N,)":
            return allowed.shape[-1] - mask if self.kind == "blocked" else mask
        if self.kind == "additive":
            return torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -torch.inf)
        mask = ~mask if self.kind.startswith("blocked") else mask.clone()
        return mask.to(dtype) if self.kind.endswith("float") else mask

    def whole(self, query: Tensor, key: Tensor, dtype: torch.dtype, *, may: bool = True) -> Tensor:
        """Return a mask that blocks nothing, or everything."""
        heads = query.shape[1] if query.ndim == 4 else 1
        N = len(query) if query.ndim > 2 else 1
        allowed = torch.full((N, heads, query.shape[-2], key.shape[-2]), may)
        return self(allowed, dtype).to(query.device)


FORMS = (
    Form("(N, L, S)", lambda full: full[:, 0], (1,)),
    Form("(N, 1, L, S)", lambda full: full[:, :1], (1,)),
    Form("(L, S)", lambda full: full[0, 0], (0, 1)),
    Form("(N, 1, S)", lambda full: full[:, 0, :1], (1, 2)),
    Form("(N, 1, 1, S)", lambda full: full[:, :1, :1], (1, 2)),
    Form("(N, S)", lambda full: full[:, 0, 0], (1, 2)),
    Form("(N, H, L, S)", lambda full: full),
    Form("(N * H, L, S)", lambda full: full.flatten(0, 1), (1,)),
    Form("(S,)", lambda full: full[0, 0, 0], (0, 1, 2)),
    Form("(N,)", lambda full: full[:, 0, 0].sum(dim=-1), (1, 2)),
)


def pattern(form: Form, N: int, H: int, L: int, S: int, seed: int = 3) -> Tensor:
    """Return a mask (N, H, L, S) without symmetry, with a True and a False in every row.

    Every query may see its own key, so that a causal mask beside it leaves a key; of a mask of
    keys all sequences see the first and none the last.
    """
    place = torch.arange(S)
    if form.letters == "(N,)":
        lengths = (2 * torch.arange(N) + 3) % (S - 1) + 1
        return (place < lengths[:, None, None, None]).expand(N, H, L, S)
    shape = [1 if dim in form.shared else size for dim, size in enumerate((N, H, L, S))]
    if form.per_key:
        n = torch.arange(shape[0])[:, None, None, None]
        allowed = ((place + n + seed) % 3 != 1) & (place < S - 1) | (place == 0)
        return allowed.expand(N, H, L, S)
    allowed = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.55
    own = torch.arange(L)[:, None] % S
    allowed = (allowed | (place == own)) & (place != (own + S - 1) % S)
    return allowed.expand(N, H, L, S)


def single(form: Form, N: int, H: int, L: int, S: int) -> Tensor:
    """Return a mask (N, H, L, S) that leaves every query one key."""
    own = torch.zeros(1) if form.per_key else torch.arange(L)[:, None] % S
    return (torch.arange(S) == own).expand(N, H, L, S)


def reads_mask(adapter: Callable) -> bool:
    """Return whether an adapter does something with its last argument, the mask."""
    code = getattr(adapter, "__code__", None)
    if code is None:
        return True
    if code.co_argcount < 5:
        return bool(code.co_flags & 4)  # *arguments
    name = code.co_varnames[4]
    read = [step.argval for step in dis.get_instructions(code)]
    return any(name == step or (isinstance(step, tuple) and name in step) for step in read)
