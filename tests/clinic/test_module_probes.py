"""The probes for layers: what they note, and what they leave as it was."""

import copy

import pytest
import torch
from torch import nn

from attnlab.clinic import diagnose
from attnlab.clinic.broken import BROKEN, RIGHT
from attnlab.clinic.broken._templates import CrossLayer, Layer, MaskedLayer

CASES = {case.name: case for case in (*RIGHT, *BROKEN)}


def examined(make, options=None):
    torch.manual_seed(1)
    make = CASES[make].make if isinstance(make, str) else make
    return diagnose(make(), kind="module", **options or {})


def notes_on(make, **options):
    return " ".join(examined(make, options).notes)


def test_a_flag_that_is_only_a_hint_is_noted():
    for hint in ("CrossLayer.flag_as_a_hint", "CrossLayer.flag_as_a_hint_that_raises"):
        assert "is_causal=True without a mask does nothing" in notes_on(hint)


def test_an_extra_key_is_noted():
    for how in ("add_bias_kv", "add_zero_attn"):
        make = lambda how=how: nn.MultiheadAttention(12, 3, **{how: True})  # noqa: E731
        assert f"still sees the key that {how} adds" in notes_on(make, strict=True)


def test_why_train_mode_was_not_compared_is_noted():
    assert "still random in train mode" in notes_on("Layer.dropout_by_number")
    assert "BatchNorm" in notes_on("LayerWithBatchNorm")


def test_train_mode_and_eval_mode_are_shown_side_by_side():
    finding = examined("Layer.centred_in_train_mode").findings[0]
    assert finding.evidence.rows == ("train mode", "eval mode")
    held = "gives the same output in train mode and in eval mode, apart from dropout"
    assert held in examined("DropoutLayer").properties
    assert held in examined("DropoutByHand").properties


def test_an_idle_head_is_counted():
    results = examined("Layer.last_head_idle")
    assert "Head 2 contributes nothing (1 of 3)" in str(results.findings[0])
    assert not results.findings[0].evidence.values[2].any()
    assert "the heads compute different things" not in results.properties


def test_the_module_stays_as_it_was():
    module = CASES["StackedLayer"].make().train()
    before = copy.deepcopy(module.state_dict())
    examined(lambda: module)
    assert module.training
    assert module.resid_dropout.training
    assert all(torch.equal(value, module.state_dict()[name]) for name, value in before.items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_the_global_random_state_stays_as_it_was():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    diagnose(nn.MultiheadAttention(8, 2))
    torch.manual_seed(3)
    assert torch.equal(state, torch.get_rng_state())


def test_a_module_that_cannot_be_copied_is_examined_and_put_back():
    class Uncopied(Layer):
        def __deepcopy__(self, memo):
            raise TypeError("no copies")

    module = Uncopied().train()
    results = examined(lambda: module)
    assert module.training
    assert not results.findings


def test_an_adapter_calls_what_the_clinic_cannot():
    class Odd(CrossLayer):
        def forward(self, pack, *, flip):
            return {"y": super().forward(*pack)}

    def call(module, query, key, value, attn_mask):
        return module((query, key, value), flip=False)["y"]

    report = examined(Odd, {"call": call, "embed_dim": 12})
    assert not {"raises", "wrong-type"} & {finding.name for finding in report.findings}


def test_a_blocked_row_is_a_finding_only_if_strict():
    assert not examined(MaskedLayer).findings
    strict = examined(MaskedLayer, {"strict": True}).findings
    assert "blocked-row" in [finding.name for finding in strict]


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: None,
        lambda x: 3,
        lambda x: [],
        lambda x: x * float("nan"),
        lambda x: x.long(),
        lambda x: x.sum(),
        lambda x: x.to_sparse(),
        lambda x: x.detach().numpy(),
        lambda x: (x, x, x),
        lambda x: torch.empty(x.shape, device="meta"),
        lambda x: exit(),
    ],
)
def test_nothing_that_a_module_returns_makes_the_clinic_raise(answer):
    class Strange(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, query, key=None, value=None, mask=None):
            return answer(self.layer(query))

    examined(Strange)
