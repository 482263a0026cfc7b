"""The checks of lesson 12: two layers that look back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.exercises.frame.forms import Compared, Either, Value, bugs_left, randoms
from attnlab.models.looking_back import BAR

# --- the position that is looked at ---------------------------------------------------------------

TEXT = "PLAYGROUND|LAYG"
ASKS = len(TEXT) - 1
FOUND = TEXT.index(TEXT[ASKS]) + 1


@Value(
    right=FOUND,
    slips={
        "That is the earlier G, whose value says only G. Which letter came after it?": FOUND - 1,
        "That is the letter before the earlier G. Which one came after it?": FOUND - 2,
        "That is the token that asks. Where does the same letter occur earlier in the text?": ASKS,
    },
    verified="The letter at this position came directly after the earlier G, so this letter is "
    "also the guess.",
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
    attnlab.models.looking_back.followers : finds such positions.
    """


# --- a third score --------------------------------------------------------------------------------


def copies(tokens: Tensor, diagonal: int = -1, bars: bool = False) -> Tensor:
    """Return where a letter equals an earlier one: (N, L, L)."""
    same = (tokens[:, :, None] == tokens[:, None]).tril(diagonal)
    return same if bars else same & (tokens != BAR)[:, :, None]


def askers(marked: Tensor) -> Tensor:
    """Return for how many tokens something is marked."""
    return marked.any(dim=-1).sum()


def score(weights: Tensor, marked: Tensor, count: Tensor | int) -> Tensor:
    """Return the weight of each head on what is marked, divided by a count: (H,)."""
    return (weights * marked[:, None]).sum(dim=(0, 2, 3)) / count


@Compared(
    right=lambda weights, tokens: score(weights, copies(tokens), askers(copies(tokens))),
    what="score",
    slips={
        "It also averages over tokens that have no earlier copy. Leave them out.": Either(
            lambda weights, tokens: score(weights, copies(tokens), tokens.numel()),
            lambda weights, tokens: score(weights, copies(tokens), (tokens != BAR).sum()),
        ),
        "Your function divides by the number of earlier copies. Divide by the number of tokens "
        "that have an earlier copy.": (
            lambda weights, tokens: score(weights, copies(tokens), copies(tokens).sum())
        ),
        "Your function divides by the tokens of all heads together.": lambda weights, tokens: score(
            weights, copies(tokens), askers(copies(tokens)) * weights.shape[1]
        ),
        "It also counts the bars. Leave out the token 26.": Either(
            lambda weights, tokens: score(
                weights, copies(tokens, bars=True), askers(copies(tokens, bars=True))
            ),
            lambda weights, tokens: score(
                weights, copies(tokens), askers(copies(tokens, bars=True))
            ),
        ),
        "It also adds the weight that a token gives itself. Mark earlier copies only.": Either(
            lambda weights, tokens: score(weights, copies(tokens, 0), askers(copies(tokens, 0))),
            lambda weights, tokens: score(weights, copies(tokens, 0), askers(copies(tokens))),
        ),
        "It also counts tokens whose only copies come later.": lambda weights, tokens: score(
            weights, copies(tokens), askers(copies(tokens) | copies(tokens).mT)
        ),
    },
    otherwise="For each head, add up the weight of each letter on earlier copies of it, and take "
    "the mean over the letters that have one.",
    misshapen="Return one number for each head.",
    verified="This is the mean weight on earlier copies of the letter, for each head.",
    axes=("head",),
    keeps_inputs=True,
)
def check_same_letter_score() -> Iterator[tuple[str, tuple]]:
    """Check a score of heads that look at earlier copies of the same letter.

    Verified: the scores, for three batches of texts and causal weights.

    Parameters
    ----------
    answer
        A function of weights (N, H, L, L) and tokens (N, L) that returns the scores (H,).

    See Also
    --------
    attnlab.models.looking_back.followers : marks what came after such a copy.
    """
    for N, H, L in ((2, 3, 7), (1, 2, 12), (3, 1, 5)):
        tokens = torch.randint(3, (N, L), generator=torch.Generator().manual_seed(L + 8))
        tokens = tokens.masked_fill(tokens == 2, BAR)
        (scores,) = randoms((N, H, L, L), seed=L)
        weights = scores.exp().tril()
        weights = weights / weights.sum(dim=-1, keepdim=True)
        yield f"weights {(N, H, L, L)} and tokens {(N, L)}", (weights, tokens)


# --- the key that fits best -----------------------------------------------------------------------


def fit(query: Tensor, key: Tensor, hidden: float = -torch.inf, diagonal: int = 1) -> Tensor:
    """Return the dot products (L, L), with ``hidden`` in place of those with later keys."""
    later = torch.ones(len(query), len(key), dtype=torch.bool).triu(diagonal)
    return (query @ key.T).masked_fill(later, hidden)


@Compared(
    right=lambda query, key: fit(query, key).argmax(dim=-1),
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
        "Your mask allows the later keys and blocks the earlier ones.": Either(
            lambda query, key: fit(query.flip(0), key.flip(0)).flip(0, 1).argmax(dim=-1),
            lambda query, key: (
                (query @ key.T).masked_fill(fit(query, key).isfinite(), -torch.inf).argmax(dim=-1)
            ),
        ),
        "Your function blocks the key at the query's own position. A causal mask allows it.": (
            lambda query, key: fit(query, key, diagonal=0).argmax(dim=-1)
        ),
        "Rows and columns are swapped. Each row of the scores belongs to one query, so look for "
        "the largest score within a row.": Either(
            lambda query, key: fit(query, key).argmax(dim=0),
            lambda query, key: fit(key, query).argmax(dim=-1),
        ),
        "Your function returns the distance from the query to the key. Return the position of the "
        "key.": lambda query, key: torch.arange(len(query)) - fit(query, key).argmax(dim=-1),
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


# --- a layer taken out of a residual stream -------------------------------------------------------


def norm(x: Tensor) -> Tensor:
    """Return tokens with mean 0 and variance 1."""
    return F.layer_norm(x, x.shape[-1:])


def stream(
    *, replaced: bool = False, stops: bool = False, reads: Callable = norm
) -> Callable[[Tensor, tuple[Callable, ...], int], Tensor]:
    """Return a function that runs all layers but one on a stream, with some bugs."""

    def run(x: Tensor, layers: tuple[Callable, ...], removed: int) -> Tensor:
        for layer in layers[:removed] if stops else layers[:removed] + layers[removed + 1 :]:
            x = layer(reads(x)) + (0 if replaced else x)
        return x

    return run


BUGS = {
    "the output of a layer replaces the stream. Add it to the stream.": {"replaced": True},
    "the layers after the removed one do not run either. Leave out that layer alone.": {
        "stops": True
    },
}


def mixing(seed: int, size: int) -> Callable[[Tensor], Tensor]:
    """Return a layer in which each token hands something on to the next ones."""
    (matrix,) = randoms((size, size), seed=seed)
    return lambda x: x.cumsum(dim=-2) @ matrix / size


@Compared(
    right=stream(),
    slips={
        **bugs_left(stream, BUGS),
        "All layers run. The layer with the number `removed` must add nothing.": (
            lambda x, layers, removed: stream()(x, layers, len(layers))
        ),
        "All layers read the same input. Each must read the stream, to which the layers before it "
        "have added their outputs.": (
            lambda x, layers, removed: (
                x + sum(layer(norm(x)) for layer in layers[:removed] + layers[removed + 1 :])
            )
        ),
        "What a layer reads is not normalised. Normalise a copy of the stream for it.": (
            stream(reads=lambda x: x)
        ),
        "The stream is also normalised at the end. Return the stream itself.": (
            lambda *arguments: norm(stream()(*arguments))
        ),
    },
    otherwise="Each layer but one must read a normalised copy of the stream, and its output must "
    "be added to the stream.",
    verified="The layers read normalised copies of the stream and add to it, and one is left out.",
    axes=("sequence", "token", "feature"),
    atol=1e-4,
    keeps_inputs=True,
)
def check_mended_stream() -> Iterator[tuple[str, tuple]]:
    """Check the layers on a residual stream, without one of them.

    Verified: shape and numbers of the stream, for two numbers of layers.

    Parameters
    ----------
    answer
        A function of (x, layers, removed) that returns the stream after the layers.

    See Also
    --------
    torch.nn.TransformerEncoderLayer : norm_first=True is this order.
    """
    for size, count, removed in (((2, 5, 12), 3, 1), ((1, 7, 6), 2, 0)):
        (x,) = randoms(size, seed=count)
        layers = tuple(mixing(number, size[-1]) for number in range(10, 10 + count))
        yield f"x {size}, {count} layers and removed {removed}", (3 * x + 1, layers, removed)
