"""What a kernel of `make lab` runs first: after a restart, a NameError says what to do.

Nothing of attnlab can say it, because nothing of it has been imported then. The kernel runs this
among the learner's own names, and no name of it is left there.
"""


def watch_names():
    """Say under a NameError whether a cell above has the name and has not run."""
    import json
    import os
    import re
    from itertools import takewhile
    from pathlib import Path

    from IPython import get_ipython

    ran = []

    def cells_above(cell):  # in the notebook as it was last saved
        try:
            notebook = json.loads(Path(os.environ["JPY_SESSION_NAME"]).read_bytes())
            above = takewhile(lambda one: one["id"] != cell, notebook["cells"])
            return [one for one in above if one["cell_type"] == "code"]
        except (LookupError, OSError, ValueError):  # no file, or not a notebook
            return []

    def tell(shell, kind, error, trace, tb_offset=None):
        shell.showtraceback((kind, error, trace), tb_offset)
        unrun = [one for one in cells_above(ran[-1]) if one["id"] not in ran]
        word = re.compile(rf"\b{error.name}\b")
        if kind is NameError and any(word.search("".join(one["source"])) for one in unrun):
            print(f"A cell above has `{error.name}` and has not run since the kernel started.")
            print("Choose Run All Above Selected Cell in the menu Run, then run this cell again.")

    if shell := get_ipython():  # a Python in a terminal of JupyterLab has none
        shell.events.register("pre_run_cell", lambda info: ran.append(info.cell_id))
        shell.set_custom_exc((NameError,), tell)


watch_names()
del watch_names
