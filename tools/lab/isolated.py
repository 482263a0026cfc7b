"""Run a module of this environment with every settings folder inside .venv.

``python -m tools.lab.isolated pytest tests`` is ``python -m pytest tests``, except that Jupyter,
IPython and matplotlib read and write only below ``.venv/home``.
"""

import os
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parents[2] / ".venv" / "home"


def environment(home: Path = HOME) -> dict[str, str]:
    """Return the variables that keep Jupyter, IPython and matplotlib below ``home``."""
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
        "MPLCONFIGDIR": "matplotlib",
    }
    return {name: str(home / folder) for name, folder in folders.items()}


def main() -> None:
    """Replace this process by the module named on the command line."""
    os.environ.update(environment())
    os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])


if __name__ == "__main__":
    main()
