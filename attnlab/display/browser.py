"""Scripts and style sheets of the widgets; each lies beside the module of its widget."""

import re
from pathlib import Path

from attnlab import palette

FOLDER = Path(__file__).parent
SHARED = FOLDER / "shared.mjs"  # what the scripts of all widgets begin with


def read(path: Path) -> str:
    """Return a script or a style sheet."""
    return path.read_text(encoding="utf-8")


def script(path: Path) -> str:
    """Return the script of a widget, after what it shares with others."""
    return f"{read(SHARED)}\n{read(path)}"


def pointing_script() -> str:
    """Return a script of ``linkNumbers`` and ``followNotebook``, which link texts and figures."""
    modules = "\n".join(read(FOLDER / f"{name}.mjs") for name in ("pointing", "numbers"))
    body = re.sub(r"^import .*\n|^export ", "", modules, flags=re.MULTILINE)
    names = "{ linkNumbers, followNotebook }"
    return f"const {names} = (() => {{\n{body}\nreturn {names};\n}})();"


def style_sheet(path: Path, selector: str) -> str:
    """Return the style sheet of a widget, with the colours of the palette for light and dark."""
    dark = f"[data-jp-theme-light=false] {selector} {{ {palette.css(dark=True)} }}"
    return f"{selector} {{ {palette.css()} }}\n{dark}\n{read(path)}"
