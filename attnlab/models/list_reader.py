"""Lists of animals and numbers with questions, and a small trained model that answers them.

A token is an entry, an animal with a number (``cat 4``), or a question (``cat?``), which asks for
the number that was recorded last for its animal. The models of lesson 11 and their runs were made
by ``data/make_train_short_test_long.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.checks import check_exact_ndim, check_size
from attnlab.layers.modules import MultiHeadAttention
from attnlab.models.store import load_model, load_tensors

ANIMALS = ("cat", "cow", "dog", "owl")
NUMBERS = 8
FEATURES = 2 * len(ANIMALS) + NUMBERS  # of an entry: animal and number; of a question: animal
EMBED_DIM, NUM_HEADS = 64, 4
NO_ANSWER = -100  # what cross_entropy does not count


class Lists(NamedTuple):
    """Lists of entries and questions.

    Attributes
    ----------
    tokens : Tensor, shape (N, L, FEATURES)
        Zeros and ones. The last token of every list is a question.
    answers : Tensor of int64, shape (N, L)
        The number to be named; ``NO_ANSWER`` at entries and where the animal has no entry yet.
    entries : Tensor of int64, shape (N, L)
        How many entries the animal of each token has so far.
    back : Tensor of int64, shape (N, L)
        How many tokens back the last of these entries is.
    """

    tokens: Tensor
    answers: Tensor
    entries: Tensor
    back: Tensor


class ListReader(nn.Module):
    """A linear layer that reads the tokens, one layer of attention, and one that names a number.

    It has no ``forward``: lesson 11 puts positions between its parts.

    Attributes
    ----------
    embed, read : torch.nn.Linear
        From FEATURES to 64 features, and from these to a logit for each number.
    attention : MultiHeadAttention
        With four heads of 16 features.

    See Also
    --------
    load_list_reader : the trained one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.read = nn.Linear(FEATURES, EMBED_DIM), nn.Linear(EMBED_DIM, NUMBERS)
        self.attention = MultiHeadAttention(EMBED_DIM, NUM_HEADS)


def load_list_reader() -> ListReader:
    """Return a model that was trained with rotary positions (pairs, base 10,000) on 16 tokens.

    Returns
    -------
    ListReader
        In evaluation mode, its parameters without gradients. Every call makes a new one.

    See Also
    --------
    make_lists : lists like those it was trained on.

    Examples
    --------
    >>> load_list_reader().attention.q_proj
    Linear(in_features=64, out_features=64, bias=True)
    """
    stored = load_tensors("list_reader.safetensors")
    return load_model(ListReader, {name: weight.float() for name, weight in stored.items()})


def make_lists(count: int, length: int, *, generator: torch.Generator | None = None) -> Lists:
    """Return random lists; half of their tokens are questions, and the last one always is.

    Parameters
    ----------
    count, length : int
        How many lists N, and how many tokens L each of them has.
    generator : torch.Generator, optional
        The source of the random numbers; torch's own if not given.

    Returns
    -------
    Lists
        ``tokens`` (N, L, FEATURES), ``answers``, ``entries`` and ``back``, (N, L) each.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer.

    See Also
    --------
    to_words : a list as a person would write it.

    Examples
    --------
    >>> lists = make_lists(1, 5, generator=torch.Generator().manual_seed(1))
    >>> to_words(lists.tokens[0]), lists.answers[0].tolist()
    (['cow 1', 'owl 3', 'cat 5', 'cat?', 'owl?'], [-100, -100, -100, 5, 3])
    """
    count = check_size("count", count, at_least=1)
    length = check_size("length", length, at_least=1)
    animal = torch.randint(len(ANIMALS), (count, length), generator=generator)
    number = torch.randint(NUMBERS, (count, length), generator=generator)
    asks = torch.rand(count, length, generator=generator) < 0.5
    asks[:, -1] = True
    name, entry = F.one_hot(animal, len(ANIMALS)), ~asks[..., None]
    tokens = torch.cat([name * entry, F.one_hot(number, NUMBERS) * entry, name * ~entry], dim=-1)
    places = torch.arange(1, length + 1)[:, None]
    last = (name * entry * places).cummax(dim=1).values  # (N, L, animals), from 1; 0: none yet
    so_far = (name * entry).cumsum(dim=1)  # (N, L, animals)
    last, entries = (scores.gather(-1, animal[..., None])[..., 0] for scores in (last, so_far))
    answers = number.gather(1, (last - 1).clamp(min=0))
    answers = answers.masked_fill(~asks | (entries == 0), NO_ANSWER)
    return Lists(tokens.float(), answers, entries, places[:, 0] - last)


def to_words(tokens: Tensor) -> list[str]:
    """Return the tokens of one list in words, such as ``cat 4`` and ``cat?``.

    Parameters
    ----------
    tokens : Tensor, shape (L, FEATURES)
        One of the lists of ``make_lists``.

    Returns
    -------
    list of str
        One text for each token.

    Raises
    ------
    TypeError, ValueError
        If ``tokens`` is not such a tensor.

    See Also
    --------
    make_lists : makes them.
    """
    check_exact_ndim(
        "tokens", tokens, "(L, FEATURES)", ndim=2, fix="for one of several lists use tokens[0]."
    )
    words = []
    for name, number, asked in zip(*tokens.split([4, NUMBERS, 4], dim=-1), strict=True):
        if asked.any():
            words.append(f"{ANIMALS[asked.argmax()]}?")
        else:
            words.append(f"{ANIMALS[name.argmax()]} {number.argmax()}")
    return words
