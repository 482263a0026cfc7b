"""Prose is broken at its sentences, and a page looks as it did."""

from __future__ import annotations

import pytest
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from tools.build import prose as tool
from tools.build.prose import WIDTH, break_prose, could_be_broken
from tools.build.sources import find_sources, read_source

LONG = "It is really far too long for a line, and that is why "
WORDS = "and the words of which it is made go on until there is no more room for them "
LINK = "[two words](https://example.org/a-place-that-is-quite-far-away)"


def page(markdown: str) -> str:
    """Return Markdown as HTML with single spaces."""
    return " ".join(MarkdownWithMath(IPythonRenderer(escape=False)).render(markdown).split())


@pytest.mark.parametrize("path", find_sources(), ids=lambda path: path.stem)
def test_every_page_keeps_its_words_and_its_looks(path) -> None:
    for cell in read_source(path).cells:
        if cell.cell_type == "markdown":
            broken = break_prose(cell.source)
            assert "".join(broken.split()) == "".join(cell.source.split())
            assert page(broken) == page(cell.source)
            assert break_prose(broken) == broken


@pytest.mark.parametrize(
    "text",
    [
        "He said “It is here.” Then *he left.* (Nobody knew.) `f` is called. $x$ is 3. [A](b) too.",
        f"- One. Two.\n  Three.\n- {LONG}{WORDS}{WORDS}so.\n  - It is. Is it?\n\n    More. Yes.",
        "12. One. Two.\n    Three.",
        "> One. Two.\n> Three.",
        "<details><summary>Hint</summary>One. Two.</details>",
        "<details><summary>Hint</summary>\n\nOne. Two.\n</details>",
        "Say. <details><summary>An answer</summary>One. Two.</details>",
        f"{LONG}{LINK}, {LONG}{LINK}.",
    ],
)
def test_a_paragraph_is_broken_and_looks_as_it_did(text) -> None:
    broken = break_prose(text)
    assert broken.count("\n") > text.count("\n")
    assert page(broken) == page(text)
    assert break_prose(broken) == broken
    assert could_be_broken(broken) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One. Two? Three!", "One.\nTwo?\nThree!"),
        ("- One. Two.\n- Three.", "- One.\n  Two.\n- Three."),
        ("1. One. Two.\n\n   Three. Four.", "1. One.\n   Two.\n\n   Three.\n   Four."),
        ("- One.\n  - Two. Three.", "- One.\n  - Two.\n    Three."),
        ("> - One. Two.", "> - One.\n>   Two."),
        ("One.\\\nTwo. Three.", "One.\\\nTwo.\nThree."),
        ("One.  \nTwo. Three.", "One.  \nTwo.\nThree."),
    ],
)
def test_a_sentence_begins_a_line_below_the_text_of_its_item(text, wanted) -> None:
    assert break_prose(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "Xiao et al. Say so, e.g. Here, i.e. This vs. That, pp. 3, Fig. 4, cf. Them, J. Alammar.",
        "Rows 0, 2, 4, ... of each, “who?” and “where?” alike.",
        "`f. A` and $a. B$ and [c. D](e) and <code>g. H</code> stay.",
        "# A heading. It stays.",
        "A heading. It stays.\n===",
        "| a. B | c |\n|---|---|\n| One. Two. | x |",
        "```\nOne. Two.\n```",
        "~~~\nOne. Two.\n~~~",
        "    One. Two.",
        "$$\n\\text{One. Two.}\n$$",
        "$$\\text{One. Two.}$$",
        "<details><summary>One. Two.</summary>",
        "<details><summary>One. Two.</summary>\n\n</details>",
        "<details><summary>A</summary><pre>One. Two.</pre></details>",
        "<div>\nOne. Two.\n</div>",
    ],
)
def test_what_is_no_end_of_a_sentence_or_no_paragraph_stays(text) -> None:
    assert break_prose(text) == text


@pytest.mark.parametrize(
    "word", ["- it", "+ it", "* it", "1. it", "2) it", "# it", "> it", "| it", "</details> it"]
)
@pytest.mark.parametrize("before", ["One.", f"{WORDS}{WORDS[:20]},", f"{WORDS}{WORDS[:20]}"])
def test_no_line_begins_as_something_else(word, before) -> None:
    broken = break_prose(f"{before} {word} {WORDS}")
    assert not any(line.startswith(word) for line in broken.split("\n")[1:])
    assert len(broken.split("\n")) > 1 or before == "One."


def test_a_long_sentence_is_broken_after_a_clause_or_else_between_words() -> None:
    comma, words = break_prose(f"{LONG}{WORDS}"), break_prose(f"{WORDS}{WORDS}")
    assert comma.split("\n")[0].endswith("for a line,")
    first, rest = words.split("\n")
    assert len(first) <= WIDTH < len(f"{first} {rest.split()[0]}")


def test_a_line_keeps_a_link_or_code_whole_even_if_it_becomes_too_long() -> None:
    whole = f"[{WORDS * 2}](x)"
    assert break_prose(f"One {whole} two") == f"One\n{whole}\ntwo"
    assert could_be_broken(whole) == []
    assert could_be_broken(f"{whole} two") == [f"{whole} two"]


SOURCE = "# %% a-cell [markdown]\n# # Title\n#\n{}\n\n# %%\nx = 1\n"


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Return a source whose prose is not broken, and make it the only one."""
    path = tmp_path / "01_made_up.py"
    path.write_text(SOURCE.format("# One. Two."), encoding="utf-8")
    monkeypatch.setattr(tool, "find_sources", lambda: [path])
    return path


def run(monkeypatch, *options) -> str | int:
    """Run the command and return how it ends."""
    monkeypatch.setattr("sys.argv", ["tools.build.prose", *options])
    with pytest.raises(SystemExit) as stop:
        tool.main()
    return stop.value.code


def test_the_command_rewrites_sources_or_names_them(source, monkeypatch, capsys) -> None:
    before = source.read_text(encoding="utf-8")
    assert run(monkeypatch, "--check") == 1
    assert capsys.readouterr().out.startswith("01_made_up.py: the prose is not broken")
    assert source.read_text(encoding="utf-8") == before
    assert run(monkeypatch) == 0
    assert source.read_text(encoding="utf-8") == SOURCE.format("# One.\n# Two.")
    assert run(monkeypatch, "--check") == 0


def test_the_command_names_a_source_that_cannot_be_read(source, monkeypatch) -> None:
    source.write_text("# %% No name! [markdown]\n# One.\n", encoding="utf-8")
    assert "01_made_up.py: the name of a cell must have" in run(monkeypatch)
