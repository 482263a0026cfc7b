"""The layers of the package: which module may import which, and what an import loads."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "attnlab"

# module or folder: layer and what it may import beside torch and the standard library. Nothing in
# the package imports seaborn or pandas: the lessons do.
DRAWING = {"matplotlib", "numpy"}
ROOMS: dict[str, tuple[int, set[str]]] = {
    "_checks": (0, set()),
    "_kernel": (1, {"IPython"}),
    "_texts": (1, set()),
    "palette": (1, set()),
    "masks": (1, set()),
    "cache": (1, set()),
    "heads": (1, set()),
    "memory": (1, set()),
    "diagnostics": (1, set()),
    "data": (1, {"safetensors"}),
    "attention": (2, set()),
    "positions": (2, set()),
    "tiled": (2, set()),
    "_browser": (2, set()),
    "_folds": (2, {"IPython"}),
    "modules": (3, set()),
    "_cells": (3, DRAWING),
    "plotting": (4, DRAWING),
    "display": (4, {"matplotlib"}),
    "diagrams": (4, DRAWING),
    "pretrained": (4, {"tokenizers"}),
    "translator": (3, set()),
    "looking_back": (4, set()),
    "meanings": (5, set()),
    "clinic": (5, set()),
    "live": (5, DRAWING | {"anywidget", "traitlets", "PIL"}),
    "explorers": (6, DRAWING | {"anywidget", "traitlets", "ipywidgets"}),
    "exercises": (6, {"anywidget", "traitlets"}),
}
EXPORTED_LAYERS = (0, 1, 2, 3)  # what `import attnlab` itself may load

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
        ("attention.py", "from attnlab import modules", "layer 2 imports layer 3"),
        ("_checks.py", "def f():\n    from attnlab.masks import x", "layer 0 imports layer 1"),
        ("display.py", "import attnlab.plotting", "layer 4 imports layer 4"),
        ("clinic/probes.py", "from attnlab.explorers.base import x", "layer 5 imports layer 6"),
        ("heads.py", "from attnlab import causal_mask", "is no module with a layer"),
        ("heads.py", "import attnlab", "is no module with a layer"),
        ("heads.py", "from ._checks import x", "is relative"),
        ("masks.py", "import numpy as np", "not among what this module may import"),
        ("plotting.py", "from ipywidgets import x", "not among what this module may import"),
        ("__init__.py", "from attnlab.plotting import x", "is not loaded by the package"),
        ("__init__.py", "import numpy", "not among what this module may import"),
        ("novelty.py", "", "novelty.py has no layer"),
        ("masks.py", "import math, torch.nn.functional\nfrom attnlab._checks import x", None),
        ("clinic/probes.py", "from attnlab.clinic.report import x\nimport attnlab.modules", None),
        ("plotting.py", "import matplotlib as mpl\nfrom attnlab.diagnostics import x", None),
        ("__init__.py", "from attnlab.modules import x", None),
        ("__init__.py", "from __future__ import annotations", None),
    ],
)
def test_a_wrong_import_and_no_other_is_found(path, source, complaint):
    found = wrong_imports({path: source})
    assert len(found) == (complaint is not None)
    assert complaint is None or complaint in found[0]


# --- what an import loads -------------------------------------------------------------------------

HEAVY = """IPython PIL anywidget ipywidgets matplotlib pandas seaborn huggingface_hub safetensors
    tokenizers""".split()


def test_an_import_loads_what_it_needs_and_no_more():
    """The package: nothing heavy; the trained layer: a tokenizer; only pictures: matplotlib."""
    modules = "", ".pretrained", ".plotting"
    show = f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    script = "import sys; " + "".join(f"import attnlab{name}; {show}; " for name in modules)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    package, trained, pictures = map(str.split, done.stdout.splitlines())
    assert package == []
    assert trained == ["tokenizers"]
    assert "matplotlib" in pictures


def test_neither_a_check_nor_a_measurement_waits_for_torchs_compiler():
    """It takes a second to load."""
    script = """
import sys
import torch
from attnlab import PeakMemory
from attnlab.exercises import check_is_distribution

with PeakMemory() as counted:
    torch.ones(2) + 1
verdict = check_is_distribution(lambda weights: False)
print(counted.peak, verdict.ok, "torch._dynamo" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["16", "False", "False"]


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("live.py", "anywidget"),
        ("pretrained.py", "tokenizers"),
        ("explorers/_base.py", "anywidget"),
        ("exercises/_predict.py", "anywidget"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, path, package):
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    sentence = f"{package} is not installed; use pip install 'attnlab[lessons]'."
    with pytest.raises(ModuleNotFoundError, match=re.escape(sentence)):
        runpy.run_path(PACKAGE / path)
