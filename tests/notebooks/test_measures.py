"""A lesson's measures are those of LESSONS.md, and each limit is noticed when it is broken."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.notebooks.test_lint import FAULTS, edit, good_cells, store
from tools.lint import lint
from tools.lint.lesson import Lesson
from tools.lint.measures import LIMITS, about_attention, main, measure
from tools.notebooks import find_notebooks


def test_every_limit_can_be_broken(tmp_path) -> None:
    broken = set()
    for fault in FAULTS["limits"]:
        path = store(tmp_path, good_cells())
        edit(path, fault)
        broken |= {one.text for one in lint(path) if one.rule == "limits"}
    words = [re.sub(r"\{.*?\}", "", text).partition(",")[0] for text, _ in LIMITS]
    assert [some for some in words if not any(some in text for text in broken)] == []


def code(source: str, **metadata: object) -> dict:
    return new_code_cell(source, metadata=metadata)


def test_what_is_counted(tmp_path) -> None:
    cells = [
        new_markdown_cell("# 3 · Masks\n\n**Time:** 45 minutes in class, 90 alone"),  # 9 words
        new_markdown_cell("word " * 51),
        new_markdown_cell("word " * 51, metadata={"tags": ["teacher"]}),
        code("import torch\nx = torch.ones(3)\n\nprint(x)\nassert x.sum() == 3"),
        code('predict("03/which")'),
        code("%%answer 03/which\nassert torch.allclose(x, y, atol=1e-6)\nx * 2"),
        code("MaskExplorer()"),
        code("class Mask:\n" + "    y = x + 3\n" * 16),
        code("live(draw, d_k=[3, 5])", jupyter={"source_hidden": True}),
        new_markdown_cell("## Further"),
        code("assert x == 0.5\nassert (x >\n    3)\n" + "x\n" * 30),
    ]
    path = store(tmp_path, [])
    path.write_text(nbformat.writes(new_notebook(cells=cells)), encoding="utf-8")
    found = measure(Lesson(path))
    assert found._asdict() == {
        "told": 45,
        "minutes": pytest.approx(1.2 * (60 / 130 + 3 * 0.5 + 2 + 4)),
        "cells": 9,
        "words": 60,
        "predictions": 1,
        "explorers": 1,
        "attention": 19 / 25,
        "asserts": 4,
        "magic": 2,
        "under": 1,
        "longest": 4,
        "median": 4,
    }


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("weights = (query @ key.T).softmax(dim=-1)", [True]),
        ("weights", [True]),
        ("masked[~may_look]", [True]),
        ("import torch\nfrom attnlab import mask", [False, False]),
        ("tokens = ['a', 'b']", [False]),
        ("plot_attention(\n    weights,\n)", [False, False, False]),
        ("fig, axes = plt.subplots(2)\naxes[0].set(title='x')", [False, False]),
        ("show_figure(ax, '3.1')\nprint(x + y)\ncheck_mask(mask)", [False, False, False]),
        ("pd.DataFrame(x)\nsns.histplot(x)", [False, False]),
        ("assert x == y", [False]),
        ("for seed in range(3):\n    x = draw(seed)", [True, True]),
        (
            "for a in axes:\n    a.set(x)\nfor ax in axes:\n    ax.set(x)",
            [True, True, False, False],
        ),
        ("# a comment\n\ndef f(x):\n    '''Twice.'''\n    return 2 * x", [True, True]),
        ("%%answer 03/which\nx @ y", [True]),
    ],
)
def test_lines_about_attention(source, wanted) -> None:
    assert about_attention(source) == wanted


def test_the_command_prints_a_line_for_each_lesson(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["lessons", "1", "03"])
    main()
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["lesson", "told", "minutes", "cells"]
    assert [line.split()[0] for line in lines] == ["01", "03"]
    assert len(find_notebooks()) > len(lines)
    assert len({len(line.split()) for line in [heading, *lines]}) == 1
