"""Measure what a cache saves, and how much slower a step gets: cache_times.csv.

Run by hand, about three minutes on one core:

    python data/make_cache.py

Times: two stacks of causal attention layers on a residual stream, float32, random weights, one
text, one thread. "small" has four layers with 256 features and no MLP, "large" eight layers with
1,024 features, each with an MLP; one head has 64 features. For each length n, a step reads the last
of n tokens, with the keys and values of the n - 1 before it; these lie in memory that was reserved
for the whole text, so that nothing is copied. In the small stack, a whole pass over the n tokens
takes turns with it, and both compute the same last row, which is asserted (in the large one, too).
Processor time, the shortest of several runs in a row. All lengths take turns, seven times.
Another machine gives others.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab import MultiHeadAttention, merge_heads, split_heads

LENGTHS = (32, 64, 128, 256, 512, 1024, 2048)
HEAD_DIM = 64
TIMES = 7  # for each length
HERE = Path(__file__).parent


# --- times ----------------------------------------------------------------------------------------


class Reserved:
    """The keys and values of one layer, in memory that was reserved for the whole text."""

    def __init__(self, heads: int, tokens: int) -> None:
        self.key, self.value = torch.zeros(2, 1, heads, tokens, HEAD_DIM)
        self.length = 0

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values (1, H, L, E) behind the old ones, and return all of them."""
        old, self.length = self.length, self.length + key.shape[2]
        self.key[:, :, old : self.length] = key
        self.value[:, :, old : self.length] = value
        return self.key[:, :, : self.length], self.value[:, :, : self.length]


class Stack(nn.Module):
    """Causal attention layers on a residual stream, with or without an MLP in each."""

    def __init__(self, layers: int, embed_dim: int, mlp: bool) -> None:
        super().__init__()
        self.embed_dim, self.heads = embed_dim, embed_dim // HEAD_DIM
        self.layers = nn.ModuleList(
            MultiHeadAttention(embed_dim, self.heads, bias=False) for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(embed_dim) for _ in range(layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(embed_dim),
                nn.Linear(embed_dim, 4 * embed_dim, bias=False),
                nn.GELU(),
                nn.Linear(4 * embed_dim, embed_dim, bias=False),
            )
            for _ in range(layers if mlp else 0)
        )

    def forward(self, x: Tensor, caches: list[Reserved] | None = None) -> Tensor:
        """Return the stream after all layers, for tokens (1, L, E); L is 1 after the first call."""
        for number, (norm, layer) in enumerate(zip(self.norms, self.layers, strict=True)):
            projections = (layer.q_proj, layer.k_proj, layer.v_proj)
            query, key, value = (
                split_heads(project(norm(x)), self.heads) for project in projections
            )
            if caches is not None:
                key, value = caches[number].append(key, value)
            heads = F.scaled_dot_product_attention(query, key, value, is_causal=x.shape[1] > 1)
            x = x + layer.out_proj(merge_heads(heads))
            if self.mlps:
                x = x + self.mlps[number](x)
        return x


def shortest(run: Callable[[], object], seconds: float) -> int:
    """Return the shortest processor time of some runs, in microseconds."""
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return round(min(times) * 1e6)


@torch.no_grad()
def measured_times(name: str, model: Stack, with_passes: bool) -> Iterator[dict[str, object]]:
    """Yield the times of a step, and of a whole pass if asked for, for each length in turn."""
    texts = [torch.randn(1, n, model.embed_dim) for n in LENGTHS]
    caches = [[Reserved(model.heads, n) for _ in model.layers] for n in LENGTHS]

    def step(x: Tensor, caches: list[Reserved]) -> Tensor:
        for cache in caches:
            cache.length = x.shape[1] - 1
        return model(x[:, -1:], caches)

    for x, own in zip(texts, caches, strict=True):
        model(x[:, :-1], own)
        torch.testing.assert_close(step(x, own), model(x)[:, -1:], rtol=0, atol=1e-4)
    for number in range(TIMES):
        for x, own in zip(texts, caches, strict=True):
            row = {"model": name, "tokens": x.shape[1], "number": number, "pass_us": ""}
            if with_passes:
                row["pass_us"] = shortest(partial(model, x), 0.3)
            yield row | {"step_us": shortest(partial(step, x, own), 0.6)}


def write(name: str, rows: list[dict]) -> None:
    """Write rows beside this script."""
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    small = Stack(layers=4, embed_dim=256, mlp=False).eval()
    large = Stack(layers=8, embed_dim=1024, mlp=True).eval()
    for stack in (small, large):
        print(sum(p.nbytes for p in stack.parameters()) // 2**20, "MiB of parameters")
    rows = [*measured_times("small", small, True), *measured_times("large", large, False)]
    write("cache_times.csv", rows)
