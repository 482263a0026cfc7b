"""Drawings of boxes and arrows: words lie inside their boxes, and nothing overlaps.

Which box leads to which is seen in the figures that the lessons store, and a run must give again.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from attnlab.display import diagram, diagrams


@pytest.fixture(params=sorted(diagrams.DIAGRAMS))
def drawing(request):
    """Return a drawing that is laid out, its boxes, and whether they are steps of one way."""
    ax = Figure(figsize=(7.5, 2.2)).add_subplot()
    assert diagram(request.param, ax=ax) is ax
    assert not plt.get_fignums()
    ax = diagram(request.param)
    ax.figure.draw_without_rendering()
    boxes = [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    yield ax, boxes, request.param not in ("two_looks", "swap")  # which have boxes for tokens
    plt.close("all")


def test_every_box_holds_its_words_and_nothing_overlaps(drawing):
    ax, boxes, _ = drawing
    words = [text for text in ax.texts if text.get_text()]
    frames, texts = ([one.get_window_extent() for one in part] for part in (boxes, words))
    for kind in (frames, texts):
        assert not any(one.overlaps(other) for one, other in combinations(kind, 2))
    for frame in frames:
        (text,) = [text for text in texts if text.contains(*(frame.p0 + frame.p1) / 2)]
        assert frame.x0 <= text.x0 < text.x1 <= frame.x1
        assert frame.y0 <= text.y0 < text.y1 <= frame.y1
    page = ax.figure.bbox
    assert all(page.x0 <= text.x0 and text.x1 <= page.x1 for text in texts)
    assert all(page.y0 <= text.y0 and text.y1 <= page.y1 for text in texts)


def test_an_arrow_ends_at_the_side_of_each_box(drawing):
    ax, boxes, are_steps = drawing
    arrows = [text for text in ax.texts if not text.get_text()]
    ends = [end for arrow in arrows for end in (arrow.xyann, arrow.xy)]

    def at_a_side(frame, x, y):
        beside = x in map(pytest.approx, frame.intervalx) and frame.y0 < y < frame.y1
        above = y in map(pytest.approx, frame.intervaly) and frame.x0 < x < frame.x1
        return beside or above

    reached = [any(at_a_side(box.get_bbox(), *end) for end in ends) for box in boxes]
    assert all(reached) if are_steps else any(reached)


def test_a_name_that_no_diagram_has_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"name must be 'attention_steps' or .*, got 'steps'"):
        diagram("steps")
