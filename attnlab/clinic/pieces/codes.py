"""Numbers that carry their names: where every number of a split or a merge comes from."""

from __future__ import annotations

import math
from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._evidence import Evidence
from attnlab.clinic.pieces.calls import MOST_SHOWN, table


class Verdict(NamedTuple):
    """What is wrong with a piece: a name, the end of a sentence, and a table."""

    name: str
    words: str
    evidence: Evidence | None = None


class Sizes(NamedTuple):
    """Sizes of one trial, all different: sequences, tokens, heads, features of a head."""

    n: int
    length: int
    heads: int
    d: int
    flat: bool = False  # one sequence, without the dimension of the batch

    @property
    def width(self) -> int:
        """Features of a token."""
        return self.heads * self.d

    def codes(self) -> Tensor:
        """Return the name of every number, shape (N, L, H, d)."""
        return torch.arange(self.n * self.length * self.width).view(self[:4])

    def tokens(self) -> Tensor:
        """Return the input of split, whose numbers are their names: (N, L, D) or (L, D)."""
        return self.codes().flatten(2)[0 if self.flat else slice(None)].float()


class Layout(NamedTuple):
    """How the heads lie: the order of the dimensions N, L, H, d, and which of them are joined."""

    order: tuple[int, ...]
    groups: tuple[str, ...]  # such as ("N*H", "L", "d")

    @property
    def usable(self) -> bool:
        """Whether products over the last two dimensions compare tokens head by head."""
        return len(self.groups) > 2 and self.groups[-1] == "d" and self.groups[-2] in ("L", "N")

    def heads(self, sizes: Sizes) -> Tensor:
        """Return the input of merge in this layout."""
        one = dict(zip("NLHd", sizes, strict=False))
        shape = [math.prod(one[letter] for letter in group.split("*")) for group in self.groups]
        return sizes.codes().permute(self.order).reshape(shape).contiguous().float()

    def __str__(self) -> str:
        return f"({', '.join(self.groups)})"


USUAL = Layout((0, 2, 1, 3), ("N", "H", "L", "d"))
LAYOUTS = (  # others that merge may be made for
    Layout((0, 2, 1, 3), ("N*H", "L", "d")),
    Layout((2, 0, 1, 3), ("H", "N", "L", "d")),
    Layout((2, 0, 1, 3), ("H*N", "L", "d")),
    Layout((0, 2, 3, 1), ("N", "H", "d", "L")),
)


def layout_of(names: Tensor, sizes: Sizes) -> Layout | None:
    """Return the layout if the result is nothing but an order of the four dimensions."""
    for order in permutations(range(4)):
        left, groups = list(order), []
        for size in names.shape:
            group, product = [], 1
            while left and (product < size or not group):
                product *= sizes[left[0]]
                group.append("NLHd"[left.pop(0)])
            groups.append("*".join(group))
        layout = Layout(order, tuple(groups))
        if all(groups) and not left and torch.equal(layout.heads(sizes), names.float()):
            return layout
    return None


def judge(got: Tensor, sizes: Sizes, role: str) -> Verdict | None:
    """Return what is most wrong with where the numbers are, (N, H, L, d); None if nothing is."""
    n, token, feature = _unravel(got, sizes)
    right_n, right_token, right = _unravel(sizes.codes().transpose(1, 2), sizes)
    if not torch.equal(n, right_n):
        return _misplaced("batch-mixing", "sequence", n, right_n)
    if (token != token[:1, :1, :, :1]).any():
        return _scrambled(role, token)
    if not torch.equal(token, right_token):
        return _misplaced("position-mixing", "token", token, right_token)
    if (feature != feature[:1, :, :1]).any():
        return _misplaced("head-mixing", "feature", feature, right)
    same = torch.equal(feature, right)
    return None if same else _reordered(feature[0, :, 0], right[0, :, 0])


def _unravel(names: Tensor, sizes: Sizes) -> tuple[Tensor, Tensor, Tensor]:
    """Return sequence, token and feature of every name."""
    token, feature = names // sizes.width, names % sizes.width
    return token // sizes.length, token % sizes.length, feature


def _misplaced(name: str, what: str, got: Tensor, right: Tensor) -> Verdict:
    """Return the verdict on numbers of another sequence, token or feature."""
    wrong = (got != right).nonzero()[0].tolist()
    share = (got != right).double().mean().item()
    n, head, token, place = wrong
    words = (
        f"moves {share:.0%} of the numbers to another {what}: e.g. token {token} of head {head} in "
        f"sequence {n} holds a number of {what} {got[tuple(wrong)].item()}"
    )
    caption = f"The {what} that number {place} of each head came from in sequence {n}:"
    return Verdict(name, words, table(caption, got[n, :, :, place].T, "token", "head"))


def _scrambled(role: str, token: Tensor) -> Verdict:
    """Return the verdict on tokens that are cut to pieces."""
    in_head, in_row = token[0, 0].unique().tolist(), token[0, :, 0].unique().tolist()
    if role == "merge":
        words = (
            "joins numbers that lie next to each other in memory: row 0 of the result holds "
            f"{_listed(in_row)}, where it should hold token 0 of every head"
        )
    elif len(in_head) == token.shape[2]:
        words = f"mixes the tokens: row 0 of the heads holds numbers of {_listed(in_row)}"
    else:
        words = (
            f"cuts the memory and not the features: head 0 holds numbers of {_listed(in_head)} "
            f"only, where every head should hold all {token.shape[2]} tokens"
        )
    caption = "The token that the first number of each head came from. Right: row i holds i."
    shown = table(caption, token[0, :, :, 0].T, "token", "head")
    return Verdict(f"{role}-without-transpose", words, shown)


def _reordered(held: Tensor, right: Tensor) -> Verdict:
    """Return the verdict on features (H, d) that every token has at the wrong places."""
    heads, d = right.shape
    shown = table("The features that each head holds.", held, "head", "place")
    how = "gives the heads other features"
    if torch.equal(held, right.view(d, heads).T):
        how = "deals the features out to the heads like cards"
    elif torch.equal(held, right.flip(0)):
        how = "puts the heads in the opposite order"
    elif torch.equal(held.sort(dim=-1).values, right):
        how = "changes the order of the features inside the heads"
    if torch.equal(held, held[:1].expand_as(held)):
        return Verdict("heads-shared", "gives every head the same features", shown)
    bad = int((held != right).any(-1).int().argmax())
    told = ", ".join(map(str, held[bad].tolist()[:MOST_SHOWN]))
    words = f"{how}: head {bad} holds features {told} and not {bad * d} to {(bad + 1) * d - 1}"
    return Verdict("heads-order", words, shown)


def _listed(tokens: list[int]) -> str:
    if len(tokens) == 1:
        return f"token {tokens[0]}"
    return f"tokens {', '.join(map(str, tokens[:-1]))} and {tokens[-1]}"
