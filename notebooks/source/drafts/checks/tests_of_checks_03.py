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
    check_counted_mask,
    check_decoder_mask,
    check_padded_batch,
    check_safe_softmax,
)

CHECKS = (
    check_counted_mask,
    check_decoder_mask,
    check_padded_batch,
    check_safe_softmax,
)


def refused(check, answer, *words):
    """Assert that a check refuses an answer and names why; return the verdict."""
    verdict = check(answer)
    assert verdict.done
    assert not verdict.ok, repr(verdict)
    for word in words:
        assert word in verdict.message
    assert "Not yet right" in verdict._repr_html_()
    return verdict


def accepted(check, answer):
    verdict = check(answer)
    assert verdict.ok, repr(verdict)
    assert "\n" not in verdict.message
    return verdict


@pytest.mark.parametrize("check", CHECKS)
def test_a_stub_is_not_done_yet(check):
    def stub(*_inputs):
        """Return nothing yet."""

    for answer in (stub, None, ...):
        verdict = check(answer)
        assert not verdict.done
        assert not verdict.ok


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("value", ["a text", 3.5, [], {}, torch.zeros(1), float("nan")])
def test_whatever_comes_a_check_answers_in_words(check, value):
    refused(check, lambda *_inputs: value)


@pytest.mark.parametrize("check", CHECKS[1:])
def test_an_error_is_told(check):
    def raising(*_inputs):
        raise ValueError("no idea")

    refused(check, raising, "no idea")


# --- a mask, counted ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((21, 0), "the causal mask alone"),
        ((24, 0), "the padding mask alone"),
        ((6, 3), "without itself"),
        ((36, 0), "no mask at all"),
        ((26, 2), "counts the closed cells"),
        ((35, 0), "combine with and"),
        ((2, 10), "wrong order"),
        ((10, 0), "Look at row 0"),
        ((10, 1), "10 is right, 1 is not"),
        ((12, 2), "strike out the first two columns"),
        ((10, 2, 0), "got (3,)"),
        (10, "got ()"),
    ],
)
def test_counted_mask_names_the_mistake(said, words):
    refused(check_counted_mask, lambda: said, words)


@pytest.mark.parametrize(
    "answer", [lambda: (10, 2), lambda: [10.0, 2.0], torch.tensor([10, 2])]
)
def test_counted_mask_accepts(answer):
    accepted(check_counted_mask, answer)


def test_the_verdict_on_a_solution_does_not_give_it_away():
    message = accepted(check_counted_mask, (10, 2)).message
    assert not any(sign.isdigit() for sign in message)


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
        "the padding is still open",
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
        "masks columns, not rows",
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
    filled = scores.masked_fill(~allowed & ~empty, -torch.inf)
    return filled.softmax(dim=-1).masked_fill(empty, 0.0)


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
        lambda s, m: s.masked_fill(~m & m.any(-1, keepdim=True), -torch.inf).softmax(
            -1
        ),
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
    "one row": (lambda s, m: safe_softmax(s, m)[0], "must be (3, 4), got (4,)"),
}


@pytest.mark.parametrize("name", WRONG_SOFTMAXES)
def test_safe_softmax_names_the_mistake(name):
    function, words = WRONG_SOFTMAXES[name]
    refused(check_safe_softmax, function, words)


def by_hand(scores, allowed):
    largest = scores.masked_fill(~allowed, -torch.inf).amax(dim=-1, keepdim=True)
    largest = largest.masked_fill(largest.isneginf(), 0.0)
    positive = (scores - largest).exp().masked_fill(~allowed, 0.0)
    total = positive.sum(dim=-1, keepdim=True)
    return positive / total.masked_fill(total == 0, 1.0)


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
    erase_rows = filled_with(
        -1e9, lambda w, m: w.masked_fill(~m.any(dim=-1, keepdim=True), 0.0)
    )
    (remark,) = accepted(check_safe_softmax, erase_rows).remarks
    assert "float16" in remark


# --- a padded batch -------------------------------------------------------------------------------


def attend(mask_of):
    def attention(query, key, value, attention_mask):
        mask = mask_of(attention_mask)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    return attention


mended = attend(from_hf_attention_mask)
WRONG_BATCHES = {
    "broken": (attend(lambda m: m[:, None] == 0), "raises"),
    "half mended": (attend(lambda m: m[:, None] == 1), "raises"),
    "turned over": (attend(lambda m: m[:, None, None] == 0), "1 is a word"),
    "no mask": (attend(lambda m: None), "The mask is not used"),
    "added": (attend(lambda m: m[:, None, None].float()), "added to the scores"),
    "integers": (attend(lambda m: m[:, None, None]), "raises"),
    "NaN": (
        lambda q, k, v, m: mended(q, k, v, m).masked_fill(
            m[:, None, :, None] == 0, torch.nan
        ),
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


@pytest.mark.parametrize(
    ("right", "words"), [(1, "needs one more axis"), (0, "And 1 is a word")]
)
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
