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


@pytest.mark.parametrize(("n", "heads", "dtype"), STATES)
def test_the_browser_gets_what_torch_computed(n, heads, dtype):
    explorer = CostExplorer(n=n, heads=heads, dtype=dtype)
    sent = explorer.data["frames"][dtype][str(heads)][STOPS.index(n)]
    assert sent["costs"] == list(explorer.result)
    assert sent["say"] == explorer.say()
    assert [row[2] for row in sent["table"]] == [4, 2, 4, 2]
    assert read_bytes(sent["table"][0][1]) == 4 * explorer.result.weight_bytes
    assert read_bytes(sent["table"][1][0]) == explorer.result.qkv_bytes
    assert sent["table"][3][0] == flops_text(explorer.result.projection_flops)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_lines_of_pytorch_give_the_numbers(dtype):
    explorer = CostExplorer(1024, n=4096, heads=32, dtype=dtype)
    names = {"torch": torch}
    exec(explorer.data["frames"][dtype]["32"][STOPS.index(4096)]["code"], names)
    result = explorer.result
    assert names["memory"] == result.weight_bytes
    assert names["attention"] == result.attention_flops
    assert names["projections"] == result.projection_flops


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"n": 100}, "n must be one of 64, 128, .*, 65536, got 100"),
        ({"n": 512.0}, "got 512.0"),
        ({"n": -64}, "got -64"),
        ({"n": float("nan")}, "got nan"),
        ({"n": True}, "got True"),
        ({"heads": 3}, "heads must be one of 1, 8, 32, got 3"),
        ({"heads": True}, "got True"),
        ({"dtype": torch.float32}, "dtype must be one of 'float32', 'float16', got torch.float32"),
        ({"d_model": 0}, "d_model must be one of 256, 512, 1024, 4096, got 0"),
        ({"d_model": "512"}, "got '512'"),
    ],
)
def test_a_hostile_state_gets_one_sentence(state, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        CostExplorer(**state)
    assert len(str(caught.value)) < 200


def test_the_page_is_small():
    assert len(CostExplorer(4096).to_html(library=False)) < 120_000
