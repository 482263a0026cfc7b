"""The input files of the lessons are read, and a wrong file gives a clear error."""

import csv
import re
from pathlib import Path

import pytest
import torch

from attnlab import Table, data, data_path, load_table
from attnlab.data import load_tensors


@pytest.mark.parametrize(
    ("name", "tokens", "features", "corner"),
    [
        ("he_is_awesome.csv", ["He", "is", "awesome"], 4, (0.1, 0.2)),
        ("the_next_day_is_bright.csv", ["The", "next", "day", "is", "bright"], 8, (0.43, 0.2)),
    ],
)
def test_tables_of_the_lessons(name, tokens, features, corner):
    table = load_table(name)
    assert isinstance(table, Table)
    assert table.tokens == tokens
    assert table.features == [f"f{number}" for number in range(features)]
    assert table.values.shape == (len(tokens), features)
    assert table.values.dtype == torch.float32
    first, last = table.values[0, 0].item(), table.values[-1, -1].item()
    assert (first, last) == pytest.approx(corner)


def test_a_table_can_be_unpacked():
    tokens, features, values = load_table("he_is_awesome.csv")
    assert (len(tokens), len(features)) == values.shape
    values.zero_()
    assert load_table("he_is_awesome.csv").values.max() > 0  # another reader has its own


def test_tensors_by_name_and_two_readers_do_not_share_them():
    tensors = load_tensors("minilm_embedding.safetensors")
    assert tensors["words.weight"].shape == (30522, 384)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    tensors["norm.bias"].zero_()
    assert load_tensors("minilm_embedding.safetensors")["norm.bias"].abs().max() > 0
    with pytest.raises(FileNotFoundError, match=r"no data file with the name 'layer\.safetensors'"):
        load_tensors("layer.safetensors")


def test_ambiguous_words_stand_once_in_their_sentence_and_clues_beside_them():
    with data_path("ambiguous_words.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert len(rows) == len({row["sentence"] for row in rows}) == 46
    for row in rows:
        words = row["sentence"].split()
        assert words.count(row["word"]) == 1
        clues = row["clues"].split()
        assert clues
        assert set(clues) <= set(words) - {row["word"]}


def test_an_unknown_file_is_an_error_that_names_the_known_ones():
    sentence = r"'he\.csv'; known files: .*he_is_awesome\.csv, .*the_next_day_is_bright"
    with pytest.raises(FileNotFoundError, match=sentence):
        data_path("he.csv")
    with pytest.raises(FileNotFoundError, match="no data file with the name"):
        load_table("layer.csv")


def test_the_files_of_an_installed_package_lie_inside_it():
    installed, checkout = data.FOLDERS
    package = Path(data.__file__).parent
    assert installed.parent == package
    assert checkout == package.parent / "data"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "FOLDERS", (tmp_path / "installed", tmp_path))
    return tmp_path


def test_an_installed_file_comes_before_that_of_a_checkout(folder):
    (folder / "t.csv").write_text("token,a\nx,1\n")
    assert data_path("t.csv") == folder / "t.csv"
    (folder / "installed").mkdir()
    (folder / "installed" / "t.csv").write_text("token,a\nx,2\n")
    assert data_path("t.csv") == folder / "installed" / "t.csv"
    assert load_table("t.csv").values.tolist() == [[2.0]]


def test_tokens_may_hold_commas_and_any_letter(folder):
    (folder / "t.csv").write_text('token,a,b\n"x, y",1,-2e3\nstraße,.5,0\n', encoding="utf-8")
    table = load_table("t.csv")
    assert table.tokens == ["x, y", "straße"]
    assert table.values.tolist() == [[1.0, -2000.0], [0.5, 0.0]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("token,a,b\nx,1,2\ny,1\n", "t.csv, line 3: expected 3 columns, got 2."),
        ("token,a\nx,1,2\n", "t.csv, line 2: expected 2 columns, got 3."),
        ("token,a\nx,one\n", "t.csv, line 2: expected numbers, got ['one'];"),
    ],
)
def test_a_broken_table_is_an_error(folder, text, sentence):
    (folder / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        load_table("t.csv")


def test_a_table_is_shown_with_its_names_and_two_decimals():
    table = Table(["a<b", "c"], ["d"], torch.tensor([[1.005], [-23.0]]))
    assert repr(table) == "         d\na<b   1.00\n  c -23.00"
    html = table._repr_html_()
    assert "<tr><th></th><th>d</th></tr>" in html
    assert "<tr><th>a&lt;b</th><td>1.00</td></tr><tr><th>c</th><td>-23.00</td></tr>" in html
