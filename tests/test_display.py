"""A shown figure has number, caption and alternative text, and no pyplot figure stays open."""

import base64
import io
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from PIL import Image

from attnlab.display import is_static, picture_html, show_figure

TEXTS = {"number": "3.2", "alt": "A line that rises.", "caption": "Read it from the left."}


@pytest.fixture(autouse=True)
def no_open_figure():
    yield
    left = plt.get_fignums()
    plt.close("all")
    assert left == []


def a_figure(width: float = 3.0) -> Figure:
    figure = Figure(figsize=(width, 2), layout="constrained")
    figure.add_subplot().plot([1, 2, 4])
    return figure


class Elements(HTMLParser):
    """Collect (tag, attributes) of a text of HTML, and what is written inside every tag."""

    VOID = ("br", "hr", "img", "input", "link", "meta")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.written: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in self.open:
            self.written[tag] = self.written.get(tag, "") + data

    def attributes(self, tag: str) -> dict:
        (attributes,) = [attributes for name, attributes in self.found if name == tag]
        return attributes


def html_of(**changed) -> Elements:
    return Elements(show_figure(a_figure(), **TEXTS | changed)._repr_html_())


def test_the_html_is_a_figure_with_picture_alt_number_and_caption():
    shown = show_figure(a_figure(), **TEXTS)
    html = Elements(shown._repr_html_())
    assert [tag for tag, _ in html.found] == ["figure", "img", "figcaption", "b"]
    assert html.attributes("figure")["data-number"] == "3.2"
    assert html.attributes("img")["alt"] == "A line that rises."
    source = "data:image/png;base64," + base64.b64encode(shown.png).decode()
    assert html.attributes("img")["src"] == source
    assert html.written["b"] == "Figure 3.2."
    assert html.written["figcaption"] == repr(shown) == "Figure 3.2. Read it from the left."


@pytest.mark.parametrize("hostile", ['"><script>x</script>', "a < b & c > d", 'it\'s "quoted"'])
def test_texts_are_escaped(hostile):
    html = html_of(alt=hostile, caption=hostile, number=hostile)
    assert [tag for tag, _ in html.found] == ["figure", "img", "figcaption", "b"]
    assert html.attributes("img")["alt"] == hostile
    assert html.attributes("figure")["data-number"] == hostile
    assert html.written["figcaption"] == f"Figure {hostile}. {hostile}"


def test_the_picture_is_sharp_and_no_wider_than_its_page():
    shown = show_figure(a_figure(width=3), **TEXTS)
    picture = Image.open(io.BytesIO(shown.png))
    style = Elements(shown._repr_html_()).attributes("img")["style"]
    assert f"width:{shown.width}px" in style
    assert "max-width:100%" in style
    assert picture.width > shown.width  # more than one pixel of the picture per pixel of the page
    assert shown.width == 360
    assert show_figure(a_figure(width=6), **TEXTS).width == 720  # a column of a lesson


def test_the_picture_names_no_version_and_is_the_same_every_time():
    pictures = [show_figure(a_figure(), **TEXTS).png for _ in range(2)]
    assert pictures[0] == pictures[1]
    assert Image.open(io.BytesIO(pictures[0])).text == {}
    assert b"atplotlib" not in pictures[0]


@pytest.mark.parametrize("given", ["figure", "axes"])
def test_a_pyplot_figure_is_closed_so_that_it_appears_once(given):
    figure, ax = plt.subplots()
    other, _ = plt.subplots()
    show_figure(figure if given == "figure" else ax, **TEXTS)
    assert plt.get_fignums() == [other.number]
    plt.close(other)


def test_a_bare_picture_takes_its_alt_text_and_width():
    html = Elements(picture_html(b"abc", alt='a "b"', width=321))
    assert html.attributes("img")["alt"] == 'a "b"'
    assert "width:321px" in html.attributes("img")["style"]
    assert html.attributes("img")["src"].endswith(base64.b64encode(b"abc").decode())


@pytest.mark.parametrize(
    ("setting", "expected"), [(None, False), ("", False), ("0", False), ("1", True)]
)
def test_the_switch_for_stored_outputs(monkeypatch, setting, expected):
    monkeypatch.delenv("ATTNLAB_STATIC", raising=False)
    if setting is not None:
        monkeypatch.setenv("ATTNLAB_STATIC", setting)
    assert is_static() is expected


def test_a_figure_of_the_lessons_has_its_texts_from_their_file(monkeypatch):
    texts = {"caption": "Up.", "alt": "A line."}
    monkeypatch.setattr("attnlab.display.caption_of", {"3.1": texts}.__getitem__)
    shown = show_figure(a_figure(), "3.1")
    assert (shown.caption, shown.alt) == ("Up.", "A line.")


@pytest.mark.parametrize(("given", "lacks"), [("alt", "caption"), ("caption", "alt")])
def test_a_figure_of_ones_own_has_both_texts(given, lacks):
    with pytest.raises(TypeError, match=f"{lacks} must be a string"):
        show_figure(a_figure(), "3.1", **{given: "Up."})
