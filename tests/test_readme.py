"""The pages at the top: links lead somewhere, commands exist, and the example runs."""

import functools
import re
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import yaml

from tools.notebooks import find_notebooks, is_lesson, read_notebook

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "CONTRIBUTING.md", "TEACHING.md", "CHANGELOG.md")


def missing_links(text: str) -> list[str]:
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", text)
    return [link for link in links if not leads_somewhere(*link.partition("#")[::2])]


def leads_somewhere(file: str, heading: str) -> bool:
    path = ROOT / file
    if not heading:
        return path.exists()
    headings = re.findall(r"^#+ (.*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return heading in [words.lower().replace(" ", "-") for words in headings]


def unknown_targets(text: str) -> list[str]:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [used for used in re.findall(r"(?:^|`)make ([a-z]+)", text, re.M) if used not in targets]


@pytest.mark.parametrize(
    ("check", "text", "finding"),
    [
        (missing_links, "see [this](no/such/file.md)", ["no/such/file.md"]),
        (missing_links, "[there](README.md#the-lessons), [not](README.md#x)", ["README.md#x"]),
        (unknown_targets, "type `make coffee`", ["coffee"]),
        (unknown_targets, "```\nmake tea\n```", ["tea"]),
    ],
)
def test_links_lead_to_files_and_commands_are_targets(check, text, finding) -> None:
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    assert [check(page) for page in pages] == [[]] * len(PAGES)
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


@functools.cache
def needed() -> dict[int, set[int]]:
    """Return the lessons that each lesson names where it says what it needs."""
    told = {}
    for path in filter(is_lesson, find_notebooks()):
        opening = read_notebook(path).cells[0].source
        (needs,) = re.findall(r"\*\*You need:?\*\*(.*?)\n\n", opening, re.DOTALL)
        told[int(path.name[:2])] = {int(number) for number in re.findall(r"lesson (\d+)", needs)}
    return told


def gaps(choice: str) -> list[tuple[int, set[int]]]:
    """Return the lessons of a choice that need others which do not come before them."""
    numbers = [int(number) for number in re.findall(r"\d+", choice)]
    missing = [(one, needed()[one] - set(numbers[:at])) for at, one in enumerate(numbers)]
    return [(one, others) for one, others in missing if others]


def test_the_choices_of_lessons_contain_what_their_lessons_need() -> None:
    text = (ROOT / "TEACHING.md").read_text(encoding="utf-8")
    section = text.partition("### Which lessons to choose")[2].partition("\n## ")[0]
    choices = re.findall(r"^\| .* \| (\d.*) \|", section, re.MULTILINE)
    assert len(choices) == 5
    assert [gaps(choice) for choice in choices] == [[]] * 5
    assert needed()[14] == {5, 10, 12}
    assert "Lesson 14 needs lessons 5, 10 and 12." in section
    assert gaps("0, 1, 4, 8") == [(4, {3}), (8, {3, 7})]


def test_the_example_runs(capsys) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.startswith("tensor([0.0000, ")  # of a query that sees one key
    plt.close("all")


def test_the_moving_picture_is_small() -> None:
    (picture,) = re.findall(r"\((figures/.*\.gif)\)", README)
    assert (ROOT / picture).stat().st_size < 1_000_000


def test_the_citation_is_that_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["version"] == project["version"]
    assert citation["authors"] == project["authors"]
    assert " AND ".join(citation["license"]) == project["license"]
    assert citation["keywords"] == project["keywords"]


def test_the_workflow_runs_what_ci_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    *_, last = workflow["jobs"]["test"]["steps"]
    assert last == {"run": ".ci/run"}
    assert (ROOT / last["run"]).is_file()
