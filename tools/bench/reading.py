"""Times of what a reader waits for: the import, a lesson, a step of a slider."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

from attnlab.explorers import ScalingExplorer
from tools import _browser
from tools.bench import Plan, Row
from tools.bench.classroom import NEW, Learner
from tools.build_notebooks import build
from tools.core_seconds import core_seconds
from tools.notebooks import find_sources

FRAME = 1 / 60  # seconds for which a screen shows a picture
LESSON_LIMIT = 30.0  # seconds that a lesson may take

TIME_STEPS = """card => {
    const slider = card.querySelector('input[type=range]');
    return [...Array(16).keys()].map(step => {
        const start = performance.now();
        slider.value = step % (Number(slider.max) + 1);
        slider.dispatchEvent(new Event('input'));
        card.getBoundingClientRect();  // lays out what the handler changed
        return (performance.now() - start) / 1000;
    });
}"""


def times(plan: Plan) -> Iterator[Row]:
    """Yield the import against torch's, lessons against their limit, steps against a frame."""
    lines = ("import attnlab", "import torch")
    pairs = [[processor_time(line) for line in lines] for _ in range(plan.imports)]
    yield Row(lines[0], *zip(*pairs, strict=True), lines[1])
    for source in find_sources()[: plan.lessons]:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            build(source, Path(folder))
        yield Row(
            f"lesson {source.stem[:2]}", [time.perf_counter() - start], [LESSON_LIMIT], "limit"
        )
    yield Row("live, a step of its slider to a new picture", live_steps(), [FRAME], "a frame")
    if _browser.find_browser() is None:
        print(f"The steps of an explorer are left out. {_browser.NO_BROWSER}")
        return
    yield Row("explorer, a step of its slider", explorer_steps(), [FRAME], "a frame")


def processor_time(code: str) -> float:
    """Return the processor time of a line of Python in a fresh process."""
    start = core_seconds()
    subprocess.run([sys.executable, "-c", code], check=True)
    return core_seconds() - start


def live_steps() -> list[float]:
    """Return the seconds of the steps of a slider for which a kernel draws a new picture."""
    learner = Learner()
    try:
        return learner.steps(pause=0)[: len(NEW)]
    finally:
        learner.leave()


def explorer_steps() -> list[float]:
    """Return the seconds of steps of a slider in a page without a kernel, until it is laid out."""
    with sync_playwright() as playwright, _browser.launch(playwright) as browser:
        page = browser.new_page(viewport={"width": 1366, "height": 900})
        page.set_content(ScalingExplorer(ask=False).to_html())
        card = page.locator(".attnlab-explorer .card").first.element_handle()
        return page.evaluate(TIME_STEPS, card)
