"""CostExplorer: bytes and FLOPs against torch's own counters, words that are true."""

import itertools
import re

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnlab import MultiHeadAttention, attention_scores
from attnlab.explorers import CostExplorer, many_heads
from attnlab.explorers.cost import DTYPES, HEADS, STOPS, WIDTHS, bytes_text, flops_text
from tests.explorers.common import DeclaredTests

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
PARTS = ("weight_bytes", "qkv_bytes", "attention_flops", "projection_flops")


def read_bytes(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


class TestCost(DeclaredTests):
    kind = CostExplorer
    states = [
        {"n": n, "heads": heads, "dtype": dtype}
        for n, heads, dtype in itertools.product(STOPS, HEADS, DTYPES)
    ]
    written = {
        "memory": "weight_bytes",
        "attention": "attention_flops",
        "projections": "projection_flops",
    }

    def expected(self, explorer):
        n, heads, kind = explorer.n, explorer.heads, {"dtype": DTYPES[explorer.dtype]}
        sizes = (heads, n, n), (3, n, 512)
        memory = [torch.empty(size, device="meta", **kind).nbytes for size in sizes]
        return dict(zip(PARTS, (*memory, 4 * n * n * 512, 8 * n * 512 * 512), strict=True))

    def check_words(self, explorer, said, result):
        n, heads, dtype = explorer.n, explorer.heads, explorer.dtype
        start = f"n = {n}: stored in {dtype}, the attention weights of {heads} head"
        assert said.startswith(start)
        assert ("heads take" in said) == (heads > 1)
        told = [read_bytes(found) for found in re.findall(r"[\d.]+ [KMGT]iB", said)]
        assert told == [result.weight_bytes, 4 * result.weight_bytes]
        assert "4 times as much" in said
        assert ("need the same FLOPs: n is 2 d_model" in said) == (n == 1024)
        if n != 1024:
            who, ratio = re.search(r"(\w+) needs? ([\d.]+) times the FLOPs of", said).groups()
            ends = result.attention_flops, result.projection_flops
            more, less = ends if who == "Attention" else ends[::-1]
            assert float(ratio) == more / less > 1

    def check_frame(self, explorer, frame, result):
        body = frame["table"]["body"]
        assert [row[3][0] for row in body] == ["**× 4**", "**× 2**", "**× 4**", "**× 2**"]
        assert read_bytes(body[0][2]) == 4 * result.weight_bytes
        assert read_bytes(body[1][1]) == result.qkv_bytes
        assert body[3][1] == flops_text(result.projection_flops)
        assert frame["squares"]["tile"] == bytes_text(result.weight_bytes)
        assert frame["squares"]["label"].endswith(f"four: {bytes_text(4 * result.weight_bytes)}.")
        assert [row[3][1] for row in body] == ["raw", "scaled", "raw", "scaled"]
        curves, at = frame["memory"]["values"], STOPS.index(explorer.n)
        assert [line[at] for line in curves] == [result.weight_bytes, result.qkv_bytes]


@pytest.mark.parametrize(("heads", "dtype"), [(1, "float16"), (8, "float32")])
def test_memory_is_that_of_the_tensors(heads, dtype):
    query = torch.zeros(1, heads, 128, 256 // heads, dtype=DTYPES[dtype])
    result = CostExplorer(256, n=128, heads=heads, dtype=dtype).result
    assert result.weight_bytes == attention_scores(query, query).nbytes
    assert result.qkv_bytes == 3 * query.nbytes


def flops_by_torch(n, d_model, heads):
    layer, x = MultiHeadAttention(d_model, heads), torch.zeros(1, n, d_model)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(x, x, x)
    return counter.get_total_flops()


def test_flops_are_those_that_torch_counts():
    for n, heads in ((64, 1), (512, 8)):
        result = CostExplorer(256, n=n, heads=heads).result
        told = result.attention_flops + result.projection_flops
        assert told == flops_by_torch(n, 256, heads)
    assert many_heads.compute(3).cost.flops == flops_by_torch(6, 12, 3)


@pytest.mark.parametrize("d_model", WIDTHS)
def test_both_parts_need_the_same_at_twice_d_model_and_curves_fit(d_model):
    explorer = CostExplorer(d_model, heads=32)
    memory, flops = explorer.panels[1:]
    assert flops.under.endswith(f"the lines cross at n = 2 d_model = {2 * d_model}")
    assert all(flops.y.low < v < flops.y.high for line in flops.lines for v in line.values)
    for explorer.n in STOPS:
        _, _, attention, projections = explorer.result
        assert (attention > projections) - (attention < projections) == (
            (explorer.n > 2 * d_model) - (explorer.n < 2 * d_model)
        )
        lines = explorer.frame_now()["memory"]["values"]
        assert all(memory.y.low < value < memory.y.high for line in lines for value in line)


def test_numbers_are_read_easily():
    counts = {512: "512 B", 8192: "8 KiB", 3 * 2**19: "1.5 MiB", 2**39: "512 GiB", 2**41: "2 TiB"}
    assert {count: bytes_text(count) for count in counts} == counts
    counts = {8_388_608: "8.39 M", 2**31: "2.15 G", 8.796e12: "8.8 T"}
    assert {count: flops_text(count) for count in counts} == counts


def test_frames_of_another_width_are_other_ones():
    says = [CostExplorer(d_model).data["pool"][0] for d_model in (256, 4096)]
    assert "the FLOPs of attention" in says[0]
    assert says[0] != says[1]
