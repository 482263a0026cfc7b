"""The still picture: each kind of panel, and what explorers draw by themselves."""

import matplotlib as mpl
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from attnlab import explorers as ex
from attnlab import palette
from attnlab.explorers import Explorer
from attnlab.explorers._panels import Axis, Bars, Column, Curves, Heatmap, Line
from attnlab.live import STYLE_FILE
from tests.explorers.common import assert_same, at


def drawn(panel, values, **state):
    ax = Figure().subplots()
    panel.at(values).draw(ax, values, state)
    return ax


def texts_of(ax):
    return [text.get_text() for text in ax.texts]


def numbers(values):
    return torch.tensor([*values]).double()


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
    names = [line.name for line in at(ex.ScalingExplorer).panels[3].lines]
    assert [text.get_text() for text in legend.get_texts()] == names
    (ax,) = at(ex.PeekExplorer).figure().axes
    levels = dict(zip(ax.get_yticks(), (t.get_text() for t in ax.get_yticklabels()), strict=True))
    assert [levels[one] for one in at(ex.PeekExplorer).result[2:]] == ["best", "guess"]


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


def test_a_mask_is_named_above_its_weights():
    explorer = at(ex.MaskExplorer, mask="window", window=2, fill="-1e9", padding=[0])
    ax = explorer.figure().axes[0]
    title = ax.get_title(loc="left")
    assert texts_of(ax)[-6:] == ["✗ 1.00", *["✓ 1"] * 5]
    assert title == "mask: causal window of width 2\nblocked score: −1e9"


def test_the_words_of_bank_are_joined_by_lines_as_wide_as_their_weights():
    explorer = at(ex.BankExplorer, moved=[("river", -3, -2.4)])
    (plane, bars), result = explorer.figure().axes, explorer.result
    money, nature = sorted(plane.patches, key=lambda patch: -patch.get_x())
    colours = [side.get_facecolor()[:3] for side in (nature, money)]
    assert colours == [to_rgb(palette.GREEN), to_rgb(palette.ORANGE)]
    widths = numbers(line.get_linewidth() for line in plane.lines)
    assert_same(widths / widths.sum(), result.weights, "lines")
    ends = [point.get_offsets()[0].tolist() for point in plane.collections[-2:]]
    assert ends == [result.output.tolist(), result.average.tolist()]
    assert [bar.get_width() for bar in bars.patches] == [*result.weights.tolist(), *[1 / 8] * 8]


def test_a_look_up_draws_its_query_and_each_weight_as_the_area_of_a_ball():
    explorer = at(ex.SoftLookupExplorer, query=(-1.5, 0), temperature=0.5)
    arrows, bars, ax = explorer.figure().axes
    (query,) = [one for one in arrows.collections if len(one.U) == 1]
    assert (query.U[0], query.V[0]) == explorer.query
    names = {text.get_text(): text.get_position() for text in arrows.texts}
    assert names["cat"][0] > 1 > -1 > names["spider"][0]  # beyond the ends of their arrows
    scores = [text.get_text().split()[-1] for text in bars.get_yticklabels()]
    assert scores == ["−3.00", "0.00", "3.00"]
    areas = numbers(ax.collections[0].get_sizes())
    assert_same(areas / areas.sum(), explorer.result.weights, "balls")
    assert ax.lines[1].get_xdata()[0] == explorer.result.output


def test_turned_pairs_and_looks_back_are_drawn_as_lines():
    explorer = at(ex.RotaryExplorer, query=24, key=3, base=100.0)
    ends = [line.get_xydata()[-1].tolist() for line in explorer.figure().axes[0].lines[::2]]
    both = explorer.result.query[0], explorer.result.key[0]
    assert_same(torch.tensor(ends), torch.stack(both), "arrows of pair 0")
    explorer = at(ex.LookingBackExplorer)
    looks, both = explorer.figure().axes[0], explorer.result
    widths = numbers(line.get_linewidth() for line in looks.lines)
    assert_same(widths, 14 * torch.cat([both.second, both.first]).double(), "lines")
    assert [text.get_text() for text in looks.texts if text.get_bbox_patch()] == ["Z", "B", "Z"]


def test_wrong_numbers_of_heads_have_a_cross():
    for step, cells, crosses in (("x", 24, 0), ("view", 24, 20), ("scores", 48, 46)):
        axes = at(ex.HeadsExplorer, way="short cut", step=step).figure().axes
        texts = [text for ax in axes for text in texts_of(ax)]
        assert (len(texts) - texts.count("✗"), texts.count("✗")) == (cells, crosses)


def test_a_row_shows_the_steps_that_are_taken():
    for step in (1, 3, 7):
        explorer = at(ex.RowExplorer, step=step, mask="causal", query="is")
        ax, rows = explorer.figure().axes[0], explorer.frame_now()["strips"]["rows"]
        shown = [row["cells"][-1] in texts_of(ax) for row in rows]
        assert shown[: step + 1] == [True] * step + [step == 7]
        weights = explorer.result.weights[:2].tolist()
        shades = [to_rgb(palette.to_hex(palette.shade(weight))) for weight in weights]
        colours = [patch.get_facecolor()[:3] for patch in ax.patches]
        assert [one for one in colours if one in shades] == shades * (step == 7)
