"""The checks of lesson 5: what they accept, and what they say of answers that are not slips."""

import torch.nn.functional as F

from tests.exercises.verdicts import accepts, names


def by_zero_query(value, attn_mask):
    query = value.new_zeros(*attn_mask.shape[:-1], 4)
    key = value.new_zeros(*value.shape[:-1], 4)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)


def divided(value, attn_mask, least=1):
    weights = attn_mask.to(value.dtype)
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=least) @ value


def report(known, fresh):
    head = known.mean(dim=1).argmax()
    return head, fresh[head].mean()


SAILED = ("they sailed to the bank for a swim", "they sailed to the bank for a loan")


def bank(end, begin="the bank"):
    return tuple(f"{begin} {one}" for one in end.split("|"))


test_accepts = accepts({
    "check_needed_strength": [2.08],
    "check_plain_average": [by_zero_query, lambda v, mask: divided(v, mask, least=0).nan_to_num()],
    "check_tested_head": [lambda k, f: [one.item() for one in report(k, f)]],
    "check_minimal_pair": [
        lambda: SAILED,
        ["She sat at the bank by the river.", "She works at the bank by the river."],
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_needed_strength": {
        "0.495 of the weight. That is too little": 2.06,
    },
    "check_plain_average": {
        "because 0 was divided by 0. A query": lambda value, mask: divided(value, mask, least=0),
        "torch.float32 instead of torch.float64": lambda v, mask: divided(v.float(), mask),
        "convert the mask to value.dtype": (
            lambda v, mask: mask.float() @ v / mask.sum(dim=-1, keepdim=True).clamp(min=1)
        ),
    },
    "check_tested_head": {
        "Choose the head with the largest mean": lambda known, fresh: (0, 0.0),
        "Return two numbers, the head and its mean": lambda known, fresh: report(known, fresh)[0],
    },
    "check_minimal_pair": {
        "“river” (0.537) in the first sentence and to “robbed” (0.585)": (
            bank("saw the bank by the river|robbed the bank by the river", "the thief")
        ),
        "and “they walked to the bank for a loan”.": (
            SAILED[0], "they walked to the bank for a loan"
        ),
        "“they sailed to the shore” does not": ("they sailed to the shore", SAILED[1]),
        "“lake” (0.454) in the second. The word that it attends to most must be the same": (
            bank("by the river was wet|by the lake was wet")
        ),
        "cannot use an empty sentence": ("", SAILED[1]),
        "It should be two sentences, each": (SAILED[0], 3),
        "to s ##nor ##kel” and": bank("snorkel|withdraw", "he rowed to the bank to"),
        "not in a punctuation mark": bank(".|!", "the fish swam near the bank"),
    },
})  # fmt: skip
