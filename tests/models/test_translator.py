"""The toy translator writes what the grammar says, and its map holds what it used."""

import pytest
import torch
from torch.testing import assert_close

from attnlab.models import translator as toy
from attnlab.models.translator import END, ENGLISH, FRENCH, LONGEST, NOUNS, VERBS, load_translator

SENTENCES = toy.make_sentences(60, seed=5)
FIRST = load_translator()  # no test changes it


# --- the grammar ----------------------------------------------------------------------------------


def test_every_french_word_is_a_form_of_its_partner_that_agrees_with_its_noun():
    for english, french, partner in SENTENCES:
        words, written = english.split(), french.split()
        assert sorted(partner.tolist()) == [*range(len(words))] == [*range(len(written))]
        verb = next(place for place, word in enumerate(words) if word in VERBS)
        nouns = [next(w for w in part if w in NOUNS) for part in (words[:verb], words[verb:])]
        for word, place in zip(written, partner.tolist(), strict=True):
            other, (_, feminine) = words[place], NOUNS[nouns[place > verb]]
            form = {**VERBS, **{noun: french for noun, (french, _) in NOUNS.items()}}.get(other)
            assert word == (form or toy.FORMS[other][feminine])
    longest = next(
        s for s in toy.make_sentences(9000) if s.english.startswith("the small black cow ")
    )
    assert longest.french.startswith("la petite vache noire")
    assert longest.partner[:4].tolist() == [0, 1, 3, 2]


def test_the_same_seed_gives_the_same_sentences():
    again, other = toy.make_sentences(60, seed=5), toy.make_sentences(60, seed=6)
    assert [s.english for s in again] == [s.english for s in SENTENCES]
    assert [s.english for s in other] != [s.english for s in SENTENCES]
    assert max(len(s.english.split()) for s in toy.make_sentences(2000)) == LONGEST
    assert {w for s in toy.make_sentences(500) for w in s.english.split()} == {*ENGLISH}


# --- what it writes -------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "trained"), [*((i, True) for i in range(8)), (0, False)])
def test_a_trained_translator_makes_no_error_and_an_untrained_one_knows_nothing(seed, trained):
    translator, correct = load_translator(seed, trained=trained), []
    for english, french, _ in SENTENCES:
        given = translator.translate(english, french=french)
        if trained:  # left alone it writes the same, and its map is the same
            alone = translator.translate(english)
            assert given.english == alone.english == english.split()
            assert given.french == alone.french == [*french.split(), END]
            assert_close(given.weights, alone.weights)
        correct += [a == b for a, b in zip(french.split(), given.french, strict=False)]
    assert sum(correct) / len(correct) == 1 if trained else sum(correct) < 60


@pytest.mark.parametrize("hidden", [[], [(1, 0), (3, 2)]])
def test_a_translation_is_computed_as_the_lesson_says(hidden):
    model, text = load_translator().double(), "the black cat sees a house"
    before = "(start) le chat noir voit une maison".split()
    found = model.translate(text, french="le chat noir voit une maison .", hidden=hidden)
    x = model.words.weight[[ENGLISH.index(w) for w in text.split()]] + model.places.weight[:6]
    state, _ = model.memory(model.written.weight[[FRENCH.index(w) for w in before]])
    scores = model.query(state) @ model.key(x).T / 32**0.5
    for cell in hidden:
        scores[cell] = -torch.inf
    weights = scores.softmax(dim=-1)
    assert_close(found.weights, weights, rtol=0, atol=1e-12)
    guesses = model.next_word(torch.cat([state, weights @ model.value(x)], dim=-1))
    guesses[:, 0] = -torch.inf  # the mark of the beginning is never written
    assert found.french == [FRENCH[one] for one in guesses.argmax(dim=-1)]


def test_what_never_ends_is_cut_off():
    translator = toy.Translator().eval()
    with torch.no_grad():
        translator.next_word.bias[1] = -100  # never a full stop
    found = translator.translate("the cat")
    assert len(found.french) == len(found.weights) == 2 * LONGEST


def test_which_words_are_articles():
    words = " ".join(sentence.french for sentence in SENTENCES).split()
    kinds = {"le": "le, un", "un": "le, un", "la": "la, une", "une": "la, une"}
    assert toy.kinds_of_words(SENTENCES) == [kinds.get(word, "others") for word in words]


# --- what it refuses ------------------------------------------------------------------------------


def write(english="the cat", **options):
    return FIRST.translate(english, **options)


T, V = TypeError, ValueError
CALLS = [
    (lambda: write("the fox"), V, "toy grammar only, and 'fox' is .*ENGLISH lists"),
    (lambda: write("the the " * 5), V, "english must have at most 9 words, got 10"),
    (lambda: write(french="le renard"), V, "and 'renard' is .*FRENCH lists"),
    (lambda: write(french="(start)"), V, r"'\(start\)' is not one"),
    (lambda: write(hidden=[(0, 2)]), V, "column of a hidden cell must be at most 1, got 2"),
    (lambda: write(hidden=[(True, 0)]), T, "row of a hidden cell must be an integer, got"),
    (lambda: write(hidden=[(0, 0), (0, 1)]), V, "a word to look at, and row 0 has none"),
    (lambda: load_translator(8), V, "seed must be at most 7, got 8"),
    (lambda: load_translator(1, trained=False), V, "seed must be at most 0, got 1"),
]


@pytest.mark.parametrize(("call", "kind", "words"), CALLS)
def test_a_bad_call_says_what_is_wrong(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
