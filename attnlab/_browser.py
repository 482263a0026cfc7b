"""Scripts and style sheets of the widgets, from ``js/``."""

from pathlib import Path

from attnlab import palette

FOLDER = Path(__file__).with_name("js")


def read(name: str) -> str:
    """Return a file of ``js/``; "shared.mjs" is what the scripts of all widgets begin with."""
    return (FOLDER / name).read_text(encoding="utf-8")


def script(*names: str) -> str:
    """Return the script of a widget, joined of these."""
    return "\n".join(read(f"{name}.mjs") for name in ("shared", *names))


def style_sheet(name: str, selector: str) -> str:
    """Return the style sheet of a widget, with the colours of the palette for light and dark."""
    dark = f"[data-jp-theme-light=false] {selector} {{ {palette.css(dark=True)} }}"
    return f"{selector} {{ {palette.css()} }}\n{dark}\n{read(f'{name}.css')}"
