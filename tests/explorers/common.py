"""What the tests of single explorers share: each says what torch gives and what words must tell."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import ModuleType

import torch
from torch.testing import assert_close

from attnlab import data_path
from attnlab.explorers import Explorer

one_of_each = cache(lambda kind: kind(ask=False))  # to make one takes longer than to move it


def at(kind: type[Explorer], **state: object) -> Explorer:
    """Return an explorer at a state; it is the same one at every call."""
    explorer = one_of_each(kind)
    traits = explorer.traits(state=True)
    start = {name: trait.default_value for name, trait in traits.items()}
    with explorer.hold_trait_notifications():
        for name, value in {**start, "ask": False, **state}.items():
            setattr(explorer, name, value)
    return explorer


def assert_same(got: object, wanted: object, explorer: Explorer) -> None:
    """Compare tensors or numbers with torch's default tolerances."""
    got, wanted = (torch.as_tensor(one) for one in (got, wanted))
    message = f"{explorer!r}:\n".__add__
    assert_close(got, wanted, check_dtype=False, equal_nan=True, msg=message)


def script(name: str) -> ModuleType:
    """Return the module that made a file of ``data/``."""
    spec = importlib.util.spec_from_file_location("made", data_path(name))
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class ExplorerTests:
    """Tests of one explorer at the states that a subclass lists."""

    kind: type[Explorer]
    states: Sequence[Mapping[str, object]]

    def expected(self, explorer: Explorer) -> Mapping[str, object]:
        """Return parts of the result, computed by torch alone."""
        raise NotImplementedError

    def check_words(self, explorer: Explorer, said: str, result: object) -> None:
        """Fail unless every number and every name in a sentence is that of the result."""
        raise NotImplementedError

    def explorers(self) -> Iterator[Explorer]:
        """Take the explorer from state to state."""
        for state in self.states:
            yield at(self.kind, **state)

    def test_the_result_is_what_torch_gives(self) -> None:
        for explorer in self.explorers():
            for name, wanted in self.expected(explorer).items():
                assert_same(getattr(explorer.result, name), wanted, explorer)

    def test_the_sentence_is_true(self) -> None:
        for explorer in self.explorers():
            assert "*" not in explorer.say()
            self.check_words(explorer, explorer.say(), explorer.result)


class DeclaredTests(ExplorerTests):
    """Tests of an explorer that sends frames; its lines of PyTorch can be run."""

    written: Mapping[str, str]  # what these lines compute, and its name in the result

    def given(self, explorer: Explorer) -> Mapping[str, object]:
        """Return what these lines begin with, beside torch."""
        return {}

    def check_frame(self, explorer: Explorer, frame: Mapping[str, dict], result: object) -> None:
        """Fail unless the panels show the result."""
        raise NotImplementedError

    def test_frames_show_the_result(self) -> None:
        for explorer in self.explorers():
            self.check_frame(explorer, explorer.frame_now(), explorer.result)

    def test_the_lines_of_pytorch_give_the_result(self) -> None:
        for explorer in self.explorers():
            names = {"torch": torch, **self.given(explorer)}
            exec(explorer.frame_now()["code"], names)
            for name, part in self.written.items():
                assert_same(names[name], getattr(explorer.result, part), explorer)
