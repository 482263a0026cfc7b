"""Numbers that carry their names: where every number of a split or a merge comes from."""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic.pieces.calls import MOST_SHOWN, Verdict, table


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
        size = (self.n, self.length, self.heads, self.d)
        return torch.arange(self.n * self.length * self.width).view(size)

    def tokens(self) -> Tensor:
        """Return the input of split, whose numbers are their names: (N, L, D) or (L, D)."""
        x = self.codes().flatten(2).float()
        return x[0] if self.flat else x


class Layout(NamedTuple):
    """How the numbers of split lie: the order of the dimensions N, L, H, d, and the shape."""

    order: tuple[int, ...]
    shape: tuple[int, ...]
    sizes: tuple[int, ...]  # of N, L, H, d

    @property
    def groups(self) -> list[str]:
        """The dimensions by name, such as ``["N*H", "L", "d"]``."""
        groups, left = [], list(self.order)
        for size in self.shape:
            group, product = "", 1
            while left and (product < size or not group):
                product *= self.sizes[left[0]]
                group += "NLHd"[left.pop(0)]
            groups.append("*".join(group))
        return groups

    @property
    def usable(self) -> bool:
        """Whether products over the last two dimensions compare tokens head by head."""
        groups = self.groups
        return len(groups) > 2 and groups[-1] == "d" and groups[-2] in ("L", "N")

    def __str__(self) -> str:
        return f"({', '.join(self.groups)})"


def names_in(result: Tensor, sizes: Sizes) -> Tensor | None:
    """Return the names as whole numbers if every name is there once; else None."""
    total = sizes.n * sizes.length * sizes.width
    if result.numel() != total or not result.isfinite().all():
        return None
    names = result.round().long()
    once = torch.equal(names.flatten().sort().values, torch.arange(total))
    return names if once and torch.equal(names.double(), result) else None


def layout_of(names: Tensor, sizes: Sizes) -> Layout | None:
    """Return the layout if the result is nothing but an order of the four dimensions."""
    codes = sizes.codes()
    for order in permutations(range(4)):
        if torch.equal(codes.permute(order).flatten(), names.flatten()) and _groups(
            names.shape, [codes.shape[place] for place in order]
        ):
            return Layout(order, tuple(names.shape), tuple(codes.shape))
    return None


def arrange(sizes: Sizes, layout: Layout | None) -> Tensor:
    """Return the input of merge, whose numbers are their names, in a layout."""
    if layout is None:
        z = sizes.codes().transpose(1, 2).contiguous().float()  # (N, H, L, d)
        return z[0] if sizes.flat else z
    return sizes.codes().permute(layout.order).reshape(layout.shape).float()


def uncut(got: Tensor, sizes: Sizes, role: str) -> Verdict | None:
    """Return a verdict if the numbers have kept their order in memory; None otherwise.

    Parameters
    ----------
    got : Tensor of int, shape (N, H, L, d)
        The name of the number at every place.
    sizes : Sizes
        Of the trial.
    role : str
        ``"split"`` or ``"merge"``.

    Returns
    -------
    Verdict or None
        A split or merge without its transpose.
    """
    if role == "split":
        still = got.flatten(), sizes.codes().flatten()
    else:  # the input of merge lay as (N, H, L, d), its result as (N, L, H, d)
        still = got.transpose(1, 2).flatten(), sizes.codes().transpose(1, 2).flatten()
    if not torch.equal(*still):
        return None
    verdict = judge(got, sizes, scrambled=f"{role}-without-transpose")
    if verdict is None:
        return None
    token = _unravel(got, sizes)[1]
    if role == "split":
        held = _listed(token[0, 0].unique().tolist())
        words = (
            f"cuts the memory and not the features: head 0 holds numbers of {held} only, "
            f"where every head should hold all {sizes.length} tokens"
        )
    else:
        held = _listed(token[0, :, 0].unique().tolist())
        words = (
            "joins numbers that lie next to each other in memory: row 0 of the result holds "
            f"{held}, where it should hold token 0 of every head"
        )
    shown = token[0, :, :, 0].T
    caption = "The token that the first number of each head came from. Right: row i holds i"
    return Verdict(f"{role}-without-transpose", words, table(f"{caption}.", shown, "token", "head"))


def judge(got: Tensor, sizes: Sizes, *, scrambled: str) -> Verdict | None:
    """Return what is wrong with where the numbers are; None if nothing is.

    Parameters
    ----------
    got : Tensor of int, shape (N, H, L, d)
        The name of the number at every place.
    sizes : Sizes
        Of the trial.
    scrambled : str
        Name of the finding if the tokens are cut to pieces.

    Returns
    -------
    Verdict or None
        The worst.
    """
    n, token, head, j = _unravel(got, sizes)
    places = _unravel(sizes.codes().transpose(1, 2), sizes)
    if torch.equal(got, sizes.codes().transpose(1, 2)):
        return None
    if not torch.equal(n, places[0]):
        return _batch(n, places[0])
    if not torch.equal(token, places[1]):
        whole = bool((token == token[:1, :1, :, :1]).all())
        return _tokens(token, places[1], "position-mixing" if whole else scrambled)
    feature = head * sizes.d + j
    fixed = bool((feature == feature[:1, :, :1]).all())
    return _features(feature, fixed)


def _unravel(names: Tensor, sizes: Sizes) -> tuple[Tensor, ...]:
    """Return sequence, token, head and place in the head of every name."""
    token = names // sizes.width
    feature = names % sizes.width
    n, token = token // sizes.length, token % sizes.length
    return n, token, feature // sizes.d, feature % sizes.d


def _groups(shape: torch.Size, sizes: list[int]) -> bool:
    """Return whether a shape comes from joining neighbours among these sizes."""
    left = list(sizes)
    for size in shape:
        product = 1
        while left and product < size:
            product *= left.pop(0)
        if product != size:
            return False
    return all(size == 1 for size in left)


def _batch(n: Tensor, right: Tensor) -> Verdict:
    wrong = (n != right).nonzero()[0].tolist()
    share = (n != right).double().mean().item()
    words = (
        f"mixes the sequences of the batch: {share:.0%} of the numbers are not from the sequence "
        f"where they belong, e.g. head {wrong[1]} of sequence {wrong[0]} holds numbers of "
        f"sequence {n[tuple(wrong)].item()}"
    )
    shown = n[:, :, wrong[2], wrong[3]]
    caption = f"The sequence that token {wrong[2]} came from. Right: every row its own number"
    return Verdict("batch-mixing", words, table(f"{caption}.", shown, "sequence", "head"))


def _tokens(token: Tensor, right: Tensor, name: str) -> Verdict:
    wrong = (token != right).nonzero()[0].tolist()
    at = f"token {wrong[2]} of head {wrong[1]} holds numbers of token {token[tuple(wrong)].item()}"
    if name == "position-mixing":
        words = f"moves the tokens to other places: {at}"
    else:
        share = (token != right).double().mean().item()
        words = f"mixes the tokens: {share:.0%} of the numbers are at another token, e.g. {at}"
    shown = token[wrong[0], :, :, wrong[3]].T
    caption = f"The token that number {wrong[3]} of each head came from. Right: row i holds i"
    return Verdict(name, words, table(f"{caption}.", shown, "token", "head"))


def _features(feature: Tensor, fixed: bool) -> Verdict:
    heads, d = feature.shape[1], feature.shape[3]
    first = feature[0, :, 0]
    right = torch.arange(heads * d).view(heads, d)
    if not fixed:
        where = (feature != right[None, :, None]).nonzero()[0].tolist()
        first = feature[where[0], :, where[2]]
        words = (
            f"mixes the heads differently from token to token: in token {where[2]} head "
            f"{where[1]} holds feature {feature[tuple(where)].item()} at place {where[3]}"
        )
        evidence = table(f"Features of token {where[2]} in each head.", first, "head", "place")
        return Verdict("head-mixing", words, evidence)
    if torch.equal(first, right.view(-1).view(d, heads).T):
        how = "deals the features out to the heads like cards"
    elif torch.equal(first.flatten(), right.T.flatten()):
        how = "takes one feature of every head in turn"
    elif torch.equal(first, right.flip(0)):
        how = "puts the heads in the opposite order"
    elif torch.equal(first.sort(dim=-1).values, right):
        how = "changes the order of the features inside the heads"
    else:
        how = "gives the heads other features"
    bad = (first != right).any(-1).nonzero()[0].item()
    held = ", ".join(map(str, first[bad].tolist()[:MOST_SHOWN]))
    words = f"{how}: head {bad} holds features {held} and not {bad * d} to {(bad + 1) * d - 1}"
    evidence = table("The features that each head holds.", first, "head", "place")
    return Verdict("heads-order", words, evidence)


def _listed(tokens: list[int]) -> str:
    if len(tokens) == 1:
        return f"token {tokens[0]}"
    return f"tokens {', '.join(map(str, tokens[:-1]))} and {tokens[-1]}"
