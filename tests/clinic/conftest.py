"""What the tests of the clinic share: an error of the clinic itself is never only a note."""

import pytest

from attnlab.clinic._results import Results


@pytest.fixture(autouse=True)
def errors_of_the_clinic_are_raised(monkeypatch):
    """Raise what the clinic would report as a note, so that a broken probe fails its test."""

    def fail(results: Results, error: Exception, sentence: str) -> None:
        raise error

    monkeypatch.setattr(Results, "failed", fail)
