"""The checks of lesson 12: two layers that look back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.exercises._forms import Compared, Either, Value, bugs_left, randoms

# --- the position that is looked at ---------------------------------------------------------------

TEXT = "PLAYGROUND|LAYG"
ASKS = len(TEXT) - 1
FOUND = TEXT.index(TEXT[ASKS]) + 1


@Value(
    right=FOUND,
    slips={
        "That is the earlier G, whose value says only G. Which letter came after it?": FOUND - 1,
        "That is the letter before the earlier G. Which one came after it?": FOUND - 2,
        "That is the token that asks. Where was the same letter before?": ASKS,
    },
    verified="The letter there came after the earlier G, so it is also the guess.",
    otherwise="Find the earlier copy of the last letter. Which position comes after it?",
)
def check_position_to_look_at(_position: float) -> None:
    """Check at which position of a short text the second layer should look.

    Verified: the position.

    Parameters
    ----------
    answer
        The number, or a function without arguments that returns it.

    See Also
    --------
    attnlab.looking_back.followers : finds such positions.
    """


# --- letters that followed ------------------------------------------------------------------------


def before(tokens: Tensor) -> Tensor:
    """Return the token before each token, -1 for the first one."""
    return torch.cat([torch.full_like(tokens[:, :1], -1), tokens[:, :-1]], dim=1)


def equal(rows: Tensor, columns: Tensor) -> Tensor:
    """Return where a token of the rows equals one of the columns: (N, L, L)."""
    return rows[:, :, None] == columns[:, None]


@Compared(
    right=lambda tokens: equal(tokens, before(tokens)).tril(),
    what="mask",
    slips={
        "It marks the copies of the letter. Mark what came directly after them.": Either(
            lambda tokens: equal(tokens, tokens).tril(),
            lambda tokens: equal(tokens, tokens).tril(-1),
            lambda tokens: equal(tokens, tokens),
        ),
        "It marks later tokens as well. A token can only look back, or at itself.": (
            lambda tokens: equal(tokens, before(tokens))
        ),
        "The first token follows no other one, but `roll` moves the last token to its front.": (
            lambda tokens: equal(tokens, tokens.roll(1, 1)).tril()
        ),
        "In front of the first token you have put a 0, but 0 is the letter A. Put a number there "
        "that stands for no token.": (
            lambda tokens: equal(tokens, F.pad(tokens, (1, 0))[:, :-1]).tril()
        ),
        "Rows and columns are swapped. A row belongs to the token that looks.": Either(
            lambda tokens: equal(before(tokens), tokens).triu(),
            lambda tokens: equal(before(tokens), tokens),
        ),
    },
    otherwise="Compare each token, in a row, with the token before each column.",
    verified="Every row marks the tokens that came directly after an earlier copy.",
    axes=("sequence", "row", "column"),
    keeps_dtype=True,
    keeps_inputs=True,
)
def check_followers() -> Iterator[tuple[str, tuple]]:
    """Check a mask of the tokens that came after an earlier copy of each token.

    Verified: shape, dtype and every entry, for three batches in which letters repeat.

    Parameters
    ----------
    answer
        A function of tokens (N, L) that returns a bool tensor (N, L, L).

    See Also
    --------
    attnlab.looking_back.followers : the same for texts with bars.
    """
    for count, length in ((1, 7), (3, 12), (2, 5)):
        generator = torch.Generator().manual_seed(length)
        tokens = torch.randint(4, (count, length), generator=generator)
        yield f"tokens {(count, length)}", (tokens,)


# --- a score for each position --------------------------------------------------------------------


def on(weights: Tensor, offset: int) -> Tensor:
    """Return a diagonal of the weights: (N, H, positions)."""
    return weights.diagonal(offset, dim1=-2, dim2=-1)


@Compared(
    right=lambda weights: on(weights, -1).mean(dim=0),
    what="scores",
    slips={
        "The positions have been averaged too. Keep a number for each position.": Either(
            lambda weights: on(weights, -1).mean(dim=(0, -1)),
            lambda weights: on(weights, -1).mean(),
        ),
        "The texts are added up. Take their mean.": lambda weights: on(weights, -1).sum(dim=0),
        "These are weights on the wrong token. The weight that token i gives to the token before "
        "it is in row i, column i - 1.": (
            Either(
                lambda weights: on(weights, 0).mean(dim=0),
                lambda weights: on(weights, 1).mean(dim=0),
            )
        ),
        "Take the mean over the texts, which are on axis 0.": Either(
            lambda weights: on(weights, -1), lambda weights: on(weights, -1).mean(dim=1)
        ),
        "`diagonal` works on the first two axes unless you name the last two: dim1=-2, dim2=-1.": (
            lambda weights: weights.diagonal(-1)
        ),
    },
    otherwise="Take the entries one below the diagonal, and their mean over the texts.",
    columns=tuple(f"position {i}" for i in range(1, 7)),
    verified="For every head and every position, this is the mean weight on the token before.",
    axes=("head", "position"),
)
def check_score_by_position() -> Iterator[tuple[str, tuple]]:
    """Check the mean weight on the token before, for each head and position.

    Verified: shape and numbers, for two sizes.

    Parameters
    ----------
    answer
        A function of weights (N, H, L, L) that returns (H, L - 1).

    See Also
    --------
    torch.Tensor.diagonal : a diagonal of the weights.
    """
    for size in ((3, 2, 7, 7), (5, 4, 6, 6)):
        (scores,) = randoms(size)
        yield f"weights {size}", (scores.softmax(dim=-1),)


# --- a residual stream ----------------------------------------------------------------------------


def norm(x: Tensor) -> Tensor:
    """Return tokens with mean 0 and variance 1."""
    return F.layer_norm(x, x.shape[-1:])


def stream(
    *, replaced: bool = False, parallel: bool = False
) -> Callable[[Tensor, Callable, Callable], Tensor]:
    """Return a function that runs two layers on a stream, with some bugs."""

    def run(x: Tensor, first: Callable, second: Callable) -> Tensor:
        found = first(norm(x))
        return (found if replaced else x + found) + second(norm(x if parallel else x + found))

    return run


BUGS = {
    "the output of the first layer replaces the stream. Add it to the stream.": {"replaced": True},
    "the second layer reads the same input as the first. It must read the sum.": {"parallel": True},
}


def mixing(seed: int, size: int) -> Callable[[Tensor], Tensor]:
    """Return a layer in which each token hands something on to the next ones."""
    (matrix,) = randoms((size, size), seed=seed)
    return lambda x: x.cumsum(dim=-2) @ matrix / size


@Compared(
    right=stream(),
    slips={
        **bugs_left(stream, BUGS),
        "The second layer reads the output of the first alone. It must read the sum.": Either(
            lambda x, first, second: x + (found := first(norm(x))) + second(norm(found)),
            lambda x, first, second: (found := first(norm(x))) + second(norm(found)),
        ),
        "What a layer reads is not normalised. Normalise it for both layers.": Either(
            lambda x, first, second: x + first(x) + second(x + first(x)),
            lambda x, first, second: (x := x + first(norm(x))) + second(x),
        ),
    },
    otherwise="Each layer reads a normalised copy of the stream, and its output is added to the "
    "stream.",
    verified="Each layer reads a normalised copy of the stream and adds its output to the stream.",
    axes=("sequence", "token", "feature"),
    atol=1e-4,
    keeps_inputs=True,
)
def check_mended_stream() -> Iterator[tuple[str, tuple]]:
    """Check two layers on a residual stream.

    Verified: shape and numbers of the stream, for two sizes and other layers.

    Parameters
    ----------
    answer
        A function of (x, first, second) that returns the stream after both layers.

    See Also
    --------
    torch.nn.TransformerEncoderLayer : norm_first=True is this order.
    """
    for seed, size in enumerate(((2, 5, 12), (1, 7, 6))):
        (x,) = randoms(size, seed=seed)
        layers = mixing(seed + 10, size[-1]), mixing(seed + 20, size[-1])
        yield f"x {size}", (3 * x + 1, *layers)
