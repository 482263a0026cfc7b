"""What every test of the package shares: a fixed seed and pictures without a screen.

The controller of xdist reads this file as well and runs no test: it needs no library.
"""

import pytest
from xdist.scheduler import LoadFileScheduling


def pytest_configure(config: pytest.Config) -> None:
    """Let matplotlib draw without a screen, except in the controller of xdist."""
    if config.getoption("dist", "no") == "no":
        import matplotlib

        matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def seed() -> None:
    """Start the global random stream at the same place in every test."""
    import torch

    torch.default_generator.manual_seed(0)  # torch.manual_seed notes who calls it: a millisecond


@pytest.fixture
def settings_stay():
    """No setting of matplotlib changes, and no random number of Python or numpy is drawn."""
    import random

    import matplotlib as mpl
    import numpy as np

    def state():
        return dict(mpl.rcParams), random.getstate(), np.random.get_state()[1].tolist()

    before = state()
    yield
    assert state() == before


# --- on several processors ------------------------------------------------------------------------

TOGETHER = ("tests/browser/lab/", "tests/browser/web/")


class OneOfEach(LoadFileScheduling):
    """The tests of a file in one process, all that need JupyterLab, and all that need the site."""

    def _split_scope(self, nodeid: str) -> str:
        folders = (folder for folder in TOGETHER if nodeid.startswith(folder))
        return next(folders, super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)  # a run without xdist has no scheduler
def pytest_xdist_make_scheduler(config: pytest.Config, log) -> OneOfEach | None:
    """Return how the tests are shared out among the processes."""
    return OneOfEach(config, log) if config.getvalue("dist") == "loadfile" else None
