"""HeadsExplorer: every number stands where torch puts it, and wrong rows are counted right."""

import itertools
import re

import pytest
import torch

from attnlab import merge_heads, split_heads
from attnlab.explorers import HeadsExplorer
from attnlab.explorers.heads import HEADS, STEPS, WAYS, code, move, named, places, tables
from tests.explorers.common import DeclaredTests, at

COUNTS = {  # of the short cut: how many rows are wrong, and how many scores
    1: ((0, 4), (0, 16)),
    2: ((6, 8), (30, 32)),
    3: ((10, 12), (46, 48)),
    6: ((22, 24), (94, 96)),
}


def cut(heads):
    """Return the numbers of all tokens, cut into heads."""
    return named(heads).view(4, heads, -1)


class TestHeads(DeclaredTests):
    kind = HeadsExplorer
    states = [
        {"heads": heads, "way": way, "step": step}
        for heads, way, step in itertools.product(HEADS, WAYS, STEPS)
    ]

    def expected(self, explorer):
        right = split_heads(named(explorer.heads), explorer.heads)
        split = right if explorer.way == "right" else named(explorer.heads).view(right.shape)
        wrong = (split != right).any(dim=-1)
        assert merge_heads(right).equal(named(explorer.heads))
        return {
            "heads": split,
            "merged": named(explorer.heads),  # wrong and wrong is right again
            "wrong_rows": wrong,
            "wrong_scores": wrong[:, :, None] | wrong[:, None],
        }

    def check_words(self, explorer, said, result):
        heads, way, step = explorer.heads, explorer.way, explorer.step
        assert len(said) < 200
        for number, plural in re.findall(r"(\d+) (?:slice|feature)(s?)\b", said):
            assert (plural == "s") == (number != "1")
        for shape in re.findall(r"\((\d), (\d), (\d)\)", said):
            assert tuple(map(int, shape)) == result.heads.shape == (heads, 4, 6 // heads)
        wrong = {"rows": result.wrong_rows, "scores": result.wrong_scores}
        for many, everything, what in re.findall(r"(\d+) of (\d+) (rows|scores)", said):
            assert (int(many), int(everything)) == (wrong[what].sum(), wrong[what].numel())
        for count, what in re.findall(r"all (\d+) (rows|scores) are correct", said, re.I):
            assert not wrong[what].any()
            assert int(count) == wrong[what].numel()
        if step == "merge":
            assert re.search(r"all 4 rows (are what they were|back)", said, re.I)
            assert torch.equal(result.merged, named(heads))
        for tokens in re.findall(
            r"Head 0 (?:holds numbers from|sees) tokens? ([\d and]+) only", said
        ):
            first = set((result.heads[0] // 100).flatten().tolist())
            assert [int(one) for one in tokens.split(" and ")] == sorted(first)
        told = "wrong" in said
        assert told == (way == "short cut" and heads > 1 and step != "x")
        if told and step != "merge":
            assert "no error is raised" in said

    def check_frame(self, explorer, frame, result):
        heads, way, step = explorer.heads, explorer.way, explorer.step
        shown, split = frame["tables"], result.heads
        wrong = torch.tensor(shown["wrong"].tolist())
        assert frame["bad"] == wrong.any()
        if step == "scores":
            token = split[..., 0] // 100
            assert (split // 100 == token[..., None]).all()  # a row holds numbers of one token
            for h, i, j in itertools.product(range(heads), range(4), range(4)):
                assert shown["texts"][h][i][j] == f"{token[h, i]}·{token[h, j]}"
            assert torch.equal(wrong, result.wrong_scores)
            assert shown["title"] == f"scores: shape ({heads}, 4, 4)"
            return
        all_rows = named(heads)[None]
        wanted = {"x": all_rows, "merge": all_rows, "transpose": split}
        wanted["view"] = cut(heads) if way == "right" else split
        written = [[[int(text) for text in row] for row in table] for table in shown["texts"]]
        assert torch.equal(torch.tensor(written), wanted[step])
        assert torch.equal(named(heads).flatten()[shown["places"]], wanted[step])
        assert torch.equal(shown["tokens"], wanted[step] // 100)
        each = "token" if step == "view" and way == "right" else "head"
        names = {"x": ["x"], "merge": ["merged"]}
        counted = [f"{each} {i}" for i in range(len(wanted[step]))]
        assert shown["names"] == names.get(step, counted)
        right = {"x": all_rows, "merge": all_rows}.get(step, split_heads(named(heads), heads))
        if step == "view" and way == "right":
            right = cut(heads)
        rows = (wanted[step] != right).any(dim=-1, keepdim=True)
        assert torch.equal(wrong, rows.expand(wrong.shape))

    def test_the_lines_of_pytorch_give_the_result(self):
        for heads, way in itertools.product(HEADS, WAYS):
            names = {"x": named(heads), "torch": torch}
            exec("\n".join(code(heads, way)), names)
            result = move(heads, way)
            assert torch.equal(names["heads"], result.heads)
            assert torch.equal(names["merged"], result.merged)
            assert names["scores"].shape == result.wrong_scores.shape
            if way == "right":
                assert torch.equal(names["cut"], cut(heads))


def test_names_say_where_a_number_belongs():
    assert named(3)[2].tolist() == [200, 201, 210, 211, 220, 221]
    for heads in HEADS:
        split = split_heads(named(heads), heads)
        assert (split // 100 == torch.arange(4).view(4, 1)).all()
        assert (split // 10 % 10 == torch.arange(heads).view(heads, 1, 1)).all()
        assert (split % 10 == torch.arange(6 // heads)).all()


@pytest.mark.parametrize("heads", HEADS)
def test_the_short_cut_is_wrong_as_often_as_the_lesson_says(heads):
    wrong = move(heads, "short cut")
    found = [(one.sum(), one.numel()) for one in (wrong.wrong_rows, wrong.wrong_scores)]
    assert tuple(found) == COUNTS[heads]
    x = torch.randn(4, 6)
    split, short = split_heads(x, heads), x.view(heads, 4, -1)
    right, got = split @ split.transpose(-2, -1), short @ short.transpose(-2, -1)
    assert torch.equal(wrong.wrong_scores, (right - got).abs() > 1e-6)


@pytest.mark.parametrize(("heads", "way"), [*itertools.product(HEADS, WAYS)])
def test_places_are_views_of_the_same_memory(heads, way):
    there = places(heads, way)
    assert there.cut.data_ptr() == there.x.data_ptr() == there.heads.data_ptr()
    assert sorted(there.heads.flatten().tolist()) == list(range(24))


@pytest.mark.parametrize("step", STEPS)
def test_the_still_picture_has_a_cell_per_number_and_a_cross_per_wrong_one(step):
    explorer = at(HeadsExplorer, way="short cut", step=step)
    axes = explorer.figure().axes
    texts = [text.get_text() for ax in axes for text in ax.texts]
    crosses = texts.count("✗")
    wanted = {"x": 0, "merge": 0, "scores": 46}
    assert crosses == wanted.get(step, explorer.result.wrong_rows.sum() * 2)
    assert len(texts) - crosses == (48 if step == "scores" else 24)
    assert len(axes) == (1 if step in ("x", "merge") else 3)
    colours = {tuple(c) for ax in axes for c in ax.collections[0].to_rgba([0, 1, 2, 3])}
    assert len(colours) == 4


@pytest.mark.parametrize("heads", [1, 6])
def test_six_heads_and_one_are_drawn(heads):
    figure = at(HeadsExplorer, heads=heads, way="short cut", step="view").figure()
    assert len(figure.axes) == len(tables(heads, "short cut", "view")["names"])
