"""The advice on prose notices what it can, and never fails."""

import pytest
from nbformat.v4 import new_markdown_cell

from tests.notebooks.test_lint import NAME, TITLE, store
from tools.lint import advice
from tools.lint.lesson import Lesson


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("A token that attends only to itself learns nothing from its context.", []),
        ("Read it row by row.", []),
        ("It’s the same.", []),
        ("With the mask there are no longer any leaks.", []),
        ("Raw is slower, not unable.", []),
        ("A crowd of small weights.", []),  # the plural hides it: a limit that is told
        ("Not for a large model.", ["no verb"]),
        ("An argument is no tensor.", ["'is no'"]),
        ("Whoever typed the rows had a plan.", ["'whoever' (if you)"]),
        ("The favourite is key 3.", ["'favourite' (the key with the largest weight)"]),
        ("The token " * 15 + "is.", ["31 words"]),
        ("The token " * 15, ["no verb"]),
    ],
)
def test_what_is_said_against_a_sentence(sentence, wanted):
    assert list(advice.remarks(sentence)) == wanted


def test_texts_are_cut_into_sentences():
    text = (
        "# A heading here\n\nOne `code.span` is *here*. It costs 0.5 or\nmore (see below). Why?\n"
    )
    table = "\n| a | b | c |\n\n- first item in a list\n- second item in a list\n"
    assert advice.sentences_of(text + table) == [
        "One code is *here*.",
        "It costs 0.5 or\nmore (see below).",
        "- first item in a list",
        "second item in a list",
    ]


def test_the_command_prints_places_and_does_not_fail(tmp_path, monkeypatch, capsys):
    texts = ["It is no mask. It is a mask.", "## Sources\n\nNobody, A good title, 2017."]
    path = store(tmp_path, [TITLE, *map(new_markdown_cell, texts)])
    monkeypatch.setattr(advice, "find_notebooks", lambda: [path])
    monkeypatch.setattr("sys.argv", ["advice"])
    advice.main()
    assert capsys.readouterr().out.splitlines() == [
        f"{NAME}: cell 2: 'is no': It is no mask.",
        "Remarks: 1. This is advice: read aloud as well.",
    ]
    assert Lesson(path).texts[2][1].startswith("## Sources")
