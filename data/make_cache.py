"""Measure what a cache saves and what a hidden key changes: cache_times.csv, hidden_keys.csv.

Run by hand, about two minutes on one core:

    python data/make_cache.py

Times: a stack of four causal attention layers on a residual stream, 256 features, four heads,
float32, random weights, no MLP, one text, one thread. For each length n, a pass over n tokens takes
turns with a step, the last of these tokens alone with a cache of the n - 1 before it. Both use
torch's fused attention and compute the same last row, which is asserted. Processor time, the
shortest of several runs in a row; seven such pairs for each length. Another machine gives others.

Hidden keys: the trained encoder reads each of the 35 sentences with "bank" and one place hidden:
in all six layers, no other token can attend to it. The change of a word is the length of the
difference between its last vectors with and without, divided by the length without; the mean over
the words of the sentence, without the markers and the hidden token.
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
from attnlab.pretrained import PretrainedEncoder, load_encoder

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


# --- hidden keys ----------------------------------------------------------------------------------


def last_vectors(encoder: PretrainedEncoder, tokens: list[str], mask: Tensor) -> Tensor:
    """Return the vectors after the last layer (L, E), under a mask in all layers."""
    hooks = [
        layer.attention.register_forward_pre_hook(
            lambda _, given, named: (given, named | {"attn_mask": mask}), with_kwargs=True
        )
        for layer in encoder.layers
    ]
    vectors, _ = encoder(tokens)
    for hook in hooks:
        hook.remove()
    return vectors[-1, 0]


def changes(encoder: PretrainedEncoder, sentence: str) -> Iterator[dict[str, str | int | float]]:
    """Yield how far the words of a sentence move when one token is hidden from them."""
    tokens = encoder.tokens(sentence)
    everything = torch.ones(len(tokens), len(tokens), dtype=torch.bool)
    before = last_vectors(encoder, tokens, everything)
    for place, token in enumerate(tokens):
        mask = everything.clone()
        mask[:, place] = False
        mask[place, place] = True
        moved = (last_vectors(encoder, tokens, mask) - before).norm(dim=-1) / before.norm(dim=-1)
        words = [i for i in range(1, len(tokens) - 1) if i != place]
        change = round(moved[words].mean().item(), 3)
        yield {"sentence": sentence, "place": place, "token": token, "change": change}


def write(name: str, rows: list[dict]) -> None:
    """Write rows beside this script."""
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    encoder = load_encoder()
    with (HERE / "bank_sentences.csv").open(newline="", encoding="utf-8") as file:
        sentences = [row["sentence"] for row in csv.DictReader(file)]
    with torch.no_grad():
        write("hidden_keys.csv", [row for text in sentences for row in changes(encoder, text)])
    write("cache_times.csv", [*measured_times()])
