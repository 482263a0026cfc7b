"""The model beside the web pages: its numbers, its files, and which pages have it."""

import re

import pytest
import torch

from attnlab.explorers import LayersExplorer, RealHeadsExplorer, ScalingExplorer
from tools import _site_model
from tools._site_model import LETTERS, MOST, packed, reads_sentences


def test_a_packed_number_is_at_most_half_a_step_away():
    table = torch.randn(7, 11) * torch.logspace(-4, 1, 7)[:, None]
    table[3] = 0
    made = packed(table)
    places = torch.tensor([LETTERS.index(letter) for letter in made["letters"]])
    codes = (64 * places[::2] + places[1::2] - MOST).view(7, 11)
    steps = torch.tensor(made["steps"])[:, None]
    assert ((codes * steps - table).abs() <= 0.501 * steps).all()
    assert codes.abs().amax(dim=1).tolist() == [MOST, MOST, MOST, 0, MOST, MOST, MOST]


@pytest.mark.parametrize(
    ("explorer", "reads"),
    [(RealHeadsExplorer, True), (LayersExplorer, True), (ScalingExplorer, False)],
)
def test_a_page_reads_sentences_if_it_holds_such_an_explorer(monkeypatch, explorer, reads):
    monkeypatch.setattr(explorer, "_picture", lambda self: b"")
    assert reads_sentences(explorer().to_html(library=False)) is reads


def test_every_file_of_the_model_calls_what_keeps_it(monkeypatch):
    monkeypatch.setattr(_site_model, "packed", lambda table: [*table.shape])
    monkeypatch.setattr(_site_model, "_meanings", dict)
    scripts = _site_model.model_scripts()
    assert len(scripts) == 2 + 60 + 6 + 6
    for name, script in scripts.items():
        assert name == f"model/{re.match('keepPart..([a-z_0-9]+)', script)[1]}.js"
    assert '{"vectors":[314,384]}' in scripts["model/words_59.js"]
