"""Rules about what is stored: the file, its tags and links, and its outputs."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from urllib.parse import unquote

from nbformat import NotebookNode

from tools.extract_figures import parts_of
from tools.lint.lesson import (
    LINK,
    Lesson,
    Note,
    anchors_of,
    headings,
    names_in,
    parse_code,
    without_code,
)
from tools.notebooks import GLOSSARY, LessonError, is_folded, strip_ansi, tags
from tools.proofs import faults, read_proofs

MAX_BYTES = 2_000_000
TAGS = {"exercise", "solution", "teacher", "raises-exception"}
IGNORING = {"nbval-ignore-output", "nbval-skip"}
HTML_TARGET = re.compile(r"<(?P<tag>img|a)\b[^>]*?\b(?:src|href)=[\"']?(?P<target>[^\"'\s>]+)")
REFERENCE = re.compile(r"^ *\[[^\]]+\]: *(?P<target>\S+)", re.MULTILINE)
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.STRING,
    getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),  # from Python 3.12 on
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
DATA_URI = re.compile(r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=\s]+|[A-Za-z0-9+/=]{200,}")
NAMESPACE = re.compile(r"https?://www\.w3\.org/[\w/#.-]*")  # a name in SVG, not an address
LEAKS = {
    "the address of an object": r"\b0x[0-9a-fA-F]+",
    "a path of one machine": r"(?<![\w.])/(?:home|tmp|root|work|usr|Users|opt|var)\b(?=[/'\"\s]|$)"
    r"|(?:site|dist)-packages|\b[CD]:\\(?=\w)",
    "the name of a host or registry": r"https?:/|\b(?:pypi|conda|huggingface|localhost)\b"
    r"|\b[a-z0-9-]+\.(?:org|com)\b",
    "a version": r"(?<!section )(?<![\d.])\d+\.\d+\.\d+(?![\d.]*\d)|\+(?:cpu|cu\d+)\b"
    r"|\b(?:[Pp]ython|torch|matplotlib|numpy) v?\d+\.\d+",
    "a date": r"\b(?:19|20)\d\d-\d\d-\d\d\b",
    "a time of day": r"\b\d\d:\d\d:\d\d\b",
}


# --- the file -------------------------------------------------------------------------------------


def kernelspec(lesson: Lesson) -> Iterator[Note]:
    """Check that the kernel is python3, so that the notebook opens everywhere."""
    name = lesson.notebook.metadata.get("kernelspec", {}).get("name")
    if name != "python3":
        yield Note(0, f"the kernelspec must be python3, and it is {name}.")


def execution_counts(lesson: Lesson) -> Iterator[Note]:
    """Check that the code cells were run from top to bottom, once."""
    for wanted, (n, cell) in enumerate(lesson.code, start=1):
        count = cell.get("execution_count")
        if count != wanted:
            yield Note(n, f"the stored execution count is {count}, not {wanted}.")


def cell_ids(lesson: Lesson) -> Iterator[Note]:
    """Check that every cell has an id of its own."""
    counts = Counter(cell.get("id") for _, cell in lesson.cells)
    for n, cell in lesson.cells:
        if not cell.get("id"):
            yield Note(n, "the cell has no id.")
        elif counts[cell.id] > 1:
            yield Note(n, f"the cell id {cell.id} occurs {counts[cell.id]} times.")


def file_size(lesson: Lesson) -> Iterator[Note]:
    """Check that the file is small enough for the viewers on the web."""
    size = lesson.path.stat().st_size
    if size >= MAX_BYTES:
        yield Note(0, f"the file has {size:,} bytes, and at most {MAX_BYTES:,} are allowed.")


def links(lesson: Lesson) -> Iterator[Note]:
    """Check that links and images lead to files that exist, and to headings that they have."""
    for n, cell in lesson.markdown:
        text = without_code(cell.source)
        found = [(m["image"] == "!", m["target"]) for m in LINK.finditer(text)]
        found += [(m["tag"] == "img", m["target"]) for m in HTML_TARGET.finditer(text)]
        found += [(False, m["target"]) for m in REFERENCE.finditer(text)]
        for is_image, target in found:
            if not _leads_somewhere(lesson, target, is_image=is_image):
                kind = "image" if is_image else "link"
                yield Note(n, f"the {kind} {target!r} leads to no file of the project.", target)
            elif (place := _missing_heading(lesson, target)) and not is_image:
                yield Note(n, f"the link {target!r} leads to no heading {place!r}.", target)


def _leads_somewhere(lesson: Lesson, target: str, *, is_image: bool) -> bool:
    if SCHEME.match(target):
        return not is_image
    name = target.partition("#")[0]  # what is only an anchor leads into the same notebook
    return not name or (not name.startswith("/") and (lesson.path.parent / name).is_file())


def _missing_heading(lesson: Lesson, target: str) -> str:
    """Return the heading of a notebook that a link names and the notebook does not have."""
    name, _, place = target.partition("#")
    path = lesson.path.parent / name if name else lesson.path
    if SCHEME.match(target) or not place or path.suffix != ".ipynb":
        return ""
    return "" if unquote(place) in anchors_of(path) else place


def known_tags(lesson: Lesson) -> Iterator[Note]:
    """Check that tags are known, and that none switches a check off."""
    for n, cell in lesson.cells:
        names = set(tags(cell))
        for tag in sorted(names - TAGS):
            yield Note(n, f"the tag {tag!r} is unknown.", tag)
        if "raises-exception" in names and names & IGNORING:
            yield Note(n, "raises-exception is combined with a tag that ignores the output.")
        if cell.cell_type == "code" and re.search(r"#\s*NBVAL_", cell.source):
            yield Note(n, "an NBVAL_ comment switches a check off.", "NBVAL_")


def teacher_notes(lesson: Lesson) -> Iterator[Note]:
    """Check that notes for teachers have the tag by which copies for a class leave them out."""
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
            if found := re.search(pattern, bare, re.MULTILINE):
                text = f"the output of {name} differs from run to run."
                yield Note(n, text, found[0].strip())


@cache
def _without_text(source: str) -> str:
    """Return code without comments and strings; unchanged if it cannot be read."""
    lines = source.splitlines(keepends=True)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return source
    for token in reversed([t for t in tokens if t.type in NOT_CODE]):
        (top, left), (bottom, right) = token.start, token.end
        joined = lines[top - 1][:left] + lines[bottom - 1][right:]
        lines[top - 1 : bottom] = [joined]
    return "".join(lines)


# --- outputs --------------------------------------------------------------------------------------


def output_texts(output: NotebookNode) -> list[str]:
    """Return all texts of an output, without pictures."""
    texts = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", [])]
    data = output.get("data", {})
    texts += [data[kind] for kind in data if kind.startswith("text/")]
    return [DATA_URI.sub(" ", strip_ansi("".join(text))) for text in texts]


def stderr(lesson: Lesson) -> Iterator[Note]:
    """Check that no warnings are stored."""
    for n, output in lesson.outputs:
        if output.get("name") == "stderr":
            yield Note(n, "the output holds a stderr stream.")


def leaks(lesson: Lesson) -> Iterator[Note]:
    """Check that nothing is stored that differs between machines, versions or days."""
    for n, output in lesson.outputs:
        text = NAMESPACE.sub(" ", "\n".join(output_texts(output)))
        for name, pattern in LEAKS.items():
            if found := re.search(pattern, text):
                yield Note(n, f"the output holds {name}: {found[0].strip()!r}.")


def widget_views(lesson: Lesson) -> Iterator[Note]:
    """Check that no widget is stored that would need its kernel."""
    if "widgets" in lesson.notebook.metadata:
        yield Note(0, "the metadata hold the state of widgets.")
    for n, output in lesson.outputs:
        if "application/vnd.jupyter.widget-view+json" in output.get("data", {}):
            yield Note(n, "the output holds a widget view, which is empty without a kernel.")


def figures(lesson: Lesson) -> Iterator[Note]:
    """Check that figures are described for all readers, and their numbers run in order."""
    count = 0
    for n, output in lesson.outputs:
        for part in parts_of(output):
            count += 1
            wanted = f"{lesson.number}.{count}"
            if part["number"] != wanted:
                text = f"the figure has the number {part['number']}, not {wanted}."
                yield Note(n, text, part["number"])
            for name in ("alt", "caption"):
                if not part.get(name, "").strip():
                    yield Note(n, f"figure {part['number']} has no {name}.", part["number"])


def folding(lesson: Lesson) -> Iterator[Note]:
    """Check that solutions are out of sight until the learner opens them."""
    for n, cell in lesson.code:
        if "solution" in tags(cell) and not is_folded(cell):
            yield Note(n, "the source of a solution cell must be folded (source_hidden).")


def glossary(lesson: Lesson) -> Iterator[Note]:
    """Check that the glossary has no code, and each word once, in alphabetical order."""
    if lesson.path.stem != GLOSSARY:
        return
    if lesson.code:
        yield Note(lesson.code[0][0], "the glossary holds a code cell.")
    words = [
        (n, text) for n, cell in lesson.markdown for level, text in headings(cell) if level == 3
    ]
    for (_, one), (n, other) in pairwise(words):
        if one.casefold() >= other.casefold():
            yield Note(n, f"the word {other!r} must not come after {one!r}.", other)


def proofs(lesson: Lesson) -> Iterator[Note]:
    """Check that each proof is bound to a cell and can fail."""
    try:
        found = read_proofs(lesson.path)
    except LessonError as error:
        place, _, text = str(error).partition(": ")
        yield Note(0, text, place=place)
        return
    for line, text in faults(found, [cell.get("id", "") for _, cell in lesson.cells]):
        yield Note(0, text, place=f"{found[0].name}:{line}")
    for n, proof in lesson.proofs.items():
        cell = lesson.notebook.cells[n - 1]
        names = names_in(parse_code(cell.source)) if cell.cell_type == "code" else set()
        if proof.code and names and not names & names_in(proof.tree):
            text = "this block uses no name of its cell; it may be bound to the wrong one."
            yield Note(n, text, place=f"{proof.name}:{proof.line}")


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
    stderr,
    leaks,
    widget_views,
    figures,
    folding,
    glossary,
    proofs,
)
