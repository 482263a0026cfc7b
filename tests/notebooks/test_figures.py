"""figures/ holds the figures that the notebooks show, and nothing else."""

from __future__ import annotations

import matplotlib.pyplot as plt
import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output

from attnlab.display import show_figure, texts
from tools.build.figures import FIGURES, KEPT, extract, figures_of, wanted_files
from tools.build.sources import find_notebooks


def test_figures_and_their_captions_are_up_to_date() -> None:
    there = {path.name: path.read_bytes() for path in FIGURES.iterdir() if path.name not in KEPT}
    wanted = wanted_files(find_notebooks())
    assert sorted(there) == sorted(wanted)
    assert [name for name in there if there[name] != wanted[name]] == []
    figures = [figure for path in find_notebooks() for figure in figures_of(path)]
    entries = [texts.read(path).get("figure", {}) for path in texts.text_files().values()]
    told = {
        number: (one["caption"], one["alt"]) for lesson in entries for number, one in lesson.items()
    }
    assert told == {one.number: (one.caption, one.alt) for one in figures}


def test_extracting_writes_picture_and_index_and_clears_the_rest(tmp_path, monkeypatch) -> None:
    fig, ax = plt.subplots(figsize=(2, 1))
    ax.plot([1, 3, 2])
    shown = show_figure(fig, "1.2", alt='a "line" & more', caption="Up | down, 1 < 3.")
    output = new_output("display_data", data=shown._repr_mimebundle_())
    path, folder = tmp_path / "01_lesson.ipynb", tmp_path / "figures"
    nbformat.write(new_notebook(cells=[new_code_cell("", outputs=[output])]), path)
    assert figures_of(path) == [("1.2", "Up | down, 1 < 3.", 'a "line" & more', shown.png)]
    folder.mkdir()
    (folder / "figure_9_9.png").write_bytes(b"old")
    (tmp_path / "01_lesson.toml").write_text('[figure."1.2"]\ntitle = "Up & away."')
    monkeypatch.setattr(texts, "FOLDERS", (tmp_path,))
    assert extract(folder, [path]) == 1
    assert (folder / "figure_1_2.png").read_bytes() == shown.png
    names = {one.name for one in folder.iterdir()}
    assert names == {"figure_1_2.png", "README.md"}
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert "## [01_lesson](../notebooks/01_lesson.ipynb)" in index
    assert '<img src="figure_1_2.png" alt="a &quot;line&quot; &amp; more"' in index
    assert "**Figure 1.2. Up &amp; away.** Up | down, 1 &lt; 3.\n" in index
