"""The checks of lesson 11: what they accept, and what they say of answers that are not slips."""

import math

import torch
import torch.nn.functional as F

from attnlab import rotate
from tests.exercises.verdicts import accepts, names


def angles(x, positions, base):
    size = x.shape[-1]
    return positions[:, None] * base ** (-torch.arange(0, size, 2) / size)


def as_points(x, positions, base=10_000.0):
    """Turn complex numbers."""
    points = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    turns = torch.polar(torch.ones(()), angles(x, positions, base))
    return torch.view_as_real(points * turns).flatten(-2)


def into_views(x, positions, base=10_000.0):
    """Overwrite the first numbers before the second ones are computed."""
    x, angle = x.clone(), angles(x, positions, base)
    a, b = x[..., 0::2], x[..., 1::2]
    x[..., 0::2] = a * angle.cos() - b * angle.sin()
    x[..., 1::2] = a * angle.sin() + b * angle.cos()
    return x


def reflected(x, positions, base=10_000.0):
    a, b, angle = x[..., 0::2], x[..., 1::2], angles(x, positions, base)
    first, second = a * angle.cos() + b * angle.sin(), a * angle.sin() - b * angle.cos()
    return torch.stack([first, second], dim=-1).flatten(-2)


def both_by_the_same_angle_more(query, key, value):
    places = torch.arange(query.shape[-2]) + 100
    query, key = rotate(query, places), rotate(key, places)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def undivided(query, key, value):
    query, key = rotate(query), rotate(key)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=1.0)


def by_index(weight, num_heads):
    size = len(weight) // num_heads
    inside = [*range(0, size, 2), *range(1, size, 2)]
    return weight[[head * size + i for head in range(num_heads) for i in inside]]


def test_the_reordered_rows_give_the_scores_of_pairs_in_halves():
    x, query, key = torch.randn(5, 12), torch.randn(12, 12), torch.randn(12, 12)

    def scores(layout, *weights):
        q, k = ((x @ one.T).unflatten(-1, (3, 4)).transpose(0, 1) for one in weights)
        return rotate(q, layout=layout) @ rotate(k, layout=layout).mT

    wanted = scores("pairs", query, key)
    torch.testing.assert_close(scores("halves", by_index(query, 3), by_index(key, 3)), wanted)
    assert not torch.allclose(scores("halves", query, key), wanted)


test_accepts = accepts({
    "check_rotate_at": [as_points, lambda x, places, base=1e4: rotate(x, places, base=base)],
    "check_mended_rotary": [both_by_the_same_angle_more],
    "check_to_halves": [by_index],
})  # fmt: skip

test_names_the_mistake = names({
    "check_angle_of_pair": {"angle in turns": 4 / (2 * math.pi)},
    "check_rotate_at": {
        "is a view": into_views,
        "reflects each pair": reflected,
    },
    "check_mended_rotary": {"the scale": undivided},
})  # fmt: skip
