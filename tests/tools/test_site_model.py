"""The numbers of the model beside the web pages; a browser reads sentences with them."""

import torch

from tools.publish.site.model import LETTERS, MOST, packed


def test_a_packed_number_is_at_most_half_a_step_away():
    table = torch.randn(7, 11) * torch.logspace(-4, 1, 7)[:, None]
    table[3] = 0
    made = packed(table)
    places = torch.tensor([LETTERS.index(letter) for letter in made["letters"]])
    codes = (64 * places[::2] + places[1::2] - MOST).view(7, 11)
    steps = torch.tensor(made["steps"])[:, None]
    assert ((codes * steps - table).abs() <= 0.501 * steps).all()
    assert codes.abs().amax(dim=1).tolist() == [MOST, MOST, MOST, 0, MOST, MOST, MOST]
