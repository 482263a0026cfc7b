"""Checks for the exercises of lesson 6: trainable projections."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnlab.exercises._answers import (
    Answer,
    Right,
    Wrong,
    article,
    judge,
    number,
    table,
)
from attnlab.exercises._verdict import Verdict

D_IN, D_K, D_V = 12, 7, 5
COUNT = D_IN * (D_K + D_K + D_V) + D_K + D_K + D_V
# What a number says about the way it was counted.
COUNTED = {
    COUNT - D_K - D_K - D_V: "The three matrices are right. Each output has a bias as well.",
    D_IN * (D_K + D_V) + D_K + D_V: "Queries and keys have a projection each.",
    D_IN * (D_K + D_V): "Queries and keys have a projection each, and each output a bias.",
    3 * (D_IN * D_K + D_K): "The value has 5 numbers, not 7.",
    3 * D_IN * D_K: "The value has 5 numbers, not 7, and each output has a bias.",
    COUNT * 9: "The words share the matrices: 9 words need no more than one.",
    D_IN * (D_K + D_K + D_V) + 3 * D_IN: "A bias belongs to each output, not to each input.",
    D_IN * (D_K + D_K + D_V)
    + 3: "A projection has a bias for each of its outputs, not one for all.",
}


def check_parameter_count(answer: object) -> Verdict:
    """Check how many parameters three projections 12 -> 7, 7 and 5 with bias have.

    Verified: the number.

    Parameters
    ----------
    answer : callable or int
        A function without arguments that returns the number, or the number.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.nn.Module.parameters : to count with.
    """
    return judge(answer, _parameter_count)


def check_linear_from(answer: object) -> Verdict:
    """Check a function that makes an ``nn.Linear`` of a matrix (d_in, d_out).

    Verified: type, sizes, no bias, the numbers for an oblong and for a square matrix, that it can
    be trained, and that training it leaves the given matrix alone.

    Parameters
    ----------
    answer : callable
        A function of a matrix (d_in, d_out) that returns the layer.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.nn.Linear : stores its weight as (d_out, d_in).
    """
    return judge(answer, _linear_from)


def check_other_pair(answer: object) -> Verdict:
    """Check two other matrices that give the same scores.

    Verified: shapes, that both differ from what was given, and the scores, for two pairs.

    Parameters
    ----------
    answer : callable
        A function of (W_query, W_key), both (d_in, d_k), that returns two others.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.attention_scores : they depend on the product only.
    """
    return judge(answer, _other_pair)


def check_layer_test(answer: object) -> Verdict:
    """Check a test that tells a working self-attention from five broken ones.

    Verified: True for two working layers, False for five in which two tokens get the same output
    or no token hears another. Not verified: layers that mix tokens in another way than attention
    does, such as a mean of all values; two such comparisons cannot catch them.

    Parameters
    ----------
    answer : callable
        A function of a layer, which maps (N, L, 8) to (N, L, 4), that returns a bool.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.clinic.diagnose : such tests, and many more.
    """
    return judge(answer, _layer_test)


# --- counting -------------------------------------------------------------------------------------


def _parameter_count(answer: Answer) -> Right:
    said = answer.value(number)
    if said == COUNT:
        return Right("The number holds for a sentence of any length.")
    hint = COUNTED.get(int(said)) if said == int(said) else None
    hint = hint or "Count each projection: inputs times outputs, then one bias per output."
    raise Wrong(f"{said:g} is not the number. {hint}")


# --- a linear layer of a matrix -------------------------------------------------------------------


def _linear_from(answer: Answer) -> Right:
    for d_in, d_out in ((5, 3), (4, 4)):
        generator = torch.Generator().manual_seed(0)
        matrix = torch.randn(d_in, d_out, generator=generator)
        x = torch.randn(2, 6, d_in, generator=generator)
        kept, case = matrix.clone(), f"a matrix ({d_in}, {d_out})"
        layer = answer.ask(matrix, read=_linear, case=case)
        _check_sizes(layer, d_in, d_out, case)
        _check_products(layer, x, kept, case)
        if not layer.weight.requires_grad:
            raise Wrong("The weight cannot be trained: its requires_grad is False.")
        with torch.no_grad():
            layer.weight.zero_()
        if not torch.equal(matrix, kept):
            raise Wrong(
                "The layer shares its memory with the matrix: training it changes the matrix. "
                "Copy the numbers."
            )
    return Right("The layer gives x @ matrix, for a square matrix too; it trains a copy.")


def _linear(value: object) -> nn.Linear:
    if isinstance(value, nn.Linear):
        return value
    kind = article(type(value).__name__)
    raise Wrong(f"It gives {kind}, and an nn.Linear is asked for.")


def _check_sizes(layer: nn.Linear, d_in: int, d_out: int, case: str) -> None:
    if layer.bias is not None:
        raise Wrong("The layer has a bias, and a matrix has none: bias=False.")
    got, right = tuple(layer.weight.shape), (d_out, d_in)
    if got != right:
        raise Wrong(
            f"For {case} the weight must be {right}, got {got}: nn.Linear stores one row per "
            "output."
        )


def _check_products(layer: nn.Linear, x: Tensor, matrix: Tensor, case: str) -> None:
    with torch.no_grad():
        output, right = layer(x), x @ matrix
    if torch.allclose(output, right, atol=1e-5):
        return
    if layer.weight.shape == matrix.shape and torch.allclose(layer.weight, matrix):
        why = "The transposed matrix is missing. A square one raises no error."
    else:
        why = "Its weight does not hold the numbers of the matrix."
    rows = {"yours": output[0, 0].tolist(), "x @ matrix": right[0, 0].tolist()}
    columns = [f"number {i}" for i in range(matrix.shape[1])]
    raise Wrong(f"For {case} the output is wrong. {why}", table("One token:", rows, columns))


# --- another pair with the same scores ------------------------------------------------------------


def _other_pair(answer: Answer) -> Right:
    for d_in, d_k in ((8, 4), (13, 6)):
        generator = torch.Generator().manual_seed(0)
        given = [torch.randn(d_in, d_k, generator=generator) for _ in range(2)]
        case = f"two matrices ({d_in}, {d_k})"
        copies = [one.clone() for one in given]
        found = answer.ask(*copies, read=_two_matrices, case=case)
        for name, one, old in zip(("W_query", "W_key"), found, given, strict=True):
            if one.shape != old.shape:
                shapes = f"must be {tuple(old.shape)}, got {tuple(one.shape)}"
                raise Wrong(f"For {case} the new {name} {shapes}.")
            if (one - old).abs().max() < 1e-3:
                raise Wrong(f"{name} has not changed. Change both, and keep the scores.")
        _compare_scores(given, found, generator)
    return Right("Both matrices are new, and the scores of random tokens stay as they were.")


def _two_matrices(value: object) -> tuple[Tensor, Tensor]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Wrong("It must return two matrices: the new W_query and the new W_key.")
    if not all(isinstance(one, Tensor) and one.is_floating_point() for one in value):
        raise Wrong("It must return two matrices of floats, as tensors.")
    if not all(one.isfinite().all() for one in value):
        raise Wrong("The matrices hold NaN or infinity.")
    query, key = (one.detach().float().clone() for one in value)
    return query, key


def _compare_scores(
    given: list[Tensor], found: tuple[Tensor, Tensor], generator: torch.Generator
) -> None:
    x = torch.randn(3, given[0].shape[0], generator=generator)
    before, after = ((x @ query) @ (x @ key).T for query, key in (given, found))
    scale = before.abs().max()
    if (before - after).abs().max() < 1e-3 * scale:
        return
    if (before.T - after).abs().max() < 1e-3 * scale:
        why = "They are the old ones, transposed: who asks and who is asked changed places."
    elif (before + after).abs().max() < 1e-3 * scale:
        why = "All signs are turned. Turn those of both matrices."
    else:
        why = "What one matrix gains, the other must lose: only W_query @ W_key.T counts."
    rows = {"before": before[0].tolist(), "with yours": after[0].tolist()}
    evidence = table("Scores of token 0:", rows, [f"token {i}" for i in range(3)])
    raise Wrong(f"The scores change. {why}", evidence)


# --- a test for layers ----------------------------------------------------------------------------


class _Layer(nn.Module):
    """Self-attention (..., L, 8) -> (..., L, 4); broken if asked for."""

    def __init__(self, fault: str = "", seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.fault = fault
        matrices = [torch.randn(8, 4, generator=generator) / 8**0.5 for _ in range(3)]
        self.W_query, self.W_key, self.W_value = map(nn.Parameter, matrices)
        zeroed = {"zero": (0, 1, 2), "no value": (2,), "even": (0, 1)}.get(fault, ())
        with torch.no_grad():
            for index in zeroed:
                list(self.parameters())[index].zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        query, key, value = x @ self.W_query, x @ self.W_key, x @ self.W_value
        if self.fault == "alone":
            return value
        if self.fault == "alone and curved":
            return (value + 1).relu()
        scores = query @ key.transpose(-2, -1) / 2
        return scores.softmax(dim=-1) @ value


BROKEN: dict[str, str] = {
    "zero": "all three matrices are zero, so every output is 0",
    "no value": "W_value is zero, so every output is 0",
    "even": "W_query and W_key are zero: every token gets the same average",
    "alone": "each token gets its own value and sees no other",
    "alone and curved": "each token passes a small network of its own and sees no other",
}


def _layer_test(answer: Answer) -> Right:
    verdicts = {fault: answer.ask(_Layer(fault), read=_said) for fault in BROKEN}
    working = [answer.ask(_Layer(seed=seed), read=_said) for seed in (0, 1)]
    if not all(working):
        raise Wrong(
            "It says False for a working layer. Threshold too strict, or tokens so large that "
            "softmax picks one key?"
        )
    for fault, passed in verdicts.items():
        if passed:
            raise Wrong(f"It says True for a layer in which {BROKEN[fault]}.")
    return Right("It says True for two working layers and False for five broken ones.")


def _said(value: object) -> bool:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise Wrong(f"It must say True or False, and it gives {article(type(value).__name__)}.")
