"""README.md: its links lead somewhere, its commands exist, and its example runs."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from tools.notebooks import find_notebooks, is_lesson, read_notebook

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def missing_links(text: str) -> list[str]:
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", text)
    return [link for link in links if not (ROOT / link).exists()]


def unknown_targets(text: str) -> list[str]:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [used for used in re.findall(r"(?:^|`)make ([a-z]+)", text, re.M) if used not in targets]


@pytest.mark.parametrize(
    ("check", "text", "finding"),
    [
        (missing_links, "see [this](no/such/file.md)", ["no/such/file.md"]),
        (unknown_targets, "type `make coffee`", ["coffee"]),
        (unknown_targets, "```\nmake tea\n```", ["tea"]),
    ],
)
def test_links_lead_to_files_and_commands_are_targets(check, text, finding) -> None:
    assert check(README) == []
    assert check(text) == finding


def test_every_lesson_is_in_the_table() -> None:
    names = [path.name for path in find_notebooks()]
    assert [name for name in names if f"(notebooks/{name})" not in README] == []


def told_minutes() -> dict[str, str]:
    """Return the minutes in class and alone that each lesson tells at its beginning."""
    told = {}
    for path in filter(is_lesson, find_notebooks()):
        opening = read_notebook(path).cells[0].source
        time = re.search(r"\*\*Time:\*\* (\d+) minutes in class,(?: or)? (\d+)", opening)
        told[str(int(path.name[:2]))] = f"{time[1]} / {time[2]}"
    return told


def minutes_in(table: str) -> dict[str, str]:
    return dict(re.findall(r"^\| (\d+) \| .*\| (\d+ / \d+) \|", table, re.MULTILINE))


def test_the_tables_of_lessons_tell_the_minutes_of_the_lessons() -> None:
    start = next(path for path in find_notebooks() if path.name.startswith("00"))
    text = "\n".join(cell.source for cell in read_notebook(start).cells)
    assert minutes_in(README) == told_minutes()
    assert minutes_in(text) == told_minutes()
    assert minutes_in("| 3 | [Masks](03) | why? | 45 / 90 | cells |") == {"3": "45 / 90"}


def test_the_example_runs(capsys) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.startswith("tensor([0.0000, ")  # of a query that sees one key
    plt.close("all")
