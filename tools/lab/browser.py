"""JupyterLab in a real browser: serve a folder of notebooks, open one, run it and look at it.

Every wait has a limit. Nothing waits inside the page, because ``evaluate`` has no limit: commands
are only started there, and the page is asked again and again until it has an answer.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, Playwright

from tools.lab.server import (
    HOST,
    SETTINGS,
    any_free_port,
    server_command,
    server_environment,
    write_settings,
)

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
NO_BROWSER = "No Chromium was found: install chromium, or set CHROMIUM to its path."
# Every cell is in the page, even if it is out of sight, and nothing is saved automatically.
TEST_SETTINGS = {
    **SETTINGS,
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}
TOKEN = "attnlab"
LIMIT = 180  # seconds: a last resort, far above what a busy computer needs

IS_READY = """path => {
    const panel = window.jupyterapp?.shell.currentWidget;
    const kernel = panel?.sessionContext?.session?.kernel;
    return !!(panel?.context?.path === path && panel.content.model?.cells?.length
              && panel.context.isReady && kernel?.status === 'idle');
}"""
_RUN = """indices => {
    const app = window.jupyterapp, {content} = app.shell.currentWidget;
    if (!indices) app.commands.execute('notebook:clear-all-cell-outputs');
    content.deselectAll();
    content.activeCellIndex = indices?.[0] ?? 0;
    content.widgets.forEach((widget, i) => {
        if (indices && !indices.includes(i)) return;
        content.select(widget);
        if (widget.model.type === 'code') widget.model.executionCount = null;
    });
    app.commands.execute(indices ? 'notebook:run-cell' : 'notebook:run-all-cells');
}"""
_ERRORS = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .filter(cell => cell.type === 'code')
    .filter(cell => !(cell.getMetadata('tags') ?? []).includes('raises-exception'))
    .flatMap(cell => cell.outputs.toJSON())
    .filter(output => output.output_type === 'error')
    .map(output => `${output.ename}: ${output.evalue}`)"""
_HAS_RUN = f"""indices => {{
    const panel = window.jupyterapp.shell.currentWidget;
    const all = [...panel.content.model.cells];
    const cells = (indices ? indices.map(index => all[index]) : all)
        .filter(cell => cell.type === 'code');
    const ran = cell => cell.executionCount !== null || !cell.sharedModel.source.trim();
    return panel.sessionContext.session.kernel.status === 'idle'
        && (cells.every(ran) || ({_ERRORS})().length > 0);
}}"""
_ASK_KERNEL = """code => {
    window.answer = null;
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    let text = '';
    const future = kernel.requestExecute({code});
    future.onIOPub = message => { text += message.content.text ?? message.content.evalue ?? ''; };
    future.done.then(() => { window.answer = text.trim(); });
}"""
_OPEN = "path => { window.jupyterapp.commands.execute('docmanager:open', {path}); }"
_RESTART = """async () => {
    await window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart();
}"""
_SAVE = "async () => { await window.jupyterapp.commands.execute('docmanager:save'); }"
_SHUT_DOWN = """async () => {
    const panel = window.jupyterapp.shell.currentWidget;
    await panel.sessionContext.shutdown();
    panel.dispose();  // unlike closing, asks no question about unsaved changes
}"""
_HIDE_SIDEBARS = """() => {
    window.jupyterapp.shell.collapseLeft();
    window.jupyterapp.shell.collapseRight();
}"""


class Server(NamedTuple):
    """A JupyterLab that is running: its address and the folder it serves."""

    url: str
    root: Path


def find_browser() -> str | None:
    """Return the path of a Chromium: ``$CHROMIUM``, else the first of the usual names."""
    names = (os.environ.get("CHROMIUM", ""), *NAMES)
    return next((path for name in names if name and (path := shutil.which(name))), None)


def launch(playwright: Playwright) -> Browser:
    """Return a new headless browser; without a Chromium, the one that playwright may have."""
    options = {"executable_path": find_browser(), "timeout": 1000 * LIMIT}
    return playwright.chromium.launch(args=["--disable-gpu"], **options)


@contextlib.contextmanager
def serve(root: Path, home: Path, *, plain: bool = False) -> Iterator[Server]:
    """Serve the folder ``root`` with JupyterLab, with its settings below ``home``, for a while.

    ``plain`` leaves out the configuration of ``make lab``, as if Jupyter had been started by hand.
    RuntimeError says what the server printed if it ends or does not answer in time.
    """
    write_settings(home, TEST_SETTINGS)
    log, port = home / "server.log", any_free_port()
    options = ["--no-browser", "--expose-app-in-browser"]
    command = [word for word in server_command(root, port) if not (plain and "--config=" in word)]
    with log.open("w") as stream:
        process = subprocess.Popen(
            [*command, *options],
            env=server_environment(home, TOKEN),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url, limit = f"http://{HOST}:{port}", time.monotonic() + LIMIT
        while not _answers(url):
            if process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"JupyterLab did not start; it printed:\n{log.read_text()}")
            time.sleep(0.1)
        yield Server(url, root)
    finally:
        _end(process)


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/api", timeout=60):
        return True
    return False


def _end(process: subprocess.Popen) -> None:
    """Ask a server and its kernels to end; kill them if they do not."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(15)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(15)


class NotebookPage:
    """One notebook at a time in one page of the browser."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self.server = server
        self.problems: list[str] = []  # errors that the page wrote to its console or did not catch
        self.outside: list[str] = []  # the addresses beyond this server that it requested
        self.is_open = False
        self.page: Page = browser.new_page(viewport={"width": 1366, "height": 768})
        self.page.set_default_timeout(1000 * LIMIT)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._on_console)
        self.page.on("request", self._on_request)

    def _on_console(self, message) -> None:
        if message.type == "error":
            self.problems.append(f"{message.text} ({message.location.get('url', '')})")

    def _on_request(self, request) -> None:
        local = (self.server.url, self.server.url.replace("http", "ws", 1), "data:", "blob:")
        if not request.url.startswith(local):
            self.outside.append(request.url)

    def open(self, path: str) -> None:
        """Open the notebook ``path`` (from the server's folder) and wait for its kernel.

        A notebook that is open is put away first, without saving it.
        """
        if self.is_open:
            self.put_away()
        self.problems.clear()
        self.outside.clear()
        if self.page.url == "about:blank":
            self.page.goto(f"{self.server.url}/lab/tree/{path}?token={TOKEN}&reset")
        else:
            self.page.evaluate(_OPEN, path)
        self.is_open = True
        self.page.wait_for_function(IS_READY, arg=path, polling=100)
        self.page.evaluate(_HIDE_SIDEBARS)

    def put_away(self) -> None:
        """End the notebook's kernel and close its tab."""
        self.page.evaluate(_SHUT_DOWN)
        self.is_open = False

    def close(self) -> None:
        """Close the notebook and the page; a second call does nothing."""
        if self.page.is_closed():
            return
        if self.is_open:
            self.put_away()
        self.page.close()

    def run(self, indices: Sequence[int] | None = None) -> None:
        """Run some code cells, counted from 0 over all kinds of cells, and wait for them.

        Without ``indices``, delete the stored outputs and run every cell, or as far as an error.
        """
        self.page.evaluate(_RUN, indices)
        self.page.wait_for_function(_HAS_RUN, arg=indices, polling=100)

    def save(self) -> None:
        """Save the notebook."""
        self.page.evaluate(_SAVE)

    def restart(self) -> None:
        """Restart the kernel of the notebook."""
        self.page.evaluate(_RESTART)

    def ask(self, code: str) -> str:
        """Run code in the kernel but not in a cell; return what it printed, or its error."""
        self.page.evaluate(_ASK_KERNEL, code)
        self.page.wait_for_function("() => window.answer !== null", polling=20)
        return self.page.evaluate("window.answer")

    def errors(self) -> list[str]:
        """Return the errors in the outputs, except of cells that are tagged to raise one."""
        return self.page.evaluate(_ERRORS)
