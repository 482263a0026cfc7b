"""Print what the lessons measure, one line each: `make lessons`.

python -m tools.lessons            all lessons
python -m tools.lessons 01 02      these lessons
"""

from __future__ import annotations

import sys

from tools.lint.lesson import Lesson
from tools.lint.measures import Measures, measure
from tools.notebooks import find_notebooks, is_lesson, select


def main() -> None:
    """Print the measures of the lessons that the command line names."""
    print("lesson", *Measures._fields, sep="  ")
    for path in select(find_notebooks(), sys.argv[1:]):
        if is_lesson(path):
            numbers = zip(Measures._fields, measure(Lesson.read(path)), strict=True)
            print(f"{path.stem[:2]:6}", *(f"{n:{len(name)}.4g}" for name, n in numbers), sep="  ")


if __name__ == "__main__":
    main()
