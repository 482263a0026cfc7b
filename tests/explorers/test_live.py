"""Moving a control redraws the figure and errors are shown; no figure or setting is left behind."""

import asyncio
import functools
import io
import random
from concurrent.futures import ThreadPoolExecutor

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from PIL import Image

from attnlab.display.setup import STYLE_FILE
from attnlab.display.stored import BUNDLE
from attnlab.explorers.live import PAUSE, live
from attnlab.plotting import plot_attention

STOPS = [1, 4, 16]


@pytest.fixture(autouse=True)
def nothing_is_left_behind(settings_stay):
    """No pyplot figure is registered, no setting changes and no random number is drawn."""
    before = torch.get_rng_state()
    yield
    assert plt.get_fignums() == []
    assert torch.equal(torch.get_rng_state(), before)


def panels(fig, columns):
    return fig.subplots(1, columns)


def draw_line(fig, d_k, causal=False):
    ax = panels(fig, 0 if d_k == 4 and causal else 1)  # none is an error of matplotlib
    ax.plot([0, d_k], color="black" if causal else "red")
    return f"d_k = <b>{d_k}</b>"


def a_live(**options):
    return live(**{"draw": draw_line, "d_k": STOPS, "causal": False, "figsize": (2, 1)} | options)


def random_states():
    return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()


# --- moving ---------------------------------------------------------------------------------------


def test_moving_a_control_changes_picture_and_sentence_and_back_is_the_same():
    widget, other = a_live(), a_live()
    first = widget.picture, widget.sentence
    widget.controls["d_k"].value = 16
    assert widget.picture != first[0]
    assert "d_k = <b>16</b>" in widget.sentence
    moved = widget.picture
    widget.controls["causal"].value = True
    assert widget.picture != moved
    assert widget.value == {"d_k": 16, "causal": True}
    widget.controls["d_k"].value, widget.controls["causal"].value = 1, False
    assert (widget.picture, widget.sentence) == first == (other.picture, other.sentence)


def test_the_picture_is_what_draw_drew_in_the_style_of_the_lessons():
    sizes = []

    def draw(fig, d_k):
        sizes.append(mpl.rcParams["font.size"])
        fig.patch.set_color((1, 0, 0))
        fig.text(0.5, 0.5, "seen")

    with mpl.rc_context({"font.size": 30}):
        widget = live(draw, d_k=[1, 4], figsize=(4, 1))
        widget.controls["d_k"].value = 4
    picture = Image.open(io.BytesIO(widget.picture))
    width = widget.panels[0].panels[0].width
    assert (picture.format, picture.size) == ("PNG", (width, width // 4))
    assert picture.getpixel((5, 5)) == (255, 0, 0)
    assert width == 2 * a_live().panels[0].panels[0].width
    style = mpl.rc_params_from_file(STYLE_FILE, use_default_template=False)
    assert sizes == [style["font.size"]] * 2


def test_what_the_browser_sets_is_drawn_and_told_with_its_place():
    widget = a_live()
    widget.set_state({"place_d_k": 2, "place_causal": 1})
    assert widget.value == {"d_k": 16, "causal": False}
    assert widget.answer["state"] == widget.state()
    assert widget.answer["drawn"] == widget.frame(place_d_k=2, place_causal=1)


def test_a_frame_is_drawn_once_until_another_cell_runs(monkeypatch):
    drawn, cells = [], [7]
    monkeypatch.setattr("attnlab.display.ipython.cells_run", lambda: cells[0])
    widget = live(lambda fig, d_k: drawn.append(d_k) or fig.subplots(), d_k=STOPS)
    for stop in (4, 1, 4):
        widget.controls["d_k"].value = stop
    assert drawn == [1, 4]
    cells[0] = 8
    widget.controls["d_k"].value = 1
    assert drawn == [1, 4, 1]


def test_the_next_stop_is_drawn_ahead_and_uses_up_no_random_number():
    drawn = []

    def draw(fig, d_k):
        torch.rand(1), random.random(), np.random.rand(), fig.subplots()
        drawn.append(d_k)

    async def move(stop):
        widget.controls["d_k"].value = stop
        seen, states = [*drawn], random_states()
        await asyncio.sleep(3 * PAUSE)
        assert random_states() == states
        return seen

    before = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(), ThreadPoolExecutor(1) as thread:  # where no event loop runs
        widget = live(draw, d_k=STOPS)
        assert thread.submit(asyncio.run, move(4)).result() == [1, 4]
        assert drawn == [1, 4, 16]
        assert thread.submit(asyncio.run, move(16)).result() == drawn == [1, 4, 16]
    random.setstate(before[0])
    np.random.set_state(before[1])


@pytest.mark.parametrize("word", ["same", "a much longer label, which needs room"])
def test_a_picture_does_not_depend_on_the_way_to_it(word):
    """Places of axes are kept while the labels stay, and found anew when they change."""

    def draw(fig, d_k):
        queries = [word if d_k == 4 else "same", "b"]
        plot_attention(torch.eye(2) / d_k, ax=fig.subplots(), queries=queries)

    moved, fresh = live(draw, d_k=[1, 2, 4]), live(draw, d_k=[1, 2, 4], start={"d_k": 4})
    for stop in (2, 4):
        moved.controls["d_k"].value = stop
    assert moved.picture == fresh.picture


# --- controls -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stops", "kind", "labels"),
    [
        ([1, 4], "slider", ["1", "4"]),
        (range(2, 4), "slider", ["2", "3"]),
        ([0.5, 1.0], "slider", ["0.5", "1.0"]),
        ((1, 2, 4, 8), "slider", ["1", "2", "4", "8"]),
        (["raw", "scaled"], "choice", ["raw", "scaled"]),
        (True, "choice", ["on", "off"]),
    ],
)
def test_numbers_become_sliders_and_words_and_switches_buttons(stops, kind, labels):
    values = [True, False] if stops is True else [*stops]
    widget = live(lambda fig, what: fig.subplots(), what=stops)
    (control,) = widget.data["controls"]
    shown = control["kind"], widget.stops["what"], control["texts"]
    assert shown == (kind, values, labels)
    assert (widget.value, widget.sentence) == ({"what": values[0]}, "")
    assert a_live().value == {"d_k": 1, "causal": False}
    assert a_live(start={"d_k": 16, "causal": True}).value == {"d_k": 16, "causal": True}


def draw_as_for_interact(d_k, causal):
    plt.plot([0, d_k], color="black" if causal else "red")
    return plt.gca() if causal else f"d_k = <b>{d_k}</b>"


def draw_on_a_figure_of_its_own(d_k, causal):
    figure, ax = plt.subplots()
    ax.plot([0, d_k])
    return figure


def draw_and_show(d_k, causal):
    plt.plot([0, d_k], color="black" if causal else "red")
    plt.show()  # under the backend of notebooks it would close the figure


def shown_and_closed(*_):
    plt.close(plt.gcf())


def test_show_changes_nothing_and_a_returned_figure_or_its_axes_count(monkeypatch):
    monkeypatch.setattr(plt, "show", shown_and_closed)
    drawn = a_live(draw=draw_as_for_interact).picture
    assert a_live(draw=draw_and_show).picture == drawn
    for draw in (draw_on_a_figure_of_its_own, lambda fig, d_k, causal: fig.subplots()):
        assert a_live(draw=draw).picture
    plt.close("all")


def test_a_function_that_draws_nothing_is_told_what_to_do():
    outside, ax = plt.subplots()
    for draw in (lambda fig, d_k, causal: None, lambda d_k, causal: ax.plot([d_k])):
        with pytest.raises(ValueError, match="return the figure or the axes that it has drawn on"):
            a_live(draw=draw)
    assert a_live(draw=lambda d_k, causal: (ax.plot([d_k]), outside)[1]).picture
    plt.close(outside)


def test_a_function_without_a_figure_draws_with_pyplot_and_arrays_are_stops():
    widget = a_live(draw=draw_as_for_interact, d_k=np.array(STOPS))
    red, sentence = widget.picture, widget.sentence
    widget.controls["causal"].value = True
    assert (widget.picture != red, widget.sentence) == (True, "")
    assert ("d_k = <b>1</b>" in sentence, widget.stops["d_k"]) == (True, STOPS)
    assert len({red, widget.picture, a_live(draw=draw_on_a_figure_of_its_own).picture}) == 3


# --- what the learner's code prints ---------------------------------------------------------------


def draw_and_print(fig, d_k):
    for number in range(d_k):
        print(f"<line {number}>")
    fig.subplots(1, 0 if d_k == 16 else 1)


def test_the_last_lines_that_are_printed_stand_under_the_figure(capsys):
    widget = live(draw_and_print, d_k=[1, 4, 20, 16])

    def printed():
        return widget.answer["drawn"]["printed"]["lines"]

    assert printed() == ["<line 0>"]
    assert "&lt;line 0&gt;</pre>" in widget.to_html()
    widget.controls["d_k"].value = 20
    assert printed() == ["…", *(f"<line {number}>" for number in range(13, 20))]
    widget.controls["d_k"].value = 16
    assert widget.answer["error"].endswith(
        "1, 0 if d_k == 16 else 1)\nIt printed:\n…\n"
        + "\n".join(f"<line {number}>" for number in range(9, 16))
    )
    assert "<pre" not in a_live().to_html()
    assert capsys.readouterr().out == ""


# --- errors of the learner's code -----------------------------------------------------------------


def test_an_error_at_once_has_no_lines_of_ours_between_the_cell_and_draw():
    def draw(fig, stop):
        return 1 // stop

    with pytest.raises(ZeroDivisionError) as raised:
        live(draw, stop=[0, 1])
    names = [entry.frame.code.name for entry in raised.traceback if not entry.ishidden(raised)]
    assert names[1:] == ["draw"]


def test_an_error_of_a_move_is_shown_with_its_line_and_clears_when_it_is_gone():
    widget = a_live(start={"causal": True})
    first = widget.picture
    widget.controls["d_k"].value = 4
    line = panels.__code__.co_firstlineno + 1  # the last of the learner's, not matplotlib's
    assert widget.answer["error"].startswith("ValueError: Number of columns")
    assert widget.answer["error"].endswith(f"\nline {line}: return fig.subplots(1, columns)")
    assert isinstance(widget.last_error, ValueError)
    assert (widget.sentence, widget.picture) == ("", first)  # the old picture stays, faded
    widget.controls["d_k"].value = 1
    assert (widget.answer["error"], widget.last_error) == ("", None)
    assert "d_k = " in widget.sentence
    with pytest.raises(ValueError, match="Number of columns"):  # at the start it is the cell's
        a_live(start={"d_k": 4, "causal": True})


def test_drawings_that_are_no_plain_function_work_and_tell_their_errors():
    def draw(fig, word, d_k):
        return [fig.text(0, 0, word[d_k])]

    widget = live(functools.partial(draw, word="ab"), d_k=[1, 0, 2])
    assert (repr(widget), widget.sentence) == ("live(draw, d_k=1)", "")  # a list is no sentence
    widget.controls["d_k"].value = 2
    assert "IndexError: string index" in widget.answer["error"]


# --- what a notebook shows and stores -------------------------------------------------------------


def test_a_running_notebook_gets_the_widget_and_a_stored_one_html_and_text(monkeypatch):
    widget = a_live()
    monkeypatch.delenv("ATTNLAB_STATIC", raising=False)
    running = widget._repr_mimebundle_()
    assert running["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    stored = {"text/html": widget.to_html(), "text/plain": "live(draw_line, d_k=1, causal=False)"}
    assert widget._repr_mimebundle_() == {**stored, BUNDLE: widget.facts()}
    assert running | stored == running


def test_stored_html_holds_picture_sentence_and_all_stops():
    page = a_live(alt='A "line".', start={"d_k": 4}).to_html()
    assert 'alt="A &quot;line&quot;."' in page
    assert "d_k = <b>4</b>" in page
    assert "<b>d_k</b> = 1, <b>4</b>, 16; <b>causal</b> = on, <b>off</b>." in page
    assert a_live(start={"d_k": 4}, alt='A "line".').to_html() == page
    assert 'alt="A figure that depends on d_k, causal."' in a_live().to_html()


T, V = TypeError, ValueError
CALLS = [
    ({"draw": 3}, T, "draw must be a function, got int"),
    ({"causal": 4}, T, "causal must be a list of stops or a bool, got int; e.g. causal="),
    ({"d_k": (1, 16)}, T, r"the tuple \(1, 16\); use range\(1, 17\) for that range, or \[1, 16\]"),
    ({"d_k": (0, 10, 2)}, T, r"use range\(0, 11, 2\) for"),
    ({"d_k": (0, 10, 0.1)}, T, r"use np.linspace\(0, 10, 101\) for"),
    ({"d_k": (0.5, 2.5)}, T, r"use np.linspace\(0.5, 2.5, 21\) for"),
    ({"d_k": [4]}, V, "d_k must have at least 2 stops, got 1"),
    ({"d_k": [4, float("nan")]}, V, "stops that differ"),
    ({"start": {"dk": 4}}, V, r"start must name controls, got 'dk'; there is \['d_k'"),
    ({"start": {"d_k": 5}}, V, r"start of d_k must be one of its stops \[1, 4, 16\], got 5"),
    ({"start": {"causal": "on"}}, V, r"its stops .True, False., got 'on'"),
]


@pytest.mark.parametrize(("options", "kind", "words"), CALLS)
def test_a_bad_call_says_what_is_wrong(options, kind, words):
    with pytest.raises(kind, match=words):
        a_live(**options)


def test_a_figure_without_a_control_is_refused():
    with pytest.raises(ValueError, match=r"at least one control, e\.g\. d_k="):
        live(draw_line)
