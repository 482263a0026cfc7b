"""Let 5,000 words ask in the place of "bank": makes who_asks.safetensors.

Run by hand, half a minute on one core:  python data/make_who_asks.py

Read are the 32 sentences of bank_two_kinds.csv that hold a water word and a money word. An asker
wins a sentence in a head if it gives the water word more weight than the money word. The askers are
the 5,000 first words of ``common_words`` and, after them, those of the 24 words of
``attnlab.explorers.who_asks`` that are not among them. The layer computes in float64, so that
another processor finds the same.

``wins``, uint8 (W, 12, 4): for each asker and head 32 bits, the first sentence being the highest
bit of the first number. ``words``, uint8: the W askers, joined by spaces.
"""

import torch
from safetensors.torch import save_file
from torch import Tensor

from attnlab import data_path
from attnlab.explorers.who_asks import COMMON, MONEY, WATER, in_float64, wins_of
from attnlab.models.pretrained import load_layer


def packed(wins: Tensor) -> Tensor:
    """Return 32 bits in four numbers: wins (..., 32) of bool -> (..., 4) of uint8."""
    places = 2 ** torch.arange(7, -1, -1)
    return (wins.unflatten(-1, (4, 8)) * places).sum(dim=-1).to(torch.uint8)


if __name__ == "__main__":
    layer = in_float64(load_layer())
    words = layer.common_words(COMMON)
    words += [word for word in (*WATER, *MONEY) if word not in words]
    text = torch.frombuffer(bytearray(" ".join(words).encode()), dtype=torch.uint8)
    stored = {"wins": packed(wins_of(layer, words)), "words": text}
    save_file(stored, data_path("bank_two_kinds.csv").with_name("who_asks.safetensors"))
