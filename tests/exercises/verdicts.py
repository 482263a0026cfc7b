"""What the tests of the checks assert of a verdict."""


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
