"""Run JupyterLab, two seconds sooner than ``python -m jupyterlab``."""

import sys

# jsonschema looks whether this module is there, to check addresses in schemas that we do not have;
# importing it builds a grammar, which takes longer than all the rest together.
sys.modules["rfc3987_syntax"] = None

from jupyterlab.labapp import main  # noqa: E402

if __name__ == "__main__":
    main()
