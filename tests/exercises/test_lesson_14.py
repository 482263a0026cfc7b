"""The checks of lesson 14: what they accept, and what they say of answers that are not slips."""

import torch

from tests.exercises.verdicts import accepts, names


def norm(x):
    return x / x.norm(dim=-1, keepdim=True)


def by_sums(vectors, is_first):
    """Take the sentence out of the sum of its meaning; the size of a mean does not matter."""
    sums = torch.stack([vectors[is_first].sum(0), vectors[~is_first].sum(0)])
    found = []
    for i, one in enumerate(vectors):
        own = sums.clone()
        own[0 if is_first[i] else 1] -= one
        found.append((norm(one) * norm(own[0])).sum(-1) - (norm(one) * norm(own[1])).sum(-1))
    return torch.stack(found)


def zeros(layer, weights):
    if layer == 1:
        weights[:, 3] = 0.0
    return weights


test_accepts = accepts({
    "check_left_out": [by_sums],
    "check_removed_head": [zeros],
    "check_fooling_sentence": [
        ("the cashier sat on the bank and fed the ducks", "river"),
        lambda: ("The ducks in the pond in front of the bank.", "money"),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_needed_sentences": {
        "The interval still reaches below 0.9": 20,
    },
    "check_left_out": {
        "torch.bool instead of": lambda v, is_first: by_sums(v, is_first) > 0,
    },
    "check_removed_head": {
        "Set head 3 of the second layer to 0": lambda layer, weights: weights,
    },
    "check_fooling_sentence": {
        "leans to river, as you say": ("we rowed the canoe to the muddy bank", "river"),
        "one of the 35": ("We swam to the bank.", "money"),
        "It should be a sentence and its meaning": "the bank",
        'Your answer is “shore”. It should be "river" or "money".': ("the bank", "shore"),
        "cannot use this sentence": ("", "river"),
    },
})  # fmt: skip
