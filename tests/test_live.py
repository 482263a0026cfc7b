"""Moving a control redraws the figure and errors are shown; no figure or setting is left behind."""

import asyncio
import functools
import io
import random
import re
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from PIL import Image

from attnlab.live import PAUSE, STYLE_FILE, Live, live
from attnlab.plotting import plot_attention


@pytest.fixture(autouse=True)
def nothing_is_left_behind(settings_stay):
    """No pyplot figure is registered, no setting changes and no random number is drawn."""
    before = torch.get_rng_state()
    yield
    assert plt.get_fignums() == []
    assert torch.equal(torch.get_rng_state(), before)


def draw_line(fig, d_k, causal=False):
    ax = fig.subplots()
    ax.plot([0, d_k], color="black" if causal else "red")
    return f"d_k = <b>{d_k}</b>"


def draw_or_fail(fig, d_k):
    fig.subplots().plot([0, d_k])
    if d_k == 4:
        raise ValueError(f"no <d_k> of {d_k}")
    return f"d_k is {d_k}"


def a_live(**options) -> Live:
    return live(draw_line, **{"d_k": [1, 4, 16], "figsize": (2, 1)} | options)


# --- moving ---------------------------------------------------------------------------------------


def test_moving_a_control_changes_picture_and_sentence_and_back_is_the_same():
    widget, other = a_live(causal=False), a_live(causal=False)
    first = widget.picture, widget.sentence
    for name, value in (("d_k", 16), ("causal", True)):
        before = widget.picture
        widget.controls[name].value = value
        assert widget.picture != before
    assert "d_k = <b>16</b>" in widget.sentence
    assert widget.value == {"d_k": 16, "causal": True}
    widget.controls["d_k"].value = 1
    widget.controls["causal"].value = False
    assert (widget.picture, widget.sentence) == first
    assert (other.picture, other.sentence) == first  # a widget moves on its own


def test_the_picture_is_what_draw_drew():
    picture = Image.open(io.BytesIO(a_live(figsize=(2, 1)).picture))
    assert picture.format == "PNG"
    assert picture.width == 2 * picture.height
    assert a_live(figsize=(4, 1)).width == 2 * a_live(figsize=(2, 1)).width
    pixels = np.asarray(picture.convert("RGB")).astype(int)
    red = (pixels[..., 0] > 200) & (pixels[..., 1:].max(axis=-1) < 60)
    assert red.sum() > 50


def test_draw_finds_the_style_of_the_lessons_whatever_the_notebook_has_set():
    sizes = []

    def draw(fig, d_k):
        sizes.append(mpl.rcParams["font.size"])

    with mpl.rc_context({"font.size": 30}):
        widget = live(draw, d_k=[1, 4])
        widget.controls["d_k"].value = 4
    assert widget.sentence == ""  # draw returns none
    style = mpl.rc_params_from_file(STYLE_FILE, use_default_template=False)
    assert sizes == [style["font.size"]] * 2


# --- frames ---------------------------------------------------------------------------------------


def test_the_browser_gets_places_picture_and_sentence_at_once(monkeypatch):
    widget, sent = a_live(), []
    widget.comm = Mock()  # an open line to a browser
    monkeypatch.setattr(type(widget), "send_state", lambda self, key=None: sent.append({*key}))
    widget.set_state({"places": {"d_k": 2}})
    assert {"picture", "shown"} in [keys & {"picture", "shown"} for keys in sent]
    assert widget.value == {"d_k": 16}
    assert widget.shown["places"] == {"d_k": 2}


def test_a_frame_is_drawn_once_until_another_cell_runs(monkeypatch):
    drawn, cells = [], [7]

    def draw(fig, d_k):
        drawn.append(d_k)
        fig.subplots().plot([0, d_k])

    monkeypatch.setattr("attnlab.live.cells_run", lambda: cells[0])
    widget = live(draw, d_k=[1, 2, 4])
    for stop in (2, 1, 2):
        widget.controls["d_k"].value = stop
    assert drawn == [1, 2, 1]
    cells[0] = 8
    widget.controls["d_k"].value = 1
    assert drawn == [1, 2, 1, 1]


def run_in_thread(routine):
    """Run a coroutine where no other event loop runs, such as playwright's."""
    with ThreadPoolExecutor(1) as own_thread:
        return own_thread.submit(asyncio.run, routine).result()


def test_the_next_stop_is_drawn_ahead_and_uses_up_no_random_number():
    drawn = []

    def draw(fig, d_k):
        torch.rand(1), random.random(), np.random.rand()
        drawn.append(d_k)
        fig.subplots().plot([0, d_k])

    async def move(widget, stop):
        widget.controls["d_k"].value = stop
        seen = [*drawn], torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
        await asyncio.sleep(3 * PAUSE)
        assert torch.equal(torch.get_rng_state(), seen[1])
        assert random.getstate() == seen[2]
        assert np.array_equal(np.random.get_state()[1], seen[3])
        return seen[0]

    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    widget = live(draw, d_k=[1, 2, 4])
    assert run_in_thread(move(widget, 2)) == [1, 2]
    assert drawn == [1, 2, 4]
    assert run_in_thread(move(widget, 4)) == drawn == [1, 2, 4]  # there is no stop after 4
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])


# --- controls -------------------------------------------------------------------------------------


def test_controls_start_at_their_first_stop_or_where_they_are_told():
    def draw(fig, d_k, rule, causal):
        fig.subplots()

    stops = {"d_k": (1, 4, 16), "rule": ["raw", "scaled"], "causal": False}
    assert live(draw, **stops).value == {"d_k": 1, "rule": "raw", "causal": False}
    start = {"d_k": 16, "rule": "scaled", "causal": True}
    assert live(draw, start=start, **stops).value == start


@pytest.mark.parametrize(
    ("stops", "kind", "labels"),
    [
        ([1, 4], "slider", ("1", "4")),
        (range(2, 5), "slider", ("2", "3", "4")),
        ([0.5, 1.0], "slider", ("0.5", "1.0")),
        (["raw", "scaled"], "choice", ("raw", "scaled")),
        (True, "choice", ("on", "off")),
    ],
)
def test_numbers_become_sliders_and_words_and_switches_buttons(stops, kind, labels):
    control = live(lambda fig, what: None, what=stops).controls["what"]
    values = [True, False] if stops is True else [*stops]
    assert (control.kind, control.name, control.values) == (kind, "what", values)
    assert control.labels == [*labels]


# --- errors of the learner's code -----------------------------------------------------------------


def test_an_error_at_the_start_is_the_error_of_the_cell():
    with pytest.raises(ValueError, match="no <d_k> of 4"):
        live(draw_or_fail, d_k=[4, 1])


def test_an_error_of_a_move_is_shown_with_its_line_and_clears_when_it_is_gone():
    widget = live(draw_or_fail, d_k=[1, 4, 16])
    first = widget.picture
    widget.controls["d_k"].value = 4
    line = draw_or_fail.__code__.co_firstlineno + 3
    raised = 'raise ValueError(f"no <d_k> of {d_k}")'
    assert widget.shown["error"] == f"ValueError: no <d_k> of 4\nline {line}: {raised}"
    assert widget.sentence == ""  # it was true of the picture before
    assert isinstance(widget.last_error, ValueError)
    assert widget.picture == first  # the old picture stays, faded

    widget.controls["d_k"].value = 1
    assert widget.shown["error"] == ""
    assert "d_k is 1" in widget.sentence
    assert widget.last_error is None
    assert widget.picture == first


def test_the_line_shown_is_that_of_the_learner_when_a_library_raises():
    def panels(fig, columns):
        return fig.subplots(1, columns)

    def draw(fig, d_k):
        panels(fig, d_k)

    widget = live(draw, d_k=[1, 0])
    widget.controls["d_k"].value = 0
    assert "return fig.subplots(1, columns)" in widget.shown["error"]


# --- what a notebook shows and stores -------------------------------------------------------------


def test_a_running_notebook_gets_the_widget_and_a_stored_one_html_and_text(monkeypatch):
    widget = a_live()
    monkeypatch.delenv("ATTNLAB_STATIC", raising=False)
    running = widget._repr_mimebundle_()
    view = running["application/vnd.jupyter.widget-view+json"]
    assert view["model_id"] == widget.model_id
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    stored = widget._repr_mimebundle_()
    assert set(stored) == {"text/html", "text/plain"}
    assert running | stored == running


def test_stored_html_holds_picture_sentence_and_all_stops():
    html = a_live(alt='A "line".', start={"d_k": 4}).to_html()
    assert 'alt="A &quot;line&quot;."' in html
    assert 'src="data:image/png;base64,' in html
    assert "d_k = <b>4</b>" in html
    assert re.search(r"d_k</b> = 1, <b>4</b>, 16", html)
    assert "<script" not in html


def test_what_is_stored_depends_on_the_values_alone():
    one, other = a_live(), a_live()
    before = one.to_html()
    assert other.to_html() == before
    assert one.model_id not in before
    assert 'alt="A figure that depends on d_k."' in before  # where none is given
    one.controls["d_k"].value = 16
    assert one.to_html() != before
    assert repr(one) == "live(draw_line, d_k=16)"


def test_drawings_that_are_no_plain_function_work_and_tell_their_errors():
    def draw(fig, word, d_k):
        fig.subplots().set_title(word * (6 // d_k))
        return fig.axes

    figure = live(functools.partial(draw, word="a"), d_k=[1, 2, 0])
    assert repr(figure) == "live(draw, d_k=1)"
    assert figure.sentence == ""  # axes are not a sentence
    figure.controls["d_k"].value = 0
    assert "ZeroDivisionError" in figure.shown["error"]


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
    assert len(moved._layouts) == (1 if word == "same" else 2)
