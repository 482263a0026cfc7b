"""The still picture: each kind of panel, and what explorers draw by themselves."""

import matplotlib as mpl
import pytest
import torch
from matplotlib.figure import Figure

from attnlab import explorers as ex
from attnlab import palette
from attnlab.display.setup import STYLE_FILE
from attnlab.explorers import Explorer
from attnlab.explorers.frame.panels import Axis, Bars, Column, Curves, Heatmap, Line
from tests.explorers.common import at


def drawn(panel, values, **state):
    ax = Figure().subplots()
    panel.at(values).draw(ax, values, state)
    return ax


def texts_of(ax):
    return [text.get_text() for text in ax.texts]


# --- panels ---------------------------------------------------------------------------------------


def test_a_heatmap_draws_its_cells_on_the_stated_scale():
    panel = Heatmap(key="w", rows=("a", "b"), columns=("c", "d"), scale=(0, 2))
    values = {"cells": torch.tensor([[0.0, 1.0], [2.0, 0.5]]), "title": "other", "picked": 1}
    with mpl.rc_context(fname=STYLE_FILE):
        ax = drawn(panel, {**values, "looks": [["blocked", "leak"], ["", ""]]})
    assert ax.collections[0].get_clim() == (0, 2)
    assert ax.collections[0].get_array().tolist() == values["cells"].tolist()
    assert ax.get_title(loc="left") == "other"
    (hatched,) = [one for one in ax.collections if one.get_label() == "blocked"]
    assert [path.get_extents().bounds for path in hatched.get_paths()] == [(0, 0, 1, 1)]
    assert ax.patches[-1].get_bbox().bounds == (0, 1, 2, 1)  # the picked row is framed
    texts = [["1", "2"], ["3", "4"]]
    assert texts_of(drawn(panel, {**values, "texts": texts})) == ["1", "2", "3", "4"]


def test_curves_draw_their_values_in_their_colours_and_mark_the_stop():
    lines = [Line("up", [1, 2, 3], "raw", "dashed", "square")]
    lines.append(Line("down", [3, 2, 1], "good", "solid", "circle"))
    panel = Curves(key="c", over="x", stops=(1, 2, 4), lines=lines, y=Axis(1, 4, (1, 2), log=True))
    ax = drawn(panel, {}, x=2)
    looks = [(one.get_color(), one.get_linestyle(), one.get_marker()) for one in ax.lines[:2]]
    assert looks == [(palette.ORANGE, "--", "s"), (palette.GREEN, "-", "o")]
    assert [list(line.get_ydata()) for line in ax.lines[:2]] == [[1, 2, 3], [3, 2, 1]]
    assert (ax.lines[2].get_xdata()[0], ax.get_yscale()) == (2, "log")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "4"]


def test_bars_are_as_long_as_the_weights_beside_what_they_are_compared_with():
    panel = Bars(key="b", names=("p", "q"), columns={"score": ["1", "2"]}, digits=3)
    weights, other = torch.tensor([0.25, 0.75]), torch.tensor([0.5, 0.125])
    ax = drawn(panel, {"weights": weights, "outline": other})
    assert [bar.get_width() for bar in ax.patches] == [0.25, 0.75, 0.5, 0.125]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["p   1", "q   2"]
    assert texts_of(ax) == ["0.250", "0.750"]
    assert ax.yaxis_inverted()  # the first one is on top


def test_panels_of_a_column_are_drawn_below_each_other():
    class Probe(Explorer):
        panels = (
            Column(panels=(Bars(key="top", names=("p",)), Bars(key="low", names=("p",)))),
            Heatmap(key="w", rows=("a",), columns=("b",), grow=2),
        )

        def frame(self):
            one = {"weights": torch.ones(1), "cells": torch.ones(1, 1)}
            return {"say": "x.", "bad": False, "code": "", "top": one, "low": one, "w": one}

    figure = Probe().figure()
    figure.draw_without_rendering()
    top, low, wide = (ax.get_position() for ax in figure.axes)
    assert top.y0 > low.y1
    assert wide.width > 1.5 * top.width


def test_several_curves_have_one_legend_and_what_is_not_still_is_left_out():
    (legend,) = at(ex.ScalingExplorer).figure().legends
    names = [line.name for line in at(ex.ScalingExplorer).panels[2].lines]
    assert [text.get_text() for text in legend.get_texts()] == names


def test_small_maps_stand_row_after_row_and_one_is_marked():
    explorer = at(ex.RealHeadsExplorer, head=10)
    maps = explorer.figure().axes[0]
    assert texts_of(maps)[9:] == ["head 9", "▸ head 10", "head 11"]
    assert maps.yaxis_inverted()
    for image, weights in zip(maps.images, explorer.result.weights, strict=True):
        left, right, low, high = image.get_extent()
        assert (right - left, low - high) == weights.shape  # the first row on top
        assert torch.equal(torch.tensor(image.get_array()), weights)
        assert image.get_clim() == (0, 1)


# --- pictures of their own ------------------------------------------------------------------------

DRAWN = [  # by the explorers themselves: another state, another picture
    (ex.MaskExplorer, {"fill": "0"}, {"fill": "0 after"}),
    (ex.SoftLookupExplorer, {}, {"temperature": 0.5}),
    (ex.RotaryExplorer, {}, {"key": 3}),
    (ex.LookingBackExplorer, {}, {"position": 3}),
    (ex.DealExplorer, {}, {"split": "cut"}),
    (ex.RowExplorer, {"step": 3}, {"step": 3, "mask": "causal", "query": "is"}),
    (ex.WhoAsksExplorer, {}, {"word": "tide"}),
]


@pytest.mark.parametrize(("kind", "state", "other"), DRAWN)
def test_the_still_picture_follows_the_state(kind, state, other):
    first, second, again = (at(kind, **one)._picture() for one in (state, other, state))
    assert first == again != second
