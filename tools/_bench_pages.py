"""Times of what a reader waits for: the import, a lesson, a step of a slider."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient.exceptions import CellExecutionError

from tools import _browser
from tools._bench_measure import Result, as_time, in_turns, result
from tools.build_notebooks import build, explain
from tools.notebooks import find_sources

FRAME = 1 / 60  # seconds: what a screen shows a picture for
LESSON_LIMIT = 30  # seconds that a lesson may take

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


def import_time(rounds: int) -> Iterator[Result]:
    """Yield the import of the package against that of torch, each in a fresh process."""
    pairs = in_turns(
        lambda: run_python("import attnlab"),
        lambda: run_python("import torch"),
        rounds,
        processor_time_of_children,
    )
    yield result("import attnlab", "", pairs, as_time, "import torch")


def run_python(code: str) -> None:
    """Run a line of Python in a process of its own."""
    subprocess.run([sys.executable, "-c", code], check=True)


def processor_time_of_children(function) -> float:
    """Return the processor time of the processes that a function starts and waits for."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    start = used()
    function()
    return used() - start


def lessons(count: int | None) -> Iterator[Result]:
    """Yield the run time of the lessons, outputs stored, against the limit for one."""
    for source in find_sources()[:count]:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            try:
                build(source, Path(folder))
            except CellExecutionError as error:
                raise SystemExit(explain(error, source.name)) from None
            pairs = [(time.perf_counter() - start, float(LESSON_LIMIT))]
        yield result("a lesson, run whole", source.stem[:2], pairs, as_time, "limit")


def explorer_steps() -> Iterator[Result]:
    """Yield a step of a slider in a page without a kernel, against a frame of the screen."""
    from attnlab.explorers import ScalingExplorer, TemperatureExplorer

    for kind in (ScalingExplorer, TemperatureExplorer):
        with tempfile.TemporaryDirectory() as folder, browser() as chromium:
            path = Path(folder) / "page.html"
            head = "<!doctype html><html lang='en'><meta charset='utf-8'><title>Explorer</title>"
            path.write_text(head + kind(ask=False).to_html(), encoding="utf-8")
            page = chromium.new_page(viewport={"width": 1366, "height": 900})
            page.goto(path.as_uri())
            card = page.locator(".attnlab-explorer .card").first.element_handle()
            handled, painted = page.evaluate(TIME_STEPS, [card, STEPS])
        name = kind.__name__.removesuffix("Explorer").lower()
        yield against_a_frame(f"explorer {name}, step to layout", handled)
        yield against_a_frame(f"explorer {name}, step to paint", painted)


def live_step() -> Iterator[Result]:
    """Yield a step of a slider of ``live`` in JupyterLab, key to picture, against a frame."""
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        root, home = Path(folder) / "root", Path(folder) / "home"
        root.mkdir()
        home.mkdir()
        cells = [nbformat.v4.new_code_cell(LIVE.strip())]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        notebook = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
        nbformat.write(notebook, root / "live.ipynb")
        with _browser.serve(root, home) as server:
            look = _browser.NotebookPage(chromium, server)
            look.open("live.ipynb")
            look.run_all()
            milliseconds = key_to_picture(look.page)
            look.close()
    yield against_a_frame("live, key to picture", milliseconds)


def key_to_picture(page) -> list[float]:
    """Return the milliseconds from each key on the slider to the new picture."""
    box = page.locator(".attnlab-live").first
    handle = box.locator(".noUi-handle").first
    box.locator("img.widget-image").evaluate(NEXT_PICTURE)
    milliseconds = []
    for key in ["ArrowRight"] * 6 + ["ArrowLeft"] * 6:
        handle.press(key)
        page.wait_for_function("() => window.loaded", timeout=30_000, polling=10)
        milliseconds.append(page.evaluate("() => window.loaded - window.pressed"))
    return milliseconds


@contextlib.contextmanager
def browser():
    """Open a headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, _browser.launch(playwright) as chromium:
        yield chromium


def against_a_frame(what: str, milliseconds: list[float]) -> Result:
    """Return the line for the times of some steps."""
    pairs = [(step / 1000, FRAME) for step in milliseconds]
    return result(what, "", pairs, as_time, "a frame")


def machine() -> str:
    """Return in a few lines what the numbers were measured on."""
    import torch

    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    lines = [
        f"processor: {processor()}, {os.cpu_count()} cores, load {load}",
        f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, "
        f"{torch.get_num_threads()} thread; Python {sys.version.split()[0]}",
        time.strftime("measured %Y-%m-%d %H:%M"),
    ]
    return "\n".join(lines)


def processor() -> str:
    """Return the name of the processor."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line for line in lines if line.startswith("model name"))
        return name.partition(":")[2].strip()
    import platform

    return platform.processor() or platform.machine()
