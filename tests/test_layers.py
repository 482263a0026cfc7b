"""The layers of the package: which module may import which, and what an import loads."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import attnlab

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "attnlab"

# The helper's modules and the rooms beside it, from the lowest layer to the highest: each may
# import what lies below it.
LAYERS = """
checks
palette masks heads measures _labels sandbox
attention _matrix
plotting layers display
models clinic
explorers exercises
""".strip().splitlines()
HEIGHT = {room: height for height, line in enumerate(LAYERS) for room in line.split()}
HEIGHT["__init__"] = HEIGHT["display"] + 1  # what `import attnlab` may load lies below it
HELPER = "__init__ _labels _matrix attention checks heads masks measures palette plotting".split()
# What they may import beside torch and the standard library. Nothing in the package imports seaborn
# or pandas: the lessons do.
DRAWING = {"matplotlib", "numpy"}
PACKAGES = {
    **dict.fromkeys(["_labels", "_matrix", "plotting"], DRAWING),
    "display": {"IPython", "matplotlib"},
    "models": {"safetensors", "tokenizers"},
    "explorers": DRAWING | {"anywidget", "traitlets", "ipywidgets", "PIL"},
    "exercises": {"anywidget", "traitlets", "numpy"},
}

# --- arrows point down ----------------------------------------------------------------------------


def imported(source: str) -> set[str]:
    """Return the dotted names that a source imports, inside functions as well."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "attnlab":
            names |= {f"attnlab.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level or node.module)
    return names


def wrong_import(room: str, name: str) -> str | None:
    """Say what is wrong with an import of ``name`` in ``room``; None if nothing is."""
    top, _, rest = name.partition(".")
    if not top:
        return "is relative: write it out"
    if top != "attnlab":
        free = {"torch", *sys.stdlib_module_names, *PACKAGES.get(room, ())}
        return None if top in free else "is not among what this module may import"
    target = rest.partition(".")[0]
    if target not in HEIGHT:
        return "is no module with a layer"
    if target != room and HEIGHT[target] >= HEIGHT[room]:
        return f"points up, to {target}"
    return None


def test_every_import_of_the_package_points_down():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room not in HEIGHT:
            found.append(f"{room} has no layer")
            continue
        for name in sorted(imported(path.read_text(encoding="utf-8"))):
            if wrong := wrong_import(room, name):
                found.append(f"{path.relative_to(PACKAGE)}: {name} {wrong}")
    tiled = (PACKAGE / "layers" / "tiled.py").read_text(encoding="utf-8")
    assert "attnlab.masks" in imported(tiled)
    assert found == []


def test_the_package_shows_the_small_helper_a_sandbox_and_six_rooms():
    modules = sorted(path.stem for path in PACKAGE.glob("*.py"))
    assert modules == sorted([*HELPER, "sandbox"])
    rooms = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    assert rooms == ["clinic", "display", "exercises", "explorers", "layers", "models"]


def test_inside_a_room_no_name_of_a_file_is_private():
    inside = [path.stem for path in PACKAGE.glob("*/**/*.py") if path.stem != "__init__"]
    assert [stem for stem in inside if stem.startswith("_")] == []


@pytest.mark.parametrize(
    ("room", "source", "complaint"),
    [
        ("masks", "def f():\n    from attnlab.attention import x", "points up, to attention"),
        ("plotting", "from ipywidgets import x", "not among what this module may import"),
        ("__init__", "import numpy", "not among what this module may import"),
    ],
)
def test_a_wrong_import_is_found(room, source, complaint):
    (name,) = imported(source)
    assert complaint in wrong_import(room, name)


def test_every_public_name_is_imported_by_a_lesson_or_is_what_a_function_returns():
    sources = (ROOT / "notebooks" / "source").glob("[0-9]*.py")
    lessons = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    lines = re.findall(r"^from attnlab import (\([^)]*\)|.*)$", lessons, re.MULTILINE)
    used = {name for line in lines for name in re.findall(r"\w+", line)}
    results = {"AttentionOutput", "AttentionTrace"}
    assert set(attnlab.__all__) - used == results


# --- what an import loads -------------------------------------------------------------------------

HEAVY = """IPython PIL anywidget ipywidgets matplotlib pandas seaborn huggingface_hub safetensors
    tokenizers torch._dynamo""".split()
LOADED = f"""
import sys
import attnlab
with attnlab.PeakMemory() as counted:
    attnlab.causal_mask(3).sum()
print([name for name in {HEAVY} if name in sys.modules])
import attnlab.models.pretrained
print([name for name in {HEAVY} if name in sys.modules])
from attnlab.exercises import check_new_vector
check_new_vector(lambda query, x, hidden: query)
import attnlab.plotting
print("torch._dynamo" in sys.modules, "matplotlib" in sys.modules)
"""


def test_an_import_loads_what_it_needs_and_no_more():
    """The package: nothing heavy; the trained layer: a tokenizer; pictures alone: matplotlib.

    Torch's compiler takes a second to load: neither a measurement nor a check waits for it.
    """
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "['tokenizers']", "False True"]


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("models/pretrained.py", "tokenizers"),
        ("explorers/frame/base.py", "anywidget"),
        ("explorers/frame/controls.py", "traitlets"),
        ("exercises/predict.py", "anywidget"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, path, package):
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    sentence = f'{package} is not installed; use pip install ".[lessons]".'
    with pytest.raises(ModuleNotFoundError, match=re.escape(sentence)):
        runpy.run_path(PACKAGE / path)
