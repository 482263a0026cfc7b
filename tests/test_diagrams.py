"""Drawings of boxes and arrows: words lie inside their boxes, and nothing overlaps."""

from itertools import combinations, pairwise, product

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from attnlab import diagrams

ROLES, HEADS = ("query", "key", "value"), ("head 0", "head 1", "head 2")
MATRICES = ("W_Q", "W_K", "W_V")
TILES = "the tiles of the table, one after another"
THIEF, LATER = {*"the thief sailed to bank with gold".split()}, "layers 2 to 5 run as usual"
ATTEND = [("query", "scores"), ("key", "scores"), *pairwise(("scores", "weights", "output"))]
BLOCK = ["words as", "+ position", "norm", "attention", "+", "norm", "MLP", "+", "to the"]
TABLES = ["query", "multiply", "scores", "softmax", "weights", "average"]
# a drawing: which box leads to which, by the first lines of their words; and names with shapes
DRAWINGS = {
    "attention_steps": (
        [*ATTEND, ("value", "output")],
        "query\nx (6, 5)|key\nx (6, 5)|value\nx (6, 5)|scores\n(6, 6)|weights\n(6, 6)|"
        "output\n(6, 5)|softmax of each row",
    ),
    "transformer_block": ([*pairwise(BLOCK)], "a copy bypasses both boxes"),
    "residual_stream": ([*pairwise(["letter", "+", "+", "norm,", "guess"])], "reads|adds"),
    "two_looks": ([("B", "Z"), ("Z", "B")], "note: Z is\nbefore me"),
    "projections": (
        [("tokens x", matrix) for matrix in MATRICES]
        + [*zip(MATRICES, ROLES, strict=True), ("query", "weights"), ("key", "weights")]
        + [("weights", "output"), ("value", "output")],
        "W_Q\n(d_in, d_k)|W_K\n(d_in, d_k)|W_V\n(d_in, d_v)|tokens x\n(L, d_in)|query\n(L, d_k)|"
        "key\n(L, d_k)|value\n(L, d_v)|weights\n(L, L)|output\n(L, d_v)",
    ),
    "multi_head_attention": (
        [
            *(*product("x", ROLES), *product(ROLES, HEADS)),
            *(*product(HEADS, ["merged"]), ("merged", "output")),
        ],
        "head 0\n(L, head_dim)|W_Q|W_K|W_V|W_O|project|split|attend|merge",
    ),
    "positions": (
        [
            *pairwise(("tokens", "queries", "scores", "weights", "output")),
            *pairwise(("tokens", "values", "output")),
            *(("add a vector", "tokens"), ("turn", "queries"), ("add a number", "scores")),
        ],
        "learned, sinusoidal|rotary (RoPE)|ALiBi|queries\nand keys",
    ),
    "memory_traffic": (
        [
            *(*pairwise([*TABLES, "output"]), ("value", "average")),
            *pairwise(["block of", TILES, "output"]),
            ("all keys", TILES),
        ],
        "step by step|in a fused kernel|slow\nmemory|fast\nmemory",
    ),
    "swap": (
        [("bank", "bank"), *product(THIEF, [LATER]), *product([LATER], THIEF)],
        "its vector of “bank” is put in",
    ),
}


@pytest.fixture(params=DRAWINGS)
def drawing(request):
    """Return a drawing that is laid out, its boxes on the page, and what is known of it."""
    draw = getattr(diagrams, f"draw_{request.param}")
    ax = Figure(figsize=(7.5, 2.2)).add_subplot()
    assert draw(ax=ax) is ax
    assert not plt.get_fignums()
    ax = draw()
    ax.figure.draw_without_rendering()
    yield ax, [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)], request.param
    plt.close("all")


def words(ax):
    return [text for text in ax.texts if text.get_text()]


def test_every_box_holds_its_words_and_nothing_overlaps(drawing):
    ax, boxes, _ = drawing
    frames, texts = ([one.get_window_extent() for one in part] for part in (boxes, words(ax)))
    for kind in (frames, texts):
        assert not any(one.overlaps(other) for one, other in combinations(kind, 2))
    for frame in frames:
        (text,) = [text for text in texts if text.contains(*(frame.p0 + frame.p1) / 2)]
        assert frame.x0 <= text.x0 < text.x1 <= frame.x1
        assert frame.y0 <= text.y0 < text.y1 <= frame.y1
    page = ax.figure.bbox
    assert all(page.x0 <= text.x0 and text.x1 <= page.x1 for text in texts)
    assert all(page.y0 <= text.y0 and text.y1 <= page.y1 for text in texts)


def test_arrows_lead_from_each_step_to_the_next_and_shapes_are_named(drawing):
    ax, boxes, name = drawing
    wanted, named = DRAWINGS[name]
    frames = {}
    for frame in (box.get_bbox() for box in boxes):
        (text,) = [one.get_text() for one in words(ax) if frame.contains(*one.get_position())]
        frames[frame] = text.partition("\n")[0]

    def at(x, y):
        """Return the name of the box on whose side, not corner, a point lies, if there is one."""
        for frame, text in frames.items():
            beside = x in map(pytest.approx, frame.intervalx) and frame.y0 < y < frame.y1
            above = y in map(pytest.approx, frame.intervaly) and frame.x0 < x < frame.x1
            if beside or above:
                return text
        return None

    arrows = [(at(*one.xyann), at(*one.xy)) for one in ax.texts if not one.get_text()]
    assert {ends for ends in arrows if None not in ends} == {*wanted}
    assert {*named.split("|")} <= {text.get_text() for text in words(ax)}


def test_the_parts_of_the_tensors_have_the_colours_of_the_heads():
    ax = diagrams.draw_multi_head_attention()
    parts = [patch for patch in ax.patches if not isinstance(patch, FancyBboxPatch)]
    frames = [patch.get_bbox() for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    names = {text.get_position(): text.get_text().partition("\n")[0] for text in words(ax)}
    colours = {}
    for frame in frames:
        inside = [one for one in parts if frame.contains(*one.get_center())]
        name = names[tuple((frame.p0 + frame.p1) / 2)]
        colours[name] = [one.get_facecolor() for one in inside]
    of_heads = [colour for head in HEADS for colour in colours[head]]
    assert len({*of_heads}) == len(HEADS)
    assert all(colours[name] == of_heads for name in (*ROLES, "merged"))
    plt.close("all")


def test_tensors_lie_in_slow_memory_and_steps_in_fast_memory():
    ax = diagrams.draw_memory_traffic()
    bands = [patch for patch in ax.patches if not isinstance(patch, FancyBboxPatch)]
    kinds = {"slow\nmemory": set(), "fast\nmemory": set()}
    for band in bands:
        inside = [t for t in words(ax) if band.get_bbox().contains(*t.get_position())]
        (kind,) = {text.get_text() for text in inside} & {*kinds}
        kinds[kind] |= {text.get_text().partition("\n")[0] for text in inside}
    assert kinds["fast\nmemory"] == {"fast", "multiply", "softmax", "average", TILES}
    assert {"scores", "weights", "value", "output"} < kinds["slow\nmemory"]
    plt.close("all")
