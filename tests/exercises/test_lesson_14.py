"""The checks of lesson 14: what they accept, and what they say of answers that are not slips."""

import torch

from tests.exercises.verdicts import accepts, names


def by_loops(weights, position):
    new = weights.clone()
    for query in range(weights.shape[-1]):
        if query != position:
            new[..., query, position] = 0
            new[..., query, :] /= new[..., query, :].sum(dim=-1, keepdim=True)
    return new


def by_mask(x, position, donor, there):
    at = torch.arange(len(x))[:, None] == position
    return torch.where(at, donor[there], x)


def in_place(x, position, donor, there):
    x[position] = donor[there]
    return x


def exchanged(x, position, donor, there):
    new = x.clone()
    new[position], donor[there] = donor[there].clone(), x[position]
    return new


def without_its_row(weights, position):
    new = weights.clone()
    new[..., position, :] = 0
    return new / new.sum(dim=-1, keepdim=True)


def hidden_in_place(weights, position):
    row = weights[..., position, :].clone()
    weights[..., position] = 0
    weights /= weights.sum(dim=-1, keepdim=True)
    weights[..., position, :] = row
    return weights


def zeroed(weights, position, queries, axis=None):
    new = weights.clone()
    new[..., queries, position] = 0
    return new if axis is None else new / new.sum(dim=axis, keepdim=True)


def zeroed_with_its_row(weights, position):
    new = zeroed(weights, position, slice(None))
    new[..., position, :] = 0
    return new / new.sum(dim=-1, keepdim=True)


def minus_infinity(weights, position):
    new = weights.clone()
    new[..., position] = -torch.inf
    new[..., position, :] = weights[..., position, :]
    return new.softmax(dim=-1)


def nothing_if_equal(x, position, donor, there):
    return x.clone() if position == there else by_mask(x, position, donor, there)


test_accepts = accepts({
    "check_hidden_token": [by_loops],
    "check_careful_swap": [by_mask],
    "check_fooling_sentence": [
        ("the cashier sat on the bank and fed the ducks", "river"),
        lambda: ("The ducks in the pond in front of the bank.", "money"),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_hidden_token": {
        "Keep its whole row": lambda w, p: w.index_fill(-1, torch.tensor(p), 0),
        "Keys are on the last axis": without_its_row,
        "The others still attend to the hidden token": lambda w, p: zeroed(w, p, p, -1),
        "divide it by its sum, 0. Keep that row": zeroed_with_its_row,
        "Sum over the keys": lambda w, p: zeroed(w, p, slice(None), -2),
        "Copy them first": hidden_in_place,
        "without another softmax": minus_infinity,
        "In all other rows, set the weight": lambda w, p: w.flip(-1),
    },
    "check_careful_swap": {
        "Exchange one vector": lambda x, i, donor, j: x + 1,
        "the vectors that it was given": in_place,
        "Change only a copy of x": exchanged,
        "the one at `position`, for": nothing_if_equal,
    },
    "check_fooling_sentence": {
        "First the sentence": ("River ", "the cashier sat on the bank and fed the ducks"),
        "the meaning that you gave. Add": ("we rowed the canoe to the muddy bank", "river"),
        "one of the sentences of the lesson": ("We  swam, to the bank.", "money"),
        "leans towards “money”, the meaning": ("the bank fed the ducks", "money"),
        "leans to no side. Add": ("now the thief sailed to the bank with the gold", "river"),
        "It should be a sentence and its meaning": "the bank",
        'Your answer is “shore”. It should be "river" or "money".': ("the bank", "shore"),
        "at least 5 words": ("the river bank", "money"),
        "4 of them different": ("money money money bank money", "river"),
        "cannot use this sentence": ("the bank at the \ud800 river", "river"),
    },
})  # fmt: skip
