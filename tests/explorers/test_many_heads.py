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


def test_another_number_of_parameters_would_be_noticed(monkeypatch):
    say = ManyHeadsExplorer.say
    monkeypatch.setattr(ManyHeadsExplorer, "say", lambda self: say(self).replace("624", "625"))
    with pytest.raises(AssertionError):
        test_the_sentence_is_true(4, 0)


def test_the_browser_gets_every_map_and_price():
    data = ManyHeadsExplorer().data
    assert [frame["heads"] for frame in data["frames"]] == data["stops"] == list(STOPS)
    for frame in data["frames"]:
        result = compute(frame["heads"])
        torch.testing.assert_close(
            torch.tensor(frame["weights"]), result.weights, atol=6e-4, rtol=0
        )
        assert frame["cost"] == result.cost._asdict()
        explorer = ManyHeadsExplorer(heads=frame["heads"], shown=frame["heads"] - 1)
        said = f"{frame['say']} {frame['orders'][-1]}".replace("**", "")
        assert explorer.say() == said


def test_of_fewer_heads_the_last_is_shown():
    explorer = ManyHeadsExplorer(heads=4, shown=11)
    assert "rows of head 3" in explorer.say()
    assert explorer.figure().subfigs[0].axes[0].get_title(loc="left") == "head 3 of 4"


@pytest.mark.parametrize("heads", STOPS)
def test_the_still_picture_has_a_map_per_head(heads):
    large, small = ManyHeadsExplorer(heads=heads).figure().subfigs
    assert (len(large.axes), len(small.axes)) == (1, heads)


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"heads": 5}, "heads must be one of 1, 2, 3, 4, 6, 12, got 5"),
        ({"heads": 0}, "got 0"),
        ({"heads": -12}, "got -12"),
        ({"heads": 4.0}, "got 4.0"),
        ({"heads": True}, "got True"),
        ({"heads": "12"}, "got '12'"),
        ({"heads": float("nan")}, "got nan"),
        ({"heads": torch.tensor([4])}, "got tensor"),
        ({"shown": 12}, "shown must be one of 0, 1, .*, 11, got 12"),
        ({"shown": -1}, "got -1"),
        ({"shown": None}, "got None"),
        ({"shown": [0] * 10_000}, r"got \[0, 0, .*\.\.\."),
    ],
)
def test_a_hostile_state_gets_one_sentence(state, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        ManyHeadsExplorer(**state)
    assert len(str(caught.value)) < 200
