"""The toy translator writes what the grammar says, and its map holds what it used."""

import re
from itertools import product

import pytest
import torch

from attnlab.translator import (
    AFTER,
    ARTICLES,
    BEFORE,
    END,
    ENGLISH,
    LONGEST,
    NOUNS,
    STORED,
    VERBS,
    Translator,
    changed_without,
    darkest_on_partner,
    kinds_of_words,
    load_translator,
    make_sentences,
)

SENTENCES = make_sentences(200, seed=5)


@pytest.fixture(scope="module", params=["first", "second", "third"])
def trained(request):
    return load_translator(request.param)


# --- the grammar ----------------------------------------------------------------------------------


def test_a_sentence_with_all_kinds_of_words():
    found = next(s for s in make_sentences(9000) if s.english.startswith("the small black cow "))
    assert found.french.startswith("la petite vache noire")
    assert found.partner[:4].tolist() == [0, 1, 3, 2]


def test_every_french_word_is_a_form_of_its_partner_that_agrees_with_its_noun():
    forms = {**ARTICLES, **BEFORE, **AFTER}
    for english, french, partner in SENTENCES:
        words, written = english.split(), french.split()
        assert sorted(partner.tolist()) == list(range(len(words))) == list(range(len(written)))
        verb = next(place for place, word in enumerate(words) if word in VERBS)
        nouns = [next(w for w in part if w in NOUNS) for part in (words[:verb], words[verb:])]
        for word, place in zip(written, partner.tolist(), strict=True):
            other, (_, feminine) = words[place], NOUNS[nouns[place > verb]]
            if other in forms:
                assert word == forms[other][feminine]
            else:
                assert word == (NOUNS[other][0] if other in NOUNS else VERBS[other])


def test_the_same_seed_gives_the_same_sentences_and_touches_no_global_state():
    before = torch.get_rng_state()
    again = make_sentences(200, seed=5)
    assert [s.english for s in again] == [s.english for s in SENTENCES]
    assert [s.english for s in make_sentences(200, seed=6)] != [s.english for s in SENTENCES]
    assert torch.equal(before, torch.get_rng_state())
    assert max(len(s.english.split()) for s in make_sentences(2000)) == LONGEST
    assert {w for s in make_sentences(500) for w in s.english.split()} == {*ENGLISH}


# --- what it writes -------------------------------------------------------------------------------


def test_every_sentence_is_translated_without_an_error(trained):
    for english, french, _ in SENTENCES:
        assert trained.translate(english).french == [*french.split(), END]


def test_the_untrained_translator_knows_nothing():
    translator, correct = load_translator("untrained"), []
    for english, french, _ in SENTENCES:
        found = translator.translate(english, french=french).french[:-1]
        correct += [a == b for a, b in zip(french.split(), found, strict=True)]
    assert sum(correct) / len(correct) < 0.15


def test_the_maps_are_those_of_the_words_before(trained):
    for english, french, _ in SENTENCES[:20]:
        written, given = trained.translate(english), trained.translate(english, french=french)
        assert given.french == written.french
        assert given.english == written.english == english.split()
        torch.testing.assert_close(given.weights, written.weights)
        torch.testing.assert_close(given.weights.sum(dim=-1), torch.ones(len(given.french)))
    stopped = trained.translate("the cat", french="le chat .")
    assert len(stopped.french) == 3


def test_english_comes_in_through_the_attention_only(trained):
    one, other = "the cat sees a cow", "the dog sees a cow"  # they differ in one word
    french = "le chat voit une vache"
    hidden = [(row, 1) for row in range(6)]
    found = [trained.translate(text, french=french, hidden=hidden) for text in (one, other)]
    assert torch.equal(found[0].weights, found[1].weights)
    assert found[0].french == found[1].french
    free = [trained.translate(text, french=french).french for text in (one, other)]
    assert free[0][1] == "chat"
    assert free[1][1] == "chien"


def test_a_hidden_cell_changes_its_own_row_only(trained):
    english, french, _ = SENTENCES[0]
    plain = trained.translate(english, french=french).weights
    for row, column in product(range(2), range(2)):
        got = trained.translate(english, french=french, hidden=[(row, column)]).weights
        assert got[row, column] == 0
        rest = plain[row].clone()
        rest[column] = 0
        torch.testing.assert_close(got[row], rest / rest.sum(), rtol=1e-4, atol=1e-5)
        others = [i for i in range(len(plain)) if i != row]
        torch.testing.assert_close(got[others], plain[others])


def test_how_often_the_darkest_cell_lies_on_the_partner(trained):
    hits = darkest_on_partner(trained, SENTENCES)
    article = torch.tensor([kind != "others" for kind in kinds_of_words(SENTENCES)])
    assert hits[~article].all()
    assert 0.4 < hits[article].float().mean() < 0.7
    english, french, partner = SENTENCES[0]
    found = trained.translate(english, french=french).weights.argmax(dim=-1)
    assert hits[: len(partner)].tolist() == [
        cell == place for cell, place in zip(found.tolist(), partner.tolist(), strict=False)
    ]


def test_which_words_are_articles():
    by_hand = {"le": "le, un", "un": "le, un", "la": "la, une", "une": "la, une"}
    words = " ".join(sentence.french for sentence in SENTENCES).split()
    for word, kind in zip(words, kinds_of_words(SENTENCES), strict=True):
        assert kind == by_hand.get(word, "others")
    assert set(by_hand) < set(words)


def test_which_words_change_if_the_cell_of_a_rank_is_hidden(trained):
    sentence = SENTENCES[3]
    plain = trained.translate(sentence.english, french=sentence.french)
    for rank in (0, 1):
        expected = []
        for row, word in enumerate(plain.french[:-1]):
            column = plain.weights[row].sort(descending=True).indices[rank].item()
            cell = {"french": sentence.french, "hidden": [(row, column)]}
            expected.append(trained.translate(sentence.english, **cell).french[row] != word)
        assert changed_without(trained, [sentence], rank=rank).tolist() == expected
    assert changed_without(trained, SENTENCES).float().mean() > 0.8


def test_what_never_ends_is_cut_off():
    translator = Translator().eval()
    with torch.no_grad():
        translator.next_word.bias[1] = -100  # never a full stop
    found = translator.translate("the cat")
    assert len(found.french) == len(found.weights) == 2 * LONGEST
    assert END not in found.french


def test_translators_do_not_share_their_parameters():
    before = torch.get_rng_state()
    first, again = load_translator(), load_translator()
    assert torch.equal(before, torch.get_rng_state())
    first.next_word.bias.zero_()
    assert again.next_word.bias.abs().max() > 0
    assert not any(p.requires_grad for p in again.parameters())
    assert not again.training
    biases = [load_translator(name).next_word.bias for name in STORED]
    assert not torch.equal(biases[0], biases[1])
    assert not torch.equal(biases[0], biases[2])


# --- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"english": "the fox"}, "english must have words of the toy grammar only, and 'fox' is"),
        ({"english": "the the " * 5}, "english must have at most 9 words, got 10."),
        ({"english": ""}, "english must not be empty, got ''."),
        ({"french": "le renard"}, "french must have words of the toy grammar only, and 'renard'"),
        ({"french": "(start)"}, "'(start)' is not one; attnlab.translator.FRENCH lists them."),
        ({"hidden": [(0, 2)]}, "rows from 0 to 17 and columns from 0 to 1, got (0, 2)."),
        ({"hidden": [(3, 0)], "french": "le chat"}, "rows from 0 to 2 and columns from 0 to 1"),
        ({"hidden": [(-1, 0)]}, "got (-1, 0)."),
        ({"hidden": [(True, 0)]}, "got (True, 0)."),
        ({"hidden": [(0, 0), (0, 1)]}, "every row a word to look at, and row 0 has none."),
    ],
)
def test_what_it_refuses(arguments, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        load_translator().translate(**{"english": "the cat", **arguments})


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: load_translator("fourth"), "'second' or 'third' or 'untrained', got 'fourth'"),
        (lambda: changed_without(load_translator(), SENTENCES, rank=5), "at most 4, got 5"),
        (lambda: darkest_on_partner(load_translator(), []), "at least one Sentence"),
        (lambda: kinds_of_words([]), "at least one Sentence"),
    ],
)
def test_what_its_measures_refuse(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
