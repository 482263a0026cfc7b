"""The checks of lesson 0: what they accept, and what they say of other wrong answers."""

import torch
import torch.nn.functional as F

from attnlab import exercises
from tests.exercises.verdicts import accepts, names, refused


def by_hand(query, x, hidden):
    seen = [row for place, row in enumerate(x) if place != hidden]
    powers = torch.tensor([float(row @ query / len(query) ** 0.5) for row in seen]).exp()
    return sum(power * row for power, row in zip(powers / powers.sum(), seen, strict=True))


def filled(score):
    def new_vector(query, x, hidden):
        scores = x @ query / len(query) ** 0.5
        scores[hidden] = score
        return scores.softmax(dim=-1) @ x

    return new_vector


by_infinity = filled(-torch.inf)


def by_mask(query, x, hidden):
    may_attend = torch.arange(len(x))[None] != hidden
    return F.scaled_dot_product_attention(query[None], x, x, attn_mask=may_attend)[0]


def without_the_word(query, x, hidden):
    """Attend with the rows that are left, the query among them, as the page does."""
    seen = torch.cat([x[:hidden], x[hidden + 1 :], query[None]])
    scores = seen @ query / len(query) ** 0.5
    return scores[:-1].softmax(dim=0) @ seen[:-1]


def by_powers(query, x, hidden):
    """Compute as the solution of the page does."""
    powers = (x @ query / len(query) ** 0.5).exp()
    powers[hidden] = 0
    return powers / powers.sum() @ x


def subtracted(query, x, hidden):
    """Right in algebra, but not in floating point."""
    powers = (x @ query / len(query) ** 0.5).exp()
    others = (powers[:, None] * x).sum(dim=0) - powers[hidden] * x[hidden]
    return others / (powers.sum() - powers[hidden])


def attend(x):
    weights = (x @ x.T / x.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ x, weights


def with_an_extra_row(query, x, hidden):
    return attend(torch.cat((x[:hidden], x[hidden + 1 :], query[None])))[0][-1]


def last_row_asks(query, x, hidden):
    kept = torch.cat([x[:hidden], x[hidden + 1 :]])
    return F.scaled_dot_product_attention(kept, kept, kept)[-1]


def softmax_twice(query, x, hidden):
    weights = (x @ query / len(query) ** 0.5).softmax(dim=0)
    weights[hidden] = -torch.inf
    return weights.softmax(dim=0) @ x


def without_exp(query, x, hidden):
    scores = x @ query / len(query) ** 0.5
    scores[hidden] = 0
    return scores / scores.sum() @ x


test_accepts = accepts({
    "check_new_vector": [
        *(by_hand, by_infinity, by_mask, without_the_word, filled(-1e9), by_powers),
        lambda query, x, hidden: by_hand(query, x, hidden).tolist(),
        lambda query, x, hidden: by_hand(query, x, hidden).numpy(),
        lambda query, x, hidden: by_mask(query.double(), x.double(), hidden),
    ],
    "check_third_sentence": [
        "the ball hung in the cave a bat hung in the cave",
        lambda: "cave cave cave bat ball",
        "bat ball hit cave cave cave cave",
    ],
})  # fmt: skip


test_names_the_mistake = names({
    "check_new_vector": {
        "One score for each row is `x @ query`": (
            lambda query, x, hidden: (query @ x).softmax(0) @ x
        ),
        "`weights @ x`, in this order": lambda query, x, hidden: x @ (x @ query).softmax(0),
        "dim=-1": lambda query, x, hidden: (x @ query).softmax(dim=1) @ x,
        "need not be a row of x": lambda query, x, hidden: x[(x == query).all(-1).nonzero()[0, 0]],
        "is `weights @ x`": lambda query, x, hidden: (x @ query).softmax(0) * x,
        "leave out its row of x as well": lambda query, x, hidden: (
            (x @ query)[torch.arange(len(x)) != hidden].softmax(0) @ x
        ),
        "a single vector": lambda query, x, hidden: by_mask(query, x, hidden)[None],
        "One of these four steps is wrong": lambda query, x, hidden: x.amax(dim=0),
        "hid the words after": lambda query, x, hidden: by_hand(query, x[:hidden], hidden),
        "counts from 0": lambda query, x, hidden: by_hand(query, x, hidden - 1),
        "You took the softmax of weights": softmax_twice,
        "in place of a score, not a weight": lambda query, x, hidden: (
            (x @ query).softmax(0).index_fill(0, torch.tensor(hidden), -torch.inf) @ x
        ),
        "a weight of about 0.4. It": lambda query, x, hidden: F.scaled_dot_product_attention(
            query[None], x, x, attn_mask=(torch.arange(len(x))[None] != hidden).float()
        )[0],
        "used the last row of x as the query": last_row_asks,
        "You added the query to the average": lambda query, x, hidden: (
            by_mask(query, x, hidden) + query
        ),
        ("contains NaN", "to -inf (not inf)"): filled(torch.inf),
        "and nothing else, to -inf": lambda query, x, hidden: by_mask(
            query, x.index_fill(0, torch.tensor(hidden), -torch.inf), hidden
        ),
        "without the exponential": without_exp,
        ("still gets a weight of about 5e-06", "exactly 0"): filled(-10),
        ("scores of about -80", "gets nearly all the weight", "Only -inf"): filled(-20),
        "lower than the one that you gave it": filled(-50),
        ("still gets a weight of about", "as with a score of -inf"): filled(-100),
        "about 1e-31": filled(-150),
        ("still enters a sum", "Leave it out of every sum"): subtracted,
        "attend to itself, as an extra row": with_an_extra_row,
        ("used the hidden word as the query.", "given in `query`"): lambda query, x, hidden: (
            attend(x)[0][hidden]
        ),
        "a tuple of length 2. Return the new vector alone": lambda query, x, hidden: attend(x),
    },
    "check_third_sentence": {
        "Your answer is an integer": 3,
        ("“Bat” is not in the table", "deep, in, the", "Do not use capital"): "Bat and ball",
        "“ball” must occur exactly once in your sentence, not 0": "deep in the cave hung a bat",
        "“bat” must occur exactly once in your sentence, not 2": "bat bat ball",
        ("0.352 of `animal` and 0.365 of `sport`", "by 0.267 to 0.217", "Add more of these"): (
            "a bat hung in the cave with a ball in the cave"
        ),
        "Add more of the words that have some `animal`. Leaving out “hit”": (
            "she hit the ball with a bat"
        ),
        "Add more of the words that have some `animal`.": "a bat hung with the ball in the cave",
    },
})  # fmt: skip


def test_numbers_that_look_equal_are_told_apart():
    evidence = refused(exercises.check_new_vector, filled(-10)).evidence
    assert evidence.rows == ("yours", "correct", "yours - correct")
    yours, correct, difference = evidence.cells()
    assert yours == correct
    assert all(float(number) for number in difference)
