"""Print what is found in the notebooks that the command line names."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tools.build.sources import LessonError, find_notebooks, from_root, select
from tools.check.lint import lint

BESIDE = ("source/*.py", "proofs/*.py", "texts/*.toml")


def without_lesson(notebooks: Sequence[Path]) -> list[str]:
    """Return the files beside the notebooks that belong to none of them."""
    names, folder = {path.stem for path in notebooks}, notebooks[0].parent
    paths = [path for pattern in BESIDE for path in folder.glob(pattern)]
    return [from_root(path) for path in sorted(paths) if path.stem not in names]


def main() -> None:
    """Print one line for each finding; end with status 1 if there is one."""
    notebooks = find_notebooks()
    try:
        findings = [finding for path in select(notebooks, sys.argv[1:]) for finding in lint(path)]
    except LessonError as error:
        sys.exit(str(error))
    lines = [f"{finding.place}: {finding.text}" for finding in findings]
    lines += [f"{place}: no lesson has this name." for place in without_lesson(notebooks)]
    print("\n".join(lines) or "The notebooks are clean.")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
