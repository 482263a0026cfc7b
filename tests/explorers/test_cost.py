"""CostExplorer: bytes and FLOPs against torch's own counters, words that are true."""

import itertools
import re

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnlab import MultiHeadAttention, attention_scores
from attnlab.explorers import CostExplorer
from attnlab.explorers.cost import DTYPES, HEADS, STOPS, WIDTHS, bytes_text, flops_text

STATES = list(itertools.product(STOPS, HEADS, DTYPES))
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def read_bytes(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


@pytest.mark.parametrize(("heads", "dtype"), [*itertools.product(HEADS, DTYPES)])
def test_memory_is_that_of_the_tensors(heads, dtype):
    query = torch.zeros(1, heads, 128, 256 // heads, dtype=DTYPES[dtype])
    result = CostExplorer(256, n=128, heads=heads, dtype=dtype).result
    assert result.weight_bytes == attention_scores(query, query).nbytes
    assert result.qkv_bytes == 3 * query.nbytes


@pytest.mark.parametrize(("n", "heads"), [(64, 1), (64, 8), (512, 8)])
def test_flops_are_those_that_torch_counts(n, heads):
    layer = MultiHeadAttention(256, heads)
    x = torch.zeros(1, n, 256)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(x, x, x)
    result = CostExplorer(256, n=n, heads=heads).result
    assert result.attention_flops + result.projection_flops == counter.get_total_flops()


@pytest.mark.parametrize("d_model", WIDTHS)
def test_both_parts_need_the_same_at_twice_d_model_and_nowhere_else(d_model):
    for n in STOPS:
        result = CostExplorer(d_model, n=n).result
        assert (result.attention_flops == result.projection_flops) == (n == 2 * d_model)
        assert (result.attention_flops > result.projection_flops) == (n > 2 * d_model)


def test_twice_the_tokens_take_four_times_the_memory_and_heads_count_once():
    explorer = CostExplorer(n=1024)
    before = explorer.result
    explorer.n = 2048
    grown = [new / old for new, old in zip(explorer.result, before, strict=True)]
    assert grown == [4, 2, 4, 2]
    explorer.n, explorer.heads = 1024, 32
    assert explorer.result.weight_bytes == 4 * before.weight_bytes
    assert explorer.result[1:] == before[1:]
    explorer.dtype = "float16"
    assert explorer.result.weight_bytes == 2 * before.weight_bytes


@pytest.mark.parametrize(("n", "heads", "dtype"), STATES)
def test_the_sentence_is_true(n, heads, dtype):
    explorer = CostExplorer(n=n, heads=heads, dtype=dtype)
    text, result = explorer.say(), explorer.result
    size = 2 if dtype == "float16" else 4
    assert text.startswith(f"n = {n}: stored in {dtype}, the attention weights of {heads} head")
    assert ("heads take" in text) == (heads > 1)
    told = [read_bytes(found) for found in re.findall(r"[\d.]+ [KMGT]iB", text)]
    assert told == [heads * n * n * size, heads * (2 * n) ** 2 * size]
    assert "4 times as much" in text
    if n == 1024:
        assert "need the same FLOPs: n is 2 d_model" in text
        return
    who, ratio = re.search(r"(\w+) needs? ([\d.]+) times the FLOPs of", text).groups()
    ends = result.attention_flops, result.projection_flops
    more, less = ends if who == "Attention" else ends[::-1]
    assert float(ratio) == more / less > 1


def test_numbers_are_read_easily():
    assert [bytes_text(count) for count in (512, 8192, 3 * 2**19, 2**39, 2**41)] == [
        "512 B",
        "8 KiB",
        "1.5 MiB",
        "512 GiB",
        "2 TiB",
    ]
    assert [flops_text(count) for count in (8_388_608, 2**31, 8.796e12)] == [
        "8.39 M",
        "2.15 G",
        "8.8 T",
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_frames_show_the_costs_and_code_computes_them_again(dtype):
    for n, heads in itertools.product(STOPS, HEADS):
        explorer = CostExplorer(1024, n=n, heads=heads, dtype=dtype)
        frame, result, names = explorer.frame_now(), explorer.result, {"torch": torch}
        exec(frame["code"], names)
        assert names["memory"] == result.weight_bytes
        assert names["attention"] == result.attention_flops
        assert names["projections"] == result.projection_flops
        body = frame["table"]["body"]
        assert [row[3][0] for row in body] == ["**× 4**", "**× 2**", "**× 4**", "**× 2**"]
        assert read_bytes(body[0][2]) == 4 * result.weight_bytes
        assert read_bytes(body[1][1]) == result.qkv_bytes
        assert body[3][1] == flops_text(result.projection_flops)
        assert frame["squares"]["tile"] == bytes_text(result.weight_bytes)
        curves, at = frame["memory"]["values"], STOPS.index(n)
        assert [line[at] for line in curves] == [result.weight_bytes, result.qkv_bytes]


def test_curves_fit_on_their_axes():
    for d_model in WIDTHS:
        explorer = CostExplorer(d_model, n=65536, heads=32)
        memory, flops = explorer.panels[1:]
        lines = [*explorer.frame_now()["memory"]["values"]]
        assert all(memory.y.low < value < memory.y.high for line in lines for value in line)
        assert all(flops.y.low < v < flops.y.high for line in flops.lines for v in line.values)


def test_frames_of_another_width_are_other_ones():
    says = [CostExplorer(d_model).data["pool"][0] for d_model in (256, 4096)]
    assert "the FLOPs of attention" in says[0]
    assert says[0] != says[1]


def test_a_width_that_is_not_offered_is_refused():
    with pytest.raises(ValueError, match="d_model must be one of 256, 512, 1024, 4096, got 0"):
        CostExplorer(0)
