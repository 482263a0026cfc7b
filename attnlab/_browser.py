"""Scripts and style sheets of the widgets, from ``js/``."""

from pathlib import Path

from attnlab import palette

SCRIPTS = Path(__file__).with_name("js")


def script(name: str) -> str:
    """Return the script of a widget, a module of ``js/``, after what all widgets share."""
    files = [SCRIPTS / f"{one}.mjs" for one in ("shared", name)]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def style_sheet(name: str, selector: str) -> str:
    """Return the style sheet of a widget, with the colours of the palette for light and dark."""
    text = (SCRIPTS / f"{name}.css").read_text(encoding="utf-8")
    dark = f"[data-jp-theme-light=false] {selector} {{ {palette.css(dark=True)} }}"
    return f"{selector} {{ {palette.css()} }}\n{dark}\n{text}"
