"""README.md: its links lead somewhere, its commands exist, and its example runs."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from tools.notebooks import find_notebooks

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


def test_the_example_runs(capsys) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.startswith("tensor([0.0000, ")  # of a query that sees one key
    plt.close("all")
