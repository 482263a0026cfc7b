"""Train small layers on 16 tokens, each told the order in another way, and test on longer lists.

Run by hand, about ten minutes on one core:  python data/make_train_short_test_long.py

The lists are those of attnlab.models.list_reader, and the test asks at the end of a list, for
animals with at least two entries. All numbers are drawn at random, so guessing is right in 1 of 8
cases. One layer of causal attention lies between a linear layer that reads the tokens and one that
names the number.

Accuracies go to train_short_test_long.csv, and how_far_back.csv splits those on lists of 64 by the
distance of the wanted entry, once more for the rotary layers with a larger base and for those with
ALiBi with half the slopes, without further training. One of the rotary layers goes to
list_reader.safetensors. Another CPU or version of torch moves the numbers a little.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import partial
from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from attnlab import (
    alibi_bias,
    causal_mask,
    merge_heads,
    rotate,
    sinusoidal_positions,
    split_heads,
    to_additive_mask,
)
from attnlab.models.list_reader import (
    EMBED_DIM,
    NO_ANSWER,
    NUM_HEADS,
    ListReader,
    make_lists,
)

TRAINED_ON, LENGTHS = 16, (16, 24, 32, 40, 48, 56, 64)
LARGER_BASE = 1e6
FAR_BATCHES, FAR = 10, ((1, 15), (16, 23), (24, 31), (32, 47))  # batches of TEST_LISTS; distances
BATCH, STEPS, RATE, TEST_LISTS = 64, 1000, 3e-3, 3000
SEEDS = range(4)
SCHEMES = ("none", "learned", "sinusoidal", "rotary", "ALiBi")


class Model(ListReader):
    """A list reader that is told the order in one of the ways, which can be changed later."""

    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.scheme, self.rotation, self.share_of_slopes = scheme, rotate, 1.0
        if scheme == "learned":
            self.positions = nn.Parameter(torch.randn(max(LENGTHS), EMBED_DIM))
        elif scheme == "sinusoidal":
            self.positions = sinusoidal_positions(max(LENGTHS), EMBED_DIM)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits, (N, L, NUMBERS)."""
        x, layer = self.embed(tokens), self.attention
        if hasattr(self, "positions"):
            x = x + self.positions[: x.shape[1]]
        projections = (layer.q_proj, layer.k_proj, layer.v_proj)
        query, key, value = (split_heads(project(x), NUM_HEADS) for project in projections)
        if self.scheme == "rotary":
            query, key = self.rotation(query), self.rotation(key)
        mask = to_additive_mask(causal_mask(x.shape[1]))
        if self.scheme == "ALiBi":
            mask = mask + self.share_of_slopes * alibi_bias(NUM_HEADS, x.shape[1])
        heads = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.read(layer.out_proj(merge_heads(heads)))


def train(scheme: str, seed: int) -> Model:
    """Return a model that was trained on lists of TRAINED_ON tokens."""
    torch.manual_seed(seed)
    model = Model(scheme)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        lists = make_lists(BATCH, TRAINED_ON)
        logits = model(lists.tokens).flatten(0, 1)
        loss = F.cross_entropy(logits, lists.answers.flatten(), ignore_index=NO_ANSWER)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def find_correct(model: Model, length: int) -> tuple[Tensor, Tensor]:
    """Return which answers to graded questions are correct, and how far back the entries are."""
    lists = make_lists(TEST_LISTS, length)
    parts = [model(part)[:, -1] for part in lists.tokens.split(500)]
    graded = lists.entries[:, -1] >= 2
    correct = torch.cat(parts).argmax(dim=-1) == lists.answers[:, -1]
    return correct[graded], lists.back[graded, -1]


def test(model: Model, length: int) -> str:
    """Return the share of correct answers at the last token of new lists."""
    torch.manual_seed(1000 + length)  # the same lists for every model
    correct, _ = find_correct(model, length)
    return f"{correct.double().mean():.3f}"


def test_far(model: Model) -> list[tuple[str, int, str]]:
    """Return (distance, questions, accuracy) on long lists."""
    torch.manual_seed(2000)  # the same lists for every model
    found = [find_correct(model, max(LENGTHS)) for _ in range(FAR_BATCHES)]
    correct, back = map(torch.cat, zip(*found, strict=True))
    rows = []
    for low, high in (*FAR, (1, max(LENGTHS))):
        part = correct[(back >= low) & (back <= high)]
        name = "all" if high == max(LENGTHS) else f"{low}-{high}"
        rows.append((name, len(part), f"{part.double().mean():.3f}"))
    return rows


def write(name: str, head: str, rows: Iterable[Iterable[object]]) -> None:
    """Write a table beside this file."""
    with Path(__file__).with_name(name).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head.split())
        writer.writerows(rows)


def main() -> None:
    """Train every scheme, write the accuracies, and write one of the models."""
    torch.set_num_threads(1)
    short_long, far = [], []
    for scheme, seed in product(SCHEMES, SEEDS):
        model = train(scheme, seed)
        short_long += [[scheme, seed, length, test(model, length)] for length in LENGTHS]
        far += [[scheme, seed, *row] for row in test_far(model)]
        if scheme == "rotary":
            model.rotation = partial(rotate, base=LARGER_BASE)
            far += [[f"rotary, base {LARGER_BASE:,.0f}", seed, *row] for row in test_far(model)]
        if scheme == "ALiBi":
            model.share_of_slopes = 0.5
            far += [["ALiBi, half the slopes", seed, *row] for row in test_far(model)]
        if scheme == "rotary" and seed == 0:
            stored = {name: one.half() for name, one in model.state_dict().items()}
            save_file(stored, Path(__file__).with_name("list_reader.safetensors"))
    write("train_short_test_long.csv", "scheme seed tokens accuracy", short_long)
    write("how_far_back.csv", "scheme seed distance questions accuracy", far)


if __name__ == "__main__":
    main()
