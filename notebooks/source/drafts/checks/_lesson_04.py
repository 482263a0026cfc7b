"""Checks for the exercises of lesson 4: reading heatmaps."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.exercises._answers import (
    Answer,
    NotDone,
    Right,
    Wrong,
    article,
    judge,
    table,
    vector,
)
from attnlab.exercises._attention_answers import calls_softmax
from attnlab.exercises._verdict import Verdict

KEYS = ("a", "b", "a", "a")
LONELY = (0.17487769, 0.4753668, 0.17487769, 0.17487769)  # 1 and e, divided by e + 3
FACTOR = math.sqrt(math.log(198))  # e^(c c) / (e^(c c) + 2) = 0.99
SIZES = ((4, 4), (5, 7), (7, 5))  # queries and keys; equal sizes hide a mistake
BATCHES = ((), (2,), (2, 3))
E = 4


def check_lonely_weights(answer: object) -> Verdict:
    """Check the weights that token b gives to the keys a, b, a, a.

    Verified: four numbers, up to 0.006, found without a softmax.

    Parameters
    ----------
    answer : callable or sequence of float
        A function without arguments that returns four weights, or the weights.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    check_sharp_factor : the next exercise.
    """
    return judge(answer, _lonely_weights)


def check_sharp_factor(answer: object) -> Verdict:
    """Check the smallest factor of the features that gives one token 0.99 of its own weight.

    Verified: the number, within 0.05.

    Parameters
    ----------
    answer : callable or float
        A function without arguments that returns the number, or the number.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    check_lonely_weights : the exercise before.
    """
    return judge(answer, _sharp_factor)


def check_recovered_weights(answer: object) -> Verdict:
    """Check a function that gets the weights out of an attention function without seeing inside.

    Verified: three attention functions (plain, causal, another scale), as many keys as queries,
    more and fewer, one sentence, a batch and heads.

    Parameters
    ----------
    answer : callable
        A function of (attention, query, key) that returns the weights.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.trace_attention : returns weights by itself.
    """
    return judge(answer, _recovered_weights)


def check_sequence_first(answer: object) -> Verdict:
    """Check a call of a layer that expects (L, N, E) with a batch of shape (N, L, E).

    Verified: output and weights, for two sentences of five words and for three of three.

    Parameters
    ----------
    answer : callable
        A function of (layer, x) that returns output and weights.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.nn.MultiheadAttention : has the argument ``batch_first``.
    """
    return judge(answer, _sequence_first)


# --- one odd token among four ---------------------------------------------------------------------


def _lonely_weights(answer: Answer) -> Right:
    weights = answer.value(vector)
    if weights.shape != (4,):
        raise Wrong(
            f"One weight per key, shape (4,); yours has {tuple(weights.shape)}."
        )
    if not weights.isfinite().all():
        raise Wrong("Weights are ordinary numbers; yours hold NaN or infinity.")
    right = torch.tensor(LONELY, dtype=torch.float64)
    if (weights - right).abs().max() < 0.006:
        if calls_softmax(answer):
            raise Wrong(
                "The numbers are right, but softmax made them. Find them without it."
            )
        return Right(
            "Token b keeps less than half: three scores of 0 count three times."
        )
    rows = {"raw score of b": [0, 2, 0, 0], "your weight": weights.tolist()}
    raise Wrong(_why_lonely(weights), table("Query b, keys a, b, a, a:", rows, KEYS))


def _why_lonely(weights: Tensor) -> str:
    """Name the misconception behind four wrong weights."""

    def near(*numbers: float) -> bool:
        return bool(torch.allclose(weights, weights.new_tensor(numbers), atol=0.006))

    unscaled, copies, total = math.e**2 + 3, 3 * math.e + 1, float(weights.sum())
    if near(0, 1, 0, 0):
        return (
            "These are the scores. A score of 0 is not a weight of 0: e to the 0 is 1."
        )
    if near(0, 2, 0, 0):
        return (
            "These are the raw scores. Divide, raise e to each, then divide by the sum."
        )
    if near(1, math.e, 1, 1):
        return "These are e to each score. Now divide by their sum: weights sum to 1."
    if near(1 / unscaled, math.e**2 / unscaled, 1 / unscaled, 1 / unscaled):
        return "These come from the raw scores. Divide by the root of 4 features first."
    if near(math.e / copies, 1 / copies, math.e / copies, math.e / copies):
        return "This is the row of a token a. The question is about the query b."
    if near(0.212, 0.576, 0.212, 0.212):
        return "These are the weights of the three tokens in the text. One more a shares here."
    if abs(total - 1) > 0.02:
        return f"Weights sum to 1, yours to {total:.3f}."
    if near(0.25, 0.25, 0.25, 0.25):
        return "A uniform row: but b scores 1 with itself and 0 with each a."
    return (
        "The weights differ. Take e to the score of each key, then divide by the sum."
    )


# --- a factor for the features --------------------------------------------------------------------


def _self_weight(factor: float) -> float:
    score = torch.tensor([0.0, factor * factor, 0.0], dtype=torch.float64)
    return score.softmax(dim=-1)[1].item()


def _sharp_factor(answer: Answer) -> Right:
    said = vector(answer.value(vector))
    if said.numel() != 1:
        raise Wrong(
            f"One number is asked for, and it gives the shape {tuple(said.shape)}."
        )
    factor = said.item()
    if not math.isfinite(factor) or factor <= 0:
        raise Wrong(f"A positive factor is asked for, and it gives {factor:g}.")
    share = _self_weight(factor)
    if abs(factor - FACTOR) <= 0.05:
        return Right(f"With {factor:.2f} token b gives itself {share:.3f}.")
    told = f"With {factor:.3g} token b gives itself {share:.3f}"
    if abs(factor - FACTOR**2) < 0.1:
        raise Wrong(
            f"{told}. By this the score must grow. Query and key both grow with the features, "
            "so the score grows by the square of the factor."
        )
    if abs(factor - FACTOR / math.sqrt(2)) < 0.02:
        raise Wrong(
            f"{told}: too little. Divide the product by the root of 4 features."
        )
    if factor < FACTOR:
        raise Wrong(f"{told}: too little.")
    raise Wrong(f"{told}. That is enough, but a smaller factor reaches 0.99 as well.")


# --- weights of a function that hides them --------------------------------------------------------


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def _soft(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, scale=0.1)


HIDDEN: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "plain attention": F.scaled_dot_product_attention,
    "causal attention": _causal,
    "attention with the scale 0.1": _soft,
}


def _recovered_weights(answer: Answer) -> Right:
    generator = torch.Generator().manual_seed(0)
    for batch in BATCHES:
        for L, S in SIZES:
            query = torch.randn(*batch, L, E, generator=generator)
            key = torch.randn(*batch, S, E, generator=generator)
            for name, attention in HIDDEN.items():
                _compare_recovered(answer, name, attention, query, key)
    return Right(
        "The weights hold for plain, causal and differently scaled attention, in a batch and with "
        "heads, whatever the number of keys."
    )


def _compare_recovered(
    answer: Answer,
    name: str,
    attention: Callable[[Tensor, Tensor, Tensor], Tensor],
    query: Tensor,
    key: Tensor,
) -> None:
    """Raise Wrong unless the answer finds the weights of one attention function."""
    L, S = query.shape[-2], key.shape[-2]
    identity = torch.eye(S).expand(*key.shape[:-2], S, S)
    right = attention(query, key, identity)
    case = f"{name}, query {tuple(query.shape)} and key {tuple(key.shape)}"
    try:
        got = answer.ask(attention, query.clone(), key.clone(), read=_tensor, case=case)
    except Wrong as wrong:
        if not wrong.by_error:
            raise
        raise Wrong(
            f"{wrong.message} The value needs one row per key, {S} here, and the leading "
            "dimensions of the key."
        ) from None
    if got.shape != right.shape:
        raise Wrong(
            f"With {case} the weights must be {tuple(right.shape)}, got {tuple(got.shape)}. "
            f"One column per key: an identity of {S}, not of {L} or {E}."
        )
    if torch.allclose(got.to(right), right, atol=1e-5):
        return
    first = (0,) * (right.ndim - 2)
    rows = {"yours": got[first][0, :4].tolist(), "right": right[first][0, :4].tolist()}
    evidence = table(
        "Query 0, the first four keys:", rows, [f"key {j}" for j in range(4)]
    )
    plain = F.scaled_dot_product_attention(query, key, identity)
    if torch.allclose(got.to(right), plain, atol=1e-5):
        raise Wrong(
            f"With {case} it gives the weights of plain attention. Ask the given function; "
            "it may mask and scale.",
            evidence,
        )
    raise Wrong(f"With {case} these are not the weights.", evidence)


def _tensor(value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise Wrong(f"It returns {article(type(value).__name__)} instead of a tensor.")
    return value.detach()


# --- a layer that reads words first ---------------------------------------------------------------


def _sequence_first(answer: Answer) -> Right:
    torch.manual_seed(0)
    for N, L in ((2, 5), (3, 3)):
        layer = nn.MultiheadAttention(8, 2).eval()
        twin = nn.MultiheadAttention(8, 2, batch_first=True).eval()
        twin.load_state_dict(layer.state_dict())
        x = torch.randn(N, L, 8)
        _compare_call(answer, layer, twin, x)
        if layer.batch_first:
            raise Wrong(
                "It switches the layer to batch_first. Turn the data, not the layer."
            )
    return Right(
        "No sentence moves another, and output and weights are those of a batch."
    )


def _compare_call(
    answer: Answer, layer: nn.MultiheadAttention, twin: nn.MultiheadAttention, x: Tensor
) -> None:
    """Raise Wrong unless the answer gives what the same layer gives with the batch first."""
    N, L, _ = x.shape
    case = f"{N} sentences of {L} words, x {tuple(x.shape)},"
    output, weights = (part.detach() for part in twin(x, x, x))
    got, got_weights = answer.ask(layer, x.clone(), read=_pair, case=case)
    if got.shape != output.shape:
        turned = (
            " Turn the output back."
            if got.shape == output.transpose(0, 1).shape
            else ""
        )
        raise Wrong(
            f"With {case} the output must be {tuple(output.shape)}, got {tuple(got.shape)}.{turned}"
        )
    if not torch.allclose(got, output, atol=1e-5):
        raise Wrong(_why_mixed(layer, x, got))
    if got_weights.shape != weights.shape:
        raise Wrong(
            f"The output is right. The weights must be {tuple(weights.shape)}, "
            f"got {tuple(got_weights.shape)}: the layer returns them with the batch in front, "
            "and as their mean over heads."
        )
    if not torch.allclose(got_weights, weights, atol=1e-5):
        raise Wrong(
            "The output is right, the weights are not. Return them as they come."
        )


def _why_mixed(layer: nn.MultiheadAttention, x: Tensor, got: Tensor) -> str:
    """Name the bug behind a wrong output of the right shape."""
    N, L, features = x.shape
    as_is = layer(x, x, x)[0].detach()
    turned = x.transpose(0, 1)
    unturned = layer(turned, turned, turned)[0].detach()
    cut = x.reshape(L, N, features)
    dealt = layer(cut, cut, cut)[0].detach()
    case = f"With {N} sentences of {L} words"
    if torch.allclose(got, as_is, atol=1e-5):
        return (
            f"{case} word t of one sentence still looks at word t of the others: the layer reads "
            "(L, N, E). Change sentence 0, and sentence 1 moves."
        )
    if torch.allclose(got, unturned.reshape(N, L, features), atol=1e-5):
        return f"{case} the output is cut, not turned back: use transpose, not reshape."
    if torch.allclose(got, dealt.reshape(N, L, features), atol=1e-5):
        return f"{case} reshape deals the words out in another order: use transpose."
    return f"{case} the output has the right shape and wrong numbers."


def _pair(value: object) -> tuple[Tensor, Tensor]:
    if (
        isinstance(value, Tensor)
        or not isinstance(value, tuple | list)
        or len(value) != 2
    ):
        raise Wrong("Return two things: output and weights.")
    if any(part is None for part in value):
        raise (
            NotDone
            if all(part is None for part in value)
            else Wrong("One of the two is None.")
        )
    return _tensor(value[0]), _tensor(value[1])
