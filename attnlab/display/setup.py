"""How a lesson begins: style, random numbers, threads, printing, folds."""

from __future__ import annotations

from pathlib import Path

import torch

from attnlab.display import folds, ipython

STYLE_FILE = Path(__file__).with_name("attnlab.mplstyle")


def lesson_setup() -> None:
    """Prepare a notebook as every lesson does: style, random numbers, threads, printing, folds.

    Figures get the style of the series, the random stream starts at seed 0, torch computes in one
    thread (so that results are the same on every machine) and prints three decimals. The cell magic
    ``%%answer`` becomes known, and free memory goes back to the system after each cell.

    See Also
    --------
    attnlab.exercises.predict : the question that an ``%%answer`` cell answers.
    """
    import matplotlib.style

    matplotlib.style.use("attnlab.display.attnlab")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.set_printoptions(precision=3, sci_mode=False)
    folds.register()
    ipython.return_memory_after_cells()
