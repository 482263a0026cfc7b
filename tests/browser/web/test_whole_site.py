"""The pages of all lessons, as they are written: whole, linked, and alone. No browser is needed."""

import re
from html import unescape

import pytest

from tools.build.sources import find_notebooks, outputs_of
from tools.publish.editions import edition

SCRIPT = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
LINKS = re.compile(r'<a\b[^>]*?\shref="([^"]*)"')
IDS = re.compile(r'\sid=["\']?([^"\'>]*)')
ASKED = re.compile(r"<(?!a\b)[^>]*\s(?:src|href|srcset|data)=[\"']([^\"']*)")


@pytest.fixture(scope="module")
def pages(site_folder):
    """The pages by their names, without scripts."""
    return {path.name: SCRIPT.sub("", path.read_text()) for path in site_folder.glob("*.html")}


def test_every_link_leads_to_a_page_and_a_place_in_it(pages):
    places = {name: {unescape(one) for one in IDS.findall(page)} for name, page in pages.items()}
    links = [(name, unescape(link)) for name, page in pages.items() for link in LINKS.findall(page)]
    inside = [(name, *link.partition("#")) for name, link in links if "//" not in link]
    assert len(inside) > 1000
    assert {target for _, target, _, _ in inside} <= {"", *pages}
    assert [one for one in inside if one[3] and one[3] not in places[one[1] or one[0]]] == []


def test_no_page_asks_for_anything_outside(pages):
    for page in pages.values():
        assert "default-src 'none'; img-src data:" in page
        assert {one.partition(":")[0] for one in ASKED.findall(page)} <= {"data"}


def test_every_cell_and_picture_of_a_lesson_is_on_its_page(pages):
    for path in find_notebooks():
        page, notebook = pages[f"{path.stem}.html"], edition(path, "site")
        outputs = [one.get("data", {}) for one in outputs_of(notebook)]
        pictures = sum(one.get("text/html", "").count("<img ") for one in outputs)
        assert page.count("<img ") == pictures
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert page.count('<div class=" highlight') == len(cells)
        assert "Run this cell" not in page
