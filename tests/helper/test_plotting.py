"""Pictures: asserted on what is drawn (arrays, colours, labels), and six of them on how they look.

``pytest --snapshot-update`` keeps other looks: open them before you commit them.
"""

import io

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from PIL import Image
from syrupy.extensions.image import PNGImageSnapshotExtension

from attnlab import _labels, causal_mask
from attnlab.display.setup import STYLE_FILE
from attnlab.palette import luminance
from attnlab.plotting import plot_attention, plot_heads, plot_mask, plot_scores, plot_sweep

H, L, S = 3, 5, 7
NAN, INF = float("nan"), float("inf")
PLOTS = {"attention": plot_attention, "scores": plot_scores, "mask": plot_mask}
every_matrix_plot = pytest.mark.parametrize("kind", PLOTS)


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


def drawn(kind, data=None, **options):
    """Draw one matrix, of L x S random numbers if none is given, on axes of its own."""
    if data is None:
        data = torch.rand(L, S) if kind != "mask" else torch.rand(L, S) < 0.5
    data = data if isinstance(data, torch.Tensor) else torch.tensor(data)
    return PLOTS[kind](data, ax=Figure(layout="constrained").add_subplot(), **options)


def mesh_of(ax):
    (mesh,) = [artist for artist in ax.collections if isinstance(artist, QuadMesh)]
    return mesh


def numbers_of(ax):
    return np.ma.getdata(mesh_of(ax).get_array())


def part(ax, label):
    """Return the drawn parts with a label ("blocked", "NaN" or "numbers"), or None."""
    return next((one for one in ax.collections if one.get_label() == label), None)


def look(ax):
    """Return what is drawn in each cell, row by row: n(umber), / (hatch), x (cross) or nothing."""
    rows, columns = numbers_of(ax).shape
    found = [["" for _ in range(columns)] for _ in range(rows)]
    for square in part(ax, "blocked").get_paths() if part(ax, "blocked") else ():
        (x, y), to = square.vertices.min(axis=0), square.vertices.max(axis=0)
        assert to.tolist() == [x + 1, y + 1]
        found[int(y)][int(x)] += "/"
    if part(ax, "blocked"):
        assert part(ax, "blocked").get_hatch()
    if part(ax, "NaN"):
        assert contrast(part(ax, "NaN").get_color()[0], "white") > 3
        assert part(ax, "NaN").get_linewidth() > 1
    strokes = [one.tolist() for one in part(ax, "NaN").get_segments()] if part(ax, "NaN") else []
    for ((x, y), (to_x, to_y)), up in zip(strokes[::2], strokes[1::2], strict=True):
        assert up == [[x, to_y], [to_x, y]]
        found[int(y)][int(x)] += "x"
    for x, y in part(ax, "numbers").get_offsets().tolist() if part(ax, "numbers") else ():
        assert x % 1 == y % 1 == 0.5
        found[int(y)][int(x)] += "n"
    return " ".join("".join(one or "." for one in row) for row in found)


def contrast(one, other):
    dark, light = sorted(luminance([255 * part for part in to_rgb(c)]) for c in (one, other))
    return (light + 0.05) / (dark + 0.05)


def texts(labels):
    return [label.get_text() for label in labels]


# --- one matrix -----------------------------------------------------------------------------------


@every_matrix_plot
def test_a_plot_draws_into_the_given_axes_or_into_a_figure_of_its_own(kind):
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    data = torch.rand(L, S) if kind != "mask" else torch.rand(L, S) < 0.5
    assert PLOTS[kind](data, ax=left) is left
    assert figure.axes == [left, right]
    assert not right.has_data()
    assert not plt.get_fignums()
    first, second = PLOTS[kind](data), PLOTS[kind](data)
    assert (first.figure.axes, second.figure.axes) == ([first], [second])
    assert len(plt.get_fignums()) == 2


@every_matrix_plot
def test_queries_run_down_from_the_top_and_keys_across(kind):
    ax = drawn(kind)
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, S), (L, 0))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("key position", "query position")
    assert texts(ax.get_xticklabels()) == [str(j) for j in range(S)]
    assert ax.get_xticks().tolist() == [j + 0.5 for j in range(S)]
    assert ax.get_yticks().tolist() == [i + 0.5 for i in range(L)]
    many = drawn(kind, torch.ones(3, 64, dtype=torch.bool if kind == "mask" else None))
    assert texts(many.get_xticklabels()) == [str(8 * j) for j in range(8)]
    assert texts(many.get_yticklabels()) == ["0", "1", "2"]


@every_matrix_plot
def test_tokens_are_labels_and_no_formulas_and_long_ones_are_turned(kind):
    queries, keys = ["a", "b", "c", "_", r"$\x$"], ("$", "-", 7, "^", "$a$", "x", "y")
    ax = drawn(kind, queries=queries, keys=keys, title="Finding")
    ax.figure.draw_without_rendering()
    assert texts(ax.get_yticklabels()) == queries
    assert texts(ax.get_xticklabels()) == [str(key) for key in keys]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("key", "query", "Finding")
    long = drawn(kind, keys=["w" * 12] * S)
    many = drawn("attention", torch.rand(2, 40), keys=["word"] * 40)
    turns = [one.get_xticklabels()[0].get_rotation() for one in (ax, long, many)]
    assert turns == [0, 45, 90]


@pytest.mark.parametrize("count", [20, 60, 250])
def test_labels_are_thinned_out_until_none_touches_another(count):
    names = [f"pond{place}" for place in range(count)]
    for ax in (
        plot_attention(torch.rand(count, count), queries=names, keys=names),
        plot_heads(torch.rand(8, count, count), queries=names, keys=names).axes[4],
    ):
        ax.figure.draw_without_rendering()
        for labels, side in ((ax.get_yticklabels(), 1), (ax.get_xticklabels(), 0)):
            boxes = [label.get_window_extent().get_points()[:, side] for label in labels]
            middles = np.mean(boxes, axis=1)
            assert np.abs(np.diff(middles)).min() > 0.9 * np.ptp(boxes, axis=1).max()
            assert 5 < len(labels) <= count


def test_long_labels_lose_their_middle_and_the_map_keeps_its_size():
    names = [f"{letter * 20}{place}" for place, letter in enumerate("abcdefW")]
    sizes = []
    for keys in ("the cat sat on the mat .".split(), names):
        ax = plot_attention(torch.rand(S, S), queries=keys, keys=keys)
        figure = plot_heads(torch.rand(2, S, S), queries=keys, keys=keys)
        for one in (ax, figure.axes[1]):
            one.figure.draw_without_rendering()
            box, page = one.get_tightbbox(), one.figure.bbox
            assert page.y0 <= box.y0
            assert box.y1 <= page.y1 + 1
            sizes.append(one.get_window_extent().height)
    assert texts(ax.get_xticklabels())[:2] == ["aaaaaaa…aaaaa0", "bbbbbbb…bbbbb1"]
    assert sizes[2:] == pytest.approx(sizes[:2], rel=0.15)


def test_letters_that_the_font_lacks_come_from_another_one_or_a_warning_names_the_setting():
    rare, unknown = "\ue0d6", "\U000fabcd"  # of STIX, which comes with matplotlib; of none
    ax = drawn("attention", keys=[rare, *"abcdef"], title=rare)
    (first, *_), title = ax.get_xticklabels(), ax.title
    assert first.get_text() == title.get_text() == rare
    assert first.get_fontfamily() == title.get_fontfamily()
    assert any(family.startswith("STIX") for family in first.get_fontfamily())
    _labels._told.clear()
    with pytest.warns(UserWarning, match=rf"font has {unknown}, .*'font.family'\] =") as warned:
        axes = plot_heads(torch.rand(H, 2, 2), keys=["a", f"b{unknown}"]).axes
    assert len(warned) == 1
    assert texts(axes[0].get_xticklabels()) == ["a", "b□"]
    axes[0].figure.draw_without_rendering()  # without a warning of matplotlib


@pytest.mark.parametrize("kind", ["attention", "scores"])
def test_tensors_of_any_kind_and_arrays_can_be_drawn_and_stay_as_they_are(kind):
    tensor = torch.rand(1, S).bfloat16().requires_grad_().expand(L, S)
    before, array = tensor.tolist(), np.random.default_rng(0).random((S, L)).T
    array.flags.writeable = False
    assert numbers_of(drawn(kind, tensor)).tolist() == tensor.tolist() == before
    assert numbers_of(drawn(kind, array)).tolist() == array.tolist()
    assert numbers_of(drawn(kind, array[None, None])).tolist() == array.tolist()


ROWS, COLUMN = torch.tensor([[True, False]]), torch.tensor([[True], [False]])
TALL, WIDE = torch.rand(12, 12), torch.rand(12, 13)
MARKED = [[NAN, NAN], [0.5, NAN]]


@pytest.mark.parametrize(
    ("kind", "data", "options", "ends", "cells"),
    [
        ("attention", [[0.4, 0.6]], {}, (0, 1), "nn"),
        ("attention", [[-12.0, 20.0]], {"vmin": -15, "vmax": 30}, (-15, 30), "nn"),
        ("attention", TALL, {}, (0, 1), " ".join(["n" * 12] * 12)),
        ("attention", WIDE, {}, (0, 1), " ".join(["." * 13] * 12)),
        ("attention", WIDE, {"annotate": True}, (0, 1), " ".join(["n" * 13] * 12)),
        ("attention", [[0.4, 0.6]], {"annotate": False}, (0, 1), ".."),
        ("attention", MARKED, {}, (0, 1), "xx nx"),
        ("attention", MARKED, {"attn_mask": ROWS}, (0, 1), "x/ n/"),
        ("attention", MARKED, {"attn_mask": COLUMN}, (0, 1), "xx //"),
        ("attention", torch.eye(3), {"attn_mask": causal_mask(3)}, (0, 1), "n// nn/ nnn"),
        ("scores", [[1.0, -3.0], [2.0, 0.5]], {}, (-3, 3), "nn nn"),
        ("scores", [[1.0, -INF], [NAN, INF]], {}, (-1, 1), "nn xn"),
        ("scores", [[0.0, 0.0]], {}, (-1, 1), "nn"),
        ("scores", [[1.0, -3.0]], {"limit": 10}, (-10, 10), "nn"),
        ("mask", causal_mask(2, 3), {}, (0, 1), ".// ../"),
        ("mask", [[True, True]], {}, (0, 1), ".."),
    ],
)
def test_scale_and_cells(kind, data, options, ends, cells):
    ax = drawn(kind, data, **options)
    assert (mesh_of(ax).get_clim(), look(ax)) == (ends, cells)
    assert len(ax.figure.axes) == 1
    if kind != "mask":
        ax = drawn(kind, data, colorbar=True, **options)
        (scale,) = [other for other in ax.figure.axes if other is not ax]
        assert scale.get_ylabel() == {"attention": "attention weight", "scores": "score"}[kind]
        assert scale.get_ylim() == pytest.approx(ends)


# --- numbers in the cells -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([[0.25, 1.0, -1e-9, -1.5]], ["0.25", "1.00", "0.00", "−1.50"]),
        ([[12.345, INF, -INF]], ["12.3", "∞", "−∞"]),
        ([[-108.3, 150.2]], ["−108", "150"]),
    ],
)
def test_a_cell_reads_its_own_number(scores, expected):
    outlines = [path.vertices for path in part(drawn("scores", scores), "numbers").get_paths()]
    for outline, text in zip(outlines, expected, strict=True):
        path = TextPath((0, 0), text, size=1)
        centred = path.vertices - path.get_extents().get_points().mean(axis=0)
        assert outline.shape == centred.shape
        assert np.allclose(outline, centred)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("attention", torch.linspace(0, 1, 36).view(6, 6)),
        ("scores", torch.linspace(-7, 7, 36).view(6, 6)),
        ("scores", torch.tensor([[INF, -INF, 3.0, -3.0]])),
    ],
)
def test_numbers_can_be_read_on_their_cells(kind, data):
    ax = drawn(kind, data)
    mesh_of(ax).update_scalarmappable()
    colours = mesh_of(ax).get_facecolors()
    assert (colours[:, 3] == 1).all()
    if data.isinf().any():  # the largest score is the darkest, and minus infinity is pale
        assert np.array_equal(colours[0], colours[2])
        assert luminance(255 * colours[1]) > 0.8
    numbers = part(ax, "numbers").get_facecolors()
    assert min(map(contrast, numbers, colours)) >= 4.5


@pytest.mark.parametrize(
    ("size", "largest"), [((2, 2), 1), ((5, 7), 50), ((12, 12), 1e5), ((1, 12), 50), ((12, 1), 1)]
)
def test_numbers_stay_inside_their_cells(size, largest):
    scores = torch.linspace(-largest, largest, size[0] * size[1]).view(size)
    ax = plot_scores(scores, keys=["long word"] * size[1], annotate=True)
    ax.figure.draw_without_rendering()
    numbers = part(ax, "numbers")
    outlines = [numbers.get_transform().transform(path.vertices) for path in numbers.get_paths()]
    width, height = np.max([np.ptp(outline, axis=0) for outline in outlines], axis=0)
    cell = np.abs(np.diff(ax.transData.transform([[0, 0], [1, 1]]), axis=0))[0]
    assert 0.2 < max(width / cell[0], height / cell[1]) < 1
    assert height < ax.figure.dpi / 6  # a line of 12 points


# --- heads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("heads", "ncols"), [(1, 4), (4, 4), (5, 4), (3, 2), (4, 2)])
def test_every_head_gets_a_picture_on_one_shared_scale(heads, ncols):
    weights = torch.rand(heads, L, S)
    figure = plot_heads(weights, ncols=ncols)
    *panels, scale = figure.axes  # one colour scale, no empty panel
    assert [ax.get_title() for ax in panels] == [f"head {head}" for head in range(heads)]
    for head, ax in enumerate(panels):
        assert np.array_equal(numbers_of(ax), weights[head].double().numpy())
        assert mesh_of(ax).get_clim() == (0, 1)
        assert bool(ax.get_ylabel()) == (head % ncols == 0)  # only the outer ones name their axes
        assert bool(ax.get_xlabel()) == (head + ncols >= heads)
    assert (scale.get_ylabel(), scale.get_ylim()) == ("attention weight", (0, 1))
    figure.draw_without_rendering()
    assert figure.get_figwidth() <= 7.5  # inches: a column of a lesson
    assert scale.get_window_extent().x0 > max(ax.get_window_extent().x1 for ax in panels)


def test_heads_take_titles_tokens_and_masks_of_any_rank():
    per_head = torch.ones(H, 2, 3, dtype=torch.bool)
    per_head[1, 1, 2] = False
    for mask, blocked in (
        (per_head, ["nnn nnn", "nnn nn/", "nnn nnn"]),
        (causal_mask(2, 3), ["n// nn/"] * H),
        (causal_mask(2, 3)[None], ["n// nn/"] * H),
    ):
        options = {"titles": list("abc"), "keys": list("xyz")}
        *panels, _ = plot_heads(torch.rand(H, 2, 3), attn_mask=mask, **options).axes
        assert [ax.get_title() for ax in panels] == ["a", "b", "c"]
        assert [look(ax) for ax in panels] == blocked
        assert texts(panels[0].get_xticklabels()) == list("xyz")


def test_heads_are_taken_as_models_return_them_and_in_other_colours():
    weights = torch.rand(1, H, L, S)
    for given, count in ((weights, H), (weights[0].numpy(), H), (weights[0, 0], 1)):
        *panels, _ = plot_heads(given, cmap="magma", attn_mask=weights[:, :1] > 0.5).axes
        assert [numbers_of(ax).shape for ax in panels] == [(L, S)] * count
        assert {mesh_of(ax).cmap.name for ax in panels} == {"magma"}


# --- how they look --------------------------------------------------------------------------------

WORDS, LONG = "the cat sat on the mat .".split(), ["Donaudampfschifffahrtsgesellschaft", "W" * 35]
MANY = [f"{word}{place}" for place in range(10) for word in WORDS[:6]]
MIXED = torch.where(torch.eye(5, 7) > 0, NAN, torch.linspace(0, 1, 35).view(5, 7))
LOOKS = {
    "twelve heads": lambda: plot_heads(spread(1, 12, 7, 7), queries=WORDS, keys=WORDS),
    "sixty tokens": lambda: plot_attention(spread(60, 60), queries=MANY, keys=MANY),
    "long words": lambda: plot_attention(
        spread(4, 4), queries=[*LONG, "a", "b"], keys=["a", *LONG, "b"]
    ),
    "blocked and NaN": lambda: plot_attention(
        MIXED, attn_mask=causal_mask(5, 7), keys=WORDS, title="Title", colorbar=True
    ),
    "scores of one row": lambda: plot_scores(
        torch.tensor([[-3.0, 0, 1.5, INF]]), queries=["cat"], colorbar=True
    ),
    "mask": lambda: plot_mask(causal_mask(4, 6), title="Title"),
}


class Look(PNGImageSnapshotExtension):
    """A picture that may differ in the edges of its letters, but not in what is seen."""

    def matches(self, *, serialized_data, snapshot_data):
        pair = [
            Image.open(io.BytesIO(one)).convert("RGB") for one in (serialized_data, snapshot_data)
        ]
        size = np.array(pair[1].size)
        if np.abs(size - pair[0].size).max() > 6:
            return False
        new, old = (np.asarray(one.resize(size // 4, Image.BOX), float) for one in pair)
        return np.sqrt(np.mean((new - old) ** 2)) < 5


def spread(*size):
    return torch.sin(torch.arange(1.0, 1 + np.prod(size)) ** 2).view(size).mul(3).softmax(-1)


@pytest.mark.parametrize("name", LOOKS)
def test_a_picture_looks_as_it_did(name, snapshot, monkeypatch):
    monkeypatch.undo()  # here a figure is saved
    with mpl.rc_context(fname=STYLE_FILE):
        drawn, file = LOOKS[name](), io.BytesIO()
        drawn.figure.savefig(file, dpi=80, metadata={"Software": None})
    assert file.getvalue() == snapshot(extension_class=Look)


# --- curves ---------------------------------------------------------------------------------------


def test_curves_are_told_apart_by_more_than_colour():
    x, curves = [1, 4, 16], {name: torch.rand(3) for name in ("raw", "scaled", "third", "fourth")}
    ax = Figure().add_subplot()
    assert plot_sweep(x, curves, ax=ax, xlabel="d_k", ylabel="variance", xscale="log") is ax
    for line, (name, values) in zip(ax.lines, curves.items(), strict=True):
        assert line.get_label() == name
        assert np.array_equal(line.get_xydata().T, [x, values.double().tolist()])
        assert contrast(line.get_color(), "white") >= 4.5
    for look in ("color", "linestyle", "marker"):
        assert len({plt.getp(line, look) for line in ax.lines}) == 4
    assert texts(ax.get_legend().get_texts()) == list(curves)
    labels = ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale(), ax.get_yscale()
    assert labels == ("d_k", "variance", "log", "linear")


def test_one_curve_needs_no_legend_and_a_value_can_be_marked():
    x = torch.arange(3.0, requires_grad=True)
    ax = plot_sweep(x, {"one": x.bfloat16()}, at=1.5, title="Finding", yscale="symlog")
    assert ax.get_legend() is None
    assert (ax.get_title(), ax.get_yscale()) == ("Finding", "symlog")
    curve, marker = ax.lines
    assert curve.get_label() == "one"
    assert [*marker.get_xdata()] == [1.5, 1.5]
    assert plot_sweep(x, {"one": x, "two": x}).get_legend() is not None


# --- bad calls ------------------------------------------------------------------------------------

ONES, THREE, BOOLS = torch.full((L, S), 0.2), torch.full((3, L, S), 0.2), torch.ones(2, L, S) > 0
TWO = torch.full((2, 3, L, S), 0.2)
T, V = TypeError, ValueError
CALLS = [
    (
        lambda: plot_attention(THREE[None]),
        V,
        r"got \(3, 5, 7\); .*weights\[0\], or use plot_heads ",
    ),
    (lambda: plot_attention(TWO), V, r"got \(2, 3, 5, 7\).*weights\[0, 0\], or use plot_heads\(w"),
    (lambda: plot_attention((ONES, ONES)), T, r"one layer, e.g. weights\[0\], got a tuple"),
    (lambda: plot_attention(np.array([["a"]])), T, "must hold numbers, got an array of <U1"),
    (lambda: plot_attention(ONES, cmap="blau"), V, "a colour map of matplotlib, got 'blau'"),
    (lambda: plot_scores(THREE), V, r"scores must have shape \(L, S\), .*scores\[0\]"),
    (lambda: plot_attention(ONES[0]), V, r"for a single row use weights\[None\]"),
    (lambda: plot_attention(ONES.int()), T, r"floating-point tensor, got torch.int32; use we"),
    (lambda: plot_attention(50 * ONES), V, "between 0 and 1 .*got 10; .* after the softmax"),
    (lambda: plot_attention(ONES, vmin=1), V, "vmin must be smaller than vmax, got 1 and 1.0"),
    (lambda: plot_attention(ONES, queries=["a"] * 4), V, r"every row \(L = 5\), got 4"),
    (lambda: plot_scores(ONES, keys=["a"] * 9), V, r"every column \(S = 7\), got 9"),
    (lambda: plot_scores(ONES, limit=0), V, "limit must be positive, got 0"),
    (lambda: plot_mask(ONES), T, "attn_mask must be bool"),
    (lambda: plot_mask(BOOLS), V, r"select one, e.g. attn_mask\[0\]"),
    (lambda: plot_heads(ONES[0]), V, r"shape \(H, L, S\).*use plot_attention\(weights\[None\]"),
    (lambda: plot_heads(TWO), V, r"got \(2, 3, 5, 7\); take one example, e.g. weights\[0\]"),
    (lambda: plot_heads(THREE, titles=["a", "b"]), V, "every head, got 2 for 3 heads"),
    (lambda: plot_heads(THREE, attn_mask=BOOLS), V, "attn_mask must broadcast to the weights"),
    (lambda: plot_sweep([1], {}), V, "curves must be 1 to 4, got 0"),
    (lambda: plot_sweep([1, 2], {"a": [1]}), V, r"'a' must have as many points as x, got \(1,\)"),
]


@pytest.mark.parametrize(("call", "kind", "words"), CALLS)
def test_a_bad_call_says_what_is_wrong_and_leaves_no_figure(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
    assert plt.get_fignums() == []
