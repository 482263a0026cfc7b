"""Scripts and style sheets of the widgets; each lies beside the module of its widget."""

from pathlib import Path

from attnlab import palette

SHARED = Path(__file__).with_name("shared.mjs")  # what the scripts of all widgets begin with


def read(path: Path) -> str:
    """Return a script or a style sheet."""
    return path.read_text(encoding="utf-8")


def script(path: Path) -> str:
    """Return the script of a widget, after what it shares with others."""
    return f"{read(SHARED)}\n{read(path)}"


def style_sheet(path: Path, selector: str) -> str:
    """Return the style sheet of a widget, with the colours of the palette for light and dark."""
    dark = f"[data-jp-theme-light=false] {selector} {{ {palette.css(dark=True)} }}"
    return f"{selector} {{ {palette.css()} }}\n{dark}\n{read(path)}"
