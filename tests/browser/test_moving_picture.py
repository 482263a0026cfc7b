"""The moving picture of the README is of a learner who guesses wrong and finds out."""

from attnlab.explorers import SoftLookupExplorer
from tools.publish.moving_picture import LOOK, POINTER, READ, Hand, play


def test_the_learner_guesses_drags_the_query_and_reads_the_answer(tab, tmp_path, monkeypatch):
    monkeypatch.setattr(Hand, "rest", lambda self, duration: (b"", duration))
    page = tab.show(tmp_path, POINTER, SoftLookupExplorer().to_html())
    durations = [duration for _, duration in play(page)]
    assert (durations[0], durations[-1]) == (READ, 2 * READ)
    assert LOOK in durations
    assert "You predicted exactly 5. Bird and spider" in page.locator(".gate.wrong").inner_text()
    assert "≈ 4.89 legs" in page.locator(".say").inner_text()
    assert tab.problems == []
