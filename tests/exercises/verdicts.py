"""What the tests of the checks assert of a verdict."""

import torch


def refused(check, answer, *words):
    """Assert that a check refuses an answer and names why; return the verdict."""
    verdict = check(answer)
    assert verdict.done
    assert not verdict.ok, repr(verdict)
    for word in words:
        assert word in verdict.message
    assert "Not yet right" in verdict._repr_html_()
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
    one, two = check(answer), check(answer)
    assert ": right. " in repr(one), repr(one)
    assert torch.equal(before, torch.random.get_rng_state())
    assert repr(one) == repr(two)
    assert one._repr_html_() == two._repr_html_()
