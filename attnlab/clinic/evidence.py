"""Evidence: a small table of numbers that shows a bug, as text and as HTML."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from torch import Tensor

from attnlab.palette import EDGE, ink_on, shade, to_hex

TOTALS = "sum"  # a row or a column of this name holds totals, which are not weights

# Written into every element, because notebooks are also read where style sheets are removed.
TABLE = "border-collapse:collapse;margin:0;font-size:clamp(13px,3.2vw,15px);color:inherit"
CAPTION = "caption-side:top;text-align:left;padding:2px 0 6px;font-size:15px;color:inherit"
CELL = (
    f"padding:5px clamp(4px,2vw,9px);border:1px solid {EDGE};text-align:right;white-space:nowrap;"
    "max-width:none;font-variant-numeric:tabular-nums"
)
ROW = '<tr style="background:transparent">{}</tr>'  # JupyterLab stripes the rows of tables
NOT_FINITE = "font-weight:700;outline:2px solid currentColor;outline-offset:-3px"


@dataclass(frozen=True)
class Evidence:
    """The smallest table that shows a bug.

    Attributes
    ----------
    caption : str
        What the numbers are.
    values : Tensor, shape (R, C)
        The numbers.
    rows, columns : tuple of str
        Their labels.
    shaded : bool
        Whether to colour the cells by their value: for weights, from 0 to 1.
    """

    caption: str
    values: Tensor
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    shaded: bool = False

    def cells(self) -> list[list[str]]:
        """Return the numbers as text, short enough to read."""
        return [[_number(value) for value in row] for row in self.values.tolist()]

    def __str__(self) -> str:
        lines = [["", *self.columns]]
        lines += [[name, *row] for name, row in zip(self.rows, self.cells(), strict=True)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in lines
        ]
        return "\n".join([self.caption, *text])

    def _repr_html_(self) -> str:
        head = [f'<th scope="col" style="{CELL}">{escape(name)}</th>' for name in self.columns]
        rows = [ROW.format(f'<td style="{CELL}"></td>{"".join(head)}')]
        for name, values, texts in zip(self.rows, self.values.tolist(), self.cells(), strict=True):
            cells = [f'<th scope="row" style="{CELL};text-align:left">{escape(name)}</th>']
            for column, value, text in zip(self.columns, values, texts, strict=True):
                look = _look(value, self.shaded and TOTALS not in (name, column))
                cells.append(f'<td style="{CELL}{look}">{escape(text)}</td>')
            rows.append(ROW.format("".join(cells)))
        caption = escape(self.caption)
        return (
            '<div style="overflow-x:auto;margin:8px 0" role="region" tabindex="0" '
            f'aria-label="{caption}"><table style="{TABLE}"><caption style="{CAPTION}">{caption}'
            f"</caption>{''.join(rows)}</table></div>"
        )


def _look(value: float, shaded: bool) -> str:
    """Return what the style of a cell adds: the colour of a weight, a frame for NaN."""
    if not math.isfinite(value):
        return f";{NOT_FINITE}"
    colour = shade(value)
    return f";background:{to_hex(colour)};color:{ink_on(colour)}" if shaded else ""


def _number(value: float) -> str:
    if value != value or abs(value) == float("inf"):
        return "NaN" if value != value else str(value)
    if math.isclose(value, round(value), rel_tol=1e-6) and abs(value) < 1e6:  # but for rounding
        return str(round(value))
    if abs(value) >= 1e4 or abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:.3f}"
