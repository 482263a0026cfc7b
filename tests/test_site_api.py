"""The page of the package: docstrings as HTML, and everything public on it."""

import re
from html import unescape

import pytest

import attnlab
from tools._site_api import MODULES, docstring, inline, items, public, signature_of, write_api
from tools.notebooks import read_notebook

DOC = """Return the sum of ``x`` & more.

    As *every* sum, see ``rotate``.

    Parameters
    ----------
    x, y : Tensor, shape (L, E)
        What is added:

        - one,
        - the other.
    **rest
        Ignored.

    Returns
    -------
    Tensor, shape (L,)
        One number < 3.

    See Also
    --------
    torch.sum : the same;
        faster.
    attnlab.rotate, Table.values : something else.

    References
    ----------
    One, 2018. https://a.org/1
    Two, 2019. https://a.org/2.

    Examples
    --------
    Both at once:

    >>> add(1,
    ...     2)
    3
    """
PLACES = {"rotate": "rotate", "Table.values": "Table.values"}


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    page = write_api(tmp_path_factory.mktemp("api"))
    return [cell.source for cell in read_notebook(page).cells]


@pytest.fixture(scope="module")
def page(cells):
    return "\n".join(cells)


def text_of(html):
    return unescape(re.sub(r"<[^>]*>", "", html))


@pytest.mark.parametrize(
    "part",
    [
        "<p>Return the sum of <code>x</code> &amp; more.</p>",
        '<p>As <em>every</em> sum, see <a href="#rotate"><code>rotate</code></a>.</p>',
        '<p class="part">Parameters</p>\n<dl><dt><code>x, y</code> '
        '<span class="kind">Tensor, shape (L, E)</span></dt>\n<dd><p>What is added:</p>\n'
        "<ul><li>one,\n</li><li>the other.</li></ul></dd>",
        "<dt><code>**rest</code></dt>\n<dd><p>Ignored.</p></dd>",
        "<dt>Tensor, shape (L,)</dt>\n<dd><p>One number &lt; 3.</p></dd>",
        "<dt><code>torch.sum</code></dt>\n<dd><p>the same;\nfaster.</p></dd>",
        '<dt><a href="#rotate"><code>attnlab.rotate</code></a>, '
        '<a href="#Table.values"><code>Table.values</code></a></dt>',
        '<a href="https://a.org/1">https://a.org/1</a><br>\nTwo, 2019. '
        '<a href="https://a.org/2">https://a.org/2</a>.</p>',
        '<p>Both at once:</p>\n<div class=" highlight hl-pycon">',
    ],
)
def test_a_docstring_becomes_html(part):
    assert part in docstring(DOC, PLACES)


def test_an_example_is_whole():
    assert ">>> add(1,\n...     2)\n3" in text_of(docstring(DOC, PLACES))


@pytest.mark.parametrize("text", ["<script>x</script>", "``<b>``", "a & b", "2 * x * y", "**x**"])
def test_what_looks_like_html_or_stress_stays_text(text):
    assert text_of(inline(text, {})) == text.replace("``", "")
    assert not re.search(r"<(?!/?code>)", inline(text, {}))


def test_an_empty_section_is_no_list():
    assert items("Parameters", "", {}) == "<dl></dl>"


def test_a_long_default_is_left_out():
    def call(a, b="x" * 99, *, c=(1, 2)):
        """Do nothing."""

    assert signature_of("call", call) == "call(a, b=..., *, c=(1, 2))"


def test_every_public_name_has_a_heading(cells):
    headings = {cell[5:-1] for cell in cells if cell.startswith("### `")}
    assert headings >= set(attnlab.__all__)
    assert headings == {name for module in MODULES for name in public(module)}


def test_nothing_private_and_nothing_of_this_run_is_on_the_page(page):
    text = text_of(re.sub(r'<div class=" highlight hl-pycon">.*?</div>', "", page, flags=re.DOTALL))
    assert re.findall(r"(?<!\w)_[a-z]\w*|\bat 0x\w+|/\w+/site-packages", text) == []


def test_what_is_named_beside_a_function_is_on_the_page(page):
    named = set(re.findall(r"<dt><code>(?!torch\b)([^<]*)</code></dt>\n<dd><p>[a-z]", page))
    assert {one for one in named if one.startswith("attnlab")} == set()


def test_links_lead_to_something_on_the_page(page):
    places = {*re.findall(r"^### `(.*)`$", page, re.MULTILINE), *re.findall(r'id="([^"]*)"', page)}
    links = re.findall(r'href="#([^"]*)"', page)
    assert len(links) > 100
    assert set(links) <= places
