"""What a notebook shows: how a lesson begins, figures, folded answers, tables, diagrams."""

from attnlab.display.diagrams import diagram
from attnlab.display.figure import ShownFigure, picture_html, pictures_in, show_figure
from attnlab.display.folds import unfold
from attnlab.display.setup import STYLE_FILE, lesson_setup
from attnlab.display.stored import BUNDLE, Storable, is_static
from attnlab.display.table import Table, data_path, load_table

__all__ = [
    "BUNDLE",
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
    "pictures_in",
    "show_figure",
    "unfold",
]
