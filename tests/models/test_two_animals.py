"""The lists of lesson 7, against plain Python."""

import pytest
import torch

from attnlab.models.two_animals import ANIMALS, ask, to_words, two_animals

LIST = {"cat": 3, "dog": 7, "owl": 0, "fox": 5, "bat": 1}


def test_answers_are_those_of_reading_the_words():
    tokens, answers = two_animals(300, torch.Generator().manual_seed(0))
    places = []
    for one, answer in zip(tokens, answers.tolist(), strict=True):
        *entries, question = to_words(one)
        recorded = {animal: int(number) for animal, number in map(str.split, entries)}
        asked = question.removesuffix("?").split(", ")
        assert len(recorded) == 5
        assert len({*asked}) == 2
        assert [recorded[animal] for animal in asked] == answer
        places += [(*recorded,).index(animal) for animal in asked]
        assert torch.equal(ask(recorded, *asked)[0], one)
    assert [min(places.count(i) for i in range(5)) > 90, {*places}] == [True, {*range(5)}]


def test_tokens_are_zeros_and_ones_of_the_default_dtype():
    tokens, answers = two_animals(7)
    assert tokens.shape == (7, 6, 32)
    assert tokens.dtype == torch.float32
    assert answers.dtype == torch.int64
    assert tokens.sum(dim=-1).tolist() == [[2.0] * 6] * 7
    assert tokens[:, :5, 16:].sum() == tokens[:, 5, :16].sum() == 0
    torch.set_default_dtype(torch.float64)
    try:
        assert two_animals(1)[0].dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_generator_is_used_and_nothing_else():
    torch.manual_seed(0)
    first, second = (two_animals(5, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.initial_seed() == 0


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: two_animals(0), ValueError, "count must be at least 1, got 0"),
        (lambda: two_animals(1.5), TypeError, "count must be an integer"),
        (lambda: ask({"cat": 1}, "cat", "cat"), ValueError, "must name 5 animals, got 1"),
        (lambda: ask(LIST, "owl", "yak"), ValueError, f"one of {', '.join(ANIMALS)}, got 'yak'"),
        (lambda: ask({**LIST, "cat": 8}, "owl", "cat"), ValueError, "from 0 to 7, got 8"),
        (lambda: to_words(torch.zeros(1, 6, 32)), ValueError, "use tokens[0]"),
    ],
)
def test_bad_calls(call, error, told):
    with pytest.raises(error) as raised:
        call()
    assert told in str(raised.value)
