"""Live figures are swept through all their stops, and the web pages show all their pictures."""

import base64
import io
import itertools
import json
import re

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image

from attnlab.explorers.frame.base import COLOURS
from attnlab.explorers.live import live
from tools.build.sources import KERNELSPEC
from tools.publish.frames import LIVE, frames_of, moving, pair
from tools.publish.live_figures import (
    MOST_FRAMES,
    all_frames,
    live_figures,
    payload_of,
    small,
    sweep,
)
from tools.publish.site.html import SiteError

CALLS = itertools.count()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (str, None),
        (lambda d_k: str(1 / d_k), "division by zero"),
        (lambda d_k: "always the same", "two stops look alike"),
        (lambda d_k: str(next(CALLS)), "drawn anew it looks new"),
    ],
)
def test_a_sweep_finds_every_figure_and_its_faults(text, complaint):
    def draw(fig, d_k, bold):
        fig.text(0.5, 0.5, text(d_k), weight="bold" if bold else "normal")

    figure = live(draw, d_k=[1, 2, 0], bold=False, figsize=(2, 1))
    assert any(figure is found for found in live_figures())
    if complaint is None:
        sweep([figure])
    else:
        with pytest.raises((AssertionError, RuntimeError), match=complaint):
            sweep([figure])


LESSON = """
from attnlab.explorers.live import live
heights = [1, 2]


def draw(fig, height, word):
    fig.subplots().bar([word], [heights[0] * height])
    return f"$h$ is {height}" if height < 3 else "<b>high</b>"


figure = live(draw, height=[1, 2, 3], word=["a", "b"], start={"height": 2}, figsize=(2, 1))
figure
""".strip()


@pytest.fixture
def figure():
    names = {}
    exec(LESSON, names)
    return names["figure"]


@pytest.fixture
def stored(figure, monkeypatch):
    """A function that returns the output that a notebook would store of the figure."""
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    return lambda: new_output("execute_result", figure._repr_mimebundle_(), execution_count=1)


def write_lesson(folder, source, output):
    path = folder / "00_made_up.ipynb"
    cells = [new_code_cell(source, outputs=[output])]
    write(new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC}), path)
    return path


def test_frames_are_as_large_as_the_picture_and_have_fewer_colours():
    many = io.BytesIO()
    Image.effect_noise((64, 64), 50).convert("RGB").resize((99, 99)).save(many, "PNG")
    few = small(base64.b64encode(many.getvalue()).decode())
    image = Image.open(io.BytesIO(base64.b64decode(few)))
    assert (image.size, len(image.getcolors())) == ((99, 99), COLOURS)


@pytest.mark.parametrize(
    ("draw", "stops", "why"),
    [
        (
            lambda fig, **values: None,
            {"a": [*range(MOST_FRAMES + 1)]},
            "more than 128 pict",
        ),
        (lambda fig, a: 1 / a, {"a": [1, 0]}, "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_shown_is_refused(draw, stops, why):
    with pytest.raises(RuntimeError, match=why):
        all_frames(live(draw, **stops))


def test_a_moving_figure_holds_the_still_one_and_rewritten_sentences(figure):
    page = moving(figure.to_html(), payload_of(figure), str.upper)
    assert figure.to_html().upper() in page
    (block,) = re.findall('<script type="application/json">(.*?)</script>', page)
    assert "<" not in block
    pool = json.loads(block)["data"]["pool"]
    assert [one for one in pool if "HIGH" in str(one)] == ["<B>HIGH</B>"]


def test_a_lesson_is_executed_for_its_frames(tmp_path, figure, stored):
    path = write_lesson(tmp_path, LESSON, stored())
    before = path.read_text()
    ((html, frames),) = frames_of(path).items()
    assert html.startswith(LIVE)
    assert frames == json.loads(json.dumps(payload_of(figure)))
    assert path.read_text() == before


def test_another_figure_than_the_stored_one_is_refused(figure, stored):
    first = stored()
    html = first.data["text/html"]
    assert pair("x.ipynb", [first], [stored()], {html: {"a": 1}}) == {html: {"a": 1}}
    with pytest.raises(SiteError, match=r"x\.ipynb moves a live figure after it has shown it"):
        pair("x.ipynb", [first], [first], {})
    figure.controls["height"].value = 3
    for others in ([stored()], [first, first]):
        with pytest.raises(SiteError, match=r"x\.ipynb stores other live figures than a run gives"):
            pair("x.ipynb", [first], others, {html: {}})
