"""A check says if it judges a function that is older than its cell."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from attnlab.exercises import check_new_vector
from attnlab.exercises.frame import stale

WRONG = "def new_vector(query, x, hidden):\n    return query"
OLDER = "The cell that defines `new_vector` ended in an error when you last ran it"


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()
    stale._older.clear()


@pytest.mark.parametrize(
    ("cell", "older"),
    [
        ("def new_vector(query, x, hidden):\n    return x >", True),  # a syntax error
        ("1 / 0\ndef new_vector(query, x, hidden):\n    return None", True),
        (f"{WRONG}\n1 / 0", False),  # the function is new, though the cell failed
        (WRONG, False),
        ("1 / 0", False),  # another cell
    ],
)
def test_the_older_function_is_named(shell, cell, older):
    stale.watch_cells()
    shell.run_cell(WRONG)
    shell.run_cell(cell)
    given = shell.user_ns["new_vector"]
    assert check_new_vector(given).message.startswith(OLDER) == older
    assert OLDER not in check_new_vector(lambda query, x, hidden: query).message
    shell.run_cell(WRONG)
    assert OLDER not in check_new_vector(shell.user_ns["new_vector"]).message
