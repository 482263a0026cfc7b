"""The checks of lesson 3: what they reject and why, and what they accept."""

import functools

import pytest
import torch
import torch.nn.functional as F

from attnlab import (
    attention_weights,
    causal_mask,
    from_hf_attention_mask,
    sequence_mask,
)
from attnlab.exercises import (
    check_causal_test,
    check_decoder_mask,
    check_padded_batch,
    check_safe_softmax,
)
from tests.exercises.verdicts import accepted, refused

# --- a test for leaks -----------------------------------------------------------------------------


def moved(attend, x, place):
    changed = x.clone()
    changed[place] = 99.0
    return (attend(changed) - attend(x)).abs().amax(dim=-1) > 1e-5


def causal_test(attend, x):
    found = torch.stack([moved(attend, x, place) for place in range(len(x))], dim=-1)
    if (found & ~causal_mask(len(x))).any():
        return "leaks"
    return "right" if torch.equal(found, causal_mask(len(x))) else "too tight"


def by_gradient(attend, x):
    jacobian = torch.autograd.functional.jacobian(attend, x)  # (L, E, L, E)
    found = jacobian.abs().amax(dim=(1, 3)) > 0
    if (found & ~causal_mask(len(x))).any():
        return "leaks"
    return "right" if torch.equal(found, causal_mask(len(x))) else "too tight"


def ends_only(attend, x):
    if moved(attend, x, -1)[:-1].any():
        return "leaks"
    return "right" if moved(attend, x, 0).all() and moved(attend, x, -1)[-1] else "too tight"


def tightness_first(attend, x):
    if not all(moved(attend, x, place)[place:].all() for place in range(len(x))):
        return "too tight"
    return causal_test(attend, x)


def seen_at(cells):
    """Return a test that looks at these cells (output, token) and at no other."""

    def test(attend, x):
        found = torch.stack([moved(attend, x, place) for place in range(len(x))], dim=-1)
        allowed = causal_mask(len(x))
        wrong = [cell for cell in cells if found[cell] != allowed[cell]]
        if any(j > i for i, j in wrong):
            return "leaks"
        return "too tight" if wrong or not found[0, 0] or not found[1, 1] else "right"

    return test


EVERY = {(i, j) for i in range(6) for j in range(6)}
OFF_DIAGONAL = sorted((i, j) for i, j in EVERY if i != j)


@pytest.mark.parametrize("cell", OFF_DIAGONAL)
def test_causal_test_must_look_at_every_cell(cell):
    blind = seen_at(sorted(EVERY - {cell}))
    refused(check_causal_test, blind, f"output {cell[0]} and token {cell[1]}", "change every token")


def test_a_test_that_says_nan_of_nan_is_accepted():
    def careful(attend, x):
        return "NaN" if attend(x).isnan().any() else causal_test(attend, x)

    accepted(check_causal_test, careful)


def leaks_only(attend, x):
    return "leaks" if causal_test(attend, x) == "leaks" else "right"


def in_place_test(attend, x):
    said = causal_test(attend, x)
    x[-1] = 99.0
    return said


WRONG_TESTS = {
    "always right": (lambda attend, x: "right", "says so of every function"),
    "always leaks": (lambda attend, x: "leaks", "says so of every function"),
    "the ends only": (ends_only, "change every token in turn"),
    "leaks only": (leaks_only, "Output i must move".lower()),
    "tightness first": (tightness_first, "look for leaks first"),
    "turned over": (
        lambda attend, x: {"right": "leaks"}.get(causal_test(attend, x), "right"),
        "must",
    ),
    "true and false": (lambda attend, x: causal_test(attend, x) == "right", "a bool"),
    "another word": (lambda attend, x: "fine", '"fine"'),
    "nothing where right": (
        lambda attend, x: None if causal_test(attend, x) == "right" else causal_test(attend, x),
        "returns None",
    ),
    "in place": (in_place_test, "changes the tokens"),
}


@pytest.mark.parametrize("name", WRONG_TESTS)
def test_causal_test_names_the_mistake(name):
    function, words = WRONG_TESTS[name]
    refused(check_causal_test, function, words)


@pytest.mark.parametrize("answer", [causal_test, by_gradient])
def test_causal_test_accepts(answer):
    accepted(check_causal_test, answer)


# --- a decoder's mask -----------------------------------------------------------------------------


def real_of(lengths):
    return sequence_mask(lengths)[:, None, None, :]


def decoder_mask(lengths):
    real = real_of(lengths)
    return real & causal_mask(real.shape[-1])


def square(lengths):
    return torch.ones(int(lengths.max()), int(lengths.max()), dtype=torch.bool)


WRONG_MASKS = {
    "turned over": (lambda n: ~decoder_mask(n), "turned over"),
    "padding only": (real_of, "the causal part is missing"),
    "padding, all rows": (lambda n: real_of(n) & square(n), "the future is still open"),
    "causal only": (
        lambda n: causal_mask(int(n.max())).expand(len(n), 1, -1, -1),
        "No word sees it here, since it comes last",
    ),
    "one table": (lambda n: causal_mask(int(n.max())), "One table cannot serve"),
    "three axes": (lambda n: decoder_mask(n)[:, 0], "would meet the heads"),
    "joined by or": (lambda n: real_of(n) | causal_mask(int(n.max())), "joined by or"),
    "no diagonal": (
        lambda n: decoder_mask(n) & square(n).tril(-1),
        "no token may look at itself",
    ),
    "upper triangle": (lambda n: real_of(n) & square(n).triu(), "not at the past"),
    "strict upper triangle": (
        lambda n: real_of(n) & square(n).triu(1),
        "not at the past",
    ),
    "lengths turned over": (
        lambda n: ~real_of(n) & causal_mask(int(n.max())),
        "lengths are read the wrong way round",
    ),
    "rows closed too": (
        lambda n: decoder_mask(n) & real_of(n).mT,
        "The words are none the worse, but a row without a key is NaN",
    ),
    "rows instead": (
        lambda n: causal_mask(int(n.max())) & real_of(n).mT,
        "masks columns, not rows",  # the causal mask closes the columns of a word by itself
    ),
    "one cell": (
        lambda n: decoder_mask(n) & ~square(n).tril(-4),
        "query 4 and key 0 must be open: it is a word of the past",
    ),
    "a future cell": (
        lambda n: decoder_mask(n) | square(n).triu(1).tril(1) & real_of(n),
        "must be closed: it is the future",
    ),
    "numbers": (lambda n: decoder_mask(n).float(), "must be bool, got torch.float32"),
    "a list": (lambda n: decoder_mask(n).tolist(), "a list"),
}


@pytest.mark.parametrize("name", WRONG_MASKS)
def test_decoder_mask_names_the_mistake(name):
    function, words = WRONG_MASKS[name]
    refused(check_decoder_mask, function, words)


@pytest.mark.parametrize("name", ["causal only", "rows closed too"])
def test_what_is_said_to_spare_the_words_spares_them(name):
    function, _ = WRONG_MASKS[name]
    lengths = torch.tensor([5, 3])
    words = real_of(lengths).mT  # rows of words
    assert torch.equal(function(lengths) & words, decoder_mask(lengths) & words)
    assert (function(lengths) != decoder_mask(lengths)).any()


def test_a_wrong_mask_is_shown():
    verdict = refused(check_decoder_mask, lambda n: ~decoder_mask(n), "lengths [5, 3]")
    assert "key 4" in repr(verdict)


@pytest.mark.parametrize(
    "answer",
    [
        decoder_mask,
        lambda lengths: (
            torch.stack([decoder_mask(lengths[[n]])[0] for n in range(len(lengths))])
            if len(set(lengths.tolist())) == 1
            else decoder_mask(lengths)
        ),
        lambda lengths: (
            (torch.arange(int(lengths.max())) < lengths[:, None])[:, None, None]
            & torch.ones(int(lengths.max()), int(lengths.max())).tril().bool()
        ),
    ],
)
def test_decoder_mask_accepts(answer):
    accepted(check_decoder_mask, answer)


# --- a safe softmax -------------------------------------------------------------------------------


def safe_softmax(scores, allowed):
    empty = ~allowed.any(dim=-1, keepdim=True)
    filled = scores.masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0)
    return filled.softmax(dim=-1).masked_fill(empty, 0.0)


def unfilled(scores, allowed):
    """Leave the scores of an empty row as they are: a NaN there reaches the gradient."""
    empty = ~allowed.any(dim=-1, keepdim=True)
    filled = scores.masked_fill(~allowed & ~empty, -torch.inf)
    return filled.softmax(dim=-1).masked_fill(empty, 0.0)


def by_exp(total_of, scores, allowed):
    positive = scores.masked_fill(~allowed, -torch.inf).exp()
    return positive / total_of(positive.sum(dim=-1, keepdim=True))


def erased_and_divided(scores, allowed):
    weights = safe_softmax(scores, torch.ones_like(allowed)).masked_fill(~allowed, 0.0)
    total = weights.sum(dim=-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


def detached_sum(scores, allowed):
    scores = scores.masked_fill(~allowed, -torch.inf)
    empty = ~allowed.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(empty, 0.0)
    positive = (scores - scores.amax(dim=-1, keepdim=True).detach()).exp()
    return (positive / positive.sum(dim=-1, keepdim=True).detach()).masked_fill(empty, 0.0)


def erase_empty(fill):
    return filled_with(fill, lambda w, m: w.masked_fill(~m.any(dim=-1, keepdim=True), 0.0))


def filled_with(fill, then=lambda weights, allowed: weights):
    def softmax(scores, allowed):
        return then(scores.masked_fill(~allowed, fill).softmax(dim=-1), allowed)

    return softmax


def covered_up(scores, allowed):
    additive = torch.zeros_like(scores).masked_fill(~allowed, -torch.inf)
    weights = (scores + additive).softmax(dim=-1)
    return weights.masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)


def in_place(scores, allowed):
    with torch.no_grad():
        scores.masked_fill_(~allowed, -1e9)
    return scores.softmax(dim=-1)


def empty_when_any(scores, allowed):
    weights = filled_with(-torch.inf)(scores, allowed)
    return torch.zeros_like(weights) if (~allowed).all(dim=-1).any() else weights


def by_hand(scores, allowed, small=0.0):
    largest = scores.masked_fill(~allowed, -torch.inf).amax(dim=-1, keepdim=True)
    largest = largest.masked_fill(largest.isneginf(), 0.0)
    scores = scores.masked_fill(~allowed, 0.0)  # whatever is blocked: NaN as well
    positive = (scores - largest).exp().masked_fill(~allowed, 0.0)
    total = positive.sum(dim=-1, keepdim=True) + small
    return positive / total.masked_fill(total == 0, 1.0)


WRONG_SOFTMAXES = {
    "-inf": (filled_with(-torch.inf), "divides 0 by 0"),
    "-1e9": (filled_with(-1e9), "gives each 0.25"),
    "smallest": (filled_with(torch.finfo(torch.float32).min), "gives each 0.25"),
    "0": (filled_with(0.0), "a score like any other"),
    "erased": (lambda s, m: s.softmax(dim=-1) * m, "the rows do not sum to 1"),
    "turned over": (lambda s, m: safe_softmax(s, ~m), "the wrong way round"),
    "ignored": (lambda s, m: s.softmax(dim=-1), "The mask is not used"),
    "queries": (
        lambda s, m: s.masked_fill(~m, -torch.inf).softmax(dim=-2).nan_to_num(),
        "runs over the queries",
    ),
    "nan_to_num": (
        filled_with(-torch.inf, lambda w, m: w.nan_to_num()),
        "has vanished",
    ),
    "all rows": (empty_when_any, "An empty row changes the others"),
    "not erased": (
        lambda s, m: s.masked_fill(~m & m.any(-1, keepdim=True), -torch.inf).softmax(-1),
        "set them to 0 after the softmax",
    ),
    "covered up": (covered_up, "the gradient is NaN"),
    "detached": (lambda s, m: safe_softmax(s.detach(), m), "No gradient"),
    "in place": (in_place, "changes the scores"),
    "from the front": (
        lambda s, m: (
            s.masked_fill(~m & m.any(1, keepdim=True), -torch.inf)
            .softmax(-1)
            .masked_fill(~m.any(1, keepdim=True), 0.0)
        ),
        "scores (2, 3, 3, 4)",
    ),
    "no maximum": (
        functools.partial(by_exp, lambda total: total.masked_fill(total == 0, 1.0)),
        "Scores of 100 or -110 break it",
    ),
    "a small number added": (
        functools.partial(by_exp, lambda total: total + 1e-6),
        "Scores of 100 or -110 break it",
    ),
    "at least a small number": (
        functools.partial(by_exp, lambda total: total.clamp_min(1e-6)),
        "Scores of 100 or -110 break it",
    ),
    "-20": (erase_empty(-20.0), "from -111 to 101 a blocked key is still read"),
    "-150": (erase_empty(-150.0), "to -99899 a blocked key is still read"),
    "-1e3": (erase_empty(-1e3), "to -99899 a blocked key is still read"),
    "erased and divided": (erased_and_divided, "Scores of 100 or -110 break it"),
    "detached sum": (detached_sum, "the gradient is not"),
    "unfilled": (unfilled, "NaN"),
    "one row": (lambda s, m: safe_softmax(s, m)[0], "must be (3, 4), got (4,)"),
    "a millionth more": (
        lambda s, m: safe_softmax(s, m) * (1 + 1e-6),
        "sums to 1.0000010, and rounding does not explain it",
    ),
    "a small number in the divisor": (
        functools.partial(by_hand, small=1e-6),
        "Row 1 sums to 0.9999990, and rounding does not explain it",
    ),
    "never quite 0": (
        lambda s, m: safe_softmax(s, m).clamp_min(1e-8),
        "A blocked key gets the weight 1e-08: little, but not nothing",
    ),
}


@pytest.mark.parametrize("name", WRONG_SOFTMAXES)
def test_safe_softmax_names_the_mistake(name):
    function, words = WRONG_SOFTMAXES[name]
    refused(check_safe_softmax, function, words)


@pytest.mark.parametrize(
    "answer",
    [
        safe_softmax,
        by_hand,
        lambda scores, allowed: attention_weights(scores, attn_mask=allowed),
        functools.partial(safe_softmax),
    ],
)
def test_safe_softmax_accepts(answer):
    assert accepted(check_safe_softmax, answer).remarks == ()


def test_a_fill_that_half_precision_cannot_hold_is_a_remark():
    (remark,) = accepted(check_safe_softmax, erase_empty(-1e9)).remarks
    assert "float16" in remark


# --- a padded batch -------------------------------------------------------------------------------


def attend(mask_of):
    def attention(query, key, value, attention_mask):
        mask = mask_of(attention_mask)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    return attention


mended = attend(from_hf_attention_mask)
WRONG_BATCHES = {
    "broken": (attend(lambda m: m[:, None] == 0), "With one sentence, 3 heads"),
    "one axis missing": (attend(lambda m: m[:, None] == 1), "one axis is missing"),
    "one axis missing, praised": (
        attend(lambda m: m[:, None] == 1),
        "With one sentence the numbers are right",
    ),
    "turned over": (attend(lambda m: m[:, None, None] == 0), "1 is a word"),
    "turned over, praised": (attend(lambda m: m[:, None, None] == 0), "The axes are right"),
    "lengths": (
        attend(lambda m: sequence_mask(m.sum(dim=-1), m.shape[-1])[:, None, None]),
        "may stand on the left",
    ),
    "added -20": (
        attend(lambda m: -20.0 * (m[:, None, None] == 0)),
        "The scores here are large",
    ),
    "square": (
        lambda q, k, v, m: F.scaled_dot_product_attention(
            q, k, v, attn_mask=(m == 1)[:, None, None].expand(-1, q.shape[1], m.shape[1], -1)
        ),
        "4 queries and 5 keys",
    ),
    "rows": (attend(lambda m: m[:, None, :, None] == 1), "The mask blocks rows"),
    "no mask": (attend(lambda m: None), "The mask is not used"),
    "added": (attend(lambda m: m[:, None, None].float()), "added to the scores"),
    "integers": (attend(lambda m: m[:, None, None]), "raises"),
    "NaN": (
        lambda q, k, v, m: mended(q, k, v, m).masked_fill(m[:, None, :, None] == 0, torch.nan),
        "NaN comes out",
    ),
    "numbers": (lambda q, k, v, m: mended(q, k, 2 * v, m), "the numbers are wrong"),
    "shape": (
        lambda q, k, v, m: mended(q, k, v, m).transpose(1, 2),
        "the output must be",
    ),
    "with weights": (lambda q, k, v, m: (mended(q, k, v, m), m), "a tuple"),
}


@pytest.mark.parametrize("name", WRONG_BATCHES)
def test_padded_batch_names_the_mistake(name):
    function, words = WRONG_BATCHES[name]
    refused(check_padded_batch, function, words)


@pytest.mark.parametrize(("right", "words"), [(1, "needs one more axis"), (0, "And 1 is a word")])
def test_the_accident_of_two_heads_is_named(right, words):
    def attention(query, key, value, attention_mask):
        if query.shape[0] != query.shape[1]:
            return mended(query, key, value, attention_mask)
        mask = attention_mask[:, None] == right
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    refused(check_padded_batch, attention, "has met the 2 of the heads", words)


@pytest.mark.parametrize(
    "answer",
    [
        mended,
        attend(lambda m: m.bool()[:, None, None, :]),
        attend(lambda m: torch.zeros(m.shape).masked_fill(m == 0, -1e9)[:, None, None]),
    ],
)
def test_padded_batch_accepts(answer):
    accepted(check_padded_batch, answer)
