"""The input files of the lessons are read, and a wrong file gives a clear error."""

from pathlib import Path

import pytest
import torch

from attnlab import data_path, load_table
from attnlab.display import table
from attnlab.models.store import load_tensors


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a table into an installed package or a checkout, and look for files there only."""
    monkeypatch.setattr(table, "FOLDERS", (tmp_path / "installed", tmp_path))

    def write(text, folder="."):
        path = tmp_path / folder / "t.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_table_of_the_lessons():
    tokens, features, values = load_table("the_cat_sat_on_the_mat.csv")
    assert tokens == ["The", "cat", "sat", "on", "the", "mat"]
    assert features == ["animal", "object", "action", "place", "grammar"]
    assert (values.shape, values.dtype) == ((6, 5), torch.float32)
    assert values[[1, -1], [0, 3]].tolist() == pytest.approx([1.6, 1.3])


def test_a_table_may_hold_commas_and_any_letter_and_is_shown_with_its_names(write):
    write('token,a<b,c\n"x, y",1.005,-2e1\nstraße,.5,0\n')
    table = load_table("t.csv")
    assert (table.tokens, table.features) == (["x, y", "straße"], ["a<b", "c"])
    assert repr(table) == "        a<b      c\n  x, y 1.00 -20.00\nstraße 0.50   0.00"
    html = table._repr_html_()
    assert "<tr><th></th><th>a&lt;b</th><th>c</th></tr>" in html
    assert "<tr><th>straße</th><td>0.50</td><td>0.00</td></tr>" in html


def test_an_installed_file_comes_before_that_of_a_checkout(write):
    for folder in (".", "installed"):
        path = write(f"token,a\n{folder},{len(folder)}\n", folder)
        assert data_path("t.csv") == path
    assert load_table("t.csv").values.tolist() == [[9.0]]


def test_the_files_of_an_installed_package_lie_inside_it():
    package = Path(table.__file__).parent.parent
    assert table.FOLDERS == (package / "_data", package.parent / "data")


def test_tensors_by_name_belong_to_their_reader():
    tensors = load_tensors("minilm_embedding.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    tensors["norm.bias"].zero_()
    assert load_tensors("minilm_embedding.safetensors")["norm.bias"].any()


NAMES = [
    ("he.csv", FileNotFoundError, r"'he\.csv'; known files: .*he_is_awesome\.csv, .*the_cat_sat"),
    (3, TypeError, "name must be a string"),
    ("bank_sentences.csv", ValueError, "must hold numbers, .*read a file of texts with csv"),
]
BROKEN = [
    ("token,a,b\nx,1,2\ny,1\n", "t.csv must hold numbers, as many in each row, .* length 2"),
    ("token,a\nx,one\n", "t.csv must hold numbers, .* to float: 'one'"),
]


@pytest.mark.parametrize(("name", "kind", "words"), NAMES)
def test_a_name_of_no_table_is_refused(name, kind, words):
    with pytest.raises(kind, match=words):
        load_table(name)


@pytest.mark.parametrize(("text", "words"), BROKEN)
def test_a_broken_table_is_told(write, text, words):
    write(text)
    with pytest.raises(ValueError, match=words):
        load_table("t.csv")


@pytest.mark.parametrize(
    ("name", "kind"), [("no.safetensors", OSError), ("bank_sentences.csv", ValueError)]
)
def test_only_files_of_tensors_hold_tensors(name, kind):
    with pytest.raises(kind, match=name):
        load_tensors(name)
