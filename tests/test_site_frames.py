"""Live figures are swept through all their stops, and the web pages show all their pictures."""

import base64
import io
import itertools
import json
import math

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from attnlab.live import live
from tools._site_frames import LIVE, frames_of, pair, script_of
from tools._site_html import SiteError
from tools.live_figures import (
    COLOURS,
    MOST_FRAMES,
    all_frames,
    kept_stops,
    live_figures,
    small,
    sweep,
)
from tools.notebooks import KERNELSPEC

CALLS = itertools.count()

# --- the sweep ------------------------------------------------------------------------------------


def figure_that_writes(text):
    def draw(fig, d_k, bold):
        fig.text(0.5, 0.5, text(d_k), weight="bold" if bold else "normal")

    return live(draw, d_k=[1, 2, 0], bold=False, figsize=(2, 1))


def test_every_live_figure_of_the_process_is_found():
    figure = figure_that_writes(str)
    assert any(figure is found for found in live_figures())


def test_a_good_figure_passes():
    assert sweep([figure_that_writes(str)]) == 5


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (lambda d_k: str(1 / d_k), "division by zero"),
        (lambda d_k: "always the same", "d_k never changes the picture"),
        (lambda d_k: str(next(CALLS)), "d_k back at its start looks new"),
    ],
)
def test_a_faulty_figure_is_noticed(text, complaint):
    with pytest.raises(AssertionError, match=complaint):
        sweep([figure_that_writes(text)])


# --- frames ---------------------------------------------------------------------------------------

DRAWING = """
from attnlab.live import live
heights = [1, 2]


def draw(fig, height, word):
    fig.subplots().bar([word], [heights[0] * height])
    return f"$h$ is {height}" if height < 3 else "<b>high</b>"


""".strip()
SHOWING = """
figure = live(draw, height=[1, 2, 3], word=["a", "b"], start={"height": 2}, figsize=(2, 1))
figure
""".strip()


@pytest.fixture(scope="module")
def figure():
    names = {}
    exec(f"{DRAWING}\n{SHOWING}", names)
    return names["figure"]


def stored_output(figure):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLAB_STATIC", "1")
        return new_output("execute_result", figure._repr_mimebundle_(), execution_count=1)


def write_lesson(folder, *sources, output):
    """Write a lesson of which the last cell stores an output."""
    cells = [new_markdown_cell("# 0 · Made up"), *map(new_code_cell, sources)]
    cells[-1].outputs = [output]
    path = folder / "00_made_up.ipynb"
    write(new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC}), path)
    return path


def size_and_colours(picture):
    image = Image.open(io.BytesIO(base64.b64decode(picture)))
    return image.size, len(image.getcolors())


def test_every_stop_of_every_control_has_its_picture_and_sentence(figure):
    before = figure.picture
    shown = all_frames(figure)
    assert shown["controls"] == [
        {"name": "height", "kind": "slider", "stops": ["1", "2", "3"], "at": 1},
        {"name": "word", "kind": "choice", "stops": ["a", "b"], "at": 0},
    ]
    assert [picture for picture, _ in shown["frames"]] == [0, 1, 2, 3, 4, 5]
    texts = [shown["sentences"][sentence] for _, sentence in shown["frames"]]
    assert ["$h$ is 1" in text for text in texts] == [True, True, *[False] * 4]
    assert ["<b>high</b>" in text for text in texts] == [*[False] * 4, True, True]
    assert len(shown["sentences"]) == 3
    figure.controls["height"].value, figure.controls["word"].value = 3, "b"
    assert small(figure.picture) == shown["pictures"][5]
    figure.controls["height"].value, figure.controls["word"].value = 2, "a"
    assert figure.picture == before


def test_frames_are_as_large_as_the_picture_and_have_fewer_colours(figure):
    png = figure.picture
    (size, colours), wanted = (
        size_and_colours(small(png)),
        Image.open(io.BytesIO(png)),
    )
    assert size == wanted.size
    assert colours <= COLOURS < len(wanted.getcolors(10**6)) + COLOURS
    many = io.BytesIO()
    Image.effect_noise((64, 64), 50).convert("RGB").resize((99, 99)).save(many, "PNG")
    assert size_and_colours(small(many.getvalue())) == ((99, 99), COLOURS)


def test_equal_pictures_are_stored_once():
    same = live(lambda fig, a: fig.text(0, 0, "x"), a=[1, 2, 3])
    assert all_frames(same)["frames"] == [(0, 0)] * 3


@pytest.mark.parametrize("counts", [[64], [8, 8], [65], [40, 5], [2, 70], [3, 3, 9]])
def test_at_most_64_frames_are_made_and_ends_and_start_stay(counts):
    stops = {f"c{i}": [*range(count)] for i, count in enumerate(counts)}
    start = {f"c{i}": count - 2 for i, count in enumerate(counts)}
    figure = live(lambda fig, **values: None, start=start, **stops)
    left = kept_stops(figure)
    for count, one in zip(counts, left, strict=True):
        assert {0, count - 2, count - 1} <= set(one) <= set(range(count))
        assert one == sorted(one)
    made, wanted = math.prod(map(len, left)), math.prod(counts)
    assert made == wanted if wanted <= MOST_FRAMES else MOST_FRAMES / 4 < made <= MOST_FRAMES


def test_too_many_controls_and_a_drawing_that_fails_are_refused():
    many = live(lambda fig, **values: None, **{f"c{i}": True for i in range(7)})
    with pytest.raises(RuntimeError, match="too many controls for 64 pictures"):
        all_frames(many)
    failing = live(lambda fig, a: 1 / a, a=[1, 0])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        all_frames(failing)


def test_a_script_holds_the_figure_and_no_tags():
    figure = {"sentences": ["<b>a</b>", "</script>"], "pictures": []}
    text = script_of(figure, str.upper)
    inside = text.removeprefix('<script type="application/json">').removesuffix("</script>")
    assert "<" not in inside
    assert json.loads(inside)["sentences"] == ["<B>A</B>", "</SCRIPT>"]


# --- runs of a lesson -----------------------------------------------------------------------------


def test_a_lesson_is_executed_for_its_frames(tmp_path, figure):
    path = write_lesson(tmp_path, DRAWING, SHOWING, output=stored_output(figure))
    stored = path.read_text()
    ((html, frames),) = frames_of(path).items()
    assert html.startswith(LIVE)
    assert frames == json.loads(json.dumps(all_frames(figure)))
    assert path.read_text() == stored


def test_a_lesson_without_live_figures_is_not_executed(tmp_path):
    output = new_output("execute_result", {"text/html": "<p>no</p>"}, execution_count=1)
    assert frames_of(write_lesson(tmp_path, "1 / 0", output=output)) == {}


def test_another_figure_than_the_stored_one_is_refused(figure):
    stored, other = stored_output(figure), stored_output(figure)
    html = stored.data["text/html"]
    assert pair("x.ipynb", [stored], [other], {html: {"a": 1}}) == {html: {"a": 1}}
    figure.controls["height"].value = 3
    other = stored_output(figure)
    figure.controls["height"].value = 2
    with pytest.raises(SiteError, match=r"x\.ipynb stores other live figures than a run gives"):
        pair("x.ipynb", [stored], [other], {html: {}})
    with pytest.raises(SiteError, match="stores other live figures"):
        pair("x.ipynb", [stored], [stored, stored], {html: {}})
    with pytest.raises(SiteError, match=r"x\.ipynb moves a live figure after it has shown it"):
        pair("x.ipynb", [stored], [stored], {})
