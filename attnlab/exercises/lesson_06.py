"""The checks of lesson 6: trainable projections."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from attnlab.exercises._answers import (
    Answer,
    Right,
    Wrong,
    article,
    first_difference,
    table,
)
from attnlab.exercises._forms import Case, Check, Opinion, Value, randoms

# --- counting -------------------------------------------------------------------------------------

D_IN, D_K, D_V = 12, 7, 5
OUTPUTS = D_K + D_K + D_V
MATRICES = D_IN * OUTPUTS
COUNT = MATRICES + OUTPUTS


@Value(
    see="torch.nn.Module.parameters : to count with.",
    right=COUNT,
    slips={
        "The three matrices are correct. Each output has a bias as well.": MATRICES,
        "Queries and keys have a projection each.": (D_IN + 1) * (D_K + D_V),
        "Queries and keys have a projection each, and each output a bias.": D_IN * (D_K + D_V),
        "The value has 5 numbers, not 7.": 3 * (D_IN + 1) * D_K,
        "The value has 5 numbers, not 7, and each output has a bias.": 3 * D_IN * D_K,
        "The words share the matrices: 9 words need no more than one.": 9 * COUNT,
        "A bias belongs to each output, not to each input.": MATRICES + 3 * D_IN,
        "A projection has a bias for each of its outputs, not one for all.": MATRICES + 3,
    },
    verified="The number is the same for a sentence of any length.",
    otherwise="Count each projection: inputs times outputs, then one bias per output.",
)
def check_parameter_count(count: float) -> str:
    """Check how many parameters three projections 12 -> 7, 7 and 5 with bias have.

    Verified: the number.
    """
    return "" if count == COUNT else f"{count:g} is not the number."


# --- a linear layer made of a matrix --------------------------------------------------------------


@Check(
    answer="A function of a matrix (d_in, d_out) that returns the layer.",
    see="torch.nn.Linear : stores its weight as (d_out, d_in).",
)
def check_linear_from(answer: Answer) -> Right:
    """Check a function that makes an ``nn.Linear`` of a matrix (d_in, d_out).

    Verified: type, sizes, no bias, the numbers for an oblong and for a square matrix, that it can
    be trained, and that training it leaves the given matrix alone.
    """
    for sizes in ((5, 3), (4, 4)):
        case = f"a matrix {sizes}"
        (matrix,), (kept,) = randoms(sizes), randoms(sizes)
        layer = answer.ask(matrix, read=linear, case=case)
        see_weight(layer, kept, case)
        if not layer.weight.requires_grad:
            raise Wrong("The weight cannot be trained: its requires_grad is False.")
        with torch.no_grad():
            layer.weight.zero_()
        if not torch.equal(matrix, kept):
            raise Wrong(
                "The layer shares its memory with the matrix, so training it changes the matrix. "
                "Copy the numbers."
            )
    return Right("The layer returns x @ matrix, even for a square matrix, and it trains a copy.")


def linear(value: object) -> nn.Linear:
    """Read a linear layer."""
    if isinstance(value, nn.Linear):
        return value
    raise Wrong(f"It gives {article(type(value).__name__)}, and an nn.Linear is asked for.")


def see_weight(layer: nn.Linear, matrix: Tensor, case: str) -> None:
    """Raise Wrong unless the layer gives x @ matrix."""
    if layer.bias is not None:
        raise Wrong("The layer has a bias, and a matrix has none: bias=False.")
    got, right = tuple(layer.weight.shape), tuple(matrix.T.shape)
    if got != right:
        raise Wrong(
            f"For {case} the weight must be {right}, got {got}: nn.Linear stores one row per "
            "output."
        )
    with torch.no_grad():
        product = layer(torch.eye(len(matrix), dtype=matrix.dtype))  # what the layer multiplies by
    if torch.allclose(product, matrix, atol=1e-5):
        return
    why = "Its weight does not hold the numbers of the matrix."
    if torch.equal(product.T, matrix):
        why = "The weight must hold the transposed matrix. With a square one no error says so."
    evidence = first_difference(product, matrix, ("input", "output"))
    raise Wrong(f"For {case} the layer is wrong. {why}", evidence)


# --- another pair with the same scores ------------------------------------------------------------


@Check(
    answer="A function of (W_query, W_key), both (d_in, d_k), that returns two others.",
    see="attnlab.attention_scores : they depend on the product only.",
    slips={
        "They are the old ones, transposed: queries and keys have changed places.": (
            lambda query, key: (key, query)
        ),
        "All signs are turned. Turn those of both matrices.": (
            lambda query, key: (2 * query, -key / 2)
        ),
    },
)
def check_other_pair(answer: Answer) -> Right:
    """Check two other matrices that give the same scores.

    Verified: shapes, that both differ from what was given, and the scores, for two pairs.
    """
    for sizes in ((8, 4), (13, 6)):
        case = f"two matrices {sizes}"
        *given, x = randoms(sizes, sizes, (3, sizes[0]))
        found = answer.ask(*(one.clone() for one in given), read=two_matrices, case=case)
        for name, new, old in zip(("W_query", "W_key"), found, given, strict=True):
            if new.shape != old.shape:
                raise Wrong(f"For {case} the new {name} must be {sizes}, got {tuple(new.shape)}.")
            if (new - old).abs().max() < 1e-3:
                raise Wrong(f"{name} has not changed. Change both, and keep the scores.")
        see_scores(answer, x, given, found)
    return Right("Both matrices are new, and the scores of random tokens stay as they were.")


def two_matrices(value: object) -> tuple[Tensor, Tensor]:
    """Read two matrices."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Wrong("It must return two matrices: the new W_query and the new W_key.")
    if not all(isinstance(one, Tensor) and one.is_floating_point() for one in value):
        raise Wrong("It must return two matrices of floats, as tensors.")
    if not all(one.isfinite().all() for one in value):
        raise Wrong("The matrices hold NaN or infinity.")
    query, key = (one.detach().float().clone() for one in value)
    return query, key


def see_scores(
    answer: Answer, x: Tensor, given: list[Tensor], found: tuple[Tensor, Tensor]
) -> None:
    """Raise Wrong unless two pairs of matrices give tokens the same scores."""

    def scores(pair: tuple[Tensor, Tensor]) -> Tensor:
        query, key = pair
        return (x @ query) @ (x @ key).T

    before, after = scores(given), scores(found)

    def same(expected: Tensor) -> bool:
        return bool((after - expected).abs().max() < 1e-3 * before.abs().max())

    if same(before):
        return
    why = answer.slip(lambda slip: same(scores(slip(*given)))) or (
        "What one matrix gains, the other must lose: only W_query @ W_key.T counts. A matrix R for "
        "both is multiplied on the right, W @ R, and R @ R.T must be the identity. With "
        "W_query @ A, the other is W_key times the transpose of the inverse of A."
    )
    rows = {"before": before[0], "with yours": after[0]}
    evidence = table("Scores of token 0:", rows, [f"token {i}" for i in range(3)])
    raise Wrong(f"The scores change. {why}", evidence)


# --- a test for layers ----------------------------------------------------------------------------


class Layer(nn.Module):
    """Self-attention (..., L, 8) -> (..., L, 4) that keeps a copy of each of its inputs.

    Some of its matrices may be zero, and ``alone`` replaces attention by a function of the values.
    """

    def __init__(
        self, *zero: str, seed: int = 0, alone: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        super().__init__()
        matrices = randoms(*3 * [(8, 4)], seed=seed)
        for name, matrix in zip(("W_query", "W_key", "W_value"), matrices, strict=True):
            setattr(self, name, nn.Parameter(matrix / 8**0.5 * (name not in zero)))
        self.alone, self.inputs = alone, []

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        self.inputs.append(x.detach().clone())
        query, key, value = x @ self.W_query, x @ self.W_key, x @ self.W_value
        if self.alone:
            return self.alone(value)
        return (query @ key.transpose(-2, -1) / 2).softmax(dim=-1) @ value

    def why_not(self) -> str:
        """Say why a test may refuse this layer although it works."""
        first, *others = self.inputs or [None]
        if others and all(torch.equal(first, one) for one in others):
            return (
                "The layer got the same tokens in every call. After `changed = x` both names mean "
                "one tensor; x.clone() makes another."
            )
        return "Is the threshold too strict, or are the tokens so large that softmax picks one key?"


@Opinion(
    answer="A function of a layer, which maps (N, L, 8) to (N, L, 4), that returns a bool.",
    see="attnlab.clinic.diagnose : such tests, and many more.",
    verified="It returns True for two working layers and False for five broken ones.",
)
def check_layer_test() -> Iterator[Case]:
    """Check a test that separates a working self-attention from five broken ones.

    Verified: True for two working layers, False for five in which two tokens get the same output
    or no token receives anything from another. Not verified: layers that mix tokens in another way
    than attention does, such as a mean of all values; two such comparisons cannot catch them.
    """
    for seed, name in enumerate(("a working layer", "another working layer")):
        layer = Layer(seed=seed)
        yield Case(name, (layer,), True, layer.why_not)
    for fault, layer, why in (
        ("all three matrices are zero", Layer("W_query", "W_key", "W_value"), "Every output is 0."),
        ("W_value is zero", Layer("W_value"), "Every output is 0."),
        (
            "W_query and W_key are zero",
            Layer("W_query", "W_key"),
            "Every token gets the same average.",
        ),
        (
            "each token gets its own value",
            Layer(alone=lambda value: value),
            "It sees no other token.",
        ),
        (
            "each token passes through a small network of its own",
            Layer(alone=lambda value: (value + 1).relu()),
            "It sees no other token.",
        ),
    ):
        yield Case(f"a layer in which {fault}", (layer,), False, why)
