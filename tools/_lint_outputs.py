"""Lint rules about stored outputs: nothing of one machine, figures numbered, answers folded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbformat import NotebookNode

from tools._lint import Lesson, Note
from tools.extract_figures import FigureParser
from tools.notebooks import strip_ansi, tags

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


def output_texts(output: NotebookNode) -> list[str]:
    """Return all texts of an output, without pictures."""
    texts = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", [])]
    data = output.get("data", {})
    texts += [data[kind] for kind in data if kind.startswith("text/")]
    return [DATA_URI.sub(" ", strip_ansi("".join(text))) for text in texts]


def stderr(lesson: Lesson) -> Iterator[Note]:
    """Check that no warnings are stored."""
    for n, output in _outputs(lesson):
        if output.get("name") == "stderr":
            yield Note(n, "the output holds a stderr stream.")


def leaks(lesson: Lesson) -> Iterator[Note]:
    """Check that nothing is stored that differs between machines, versions or days."""
    for n, output in _outputs(lesson):
        text = NAMESPACE.sub(" ", "\n".join(output_texts(output)))
        for name, pattern in LEAKS.items():
            if found := re.search(pattern, text):
                yield Note(n, f"the output holds {name}: {found[0].strip()!r}.")


def widget_views(lesson: Lesson) -> Iterator[Note]:
    """Check that no widget is stored that would need its kernel."""
    if "widgets" in lesson.notebook.metadata:
        yield Note(0, "the metadata hold widget state.")
    for n, output in _outputs(lesson):
        if "application/vnd.jupyter.widget-view+json" in output.get("data", {}):
            yield Note(n, "the output holds a widget view, which is empty without a kernel.")


def figures(lesson: Lesson) -> Iterator[Note]:
    """Check that figures have text for all readers, and numbers that run in order."""
    count = 0
    for n, output in _outputs(lesson):
        parser = FigureParser()
        parser.feed(output.get("data", {}).get("text/html", ""))
        for part in parser.found:
            count += 1
            wanted = f"{lesson.number}.{count}"
            if part["number"] != wanted:
                yield Note(n, f"the figure has the number {part['number']}, not {wanted}.")
            for name in ("alt", "caption"):
                if not part.get(name, "").strip():
                    yield Note(n, f"figure {part['number']} has no {name}.")


def folding(lesson: Lesson) -> Iterator[Note]:
    """Check that answers are out of sight until the learner opens them."""
    for n, cell in lesson.code:
        jupyter = cell.metadata.get("jupyter", {})
        if "reveal" in tags(cell) and not jupyter.get("outputs_hidden"):
            yield Note(n, "the output of a reveal cell must be folded (outputs_hidden).")
        for tag in ("solution", "predict"):
            if tag in tags(cell) and not jupyter.get("source_hidden"):
                yield Note(n, f"the source of a {tag} cell must be folded (source_hidden).")


def _outputs(lesson: Lesson) -> Iterator[tuple[int, NotebookNode]]:
    for n, cell in lesson.code:
        for output in cell.get("outputs", []):
            yield n, output


RULES = (stderr, leaks, widget_views, figures, folding)
