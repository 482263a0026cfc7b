"""The sweep through the positions of every control can fail; tools.strict_nbval runs it."""

from __future__ import annotations

from itertools import count

import pytest

from attnlab.live import live
from tools.sweep_controls import sweep_figures


def figure_that_writes(text):
    def draw(fig, d_k, bold):
        fig.text(0.5, 0.5, text(d_k), weight="bold" if bold else "normal")

    return live(draw, d_k=[1, 2, 0], bold=False, figsize=(2, 1))


def test_a_good_figure_passes() -> None:
    assert sweep_figures([figure_that_writes(str)]) == 5


def test_a_drawing_that_fails_at_its_last_stop_is_noticed() -> None:
    with pytest.raises(AssertionError, match="division by zero"):
        sweep_figures([figure_that_writes(lambda d_k: str(1 / d_k))])


def test_a_control_that_changes_nothing_is_noticed() -> None:
    with pytest.raises(AssertionError, match="d_k never changes the picture"):
        sweep_figures([figure_that_writes(lambda d_k: "always the same")])


def test_a_picture_that_does_not_come_back_is_noticed() -> None:
    calls = count()
    with pytest.raises(AssertionError, match="d_k back at 1 looks different"):
        sweep_figures([figure_that_writes(lambda d_k: str(next(calls)))])
