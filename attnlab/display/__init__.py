"""What a notebook shows: how a lesson begins, figures, folded answers, tables, diagrams."""

from attnlab.display.diagrams import diagram
from attnlab.display.figure import ShownFigure, picture_html, show_figure
from attnlab.display.setup import STYLE_FILE, lesson_setup
from attnlab.display.stored import Storable, is_static
from attnlab.display.table import Table, data_path, load_table

__all__ = [
    "STYLE_FILE",
    "ShownFigure",
    "Storable",
    "Table",
    "data_path",
    "diagram",
    "is_static",
    "lesson_setup",
    "load_table",
    "picture_html",
    "show_figure",
]
