"""`make bench` compares like with like, writes what it measured, and counts what a command took."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from attnlab import MultiHeadAttention, scaled_dot_product_attention, tiled_attention
from tools.bench import Plan, Row, attention, measured, processor_time, with_unit
from tools.bench import __main__ as bench

ROOT = Path(__file__).parent.parent


def test_a_row_begins_with_the_ratio_of_the_medians_and_its_spread():
    ours, theirs = measured([0.002, 0.003, 0.004, 0.003, 0.003]), measured([0.001])
    row = str(Row("causal, forward", 128, measured([0.002, 0.003, 0.004]), theirs, "torch"))
    assert row.split() == "3.00 33% causal, forward N = 128 3 ms torch 1 ms".split()
    assert str(Row("x", None, ours, theirs, "y")).split()[:2] == ["3.00", "0%"]
    once = str(Row("peak", None, measured([2e6]), measured([1e6]), "plain", unit="B"))
    assert once.split() == "2.00 peak 2 MB plain 1 MB".split()


def test_numbers_have_a_unit_that_fits():
    shown = [with_unit(value, "s") for value in (2.5, 0.0125, 0.00009)]
    assert shown == ["2.5 s", "12.5 ms", "90 us"]
    assert with_unit(33.5e6, "B") == "33.5 MB"


def test_only_the_time_of_this_process_is_measured():
    asleep = processor_time(lambda: subprocess.run(["sleep", "0.05"], check=True), 1e-4)
    assert asleep.median < 0.04


def test_ours_and_theirs_compute_the_same():
    size = attention.WINDOW + 40  # longer than the window
    tensors = attention.draw(1, size)
    cases = attention.tiled_cases(size)
    for name, (ours, theirs) in cases.items():
        assert_close(
            tiled_attention(*tensors, **ours),
            F.scaled_dot_product_attention(*tensors, **theirs),
            msg=lambda text, name=name: f"{name}: {text}",
        )
    assert len(cases) == 5
    assert_close(attention.by_hand(*tensors), scaled_dot_product_attention(*tensors))


def test_the_layers_compute_the_same():
    theirs = nn.MultiheadAttention(64, attention.HEADS, batch_first=True)
    ours, x = MultiHeadAttention.from_torch(theirs), torch.randn(2, 5, 64)
    output, weights = ours(x)
    for other in (theirs(x, x, x, average_attn_weights=False), attention.layer_by_hand(ours, x)):
        assert_close(other[0], output)
        assert_close(other[1], weights)


def test_gradients_of_all_inputs_are_computed():
    tensors = attention.draw(1, 4, requires_grad=True)
    found = attention.with_gradients(lambda: tiled_attention(*tensors), tensors)
    assert [gradient.shape for gradient in found] == [tensor.shape for tensor in tensors]


@pytest.mark.skipif(not attention.can_measure_memory(), reason="this machine shows no peak memory")
def test_the_peak_of_the_plain_kernel_holds_its_two_matrices():
    matrices, output = 2 * 8 * 1024**2 * 4, 8 * 1024 * 64 * 4
    peak = attention.peak_of(scaled_dot_product_attention, 1024)
    assert matrices + output <= peak + 1e6
    assert peak <= 1.2 * (matrices + output)


def test_a_tiny_run_prints_and_writes_every_row(tmp_path, capsys):
    plan = Plan([16], False, [10], 1e-6, 1, 0, False, 0)
    report, threads = tmp_path / "report.txt", torch.get_num_threads()
    try:
        bench.run(plan, ["kernels", "plain"], report)
    finally:
        torch.set_num_threads(threads)
    text = report.read_text(encoding="utf-8")
    assert capsys.readouterr().out.startswith(text)
    assert f"torch {torch.__version__}" in text
    rows = [line for line in text.splitlines() if "N = 1" in line and "class" not in line]
    assert len(rows) == 6 + 4 + 4  # five cases, one with gradients; two rivals each
    assert all(float(row.split()[0]) > 0 for row in rows)


BUSY = "import time\nwhile time.process_time() < 0.3: pass"


@pytest.mark.skipif(sys.platform != "linux", reason="orphans can be adopted on Linux only")
def test_core_seconds_of_children_and_of_orphans_are_counted():
    orphan = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]])"
    for arguments, least in ((["-c", BUSY], (0.3, 0)), (["-c", orphan, BUSY], (0, 0.3))):
        command = [sys.executable, *arguments]
        script = f"from tools.core_seconds import run; print(*run({command!r}))"
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True)
        status, _, counted, orphans = map(float, done.stdout.split())
        assert status == 0
        assert counted >= least[0]
        assert least[1] <= orphans < least[1] + 0.3


def test_the_status_of_the_command_is_kept():
    command = [sys.executable, "-m", "tools.core_seconds", "sh", "-c", "exit 3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "core-seconds" in done.stdout
