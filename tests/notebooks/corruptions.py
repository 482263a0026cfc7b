"""Ways in which a notebook can lie, each applied to a good one.

A corruption of a cell gets a cell of its own in one large notebook, so that one run of nbval
judges them all, cell by cell. A corruption of a whole notebook gets a small notebook.
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
    "reveal": "print(6)",
}
TAGS = {"error": ["raises-exception"], "reveal": ["reveal"]}


class CellCorruption(NamedTuple):
    """A change of one cell, and the gates that have to notice it."""

    name: str
    cell: str
    change: Callable[[NotebookNode], None]
    gates: frozenset[str]


class NotebookCorruption(NamedTuple):
    """A change of a whole notebook, and the gates that have to notice it."""

    name: str
    change: Callable[[NotebookNode], None]
    gates: frozenset[str]


CELL_CORRUPTIONS: list[CellCorruption] = []
NOTEBOOK_CORRUPTIONS: list[NotebookCorruption] = []


def of_cell(cell: str, name: str, *gates: str) -> Callable:
    """Register a corruption of a cell."""

    def register(change: Callable[[NotebookNode], None]) -> Callable[[NotebookNode], None]:
        CELL_CORRUPTIONS.append(CellCorruption(name, cell, change, frozenset(gates)))
        return change

    return register


def of_notebook(name: str, *gates: str) -> Callable:
    """Register a corruption of a notebook."""

    def register(change: Callable[[NotebookNode], None]) -> Callable[[NotebookNode], None]:
        NOTEBOOK_CORRUPTIONS.append(NotebookCorruption(name, change, frozenset(gates)))
        return change

    return register


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


def set_output(cell: NotebookNode, **parts: str) -> None:
    cell.outputs[0].update(parts)


# --- text outputs ---------------------------------------------------------------------------------
of_cell("print", "stream: number changed", "nbval")(lambda c: set_output(c, text="loss 0.1235\n"))
of_cell("print", "stream: output removed", "nbval")(lambda c: c.outputs.clear())
of_cell("print", "stream: space added at the end of a line", "nbval")(
    lambda c: set_output(c, text="loss 0.1234 \n")
)
of_cell("print", "stream: stdout renamed to stderr", "nbval", "lint")(
    lambda c: set_output(c, name="stderr")
)
of_cell("array", "array: number changed", "nbval")(
    lambda c: c.outputs[0].data.update({"text/plain": "array([[0.25, 0.74]])"})
)
of_cell("array", "result stored as display", "nbval")(
    lambda c: (set_output(c, output_type="display_data"), c.outputs[0].pop("execution_count"))
)
of_cell("value", "code changed, output left", "source", "nbval")(
    lambda c: c.update(source="x = 2\nx")
)
of_cell("order", "outputs swapped", "nbval")(lambda c: c.outputs.reverse())
of_cell("between", "output moved behind a later text", "nbval")(
    lambda c: c.outputs.append(c.outputs.pop(1))
)
of_cell("silent", "silent cell with an old text", "nbval")(
    lambda c: c.outputs.append(new_output("stream", name="stdout", text="ghost\n"))
)
of_cell("silent", "silent cell with an old picture", "nbval")(
    lambda c: c.outputs.append(new_output("display_data", data={"image/png": other_picture()}))
)
of_cell("silent", "code warns, nothing stored", "source", "nbval")(
    lambda c: c.update(source='import warnings\nwarnings.warn("w")')
)
of_cell("silent", "output tagged to be ignored", "source", "lint")(
    lambda c: c.metadata.update(tags=["nbval-ignore-output"])
)
of_cell("silent", "a comment that makes nbval ignore the output", "source", "lint")(
    lambda c: c.update(source="# NBVAL_IGNORE_OUTPUT\ny = 2")
)
of_cell("reveal", "answer not folded", "lint")(
    lambda c: c.metadata.get("jupyter", {}).pop("outputs_hidden")
)


# --- execution counts -----------------------------------------------------------------------------
@of_cell("print", "output removed and count null", "nbval", "lint")
def _(cell: NotebookNode) -> None:
    cell.update(outputs=[], execution_count=None)


@of_cell("print", "output changed and count null", "nbval", "lint")
def _(cell: NotebookNode) -> None:
    set_output(cell, text="loss 9\n")
    cell.execution_count = None


of_cell("silent", "silent cell never executed", "nbval", "lint")(
    lambda c: c.update(execution_count=None)
)
of_cell("value", "count too high by one", "nbval", "lint")(
    lambda c: c.update(execution_count=c.execution_count + 1)
)


# --- pictures -------------------------------------------------------------------------------------
of_cell("png", "picture replaced", "nbval")(
    lambda c: c.outputs[0].data.update({"image/png": other_picture()})
)
of_cell("png", "picture of another size", "nbval")(
    lambda c: c.outputs[0].data.update({"image/png": other_picture((41, 20))})
)
of_cell("png", "picture removed, text kept", "nbval")(lambda c: c.outputs[0].data.pop("image/png"))
of_cell("png", "picture output removed", "nbval")(lambda c: c.outputs.clear())
of_cell("png", "picture is no base64", "nbval")(
    lambda c: c.outputs[0].data.update({"image/png": "garbage"})
)


@of_cell("page", "one small digit of a large picture changed", "nbval")
def _(cell: NotebookNode) -> None:
    names: dict = {}
    exec(SETUP, names)
    cell.outputs[0].data["image/png"] = as_base64(names["page"]("0.26"))


@of_cell("png", "one patch of the picture repainted", "nbval")
def _(cell: NotebookNode) -> None:
    picture = Image.open(io.BytesIO(base64.b64decode(cell.outputs[0].data["image/png"])))
    picture.paste((230, 30, 30), (0, 0, 8, 4))
    cell.outputs[0].data["image/png"] = as_base64(picture)


# --- HTML: tables, figures, frames of live experiments --------------------------------------------
DATA_URI = r"data:image/png;base64,[^\"]*"
NEW_URI = f"data:image/png;base64,{other_picture()}"
of_cell("table", "table: number changed", "nbval")(in_html("1.5", "1.6"))
of_cell("table", "HTML removed, text kept", "nbval")(lambda c: c.outputs[0].data.pop("text/html"))
of_cell("figure", "figure: picture replaced", "nbval")(in_html(DATA_URI, NEW_URI))
of_cell("figure", "figure: alternative text emptied", "nbval", "lint")(
    in_html('alt="a red field"', 'alt=""')
)
of_cell("figure", "figure: caption changed", "nbval")(in_html("It is red", "It is blue"))
of_cell("figure", "figure: number changed", "nbval", "lint")(in_html('"1.1"', '"2.7"'))
of_cell("frame", "frame: picture is garbage", "nbval")(
    in_html(DATA_URI, "data:image/png;base64,AAAA")
)
of_cell("frame", "frame: picture removed", "nbval")(in_html("<img[^>]*>", ""))
of_cell("frame", "frame: picture replaced", "nbval")(in_html(DATA_URI, NEW_URI))
of_cell("frame", "frame: sentence changed", "nbval")(in_html("<p>d_k = 3", "<p>d_k = 4"))
of_cell("frame", "state: slider value changed", "nbval")(in_html('"tau": 3', '"tau": 99'))
of_cell("frame", "state: curve changed", "nbval")(in_html("0.25", "0.26"))
of_cell("frame", "state: tiny number tripled", "nbval")(in_html("3e-05", "9e-05"))
of_cell("frame", "state: curve shortened", "nbval")(in_html(", 0.25", ""))
of_cell("frame", "state: key renamed", "nbval")(in_html('"curve"', '"line"'))
of_cell("frame", "state: stored frame replaced", "nbval")(
    in_html(f'"frame": "{DATA_URI}', f'"frame": "{NEW_URI}')
)
of_cell("frame", "state: dropped", "nbval")(in_html("<script.*</script>", ""))
of_cell("frame", "state: no JSON", "nbval")(in_html('{"tau"', '{"tau'))


# --- expected errors ------------------------------------------------------------------------------
of_cell("error", "error message changed", "nbval")(lambda c: set_output(c, evalue="bam"))
of_cell("error", "traceback changed", "nbval")(lambda c: set_output(c, traceback=["x"]))
of_cell("error", "cell raises no longer", "source", "nbval")(lambda c: c.update(source="pass"))


@of_cell("error", "raises no longer, output ignored", "source", "lint")
def _(cell: NotebookNode) -> None:
    cell.source = "pass"
    cell.metadata["tags"] = ["raises-exception", "nbval-ignore-output"]


# --- whole notebooks ------------------------------------------------------------------------------
@of_notebook("stripped: nothing executed", "nbval", "lint")
def _(notebook: NotebookNode) -> None:
    for cell in notebook.cells[1:]:
        cell.update(outputs=[], execution_count=None)


@of_notebook("counts scrambled", "nbval", "lint")
def _(notebook: NotebookNode) -> None:
    for number, cell in enumerate(notebook.cells[1:]):
        cell.execution_count = 99 - number


of_notebook("a needed cell deleted", "source", "nbval", "lint")(lambda nb: nb.cells.pop(1))
of_notebook("new cell that raises", "source", "nbval", "lint")(
    lambda nb: nb.cells.append(new_code_cell("1 / 0"))
)
of_notebook("new cell never executed", "source", "nbval", "lint")(
    lambda nb: nb.cells.append(new_code_cell("print(42)"))
)
of_notebook("kernel unknown", "lint")(
    lambda nb: nb.metadata.kernelspec.update(name="conda-env-xyz-py")
)
of_notebook("kernel missing", "lint")(lambda nb: nb.metadata.pop("kernelspec"))
of_notebook("no code cells", "source")(lambda nb: nb.update(cells=[new_markdown_cell("hi")]))
of_notebook("broken picture link in the text", "source", "lint")(
    lambda nb: nb.cells.append(new_markdown_cell("![](nope.png)"))
)
of_notebook("text changed", "source")(lambda nb: nb.cells[0].update(source="# 1 · Other text"))
of_notebook("two cells with one id", "lint")(lambda nb: nb.cells[2].update(id=nb.cells[1].id))


def split_stream(cell: NotebookNode) -> None:
    """Store one line of output in two pieces: nothing that a reader sees changes."""
    cell.outputs = [
        new_output("stream", name="stdout", text=text) for text in ("loss ", "0.1234\n")
    ]


def round_differently(cell: NotebookNode) -> None:
    """Change a number of the state as another processor would."""
    in_html("0.25", "0.2500004")(cell)


HARMLESS = {"print": split_stream, "frame": round_differently}
