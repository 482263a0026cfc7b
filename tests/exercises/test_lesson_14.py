"""The checks of lesson 14: what they accept, and what they say of answers that are not slips."""

import torch

from tests.exercises.verdicts import accepts, names


def by_loops(layer, weights):
    new = weights.clone()
    length = weights.shape[-1]
    for i in range(length):
        others = [j for j in range(length) if j not in (0, i, length - 1)]
        new[..., i, others] = weights[..., i, others].mean(dim=-1, keepdim=True)
    return new


def zeros(layer, weights):
    if layer == 1:
        weights[:, 3] = 0.0
    return weights


test_accepts = accepts({
    "check_shared_rest": [by_loops],
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
    "check_shared_rest": {
        "This is the plain average": lambda layer, w: torch.full_like(w, 1 / w.shape[-1]),
        "Keep the diagonal and the first": lambda layer, w: w.flip(-1),
    },
    "check_removed_head": {
        "Set head 3 of the second layer to 0": lambda layer, weights: weights,
    },
    "check_fooling_sentence": {
        "leans towards river, the meaning": ("we rowed the canoe to the muddy bank", "river"),
        "one of the 35": ("We swam to the bank.", "money"),
        "It should be a sentence and its meaning": "the bank",
        'Your answer is “shore”. It should be "river" or "money".': ("the bank", "shore"),
        "cannot use this sentence": ("", "river"),
    },
})  # fmt: skip
