"""The page of the package: docstrings as HTML, and everything public on it."""

import re
from html import unescape

import pytest

import attnlab
from tools.build.sources import read_notebook
from tools.publish.site.api import MODULES, docstring, public, signature_of, write_api

DOC = """Return the sum of ``x`` & more, <b> or 2 * x * y.

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
PARTS = [
    "<p>Return the sum of <code>x</code> &amp; more, &lt;b&gt; or 2 * x * y.</p>",
    '<p>As <em>every</em> sum, see <a href="#rotate"><code>rotate</code></a>.</p>',
    '<p class="part">Parameters</p> <dl> <dt><code>x, y</code> <em>Tensor, shape (L, E)</em></dt>',
    "<dd><p>What is added:</p> <ul> <li>one,</li> <li>the other.</li> </ul> </dd>",
    "<dt><code>**rest</code></dt> <dd>Ignored.</dd>",
    "<dt>Tensor, shape (L,)</dt> <dd>One number &lt; 3.</dd>",
    "<dt><code>torch.sum</code></dt> <dd>the same; faster.</dd>",
    '<dt><a href="#rotate"><code>attnlab.rotate</code></a>, <a href="#Table.values">',
    '<a href="https://a.org/1">https://a.org/1</a><br /> Two, 2019. <a href="https://a.org/2">',
    '<p>Both at once:</p> <div class="highlight">',
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    page = write_api(tmp_path_factory.mktemp("api"))
    return [cell.source for cell in read_notebook(page).cells]


def text_of(html):
    return unescape(re.sub(r"<[^>]*>", "", html))


def test_a_docstring_becomes_html():
    made = docstring(DOC, PLACES)
    assert [part for part in PARTS if part not in " ".join(made.split())] == []
    assert ">>> add(1,\n...     2)\n3" in text_of(made)


def test_a_long_default_is_left_out():
    def call(a, b="x" * 99, *, c=(1, 2)):
        """Do nothing."""

    assert signature_of("call", call) == "call(a, b=..., *, c=(1, 2))"


def test_every_public_name_has_a_heading(cells):
    headings = {cell[5:-1] for cell in cells if cell.startswith("### `")}
    assert headings >= set(attnlab.__all__)
    assert headings == {name for module in MODULES for name in public(module)}
    assert not any(name.startswith("check_") for name in headings)  # they tell the answers


def test_nothing_private_and_nothing_of_this_run_is_on_the_page(cells):
    page = re.sub(r'<div class="highlight">.*?</div>', "", "\n".join(cells), flags=re.DOTALL)
    text = text_of(page)
    assert re.findall(r"(?<!\w)_[a-z]\w*|\bat 0x\w+|/\w+/site-packages|``", text) == []


def test_names_lead_to_something_on_the_page(cells):
    page = "\n".join(cells)
    places = {*re.findall(r"^### `(.*)`$", page, re.MULTILINE), *re.findall(r'id="([^"]*)"', page)}
    links = re.findall(r'href="#([^"]*)"', page)
    assert len(links) > 100
    assert set(links) <= places
    assert not re.search(r"<dt><code>attnlab\.", page)  # each of them is a link
