"""A run that gives something else than a notebook stores is noticed; a hair's breadth is not."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbval.plugin import IPyNbFile
from PIL import Image, ImageDraw

from attnlab.display import show_figure
from attnlab.explorers.frame import bundle
from attnlab.plotting import plot_attention
from tools.build.notebooks import execute, finish, without_library
from tools.build.sources import KERNELSPEC, ROOT, find_notebooks, join_streams
from tools.check.compare import compare_outputs
from tools.check.strict_nbval import Notebook


def printed(text, name="stdout"):
    return new_output("stream", name=name, text=text)


def shown(kind="text/plain", data="x"):
    return new_output("display_data", data={kind: data})


def result(data, count=1):
    return new_output("execute_result", data={"text/plain": data}, execution_count=count)


def error(value, place="Cell In[3], line 1"):
    return new_output("error", ename="ValueError", evalue=value, traceback=[place, value])


def picture(text="0.25", size=(1000, 1000)):
    """Return a large picture with a small text as base64."""
    sheet, buffer = Image.new("RGB", size, "white"), io.BytesIO()
    ImageDraw.Draw(sheet).text((500, 500), text, fill="black")
    sheet.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def page(sentence="d_k = 3", text="0.25", **state):
    """Return a figure with a script, as HTML."""
    told = json.dumps({"tau": 3, "curve": [3e-5, 0.25], **state})
    return shown(
        "text/html",
        f'<img alt="d_k" src="data:image/png;base64,{picture(text)}"><p>{sentence}</p>'
        f'<script type="application/json">{told}</script>',
    )


DIFFERENT = {  # what is stored, what a run gives, and how the difference is told
    "a text": (printed("loss 0.1234\n"), printed("loss 0.1235\n"), "'loss 0.1234', the run gives"),
    "another stream": (printed("a"), printed("a", "stderr"), "'stream stdout'"),
    "no result": (result("1"), shown(data="1"), "'execute_result text/plain'"),
    "a picture left": (shown("image/png", picture()), None, "the run gives none"),
    "a digit of a picture": (
        shown("image/png", picture()),
        shown("image/png", picture("0.26")),
        "",
    ),
    "the size": (
        shown("image/png", picture()),
        shown("image/png", picture(size=(1000, 999))),
        "has 1000 x 1000 pixels",
    ),
    "no picture": (shown("image/png", "abc"), shown("image/png", picture()), "cannot be read"),
    "a picture in HTML": (page(), page(text="0.26"), "a picture differs"),
    "a sentence in HTML": (page(), page("d_k = 4"), "text/html: "),
    "a number in JSON": (page(curve=[3e-5, 0.2501]), page(curve=[3e-5, 0.2506]), "JSON.curve[1]"),
    "a tiny number": (page(curve=[3e-5]), page(curve=[9e-5]), "JSON.curve[0]: stored is 3e-05"),
    "another kind": (page(tau=3), page(tau=3.0), "JSON.tau"),
    "a picture in JSON": (
        page(frame=f"data:image/png;base64,{picture()}"),
        page(frame=f"data:image/png;base64,{picture('0.26')}"),
        "a picture differs",
    ),
    "an error": (error("boom"), error("bam"), "'boom', the run gives 'bam'"),
}
SAME = {
    "pieces of a stream": ([printed("lo"), printed("ss")], [printed("loss")]),
    "a hair in JSON": ([page(curve=[1.0, 0.25])], [page(curve=[1.0003, 0.2501])]),
    "the count of a cell": ([error("boom")], [error("boom", "Cell In[], line 1")]),
}


PAIRS = Path(__file__).with_name("pairs")  # the same figures of two instruction sets


def stored_picture(name):
    return shown("image/png", base64.b64encode((PAIRS / f"{name}.png").read_bytes()).decode())


def drawn(ax):
    """Return a figure as a notebook stores it, and close it."""
    png = show_figure(ax, "1.1", alt="A figure.", caption="It shows something.").png
    return shown("image/png", base64.b64encode(png).decode())


def heatmap(**changed):
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.7, 0.2], [0.3, 0.3, 0.4]])
    weights[1, 2] = changed.pop("weight", 0.2)
    return drawn(plot_attention(weights, **{"keys": ["a", "b", "c"], **changed}))


def curve(height=1.0, **look):
    _, ax = plt.subplots(figsize=(5, 3))
    ax.plot([0, 1, 2, 3], [0, height, 0.4 * height, 0.5], **look)
    return drawn(ax)


SEEN = {  # two pictures of which a person says that something has changed
    "a weight of 0.05": (heatmap, {"weight": 0.25}),
    "the same without its number": (heatmap, {"annotate": False, "weight": 0.25}),
    "a label": (heatmap, {"keys": ["a", "b", "d"]}),
    "a label that is missing": (heatmap, {"keys": ["a", "b", ""]}),
    "a title": (heatmap, {"title": "weights"}),
    "a line that has moved": (curve, {"height": 0.97}),
    "another colour": (curve, {"color": "C1"}),
    "a dashed line": (curve, {"linestyle": "--"}),
    "a thicker line": (curve, {"linewidth": 6}),
}


@pytest.mark.parametrize(("draw", "changes"), SEEN.values(), ids=SEEN)
def test_a_change_that_a_person_sees_is_seen(draw, changes):
    kept = {name: value for name, value in changes.items() if name == "annotate"}
    assert "a picture differs" in compare_outputs([draw(**kept)], [draw(**changes)])


@pytest.mark.parametrize("name", ["dashes", "curves"])
def test_pictures_that_another_processor_draws_are_the_same_to_the_eye(name):
    here, elsewhere = (stored_picture(f"{name}_{place}") for place in ("here", "elsewhere"))
    assert here != elsewhere
    assert compare_outputs([here], [elsewhere]) is None
    assert compare_outputs([elsewhere], [here]) is None


def test_dots_that_another_processor_puts_in_other_places_are_seen():
    places = [stored_picture(f"swarm_{place}") for place in ("here", "elsewhere")]
    assert "a picture differs" in compare_outputs(places[:1], places[1:])


def test_which_values_frames_share_does_not_count_but_what_they_show():
    def frames(pool, places):
        return [page(parts=["say", "row"], pool=pool, frames=places)]

    stored = frames(["a", [0.25], [0.25]], [[0, 1], [0, 2]])
    assert compare_outputs(stored, frames(["a", [0.2501]], [[0, 1], [0, 1]])) is None
    assert "JSON.frames[1][1]" in compare_outputs(stored, frames(["a", [0.25]], [[0, 1], [0, 0]]))


@pytest.mark.parametrize(("stored", "fresh", "words"), DIFFERENT.values(), ids=DIFFERENT)
def test_a_difference_is_told(stored, fresh, words):
    assert words in compare_outputs([stored], [fresh] if fresh else [])
    assert compare_outputs([stored], [stored]) is None


@pytest.mark.parametrize(("stored", "fresh"), SAME.values(), ids=SAME)
def test_what_a_reader_sees_unchanged_is_the_same(stored, fresh):
    assert compare_outputs(join_streams(stored), join_streams(fresh)) is None


def test_the_order_of_outputs_counts():
    stored = [printed("A"), shown(data="B"), printed("C")]
    assert compare_outputs(stored, [stored[0], stored[2], stored[1]])


# --- with pytest ----------------------------------------------------------------------------------

FAILS = {"tags": ["raises-exception"]}
DRAW = """from attnlab.explorers.live import live
figure = live(lambda fig, d_k: fig.text(1 / d_k, 0, ""), d_k=[1, 0])"""
SOLVES = {"tags": ["solution"]}
SOLUTION = 'check_a = print\ncheck_a(f"a: correct. {a}")'
GOOD = [
    new_code_cell("a = [3]"),
    new_code_cell(SOLUTION, metadata=SOLVES),
    new_code_cell("print(a)"),
    new_code_cell('raise ValueError("once")', metadata=FAILS),
]
WRONG = [  # the numbers of its cells that fail are counted from 0
    new_code_cell("a = [3]"),
    new_code_cell("print(a)", outputs=[printed("[3]\n")]),
    new_code_cell("print(a)", outputs=[printed("[4]\n")]),
    new_code_cell("a", outputs=[result("[3]", 4)]),
    new_code_cell("c = 3"),
    new_code_cell("pass", metadata=FAILS, outputs=[error("boom")]),
    new_code_cell(DRAW),
    new_code_cell(SOLUTION, metadata=SOLVES, outputs=[printed("a: correct. [4]")]),
]
PROOF = "# %% after: cell-1\nassert a == {}\n"
NOTEBOOKS = {  # cells, their proofs, and the tests that fail
    "good": (GOOD, PROOF.format([3]), set()),
    "wrong": (WRONG, PROOF.format([4]), {"2", "4", "5", "solution", "proof", "controls"}),
    "unbound": (GOOD, PROOF.format([3]).replace("cell", "sell"), {""}),
}


def run_pytest(*arguments, **variables):
    """Run pytest in a process of its own, without the variables of this one's."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "--nbval-current-env", "--color=no", "-q"]
    return subprocess.run(
        [*command, *arguments], cwd=ROOT, env=ours | variables, capture_output=True, text=True
    )


def test_every_part_of_a_notebook_can_fail(tmp_path: Path) -> None:
    (tmp_path / "proofs").mkdir()
    for name, (cells, proofs, _) in NOTEBOOKS.items():
        notebook = new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC})
        for number, cell in enumerate(notebook.cells, start=1):
            cell.id, cell.execution_count = f"cell-{number}", number + (cell.source == "c = 3")
        if cells is GOOD:
            execute(notebook, tmp_path, {})
        finish(notebook)
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
        (tmp_path / "proofs" / f"{name}.py").write_text(proofs)
    options = "-p tools.check.strict_nbval -rfE --tb=no --continue-on-collection-errors -p no:xdist"
    paths = [tmp_path / f"{name}.ipynb" for name in NOTEBOOKS]
    done = run_pytest(*options.split(), "-p", "no:cacheprovider", *paths)
    summary = r"^(?:FAILED|ERROR) \S*?(\w+)\.ipynb(?:::(?:Cell )?(\w+))?"
    failed = re.findall(summary, done.stdout, re.MULTILINE)
    wanted = {(name, part) for name, (_, _, parts) in NOTEBOOKS.items() for part in parts}
    assert {*failed} == wanted, done.stdout


def test_scripts_that_only_the_first_explorer_carries_are_not_compared() -> None:
    rest = 'globalThis.attnlabModules?.["page-1"]?.wake(attnlabModules);\n}</script>'
    pages = ["<p>3</p><script>{\n" + part + rest for part in (bundle.library(()) + "\n", "")]
    first, other = ([shown("text/html", one)] for one in pages)
    assert bundle.wake().startswith(rest[:30])
    assert without_library(first) == without_library(other) == other


def test_a_kernel_that_dies_at_its_start_is_started_once_more(monkeypatch) -> None:
    started = []

    def start(self) -> None:
        started.append(os.environ["ATTNLAB_STATIC"])
        raise RuntimeError("Kernel died before replying to kernel_info")

    monkeypatch.setattr(IPyNbFile, "setup", start)
    with pytest.raises(RuntimeError, match="Kernel died"):
        Notebook.__new__(Notebook).setup()
    assert started == ["1", "1"]


def test_nbval_alone_passes_on_another_processor() -> None:
    """What people type who know nbval; notebooks/nbval.cfg says what it leaves out."""
    lessons = [path for path in find_notebooks() if path.stem.startswith(("00", "03"))]
    for _ in range(2):  # a kernel dies at its start if another process has taken its ports
        done = run_pytest("--nbval", *lessons, ATEN_CPU_CAPABILITY="default")  # of torch
        if "Kernel died before replying" not in done.stdout:
            break
    assert done.returncode == 0, done.stdout
