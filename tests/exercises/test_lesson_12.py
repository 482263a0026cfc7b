"""The checks of lesson 12: what they accept, and what they say of answers that are not slips."""

import torch

from tests.exercises.verdicts import accepts, names


def by_loops(weights, tokens):
    on_copies = []
    for n, text in enumerate(tokens.tolist()):
        for i, letter in enumerate(text):
            copies = [j for j in range(i) if text[j] == letter != 26]
            if copies:
                on_copies.append(weights[n, :, i, copies].sum(dim=-1))
    return torch.stack(on_copies).mean(dim=0)


def text_by_text(weights, tokens):
    return torch.stack(
        [by_loops(one[None], text[None]) for one, text in zip(weights, tokens, strict=True)]
    ).mean(dim=0)


def with_itself(weights, tokens):
    marked = (tokens[:, :, None] == tokens[:, None]) & (tokens != 26)[:, :, None]
    return (weights * marked[:, None]).sum(dim=(0, 2, 3)) / marked.any(dim=-1).sum()


def over_all_letters(weights, tokens):
    marked = (tokens[:, :, None] == tokens[:, None]).tril(-1) & (tokens != 26)[:, :, None]
    return (weights * marked[:, None]).sum(dim=(0, 2, 3)) / (tokens != 26).sum()


def bars_in_the_count(weights, tokens):
    marked = (tokens[:, :, None] == tokens[:, None]).tril(-1)
    on_copies = weights * (marked & (tokens != 26)[:, :, None])[:, None]
    return on_copies.sum(dim=(0, 2, 3)) / marked.any(dim=-1).sum()


def norm(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()


def silenced(x, layers, removed):
    for number, layer in enumerate(layers):
        x = x + layer(norm(x)) * (number != removed)
    return x


test_accepts = accepts({
    "check_same_letter_score": [by_loops],
    "check_best_key": [
        lambda q, k: torch.stack([(k[: i + 1] @ q[i]).argmax() for i in range(len(q))]),
    ],
    "check_mended_stream": [silenced],
})  # fmt: skip

test_names_the_mistake = names({
    "check_mended_stream": {
        "One bug is left": lambda x, layers, removed: silenced(x, layers[:removed], removed),
        "also normalised at the end": lambda x, layers, removed: norm(silenced(x, layers, removed)),
    },
    "check_best_key": {
        "int32 instead of torch.int64": lambda q, k: (q @ k.T)
        .masked_fill(torch.ones(len(q), len(q)).triu(1) > 0, -torch.inf)
        .argmax(-1)
        .int(),
    },
    "check_same_letter_score": {
        "take the mean over the letters that have one": text_by_text,
        "weight that a token gives itself": with_itself,
        "tokens that have no earlier copy": over_all_letters,
        "all heads together": lambda weights, tokens: by_loops(weights, tokens) / weights.shape[1],
        "also counts the bars": lambda weights, tokens: by_loops(weights, tokens.clamp(max=25)),
        "Leave out the token 26": bars_in_the_count,
        "one number for each head": lambda weights, tokens: by_loops(weights, tokens).mean(),
    },
})  # fmt: skip
