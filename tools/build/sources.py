"""What the tools share: the folders of the lessons, and how a source becomes a notebook."""

from __future__ import annotations

import copy
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output, output_from_msg

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
SOURCES = NOTEBOOKS / "source"
PLACES = ("above", "below", "end")  # of a sentence: over a slide before or after it, or the last
SAID = (*PLACES, "answers")  # what a source says of a cell, beside its name, tags and folds
BUNDLE = "application/vnd.attnlab+json"  # attnlab.display.BUNDLE, known without torch
GLOSSARY = "glossary"  # a page of words, without a number
LIMIT = 2000  # seconds for a cell or a proof: a last resort, far above what a busy computer needs

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "pygments_lexer": "ipython3",
}
NAME = re.compile(r"[a-z0-9-]{1,64}")
MADE_ID = re.compile(r"[0-9a-f]{8,}(?:-[0-9a-f]+)*")  # a digest of ours, or Jupyter's own

# How a notebook holds a solution: as text, which is folded on GitHub too, and which is not run when
# all cells are run. Its code begins, and what that said follows.
SOLVED = "<details><summary>A solution</summary>\n\n```python\n"
SAYS = "\n```\n\n"
# A text that tells the answer of a prediction is folded too, until the prediction is answered.
TOLD = '<details class="attnlab-answer {key}"><summary>Predict first, then read on.</summary>\n\n'
FOLD_ENDS = "\n\n</details>"


class LessonError(Exception):
    """A source or a proof file that cannot be used; the message names the file."""


def find_sources(folder: Path = SOURCES) -> list[Path]:
    """Return the sources of the lessons, in order, and that of the glossary."""
    return _pages(folder, ".py")


def find_notebooks(folder: Path = NOTEBOOKS) -> list[Path]:
    """Return the notebooks of the lessons, in order, and the glossary."""
    return _pages(folder, ".ipynb")


def is_lesson(path: Path) -> bool:
    """Return whether a source or notebook is a lesson: its name begins with a number."""
    return path.stem[:2].isdecimal()


def _pages(folder: Path, suffix: str) -> list[Path]:
    names = ("[0-9][0-9]_*", GLOSSARY)
    return [path for name in names for path in sorted(folder.glob(f"{name}{suffix}"))]


def select(paths: Iterable[Path], wanted: Iterable[str]) -> list[Path]:
    """Return the paths whose name begins with one of the wanted numbers or names; all if none."""
    paths, wanted = list(paths), [Path(name).stem.zfill(2) for name in wanted]
    for name in wanted:
        if not any(path.stem.startswith(name) for path in paths):
            known = ", ".join(path.stem for path in paths)
            raise SystemExit(f"There is no lesson {name!r}; the lessons are {known}.")
    return [p for p in paths if not wanted or any(p.stem.startswith(name) for name in wanted)]


def from_root(path: Path) -> str:
    """Return a path as people name it: from the folder of the project, if it is in there."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name)


def tags(cell: NotebookNode) -> list[str]:
    """Return the tags of a cell."""
    return list(cell.metadata.get("tags", []))


def is_folded(cell: NotebookNode) -> bool:
    """Return whether the source of a cell is out of sight until it is opened."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


def outputs_of(notebook: NotebookNode) -> list[NotebookNode]:
    """Return all outputs of a notebook, in order."""
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def facts_of(output: NotebookNode) -> NotebookNode:
    """Return what an output of attnlab says as data, of which ``kind`` is a part; empty if none."""
    return output.get("data", {}).get(BUNDLE, nbformat.from_dict({}))


def shown_in(output: NotebookNode) -> list[NotebookNode]:
    """Return the facts of all that an output shows, also inside the fold of an answer."""
    facts = facts_of(output)
    return facts.shown if facts.get("kind") == "answer" else [facts] if facts else []


def html_of(output: NotebookNode) -> str:
    """Return an output as HTML, which is empty if it has none."""
    return output.get("data", {}).get("text/html", "")


def read_notebook(path: Path) -> NotebookNode:
    """Return a notebook as it is stored; unlike nbformat.read, repair nothing."""
    return nbformat.from_dict(nbformat.reader.reads(path.read_text(encoding="utf-8")))


def write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Store a notebook."""
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


def write_copies(
    lessons: Iterable[Path], folder: Path, make: Callable[[Path], NotebookNode]
) -> list[Path]:
    """Write what ``make`` returns for each lesson into a folder; return the paths."""
    folder.mkdir(exist_ok=True)
    copies = {folder / path.name: path for path in lessons}
    for copied, path in copies.items():
        write_notebook(make(path), copied)
    return list(copies)


def read_source(path: Path) -> NotebookNode:
    """Return a lesson source as a notebook without outputs, with stable cell ids.

    The id of a cell is the name in its marker (``# %% may-look [markdown]``), or a digest of its
    text. LessonError says that a name is no name, or that two cells share one.
    """
    import jupytext  # half a second, which the checks of notebooks need not spend

    notebook = jupytext.read(path, fmt="py:percent")
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        name = cell.metadata.get("title")
        cell.metadata = _kept(cell)
        if name is not None:
            cell.id = _checked_name(name, path, seen)
            continue
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:10]
        seen[digest] += 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
    return notebook


def write_source(notebook: NotebookNode) -> str:
    """Return the percent script of a notebook: the text that people edit, solutions as code."""
    import jupytext

    bare = copy.deepcopy(notebook)
    bare.cells = [unfold(cell) for cell in bare.cells]
    for cell in bare.cells:
        is_named = NAME.fullmatch(cell.get("id", "")) and not MADE_ID.fullmatch(cell.id)
        cell.metadata = {**_kept(cell), **({"title": cell.id} if is_named else {})}
    options = {
        "notebook_metadata_filter": "-all",
        "cell_metadata_filter": f"title,tags,jupyter,{','.join(SAID)},-all",
    }
    bare.metadata = {"jupytext": options}
    script = re.sub(r"\n+(?=\n# %%)", "\n", jupytext.writes(bare, fmt="py:percent"))
    # ruff decides about blank lines between cells, as `make lint` does
    name = ["--stdin-filename", str(SOURCES / "lesson.py")]
    command = [sys.executable, "-m", "ruff", "format", *name, "-"]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=True).stdout


def fold(cell: NotebookNode) -> NotebookNode:
    """Return a solution, or a text that tells an answer, folded, and any other cell as it is.

    A solution becomes text with its code and what that said. LessonError says that its check does
    not accept it.
    """
    if key := cell.metadata.get("answers"):
        text = f"{TOLD.format(key=key)}{cell.source}{FOLD_ENDS}"
        return new_markdown_cell(text, id=cell.id, metadata=cell.metadata)
    if cell.cell_type != "code" or "solution" not in tags(cell):
        return cell
    said = [out.get("text") or out.get("evalue") or out.data["text/plain"] for out in cell.outputs]
    parts = "\n\n".join(text.strip("\n") for text in said).split("\n\n")
    if "check_" in cell.source and not any(": correct. " in part for part in parts):
        raise LessonError(f"a solution is not accepted by its check: {' '.join(parts)}")
    # a sentence is prose; a table, or what else is printed, is a block
    said = [part if re.fullmatch(r".+\.", part) else f"```\n{part}\n```" for part in parts]
    text = "".join([SOLVED, cell.source, SAYS, "\n\n".join(said), FOLD_ENDS])
    return new_markdown_cell(text, id=cell.id, metadata=cell.metadata)


def unfold(cell: NotebookNode) -> NotebookNode:
    """Return a folded cell as the source has it, and any other cell as it is."""
    if key := cell.metadata.get("answers"):
        closed = cell.source.replace("<details open ", "<details ", 1)  # as a learner saves it
        text = closed.removeprefix(TOLD.format(key=key)).removesuffix(FOLD_ENDS)
        return new_markdown_cell(text, id=cell.id, metadata=cell.metadata)
    if not ("solution" in tags(cell) and cell.source.startswith(SOLVED)):
        return cell
    code, _, said = cell.source.removeprefix(SOLVED).removesuffix(FOLD_ENDS).partition(SAYS)
    outputs = [new_output("stream", text=said)]
    return new_code_cell(code, id=cell.id, metadata=cell.metadata, outputs=outputs)


def kernel_environment() -> dict[str, str]:
    """Return the variables of a kernel: those of this process, without a choice of how to draw."""
    ours = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    return {**ours, "ATTNLAB_STATIC": "1"}


def strip_ansi(text: str) -> str:
    """Return a text without the codes that colour it in a terminal."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def join_streams(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Return outputs with neighbouring pieces of one stream joined: they split by chance."""
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(copy.copy(output))
    return joined


def outputs_in(messages: Iterable[dict]) -> list[NotebookNode]:
    """Return the outputs that a kernel sent, in their order, which nbval itself does not keep."""
    kinds = {"display_data", "error", "execute_result", "stream"}
    return join_streams(output_from_msg(sent) for sent in messages if sent["msg_type"] in kinds)


def plain_traceback(traceback: Iterable[str]) -> list[str]:
    """Return a traceback without colours and without frames outside the notebook.

    Those frames name paths of one machine and lines of one version of a library.
    """
    lines = (strip_ansi(line) for line in traceback)
    return [line for line in lines if not line.lstrip().startswith("File ")]


def _kept(cell: NotebookNode) -> NotebookNode:
    """Return the metadata that a source holds; the build makes all else."""
    kept = {"tags": tags(cell), "jupyter": {"source_hidden": True} if is_folded(cell) else {}}
    kept |= {place: cell.metadata.get(place) for place in SAID}
    return nbformat.from_dict({name: value for name, value in kept.items() if value})


def _checked_name(name: str, path: Path, seen: Counter[str]) -> str:
    """Return the name of a cell, which must be a name that no cell before it has."""
    if not NAME.fullmatch(name) or MADE_ID.fullmatch(name):
        form = "1 to 64 of a-z, 0-9 and -, and not look like a made id"
        raise LessonError(f"{path.name}: the name of a cell must have {form}, got {name!r}.")
    if seen[name]:
        raise LessonError(f"{path.name}: two cells have the name {name!r}.")
    seen[name] += 1
    return name
