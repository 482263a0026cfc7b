"""The checks of lesson 12: what they accept, and what they say of answers that are not slips."""

import torch

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


test_accepts = accepts({
    "check_followers": [by_loops],
    "check_best_key": [
        lambda q, k: torch.stack([(k[: i + 1] @ q[i]).argmax() for i in range(len(q))]),
    ],
    "check_mended_stream": [in_a_loop],
})  # fmt: skip

test_names_the_mistake = names({
    "check_mended_stream": {
        "One bug is left": lambda x, first, second: (
            (found := first(norm(x))) + second(norm(x + found))
        ),
    },
    "check_best_key": {
        "int32 instead of torch.int64": lambda q, k: (q @ k.T)
        .masked_fill(torch.ones(len(q), len(q)).triu(1) > 0, -torch.inf)
        .argmax(-1)
        .int(),
    },
    "check_followers": {"float32 instead of torch.bool": lambda tokens: by_loops(tokens).float()},
})  # fmt: skip
