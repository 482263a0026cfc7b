"""The layers equal torch.nn.MultiheadAttention with the same weights, in both directions."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from attnlab import (
    MultiHeadAttention,
    SelfAttention,
    causal_mask,
    from_key_padding_mask,
    to_additive_mask,
)
from tests.helper.common import assert_same, draw, refuses

N, H, L, S, D = 2, 3, 5, 7, 11
EMBED = H * D


def randomised(module: nn.Module) -> nn.Module:
    """Fill every parameter with random numbers: torch starts its biases at 0."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.3)
    return module.double()


def torch_layer(**options) -> nn.MultiheadAttention:
    return randomised(nn.MultiheadAttention(EMBED, H, **{"batch_first": True} | options))


def our_layer(**options) -> MultiHeadAttention:
    return randomised(MultiHeadAttention(EMBED, H, **options))


def single_head(**options) -> SelfAttention:
    return randomised(SelfAttention(EMBED, D, **options))


both_layers = pytest.mark.parametrize("make", [our_layer, single_head])

# --- equal to torch's layer -----------------------------------------------------------------------

PADDING = torch.arange(S) >= torch.tensor([[5], [3]])  # (N, S)
PER_HEAD = torch.rand(N, H, L, S, generator=torch.Generator().manual_seed(0)) < 0.6
PER_HEAD[..., 0] = True  # torch gives NaN in a row without an allowed key
ADDED = to_additive_mask(PER_HEAD, torch.float64)
LATER = ~causal_mask(L, S)

# the same restriction, in our words and in torch's
MASKS = {
    "none": ({}, {}),
    "causal": ({"is_causal": True}, {"attn_mask": LATER}),
    "bool": ({"attn_mask": PER_HEAD[0, 0]}, {"attn_mask": ~PER_HEAD[0, 0]}),
    "padding": ({"attn_mask": from_key_padding_mask(PADDING)}, {"key_padding_mask": PADDING}),
    "padding and causal": (
        {"attn_mask": from_key_padding_mask(PADDING) & ~LATER},
        {"key_padding_mask": PADDING, "attn_mask": LATER},
    ),
    "per head": ({"attn_mask": PER_HEAD}, {"attn_mask": ~PER_HEAD.flatten(0, 1)}),
    "per head, added": ({"attn_mask": ADDED}, {"attn_mask": ADDED.flatten(0, 1)}),
}


def results(layer: nn.Module, tokens: list[Tensor], **options) -> dict:
    """Return output, weights per head, and the gradients of inputs and parameters.

    The gradients of our parameters are stacked as torch stacks them.
    """
    inputs = [token.clone().requires_grad_() for token in tokens]
    layer.zero_grad()
    output, weights = layer(*inputs, **options)
    pull = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).double()
    (output * pull).sum().backward()
    gradients = {name: one.grad for name, one in layer.named_parameters()}
    for kind in ("weight", "bias"):
        ours = [gradients.pop(f"{part}_proj.{kind}", None) for part in "qkv"]
        if ours[0] is not None:
            gradients[f"in_proj_{kind}"] = torch.cat(ours)
    return {
        "output": output,
        "weights": weights,
        **dict(enumerate(x.grad for x in inputs)),
        **gradients,
    }


@pytest.mark.parametrize("convert", [MultiHeadAttention.from_torch, MultiHeadAttention.to_torch])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", MASKS)
def test_a_converted_layer_equals_torchs(name, bias, convert):
    if convert == MultiHeadAttention.from_torch:
        theirs = torch_layer(bias=bias)
        ours = convert(theirs)
    else:
        ours = our_layer(bias=bias)
        theirs = convert(ours)
    tokens = [draw(N, L, EMBED), draw(N, S, EMBED), draw(N, S, EMBED)]
    our_options, options = MASKS[name]
    wanted = results(theirs, tokens, average_attn_weights=False, **options)
    assert_same(results(ours, tokens, **our_options), wanted, atol=1e-11)


@pytest.mark.parametrize("convert", [MultiHeadAttention.from_torch, MultiHeadAttention.to_torch])
@pytest.mark.parametrize("training", [True, False])
def test_converting_copies_numbers_dtype_mode_and_dropout(convert, training):
    make = torch_layer if convert == MultiHeadAttention.from_torch else our_layer
    given = make(dropout=0.3).train(training)
    before = copy.deepcopy(given.state_dict())
    converted = convert(given)
    assert converted.training is training
    assert converted.dropout == 0.3
    assert getattr(converted, "batch_first", True)
    assert {one.dtype for one in converted.parameters()} == {torch.float64}
    assert all(one.requires_grad for one in converted.parameters())
    randomised(converted)
    for name, tensor in given.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert {one.device.type for one in convert(make().to("meta")).parameters()} == {"meta"}


# --- what a layer computes ------------------------------------------------------------------------


def test_one_head_step_by_step():
    layer, x = single_head(), draw(N, L, EMBED)
    query, key, value = layer.q_proj(x), layer.k_proj(x), layer.v_proj(x)
    seen = causal_mask(L)
    weights = (query @ key.mT / D**0.5).masked_fill(~seen, -torch.inf).softmax(dim=-1)
    result = layer(x, attn_mask=seen)
    assert_close(result.output, weights @ value)
    assert_close(result.weights, weights[:, None])


@both_layers
def test_key_and_value_default_to_query_and_key(make):
    layer, x, context = make(), draw(N, L, EMBED), draw(N, S, EMBED)
    for short, long in (((x,), (x, x, x)), ((x, context), (x, context, context))):
        for part, other in zip(layer(*short), layer(*long), strict=True):
            assert torch.equal(part, other)
    assert not torch.allclose(layer(x, context).output, layer(x, context, draw(N, S, EMBED)).output)


@both_layers
def test_dropout_acts_in_training_only_and_not_on_the_returned_weights(make):
    layer, x = make(dropout=1.0), draw(N, L, EMBED)
    trained, evaluated = layer.train()(x), layer.eval()(x)
    nothing = layer.out_proj.bias if hasattr(layer, "out_proj") else torch.zeros(D).double()
    assert torch.equal(trained.output, nothing.expand_as(trained.output))
    assert torch.equal(trained.weights, evaluated.weights)
    assert not torch.allclose(evaluated.output, trained.output)
    assert_close(evaluated.weights.sum(dim=-1), torch.ones(trained.weights.shape[:-1]).double())


def test_names_and_shapes_of_the_parameters():
    square, flat = (EMBED, EMBED), (D, EMBED)
    names = [f"{p}_proj.{kind}" for p in ("q", "k", "v", "out") for kind in ("weight", "bias")]
    for layer, wanted in (
        (MultiHeadAttention(torch.tensor(EMBED), np.int64(H)), dict.fromkeys(names, square)),
        (MultiHeadAttention(EMBED, H, bias=False), dict.fromkeys(names[::2], square)),
        (SelfAttention(np.int64(EMBED), torch.tensor(D)), dict.fromkeys(names[:6:2], flat)),
        (SelfAttention(EMBED, D, bias=True), dict.fromkeys(names[:6], flat)),
    ):
        wanted |= {name: shape[:1] for name, shape in wanted.items() if name.endswith("bias")}
        assert {name: part.shape for name, part in layer.state_dict().items()} == wanted


# --- what is refused ------------------------------------------------------------------------------

X, LAYER = torch.ones(N, L, EMBED), MultiHeadAttention(EMBED, H)
MASK = torch.ones(N, L, L, dtype=torch.bool)
BAD = [  # a call, the kind of error, and how its sentence begins
    (lambda: MultiHeadAttention(0, 1), ValueError, r"embed_dim must be at least 1, got 0"),
    (lambda: MultiHeadAttention(33, 7), ValueError, r"num_heads must divide .* remainder is 5"),
    (lambda: MultiHeadAttention(36, 6, num_kv_heads=4), ValueError, r"num_kv_.* remainder is 2"),
    (lambda: MultiHeadAttention(36, 6, num_kv_heads=2).to_torch(), ValueError, r"to_torch .* got"),
    (lambda: LAYER(X[0]), ValueError, r"query must .* got \(5, 33\); for one .* use query\[None\]"),
    (lambda: LAYER(X[None]), ValueError, r"query must have shape .*; put every sequence into dim"),
    (lambda: LAYER(X, X[..., :30]), ValueError, r"key must have embed_dim 33 .*: 30 != 33"),
    (lambda: LAYER(X, X, torch.ones(N, L, 36)), ValueError, r"value must have embed_dim 33 .*: 36"),
    (lambda: LAYER(X[:1], X), ValueError, r"query, key and value .* batch size N, got \(1, 5, 33"),
    (lambda: LAYER(X, X, X[:, :3]), ValueError, r"key and value must have the same length S"),
    (lambda: LAYER(X.half()), TypeError, r"the layer and query must have the same dtype, got"),
    (lambda: LAYER(X.to("meta")), ValueError, r"the layer and query must be on the same device"),
    (lambda: LAYER(X, attn_mask=MASK), ValueError, r"attn_mask must .* use attn_mask\[:, None\]"),
    (lambda: MultiHeadAttention.from_torch(nn.Linear(3, 3)), TypeError, r"module must be a torch"),
]
OPTIONS = [{"kdim": 30}, {"vdim": 30}, {"add_bias_kv": True}, {"add_zero_attn": True}]
BAD += [
    (
        lambda one=one: MultiHeadAttention.from_torch(torch_layer(**one)),
        ValueError,
        r"module must be",
    )
    for one in OPTIONS
]


test_a_bad_call_gets_a_sentence = refuses(BAD)
