"""The HTML view of a report: complete, escaped, readable."""

import re
from html.parser import HTMLParser

import torch

from attnlab.clinic._page import luminance, report_html, shade
from attnlab.clinic._report import Evidence, Finding, Report

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
    "<b>mine</b>", "softmax", (FINDING, Finding("prints", "It prints.")), ("a note",), ("a", "b")
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
    text = "".join(Reader(report_html(REPORT)).text)
    assert "<b>mine</b>: softmax-axis and 1 other finding" in text
    assert "The softmax runs over the queries & not the keys." in text
    assert FINDING.fix in text
    assert "2. prints: It prints." in text
    for summary in ("Follows from it (1)", "Good to know (1)", "Checked, and it holds (2)"):
        assert summary in text


def test_nothing_of_a_stranger_is_markup():
    page = report_html(REPORT)
    assert "<b>mine" not in page
    assert "<head>" not in page
    assert not Reader(page).all("script")


def test_the_lesson_is_a_relative_link():
    links = Reader(report_html(REPORT)).all("a")
    assert links[0]["href"] == "01_attention_is_a_soft_look_up.ipynb"


def test_the_table_has_headers_and_a_caption():
    page = Reader(report_html(REPORT))
    assert [cell["scope"] for cell in page.all("th")] == ["col"] * 3 + ["row"] * 2
    assert "Weights of <head> 0:" in page.text


def test_cells_are_shaded_but_for_sums_and_nan():
    styles = [cell.get("style") for cell in Reader(report_html(REPORT)).all("td")]
    light, dark = "background:#f7fbff;color:#000000", "background:#08306b;color:#ffffff"
    assert styles == [None, light, dark, None, "background:#c6dbef;color:#000000", None, None]


def test_a_good_report_shows_its_properties():
    good = Report("mine", "softmax", properties=("one", "two"))
    page = Reader(report_html(good))
    assert [fold.get("open", "no") for fold in page.all("details")] == [None]
    assert "2 properties checked" in "".join(page.text)
    folds = Reader(report_html(REPORT)).all("details")
    assert all("open" not in fold for fold in folds)


def test_the_state_is_said_by_a_sign_and_words():
    assert "&#10007;" in report_html(REPORT)
    assert "&#10003;" in report_html(Report("mine", "softmax"))


def test_the_same_report_gives_the_same_page():
    assert report_html(REPORT) == report_html(REPORT) == REPORT._repr_html_()


def test_numbers_can_be_read_on_every_shade():
    for percent in range(101):
        page = report_html(Report("m", "k", (Finding("hard", "s.", _one(percent / 100)),)))
        background, ink = re.search(r"background:(#\w{6});color:(#\w{6})", page).groups()
        light, dark = sorted(map(_luminance, (background, ink)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, percent


def test_shades_end_at_white_and_dark_blue():
    assert shade(-1) == shade(0) == (247, 251, 255)
    assert shade(2) == shade(1) == (8, 48, 107)
    assert shade(0.125) == (222, 235, 247)


def _one(value: float) -> Evidence:
    return Evidence("c", torch.tensor([[value]]), ("r",), ("c",), shaded=True)


def _luminance(paint: str) -> float:
    return luminance(tuple(int(paint[i : i + 2], 16) for i in (1, 3, 5)))
