"""Measure what a cache saves: cache_times.csv.

Run by hand, about two minutes on one core:

    python data/make_cache.py

Times: a stack of four causal attention layers on a residual stream, 256 features, four heads,
float32, random weights, no MLP, one text, one thread. For each length n, a pass over n tokens takes
turns with a step, the last of these tokens alone with a cache of the n - 1 before it. Both use
torch's fused attention and compute the same last row, which is asserted. Processor time, the
shortest of several runs in a row; seven such pairs for each length. Another machine gives others.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab import KeyValueCache, MultiHeadAttention, merge_heads, split_heads

LENGTHS = (32, 64, 128, 256, 512, 1024, 2048)
LAYERS, EMBED_DIM, NUM_HEADS = 4, 256, 4
PAIRS = 7  # for each length
HERE = Path(__file__).parent


# --- times ----------------------------------------------------------------------------------------


class Stack(nn.Module):
    """Causal attention layers on a residual stream."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            MultiHeadAttention(EMBED_DIM, NUM_HEADS, bias=False) for _ in range(LAYERS)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(EMBED_DIM) for _ in range(LAYERS))

    def forward(self, x: Tensor, caches: list[KeyValueCache | None]) -> Tensor:
        """Return the stream after all layers, for tokens (N, L, E); L is 1 after the first call."""
        for norm, layer, cache in zip(self.norms, self.layers, caches, strict=True):
            projections = (layer.q_proj, layer.k_proj, layer.v_proj)
            query, key, value = (
                split_heads(project(norm(x)), NUM_HEADS) for project in projections
            )
            if cache is not None:
                key, value = cache.append(key, value)
            heads = F.scaled_dot_product_attention(query, key, value, is_causal=x.shape[1] > 1)
            x = x + layer.out_proj(merge_heads(heads))
        return x


def copies(caches: list[KeyValueCache]) -> list[KeyValueCache]:
    """Return caches with the same content, so that the originals stay as they are."""
    new = [KeyValueCache() for _ in caches]
    for one, cache in zip(new, caches, strict=True):
        one.append(cache.key, cache.value)
    return new


def shortest(run: Callable[[], object], prepare: Callable[[], object], seconds: float) -> float:
    """Return the shortest processor time of some runs, in microseconds."""
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        prepare()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times) * 1e6


@torch.no_grad()
def measured_times() -> Iterator[dict[str, int | float]]:
    """Yield the times of a pass and a step for each length and pair."""
    torch.manual_seed(0)
    model = Stack().eval()
    for n in LENGTHS:
        x, ready = torch.randn(1, n, EMBED_DIM), [KeyValueCache() for _ in range(LAYERS)]
        model(x[:, :-1], ready)
        now: list[KeyValueCache] = []

        def step(x=x, now=now) -> Tensor:
            return model(x[:, -1:], now)

        def whole(x=x) -> Tensor:
            return model(x, [None] * LAYERS)

        def prepare(now=now, ready=ready) -> None:
            now[:] = copies(ready)

        prepare()
        torch.testing.assert_close(step(), whole()[:, -1:], rtol=0, atol=1e-4)
        for pair in range(PAIRS):
            row = {"tokens": n, "pair": pair}
            row["pass_us"] = round(shortest(whole, lambda: None, 0.5))
            yield row | {"step_us": round(shortest(step, prepare, 0.1))}


def write(name: str, rows: list[dict]) -> None:
    """Write rows beside this script."""
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("cache_times.csv", [*measured_times()])
