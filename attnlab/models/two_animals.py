"""Lists of animals, each with a number, and questions that ask for the numbers of two of them.

A list has five entries (``cat 3``) and a sixth token, the question (``owl, dog?``). Its answer is
the number of the first animal, then that of the second. Lesson 7 trains layers to answer.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.checks import check_exact_ndim, check_size, short

ANIMALS = ("ant", "bat", "cat", "cow", "dog", "elk", "fox", "owl")
NUMBERS = 8
ENTRIES = 5
FEATURES = 32  # animal and number of an entry, and the two animals of a question: 8 each


def two_animals(count: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Return random lists of animals with a question each, and their answers.

    Parameters
    ----------
    count : int
        How many lists N.
    generator : torch.Generator, optional
        The source of the random numbers; torch's own if not given.

    Returns
    -------
    tokens : Tensor, shape (N, 6, 32)
        Zeros and ones. In an entry, the first 8 features name the animal and the next 8 its number.
        In the question, which comes last, features 16 to 23 name the first animal and 24 to 31 the
        second. The animals of a list all differ; their numbers need not.
    answers : Tensor of int64, shape (N, 2)
        The number of the first animal that is asked for, and that of the second.

    Raises
    ------
    TypeError, ValueError
        If ``count`` is not a positive integer.

    See Also
    --------
    ask : the tokens of one list of your own.
    to_words : a list as a person would write it.

    Examples
    --------
    >>> tokens, answers = two_animals(1, torch.Generator().manual_seed(0))
    >>> to_words(tokens[0]), answers[0].tolist()
    (['cat 1', 'cow 3', 'dog 5', 'fox 2', 'ant 4', 'cat, cow?'], [1, 3])
    """
    count = check_size("count", count, at_least=1)
    # argsort of random numbers gives a random order: of the animals, then of the entries
    animal = torch.rand(count, len(ANIMALS), generator=generator).argsort(dim=-1)[:, :ENTRIES]
    number = torch.randint(NUMBERS, (count, ENTRIES), generator=generator)
    asked = torch.rand(count, ENTRIES, generator=generator).argsort(dim=-1)[:, :2]
    return _encode(animal, number, animal.gather(1, asked)), number.gather(1, asked)


def ask(entries: Mapping[str, int], first: str, second: str) -> Tensor:
    """Return the tokens of a list of your own and of a question.

    Parameters
    ----------
    entries : mapping of str to int
        Five of the eight ``ANIMALS``, each with a number from 0 to 7.
    first, second : str
        The two animals of the question.

    Returns
    -------
    Tensor, shape (1, 6, 32)
        A batch of one list.

    Raises
    ------
    ValueError
        If there are not five entries, or an animal or a number is unknown.

    See Also
    --------
    two_animals : random ones.

    Examples
    --------
    >>> tokens = ask({"cat": 3, "dog": 7, "owl": 0, "fox": 5, "bat": 1}, "owl", "dog")
    >>> to_words(tokens[0])[2:]
    ['owl 0', 'fox 5', 'bat 1', 'owl, dog?']
    """
    if len(entries) != ENTRIES:
        raise ValueError(f"entries must name {ENTRIES} animals, got {len(entries)}.")
    for animal in (*entries, first, second):
        if animal not in ANIMALS:
            raise ValueError(f"an animal must be one of {', '.join(ANIMALS)}, got {short(animal)}.")
    for number in entries.values():
        if number not in range(NUMBERS):
            raise ValueError(f"a number must be from 0 to {NUMBERS - 1}, got {short(number)}.")
    animal = torch.tensor([[ANIMALS.index(one) for one in entries]])
    asked = torch.tensor([[ANIMALS.index(first), ANIMALS.index(second)]])
    return _encode(animal, torch.tensor([[*entries.values()]]), asked)


def to_words(tokens: Tensor) -> list[str]:
    """Return the tokens of one list in words, such as ``cat 3`` and ``owl, dog?``.

    Parameters
    ----------
    tokens : Tensor, shape (6, 32)
        One of the lists of ``two_animals``.

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
    two_animals : makes them.
    """
    check_exact_ndim("tokens", tokens, "(6, 32)", ndim=2, fix="for one of several use tokens[0].")
    animal, number, first, second = tokens.unflatten(-1, (4, 8)).argmax(dim=-1).T.tolist()
    entries = [f"{ANIMALS[animal[i]]} {number[i]}" for i in range(ENTRIES)]
    return [*entries, f"{ANIMALS[first[-1]]}, {ANIMALS[second[-1]]}?"]


def _encode(animal: Tensor, number: Tensor, asked: Tensor) -> Tensor:
    """Return tokens (N, 6, 32) of animals (N, 5), numbers (N, 5) and two animals asked (N, 2)."""
    tokens = torch.zeros(len(animal), ENTRIES + 1, FEATURES)
    tokens[:, :ENTRIES, :8] = F.one_hot(animal, 8)
    tokens[:, :ENTRIES, 8:16] = F.one_hot(number, 8)
    tokens[:, ENTRIES, 16:] = F.one_hot(asked, 8).flatten(1)
    return tokens
