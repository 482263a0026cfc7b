"""What a function did to its argument is shown where the argument changed."""

import torch

from attnlab.clinic._calling import Caller
from attnlab.clinic._damage import damage


def test_the_first_row_that_changed_is_shown_before_and_after():
    def spoil(x):
        x[1:, 2] = 9

    caller = Caller(spoil, 1.0)
    caller(torch.zeros(3, 4))
    evidence = damage(caller)
    assert evidence.rows == ("before", "after")
    assert evidence.values.tolist() == [[0, 0, 0, 0], [0, 0, 9, 0]]
