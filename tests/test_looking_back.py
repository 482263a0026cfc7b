"""The model of lesson 12, its texts and its two scores, against plain Python."""

import csv
import itertools
import re

import pytest
import torch
from torch import nn

from attnlab import data_path
from attnlab.looking_back import (
    BAR,
    LENGTH,
    SYMBOLS,
    LookingBack,
    Texts,
    follower_score,
    followers,
    load_looking_back,
    make_texts,
    previous_score,
    share_correct,
    to_text,
    to_tokens,
)


@pytest.fixture(scope="module")
def texts():
    torch.manual_seed(3)
    return make_texts(100)


@pytest.fixture(scope="module")
def trained():
    return load_looking_back()


def plain_followers(text):
    """Return, for each place, the earlier places whose letter came after a copy of its letter."""
    return [
        [j for j in range(1, i + 1) if text[j - 1] == text[i] and "|" not in (text[i], text[j])]
        for i in range(len(text))
    ]


# --- texts ----------------------------------------------------------------------------------------


def test_a_text_is_a_loop_and_what_follows_a_letter_never_changes(texts):
    periods, jumps = set(), 0
    for tokens in texts.tokens:
        text = to_text(tokens)
        loop = re.match(r"([A-Z])[^|]*?(?=\||\1)", text)[0]
        assert len(set(loop)) == len(loop)
        assert set(text) <= {*loop, "|"}
        assert "||" not in text
        periods.add(len(loop))
        jumps += text.count("|")
        for a, b in itertools.pairwise(text):
            if "|" not in (a, b):
                assert b == loop[(loop.index(a) + 1) % len(loop)]
    assert periods == set(range(8, 16))
    assert 3 < jumps / len(texts.tokens) < 5


def test_known_is_what_was_seen_before(texts):
    for tokens, known in zip(texts.tokens, texts.known.tolist(), strict=True):
        text = to_text(tokens)
        pairs = [text[i : i + 2] for i in range(LENGTH)]
        wanted = ["|" not in pair and pair in pairs[:i] for i, pair in enumerate(pairs)]
        assert known == wanted


def test_without_jumps_a_text_repeats_with_its_period():
    tokens, known = make_texts(20, shortest=12, longest=12, jump=0)
    assert torch.equal(tokens[:, 12:], tokens[:, :-12])
    assert known[:, 12:].all()
    assert not known[:, :12].any()


def test_letters_and_places():
    assert to_text(to_tokens("AZ|")) == "AZ|"
    assert to_tokens("|").tolist() == [BAR] == [len(SYMBOLS) - 1]


# --- scores ---------------------------------------------------------------------------------------


def test_followers_are_those_of_plain_python(texts):
    found = followers(texts.tokens)
    for tokens, mask in zip(texts.tokens, found, strict=True):
        wanted = plain_followers(to_text(tokens))
        assert [row.nonzero().flatten().tolist() for row in mask] == wanted


def test_scores_are_those_of_plain_python(texts):
    weights = torch.rand(2, 100, 3, LENGTH, LENGTH).softmax(dim=-1)
    previous, after = previous_score(weights), follower_score(weights, texts)
    assert previous.shape == after.shape == (2, 3)
    for layer, head in ((0, 0), (1, 2)):
        one = weights[layer, :, head]
        pairs = [one[n, i, i - 1] for n in range(100) for i in range(1, LENGTH)]
        torch.testing.assert_close(previous[layer, head], torch.stack(pairs).mean())
        sums = [
            one[n, i, plain_followers(to_text(tokens[:-1]))[i]].sum()
            for n, tokens in enumerate(texts.tokens)
            for i in texts.known[n].nonzero().flatten().tolist()
        ]
        torch.testing.assert_close(after[layer, head], torch.stack(sums).mean())


def test_a_share_counts_known_letters_only(texts):
    class Perfect(nn.Module):
        def forward(self, tokens):
            logits = torch.zeros(*tokens.shape, len(SYMBOLS))
            hit = torch.where(texts.known, texts.tokens[:, 1:], 0)
            return logits.scatter(-1, hit[..., None], 1.0), None

    assert share_correct(Perfect(), texts) == 1
    half = Texts(texts.tokens, torch.ones_like(texts.known))
    assert 0.2 < share_correct(Perfect(), half) < 0.6


# --- the model ------------------------------------------------------------------------------------


def test_the_model_is_two_residual_layers_of_torch(trained):
    tokens = make_texts(3).tokens[:, :-1]
    logits, weights = trained(tokens)
    x = trained.symbol(tokens) + trained.place(torch.arange(LENGTH))
    blocked = torch.ones(LENGTH, LENGTH).triu(1).bool()
    for layer, norm, found in zip(trained.layers, trained.norms, weights, strict=True):
        y = norm(x)
        output, wanted = layer.to_torch()(y, y, y, attn_mask=blocked)
        torch.testing.assert_close(found[:, 0], wanted)
        x = x + output
    torch.testing.assert_close(logits, trained.guess(trained.last_norm(x)))


def test_a_guess_depends_on_what_came_before_only(trained):
    tokens = make_texts(2).tokens[:, :-1]
    whole, part = trained(tokens).logits, trained(tokens[:, :20]).logits
    torch.testing.assert_close(whole[:, :20], part)


def test_the_stored_model_knows_its_texts(trained, texts):
    assert share_correct(trained, texts) > 0.98
    weights = trained(texts.tokens[:, :-1]).weights
    assert (previous_score(weights)[0] > 0.4).all()
    assert (previous_score(weights)[1] < 0.2).all()
    assert (follower_score(weights, texts)[0] < 0.2).all()
    assert (follower_score(weights, texts)[1] > 0.95).all()


def test_models_do_not_share_their_parameters():
    before = torch.get_rng_state()
    first, again = load_looking_back(), load_looking_back()
    assert torch.equal(before, torch.get_rng_state())
    first.guess.bias.zero_()
    assert again.guess.bias.abs().max() > 0
    assert not again.training
    assert not any(parameter.requires_grad for parameter in again.parameters())


def test_what_it_refuses():
    for tokens, sentence in (
        (torch.zeros(1, 33, dtype=torch.long), "at most 32 tokens (dimension 1), got (1, 33)."),
        (torch.zeros(5, dtype=torch.long), "got (5,); for one text use tokens[None]."),
        (torch.full((1, 2), 27), "tokens must hold places from 0 to 26"),
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            LookingBack()(tokens)
    with pytest.raises(ValueError, match="letters A to Z and bars only, got 'a'"):
        to_tokens("a")
    with pytest.raises(ValueError, match=re.escape("5 texts of L = 32 tokens, got (3, 1, 32, 32)")):
        follower_score(torch.zeros(3, 1, 32, 32), make_texts(5))


# --- the stored runs ------------------------------------------------------------------------------


def test_the_stored_runs_are_whole_and_fair():
    with data_path("looking_back.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    kinds = {(r["task"], r["num_layers"], r["num_heads"], r["rate"]) for r in rows}
    assert len(kinds) == 1 + 6 + 2
    two, wide = LookingBack(), LookingBack(1, int(rows[-1]["embed_dim"]), 4)
    sizes = [sum(one.numel() for one in model.parameters()) for model in (two, wide)]
    assert sizes[0] <= sizes[1] < 1.01 * sizes[0]
    ends = {}
    for row in rows:
        if row["step"] == ("300" if row["num_layers"] == "2" else "1000"):
            ends.setdefault((row["task"], row["num_layers"]), []).append(float(row["correct"]))
    assert len(ends["jumps", "2"]) == 6
    assert len(ends["jumps", "1"]) == 24
    assert min(ends["jumps", "2"]) > 0.98
    assert max(ends["jumps", "1"]) < 0.35
