"""Drawings of boxes and arrows: words lie inside their boxes, and nothing overlaps."""

from itertools import combinations, pairwise, product

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from attnlab.diagrams import (
    draw_attention_steps,
    draw_memory_traffic,
    draw_multi_head_attention,
    draw_projections,
    draw_transformer_block,
)

every_drawing = pytest.mark.parametrize(
    "draw",
    [
        draw_attention_steps,
        draw_transformer_block,
        draw_projections,
        draw_multi_head_attention,
        draw_memory_traffic,
    ],
)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def laid_out(ax):
    ax.figure.draw_without_rendering()
    return ax


def extents(artists) -> list:
    return [artist.get_window_extent() for artist in artists]


def boxes(ax) -> list[FancyBboxPatch]:
    return [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]


def words(ax) -> list:
    return [text for text in ax.texts if text.get_text()]


@every_drawing
def test_a_drawing_takes_axes_and_returns_them(draw):
    ax = Figure(figsize=(7.5, 2.2), layout="constrained").add_subplot()
    assert draw(ax=ax) is ax
    assert not plt.get_fignums()
    assert draw().figure.number in plt.get_fignums()


@every_drawing
def test_boxes_do_not_overlap_and_every_one_holds_its_words(draw):
    ax = laid_out(draw())
    frames = extents(boxes(ax))
    assert len(frames) >= 7
    assert not any(one.overlaps(other) for one, other in combinations(frames, 2))
    for frame in frames:
        middle = (frame.p0 + frame.p1) / 2
        inside = [text for text in extents(words(ax)) if text.contains(*middle)]
        assert len(inside) == 1
        assert frame.x0 <= inside[0].x0 < inside[0].x1 <= frame.x1
        assert frame.y0 <= inside[0].y0 < inside[0].y1 <= frame.y1


@every_drawing
def test_no_two_texts_overlap_and_all_are_inside_the_picture(draw):
    ax = laid_out(draw())
    texts = extents(words(ax))
    assert not any(one.overlaps(other) for one, other in combinations(texts, 2))
    page = ax.figure.bbox
    assert all(page.x0 <= t.x0 and t.x1 <= page.x1 for t in texts)
    assert all(page.y0 <= t.y0 and t.y1 <= page.y1 for t in texts)


def joined_by_arrows(ax) -> list[tuple[str, str]]:
    """Return the first lines of the words in two boxes for every arrow from one to the other."""
    found = []
    frames = [box.get_bbox() for box in boxes(ax)]
    for arrow in ax.texts:
        if not arrow.get_text():
            ends = arrow.xyann, arrow.xy
            touched = [[frame for frame in frames if touches(frame, *end)] for end in ends]
            if all(touched):
                found.append(tuple(word_in(ax, frame) for (frame,) in touched))
    return found


def touches(frame, x, y) -> bool:
    """Return whether a point lies on a side of a frame, and not at a corner."""
    beside = x in map(pytest.approx, frame.intervalx) and frame.y0 < y < frame.y1
    above = y in map(pytest.approx, frame.intervaly) and frame.x0 < x < frame.x1
    return beside or above


def word_in(ax, frame) -> str:
    (found,) = [t.get_text() for t in words(ax) if frame.contains(*t.get_position())]
    return found.partition("\n")[0]


def test_arrows_lead_from_each_step_to_the_next():
    assert set(joined_by_arrows(draw_attention_steps())) == {
        ("query", "scores"),
        ("key", "scores"),
        ("scores", "mask,"),
        ("mask,", "weights"),
        ("weights", "output"),
        ("value", "output"),
    }
    block = ["words as", "+ position", "norm", "attention", "+", "norm", "MLP", "+", "to the"]
    assert set(joined_by_arrows(draw_transformer_block())) == set(pairwise(block))


def test_the_steps_name_every_tensor_with_its_shape():
    written = {text.get_text() for text in words(draw_attention_steps())}
    assert {"query\n(L, E)", "key\n(S, E)", "value\n(S, Ev)", "scores\n(L, S)"} <= written
    assert {"weights\n(L, S)", "output\n(L, Ev)"} <= written


def test_each_matrix_leads_from_the_tokens_to_its_role():
    assert set(joined_by_arrows(draw_projections())) == {
        *(("tokens x", matrix) for matrix in ("W_Q", "W_K", "W_V")),
        ("W_Q", "query"),
        ("W_K", "key"),
        ("W_V", "value"),
        ("query", "weights"),
        ("key", "weights"),
        ("weights", "output"),
        ("value", "output"),
    }


def test_the_projections_name_every_shape():
    written = [text.get_text() for text in words(draw_projections())]
    for name, sizes in (("W_Q", "d_in, d_k"), ("W_K", "d_in, d_k"), ("W_V", "d_in, d_v")):
        assert f"{name}\n({sizes})" in written
    for name, width in (("tokens x", "d_in"), ("query", "d_k"), ("key", "d_k"), ("value", "d_v")):
        assert f"{name}\n(L, {width})" in written
    assert {"weights\n(L, L)", "output\n(L, d_v)"} <= {*written}


def test_every_head_takes_a_part_of_query_key_and_value():
    roles, heads = ("query", "key", "value"), ("head 0", "head 1", "head 2")
    assert set(joined_by_arrows(draw_multi_head_attention())) == {
        *product(("x",), roles),
        *product(roles, heads),
        *product(heads, ("merged",)),
        ("merged", "output"),
    }


def test_the_layer_names_its_steps_in_order_and_its_four_matrices():
    drawn = words(draw_multi_head_attention())
    steps = sorted((t for t in drawn if t.get_weight() == "bold"), key=lambda t: t.get_position())
    named = [text.get_text() for text in steps]
    assert named == ["project", "split", "attend", "merge", "project"]
    matrices = [t.get_text() for t in drawn if t.get_text().startswith("W_")]
    assert sorted(matrices) == ["W_K", "W_O", "W_Q", "W_V"]
    assert sum("(L, head_dim)" in text.get_text() for text in drawn) == 3


def test_step_by_step_every_table_is_written_and_read_and_in_a_fused_kernel_none_is():
    assert joined_by_arrows(draw_memory_traffic()) == [
        ("query", "multiply"),
        ("multiply", "raw scores"),
        ("raw scores", "divide"),
        ("divide", "scores"),
        ("scores", "softmax"),
        ("softmax", "weights"),
        ("weights", "average"),
        ("value", "average"),
        ("average", "output"),
        ("query, key", "the tiles of the table, one after another"),
        ("the tiles of the table, one after another", "output"),
    ]


def test_tensors_lie_in_slow_memory_and_steps_in_fast_memory():
    ax = laid_out(draw_memory_traffic())
    bands = [p for p in ax.patches if not isinstance(p, FancyBboxPatch)]
    named = {"slow": set(), "fast": set()}
    for band, frame in product(bands, [box.get_bbox() for box in boxes(ax)]):
        if band.get_y() < frame.y0 < frame.y1 < band.get_y() + band.get_height():
            (label,) = [
                t
                for t in words(ax)
                if t.get_text() in ("slow\nmemory", "fast\nmemory")
                and band.get_y() < t.get_position()[1] < band.get_y() + band.get_height()
            ]
            named[label.get_text()[:4]].add(word_in(ax, frame))
    assert named["fast"] == {
        "multiply",
        "divide",
        "softmax",
        "average",
        "the tiles of the table, one after another",
    }
    assert {"raw scores", "scores", "weights", "value", "output"} < named["slow"]
