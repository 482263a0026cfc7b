"""Pictures: asserted on what is drawn (arrays, colours, labels), not on pixels."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath

from attnlab import attention_weights, causal_mask
from attnlab.live import STYLE_FILE
from attnlab.palette import luminance
from attnlab.plotting import (
    plot_attention,
    plot_heads,
    plot_mask,
    plot_scores,
    plot_sweep,
)

H, L, S = 3, 5, 7
NAN, INF = float("nan"), float("inf")
MATRIX_PLOTS = {
    "attention": (plot_attention, lambda *shape: torch.rand(*shape)),
    "scores": (plot_scores, lambda *shape: torch.randn(*shape)),
    "mask": (plot_mask, lambda *shape: torch.rand(*shape) < 0.5),
}
every_matrix_plot = pytest.mark.parametrize(
    ("plot", "draw"), MATRIX_PLOTS.values(), ids=list(MATRIX_PLOTS)
)


@pytest.fixture(autouse=True)
def nothing_else_happens(settings_stay, monkeypatch, capsys):
    """No plotting function shows, saves, prints, draws random numbers or changes settings."""

    def forbidden(*args, **kwargs):
        raise AssertionError("a plotting function must not do this")

    for owner, name in ((plt, "show"), (plt, "savefig"), (Figure, "savefig"), (plt.style, "use")):
        monkeypatch.setattr(owner, name, forbidden)
    yield
    plt.close("all")
    assert capsys.readouterr() == ("", "")


def blank_axes() -> plt.Axes:
    return Figure(layout="constrained").add_subplot()


def cells(ax: plt.Axes) -> QuadMesh:
    (mesh,) = [artist for artist in ax.collections if isinstance(artist, QuadMesh)]
    return mesh


def drawn_array(ax: plt.Axes) -> np.ndarray:
    return np.ma.getdata(cells(ax).get_array())


def only(ax: plt.Axes, kind: type, label: str):
    """Return the one collection with this label, or None."""
    found = [c for c in ax.collections if isinstance(c, kind) and c.get_label() == label]
    assert len(found) <= 1
    return found[0] if found else None


def hatched_cells(ax: plt.Axes) -> set[tuple[int, int]]:
    """Return (row, column) of every blocked cell."""
    blocked = only(ax, PolyCollection, "blocked")
    paths = blocked.get_paths() if blocked else []
    assert all(np.ptp(p.vertices, axis=0).tolist() == [1, 1] for p in paths)
    return {(round(p.vertices[:, 1].min()), round(p.vertices[:, 0].min())) for p in paths}


def crossed_cells(ax: plt.Axes) -> list[tuple[int, int]]:
    """Return (row, column) of every cross: two strokes that run against each other."""
    crosses = only(ax, LineCollection, "NaN")
    strokes = crosses.get_segments() if crosses else []
    found = []
    for down, up in zip(strokes[::2], strokes[1::2], strict=True):
        (x, y), (to_x, to_y) = down
        assert up.tolist() == [[x, to_y], [to_x, y]]
        found.append((int(y), int(x)))
    return found


def numbered_cells(ax: plt.Axes) -> set[tuple[int, int]]:
    """Return (row, column) of every cell with a number in its middle."""
    numbers = only(ax, PathCollection, "numbers")
    offsets = numbers.get_offsets() if numbers else []
    assert all(float(x) % 1 == float(y) % 1 == 0.5 for x, y in offsets)
    return {(int(y), int(x)) for x, y in offsets}


def reads(ax: plt.Axes, row: int, column: int) -> list[str]:
    """Return which of some known texts a cell shows, by its outline."""
    numbers = only(ax, PathCollection, "numbers")
    where = numbers.get_offsets().tolist().index([column + 0.5, row + 0.5])
    outline = numbers.get_paths()[where].vertices
    known = ("0.25", "1.00", "0.00", "-0.00", "−1.50", "12.3", "−108", "150", "∞", "−∞")
    found = []
    for text in known:
        path = TextPath((0, 0), text, size=1)
        vertices = path.vertices - path.get_extents().get_points().mean(axis=0)
        if vertices.shape == outline.shape and np.allclose(vertices, outline):
            found.append(text)
    return found


def contrast(one, other) -> float:
    dark, light = sorted(luminance([255 * part for part in to_rgb(c)]) for c in (one, other))
    return (light + 0.05) / (dark + 0.05)


def colours_of(ax: plt.Axes, *values: float) -> list[tuple[float, float, float]]:
    """Return red, green and blue of numbers on the colour scale of a picture."""
    return [tuple(colour[:3]) for colour in cells(ax).to_rgba(np.array(values))]


# --- one matrix -----------------------------------------------------------------------------------


@every_matrix_plot
def test_a_plot_draws_into_the_given_axes_and_returns_them(plot, draw):
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    assert plot(draw(L, S), ax=left) is left
    assert figure.axes == [left, right]
    assert not right.has_data()
    assert not plt.get_fignums()
    first, second = plot(draw(L, S)), plot(draw(L, S))  # without axes it makes a figure
    assert first.figure is not second.figure
    assert len(plt.get_fignums()) == 2
    assert first.figure.axes == [first]


@every_matrix_plot
def test_queries_run_down_from_the_top_and_keys_across(plot, draw):
    data = draw(L, S)
    ax = plot(data, ax=blank_axes())
    assert np.array_equal(drawn_array(ax), data.double().numpy())
    assert ax.get_ylim() == (L, 0)
    assert ax.get_xlim() == (0, S)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("key position", "query position")
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(j) for j in range(S)]
    assert [label.get_text() for label in ax.get_yticklabels()] == [str(i) for i in range(L)]
    assert ax.get_xticks().tolist() == [j + 0.5 for j in range(S)]
    assert ax.get_yticks().tolist() == [i + 0.5 for i in range(L)]


@every_matrix_plot
def test_tokens_become_the_labels(plot, draw):
    queries, keys = list("abcde"), list("stuvwxy")
    ax = plot(draw(L, S), ax=blank_axes(), queries=queries, keys=tuple(keys), title="Finding")
    assert [label.get_text() for label in ax.get_yticklabels()] == queries
    assert [label.get_text() for label in ax.get_xticklabels()] == keys
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("key", "query", "Finding")


@every_matrix_plot
def test_long_words_under_the_columns_are_turned_and_short_ones_are_not(plot, draw):
    rotations = {
        length: plot(draw(L, S), ax=blank_axes(), keys=["w" * length] * S)
        .get_xticklabels()[0]
        .get_rotation()
        for length in (2, 12)
    }
    assert rotations == {2: 0, 12: 45}


@every_matrix_plot
def test_many_positions_are_not_all_labelled(plot, draw):
    ax = plot(draw(3, 64), ax=blank_axes())
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(8 * j) for j in range(8)]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.bfloat16(),
        lambda x: x.half(),
        lambda x: x.requires_grad_(),
        lambda x: x.t().contiguous().t(),
        lambda x: x[:1].expand(L, S),
    ],
    ids=["bfloat16", "float16", "requires_grad", "transposed", "expanded"],
)
def test_tensors_of_any_kind_can_be_drawn_and_stay_as_they_are(change):
    tensor = change(torch.rand(L, S))
    before = tensor.detach().clone()
    for plot in (plot_attention, plot_scores):
        ax = plot(tensor, ax=blank_axes())
        assert np.array_equal(drawn_array(ax), before.double().numpy())
    assert torch.equal(tensor.detach(), before)
    assert tensor._version == 0


@pytest.mark.parametrize(
    ("plot", "data", "options", "ends"),
    [
        (plot_attention, [[0.4, 0.6]], {}, (0, 1)),
        (plot_attention, [[0.4, 0.6]], {"vmin": 0.1, "vmax": 0.5}, (0.1, 0.5)),
        (plot_attention, [[NAN, NAN]], {}, (0, 1)),
        (plot_scores, [[1.0, -3.0], [2.0, 0.5]], {}, (-3, 3)),
        (plot_scores, [[1.0, -INF], [NAN, INF]], {}, (-1, 1)),
        (plot_scores, [[0.0, 0.0]], {}, (-1, 1)),
        (plot_scores, [[NAN, INF]], {}, (-1, 1)),
        (plot_scores, [[1.0, -3.0]], {"limit": 10}, (-10, 10)),
    ],
)
def test_weights_are_on_a_scale_from_0_to_1_and_scores_on_one_around_0(plot, data, options, ends):
    ax = plot(torch.tensor(data), ax=blank_axes(), **options)
    assert cells(ax).get_clim() == ends
    ax.figure.draw_without_rendering()


def test_more_weight_is_a_darker_blue():
    ax = plot_attention(torch.rand(L, S), ax=blank_axes())
    shades = colours_of(ax, 0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    light = [luminance([255 * part for part in shade]) for shade in shades]
    assert light == sorted(light, reverse=True)
    assert light[0] > 0.9 > 0.1 > light[-1]
    assert all(blue > red for red, _green, blue in shades[1:])


def test_scores_are_white_at_zero_orange_above_and_bluish_below():
    ax = plot_scores(torch.tensor([[1.0, -1.0]]), ax=blank_axes())
    far_below, below, zero, above, far_above = colours_of(ax, -0.9, -0.4, 0.0, 0.4, 0.9)
    assert min(zero) > 0.9
    assert far_above[0] > far_above[2]
    assert far_below[0] < far_below[2]
    assert contrast(far_above, "white") > contrast(above, "white") > contrast(zero, "white")
    assert contrast(far_below, "white") > contrast(below, "white") > contrast(zero, "white")


@pytest.mark.parametrize(
    ("plot", "label"), [(plot_attention, "attention weight"), (plot_scores, "score")]
)
def test_a_colour_scale_is_drawn_when_asked_for(plot, label):
    ax = plot(torch.rand(L, S), ax=blank_axes(), colorbar=True)
    (scale,) = [other for other in ax.figure.axes if other is not ax]
    assert scale.get_ylabel() == label
    assert scale.get_ylim() == pytest.approx(cells(ax).get_clim())


# --- numbers in the cells -------------------------------------------------------------------------


@pytest.mark.parametrize("plot", [plot_attention, plot_scores])
@pytest.mark.parametrize(
    ("shape", "annotate", "expected"),
    [
        ((12, 12), None, True),
        ((12, 13), None, False),
        ((12, 13), True, True),
        ((2, 2), False, False),
    ],
)
def test_cells_are_numbered_while_the_numbers_can_be_read(plot, shape, annotate, expected):
    ax = plot(torch.rand(*shape), ax=blank_axes(), annotate=annotate)
    every = {(i, j) for i in range(shape[0]) for j in range(shape[1])}
    assert numbered_cells(ax) == (every if expected else set())


@pytest.mark.parametrize(
    ("scores", "texts"),
    [
        ([[0.25, 1.0, -1e-9, -1.5]], ["0.25", "1.00", "0.00", "−1.50"]),
        ([[12.345, INF, -INF]], ["12.3", "∞", "−∞"]),
        ([[-108.3, 150.2]], ["−108", "150"]),
    ],
)
def test_a_cell_reads_its_own_number(scores, texts):
    ax = plot_scores(torch.tensor(scores), ax=blank_axes())
    assert [reads(ax, 0, column) for column in range(len(texts))] == [[text] for text in texts]


@pytest.mark.parametrize(
    ("plot", "data"),
    [
        (plot_attention, torch.linspace(0, 1, 36).view(6, 6)),
        (plot_scores, torch.linspace(-7, 7, 36).view(6, 6)),
        (plot_scores, torch.tensor([[INF, -INF, 3.0, -3.0]])),
    ],
    ids=["weights", "scores", "infinite scores"],
)
def test_numbers_can_be_read_on_their_cells(plot, data):
    ax = plot(data, ax=blank_axes())
    colours = cells(ax).to_rgba(drawn_array(ax).ravel())
    numbers = only(ax, PathCollection, "numbers").get_facecolors()
    assert len(numbers) == len(colours) == data.numel()
    ratios = [contrast(number, cell) for number, cell in zip(numbers, colours, strict=True)]
    assert min(ratios) >= 4.5


def test_infinite_numbers_have_the_colours_of_the_ends():
    mesh = cells(plot_scores(torch.tensor([[INF, -INF, 3.0, -3.0]]), ax=blank_axes()))
    mesh.update_scalarmappable()
    colours = mesh.get_facecolors()
    assert np.array_equal(colours[:2], colours[2:])
    assert (colours[:, 3] == 1).all()  # an infinite number has a cell, which is not transparent


def largest_share(ax: plt.Axes, *, of_a_line: bool = False) -> float:
    """Return the largest width or height of a number as a share of its cell, after the layout.

    Or the largest height as a share of a line of 12 points.
    """
    numbers = only(ax, PathCollection, "numbers")
    corners = ax.transData.transform([[0, 0], [1, 1]])
    cell = (np.inf, ax.figure.dpi / 6) if of_a_line else np.abs(corners[1] - corners[0])
    outlines = [numbers.get_transform().transform(p.vertices) for p in numbers.get_paths()]
    return max(float((np.ptp(outline, axis=0) / cell).max()) for outline in outlines)


@pytest.mark.parametrize(
    ("size", "largest"),
    [((2, 2), 1), ((5, 7), 50), ((12, 12), 1e5), ((1, 12), 50), ((12, 1), 1)],
    ids=str,
)
def test_numbers_stay_inside_their_cells(size, largest):
    scores = torch.linspace(-largest, largest, size[0] * size[1]).view(size)
    ax = plot_scores(scores, keys=["long word"] * size[1], title="Title")
    ax.figure.draw_without_rendering()
    assert 0.2 < largest_share(ax) < 1
    assert largest_share(ax, of_a_line=True) < 1


# --- blocked and NaN ------------------------------------------------------------------------------


def test_blocked_cells_are_hatched_grey_and_hold_no_number():
    mask = causal_mask(L)
    weights = attention_weights(torch.randn(L, L), attn_mask=mask)
    ax = plot_attention(weights, ax=blank_axes(), attn_mask=mask)
    above = {(i, j) for i in range(L) for j in range(L) if j > i}
    blocked = only(ax, PolyCollection, "blocked")
    assert hatched_cells(ax) == above
    assert numbered_cells(ax) == {(i, j) for i in range(L) for j in range(L)} - above
    assert blocked.get_hatch()
    red, green, blue = to_rgb(blocked.get_facecolor()[0])
    assert max(red, green, blue) - min(red, green, blue) < 0.05  # grey
    assert not np.allclose(blocked.get_facecolor()[0], cells(ax).cmap(0.0), atol=0.02)


@pytest.mark.parametrize(
    ("shape", "blocked"), [((1, 3), {(0, 1), (1, 1)}), ((2, 1), {(1, j) for j in range(3)})]
)
def test_a_mask_is_broadcast_over_rows_and_columns(shape, blocked):
    mask = torch.ones(shape, dtype=torch.bool)
    mask[(0, 1) if shape == (1, 3) else (1, 0)] = False
    ax = plot_attention(torch.rand(2, 3), ax=blank_axes(), attn_mask=mask)
    assert hatched_cells(ax) == blocked


@pytest.mark.parametrize("plot", [plot_attention, plot_scores])
def test_nan_cells_are_crossed_and_hold_no_number(plot):
    data = torch.rand(L, S)
    data[1, 2] = data[4, 6] = NAN
    ax = plot(data, ax=blank_axes())
    assert sorted(crossed_cells(ax)) == [(1, 2), (4, 6)]
    assert not numbered_cells(ax) & {(1, 2), (4, 6)}
    assert len(numbered_cells(ax)) == L * S - 2


def test_a_blocked_nan_is_hatched_and_not_crossed():
    mask = torch.tensor([[True, False]])
    ax = plot_attention(torch.tensor([[NAN, NAN]]), ax=blank_axes(), attn_mask=mask)
    assert hatched_cells(ax) == {(0, 1)}
    assert crossed_cells(ax) == [(0, 0)]


# --- masks ----------------------------------------------------------------------------------------


def test_a_mask_shows_two_named_kinds_of_cells():
    mask = causal_mask(L, S)
    ax = plot_mask(mask, ax=blank_axes())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["may attend", "blocked"]
    assert hatched_cells(ax) == {(i, j) for i in range(L) for j in range(S) if j > i}
    assert numbered_cells(ax) == set()
    allowed, blocked = ax.get_legend().get_patches()
    assert blocked.get_hatch() == only(ax, PolyCollection, "blocked").get_hatch()
    assert to_rgb(allowed.get_facecolor()) == to_rgb(cells(ax).to_rgba([1.0])[0])
    assert contrast(allowed.get_facecolor(), blocked.get_facecolor()) > 3


def test_the_legend_of_a_mask_covers_no_cell_and_can_be_left_out():
    ax = plot_mask(causal_mask(L))
    ax.figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().x0 > ax.get_window_extent().x1
    assert plot_mask(causal_mask(L), ax=blank_axes(), legend=False).get_legend() is None


@pytest.mark.parametrize("value", [True, False])
def test_a_mask_of_one_kind_keeps_its_colour(value):
    ax = plot_mask(torch.full((2, 2), value), ax=blank_axes())
    mixed = plot_mask(causal_mask(2), ax=blank_axes())
    colour = cells(ax).to_rgba(drawn_array(ax).ravel())[0]
    assert np.allclose(colour, cells(mixed).to_rgba([float(value)])[0])


# --- heads ----------------------------------------------------------------------------------------


def panels(figure: Figure) -> list[plt.Axes]:
    return [ax for ax in figure.axes if ax.get_title()]


@pytest.mark.parametrize(("heads", "ncols"), [(1, 4), (4, 4), (5, 4), (3, 2)])
def test_every_head_gets_a_picture_on_one_shared_scale(heads, ncols):
    weights = torch.rand(heads, L, S)
    figure = plot_heads(weights, ncols=ncols)
    assert isinstance(figure, Figure)
    assert len(plt.get_fignums()) == 1
    drawn = panels(figure)
    assert [ax.get_title() for ax in drawn] == [f"head {head}" for head in range(heads)]
    for head, ax in enumerate(drawn):
        assert np.array_equal(drawn_array(ax), weights[head].double().numpy())
        assert cells(ax).get_clim() == (0, 1)
    (scale,) = [ax for ax in figure.axes if ax not in drawn]  # one colour scale, no empty panel
    assert scale.get_ylabel() == "attention weight"
    assert scale.get_ylim() == (0, 1)
    figure.draw_without_rendering()
    assert figure.get_figwidth() <= 7.5  # inches: a column of a lesson
    assert scale.get_window_extent().x0 > max(ax.get_window_extent().x1 for ax in drawn)


def test_heads_take_titles_tokens_and_masks_of_any_rank():
    weights = torch.rand(H, L, L)
    per_head = torch.ones(H, L, L, dtype=torch.bool)
    per_head[1, 2, 3] = False
    figure = plot_heads(weights, titles=["a", "b", "c"], attn_mask=per_head, keys=list("vwxyz"))
    assert [ax.get_title() for ax in panels(figure)] == ["a", "b", "c"]
    assert [hatched_cells(ax) for ax in panels(figure)] == [set(), {(2, 3)}, set()]
    assert [label.get_text() for label in panels(figure)[0].get_xticklabels()] == list("vwxyz")
    for mask in (causal_mask(L), causal_mask(L)[None]):
        above = {(i, j) for i in range(L) for j in range(L) if j > i}
        assert [hatched_cells(ax) for ax in panels(plot_heads(weights, attn_mask=mask))] == [
            above
        ] * H


def test_slanted_labels_leave_room_for_the_titles():
    words = "[CLS] the boat drifted towards the bank [SEP]".split()
    with mpl.rc_context(fname=STYLE_FILE):
        figure = plot_heads(torch.rand(2, 8, 8), queries=words, keys=words)
        figure.draw_without_rendering()  # once, as saving does
    drawn = figure.axes[:2]
    assert [ax.get_title(loc="left") for ax in drawn] == ["head 0", "head 1"]
    assert {label.get_rotation() for label in drawn[0].get_xticklabels()} == {45}
    low, high = figure.bbox.y0, figure.bbox.y1
    boxes = [ax.get_tightbbox() for ax in drawn]
    assert all(low < box.y0 and box.y1 < high for box in boxes)


def test_only_the_outer_panels_name_their_axes():
    figure = plot_heads(torch.rand(4, L, S), ncols=2)
    named = [bool(ax.get_ylabel()) for ax in panels(figure)]
    assert named == [True, False, True, False]
    assert [bool(ax.get_xlabel()) for ax in panels(figure)] == [False, False, True, True]


# --- curves ---------------------------------------------------------------------------------------


def test_curves_are_told_apart_by_more_than_colour():
    x = [1, 4, 16]
    curves = {name: torch.rand(3) for name in ("raw", "scaled", "third", "fourth")}
    ax = blank_axes()
    assert plot_sweep(x, curves, ax=ax, xlabel="d_k", ylabel="variance", xscale="log") is ax
    for line, (name, values) in zip(ax.lines, curves.items(), strict=True):
        assert line.get_label() == name
        assert line.get_xdata().tolist() == x
        assert np.array_equal(line.get_ydata(), values.double().numpy())
    assert len({line.get_linestyle() for line in ax.lines}) == 4
    assert len({line.get_marker() for line in ax.lines}) == 4
    assert all(contrast(line.get_color(), "white") >= 4.5 for line in ax.lines)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(curves)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale()) == ("d_k", "variance", "log")


def test_one_curve_needs_no_legend_and_a_value_can_be_marked():
    x = torch.arange(3.0, requires_grad=True)
    ax = plot_sweep(x, {"one": x.bfloat16()}, at=1.5, title="Finding", yscale="symlog")
    assert ax.get_legend() is None
    assert plot_sweep(x, {"one": x, "two": x}, ax=blank_axes()).get_legend() is not None
    assert ax.get_title() == "Finding"
    assert ax.get_yscale() == "symlog"
    curve, marker = ax.lines
    assert curve.get_label() == "one"
    assert list(marker.get_xdata()) == [1.5, 1.5]


def test_tokens_are_text_and_not_formulas():
    ax = plot_attention(torch.eye(3), keys=["$", r"$\x$", 7], queries=["_", "^", "$a$"])
    ax.figure.canvas.draw()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["$", r"$\x$", "7"]
