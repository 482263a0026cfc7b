"""Times of what a reader waits for: the import, a lesson, a step of a slider."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
from playwright.sync_api import Browser, sync_playwright

from tools import _browser
from tools.bench import Plan, Row, measured
from tools.build_notebooks import build
from tools.core_seconds import core_seconds
from tools.notebooks import KERNELSPEC, find_sources

FRAME = 1 / 60  # seconds for which a screen shows a picture
LESSON_LIMIT = 30.0  # seconds that a lesson may take

STEPS = 16
TIME_STEPS = """async ([card, steps]) => {
    const handled = [], painted = [];
    const paint = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    const slider = card.querySelector('input[type=range]');
    for (let step = 0; step < steps; step += 1) {
        const start = performance.now();
        slider.value = step % (Number(slider.max) + 1);
        slider.dispatchEvent(new Event('input'));
        card.getBoundingClientRect();  // lays out what the handler changed
        handled.push(performance.now() - start);
        await paint();
        painted.push(performance.now() - start);
    }
    return [handled, painted];
}"""
NEXT_PICTURE = """img => {
    window.loaded = 0;
    img.addEventListener('load', () => { window.loaded = performance.now(); });
    document.addEventListener('keydown', () => {
        window.pressed = performance.now();
        window.loaded = 0;
    }, true);
}"""
LIVE = """
import torch
from attnlab.live import live
from attnlab.plotting import plot_attention
torch.manual_seed(0)
query, key = torch.randn(2, 8, 64)

def draw(fig, d_k):
    weights = (query[:, :d_k] @ key[:, :d_k].T).softmax(dim=-1)
    plot_attention(weights, ax=fig.subplots())

live(draw, d_k=[1, 2, 4, 8, 16, 32, 64])
"""


def times(plan: Plan) -> Iterator[Row]:
    """Yield the import against torch's, lessons against their limit, steps against a frame."""
    lines = ("import attnlab", "import torch")
    pairs = [[processor_time(line) for line in lines] for _ in range(plan.imports)]
    ours, theirs = (measured(column) for column in zip(*pairs, strict=True))
    yield Row(lines[0], None, ours, theirs, lines[1])
    for source in find_sources()[: plan.lessons]:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            build(source, Path(folder))
        ours = measured([time.perf_counter() - start])
        yield Row(f"lesson {source.stem[:2]}", None, ours, measured([LESSON_LIMIT]), "limit")
    if _browser.find_browser() is None:
        print(f"The steps of sliders are left out. {_browser.NO_BROWSER}")
        return
    with sync_playwright() as playwright, _browser.launch(playwright) as browser:
        steps = explorer_steps(browser)
        if plan.live:
            steps["live, key to picture"] = live_steps(browser)
    for what, milliseconds in steps.items():
        ours = measured([step / 1000 for step in milliseconds])
        yield Row(what, None, ours, measured([FRAME]), "a frame")


def processor_time(code: str) -> float:
    """Return the processor time of a line of Python in a fresh process."""
    start = core_seconds()
    subprocess.run([sys.executable, "-c", code], check=True)
    return core_seconds() - start


def explorer_steps(browser: Browser) -> dict[str, list[float]]:
    """Return the milliseconds of steps of sliders in a page without a kernel."""
    from attnlab.explorers import ScalingExplorer, TemperatureExplorer

    found = {}
    page = browser.new_page(viewport={"width": 1366, "height": 900})
    for kind in (ScalingExplorer, TemperatureExplorer):
        page.set_content(kind(ask=False).to_html())
        card = page.locator(".attnlab-explorer .card").first.element_handle()
        handled, painted = page.evaluate(TIME_STEPS, [card, STEPS])
        name = kind.__name__.removesuffix("Explorer").lower()
        found |= {f"explorer {name}, step to layout": handled}
        found |= {f"explorer {name}, step to paint": painted}
    return found


def live_steps(browser: Browser) -> list[float]:
    """Return the milliseconds from a key on a slider of ``live`` to the picture in JupyterLab."""
    with tempfile.TemporaryDirectory() as folder:
        root, home = Path(folder) / "root", Path(folder) / "home"
        root.mkdir()
        home.mkdir()
        cells = [nbformat.v4.new_code_cell(LIVE.strip())]
        notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC})
        nbformat.write(notebook, root / "live.ipynb")
        with _browser.serve(root, home) as server:
            look = _browser.NotebookPage(browser, server)
            look.open("live.ipynb")
            look.run()
            box = look.page.locator(".attnlab-live").first
            box.locator("img").evaluate(NEXT_PICTURE)
            found = []
            for key in ["ArrowRight"] * 6 + ["ArrowLeft"] * 6:
                box.locator("input[type=range]").first.press(key)
                look.page.wait_for_function("() => window.loaded", timeout=30_000, polling=10)
                found.append(look.page.evaluate("() => window.loaded - window.pressed"))
            look.close()
    return found
