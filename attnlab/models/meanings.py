"""Which of its meanings the vector of a word lies nearer to, layer by layer.

The measures of lesson 14, on the vectors of ``attnlab.models.pretrained.load_encoder``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab.checks import (
    check_exact_ndim,
    check_floating,
    check_list,
    check_tensor,
    check_type,
    shape,
    short,
)
from attnlab.display.texts import check_text
from attnlab.models.pretrained import Edit, PretrainedEncoder


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
    >>> from attnlab.models.pretrained import load_encoder
    >>> vectors_of(load_encoder(), "bank", ["we swam to the bank", "the bank lends money"]).shape
    torch.Size([2, 7, 384])
    """
    check_type("encoder", encoder, PretrainedEncoder, "a PretrainedEncoder from load_encoder()")
    check_text("word", word)
    check_list("sentences", sentences, "a list of texts")
    if not sentences:
        raise ValueError("sentences must hold at least one text, got none.")
    tokens = [_tokens_with(encoder, word, sentence) for sentence in sentences]
    vector_of: dict[int, Tensor] = {}
    for length in sorted({*map(len, tokens)}):
        numbers = [number for number, pieces in enumerate(tokens) if len(pieces) == length]
        x = torch.cat([encoder.embed(tokens[number]) for number in numbers])  # (n, L, 384)
        vectors, _ = encoder.encode(x, edit=edit)
        vector_of |= {n: vectors[:, row, tokens[n].index(word)] for row, n in enumerate(numbers)}
    return torch.stack([vector_of[number] for number in range(len(tokens))])


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
    if vectors.shape[-2:] != others.shape[1:]:
        raise ValueError(
            f"vectors must have shape (..., {others.shape[1]}, {others.shape[2]}) as others have, "
            f"got {shape(vectors)}."
        )
    first, second = others[is_first].mean(dim=0), others[~is_first].mean(dim=0)  # (7, E)
    cosine = torch.nn.functional.cosine_similarity
    return cosine(vectors, first, dim=-1) - cosine(vectors, second, dim=-1)


def _check_known(name: str, vectors: Tensor, is_first: Tensor) -> None:
    check_exact_ndim(name, vectors, "(N, 7, E)", ndim=3, fix="use vectors_of.")
    check_floating(name, vectors)
    check_tensor("is_first", is_first)
    if is_first.dtype != torch.bool or is_first.shape != vectors.shape[:1]:
        raise ValueError(
            f"is_first must be torch.bool of shape ({len(vectors)},), one for each of {name}, "
            f"got {is_first.dtype} {shape(is_first)}."
        )
    first = int(is_first.sum())
    if first in (0, len(is_first)):
        raise ValueError(
            "is_first must be True and False at least once each, "
            f"got {first} and {len(is_first) - first} times."
        )
