"""Anybody's weights: each form that models return is shown as it is, others get one sentence."""

import base64
import itertools
import json
import re

import numpy as np
import pytest
import torch

from attnlab.explorers import HeadView
from tests.explorers.common import assert_reads

LAYERS, H, L = 2, 3, 5
TOKENS = ["[CLS]", "a", "猫", "a", "</script>"]
GIVEN = torch.randn(LAYERS, H, L, L, generator=torch.Generator().manual_seed(0)).mul(2).softmax(-1)
FORMS = {  # what is given, and the weights in it
    "a tuple, as models return it": (tuple(GIVEN[:, None]), GIVEN),
    "a list of heads": (list(GIVEN), GIVEN),
    "a list of arrays": ([layer[:1].numpy() for layer in GIVEN], GIVEN[:, :1]),
    "layers in one": (GIVEN.double().requires_grad_(), GIVEN),
    "one layer": (GIVEN[:1], GIVEN[:1]),
    "a batch of one": (GIVEN[None].numpy(), GIVEN),
    "heads": (GIVEN[1].numpy(), GIVEN[1:]),
    "one head": (GIVEN[1, 2], GIVEN[1:, 2:]),
}


def unpacked(packed):
    """Return the weights that a page makes of what it is sent."""
    levels = np.frombuffer(base64.b64decode(packed["text"]), f"<u{packed['bytes']}")
    roots = torch.tensor(levels.astype(np.float32)) / (256 ** packed["bytes"] - 1)
    weights = (roots / (1 - 1 / (256 ** packed["bytes"] - 1))).square().view(packed["shape"])
    return packed["scale"] * weights.where(roots.view(packed["shape"]) < 1, torch.nan)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_shown_said_and_written_as_it_is(form):
    given, weights = FORMS[form]
    layer, head = len(weights) - 1, weights.shape[1] - 1
    view = HeadView(given, TOKENS, layer=layer, head=head, ask=False)
    torch.testing.assert_close(view.result.weights, weights)
    sent = view.data["kinds"][""]
    torch.testing.assert_close(unpacked(sent["weights"]), weights, atol=5e-5, rtol=0)
    assert sent["keys"] is None
    for view.word in range(L):
        row = weights[layer, head, view.word]
        frame, place = view.frame_now(), [view.word] * (TOKENS[view.word] == "a")
        assert torch.equal(frame["row"]["weights"], row)
        assert torch.equal(frame["maps"]["maps"], weights[layer])
        top = int(row.argmax())
        repeated = [top] * (TOKENS[top] == "a" and top != view.word)
        numbers = [*[layer] * (LAYERS == len(weights)), head, *place, *repeated, row.max(), 1 / L]
        assert_reads(view.say(), numbers, form)
        code = view.result.code.format(layer=layer, head=head, place=view.word, slice="")
        found = eval(code, {"weights": given})
        torch.testing.assert_close(torch.as_tensor(found).float(), row, check_dtype=False)


def test_of_many_tokens_the_picture_has_those_with_the_largest_weights_of_ties_the_first():
    generator = torch.Generator().manual_seed(0)
    hair = 1e-7 * torch.rand(60, 60, generator=generator)  # what another processor makes of it
    weights = torch.eye(60).roll(-1, 0) * 0.5 + 0.5 / 60 + hair
    view = HeadView(weights, [f"t{i}" for i in range(60)], word=40)
    assert view.frame_now()["row"]["names"] == [*[f"t{i}" for i in range(23)], "t41"]


def uniform(*shape):
    return torch.full(shape, 1 / shape[-1])


# few among many: 0.004, three times 0.0015, and others far below
SMALL = torch.tensor([0.004, *[0.0015] * 3, *[0.0001] * 196])[None, None]

EXTREME = {
    "“0” attends most to 5 of 5 tokens (0.20 each); uniform attention gives": uniform(1, 5, 5),
    "most to itself (1.00); uniform attention gives each token 1.00.": uniform(1, 1, 1),
    "most to 300 of 300 tokens (less than 0.01 each); unif": uniform(1, 3, 300),
    "attends most to “0” (less than 0.01); uniform attention gives each token 0.01.": SMALL,
    "In head 0, “0” attends to nothing: all its weights are 0.": torch.zeros(1, 5, 5),
    "In head 0, “0” has no weights: its row is NaN": torch.full((1, 5, 5), torch.nan),
}


def view_of(weights):
    """Return a view of weights whose tokens, and keys if they are others, are numbers."""
    _, L, S = weights.shape
    return HeadView(weights, range(L), None if L == S else range(S))


@pytest.mark.parametrize("said", EXTREME)
def test_even_small_and_missing_weights_are_told_as_they_are(said):
    assert said in view_of(EXTREME[said]).say()


def test_rows_of_nan_stay_beside_ordinary_ones():
    weights = GIVEN.clone()
    weights[:, :, 3:] = torch.nan  # as with padding tokens that see nothing
    view = HeadView(weights, range(L))
    torch.testing.assert_close(
        unpacked(view.data["kinds"][""]["weights"]), weights, atol=5e-5, rtol=0, equal_nan=True
    )
    crossed = [patch for patch in view.figure().axes[0].patches if patch.get_hatch()]
    assert len(crossed) == 2 * H
    assert "attends most" in view.say()


SOURCE = ["le", "chat", "dort", "."]


@pytest.mark.parametrize("as_list", [False, True])
def test_in_cross_attention_words_ask_other_words(as_list):
    weights = torch.rand(LAYERS, H, L, 4, generator=torch.Generator().manual_seed(1)).softmax(-1)
    given = tuple(weights[:, None]) if as_list else weights
    view = HeadView(given, TOKENS, SOURCE, layer=1, head=2, word=3)
    assert view.result[:2] == ((*TOKENS,), (*SOURCE,))
    frame, row = view.frame_now(), weights[1, 2, 3]
    assert frame["row"]["names"] == SOURCE
    assert torch.equal(frame["row"]["weights"], row)
    assert f"“{SOURCE[int(row.argmax())]}”" in view.say()
    code = view.result.code.format(layer=1, head=2, place=3, slice="")
    assert torch.equal(eval(code, {"weights": given}), row)
    word = int(HeadView(given, TOKENS, TOKENS[:4]).result.weights[0, 0, 1].argmax())
    same = HeadView(
        given, TOKENS, TOKENS[:4], word=word
    )  # the same text twice: no word is "itself"
    assert "itself" not in same.say()


def drawn(seed, *shape):
    """Return weights of a random stream of its own."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).mul(2).softmax(-1)


KINDS = {  # of one model; the decoder has other layers, heads and tokens
    "encoder": (tuple(drawn(1, 4, 1, 2, 4, 4)), SOURCE),
    "decoder": (drawn(2, 2, H, L, L), TOKENS),
    "cross": (drawn(3, 2, H, L, 4), TOKENS, SOURCE),
}


def test_kinds_of_attention_are_shown_one_at_a_time_each_with_its_own_layers_and_words():
    view = HeadView(KINDS, word=4, layer=3, attention="cross")
    assert "In cross, layer 1, head 0, “</script>” attends most to" in view.say()  # its last layer
    names = [one["name"] for one in view.data["controls"] if one["kind"]]
    assert names == ["attention", "layer", "layer", "layer"]
    layers = [one for one in view.data["controls"] if one["name"] == "layer"]
    assert [(len(one["values"]), one["when"]["attention"][0]) for one in layers] == [
        (4, "encoder"),
        (2, "decoder"),
        (2, "cross"),
    ]
    for view.attention, (given, *_) in KINDS.items():
        _, keys, weights, (layer, head, place) = view.shown()
        row = torch.as_tensor(given[layer]).view(-1, *weights.shape[1:])[head, place]
        assert torch.equal(view.frame_now()["row"]["weights"], row)
        code = view.result.code.format(layer=layer, head=head, place=place, slice="")
        assert torch.equal(eval(code, {"weights": KINDS}), row)
        assert (keys is None) == (view.attention != "cross")
    assert HeadView(KINDS).attention == "encoder"


def test_of_kinds_that_are_too_much_together_the_message_names_one():
    many = {name: (torch.full((1, 12, 400, 400), 1 / 400),) for name in "abc"}
    with pytest.raises(ValueError, match="5,760,000 in all") as caught:
        HeadView(many)
    code = str(caught.value).split("e.g. ")[1][:-1]
    assert eval(code, {"weights": many, "HeadView": HeadView}).result.weights.numel() == 1_920_000


@pytest.mark.parametrize("boundary", [2, torch.tensor(2), "b"])
def test_of_two_sentences_it_is_said_what_stays_and_what_goes_across(boundary):
    view = HeadView(GIVEN, [*"abcde"], boundary=boundary)
    for view.layer, view.word in itertools.product(range(LAYERS), range(L)):
        row, sides = GIVEN[view.layer, 0, view.word], [slice(2), slice(2, L)]
        own, other = sides if view.word < 2 else sides[::-1]
        for view.arcs, side, whose in (("within", own, "its own"), ("across", other, "the other")):
            assert f"gives {whose} sentence" in view.say()
            assert_reads(view.say(), [view.layer, 0, row[side].sum(), row[side].max()], view.arcs)
        view.arcs = "all"
        assert_reads(view.say(), [view.layer, 0, row.max(), row[other].sum()], "all")
    apart = HeadView(torch.eye(L)[None], TOKENS, boundary=2, arcs="across")
    assert apart.say() == "In head 0, [CLS] attends to nothing in the other sentence."


def test_patches_are_called_by_their_places_and_shown_as_pictures():
    weights = drawn(4, 2, H, 8, 8)
    weights[1, 2, 5] = 0  # a row that attends to nothing
    view = HeadView(weights, ["[CLS]", "[DIST]"], grid=(2, 3), layer=1, head=1, word=6)
    assert view.result.tokens[:4] == ("[CLS]", "[DIST]", "patch (0, 0)", "patch (0, 1)")
    assert "In layer 1, head 1, “patch (1, 1)” attends most to" in view.say()
    patches = weights[1, :, 6, 2:].view(H, 2, 3)
    largest = patches.amax((1, 2), keepdim=True)
    torch.testing.assert_close(view.frame_now()["maps"]["maps"], patches / largest)
    code = view.result.code.format(layer=1, head=1, place=6, slice="")
    for given in (weights, weights.numpy()):
        assert torch.equal(torch.as_tensor(eval(code, {"weights": given})), patches[1])
    view.head, view.word = 2, 5
    assert torch.equal(view.frame_now()["maps"]["maps"][2], torch.zeros(2, 3))
    assert "nothing" in view.say()
    assert view.figure().axes
    assert HeadView(weights, grid=(2, 3)).result.tokens[:2] == ("token 0", "token 1")


def test_steps_of_generate_become_one_matrix_for_each_head():
    weights = torch.rand(LAYERS, H, L, L, generator=torch.Generator().manual_seed(2)).tril()
    first = tuple(layer[None, :, :3, :3] for layer in weights)
    later = [tuple(layer[None, :, i : i + 1, : i + 1] for layer in weights) for i in (3, 4)]
    view = HeadView((first, *later), TOKENS)
    assert torch.equal(view.result.weights, weights)
    crossed = [tuple(layer[None, :, i : i + 1] for layer in weights) for i in range(L)]
    assert torch.equal(HeadView(crossed, TOKENS, [*SOURCE, "?"]).result.weights, weights)


def test_tokens_may_be_numbers_or_missing():
    for tokens, names in (
        (torch.tensor([101, 7, 7, 9, 102]), ["101", "7", "7", "9", "102"]),
        (np.arange(5), [*"01234"]),
        ([101, 7, 7, 9, 102], ["101", "7", "7", "9", "102"]),
        (None, [*"01234"]),
    ):
        assert HeadView(GIVEN, tokens).result.tokens == (*names,)


@pytest.mark.parametrize(("layers", "heads", "length"), [(12, 12, 128), (1, 12, 512)])
def test_a_model_of_usual_size_is_shown_in_less_than_6_mb(layers, heads, length):
    weights = torch.rand(layers, heads, length, length).mul(9).softmax(-1)
    view = HeadView(weights)
    assert len(json.dumps(view.data)) < 6e6
    assert (unpacked(view.data["kinds"][""]["weights"]) - weights).abs().max() < 0.004


def test_of_what_is_too_much_the_message_names_what_can_be_shown():
    layer = torch.full((1, 12, 512, 512), 1 / 512)
    for given in ((layer,) * 3, layer.expand(3, -1, -1, -1), layer[0].repeat(3, 1, 1)):
        with pytest.raises(ValueError, match=r"at most 4,000,000 numbers, got") as caught:
            HeadView(given)
        code = str(caught.value).split("e.g. ")[1][:-1]
        assert HeadView(eval(code, {"weights": given})).result.weights.numel() > 3e6


def test_of_a_batch_or_of_unlike_layers_the_message_names_one():
    batch = torch.full((4, LAYERS, H, L, L), 1 / L)
    uneven = [GIVEN[0], GIVEN[1, :2]]
    for given, words in (
        (batch.transpose(0, 1), "those of one text"),
        ([*batch.transpose(0, 1)], "those of one text"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            HeadView(given, TOKENS)
        code = str(caught.value).split("e.g. ")[1][:-1]
        assert HeadView(eval(code, {"weights": given}), TOKENS).result.weights.shape == (2, 3, 5, 5)
    with pytest.raises(ValueError, match=r"HeadView\(weights\[0\], tokens\)"):
        HeadView(uneven, TOKENS)
    with pytest.raises(TypeError, match="eager"):
        HeadView((None, None), TOKENS)


BAD = [
    (GIVEN, TOKENS[:4], {}, r"got \(3, 5, 5\) for 4 tokens"),
    (
        GIVEN[0, :, :4],
        TOKENS[:4],
        {},
        r"for 4 tokens; for cross-attention, use HeadView\(weights, q",
    ),
    (GIVEN[0, :, :4], TOKENS, {"keys": TOKENS}, r"got \(3, 4, 5\) for 5 tokens and 5 keys"),
    ([GIVEN[0], GIVEN[1, :2]], TOKENS, {}, r"of one shape, got \(3, 5, 5\) and \(2, 5, 5\)"),
    ([], TOKENS, {}, "weights must be layers of one shape, got none"),
    (5 * GIVEN, TOKENS, {}, "pass the weights after the softmax, not the scores"),
    (np.ones((1, 1), int), ["a"], {}, "floating-point tensor, got torch.int64"),
    (GIVEN, "cats!", {}, "tokens must be a list of tokens, got 'cats!'"),
    (GIVEN, [TOKENS], {}, r"those of one text, e.g. tokens\[0\]"),
    (GIVEN, TOKENS, {"layer": 2}, "layer must be at most 1, got 2"),
    (GIVEN, TOKENS, {"attention": "cross"}, "attention must be one of '', got 'cross'"),
    (GIVEN, TOKENS, {"boundary": "[SEP]"}, r"one of the tokens, got '\[SEP\]'"),
    (GIVEN, TOKENS, {"boundary": 5}, "boundary must be at most 4, got 5"),
    (GIVEN, TOKENS, {"boundary": 2, "grid": (2, 2)}, "must not be combined"),
    (KINDS, TOKENS, {}, "must not be combined"),
    ({}, None, {}, r'as in {"cross": \(weights, queries, keys\)}'),
    (KINDS, None, {"attention": "other"}, "'encoder', 'decoder', 'cross', got 'other'"),
    ({"cross": [GIVEN, TOKENS]}, None, {}, r"cross must be \(weights, tokens\) or"),
    ({"cross": (GIVEN, TOKENS, SOURCE)}, None, {}, r"^cross: weights .* 5 tokens and 4 keys"),
    (GIVEN, None, {"grid": 5}, r"rows and columns, such as \(14, 14\), got int 5"),
    (GIVEN, None, {"grid": (2, 3)}, "but for a few before them, got 2 x 3 for 5"),
    (GIVEN, None, {"grid": (1, 2)}, "but for a few before them, got 1 x 2 for 5"),
    (GIVEN, TOKENS, {"grid": (2, 2)}, "tokens must be the 1 before the patches, got 5"),
    (GIVEN, TOKENS, {"word": True}, "word must be an integer"),
]


@pytest.mark.parametrize(("weights", "tokens", "state", "words"), BAD)
def test_what_cannot_be_shown_gets_one_sentence(weights, tokens, state, words):
    with pytest.raises((TypeError, ValueError), match=words) as found:
        HeadView(weights, tokens, **state)
    assert not re.search(r"\n", str(found.value))
