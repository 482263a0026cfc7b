"""HeadsExplorer: every number stands where torch puts it, and wrong rows are counted right."""

import itertools
import re

import pytest
import torch

from attnlab import merge_heads, split_heads
from attnlab.explorers import HeadsExplorer
from attnlab.explorers.heads import HEADS, STEPS, WAYS, code, move, named, places, tables

STATES = [*itertools.product(HEADS, WAYS, STEPS)]


def test_names_say_where_a_number_belongs():
    names = named(3)
    assert names[2].tolist() == [200, 201, 210, 211, 220, 221]
    for heads in HEADS:
        split = split_heads(named(heads), heads)
        assert (split // 100 == torch.arange(4).view(4, 1)).all()
        assert (split // 10 % 10 == torch.arange(heads).view(heads, 1, 1)).all()
        assert (split % 10 == torch.arange(6 // heads)).all()


@pytest.mark.parametrize("heads", HEADS)
def test_the_right_way_is_that_of_the_package(heads):
    result = HeadsExplorer(heads=heads, way="right").result
    names = named(heads)
    assert torch.equal(result.heads, split_heads(names, heads))
    assert torch.equal(result.merged, merge_heads(result.heads))
    assert torch.equal(result.merged, names)
    assert not result.wrong_rows.any()
    assert not result.wrong_scores.any()


SHORT_CUT_COUNTS = {
    1: ((0, 4), (0, 16)),
    2: ((6, 8), (30, 32)),
    3: ((10, 12), (46, 48)),
    6: ((22, 24), (94, 96)),
}


@pytest.mark.parametrize("heads", HEADS)
def test_the_short_cut_has_the_right_shape_and_wrong_rows(heads):
    rows, scores = SHORT_CUT_COUNTS[heads]
    result = HeadsExplorer(heads=heads, way="short cut").result
    names = named(heads)
    right = split_heads(names, heads)
    assert torch.equal(result.heads, names.view(right.shape))
    wrong = [(result.heads[h, t] != right[h, t]).any() for h in range(heads) for t in range(4)]
    assert (sum(wrong), len(wrong)) == rows
    assert (result.wrong_rows.sum(), result.wrong_rows.numel()) == rows
    assert (result.wrong_scores.sum(), result.wrong_scores.numel()) == scores
    assert torch.equal(result.merged, names)  # wrong and wrong is right again


def test_a_score_is_wrong_if_it_is_not_the_product_of_the_right_rows():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 6, generator=generator)
    for heads in HEADS:
        split, short = split_heads(x, heads), x.view(heads, 4, -1)
        right, got = split @ split.transpose(-2, -1), short @ short.transpose(-2, -1)
        wrong = (right - got).abs() > 1e-6
        assert torch.equal(move(heads, "short cut").wrong_scores, wrong)


def test_places_are_views_of_the_same_memory():
    for heads, way in itertools.product(HEADS, WAYS):
        at = places(heads, way)
        assert at.cut.data_ptr() == at.x.data_ptr() == at.heads.data_ptr()
        assert sorted(at.heads.flatten().tolist()) == list(range(24))


@pytest.mark.parametrize(("heads", "way", "step"), STATES)
def test_the_tables_hold_what_torch_gives(heads, way, step):
    explorer = HeadsExplorer(heads=heads, way=way, step=step)
    frame, result = explorer.frame_now(), explorer.result
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
    cut = named(heads).view(4, heads, -1)
    wanted = {"x": named(heads)[None], "merge": named(heads)[None], "transpose": split}
    wanted["view"] = cut if way == "right" else split
    written = [[[int(text) for text in row] for row in table] for table in shown["texts"]]
    assert torch.equal(torch.tensor(written), wanted[step])
    assert torch.equal(named(heads).flatten()[shown["places"]], wanted[step])
    assert torch.equal(shown["tokens"], wanted[step] // 100)
    assert len(shown["names"]) == len(wanted[step])
    right = cut if step == "view" and way == "right" else split_heads(named(heads), heads)
    if step in ("x", "merge"):
        right = named(heads)[None]
    rows = (wanted[step] != right).any(dim=-1, keepdim=True)
    assert torch.equal(wrong, rows.expand(wrong.shape))


@pytest.mark.parametrize(("heads", "way"), [*itertools.product(HEADS, WAYS)])
def test_the_lines_of_pytorch_make_the_picture(heads, way):
    names = {"x": named(heads), "torch": torch}
    exec("\n".join(code(heads, way)), names)
    result = move(heads, way)
    assert torch.equal(names["heads"], result.heads)
    assert torch.equal(names["merged"], result.merged)
    assert names["scores"].shape == result.wrong_scores.shape
    if way == "right":
        assert torch.equal(names["cut"], named(heads).view(4, heads, -1))


@pytest.mark.parametrize(("heads", "way", "step"), STATES)
def test_the_sentence_is_true(heads, way, step):
    explorer = HeadsExplorer(heads=heads, way=way, step=step)
    text, result = explorer.say(), explorer.result
    assert "*" not in text
    assert len(text) < 200
    head_dim = 6 // heads
    for shape in re.findall(r"\((\d), (\d), (\d)\)", text):
        assert tuple(map(int, shape)) == result.heads.shape == (heads, 4, head_dim)
    for many, everything, what in re.findall(r"(\d+) of (\d+) (rows|scores)", text):
        wrong = result.wrong_rows if what == "rows" else result.wrong_scores
        assert (int(many), int(everything)) == (wrong.sum(), wrong.numel())
    for count, what in re.findall(r"all (\d+) (rows|scores) are right", text, re.I):
        wrong = result.wrong_rows if what == "rows" else result.wrong_scores
        assert not wrong.any()
        assert int(count) == wrong.numel()
    if "are what they were" in text:
        assert torch.equal(result.merged, named(heads))
        assert "all 4 rows" in text.lower()
    for tokens in re.findall(r"Head 0 (?:holds numbers of|sees) tokens? ([\d and]+) alone", text):
        assert [int(one) for one in tokens.split(" and ")] == sorted(
            set((result.heads[0] // 100).flatten().tolist())
        )
    told = "wrong" in text
    assert told == (way == "short cut" and heads > 1 and step != "x")
    if told and step != "merge":
        assert "without an error" in text


@pytest.mark.parametrize("step", STEPS)
def test_the_still_picture_has_a_cell_per_number_and_a_cross_per_wrong_one(step):
    explorer = HeadsExplorer(way="short cut", step=step)
    axes = explorer.figure().axes
    texts = [text.get_text() for ax in axes for text in ax.texts]
    crosses = texts.count("✗")
    result = explorer.result
    wanted = {"x": 0, "merge": 0, "scores": 46}.get(step, result.wrong_rows.sum() * 2)
    assert crosses == wanted
    assert len(texts) - crosses == (48 if step == "scores" else 24)
    assert len(axes) == (1 if step in ("x", "merge") else 3)
    colours = {tuple(c) for ax in axes for c in ax.collections[0].to_rgba([0, 1, 2, 3])}
    assert len(colours) == 4


def test_six_heads_and_one_are_drawn():
    for heads, way in itertools.product((1, 6), WAYS):
        for step in ("view", "scores"):
            figure = HeadsExplorer(heads=heads, way=way, step=step).figure()
            assert len(figure.axes) == len(tables(heads, way, step)["names"])
