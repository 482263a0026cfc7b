"""What all stored models have in common: every load is a model of its own, ready to be read."""

import pytest
import torch

from attnlab.models.list_reader import load_list_reader
from attnlab.models.looking_back import load_looking_back
from attnlab.models.pretrained import load_encoder, load_layer
from attnlab.models.translator import TRANSLATORS, load_translator

LOADS = [load_layer, load_encoder, load_list_reader, load_looking_back, load_translator]


@pytest.mark.parametrize("load", LOADS)
def test_every_load_is_a_model_of_its_own(load):
    first, spoiled = load(), load()
    before = {name: one.clone() for name, one in first.named_parameters()}
    for parameter in spoiled.parameters():
        assert not parameter.requires_grad
        parameter.zero_()
    assert not first.training
    for model in (first, load()):
        assert all(torch.equal(one, before[name]) for name, one in model.named_parameters())
    # the random numbers of the caller stay as they are
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("load", LOADS)
def test_a_model_computes_in_float32(load):
    halves = {name for name, one in load().named_parameters() if one.dtype != torch.float32}
    looked_up = {"words.weight"} if load in (load_layer, load_encoder) else set()
    assert halves == looked_up  # the rows of a large table become floats when they are looked up


def test_the_translators_differ():
    first = {load_translator(seed).next_word.bias[0].item() for seed in range(TRANSLATORS)}
    assert len(first) == TRANSLATORS
