"""Measure the time of attention and write it to cost_of_attention.csv.

Run by hand, about two minutes on one core of a Linux machine:

    python data/make_cost_of_attention.py

One head with 64 features and 4,096 tokens, float32, one thread, forward. Times are the shortest of
several runs, in processor time, which includes what the operating system does for this process.
Before each run the process gives its free memory back, as the lessons do after each cell; otherwise
the times of new tensors would depend on what ran before. The functions are those of lesson 8.
Another machine gives other times.
"""

from __future__ import annotations

import csv
import ctypes
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab import tiled_attention

TOKENS, FEATURES = 4096, 64
TILES = (32, 64, 128, 256, 512, 1024)  # queries and keys of a tile
SECONDS = 120.0
State = tuple[Tensor, Tensor, Tensor]


# --- the functions of lesson 8 --------------------------------------------------------------------


def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention, computed with the whole table."""
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., L, S)
    weights = scores.softmax(dim=-1)
    return weights @ value  # (..., L, Ev)


def by_rows(query: Tensor, key: Tensor, value: Tensor, size: int = 64) -> Tensor:
    """Return attention, computed for some rows of the table after the others."""
    blocks = query.split(size, dim=-2)  # 64 queries each
    return torch.cat([plain(rows, key, value) for rows in blocks], dim=-2)


def add_piece(state: State, scores: Tensor, values: Tensor) -> State:
    """Return the state of some rows after one more piece of the keys."""
    top, total, output = state
    new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
    shrink = (top - new_top).exp()  # what was added up so far was too large
    exponentials = (scores - new_top).exp()
    total = total * shrink + exponentials.sum(dim=-1, keepdim=True)
    output = output * shrink + exponentials @ values
    return new_top, total, output


def empty_state(query: Tensor, value: Tensor) -> State:
    """Return the state of some rows before the first key."""
    lowest = torch.finfo(query.dtype).min
    top = query.new_full((*query.shape[:-1], 1), lowest)
    output = query.new_zeros(*query.shape[:-1], value.shape[-1])
    return top, torch.zeros_like(top), output


def tiled(query: Tensor, key: Tensor, value: Tensor, size: int = 128) -> Tensor:
    """Return attention, computed tile by tile."""
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    for i in range(0, query.shape[-2], size):
        rows = query[..., i : i + size, :] / query.shape[-1] ** 0.5
        state = empty_state(rows, value)
        for j in range(0, key.shape[-2], size):
            keys, values = key[..., j : j + size, :], value[..., j : j + size, :]
            state = add_piece(state, rows @ keys.mT, values)  # scores (..., size, size)
        _, total, summed = state
        output[..., i : i + size, :] = summed / total
    return output


# --- measuring ------------------------------------------------------------------------------------


def shortest(calls: dict[tuple[str, int], Callable[[], object]]) -> dict[tuple[str, int], float]:
    """Return the shortest processor time of each call; the calls take turns."""
    best = dict.fromkeys(calls, float("inf"))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for name, call in calls.items():
            ctypes.CDLL(None).malloc_trim(0)
            start = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    """Measure every function, and write one line for each."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.randn(3, 1, 1, TOKENS, FEATURES)  # (N, H, L, E) each
    whole = (plain, by_rows, tiled_attention, F.scaled_dot_product_attention)
    calls = {(function.__name__, 0): partial(function, *inputs) for function in whole}
    calls |= {("tiled", size): partial(tiled, *inputs, size=size) for size in TILES}
    with Path(__file__).with_name("cost_of_attention.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["function", "tile", "ns_per_weight"])
        for (name, size), took in shortest(calls).items():
            writer.writerow([name, size or "", f"{took / TOKENS**2 * 1e9:.2f}"])


if __name__ == "__main__":
    main()
