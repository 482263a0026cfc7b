"""The checks of lesson 5: what they reject and why, and what they accept."""

import math

import pytest
import torch
import torch.nn.functional as F

from attnlab.exercises import (
    check_minimal_pair,
    check_needed_strength,
    check_plain_average,
    check_tested_head,
)
from tests.exercises.verdicts import accepted, refused

# --- a strength -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strength", "words"),
    [
        (math.log(9), "as much as the other eight"),
        (8, "e to the strength"),
        (3, "2 to this number"),
        (math.log10(8), "10 to this number"),
        (0.5, "the weight it shall get"),
        (0, "0.111 of the weight: too little"),
        (-2.079, "too little"),
        (2.06, "too little"),
        (2.1, "too much"),
        (1e6, "too much"),
        (-1e6, "too little"),
        ([1.0, 2.0], "One number"),
    ],
)
def test_needed_strength_names_the_mistake(strength, words):
    refused(check_needed_strength, lambda: strength, words)


@pytest.mark.parametrize("strength", [math.log(8), 2.08, torch.tensor(8.0).log(), [2.079]])
def test_needed_strength_accepts(strength):
    accepted(check_needed_strength, lambda: strength)
    accepted(check_needed_strength, strength)


# --- the control ----------------------------------------------------------------------------------


def divided(value, attn_mask):
    weights = attn_mask.to(value.dtype)
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1) @ value


def by_zero_query(value, attn_mask):
    query = value.new_zeros(*attn_mask.shape[:-1], 4)
    key = value.new_zeros(*value.shape[:-1], 4)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)


def filled_afterwards(value, attn_mask):
    weights = attn_mask.to(value.dtype)
    return (weights @ value / weights.sum(dim=-1, keepdim=True)).nan_to_num()


@pytest.mark.parametrize("answer", [divided, by_zero_query, filled_afterwards])
def test_plain_average_accepts(answer):
    accepted(check_plain_average, answer)


def mean_of_all(value, attn_mask):
    return value.mean(dim=-2, keepdim=True).expand(*attn_mask.shape[:-1], value.shape[-1])


def summed(value, attn_mask):
    return attn_mask.to(value.dtype) @ value


def divided_by_all(value, attn_mask):
    return summed(value, attn_mask) / value.shape[-2]


def turned_over(value, attn_mask):
    return divided(value, ~attn_mask)


def not_a_number(value, attn_mask):
    return summed(value, attn_mask) / attn_mask.sum(dim=-1, keepdim=True)


def large_negative(value, attn_mask):
    scores = torch.zeros(attn_mask.shape, dtype=value.dtype).masked_fill(~attn_mask, -1e9)
    return scores.softmax(dim=-1) @ value


def weights_alone(value, attn_mask):
    return attn_mask.float() / attn_mask.sum(dim=-1, keepdim=True).clamp(min=1)


def always_float32(value, attn_mask):
    return divided(value.float(), attn_mask)


def on_the_spot(value, attn_mask):
    output = divided(value, attn_mask)
    value.zero_()
    return output


def one_sentence_only(value, attn_mask):
    return divided(value, attn_mask) if value.ndim == 2 else divided(value[:1], attn_mask[:1])


def first_allowed(value, attn_mask):
    return value[..., :1, :] * attn_mask.any(dim=-1, keepdim=True)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (mean_of_all, "averages all values"),
        (summed, "divide by how many"),
        (divided_by_all, "divides by all keys"),
        (turned_over, "averages what is blocked"),
        (not_a_number, "it gives NaN"),
        (large_negative, "gets the average of all"),
        (weights_alone, "must be (4, 3), got (4, 5)"),
        (always_float32, "must be torch.float64, got torch.float32"),
        (on_the_spot, "changes what it is given"),
        (one_sentence_only, "must be (2, 4, 3), got (1, 4, 3)"),
        (first_allowed, "Every allowed value must count the same"),
        (lambda value, attn_mask: (value, attn_mask), "a tuple; the output alone"),
    ],
)
def test_plain_average_names_the_mistake(answer, words):
    refused(check_plain_average, answer, words)


# --- a head, tested -------------------------------------------------------------------------------


def report(known, fresh):
    head = known.mean(dim=1).argmax()
    return head, fresh[head].mean()


def report_in_numbers(known, fresh):
    head, mean = report(known, fresh)
    return [head.item(), mean.item()]


@pytest.mark.parametrize("answer", [report, report_in_numbers])
def test_tested_head_accepts(answer):
    accepted(check_tested_head, answer)


def best_of_fresh(_known, fresh):
    means = fresh.mean(dim=1)
    return means.argmax(), means.max()


def best_of_all(known, fresh):
    return best_of_fresh(None, torch.cat([known, fresh], dim=1))


def told_of_known(known, _fresh):
    return best_of_fresh(None, known)


def told_of_all(known, fresh):
    head, _ = report(known, fresh)
    return head, torch.cat([known, fresh], dim=1)[head].mean()


def mean_of_heads(known, fresh):
    return report(known, fresh)[0], fresh.mean()


def turned_round(known, fresh):
    return report(known, fresh)[::-1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (best_of_fresh, "it chooses head 3, the best with the fresh"),
        (best_of_all, "it chooses head 3, the best with the fresh"),
        (told_of_known, "that on the known sentences"),
        (told_of_all, "that on all sentences"),
        (mean_of_heads, "the mean of all heads"),
        (turned_round, "first the head"),
        (lambda known, fresh: (0, 0.0), "it chooses head 0; on the known ones 1"),
        (lambda known, fresh: (1, 0.0), "0.000 is not that on the fresh"),
        (lambda known, fresh: report(known, fresh)[0], "two numbers; it gives a Tensor"),
        (lambda known, fresh: (1, 2, 3), "it gives a tuple of 3"),
    ],
)
def test_tested_head_names_the_mistake(answer, words):
    refused(check_tested_head, answer, words)


# --- a minimal pair -------------------------------------------------------------------------------

SAILED = ("they sailed to the bank for a swim", "they sailed to the bank for a loan")


@pytest.mark.parametrize(
    "pair",
    [
        SAILED,
        ["She sat at the bank by the river.", "She works at the bank by the river."],
        ("they met at the bank near the lake", "they paid at the bank near the lake"),
    ],
)
def test_minimal_pair_accepts(pair):
    accepted(check_minimal_pair, lambda: pair)
    verdict = accepted(check_minimal_pair, pair)
    assert "looks most at" in verdict.message


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (
            ("the thief saw the bank by the river", "the thief robbed the bank by the river"),
            "“river” (0.537) in the first and at “robbed” (0.585)",
        ),
        ((SAILED[0], SAILED[0]), "are the same"),
        ((SAILED[0], "they walked to the bank for a loan"), "Only one word may differ; 2 do"),
        ((SAILED[0], "they sailed to a bank"), "they have 8 and 5 word pieces"),
        (("they sailed to the shore", SAILED[1]), "has it 0 times"),
        (("a bank is no bank", SAILED[1]), "has it 2 times"),
        (("the bank is open", "the bank is closed"), "tells nothing of any bank"),
        (
            ("the bank by the river was wet", "the bank by the lake was wet"),
            "the word that you changed, “river” and “lake”",
        ),
        (("", SAILED[1]), "cannot read it: text must hold at least one word"),
        (("die Bank am Fluß 银行", SAILED[1]), "cannot read it: text must be spelled"),
        (SAILED[0], "Two sentences are asked for; it gives a str"),
        ((SAILED[0], 3), "one is an int"),
        ((*SAILED, SAILED[0]), "it gives a tuple of 3"),
    ],
)
def test_minimal_pair_names_the_mistake(pair, words):
    refused(check_minimal_pair, lambda: pair, words)
