"""The words of explorers: where each one's stand, and what several say alike."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

TOKENS = ("The", "cat", "sat", "on", "the", "mat")
TABLE = "the_cat_sat_on_the_mat.csv"
TIE = 0.005  # weights closer than this to the largest are called as large, if they are not small
HALF = 1e-9  # added before rounding: halves go up, in the browser as here


def texts_beside(module: str) -> dict[str, object]:
    """Return what an explorer says: the TOML file that lies beside its module, empty if none does.

    It holds ``title`` and ``hint``; ``prediction``, the question that is asked first; and
    ``words``, the templates of its sentences, which Python and the browser fill with numbers.
    ``settled`` tells what must have been met before the answer is shown: for each name of the
    state, its values.
    """
    path = Path(module).with_suffix(".toml")
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def listed(words: Sequence[str]) -> str:
    """Return words as a list of a sentence: with commas, and "and" before the last."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def counted(number: int, word: str) -> str:
    """Return a number of things, such as "1 head" or "2 heads"."""
    return f"{number} {word}{'s' * (number != 1)}"


def decimals(value: float) -> str:
    """Return a number with two decimals, rounded as in the browser."""
    return f"{value + HALF:.2f}"


def largest(weights: Sequence[float]) -> list[int]:
    """Return the places of the largest weight: several if there is a tie."""
    most = max(weights)
    low = most - min(TIE, most / 4)
    return [place for place, weight in enumerate(weights) if weight > low or weight == most]
