"""The checks of lesson 3: what they accept, and what they say of answers that are not slips."""

import itertools

import torch
import torch.nn.functional as F

from attnlab import causal_mask, exercises, from_hf_attention_mask, sequence_mask
from tests.exercises.verdicts import accepts, names, refused

# --- a test for leaks -----------------------------------------------------------------------------


def table_of(attend, x):
    """Return which output moves with which token."""
    changed = torch.where(torch.eye(len(x)).bool()[..., None], 99.0, x)  # (token, L, E)
    return ((attend(changed) - attend(x)).abs().amax(dim=-1) > 1e-5).mT


def judged(found):
    allowed = causal_mask(len(found))
    if (found & ~allowed).any():
        return "leaks"
    return "correct" if torch.equal(found, allowed) else "too tight"


def causal_test(attend, x):
    return judged(table_of(attend, x))


def by_gradient(attend, x):
    jacobian = torch.autograd.functional.jacobian(attend, x)  # (L, E, L, E)
    return judged(jacobian.abs().amax(dim=(1, 3)) > 0)


def test_causal_test_must_look_at_every_cell():
    def blind(attend, x):
        found = table_of(attend, x)
        found[cell] = causal_mask(len(x))[cell]
        return judged(found)

    for cell in itertools.permutations(range(6), 2):
        words = "output {} and token {}".format(*cell), "change every token"
        refused(exercises.check_causal_test, blind, *words)


# --- masks ----------------------------------------------------------------------------------------

decoder_mask = exercises.check_decoder_mask.form.right


def attend(mask_of):
    def attention(query, key, value, attention_mask):
        mask = mask_of(attention_mask)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    return attention


mended = attend(from_hf_attention_mask)


def nan_rows(query, key, value, attention_mask):
    output = mended(query, key, value, attention_mask)
    return output.masked_fill(attention_mask[:, None, :, None] == 0, torch.nan)


# --- a safe softmax -------------------------------------------------------------------------------


def filled_with(fill, then=lambda weights, allowed: weights):
    return lambda scores, allowed: then(scores.masked_fill(~allowed, fill).softmax(-1), allowed)


def safe(scores, allowed, *, keep_empty=False, detached=False):
    """Return safe weights; a row without a key may keep its scores, or a sum have no gradient."""
    empty = ~allowed.any(dim=-1, keepdim=True)
    filled = scores.masked_fill(~allowed & ~empty if keep_empty else ~allowed, -torch.inf)
    filled = filled if keep_empty else filled.masked_fill(empty, 0.0)
    exps = (filled - filled.amax(dim=-1, keepdim=True).detach()).exp()
    total = exps.sum(dim=-1, keepdim=True)
    return (exps / (total.detach() if detached else total)).masked_fill(empty, 0.0)


def erase_empty(fill):
    return filled_with(fill, lambda w, m: w.masked_fill(~m.any(dim=-1, keepdim=True), 0.0))


def covered_up(scores, allowed):
    weights = (scores + torch.zeros_like(scores).masked_fill(~allowed, -torch.inf)).softmax(-1)
    return weights.masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)


def by_exp(scores, allowed):
    exps = scores.masked_fill(~allowed, -torch.inf).exp()
    return exps / exps.sum(dim=-1, keepdim=True).clamp_min(1e-6)


# --- all four -------------------------------------------------------------------------------------

test_accepts = accepts({
    "check_causal_test": [
        by_gradient,
        lambda attend, x: "NaN" if attend(x).isnan().any() else causal_test(attend, x),
    ],
    "check_decoder_mask": [
        lambda n: sequence_mask(n)[:, None, None] & torch.ones(2 * [int(n.max())]).tril().bool()
    ],
    "check_safe_softmax": [safe],
    "check_padded_batch": [
        attend(lambda m: torch.zeros(m.shape).masked_fill(m == 0, -1e9)[:, None, None]),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_decoder_mask": {
        "so use lengths.max()": lambda n: sequence_mask(n)[:, None, None] & causal_mask(5),
        "would line up the axis of the sentences": lambda n: decoder_mask(n)[:, 0],
        "dtype torch.float32 instead of torch.bool": lambda n: decoder_mask(n).float(),
    },
    "check_safe_softmax": {
        "divides 0 by 0": filled_with(-torch.inf),
        "has vanished": filled_with(-torch.inf, lambda w, m: w.nan_to_num()),
        "masked_fill replaces it": covered_up,
        ("Scores far from 0 break your function", "may overflow or round to 0"): by_exp,
        ("from -111 to 101", "Set the blocked scores to -inf, which is"): erase_empty(-20.0),
        "the gradient is not": lambda s, m: safe(s, m, detached=True),
        ("NaN and infinity among the blocked", "Give such a row finite scores"): (
            lambda s, m: safe(s, m, keep_empty=True)
        ),
        "nearly correct, but the difference": lambda s, m: safe(s, m) * (1 + 1e-6),
        "must get a weight of exactly 0": lambda s, m: safe(s, m).clamp_min(1e-8),
    },
    "check_padded_batch": {
        "The mask lacks an axis": attend(lambda m: m[:, None] == 1),
        "There are 4 queries and 5 keys": attend(
            lambda m: (m == 1)[:, None, None].expand(-1, 3, 5, -1)
        ),
        "contains NaN, although every query has a word": nan_rows,
    },
})  # fmt: skip
