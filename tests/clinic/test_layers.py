"""What the clinic says of layers that are written in other ways than its own."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.clinic import diagnose
from attnlab.clinic.broken._templates import CrossLayer, Layer, MaskedLayer, SmallHead, Steps


def first(target, **options):
    """Return the name of the first finding, "" if there is none."""
    findings = diagnose(target, **options).findings
    return findings[0].name if findings else ""


def soft(scores, dim=-1):
    return scores.softmax(dim=dim)


class Narrow(Steps, nn.Module):
    """One head that is much narrower than the model, with a step to change."""

    def __init__(self, n_embd=32, head_size=8, causal=False):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(n_embd, head_size) for _ in range(3))
        self.causal = causal

    def forward(self, x):
        mask = torch.ones(x.size(1), x.size(1)).tril().bool() if self.causal else None
        return self.attend(self.query(x), self.key(x), self.value(x), mask)


@pytest.mark.parametrize("sizes", [(32, 8), (24, 8), (64, 8), (384, 64)])
def test_a_narrow_head_is_followed(sizes):
    assert diagnose(Narrow(*sizes)).ok
    assert diagnose(SmallHead(32, 8)).ok


@pytest.mark.parametrize(
    ("cause", "steps", "causal"),
    [
        ("softmax-axis", {"soft": lambda self, x: x.softmax(dim=1)}, False),
        ("scale-missing", {"score": lambda self, q, k: q @ k.mT}, False),
        ("not-normalised", {"soft": lambda self, x: x}, False),
        ("mask-multiplied", {"hide": lambda self, x, m: x.masked_fill(~m, 0)}, True),
        ("mask-finite", {"hide": lambda self, x, m: x.masked_fill(~m, -1.0)}, True),
        ("mask-added", {"hide": lambda self, x, m: x + m}, True),
        ("mask-finite", {"hide": lambda self, x, m: x.masked_fill(~m, -7.3)}, True),
    ],
)
def test_a_bug_in_a_narrow_head_is_named(cause, steps, causal):
    broken = type("Broken", (Narrow,), steps)
    assert first(broken(causal=causal)) == cause


def test_a_fill_value_is_measured():
    steps = {"hide": lambda self, x, m: x.masked_fill(~m, -7.3)}
    finding = diagnose(type("Broken", (Narrow,), steps)(causal=True)).findings[0]
    assert "-7.3" in finding.sentence


def test_a_learned_temperature_is_followed():
    class Temperature(Layer):
        def __init__(self):
            super().__init__()
            self.temperature = nn.Parameter(torch.tensor(0.7))

        def score(self, query, key):
            return query @ key.mT * self.temperature.exp()

    report = diagnose(Temperature())
    assert report.ok
    assert any("is a parameter" in note for note in report.notes)


class Hugging(Layer):
    """Take many arguments, as layers of Hugging Face do."""

    def forward(
        self,
        hidden_states,
        mask=None,
        key_value_states=None,
        position_bias=None,
        past_key_value=None,
        layer_head_mask=None,
        output_attentions=False,
    ):
        memory = hidden_states if key_value_states is None else key_value_states
        if past_key_value is not None:
            past_key_value.update(memory)
        mask = None if mask is None else mask == 1
        return (self.run(hidden_states, memory, memory, mask), None)


class KeywordOnly(Layer):
    def forward(self, *, query, key, value):
        return self.run(query, key, value)


def test_arguments_are_given_by_name():
    assert diagnose(Hugging()).ok
    assert diagnose(KeywordOnly()).ok
    assert first(type("Broken", (Hugging,), {"soft": lambda self, x: x.softmax(-2)})()) == (
        "softmax-axis"
    )


def test_names_that_only_look_like_a_memory_are_left_alone():
    class XTransformer(Layer):
        def forward(self, x, context_rotary_pos_emb=None, past_kv=None, freqs_cis=None):
            assert context_rotary_pos_emb is None
            assert past_kv is None
            return self.run(x, x, x)

    assert diagnose(XTransformer()).ok


def test_a_call_that_is_not_known_is_told_and_not_accused():
    class Rotated(Layer):
        def forward(self, x, rotation):
            cos, sin = rotation
            return self.run(x * cos + sin, x, x)

    report = diagnose(Rotated())
    assert report.ok is None
    assert not report.findings
    assert "float32(2, 5, 12)" in report.gap.call
    assert "rotation=" in report.gap.call
    assert "call=" in report.gap.remedy


@pytest.mark.parametrize("shape", ["NLS", "N11S", "NS"])
def test_a_required_mask_of_any_shape_is_given(shape):
    def cut(mask):
        return {
            "NLS": lambda: mask[:, None] if mask.ndim == 3 else 1 / 0,
            "N11S": lambda: mask if mask.ndim == 4 and mask.size(1) == 1 else 1 / 0,
            "NS": lambda: mask[:, None, None] if mask.ndim == 2 else 1 / 0,
        }[shape]()

    class Required(Layer):
        def forward(self, x, attn_mask):
            return self.run(x, x, x, cut(attn_mask).bool())

        def hide(self, scores, mask):
            return scores.masked_fill(~mask, -1e9)

    assert not diagnose(Required()).findings


def test_an_adapter_of_self_attention_is_not_accused_of_its_sides():
    class Odd(MaskedLayer):
        def forward(self, pack, query=None, key=None, value=None):
            return super().forward(pack["x"], pack["mask"])

    def call(layer, query, key, value, attn_mask):
        return layer({"x": query, "mask": attn_mask})

    for told in (True, False):
        report = diagnose(Odd(), call=call, embed_dim=12, self_attention=told)
        assert report.ok, repr(report)
    broken = type("Broken", (Odd,), {"soft": lambda self, x: x.softmax(-2)})
    assert first(broken(), call=call, embed_dim=12, self_attention=True) == "softmax-axis"


def test_several_arguments_may_mean_the_same_tokens():
    class Same(Layer):
        def forward(self, query, key, value):
            return self.run(query, query, query)

    assert first(Same()) == "cross-side"
    assert diagnose(Same(), self_attention=True).ok


def test_an_adapter_without_a_mask_is_not_accused_of_it():
    report = diagnose(
        CrossLayer(), call=lambda layer, query, key, value, mask: layer(query, key, value)
    )
    assert not report.findings


def test_a_softmax_in_float32_knows_no_order():
    class Float32(Layer):
        def soft(self, scores):
            return F.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)

    report = diagnose(Float32())
    assert not report.findings
    assert not any("order" in note for note in report.notes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_the_dtype_of_the_parameters_is_taken(dtype):
    report = diagnose(Layer().to(dtype))
    assert report.ok, repr(report)
    broken = type("Broken", (Layer,), {"score": lambda self, q, k: q @ k.mT})
    assert first(broken().to(dtype)) == "scale-missing"


def test_keys_of_another_width_are_found():
    assert diagnose(nn.MultiheadAttention(12, 3, kdim=10, vdim=8, batch_first=True)).ok

    class Context(Layer):
        def __init__(self):
            super().__init__()
            self.k_proj, self.v_proj = nn.Linear(20, 12), nn.Linear(20, 12)

        def forward(self, x, context):
            return self.run(x, context, context)

    assert diagnose(Context()).ok
    assert first(type("Broken", (Context,), {"soft": lambda self, x: x})()) == "not-normalised"


class Model(nn.Module):
    """Take token numbers, as a whole language model does."""

    def __init__(self):
        super().__init__()
        self.wte, self.attn, self.head = nn.Embedding(20, 12), Layer(), nn.Linear(12, 20)

    def forward(self, numbers):
        return self.head(self.attn(self.wte(numbers)))


class MeanPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 12)

    def forward(self, x):
        return self.layer(x.mean(dim=1, keepdim=True).expand_as(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(12, 12, batch_first=True)

    def forward(self, x):
        return self.gru(x)[0]


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Linear(5, 5)

    def forward(self, x):
        return x + self.tokens(x.mT).mT


class Fourier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 12)

    def forward(self, x):
        return torch.fft.fft2(self.layer(x)).real


@pytest.mark.parametrize("make", [Model, MeanPool, Recurrent, Mixer, Fourier])
def test_what_is_no_attention_layer_is_not_examined(make):
    report = diagnose(make())
    assert report.ok is None
    assert not report.findings
    assert report.gap


def test_the_attention_inside_a_model_is_named():
    assert ".attn" in diagnose(Model()).gap.remedy


@pytest.mark.parametrize("lost", [False, True])
def test_two_masks_at_once(lost):
    class TwoMasks(Layer):
        def forward(self, x, mask=None, key_padding_mask=None):
            query, key, value = (
                self.split(layer(x), self.num_heads)
                for layer in (self.q_proj, self.k_proj, self.v_proj)
            )
            scores = raw = self.score(query, key)
            if key_padding_mask is not None:
                scores = raw.masked_fill(key_padding_mask[:, None, None], -torch.inf)
            if mask is not None:
                scores = (raw if lost else scores).masked_fill(~mask, -torch.inf)
            return self.out_proj(self.merge(scores.softmax(dim=-1) @ value))

    report = diagnose(TwoMasks())
    if lost:
        assert report.findings[0].name == "mask-ignored"
        assert "key_padding_mask is lost" in report.findings[0].sentence
    else:
        assert report.ok, repr(report)


def test_a_projection_that_is_never_used_is_named_in_any_style():
    class Einsum(nn.Module):
        def __init__(self):
            super().__init__()
            self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(3, 12, 4)) for _ in range(3))

        def forward(self, x):
            q, k = (torch.einsum("nle,hed->nhld", x, w) for w in (self.wq, self.wk))
            scores = torch.einsum("nhqd,nhkd->nhqk", q, k) / 2
            return torch.einsum("nhqk,nhkd->nqhd", scores.softmax(-1), k).flatten(2)

    report = diagnose(Einsum())
    assert report.findings[0].name == "wrong-source"
    assert "wv" in report.findings[0].sentence


@pytest.mark.parametrize("bug", ["", "scale-missing", "softmax-axis"])
def test_layers_in_other_styles_are_followed(bug):
    factor = 1.0 if bug == "scale-missing" else None
    dim = -2 if bug == "softmax-axis" else -1

    class List(nn.Module):
        """Keep four layers in a list, as in the Annotated Transformer."""

        def __init__(self):
            super().__init__()
            self.linear_layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(4))

        def forward(self, x):
            q, k, v = (
                layer(x).view(*x.shape[:2], 4, 6).transpose(1, 2)
                for layer in self.linear_layers[:3]
            )
            scores = q @ k.mT * (factor or 6**-0.5)
            joined = (scores.softmax(dim) @ v).transpose(1, 2).flatten(2)
            return self.linear_layers[3](joined)

    class Grouped(nn.Module):
        """Share keys among queries, normalise queries and keys, and scale the queries."""

        def __init__(self):
            super().__init__()
            self.q, self.kv = nn.Linear(24, 24), nn.Linear(24, 24)
            self.norms = nn.ModuleList(nn.LayerNorm(6) for _ in range(2))

        def forward(self, x):
            n, length, _ = x.shape
            q = self.norms[0](self.q(x).view(n, length, 2, 2, 6)) * (factor or 1 / math.sqrt(6))
            k, v = self.kv(x).view(n, length, 2, 2, 6).unbind(2)
            scores = torch.einsum("nqgrd,nkgd->ngrqk", q, self.norms[1](k))
            return torch.einsum("ngrqk,nkgd->nqgrd", scores.softmax(dim), v).reshape(x.shape)

    class Convolved(nn.Module):
        """Project with a convolution of width 1 and stack everything."""

        def __init__(self):
            super().__init__()
            self.qkv = nn.Conv1d(24, 72, 1)

        def forward(self, x):
            q, k, v = self.qkv(x.mT).chunk(3, dim=1)  # (n, e, l)
            q, k, v = (part.unflatten(1, (4, 6)) for part in (q, k, v))
            scores = torch.einsum("nhdi,nhdj->nhij", q, k) * (factor or 6**-0.5)
            return torch.einsum("nhij,nhdj->nhdi", scores.softmax(dim), v).flatten(1, 2).mT

    for make in (List, Grouped, Convolved):
        report = diagnose(make(), num_heads=4, embed_dim=24)
        assert [finding.name for finding in report.findings][:1] == ([bug] if bug else []), report
        assert bug or report.ok, repr(report)


def by_rows(layer, q, k, v):
    rows = [(q[:, i : i + 1] @ k.mT / 12**0.5).softmax(-1) @ v for i in range(q.size(1))]
    return torch.cat(rows, dim=1)


def by_sums(layer, q, k, v):
    scores = (q.unsqueeze(2) * k.unsqueeze(1)).sum(-1) / 12**0.5
    return (scores.softmax(-1).unsqueeze(-1) * v.unsqueeze(1)).sum(2)


def additive(layer, q, k, v):
    scores = torch.tanh(q.unsqueeze(2) + k.unsqueeze(1)).sum(-1)
    return scores.softmax(-1) @ v


def in_blocks(layer, q, k, v):
    """Go through the keys in blocks with running sums, as FlashAttention does."""
    total = peak = top = None
    for keys, values in zip(k.split(2, dim=1), v.split(2, dim=1), strict=True):
        scores = q @ keys.mT / 12**0.5
        best = scores.amax(-1, keepdim=True)
        peak = best if peak is None else torch.maximum(peak, best)
        old = 0 if top is None else (top - peak).exp()
        shares = (scores - peak).exp()
        joined = torch.cat([shares @ values, shares.sum(-1, keepdim=True)], dim=-1)
        total = joined if total is None else total * old + joined
        top = peak
    return total[..., :-1] / total[..., -1:]


def linear(layer, q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return (q @ (k.mT @ v)) / (q @ k.sum(1, keepdim=True).mT)


def with_a_cap(layer, q, k, v):
    return ((q @ k.mT / 12**0.5 / 30).tanh() * 30).softmax(-1) @ v


def twice(layer, q, k, v):
    once = (q @ k.mT / 12**0.5).softmax(-1) @ v
    return (once @ k.mT / 12**0.5).softmax(-1) @ v


def mixing_its_heads(layer, q, k, v):
    q, k, v = (layer.split(part, 3) for part in (q, k, v))
    scores = torch.einsum("nhqk,hg->ngqk", q @ k.mT / 2, layer.mix)
    return layer.merge(scores.softmax(-1) @ v)


@pytest.mark.parametrize(
    "attend",
    [by_rows, by_sums, additive, in_blocks, linear, with_a_cap, twice, mixing_its_heads],
)
def test_unusual_attention_is_followed_or_said_not_to_be(attend):
    class Unusual(Layer):
        def __init__(self):
            super().__init__()
            self.mix = nn.Parameter(torch.eye(3) + 0.1)

        def forward(self, x):
            return self.out_proj(attend(self, self.q_proj(x), self.k_proj(x), self.v_proj(x)))

    report = diagnose(Unusual())
    assert not report.findings, repr(report)
    assert report.ok or report.gap


class Grouped(nn.Module):
    """Two heads share one head of keys, and einsum puts their rows in an order of its own."""

    def __init__(self, fill=-math.inf, ahead=0, factor=None):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.fill, self.ahead, self.factor = fill, ahead, factor or 8**-0.5

    def forward(self, x):
        n, length, width = x.shape
        q = self.q(x).view(n, length, 2, 2, 8)
        k, v = self.kv(x).view(n, length, 2, 2, 8).unbind(dim=2)
        scores = torch.einsum("btkgd,bskd->bkgts", q, k) * self.factor
        seen = torch.ones(length, length, dtype=torch.bool, device=x.device).tril(self.ahead)
        weights = scores.masked_fill(~seen, self.fill).softmax(dim=-1)
        return self.o(torch.einsum("bkgts,bskd->btkgd", weights, v).reshape(n, length, width))


def test_grouped_queries_of_a_causal_layer_are_followed():
    report = diagnose(Grouped())
    assert report.ok
    assert any("1/sqrt(head_dim), head_dim = 8" in said for said in report.properties)
    assert first(Grouped(factor=1.0)) == "scale-missing"
    assert first(Grouped(factor=1 / 8)) == "scale-d"
    assert first(Grouped(-1e9, ahead=-1)) == "causal-off-by-one"


class Window(Layer):
    """A causal window of two tokens, by logarithms; ``ahead`` moves its end."""

    ahead = 0

    def forward(self, x):
        ones = x.new_ones(x.shape[1], x.shape[1])
        return self.run(x, x, x, ones.tril(self.ahead).triu(-1).log())

    def hide(self, scores, mask):
        return scores + mask


@pytest.mark.parametrize("ahead", [-1, 1])
def test_the_end_of_a_window_is_examined(ahead):
    assert diagnose(Window(), causal=True).ok
    assert first(type("Broken", (Window,), {"ahead": ahead})(), causal=True) == "causal-off-by-one"


class Pooling(nn.Module):
    """Learned queries sum up a sequence."""

    def __init__(self, count=1, factor=4**-0.5):
        super().__init__()
        self.probe, self.factor = nn.Parameter(torch.randn(count, 12)), factor
        self.query, self.key, self.value = (nn.Linear(12, 12) for _ in range(3))

    def forward(self, x):
        query = self.query(self.probe).expand(len(x), -1, -1)
        query, key, value = (
            part.unflatten(-1, (3, 4)).transpose(1, 2)
            for part in (query, self.key(x), self.value(x))
        )
        weights = (query @ key.mT * self.factor).softmax(dim=-1)
        return (weights @ value).transpose(1, 2).flatten(2).squeeze(1)


class Weighted(nn.Module):
    """The weights of the tokens are computed without a query."""

    def __init__(self):
        super().__init__()
        self.hidden, self.score = nn.Linear(12, 6), nn.Linear(6, 1)

    def forward(self, x):
        return (self.score(self.hidden(x).tanh()).softmax(dim=1) * x).sum(dim=1)


@pytest.mark.parametrize(
    ("make", "count"), [(Pooling, "one vector"), (lambda: Pooling(3), "3 v"), (Weighted, "one v")]
)
def test_what_sums_up_a_sequence_is_no_wrong_shape(make, count):
    report = diagnose(make())
    assert report.ok is None
    assert not report.findings
    assert f"It gives {count}" in report.gap.why


def test_the_scale_of_learned_queries_is_examined():
    assert first(Pooling(factor=1.0)) == "scale-missing"
    assert first(Pooling(3, factor=1 / 4)) == "scale-d"


class Packed(Layer):
    """Take a dictionary, or several sequences as a list."""

    def forward(self, batch):
        return super().forward(batch["tokens"])


class Listed(Layer):
    def forward(self, parts):
        return super().forward(torch.stack([part.tokens for part in parts]))


@pytest.mark.parametrize("make", [Packed, Listed])
def test_a_layer_that_takes_no_tensor_is_not_accused(make):
    report = diagnose(make())
    assert report.ok is None
    assert not report.findings
    assert "float32(2, 5, 12)" in report.gap.call
    assert "call=" in report.gap.remedy


def test_an_error_after_the_projections_is_that_of_the_layer():
    class Raises(Layer):
        def attend(self, query, key, value, mask):
            raise KeyError("heads")

    assert first(Raises()) == "raises"


def test_heads_that_are_meant_to_be_narrow_are_a_note():
    class Cut(Layer):
        def __init__(self):
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            x = self.split(x, 3)
            heads = self.attend(self.q_proj(x), self.k_proj(x), self.v_proj(x), None)
            return self.out_proj(self.merge(heads))

    assert first(Cut()) == "heads-from-input"
    report = diagnose(type("NarrowHeads", (Cut,), {})())
    assert not report.findings
    assert any("cut from x" in note for note in report.notes)


def test_what_is_said_of_zero_is_not_said_of_one():
    class Padded(MaskedLayer):
        """mask: (batch, length), 1 for a token and 0 for padding."""

        def hide(self, scores, mask):
            return scores.masked_fill(mask, -torch.inf)

    assert first(Padded()) == "mask-inverted"
    Padded.__doc__ = "mask: (batch, length), 1 for padding and 0 for a token."
    assert first(Padded()) == ""
