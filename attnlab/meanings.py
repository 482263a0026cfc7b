"""Which of its meanings the vector of a word lies nearer to, layer by layer.

The measures of lesson 14, on the vectors of ``attnlab.pretrained.load_encoder``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab._checks import (
    check_exact_ndim,
    check_floating,
    check_list,
    check_same_device,
    check_size,
    check_tensor,
    check_text,
    check_type,
    shape,
    short,
)
from attnlab.pretrained import Edit, PretrainedEncoder

NORMAL_95 = 1.959964  # 95 % of a normal distribution lie within so many standard deviations


def vectors_of(
    encoder: PretrainedEncoder, word: str, sentences: Sequence[str], *, edit: Edit | None = None
) -> Tensor:
    """Return the vectors of a word in some sentences, before the first layer and after each.

    Parameters
    ----------
    encoder : PretrainedEncoder
        From ``load_encoder``.
    word : str
        In lower case; one piece of the vocabulary.
    sentences : sequence of str, N of them
        Each holds the word once.
    edit : function, optional
        As for ``PretrainedEncoder.read``. Sentences of the same length are read together, so it
        gets weights of shape (n, 12, L, L).

    Returns
    -------
    Tensor, shape (N, 7, 384)
        One vector for each sentence and each place between the layers.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type, there is no sentence, or one of them does not hold the
        word once.

    See Also
    --------
    lean : which meaning they lie nearer to.

    Examples
    --------
    >>> from attnlab.pretrained import load_encoder
    >>> vectors_of(load_encoder(), "bank", ["we swam to the bank", "the bank lends money"]).shape
    torch.Size([2, 7, 384])
    """
    check_type("encoder", encoder, PretrainedEncoder, "a PretrainedEncoder from load_encoder()")
    check_text("word", word)
    check_list("sentences", sentences, "a list of texts")
    if not sentences:
        raise ValueError("sentences must hold at least one text, got none.")
    tokens = [_tokens_with(encoder, word, sentence) for sentence in sentences]
    found: dict[int, Tensor] = {}
    for length in sorted({*map(len, tokens)}):
        numbers = [number for number, one in enumerate(tokens) if len(one) == length]
        x = torch.cat([encoder.embed(tokens[number]) for number in numbers])  # (n, L, 384)
        vectors, _ = encoder.encode(x, edit=edit)
        found |= {n: vectors[:, row, tokens[n].index(word)] for row, n in enumerate(numbers)}
    return torch.stack([found[number] for number in range(len(tokens))])


def _tokens_with(encoder: PretrainedEncoder, word: str, sentence: str) -> list[str]:
    """Return the tokens of a sentence, one of which must be the word."""
    check_type("sentences", sentence, str, "texts")
    tokens = encoder.tokens(sentence)
    if tokens.count(word) != 1:
        raise ValueError(
            f"sentences must hold the word {word!r} once as a piece, got "
            f"{tokens.count(word)} in {short(sentence)}."
        )
    return tokens


def lean(vectors: Tensor, others: Tensor, is_first: Tensor) -> Tensor:
    """Return how much nearer vectors lie to the mean of one meaning than to that of the other.

    The cosine with the mean of the first meaning, minus the cosine with the mean of the second.

    Parameters
    ----------
    vectors : Tensor, shape (..., 7, E)
        Of one sentence or of several.
    others : Tensor, shape (N, 7, E)
        The vectors of the same word in sentences whose meaning is known.
    is_first : Tensor of bool, shape (N,)
        True where it is the first meaning.

    Returns
    -------
    Tensor, shape (..., 7)
        Above 0 if a vector lies nearer to the first meaning.

    Raises
    ------
    TypeError, ValueError
        If shapes or dtypes do not fit, or a meaning has no sentence.

    See Also
    --------
    vectors_of : gives such vectors.
    torch.nn.functional.cosine_similarity : what is subtracted.
    """
    _check_known("others", others, is_first)
    check_floating("vectors", vectors)
    check_same_device("vectors", vectors, "others", others)
    if vectors.shape[-2:] != others.shape[1:]:
        raise ValueError(
            f"vectors must have shape (..., {others.shape[1]}, {others.shape[2]}) as others have, "
            f"got {shape(vectors)}."
        )
    first, second = others[is_first].mean(dim=0), others[~is_first].mean(dim=0)  # (7, E)
    cosine = torch.nn.functional.cosine_similarity
    return cosine(vectors, first, dim=-1) - cosine(vectors, second, dim=-1)


def wilson_interval(correct: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of Wilson for a share of independent trials.

    Parameters
    ----------
    correct : int
        How many of them were right.
    total : int
        How many there were.

    Returns
    -------
    tuple of two floats
        The smallest and the largest share for which such a result would not be surprising. Unlike
        the usual interval, it stays between 0 and 1, and it is not empty if all or none are right.

    Raises
    ------
    TypeError, ValueError
        If the numbers are not integers, or ``correct`` is larger than ``total``.

    See Also
    --------
    torch.distributions.Binomial : how many are right by chance.

    References
    ----------
    Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of the
    American Statistical Association 22, 1927.

    Examples
    --------
    >>> [round(end, 2) for end in wilson_interval(33, 35)]
    [0.81, 0.98]
    """
    total = check_size("total", total, at_least=1)
    correct = check_size("correct", correct, at_least=0, at_most=total)
    z, share = NORMAL_95, correct / total
    middle = share + z * z / (2 * total)
    half = z * math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2)
    below, above = ((middle + side * half) / (1 + z * z / total) for side in (-1, 1))
    return max(0.0, below), min(1.0, above)


def _check_known(name: str, vectors: Tensor, is_first: Tensor) -> None:
    check_exact_ndim(name, vectors, "(N, 7, E)", ndim=3, fix="use vectors_of.")
    check_floating(name, vectors)
    check_tensor("is_first", is_first)
    if is_first.dtype != torch.bool:
        raise TypeError(f"is_first must be torch.bool, got {is_first.dtype}.")
    check_same_device("is_first", is_first, name, vectors)
    if is_first.shape != vectors.shape[:1]:
        raise ValueError(
            f"is_first must have shape ({len(vectors)},), one for each of {name}, "
            f"got {shape(is_first)}."
        )
    first = int(is_first.sum())
    if first in (0, len(is_first)):
        raise ValueError(
            "is_first must be True and False at least once each, "
            f"got {first} and {len(is_first) - first} times."
        )
