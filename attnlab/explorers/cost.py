"""What twice as many tokens cost: memory of the weights, and FLOPs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import torch

from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice, Slider, one_of
from attnlab.explorers.frame.panels import Axis, Curves, Line, Panel, Table, stacked
from attnlab.explorers.frame.words import counted

STOPS = tuple(2**power for power in range(6, 17))  # 64 ... 65536 tokens
HEADS = (1, 8, 32)
DTYPES = {"float32": torch.float32, "float16": torch.float16}
WIDTHS = (256, 512, 1024, 4096)
BYTE_TICKS = {1024: "1 KiB", 1024**2: "1 MiB", 1024**3: "1 GiB", 1024**4: "1 TiB"}
FLOP_TICKS = {1e6: "1 M", 1e9: "1 G", 1e12: "1 T"}


class CostResult(NamedTuple):
    """What one attention layer needs for one sentence, forward, if it stores its weights."""

    weight_bytes: int  # of the attention weights, (heads, n, n) numbers
    qkv_bytes: int  # of queries, keys and values, (n, d_model) numbers each
    attention_flops: int  # of scores and weighted averages, the two products of n x n
    projection_flops: int  # of the four matrices that make queries, keys, values and the output


@cache
def cost(n: int, heads: int, dtype: str, d_model: int) -> CostResult:
    """Return what n tokens need; the tensors have a size and no memory."""
    look = {"dtype": DTYPES[dtype], "device": "meta"}
    weights = torch.empty(heads, n, n, **look)
    qkv = torch.empty(3, n, d_model, **look)
    attention = 2 * (2 * n * n * d_model)  # Q K^T, and weights times V
    projections = 4 * (2 * n * d_model * d_model)  # W_Q, W_K, W_V and the last one
    return CostResult(weights.nbytes, qkv.nbytes, attention, projections)


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

    figsize = (8.4, 3.4)

    n = Slider(
        512,
        STOPS,
        label="n",
        spoken="number of tokens, n",
        presets=(512, 4096, 65536),
        forward="Double n",
        width=190,
    )
    heads = Choice(8, HEADS, label="heads")
    dtype = Choice("float32", tuple(DTYPES), label="numbers")

    def __init__(self, d_model: int = 512, **state: object) -> None:
        self.d_model = self.frames_for = one_of(*WIDTHS)("d_model", d_model, self)
        super().__init__(**state)

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The weights at n and at 2 n, and two charts of costs over n."""
        over = {"over": "n", "stops": STOPS, "xlabel": "tokens n"}
        labels = ["" if i % 2 or n == 16384 else f"{n}" for i, n in enumerate(STOPS)]
        flops = [cost(n, 8, "float32", self.d_model)[2:] for n in STOPS]
        return (
            stacked(
                Panel("squares", "n doubled", kind="squares"),
                Table("table", caption="Costs at n and at twice n"),
            ),
            Curves(
                "memory",
                "memory",
                labels=labels,
                lines=_lines(("attention weights", "Q, K and V"), ([], [])),
                y=Axis(1024, 1024**4, BYTE_TICKS, log=True),
                **over,
            ),
            Curves(
                "flops",
                "FLOPs of the matrix products",
                under=f"d_model = {self.d_model}: the lines cross at n = 2 d_model = "
                f"{2 * self.d_model}",
                labels=labels,
                lines=_lines(("attention", "projections"), zip(*flops, strict=True)),
                y=Axis(1e6, 1e14, FLOP_TICKS, log=True),
                **over,
            ),
        )

    @property
    def result(self) -> CostResult:
        """Bytes, as torch counts them, and FLOPs."""
        return cost(self.n, self.heads, self.dtype, self.d_model)

    def frame(self, n: int, heads: int, dtype: str) -> dict[str, object]:
        """Return the costs at n and at 2 n, and the curves of memory."""
        now, doubled = (cost(count, heads, dtype, self.d_model) for count in (n, 2 * n))
        table = [
            [name, show(before), show(after), _growth(after // before)]
            for (name, show), before, after in zip(SHOWN.items(), now, doubled, strict=True)
        ]
        memory = [cost(count, heads, dtype, self.d_model)[:2] for count in STOPS]
        tile, four = table[0][1:3]
        return {
            "say": sentence(n, heads, dtype, self.d_model),
            "bad": False,
            "code": code(n, heads, dtype, self.d_model),
            "squares": {"n": n, "tile": tile, "label": f"A square of {tile}, and four: {four}."},
            "table": {"head": ["n", str(n), str(2 * n), ""], "body": table},
            "memory": {
                "values": [*zip(*memory, strict=True)],
                "under": f"{heads} × n × n weights of {dtype}; 1 MiB is 1024 × 1024 bytes",
            },
        }


def _growth(times: int) -> tuple[str, str]:
    return f"**× {times}**", "raw" if times > 2 else "scaled"


def _lines(names: Sequence[str], values: Iterable[Sequence[float]]) -> list[Line]:
    looks = (("raw", "dashed", "triangle"), ("scaled", "solid", "circle"))
    return [Line(name, line, *look) for name, line, look in zip(names, values, looks, strict=True)]


# --- words ----------------------------------------------------------------------------------------


def bytes_text(count: int) -> str:
    """Return a number of bytes as it is read: 8 MiB."""
    power = min(4, (count.bit_length() - 1) // 10)
    return f"{count / 1024**power:g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def flops_text(count: int) -> str:
    """Return a number of FLOPs as it is read: 2.15 G."""
    size, unit = next(pair for pair in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if count >= pair[0])
    return f"{float(f'{count / size:.3g}'):g} {unit}"


# what the numbers of a CostResult are called, and how they are written
SHOWN = {
    "attention weights": bytes_text,
    "Q, K and V": bytes_text,
    "FLOPs: attention": flops_text,
    "FLOPs: projections": flops_text,
}


@cache
def sentence(n: int, heads: int, dtype: str, d_model: int) -> str:
    """Return what the weights take at n and at 2 n, and which part has more to compute."""
    now, doubled = (cost(count, heads, dtype, d_model) for count in (n, 2 * n))
    more = doubled.weight_bytes // now.weight_bytes
    memory = (
        f"**n = {n}**: stored in {dtype}, the attention weights of {counted(heads, 'head')} "
        f"take {bytes_text(now.weight_bytes)}, and {more} times as much, "
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
