"""figures/ holds the figures that the notebooks show, and nothing else."""

from __future__ import annotations

import matplotlib.pyplot as plt
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from attnlab.display import show_figure
from tools.extract_figures import (
    FIGURES,
    extract,
    figures_of,
    stale_files,
    wanted_files,
    wrong_captions,
)
from tools.notebooks import find_notebooks


@pytest.fixture
def lesson(tmp_path):
    """A notebook that shows one figure."""
    fig, ax = plt.subplots(figsize=(2, 1))
    ax.plot([1, 3, 2])
    shown = show_figure(fig, "1.2", alt='a "line" & more', caption="Up | down, 1 < 3.")
    output = new_output("display_data", data={"text/html": shown._repr_html_()})
    path = tmp_path / "01_lesson.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("", outputs=[output])]), path)
    return path, shown


def test_figures_are_up_to_date() -> None:
    assert stale_files(FIGURES, wanted_files(find_notebooks())) == []


def test_the_captions_are_those_of_the_lessons() -> None:
    figures = [figure for path in find_notebooks() for figure in figures_of(path)]
    assert wrong_captions(FIGURES, figures) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "captions.toml has no Figure 1.2"),
        ('["1.2"]\ncaption = "Up"\nalt = "line"', "another text for Figure 1.2"),
        ('{right}["1.3"]\ncaption = "Up"\nalt = "line"', "a Figure 1.3 that no lesson shows"),
    ],
)
def test_wrong_captions_are_noticed(lesson, tmp_path, text, words) -> None:
    right = '["1.2"]\ncaption = "Up | down, 1 < 3."\nalt = \'a "line" & more\'\n'
    file = tmp_path / "captions.toml"
    file.write_text(right)
    assert wrong_captions(tmp_path, figures_of(lesson[0])) == []
    file.write_text(text.replace("{right}", right))
    (finding,) = wrong_captions(tmp_path, figures_of(lesson[0]))
    assert words in finding


def test_a_figure_is_read_as_it_was_shown(lesson) -> None:
    path, shown = lesson
    (figure,) = figures_of(path)
    assert figure == ("1.2", "01_lesson", "Up | down, 1 < 3.", 'a "line" & more', shown.png)


def test_extracting_writes_picture_and_index_and_clears_the_rest(lesson, tmp_path) -> None:
    path, shown = lesson
    folder = tmp_path / "figures"
    folder.mkdir()
    (folder / "figure_9_9.png").write_bytes(b"old")
    (folder / "captions.toml").write_text('["1.2"]\ntitle = "Up & away."')
    assert extract(folder, [path]) == 1
    assert (folder / "figure_1_2.png").read_bytes() == shown.png
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert "## [01_lesson](../notebooks/01_lesson.ipynb)" in index
    assert '<img src="figure_1_2.png" alt="a &quot;line&quot; &amp; more"' in index
    assert "**Figure 1.2. Up &amp; away.** Up | down, 1 &lt; 3.\n" in index
    assert (folder / "captions.toml").exists()
    assert not (folder / "figure_9_9.png").exists()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda folder: (folder / "figure_1_2.png").unlink(), "figure_1_2.png is missing"),
        (lambda folder: (folder / "figure_1_2.png").write_bytes(b"x"), "differs from the notebook"),
        (lambda folder: (folder / "README.md").write_text("old"), "README.md differs"),
        (lambda folder: (folder / "figure_7_7.png").write_bytes(b"x"), "belongs to no figure"),
    ],
)
def test_stale_figures_are_noticed(lesson, tmp_path, harm, words) -> None:
    path, _ = lesson
    folder = tmp_path / "figures"
    extract(folder, [path])
    assert stale_files(folder, wanted_files([path], folder)) == []
    harm(folder)
    (finding,) = stale_files(folder, wanted_files([path], folder))
    assert words in finding
