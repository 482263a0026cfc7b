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
from nbformat.v4 import new_markdown_cell, new_output
from PIL import Image

SETUP = """import base64, io, json
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
    "png": 'display(Image.new("RGB", (40, 20), (200, 30, 30)))',
    "page": 'display(page("0.25"))',
    "table": 'HTML("<table><tr><td>1.5</td></tr></table>")',
    "figure": """HTML(f'<figure data-number="1.1"><img alt="a red field" src="{picture("red")}">'
     '<figcaption><b>Figure 1.1.</b> It is red.</figcaption></figure>')""",
    "frame": """state = {"tau": 3, "curve": [3e-5, 0.1, 0.25], "frame": picture("green")}
HTML(f'<div><img alt="d_k = 3" src="{picture("blue")}"><p>d_k = 3</p>'
     f'<script type="application/json">{json.dumps(state)}</script></div>')""",
    "value": "x = 1\nx",
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


def change_a_digit(cell: NotebookNode) -> None:
    names: dict = {}
    exec(SETUP, names)
    cell.outputs[0].data["image/png"] = as_base64(names["page"]("0.26"))


def strip(notebook: NotebookNode) -> None:
    for cell in notebook.cells[1:]:
        cell.update(outputs=[], execution_count=None)


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
        ("print", "number changed", "nbval", output(text="loss 0.1235\n")),
        ("print", "output removed", "nbval", lambda c: c.outputs.clear()),
        ("print", "never executed", "nbval", lambda c: c.update(execution_count=None)),
        ("print", "executed out of order", "nbval", lambda c: c.update(execution_count=99)),
        ("print", "stdout renamed to stderr", "nbval lint", output(name="stderr")),
        ("value", "code changed, output left", "source nbval", code("x = 2\nx")),
        ("value", "result stored as display", "nbval", store_as_display),
        ("between", "output moved", "nbval", lambda c: c.outputs.append(c.outputs.pop(1))),
        ("silent", "silent cell with an old picture", "nbval", add(GHOST)),
        ("silent", "output ignored", "source lint", code("y = 2", "nbval-ignore-output")),
        ("solution", "not folded", "source lint", lambda c: c.metadata.jupyter.clear()),
        ("png", "picture replaced", "nbval", data("image/png", other_picture())),
        ("png", "another size", "nbval", data("image/png", other_picture((41, 20)))),
        ("png", "picture removed", "nbval", lambda c: c.outputs[0].data.pop("image/png")),
        ("page", "one small digit of a large picture changed", "nbval", change_a_digit),
        ("table", "table: number changed", "nbval", in_html("1.5", "1.6")),
        ("figure", "figure: no alt", "nbval lint", in_html('alt="a red field"', 'alt=""')),
        ("frame", "frame: picture replaced", "nbval", in_html(URI, NEW_URI)),
        ("frame", "frame: sentence changed", "nbval", in_html("<p>d_k = 3", "<p>d_k = 4")),
        ("frame", "state: curve changed", "nbval", in_html("0.25", "0.26")),
        ("frame", "state: tiny number tripled", "nbval", in_html("3e-05", "9e-05")),
        ("frame", "state: dropped", "nbval", in_html("<script.*</script>", "")),
        ("frame", "state: not JSON", "nbval", in_html('{"tau"', '{"tau')),
        ("error", "error message changed", "nbval", output(evalue="bam")),
        ("error", "raises no longer", "source nbval", code("pass")),
    ]
]

OF_A_NOTEBOOK = [
    Corruption(name, change, frozenset(gates.split()))
    for name, gates, change in [
        ("nothing executed", "nbval", strip),
        ("a needed cell deleted", "source nbval", lambda nb: nb.cells.pop(1)),
        ("kernel unknown", "lint", lambda nb: nb.metadata.kernelspec.update(name="conda-xyz")),
        ("broken picture link", "source lint", add(new_markdown_cell("![](nope.png)"))),
        ("text changed", "source", lambda nb: nb.cells[0].update(source="# 1 · Other text")),
        ("two cells with one id", "source", lambda nb: nb.cells[2].update(id=nb.cells[1].id)),
    ]
]

PROVEN = """# %% [markdown]
# # 1 · A good notebook

# %% share
y = 3 / 8

# %% shared [markdown]
# A share of 0.375 was measured.
"""
PROOFS = "# %% after: share\nassert y == 0.375\n"

# the proofs of PROVEN: what is wrong, the gates that must notice it, the file
OF_A_PROOF = [
    ("nothing", "", PROOFS),
    ("no file", "lint", ""),
    ("bound to no cell", "nbval lint", PROOFS.replace("share", "shore")),
    ("false", "nbval lint", PROOFS.replace("0.375", "0.374")),
    ("never run", "nbval", PROOFS.replace("assert", "for x in []:\n    assert")),
]

HARMLESS = {"print": split_stream, "frame": in_html("0.25", "0.2500004")}  # as elsewhere rounded
