"""What the tests of the checks assert of a verdict, and tests from tables of answers."""

import pytest
import torch
from torch.overrides import _get_current_function_mode_stack as function_modes
from torch.utils._python_dispatch import _get_current_dispatch_mode

from attnlab import exercises


def state_of_torch():
    """Return what no check may change."""
    switches = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()
    modes = function_modes(), _get_current_dispatch_mode()
    return torch.random.get_rng_state().tolist(), switches, modes


def refused(check, answer, *words):
    """Assert that a check refuses an answer and says why; return the verdict."""
    verdict = check(answer)
    assert (verdict.done, verdict.ok) == (True, False), repr(verdict)
    for word in words:
        assert word in verdict.message, repr(verdict)
    return verdict


def accepted(check, answer):
    """Assert that a check accepts an answer, always with the same words, and changes nothing."""
    before = state_of_torch()
    verdict = check(answer)
    assert (verdict.done, verdict.ok) == (True, True), repr(verdict)
    assert "\n" not in verdict.message
    assert repr(check(answer)) == repr(verdict)
    assert state_of_torch() == before
    return verdict


def accepts(answers):
    """Return a test that every check accepts its answers: {name: [answer, ...]}."""

    @pytest.mark.parametrize("check", answers)
    def test(check):
        for answer in answers[check]:
            accepted(getattr(exercises, check), answer)

    return test


def names(answers):
    """Return a test that every check names the mistakes: {name: {words: answer}}.

    A tuple of words must be in the message together.
    """

    @pytest.mark.parametrize("check", answers)
    def test(check):
        for words, answer in answers[check].items():
            refused(
                getattr(exercises, check),
                answer,
                *(words if isinstance(words, tuple) else (words,)),
            )

    return test
