"""ScalingExplorer: what torch says about d_k, and that the story of the gradients is told right."""

import math
import re

import pytest
import torch

from attnlab import attention_scores, attention_weights, effective_keys, gradient_norms
from attnlab.explorers import ScalingExplorer
from attnlab.explorers import scaling as module
from attnlab.explorers.scaling import STOPS, sweep
from tests.explorers.common import DeclaredTests


def drawn(seed):
    return torch.randn(2, 6, 1024, generator=torch.Generator().manual_seed(seed))


def assert_reads(text, wanted):
    """Compare a number that is written short, such as 0.3 or 1/12, with what it stands for."""
    if text.startswith("1/"):
        text, wanted = text[2:], 1 / wanted
    decimals = len(text.partition(".")[2])
    assert text == f"{wanted:.{decimals}f}"


class TestScaling(DeclaredTests):
    kind = ScalingExplorer
    states = [{"d_k": d_k, "seed": place % 4} for place, d_k in enumerate(STOPS)]
    written = {"raw": "raw", "scaled": "scaled"}

    def given(self, explorer):
        return dict(zip(("query", "key"), drawn(explorer.seed), strict=True))

    def expected(self, explorer):
        query, key = drawn(explorer.seed)[..., : explorer.d_k]
        scores = query @ key.T
        return {"raw": scores.softmax(-1), "scaled": (scores / explorer.d_k**0.5).softmax(-1)}

    def check_words(self, explorer, said, result):
        raw, scaled = result.raw_sweep, result.scaled_sweep
        assert "vanish" not in said
        told = re.search(
            r"variance (\S+) without scaling and (\S+) with it.* median length of the gradient is "
            r"(\S+) (?:times|of) what it is with scaling, and the mean length is (\S+) ",
            said,
        ).groups()
        ratios = raw.median / scaled.median, raw.mean / scaled.mean
        for text, wanted in zip(told, (raw.variance, scaled.variance, *ratios), strict=True):
            assert_reads(text, wanted)
        assert "near ties" not in said or raw.dead > 0.01
        assert "longer" not in said or raw.median > scaled.median
        if "%" in said:
            share, rest = re.search(r"Of the queries, (\d+)% get less than (.*),", said).groups()
            assert rest == "a thousandth of the mean length"
            assert int(share) == round(100 * raw.dead)

    def check_frame(self, explorer, frame, result):
        assert torch.equal(frame["raw"]["cells"], result.raw)
        assert torch.equal(frame["scaled"]["cells"], result.scaled)
        raw, scaled = result.raw_sweep, result.scaled_sweep
        assert frame["bad"] == (raw.median < scaled.median / 2)
        used = effective_keys(result.raw).mean().item()
        assert frame["raw"]["under"] == f"softmax(QKᵀ): uses {used:.1f} of 6 keys"


@pytest.mark.parametrize("d_k", [4, 256])
def test_the_gradients_are_those_of_autograd(d_k):
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
    said = ScalingExplorer(d_k=1024).say()
    assert "Of the queries, 56% get" in said
    assert "a few near ties get a huge gradient" in said


def test_the_curves_are_the_sweeps_and_fit_on_their_axis():
    curves = ScalingExplorer().panels[2]
    for line in curves.lines:
        side, what = line.name.split(", ")
        assert line.values == [getattr(sweep(d_k)[side == "scaled"], what) for d_k in STOPS]
        assert line.role == ("scaled" if side == "scaled" else "raw")
        assert all(curves.y.low < value < curves.y.high for value in line.values)
