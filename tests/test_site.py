"""The web pages hold what the notebooks hold, link to each other and make no request."""

from __future__ import annotations

import base64
import io
import re

import pytest
from nbformat import write
from nbformat.v4 import new_markdown_cell, new_notebook, new_output
from PIL import Image

from tests.notebooks.test_lint import code, printed, shown
from tests.test_display import Elements
from tools import site
from tools._site_html import FORMULA, SiteError, rewrite, to_mathml
from tools._site_search import sections_of
from tools.notebooks import find_notebooks, read_notebook

FIRST = "00_start_here"
SECOND = "01_attention_is_a_soft_look_up"
LINK_TO_SECOND = f"[on]({SECOND}.ipynb#Two-words)"
TITLE = """# 0 · Start

A blurb with $d_k$.

**You need:** nothing.

**Time:** 5 minutes. <!-- constants: 5 -->"""


def html(text):
    """Return a code cell whose output is a piece of HTML."""
    return code("show()", shown("-", html=text))


def write_lessons(folder, *cells, title=TITLE):
    """Write two lessons; the first holds the given cells. Return their paths."""
    other = "# 1 · More\n\nWords.\n\n## Two words\n\n## Two words"
    for name, made in (
        (FIRST, [new_markdown_cell(title), *cells]),
        (SECOND, [new_markdown_cell(other)]),
    ):
        write(new_notebook(cells=made), folder / f"{name}.ipynb")
    return find_notebooks(folder)


@pytest.fixture
def page_of(tmp_path):
    """Return the page of a lesson that holds the given cells or Markdown texts."""

    def make(*cells):
        cells = [new_markdown_cell(one) if isinstance(one, str) else one for one in cells]
        return site.pages(write_lessons(tmp_path, *cells))[f"{FIRST}.html"]

    return make


def links_in(page):
    return [one["href"] for tag, one in Elements(page).found if tag == "a" and one.get("href")]


def places_in(page):
    """Return the places in a page that a link can lead to."""
    return {one["id"] for _, one in Elements(page).found if "id" in one}


def neighbours(page):
    """Return the links to the lessons before and after a page."""
    return links_in(re.search(r'<nav class="neighbours".*?</nav>', page, re.DOTALL)[0])


def without(page, *tags):
    """Return the text of a page outside elements of the given kinds."""
    for tag in tags:
        page = re.sub(rf"<{tag}\b.*?</{tag}>", "", page, flags=re.DOTALL)
    return re.sub(r"<[^>]*>", "", page)


# --- Markdown, formulas, links --------------------------------------------------------------------


def test_formulas_become_mathml_and_code_stays(page_of):
    text = "A $\\sqrt{d_k}$ and `$x$` cost.\n\n$$a = b$$\n\n```\n$HOME$\n```"
    folded = "<details><summary>Hint</summary>Why $s_i &lt; 1$?</details>"
    page = page_of(text, folded, html("<p>As $p &lt; q$.</p>"))
    assert page.count("<math") == 5  # one in the blurb
    for part in ("<msqrt>", 'display="block"', "<code>$x$</code>", "$HOME$"):
        assert part in page
    assert page.count("<mo>&#x0003C;</mo>") == 2
    assert not FORMULA.search(without(page, "style", "script", "code"))


@pytest.mark.parametrize(
    ("latex", "part"),
    [
        (r"\text{head\_dim}", "<mtext>head_dim</mtext>"),
        (r"-\infty", "<mo>&#x02212;</mo><mi>&#x0221E;</mi>"),
        ("1/n", '<mo lspace="0" rspace="0">&#x0002F;</mo>'),
        (r"\text{softmax}\!\left(x\right)", "<mtext>softmax</mtext><mrow>"),
    ],
)
def test_what_the_library_writes_is_corrected(latex, part):
    assert part in to_mathml(latex)


@pytest.mark.parametrize("latex", [r"\frac{a", r"\nosuch{x}"])
def test_a_wrong_formula_is_refused(latex):
    with pytest.raises(SiteError, match="The formula"):
        to_mathml(latex)


def test_headings_get_the_ids_of_jupyterlab_and_are_listed(page_of):
    page = page_of("## In `torch`, $d_k$ too <!-- constants: 2 -->\n\n### Two, three\n\n#### Four")
    assert {"In-torch,-$d_k$-too", "Two,-three", "Four"} <= places_in(page)
    contents = re.search(r'<aside class="contents">(.*?)</aside>', page, re.DOTALL)[1]
    assert links_in(contents) == [
        f"{FIRST}.html",
        "#In-torch,-$d_k$-too",
        "#Two,-three",
        f"{SECOND}.html",
    ]
    assert "<code>torch</code>" in contents


def test_headings_of_the_same_words_have_places_of_their_own(tmp_path):
    page = site.pages(write_lessons(tmp_path))[f"{SECOND}.html"]
    assert {"Two-words", "Two-words-2"} <= places_in(page)


def test_links_lead_to_pages(page_of):
    page = page_of(f"Go {LINK_TO_SECOND}, [up](#Top), [out](https://example.org/a_b).")
    wanted = {f"{SECOND}.html#Two-words", "#Top", "https://example.org/a_b", "index.html"}
    assert wanted <= set(links_in(page))
    assert ".ipynb" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


def test_links_in_html_lead_to_pages_however_they_are_quoted():
    text = '<a href=\'x?a&amp;b\' class="k">c</a><a href="x">c</a><a id="here"></a>'
    wanted = '<a href="X?A&amp;B">c</a><a href="X">c</a><a id="here"></a>'
    assert rewrite(text, str.upper) == wanted


def test_a_link_to_elsewhere_is_refused(page_of):
    with pytest.raises(SiteError, match=r"00_start_here\.ipynb links to '\.\./data/x\.csv'"):
        page_of("[data](../data/x.csv)")


def test_comments_are_left_out_and_tables_can_be_scrolled(page_of):
    page = page_of("| a |\n|---|\n| 1 | <!-- constants: 1 -->\n\nText.<!-- constants: 99 -->")
    assert "constants" not in page
    assert '<div class="scroll"><table>' in page


# --- cells ----------------------------------------------------------------------------------------


def fold_around(page, text):
    """Return the words on the fold around a text, or None if it is not folded."""
    before = page[: page.index(text)]
    if before.rfind("<details") <= before.rfind("</details>"):
        return None
    return re.findall(r"<summary>(.*?)</summary>", before)[-1]


def test_what_a_notebook_folds_is_folded(page_of):
    page = page_of(
        code("shown_source()", printed("shown output")),
        code("solved()", printed("praise"), tags=["solution"], source_hidden=True),
        code("predict('put_away')", printed("open output"), source_hidden=True),
    )
    wanted = {
        "shown_source": None,
        "shown output": None,
        "solved": "A solution",
        "praise": "A solution",
        "open output": None,
        "put_away": "The code of this cell",
    }
    assert {text: fold_around(page, text) for text in wanted} == wanted
    assert page.count("<details") == page.count("</details>")


@pytest.mark.parametrize(
    ("left_out", "wanted"),
    [
        (site.FOR_ALL, {"SOLVED", "REPLY"}),
        (frozenset(), {"SOLVED", "REPLY", "PLAN"}),
        (frozenset({"solution"}), {"PLAN"}),
        (site.FOR_ALL | {"solution"}, set()),
    ],
)
def test_an_edition_holds_what_its_readers_may_see(tmp_path, left_out, wanted):
    paths = write_lessons(
        tmp_path,
        code("SOLVED()", printed("-"), tags=["solution"]),
        new_markdown_cell("Why? <details><summary>An answer</summary>REPLY</details>"),
        new_markdown_cell("PLAN", metadata={"tags": ["teacher"]}),
    )
    made = site.pages(paths, left_out=left_out)
    for name in (f"{FIRST}.html", f"{FIRST}.ipynb.js"):
        assert {word for word in ("SOLVED", "REPLY", "PLAN") if word in made[name]} == wanted
    assert "PLAN" not in made["search_index.js"] or "PLAN" in wanted


@pytest.mark.parametrize(
    ("command", "left_out"),
    [
        ([], {"teacher"}),
        (["--for", "teachers"], set()),
        (["--for", "all", "--solutions", "no"], {"teacher", "solution"}),
    ],
)
def test_the_command_line_chooses_the_edition(monkeypatch, command, left_out):
    seen = {}
    monkeypatch.setattr(
        site,
        "write_site",
        lambda _folder, notebooks, **options: seen.update(options, notebooks=notebooks) or {},
    )
    monkeypatch.setattr("sys.argv", ["tools.site", *command])
    site.main()
    assert seen["left_out"] == left_out
    has_page = "teaching.ipynb" in [path.name for path in seen["notebooks"]]
    assert has_page == ("teachers" in command)


def test_the_page_for_teachers_holds_the_notes_of_all_lessons_and_goes_with_them(tmp_path):
    paths = write_lessons(tmp_path, new_markdown_cell("NOTE", metadata={"tags": ["teacher"]}))
    stems = [path.stem for path in find_notebooks()]
    page = site.write_page(tmp_path, paths)
    cells = [cell.source for cell in read_notebook(page).cells]
    assert cells[0].startswith("# For teachers\n")
    assert cells[2].startswith("### [")
    assert cells[3] == "NOTE"
    links = site.links_of([*stems, FIRST], "teaching")
    for cell in cells:
        for href in re.findall(r"\]\(([^)]+)\)", cell):
            links(href)
    folder = tmp_path / "site"
    site.write_site(folder, [*paths, page], left_out=frozenset())
    assert "NOTE" in (folder / "teaching.html").read_text()
    site.write_site(folder, paths)
    assert list(folder.glob("teaching.*")) == []


def test_a_prediction_comes_before_its_code(page_of):
    asked = html("<p>QUESTION</p>")
    asked.source = 'predict("00/key")'
    page = page_of(asked)
    assert page.index("QUESTION") < page.index("00/key")


def test_every_kind_of_output_is_shown(page_of):
    error = new_output("error", ename="E", evalue="v", traceback=["Cell In[1]", "E: <v>"])
    picture = new_output("display_data", {"image/png": "AAAA\n", "text/plain": "<Figure>"})
    marked = shown("-", markdown="**bold** $x$")
    plain = new_output("execute_result", {"text/plain": "a < b"}, execution_count=1)
    page = page_of(code("x < y", error, picture, marked, plain))
    assert '<pre class="out error">Cell In[1]\nE: &lt;v&gt;</pre>' in page
    assert '<img alt="&lt;Figure&gt;" src="data:image/png;base64,AAAA">' in page
    assert "<strong>bold</strong> <math" in page
    assert '<pre class="out">a &lt; b</pre>' in page
    assert '<span class="o">&lt;</span>' in page


def test_blank_lines_of_code_and_of_outputs_stay(page_of):
    page = page_of(code("a = 1\n\n\nb = 2", printed("one\n\n\n  two")))
    assert "one\n\n\n  two" in page
    source = re.search(r'<div class=" highlight.*?</div>', page, re.DOTALL)[0]
    assert without(source).strip() == "a = 1\n\n\nb = 2"


def test_words_for_a_kernel_are_replaced():
    text = '<p>Q</p><p style="font-size:14px">Run this cell to answer here.</p>'
    assert rewrite(text, str) == "<p>Q</p>"
    live = rewrite("<p>Run this cell to use the controls: <b>a</b></p>", str)
    assert live.startswith("<p>The controls work in JupyterLab: <b>a</b>")
    assert rewrite("<th></th><th>a</th>", str) == "<td></td><th>a</th>"


@pytest.mark.parametrize(
    "text",
    [
        '<p title="a &amp; b">x &lt; y &#8211; <b>z</b><br><img alt=\'q\' src="data:,"/></p>',
        "<style>p > b { color: red }</style><pre>$a$ &amp;</pre>",
        "<div>$x$<script>const a = `$b$<!-- c -->`;</script></div>",
    ],
    ids=["text", "style and code", "an explorer"],
)
def test_html_without_anything_to_change_stays_byte_for_byte(text):
    assert rewrite(text, str) == text


# --- the site -------------------------------------------------------------------------------------


def test_the_glossary_is_a_page_without_a_number_and_neighbours(tmp_path):
    linking = new_markdown_cell("[softmax](glossary.ipynb#softmax)")
    paths = write_lessons(tmp_path, linking)
    write(
        new_notebook(cells=[new_markdown_cell("# Words\n\n### softmax")]),
        paths[0].parent / "glossary.ipynb",
    )
    made = site.pages(find_notebooks(tmp_path))
    assert 'href="glossary.html#softmax"' in made[f"{FIRST}.html"]
    assert "softmax" in places_in(made["glossary.html"])
    assert neighbours(made["glossary.html"]) == []
    assert neighbours(made[f"{FIRST}.html"]) == [f"{SECOND}.html"]
    assert neighbours(made[f"{SECOND}.html"]) == [f"{FIRST}.html"]
    assert "glossary.html" in links_in(made["index.html"])


def test_the_index_has_a_card_for_every_lesson(tmp_path):
    front = site.pages(write_lessons(tmp_path))["index.html"]
    assert [link for link in links_in(front) if "html" in link][1:] == [
        f"{FIRST}.html",
        f"{SECOND}.html",
    ]
    assert "How a word picks up its context." in front  # as the README says
    assert "5 minutes." in front
    assert "nothing" not in without(front, "style", "script")


def test_a_card_says_in_one_sentence_what_its_page_is_about(tmp_path):
    new = tmp_path / "07_new.ipynb"
    abouts = {path.stem: site.card_of(path).about for path in find_notebooks()}
    assert abouts[SECOND] == "A dictionary that can answer “almost”."
    assert abouts["glossary"].startswith("The letters of this series")
    assert {stem: text for stem, text in abouts.items() if not 20 < len(text) < 130} == {}
    write(new_notebook(cells=[new_markdown_cell("# 7 · New\n\nFirst? Second.")]), new)
    assert site.card_of(new).about == "First?"


def test_the_index_of_the_search_holds_texts_but_nothing_folded_and_no_outputs(page_of):
    folded = "<details><summary>Hint</summary><details>deep</details>SECRET</details>"
    page = page_of(
        f"## Why `a_b`?\n\nAs $d_k$.\n\n{folded}\n\nAfter.", code("x = 1", printed("OUT"))
    )
    start, section = sections_of(page)
    assert start == ("0-·-Start", "0 · Start", start.text)
    assert start.text.startswith("A blurb with dk. You need: nothing.")
    assert section == ("Why-a_b?", "Why a_b?", "As dk. After. x = 1")


def figure(number, alt):
    """Return a cell with a numbered figure: a wide picture without a background."""
    buffer = io.BytesIO()
    Image.new("RGBA", (300, 30), (0, 0, 0, 0)).save(buffer, format="PNG")
    source = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    caption = f"<figcaption><b>Figure {number}.</b> C</figcaption>"
    return html(
        f'<figure data-number="{number}"><img alt="{alt}" src="{source}">{caption}</figure>'
    )


def meta(page):
    """Return what a page tells those who show a link to it."""
    return dict(
        re.findall(r'<meta (?:property|name)="((?:og|twitter):[^"]*)" content="([^"]*)"', page)
    )


def test_a_shared_link_brings_a_picture_along(tmp_path):
    paths = write_lessons(tmp_path, figure("0.2", "one &lt;"), figure("0.1", "two"))
    made = site.pages(paths)
    first, second, front = (meta(made[f"{name}.html"]) for name in (FIRST, SECOND, "index"))
    assert first["og:title"] == "0 · Start – attnlab"
    assert first["og:description"] == "A blurb with dk."
    assert first["og:image"] == "figure_0_2.png"
    assert first["og:image:alt"] == "one &lt;"
    assert front["og:image"] == "figure_0_1.png"
    assert "og:image" not in second  # it has no figure
    assert "og:url" not in first
    with Image.open(io.BytesIO(made["figure_0_2.png"])) as picture:
        assert picture.size == (int(first["og:image:width"]), int(first["og:image:height"]))
        assert picture.convert("RGB").getcolors() == [(1200 * 630, (255, 255, 255))]


def test_a_site_with_an_address_names_it(tmp_path):
    made = site.pages(write_lessons(tmp_path, figure("0.1", "one")), address="https://a.org/b/")
    first = meta(made[f"{FIRST}.html"])
    assert first["og:image"] == "https://a.org/b/figure_0_1.png"
    assert first["og:url"] == f"https://a.org/b/{FIRST}.html"
    assert meta(made["index.html"])["og:url"] == "https://a.org/b/index.html"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ""),
        ("https://a.org/b", "https://a.org/b/"),
        ("http://a.org:8000/", "http://a.org:8000/"),
    ],
)
def test_an_address_ends_with_a_slash(text, wanted):
    assert site.address_from(text) == wanted


@pytest.mark.parametrize("text", ["a.org", "file:///a", 'https://a"><script>', "https://a b", "#"])
def test_what_is_no_address_is_refused(text, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tools.site", "--url", text])
    with pytest.raises(SystemExit):
        site.main()
    assert "URL must look like https://example.org/attnlab, got " in capsys.readouterr().err


def test_every_page_lists_all_lessons_and_marks_its_own(tmp_path):
    pages = site.pages(write_lessons(tmp_path))
    for name in (FIRST, SECOND):
        page = pages[f"{name}.html"]
        assert {f"{FIRST}.html", f"{SECOND}.html"} <= set(links_in(page))
        marked = re.findall(r'<a href="([^"]*)" aria-current="page">', page)
        assert marked == [f"{name}.html"] * 2  # beside the text, and folded for narrow windows


def test_a_lesson_without_a_title_is_refused(tmp_path):
    with pytest.raises(SiteError, match=r"00_start_here\.ipynb does not begin with a title"):
        site.pages(write_lessons(tmp_path, title="Words."))


def test_the_same_notebooks_give_the_same_bytes_and_old_pages_go(tmp_path):
    paths = write_lessons(tmp_path, new_markdown_cell("$x$"))
    folder = tmp_path / "site"
    site.write_site(folder, paths)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    for old in ("05_gone.html", "05_gone.ipynb.js", "figure_5_1.png"):
        (folder / old).write_text("old")
    (folder / "mine.txt").write_text("mine")
    site.write_site(folder, paths)
    again = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert again == {**first, "mine.txt": b"mine"}


def test_nothing_is_written_if_a_lesson_cannot_become_a_page(tmp_path):
    paths = write_lessons(tmp_path, new_markdown_cell("[x](nowhere.md)"))
    with pytest.raises(SiteError):
        site.write_site(tmp_path / "site", paths)
    assert not (tmp_path / "site").exists()


def test_a_real_lesson_is_all_there():
    """Its links and that it makes no request are tested in a browser, with all other lessons."""
    path = next(path for path in find_notebooks() if path.stem == SECOND)
    cards = [site.card_of(path) for path in find_notebooks()]
    page, notebook = site.PageExporter().lesson(path, cards), read_notebook(path)
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    pictures = sum(one.get("data", {}).get("text/html", "").count("<img") for one in outputs)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert page.count("<img") == pictures
    assert page.count('<div class=" highlight') == len(code)
    assert page.count("<math") > 10
    assert not FORMULA.search(without(page, "style", "script", "pre", "code"))
    assert "Run this cell" not in page
    assert "Content-Security-Policy" in page
