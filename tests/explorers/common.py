"""What the tests of explorers share: an explorer at a state, and what it must show there."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab import explorers
from attnlab.explorers import Explorer

KINDS = [
    getattr(explorers, name)
    for name in explorers.__all__
    if name.endswith("Explorer") and name != "Explorer"
]
NUMBER = re.compile(r"(?<![\w.])(−?\d+(?:,\d{3})*(?:\.\d+)?)(?: ([KMGT]iB|[MGT])\b|(%))?")
UNITS = {"": 1, "%": 0.01, "M": 1e6, "G": 1e9, "T": 1e12}
UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}

one_of_each = cache(lambda kind: kind(ask=False))  # to make one takes longer than to move it


class Truth(NamedTuple):
    """What an explorer must show at a state, computed by torch in double precision."""

    result: Mapping[str, object]  # parts of its result
    numbers: Iterable[float] | None  # all numbers of its sentence, in their order
    frame: Mapping[str, object] = {}  # what panels show, by "key of the panel.value"
    reads: Mapping[str, Iterable[float]] = {}  # all numbers that are written in such a value
    curves: Mapping[str, Iterable[float]] = {}  # of each panel with curves: their values here
    said: Sequence[str] = ()  # words of the sentence
    code: str = ""  # its lines of PyTorch, where they are no part of a frame
    given: Mapping[str, object] = {}  # what these lines begin with
    made: Mapping[str, object] = {}  # what they compute; "last" is the value of the last


def at(kind: type[Explorer], **state: object) -> Explorer:
    """Return an explorer at a state; it is the same one at every call."""
    explorer = one_of_each(kind)
    start = {name: trait.default_value for name, trait in explorer.traits(state=True).items()}
    with explorer.hold_trait_notifications():
        for name, value in {**start, "ask": False, **state}.items():
            setattr(explorer, name, value)
    return explorer


def drawn(seed: int, *shape: int) -> Tensor:
    """Return the numbers of a random stream of its own."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def numbers_in(value: object) -> Iterator[tuple[float, float]]:
    """Yield each number in the texts of a value, and half a unit of its last digit."""
    if isinstance(value, str):
        for number, unit, percent in NUMBER.findall(value):
            decimals = len(number.partition(".")[2])
            scale = UNITS[unit or percent]
            number = float(number.replace("−", "-").replace(",", ""))
            yield number * scale, 0.51 * scale * 10**-decimals  # rounded from 32 bits
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from numbers_in(one)


def assert_reads(texts: object, wanted: Iterable[float], where: str) -> None:
    """Fail unless texts hold these numbers, each as exactly as it is written."""
    found, wanted = list(numbers_in(texts)), [float(one) for one in wanted]
    right = len(found) == len(wanted) and all(
        abs(number - one) <= half for (number, half), one in zip(found, wanted, strict=True)
    )
    assert right, f"{where}: {texts}\nhas not the numbers {wanted}"


def assert_same(got: object, wanted: object, where: str, digits: float = 1e-5) -> None:
    """Compare numbers with tolerance, all else exactly."""
    if isinstance(wanted, Tensor | float):
        got, wanted = (torch.as_tensor(one).double() for one in (got, wanted))
        near = {"rtol": digits, "atol": digits, "equal_nan": True}
        torch.testing.assert_close(got, wanted, msg=f"{where}:\n".__add__, **near)
    else:
        assert plain(got) == plain(wanted), where


def plain(value: object) -> object:
    """Return a value with lists instead of tensors and tuples."""
    if isinstance(value, Tensor):
        return value.tolist()
    return [plain(one) for one in value] if isinstance(value, list | tuple | range) else value
