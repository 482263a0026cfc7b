"""README.md: its links lead somewhere, its commands exist, it stays short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def missing_links(text: str) -> list[str]:
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", text)
    return [link for link in links if not (ROOT / link).exists()]


def unknown_targets(text: str) -> list[str]:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = re.findall(r"^make ([a-z]+)|`make ([a-z]+)", text, re.MULTILINE)
    return [first or second for first, second in used if (first or second) not in targets]


def lines_of_section(text: str, title: str) -> int:
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    return next(len(part.splitlines()) for part in section if part.startswith(title))


def test_every_link_leads_to_a_file() -> None:
    assert missing_links(README) == []


def test_every_command_is_a_target_of_the_makefile() -> None:
    assert unknown_targets(README) == []


def test_contributing_is_short() -> None:
    assert lines_of_section(README, "Contributing") <= 40


@pytest.mark.parametrize(
    ("check", "text", "finding"),
    [
        (missing_links, "see [this](no/such/file.md)", ["no/such/file.md"]),
        (unknown_targets, "type `make coffee`", ["coffee"]),
    ],
)
def test_the_checks_can_fail(check, text, finding) -> None:
    assert check(text) == finding


def test_every_lesson_is_in_the_table() -> None:
    lessons = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    assert [name for name in lessons if f"(notebooks/{name})" not in README] == []
