"""ManyHeadsExplorer: maps and costs are those of the package, and what is said of them is true."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attnlab import MultiHeadAttention, split_heads
from attnlab.explorers import ManyHeadsExplorer
from attnlab.explorers.many_heads import STOPS, code, compute

STATES = [(heads, shown) for heads in STOPS for shown in {0, heads // 2, heads - 1}]


def drawn():
    return torch.randn(2, 6, 12, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("heads", STOPS)
def test_every_map_is_the_attention_of_a_slice(heads):
    result = ManyHeadsExplorer(heads=heads).result
    query, key = drawn()
    assert result.weights.shape == (heads, 6, 6)
    assert result.head_dim * heads == 12
    for head, weights in enumerate(result.weights):
        own = slice(head * result.head_dim, (head + 1) * result.head_dim)
        wanted = F.scaled_dot_product_attention(query[:, own], key[:, own], torch.eye(6))
        torch.testing.assert_close(weights, wanted)


@pytest.mark.parametrize("heads", STOPS)
def test_parameters_and_flops_stay_and_weights_grow(heads):
    cost = compute(heads).cost
    torchs = nn.MultiheadAttention(12, heads)
    assert cost.parameters == sum(p.numel() for p in torchs.parameters())
    assert cost[:2] == compute(1).cost[:2]
    layer = MultiHeadAttention(12, heads)
    with FlopCounterMode(display=False) as counter:
        weights = layer(torch.randn(1, 6, 12)).weights
    assert cost.flops == counter.get_total_flops() == 2 * 6 * 12 * (4 * 12 + 2 * 6)
    assert cost.weights == weights.numel() == 36 * heads
    assert cost.weight_bytes == weights.nbytes == 4 * 36 * heads


@pytest.mark.parametrize("heads", STOPS)
def test_the_orders_are_counted_row_by_row(heads):
    query, key = (split_heads(one, heads) for one in drawn())
    raw = query @ key.transpose(-2, -1)
    for head, scores in enumerate(raw):
        ranked = {tuple(row.argsort().tolist()) for row in scores}
        assert compute(heads).orders[head] == len(ranked)
        if heads == 12:
            one, other = sorted(ranked)
            assert one == other[::-1]


@pytest.mark.parametrize("heads", STOPS)
def test_the_lines_of_pytorch_make_the_maps(heads):
    query, key = drawn()
    names = {"query": query, "key": key}
    exec(code(heads), names)
    torch.testing.assert_close(names["weights"], compute(heads).weights)


@pytest.mark.parametrize(("heads", "shown"), STATES)
def test_the_sentence_is_true(heads, shown):
    explorer = ManyHeadsExplorer(heads=heads, shown=shown)
    text, result = explorer.say(), explorer.result
    assert "*" not in text
    many, features = re.match(r"(\d+) heads? of (\d+) features?[:]", text).groups()
    assert (int(many), int(features)) == (heads, result.head_dim)
    assert f"{result.cost.parameters} parameters" in text
    assert f"{result.cost.weights} attention weights" in text
    if heads > 1:
        assert "as with one head" in text
        assert result.cost.parameters == compute(1).cost.parameters
        assert f"instead of {compute(1).cost.weights}." in text
    head, orders = re.search(
        r"rows of head (\d+) rank the words in (?:only )?(\d)(?: different)? orders", text
    ).groups()
    assert (int(head), int(orders)) == (shown, result.orders[shown])
    assert ("one the reverse of the other" in text) == (heads == 12)
    assert int(orders) > 1  # the plural is right


@pytest.mark.parametrize("heads", STOPS)
def test_frames_show_maps_and_costs_beside_those_of_one_head(heads):
    frame, result = ManyHeadsExplorer(heads=heads, shown=heads - 1).frame_now(), compute(heads)
    assert torch.equal(frame["maps"]["maps"], result.weights)
    assert torch.equal(frame["map"]["cells"], result.weights[-1])
    head_dim = 12 // heads
    last = "feature 11" if head_dim == 1 else f"features {12 - head_dim} to 11"
    assert last in frame["map"]["under"]
    assert frame["slices"] == {"heads": heads, "size": head_dim, "shown": heads - 1}
    numbers = [*zip((*compute(1).cost, 12), (*result.cost, head_dim), strict=True)]
    assert [tuple(row[1:3]) for row in frame["costs"]["body"]] == [
        (f"{one:,}", f"{now:,}") for one, now in numbers
    ]
    for (one, now), (*_, change) in zip(numbers, frame["costs"]["body"], strict=True):
        sign = "×" if now > one else "÷"
        assert change == "same" if now == one else change[0] == f"**{sign} {heads}**"


def test_of_fewer_heads_the_last_is_shown():
    explorer = ManyHeadsExplorer(heads=4, shown=11)
    assert "rows of head 3" in explorer.say()
    assert explorer.figure().axes[1].get_title(loc="left") == "head 3 of 4"


@pytest.mark.parametrize("heads", STOPS)
def test_the_still_picture_has_a_map_per_head(heads):
    small, large = ManyHeadsExplorer(heads=heads).figure().axes
    weights = compute(heads).weights
    assert len(small.images) == heads
    for image, one in zip(small.images, weights, strict=True):
        assert torch.equal(torch.tensor(image.get_array()), one)
        assert image.get_clim() == (0, 1)
    assert torch.equal(torch.tensor(large.collections[0].get_array()).float(), weights[0])
