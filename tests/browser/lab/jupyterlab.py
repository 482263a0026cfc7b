"""JupyterLab in a real browser: serve a folder of notebooks, open one, run it and look at it."""

import contextlib
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser

from tests.browser.pages import Tab
from tools.lab.browser import LIMIT
from tools.lab.server import (
    HOST,
    SETTINGS,
    any_free_port,
    server_command,
    server_environment,
    write_settings,
)

# Every cell is in the page, even if it is out of sight, and nothing is saved automatically.
TEST_SETTINGS = {
    **SETTINGS,
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}
TOKEN = "attnlab"
SIZE = {"width": 1366, "height": 768}

# What is waited for inside of a page has no limit of its own.
IN_TIME = f"""argument => Promise.race([({{}})(argument), new Promise((_, fail) =>
    setTimeout(fail, {1000 * LIMIT}, new Error('JupyterLab has not answered in time')))])"""
OPEN = "async path => { await window.jupyterapp.commands.execute('docmanager:open', {path}); }"
IS_READY = """path => {
    const panel = window.jupyterapp?.shell.currentWidget;
    const kernel = panel?.sessionContext?.session?.kernel;
    return !!(panel?.context?.path === path && panel.content.model?.cells?.length
              && panel.context.isReady && kernel?.status === 'idle');
}"""
HIDE_SIDEBARS = """() => {
    window.jupyterapp.shell.collapseLeft();
    window.jupyterapp.shell.collapseRight();
}"""
RUN = """async indices => {
    const {commands, shell} = window.jupyterapp, {content} = shell.currentWidget;
    if (!indices) {
        await commands.execute('notebook:clear-all-cell-outputs');
        return commands.execute('notebook:run-all-cells');
    }
    content.deselectAll();
    content.activeCellIndex = indices[0];
    indices.forEach(index => content.select(content.widgets[index]));
    return commands.execute('notebook:run-cell');
}"""
ASK = """async code => {
    const {kernel} = window.jupyterapp.shell.currentWidget.sessionContext.session;
    const future = kernel.requestExecute({code});
    let text = '';
    future.onIOPub = message => { text += message.content.text ?? message.content.evalue ?? ''; };
    await future.done;
    return text.trim();
}"""
ERRORS = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .filter(cell => cell.type === 'code')
    .filter(cell => !(cell.getMetadata('tags') ?? []).includes('raises-exception'))
    .flatMap(cell => cell.outputs.toJSON())
    .filter(output => output.output_type === 'error')
    .map(output => `${output.ename}: ${output.evalue}`)"""
RESTART = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
SAVE = "() => window.jupyterapp.commands.execute('docmanager:save')"
SHUT_DOWN = """async () => {
    const panel = window.jupyterapp.shell.currentWidget;
    await panel.sessionContext.shutdown();
    panel.dispose();  // unlike closing, asks no question about unsaved changes
}"""


class Server(NamedTuple):
    """A JupyterLab that is running: its address and the folder it serves."""

    url: str
    root: Path


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


class NotebookPage(Tab):
    """One notebook at a time in one page of the browser."""

    def __init__(self, browser: Browser, server: Server) -> None:
        super().__init__(browser, (server.url, server.url.replace("http", "ws", 1)), viewport=SIZE)
        self.server, self.is_open = server, False

    def note(self, message) -> None:
        """Note an error; JupyterLab says much else."""
        if message.type == "error":
            self.problems.append(f"{message.text} ({message.location.get('url', '')})")

    def do(self, script: str, argument: object = None) -> object:
        """Return what a function gives in the page, once it has done it."""
        return self.page.evaluate(IN_TIME.replace("{}", script), argument)

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
            self.do(OPEN, path)
        self.is_open = True
        self.page.wait_for_function(IS_READY, arg=path, polling=100)
        self.do(HIDE_SIDEBARS)

    def put_away(self) -> None:
        """End the notebook's kernel and close its tab."""
        self.do(SHUT_DOWN)
        self.is_open = False

    def run(self, indices: Sequence[int] | None = None) -> None:
        """Run some code cells, counted from 0 over all kinds of cells, and wait for them.

        Without ``indices``, delete the stored outputs and run every cell, or as far as an error.
        """
        self.do(RUN, indices)

    def save(self) -> None:
        """Save the notebook."""
        self.do(SAVE)

    def restart(self) -> None:
        """Restart the kernel of the notebook."""
        self.do(RESTART)

    def ask(self, code: str) -> str:
        """Run code in the kernel but not in a cell; return what it printed, or its error."""
        return self.do(ASK, code)

    def errors(self) -> list[str]:
        """Return the errors in the outputs, except of cells that are tagged to raise one."""
        return self.do(ERRORS)
