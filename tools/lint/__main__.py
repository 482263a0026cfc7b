"""Print what is found in the notebooks that the command line names."""

import sys

from tools.lint import lint
from tools.notebooks import find_notebooks, select


def main() -> None:
    """Print one line for each finding; end with status 1 if there is one."""
    found = [finding for path in select(find_notebooks(), sys.argv[1:]) for finding in lint(path)]
    lines = [f"{finding.place}: {finding.text}" for finding in found]
    print("\n".join(lines) or "The notebooks are clean.")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
