"""The checks of lesson 3: what they accept, and what they say of answers that are not slips."""

import itertools

import torch
import torch.nn.functional as F

from attnlab import causal_mask, exercises, from_hf_attention_mask
from tests.exercises.verdicts import accepts, names, refused

# --- a test for leaks -----------------------------------------------------------------------------


def table_of(attend, x):
    """Return which output moves with which token."""
    changed = torch.where(torch.eye(len(x)).bool()[..., None], 99.0, x)  # (token, L, E)
    return ~((attend(changed) - attend(x)).abs().amax(dim=-1) <= 1e-5).mT


def judged(found):
    allowed = causal_mask(len(found))
    if (found & ~allowed).any():
        return "leaks"
    return "correct" if torch.equal(found, allowed) else "too tight"


def causal_test(attend, x):
    return judged(table_of(attend, x))


def gradients_of(attend, x):
    return torch.autograd.functional.jacobian(attend, x).norm(dim=(1, 3))  # (L, E, L, E) -> (L, L)


def test_causal_test_must_look_at_every_cell():
    def blind(attend, x):
        found = table_of(attend, x)
        if len(x) > max(cell):
            found[cell] = causal_mask(len(x))[cell]
        return judged(found)

    for cell in itertools.permutations(range(6), 2):
        words = "output {} and token {}".format(*cell), "look at every column"
        refused(exercises.check_causal_test, blind, *words)


def by_map(attend, x):  # as on the page
    depends = gradients_of(attend, x) != 0
    if depends.triu(1).any():
        return "leaks"
    L = len(x)
    return "correct" if depends.tril().sum() == L * (L + 1) // 2 else "too tight"


def counting(attend, x):
    depends = gradients_of(attend, x) != 0
    return (
        "correct" if int(depends.sum()) == 21 else "leaks" if depends.triu(1).any() else "too tight"
    )


def of_six(attend, x):  # six tokens, five features
    jacobian = torch.autograd.functional.jacobian(attend, x).reshape(6, 5, 6, 5)
    return judged(jacobian.norm(dim=(1, 3)) != 0)


def with_prefixes(attend, x):
    same = [torch.allclose(attend(x)[:n], attend(x[:n])) for n in range(1, 7)]
    return "correct" if all(same) else "leaks"


# --- a padded batch -------------------------------------------------------------------------------


def attend(mask_of):
    def attention(query, key, value, attention_mask):
        mask = mask_of(attention_mask)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    return attention


mended = attend(from_hf_attention_mask)


def by_hand(rule):
    def attention(query, key, value, attention_mask):
        words = attention_mask[:, None, None] == 1
        return rule(query @ key.mT / 2, words) @ value

    return attention


def rows_erased(query, key, value, attention_mask):
    return mended(query, key, value, attention_mask) * attention_mask[:, None, :, None]


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


def covered_up(scores, allowed):
    weights = (scores + torch.zeros_like(scores).masked_fill(~allowed, -torch.inf)).softmax(-1)
    return weights.masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)


def by_exp(scores, allowed):
    exps = scores.masked_fill(~allowed, -torch.inf).exp()
    return exps / exps.sum(dim=-1, keepdim=True).clamp_min(1e-6)


def with_clamp(scores, allowed):
    top = scores.masked_fill(~allowed, -torch.inf).amax(dim=-1, keepdim=True)
    top = top.masked_fill(top == -torch.inf, 0.0)
    exps = (scores.masked_fill(~allowed, -torch.inf) - top).exp()
    return exps / exps.sum(dim=-1, keepdim=True).clamp(min=1)


def with_one_maximum(scores, allowed):
    filled = scores.masked_fill(~allowed, -torch.inf)
    exps = (filled - filled.max()).exp()
    total = exps.sum(dim=-1, keepdim=True)
    return exps / total.masked_fill(total == 0, 1)


def raised(
    scores, allowed
):  # no score is -inf, and only a NaN that is allowed has a gradient of NaN
    filled = scores.masked_fill(~allowed, -torch.inf).clamp(min=torch.finfo(scores.dtype).min)
    return filled.softmax(-1).masked_fill(~allowed, 0.0)


def in_place(scores, allowed):
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    weights[~allowed.expand_as(weights)] = 0
    return weights


def by_index(scores, allowed):
    scores = scores.clone()
    scores[~allowed] = -torch.inf
    return scores.softmax(-1)


# --- all three ------------------------------------------------------------------------------------

test_accepts = accepts({
    "check_causal_test": [causal_test, by_map],
    "check_safe_softmax": [
        *(safe, with_clamp, raised),
        filled_with(-torch.inf, lambda w, m: w.masked_fill(~m, 0.0)),
    ],
    "check_padded_batch": [
        attend(lambda m: torch.zeros(m.shape).masked_fill(m == 0, -1e9)[:, None, None]),
        by_hand(lambda s, m: s.masked_fill(~m, -torch.inf).softmax(-1)),
        lambda q, k, v, m: torch.stack([
            F.scaled_dot_product_attention(*one, attn_mask=row.bool()[None])
            for *one, row in zip(q, k, v, m, strict=True)
        ]),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_causal_test": {
        "Perhaps it counts the diagonal": lambda attend, x: judged(
            table_of(attend, x) | torch.eye(len(x)).bool().roll(1, 1)
        ),
        "It never returns “correct”. Look for zeros": lambda attend, x: (
            "leaks" if (found := table_of(attend, x)).triu(1).any()
            else "too tight" if (found.tril() == 0).any() else "correct"
        ),
        "A leak may sit in any column": lambda attend, x: (
            "leaks" if table_of(attend, x)[:-1, -1].any()
            else "correct" if table_of(attend, x)[-1].all() else "too tight"
        ),
        "the wrong way round": lambda attend, x: judged(table_of(attend, x).mT),
        "NaN > 0 is False": lambda attend, x: judged(gradients_of(attend, x) > 0),
        "keep weights of about 0.0003": lambda attend, x: judged(gradients_of(attend, x) > 1e-3),
        "as many open cells as the causal mask": counting,
        "attend takes all 6 tokens of x at once, got 1": with_prefixes,
        ("over 4 tokens of 3 features", "invalid", "Take the sizes from x"): of_six,
    },
    "check_safe_softmax": {
        ("scores near -1e10", "or -1e9 is not below every score"): filled_with(-1e9),
        ("from -100111", "such as -1e4 or"): filled_with(-1e4, lambda w, m: w.masked_fill(~m, 0)),
        "and NaN times 0 is NaN": filled_with(-torch.inf, lambda w, m: w * m),
        "Row 0 is right, but the rows": lambda s, m: (
            safe(s, m) if m.any(dim=-1).all() else torch.zeros_like(s)
        ),
        "digits are lost where scores are far from 0": lambda s, m: (
            (t := s.masked_fill(~m, -torch.inf)) - t.logsumexp(-1, keepdim=True)
        ).exp().where(m, 0.0),
        "allowed.expand_as(scores)": lambda s, m: safe(s, m) + 0 * by_index(s, m).nan_to_num(),
        "has vanished": filled_with(-torch.inf, lambda w, m: w.nan_to_num()),
        "masked_fill replaces it": covered_up,
        ("Scores far from 0 break your function", "overflow or round to 0"): by_exp,
        ("near -200", "largest allowed score of the same row"): with_one_maximum,
        "needs its result for the gradient. Use masked_fill": in_place,
        "the weights do not depend on the scores": lambda s, m: safe(
            s.detach().requires_grad_(), m
        ),
        ("is not. It is NaN", "a NaN or infinity enters the softmax"): lambda s, m: (
            filled_with(-torch.inf)(s, m | ~m.any(dim=-1, keepdim=True)).masked_fill(~m, 0.0)
        ),
        "the gradient is not": lambda s, m: safe(s, m, detached=True),
        ("NaN and infinity among the blocked", "Give such a row finite scores"): (
            lambda s, m: safe(s, m, keep_empty=True)
        ),
        "nearly correct, but the difference": lambda s, m: safe(s, m) * (1 + 1e-6),
        "must get a weight of exactly 0": lambda s, m: safe(s, m).clamp_min(1e-13),
        "Fill blocked scores with -inf, by masked_fill": lambda s, m: (
            (s + (~m).float() * -torch.inf).softmax(dim=-1)
        ),
        "Where a key is allowed, its weight must stay": lambda s, m: safe(s, m).masked_fill(m, 0),
        ("whose row 0 allows no key", "must be 0 in any batch"): lambda s, m: torch.stack([
            filled_with(-torch.inf)(row, open_)
            if open_.any()
            else torch.zeros_like(row)
            for row, open_ in zip(s, m, strict=True)
        ]) if s.ndim > 2 else safe(s, m),
    },
    "check_padded_batch": {
        "adds nothing to the output, but it still takes": by_hand(
            lambda s, words: s.softmax(dim=-1) * words
        ),
        ("The queries of <pad> get nothing", "attend to the words, too"): rows_erased,
        "so leave is_causal out": lambda q, k, v, m: F.scaled_dot_product_attention(
            q, k, v, attn_mask=m[:, None, None] == 1, is_causal=True
        ),
        "which makes it Boolean": attend(lambda m: m[:, None, None].half()),
        "Compare the mask with 1": attend(lambda m: m[:, None, None]),
        "lined up with the heads": attend(lambda m: m[:, None] == 1),
        "or with the queries": attend(lambda m: m == 1),
        "shape (N, 1, 1, S).": attend(lambda m: m[0] == 1),
        ("one sentence, 3 heads", "needs the shape (N, 1, 1, S)."): attend(
            lambda m: (m == 1)[:, None, None].repeat(1, 2, 1, 1)
        ),
        "A score of 0 takes weight like any other": by_hand(
            lambda s, words: s.masked_fill(~words, 0.0).softmax(dim=-1)
        ),
        "There are 4 queries and 5 keys": attend(
            lambda m: (m == 1)[:, None, None].expand(-1, 3, 5, -1)
        ),
        "In every row, fill <pad> alone with -inf": nan_rows,
    },
})  # fmt: skip
