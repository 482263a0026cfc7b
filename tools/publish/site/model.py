"""The trained model as scripts beside the pages, so that they can read a sentence without Python.

A page loads a script when it needs what is in it: the vectors of some word pieces, one layer. The
rows of a matrix are stored in steps of their own, 4,095 of them, and a number takes two letters.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from attnlab.explorers import layers, real_heads
from attnlab.explorers.frame.sentences import LONGEST
from attnlab.models.pretrained import PretrainedEncoder, load_encoder

FOLDER = "model"
PIECES = 512  # word pieces whose vectors one script holds
LETTERS = f"{string.ascii_uppercase}{string.ascii_lowercase}{string.digits}+/"
MOST = 2047  # steps from 0 to the largest number of a row
COMPACT = {"ensure_ascii": False, "separators": (",", ":")}
MARKS = ('data-explorer="real_heads-', 'data-explorer="layers-')  # what a page with a reader holds

Part = Mapping[str, object]


def reads_sentences(page: str) -> bool:
    """Return whether a page holds an explorer that can read a sentence of one's own."""
    return any(mark in page for mark in MARKS)


def model_scripts() -> dict[str, str]:
    """Return all scripts of the model by their names."""
    encoder = load_encoder()
    shares = enumerate(encoder.words.weight.split(PIECES))
    parts = {"start": _start(encoder), "meanings": _meanings()}
    parts |= {f"words_{number}": {"vectors": packed(share)} for number, share in shares}
    for number, layer in enumerate(encoder.layers):
        tables = {
            "query": layer.attention.q_proj,
            "key": layer.attention.k_proj,
            "value": layer.attention.v_proj,
            "out": layer.attention.out_proj,
            **{name: part for name, part in layer.named_children() if name != "attention"},
        }
        made = {name: _module(module) for name, module in tables.items()}
        parts[f"scores_{number}"] = {name: made.pop(name) for name in ("query", "key")}
        parts[f"layer_{number}"] = made
    texts = {name: json.dumps(part, **COMPACT) for name, part in parts.items()}
    return {f"{FOLDER}/{name}.js": f'keepPart("{name}", {text});\n' for name, text in texts.items()}


def packed(table: Tensor) -> dict[str, object]:
    """Return a matrix for the browser: the step of each row, and all numbers as letters."""
    table = table.double()
    steps = (table.abs().amax(dim=1) / MOST).clamp(min=1e-12)
    codes = (table / steps[:, None]).round().long().flatten() + MOST
    letters = torch.tensor([*LETTERS.encode()], dtype=torch.uint8)
    pairs = torch.stack([letters[codes // 64], letters[codes % 64]], dim=1)
    return {"steps": _short(steps), "letters": pairs.numpy().tobytes().decode()}


def _start(encoder: PretrainedEncoder) -> Part:
    return {
        "pieces": encoder.vocabulary,
        "longest": LONGEST,
        "in_a_script": PIECES,
        "places": [*map(_short, encoder.positions.weight[:LONGEST] + encoder.types.weight[0])],
        "norm": _module(encoder.norm),
        "code": {
            "real_heads": real_heads.code("{sentence}", "{length}"),
            "layers": layers.code("{sentence}", "{length}"),
        },
    }


def _meanings() -> Part:
    """Return the mean vectors of both meanings of each word, and the sentences behind them."""
    parts = {}
    for word in layers.labelled_rows():
        known = layers.labelled(word)
        sides = [0 if first else 1 for first in known.is_first.tolist()]
        means = [known.vectors[known.is_first == side].mean(dim=0) for side in (True, False)]
        parts[word] = {
            "names": known.meanings,
            "sentences": dict(zip(known.sentences, sides, strict=True)),
            "means": packed(torch.cat(means)),
        }
    return parts


def _module(module: torch.nn.Module) -> dict[str, object]:
    """Return weight and bias of a part of a layer; those of a LayerNorm are both lists."""
    weight = module.weight
    return {
        "weight": packed(weight) if weight.ndim == 2 else _short(weight),
        "bias": _short(module.bias),
    }


def _short(numbers: Iterable[Tensor]) -> list[float]:
    return [float(f"{number:.6g}") for number in numbers.tolist()]
