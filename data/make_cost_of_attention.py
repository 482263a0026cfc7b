"""Measure the time of attention and write it to cost_of_attention.csv.

Run by hand, some minutes on one core of a Linux machine:

    python data/make_cost_of_attention.py

Eight heads with 64 features, float32, one thread, forward. Times are the shortest of several runs,
in processor time, which includes what the operating system does for this process. Before each run
the process gives its free memory back, as the lessons do after each cell; otherwise the times of
new tensors would depend on what ran before. The functions are those of lesson 8. For the longest
text, ``plain`` is left out: it would need 16 GiB. Another machine gives other times.
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

HEADS, FEATURES = 8, 64
RUNS = {1024: 60, 4096: 10, 16_384: 3}  # of every function, for each number of tokens
LONGEST = max(RUNS)
State = tuple[Tensor, Tensor, Tensor]


# --- the functions of lesson 8 --------------------------------------------------------------------


def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention, computed with the whole table."""
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., L, S)
    weights = scores.softmax(dim=-1)
    return weights @ value  # (..., L, Ev)


def by_rows(query: Tensor, key: Tensor, value: Tensor, size: int = 64) -> Tensor:
    """Return attention, computed for some rows of the table after the others."""
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    for i in range(0, query.shape[-2], size):
        rows = query[..., i : i + size, :]
        output[..., i : i + size, :] = plain(rows, key, value)
    return output


def add_piece(state: State, scores: Tensor, values: Tensor) -> State:
    """Return the state of some rows after one more piece of the keys."""
    top, total, output = state
    new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
    factor = (top - new_top).exp()  # rescales what has been added up so far
    exponentials = (scores - new_top).exp()
    total = total * factor + exponentials.sum(dim=-1, keepdim=True)
    return new_top, total, output * factor + exponentials @ values


def empty_state(query: Tensor, value: Tensor) -> State:
    """Return the state of some rows before the first key."""
    lowest = torch.finfo(query.dtype).min
    top = query.new_full((*query.shape[:-1], 1), lowest)
    output = query.new_zeros(*query.shape[:-1], value.shape[-1])
    return top, torch.zeros_like(top), output


def tiled(query: Tensor, key: Tensor, value: Tensor, size: int = 256) -> Tensor:
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


def shortest(calls: dict[str, Callable[[], object]], runs: int) -> dict[str, float]:
    """Return the shortest processor time of each call; the calls take turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(runs):
        for name, call in calls.items():
            ctypes.CDLL(None).malloc_trim(0)
            start = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    """Measure every function, and write one line for each number of tokens."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    functions = (plain, by_rows, tiled, F.scaled_dot_product_attention)
    lines = []
    for tokens, runs in RUNS.items():
        inputs = torch.randn(3, 1, HEADS, tokens, FEATURES)  # (N, H, L, E) each
        fitting = functions[1:] if tokens == LONGEST else functions
        calls = {function.__name__: partial(function, *inputs) for function in fitting}
        lines += [[name, tokens, f"{s:.3g}"] for name, s in shortest(calls, runs).items()]
    with Path(__file__).with_name("cost_of_attention.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["function", "tokens", "seconds"])
        writer.writerows(lines)


if __name__ == "__main__":
    main()
