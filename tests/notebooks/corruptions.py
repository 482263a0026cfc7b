"""Ways in which a notebook can be wrong, each applied to a good one.

A corruption of a cell has a cell of its own in one large notebook, so that one run of nbval judges
all of them, cell by cell. A corruption of a whole notebook has a small notebook of its own.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from typing import NamedTuple

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from PIL import Image

SETUP = """import base64, io, json
import numpy as np
from IPython.display import HTML, display
from PIL import Image, ImageDraw

def page(text):
    sheet = Image.new("RGB", (1000, 1000), "white")
    ImageDraw.Draw(sheet).text((500, 500), text, fill="black")
    return sheet

def picture(colour, size=(40, 20)):
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()"""

CELLS = {
    "print": 'print("loss 0.1234")',
    "array": "np.array([[0.25, 0.75]])",
    "png": 'display(Image.new("RGB", (40, 20), (200, 30, 30)))',
    "page": 'display(page("0.25"))',
    "table": 'HTML("<table><tr><td>1.5</td></tr></table>")',
    "figure": """HTML(f'<figure data-number="1.1"><img alt="a red field" src="{picture("red")}">'
     '<figcaption><b>Figure 1.1.</b> It is red.</figcaption></figure>')""",
    "frame": """state = {"tau": 3, "curve": [3e-5, 0.1, 0.25], "frame": picture("green")}
HTML(f'<div><img alt="d_k = 3" src="{picture("blue")}"><p>d_k = 3</p>'
     f'<script type="application/json">{json.dumps(state)}</script></div>')""",
    "value": "x = 1\nx",
    "order": 'display("A")\nprint("B")',
    "between": 'print("A")\ndisplay("B")\nprint("C")',
    "error": 'raise ValueError("boom")',
    "silent": "y = 2",
    "solution": "print(6)",
}
METADATA = {
    "error": {"tags": ["raises-exception"]},
    "solution": {"tags": ["solution"], "jupyter": {"source_hidden": True}},
}


class Corruption(NamedTuple):
    """A change of a cell or of a whole notebook, and the gates that have to notice it."""

    name: str
    change: Callable[[NotebookNode], None]
    gates: frozenset[str]
    cell: str = ""  # the name in CELLS, if one cell is changed


def as_base64(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def other_picture(size: tuple[int, int] = (40, 20)) -> str:
    return as_base64(Image.new("RGB", size, (10, 90, 10)))


def in_html(pattern: str, replacement: str) -> Callable[[NotebookNode], None]:
    """Return a change of the first match in the HTML output of a cell."""

    def change(cell: NotebookNode) -> None:
        data = cell.outputs[0].data
        changed = re.sub(pattern, replacement, data["text/html"], count=1, flags=re.DOTALL)
        assert changed != data["text/html"]
        data["text/html"] = changed

    return change


def output(**parts: str) -> Callable[[NotebookNode], None]:
    """Return a change of the first output of a cell."""
    return lambda cell: cell.outputs[0].update(parts)


def data(kind: str, content: str) -> Callable[[NotebookNode], None]:
    """Return a change of one format of the first output of a cell."""
    return lambda cell: cell.outputs[0].data.update({f"{kind}": content})


def code(source: str, *tags: str) -> Callable[[NotebookNode], None]:
    """Return a change of the source of a cell, and of its tags if any are given."""

    def change(cell: NotebookNode) -> None:
        cell.source = source
        if tags:
            cell.metadata["tags"] = list(tags)

    return change


def add(*new: NotebookNode) -> Callable[[NotebookNode], None]:
    """Return a change that adds outputs to a cell, or cells to a notebook."""
    return lambda node: node["outputs" if "outputs" in node else "cells"].extend(new)


def store_as_display(cell: NotebookNode) -> None:
    cell.outputs[0].output_type = "display_data"
    del cell.outputs[0]["execution_count"]


def repaint_a_patch(cell: NotebookNode) -> None:
    picture = Image.open(io.BytesIO(base64.b64decode(cell.outputs[0].data["image/png"])))
    picture.paste((230, 30, 30), (0, 0, 8, 4))
    cell.outputs[0].data["image/png"] = as_base64(picture)


def change_a_digit(cell: NotebookNode) -> None:
    names: dict = {}
    exec(SETUP, names)
    cell.outputs[0].data["image/png"] = as_base64(names["page"]("0.26"))


def strip(notebook: NotebookNode) -> None:
    for cell in notebook.cells[1:]:
        cell.update(outputs=[], execution_count=None)


def scramble_counts(notebook: NotebookNode) -> None:
    for number, cell in enumerate(notebook.cells[1:]):
        cell.execution_count = 99 - number


def split_stream(cell: NotebookNode) -> None:
    """Store one line of output in two pieces: nothing that a reader sees changes."""
    cell.outputs = [printed(text) for text in ("loss ", "0.1234\n")]


def printed(text: str) -> NotebookNode:
    return new_output("stream", name="stdout", text=text)


URI = r"data:image/png;base64,[^\"]*"
NEW_URI = f"data:image/png;base64,{other_picture()}"
GHOST = new_output("display_data", data={"image/png": other_picture()})

# cell, what is wrong, the gates that must notice it, the change
OF_A_CELL = [
    Corruption(name, change, frozenset(gates.split()), cell)
    for cell, name, gates, change in [
        # texts
        ("print", "number changed", "nbval", output(text="loss 0.1235\n")),
        ("print", "output removed", "nbval", lambda c: c.outputs.clear()),
        ("print", "space added at the end of a line", "nbval", output(text="loss 0.1234 \n")),
        ("print", "stdout renamed to stderr", "nbval lint", output(name="stderr")),
        ("array", "array changed", "nbval", data("text/plain", "array([[0.25, 0.74]])")),
        ("array", "result stored as display", "nbval", store_as_display),
        ("value", "code changed, output left", "source nbval", code("x = 2\nx")),
        ("order", "outputs swapped", "nbval", lambda c: c.outputs.reverse()),
        ("between", "output moved", "nbval", lambda c: c.outputs.append(c.outputs.pop(1))),
        ("silent", "silent cell with an old text", "nbval", add(printed("ghost\n"))),
        ("silent", "silent cell with an old picture", "nbval", add(GHOST)),
        ("silent", "code warns", "source nbval", code('import warnings\nwarnings.warn("w")')),
        ("silent", "output ignored", "source lint", code("y = 2", "nbval-ignore-output")),
        ("silent", "NBVAL comment", "source lint", code("# NBVAL_IGNORE_OUTPUT\ny = 2")),
        ("solution", "not folded", "source lint", lambda c: c.metadata.jupyter.clear()),
        # execution counts
        (
            "print",
            "output removed and count null",
            "nbval lint",
            lambda c: c.update(outputs=[], execution_count=None),
        ),
        ("print", "count null", "nbval lint", lambda c: c.update(execution_count=None)),
        ("silent", "never executed", "nbval lint", lambda c: c.update(execution_count=None)),
        (
            "value",
            "count too high by one",
            "nbval lint",
            lambda c: c.update(execution_count=c.execution_count + 1),
        ),
        # pictures
        ("png", "picture replaced", "nbval", data("image/png", other_picture())),
        ("png", "another size", "nbval", data("image/png", other_picture((41, 20)))),
        ("png", "picture removed", "nbval", lambda c: c.outputs[0].data.pop("image/png")),
        ("png", "picture output removed", "nbval", lambda c: c.outputs.clear()),
        ("png", "picture is not base64", "nbval", data("image/png", "garbage")),
        ("page", "one small digit of a large picture changed", "nbval", change_a_digit),
        ("png", "one patch of the picture repainted", "nbval", repaint_a_patch),
        # HTML: tables, figures, frames of live experiments
        ("table", "table: number changed", "nbval", in_html("1.5", "1.6")),
        ("table", "HTML removed", "nbval", lambda c: c.outputs[0].data.pop("text/html")),
        ("figure", "figure: picture replaced", "nbval", in_html(URI, NEW_URI)),
        ("figure", "figure: no alt", "nbval lint", in_html('alt="a red field"', 'alt=""')),
        ("figure", "figure: caption changed", "nbval", in_html("It is red", "It is blue")),
        ("figure", "figure: number changed", "nbval lint", in_html('"1.1"', '"2.7"')),
        ("frame", "frame: garbage", "nbval", in_html(URI, "data:image/png;base64,AAAA")),
        ("frame", "frame: picture removed", "nbval", in_html("<img[^>]*>", "")),
        ("frame", "frame: picture replaced", "nbval", in_html(URI, NEW_URI)),
        ("frame", "frame: sentence changed", "nbval", in_html("<p>d_k = 3", "<p>d_k = 4")),
        ("frame", "state: slider changed", "nbval", in_html('"tau": 3', '"tau": 99')),
        ("frame", "state: curve changed", "nbval", in_html("0.25", "0.26")),
        ("frame", "state: tiny number tripled", "nbval", in_html("3e-05", "9e-05")),
        ("frame", "state: curve shortened", "nbval", in_html(", 0.25", "")),
        ("frame", "state: key renamed", "nbval", in_html('"curve"', '"line"')),
        (
            "frame",
            "state: stored frame replaced",
            "nbval",
            in_html(f'"frame": "{URI}', f'"frame": "{NEW_URI}'),
        ),
        ("frame", "state: dropped", "nbval", in_html("<script.*</script>", "")),
        ("frame", "state: not JSON", "nbval", in_html('{"tau"', '{"tau')),
        # expected errors
        ("error", "error message changed", "nbval", output(evalue="bam")),
        ("error", "traceback changed", "nbval", output(traceback=["x"])),
        ("error", "raises no longer", "source nbval", code("pass")),
        (
            "error",
            "raises no longer, output ignored",
            "source lint",
            code("pass", "raises-exception", "nbval-ignore-output"),
        ),
    ]
]

OF_A_NOTEBOOK = [
    Corruption(name, change, frozenset(gates.split()))
    for name, gates, change in [
        ("nothing executed", "nbval lint", strip),
        ("counts scrambled", "lint", scramble_counts),
        ("a needed cell deleted", "source nbval lint", lambda nb: nb.cells.pop(1)),
        ("new cell that raises", "source nbval lint", add(new_code_cell("1 / 0"))),
        ("new cell never executed", "source lint", add(new_code_cell("print(42)"))),
        ("kernel unknown", "lint", lambda nb: nb.metadata.kernelspec.update(name="conda-xyz")),
        ("kernel missing", "lint", lambda nb: nb.metadata.pop("kernelspec")),
        ("no code cells", "source", lambda nb: nb.update(cells=[new_markdown_cell("hi")])),
        ("broken picture link", "source lint", add(new_markdown_cell("![](nope.png)"))),
        ("text changed", "source", lambda nb: nb.cells[0].update(source="# 1 · Other text")),
        ("two cells with one id", "lint", lambda nb: nb.cells[2].update(id=nb.cells[1].id)),
    ]
]

PROVEN = """# %% [markdown]
# # 1 · A good notebook

# %% start
x = 3

# %% share
y = x / 8

# %% shared [markdown]
# A share of 0.375 was measured in 2017.

# %% other
z = 5
"""
PROOFS = """# %% after: share
assert y == 0.375

# %% after: shared  numbers: 2017
"""


def replace(old: str, new: str) -> Callable[[str], str]:
    """Return a change of a text."""

    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


def always_true(test: str) -> Callable[[str], str]:
    return replace("y == 0.375", test)


SHARE, SHARED = PROOFS.split("\n\n")

# the proofs of PROVEN: what is wrong, the gates that must notice it, the change
OF_A_PROOF = [
    ("no file", "lint", lambda text: ""),
    ("block deleted", "lint", replace(SHARE, "")),
    ("block with a number deleted", "lint", replace(SHARED, "")),
    ("bound to a cell before", "nbval lint", replace("after: share\n", "after: start\n")),
    ("bound to a cell after", "lint", replace("after: share\n", "after: other\n")),
    ("bound to a cell renamed away", "nbval lint", replace("after: share\n", "after: shore\n")),
    ("bound to a cell that has one", "nbval lint", replace("shared", "share")),
    ("number bound to another cell", "lint", replace("shared", "start")),
    ("emptied", "nbval lint", replace("assert y == 0.375", "")),
    ("only computed", "nbval lint", replace("assert y", "y")),
    ("always true", "nbval lint", always_true("True")),
    ("only constants", "nbval lint", always_true("0.375 == 3 / 8")),
    ("compared with itself", "nbval lint", always_true("y == y")),
    ("a pair with a message", "nbval lint", always_true('(y == 0.375, "the share")')),
    ("or true", "nbval lint", always_true("y == 0.375 or True")),
    ("never run", "nbval", replace("assert", "for x in []:\n    assert")),
    ("cannot run", "nbval", replace("== 0.375", "== nowhere == 0.375")),
    ("false", "nbval lint", replace("0.375", "0.374")),
    ("not Python", "nbval lint", replace("assert y", "assert (y")),
    ("header misspelt", "nbval lint", replace("numbers:", "number:")),
]

HARMLESS = {"print": split_stream, "frame": in_html("0.25", "0.2500004")}  # as elsewhere rounded
