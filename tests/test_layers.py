"""The rooms of the package: who may import whom, how long a file may be, what an import costs."""

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "attnlab"

# module or folder: layer and what it may import beside torch and the standard library
DRAWING = {"matplotlib", "numpy"}
ROOMS: dict[str, tuple[int, set[str]]] = {
    "_checks": (0, set()),
    "palette": (0, set()),
    "masks": (1, set()),
    "heads": (1, set()),
    "diagnostics": (1, set()),
    "data": (1, {"safetensors"}),
    "attention": (2, set()),
    "tiled": (2, set()),
    "modules": (3, set()),
    "_cells": (3, DRAWING),
    "plotting": (4, DRAWING | {"seaborn"}),
    "display": (4, {"matplotlib"}),
    "diagrams": (4, DRAWING),
    "pretrained": (4, {"tokenizers"}),
    "clinic": (5, set()),
    "live": (5, DRAWING | {"ipywidgets", "PIL"}),
    "explorers": (6, DRAWING | {"anywidget", "traitlets", "ipywidgets", "seaborn"}),
    "exercises": (6, {"ipywidgets"}),
}
EXPORTED_LAYERS = (0, 1, 2, 3)  # what `import attnlab` itself may load

MAX_FILE, MAX_FUNCTION = 250, 40  # lines of code, without docstrings, comments and blank lines


# --- arrows point down ----------------------------------------------------------------------------


def imported(source: str) -> set[str]:
    """Return the dotted names that a source imports, inside functions as well."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            names.add("." * node.level)
        elif isinstance(node, ast.ImportFrom) and node.module == "attnlab":
            names |= {f"attnlab.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    return names


def wrong_import(room: str, name: str) -> str | None:
    """Say what is wrong with an import of ``name`` in ``room``; None if nothing is."""
    top, _, rest = name.partition(".")
    if not top:
        return "is relative: write it out"
    if top != "attnlab":
        free = top in sys.stdlib_module_names or top == "torch"
        allowed = free or (room != "__init__" and top in ROOMS[room][1])
        return None if allowed else "is not among what this module may import"
    target = rest.partition(".")[0]
    if target not in ROOMS:
        return "is no module with a layer"
    if room == "__init__":
        return None if ROOMS[target][0] in EXPORTED_LAYERS else "is not loaded by the package"
    if target == room:
        return None  # the files of one folder belong together
    if ROOMS[target][0] >= ROOMS[room][0]:
        return f"points up: layer {ROOMS[room][0]} imports layer {ROOMS[target][0]}"
    return None


def wrong_imports(sources: dict[str, str]) -> list[str]:
    """Return one sentence for every import that breaks the table; keys are paths."""
    found = []
    for path, source in sources.items():
        room = Path(path).parts[0].removesuffix(".py")
        if room != "__init__" and room not in ROOMS:
            found.append(f"{path} has no layer")
            continue
        complaints = [(name, wrong_import(room, name)) for name in sorted(imported(source))]
        found += [f"{path}: {name} {what}" for name, what in complaints if what]
    return found


def package_sources() -> dict[str, str]:
    return {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def test_every_import_of_the_package_points_down():
    sources = package_sources()
    assert "attention.py" in sources
    assert wrong_imports(sources) == []


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("masks.py", "from attnlab.attention import x", "layer 1 imports layer 2"),
        ("masks.py", "import attnlab.heads", "layer 1 imports layer 1"),
        ("attention.py", "from attnlab import modules", "layer 2 imports layer 3"),
        ("_checks.py", "def f():\n    from attnlab.masks import x", "layer 0 imports layer 1"),
        ("display.py", "from attnlab.plotting import x", "layer 4 imports layer 4"),
        ("clinic/probes.py", "from attnlab.explorers.base import x", "layer 5 imports layer 6"),
        ("heads.py", "from attnlab import causal_mask", "is no module with a layer"),
        ("heads.py", "import attnlab", "is no module with a layer"),
        ("heads.py", "from . import masks", "is relative"),
        ("heads.py", "from ._checks import x", "is relative"),
        ("masks.py", "import numpy as np", "not among what this module may import"),
        ("attention.py", "import matplotlib.pyplot", "not among what this module may import"),
        ("plotting.py", "from ipywidgets import x", "not among what this module may import"),
        ("diagrams.py", "import seaborn", "not among what this module may import"),
        ("__init__.py", "from attnlab.plotting import x", "is not loaded by the package"),
        ("__init__.py", "import numpy", "not among what this module may import"),
        ("novelty.py", "", "novelty.py has no layer"),
    ],
)
def test_a_wrong_import_is_found(path, source, complaint):
    (found,) = wrong_imports({path: source})
    assert complaint in found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("masks.py", "import math, torch.nn.functional\nfrom attnlab._checks import x"),
        ("clinic/probes.py", "from attnlab.clinic.report import x\nimport attnlab.modules"),
        ("plotting.py", "import seaborn as sns\nfrom attnlab.diagnostics import x"),
        ("__init__.py", "from attnlab.modules import x"),
        ("__init__.py", "from __future__ import annotations"),
    ],
)
def test_a_right_import_is_not_found(path, source):
    assert wrong_imports({path: source}) == []


# --- files and functions stay short ---------------------------------------------------------------


def code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code: no blank line, comment or docstring."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skipped and token.type != tokenize.ENDMARKER:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                lines -= set(range(node.lineno, node.end_lineno + 1))
    return lines


def too_long(sources: dict[str, str]) -> list[str]:
    """Return one sentence for every file and function with too many lines of code."""
    found = []
    for path, source in sources.items():
        lines = code_lines(source)
        if len(lines) > MAX_FILE:
            found.append(f"{path}: {len(lines)} > {MAX_FILE} lines")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = len(lines & set(range(node.lineno, node.end_lineno + 1)))
                if count > MAX_FUNCTION:
                    found.append(f"{path}: {node.name} has {count} > {MAX_FUNCTION} lines")
    return found


def test_no_file_and_no_function_of_the_package_is_too_long():
    assert too_long(package_sources()) == []


def test_a_file_that_is_too_long_is_found():
    assert too_long({"long.py": "x = 1\n" * 250}) == []
    assert too_long({"long.py": "x = 1\n" * 251}) == ["long.py: 251 > 250 lines"]


def test_a_function_that_is_too_long_is_found():
    header = (
        'def f(\n    x,\n):\n    """One.\n\n    Two.\n    """\n\n    # why\n'  # 3 lines of code
    )
    assert too_long({"f.py": header + "    x = 1\n" * 37}) == []
    assert too_long({"f.py": header + "    x = 1\n" * 38}) == ["f.py: f has 41 > 40 lines"]


def test_texts_that_are_values_count_as_code_and_docstrings_do_not():
    assert code_lines('"""Doc\n\nstring."""\nx = """a\n\nb"""\n\n# comment\ny = 1  # here\n') == {
        *(4, 5, 6, 9)
    }


# --- what an import loads -------------------------------------------------------------------------

PICTURES = ("IPython", "PIL", "anywidget", "ipywidgets", "matplotlib", "pandas", "seaborn")
HEAVY = (*PICTURES, "huggingface_hub", "safetensors", "tokenizers")


def loaded_by(statement: str) -> list[str]:
    """Return which heavy packages a fresh Python has loaded after a statement."""
    script = f"import sys; {statement}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_importing_the_package_loads_neither_pictures_nor_widgets_nor_tokenizers():
    assert loaded_by("import attnlab") == []


def test_an_import_that_loads_pictures_is_noticed():
    assert "matplotlib" in loaded_by("import attnlab.plotting")


def test_the_trained_layer_loads_a_tokenizer_and_no_pictures():
    assert loaded_by("import attnlab.pretrained") == ["tokenizers"]


def test_everything_that_the_package_lists_is_there():
    import attnlab

    assert attnlab.__all__ == sorted(attnlab.__all__)
    assert all(hasattr(attnlab, name) for name in attnlab.__all__)
