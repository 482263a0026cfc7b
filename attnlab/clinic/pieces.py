"""Pieces of attention: a split and a merge of heads, alone or as a pair, and a softmax."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnlab._bounded import Caller, name_of
from attnlab.clinic._results import Options, Results
from attnlab.clinic.behaviour import close
from attnlab.clinic.hypotheses import SOFTMAXES, Way, span, weights_table
from attnlab.clinic.names import arguments, role_of

N, H, L, D = 2, 3, 5, 4


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


VIEW = "split-without-transpose"
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
VIEWED = "merge-without-transpose"
MERGES = (  # of heads (N, H, L, d)
    Way(None, "", lambda z: z.transpose(1, 2).flatten(2)),
    Way(
        VIEWED,
        "The heads are joined by a bare view, without a transpose: an output row holds "
        "several positions of one head.",
        lambda z: z.reshape(len(z), z.shape[2], -1),
    ),
    Way(
        VIEWED,
        "The features of the heads are joined in turn, not one head after the other.",
        lambda z: z.permute(0, 2, 3, 1).flatten(2),
    ),
    Way(
        VIEWED,
        "Heads and features are joined in a wrong order of dimensions.",
        lambda z: z.transpose(2, 3).reshape(len(z), z.shape[2], -1),
    ),
)


def _given(target: Callable, options: Options, *parts: object) -> Callable:
    """Return a call of a piece with a tensor, and with sizes by the roles of its arguments."""
    caller = Caller(target, options.time_limit)
    heads = options.num_heads or H
    known = {"heads": heads, "width": D, "size": L}
    needed = [one for one in arguments(target) or [] if one.required][1:]

    def ask(x: Tensor) -> object:
        return caller(x, *[known.get(role_of(one.name), heads) for one in needed])

    return ask


def examine_split(target: Callable, options: Options, results: Results) -> None:
    """Compare a head split with the ways to cut."""
    heads = options.num_heads or H
    x = torch.arange(float(N * L * heads * D)).view(N, L, heads * D)
    if options.embed_dim:
        x = torch.arange(float(N * L * options.embed_dim)).view(N, L, -1)
    _compare(
        target,
        x,
        _given(target, options),
        [(way, way.compute(x, heads)) for way in SPLITS if x.shape[-1] % heads == 0],
        results,
    )


def examine_merge(target: Callable, options: Options, results: Results) -> None:
    """Compare a head merge with the ways to join."""
    heads = options.num_heads or H
    x = torch.arange(float(N * L * heads * D)).view(N, heads, L, D)
    _compare(target, x, _given(target, options), [(way, way.compute(x)) for way in MERGES], results)


def examine_pair(pair: tuple[Callable, Callable], options: Options, results: Results) -> None:
    """Examine a split and the merge that belongs to it."""
    examine_split(pair[0], options, results)
    examine_merge(pair[1], options, results)


def _compare(
    target: Callable, x: Tensor, ask: Callable, ways: list[tuple[Way, Tensor]], results: Results
) -> None:
    outcome, name = ask(x.clone()), name_of(target)
    call = f"{name}(x: {tuple(x.shape)})"
    if not isinstance(outcome.value, Tensor):
        results.unexamined(
            f"{call} raises {outcome.trouble}." if outcome.error else f"{call} returns no tensor.",
            remedy="Pass num_heads= and embed_dim= if it knows its own sizes.",
        )
        return
    given = outcome.value.detach()
    way = next((way for way, made in ways if close(given, made, 1e-9)), None)
    if way is None:
        right = tuple(ways[0][1].shape)
        sentence = f"{call} returns {tuple(given.shape)}, with numbers in other places than they "
        results.found("wrong-shape", sentence + f"have in the usual {right}.")
    elif way.cause is not None:
        results.found(way.cause, f"{name}: {way.words}")
    else:
        results.held("pieces", f"{name} puts every number where it belongs")
    again = ask(x.clone())
    if not isinstance(again.value, Tensor) or not close(again.value, given, 1e-9):
        results.found("random", f"Two calls of {name} with the same input give different results.")


def examine_softmax(target: Callable, options: Options, results: Results) -> None:
    """Compare a softmax with the ways that the family knows."""
    ask = Caller(target, options.time_limit)
    more = [-1 for one in (arguments(target) or [])[1:] if one.required]
    x = 2 * torch.randn(N, H, L, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    outcome = ask(x.clone(), *more)
    if not isinstance(outcome.value, Tensor) or outcome.value.shape != x.shape:
        results.ask(
            "raises",
            f"It gives no weights for scores {tuple(x.shape)}: "
            f"{outcome.trouble or 'another shape'}.",
        )
        return
    if ask.changed:
        results.found("modifies-input", "It changes the scores that it is given, in place.")
    leaf = x.clone().requires_grad_()
    with torch.enable_grad():
        made = ask(leaf * 1.0, *more).value
    if isinstance(made, Tensor) and not made.requires_grad:
        results.found("detached", "No gradient reaches the scores: nothing can be learned.")
    weights = outcome.value.detach().double()
    way = next(
        (
            way
            for way in SOFTMAXES
            if (made := way.compute(x, 1.0)) is not None and close(weights, made, 1e-6)
        ),
        None,
    )
    if way is None:
        results.found(
            "not-normalised",
            f"It is no softmax: the weights of a query sum to {span(weights.sum(-1))}.",
            weights_table("Weights:", weights, sums=True),
        )
        return
    if way.cause is not None:
        told = {"sums": span(weights.sum(dim=-1))}
        results.found(
            way.cause, way.words.format(**told), weights_table("Weights:", weights, sums=True)
        )
        return
    results.held("sums", "the weights of every query sum to 1")
    large = ask(500 * x, *more).value
    if isinstance(large, Tensor) and not large.isfinite().all():
        results.found(
            "nan",
            "Large scores give NaN or infinity.",
            advice="subtract each row's own maximum: amax(dim=-1, keepdim=True).",
        )
    apart = ask(x + torch.tensor([0.0, 900.0, -900.0])[:, None, None], *more).value
    if isinstance(apart, Tensor) and not close(apart, weights, 1e-6) and not results.findings:
        results.found(
            "nan",
            "A row whose scores lie far from those of the others gets no weights.",
            advice="subtract each row's own maximum: amax(dim=-1, keepdim=True).",
        )
