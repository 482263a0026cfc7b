"""The web pages hold what the notebooks hold, link to each other and make no request."""

from __future__ import annotations

import io
import re

import pytest
from bs4 import BeautifulSoup
from nbformat import write
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from attnlab.display import ShownFigure
from tools.build.sources import BUNDLE, KERNELSPEC, find_notebooks, fold
from tools.publish.editions import edition
from tools.publish.repository import repository_at
from tools.publish.site import pages
from tools.publish.site.html import FORMULA, Prose, SiteError, rewrite, to_mathml
from tools.publish.site.search import sections_of
from tools.publish.student import leave_out

FIRST, SECOND, WORDS = "00_start_here", "01_attention_is_a_soft_look_up", "glossary"
TITLE = """# 0 · Start

A blurb with $d_k$.

**You need:** nothing.

**Time:** 5 minutes."""
PROSE = f"""## In `torch`, $d_k$ too

Go [on]({SECOND}.ipynb#Two-words-2), [up](#Three), [out](https://example.org/a_b), or to a
[word]({WORDS}.ipynb#softmax). Here `$x$` costs.

### Three

$$a = b$$

```
$HOME$
```

| a |
|---|
| 1 |

<details><summary>Hint</summary>Why $s_i &lt; 1$?</details>

Say. <details><summary>An answer</summary>REPLY</details>"""


def code(source, *outputs, hidden=False, tags=()):
    metadata = {"tags": [*tags], "jupyter": {"source_hidden": hidden}}
    return new_code_cell(source, outputs=[*outputs], metadata=metadata)


def shown(**data):
    return new_output("display_data", {name.replace("_", "/"): one for name, one in data.items()})


def printed(text):
    return new_output("stream", text=text)


def figure(number, alt):
    """Return a numbered figure: a wide picture without a background."""
    buffer = io.BytesIO()
    Image.new("RGBA", (300, 30), (0, 0, 0, 0)).save(buffer, format="PNG")
    return shown(**ShownFigure(buffer.getvalue(), 300, number, alt, "C", [])._repr_mimebundle_())


FACTS = {"kind": "prediction", "key": "00/key", "ask": True, "question": "$Q$?"}
OPTIONS = [{"text": "$a$", "feedback": "", "correct": True}]
QUESTION = shown(text_html="<div>QUESTION</div>")
QUESTION.data[BUNDLE] = {**FACTS, "options": OPTIONS, "explanation": "So </script>."}
OUTPUTS = (
    printed("one\n\n\n  two"),
    new_output("error", ename="E", evalue="v", traceback=["Cell In[1]", "E: <v>"]),
    shown(image_png="AAAA\n", text_plain="<Figure>"),
    shown(text_markdown="**bold** $x$"),
    shown(text_html="<p>As $p &lt; q$.</p>"),
    shown(text_plain="a < b"),
)
LESSONS = {
    FIRST: [
        new_markdown_cell(TITLE),
        new_markdown_cell(PROSE),
        code("a = 1\n\n\nb < 2", *OUTPUTS),
        fold(code("SOLVED()", printed("praise."), tags=["solution"])),
        code('predict("00/key")', QUESTION, hidden=True),
        code("plot()", figure("0.2", "one <"), figure("0.1", "two")),
        new_markdown_cell("## Exercises\n\nHow."),
        code("check_new_vector(mine)", printed("Not done yet")),
        new_markdown_cell("PLAN", metadata={"tags": ["teacher"]}),
    ],
    SECOND: [new_markdown_cell("# 1 · More\n\nFirst? Second.\n\n## Two words\n\n## Two words")],
    WORDS: [new_markdown_cell("# Words\n\nOf all.\n\n### softmax\n\nTurns [into](#softmax) 1.")],
}


def write_lessons(folder, **changed):
    """Write the lessons, some of them with other cells; return their paths."""
    for name, cells in (LESSONS | changed).items():
        notebook = new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC})
        write(notebook, folder / f"{name}.ipynb")
    return find_notebooks(folder)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return write_lessons(tmp_path_factory.mktemp("lessons"))


@pytest.fixture(scope="module")
def made(paths):
    return pages.pages(paths)


@pytest.fixture(scope="module")
def first(made):
    return BeautifulSoup(made[f"{FIRST}.html"], "html.parser")


def links_in(part):
    return [link["href"] for link in part.select("a[href]")]


# --- Markdown, formulas, links --------------------------------------------------------------------


def test_formulas_become_mathml_and_code_stays(first):
    main = first.main
    assert [one.get_text() for one in main.select("math")] == "dk dk dk a=b si<1 x p<q".split()
    assert main.select_one("math[display=block]").get_text() == "a=b"
    assert {"$x$", "$HOME$\n"} <= {one.get_text() for one in main.select("code")}
    for one in main.select("code"):
        one.extract()
    assert not FORMULA.search(main.get_text())


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


def test_links_lead_to_pages(first, made):
    wanted = [f"{SECOND}.html#Two-words-2", "#Three", "https://example.org/a_b"]
    assert links_in(first.select(".prose")[1]) == [*wanted, f"{WORDS}.html#softmax"]
    assert 'id="Two-words-2"' in made[f"{SECOND}.html"]
    assert first.find(id="meaning-softmax").get_text() == "softmax Turns into 1."


def test_links_in_html_lead_to_pages_however_they_are_quoted():
    text = '<a href=\'x?a&amp;b\' class="k">c</a><a href="x">c</a><a id="here"></a>'
    wanted = '<a href="X?A&amp;B">c</a><a href="X">c</a><a id="here"></a>'
    assert rewrite(text, str.upper) == wanted


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


# --- cells ----------------------------------------------------------------------------------------


def test_what_a_notebook_folds_is_folded(first):
    folds = {one.summary.get_text(): one.get_text() for one in first.main.select("details")}
    folds.pop("All lessons and the contents of this page")
    words = {"SOLVED": "A solution", "praise": "A solution", "REPLY": "An answer", "Why": "Hint"}
    for word, name in {**words, "predict": "The code of this cell"}.items():
        assert [one for one, text in folds.items() if word in text] == [name]
    assert not any(word in text for text in folds.values() for word in ("QUESTION", "a = 1", "two"))
    page = str(first.main)
    assert page.index("QUESTION") < page.index("00/key")  # a prediction comes before its code


def test_a_page_says_where_an_exercise_is_done_and_which_mistakes_its_check_names(paths, made):
    page = BeautifulSoup(made[f"{FIRST}.html"], "html.parser")
    cell = page.select(".cell")[-1]
    assert "type make lab in the folder of attnlab." in cell.get_text()
    assert links_in(cell) == []  # there is nowhere to lead to
    told = [one.get_text() for one in cell.select("details:not([open]) li")]
    assert len(told) > 5
    assert "You used the last row of x as the query." in told[1]
    assert cell.select("details code")  # `query` in that sentence
    assert "Not done yet" not in page.get_text()
    known = repository_at("https://example.org/ada/lab")
    there = pages.pages(paths, repository=known)[f"{FIRST}.html"]
    there = BeautifulSoup(there, "html.parser")
    assert links_in(there.select(".cell")[-1]) == ["#Exercises"]
    assert there.find(id="Exercises")
    without = pages.pages(paths, left_out=pages.FOR_ALL | {"solution"})[f"{FIRST}.html"]
    assert "You used the last row of x" not in without  # it tells how to do it


@pytest.mark.parametrize(
    ("remote", "opened"),
    [("https://github.com/ada/lab", 2), ("https://example.org/ada/lab", 0), ("", None)],
)
def test_a_page_says_where_attnlab_is_and_what_opens_it(paths, remote, opened):
    made = pages.pages(paths, repository=repository_at(remote))
    for name, lines, opens in ((FIRST, 2, opened), ("index", 1, 0)):
        page = BeautifulSoup(made[f"{name}.html"], "html.parser")
        told = page.select(".get")
        assert len(told) == lines
        for line in told:
            commands = [one.get_text() for one in line.select("code")]
            if remote:
                assert commands == [f"git clone {remote}", "cd lab && make lab"]
                assert links_in(line)[0] == remote
                assert len(links_in(line)[1:]) == opens
            else:
                assert (commands, links_in(line)) == (["make lab"], [])
        assert len(page.find_all(string=re.compile("In Colab"))) == bool(opens)


def test_every_kind_of_output_is_shown(first):
    cell = first.select_one(".cell")
    assert cell.select_one(".highlight").get_text().strip() == "a = 1\n\n\nb < 2"
    texts = [one.get_text() for one in cell.select("pre.out")]
    assert texts == ["one\n\n\n  two", "Cell In[1]\nE: <v>", "a < b"]
    picture = cell.img
    assert (picture["alt"], picture["src"]) == ("<Figure>", "data:image/png;base64,AAAA")
    assert cell.strong.get_text() == "bold"
    assert first.select_one(".scroll > table")


@pytest.mark.parametrize(
    ("left_out", "wanted"),
    [
        (pages.FOR_ALL, {"SOLVED", "REPLY"}),
        (frozenset(), {"SOLVED", "REPLY", "PLAN"}),
        (frozenset({"solution"}), {"PLAN"}),
        (pages.FOR_ALL | {"solution"}, set()),
    ],
)
def test_an_edition_holds_what_its_readers_may_see(paths, left_out, wanted):
    made = pages.pages(paths, left_out=left_out)
    for name in (f"{FIRST}.html", f"{FIRST}.ipynb.js"):
        assert {word for word in ("SOLVED", "REPLY", "PLAN") if word in made[name]} == wanted
    assert "PLAN" not in made["search_index.js"] or "PLAN" in wanted


def test_the_command_line_chooses_the_edition(monkeypatch):
    seen = {}

    def write(_folder, notebooks, left_out, **_options):
        seen[left_out] = "teaching.ipynb" in [path.name for path in notebooks]
        return {}

    monkeypatch.setattr(pages, "write_site", write)
    monkeypatch.setattr(pages, "write_api", lambda folder: folder / "api.ipynb")
    for command in ([], ["--for=teachers"], ["--for=all", "--solutions=no"]):
        monkeypatch.setattr("sys.argv", ["tools.publish.site.pages", *command])
        pages.main()
    assert seen == {
        frozenset({"teacher"}): False,
        frozenset(): True,
        frozenset({"teacher", "solution"}): False,
    }


# --- the site -------------------------------------------------------------------------------------


def test_lessons_have_neighbours_and_the_glossary_has_none(made):
    pages = {stem: BeautifulSoup(made[f"{stem}.html"], "html.parser") for stem in LESSONS}
    found = {stem: links_in(page.select_one("nav.neighbours")) for stem, page in pages.items()}
    assert found == {FIRST: [f"{SECOND}.html"], SECOND: [f"{FIRST}.html"], WORDS: []}
    for stem, page in pages.items():
        marked = [one["href"] for one in page.select("a[aria-current=page]")]
        assert marked == [f"{stem}.html"] * 2  # beside the text, and folded for narrow windows


def test_nobody_is_told_to_run_a_cell_where_nothing_runs():
    orders = re.compile(r"Shift \+ Enter|[Rr]un (the next|that|this) cell|package is missing")
    prose = Prose(lambda href: href)
    for path in find_notebooks():
        cells = leave_out(edition(path, "site"), {"teacher"}).cells
        said = [prose.to_html(cell.source) for cell in cells if cell.cell_type == "markdown"]
        assert orders.search(" ".join(" ".join(said).split())) is None, path.stem


def test_the_index_has_a_card_for_every_lesson(made):
    cards = BeautifulSoup(made["index.html"], "html.parser").select(".cards > li")
    assert [card.a["href"] for card in cards] == [f"{stem}.html" for stem in LESSONS]
    text = cards[0].get_text()
    assert "How can the same word mean one thing here and another thing there?" in text  # as there
    pictures = [card.select_one("img.thumbnail") for card in cards]
    assert [picture is not None for picture in pictures] == [True, False, False]  # one has a figure
    assert "5 minutes." in text
    assert "nothing" not in text


def test_the_index_of_the_search_holds_texts_but_nothing_folded_and_no_outputs(made):
    title, section, last, *_ = sections_of(made[f"{FIRST}.html"])
    assert title[:2] == ("0-·-Start", "0 · Start")
    assert title.text.startswith("A blurb with dk. You need: nothing.")
    assert section.heading == "In torch, dk too"
    assert section.text.endswith("Here $x$ costs.")
    assert "a = 1 b < 2" in last.text
    assert not re.search("REPLY|SOLVED|QUESTION|two|bold", last.text)


def test_the_search_reads_the_code_of_lessons_but_not_what_asks_its_predictions():
    question = '<p class="attnlab-predict-stored"></p>'
    asks = f'<div class="cell">{question}<pre class="highlight">predict("00/key")</pre></div>'
    answers = '<div class="cell"><pre class="highlight">%%answer 00/key\nx = 1</pre></div>'
    (section,) = sections_of(f"<main><h2>T</h2>{asks}{answers}<p class='get'>G</p></main>")
    assert section.text == "x = 1"


def test_a_shared_link_brings_a_picture_along(paths):
    made = pages.pages(paths, address="https://a.org/b/")
    first, second, front = (
        dict(re.findall(r'<meta (?:property|name)="(og:.*?|twitter:.*?)" content="(.*?)"', page))
        for page in (made[f"{name}.html"] for name in (FIRST, SECOND, "index"))
    )
    assert first["og:title"] == "0 · Start – attnlab"
    assert first["og:description"] == "A blurb with dk."
    assert first["og:url"] == f"https://a.org/b/{FIRST}.html"
    assert first["og:image"] == "https://a.org/b/figure_0_2.png"
    assert first["og:image:alt"] == "one &lt;"
    assert front["og:image"] == "https://a.org/b/figure_0_1.png"
    assert "og:image" not in second  # it has no figure
    with Image.open(io.BytesIO(made["figure_0_2.png"])) as picture:
        assert picture.size == (300, 30)


NO_ADDRESSES = [("--url", text) for text in ("a.org", "file:///a", 'https://a">', "https://a b")]


@pytest.mark.parametrize("asked", [*NO_ADDRESSES, ("--repository", "attnlab")])
def test_what_is_no_address_is_refused(asked, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tools.publish.site.pages", *asked])
    with pytest.raises(SystemExit):
        pages.main()
    told = {
        "--url": "URL must look like https://ex",
        "--repository": "REPO must look like https://",
    }
    assert told[asked[0]] in capsys.readouterr().err


def test_the_same_notebooks_give_the_same_bytes_and_old_pages_go(paths, tmp_path):
    pages.write_site(tmp_path, paths)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for old in ("05_gone.html", "05_gone.ipynb.js", "figure_5_1.png", "teaching.html"):
        (tmp_path / old).write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    pages.write_site(tmp_path, paths)
    again = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert again == {**first, "mine.txt": b"mine"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Words.", r"00_start_here\.ipynb does not begin with a title"),
        ("# 0 · A\n\n[data](../data/x.csv)", r"00_start_here\.ipynb links to '\.\./data/x\.csv'"),
        (r"# 0 · A $\nosuch{x}$", r"The formula .* holds \\nosuch"),
        ("# 0 · A $\\frac{a$", "a brace without a partner"),
    ],
)
def test_nothing_is_written_if_a_lesson_cannot_become_a_page(tmp_path, text, why):
    paths = write_lessons(tmp_path, **{FIRST: [new_markdown_cell(text)]})
    with pytest.raises(SiteError, match=why):
        pages.write_site(tmp_path / "site", paths)
    assert not (tmp_path / "site").exists()
