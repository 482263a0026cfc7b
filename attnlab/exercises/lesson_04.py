"""The checks of lesson 4: reading heatmaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab._checks import shape
from attnlab.exercises._answers import Answer, NotDone, Right, Wrong, number, table, tensor, vector
from attnlab.exercises._forms import Check, Compared, Either, Value, asked, same

# --- one odd token among four ---------------------------------------------------------------------

E1, E2 = math.e, math.e**2
LONELY = (1 / (E1 + 3), E1 / (E1 + 3), 1 / (E1 + 3), 1 / (E1 + 3))


def four_weights(value: object) -> Tensor:
    """Read one weight per key."""
    weights = vector(value)
    if weights.shape in ((1, 4), (4, 1)):
        weights = weights.flatten()
    if weights.shape != (4,):
        raise Wrong(f"One weight per key, shape (4,); yours has {tuple(weights.shape)}.")
    if not weights.isfinite().all():
        raise Wrong("Weights are ordinary numbers; yours hold NaN or infinity.")
    return weights


def off(weights: Tensor, other: object) -> float:
    """Return by how much the worst of four weights is off."""
    return float((weights - torch.as_tensor(other)).abs().max())


@Value(
    answer="Four weights, or a function without arguments that returns them.",
    see="check_sharp_factor : the next exercise.",
    read=four_weights,
    right=lambda weights: off(weights, LONELY) < 0.00501,  # two decimals
    near=lambda weights, other: off(weights, other) < 0.006,
    slips={
        "These are the scores. A score of 0 is not a weight of 0: e to the 0 is 1.": [0, 1, 0, 0],
        "These are the raw scores. Divide, raise e to each, then divide by the sum.": [0, 2, 0, 0],
        "These are e to each score. Now divide by their sum: weights sum to 1.": [1, E1, 1, 1],
        "These come from the raw scores. Divide by the root of 4 features first.": (
            [1 / (E2 + 3), E2 / (E2 + 3), 1 / (E2 + 3), 1 / (E2 + 3)]
        ),
        "The raw score was divided by 4, the number of features. Divide by its root, 2.": (
            [0.21511, 0.35466, 0.21511, 0.21511]
        ),
        "This is the row of a token a. The question is about the query b.": (
            [E1 / (3 * E1 + 1), 1 / (3 * E1 + 1), E1 / (3 * E1 + 1), E1 / (3 * E1 + 1)]
        ),
        "These are the weights of the three tokens in the text. Here the row has one more a.": (
            [0.212, 0.576, 0.212, 0.212]
        ),
        "The numbers are correct, but not in the order of the keys a, b, a, a.": Either(
            *([LONELY[1] if key == place else LONELY[0] for key in range(4)] for place in (0, 2, 3))
        ),
        "This is a uniform row, but b has a score of 1 with itself and of 0 with each a.": [0.25]
        * 4,
    },
    otherwise=lambda weights: (
        f"Weights sum to 1, yours to {weights.sum():.3f}."
        if abs(weights.sum() - 1) > 0.015
        else "The weights differ. What does b score with each key? Take e to each of these scores."
    ),
    verified="These are the four weights that attention gives, found without a softmax.",
    evidence=lambda weights: table(
        "Query b, keys a, b, a, a:",
        {"raw score of b": [0, 2, 0, 0], "your weight": weights},
        ("a", "b", "a", "a"),
    ),
    by_hand=True,
)
def check_lonely_weights(_weights: Tensor) -> None:
    """Check the weights that token b gives to the keys a, b, a, a.

    Verified: four numbers, to two decimals, found without a softmax.
    """


# --- a factor for the features --------------------------------------------------------------------

FACTOR = math.sqrt(math.log(198))  # e^(c c) / (e^(c c) + 2) = 0.99
ROUNDED = math.ceil(100 * FACTOR) / 100


def positive(value: object) -> float:
    """Read a positive number."""
    factor = number(value)
    if factor == 0:
        raise Wrong("A positive factor is asked for, and it gives 0.")
    if factor < 0:
        raise Wrong(
            f"Query and key flip together, so {factor:g} does the same as {-factor:g}. The "
            "positive number is asked for."
        )
    return factor


@Value(
    see="check_lonely_weights : the exercise before.",
    read=positive,
    right=lambda factor: FACTOR - 0.0001 < factor < ROUNDED + 0.001,
    near=lambda factor, other: abs(factor - other) < 0.01 * other,
    slips={
        "This is the factor by which the score must grow. Query and key both grow with the "
        "features, so the score is multiplied by the square of your number.": FACTOR**2,
        "That is too little. Divide the product by the root of 4 features.": FACTOR / math.sqrt(2),
        "That is too little, because two other tokens share the row with b.": (
            math.sqrt(math.log(99))
        ),
    },
    otherwise=lambda factor: (
        "That is too little."
        if factor < FACTOR
        else "That is enough, but a smaller factor reaches 0.99 as well."
    ),
    verified="No smaller factor with two decimals reaches 0.99.",
)
def check_sharp_factor(factor: float) -> str:
    """Check the smallest factor of the features with which a token gives itself 0.99 or more.

    Verified: the positive number, as it is or rounded up to two decimals.
    """
    scores = torch.tensor([0.0, factor * factor, 0.0], dtype=torch.float64)
    return f"With your factor, token b gives itself {scores.softmax(dim=-1)[1]:.4f}."


# --- what a key contributes -----------------------------------------------------------------------


@Compared(
    answer="A function of (weights, value) that returns one number for each cell.",
    see="torch.linalg.vector_norm : the length of a vector.",
    right=lambda weights, value: weights * value.norm(dim=-1)[..., None, :],
    slips={
        "This is weight times the sum of the value's features. A length is the root of the sum of "
        "their squares.": lambda weights, value: weights * value.sum(dim=-1)[..., None, :],
        "This is the squared length of a value. Take the root.": (
            lambda weights, value: weights * value.square().sum(dim=-1)[..., None, :]
        ),
        "The lengths belong to the keys, so each column has one. Yours has one for each row.": (
            lambda weights, value: weights * value.norm(dim=-1)[..., :, None]
        ),
        "These are shares of each row. The output moves by weight times length itself.": (
            lambda weights, value: (
                (c := weights * value.norm(dim=-1)[..., None, :]) / c.sum(dim=-1, keepdim=True)
            )
        ),
        "This is the length of the whole output, not of what each key adds to it.": (
            lambda weights, value: (weights @ value).norm(dim=-1)
        ),
        "These are the weights as they were.": lambda weights, value: weights,
    },
    what="contributions",
    axes=("sentence", "head", "query", "key"),
    misshapen="One number for each query and key: the shape of the weights.",
    otherwise="Set the value of one key to 0: how far does an output move?",
    verified="Each number says how far the output of a query moves if the value of a key is set "
    "to 0. Your function is correct for one map, for a batch, and for a batch with heads.",
)
def check_contributions() -> Iterator[tuple[str, tuple]]:
    """Check how far each key's value moves each output: weight times length.

    Verified: square and rectangular maps, a batch and heads.
    """
    generator = torch.Generator().manual_seed(0)
    for lead, L, S in (((), 4, 4), ((), 3, 5), ((2,), 5, 3), ((2, 3), 4, 4)):
        weights = torch.randn(*lead, L, S, generator=generator).softmax(dim=-1)
        value = torch.randn(*lead, S, 6, generator=generator)
        yield f"weights {shape(weights)} and value {shape(value)}", (weights, value)


# --- what a fitted picture still tells ------------------------------------------------------------


def two_numbers(value: object) -> Tensor:
    """Read the least and the greatest value that is possible."""
    ends = vector(value)
    if ends.shape != (2,):
        raise Wrong(f"Two numbers are asked for; yours has shape {tuple(ends.shape)}.")
    return ends


def ends_of(least: Callable, greatest: Callable) -> Callable[[Tensor], list[float]]:
    """Return a function of shades that gives both ends."""
    return lambda shades: [float(least(shades)), float(greatest(shades))]


def one_over_keys(shades: Tensor) -> float:
    """Return the uniform share."""
    return 1 / shades.shape[-1]


def one_over_sum(shades: Tensor) -> Tensor:
    """Return one over the sum of the shades of a row, which is the same for all rows."""
    return 1 / shades[0].sum()


@Compared(
    answer="A function of shades (L, S) that returns two numbers.",
    see="attnlab.plotting.plot_attention : its scale runs from 0 to 1 if nothing else is asked.",
    read=two_numbers,
    right=ends_of(one_over_keys, one_over_sum),
    slips={
        "You can see the shades, so you know more than that a weight is at most 1. The palest "
        "weight is at least 0. What would the darkest be if the palest were exactly 0?": (
            ends_of(one_over_keys, lambda shades: 1)
        ),
        "The darkest weight cannot be 0: the largest weight of a row is at least the uniform "
        "share.": Either(
            ends_of(lambda shades: 0, lambda shades: 1), ends_of(lambda shades: 0, one_over_sum)
        ),
        "The two numbers are correct, but the smaller one comes first.": (
            ends_of(one_over_sum, one_over_keys)
        ),
        "You divided by the number of rows. The weights of a row are shared by the keys, so the "
        "number of columns counts.": ends_of(lambda shades: 1 / len(shades), one_over_sum),
        "You added up a column. The weights of a row sum to 1.": (
            ends_of(one_over_keys, lambda shades: 1 / shades[:, 0].sum())
        ),
        "You added up the whole table. The weights of each row sum to 1.": (
            ends_of(one_over_keys, lambda shades: 1 / shades.sum())
        ),
    },
    what="ends",
    otherwise="With palest = w and darkest = d, a cell of shade s holds w + s (d - w). Each row "
    "sums to 1. Which d fits w = 0, and which fits w = d?",
    verified="The true weight lies between your two numbers for every picture, and neither number "
    "can be improved.",
    rtol=1e-4,
)
def check_darkest_range() -> Iterator[tuple[str, tuple]]:
    """Check what a picture with fitted colours tells about its darkest weight.

    Verified: both ends, for random tables of four sizes.
    """
    generator = torch.Generator().manual_seed(0)
    for L, S in ((3, 5), (4, 4), (6, 3), (2, 9)):
        weights = torch.randn(L, S, generator=generator, dtype=torch.float64).softmax(dim=-1)
        shades = (weights - weights.min()) / (weights.max() - weights.min())
        yield f"shades {shape(shades)}", (shades.float(),)


# --- weights of a function that hides them --------------------------------------------------------


def first_query_blocked(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention in which query 0 may look at no key."""
    allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool)
    allowed[0] = False
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)


HIDDEN: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "plain attention": F.scaled_dot_product_attention,
    "causal attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "attention with the scale 0.1": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.1)
    ),
    "attention whose query 0 may look at no key": first_query_blocked,
}


def identity(key: Tensor) -> Tensor:
    """Return a value with which an output is the weights: (..., S, S)."""
    S = key.shape[-2]
    return torch.eye(S, dtype=key.dtype).expand(*key.shape[:-2], S, S)


@Compared(
    answer="A function of (attention, query, key) that returns the weights.",
    see="attnlab.trace_attention : returns weights by itself.",
    right=lambda attention, query, key: attention(query, key, identity(key)),
    slips={
        "These are the row sums: each column of the value holds ones.": Either(
            lambda attention, query, key: attention(query, key, torch.ones_like(identity(key))),
            lambda attention, query, key: attention(query, key, key.new_ones(*key.shape[:-1], 1)),
        ),
        "These are averages of the keys. Which value gives the weights themselves?": (
            lambda attention, query, key: attention(query, key, key)
        ),
        "These are weights of plain attention. Ask the given function; it may mask and scale.": (
            lambda attention, query, key: F.scaled_dot_product_attention(query, key, identity(key))
        ),
        "That is one axis too many: the value needs the leading dimensions of the key, no more.": (
            lambda attention, query, key: attention(query, key, identity(key)[None])
        ),
    },
    errors={
        "values to unpack": "The function returns one tensor, the output.",
        "": "The value needs one row per key, the leading dimensions of the key, and its dtype.",
    },
    what="weights",
    axes=("sentence", "head", "query", "key"),
    nan="They hold NaN: a query that may look at no key has weights of 0, and 0 / 0 is not a "
    "number. Return them as the function used them.",
    misshapen="One column per key: a value needs as many columns as there are keys.",
    otherwise="They are not what the function multiplied the values by.",
    verified="The weights hold for plain, causal, differently scaled and blocked attention, in a "
    "batch and with heads, in float64, whatever the number of keys.",
    keeps_dtype=True,
)
def check_recovered_weights() -> Iterator[tuple[str, tuple]]:
    """Check a function that gets the weights out of an attention function without seeing inside.

    Verified: four attention functions (plain, causal, another scale, one query that may look at no
    key), as many keys as queries, more and fewer, one sentence, a batch and heads, float64.
    """
    generator = torch.Generator().manual_seed(0)
    for lead in ((), (2,), (2, 3)):
        for L, S in ((5, 7), (7, 5), (4, 4)):  # equal sizes hide a mistake
            query, key = (torch.randn(*lead, n, 3, generator=generator) for n in (L, S))
            for name, attention in HIDDEN.items():
                yield f"{name}, query {shape(query)} and key {shape(key)}", (attention, query, key)
    case = f"plain attention in torch.float64, query {shape(query)} and key {shape(key)}"
    yield case, (F.scaled_dot_product_attention, query.double(), key.double())


# --- a layer that reads words first ---------------------------------------------------------------


class Watched(nn.MultiheadAttention):
    """A layer that remembers in which state it was called: ``batch_first`` and ``training``."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.calls: list[tuple[bool, bool]] = []

    def forward(self, *args, **kwargs):
        """Note the state, then attend."""
        self.calls.append((self.batch_first, self.training))
        return super().forward(*args, **kwargs)


@contextmanager
def no_second_layer() -> Iterator[None]:
    """Refuse to build a layer."""
    original = nn.MultiheadAttention.__init__

    def refuse(*_args, **_kwargs) -> None:
        raise Wrong("It builds another layer. Call the one that is given, and turn the data.")

    nn.MultiheadAttention.__init__ = refuse
    try:
        yield
    finally:
        nn.MultiheadAttention.__init__ = original


def output_and_weights(value: object) -> tuple[Tensor, Tensor]:
    """Read a pair."""
    if isinstance(value, Tensor) or not isinstance(value, tuple | list) or len(value) != 2:
        raise Wrong("Return two things: output and weights.")
    if any(part is None for part in value):
        raise (NotDone if all(part is None for part in value) else Wrong("One of the two is None."))
    return tensor(value[0]), tensor(value[1])


def turned(layer: nn.Module, x: Tensor, back: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Return what the layer gives for words first; ``back`` turns its output."""
    z = x.transpose(0, 1)
    output, weights = layer(z, z, z)
    return back(output), weights


def cut(layer: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the layer gives if words are dealt out in another order."""
    z = x.reshape(x.shape[1], x.shape[0], -1)
    output, weights = layer(z, z, z)
    return output.reshape(x.shape), weights


@Check(
    answer="A function of (layer, x) that returns output and weights.",
    see="torch.nn.MultiheadAttention : has the argument ``batch_first``.",
    slips={
        "Word t of one sentence still looks at word t of the others: the layer reads (L, N, E). "
        "Change sentence 0, and sentence 1 moves.": lambda layer, x: layer(x, x, x),
        "Turn the output back.": lambda layer, x: turned(layer, x, lambda output: output),
        "The output is cut, not turned back: use transpose, not reshape.": (
            lambda layer, x: turned(layer, x, lambda output: output.reshape(x.shape))
        ),
        "reshape deals the words out in another order: use transpose.": cut,
    },
)
def check_sequence_first(answer: Answer) -> Right:
    """Check a call of a layer that expects (L, N, E) with a batch of shape (N, L, E).

    Verified: output and weights, for two sentences of five words and for three of three, of the
    layer as it is given.
    """
    torch.manual_seed(0)
    for N, L in ((2, 5), (3, 3)):  # equal numbers hide a mistake
        # dropout shows a layer that was left in training mode
        layer = Watched(8, 2, dropout=0.5).eval()
        twin = nn.MultiheadAttention(8, 2, batch_first=True).eval()
        twin.load_state_dict(layer.state_dict())
        x = torch.randn(N, L, 8)
        case = f"{N} sentences of {L} words, x {shape(x)},"
        with no_second_layer():
            got = asked(answer, (layer, x), case, output_and_weights)
        see_state(layer)
        see_output(answer, case, got, output_and_weights(twin(x, x, x)), layer, x)
    return Right("No sentence moves another, and output and weights are those of a batch.")


def see_state(layer: Watched) -> None:
    """Raise Wrong unless the layer itself was called, as it was."""
    if not layer.calls:
        raise Wrong("It does not call the layer that is given. Turn the data, not the layer.")
    batch_first, training = (any(states) for states in zip(*layer.calls, strict=True))
    if batch_first or layer.batch_first:
        raise Wrong("It switches the layer to batch_first. Turn the data, not the layer.")
    if training or layer.training:
        raise Wrong("It switches the layer to training mode, where dropout strikes out weights.")


def see_output(
    answer: Answer, case: str, got: tuple, right: tuple, layer: Watched, x: Tensor
) -> None:
    """Raise Wrong unless output and weights are those of the layer with the batch first."""
    (output, weights), (right_output, right_weights) = got, right
    if output.shape != right_output.shape:
        why = answer.slip(lambda slip: slip(layer, x)[0].shape == output.shape)
        wanted = f"must be {shape(right_output)}, got {shape(output)}. {why or ''}".rstrip()
        raise Wrong(f"With {case} the output {wanted}")
    if not same(output, right_output):
        why = answer.slip(lambda slip: same(output, slip(layer, x)[0].detach()))
        why = why or "Its shape is right, its numbers are not."
        raise Wrong(f"With {case} the output is wrong. {why}")
    if weights.shape != right_weights.shape:
        raise Wrong(
            f"The output is right. The weights must be {shape(right_weights)}, got "
            f"{shape(weights)}: the layer returns them with the batch in front, and as their mean "
            "over heads."
        )
    if not same(weights, right_weights):
        raise Wrong("The output is right, the weights are not. Return them as they come.")
