"""ManyHeadsExplorer: maps and costs are those of the package, and what is said of them is true."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import MultiHeadAttention, split_heads
from attnlab.explorers import ManyHeadsExplorer
from attnlab.explorers.many_heads import STOPS, compute
from tests.explorers.common import DeclaredTests, at


def drawn():
    return torch.randn(2, 6, 12, generator=torch.Generator().manual_seed(0))


class TestManyHeads(DeclaredTests):
    kind = ManyHeadsExplorer
    states = [
        {"heads": heads, "shown": shown} for heads in STOPS for shown in {0, heads // 2, heads - 1}
    ]
    written = {"weights": "weights"}

    def given(self, explorer):
        return dict(zip(("query", "key"), drawn(), strict=True))

    def expected(self, explorer):
        """Attend with slices of the queries and keys, head by head."""
        slices = zip(*(one.split(12 // explorer.heads, dim=-1) for one in drawn()), strict=True)
        unit = torch.eye(6)
        maps = [F.scaled_dot_product_attention(query, key, unit) for query, key in slices]
        return {"weights": torch.stack(maps), "head_dim": 12 // explorer.heads}

    def check_words(self, explorer, said, result):
        heads, alone = explorer.heads, compute(1).cost
        many, features = re.match(r"(\d+) heads? of (\d+) features?[:]", said).groups()
        assert (int(many), int(features)) == (heads, result.head_dim)
        assert f"{result.cost.parameters} parameters" in said
        assert f"{result.cost.weights} attention weights" in said
        assert ("as with one head" in said) == (heads > 1)
        assert result.cost[:2] == alone[:2]  # parameters and FLOPs
        assert (f"instead of {alone.weights}." in said) == (heads > 1)
        head, orders = re.search(
            r"rows of head (\d+) rank the words in (?:only )?(\d)(?: different)? orders", said
        ).groups()
        assert (int(head), int(orders)) == (explorer.shown, result.orders[explorer.shown])
        assert ("one the reverse of the other" in said) == (heads == 12)
        assert int(orders) > 1  # the plural is right

    def check_frame(self, explorer, frame, result):
        heads, shown, size = explorer.heads, explorer.shown, result.head_dim
        assert torch.equal(frame["maps"]["maps"], result.weights)
        assert torch.equal(frame["map"]["cells"], result.weights[shown])
        first, last = shown * size, shown * size + size - 1
        features = f"feature {last}" if size == 1 else f"features {first} to {last}"
        assert features in frame["map"]["under"]
        assert frame["slices"] == {"heads": heads, "size": size, "shown": shown}
        numbers = [*zip((*compute(1).cost, 12), (*result.cost, size), strict=True)]
        for (one, now), (_, *texts, change) in zip(numbers, frame["costs"]["body"], strict=True):
            assert texts == [f"{one:,}", f"{now:,}"]
            sign = "×" if now > one else "÷"
            assert change == "same" if now == one else change[0] == f"**{sign} {heads}**"


@pytest.mark.parametrize("heads", STOPS)
def test_costs_and_orders_are_counted_by_torch_and_row_by_row(heads):
    cost, orders = compute(heads).cost, compute(heads).orders
    layer = nn.MultiheadAttention(12, heads, bias=False)
    assert cost.parameters == sum(p.numel() for p in layer.parameters()) == 4 * 12 * 12
    weights = MultiHeadAttention(12, heads)(torch.randn(1, 6, 12)).weights
    assert (cost.weights, cost.weight_bytes) == (weights.numel(), weights.nbytes)
    query, key = (split_heads(one, heads) for one in drawn())
    for scores, counted in zip(query @ key.transpose(-2, -1), orders, strict=True):
        ranked = {tuple(row.argsort().tolist()) for row in scores}
        assert counted == len(ranked)
        if heads == 12:
            one, other = sorted(ranked)
            assert one == other[::-1]


def test_of_fewer_heads_the_last_is_shown_and_the_still_picture_has_a_map_per_head():
    explorer = at(ManyHeadsExplorer, heads=4, shown=11)
    assert "rows of head 3" in explorer.say()
    small, large = explorer.figure().axes
    assert large.get_title(loc="left") == "head 3 of 4"
    extents = [image.get_extent() for image in small.images]
    assert extents == [[left, left + 6, low, low - 6] for low in (6, 14) for left in (0, 7)]
    assert small.yaxis_inverted()  # the first row is on top
    weights = compute(4).weights
    assert torch.equal(torch.tensor(large.collections[0].get_array()).float(), weights[3])
    for image, one in zip(small.images, weights, strict=True):
        assert torch.equal(torch.tensor(image.get_array()), one)
        assert image.get_clim() == (0, 1)
