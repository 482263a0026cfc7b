"""Explorer 14: what twice as many tokens cost: memory of the weights, and FLOPs."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from matplotlib.figure import Figure

from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import State, one_of
from attnlab.plotting import plot_sweep

STOPS = tuple(2**power for power in range(6, 17))  # 64 ... 65536 tokens
HEADS = (1, 8, 32)
DTYPES = {"float32": torch.float32, "float16": torch.float16}
WIDTHS = (256, 512, 1024, 4096)


class CostResult(NamedTuple):
    """What one attention layer needs for one sentence, forward, if it stores its weights.

    Attributes
    ----------
    weight_bytes : int
        Of the attention weights, (heads, n, n) numbers.
    qkv_bytes : int
        Of queries, keys and values, (n, d_model) numbers each.
    attention_flops : int
        Of scores and weighted averages, the two products of n x n.
    projection_flops : int
        Of the four matrices that make queries, keys, values and the output.
    """

    weight_bytes: int
    qkv_bytes: int
    attention_flops: int
    projection_flops: int


class CostExplorer(Explorer):
    """Memory and FLOPs of one attention layer over the number of tokens; nothing is timed.

    Parameters
    ----------
    d_model : {512, 256, 1024, 4096}
        Length of a token's vector.
    **state
        ``n``: number of tokens, a power of two, 64 to 65536. ``heads``: 1, 8 or 32. ``dtype``:
        "float32" or "float16". ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    torch.utils.flop_counter.FlopCounterMode : counts the same FLOPs while a layer runs.
    """

    module = "cost"
    figsize = (8.4, 3.4)

    n = State(512, one_of(*STOPS))
    heads = State(8, one_of(*HEADS))
    dtype = State("float32", one_of(*DTYPES))

    def __init__(self, d_model: int = 512, **state: object) -> None:
        self.d_model = one_of(*WIDTHS)("d_model", d_model, self)
        super().__init__(**state)

    @property
    def result(self) -> CostResult:
        """Bytes, as torch counts them, and FLOPs."""
        return self._cost(self.n)

    def _cost(self, n: int) -> CostResult:
        return cost(n, self.heads, self.dtype, self.d_model)

    def make_data(self) -> dict[str, object]:
        """Return every number, and the words of every state."""
        return {
            "stops": list(STOPS),
            "heads": list(HEADS),
            "dtypes": list(DTYPES),
            "d_model": self.d_model,
            "frames": {
                dtype: {str(heads): self._frames(heads, dtype) for heads in HEADS}
                for dtype in DTYPES
            },
        }

    def _frames(self, heads: int, dtype: str) -> list[dict[str, object]]:
        return [frame(n, heads, dtype, self.d_model) for n in STOPS]

    def draw(self, fig: Figure) -> None:
        """Draw memory and FLOPs over n, n being marked."""
        left, right = fig.subplots(1, 2)
        costs = [self._cost(n) for n in STOPS]
        memory = {
            "attention weights": [one.weight_bytes / 2**20 for one in costs],
            "Q, K and V": [one.qkv_bytes / 2**20 for one in costs],
        }
        flops = {
            "attention": [one.attention_flops / 1e9 for one in costs],
            "projections": [one.projection_flops / 1e9 for one in costs],
        }
        look = {"xlabel": "tokens n", "xscale": "log", "yscale": "log", "at": self.n}
        title = f"memory, {self.heads} head{'s' * (self.heads > 1)}, {self.dtype}"
        plot_sweep(STOPS, memory, ax=left, ylabel="MiB", title=title, **look)
        title = f"FLOPs, d_model = {self.d_model}"
        plot_sweep(STOPS, flops, ax=right, ylabel="billion FLOPs", title=title, **look)

    def say(self) -> str:
        """Return what the weights take, and twice as many tokens."""
        return sentence(self.n, self.heads, self.dtype, self.d_model)


@cache
def cost(n: int, heads: int, dtype: str, d_model: int) -> CostResult:
    """Return what n tokens need; the tensors have a size and no memory."""
    look = {"dtype": DTYPES[dtype], "device": "meta"}
    weights = torch.empty(heads, n, n, **look)
    qkv = torch.empty(3, n, d_model, **look)
    attention = 2 * (2 * n * n * d_model)  # Q K^T, and weights times V
    projections = 4 * (2 * n * d_model * d_model)  # W_Q, W_K, W_V and the last one
    return CostResult(weights.nbytes, qkv.nbytes, attention, projections)


def frame(n: int, heads: int, dtype: str, d_model: int) -> dict[str, object]:
    """Return one state for the browser: numbers for the curves, texts for the table."""
    now, doubled = (cost(count, heads, dtype, d_model) for count in (n, 2 * n))
    table = [
        [show(before), show(after), after // before]
        for show, before, after in zip(
            (bytes_text, bytes_text, flops_text, flops_text), now, doubled, strict=True
        )
    ]
    words = {"say": sentence(n, heads, dtype, d_model), "code": code(n, heads, dtype, d_model)}
    return {"costs": list(now), "table": table, **words}


# --- words ----------------------------------------------------------------------------------------


def bytes_text(count: int) -> str:
    """Return a number of bytes as it is read: 8 MiB."""
    power = min(4, (count.bit_length() - 1) // 10)
    return f"{count / 1024**power:g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def flops_text(count: int) -> str:
    """Return a number of FLOPs as it is read: 2.15 G."""
    size, unit = next(pair for pair in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if count >= pair[0])
    return f"{float(f'{count / size:.3g}'):g} {unit}"


@cache
def sentence(n: int, heads: int, dtype: str, d_model: int) -> str:
    """Return what the weights take at n and at 2 n, and which part has more to compute."""
    now, doubled = (cost(count, heads, dtype, d_model) for count in (n, 2 * n))
    more = doubled.weight_bytes // now.weight_bytes
    memory = (
        f"n = {n}: stored in {dtype}, the attention weights of {heads} "
        f"head{'s' * (heads > 1)} take {bytes_text(now.weight_bytes)}, and {more} times as much, "
        f"{bytes_text(doubled.weight_bytes)}, for twice as many tokens."
    )
    ratio = now.attention_flops / now.projection_flops
    if ratio == 1:
        return f"{memory} Attention and the projections need the same FLOPs: n is 2 d_model."
    if ratio > 1:
        return f"{memory} Attention needs {ratio:g} times the FLOPs of the projections."
    return f"{memory} The projections need {1 / ratio:g} times the FLOPs of attention."


def code(n: int, heads: int, dtype: str, d_model: int) -> str:
    """Return the numbers in PyTorch; a tensor on "meta" has a size and takes no memory."""
    return (
        f"n, heads, d_model = {n}, {heads}, {d_model}\n"
        f'weights = torch.empty(heads, n, n, dtype=torch.{dtype}, device="meta")\n'
        "memory = weights.nbytes\n"
        "attention = 2 * (2 * n * n * d_model)  # FLOPs of Q @ K.T and of weights @ V\n"
        "projections = 4 * (2 * n * d_model**2)  # W_Q, W_K, W_V and the output"
    )
