"""How JupyterLab is started here: by `make lab`, by the browser tests and for screenshots."""

import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from tools._isolated import environment

PROGRAM = Path(__file__).with_name("_serve.py")
CONFIG = Path(__file__).with_name("jupyter_server_config.py")
HOST = "127.0.0.1"

# No question about news, no look at whether a newer JupyterLab is out.
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
}
# Lessons are notebooks: nothing opens a script as one. The server's half of this extension is left
# out in jupyter_server_config.py.
PAGE = {"disabledExtensions": {"jupyterlab-jupytext": True}}
# A folded output hides an answer; JupyterLab would show its first line all the same.
CSS = ".jp-OutputPlaceholder .jp-PlaceholderText { display: none; }"


def server_environment(home: Path, token: str) -> dict[str, str]:
    """Return the variables for a server whose settings lie below ``home``.

    Parameters
    ----------
    home : Path
        Folder for everything that Jupyter, IPython and matplotlib write.
    token : str
        What a browser must present; given here, since anybody may read a command line.

    Returns
    -------
    dict from str to str
        The variables of this process with those of the server.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**ours, **environment(home), "JUPYTER_TOKEN": token}


def write_settings(home: Path, settings: Mapping[str, object] = SETTINGS) -> None:
    """Write JupyterLab's default settings where a server with this ``home`` reads them."""
    folder = home / "config" / "labconfig"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "default_setting_overrides.json").write_text(json.dumps(settings))
    (folder / "page_config.json").write_text(json.dumps(PAGE))
    custom = home / "config" / "custom"
    custom.mkdir(exist_ok=True)
    (custom / "custom.css").write_text(CSS)


def server_command(root: Path, port: int) -> list[str]:
    """Return the command that serves the folder ``root`` on ``port`` of this machine."""
    command = [
        sys.executable,
        str(PROGRAM),
        f"--config={CONFIG}",
        f"--ServerApp.root_dir={root}",
        f"--ServerApp.ip={HOST}",
        f"--ServerApp.port={port}",
    ]
    if os.geteuid() == 0:  # in a container; JupyterLab refuses root unless it is told
        command.append("--allow-root")
    return command


def is_free(port: int) -> bool:
    """Return whether a server may listen on ``port`` of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def any_free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]
