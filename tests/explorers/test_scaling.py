"""ScalingExplorer: what torch says about d_k, and that the story of the gradients is told right."""

import math
import re

import pytest
import torch

from attnlab import attention_scores, attention_weights, effective_keys, gradient_norms
from attnlab.explorers import ScalingExplorer
from attnlab.explorers import scaling as module
from attnlab.explorers.scaling import STOPS, sentence, sweep


def test_result_is_softmax_of_the_products_with_and_without_scaling():
    generator = torch.Generator().manual_seed(2)
    query, key = torch.randn(2, 6, 1024, generator=generator)[..., :64]
    result = ScalingExplorer(d_k=64, seed=2).result
    torch.testing.assert_close(result.raw, (query @ key.T).softmax(-1))
    torch.testing.assert_close(result.scaled, (query @ key.T / 8).softmax(-1))


def test_a_new_draw_is_another_one_and_d_k_of_1_needs_no_scaling():
    first, second = (ScalingExplorer(seed=seed).result.raw for seed in (0, 1))
    assert not torch.allclose(first, second)
    one = ScalingExplorer(d_k=1).result
    torch.testing.assert_close(one.raw, one.scaled)


@pytest.mark.parametrize("d_k", [4, 256])
def test_the_gradients_are_those_of_autograd(d_k, monkeypatch):
    generator = torch.Generator().manual_seed(module.SWEEP_SEED)
    query = torch.randn(400, d_k, 1, generator=generator).transpose(1, 2).double()
    key = torch.randn(400, 16, d_k, generator=generator).double()
    value = torch.randn(400, 16, 1, generator=generator).double()
    query.requires_grad_()
    for measured, divisor in zip(sweep(d_k), (1, math.sqrt(d_k)), strict=True):
        weights = attention_weights(attention_scores(query, key, scale=1 / divisor))
        lengths = gradient_norms((weights @ value).sum(), query).flatten()
        assert measured.median == pytest.approx(lengths.median().item(), rel=1e-3)
        assert measured.mean == pytest.approx(lengths.mean().item(), rel=1e-3)
        dead = (lengths < lengths.mean() / 1000).double().mean().item()
        assert measured.dead == pytest.approx(dead, abs=0.006)


def test_most_rows_get_no_gradient_and_a_few_a_huge_one():
    raw, scaled = sweep(1024)
    assert raw.median < scaled.median / 500
    assert raw.mean > 3 * scaled.mean
    assert raw.dead > 0.5
    assert scaled.dead == 0
    assert raw.variance == pytest.approx(1024, rel=0.05)
    assert all(sweep(d_k)[1].variance == pytest.approx(1, abs=0.15) for d_k in STOPS)
    for d_k in (2, 4, 8, 16):  # short vectors: raw gradients are longer throughout
        assert sweep(d_k)[0].median > sweep(d_k)[1].median


def test_the_sentence_never_says_that_the_gradient_vanishes():
    for d_k in STOPS:
        assert "vanish" not in sentence(d_k)
        assert "median" in sentence(d_k)
        assert "mean" in sentence(d_k)
    assert "a few near ties a huge one" in sentence(1024)
    assert "near ties" not in sentence(4)
    assert "longer" not in sentence(1024)
    assert ScalingExplorer(d_k=512).say() == sentence(512).replace("**", "")


@pytest.mark.parametrize("d_k", [256, 1024])
def test_the_sentence_says_which_gradients_it_counts(d_k):
    share, rest = re.search(r"(\d+) % of the queries get less than (.*),", sentence(d_k)).groups()
    assert rest == "a thousandth of that mean"
    assert module.DEAD == 1 / 1000
    assert int(share) == round(100 * sweep(d_k)[0].dead)


def test_frames_show_what_torch_computes_and_code_computes_it_again():
    explorer = ScalingExplorer(d_k=128, seed=3)
    frame, result = explorer.frame_now(), explorer.result
    assert torch.equal(frame["raw"]["cells"], result.raw)
    assert torch.equal(frame["scaled"]["cells"], result.scaled)
    used = effective_keys(result.raw).mean().item()
    assert frame["raw"]["under"] == f"softmax(QKᵀ): uses {used:.1f} of 6 keys"
    generator = torch.Generator().manual_seed(3)
    query, key = torch.randn(2, 6, 1024, generator=generator)
    names = {"query": query, "key": key}
    exec(frame["code"], names)
    torch.testing.assert_close(names["raw"], result.raw)
    torch.testing.assert_close(names["scaled"], result.scaled)


def test_the_curves_are_the_sweeps_and_fit_on_their_axis():
    curves = ScalingExplorer().panels[2]
    for line in curves.lines:
        side, what = line.name.split(", ")
        wanted = [getattr(sweep(d_k)[side == "scaled"], what) for d_k in STOPS]
        assert line.values == wanted
        assert line.role == ("scaled" if side == "scaled" else "raw")
        assert all(curves.y.low < value < curves.y.high for value in line.values)
