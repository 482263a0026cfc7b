"""The checks of lesson 14: what they accept, and what they say of answers that are not slips."""

import torch

from attnlab.exercises import (
    check_fooling_sentence,
    check_needed_sentences,
    check_removed_head,
    check_shared_rest,
)
from tests.exercises.verdicts import accepts, names, refused


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


def by_mask(layer, weights):
    keep = torch.ones(12)
    keep[3] = layer != 1
    return weights * keep[:, None, None]


test_accepts = accepts({
    check_needed_sentences: [35],
    check_shared_rest: [by_loops],
    check_removed_head: [zeros, by_mask],
    check_fooling_sentence: [
        ("the cashier sat on the bank and fed the ducks", "river"),
        lambda: ("The ducks in the pond in front of the bank.", "money"),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    check_needed_sentences: {
        "The interval still reaches below 0.9": 20,
        "A smaller number of sentences": lambda: 100,
        "one too few": 34,
    },
    check_shared_rest: {
        "This is the plain average": lambda layer, w: torch.full_like(w, 1 / w.shape[-1]),
        "Keep the diagonal and the first": lambda layer, w: w.flip(-1),
    },
    check_removed_head: {
        "-inf belongs in scores": lambda layer, w: (
            w.index_fill(1, torch.tensor(3), -torch.inf) if layer == 1 else w
        ),
        ("layer 1", "Nothing is removed"): lambda layer, w: w,
    },
    check_fooling_sentence: {
        "leans to river, as you say": ("we rowed the canoe to the muddy bank", "river"),
        "one of the 35": ("We swam to the bank.", "money"),
        "It should be a sentence and its meaning": "the bank",
        "not “3”": lambda: ("the bank", 3),
        "must be “river” or “money”, not “shore”": ("the bank", "shore"),
        "the word “bank” once, not 0 times": ("the shore", "river"),
        "cannot use this sentence": ("", "river"),
    },
})  # fmt: skip


def test_a_refusal_shows_the_leans():
    verdict = refused(check_fooling_sentence, ("we rowed the canoe to the muddy bank", "river"))
    assert "layer 5" in repr(verdict)
