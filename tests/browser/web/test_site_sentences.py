"""Sentences of one's own on the web pages, which a page reads without Python."""

import json
import shutil
from pathlib import Path

import pytest

from attnlab.explorers import LayersExplorer
from attnlab.models.pretrained import load_layer
from tests.browser.pages import address_with, cards_of, close, follow, wait_until
from tools.build.sources import find_notebooks

HEADS, SIX_LAYERS = (
    next(path.stem for path in find_notebooks() if path.stem[:2] == number)
    for number in ("10", "14")
)
SPELLED = Path(__file__).parents[2] / "models" / "minilm_spelled.tsv"
OWN = "the café's bat flew over the clay court, constructor"
READ = "([kind, text]) => attnlabReaders[kind].read(text, () => {})"


@pytest.fixture
def open_named(tab, site_folder):
    """Open the page of a lesson; nothing goes wrong there."""
    tab.start_anew()
    yield lambda name: tab.open(site_folder / f"{name}.html")
    assert tab.problems == []


def type_into(page, text, selector, wanted):
    """Type a text into the explorer of a page; return its card when it shows the wanted words."""
    card = page.locator(".attnlab-explorer .card")
    card.get_by_label("A sentence of your own").fill(text)
    card.get_by_role("button", name="Read").press("Enter")
    shown = card.locator(selector)
    wait_until(page, lambda: wanted in shown.all_inner_texts(), wanted)
    return card


def test_a_page_spells_words_as_python_does(open_named):
    lines = [line.split("\t") for line in SPELLED.read_text(encoding="utf-8").split("\n")[:-1]]
    wanted = {json.loads(text): pieces.split(" ") for text, pieces in lines}
    for text in ("ΟΔΟΣ", "a[MASK]b[mask]", "İI\u0307ẞ\u3000x\u2028y\x85z", "toString __proto__"):
        wanted[text] = load_layer().tokens(text)
    page = open_named(HEADS)
    page.evaluate(READ, ["real_heads", "a"])
    spell = "texts => texts.map((text) => tokensOf(text, parts.start.numbers))"
    assert dict(zip(wanted, page.evaluate(spell, [*wanted]), strict=True)) == wanted
    assert len(wanted) > 150


def test_real_heads_read_a_sentence_and_a_link_shows_it(open_named):
    page = open_named(HEADS)
    card = type_into(page, OWN, ".arcs button", "cafe")
    said = card.locator(".say")
    assert "“construct” attends most to" in said.inner_text()  # no “bank”: the last word
    card.get_by_role("button", name="cafe (2)").press("Enter")
    tokens, _, _, weights = load_layer().read(OWN)
    assert card.locator(".arcs button").all_inner_texts() == tokens
    assert "In head 4, “cafe” attends most to" in said.inner_text()
    close(page.evaluate(READ, ["real_heads", OWN])["weights"], weights, 0.002)
    sent, address = cards_of(page), address_with(page, "word=2")
    follow(page, address)
    wait_until(page, lambda: cards_of(page) == sent, "the sentence of the address")
    assert card.get_by_label("A sentence of your own").input_value() == OWN
    follow(page, f"{address.partition('#')[0]}#1.sentence=null")
    assert card.get_by_label("A sentence of your own").input_value().startswith("she sat")


def test_what_cannot_be_read_gets_a_sentence(open_named):
    page = open_named(HEADS)
    type_into(page, "\u200b", ".problem", "Type a sentence with at least one word.")
    long = "This sentence has 23 word pieces, but only 22 fit side by side. Please shorten it."
    type_into(page, "bank " * 23, ".problem", long)


def test_a_page_alone_says_which_file_it_needs(tab, site_folder, tmp_path):
    page = tab.open(Path(shutil.copy(site_folder / f"{HEADS}.html", tmp_path)))
    missing = "This needs the file model/start.js, which is not beside this page."
    type_into(page, "the", ".problem", missing)


def test_six_layers_read_a_sentence(open_named):
    page = open_named(SIX_LAYERS)
    card = type_into(page, OWN, ".arcs button", "flew")
    card.get_by_role("button", name="bat (").press("Enter")
    told = LayersExplorer.told(OWN)
    assert card.locator(".arcs button").all_inner_texts() == told["tokens"]
    read = page.evaluate(READ, ["layers", OWN])
    close(read["maps"], told["maps"], 1)  # percent, rounded
    assert read["known"].keys() == told["known"].keys()
    for place, known in told["known"].items():
        assert read["known"][place]["names"] == [*known["names"]]
        close(read["known"][place]["curves"], known["curves"], 0.001)
