"""The proofs of a lesson: blocks of Python that run right after one of its cells, out of sight.

``notebooks/proofs/03_....py`` holds those of ``notebooks/source/03_....py``. The first line of a
block names the cell that it follows::

    # %% after: may-look  numbers: 2017, 45
    assert torch.equal(may_look, causal_mask(6))

``numbers`` lists the numbers in the text of that cell that are no results, such as years; a block
that only declares them needs no statements.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from tools.build.sources import LessonError, from_root

HEADER = re.compile(r"# %% after: (?P<cell>[a-z0-9-]+)(?: +numbers: (?P<numbers>\S.*?))? *")


class Proof(NamedTuple):
    """A block of a proof file; ``name`` is that of the file, ``line`` that of its header."""

    name: str
    line: int
    cell: str
    numbers: str
    code: str

    @property
    def tree(self) -> ast.Module:
        """The syntax tree of the block, with the lines of the file."""
        return ast.parse("\n" * self.line + self.code, self.name)

    @property
    def command(self) -> str:
        """What a kernel executes to run the block; it leaves no name behind."""
        call = f"run_in_kernel({self.name!r}, {self.line}, {self.code!r})"
        return f"exec({inspect.getsource(run_in_kernel) + call!r}, {{}})"


def proof_file(notebook: Path) -> Path:
    """Return where the proofs of a notebook are, if it has any."""
    return notebook.parent / "proofs" / f"{notebook.stem}.py"


def read_proofs(notebook: Path) -> list[Proof]:
    """Return the blocks of a notebook's proof file; LessonError names a line that is wrong."""
    path = proof_file(notebook)
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    starts = [i for i, line in enumerate(lines) if line.startswith("# %%")]
    name = from_root(path)
    for number, line in enumerate(lines[: starts[0] if starts else None], start=1):
        if line.strip() and not line.startswith("#"):
            raise LessonError(
                f"{name}:{number}: this line comes before the first '# %% after: cell'."
            )
    ends = pairwise([*starts, len(lines)])
    return [_parse(name, start, lines[start:end]) for start, end in ends]


def _parse(name: str, start: int, lines: list[str]) -> Proof:
    header = HEADER.fullmatch(lines[0])
    if not header:
        form = "'# %% after: cell  numbers: 2017, 45'"
        raise LessonError(f"{name}:{start + 1}: {lines[0]!r} is not of the form {form}.")
    code = "\n".join(lines[1:]).rstrip()
    proof = Proof(name, start + 1, header["cell"], header["numbers"] or "", code)
    try:
        _ = proof.tree
    except SyntaxError as error:
        raise LessonError(f"{name}:{error.lineno}: {error.msg}.") from None
    return proof


def proofs_of(notebook: Path, cells: Iterable[NotebookNode]) -> dict[str, Proof]:
    """Return the proofs of a notebook by the ids of cells; LessonError names the first fault."""
    proofs = read_proofs(notebook)
    for line, text in faults(proofs, [cell.get("id", "") for cell in cells]):
        raise LessonError(f"{proofs[0].name}:{line}: {text}")
    return {proof.cell: proof for proof in proofs}


def faults(proofs: Iterable[Proof], ids: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and a description of each block that proves nothing.

    That an assert is always true, such as ``x == x``, is found by ruff.
    """
    ids, seen = set(ids), set()
    for proof in proofs:
        if proof.cell not in ids:
            yield proof.line, f"no cell has the name {proof.cell!r}."
        if proof.cell in seen:
            yield proof.line, f"the cell {proof.cell!r} has a block already."
        seen.add(proof.cell)
        tree = proof.tree
        if (tree.body or not proof.numbers) and not any(map(_checks, ast.walk(tree))):
            yield proof.line, "no statement of this block can fail."


def _checks(node: ast.AST) -> bool:
    """Return whether a node is there to fail: assert, raise, assert_close(...), raises(...)."""
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).rpartition(".")[2]
        return name.startswith("assert") or name == "raises"
    return isinstance(node, ast.Assert | ast.Raise)


def run_in_kernel(name: str, line: int, code: str) -> None:
    """Execute a block in a copy of the user's names; AssertionError names the line that fails.

    This function is sent to the kernel as text. It leaves the streams of random numbers as they
    were, and an assert that the block never comes to is an error.
    """
    import ast
    import sys
    import traceback

    from IPython import get_ipython

    streams = {
        "random": ("getstate", "setstate"),
        "numpy.random": ("get_state", "set_state"),
        "torch.random": ("get_rng_state", "set_rng_state"),
    }
    modules = {key: sys.modules[key] for key in streams if key in sys.modules}
    states = {key: getattr(module, streams[key][0])() for key, module in modules.items()}
    tree = ast.parse("\n" * line + code, name)
    unreached = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)}

    class Marker(ast.NodeTransformer):
        def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
            mark = ast.parse(f"_reached({node.lineno})").body
            return [ast.increment_lineno(mark[0], node.lineno - 1), node]

    names = {**get_ipython().user_ns, "_reached": unreached.discard}
    try:
        exec(compile(Marker().visit(tree), name, "exec"), names)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = [frame.lineno for frame in frames if frame.filename == name][-1]
        statement = code.splitlines()[place - line - 1].strip()
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise AssertionError(f"{name}:{place}: {statement}\n{what}") from None
    finally:
        for key, module in modules.items():
            getattr(module, streams[key][1])(states[key])
    if unreached:
        raise AssertionError(f"{name}:{min(unreached)}: this assert never runs")
