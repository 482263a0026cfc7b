"""Find and read the small input files of the lessons."""

from __future__ import annotations

import csv
from html import escape
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.checks import short
from attnlab.display.texts import check_text

PACKAGE = Path(__file__).parent.parent
FOLDERS = (PACKAGE / "_data", PACKAGE.parent / "data")  # installed from a wheel; in a checkout


class Table(NamedTuple):
    """A table of numbers with a name for each row and column; a notebook shows it as one.

    Attributes
    ----------
    tokens : list of str
        Row labels, L of them.
    features : list of str
        Column labels, E of them.
    values : Tensor of float32, shape (L, E)
        The numbers.
    """

    tokens: list[str]
    features: list[str]
    values: Tensor

    def __repr__(self) -> str:
        rows = self._cells()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(" ".join(map(str.rjust, row, widths)) for row in rows)

    def _repr_html_(self) -> str:
        (_, *head), *body = [[escape(cell) for cell in row] for row in self._cells()]
        heads = "".join(f"<th>{name}</th>" for name in head)
        rows = (f"<tr><th>{row[0]}</th><td>{'</td><td>'.join(row[1:])}</td></tr>" for row in body)
        return f"<table><tr><th></th>{heads}</tr>{''.join(rows)}</table>"

    def _cells(self) -> list[list[str]]:
        """Return names and numbers as text, the numbers with two decimals."""
        rows = zip(self.tokens, self.values.tolist(), strict=True)
        return [["", *self.features], *([name, *(f"{v:.2f}" for v in row)] for name, row in rows)]


def data_path(name: str) -> Path:
    """Return the path of a file of ``data/``, in a checkout or in an installed attnlab.

    Parameters
    ----------
    name : str
        File name, such as ``"he_is_awesome.csv"``.

    Returns
    -------
    pathlib.Path
        An existing file.

    Raises
    ------
    TypeError
        If ``name`` is not a string.
    FileNotFoundError
        If there is no such file; the message names those that exist.

    See Also
    --------
    load_table : reads a table of numbers.

    Examples
    --------
    >>> data_path("he_is_awesome.csv").name
    'he_is_awesome.csv'
    """
    check_text("name", name)
    for folder in FOLDERS:
        if (folder / name).is_file():
            return folder / name
    known = sorted({path.name for folder in FOLDERS for path in folder.glob("*.csv")})
    raise FileNotFoundError(
        f"there is no data file with the name {short(name)}; known files: {', '.join(known)}."
    )


def load_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of ``data/`` that holds texts, each by the names of the columns.

    FileNotFoundError is raised as by ``data_path``.
    """
    with data_path(name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def load_table(name: str) -> Table:
    """Return a table of ``data/``: tokens as row labels, features as columns.

    Parameters
    ----------
    name : str
        File name, such as ``"he_is_awesome.csv"``.

    Returns
    -------
    Table
        ``tokens``, ``features`` and ``values`` (L, E), float32.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a row has another number of columns than the header, or holds something other than
        numbers.

    See Also
    --------
    torch.tensor : from numbers that are already in Python.

    Examples
    --------
    >>> load_table("he_is_awesome.csv").tokens
    ['He', 'is', 'awesome']
    """
    path = data_path(name)
    with path.open(newline="", encoding="utf-8") as file:
        (_, *features), *rows = csv.reader(file)
    try:
        values = torch.tensor([[float(cell) for cell in cells] for _, *cells in rows])
    except ValueError as error:
        raise ValueError(
            f"{name} must hold numbers, as many in each row, got: {error}; "
            "read a file of texts with csv.reader."
        ) from None
    return Table([row[0] for row in rows], features, values)
