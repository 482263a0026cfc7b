"""Scripts and pages: join the modules of ``js/``, write an explorer as HTML.

The modules are plain ES modules that import from each other by name: those that explorers share
lie in ``js/``, each explorer's own beside its Python. They are joined here, each as
one function whose result is kept in ``globalThis.attnlabModules`` under a name with a hash of its
text. A widget gets all that it needs. Of the explorers that a notebook stores, the first of a
kernel carries what they share, and each kind its own module, once: a committed notebook holds
every script a single time. An explorer whose scripts come later in the page waits, still and
readable, until they arrive, also by a neighbour that is run again; if that neighbour is deleted,
its picture and its sentence stay.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from attnlab import palette
from attnlab.display import browser
from attnlab.display.figure import picture_html

SHARED = Path(__file__).with_name("js")  # the modules that explorers share
OWN = SHARED.parent.parent  # each explorer's own module lies beside it
START = "page"  # the module that looks for explorers in a page and starts them
DEFINES = "globalThis.attnlabModules ??= {};"  # how the script that defines modules begins
WAKES = "globalThis.attnlabModules?."  # and the script that starts their explorers, after it

IMPORT = re.compile(r'^import \{([^}]*)\} from "[./]+(?:\w+/)*(\w+)\.mjs";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|function|class) (\w+))", re.MULTILINE)
LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)

MAKE = """for (let made = true; made;) {
  made = false;
  for (const [key, [needed, make]] of Object.entries(attnlabParts)) {
    if (attnlabModules[key] || !needed.every((one) => attnlabModules[one])) continue;
    attnlabModules[key] = make();
    made = true;
  }
}"""  # all modules of the page whose imports are there

_stored: set[str] = set()  # keys of the modules that outputs of this kernel carry already


# --- modules --------------------------------------------------------------------------------------


@lru_cache
def source_of(name: str) -> str:
    """Return the text of a module; "style" is made."""
    if name == "style":
        return _style_module()
    folders = (OWN, SHARED, browser.FOLDER)
    return browser.read(next(filter(Path.is_file, (at / f"{name}.mjs" for at in folders))))


def _style_module() -> str:
    """Return a module of the style sheet and the shades of weights, in the colours of palette."""
    dark = f"@media screen {{ .card.dark {{ {palette.css(dark=True)} }} }}"  # paper is white
    roles = f".card {{ {palette.css()} }}\n{dark}\n"
    sheet = roles + browser.read(SHARED / "style.css")
    shades = [palette.shade(step / 100) for step in range(101)]
    pairs = [(palette.to_hex(shade), palette.ink_on(shade)) for shade in shades]
    return (
        f"export const STYLE = {json.dumps(sheet)};\n"
        "// background and ink of the weights 0, 0.01, ... 1\n"
        f"export const SHADES = {json.dumps(pairs)};\n"
        f"export const CROSSED = {json.dumps(palette.ORANGE)};  // for NaN\n"
    )


def imports_of(name: str) -> list[str]:
    """Return the modules that a module imports, in its order."""
    return [target for _, target in IMPORT.findall(source_of(name))]


def modules_of(name: str) -> tuple[str, ...]:
    """Return a module of an explorer and all that a page needs for it, each after its imports."""
    order: list[str] = []

    def add(module: str) -> None:
        for needed in imports_of(module):
            add(needed)
        if module not in order:
            order.append(module)

    for module in (START, name):
        add(module)
    return tuple(order)


@lru_cache
def key_of(name: str) -> str:
    """Return the name under which a joined module is kept: other text, other name."""
    text = source_of(name) + "".join(key_of(needed) for needed in imports_of(name))
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def joined(name: str) -> str:
    """Return a module as one function without imports and exports, in a form any script may hold.

    Raises
    ------
    ValueError
        If the module imports or exports in a form that is not understood here.
    """
    text = IMPORT.sub(_destructuring, source_of(name))
    exported = EXPORT.findall(text)
    text = EXPORT.sub("", text)
    if wrong := LEFT_OVER.search(text):
        raise ValueError(
            f'{name}.mjs must write import {{a, b}} from "./x.mjs"; and export const, function '
            f"or class, got {wrong.group()!r}."
        )
    body = f"{text}\nreturn {{ {', '.join(exported)} }};"
    needed = json.dumps([key_of(needed_name) for needed_name in imports_of(name)])
    part = f'attnlabParts["{key_of(name)}"] ??= [{needed}, () => {{\n{body}\n}}];'
    return part.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _destructuring(match: re.Match) -> str:
    names = " ".join(match.group(1).split())
    return f'const {{ {names} }} = attnlabModules["{key_of(match.group(2))}"];\n'


def library(modules: tuple[str, ...]) -> str:
    """Return the script that defines modules, those already defined left alone.

    A module whose imports are missing, because the output that carries them was deleted or has not
    come yet, waits until another script of the page brings them.
    """
    start = f"{DEFINES}\nglobalThis.attnlabParts ??= {{}};"
    return "\n".join([start, *(joined(name) for name in modules), MAKE])


def without_library(page: str) -> str:
    """Return a stored page without the modules that only the first explorers of a kernel carry."""
    first, *others = page.split(DEFINES)
    return first + "".join(WAKES + part.partition(WAKES)[2] for part in others)


def widget_script(name: str) -> str:
    """Return the script of a live widget: the library and what anywidget asks for."""
    start, module = (f'attnlabModules["{key_of(part)}"]' for part in ("base", name))
    render = f"keepState(model);\n  return {start}.mount({module}, model, el);"
    export = f"export default {{ render: ({{ model, el }}) => {{\n  {render}\n}} }};\n"
    return "\n".join([library(modules_of(name)), wake(), browser.read(browser.SHARED), export])


def wake() -> str:
    """Return the script that starts the explorers of the page whose modules have come."""
    return f'{WAKES}["{key_of(START)}"]?.wake(attnlabModules);'


def not_yet_stored(name: str) -> tuple[str, ...]:
    """Return the modules that no output of this kernel carries yet, and note them as stored."""
    missing = tuple(module for module in modules_of(name) if key_of(module) not in _stored)
    _stored.update(key_of(module) for module in missing)
    return missing


# --- pages ----------------------------------------------------------------------------------------


def static_html(
    name: str,
    payload: dict[str, object],
    png: bytes,
    width: int,
    sentence: str,
    modules: tuple[str, ...],
) -> str:
    """Return an explorer for a page: picture and sentence, state, and scripts that move it.

    The state lies in one block of JSON, so that numbers can be compared with tolerance.
    """
    script = f"{library(modules)}\n{wake()}" if modules else wake()
    return (
        f'<div class="attnlab-explorer" data-explorer="{key_of(name)}">'
        f"{picture_html(png, alt=sentence, width=width)}"
        f'<p style="font-size:16px;max-width:{width}px">{html.escape(sentence)}</p>'
        '<p style="font-size:14px"><i>Run this cell, or trust the notebook, to make this figure '
        "interactive.</i></p>"
        f'<script type="application/json">{to_json(payload)}</script></div>'
        f"<script>{{\n{script}\n}}</script>"
    )


def whole_page(title: str, piece: str) -> str:
    """Return a page of its own that holds one explorer."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        "<style>body { margin: 12px; font-family: sans-serif; } @media screen and "
        "(prefers-color-scheme: dark) { body { background: #16181c; color: #fff; } }</style>"
        f"<title>{html.escape(title)}</title><main>{piece}</main></html>\n"
    )


def to_json(payload: object) -> str:
    """Return JSON that can stand inside a script element, the same for the same payload."""
    text = json.dumps(payload, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e")


def sendable(value: object) -> object:
    """Return a value for JSON: tensors as lists, numbers with six significant digits.

    What is not finite becomes a word, "NaN" or "Infinity".
    """
    if isinstance(value, Tensor):
        value = value.detach().to("cpu", torch.float64).tolist()
    if isinstance(value, Mapping):
        return {str(name): sendable(part) for name, part in value.items()}
    if isinstance(value, tuple | list | range):
        return [sendable(part) for part in value]
    if not isinstance(value, float):
        return value
    if math.isfinite(value):
        return float(f"{value:.6g}")
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def encode_frames(frames: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Return frames for the browser; each part that several of them share is stored once.

    A frame becomes a list of places in ``pool``, one for each name in ``parts``.
    """
    places: dict[str, int] = {}
    pool, rows, parts = [], [], None
    for frame in frames:
        parts = parts or list(frame)
        row = []
        for name in parts:
            value = sendable(frame[name])
            place = places.setdefault(to_json(value), len(pool))
            if place == len(pool):
                pool.append(value)
            row.append(place)
        rows.append(row)
    return {"parts": parts, "pool": pool, "frames": rows}


def numbers(values: Tensor, digits: int = 4) -> list:
    """Return a tensor as nested lists for JSON: rounded, what is not finite as a word."""
    return _rounded(values.detach().to("cpu", torch.float64).tolist(), digits)


def _rounded(value: list | float, digits: int) -> list | float | str:
    if isinstance(value, list):
        return [_rounded(part, digits) for part in value]
    return round(value, digits) if math.isfinite(value) else sendable(value)
