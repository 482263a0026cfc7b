"""Lint rules about the file: metadata, counts, tags, links, and code that nbval cannot hold."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache

from tools._lint import LINK, Lesson, Note, without_code
from tools.notebooks import LESSONS, tags

MAX_BYTES = 2_000_000
TAGS = {"reveal", "predict", "exercise", "solution", "teacher", "raises-exception"}
IGNORING = {"nbval-ignore-output", "nbval-skip"}
HTML_TARGET = re.compile(r"<(?P<tag>img|a)\b[^>]*?\b(?:src|href)=[\"']?(?P<target>[^\"'\s>]+)")
REFERENCE = re.compile(r"^ *\[[^\]]+\]: *(?P<target>\S+)", re.MULTILINE)
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
QUIET = {
    tokenize.COMMENT,
    tokenize.STRING,
    getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
}
UNSTABLE = {
    "interact": r"\binteract(?:ive|_manual)?\(",
    "interactive_output": r"\binteractive_output\b",
    "Output()": r"\bOutput\(",
    "clear_output": r"\bclear_output\b",
    "display_id": r"\bdisplay_id\b",
    "tqdm": r"\btqdm\b",
    "%time": r"^\s*%%?time(?:it)?\b",
    "plt.show()": r"\bplt\.show\(",
    "a semicolon at the end of a line": r";[ \t]*$",
}


def kernelspec(lesson: Lesson) -> Iterator[Note]:
    """Check that the kernel is python3, so that the notebook opens everywhere."""
    name = lesson.notebook.metadata.get("kernelspec", {}).get("name")
    if name != "python3":
        yield Note(0, f"the kernelspec must be python3, it is {name}.")


def execution_counts(lesson: Lesson) -> Iterator[Note]:
    """Check that the code cells were run from top to bottom, once."""
    for wanted, (n, cell) in enumerate(lesson.code, start=1):
        if cell.get("execution_count") != wanted:
            count = cell.get("execution_count")
            yield Note(n, f"the stored execution count is {count}, not {wanted}.")


def cell_ids(lesson: Lesson) -> Iterator[Note]:
    """Check that every cell has an id of its own."""
    seen: Counter[str] = Counter()
    for n, cell in enumerate(lesson.notebook.cells, start=1):
        seen[cell.get("id")] += 1
        if not cell.get("id"):
            yield Note(n, "the cell has no id.")
        elif seen[cell.id] == 2:
            yield Note(n, f"the cell id {cell.id} occurs twice.")


def file_size(lesson: Lesson) -> Iterator[Note]:
    """Check that the file is small enough for the viewers on the web."""
    size = lesson.path.stat().st_size
    if size >= MAX_BYTES:
        yield Note(0, f"the file has {size:,} bytes; at most {MAX_BYTES:,}.")


def links(lesson: Lesson) -> Iterator[Note]:
    """Check that relative links and images lead to files that exist, or to a planned lesson."""
    for n, cell in lesson.markdown:
        text = without_code(cell.source)
        found = [(m["image"] == "!", m["target"]) for m in LINK.finditer(text)]
        found += [(m["tag"] == "img", m["target"]) for m in HTML_TARGET.finditer(text)]
        found += [(False, m["target"]) for m in REFERENCE.finditer(text)]
        for is_image, target in found:
            if not _leads_somewhere(lesson, target, is_image=is_image):
                kind = "image" if is_image else "link"
                yield Note(n, f"the {kind} {target!r} leads to no file of the project.")


def known_tags(lesson: Lesson) -> Iterator[Note]:
    """Check that tags are known, and none switches a check off."""
    for n, cell in enumerate(lesson.notebook.cells, start=1):
        names = set(tags(cell))
        for tag in sorted(names - TAGS):
            if not tag.startswith("id:"):
                yield Note(n, f"the tag {tag!r} is unknown.")
        if "raises-exception" in names and names & IGNORING:
            yield Note(n, "raises-exception stands together with a tag that ignores the output.")
        if cell.cell_type == "code" and re.search(r"#\s*NBVAL_", cell.source):
            yield Note(n, "an NBVAL_ comment switches a check off.")


def teacher_notes(lesson: Lesson) -> Iterator[Note]:
    """Check that notes for teachers are tagged: copies for a class leave them out by the tag."""
    for n, cell in lesson.markdown:
        if ("<summary>For teachers" in cell.source) != ("teacher" in tags(cell)):
            yield Note(n, "a folded cell For teachers, and only such a cell, has the tag teacher.")


def expected_errors(lesson: Lesson) -> Iterator[Note]:
    """Check that an error is stored where raises-exception announces one, and nowhere else."""
    for n, cell in lesson.code:
        fails = any(output.output_type == "error" for output in cell.get("outputs", []))
        if fails and "raises-exception" not in tags(cell):
            yield Note(n, "an error is stored, but the cell is not tagged raises-exception.")
        elif not fails and "raises-exception" in tags(cell):
            yield Note(n, "the cell is tagged raises-exception, but no error is stored.")


def unstable_code(lesson: Lesson) -> Iterator[Note]:
    """Check that no construct is used whose output differs from run to run."""
    for n, cell in lesson.code:
        bare = _without_text(cell.source)
        for name, pattern in UNSTABLE.items():
            if re.search(pattern, bare, re.MULTILINE):
                yield Note(n, f"strict nbval cannot hold {name}.")


def _leads_somewhere(lesson: Lesson, target: str, *, is_image: bool) -> bool:
    if SCHEME.match(target):
        return not is_image
    name = target.partition("#")[0]
    if not name:  # a place in the same notebook
        return True
    planned = name.endswith(".ipynb") and name.removesuffix(".ipynb") in LESSONS
    return planned or (not name.startswith("/") and (lesson.path.parent / name).is_file())


@cache
def _without_text(source: str) -> str:
    """Return code with comments and strings blanked; as it is if it cannot be read."""
    lines = source.splitlines(keepends=True)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return source
    for token in reversed([t for t in tokens if t.type in QUIET]):
        (top, left), (bottom, right) = token.start, token.end
        joined = lines[top - 1][:left] + lines[bottom - 1][right:]
        lines[top - 1 : bottom] = [joined]
    return "".join(lines)


RULES = (
    kernelspec,
    execution_counts,
    cell_ids,
    file_size,
    links,
    known_tags,
    teacher_notes,
    expected_errors,
    unstable_code,
)
