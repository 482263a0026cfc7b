"""Which numbers of the lessons are linked to a cell of a figure, and that they stand in it."""

import re
from collections import Counter

from tests.browser.pages import read
from tools.build.sources import find_notebooks, outputs_of, read_notebook, shown_in

LINKS = {
    "00_start_here": 3,
    "04_reading_heatmaps_honestly": 1,
    "05_what_does_bank_mean_here": 2,
    "14_where_a_meaning_appears": 4,
}
TITLE = re.compile(r"row (.+), column (.+) of Figure (.+)")


def test_each_linked_number_of_the_lessons_stands_in_its_cell(tab, site_folder):
    count = Counter()
    for path in find_notebooks():
        page = tab.open(site_folder / f"{path.stem}.html")
        outputs = outputs_of(read_notebook(path))
        told = [facts for output in outputs for facts in shown_in(output)]
        maps = {facts.number: facts.maps for facts in told if "maps" in facts}
        marks = page.locator("main .attnlab-named[role=button]")
        for number, title in read(marks, "e => [e.textContent, e.title]"):
            row, column, figure = TITLE.fullmatch(title).groups()
            assert number in [
                text
                for one in maps[figure]
                for name, texts in zip(one.rows, one.texts, strict=True)
                for head, text in zip(one.columns, texts, strict=True)
                if (name, head) == (row, column)
            ]
            count[path.stem] += 1
    assert count == LINKS
