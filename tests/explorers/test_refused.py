"""What an explorer refuses, it refuses with one short sentence."""

import pytest
import torch

from attnlab.explorers import (
    BankExplorer,
    CostExplorer,
    MaskExplorer,
    OrderExplorer,
    RealHeadsExplorer,
    ScalingExplorer,
    SoftLookupExplorer,
    YourAttentionExplorer,
)

NAN = float("nan")
REFUSED = {
    BankExplorer: [
        ({"moved": None}, TypeError, r"moved must be a list of \(word, x, y\), got None"),
        ({"moved": "river"}, TypeError, "moved must be a list"),
        ({"moved": [("river", 1)]}, TypeError, r"must hold \(word, x, y\), got \('river', 1\)"),
        ({"moved": [(3, 1, 1)]}, ValueError, "got 3"),
        ({"moved": [("river", "1", 1)]}, TypeError, "must give 'river' two numbers, got '1'"),
        ({"moved": [("river", True, 1)]}, TypeError, "got True"),
        ({"moved": [("river", NAN, 1)]}, ValueError, "within ±3.5 across and ±2.5 up, got nan"),
        ({"moved": [("river", 1, 2.51)]}, ValueError, "and ±2.5 up, got 2.51"),
        ({"moved": [("river", -(10**400), 0)]}, ValueError, "within ±3.5 across"),
        ({"moved": [["x" * 10_000, 0, 0]]}, ValueError, r"of river, .*, got 'xxx.*\.\.\."),
    ],
    CostExplorer: [({"d_model": 0}, ValueError, "must be one of 256, 512, 1024, 4096, got 0")],
    MaskExplorer: [
        ({"tokens": ["a"] * 10_000}, ValueError, "tokens must be 2 to 10 words, got 10000"),
        ({"tokens": ["a"]}, ValueError, "tokens must be 2 to 10 words, got 1"),
        ({"tokens": "The cat"}, TypeError, "tokens must be a list of words"),
        ({"tokens": [1, 2]}, TypeError, "tokens must be words, got 1"),
        ({"tokens": ["x" * 1000, "b"]}, ValueError, "1 to 12 letters, got 'xxx"),
        ({"tokens": ["", "b"]}, ValueError, "1 to 12 letters"),
        ({"padding": 3}, TypeError, "padding must be a list of positions, got 3"),
        ({"padding": [6]}, ValueError, "padding must hold positions 0 to 5, got 6"),
        ({"padding": [-1]}, ValueError, "positions 0 to 5, got -1"),
        ({"padding": ["The"]}, TypeError, "padding must hold integers, got 'The'"),
        ({"toggled": [(1, 2, 3)]}, TypeError, r"toggled must hold \(query, key\) pairs"),
        ({"toggled": [(0, 9)]}, ValueError, "toggled must hold positions 0 to 5, got 9"),
        ({"windows": 3}, TypeError, "MaskExplorer has no 'windows'; there is ask, fill"),
        ({"function": 3}, TypeError, "function must be callable, got int"),
    ],
    OrderExplorer: [
        ({"order": "012345"}, TypeError, "order must be a list of places, got '012345'"),
        ({"order": torch.arange(6)}, TypeError, "order must be a list of places"),
        ({"order": [0, 1, 2, 3, 4, 4]}, ValueError, "must hold each of 0 to 5 once, as integers"),
        ({"order": [0, True, 2, 3, 4, 5]}, ValueError, "each of 0 to 5 once, as integers"),
        ({"order": [0, 1.0, 2, 3, 4, 5]}, ValueError, "as integers"),
        ({"order": list(range(10_000))}, ValueError, r"got \[0, 1, .*\.\.\."),
    ],
    RealHeadsExplorer: [
        ({"sentence": 3}, TypeError, "text must be a string, got int 3"),
        ({"word": -1}, ValueError, "word must be an integer from 0 to 23, got -1"),
        ({"word": 24}, ValueError, "got 24"),
        ({"word": "bank"}, ValueError, "got 'bank'"),
        ({"word": 1.0}, ValueError, "got 1.0"),
    ],
    ScalingExplorer: [({"function": torch.softmax}, TypeError, "function is not supported here")],
    SoftLookupExplorer: [
        ({"query": (3, 0)}, ValueError, "query must hold numbers from -1.5 to 1.5, got 3"),
        ({"query": (NAN, 0)}, ValueError, "got nan"),
        ({"query": (0, float("-inf"))}, ValueError, "got -inf"),
        ({"query": (10**400, 0)}, ValueError, "got 1000"),
        ({"query": (1,)}, TypeError, r"query must be two numbers \(right, up\), got \(1,\)"),
        ({"query": torch.ones(2, 2)}, TypeError, r"must hold numbers, got \[1.0, 1.0\]"),
        ({"query": torch.tensor(1.0)}, TypeError, "two numbers .* got 1.0"),
        ({"query": "ab"}, TypeError, "two numbers .* got 'ab'"),
        ({"query": (True, 0)}, TypeError, "query must hold numbers, got True"),
        ({"query": [0.0] * 10_000}, TypeError, r"got \[0.0, .*\.\.\."),
    ],
    YourAttentionExplorer: [
        ({"function": None}, TypeError, "function must be callable, got None; leave it out"),
        ({"function": 3}, TypeError, "function must be callable, got int"),
        ({"tokens": ["a"]}, ValueError, "tokens must be 2 to 10 words, got 1"),
    ],
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_shown_gets_one_sentence(kind):
    for arguments, error, sentence in REFUSED[kind]:
        with pytest.raises(error, match=sentence) as found:
            kind(**arguments)
        assert len(str(found.value)) < 200
        assert "\n" not in str(found.value)
