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

from attnlab.explorers import live
from attnlab.explorers.frame.base import COLOURS
from tools.build.sources import KERNELSPEC, read_notebook
from tools.publish import frames
from tools.publish.frames import frames_of, moving
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


@pytest.fixture(autouse=True)
def keep_elsewhere(tmp_path, monkeypatch):
    """Keep no frames of these tests where those of the lessons are."""
    monkeypatch.setattr(frames, "KEPT", tmp_path / "kept")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (str, None),
        (lambda d_k: str(1 / d_k), "ZeroDivisionError.*division by zero"),
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
from attnlab.explorers import live
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


def write_lesson(folder, source, output, *later):
    path = folder / "00_made_up.ipynb"
    cells = [new_code_cell(source, outputs=[output]), *map(new_code_cell, later)]
    write(new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC}), path)
    return path


def test_frames_are_as_large_as_the_picture_and_have_fewer_colours():
    many = io.BytesIO()
    Image.effect_noise((64, 64), 50).convert("RGB").resize((99, 99)).save(many, "PNG")
    few = small(base64.b64encode(many.getvalue()).decode())
    image = Image.open(io.BytesIO(base64.b64decode(few)))
    assert (image.size, len(image.getcolors())) == ((99, 99), COLOURS)


def test_what_has_too_many_pictures_is_refused():
    with pytest.raises(RuntimeError, match="more than 128 pict"):
        all_frames(live(lambda fig, a: fig.subplots(), a=range(MOST_FRAMES + 1)))


def test_a_moving_figure_holds_the_still_one_and_rewritten_sentences(figure):
    page = moving(figure.to_html(), payload_of(figure), str.upper)
    assert figure.to_html().upper() in page
    (block,) = re.findall('<script type="application/json">(.*?)</script>', page)
    assert "<" not in block
    pool = json.loads(block)["data"]["pool"]
    assert [one for one in pool if "HIGH" in str(one)] == ["<B>HIGH</B>"]


def test_a_lesson_is_executed_for_its_frames_as_far_as_the_last_of_them(tmp_path, figure, stored):
    path = write_lesson(tmp_path, LESSON, stored(), "1 / 0")
    before = path.read_text()
    ((key, made),) = frames_of(path).items()
    assert key == figure.facts()["key"]
    assert made == json.loads(json.dumps(payload_of(figure)))
    assert path.read_text() == before


def test_frames_are_made_anew_only_if_what_they_depend_on_has_changed(
    tmp_path, stored, monkeypatch
):
    runs = []
    run = lambda lesson, path: runs.append(1) or {"html": {"frames": len(runs)}}  # noqa: E731
    monkeypatch.setattr(frames, "execute_for_frames", run)
    path = write_lesson(tmp_path, LESSON, stored(), "later = 1")
    first = frames_of(path)
    write_lesson(tmp_path, LESSON, stored(), "later = 2")  # after the figure
    assert frames_of(path) == first
    write_lesson(tmp_path, f"more = 1\n{LESSON}", stored())
    assert frames_of(path) == {"html": {"frames": 2}}
    (tmp_path / "a.csv").write_text("1")
    monkeypatch.setattr(frames, "ROOT", tmp_path)
    monkeypatch.setattr(frames, "INPUTS", ("*.csv",))
    assert frames_of(path) == {"html": {"frames": 3}} == frames_of(path)
    (tmp_path / "a.csv").write_text("2")
    assert frames_of(path) == {"html": {"frames": 4}}


def test_a_lesson_without_live_figures_has_no_frames(tmp_path):
    assert frames_of(write_lesson(tmp_path, "1 / 0", new_output("stream", text="x"))) == {}


def test_another_figure_than_the_stored_one_is_refused(tmp_path, figure, stored):
    figure.controls["height"].value = 3
    path = write_lesson(tmp_path, LESSON, stored())
    with pytest.raises(SiteError, match=r"made_up\.ipynb stores other live figures than a run"):
        frames_of(path)


def test_a_figure_that_moves_after_it_was_shown_is_refused(tmp_path, figure, stored):
    first = stored()
    figure.controls["height"].value = 3
    path = write_lesson(tmp_path, LESSON, first)
    moves = new_code_cell('figure.controls["height"].value = 3\nfigure', outputs=[stored()])
    notebook = read_notebook(path)
    notebook.cells.append(moves)
    write(notebook, path)
    with pytest.raises(SiteError, match=r"made_up\.ipynb moves a live figure after it has shown"):
        frames_of(path)
