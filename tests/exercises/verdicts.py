"""What the tests of the checks assert of a verdict, and tests from tables of answers."""

import pytest
import torch


def refused(check, answer, *words):
    """Assert that a check refuses an answer and says why; return the verdict."""
    verdict = check(answer)
    assert verdict.done
    assert not verdict.ok, repr(verdict)
    for word in words:
        assert word in verdict.message, repr(verdict)
    assert "Not yet correct" in verdict._repr_html_()
    return verdict


def accepted(check, answer):
    """Assert that a check accepts an answer, in one line; return the verdict."""
    verdict = check(answer)
    assert verdict.ok, repr(verdict)
    assert verdict.done
    assert "\n" not in verdict.message
    return verdict


def steady(check, answer):
    """Assert that a check says the same twice and leaves the random stream where it was."""
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, two = accepted(check, answer), check(answer)
    assert torch.equal(before, torch.random.get_rng_state())
    assert repr(one) == repr(two)
    assert one._repr_html_() == two._repr_html_()


def accepts(answers):
    """Return a test that every check accepts its answers: {check: [answer, ...]}."""
    pairs = [(check, answer) for check, several in answers.items() for answer in several]

    @pytest.mark.parametrize(("check", "answer"), pairs, ids=[one.__name__ for one, _ in pairs])
    def test(check, answer):
        steady(check, answer)

    return test


def names(answers):
    """Return a test that every check names the mistakes: {check: {words: answer}}.

    A tuple of words must be in the message together.
    """
    triples = [
        (check, answer, words if isinstance(words, tuple) else (words,))
        for check, several in answers.items()
        for words, answer in several.items()
    ]
    ids = [f"{check.__name__}-{words[0]}" for check, _, words in triples]

    @pytest.mark.parametrize(("check", "answer", "words"), triples, ids=ids)
    def test(check, answer, words):
        refused(check, answer, *words)

    return test
