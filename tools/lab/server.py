"""How `make lab`, `make bench` and the browser tests start JupyterLab."""

import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.lab.isolated import environment

CONFIG = Path(__file__).with_name("settings.py")
KERNEL_START = Path(__file__).with_name("kernel_start.py")
HOST = "127.0.0.1"

# JupyterLab asks no question about news and does not look for newer versions of itself. Its list of
# files shows their names, which are long, and not when they changed.
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
    "@jupyterlab/filebrowser-extension:browser": {"showLastModifiedColumn": False},
}
# Lessons are notebooks, and no script is opened as one. The server's half of this extension is
# switched off in settings.py. JupyterLab need not ask at each start whether its own
# parts must be built again, which takes half a second.
PAGE = {"disabledExtensions": {"jupyterlab-jupytext": True}, "buildCheck": False}


def server_environment(home: Path, token: str) -> dict[str, str]:
    """Return this process's variables and those of a server whose settings lie below ``home``.

    The token, which a browser must present, is one of them because other users of the machine can
    read a command line. Its kernels run ``PYTHONSTARTUP`` first.
    """
    own = {"JUPYTER_TOKEN": token, "PYTHONSTARTUP": str(KERNEL_START)}
    return {**os.environ, **environment(home), **own}


def write_settings(home: Path, settings: Mapping[str, object] = SETTINGS) -> None:
    """Write JupyterLab's default settings to the place where a server with this ``home`` looks."""
    files = {
        "labconfig/default_setting_overrides.json": json.dumps(settings),
        "labconfig/page_config.json": json.dumps(PAGE),
    }
    for name, text in files.items():
        path = home / "config" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def server_command(root: Path, port: int) -> list[str]:
    """Return the command that serves the folder ``root`` on ``port`` of this machine."""
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--config={CONFIG}",
        f"--ServerApp.root_dir={root}",
        f"--ServerApp.ip={HOST}",
        f"--ServerApp.port={port}",
    ]
    if os.geteuid() == 0:  # in a container; JupyterLab refuses to run as root unless it is told to
        command.append("--allow-root")
    return command


def is_free(port: int) -> bool:
    """Return whether a server can listen on ``port`` of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def any_free_port() -> int:
    """Return a port of this machine that is not in use."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]
