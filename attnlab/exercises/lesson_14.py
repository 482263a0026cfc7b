"""The checks of lesson 14: where a meaning appears."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial

import torch
from torch import Tensor

from attnlab.display.table import load_rows
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Right, Wrong, choice, table, tokens_of
from attnlab.exercises.frame.forms import Compared, Either, Found, randoms
from attnlab.models.meanings import lean, vectors_of
from attnlab.models.pretrained import PretrainedEncoder, load_encoder

# --- one vector is exchanged ----------------------------------------------------------------------


def with_row(x: Tensor, position: int, row: Tensor) -> Tensor:
    """Return a copy of x with another vector at a position."""
    return x.index_copy(0, torch.tensor([position]), row[None])


@Compared(
    right=lambda x, position, donor, there: with_row(x, position, donor[there]),
    what="result",
    slips={
        "Your function takes the wrong vector from the donor. Take the one at `donor_position`.": (
            lambda x, position, donor, _there: with_row(x, position, donor[position])
        ),
        "Your function puts the new vector at `donor_position`. Put it at `position`.": (
            lambda x, _position, donor, there: with_row(x, there, donor[there])
        ),
    },
    otherwise="Exchange one vector, the one at `position`, for `donor[donor_position]`.",
    verified="One vector is exchanged, and the vectors of the sentence itself are unchanged.",
    axes=("token", "feature"),
    keeps_inputs="Your function changes the vectors that it was given, so the next swap would "
    "begin with other ones. Change only a copy of x.",
)
def check_careful_swap() -> Iterator[tuple[str, tuple]]:
    """Check a function that puts a vector of one sentence into another sentence.

    Verified: the vectors for random sentences of two lengths, and that these are unchanged.

    Parameters
    ----------
    answer
        A function of x (L, E), a position, the donor (M, E) and a position in it that returns the
        new x.

    See Also
    --------
    torch.Tensor.clone : copies a tensor.
    """
    for length, position, there in [(7, 5, 2), (6, 1, 3), (5, 4, 4)]:
        x, donor = randoms((length, 4), (9, 4), seed=length)
        yield f"positions {position} and {there}", (x, position, donor, there)


# --- a token is hidden ----------------------------------------------------------------------------


def hidden(*, from_itself: bool = False, axis: int | None = -1) -> Callable[[Tensor, int], Tensor]:
    """Return a function that hides a token from the others, with some mistakes.

    ``axis`` is the one whose sum it divides by, if any.
    """

    def hide(weights: Tensor, position: int) -> Tensor:
        new = weights.clone()
        new[..., position] = 0
        if not from_itself:
            new[..., position, position] = weights[..., position, position]
        return new if axis is None else new / new.sum(dim=axis, keepdim=True)

    return hide


def from_itself_alone(weights: Tensor, position: int) -> Tensor:
    """Return weights in which the token is hidden from nobody but itself."""
    new = weights.clone()
    new[..., position, position] = 0
    return new / new.sum(dim=-1, keepdim=True)


def empty_row(weights: Tensor, position: int) -> Tensor:
    """Return weights in which the row of the hidden token is NaN, as 0 / 0 is."""
    return without_row(hidden()(weights, position), position, share=torch.nan)


def without_row(weights: Tensor, position: int, *, share: float = 0) -> Tensor:
    """Return weights in which the row of the hidden token is 0, or NaN after a division."""
    return weights.index_fill(-2, torch.tensor(position), share)


def softmaxed(weights: Tensor, position: int, *, fill: float, row: bool) -> Tensor:
    """Return a softmax of weights in which a token is hidden; with row, its row stays."""
    new = weights.index_fill(-1, torch.tensor(position), fill)
    new[..., position, position] = weights[..., position, position]
    new = new.softmax(dim=-1)
    if row:
        new[..., position, :] = weights[..., position, :]
    return new


@Compared(
    right=hidden(),
    what="new weights",
    slips={
        "The hidden token does not attend to itself any more. Keep its whole row.": Either(
            hidden(from_itself=True), hidden(from_itself=True, axis=None)
        ),
        "The others still attend to the hidden token. Hide it from them, and not from itself.": (
            from_itself_alone
        ),
        "The row of the hidden token is all 0, and you divide it by its sum, 0. Keep that row.": (
            empty_row
        ),
        "The hidden token attends to nothing, but the others still attend to it. Keys are on the "
        "last axis.": Either(without_row, partial(without_row, share=torch.nan)),
        "You divide by the sums over the queries. Sum over the keys, `dim=-1`.": Either(
            hidden(axis=-2), hidden(from_itself=True, axis=-2)
        ),
        "The rows no longer sum to 1. Divide each row by its sum.": hidden(axis=None),
        "These are weights, so divide each row by its sum, without another softmax.": Either(
            partial(softmaxed, fill=0, row=False),
            partial(softmaxed, fill=0, row=True),
            partial(softmaxed, fill=-torch.inf, row=False),
            partial(softmaxed, fill=-torch.inf, row=True),
        ),
        "Nothing is hidden: these are the weights that your function received.": (
            lambda weights, _position: weights
        ),
    },
    otherwise="In all other rows, set the weight of the hidden token to 0, and divide the row by "
    "its sum. Leave the row of the hidden token as it is.",
    verified="No other token attends to the hidden one, and every row sums to 1.",
    keeps_inputs="Your function changes the weights that it was given. Copy them first.",
    axes=("sequence", "head", "query", "key"),
)
def check_hidden_token() -> Iterator[tuple[str, tuple]]:
    """Check a function that hides one token from all others.

    Verified: the weights of two sizes, for random weights.

    Parameters
    ----------
    answer
        A function of weights (N, H, L, L) and the position of a token that returns weights.

    See Also
    --------
    attnlab.models.pretrained.PretrainedEncoder.read : takes an edit of its weights.
    """
    for heads, length, position in [(12, 7, 4), (3, 5, 1)]:
        (scores,) = randoms((2, heads, length, length), seed=length)
        yield (
            f"weights {(2, heads, length, length)} and position {position}",
            (scores.softmax(dim=-1), position),
        )


# --- a sentence that the means get wrong ----------------------------------------------------------

WANTED = 'a sentence and its meaning, for example ("we swam to the bank", "river")'
MEANINGS = ("river", "money")
SHORTEST = 5  # words; fewer hardly make a sentence that every reader understands
TABLES = ("bank_sentences.csv", "bank_two_kinds.csv", "bank_means.csv")
CLOSE = 0.005  # leans closer to 0 than this are to neither side


@cache
def encoder() -> PretrainedEncoder:
    """Return the encoder, which no check changes."""
    return load_encoder()


@cache
def two_meanings() -> tuple[Tensor, Tensor]:
    """Return the vectors of "bank" that make the two means, and where they are about a river."""
    rows = load_rows("bank_means.csv")
    is_river = torch.tensor([row["meaning"] == "river" for row in rows])
    return vectors_of(encoder(), "bank", [row["sentence"] for row in rows]), is_river


def words_of(sentence: str) -> list[str]:
    """Return the words of a sentence, without spaces, signs and capitals."""
    return re.findall(r"\w+", sentence.lower())


def sentence_and_meaning(value: object) -> tuple[str, str]:
    """Read a sentence and one of the two meanings."""
    match value:
        case (str(meaning), str()) if meaning.strip().lower() in MEANINGS:
            raise Wrong("First the sentence, then its meaning.")
        case (str(sentence), meaning):
            return sentence, choice(meaning, MEANINGS)
    raise Wrong(voice.returned(voice.kind_of(value), WANTED))


@Found(read=sentence_and_meaning)
def check_fooling_sentence(answer: tuple[str, str]) -> Right:
    """Check a sentence whose "bank" leans to the wrong side after the last layer.

    Verified: the lean, by the means of the lesson. That the meaning is as told cannot be verified.

    Parameters
    ----------
    answer
        A tuple (sentence, meaning), or a function without arguments that returns it.

    See Also
    --------
    attnlab.models.meanings.lean : measures it.
    """
    sentence, meaning = answer
    of_the_lesson = [row["sentence"] for name in TABLES for row in load_rows(name)]
    if words_of(sentence) in map(words_of, of_the_lesson):
        raise Wrong("This is one of the sentences of the lesson. Write one of your own.")
    words = sentence.lower().split()
    if len(words) < SHORTEST or len({*words}) < SHORTEST - 1:
        different = f"{SHORTEST - 1} of them different"
        raise Wrong(f"Write a whole sentence, of at least {SHORTEST} words, {different}.")
    if (count := tokens_of(encoder(), sentence).count("bank")) != 1:
        raise Wrong(f"The sentence must contain the word “bank” exactly once, not {count} times.")
    (leans_at,) = lean(vectors_of(encoder(), "bank", [sentence]), *two_meanings())
    places = ["before", *(f"layer {layer}" for layer in range(6))]
    evidence = table("Lean to the river:", {"lean": leans_at.tolist()}, places)
    opposite = MEANINGS[1 - MEANINGS.index(meaning)]
    own = leans_at[-1].item() * (1 if meaning == "river" else -1)
    if own > -CLOSE:
        side = f"towards “{meaning}”, the meaning that you gave" if own >= CLOSE else "to no side"
        raise Wrong(
            f"After the last layer, the vector of “bank” leans {side}. "
            f"Add words that suggest “{opposite}”.",
            evidence,
        )
    return Right(
        f"After the last layer, the vector of “bank” leans towards the meaning “{opposite}”. "
        f"Whether every reader takes the word to mean “{meaning}” is for you to judge.",
        evidence,
    )
