"""The arithmetic of `make bench`, that it compares like with like, and one tiny run."""

import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from attnlab import MultiHeadAttention, scaled_dot_product_attention, tiled_attention
from tools import _bench_attention, _bench_measure, _bench_memory, bench
from tools._bench_measure import as_megabytes, as_time, compare, in_turns, line, result, summarise

ROOT = Path(__file__).parent.parent


def test_the_ratio_is_the_median_of_the_rounds_and_the_spread_their_quartiles():
    pairs = [(1.0, 1.0), (2.0, 1.0), (9.0, 3.0), (16.0, 4.0), (5.0, 1.0)]  # 1, 2, 3, 4, 5
    assert summarise(pairs) == (3.0, 2.0, 4.0)
    assert summarise(pairs[::-1]) == (3.0, 2.0, 4.0)
    assert summarise([(3.0, 2.0)]) == (1.5, 1.5, 1.5)


def test_one_slow_round_changes_neither_ratio_nor_spread_much():
    assert summarise([(1.0, 2.0)] * 9 + [(100.0, 2.0)]) == (0.5, 0.5, 0.5)


def test_both_take_turns_and_who_comes_first_changes():
    calls = []
    pairs = in_turns(
        lambda: calls.append("ours"),
        lambda: calls.append("theirs"),
        4,
        lambda function: function() or len(calls),
    )
    assert calls == ["theirs", "ours", "ours", "theirs"] * 2
    assert pairs == [(2, 1), (3, 4), (6, 5), (7, 8)]


@pytest.mark.parametrize(("seconds", "rounds"), [(10.0, 3), (0.1, 20), (0.001, 101)])
def test_a_comparison_fills_its_time_with_rounds(monkeypatch, seconds, rounds):
    now = [0.0]
    monkeypatch.setattr(_bench_measure.time, "process_time", lambda: now[0])

    def take(share):
        def function():
            now[0] += share * seconds

        return function

    measured = compare("a", "N = 1", take(0.75), take(0.25), budget=2.0)
    assert measured.rounds == rounds
    assert measured.ratio == pytest.approx(3)
    assert measured.ours == as_time(0.75 * seconds)


def test_numbers_have_a_unit_that_fits():
    assert [as_time(value) for value in (2.5, 0.0125, 0.00009)] == ["2.5 s", "12.5 ms", "90 us"]
    assert as_megabytes(33.5e6) == "33.5 MB"


def test_a_line_begins_with_the_ratio():
    pairs = [(0.002, 0.001), (0.003, 0.001), (0.004, 0.001)]
    several = line(result("causal, forward", "N = 128", pairs, as_time, "torch")).split()
    assert several[:2] == ["3.00", "2.50-3.50"]
    assert several[2:] == "causal, forward N = 128 3 ms torch 1 ms (3 rounds)".split()
    once = line(result("peak", "", pairs[:1], as_time, "plain")).split()
    assert once == "2.00 peak 2 ms plain 1 ms (once)".split()


def test_ours_and_theirs_compute_the_same():
    size = _bench_attention.WINDOW + 40  # longer than the window
    tensors = _bench_attention.draw(1, size)
    names = []
    for name, ours, theirs in _bench_attention.tiled_cases(size):
        names.append(name)
        assert_close(
            tiled_attention(*tensors, **ours),
            F.scaled_dot_product_attention(*tensors, **theirs()),
            msg=lambda text, name=name: f"{name}: {text}",
        )
    assert len(names) == 5
    plain = scaled_dot_product_attention(*tensors)
    assert_close(_bench_attention.by_hand(*tensors), plain)


def test_the_layers_compute_the_same():
    theirs = nn.MultiheadAttention(64, _bench_attention.HEADS, batch_first=True)
    ours, x = MultiHeadAttention.from_torch(theirs), torch.randn(2, 5, 64)
    output, weights = ours(x)
    for other in (
        theirs(x, x, x, average_attn_weights=False),
        _bench_attention.layer_by_hand(ours, x),
    ):
        assert_close(other[0], output)
        assert_close(other[1], weights)


def test_with_gradients_the_gradients_are_computed():
    tensors = _bench_attention.draw(1, 4)
    pull = torch.ones_like(tensors[0])
    both = _bench_attention.call(tiled_attention, tensors, {}, pull)()
    assert [gradient.shape for gradient in both] == [tensor.shape for tensor in tensors]
    alone = _bench_attention.call(tiled_attention, tensors, {}, None)()
    assert torch.equal(alone, tiled_attention(*tensors))


@pytest.mark.skipif(not _bench_memory.can_measure(), reason="no peak of memory to be read here")
def test_the_peak_of_the_plain_kernel_holds_its_two_matrices():
    matrices, output = 2 * 8 * 1024**2 * 4, 8 * 1024 * 64 * 4
    peak = _bench_memory.measure("plain", 1024)
    assert matrices + output <= peak + 1e6
    assert peak <= 1.2 * (matrices + output)


def test_a_tiny_run_prints_and_writes_every_line(tmp_path, capsys):
    plan = bench.Plan([16], False, [10], 0.0, 1, 0, False)
    report, threads = tmp_path / "report.txt", torch.get_num_threads()
    try:
        bench.run(plan, ["kernels", "plain"], report)
    finally:
        torch.set_num_threads(threads)
    text = report.read_text(encoding="utf-8")
    assert capsys.readouterr().out.startswith(text)
    assert f"torch {torch.__version__}" in text
    assert text.count("(3 rounds)") == 6 + 4 + 4  # five cases, one with gradients; two rivals each
    ratios = [float(row.split()[0]) for row in text.splitlines() if row.endswith("rounds)")]
    assert len(ratios) == 14
    assert all(ratio > 0 for ratio in ratios)


def test_git_ignores_the_report():
    ignored = subprocess.run(["git", "check-ignore", "-q", bench.REPORT], cwd=ROOT, check=False)
    assert ignored.returncode == 0
