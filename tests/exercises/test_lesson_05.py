"""The checks of lesson 5: what they accept, and what they say of answers that are not slips."""

import torch
import torch.nn.functional as F

from tests.exercises.verdicts import accepts, names


def by_zero_query(value, attn_mask):
    query = value.new_zeros(*attn_mask.shape[:-1], 4)
    key = value.new_zeros(*value.shape[:-1], 4)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)


def divided(value, attn_mask, least=1):
    weights = attn_mask.to(value.dtype)
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=least) @ value


def by_softmax(value, attn_mask):
    zeros = torch.zeros(attn_mask.shape, dtype=value.dtype)
    return zeros.masked_fill(~attn_mask, -torch.inf).softmax(dim=-1).nan_to_num() @ value


def by_branches(wins, is_river):
    counts = [0] * wins.shape[1]
    for row, river in zip(wins.tolist(), is_river.tolist(), strict=True):
        for head, water in enumerate(row):
            counts[head] += water if river else not water
    return counts


def in_plain_python(first, second):
    shares = [sum(row) / len(row) for row in first.tolist()]
    row = second.tolist()[shares.index(max(shares))]
    return sum(row) / len(row)


test_accepts = accepts({
    "check_plain_average": [
        by_zero_query, by_softmax, lambda v, mask: divided(v, mask, least=0).nan_to_num()
    ],
    "check_clue_wins": [
        by_branches,
        lambda wins, river: wins[river].sum(dim=0) + (~wins[~river]).sum(dim=0),
        lambda wins, river: torch.where(river[:, None], wins, ~wins).sum(dim=0).tolist(),
        lambda wins, river: (~(wins ^ river[:, None])).double().sum(dim=0),
    ],
    "check_tested": [
        in_plain_python,
        lambda first, second: second[first.sum(dim=1).argmax()].mean(),
        lambda first, second: second.mean(dim=1)[first.mean(dim=1).max(dim=0).indices].item(),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_plain_average": {
        "because 0 was divided by 0. A query": lambda value, mask: divided(value, mask, least=0),
        "torch.float32 instead of torch.float64": lambda v, mask: divided(v.float(), mask),
        "needs keepdim=True": lambda v, mask: mask.to(v.dtype) @ v / mask.sum(dim=-1),
        "the last dimension, dim=-1, which also fits a batch": (
            lambda v, mask: mask.to(v.dtype) @ v / mask.sum(1, keepdim=True).clamp(min=1)
        ),
        "A blocked key must get none": lambda v, mask: F.scaled_dot_product_attention(
            v.new_zeros(*mask.shape[:-1], 1), v[..., :1], v, attn_mask=mask.to(v.dtype)
        ),
        "does not fit the entries of `value`": (
            lambda v, mask: v.masked_fill(~mask, 0).mean(dim=-2)
        ),
        "so it does not fit the entries": lambda v, mask: v[mask].mean(dim=0),
        "convert the mask to value.dtype": (
            lambda v, mask: mask.float() @ v / mask.sum(dim=-1, keepdim=True).clamp(min=1)
        ),
    },
    "check_clue_wins": {
        "`is_river` needs a second dimension": lambda wins, river: (wins == river).sum(dim=0),
        "`is_river` says which rows": lambda wins, _: wins[:16].sum(0) + (~wins[16:]).sum(0),
        "`not` asks for a single truth value": lambda wins, river: (not wins[~river]).sum(0),
        "turns True into False": lambda wins, river: (-wins * ~river[:, None]).sum(0),
        "Use ~, which turns": lambda wins, river: wins[river].sum(0) + (1 - wins[~river]).sum(0),
        "True, in a money sentence where it is False": lambda wins, river: wins.sum(dim=0) + 1,
        "Return a count for each head": lambda wins, river: "21",
    },
    "check_tested": {
        "a candidate with more than half": lambda first, second: second[
            (first.mean(1) > 0.5).int().argmax()
        ].mean(),
        "candidate with the largest mean in `first`": lambda first, second: 0.123,
        "Take the first of them": lambda first, second: second[
            (first.mean(1) == first.mean(1).max()).nonzero().flatten()[-1]
        ].mean(),
        "largest mean in `first`, and": lambda first, second: min(
            first.mean(1).max(), second[first.mean(1).argmax()].mean()
        ),
        "`argmax` must compare the means": lambda first, second: second[first.argmax()].mean(),
        "candidate that is worst in `first`": lambda first, second: second[
            (first.mean(dim=1) - 0.5).abs().argmax()
        ].mean(),
        "choose a row by the means": lambda first, second: (
            second[first.mean(dim=0).argmax()].mean()
        ),
        "a tuple of length 2. Return one number": lambda first, second: (1, 0.5),
    },
})  # fmt: skip
