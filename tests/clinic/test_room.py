"""The room is one that a reader can walk through: short files, and no name twice."""

import ast
from collections import Counter
from pathlib import Path

import attnlab.clinic

ROOM = Path(attnlab.clinic.__file__).parent
FILES = sorted(ROOM.rglob("*.py"))


def declared(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        for target in getattr(node, "targets", ()):
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def test_no_name_twice():
    names = Counter(name for path in FILES for name in declared(path) if name != "__all__")
    assert [name for name, count in names.items() if count > 1] == []


def test_every_file_is_short_and_has_a_name_without_an_underscore():
    for path in FILES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path.name
        assert path.name == "__init__.py" or not path.name.startswith("_"), path.name
