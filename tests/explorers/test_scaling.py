"""ScalingExplorer: what torch says about d_k, and that the story of the gradients is told right."""

import math
import re

import pytest
import torch

from attnlab import attention_scores, attention_weights, gradient_norms
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
    assert ScalingExplorer(d_k=512).say() == sentence(512)


@pytest.mark.parametrize("d_k", [256, 1024])
def test_the_sentence_says_which_gradients_it_counts(d_k):
    share, rest = re.search(r"(\d+) % of the queries get less than (.*),", sentence(d_k)).groups()
    assert rest == "a thousandth of that mean"
    assert module.DEAD == 1 / 1000
    assert int(share) == round(100 * sweep(d_k)[0].dead)


def test_the_still_picture_names_its_axes():
    axes = ScalingExplorer().figure().axes
    assert [ax.get_ylabel() for ax in axes[2:]] == ["length", "length"]


def test_the_browser_gets_every_stop_as_torch_computed_it():
    explorer = ScalingExplorer()
    data = explorer.data
    assert data["stops"] == list(STOPS)
    explorer.d_k, explorer.seed = 128, 3
    sent = torch.tensor(data["draws"][3][STOPS.index(128)]["raw"])
    torch.testing.assert_close(sent, explorer.result.raw, atol=6e-4, rtol=0)
    at = STOPS.index(128)
    assert data["curves"]["raw_median"][at] == pytest.approx(sweep(128)[0].median, rel=1e-3)
    assert data["curves"]["scaled_mean"][at] == pytest.approx(sweep(128)[1].mean, rel=1e-3)


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"d_k": 3}, "d_k must be one of 1, 2, 4, .*, 1024, got 3"),
        ({"d_k": 2048}, "got 2048"),
        ({"d_k": -4}, "got -4"),
        ({"d_k": "64"}, "got '64'"),
        ({"d_k": float("nan")}, "got nan"),
        ({"d_k": 64.0}, "got 64.0"),
        ({"d_k": True}, "got True"),
        ({"d_k": list(range(10_000))}, r"got \[0, 1, .*\.\.\."),
        ({"seed": 4}, "seed must be one of 0, 1, 2, 3, got 4"),
        ({"seed": None}, "got None"),
    ],
)
def test_a_hostile_state_gets_one_sentence(state, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        ScalingExplorer(**state)
    assert len(str(caught.value)) < 200
