"""The checks of lesson 12: what they accept, and what they say of answers that are not slips."""

import torch
import torch.nn.functional as F

from attnlab.exercises import (
    check_followers,
    check_mended_stream,
    check_place_to_look,
    check_score_by_place,
)
from attnlab.exercises.lesson_12 import ASKS, FOUND, TEXT
from attnlab.looking_back import followers, to_tokens
from tests.exercises.verdicts import accepts, names


def by_loops(tokens):
    N, L = tokens.shape
    mask = torch.zeros(N, L, L, dtype=torch.bool)
    for n in range(N):
        for i in range(L):
            for j in range(1, i + 1):
                mask[n, i, j] = tokens[n, j - 1] == tokens[n, i]
    return mask


def norm(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()


def in_a_loop(x, *layers):
    for layer in layers:
        x = x + layer(norm(x))
    return x


def in_place(x, first, second):
    x += first(norm(x))
    return x + second(norm(x))


def test_the_place_is_the_only_follower():
    marked = followers(to_tokens(TEXT)[None])[0, ASKS].nonzero().flatten()
    assert marked.tolist() == [FOUND]


test_accepts = accepts(
    {
        check_place_to_look: [5, 5.0, lambda: torch.tensor(5), "MILKSHA".index("H")],
        check_followers: [by_loops],
        check_score_by_place: [
            lambda w: torch.stack([w[:, :, i, i - 1].mean(0) for i in range(1, w.shape[-1])], -1),
            lambda w: w.mean(0).diagonal(-1, 1, 2),
            lambda w: w[:, :, 1:, :-1].diagonal(0, 2, 3).mean(0),
        ],
        check_mended_stream: [in_a_loop],
    }
)

test_names_the_mistake = names(
    {
        check_place_to_look: {
            "7 is not the place. Find the earlier copy of the last letter": 7,
            "Places are counted from 0": lambda: 6,
        },
        check_followers: {
            "must be (1, 7, 7), got (1, 7)": lambda t: by_loops(t).any(-1),
            "must be torch.bool, got torch.float32": lambda t: by_loops(t).float(),
            "Compare each token, in a row": lambda t: ~by_loops(t),
        },
        check_score_by_place: {
            "must be (2, 6), got (2, 5)": lambda w: w.diagonal(-2, 2, 3).mean(0),
            "Take the entries one below": lambda w: 2 * w.diagonal(-1, 2, 3).mean(0),
        },
        check_mended_stream: {
            "2 bugs are left": lambda x, first, second: first(norm(x)) + second(norm(x)),
            "changes its arguments in place": in_place,
            "Each layer reads the normed stream": lambda x, first, second: x,
            "What a layer reads is not normed": lambda x, first, second: (
                (x + first(x)) + second(x + first(x))
            ),
            "Only the second layer's output": lambda x, first, second: second(
                F.layer_norm(x + first(norm(x)), x.shape[-1:])
            ),
        },
    }
)
