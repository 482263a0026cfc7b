"""The page of the package: every public function and class, from its docstring (NumPy style).

The page is a notebook that nobody runs: headings in Markdown, and what stands below them as HTML in
raw cells, made from the docstrings by way of Markdown. So it gets what lessons get: contents, a
place in the search, and links.
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent, indent

from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat.v4 import new_markdown_cell, new_notebook, new_raw_cell

from tools.build.sources import write_notebook

API = "api"
CHECK = "check_"  # checks of exercises are left out: their docstrings tell the answers
MODULES = (
    "attnlab",
    "attnlab.plotting",
    "attnlab.palette",
    "attnlab.display",
    "attnlab.explorers",
    "attnlab.clinic",
    "attnlab.exercises",
    "attnlab.models.pretrained",
    "attnlab.models.meanings",
    "attnlab.models.list_reader",
    "attnlab.models.looking_back",
    "attnlab.models.translator",
    "attnlab.models.store",
)
OPENING = """# Functions and classes

What the package offers: every public function and class, with its arguments, what it returns, and
examples.

In the shapes, N counts sequences, H heads, L queries, S keys and E features; the
[glossary](glossary.ipynb) has all letters. In every mask, True means “may attend”."""

HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)  # of a section
ITEM = re.compile(r"^(\S.*)((?:\n(?:[ ]+.*|(?=\n[ ])))*)", re.MULTILINE)  # its indented lines too
CODE = re.compile(r"``(?P<code>.+?)``", re.DOTALL)
SESSION = re.compile(r"^>>>.*(?:\n.+)*", re.MULTILINE)
ITEMIZED = {"Parameters", "Attributes", "Returns", "Yields", "Raises", "See Also"}
LONGEST = 40  # letters of a default that is shown

Places = Mapping[str, str]  # where on the page a name is, such as "Table" or "Table.values"

_code = Highlight2HTML(pygments_lexer="python")
_markdown = MarkdownWithMath(renderer=IPythonRenderer(escape=True))


# --- what is public -------------------------------------------------------------------------------


def public(module: str) -> dict[str, object]:
    """Return the public functions and classes that a module defines or lists in ``__all__``."""
    made = vars(importlib.import_module(module))
    own = [name for name, thing in made.items() if getattr(thing, "__module__", None) == module]
    names = made.get("__all__") or [name for name in own if not name.startswith("_")]
    listed = {name: made[name] for name in names if not name.startswith(CHECK)}
    return {name: thing for name, thing in listed.items() if callable(thing)}


def members(kind: object) -> dict[str, object]:
    """Return the public methods and properties that a class describes itself."""
    wanted = (types.FunctionType, property, classmethod, staticmethod)
    return {
        name: member
        for name, member in vars(kind).items()
        if not name.startswith("_") and isinstance(member, wanted) and member.__doc__
    }


def signature_of(name: str, thing: object) -> str:
    """Return how something is called: the names of its arguments and their defaults, if short."""
    called = inspect.signature(getattr(thing, "__func__", thing))
    arguments = [
        arg.replace(annotation=arg.empty, default=arg.default if _is_short(arg.default) else ...)
        for arg in called.parameters.values()
        if arg.name not in ("self", "cls")
    ]
    shown = called.replace(parameters=arguments, return_annotation=called.empty)
    return name + str(shown).replace("Ellipsis", "...")


def _is_short(default: object) -> bool:
    return isinstance(default, type) or len(repr(default)) <= LONGEST


# --- docstrings as Markdown -----------------------------------------------------------------------


def to_html(text: str, places: Places) -> str:
    """Return Markdown as HTML, with examples, and with links from names to what is on the page."""

    def linked(match: re.Match) -> str:
        place = places.get(match["code"].removesuffix("()").removeprefix("attnlab."))
        return f"[{match[0]}](#{place})" if place else match[0]

    sessions = SESSION.sub(r"```pycon\n\g<0>\n```", text)
    return _markdown.render(CODE.sub(linked, sessions))


def items(section: str, text: str) -> str:
    """Return a section of named things as a list of descriptions in Markdown."""
    rows = []
    for head, body in ITEM.findall(text.strip()):
        name, _, kind = head.partition(" : ")
        if section == "See Also":  # what it is stands on the same line
            term, body = re.sub("[^, ]+", r"``\g<0>``", name), f"    {kind}{body}"
        elif section in ("Returns", "Yields") and not kind:
            term = name
        else:
            term = f"``{name}`` *{kind}*" if kind else f"``{name}``"
        rows.append(f"{term}\n:   {indent(dedent(body.strip(chr(10))), '    ').strip()}")
    return "\n\n".join(rows)


def docstring(text: str, places: Places) -> str:
    """Return a docstring in NumPy style as HTML."""
    opening, *parts = HEADING.split(inspect.cleandoc(text))
    made = [to_html(opening, places)]
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in ITEMIZED:
            body = items(name, body)
        elif name == "References":
            body = re.sub(r"(https?:\S+)\n", r"\1  \n", body)  # each on a line of its own
        made.append(f'<p class="part">{name}</p>\n{to_html(body, places)}')
    return "\n".join(made)


# --- the page -------------------------------------------------------------------------------------


def entry(module: str, name: str, thing: object, places: Places) -> str:
    """Return what stands below the heading of a function or class."""
    made = [_code(signature_of(f"{module}.{name}", thing)), docstring(thing.__doc__, places)]
    if isinstance(thing, type):
        for member, thing_inside in members(thing).items():
            path = f"{name}.{member}"
            made.append(f'<h4 id="{places[path]}"><code>{path}</code></h4>')
            if not isinstance(thing_inside, property):
                made.append(_code(signature_of(member, thing_inside)))
            made.append(docstring(thing_inside.__doc__, places))
    return "\n".join(made)


def write_api(folder: Path) -> Path:
    """Write the page of the package as a notebook into a folder; return its path."""
    listed: dict[str, dict[str, object]] = {}
    for module in MODULES:
        known = [thing for things in listed.values() for thing in things.values()]
        things = public(module).items()
        listed[module] = {name: thing for name, thing in things if thing not in known}
    places = {}  # each name stands there with and without its module
    for module, things in listed.items():
        for name, thing in things.items():
            inside = members(thing) if isinstance(thing, type) else ()
            for path in [name, *(f"{name}.{member}" for member in inside)]:
                places |= {path: path, f"{module}.{path}".removeprefix("attnlab."): path}
    cells = [new_markdown_cell(OPENING)]
    for module, things in listed.items():
        summary = importlib.import_module(module).__doc__.partition("\n")[0]
        cells.append(new_markdown_cell(f"## {module}\n\n{summary}"))
        for name, thing in things.items():
            cells.append(new_markdown_cell(f"### `{name}`"))
            cells.append(new_raw_cell(entry(module, name, thing, places)))
    page = folder / f"{API}.ipynb"
    write_notebook(new_notebook(cells=cells), page)
    return page
