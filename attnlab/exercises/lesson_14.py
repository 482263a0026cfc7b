"""The checks of lesson 14: where a meaning appears."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import torch
from torch import Tensor

from attnlab.data import data_path
from attnlab.exercises import _voice
from attnlab.exercises._answers import Right, Wrong, choice, table
from attnlab.exercises._forms import Compared, Either, Found, Value, randoms
from attnlab.meanings import lean, leans, vectors_of, wilson_interval
from attnlab.pretrained import PretrainedEncoder, load_encoder

# --- enough sentences -----------------------------------------------------------------------------

RATE = 0.9
NEEDED = next(n for n in range(1, 1000) if wilson_interval(n, n)[0] > RATE)


@Value(
    right=NEEDED,
    slips={
        "That is one too few, because the interval still reaches just below 0.9.": NEEDED - 1,
        "With ten sentences, the interval reaches far below 0.9. Try wilson_interval(10, 10).": 10,
        "That is the rule of three, which gives another interval. Try wilson_interval.": Either(
            29, 30
        ),
    },
    verified="With one sentence fewer, the interval reaches below 0.9, although none was wrong.",
    otherwise=lambda n: (
        "The interval still reaches below 0.9."
        if n < NEEDED
        else "A smaller number of sentences is enough."
    ),
)
def check_needed_sentences(_count: float) -> None:
    """Check how many sentences, all right, lift the interval of Wilson above 0.9.

    Verified: the number.

    Parameters
    ----------
    answer
        The number, or a function without arguments that returns it.

    See Also
    --------
    attnlab.meanings.wilson_interval : the interval.
    """


# --- every sentence left out ----------------------------------------------------------------------


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosine of the angle between vectors."""
    return torch.nn.functional.cosine_similarity(a, b, dim=-1)


def by(
    similarity: Callable[[Tensor, Tensor], Tensor] = cosine,
    *,
    included: bool = False,
    total: bool = False,
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that computes leans, with some mistakes."""

    def computed(vectors: Tensor, is_first: Tensor) -> Tensor:
        number, found = torch.arange(len(vectors)), []
        for i, one in enumerate(vectors):
            rest = (number != i) | included
            sides = vectors[rest & is_first], vectors[rest & ~is_first]
            if not total:
                sides = tuple(side.mean(dim=0, keepdim=True) for side in sides)
            first, second = (similarity(one, side).mean(dim=0) for side in sides)
            found.append(first - second)
        return torch.stack(found)

    return computed


@Compared(
    right=leans,
    what="leans",
    slips={
        "The sentence itself is part of its mean. Leave it out.": by(included=True),
        "The signs are reversed. A lean above 0 must mean that it is nearer to the first "
        "meaning.": (lambda vectors, is_first: -leans(vectors, is_first)),
        "These are differences of dot products, but the lean is a difference of cosines.": by(
            lambda a, b: (a * b).sum(dim=-1)
        ),
        "These are means of cosines with each sentence. Take the cosine with the mean of the "
        "vectors.": by(total=True),
    },
    otherwise="For sentence i, take the means of all other sentences, and then two cosines.",
    verified="Every sentence is compared with means that it is not part of.",
    axes=("sentence", "place"),
    keeps_inputs=True,
)
def check_left_out() -> Iterator[tuple[str, tuple]]:
    """Check the leans of all sentences, each by the means of the others.

    Verified: shape and numbers, for two sizes, with meanings of unequal size.

    Parameters
    ----------
    answer
        A function of vectors (N, 7, E) and a bool tensor (N,) that returns (N, 7).

    See Also
    --------
    attnlab.meanings.leans : the same.
    """
    for count, size in ((7, 5), (6, 3)):
        (vectors,) = randoms((count, 7, size), seed=count)
        is_first = torch.arange(count) % 3 > 0
        yield f"vectors {(count, 7, size)}", (vectors + 0.5, is_first)


# --- a head is removed ----------------------------------------------------------------------------

LAYER, HEAD, L = 1, 3, 6


def gone(*where: object, layers: Sequence[int] = (LAYER,), value: float = 0.0) -> Callable:
    """Return an edit that puts a number where a part of the weights was."""

    def edit(layer: int, weights: Tensor) -> Tensor:
        new = weights.clone()
        if layer in layers:
            new[where] = value
        return new

    return edit


ALL = slice(None)
EVERY = range(6)


@Compared(
    right=gone(ALL, HEAD),
    what="weights",
    slips={
        "Layers are counted from 0, so the second layer has the number 1.": gone(
            ALL, HEAD, layers=(2,)
        ),
        "The head is removed in every layer. Look at the number of the layer first.": gone(
            ALL, HEAD, layers=EVERY
        ),
        "Axis 2 holds the queries, so a token has lost its weights in all heads. The heads are on "
        "axis 1.": gone(ALL, ALL, HEAD),
        "Axis 3 holds the keys, so one token gets no weight. The heads are on axis 1.": gone(
            ALL, ALL, ALL, HEAD
        ),
        "-inf belongs in scores. These are weights, after the softmax, so set them to 0.": gone(
            ALL, HEAD, value=-torch.inf
        ),
    },
    otherwise="Set head 3 of the second layer to 0, and leave all other weights as they are.",
    verified="Head 3 of the second layer is removed, and no other weight has changed.",
    axes=("sequence", "head", "query", "key"),
)
def check_removed_head() -> Iterator[tuple[str, tuple]]:
    """Check an edit that removes one head of one layer.

    Verified: the weights of all six layers, for random weights.

    Parameters
    ----------
    answer
        A function of a layer's number and its weights (N, H, L, L) that returns weights.

    See Also
    --------
    attnlab.pretrained.PretrainedEncoder.read : calls it in every layer.
    """
    for layer in (0, 2, LAYER, 3, 4, 5):  # so that each mistake shows by itself
        (scores,) = randoms((2, 12, L, L), seed=layer)
        yield f"layer {layer}", (layer, scores.softmax(dim=-1))


# --- a sentence that the means get wrong ----------------------------------------------------------

WANTED = 'a sentence and its meaning, for example ("we swam to the bank", "river")'
MEANINGS = ("river", "money")


@cache
def encoder() -> PretrainedEncoder:
    """Return the encoder, which no check changes."""
    return load_encoder()


@cache
def banks() -> tuple[frozenset[str], Tensor, Tensor]:
    """Return the sentences of the lesson, their vectors and where they are about a river."""
    with data_path("bank_sentences.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    sentences = [row["sentence"] for row in rows]
    is_river = torch.tensor([row["meaning"] == "river" for row in rows])
    with torch.no_grad():
        return frozenset(sentences), vectors_of(encoder(), "bank", sentences), is_river


def sentence_and_meaning(value: object) -> tuple[str, str]:
    """Read a sentence and one of the two meanings."""
    match value:
        case (str(sentence), meaning):
            return sentence, choice(meaning, MEANINGS)
    raise Wrong(_voice.returned(_voice.kind_of(value), WANTED))


@Found(
    read=sentence_and_meaning,
)
def check_fooling_sentence(found: tuple[str, str]) -> Right:
    """Check a sentence whose "bank" leans to the wrong side after the last layer.

    Verified: the lean, by the means of the 35 sentences. That the meaning is as told cannot be
    verified.

    Parameters
    ----------
    answer
        A tuple (sentence, meaning), or a function without arguments that returns it.

    See Also
    --------
    attnlab.meanings.lean : measures it.
    """
    sentence, meaning = found
    known, vectors, is_river = banks()
    if sentence.lower().strip(" .!?") in known:
        raise Wrong("This is one of the 35 sentences. Write one of your own.")
    try:
        if (count := encoder().tokens(sentence).count("bank")) != 1:
            raise Wrong(f"The sentence must contain the word “bank” once, not {count} times.")
        with torch.no_grad():
            (leans_at,) = lean(vectors_of(encoder(), "bank", [sentence]), vectors, is_river)
    except ValueError as error:
        raise Wrong(f"The model cannot use this sentence: {error}") from None
    places = ["before", *(f"after {layer}" for layer in range(1, 7))]
    evidence = table("Lean to the river:", {"lean": leans_at.tolist()}, places)
    other = MEANINGS[1 - MEANINGS.index(meaning)]
    if (leans_at[-1] > 0) == (meaning == "river"):
        raise Wrong(
            f"After layer 6, “bank” leans to {meaning}, as you say it should. Add words that go "
            f"with {other}.",
            evidence,
        )
    return Right(
        f"After layer 6, “bank” leans to {other}. Whether every reader takes it for {meaning} is "
        "for you to judge.",
        evidence,
    )
