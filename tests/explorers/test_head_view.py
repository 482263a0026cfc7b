"""Anybody's weights: each form that models return is shown as it is, others get one sentence."""

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


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_shown_said_and_written_as_it_is(form):
    given, weights = FORMS[form]
    layer, head = len(weights) - 1, weights.shape[1] - 1
    view = HeadView(given, TOKENS, layer=layer, head=head, ask=False)
    torch.testing.assert_close(view.result.weights, weights)
    torch.testing.assert_close(torch.tensor(view.data["layers"]), weights, atol=1e-4, rtol=0)
    for view.word in range(L):
        row = weights[layer, head, view.word]
        frame, place = view.frame_now(), [view.word] * (TOKENS[view.word] == "a")
        assert torch.equal(frame["row"]["weights"], row)
        assert torch.equal(frame["maps"]["maps"], weights[layer])
        top = int(row.argmax())
        repeated = [top] * (TOKENS[top] == "a" and top != view.word)
        numbers = [*[layer] * (LAYERS == len(weights)), head, *place, *repeated, row.max(), 1 / L]
        assert_reads(view.say(), numbers, form)
        code = view.words["code"].format(layer=layer, head=head, place=view.word, token="")
        found = eval(code, {"weights": given})
        torch.testing.assert_close(torch.as_tensor(found).float(), row, check_dtype=False)


def test_of_many_tokens_the_picture_has_those_with_the_largest_weights_of_ties_the_first():
    generator = torch.Generator().manual_seed(0)
    hair = 1e-7 * torch.rand(60, 60, generator=generator)  # what another processor makes of it
    weights = torch.eye(60).roll(-1, 0) * 0.5 + 0.5 / 60 + hair
    view = HeadView(weights, [f"t{i}" for i in range(60)], word=40)
    assert view.frame_now()["row"]["names"] == [*[f"t{i}" for i in range(23)], "t41"]


BAD = [
    (GIVEN, TOKENS[:4], {}, r"got \(2, 3, 5, 5\) for 4 tokens"),
    (GIVEN[0, :, :4], TOKENS, {}, r"L is the number of tokens, .*got \(3, 4, 5\) for 5 tokens"),
    ([GIVEN, GIVEN], TOKENS, {}, r"got \(2, 3, 5, 5\) for 5"),
    ([GIVEN[0], GIVEN[1, :2]], TOKENS, {}, r"of one shape, got \(3, 5, 5\) and \(2, 5, 5\)"),
    ([], TOKENS, {}, "weights must be layers of one shape, got none"),
    (5 * GIVEN, TOKENS, {}, "pass the weights after the softmax, not the scores"),
    (GIVEN * torch.nan, TOKENS, {}, "weights must be numbers, got NaN; plot_heads draws it"),
    (torch.ones(99, 150, 150), ["a"] * 150, {}, r"at most 2,000,000 numbers, got .*weights\[:2\]"),
    (np.ones((1, 1), int), ["a"], {}, "floating-point tensor, got torch.int64"),
    (GIVEN, "cats!", {}, "tokens must be a list of tokens, got 'cats!'"),
    (GIVEN, TOKENS, {"layer": 2}, "layer must be at most 1, got 2"),
    (GIVEN, TOKENS, {"word": True}, "word must be an integer"),
]


@pytest.mark.parametrize(("weights", "tokens", "state", "words"), BAD)
def test_what_cannot_be_shown_gets_one_sentence(weights, tokens, state, words):
    with pytest.raises((TypeError, ValueError), match=words) as found:
        HeadView(weights, tokens, **state)
    assert not re.search(r"\n", str(found.value))
