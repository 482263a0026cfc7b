"""Every bad call of messages.txt raises its sentence; bad calls of attention change nothing.

That all other bad arguments give one sentence as well is tested in test_bad_arguments.py.
"""

import re
from functools import partial
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import attnlab
from attnlab import data, display, live, plotting

QKV = {"query": (2, 3, 5, 11), "key": (2, 3, 7, 11), "value": (2, 3, 7, 13)}


def attend(**changed):
    """Call both forms of attention with good arguments, some of them changed."""
    arguments = {name: torch.ones(shape) for name, shape in QKV.items()} | changed
    tensors = [value for value in arguments.values() if isinstance(value, torch.Tensor)]
    before = [(tensor.clone(), tensor._version) for tensor in tensors]
    randomness = torch.get_rng_state()
    sentences = []
    for function in (attnlab.scaled_dot_product_attention, attnlab.trace_attention):
        with pytest.raises((TypeError, ValueError)) as raised:
            function(**arguments)
        sentences.append(raised.value)
    for tensor, (values, version) in zip(tensors, before, strict=True):
        assert torch.equal(tensor, values)
        assert tensor._version == version
    assert torch.equal(torch.get_rng_state(), randomness)
    assert str(sentences[0]) == str(sentences[1])
    raise sentences[0]


def tiled(**changed):
    tensors = {name: torch.ones(shape) for name, shape in QKV.items()}
    return attnlab.tiled_attention(**tensors | changed)


def show(**changed):
    good = {"fig": Figure(), "number": "3.2", "alt": "A line.", "caption": "Read it."}
    return display.show_figure(**good | changed)


NAMES = {
    **{name: vars(module)[name] for module in (attnlab, plotting, data) for name in dir(module)},
    **{name: getattr(torch, name) for name in ("ones", "zeros", "tensor")},
    **{"torch": torch, "nn": nn, "nan": float("nan"), "live": live.live},
    **{"attend": attend, "tiled": tiled, "show": show, "draw": lambda fig, d_k: None},
    "attend_causally": lambda x: attnlab.scaled_dot_product_attention(x, x, x, is_causal=True),
    "bools": partial(torch.ones, dtype=torch.bool),
    "square": torch.ones(3, 3, dtype=torch.bool),
    "tokens": torch.ones(2, 5, 33),
    "weights": torch.full((5, 7), 1 / 7),
    "x": torch.ones(5, 11, requires_grad=True),
}
PARTS = re.split(r"^\[(.+)\]\n", Path(__file__).with_name("messages.txt").read_text(), flags=re.M)
MESSAGES = {
    section: [entry.split("\n", 1) for entry in text.strip().split("\n\n")]
    for section, text in zip(PARTS[1::2], PARTS[2::2], strict=True)
}


@pytest.mark.parametrize("section", MESSAGES)
def test_bad_calls_raise_their_sentences(section):
    said = []
    for call, _ in MESSAGES[section]:
        with pytest.raises((TypeError, ValueError)) as raised:
            eval(call, dict(NAMES))
        said.append(f"{call}\n{type(raised.value).__name__}: {raised.value}")
    wanted = [f"{call}\n{' '.join(message.split())}" for call, message in MESSAGES[section]]
    assert said == wanted
