"""What a notebook shows: how a lesson begins, figures, folded answers, tables, diagrams."""

from attnlab.display.diagrams import diagram
from attnlab.display.figure import ShownFigure, show_figure
from attnlab.display.setup import lesson_setup
from attnlab.display.table import Table, data_path, load_table

__all__ = [
    "ShownFigure",
    "Table",
    "data_path",
    "diagram",
    "lesson_setup",
    "load_table",
    "show_figure",
]
