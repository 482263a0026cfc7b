"""The model of lesson 12, its texts and its two scores, against plain Python and torch."""

import itertools
import re
import runpy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnlab import data_path
from attnlab.layers.cache import KeyValueCache
from attnlab.models import looking_back
from attnlab.models.looking_back import LENGTH, SYMBOLS, load_looking_back, make_texts, to_text

MODEL = load_looking_back()  # no test changes it
MADE = runpy.run_path(str(data_path("make_looking_back.py")))  # the scores in looking_back.csv


@pytest.fixture
def texts():
    torch.manual_seed(3)
    return make_texts(100)


def plain_followers(text):
    """Return, for each place, the earlier places whose letter came after a copy of its letter."""
    return [
        [j for j in range(1, i + 1) if text[j - 1] == text[i] and "|" not in (text[i], text[j])]
        for i in range(len(text))
    ]


def test_what_follows_a_letter_never_changes_and_known_is_what_was_seen(texts):
    periods, jumps = set(), 0
    for tokens, known in zip(texts.tokens, texts.known.tolist(), strict=True):
        text = to_text(tokens)
        loop = re.match(r"([A-Z])[^|]*?(?=\||\1)", text)[0]
        assert {*text} <= {*loop, "|"}
        assert "||" not in text
        for a, b in itertools.pairwise(text):
            assert "|" in (a, b) or b == loop[(loop.index(a) + 1) % len(loop)]
        pairs = [text[i : i + 2] for i in range(LENGTH)]
        assert known == ["|" not in one and one in pairs[:i] for i, one in enumerate(pairs)]
        periods.add(len(loop))
        jumps += text.count("|")
    assert periods == {*range(8, 16)}
    assert 3 < jumps / len(texts.tokens) < 5
    tokens, known = make_texts(20, shortest=12, longest=12, jump=0)
    assert torch.equal(tokens[:, 12:], tokens[:, :-12])
    assert known.sum(dim=-1).tolist() == [LENGTH - 12] * 20


def test_scores_are_those_of_plain_python(texts):
    wanted = [plain_followers(to_text(tokens)) for tokens in texts.tokens]
    found = looking_back.followers(texts.tokens)
    assert [[row.nonzero().flatten().tolist() for row in one] for one in found] == wanted
    weights = torch.rand(2, 100, 3, LENGTH, LENGTH, dtype=torch.float64).softmax(dim=-1)
    previous, after = MADE["previous_score"](weights), MADE["follower_score"](weights, texts)
    assert previous.shape == after.shape == (2, 3)
    known = texts.known.nonzero().tolist()
    for layer, head in ((0, 0), (1, 2)):
        one = weights[layer, :, head].tolist()
        pairs = [rows[i][i - 1] for rows in one for i in range(1, LENGTH)]
        assert previous[layer, head].item() == pytest.approx(sum(pairs) / len(pairs))
        sums = [sum(one[n][i][j] for j in wanted[n][i]) for n, i in known]
        assert after[layer, head].item() == pytest.approx(sum(sums) / len(sums))


def test_a_share_counts_known_letters_only(texts):
    class Knows(nn.Module):
        def forward(self, tokens):
            hit = torch.where(texts.known, texts.tokens[:, 1:], 0)
            return nn.functional.one_hot(hit, len(SYMBOLS)), None

    assert looking_back.share_correct(Knows(), texts) == 1
    everything = looking_back.Texts(texts.tokens, torch.ones_like(texts.known))
    assert 0.2 < looking_back.share_correct(Knows(), everything) < 0.6


@pytest.mark.parametrize("pieces", [None, [32], [1, 9, 2, 20]])
def test_the_model_is_two_residual_layers_of_torch(pieces):
    model, tokens = load_looking_back().double(), make_texts(3).tokens[:, :-1]
    x = model.symbol(tokens) + model.position.weight
    weights = []
    for layer, norm in zip(model.layers, model.norms, strict=True):
        y = norm(x)
        output, looks = layer.to_torch()(y, y, y, attn_mask=torch.ones(32, 32).triu(1).bool())
        x = x + output
        weights.append(looks)
    if pieces is None:
        found = model(tokens)
        assert_close(found.weights[:, :, 0], torch.stack(weights))
        logits = [found.logits]
    else:  # the caches hold what has been read
        caches = [KeyValueCache(), KeyValueCache()]
        logits = [model(part, caches).logits for part in tokens.split(pieces, dim=1)]
    assert_close(torch.cat(logits, dim=1), model.guess(model.last_norm(x)), rtol=0, atol=1e-10)


def test_the_stored_model_knows_its_texts(texts):
    assert looking_back.share_correct(MODEL, texts) > 0.98
    weights = MODEL(texts.tokens[:, :-1]).weights
    (first,), (second,) = MADE["previous_score"](weights)
    assert first > 0.4 > 0.2 > second
    (first,), (second,) = MADE["follower_score"](weights, texts)
    assert first < 0.2 < 0.95 < second


def read(count, length):
    """Return the caches of a model that has read so many tokens of so many texts."""
    caches = [KeyValueCache(), KeyValueCache()]
    MODEL(torch.zeros(count, length, dtype=torch.long), caches)
    return caches


T, V, Z = TypeError, ValueError, torch.zeros(2, 3, dtype=torch.long)
CALLS = [
    (lambda: MODEL(torch.zeros(1, 33, dtype=torch.long)), V, r"at most 32 tokens.*\(1, 33\)"),
    (lambda: MODEL(Z[0]), V, r"got \(3,\); for one text use tokens\[None\]"),
    (lambda: MODEL(Z + 27), V, "places from 0 to 26"),
    (lambda: MODEL(Z, read(2, 30)), V, r"got \(2, 3\) after 30 in the caches"),
    (lambda: MODEL(Z, read(1, 5)), V, r"key must fit the cache .* a cache of \(1, 1"),
    (lambda: MODEL(Z, read(2, 5)[:1] * 2), V, "2 different caches.* got 2 of which 1 are"),
    (lambda: MODEL(Z, [*read(2, 5), KeyValueCache()]), V, "2 different caches.* got 3"),
    (lambda: MODEL(Z, [read(2, 5)[0], read(2, 7)[1]]), V, r"got lengths \[5, 7\]"),
    (lambda: make_texts(1, shortest=9, longest=8), V, "shortest must be at most longest"),
    (lambda: looking_back.to_tokens("a"), V, "letters A to Z and bars only, got 'a'"),
]


@pytest.mark.parametrize(("call", "kind", "words"), CALLS)
def test_a_bad_call_says_what_is_wrong(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
