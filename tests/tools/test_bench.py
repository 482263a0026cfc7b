"""`make bench` compares like with like, writes what it measured."""

import time

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from attnlab import tiled_attention
from tools.bench import Plan, Row, attention, classroom
from tools.bench import __main__ as bench


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (Row("a", [0.002, 0.003, 0.007], [0.001], "torch"), "3.00 83% a 3 ms torch 1 ms"),
        (Row("b", [0.0125], [9e-5], "c"), "138.89 b 12.5 ms c 90 µs"),
        (Row("peak", [2e6], [33.46e6], "plain", "B"), "0.06 peak 2 MB plain 33.5 MB"),
    ],
)
def test_a_row_tells_the_ratio_of_the_medians_and_their_spread(row, shown):
    assert " ".join(str(row).split()) == shown


def test_only_the_time_of_this_process_is_measured():
    assert max(attention.processor_times(lambda: time.sleep(0.05), 1e-4)) < 0.04


def test_ours_and_theirs_compute_the_same():
    size = attention.WINDOW + 40  # longer than the window
    tensors = attention.draw(1, size, requires_grad=True)
    for ours, theirs in attention.tiled_cases(size).values():
        calls = ((tiled_attention, ours), (F.scaled_dot_product_attention, theirs))
        made = [
            attention.with_gradients(lambda *t, k=kernel, o=options: k(*t, **o), tensors)
            for kernel, options in calls
        ]
        assert len(made[0]) == 3
        assert_close(*made)


def test_a_tiny_run_prints_and_writes_every_row(tmp_path, capsys):
    report, threads = tmp_path / "report.txt", torch.get_num_threads()
    try:
        bench.run(Plan([16], 1e-6), ["kernels", "plain"], report)
    finally:
        torch.set_num_threads(threads)
    text = report.read_text(encoding="utf-8")
    assert capsys.readouterr().out.startswith(text)
    assert f"torch {torch.__version__}" in text
    ratios = [float(line.split()[0]) for line in text.splitlines() if ", N = 1" in line]
    assert len(ratios) == 2 * (4 + 2)  # directions of four cases and of two sizes
    assert all(ratio > 0 for ratio in ratios)


def test_without_a_hub_the_class_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(classroom, "PROXY", tmp_path / "configurable-http-proxy")
    bench.run(bench.QUICK, ["class"], tmp_path / "report.txt")
    told = capsys.readouterr().out
    assert 'pip install -e ".[hub]"' in told
    assert "npm install" in told
