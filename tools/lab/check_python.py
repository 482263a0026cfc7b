"""Say in one sentence why this Python cannot make the environment; any Python can read this."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - it is read by the Python that it refuses
    sys.exit(
        "attnlab needs Python 3.11 or newer, and this one is "
        + sys.version.split()[0]
        + "; give another one, for example: make setup PY=python3.12"
    )
try:
    import ensurepip  # noqa: F401
    import venv  # noqa: F401
except ImportError:
    sys.exit(
        "This Python has no venv module; on Debian and Ubuntu install it with: "
        "sudo apt-get install python3-venv"
    )
