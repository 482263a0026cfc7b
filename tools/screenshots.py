"""Look at a notebook as a learner sees it: JupyterLab in a browser, one picture per screen.

    python -m tools.screenshots notebooks/00_start_here.ipynb shots
    python -m tools.screenshots notebooks/00_start_here.ipynb shots --width 1024 --stored

Works on a copy. Needs a Chromium: $CHROMIUM, or one of the usual names on the path.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tools._browser import NO_BROWSER, NotebookPage, find_browser, launch, serve

ROOT = Path(__file__).resolve().parent.parent
OVERLAP = 60  # pixels that two pictures share, so that no line is cut in both

_UNFOLD = """() => {
    for (const cell of window.jupyterapp.shell.currentWidget.content.widgets) {
        if (cell.model.type !== 'code') continue;
        cell.outputHidden = false;
        cell.inputHidden = false;
    }
}"""
_SCROLL = """top => {
    const box = document.querySelector('.jp-WindowedPanel-outer');
    box.scrollTop = top;
    const last = [...box.querySelectorAll('.jp-Cell')].at(-1).getBoundingClientRect();
    const end = last.bottom - box.getBoundingClientRect().top + box.scrollTop;
    return {top: box.scrollTop, screen: box.clientHeight, end: end};
}"""


def copy_for_looking(notebook: Path, root: Path) -> str:
    """Copy a notebook and the figures it may refer to; return its path below ``root``."""
    folder = root / "notebooks"
    folder.mkdir(parents=True)
    shutil.copy(notebook, folder)
    if (ROOT / "figures").is_dir():
        shutil.copytree(ROOT / "figures", root / "figures")
    return f"notebooks/{notebook.name}"


def take(look: NotebookPage, out: Path) -> list[Path]:
    """Scroll through the open notebook and save a picture of every screen."""
    out.mkdir(parents=True, exist_ok=True)
    shots, top = [], 0
    while True:
        at = look.page.evaluate(_SCROLL, top)
        look.page.wait_for_timeout(250)  # fonts, formulas and pictures settle
        shots.append(out / f"{len(shots) + 1:02}.png")
        look.page.screenshot(path=str(shots[-1]))
        if at["top"] + at["screen"] >= at["end"]:
            return shots
        top = at["top"] + at["screen"] - OVERLAP


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, default=1366)
    parser.add_argument("--height", type=int, default=768)
    parser.add_argument("--sidebars", action="store_true", help="keep the file list in sight")
    parser.add_argument("--stored", action="store_true", help="run nothing")
    parser.add_argument("--unfold", action="store_true", help="open folded answers and solutions")
    return parser.parse_args()


def main() -> None:
    """Save the pictures and say what went wrong on the way."""
    wanted = arguments()
    if find_browser() is None:
        sys.exit(NO_BROWSER)
    with tempfile.TemporaryDirectory(prefix="attnlab-") as folder, sync_playwright() as playwright:
        root, home = Path(folder, "root"), Path(folder, "home")
        path = copy_for_looking(wanted.notebook, root)
        with serve(root, home) as server, launch(playwright) as browser:
            look = NotebookPage(browser, server, (wanted.width, wanted.height))
            look.open(path, sidebars=wanted.sidebars)
            if not wanted.stored:
                look.run_all()
            if wanted.unfold:
                look.page.evaluate(_UNFOLD)
            shots = take(look, wanted.out)
            print(f"{len(shots)} pictures in {wanted.out}")
            for kind, found in {
                "error outputs": look.errors(),
                "page errors": look.problems,
                "requests outside": look.outside,
            }.items():
                print(f"{kind}: {found or 'none'}")


if __name__ == "__main__":
    main()
