"""Every public function x bad arguments: one sentence or a correct result, never anything else.

Each argument of a good call is replaced by every value of one list, and the call must either raise
a sentence of the package that names the argument, or give what the reference gives. The public
names are found, so a new one without a good call fails here.
"""

from __future__ import annotations

import inspect
import math
import re
import traceback
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

import attnlab
from attnlab import (
    data,
    diagrams,
    display,
    live,
    looking_back,
    meanings,
    palette,
    plotting,
    pretrained,
    translator,
)

PACKAGE = str(Path(attnlab.__file__).parent)
MODULES = (attnlab, data, diagrams, display, live, looking_back, meanings, palette, plotting)
MODULES += (pretrained, translator)
L, S, E, EV, H = 3, 5, 4, 7, 2
NAN, INF = math.nan, math.inf


@pytest.fixture(autouse=True)
def settings():
    """The settings of matplotlib, of printing and of threads: one of the functions is for them."""
    style, threads = dict(plt.rcParams), torch.get_num_threads()
    yield
    plt.rcParams.update(style)
    torch.set_num_threads(threads)
    torch.set_printoptions(profile="default")


def numbers(*shape, dtype=torch.float32):
    return torch.linspace(0.1, 1, math.prod(shape)).view(shape).to(dtype)


def allowed(*shape):
    mask = torch.ones(shape, dtype=torch.bool)
    mask[..., -1] = False
    return mask


# --- bad values -----------------------------------------------------------------------------------

PLAIN = {
    "None": None,
    "True": True,
    "zero": 0,
    "minus one": -1,
    "seven": 7,
    "huge": 10**400,
    "half": 0.5,
    "minus two": -2.0,
    "NaN": NAN,
    "infinity": INF,
    "complex number": 1j,
    "empty string": "",
    "string": "0.1",
    "name": "lower_right",
    "line break": "a\nb",
    "bytes": b"abc",
    "empty list": [],
    "list": [[0.5, 0.5]],
    "strings": ["a", "b"],
    "mixed": [1, "a", None],
    "ragged": [[1, 2], [3]],
    "dict": {"a": [1.0]},
    "function": lambda *values, **names: None,
    "object": object(),
    "dtype": torch.int64,
    "float dtype": torch.float64,
    "device": torch.device("meta"),
}


def variants(good):
    """Return tensors that differ in one way from a good one."""
    yield "integers", good.int()
    yield "bool", good > 0.3
    yield "complex", good.to(torch.complex64)
    yield "float64", good.double()
    yield "bfloat16", good.bfloat16()
    yield "float8", good.float().to(torch.float8_e4m3fn)
    yield "on meta", good.to("meta")
    yield "sparse", good.detach().to_sparse()
    yield "scalar", torch.tensor(0.5)
    yield "one dimension", good.reshape(-1)
    yield "one more", good[None]
    yield "three more", good[None, None, None]
    yield "repeated", torch.stack([good, good])
    yield "empty", good[..., :0]
    yield "no rows", good[:0]
    yield "longer", torch.cat([good, good], dim=0)
    yield "wider", torch.cat([good, good], dim=-1)
    if good.is_floating_point():
        yield "negative", -good
        yield "with NaN", torch.where(good == good.min(), NAN, good)
        yield "infinite", torch.where(good == good.min(), INF, good)
        yield "fifty times", good * 50


TENSOR = numbers(L, S)


def bad_values(good):
    yield from PLAIN.items()
    for name, value in variants(good if isinstance(good, Tensor) and good.ndim else TENSOR):
        yield f"tensor, {name}", value


# --- good calls and references --------------------------------------------------------------------

QKV = {"query": numbers(H, L, E), "key": numbers(H, S, E), "value": numbers(H, S, EV)}
SDPA = QKV | {"attn_mask": allowed(L, S), "scale": 0.5}
WEIGHTS = numbers(L, S).softmax(dim=-1)
LEAF = numbers(L, E).requires_grad_()
torch.manual_seed(0)  # of the parameters of the layers below
LAYER = attnlab.MultiHeadAttention(E, H).eval()
ONE_HEAD = attnlab.SelfAttention(E, EV).eval()
MODEL = pretrained.load_layer()
PIECES = [*pretrained.MARKERS, "the", "bank"]
ENCODER = pretrained.PretrainedEncoder(PIECES)
TRANSLATOR = translator.load_translator()
LOOKING_BACK = looking_back.load_looking_back()
LOOP_TEXTS = looking_back.make_texts(2)
LOOP_WEIGHTS = numbers(2, 1, 32, 32).softmax(dim=-1)
TOY = {"translator": TRANSLATOR, "sentences": translator.make_sentences(1)}
FIGURE = Figure(figsize=(1, 1))
FIGURE.add_subplot()
LAYER_CALL = {
    "query": numbers(2, L, E),
    "key": numbers(2, S, E),
    "value": numbers(2, S, E),
    "attn_mask": allowed(L, S),
}
GRID = {"L": L, "S": S}


def torch_attention(query, key, value, **options):
    return F.scaled_dot_product_attention(query, key, value, **options)


def torch_tiled(query, key, value, *, attn_mask, is_causal, align, window, scale, tile):
    rows, columns = query.shape[-2], key.shape[-2]
    distance = distances(rows, columns, align, "cpu")
    mask = distance.abs() < (window or rows + columns + 1)
    if is_causal:
        mask = mask & (distance <= 0)
    if attn_mask is not None:
        mask = mask & attn_mask
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)


def torch_scores(query, key, *, scale):
    return query.double() @ key.double().mT * (query.shape[-1] ** -0.5 if scale is None else scale)


def torch_weights(scores, *, attn_mask):
    eye = torch.eye(scores.shape[-1], dtype=scores.dtype, device=scores.device)
    raised = scores + (0 if attn_mask is None or attn_mask.dtype == torch.bool else attn_mask)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        raised = raised.masked_fill(~attn_mask, -INF)
    weights = raised.double().softmax(dim=-1).to(scores.dtype) @ eye
    return torch.where(raised.isneginf().all(dim=-1, keepdim=True), 0.0, weights)


def torch_layer(query, key, value, *, attn_mask, is_causal, cache):
    assert cache is None
    key = query if key is None else key
    value = key if value is None else value
    assert query.ndim == key.ndim == value.ndim == 3
    if is_causal:
        attn_mask = torch.ones(query.shape[1], key.shape[1]).tril().bool()
    if attn_mask is not None and attn_mask.ndim == 4:
        attn_mask = attn_mask.expand(len(query), H, query.shape[1], key.shape[1]).flatten(0, 1)
    if attn_mask is not None:
        attn_mask = ~attn_mask if attn_mask.dtype == torch.bool else attn_mask
        attn_mask = attn_mask.expand(*attn_mask.shape[:-2], query.shape[1], key.shape[1])
    return LAYER.to_torch()(query, key, value, attn_mask=attn_mask, need_weights=False)[0]


def distances(L, S, align, device):
    """Return how far each key lies behind each query; before it, less than 0."""
    S = L if S is None else S
    shift = S - L if align == "lower_right" else 0
    table = [[j - i - shift for j in range(S)] for i in range(L)]
    return torch.tensor(table, device=device).view(L, S)


def plain_sequence(lengths, max_len):
    lengths = torch.as_tensor(lengths)
    longest = int(lengths.max()) if max_len is None and lengths.numel() else max_len or 0
    mask = [[j < length for j in range(longest)] for length in lengths.flatten().tolist()]
    return torch.tensor(mask).view(*lengths.shape, longest).bool()


def plain_waves(L, embed_dim, *, base, device):
    angle = [
        [m * float(base) ** (-2 * (i // 2) / embed_dim) for i in range(embed_dim)] for m in range(L)
    ]
    waves = [[(math.cos if i % 2 else math.sin)(a) for i, a in enumerate(row)] for row in angle]
    return torch.tensor(waves, device=device).view(L, embed_dim)


def pair_by_pair(x, positions, *, base, layout):
    size, half, wide = x.shape[-1], x.shape[-1] // 2, x.double()
    places = torch.arange(x.shape[-2]) if positions is None else positions
    turned = torch.empty_like(wide)
    for i in range(half):
        a, b = (2 * i, 2 * i + 1) if layout == "pairs" else (i, i + half)
        angle = (places.double() * float(base) ** (-2 * i / size)).to(x.device)
        turned[..., a] = wide[..., a] * angle.cos() - wide[..., b] * angle.sin()
        turned[..., b] = wide[..., a] * angle.sin() + wide[..., b] * angle.cos()
    return turned.to(x.dtype)


def plain_alibi(num_heads, L, S, *, align, device):
    slopes = {1: [2**-8], 2: [2**-4, 2**-8], 7: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3, 2**-5]}
    distance = distances(L, S, align, device)
    return torch.stack([-slope * distance.abs() for slope in slopes[num_heads]])


# the arguments of a good call that are not left as they are by default
GIVEN = {
    "attnlab.scaled_dot_product_attention": SDPA,
    "attnlab.trace_attention": SDPA,
    "attnlab.attention_scores": {k: SDPA[k] for k in ("query", "key", "scale")},
    "attnlab.attention_weights": {"scores": numbers(H, L, S), "attn_mask": allowed(L, S)},
    "attnlab.tiled_attention": SDPA | {"window": 3, "tile": (2, 2)},
    "attnlab.causal_mask": GRID,
    "attnlab.sliding_window_mask": GRID | {"window": 2},
    "attnlab.sequence_mask": {"lengths": [3, 1], "max_len": 4},
    "attnlab.combine_masks": {"*masks": allowed(L, S)},
    "attnlab.from_key_padding_mask": {"key_padding_mask": allowed(L, S)},
    "attnlab.to_key_padding_mask": {"attn_mask": allowed(L, 1, 1, S)},
    "attnlab.to_additive_mask": {"attn_mask": allowed(L, S)},
    "attnlab.from_hf_attention_mask": {"attention_mask": allowed(L, S).int()},
    "attnlab.sinusoidal_positions": {"L": L, "embed_dim": E},
    "attnlab.rotate": {"x": numbers(H, L, E), "positions": numbers(L)},
    "attnlab.alibi_bias": {"num_heads": H, **GRID},
    "attnlab.split_heads": {"x": numbers(L, E), "num_heads": H},
    "attnlab.merge_heads": {"x": numbers(H, L, E)},
    "attnlab.score_variance": {"scores": TENSOR},
    "attnlab.attention_entropy": {"weights": WEIGHTS},
    "attnlab.effective_keys": {"weights": WEIGHTS},
    "attnlab.max_weight": {"weights": WEIGHTS},
    "attnlab.softmax_jacobian": {"weights": WEIGHTS},
    "attnlab.gradient_norms": {"loss": LEAF.square().sum(), "tensor": LEAF},
    "attnlab.influence_map": {"function": lambda x: x.cumsum(dim=0), "x": numbers(L, E)},
    "attnlab.MultiHeadAttention": {"embed_dim": E, "num_heads": H},
    "attnlab.MultiHeadAttention.forward": LAYER_CALL,
    "attnlab.MultiHeadAttention.from_torch": {"module": nn.MultiheadAttention(E, H)},
    "attnlab.SelfAttention": {"embed_dim": E, "out_dim": 6},
    "attnlab.SelfAttention.forward": LAYER_CALL,
    "attnlab.data_path": {"name": "bank_words.csv"},
    "attnlab.load_table": {"name": "bank_words.csv"},
    "data.load_tensors": {"name": "minilm_layers.safetensors"},
    "display.own_line": {"error": ValueError("x"), "function": numbers},
    "display.show_figure": {"fig": FIGURE, "number": "1.1", "alt": "alt", "caption": "caption"},
    "display.picture_html": {"png": b"png", "alt": "alt", "width": 10},
    "live.live": {"draw": lambda fig, **values: None, "figsize": (1, 1)}
    | {"d_k": [1, 4, 0.5, "0.1", 7]},
    "looking_back.LookingBack.forward": {"tokens": LOOP_TEXTS.tokens[:, :-1]},
    "looking_back.follower_score": {"weights": LOOP_WEIGHTS, "texts": LOOP_TEXTS},
    "looking_back.followers": {"tokens": LOOP_TEXTS.tokens},
    "looking_back.make_texts": {"count": 2, "shortest": 3, "longest": 5},
    "looking_back.previous_score": {"weights": LOOP_WEIGHTS},
    "looking_back.share_correct": {"model": LOOKING_BACK, "texts": LOOP_TEXTS},
    "looking_back.to_text": {"tokens": LOOP_TEXTS.tokens[0]},
    "looking_back.to_tokens": {"text": "AB|A"},
    "palette.shade": {"weight": 0.5},
    "palette.luminance": {"colour": (1, 2, 3)},
    "palette.ink_on": {"colour": (1, 2, 3)},
    "palette.to_hex": {"colour": (1, 2, 3)},
    "plotting.plot_attention": {"weights": WEIGHTS, "attn_mask": allowed(L, S)},
    "plotting.plot_scores": {"scores": TENSOR},
    "plotting.plot_mask": {"attn_mask": allowed(L, S)},
    "plotting.plot_heads": {"weights": WEIGHTS.expand(H, L, S), "attn_mask": allowed(H, L, S)},
    "plotting.plot_sweep": {"x": [1.0, 2.0], "curves": {"a": [1.0, 2.0]}},
    "meanings.lean": {"vectors": numbers(L, 7, E), "others": numbers(H, 7, E)}
    | {"is_first": numbers(H) > 0.5},
    "meanings.leans": {"vectors": numbers(4, 7, E), "is_first": numbers(4) > 0.5},
    "meanings.vectors_of": {"encoder": ENCODER, "word": "bank", "sentences": ["the bank"]},
    "meanings.wilson_interval": {"correct": 3, "total": 5},
    "pretrained.PretrainedEmbedding": {"vocabulary": PIECES},
    "pretrained.PretrainedEmbedding.tokens": {"text": "the bank"},
    "pretrained.PretrainedEmbedding.embed": {"tokens": ["the", "bank"]},
    "pretrained.PretrainedEncoder": {"vocabulary": PIECES},
    "pretrained.PretrainedEncoder.forward": {"tokens": ["the", "bank"]},
    "pretrained.PretrainedEncoder.encode": {"x": torch.randn(2, 3, 384)},
    "pretrained.PretrainedEncoder.read": {"text": "the bank"},
    "pretrained.PretrainedLayer": {"vocabulary": PIECES},
    "pretrained.PretrainedLayer.common_words": {"count": 2},
    "pretrained.PretrainedLayer.attend_as": {"askers": ["chair"]}
    | {"tokens": ["the", "bank"], "place": 1},
    "pretrained.PretrainedLayer.forward": {"tokens": ["the", "bank"]},
    "pretrained.PretrainedLayer.read": {"text": "the bank"},
    "translator.changed_without": TOY,
    "translator.darkest_on_partner": TOY,
    "translator.kinds_of_words": {"sentences": TOY["sentences"]},
    "translator.make_sentences": {"count": 1},
    "translator.Translator.translate": {"english": "the cat"},
}
# what computes the same in another way, where nothing is drawn or read from a file
REFERENCES = {
    "attnlab.scaled_dot_product_attention": torch_attention,
    "attnlab.trace_attention": torch_attention,
    "attnlab.attention_scores": torch_scores,
    "attnlab.attention_weights": torch_weights,
    "attnlab.tiled_attention": torch_tiled,
    "attnlab.causal_mask": lambda L, S, align, device: distances(L, S, align, device) <= 0,
    "attnlab.sliding_window_mask": lambda L, S, window, align, device: (
        distances(L, S, align, device).abs() < window
    ),
    "attnlab.sequence_mask": plain_sequence,
    "attnlab.combine_masks": lambda masks: masks,
    "attnlab.from_key_padding_mask": lambda key_padding_mask: ~key_padding_mask[:, None, None],
    "attnlab.to_key_padding_mask": lambda attn_mask: ~attn_mask.squeeze(1).squeeze(1),
    "attnlab.to_additive_mask": lambda attn_mask, dtype: torch.where(attn_mask, 0.0, -INF).to(
        dtype
    ),
    "attnlab.from_hf_attention_mask": lambda attention_mask: (attention_mask == 1)[:, None, None],
    "attnlab.sinusoidal_positions": plain_waves,
    "attnlab.rotate": pair_by_pair,
    "attnlab.alibi_bias": plain_alibi,
    "attnlab.split_heads": lambda x, num_heads: torch.stack(
        x.split(x.shape[-1] // num_heads, dim=-1), dim=-3
    ),
    "attnlab.merge_heads": lambda x: x.movedim(-3, -2).reshape(
        *x.shape[:-3], x.shape[-2], -1 if len(x) else 0
    ),
    "attnlab.score_variance": lambda scores: scores.var(dim=-1),
    "attnlab.attention_entropy": lambda weights: (
        -torch.where(weights == 0, 0.0, weights * weights.log()).sum(dim=-1)
    ),
    "attnlab.effective_keys": lambda weights: (
        torch.special.entr(weights).sum(dim=-1).exp() * (weights != 0).any(dim=-1)
    ),
    "attnlab.max_weight": lambda weights: weights.max(dim=-1).values,
    "attnlab.softmax_jacobian": lambda weights: (
        weights.diag_embed() - torch.einsum("...i,...j->...ij", weights, weights)
    ),
    "attnlab.influence_map": lambda function, x: (
        torch.ones(len(x), len(x)).tril().to(x) * x.shape[-1] ** 0.5
    ),
    "attnlab.MultiHeadAttention.forward": torch_layer,
}


# --- finding and calling --------------------------------------------------------------------------


def public_names():
    """Return the public functions and layers, and the methods of layers, as dotted names.

    Other classes hold results, and the functions that make them check what goes in.
    """
    things = {f"attnlab.{name}": getattr(attnlab, name) for name in attnlab.__all__}
    for module in MODULES[1:]:
        for name, thing in vars(module).items():
            own = getattr(thing, "__module__", None) == module.__name__
            if own and not name.startswith("_") and name not in attnlab.__all__:
                things[f"{module.__name__.removeprefix('attnlab.')}.{name}"] = thing
    found = {name for name, thing in things.items() if inspect.isfunction(thing)}
    for name, layer in things.items():
        if inspect.isclass(layer) and issubclass(layer, nn.Module):
            methods = inspect.getmembers(layer, inspect.isroutine)
            found |= {name} | {
                f"{name}.{method}"
                for method, function in methods
                if not method.startswith("_") and function.__module__ == layer.__module__
                # what is inherited is called as a method of the first layer that has it
                if function.__qualname__.startswith((layer.__name__, "_"))
            }
    return found


def target_of(name):
    """Return what a dotted name stands for; a method is that of a layer that exists."""
    place, first, *method = name.split(".")
    module = attnlab if place == "attnlab" else vars(attnlab)[place]
    layers = {type(one).__name__: one for one in (LAYER, ONE_HEAD, MODEL, ENCODER, TRANSLATOR)}
    layers |= {"PretrainedEmbedding": MODEL, "LookingBack": LOOKING_BACK}
    return getattr(layers[first], method[0]) if method else getattr(module, first)


def good_call(name):
    """Return the arguments of a good call by name, the defaults among them."""
    parameters = inspect.signature(target_of(name)).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    return defaults | GIVEN.get(name, {})


CALLS = {name: good_call(name) for name in sorted(public_names())}


def call(target, arguments):
    """Call a function with arguments by name; those with a star in front by position."""
    starred = [value for name, value in arguments.items() if name.startswith("*")]
    named = {name: value for name, value in arguments.items() if not name.startswith("*")}
    return target(*starred, **named)


def complaint(error, names):
    """Return what is wrong with an error as an answer to a bad argument; None if nothing is."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = str(error)
    if not isinstance(error, TypeError | ValueError | FileNotFoundError):
        return "is neither a TypeError nor a ValueError"
    if not (last.filename.startswith(PACKAGE) and last.line.startswith("raise ")):
        return "is not raised by the package"
    if not re.fullmatch(r"[a-zA-Z][^\n]{10,500}\.", message):
        return "is not one sentence"
    if not any(one.strip("*").removesuffix("s") in message for one in names):
        return "does not name the argument"
    return None


def same(got, wanted, *, overflows=False):
    """Return whether two results are the same numbers, shapes and devices.

    Where scores overflow to -inf, torch gives 0 and the plain kernel NaN: both may be right.
    """
    if isinstance(got, tuple):
        got = got[0]
    if got.shape != wanted.shape or got.device != wanted.device:
        return False
    tolerance = {"rtol": 1e-5, "atol": 1e-6}
    if got.dtype in (torch.float16, torch.bfloat16):
        tolerance = {"rtol": 2e-2, "atol": 2e-2}
    got, wanted = (one.to(torch.complex128) for one in (got, wanted))
    if overflows:
        wanted = torch.where(got.isnan(), NAN, wanted)
    return got.is_meta or torch.allclose(got, wanted, equal_nan=True, **tolerance)


def trouble_with(name, argument, value):
    """Return what goes wrong when one argument of a good call is bad; None if nothing does."""
    arguments, reference = {**CALLS[name], argument: value}, REFERENCES.get(name)
    versions = [one._version for one in arguments.values() if isinstance(one, Tensor)]
    figures = plt.get_fignums()
    try:
        with torch.random.fork_rng(devices=[]):
            result = call(target_of(name), arguments)
    except Exception as error:
        if plt.get_fignums() != figures:
            return f"leaves a figure behind: {error}"
        related = list(arguments) if isinstance(value, Tensor) else [argument]
        found = complaint(error, related)
        return found and f"{found}: {type(error).__name__}: {str(error)[:120]}"
    finally:
        plt.close("all")
    if versions != [one._version for one in arguments.values() if isinstance(one, Tensor)]:
        return "changes its argument"
    if reference is None or arguments.get("dropout_p"):
        return None
    try:
        wanted = reference(**{key.strip("*"): one for key, one in arguments.items()})
    except Exception as error:
        return f"accepts what the reference refuses: {str(error)[:120]}"
    overflows = isinstance(value, Tensor) and value.is_cpu and INF in value.to(torch.complex64)
    return (
        None if same(result, wanted, overflows=overflows) else f"gives {result}, not {wanted}"[:300]
    )


def test_a_new_public_function_would_be_found(monkeypatch):
    def novelty():
        """Do nothing."""

    novelty.__module__ = plotting.__name__
    monkeypatch.setattr(plotting, "novelty", novelty, raising=False)
    assert public_names() - set(CALLS) == {"plotting.novelty"}
    assert set(GIVEN) <= set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_good_call_names_every_argument_and_is_accepted(name):
    arguments, reference = CALLS[name], REFERENCES.get(name)
    names = {one.strip("*") for one in arguments} - {"d_k"}
    assert names == set(inspect.signature(target_of(name)).parameters) - {"controls"}
    result = call(target_of(name), arguments)
    plt.close("all")
    if reference is not None:
        assert same(result, reference(**{key.strip("*"): one for key, one in arguments.items()}))


@pytest.mark.parametrize("name", [name for name in CALLS if CALLS[name]])
def test_a_bad_argument_gives_a_sentence_or_a_correct_result(name):
    tried = [(one, *bad) for one, good in CALLS[name].items() for bad in bad_values(good)]
    found = {f"{one} = {what}": trouble_with(name, one, value) for one, what, value in tried}
    assert {case: trouble for case, trouble in found.items() if trouble} == {}


# --- unusual, but good ----------------------------------------------------------------------------


CAN_BE_WEIGHTS = {
    "one row": (WEIGHTS[1:2], {}),
    "some keys": (WEIGHTS[:, :2], {}),
    "empty rows": (torch.zeros(L, S), {}),
    "after dropout": (F.dropout(torch.eye(4), 0.5), {}),
    "not finite": (torch.tensor([[NAN, 1.0], [INF, 0.0]]), {}),
    "other axis": (WEIGHTS.softmax(dim=0), {}),
    "a scale of its own": (50 * TENSOR - 20, {"vmin": -15, "vmax": 30}),
}


@pytest.mark.parametrize("name", CAN_BE_WEIGHTS)
def test_what_can_come_from_weights_is_drawn(name):
    weights, options = CAN_BE_WEIGHTS[name]
    assert plotting.plot_attention(weights, **options).has_data()
    plt.close("all")


def test_a_layer_under_autocast_takes_another_dtype():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert LAYER(numbers(2, L, E).bfloat16()).output.dtype == torch.bfloat16
