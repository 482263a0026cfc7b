"""PeakMemory against the memory that torch's profiler records, and against counts on paper."""

import gc

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from attnlab import PeakMemory, tiled_attention

KIB = 1024


def recorded(function, *inputs) -> int:
    """Return the peak that the profiler records: the largest sum of what was taken and freed."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        output = function(*inputs)
    events = record.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    del output
    return max(torch.tensor([change for _, change in changes]).cumsum(0)).item()


def counted(function, *inputs) -> int:
    with PeakMemory() as memory:
        function(*inputs)
    return memory.peak


def plain(query, key, value):
    scores = query @ key.mT / 4
    weights = scores.softmax(dim=-1)
    return weights @ value


def in_blocks(query, key, value):
    return torch.cat([plain(rows, key, value) for rows in query.split(8, dim=-2)], dim=-2)


@pytest.mark.parametrize("function", [plain, in_blocks], ids=lambda f: f.__name__)
def test_the_peak_is_the_one_that_the_profiler_records(function):
    inputs = torch.randn(3, 3, 96, 16)
    inside = recorded(function, *inputs) - counted(function, *inputs)
    assert 0 <= inside < 64  # a product of several matrices takes some bytes for itself


def test_tensors_count_from_when_they_are_made_until_they_are_freed():
    before = torch.ones(KIB)
    with PeakMemory() as memory:
        one = torch.ones(KIB // 4)
        two = one + 1
        assert memory.now == 2 * KIB
        view = two.view(2, -1).T[:10]
        two.add_(1)
        before.mul_(2)
        del two
        assert memory.now == memory.peak == 2 * KIB  # the view keeps its memory
        del view, one
        assert memory.now == 0
        del before  # which was there before
        gc.collect()
        assert memory.now == 0
        three = torch.ones(KIB // 8)
        torch.eye(3).to_sparse()  # a tensor without a storage
    torch.ones(KIB).add(1)  # outside of the block
    assert memory.peak == 2 * KIB
    del three
    assert memory.now == 0


def test_gradients_and_what_is_kept_for_them_count():
    tensors = [torch.randn(1024, 16, requires_grad=True) for _ in range(3)]

    def train(function):
        return function(*tensors).sum().backward()

    assert counted(train, plain) > counted(plain, *tensors) > 2 * 1024 * 1024 * 4
    assert counted(train, tiled_attention) < counted(train, plain)
