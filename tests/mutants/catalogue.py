"""The mutants in the lists of this folder, and the tests that have to notice them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = ROOT / "attnlab"

LINES = (["-", "+"], ["-", "+", "?"], ["-", "+", "!"])  # what may follow the name of a mutant


class Mutant(NamedTuple):
    """One slip: in ``file`` of the package ``old`` becomes ``new``."""

    file: str
    name: str
    old: str
    new: str
    first: str = ""  # a test that notices it, which is run before all others
    excuse: str = ""  # why no test can notice it
    tests: tuple[str, ...] = ()  # files of tests that must notice it otherwise
    area: str = ""  # the list it comes from

    @property
    def title(self) -> str:
        return f"{self.file}: {self.name}"

    def source(self) -> str:
        """Return the text of the file with the slip in it."""
        text = (PACKAGE / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(
                f"the text of the mutant '{self.name}' must be in {self.file} exactly once, "
                f"it is there {count} times: {self.old!r}; bring {self.area}.txt up to date."
            )
        return text.replace(self.old, self.new)


def read(text: str, area: str = "") -> list[Mutant]:
    """Return the mutants of a list; README.md says how it is written."""
    mutants = []
    for part in text.split("\n== ")[1:]:
        head, *entries = part.strip().split("\n\n")
        file, *tests = head.split()
        for entry in entries:
            name, *lines = entry.split("\n")
            marks = {line[0]: line[2:] for line in lines}
            if [line[:1] for line in lines] not in LINES or {line[1:2] for line in lines} != {" "}:
                raise ValueError(f"a mutant is a name, a line '- ' and a line '+ ', got {entry!r}.")
            first, excuse = marks.get("?", ""), marks.get("!", "")
            paths = tuple(path_of(test) for test in tests)
            mutants.append(Mutant(file, name, marks["-"], marks["+"], first, excuse, paths, area))
    return mutants


def path_of(test: str) -> str:
    """Return the path, and the test if one is named, as pytest takes it."""
    file, *rest = test.split("::")
    return "::".join([f"tests/{file}.py", *rest])


MUTANTS = [
    mutant
    for path in sorted(HERE.glob("*.txt"))
    for mutant in read(path.read_text(encoding="utf-8"), path.stem)
]
