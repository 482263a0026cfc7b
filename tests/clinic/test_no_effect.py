"""A parameter or an argument without effect is missed: named where its name says what it is for."""

import pytest
import torch
from torch import nn

from attnlab.clinic import diagnose
from tests.clinic.parts import Cross, E, Layer, Masked, answer, layer, right, rotary, scored, turned


def ways(q, k, v):
    """Return self-attention and cross-attention that go through these projections."""

    def parts(self, x, y=None, z=None):
        tokens = x, x if y is None else y, x if z is None else z
        return [self.cut(getattr(self, n)(t)) for n, t in zip((q, k, v), tokens, strict=True)]

    return layer(parts=parts), layer(Cross, parts=parts)


def beside(**made):
    """Return right self-attention that has more parameters."""
    one = Layer()
    for name, part in made.items():
        setattr(one, name, part)
    return one


def without_output(self, x):
    return self.join(self.attend(*self.parts(x)))


def blind(shape):
    """Return a layer whose mask is added along an axis where the softmax does not see it."""

    def forward(self, x, mask=None):
        query, key, value = self.parts(x)
        scores = scored(query, key)
        if mask is not None:
            scores = scores + shape(torch.zeros(mask.shape).to(x).masked_fill(~mask, -1e4))
        return self.o(self.join(scores.softmax(-1) @ value))

    return layer(Masked, forward=forward)


@pytest.mark.parametrize("names", ["kkk", "vvv", "qkk", "qqv", "kkv", "qvv"])
def test_a_projection_that_is_never_used_is_named(names):
    for made in ways(*names):
        report = diagnose(made)
        dead = sorted(set("qkv") - set(names))
        assert answer(report) in ("no-effect", "wrong-source"), repr(report)
        assert f"{dead[0]}.weight" in repr(report)


def test_an_output_projection_that_is_never_used_is_named():
    report = diagnose(layer(forward=without_output))
    assert answer(report) == "no-effect"
    assert "o.weight" in report.summary


@pytest.mark.parametrize(
    "made",
    [
        beside(norm=nn.LayerNorm(E)),
        beside(rel=nn.Parameter(torch.ones(5, 4))),
        beside(alpha=nn.Parameter(torch.ones(1))),
    ],
)
def test_what_may_be_used_otherwise_is_asked_about(made):
    report = diagnose(made)
    assert report.ok is None
    assert report.gap.name == "no-effect"


@pytest.mark.parametrize("name", ["scale", "temperature", "softmax_scale"])
def test_a_factor_without_effect_is_named(name):
    space = {"right": right, "scored": scored}
    exec(f"def idle(q, k, v, {name}=None): return right(q, k, v)", space)
    exec(f"def used(q, k, v, {name}=None): return (scored(q, k) * ({name} or 1)).softmax(-1) @ v",
         space)  # fmt: skip
    assert answer(diagnose(space["idle"])) == "no-effect"
    assert diagnose(space["used"]).ok is True


@pytest.mark.parametrize(
    "shape", [lambda mask: 0 * mask[:, None, None], lambda mask: mask[:, None, :, None]]
)
def test_a_padding_mask_that_blocks_no_key_is_named(shape):
    assert answer(diagnose(blind(shape))) in ("mask-ignored", "mask-queries")


class RotaryAttention(Layer):
    """Positions turn the tokens; ``axis`` is that of the places."""

    axis = 2

    def attend(self, query, key, value):
        query, key = (turned(x.transpose(2, self.axis)).transpose(2, self.axis)
                      for x in (query, key))  # fmt: skip
        return super().attend(query, key, value)


class RotaryByHead(RotaryAttention):
    axis = 1


def test_rotary_turns_that_cancel_are_named():
    report = diagnose(RotaryByHead())
    assert answer(report) == "positions"
    assert "cancel" in report.summary
    assert diagnose(RotaryAttention()).ok is True
    assert diagnose(rotary(1, 1, 0)).ok is True


def test_a_name_alone_accuses_nobody_of_missing_positions():
    report = diagnose(type("RotaryAttention", (Layer,), {})())
    assert report.ok is None
    assert report.gap.name == "positions"

    def rotary_attention(q, k, v):
        return right(q, k, v)

    assert diagnose(rotary_attention).gap.name == "positions"


def test_a_gradient_that_is_no_slope_is_named():
    for made in (layer(forward=lambda self, x: Layer.forward(self, x) + x - x.detach()),
                 lambda query: right(query, query.detach(), query)):  # fmt: skip
        assert answer(diagnose(made)) == "detached"


class Beginning(Layer):
    """Nothing comes through before it is trained: a projection or a gate begins with zeros."""

    def __init__(self, gated):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1)) if gated else 1.0
        if not gated:
            nn.init.zeros_(self.o.weight)

    def forward(self, x):
        return x + self.gate * super().forward(x)


@pytest.mark.parametrize("gated", [False, True])
def test_what_begins_with_zeros_is_not_accused(gated):
    assert not diagnose(Beginning(gated)).findings
