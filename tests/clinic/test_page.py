"""The HTML view of a report: complete, escaped, readable."""

import re
from html.parser import HTMLParser

import torch

from attnlab.clinic import Evidence, Finding, Report

WEIGHTS = Evidence(
    "Weights of <head> 0:",
    torch.tensor([[0.0, 1.0, 1.0], [0.25, torch.nan, torch.inf]]),
    ("query 0", "query 1"),
    ("key 0", "key 1", "sum"),
    shaded=True,
)
FINDING = Finding(
    "softmax-axis",
    "The softmax runs over the queries & not the keys.",
    WEIGHTS,
    (Finding("not-normalised", "The rows sum to 0.9."),),
)
REPORT = Report(
    "<b>mine</b>", "softmax", (FINDING, Finding("random", "It varies.")), ("a note",), ("a", "b")
)
VOID = {"br", "img", "meta", "hr"}


class Reader(HTMLParser):
    """Checks that tags nest, and collects them with their attributes and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_page_says_everything_that_the_report_holds():
    text = "".join(Reader(REPORT._repr_html_()).text)
    assert "<b>mine</b>: softmax-axis and 1 other finding" in text
    assert "The softmax runs over the queries & not the keys." in text
    assert FINDING.fix in text
    assert "2. random: It varies." in text
    for summary in ("Follows from it (1)", "Good to know (1)", "Checked and found to hold (2)"):
        assert summary in text


def test_nothing_of_the_target_is_markup():
    page = REPORT._repr_html_()
    assert "<b>mine" not in page
    assert "<head>" not in page
    assert not Reader(page).all("script")


def test_the_table_has_headers_and_a_caption():
    page = Reader(REPORT._repr_html_())
    assert [cell["scope"] for cell in page.all("th")] == ["col"] * 3 + ["row"] * 2
    assert "Weights of <head> 0:" in page.text


def test_cells_are_shaded_but_for_sums_and_nan():
    cells = Reader(REPORT._repr_html_()).all("td")
    paints = [re.findall(r"(?:background|;color):(#\w{6})", cell["style"]) for cell in cells]
    light, dark = ["#ffffff", "#000000"], ["#08306b", "#ffffff"]
    assert paints == [[], light, dark, [], ["#c6dbef", "#000000"], [], []]
    assert ["outline" in cell["style"] for cell in cells] == [False] * 5 + [True] * 2


def test_a_number_is_whole_but_for_rounding_or_shown_with_decimals():
    values = torch.tensor([[1 - 6e-8, 0.0, 1e-9, 0.9996, 5.0]], dtype=torch.float64)
    table = Evidence("Numbers:", values, ("row",), tuple("abcde"))
    shown = re.findall(r"<td[^>]*>([^<]+)</td>", table._repr_html_())
    assert shown == ["1", "0", "1.0e-09", "1.000", "5"]


def test_a_good_report_shows_its_properties():
    good = Report("mine", "softmax", properties=("one", "two"))
    page = Reader(good._repr_html_())
    assert [fold.get("open", "no") for fold in page.all("details")] == [None]
    assert "2 properties checked" in "".join(page.text)
    folds = Reader(REPORT._repr_html_()).all("details")
    assert all("open" not in fold for fold in folds)
