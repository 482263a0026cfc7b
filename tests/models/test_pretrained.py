"""The trained model computes and spells as the original does, and refuses wrong input."""

import json
import unicodedata
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch.testing import assert_close

from attnlab import data_path
from attnlab.models.pretrained import load_encoder, load_layer
from attnlab.models.store import load_tensors

ATOL = 2e-3  # the numbers are stored as float16
REFERENCE = load_tensors("minilm_reference.safetensors")
with safe_open(data_path("minilm_reference.safetensors"), "pt") as file:
    TOKENS = json.loads(file.metadata()["sentences"])  # text: the original's tokens
LINES = Path(__file__).with_name("minilm_spelled.tsv").read_text(encoding="utf-8").splitlines()
SPELLED = {json.loads(text): tokens.split() for text, tokens in (x.split("\t") for x in LINES)}
RIVER = "she sat on the bank of the river"


@pytest.fixture(scope="module")
def layer():
    """Return a layer that no test changes."""
    return load_layer()


@pytest.fixture(scope="module")
def encoder():
    """Return an encoder that no test changes."""
    return load_encoder()


# --- agreement with the original ------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(TOKENS)))
def test_every_layer_agrees_with_the_original(layer, encoder, number):
    text, tokens = [*TOKENS.items()][number]
    first, whole = layer.read(text), encoder.read(text)
    assert_close(whole.weights, REFERENCE[f"weights.{number}"], rtol=0, atol=ATOL)
    cosines = torch.cosine_similarity(whole.vectors, REFERENCE[f"vectors.{number}"], dim=-1)
    assert cosines.min() > 1 - ATOL / 20
    assert first.tokens == whole.tokens == tokens
    assert torch.equal(first.embedded, whole.vectors[0])
    assert torch.equal(first.weights, whole.weights[0])
    assert_close(first.output, REFERENCE[f"output.{number}"], rtol=0, atol=ATOL)


def test_words_are_spelled_as_in_the_original(layer):
    assert {text: layer.tokens(text) for text in SPELLED} == SPELLED
    assert layer.vocabulary[::30521] == ("[PAD]", "##～")


def test_a_layer_is_one_of_torch():
    layer = load_encoder().double().layers[3]
    torchs = torch.nn.TransformerEncoderLayer(
        384, 12, 1536, activation="gelu", layer_norm_eps=1e-12, batch_first=True
    )
    torchs = torchs.eval().double()
    torchs.self_attn = layer.attention.to_torch()
    pairs = ("linear1", "expand"), ("linear2", "contract")
    for theirs, ours in (*pairs, ("norm1", "attention_norm"), ("norm2", "output_norm")):
        getattr(torchs, theirs).load_state_dict(getattr(layer, ours).state_dict())
    x = torch.randn(2, 7, 384, dtype=torch.float64, requires_grad=True)
    pull = torch.randn_like(x)
    outputs = layer(x).output, torchs(x)
    assert_close(*outputs, rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad((one * pull).sum(), x)[0] for one in outputs]
    assert_close(*gradients, rtol=0, atol=1e-10)


# --- other weights, positions and words -----------------------------------------------------------


def test_weights_of_zero_take_a_head_out(encoder):
    changed = load_encoder()
    for number, head in ((0, 4), (3, 11), (5, 0)):
        own = slice(32 * head, 32 * (head + 1))
        changed.layers[number].attention.out_proj.weight[:, own] = 0

    def without(number, weights):
        assert weights.shape == (1, 12, 10, 10)
        new = weights.clone()
        new[:, {0: 4, 3: 11, 5: 0}.get(number, [])] = 0
        return new

    edited, wanted = encoder.read(RIVER, edit=without), changed.read(RIVER)
    assert_close(edited.vectors, wanted.vectors, rtol=0, atol=1e-5)
    taken = (edited.weights.sum(dim=(-2, -1)) == 0).nonzero().tolist()
    assert taken == [[0, 4], [3, 11], [5, 0]]


def test_order_counts_by_positions_alone(layer, encoder):
    tokens = ["the", "dog", "chased", "the", "cat"]
    x = layer.embed(tokens)
    assert (x - layer.embed(tokens[::-1]).flip(1)).abs().max() > 0.1
    assert torch.equal(layer.embed(tokens[::-1], positions=[4, 3, 2, 1, 0]).flip(1), x)
    assert torch.equal(encoder(tokens, positions=range(5))[0], encoder(tokens)[0])
    flat, _ = encoder(tokens, positions=[5] * 5)
    assert torch.equal(flat[0, 0, 0], flat[0, 0, 3])  # "the" and "the"


def test_other_words_attend_in_the_place_of_one(layer):
    tokens, askers = layer.tokens(RIVER), ["chair", "river", "bank"]
    for place in (0, 5, len(tokens) - 1):
        rows = layer.attend_as(askers, tokens, place)
        for asker, row in zip(askers, rows.unbind(dim=1), strict=True):
            swapped = [*tokens[:place], asker, *tokens[place + 1 :]]
            assert_close(row, layer(swapped).weights[0, :, place])


def test_the_common_words_are_whole_words_in_the_order_of_the_vocabulary(layer):
    words = layer.common_words(21361)
    letters = {one for one in {*"".join(layer.vocabulary)} if unicodedata.category(one)[0] == "L"}
    assert words == [one for one in layer.vocabulary if len(one) > 2 and {*one} <= letters]
    assert layer.common_words(3) == words[:3]


# --- wrong input ----------------------------------------------------------------------------------

T, V = TypeError, ValueError
TEXTS = [
    (None, T, "text must be a string, got NoneType"),
    ("", V, "at least one word, got ''"),
    (" \n\u00a0\u0301\x00", V, "at least one word"),
    ("a \udfff", V, "'.udfff' contains half of one"),
    ("b" * 5001, V, "at most 5,000 characters, got 5,001"),
    ("cat " * 511, V, "at most 510 word pieces, got 511 in 511 words"),
]


@pytest.mark.parametrize(("text", "kind", "words"), TEXTS)
def test_a_wrong_text_is_refused(layer, encoder, text, kind, words):
    for method in (layer.tokens, layer.read, encoder.read):
        with pytest.raises(kind, match=words):
            method(text)


CALLS = [
    ("layer.embed('the cat')", T, "tokens must be a list of word pieces, as layer.tokens"),
    ("layer.embed([])", V, "tokens must hold 1 to 512 word pieces, got 0"),
    ("layer.embed(['Cat'])", V, "pieces of the vocabulary, got 'Cat'; layer.tokens"),
    ("layer.embed(['cat'], positions=[])", V, "one for each of 1 tokens, got 0"),
    ("layer.embed(['cat'], positions=[512])", V, "positions must be at most 511, got 512"),
    ("layer.attend_as([], ['cat'], 0)", V, "askers must hold 1 to 30522 word pieces, got 0"),
    ("layer.attend_as(['Chair'], ['cat'], 0)", V, "askers must be pieces of the vocabulary"),
    ("encoder.encode(torch.ones(2, 5, 7))", V, "x must have 384 features"),
    ("encoder.read('a', edit=lambda *_: None)", T, "what edit returns must be a torch.Tensor"),
    ("encoder.read('a', edit=lambda *_: torch.ones(3, 3))", V, "have the shape of the weights"),
]


@pytest.mark.parametrize(("call", "kind", "words"), CALLS)
def test_a_bad_call_says_what_is_wrong(layer, encoder, call, kind, words):
    with pytest.raises(kind, match=words):
        eval(call, globals() | {"layer": layer, "encoder": encoder})


def test_the_longest_text_is_read(layer):
    assert layer.read(" ".join(["river"] * 510)).weights.shape == (12, 512, 512)
