"""A shown figure has number, caption and alternative text, and no pyplot figure stays open."""

import base64
import html
import io
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from attnlab.display import show_figure
from attnlab.display.stored import is_static
from attnlab.palette import shade
from attnlab.plotting import plot_attention, plot_mask

SHOWN = re.compile(
    r'<figure data-number="([^"<>]+)" style="[^"]*">'
    r'<img alt="([^"<>]+)" style="width:(\d+)px;max-width:100%;[^"]*" '
    r'src="data:image/png;base64,([^"]+)">'
    r'<figcaption style="[^"]*"><b>Figure ([^<>]+)\.</b> ([^<>]+)</figcaption></figure>'
)


def a_figure(width=3.0):
    figure = Figure(figsize=(width, 2), layout="constrained")
    figure.add_subplot().plot([1, 2, 4])
    return figure


def show(fig=None, number="3.2", alt="A line.", caption="Read it."):
    return show_figure(a_figure() if fig is None else fig, number, alt=alt, caption=caption)


@pytest.mark.parametrize("text", ["3.2", '"><script>x</script>', "a < b & c > d", 'it\'s "quoted"'])
def test_the_html_is_a_figure_with_picture_alt_number_and_caption(text):
    shown = show(number=text, alt=text, caption=text)
    number, alt, width, png, label, caption = SHOWN.fullmatch(shown.to_html()).groups()
    assert {html.unescape(one) for one in (number, alt, label, caption)} == {text}
    assert base64.b64decode(png) == shown.png
    assert repr(shown) == f"Figure {text}. {text}"
    assert int(width) == shown.width


def test_the_picture_is_sharp_always_the_same_and_names_no_version():
    for inches, width in ((3, 360), (6, 720)):  # CSS pixels; 720 are a column of a lesson
        shown = show(a_figure(inches))
        picture = Image.open(io.BytesIO(shown.png))
        assert shown.width == width < picture.width
        assert picture.text == {}
        assert show(a_figure(inches)).png == shown.png


def test_what_is_stored_says_where_the_picture_has_which_number():
    figure = Figure(figsize=(6, 3), layout="constrained")
    beside, ax = figure.subplots(1, 2)
    assert "maps" not in show(plot_mask(torch.ones(2, 3).bool(), ax=beside)).facts()
    weights = torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 1.0]])
    plot_attention(weights, ax=ax, queries=["a", "b"], keys=["u", "v", "w"], colorbar=False)
    ax.yaxis.set_tick_params(labelleft=False)
    shown = show(figure)
    (told,) = shown.facts()["maps"]
    assert told["texts"] == [["0.25", "0.75", "0.00"], ["0.00", "0.00", "1.00"]]
    assert (told["rows"], told["columns"]) == (["a", "b"], ["u", "v", "w"])
    pixels = np.asarray(Image.open(io.BytesIO(shown.png)).convert("RGB"))
    down, across = np.nonzero((pixels == shade(1.0)).all(axis=2))  # the cell (b, w)
    (left, top, width, height), (high, wide, _) = told["box"], pixels.shape
    drawn = [across.min(), across.max() + 1, down.min(), down.max() + 1]
    line = 1  # half of a white line between cells
    assert drawn == pytest.approx(
        [
            wide * (left + width * 2 / 3) + line,
            wide * (left + width) - line,
            high * (top + height / 2) + line,
            high * (top + height) - line,
        ],
        abs=1,
    )


def test_a_pyplot_figure_is_closed_so_that_it_appears_once():
    (figure, _), (_, ax), (other, _) = plt.subplots(), plt.subplots(), plt.subplots()
    show(figure)
    show(ax)
    assert plt.get_fignums() == [other.number]
    plt.close(other)


def test_a_figure_of_the_lessons_has_its_texts_from_their_file(monkeypatch):
    texts = {"caption": "Up.", "alt": "A line."}
    monkeypatch.setattr("attnlab.display.figure.caption_of", {"3.1": texts}.__getitem__)
    shown = show_figure(a_figure(), "3.1")
    assert (shown.caption, shown.alt) == ("Up.", "A line.")


@pytest.mark.parametrize("setting", [None, "", "0", "1"])
def test_the_switch_for_stored_outputs(monkeypatch, setting):
    monkeypatch.delenv("ATTNLAB_STATIC", raising=False)
    if setting is not None:
        monkeypatch.setenv("ATTNLAB_STATIC", setting)
    assert is_static() is (setting == "1")


CALLS = [
    (lambda: show([1, 2]), TypeError, "fig must be a matplotlib Figure or Axes, got list"),
    (lambda: show(alt=" "), ValueError, "alt must not be empty"),
    (lambda: show(caption=""), ValueError, "caption must not be empty"),
    (lambda: show(alt=None), TypeError, "alt must be a string"),
]


@pytest.mark.parametrize(("call", "kind", "words"), CALLS)
def test_a_bad_call_says_what_is_wrong(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
