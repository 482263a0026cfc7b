"""Rules about the file, its tags and links, its outputs, its words and the order of its parts."""

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

from tools.extract_figures import figures_in
from tools.lint.lesson import (
    CLOSING,
    LINK,
    Lesson,
    Note,
    anchors_of,
    answer_key,
    code_lines,
    defined_names,
    headings,
    names_in,
    parse_code,
    prediction_keys,
    without_code,
    words_of,
)
from tools.notebooks import GLOSSARY, LessonError, is_folded, is_lesson, strip_ansi, tags
from tools.proofs import faults, read_proofs

CODE_LINES, CODE_WIDTH = 25, 88
BANNED = re.compile(r"\b(?:simply|just|obviously|magic|easy|easily)\b", re.IGNORECASE)
EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2600-\u2604\u2607-\u2712\u2714-\u2716\u2718-\u27bf\ufe0f]"
)
MAX_BYTES = 2_000_000
TAGS = {"exercise", "solution", "teacher", "raises-exception"}
IGNORING = {"nbval-ignore-output", "nbval-skip"}
LINKS = (
    LINK,
    re.compile(r"<(?P<tag>img|a)\b[^>]*?\b(?:src|href)=[\"']?(?P<target>[^\"'\s>]+)"),
    re.compile(r"^ *\[[^\]]+\]: *(?P<target>\S+)", re.MULTILINE),
)
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
        for found in (one for kind in LINKS for one in kind.finditer(text)):
            is_image = found[1] in ("!", "img")
            if problem := _lost(lesson, found["target"], "image" if is_image else "link"):
                yield Note(n, problem, found["target"])


def _lost(lesson: Lesson, target: str, kind: str) -> str:
    """Return why a link or an image leads nowhere, or an empty text."""
    name, _, place = target.partition("#")
    path = lesson.path.parent / name if name else lesson.path  # an anchor leads into the same one
    is_address = SCHEME.match(target)
    if (kind == "image") if is_address else name.startswith("/") or not path.is_file():
        return f"the {kind} {target!r} leads to no file of the project."
    if is_address or not place or path.suffix != ".ipynb" or unquote(place) in anchors_of(path):
        return ""
    return f"the link {target!r} leads to no heading {place!r}."


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
    found = [(n, one) for n, output in lesson.outputs for one in figures_in(output)]
    for count, (n, figure) in enumerate(found, start=1):
        number, wanted = figure.number, f"{lesson.number}.{count}"
        if number != wanted:
            yield Note(n, f"the figure has the number {number}, not {wanted}.", number)
        for name in ("alt", "caption"):
            if not getattr(figure, name).strip():
                yield Note(n, f"figure {number} has no {name}.", number)


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


# --- how a lesson reads ---------------------------------------------------------------------------


def code_size(lesson: Lesson) -> Iterator[Note]:
    """Check that a code cell is short (blank lines do not count), and its lines are narrow."""
    for n, cell in lesson.code:
        lines = code_lines(cell.source)
        if len(lines) > CODE_LINES:
            yield Note(n, f"the code has {len(lines)} lines, and at most {CODE_LINES} are allowed.")
        widest = max(lines, key=len, default="")
        if len(widest) > CODE_WIDTH:
            text = f"the line has {len(widest)} characters, and at most {CODE_WIDTH} are allowed."
            yield Note(n, text, widest)


def wording(lesson: Lesson) -> Iterator[Note]:
    """Check that the prose has no exclamation mark, no word that belittles and no emoji."""
    for n, source in lesson.texts:
        source = without_code(source)
        if lesson.sections[n][1] == "Sources":  # titles are quoted as they are
            source = LINK.sub(" ", source)
        text = words_of(source)
        if re.search(r"!(?!=)", text):
            yield Note(n, "the text has an exclamation mark.", "!")
        for word in BANNED.findall(text):
            yield Note(n, f"the text says {word!r}.", word)
    for n, cell in lesson.cells:
        if found := EMOJI.search(cell.source):
            yield Note(n, f"the cell has an emoji: U+{ord(found[0]):04X}.", found[0])


def title(lesson: Lesson) -> Iterator[Note]:
    """Check that the first cell names the lesson."""
    cells = lesson.notebook.cells
    start = f"# {lesson.number} · " if is_lesson(lesson.path) else "# "
    if not cells or cells[0].cell_type != "markdown" or not cells[0].source.startswith(start):
        yield Note(1, f"the first cell must begin with {start!r}.")


def closing_parts(lesson: Lesson) -> Iterator[Note]:
    """Check that a lesson ends with the same five headings."""
    found = [text for _, c in lesson.markdown for level, text in headings(c) if level == 2]
    last = tuple(found[-len(CLOSING) :])
    if lesson.number > 0 and last != CLOSING:
        missing = [name for name in CLOSING if name not in found]
        problem = f"missing: {', '.join(missing)}" if missing else f"found: {', '.join(last)}"
        yield Note(0, f"the last headings must be {', '.join(CLOSING)}; {problem}.")


def predictions(lesson: Lesson) -> Iterator[Note]:
    """Check that each prediction has its texts, is asked once, and is answered after that."""
    for n, cell in lesson.markdown:
        if "**Predict" in cell.source:
            yield Note(n, 'ask with predict(...), not with "**Predict.**".', "**Predict")
    asked: set[str] = set()
    for n, cell in lesson.code:
        if (key := answer_key(cell)) and key not in asked:
            yield Note(n, f"the cell answers {key!r}, which no cell before it asks.", key)
        for key in prediction_keys(cell.source):
            if key not in lesson.questions:
                yield Note(n, f"the predictions of this lesson do not hold {key!r}.", key)
            elif key in asked:
                yield Note(n, f"the prediction {key!r} has been asked before.", key)
            asked.add(key)
    for key in lesson.questions.keys() - asked:
        yield Note(0, f"no cell asks the prediction {key!r}.", place=lesson.place_of_question(key))


def solutions(lesson: Lesson) -> Iterator[Note]:
    """Check that every exercise has a solution under its own name."""
    exercises, solved = (
        [(n, cell) for n, cell in lesson.code if kind in tags(cell)]
        for kind in ("exercise", "solution")
    )
    names_solved = {name for _, cell in solved for name in defined_names(cell.source)}
    for n, cell in exercises:
        wanted = [f"{name}_solution" for name in defined_names(cell.source)]
        if wanted and not names_solved & set(wanted):
            yield Note(n, f"no solution cell defines {' or '.join(wanted)}.")
    if len(solved) < len(exercises):
        counts = f"{len(exercises)} exercises, {len(solved)} solutions"
        yield Note(0, f"every exercise needs a solution cell; there are {counts}.")


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
    code_size,
    wording,
    title,
    closing_parts,
    predictions,
    solutions,
)
