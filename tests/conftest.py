"""What every test of the package shares: a fixed seed and pictures without a screen."""

import matplotlib
import pytest
import torch

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def seed() -> None:
    """Start the global random stream at the same place in every test."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed notes who calls it: a millisecond
