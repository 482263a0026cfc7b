"""Pieces of attention: a split and a merge of heads, alone or as a pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attnlab.clinic.names import arguments, role_of
from attnlab.clinic.results import Fact, held, unexamined, wrong
from attnlab.clinic.sample import Way, close
from attnlab.clinic.signature import Options
from attnlab.sandbox import Caller, name_of

N, H, L, D = 2, 3, 5, 4  # the sizes of the pieces


def _heads(x: Tensor, heads: int) -> Tensor:
    """Return (N, H, L, d) of (N, L, H * d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


VIEW, VIEWED = "split-without-transpose", "merge-without-transpose"
SPLITS = (  # of x (N, L, H * d): how heads are cut, each with what it gives
    Way(None, "", _heads),
    Way(None, "", lambda x, heads: _heads(x, heads).flatten(0, 1)),  # heads as sequences
    Way(None, "", lambda x, heads: _heads(x, heads).transpose(0, 1)),  # heads in front
    Way(
        VIEW,
        "The heads are cut by a bare view, without a transpose: a head holds pieces of some "
        "tokens instead of a part of every token.",
        lambda x, heads: x.reshape(len(x), heads, x.shape[1], -1),
    ),
    Way(
        VIEW,
        "The heads are not moved in front of the tokens: it returns (N, L, H, d), and a "
        "product of such tensors compares heads with heads.",
        lambda x, heads: x.unflatten(-1, (heads, -1)),
    ),
    Way(
        VIEW,
        "Every head gets each third feature instead of a block of neighbours.",
        lambda x, heads: x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2),
    ),
)
MERGES = (  # of heads (N, H, L, d)
    Way(None, "", lambda z, heads: z.transpose(1, 2).flatten(2)),
    Way(
        VIEWED,
        "The heads are joined by a bare view, without a transpose: an output row holds "
        "several positions of one head.",
        lambda z, heads: z.reshape(len(z), z.shape[2], -1),
    ),
    Way(
        VIEWED,
        "The features of the heads are joined in turn, not one head after the other.",
        lambda z, heads: z.permute(0, 2, 3, 1).flatten(2),
    ),
    Way(
        VIEWED,
        "Heads and features are joined in a wrong order of dimensions.",
        lambda z, heads: z.transpose(2, 3).reshape(len(z), z.shape[2], -1),
    ),
)


def examine_split(target: Callable, options: Options, seen: object = None) -> Iterator[Fact]:
    """Compare a head split with the ways to cut."""
    heads = options.num_heads or H
    width = options.embed_dim or heads * D
    x = torch.arange(float(N * L * width)).view(N, L, width)
    yield from _compare(target, x, heads, SPLITS if width % heads == 0 else (), options)


def examine_merge(target: Callable, options: Options, seen: object = None) -> Iterator[Fact]:
    """Compare a head merge with the ways to join."""
    heads = options.num_heads or H
    x = torch.arange(float(N * L * heads * D)).view(N, heads, L, D)
    yield from _compare(target, x, heads, MERGES, options)


def examine_pair(
    pair: tuple[Callable, Callable], options: Options, seen: object = None
) -> Iterator[Fact]:
    """Examine a split and the merge that belongs to it."""
    yield from examine_split(pair[0], options)
    yield from examine_merge(pair[1], options)


def _compare(
    target: Callable, x: Tensor, heads: int, ways: tuple[Way, ...], options: Options
) -> Iterator[Fact]:
    """Give a piece x, and sizes by the roles of its other arguments; compare the places."""
    known = {"width": D, "size": L}
    needed = [arg for arg in arguments(target) or [] if arg.required][1:]
    more = [known.get(role_of(arg.name), heads) for arg in needed]
    outcome, name = Caller(target, options.time_limit)(x.clone(), *more), name_of(target)
    call = f"{name}(x: {tuple(x.shape)})"
    if not isinstance(outcome.value, Tensor):
        yield unexamined(
            f"{call} raises {outcome.trouble}." if outcome.error else f"{call} returns no tensor.",
            remedy="Pass num_heads= and embed_dim= if it knows its own sizes.",
        )
        return
    given = outcome.value.detach()
    way = next((way for way in ways if close(given, way.compute(x, heads), 1e-9)), None)
    if way is None:
        right = f"the usual {tuple(ways[0].compute(x, heads).shape)}" if ways else "heads"
        sentence = f"{call} returns {tuple(given.shape)}, with numbers in other places than they "
        yield wrong("wrong-shape", f"{sentence}have in {right}.")
    elif way.cause is not None:
        yield wrong(way.cause, f"{name}: {way.words}")
    else:
        yield held("pieces", f"{name} puts every number where it belongs")
