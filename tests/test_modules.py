"""The layers equal torch.nn.MultiheadAttention with the same weights, in both directions."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from attnlab import (
    AttentionOutput,
    MultiHeadAttention,
    SelfAttention,
    causal_mask,
    from_hf_attention_mask,
    from_key_padding_mask,
    to_additive_mask,
    to_key_padding_mask,
)
from tests.kernels import draw

N, H, L, S, D = 2, 3, 5, 7, 11
EMBED = H * D


def randomised(module: nn.Module) -> nn.Module:
    """Fill every parameter with random numbers: torch starts its biases at 0."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.3)
    return module


def torch_layer(**options) -> nn.MultiheadAttention:
    options = {"batch_first": True, "dtype": torch.float64} | options
    return randomised(nn.MultiheadAttention(EMBED, H, **options))


def our_layer(**options) -> MultiHeadAttention:
    return randomised(MultiHeadAttention(EMBED, H, **options).double())


PADDING = torch.tensor([[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0, 0]])
PER_HEAD = torch.rand(N, H, L, S, generator=torch.Generator().manual_seed(0)) < 0.6
PER_HEAD[..., 0] = True  # torch gives NaN in a row without an allowed key
ADDED = torch.randn(L, S, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

# the same restriction, in our words and in torch's
MASKS = {
    "none": ({}, {}),
    "causal": ({"is_causal": True}, {"attn_mask": ~causal_mask(L, S)}),
    "bool": ({"attn_mask": PER_HEAD[0, 0]}, {"attn_mask": ~PER_HEAD[0, 0]}),
    "float": ({"attn_mask": ADDED}, {"attn_mask": ADDED}),
    "padding": (
        {"attn_mask": from_hf_attention_mask(PADDING)},
        {"key_padding_mask": to_key_padding_mask(from_hf_attention_mask(PADDING))},
    ),
    "padding and causal": (
        {"attn_mask": from_key_padding_mask(PADDING == 0) & causal_mask(L, S)},
        {"key_padding_mask": PADDING == 0, "attn_mask": ~causal_mask(L, S)},
    ),
    "per head": ({"attn_mask": PER_HEAD}, {"attn_mask": ~PER_HEAD.flatten(0, 1)}),
    "per head, added": (
        {"attn_mask": to_additive_mask(PER_HEAD, torch.float64)},
        {"attn_mask": to_additive_mask(PER_HEAD, torch.float64).flatten(0, 1)},
    ),
}


def results(layer: nn.Module, tokens: list[Tensor], options: dict) -> dict[str, Tensor]:
    """Return output, weights per head, and the gradients of inputs and parameters."""
    inputs = [token.clone().requires_grad_() for token in tokens]
    if isinstance(layer, nn.MultiheadAttention):
        options = {"average_attn_weights": False} | options
    layer.zero_grad()
    output, weights = layer(*inputs, **options)
    pull = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).double()
    (output * pull).sum().backward()
    gradients = dict(zip(("query", "key", "value"), [x.grad for x in inputs], strict=True))
    return {"output": output, "weights": weights, **gradients}


def stacked(layer: MultiHeadAttention, part: str) -> dict[str, Tensor]:
    """Return the gradients of ``weight`` or ``bias`` as torch stacks them: query, key, value."""
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    return {
        f"in_proj_{part}": torch.cat([getattr(proj, part).grad for proj in projections]),
        f"out_proj.{part}": getattr(layer.out_proj, part).grad,
    }


def assert_same_layer(ours: MultiHeadAttention, theirs: nn.MultiheadAttention, name: str) -> None:
    our_options, torch_options = MASKS[name]
    tokens = [draw(N, L, EMBED), draw(N, S, EMBED), draw(N, S, EMBED)]
    mine, reference = results(ours, tokens, our_options), results(theirs, tokens, torch_options)
    parts = ("weight", "bias") if ours.q_proj.bias is not None else ("weight",)
    for part in parts:
        mine |= stacked(ours, part)
    reference |= {name: parameter.grad for name, parameter in theirs.named_parameters()}
    assert mine.keys() == reference.keys()
    for key, tensor in mine.items():
        assert_close(
            tensor, reference[key], rtol=0, atol=1e-11, msg=lambda m, key=key: f"{key}: {m}"
        )


# --- equal to torch's layer -----------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["from torch", "to torch"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", MASKS)
def test_a_converted_layer_equals_torchs(name, bias, direction):
    if direction == "from torch":
        theirs = torch_layer(bias=bias)
        assert_same_layer(MultiHeadAttention.from_torch(theirs), theirs, name)
    else:
        ours = our_layer(bias=bias)
        assert_same_layer(ours, ours.to_torch(), name)


def test_a_layer_that_is_not_batch_first_gives_the_same_numbers():
    theirs = torch_layer(batch_first=False)
    ours = MultiHeadAttention.from_torch(theirs)
    x = draw(N, L, EMBED)
    sequence_first = x.transpose(0, 1)
    expected, _ = theirs(sequence_first, sequence_first, sequence_first)
    assert_close(ours(x).output, expected.transpose(0, 1))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_numbers_mode_dtype_and_dropout_travel_both_ways(training, dtype):
    theirs = torch_layer(dropout=0.25, dtype=dtype).train(training)
    ours = MultiHeadAttention.from_torch(theirs)
    back = ours.to_torch()
    for layer in (ours, back):
        assert layer.dropout == 0.25
        assert all(module.training == training for module in layer.modules())
        assert {parameter.dtype for parameter in layer.parameters()} == {dtype}
    assert back.batch_first
    for name, parameter in theirs.state_dict().items():
        assert torch.equal(parameter, back.state_dict()[name])


def test_the_device_travels_as_well():
    theirs = nn.MultiheadAttention(EMBED, H, batch_first=True, device="meta")
    ours = MultiHeadAttention.from_torch(theirs)
    for layer in (ours, ours.to_torch()):
        assert {parameter.device.type for parameter in layer.parameters()} == {"meta"}


@pytest.mark.parametrize("convert", [MultiHeadAttention.from_torch, MultiHeadAttention.to_torch])
def test_converting_copies_and_leaves_the_given_layer_alone(convert):
    given = torch_layer() if convert == MultiHeadAttention.from_torch else our_layer()
    before = copy.deepcopy(given.state_dict())
    versions = [parameter._version for parameter in given.parameters()]
    converted = convert(given)
    randomised(converted)
    assert given.training
    assert [parameter._version for parameter in given.parameters()] == versions
    assert all(parameter.grad is None for parameter in given.parameters())
    assert all(parameter.requires_grad for parameter in converted.parameters())
    for name, tensor in given.state_dict().items():
        assert torch.equal(tensor, before[name])


# --- what a layer computes ------------------------------------------------------------------------


def test_self_attention_step_by_step():
    layer, x = SelfAttention(EMBED, D).double(), draw(N, L, EMBED)
    query, key, value = layer.q_proj(x), layer.k_proj(x), layer.v_proj(x)
    weights = (query @ key.transpose(1, 2) / D**0.5).softmax(dim=-1)
    output, seen = layer(x)
    assert_close(output, weights @ value)
    assert_close(seen, weights[:, None])


@pytest.mark.parametrize("make", [lambda: our_layer(), lambda: SelfAttention(EMBED, D).double()])
def test_the_result_has_names_and_key_and_value_default_to_query_and_key(make):
    layer, x, context = make(), draw(N, L, EMBED), draw(N, S, EMBED)
    result, heads = layer(x, context), getattr(layer, "num_heads", 1)
    assert isinstance(result, AttentionOutput)
    assert result.output.shape == (N, L, EMBED if heads == H else D)
    assert result.weights.shape == (N, heads, L, S)
    for short, long in (((x,), (x, x, x)), ((x, context), (x, context, context))):
        for a, b in zip(layer(*short), layer(*long), strict=True):
            assert torch.equal(a, b)
    assert not torch.allclose(layer(x, context).output, layer(x, context, draw(N, S, EMBED)).output)


@pytest.mark.parametrize("make", [lambda: our_layer(), lambda: SelfAttention(EMBED, D).double()])
def test_masks_reach_the_weights(make):
    layer, x, context = make(), draw(N, L, EMBED), draw(N, S, EMBED)
    mask = causal_mask(L, S)
    for options in (
        {"is_causal": True},
        {"attn_mask": mask},
        {"attn_mask": mask.expand(N, 1, L, S)},
    ):
        weights = layer(x, context, **options).weights
        assert (weights[..., ~mask] == 0).all()
        assert (weights[..., mask] > 0).all()


def test_a_sequence_that_may_look_at_nothing_gives_the_bias_and_finite_gradients():
    layer, x = our_layer(), draw(N, L, EMBED)
    mask = from_key_padding_mask(torch.tensor([[False] * L, [True] * L]))
    output, weights = layer(x, attn_mask=mask)
    assert torch.equal(output[1], layer.out_proj.bias.expand(L, EMBED))
    assert (weights[1] == 0).all()
    output.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("make", [our_layer, lambda **how: SelfAttention(EMBED, D, **how).double()])
def test_dropout_acts_in_training_only_and_not_on_the_returned_weights(make):
    layer, x = make(dropout=1.0), draw(N, L, EMBED)
    trained, evaluated = layer.train()(x), layer.eval()(x)
    nothing = layer.out_proj.bias if hasattr(layer, "out_proj") else torch.zeros(D).double()
    assert torch.equal(trained.output, nothing.expand_as(trained.output))
    assert torch.equal(trained.weights, evaluated.weights)
    assert_close(trained.weights.sum(dim=-1), torch.ones(trained.weights.shape[:-1]).double())
    layer.dropout = 0.0
    assert torch.equal(layer.train()(x).output, evaluated.output)


def test_names_and_shapes_of_the_parameters():
    square, row = (EMBED, EMBED), (EMBED,)
    multi, single = MultiHeadAttention(EMBED, H), SelfAttention(EMBED, D, bias=True)
    shapes = {name: tuple(part.shape) for name, part in multi.state_dict().items()}
    names = [f"{p}_proj.{part}" for p in ("q", "k", "v", "out") for part in ("weight", "bias")]
    assert shapes == dict(zip(names, [square, row] * 4, strict=True))
    shapes = {name: tuple(part.shape) for name, part in single.state_dict().items()}
    assert shapes == dict(zip(names, [(D, EMBED), (D,)] * 3, strict=False))
    assert list(SelfAttention(EMBED, D).state_dict()) == names[:6:2]
    assert list(MultiHeadAttention(EMBED, H, bias=False).state_dict()) == names[::2]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [{"kdim": 30}, {"vdim": 30}, {"add_bias_kv": True}, {"add_zero_attn": True}],
    ids=str,
)
def test_torch_layers_with_options_that_ours_has_not_are_refused(option):
    sentence = "module must be built without kdim, vdim, add_bias_kv and add_zero_attn;"
    with pytest.raises(ValueError, match=sentence):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(EMBED, H, **option))
