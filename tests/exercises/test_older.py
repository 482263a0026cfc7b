"""A check says if it judges a function that is older than its cell."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from attnlab.exercises import _older, check_is_distribution

WRONG = "def is_distribution(row):\n    return True"
OLDER = "The cell that defines `is_distribution` ended in an error when you last ran it"


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()
    _older._older.clear()


@pytest.mark.parametrize(
    ("cell", "older"),
    [
        ("def is_distribution(row):\n    return row >", True),  # a syntax error
        ("1 / 0\ndef is_distribution(row):\n    return None", True),
        (f"{WRONG}\n1 / 0", False),  # the function is new, though the cell failed
        (WRONG, False),
        ("1 / 0", False),  # another cell
    ],
)
def test_the_older_function_is_named(shell, cell, older):
    _older.watch_cells()
    shell.run_cell(WRONG)
    shell.run_cell(cell)
    given = shell.user_ns["is_distribution"]
    assert check_is_distribution(given).message.startswith(OLDER) == older
    assert OLDER not in check_is_distribution(lambda row: True).message
    shell.run_cell(WRONG)
    assert OLDER not in check_is_distribution(shell.user_ns["is_distribution"]).message
