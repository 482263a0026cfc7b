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
        "No token comes before the first one, but `roll` moves the last token to the front of the "
        "text.": lambda tokens: equal(tokens, tokens.roll(1, 1)).tril(),
        "In front of the first token you have put a 0, but 0 is the letter A. Put a number there "
        "that stands for no token.": (
            lambda tokens: equal(tokens, F.pad(tokens, (1, 0))[:, :-1]).tril()
        ),
        "It leaves out the diagonal. If a letter is repeated at once, the second copy comes "
        "directly after the first, so j may be i.": lambda tokens: equal(
            tokens, before(tokens)
        ).tril(-1),
        "Rows and columns are swapped. A row belongs to the token that looks.": Either(
            lambda tokens: equal(before(tokens), tokens).triu(),
            lambda tokens: equal(before(tokens), tokens),
        ),
    },
    otherwise="For row i and column j, compare token i with the token just before token j.",
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


# --- the key that fits best -----------------------------------------------------------------------


def fit(query: Tensor, key: Tensor, hidden: float = -torch.inf, diagonal: int = 1) -> Tensor:
    """Return the dot products (L, L), with ``hidden`` in place of those with later keys."""
    later = torch.ones(len(query), len(key), dtype=torch.bool).triu(diagonal)
    return (query @ key.T).masked_fill(later, hidden)


@Compared(
    right=lambda query, key: fit(query, key).argmax(dim=-1),
    what="output",
    slips={
        "Your function returns how well the best key fits. Return the position of this key.": (
            lambda query, key: fit(query, key).amax(dim=-1)
        ),
        "Your function also chooses keys that come later than the query. A causal mask allows only "
        "the earlier ones and the query's own.": lambda query, key: (query @ key.T).argmax(dim=-1),
        "The dot products of blocked keys are replaced by 0, which is the largest number where all "
        "the others are negative. Put -inf there.": Either(
            lambda query, key: fit(query, key, hidden=0).argmax(dim=-1),
            lambda query, key: fit(query, key, hidden=1e-9).argmax(dim=-1),
        ),
        "Your mask allows the later keys and blocks the earlier ones.": (
            lambda query, key: fit(query.flip(0), key.flip(0)).flip(0, 1).argmax(dim=-1)
        ),
        "Your function blocks the key at the query's own position. A causal mask allows it.": (
            lambda query, key: fit(query, key, diagonal=0).argmax(dim=-1)
        ),
        "Rows and columns are swapped. A row belongs to a query, and its keys are compared.": (
            Either(
                lambda query, key: fit(query, key).argmax(dim=0),
                lambda query, key: fit(key, query).argmax(dim=-1),
            )
        ),
        "Your function returns the distance from the query to the key. Return the position of the "
        "key.": (lambda query, key: torch.arange(len(query)) - fit(query, key).argmax(dim=-1)),
    },
    otherwise="Compare each query with the keys that are not later than it, and return the "
    "position of the largest dot product.",
    verified="For every query, this is the key that fits best among those that are not later.",
    axes=("query",),
    keeps_dtype=True,
    keeps_inputs=True,
)
def check_best_key() -> Iterator[tuple[str, tuple]]:
    """Check which key fits each query best under a causal mask.

    Verified: shape, dtype and every position, for three sizes.

    Parameters
    ----------
    answer
        A function of query (L, E) and key (L, E) that returns the positions of keys (L,).

    See Also
    --------
    torch.argmax : the position of the largest entry.
    """
    for seed, size in enumerate(((8, 3), (12, 5), (6, 2))):
        yield f"query and key {size}", randoms(size, size, seed=seed)


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
    "the second layer reads the same input as the first. It must read the sum of that input and "
    "the output of the first.": {"parallel": True},
}


def mixing(seed: int, size: int) -> Callable[[Tensor], Tensor]:
    """Return a layer in which each token hands something on to the next ones."""
    (matrix,) = randoms((size, size), seed=seed)
    return lambda x: x.cumsum(dim=-2) @ matrix / size


@Compared(
    right=stream(),
    slips={
        **bugs_left(stream, BUGS),
        "The second layer reads only the output of the first. It must read the sum of that output "
        "and x.": Either(
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
