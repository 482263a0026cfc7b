"""The mutants of mutants.txt, and which tests have to notice them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# the tests that must notice a mutant of a module: a file is run if those before it notice nothing
TESTS = {
    "attention.py": ("attention", "modules"),
    "masks.py": ("masks", "attention", "modules"),
    "heads.py": ("heads", "modules"),
    "modules.py": ("modules",),
    "tiled.py": ("tiled",),
    "diagnostics.py": ("diagnostics",),
    "_checks.py": ("heads", "modules", "attention", "masks", "diagnostics"),
}


class Mutant(NamedTuple):
    """One slip: in ``file`` of the package ``old`` becomes ``new``."""

    file: str
    name: str
    old: str
    new: str
    first: str = ""  # the test that notices it, run before all others

    def source(self) -> str:
        """Return the text of the file with the slip in it."""
        text = (ROOT / "attnlab" / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(
                f"the text of the mutant '{self.name}' must stand in {self.file} exactly once, "
                f"it stands there {count} times: {self.old!r}; bring mutants.txt up to date."
            )
        return text.replace(self.old, self.new)


def read(text: str) -> list[Mutant]:
    """Return the mutants of a list in the form of mutants.txt."""
    mutants = []
    for part in text.split("\n== ")[1:]:
        file, *entries = part.strip().split("\n\n")
        for entry in entries:
            name, *lines = entry.split("\n")
            if [line[:2] for line in lines] not in (["- ", "+ "], ["- ", "+ ", "? "]):
                raise ValueError(f"a mutant is a name, a line '- ' and a line '+ ', got {entry!r}.")
            mutants.append(Mutant(file, name, *(line[2:] for line in lines)))
    return mutants


MUTANTS = read((HERE / "mutants.txt").read_text(encoding="utf-8"))
