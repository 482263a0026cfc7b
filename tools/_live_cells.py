"""Find the cells of a lesson that its live figures need."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from nbformat import NotebookNode

from tools._lint_style import defined_names


def needed_for_live(cells: Sequence[NotebookNode]) -> list[int]:
    """Return which cells make the live figures: theirs, and those that define what they use.

    A cell that changes a value without giving it a name is not found: who draws by these cells
    alone must compare the pictures with those of a whole run.
    """
    wanted: set[str] = set()
    needed: list[int] = []
    for index, cell in reversed([*enumerate(cells)]):
        if cell.cell_type == "code":
            tree = ast.parse(cell.source)
            names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
            shows = any(name.id == "live" for name in names)
            if shows or {*defined_names(cell.source), *_imported_names(tree)} & wanted:
                needed.insert(0, index)
                wanted |= {name.id for name in names}
    return needed


def _imported_names(tree: ast.Module) -> set[str]:
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {alias.asname or alias.name.partition(".")[0] for i in imports for alias in i.names}
